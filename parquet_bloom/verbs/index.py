"""Makes, refreshes, shows and drops the index beside a directory of Parquet files (see filters/index.py).

In the directory of a table the files are the live ones of its snapshot, and the columns are called as the table does.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar

from parquet_bloom.errors import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    IndexNotFoundError,
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.filters.index import (
    LOG,
    BloomIndex,
    Filters,
    IndexedColumn,
    IndexedFile,
    Segment,
    Version,
    newest,
    state_of,
)
from parquet_bloom.filters.index_build import OPEN, Access, Built, build, in_segments, why_no_rows, why_unsupported
from parquet_bloom.filters.index_folder import (
    SAY_WHERE,
    folder_at,
    folder_inside,
    folder_of,
    moving_advice,
    required_folder,
)
from parquet_bloom.filters.index_versions import (
    adopt,
    blocks_bytes,
    committed,
    compact,
    forget,
    is_small,
    merged,
    no_index,
    remove_all,
    rows_in,
    sweep,
)
from parquet_bloom.filters.readers import readers_of
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.footer import Footer, read_footer
from parquet_bloom.format.schema import LeafColumn, format_path, parse_path
from parquet_bloom.results import FailedFile, Record, Table
from parquet_bloom.storage.drive import drive
from parquet_bloom.storage.folder import Folder
from parquet_bloom.storage.listing import (
    PathLike,
    Source,
    StorageOptions,
    find,
    is_directory,
    resolve,
    wait_until_stable,
)
from parquet_bloom.storage.strays import Strays, strays_among
from parquet_bloom.tables import Snapshot, directory_of, fsspec_options, live_sources, root_of
from parquet_bloom.verbs.parallel import Progress, map_in_order, share_threads

MOST_SEGMENTS = 8
"""With more that are not half full, or with half of all rows out of date, a refresh puts what counts together."""

# ---- results -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class ColumnIndex(Record):
    """What the index has of a column: options, how many data files it speaks of, and how many not, or not any more.

    `problems` are sentences about files that have no filter: "why (how many)"; `num_bytes` are those of filters in use.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("column", "fpp", "ndv", "files", "files_missing")

    column: str
    fpp: float
    ndv: int
    max_expected_fpp: float
    files: int
    files_missing: int
    files_without_filter: int
    num_bytes: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class IndexState(Table, Record):
    """An index as it is: its `root`, its version's number, the bytes of all its files, a row for each column.

    `errors` are the files that this call could not read; the index lacks them. `readers` are those of the data files,
    if it remembers any.
    """

    TRUTH: ClassVar[str] = ".exists"
    NOUN: ClassVar[str] = "column"

    root: str
    number: int
    segments: int
    num_bytes: int
    rows: tuple[ColumnIndex, ...]
    built: int = 0  # rows that this call made
    errors: tuple[FailedFile, ...] = ()
    readers: str | None = None

    @property
    def exists(self) -> bool:
        """Whether there is an index at all."""
        return self.number > 0


# ---- verbs -------------------------------------------------------------------------------


