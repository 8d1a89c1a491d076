"""Filters for the files of Delta and Iceberg tables: new files beside the old ones, swapped in by commits.

Nothing that a snapshot holds is touched: time travel, running queries and clones read the old files as before, until
the table's own clean-up removes them.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parquet_bloom.errors import UnsupportedError, describe_error
from parquet_bloom.filters.readers import Given, readers_of, settled_of_table
from parquet_bloom.format.sbbf import MAX_BYTES
from parquet_bloom.format.schema import ColumnPath, LeafColumn
from parquet_bloom.storage.listing import StorageOptions
from parquet_bloom.storage.rewrite import remove_leftovers
from parquet_bloom.tables import LiveFile, Snapshot, Swap, open_table
from parquet_bloom.tables.table_properties import READERS, filters_wanted
from parquet_bloom.verbs.add_files import (
    DEFAULT_FPP,
    Added,
    AddOptions,
    AddPlan,
    AddStep,
    plan_adds,
    preview_add,
    write_adds,
)
from parquet_bloom.verbs.changes import BATCH, REPLACED, Commits, TableChange
from parquet_bloom.verbs.chosen_partitions import ChosenPartitions
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.retrofit import AddingPlan, FileAdded, parse_paths, rates_of


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
    commits = Commits(max_commits_per_minute)
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
    run = _AddToTable(opened, batch, jobs, storage_options, progress, commits, chosen, options, to_remember)
    return run.run(dry_run=dry_run)


def leaves_of_table(snapshot: Snapshot, paths: Iterable[ColumnPath]) -> dict[ColumnPath, LeafColumn]:
    """Return the leaves of the top-level columns of `paths` with the table's types, as far as it tells them."""
    from parquet_bloom.storage.rows import leaves_of

    columns, names = snapshot.columns() if snapshot.columns is not None else (), {path[0] for path in paths}
    types = {one.name: one.type for one in columns if one.name in names and one.type is not None}
    return {leaf.path: leaf for leaf in leaves_of(types)}


def _of_properties(properties: Mapping[str, str], fpp: float) -> dict[str, float]:
    wanted = {name: rate or fpp for name, (is_on, rate) in filters_wanted(properties).items() if is_on}
    if not wanted:
        raise UnsupportedError(
            "the table's properties name no column that is to have filters; set "
            "write.parquet.bloom-filter-enabled.column.NAME=true (Iceberg) or parquet.bloom.filter.enabled#NAME=true"
        )
    return wanted


@dataclasses.dataclass(slots=True)
class _AddToTable(TableChange[AddPlan, FileAdded, Swap]):
    FILE = AddingPlan

    options: AddOptions
    readers_to_remember: str | None
    """The readers that the table's property is to name."""
    not_remembered: tuple[str, ...] = ()

    def run(self, *, dry_run: bool) -> Added:
        files = self.table.snapshot.files
        planned = self._planned(self._chosen_files())
        remembers = not dry_run and self.readers_to_remember is not None
        if self.readers_to_remember is not None and not dry_run:
            self._remember({READERS: self.readers_to_remember})
        todo = []
        for file, step in planned:
            if isinstance(step, AddPlan) and step.has_work and not dry_run:
                todo.append((file, step))
            else:
                self._put(file, preview_add(step, self.options))
        if todo:
            self.table.prepare()
            remove_leftovers(plan.source for _, plan in todo)
        self._batches(todo)
        if todo or remembers:
            self.table.verify()
        return Added(tuple(self.rows[file.recorded] for file in files if file.recorded in self.rows))

    def _planned(self, snapshot: Snapshot) -> list[tuple[LiveFile, AddStep]]:
        """Return what is to be done to each file that may be swapped; the others are refused."""
        sources, found = snapshot.found(self.storage_options)
        wanted = []
        for file, of_now, source in zip(snapshot.files, found.files, sources, strict=True):
            if of_now.problem is not None and of_now.problem.kind == "lost":
                self.rows[file.recorded] = AddingPlan(source, None).refused(of_now.error(is_named=False)).row
            elif reason := self.table.refusal(file):
                self.rows[file.recorded] = AddingPlan(source, None).refused(UnsupportedError(reason)).row
            else:
                wanted.append((file, source))
        steps = plan_adds(
            [source for _, source in wanted], [_beside(source.path) for _, source in wanted], self.options
        )
        return [(file, _with_rows_recorded(file, step)) for (file, _), step in zip(wanted, steps, strict=True)]

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
            self.commits.make(self.table, dict(properties), give_up_known, commit)
        except (UnsupportedError, OSError) as error:
            self.commits.is_unknown = False
            self.not_remembered = (f"the table does not remember the readers: {describe_error(error)}",)

    # ---- a batch ---------------------------------------------------------------------------

    def _write(self, todo: Sequence[tuple[LiveFile, AddPlan]], progress: Progress | None) -> dict[str, Swap]:
        swaps = {}
        written = write_adds([plan for _, plan in todo], self.options, jobs=self.jobs, progress=progress)
        for (file, plan), row in zip(todo, written, strict=True):
            if row.status == "written":
                row = dataclasses.replace(row, notes=(*row.notes, *self.table.notes(file)))
            self._put(file, row)
            if row.status == "written":
                output = self.rows[file.recorded].output
                swaps[file.recorded] = Swap(file, output, row.size + row.bytes_added, plan.footer.num_rows)
        return swaps

    def _commit(self, changes: dict[str, Swap]) -> None:
        self.commits.make(self.table, changes, self._give_up_lost, self.table.commit)

    def _give_up_lost(self, swaps: dict[str, Swap]) -> None:
        """Take out the swaps that the newest snapshot leaves no room for, and refuse their files."""
        live = {file.recorded: file for file in self.table.snapshot.files}
        for recorded, swap in list(swaps.items()):
            now = live.get(recorded)
            is_there = now is not None and now.size == swap.old.size
            reason = self.table.refusal(now) if now is not None and is_there else REPLACED
            if reason:
                del swaps[recorded]
                row = self.rows[recorded]
                self.rows[recorded] = dataclasses.replace(
                    row, status="refused", output=row.path, bytes_added=0, filters=(), error=reason
                )


def _with_rows_recorded(file: LiveFile, step: AddStep) -> AddStep:
    """Return a step, refused if the table records another number of rows of its file."""
    if not isinstance(step, AddPlan) or file.num_rows in (None, rows := step.footer.num_rows):
        return step
    return step.refused(UnsupportedError(f"the file has {rows:,} rows, and the table records {file.num_rows:,}"))


def _beside(path: str) -> str:
    """Return a path for a new file in the same directory, that nothing else has."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name.removesuffix('.parquet')}-bloom-{uuid.uuid4().hex[:8]}.parquet"
