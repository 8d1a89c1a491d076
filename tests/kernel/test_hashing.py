"""The kernel's hashes are those of the specification and of the xxhash package."""

from __future__ import annotations

import array
import itertools
import sys

import pyarrow as pa
import pytest
import reference
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom import _kernel


def unpacked(hashes: bytes) -> list[int]:
    assert len(hashes) % 8 == 0
    return [int.from_bytes(hashes[at : at + 8], sys.byteorder) for at in range(0, len(hashes), 8)]


def exactly(data: bytes) -> array.array[int]:
    """The same bytes without the zero byte that `bytes` keeps after the end, where an overrun would go unseen."""
    return array.array("B", data)


def offsets_of(values: list[bytes], typecode: str) -> array.array[int]:
    return array.array(typecode, itertools.accumulate(map(len, values), initial=0))


def test_xxhash_and_the_specification_agree_on_every_length() -> None:
    data = bytes(range(256))
    for length in range(201):
        assert xxhash.xxh64_intdigest(data[:length]) == reference.xxh64(data[:length])


def test_fixed_values_of_every_width() -> None:
    for width in range(1, 201):
        data = b"".join(xxhash.xxh128_digest(f"{i}".encode()) for i in range(2 * width))[: width * 21]
        expected = [reference.xxh64(data[i * width : (i + 1) * width]) for i in range(21)]
        assert unpacked(_kernel.hash_fixed(exactly(data), width, 0, 21)) == expected, width


@given(data=st.binary(max_size=400), width=st.integers(1, 40), slice=st.data())
def test_any_slice_of_fixed_values(data: bytes, width: int, slice: st.DataObject) -> None:
    available = len(data) // width
    start = slice.draw(st.integers(0, available))
    count = slice.draw(st.integers(0, available - start))
    expected = [xxhash.xxh64_intdigest(data[i * width : (i + 1) * width]) for i in range(start, start + count)]
    assert unpacked(_kernel.hash_fixed(data, width, start, count)) == expected


@pytest.mark.parametrize(("width", "typecode"), [(4, "i"), (8, "q")])
def test_variable_values_of_every_length(width: int, typecode: str) -> None:
    for length in range(201):
        values = [bytes([i % 256]) * length for i in range(5)]
        offsets = offsets_of(values, typecode)
        expected = [reference.xxh64(value) for value in values]
        assert unpacked(_kernel.hash_variable(offsets, width, exactly(b"".join(values)), 0, 5)) == expected, length


@pytest.mark.parametrize(("width", "typecode"), [(4, "i"), (8, "q")])
@given(values=st.lists(st.binary(max_size=200), max_size=30), slice=st.data())
def test_any_slice_of_variable_values(values: list[bytes], slice: st.DataObject, width: int, typecode: str) -> None:
    start = slice.draw(st.integers(0, len(values)))
    count = slice.draw(st.integers(0, len(values) - start))
    hashes = _kernel.hash_variable(offsets_of(values, typecode), width, b"".join(values), start, count)
    assert unpacked(hashes) == [xxhash.xxh64_intdigest(value) for value in values[start : start + count]]


@pytest.mark.parametrize("odd_one", [None, 0, 255, 256, 511, 999])
def test_long_runs_with_one_value_of_another_length(odd_one: int | None) -> None:
    """Runs of equally long values take another way through the kernel than mixed ones."""
    values = [i.to_bytes(2, "little") * 16 for i in range(1000)]
    if odd_one is not None:
        values[odd_one] += b"!"
    hashes = _kernel.hash_variable(offsets_of(values, "i"), 4, b"".join(values), 0, 1000)
    assert unpacked(hashes) == [xxhash.xxh64_intdigest(value) for value in values]


@pytest.mark.parametrize("shift", range(8))
def test_unaligned_buffers(shift: int) -> None:
    values = [b"hello", b"", b"parquet" * 9, b"bloom", b"filter" * 6]
    data, offsets = b"".join(values), offsets_of(values, "q").tobytes()
    hashes = _kernel.hash_variable(
        memoryview(b"?" * shift + offsets)[shift:], 8, memoryview(b"?" * shift + data)[shift:], 0, len(values)
    )
    assert unpacked(hashes) == [xxhash.xxh64_intdigest(value) for value in values]
    hashes = _kernel.hash_fixed(memoryview(b"?" * shift + data)[shift:], 8, 0, 5)
    assert unpacked(hashes) == [xxhash.xxh64_intdigest(data[at : at + 8]) for at in range(0, 40, 8)]


