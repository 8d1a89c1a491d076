"""Which row groups can hold which of many keys: what an upsert or a deletion request needs to know.

Keys are encoded and hashed once for each type of column, and sorted by value. A row group's statistics then cut out a
run of them, its filter is read once, and the run's hashes are checked in bulk.
"""

from __future__ import annotations

import contextlib
import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

from parquet_bloom.bounds import Bounds, BoundsReader, collation_problem
from parquet_bloom.cache import SHARED, Cache, filter_of, footer_of
from parquet_bloom.errors import ColumnNotFoundError, CorruptFileError, LiteralError, UnsupportedError
from parquet_bloom.footer import Footer, Plan, together, with_tail
from parquet_bloom.indexes.bloom_index import BloomIndex, Place, index_of
from parquet_bloom.indexes.file_filters import FileFilter
from parquet_bloom.indexes.stored import in_footer, of_table
from parquet_bloom.keys import Keys, KeySet, key_set, read_keys, write_candidates
from parquet_bloom.parallel import Progress
from parquet_bloom.reader import FILTERS_AT_ONCE, NO_FILTER, describe_error, distrust, usable
from parquet_bloom.sbbf import SplitBlockBloomFilter
from parquet_bloom.schema import LeafColumn, PhysicalType, find_leaf, parse_path
from parquet_bloom.storage import (
    DEFAULT_LIMITS,
    Limits,
    PathLike,
    RequestLog,
    Source,
    StorageOptions,
    changes,
    drive,
)
from parquet_bloom.tables import LiveFile, Snapshot, directory_of, fsspec_options, live_sources

if TYPE_CHECKING:
    import pyarrow as pa

IN_FILTER = "the filter has all bits of the key"
TOO_MANY = "its filter lets some of so many keys pass in any case"

_SURE = 20
"""Of so many keys that are expected to pass a filter by chance, one does."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The keys, by index, that one row group (or a whole file, None) may hold; None for all of them."""

    row_group: int | None
    keys: Sequence[int] | None
    reason: str


def _run(keys: KeySet, known: Bounds) -> tuple[int, int]:
    """Return the run of points that statistics leave open."""
    if known.is_all_null:
        return 0, 0
    if known.low is None:
        return 0, len(keys.points)
    return bisect_left(keys.points, known.low), bisect_right(keys.points, known.high)


# ---- judging -----------------------------------------------------------------------------


@dataclass(slots=True)
class Search:
    """What is looked up in each file; `sets` are the keys as each type of column stores them, made when needed."""

    path: tuple[str, ...]
    keys: Keys
    timezone: str | None
    cache: Cache = SHARED
    limits: Limits = DEFAULT_LIMITS
    snapshot: Snapshot | None = None
    index: BloomIndex | None = None
    storage_options: StorageOptions = None
    sets: dict[Any, KeySet] = field(default_factory=dict)
    readers: dict[LeafColumn, BoundsReader] = field(default_factory=dict)
    literals: tuple[Any, ...] | None = None
    spare: int | None = None
    """How many keys are still to be checked where some are sure to pass by chance; None for all."""

    def bound(self, leaf: LeafColumn) -> tuple[KeySet, BoundsReader]:
        """Return the keys for a leaf, and what reads its bounds. Raises `LiteralError` as `key_set` does."""
        if leaf not in self.readers:
            kind = leaf.physical_type, leaf.type_length, leaf.logical_type, self.timezone
            if kind not in self.sets:
                self.sets[kind] = key_set(leaf, self.keys, self.timezone)
            self.readers[leaf] = BoundsReader(leaf)
        return self.sets[leaf.physical_type, leaf.type_length, leaf.logical_type, self.timezone], self.readers[leaf]

    def values(self, leaf: LeafColumn) -> tuple[Any, ...]:
        """Return the keys as literals, for filters that hash them in a way of their own; None for what is none."""
        if self.keys.are_text and not (leaf.logical_type and leaf.logical_type.name == "STRING"):
            return (None,) * len(self.keys)
        if self.literals is None:
            is_arrow = self.keys.literals is self.keys.shown
            self.literals = tuple(self.keys.shown.to_pylist() if is_arrow else self.keys.literals)
        return self.literals