def create(
    root: PathLike | Any,
    columns: Sequence[str | IndexedColumn] | str,
    *,
    at: PathLike | None = None,
    catalog: str | None = None,
    allow_outside: bool = False,
    fpp: float = 0.1,
    ndv: int = 1_000_000,
    max_expected_fpp: float = 1.0,
    readers: str | Sequence[str] | None = None,
    jobs: int | None = None,
    storage_options: StorageOptions = None,
    decryption: Decryption | None = None,
    allow_unencrypted: bool = False,
    progress: Progress | None = None,
) -> IndexState:
    """Index columns of all Parquet files below `root`, and return the state of the index.

    The data files are only read. Filters that they have are copied if they are good enough, else they are built from
    the values. A column that is indexed already gets the new options and new filters. The index of a table covers the
    live files of its snapshot, under the table's names: if a column is renamed, its filters stay in use under the new
    name, but new files need the index to be created for that name.

    Args:
        root: The directory of the files, or a Delta or Iceberg table, as for `prune`.
        columns: Top-level columns, or `IndexedColumn`s with options of their own.
        at: The folder for the index. By default it lies beside the directory, in `NAME.bloom-index`.
        catalog: A catalog of pyiceberg's configuration; `root` is then the name of an Iceberg table, such as
            `db.events`.
        allow_outside: Also read files that the table's metadata names outside of the table's directory, instead of
            raising.
        fpp: The false-positive rate of a file's filter.
        ndv: The most distinct values of a file to size a filter for.
        max_expected_fpp: Leave out filters whose rate is worse than this.
        readers: The engines that read the files, for the index to remember: `add` goes by them. By default those that
            it has.
        jobs: Threads. By default one for each processor.
        storage_options: Options for fsspec, such as credentials.
        decryption: Keys for encrypted files.
        allow_unencrypted: Also index encrypted files, although the index has filters of their values that are not
            encrypted. By default such files are among the errors.
        progress: Is called with how much is done and how much there is in all. It counts files.

    Returns:
        An `IndexState`: a row for each column. `.errors` are the files that could not be indexed.

    Raises:
        FileNotFoundError: There are no files below `root`.
        ColumnNotFoundError: The data has no such column.
        UnsupportedError: A column is nested, a partition column, or of a type that cannot be indexed; or the index
            would lie where other programs read it as data.
        ValueError: An option has a value that makes no sense.

    Examples:
        >>> state = parquet_bloom.index.create("events", "id")
        >>> [(row.column, row.files, row.files_missing) for row in state]
        [('id', 2, 0)]
    """
    wanted = indexed_columns(columns, fpp=fpp, ndv=ndv, max_expected_fpp=max_expected_fpp)
    return build_index(
        root,
        wanted,
        at=at,
        catalog=catalog,
        allow_outside=allow_outside,
        readers=readers,
        jobs=jobs,
        storage_options=storage_options,
        access=Access(decryption, allow_unencrypted),
        progress=progress,
    )


def refresh(
    root: PathLike | Any,
    *,
    at: PathLike | None = None,
    catalog: str | None = None,
    allow_outside: bool = False,
    jobs: int | None = None,
    storage_options: StorageOptions = None,
    decryption: Decryption | None = None,
    allow_unencrypted: bool = False,
    progress: Progress | None = None,
) -> IndexState:
    """Index files that are new or have changed, and return the state of the index.

    Args:
        root: The directory of the files, or a Delta or Iceberg table, as for `prune`.
        at: The folder of the index, if it was created with `at=`.
        catalog: A catalog of pyiceberg's configuration; `root` is then the name of an Iceberg table, such as
            `db.events`.
        allow_outside: Also read files that the table's metadata names outside of the table's directory, instead of
            raising.
        jobs: Threads. By default one for each processor.
        storage_options: Options for fsspec, such as credentials.
        decryption: Keys for encrypted files.
        allow_unencrypted: Also index encrypted files, although the index has filters of their values that are not
            encrypted. By default such files are among the errors.
        progress: Is called with how much is done and how much there is in all. It counts files.

    Returns:
        An `IndexState`. `.built` counts what this call built, and `.errors` are the files that could not be indexed.

    Raises:
        IndexNotFoundError: There is no index.

    Examples:
        >>> _ = parquet_bloom.index.create("events", "id")
        >>> parquet_bloom.index.refresh("events").built
        0
    """
    return build_index(
        root,
        at=at,
        catalog=catalog,
        allow_outside=allow_outside,
        jobs=jobs,
        storage_options=storage_options,
        access=Access(decryption, allow_unencrypted),
        progress=progress,
    )


