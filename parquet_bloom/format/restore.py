"""Finds the original file inside one that `add` and `drop` have appended to."""

from __future__ import annotations

from typing import Any

from parquet_bloom.errors import (
    CorruptFileError,
)
from parquet_bloom.format.footer import MAGIC, Footer, Plan, pages_extent, parse_footer
from parquet_bloom.format.parquet_thrift import ttypes
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.thrift_io import decode

_SCAN_STEP = 4 * 1024 * 1024


def whole_prefixes(footer: Footer) -> Plan[list[Footer]]:
    """Plan to return the footers of all prefixes that are whole Parquet files with the same pages, shortest first."""
    metadata, _ = decode(ttypes.FileMetaData, footer.raw)
    position = _end_of_pages(metadata)
    pages = _without_filters(metadata)
    carried = b""
    found = []
    while position < footer.file_size:
        stop = min(position + _SCAN_STEP, footer.file_size)
        data = yield from _read(position, stop)
        window, start = carried + data, position - len(carried)
        at = window.find(MAGIC)
        while at >= 0:
            end = start + at + len(MAGIC)
            if end < footer.file_size and (state := (yield from _same_file(end, pages, metadata))):
                found.append(state)
            at = window.find(MAGIC, at + 1)
        carried, position = window[-(len(MAGIC) - 1) :], stop
    return [*found, footer]


def _same_file(end: int, pages: Any, newest: Any) -> Plan[Footer | None]:
    if end < 12:
        return None
    tail = yield from _read(end - 8, end)
    length = int.from_bytes(tail[:4], "little")
    start = end - 8 - length
    if length == 0 or start < _end_of_pages(newest):
        return None
    raw = yield from _read(start, end - 8)
    try:
        footer = parse_footer(end, raw)
        for row_group, leaf, _ in footer.chunks():
            footer.filter_location(row_group, leaf)
        return footer if _without_filters(decode(ttypes.FileMetaData, raw)[0]) == pages else None
    except CorruptFileError:
        return None


def _read(start: int, stop: int) -> Plan[bytes]:
    """Plan to return bytes that the file has; raises `CorruptFileError` for fewer: a footer may be in the rest."""
    (data,) = yield [ByteRange(start, stop)]
    if len(data) != stop - start:
        raise CorruptFileError(f"bytes {start} to {stop} were requested, but {len(data)} were read", offset=start)
    return data


def _end_of_pages(metadata: Any) -> int:
    ends = [len(MAGIC)]
    for group in metadata.row_groups:
        for column in group.columns:
            chunk = column.meta_data
            size = chunk.total_compressed_size
            if size is None or size < 0:
                raise CorruptFileError(f"a column chunk's pages take {size} bytes; where they end is not known")
            ends.append(pages_extent(chunk)[1])
    return max(ends)


def _without_filters(metadata: Any) -> tuple[Any, ...]:
    """Return what makes two footers describe the same pages; takes the filters out of `metadata`."""
    for group in metadata.row_groups:
        for column in group.columns:
            column.meta_data.bloom_filter_offset = column.meta_data.bloom_filter_length = None
    return metadata.schema, metadata.num_rows, metadata.row_groups
