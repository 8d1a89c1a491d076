"""`find` returns the rows that DuckDB returns, but for a FLOAT column and a number that no FLOAT is."""

from __future__ import annotations

import random
import re
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import LiteralError, UnsupportedError
from parquet_bloom.storage import rows
from parquet_bloom.verbs import matching_rows
from tests.verbs.find.random_conditions import condition, table

pytestmark = pytest.mark.engines

ZONE = "UTC"  # DuckDB knows no other without its ICU extension


def in_duckdb(text: str) -> str:
    """Returns a condition as DuckDB writes it."""
    text = re.sub(r"\bat\b", '"at"', text.replace("<=>", "IS NOT DISTINCT FROM").replace("TIMESTAMP_NTZ", "TIMESTAMP"))
    return re.sub(r"X'([0-9A-F]*)'", lambda x: "'" + re.sub("(..)", r"\\x\1", x[1]) + "'::BLOB", text)


@pytest.mark.parametrize("order", ["i64", "s", "day", "f64", "d9", None])
def test_random_conditions_find_the_rows_that_duckdb_finds(
    tmp_path: Path, order: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching_rows, "INDEX_WORTH", 0)  # pages are excluded however small they are
    monkeypatch.setattr(rows, "PAGES_WORTH", 0)
    path = tmp_path / "a.parquet"
    drawn = table(random.Random(5))
    pq.write_table(
        drawn.sort_by(order) if order else drawn, path, row_group_size=200, write_page_index=True, data_page_size=32,
        write_batch_size=8, use_dictionary=False,
    )  # fmt: skip
    connection = duckdb.connect()
    connection.execute(f"SET timezone = '{ZONE}'")
    rng, compared = random.Random(3), 0
    # In memory: DuckDB 2.0.1 excludes pages by bounds that leave NaN out, and loses rows of `f32 >= 1.5`.
    connection.execute(f"CREATE TABLE held AS FROM read_parquet('{path}', file_row_number = true)")
    for _ in range(250):
        text = condition(rng, 1)
        if "f32" in text and re.search(r"\b(0\.1|16777217)\b", text):
            continue  # it narrows the number, and Spark widens the column
        try:
            found = parquet_bloom.find(path, text, columns=[], positions=True, timezone=ZONE).to_arrow()
        except (UnsupportedError, LiteralError):
            continue
        theirs = connection.execute(f"SELECT file_row_number FROM held WHERE {in_duckdb(text)}").fetchall()
        assert found["row"].to_pylist() == sorted(row for (row,) in theirs), text
        compared += 1
    assert compared > 100


@pytest.mark.parametrize(("where", "here", "there"), [("f32 = 0.1", 0, 1), ("f32 = 16777217", 0, 1)])
def test_duckdb_narrows_a_number_to_float(tmp_path: Path, where: str, here: int, there: int) -> None:
    import pyarrow as pa

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"f32": pa.array([0.1, 16777216.0], pa.float32())}), path)
    assert parquet_bloom.find(path, where).to_arrow().num_rows == here
    assert duckdb.sql(f"FROM '{path}' WHERE {where}").to_arrow_table().num_rows == there
