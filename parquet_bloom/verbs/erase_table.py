"""Rows that leave the files of Delta and Iceberg tables: new files beside the old ones, swapped in by commits.

    live files -> those with a key, written again without its rows -> one commit a batch -> every live file is searched

The old files stay for earlier versions until the table's own clean-up removes them. Another writer's commit in between
makes a batch start again on the newest snapshot; files that came meanwhile are searched in another round.
"""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
import re
import threading
import uuid
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from parquet_bloom.errors import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.filters.index_folder import indexes_of
from parquet_bloom.format.footer import Footer, read_footer
from parquet_bloom.format.schema import LeafColumn, format_path
from parquet_bloom.results import FailedFile
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions, find, resolve
from parquet_bloom.storage.rewrite import remove_leftovers
from parquet_bloom.tables import (
    Erasable,
    Erasure,
    LiveFile,
    NewFile,
    Snapshot,
    fsspec_options,
)
from parquet_bloom.values.key_sets import KeySet
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.changes import TableChange
from parquet_bloom.verbs.common_columns import deleted_rows
from parquet_bloom.verbs.erase_files import (
    ErasedFile,
    ErasePlan,
    EraseStep,
    FileErased,
    erase_file,
    plan_erasure,
    preview_erasure,
)
from parquet_bloom.verbs.erase_record import Ending, Recording
from parquet_bloom.verbs.erase_search import KeySearch, candidates, key_lookup, key_search, require_no_key
from parquet_bloom.verbs.index import noted, purge
from parquet_bloom.verbs.lookup import Search
from parquet_bloom.verbs.parallel import Progress, map_in_order, num_threads
from parquet_bloom.verbs.retrofit import Refused, carry_out, raise_refusals

ROUNDS = 10
"""How often files that other writers added meanwhile are searched, before the table is left to them."""

_Task = tuple[LiveFile, ErasePlan]

Stored = Callable[[LeafColumn], KeySet]
"""Returns the keys as a leaf stores them."""

Write = Callable[[Sequence[ErasePlan], Stored, int | None], Sequence[FileErased]]
"""Writes the new files of plans without the keys by so many threads: returns what came of each, whose `target` it may
move."""


def write_here(plans: Sequence[ErasePlan], keys: Stored, jobs: int | None) -> Sequence[FileErased]:
    """Write the new files of plans by threads; return what came of each."""

    def work(plan: ErasePlan, stop: threading.Event) -> FileErased:
        return erase_file(plan, keys(plan.leaf), stop=stop)

    return carry_out(plans, work, at_once=num_threads(jobs), strict=False)


