"""Asking for blocks gives the answers of the whole filter, and anything that is not a sound filter gives none."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from files import write
from hypothesis import given, settings
from hypothesis import strategies as st

import parquet_bloom
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format.encryption import Seal
from parquet_bloom.format.footer import FilterLocation, Plan
from parquet_bloom.format.probing import SEARCH_BYTES, WHOLE_FILTER_BYTES, Answer
from parquet_bloom.format.probing import ask as ask_all
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.predicates.tree import col
from parquet_bloom.storage.drive import RequestLog
from parquet_bloom.verbs.prune import prune

KIB, MIB = 1024, 1024 * 1024
HASHES = st.integers(0, 2**64 - 1)


def ask(location: FilterLocation, hashes: list[int], *, end: int) -> Plan[Answer]:
    (answer,) = yield from ask_all([(location, hashes)], end=end, seen=set())
    return answer


def run(plan: Plan[Any], data: bytes) -> tuple[Any, list[ByteRange]]:
    """Returns a plan's answer from the bytes of a file, which may be too few, and what it read."""
    asked: list[ByteRange] = []
    parts = None
    while True:
        try:
            ranges = plan.send(parts)  # type: ignore[arg-type]
        except StopIteration as stop:
            return stop.value, asked
        asked += ranges
        parts = [data[r.start : r.stop] for r in ranges]


def filled(num_bytes: int, hashes: list[int]) -> SplitBlockBloomFilter:
    bloom = SplitBlockBloomFilter(num_bytes)
    for h in hashes:
        bloom.insert_hash(h)
    return bloom


@st.composite
def filters(draw: Any) -> tuple[SplitBlockBloomFilter, list[int]]:
    num_bytes = draw(st.one_of(st.integers(1, 40), st.integers(128, 1024), st.sampled_from([4096, 8192]))) * 32
    inserted = draw(st.lists(HASHES, max_size=8))
    asked = draw(st.lists(st.one_of(HASHES, st.sampled_from(inserted or [0])), min_size=1, max_size=30))
    return filled(num_bytes, inserted), asked


@settings(deadline=None)
@given(filters(), st.integers(0, 100), st.booleans())
def test_blocks_answer_as_the_whole_filter(case: tuple[SplitBlockBloomFilter, list[int]], at: int, known: bool) -> None:
    bloom, asked = case
    stored = bloom.to_bytes()
    data = b"\xff" * at + stored + b"\xff" * 64
    location = FilterLocation(at, len(stored) if known else None)
    answer, _ = run(ask(location, asked, end=len(data)), data)
    if bloom.is_empty:
        assert answer.problem is not None
        assert not answer.found
    else:
        assert answer == Answer(tuple(map(bloom.check_hash, asked)))


@settings(deadline=None, max_examples=60)
@given(filters(), st.data())
def test_a_short_read_is_no_answer(case: tuple[SplitBlockBloomFilter, list[int]], data: Any) -> None:
    bloom, asked = case
    stored = bloom.to_bytes()
    cut = data.draw(st.integers(0, len(stored) - 1))
    known = data.draw(st.booleans())
    answer, read = run(ask(FilterLocation(0, len(stored) if known else None), asked, end=len(stored)), stored[:cut])
    # What lies in the part that is there may be answered; never by zeros that were not read.
    if answer.problem is None:
        assert answer.found == tuple(map(bloom.check_hash, asked))
        assert all(r.stop <= cut for r in read)


def test_a_flipped_byte_of_the_header_never_changes_an_answer() -> None:
    bloom = filled(64 * KIB, [2**40 * n for n in range(5000)])
    stored = bloom.to_bytes()
    absent = next(h for h in range(1000, 10_000) if not bloom.check_hash(h << 32 | h))
    asked, problems = [absent << 32 | absent], 0
    for position in range(len(stored) - bloom.num_bytes):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(stored)
            damaged[position] ^= flip
            answer, _ = run(ask(FilterLocation(0, len(stored)), asked, end=len(stored)), bytes(damaged))
            # Some flips only add a field that this version does not know.
            assert answer in (Answer((False,)), Answer(problem=answer.problem))
            problems += answer.problem is not None
    assert problems > 40


@pytest.mark.parametrize("length_off", [-64, -32, -1, 1, 31, 32, 64])
def test_a_length_that_does_not_fit(length_off: int) -> None:
    stored = filled(16 * KIB, [1 << 60]).to_bytes()
    data = stored + bytes(200)
    answer, _ = run(ask(FilterLocation(0, len(stored) + length_off), [5], end=len(data)), data)
    assert answer.problem is not None


def test_a_padded_header_is_read_whole() -> None:
    bloom = filled(16 * KIB, [7 << 50])
    stored = bloom.to_bytes()
    header, bitset = stored[: -bloom.num_bytes], stored[-bloom.num_bytes :]
    # A field that this version does not know, before the end of the struct.
    padded = header[:-1] + b"\x18\x10" + b"x" * 16 + b"\x00"
    answer, _ = run(ask(FilterLocation(0, len(padded + bitset)), [7 << 50, 5], end=10**6), padded + bitset)
    assert answer == Answer((True, bloom.check_hash(5)))


@pytest.mark.parametrize("num_bytes", [32, WHOLE_FILTER_BYTES, WHOLE_FILTER_BYTES + 32, 4 * SEARCH_BYTES, MIB])
@pytest.mark.parametrize("has_length", [True, False])
@pytest.mark.parametrize("asked", [[3], [3, 2**63]])
def test_an_empty_filter_is_no_answer(num_bytes: int, has_length: bool, asked: list[int]) -> None:
    stored = SplitBlockBloomFilter(num_bytes).to_bytes()
    location = FilterLocation(0, len(stored) if has_length else None)
    answer, _ = run(ask(location, asked, end=len(stored)), stored)
    assert answer == Answer(problem="the bitset is empty although the column chunk has values")


