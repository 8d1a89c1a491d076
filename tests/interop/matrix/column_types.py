"""The types of column that the matrix has rows for."""

from __future__ import annotations

from parquet_bloom.filters.engines import _column_kind
from parquet_bloom.format.schema import LeafColumn

NESTED = {
    "field of a struct": "s.v",
    "list element": "l.list.element",
    "map value": "m.key_value.value",
    "map key": "n.key_value.key",
}
"""Rows of 64-bit integers inside other types, and the leaf that is asked for."""


def type_of(leaf: LeafColumn) -> str:
    """Returns the row of the matrix that a column belongs to."""
    kind = _column_kind(leaf)
    unit = getattr(leaf.logical_type, "unit", None)
    return f"{kind} {unit}" if unit and not kind.endswith(unit) else kind
