"""The types of column that the matrix has rows for."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from parquet_bloom.filters.engines import _column_kind
from parquet_bloom.format.schema import LeafColumn

NESTED = {
    "field of a struct": "s.v",
    "list element": "l.list.element",
    "map value": "m.key_value.value",
    "map key": "n.key_value.key",
}
"""Rows of 64-bit integers inside other types, and the leaf that is asked for."""


@dataclass(frozen=True)
class Widened:
    """A kind of column of a file, and the type that a table may have given it since, or without it."""

    kind: str
    sql: str
    arrow: pa.DataType


WIDENED = {
    f"{widened.kind} as {widened.sql}": widened
    for widened in (
        Widened("INT32", "BIGINT", pa.int64()),
        Widened("INT32", "DOUBLE", pa.float64()),
        Widened("INT32", "DECIMAL(18,2)", pa.decimal128(18, 2)),
        Widened("INT64", "DECIMAL(38,2)", pa.decimal128(38, 2)),
        Widened("UINT8", "SMALLINT", pa.int16()),
        Widened("UINT16", "INTEGER", pa.int32()),
        Widened("UINT32", "BIGINT", pa.int64()),
        Widened("UINT64", "DECIMAL(20,0)", pa.decimal128(20, 0)),
        Widened("FLOAT", "DOUBLE", pa.float64()),
        Widened("DECIMAL(9) INT32", "DECIMAL(18,2)", pa.decimal128(18, 2)),
        Widened("DECIMAL(9) INT32", "DECIMAL(18,4)", pa.decimal128(18, 4)),
        Widened("DECIMAL(18) INT64", "DECIMAL(38,2)", pa.decimal128(38, 2)),
        Widened("DECIMAL(30) FIXED(13)", "DECIMAL(38,2)", pa.decimal128(38, 2)),
        Widened("DATE", "TIMESTAMP", pa.timestamp("us")),
    )
}
"""What Delta, Iceberg, Hudi, Hive and their engines allow; Iceberg and Delta have no unsigned integers."""


def type_of(leaf: LeafColumn) -> str:
    """Returns the row of the matrix that a column belongs to."""
    kind = _column_kind(leaf)
    unit = getattr(leaf.logical_type, "unit", None)
    return f"{kind} {unit}" if unit and not kind.endswith(unit) else kind
