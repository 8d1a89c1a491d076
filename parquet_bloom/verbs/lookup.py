"""Which row groups can hold which of many keys: what an upsert or a deletion request needs to know.

Keys are encoded and hashed once for each type of column, and sorted by value. A row group's statistics then cut out a
run of them, its filter is read once, and the run's hashes are checked in bulk.
"""

from __future__ import annotations

import contextlib
import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import ColumnNotFoundError, CorruptFileError, LiteralError, UnsupportedError, describe_error
from parquet_bloom.filters.parquet import FILTERS_AT_ONCE, NO_FILTER, why_distrusted, why_unusable
from parquet_bloom.filters.protocol import FileFilter
from parquet_bloom.filters.stored import NO_FILTERS, TableFilters, filters_in_footer, with_table_filters
from parquet_bloom.format.footer import Footer, Plan, together, with_tail
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import LeafColumn, PhysicalType, format_path, parse_path
from parquet_bloom.predicates.binding import Findings, View, why_conflicting
from parquet_bloom.results import FailedFile
from parquet_bloom.storage.cache import SHARED, Cache, filter_of, footer_of
from parquet_bloom.storage.drive import DEFAULT_LIMITS, Limits, RequestLog, changes, drive
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.storage.strays import Strays
from parquet_bloom.tables import LiveFile, Snapshot, fsspec_options
from parquet_bloom.tables.snapshots import TableFiles
from parquet_bloom.values.encoding import why_uncountable
from parquet_bloom.values.statistics import ColumnStatistics, StatisticsReader
from parquet_bloom.verbs.keys import Keys, KeySet, key_set, python_values, read_keys, write_candidates
from parquet_bloom.verbs.opening import open_files
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.verdicts import MIGHT_MATCH, FileVerdict, Pruning, RowGroupVerdict

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

    from parquet_bloom.filters.index import BloomIndex, Place

IN_FILTER = "the filter says the key may be present"
TOO_MANY = "with this many keys, some pass its filter by chance"

_SURE = 20
"""Of so many keys that are expected to pass a filter by chance, one does."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The keys, by index, that one row group (or a whole file, None) may hold; None for all of them."""

    row_group: int | None
    keys: Sequence[int] | None
    reason: str


def _run(keys: KeySet, known: ColumnStatistics) -> tuple[int, int]:
    """Return the run of points that statistics leave open."""
    if known.is_all_null:
        return 0, 0
    if known.low is None:
        return 0, len(keys.points)
    return bisect_left(keys.points, known.low), bisect_right(keys.points, known.high)


# ---- searching ---------------------------------------------------------------------------


@dataclass(slots=True)
class Search:
    """What is looked up in each file; `sets` are the keys as each type of column stores them, made when needed."""

    path: tuple[str, ...]
    keys: Keys
    _: KW_ONLY
    timezone: str | None
    cache: Cache = SHARED
    limits: Limits = DEFAULT_LIMITS
    snapshot: Snapshot | None = None
    index: BloomIndex | None = None
    storage_options: StorageOptions = None
    sets: dict[Any, KeySet] = field(default_factory=dict)
    readers: dict[LeafColumn, StatisticsReader] = field(default_factory=dict)
    literals: tuple[Any, ...] | None = None
    findings: Findings = field(default_factory=Findings)
    is_rebasing: bool = False
    """Whether the one who reads shifts days before 1582, whatever wrote them."""
    view: View | None = None
    budget: int | None = None
    """How many keys are still to be checked where some are sure to pass by chance; None for all."""

    def unprovable(self, file: LiveFile) -> str | None:
        """Return why nothing that is known of a table's file proves the absence of a key, or None."""
        assert self.snapshot is not None
        return file.not_excluded or dict(self.snapshot.unproved(file)).get(self.path[0])

    def bound(self, leaf: LeafColumn) -> tuple[KeySet, StatisticsReader]:
        """Return the keys for a leaf, and what reads its bounds. Raises `LiteralError` as `key_set` does."""
        kind = leaf.physical_type, leaf.type_length, leaf.logical_type, self.timezone, self.is_rebasing
        if leaf not in self.readers:
            if kind not in self.sets:
                as_read = _without_calendar(leaf) if self.is_rebasing else leaf
                self.sets[kind] = key_set(as_read, self.keys, self.timezone)
            self.readers[leaf] = StatisticsReader(leaf)
        return self.sets[kind], self.readers[leaf]

    @property
    def conflict(self) -> Hit | None:
        """The hit of each file, if the files that were looked at hold the column as different types."""
        return Hit(None, None, why_conflicting(format_path(self.path))) if self.findings.conflicting else None

    def leaves(self, footer: Footer) -> tuple[LeafColumn, ...]:
        """Return a file's leaf columns under the names of the one who reads it, but a table's under its own."""
        return footer.leaves if self.view is None or self.snapshot is not None else self.view.leaves(footer)

    def values(self, leaf: LeafColumn) -> tuple[Any, ...]:
        """Return the keys as literals, for filters that hash them in a way of their own; None for what is none."""
        if self.keys.are_text and not (leaf.logical_type and leaf.logical_type.name == "STRING"):
            return (None,) * len(self.keys)
        if self.literals is None:
            is_arrow = self.keys.literals is self.keys.shown
            self.literals = python_values(self.keys.shown) if is_arrow else tuple(self.keys.literals)
        return self.literals


