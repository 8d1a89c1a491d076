"""The wrong bytes that other writers may hash: `verify` uses them to name the cause of a missing value."""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from parquet_bloom.format.schema import BYTE_ARRAY, FIXED, INT96, LeafColumn
from parquet_bloom.values.encoding import (
    BYTES,
    DATES,
    DECIMALS,
    DOCUMENTS,
    FIXED_BYTES,
    FLOATS,
    HALF_FLOATS,
    INTEGERS,
    NANOSECONDS,
    OLD_TIMESTAMPS,
    SIZED_INTEGERS,
    TEXTS,
    TIMES,
    TIMESTAMPS,
    UUIDS,
    Rule,
    both_zeros,
    decimal_order,
    decode_plain,
    float_format,
    format_value,
    pack_float,
    pack_int96,
    rule_of,
    unit_of,
    unpack_int96,
)
from parquet_bloom.values.literals import DAY, SECOND

# --- wrong encodings ------------------------------------------------------------------------------------------


def mistaken_encodings(leaf: LeafColumn, plain: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield plausible wrong encodings of a stored value, each with its cause; none is `plain` itself.

    If a filter contains one of these instead of a stored value, its writer made that mistake.
    """
    seen = {plain}
    for cause, wrong in _mistakes(leaf, plain):
        if wrong not in seen:
            seen.add(wrong)
            yield cause, wrong


def _mistakes(leaf: LeafColumn, plain: bytes) -> Iterator[tuple[str, bytes]]:
    rule = rule_of(leaf)
    value = decode_plain(leaf, plain)
    if leaf.physical_type in (BYTE_ARRAY, FIXED):
        yield "length prefix: hashed with the 4-byte length", struct.pack("<I", len(plain)) + plain
    for rules, mistakes in _MISTAKES:
        if rule in rules:
            yield from mistakes(leaf, plain, value)
    if leaf.width is not None:
        yield "byte order: hashed in reverse", plain[::-1]
    yield "text: hashed as displayed", format_value(leaf, plain).encode()


def _integer_mistakes(leaf: LeafColumn, plain: bytes, value: Any) -> Iterator[tuple[str, bytes]]:
    width = len(plain)
    for signed in (True, False):
        stored = int.from_bytes(plain, "little", signed=signed)
        for wrong in (1, 2, 4, 8):
            if wrong != width and -(1 << 8 * wrong - 1) <= stored < 1 << 8 * wrong:
                cause = f"width: hashed as {wrong} byte{'s' if wrong > 1 else ''} instead of {width}"
                yield cause, (stored % (1 << 8 * wrong)).to_bytes(wrong, "little")


def _unit_mistakes(leaf: LeafColumn, plain: bytes, value: Any) -> Iterator[tuple[str, bytes]]:
    if leaf.physical_type is INT96:
        nanoseconds = unpack_int96(plain)
    else:
        is_date = leaf.logical_type is not None and leaf.logical_type.name == "DATE"
        nanoseconds = int.from_bytes(plain, "little", signed=True) * (DAY if is_date else unit_of(leaf))
    for name, unit in {**NANOSECONDS, "SECONDS": SECOND, "DAYS": DAY}.items():
        for width in (4, 8):
            count = nanoseconds // unit
            if -(1 << 8 * width - 1) <= count < 1 << 8 * width - 1:
                yield f"unit: hashed as {width} bytes in {name}", count.to_bytes(width, "little", signed=True)
    if leaf.physical_type is not INT96:
        for wrong in pack_int96(nanoseconds):
            yield "type: hashed as INT96", wrong


def _float_mistakes(leaf: LeafColumn, plain: bytes, value: float) -> Iterator[tuple[str, bytes]]:
    for name, form in (("FLOAT16", "<e"), ("FLOAT", "<f"), ("DOUBLE", "<d")):
        yield f"width: hashed as {name}", pack_float(form, value)
    if value == 0:
        for zero in both_zeros(len(plain)):
            yield "zero: hashed with the other sign", zero
    if math.isnan(value):
        yield "NaN: hashed as the canonical NaN", pack_float(float_format(leaf), math.nan)


def _decimal_mistakes(leaf: LeafColumn, plain: bytes, value: Decimal) -> Iterator[tuple[str, bytes]]:
    unscaled = int.from_bytes(plain, decimal_order(leaf), signed=True)
    shortest = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    widths = dict.fromkeys((shortest, 4, 8, 16))
    for order in ("big", "little"):
        for width in widths:
            if width >= shortest:
                cause = f"width: hashed as {width} {order}-endian bytes"
                yield cause, unscaled.to_bytes(width, "big" if order == "big" else "little", signed=True)
    yield "type: hashed as DOUBLE", pack_float("<d", float(value))
    yield "text: hashed as the digits of the unscaled integer", str(unscaled).encode()


def _byte_mistakes(leaf: LeafColumn, plain: bytes, value: Any) -> Iterator[tuple[str, bytes]]:
    escaped = "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02X}" for byte in plain).encode()
    yield "text: hashed escaped", escaped
    yield "text: hashed in hexadecimal", plain.hex().encode()
    yield "text: hashed in quotes", b'"' + plain + b'"'
    yield "text: hashed with a trailing zero byte", plain + b"\0"
    yield "padding: hashed without trailing spaces", plain.rstrip(b" ")
    yield "padding: hashed without trailing zeros", plain.rstrip(b"\0")
    if isinstance(value, str):
        yield "text: hashed as UTF-16", value.encode("utf-16-le")


def _uuid_mistakes(leaf: LeafColumn, plain: bytes, value: uuid.UUID) -> Iterator[tuple[str, bytes]]:
    yield "byte order: hashed with little-endian fields", value.bytes_le
    yield "text: hashed as hexadecimal digits", value.hex.encode()


_MISTAKES: tuple[tuple[tuple[Rule, ...], Callable[[LeafColumn, bytes, Any], Iterator[tuple[str, bytes]]]], ...] = (
    ((DATES, TIMES, TIMESTAMPS, OLD_TIMESTAMPS), _unit_mistakes),
    ((INTEGERS, SIZED_INTEGERS, DATES, TIMES, TIMESTAMPS), _integer_mistakes),
    ((FLOATS, HALF_FLOATS), _float_mistakes),
    ((DECIMALS,), _decimal_mistakes),
    ((TEXTS, BYTES, DOCUMENTS, FIXED_BYTES), _byte_mistakes),
    ((UUIDS,), _uuid_mistakes),
)
