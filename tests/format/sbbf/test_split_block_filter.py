"""A filter holds what was put in, folds and merges without loss, and knows its own rate."""

from __future__ import annotations

import copy
import math
import pickle
import sys
import threading

import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format.sbbf import SplitBlockBloomFilter, block_contains, block_index, blocks_contain, write_header

HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=60)
MIB = 1024 * 1024


def packed(hashes: list[int]) -> bytes:
    return b"".join(hash.to_bytes(8, sys.byteorder) for hash in hashes)


def some_hashes(count: int, seed: int = 0) -> list[int]:
    return [reference.xxh64(f"{seed}:{i}".encode()) for i in range(count)]


def built(num_bytes: int, hashes: list[int]) -> SplitBlockBloomFilter:
    bloom = SplitBlockBloomFilter(num_bytes)
    bloom.insert(packed(hashes))
    return bloom


def test_a_new_filter_is_empty() -> None:
    bloom = SplitBlockBloomFilter(96)
    assert (bloom.num_bytes, bloom.num_blocks, bytes(bloom.bitset)) == (96, 3, bytes(96))
    assert bloom.is_empty
    assert (bloom.fpp, bloom.worst_block_fpp, bloom.fill, bloom.estimated_ndv) == (0, 0, 0, 0)
    assert bloom.check(packed(some_hashes(100))) == bytes(100)


@pytest.mark.parametrize("num_bytes", [0, -32, 1, 33, 3000, 2**31])
def test_sizes_that_are_no_blocks_are_refused(num_bytes: int) -> None:
    with pytest.raises(ValueError, match="multiple of 32"):
        SplitBlockBloomFilter(num_bytes)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_bitsets_that_are_no_blocks_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="multiple of 32"):
        SplitBlockBloomFilter.from_bitset(bytes(size))


@given(num_blocks=st.integers(1, 70), hashes=HASHES)
def test_inserts_build_the_bitset_of_the_specification(num_blocks: int, hashes: list[int]) -> None:
    at_once, one_by_one = built(32 * num_blocks, hashes), SplitBlockBloomFilter(32 * num_blocks)
    for hash in hashes:
        one_by_one.insert_hash(hash)
    assert bytes(at_once.bitset) == reference.to_bytes(reference.build(num_blocks, hashes))
    assert at_once == one_by_one
    assert at_once.check(packed(hashes)) == b"\1" * len(hashes)
    assert all(map(at_once.check_hash, hashes))


def test_check_answers_like_the_specification() -> None:
    bloom, probes = built(160, some_hashes(80)), some_hashes(2000, seed=1)
    expected = [reference.check(reference.from_bytes(bytes(bloom.bitset)), hash) for hash in probes]
    assert 0 < sum(expected) < 2000
    assert list(bloom.check(packed(probes))) == expected
    assert [bloom.check_hash(hash) for hash in probes] == expected


def test_one_block_is_enough_to_check_a_hash() -> None:
    bloom, probes = built(160, some_hashes(80)), some_hashes(2000, seed=1)
    for hash in probes:
        block = block_index(hash, bloom.num_blocks)
        assert block == reference.block_index(hash, 5)
        assert block_contains(bloom.bitset[32 * block : 32 * block + 32], hash) == bloom.check_hash(hash)
    with pytest.raises(ValueError, match="a block has 32 bytes, not 64"):
        block_contains(bytes(64), 0)


@pytest.mark.parametrize("hash", [-1, 2**64])
def test_what_is_no_hash_is_refused(hash: int) -> None:
    with pytest.raises(OverflowError):
        SplitBlockBloomFilter(32).insert_hash(hash)


