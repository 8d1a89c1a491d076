"""Which row groups can hold which of many keys: what an upsert or a deletion request needs to know.

Keys are encoded and hashed once for each type of column, and sorted by value. A row group's statistics then cut out a
run of them, its filter is read once, and the run's hashes are checked in bulk.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from parquet_bloom.bounds import Bounds, BoundsReader, collation_problem
from parquet_bloom.cache import SHARED, Cache, filter_of, footer_of
from parquet_bloom.errors import ColumnNotFoundError, CorruptFileError, LiteralError, UnsupportedError
from parquet_bloom.footer import Footer, Plan, together, with_tail
from parquet_bloom.keys import Keys, is_null, read_keys, write_candidates
from parquet_bloom.ordering import Key, literal_interval
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
    find,
)
from parquet_bloom.values import encode_literal, hash_array, parse_literal, untrusted

if TYPE_CHECKING:
    import pyarrow as pa

_NATIVE = sys.byteorder

IN_FILTER = "the filter has all bits of the key"


@dataclass(frozen=True, slots=True)
class _Hit:
    """The keys, by index, that one row group (or a whole file, None) may hold; None for all of them."""

    row_group: int | None
    keys: Sequence[int] | None
    reason: str


@dataclass(slots=True)
class _KeySet:
    """The keys as one type of column stores them.

    `points` are the places of the keys that have one on the column's scale, ascending; `hashes` and `owners` run
    beside them. `wide` keys have no single place and are checked everywhere; `unprovable` ones are always kept.
    """

    points: list[Key] = field(default_factory=list)
    hashes: bytes = b""
    owners: array[int] = field(default_factory=lambda: array("q"))
    wide_hashes: bytes = b""
    wide_owners: list[int] = field(default_factory=list)
    unprovable: list[int] = field(default_factory=list)
    why_unprovable: str = ""

    def run(self, known: Bounds) -> tuple[int, int]:
        """Return the run of points that statistics leave open."""
        if known.is_all_null:
            return 0, 0
        if known.low is None:
            return 0, len(self.points)
        return bisect_left(self.points, known.low), bisect_right(self.points, known.high)


def _key_set(leaf: LeafColumn, keys: Keys, timezone: str | None) -> _KeySet:
    return _plain_key_set(leaf, keys) or _any_key_set(leaf, keys, timezone)


def _plain_key_set(leaf: LeafColumn, keys: Keys) -> _KeySet | None:
    """Return the key set where a key is stored in exactly one way, its own: text in text, integers in integers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    logical, kind = leaf.logical_type.name if leaf.logical_type else None, keys.shown.type
    if not keys.is_exact:
        return None
    if leaf.physical_type is PhysicalType.BYTE_ARRAY and logical in ("STRING", "ENUM", "JSON"):
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            return None
        stored = keys.shown.cast(pa.large_binary())
    elif leaf.physical_type is PhysicalType.INT64 and logical is None and pa.types.is_signed_integer(kind):
        stored = keys.shown.cast(pa.int64())
    elif leaf.physical_type is PhysicalType.INT32 and logical is None and kind == pa.int32():
        stored = keys.shown
    else:
        return None
    order = pc.array_sort_indices(stored)
    order = order.slice(0, len(stored) - stored.null_count)  # nulls come last, and nothing equals them
    stored = stored.take(order)
    return _KeySet(stored.to_pylist(), hash_array(leaf, stored), array("q", order.to_pylist()))


