"""Which row groups can hold which of many keys: what an upsert or a deletion request needs to know.

Keys are encoded and hashed once for each type of column, and sorted by value. A row group's statistics then cut out a
run of them, its filter is read once, and the run's hashes are checked in bulk.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from parquet_bloom.bounds import Bounds, BoundsReader
from parquet_bloom.errors import ColumnNotFoundError, CorruptFileError, LiteralError, UnsupportedError
from parquet_bloom.footer import Footer, Plan, read_filter, read_footer, together, with_tail
from parquet_bloom.keys import read_keys
from parquet_bloom.ordering import Key, literal_interval
from parquet_bloom.parallel import Progress
from parquet_bloom.reader import FILTERS_AT_ONCE, NO_FILTER, describe_error, distrust, usable
from parquet_bloom.sbbf import SplitBlockBloomFilter
from parquet_bloom.schema import LeafColumn, PhysicalType, find_leaf, parse_path
from parquet_bloom.storage import PathLike, RequestLog, Source, StorageOptions, drive, find
from parquet_bloom.values import encode_literal, hash_array, parse_literal

if TYPE_CHECKING:
    import pyarrow as pa

_NATIVE = sys.byteorder

IN_FILTER = "the filter has all bits of the key"


@dataclass(frozen=True, slots=True)
class _Hit:
    """The keys, by index, that one row group (or a whole file, None) may hold; None for all of them."""

    row_group: int | None
    keys: list[int] | None
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


def _key_set(leaf: LeafColumn, keys: pa.Array, timezone: str | None, *, are_text: bool) -> _KeySet:
    return _plain_key_set(leaf, keys) or _any_key_set(leaf, keys, timezone, are_text=are_text)


def _plain_key_set(leaf: LeafColumn, keys: pa.Array) -> _KeySet | None:
    """Return the key set where a key is stored in exactly one way, its own: text in text, integers in integers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    logical = leaf.logical_type.name if leaf.logical_type else None
    if leaf.physical_type is PhysicalType.BYTE_ARRAY and logical in ("STRING", "ENUM", "JSON"):
        if not (pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)):
            return None
        stored = keys.cast(pa.large_binary())
    elif leaf.physical_type is PhysicalType.INT64 and logical is None and pa.types.is_signed_integer(keys.type):
        stored = keys.cast(pa.int64())
    elif leaf.physical_type is PhysicalType.INT32 and logical is None and keys.type == pa.int32():
        stored = keys
    else:
        return None
    order = pc.array_sort_indices(stored)
    order = order.slice(0, len(stored) - stored.null_count)  # nulls come last, and nothing equals them
    stored = stored.take(order)
    return _KeySet(stored.to_pylist(), hash_array(leaf, stored), array("q", order.to_pylist()))


def _any_key_set(leaf: LeafColumn, keys: pa.Array, timezone: str | None, *, are_text: bool) -> _KeySet:
    found = _KeySet()
    points: list[tuple[Key, int, int]] = []
    for index, scalar in enumerate(keys):
        if not scalar.is_valid:
            continue
        literal = parse_literal(leaf, scalar.as_py()) if are_text else scalar
        encodings = encode_literal(leaf, literal, timezone=timezone)
        if encodings.reason is not None:
            found.unprovable.append(index)
            found.why_unprovable = encodings.reason
            continue
        interval = literal_interval(leaf, literal, timezone=timezone) if encodings.plain else ""
        for hash_ in encodings.hashes():
            if isinstance(interval, str) or interval[0] != interval[1]:
                found.wide_hashes += hash_.to_bytes(8, _NATIVE)
                found.wide_owners.append(index)
            else:
                points.append((interval[0], hash_, index))
    points.sort(key=lambda point: point[0])
    found.points = [point for point, _, _ in points]
    found.hashes = b"".join(hash_.to_bytes(8, _NATIVE) for _, hash_, _ in points)
    found.owners = array("q", [index for _, _, index in points])
    return found


# ---- judging -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Search:
    path: tuple[str, ...]
    keys: pa.Array
    are_text: bool
    timezone: str | None
    sets: dict[LeafColumn, tuple[_KeySet, BoundsReader]] = field(default_factory=dict)

    def bound(self, leaf: LeafColumn) -> tuple[_KeySet, BoundsReader]:
        if leaf not in self.sets:
            key_set = _key_set(leaf, self.keys, self.timezone, are_text=self.are_text)
            self.sets[leaf] = key_set, BoundsReader(leaf)
        return self.sets[leaf]


def _search_file(source: Source, search: _Search) -> Plan[list[_Hit]]:
    footer = yield from read_footer(source.size)
    leaf = find_leaf(footer.leaves, search.path)
    key_set, reader = search.bound(leaf)
    groups = iter(range(footer.num_row_groups))
    hits: list[_Hit] = []
    while some := list(islice(groups, FILTERS_AT_ONCE)):
        plans = (_search_row_group(footer, group, leaf, key_set, reader) for group in some)
        found = yield from with_tail(footer, together(plans))
        hits += (hit for of_group in found for hit in of_group)
    return hits


