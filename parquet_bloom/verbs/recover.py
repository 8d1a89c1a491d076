"""`recover`: gives a file its end back that `add` with `in_place` was adding to when it was killed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from parquet_bloom.format.recovery import WholeState, find_whole_state
from parquet_bloom.results import Record, Table
from parquet_bloom.storage.drive import drive
from parquet_bloom.storage.links import require_inside, to_change
from parquet_bloom.storage.listing import PathLike, find
from parquet_bloom.storage.rewrite import cut_in_place, require_in_place
from parquet_bloom.verbs.parallel import Progress, Ticker, num_threads
from parquet_bloom.verbs.retrofit import (
    FilePlan,
    Status,
    carry_out,
    parquet_outcomes,
    plan_each,
    raise_refusals,
)


@dataclass(frozen=True, slots=True, repr=False)
class FileRecovered(Record):
    """What `recover` did to one file; `bytes_cut` lay behind the old footer, `filters` whole ones among them.

    `status` is `written`, `unchanged` (the file is whole), `planned` (dry run) or `refused`, with the `error`.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "status", "bytes_cut", "error")

    path: str
    status: Status
    size: int
    bytes_cut: int = 0
    filters: int = 0
    notes: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Recovered(Table):
    """The result of `recover`, a row for each file."""

    TRUTH: ClassVar[str] = ".rows, or .errors"
    NOUN: ClassVar[str] = "file"

    rows: tuple[FileRecovered, ...]

    @property
    def errors(self) -> tuple[FileRecovered, ...]:
        """The files that were refused."""
        return tuple(row for row in self.rows if row.error)


def recover(
    paths: PathLike | Iterable[PathLike],
    *,
    dry_run: bool = False,
    any_name: bool = False,
    follow_links: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Recovered:
    """Return what was done to files that `add(..., in_place=True)` was adding filters to when it was killed.

    Such a file is cut back to its old footer, and so is what it was before, byte for byte. That is done only if each
    byte behind that footer belongs to filters of ours or to the beginning of a new footer that has them; a file that
    ends in any other way is refused and stays as it is. A whole file is left alone.

    Args:
        paths: Local files, directories or globs: one, a list, or a column of Arrow, Polars or DuckDB.
        dry_run: Only report what would be done.
        any_name: In directories, also change files whose names do not end in `.parquet`, `.parq` or `.pq`.
        follow_links: Also change files outside of the given folders, to which symbolic links in these lead.
        strict: Raise for the first file that is refused, before anything is written.
        jobs: Threads. By default one for each processor.
        progress: Is called with how many files are done and how many there are.

    Returns:
        A `Recovered`: a row for each file. `.errors` are the files that were refused.

    Raises:
        FileNotFoundError: A path names nothing.

    Examples:
        >>> [row.status for row in parquet_bloom.recover("events")]
        ['unchanged', 'unchanged']
    """
    sources = to_change(find(paths), follow_links=follow_links)
    surveyed = drive((source, find_whole_state(source.size)) for source in sources)
    outcomes = parquet_outcomes(surveyed, [None] * len(sources))
    steps = plan_each(outcomes, _File, _plan_recovery, any_name=any_name)
    raise_refusals(steps, strict=strict)
    tick = Ticker(progress, sum(isinstance(step, _RecoveryPlan) for step in steps))

    def work(plan: _RecoveryPlan, stop: threading.Event) -> FileRecovered:
        try:
            return _recover_one(plan, dry_run)
        finally:
            tick()

    return Recovered(carry_out(steps, work, at_once=num_threads(jobs), strict=strict))


@dataclass(slots=True)
class _File(FilePlan[FileRecovered]):
    def result(self, status: Status, **fields: Any) -> FileRecovered:
        """Return what came of the file."""
        return FileRecovered(self.source.name, status, self.source.size, notes=tuple(self.notes), **fields)


@dataclass(slots=True)
class _RecoveryPlan(_File):
    """What is to be done to one file: to cut it back to this state."""

    state: WholeState = field(kw_only=True)


def _plan_recovery(file: _File, state: WholeState) -> _RecoveryPlan:
    if state.footer.file_size < file.source.size:
        require_inside(file.source)
        require_in_place(file.source)
    return _RecoveryPlan(file.source, None, file.notes, state=state)


def _recover_one(plan: _RecoveryPlan, dry_run: bool) -> FileRecovered:
    if plan.state.footer.file_size == plan.source.size:
        return plan.result("unchanged")
    size = plan.state.footer.file_size
    if not dry_run:
        cut_in_place(plan.source, size)
    bytes_cut = plan.source.size - size
    return plan.result("planned" if dry_run else "written", bytes_cut=bytes_cut, filters=plan.state.num_filters)
