"""Text on a command line means what the column's type says, and what is shown can be read."""

from __future__ import annotations

import math
import struct
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from values.stored import leaf

from parquet_bloom.errors import LiteralError
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.values.encoding import encode_literal, format_value, parse_literal
from parquet_bloom.values.literals import TimeOfDay, Timestamp
from parquet_bloom.values.mistakes import mistaken_encodings

INT64, FLOAT, DOUBLE, BINARY, BOOLEAN = (leaf(n) for n in ("INT64", "FLOAT", "DOUBLE", "BYTE_ARRAY", "BOOLEAN"))
FIXED4, STRING, DATE = leaf("FIXED_LEN_BYTE_ARRAY", None, 4), leaf("BYTE_ARRAY", "STRING"), leaf("INT32", "DATE")
HALF = leaf("FIXED_LEN_BYTE_ARRAY", "FLOAT16", 2)
D9 = leaf("INT32", "DECIMAL", precision=9, scale=2)
D16 = leaf("FIXED_LEN_BYTE_ARRAY", "DECIMAL", 16, precision=38, scale=30)
TIME = leaf("INT64", "TIME", unit="NANOS")
NS = leaf("INT64", "TIMESTAMP", unit="NANOS")
US_UTC = leaf("INT64", "TIMESTAMP", unit="MICROS", is_adjusted_to_utc=True)
UUID = leaf("FIXED_LEN_BYTE_ARRAY", "UUID", 16)
INT96 = leaf("INT96")

PARSED: list[tuple[LeafColumn, str, Any]] = [
    (INT64, "42", 42),
    (INT64, "-1", -1),
    (INT64, "+7", 7),
    (INT64, "99999999999999999999", 99999999999999999999),
    (FLOAT, "0.1", 0.1),
    (DOUBLE, "-1e-3", -0.001),
    (DOUBLE, ".5", 0.5),
    (DOUBLE, "-inf", -math.inf),
    (D9, "1.10", Decimal("1.10")),
    (D9, "0.1234567890123456789012345678901234", Decimal("0.1234567890123456789012345678901234")),
    (STRING, "0x41", "0x41"),
    (STRING, " a ", " a "),
    (STRING, "", ""),
    (BINARY, "abc", "abc"),
    (BINARY, "0x00ff", b"\x00\xff"),
    (BINARY, "0x", b""),
    (FIXED4, "abcd", b"abcd"),
    (FIXED4, "0x00FF00ff", b"\x00\xff\x00\xff"),
    (UUID, "01234567-89AB-cdef-0123-456789abcdef", uuid.UUID("0123456789abcdef0123456789abcdef")),
    (BOOLEAN, "True", True),
    (BOOLEAN, "false", False),
    (DATE, "2024-02-03", date(2024, 2, 3)),
    (TIME, "12:30", time(12, 30)),
    (TIME, "12:30:00.5", time(12, 30, 0, 500_000)),
    (TIME, "00:00:00.000000001", TimeOfDay(1)),
    (NS, "2024-02-03", date(2024, 2, 3)),
    (NS, "2024-02-03 04:05", datetime(2024, 2, 3, 4, 5)),
    (NS, "2024-02-03T04:05:06.123456", datetime(2024, 2, 3, 4, 5, 6, 123_456)),
    (NS, "1970-01-01T00:00:00.000000001", Timestamp(1)),
    (US_UTC, "1970-01-01T01:00:00.000000001+01:00", Timestamp(1, utc=True)),
    (US_UTC, "2024-02-03T04:05:06Z", datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)),
    (US_UTC, "2024-02-03T04:05:06-0130", datetime(2024, 2, 3, 5, 35, 6, tzinfo=UTC)),
    (INT96, "2024-02-03T04:05:06", datetime(2024, 2, 3, 4, 5, 6)),
]


@pytest.mark.parametrize(("column", "text", "value"), PARSED)
def test_text_is_typed_by_the_column(column: LeafColumn, text: str, value: Any) -> None:
    parsed = parse_literal(column, text)
    assert (parsed, type(parsed)) == (value, type(value))
    encode_literal(column, parsed, timezone="UTC")  # never refuses what was parsed for it