def _without_calendar(leaf: LeafColumn) -> LeafColumn:
    logical = leaf.logical_type
    return leaf if logical is None else replace(leaf, logical_type=replace(logical, is_proleptic=False))


def _search_file(source: Source, search: Search, kept: TableFilters) -> Plan[list[Hit]]:
    footer = yield from footer_of(source, search.cache)
    snapshot, path = search.snapshot, search.path
    if snapshot is not None:
        leaf = seen = snapshot.find(footer, path)
    else:
        seen = source.find_leaf(search.leaves(footer), path)
        leaf = footer.leaves[seen.index]
    if search.view and (reason := search.view.why_other(seen)):
        return [Hit(None, None, reason)]
    search.bound(leaf)  # raises what concerns the keys
    if search.view is None or not search.view.knows_types:
        search.findings.note_kind(_KEYS, leaf)
    filters = () if leaf.text_rule else (*filters_in_footer(footer), *kept.filters)
    may_hold = _by_other_formats(filters, leaf, search)
    if may_hold is not None and not any(may_hold):
        return []
    groups = iter(range(footer.num_row_groups))
    hits: list[Hit] = []
    while some := list(islice(groups, FILTERS_AT_ONCE)):
        plans = (_search_row_group(source, footer, group, leaf, search) for group in some)
        of_groups = yield from with_tail(footer, together(plans))
        hits += (hit for of_group in of_groups for hit in of_group)
    if may_hold is not None:
        hits = [narrowed for hit in hits if (narrowed := _narrowed(hit, may_hold)).keys]
    return hits if kept.problem is None else [replace(hit, reason=kept.explained(hit.reason)) for hit in hits]


def _by_other_formats(filters: Sequence[FileFilter], leaf: LeafColumn, search: Search) -> Sequence[int] | None:
    """Return which keys other formats' filters of a file leave possible, a truth value each; None for all."""
    answers = [one.might_contain(search.values(leaf)) for one in filters if one.column == leaf.path]
    if not answers or why_uncountable(leaf):
        return None
    may_hold = bytearray(map(all, zip(*answers, strict=True)))
    for key in search.bound(leaf)[0].unprovable:
        may_hold[key] = 1
    return may_hold


def _narrowed(hit: Hit, may_hold: Sequence[int]) -> Hit:
    keys = range(len(may_hold)) if hit.keys is None else hit.keys
    reason = IN_FILTER if hit.reason == NO_FILTER else hit.reason
    return Hit(hit.row_group, [key for key in keys if may_hold[key]], reason)


