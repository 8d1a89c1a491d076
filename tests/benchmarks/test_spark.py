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

from parquet_bloom import prune
from parquet_bloom.spark import read

_spec = importlib.util.spec_from_file_location("sample", Path(__file__).with_name("sample.py"))
sample = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sample)

pytestmark = [pytest.mark.benchmark, needs_java]


def medians(calls: dict[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """Returns the milliseconds that each call takes; they take turns, and the first three do not count."""
    times: dict[str, list[float]] = {what: [] for what in calls}
    for turn in range(runs + 3):
        for what, call in calls.items():
            start = time.perf_counter()
            call()
            if turn >= 3:  # the JVM is warm by then
                times[what].append(time.perf_counter() - start)
    return {what: statistics.median(taken) * 1e3 for what, taken in times.items()}


def in_folders(lake: Path) -> Path:
    """Returns a lake of the same files in twenty folders."""
    root = lake.with_name(f"{lake.name}-days")
    if not root.exists():
        unfinished = root.with_suffix(".unfinished")
        for number, file in enumerate(sorted(lake.iterdir())):
            folder = unfinished / f"day=2024-01-{number % 20 + 1:02}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file.name).hardlink_to(file)
        unfinished.rename(root)
    return root


@pytest.mark.parametrize("layout", ["flat", "days"])
@pytest.mark.parametrize(("files", "runs"), [(400, 9), (4000, 3)])
def test_one_key_of_a_lake(files: int, runs: int, layout: str) -> None:
    root = sample.lake(files)
    middle = sorted(root.iterdir())[files // 2]
    present = pq.ParquetFile(middle).read_row_group(1, columns=["id"])["id"][5000].as_py()
    lake, session = str(root if layout == "flat" else in_folders(root)), spark()
    schema = session.read.parquet(str(middle)).schema
    own = medians(
        {
            "Spark reads the true file": lambda: (
                session.read.schema(schema).parquet(str(middle)).where(f"id = '{present}'").count()
            ),
            "Spark reads nothing": lambda: session.read.schema(schema).parquet(str(middle)).where("false").count(),
            "Spark lists and infers": lambda: session.read.parquet(lake),
        },
        runs,
    )
    print(f"\n{files} files, {layout}: " + ", ".join(f"{what} {taken:.0f} ms" for what, taken in own.items()))
    for kind, key, expected in (("present", present, 1), ("absent", present[:-1] + "x", 0)):
        where = f"id = '{key}'"
        assert read(session, lake, where).count() == session.read.parquet(lake).where(where).count() == expected
        found = medians(
            {
                "prune": lambda where=where: prune(lake, where),
                "prune exactly": lambda where=where: prune(lake, where, exact=True),
                "read": lambda where=where: read(session, lake, where),
                "read and count": lambda where=where: read(session, lake, where).count(),
                "not exactly": lambda where=where: read(session, lake, where, exact=False).count(),
                "Spark alone": lambda where=where: session.read.parquet(lake).where(where).count(),
            },
            runs,
        )
        ratio = found["Spark alone"] / found["read and count"]
        print(f"  {kind}: " + ", ".join(f"{what} {taken:.0f} ms" for what, taken in found.items()) + f": {ratio:.1f}x")
        # The rest is Spark's own: it would take that for a table of one file, or of none.
        floor = own["Spark reads the true file" if expected else "Spark reads nothing"]
        assert found["read and count"] < 1.5 * (floor + found["prune exactly"])
        assert found["read and count"] < found["Spark alone"]
