"""Plans: what to read for a footer, and for a filter. They yield byte ranges and are sent bytes; no I/O here.

A file ends in `FileMetaData | its length, 4 bytes little-endian | PAR1` (parquet-format README, "File format").
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

from parquet_bloom import _kernel
from parquet_bloom.errors import (
    CorruptFileError,
    NotParquetError,
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.encryption import (
    SIGNATURE_BYTES,
    Decryption,
    FileCipher,
    Seal,
    open_footer,
    open_signed,
    read_sealed_filter,
)
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.sbbf import SplitBlockBloomFilter, read_header
from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType, format_path, leaf_columns, node_ids
from parquet_bloom.format.thrift_io import decode, varint

_Result = TypeVar("_Result")
_Encoded = TypeVar("_Encoded", bytes, tuple[bytes, ...])
Plan = Generator[list[ByteRange], list[bytes], _Result]
"""A computation that yields the ranges that it needs next and is sent their bytes, in the same order."""

MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"
FOOTER_GUESS = 64 * 1024
"""First request from a file's end: holds nearly every footer, and often the filters before it."""

LOCAL_FOOTER_GUESS = 8 * 1024
"""The same on a local disk, where another request costs less than bytes that are not needed."""

FILTER_GUESS = 256 * 1024
"""Bitset bytes asked for at once when `bloom_filter_length` is missing."""

HEADER_ROOM = 64
"""Asked for on top of the guess, so that a bitset of exactly the guess still comes in one request."""


class FilterLocation(NamedTuple):
    """Where a column chunk says that its filter is; `length` is None where the footer does not have it.

    `seal` opens the filter if it is encrypted.
    """

    offset: int
    length: int | None
    seal: Seal | None = None


@dataclass(slots=True)
class Derived:
    """What other rooms compute from a footer and keep with it, for the next call that finds it in the cache.

    Each field says who writes it; what has a type of a higher room is Any here.
    """

    renamed_leaves: dict[Hashable, tuple[LeafColumn, ...]] = field(default_factory=dict)  # tables, spark: `Columns`
    facts: dict[int, Any] = field(default_factory=dict)  # predicates/evaluation: list of `Facts`, by the leaf's index
    hudi_filters: tuple[Any, ...] | None = None  # filters/stored: those in the footer; None before it was searched
    sound_headers: set[int] = field(default_factory=set)  # format/probing: the offsets of filters' headers


class RowGroup(NamedTuple):
    """A row group's rows, the first byte of its pages and the one after the last."""

    num_rows: int
    start: int
    stop: int


_ROW_GROUPS = struct.Struct("=3q")


def unpack_row_groups(packed: bytes) -> tuple[RowGroup, ...]:
    """Return the row groups that `Footer.packed_row_groups` stands for."""
    return tuple(map(RowGroup._make, _ROW_GROUPS.iter_unpack(packed)))


class ChunkRecord(NamedTuple):
    """What the kernel reads of a column chunk at once; `flags` say which of the numbers are there."""

    flags: int
    num_values: int
    null_count: int
    compressed_size: int
    data_offset: int
    dictionary_offset: int
    filter_offset: int
    filter_length: int
    low_start: int
    low_stop: int
    high_start: int
    high_stop: int
    codec: int

    @property
    def filter_place(self) -> tuple[int | None, int | None]:
        """What it says of its filter's offset and length."""
        return (
            self.filter_offset if self.flags & HAS_FILTER else None,
            self.filter_length if self.flags & HAS_FILTER_LENGTH else None,
        )


class ChunkPlaces(NamedTuple):
    """Where a value lies in a column's chunks, and the filters of those that it lies within.

    `codes` has a byte for each row group: `OUTSIDE` the bounds or within them. `length` is that of every filter, -1 if
    they differ.
    """

    codes: bytes
    offsets: list[int]
    length: int


OUTSIDE = 1

HAS_LOW, HAS_HIGH, HAS_NULL_COUNT, KNOWS_LOW_EXACT, LOW_IS_EXACT, KNOWS_HIGH_EXACT, HIGH_IS_EXACT = (
    1 << bit for bit in (0, 1, 4, 5, 6, 7, 8)
)
HAS_STATISTICS, HAS_DICTIONARY, HAS_FILTER, HAS_FILTER_LENGTH, IS_IN_ORDER = (1 << bit for bit in (9, 11, 12, 13, 15))

_CHUNK_RECORDS = struct.Struct("=13q")
_NO_CHUNKS = b"\x19\x0c"  # of a row group, field 1: a list of no structs


@lru_cache(maxsize=1024)
def _encoded_path(path: tuple[str, ...]) -> bytes:
    """Return a path in the form that writers give it: a compact list of strings."""
    names = [name.encode("utf-8", "replace") for name in path]
    head = bytes([len(names) << 4 | 8]) if len(names) < 15 else b"\xf8" + varint(len(names))
    return head + b"".join(varint(len(name)) + name for name in names)


PackedFooter = tuple[int, bytes, bytes, bytes]
"""A file's size, and its footer: the bytes before the row groups, the row groups, and the bytes after them. The first
and the last are the same objects for many files of one writer."""