def test_the_bitset_can_be_looked_at_but_not_written() -> None:
    view = SplitBlockBloomFilter(32).bitset
    with pytest.raises(TypeError):
        view[0] = 1


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_filter_from_bits_has_its_own_copy(kind: type) -> None:
    bits = bytes(built(64, some_hashes(3)).bitset)
    given_bits = kind(bits)
    bloom = SplitBlockBloomFilter.from_bitset(given_bits)
    bloom.insert(packed(some_hashes(5, seed=1)))
    assert bytes(given_bits) == bits
    assert bytes(bloom.bitset) == bytes(built(64, some_hashes(3) + some_hashes(5, seed=1)).bitset)
    if kind is bytearray:
        given_bits[:] = bytes(64)
        assert not bloom.is_empty


@pytest.mark.parametrize("num_bytes", [32, 96, 1024, 2 * MIB, 8 * MIB])
def test_bytes_both_ways(num_bytes: int) -> None:
    bloom = built(num_bytes, some_hashes(50))
    data = bloom.to_bytes()
    assert data == reference.header(num_bytes) + bytes(bloom.bitset)
    assert SplitBlockBloomFilter.from_bytes(data) == bloom
    assert SplitBlockBloomFilter.from_bytes(memoryview(data), length=len(data)) == bloom
    assert SplitBlockBloomFilter.from_bytes(data + b"what follows in the file") == bloom


def test_a_large_filter_starts_as_zeros_and_keeps_its_bits() -> None:
    hashes = some_hashes(1000)
    bloom = built(8 * MIB, hashes)
    thawed = SplitBlockBloomFilter.from_bytes(bloom.to_bytes())
    thawed.insert(packed(hashes))
    assert thawed == bloom
    for _ in range(3):
        bloom = bloom.fold()
    assert bloom == built(MIB, hashes)


@pytest.mark.parametrize("missing", [1, 31, 64])
def test_a_cut_bitset_is_refused(missing: int) -> None:
    data = write_header(64) + bytes(64)
    with pytest.raises(CorruptFileError, match=f"cut off: {64 - missing} of 64 bytes"):
        SplitBlockBloomFilter.from_bytes(data[: len(data) - missing])


def test_a_length_that_does_not_fit_is_refused() -> None:
    with pytest.raises(CorruptFileError, match="the footer says 79 bytes"):
        SplitBlockBloomFilter.from_bytes(write_header(64) + bytes(64), length=79)


@given(num_blocks=st.integers(1, 40), hashes=HASHES)
def test_a_fold_is_the_filter_built_at_half_the_size(num_blocks: int, hashes: list[int]) -> None:
    assert built(64 * num_blocks, hashes).fold() == built(32 * num_blocks, hashes)


def test_an_odd_number_of_blocks_does_not_fold() -> None:
    with pytest.raises(ValueError, match="even number"):
        SplitBlockBloomFilter(96).fold()