@dataclasses.dataclass(slots=True)
class TableErasure(TableChange[ErasePlan, FileErased, Erasure]):
    """One call of `erase` for a table."""

    FILE = ErasedFile

    table: Erasable
    path: tuple[str, ...]
    keys: Keys
    timezone: str | None
    ledger: Recording | None = None
    write: Write = write_here
    stale: list[FailedFile] = dataclasses.field(default_factory=list)
    seen: set[str] = dataclasses.field(default_factory=set)
    clean: set[str] = dataclasses.field(default_factory=set)
    """Files of earlier versions that have none of the keys, or are gone."""
    held: dict[str, Counter[int]] = dataclasses.field(default_factory=dict)
    """How many rows of each key were in the files that were searched one by one."""
    reading: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    """Held while deletes are read: the first to ask reads those of all files."""
    proved: list[str] = dataclasses.field(default_factory=list)
    """The live files that the search at the end found without a key."""

    def run(self, *, dry_run: bool, strict: bool) -> None:
        """Erase the rows, and search the files that are live in the end."""
        if self.ledger is not None:
            for _ in self.table.history():  # what cannot be read is an error before anything is written
                pass
        for _ in range(ROUNDS):
            steps = self._planned()
            if strict and (unknown := self.unknown):
                raise unknown[0]
            raise_refusals([step for _, step in steps], strict=strict)
            planned = [(file, step) for file, step in steps if isinstance(step, ErasePlan)]
            self._refuse_references({file.path for file, _ in planned})
            self._note(steps, dry_run)
            if dry_run:
                return
            if planned:
                self.table.prepare_erasure()
                remove_leftovers(plan.source for _, plan in planned)
                if self.ledger is not None:
                    self.ledger.begin({file.path: self.held[file.path] for file, _ in planned})
            self._batches(planned)
            self.table.verify()
            self.table.refresh()
            if self.seen.issuperset(file.recorded for file in self._chosen_files().files):
                self._prove()
                return
        raise ConcurrentChangeError(
            f"other writers keep adding files to {self.table.snapshot.root}, which were not all searched; run again"
        )

    # ---- planning --------------------------------------------------------------------------

    def _planned(self) -> list[tuple[LiveFile, EraseStep]]:
        """Return what is to be done to each live file that was not searched yet; nothing is written."""
        snapshot = self._chosen_files()
        files = tuple(file for file in snapshot.files if file.recorded not in self.seen)
        found = self._searched(dataclasses.replace(snapshot, files=files))
        return [(file, step) for file, step, _ in found]

    def _searched(
        self, snapshot: Snapshot, *, is_live: bool = True
    ) -> Iterator[tuple[LiveFile, EraseStep, KeySearch | None]]:
        """Yield what is to leave each file of a snapshot, or why it cannot; of one that is not live, what would.

        Beside it is the search of its rows, if it was not needless.
        """
        sources, found = snapshot.found(self.storage_options)
        files = dict(zip(sources, found.files, strict=True))
        snapshot = dataclasses.replace(snapshot, files=tuple(files.values()), recorded=None)
        new = list(files)
        lookup = self._lookup(snapshot)
        hits = candidates(new, lookup, self.progress, is_column_needed=is_live)

        def planned(source: Source) -> tuple[LiveFile, EraseStep, KeySearch | None]:
            live, outcome = files[source], hits.get(source, [])
            file, in_file = ErasedFile(source, beside(source.path)), None
            try:
                if live.is_unread:
                    raise live.error(is_named=False)
                if isinstance(outcome, ColumnNotFoundError):
                    self._require_null(live)
                elif isinstance(outcome, Exception):
                    raise outcome
                elif outcome:
                    in_file = key_search(source, lookup)
                    deleted = partial(self._deleted, live, in_file.footer) if is_live else partial(array, "q")
                    return live, plan_erasure(file, in_file, outcome, deleted=deleted), in_file
            except (ParquetBloomError, OSError) as error:
                return live, file.refused(error), in_file
            return live, file.unchanged, in_file

        return map_in_order(planned, new, num_threads(self.jobs), threading.Event())

    def _require_null(self, file: LiveFile) -> None:
        """Raise `UnsupportedError` unless all rows of a file that lacks the column are NULL in it."""
        if reason := self.table.snapshot.why_not_null(file, self.path[0]):
            raise UnsupportedError(reason)

    def _lookup(self, snapshot: Snapshot) -> Search:
        return key_lookup(self.path, self.keys, self.timezone, self.storage_options, snapshot=snapshot)

    def _stored(self, leaf: LeafColumn) -> KeySet:
        return self.keys.stored_in(leaf, self.timezone, exactly=True)

    def _deleted(self, file: LiveFile, footer: Footer) -> array[int]:
        """Return the rows of a live file with keys that the table has deleted; raises if it cannot be written again."""
        if file.num_rows not in (None, footer.num_rows):
            raise UnsupportedError(f"the file has {footer.num_rows:,} rows, and the table records {file.num_rows:,}")
        with self.reading:
            if reason := self.table.why_not_erased(file):
                raise UnsupportedError(f"it has rows with the keys, and {reason}")
            return deleted_rows(self.table.snapshot, file, footer)

    def _note(self, steps: Sequence[tuple[LiveFile, EraseStep]], dry_run: bool) -> None:
        """Note what came of files that do not change, and which rows of the others have keys."""
        for file, step in steps:
            self.seen.add(file.recorded)
            if isinstance(step, ErasePlan) and self.ledger is not None:
                self.held[file.path] = self.ledger.rows_with(step)
            if dry_run or not isinstance(step, ErasePlan):
                self.rows[file.recorded] = preview_erasure(step)

    # ---- a batch ---------------------------------------------------------------------------

    def _write(self, todo: Sequence[_Task], progress: Progress | None) -> dict[str, Erasure]:
        erasures = {}
        written = self.write([plan for _, plan in todo], self._stored, self.jobs)
        for (file, plan), row in zip(todo, written, strict=True):
            self.rows[file.recorded] = row
            if row.status in ("written", "removed"):
                erasures[file.recorded] = erasure = self._erasure(file, plan, row)
                if erasure.new is not None:
                    self.rows[file.recorded] = dataclasses.replace(row, output=self._beside(file, erasure))
        return erasures

    def _committed(self, changes: dict[str, Erasure]) -> None:
        for erasure in changes.values():
            if self.ledger is not None:
                self.ledger.erased[erasure.old.path] = self.held[erasure.old.path]
            if erasure.new is not None:
                self.seen.add(self._recorded(erasure))

    def _erasure(self, file: LiveFile, plan: ErasePlan, row: FileErased) -> Erasure:
        rows_erased = row.rows_erased - row.rows_deleted_before
        if row.status == "removed":
            return Erasure(file, None, rows_erased, plan.deleted)
        (source,) = find([str(plan.target)], filesystem=plan.source.fs, literal=True)
        new = NewFile(source, run(source, read_footer(source.size, guess=source.footer_guess)))
        return Erasure(file, new, rows_erased, plan.deleted)

    def _beside(self, file: LiveFile, erasure: Erasure) -> str:
        return f"{file.path.rpartition('/')[0]}/{erasure.name}"

    def _recorded(self, erasure: Erasure) -> str:
        """Return how the table spells the new file of a commit that is in its snapshot."""
        path = self._beside(erasure.old, erasure)
        return next((file.recorded for file in self.table.snapshot.files if file.path == path), path)

    def _commit(self, changes: dict[str, Erasure]) -> None:
        what = f"rows erased by {format_path(self.path)}"
        self.commits.make(self.table, changes, self._give_up_lost, lambda left: self.table.erase(left, what))

    def _give_up_lost(self, erasures: dict[str, Erasure]) -> None:
        """Take out the files that the newest snapshot leaves no room for."""
        live = {file.recorded: file for file in self.table.snapshot.files}
        for recorded, erasure in list(erasures.items()):
            now = live.get(recorded)
            is_same, reason = False, None
            if now is not None and now.size == erasure.old.size:
                try:
                    reason = self.table.why_not_erased(now)
                    is_same = reason is None and self.table.snapshot.deleted_rows(now) == erasure.deleted
                except (ParquetBloomError, OSError) as error:
                    reason = describe_error(error)
            if is_same:
                continue
            del erasures[recorded]
            row = self.rows.pop(recorded)
            if reason is not None:
                self.rows[recorded] = FileErased(row.path, "refused", bytes_before=row.bytes_before, error=reason)
            else:  # what took its place, or the same file with other deletes, comes in the next round
                self.seen.discard(recorded)

    # ---- the proof -------------------------------------------------------------------------

    def _prove(self) -> None:
        """Search every live file by decoding it; one that still has a key becomes an error."""
        snapshot = self._chosen_files()
        sources, found = snapshot.found(self.storage_options)
        lookup = self._lookup(snapshot)

        def searched(at: tuple[Source, LiveFile]) -> tuple[LiveFile, Exception | None]:
            source, file = at
            try:
                if file.is_unread:
                    raise file.error(is_named=False)
                try:
                    in_file = key_search(source, lookup)
                except ColumnNotFoundError:
                    self._require_null(file)
                else:
                    require_no_key(in_file)
            except (ParquetBloomError, OSError) as error:
                return file, error.with_traceback(None)
            return file, None

        if self.ledger is not None:
            self.ledger.note("refused", self.rows.values())
        tasks = list(zip(sources, found.files, strict=True))
        for file, error in map_in_order(searched, tasks, num_threads(self.jobs), threading.Event()):
            if error is None:
                self.proved.append(file.path)
            row = self.rows.get(file.recorded)
            if error is not None and (row is None or row.error is None):
                self.rows[file.recorded] = FileErased(
                    file.path, "refused", bytes_before=file.size, error=describe_error(error)
                )

    # ---- earlier versions, branches and tags -----------------------------------------------

    def _refuse_references(self, with_keys: set[str]) -> None:
        """Raise `UnsupportedError` if a branch or a tag has rows with the keys, which no commit to main takes away."""
        references = self.table.references()
        if not references:
            return
        versions = dict(self.table.history())
        current = self.table.snapshot
        names = [
            name
            for name, version in references.items()
            if (with_keys if version == current.version else self._held_in(versions[version], with_keys))
        ]
        if names:
            raise UnsupportedError(
                f"rows with the keys are also in the branch or tag {', '.join(sorted(names))} of {current.root}, which "
                "a commit to main does not change; drop it, or delete the rows there with the table's own engine"
            )

    def _held_in(self, files: Sequence[LiveFile], with_keys: set[str]) -> set[str]:
        return with_keys & {file.path for file in files} or self._with_keys(files)

    def _with_keys(self, files: Iterable[LiveFile]) -> set[str]:
        """Return the paths of the files that are there and have rows with the keys, or cannot be searched.

        How many rows of each key they have is noted for the ledger.
        """
        failed = {recorded for recorded, row in self.rows.items() if row.error}
        live = {file.path for file in self._chosen_files().files if file.recorded not in failed}
        unknown = {file.path: file for file in files if file.path not in self.held and file.path not in self.clean}
        fresh = tuple(file for path, file in unknown.items() if path not in live)
        snapshot = dataclasses.replace(self.table.snapshot, files=fresh)
        for file, step, in_file in self._searched(snapshot, is_live=False) if fresh else ():
            if in_file is not None and in_file.hits:
                self.held[file.path] = self.ledger.rows_with(in_file) if self.ledger is not None else Counter([0])
            elif not isinstance(step, Refused) or isinstance(step.problem, FileNotFoundError):
                self.clean.add(file.path)
            else:
                self.held[file.path] = Counter(range(len(self.keys)))  # any of them
        return {file.path for file in files if file.path in self.held}

    def held_by(self) -> list[tuple[int, frozenset[int]]]:
        """Return the earlier versions that still have rows with the keys, and of which keys, by their indexes."""
        found = []
        for version, files in self.table.history():
            keys = frozenset(key for path in self._with_keys(files) for key in self.held[path])
            if keys:
                found.append((version, keys))
        return found

    def ending(self, ledger: Recording, unreferenced: Sequence[str]) -> Ending:
        """Return what the ledger says of the table in the end."""
        rows = self.rows.values()
        ledger.note("not proved", rows)
        ledger.searched = [path for path in self.proved if path not in ledger.failed]
        notes = [f"{row.path}: {note}" for row in rows for note in row.notes]
        notes += [f"{path}: not searched, because no version has it" for path in unreferenced]
        return Ending(self.table.snapshot.version, self.held_by(), self.table.statements.cleanup, self.stale, notes)

    # ---- what is left behind ---------------------------------------------------------------

    def refresh_index(self, table: Any, catalog: str | None, at: PathLike | None) -> None:
        """Bring the index of the table up to date, and one at another place."""
        root, options = self.table.snapshot.root, fsspec_options(self.storage_options)
        for place in dict.fromkeys((None, at)):
            for folder in indexes_of(root, place, storage_options=options)[:1]:
                with noted(folder, self.stale):
                    purge(table, place, catalog=catalog, jobs=self.jobs, storage_options=self.storage_options)

    def unreferenced(self) -> list[str]:
        """Return the new files of runs that were killed before their commits, which no version of the table has."""
        paths = {file.path for file in self.table.snapshot.files if not file.is_outside}
        try:
            for _, files in self.table.history():
                paths |= {file.path for file in files if not file.is_outside}
        except (ParquetBloomError, OSError) as error:
            reason = f"earlier versions cannot be read, so files that killed runs left are not known: {error}"
            self.stale.append(FailedFile(self.table.snapshot.root, reason))
            return []
        return sorted(_new_files({path.rpartition("/")[0] for path in paths}, self.storage_options) - paths)


_NEW = re.compile(r".*-erased-[0-9a-f]{12}\.parquet")


def beside(path: str) -> str:
    """Return a path for a new file in the same directory, that nothing else has."""
    folder, slash, name = path.rpartition("/")
    name = re.sub(r"(-erased-[0-9a-f]{12})?(\.parquet)?$", "", name)
    return f"{folder}{slash}{name}-erased-{uuid.uuid4().hex[:12]}.parquet"


def _new_files(folders: Iterable[str], storage_options: StorageOptions) -> set[str]:
    """Return the files in some folders that have the name of a new file of ours."""
    found = set()
    for folder in sorted(folders):
        fs, inner = resolve(folder, None, fsspec_options(storage_options))
        with contextlib.suppress(OSError):
            fs.invalidate_cache(inner)
            names: Iterator[str] = (posixpath.basename(path) for path in fs.ls(inner, detail=False))
            found |= {f"{folder}/{name}" for name in names if _NEW.fullmatch(name)}
    return found


__all__ = ["TableErasure", "Write", "beside", "write_here"]
