"""Plans: what to read for a footer, and for a filter. They yield byte ranges and are sent bytes; no I/O here.

A file ends in `FileMetaData | its length, 4 bytes little-endian | PAR1` (parquet-format README, "File format").
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from parquet_bloom.errors import CorruptFileError, NotParquetError, ParquetBloomError, UnsupportedError
from parquet_bloom.format.parquet_thrift import ttypes
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.sbbf import SplitBlockBloomFilter, read_header
from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType, format_path, leaf_columns
from parquet_bloom.format.thrift_io import decode

_Result = TypeVar("_Result")
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
    """Where a column chunk says that its filter is; `length` is None where the footer does not have it."""

    offset: int
    length: int | None


@dataclass(slots=True)
class Derived:
    """What other rooms compute from a footer and keep with it, for the next call that finds it in the cache.

    Each field says who writes it; what has a type of a higher room is Any here.
    """

    renamed_leaves: dict[Hashable, tuple[LeafColumn, ...]] = field(default_factory=dict)  # tables, spark: `Columns`
    facts: dict[int, Any] = field(default_factory=dict)  # predicates/evaluation: list of `Facts`, by the leaf's index
    hudi_filters: tuple[Any, ...] | None = None  # filters/stored: those in the footer; None before it was searched
    sound_headers: set[int] = field(default_factory=set)  # format/probing: the offsets of filters' headers
    last_verdict: Any = None  # verbs/prune: what the last call returned, and for which verdicts


@dataclass(frozen=True)
class Footer:
    """A file's footer: the bytes as they are, and the parts of them that filters need.

    `raw` runs from `start` to the length field at the end, so it may hold more than FileMetaData.
    """

    file_size: int
    raw: bytes
    metadata: Any  # SlimFileMetaData
    leaves: tuple[LeafColumn, ...]
    before: bytes = b""  # what arrived of the file before `start`, often the filters
    derived: Derived = field(default_factory=Derived, repr=False, compare=False)

    @property
    def start(self) -> int:
        """Offset of FileMetaData in the file."""
        return self.file_size - 8 - len(self.raw)

    @property
    def num_row_groups(self) -> int:
        """Number of row groups."""
        return len(self.metadata.row_groups)

    @property
    def created_by(self) -> str:
        """What the writer calls itself; empty when it does not."""
        return self.metadata.created_by or ""

    @cached_property
    def field_ids(self) -> tuple[int | None, ...]:
        """The id that the schema gives each leaf, if it does."""
        return tuple(element.field_id for element in self.metadata.schema[1:] if element.type is not None)

    @property
    def renamed_leaves(self) -> dict[Hashable, tuple[LeafColumn, ...]]:
        """The leaves under the names that others have for them, by who that is."""
        return self.derived.renamed_leaves

    @cached_property
    def row_group_extents(self) -> tuple[tuple[int, int], ...]:
        """The first byte of each row group's pages and the one after the last."""
        return tuple(map(_row_group_extent, self.metadata.row_groups))

    @cached_property
    def key_values(self) -> dict[str, str | None]:
        """The entries that writers left: key -> text, None where an entry has none.

        Raises `CorruptFileError` where they are no text, or a key has two entries that differ: readers do not agree
        about which of them counts.
        """
        return _key_values(self.raw)

    @property
    def is_signed(self) -> bool:
        """Whether the file uses encryption with a plaintext footer, whose bytes are signed."""
        return self.metadata.encryption_algorithm is not None

    def chunk(self, row_group: int, leaf: LeafColumn) -> Any:
        """Return the SlimColumnMetaData of a column chunk, or None where it is encrypted."""
        return self.metadata.row_groups[row_group].columns[leaf.index].meta_data

    def chunks(self, leaves: tuple[LeafColumn, ...] | None = None) -> Iterator[tuple[int, LeafColumn, Any]]:
        """Yield row group, leaf and SlimColumnMetaData of every column chunk."""
        for row_group in range(self.num_row_groups):
            for leaf in self.leaves if leaves is None else leaves:
                yield row_group, leaf, self.chunk(row_group, leaf)

    def chunk_problem(self, row_group: int, leaf: LeafColumn) -> str | None:
        """Return why nothing that the footer says about a column chunk can be relied on, or None."""
        column = self.metadata.row_groups[row_group].columns[leaf.index]
        chunk = column.meta_data
        if column.crypto_metadata is not None:
            return "the column is encrypted"
        if chunk is None:
            return "the column chunk has no metadata"
        if column.file_path:
            return "the column chunk lies in another file"
        if chunk.type != leaf.physical_type:
            return f"the column chunk's type {chunk.type} is not the schema's {leaf.physical_type.name}"
        if tuple(chunk.path_in_schema or ()) != leaf.path:
            return f"the column chunk belongs to {format_path(chunk.path_in_schema or ())}, not {leaf.name}"
        if chunk.num_values is None or chunk.num_values < 0:
            return f"the column chunk's value count {chunk.num_values} cannot be"
        return None

    def filter_location(self, row_group: int, leaf: LeafColumn) -> FilterLocation | None:
        """Return where the chunk's filter is, or None if it has none.

        Raises `CorruptFileError` when the footer contradicts itself about it.
        """
        if problem := self.chunk_problem(row_group, leaf):
            raise CorruptFileError(problem)
        chunk = self.chunk(row_group, leaf)
        offset, length = chunk.bloom_filter_offset, chunk.bloom_filter_length
        if offset is None or 0 <= offset <= len(MAGIC):
            return None
        if offset < 0 or offset >= self.start:
            raise CorruptFileError(f"bloom_filter_offset {offset} is not between the magic and the footer")
        if length is not None and (length <= 0 or offset + length > self.start):
            raise CorruptFileError(
                f"bloom_filter_length {length} does not fit between the filter's offset and the footer",
                offset=offset,
            )
        if (row_group, leaf.index) in self._overlapping:
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