REFUSED: list[tuple[LeafColumn, str]] = [
    *((INT64, text) for text in ("abc", "", "4.0", "1_000", "0x2a", "1e3", "٤٢", "9" * 5000)),
    *((FLOAT, text) for text in ("", "1_0.0", "0x1p3", "nanx", "1,5")),
    *((D9, text) for text in ("", "NaN", "1,10", "1e9999999999")),
    *((BINARY, text) for text in ("0xf", "0xzz", "0x 00")),
    *((UUID, text) for text in ("", "123")),
    *((BOOLEAN, text) for text in ("1", "yes", "")),
    *((DATE, text) for text in ("2024-02-30", "20240203", "2024-2-3", "2024-02-03T00:00", "")),
    *((TIME, text) for text in ("24:00", "12", "12:30:00.1234567890", "12:30Z")),
    *((NS, text) for text in ("2024-02-03T", "2024-02-03T25:00", "2024-02-03T04:05+99:00", "now", "1700000000")),
]


@pytest.mark.parametrize(("column", "text"), REFUSED)
def test_other_text_is_an_error_with_an_example(column: LeafColumn, text: str) -> None:
    with pytest.raises(LiteralError, match=r"^column user\.id holds .*; .* is not one \(example: .*\)$") as error:
        parse_literal(column, text)
    example = str(error.value).rpartition("(example: ")[2].removesuffix(")").partition(" or ")[0]
    parse_literal(column, example)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (INT64, "64-bit integers; 'x' is not one (example: 42)"),
        (
            leaf("INT32", "INTEGER", bit_width=8, is_signed=False),
            "unsigned 8-bit integers; 'x' is not one (example: 42)",
        ),
        (FLOAT, "32-bit floats; 'x' is not one (example: 1.5)"),
        (HALF, "16-bit floats; 'x' is not one (example: 1.5)"),
        (D9, "decimals of up to 9 digits, 2 of them after the point; 'x' is not one (example: 1.50)"),
        (UUID, "UUIDs; 'x' is not one (example: 01234567-89ab-cdef-0123-456789abcdef)"),
        (NS, "timestamps; 'x' is not one (example: 2024-02-03T12:30:00Z)"),
    ],
)
def test_the_error_says_what_the_column_holds(column: LeafColumn, said: str) -> None:
    with pytest.raises(LiteralError) as error:
        parse_literal(column, "x")
    assert str(error.value) == f"column user.id holds {said}"


def test_nan_is_typed_as_nan() -> None:
    assert math.isnan(parse_literal(DOUBLE, "nan"))  # type: ignore[arg-type]


