"""The kernel hashes numbers, sets and finds the bits of Paimon's filter as plain Python does."""

from __future__ import annotations

import array

import pytest
import reference
from hypothesis import example, given
from hypothesis import strategies as st

from parquet_bloom import _kernel

HASHES = st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**64 - 1, 2**63, 2**31, 2**32 - 1]), max_size=30)
SIZES = st.integers(1, 40)
NUM_HASHES = st.integers(1, 150)


def packed(hashes: list[int]) -> array.array[int]:
    return array.array("Q", hashes)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
@example([-1, 0, 1, -(2**63), 2**63 - 1])
def test_numbers_are_hashed_as_the_specification_has_it(values: list[int]) -> None:
    assert array.array("Q", _kernel.hash_wang64(array.array("q", values))).tolist() == list(
        map(reference.wang64, values)
    )


@given(HASHES, SIZES, NUM_HASHES)
def test_insert_sets_the_bits_of_the_specification(hashes: list[int], size: int, num_hashes: int) -> None:
    bits = bytearray(size)
    _kernel.paimon_insert(bits, num_hashes, packed(hashes))
    assert bits == reference.paimon_filter(hashes, num_hashes, 8 * size)[4:]
    assert _kernel.paimon_check(bits, num_hashes, packed(hashes)) == b"\1" * len(hashes)


@given(st.binary(min_size=1, max_size=40), HASHES, st.integers(1, 12))
def test_check_answers_like_the_specification(bits: bytes, hashes: list[int], num_hashes: int) -> None:
    wanted = [
        all(bits[at // 8] >> at % 8 & 1 for at in reference.paimon_places(hashed, num_hashes, 8 * len(bits)))
        for hashed in hashes
    ]
    assert list(_kernel.paimon_check(bits, num_hashes, packed(hashes))) == wanted


def test_inserts_keep_the_bits_that_were_there() -> None:
    bits = bytearray(b"\x10" * 13)
    _kernel.paimon_insert(bits, 3, packed([12345]))
    assert bits == bytes(one | 0x10 for one in reference.paimon_filter([12345], 3, 104)[4:])


@pytest.mark.parametrize(("size", "num_hashes"), [(0, 1), (1, 0), (1, -1), (1, 2**31), (2**28, 1)])
def test_filters_that_cannot_be_are_refused(size: int, num_hashes: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes are not a filter of {num_hashes} hashes"):
        _kernel.paimon_insert(bytearray(size), num_hashes, packed([1]))
    with pytest.raises(ValueError, match="are not a filter"):
        _kernel.paimon_check(bytes(size), num_hashes, packed([1]))


def test_the_largest_filter_has_its_last_bit() -> None:
    bits = bytearray(2**28 - 1)
    num_bits = 8 * len(bits)
    hashed = num_bits - 1  # high is 0, so every place is the low half
    _kernel.paimon_insert(bits, 2, packed([hashed]))
    assert bits[-1] == 0x80
    assert _kernel.paimon_check(bits, 2, packed([hashed, hashed - 1])) == b"\1\0"


@pytest.mark.parametrize("size", [1, 7, 9])
def test_what_is_no_row_of_hashes_is_refused(size: int) -> None:
    for call in (
        lambda: _kernel.hash_wang64(bytes(size)),
        lambda: _kernel.paimon_insert(bytearray(8), 1, bytes(size)),
        lambda: _kernel.paimon_check(bytes(8), 1, bytes(size)),
    ):
        with pytest.raises(ValueError, match=f"{size} bytes is not a multiple"):
            call()
