"""Versions of an index: how several writers take turns, and what is removed when."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from parquet_bloom.errors import (
    ConcurrentChangeError,
    CorruptFileError,
    IndexNotFoundError,
)
from parquet_bloom.filters.index import (
    Entry,
    Segment,
    Version,
    bitsets_of,
    checked_entries,
    entries_of,
    newest,
    version_name,
    version_numbers,
)
from parquet_bloom.filters.index_build import SEGMENT_BYTES, Built, in_segments
from parquet_bloom.storage.drive import read_whole
from parquet_bloom.storage.folder import Folder

GRACE_SECONDS = 3600.0
"""Files that no version names are removed when they are older, as another writer may be about to name them; so are
versions that others have followed so long ago, with what only they name, as a reader may be at work with them."""

ATTEMPTS = 20


def blocks_bytes(segment: Segment) -> int:
    """Return the bytes of a segment's filters."""
    return sum(blocks.size for blocks in segment.blocks)


def committed(folder: Folder, change: Callable[[Version], Version], root: str, *, is_new: bool = False) -> Version:
    """Make the changed version the newest; where another writer was first, change that one's instead."""
    for attempt in range(ATTEMPTS):
        found = newest(folder)
        if not is_new and (found is None or not found.version.columns):
            raise no_index(root)
        old = found.version if found else Version()
        new = replace(change(old), number=found.number + 1 if found else 1)
        with contextlib.suppress(FileExistsError):
            folder.create(new.name, new.to_json())
            if _is_follower(folder, new.number, found.number if found else 0):
                return new
            folder.remove([new.name])
        time.sleep(random.random() * 0.02 * attempt)
    raise ConcurrentChangeError(f"other writers keep changing the index of {root}; nothing was changed")


def _is_follower(folder: Folder, number: int, before: int) -> bool:
    """Return whether a version that was just made followed the newest one, so that any newer one has followed it.

    A writer that slept since it looked may have taken a number that had been free for long: because versions before the
    newest were removed, or all of them.
    """
    numbers = version_numbers(folder.names())
    if before and before not in numbers:
        return False
    return numbers[-1] == number or (number + 1 in numbers and folder.age(version_name(number + 1)) <= GRACE_SECONDS)


def no_index(root: str) -> IndexNotFoundError:
    """Return the error of a directory without an index."""
    return IndexNotFoundError(f"{root} has no index; create one first")


def is_small(segment: Segment) -> bool:
    """Return whether a segment is less than half full."""
    return blocks_bytes(segment) < SEGMENT_BYTES // 2


def compact(folder: Folder, version: Version, live: Mapping[str, str], root: str) -> None:
    """Put the rows that count of small segments, and of those that are mostly out of date, into new ones."""
    counting: dict[tuple[str, str], str] = {}  # by path and column: the segment whose row counts
    columns = {column.column for column in version.columns}
    for segment in version.segments:
        for entry in rows_in(folder, segment):
            counting.pop((entry.path, entry.column), None)
            if entry.column in columns and live.get(entry.path) == entry.version:
                counting[entry.path, entry.column] = segment.name
    rows = Counter(counting.values())
    old = [s for s in version.segments if is_small(s) or 2 * rows[s.name] < s.num_rows]
    names = {segment.name for segment in old}
    new = tuple(in_segments(folder, (row for segment in old for row in _rows_of(folder, segment, counting))))

    def exchanged(current: Version) -> Version:
        at = [number for number, segment in enumerate(current.segments) if segment.name in names]
        if len(at) < len(names):
            raise ConcurrentChangeError("another writer has just done the same")
        # Not before a segment whose rows they replace, nor after one whose rows replace theirs.
        kept = [segment if segment.name not in names else None for segment in current.segments]
        segments = [*kept[: at[-1]], *new, *kept[at[-1] :]]
        return replace(current, segments=tuple(segment for segment in segments if segment is not None))

    committed(folder, exchanged, root)


def rows_in(folder: Folder, segment: Segment) -> Iterable[Entry]:
    """Return the rows of a segment; none of one that is gone or damaged."""
    try:
        return entries_of(checked_entries(folder, segment))
    except (CorruptFileError, FileNotFoundError):
        return ()


def _rows_of(folder: Folder, segment: Segment, counting: Mapping[tuple[str, str], str]) -> Iterator[Built]:
    """Yield those rows of a segment that count, with their filters; none of those that are gone or damaged."""
    bitsets: dict[int, list[bytes]] = {}
    for number, blocks in enumerate(segment.blocks):
        with contextlib.suppress(CorruptFileError, FileNotFoundError):
            bitsets[number] = bitsets_of(read_whole(folder.source(blocks.name)), blocks)
    for entry in rows_in(folder, segment):
        is_whole = all(slot.blocks in bitsets for slot in entry.slots)
        if is_whole and counting.get((entry.path, entry.column)) == segment.name:
            found = tuple(bitsets[slot.blocks][slot.slot] for slot in entry.slots)
            yield Built(entry, found, folder.local_path(segment.name))


def sweep(folder: Folder) -> None:
    """Remove files that no version names, and versions that were followed long ago, unless they are young."""
    found = newest(folder)
    if found is None or found.source is None:
        return
    names = folder.names()
    versions = [version_name(number) for number in version_numbers(names)]
    followed = {name for name, follower in pairwise(versions) if folder.age(follower) > GRACE_SECONDS}
    needed = {*versions} - followed | found.version.files
    unnamed = [name for name in names if name not in needed and folder.age(name) > GRACE_SECONDS]
    for name in versions if unnamed else ():
        if name not in followed:
            with contextlib.suppress(CorruptFileError):
                needed |= Version.of_json(read_whole(folder.source(name))).files
    folder.remove(name for name in unnamed if name not in needed)
