"""Every engine reads what `erase` leaves: all other rows and columns, and each remaining key by its filter."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, SessionContext
from engines import clickhouse
from samples import FIXTURES

import parquet_bloom

pytestmark = pytest.mark.engines

FILES = [
    f"{writer}/all_types.parquet" for writer in ("clickhouse", "datafusion", "duckdb", "polars", "pyarrow", "spark")
]
PLAIN = ("id", "int64", "double", "string")
"""Columns that every writer has and every engine reads in the same type."""

ALL = "1 = 1"
UNREADABLE = {("polars", "duckdb/all_types.parquet")}
"""Polars stops at the type of one of its columns."""

Reader = Callable[[Path, str], list[tuple[Any, ...]]]
COLUMNS = ", ".join(PLAIN)


def by_datafusion(path: Path, where: str) -> list[tuple[Any, ...]]:
    context = SessionContext(SessionConfig().with_target_partitions(1)).enable_url_table()
    frame = context.sql(f"SELECT {COLUMNS} FROM '{path}' WHERE {where}")
    return [tuple(row.values()) for row in pa.Table.from_batches(frame.collect(), frame.schema()).to_pylist()]


def by_polars(path: Path, where: str) -> list[tuple[Any, ...]]:
    return pl.SQLContext(t=pl.scan_parquet(path), eager=True).execute(f"SELECT {COLUMNS} FROM t WHERE {where}").rows()


def by_clickhouse(path: Path, where: str) -> list[tuple[Any, ...]]:
    settings = "SETTINGS max_threads = 1, use_parquet_metadata_cache = 0, session_timezone = 'UTC'"
    return [tuple(row) for row in clickhouse(f"SELECT {COLUMNS} FROM file('{path}', Parquet) WHERE {where} {settings}")]


def by_pyarrow(path: Path, where: str) -> list[tuple[Any, ...]]:
    rows = [tuple(row.values()) for row in pq.read_table(path, columns=[*PLAIN]).to_pylist()]
    return [row for row in rows if where == ALL or f"id = {row[0]}" == where]


READERS: dict[str, Reader] = {
    "duckdb": lambda path, where: duckdb.sql(f"SELECT {COLUMNS} FROM '{path}' WHERE {where}").fetchall(),
    "datafusion": by_datafusion,
    "polars": by_polars,
    "clickhouse": by_clickhouse,
    "pyarrow": by_pyarrow,
}


@pytest.fixture(scope="module")
def erased(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, list[int]]]:
    """Returns a copy of a fixture from which some ids were erased, and these."""
    folder, done = tmp_path_factory.mktemp("erased"), {}

    def copy(file: str) -> tuple[Path, list[int]]:
        if file not in done:
            path = folder / file.replace("/", "-")
            shutil.copy(FIXTURES / file, path)
            keys = sorted({*pq.read_table(path, columns=["id"])["id"].drop_null().to_pylist()})[:90:9]
            assert parquet_bloom.erase(path, "id", keys).rows_erased >= len(keys)
            done[file] = path, keys
        return done[file]

    return copy


def row_of(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(map(repr, row))  # a NaN equals itself


def comparable(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return sorted(map(row_of, rows))


@pytest.mark.parametrize(
    ("engine", "file"), [(engine, file) for engine in READERS for file in FILES if (engine, file) not in UNREADABLE]
)
def test_the_other_rows_are_read(engine: str, file: str, erased: Callable[[str], tuple[Path, list[int]]]) -> None:
    path, keys = erased(file)
    read = READERS[engine]
    before = [row for row in read(FIXTURES / file, ALL) if row[0] not in keys]
    after = read(path, ALL)
    assert comparable(after) == comparable(before)
    assert after
    for key in [*keys[:3], *sorted({row[0] for row in after if row[0] is not None})[:12]]:
        found = read(path, f"id = {key}")
        wanted = [row for row in after if row[0] == key]
        assert comparable(found) == comparable(wanted)


@pytest.mark.parametrize("file", FILES)
def test_filters_hold_every_value_that_is_left(file: str, erased: Callable[[str], tuple[Path, list[int]]]) -> None:
    path, _ = erased(file)
    before, after = parquet_bloom.inspect(FIXTURES / file), parquet_bloom.inspect(path)
    gone = {row.column for row in before.rows if row.num_bytes} - {row.column for row in after.rows if row.num_bytes}
    assert gone <= {"bool", "float16", "decimal60", "span", "all_null"}  # which get no filter from `add` either
    assert not parquet_bloom.verify(path).findings
