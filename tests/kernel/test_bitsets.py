"""The kernel inserts, checks, folds, merges and counts as the specification says."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom import _kernel

HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=60)
BITSETS = st.integers(1, 12).flatmap(lambda z: st.binary(min_size=32 * z, max_size=32 * z))


def packed(hashes: list[int]) -> bytes:
    return b"".join(hash.to_bytes(8, sys.byteorder) for hash in hashes)


def some_hashes(count: int, seed: int = 0) -> list[int]:
    return [reference.xxh64(f"{seed}:{i}".encode()) for i in range(count)]


def built(num_blocks: int, hashes: list[int]) -> bytes:
    bitset = bytearray(32 * num_blocks)
    _kernel.insert(bitset, packed(hashes))
    return bytes(bitset)


@given(num_blocks=st.integers(1, 70), hashes=HASHES)
def test_insert_builds_the_bitset_of_the_specification(num_blocks: int, hashes: list[int]) -> None:
    assert built(num_blocks, hashes) == reference.to_bytes(reference.build(num_blocks, hashes))


@pytest.mark.parametrize("num_blocks", [1, 2, 3, 7, 64, 93, 1000, 1024])
def test_many_inserts(num_blocks: int) -> None:
    hashes = some_hashes(2000)
    assert built(num_blocks, hashes) == reference.to_bytes(reference.build(num_blocks, hashes))


@given(bitset=BITSETS, hashes=HASHES)
def test_insert_keeps_the_bits_that_were_there(bitset: bytes, hashes: list[int]) -> None:
    blocks = reference.from_bytes(bitset)
    for hash in hashes:
        reference.insert(blocks, hash)
    mutable = bytearray(bitset)
    _kernel.insert(mutable, packed(hashes))
    assert bytes(mutable) == reference.to_bytes(blocks)


@given(num_blocks=st.integers(1, 70), hashes=HASHES)
def test_an_inserted_hash_is_found(num_blocks: int, hashes: list[int]) -> None:
    assert _kernel.check(built(num_blocks, hashes), packed(hashes)) == b"\1" * len(hashes)


@pytest.mark.parametrize("num_blocks", [1, 3, 8, 50])
def test_check_answers_like_the_specification(num_blocks: int) -> None:
    bitset = built(num_blocks, some_hashes(16 * num_blocks))
    probes = some_hashes(3000, seed=1)
    expected = [reference.check(reference.from_bytes(bitset), hash) for hash in probes]
    assert 0 < sum(expected) < 3000
    assert list(_kernel.check(bitset, packed(probes))) == expected


@given(hash=st.integers(0, 2**64 - 1), num_blocks=st.integers(1, 9))
def test_a_hash_is_missing_as_soon_as_one_of_its_bits_is(hash: int, num_blocks: int) -> None:
    full = [[0xFFFFFFFF] * 8 for _ in range(num_blocks)]
    assert _kernel.check(reference.to_bytes(full), packed([hash])) == b"\1"
    for word, bit in enumerate(reference.mask(hash)):
        block = full[reference.block_index(hash, num_blocks)]
        block[word] &= ~bit
        assert _kernel.check(reference.to_bytes(full), packed([hash])) == b"\0"
        block[word] |= bit


@pytest.mark.parametrize("shift", range(8))
def test_unaligned_buffers(shift: int) -> None:
    hashes = some_hashes(100)
    expected = reference.to_bytes(reference.build(5, hashes))
    memory = bytearray(shift + 160)
    shifted_hashes = memoryview(b"?" * shift + packed(hashes))[shift:]
    _kernel.insert(memoryview(memory)[shift:], shifted_hashes)
    assert memory == bytes(shift) + expected
    assert _kernel.check(memoryview(memory)[shift:], shifted_hashes) == b"\1" * 100
    assert _kernel.merge(memoryview(memory)[shift:], bytes(160)) == expected
    assert _kernel.fold(memoryview(memory)[shift : shift + 128]) == _kernel.fold(expected[:128])
    assert _kernel.census(memoryview(memory)[shift:]) == _kernel.census(expected)


@given(num_blocks=st.integers(1, 40), hashes=HASHES)
def test_a_fold_is_the_filter_built_at_half_the_size(num_blocks: int, hashes: list[int]) -> None:
    assert _kernel.fold(built(2 * num_blocks, hashes)) == built(num_blocks, hashes)


@given(bitset=BITSETS)
def test_fold_is_that_of_the_specification(bitset: bytes) -> None:
    assert _kernel.fold(bitset + bitset[::-1]) == reference.to_bytes(
        reference.fold(reference.from_bytes(bitset + bitset[::-1]))
    )


@given(num_blocks=st.integers(1, 40), one=HASHES, other=HASHES)
def test_a_merge_is_the_filter_of_all_hashes(num_blocks: int, one: list[int], other: list[int]) -> None:
    merged = _kernel.merge(built(num_blocks, one), built(num_blocks, other))
    assert merged == built(num_blocks, one + other)


def assert_census_is_exact(bitset: bytes) -> None:
    blocks = reference.from_bytes(bitset)
    bits, rate, worst = _kernel.census(bitset)
    assert bits == reference.bits_set(blocks)
    assert rate == pytest.approx(float(reference.rate(blocks)), rel=1e-14, abs=0)
    assert worst == float(max(map(reference.block_rate, blocks)))


@given(bitset=BITSETS)
def test_census(bitset: bytes) -> None:
    assert_census_is_exact(bitset)


@pytest.mark.parametrize("per_block", [0, 1, 8, 40, 300])
def test_census_of_built_filters(per_block: int) -> None:
    assert_census_is_exact(built(60, some_hashes(60 * per_block)))


def test_census_of_many_full_blocks_does_not_overflow() -> None:
    num_bytes = 32 * (2**20 + 1)
    assert _kernel.census(b"\xff" * num_bytes) == (8 * num_bytes, 1.0, 1.0)
    assert _kernel.census(bytes(num_bytes)) == (0, 0.0, 0.0)


@pytest.mark.parametrize("size", [0, 1, 31, 33, 3000])
@pytest.mark.parametrize(
    "call",
    [
        lambda bitset: _kernel.insert(bitset, b""),
        lambda bitset: _kernel.check(bitset, b""),
        lambda bitset: _kernel.fold(bitset),
        lambda bitset: _kernel.merge(bitset, bytes(len(bitset))),
        lambda bitset: _kernel.census(bitset),
    ],
    ids=["insert", "check", "fold", "merge", "census"],
)
def test_sizes_that_are_no_blocks_are_refused(call: Callable[[bytearray], object], size: int) -> None:
    with pytest.raises(ValueError, match="blocks"):
        call(bytearray(size))


@pytest.mark.parametrize("size", [1, 7, 9])
def test_a_part_of_a_hash_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="8 bytes each"):
        _kernel.insert(bytearray(32), bytes(size))
    with pytest.raises(ValueError, match="8 bytes each"):
        _kernel.check(bytes(32), bytes(size))


def test_an_odd_number_of_blocks_does_not_fold() -> None:
    with pytest.raises(ValueError, match="even number"):
        _kernel.fold(bytes(96))


def test_bitsets_of_different_sizes_do_not_merge() -> None:
    with pytest.raises(ValueError, match="64 and 32 bytes cannot be merged"):
        _kernel.merge(bytes(64), bytes(32))


def test_a_read_only_bitset_is_not_written() -> None:
    with pytest.raises(TypeError, match="read-write"):
        _kernel.insert(bytes(32), b"")
