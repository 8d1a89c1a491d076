"""Plans a file that keeps some row groups of an old one byte for byte, and has others written again or not at all.

    PAR1 | pages of each row group | page indexes | filters | footer

Only what the old footer points to is taken over: pages, page indexes and filters. What else lies in the old file, such
as earlier footers and filters that were dropped, may hold values that are meant to be gone. What moves is pointed to
from the footer and from offset indexes; everything else in them keeps its bytes (see `fields.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.format.fields import (
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Change,
    changed,
    fields_of,
    integer,
    last_field,
    list_of,
    number_at,
    structs_in,
)
from parquet_bloom.format.footer import MAGIC, Footer, Plan, pages_extent
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.format.splice import splice_key_values

# The ids of parquet.thrift.
_NUM_ROWS, _ROW_GROUPS = 3, 4  # FileMetaData
_COLUMNS, _BYTE_SIZE, _ROWS, _FILE_OFFSET, _COMPRESSED_SIZE, _ORDINAL = 1, 2, 3, 5, 6, 7  # RowGroup
_CHUNK_OFFSET, _META_DATA, _OFFSET_INDEX, _OFFSET_LENGTH, _COLUMN_INDEX, _COLUMN_LENGTH = (
    2,
    3,
    4,
    5,
    6,
    7,
)  # ColumnChunk
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _FILTER_OFFSET, _FILTER_LENGTH = 9, 10, 11, 14, 15  # ColumnMetaData
_LOCATIONS, _PAGE_OFFSET = 1, 1  # OffsetIndex, PageLocation


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A column chunk that was written again: its ColumnMetaData and offset index count from the first byte of `pages`.

    The other fields of its ColumnMetaData are as they are to be stored.
    """

    metadata: bytes
    pages: bytes
    column_index: bytes | None
    offset_index: bytes | None


class OldParts(NamedTuple):
    """Where the page indexes and the filter of an old column chunk are, None for what it does not have."""

    column_index: ByteRange | None
    offset_index: ByteRange | None
    filter: ByteRange | None


@dataclass(slots=True)
class _Chunk:
    """A column chunk of the new file."""

    encoded: bytes  # ColumnChunk as in the old footer
    metadata: bytes  # ColumnMetaData, whose offsets are moved by `moved`
    moved: int
    pages: ByteRange  # in the new file
    column_index: bytes | ByteRange | None
    offset_index: bytes | None
    filter: ByteRange | None
    changes: dict[int, Change]


@dataclass(slots=True)
class _Group:
    encoded: bytes  # RowGroup as in the old footer
    columns: list[bytes]  # its ColumnChunks
    num_rows: int
    start: int
    chunks: list[_Chunk]
    is_new: bool


