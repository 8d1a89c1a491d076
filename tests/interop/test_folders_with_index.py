"""Other programs read a folder, and the folder above it, alike before and after it gets an index."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chdb
import datafusion
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from files import index_folder

from parquet_bloom import index

pytestmark = pytest.mark.engines

INSIDE = ("", "/", "/*", "/*.parquet", "/**", "/**/*", "/**/*.parquet", "/*/*.parquet", "/k=*/*.parquet")
ABOVE = ("/*/", "/*/*.parquet", "/**/*.parquet", "/*", "/*/k=1/*")
FOLDER_ABOVE = ("", "/")


def in_duckdb(path: str) -> Any:
    with duckdb.connect() as connection:
        return connection.execute("SELECT count(*), sum(id) FROM read_parquet(?)", [path]).fetchall()


def in_duckdb_with_folders(path: str) -> Any:
    with duckdb.connect() as connection:
        return connection.execute(
            "SELECT count(*), sum(id) FROM read_parquet(?, hive_partitioning = true)", [path]
        ).fetchall()


def in_polars(path: str) -> Any:
    return pl.scan_parquet(path).select("id").collect()["id"].sort().to_list()


def in_polars_with_folders(path: str) -> Any:
    return sorted(pl.scan_parquet(path, hive_partitioning=True).collect().rows(), key=repr)


def in_pyarrow(path: str) -> Any:
    return ds.dataset(path, partitioning="hive").to_table().sort_by("id").to_pylist()


def in_pyarrow_table(path: str) -> Any:
    return sorted(pq.read_table(path)["id"].to_pylist())


def in_pandas(path: str) -> Any:
    return sorted(pd.read_parquet(path)["id"])


def in_datafusion(path: str) -> Any:
    return sorted(datafusion.SessionContext().read_parquet(path).to_pydict()["id"])


def in_clickhouse(path: str) -> Any:
    return str(chdb.query(f"SELECT count(), sum(id) FROM file('{path}', 'Parquet')", "CSV"))


ENGINES = (
    *(in_duckdb, in_duckdb_with_folders, in_polars, in_polars_with_folders),
    *(in_pyarrow, in_pyarrow_table, in_pandas, in_datafusion, in_clickhouse),
)
SKIP_HIDDEN = (in_pyarrow, in_pyarrow_table, in_pandas)
"""Those that skip, in a folder that they are given, files with names such as `_x`."""


def answer(engine: Callable[[str], Any], path: str) -> Any:
    """Returns the rows, or the error without what differs from run to run."""
    try:
        return engine(path)
    except Exception as error:
        return type(error).__name__, re.sub(r"[0-9a-f-]{8,}|\d+ ", "", str(error))[:100]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("layout", ["flat", "folders"])
@pytest.mark.usefixtures("mtime_stable")
def test_an_index_changes_what_no_reader_sees(layout: str, engine: Any, tmp_path: Path) -> None:
    above = tmp_path / "above"
    lake = above / "s"
    for number in range(3):
        path = lake / f"k={number}" / "a.parquet" if layout == "folders" else lake / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [number, number + 10]}), path)
    paths = [f"{lake}{end}" for end in INSIDE] + [f"{above}{end}" for end in ABOVE]
    paths += [f"{above}{end}" for end in FOLDER_ABOVE if engine in SKIP_HIDDEN]
    before = {path: answer(engine, path) for path in paths}
    assert any(not isinstance(of_path, tuple) for of_path in before.values())
    index.create(lake, "id")
    assert any(index_folder(lake).iterdir())
    assert {path: answer(engine, path) for path in paths} == before
