"""A million keys on Spark: `semi_join` beside Spark's own join, and the memory of its Python workers.

pytest tests/benchmarks/test_spark_lookup.py -m benchmark -s -n0

A machine that does other things at the same time may fail them.
"""

import importlib.util
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark

from parquet_bloom.spark import lookup, semi_join

_spec = importlib.util.spec_from_file_location("sample", Path(__file__).with_name("sample.py"))
sample = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sample)

pytestmark = [pytest.mark.benchmark, needs_java]

FILES, KEYS, RUNS = 400, 1_000_000, 3
ROW_GROUP, FIRST = 10_000, 0x018F00000000


def timed_ids(dice: np.random.Generator, moments: np.ndarray) -> pa.Array:
    """Returns ids as UUIDv7 and ULID have them: 12 hexadecimal digits of milliseconds, then 20 random ones."""
    tails = sample.random_ids(dice, len(moments)).to_pylist()
    return pa.array([f"{moment:012x}{tail[12:]}" for moment, tail in zip(moments.tolist(), tails, strict=True)])


@pytest.fixture(scope="module")
def ordered() -> Path:
    """400 files of four row groups of 10,000 ids each, in order of time, with filters at 1 %."""
    folder = sample.folder() / f"ordered-{FILES}"
    if not folder.exists():
        dice = np.random.default_rng(10)
        unfinished = folder.with_suffix(".unfinished")
        unfinished.mkdir(exist_ok=True)
        for number in range(FILES):
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
def keys(ordered: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A million keys, all of the time of one row group in each of 16 files: a third of its ids, the rest absent."""
    dice = np.random.default_rng(11)
    found: list[str] = []
    for number in range(100, 116):
        group = pq.ParquetFile(ordered / f"{number:04}.parquet").read_row_group(1, columns=["id"])
        found += group["id"].to_pylist()[::3]
    files = dice.integers(100, 116, KEYS - len(found))
    moments = FIRST + 4 * ROW_GROUP * files + ROW_GROUP + dice.integers(0, ROW_GROUP, len(files))
    found += timed_ids(dice, moments).to_pylist()
    return written(found, tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def random_keys(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A million random keys, of which a row group in 16 files has some."""
    found: list[str] = []
    for number in range(100, 116):
        file = pq.ParquetFile(sorted(sample.lake(FILES).iterdir())[number])
        found += file.read_row_group(1, columns=["id"])["id"].to_pylist()[::3]
    found += sample.random_ids(np.random.default_rng(12), KEYS - len(found)).to_pylist()
    return written(found, tmp_path_factory.mktemp("random"))


def written(found: list[str], folder: Path) -> Any:
    random.Random(1).shuffle(found)
    pq.write_table(pa.table({"id": found}), folder / "keys.parquet")
    return spark().read.parquet(str(folder))


def medians(*calls: Callable[[], int]) -> list[float]:
    """Returns the median time of each call; they take turns, the first turn warms up, and all must agree."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(RUNS + 1):
        answers = set()
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            answers.add(call())
            if turn:
                taken.append(time.perf_counter() - start)
        assert len(answers) == 1
    return [statistics.median(taken) for taken in times]


def joins(folder: Path, keys: Any) -> list[float]:
    """Returns the medians of our join, of Spark's with the keys broadcast, and of Spark's as it likes."""
    from pyspark.sql import functions as F

    def theirs(side: Any) -> int:
        return spark().read.parquet(str(folder)).join(side, "id", "left_semi").count()

    return medians(
        lambda: semi_join(spark(), folder, "id", keys).count(), lambda: theirs(F.broadcast(keys)), lambda: theirs(keys)
    )


def line(what: str, *figures: str) -> None:
    print(f"{what:<70}" + "  ".join(f"{figure:>12}" for figure in figures))


def test_a_million_keys_of_one_percent_of_the_row_groups(ordered: Path, keys: Any) -> None:
    ours, broadcast, plain = joins(ordered, keys)
    ratio = min(broadcast, plain) / ours
    line(
        "time-ordered ids: semi_join, Spark broadcast, Spark plain",
        f"{ours:.2f} s",
        f"{broadcast:.2f} s",
        f"{plain:.2f} s",
    )
    line("  Spark's better one to ours", f"{ratio:.1f}x")
    assert ratio >= 3


def test_memory_of_a_million_keys(ordered: Path, keys: Any, random_keys: Any) -> None:
    for what, folder, wanted in (("time-ordered", ordered, keys), ("random", sample.lake(FILES), random_keys)):
        start = time.perf_counter()
        candidates = lookup(spark(), folder, "id", wanted)
        taken, rows = time.perf_counter() - start, candidates.where("path is not null").count()
        candidates.unpersist()
        peak = max(map(peak_of, workers()))
        line(
            f"{what}: lookup, candidates, peak of a Python worker",
            f"{taken:.2f} s",
            f"{rows:,}",
            f"{peak / 1e6:.0f} MB",
        )
        assert peak < 1e9


def workers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "python" in child.name()]


def peak_of(process: psutil.Process) -> int:
    """Returns the most memory that a process ever had resident, in bytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def test_random_ids_gain_nothing(random_keys: Any) -> None:
    # Of a million absent keys every filter at 1 % lets 10,000 pass: all files are read, after a look-up for nothing.
    ours, broadcast, plain = joins(sample.lake(FILES), random_keys)
    line("random ids: semi_join, Spark broadcast, Spark plain", f"{ours:.2f} s", f"{broadcast:.2f} s", f"{plain:.2f} s")
    line("  Spark's better one to ours", f"{min(broadcast, plain) / ours:.1f}x")
