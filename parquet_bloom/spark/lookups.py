"""`lookup` and `semi_join`: which files and row groups can hold which of very many keys, and the rows that have them.

The keys come to the driver as Arrow, are sorted there, and go to the executors as one broadcast; a key set above the
limit goes as several, one after the other. An executor's Python hashes a broadcast once for each type of column, and
then judges its share of the files as the local `lookup` does: statistics cut out a run of the sorted keys, the row
group's filter is loaded once, and the run is checked in bulk. What it found travels as indexes of keys. So memory is
bounded by the limit, whatever the number of keys or files is; the price is that the filters that no cache held are
read again for the next broadcast.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import uuid
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from parquet_bloom.errors import ColumnNotFoundError, LiteralError
from parquet_bloom.evaluation import CANNOT
from parquet_bloom.keys import Keys, KeySet, read_keys
from parquet_bloom.lookups import BATCH_ROWS, NOWHERE, Hit, Search, batches_of, candidates_schema, kept, outcomes
from parquet_bloom.parallel import Progress
from parquet_bloom.predicate import Comparison, Constant, Opaque
from parquet_bloom.pruning import Judge
from parquet_bloom.schema import parse_path
from parquet_bloom.spark.conditions import LOG, trusted
from parquet_bloom.spark.reading import Lake, lake_of
from parquet_bloom.spark.session import Settings, changed, cores, interruptibly, is_connect, job
from parquet_bloom.spark.tasks import (
    TASKS_PER_CORE,
    frame,
    live_sources_of,
    name_of,
    only,
    packed_batches,
    readable_errors,
    run,
    shared_out,
    to_arrow,
)
from parquet_bloom.storage import Source, StorageOptions, find
from parquet_bloom.tables import Snapshot, fsspec_options
from parquet_bloom.verdicts import Pruning, RowGroupVerdict

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

BROADCAST_BYTES = 64 * 1024 * 1024
"""What the keys of one broadcast may take, in Arrow's layout."""


