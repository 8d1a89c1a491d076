"""Finds the filters of other formats that speak for a data file: Hudi's in its footer, Paimon's in its table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.footer import Footer
from parquet_bloom.indexes import hudi, paimon
from parquet_bloom.indexes.file_filters import FileFilter
from parquet_bloom.storage import DEFAULT_LIMITS, Limits, RequestLog, Source, StorageOptions, drive, find
from parquet_bloom.tables import LiveFile

FILES_AT_ONCE = 64
"""So many files' filters wait in memory; Paimon's default is 0.6 MB for each column."""


_MARK = b".bloomfilter"  # what the names of Hudi's entries end in, of every release


def in_footer(footer: Footer) -> Sequence[FileFilter]:
    """Return the filters in a file's footer; none that cannot be used, of which `inspect` tells."""
    if "other filters" not in footer.memo:
        try:
            found = hudi.filter_of(footer) if _MARK in footer.raw else None
        except (CorruptFileError, UnsupportedError):
            found = None
        footer.memo["other filters"] = (found,) if found else ()
    filters: Sequence[FileFilter] = footer.memo["other filters"]
    return filters


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