def pages_extent(chunk: Any) -> tuple[int, int]:
    """Return the first byte of a column chunk's pages and the one after the last, as its metadata has them."""
    start = chunk.data_page_offset or 0
    if 0 < (chunk.dictionary_page_offset or 0) < start:
        start = chunk.dictionary_page_offset
    return start, start + (chunk.total_compressed_size or 0)


def _row_group_extent(group: Any) -> tuple[int, int]:
    extents = [pages_extent(column.meta_data) for column in group.columns if column.meta_data is not None]
    return min((start for start, _ in extents), default=0), max((stop for _, stop in extents), default=0)


def read_footer(size: int, *, guess: int = FOOTER_GUESS) -> Plan[Footer]:
    """Plan to read the footer of a file of `size` bytes: one request, a second when it is over `guess`.

    Raises `NotParquetError`, `CorruptFileError`, and `UnsupportedError` for an encrypted footer.
    """
    if size < 12:
        raise NotParquetError(f"a file of {size} bytes is too small for Parquet")
    first = max(0, size - max(guess, 8))
    (tail,) = yield [ByteRange(first, size)]
    if len(tail) < size - first:
        raise CorruptFileError("the file ends before the size that its listing gave", offset=first + len(tail))
    if tail[-4:] == ENCRYPTED_MAGIC:
        raise UnsupportedError("the footer is encrypted; its filters cannot be read without the keys")
    if tail[-4:] != MAGIC:
        raise NotParquetError("the file does not end in PAR1", offset=size - 4)
    length = int.from_bytes(tail[-8:-4], "little")
    start = size - 8 - length
    if length == 0 or start < len(MAGIC):
        raise CorruptFileError(f"the footer's length {length} does not fit the file", offset=size - 8)
    before = b""
    if start >= first:
        before, raw = tail[: start - first], tail[start - first : -8]
    else:
        (head,) = yield [ByteRange(start, first)]
        if len(head) < first - start:
            raise CorruptFileError("the footer is cut off", offset=start)
        raw = head + tail[:-8]
    try:
        return replace(parse_footer(size, raw), before=before)
    except CorruptFileError as error:
        raise CorruptFileError(error.message, offset=start + (error.offset or 0)) from error


def parse_footer(file_size: int, raw: bytes) -> Footer:
    """Return the checked footer whose bytes, without length and magic, are `raw`."""
    metadata, _ = decode(ttypes.SlimFileMetaData, raw)
    if metadata.row_groups is None or metadata.num_rows is None or metadata.num_rows < 0:
        raise CorruptFileError("the footer lacks its row groups or a valid row count")
    leaves = leaf_columns(metadata.schema)
    if any(map(_is_date, leaves)) and _never_rebases(metadata.created_by or "", raw):
        leaves = tuple(_proleptic(leaf) if _is_date(leaf) else leaf for leaf in leaves)
    if any(mark in raw for mark in _TEXT_RULES):
        leaves = tuple(_with_text_rules(leaves, raw))
    leaves = interned(leaves)
    for number, row_group in enumerate(metadata.row_groups):
        if row_group.columns is None or len(row_group.columns) != len(leaves):
            raise CorruptFileError(
                f"row group {number} has {len(row_group.columns or ())} column chunks for {len(leaves)} leaf columns"
            )
        if row_group.num_rows is None or row_group.num_rows < 0:
            raise CorruptFileError(f"row group {number} has the row count {row_group.num_rows}")
    return Footer(file_size, raw, metadata, leaves)