@pytest.mark.parametrize("count", [0, 1, 10, 50, 300, 2000])
@pytest.mark.parametrize("fpp", [0.3, 0.01, 0.0001])
def test_folding_stops_at_the_smallest_size_within_the_rate(count: int, fpp: float) -> None:
    hashes = some_hashes(count)
    folded = built(64 * 1024, hashes).folded_to(fpp)
    assert folded == built(folded.num_bytes, hashes)
    assert folded.fpp <= fpp
    assert folded.num_bytes == 64 or built(folded.num_bytes // 2, hashes).fpp > fpp


@pytest.mark.parametrize(("num_bytes", "folded"), [(32, 32), (64, 64), (96, 96), (128, 64), (192, 96), (224, 224)])
def test_folding_ends_at_64_bytes_or_an_odd_number_of_blocks(num_bytes: int, folded: int) -> None:
    assert SplitBlockBloomFilter(num_bytes).folded_to(0.5).num_bytes == folded


def test_a_filter_that_is_full_already_is_not_folded() -> None:
    bloom = built(128, some_hashes(500))
    assert bloom.fpp > 0.01
    assert bloom.folded_to(0.01) is bloom


@pytest.mark.parametrize("fpp", [0, 1, -1, math.nan])
def test_an_impossible_rate_is_refused(fpp: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        SplitBlockBloomFilter(64).folded_to(fpp)


@given(num_blocks=st.integers(1, 20), halvings=st.integers(0, 3), one=HASHES, other=HASHES)
def test_a_merge_is_the_filter_of_all_hashes(num_blocks: int, halvings: int, one: list[int], other: list[int]) -> None:
    small, large = built(32 * num_blocks, one), built(32 * num_blocks * 2**halvings, other)
    before = bytes(small.bitset), bytes(large.bitset)
    assert small.merge(large) == large.merge(small) == built(32 * num_blocks, one + other)
    assert (bytes(small.bitset), bytes(large.bitset)) == before


@pytest.mark.parametrize(("one", "other"), [(32, 96), (64, 96), (96, 224), (64, 384)])
def test_sizes_that_do_not_fold_into_each_other_do_not_merge(one: int, other: int) -> None:
    with pytest.raises(ValueError, match="cannot be merged"):
        SplitBlockBloomFilter(one).merge(SplitBlockBloomFilter(other))


@pytest.mark.parametrize("count", [1, 10, 100, 1000])
def test_rates_and_fill_are_exact(count: int) -> None:
    bloom = built(480, some_hashes(count))
    blocks = reference.from_bytes(bytes(bloom.bitset))
    assert bloom.fpp == pytest.approx(float(reference.rate(blocks)), rel=1e-14, abs=0)
    assert bloom.worst_block_fpp == float(max(map(reference.block_rate, blocks)))
    assert bloom.fill == reference.bits_set(blocks) / (8 * 480)
    assert not bloom.is_empty
    if bloom.fill < 1:
        assert bloom.estimated_ndv == pytest.approx(reference.estimated_ndv(blocks), rel=1e-9)


@pytest.mark.parametrize("count", [100, 1000, 5000])
def test_the_estimate_is_near_the_number_of_distinct_hashes(count: int) -> None:
    bloom = built(8192, some_hashes(count) * 2)
    assert bloom.estimated_ndv == pytest.approx(count, rel=0.05)


def test_a_full_filter() -> None:
    bloom = SplitBlockBloomFilter.from_bitset(b"\xff" * 64)
    assert (bloom.fpp, bloom.worst_block_fpp, bloom.fill, bloom.estimated_ndv) == (1, 1, 1, math.inf)


def test_the_measured_rate_is_the_counted_one() -> None:
    bloom = built(2048, some_hashes(1500))
    found = sum(bloom.check(packed(some_hashes(20_000, seed=1))))
    assert found / 20_000 == pytest.approx(bloom.fpp, rel=0.2)


def test_equality() -> None:
    one, other = built(64, [1]), built(64, [1])
    assert one == other
    assert one != built(64, [2])
    assert one != built(96, [1])
    assert one != bytes(one.bitset)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_copies_are_independent() -> None:
    bloom = built(64, [1])
    for twin in (copy.copy(bloom), copy.deepcopy(bloom), pickle.loads(pickle.dumps(bloom))):
        assert twin == bloom
        twin.insert(packed(some_hashes(5)))
        assert twin != bloom


def test_inserts_from_many_threads_lose_nothing() -> None:
    hashes = [packed(some_hashes(5000, seed)) for seed in range(4)]
    bloom = SplitBlockBloomFilter(1024)
    threads = [threading.Thread(target=bloom.insert, args=(batch,)) for batch in hashes for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for batch in hashes:
        assert bloom.check(batch) == b"\1" * 5000


def test_repr() -> None:
    assert repr(SplitBlockBloomFilter(MIB)) == "<SplitBlockBloomFilter of 1,048,576 bytes, 0.0% full>"


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=70), st.integers(0, 2**64 - 1))
def test_many_blocks_answer_as_each_does(blocks: list[bytes], hash_: int) -> None:
    bloom = SplitBlockBloomFilter(32)
    bloom.insert_hash(hash_)
    blocks = [*blocks, bytes(bloom.bitset), b"\xff" * 32]
    assert list(blocks_contain(b"".join(blocks), hash_)) == [block_contains(block, hash_) for block in blocks]
