"""Keys that are converted all at once are the keys that are converted one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType
from parquet_bloom.values.key_sets import KeySet
from parquet_bloom.values.stored_keys import _all_at_once, _one_by_one, key_set
from parquet_bloom.verbs.reading_keys import read_keys

INT32, INT64, FIXED = PhysicalType.INT32, PhysicalType.INT64, PhysicalType.FIXED_LEN_BYTE_ARRAY
BYTES, FLOAT, DOUBLE = PhysicalType.BYTE_ARRAY, PhysicalType.FLOAT, PhysicalType.DOUBLE

WHOLE = st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31) - 2, 2**31 + 2))
ODD_FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-50, -1e-50, 1e300, 0.1, 0.5, 16777217.0]
TICKS = st.one_of(st.integers(-(10**10), 10**10), st.integers(-3 * 10**15, 3 * 10**15))
SECONDS = st.integers(-(10**7), 10**7).map(lambda count: count * 10**6)

Case = tuple[LeafColumn, "st.SearchStrategy[Any]", pa.DataType]


def leaf(physical: PhysicalType, logical: LogicalType | None = None, length: int | None = None) -> LeafColumn:
    return LeafColumn(("c",), 0, physical, length, logical, ())


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.one_of(st.integers(-most, most), st.integers(-500, 500)).map(lambda whole: Decimal(f"{whole}E-{scale}"))


def cases() -> Iterator[Case]:
    for physical, bits in ((INT32, 8), (INT32, 16), (INT32, 32), (INT32, 0), (INT64, 64), (INT64, 0)):
        column = leaf(physical, LogicalType("INTEGER", bit_width=bits) if bits else None)
        yield column, WHOLE, pa.int64()
        yield column, st.integers(0, 2**64 - 1) | st.integers(0, 300), pa.uint64()
        yield column, st.integers(-128, 127), pa.int8()
    for physical in (FLOAT, DOUBLE):
        yield leaf(physical), st.one_of(st.floats(), st.sampled_from(ODD_FLOATS), st.floats(width=32)), pa.float64()
        yield leaf(physical), st.floats(width=32), pa.float32()
    for logical in (None, "STRING", "JSON"):
        column = leaf(BYTES, LogicalType(logical) if logical else None)
        yield column, st.binary(max_size=5), pa.binary()
        yield column, st.text(max_size=5) | st.just("\\xAA"), pa.string()
    yield leaf(BYTES, LogicalType("BSON")), st.binary(max_size=5), pa.binary()
    yield leaf(INT32, LogicalType("DATE")), st.integers(-800_000, 800_000), pa.date32()
    yield from timestamps()
    for precision, scale in ((9, 2), (18, 0), (5, 5), (20, 2), (38, 10), (38, 38)):
        logical_type = LogicalType("DECIMAL", precision=precision, scale=scale)
        columns = [leaf(INT32, logical_type), leaf(INT64, logical_type), leaf(BYTES, logical_type)]
        for column in [*columns, *(leaf(FIXED, logical_type, length) for length in (3, 9, 16))]:
            for of_keys in ((9, 2), (18, 6), (38, 18), (20, 0), (38, 0)):
                yield column, decimals(*of_keys), pa.decimal128(*of_keys)


def timestamps() -> Iterator[Case]:
    for unit in ("MILLIS", "MICROS", "NANOS"):
        for is_adjusted in (True, False):
            column = leaf(INT64, LogicalType("TIMESTAMP", unit=unit, is_adjusted_to_utc=is_adjusted))
            for of_keys in ("s", "ms", "us", "ns"):
                ticks = TICKS.map(lambda count: count * 1000) if of_keys == "ns" else TICKS
                for zone in ("UTC", "Europe/Paris", None):
                    yield column, ticks | SECONDS, pa.timestamp(of_keys, zone)


CASES = list(cases())


def content(keys: KeySet) -> tuple[Any, ...]:
    places = keys.places if isinstance(keys.places, list) else keys.places.to_pylist()
    assert len(keys.hashes) == 8 * len(places) == 8 * len(keys.owners)
    assert len(keys.wide.hashes) == 8 * len(keys.wide.owners)
    assert all(below <= above for below, above in pairwise(places))
    points = [(point, keys.owners[at], keys.hashes[8 * at : 8 * at + 8]) for at, point in enumerate(places)]
    wide = [(owner, keys.wide.hashes[8 * at : 8 * at + 8]) for at, owner in enumerate(keys.wide.owners)]
    return sorted(points), sorted(wide), sorted(keys.unusable), bool(keys.why_unusable)


@settings(max_examples=1500)
@given(data=st.data())
def test_all_at_once_and_one_by_one_are_the_same(data: Any) -> None:
    column, values, kind = data.draw(st.sampled_from(CASES))
    some = data.draw(st.lists(st.none() | values, max_size=6))
    array = pa.array(some, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(some, kind)
    if data.draw(st.booleans()):
        array = pa.concat_arrays([pa.nulls(1, kind), array]).slice(1)
    keys = read_keys(array, "c")
    assert content(key_set(column, keys, "Europe/Paris")) == content(_one_by_one(column, keys, "Europe/Paris"))


def test_common_types_are_converted_all_at_once() -> None:
    micros = LogicalType("TIMESTAMP", unit="MICROS", is_adjusted_to_utc=True)
    for column, values in (
        (leaf(INT64), pa.array([3, 1, None])),
        (leaf(BYTES, LogicalType("STRING")), pa.array(["b", "a"])),
        (leaf(INT64, micros), pa.array([1, 0], pa.timestamp("us", "UTC"))),
        (leaf(FIXED, LogicalType("DECIMAL", precision=20, scale=2), 9), pa.array([Decimal("1.50")])),
        (leaf(DOUBLE), pa.array([0.5, 0.0])),
        (leaf(INT32, LogicalType("DATE")), pa.array([1, 2], pa.date32())),
    ):
        assert _all_at_once(column, read_keys(values, "c"), None) is not None


def test_very_many_keys_stay_in_arrow() -> None:
    found = key_set(leaf(INT64), read_keys(pa.array(range(100_000, 0, -1)), "c"), None)
    assert not isinstance(found.places, list)
    assert (found.places[0].as_py(), found.places[99_999].as_py(), found.owners[0]) == (1, 100_000, 99_999)
    assert key_set(leaf(INT64), read_keys(pa.array(range(9)), "c"), None).owners == range(9)
