"""The page index of a column chunk: where its data pages are, how many rows each has, and the bounds of their values.

    ColumnIndex    for each page, whether it has only nulls, and its min and max
    OffsetIndex    for each page, its offset, its size with its header, and its first row

(parquet-format, PageIndex.md.) Here the two are held against each other and against the footer. Whether the bounds can
be trusted is not decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import Footer, Plan, pages_extent
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.format.thrift_io import decode


class Page(NamedTuple):
    """A data page: its bytes, header included, its rows, and its bounds, None if it has only nulls."""

    extent: ByteRange
    num_rows: int
    bounds: tuple[bytes, bytes] | None


def index_extents(footer: Footer, row_group: int, leaf: LeafColumn) -> list[ByteRange]:
    """Return where a chunk's column index and offset index are; nothing if it does not have both."""
    chunk = footer.whole_column_chunk(row_group, leaf.index)
    places = (
        (chunk.column_index_offset, chunk.column_index_length),
        (chunk.offset_index_offset, chunk.offset_index_length),
    )
    extents = [ByteRange(offset, offset + length) for offset, length in places if offset and length]
    return extents if len(extents) == 2 and all(0 < e.start < e.stop <= footer.start for e in extents) else []


def offset_index_extent(footer: Footer, row_group: int, leaf: LeafColumn) -> ByteRange | None:
    """Return where a chunk's offset index is, if it has one."""
    chunk = footer.whole_column_chunk(row_group, leaf.index)
    offset, length = chunk.offset_index_offset, chunk.offset_index_length
    extent = ByteRange(offset, offset + length) if offset and length else None
    return extent if extent and 0 < extent.start < extent.stop <= footer.start else None


def read_places(footer: Footer, row_group: int, leaf: LeafColumn) -> Plan[list[Page] | None]:
    """Plan to return all data pages of a chunk that is not repeated, without bounds; None as `read_pages` does."""
    extent = offset_index_extent(footer, row_group, leaf)
    if extent is None:
        return None
    (offset_index,) = yield [extent]
    try:
        places, _ = decode(ttypes.OffsetIndex, offset_index)
    except CorruptFileError:
        return None
    return _placed(footer, row_group, leaf, places)


def _placed(footer: Footer, row_group: int, leaf: LeafColumn, places: Any) -> list[Page] | None:
    group, chunk = footer.row_groups[row_group], footer.whole_column_chunk(row_group, leaf.index).meta_data
    extents = list(_extents(places.page_locations))
    rows = list(_row_counts(places.page_locations, group.num_rows))
    # A page that the index does not have, or has elsewhere, would not be searched.
    is_whole = [chunk.data_page_offset, *(e.stop for e in extents)] == [
        *(e.start for e in extents),
        pages_extent(chunk)[1],
    ]
    if not is_whole or len(extents) != len(rows) or min(rows) < 0:
        return None
    return [Page(*page, None) for page in zip(extents, rows, strict=True)]


def read_pages(footer: Footer, row_group: int, leaf: LeafColumn) -> Plan[list[Page] | None]:
    """Plan to return all data pages of a chunk that is not repeated; None where its index cannot be relied on."""
    extents = index_extents(footer, row_group, leaf)
    if not extents:
        return None
    column_index, offset_index = yield extents
    try:
        bounds, _ = decode(ttypes.ColumnIndex, column_index)
        places, _ = decode(ttypes.OffsetIndex, offset_index)
    except CorruptFileError:
        return None
    pages = _placed(footer, row_group, leaf, places)
    if pages is None:
        return None
    listed = list(_bounds(bounds, [page.num_rows for page in pages]))
    if None in listed or len(listed) != len(pages):
        return None
    return [page._replace(bounds=pair or None) for page, pair in zip(pages, listed, strict=True)]


def _extents(locations: list[Any] | None) -> Iterator[ByteRange]:
    for at in locations or ():
        yield ByteRange(at.offset or 0, (at.offset or 0) + (at.compressed_page_size or 0))


def _row_counts(locations: list[Any] | None, num_rows: int) -> Iterator[int]:
    firsts = [-1 if at.first_row_index is None else at.first_row_index for at in locations or ()]
    if firsts[:1] == [0]:
        yield from (after - first for first, after in pairwise([*firsts, num_rows]))


def _bounds(index: Any, rows: list[int]) -> Iterator[tuple[bytes, bytes] | tuple[()] | None]:
    """Yield each page's min and max, nothing where it has only nulls, and None where it contradicts itself."""
    lists = index.null_pages or (), index.min_values or (), index.max_values or ()
    nulls = index.null_counts or [None] * len(rows)
    if not all(len(values) == len(rows) for values in (*lists, nulls)):
        return
    for is_null, low, high, null_count, num_rows in zip(*lists, nulls, rows, strict=True):
        if is_null:
            yield None if low or high or null_count not in (None, num_rows) else ()
        else:
            yield None if null_count is not None and not 0 <= null_count <= num_rows else (low, high)
