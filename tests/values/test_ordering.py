"""Keys are ordered as values are, and a literal's interval holds every key that an engine may call equal to it."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import opened
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType, Repetition
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.values.arrays import plain_value
from parquet_bloom.values.encoding import encode_literal
from parquet_bloom.values.ordering import key_function, literal_interval


def leaf(physical: str, logical: LogicalType | None = None, length: int | None = None) -> LeafColumn:
    return LeafColumn(("c",), 0, PhysicalType[physical], length, logical, (Repetition.OPTIONAL,))


DECIMAL = LogicalType("DECIMAL", precision=9, scale=2)
LOCAL = LogicalType("TIMESTAMP", unit="MICROS")
UTC_MILLIS = LogicalType("TIMESTAMP", unit="MILLIS", is_adjusted_to_utc=True)

ASCENDING: dict[str, pa.Array] = {
    "int8": pa.array([-128, -1, 0, 127], pa.int8()),
    "uint32": pa.array([0, 1, 2**31, 2**32 - 1], pa.uint32()),
    "uint64": pa.array([0, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64()),
    "int64": pa.array([-(2**63), -1, 0, 2**63 - 1]),
    "float16": pa.array([-math.inf, -1.0, 6e-8, 65504.0, math.inf], pa.float32()).cast(pa.float16()),
    "double": pa.array([-math.inf, -1e300, -5e-324, 5e-324, 1.5, math.inf]),
    "decimal": pa.array(
        [Decimal(t) for t in ("-99999.99", "-0.01", "0.00", "0.01", "2.56", "99999.99")], pa.decimal128(9, 2)
    ),
    "string": pa.array(["", "\0", "a", "a\0", "aa", "b", "é", "🦜"]),
    "fixed": pa.array([b"\0\0", b"\0\x80", b"\x7f\0", b"\x80\0", b"\xff\xff"], pa.binary(2)),
    "date": pa.array([date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]),
    "timestamp": pa.array([datetime(1, 1, 1), datetime(1969, 12, 31), datetime(9999, 1, 1)], pa.timestamp("us")),
    "bool": pa.array([False, True]),
}


@pytest.mark.parametrize("kind", [kind for kind in ASCENDING if kind != "bool"])
def test_keys_ascend_with_values(tmp_path: Path, kind: str) -> None:
    pq.write_table(pa.table({"c": ASCENDING[kind]}), tmp_path / "f.parquet", store_schema=False)
    source, footer = opened(tmp_path / "f.parquet")
    (column,) = footer.leaves
    key = key_function(column)
    assert key is not None
    stored = pa.concat_arrays(ColumnChunks(source, footer).values(0, column))
    keys = [key(plain_value(stored, index)) for index in range(len(stored))]
    assert all(low < high for low, high in pairwise(keys))


def test_what_is_no_value_has_no_key() -> None:
    for column, plain in (
        (leaf("INT32"), b"\0" * 8),
        (leaf("DOUBLE"), b"\0" * 4),
        (leaf("DOUBLE"), bytes.fromhex("000000000000f87f")),
        (leaf("FLOAT"), bytes.fromhex("0100c0ff")),
        (leaf("BOOLEAN"), b"\2"),
        (leaf("BOOLEAN"), b""),
        (leaf("FIXED_LEN_BYTE_ARRAY", length=2), b"abc"),
        (leaf("BYTE_ARRAY", DECIMAL), b""),
    ):
        key = key_function(column)
        assert key is not None
        assert key(plain) is None


@pytest.mark.parametrize(
    "column",
    [
        leaf("INT96"),
        leaf("FIXED_LEN_BYTE_ARRAY", LogicalType("INTERVAL"), 12),
        leaf("INT32", LogicalType("UNKNOWN")),
        leaf("BYTE_ARRAY", LogicalType("UNKNOWN_TO_US")),
        leaf("BOOLEAN", LogicalType("STRING")),
        leaf("INT32", LogicalType("DECIMAL", precision=2, scale=3)),
        leaf("INT64", LogicalType("TIMESTAMP", unit=None)),
    ],
)
def test_types_without_an_order(column: LeafColumn) -> None:
    assert key_function(column) is None


@pytest.mark.parametrize(
    ("column", "value", "interval"),
    [
        (leaf("INT64"), 5, (5, 5)),
        (leaf("INT64"), 5.0, (5, 5)),
        (leaf("INT64"), 5.5, (Fraction(11, 2), Fraction(11, 2))),
        (leaf("INT64"), Decimal("5.5"), (Fraction(11, 2), Fraction(11, 2))),
        (leaf("INT32"), 2**40, (2**40, 2**40)),
        (leaf("FLOAT"), 0.5, (0.5, 0.5)),
        (leaf("FLOAT"), 0.1, (0.1, 0.10000000149011612)),
        (leaf("FLOAT"), 16_777_217, (16_777_216.0, 16_777_217)),
        (leaf("DOUBLE"), -math.inf, (-math.inf, -math.inf)),
        (leaf("INT32", DECIMAL), Decimal("1.5"), (150, 150)),
        (leaf("INT32", DECIMAL), Decimal("1.555"), (Fraction(311, 2), Fraction(311, 2))),
        (leaf("INT32", DECIMAL), 10**12, (10**14, 10**14)),
        (leaf("INT64", LOCAL), datetime(1970, 1, 1, 0, 0, 1), (10**6, 10**6)),
        (leaf("INT64", UTC_MILLIS), datetime(1970, 1, 1, 0, 0, 0, 1500, UTC), (1, 2)),
        (leaf("INT64", UTC_MILLIS), datetime(2024, 10, 27, 2, 30), (1729989000000, 1729992600000)),
        (leaf("INT32", LogicalType("DATE")), date(1970, 1, 2), (1, 1)),
        (leaf("INT32", LogicalType("DATE")), datetime(1970, 1, 2, 12), (1, Fraction(3, 2))),
        (leaf("BYTE_ARRAY", LogicalType("STRING")), "é", ("é".encode(), "é".encode())),
        (leaf("FIXED_LEN_BYTE_ARRAY", length=4), b"ab", (b"ab", b"ab\0\0")),
        (leaf("BOOLEAN"), True, (1, 1)),
    ],
)
def test_intervals(column: LeafColumn, value: Any, interval: tuple[Any, Any]) -> None:
    encodings = encode_literal(column, value, timezone="Europe/Berlin")
    assert literal_interval(column, value, encodings) == interval


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (leaf("INT64"), 2.0**53),
        (leaf("INT64"), 10**60),
        (leaf("DOUBLE"), math.nan),
        (leaf("DOUBLE"), Decimal("0.1")),
        (leaf("INT64", UTC_MILLIS), datetime(2024, 1, 1)),
        (leaf("INT64", LOCAL), datetime(2024, 1, 1, tzinfo=UTC)),
        (leaf("INT64", LogicalType("TIMESTAMP", unit="NANOS")), datetime(9999, 1, 1)),
        (leaf("INT32", LogicalType("DATE")), date(1500, 1, 1)),
        (leaf("INT96"), datetime(2024, 1, 1)),
        (leaf("INT64"), None),
    ],
)
def test_literals_without_an_interval(column: LeafColumn, value: Any) -> None:
    reason = literal_interval(column, value, encode_literal(column, value))
    assert isinstance(reason, str)
    assert reason


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20),
    st.sampled_from([0.1, 1.1, 16_777_217, 2.0**53 - 1, Decimal("0.1"), 0.0, -0.0]),
)
COLUMNS = st.sampled_from(
    [
        *(leaf("INT32"), leaf("INT64"), leaf("INT64", LogicalType("INTEGER", bit_width=64, is_signed=False))),
        *(leaf("FLOAT"), leaf("DOUBLE"), leaf("FIXED_LEN_BYTE_ARRAY", LogicalType("FLOAT16"), 2)),
        *(leaf("INT32", DECIMAL), leaf("BYTE_ARRAY", DECIMAL), leaf("FIXED_LEN_BYTE_ARRAY", DECIMAL, 4)),
    ]
)


@given(COLUMNS, NUMBERS)
def test_every_encoding_lies_in_the_interval(column: LeafColumn, value: Any) -> None:
    encodings = encode_literal(column, value)
    interval, key = literal_interval(column, value, encodings), key_function(column)
    assert key is not None
    if isinstance(interval, str):
        assert encodings.reason is not None or not encodings.plain
    else:
        assert interval[0] <= interval[1]
        for plain in encodings.plain:
            found = key(plain)
            assert found is not None
            assert interval[0] <= found <= interval[1]
