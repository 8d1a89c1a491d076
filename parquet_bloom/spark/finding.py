"""`find` on Spark: the rows themselves, as a DataFrame, by a condition or by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parquet_bloom.spark.joins import rows_of_keys
from parquet_bloom.spark.reading import read
from parquet_bloom.spark.stores import SparkOptions
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
    row_groups: bool = False,
    options: Mapping[str, Any] | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Return the rows that match `where`, or whose `column` is one of `keys`, as a DataFrame that Spark evaluates.

    It is `read` of a condition and `semi_join` of keys, with their options, under the name and the arguments of
    `parquet_bloom.find`. With `positions`, the columns `path` and `row`, the number of the row in its file, follow.
    """
    if (where is None) == (keys is None) or (column is None) != (keys is None):
        raise TypeError("find takes a condition, or a column and its keys")
    from pyspark.sql import functions as F

    places = [F.col(f"_metadata.{of}").alias(name) for of, name in _PLACES.items()] if positions else []
    chosen: list[Any] | None = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
    shared: dict[str, Any] = {
        "row_groups": row_groups,
        "options": options,
        "storage_options": storage_options,
        "progress": progress,
    }
    if column is not None:
        if chosen is not None and positions:
            chosen += _PLACES.values()
        return rows_of_keys(spark, paths, column, keys, chosen, places=places, **shared)
    if positions:
        chosen = [*(["*"] if chosen is None else chosen), *places]
    return read(spark, paths, where, chosen, **shared)


_PLACES = {"file_path": "path", "row_index": "row"}
"""What Spark calls the place of a row -> what `find` does."""
