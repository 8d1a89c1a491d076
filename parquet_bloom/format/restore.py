"""Finds the original file inside one that `add` and `drop` have appended to."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import Any

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import MAGIC, Footer, Plan, most_footer_bytes, pages_extent, parse_footer
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.splice import splice_filters
from parquet_bloom.format.thrift_io import decode

_SCAN_STEP = 4 * 1024 * 1024


_MOST_REJECTED = 64 * 1024 * 1024
"""Bytes that are read for what only looks like a footer, in a small file; the footers that we find are apart."""


def whole_prefixes(footer: Footer) -> Plan[list[Footer]]:
    """Plan to return the footers of all prefixes that are whole Parquet files with the same pages, shortest first."""
    newest = _Newest(footer)
    position = newest.end_of_pages
    budget = _MOST_REJECTED + 2 * footer.file_size
    carried = b""
    found = []
    while position < footer.file_size:
        stop = min(position + _SCAN_STEP, footer.file_size)
        data = yield from _read(position, stop)
        window, start = carried + data, position - len(carried)
        at = window.find(MAGIC)
        while at >= 0:
            end = start + at + len(MAGIC)
            if end < footer.file_size:
                num_bytes, state = yield from _same_file(end, newest)
                if state is not None:
                    found.append(state)
                elif (budget := budget - num_bytes) < 0:
                    raise UnsupportedError("too many bytes of the file look like an earlier footer")
            at = window.find(MAGIC, at + 1)
        carried, position = window[-(len(MAGIC) - 1) :], stop
    return [*found, footer]


class _Newest:
    """The footer that a file has now, and what earlier ones are compared with."""

    def __init__(self, footer: Footer) -> None:
        self._footer = footer
        self.end_of_pages = _end_of_pages(footer)

    @cached_property
    def _pages(self) -> tuple[Any, ...]:
        return _without_filters(self._footer)

    @cached_property
    def _cleared(self) -> bytes | None:
        """The footer without filters; None where a column chunk has a problem, whichever footer it is in."""
        if any(self._footer.chunk_problem(row_group, leaf) for row_group, leaf, _ in self._footer.chunks()):
            return None
        return _cleared(self._footer)

    def require_same_pages(self, footer: Footer) -> None:
        """Raise `CorruptFileError` unless another footer is sound and describes the same pages."""
        if self._cleared is not None and _cleared(footer) == self._cleared:  # which is quicker than to decode them
            for row_group, leaf in footer.chunks_with_filters(footer.leaves):
                footer.filter_location(row_group, leaf)
            return
        for row_group, leaf, _ in footer.chunks():
            footer.filter_location(row_group, leaf)
        if _without_filters(footer) != self._pages:
            raise CorruptFileError("it describes other pages")


def _cleared(footer: Footer) -> bytes:
    places = product(range(footer.num_row_groups), range(len(footer.leaves)))
    return splice_filters(footer.raw, dict.fromkeys(places))


def _same_file(end: int, newest: _Newest) -> Plan[tuple[int, Footer | None]]:
    """Plan to return the footer of a prefix that ends here, if it is one of the same file, and how much was read."""
    if end < 12:
        return 0, None
    tail = yield from _read(end - 8, end)
    length = int.from_bytes(tail[:4], "little")
    start = end - 8 - length
    if length == 0 or start < newest.end_of_pages or length > most_footer_bytes.get():
        return 0, None
    raw = yield from _read(start, end - 8)
    try:
        footer = parse_footer(end, raw)
        newest.require_same_pages(footer)
    except (CorruptFileError, UnsupportedError):
        return length, None
    return length, footer


def _read(start: int, stop: int) -> Plan[bytes]:
    """Plan to return bytes that the file has; raises `CorruptFileError` for fewer: a footer may be in the rest."""
    (data,) = yield [ByteRange(start, stop)]
    if len(data) != stop - start:
        raise CorruptFileError(f"bytes {start} to {stop} were requested, but {len(data)} were read", offset=start)
    return data


def _end_of_pages(footer: Footer) -> int:
    ends = [len(MAGIC)]
    for _, leaf, chunk in footer.chunks():
        size = chunk.total_compressed_size if chunk is not None else None
        if size is None or size < 0:
            raise CorruptFileError(f"the pages of {leaf.name} take {size} bytes; where they end is not known")
        ends.append(pages_extent(chunk)[1])
    return max(ends)


def _without_filters(footer: Footer) -> tuple[Any, ...]:
    """Return what makes two footers describe the same pages, without the filters."""
    metadata, _ = decode(ttypes.FileMetaData, footer.raw)
    for group in metadata.row_groups:
        for column in group.columns:
            column.meta_data.bloom_filter_offset = column.meta_data.bloom_filter_length = None
    return metadata.schema, metadata.num_rows, metadata.row_groups
