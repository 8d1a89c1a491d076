"""One table, read both ways: a literal encodes to exactly these bytes, and the bytes decode to the value."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from lazily import pd
from values.stored import leaf

from parquet_bloom.errors import CorruptFileError, LiteralError
from parquet_bloom.format.schema import BOOLEAN, LeafColumn
from parquet_bloom.values.encoding import decode_plain, encode_literal, hash_plain, why_unbuildable, why_untrusted
from parquet_bloom.values.literals import TimeOfDay, Timestamp

INT32, INT64, FLOAT, DOUBLE = leaf("INT32"), leaf("INT64"), leaf("FLOAT"), leaf("DOUBLE")
BINARY, FIXED4, INT96 = leaf("BYTE_ARRAY"), leaf("FIXED_LEN_BYTE_ARRAY", length=4), leaf("INT96")
HALF = leaf("FIXED_LEN_BYTE_ARRAY", "FLOAT16", 2)
STRING, ENUM, JSON, BSON = (leaf("BYTE_ARRAY", name) for name in ("STRING", "ENUM", "JSON", "BSON"))
UUID = leaf("FIXED_LEN_BYTE_ARRAY", "UUID", 16)
DATE = leaf("INT32", "DATE")


def integer(bits: int, signed: bool = True) -> LeafColumn:
    return leaf("INT64" if bits == 64 else "INT32", "INTEGER", bit_width=bits, is_signed=signed)


def decimal(physical: str, precision: int, scale: int, length: int | None = None) -> LeafColumn:
    return leaf(physical, "DECIMAL", length, precision=precision, scale=scale)


def moment(kind: str, unit: str, utc: bool = False) -> LeafColumn:
    return leaf("INT32" if (kind, unit) == ("TIME", "MILLIS") else "INT64", kind, unit=unit, is_adjusted_to_utc=utc)


GOLDEN = [
    (INT32, 42, "2a000000"),
    (INT32, -1, "ffffffff"),
    (INT64, -2, "feffffffffffffff"),
    (integer(8), -128, "80ffffff"),
    (integer(16), 300, "2c010000"),
    (integer(8, signed=False), 255, "ff000000"),
    (integer(16, signed=False), 65535, "ffff0000"),
    (integer(32, signed=False), 2**32 - 1, "ffffffff"),
    (integer(64, signed=False), 2**63, "0000000000000080"),
    (FLOAT, 1.5, "0000c03f"),
    (FLOAT, math.inf, "0000807f"),
    (DOUBLE, 0.1, "9a9999999999b93f"),
    (DOUBLE, -math.inf, "000000000000f0ff"),
    (HALF, 1.5, "003e"),
    (BINARY, b"\x00\xff", "00ff"),
    (BINARY, b"", ""),
    (BSON, b"\x05\0\0\0\0", "0500000000"),
    (FIXED4, b"abcd", "61626364"),
    (STRING, "", ""),
    (STRING, "Zoë", "5a6fc3ab"),
    (ENUM, "RED", "524544"),
    (JSON, '{"a": 1}', "7b2261223a20317d"),
    (UUID, uuid.UUID("01234567-89ab-cdef-0123-456789abcdef"), "0123456789abcdef0123456789abcdef"),
    (decimal("INT32", 9, 2), Decimal("-1.10"), "92ffffff"),
    (decimal("INT64", 18, 4), Decimal("1.1000"), "f82a000000000000"),
    (decimal("FIXED_LEN_BYTE_ARRAY", 9, 2, 4), Decimal("1.10"), "0000006e"),
    (decimal("FIXED_LEN_BYTE_ARRAY", 9, 2, 5), Decimal("-1.10"), "ffffffff92"),
    (decimal("FIXED_LEN_BYTE_ARRAY", 38, 0, 16), Decimal(10**38 - 1), "4b3b4ca85a86c47a098a223fffffffff"),
    (DATE, date(2024, 2, 3), "2c4d0000"),
    (DATE, date(1969, 12, 31), "ffffffff"),
    (moment("TIME", "MILLIS"), time(0, 0, 1), "e8030000"),
    (moment("TIME", "MICROS"), time(0, 0, 1), "40420f0000000000"),
    (moment("TIME", "NANOS"), time(0, 0, 1), "00ca9a3b00000000"),
    (moment("TIMESTAMP", "MILLIS"), datetime(1970, 1, 1, 0, 0, 1), "e803000000000000"),
    (moment("TIMESTAMP", "MICROS"), datetime(1969, 12, 31, 23, 59, 59), "c0bdf0ffffffffff"),
    (moment("TIMESTAMP", "NANOS"), datetime(1970, 1, 1, 0, 0, 1), "00ca9a3b00000000"),
    (moment("TIMESTAMP", "MICROS", utc=True), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "40420f0000000000"),
]


@pytest.mark.parametrize(("column", "value", "plain"), GOLDEN, ids=lambda v: getattr(v, "type_name", None))
def test_golden_values_both_ways(column: LeafColumn, value: Any, plain: str) -> None:
    encodings = encode_literal(column, value)
    assert encodings.plain == (bytes.fromhex(plain),)
    assert encodings.reason is None
    assert encodings.hashes() == (reference.xxh64(bytes.fromhex(plain)),)
    assert hash_plain(bytes.fromhex(plain)) == encodings.hashes()[0]
    decoded = decode_plain(column, bytes.fromhex(plain))
    assert (decoded, type(decoded)) == (value, type(value))


ONE = "0100000000000000"
NS = moment("TIMESTAMP", "NANOS")
NS_UTC, MS_UTC = moment("TIMESTAMP", "NANOS", utc=True), moment("TIMESTAMP", "MILLIS", utc=True)
US = moment("TIMESTAMP", "MICROS")
ZEROS4, ZEROS8 = ["00000000", "00000080"], ["0000000000000000", "0000000000000080"]
D9 = decimal("INT32", 9, 2)

READINGS: list[tuple[LeafColumn, Any, list[str]]] = [
    # numbers of another type
    (INT64, 1.0, [ONE]),
    (INT64, np.float32(1), [ONE]),
    (INT64, Decimal("1.00"), [ONE]),
    (INT64, 0.5, []),
    (INT64, Decimal("0.5"), []),
    (INT32, 3_000_000_000, []),
    (INT32, 2.0**40, []),
    (INT32, math.inf, []),
    (integer(8), 128, []),
    (integer(8, signed=False), -1, []),
    (integer(64, signed=False), -1, []),
    (FLOAT, 0.1, ["cdcccc3d"]),
    (FLOAT, 16_777_217, ["0000804b"]),
    (FLOAT, 1e300, ["0000807f"]),
    (FLOAT, 1e-300, ZEROS4),
    (DOUBLE, np.float32(0.1), ["000000a09999b93f"]),
    (DOUBLE, 2**53, ["0000000000004043"]),
    (HALF, 65_536, ["007c"]),
    *((FLOAT, zero, ZEROS4) for zero in (0.0, -0.0, 0, np.int8(0), np.float16(-0.0))),
    *((DOUBLE, zero, ZEROS8) for zero in (0.0, -0.0, 0)),
    (HALF, -0.0, ["0000", "0080"]),
    # decimals
    (D9, 5, ["f4010000"]),
    (D9, Decimal("5"), ["f4010000"]),
    (D9, Decimal("1.100"), ["6e000000"]),
    (D9, Decimal("1.101"), []),
    (D9, 0.25, ["19000000"]),
    (D9, 0.1, ["0a000000", "0b000000"]),
    (D9, 10**30, []),
    (D9, math.inf, []),
    (decimal("BYTE_ARRAY", 9, 2), Decimal("1.101"), []),
    # bytes
    (STRING, b"\xff", ["ff"]),
    (BINARY, "ä", ["c3a4"]),
    (BINARY, "\\xAA", ["5c784141", "aa"]),
    (STRING, "\\xAA", ["5c784141"]),
    (BINARY, bytearray(b"a"), ["61"]),
    (BINARY, memoryview(b"a"), ["61"]),
    (FIXED4, b"a", ["61000000"]),
    (FIXED4, b"a\0\0\0\0\0", ["61000000"]),
    (FIXED4, b"abcde", []),
    (UUID, bytes(16), ["00" * 16]),
    # dates and times
    (DATE, datetime(2024, 2, 3), ["2c4d0000"]),
    (DATE, datetime(2024, 2, 3, 23, 59), ["2c4d0000"]),
    (US, date(1970, 1, 2), ["0060d71d14000000"]),
    (MS_UTC, datetime(1970, 1, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))), ["e803000000000000"]),
    (MS_UTC, datetime(1970, 1, 1, 0, 0, 1, 500, tzinfo=UTC), ["e803000000000000", "e903000000000000"]),
    (US, Timestamp(1), ["0000000000000000", ONE]),
    (US, Timestamp(-1), ["ffffffffffffffff", "0000000000000000"]),
    (NS, Timestamp(1), [ONE, "0000000000000000", "e803000000000000"]),
    (NS, datetime.max, []),
    (moment("TIME", "MICROS"), TimeOfDay(1), ["0000000000000000", ONE]),
    # scalars of other libraries
    (INT64, np.uint64(1), [ONE]),
    (INT64, pa.scalar(1, pa.uint8()), [ONE]),
    (INT64, pa.array([1, 1]).dictionary_encode()[1], [ONE]),
    (STRING, np.str_("a"), ["61"]),
    (BINARY, np.bytes_(b"a"), ["61"]),
    (STRING, pa.scalar("a", pa.string_view()), ["61"]),
    (BINARY, pa.scalar(b"a", pa.large_binary()), ["61"]),
    (FLOAT, pa.scalar(1.5, pa.float64()), ["0000c03f"]),
    (D9, pa.scalar(Decimal("1.10"), pa.decimal256(9, 2)), ["6e000000"]),
    (DATE, pa.scalar(date(2024, 2, 3), pa.date64()), ["2c4d0000"]),
    (DATE, np.datetime64("2024-02-03"), ["2c4d0000"]),
    (DATE, np.datetime64("300000-01-01"), ["e6f77c06"]),
    (NS, np.datetime64(5, "us"), ["8813000000000000"]),
    (NS, np.datetime64(5_000_000, "ps"), ["8813000000000000"]),
    (NS, np.datetime64("1970-01-02"), [(86_400 * 10**9).to_bytes(8, "little").hex()]),
    (US, pa.scalar(3, pa.timestamp("s")), ["c0c62d0000000000"]),
    (moment("TIME", "NANOS"), pa.scalar(3, pa.time32("ms")), ["c0c62d0000000000"]),
    (UUID, pa.array([bytes(16)], pa.uuid())[0], ["00" * 16]),
    (UUID, str(uuid.UUID(int=255)), ["00" * 15 + "ff"]),  # as DuckDB hands it out
    (leaf("FIXED_LEN_BYTE_ARRAY", length=16), uuid.UUID(int=255), ["00" * 15 + "ff"]),
    (BINARY, uuid.UUID(int=255), ["00" * 15 + "ff"]),
    (INT64, pa.RunEndEncodedArray.from_arrays([2], [1])[0], [ONE]),
]


@pytest.mark.parametrize(("column", "value", "plain"), READINGS, ids=lambda v: getattr(v, "type_name", None))
def test_every_reading_of_a_literal_is_encoded(column: LeafColumn, value: Any, plain: list[str]) -> None:
    encodings = encode_literal(column, value)
    assert encodings.reason is None
    assert sorted(p.hex() for p in encodings.plain) == sorted(plain)


NANOSECONDS = 1_704_067_200_123_456_789


def test_no_nanosecond_is_lost() -> None:
    for literal in (
        Timestamp(NANOSECONDS),
        pd.Timestamp(NANOSECONDS),
        np.datetime64(NANOSECONDS, "ns"),
        pa.scalar(NANOSECONDS, pa.timestamp("ns")),
    ):
        assert NANOSECONDS.to_bytes(8, "little") in encode_literal(NS, literal).plain, literal


def test_no_nanosecond_is_lost_with_a_zone() -> None:
    for literal in (
        pd.Timestamp(NANOSECONDS, tz="UTC").tz_convert("America/St_Johns"),
        pa.scalar(NANOSECONDS, pa.timestamp("ns", "Asia/Tokyo")),
        Timestamp(NANOSECONDS, utc=True),
    ):
        assert NANOSECONDS.to_bytes(8, "little") in encode_literal(NS_UTC, literal).plain


UNPROVABLE: list[tuple[LeafColumn, Any, str]] = [
    *((column, None, "NULL") for column in (INT32, STRING, DATE, INT96)),
    *((NS, null, "NULL") for null in (np.datetime64("NaT"), pa.scalar(None), pa.scalar(None, pa.int8()))),
    *((column, math.nan, "NaN") for column in (FLOAT, DOUBLE, HALF, INT32, D9)),
    (DOUBLE, np.float32(math.nan), "NaN"),
    (INT64, 2.0**53, "not exact"),
    (INT64, -(2.0**60), "not exact"),
    (integer(64, signed=False), 1e300, "not exact"),
    (INT32, np.float32(2**24), "not exact"),
    (INT32, np.float16(1), "not exact"),
    (INT64, 2**128 + 5, "128 bits"),
    (DOUBLE, 2**53 + 1, "has no exact float"),
    (FLOAT, 10**400, "has no exact float"),
    (DOUBLE, Decimal("0.1"), "DataFusion"),
    (decimal("FIXED_LEN_BYTE_ARRAY", 38, 10, 16), 0.5, "not exact"),
    (D9, np.float32(0.5), "not exact"),
    (D9, Decimal("0." + "1" * 35), "38 digits"),
    (D9, Decimal("1E+40"), "38 digits"),
    (D9, Decimal("1E+999999"), "38 digits"),
    (D9, 10**40, "38 digits"),
    (D9, Decimal("NaN"), "not a decimal number"),
    (INT32, Decimal("Infinity"), "not a decimal number"),
    (decimal("FIXED_LEN_BYTE_ARRAY", 38, 30, 16), pa.scalar(Decimal(5), pa.decimal128(38, 0)), "38 digits"),
    (DATE, date(1582, 10, 14), "Spark shifts"),
    (DATE, datetime(2024, 1, 1, tzinfo=UTC), "time zone"),
    (MS_UTC, datetime(2024, 1, 1), "timezone="),
    (MS_UTC, date(2024, 1, 1), "timezone="),
    (MS_UTC, datetime(1899, 12, 31, tzinfo=UTC), "Spark shifts"),
    (US, datetime(2024, 1, 1, tzinfo=UTC), "time zone"),
    (INT96, datetime(2024, 1, 1), "timezone="),
    (INT96, datetime(2024, 1, 1, tzinfo=UTC), "timezone="),
    (moment("TIME", "MICROS"), time(12, tzinfo=UTC), "zone"),
    (leaf("BOOLEAN"), True, "empty BOOLEAN filters"),
    (leaf("BYTE_ARRAY", "UNKNOWN_TO_US"), 1, "newer"),
    (leaf("BYTE_ARRAY", "GEOMETRY"), b"", "equal geometries"),
    (leaf("FIXED_LEN_BYTE_ARRAY", "INTERVAL", 12), bytes(12), "equal intervals"),
]


def test_what_is_not_understood_proves_nothing() -> None:
    for column, value, reason in [*UNPROVABLE, (NS, pd.NaT, "NULL"), (NS, pd.NA, "NULL")]:
        encodings = encode_literal(column, value)
        assert reason in (encodings.reason or ""), (column.type_name, value)
        plain = (b"\1",) if column.physical_type is BOOLEAN else ()  # to compare with what is read
        assert encodings.plain == plain, (column.type_name, value)


INCOMPARABLE: list[tuple[LeafColumn, Any]] = [
    *((INT64, value) for value in ("abc", "1", b"1", True, np.bool_(True), date(2024, 1, 1), [1], object(), {})),
    *((FLOAT, value) for value in ("1.5", True, b"")),
    *((D9, value) for value in ("1.10", False, b"")),
    *((STRING, value) for value in (1, 1.5, True, date(2024, 1, 1), "\ud800", uuid.UUID(int=1), Decimal("NaN"))),
    *((BSON, value) for value in ("a", 1)),
    *((FIXED4, value) for value in ("abcd", 1)),
    *((UUID, value) for value in ("abc", "", b"abc", 1)),
    (FIXED4, uuid.UUID(int=1)),
    *((DATE, value) for value in ("2024-02-03", 19756, time(12))),
    *((NS, value) for value in ("2024-02-03", 0, time(12), timedelta(1), np.timedelta64(1, "s"))),
    *((NS, value) for value in (np.array([1]), np.datetime64(1, "ps"), pa.scalar(1, pa.duration("s")))),
    *((moment("TIME", "MICROS"), value) for value in ("12:00", 0, datetime(2024, 1, 1), date(2024, 1, 1))),
    (leaf("BOOLEAN"), 1),
]


def test_a_literal_of_another_type_is_an_error_with_an_example() -> None:
    for column, value in [*INCOMPARABLE, (NS, pd.Timedelta(1))]:
        try:
            encode_literal(column, value)
        except LiteralError as error:
            said = str(error)
        else:
            pytest.fail(f"{value!r} is encoded for {column.type_name}")
        assert said.startswith(f"column user.id is {column.type_name}"), value
        assert "; give " in said or "surrogate" in said, value


def test_the_error_names_column_type_and_example() -> None:
    with pytest.raises(LiteralError) as error:
        encode_literal(INT64, "abc")
    said = "column user.id is INT64; 'abc' (str) cannot be compared with it; give an int such as 42"
    assert str(error.value) == said


# --- time zones -----------------------------------------------------------------------------------------------


def instants(column: LeafColumn, value: Any, zone: str) -> list[str]:
    plain = encode_literal(column, value, timezone=zone).plain
    return sorted(datetime.fromtimestamp(int.from_bytes(p, "little") / 1000, UTC).strftime("%d %H:%M") for p in plain)


@pytest.mark.parametrize(
    ("wall", "zone", "expected"),
    [
        (datetime(2024, 7, 1, 12), "Europe/Paris", ["01 10:00"]),
        (datetime(2024, 10, 27, 2, 30), "Europe/Paris", ["27 00:30", "27 01:30"]),
        (datetime(2024, 3, 31, 2, 30), "Europe/Paris", ["31 00:30", "31 01:30"]),
        (datetime(2024, 3, 31, 2, 30, fold=1), "Europe/Paris", ["31 00:30", "31 01:30"]),
        (date(2024, 7, 1), "Europe/Paris", ["30 22:00"]),
        (datetime(2024, 7, 1, 12), "+05:30", ["01 06:30"]),
        (datetime(2024, 7, 1, 12), "UTC-3", ["01 15:00"]),
        (datetime(2024, 7, 1, 12), "Z", ["01 12:00"]),
        (datetime(2024, 7, 1, 12, tzinfo=UTC), "Europe/Paris", ["01 12:00"]),
    ],
)
def test_a_wall_clock_means_every_instant_at_which_it_showed_that(wall: Any, zone: str, expected: list[str]) -> None:
    assert instants(MS_UTC, wall, zone) == expected


def test_a_column_without_zone_ignores_the_sessions() -> None:
    noon = datetime(2024, 7, 1, 12)
    assert encode_literal(US, noon, timezone="Asia/Tokyo") == encode_literal(US, noon)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "+99:00", "../etc/passwd"])
def test_an_unknown_zone_is_an_error(name: str) -> None:
    with pytest.raises(LiteralError, match="is not known"):
        encode_literal(MS_UTC, datetime(2024, 1, 1), timezone=name)


def test_int96_has_the_readings_of_spark_and_of_the_others() -> None:
    noon = datetime(2024, 1, 1, 12)
    plain = encode_literal(INT96, noon, timezone="Europe/Paris").plain
    assert [decode_plain(INT96, p) for p in plain] == [noon, datetime(2024, 1, 1, 11)]
    assert plain[0].hex() == "0080a7484a270000" + "978a2500"
    zoned = encode_literal(INT96, noon.replace(tzinfo=UTC), timezone="Europe/Paris").plain
    assert [decode_plain(INT96, p) for p in zoned] == [noon, datetime(2024, 1, 1, 13)]


# --- which columns have filters -------------------------------------------------------------------------------

NO_TYPE = [
    leaf("INT32", "STRING"),
    leaf("BYTE_ARRAY", "DATE"),
    leaf("INT32", "INTEGER", bit_width=64),
    leaf("INT64", "INTEGER", bit_width=8),
    leaf("INT32", "TIME", unit="MICROS"),
    leaf("INT64", "TIMESTAMP"),
    leaf("FIXED_LEN_BYTE_ARRAY", "UUID", 15),
    decimal("INT32", 0, 0),
    decimal("INT32", 2, 3),
    decimal("DOUBLE", 9, 2),
    leaf("BYTE_ARRAY", "LIST"),
]


@pytest.mark.parametrize("column", NO_TYPE, ids=lambda column: column.type_name)
def test_a_type_that_the_format_lacks_is_neither_built_nor_trusted(column: LeafColumn) -> None:
    assert "not a type that the format defines" in (why_untrusted(column) or "")
    assert why_unbuildable(column) == why_untrusted(column)
    assert encode_literal(column, 1).reason == why_untrusted(column)


def test_boolean_and_float16_are_not_built() -> None:
    assert why_unbuildable(leaf("BOOLEAN"))
    assert why_untrusted(leaf("BOOLEAN"))
    assert why_unbuildable(HALF)
    assert why_untrusted(HALF) is None
    for name in ("UNKNOWN", "VARIANT", "GEOMETRY", "GEOGRAPHY", "INTERVAL", "UNKNOWN_TO_US"):
        assert why_unbuildable(leaf("BYTE_ARRAY", name)) == why_untrusted(leaf("BYTE_ARRAY", name)) is not None


@pytest.mark.parametrize("column", list(dict.fromkeys(row[0] for row in GOLDEN)), ids=lambda column: column.type_name)
def test_every_type_of_the_table_is_trusted(column: LeafColumn) -> None:
    assert why_untrusted(column) is None
    assert (why_unbuildable(column) is None) == (column is not HALF)


# --- decoding -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column", [INT32, INT64, INT96, FLOAT, DOUBLE, HALF, UUID, FIXED4, DATE, NS, D9, leaf("BOOLEAN")]
)
@given(plain=st.binary(max_size=20))
def test_any_bytes_decode_or_are_corrupt(column: LeafColumn, plain: bytes) -> None:
    if len(plain) == (column.width or 1):
        decode_plain(column, plain)
    else:
        with pytest.raises(CorruptFileError, match=r"user\.id"):
            decode_plain(column, plain)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([NS, US, moment("TIMESTAMP", "MILLIS"), MS_UTC]))
def test_a_decoded_timestamp_encodes_back(count: int, column: LeafColumn) -> None:
    plain = count.to_bytes(8, "little", signed=True)
    encodings = encode_literal(column, decode_plain(column, plain))
    assert plain in encodings.plain or "Spark shifts" in (encodings.reason or "")


@pytest.mark.parametrize(
    ("value", "shortest"), [(Decimal("-1.10"), ["92"]), (Decimal("1.28"), ["0080"]), (0, ["00"]), (0.1, ["0a", "0b"])]
)
def test_a_decimal_in_bytes_has_more_forms_than_can_be_listed(value: Any, shortest: list[str]) -> None:
    encodings = encode_literal(decimal("BYTE_ARRAY", 9, 2), value)
    assert [plain.hex() for plain in encodings.plain] == shortest
    assert "any number of bytes" in (encodings.reason or "")


@pytest.mark.parametrize("width", [0, 1, 17, 32, 33, 100])
def test_a_decimal_of_any_width_decodes(width: int) -> None:
    column = decimal("BYTE_ARRAY", 9, 2)
    assert decode_plain(column, bytes(width)) == 0
    assert decode_plain(column, b"\xff" * width + b"\x92") == Decimal("-1.10")
    with pytest.raises(CorruptFileError, match="DECIMAL of 33 bytes"):
        decode_plain(column, b"\x01" + bytes(32))


@given(st.binary(min_size=4, max_size=4))
def test_a_decoded_date_of_any_year_has_the_days_that_numpy_counts(plain: bytes) -> None:
    days = int.from_bytes(plain, "little", signed=True)
    shown = str(decode_plain(DATE, plain)).partition("T")[0]
    assert shown == str(np.datetime64(days, "D")) or abs(days) > 700_000
    assert np.datetime64(shown.rjust(4, "0") if shown[0] != "-" else shown) == np.datetime64(days, "D")


@given(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62))
def test_timestamps_order_as_their_nanoseconds(one: int, other: int) -> None:
    for left, right in ((Timestamp(one), Timestamp(other)), (Timestamp(one).to_python(), Timestamp(other))):
        assert (left < right, left == right, left >= right) == (one < other, one == other, one >= other)
    assert Timestamp(one) != Timestamp(one, utc=True)
    assert hash(Timestamp(one)) == hash(Timestamp(one).to_python())
    with pytest.raises(TypeError):
        Timestamp(one) < Timestamp(other, utc=True)  # noqa: B015


def test_times_of_day_order_with_pythons() -> None:
    assert TimeOfDay(999) < time(0, 0, 0, 1) < TimeOfDay(1001)
    assert TimeOfDay(1000) == time(0, 0, 0, 1)
    assert hash(TimeOfDay(1000)) == hash(time(0, 0, 0, 1))
    assert date(2024, 1, 1) < Timestamp(NANOSECONDS) < datetime(2024, 1, 1, 1)
