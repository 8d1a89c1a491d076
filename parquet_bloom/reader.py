"""Finds and loads filters: `inspect` describes them, `probe` asks them for values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from parquet_bloom import engines
from parquet_bloom.bounds import collation_problem
from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    LiteralError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.footer import FilterLocation, Footer, Plan, read_filter, read_footer, together, with_tail
from parquet_bloom.indexes.file_filters import FileFilter
from parquet_bloom.indexes.stored import Beside, described, in_footer, of_indexes, of_tables, unusable
from parquet_bloom.parallel import Progress
from parquet_bloom.results import Record, Table
from parquet_bloom.sbbf import SplitBlockBloomFilter
from parquet_bloom.schema import LeafColumn, PhysicalType, find_leaf, parse_path
from parquet_bloom.storage import PathLike, RequestLog, Source, StorageOptions, changes, drive, find
from parquet_bloom.values import Encodings, encode_literal, parse_literal, untrusted

_Item = TypeVar("_Item")

MIGHT_MATCH, CANNOT_MATCH = "MIGHT_MATCH", "CANNOT_MATCH"
"""The two answers: no proof either way, and the proof that no row matches."""

NO_FILTER = "there is no filter"

FILTERS_AT_ONCE = 64
"""Filters of one file that are loaded together: more would be memory, fewer would be requests."""

FOLD_FPP = 0.01
"""The rate that `inspect` folds to when it tells what a filter could be reduced to."""


PARQUET = "Parquet"

# ---- inspect -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterInfo(Record):
    """One filter as it stands in a file; one that is damaged says so in `problem`, one of a type whose filters never
    prune in `untrusted`.

    `format` tells Parquet's from those of Hudi, Paimon and the index, which are for a whole file: row group -1.

    Sizes and offsets are in bytes; `fill`, `fpp` and `worst_block_fpp` are rates of the bitset as it is, `ndv` the
    estimate from its bits; `folds_to` is the size at which its rate would still be within 1 %, or its own size.
    """

    path: str
    row_group: int
    column: str
    type: str
    offset: int
    length: int | None
    num_bytes: int | None = None
    num_values: int | None = None
    fill: float | None = None
    fpp: float | None = None
    worst_block_fpp: float | None = None
    ndv: float | None = None
    folds_to: int | None = None
    used_by: tuple[str, ...] = ()
    hazards: tuple[str, ...] = ()
    untrusted: str | None = None
    problem: str | None = None
    format: str = PARQUET


@dataclass(frozen=True, slots=True)
class FileInfo(Record):
    """One file: what wrote it, how many column chunks it has, and its filters; or the error that it gave."""

    path: str
    size: int
    created_by: str = ""
    num_rows: int = 0
    num_row_groups: int = 0
    num_column_chunks: int = 0
    filters: tuple[FilterInfo, ...] = ()
    error: str | None = None

    @property
    def is_damaged(self) -> bool:
        """Whether the file or one of its filters is not sound."""
        return self.error is not None or any(f.problem for f in self.filters)


@dataclass(frozen=True, slots=True)
class Inspection(Table):
    """What `inspect` found, file by file; its rows are the filters."""

    files: tuple[FileInfo, ...]

    @property
    def rows(self) -> tuple[FilterInfo, ...]:
        """Every filter of every file."""
        return tuple(f for file in self.files for f in file.filters)

    @property
    def is_damaged(self) -> bool:
        """Whether any file or filter is not sound."""
        return any(file.is_damaged for file in self.files)


def inspect(
    paths: PathLike | Iterable[PathLike],
    columns: Sequence[str] | str | None = None,
    *,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
    log: RequestLog | None = None,
) -> Inspection:
    """Return every filter of the given files, read whole, with its real rates; damage is reported, never raised.

    `columns` narrows it to some leaves. Raises `FileNotFoundError` for a path that names nothing, and
    `ColumnNotFoundError` for a column that no file has.
    """
    sources = find(paths, filesystem=filesystem, storage_options=storage_options)
    wanted = _paths(columns)
    missing: dict[tuple[str, ...], ColumnNotFoundError] = {}
    found: set[tuple[str, ...]] = set()
    files = []
    entries = of_indexes(sources)
    of_files = of_tables(sources, storage_options=storage_options)
    plans = (
        (source, _inspect(source, wanted, [*entries.get(source, ()), *map(described, filters)]))
        for source, filters in of_files
    )
    for source, outcome in drive(plans, log=log):
        if isinstance(outcome, Exception):
            files.append(FileInfo(source.name, source.size, error=describe_error(outcome)))
        else:
            footer, info = outcome
            files.append(info)
            _note_missing(footer, wanted, source.name, found, missing)
        if progress:
            progress(len(files), len(sources))
    for path in wanted or ():
        if path in missing and path not in found:
            raise missing[path]
    return Inspection(tuple(files))


def _inspect(
    source: Source, wanted: list[tuple[str, ...]] | None, others: Sequence[Beside]
) -> Plan[tuple[Footer, FileInfo]]:
    footer = yield from read_footer(source.size)
    leaves = tuple(leaf for leaf in footer.leaves if wanted is None or leaf.path in wanted)
    filters: list[FilterInfo] = []
    for chunks in _groups(footer.chunks(leaves)):
        plans = (_inspect_chunk(source, footer, row_group, leaf) for row_group, leaf, _ in chunks)
        infos = yield from with_tail(footer, together(plans))
        filters += (info for info in infos if info)
    names = {leaf.name: leaf for leaf in leaves}
    filters += (
        _of_file(source, footer, names[one.column], one)
        for one in (*map(described, in_footer(footer)), *unusable(footer), *others)
        if one.column in names
    )
    return footer, FileInfo(
        source.name,
        source.size,
        footer.created_by,
        footer.metadata.num_rows,
        footer.num_row_groups,
        footer.num_row_groups * len(footer.leaves),
        tuple(filters),
    )


def _of_file(source: Source, footer: Footer, leaf: LeafColumn, one: Beside) -> FilterInfo:
    about = one.description
    return FilterInfo(
        source.name,
        WHOLE_FILE,
        leaf.name,
        leaf.type_name,
        0,
        None,
        num_bytes=about.num_bytes if about else one.num_bytes,
        num_values=footer.metadata.num_rows,
        fill=about.fill if about else None,
        fpp=about.fpp if about else None,
        ndv=about.ndv if about else None,
        problem=one.problem,
        format=one.format,
    )


WHOLE_FILE = -1


def _inspect_chunk(source: Source, footer: Footer, row_group: int, leaf: LeafColumn) -> Plan[FilterInfo | None]:
    chunk = footer.chunk(row_group, leaf)
    offset = (chunk and chunk.bloom_filter_offset) or 0
    length = chunk and chunk.bloom_filter_length

    def info(**fields: Any) -> FilterInfo:
        return FilterInfo(source.name, row_group, leaf.name, leaf.type_name, offset, length, **fields)

    try:
        location = footer.filter_location(row_group, leaf)
        if location is None:
            return None
        bloom, _ = yield from read_filter(location, end=footer.start)
    except (CorruptFileError, UnsupportedError) as error:
        return info(problem=describe_error(error)) if offset else None
    return info(
        num_bytes=bloom.num_bytes,
        num_values=chunk.num_values,
        fill=bloom.fill,
        fpp=bloom.fpp,
        worst_block_fpp=bloom.worst_block_fpp,
        ndv=bloom.estimated_ndv,
        folds_to=bloom.folded_to(FOLD_FPP).num_bytes,
        used_by=engines.users(leaf, bloom.num_bytes),
        hazards=engines.hazards(leaf, bloom.num_bytes, has_length=length is not None),
        untrusted=untrusted(leaf),
        problem=None if untrusted(leaf) else distrust(footer, row_group, leaf, bloom),
    )


def distrust(footer: Footer, row_group: int, leaf: LeafColumn, bloom: SplitBlockBloomFilter) -> str | None:
    """Return why a filter that was read whole must not prune all the same, or None."""
    if reason := untrusted(leaf):
        return reason
    chunk = footer.chunk(row_group, leaf)
    nulls = chunk.statistics.null_count if chunk.statistics else None
    if bloom.is_empty and chunk.num_values and nulls != chunk.num_values:
        # Below a repeated or optional node all entries may be null without the statistics saying so.
        return "the bitset is empty although the column chunk has values"
    return None


def usable(footer: Footer, leaf: LeafColumn) -> str | None:
    """Return why no filter of this leaf may prune in this file, or None."""
    if reason := untrusted(leaf):
        return reason
    if leaf.physical_type is PhysicalType.INT96 and not _writes_microseconds(footer):
        return "INT96 values have several forms, and this writer is not known to use one"
    return collation_problem(footer, leaf)


def _writes_microseconds(footer: Footer) -> bool:
    """Return whether the file is Spark's: others hash nanoseconds that Spark and DuckDB then read cut off."""
    return footer.created_by.startswith("parquet-mr") and b"org.apache.spark.version" in footer.raw