SHOWN: list[tuple[LeafColumn, bytes, str]] = [
    (INT64, struct.pack("<q", -42), "-42"),
    (leaf("INT32", "INTEGER", bit_width=32, is_signed=False), b"\xff" * 4, "4294967295"),
    (FLOAT, struct.pack("<f", 0.1), "0.1"),
    (FLOAT, struct.pack("<f", 16_777_216), "16777216.0"),
    (FLOAT, struct.pack("<f", -0.0), "-0.0"),
    (HALF, struct.pack("<e", 0.1), "0.1"),
    (DOUBLE, struct.pack("<d", math.nan), "nan"),
    (DOUBLE, struct.pack("<d", 0.1), "0.1"),
    (D9, struct.pack("<i", -110), "-1.10"),
    (D16, bytes(16), "0.000000000000000000000000000000"),
    (STRING, "Zoë".encode(), "Zoë"),
    (STRING, b"a\nb", "a\\nb"),
    (STRING, b"\xff", "0xff"),
    (STRING, b"x" * 100, "x" * 59 + "…"),
    (BINARY, b"abc", "0x616263"),
    (BINARY, b"\0" * 100, "0x" + "0" * 57 + "…"),
    (UUID, bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (BOOLEAN, b"\1", "true"),
    (DATE, struct.pack("<i", 19_756), "2024-02-03"),
    (DATE, struct.pack("<i", -719_163), "0000-12-31T00:00:00"),
    (TIME, struct.pack("<q", 1), "00:00:00.000000001"),
    (NS, struct.pack("<q", 10**9), "1970-01-01T00:00:01"),
    (NS, struct.pack("<q", -1), "1969-12-31T23:59:59.999999999"),
    (US_UTC, struct.pack("<q", 10**6), "1970-01-01T00:00:01Z"),
    (INT96, struct.pack("<qi", 0, 2_440_588), "1970-01-01T00:00:00"),
    (INT64, b"\1\2", "0x0102"),
]


@pytest.mark.parametrize(("column", "plain", "shown"), SHOWN)
def test_a_stored_value_is_shown_in_one_short_line(column: LeafColumn, plain: bytes, shown: str) -> None:
    assert format_value(column, plain) == shown


ALL = [INT64, FLOAT, DOUBLE, BINARY, FIXED4, STRING, DATE, HALF, D9, D16, TIME, NS, US_UTC, UUID, INT96]


@pytest.mark.parametrize("column", ALL, ids=lambda column: column.type_name)
@given(data=st.data())
def test_any_value_is_shown_and_explained(column: LeafColumn, data: st.DataObject) -> None:
    width = column.width
    plain = data.draw(st.binary(min_size=width or 0, max_size=width or 30))
    shown = format_value(column, plain)
    assert len(shown) <= 60
    assert shown.isprintable()
    mistakes = list(mistaken_encodings(column, plain))
    assert plain not in [wrong for _, wrong in mistakes]
    assert len({wrong for _, wrong in mistakes}) == len(mistakes)
    assert all(": " in cause for cause, _ in mistakes)


@given(st.floats(width=32, allow_nan=False))
def test_a_float_that_is_shown_is_the_one_that_is_stored(value: float) -> None:
    plain = struct.pack("<f", value)
    assert struct.pack("<f", float(format_value(FLOAT, plain))) == plain


MISTAKES: list[tuple[LeafColumn, bytes, str, bytes]] = [
    (leaf("INT32", "INTEGER", bit_width=8), b"\x05\0\0\0", "width: hashed as 1 byte instead of 4", b"\x05"),
    (leaf("INT32"), b"\xff\xff\xff\xff", "width: hashed as 8 bytes instead of 4", b"\xff" * 8),
    (leaf("INT32"), b"\x05\0\0\0", "byte order: hashed in reverse", b"\0\0\0\x05"),
    (BINARY, b"abc", "length prefix: hashed with the 4-byte length", b"\3\0\0\0abc"),
    (BINARY, b"\xaa", "text: hashed escaped", b"\\xAA"),
    (STRING, b"abc", "text: hashed as UTF-16", b"a\0b\0c\0"),
    (US_UTC, struct.pack("<q", 10**6), "unit: hashed as 8 bytes in MILLIS", struct.pack("<q", 1000)),
    (US_UTC, struct.pack("<q", 10**6), "type: hashed as INT96", struct.pack("<qi", 10**9, 2_440_588)),
    (INT96, struct.pack("<qi", 10**9, 2_440_588), "unit: hashed as 8 bytes in MICROS", struct.pack("<q", 10**6)),
    (DATE, struct.pack("<i", 1), "unit: hashed as 8 bytes in MICROS", struct.pack("<q", 86_400 * 10**6)),
    (FLOAT, struct.pack("<f", 1.5), "width: hashed as DOUBLE", struct.pack("<d", 1.5)),
    (DOUBLE, bytes(8), "zero: hashed with the other sign", bytes(7) + b"\x80"),
    (D9, struct.pack("<i", 110), "width: hashed as 16 big-endian bytes", bytes(15) + b"\x6e"),
    (D16, bytes(15) + b"\x6e", "width: hashed as 1 big-endian bytes", b"\x6e"),
    (D9, struct.pack("<i", 110), "text: hashed as displayed", b"1.10"),
    (UUID, bytes(range(16)), "text: hashed as displayed", b"00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (
        UUID,
        bytes(range(16)),
        "byte order: hashed with little-endian fields",
        uuid.UUID(bytes=bytes(range(16))).bytes_le,
    ),
    (FIXED4, b"a\0\0\0", "padding: hashed without trailing zeros", b"a"),
]


@pytest.mark.parametrize(("column", "plain", "cause", "wrong"), MISTAKES)
def test_known_mistakes_are_named(column: LeafColumn, plain: bytes, cause: str, wrong: bytes) -> None:
    assert (cause, wrong) in list(mistaken_encodings(column, plain))