@dataclass
class Footer:
    """A file's footer: the bytes as they are, and the parts of them that filters need. Its fields do not change.

    `raw` runs from `start` to the length field at the end, so it may hold more than FileMetaData. Of a footer that the
    kernel walked, `chunk_starts` has where each ColumnChunk is in it, row group by row group, and structs are decoded
    one at a time; of another one it is None.
    """

    file_size: int
    raw: bytes
    leaves: tuple[LeafColumn, ...]
    num_rows: int
    packed_row_groups: bytes
    created_by: str  # what the writer calls itself; empty when it does not
    ordered_by_type: tuple[bool, ...] | None  # whether each leaf's min_value and max_value are in its type's order
    notes_at: tuple[int, int] | None  # start and stop, in `raw`, of the list of what the writers noted, if known
    own_at: tuple[int, int]  # start and stop, in `raw`, of what other files of the writer are unlikely to share
    node_ids: tuple[tuple[int | None, ...], ...]  # the ids that the schema gives the nodes on the path to each leaf
    is_signed: bool  # encrypted columns and a plaintext footer, whose bytes are signed
    is_whole: bool  # it is certain that every column chunk is described here, and lies in this file
    has_filters_apart: bool  # it is certain that no filter overlaps pages or another filter
    chunk_starts: bytes | None  # uint32
    with_filters: (
        bytes | None
    )  # uint32; of the same footers, the numbers of the column chunks that say where a filter is
    before: bytes = b""  # what arrived of the file before `start`, often the filters
    encrypted_length: int = 0  # what the footer takes in the file, if `raw` was decrypted
    cipher: FileCipher | None = None  # opens encrypted columns, if there are keys

    @property
    def start(self) -> int:
        """Offset of the footer in the file."""
        return self.file_size - 8 - (self.encrypted_length or len(self.raw))

    def without_tail(self) -> Footer:
        """Return the same footer, and what was derived from it, without `before`."""
        bare = object.__new__(Footer)
        bare.__dict__.update(self.__dict__, before=b"", derived=self.derived)
        return bare

    def packed(self) -> PackedFooter:
        """Return it as bytes that `unpack_footer` takes."""
        (start, stop), raw = self.own_at, self.raw
        return self.file_size, _shared(raw[:start]), raw[start:stop], _shared(raw[stop:])

    @cached_property
    def derived(self) -> Derived:
        """What other rooms keep with it."""
        return Derived()

    @property
    def num_row_groups(self) -> int:
        """Number of row groups."""
        return len(self.packed_row_groups) // _ROW_GROUPS.size

    @cached_property
    def row_groups(self) -> tuple[RowGroup, ...]:
        """The row groups, in the order of the file."""
        return unpack_row_groups(self.packed_row_groups)

    @cached_property
    def metadata(self) -> Any:
        """The whole footer as SlimFileMetaData."""
        return decode(ttypes.SlimFileMetaData, self.raw)[0]

    @property
    def _metadata_length(self) -> int:
        """How many bytes of `raw` are FileMetaData."""
        if self.chunk_starts is not None and (walk := _kernel.walk_footer(self.raw)) is not None:
            return walk[-1][-1]
        return decode(ttypes.SlimFileMetaData, self.raw)[1]

    @property
    def was_signed(self) -> bool:
        """Whether a footer that is not signed was so before it was damaged or forged."""
        if len(self.raw) - self._metadata_length >= SIGNATURE_BYTES:
            return True
        groups = self.metadata.row_groups if self.chunk_starts is None else ()
        return any(column.crypto_metadata is not None for group in groups for column in group.columns)

    @property
    def notes(self) -> bytes:
        """What the writers noted, as bytes that decode to FooterKeyValues."""
        return self.raw if self.notes_at is None else _notes(self.raw[slice(*self.notes_at)])

    @property
    def renamed_leaves(self) -> dict[Hashable, tuple[LeafColumn, ...]]:
        """The leaves under the names that others have for them, by who that is."""
        return self.derived.renamed_leaves

    @cached_property
    def key_values(self) -> dict[str, str | None]:
        """The entries that writers left: key -> text, None where an entry has none.

        Raises `CorruptFileError` where they are no text, or a key has two entries that differ: readers do not agree
        about which of them counts.
        """
        return _key_values(self.notes)

    @cached_property
    def whole_metadata(self) -> Any:
        """The whole footer as FileMetaData."""
        return decode(ttypes.FileMetaData, self.raw)[0]

    @property
    def encoded_schema(self) -> bytes | None:
        """The list of the schema's nodes as it is stored, None where the kernel did not walk the footer."""
        if self.chunk_starts is not None and (walk := _kernel.walk_footer(self.raw)) is not None:
            return self.raw[slice(*walk[-1][:2])]
        return None

    @cached_property
    def schema_elements(self) -> list[Any]:
        """The nodes of the schema, depth first: SchemaElements."""
        encoded = self.encoded_schema
        return list(self.whole_metadata.schema) if encoded is None else _elements(encoded)

    @cached_property
    def _decoded(self) -> dict[tuple[int, int], Any]:
        return {}

    def column_chunk(self, row_group: int, index: int) -> Any:
        """Return the SlimColumnChunk of a column chunk; without `crypto_metadata` if it could be decrypted."""
        if self.chunk_starts is None:
            stored = self.metadata.row_groups[row_group].columns[index]
            is_sealed = self.cipher is not None and stored.crypto_metadata is not None
            return self._opened(row_group, index)[0] if is_sealed else stored
        key = row_group, index
        if (chunk := self._decoded.get(key)) is None:
            chunk = self._decoded[key] = decode(ttypes.SlimColumnChunk, self._encoded_chunk(row_group, index))[0]
        return chunk

    def _opened(self, row_group: int, index: int) -> tuple[Any, Seal | None, ParquetBloomError | None]:
        """Return an encrypted column chunk, decrypted, with what opens its filter; or as it is stored, and why."""
        assert self.cipher is not None
        key = row_group, index
        if key not in self._decoded:
            group, path = self.whole_metadata.row_groups[row_group], self.leaves[index].path
            stored = group.columns[index]
            try:
                ordinal = row_group if group.ordinal is None else group.ordinal
                seal = self.cipher.seal(stored.crypto_metadata, path, ordinal, index)
                metadata = self.cipher.open_metadata(stored, seal, path)
                opened = ttypes.ColumnChunk(file_path=stored.file_path, meta_data=metadata)
                self._decoded[key] = opened, seal, None
            except (CorruptFileError, UnsupportedError) as error:
                self._decoded[key] = self.metadata.row_groups[row_group].columns[index], None, error
        return self._decoded[key]  # type: ignore[no-any-return]

    def is_encrypted(self, row_group: int, leaf: LeafColumn) -> bool:
        """Return whether the pages of a column chunk are encrypted."""
        if self.cipher is not None and not self.cipher.is_bound:
            return True
        return (
            self.chunk_starts is None
            and self.metadata.row_groups[row_group].columns[leaf.index].crypto_metadata is not None
        )

    def seal_of_pages(self, row_group: int, leaf: LeafColumn) -> Seal | None:
        """Return what opens the pages of a column chunk; None where they are not encrypted.

        Raises `UnsupportedError` where nothing does.
        """
        if not self.is_encrypted(row_group, leaf):
            return None
        if self.cipher is None or not self.cipher.is_bound:
            raise UnsupportedError("the column's pages are encrypted, and cannot be decrypted")
        return self._opened(row_group, leaf.index)[1]

    def sealed_chunks(self, leaves: Iterable[LeafColumn]) -> Iterator[tuple[int, LeafColumn, ParquetBloomError]]:
        """Yield row group and leaf of the column chunks that could not be decrypted with the keys given, and why."""
        if self.cipher is None or self.chunk_starts is not None:
            return
        for row_group in range(self.num_row_groups):
            for leaf in leaves:
                stored = self.metadata.row_groups[row_group].columns[leaf.index]
                if stored.crypto_metadata is not None:
                    *_, error = self._opened(row_group, leaf.index)
                    if error is not None:
                        yield row_group, leaf, error

    def whole_column_chunk(self, row_group: int, index: int) -> Any:
        """Return the ColumnChunk of a column chunk as it is stored, with all fields that there are structs for."""
        if self.chunk_starts is None:
            return self.whole_metadata.row_groups[row_group].columns[index]
        return decode(ttypes.ColumnChunk, self._encoded_chunk(row_group, index))[0]

    def _encoded_chunk(self, row_group: int, index: int) -> bytes:
        starts, number = memoryview(self.chunk_starts or b"").cast("I"), row_group * len(self.leaves) + index
        return self.raw[starts[number] : starts[number + 1] if number + 1 < len(starts) else len(self.raw)]

    def chunk(self, row_group: int, leaf: LeafColumn) -> Any:
        """Return the SlimColumnMetaData of a column chunk, or None where it is encrypted."""
        return self.column_chunk(row_group, leaf.index).meta_data

    def chunks(self, leaves: tuple[LeafColumn, ...] | None = None) -> Iterator[tuple[int, LeafColumn, Any]]:
        """Yield row group, leaf and SlimColumnMetaData of every column chunk."""
        for row_group in range(self.num_row_groups):
            for leaf in self.leaves if leaves is None else leaves:
                yield row_group, leaf, self.chunk(row_group, leaf)

    def chunks_with_filters(self, leaves: Iterable[LeafColumn]) -> Iterator[tuple[int, LeafColumn]]:
        """Yield row group and leaf of the column chunks that say where a filter is, sound or not."""
        wanted = {leaf.index: leaf for leaf in leaves}
        if self.with_filters is not None:
            for number in memoryview(self.with_filters).cast("I"):
                row_group, index = divmod(number, len(self.leaves))
                if index in wanted:
                    yield row_group, wanted[index]
        else:
            for row_group, leaf, chunk in self.chunks(tuple(wanted.values())):
                if chunk is not None and chunk.bloom_filter_offset is not None:
                    yield row_group, leaf

    def chunk_records(self, leaf: LeafColumn) -> list[ChunkRecord] | None:
        """Return what a leaf's column chunks say of themselves, by row group; None where the kernel did not walk it."""
        if self.chunk_starts is None:
            return None
        found = _kernel.read_chunks(
            self.raw,
            self.chunk_starts,
            leaf.index,
            len(self.leaves),
            leaf.physical_type,
            _encoded_path(self.leaves[leaf.index].path),
        )
        return [ChunkRecord._make(numbers) for numbers in _CHUNK_RECORDS.iter_unpack(found)]

    def places_in_chunks(self, leaf: LeafColumn, order: int, width: int, value: bytes) -> ChunkPlaces | None:
        """Return where a value lies in a leaf's column chunks; None unless all of them are as usual.

        The arguments are those of `_kernel.place_in_chunks`.
        """
        if self.chunk_starts is None or not self.has_filters_apart:
            return None
        own = self.leaves[leaf.index]  # under its name in the file; a table may have another
        found = _kernel.place_in_chunks(
            self.raw,
            self.chunk_starts,
            self.packed_row_groups,
            self.start,
            leaf.index,
            len(self.leaves),
            own.physical_type,
            _encoded_path(own.path),
            order,
            width,
            value,
        )
        return None if found is None else ChunkPlaces._make(found)

    def compressed_size(self, row_group: int) -> int | None:
        """Return what a row group says its pages take, None where it does not say."""
        if self.chunk_starts is None or not self.leaves:
            return self.metadata.row_groups[row_group].total_compressed_size  # type: ignore[no-any-return]
        last = self._encoded_chunk(row_group, len(self.leaves) - 1)
        _, length = decode(ttypes.SlimColumnChunk, last)
        # Behind its last column chunk come a row group's other fields: the kernel walks no other order.
        return decode(ttypes.SlimRowGroup, _NO_CHUNKS + last[length:])[0].total_compressed_size  # type: ignore[no-any-return]

    def chunk_problem(self, row_group: int, leaf: LeafColumn) -> str | None:
        """Return why nothing that the footer says about a column chunk can be relied on, or None."""
        column = self.column_chunk(row_group, leaf.index)
        chunk = column.meta_data
        if column.crypto_metadata is not None:
            error = None if self.cipher is None else self._opened(row_group, leaf.index)[2]
            return "the column is encrypted" if error is None else describe_error(error)
        if chunk is None:
            return "the column chunk has no metadata"
        if column.file_path:
            return "the column chunk is in another file"
        if chunk.type != leaf.physical_type:
            return f"the column chunk's type {chunk.type} is not the schema's {leaf.physical_type.name}"
        if tuple(chunk.path_in_schema or ()) != leaf.path:
            return f"the column chunk belongs to {format_path(chunk.path_in_schema or ())}, not {leaf.name}"
        if chunk.num_values is None or chunk.num_values < 0:
            return f"the column chunk has an impossible value count of {chunk.num_values}"
        return None

    def filter_location(self, row_group: int, leaf: LeafColumn) -> FilterLocation | None:
        """Return where the chunk's filter is, or None if it has none.

        Raises `CorruptFileError` when the footer contradicts itself about it.
        """
        if problem := self.chunk_problem(row_group, leaf):
            raise CorruptFileError(problem)
        chunk = self.chunk(row_group, leaf)
        return self.filter_at(row_group, leaf, chunk.bloom_filter_offset, chunk.bloom_filter_length)

    def usual_filter(self, record: ChunkRecord) -> FilterLocation | None:
        """Return where the filter of a usual column chunk is; None without one, and where `filter_at` must tell."""
        offset, length = record.filter_offset, record.filter_length  # 0 without one
        if len(MAGIC) < offset and 0 < length <= self.start - offset and self.has_filters_apart:
            return FilterLocation(offset, length)
        return None

    def filter_at(
        self, row_group: int, leaf: LeafColumn, offset: int | None, length: int | None
    ) -> FilterLocation | None:
        """Return where the filter is that a sound column chunk has at `offset`, as `filter_location` does."""
        if offset is None or 0 <= offset <= len(MAGIC):
            return None
        if offset < 0 or offset >= self.start:
            raise CorruptFileError(f"bloom_filter_offset {offset} is not between the magic and the footer")
        if length is not None and (length <= 0 or offset + length > self.start):
            raise CorruptFileError(
                f"bloom_filter_length {length} does not fit between the filter's offset and the footer",
                offset=offset,
            )
        if self.cipher is not None and self.is_encrypted(row_group, leaf):
            if not self.cipher.is_bound:
                raise CorruptFileError("the filter is not authenticated, although the file is encrypted", offset=offset)
            # It is authenticated as the filter of this very column chunk, so it need not be held against others.
            return FilterLocation(offset, length, self._opened(row_group, leaf.index)[1])
        if not self.has_filters_apart and (row_group, leaf.index) in self._overlapping:
            raise CorruptFileError("the filter overlaps pages or another filter", offset=offset)
        return FilterLocation(offset, length)

    @cached_property
    def _overlapping(self) -> frozenset[tuple[int, int]]:
        """The column chunks whose filter lies where other bytes do: two chunks cannot share one."""
        regions: list[tuple[int, int, tuple[int, int] | None]] = []
        for group, row_group in enumerate(self.metadata.row_groups):
            for index, column in enumerate(row_group.columns):
                chunk = column.meta_data
                if chunk is None or column.file_path:
                    continue
                regions.append((*pages_extent(chunk), None))
                if (offset := chunk.bloom_filter_offset or 0) > len(MAGIC):
                    regions.append((offset, offset + max(1, chunk.bloom_filter_length or 0), (group, index)))
        found = set()
        end, owner = 0, None
        for start, stop, key in sorted(regions, key=lambda region: region[:2]):
            if start < end:
                found |= {key, owner} - {None}
            if stop > end:
                end, owner = stop, key
        return frozenset(found)  # type: ignore[arg-type]