def _search_file(source: Source, search: Search, filters: Sequence[FileFilter]) -> Plan[list[Hit]]:
    footer = yield from footer_of(source, search.cache)
    path = search.path if search.snapshot is None else search.snapshot.locate(footer, search.path)
    leaf = find_leaf(footer.leaves, path)
    search.bound(leaf)  # raises what concerns the keys
    filters = () if collation_problem(footer, leaf) else (*in_footer(footer), *filters)
    may_hold = _by_other_formats(filters, leaf, search)
    if may_hold is not None and not any(may_hold):
        return []
    groups = iter(range(footer.num_row_groups))
    hits: list[Hit] = []
    while some := list(islice(groups, FILTERS_AT_ONCE)):
        plans = (_search_row_group(source, footer, group, leaf, search) for group in some)
        found = yield from with_tail(footer, together(plans))
        hits += (hit for of_group in found for hit in of_group)
    if may_hold is not None:
        hits = [narrowed for hit in hits if (narrowed := _narrowed(hit, may_hold)).keys]
    return hits


def _by_other_formats(filters: Sequence[FileFilter], leaf: LeafColumn, search: Search) -> Sequence[int] | None:
    """Return which keys other formats' filters of a file leave possible, a truth value each; None for all."""
    answers = [found.might_contain(search.values(leaf)) for found in filters if found.column == leaf.path]
    if not answers:
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
    asked: list[Source] = []
    places: list[Sequence[Place]] = []
    hashes: set[int] = set()  # files of several types have several for a key; to ask for all of them is as right
    for source in sources:
        if (file := search.index.find(source)) is None:
            continue
        path = search.path if search.snapshot is None else search.snapshot.locate(file.schema, search.path)
        leaf = next((leaf for leaf in file.schema.leaves if leaf.path == path), None)
        if leaf is None or leaf.index not in file.filters:
            continue
        with contextlib.suppress(LiteralError):
            keys, _ = search.bound(leaf)
            if not keys.unprovable:
                hashes.update(array("Q", bytes(keys.hashes) + bytes(keys.wide_hashes)))
                asked.append(source)
                places.append(file.filters[leaf.index])
    (answers,) = search.index.ask([(places, sorted(hashes))], limits=search.limits, log=log)
    return {source for source, may_hold in zip(asked, answers, strict=True) if not may_hold}


INDEX_KEYS = 64
"""For more keys the index is not asked: by chance nearly every file's filter has one of them."""


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
    if footer.metadata.row_groups[row_group].num_rows == 0:
        return []
    if problem := footer.chunk_problem(row_group, leaf) or collation_problem(footer, leaf):
        return [Hit(row_group, None, problem)]
    known = reader.read(footer, row_group)
    if known.is_all_null:
        return []
    hits = [Hit(row_group, keys.unprovable, keys.why_unprovable)] if keys.unprovable else []
    start, stop = _run(keys, known)
    if start == stop and not keys.wide_owners:
        return hits
    bloom, problem = yield from _load(source, footer, row_group, leaf, search.cache)
    if bloom is None:
        # A view: very many files may lack a filter, and wait here with very many keys.
        return [
            *hits,
            *([Hit(row_group, _part(keys.owners, start, stop), problem)] if start < stop else []),
            *([Hit(row_group, keys.wide_owners, problem)] if keys.wide_owners else []),
        ]
    if search.spare is not None and (stop - start) * bloom.fpp >= _SURE:
        if search.spare <= 0:
            wide = [Hit(row_group, keys.wide_owners, TOO_MANY)] if keys.wide_owners else []
            return [*hits, Hit(row_group, _part(keys.owners, start, stop), TOO_MANY), *wide]
        search.spare -= stop - start
    owners = [keys.owners[start + at] for at in _ones(bloom.check(memoryview(keys.hashes)[8 * start : 8 * stop]))]
    if keys.wide_owners:
        owners += (keys.wide_owners[at] for at in _ones(bloom.check(keys.wide_hashes)))
    return [*hits, Hit(row_group, owners, IN_FILTER)] if owners else hits


def _load(
    source: Source, footer: Footer, row_group: int, leaf: LeafColumn, cache: Cache
) -> Plan[tuple[SplitBlockBloomFilter | None, str]]:
    if reason := usable(footer, leaf):
        return None, reason
    try:
        location = footer.filter_location(row_group, leaf)
        if location is None:
            return None, NO_FILTER
        bloom = yield from filter_of(source, footer, row_group, leaf, location, cache)
    except (CorruptFileError, UnsupportedError) as error:
        return None, describe_error(error)
    if reason := distrust(footer, row_group, leaf, bloom):
        return None, reason
    return bloom, ""


def _part(owners: Sequence[int], start: int, stop: int) -> Sequence[int]:
    return owners[start:stop] if isinstance(owners, range) else memoryview(owners)[start:stop]  # type: ignore[arg-type]


def _ones(found: bytes) -> Iterator[int]:
    at = found.find(1)
    while at >= 0:
        yield at
        at = found.find(1, at + 1)


# ---- lookup ------------------------------------------------------------------------------


