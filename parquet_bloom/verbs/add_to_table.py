"""Filters for the files of Delta and Iceberg tables: new files beside the old ones, swapped in by commits.

    live files -> a new file for each that lacks filters -> one commit a batch: old files out, new ones in

Nothing that a snapshot holds is touched: time travel, running queries and clones read the old files as before, until
the table's own clean-up removes them. Another writer's commit in between makes a batch start again on the newest
snapshot, with the new files whose old ones are still live.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from parquet_bloom.errors import ConcurrentChangeError, UnsupportedError, describe_error
from parquet_bloom.filters.readers import Given, readers_of, settled_of_table
from parquet_bloom.format.sbbf import MAX_BYTES
from parquet_bloom.format.schema import ColumnPath, LeafColumn
from parquet_bloom.storage.listing import StorageOptions
from parquet_bloom.storage.rewrite import remove_leftovers
from parquet_bloom.tables import (
    Committable,
    FailedCommitError,
    LiveFile,
    Swap,
    UncheckedCommitError,
    open_table,
)
from parquet_bloom.tables.snapshots import Snapshot, untouched
from parquet_bloom.tables.wishes import READERS, wishes_of
from parquet_bloom.verbs.add_files import DEFAULT_FPP, Added, AddOptions, AddPlan, plan_adds, preview_add, write_adds
from parquet_bloom.verbs.chosen_partitions import ChosenPartitions
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.retrofit import FileAdded, parse_paths, rates_of

BATCH = 100
"""Files swapped in one commit."""

ATTEMPTS = 20
"""Commits that are tried for a batch before other writers are given way."""

_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


def add_to_table(
    table: Any,
    columns: Sequence[str] | Mapping[str, float] | str | None,
    *,
    kind: str | None = None,
    catalog: str | None = None,
    fpp: float = DEFAULT_FPP,
    ndv: int | None = None,
    max_bytes: int = MAX_BYTES,
    replace: bool = False,
    allow_large: bool = False,
    batch: int = BATCH,
    where: Any = None,
    max_commits_per_minute: float | None = None,
    readers: Given = None,
    accept_hazards: bool = False,
    dry_run: bool = False,
    jobs: int | None = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> Added:
    """Return what was done to give `columns` a filter in every live file of a table, a row for each file.

    See `add` with `table=True`; without `columns`, those of the table's properties. `kind` is `delta` or `iceberg` if
    it should not be detected.
    `progress` counts files.
    """
    if batch < 1:
        raise ValueError(f"batch= must be at least 1, not {batch}")
    pace = Pace(max_commits_per_minute)
    given = readers_of(readers, accept_hazards=accept_hazards)
    opened = open_table(table, kind=kind, catalog=catalog, storage_options=storage_options)
    if columns is None:
        columns = _of_properties(opened.snapshot.properties, fpp)
    paths = parse_paths(columns)
    options = AddOptions(
        paths,
        fpp=fpp,
        ndv=ndv,
        max_bytes=max_bytes,
        replace=replace,
        allow_large=allow_large,
        for_swap=True,
        snapshot=opened.snapshot,
        rates=rates_of(columns),
        table_leaves=leaves_of_table(opened.snapshot, paths),
        readers=settled_of_table(given, opened.snapshot, storage_options),
    )
    chosen = None if where is None else ChosenPartitions(where, opened.snapshot)
    to_remember = given.text if given.is_given else None
    run = _Run(opened, options, batch, jobs, storage_options, progress, pace, chosen, to_remember)
    return run.run(dry_run=dry_run)


def leaves_of_table(snapshot: Snapshot, paths: Iterable[ColumnPath]) -> dict[ColumnPath, LeafColumn]:
    """Return the leaves of the top-level columns of `paths` with the table's types, as far as it tells them."""
    from parquet_bloom.storage.rows import leaves_of

    columns, names = snapshot.columns() if snapshot.columns is not None else (), {path[0] for path in paths}
    types = {one.name: one.type for one in columns if one.name in names and one.type is not None}
    return {leaf.path: leaf for leaf in leaves_of(types)}


def _of_properties(properties: Mapping[str, str], fpp: float) -> dict[str, float]:
    wished = {name: rate or fpp for name, (is_on, rate) in wishes_of(properties).items() if is_on}
    if not wished:
        raise UnsupportedError(
            "the table's properties name no column that is to have filters; set "
            "write.parquet.bloom-filter-enabled.column.NAME=true (Iceberg) or parquet.bloom.filter.enabled#NAME=true"
        )
    return wished


