"""The numbers in a Roaring bitmap of 32-bit numbers, in the portable format (Roaring's RoaringFormatSpec).

    cookie      4 bytes: 12346; or in the lower half 12347, and in the upper one the number of containers less 1
    number      4 bytes, after 12346 only: of containers
    flags       after 12347 only: a bit for each container, 1 if it has runs
    keys        for each container the upper 16 bits of its numbers, and how many numbers it has, less 1
    offsets     4 bytes for each container; after 12347 only from 4 containers on
    containers  the lower 16 bits of up to 4,096 numbers; or 65,536 bits, 1 for each number that is there;
                or the number of runs, and of each run the first number and how many more there are

All of them are little-endian, and numbers ascend. A few bytes may hold 2^32 numbers, so they are counted first.
"""

from __future__ import annotations

import operator
import sys
from array import array
from collections.abc import Callable
from io import BytesIO
from itertools import islice

from parquet_bloom.values.arrays import numbers_of

_PLAIN, _WITH_RUNS, _FEW, _MOST_IN_ARRAY = 12346, 12347, 4, 4096


def numbers_in(data: BytesIO, allow: Callable[[int], None]) -> array[int]:
    """Return the numbers, ascending, and leave `data` behind the bitmap; `allow` raises for too many numbers.

    Raises `ValueError` for what is damaged, and `EOFError` for what is cut off.
    """
    keys, counts, has_runs = _header(data)
    allow(sum(counts))
    numbers = array("q")
    for key, count, is_run in zip(keys, counts, has_runs, strict=True):
        before = len(numbers)
        if is_run:
            numbers.extend(_of_runs(data, key << 16, count))
        elif count <= _MOST_IN_ARRAY:
            numbers.extend(key << 16 | low for low in _shorts(data, count))
        else:
            numbers.extend(_of_bits(take(data, 8192), key << 16))
        if len(numbers) - before != count:
            raise ValueError(f"a container has {len(numbers) - before:,} numbers instead of {count:,}")
    if not all(map(operator.lt, numbers, islice(numbers, 1, None))):
        raise ValueError("the numbers do not ascend")
    return numbers


def take(data: BytesIO, size: int) -> bytes:
    """Return the next bytes. Raises `EOFError` if there are fewer."""
    taken = data.read(size)
    if len(taken) < size:
        raise EOFError("it is cut off")
    return taken


def _header(data: BytesIO) -> tuple[array[int], list[int], list[bool]]:
    """Return for each container its key, how many numbers it has, and whether it has runs."""
    cookie = int.from_bytes(take(data, 4), "little")
    flags = b""
    if cookie == _PLAIN:
        number = int.from_bytes(take(data, 4), "little")
    elif cookie & 0xFFFF == _WITH_RUNS:
        number = (cookie >> 16) + 1
        flags = take(data, (number + 7) // 8)
    else:
        raise ValueError(f"it does not start as a Roaring bitmap, but with {cookie}")
    if number > 1 << 16:
        raise ValueError(f"it has {number:,} containers")
    pairs = _shorts(data, 2 * number)
    if cookie == _PLAIN or number >= _FEW:
        take(data, 4 * number)
    has_runs = [bool(flags[one >> 3] >> (one & 7) & 1) for one in range(number)] if flags else [False] * number
    return pairs[::2], [count + 1 for count in pairs[1::2]], has_runs


def _of_runs(data: BytesIO, base: int, count: int) -> array[int]:
    (number,) = _shorts(data, 1)
    pairs = _shorts(data, 2 * number)
    runs = list(zip(pairs[::2], pairs[1::2], strict=True))
    if sum(more + 1 for _, more in runs) != count or any(first + more >= 1 << 16 for first, more in runs):
        raise ValueError(f"the runs of a container do not have its {count:,} numbers")
    numbers = array("q")
    for first, more in runs:
        numbers.extend(range(base + first, base + first + more + 1))
    return numbers


def _of_bits(bits: bytes, base: int) -> array[int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    there = pa.Array.from_buffers(pa.bool_(), 1 << 16, [None, pa.py_buffer(bits)])
    return numbers_of(pc.add(pc.indices_nonzero(there).cast(pa.int64()), base))


def _shorts(data: BytesIO, count: int) -> array[int]:
    shorts = array("H", take(data, 2 * count))
    if sys.byteorder == "big":
        shorts.byteswap()
    return shorts