@pytest.mark.parametrize("place", [0.0, 0.5, 0.999])
def test_one_set_bit_anywhere_is_enough(place: float) -> None:
    num_bytes = 2 * MIB
    h = int(place * 2**32) << 32
    stored = filled(num_bytes, [h]).to_bytes()
    location = FilterLocation(0, len(stored))
    for asked in (0, 2**63, 2**64 - 1):
        other = asked ^ 0x5555
        answer, _ = run(ask(location, [other], end=len(stored)), stored)
        assert answer == Answer((filled(num_bytes, [h]).check_hash(other),))


@pytest.mark.parametrize("num_bytes", [WHOLE_FILTER_BYTES, WHOLE_FILTER_BYTES + 32, MIB])
@pytest.mark.parametrize("asked", [[3], [3, 2**63]])
def test_a_filter_in_the_clear_is_not_believed_where_an_encrypted_one_should_be(
    num_bytes: int, asked: list[int]
) -> None:
    stored = filled(num_bytes, [1 << 40]).to_bytes()
    location = FilterLocation(0, len(stored), Seal(bytes(16), b"file", bytes(4)))
    answer, _ = run(ask(location, asked, end=len(stored)), stored)
    assert answer.problem is not None


# ---- what is read ------------------------------------------------------------------------


def test_one_key_in_a_large_filter_moves_less_than_1_kib() -> None:
    bloom = SplitBlockBloomFilter.from_bitset(struct.pack("<I", 0x00010001) * MIB)
    stored = bloom.to_bytes()
    data = bytes(1000) + stored
    answer, asked = run(ask(FilterLocation(1000, len(stored)), [0xDEADBEEF00000000 | 12345], end=len(data)), data)
    assert answer.problem is None
    assert sum(map(len, asked)) == 19 - 1 + 32  # a header of 18 bytes and a block
    assert [str(r) for r in asked] == [
        "1000-1018",
        f"{1018 + 32 * (0xDEADBEEF * (4 * MIB // 32) >> 32)}-{asked[1].stop}",
    ]


def test_many_keys_read_the_whole_filter_once() -> None:
    stored = filled(64 * KIB, list(range(0, 2**64, 2**54))).to_bytes()
    _, asked = run(ask(FilterLocation(0, len(stored)), list(range(0, 2**64, 2**55)), end=len(stored)), stored)
    assert [str(r) for r in asked] == [f"0-{len(stored)}"]


def test_the_trace_of_a_probe_in_a_file(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("f.parquet"), rows=40_000)
    parquet_bloom.add("f.parquet", ["name"], fpp=0.01)
    log = RequestLog()
    pruning = prune("f.parquet", col("name") == "name 000123x", log=log)
    _, tail = log.requests[0]
    assert tail.stop == Path("f.parquet").stat().st_size
    assert pruning.totals.row_groups_by_statistics == 3
    assert pruning.totals.row_groups_by_filters == 1
    assert sorted(len(r) for _, r in log.requests[1:]) == [17, 32]


QUESTIONS = st.lists(filters(), min_size=1, max_size=5)


@settings(deadline=None, max_examples=60)
@given(QUESTIONS, st.lists(st.booleans(), min_size=5, max_size=5))
def test_questions_together_and_again(cases: list[tuple[SplitBlockBloomFilter, list[int]]], known: list[bool]) -> None:
    data, questions = b"PAR1", []
    for (bloom, hashes), has_length in zip(cases, known, strict=False):
        stored = bloom.to_bytes()
        questions.append((FilterLocation(len(data), len(stored) if has_length else None), hashes))
        data += stored
    seen: set[int] = set()
    expected = [
        Answer(problem="the bitset is empty although the column chunk has values")
        if bloom.is_empty
        else Answer(tuple(map(bloom.check_hash, hashes)))
        for bloom, hashes in cases
    ]
    for _ in range(2):  # the second time headers are not read again
        answers, _ = run(ask_all(questions, end=len(data), seen=seen), data)  # type: ignore[arg-type]
        assert answers == expected
    assert seen <= {location.offset for location, _ in questions}


def test_a_damaged_header_is_not_seen_as_sound() -> None:
    bloom = filled(64 * KIB, [h << 32 for h in range(0, 2**32, 2**20)])
    stored = bytearray(bloom.to_bytes())
    stored[3] ^= 1
    seen: set[int] = set()
    for _ in range(2):
        question = FilterLocation(0, len(stored)), [5]
        (answer,), _ = run(ask_all([question], end=len(stored), seen=seen), bytes(stored))  # type: ignore[arg-type,misc]
        assert answer.problem is not None
    assert not seen


# ---- damage in files ---------------------------------------------------------------------


def test_a_location_that_the_footer_contradicts(tmp_path: Path) -> None:
    def fails(footer: Any, *_: Any) -> Any:
        raise CorruptFileError("no such place")

    from parquet_bloom.format.footer import Footer

    write(tmp_path / "f.parquet", rows=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Footer, "filter_at", fails)
        kept = prune(tmp_path / "f.parquet", col("name") == "name 000000x").kept_row_groups
    assert [group.reason for group in kept] == ["no such place"] * len(kept)
    assert kept
