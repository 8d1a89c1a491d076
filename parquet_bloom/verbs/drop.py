"""`drop`: takes filters away, or gives back the original file."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.filters import hudi
from parquet_bloom.filters.parquet import read_filters
from parquet_bloom.format.footer import Footer, Plan, read_footer
from parquet_bloom.format.restore import whole_prefixes
from parquet_bloom.format.schema import LeafColumn, parse_path
from parquet_bloom.format.splice import splice_filters, splice_key_values
from parquet_bloom.results import Record, Table
from parquet_bloom.storage.drive import drive, run
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.storage.rewrite import rewrite
from parquet_bloom.tables.detect import refuse_links_out
from parquet_bloom.verbs.parallel import Progress, Ticker, num_threads
from parquet_bloom.verbs.retrofit import (
    Edits,
    FilePlan,
    Status,
    append_footer,
    carry_out,
    find_with_targets,
    note_stale,
    parquet_outcomes,
    plan_each,
    raise_refusals,
    require_writable,
)


@dataclass(frozen=True, slots=True, repr=False)
class FileDropped(Record):
    """What `drop` did to one file; `bytes_left` is what the cleared filters still take, `bytes_freed` what was cut.

    `filters_back` are the older filters that a restored file has again. Where filters are cleared instead,
    `bytes_restorable` is what restoring the new file would free, and `filters_back` how many it would bring back.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "status", "cleared", "bytes_freed", "error")

    path: str
    output: str
    status: Status
    size: int
    cleared: int = 0
    bytes_left: int = 0
    bytes_freed: int = 0
    bytes_restorable: int = 0
    filters_back: int = 0
    notes: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Dropped(Table):
    """The result of `drop`, a row for each file."""

    TRUTH: ClassVar[str] = ".rows, or .errors"
    NOUN: ClassVar[str] = "file"

    rows: tuple[FileDropped, ...]

    @property
    def errors(self) -> tuple[FileDropped, ...]:
        """The files that were refused."""
        return tuple(row for row in self.rows if row.error)


# ---- drop --------------------------------------------------------------------------------


