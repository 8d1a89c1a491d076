"""Days before 1582-10-15 count where it is proved that their writer counted them in the Gregorian calendar."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from values.handwritten import ARROW, SPARK, column, file_of
from values.stored import plain_values

import parquet_bloom
from parquet_bloom import lookup, probe, prune
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.schema import PhysicalType
from parquet_bloom.predicates.tree import col
from parquet_bloom.storage.cache import Cache

DAYS = [date(1, 1, 1), date(1066, 10, 14), date(1500, 2, 28), date(1582, 10, 14), date(1582, 10, 15), date(2024, 2, 29)]
ABSENT = [date(1066, 10, 15), date(1400, 1, 1), date(1582, 10, 10)]
DATE = column(PhysicalType.INT32, ttypes.LogicalType(DATE=ttypes.DateType()))
VERSION, LEGACY = "org.apache.spark.version", "org.apache.spark.legacyDateTime"


def since_epoch(day: date) -> bytes:
    return struct.pack("<i", (day - date(1970, 1, 1)).days)


def by_pyarrow(path: Path) -> None:
    pq.write_table(pa.table({"c": DAYS}), path, use_dictionary=False, compression="none", write_statistics=False)


def by_duckdb(path: Path) -> None:
    import duckdb

    rows = ", ".join(f"(DATE '{day}')" for day in DAYS)
    duckdb.sql(f"COPY (SELECT * FROM (VALUES {rows}) t(c)) TO '{path}' (FORMAT parquet)")


def by_polars(path: Path) -> None:
    import polars as pl

    pl.DataFrame({"c": DAYS}).write_parquet(path)


def by_datafusion(path: Path) -> None:
    import datafusion

    rows = ", ".join(f"(DATE '{day}')" for day in DAYS)
    context = datafusion.SessionContext()
    context.sql(f"COPY (SELECT column1 AS c FROM (VALUES {rows})) TO '{path}' STORED AS PARQUET").collect()


def by_deltalake(path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(path.parent / "t", pa.table({"c": DAYS}))
    (written,) = (path.parent / "t").glob("*.parquet")
    written.rename(path)


def answers(path: Path, days: list[date]) -> dict[date, list[bool]]:
    """Returns for each day whether probe, prune and lookup, of a list and of an array, keep it."""
    held = [lookup(path, "c", keys, cache=Cache(0)).to_arrow().to_pylist() for keys in (days, pa.array(days))]
    kept = [{row["key"] for row in rows if row["path"]} for rows in held]
    return {
        day: [
            probe(path, "c", day).might_match,
            bool(prune(path, col("c") == day, cache=Cache(0)).kept_files),
            bool(prune(path, f"c = DATE '{day:%Y-%m-%d}'".replace("'1-", "'0001-"), cache=Cache(0)).kept_files),
            *(day in keys for keys in kept),
        ]
        for day in days
    }


@pytest.mark.engines
@pytest.mark.parametrize("write", [by_pyarrow, by_duckdb, by_polars, by_datafusion, by_deltalake])
def test_writers_that_never_rebase(tmp_path: Path, write: Callable[[Path], None]) -> None:
    import duckdb

    path = tmp_path / "f.parquet"
    write(path)
    assert pq.read_table(path)["c"].to_pylist() == DAYS
    assert duckdb.sql(f"SELECT c::VARCHAR FROM '{path}'").fetchall() == [(day.isoformat(),) for day in DAYS]
    parquet_bloom.add(path, ["c"], fpp=1e-6, replace=True)
    assert answers(path, DAYS) == {day: [True] * 5 for day in DAYS}
    assert answers(path, ABSENT) == {day: [False] * 5 for day in ABSENT}


def test_the_pages_hold_days_of_the_gregorian_calendar(tmp_path: Path) -> None:
    by_pyarrow(tmp_path / "f.parquet")
    file = (tmp_path / "f.parquet").read_bytes()
    assert plain_values(file)[1:] == [since_epoch(day) for day in DAYS][1:]


@pytest.mark.parametrize(
    ("created_by", "notes", "is_proved"),
    [
        (ARROW, {}, True),
        ("parquet-cpp version 1.5.1-SNAPSHOT", {}, False),
        ("somebody who copies parquet-cpp-arrow version 26", {}, False),
        (None, {}, False),
        (SPARK, {}, False),
        (SPARK, {VERSION: "4.3.0"}, True),
        (SPARK, {VERSION: "3.0.0"}, True),
        (SPARK, {VERSION: "10.0"}, True),
        (SPARK, {VERSION: "3.5.1", LEGACY: ""}, False),
        (SPARK, {VERSION: "2.4.8"}, False),
        (SPARK, {VERSION: ""}, False),
        (SPARK, {VERSION: "three"}, False),
        ("parquet-mr version 1.12.3-databricks-0002 (build x)", {VERSION: "3.3.2"}, True),
        ("somebody version 1.0", {VERSION: "4.3.0"}, False),
    ],
)
def test_what_proves_it(tmp_path: Path, created_by: str | None, notes: dict[str, str], is_proved: bool) -> None:
    path = tmp_path / "f.parquet"
    stored = [since_epoch(day) for day in DAYS]
    path.write_bytes(file_of(DATE, stored, foreign_filter=True, created_by=created_by, key_values=notes))
    assert answers(path, DAYS) == {day: [True] * 5 for day in DAYS}
    assert answers(path, ABSENT) == {day: [not is_proved] * 5 for day in ABSENT}
    assert bool(prune(path, col("c") == date(1700, 1, 1)).kept_files) is False  # what needs no proof


@pytest.mark.usefixtures("mtime_stable")
def test_an_index_does_not_tell_it(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(file_of(DATE, [since_epoch(day) for day in DAYS], foreign_filter=True))
    parquet_bloom.index.create(tmp_path, ["c"])
    found: Any = prune(tmp_path, col("c") == DAYS[1])
    assert found.kept_files
    assert not prune(tmp_path, col("c") == ABSENT[0]).kept_files
