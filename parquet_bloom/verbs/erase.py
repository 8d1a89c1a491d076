"""`erase`: rows with given keys leave the files."""

from __future__ import annotations

import os
import posixpath
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from parquet_bloom.errors import (
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.filters.index_folder import folder_at, folders_of, indexes_above
from parquet_bloom.filters.stored import index_of
from parquet_bloom.format.schema import parse_path
from parquet_bloom.results import FailedFile, Table, count_text
from parquet_bloom.storage.cache import Cache
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions, find, listed
from parquet_bloom.storage.rewrite import summaries_above
from parquet_bloom.tables import open_erasable
from parquet_bloom.tables.detect import STREAMING, table_around
from parquet_bloom.tables.spark_sink import LOG_FOLDER
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.add import TableKind, refuse_without_table
from parquet_bloom.verbs.changes import BATCH, Commits
from parquet_bloom.verbs.chosen_partitions import ChosenPartitions
from parquet_bloom.verbs.erase_files import (
    ErasedFile,
    ErasePlan,
    EraseStep,
    FileErased,
    erase_file,
    plan_erasure,
    preview_erasure,
)
from parquet_bloom.verbs.erase_ledger import LedgerKeys, still_held
from parquet_bloom.verbs.erase_record import Ending, Recording, recording
from parquet_bloom.verbs.erase_search import candidates, key_lookup, key_search, require_no_key
from parquet_bloom.verbs.erase_table import TableErasure, Write, write_here
from parquet_bloom.verbs.index import noted, purge
from parquet_bloom.verbs.lookup import Hit, Search
from parquet_bloom.verbs.parallel import Progress, Ticker, map_in_order, num_threads
from parquet_bloom.verbs.reading_keys import read_keys, require_no_null
from parquet_bloom.verbs.retrofit import (
    UNFAMILIAR,
    Unchanged,
    carry_out,
    find_with_targets,
    plan_one,
    raise_refusals,
)


@dataclass(frozen=True, slots=True, repr=False)
class Erased(Table):
    """The result of `erase`, a row for each file; `stale_indexes` are the indexes that could not be refreshed, and a
    table whose earlier versions cannot be read.

    Of a table there are also its versions before and after, and the `unreferenced` files: new ones of runs that were
    killed before their commits, which no version has. They lack the rows that were to go then, but no others. `where`
    is the condition on partitions to which the search was restricted: other files may still have the keys. `notes` are
    sentences that the user should see. `ledger` is the ledger that was written.
    """

    TRUTH: ClassVar[str] = ".rows_erased, or .errors"
    NOUN: ClassVar[str] = "file"

    rows: tuple[FileErased, ...]
    stale_indexes: tuple[FailedFile, ...] = ()
    version_before: int | None = None
    version_after: int | None = None
    unreferenced: tuple[str, ...] = ()
    where: str | None = None
    notes: tuple[str, ...] = ()
    ledger: str | None = None

    @property
    def rows_erased(self) -> int:
        """How many rows left the files, or would leave them."""
        return sum(row.rows_erased for row in self.rows)

    @property
    def errors(self) -> tuple[FileErased | FailedFile, ...]:
        """The files that were refused, which may still have rows with the keys, and the indexes that are stale."""
        return (*(row for row in self.rows if row.error), *self.stale_indexes)


def erase(
    paths: PathLike | Iterable[PathLike],
    column: str,
    keys: Any,
    *,
    timezone: str | None = None,
    keep_empty: bool = False,
    dry_run: bool = False,
    any_name: bool = False,
    follow_links: bool = False,
    strict: bool = False,
    table: bool | TableKind = False,
    catalog: str | None = None,
    batch: int = BATCH,
    index: PathLike | None = None,
    where: Any = None,
    max_commits_per_minute: float | None = None,
    ledger: PathLike | None = None,
    ledger_secret: str | bytes | None = None,
    ledger_keys: LedgerKeys = "hmac",
    request: str | None = None,
    jobs: int | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> Erased:
    """Return what was done to take the rows with `keys` out of the files.

    Row groups without the keys are copied byte for byte, the others written again without these rows. Each new file is
    searched for the keys, and then replaces the old one atomically; files without the keys are not touched. Earlier
    versions of an object, backups and snapshots keep the rows, and `drop` with `restore` does not bring them back.

    With `table=` the new files are written beside the old ones, and commits delete the rows from the table. Rows that a
    deletion vector or a position delete had already deleted leave these files, too. Earlier versions of the table keep
    the rows until they expire.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. With
            `table=` one Delta or Iceberg table: its directory, its name in the catalog, or deltalake's or pyiceberg's
            own object.
        column: The leaf column that holds the keys. It may be in a struct, and not in a list.
        keys: A list, an Arrow or NumPy array, a Series; a table, a frame or a dict with a column of that name, or only
            one; or a `Path` to a file: Parquet, CSV or TSV with such a column, or text with one key per line. A bare
            `str` or `bytes` is neither. NULL is refused.
        timezone: Time zone of timestamps without one, such as `Europe/Berlin`.
        keep_empty: Keep a file that has no rows left. By default it is removed.
        dry_run: Only report what would be done.
        any_name: In directories, also change files whose names do not end in `.parquet`, `.parq` or `.pq`.
        follow_links: Also change files outside of the given folders, to which symbolic links in these lead.
        strict: Raise for the first file that is refused, before anything is written.
        table: Whether `paths` is a table; `"delta"` or `"iceberg"` if it must be one of these.
        catalog: A catalog of pyiceberg's configuration; `paths` is then a name in it, such as `db.events`.
        batch: With `table=`: files per commit.
        index: The folder of the index, if it was created with `at=`; it must not tell of the keys either.
        where: With `table=`: only search files of these partitions, by a condition on partition columns alone, such as
            `day >= '2026-01-01'`. Files whose partition values are not understood are refused.
        max_commits_per_minute: With `table=`: how many commits a minute may have, for tables that others write to.
        ledger: A new file, `.json` or `.parquet`, that tells of each key from which files its rows went, and which
            earlier versions of the table still have them. Every file is then searched once more at the end. The ledger
            of a run that failed, or was killed, is continued.
        ledger_secret: Of at least 16 bytes; by default that of the environment variable `PARQUET_BLOOM_LEDGER_SECRET`.
            The ledger has each key's HMAC-SHA256 by it, and nothing has the secret.
        ledger_keys: `"plain"` to write the keys themselves.
        request: With `ledger=`: what you call the request for deletion; the ledger names it.
        jobs: Threads, each of which writes one file at a time. By default one for each processor.
        filesystem: A file system of fsspec's or pyarrow's that has the paths.
        storage_options: Options for fsspec, such as credentials.
        progress: Is called with how much is done and how much there is in all.

    Returns:
        An `Erased`: a row for each file. `.rows_erased` counts the rows; `.errors` are the files that were refused.

    Raises:
        FileNotFoundError: A path names nothing.
        TypeError: The keys are none of these.
        LiteralError: A key is NULL, or no file's column can be compared with a key.
        ColumnNotFoundError: No file has the column.
        UnsupportedError: Without `table=`, a path is in a Delta, Iceberg, Hudi or Paimon table; with it, no row of the
            table can be deleted without harm; or the files hold the column as types that are not compared in the same
            way.
        ValueError: An option makes no sense, or does not go with `table=`.
        ConcurrentChangeError: Other writers left no room for a commit.

    Examples:
        >>> parquet_bloom.erase("events", "id", [7], dry_run=True).rows_erased
        1
        >>> [(row.status, row.rows_erased) for row in parquet_bloom.erase("events", "id", [7])]
        [('unchanged', 0), ('written', 1)]
    """
    read = read_keys(keys, parse_path(column)[-1])
    require_no_null(read)
    with recording(
        *(ledger, column, read, timezone),
        secret=ledger_secret,
        written=ledger_keys,
        request=request,
        like=keys,
    ) as record:
        if table:
            refuse_options(
                keep_empty=keep_empty, any_name=any_name, follow_links=follow_links, filesystem=filesystem is not None
            )
            return erase_from_table(
                *(paths, column, read),
                timezone=timezone,
                dry_run=dry_run,
                strict=strict,
                table=table,
                catalog=catalog,
                batch=batch,
                index=index,
                where=where,
                max_commits_per_minute=max_commits_per_minute,
                record=record,
                jobs=jobs,
                storage_options=storage_options,
                progress=progress,
            )
        if catalog is not None:
            raise ValueError("catalog= names an Iceberg catalog; it needs table=True")
        refuse_without_table(table, where=where, max_commits_per_minute=max_commits_per_minute)
        sources, rows = erase_rows(
            *(paths, column, read),
            timezone=timezone,
            keep_empty=keep_empty,
            dry_run=dry_run,
            any_name=any_name,
            follow_links=follow_links,
            strict=strict,
            index=index,
            jobs=jobs,
            filesystem=filesystem,
            storage_options=storage_options,
            progress=progress,
            record=record,
        )
        stale = tuple(refresh_indexes(sources, jobs, storage_options, paths, index))
        if record is None or dry_run:
            return Erased(rows, stale)
        others = {source.name for source in sources} - {row.path for row in rows}
        notes = [f"{path}: not searched, because it is not Parquet" for path in sorted(others)]
        notes += (f"{row.path}: {note}" for row in rows for note in row.notes)
        record.end(Ending(stale=stale, notes=notes))
        return Erased(rows, stale, notes=tuple(_incomplete(record)), ledger=str(record.path))


def _incomplete(record: Recording, version: int | None = None) -> Iterator[str]:
    """Yield why a ledger is not complete; `version` is the live one of a table."""
    if record.failed:
        files = count_text(len(record.failed), "file")
        of = "" if version is None else f" of version {version}, which is live,"
        yield f"the ledger is incomplete: {files}{of} may still have rows with the keys"


def erase_rows(
    paths: PathLike | Iterable[PathLike],
    column: str,
    keys: Any,
    *,
    timezone: str | None,
    keep_empty: bool,
    dry_run: bool,
    any_name: bool,
    follow_links: bool,
    strict: bool,
    index: PathLike | None = None,
    jobs: int | None,
    filesystem: Any,
    storage_options: StorageOptions,
    progress: Progress | None,
    record: Recording | None = None,
) -> tuple[list[Source], tuple[FileErased, ...]]:
    """Return the files whose indexes are still to be refreshed, and what was done to each file; `record` notes it."""
    path = parse_path(column)
    read = read_keys(keys, path[-1])
    require_no_null(read)
    given, where = listed(paths), {"filesystem": filesystem, "storage_options": storage_options}
    if record is not None:
        full = [*_absolute(given, filesystem)]
        record.concerns(full)
        given = [path for path, name in zip(given, full, strict=True) if not _is_gone(path, name, record, **where)]
    sources, _ = find_with_targets(given, None, follow_links=follow_links, **where)
    refuse_tables(sources)
    if record is not None:
        record.protect(source.path for source in sources if source.is_local)
    known = index_of(given, sources, index, cache=Cache(0), **where)
    search = key_lookup(path, read, timezone, storage_options, index=known)
    steps = _steps(sources, search, any_name=any_name, keep_empty=keep_empty, jobs=jobs, progress=progress)
    raise_refusals(steps, strict=strict)
    if dry_run:
        return [], tuple(preview_erasure(step) for step in steps)
    plans = [step for step in steps if isinstance(step, ErasePlan)]
    of_keys = {} if record is None else {plan.source: record.rows_with(plan) for plan in plans}
    if record is not None and of_keys:
        removals = [_in_full(plan.source) for plan in plans if plan.empties]
        record.begin({_in_full(source): counts for source, counts in of_keys.items()}, removals)
    tick = Ticker(progress, sum(plan.source.size for plan in plans))

    def work(plan: ErasePlan, stop: threading.Event) -> FileErased:
        with tick.part(plan.source.size, plan.source.size) as count:
            plan.notes += summaries_above(plan.source, _SUMMARY)
            keys_there = read.stored_in(plan.leaf, timezone, exactly=True)
            row = erase_file(plan, keys_there, stop=stop, count=count)
        if record is not None:
            record.erased[_in_full(plan.source)] = of_keys[plan.source]
        return row

    rows = carry_out(steps, work, at_once=num_threads(jobs), strict=strict)
    if record is not None:
        left = {step.source.name for step in steps if isinstance(step, Unchanged) and step.is_for_name}
        rows = tuple(replace(row, status="refused", error=UNFAMILIAR) if row.path in left else row for row in rows)
        rows = _recorded(record, sources, rows, search, jobs)
    return sources, rows


def _recorded(
    record: Recording, sources: Sequence[Source], rows: tuple[FileErased, ...], search: Search, jobs: int | None
) -> tuple[FileErased, ...]:
    """Return the rows after a search of all files, which the record notes, and those of files that were not found."""
    names = {source.name: _in_full(source) for source in sources}
    record.note("refused", rows, names)
    rows = _proved(rows, sources, search, jobs)
    record.note("not proved", rows, names)
    record.searched = [names[row.path] for row in rows if row.error is None and row.status != "removed"]
    lost = [FileErased(path, "refused", error=_LOST) for path in record.lost()]
    record.note("refused", lost)
    return (*rows, *lost)


_LOST = "an earlier run had begun to erase rows from it, and it was not found"


def _in_full(source: Source) -> str:
    """Return what a ledger, which is read elsewhere, calls a file."""
    return source.path if source.is_local else source.name


def erase_from_table(
    path: Any,
    column: str,
    keys: Keys,
    *,
    timezone: str | None,
    dry_run: bool,
    strict: bool,
    table: Literal[True] | TableKind,
    catalog: str | None,
    batch: int,
    index: PathLike | None,
    where: Any,
    max_commits_per_minute: float | None,
    record: Recording | None,
    jobs: int | None,
    storage_options: StorageOptions,
    progress: Progress | None,
    write: Write = write_here,
) -> Erased:
    """Return what was done to a table, whose new files `write` has written."""
    if batch < 1:
        raise ValueError(f"batch= must be at least 1, not {batch}")
    commits = Commits(max_commits_per_minute)
    kind = None if table is True else table
    opened = open_erasable(path, kind=kind, catalog=catalog, storage_options=storage_options)
    chosen = None if where is None else ChosenPartitions(where, opened.snapshot, timezone)
    work = TableErasure(
        *(opened, batch, jobs, storage_options, progress, commits, chosen),
        *(parse_path(column), keys, timezone, record, write),
    )
    shown = None if where is None else str(where)
    before = work.table.snapshot.version
    if record is not None:
        snapshot = work.table.snapshot
        files = [file.path for file in snapshot.files]
        record.concerns([snapshot.root], kind=snapshot.kind, where=shown, version=before)
        record.protect(path for path in files if "://" not in path)
    work.run(dry_run=dry_run, strict=strict)
    after, left = work.table.snapshot, []
    notes: list[str] = []
    if shown is not None:
        notes.append(f"only the partitions where {shown} were searched; others may still have rows with the keys")
    if before != after.version:
        notes.append(work.table.streams)
    held = [str(before)] if before != after.version else []
    if not dry_run:
        work.refresh_index(path if after.kind == "Iceberg" else after.root, catalog, index)
        left = work.unreferenced()
        if record is not None:
            held = [*record.end(work.ending(record, left)).held_by]
            notes += _incomplete(record, after.version)
    if held:
        notes.append(still_held(held, work.table.statements.cleanup))
    return Erased(
        *(tuple(work.rows.values()), tuple(work.stale), before, after.version, tuple(left), shown, tuple(notes)),
        ledger=None if record is None or dry_run else str(record.path),
    )


def _absolute(paths: Iterable[PathLike], filesystem: Any) -> Iterator[str]:
    """Yield local paths from the root, and others as they are."""
    for path in paths:
        name = os.fspath(path)
        yield name if filesystem is not None or "://" in name else str(Path(name).expanduser().absolute())


def _is_gone(path: PathLike, name: str, record: Recording, **where: Any) -> bool:
    """Return whether a path names nothing because an earlier run removed its files."""
    if not record.has_removed(name):
        return False
    try:
        find(path, **where)
    except FileNotFoundError:
        return True
    return False


def refuse_options(**options: Any) -> None:
    """Raise `ValueError` for an option that is given, and that a table does not take."""
    for name, value in options.items():
        if value:
            raise ValueError(f"{name}= cannot be used with table=")


_SUMMARY = "{} still has the old footers, with bounds of the erased rows: write it again, or remove it"


def refuse_tables(sources: Iterable[Source]) -> None:
    """Raise `UnsupportedError` if a file is in a table, whose snapshots would miss it."""
    of_folders = {source.path if _is_link(source) else posixpath.dirname(source.path): source for source in sources}
    for source in of_folders.values():
        if (table := table_around(source.fs, source.path)) is not None:
            kind, root = table
            raise UnsupportedError(
                f"{root} is a {kind} table, whose files must not change behind its back; {_ADVICE.get(kind, _ENGINE)}"
            )


_ENGINE = "delete the rows with the table's own engine"
_ADVICE = {
    **dict.fromkeys(("Delta", "Iceberg"), "erase from the table itself, with table=True"),
    STREAMING: f"Spark fails at files that are shorter than its log records ({LOG_FOLDER}); write the rows that stay "
    "to another folder with Spark",
}


def _is_link(source: Source) -> bool:
    return source.local is not None and source.local.is_symlink()


# ---- planning ----------------------------------------------------------------------------


def _steps(
    sources: list[Source],
    search: Search,
    *,
    any_name: bool,
    keep_empty: bool,
    jobs: int | None,
    progress: Progress | None,
) -> list[EraseStep]:
    """Return what is to be done to each file; nothing is written yet."""
    found = candidates(sources, search, progress)

    def plan(file: ErasedFile, hits: Sequence[Hit]) -> EraseStep:
        if not hits:
            return file.unchanged
        return plan_erasure(file, key_search(file.source, search), hits, keep_empty=keep_empty)

    def planned(source: Source) -> EraseStep:
        return plan_one(ErasedFile(source, None), found[source], plan, any_name)

    searched = [source for source in sources if source in found]  # the others are not Parquet
    return list(map_in_order(planned, searched, num_threads(jobs), threading.Event()))


def _proved(
    rows: Sequence[FileErased], sources: Sequence[Source], search: Search, jobs: int | None
) -> tuple[FileErased, ...]:
    """Return the rows, with an error for each file that still has a key, after searching all of them by decoding."""
    left = {row.path for row in rows if row.error is None and row.status != "removed"}
    to_search = {source.name: source for source in sources if source.name in left}

    def searched(name: str) -> tuple[str, str | None]:
        source = to_search[name]
        try:
            (now,) = find([source.path], filesystem=source.fs, literal=True)
            require_no_key(key_search(now, search))
        except (ParquetBloomError, OSError) as error:
            return name, describe_error(error)
        return name, None

    errors = dict(map_in_order(searched, list(to_search), num_threads(jobs), threading.Event()))
    return tuple(
        row if errors.get(row.path) is None else replace(row, status="refused", error=errors[row.path]) for row in rows
    )


# ---- indexes -----------------------------------------------------------------------------


def refresh_indexes(
    sources: Sequence[Source],
    jobs: int | None,
    storage_options: StorageOptions,
    paths: Any,
    index: PathLike | None,
) -> list[FailedFile]:
    """Bring the indexes of the folders above files up to date, and the one that was named; return those that could not.

    What they have of the old files is of no use to anyone, but could still tell that a key had been there. A run that
    was killed may have left it, so it does not matter which files have changed now.
    """
    stale: list[FailedFile] = []
    if sources:
        first = sources[0]
        for above, folder in indexes_above(first.fs, folders_of(sources)):
            with noted(folder, stale):
                root = above if first.is_local else first.fs.unstrip_protocol(above)
                purge(root, jobs=jobs, storage_options=storage_options)
    if sources and index is not None:
        (root,) = map(os.fspath, listed(paths))
        with noted(folder_at(index, root, storage_options=storage_options), stale):
            purge(root, index, jobs=jobs, storage_options=storage_options)
    return stale
