"""The values that a literal can mean for a column: text and numbers of SQL get their type from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from parquet_bloom.errors import LiteralError
from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType
from parquet_bloom.predicates.tree import Listed, Number, Opaque, Text, TimestampText
from parquet_bloom.values.encoding import is_adjusted, local_times, parse_literal, why_untrusted
from parquet_bloom.values.literals import DecimalLiteral, FloatLiteral, Timestamp, normalize_literal
from parquet_bloom.values.text import zone_of


def readings(
    leaf: LeafColumn, value: Any, timezone: str | None = None, *, is_spark: bool = False
) -> tuple[Any, ...] | Opaque:
    """Return the literals to pass to `encode_literal` for this leaf, more than one if the value can mean several.

    With the session's `timezone`, TIMESTAMP literals become all local times that Spark takes for the same instant, if
    the column has such times; if no other engine reads it (`is_spark`), literals with a zone, too. Returns `Opaque`
    with the reason if they prove nothing. Raises `LiteralError` if the column cannot hold them.
    """
    if (reason := why_untrusted(leaf)) and leaf.physical_type is not PhysicalType.BOOLEAN:
        return Opaque(reason)
    match value:
        case Listed():
            return _as_listed(leaf, readings(leaf, value.value, timezone, is_spark=is_spark), value)
        case Text(text, others):
            return _typed_texts(leaf, (text, *others))
        case TimestampText(text):
            return _local_times(leaf, _typed_timestamp(leaf, text), timezone, zones=(False, True)[: 1 + is_spark])
        case Number() if leaf.physical_type in (PhysicalType.FLOAT, PhysicalType.DOUBLE):
            return (float(value),)
    return _local_times(leaf, value, timezone, zones=(True,)) if is_spark else (value,)


def _as_listed(leaf: LeafColumn, literals: tuple[Any, ...] | Opaque, listed: Listed) -> tuple[Any, ...] | Opaque:
    """Return the literals with the types that engines may give them in a list."""
    if isinstance(literals, Opaque):
        return literals
    typed: list[Any] = []
    for value in literals:
        literal = normalize_literal(value)
        exact = literal.value if isinstance(literal, DecimalLiteral) else literal
        if not isinstance(exact, int | Decimal) or isinstance(exact, bool):
            typed.append(value)
            continue
        if listed.scale is None or is_float(leaf):
            typed.append(value)
        else:
            typed.append(DecimalLiteral(Decimal(exact), listed.scale, listed.integer_digits))
        if listed.float_bits is not None:
            typed.append(FloatLiteral(_as_float(exact), listed.float_bits))
    return tuple(typed)


def is_float(leaf: LeafColumn) -> bool:
    """Return whether the column's values are floats of any width."""
    is_half = leaf.logical_type is not None and leaf.logical_type.name == "FLOAT16"
    return is_half or leaf.physical_type in (PhysicalType.FLOAT, PhysicalType.DOUBLE)


def _local_times(
    leaf: LeafColumn, value: Any, timezone: str | None, *, zones: Sequence[bool]
) -> tuple[Any, ...] | Opaque:
    """Return a time with a zone, or without one, as `zones` has it, for a column of local times or of dates.

    Spark casts such a column to compare it with an instant.
    """
    kind, literal = leaf.logical_type.name if leaf.logical_type else None, normalize_literal(value)
    is_local = kind == "DATE" or (kind == "TIMESTAMP" and not is_adjusted(leaf))
    if timezone is None or not is_local or not isinstance(literal, Timestamp) or literal.utc not in zones:
        return (value,)
    try:
        return local_times(literal, zone_of(timezone))
    except LiteralError as error:
        return Opaque(str(error))


def is_beyond_bigint(value: Any) -> bool:
    """Return whether a number is beyond BIGINT: Spark 4 then orders NULL as if it were a value of an integer column."""
    literal = normalize_literal(value.value if isinstance(value, Listed) else value)
    exact = literal.value if isinstance(literal, DecimalLiteral) else literal
    if not isinstance(exact, int | Decimal) or (isinstance(exact, Decimal) and exact.is_nan()):
        return False
    return not -(2**63) <= exact <= 2**63 - 1


def is_integer(leaf: LeafColumn) -> bool:
    """Return whether Spark reads a column as an integer: it reads one of 64 unsigned bits as a DECIMAL."""
    logical = leaf.logical_type
    if leaf.physical_type not in (PhysicalType.INT32, PhysicalType.INT64):
        return False
    return logical is None or (logical.name == "INTEGER" and (logical.is_signed or logical.bit_width < _BIGINT_BITS))


_BIGINT_BITS = 64


def _as_float(number: int | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _typed_texts(leaf: LeafColumn, texts: tuple[str, ...]) -> tuple[Any, ...] | Opaque:
    literals: list[Any] = []
    first_error: LiteralError | None = None
    for text in texts:
        try:
            literal = _typed_text(leaf, text)
        except LiteralError as error:
            first_error = first_error or error
            continue
        if isinstance(literal, Opaque):
            return literal
        literals.append(literal)
    if not literals and first_error:
        raise first_error
    return tuple(literals)


def _typed_text(leaf: LeafColumn, text: str) -> Any:
    logical = leaf.logical_type
    if logical is not None and logical.name == "DECIMAL":
        return _typed_decimal(leaf.name, logical.scale, parse_literal(leaf, text))
    if leaf.physical_type is PhysicalType.BYTE_ARRAY:
        return text.encode() if logical is not None and logical.name == "BSON" else text
    if leaf.physical_type is PhysicalType.FIXED_LEN_BYTE_ARRAY and logical is None:
        # In SQL 0x41 in quotes is four characters, but DuckDB reads \x41 as one byte.
        return Opaque(f"engines read {text!r} differently") if "\\" in text else text.encode()
    return parse_literal(leaf, text)


def _typed_decimal(name: str, scale: int, literal: Any) -> Any:
    """Return the literal, unless engines differ: Spark compares as DOUBLE, others round to the column's scale."""
    exponent = literal.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > scale:
        return Opaque(f"engines round {literal} to the scale of {name}")
    if literal and literal.adjusted() + scale >= _DOUBLE_DIGITS:
        return Opaque(f"Spark compares {name} with text as DOUBLE, which is not exact for {literal}")
    return literal


_DOUBLE_DIGITS = 15


def _typed_timestamp(leaf: LeafColumn, text: str) -> Any:
    logical = leaf.logical_type.name if leaf.logical_type else None
    if logical not in ("TIMESTAMP", "DATE") and leaf.physical_type is not PhysicalType.INT96:
        raise LiteralError(f"column {leaf.name} is {leaf.type_name}; TIMESTAMP {text!r} cannot be compared with it")
    # Always as a timestamp: a DATE column is compared with it as midnight.
    return parse_literal(replace(leaf, physical_type=PhysicalType.INT64, logical_type=_ANY_TIMESTAMP), text)


_ANY_TIMESTAMP = LogicalType("TIMESTAMP", unit="NANOS")
