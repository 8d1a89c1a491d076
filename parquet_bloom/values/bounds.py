"""The least and the greatest value of an array, in the order of the column's type, as statistics store them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parquet_bloom.format.schema import BYTE_ARRAY, FIXED, INT32, INT64, INT96, LeafColumn
from parquet_bloom.values.encoding import both_zeros, why_untrusted
from parquet_bloom.values.ordering import key_function

if TYPE_CHECKING:
    import pyarrow as pa


def is_in_physical_order(leaf: LeafColumn) -> bool:
    """Return whether values are ordered as those of the physical type alone: signed, or by unsigned bytes."""
    if leaf.physical_type is INT96:
        return False
    logical = leaf.logical_type
    if logical is None:
        return True
    if leaf.physical_type in (INT32, INT64):
        return logical.is_signed and not (why_untrusted(leaf) and logical.name != "UNKNOWN")
    if leaf.physical_type in (BYTE_ARRAY, FIXED):
        return logical.name in ("STRING", "ENUM", "JSON", "BSON", "UUID")
    return False


def bounds_of(leaf: LeafColumn, values: pa.ChunkedArray) -> tuple[bytes, bytes] | None:
    """Return min_value and max_value of a column whose order is not that of its physical type; None if not known."""
    logical = leaf.logical_type.name if leaf.logical_type else None
    if why_untrusted(leaf) or len(values) == values.null_count:
        return None
    if leaf.physical_type in (INT32, INT64) and logical == "INTEGER":
        return _of_unsigned(leaf, values)
    if leaf.physical_type is FIXED and logical == "DECIMAL":
        return _of_decimals(values)
    if logical == "FLOAT16":
        return _of_half_floats(leaf, values)
    return None


def _of_unsigned(leaf: LeafColumn, values: pa.ChunkedArray) -> tuple[bytes, bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.uint32() if leaf.physical_type is INT32 else pa.uint64()
    found = pc.min_max(pa.chunked_array([chunk.view(kind) for chunk in values.chunks], kind)).as_py()
    width = kind.bit_width // 8
    return found["min"].to_bytes(width, "little"), found["max"].to_bytes(width, "little")


def _of_decimals(values: pa.ChunkedArray) -> tuple[bytes, bytes]:
    """Return the bounds of numbers in two's complement, whose bytes are in order among those of one sign."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = values.cast(pa.binary())
    is_negative = pc.greater_equal(texts, pa.scalar(b"\x80", pa.binary()))
    negative, others = texts.filter(is_negative), texts.filter(pc.invert(is_negative))
    lowest, highest = (negative if len(negative) else others), (others if len(others) else negative)
    return _extreme(lowest, "min"), _extreme(highest, "max")


def _extreme(values: Any, which: str) -> bytes:
    import pyarrow.compute as pc

    found: bytes = pc.min_max(values).as_py()[which]
    return found


def _of_half_floats(leaf: LeafColumn, values: pa.ChunkedArray) -> tuple[bytes, bytes] | None:
    key_of = key_function(leaf)
    assert key_of is not None
    keys = {
        key: plain for plain in values.unique().to_pylist() if plain is not None and (key := key_of(plain)) is not None
    }
    if not keys:
        return None
    positive, negative = both_zeros(2)  # a bound that is zero stands for either
    low, high = min(keys), max(keys)
    return (negative if low == 0 else keys[low]), (positive if high == 0 else keys[high])
