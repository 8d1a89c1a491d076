"""Sizes and expected rates follow the exact formula."""

from __future__ import annotations

import math

import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.format.sbbf import (
    MAX_BYTES,
    MIN_PORTABLE_BYTES,
    SplitBlockBloomFilter,
    false_positive_rate,
    optimal_num_bytes,
)


@given(bits_per_value=st.floats(0.5, 2000))
def test_the_rate_is_that_of_the_specification(bits_per_value: float) -> None:
    expected = reference.expected_rate(bits_per_value)
    assert false_positive_rate(bits_per_value) == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("bits_per_value", "rate"),
    [(5.99, 0.1), (10.53, 0.01), (16.89, 0.001), (26.34, 0.0001), (40.99, 0.00001), (9.68, 0.0146)],
)
def test_published_bits_per_value(bits_per_value: float, rate: float) -> None:
    assert false_positive_rate(bits_per_value) == pytest.approx(rate, rel=4e-3)


def test_the_extremes_of_the_rate() -> None:
    assert false_positive_rate(math.inf) == 0
    assert false_positive_rate(1e-300) == 1
    rates = [false_positive_rate(b / 100) for b in range(1, 20_000, 7)]
    assert rates == sorted(rates, reverse=True)
    assert max(rates) <= 1


@pytest.mark.parametrize("bits_per_value", [0, -1, math.nan, -math.inf])
def test_impossible_bits_per_value_are_refused(bits_per_value: float) -> None:
    with pytest.raises(ValueError, match="more than 0"):
        false_positive_rate(bits_per_value)


@given(ndv=st.integers(1, 10**8), fpp=st.floats(1e-6, 0.5))
def test_the_optimal_size_is_the_smallest_that_keeps_the_rate(ndv: int, fpp: float) -> None:
    num_bytes = optimal_num_bytes(ndv, fpp)
    assert num_bytes.bit_count() == 1
    assert MIN_PORTABLE_BYTES <= num_bytes <= MAX_BYTES
    if num_bytes < MAX_BYTES:
        assert false_positive_rate(8 * num_bytes / ndv) <= fpp
    if num_bytes > MIN_PORTABLE_BYTES:
        assert false_positive_rate(8 * (num_bytes // 2) / ndv) > fpp


@pytest.mark.parametrize(
    ("ndv", "fpp", "num_bytes"),
    [
        (0, 0.01, 64),
        (1, 0.01, 64),
        (14, 0.01, 64),
        (100, 0.01, 256),
        (1_000, 0.01, 2048),
        (100_000, 0.01, 256 * 1024),
        (1_000_000, 0.01, 2 * 1024 * 1024),
        (10**9, 0.01, MAX_BYTES),
        (10**30, 0.01, MAX_BYTES),
    ],
)
def test_some_sizes(ndv: int, fpp: float, num_bytes: int) -> None:
    assert optimal_num_bytes(ndv, fpp) == num_bytes
    assert SplitBlockBloomFilter.sized_for(ndv, fpp).num_bytes == num_bytes


@pytest.mark.parametrize(("max_bytes", "num_bytes"), [(64, 64), (127, 64), (3000, 2048), (4096, 4096)])
def test_max_bytes_caps_at_a_power_of_two(max_bytes: int, num_bytes: int) -> None:
    assert optimal_num_bytes(10**6, 0.01, max_bytes=max_bytes) == num_bytes
    assert SplitBlockBloomFilter.sized_for(10**6, 0.01, max_bytes=max_bytes).num_bytes == num_bytes


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        optimal_num_bytes(-1, 0.01)
    for fpp in (0.0, 1.0, -0.1, 2.0, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            optimal_num_bytes(1, fpp)
    with pytest.raises(ValueError, match="max_bytes"):
        optimal_num_bytes(1, 0.01, max_bytes=63)
