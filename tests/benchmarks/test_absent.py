"""The speed of `absent` beside DuckDB's anti join, and beside what pyiceberg does before an upsert.

Not part of the usual tests:

pytest tests/benchmarks/test_absent.py -m benchmark -s -n0
"""

from pathlib import Path
from typing import Any

import benchmark_files
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarking import Bench

import parquet_bloom

pytestmark = pytest.mark.benchmark


def keys_for(files: list[Path], count: int) -> pa.Table:
    """Returns keys of which nine of ten are nowhere."""
    each = -(-count // 10 // len(files))
    there = [pq.read_table(path, columns=["id"])["id"].combine_chunks().slice(0, each) for path in files]
    there = pa.concat_arrays(there)[: count // 10]
    keys = pa.concat_arrays([benchmark_files.random_ids(np.random.default_rng(77), count - len(there)), there])
    return pa.table({"id": keys.take(pa.array(np.random.default_rng(78).permutation(count)))})


def test_a_million_keys_of_which_most_are_nowhere(bench: Bench, lake: Path) -> None:
    count = bench.scaled(1_000_000)
    keys = keys_for(sorted(lake.glob("*.parquet")), count)
    connection = duckdb.connect().register("keys", keys)
    query = f"SELECT id FROM keys ANTI JOIN '{lake}/*.parquet' f USING (id)"

    def ours() -> None:
        assert len(parquet_bloom.absent(lake, "id", keys)) == count * 9 // 10

    def theirs() -> None:
        assert len(connection.sql(query).to_arrow_table()) == count * 9 // 10

    work = f"{count:,} keys, 90 % of them nowhere"
    bench.compare("absent", work, {"`absent`": ours}, {"DuckDB, ANTI JOIN": theirs}, turns=3)


def new_by_pyiceberg(table: Any, rows: pa.Table) -> pa.Table:
    """Returns the rows that `Table.upsert` would append, found as it does."""
    from pyiceberg.expressions.visitors import bind
    from pyiceberg.io.pyarrow import expression_to_pyarrow
    from pyiceberg.table import upsert_util

    new = rows
    for batch in table.scan(row_filter=upsert_util.create_match_filter(rows, ["id"])).to_arrow_batch_reader():
        found = pa.Table.from_batches([batch])
        upsert_util.get_rows_to_update(rows, found, ["id"])
        matching = bind(table.schema(), upsert_util.create_match_filter(found, ["id"]), True)
        new = new.filter(~expression_to_pyarrow(matching))
    return new


MOST_SECONDS = 180
"""pyiceberg is not tried with more keys where the time for ten times as many is likely to be longer."""


def test_what_an_upsert_into_an_iceberg_table_has_to_find_out(bench: Bench, lake: Path, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    files = sorted(lake.glob("*.parquet"))
    catalog = SqlCatalog("benchmark", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.lake", pq.read_schema(files[0]))
    table.add_files([f"file://{path}" for path in files])
    seconds = 0.0
    for count in (1_000, 10_000, 100_000, 1_000_000):
        keys = keys_for(files, count)

        def ours(keys: pa.Table = keys) -> None:
            assert len(parquet_bloom.absent(table, "id", keys, allow_outside=True)) == len(keys) * 9 // 10

        def theirs(keys: pa.Table = keys) -> None:
            assert len(new_by_pyiceberg(table, keys)) == len(keys) * 9 // 10

        others = {"pyiceberg's plan": theirs} if 10 * seconds <= MOST_SECONDS else {}
        taken = bench.compare("upsert", f"{count:,} keys", {"`absent`": ours}, others, turns=1, warm=0, x=count)
        if others:
            seconds = taken["pyiceberg's plan"].seconds[0]