def _by_index(sources: Iterable[Source], search: Search, log: RequestLog | None) -> set[Source]:
    """Return the files that the index says hold none of the keys; of many keys each has some by chance."""
    if search.index is None or len(search.keys) > INDEX_KEYS:
        return set()
    probed: list[Source] = []
    places: list[Sequence[Place]] = []
    hashes: set[int] = set()  # files of several types have several for a key; probing all of them is right as well
    for source in sources:
        if (file := search.index.find(source)) is None:
            continue
        path = search.path if search.snapshot is None else search.snapshot.locate(file.schema, search.path)
        leaf = next((leaf for leaf in file.schema.leaves if leaf.path == path), None)
        if leaf is None or leaf.index not in file.filters:
            continue
        with contextlib.suppress(LiteralError):
            keys, _ = search.bound(leaf)
            search.findings.note_kind(_KEYS, leaf)
            if not keys.unprovable and not why_uncountable(leaf):
                hashes.update(array("Q", bytes(keys.hashes) + bytes(keys.wide_hashes)))
                probed.append(source)
                places.append(file.filters[leaf.index])
    (answers,) = search.index.ask([(places, sorted(hashes))], limits=search.limits, log=log)
    return {source for source, may_hold in zip(probed, answers, strict=True) if not may_hold}


INDEX_KEYS = 64
"""With more keys the index is not probed: by chance, nearly every file's filter has one of them."""


def _by_table(sources: Sequence[Source], search: Search) -> set[Source]:
    """Return the files that hold none of the keys by what their table records of the column."""
    recorded = search.snapshot.recorded if search.snapshot else None
    leaf = next((leaf for leaf in recorded.leaves if leaf.path == search.path), None) if recorded else None
    if recorded is None or leaf is None or not _is_plain(leaf):
        return set()
    try:
        keys, _ = search.bound(leaf)
    except LiteralError:
        return set()  # which files may understand
    if keys.unprovable or keys.wide_owners:
        return set()
    bounds = zip(sources, recorded.bounds(leaf), strict=True)
    return {source for source, known in bounds if known is not None and operator.eq(*_run(keys, known))}


def _is_plain(leaf: LeafColumn) -> bool:
    """Return whether files hold a table's column in a type that keys are the same in: integers, dates and texts."""
    logical = leaf.logical_type.name if leaf.logical_type else None
    physical = leaf.physical_type
    return logical in (None, "DATE", "STRING") and physical not in (
        PhysicalType.BOOLEAN,
        PhysicalType.FLOAT,
        PhysicalType.DOUBLE,
    )


def _search_row_group(
    source: Source, footer: Footer, row_group: int, leaf: LeafColumn, search: Search
) -> Plan[list[Hit]]:
    keys, reader = search.bound(leaf)
    if footer.row_groups[row_group].num_rows == 0:
        return []
    if problem := footer.chunk_problem(row_group, leaf) or leaf.text_rule:
        return [Hit(row_group, None, problem)]
    known = reader.read(footer, row_group)
    if known.is_all_null:
        return []
    hits = [Hit(row_group, keys.unprovable, keys.why_unprovable)] if keys.unprovable else []
    start, stop = _run(keys, known)
    if start == stop and not keys.wide_owners:
        return hits
    bloom, problem = yield from _load_filter(source, footer, row_group, leaf, search.cache)
    if bloom is None:
        # A view: very many files may lack a filter, and wait here with very many keys.
        return [
            *hits,
            *([Hit(row_group, _part(keys.owners, start, stop), problem)] if start < stop else []),
            *([Hit(row_group, keys.wide_owners, problem)] if keys.wide_owners else []),
        ]
    if search.budget is not None and (stop - start) * bloom.fpp >= _SURE:
        if search.budget <= 0:
            wide = [Hit(row_group, keys.wide_owners, TOO_MANY)] if keys.wide_owners else []
            return [*hits, Hit(row_group, _part(keys.owners, start, stop), TOO_MANY), *wide]
        search.budget -= stop - start
    owners = [keys.owners[start + at] for at in _ones(bloom.check(memoryview(keys.hashes)[8 * start : 8 * stop]))]
    if keys.wide_owners:
        owners += (keys.wide_owners[at] for at in _ones(bloom.check(keys.wide_hashes)))
    return [*hits, Hit(row_group, owners, IN_FILTER)] if owners else hits


def _load_filter(
    source: Source, footer: Footer, row_group: int, leaf: LeafColumn, cache: Cache
) -> Plan[tuple[SplitBlockBloomFilter | None, str]]:
    if reason := why_unusable(footer, leaf):
        return None, reason
    try:
        location = footer.filter_location(row_group, leaf)
        if location is None:
            return None, NO_FILTER
        bloom = yield from filter_of(source, footer, row_group, leaf, location, cache)
    except (CorruptFileError, UnsupportedError) as error:
        return None, describe_error(error)
    if reason := why_distrusted(footer, row_group, leaf, bloom):
        return None, reason
    return bloom, ""