def drop(
    root: PathLike | Any,
    columns: Sequence[str] | str | None = None,
    *,
    at: PathLike | None = None,
    catalog: str | None = None,
    allow_outside: bool = False,
    storage_options: StorageOptions = None,
) -> IndexState:
    """Remove columns from the index, and return its state; if no column is left, its folder goes, too.

    Args:
        root: The directory of the files, or a Delta or Iceberg table, as for `prune`.
        columns: Columns of the index. By default all.
        at: The folder of the index, if it was created with `at=`.
        catalog: A catalog of pyiceberg's configuration; `root` is then the name of an Iceberg table, such as
            `db.events`.
        allow_outside: Whether the index was created so.
        storage_options: Options for fsspec, such as credentials.

    Returns:
        An `IndexState`. `.exists` is whether an index is left.

    Raises:
        IndexNotFoundError: There is no index.
        ColumnNotFoundError: A column is not indexed.
        ValueError: `columns` is an empty list.

    Examples:
        >>> _ = parquet_bloom.index.create("events", ["id", "user"])
        >>> [row.column for row in parquet_bloom.index.drop("events", "user")]
        ['id']
        >>> parquet_bloom.index.drop("events").exists
        False
    """
    asked, root = root, root_of(root, catalog=catalog, storage_options=storage_options)
    options = fsspec_options(storage_options)
    folder = folder_of(root, at, storage_options=options)
    inside = folder_inside(root, storage_options=options)
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
        raise ValueError("give at least one column")
    if gone is not None:  # an error that would hide the result comes first
        show(asked, at=at, catalog=catalog, allow_outside=allow_outside, storage_options=storage_options)
        if inside is not None and inside.names():
            folder = required_folder(root, at, storage_options=options)
            adopt(inside, folder, root)
    had_inside = inside is not None and remove_all(inside)
    latest = newest(folder) if folder is not None else None
    if latest is None and not had_inside:
        raise IndexNotFoundError(f"{root} has no index, so there is nothing to drop")
    if folder is None or latest is None:
        is_over = False
    else:  # without columns it is a drop that was stopped, or all is damaged
        is_over = not latest.version.columns or not committed(folder, without, root).columns
    if folder is not None and is_over:
        remove_all(folder)
    return show(asked, at=at, catalog=catalog, allow_outside=allow_outside, storage_options=storage_options)


def show(
    root: PathLike | Any,
    *,
    at: PathLike | None = None,
    catalog: str | None = None,
    allow_outside: bool = False,
    storage_options: StorageOptions = None,
) -> IndexState:
    """Return the state of the index of the files below `root`.

    Args:
        root: The directory of the files, or a Delta or Iceberg table, as for `prune`.
        at: The folder of the index, if it was created with `at=`.
        catalog: A catalog of pyiceberg's configuration; `root` is then the name of an Iceberg table, such as
            `db.events`.
        allow_outside: Whether the index was created so.
        storage_options: Options for fsspec, such as credentials.

    Returns:
        An `IndexState`. If there is no index, `.exists` is False and it has no rows.

    Raises:
        UnsupportedError: `root` is a table that cannot be read right.

    Examples:
        >>> parquet_bloom.index.show("events").exists
        False
    """
    return _state(root, at, catalog, storage_options, allow_outside=allow_outside)


