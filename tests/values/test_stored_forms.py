"""Whatever form the format allows a value to be stored in, no verb excludes it.

Equal values may have different bytes, and so different hashes. Each is written into a page by hand, in any of its
forms: decimals of any width, zeros of either sign, NaN of any payload, instants in any day's nanoseconds.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from values.handwritten import ARROW, SPARK, column, file_of

import parquet_bloom
from parquet_bloom import lookup, probe, prune, verify
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.schema import PhysicalType
from parquet_bloom.predicates.tree import col
from parquet_bloom.storage.cache import Cache

INT32, INT64, INT96 = PhysicalType.INT32, PhysicalType.INT64, PhysicalType.INT96
FLOAT, DOUBLE = PhysicalType.FLOAT, PhysicalType.DOUBLE
BYTES, FIXED = PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY
Form = tuple[Any, bytes]
"""A literal, and the bytes of one form in which a value that equals it may be stored."""


@dataclass(frozen=True)
class Kind:
    """A type of column, its values in all their forms, and `absent`, which is none of them and may be excluded."""

    element: ttypes.SchemaElement
    forms: st.SearchStrategy[Form]
    absent: Any = None
    bound: Callable[[Any], Any] | None = None  # what orders the literals as the statistics do
    is_buildable: bool = True
    created_by: str = ARROW
    key_values: tuple[tuple[str, str], ...] = ()


def simple(physical: PhysicalType, pack: Callable[[Any], bytes], values: st.SearchStrategy[Any], **options: Any) -> Any:
    element = column(physical, *options.pop("types", ()), **options.pop("schema", {}))
    return Kind(element, values.map(lambda value: (value, pack(value))), bound=options.pop("bound", None), **options)


def shortest(number: int) -> int:
    return (number if number >= 0 else ~number).bit_length() // 8 + 1


def decimal(physical: PhysicalType, precision: int, scale: int, length: int | None = None, **options: Any) -> Kind:
    logical = ttypes.LogicalType(DECIMAL=ttypes.DecimalType(scale=scale, precision=precision))
    element = column(physical, logical, ttypes.ConvertedType.DECIMAL, length, precision, scale)
    most = 10**precision - 1

    @st.composite
    def forms(draw: Any) -> Form:
        number = draw(st.integers(-300, 300) | st.integers(-most, most))
        literal = Decimal(f"{number}E-{scale}")
        if physical in (INT32, INT64):
            return literal, number.to_bytes(4 if physical is INT32 else 8, "little", signed=True)
        width = length or shortest(number) + draw(st.integers(0, 4) | st.integers(0, 60))
        is_empty = length is None and number == 0 and draw(st.booleans())  # which Spark and DuckDB read as 0
        return literal, b"" if is_empty else number.to_bytes(width, "big", signed=True)

    return Kind(element, forms(), bound=lambda literal: literal, **options)


def floats(physical: PhysicalType, form: str, **options: Any) -> Kind:
    bits = 8 * struct.calcsize(form)
    mantissa = {16: 10, 32: 23, 64: 52}[bits]
    exponent = (1 << bits - 1) - (1 << mantissa)

    @st.composite
    def forms(draw: Any) -> Form:
        value = draw(st.sampled_from([0.0, math.nan]) | st.floats(width=bits))
        if math.isnan(value):
            payload = draw(st.integers(1, (1 << mantissa) - 1)) | exponent | draw(st.booleans()) << bits - 1
            return value, payload.to_bytes(bits // 8, "little")
        stored = draw(st.sampled_from([0.0, -0.0])) if value == 0 else value
        return value, struct.pack(form, stored)

    return Kind(column(physical, **options.pop("schema", {})), forms(), **options)


EPOCH, EPOCH_JULIAN_DAY, DAY = datetime(1970, 1, 1, tzinfo=UTC), 2_440_588, 86_400 * 10**9


@st.composite
def instants(draw: Any) -> Form:
    """Draws an instant in microseconds, as the nanoseconds of any day near it; beyond microseconds all cut it off."""
    moment = draw(st.datetimes(datetime(1900, 1, 2), datetime(9000, 1, 1), timezones=st.just(UTC)))
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    day = micros * 1000 // DAY + draw(st.just(0) | st.integers(-1000, 1000))
    nanoseconds = micros * 1000 - day * DAY
    beyond = draw(st.just(0) | st.integers(0, 999))
    nanoseconds += beyond if nanoseconds >= 0 else -beyond  # Spark and DuckDB divide towards zero
    return moment, struct.pack("<qi", nanoseconds, day + EPOCH_JULIAN_DAY)


def utc_micros(moment: datetime) -> bytes:
    return struct.pack("<q", (moment - EPOCH) // timedelta(microseconds=1))


def logical(**fields: Any) -> tuple[ttypes.LogicalType]:
    return (ttypes.LogicalType(**fields),)


def integers(bits: int, is_signed: bool) -> Any:
    physical, form = (INT64, "<q") if bits == 64 else (INT32, "<i")
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    wrap = (1 << 64 if bits == 64 else 1 << 32) // 2

    def pack(number: int) -> bytes:  # unsigned ones of the full width are the same bits as negative ones
        return struct.pack(form, (number + wrap) % (2 * wrap) - wrap)

    types = logical(INTEGER=ttypes.IntType(bitWidth=bits, isSigned=is_signed))
    absent = 77 if bits > 8 else None
    return simple(
        physical, pack, st.integers(least, most).filter(lambda n: n != 77), types=types, absent=absent, bound=int
    )


MICROS = ttypes.TimeUnit(MICROS=ttypes.MicroSeconds())
KINDS: dict[str, Kind] = {
    "decimal in bytes": decimal(BYTES, 9, 2),
    "decimal in bytes, long": decimal(BYTES, 38, 10),
    "decimal in bytes, parquet-mr": decimal(BYTES, 18, 0, created_by=SPARK),
    "decimal in bytes, unknown writer": decimal(BYTES, 18, 0, created_by="unheard-of version 1.0"),
    **{f"decimal in {n} bytes": decimal(FIXED, 4, 2, n, absent=Decimal("99.99")) for n in (2, 5, 16, 18, 32)},
    "decimal in INT32": decimal(INT32, 9, 2),
    "decimal in INT64": decimal(INT64, 18, 2),
    "float": floats(FLOAT, "<f", absent=1234.5),
    "double": floats(DOUBLE, "<d", absent=1234.5),
    "half float": floats(FIXED, "<e", schema={"length": 2, "logical": logical(FLOAT16=ttypes.Float16Type())[0]}),
    **{f"{'' if signed else 'u'}int{bits}": integers(bits, signed) for bits in (8, 16, 32, 64) for signed in (0, 1)},
    "INT96": Kind(column(INT96), instants()),
    "INT96 by Spark": Kind(
        column(INT96), instants(), created_by=SPARK, key_values=(("org.apache.spark.version", "4.3.0"),)
    ),
    "boolean": simple(PhysicalType.BOOLEAN, lambda v: bytes([v]), st.booleans(), is_buildable=False),
    "date": simple(
        INT32,
        lambda day: struct.pack("<i", day.toordinal() - date(1970, 1, 1).toordinal()),
        st.dates(),
        types=logical(DATE=ttypes.DateType()),
        bound=date.toordinal,
    ),
    "time": simple(
        INT64,
        lambda v: struct.pack("<q", ((v.hour * 60 + v.minute) * 60 + v.second) * 10**6 + v.microsecond),
        st.times(),
        types=logical(TIME=ttypes.TimeType(isAdjustedToUTC=False, unit=MICROS)),
    ),
    "timestamp": simple(
        INT64,
        utc_micros,
        st.datetimes(timezones=st.just(UTC)),
        types=logical(TIMESTAMP=ttypes.TimestampType(isAdjustedToUTC=True, unit=MICROS)),
    ),
    "text": simple(
        BYTES, str.encode, st.text(max_size=9), types=logical(STRING=ttypes.StringType()), absent="nowhere at all"
    ),
    "bytes": simple(BYTES, bytes, st.binary(max_size=9), absent=b"nowhere at all"),
    "uuid": simple(
        FIXED,
        lambda v: v.bytes,
        st.uuids(),
        schema={"length": 16},
        types=logical(UUID=ttypes.UUIDType()),
        absent=uuid.UUID(int=77),
    ),
    # ClickHouse compares such bytes as if both sides went on with zeros.
    "fixed bytes": Kind(
        column(FIXED, length=4), st.binary(max_size=4).map(lambda v: (v, v.ljust(4, b"\0"))), absent=b"wxyz"
    ),
}
KINDS["half float"] = Kind(KINDS["half float"].element, KINDS["half float"].forms, is_buildable=False)


def excluded(path: Path, literals: list[Any]) -> list[tuple[str, Any]]:
    """Returns what a verb says is not in the file."""
    probed = probe(path, "c", literals, timezone="UTC").rows
    found = [("probe", value) for value, row in zip(literals, probed, strict=True) if row.answer == "CANNOT_MATCH"]
    for value in literals:
        listed = prune(path, col("c").isin([value]), timezone="UTC", cache=Cache(0))
        equal = prune(path, col("c") == value, timezone="UTC", cache=Cache(0))
        found += [("prune", value) for pruned in (listed, equal) for row in pruned.rows if row.answer == "CANNOT_MATCH"]
        held = lookup(path, "c", [value], timezone="UTC", cache=Cache(0)).to_arrow()["path"].to_pylist()
        found += [("lookup", value)] if held == [None] else []
    return found


def written(path: Path, kind: Kind, forms: list[Form], *, is_ours: bool, dictionary: bool, has_bounds: bool) -> None:
    ordered = sorted(forms, key=lambda form: kind.bound(form[0])) if kind.bound else []  # type: ignore[misc]
    bounds = (ordered[0][1], ordered[-1][1]) if has_bounds and ordered else None
    path.write_bytes(
        file_of(
            kind.element,
            [stored for _, stored in forms],
            dictionary=dictionary,
            foreign_filter=not is_ours,
            bounds=bounds,
            created_by=kind.created_by,
            key_values=dict(kind.key_values),
        )
    )
    if is_ours:
        parquet_bloom.add(path, ["c"], fpp=1e-6, strict=True)


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "foreign"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_form_of_a_value_is_excluded(tmp_path: Path, kind: str, is_ours: bool, data: st.DataObject) -> None:
    of = KINDS[kind]
    if is_ours and not of.is_buildable:
        pytest.skip("no filter is built for it")
    if not is_ours and kind == "INT96 by Spark":
        pytest.skip("Spark's own filters hold the one form that it writes")
    forms = data.draw(st.lists(of.forms, min_size=1, max_size=4))
    dictionary, has_bounds = data.draw(st.booleans()) and kind != "boolean", data.draw(st.booleans())
    path = tmp_path / "f.parquet"
    written(path, of, forms, is_ours=is_ours, dictionary=dictionary, has_bounds=has_bounds)
    assert excluded(path, [literal for literal, _ in forms]) == []
    assert verify(path).findings == ()
    if of.absent is not None and of.absent not in [literal for literal, _ in forms]:
        assert {verb for verb, _ in excluded(path, [of.absent])} == {"probe", "prune", "lookup"}


# ---- decimals in bytes -------------------------------------------------------------------

WIDE = decimal(BYTES, 9, 2).element
STORED = [(110).to_bytes(18, "big"), (-5).to_bytes(17, "big", signed=True), b"\x07", (900).to_bytes(40, "big"), b""]
LITERALS = [Decimal("1.10"), Decimal("-0.05"), Decimal("0.07"), Decimal("9.00"), Decimal(0)]


@pytest.mark.engines
@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "foreign"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_decimals_that_duckdb_returns_are_kept(tmp_path: Path, dictionary: bool, is_ours: bool) -> None:
    import duckdb

    path = tmp_path / "f.parquet"
    path.write_bytes(file_of(WIDE, STORED, dictionary=dictionary, foreign_filter=not is_ours))
    if is_ours:
        parquet_bloom.add(path, ["c"], strict=True)
    with duckdb.connect() as connection:
        for literal in LITERALS:
            assert connection.execute(f"SELECT count(*) FROM '{path}' WHERE c = {literal}").fetchall() == [(1,)]
    assert excluded(path, LITERALS) == []
    assert verify(path).rows[0].verdict == "ok"
    reason = "a DECIMAL in BYTE_ARRAY may be stored in any number of bytes, so a filter cannot exclude it"
    assert parquet_bloom.inspect(path).rows[0].untrusted == reason
    assert {row.reason for row in probe(path, "c", LITERALS).rows} == {reason}
    assert {row.reason for row in prune(path, "c = 1.10").rows} == {reason}
    assert {*lookup(path, "c", LITERALS).to_arrow()["reason"].to_pylist()} == {reason}


def test_the_statistics_of_wide_decimals_exclude_still(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    bounds = STORED[1], STORED[3]
    path.write_bytes(file_of(WIDE, STORED[:4], foreign_filter=True, bounds=bounds))
    beyond = [Decimal("-0.06"), Decimal("9.01"), 10, 9.5, Decimal("0.001")]
    assert {value for verb, value in excluded(path, beyond) if verb == "prune"} == {*beyond}
    assert {value for verb, value in excluded(path, beyond) if verb == "lookup"} == {*beyond}
    assert excluded(path, LITERALS[:4]) == []
    for where in ("c > 9", "c < -0.05", "c BETWEEN 9.01 AND 20", "c <> 1.10 AND c > 9"):
        assert [row.is_kept for row in prune(path, where).rows] == [False]


# ---- INT96 -------------------------------------------------------------------------------


@pytest.mark.parametrize("ndv", [None, 2000])
def test_a_filter_of_instants_keeps_its_fpp(tmp_path: Path, ndv: int | None) -> None:
    path = tmp_path / "f.parquet"
    forms = {
        "canonical": [struct.pack("<qi", 1000 * n, EPOCH_JULIAN_DAY) for n in range(2000)],
        "nanoseconds": [struct.pack("<qi", 1001 * n, EPOCH_JULIAN_DAY) for n in range(2000)],
        "another day's": [struct.pack("<qi", -3001 * n - DAY, EPOCH_JULIAN_DAY) for n in range(2000)],
    }
    sizes = {}
    for form, stored in forms.items():
        path.write_bytes(file_of(column(INT96), stored))
        (planned,) = parquet_bloom.add(path, ["c"], fpp=0.01, ndv=ndv, dry_run=True).rows[0].filters
        (added,) = parquet_bloom.add(path, ["c"], fpp=0.01, ndv=ndv).rows[0].filters
        assert added.fpp <= 0.01
        assert added.num_bytes <= planned.num_bytes
        sizes[form] = added.num_bytes
    assert sizes["canonical"] < sizes["nanoseconds"] < sizes["another day's"]
    integers = simple(INT64, struct.Struct("<q").pack, st.nothing()).element
    path.write_bytes(file_of(integers, [struct.pack("<q", n) for n in range(2000)]))
    (added,) = parquet_bloom.add(path, ["c"], fpp=0.01, ndv=ndv).rows[0].filters
    assert sizes["canonical"] == added.num_bytes


def test_zeros_and_nans_count_for_the_size(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    values = [0.0, math.nan, *(float(n) for n in range(1, 40))]
    path.write_bytes(file_of(column(DOUBLE), [struct.pack("<d", value) for value in values]))
    (added,) = parquet_bloom.add(path, ["c"], fpp=0.001).rows[0].filters
    assert added.fpp <= 0.001
