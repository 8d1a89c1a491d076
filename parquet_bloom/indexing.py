"""Makes, refreshes, shows and drops the index beside a directory of Parquet files (see indexes/bloom_index.py)."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from parquet_bloom.cache import Cache
from parquet_bloom.columns import ColumnChunks
from parquet_bloom.errors import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.footer import Footer, Plan, pages_extent, read_footer
from parquet_bloom.indexes.bloom_index import (
    Blocks,
    BloomIndex,
    Entry,
    Extent,
    IndexedColumn,
    Segment,
    Slot,
    Version,
    bitsets_of,
    blocks_file,
    entries_bytes,
    entries_of,
    folder_of,
    newest,
    open_index,
    read_whole,
    schema_json,
)
from parquet_bloom.parallel import Progress, map_in_order, share_threads
from parquet_bloom.partitions import partitions_of
from parquet_bloom.reader import describe_error, read_filters, usable
from parquet_bloom.results import Record, Table
from parquet_bloom.sbbf import SplitBlockBloomFilter, write_header
from parquet_bloom.schema import LeafColumn, PhysicalType, find_leaf, format_path, parse_path
from parquet_bloom.storage import SETTLING_SECONDS, Folder, Source, StorageOptions, drive, find, is_directory
from parquet_bloom.values import unbuildable
from parquet_bloom.writer import fill

SEGMENT_BYTES = 128 * 1024 * 1024
"""Bitsets that are held before they are written as a segment; a key takes a read of each segment."""

MOST_SEGMENTS = 8
"""With more, or with half of the rows out of date, a refresh writes all that counts anew as few segments."""

GRACE_SECONDS = 3600.0
"""Files that no version names are removed when they are older: another writer may be about to name them."""

ATTEMPTS = 20

_ROWS_OF_A_SEGMENT = 1000  # about: filters of 128 KiB


# ---- results -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnIndex(Record):
    """What the index has of a column: options, how many data files it speaks of, and how many not, or not any more.

    `problems` are sentences about files that have no filter: "why (how many)".
    """

    column: str
    fpp: float
    num_items: int
    max_expected_fpp: float
    files: int
    files_missing: int
    files_without_filter: int
    num_bytes: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexState(Table):
    """An index as it is: its `root`, its version's number, the bytes of all its files, a row for each column."""

    root: str
    number: int
    segments: int
    num_bytes: int
    rows: tuple[ColumnIndex, ...]
    built: int = 0  # rows that this call made

    @property
    def exists(self) -> bool:
        """Whether there is an index at all."""
        return self.number > 0


# ---- verbs -------------------------------------------------------------------------------


