"""Finds the filters of whole data files: Hudi's in the footer, Paimon's in the table, and those in the index."""

from __future__ import annotations

import logging
import os
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.filters.index_folder import INSIDE, SUFFIX, folder_of, moving_advice
from parquet_bloom.filters.protocol import Description, FileFilter
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import format_path
from parquet_bloom.storage.cache import SHARED, Cache
from parquet_bloom.storage.drive import DEFAULT_LIMITS, Limits, RequestLog, drive
from parquet_bloom.storage.listing import (
    PathLike,
    Source,
    StorageOptions,
    files_below,
    find,
    is_local,
    is_open_file,
    listed,
    resolve,
)
from parquet_bloom.storage.store_errors import ask
from parquet_bloom.tables import LiveFile, snapshot_of
from parquet_bloom.tables.detect import TABLE_MARKS

if TYPE_CHECKING:
    from parquet_bloom.filters.hudi import HudiFilter
    from parquet_bloom.filters.index import BloomIndex

LOG = logging.getLogger("parquet_bloom.index")

FILES_AT_ONCE = 64
"""The filters of this many files are in memory at once; Paimon's default is 0.6 MB for each column."""


_MARK = b".bloomfilter"  # the end of the names of Hudi's entries, in every release


@dataclass(frozen=True, slots=True)
class OtherFilter:
    """What is known about a filter of another format; `problem` is why it cannot be used."""

    format: str
    column: str
    description: Description | None = None
    num_bytes: int | None = None
    problem: str | None = None


class TableFilters(NamedTuple):
    """The filters that a table has for a file, or the problem because of which they cannot be used."""

    filters: Sequence[FileFilter] = ()
    problem: str | None = None

    def explained(self, reason: str) -> str:
        """Return the reason why nothing is proved about the file, with the problem if there is one."""
        return reason if self.problem is None else f"{reason}; {self.problem}"


NO_FILTERS = TableFilters()


def description_of(file_filter: FileFilter) -> OtherFilter:
    """Return what is known about a filter that can be used."""
    return OtherFilter(file_filter.format, format_path(file_filter.column), file_filter.describe())


def filters_in_footer(footer: Footer) -> Sequence[FileFilter]:
    """Return the filters in a file's footer that can be used; `unusable_filters` returns the others."""
    stored = _of_hudi(footer)
    return () if stored is None or isinstance(stored, OtherFilter) else (stored,)


def unusable_filters(footer: Footer) -> Sequence[OtherFilter]:
    """Return the filters in a file's footer that cannot be used."""
    stored = _of_hudi(footer)
    return (stored,) if isinstance(stored, OtherFilter) else ()


def _of_hudi(footer: Footer) -> HudiFilter | OtherFilter | None:
    """Return the filter in a footer, or why it cannot be used; read once for each footer in memory."""
    if (known := footer.derived.hudi_filters) is None:
        known = footer.derived.hudi_filters = _read_of_hudi(footer) if _MARK in footer.notes else ()
    return known[0] if known else None


def _read_of_hudi(footer: Footer) -> tuple[HudiFilter | OtherFilter, ...]:
    from parquet_bloom.filters import hudi

    try:
        stored = hudi.filter_of(footer)
    except (CorruptFileError, UnsupportedError) as error:
        return (OtherFilter("Hudi", hudi.RECORD_KEY, problem=str(error)),)
    return () if stored is None else (stored,)


