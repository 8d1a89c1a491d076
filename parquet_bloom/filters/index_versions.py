"""Versions of an index: how several writers add them at the same time, and when old files are removed."""

from __future__ import annotations

import contextlib
import random
import re
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
    IndexedColumn,
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
"""Files that are in no version are removed only when they are older: another writer may be about to add them to one.
Versions, and the files in them alone, are removed this long after the next version: a reader may still use them."""

ATTEMPTS = 20


def blocks_bytes(segment: Segment) -> int:
    """Return the bytes of a segment's filters."""
    return sum(blocks.size for blocks in segment.blocks)


def committed(folder: Folder, change: Callable[[Version], Version], root: str, *, is_new: bool = False) -> Version:
    """Write a changed version as the newest; if another writer was first, change that writer's version instead."""
    for attempt in range(ATTEMPTS):
        latest = newest(folder)
        if not is_new and (latest is None or not latest.version.columns):
            raise no_index(root)
        old = latest.version if latest else Version()
        new = replace(change(old), number=latest.number + 1 if latest else 1)
        with contextlib.suppress(FileExistsError):
            folder.create(new.name, new.to_json(), like=map(folder.local_path, new.files))
            if _is_follower(folder, new.number, latest.number if latest else 0):
                return new
            folder.remove([new.name])
        time.sleep(random.random() * 0.02 * attempt)
    raise ConcurrentChangeError(f"other writers keep changing the index of {root}; nothing was changed")


def merged(columns: Iterable[IndexedColumn], changes: Iterable[IndexedColumn]) -> tuple[IndexedColumn, ...]:
    """Return the columns of an index, of which some change or are new."""
    return tuple(({c.column: c for c in columns} | {c.column: c for c in changes}).values())


def _is_follower(folder: Folder, number: int, before: int) -> bool:
    """Return whether a version that was just written follows the newest one, so that newer ones follow it.

    A writer that was slow may have used a number that has been free for a long time, because all versions before the
    newest were removed, or all versions.
    """
    numbers = version_numbers(folder.names())
    if before and before not in numbers:
        return False
    return numbers[-1] == number or (number + 1 in numbers and folder.age(version_name(number + 1)) <= GRACE_SECONDS)


def no_index(root: str) -> IndexNotFoundError:
    """Return the error for a directory without an index."""
    return IndexNotFoundError(f"{root} has no index; create one first")


def is_small(segment: Segment) -> bool:
    """Return whether a segment is less than half full."""
    return blocks_bytes(segment) < SEGMENT_BYTES // 2


def compact(
    folder: Folder, version: Version, live: Mapping[str, str], root: str, *, keeps_outdated: bool = True
) -> None:
    """Copy the current rows of small segments, and of segments that are mostly outdated, into new segments.

    Without `keeps_outdated`, those of each segment that has an outdated row.
    """
    counting: dict[tuple[str, str], str] = {}  # by path and column: the segment with the current row
    columns = {column.column for column in version.columns}
    for segment in version.segments:
        for entry in rows_in(folder, segment):
            counting.pop((entry.path, entry.column), None)
            if entry.column in columns and live.get(entry.path) == entry.version:
                counting[entry.path, entry.column] = segment.name
    rows = Counter(counting.values())
    most = 2 if keeps_outdated else 1
    old = [s for s in version.segments if (keeps_outdated and is_small(s)) or most * rows[s.name] < s.num_rows]
    if not old:
        return
    names = {segment.name for segment in old}
    new = tuple(in_segments(folder, (row for segment in old for row in _rows_of(folder, segment, counting))))

    def exchanged(current: Version) -> Version:
        at = [number for number, segment in enumerate(current.segments) if segment.name in names]
        if len(at) < len(names):
            raise ConcurrentChangeError("another writer has just done the same")
        # Not before a segment whose rows they replace, and not after one that replaces their rows.
        kept = [segment if segment.name not in names else None for segment in current.segments]
        segments = [*kept[: at[-1]], *new, *kept[at[-1] :]]
        return replace(current, segments=tuple(segment for segment in segments if segment is not None))

    committed(folder, exchanged, root)


def rows_in(folder: Folder, segment: Segment) -> Iterable[Entry]:
    """Return the rows of a segment; none if it is gone or damaged."""
    try:
        return entries_of(checked_entries(folder, segment))
    except (CorruptFileError, FileNotFoundError):
        return ()


