"""Makes, refreshes, shows and drops the index beside a directory of Parquet files (see indexes/bloom_index.py).

In the directory of a table the files are the live ones of its snapshot, and the columns are called as the table does.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import random
import threading
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from parquet_bloom.columns import ColumnChunks
from parquet_bloom.errors import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    CorruptFileError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.footer import Footer, Plan, pages_extent, read_footer
from parquet_bloom.indexes.bloom_index import (
    FOLDER,
    Blocks,
    BloomIndex,
    Entry,
    Extent,
    IndexedColumn,
    IndexedFile,
    Segment,
    Slot,
    Version,
    bitsets_of,
    blocks_file,
    checked_entries,
    entries_bytes,
    entries_of,
    folder_of,
    newest,
    read_whole,
    schema_json,
    state_of,
    version_name,
    version_numbers,
)
from parquet_bloom.parallel import Progress, map_in_order, share_threads
from parquet_bloom.partitions import partitions_of
from parquet_bloom.reader import describe_error, read_filters, usable
from parquet_bloom.results import Record, Table
from parquet_bloom.sbbf import SplitBlockBloomFilter, optimal_num_bytes, write_header
from parquet_bloom.schema import LeafColumn, PhysicalType, format_path, parse_path
from parquet_bloom.storage import (
    SETTLING_SECONDS,
    Folder,
    PathLike,
    Source,
    StorageOptions,
    drive,
    find,
    is_directory,
)
from parquet_bloom.tables import Snapshot, directory_of, fsspec_options, live_sources
from parquet_bloom.values import unbuildable
from parquet_bloom.writer import fill

SEGMENT_BYTES = 64 * 1024 * 1024
"""Bitsets that are held before they are written as a segment; a key takes a read of each segment."""

MOST_SEGMENTS = 8
"""With more that are not half full, or with half of all rows out of date, a refresh puts what counts together."""

GRACE_SECONDS = 3600.0
"""Files that no version names are removed when they are older, as another writer may be about to name them; so are
versions that others have followed so long ago, with what only they name, as a reader may be at work with them."""

ATTEMPTS = 20

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
class IndexState(Record, Table):
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
    root: PathLike,
    columns: Sequence[str | IndexedColumn] | str,
    *,
    fpp: float = 0.1,
    num_items: int = 1_000_000,
    max_expected_fpp: float = 1.0,
    jobs: int | None = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
    elsewhere: Elsewhere | None = None,
) -> IndexState:
    """Give the index of the data below `root` these columns, for all files that are there; return its state.

    A column that it has already gets the new options, and its filters anew. The data files are only read: filters that
    they have are taken over where they are good enough, else their values are. `num_items` bounds a filter's size, by
    distinct values of a file; one that then has a rate above `max_expected_fpp` is left out. Raises
    `ColumnNotFoundError`, and `UnsupportedError` for nested columns, partition columns and types other than numbers of
    up to 64 bits, dates, timestamps and strings.

    The directory of a Delta or Iceberg table stands for the live files of its snapshot, and the columns for those that
    the table calls so now, whatever each file calls them. Where one is renamed later, filters that are there go on to
    be used under its new name; for files that come then, the index has to be given that name.
    """
    asked = [columns] if isinstance(columns, str) else list(columns)
    wanted = tuple(
        replace(column, column=_canonical(column.column))
        if isinstance(column, IndexedColumn)
        else IndexedColumn(_canonical(column), fpp, num_items, max_expected_fpp)
        for column in asked
    )
    _check_options(wanted)
    building = _Building(os.fspath(root), storage_options, jobs, progress, elsewhere)
    _check_columns(building, wanted)
    return building.run(set_to=wanted)


def index_refresh(
    root: PathLike,
    *,
    jobs: int | None = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
    elsewhere: Elsewhere | None = None,
) -> IndexState:
    """Give the index what new and changed data files hold; return its state. Raises `FileNotFoundError` without one."""
    return _Building(os.fspath(root), storage_options, jobs, progress, elsewhere).run()


def index_drop(
    root: PathLike, columns: Sequence[str] | str | None = None, *, storage_options: StorageOptions = None
) -> IndexState:
    """Take columns, or all, out of the index; return its state. With no column left its folder goes, too.

    Raises `ColumnNotFoundError` for a column that is not indexed, and `FileNotFoundError` where there is no index.
    """
    root = os.fspath(root)
    folder = folder_of(root, storage_options=fsspec_options(storage_options))
    gone = None
    if columns is not None:
        gone = [_canonical(column) for column in ([columns] if isinstance(columns, str) else columns)]

    def without(version: Version) -> Version:
        names = [column.column for column in version.columns]
        for name in gone or ():
            if name not in names:
                raise ColumnNotFoundError(name, names, where=f"the index of {root}")
        kept = tuple(column for column in version.columns if gone is not None and column.column not in gone)
        return replace(version, columns=kept, segments=version.segments if kept else ())

    if gone == []:
        raise ValueError("name at least one column")
    found = newest(folder)
    is_unfinished = found is not None and not found.version.columns  # a drop that was stopped, or all is damaged
    if not is_unfinished:
        found = None if _committed(folder, without, root).columns else newest(folder)
    if found is not None:
        # The version without columns goes last: as long as it is there, no other writer takes its number.
        last = version_name(found.number)
        folder.remove(sorted(folder.names(), key=lambda name: name == last))
        folder.remove_if_empty()
    return index_show(root, storage_options=storage_options)


def index_show(root: PathLike, *, storage_options: StorageOptions = None) -> IndexState:
    """Return the state of the index of the data below `root`; with no columns where there is none."""
    return _state(os.fspath(root), storage_options, 0)


def _state(root: str, storage_options: StorageOptions, built: int) -> IndexState:
    folder = folder_of(root, storage_options=fsspec_options(storage_options))
    found = newest(folder)
    if found is None or found.source is None or not found.version.columns:
        return IndexState(root, 0, 0, 0, ())
    version = found.version
    index = BloomIndex.opened(folder, version)
    sources: list[Source] = []
    with contextlib.suppress(FileNotFoundError):  # no data files are left
        sources, _ = live_sources(root, storage_options=storage_options)
    files = [index.find(source) for source in sources]
    rows = tuple(_column_state(column, files, version) for column in version.columns)
    num_bytes = found.source.size + sum(segment.size + _blocks_bytes(segment) for segment in version.segments)
    return IndexState(root, version.number, len(version.segments), num_bytes, rows, built)


def _column_state(column: IndexedColumn, files: Sequence[IndexedFile | None], version: Version) -> ColumnIndex:
    name = column.column
    known = [file for file in files if file is not None and name in file.columns]
    problems = Counter(file.problems[name] for file in known if name in file.problems)
    return ColumnIndex(
        name,
        column.fpp,
        column.num_items,
        column.max_expected_fpp,
        files=len(known) - problems.total(),
        files_missing=len(files) - len(known),
        files_without_filter=problems.total(),
        num_bytes=sum(
            blocks.size for segment in version.segments for blocks in segment.blocks if blocks.column == name
        ),
        problems=tuple(f"{problem} ({number})" for problem, number in problems.items()),
    )


def _blocks_bytes(segment: Segment) -> int:
    return sum(blocks.size for blocks in segment.blocks)


# ---- what may be indexed -----------------------------------------------------------------


def _canonical(column: str) -> str:
    """Return a column's name as leaf columns are called."""
    return format_path(parse_path(column))


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
    constants = building.partition_columns
    seen: dict[str, LeafColumn] = {}
    groups: set[str] = set()
    errors = []
    missing = {column.column for column in columns}
    footers = drive((source, read_footer(source.size, guess=source.footer_guess)) for source in building.sources)
    for number, (_, footer) in enumerate(footers):
        if isinstance(footer, Exception):
            errors.append(footer)
            continue
        for leaf in building.leaves(footer):
            if leaf.name not in seen or unsupported(seen[leaf.name]):
                seen[leaf.name] = leaf
            if len(leaf.path) > 1:
                groups.add(format_path(leaf.path[:1]))
        missing -= seen.keys()
        if number >= _SURVEYED and not missing:
            break
    if errors and not seen:
        raise errors[0]
    for column in columns:
        name = column.column
        if name in constants:
            raise UnsupportedError(f"{name} is a partition column, which needs no index")
        if name in groups or (name in seen and (len(seen[name].path) > 1 or seen[name].is_repeated)):
            raise UnsupportedError(f"{name} is a nested column; the index has top-level columns only")
        if name not in seen:
            raise ColumnNotFoundError(name, seen, where="the data")
        if problem := unsupported(seen[name]):
            raise UnsupportedError(problem)


