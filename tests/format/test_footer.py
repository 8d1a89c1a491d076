"""Plans read footers and filters from plain bytes, and anything but a sound file is an error."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from files import ENTRIES, FIXTURES, SOUND, fixture, footer_bytes, names, opened, with_footer
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.errors import CorruptFileError, NotParquetError, UnsupportedError
from parquet_bloom.format import footer as footers
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import (
    FILTER_GUESS,
    FOOTER_GUESS,
    HEADER_ROOM,
    FilterLocation,
    Footer,
    Plan,
    read_filter,
    read_footer,
    together,
    with_tail,
)
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.splice import splice_filters
from parquet_bloom.format.thrift_io import decode, encode

KIB = 1024


def drive(data: bytes, plan: Plan[Any]) -> tuple[Any, list[list[ByteRange]]]:
    """Returns the plan's result on a file of these bytes, and the ranges of each round."""
    rounds: list[list[ByteRange]] = []
    parts = None
    while True:
        try:
            ranges = plan.send(parts)
        except StopIteration as stop:
            return stop.value, rounds
        rounds.append(ranges)
        parts = [data[r.start : r.stop] for r in ranges]


def read(data: bytes, **options: Any) -> Footer:
    return drive(data, read_footer(len(data), **options))[0]


# ---- footers -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", names(SOUND))
def test_the_footer_is_the_bytes_of_the_file(name: str) -> None:
    data = fixture(name)
    footer = read(data)
    assert footer.raw == footer_bytes(data)
    assert data[footer.start :].startswith(footer.raw)
    assert data[: footer.start].endswith(footer.before)


@pytest.mark.parametrize("guess", [0, 8, 9, 100, 1000, 10**6])
def test_any_guess_gives_the_same_footer_in_two_requests_at_most(guess: int) -> None:
    data = fixture("pyarrow/small.parquet")
    footer, rounds = drive(data, read_footer(len(data), guess=guess))
    assert (footer.raw, footer.leaves) == (footer_bytes(data), read(data).leaves)
    assert len(rounds) == (1 if guess >= len(footer.raw) + 8 else 2)
    asked = [r for ranges in rounds for r in ranges]
    assert sum(map(len, asked)) == max(min(guess, len(data)), len(footer.raw) + 8)


def test_no_request_goes_beyond_the_file() -> None:
    data = fixture("pyarrow/one_row.parquet")
    assert len(data) < FOOTER_GUESS
    assert drive(data, read_footer(len(data)))[1] == [[ByteRange(0, len(data))]]


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + bytes(7)])
def test_what_is_too_small_is_told_without_a_request(data: bytes) -> None:
    with pytest.raises(NotParquetError, match=f"{len(data)} bytes is too small"):
        next(read_footer(len(data)))


def test_an_encrypted_footer_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="encrypted"):
        read(fixture("pyarrow/encrypted_footer.parquet"))


@pytest.mark.parametrize("tail", [b"PAR2", b"\0\0\0\0", b"par1"])
def test_another_magic_is_not_parquet(tail: bytes) -> None:
    with pytest.raises(NotParquetError):
        read(fixture("pyarrow/small.parquet")[:-4] + tail)


def test_a_file_that_became_shorter_is_corrupt_not_padded() -> None:
    data = fixture("pyarrow/small.parquet")
    with pytest.raises(CorruptFileError, match="shorter than its listing says"):
        drive(data[:-5], read_footer(len(data)))


@pytest.mark.parametrize("length", [0, 2**31, 2**32 - 1])
def test_a_length_that_does_not_fit_is_corrupt(length: int) -> None:
    data = fixture("pyarrow/small.parquet")
    with pytest.raises(CorruptFileError, match="does not fit the file"):
        read(data[:-8] + length.to_bytes(4, "little") + b"PAR1")


def test_a_long_footer_is_read_in_steps() -> None:
    """A file that only claims to be long ends the plan at the first step that is not there."""
    size = 2**30
    plan = read_footer(size)
    (first,) = next(plan)
    (step,) = plan.send([bytes(len(first) - 8) + (400 * 2**20).to_bytes(4, "little") + b"PAR1"])
    assert len(step) == 32 * 2**20
    with pytest.raises(CorruptFileError, match="cut off"):
        plan.send([bytes(1000)])


def test_steps_make_up_the_footer(monkeypatch: pytest.MonkeyPatch) -> None:
    data = fixture("pyarrow/small.parquet")
    whole = read(data)
    monkeypatch.setattr(footers, "_FOOTER_STEP", 7)
    footer, _ = drive(data, read_footer(len(data), guess=8))
    assert footer.raw == whole.raw


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_row_group_has_a_column_chunk_for_each_leaf(count: int) -> None:
    data = fixture("pyarrow/small.parquet")
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    metadata.row_groups[-1].columns = (metadata.row_groups[-1].columns * 2)[:count]
    with pytest.raises(CorruptFileError, match=f"has {count} column chunks for 3 leaf columns"):
        read(with_footer(data, encode(metadata)))