def lookup(
    spark: SparkSession,
    paths: Any,
    column: str,
    keys: Any,
    *,
    absent: bool = True,
    broadcast_bytes: int = BROADCAST_BYTES,
    storage_options: StorageOptions = None,
    num_tasks: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return which row groups can hold which of `keys`: the candidates of `parquet_bloom.lookup`, as a DataFrame.

    `keys` is a DataFrame with a column named like the last part of `column`, or with a single one; or what
    `parquet_bloom.lookup` takes. Columns: key, path, row_group, reason. What is not among the candidates is proved to
    be absent. Files and filters that cannot be read keep every key, a whole file with a null row group. Keys that are
    nowhere have a null path, without `absent` no row. The order is any. The directory of a Hudi or Paimon table stands
    for its live files, with the filters that it keeps for them.

    The session's time zone is that of keys without one. The jobs are done when this returns, and the rows stay on the
    executors until `unpersist()`. Keys of more than `broadcast_bytes` are looked up in parts, one after the other.
    Raises what `parquet_bloom.lookup` does.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import from_arrow_schema

    path = parse_path(column)
    sources, snapshot = live_sources_of(paths, storage_options)
    options = storage_options if snapshot is None else fsspec_options(storage_options)
    task = _Task(path, Settings.of(spark).timezone, options)
    found: list[_Found] = []
    try:
        for part in _parts(spark, keys, path[-1], broadcast_bytes):
            found.append(_find(spark, sources, snapshot, task, part, num_tasks, progress))
        schema = candidates_schema(found[0].shown.type)
        rows = [
            of_part.rows(spark, absent).mapInArrow(_Rows(of_part.shipped, schema), from_arrow_schema(schema, True))
            for of_part in found
        ]
        candidates = reduce(DataFrame.unionAll, rows).persist()
        with job(spark, "parquet_bloom: listing candidates"):
            interruptibly(spark, candidates.count)
    finally:
        for of_part in found:
            of_part.hits.unpersist()
    return candidates


# ---- keys, in parts that can be broadcast ------------------------------------------------


def _parts(spark: SparkSession, keys: Any, name: str, limit: int) -> Iterator[Keys]:
    """Yield the keys in parts of about `limit` bytes, each sorted where Arrow can; at least one part."""
    found = _collected(keys, name, limit) if _is_frame(keys) else iter([read_keys(keys, name)])
    for some in found:
        whole = _sorted(some)
        count = -(-whole.shown.nbytes // max(1, limit)) or 1
        size = max(1, -(-len(whole) // count))
        for start in range(0, max(1, len(whole)), size):
            yield whole if count == 1 else _slice(whole, start, size)


def _is_frame(keys: Any) -> bool:
    return hasattr(keys, "sparkSession")


def _slice(keys: Keys, start: int, size: int) -> Keys:
    import pyarrow as pa

    shown = pa.concat_arrays([keys.shown.slice(start, size)])
    literals = shown if keys.literals is keys.shown else keys.literals[start : start + size]
    return Keys(shown, literals, keys.is_exact, keys.are_text)


def _sorted(keys: Keys) -> Keys:
    """Return the keys in order: what every task would else do, and parts of neighbours meet fewer row groups."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if keys.literals is not keys.shown:
        return keys
    try:
        shown = pc.take(keys.shown, pc.array_sort_indices(keys.shown))
    except pa.ArrowNotImplementedError:
        return keys
    return Keys(shown, shown)


def _collected(keys: DataFrame, name: str, limit: int) -> Iterator[Keys]:
    """Yield the keys of a DataFrame, which is run once; the driver never holds much more than `limit` bytes of them."""
    import pyarrow as pa

    if _is_small(keys, limit):
        yield read_keys(to_arrow(_only(keys, name)).column(0), name)
        return
    packed = _only(keys, name).mapInArrow(packed_batches, "batch binary").persist()
    try:
        total = packed.selectExpr("sum(octet_length(batch))").first()[0] or 0  # type: ignore[index]
        waiting: list[Any] = []
        for row in packed.collect() if total <= 2 * limit else packed.toLocalIterator():
            waiting.append(pa.ipc.open_stream(bytes(row[0])).read_all().column(0))
            if sum(values.nbytes for values in waiting) >= limit and total > limit:
                yield _of_chunks(waiting)
                waiting = []
        if waiting:
            yield _of_chunks(waiting)
        elif not total:
            yield _of_chunks([pa.chunked_array([], _arrow_type(keys, name))])
    finally:
        packed.unpersist()


def _is_small(keys: DataFrame, limit: int) -> bool:
    """Return whether Spark itself expects the driver to hold the keys with ease; they are there sooner then."""
    try:
        expected = keys._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
        return int(str(expected)) <= 4 * limit
    except Exception:  # there is no JVM at hand, or it has other methods
        return False


def _of_chunks(chunks: list[Any]) -> Keys:
    import pyarrow as pa

    (kind,) = {values.type for values in chunks}
    return read_keys(pa.chunked_array([piece for values in chunks for piece in values.chunks], kind), "")


def _only(keys: DataFrame, name: str) -> DataFrame:
    """Return the column of keys alone."""
    if name in keys.columns:
        return keys.select(_quoted(name))
    if len(keys.columns) == 1:
        return keys
    raise ColumnNotFoundError(name, keys.columns, where="the DataFrame of keys")


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))


def _arrow_type(keys: DataFrame, name: str) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(_only(keys, name).schema).field(0).type


@dataclass
class _Part:
    """Keys as they are sent, and as Spark shows them; in each Python that has got them, also as columns store them."""

    keys: Keys
    shown: pa.Array
    sets: dict[Any, KeySet] = field(default_factory=dict)


class _Shipped(Protocol):
    """Keys on their way: a task's `value` is the same object for all tasks of its Python."""

    @property
    def value(self) -> _Part: ...


def _ship(spark: SparkSession, part: _Part) -> _Shipped:
    if not is_connect(spark):
        shipped: _Shipped = spark.sparkContext.broadcast(part)
        return shipped
    name = f"parquet-bloom-{uuid.uuid4()}.keys"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)  # noqa: PTH118
        with open(path, "wb") as file:  # noqa: PTH123
            pickle.dump(part, file)
        spark.addArtifacts(path, file=True)
    return _Artifact(name)


@dataclass(frozen=True)
class _Artifact:
    """Keys in a file that a Connect session has given to its executors."""

    name: str

    @property
    def value(self) -> _Part:
        from pyspark import SparkFiles

        if self.name not in _LOADED:
            _LOADED.clear()
            with open(SparkFiles.get(self.name), "rb") as file:  # noqa: PTH123
                _LOADED[self.name] = pickle.load(file)
        return _LOADED[self.name]


_LOADED: dict[str, _Part] = {}


def _as_spark_shows(shown: pa.Array) -> pa.Array:
    """Return the keys as an array whose type Spark has, of the same values; else as text."""
    import pyarrow as pa

    if isinstance(shown, pa.ExtensionArray):
        shown = shown.storage
    kind, types = shown.type, pa.types
    if types.is_time(kind) or types.is_decimal256(kind) or (types.is_decimal(kind) and kind.scale < 0):
        return _as_text(shown)
    target = next((to for known, to in _likes() if kind == known), kind)
    if types.is_timestamp(kind):
        target = pa.timestamp("us", kind.tz)
    elif types.is_fixed_size_binary(kind):
        target = pa.binary()
    try:
        return shown if target == kind else shown.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _as_text(shown)


def _likes() -> list[tuple[pa.DataType, pa.DataType]]:
    import pyarrow as pa

    return [
        *((pa.large_string(), pa.string()), (pa.string_view(), pa.string()), (pa.null(), pa.string())),
        *((pa.large_binary(), pa.binary()), (pa.binary_view(), pa.binary()), (pa.date64(), pa.date32())),
        *((pa.uint8(), pa.int16()), (pa.uint16(), pa.int32()), (pa.uint32(), pa.int64())),
        *((pa.uint64(), pa.decimal128(20, 0)), (pa.float16(), pa.float32())),
    ]


def _as_text(shown: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if value is None else str(value) for value in shown.to_pylist()], pa.string())


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
    """What a task has to say of all its files: which keys it saw, a byte for each, and whether any file understood."""

    seen: bytes
    understood: bool = False
    refused: Exception | None = None


@dataclass
class _Found:
    """What the files gave for one part of the keys; `hits` are persisted, `seen` has a byte for each key."""

    hits: DataFrame
    shipped: _Shipped
    shown: pa.Array
    seen: bytes

    def rows(self, spark: SparkSession, absent: bool) -> DataFrame:
        """Return the hits, and with `absent` what stands for the keys that none has."""
        found = self.hits.where("note is null")
        if not absent or all(self.seen):
            return found
        nowhere = array("i", (index for index, is_seen in enumerate(self.seen) if not is_seen))
        pieces = [nowhere[at : at + _MOST_INDEXES].tobytes() for at in range(0, len(nowhere), _MOST_INDEXES)]
        rows = [(None, None, NOWHERE, 0, 0, bytearray(piece), None) for piece in pieces]
        return found.unionAll(spark.createDataFrame(rows, found.schema))


_MOST_INDEXES = 1024 * 1024


_CHECKS = 8
"""How often a task of `semi_join` checks all keys where a row group is sure to be read: fewer keys are joined then."""


@dataclass(frozen=True)
class _Task:
    """Judges a share of the files; its rows are compact, its last one a note."""

    path: tuple[str, ...]
    timezone: str | None
    storage_options: StorageOptions
    shipped: _Shipped | None = None
    lists_keys: bool = True  # else it tells which keys were seen at all

    rows_at_once = 16  # each may have millions of indexes

    def __call__(self, paths: list[str], snapshot: Snapshot | None = None) -> Iterator[dict[str, Any]]:
        assert self.shipped is not None  # it is there before the task is sent
        part = self.shipped.value
        spare = None if self.lists_keys else _CHECKS * len(part.keys)
        options = self.storage_options
        search = Search(
            *(self.path, part.keys, self.timezone),
            snapshot=snapshot,
            storage_options=options,
            sets=part.sets,
            spare=spare,
        )
        seen = bytearray(len(part.keys))
        note = _Note(b"")
        for name, outcome in _outcomes(paths, search, options):
            if isinstance(outcome, ColumnNotFoundError | LiteralError):
                note.refused = note.refused or outcome
            else:
                note.understood = True
            for hit in [kept(outcome)] if isinstance(outcome, Exception) else outcome:
                keys = _marked(hit, seen, self.lists_keys)
                yield {"path": name, "row_group": hit.row_group, "reason": hit.reason} | keys
        note.seen = zlib.compress(bytes(seen), 1)
        yield {"note": pickle.dumps(note)}


def _outcomes(
    paths: list[str], search: Search, storage_options: StorageOptions
) -> Iterator[tuple[str, list[Hit] | Exception]]:
    """Yield each file with its hits or its error; those that have gone, too."""
    sources: list[Source] = []
    try:
        sources = find(paths, storage_options=storage_options)
    except FileNotFoundError:
        there = []
        for path in paths:
            try:
                sources += find(path, storage_options=storage_options)
            except FileNotFoundError as error:
                yield path, error
            else:
                there.append(path)
        search.snapshot = search.snapshot and only(search.snapshot, paths, there)
    for source, outcome in outcomes(sources, search):
        yield name_of(source), outcome


def _marked(hit: Hit, seen: bytearray, lists_keys: bool) -> dict[str, Any]:
    """Return which keys a hit is of, if they are wanted, and note them as seen."""
    keys = range(len(seen)) if hit.keys is None else hit.keys
    if isinstance(keys, range):
        seen[keys.start : keys.stop] = b"\1" * len(keys)
        return {"start": keys.start, "stop": keys.stop}
    for index in keys:
        seen[index] = 1
    return {"keys": array("i", keys).tobytes()} if lists_keys else {}


def _find(
    spark: SparkSession,
    sources: list[Source],
    snapshot: Snapshot | None,
    task: _Task,
    keys: Keys,
    num_tasks: int | None,
    progress: Progress | None,
) -> _Found:
    shown = _as_spark_shows(keys.shown)
    shipped = _ship(spark, _Part(keys, shown))
    hits = run(
        *(spark, sources, replace(task, shipped=shipped), _hits_schema()),
        description=_description(keys),
        snapshot=snapshot,
        num_tasks=num_tasks,
        progress=progress,
    )
    try:
        seen = _seen(hits.where("note is not null").select("note").collect(), len(keys))
    except (ColumnNotFoundError, LiteralError):
        hits.unpersist()
        raise
    return _Found(hits, shipped, shown, seen)


def _places(
    spark: SparkSession, sources: list[Source], task: _Task, keys: Keys, progress: Progress | None
) -> tuple[set[tuple[str, int | None]], bytes]:
    """Return the files and row groups that have candidates, and which keys are among them, a byte for each."""
    shipped = _ship(spark, _Part(keys, keys.shown))
    shares = shared_out(sources, TASKS_PER_CORE * cores(spark))
    hits = frame(spark, shares, replace(task, shipped=shipped, lists_keys=False), _hits_schema())
    try:
        with job(spark, _description(keys), progress), readable_errors():
            rows = interruptibly(spark, hits.select("note", "path", "row_group").collect)
    finally:
        if not is_connect(spark):
            shipped.destroy()  # type: ignore[attr-defined]
    seen = _seen([row for row in rows if row[0] is not None], len(keys))
    return {(row[1], row[2]) for row in rows if row[0] is None}, seen


def _description(keys: Keys) -> str:
    return f"parquet_bloom: looking up {len(keys):,} keys"


def _seen(rows: Iterable[Any], num_keys: int) -> bytes:
    """Return which keys any task saw, by their notes. Raises what concerns the keys, if no file understood them."""
    notes: list[_Note] = [pickle.loads(row[0]) for row in rows]
    refused = next((note.refused for note in notes if note.refused), None)
    if refused and not any(note.understood for note in notes):
        raise refused
    return _either([zlib.decompress(note.seen) for note in notes], num_keys)


def _either(seen: list[bytes], num_keys: int) -> bytes:
    return reduce(int.__or__, (int.from_bytes(one, "little") for one in seen), 0).to_bytes(num_keys, "little")


@dataclass(frozen=True)
class _Rows:
    """Makes rows of hits, a row for each key; what `mapInArrow` calls."""

    shipped: _Shipped
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


# ---- semi_join ---------------------------------------------------------------------------


def semi_join(
    spark: SparkSession,
    paths: Any,
    column: str,
    keys: Any,
    columns: Sequence[Any] | str | None = None,
    *,
    row_groups: bool = False,
    options: Mapping[str, Any] | None = None,
    broadcast_bytes: int = BROADCAST_BYTES,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return the rows of a lake whose `column` is among `keys`, reading only the files that may have some.

    It is `spark.read.parquet(paths).join(keys, column, "left_semi")`, by Spark's own join, over the files that `lookup`
    leaves; then `columns` of it. Of the keys only those that have a candidate are joined, and broadcast up to
    `broadcast_bytes`. What is left out was proved by the files as they were when this was called. `keys` are those of
    `lookup`; text from a file is cast to the column's type. `options` are those of `spark.read`, `storage_options`
    fsspec's.

    With `row_groups` only the row groups with candidates are read, where `read` could read them so.

    Every file is read, with the reason in the log, where nothing can be proved: keys and column of types that Spark
    converts to compare them, a column that the files lack, such as a partition's, collated text.
    """
    lake = lake_of(spark, paths, options=options, storage_options=storage_options)
    path = parse_path(column)
    known = _known(spark, lake, path, keys, broadcast_bytes)
    if why := _why_not(spark, lake, path, known.kind):
        LOG.info("the keys prune nothing: %s", why)
    else:
        try:
            known = _narrowed(spark, lake, path, known, broadcast_bytes, storage_options, progress)
        except (ColumnNotFoundError, LiteralError) as error:
            LOG.info("the keys prune nothing: %s", error)
    rows = _of_row_groups(lake, known) if row_groups and known.places else lake.files(known.files)
    joined = _joined(rows, path, known.frame(spark))
    return joined if columns is None else joined.select(*([columns] if isinstance(columns, str) else columns))


_IN_THE_PLAN = "spark.sql.execution.arrow.localRelationThreshold"
_MANY_ROWS = 100_000
"""More rows in the plan itself, and not beside it, would make a join half as fast."""


@dataclass
class _Known:
    """What is known of a join: the keys, as given or what is left of them, their type in Spark, and the files.

    `places` are the row groups that have candidates, and the files (None) of which that is not known.
    """

    keys: Any
    kind: DataType
    files: list[Source]
    is_small: bool = False
    places: set[tuple[str, int | None]] = field(default_factory=set)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the keys as a DataFrame of one column."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructField, StructType

        if _is_frame(self.keys):
            return F.broadcast(self.keys) if self.is_small else self.keys
        shown = _as_spark_shows(self.keys.shown) if isinstance(self.keys, Keys) else self.keys
        schema = StructType([StructField("key", self.kind)])  # without it a wall clock would become an instant
        with changed(spark, _IN_THE_PLAN, "1") if len(shown) > _MANY_ROWS else nullcontext():
            found = spark.createDataFrame(_table_of(shown), schema)
        return F.broadcast(found) if self.is_small else found


def _table_of(shown: pa.Array) -> Any:
    """Return the keys as what `createDataFrame` takes: Arrow since PySpark 4, rows before."""
    import pyarrow as pa
    from pyspark.sql import DataFrame

    return pa.table({"key": shown}) if hasattr(DataFrame, "toArrow") else [(key,) for key in shown.to_pylist()]


def _known(spark: SparkSession, lake: Lake, path: tuple[str, ...], keys: Any, limit: int) -> _Known:
    from pyspark.sql.pandas.types import from_arrow_type

    if _is_frame(keys):
        only = _only(keys, path[-1])
        return _Known(only, only.schema[0].dataType, lake.sources)
    read = read_keys(keys, path[-1])
    if not read.is_exact:
        raise LiteralError("keys of several types cannot be joined; give keys of one type")
    shown = _as_spark_shows(read.shown)
    known = _Known(read, from_arrow_type(shown.type, True), lake.sources, read.shown.nbytes <= limit)
    kind = _type_at(lake.schema, path)
    is_clock = known.kind.simpleString() == "timestamp_ntz"  # of the session's zone, where the column has instants
    if kind is not None and (read.are_text or (is_clock and kind.simpleString() == "timestamp")):
        cast = f"try_cast(key AS {kind.simpleString()})"
        return _Known(known.frame(spark).selectExpr(cast), kind, lake.sources)
    return known


def _type_at(schema: StructType, path: tuple[str, ...]) -> DataType | None:
    from pyspark.sql.types import StructType

    found: DataType = schema
    for name in path:
        fields = found.fields if isinstance(found, StructType) else []
        kind = next((f.dataType for f in fields if f.name.casefold() == name.casefold()), None)
        if kind is None:
            return None
        found = kind
    return found


_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_COMPARED_AS_THEY_ARE = ("string", "binary", "float", "double", "date", "timestamp", "timestamp_ntz")


def _why_not(spark: SparkSession, lake: Lake, path: tuple[str, ...], kind: DataType) -> str | None:
    """Return why the files' own values do not tell which rows Spark would join, or None."""
    of_column = _type_at(lake.schema, path)
    if of_column is None:
        return "the column is not in the files' schema"
    ours, theirs = of_column.simpleString(), kind.simpleString()
    is_plain = (
        (ours == theirs and ours in _COMPARED_AS_THEY_ARE)
        or (ours in _WHOLE_NUMBERS and theirs in _WHOLE_NUMBERS)
        or (ours.startswith("decimal") and theirs.startswith("decimal"))
    )
    if not is_plain:
        return f"Spark compares {ours} with {theirs} in a type of its own"
    if isinstance(trusted(spark, Comparison("=", path, None), lake.schema), Opaque):
        return "this session reads the column in a way of its own"
    if any(_is_partition(source, path[0]) for source in lake.sources):
        return "the column is the folders'"
    return None


def _is_partition(source: Source, name: str) -> bool:
    folders = name_of(source).split("/")[:-1]
    return any("=" in part and unquote(part.partition("=")[0]).casefold() == name.casefold() for part in folders)


def _narrowed(
    spark: SparkSession,
    lake: Lake,
    path: tuple[str, ...],
    known: _Known,
    limit: int,
    storage_options: StorageOptions,
    progress: Progress | None,
) -> _Known:
    """Return the files that have candidates, and of keys that were looked up at once those that are among them."""
    if not lake.sources:
        return known
    # Without a zone keys prove nothing of files that have one; those Spark reads as they are, whatever its zone.
    timezone = None if known.kind.simpleString() == "timestamp_ntz" else Settings.of(spark).timezone
    task = _Task(path, timezone, storage_options)
    keys = known.keys if _is_frame(known.keys) else known.keys.shown
    places: set[tuple[str, int | None]] = set()
    left: list[pa.Array] = []
    num_keys = 0
    for number, part in enumerate(_parts(spark, keys, path[-1], limit)):
        some, seen = _places(spark, lake.sources, task, part, progress)
        places |= some
        num_keys += len(part)
        left = [] if number else [_as_spark_shows(part.shown.filter(_mask(seen)).drop_null())]
    names = {name for name, _ in places}
    files = [source for source in lake.sources if name_of(source) in names]
    LOG.info("reading %d of %d files", len(files), len(lake.sources))
    if left and _is_frame(known.keys) and len(left[0]) > num_keys // 2:
        # Of so many, Spark makes less of ours.
        return _Known(known.keys, known.kind, files, left[0].nbytes <= limit, places)
    if not left:  # they may be more than the driver holds
        return _Known(known.keys, known.kind, files, places=places)
    return _Known(left[0], known.kind, files, left[0].nbytes <= limit, places)


def _of_row_groups(lake: Lake, known: _Known) -> DataFrame:
    """Return the rows of the row groups that have candidates, or of their files where it cannot be so."""
    from parquet_bloom.spark.row_groups import Unavailable, scan

    files, _ = Judge(Constant(True)).judge(known.files)
    kept = [
        replace(file, row_groups=tuple(_only_candidates(group, source, known.places) for group in file.row_groups))
        for file, source in zip(files, known.files, strict=True)
    ]
    frame = lake.files(known.files)
    try:
        return scan(frame, Pruning("the keys", tuple(kept), tuple(known.files)))
    except Unavailable as why:
        LOG.warning("reading whole files: %s", why)
        return frame


def _only_candidates(group: RowGroupVerdict, source: Source, places: set[tuple[str, int | None]]) -> RowGroupVerdict:
    path = name_of(source)
    if (path, None) in places or (path, group.row_group) in places:
        return group
    return replace(group, answer=CANNOT.name, reason="it has no candidate")


def _mask(seen: bytes) -> pa.Array:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.uint8(), len(seen), [None, pa.py_buffer(seen)]).cast(pa.bool_())


def _joined(rows: DataFrame, path: tuple[str, ...], keys: DataFrame) -> DataFrame:
    if len(path) == 1:
        return rows.join(keys.toDF(path[0]), on=path[0], how="left_semi")
    from pyspark.sql import functions as F

    name = "the key"
    while name in rows.columns:
        name += "'"
    keys = keys.toDF(name)
    return rows.join(keys, F.col(".".join(map(_quoted, path))) == F.col(_quoted(name)), "left_semi")