@dataclasses.dataclass(slots=True)
class _Run:
    table: Committable
    options: AddOptions
    batch: int
    jobs: int | None
    storage_options: StorageOptions
    progress: Progress | None
    pace: Pace
    chosen: ChosenPartitions | None
    to_remember: str | None
    """The readers that the table's property is to name."""
    not_remembered: tuple[str, ...] = ()
    rows: dict[str, FileAdded] = dataclasses.field(default_factory=dict)
    is_committing: bool = False
    """Whether a commit is under way of which it is not known what became of it."""

    def run(self, *, dry_run: bool) -> Added:
        snapshot = self.table.snapshot
        files, chosen = snapshot.files, snapshot
        if self.chosen is not None:
            chosen, unknown = self.chosen.split(snapshot)
            for file, error in unknown:
                self._put(file, AddPlan(untouched(file), None).refused(error))
        planned = self._planned(chosen)
        if not dry_run and self.to_remember is not None:
            self._remember({READERS: self.to_remember})
        for file, plan in planned:
            if plan.error is not None:
                self._put(file, plan.refused(plan.error))
            elif dry_run:
                self._put(file, preview_add(plan, self.options))
            elif not plan.has_work:
                self._put(file, plan.result("unchanged"))
        todo = [(file, plan) for file, plan in planned if file.recorded not in self.rows]
        if todo:
            self.table.prepare()
            remove_leftovers(plan.source for _, plan in todo)
        for start in range(0, len(todo), self.batch):
            self._do(todo[start : start + self.batch], self._within(start, len(todo)))
        if todo or (self.to_remember is not None and not dry_run):
            self.table.verify()
        return Added(tuple(self.rows[file.recorded] for file in files if file.recorded in self.rows))

    def _planned(self, snapshot: Snapshot) -> list[tuple[LiveFile, AddPlan]]:
        """Return what is to be done to each file that may be swapped; the others are refused."""
        sources, found = snapshot.found(self.storage_options)
        wanted, targets = [], []
        for file, of_now, source in zip(snapshot.files, found.files, sources, strict=True):
            if of_now.problem is not None and of_now.problem.kind == "lost":
                self._put(file, AddPlan(source, None).refused(of_now.error(is_named=False)))
            elif reason := self.table.refusal(file):
                self._put(file, AddPlan(source, None).refused(UnsupportedError(reason)))
            else:
                wanted.append((file, source))
                targets.append(_beside(source.path))
        plans = plan_adds([source for _, source in wanted], targets, self.options)
        for (file, _), plan in zip(wanted, plans, strict=True):
            rows = plan.footer.num_rows if plan.footer is not None else None
            if file.num_rows is not None and rows not in (None, file.num_rows) and plan.error is None:
                plan.error = UnsupportedError(f"the file has {rows:,} rows, and the table records {file.num_rows:,}")
        return [(file, plan) for (file, _), plan in zip(wanted, plans, strict=True)]

    def _put(self, file: LiveFile, row: FileAdded) -> None:
        output = row.path
        if row.status in ("written", "planned"):
            output = f"{file.path.rpartition('/')[0]}/{row.output.rpartition('/')[2]}"
        self.rows[file.recorded] = dataclasses.replace(row, output=output, notes=(*row.notes, *self.not_remembered))

    def _remember(self, properties: dict[str, str]) -> None:
        """Commit properties that the table does not have, or note why that cannot be done."""

        def give_up_known(pending: dict[str, str]) -> None:
            for name in pending.keys() & self.table.snapshot.properties.keys():
                if self.table.snapshot.properties[name] == properties[name]:
                    del pending[name]

        def commit(values: Sequence[str]) -> object:
            return self.table.set_properties(properties)

        try:
            commit_pending(self, dict(properties), give_up_known, commit)
        except (UnsupportedError, OSError) as error:
            self.is_committing = False
            self.not_remembered = (f"the table does not remember the readers: {describe_error(error)}",)

    def _within(self, done: int, total: int) -> Progress | None:
        progress, size = self.progress, min(self.batch, total - done)
        if progress is None:
            return None
        return lambda part, whole: progress(done + size * part // whole, total)

    # ---- a batch ---------------------------------------------------------------------------

    def _do(self, todo: Sequence[tuple[LiveFile, AddPlan]], progress: Progress | None) -> None:
        """Write the new files of a batch and commit them."""
        plans = [plan for _, plan in todo]
        try:
            written = write_adds(plans, self.options, jobs=self.jobs, progress=progress)
            swaps: list[Swap] = []
            for (file, plan), row in zip(todo, written, strict=True):
                if row.status == "written":
                    row = dataclasses.replace(row, notes=(*row.notes, *self.table.notes(file)))
                self._put(file, row)
                if row.status == "written":
                    swaps.append(self._swap(file, plan, self.rows[file.recorded]))
            self._commit({swap.old.recorded: swap for swap in swaps})
        except BaseException as error:
            if isinstance(error, UncheckedCommitError):
                pass  # the table has them
            elif self.is_committing:
                names = " ".join(plan.target or "" for plan in plans)
                error.add_note(f"If the commit did not reach the table, no snapshot has these files: {names}")
            else:
                for plan in plans:
                    _remove(plan)
            raise
        for file, plan in todo:
            if self.rows[file.recorded].status != "written":
                _remove(plan)

    def _swap(self, file: LiveFile, plan: AddPlan, row: FileAdded) -> Swap:
        assert plan.footer is not None
        return Swap(file, row.output, row.size + row.bytes_added, plan.footer.num_rows)

    def _commit(self, swaps: dict[str, Swap]) -> None:
        """Commit the swaps whose old files are live, on whichever snapshot is the newest."""
        commit_pending(self, swaps, self._give_up_lost, self.table.commit)

    def _give_up_lost(self, swaps: dict[str, Swap]) -> None:
        """Take out the swaps that the newest snapshot leaves no room for, and refuse their files."""
        live = {file.recorded: file for file in self.table.snapshot.files}
        for recorded, swap in list(swaps.items()):
            now = live.get(recorded)
            if now is not None and now.size == swap.old.size:
                reason = self.table.refusal(now)
            else:
                reason = (
                    "another writer removed the file from the table meanwhile; run again for the files that replaced it"
                )
            if reason:
                del swaps[recorded]
                row = self.rows[recorded]
                self.rows[recorded] = dataclasses.replace(
                    row, status="refused", output=row.path, bytes_added=0, filters=(), error=reason
                )


_Pending = TypeVar("_Pending")


class Pace:
    """Spaces commits to a table that others write to."""

    def __init__(self, per_minute: float | None) -> None:
        """Raise `ValueError` for a number of commits that is not positive; None spaces nothing."""
        if per_minute is not None and not per_minute > 0:
            raise ValueError(f"max_commits_per_minute= must be above 0, not {per_minute}")
        self._seconds = 60 / per_minute if per_minute is not None else 0.0
        self._next = -math.inf

    def wait(self) -> bool:
        """Return when the next commit may be made, and whether that took any time."""
        seconds = self._next - time.monotonic()
        if seconds > 0:
            time.sleep(seconds)
        return seconds > 0

    def committed(self) -> None:
        """Count from now."""
        self._next = time.monotonic() + self._seconds


class Committing(Protocol):
    """A run that commits; `is_committing` while it is not known what became of a commit."""

    is_committing: bool

    @property
    def pace(self) -> Pace:
        """How far its commits are spaced."""

    @property
    def table(self) -> Committable:
        """The table that it commits to."""


def commit_pending(
    run: Committing,
    pending: dict[str, _Pending],
    give_up_lost: Callable[[dict[str, _Pending]], None],
    commit: Callable[[list[_Pending]], object],
) -> None:
    """Commit what is pending for files that are live, on whichever snapshot is the newest.

    `give_up_lost` takes out of `pending` what the newest snapshot leaves no room for.
    """
    if pending and run.pace.wait():
        run.table.refresh()
    for attempt in range(ATTEMPTS):
        give_up_lost(pending)
        if not pending:
            return
        run.is_committing = True
        try:
            commit(list(pending.values()))
        except (FailedCommitError, UnsupportedError):
            run.is_committing = False
            raise
        except ConcurrentChangeError:
            run.is_committing = False
            if attempt == ATTEMPTS - 1:
                raise
            pause(attempt)
            run.table.refresh()
        else:
            run.is_committing = False
            run.pace.committed()
            return


def pause(attempt: int) -> None:
    """Give other writers time before the next attempt, at random: so two of these do not meet again and again."""
    time.sleep(random.uniform(0, min(_LONGEST_PAUSE, _PAUSE * 2**attempt)))


def _beside(path: str) -> str:
    """Return a path for a new file in the same directory, that nothing else has."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.removesuffix('.parquet')}-bloom-{uuid.uuid4().hex[:8]}.parquet"


def _remove(plan: AddPlan) -> None:
    """Remove the new file, where there is one; an error that is under way matters more than one in this."""
    with contextlib.suppress(Exception):
        if plan.target is not None and plan.source.fs.exists(plan.target):
            plan.source.fs.rm_file(plan.target)
