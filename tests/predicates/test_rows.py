"""Rows are those that Spark's meaning of a condition has, wherever Arrow's own operators differ from it."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import footer_bytes, with_footer

from parquet_bloom import col, find
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.predicates.tree import Predicate

NAN = math.nan


def rows(folder: Path, values: list[Any], kind: pa.DataType, where: Any) -> list[int]:
    """Returns the numbers of the rows that match."""
    path = folder / "f.parquet"
    pq.write_table(pa.table({"x": pa.array(values, kind)}), path)
    found: list[int] = find(path, where, columns=[], positions=True).to_arrow()["row"].to_pylist()
    return found


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string(), pa.null(), pa.bool_()])
def test_nothing_is_in_an_empty_list(tmp_path: Path, kind: pa.DataType) -> None:
    values = [None, *pa.array(["1", "0"]).cast(kind).to_pylist()] if kind != pa.null() else [None] * 3
    assert rows(tmp_path, values, kind, col("x").isin([])) == []
    assert rows(tmp_path, values, kind, ~col("x").isin([])) == [0, 1, 2]
    assert rows(tmp_path, values, kind, [("x", "not in", [])]) == [0, 1, 2]


def test_not_in_is_unknown_beside_null(tmp_path: Path) -> None:
    assert rows(tmp_path, [1, 2, None], pa.int64(), "x NOT IN (1, NULL)") == []
    assert rows(tmp_path, [1, 2, None], pa.int64(), "x IN (1, NULL)") == [0]
    assert rows(tmp_path, [1, 2, None], pa.int64(), "x NOT IN (1)") == [1]


NAN_TESTS: dict[str, tuple[Predicate, list[int]]] = {
    "=": (col("x") == NAN, []),
    "<": (col("x") < NAN, [0, 1, 2]),
    "<=": (col("x") <= NAN, [0, 1, 2]),
    ">": (col("x") > NAN, []),
    ">=": (col("x") >= NAN, []),
    "<>": (col("x") != NAN, [0, 1, 2]),
    "IN": (col("x").isin([NAN]), []),
}


@pytest.mark.parametrize("op", NAN_TESTS)
def test_nan_comes_after_integers_that_no_double_has(tmp_path: Path, op: str) -> None:
    where, found = NAN_TESTS[op]
    assert rows(tmp_path, [2**60 + 1, 2**63 - 1, -3, None], pa.int64(), where) == found


def test_nan_is_greater_than_any_number_and_equals_itself(tmp_path: Path) -> None:
    values = [1.0, NAN, None, math.inf]
    assert rows(tmp_path, values, pa.float64(), "x > 5") == [1, 3]
    assert rows(tmp_path, values, pa.float64(), "x >= 5") == [1, 3]
    assert rows(tmp_path, values, pa.float64(), "NOT (x < 5)") == [1, 3]
    assert rows(tmp_path, values, pa.float64(), col("x") == NAN) == [1]
    assert rows(tmp_path, values, pa.float64(), col("x").isin([NAN, 1.0])) == [0, 1]
    assert rows(tmp_path, values, pa.float64(), col("x") <= NAN) == [0, 1, 3]


def test_every_nan_is_the_same(tmp_path: Path) -> None:
    values = [1.0, *struct.unpack("<2d", bytes.fromhex("010000000000f87f000000000000f8ff"))]
    for where in (col("x").isin([NAN]), col("x") == NAN, col("x") >= NAN):
        assert rows(tmp_path, values, pa.float64(), where) == [1, 2]


@pytest.mark.parametrize(
    ("where", "found"), [("< 300", 2), ("> 300", 0), ("<= -300", 0), (">= -300", 2), ("<> 300", 2)]
)
def test_literals_beyond_the_type_are_above_or_below_all_values(tmp_path: Path, where: str, found: int) -> None:
    assert len(rows(tmp_path, [-128, 127, None], pa.int8(), f"x {where}")) == found


@pytest.mark.parametrize(
    ("values", "kind", "where", "why"),
    [
        ([date(1500, 1, 1)], pa.date32(), "x = DATE '1500-01-01'", "before 1582"),
        (
            [datetime(1800, 1, 1, tzinfo=UTC)],
            pa.timestamp("us", "UTC"),
            "x < TIMESTAMP '1850-01-01 00:00:00Z'",
            "before 1900",
        ),
        ([["a"]], pa.list_(pa.string()), "x.list.element = 'a'", "list"),
        (["it's"], pa.string(), "x = 'it''s'", "versions of Spark"),
        ([Decimal(7)], pa.decimal128(38, 10), f"x = {2**96}", "Spark rounds"),
        ([None], pa.int64(), f"x < {2**63}", "orders NULL"),
    ],
)
def test_what_engines_evaluate_differently_is_refused(
    tmp_path: Path, values: list[Any], kind: pa.DataType, where: str, why: str
) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"x": pa.array(values, kind)}).replace_schema_metadata({}), path, store_schema=False)
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    metadata.created_by = "parquet-mr version 1.12.3 (build x)"  # a writer that may have shifted days
    path.write_bytes(with_footer(data, encode(metadata)))
    with pytest.raises(UnsupportedError, match=why):
        find(path, where)


def test_repeated_values_without_a_list_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([[5]], pa.schema([pa.field("x", pa.int64(), nullable=False)])), path, store_schema=False)
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    metadata.schema[1].repetition_type = 2
    path.write_bytes(with_footer(data, encode(metadata)))
    with pytest.raises(UnsupportedError, match="a row has many values of it"):
        find(path, "x = 5")


def test_texts_with_a_rule_are_not_compared_by_their_bytes(tmp_path: Path) -> None:
    field = {"name": "x", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"x": "icu.UNICODE_CI"}}}
    noted = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": [field]})}
    pq.write_table(pa.table({"x": ["A"]}).replace_schema_metadata(noted), tmp_path / "f.parquet")
    with pytest.raises(UnsupportedError, match="by its bytes"):
        find(tmp_path / "f.parquet", "x = 'a'")


def test_both_zeros_are_one(tmp_path: Path) -> None:
    values = [0.0, -0.0, 1.0]
    assert rows(tmp_path, values, pa.float64(), col("x").isin([0.0, 7.0])) == [0, 1]
    assert rows(tmp_path, values, pa.float64(), col("x").isin([-0.0, 7.0])) == [0, 1]
    assert rows(tmp_path, values, pa.float64(), "x = 0e0") == [0, 1]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("x < 1.5", [0, 1]),
        ("x <= 1.5", [0, 1]),
        ("x > 1.5", [2]),
        ("x >= 1.5", [2]),
        ("x = 1.5", []),
        ("x <> 1.5", [0, 1, 2]),
    ],
)
def test_a_fraction_lies_between_two_integers(tmp_path: Path, where: str, found: list[int]) -> None:
    assert rows(tmp_path, [0, 1, 2, None], pa.int64(), where) == found
