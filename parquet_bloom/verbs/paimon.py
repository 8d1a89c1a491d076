"""Gives the files of a Paimon table indexes, in one commit.

    live files -> an index beside each that has none -> one snapshot: their entries out, and in again with the index

No data file is touched. Another writer's snapshot in between makes the commit start again on that one, with the files
that are still live. What the commit does to the table's manifests is in `tables.paimon.IndexCommit`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError, describe_error
from parquet_bloom.filters.paimon import BLOOM_FILTER, build_container, is_hashed, size_for
from parquet_bloom.format.footer import read_footer
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import PathLike, find
from parquet_bloom.tables import LiveFile, open_paimon
from parquet_bloom.tables.paimon import IndexCommit, OpenPaimon
from parquet_bloom.verbs.add_files import Added
from parquet_bloom.verbs.changes import REPLACED, Commits
from parquet_bloom.verbs.paimon_files import index_of
from parquet_bloom.verbs.parallel import Progress, Ticker, map_in_order, share_threads
from parquet_bloom.verbs.retrofit import FileAdded, Status


@dataclass(frozen=True, slots=True, repr=False)
class Attached(Added):
    """The result of `attach_index`, a row for each live file: its `output` is the index.

    `version` is the new snapshot's id, None if there was none to commit. `notes` are sentences that the user should
    see.
    """

    version: int | None = None
    notes: tuple[str, ...] = ()


def attach_index(
    table: PathLike,
    columns: Sequence[str] | str,
    *,
    ndv: int | Mapping[str, int] = 1_000_000,
    fpp: float | Mapping[str, float] = 0.1,
    dry_run: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Attached:
    """Return what was done to give all live files of a Paimon append table an index.

    Each index is what `build_index` returns, and lies beside its data file. It has those columns that the file was
    written with, by the names and types of the schema then. Files that have an index keep it. All are attached in one
    snapshot, or none is; if no file lacks one, nothing is committed. A file that cannot be indexed is refused with its
    error, as is one that another writer removed meanwhile; the others go on.

    The table's options are not changed. Unless `file-index.bloom-filter.columns` has the columns, files that are
    written later have no such index, and the next compaction drops those that were attached; `notes` says so. If an
    error is raised, the table is as it was, and the new files are removed. If it is not known whether the commit
    reached the table, they stay, and a note on the error names them.

    Args:
        table: The table's local directory.
        columns: Top-level columns, under the table's names.
        ndv: Paimon's `items`, of all columns or of each: distinct values to size a filter for.
        fpp: The false-positive rate, of all columns or of each.
        dry_run: Only report what would be done.
        jobs: Threads. By default one for each processor.
        progress: Is called with how much is done and how much there is in all. It counts files.

    Returns:
        An `Attached`: a row for each live file, whose `output` is the index. `.version` is the new snapshot's id.

    Raises:
        FileNotFoundError: There is no Paimon table.
        UnsupportedError: The table has primary keys, row tracking or data evolution, or is not in a local directory; or
            Paimon has no filters for a column's type.
        ColumnNotFoundError: The table has no such column.
        ValueError: Paimon cannot use such a size.
        ConcurrentChangeError: Other writers left no room for the commit.

    Examples:
        >>> attached = parquet_bloom.paimon.attach_index("orders", "name", dry_run=True)
        >>> sorted({row.status for row in attached}), attached.version
        (['planned', 'unchanged'], None)
    """
    names = list(dict.fromkeys([columns] if isinstance(columns, str) else columns))
    if not names:
        raise ValueError("give at least one column")
    opened = open_paimon(table)
    sizes = {name: _Size(_of(ndv, name), _of(fpp, name)) for name in names}
    for name, size in sizes.items():
        if not is_hashed(kind := opened.type_of(name)):
            shown = kind if isinstance(kind, str) else "nested"
            raise UnsupportedError(f"column {name} is {shown}; Paimon has no bloom filters for that type")
        size_for(size.ndv, size.fpp)
    return _Run(opened, sizes, dry_run, jobs, progress).run()


@dataclass(frozen=True, slots=True)
class _Size:
    ndv: int
    fpp: float


def _of(values: Any, name: str) -> Any:
    if isinstance(values, Mapping) and name not in values:
        raise ValueError(f"column {name} has no size among {', '.join(values)}")
    return values[name] if isinstance(values, Mapping) else values


@dataclass(slots=True)
class _Run:
    table: OpenPaimon
    sizes: dict[str, _Size]
    dry_run: bool
    jobs: int | None
    progress: Progress | None
    rows: dict[str, FileAdded] = field(default_factory=dict)

    def run(self) -> Attached:
        files = self.table.snapshot.files
        todo = [(file, own) for file in files if (own := self._own_columns(file))]
        version = None
        if self.dry_run:
            for file, own in todo:
                self._put(file, "planned", bytes_added=self._planned_bytes(own))
        elif todo:
            with IndexCommit(self.table) as commit:
                self._write(todo, commit)
                version = self._commit(commit)
        dropped = [name for name in self.sizes if not self.table.keeps_indexes_of(name)]
        notes: tuple[str, ...] = ()
        if dropped and any(row.status in ("written", "planned") for row in self.rows.values()):
            notes = (
                "The next compaction drops indexes that are not in the table's option file-index.bloom-filter.columns: "
                f"{', '.join(dropped)}",
            )
        return Attached(tuple(self.rows[file.recorded] for file in files), version, notes)

    def _put(self, file: LiveFile, status: Status, *, output: str | None = None, **more: Any) -> None:
        planned = f"{file.path}.index" if status == "planned" else None
        self.rows[file.recorded] = FileAdded(file.path, output or planned or file.path, status, file.size, **more)

    def _own_columns(self, file: LiveFile) -> dict[str, tuple[str, str]]:
        """Return the columns that a file is to get, with their names and types in it; or put what comes of it."""
        if self.table.has_index(file):
            self._put(file, "unchanged", notes=("has an index",))
            return {}
        if file.is_outside:
            self._put(file, "refused", error=file.not_excluded)
            return {}
        if not file.path.endswith(".parquet"):
            self._put(file, "refused", error="it is not a Parquet file")
            return {}
        own_columns = {name: own for name in self.sizes if (own := self.table.own_column(file, name)) is not None}
        for name, (_, kind) in own_columns.items():
            if not is_hashed(kind):
                error = f"column {name} was {kind} when it was written; Paimon has no bloom filters for that type"
                self._put(file, "refused", error=error)
                return {}
        if not own_columns:
            self._put(file, "unchanged", notes=("was written before the table had these columns",))
        return own_columns

    def _planned_bytes(self, own: dict[str, tuple[str, str]]) -> int:
        payloads = {}
        for column, (name, _) in own.items():
            num_bits = size_for(self.sizes[column].ndv, self.sizes[column].fpp).num_bits
            payloads[name] = {BLOOM_FILTER: bytes(4 + num_bits // 8)}
        return len(build_container(payloads))

    def _write(self, todo: Sequence[tuple[LiveFile, dict[str, tuple[str, str]]]], commit: IndexCommit) -> None:
        """Write the indexes, a few files at a time, and put what came of them."""
        tick = Ticker(self.progress, len(todo))
        threads = max(share_threads(self.jobs, len(todo)))
        with contextlib.closing(map_in_order(self._built, todo, threads, threading.Event())) as built:
            for (file, own), data in zip(todo, built, strict=True):
                try:
                    if isinstance(data, Exception):
                        raise data
                    path = commit.write(file, data)
                except (ParquetBloomError, OSError, TypeError) as error:
                    self._put(file, "refused", error=describe_error(error))
                else:
                    late = [name for name in self.sizes if name not in own]
                    notes = (f"was written before the table had columns {', '.join(late)}",) if late else ()
                    self._put(file, "written", output=path, bytes_added=len(data), notes=notes)
                tick()

    def _built(self, job: tuple[LiveFile, dict[str, tuple[str, str]]]) -> bytes | Exception:
        file, own = job
        try:
            (source,) = find([file.path])
            footer = run(source, read_footer(source.size))
            if footer.num_rows != file.num_rows or source.size != file.size:
                raise CorruptFileError(
                    f"has {footer.num_rows:,} rows in {source.size:,} bytes, and the table records "
                    f"{file.num_rows:,} in {file.size:,}"
                )
            return index_of(
                source,
                footer,
                [name for name, _ in own.values()],
                ndv={name: self.sizes[column].ndv for column, (name, _) in own.items()},
                fpp={name: self.sizes[column].fpp for column, (name, _) in own.items()},
                types=dict(own.values()),
            )
        except (ParquetBloomError, OSError, TypeError) as error:
            return error

    def _commit(self, commit: IndexCommit) -> int | None:
        """Attach what was written, on whichever snapshot is the newest, and return the new one's id."""

        def withdraw_lost(written: dict[str, FileAdded]) -> None:
            for recorded in self._lost(written):
                commit.withdraw(recorded)
                del written[recorded]

        written = {recorded: row for recorded, row in self.rows.items() if row.status == "written"}
        Commits().make(self.table, written, withdraw_lost, lambda rows: commit.commit())
        return (self.table.snapshot.version or 0) + 1 if written else None

    def _lost(self, written: Mapping[str, FileAdded]) -> list[str]:
        """Return the files that the newest snapshot no longer has, or has an index for; their rows say so."""
        live = {file.recorded: file for file in self.table.snapshot.files}
        lost = [recorded for recorded in written if recorded not in live or self.table.has_index(live[recorded])]
        for recorded in lost:
            gone = recorded not in live
            self.rows[recorded] = replace(
                self.rows[recorded],
                status="refused" if gone else "unchanged",
                output=self.rows[recorded].path,
                bytes_added=0,
                error=REPLACED if gone else None,
                notes=() if gone else ("has an index meanwhile",),
            )
        return lost