def _row_group(group: Any) -> RowGroup:
    extents = [pages_extent(column.meta_data) for column in group.columns if column.meta_data is not None]
    start, stop = min((start for start, _ in extents), default=0), max((stop for _, stop in extents), default=0)
    return RowGroup(group.num_rows, _in_int64(start), _in_int64(stop))


def _in_int64(number: int) -> int:
    return max(-(2**63), min(number, 2**63 - 1))


def pages_extent(chunk: Any) -> tuple[int, int]:
    """Return the first byte of a column chunk's pages and the one after the last, as its metadata has them."""
    start = chunk.data_page_offset or 0
    if 0 < (chunk.dictionary_page_offset or 0) < start:
        start = chunk.dictionary_page_offset
    return start, start + (chunk.total_compressed_size or 0)


FOOTER_BYTES = 512 * 1024 * 1024
"""The most bytes of a footer that are read unless the caller says otherwise; real ones have a hundredth of that."""

most_footer_bytes: ContextVar[int] = ContextVar("most_footer_bytes", default=FOOTER_BYTES)
"""The limit while a plan is carried out: whoever drives it sets it."""

_FOOTER_STEP = 32 * 1024 * 1024


def read_footer(
    size: int, *, guess: int = FOOTER_GUESS, keeps_tail: bool = True, decryption: Decryption | None = None
) -> Plan[Footer]:
    """Plan to read the footer of a file of `size` bytes: one request, more when it is over `guess`.

    The length is only what the file claims. So a long footer is read in steps: what is not there is not waited for.

    What came along of the file before the footer is its `before`, unless that is as cheap to read again.

    Raises `NotParquetError`, `CorruptFileError`, and `UnsupportedError` for an encrypted footer without its key and
    for one that is longer than `most_footer_bytes`.
    """
    if size < 12:
        raise NotParquetError(f"a file of {size} bytes is too small for Parquet")
    first = max(0, size - max(guess, 8))
    (tail,) = yield [ByteRange(first, size)]
    if len(tail) < size - first:
        raise CorruptFileError("the file is shorter than its listing says", offset=first + len(tail))
    is_encrypted = tail[-4:] == ENCRYPTED_MAGIC
    if is_encrypted and decryption is None:
        raise UnsupportedError("the footer is encrypted; its filters cannot be read without the keys")
    if tail[-4:] != MAGIC and not is_encrypted:
        raise NotParquetError("not a whole Parquet file: it does not end in PAR1", offset=size - 4)
    length = int.from_bytes(tail[-8:-4], "little")
    start = size - 8 - length
    if length == 0 or start < len(MAGIC):
        raise CorruptFileError(f"the footer's length {length} does not fit the file", offset=size - 8)
    if length > (most := most_footer_bytes.get()):
        raise UnsupportedError(
            f"the footer takes {length:,} bytes, and at most {most:,} are read; raise that with "
            "limits=Limits(footer_bytes=...) where a call takes limits, or with PARQUET_BLOOM_FOOTER_BYTES"
        )
    before = b""
    if start >= first:
        before, raw = tail[: start - first] if keeps_tail else b"", tail[start - first : -8]
    else:
        parts = []
        for at in range(start, first, _FOOTER_STEP):
            (part,) = yield [ByteRange(at, min(at + _FOOTER_STEP, first))]
            if len(part) < min(_FOOTER_STEP, first - at):
                raise CorruptFileError("the footer is cut off", offset=start)
            parts.append(part)
        raw = b"".join([*parts, tail[:-8]])
    if is_encrypted:
        assert decryption is not None
        return _parse_encrypted(size, raw, decryption, before)
    try:
        footer = parse_footer(size, raw, before=before)
    except CorruptFileError as error:
        raise CorruptFileError(error.message, offset=start + (error.offset or 0)) from error
    return footer if decryption is None else with_keys(footer, decryption)


