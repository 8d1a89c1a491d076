"""The index of a lake, built on executors: each task writes segments of its files, the driver makes them a version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from parquet_bloom import indexing
from parquet_bloom.indexes.bloom_index import IndexedColumn, Segment
from parquet_bloom.indexing import IndexState, write_segments
from parquet_bloom.parallel import Progress
from parquet_bloom.results import arrow_schema, from_row, to_row
from parquet_bloom.spark.tasks import run
from parquet_bloom.storage import Source, StorageOptions
from parquet_bloom.tables import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def index_create(
    spark: SparkSession,
    root: str,
    columns: Sequence[str | IndexedColumn] | str,
    *,
    fpp: float = 0.1,
    num_items: int = 1_000_000,
    max_expected_fpp: float = 1.0,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> IndexState:
    """Do what `parquet_bloom.index_create` does, with the files read by tasks."""
    return indexing.index_create(
        root,
        columns,
        fpp=fpp,
        num_items=num_items,
        max_expected_fpp=max_expected_fpp,
        storage_options=storage_options,
        elsewhere=partial(_segments, spark, storage_options, progress),
    )


def index_refresh(
    spark: SparkSession, root: str, *, storage_options: StorageOptions = None, progress: Progress | None = None
) -> IndexState:
    """Do what `parquet_bloom.index_refresh` does, with the files read by tasks."""
    elsewhere = partial(_segments, spark, storage_options, progress)
    return indexing.index_refresh(root, storage_options=storage_options, elsewhere=elsewhere)


def _segments(
    spark: SparkSession,
    storage_options: StorageOptions,
    progress: Progress | None,
    root: str,
    snapshot: Snapshot | None,
    missing: list[tuple[Source, list[IndexedColumn]]],
) -> Iterator[Segment]:
    by_columns: dict[tuple[IndexedColumn, ...], list[Source]] = {}
    for source, columns in missing:
        by_columns.setdefault(tuple(columns), []).append(source)
    for of_these, sources in by_columns.items():
        work = _Write(root, of_these, snapshot, storage_options)
        what = "parquet_bloom: indexing"
        found = run(spark, sources, work, arrow_schema(Segment), description=what, progress=progress)
        rows = found.collect()
        found.unpersist()
        yield from (from_row(Segment, row.asDict(recursive=True)) for row in rows)


@dataclass(frozen=True)
class _Write:
    """A task: the segments of its files. What a repeated one leaves behind is named by no version, and swept up."""

    root: str
    columns: tuple[IndexedColumn, ...]
    snapshot: Snapshot | None
    storage_options: StorageOptions

    def __call__(self, paths: list[str]) -> Iterator[dict[str, Any]]:
        segments = write_segments(
            self.root, paths, self.columns, snapshot=self.snapshot, storage_options=self.storage_options
        )
        for segment in segments:
            yield to_row(segment)
