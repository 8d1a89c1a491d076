"""Roaring bitmaps: the numbers are those of another implementation, and damage is an error."""

from __future__ import annotations

from io import BytesIO

import pyroaring
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parquet_bloom.tables.roaring import numbers_in

NUMBERS = st.integers(0, 2**32 - 1) | st.integers(0, 300_000)
RANGES = st.tuples(st.integers(0, 400_000), st.integers(1, 70_000), st.sampled_from([1, 2, 3, 17]))


def bitmap(numbers: set[int], ranges: list[tuple[int, int, int]], *, has_runs: bool) -> pyroaring.BitMap:
    made = pyroaring.BitMap(numbers)
    for first, count, step in ranges:
        made |= pyroaring.BitMap(range(first, first + count, step))
    if has_runs:
        made.run_optimize()
    return made


@settings(max_examples=150, deadline=None)
@given(numbers=st.sets(NUMBERS, max_size=50), ranges=st.lists(RANGES, max_size=4), has_runs=st.booleans())
def test_the_numbers_are_those_of_another_implementation(
    numbers: set[int], ranges: list[tuple[int, int, int]], has_runs: bool
) -> None:
    made, counts = bitmap(numbers, ranges, has_runs=has_runs), []
    data = BytesIO(made.serialize() + b"rest")
    assert list(numbers_in(data, counts.append)) == list(made)
    assert counts == [len(made)]
    assert data.read() == b"rest"


@pytest.mark.parametrize("has_runs", [False, True])
def test_what_is_cut_off_is_an_error(has_runs: bool) -> None:
    data = bitmap({5, 2**20}, [(100, 9000, 2), (200_000, 500, 1)], has_runs=has_runs).serialize()
    for end in [*range(60), *range(60, len(data), 97), len(data) - 1]:
        with pytest.raises(EOFError):
            numbers_in(BytesIO(data[:end]), lambda count: None)


@settings(max_examples=300, deadline=None)
@given(has_runs=st.booleans(), at=st.integers(0, 200), byte=st.integers(0, 255))
def test_damage_is_an_error_or_numbers_that_ascend_and_were_allowed(has_runs: bool, at: int, byte: int) -> None:
    data = bytearray(bitmap({5, 2**20}, [(100, 9000, 2), (200_000, 500, 1)], has_runs=has_runs).serialize())
    data[at % len(data)] = byte
    counts: list[int] = []

    def allow(count: int) -> None:
        counts.append(count)
        if count > 10_000:
            raise ValueError("too many")

    try:
        numbers = list(numbers_in(BytesIO(bytes(data)), allow))
    except (ValueError, EOFError):
        return
    assert numbers == sorted(set(numbers))
    assert counts == [len(numbers)]


def test_numbers_are_counted_before_they_are_made() -> None:
    made = pyroaring.BitMap(range(2**31))
    made.run_optimize()
    assert len(made.serialize()) < 2**20

    def refuse(count: int) -> None:
        raise ValueError(f"{count} numbers")

    with pytest.raises(ValueError, match=f"^{2**31} numbers$"):
        numbers_in(BytesIO(made.serialize()), refuse)
