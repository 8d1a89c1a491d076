"""What a footer costs that is not in memory, as ratios to pyarrow and DuckDB in the same run. Not a usual test:

pytest tests/benchmarks/test_footers.py -m benchmark -s -n0

Curves over files (400, 4,000, 40,000) and over column chunks a footer (100, 1,000, 10,000, 50,000).
"""

import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import Cache, col

_spec = importlib.util.spec_from_file_location("sample", Path(__file__).with_name("sample.py"))
sample = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sample)

pytestmark = pytest.mark.benchmark

KEY = "ab" * 16


def medians(*calls: Callable[[], object], runs: int = 9) -> list[float]:
    """Returns the median seconds of each call; they take turns, and the first turn warms up."""
    times = [[] for _ in calls]
    for turn in range(runs + 1):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            if turn:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


@pytest.mark.parametrize("copies", [1, 10, 100])
def test_one_key_without_a_cache(tmp_path: Path, copies: int) -> None:
    for path in sample.lake(400).iterdir():
        metadata = pq.read_metadata(path)
        groups = [metadata.row_group(group).column(0) for group in range(metadata.num_row_groups)]
        start = min(group.bloom_filter_offset for group in groups)
        size, tail = path.stat().st_size, path.read_bytes()[start:]
        for copy in range(copies):  # holes in the place of pages, which nobody reads here
            with (tmp_path / f"{copy}-{path.name}").open("wb") as file:
                file.truncate(size)
                file.seek(start)
                file.write(tail)
    time.sleep(3)  # or the files are too young to be remembered
    engine = duckdb.connect()
    sql = f"SELECT * FROM parquet_bloom_probe('{tmp_path}/*.parquet', 'id', '{KEY}')"
    cold, warm, theirs = medians(
        lambda: parquet_bloom.prune(tmp_path, col("id") == KEY, cache=Cache(0)),
        lambda: parquet_bloom.prune(tmp_path, col("id") == KEY),
        lambda: engine.execute(sql).fetchall(),
        runs=9 if copies < 100 else 3,
    )
    print(
        f"one key, {400 * copies:,} files: cold {cold * 1e3:.1f}, warm {warm * 1e3:.1f}, "
        f"DuckDB's probe {theirs * 1e3:.1f} ms: {cold / theirs:.2f} and {warm / theirs:.2f} of it"
    )
    assert cold < 1.5 * theirs


@pytest.mark.parametrize(("columns", "row_groups"), [(10, 10), (100, 10), (100, 100), (1000, 10), (1000, 50)])
def test_wide_footers(tmp_path: Path, columns: int, row_groups: int) -> None:
    path, output = tmp_path / "wide.parquet", tmp_path / "out.parquet"
    table = pa.table({f"c{i}": np.arange(20 * row_groups) + i for i in range(columns)})
    pq.write_table(table, path, row_group_size=20, use_dictionary=False)

    def add() -> None:
        output.unlink(missing_ok=True)
        parquet_bloom.add(path, "c7", output=output)

    pruned, inspected, added, theirs = medians(
        lambda: parquet_bloom.prune(path, col("c7") == 5, cache=Cache(0)),
        lambda: parquet_bloom.inspect(path),
        add,
        lambda: pq.read_metadata(path),
        runs=5,
    )
    print(
        f"{columns * row_groups:,} column chunks ({row_groups} x {columns}): prune {pruned * 1e3:.1f}, "
        f"inspect {inspected * 1e3:.1f}, add of one column {added * 1e3:.1f}, "
        f"pyarrow's read_metadata {theirs * 1e3:.1f} ms: {pruned / theirs:.2f} and {inspected / theirs:.2f} of it"
    )
    if columns * row_groups >= 1000:  # below, a call's own cost is all there is
        assert pruned < theirs
        assert inspected < 1.5 * theirs