# ---- probe -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProbeAnswer(Record):
    """Whether a row group can hold a value; `reason` says what decided it."""

    path: str
    row_group: int
    column: str
    value: str
    answer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Probe(Table):
    """The answers of `probe`, in order of file, row group and value."""

    rows: tuple[ProbeAnswer, ...]

    @property
    def might_match(self) -> bool:
        """Whether any row group might hold any of the values."""
        return any(row.answer == MIGHT_MATCH for row in self.rows)


@dataclass(frozen=True, slots=True)
class _Text:
    """A value that came as text and is typed by each file's column."""

    text: str


def probe(
    paths: PathLike | Iterable[PathLike],
    column: str,
    values: Any,
    *,
    as_text: bool = False,
    timezone: str | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
    log: RequestLog | None = None,
) -> Probe:
    """Return for every row group whether it can hold each of `values` (one, or a list), by its filter alone.

    `CANNOT_MATCH` is a proof; everything not understood, damaged or absent is `MIGHT_MATCH` with the reason. With
    `as_text` the values are text that the column's type parses. A datetime without zone needs `timezone` on a
    column that is adjusted to UTC. Raises `LiteralError` for a value that no file's column can be compared
    with, `ColumnNotFoundError` for a column that no file has.
    """
    literals = [_Text(v) if as_text else v for v in (values if isinstance(values, list | tuple) else [values])]
    sources = find(paths, filesystem=filesystem, storage_options=storage_options)
    path = parse_path(column)
    answers: dict[Source, list[ProbeAnswer]] = {}
    judged: list[Source] = []
    refused: ParquetBloomError | None = None
    understood = False
    of_files = of_tables(sources, {path[0]}, storage_options=storage_options)
    plans = ((source, _probe(source, path, literals, timezone, filters)) for source, filters in of_files)
    for done, (source, outcome) in enumerate(drive(plans, log=log), 1):
        if isinstance(outcome, ColumnNotFoundError | LiteralError):
            refused = refused or outcome
            answers[source] = _all_might(source, column, literals, outcome)
        elif isinstance(outcome, Exception):
            understood = True
            answers[source] = _all_might(source, column, literals, outcome)
        else:
            understood = True
            answers[source] = outcome
            judged.append(source)
        if progress:
            progress(done, len(sources))
    if refused and not understood:
        raise refused
    for source, error in changes(judged).items():  # by now, where a store told of it in no other way
        answers[source] = _all_might(source, column, literals, error)
    return Probe(tuple(chain.from_iterable(answers.values())))