ODD_NAME = "damaged/name_not_utf8.parquet"  # costs one column, not the file
ERRORS = [e["file"] for e in ENTRIES if e.get("expect") == "error" and e["file"] != ODD_NAME]


@pytest.mark.parametrize("name", names(ERRORS))
def test_what_the_manifest_calls_an_error_is_one(name: str) -> None:
    with pytest.raises((CorruptFileError, UnsupportedError)):
        read(fixture(name))


def test_a_name_that_is_no_text_costs_its_column_only() -> None:
    footer = read(fixture(ODD_NAME))
    broken, *others = footer.leaves
    assert footer.chunk_problem(0, broken)
    assert all(footer.chunk_problem(0, leaf) is None for leaf in others)


@given(
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    cut=st.integers(0, 40),
)
def test_mutated_files_are_read_or_corrupt(edits: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(fixture("pyarrow/small.parquet"))
    for at, byte in edits:
        data[-1 - at % 2000] = byte
    with contextlib.suppress(CorruptFileError, UnsupportedError):
        footer = read(bytes(data[: len(data) - cut]))
        for row_group, leaf, _ in footer.chunks():
            with contextlib.suppress(CorruptFileError, UnsupportedError):
                if location := footer.filter_location(row_group, leaf):
                    drive(bytes(data), read_filter(location, end=footer.start))


def test_an_error_tells_where_in_the_file_it_is() -> None:
    data = fixture("pyarrow/small.parquet")
    with pytest.raises(CorruptFileError) as raised:
        read(with_footer(data, b"\xff" * 50))
    assert raised.value.offset == len(data) - 8 - len(footer_bytes(data))


# ---- filters -----------------------------------------------------------------------------

EVERY = "pyarrow/all_types.parquet"


def test_a_filter_is_where_the_footer_says_and_as_long() -> None:
    data = fixture(EVERY)
    footer = read(data)
    count = 0
    for row_group, leaf, chunk in footer.chunks():
        if location := footer.filter_location(row_group, leaf):
            (_, length), rounds = drive(data, read_filter(location, end=footer.start))
            assert length == chunk.bloom_filter_length
            assert rounds == [[ByteRange(location.offset, location.offset + length)]]
            count += 1
    assert count > 100


def file_with(bloom: SplitBlockBloomFilter, before: int = 10, after: int = 50) -> bytes:
    return bytes(before) + bloom.to_bytes() + b"\xee" * after


def bloom_of(num_bytes: int) -> SplitBlockBloomFilter:
    bloom = SplitBlockBloomFilter(num_bytes)
    for i in range(1000):
        bloom.insert_hash(i * 0x9E3779B97F4A7C15 % 2**64)
    return bloom


@pytest.mark.parametrize("num_bytes", [32, 1024, FILTER_GUESS - 32, FILTER_GUESS, FILTER_GUESS + 64, 4 * FILTER_GUESS])
def test_without_a_length_one_guess_reads_it_and_a_second_only_a_longer_bitset(num_bytes: int) -> None:
    bloom = bloom_of(num_bytes)
    data = file_with(bloom, after=10**6)
    (got, length), rounds = drive(data, read_filter(FilterLocation(10, None), end=len(data)))
    assert got == bloom
    assert length == len(bloom.to_bytes())
    guess = ByteRange(10, 10 + HEADER_ROOM + FILTER_GUESS)
    rest = [] if num_bytes <= FILTER_GUESS else [[ByteRange(guess.stop, 10 + length)]]
    assert rounds == [[guess], *rest]


def test_the_guess_stops_where_the_footer_starts() -> None:
    bloom = bloom_of(64)
    data = file_with(bloom, after=0)
    (got, _), rounds = drive(data, read_filter(FilterLocation(10, None), end=len(data)))
    assert (got, rounds) == (bloom, [[ByteRange(10, len(data))]])


@pytest.mark.parametrize("known", [True, False])
def test_a_short_read_is_corrupt_never_zeros(known: bool) -> None:
    bloom = bloom_of(2 * FILTER_GUESS)
    data = file_with(bloom)
    length = len(bloom.to_bytes()) if known else None
    for end in (10, 11, 30, 10 + FILTER_GUESS, len(data) - 51):
        with pytest.raises(CorruptFileError):
            drive(data[:end], read_filter(FilterLocation(10, length), end=len(data)))


def test_a_filter_that_came_short_is_not_filled_up_with_what_follows_it() -> None:
    data = file_with(bloom_of(1024), after=1000)
    plan = read_filter(FilterLocation(10, len(data) - 1010), end=len(data))
    (wanted,) = next(plan)
    with pytest.raises(CorruptFileError, match="the file ends inside the filter"):
        plan.send([data[wanted.start : wanted.stop - 32]])


def test_a_bitset_that_would_reach_into_the_footer_is_corrupt() -> None:
    data = file_with(bloom_of(2 * FILTER_GUESS), after=0)
    with pytest.raises(CorruptFileError, match="would overlap the footer"):
        drive(data, read_filter(FilterLocation(10, None), end=len(data) - 1))


@pytest.mark.parametrize(
    ("offset", "length"),
    [(-1, 47), (2**62, 47), (None, None), (1000, 0), (1000, -5), (1000, 2**31 - 1)],
)
def test_locations_outside_the_file_are_corrupt_or_none(offset: int | None, length: int | None) -> None:
    _, footer = opened(FIXTURES / "pyarrow/small.parquet")
    chunk = footer.chunk(0, footer.leaves[0])
    chunk.bloom_filter_offset, chunk.bloom_filter_length = offset, length
    if offset is None:
        assert footer.filter_location(0, footer.leaves[0]) is None
    else:
        with pytest.raises(CorruptFileError, match="bloom_filter_"):
            footer.filter_location(0, footer.leaves[0])


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("type", ttypes.Type.BOOLEAN, "the column chunk's type 0 is not the schema's INT64"),
        ("path_in_schema", ["other"], "the column chunk belongs to other, not id"),
        ("num_values", -1, "the column chunk has an impossible value count of -1"),
        ("file_path", "other.parquet", "the column chunk is in another file"),
        ("meta_data", None, "the column chunk has no metadata"),
    ],
)
def test_a_chunk_that_the_schema_contradicts_has_no_filter(field: str, value: Any, reason: str) -> None:
    _, footer = opened(FIXTURES / "pyarrow/small.parquet")
    column, leaf = footer.column_chunk(0, 0), footer.leaves[0]
    assert footer.filter_location(0, leaf)
    setattr(column if hasattr(column, field) else column.meta_data, field, value)
    assert footer.chunk_problem(0, leaf) == reason
    with pytest.raises(CorruptFileError, match=reason):
        footer.filter_location(0, leaf)