def test_arrow_buffers() -> None:
    strings = pa.array(["hello", "", "parquet", "bloom"])
    _, offsets, data = strings.buffers()
    hashes = _kernel.hash_variable(offsets, 4, data, 1, 3)
    assert unpacked(hashes) == [xxhash.xxh64_intdigest(value) for value in (b"", b"parquet", b"bloom")]
    integers = pa.array([1, -1, 2**40])
    hashes = _kernel.hash_fixed(integers.buffers()[1], 8, 0, 3)
    assert unpacked(hashes) == [xxhash.xxh64_intdigest(n.to_bytes(8, "little", signed=True)) for n in (1, -1, 2**40)]


def test_nothing_hashes_to_nothing() -> None:
    assert _kernel.hash_fixed(b"", 8, 0, 0) == b""
    assert _kernel.hash_variable(b"", 4, b"", 0, 0) == b""
    assert _kernel.hash_variable(bytes(4), 4, b"", 0, 0) == b""


@pytest.mark.parametrize(
    ("size", "width", "start", "count"),
    [
        (16, 8, 0, 3),
        (16, 8, 1, 2),
        (16, 8, 3, 0),
        (15, 8, 0, 2),
        (16, 8, -1, 1),
        (16, 8, 0, -1),
        (16, 0, 0, 1),
        (16, -8, 0, 1),
        (16, 8, sys.maxsize, 1),
        (16, 8, 1, sys.maxsize),
        (16, sys.maxsize, 0, 1),
    ],
)
def test_fixed_values_beyond_the_buffer_are_refused(size: int, width: int, start: int, count: int) -> None:
    with pytest.raises(ValueError, match="values"):
        _kernel.hash_fixed(bytes(size), width, start, count)


@pytest.mark.parametrize(("width", "typecode"), [(4, "i"), (8, "q")])
@pytest.mark.parametrize(
    ("offsets", "bad_value"),
    [
        ([0, 4, 11], 1),
        ([0, 4, 3, 5], 1),
        ([-1, 4], 0),
        ([0, -1, 4], 0),
        ([3, 2], 0),
        ([11, 11], 0),
        ([0, 2**31 - 1], 0),
        ([-(2**31), -(2**31)], 0),
        ([0] * 600 + [11], 599),
        ([0] * 256 + [5, 4], 256),
    ],
)
def test_offsets_that_leave_the_data_are_refused(offsets: list[int], bad_value: int, width: int, typecode: str) -> None:
    with pytest.raises(ValueError, match=f"value {bad_value} run backwards or leave the 10 bytes"):
        _kernel.hash_variable(array.array(typecode, offsets), width, exactly(bytes(10)), 0, len(offsets) - 1)


@given(offsets=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 12), min_size=2, max_size=9))
def test_arbitrary_offsets_are_hashed_or_refused(offsets: list[int]) -> None:
    data = b"0123456789"
    sound = all(0 <= a <= b <= len(data) for a, b in itertools.pairwise(offsets))
    buffer = array.array("q", offsets)
    if sound:
        expected = [xxhash.xxh64_intdigest(data[a:b]) for a, b in itertools.pairwise(offsets)]
        assert unpacked(_kernel.hash_variable(buffer, 8, exactly(data), 0, len(offsets) - 1)) == expected
    else:
        with pytest.raises(ValueError, match="run backwards or leave"):
            _kernel.hash_variable(buffer, 8, exactly(data), 0, len(offsets) - 1)


@pytest.mark.parametrize(
    ("offsets_size", "width", "start", "count"),
    [
        (12, 4, 0, 3),
        (12, 4, 2, 1),
        (12, 4, 3, 0),
        (0, 4, 0, 1),
        (4, 4, 0, 1),
        (15, 8, 0, 1),
        (12, 4, -1, 1),
        (12, 4, 0, -1),
        (12, 4, 0, sys.maxsize),
        (12, 4, sys.maxsize, 1),
    ],
)
def test_missing_offsets_are_refused(offsets_size: int, width: int, start: int, count: int) -> None:
    with pytest.raises(ValueError, match="values from index"):
        _kernel.hash_variable(bytes(offsets_size), width, b"", start, count)


@pytest.mark.parametrize("width", [0, 1, 2, 5, 16, -4])
def test_other_offset_widths_are_refused(width: int) -> None:
    with pytest.raises(ValueError, match="offsets are 4 or 8 bytes wide"):
        _kernel.hash_variable(bytes(64), width, b"", 0, 1)


def test_arguments_that_are_no_buffers_are_refused() -> None:
    with pytest.raises(TypeError):
        _kernel.hash_fixed("text", 8, 0, 0)  # type: ignore[arg-type]
    with pytest.raises((TypeError, BufferError)):
        _kernel.hash_fixed(memoryview(bytes(64))[::2], 8, 0, 1)
