"""A million keys on Spark: `semi_join` beside Spark's own join, and the memory of its Python workers.

pytest tests/benchmarks/test_spark_lookup.py -m benchmark -s -n0

A machine that does other things at the same time may fail them.
"""

import random
import time
from pathlib import Path
from typing import Any

import benchmark_files
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarking import Bench, Taken
from engines import needs_java, spark

from parquet_bloom.spark import lookup, semi_join

pytestmark = [pytest.mark.benchmark, needs_java]

ROW_GROUP, FIRST = 10_000, 0x018F00000000


def timed_ids(dice: np.random.Generator, moments: np.ndarray) -> pa.Array:
    """Returns ids as UUIDv7 and ULID have them: 12 hexadecimal digits of milliseconds, then 20 random ones."""
    tails = benchmark_files.random_ids(dice, len(moments)).to_pylist()
    return pa.array([f"{moment:012x}{tail[12:]}" for moment, tail in zip(moments.tolist(), tails, strict=True)])


@pytest.fixture(scope="module")
def ordered(bench: Bench) -> Path:
    """400 files of four row groups of 10,000 ids each, in order of time, with filters at 1 %."""
    files = bench.scaled(400)
    folder = benchmark_files.folder() / f"ordered-{files}"
    if not folder.exists():
        dice = np.random.default_rng(10)
        unfinished = folder.with_suffix(".unfinished")
        unfinished.mkdir(exist_ok=True)
        for number in range(files):
            ids = timed_ids(dice, FIRST + 4 * ROW_GROUP * number + np.arange(4 * ROW_GROUP))
            pq.write_table(
                pa.table({"id": ids}),
                unfinished / f"{number:04}.parquet",
                row_group_size=ROW_GROUP,
                compression="zstd",
                use_dictionary=False,
                bloom_filter_options={"id": {"ndv": ROW_GROUP, "fpp": 0.01}},
            )
        unfinished.rename(folder)
    return folder


@pytest.fixture(scope="module")
def count(bench: Bench) -> int:
    return bench.scaled(1_000_000)


@pytest.fixture(scope="module")
def keys(ordered: Path, count: int, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A million keys, all of the time of one row group in each of 16 files: a third of its ids, the rest absent."""
    dice = np.random.default_rng(11)
    found: list[str] = []
    for number in range(20, 36):
        group = pq.ParquetFile(ordered / f"{number:04}.parquet").read_row_group(1, columns=["id"])
        found += group["id"].to_pylist()[::3]
    files = dice.integers(20, 36, count - len(found))
    moments = FIRST + 4 * ROW_GROUP * files + ROW_GROUP + dice.integers(0, ROW_GROUP, len(files))
    found += timed_ids(dice, moments).to_pylist()
    return written(found, tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def random_keys(lake: Path, count: int, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A million random keys, of which a row group in 16 files has some."""
    found: list[str] = []
    for number in range(20, 36):
        file = pq.ParquetFile(sorted(lake.iterdir())[number])
        found += file.read_row_group(1, columns=["id"])["id"].to_pylist()[::3]
    found += benchmark_files.random_ids(np.random.default_rng(12), count - len(found)).to_pylist()
    return written(found, tmp_path_factory.mktemp("random"))


def written(found: list[str], folder: Path) -> Any:
    random.Random(1).shuffle(found)
    pq.write_table(pa.table({"id": found}), folder / "keys.parquet")
    return spark().read.parquet(str(folder))


def joins(bench: Bench, work: str, folder: Path, keys: Any) -> dict[str, Taken]:
    """Returns what our join takes, Spark's with the keys broadcast, and Spark's as it likes; all must agree."""
    from pyspark.sql import functions as F

    answers = set()

    def theirs(side: Any) -> None:
        answers.add(spark().read.parquet(str(folder)).join(side, "id", "left_semi").count())

    taken = bench.compare(
        "spark",
        work,
        {"`semi_join`": lambda: answers.add(semi_join(spark(), folder, "id", keys).count())},
        {"Spark's join, broadcast": lambda: theirs(F.broadcast(keys)), "Spark's join": lambda: theirs(keys)},
        turns=3,
        processor=False,
    )
    assert len(answers) == 1
    return taken


def test_a_million_keys_of_one_percent_of_the_row_groups(bench: Bench, ordered: Path, keys: Any, count: int) -> None:
    taken = joins(bench, f"{count:,} keys in order of time, in 1 % of the row groups", ordered, keys)
    ours, *theirs = taken.values()
    bench.expect(max(ours.ratio(one) for one in theirs), at_most=1 / 2)


def test_memory_of_a_million_keys(
    bench: Bench, ordered: Path, lake: Path, keys: Any, random_keys: Any, count: int
) -> None:
    for what, folder, wanted in (("keys in order of time", ordered, keys), ("random keys", lake, random_keys)):
        start = time.perf_counter()
        candidates = lookup(spark(), folder, "id", wanted)
        seconds, rows = time.perf_counter() - start, candidates.where("path is not null").count()
        candidates.unpersist()
        peak = max(map(peak_of, workers()))
        bench.row("spark_alone", f"`lookup` of {count:,} {what}: {rows:,} candidates", "`lookup`", Taken((seconds,)))
        bench.figure("memory", f"`lookup` of {count:,} {what} on Spark, a Python worker", peak, "bytes")
        bench.expect(peak, at_most=1e9)


def workers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "python" in child.name()]


def peak_of(process: psutil.Process) -> int:
    """Returns the most memory that a process ever had resident, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def test_random_ids_gain_nothing(bench: Bench, lake: Path, random_keys: Any, count: int) -> None:
    # Of a million absent keys every filter at 1 % lets 10,000 pass: all files are read, after a look-up for nothing.
    joins(bench, f"{count:,} random keys", lake, random_keys)