def _search_row_group(
    footer: Footer, row_group: int, leaf: LeafColumn, keys: _KeySet, reader: BoundsReader
) -> Plan[list[_Hit]]:
    if footer.metadata.row_groups[row_group].num_rows == 0:
        return []
    if problem := footer.chunk_problem(row_group, leaf):
        return [_Hit(row_group, None, problem)]
    known = reader.read(footer, row_group)
    if known.is_all_null:
        return []
    hits = [_Hit(row_group, keys.unprovable, keys.why_unprovable)] if keys.unprovable else []
    start, stop = keys.run(known)
    if start == stop and not keys.wide_owners:
        return hits
    bloom, problem = yield from _load(footer, row_group, leaf)
    if bloom is None:
        owners = [*keys.owners[start:stop], *keys.wide_owners]
        return [*hits, _Hit(row_group, list(dict.fromkeys(owners)), problem)]
    owners = [keys.owners[start + at] for at in _ones(bloom.check(memoryview(keys.hashes)[8 * start : 8 * stop]))]
    if keys.wide_owners:
        owners += (keys.wide_owners[at] for at in _ones(bloom.check(keys.wide_hashes)))
    return [*hits, _Hit(row_group, list(dict.fromkeys(owners)), IN_FILTER)] if owners else hits


def _load(footer: Footer, row_group: int, leaf: LeafColumn) -> Plan[tuple[SplitBlockBloomFilter | None, str]]:
    if reason := usable(footer, leaf):
        return None, reason
    try:
        location = footer.filter_location(row_group, leaf)
        if location is None:
            return None, NO_FILTER
        bloom, _ = yield from read_filter(location, end=footer.start)
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

    Each row is a key and a row group that may hold it, with the reason. A file that could not be read is a candidate for
    every key, with a null row group. At the end come the keys that are nowhere, with a null path.
    """

    def __init__(self, keys: pa.Array, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._keys, self._batches, self.schema = keys, batches, schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the candidates as a stream that Arrow's other libraries take."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def to_arrow(self) -> pa.Table:
        """Return all candidates as one table."""
        return self.to_reader().read_all()


def lookup(
    paths: PathLike | Iterable[PathLike],
    column: str,
    keys: Any,
    *,
    timezone: str | None = None,
    strict: bool = False,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
    log: RequestLog | None = None,
) -> Lookup:
    """Return which row groups can hold which of `keys`, as a stream of Arrow record batches.

    `keys` is a list, an Arrow array, or the path of a file of keys: Parquet or CSV with a column named like `column` (or
    a single one), or text with a key a line. The schema is `key`, `path`, `row_group`, `reason`. What is not among the
    candidates is proved to be absent; files and filters that cannot be read keep every key (`strict` raises).

    Raises `LiteralError` for keys that no file's column can be compared with, and `ColumnNotFoundError` for a column that
    no file has, before the stream begins.
    """
    import pyarrow as pa

    path = parse_path(column)
    array_, are_text = read_keys(keys, path[-1])
    sources = find(paths, filesystem=filesystem, storage_options=storage_options)
    search = _Search(path, array_, are_text, timezone)
    schema = pa.schema(
        [("key", array_.type), ("path", pa.string()), ("row_group", pa.int32()), ("reason", pa.string())]
    )
    batches = _candidates(sources, search, schema, strict=strict, progress=progress, log=log)
    first = list(islice(batches, 1))  # errors that concern every file come now, not in the middle of a loop
    return Lookup(array_, _chain(first, batches), schema)


def _chain(first: list[Any], rest: Iterator[Any]) -> Iterator[Any]:
    yield from first
    yield from rest


def _candidates(
    sources: list[Source],
    search: _Search,
    schema: pa.Schema,
    *,
    strict: bool,
    progress: Progress | None,
    log: RequestLog | None,
) -> Iterator[pa.RecordBatch]:
    seen = bytearray(len(search.keys))
    refused: ColumnNotFoundError | LiteralError | None = None
    understood = False
    held: list[tuple[Source, list[_Hit]]] = []  # until one file is understood, none is announced
    plans = ((source, _search_file(source, search)) for source in sources)
    for done, (source, outcome) in enumerate(drive(plans, log=log), 1):
        if isinstance(outcome, Exception):
            if strict:
                raise outcome
            if isinstance(outcome, ColumnNotFoundError | LiteralError):
                refused = refused or outcome
            else:
                understood = True
            outcome = [_Hit(None, None, describe_error(outcome))]
        else:
            understood = True
        held.append((source, outcome))
        if understood:
            for held_source, hits in held:
                if hits:
                    yield _batch(held_source, hits, search.keys, seen, schema)
            held.clear()
        if progress:
            progress(done, len(sources))
    if refused and not understood:
        raise refused
    yield _nowhere(search.keys, seen, schema)


def _batch(source: Source, hits: list[_Hit], keys: pa.Array, seen: bytearray, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    indices, groups, reasons = array("q"), [], []
    for hit in hits:
        owners = range(len(keys)) if hit.keys is None else hit.keys
        indices.extend(owners)
        groups += [hit.row_group] * len(owners)
        reasons += [hit.reason] * len(owners)
        for owner in owners:
            seen[owner] = 1
    return pa.record_batch(
        [
            keys.take(pa.array(indices, pa.int64())),
            pa.array([source.name] * len(indices), pa.string()),
            pa.array(groups, pa.int32()),
            pa.array(reasons, pa.string()),
        ],
        schema=schema,
    )


def _nowhere(keys: pa.Array, seen: bytearray, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    absent = keys.take(pa.array([index for index, is_seen in enumerate(seen) if not is_seen], pa.int64()))
    nulls = (pa.nulls(len(absent), kind) for kind in (pa.string(), pa.int32()))
    reason = pa.array(["no row group can hold it"] * len(absent), pa.string())
    return pa.record_batch([absent, *nulls, reason], schema=schema)
