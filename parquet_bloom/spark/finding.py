"""`find` on Spark: the rows themselves, as a DataFrame, by a condition or by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.spark.joins import rows_of_keys
from parquet_bloom.spark.reading import read
from parquet_bloom.spark.stores import SparkOptions, settled
from parquet_bloom.verbs.parallel import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def find(
    spark: SparkSession,
    paths: Any,
    where: Any = None,
    *,
    column: str | None = None,
    keys: Any = None,
    columns: Sequence[Any] | str | None = None,
    positions: bool = False,
    limit: int | None = None,
    row_groups: bool = False,
    options: Mapping[str, Any] | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return the rows that match `where`, or whose `column` is one of `keys`, as a DataFrame that Spark evaluates.

    It is `read` of a condition and `semi_join` of keys, with their options, under the name and the arguments of
    `parquet_bloom.find`. With `positions`, the columns `path` and `row`, the number of the row in its file, follow.
    `limit` rows are any that match.
    """
    frame = _found(
        *(spark, paths, where, PLACES if positions else ()),
        column=column,
        keys=keys,
        columns=columns,
        row_groups=row_groups,
        options=options,
        storage_options=storage_options,
        progress=progress,
    )
    return frame if limit is None else frame.limit(limit)


def find_placed(spark: SparkSession, paths: Any, where: Any = None, *, limit: int | None = None, **given: Any) -> Any:
    """Return what `find` does, whose last two columns are always the place of each row, under names of their own."""
    given.pop("positions", None)
    frame = _found(spark, paths, where, ("_parquet_bloom_path", "_parquet_bloom_row"), **given)
    return frame if limit is None else frame.limit(limit)


def _found(
    spark: SparkSession,
    paths: Any,
    where: Any,
    names: Sequence[str],
    *,
    column: str | None = None,
    keys: Any = None,
    columns: Sequence[Any] | str | None = None,
    row_groups: bool = False,
    options: Mapping[str, Any] | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return the rows that match; with two `names`, their places are columns of these names."""
    if (where is None) == (keys is None) or (column is None) != (keys is None):
        raise TypeError("find takes a condition, or a column and its keys")
    from pyspark.sql import functions as F

    paths, storage_options = settled(spark, paths, storage_options)
    places = [F.col(f"_metadata.{of}").alias(name) for of, name in zip(_OF_SPARK, names, strict=False)]
    chosen: list[Any] | None = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
    shared: dict[str, Any] = {
        "row_groups": row_groups,
        "options": options,
        "storage_options": storage_options,
        "progress": progress,
    }
    if column is not None:
        if chosen is not None:
            chosen += names
        frame = rows_of_keys(spark, paths, column, keys, chosen, places=places, in_order=True, **shared)
    else:
        if places:
            chosen = [*(["*"] if chosen is None else chosen), *places]
        frame = read(spark, paths, where, chosen, **shared)
    if taken := {*names} & {*frame.columns[: -len(names)]} if names else None:
        raise UnsupportedError(f"the files have a column {min(taken)}, too; choose others by columns=")
    return frame


PLACES = ("path", "row")
"""What `find` calls the place of a row."""

_OF_SPARK = ("file_path", "row_index")
