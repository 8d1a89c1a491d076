"""Finds the filters that speak for a whole data file: Hudi's in its footer, Paimon's in its table, and the index's."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.filters import hudi, paimon
from parquet_bloom.filters.index import FOLDER, BloomIndex, open_index
from parquet_bloom.filters.protocol import Description, FileFilter
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import format_path
from parquet_bloom.storage.cache import SHARED
from parquet_bloom.storage.drive import DEFAULT_LIMITS, Limits, RequestLog, drive
from parquet_bloom.storage.listing import Source, StorageOptions, files_below, find, resolve
from parquet_bloom.storage.store_errors import ask
from parquet_bloom.tables import LiveFile, snapshot_of
from parquet_bloom.tables.detect import TABLE_MARKS

FILES_AT_ONCE = 64
"""So many files' filters wait in memory; Paimon's default is 0.6 MB for each column."""


_MARK = b".bloomfilter"  # what the names of Hudi's entries end in, of every release


@dataclass(frozen=True, slots=True)
class OtherFilter:
    """A filter of another format, as far as it describes itself; `problem` is why it cannot be used."""

    format: str
    column: str
    description: Description | None = None
    num_bytes: int | None = None
    problem: str | None = None


class TableFilters(NamedTuple):
    """What a table keeps for a file: filters, and why those that it keeps cannot be used, if so."""

    filters: Sequence[FileFilter] = ()
    problem: str | None = None

    def explained(self, reason: str) -> str:
        """Return the reason why nothing is proved of the file, with the problem if there is one."""
        return reason if self.problem is None else f"{reason}; {self.problem}"


NO_FILTERS = TableFilters()


def description_of(found: FileFilter) -> OtherFilter:
    """Return what a filter says about itself."""
    return OtherFilter(found.format, format_path(found.column), found.describe())


def filters_in_footer(footer: Footer) -> Sequence[FileFilter]:
    """Return the filters in a file's footer that can be used; `unusable_filters` tells of the others."""
    found = _of_hudi(footer)
    return () if found is None or isinstance(found, OtherFilter) else (found,)


def unusable_filters(footer: Footer) -> Sequence[OtherFilter]:
    """Return the filters in a file's footer that cannot be used."""
    found = _of_hudi(footer)
    return (found,) if isinstance(found, OtherFilter) else ()


def _of_hudi(footer: Footer) -> hudi.HudiFilter | OtherFilter | None:
    """Return the filter in a footer, or why it cannot be used; read once for a footer that is in memory."""
    if _MARK not in footer.notes:
        return None
    if footer.derived.hudi_filters is None:
        try:
            stored = hudi.filter_of(footer)
            footer.derived.hudi_filters = () if stored is None else (stored,)
        except (CorruptFileError, UnsupportedError) as error:
            footer.derived.hudi_filters = (OtherFilter("Hudi", hudi.RECORD_KEY, problem=str(error)),)
    return next(iter(footer.derived.hudi_filters), None)


def with_table_filters(
    sources: Iterable[Source],
    live: Mapping[Source, LiveFile],
    columns: Collection[str] | None,
    *,
    storage_options: StorageOptions = None,
    limits: Limits = DEFAULT_LIMITS,
    log: RequestLog | None = None,
) -> Iterator[tuple[Source, TableFilters]]:
    """Yield each file with the filters that its table keeps for it, of these columns or of all.

    They are read a few files ahead; a file has none if they cannot be read, and a problem instead.
    """
    waiting = iter(sources)
    while some := list(islice(waiting, FILES_AT_ONCE)):
        files = {source: live[source] for source in some if source in live}
        at = _found([f.file_index.path for f in files.values() if f.file_index and f.file_index.path], storage_options)
        jobs = []
        found: dict[Source, TableFilters] = {}
        for source, file in files.items():
            if (index := file.file_index) is None:
                continue
            if index.path and index.path not in at:
                found[source] = TableFilters(problem=f"{_UNUSABLE}: {index.path} is gone")
            else:
                where = at[index.path] if index.path else source
                jobs.append((source, where, paimon.filters_of_table(file, where.size, columns=columns)))
        outcomes = drive(((where, plan) for _, where, plan in jobs), limits=limits, log=log)
        for (source, where, _), (_, outcome) in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, Exception):
                found[source] = TableFilters(problem=f"{_UNUSABLE}: {_told(outcome, where, source)}")
            else:
                found[source] = TableFilters(outcome)
        yield from ((source, found.get(source, NO_FILTERS)) for source in some)


_UNUSABLE = "Paimon's index of the file cannot be used"


def _told(error: Exception, where: Source, source: Source) -> str:
    place = "in the table's manifest" if where is source else where.path.rpartition("/")[2]
    return f"{place}: {error}"


