"""What an engine calls equal to a literal, `encode_literal` encodes, or gives the reason why it cannot.

A file of awkward values is written, and each engine evaluates `c = literal` on every row, without any filter
or statistics in the way. Where it says TRUE, the bytes that the page really holds must be among the literal's
encodings: this is what "no false negatives" rests on.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import engines
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from values.stored import leaf_of, plain_values, write

from parquet_bloom.values.arrays import companion_hashes
from parquet_bloom.values.encoding import encode_literal, hash_plain
from parquet_bloom.values.literals import Timestamp

BIG = 2**53
NS = 1_704_110_400_000_000_000  # 2024-01-01T12:00Z
INT_POOL = [0, 1, -1, 42, 127, -128, 255, 300, 2**24, 2**24 + 1, 65_504, 70_000, 2**31 - 1, -(2**31), 1_000_000_007]
LONG_POOL = [*INT_POOL, BIG - 1, BIG, BIG + 1, BIG + 2, 2**63 - 1, -(2**63), 2**32, 3_000_000_000]
DECIMALS = ["0", "1.10", "-1.10", "4.60", "5.00", "1.11", "0.01", "1234567.89", "-1234567.89", "42"]
FLOATS = [
    0.0,
    -0.0,
    0.1,
    1.0,
    1.1,
    1.5,
    -1.5,
    16_777_216.0,
    math.inf,
    -math.inf,
    42.0,
    1e-45,
    3e38,
    0.30000001192092896,
]
DOUBLES = [*FLOATS, 0.1 + 2e-17, 0.10000000000000003, float(BIG), 1e300, 5e-324, 1.0000000000000002, float(2**63)]
CLOSE = [0.1, 0.10000000000000003, 0.10000000894069672, 1.0, 1.0000000000000002, 1.1, 42.0, -1.1]
TEXTS = [b"", b"a", b"a\0", b"a\0\0\0", b"abc", b"a\\xAA", b"a\xaa", "ä".encode(), b"A", b"a ", b"42"]
STAMPS = [
    NS,
    NS + 1,
    NS + 999,
    NS + 1000,
    NS + 123_456_789,
    NS + 123_000_000,
    NS - 1,
    NS - 43_200_000_000_000,
    0,
    -1000,
]


def decimals(precision: int, scale: int) -> pa.Array:
    kind = pa.decimal128(precision, scale)
    return pa.array([Decimal(text).quantize(Decimal(1).scaleb(-scale)) for text in DECIMALS], kind)


def stamps(unit: str, zone: str | None = None) -> pa.Array:
    per = {"ms": 10**6, "us": 1000, "ns": 1}[unit]
    return pa.array(sorted({stamp // per for stamp in STAMPS}), pa.timestamp(unit, zone))


def in_range(values: list[int], kind: pa.DataType) -> pa.Array:
    signed = pa.types.is_signed_integer(kind)
    least = -(2 ** (kind.bit_width - 1)) if signed else 0
    return pa.array([v for v in values if least <= v < least + 2**kind.bit_width], kind)


COLUMNS: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "int8": (in_range(LONG_POOL, pa.int8()), {}),
    "int16": (in_range(LONG_POOL, pa.int16()), {}),
    "int32": (in_range(LONG_POOL, pa.int32()), {}),
    "int64": (in_range(LONG_POOL, pa.int64()), {}),
    "uint8": (in_range(LONG_POOL, pa.uint8()), {}),
    "uint16": (in_range(LONG_POOL, pa.uint16()), {}),
    "uint32": (in_range([*LONG_POOL, 2**32 - 1], pa.uint32()), {}),
    "uint64": (in_range([*LONG_POOL, 2**64 - 1, 2**63], pa.uint64()), {}),
    "float": (pa.array(FLOATS, pa.float32()), {}),
    "double": (pa.array(DOUBLES), {}),
    # Without the values that make an engine give up on the whole query, such as infinity as a decimal.
    "float, close": (pa.array(CLOSE, pa.float32()), {}),
    "double, close": (pa.array(CLOSE), {}),
    "decimal(9,2)": (decimals(9, 2), {}),
    "decimal(9,2) in INT32": (decimals(9, 2), {"store_decimal_as_integer": True}),
    "decimal(18,4) in INT64": (decimals(18, 4), {"store_decimal_as_integer": True}),
    "decimal(38,10)": (decimals(38, 10), {}),
    "decimal(38,30)": (pa.array([Decimal("4.6"), Decimal(5), Decimal("1.1")], pa.decimal128(38, 30)), {}),
    "string": (pa.array([text for text in TEXTS if text != b"a\xaa"], pa.binary()).cast(pa.string()), {}),
    "binary": (pa.array(TEXTS, pa.binary()), {}),
    "fixed": (pa.array([text.ljust(4, b"\0") for text in TEXTS if len(text) <= 4], pa.binary(4)), {}),
    "uuid": (pa.array([bytes(16), bytes(range(16)), b"a" + bytes(15)], pa.uuid()), {}),
    "date": (pa.array([date(2024, 1, 1), date(2024, 1, 2), date(1970, 1, 1), date(1950, 6, 1)]), {}),
    "time ms": (pa.array([0, 43_200_000, 43_200_001], pa.time32("ms")), {}),
    "time us": (pa.array([0, 43_200_000_000, 43_200_000_001], pa.time64("us")), {}),
    "time ns": (pa.array([0, 43_200_000_000_000, 43_200_000_000_001], pa.time64("ns")), {}),
    "timestamp ms": (stamps("ms"), {}),
    "timestamp us": (stamps("us"), {}),
    "timestamp ns": (stamps("ns"), {}),
    "timestamp ms UTC": (stamps("ms", "UTC"), {}),
    "timestamp us UTC": (stamps("us", "UTC"), {}),
    "timestamp ns UTC": (stamps("ns", "UTC"), {}),
}
"""Columns by name: their values, and pyarrow's options to write them. The sessions' time zone is UTC."""

INTS = [*LONG_POOL, -42, 2**64 - 1, 10**18, 2**127, 2**128, 2**128 + 42, 10**60]
FLOAT_LITERALS = [*DOUBLES, 42.5, 2.0**24, 70_000.0, 5.0, 1234567.89, -1.1, 4.6, 65_504.0]
DECIMAL_LITERALS = [Decimal(t) for t in (*DECIMALS, "1.1", "1.101", "0.1", "42.0", "9007199254740993.4", "16777217")]
WALLS = [NS, NS + 1, NS + 123_456_789, NS + 123_400_000, NS + 1000, NS - 43_200_000_000_000, 0, -1000, -1]
WIDE = [pa.scalar(Decimal(5), pa.decimal128(38, 0)), pa.scalar(Decimal("1.1"), pa.decimal128(38, 37))]
NUMBERS = [*WIDE, *INTS, *FLOAT_LITERALS, *(np.float32(v) for v in FLOATS), *DECIMAL_LITERALS]
MOMENTS = [
    date(2024, 1, 1),
    date(1970, 1, 1),
    *(Timestamp(ns) for ns in WALLS),
    *(Timestamp(ns, True) for ns in WALLS),
]
STRINGS = ["", "a", "abc", "a\\xAA", "a\\xaa", "ä", "a ", "A", "42"]
BYTES = [*TEXTS, b"a\0\0\0\0\0\0", b"abcd"]
TIMES = [time(0), time(12), time(12, 0, 0, 1), time(12, 0, 0, 999)]
UUIDS = [uuid.UUID(bytes=bytes(range(16))), uuid.UUID(int=0)]
LITERALS = {
    **dict.fromkeys(("int", "uint", "float", "double", "decimal"), NUMBERS),
    "string": STRINGS,
    "binary": [*STRINGS, *BYTES],
    "fixed": BYTES,
    "uuid": UUIDS,
    "date": MOMENTS,
    "timestamp": MOMENTS,
    "time": TIMES,
}


def literals_for(column: str) -> list[Any]:
    return next(literals for kind, literals in LITERALS.items() if column.startswith(kind))


# --- how each engine writes a literal, in every type it may be given ------------------------------------------


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def digits(value: Decimal) -> tuple[int, int]:
    scale = max(-value.as_tuple().exponent, 0)
    return max(value.adjusted() + 1, 1) + scale, scale


def iso(value: Timestamp) -> str:
    return str(value).rstrip("Z").replace("T", " ")


def cast_decimal(value: pa.Decimal128Scalar) -> str:
    return f"CAST('{value}' AS DECIMAL({value.type.precision},{value.type.scale}))"


def in_duckdb(value: Any) -> Iterator[str]:
    match value:
        case pa.Decimal128Scalar():
            yield cast_decimal(value)
        case np.float32():
            yield f"CAST('{float(value)!r}' AS FLOAT)"
        case float():
            yield f"CAST('{value!r}' AS DOUBLE)"
            if math.isfinite(value):
                yield f"{Decimal(repr(value)):f}"
        case int():
            yield from (str(value), f"CAST({value} AS HUGEINT)")
        case Decimal():
            yield from (f"{value:f}", "CAST('{}' AS DECIMAL({},{}))".format(value, *digits(value)))
        case bytes():
            yield "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        case str():
            yield quoted(value)
        case Timestamp(utc=True):
            yield f"TIMESTAMPTZ '{iso(value)}+00'"
        case Timestamp():
            yield from (f"TIMESTAMP '{iso(value)}'", f"TIMESTAMP_NS '{iso(value)}'")
        case date():
            yield f"DATE '{value}'"
        case time():
            yield f"TIME '{value}'"
        case uuid.UUID():
            yield f"UUID '{value}'"


TIME_TYPES = ("Time32(Millisecond)", "Time64(Microsecond)", "Time64(Nanosecond)")


def in_datafusion(value: Any) -> Iterator[str]:
    match value:
        case pa.Decimal128Scalar():
            yield f"arrow_cast('{value}', 'Decimal128({value.type.precision}, {value.type.scale})')"
        case np.float32():
            yield f"arrow_cast('{float(value)!r}', 'Float32')"
        case float():
            yield f"arrow_cast('{value!r}', 'Float64')"
        case int():
            yield from (f"arrow_cast('{value}', '{kind}')" for kind in ("Int32", "Int64", "UInt64"))
        case Decimal():
            yield "arrow_cast('{}', 'Decimal128({}, {})')".format(value, *digits(value))
        case bytes():
            yield f"X'{value.hex()}'"
        case str():
            yield quoted(value)
        case Timestamp():
            zone = 'Some("UTC")' if value.utc else "None"
            for unit in ("Microsecond", "Nanosecond"):
                yield f"arrow_cast('{iso(value)}', 'Timestamp({unit}, {zone})')"
        case date():
            yield f"DATE '{value}'"
        case time():
            yield from (f"arrow_cast('{value}', '{kind}')" for kind in TIME_TYPES)


def in_clickhouse(value: Any) -> Iterator[str]:
    match value:
        case pa.Decimal128Scalar():
            yield f"toDecimal128('{value}', {value.type.scale})"
        case np.float32():
            yield f"toFloat32('{float(value)!r}')"
        case float():
            yield from (f"toFloat64('{value!r}')", repr(value))
        case int():
            yield str(value)
        case Decimal():
            yield f"toDecimal128('{value}', {digits(value)[1]})"
        case bytes():
            yield f"unhex('{value.hex()}')"
        case str():
            yield "unhex('" + value.encode().hex() + "')"
        case Timestamp():
            yield from (f"toDateTime64('{iso(value)}', {scale}, 'UTC')" for scale in (6, 9))
        case date():
            yield f"toDate32('{value}')"
        case uuid.UUID():
            yield f"toUUID('{value}')"


def in_spark(value: Any) -> Iterator[str]:
    match value:
        case pa.Decimal128Scalar():
            yield cast_decimal(value)
        case np.float32():
            yield f"CAST('{float(value)!r}' AS FLOAT)"
        case float():
            yield f"CAST('{value!r}' AS DOUBLE)"
        case int() if -(2**63) <= value < 2**63:
            yield from ((f"{value}L",) if value > -(2**63) else ())
            yield from ((str(value),) if abs(value) < 2**31 else ())
        case Decimal():
            yield f"{value:f}BD"
        case bytes():
            yield f"X'{value.hex()}'"
        case str():
            yield f"CAST(X'{value.encode().hex()}' AS STRING)"
        case Timestamp(utc=True):
            yield f"TIMESTAMP '{iso(value)}Z'"
        case Timestamp():
            yield f"TIMESTAMP_NTZ '{iso(value)}'"
        case date():
            yield f"DATE '{value}'"


Ask = Callable[[Path, list[str]], list[tuple]]


def ask_duckdb(path: Path, conditions: list[str]) -> list[tuple]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(f"SELECT {', '.join(conditions)} FROM '{path}'").fetchall()


def ask_datafusion(path: Path, conditions: list[str]) -> list[tuple]:
    named = ", ".join(f"{condition} AS x{i}" for i, condition in enumerate(conditions))
    return engines.datafusion(f"SELECT {named} FROM '{path}'")


def ask_clickhouse(path: Path, conditions: list[str]) -> list[tuple]:
    return [tuple(row) for row in engines.clickhouse(f"SELECT {', '.join(conditions)} FROM file('{path}', Parquet)")]


def ask_spark(path: Path, conditions: list[str]) -> list[tuple]:
    return [tuple(row) for row in engines.spark().read.parquet(str(path)).selectExpr(*conditions).collect()]


ENGINES: dict[str, tuple[Ask, Callable[[Any], Iterator[str]]]] = {
    "duckdb": (ask_duckdb, in_duckdb),
    "datafusion": (ask_datafusion, in_datafusion),
    "clickhouse": (ask_clickhouse, in_clickhouse),
    "spark": (ask_spark, in_spark),
}
UNREADABLE = {
    ("spark", "uuid"),
    ("spark", "time ms"),
    ("spark", "time us"),
    ("spark", "time ns"),
    ("spark", "timestamp ns"),
    ("spark", "timestamp ns UTC"),
    ("datafusion", "uuid"),
    ("clickhouse", "time ms"),
    ("clickhouse", "time us"),
    ("clickhouse", "time ns"),
}
"""Columns that the engine cannot read, or has no literal for."""


def truths(ask: Ask, path: Path, conditions: list[str]) -> dict[str, list[bool]]:
    """Returns what each condition is on each row; conditions that the engine rejects are missing."""
    try:
        rows = ask(path, conditions)
    except BaseException as error:  # DataFusion panics, which is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        half = len(conditions) // 2
        if not half:
            return {}
        return truths(ask, path, conditions[:half]) | truths(ask, path, conditions[half:])
    return {condition: [bool(row[i]) for row in rows] for i, condition in enumerate(conditions)}


MARKS = {"spark": [pytest.mark.spark, engines.needs_java]}
CASES = [
    pytest.param(engine, column, id=f"{engine}-{column}", marks=MARKS.get(engine, [pytest.mark.engines]))
    for engine in ENGINES
    for column in COLUMNS
    if (engine, column) not in UNREADABLE
]


@pytest.mark.parametrize(("engine", "column"), CASES)
def test_what_an_engine_calls_equal_is_encoded(engine: str, column: str, tmp_path: Path) -> None:
    array, options = COLUMNS[column]
    file = write(array, **options)
    path = tmp_path / "c.parquet"
    path.write_bytes(file)
    stored, leaf = plain_values(file), leaf_of(file)
    ask, written = ENGINES[engine]
    literals = {f"c = {sql}": value for value in literals_for(column) for sql in written(value)}
    matches = []
    for condition, equal in truths(ask, path, list(literals)).items():
        encodings = encode_literal(leaf, literals[condition], timezone="UTC")
        for plain, is_equal in zip(stored, equal, strict=True):
            if is_equal:
                matches.append(condition)
                assert encodings.reason or plain in encodings.plain, (condition, plain.hex(), encodings)
    assert matches, "no literal matched at all: the engine was not asked right"


@pytest.mark.parametrize(
    "engine", [pytest.param(engine, marks=MARKS.get(engine, [pytest.mark.engines])) for engine in ("duckdb", "spark")]
)
def test_int96_is_found_by_its_own_hash_or_a_companion(engine: str, tmp_path: Path) -> None:
    """Both read INT96 in microseconds, so a value is also inserted as what they make of it."""
    array = stamps("ns")
    file = write(array, use_deprecated_int96_timestamps=True)
    path = tmp_path / "c.parquet"
    path.write_bytes(file)
    leaf = leaf_of(file)
    ask, written = ENGINES[engine]
    literals = {f"c = {sql}": value for value in MOMENTS for sql in written(value)}
    matches = 0
    for condition, equal in truths(ask, path, list(literals)).items():
        encodings = encode_literal(leaf, literals[condition], timezone="UTC")
        for plain, is_equal in zip(plain_values(file), equal, strict=True):
            if is_equal:
                matches += 1
                inserted = {hash_plain(plain), *hashes_of(companion_hashes(leaf, pa.array([plain], pa.binary(12))))}
                assert encodings.reason or inserted & set(encodings.hashes()), (condition, plain.hex(), encodings)
    assert matches > len(array)  # more than for each value alone: in microseconds some of them are equal


def hashes_of(array: bytes) -> list[int]:
    return list(memoryview(array).cast("Q"))


@pytest.mark.parametrize("column", COLUMNS)
def test_every_stored_value_is_found_by_its_own_literal(column: str) -> None:
    array, options = COLUMNS[column]
    file = write(array, **options)
    leaf = leaf_of(file)
    for scalar, plain in zip(array, plain_values(file), strict=True):
        encodings = encode_literal(leaf, scalar)
        inexact = isinstance(scalar, pa.Decimal128Scalar) and leaf.logical_type is None
        assert plain in encodings.plain or encodings.reason == "NaN" or inexact, (scalar, encodings)


def duckdb_equal(column: str, values: list[str], literal: str) -> list[bool]:
    import duckdb

    with duckdb.connect() as connection:
        rows = ", ".join(f"({i}, CAST({quoted(v)} AS {column}))" for i, v in enumerate(values))
        sql = f"SELECT c = {literal} FROM (VALUES {rows}) AS t(i, c) ORDER BY i"
        return [bool(row[0]) for row in connection.execute(sql).fetchall()]


near = st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1), st.integers(BIG - 3, BIG + 3))
numbers = st.one_of(
    near,
    near.map(float),
    st.floats(allow_nan=False, width=32),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False, width=32).map(np.float32),
    st.decimals(-10_000, 10_000, places=2),
    st.decimals(-(10**12), 10**12, places=4),
)
RANDOM = {
    "BIGINT": (pa.int64(), near),
    "INTEGER": (pa.int32(), st.integers(-(2**31), 2**31 - 1) | st.integers(2**24 - 3, 2**24 + 3)),
    "FLOAT": (pa.float32(), st.floats(allow_nan=False, width=32)),
    "DOUBLE": (pa.float64(), st.floats(allow_nan=False)),
    "DECIMAL(9,2)": (pa.decimal128(9, 2), st.decimals(-10_000, 10_000, places=2)),
    "DECIMAL(18,4)": (pa.decimal128(18, 4), st.decimals(-(10**12), 10**12, places=4)),
    "DECIMAL(38,10)": (pa.decimal128(38, 10), st.decimals(-(10**12), 10**12, places=4)),
}


@pytest.mark.engines
@pytest.mark.parametrize("column", RANDOM)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_duckdb_agrees_on_any_numbers(column: str, data: st.DataObject) -> None:
    kind, values = RANDOM[column]
    literal = data.draw(numbers)
    pool = data.draw(st.lists(values, min_size=1, max_size=4))
    array = pa.array([*pool, *as_stored(literal, kind)]).cast(kind)
    file = write(array, store_decimal_as_integer=data.draw(st.booleans()))
    leaf, stored = leaf_of(file), plain_values(file)
    encodings = encode_literal(leaf, literal)
    texts = [repr(v) if isinstance(v, float) else str(v) for v in array.to_pylist()]
    for sql in in_duckdb(literal):
        try:
            equal = duckdb_equal(column, texts, sql)
        except Exception:  # the two have no common type that holds them
            continue
        for plain, is_equal in zip(stored, equal, strict=True):
            assert not is_equal or encodings.reason or plain in encodings.plain, (sql, plain.hex(), encodings)


def as_stored(literal: Any, kind: pa.DataType) -> list[Any]:
    """Returns the literal itself as a value of the column, so that equal pairs are common."""
    try:
        return pa.array([pa.scalar(literal).cast(kind, safe=False).as_py()], kind).to_pylist()
    except (pa.ArrowException, OverflowError):
        return []


@given(st.datetimes(datetime(1900, 1, 2), datetime(2200, 1, 1)), st.sampled_from(["ms", "us", "ns"]), st.booleans())
@settings(deadline=None)
def test_any_timestamp_finds_what_pyarrow_stored(moment: datetime, unit: str, utc: bool) -> None:
    moment = moment.replace(tzinfo=UTC) if utc else moment
    array = pa.array([moment], pa.timestamp("us", "UTC" if utc else None)).cast(
        pa.timestamp(unit, "UTC" if utc else None), safe=False
    )
    file = write(array)
    assert plain_values(file)[0] in encode_literal(leaf_of(file), moment).plain
