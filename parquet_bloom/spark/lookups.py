"""`lookup` and `semi_join`: which files and row groups can hold which of very many keys, and the rows that have them.

The keys come to the driver as Arrow, are sorted there, and go to the executors as one broadcast; a key set above the
limit goes as several, one after the other. An executor's Python hashes a broadcast once for each type of column, and
then evaluates its share of the files as the local `lookup` does: statistics narrow the sorted keys to a run, the row
group's filter is loaded once, and the run is checked in bulk. The results travel as indexes of keys. So memory is
bounded by the limit, however many keys or files there are; but filters that are not cached are read again for the
next broadcast.
"""

from __future__ import annotations

import pickle
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import ColumnNotFoundError, LiteralError, describe_error
from parquet_bloom.format.schema import parse_path
from parquet_bloom.predicates.binding import Findings, more_telling
from parquet_bloom.spark.conditions import is_rebasing
from parquet_bloom.spark.keys import BROADCAST_BYTES, KeyPart, ShippedKeys, as_spark_shows, key_parts, ship_keys
from parquet_bloom.spark.session import Settings, cores, interruptibly, is_connect, job
from parquet_bloom.spark.stores import SparkOptions, settled
from parquet_bloom.spark.tasks import (
    TASKS_PER_CORE,
    frame_of,
    inside,
    live_sources_of,
    name_of,
    only,
    readable_errors,
    run,
    shared_out,
)
from parquet_bloom.spark.views import SparkView
from parquet_bloom.storage.listing import Source, StorageOptions, find
from parquet_bloom.tables import Snapshot, fsspec_options
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.lookup import (
    BATCH_ROWS,
    NOWHERE,
    Hit,
    Search,
    batches_of,
    candidates_schema,
    kept,
    mark,
    outcomes,
)
from parquet_bloom.verbs.parallel import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def lookup(
    spark: SparkSession,
    paths: Any,
    column: str,
    keys: Any,
    *,
    absent: bool = True,
    catalog: str | None = None,
    allow_outside: bool = False,
    broadcast_bytes: int = BROADCAST_BYTES,
    storage_options: SparkOptions = None,
    num_tasks: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return which row groups can hold which of `keys`: the candidates of `parquet_bloom.lookup`, as a DataFrame.

    `keys` is a DataFrame with a column named like the last part of `column`, or with a single one; or what
    `parquet_bloom.lookup` takes. Columns: key, path, row_group, reason. What is not among the candidates is proved to
    be absent. Files and filters that cannot be read keep every key, a whole file with a null row group. Absent keys
    have a null path, without `absent` no row. Rows come in any order. A table is treated as its live files, with the
    filters that it has for them: its directory, or an Iceberg table as `parquet_bloom.prune` takes it.

    Keys without a time zone are in the session's. The jobs are done when this returns, and the rows stay on the
    executors until `unpersist()`. Keys of more than `broadcast_bytes` are looked up in parts, one after the other.
    Raises what `parquet_bloom.lookup` does.
    """
    candidates, _ = find_candidates(
        *(spark, paths, column, keys),
        absent=absent,
        catalog=catalog,
        allow_outside=allow_outside,
        broadcast_bytes=broadcast_bytes,
        storage_options=storage_options,
        num_tasks=num_tasks,
        progress=progress,
    )
    return candidates


def find_candidates(
    spark: SparkSession,
    paths: Any,
    column: str,
    keys: Any,
    *,
    absent: bool = True,
    catalog: str | None = None,
    allow_outside: bool = False,
    broadcast_bytes: int = BROADCAST_BYTES,
    storage_options: SparkOptions = None,
    num_tasks: int | None = None,
    progress: Progress | None = None,
) -> tuple[DataFrame, dict[str, str]]:
    """Return what `lookup` does, and the files that could not be read, each with why."""
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import from_arrow_schema

    path = parse_path(column)
    paths, storage_options = settled(spark, paths, storage_options, catalog=catalog)
    sources, snapshot = live_sources_of(paths, storage_options, catalog, allow_outside=allow_outside)
    options = storage_options if snapshot is None else fsspec_options(storage_options)
    settings = Settings(spark)
    view = SparkView.of_session(settings)
    task = LookupTask(path, settings.timezone, options, view, is_rebasing=is_rebasing(settings))
    parts: list[_Hits] = []
    try:
        for part in key_parts(spark, keys, path[-1], broadcast_bytes):
            parts.append(_hits(spark, sources, task, part, snapshot=snapshot, num_tasks=num_tasks, progress=progress))
        schema = candidates_schema(parts[0].shown.type)
        rows = [
            hits.rows(spark, absent).mapInArrow(_Rows(hits.shipped, schema), from_arrow_schema(schema, True))
            for hits in parts
        ]
        candidates = reduce(DataFrame.unionAll, rows).persist()
        with job(spark, "parquet_bloom: listing candidates"):
            interruptibly(spark, candidates.count)
    finally:
        for hits in parts:
            hits.frame.unpersist()
    return candidates, {path: why for hits in parts for path, why in hits.failed.items()}


# ---- finding, on executors ---------------------------------------------------------------


def _hits_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            *(("path", pa.string()), ("row_group", pa.int32()), ("reason", pa.string())),
            *(("start", pa.int32()), ("stop", pa.int32())),  # a run of keys, where `keys` is null
            *(("keys", pa.binary()), ("note", pa.binary())),  # int32 indexes; a task's last row has the note alone
        ]
    )


@dataclass
class _Note:
    """What a task reports of all its files: which keys have hits, a byte for each, and what the column's types are.

    `failed` are the files that could not be read, each with why.
    """

    seen: bytes
    failed: dict[str, str] = field(default_factory=dict)
    understood: bool = False
    refused: Exception | None = None
    findings: Findings = field(default_factory=Findings)


@dataclass
class _Hits:
    """The hits of one part of the keys; their `frame` is persisted, `seen` has a byte for each key."""

    frame: DataFrame
    shipped: ShippedKeys
    shown: pa.Array
    seen: bytes
    of_files: list[tuple[str, Hit]]
    failed: dict[str, str]

    def rows(self, spark: SparkSession, absent: bool) -> DataFrame:
        """Return the hits, and with `absent` rows for the keys that have none."""
        hits = self.frame.where("note is null")
        if self.of_files:
            whole = [(path, None, hit.reason, 0, len(self.shown), None, None) for path, hit in self.of_files]
            return hits.unionAll(spark.createDataFrame(whole, hits.schema))
        if not absent or all(self.seen):
            return hits
        nowhere = array("i", (index for index, is_seen in enumerate(self.seen) if not is_seen))
        pieces = [nowhere[at : at + _MOST_INDEXES].tobytes() for at in range(0, len(nowhere), _MOST_INDEXES)]
        rows = [(None, None, NOWHERE, 0, 0, bytearray(piece), None) for piece in pieces]
        return hits.unionAll(spark.createDataFrame(rows, hits.schema))


_MOST_INDEXES = 1024 * 1024


_CHECKS = 8
"""How often a task of `semi_join` checks all keys where a row group is sure to be read: fewer keys are joined then."""


@dataclass(frozen=True)
class LookupTask:
    """Looks up the keys in a share of the files; its rows are compact, and its last one is a note."""

    path: tuple[str, ...]
    timezone: str | None
    storage_options: StorageOptions
    view: SparkView
    shipped: ShippedKeys | None = None
    lists_keys: bool = True  # else it reports only which keys have hits at all
    is_rebasing: bool = False

    rows_at_once = 16  # each may have millions of indexes

    def __call__(self, paths: list[str], snapshot: Snapshot | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of a task."""
        assert self.shipped is not None  # it is there before the task is sent
        part = self.shipped.value
        budget = None if self.lists_keys else _CHECKS * len(part.keys)
        options = self.storage_options
        search = Search(
            self.path,
            part.keys,
            timezone=self.timezone,
            snapshot=snapshot,
            storage_options=options,
            view=self.view,
            budget=budget,
            is_rebasing=self.is_rebasing,
        )
        seen = bytearray(len(part.keys))
        note = _Note(b"")
        for name, outcome in _outcomes(paths, search, options):
            if isinstance(outcome, ColumnNotFoundError | LiteralError):
                note.refused = more_telling(note.refused, outcome)
            else:
                note.understood = True
            if isinstance(outcome, Exception):
                note.failed[name] = describe_error(outcome)
            for hit in [kept(outcome)] if isinstance(outcome, Exception) else outcome:
                keys = _marked(hit, seen, self.lists_keys)
                yield {"path": name, "row_group": hit.row_group, "reason": hit.reason} | keys
        note.findings = search.findings
        note.seen = zlib.compress(bytes(seen), 1)
        yield {"note": pickle.dumps(note)}


def _outcomes(
    paths: list[str], search: Search, storage_options: StorageOptions
) -> Iterator[tuple[str, list[Hit] | Exception]]:
    """Yield each file with its hits or its error; those that have gone, too."""
    sources: list[Source] = []
    is_table = search.snapshot is not None
    paths, search.snapshot, unread = inside(paths, search.snapshot)
    yield from ((file.path, file.error(is_named=False)) for file in unread)
    try:
        sources = find(paths, storage_options=storage_options, literal=is_table)
    except FileNotFoundError:
        there = []
        for path in paths:
            try:
                sources += find(path, storage_options=storage_options, literal=is_table)
            except FileNotFoundError as error:
                yield path, error
            else:
                there.append(path)
        search.snapshot = search.snapshot and only(search.snapshot, paths, there)
    for source, outcome in outcomes(sources, search):
        yield name_of(source), outcome


def _marked(hit: Hit, seen: bytearray, lists_keys: bool) -> dict[str, Any]:
    """Return the keys of a hit, if they are wanted, and mark them as seen."""
    mark(seen, hit.keys)
    keys = range(len(seen)) if hit.keys is None else hit.keys
    if isinstance(keys, range):
        return {"start": keys.start, "stop": keys.stop}
    return {"keys": array("i", keys).tobytes()} if lists_keys else {}


def _hits(
    spark: SparkSession,
    sources: list[Source],
    task: LookupTask,
    keys: Keys,
    *,
    snapshot: Snapshot | None,
    num_tasks: int | None,
    progress: Progress | None,
) -> _Hits:
    shown = as_spark_shows(keys.shown)
    shipped = ship_keys(spark, KeyPart(keys, shown))
    frame = run(
        *(spark, sources, replace(task, shipped=shipped), _hits_schema()),
        description=_description(keys),
        snapshot=snapshot,
        num_tasks=num_tasks,
        progress=progress,
    )
    try:
        seen, findings, failed = _seen(frame.where("note is not null").select("note").collect(), len(keys))
    except (ColumnNotFoundError, LiteralError):
        frame.unpersist()
        raise
    hit = Search(task.path, keys, timezone=task.timezone, findings=findings).conflict
    return _Hits(frame, shipped, shown, seen, [(name_of(source), hit) for source in sources] if hit else [], failed)


def places_of(
    spark: SparkSession, sources: list[Source], task: LookupTask, keys: Keys, progress: Progress | None
) -> tuple[set[tuple[str, int | None]], bytes]:
    """Return the files and row groups that have candidates, and which keys are among them, a byte for each."""
    shipped = ship_keys(spark, KeyPart(keys, keys.shown))
    shares = shared_out(sources, TASKS_PER_CORE * cores(spark))
    hits = frame_of(spark, shares, replace(task, shipped=shipped, lists_keys=False), _hits_schema())
    try:
        with job(spark, _description(keys), progress), readable_errors():
            rows = interruptibly(spark, hits.select("note", "path", "row_group").collect)
    finally:
        if not is_connect(spark):
            shipped.destroy()  # type: ignore[attr-defined]
    seen, findings, _ = _seen([row for row in rows if row[0] is not None], len(keys))
    if findings.conflicting:
        return {(name_of(source), None) for source in sources}, b"\1" * len(keys)
    return {(row[1], row[2]) for row in rows if row[0] is None}, seen


def _description(keys: Keys) -> str:
    return f"parquet_bloom: looking up {len(keys):,} keys"


def _seen(rows: Iterable[Any], num_keys: int) -> tuple[bytes, Findings, dict[str, str]]:
    """Return which keys have hits in any task, by their notes, what all know of the column's types, and what failed.

    Raises what is wrong with the keys, if no file's column can be compared with them.
    """
    notes: list[_Note] = [pickle.loads(row[0]) for row in rows]
    refused = [note.refused for note in notes if note.refused]
    if refused and not any(note.understood for note in notes):
        raise reduce(more_telling, refused)
    findings = Findings()
    for note in notes:
        findings.merge(note.findings)
    failed = {path: why for note in notes for path, why in note.failed.items()}
    return _either([zlib.decompress(note.seen) for note in notes], num_keys), findings, failed


def _either(seen: list[bytes], num_keys: int) -> bytes:
    return reduce(int.__or__, (int.from_bytes(one, "little") for one in seen), 0).to_bytes(num_keys, "little")


@dataclass(frozen=True)
class _Rows:
    """Makes rows of hits, a row for each key; what `mapInArrow` calls."""

    shipped: ShippedKeys
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches_of(_hits_of(batches), self.shipped.value.shown, self.schema)


def _hits_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, Hit]]:
    """Yield the hits of compact rows, cut into pieces that fit a batch."""
    for batch in batches:
        for row in batch.to_pylist():
            keys: Sequence[int] = range(row["start"] or 0, row["stop"] or 0)
            if row["keys"] is not None:
                keys = array("i")
                keys.frombytes(row["keys"])
            for at in range(0, len(keys), BATCH_ROWS):
                yield row["path"], Hit(row["row_group"], keys[at : at + BATCH_ROWS], row["reason"])