def with_keys(footer: Footer, decryption: Decryption) -> Footer:
    """Return the footer of a file whose encrypted columns are opened with keys; the same one if it has none.

    Raises `CorruptFileError` if the footer's key is given and does not match its signature, or if the footer was signed
    and no longer says so.
    """
    if not footer.is_signed:
        if footer.was_signed:
            raise CorruptFileError("the footer was signed, but does not say how the file is encrypted")
        return footer
    opened = object.__new__(Footer)
    opened.__dict__.update(footer.__dict__, cipher=open_signed(footer.whole_metadata, footer.raw, decryption))
    for derived in ("derived", "_decoded"):
        opened.__dict__.pop(derived, None)
    return opened


def _parse_encrypted(file_size: int, raw: bytes, decryption: Decryption, before: bytes) -> Footer:
    plain, cipher = open_footer(raw, decryption)
    # The kernel's short ways would use filters that nothing authenticates; `filter_at` does not.
    parse = parse_footer if cipher.is_bound else _parse_structs
    try:
        footer = parse(file_size, plain, before=before)
    except CorruptFileError as error:
        raise CorruptFileError(error.message) from error  # its offset is not one of the file
    footer.encrypted_length, footer.cipher = len(raw), cipher
    if footer.chunk_starts is None:
        footer.packed_row_groups = b"".join(
            _ROW_GROUPS.pack(*_with_extent(*both))
            for both in zip(footer.row_groups, footer.whole_metadata.row_groups, strict=True)
        )
        del footer.row_groups
    return footer


