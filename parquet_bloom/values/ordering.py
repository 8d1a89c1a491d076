"""The sort order of a column's values, and of the literals that they are compared with.

A key is a value in its type's order (parquet.thrift, ColumnOrder): a signed or unsigned integer in the column's unit, a
float, or unsigned bytes. A literal becomes the interval of all keys that engines may read it as.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.values.encoding import Encodings, literal_text, why_untrusted
from parquet_bloom.values.literals import DAY, DateLiteral, DecimalLiteral, FloatLiteral, Timestamp, normalize_literal

Key = Any
"""An int, a float or bytes; a literal between two integers is a Fraction."""

Interval = tuple[Key, Key]


def key_function(leaf: LeafColumn) -> Callable[[bytes], Key | None] | None:
    """Return a function from a plain-encoded value to its key, or None if the type has no order.

    The function returns None for bytes that are not a value of the type, and for NaN.
    """
    kind = _key_type(leaf)
    if kind is None:
        return None
    key_of, width = _KEYS[kind](leaf), leaf.width

    def key(plain: bytes) -> Key | None:
        if width is not None and len(plain) != width:
            return None
        value = key_of(plain)
        return value if value == value else None

    return key


class Point(NamedTuple):
    """A key in the form in which the kernel compares it with plain values; see `_kernel.place_in_chunks`."""

    order: int
    width: int
    value: bytes


def kernel_point(leaf: LeafColumn, key: Key) -> Point | None:
    """Return a key of the leaf's as the kernel compares it, or None for types and keys that it does not compare."""
    kind, width = _key_type(leaf), leaf.width
    if kind == "bytes" and isinstance(key, bytes) and width != 0:
        return Point(_AS_BYTES, width or 0, key)
    if kind is None or width is None or type(key) is not int or width != _INTEGER_WIDTHS.get(leaf.physical_type):
        return None
    is_signed = leaf.logical_type is None or leaf.logical_type.is_signed
    try:
        return Point(_AS_SIGNED if is_signed else _AS_UNSIGNED, width, key.to_bytes(8, "little", signed=is_signed))
    except OverflowError:
        return None


_AS_BYTES, _AS_SIGNED, _AS_UNSIGNED = range(3)
_INTEGER_WIDTHS = {PhysicalType.INT32: 4, PhysicalType.INT64: 8}


def literal_interval(leaf: LeafColumn, value: object, encodings: Encodings) -> Interval | str:
    """Return the lowest and the highest key that any engine may read the literal as, or why there is none.

    For every engine, a stored key below the first is less than the literal, and one above the second is greater.
    `encodings` are what `encode_literal` returned for the literal.
    """
    kind = _key_type(leaf)
    if kind == "boolean" and isinstance(value, bool):
        return int(value), int(value)
    if kind is None or (encodings.reason is not None and not encodings.plain):
        return encodings.reason or f"{leaf.type_name} has no sort order"
    key_of = key_function(leaf)
    keys = [key for plain in encodings.plain if key_of and (key := key_of(plain)) is not None]
    exact = _exact_key(leaf, normalize_literal(value))
    if exact is not None:
        keys.append(exact)
    return (min(keys), max(keys)) if keys else f"{literal_text(value)} does not fit {leaf.type_name}"


def _exact_key(leaf: LeafColumn, literal: object) -> Key | None:
    """Return the key of the literal itself, also between two values that the column can store."""
    match literal:
        case int():
            return literal * _scale(leaf)
        case FloatLiteral(value):
            return value if not math.isfinite(value) else Fraction(value) * _scale(leaf)
        case DecimalLiteral(value):
            return Fraction(value) * _scale(leaf)
        case DateLiteral(days) if _key_type(leaf) == "date":
            return days
        case Timestamp(nanoseconds) if _key_type(leaf) == "date":
            return Fraction(nanoseconds, DAY)
        case str() if leaf.physical_type is PhysicalType.BYTE_ARRAY:
            return literal.encode()
        case bytes():
            return literal
    return None


def _scale(leaf: LeafColumn) -> int:
    return 10**leaf.logical_type.scale if leaf.logical_type else 1


def _key_type(leaf: LeafColumn) -> str | None:
    logical = leaf.logical_type.name if leaf.logical_type else None
    physical = leaf.physical_type
    if why_untrusted(leaf) and physical is not PhysicalType.BOOLEAN:
        return None
    match physical:
        case PhysicalType.BOOLEAN:
            return "boolean" if logical is None else None
        case PhysicalType.INT96:
            return None
        case _ if logical == "DECIMAL":
            return "decimal"
        case PhysicalType.FLOAT | PhysicalType.DOUBLE:
            return "float"
        case _ if logical == "FLOAT16":
            return "float"
        case PhysicalType.BYTE_ARRAY | PhysicalType.FIXED_LEN_BYTE_ARRAY:
            return "bytes"
    return {"DATE": "date", "TIME": "time", "TIMESTAMP": "timestamp"}.get(logical or "", "integer")


def _integer_key(leaf: LeafColumn) -> Callable[[bytes], Key]:
    logical = leaf.logical_type
    signed = logical is None or logical.is_signed
    return lambda plain: int.from_bytes(plain, "little", signed=signed)


def _decimal_key(leaf: LeafColumn) -> Callable[[bytes], Key]:
    if leaf.physical_type in (PhysicalType.INT32, PhysicalType.INT64):
        return lambda plain: int.from_bytes(plain, "little", signed=True)
    return lambda plain: int.from_bytes(plain, "big", signed=True) if plain else None


def _float_key(leaf: LeafColumn) -> Callable[[bytes], Key]:
    form = struct.Struct({8: "<d", 4: "<f", 2: "<e"}[leaf.width or 0])
    return lambda plain: form.unpack(plain)[0]


_KEYS: Mapping[str, Callable[[LeafColumn], Callable[[bytes], Key]]] = {
    "boolean": lambda leaf: {b"\0": 0, b"\1": 1}.get,
    "integer": _integer_key,
    "date": _integer_key,
    "time": _integer_key,
    "timestamp": _integer_key,
    "decimal": _decimal_key,
    "float": _float_key,
    "bytes": lambda leaf: bytes,
}