def _state(
    asked: Any,
    at: PathLike | None,
    catalog: str | None,
    storage_options: StorageOptions,
    built: int = 0,
    failures: Mapping[Source, Exception] | None = None,
    *,
    allow_outside: bool,
) -> IndexState:
    root = root_of(asked, catalog=catalog, storage_options=storage_options)
    options = fsspec_options(storage_options)
    inside = folder_inside(root, storage_options=options)
    if inside is not None and inside.names():
        LOG.warning("%s", moving_advice(root))
    folder = folder_of(root, at, storage_options=options)
    latest = newest(folder) if folder is not None else None
    if latest is None or latest.source is None or not latest.version.columns:
        return IndexState(root, 0, 0, 0, ())
    version = latest.version
    index = BloomIndex(version, latest.sources)
    sources: list[Source] = []
    with contextlib.suppress(FileNotFoundError):  # no data files are left
        sources, _ = live_sources(asked, catalog=catalog, storage_options=storage_options, allow_outside=allow_outside)
    known = {source: index.find(source) for source in sources}
    strays = strays_among(source for source, file in known.items() if file is None)
    files = [file for source, file in known.items() if source not in strays]
    rows = tuple(_column_state(column, files, index) for column in version.columns)
    errors = tuple(FailedFile(source.name, describe_error(error)) for source, error in (failures or {}).items())
    num_bytes = latest.source.size + sum(segment.size + blocks_bytes(segment) for segment in version.segments)
    return IndexState(
        *(root, version.number, len(version.segments), num_bytes, rows, built, errors),
        readers=version.readers or None,
    )


def _column_state(column: IndexedColumn, files: Sequence[IndexedFile | None], index: BloomIndex) -> ColumnIndex:
    name = column.column
    known = [file for file in files if file is not None and name in file.columns]
    problems = Counter(file.problems[name] for file in known if name in file.problems)
    return ColumnIndex(
        name,
        column.fpp,
        column.ndv,
        column.max_expected_fpp,
        files=len(known) - problems.total(),
        files_missing=len(files) - len(known),
        files_without_filter=problems.total(),
        num_bytes=sum(index.num_bytes_of(_filters(file, name)) for file in known),
        problems=tuple(f"{problem} ({number})" for problem, number in problems.items()),
    )


def _filters(file: IndexedFile, column: str) -> Filters:
    return next((filters for leaf, filters in file.filters.items() if file.schema.leaves[leaf].name == column), ())


# ---- building ----------------------------------------------------------------------------


def indexed_columns(
    columns: Sequence[str | IndexedColumn] | str, *, fpp: float, ndv: int, max_expected_fpp: float
) -> tuple[IndexedColumn, ...]:
    """Return columns with their options; those that come with none get these. Raises `ValueError`."""
    wanted = tuple(
        replace(column, column=_canonical(column.column))
        if isinstance(column, IndexedColumn)
        else IndexedColumn(_canonical(column), fpp, ndv, max_expected_fpp)
        for column in ([columns] if isinstance(columns, str) else columns)
    )
    _check_options(wanted)
    return wanted


def build_index(
    root: Any,
    columns: tuple[IndexedColumn, ...] = (),
    *,
    at: PathLike | None = None,
    catalog: str | None = None,
    allow_outside: bool = False,
    readers: str | Sequence[str] | None = None,
    jobs: int | None = None,
    storage_options: StorageOptions = None,
    access: Access = OPEN,
    progress: Progress | None = None,
    elsewhere: Elsewhere | None = None,
) -> IndexState:
    """Give the index these columns beside those that it has, and what new and changed files hold; return its state.

    It remembers `readers`, if any are given, instead of those that it has.
    `elsewhere` builds what is missing, by default this machine does.
    """
    named = None if readers is None else readers_of(readers).text
    building = _Building(
        root, at, catalog, storage_options, jobs, progress, elsewhere, allow_outside=allow_outside, access=access
    )
    if columns:
        _check_columns(building, columns)
    try:
        return building.run(set_to=columns, readers=named)
    except PermissionError as error:  # in a store, which does not tell before
        problem = f"{describe_error(error)}; if the index may not lie in {building.folder.name}"
        raise PermissionError(f"{problem}, {SAY_WHERE}") from error


def purge(
    root: Any,
    at: PathLike | None = None,
    *,
    catalog: str | None = None,
    jobs: int | None = None,
    storage_options: StorageOptions = None,
) -> None:
    """Refresh an index, and remove from it what it has of files that changed or are gone; of no files, all of it."""
    try:
        building = _Building(root, at, catalog, storage_options, jobs, None, allow_outside=False, access=OPEN)
    except FileNotFoundError:
        drop(root, at=at, storage_options=storage_options)
        return
    if building.is_outdated:
        building.run()
    building.forget_outdated()