def _with_extent(known: RowGroup, group: Any) -> RowGroup:
    """Return a row group with the extent that it says itself, if only the keys of its columns tell it."""
    start, size = group.file_offset, group.total_compressed_size
    if start is None or size is None or all(column.meta_data is not None for column in group.columns):
        return known
    return RowGroup(known.num_rows, _in_int64(start), _in_int64(start + size))


def unpack_footer(packed: PackedFooter) -> Footer:
    """Return the footer that was packed."""
    file_size, *parts = packed
    return parse_footer(file_size, b"".join(parts))


def parse_footer(file_size: int, raw: bytes, *, before: bytes = b"") -> Footer:
    """Return the checked footer whose bytes, without length and magic, are `raw`."""
    if (walk := _kernel.walk_footer(raw)) is not None:
        num_rows, num_columns, is_whole, has_filters_apart, groups, chunks, filters, places = walk
        of_schema, schema_stop, of_notes, notes_stop, of_writer, writer_stop, of_orders, orders_stop, _ = places
        schema, notes = raw[of_schema:schema_stop], raw[of_notes:notes_stop]
        own_stop = of_notes or of_writer or of_orders
        shared = _shared_parts((schema, notes, raw[of_writer:writer_stop], raw[of_orders:orders_stop]))
        if num_columns == len(shared.leaves) or not groups:
            return Footer(
                file_size,
                raw,
                shared.leaves,
                num_rows,
                groups,
                shared.created_by,
                shared.ordered_by_type,
                (of_notes, notes_stop),
                (schema_stop, own_stop if own_stop > schema_stop else len(raw)),
                shared.node_ids,
                is_signed=False,
                is_whole=is_whole,
                has_filters_apart=has_filters_apart,
                chunk_starts=chunks,
                with_filters=filters,
                before=before,
            )
    return _parse_structs(file_size, raw, before)