def _rows_of(folder: Folder, segment: Segment, counting: Mapping[tuple[str, str], str]) -> Iterator[Built]:
    """Yield the current rows of a segment, with their filters; none if they are gone or damaged."""
    bitsets: dict[int, list[bytes]] = {}
    for number, blocks in enumerate(segment.blocks):
        with contextlib.suppress(CorruptFileError, FileNotFoundError):
            bitsets[number] = bitsets_of(read_whole(folder.source(blocks.name)), blocks)
    for entry in rows_in(folder, segment):
        is_whole = all(slot.blocks in bitsets for slot in entry.slots)
        if is_whole and counting.get((entry.path, entry.column)) == segment.name:
            of_entry = tuple(bitsets[slot.blocks][slot.slot] for slot in entry.slots)
            yield Built(entry, of_entry, folder.local_path(segment.name))


def sweep(folder: Folder) -> None:
    """Remove files that are in no version, and versions that were replaced long ago; see `GRACE_SECONDS`."""
    latest = newest(folder)
    if latest is None or latest.source is None:
        return
    names = folder.names()
    versions = [version_name(number) for number in version_numbers(names)]
    followed = {name for name, follower in pairwise(versions) if folder.age(follower) > GRACE_SECONDS}
    needed = {*versions} - followed | latest.version.files
    unnamed = [name for name in names if name not in needed and folder.age(name) > GRACE_SECONDS]
    for name in versions if unnamed else ():
        if name not in followed:
            with contextlib.suppress(CorruptFileError):
                needed |= Version.of_json(read_whole(folder.source(name))).files
    folder.remove(name for name in unnamed if name not in needed)


def forget(folder: Folder) -> None:
    """Remove all versions but the newest, and the files that they alone name, without waiting for their readers."""
    latest = newest(folder)
    if latest is None or latest.source is None:
        return
    versions = {version_name(number) for number in version_numbers(folder.names())} - {latest.version.name}
    files: set[str] = set()
    for name in versions:
        with contextlib.suppress(CorruptFileError, FileNotFoundError):
            files |= Version.of_json(read_whole(folder.source(name))).files
    folder.remove([*sorted(versions), *sorted(files - latest.version.files)])


def remove_all(folder: Folder) -> bool:
    """Remove the files of an index, and its folder if nothing else is in it; return whether there were any."""
    names = [name for name in folder.names() if _OWN.fullmatch(name)]
    # The newest version goes last: as long as it is there, no other writer takes its number.
    last = [version_name(number) for number in version_numbers(names)[-1:]]
    folder.remove(sorted(names, key=last.__contains__))
    folder.remove_if_empty()
    return bool(names)


_OWN = re.compile(r"\d{8}\.json|(entries|states|blocks)-\w+\.(parquet|bin)|\..+\.parquet-bloom\.tmp")
"""The names of an index's files, in this release and in earlier ones."""


def adopt(inside: Folder | None, folder: Folder, root: str) -> None:
    """Move the index of a directory from where earlier releases had it, if it is there, into `folder`.

    First a version in `folder` names copies of its files, and only then they go. The copies' names follow from theirs:
    so the next run completes one that was killed, and of two at the same time both do the same.
    """
    if inside is None:
        return
    if (old := newest(inside)) is not None and old.version.columns:
        segments = [copy for each in old.version.segments if (copy := _copied(each, inside, folder)) is not None]

        def with_old(version: Version) -> Version:
            known = {segment.name for segment in version.segments}
            new = (segment for segment in segments if segment.name not in known)
            return replace(
                version,
                columns=merged(old.version.columns, version.columns),
                segments=(*new, *version.segments),  # so that what is there counts
            )

        committed(folder, with_old, root, is_new=True)
    remove_all(inside)


def _copied(segment: Segment, inside: Folder, folder: Folder) -> Segment | None:
    """Return a segment whose files are copies in another folder; None if they are gone or damaged."""
    new = {name: f"{name.partition('.')[0]}.bin" for name in segment.sizes}
    for name, size in segment.sizes.items():
        try:
            data = read_whole(inside.source(name))
        except FileNotFoundError:
            return None
        if len(data) != size:
            return None
        with contextlib.suppress(FileExistsError):
            folder.create(new[name], data, like=[inside.local_path(name)])
    blocks = tuple(replace(each, name=new[each.name]) for each in segment.blocks)
    return replace(segment, name=new[segment.name], states=new[segment.states], blocks=blocks)