def drop(
    paths: PathLike | Iterable[PathLike],
    columns: Sequence[str] | str | None = None,
    *,
    restore: bool = False,
    all: bool = False,
    output: PathLike | None = None,
    dry_run: bool = False,
    keep_mtime: bool = False,
    force: bool = False,
    any_name: bool = False,
    follow_links: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> Dropped:
    """Return what was done to take the filters of `columns` away.

    Filters are removed from the footer, and their bytes stay in the file. With `restore` the file is cut back instead,
    to the oldest state that is a whole Parquet file with the same pages and the same footer but for filters: after
    `add`, that is the original, byte for byte. What another program has appended meanwhile is kept, unless `all`.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB.
        columns: Leaf columns. By default all.
        restore: Cut files back to what they were before filters were added.
        all: With `restore`: cut away what other programs have appended since, too.
        output: Write new files here and leave the old ones: a directory, or a path for one file.
        dry_run: Only report what would be done.
        keep_mtime: Keep the files' modification times.
        force: Change files even inside a Delta, Iceberg, Hudi or Paimon table, whose readers may then fail.
        any_name: In directories, also change files whose names do not end in `.parquet`, `.parq` or `.pq`.
        follow_links: Also change files outside of the given folders, to which symbolic links in these lead.
        strict: Raise for the first file that is refused, before anything is written.
        jobs: Threads. By default one for each processor.
        filesystem: A file system of fsspec's or pyarrow's that has the paths.
        storage_options: Options for fsspec, such as credentials.
        progress: Is called with how much is done and how much there is in all.

    Returns:
        A `Dropped`: a row for each file. `.errors` are the files that were refused.

    Raises:
        FileNotFoundError: A path names nothing.
        ColumnNotFoundError: No file has one of the columns.
        UnsupportedError: `restore` was given together with `columns`.
        ValueError: `all` was given without `restore`.

    Examples:
        >>> parquet_bloom.drop("events", dry_run=True).rows[0].cleared
        2
        >>> [row.status for row in parquet_bloom.drop("events", restore=True)]
        ['written', 'written']
    """
    if all and not restore:
        raise ValueError("all=True says how far to restore; it needs restore=True")
    if restore and columns:
        raise UnsupportedError("restore=True cuts the whole file back, so it takes all columns; leave out columns=")
    wanted = None if columns is None else [parse_path(c) for c in ([columns] if isinstance(columns, str) else columns)]
    sources, targets = find_with_targets(
        *(paths, output), follow_links=follow_links, filesystem=filesystem, storage_options=storage_options
    )
    surveyed = drive(refuse_links_out((source, _survey_drop(source, wanted)) for source in sources))
    steps = plan_each(parquet_outcomes(surveyed, targets), _File, partial(_plan_drop, force), any_name=any_name)
    raise_refusals(steps, strict=strict)
    tick = Ticker(progress, sum(isinstance(step, _DropPlan) for step in steps))

    def work(plan: _DropPlan, stop: threading.Event) -> FileDropped:
        try:
            if restore:
                return _restore_one(plan, dry_run=dry_run, keep_mtime=keep_mtime, all=all)
            return _drop_one(plan, dry_run=dry_run, keep_mtime=keep_mtime)
        finally:
            tick()

    return Dropped(carry_out(steps, work, at_once=num_threads(jobs), strict=strict, dry_run=dry_run))


@dataclass(slots=True)
class _File(FilePlan[FileDropped]):
    def result(self, status: Status, **fields: Any) -> FileDropped:
        """Return what came of the file."""
        name, size = self.source.name, self.source.size
        return FileDropped(name, self.target or name, status, size, notes=tuple(self.notes), **fields)


@dataclass(slots=True)
class _DropPlan(_File):
    """What is to be taken from one file: the filters of `cleared`, which take `bytes_left`."""

    _: KW_ONLY
    footer: Footer
    cleared: list[tuple[int, LeafColumn]]
    bytes_left: int


_Survey = tuple[Footer, list[tuple[int, LeafColumn]], int]


def _survey_drop(source: Source, wanted: list[tuple[str, ...]] | None) -> Plan[_Survey]:
    footer = yield from read_footer(source.size)
    leaves = footer.leaves
    if wanted is not None:
        leaves = tuple(source.find_leaf(leaves, path) for path in wanted)
    cleared = [
        (row_group, leaf)
        for row_group, leaf, chunk in footer.chunks(leaves)
        if chunk is not None and (chunk.bloom_filter_offset is not None or chunk.bloom_filter_length is not None)
    ]
    filters = yield from read_filters(footer, leaves)
    return footer, cleared, sum(f.length for f in filters)


def _plan_drop(force: bool, file: _File, survey: _Survey) -> _DropPlan:
    footer, cleared, bytes_left = survey
    require_writable(file.source, file.target, footer, force, file.notes)
    return _DropPlan(file.source, file.target, file.notes, footer=footer, cleared=cleared, bytes_left=bytes_left)


def _drop_one(plan: _DropPlan, *, dry_run: bool, keep_mtime: bool) -> FileDropped:
    source, target, footer = plan.source, plan.target, plan.footer
    if not plan.cleared and (target is None or dry_run):
        return plan.result("unchanged")
    edits: Edits = {(group, leaf.index): None for group, leaf in plan.cleared}
    done = {}
    if plan.cleared:
        oldest, _ = _go_back(run(source, whole_prefixes(footer)), all=False)
        # What is written here is another state, behind which a restore goes first.
        size = source.size + len(splice_filters(footer.raw, edits)) + 8
        back = len(_stored_filters(oldest).items() - _stored_filters(footer, without=edits).items())
        done = {
            "cleared": len(plan.cleared),
            "bytes_left": plan.bytes_left,
            "bytes_restorable": size - oldest.file_size,
            "filters_back": back,
        }
    if dry_run:
        return plan.result("planned", **done)
    with rewrite(source, source.size, target=target, keep_mtime=keep_mtime) as out:
        note_stale(out, plan.notes)
        out.copy()
        if plan.cleared:
            append_footer(out, footer, edits)
        out.commit()
    return plan.result("written" if plan.cleared else "unchanged", **done)


def _restore_one(plan: _DropPlan, *, dry_run: bool, keep_mtime: bool, all: bool) -> FileDropped:
    source, target, footer = plan.source, plan.target, plan.footer
    oldest, others = _go_back(run(source, whole_prefixes(footer)), all=all)
    if others is not None:
        plan.notes.append((_CUT_OTHERS if all else _KEPT_OTHERS).format(others))
    keep = oldest.file_size
    unchanged = keep == source.size
    if unchanged and (target is None or dry_run):
        return plan.result("unchanged")
    now, before = _stored_filters(footer).items(), _stored_filters(oldest).items()
    done = {"cleared": len(now - before), "bytes_freed": source.size - keep, "filters_back": len(before - now)}
    if dry_run:
        return plan.result("planned", **done)
    with rewrite(source, keep, target=target, keep_mtime=keep_mtime) as out:
        note_stale(out, plan.notes)
        out.copy()
        out.commit()
    return plan.result("unchanged") if unchanged else plan.result("written", **done)


_KEPT_OTHERS = (
    "another program changed the footer at byte {:,}: that and everything before it is kept; all=True goes further back"
)
_CUT_OTHERS = "what another program changed in the footer at byte {:,} was cut away, too"


def _stored_filters(footer: Footer, without: Container[tuple[int, int]] = ()) -> dict[tuple[int, int], int]:
    """Return where the footer says that filters are, by row group and column."""
    return {
        (group, leaf.index): footer.chunk(group, leaf).bloom_filter_offset
        for group, leaf in footer.chunks_with_filters(footer.leaves)
        if (group, leaf.index) not in without
    }


def _go_back(states: list[Footer], *, all: bool) -> tuple[Footer, int | None]:
    """Return the oldest of a file's states that a restore goes back to, and where another program's work ends.

    That is where it goes no further, or with `all` where it went on, or None.
    """
    now, others = states[-1], None
    essence = _essence(now) if states[:-1] else b""
    for before in reversed(states[:-1]):
        if (earlier := _essence(before)) != essence:
            others = others or now.file_size
            if not all:
                break
        now, essence = before, earlier
    return now, others


def _essence(footer: Footer) -> bytes:
    """Return the footer without what is ever changed here."""
    nothing: Edits = dict.fromkeys(product(range(footer.num_row_groups), range(len(footer.leaves))))
    return splice_key_values(splice_filters(footer.raw, nothing), dict.fromkeys(hudi.ENTRIES))
