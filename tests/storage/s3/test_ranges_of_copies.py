"""The ranges in which a large object is copied within S3 are equal, and parts that S3 takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.storage.s3 import MAX_PART, MIN_PART, _equal_ranges


@given(st.integers(MIN_PART, 50 * 1024**4))
def test_ranges_are_equal_and_no_part_is_too_large_or_too_small(length: int) -> None:
    ranges = _equal_ranges(length)
    sizes = [stop - start for start, stop in ranges]
    assert [0, *(stop for _, stop in ranges)] == [*(start for start, _ in ranges), length]
    assert MIN_PART <= min(sizes) <= max(sizes) <= MAX_PART
    assert max(sizes) - min(sizes) <= 1
    assert len(ranges) == -(-length // MAX_PART) < 10_500
