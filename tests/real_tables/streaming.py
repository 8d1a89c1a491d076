"""Folders that Spark's structured streaming writes, and whose log says what is live."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from real_tables.asking import View
from real_tables.kinds import Bench, Made, kinds

import parquet_bloom

KINDS, kind = kinds()

INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


def stream(bench: Bench, batches: range, *, interval: int = 2, parts: tuple[str, ...] = ()) -> None:
    """Write so many batches, each one of the stream, whose log is compacted at every so many."""
    source = Path(bench.path + "-in")
    source.mkdir(exist_ok=True)
    for batch in batches:
        pq.write_table(bench.rows.table(batch), source / f"{batch}.parquet")
    schema = bench.spark.read.parquet(str(source)).schema
    bench.spark.conf.set(INTERVAL, str(interval))
    found = bench.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    sink = found.writeStream.format("parquet").partitionBy(*parts).option("checkpointLocation", f"{bench.path}-state")
    sink.trigger(availableNow=True).start(bench.path).awaitTermination()
    bench.spark.conf.unset(INTERVAL)


def left_by_a_failed_batch(bench: Bench) -> None:
    """Leave copies of live files in their folders: as complete as they are, and cut off."""
    live = sorted(Path(bench.path).rglob("part-*.parquet"))[0]
    shutil.copy(live, live.with_name(f"part-00000-9{live.name[12:]}"))
    cut = live.with_name(f"part-00001-9{live.name[12:]}")
    cut.write_bytes(live.read_bytes()[:-9])


def made(bench: Bench) -> Made:
    def seen() -> Any:
        return bench.spark.read.parquet(bench.path).selectExpr(
            "*", "url_decode(replace(_metadata.file_path, '+', '%2B')) as _file"
        )

    def add() -> Any:
        live = parquet_bloom.prune(bench.path, "rid IS NOT NULL").paths
        return parquet_bloom.add(live, "k", replace=True)

    return Made([View(seen, bench.path)], add=add, verb="add")


@kind("one folder, a log without a compact file")
def flat(bench: Bench) -> Made:
    stream(bench, range(4), interval=10)
    left_by_a_failed_batch(bench)
    return made(bench)


@kind("one folder, a log that is compacted twice")
def compacted(bench: Bench) -> Made:
    stream(bench, range(5))
    left_by_a_failed_batch(bench)
    return made(bench)


@kind("partitioned")
def partitioned(bench: Bench) -> Made:
    stream(bench, range(5), parts=("p",))
    left_by_a_failed_batch(bench)
    return made(bench)


@kind("filters added between two runs of the stream")
def added(bench: Bench) -> Made:
    stream(bench, range(3))
    parquet_bloom.add(bench.path, "k")
    stream(bench, range(3, 6))
    return made(bench)