def _key_values(raw: bytes) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for entry in decode(ttypes.FooterKeyValues, raw)[0].key_value_metadata or ():
        if entry.key is None or found.setdefault(entry.key, entry.value) != entry.value:
            raise CorruptFileError(f"the footer has two entries of the key {entry.key!r}")
    return found


def _is_date(leaf: LeafColumn) -> bool:
    return leaf.logical_type is not None and leaf.logical_type.name == "DATE"


def _proleptic(leaf: LeafColumn) -> LeafColumn:
    return replace(leaf, logical_type=LogicalType("DATE", is_proleptic=True))


def _never_rebases(created_by: str, raw: bytes) -> bool:
    """Return whether it is proved that the writer counts all days in the Gregorian calendar.

    Of other files by parquet-mr that is not known. Spark notes its version since 2.4, and since 3.0 whether it counted
    as its older versions did; it reads files by these notes, too.
    """
    if _GREGORIAN_WRITERS.match(created_by):
        return True
    if not created_by.startswith("parquet-mr ") or _SPARK_VERSION.encode() not in raw:
        return False
    try:
        notes = _key_values(raw)
    except CorruptFileError:
        return False
    major = (notes.get(_SPARK_VERSION) or "").partition(".")[0]
    return major.isascii() and major.isdigit() and int(major) >= 3 and _SPARK_LEGACY not in notes


_GREGORIAN_WRITERS = re.compile(r"(parquet-cpp-arrow|parquet-rs|delta-rs|datafusion|DuckDB|Polars \(python\)) version ")
_SPARK_VERSION, _SPARK_LEGACY = "org.apache.spark.version", "org.apache.spark.legacyDateTime"
# ---- texts that Spark does not compare by their bytes --------------------------------------

_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"

_TEXT_RULES = {
    b"__COLLATIONS": "Spark compares text in this column by a collation",
    b"__CHAR_VARCHAR_TYPE_STRING": "the column is CHAR to Spark, which pads what it is compared with",
}
"""What Spark notes with a column in the schema that it leaves in the footer -> what follows."""


def _with_text_rules(leaves: tuple[LeafColumn, ...], raw: bytes) -> Iterator[LeafColumn]:
    """Yield the leaves with the rules that Spark notes; where it is not clear which columns they are of, for all."""
    ruled = _ruled_columns(raw, {leaf.path[0] for leaf in leaves})
    of_all = None if ruled is not None else next(rule for mark, rule in _TEXT_RULES.items() if mark in raw)
    for leaf in leaves:
        rule = of_all if ruled is None else ruled.get(leaf.path[0])
        yield replace(leaf, text_rule=rule) if rule and leaf.physical_type is PhysicalType.BYTE_ARRAY else leaf


def _ruled_columns(raw: bytes, names: set[str]) -> dict[str, str] | None:
    """Return the rules by top-level column, for what is noted of a part holds for the whole; None if that fails."""
    try:
        values = _key_values(raw)
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
    if not footer.before:
        return (yield from plan)
    first = footer.start - len(footer.before)
    parts: list[bytes] | None = None
    while True:
        try:
            ranges = plan.send(parts)  # type: ignore[arg-type]
        except StopIteration as stop:
            result: _Result = stop.value
            return result
        held = [first <= r.start and r.stop <= footer.start for r in ranges]
        absent = [r for r, is_held in zip(ranges, held, strict=True) if not is_held]
        fresh = iter((yield absent) if absent else [])
        parts = [
            footer.before[r.start - first : r.stop - first] if is_held else next(fresh)
            for r, is_held in zip(ranges, held, strict=True)
        ]


def read_filter(location: FilterLocation, *, end: int) -> Plan[tuple[SplitBlockBloomFilter, int]]:
    """Plan to read the filter at `location`, which lies before byte `end`, and the bytes that it takes in all.

    One request when the length is known; else one guess of 256 KiB with room for the header, and a second only
    for a longer bitset. Raises `CorruptFileError` or `UnsupportedError` for anything but a sound filter.
    """
    offset = location.offset
    stop = offset + location.length if location.length is not None else offset + HEADER_ROOM + FILTER_GUESS
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
                f"the filter's header says {header.num_bytes} bytes, which would reach past the footer's start",
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
