"""Builds an index on executors: each task writes segments for its files, and the driver commits them as a version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from parquet_bloom.filters.index import IndexedColumn, Segment
from parquet_bloom.results import arrow_schema, from_row, to_row
from parquet_bloom.spark.stores import SparkOptions, settled
from parquet_bloom.spark.tasks import run
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.tables import Snapshot
from parquet_bloom.verbs.index import IndexState, build_index, indexed_columns, write_segments
from parquet_bloom.verbs.parallel import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create(
    spark: SparkSession,
    root: Any,
    columns: Sequence[str | IndexedColumn] | str,
    *,
    at: PathLike | None = None,
    catalog: str | None = None,
    allow_outside: bool = False,
    fpp: float = 0.1,
    ndv: int = 1_000_000,
    max_expected_fpp: float = 1.0,
    readers: str | Sequence[str] | None = None,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> IndexState:
    """Do what `parquet_bloom.index.create` does, with the files read by tasks."""
    wanted = indexed_columns(columns, fpp=fpp, ndv=ndv, max_expected_fpp=max_expected_fpp)
    root, storage_options = settled(spark, root, storage_options, catalog=catalog)
    elsewhere = partial(_segments, spark, storage_options, progress)
    return build_index(
        root,
        wanted,
        at=at,
        catalog=catalog,
        allow_outside=allow_outside,
        readers=readers,
        storage_options=storage_options,
        elsewhere=elsewhere,
    )


def refresh(
    spark: SparkSession,
    root: Any,
    *,
    at: PathLike | None = None,
    catalog: str | None = None,
    allow_outside: bool = False,
    storage_options: SparkOptions = None,
    progress: Progress | None = None,
) -> IndexState:
    """Do what `parquet_bloom.index.refresh` does, with the files read by tasks."""
    root, storage_options = settled(spark, root, storage_options, catalog=catalog)
    elsewhere = partial(_segments, spark, storage_options, progress)
    return build_index(
        root, at=at, catalog=catalog, allow_outside=allow_outside, storage_options=storage_options, elsewhere=elsewhere
    )


def _segments(
    spark: SparkSession,
    storage_options: StorageOptions,
    progress: Progress | None,
    root: str,
    at: str,
    snapshot: Snapshot | None,
    missing: list[tuple[Source, list[IndexedColumn]]],
) -> Iterator[Segment]:
    by_columns: dict[tuple[IndexedColumn, ...], list[Source]] = {}
    for source, columns in missing:
        by_columns.setdefault(tuple(columns), []).append(source)
    for of_these, sources in by_columns.items():
        work = _Write(root, at, of_these, snapshot, storage_options)
        what = "parquet_bloom: indexing"
        frame = run(spark, sources, work, arrow_schema(Segment), description=what, progress=progress)
        rows = frame.collect()
        frame.unpersist()
        yield from (from_row(Segment, row.asDict(recursive=True)) for row in rows)


@dataclass(frozen=True)
class _Write:
    """A task: the segments of its files. Those of a repeated task belong to no version, and are removed."""

    root: str
    at: str
    columns: tuple[IndexedColumn, ...]
    snapshot: Snapshot | None
    storage_options: StorageOptions

    def __call__(self, paths: list[str]) -> Iterator[dict[str, Any]]:
        segments = write_segments(
            *(self.root, self.at, paths, self.columns), snapshot=self.snapshot, storage_options=self.storage_options
        )
        for segment in segments:
            yield to_row(segment)