class Assembly:
    """The plan of a new file. Row groups are added in order; each call returns what comes next in the new file.

    What is returned are bytes, and ranges of the old file to copy. `places` are where each old column chunk's indexes
    and filter are, by row group and leaf, and `offset_indexes` what its offset index is; only those of row groups that
    are copied are needed.
    """

    def __init__(
        self,
        footer: Footer,
        places: Mapping[tuple[int, int], OldParts],
        offset_indexes: Mapping[tuple[int, int], bytes],
    ) -> None:
        self._footer, self._places, self._offset_indexes = footer, places, offset_indexes
        raw = footer.raw
        self._starts = structs_in(raw, last_field(raw, 0, _ROW_GROUPS, LIST))
        self._groups: list[_Group] = []
        self.position: int = 0

    def begin(self) -> bytes:
        """Return the file's first bytes."""
        self.position = len(MAGIC)
        return MAGIC

    def copy(self, row_group: int) -> list[ByteRange]:
        """Add an old row group as it is; return the ranges that hold its pages."""
        encoded, columns = self._old_group(row_group)
        start = self.position
        extents = [(pages_of(self._footer, row_group, leaf), leaf.index) for leaf in self._footer.leaves]
        ranges: list[ByteRange] = []
        chunks: dict[int, _Chunk] = {}
        for extent, column in sorted(extents):  # in the order of the old file
            moved = self.position - extent.start
            if ranges and ranges[-1].stop == extent.start:
                ranges[-1] = ByteRange(ranges[-1].start, extent.stop)
            elif len(extent):
                ranges.append(extent)
            self.position += len(extent)
            place = self._places[row_group, column]
            index = self._offset_indexes.get((row_group, column))
            chunks[column] = _Chunk(
                columns[column],
                _metadata_in(columns[column]),
                moved,
                ByteRange(self.position - len(extent), self.position),
                place.column_index if index is not None else None,
                None if index is None else moved_index(index, moved),
                place.filter,
                {_FILTER_OFFSET: None, _FILTER_LENGTH: None} if place.filter is None else {},
            )
        num_rows = self._footer.row_groups[row_group].num_rows
        self._groups.append(
            _Group(encoded, columns, num_rows, start, [chunks[c] for c in sorted(chunks)], is_new=False)
        )
        return ranges

    def replace(self, row_group: int, num_rows: int) -> None:
        """Add an old row group that was written again with fewer rows; its chunks are added next, one for each leaf."""
        encoded, columns = self._old_group(row_group)
        self._groups.append(_Group(encoded, columns, num_rows, self.position, [], is_new=True))

    def add_chunk(self, new: NewChunk) -> bytes:
        """Add the next column chunk of the row group that was replaced last; return its pages."""
        group = self._groups[-1]
        encoded = group.columns[len(group.chunks)]
        moved = self.position
        index = None if new.offset_index is None else moved_index(new.offset_index, moved)
        column_index = new.column_index if index is not None else None
        self.position += len(new.pages)
        pages = ByteRange(moved, self.position)
        group.chunks.append(_Chunk(encoded, new.metadata, moved, pages, column_index, index, None, {}))
        return new.pages

    def tail(self) -> Iterator[bytes | ByteRange]:
        """Yield page indexes, then the filters of copied row groups."""
        chunks = [chunk for group in self._groups for chunk in group.chunks]
        for chunk in chunks:
            chunk.changes |= dict.fromkeys((_OFFSET_INDEX, _OFFSET_LENGTH, _COLUMN_INDEX, _COLUMN_LENGTH))
        for chunk in chunks:
            if chunk.column_index is not None:
                yield from self._add(chunk, chunk.column_index, _COLUMN_INDEX, _COLUMN_LENGTH)
        for chunk in chunks:
            if chunk.offset_index is not None:
                yield from self._add(chunk, chunk.offset_index, _OFFSET_INDEX, _OFFSET_LENGTH)
        for chunk in chunks:
            if chunk.filter is not None:
                chunk.changes |= {
                    _FILTER_OFFSET: (I64, integer(self.position)),
                    _FILTER_LENGTH: _i32(len(chunk.filter)),
                }
                yield self._take(chunk.filter)

    def _add(self, chunk: _Chunk, part: bytes | ByteRange, offset: int, length: int) -> Iterator[bytes | ByteRange]:
        chunk.changes |= {offset: (I64, integer(self.position)), length: _i32(len(part))}
        yield self._take(part)

    def _take(self, part: bytes | ByteRange) -> bytes | ByteRange:
        self.position += len(part)
        return part

    def footer(self, key_values: Mapping[str, str | None]) -> bytes:
        """Return the new FileMetaData, with these entries of the key-value metadata set or taken out."""
        groups = [_encoded_group(group, number) for number, group in enumerate(self._groups)]
        raw = changed(
            self._footer.raw,
            0,
            {
                _NUM_ROWS: (I64, integer(sum(group.num_rows for group in self._groups))),
                _ROW_GROUPS: (LIST, list_of(groups)),
            },
        )
        return splice_key_values(raw, key_values) if key_values else raw

    def _old_group(self, row_group: int) -> tuple[bytes, list[bytes]]:
        """Return an old RowGroup, and its ColumnChunks."""
        start, stop = self._starts[row_group : row_group + 2]
        encoded = self._footer.raw[start:stop]
        chunks = structs_in(encoded, last_field(encoded, 0, _COLUMNS, LIST))
        return encoded, [encoded[at:end] for at, end in pairwise(chunks)]


def pages_of(footer: Footer, row_group: int, leaf: LeafColumn) -> ByteRange:
    """Return where the pages of a column chunk are. Raises `CorruptFileError` if they cannot be there."""
    chunk = footer.chunk(row_group, leaf)
    start, stop = pages_extent(chunk)
    if start == stop and not chunk.num_values:
        return ByteRange(start, start)
    if not len(MAGIC) <= start < stop <= footer.start:
        raise CorruptFileError(
            f"row group {row_group}, column {leaf.name}: its pages are not between the magic and the footer"
        )
    return ByteRange(start, stop)


def require_apart(footer: Footer, row_groups: Iterable[int]) -> None:
    """Raise `CorruptFileError` if column chunks of these row groups share bytes."""
    extents = sorted(pages_of(footer, group, leaf) for group in row_groups for leaf in footer.leaves)
    extents = [extent for extent in extents if len(extent)]
    if any(before.stop > after.start for before, after in pairwise(extents)):
        raise CorruptFileError("column chunks overlap each other")