def index_create(
    root: str,
    columns: Sequence[str | IndexedColumn] | str,
    *,
    fpp: float = 0.1,
    num_items: int = 1_000_000,
    max_expected_fpp: float = 1.0,
    jobs: int | None = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> IndexState:
    """Give the index of the data below `root` these columns, for all files that are there; return its state.

    A column that it has already gets the new options, and its filters anew. The data files are only read: filters that
    they have are taken over where they are good enough, else their values are. `num_items` bounds a filter's size, by
    distinct values of a file; one that then has a rate above `max_expected_fpp` is left out. Raises
    `ColumnNotFoundError`, and `UnsupportedError` for nested columns, partition columns and types other than numbers of
    up to 64 bits, dates, timestamps and strings.
    """
    asked = [columns] if isinstance(columns, str) else list(columns)
    wanted = tuple(
        column if isinstance(column, IndexedColumn) else IndexedColumn(column, fpp, num_items, max_expected_fpp)
        for column in asked
    )
    _check_options(wanted)
    building = _Building(root, storage_options, jobs, progress)
    _check_columns(building, wanted)
    return building.run(set_to=wanted)


def index_refresh(
    root: str,
    *,
    jobs: int | None = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> IndexState:
    """Give the index what new and changed data files hold; return its state. Raises `FileNotFoundError` without one."""
    return _Building(root, storage_options, jobs, progress).run()


def index_drop(
    root: str, columns: Sequence[str] | str | None = None, *, storage_options: StorageOptions = None
) -> IndexState:
    """Take columns, or all, out of the index; return its state. With no column left its folder goes, too.

    Raises `ColumnNotFoundError` for a column that is not indexed, and `FileNotFoundError` where there is no index.
    """
    folder = folder_of(root, storage_options=storage_options)
    gone = None if columns is None else {columns} if isinstance(columns, str) else set(columns)

    def without(version: Version) -> Version:
        names = [column.column for column in version.columns]
        for name in gone or ():
            if name not in names:
                raise ColumnNotFoundError(name, names, where=f"the index of {root}")
        kept = tuple(column for column in version.columns if gone is not None and column.column not in gone)
        return replace(version, columns=kept, segments=version.segments if kept else ())

    version = _committed(folder, without, root)
    if not version.columns:
        folder.remove(folder.names())
        folder.remove_if_empty()
    return index_show(root, storage_options=storage_options)


def index_show(root: str, *, storage_options: StorageOptions = None) -> IndexState:
    """Return the state of the index of the data below `root`; with no columns where there is none."""
    return _state(root, storage_options, 0)


def _state(root: str, storage_options: StorageOptions, built: int) -> IndexState:
    folder = folder_of(root, storage_options=storage_options)
    found = newest(folder)
    if found is None:
        return IndexState(root, 0, 0, 0, ())
    version = found.version
    index = open_index(root, storage_options=storage_options, cache=Cache(0))
    sources = find(root, storage_options=storage_options)
    problems = _problems(folder, version)
    rows = []
    for column in version.columns:
        known = [source for source in sources if index and (column.column in _indexed(index, source))]
        why = problems.get(column.column, {})
        here = [why[source.relative] for source in sources if source.relative in why and source not in known]
        counted = {reason: here.count(reason) for reason in dict.fromkeys(here)}
        rows.append(
            ColumnIndex(
                column.column,
                column.fpp,
                column.num_items,
                column.max_expected_fpp,
                len(known),
                len(sources) - len(known) - len(here),
                len(here),
                sum(b.size for segment in version.segments for b in segment.blocks if b.column == column.column),
                tuple(f"{reason} ({number})" for reason, number in counted.items()),
            )
        )
    num_bytes = found.source.size + sum(s.size + sum(b.size for b in s.blocks) for s in version.segments)
    return IndexState(root, version.number, len(version.segments), num_bytes, tuple(rows), built)


def _indexed(index: BloomIndex, source: Source) -> Iterable[str]:
    file = index.find(source)
    return () if file is None else (file.leaves[number].name for number in file.filters)


def _problems(folder: Folder, version: Version) -> dict[str, dict[str, str]]:
    """Return by column and path why a data file has no filter."""
    found: dict[str, dict[str, str]] = {}
    for segment in version.segments:
        with contextlib.suppress(ParquetBloomError, OSError):
            for entry in entries_of(read_whole(folder.source(segment.name))):
                of_column = found.setdefault(entry.column, {})
                of_column.pop(entry.path, None)
                if entry.problem is not None:
                    of_column[entry.path] = entry.problem
    return found


# ---- what may be indexed -----------------------------------------------------------------


def _check_options(columns: Sequence[IndexedColumn]) -> None:
    if not columns:
        raise ValueError("name at least one column")
    names = [column.column for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"there is more than one configuration for column {name}")
    for column in columns:
        if not 0 < column.fpp <= 1:
            raise ValueError(f"fpp must be above 0 and at most 1, not {column.fpp}")
        if not 0 < column.max_expected_fpp <= 1:
            raise ValueError(f"maxExpectedFpp must be above 0 and at most 1, not {column.max_expected_fpp}")
        if column.num_items < 1:
            raise ValueError(f"numItems must be at least 1, not {column.num_items}")


def _check_columns(building: _Building, columns: Sequence[IndexedColumn]) -> None:
    """Raise for columns that cannot be indexed, by the files that can be read."""
    names = {name for source in building.sources for name in partitions_of(source.name).constants}
    seen: dict[str, LeafColumn] = {}
    groups: set[str] = set()
    for _, outcome in drive((source, read_footer(source.size)) for source in building.sources[:_SURVEYED]):
        if isinstance(outcome, Footer):
            seen |= {leaf.name: leaf for leaf in outcome.leaves}
            groups |= {format_path(leaf.path[:1]) for leaf in outcome.leaves if len(leaf.path) > 1}
    for column in columns:
        if column.column in names:
            raise UnsupportedError(f"{column.column} is a partition column, which needs no index")
        leaf = seen.get(column.column)
        if len(parse_path(column.column)) > 1 or column.column in groups:
            raise UnsupportedError(f"{column.column} is a nested column; the index has top-level columns only")
        if leaf is None:
            raise ColumnNotFoundError(column.column, seen)
        if problem := unsupported(leaf):
            raise UnsupportedError(problem)


_SURVEYED = 64


def unsupported(leaf: LeafColumn) -> str | None:
    """Return why a column's type cannot be indexed, or None."""
    logical = leaf.logical_type.name if leaf.logical_type else None
    by_type = {
        PhysicalType.INT32: (None, "INTEGER", "DATE"),
        PhysicalType.INT64: (None, "INTEGER", "TIMESTAMP"),
        PhysicalType.FLOAT: (None,),
        PhysicalType.DOUBLE: (None,),
        PhysicalType.INT96: (None,),
        PhysicalType.BYTE_ARRAY: ("STRING",),
    }
    if logical not in by_type.get(leaf.physical_type, ()):
        return f"the index takes no column of the type {leaf.type_name}, such as {leaf.name}"
    return unbuildable(leaf)


# ---- building ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Built:
    """A row to be, and the bitsets of its filters."""

    entry: Entry
    bitsets: tuple[bytes, ...] = ()


class _Building:
    """One call that brings an index up to date."""

    def __init__(self, root: str, storage_options: StorageOptions, jobs: int | None, progress: Progress | None) -> None:
        self.root, self._storage_options, self._jobs, self._progress = root, storage_options, jobs, progress
        self.folder = folder_of(root, storage_options=storage_options)
        self.sources = find(root, storage_options=storage_options)
        if not is_directory(self.folder.fs, root):
            raise UnsupportedError(f"{root} is not a directory; an index lies beside the files of one")

    def run(self, set_to: tuple[IndexedColumn, ...] = ()) -> IndexState:
        """Build what is missing, for the columns that the index has and those that are to be set."""
        found = newest(self.folder)
        if found is None and not set_to:
            raise FileNotFoundError(f"{self.root} has no index; create one first")
        before = found.version if found else Version()
        columns = _merged(before.columns, set_to)
        changed = {column.column for column in columns} - {
            column.column for column in before.columns if column in columns
        }
        self._settle()
        index = open_index(self.root, storage_options=self._storage_options, cache=Cache(0))
        known = self._known(before)
        missing = [
            (source, [c for c in columns if c.column in changed or c.column not in known(source, index)])
            for source in self.sources
        ]
        missing = [(source, wanted) for source, wanted in missing if wanted]
        segments = tuple(_segments(self.folder, self._built(missing)))
        version = (
            _committed(
                self.folder,
                lambda version: replace(
                    version, columns=_merged(version.columns, set_to), segments=(*version.segments, *segments)
                ),
                self.root,
                is_new=bool(set_to),
            )
            if segments or set_to
            else before
        )
        self._tidy(version)
        return _state(self.root, self._storage_options, sum(segment.num_rows for segment in segments))

    def _known(self, version: Version) -> Callable[[Source, BloomIndex | None], set[str]]:
        """Return what tells the columns that the index speaks of, with a filter or with why there is none."""
        problems: dict[tuple[str, str], set[str]] = {}
        for segment in version.segments:
            with contextlib.suppress(ParquetBloomError, OSError):
                for entry in entries_of(read_whole(self.folder.source(segment.name))):
                    if entry.problem is not None:
                        problems.setdefault((entry.path, entry.version), set()).add(entry.column)

        def known(source: Source, index: BloomIndex | None) -> set[str]:
            has = set(_indexed(index, source)) if index else set()
            return has | problems.get((source.relative, source.version), set())

        return known

    def _settle(self) -> None:
        """Wait until no file can change without a trace in its times; list them again then."""
        if any(not source.is_settled for source in self.sources):
            time.sleep(SETTLING_SECONDS)
            self.sources = find(self.root, storage_options=self._storage_options)

    def _built(self, missing: list[tuple[Source, list[IndexedColumn]]]) -> Iterator[Built]:
        at_once, _ = share_threads(self._jobs, 2 * len(missing))
        stop = threading.Event()
        with closing(map_in_order(lambda item: build(*item, stop), missing, at_once, stop)) as results:
            for done, rows in enumerate(results, 1):
                yield from rows
                if self._progress:
                    self._progress(done, len(missing))

    def _tidy(self, version: Version) -> None:
        """Write what counts anew where it is spread, and remove files that nothing names any more."""
        rows = sum(segment.num_rows for segment in version.segments)
        is_spread = len(version.segments) > MOST_SEGMENTS + rows // _ROWS_OF_A_SEGMENT
        if is_spread or rows > 2 * len(self.sources) * len(version.columns):
            with contextlib.suppress(ParquetBloomError, OSError):  # all is as good as before
                _compact(self.folder, version, {source.relative: source.version for source in self.sources}, self.root)
        _sweep(self.folder)


def _merged(columns: Iterable[IndexedColumn], changes: Iterable[IndexedColumn]) -> tuple[IndexedColumn, ...]:
    return tuple(({c.column: c for c in columns} | {c.column: c for c in changes}).values())


def build(source: Source, columns: Sequence[IndexedColumn], stop: threading.Event) -> list[Built]:
    """Return the rows of a data file; a column that it lacks, or that cannot be read, is a row without a filter."""
    ((_, outcome),) = drive([(source, _survey(source, columns))])
    if isinstance(outcome, Exception):
        return []  # not even a footer: nothing is known, and the next refresh tries again
    footer, stored = outcome
    rows = []
    for column in columns:
        entry = Entry(
            source.relative,
            source.version,
            source.size,
            hashlib.sha256(footer.raw).hexdigest(),
            footer.metadata.num_rows,
            tuple(_extent(group) for group in footer.metadata.row_groups),
            schema_json(footer.leaves),
            column.column,
        )
        try:
            blooms = _blooms(source, footer, column, stored.get(column.column), stop)
            rows.append(_with_filters(entry, column, blooms))
        except ConcurrentChangeError:
            return []
        except (ParquetBloomError, OSError) as error:
            rows.append(Built(replace(entry, problem=describe_error(error))))
    ((_, still),) = drive([(source, read_footer(source.size))])
    return rows if isinstance(still, Footer) and still.raw == footer.raw else []


def _survey(
    source: Source, columns: Sequence[IndexedColumn]
) -> Plan[tuple[Footer, dict[str, list[SplitBlockBloomFilter] | None]]]:
    footer = yield from read_footer(source.size, guess=source.footer_guess)
    stored: dict[str, list[SplitBlockBloomFilter] | None] = {}
    for column in columns:
        leaf = next((leaf for leaf in footer.leaves if leaf.name == column.column), None)
        if leaf is not None and usable(footer, leaf) is None:
            filters = yield from read_filters(footer, (leaf,))
            blooms = {f.row_group: f.bloom for f in filters if f.problem is None and f.bloom is not None}
            needed = [n for n, group in enumerate(footer.metadata.row_groups) if group.num_rows]
            stored[column.column] = [blooms[n] for n in needed] if set(needed) <= set(blooms) else None
    return footer, stored


def _blooms(
    source: Source,
    footer: Footer,
    column: IndexedColumn,
    stored: list[SplitBlockBloomFilter] | None,
    stop: threading.Event,
) -> list[SplitBlockBloomFilter]:
    leaf = find_leaf(footer.leaves, parse_path(column.column), where=source.name)
    if problem := usable(footer, leaf) or unsupported(leaf):
        raise UnsupportedError(problem)
    if stored is not None and _rate(stored) <= column.fpp:
        return stored
    chunks = ColumnChunks(source, footer)
    bound = sum(chunks.value_bound(number, leaf) for number in range(footer.num_row_groups))
    bloom = SplitBlockBloomFilter.sized_for(min(bound, column.num_items), column.fpp)
    for number in range(footer.num_row_groups):
        fill(bloom, chunks, number, leaf, stop.is_set)
    return [bloom.folded_to(column.fpp)]


def _rate(blooms: Sequence[SplitBlockBloomFilter]) -> float:
    """Return the rate at which any of several filters has a value that is in none."""
    none = 1.0
    for bloom in blooms:
        none *= 1 - bloom.fpp
    return 1 - none


def _with_filters(entry: Entry, column: IndexedColumn, blooms: list[SplitBlockBloomFilter]) -> Built:
    rate = _rate(blooms)
    entry = replace(
        entry,
        ndv=sum(bloom.estimated_ndv for bloom in blooms),
        fpp=rate,
        header=write_header(blooms[0].num_bytes) if blooms else None,
    )
    if rate > column.max_expected_fpp:
        return Built(replace(entry, problem=f"the filter's rate {rate:.2g} would be above {column.max_expected_fpp:g}"))
    return Built(entry, tuple(bytes(bloom.bitset) for bloom in blooms))


def _extent(group: Any) -> Extent:
    extents = [pages_extent(column.meta_data) for column in group.columns if column.meta_data is not None]
    start, stop = min((s for s, _ in extents), default=0), max((s for _, s in extents), default=0)
    return Extent(group.num_rows, start, stop)


# ---- segments and versions ---------------------------------------------------------------


def _segments(folder: Folder, built: Iterable[Built]) -> Iterator[Segment]:
    """Write rows and bitsets as segments; yield what a version says of each."""
    held: list[Built] = []
    num_bytes = 0
    for row in built:
        held.append(row)
        num_bytes += sum(map(len, row.bitsets))
        if num_bytes >= SEGMENT_BYTES:
            yield _segment(folder, held)
            held, num_bytes = [], 0
    if held:
        yield _segment(folder, held)


def _segment(folder: Folder, rows: list[Built]) -> Segment:
    by_size: dict[tuple[str, int], list[bytes]] = {}
    places: list[list[tuple[tuple[str, int], int]]] = []
    for row in rows:
        places.append([])
        for bitset in row.bitsets:
            key = row.entry.column, len(bitset)
            slots = by_size.setdefault(key, [])
            places[-1].append((key, len(slots)))
            slots.append(bitset)
    written: list[Blocks] = []
    for (column, _), bitsets in by_size.items():
        data, blocks = blocks_file(f"blocks-{uuid.uuid4().hex}.parquet", column, bitsets)
        folder.create(blocks.name, data)
        written.append(blocks)
    numbers = {key: number for number, key in enumerate(by_size)}
    entries = [
        replace(row.entry, slots=tuple(Slot(numbers[key], slot) for key, slot in of_row))
        for row, of_row in zip(rows, places, strict=True)
    ]
    entries.sort(key=lambda entry: (entry.column, entry.path))
    data = entries_bytes(entries)
    name = f"entries-{uuid.uuid4().hex}.parquet"
    folder.create(name, data)
    return Segment(name, len(data), zlib.crc32(data), len(entries), tuple(written))


def _committed(folder: Folder, change: Callable[[Version], Version], root: str, *, is_new: bool = False) -> Version:
    """Make the changed version the newest; where another writer was first, change that one's instead."""
    for _ in range(ATTEMPTS):
        found = newest(folder)
        if found is None and not is_new:
            raise FileNotFoundError(f"{root} has no index; create one first")
        old = found.version if found else Version()
        new = replace(change(old), number=old.number + 1)
        with contextlib.suppress(FileExistsError):
            folder.create(new.name, new.to_json())
            # A writer that slept since it looked may have taken a number from before the newest.
            if max(name for name in folder.names() if name.endswith(".json")) == new.name:
                return new
            folder.remove([new.name])
    raise ConcurrentChangeError(f"the index of {root} is being changed by others all the time; nothing was changed")


def _compact(folder: Folder, version: Version, live: Mapping[str, str], root: str) -> None:
    """Put the rows that count into new segments, instead of all that `version` has."""
    old = {segment.name for segment in version.segments}
    rows: dict[tuple[str, str], Built] = {}
    columns = {column.column for column in version.columns}
    for segment in version.segments:
        bitsets = [bitsets_of(read_whole(folder.source(blocks.name)), blocks) for blocks in segment.blocks]
        for entry in entries_of(read_whole(folder.source(segment.name))):
            if entry.column in columns and live.get(entry.path) == entry.version:
                found = tuple(bitsets[slot.blocks][slot.slot] for slot in entry.slots)
                rows[entry.path, entry.column] = Built(entry, found)
    segments = tuple(_segments(folder, rows.values()))

    def exchanged(current: Version) -> Version:
        if not old <= {segment.name for segment in current.segments}:
            raise ConcurrentChangeError("another writer has done the same")
        kept = tuple(segment for segment in current.segments if segment.name not in old)
        return replace(current, segments=(*segments, *kept))

    _committed(folder, exchanged, root)


def _sweep(folder: Folder) -> None:
    """Remove files that the newest version does not name, unless they are young."""
    found = newest(folder)
    if found is None:
        return
    named = {found.version.name}
    for segment in found.version.segments:
        named |= {segment.name, *(blocks.name for blocks in segment.blocks)}
    folder.remove(name for name in folder.names() if name not in named and folder.age(name) > GRACE_SECONDS)
