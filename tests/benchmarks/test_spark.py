"""How much faster `spark.read` is than Spark alone, which has the filters on its executors' side. Not a usual test:

pytest tests/benchmarks/test_spark.py -m benchmark -s -n0

The session has the machine's two cores; what else runs on them changes the ratios.
"""

import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark

from parquet_bloom.spark import read

_spec = importlib.util.spec_from_file_location("sample", Path(__file__).with_name("sample.py"))
sample = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sample)

pytestmark = [pytest.mark.benchmark, needs_java]


def medians(ours: Callable[[], int], theirs: Callable[[], int], runs: int) -> tuple[float, float]:
    times = ([], [])
    for turn in range(runs + 3):
        for call, taken in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            call()
            if turn >= 3:  # the JVM is warm by then
                taken.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


@pytest.mark.parametrize(("files", "runs"), [(400, 9), (4000, 3)])
def test_one_key_of_a_lake(files: int, runs: int) -> None:
    lake, session = str(sample.lake(files)), spark()
    middle = pq.ParquetFile(sorted(Path(lake).iterdir())[files // 2])
    present = middle.read_row_group(1, columns=["id"])["id"][5000].as_py()
    print()
    ratios = []
    for what, key, expected in (("present", present, 1), ("absent", present[:-1] + "x", 0)):
        where = f"id = '{key}'"
        assert read(session, lake, where).count() == session.read.parquet(lake).where(where).count() == expected
        ours, theirs = medians(
            lambda where=where: read(session, lake, where).count(),
            lambda where=where: session.read.parquet(lake).where(where).count(),
            runs,
        )
        ratios.append(theirs / ours)
        print(f"{files} files, {what} key: {ours * 1e3:.0f} ms, Spark alone {theirs * 1e3:.0f} ms: {ratios[-1]:.1f}x")
    assert ratios[0] >= 10
    assert ratios[1] >= 20
