"""What a footer costs that is not in memory, as ratios to pyarrow and DuckDB in the same run. Not a usual test:

pytest tests/benchmarks/test_footers.py -m benchmark -s -n0

Curves over files (400, 4,000, 40,000) and over column chunks a footer (100, 1,000, 10,000, 50,000).
"""

import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarking import Bench

import parquet_bloom
from parquet_bloom import Cache, col

pytestmark = pytest.mark.benchmark

KEY = "ab" * 16


@pytest.mark.parametrize("copies", [1, 10, 100])
def test_one_key_without_a_cache(bench: Bench, lake: Path, tmp_path: Path, copies: int) -> None:
    for path in lake.iterdir():
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
    engine, count = duckdb.connect(), copies * bench.scaled(400)
    sql = f"SELECT * FROM parquet_bloom_probe('{tmp_path}/*.parquet', 'id', '{KEY}')"
    taken = bench.compare(
        "files",
        f"{count:,} files",
        {
            "nothing remembered": lambda: parquet_bloom.prune(tmp_path, col("id") == KEY, cache=Cache(0)),
            "footers remembered": lambda: parquet_bloom.prune(tmp_path, col("id") == KEY),
        },
        {"DuckDB's probe": lambda: engine.execute(sql).fetchall()},
        turns=9 if copies < 100 else 3,
        x=count,
    )
    bench.expect(taken["nothing remembered"].processor_ratio(taken["DuckDB's probe"]), at_most=1)  # it uses all cores


@pytest.mark.parametrize(("columns", "row_groups"), [(10, 10), (100, 10), (100, 100), (1000, 10), (1000, 50)])
def test_wide_footers(bench: Bench, tmp_path: Path, columns: int, row_groups: int) -> None:
    path, output = tmp_path / "wide.parquet", tmp_path / "out.parquet"
    table = pa.table({f"c{i}": np.arange(20 * row_groups) + i for i in range(columns)})
    pq.write_table(table, path, row_group_size=20, use_dictionary=False)

    def add() -> None:
        output.unlink(missing_ok=True)
        parquet_bloom.add(path, "c7", output=output)

    chunks = columns * row_groups
    work = f"{chunks:,} column chunks ({row_groups} x {columns:,})"
    theirs = "pyarrow's read_metadata"
    taken = bench.compare(
        "footers",
        work,
        {
            "`prune`": lambda: parquet_bloom.prune(path, col("c7") == 5, cache=Cache(0)),
            "`inspect`": lambda: parquet_bloom.inspect(path),
        },
        {theirs: lambda: pq.read_metadata(path)},
        turns=5,
        x=chunks,
    )
    bench.compare("footers", work, {"`add` to one column, with the copy": add}, {}, turns=5, x=chunks)
    if chunks >= 1000:  # below, a call's own cost is all there is
        bench.expect(taken["`prune`"].ratio(taken[theirs]), at_most=1)
        bench.expect(taken["`inspect`"].ratio(taken[theirs]), at_most=1.5)
