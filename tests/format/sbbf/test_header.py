"""Headers are written as the specification has them, and nothing unsound is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.format.sbbf import BloomFilterHeader, SplitBlockBloomFilter, read_header, write_header

KIB, MIB = 1024, 1024 * 1024
UNIONS = "1c1c0000 1c1c0000 1c1c0000 00"
GOLDEN = [
    (32, "15 40", 15),
    (64, "15 8001", 16),
    (1024, "15 8010", 16),
    (8160, "15 c07f", 16),
    (8192, "15 808001", 17),
    (MIB - 32, "15 c0ff7f", 17),
    (MIB, "15 80808001", 18),
    (128 * MIB - 32, "15 c0ffff7f", 18),
    (128 * MIB, "15 8080808001", 19),
    (2**31 - 32, "15 c0ffffff0f", 19),
]


@pytest.mark.parametrize(("num_bytes", "start", "length"), GOLDEN)
def test_golden_headers_both_ways(num_bytes: int, start: str, length: int) -> None:
    golden = bytes.fromhex(start + UNIONS)
    assert len(golden) == length
    assert reference.header(num_bytes) == golden
    assert write_header(num_bytes) == golden
    for junk in (b"", b"\0" * 40, b"\x15" * 40):
        assert read_header(golden + junk) == BloomFilterHeader(num_bytes, length)
        assert read_header(golden + junk, length=length + num_bytes) == BloomFilterHeader(num_bytes, length)


@given(num_blocks=st.integers(1, 2**26 - 1))
def test_every_header_can_be_read_back(num_blocks: int) -> None:
    header = write_header(32 * num_blocks)
    assert header == reference.header(32 * num_blocks)
    assert read_header(header) == BloomFilterHeader(32 * num_blocks, len(header))


@pytest.mark.parametrize(("num_bytes", "start", "length"), GOLDEN)
def test_a_cut_header_is_told_from_a_wrong_one(num_bytes: int, start: str, length: int) -> None:
    header = bytes.fromhex(start + UNIONS)
    for cut in range(length):
        with pytest.raises(CorruptFileError, match=f"cut off after {cut} bytes"):
            read_header(header[:cut])


@pytest.mark.parametrize("num_bytes", [0, -32, 1, 31, 33, 3000, 2**31, 2**33])
def test_a_size_that_is_no_bitset_is_not_written(num_bytes: int) -> None:
    with pytest.raises(ValueError, match="multiple of 32"):
        write_header(num_bytes)


@pytest.mark.parametrize(
    ("header", "error", "message"),
    [
        pytest.param("15 00" + UNIONS, CorruptFileError, "numBytes 0", id="empty bitset"),
        pytest.param("15 3f" + UNIONS, CorruptFileError, "numBytes -32", id="negative size"),
        pytest.param("15 42" + UNIONS, CorruptFileError, "numBytes 33", id="33 bytes"),
        pytest.param("15 f02e" + UNIONS, CorruptFileError, "numBytes 3000, .*engines disagree", id="3000 bytes"),
        pytest.param("15 ffffffff0f" + UNIONS, CorruptFileError, "numBytes -2147483648", id="least i32"),
        pytest.param("15 ffffffffff1f" + UNIONS, CorruptFileError, "no bloom filter header", id="more than i32"),
        pytest.param("2c 1c0000 1c1c0000 1c1c0000 00", CorruptFileError, "no numBytes", id="no size"),
        pytest.param("16 40" + UNIONS, CorruptFileError, "no numBytes", id="size of another type"),
        pytest.param("15 40 2c1c0000 1c1c0000 00", CorruptFileError, "no algorithm", id="no algorithm"),
        pytest.param("15 40 1c1c0000 2c1c0000 00", CorruptFileError, "no hash", id="no hash"),
        pytest.param("15 40 1c1c0000 1c1c0000 00", CorruptFileError, "no compression", id="no compression"),
        pytest.param("00", CorruptFileError, "no numBytes", id="no field"),
        pytest.param(
            "15 40 1c2c0000 1c1c0000 1c1c0000 00", UnsupportedError, "algorithm is not BLOCK", id="algorithm 2"
        ),
        pytest.param("15 40 1c1c0000 1c2c0000 1c1c0000 00", UnsupportedError, "hash is not XXHASH", id="hash 2"),
        pytest.param("15 40 1c1c0000 1c1c0000 1c2c0000 00", UnsupportedError, "not UNCOMPRESSED", id="compression 2"),
        pytest.param("15 40 1c00 1c1c0000 1c1c0000 00", UnsupportedError, "not BLOCK", id="empty union"),
        pytest.param("1c" * 200, CorruptFileError, "no bloom filter header", id="too deep"),
        pytest.param("50415231" * 8, CorruptFileError, "no numBytes", id="PAR1"),
    ],
)
def test_bad_headers(header: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_header(bytes.fromhex(header))


@pytest.mark.parametrize("length", [0, -1, 15, 32, 46, 48, 2**31])
def test_the_length_in_the_footer_must_fit(length: int) -> None:
    with pytest.raises(CorruptFileError, match=rf"the footer says {length} bytes .* 15 \+ 32"):
        read_header(write_header(32) + bytes(32), length=length)


def test_fields_of_a_later_version_are_passed_over() -> None:
    later = bytes.fromhex("15 40 1c1c0000 1c1c0000 1c1c0000 1504 00")
    assert read_header(later, length=len(later) + 32) == BloomFilterHeader(32, len(later))


def read_or_refused(data: bytes, length: int | None = None) -> None:
    try:
        header = read_header(data, length=length)
    except (CorruptFileError, UnsupportedError):
        return
    assert header.num_bytes > 0
    assert header.num_bytes % 32 == 0
    assert 15 <= header.length <= len(data)


@given(data=st.binary(max_size=80), length=st.none() | st.integers())
def test_arbitrary_bytes_are_read_or_refused(data: bytes, length: int | None) -> None:
    read_or_refused(data, length)


@given(start=st.sampled_from(GOLDEN), edits=st.lists(st.tuples(st.integers(0, 18), st.integers(0, 255)), max_size=3))
def test_damaged_headers_are_read_or_refused(start: tuple[int, str, int], edits: list[tuple[int, int]]) -> None:
    damaged = bytearray(bytes.fromhex(start[1] + UNIONS))
    for at, byte in edits:
        damaged[at % len(damaged)] = byte
    read_or_refused(bytes(damaged) + bytes(20))


@pytest.mark.parametrize(
    "hostile",
    [
        "19f5 ffffffff07",  # a list of 2^31 - 1 integers
        "19f1 ffffffff07",  # of booleans
        "19f0 ffffffff07",  # of nothing
        "19fc ffffffff07",  # of structs
        "18 ffffffff07",  # a string of 2 GiB
        "1b ffffffff07 88",  # a map
    ],
)
def test_a_hostile_header_costs_no_more_than_its_size(hostile: str) -> None:
    for data in (bytes.fromhex(hostile), bytes.fromhex(hostile) + bytes(2000)):
        with pytest.raises(CorruptFileError):
            read_header(data)


@pytest.fixture
def parquet_testing_data() -> Path:
    if not (path := os.environ.get("PARQUET_TESTING_DATA")):
        pytest.skip("PARQUET_TESTING_DATA does not name the data folder of apache/parquet-testing")
    return Path(path)


def test_the_format_project_s_own_filter(parquet_testing_data: Path) -> None:
    data = (parquet_testing_data / "bloom_filter.xxhash.bin").read_bytes()
    bloom = SplitBlockBloomFilter.from_bytes(data, length=len(data))
    assert bloom.num_bytes == 1024
    for word in (b"hello", b"parquet", b"bloom", b"filter"):
        assert bloom.check_hash(reference.xxh64(word))
    assert not bloom.check_hash(reference.xxh64(b"absent"))
    assert bytes(bloom.bitset) == reference.to_bytes(
        reference.build(32, [reference.xxh64(w) for w in (b"hello", b"parquet", b"bloom", b"filter")])
    )
    assert bloom.to_bytes() == data


def test_the_obsolete_form_is_refused(parquet_testing_data: Path) -> None:
    with pytest.raises(CorruptFileError):
        read_header((parquet_testing_data / "bloom_filter.bin").read_bytes())
