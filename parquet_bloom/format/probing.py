"""Plans that ask a stored filter for a few hashes, reading no more of it than they need.

A hash selects one block of 32 bytes. Where `bloom_filter_length` is known, so are the bitset's size and place (a header
has `14 + varint` bytes), and a probe of a large filter reads its header and those blocks.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.format.footer import FilterLocation, Plan, read_filter, together
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.sbbf import (
    BLOCK_BYTES,
    SplitBlockBloomFilter,
    block_contains,
    block_index,
    blocks_contain,
    usual_layout,
)

WHOLE_FILTER_BYTES = 4 * 1024
"""Filters up to this size are read whole: the blocks alone would save nothing."""

SEARCH_BYTES = 64 * 1024
"""How much is read in search of one set bit, when the blocks that were asked for are all zero."""


class Answer(NamedTuple):
    """Which of the hashes a filter may hold, in their order; or `problem`, and then nothing is known."""

    found: tuple[bool, ...] = ()
    problem: str | None = None


Question = tuple[FilterLocation, Sequence[int]]
"""A filter and the hashes to ask it for."""


def ask(questions: Sequence[Question], *, end: int, seen: set[int]) -> Plan[list[Answer]]:
    """Plan to return the answers to questions about filters of one file, which all lie before byte `end`.

    An empty bitset is a problem, for the caller asks only where there are values; some writers leave one behind. `seen`
    has the offsets of headers that were read, and found to be in order, in this very file; it grows.
    """
    if alike := (yield from _ask_alike(questions, seen)):
        return alike
    answers = yield from _ask_blocks(questions, seen)
    others = [index for index, answer in enumerate(answers) if answer is None]
    if others:
        plans = (_ask_more(location, hashes, end) for location, hashes in (questions[i] for i in others))
        for index, answer in zip(others, (yield from together(plans)), strict=True):
            answers[index] = answer
    return answers  # type: ignore[return-value]


def check(bloom: SplitBlockBloomFilter, hashes: Sequence[int]) -> Answer:
    """Return the answer of a filter that was read whole."""
    found = tuple(map(bool, bloom.check(array("Q", hashes))))
    if not any(found) and bloom.is_empty:
        return Answer(problem="the bitset is empty although the column chunk has values")
    return Answer(found)


def _ask_alike(questions: Sequence[Question], seen: set[int]) -> Plan[list[Answer] | None]:
    """Plan to answer in one go the usual questions: one hash, and filters of one size. None where they are others."""
    length, hashes = questions[0][0].length, questions[0][1]
    if any(where.length != length or where.seal is not None or asked is not hashes for where, asked in questions):
        return None
    found = yield from ask_for_one(hashes, [location.offset for location, _ in questions], length, seen=seen)
    return None if found is None else [_PRESENT if one else _ABSENT for one in found]


def ask_for_one(
    hashes: Sequence[int], offsets: Sequence[int], length: int | None, *, seen: set[int]
) -> Plan[bytes | None]:
    """Plan to return a byte for each of several filters of one length: whether it may hold the one hash.

    None where that takes more than their blocks; see `ask`, which `seen` is explained in.
    """
    layout = usual_layout(length)
    if layout is None or layout[0] <= max(WHOLE_FILTER_BYTES, 4 * BLOCK_BYTES) or len(hashes) != 1:
        return None
    num_bytes, header = layout
    block = len(header) + BLOCK_BYTES * block_index(hashes[0], num_bytes // BLOCK_BYTES)
    if seen.issuperset(offsets):
        blocks = yield [ByteRange(offset + block, offset + block + BLOCK_BYTES) for offset in offsets]
    else:
        wanted = [
            part
            for offset in offsets
            for part in (
                ByteRange(offset, offset + len(header)),
                ByteRange(offset + block, offset + block + BLOCK_BYTES),
            )
        ]
        read = yield wanted
        blocks = read[1::2]
        if set(read[::2]) != {header}:
            return None
        seen.update(offsets)
    joined = b"".join(blocks)
    if len(joined) != BLOCK_BYTES * len(blocks) or _ZERO_BLOCK in blocks:
        return None
    return blocks_contain(joined, hashes[0])


def _ask_blocks(questions: Sequence[Question], seen: set[int]) -> Plan[list[Answer | None]]:
    """Plan to answer from headers and blocks alone; None for the questions that this did not answer."""
    wanted: list[ByteRange] = []
    open_questions: list[tuple[int, int, bytes | None, Sequence[int]]] = []
    for index, ((offset, length, seal), hashes) in enumerate(questions):
        layout = None if seal is not None else usual_layout(length)  # an encrypted filter is read whole
        if layout is None or layout[0] <= WHOLE_FILTER_BYTES or layout[0] <= 4 * BLOCK_BYTES * len(hashes):
            continue
        num_bytes, header = layout
        start, num_blocks = offset + len(header), num_bytes // BLOCK_BYTES
        expected = None if offset in seen else header
        if expected:
            wanted.append(ByteRange(offset, start))
        for hash_ in hashes:
            at = start + BLOCK_BYTES * block_index(hash_, num_blocks)
            wanted.append(ByteRange(at, at + BLOCK_BYTES))
        open_questions.append((index, offset, expected, hashes))
    answers: list[Answer | None] = [None] * len(questions)
    parts = iter((yield wanted) if wanted else [])
    for index, offset, expected, hashes in open_questions:
        is_header = expected is None or next(parts) == expected
        blocks = list(islice(parts, len(hashes)))
        # Another form of header, and damage, show when it is read whole; and blocks without a single bit look
        # like a filter that was never filled.
        if is_header and set(map(len, blocks)) == _ONE_BLOCK and any(map(any, blocks)):
            seen.add(offset)
            answers[index] = Answer(tuple(map(block_contains, blocks, hashes)))
    return answers


_ONE_BLOCK = {BLOCK_BYTES}
_ZERO_BLOCK = bytes(BLOCK_BYTES)
_PRESENT, _ABSENT = Answer((True,)), Answer((False,))


def _ask_more(location: FilterLocation, hashes: Sequence[int], end: int) -> Plan[Answer]:
    """Plan to answer from as much of the filter as it takes."""
    try:
        layout = None if location.seal is not None else usual_layout(location.length)
        if layout is not None and layout[0] > 2 * SEARCH_BYTES and 4 * BLOCK_BYTES * len(hashes) < layout[0]:
            answer = yield from _ask_with_search(location, *layout, hashes)
            if answer is not None:
                return answer
        bloom, _ = yield from read_filter(location, end=end)
    except (CorruptFileError, UnsupportedError) as error:
        return Answer(problem=str(error))
    return check(bloom, hashes)


def _ask_with_search(
    location: FilterLocation, num_bytes: int, header: bytes, hashes: Sequence[int]
) -> Plan[Answer | None]:
    """Plan to answer from blocks and a stretch of the bitset with a set bit in it; None where there is none."""
    start, num_blocks = location.offset + len(header), num_bytes // BLOCK_BYTES
    places = [start + BLOCK_BYTES * block_index(hash_, num_blocks) for hash_ in hashes]
    first = min(places[0], start + num_bytes - SEARCH_BYTES)
    wanted = [ByteRange(location.offset, start), *(ByteRange(at, at + BLOCK_BYTES) for at in places)]
    stored, *blocks, nearby = yield [*wanted, ByteRange(first, first + SEARCH_BYTES)]
    if stored != header or not any(nearby) or any(len(block) < BLOCK_BYTES for block in blocks):
        return None
    return Answer(tuple(map(block_contains, blocks, hashes)))