def _all_might(source: Source, column: str, literals: list[Any], error: Exception) -> list[ProbeAnswer]:
    reason = describe_error(error)
    return [ProbeAnswer(source.name, -1, column, _shown(v), MIGHT_MATCH, reason) for v in literals]


def _shown(value: Any) -> str:
    return value.text if isinstance(value, _Text) else str(value)


def _probe(
    source: Source,
    path: tuple[str, ...],
    literals: list[Any],
    timezone: str | None,
    filters: Sequence[FileFilter],
) -> Plan[list[ProbeAnswer]]:
    footer = yield from read_footer(source.size)
    leaf = find_leaf(footer.leaves, path, where=source.name)
    typed = [parse_literal(leaf, v.text) if isinstance(v, _Text) else v for v in literals]
    encodings = [encode_literal(leaf, v, timezone=timezone) for v in typed]
    filters = () if collation_problem(footer, leaf) else (*in_footer(footer), *filters)
    of_file = [(one, one.might_contain(typed)) for one in filters if one.column == leaf.path]
    answers = []
    for row_groups in _groups(range(footer.num_row_groups)):
        loaded = yield from with_tail(footer, together(_load(footer, row_group, leaf) for row_group in row_groups))
        for row_group, (bloom, why) in zip(row_groups, loaded, strict=True):
            for number, (literal, encoding) in enumerate(zip(literals, encodings, strict=True)):
                answer, reason = _judge(footer, row_group, leaf, encoding, bloom, why)
                for one, may_hold in of_file if answer == MIGHT_MATCH and encoding.reason is None else ():
                    if not may_hold[number]:
                        answer, reason = CANNOT_MATCH, f"the {one.format} filter lacks the value"
                    elif bloom is None:
                        reason = f"the {one.format} filter has all bits of the value"
                answers.append(ProbeAnswer(source.name, row_group, leaf.name, _shown(literal), answer, reason))
    return answers


