"""Plans that ask a stored filter for a few hashes, reading no more of it than they need.

A hash selects one block of 32 bytes. Where `bloom_filter_length` is known, so are the bitset's size and place (a header
has `14 + varint` bytes), and a probe of a large filter reads its header and those blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.footer import FilterLocation, Plan, read_filter
from parquet_bloom.ranges import ByteRange
from parquet_bloom.sbbf import BLOCK_BYTES, SplitBlockBloomFilter, block_contains, block_index, write_header

WHOLE_FILTER_BYTES = 4 * 1024
"""Filters up to this size are read whole: the blocks alone would save nothing."""

WITNESS_BYTES = 64 * 1024
"""How much is read in search of one set bit, when the blocks that were asked for are all zero."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Which of the hashes a filter may hold, in their order; or `problem`, and then nothing is known."""

    found: tuple[bool, ...] = ()
    problem: str | None = None


def ask(location: FilterLocation, hashes: Sequence[int], *, end: int) -> Plan[Answer]:
    """Plan to return which of `hashes` the filter at `location`, before byte `end`, may hold.

    An empty bitset is a problem, for the caller asks only where there are values; some writers leave one behind.
    """
    try:
        num_bytes = _bitset_size(location.length)
        if num_bytes is not None and _is_worth_blocks(num_bytes, hashes):
            answer = yield from _ask_blocks(location, num_bytes, hashes)
            if answer is not None:
                return answer
        bloom, _ = yield from read_filter(location, end=end)
    except (CorruptFileError, UnsupportedError) as error:
        return Answer(problem=str(error))
    return check(bloom, hashes)


def check(bloom: SplitBlockBloomFilter, hashes: Sequence[int]) -> Answer:
    """Return the answer of a filter that was read whole."""
    found = tuple(map(bloom.check_hash, hashes))
    if not any(found) and bloom.is_empty:
        return Answer(problem="the bitset is empty although the column chunk has values")
    return Answer(found)


def _bitset_size(length: int | None) -> int | None:
    """Return the one bitset size whose header makes up the rest of `length`, if there is one."""
    for header in range(15, 20) if length is not None else ():
        num_bytes = (length or 0) - header
        if num_bytes > 0 and num_bytes % BLOCK_BYTES == 0 and len(write_header(num_bytes)) == header:
            return num_bytes
    return None


def _is_worth_blocks(num_bytes: int, hashes: Sequence[int]) -> bool:
    return num_bytes > WHOLE_FILTER_BYTES and 4 * len(hashes) * BLOCK_BYTES < num_bytes


def _ask_blocks(location: FilterLocation, num_bytes: int, hashes: Sequence[int]) -> Plan[Answer | None]:
    """Plan to answer from blocks; None where only the whole filter can tell."""
    header = write_header(num_bytes)
    start = location.offset + len(header)
    num_blocks = num_bytes // BLOCK_BYTES
    places = [start + BLOCK_BYTES * block_index(h, num_blocks) for h in hashes]
    wanted = [ByteRange(location.offset, start), *(ByteRange(at, at + BLOCK_BYTES) for at in places)]
    stored, *blocks = yield wanted
    if stored != header or any(len(block) < BLOCK_BYTES for block in blocks):
        return None  # another form of header, or damage: reading it whole tells which
    found = tuple(block_contains(block, h) for block, h in zip(blocks, hashes, strict=True))
    if not all(found) and not any(map(any, blocks)):
        # No bit seen so far: a filter that was never filled looks like this everywhere.
        first = max(start, min(places[0], start + num_bytes - WITNESS_BYTES))
        (more,) = yield [ByteRange(first, min(first + WITNESS_BYTES, start + num_bytes))]
        if not any(more):
            return None
    return Answer(found)