def _part(owners: Sequence[int], start: int, stop: int) -> Sequence[int]:
    return owners[start:stop] if isinstance(owners, range) else memoryview(owners)[start:stop]  # type: ignore[arg-type]


def _ones(flags: bytes) -> Iterator[int]:
    at = flags.find(1)
    while at >= 0:
        yield at
        at = flags.find(1, at + 1)


# ---- lookup ------------------------------------------------------------------------------


def candidates_schema(key: pa.DataType) -> pa.Schema:
    """Return the columns of candidates whose keys are shown as `key`."""
    import pyarrow as pa

    return pa.schema([("key", key), ("path", pa.string()), ("row_group", pa.int32()), ("reason", pa.string())])


class Lookup:
    """The candidates of `lookup`, made as they are taken: read them once, as Arrow record batches or in one of the
    ways below. To read them again is an error, for they are not kept.

    Each row is a key and a row group that may hold it, with the reason. A file that could not be read is a candidate
    for every key, with a null row group. At the end come the keys that are nowhere, with a null path.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        sources: Sequence[Source] = (),
        table: TableFiles | None = None,
        errors: Collection[FailedFile] = (),
    ) -> None:
        self._batches, self.schema = batches, schema
        self._sources, self._table, self._errors = sources, table, errors
        self._is_read = self._is_complete = False

    def __repr__(self) -> str:
        state = "read already" if self._is_read else "not read yet"
        return f"<Lookup: a stream of {', '.join(self.schema.names)}, {state}>"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._require_unread()
        return self._read()

    def __bool__(self) -> bool:
        """Raise `TypeError`: whether there are candidates is in them, and they can be read once only."""
        raise TypeError("Lookup has no truth value; use .to_arrow() for its rows")

    def _read(self) -> Iterator[pa.RecordBatch]:
        self._require_unread()
        self._is_read = True
        yield from self._batches
        self._is_complete = True

    def _require_unread(self) -> None:
        if self._is_read:
            raise UnsupportedError(
                "the candidates were read already and are not kept; keep what to_arrow() returns, or call lookup again"
            )

    @property
    def errors(self) -> tuple[FailedFile, ...]:
        """The files that could not be read, which may hold every key; known once all candidates have been read."""
        if not self._is_complete:
            raise UnsupportedError("which files could not be read is known once all candidates have been read")
        return tuple(self._errors)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the candidates as a stream that Arrow's other libraries take."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_arrow(self) -> pa.Table:
        """Return all candidates as one table."""
        return self.to_reader().read_all()

    def to_dataset(self) -> ds.FileSystemDataset:
        """Return a pyarrow dataset of exactly the row groups that may hold a key; this reads the candidates.

        Rows of other keys in them are for the scanner to filter.
        """
        row_groups: dict[str, set[int | None]] = {}
        for batch in self:
            for path, row_group in zip(batch["path"].to_pylist(), batch["row_group"].to_pylist(), strict=True):
                if path is not None:
                    row_groups.setdefault(path, set()).add(row_group)
        files = tuple(_verdict(source, row_groups.get(source.name, set())) for source in self._sources)
        return Pruning("keys", files, tuple(self._sources), self._table).to_dataset()

    def write(self, path: str) -> int:
        """Write the candidates to a new Parquet file as they come; return how many there are."""
        return write_candidates(iter(self), self.schema, path)


def _verdict(source: Source, row_groups: set[int | None]) -> FileVerdict:
    """Return which row groups of a file candidates are in; None among them is the whole file."""
    if None in row_groups:
        return FileVerdict(source.name, source.size, not_pruned="may hold keys in any row group")
    numbers = sorted(number for number in row_groups if number is not None)
    groups = (RowGroupVerdict(source.name, n, MIGHT_MATCH, "may hold a key", "", 0, 0, 0) for n in numbers)
    return FileVerdict(source.name, source.size, tuple(groups))


def lookup(
    paths: PathLike | Iterable[PathLike] | Any,
    column: str,
    keys: Any,
    *,
    timezone: str | None = None,
    catalog: str | None = None,
    as_of: int | str | None = None,
    strict: bool = False,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    cache: Cache | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress | None = None,
    log: RequestLog | None = None,
) -> Lookup:
    """Return which row groups can hold which of `keys`, as a stream of Arrow record batches.

    Its columns are `key`, `path`, `row_group` and `reason`. A key that is in no candidate is proved to be absent, and
    comes at the end with a null `path`. A file that cannot be read may hold every key: its `row_group` is null. Keys
    that Arrow has no common type for are shown as text.

    Tables are named as for `prune`. With few keys, an index beside the files is probed first.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. Or a
            table.
        column: The leaf column that holds the keys.
        keys: A list, an Arrow or NumPy array, a Series; a table, a frame or a dict with a column of that name, or only
            one; or the path of a file: Parquet or CSV with such a column, or text with one key per line.
        timezone: Time zone of timestamps without one, such as `Europe/Berlin`.
        catalog: A catalog of pyiceberg's configuration; `paths` is then the name of an Iceberg table, such as
            `db.events`.
        as_of: An earlier version of a table, or a time in ISO 8601.
        strict: Raise for a file that cannot be read, instead of keeping it.
        filesystem: A file system of fsspec's or pyarrow's that has the paths.
        storage_options: Options for fsspec, such as credentials.
        cache: Keeps footers and filters for the next call. By default all calls share one; `Cache(0)` keeps nothing.
        limits: How many files and bytes are read at once.
        progress: Is called with how much is done and how much there is in all.
        log: Collects every read request.

    Returns:
        A `Lookup`, which can be read once. `.errors` are the files that could not be read, known at the end.

    Raises:
        FileNotFoundError: A path names nothing.
        TypeError: The keys are none of these.
        LiteralError: No file's column can be compared with a key.
        ColumnNotFoundError: No file has the column.
        UnsupportedError: The paths cannot be read right, such as some of a table's files.

    Examples:
        >>> candidates = parquet_bloom.lookup("events", "id", [7, 5000]).to_arrow()
        >>> candidates.select(["key", "path", "row_group"]).to_pylist()
        [{'key': 7, 'path': 'events/b.parquet', 'row_group': 1}, {'key': 5000, 'path': None, 'row_group': None}]
    """
    path = parse_path(column)
    read = read_keys(keys, path[-1])
    opened = open_files(
        paths,
        catalog=catalog,
        as_of=as_of,
        filesystem=filesystem,
        storage_options=storage_options,
        cache=cache,
        log=log,
    )
    search = Search(
        path,
        read,
        timezone=timezone,
        cache=opened.cache,
        limits=limits,
        snapshot=opened.table.snapshot if opened.table else None,
        index=opened.index,
        storage_options=storage_options,
    )
    schema = candidates_schema(read.shown.type)
    failed: dict[str, FailedFile] = {}
    hits = _hits(opened.sources, search, failed, strict=strict, progress=progress, log=log)
    batches = _batches(hits, read.shown, schema)
    first = list(islice(batches, 1))  # errors that concern every file come now, not in the middle of a loop
    return Lookup(chain(first, batches), schema, opened.sources, opened.table, failed.values())


def _hits(
    sources: list[Source],
    search: Search,
    failed: dict[str, FailedFile],
    *,
    strict: bool,
    progress: Progress | None,
    log: RequestLog | None,
) -> Iterator[tuple[Source, Hit]]:
    refused: ColumnNotFoundError | LiteralError | None = None
    understood = False
    held: list[tuple[Source, list[Hit]]] = []  # until one file is understood, none is announced
    seen: dict[Source, None] = {}  # but what is not Parquet
    for source, outcome in outcomes(sources, search, progress=progress, log=log):
        seen[source] = None
        if isinstance(outcome, Exception):
            failed[source.name] = FailedFile(source.name, describe_error(outcome))
        if isinstance(outcome, ColumnNotFoundError | LiteralError):
            refused = refused or outcome
        elif isinstance(outcome, Exception) and strict:
            raise outcome
        else:
            understood = True
        held.append((source, [kept(outcome)] if isinstance(outcome, Exception) else outcome))
        if understood:
            yield from ((of_file, hit) for of_file, hits in held for hit in hits)
            held.clear()
    if (hit := search.conflict) is not None:  # known only now that every footer was seen
        yield from ((source, hit) for source in seen)
    if refused and not understood:
        raise refused


def outcomes(
    sources: list[Source], search: Search, *, progress: Progress | None = None, log: RequestLog | None = None
) -> Iterator[tuple[Source, list[Hit] | Exception]]:
    """Yield each file with its hits, or the error that it gave; one that turns out to have changed comes again."""
    searched: list[Source] = []
    live = dict(zip(sources, search.snapshot.files, strict=True)) if search.snapshot else {}
    unprovable = {source: reason for source, file in live.items() if (reason := search.unprovable(file))}
    yield from ((source, [Hit(None, None, reason)]) for source, reason in unprovable.items())
    ruled_out = _by_table(sources, search) - unprovable.keys()
    known = ruled_out | unprovable.keys()
    of_index = _by_index([source for source in sources if source not in known], search, log)
    for source in ruled_out | of_index:
        yield source, []
    known |= of_index
    if progress and known:
        progress(len(known), len(sources))
    others = (source for source in sources if source not in known)
    plans = ((source, _search_file(source, search, kept)) for source, kept in _with_filters(others, search, live))
    strays = Strays()
    for done, (source, outcome) in enumerate(drive(plans, limits=search.limits, log=log), len(known) + 1):
        if strays.take(source, outcome):
            continue
        if not isinstance(outcome, Exception):
            searched.append(source)
        yield source, outcome
        if progress:
            progress(done, len(sources))
    strays.rest(sources)
    yield from changes(searched).items()  # meanwhile, if the store reported it in no other way


def _with_filters(
    sources: Iterable[Source], search: Search, live: Mapping[Source, LiveFile]
) -> Iterable[tuple[Source, TableFilters]]:
    if not any(file.file_index for file in live.values()):
        return ((source, NO_FILTERS) for source in sources)
    options = fsspec_options(search.storage_options)
    return with_table_filters(sources, live, {search.path[0]}, storage_options=options, limits=search.limits)


def kept(error: Exception) -> Hit:
    """Return an error as a hit: the whole file may hold every key."""
    return Hit(None, None, describe_error(error))


def _batches(hits: Iterator[tuple[Source, Hit]], keys: pa.Array, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the hits as rows, and at the end the keys that were in none."""
    seen = bytearray(len(keys))

    def noted() -> Iterator[tuple[str | None, Hit]]:
        for source, hit in hits:
            for owner in range(len(keys)) if hit.keys is None else hit.keys:
                seen[owner] = 1
            yield source.name, hit

    yield from batches_of(noted(), keys, schema)
    nowhere = [index for index, is_seen in enumerate(seen) if not is_seen]
    yield from batches_of(iter([(None, Hit(None, nowhere, NOWHERE))]), keys, schema)