def _any_key_set(leaf: LeafColumn, keys: Keys, timezone: str | None) -> _KeySet:
    found = _KeySet()
    if reason := untrusted(leaf):
        found.unprovable, found.why_unprovable = [i for i, key in enumerate(keys.literals) if not is_null(key)], reason
        return found
    points: list[tuple[Key, int, int]] = []
    wide: list[bytes] = []
    takes_empty = leaf.physical_type in (PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY)
    for index, key in enumerate(keys.literals):
        if is_null(key) or (keys.are_text and key == "" and not takes_empty):
            continue
        literal = parse_literal(leaf, str(key)) if keys.are_text else key
        encodings = encode_literal(leaf, literal, timezone=timezone)
        if encodings.reason is not None:
            found.unprovable.append(index)
            found.why_unprovable = encodings.reason
            continue
        interval = literal_interval(leaf, literal, timezone=timezone) if encodings.plain else ""
        for hash_ in encodings.hashes():
            if isinstance(interval, str) or interval[0] != interval[1]:
                wide.append(hash_.to_bytes(8, _NATIVE))
                found.wide_owners.append(index)
            else:
                points.append((interval[0], hash_, index))
    points.sort(key=itemgetter(0))
    found.wide_hashes = b"".join(wide)
    found.points = [point for point, _, _ in points]
    found.hashes = b"".join(hash_.to_bytes(8, _NATIVE) for _, hash_, _ in points)
    found.owners = array("q", [index for _, _, index in points])
    return found


# ---- judging -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Search:
    path: tuple[str, ...]
    keys: Keys
    timezone: str | None
    cache: Cache
    limits: Limits
    sets: dict[LeafColumn, tuple[_KeySet, BoundsReader]] = field(default_factory=dict)

    def bound(self, leaf: LeafColumn) -> tuple[_KeySet, BoundsReader]:
        if leaf not in self.sets:
            key_set = _key_set(leaf, self.keys, self.timezone)
            self.sets[leaf] = key_set, BoundsReader(leaf)
        return self.sets[leaf]


def _search_file(source: Source, search: _Search) -> Plan[list[_Hit]]:
    footer = yield from footer_of(source, search.cache)
    leaf = find_leaf(footer.leaves, search.path)
    search.bound(leaf)  # raises what concerns the keys
    groups = iter(range(footer.num_row_groups))
    hits: list[_Hit] = []
    while some := list(islice(groups, FILTERS_AT_ONCE)):
        plans = (_search_row_group(source, footer, group, leaf, search) for group in some)
        found = yield from with_tail(footer, together(plans))
        hits += (hit for of_group in found for hit in of_group)
    return hits


def _search_row_group(
    source: Source, footer: Footer, row_group: int, leaf: LeafColumn, search: _Search
) -> Plan[list[_Hit]]:
    keys, reader = search.bound(leaf)
    if footer.metadata.row_groups[row_group].num_rows == 0:
        return []
    if problem := footer.chunk_problem(row_group, leaf) or collation_problem(footer, leaf):
        return [_Hit(row_group, None, problem)]
    known = reader.read(footer, row_group)
    if known.is_all_null:
        return []
    hits = [_Hit(row_group, keys.unprovable, keys.why_unprovable)] if keys.unprovable else []
    start, stop = keys.run(known)
    if start == stop and not keys.wide_owners:
        return hits
    bloom, problem = yield from _load(source, footer, row_group, leaf, search.cache)
    if bloom is None:
        # A view: very many files may lack a filter, and wait here with very many keys.
        return [
            *hits,
            *([_Hit(row_group, memoryview(keys.owners)[start:stop], problem)] if start < stop else []),
            *([_Hit(row_group, keys.wide_owners, problem)] if keys.wide_owners else []),
        ]
    owners = [keys.owners[start + at] for at in _ones(bloom.check(memoryview(keys.hashes)[8 * start : 8 * stop]))]
    if keys.wide_owners:
        owners += (keys.wide_owners[at] for at in _ones(bloom.check(keys.wide_hashes)))
    return [*hits, _Hit(row_group, owners, IN_FILTER)] if owners else hits


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


def _ones(found: bytes) -> Iterator[int]:
    at = found.find(1)
    while at >= 0:
        yield at
        at = found.find(1, at + 1)