_SURVEYED = 64
"""Files that are looked at before a column's type is settled; more, as long as a column was not seen."""


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
    if logical not in by_type.get(leaf.physical_type, ()) or leaf.is_repeated:
        return f"the index takes no column of the type {leaf.type_name}, such as {leaf.name}"
    return unbuildable(leaf)


# ---- building ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Built:
    """A row to be, and the bitsets of its filters."""

    entry: Entry
    bitsets: tuple[bytes, ...] = ()

    @property
    def num_bytes(self) -> int:
        """The bytes of its bitsets."""
        return sum(map(len, self.bitsets))


Elsewhere = Callable[[str, Snapshot | None, list[tuple[Source, list[IndexedColumn]]]], Iterable[Segment]]
"""What builds and writes segments on other machines: given the index's root, the table if it is one, and the files."""


def write_segments(
    root: str,
    paths: Sequence[str],
    columns: Sequence[IndexedColumn],
    *,
    snapshot: Snapshot | None = None,
    storage_options: StorageOptions = None,
) -> list[Segment]:
    """Write what some of the files below `root` hold as segments of its index, which no version names yet.

    The files of a table are those of its `snapshot`, which need not list them here.
    """
    options = fsspec_options(storage_options)
    folder = folder_of(root, storage_options=options)
    stop = threading.Event()
    sources = (
        _below(folder, source) if snapshot is None else snapshot.below_root(source)
        for source in find(paths, storage_options=options)
    )
    built = (build(source, columns, stop, snapshot) for source in sources)
    return list(_segments(folder, chain.from_iterable(built)))