def _parse_structs(file_size: int, raw: bytes, before: bytes = b"") -> Footer:
    """Return the checked footer, read into structs at once: what the kernel does not understand, or is damaged."""
    metadata, _ = decode(ttypes.SlimFileMetaData, raw)
    if metadata.row_groups is None or metadata.num_rows is None or metadata.num_rows < 0:
        raise CorruptFileError("the footer lacks its row groups or a valid row count")
    leaves = interned(leaf_columns(metadata.schema))
    schema = _Schema(leaves, _with_proleptic_dates(leaves), node_ids(metadata.schema))
    for number, row_group in enumerate(metadata.row_groups):
        if row_group.columns is None or len(row_group.columns) != len(leaves):
            raise CorruptFileError(
                f"row group {number} has {len(row_group.columns or ())} column chunks for {len(leaves)} leaf columns"
            )
        if row_group.num_rows is None or row_group.num_rows < 0:
            raise CorruptFileError(f"row group {number} has the row count {row_group.num_rows}")
    footer = Footer(
        file_size,
        raw,
        _with_rules(schema, metadata.created_by or "", raw),
        metadata.num_rows,
        b"".join(_ROW_GROUPS.pack(*_row_group(group)) for group in metadata.row_groups),
        metadata.created_by or "",
        _ordered_by_type(metadata.column_orders),
        None,
        (0, len(raw)),
        schema.node_ids,
        is_signed=metadata.encryption_algorithm is not None,
        is_whole=False,
        has_filters_apart=False,
        chunk_starts=None,
        with_filters=None,
        before=before,
    )
    footer.__dict__["metadata"] = metadata  # decoded already
    return footer


# ---- the parts of FileMetaData that files of one writer share, decoded once ------------------

_STOP = b"\0"


def _remembered(function: Callable[[_Encoded], _Result]) -> Callable[[_Encoded], _Result]:
    """Keep what a function returns for the last bytes, 1 MiB of them: schemas may be wide, and files hostile."""
    known: dict[_Encoded, Any] = {}
    room = _MOST_REMEMBERED

    def remembered(encoded: _Encoded) -> _Result:
        nonlocal room
        held = known.get(encoded, _UNKNOWN)
        if held is not _UNKNOWN:
            return held  # type: ignore[no-any-return]
        result = function(encoded)
        size = _ENTRY_BYTES + (len(encoded) if isinstance(encoded, bytes) else sum(map(len, encoded)))
        room -= size
        if room < 0:
            known.clear()
            room = _MOST_REMEMBERED - size
        if room >= 0:
            known[encoded] = result
        return result

    return remembered


_MOST_REMEMBERED, _ENTRY_BYTES, _UNKNOWN = 1024 * 1024, 64, object()


@_remembered
def _shared(encoded: bytes) -> bytes:
    return encoded


class _SharedParts(NamedTuple):
    leaves: tuple[LeafColumn, ...]
    node_ids: tuple[tuple[int | None, ...], ...]
    created_by: str
    ordered_by_type: tuple[bool, ...] | None


@_remembered
def _shared_parts(encoded: tuple[bytes, ...]) -> _SharedParts:
    """Return what schema, notes, created_by and column orders say."""
    schema, created_by = _schema(encoded[0]), _created_by(encoded[2])
    leaves = _with_rules(schema, created_by, _notes(encoded[1]))
    return _SharedParts(leaves, schema.node_ids, created_by, _column_orders(encoded[3]))


class _Schema(NamedTuple):
    leaves: tuple[LeafColumn, ...]
    with_proleptic_dates: tuple[LeafColumn, ...]  # the same object without dates
    node_ids: tuple[tuple[int | None, ...], ...]


@_remembered
def _schema(encoded: bytes) -> _Schema:
    elements = _elements(encoded)
    leaves = interned(leaf_columns(elements))
    return _Schema(leaves, _with_proleptic_dates(leaves), node_ids(elements))


