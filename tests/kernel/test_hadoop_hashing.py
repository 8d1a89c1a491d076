"""The kernel sets and finds the bits of Hadoop's filter as the specification in plain Python does."""

from __future__ import annotations

import array
import itertools
import sys

import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom import _kernel

KEYS = st.lists(st.binary(max_size=40), max_size=30)


def packed(keys: list[bytes], typecode: str = "q") -> tuple[array.array[int], int, array.array[int]]:
    offsets = array.array(typecode, itertools.accumulate(map(len, keys), initial=0))
    return offsets, offsets.itemsize, array.array("B", b"".join(keys))


def built(keys: list[bytes], num_bits: int, num_hashes: int) -> bytes:
    bits = bytearray(-(-num_bits // 8))
    _kernel.hadoop_insert(bits, num_bits, num_hashes, *packed(keys), 0, len(keys))
    return bytes(bits)


@given(keys=KEYS, num_bits=st.integers(1, 300), num_hashes=st.integers(1, 12))
def test_insert_sets_the_bits_of_the_specification(keys: list[bytes], num_bits: int, num_hashes: int) -> None:
    assert built(keys, num_bits, num_hashes) == reference.hadoop_bits(keys, num_bits, num_hashes)


@pytest.mark.parametrize("fill", [b"\0", b"a", b"\x7f", b"\x80", b"\xff"])
def test_every_length(fill: bytes) -> None:
    """The groups of long keys take another way through the kernel."""
    keys = [fill * length + bytes([length % 256]) for length in [*range(80), *range(250, 300), 1000, 1001, 1002, 1003]]
    for key in keys:
        assert built([key], 99991, 9) == reference.hadoop_bits([key], 99991, 9)


@given(keys=KEYS, probes=KEYS, num_bits=st.integers(1, 300), num_hashes=st.integers(1, 12))
def test_check_answers_like_the_specification(
    keys: list[bytes], probes: list[bytes], num_bits: int, num_hashes: int
) -> None:
    bits = reference.hadoop_bits(keys, num_bits, num_hashes)
    asked = keys + probes
    found = _kernel.hadoop_check(bits, num_bits, num_hashes, *packed(asked), 0, len(asked))
    expected = [
        all(bits[at // 8] >> at % 8 & 1 for at in reference.hadoop_positions(key, num_bits, num_hashes))
        for key in asked
    ]
    assert list(found) == expected
    assert found[: len(keys)] == b"\1" * len(keys)


@pytest.mark.parametrize("typecode", ["i", "q"])
@given(keys=KEYS, slice=st.data())
def test_any_slice(keys: list[bytes], slice: st.DataObject, typecode: str) -> None:
    start = slice.draw(st.integers(0, len(keys)))
    count = slice.draw(st.integers(0, len(keys) - start))
    bits = bytearray(13)
    _kernel.hadoop_insert(bits, 100, 3, *packed(keys, typecode), start, count)
    assert bits == reference.hadoop_bits(keys[start : start + count], 100, 3)
    assert _kernel.hadoop_check(bits, 100, 3, *packed(keys, typecode), start, count) == b"\1" * count


def test_more_keys_than_offsets_are_looked_at_together() -> None:
    keys = [str(number).encode() * (number % 5) for number in range(1000)]
    bits = built(keys, 4001, 5)
    assert bits == reference.hadoop_bits(keys, 4001, 5)
    assert _kernel.hadoop_check(bits, 4001, 5, *packed(keys), 0, 1000) == b"\1" * 1000
    others = [f"{number}?".encode() for number in range(1000)]
    assert 0 in _kernel.hadoop_check(bits, 4001, 5, *packed(others), 0, 1000)


def test_inserts_keep_the_bits_that_were_there() -> None:
    bits = bytearray(b"\x10" * 13)
    _kernel.hadoop_insert(bits, 104, 3, *packed([b"key"]), 0, 1)
    expected = reference.hadoop_bits([b"key"], 104, 3)
    assert bits == bytes(one | 0x10 for one in expected)


@pytest.mark.parametrize(
    ("size", "num_bits", "num_hashes"),
    [(1, 0, 1), (0, 0, 1), (1, 9, 1), (2, 8, 1), (1, 8, 0), (1, -1, 1), (1, 8, -1), (1, 8, 2**31), (1, 2**31, 1)],
)
def test_filters_that_cannot_be_are_refused(size: int, num_bits: int, num_hashes: int) -> None:
    keys = packed([b"key"])
    with pytest.raises(ValueError, match=f"{size} bytes are not a filter of {num_bits} bits and {num_hashes} hashes"):
        _kernel.hadoop_insert(bytearray(size), num_bits, num_hashes, *keys, 0, 1)
    with pytest.raises(ValueError, match="are not a filter"):
        _kernel.hadoop_check(bytes(size), num_bits, num_hashes, *keys, 0, 1)


@pytest.mark.parametrize(
    ("offsets", "bad_value"), [([0, 4, 11], 1), ([-1, 4], 0), ([3, 2], 0), ([0] * 600 + [11], 599)]
)
def test_offsets_that_leave_the_data_are_refused(offsets: list[int], bad_value: int) -> None:
    arguments = (8, 1, array.array("q", offsets), 8, bytes(10), 0, len(offsets) - 1)
    with pytest.raises(ValueError, match=f"value {bad_value} run backwards or leave the 10 bytes"):
        _kernel.hadoop_insert(bytearray(1), *arguments)
    with pytest.raises(ValueError, match=f"value {bad_value} run backwards or leave the 10 bytes"):
        _kernel.hadoop_check(bytes(1), *arguments)


@pytest.mark.parametrize(("start", "count"), [(0, 3), (2, 1), (-1, 1), (0, -1), (0, sys.maxsize), (sys.maxsize, 1)])
def test_missing_offsets_are_refused(start: int, count: int) -> None:
    with pytest.raises(ValueError, match="values from index"):
        _kernel.hadoop_check(bytes(1), 8, 1, bytes(12), 4, b"", start, count)
    with pytest.raises(ValueError, match="offsets are 4 or 8 bytes wide"):
        _kernel.hadoop_insert(bytearray(1), 8, 1, bytes(12), 3, b"", 0, 1)
