"""`semi_join`: the rows with given keys, read only from where they can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import ColumnNotFoundError, LiteralError
from parquet_bloom.format.schema import parse_path
from parquet_bloom.predicates.tree import Comparison, Constant, Opaque
from parquet_bloom.spark.conditions import LOG, quoted_name, trusted
from parquet_bloom.spark.keys import (
    BROADCAST_BYTES,
    as_spark_shows,
    as_spark_type,
    evaluated_once,
    is_frame,
    key_parts,
    only_column,
)
from parquet_bloom.spark.lookups import LookupTask, places_of
from parquet_bloom.spark.reading import Lake, lake_of
from parquet_bloom.spark.session import changed
from parquet_bloom.spark.stores import SparkOptions, settled
from parquet_bloom.spark.tasks import name_of
from parquet_bloom.storage.listing import Source, StorageOptions
from parquet_bloom.values.arrays import numbers_as_arrow
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.prune import FileEvaluator
from parquet_bloom.verbs.reading_keys import read_keys
from parquet_bloom.verbs.verdicts import CANNOT_MATCH, Pruning, RowGroupVerdict

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


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
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return the rows of a lake whose `column` is among `keys`, reading only the files that may have some.

    It is `spark.read.parquet(paths).join(keys, column, "left_semi")`, by Spark's own join, over the files that `lookup`
    keeps; then `columns` of it. Only keys that have a candidate are joined, and broadcast up to `broadcast_bytes`.
    Later changes of the files and of the keys are not seen. `keys` are those of `lookup`; text from a file is cast to
    the column's type. A DataFrame of keys is evaluated here, and once: Spark keeps many keys on the executors until the
    result is no longer used, and fails if it loses one that has some. `options` are those of `spark.read`,
    `storage_options` those of fsspec.

    With `row_groups` only the row groups with candidates are read, if `read` could do so.

    Every file is read, with the reason in the log, if nothing can be proved: if Spark converts the keys or the column
    to compare them, if the files lack the column, as they do a partition's, or if its text is collated.
    """
    return rows_of_keys(
        *(spark, paths, column, keys, columns),
        row_groups=row_groups,
        options=options,
        broadcast_bytes=broadcast_bytes,
        storage_options=storage_options,
        progress=progress,
    )


def rows_of_keys(
    spark: SparkSession,
    paths: Any,
    column: str,
    keys: Any,
    columns: Sequence[Any] | str | None,
    *,
    row_groups: bool,
    options: Mapping[str, Any] | None,
    storage_options: SparkOptions,
    progress: Progress | None,
    broadcast_bytes: int = BROADCAST_BYTES,
    places: Sequence[Column] = (),
    in_order: bool = False,
) -> DataFrame:
    """Return what `semi_join` does, with `places` of each row, which only the files' own rows have.

    Spark's join has the key's column first; if `in_order`, all columns are in the order of the files.
    """
    paths, storage_options = settled(spark, paths, storage_options)
    lake = lake_of(spark, paths, options=options, storage_options=storage_options)
    path = parse_path(column)
    known = _known(spark, lake, path, keys, broadcast_bytes)
    if why := _why_not(spark, lake, path, known.kind):
        LOG.info("the keys prune nothing: %s", why)
    else:
        try:
            known = _narrowed(
                *(spark, lake, path, known), limit=broadcast_bytes, storage_options=storage_options, progress=progress
            )
        except (ColumnNotFoundError, LiteralError) as error:
            LOG.info("the keys prune nothing: %s", error)
    chosen: list[Any] | None = ["*", *places] if places else None
    if row_groups and known.places:
        rows = _of_row_groups(lake, known, chosen)
    else:
        rows = lake.files(known.files) if chosen is None else lake.files(known.files).select(*chosen)
    joined = _joined(rows, path, known.frame(spark))
    if columns is None and in_order:
        columns = [quoted_name(name) for name in rows.columns]
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

        if is_frame(self.keys):
            return F.broadcast(self.keys) if self.is_small else self.keys
        shown = as_spark_shows(self.keys.shown) if isinstance(self.keys, Keys) else self.keys
        schema = StructType([StructField("key", self.kind)])  # without it a wall clock would become an instant
        with changed(spark, _IN_THE_PLAN, "1") if len(shown) > _MANY_ROWS else nullcontext():
            keys = spark.createDataFrame(_table_of(shown), schema)
        return F.broadcast(keys) if self.is_small else keys


def _table_of(shown: pa.Array) -> Any:
    """Return the keys as what `createDataFrame` takes: Arrow since PySpark 4, rows before."""
    import pyarrow as pa
    from pyspark.sql import DataFrame

    return pa.table({"key": shown}) if hasattr(DataFrame, "toArrow") else [(key,) for key in shown.to_pylist()]