_KEYS = 0  # the number of the one test that a lookup is

NOWHERE = "no row group can hold it"


def batches_of(hits: Iterable[tuple[str | None, Hit]], keys: pa.Array, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield hits, each beside the name of its file, as rows of the candidates' schema."""
    waiting: list[tuple[str | None, Hit, list[int]]] = []
    num_rows = 0
    for name, hit in hits:
        owners = list(dict.fromkeys(range(len(keys)) if hit.keys is None else hit.keys))
        waiting.append((name, hit, owners))
        num_rows += len(owners)
        if num_rows >= BATCH_ROWS or len(waiting) >= BATCH_HITS:
            yield _batch(waiting, keys, schema)
            waiting.clear()
            num_rows = 0
    if waiting:
        yield _batch(waiting, keys, schema)


BATCH_ROWS, BATCH_HITS = 64 * 1024, 1024
"""A batch ends when it has so many rows, or is of so many row groups."""


def _batch(hits: list[tuple[str | None, Hit, list[int]]], keys: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    indices = pa.array(chain.from_iterable(owners for _, _, owners in hits), pa.int64())
    numbers = pa.array(chain.from_iterable(repeat(n, len(owners)) for n, (_, _, owners) in enumerate(hits)), pa.int32())
    columns = [
        pa.array(values, kind).take(numbers)
        for values, kind in (
            ([name for name, _, _ in hits], pa.string()),
            ([hit.row_group for _, hit, _ in hits], pa.int32()),
            ([hit.reason for _, hit, _ in hits], pa.string()),
        )
    ]
    return pa.record_batch([keys.take(indices), *columns], schema=schema)