def old_parts(footer: Footer, row_group: int, leaf: LeafColumn, filter_extent: ByteRange | None) -> OldParts:
    """Return where a column chunk's indexes and filter are; its indexes only if they are within the file."""
    chunk = footer.whole_column_chunk(row_group, leaf.index)

    def extent(offset: int | None, length: int | None) -> ByteRange | None:
        if not offset or not length:
            return None
        if not len(MAGIC) <= offset < offset + length <= footer.start:
            raise CorruptFileError(
                f"row group {row_group}, column {leaf.name}: its page index is not between the magic and the footer"
            )
        return ByteRange(offset, offset + length)

    return OldParts(
        extent(chunk.column_index_offset, chunk.column_index_length),
        extent(chunk.offset_index_offset, chunk.offset_index_length),
        filter_extent,
    )


def read_offset_indexes(places: Mapping[tuple[int, int], OldParts]) -> Plan[dict[tuple[int, int], bytes]]:
    """Plan to return the offset indexes, by row group and leaf."""
    wanted = {key: place.offset_index for key, place in places.items() if place.offset_index is not None}
    found = yield list(wanted.values())
    return dict(zip(wanted, found, strict=True))


def _encoded_group(group: _Group, number: int) -> bytes:
    chunks = [_encoded_chunk(chunk) for chunk in group.chunks]
    present = {field.id for field in fields_of(group.encoded, 0)[0]}
    changes: dict[int, Change] = {_COLUMNS: (LIST, list_of(chunks))}
    if group.is_new:
        sizes = [_sizes(chunk.metadata) for chunk in group.chunks]
        changes[_ROWS] = I64, integer(group.num_rows)
        changes[_BYTE_SIZE] = I64, integer(sum(size for size, _ in sizes))
        if _COMPRESSED_SIZE in present:
            changes[_COMPRESSED_SIZE] = I64, integer(sum(size for _, size in sizes))
    if _FILE_OFFSET in present:
        # Readers take the start of the first column's pages for that of the row group.
        changes[_FILE_OFFSET] = I64, integer(group.chunks[0].pages.start if group.chunks else group.start)
    if _ORDINAL in present:
        changes[_ORDINAL] = (I16, integer(number)) if number < 2**15 else None
    return changed(group.encoded, 0, changes)


def _encoded_chunk(chunk: _Chunk) -> bytes:
    moved: dict[int, Change] = {}
    for field in fields_of(chunk.metadata, 0)[0]:
        if field.id in (_DATA_PAGE, _DICTIONARY_PAGE, _INDEX_PAGE):
            offset = number_at(chunk.metadata, field.value) + chunk.moved
            if chunk.pages.start <= offset <= chunk.pages.stop:  # some writers have a 0 for what is not there
                moved[field.id] = I64, integer(offset)
            else:
                moved[field.id] = None
    of_filter = {id: change for id, change in chunk.changes.items() if id in (_FILTER_OFFSET, _FILTER_LENGTH)}
    metadata = changed(chunk.metadata, 0, moved | of_filter)
    others = {id: change for id, change in chunk.changes.items() if id not in of_filter}
    # A copy of the metadata that some writers leave behind the pages, which the old offset may point to, is not kept.
    changes: dict[int, Change] = {_CHUNK_OFFSET: (I64, integer(0)), _META_DATA: (STRUCT, metadata), **others}
    return changed(chunk.encoded, 0, changes)


def _metadata_in(encoded: bytes) -> bytes:
    """Return the ColumnMetaData in a ColumnChunk."""
    field = last_field(encoded, 0, _META_DATA, STRUCT)
    return encoded[field.value : field.end]


def _sizes(metadata: bytes) -> tuple[int, int]:
    """Return the uncompressed and the compressed size of a chunk."""
    uncompressed, compressed = (number_at(metadata, last_field(metadata, 0, id, I64).value) for id in (6, 7))
    return uncompressed, compressed


def moved_index(index: bytes, moved: int) -> bytes:
    """Return an OffsetIndex whose pages are elsewhere."""
    field = last_field(index, 0, _LOCATIONS, LIST)
    locations = []
    for start, stop in pairwise(structs_in(index, field)):
        location = index[start:stop]
        at = number_at(location, last_field(location, 0, _PAGE_OFFSET, I64).value)
        locations.append(changed(location, 0, {_PAGE_OFFSET: (I64, integer(at + moved))}))
    return changed(index, 0, {_LOCATIONS: (LIST, list_of(locations))})


def _i32(value: int) -> tuple[int, bytes]:
    if value >= 2**31:
        raise UnsupportedError(f"a part of {value:,} bytes is too long for a footer")
    return I32, integer(value)
