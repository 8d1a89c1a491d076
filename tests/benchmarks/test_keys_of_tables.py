"""The rows of one key of a Delta and of an Iceberg table, beside the libraries of these formats. Not a usual test:

pytest tests/benchmarks/test_keys_of_tables.py -m benchmark -s -n0
"""

import os
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from benchmarking import Bench
from deltalake import DeltaTable, QueryBuilder, convert_to_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import parquet_bloom

pytestmark = pytest.mark.benchmark


def test_the_rows_of_one_key_of_a_delta_table(bench: Bench, lake: Path, present: str, tmp_path: Path) -> None:
    root = tmp_path / "delta"
    root.mkdir()
    for path in lake.glob("*.parquet"):
        os.link(path, root / path.name)
    convert_to_deltalake(str(root))

    def ours() -> None:
        assert parquet_bloom.find(root, f"id = '{present}'").to_arrow().num_rows == 1

    def deltalake() -> None:
        sql = f"SELECT * FROM lake WHERE id = '{present}'"
        found = QueryBuilder().register("lake", DeltaTable(str(root))).execute(sql).read_all()
        assert found.num_rows == 1

    def polars() -> None:
        assert pl.scan_delta(str(root)).filter(pl.col("id") == present).collect().height == 1

    work = f"a Delta table of {bench.scaled(400):,} files"
    bench.compare("tables", work, {"`find`": ours}, {"deltalake": deltalake, "Polars, scan_delta": polars}, turns=5)


def test_the_rows_of_one_key_of_an_iceberg_table(bench: Bench, lake: Path, present: str, tmp_path: Path) -> None:
    files = sorted(lake.glob("*.parquet"))
    catalog = SqlCatalog("benchmark", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.lake", pq.read_schema(files[0]))
    table.add_files([f"file://{path}" for path in files])

    def ours() -> None:
        assert parquet_bloom.find(table, f"id = '{present}'", allow_outside=True).to_arrow().num_rows == 1

    def pyiceberg() -> None:
        assert table.scan(row_filter=f"id = '{present}'").to_arrow().num_rows == 1

    work = f"an Iceberg table of {bench.scaled(400):,} files"
    bench.compare("tables", work, {"`find`": ours}, {"pyiceberg": pyiceberg}, turns=3)