def with_table_filters(
    sources: Iterable[Source],
    live: Mapping[Source, LiveFile],
    columns: Collection[str] | None,
    *,
    storage_options: StorageOptions = None,
    limits: Limits = DEFAULT_LIMITS,
    log: RequestLog | None = None,
) -> Iterator[tuple[Source, TableFilters]]:
    """Yield each file with the filters that its table has for it, of these columns or of all.

    They are read for several files at once. If they cannot be read, the file has a problem instead.
    """
    waiting = iter(sources)
    while some := list(islice(waiting, FILES_AT_ONCE)):
        files = {source: live[source] for source in some if source in live}
        indexes = [file.file_index for file in files.values() if file.file_index and not file.file_index.problem]
        at = _existing([index.path for index in indexes if index.path], storage_options)
        jobs = []
        filters: dict[Source, TableFilters] = {}
        for source, file in files.items():
            if (index := file.file_index) is None:
                continue
            if index.problem:
                filters[source] = TableFilters(problem=f"{_UNUSABLE}: {index.path}: {index.problem}")
            elif index.path and index.path not in at:
                filters[source] = TableFilters(problem=f"{_UNUSABLE}: {index.path} is gone")
            else:
                from parquet_bloom.filters import paimon

                where = at[index.path] if index.path else source
                jobs.append((source, where, paimon.filters_of_table(file, where.size, columns=columns)))
        outcomes = drive(((where, plan) for _, where, plan in jobs), limits=limits, log=log)
        for (source, where, _), (_, outcome) in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, Exception):
                filters[source] = TableFilters(problem=f"{_UNUSABLE}: {_explanation(outcome, where, source)}")
            else:
                filters[source] = TableFilters(outcome)
        yield from ((source, filters.get(source, NO_FILTERS)) for source in some)


_UNUSABLE = "Paimon's index of the file cannot be used"


def _explanation(error: Exception, where: Source, source: Source) -> str:
    place = "in the table's manifest" if where is source else where.path.rpartition("/")[2]
    return f"{place}: {error}"