def _judge(
    footer: Footer,
    row_group: int,
    leaf: LeafColumn,
    encoding: Encodings,
    bloom: SplitBlockBloomFilter | None,
    why_not: str | None,
) -> tuple[str, str]:
    if encoding.reason is not None:
        return MIGHT_MATCH, encoding.reason
    if not encoding.plain and not footer.chunk_problem(row_group, leaf):
        return CANNOT_MATCH, f"no {leaf.type_name} equals it"
    if bloom is None:
        return MIGHT_MATCH, why_not or NO_FILTER
    if any(bloom.check_hash(h) for h in encoding.hashes()):
        return MIGHT_MATCH, "the filter has all bits of the value"
    return CANNOT_MATCH, "the filter lacks the value"


def _load(footer: Footer, row_group: int, leaf: LeafColumn) -> Plan[tuple[SplitBlockBloomFilter | None, str | None]]:
    """Plan to return a filter that may prune, or why there is none."""
    if reason := usable(footer, leaf):
        return None, reason
    try:
        location = footer.filter_location(row_group, leaf)
        if location is None:
            return None, NO_FILTER
        bloom, _ = yield from read_filter(location, end=footer.start)
    except (CorruptFileError, UnsupportedError, OSError) as error:
        return None, describe_error(error)
    if reason := distrust(footer, row_group, leaf, bloom):
        return None, reason
    return bloom, None


# ---- shared with the verbs below ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredFilter:
    """A filter of a file: its bits and the bytes that it takes there, and the `problem` that keeps it from pruning."""

    row_group: int
    leaf: LeafColumn
    location: FilterLocation | None
    bloom: SplitBlockBloomFilter | None
    length: int
    problem: str | None


def stored_filter(footer: Footer, row_group: int, leaf: LeafColumn) -> Plan[StoredFilter | None]:
    """Plan to return a chunk's filter, sound or not, or None if it has none."""
    location = None
    try:
        location = footer.filter_location(row_group, leaf)
        if location is None:
            return None
        bloom, length = yield from read_filter(location, end=footer.start)
    except (CorruptFileError, UnsupportedError) as error:
        return StoredFilter(row_group, leaf, location, None, 0, describe_error(error))
    return StoredFilter(row_group, leaf, location, bloom, length, distrust(footer, row_group, leaf, bloom))


def read_filters(footer: Footer, leaves: Iterable[LeafColumn]) -> Plan[list[StoredFilter]]:
    """Plan to return every filter of the given leaves."""
    filters: list[StoredFilter] = []
    for chunks in _groups(footer.chunks(tuple(leaves))):
        plans = (stored_filter(footer, row_group, leaf) for row_group, leaf, _ in chunks)
        found = yield from with_tail(footer, together(plans))
        filters += (stored for stored in found if stored)
    return filters


def describe_error(error: Exception) -> str:
    """Return an error as one line for a result: the file's name is beside it anyway."""
    if isinstance(error, CorruptFileError):
        return str(CorruptFileError(error.message, offset=error.offset))
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _paths(columns: Sequence[str] | str | None) -> list[tuple[str, ...]] | None:
    if columns is None:
        return None
    return [parse_path(c) for c in ([columns] if isinstance(columns, str) else columns)]


def _groups(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    remaining = iter(items)
    while group := list(islice(remaining, FILTERS_AT_ONCE)):
        yield group


def _note_missing(
    footer: Footer,
    wanted: list[tuple[str, ...]] | None,
    name: str,
    found: set[tuple[str, ...]],
    missing: dict[tuple[str, ...], ColumnNotFoundError],
) -> None:
    for path in wanted or ():
        try:
            find_leaf(footer.leaves, path, where=name)
            found.add(path)
        except ColumnNotFoundError as error:
            missing.setdefault(path, error)


def footers(sources: Iterable[Source], *, log: RequestLog | None = None) -> Iterator[tuple[Source, Footer | Exception]]:
    """Yield each source with its footer, or the error that it gave."""
    yield from drive(((s, read_footer(s.size)) for s in sources), log=log)