@pytest.mark.parametrize("shift", [0, 1, -1])
def test_a_filter_that_two_chunks_share_is_none_of_theirs(shift: int) -> None:
    data = fixture("pyarrow/small.parquet")
    location = read(data).filter_location(0, read(data).leaves[0])
    assert location is not None
    places = {(0, 0): (location.offset, location.length), (0, 1): (location.offset + shift, location.length)}
    footer = read(with_footer(data, splice_filters(footer_bytes(data), places)))  # type: ignore[arg-type]
    for leaf in footer.leaves[:2]:
        with pytest.raises(CorruptFileError, match="overlaps pages or another filter"):
            footer.filter_location(0, leaf)


@pytest.mark.parametrize("offset", [0, 1, 4])
def test_an_offset_within_the_magic_means_no_filter(offset: int) -> None:
    _, footer = opened(FIXTURES / "pyarrow/small.parquet")
    footer.chunk(0, footer.leaves[0]).bloom_filter_offset = offset
    assert footer.filter_location(0, footer.leaves[0]) is None


# ---- plans -------------------------------------------------------------------------------


def asks(*rounds: list[ByteRange]) -> Plan[list[list[bytes]]]:
    results = []
    for ranges in rounds:
        results.append((yield ranges))
    return results


A, B, C, D = (ByteRange(i, i + 3) for i in (0, 10, 20, 30))
DATA = bytes(range(100))


def test_plans_together_ask_in_the_same_rounds_and_get_their_own_bytes() -> None:
    results, rounds = drive(DATA, together([asks([A], [B]), asks(), asks([C, D])]))
    assert rounds == [[A, C, D], [B]]
    assert results == [[[DATA[0:3]], [DATA[10:13]]], [], [[DATA[20:23], DATA[30:33]]]]


def test_no_plans_ask_for_nothing() -> None:
    assert drive(DATA, together([])) == ([], [])


def test_what_came_with_the_tail_is_not_asked_for_again() -> None:
    footer = replace(read(fixture("pyarrow/small.parquet")), file_size=60, raw=bytes(20), before=DATA[15:32])
    assert footer.start == 32
    results, rounds = drive(DATA, with_tail(footer, asks([A, C], [C], [B, A])))
    assert rounds == [[A], [B, A]]
    assert results == [[DATA[0:3], DATA[20:23]], [DATA[20:23]], [DATA[10:13], DATA[0:3]]]
