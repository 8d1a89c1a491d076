"""Coalescing reads what is wanted, no more than the limits allow, and gives back the exact slices."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.format.ranges import COALESCE_GAP, COALESCE_LIMIT, ByteRange, coalesce, cut

FILE = bytes(i * 31 % 251 for i in range(2000))
RANGES = st.lists(
    st.tuples(st.integers(0, 1990), st.integers(1, 200)).map(lambda r: ByteRange(r[0], min(r[0] + r[1], 2000))),
    max_size=12,
)
GAPS, LIMITS = st.integers(0, 300), st.integers(1, 600)


def read(ranges: list[ByteRange]) -> list[bytes]:
    return [FILE[r.start : r.stop] for r in ranges]


@given(wanted=RANGES, gap=GAPS, limit=LIMITS)
def test_what_is_cut_is_what_was_wanted(wanted: list[ByteRange], gap: int, limit: int) -> None:
    merged = coalesce(wanted, gap=gap, limit=limit)
    assert cut(wanted, merged, read(merged)) == read(wanted)


@given(wanted=RANGES, gap=GAPS, limit=LIMITS)
def test_merged_ranges_are_sorted_and_disjoint(wanted: list[ByteRange], gap: int, limit: int) -> None:
    merged = coalesce(wanted, gap=gap, limit=limit)
    assert all(a.stop <= b.start for a, b in itertools.pairwise(merged))


@given(wanted=RANGES, gap=GAPS, limit=LIMITS)
def test_neighbours_within_both_limits_are_one_request(wanted: list[ByteRange], gap: int, limit: int) -> None:
    merged = coalesce(wanted, gap=gap, limit=limit)
    for a, b in itertools.pairwise(merged):
        first_of_b = min((r for r in wanted if r.start == b.start), key=len)
        assert b.start - a.stop > gap or first_of_b.stop - a.start > limit


@given(wanted=RANGES, gap=GAPS)
def test_no_byte_is_read_twice_or_beyond_a_gap(wanted: list[ByteRange], gap: int) -> None:
    merged = coalesce(wanted, gap=gap, limit=10_000)
    asked = {i for r in wanted for i in range(r.start, r.stop)}
    unasked = sorted(i for r in merged for i in range(r.start, r.stop) if i not in asked)
    runs = [i for i in unasked if i - 1 not in unasked]
    assert all(any(start + k not in unasked for k in range(gap + 1)) for start in runs)


@given(lengths=st.lists(st.integers(1, 100), max_size=19), gap=GAPS, limit=LIMITS)
def test_no_request_for_disjoint_ranges_exceeds_the_limit_but_a_range_alone(
    lengths: list[int], gap: int, limit: int
) -> None:
    wanted = [ByteRange(100 * i, 100 * i + length) for i, length in enumerate(lengths)]
    assert all(len(merged) <= limit or merged in wanted for merged in coalesce(wanted, gap=gap, limit=limit))


@given(wanted=RANGES, short=st.integers(0, 2000))
def test_a_short_read_gives_short_pieces_never_zeros(wanted: list[ByteRange], short: int) -> None:
    merged = coalesce(wanted)
    parts = [FILE[r.start : min(r.stop, short)] if r.start < short else b"" for r in merged]
    expected = [FILE[r.start : min(r.stop, short)] if r.start < short else b"" for r in wanted]
    assert cut(wanted, merged, parts) == expected


def test_the_limits() -> None:
    near = [ByteRange(0, 100), ByteRange(100 + COALESCE_GAP, 200 + COALESCE_GAP)]
    far = [ByteRange(0, 100), ByteRange(101 + COALESCE_GAP, 200 + COALESCE_GAP)]
    assert coalesce(near) == [ByteRange(0, 200 + COALESCE_GAP)]
    assert coalesce(far) == far
    large = [ByteRange(0, COALESCE_LIMIT), ByteRange(COALESCE_LIMIT, COALESCE_LIMIT + 1)]
    assert coalesce(large) == large
    single = [ByteRange(0, 3 * COALESCE_LIMIT)]
    assert coalesce(single) == single
    assert coalesce([]) == []