def candidates_schema(key: pa.DataType) -> pa.Schema:
    """Return the columns of candidates whose keys are shown as `key`."""
    import pyarrow as pa

    return pa.schema([("key", key), ("path", pa.string()), ("row_group", pa.int32()), ("reason", pa.string())])


class Lookup:
    """The candidates of `lookup`, made as they are taken: iterate over it once, for Arrow record batches.

    Each row is a key and a row group that may hold it, with the reason. A file that could not be read is a candidate
    for every key, with a null row group. At the end come the keys that are nowhere, with a null path.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches, self.schema = batches, schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the candidates as a stream that Arrow's other libraries take."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def to_arrow(self) -> pa.Table:
        """Return all candidates as one table."""
        return self.to_reader().read_all()

    def write(self, path: str) -> int:
        """Write the candidates to a new Parquet file as they come; return how many there are."""
        return write_candidates(self._batches, self.schema, path)


def lookup(
    paths: PathLike | Iterable[PathLike],
    column: str,
    keys: Any,
    *,
    timezone: str | None = None,
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

    `keys` is a list, an Arrow or NumPy array, or the path of a file of keys: Parquet or CSV with a column named like
    `column` (or a single one), or text with a key a line. The schema is `key`, `path`, `row_group`, `reason`; keys that
    Arrow has no one type for are shown as text. What is not among the candidates is proved to be absent; files and
    filters that cannot be read, and files that lack the column, keep every key. A file that cannot be read is an error
    under `strict`.

    The directory of a table stands for the live files of its snapshot, now or `as_of` a version or a
    time. What its log or manifests record of integers, dates and texts comes first; then, of few keys, an index beside
    the files (`index_create`).

    Raises `LiteralError` for keys that no file's column can be compared with, and `ColumnNotFoundError` for a column
    that no file has, before the stream begins.

    Footers and filters stay in `cache` for the next call (default: one that all calls share); `Cache(0)` keeps nothing.
    `limits` are on what is read at once.
    """
    path = parse_path(column)
    read = read_keys(keys, path[-1])
    cache = SHARED if cache is None else cache
    sources, snapshot = live_sources(paths, as_of=as_of, filesystem=filesystem, storage_options=storage_options)
    options = storage_options if snapshot is None else fsspec_options(storage_options)
    root = directory_of(paths, snapshot)
    index = index_of(root, sources, storage_options=options, filesystem=filesystem, cache=cache, log=log)
    schema = candidates_schema(read.shown.type)
    hits = _hits(
        sources,
        Search(path, read, timezone, cache, limits, snapshot, index, storage_options),
        strict=strict,
        progress=progress,
        log=log,
    )
    batches = _batches(hits, read.shown, schema)
    first = list(islice(batches, 1))  # errors that concern every file come now, not in the middle of a loop
    return Lookup(chain(first, batches), schema)


def _hits(
    sources: list[Source],
    search: Search,
    *,
    strict: bool,
    progress: Progress | None,
    log: RequestLog | None,
) -> Iterator[tuple[Source, Hit]]:
    refused: ColumnNotFoundError | LiteralError | None = None
    understood = False
    held: list[tuple[Source, list[Hit]]] = []  # until one file is understood, none is announced
    for source, outcome in outcomes(sources, search, progress=progress, log=log):
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
    if refused and not understood:
        raise refused


def outcomes(
    sources: list[Source], search: Search, *, progress: Progress | None = None, log: RequestLog | None = None
) -> Iterator[tuple[Source, list[Hit] | Exception]]:
    """Yield each file with its hits, or the error that it gave; one that turns out to have changed comes again."""
    judged: list[Source] = []
    live = dict(zip(sources, search.snapshot.files, strict=True)) if search.snapshot else {}
    unprovable = {source: file.not_excluded for source, file in live.items() if file.not_excluded}
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
    plans = ((source, _search_file(source, search, filters)) for source, filters in _with_filters(others, search, live))
    for done, (source, outcome) in enumerate(drive(plans, limits=search.limits, log=log), len(known) + 1):
        if not isinstance(outcome, Exception):
            judged.append(source)
        yield source, outcome
        if progress:
            progress(done, len(sources))
    yield from changes(judged).items()  # by now, where a store told of it in no other way


def _with_filters(
    sources: Iterable[Source], search: Search, live: Mapping[Source, LiveFile]
) -> Iterable[tuple[Source, Sequence[FileFilter]]]:
    if not any(file.file_index for file in live.values()):
        return ((source, ()) for source in sources)
    options = fsspec_options(search.storage_options)
    return of_table(sources, live, {search.path[0]}, storage_options=options, limits=search.limits)


def kept(error: Exception) -> Hit:
    """Return the hit that an error stands for: the whole file may hold every key."""
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
