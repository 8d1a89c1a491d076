"""Finds the filters that speak for a whole data file: Hudi's in its footer, Paimon's in its table, and the index's."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from parquet_bloom.cache import SHARED
from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.footer import Footer
from parquet_bloom.indexes import hudi, paimon
from parquet_bloom.indexes.bloom_index import FOLDER, BloomIndex, open_index
from parquet_bloom.indexes.file_filters import Description, FileFilter
from parquet_bloom.schema import format_path
from parquet_bloom.storage import (
    DEFAULT_LIMITS,
    Limits,
    RequestLog,
    Source,
    StorageOptions,
    drive,
    find,
    resolve,
    table_kind,
)
from parquet_bloom.tables import LiveFile, snapshot_of

FILES_AT_ONCE = 64
"""So many files' filters wait in memory; Paimon's default is 0.6 MB for each column."""


_MARK = b".bloomfilter"  # what the names of Hudi's entries end in, of every release


def in_footer(footer: Footer) -> Sequence[FileFilter]:
    """Return the filters in a file's footer; none that cannot be used, of which `inspect` tells."""
    found = _of_hudi(footer)
    return () if found is None or isinstance(found, Beside) else (found,)


def _of_hudi(footer: Footer) -> hudi.HudiFilter | Beside | None:
    """Return the filter in a footer, or why it cannot be used; read once for a footer that is in memory."""
    if _MARK not in footer.raw:
        return None
    if "hudi" not in footer.memo:
        try:
            footer.memo["hudi"] = hudi.filter_of(footer)
        except (CorruptFileError, UnsupportedError) as error:
            footer.memo["hudi"] = Beside("Hudi", hudi.RECORD_KEY, problem=str(error))
    found: hudi.HudiFilter | Beside | None = footer.memo["hudi"]
    return found


def of_table(
    sources: Iterable[Source],
    live: Mapping[Source, LiveFile],
    columns: Collection[str] | None,
    *,
    storage_options: StorageOptions = None,
    limits: Limits = DEFAULT_LIMITS,
    log: RequestLog | None = None,
) -> Iterator[tuple[Source, Sequence[FileFilter]]]:
    """Yield each file with the filters that its table keeps for it, of these columns or of all.

    They are read a few files ahead; a file has none if they cannot be read.
    """
    waiting = iter(sources)
    while some := list(islice(waiting, FILES_AT_ONCE)):
        files = {source: live[source] for source in some if source in live}
        at = _found([f.file_index.path for f in files.values() if f.file_index and f.file_index.path], storage_options)
        jobs = []
        for source, file in files.items():
            if (index := file.file_index) is not None and not (index.path and index.path not in at):
                where = at[index.path] if index.path else source
                jobs.append((source, where, paimon.filters_of_table(file, where.size, columns=columns)))
        outcomes = drive(((where, plan) for _, where, plan in jobs), limits=limits, log=log)
        filters = {
            source: outcome
            for (source, _, _), (_, outcome) in zip(jobs, outcomes, strict=True)
            if not isinstance(outcome, Exception)
        }
        yield from ((source, filters.get(source, ())) for source in some)


@dataclass(frozen=True, slots=True)
class Beside:
    """A filter that is kept beside a data file, as far as it describes itself; `problem` is why it cannot be used."""

    format: str
    column: str
    description: Description | None = None
    num_bytes: int | None = None
    problem: str | None = None


def in_file(footer: Footer) -> list[Beside]:
    """Return what the filters in a file's footer say about themselves."""
    found = _of_hudi(footer)
    if found is None or isinstance(found, Beside):
        return [found] if found else []
    return [Beside(found.format, format_path(found.column), found.describe())]


def beside(sources: Sequence[Source]) -> dict[Source, list[Beside]]:
    """Return what Paimon tables and indexes keep for local data files; other stores are not searched for them."""
    found: dict[Source, list[Beside]] = {}
    indexes: dict[str, BloomIndex | None] = {}
    for source in sources:
        for root in _roots(source):
            if root not in indexes:
                has_index = Path(root, FOLDER).is_dir()
                indexes[root] = open_index(root, cache=SHARED) if has_index else None
            if (index := indexes[root]) is not None:
                named = replace(source, relative=source.path.removeprefix(root).lstrip("/"))
                found.setdefault(source, []).extend(_in_index(index, named))
    for source, filters in of_local_tables(sources, None):
        found.setdefault(source, []).extend(
            Beside(one.format, format_path(one.column), one.describe()) for one in filters
        )
    return found


def of_local_tables(
    sources: Iterable[Source], columns: Collection[str] | None
) -> Iterator[tuple[Source, Sequence[FileFilter]]]:
    """Yield the local files of Paimon tables with the filters that those keep for them, as they are now."""
    tables: dict[str, dict[str, LiveFile]] = {}
    live: dict[Source, LiveFile] = {}
    for source in sources:
        for root in _roots(source):
            if root not in tables:
                tables[root] = _paimon_files(root)
            if (file := tables[root].get(source.path)) is not None:
                live[source] = file
    return of_table(live, live, columns)


def _roots(source: Source) -> Iterator[str]:
    """Yield the folders from a local file's own to the one it was found under."""
    folder, top = posixpath.dirname(source.path), source.path.removesuffix(source.relative).rstrip("/")
    while source.is_local and folder.startswith(top):
        yield folder
        if folder in (top, "/"):
            return
        folder = posixpath.dirname(folder)


def _paimon_files(root: str) -> dict[str, LiveFile]:
    if table_kind(resolve(root, None, None)[0], root) != "Paimon":
        return {}
    try:
        snapshot = snapshot_of(root)
    except (ParquetBloomError, OSError):
        return {}
    return {file.path: file for file in snapshot.files} if snapshot else {}


def _in_index(index: BloomIndex, source: Source) -> Iterator[Beside]:
    if (file := index.find(source)) is None:
        return
    for leaf, places in file.filters.items():
        num_bytes = sum(index.num_bytes_of(place) for place in places)
        yield Beside("index", file.schema.leaves[leaf].name, num_bytes=num_bytes)
    yield from (Beside("index", column, problem=problem) for column, problem in file.problems.items())


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