def _elements(encoded: bytes) -> list[Any]:
    return _one(b"\x29", encoded).schema  # type: ignore[no-any-return]  # field 2, a list


@_remembered
def _created_by(encoded: bytes) -> str:
    return _one(b"\x68", encoded).created_by or ""  # field 6, a string


@_remembered
def _column_orders(encoded: bytes) -> tuple[bool, ...] | None:
    return _ordered_by_type(_one(b"\x79", encoded).column_orders)  # field 7, a list


def _one(header: bytes, encoded: bytes) -> Any:
    """Return SlimFileMetaData with one field, or with none where there are no bytes of it."""
    return decode(ttypes.SlimFileMetaData, header + encoded + _STOP if encoded else _STOP)[0]


def _ordered_by_type(orders: list[Any] | None) -> tuple[bool, ...] | None:
    return None if orders is None else tuple(order.TYPE_ORDER is not None for order in orders)


def _notes(encoded: bytes) -> bytes:
    return b"\x59" + encoded + _STOP if encoded else _STOP  # field 5, a list


def _key_values(notes: bytes) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for entry in decode(ttypes.FooterKeyValues, notes)[0].key_value_metadata or ():
        if entry.key is None or found.setdefault(entry.key, entry.value) != entry.value:
            raise CorruptFileError(f"the footer has two entries of the key {entry.key!r}")
    return found


def _with_rules(schema: _Schema, created_by: str, notes: bytes) -> tuple[LeafColumn, ...]:
    """Return the leaves with what follows from the writer and what it noted."""
    leaves = schema.leaves
    if schema.with_proleptic_dates is not leaves and _never_rebases(created_by, notes):
        leaves = schema.with_proleptic_dates
    if any(mark in notes for mark in _TEXT_RULES):
        leaves = interned(tuple(_with_text_rules(leaves, notes)))
    return leaves


def _with_proleptic_dates(leaves: tuple[LeafColumn, ...]) -> tuple[LeafColumn, ...]:
    if not any(map(_is_date, leaves)):
        return leaves
    return interned(tuple(_proleptic(leaf) if _is_date(leaf) else leaf for leaf in leaves))


def _is_date(leaf: LeafColumn) -> bool:
    return leaf.logical_type is not None and leaf.logical_type.name == "DATE"


def _proleptic(leaf: LeafColumn) -> LeafColumn:
    return replace(leaf, logical_type=LogicalType("DATE", is_proleptic=True))


def _never_rebases(created_by: str, notes: bytes) -> bool:
    """Return whether it is proved that the writer counts all days in the Gregorian calendar.

    Of other files by parquet-mr that is not known. Spark notes its version since 2.4, and since 3.0 whether it counted
    as its older versions did; it reads files by these notes, too.
    """
    if _GREGORIAN_WRITERS.match(created_by):
        return True
    if not created_by.startswith("parquet-mr ") or _SPARK_VERSION.encode() not in notes:
        return False
    try:
        entries = _key_values(notes)
    except CorruptFileError:
        return False
    major = (entries.get(_SPARK_VERSION) or "").partition(".")[0]
    return major.isascii() and major.isdigit() and int(major) >= 3 and _SPARK_LEGACY not in entries


_GREGORIAN_WRITERS = re.compile(r"(parquet-cpp-arrow|parquet-rs|delta-rs|datafusion|DuckDB|Polars \(python\)) version ")
_SPARK_VERSION, _SPARK_LEGACY = "org.apache.spark.version", "org.apache.spark.legacyDateTime"
# ---- texts that Spark does not compare by their bytes --------------------------------------

_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"

_TEXT_RULES = {
    b"__COLLATIONS": "Spark compares text in this column by a collation",
    b"__CHAR_VARCHAR_TYPE_STRING": "the column is CHAR to Spark, which pads what it is compared with",
}
"""What Spark notes with a column in the schema that it leaves in the footer -> what follows."""


def _with_text_rules(leaves: tuple[LeafColumn, ...], notes: bytes) -> Iterator[LeafColumn]:
    """Yield the leaves with the rules that Spark notes; where it is not clear which columns they are of, for all."""
    ruled = _ruled_columns(notes, {leaf.path[0] for leaf in leaves})
    of_all = None if ruled is not None else next(rule for mark, rule in _TEXT_RULES.items() if mark in notes)
    for leaf in leaves:
        rule = of_all if ruled is None else ruled.get(leaf.path[0])
        yield replace(leaf, text_rule=rule) if rule and leaf.physical_type is PhysicalType.BYTE_ARRAY else leaf