def with_filters_of_their_tables(
    sources: Sequence[Source], columns: Collection[str] | None = None, *, storage_options: StorageOptions = None
) -> Iterator[tuple[Source, TableFilters]]:
    """Yield each file with the filters that the Paimon table around it has for it now, of these columns or of all.

    They are read as in `with_table_filters`.
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


def index_of(
    paths: PathLike | Iterable[PathLike],
    sources: Sequence[Source],
    at: PathLike | None = None,
    *,
    is_table: bool = False,
    storage_options: StorageOptions = None,
    filesystem: Any = None,
    cache: Cache,
    log: RequestLog | None = None,
) -> BloomIndex | None:
    """Return the index of `paths`, if that is one directory and has an index; `sources` are the files in it.

    Raises `ValueError` and `IndexNotFoundError` where that is not so of an index that the caller has named (`at`).
    """
    places: dict[str, Any] = {"storage_options": storage_options, "filesystem": filesystem}
    named = listed(paths)
    if len(named) != 1 or not (is_table or _is_above(named[0], sources, **places)):
        if at is not None:
            raise ValueError("index= needs the path of one directory or table, whose index it is")
        return None
    if not sources:
        return None
    root = os.fspath(named[0])
    fs, inner = resolve(root, filesystem, storage_options)
    if at is None and is_local(fs):
        folder = folder_of(root, **places)
        if folder is None or not Path(folder.path).is_dir():
            if Path(inner, INSIDE).is_dir():
                LOG.warning("%s", moving_advice(root))
            return None
    from parquet_bloom.filters.index import open_index

    return open_index(root, at, cache=cache, log=log, **places)


def _is_above(named: Any, sources: Sequence[Source], *, storage_options: StorageOptions, filesystem: Any) -> bool:
    """Return whether what was named is the directory of the files that were found, not a file, or a glob."""
    if is_open_file(named) or not sources:
        return False
    _, inner = resolve(os.fspath(named), filesystem, storage_options)
    return sources[0].path.startswith(f"{inner.rstrip('/')}/")


def index_entries(sources: Sequence[Source]) -> dict[Source, list[OtherFilter]]:
    """Return the entries for files in the indexes of the folders above them, up to the folder that was searched."""
    entries: dict[Source, list[OtherFilter]] = {}
    indexes: dict[tuple[int, str], BloomIndex | None] = {}
    for source, root, holds in _above(sources):
        if SUFFIX not in holds:
            continue
        if (key := (id(source.fs), root)) not in indexes:
            from parquet_bloom.filters.index import open_index

            indexes[key] = open_index(root, filesystem=source.fs, cache=SHARED)
        if (index := indexes[key]) is not None:
            named = replace(source, relative=source.path.removeprefix(root).lstrip("/"))
            entries.setdefault(source, []).extend(_in_index(index, named))
    return entries


def _above(sources: Sequence[Source]) -> Iterator[tuple[Source, str, Set[str]]]:
    """Yield each file with the folders above it, up to the folder that was searched, and their marks.

    These are which folders of `_PAIMON` they have, and `SUFFIX` if they have an index. Folders are checked one by one;
    a remote store with files in several folders is listed once instead.
    """
    tops = [source.path.removesuffix(source.relative).rstrip("/") for source in sources]
    listed: set[tuple[int, str]] = set()
    known: dict[tuple[int, str], Set[str]] = {}
    for source, top in zip(sources, tops, strict=True):
        if not source.is_local and "/" in source.relative and (id(source.fs), top) not in listed:
            listed.add((id(source.fs), top))
            marks = {top: set(), **_marks_below(source.fs, top)}
            marks[top] = {*marks[top], *_index_mark(source.fs, top)}
            known |= {(id(source.fs), folder): of_folder for folder, of_folder in marks.items()}
    for source, top in zip(sources, tops, strict=True):
        folder = posixpath.dirname(source.path)
        while folder.startswith(top):
            key = id(source.fs), folder
            if key not in known:
                is_listed = (key[0], top) in listed
                known[key] = set() if is_listed else _marks_of(source.fs, folder)
            if holds := known[key]:
                yield source, folder, holds
            if folder in (top, "/", ""):
                break
            folder = posixpath.dirname(folder)


_PAIMON = TABLE_MARKS["Paimon"]


def _marks_of(fs: Any, folder: str) -> Set[str]:
    return {*(mark for mark in _PAIMON if _is_folder(fs, f"{folder}/{mark}")), *_index_mark(fs, folder)}


def _index_mark(fs: Any, folder: str) -> Set[str]:
    index = folder_of(folder, filesystem=fs)
    return {SUFFIX} if index is not None and _is_folder(fs, index.path) else set()


def _marks_below(fs: Any, top: str) -> Mapping[str, Set[str]]:
    """Return the marks of the folders below `top`, and of `top` those of Paimon."""
    marks: dict[str, set[str]] = {}
    try:
        paths = files_below(top, filesystem=fs)
    except OSError:
        return marks
    for path in paths:
        parts = path.split("/")[:-1]
        for depth, name in enumerate(parts):
            if name in _PAIMON:
                marks.setdefault("/".join([top, *parts[:depth]]), set()).add(name)
            elif name.endswith(SUFFIX):
                marks.setdefault("/".join([top, *parts[:depth], name.removesuffix(SUFFIX)]), set()).add(SUFFIX)
    return marks


def _is_folder(fs: Any, path: str) -> bool:
    if is_local(fs):
        return Path(path).is_dir()
    try:
        return bool(ask(path, fs.isdir, path))
    except OSError:
        return False


def _live_files(source: Source, root: str, storage_options: StorageOptions) -> dict[str, LiveFile]:
    """Return the live files of the Paimon table around a file; none if its store has no URL."""
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
    for leaf, filters in file.filters.items():
        yield OtherFilter("index", file.schema.leaves[leaf].name, num_bytes=index.num_bytes_of(filters))
    yield from (OtherFilter("index", column, problem=problem) for column, problem in file.problems.items())


def _existing(paths: list[str], storage_options: StorageOptions) -> dict[str, Source]:
    """Return those of the files that exist."""
    if not paths:
        return {}
    try:
        return dict(zip(paths, find(paths, storage_options=storage_options, literal=True), strict=True))
    except FileNotFoundError:
        if len(paths) == 1:
            return {}
        return {path: source for one in paths for path, source in _existing([one], storage_options).items()}
