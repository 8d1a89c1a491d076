"""The kernel finds keys in many filters as the specification says, and its search of sorted values is Python's."""

from __future__ import annotations

import random
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Any

import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom import _kernel

LARGE = _kernel.CACHED_BYTES // 32 + 1  # blocks


def packed(hashes: list[int]) -> bytes:
    return b"".join(hash.to_bytes(8, sys.byteorder) for hash in hashes)


def find(filters: list[bytes], runs: list[tuple[int, int]], hashes: list[int], owners: Any = b"", **order: bool) -> Any:
    ranks = sorted(range(len(hashes)), key=hashes.__getitem__) if order.get("is_sorted") else []
    ordered = packed([hashes[rank] for rank in ranks])
    flat = array("q", [place for run in runs for place in run])
    found, counts = _kernel.find(tuple(filters), flat, packed(hashes), owners, ordered, array("I", ranks))
    rest = iter(array("I", found))
    return [[next(rest) for _ in range(count)] for count in array("I", counts)]


@pytest.mark.parametrize("is_sorted", [False, True])
def test_find_answers_like_the_specification(is_sorted: bool) -> None:
    dice = random.Random(6)
    hashes = [dice.getrandbits(64) for _ in range(900)]
    hashes += hashes[:50]  # keys may repeat
    filters, bitsets = [], []
    for num_blocks in (1, 3, 40, LARGE, LARGE + 7):
        inserted = [dice.getrandbits(64) for _ in range(3 * min(num_blocks, 100))] + dice.sample(hashes, 300)
        bitsets.append(reference.build(num_blocks, inserted))
        filters.append(reference.to_bytes(bitsets[-1]))
    runs = [(0, 950), (100, 100), (17, 641), (3, 900), (0, 64)]
    owners = list(range(950))
    dice.shuffle(owners)
    expected = [
        [at for at in range(start, stop) if reference.check(bitset, hashes[at])]
        for bitset, (start, stop) in zip(bitsets, runs, strict=True)
    ]
    assert all(0 < len(passing) < stop - start for passing, (start, stop) in zip(expected[2:], runs[2:], strict=True))
    assert find(filters, runs, hashes, is_sorted=is_sorted) == expected
    found = find(filters, runs, hashes, array("I", owners), is_sorted=is_sorted)
    assert found == [[owners[at] for at in passing] for passing in expected]


@given(st.lists(st.binary(max_size=3)), st.binary(max_size=3), st.binary(max_size=3), st.sampled_from(["i", "q"]))
def test_run_between_is_a_bisection(values: list[bytes], low: bytes, high: bytes, width: str) -> None:
    values.sort()
    offsets = array(width, [0, 0])  # the first value is left out
    for value in values:
        offsets.append(offsets[-1] + len(value))
    run = _kernel.run_between(offsets, offsets.itemsize, b"".join(values), 1, len(values), low, high)
    assert run == (bisect_left(values, low), bisect_right(values, high))


def test_mark_sets_flags() -> None:
    flags = bytearray(5)
    _kernel.mark(flags, array("I", [3, 0, 3]))
    assert flags == b"\1\0\0\1\0"
    with pytest.raises(ValueError, match="none with index 5"):
        _kernel.mark(flags, array("I", [5]))
    with pytest.raises(ValueError, match="4 bytes each"):
        _kernel.mark(flags, b"\0")


@pytest.mark.parametrize("run", [(-1, 0), (2, 1), (0, 3)])
def test_runs_that_leave_the_keys_are_refused(run: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="no run from"):
        find([bytes(32)], [run], [1, 2])


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ValueError, match="blocks"):
        find([bytes(33)], [(0, 0)], [])
    with pytest.raises(ValueError, match="runs of 2 filters"):
        find([bytes(32), bytes(32)], [(0, 0)], [])
    with pytest.raises(ValueError, match="owners of 2 keys"):
        find([bytes(32)], [(0, 2)], [1, 2], array("I", [0]))
    with pytest.raises(ValueError, match="sorted"):
        _kernel.find((), b"", packed([1, 2]), b"", packed([1]), array("I", [0]))
    with pytest.raises(TypeError):
        find(["not bytes"], [(0, 0)], [])  # type: ignore[list-item]


@pytest.mark.parametrize("offsets", [[0, 5], [2, 1], [-1, 0]])
def test_offsets_that_leave_the_data_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="leave the 3 bytes"):
        _kernel.run_between(array("q", offsets), 8, b"abc", 0, 1, b"a", b"b")


@pytest.mark.parametrize(("width", "start", "count"), [(8, 0, 2), (8, -1, 1), (4, 4, 1), (2, 0, 1), (8, 1, 2**62)])
def test_offsets_that_are_not_there_are_refused(width: int, start: int, count: int) -> None:
    with pytest.raises(ValueError, match="not the offsets"):
        _kernel.run_between(array("q", [0, 1]), width, b"a", start, count, b"a", b"b")