@contextlib.contextmanager
def noted(folder: Folder, stale: list[FailedFile]) -> Iterator[None]:
    """Add an index that cannot be purged to `stale`."""
    try:
        yield
    except IndexNotFoundError:
        return
    except (ParquetBloomError, OSError) as error:
        stale.append(FailedFile(folder.name, f"not refreshed: {describe_error(error)}"))


# ---- what may be indexed -----------------------------------------------------------------


def _canonical(column: str) -> str:
    """Return a column's name as leaf columns are called."""
    return format_path(parse_path(column))


def _check_options(columns: Sequence[IndexedColumn]) -> None:
    if not columns:
        raise ValueError("give at least one column")
    names = [column.column for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"there is more than one configuration for column {name}")
    for column in columns:
        if not 0 < column.fpp <= 1:
            raise ValueError(f"fpp= must be above 0 and at most 1, not {column.fpp}")
        if not 0 < column.max_expected_fpp <= 1:
            raise ValueError(f"max_expected_fpp= must be above 0 and at most 1, not {column.max_expected_fpp}")
        if column.ndv < 1:
            raise ValueError(f"ndv= must be at least 1, not {column.ndv}")


def _check_columns(building: _Building, columns: Sequence[IndexedColumn]) -> None:
    """Raise for columns that cannot be indexed, by the files that can be read."""
    constants = building.partition_columns
    seen: dict[str, LeafColumn] = {}
    groups: set[str] = set()
    errors = []
    missing = {column.column for column in columns}
    unknown: dict[str, str] = {}
    footers = drive(
        (source, read_footer(source.size, guess=source.footer_guess, decryption=building.access.decryption))
        for source in building.sources
    )
    for number, (source, footer) in enumerate(footers):
        if building.strays.take(source, footer):
            continue
        if isinstance(footer, Exception):
            errors.append(footer)
            continue
        for leaf in building.leaves(footer):
            if leaf.name not in seen or why_unsupported(seen[leaf.name]):
                seen[leaf.name] = leaf
            if len(leaf.path) > 1:
                groups.add(format_path(leaf.path[:1]))
        if building.snapshot is not None:
            unknown |= dict(building.snapshot.unproved_in(footer))
        missing -= seen.keys()
        if number >= _SURVEYED and not missing:
            break
    if errors and not seen:
        raise errors[0]
    building.strays.rest(building.sources)
    for column in columns:
        name = column.column
        if name in constants:
            raise UnsupportedError(f"{name} is a partition column and needs no index")
        if name in groups or (name in seen and (len(seen[name].path) > 1 or seen[name].is_repeated)):
            raise UnsupportedError(f"{name} is a nested column; the index supports top-level columns only")
        if name not in seen and name in unknown:
            raise UnsupportedError(f"column {name}: {unknown[name]}")
        if name not in seen:
            raise ColumnNotFoundError(name, seen, where="the data")
        if problem := why_unsupported(seen[name]):
            raise UnsupportedError(problem)


_SURVEYED = 64
"""Files that are read to find the columns' types; more, as long as a column was not seen."""


Elsewhere = Callable[[str, str, Snapshot | None, list[tuple[Source, list[IndexedColumn]]]], Iterable[Segment]]
"""What builds and writes segments on other machines: given the directory, the index's folder, the table if it is one,
and the files."""


