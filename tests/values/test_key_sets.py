"""Keys are met by their values, whatever their hashes are."""

from __future__ import annotations

import math
import pickle
import struct
import sys
from array import array
from datetime import UTC, datetime
from decimal import Decimal
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom import _kernel
from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType
from parquet_bloom.values import key_sets
from parquet_bloom.values.arrays import key_type
from parquet_bloom.values.key_sets import KeySet, MetKeys
from parquet_bloom.values.statistics import ColumnStatistics
from parquet_bloom.verbs.reading_keys import read_keys

LEAF = LeafColumn(("x",), 0, PhysicalType.BYTE_ARRAY, None, None, ())


def met(keys: list[bytes], *stored: list[bytes | None]) -> list[bool]:
    seen = bytearray(len(keys))
    table = MetKeys(KeySet(pa.array(keys, pa.binary()), range(len(keys)), leaf=LEAF), seen)
    for values in stored:
        column = pa.array(values, pa.binary())
        before = seen.copy()
        might = table.has_new(column)
        is_new = table.meet(column)
        assert is_new == (seen != before)
        assert might or not is_new
    assert table.is_complete == all(seen)
    return [flag == 1 for flag in seen]


SOME = st.lists(st.binary(max_size=2), max_size=30)


@pytest.mark.parametrize("num_hashes", [None, 1, 3])
@given(SOME, SOME, SOME)
def test_keys_are_met_by_their_values(
    num_hashes: int | None, keys: list[bytes], first: list[bytes], second: list[bytes]
) -> None:
    """Also if all values have one of few hashes."""

    def few(values: pa.Array) -> bytes:
        numbers = [len(value) % (num_hashes or 1) << 61 for value in values.to_pylist()]
        return array("Q", numbers).tobytes()

    with pytest.MonkeyPatch.context() as patch:
        if num_hashes:
            patch.setattr(key_sets, "hash_values", few)
        assert met(keys, [*first, None], second) == [key in first or key in second for key in keys]


DECIMAL = LeafColumn(("x",), 0, PhysicalType.BYTE_ARRAY, None, LogicalType("DECIMAL", precision=5, scale=1), ())
OLD = LeafColumn(("x",), 0, PhysicalType.INT96, None, None, ())
HALF = LeafColumn(("x",), 0, PhysicalType.FIXED_LEN_BYTE_ARRAY, 2, LogicalType("FLOAT16"), ())
WHOLE = LeafColumn(("x",), 0, PhysicalType.INT64, None, None, ())
SINGLE = LeafColumn(("x",), 0, PhysicalType.FLOAT, None, None, ())


@pytest.mark.parametrize(
    ("leaf", "keys", "stored", "owners"),
    [
        (DECIMAL, [Decimal("0.5"), 2, Decimal("0.5")], [b"\0\5", b"\5", b"\7", None], [{0, 2}, {0, 2}, set(), set()]),
        (OLD, [datetime(1970, 1, 2, tzinfo=UTC)] * 2, [struct.pack("<qi", 999, 2_440_589), bytes(12)], [{0, 1}, set()]),
        (OLD, [datetime(1970, 1, 2, tzinfo=UTC)], [struct.pack("<qi", 86_400 * 10**9, 2_440_588)], [{0}]),
        (HALF, [math.nan, 0.0], [b"\1\x7e", b"\0\x80", b"\0\x3c", None], [{0}, {1}, set(), set()]),
        (WHOLE, [math.nan, 5], [5, 6, None], [{1}, set(), set()]),
        (SINGLE, [math.nan, -0.0, 0], [math.nan, 0.0, -0.0, 1.5, None], [{0}, {1, 2}, {1, 2}, set(), set()]),
    ],
)
def test_equal_values_are_met_however_they_are_stored(
    leaf: LeafColumn, keys: list[Any], stored: list[Any], owners: list[set[int]]
) -> None:
    found = read_keys(keys, "x").stored_in(leaf, "UTC", exactly=True)
    values = pa.array(stored, key_type(leaf))
    assert list(map(set, found.owners_of(values))) == owners
    assert found.mask(values).to_pylist() == list(map(bool, owners))
    seen = bytearray(len(keys))
    met = MetKeys(found, seen)
    assert met.meet(values)
    assert {key for key, flag in enumerate(seen) if flag} == set.union(*owners)
    assert not met.has_new(values)


def test_a_set_of_keys_travels() -> None:
    found = read_keys([3, 1, 2], "x").stored_in(WHOLE, None)
    known = ColumnStatistics(3, 0, 2, 9)
    assert found.mask(pa.array([1, 5])).to_pylist() == [True, False]
    assert found.within(known) == pickle.loads(pickle.dumps(found)).within(known) == (1, 3)
    assert found.hashes == pickle.loads(pickle.dumps(found)).hashes


@given(st.lists(st.integers(0, 2**64 - 1), max_size=300), st.data())
def test_the_kernel_meets_each_key_once(keys: list[int], data: st.DataObject) -> None:
    keys.sort()
    values = data.draw(st.lists(st.sampled_from(keys) | st.integers(0, 2**64 - 1), max_size=300)) if keys else [5]
    flags = bytearray(data.draw(st.lists(st.integers(0, 1), min_size=len(keys), max_size=len(keys))))
    table = array("Q", keys)
    places, ranks = _kernel.meet(array("Q", values), table, _kernel.prefixes(table), flags)
    assert sorted(array("I", ranks)) == [r for r, key in enumerate(keys) if key in values and not flags[r]]
    assert all(values.index(keys[r]) == at for at, r in zip(array("I", places), array("I", ranks), strict=True))


@given(st.lists(st.text("\0ab", max_size=20)), st.binary(max_size=2), st.sampled_from(["i", "q"]))
def test_the_kernel_orders_bytes_as_python_does(texts: list[str], begin: bytes, width: str) -> None:
    values = [b"left out", *(begin + text.encode() for text in texts)]
    offsets = array(width, accumulate(map(len, values), initial=0))
    order = _kernel.order(offsets, offsets.itemsize, b"".join(values), 1, len(texts))
    assert list(array("I", order)) == sorted(range(len(texts)), key=values[1:].__getitem__)


def test_the_kernel_refuses_what_does_not_fit() -> None:
    for offsets in ([0, 4], [2, 1], [-1, 1]):
        with pytest.raises(ValueError, match="leave the 3 bytes"):
            _kernel.order(array("q", offsets), 8, b"abc", 0, 1)
    for start, count, width in ((0, 2, 8), (-1, 1, 8), (0, -1, 8), (0, 1, 3), (2**63 - 1, 1, 8)):
        with pytest.raises(ValueError, match="are not the offsets"):
            _kernel.order(array("q", [0, 1]), width, b"a", start, count)
    table = (7).to_bytes(8, sys.byteorder)
    prefixes = _kernel.prefixes(table)
    for arguments in (
        (b"1234567", table, prefixes, b"\0"),
        (table, b"1234567", prefixes, b""),
        (table, table, prefixes, b""),
        (table, table, prefixes[:-1], b"\0"),
    ):
        with pytest.raises(ValueError, match="bytes"):
            _kernel.meet(*arguments)
    with pytest.raises(ValueError, match="7 bytes"):
        _kernel.prefixes(b"1234567")
    for wild in (b"\xff" * len(prefixes), prefixes[::-1]):
        _kernel.meet(table * 3, table, wild, b"\0")  # reads nothing beyond the hashes