def _below(folder: Folder, source: Source) -> Source:
    """Return a data file that was named by itself, with its path below the directory of an index's folder."""
    root = folder.path.rstrip("/").removesuffix(FOLDER)
    return replace(source, relative=source.path.removeprefix(root).lstrip("/"))


class _Building:
    """One call that brings an index up to date."""

    def __init__(
        self,
        root: str,
        storage_options: StorageOptions,
        jobs: int | None,
        progress: Progress | None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._asked, self._storage_options, self._jobs, self._progress = root, storage_options, jobs, progress
        self._elsewhere = elsewhere
        self._list()
        self.root = str(directory_of(root, self.snapshot))
        self.folder = folder_of(self.root, storage_options=fsspec_options(storage_options))
        if not is_directory(self.folder.fs, self.root):
            raise UnsupportedError(f"{root} is not a directory; an index lies beside the files of one")

    def _list(self) -> None:
        self.sources, snapshot = live_sources(self._asked, storage_options=self._storage_options)
        # Only what tells the names: it goes to executors.
        self.snapshot = None if snapshot is None else replace(snapshot, files=(), recorded=None)
        partitions = (f.partition for f in snapshot.files) if snapshot else map(_constants, self.sources)
        self.partition_columns = set(chain.from_iterable(partitions))

    def leaves(self, footer: Footer) -> list[LeafColumn]:
        """Return a file's leaf columns as users call them; one that the table has no more is not among them."""
        leaves = footer.leaves if self.snapshot is None else self.snapshot.leaves(footer)
        return [leaf for leaf in leaves if leaf.path[0]]

    def run(self, set_to: tuple[IndexedColumn, ...] = ()) -> IndexState:
        """Build what is missing, for the columns that the index has and those that are to be set."""
        found = newest(self.folder)
        before = found.version if found else Version()
        if not before.columns and not set_to:
            raise _no_index(self.root)
        columns = _merged(before.columns, set_to)
        changed = set(columns) - set(before.columns)
        self._settle()
        index = BloomIndex.opened(self.folder, before)
        missing = []
        for source in self.sources:
            known = index.find(source)
            wanted = [c for c in columns if known is None or c in changed or c.column not in known.columns]
            if wanted:
                missing.append((source, wanted))
        if self._elsewhere is None:
            segments = tuple(_segments(self.folder, self._built(missing)))
        else:
            segments = tuple(self._elsewhere(self.root, self.snapshot, missing))

        def changed_to(version: Version) -> Version:
            kept = tuple(segment for segment in version.segments if segment.name not in index.lost)
            return replace(version, columns=_merged(version.columns, set_to), segments=(*kept, *segments))

        version = before
        if segments or set_to or index.lost:
            version = _committed(self.folder, changed_to, self.root, is_new=bool(set_to))
        with contextlib.suppress(ParquetBloomError, OSError):  # all is done
            self._tidy(version)
        return _state(self._asked, self._storage_options, sum(segment.num_rows for segment in segments))

    def _settle(self) -> None:
        """Wait until no file can change without a trace in its times; list them again then."""
        if any(not source.is_settled for source in self.sources):
            time.sleep(SETTLING_SECONDS)
            self._list()

    def _built(self, missing: list[tuple[Source, list[IndexedColumn]]]) -> Iterator[Built]:
        at_once, _ = share_threads(self._jobs, 2 * len(missing))
        stop = threading.Event()
        with closing(map_in_order(lambda item: build(*item, stop, self.snapshot), missing, at_once, stop)) as results:
            for done, rows in enumerate(results, 1):
                yield from rows
                if self._progress:
                    self._progress(done, len(missing))

    def _tidy(self, version: Version) -> None:
        """Put together what is spread over small segments or mostly out of date, and remove what nothing needs."""
        rows = sum(segment.num_rows for segment in version.segments)
        is_spread = sum(map(_is_small, version.segments)) > MOST_SEGMENTS
        if is_spread or rows > 2 * len(self.sources) * len(version.columns):
            with contextlib.suppress(ParquetBloomError, OSError):  # all is as good as before
                _compact(
                    self.folder, version, {source.relative: state_of(source) for source in self.sources}, self.root
                )
        _sweep(self.folder)


def _constants(source: Source) -> dict[str, str | None]:
    return partitions_of(source.name).constants


def _merged(columns: Iterable[IndexedColumn], changes: Iterable[IndexedColumn]) -> tuple[IndexedColumn, ...]:
    return tuple(({c.column: c for c in columns} | {c.column: c for c in changes}).values())


def build(
    source: Source, columns: Sequence[IndexedColumn], stop: threading.Event, snapshot: Snapshot | None = None
) -> list[Built]:
    """Return the rows of a data file; a column that it lacks, or that cannot be read, is a row without a filter."""
    ((_, outcome),) = drive([(source, _survey(source, columns, snapshot))])
    if isinstance(outcome, Exception) or not source.is_settled:
        return []  # nothing is known, or it may change with no trace in its times: the next refresh tries again
    footer, leaves, stored = outcome
    rows = []
    for column in columns:
        leaf = leaves[column.column]
        entry = Entry(
            source.relative,
            state_of(source),
            source.size,
            hashlib.sha256(footer.raw).hexdigest(),
            footer.metadata.num_rows,
            tuple(_extent(group) for group in footer.metadata.row_groups),
            schema_json(footer.leaves, footer.field_ids),
            column.column,
            None if leaf is None else leaf.index,
        )
        try:
            if leaf is None:
                raise ColumnNotFoundError(column.column, [leaf.name for leaf in footer.leaves], where="the file")
            blooms = _blooms(source, footer, leaf, column, stored.get(column.column), stop)
            rows.append(_with_filters(entry, column, blooms))
        except (ParquetBloomError, NotImplementedError) as error:
            if isinstance(error, ConcurrentChangeError):
                return []
            rows.append(Built(replace(entry, problem=describe_error(error))))
        except OSError:
            return []  # which may pass
    return rows  # of the file as it was listed, which it will never be again if it was changed meanwhile


_Survey = tuple[Footer, dict[str, LeafColumn | None], dict[str, list[SplitBlockBloomFilter] | None]]
"""A footer, and by columns' names: their leaves in the file, and the filters that the file has."""


def _survey(source: Source, columns: Sequence[IndexedColumn], snapshot: Snapshot | None) -> Plan[_Survey]:
    footer = yield from read_footer(source.size, guess=source.footer_guess)
    leaves: dict[str, LeafColumn | None] = {}
    stored: dict[str, list[SplitBlockBloomFilter] | None] = {}
    for column in columns:
        path = parse_path(column.column)
        path = path if snapshot is None else snapshot.locate(footer, path)
        leaf = leaves[column.column] = next((leaf for leaf in footer.leaves if leaf.path == path), None)
        if leaf is not None and usable(footer, leaf) is None:
            filters = yield from read_filters(footer, (leaf,))
            blooms = {f.row_group: f.bloom for f in filters if f.problem is None and f.bloom is not None}
            needed = [n for n, group in enumerate(footer.metadata.row_groups) if group.num_rows]
            stored[column.column] = [blooms[n] for n in needed] if set(needed) <= set(blooms) else None
    return footer, leaves, stored


def _blooms(
    source: Source,
    footer: Footer,
    leaf: LeafColumn,
    column: IndexedColumn,
    stored: list[SplitBlockBloomFilter] | None,
    stop: threading.Event,
) -> list[SplitBlockBloomFilter]:
    if problem := usable(footer, leaf) or unsupported(leaf):
        raise UnsupportedError(problem)
    taken = _taken_over(stored, column) if stored is not None else None
    if taken is not None:
        return taken
    chunks = ColumnChunks(source, footer)
    bound = sum(chunks.value_bound(number, leaf) for number in range(footer.num_row_groups))
    bloom = SplitBlockBloomFilter.sized_for(min(bound, column.num_items), column.fpp)
    for number in range(footer.num_row_groups):
        fill(bloom, chunks, number, leaf, stop.is_set)
    return [bloom.folded_to(column.fpp)]


def _taken_over(stored: list[SplitBlockBloomFilter], column: IndexedColumn) -> list[SplitBlockBloomFilter] | None:
    """Return the filters of a file's row groups as few and as small as the options allow; None if they are too coarse.

    One for all is the best: they hold the same values then.
    """
    candidates = [stored]
    if stored:
        rate = 1 - (1 - column.fpp) ** (1 / len(stored))
        candidates.insert(0, [bloom.folded_to(rate) for bloom in stored])
        with contextlib.suppress(ValueError):  # of sizes that do not go together
            candidates.insert(0, [functools.reduce(SplitBlockBloomFilter.merge, stored).folded_to(column.fpp)])
    most = optimal_num_bytes(column.num_items, column.fpp)
    for blooms in candidates:
        if _rate(blooms) <= column.fpp and sum(bloom.num_bytes for bloom in blooms) <= most:
            return blooms
    return None


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
        num_bytes += row.num_bytes
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
    for attempt in range(ATTEMPTS):
        found = newest(folder)
        if not is_new and (found is None or not found.version.columns):
            raise _no_index(root)
        old = found.version if found else Version()
        new = replace(change(old), number=found.number + 1 if found else 1)
        with contextlib.suppress(FileExistsError):
            folder.create(new.name, new.to_json())
            if _is_follower(folder, new.number, found.number if found else 0):
                return new
            folder.remove([new.name])
        time.sleep(random.random() * 0.02 * attempt)
    raise ConcurrentChangeError(f"the index of {root} is being changed by others all the time; nothing was changed")


def _is_follower(folder: Folder, number: int, before: int) -> bool:
    """Return whether a version that was just made followed the newest one, so that any newer one has followed it.

    A writer that slept since it looked may have taken a number that had been free for long: because versions before the
    newest were removed, or all of them.
    """
    numbers = version_numbers(folder.names())
    if before and before not in numbers:
        return False
    return numbers[-1] == number or (number + 1 in numbers and folder.age(version_name(number + 1)) <= GRACE_SECONDS)


def _no_index(root: str) -> FileNotFoundError:
    return FileNotFoundError(f"{root} has no index; create one first")


def _is_small(segment: Segment) -> bool:
    return _blocks_bytes(segment) < SEGMENT_BYTES // 2


def _compact(folder: Folder, version: Version, live: Mapping[str, str], root: str) -> None:
    """Put the rows that count of small segments, and of those that are mostly out of date, into new ones."""
    counting: dict[tuple[str, str], str] = {}  # by path and column: the segment whose row counts
    columns = {column.column for column in version.columns}
    for segment in version.segments:
        for entry in _entries(folder, segment):
            counting.pop((entry.path, entry.column), None)
            if entry.column in columns and live.get(entry.path) == entry.version:
                counting[entry.path, entry.column] = segment.name
    rows = Counter(counting.values())
    old = [s for s in version.segments if _is_small(s) or 2 * rows[s.name] < s.num_rows]
    names = {segment.name for segment in old}
    new = tuple(_segments(folder, (row for segment in old for row in _rows_of(folder, segment, counting))))

    def exchanged(current: Version) -> Version:
        at = [number for number, segment in enumerate(current.segments) if segment.name in names]
        if len(at) < len(names):
            raise ConcurrentChangeError("another writer has done the same")
        # Not before a segment whose rows they replace, nor after one whose rows replace theirs.
        kept = [segment if segment.name not in names else None for segment in current.segments]
        segments = [*kept[: at[-1]], *new, *kept[at[-1] :]]
        return replace(current, segments=tuple(segment for segment in segments if segment is not None))

    _committed(folder, exchanged, root)


def _entries(folder: Folder, segment: Segment) -> Iterable[Entry]:
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
    for entry in _entries(folder, segment):
        is_whole = all(slot.blocks in bitsets for slot in entry.slots)
        if is_whole and counting.get((entry.path, entry.column)) == segment.name:
            yield Built(entry, tuple(bitsets[slot.blocks][slot.slot] for slot in entry.slots))


def _sweep(folder: Folder) -> None:
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