def _ruled_columns(notes: bytes, names: set[str]) -> dict[str, str] | None:
    """Return the rules by top-level column, for what is noted of a part holds for the whole; None if that fails."""
    try:
        values = _key_values(notes)
        schema = values.pop(_SPARK_SCHEMA) or ""
        if any(mark.decode() in (value or "") for value in values.values() for mark in _TEXT_RULES):
            return None
        ruled = {field["name"]: rule for field in json.loads(schema)["fields"] if (rule := text_rule(field))}
    except (CorruptFileError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return ruled if names >= set(ruled) else None


def text_rule(field: Any) -> str | None:
    """Return how Spark compares the texts of a column, from its field in the JSON of Spark's schemas, or None."""
    noted = json.dumps(field)
    for mark, rule in _TEXT_RULES.items():
        if mark.decode() in noted and (mark != _OF_CHAR or _CHAR.search(noted)):
            return rule
    return None


_OF_CHAR, _CHAR = b"__CHAR_VARCHAR_TYPE_STRING", re.compile(r"(?<!var)char\(")

_MOST_SCHEMAS, _MOST_LEAVES = 32, 1000
_SCHEMAS: dict[tuple[LeafColumn, ...], tuple[LeafColumn, ...]] = {}


def interned(leaves: tuple[LeafColumn, ...]) -> tuple[LeafColumn, ...]:
    """Return the same tuple for the same schema: most files of a directory share one, and it is a key of memos."""
    if len(leaves) > _MOST_LEAVES:
        return leaves
    if len(_SCHEMAS) >= _MOST_SCHEMAS:
        _SCHEMAS.clear()
    return _SCHEMAS.setdefault(leaves, leaves)


def together(plans: Iterable[Plan[_Result]]) -> Plan[list[_Result]]:
    """Plan to return the results of several plans, whose requests go out together and can be coalesced."""
    open_plans: dict[int, tuple[Plan[_Result], list[ByteRange]]] = {}
    results: dict[int, _Result] = {}

    def advance(number: int, plan: Plan[_Result], parts: list[bytes] | None) -> None:
        try:
            open_plans[number] = plan, plan.send(parts)  # type: ignore[arg-type]
        except StopIteration as stop:
            open_plans.pop(number, None)
            results[number] = stop.value

    for number, plan in enumerate(plans):
        advance(number, plan, None)
    while open_plans:
        waiting = list(open_plans.items())
        parts = iter((yield [r for _, (_, ranges) in waiting for r in ranges]))
        for number, (plan, ranges) in waiting:
            advance(number, plan, [next(parts) for _ in ranges])
    return [results[number] for number in sorted(results)]


def with_tail(footer: Footer, plan: Plan[_Result]) -> Plan[_Result]:
    """Plan the same, without asking again for bytes that came along with the footer."""
    return _with_tail(footer, plan) if footer.before else plan


def _with_tail(footer: Footer, plan: Plan[_Result]) -> Plan[_Result]:
    first = footer.start - len(footer.before)
    parts: list[bytes] | None = None
    while True:
        try:
            ranges = plan.send(parts)  # type: ignore[arg-type]
        except StopIteration as stop:
            result: _Result = stop.value
            return result
        if all(r.start < first for r in ranges):
            parts = yield ranges
            continue
        held = [first <= r.start and r.stop <= footer.start for r in ranges]
        absent = [r for r, is_held in zip(ranges, held, strict=True) if not is_held]
        fresh = iter((yield absent) if absent else [])
        parts = [
            footer.before[r.start - first : r.stop - first] if is_held else next(fresh)
            for r, is_held in zip(ranges, held, strict=True)
        ]


def without_repeats(plan: Plan[_Result], *, start: int) -> Plan[_Result]:
    """Plan the same, without asking again for ranges that it asked for before, of those from byte `start` on."""
    known: dict[ByteRange, bytes] = {}
    parts: list[bytes] | None = None
    while True:
        try:
            ranges = plan.send(parts)  # type: ignore[arg-type]
        except StopIteration as stop:
            result: _Result = stop.value
            return result
        fresh = [r for r in ranges if r not in known]
        arrived = dict(zip(fresh, (yield fresh) if fresh else [], strict=True))
        parts = [arrived[r] if r in arrived else known[r] for r in ranges]
        known |= {r: data for r, data in arrived.items() if r.start >= start}


def read_filter(location: FilterLocation, *, end: int) -> Plan[tuple[SplitBlockBloomFilter, int]]:
    """Plan to read the filter at `location`, which lies before byte `end`, and the bytes that it takes in all.

    One request when the length is known; else one guess of 256 KiB with room for the header, and a second only
    for a longer bitset. Raises `CorruptFileError` or `UnsupportedError` for anything but a sound filter.
    """
    offset = location.offset
    stop = offset + location.length if location.length is not None else offset + HEADER_ROOM + FILTER_GUESS
    if location.seal is not None:
        try:
            return (yield from read_sealed_filter(location.seal, offset, min(stop, end), end=end))
        except ParquetBloomError as error:
            raise _located(error, offset) from error
    wanted = ByteRange(offset, min(stop, end))
    (data,) = yield [wanted]
    if len(data) < len(wanted):
        raise CorruptFileError("the file ends inside the filter", offset=offset + len(data))
    try:
        header = read_header(data, length=location.length)
    except ParquetBloomError as error:
        raise _located(error, offset) from error
    missing = header.length + header.num_bytes - len(data)
    if missing > 0:
        more = ByteRange(wanted.stop, wanted.stop + missing)
        if more.stop > end:
            raise CorruptFileError(
                f"the filter's header says {header.num_bytes} bytes, which would overlap the footer",
                offset=offset,
            )
        (rest,) = yield [more]
        if len(rest) < missing:
            raise CorruptFileError("the file ends inside the filter", offset=more.start + len(rest))
        data += rest
    length = header.length + header.num_bytes
    return SplitBlockBloomFilter.from_bitset(data[header.length : length]), length


def _located(error: ParquetBloomError, offset: int) -> ParquetBloomError:
    if isinstance(error, CorruptFileError):
        return CorruptFileError(error.message, offset=offset + (error.offset or 0))
    return error