def write_segments(
    root: str,
    at: str,
    paths: Sequence[str],
    columns: Sequence[IndexedColumn],
    *,
    snapshot: Snapshot | None = None,
    storage_options: StorageOptions = None,
) -> list[Segment]:
    """Write what some of the files below `root` hold as segments of its index `at` a folder; no version names them yet.

    The files of a table are those of its `snapshot`, which need not list them here.
    """
    options = fsspec_options(storage_options)
    folder = folder_at(at, root, storage_options=options)
    top = resolve(root, None, options)[1].rstrip("/")
    stop = threading.Event()
    sources = (
        replace(source, relative=source.path.removeprefix(top).lstrip("/"))
        if snapshot is None
        else snapshot.below_root(source)
        for source in find(paths, storage_options=options, literal=snapshot is not None)
    )
    built = (build(source, columns, stop, snapshot) for source in sources)
    return list(in_segments(folder, chain.from_iterable(rows for rows, _ in built)))


class _Building:
    """One call that brings an index up to date."""

    def __init__(
        self,
        asked: Any,
        at: PathLike | None,
        catalog: str | None,
        storage_options: StorageOptions,
        jobs: int | None,
        progress: Progress | None,
        elsewhere: Elsewhere | None = None,
        *,
        allow_outside: bool,
        access: Access,
    ) -> None:
        self.access = access
        self._asked, self._at, self._catalog, self._storage_options = asked, at, catalog, storage_options
        self._allow_outside = allow_outside
        self._jobs, self._progress, self._elsewhere = jobs, progress, elsewhere
        self.strays = Strays()
        self._failures: dict[Source, Exception] = {}
        self._list()
        self.root = os.fspath(directory_of(asked, self.snapshot, catalog))
        options = fsspec_options(storage_options)
        if not is_directory(resolve(self.root, None, options)[0], self.root):
            raise UnsupportedError(f"{self.root} is not a directory, and an index is of all files in one")
        self.folder = required_folder(self.root, at, storage_options=options)
        adopt(folder_inside(self.root, storage_options=options), self.folder, self.root)

    def _list(self) -> None:
        self.sources, snapshot = live_sources(
            self._asked,
            catalog=self._catalog,
            storage_options=self._storage_options,
            allow_outside=self._allow_outside,
        )
        if snapshot is not None:
            snapshot.require_inside()
            live = dict(zip(self.sources, snapshot.files, strict=True))
            self._failures = {source: file.error(is_named=False) for source, file in live.items() if file.is_unread}
            self.sources = [source for source in self.sources if source not in self._failures]
        # Only what knows the names: it goes to executors.
        self.snapshot = None if snapshot is None else replace(snapshot, files=(), recorded=None)
        partitions = (f.partition for f in snapshot.files) if snapshot else map(_constants, self.sources)
        self.partition_columns = set(chain.from_iterable(partitions))

    def leaves(self, footer: Footer) -> list[LeafColumn]:
        """Return a file's leaf columns as users call them; one that the table no longer has is not among them."""
        leaves = footer.leaves if self.snapshot is None else self.snapshot.leaves(footer)
        return [leaf for leaf in leaves if leaf.path[0]]

    def run(self, set_to: tuple[IndexedColumn, ...] = (), readers: str | None = None) -> IndexState:
        """Build what is missing, for the columns that the index has and those that are to be set, and set `readers`."""
        latest = newest(self.folder)
        before = latest.version if latest else Version()
        if not before.columns and not set_to:
            raise no_index(self.root)
        columns = merged(before.columns, set_to)
        changed = set(columns) - set(before.columns)
        if wait_until_stable(self.sources):
            self._list()
        index = BloomIndex(before, latest.sources if latest else {})
        index.read()
        missing = []
        for source in self.sources:
            known = index.find(source)
            wanted = [c for c in columns if known is None or c in changed or c.column not in known.columns]
            if wanted:
                missing.append((source, wanted))
        if self._elsewhere is None:
            segments = tuple(in_segments(self.folder, self._built(missing)))
        else:
            strays = strays_among(source for source, _ in missing)
            missing = [item for item in missing if item[0] not in strays]
            segments = tuple(self._elsewhere(self.root, self.folder.name, self.snapshot, missing))
            self._explain(missing, segments)

        def changed_to(version: Version) -> Version:
            kept = tuple(segment for segment in version.segments if segment.name not in index.lost)
            return replace(
                version,
                columns=merged(version.columns, set_to),
                segments=(*kept, *segments),
                readers=version.readers if readers is None else readers,
            )

        version = before
        if segments or set_to or index.lost:
            version = committed(self.folder, changed_to, self.root, is_new=bool(set_to))
            self._require_kept(segments)
        with contextlib.suppress(ParquetBloomError, OSError):  # all is done
            self._tidy(version)
        built = sum(segment.num_rows for segment in segments)
        return _state(
            self._asked,
            self._at,
            self._catalog,
            self._storage_options,
            built,
            self._failures,
            allow_outside=self._allow_outside,
        )

    def _require_kept(self, segments: tuple[Segment, ...]) -> None:
        """Raise `ConcurrentChangeError` if a drop has removed segments that no version had named yet."""
        if segments and not Version(segments=segments).files.issubset(self.folder.names()):
            raise ConcurrentChangeError(
                f"another writer has dropped the index of {self.root}, or parts of it, meanwhile; run this again"
            )

    def _built(self, missing: list[tuple[Source, list[IndexedColumn]]]) -> Iterator[Built]:
        at_once, _ = share_threads(self._jobs, 2 * len(missing))
        stop = threading.Event()

        def of_file(item: tuple[Source, list[IndexedColumn]]) -> tuple[list[Built], Exception | None]:
            return build(*item, stop, self.snapshot, self.access)

        with closing(map_in_order(of_file, missing, at_once, stop)) as results:
            for done, ((rows, error), (source, _)) in enumerate(zip(results, missing, strict=True), 1):
                yield from rows
                if error is not None and not self.strays.take(source, error):
                    self._failures[source] = error
                if self._progress:
                    self._progress(done, len(missing))

    def _explain(self, missing: list[tuple[Source, list[IndexedColumn]]], segments: tuple[Segment, ...]) -> None:
        """Note why files have no rows in what was built elsewhere, if they cannot be read here either."""
        columns = dict(missing)
        done = {entry.path for segment in segments for entry in rows_in(self.folder, segment)}
        plans = ((source, read_footer(source.size)) for source, _ in missing if source.relative not in done)
        for source, outcome in drive(plans):
            if isinstance(outcome, ConcurrentChangeError):
                continue
            error = outcome if isinstance(outcome, Exception) else None
            if not isinstance(outcome, Exception):
                error = why_no_rows(outcome, columns[source], self.snapshot, self.access)
            if error is not None:
                self._failures[source] = error

    @property
    def is_outdated(self) -> bool:
        """Whether the index has rows of files that are not there any more in that state."""
        latest = newest(self.folder)
        live = {source.relative: state_of(source) for source in self.sources}
        segments = latest.version.segments if latest is not None else ()
        return any(live.get(row.path) != row.version for each in segments for row in rows_in(self.folder, each))

    def forget_outdated(self) -> None:
        """Remove these rows with their filters, and what earlier versions have."""
        if self.is_outdated:
            latest = newest(self.folder)
            assert latest is not None
            live = {source.relative: state_of(source) for source in self.sources}
            compact(self.folder, latest.version, live, self.root, keeps_outdated=False)
        forget(self.folder)

    def _tidy(self, version: Version) -> None:
        """Put together what is spread over small segments or mostly out of date, and remove what nothing needs."""
        rows = sum(segment.num_rows for segment in version.segments)
        is_spread = sum(map(is_small, version.segments)) > MOST_SEGMENTS
        if is_spread or rows >= 2 * max(1, len(self.sources) - len(self.strays)) * len(version.columns):
            with contextlib.suppress(ParquetBloomError, OSError):  # all is as good as before
                compact(self.folder, version, {source.relative: state_of(source) for source in self.sources}, self.root)
        sweep(self.folder)


def _constants(source: Source) -> dict[str, str | None]:
    return source.partitions.constants
