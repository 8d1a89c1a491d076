"""How a table is changed: new files are written beside the old ones, and swapped in by commits.

    planned files -> a batch of new files -> one commit -> those that the table does not have are removed

Another writer's commit in between makes a batch start again on the newest snapshot, with the new files whose old ones
are still live.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from parquet_bloom.errors import ConcurrentChangeError, UnsupportedError
from parquet_bloom.storage.listing import StorageOptions
from parquet_bloom.tables import Committable, FailedCommitError, LiveFile, Readable, Snapshot, UncheckedCommitError
from parquet_bloom.tables.snapshots import untouched
from parquet_bloom.verbs.chosen_partitions import ChosenPartitions
from parquet_bloom.verbs.parallel import Progress
from parquet_bloom.verbs.retrofit import FilePlan

BATCH = 100
"""Files swapped in one commit."""

ATTEMPTS = 20
"""Commits that are tried for a batch before the table is left to other writers."""

_PAUSE, _LONGEST_PAUSE = 0.02, 1.0

REPLACED = "another writer removed the file from the table meanwhile; run again for the files that replaced it"

_Change = TypeVar("_Change")
_Plan = TypeVar("_Plan", bound=FilePlan[Any])
_Row = TypeVar("_Row")


class Commits:
    """The commits to a table that others write to, spaced."""

    def __init__(self, per_minute: float | None = None) -> None:
        """Raise `ValueError` for a number of commits that is not positive; None spaces nothing."""
        if per_minute is not None and not per_minute > 0:
            raise ValueError(f"max_commits_per_minute= must be above 0, not {per_minute}")
        self._seconds = 60 / per_minute if per_minute is not None else 0.0
        self._next = -math.inf
        self.is_unknown: bool = False
        """Whether it is not known if the last commit reached the table."""

    def make(
        self,
        table: Readable,
        changes: dict[str, _Change],
        give_up_lost: Callable[[dict[str, _Change]], None],
        commit: Callable[[list[_Change]], object],
    ) -> None:
        """Commit changes of live files, on whichever snapshot is the newest.

        `give_up_lost` takes out of `changes` what the newest snapshot leaves no room for.
        """
        if changes and (seconds := self._next - time.monotonic()) > 0:
            time.sleep(seconds)
            table.refresh()
        for attempt in range(ATTEMPTS):
            give_up_lost(changes)
            if not changes:
                return
            self.is_unknown = True
            try:
                commit(list(changes.values()))
            except (FailedCommitError, UnsupportedError):
                self.is_unknown = False
                raise
            except ConcurrentChangeError:
                self.is_unknown = False
                if attempt == ATTEMPTS - 1:
                    raise
                pause(attempt)
                table.refresh()
            else:
                self.is_unknown = False
                self._next = time.monotonic() + self._seconds
                return


def pause(attempt: int) -> None:
    """Give other writers time before the next attempt, at random: so two of these do not meet again and again."""
    time.sleep(random.uniform(0, min(_LONGEST_PAUSE, _PAUSE * 2**attempt)))


@dataclasses.dataclass(slots=True)
class TableChange(ABC, Generic[_Plan, _Row, _Change]):
    """One call that changes the files of a table, a batch at a time; `rows` are what came of each file."""

    FILE: ClassVar[type[FilePlan[Any]]]

    table: Committable
    batch: int
    jobs: int | None
    storage_options: StorageOptions
    progress: Progress | None
    commits: Commits
    chosen: ChosenPartitions | None
    rows: dict[str, _Row] = dataclasses.field(default_factory=dict, init=False)
    unknown: Sequence[UnsupportedError] = dataclasses.field(default=(), init=False)
    """Why it is not known of files whether they are of the chosen partitions."""

    @abstractmethod
    def _write(self, todo: Sequence[tuple[LiveFile, _Plan]], progress: Progress | None) -> dict[str, _Change]:
        """Write the new files of a batch, and return the changes to commit, by how the table spells the old files."""

    @abstractmethod
    def _commit(self, changes: dict[str, _Change]) -> None:
        """Commit the changes of files that are still live, and take the others out."""

    def _chosen_files(self) -> Snapshot:
        """Return the snapshot with the files that are to be changed; those that may be are refused."""
        snapshot = self.table.snapshot
        if self.chosen is None:
            return snapshot
        snapshot, unknown = self.chosen.split(snapshot)
        self.unknown = [error for _, error in unknown]
        for file, error in unknown:
            self.rows[file.recorded] = self._refused(file, error)
        return snapshot

    def _refused(self, file: LiveFile, error: Exception) -> _Row:
        row: _Row = self.FILE(untouched(file), None).refused(error).row
        return row

    def _batches(self, todo: Sequence[tuple[LiveFile, _Plan]]) -> None:
        """Change files in batches."""
        for start in range(0, len(todo), self.batch):
            self._do(todo[start : start + self.batch], self._within(start, len(todo)))

    def _within(self, done: int, total: int) -> Progress | None:
        progress, size = self.progress, min(self.batch, total - done)
        return progress and (lambda part, whole: progress(done + size * part // whole, total))

    def _do(self, todo: Sequence[tuple[LiveFile, _Plan]], progress: Progress | None) -> None:
        """Write the new files of a batch and commit them."""
        try:
            changes = self._write(todo, progress)
            self._commit(changes)
        except UncheckedCommitError:  # the table has them
            raise
        except BaseException as error:
            if self.commits.is_unknown:
                names = " ".join(plan.target or "" for _, plan in todo)
                error.add_note(f"If the commit did not reach the table, no snapshot has these files: {names}")
            else:
                for _, plan in todo:
                    _remove(plan)
            raise
        for file, plan in todo:
            if file.recorded not in changes:
                _remove(plan)
        self._committed(changes)

    def _committed(self, changes: dict[str, _Change]) -> None:
        """Note what a commit has put into the table."""


def _remove(plan: FilePlan[Any]) -> None:
    """Remove the new file, where there is one; an error that is under way matters more than one in this."""
    with contextlib.suppress(Exception):
        if plan.target is not None and plan.source.fs.exists(plan.target):
            plan.source.fs.rm_file(plan.target)
