"""How much faster `spark.read` is than Spark alone, which has the filters on its executors' side. Not a usual test:

pytest tests/benchmarks/test_spark_read.py -m benchmark -s -n0

The session has the machine's two cores; what else runs on them changes the ratios.
"""

from pathlib import Path
from statistics import median

import benchmark_files
import pytest
from benchmarking import Bench
from engines import needs_java, spark

from parquet_bloom import prune
from parquet_bloom.spark import read

pytestmark = [pytest.mark.benchmark, needs_java]


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
@pytest.mark.parametrize(("files", "turns"), [(400, 9), (4000, 3)])
def test_one_key_of_a_lake(bench: Bench, files: int, turns: int, layout: str) -> None:
    files = bench.scaled(files)
    root = benchmark_files.lake(files)
    middle = sorted(root.iterdir())[files // 2]
    present = benchmark_files.a_key(root)
    lake, session = str(root if layout == "flat" else in_folders(root)), spark()
    schema = session.read.parquet(str(middle)).schema
    how = {"turns": turns, "warm": 3, "processor": False}  # the JVM is warm by then, and is a process of its own
    own = bench.measure(
        {
            "the true file": lambda: (
                session.read.schema(schema).parquet(str(middle)).where(f"id = '{present}'").count()
            ),
            "nothing": lambda: session.read.schema(schema).parquet(str(middle)).where("false").count(),
            "list and infer": lambda: session.read.parquet(lake),
        },
        **how,
    )
    folders = "one folder" if layout == "flat" else "20 folders"
    for what, taken in own.items():
        bench.row("spark_alone", f"{files:,} files in {folders}", what, taken)
    for kind, key, expected in (("present", present, 1), ("absent", present[:-1] + "x", 0)):
        where = f"id = '{key}'"
        assert read(session, lake, where).count() == session.read.parquet(lake).where(where).count() == expected
        alone = "Spark alone"
        taken = bench.compare(
            "spark",
            f"{kind} key, {files:,} files in {folders}",
            {
                "`read`, count": lambda where=where: read(session, lake, where).count(),
                "`read(exact=False)`, count": lambda where=where: read(session, lake, where, exact=False).count(),
            },
            {alone: lambda where=where: session.read.parquet(lake).where(where).count()},
            **how,
        )
        exactly = bench.measure({"": lambda where=where: prune(lake, where, exact=True)}, turns=turns)[""]
        # The rest is Spark's own: it would take that for a table of one file, or of none.
        floor = median(own["the true file" if expected else "nothing"].seconds) + median(exactly.seconds)
        bench.expect(median(taken["`read`, count"].seconds), at_most=1.5 * floor)
        bench.expect(taken["`read`, count"].ratio(taken[alone]), at_most=1)
