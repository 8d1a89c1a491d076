"""Byte ranges, and merging those that lie close together. Pure: no I/O, no knowledge of what the bytes are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

COALESCE_GAP = 16 * 1024
"""Ranges at most this many bytes apart are read in one request: the gap costs less than another request."""

COALESCE_LIMIT = 8 * 1024 * 1024
"""No merged request grows beyond this many bytes (a single range may), so that requests can run side by side."""


class ByteRange(NamedTuple):
    """The bytes `start <= i < stop` of a file; its length is their number."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.start}-{self.stop}"


def are_apart(ranges: Iterable[ByteRange], gap: int) -> bool:
    """Return whether the ranges are sorted and more than `gap` bytes apart, so that `coalesce` leaves them alone."""
    last = -gap - 1
    for start, stop in ranges:
        if start - last <= gap:
            return False
        last = stop
    return True


def coalesce(ranges: Iterable[ByteRange], *, gap: int = COALESCE_GAP, limit: int = COALESCE_LIMIT) -> list[ByteRange]:
    """Return the fewest sorted, disjoint ranges that cover `ranges` under the two limits."""
    merged: list[ByteRange] = []
    first = last = -1
    for start, stop in sorted(ranges):
        if first >= 0 and (start < last or (start - last <= gap and max(stop, last) - first <= limit)):
            last = max(last, stop)
            continue
        if first >= 0:
            merged.append(ByteRange(first, last))
        first, last = start, stop
    if first >= 0:
        merged.append(ByteRange(first, last))
    return merged


def cut(wanted: Iterable[ByteRange], merged: list[ByteRange], parts: list[bytes]) -> list[bytes]:
    """Return the bytes of each wanted range out of the `parts` that were read for `merged`.

    Every wanted range lies within one merged range (`coalesce` made them); parts may be short, and then so
    are the pieces.
    """
    starts = [r.start for r in merged]
    pieces = []
    for r in wanted:
        at = bisect_right(starts, r.start) - 1
        pieces.append(parts[at] if r == merged[at] else parts[at][r.start - starts[at] : r.stop - starts[at]])
    return pieces