def with_filters_of_their_tables(
    sources: Sequence[Source], columns: Collection[str] | None = None, *, storage_options: StorageOptions = None
) -> Iterator[tuple[Source, TableFilters]]:
    """Yield each file with the filters that the Paimon table which it was found in keeps for it now, of some columns.

    They are read as those of `with_table_filters`.
    """
    tables: dict[tuple[int, str], dict[str, LiveFile]] = {}
    live: dict[Source, LiveFile] = {}
    for source, root, holds in _above(sources):
        if not holds >= set(TABLE_MARKS["Paimon"]):
            continue
        if (key := (id(source.fs), root)) not in tables:
            tables[key] = _live_files(source, root, storage_options)
        if (file := tables[key].get(source.path)) is not None:
            live[source] = file
    return with_table_filters(sources, live, columns, storage_options=storage_options)


def index_entries(sources: Sequence[Source]) -> dict[Source, list[OtherFilter]]:
    """Return the entries that the indexes above files have for them, up to where they were found."""
    found: dict[Source, list[OtherFilter]] = {}
    indexes: dict[tuple[int, str], BloomIndex | None] = {}
    for source, root, holds in _above(sources):
        if FOLDER not in holds:
            continue
        if (key := (id(source.fs), root)) not in indexes:
            indexes[key] = open_index(root, filesystem=source.fs, cache=SHARED)
        if (index := indexes[key]) is not None:
            named = replace(source, relative=source.path.removeprefix(root).lstrip("/"))
            found.setdefault(source, []).extend(_in_index(index, named))
    return found


def _above(sources: Sequence[Source]) -> Iterator[tuple[Source, str, Set[str]]]:
    """Yield each file with the folders above it, up to where it was found, and which of `_MARKS` these hold.

    Folders are asked one by one; a store with files in several is listed once instead.
    """
    tops = [source.path.removesuffix(source.relative).rstrip("/") for source in sources]
    listed: set[tuple[int, str]] = set()
    known: dict[tuple[int, str], Set[str]] = {}
    for source, top in zip(sources, tops, strict=True):
        if not source.is_local and "/" in source.relative and (id(source.fs), top) not in listed:
            listed.add((id(source.fs), top))
            known |= {(id(source.fs), folder): marks for folder, marks in _marks_below(source.fs, top).items()}
    for source, top in zip(sources, tops, strict=True):
        folder = posixpath.dirname(source.path)
        while folder.startswith(top):
            key = id(source.fs), folder
            if key not in known:
                is_listed = (key[0], top) in listed
                known[key] = set() if is_listed else {m for m in _MARKS if _is_folder(source.fs, f"{folder}/{m}")}
            if holds := known[key]:
                yield source, folder, holds
            if folder in (top, "/", ""):
                break
            folder = posixpath.dirname(folder)


_MARKS = {FOLDER, *TABLE_MARKS["Paimon"]}


def _marks_below(fs: Any, top: str) -> Mapping[str, Set[str]]:
    """Return which of `_MARKS` the folders below `top` hold."""
    found: dict[str, set[str]] = {}
    try:
        paths = files_below(top, filesystem=fs)
    except OSError:
        return found
    for path in paths:
        parts = path.split("/")[:-1]
        for depth, name in enumerate(parts):
            if name in _MARKS:
                found.setdefault("/".join([top, *parts[:depth]]), set()).add(name)
    return found


def _is_folder(fs: Any, path: str) -> bool:
    try:
        return bool(ask(path, fs.isdir, path))
    except OSError:
        return False


def _live_files(source: Source, root: str, storage_options: StorageOptions) -> dict[str, LiveFile]:
    """Return the live files of the Paimon table around a file; none of a store that has no URL of its own."""
    table = root if source.is_local else source.fs.unstrip_protocol(root)
    if resolve(table, None, storage_options)[0] is not source.fs:
        return {}
    try:
        snapshot = snapshot_of(table, kind="paimon", storage_options=storage_options)
    except (ParquetBloomError, OSError):
        return {}
    return {source.fs._strip_protocol(file.path): file for file in snapshot.files} if snapshot else {}


def _in_index(index: BloomIndex, source: Source) -> Iterator[OtherFilter]:
    if (file := index.find(source)) is None:
        return
    for leaf, places in file.filters.items():
        num_bytes = sum(index.num_bytes_of(place) for place in places)
        yield OtherFilter("index", file.schema.leaves[leaf].name, num_bytes=num_bytes)
    yield from (OtherFilter("index", column, problem=problem) for column, problem in file.problems.items())


def _found(paths: list[str], storage_options: StorageOptions) -> dict[str, Source]:
    """Return those of the files that are there."""
    if not paths:
        return {}
    try:
        return dict(zip(paths, find(paths, storage_options=storage_options), strict=True))
    except FileNotFoundError:
        if len(paths) == 1:
            return {}
        return {path: source for one in paths for path, source in _found([one], storage_options).items()}
