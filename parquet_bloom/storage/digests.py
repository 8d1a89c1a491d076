"""The SHA-256 of ranges of a file's bytes, as they are stored."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format.footer import Plan
from parquet_bloom.format.ranges import COALESCE_LIMIT, ByteRange
from parquet_bloom.storage.drive import changes, run
from parquet_bloom.storage.listing import Source

_AT_ONCE = 4
"""Pieces of `COALESCE_LIMIT` bytes that are read together: more would take more memory, fewer more time of a store."""


def digests(source: Source, ranges: Iterable[ByteRange]) -> dict[ByteRange, str]:
    """Return the SHA-256 of ranges of a file, in hexadecimal; the file is read once, from its beginning to its end.

    Ranges may begin together, as a file and its prefixes do. One that begins within another is left out, and so is one
    that is empty or not in the file: what is damaged may say that all its ranges are the whole file.

    Raises `ConcurrentChangeError` unless all bytes are of the file that was listed.
    """
    found = run(source, _digests(source.size, _apart(source.size, ranges)))
    for error in changes([source]).values():
        raise error
    return found


@dataclass(slots=True)
class _Open:
    """The ranges that begin at one byte, by the ends that are still to come."""

    position: int
    stops: deque[int]
    start: int
    hash: Any = field(default_factory=hashlib.sha256)

    def take(self, at: int, data: memoryview) -> Iterator[tuple[ByteRange, str]]:
        """Yield the digest of each range that ends within some bytes of the file."""
        while self.stops:
            stop = min(self.stops[0], at + len(data))
            self.hash.update(data[self.position - at : stop - at])
            self.position = stop
            if stop < self.stops[0]:
                return
            yield ByteRange(self.start, self.stops.popleft()), self.hash.hexdigest()


def _apart(size: int, ranges: Iterable[ByteRange]) -> Iterator[_Open]:
    """Yield the ranges in the order of the file; those from its first byte may have others within."""
    opened: _Open | None = None
    for start, stop in sorted({*ranges}):
        if not 0 <= start < stop <= size:
            continue
        if opened is not None and start == opened.start:
            opened.stops.append(stop)
        elif opened is None or opened.start == 0 or start >= opened.stops[-1]:
            if opened is not None:
                yield opened
            opened = _Open(start, deque([stop]), start)
    if opened is not None:
        yield opened


def _digests(size: int, ranges: Iterable[_Open]) -> Plan[dict[ByteRange, str]]:
    found: dict[ByteRange, str] = {}
    waiting, opened = deque(ranges), list[_Open]()
    pieces = [ByteRange(at, min(at + COALESCE_LIMIT, size)) for at in range(0, size, COALESCE_LIMIT)]
    for first in range(0, len(pieces), _AT_ONCE):
        wanted = pieces[first : first + _AT_ONCE]
        for piece, data in zip(wanted, (yield wanted), strict=True):
            if len(data) < len(piece):
                raise CorruptFileError(f"the file ends before byte {piece.stop}", offset=piece.start + len(data))
            while waiting and waiting[0].start < piece.stop:
                opened.append(waiting.popleft())
            for one in opened:
                found.update(one.take(piece.start, memoryview(data)))
            opened = [one for one in opened if one.stops]
    return found