# ---- lookup ------------------------------------------------------------------------------


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

    Raises `LiteralError` for keys that no file's column can be compared with, and `ColumnNotFoundError` for a column
    that no file has, before the stream begins.

    Footers and filters stay in `cache` for the next call (default: one that all calls share); `Cache(0)` keeps nothing.
    `limits` are on what is read at once.
    """
    import pyarrow as pa

    path = parse_path(column)
    read = read_keys(keys, path[-1])
    sources = find(paths, filesystem=filesystem, storage_options=storage_options)
    schema = pa.schema(
        [("key", read.shown.type), ("path", pa.string()), ("row_group", pa.int32()), ("reason", pa.string())]
    )
    hits = _hits(
        sources,
        _Search(path, read, timezone, SHARED if cache is None else cache, limits),
        strict=strict,
        progress=progress,
        log=log,
    )
    batches = _batches(hits, read.shown, schema)
    first = list(islice(batches, 1))  # errors that concern every file come now, not in the middle of a loop
    return Lookup(chain(first, batches), schema)


def _hits(
    sources: list[Source],
    search: _Search,
    *,
    strict: bool,
    progress: Progress | None,
    log: RequestLog | None,
) -> Iterator[tuple[Source, _Hit]]:
    refused: ColumnNotFoundError | LiteralError | None = None
    understood = False
    held: list[tuple[Source, list[_Hit]]] = []  # until one file is understood, none is announced
    judged: list[Source] = []
    plans = ((source, _search_file(source, search)) for source in sources)
    for done, (source, outcome) in enumerate(drive(plans, limits=search.limits, log=log), 1):
        if isinstance(outcome, ColumnNotFoundError | LiteralError):
            refused = refused or outcome
        elif isinstance(outcome, Exception) and strict:
            raise outcome
        else:
            understood = True
        if isinstance(outcome, Exception):
            held.append((source, [_kept(outcome)]))
        else:
            held.append((source, outcome))
            judged.append(source)
        if understood:
            yield from ((of_file, hit) for of_file, hits in held for hit in hits)
            held.clear()
        if progress:
            progress(done, len(sources))
    if refused and not understood:
        raise refused
    for source, error in changes(judged).items():  # by now, where a store told of it in no other way
        if strict:
            raise error
        yield source, _kept(error)


def _kept(error: Exception) -> _Hit:
    return _Hit(None, None, describe_error(error))


def _batches(hits: Iterator[tuple[Source, _Hit]], keys: pa.Array, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the hits as rows, and at the end the keys that were in none."""
    seen = bytearray(len(keys))
    waiting: list[tuple[Source, _Hit, list[int]]] = []
    for source, hit in hits:
        owners = list(dict.fromkeys(range(len(keys)) if hit.keys is None else hit.keys))
        for owner in owners:
            seen[owner] = 1
        waiting.append((source, hit, owners))
        if sum(len(owners) for _, _, owners in waiting) >= BATCH_ROWS or len(waiting) >= BATCH_HITS:
            yield _batch(waiting, keys, schema)
            waiting.clear()
    if waiting:
        yield _batch(waiting, keys, schema)
    yield _nowhere(seen, keys, schema)


BATCH_ROWS, BATCH_HITS = 64 * 1024, 1024
"""A batch ends when it has so many rows, or is of so many row groups."""


def _batch(hits: list[tuple[Source, _Hit, list[int]]], keys: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    def repeated(value: Any, kind: pa.DataType, times: int) -> pa.Array:
        return pa.nulls(times, kind) if value is None else pa.repeat(pa.scalar(value, kind), times)

    indices = pa.array(chain.from_iterable(owners for _, _, owners in hits), pa.int64())
    columns = [
        pa.concat_arrays(repeated(value, kind, len(owners)) for value, (_, _, owners) in zip(values, hits, strict=True))
        for values, kind in (
            ([source.name for source, _, _ in hits], pa.string()),
            ([hit.row_group for _, hit, _ in hits], pa.int32()),
            ([hit.reason for _, hit, _ in hits], pa.string()),
        )
    ]
    return pa.record_batch([keys.take(indices), *columns], schema=schema)


def _nowhere(seen: bytearray, keys: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    absent = keys.take(pa.array([index for index, is_seen in enumerate(seen) if not is_seen], pa.int64()))
    nulls = (pa.nulls(len(absent), kind) for kind in (pa.string(), pa.int32()))
    reason = pa.array(["no row group can hold it"] * len(absent), pa.string())
    return pa.record_batch([absent, *nulls, reason], schema=schema)