def _known(spark: SparkSession, lake: Lake, path: tuple[str, ...], keys: Any, limit: int) -> _Known:
    from pyspark.sql.pandas.types import from_arrow_type

    if is_frame(keys):
        only = only_column(keys, path[-1])
        return _Known(only, only.schema[0].dataType, lake.sources)
    read = read_keys(keys, path[-1])
    if not read.is_exact:
        raise LiteralError("keys of several types cannot be joined; give keys of one type")
    if (shown := as_spark_type(read.shown)) is None:
        raise LiteralError(f"some of these keys of the type {read.shown.type} are values that Spark does not have")
    known = _Known(read, from_arrow_type(shown.type, True), lake.sources, is_small=read.shown.nbytes <= limit)
    kind = _type_at(lake.schema, path)
    is_clock = known.kind.simpleString() == "timestamp_ntz"  # of the session's zone, where the column has instants
    if kind is not None and (read.are_text or (is_clock and kind.simpleString() == "timestamp")):
        cast = f"try_cast(key AS {kind.simpleString()})"
        return _Known(known.frame(spark).selectExpr(cast), kind, lake.sources)
    return known


def _type_at(schema: StructType, path: tuple[str, ...]) -> DataType | None:
    from pyspark.sql.types import StructType

    kind: DataType | None = schema
    for name in path:
        fields = kind.fields if isinstance(kind, StructType) else []
        kind = next((f.dataType for f in fields if f.name.casefold() == name.casefold()), None)
    return kind


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
        return f"Spark converts {ours} and {theirs} to compare them"
    comparison = Comparison("=", path, None)
    if isinstance(trusted(lake.settings, comparison, lake.schema, lake.options, lake.doubtful()), Opaque):
        return "this session's settings change how the column is read"
    if any(lake.partitions(source).named(path[:1], case_sensitive=False) for source in lake.sources):
        return "the column is a partition folder"
    return None


def _narrowed(
    spark: SparkSession,
    lake: Lake,
    path: tuple[str, ...],
    known: _Known,
    *,
    limit: int,
    storage_options: StorageOptions,
    progress: Progress | None,
) -> _Known:
    """Return the files that have candidates, and the keys that have some if all were looked up at once."""
    if not lake.sources:
        return known
    # Without a zone keys prove nothing of files that have one; those Spark reads as they are, whatever its zone.
    timezone = None if known.kind.simpleString() == "timestamp_ntz" else lake.settings.timezone
    view = replace(lake.view(), folders={})  # which are no columns of the keys
    task = LookupTask(path, timezone, storage_options, view)
    if is_frame(known.keys):  # what is joined must be what was looked up
        known = replace(known, keys=evaluated_once(known.keys, path[-1]))
    keys = known.keys if is_frame(known.keys) else known.keys.shown
    places: set[tuple[str, int | None]] = set()
    left: list[pa.Array] = []
    num_keys = 0
    for number, part in enumerate(key_parts(spark, keys, path[-1], limit)):
        some, seen = places_of(spark, lake.sources, task, part, progress)
        places |= some
        num_keys += len(part)
        left = [] if number else [as_spark_shows(part.shown.filter(_mask(seen)).drop_null())]
    names = {name for name, _ in places}
    files = [source for source in lake.sources if name_of(source) in names]
    LOG.info("reading %d of %d files", len(files), len(lake.sources))
    if left and is_frame(known.keys) and len(left[0]) > num_keys // 2:
        # Spark joins so many faster from its own frame.
        return replace(known, files=files, places=places, is_small=left[0].nbytes <= limit)
    if not left:  # they may be more than the driver holds
        return replace(known, files=files, places=places, is_small=False)
    return replace(known, keys=left[0], files=files, places=places, is_small=left[0].nbytes <= limit)


def _of_row_groups(lake: Lake, known: _Known, columns: Sequence[Any] | None) -> DataFrame:
    """Return the rows of the row groups that have candidates, or of their files if row groups cannot be read."""
    from parquet_bloom.spark.row_groups import Unavailable, scan

    files, _ = FileEvaluator(Constant(True)).evaluate(known.files)
    kept = [
        replace(file, row_groups=tuple(_only_candidates(group, source, known.places) for group in file.row_groups))
        for file, source in zip(files, known.files, strict=True)
    ]
    frame = lake.files(known.files)
    try:
        return scan(frame, Pruning("the keys", tuple(kept), tuple(known.files)), columns=columns)
    except Unavailable as why:
        LOG.warning("reading whole files: %s", why)
        return frame if columns is None else frame.select(*columns)


def _only_candidates(group: RowGroupVerdict, source: Source, places: set[tuple[str, int | None]]) -> RowGroupVerdict:
    path = name_of(source)
    if (path, None) in places or (path, group.row_group) in places:
        return group
    return replace(group, answer=CANNOT_MATCH, reason="it holds none of the keys")


def _mask(seen: bytes) -> pa.Array:
    import pyarrow as pa

    return numbers_as_arrow(seen, pa.uint8()).cast(pa.bool_())


def _joined(rows: DataFrame, path: tuple[str, ...], keys: DataFrame) -> DataFrame:
    if len(path) == 1:
        return rows.join(keys.toDF(path[0]), on=path[0], how="left_semi")
    from pyspark.sql import functions as F

    name = "the key"
    while name in rows.columns:
        name += "'"
    keys = keys.toDF(name)
    return rows.join(keys, F.col(".".join(map(quoted_name, path))) == F.col(quoted_name(name)), "left_semi")
