"""A table as the rest of the library sees it: its live files, and swaps of files for others with the same rows."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from parquet_bloom.errors import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    CorruptFileError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import ColumnPath, LeafColumn, format_path
from parquet_bloom.storage.listing import LOCAL, Source, StorageOptions, find
from parquet_bloom.storage.partitions import PARTITION, Partitions, constant_partitions
from parquet_bloom.tables.live_files import LiveFile, Problem, Unproved
from parquet_bloom.tables.placement import OTHERS, ByName, Columns, Here, Naming, Place, Unknown
from parquet_bloom.tables.recorded import Recorded
from parquet_bloom.tables.statements import DeltaStatements, IcebergStatements

if TYPE_CHECKING:
    from parquet_bloom.tables.columns import TableColumn


class FailedCommitError(ParquetBloomError, OSError):
    """A commit failed, and the table is as it was."""


class UnknownOutcomeError(ParquetBloomError, OSError):
    """A commit failed in a way that leaves open whether the table has it."""


class UncheckedCommitError(ParquetBloomError, OSError):
    """A commit is in the table, but could not be checked afterwards."""


@contextlib.contextmanager
def after_commit(root: str) -> Iterator[None]:
    """Turn what fails once a commit is in the table into an error that says so: its files must stay."""
    try:
        yield
    except CorruptFileError:  # which says what the table has now
        raise
    except Exception as error:
        raise UncheckedCommitError(
            f"the commit is in {root}, but it could not be checked: {error}; run again"
        ) from error


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The live files of a table, at a Delta version, an Iceberg snapshot id or a Hudi instant (None: it has none yet).

    `naming` says what files call the table's columns, and `locate` where they are in one. `recorded` has what the table
    knows of the values in the files.
    `text_rules` tells of top-level columns why readers of the table do not compare their texts by the bytes, whatever
    wrote the files and noted in them. `columns` returns the columns in their order, where the table declares them;
    `deletes` returns what `deleted_rows` does. A pickled snapshot is without these two: they hold the open table.
    `properties` are the settings that the table keeps.
    """

    kind: str
    root: str
    version: int | None
    files: tuple[LiveFile, ...]
    naming: Naming = field(default_factory=ByName, compare=False)
    recorded: Recorded | None = field(default=None, repr=False, compare=False)
    text_rules: dict[str, str] = field(default_factory=dict)
    columns: Callable[[], Sequence[TableColumn]] | None = field(default=None, repr=False, compare=False)
    deletes: Callable[[LiveFile], array[int]] | None = field(default=None, repr=False, compare=False)
    properties: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        values = (getattr(self, each.name) for each in fields(self))
        return Snapshot, tuple(None if callable(value) else value for value in values)

    def deleted_rows(self, file: LiveFile) -> array[int]:
        """Return the numbers of a file's deleted rows, ascending, each once.

        Raises `UnsupportedError` where they are not known, and what reading them raises.
        """
        if not file.has_deletes:
            return array("q")
        if self.deletes is None:
            raise UnsupportedError("some of its rows are deleted, and it is not known which")
        return self.deletes(file)

    def unproved(self, file: LiveFile, columns: Columns | None = None) -> Unproved:
        """Return the columns of which nothing that is known of a file proves anything, each with why.

        Some are known only with the file's leaf `columns`: those that `unproved_in` returns.
        """
        found = file.unproved.union(self.text_rules.items())
        return found if columns is None else found | self.unproved_in(columns)

    def unproved_in(self, columns: Columns) -> Unproved:
        """Return the columns of which no file with these leaf columns proves anything, each with why."""
        placement = self.naming.place(columns)
        return placement.unknown | placement.doubtful

    @property
    def num_rows(self) -> int | None:
        """Rows in all files, deleted ones included; None where a file's are not recorded."""
        counts = [file.num_rows for file in self.files]
        return None if None in counts else sum(count for count in counts if count is not None)

    def sources(self, storage_options: StorageOptions = None) -> list[Source]:
        """Return the live files as they are, in order; nothing is searched for.

        A file may have grown since the table recorded its size: its old footer is still where the table's readers
        look. What lies outside of the table's directory is not looked at. Raises `CorruptFileError` for a file that is
        shorter, `FileNotFoundError` for one that is gone.
        """
        sources, found = self.found(storage_options)
        for file in found.files:
            if file.problem is not None and file.problem.kind == "lost":
                raise file.error()
        return sources

    def found(self, storage_options: StorageOptions = None) -> tuple[list[Source], Snapshot]:
        """Return what `sources` does, and the snapshot with the losses: files that are gone, or shorter than recorded.

        The sources of these must not be read, nor those of files outside of the table's directory.
        """
        inside = dict.fromkeys(file.path for file in self.files if not file.is_outside)  # a table may have a file twice
        lost: dict[str, OSError] = {}
        found = find(inside, storage_options=fsspec_options(storage_options), literal=True, lost=lost)
        at = dict(zip((path for path in inside if path not in lost), found, strict=True))
        sources, files = [], []
        for file in self.files:
            source = at.get(file.path)
            if file.path in lost:
                file = replace(file, problem=_NOT_THERE if isinstance(lost[file.path], FileNotFoundError) else _DENIED)
            elif source is not None and source.size < file.size:
                reason = f"has {source.size:,} bytes, and the table records {file.size:,}"
                file, source = replace(file, problem=Problem("lost", reason, CorruptFileError)), None
            sources.append(untouched(file) if source is None else self.below_root(source))
            files.append(file)
        return sources, replace(self, files=tuple(files)) if tuple(files) != self.files else self

    def require_inside(self) -> None:
        """Raise `UnsupportedError` if a file lies outside of the table's directory."""
        outside = [file for file in self.files if file.is_outside]
        if outside:
            others = f", nor are {len(outside) - 1:,} others" if len(outside) > 1 else ""
            raise UnsupportedError(f"{outside[0].path} is not read{others}: {outside[0].not_excluded}")

    def below_root(self, source: Source) -> Source:
        """Return a file with its path below the table's directory; the whole path if it lies elsewhere."""
        root = source.fs._strip_protocol(self.root).rstrip("/") + "/"
        path = source.path
        return replace(source, relative=path.removeprefix(root) if path.startswith(root) else f"/{path.lstrip('/')}")

    def leaves(self, columns: Columns) -> tuple[LeafColumn, ...]:
        """Return a file's leaf columns under the names that the table has for them; a column it has not is hidden."""
        return self.naming.place(columns).leaves

    def locate(self, columns: Columns, path: ColumnPath) -> Place:
        """Return where the file that has these has what the table calls `path`."""
        return self.naming.place(columns).of(path)

    def find(self, columns: Columns, path: ColumnPath, *, where: str = "the file") -> LeafColumn:
        """Return the leaf of a file that the table calls `path`.

        Raises `ColumnNotFoundError`, which has the table's names, where the file lacks it, and `UnsupportedError` where
        it is not known whether it has it.
        """
        place = self.locate(columns, path)
        if isinstance(place, Unknown):
            raise UnsupportedError(f"column {format_path(path)}: {place.reason}")
        if (leaf := leaf_at(columns, path, self)) is not None:
            return leaf
        names = [leaf.name for leaf in self.leaves(columns) if leaf.path[0]]
        is_partition = len(path) == 1 and any(path[0] in file.partition for file in self.files[:1])
        advice = PARTITION if is_partition else _LEFT_OUT if self.naming.hides(path[0]) else None
        raise ColumnNotFoundError(format_path(path), names, where=where, advice=advice)

    def why_not_null(self, file: LiveFile, name: str) -> str | None:
        """Return why rows of a file that lacks a top-level column may have other values of it than NULL, or None."""
        if name in file.partition:
            return f"column {name} is a partition column, whose values are not in the file"
        columns = () if self.columns is None else self.columns()
        declared = next((column for column in columns if column.name == name), None)
        if declared is None or (declared.initial is None and not declared.why_needed and not declared.needed_ids):
            return None
        return f"the file lacks column {name}, and {declared.why_needed or 'it has a default'}"


def leaf_at(columns: Columns, path: ColumnPath, snapshot: Snapshot | None) -> LeafColumn | None:
    """Return the leaf of a file that its table, if any, calls `path`; None if it has none, or that is not known."""
    own: ColumnPath | None = path
    if snapshot is not None:
        place = snapshot.locate(columns, path)
        own = place.path if isinstance(place, Here) else None
    return next((leaf for leaf in columns.leaves if leaf.path == own), None)


def untouched(file: LiveFile) -> Source:
    """Return the source of a table's file that must not be read."""
    nowhere = f"/{file.path.lstrip('/')}"
    return Source(LOCAL, file.path, file.path, file.size, version="", relative=nowhere, is_mtime_stable=False)


_NOT_THERE = Problem("lost", "the table lists this file, but it is missing", FileNotFoundError)
_DENIED = Problem("lost", "permission to look at this file of the table is denied", PermissionError)

_LEFT_OUT = "the table does not store its values in the files"


class TableFiles:
    """What a table's snapshot says of its files, whatever their directories are called."""

    def __init__(self, snapshot: Snapshot, sources: Sequence[Source], storage_options: StorageOptions = None) -> None:
        self.snapshot = snapshot
        self.storage_options = storage_options
        self.files: dict[Source, LiveFile] = dict(zip(sources, snapshot.files, strict=True))
        self.has_filters: bool = any(file.file_index for file in snapshot.files)
        self._numbers = {source: number for number, source in enumerate(sources)}
        self._partitions = {
            source: constant_partitions(file.partition, file.directories)
            for source, file in zip(sources, snapshot.files, strict=True)
        }

    @property
    def no_dataset(self) -> str | None:
        """Return why the files' own rows and columns are not the table's, or None."""
        if any(file.has_deletes for file in self.snapshot.files):
            return "some of their rows are deleted"
        if reasons := [file.not_excluded for file in self.snapshot.files if file.not_excluded]:
            return reasons[0]
        if any(file.partition for file in self.snapshot.files):
            return "the values of partition columns are not in them"
        return self.snapshot.naming.no_dataset or (
            OTHERS if any(file.unproved for file in self.snapshot.files) else None
        )

    def partitions(self, source: Source) -> Partitions:
        """Return the constants of a file."""
        return self._partitions[source]

    def number(self, source: Source) -> int:
        """Return a file's number among those of the snapshot."""
        return self._numbers[source]


@dataclass(frozen=True, slots=True)
class Swap:
    """A file of a table, and the one that is to take its place: `path` beside it, with `size` bytes and its rows."""

    old: LiveFile
    path: str
    size: int
    num_rows: int

    @property
    def name(self) -> str:
        """The new file's name in its directory."""
        return self.path.rpartition("/")[2]


class NewFile(NamedTuple):
    """A file beside the one whose place it is to take."""

    source: Source
    footer: Footer


@dataclass(frozen=True, slots=True)
class Erasure:
    """A file of a table, some rows of which are to go: `new`, in the same directory, has the others, if any.

    `deleted` are the numbers of the rows that the table had already deleted, which `new` does not have either;
    `rows_erased` counts the others that go.
    """

    old: LiveFile
    new: NewFile | None
    rows_erased: int
    deleted: array[int] = field(default_factory=lambda: array("q"))

    @property
    def name(self) -> str:
        """The new file's name in its directory, empty if there is none."""
        return self.new.source.path.rpartition("/")[2] if self.new is not None else ""

    @property
    def rows_left(self) -> int:
        """How many rows the new file has."""
        return self.new.footer.num_rows if self.new is not None else 0


class Readable(ABC):
    """A table that is open, at one of its snapshots."""

    kind: ClassVar[str]
    snapshot: Snapshot

    @abstractmethod
    def refresh(self) -> Snapshot:
        """Load and return the newest snapshot."""


class Committable(Readable):
    """A table whose files can be swapped by commits."""

    @abstractmethod
    def require_committable(self) -> None:
        """Raise `UnsupportedError` if no file of the table can be swapped without harm."""

    def prepare(self) -> None:
        """Raise `UnsupportedError` if a try shows that commits are not safe where the table lies."""
        return

    @abstractmethod
    def refusal(self, file: LiveFile) -> str | None:
        """Return why this file cannot be swapped without harm, or None."""

    def notes(self, file: LiveFile) -> tuple[str, ...]:
        """Return what a swap of this file does not carry over."""
        return ()

    @abstractmethod
    def commit(self, swaps: Sequence[Swap]) -> Snapshot:
        """Swap files in one commit on top of `snapshot`, and return the snapshot that it made.

        Raises `ConcurrentChangeError` if the table has another snapshot by now or lacks one of the files,
        `UnsupportedError` for a swap that would lose or duplicate rows, and `FailedCommitError` if the commit fails
        for another reason: after all three nothing was committed. Whatever else is raised leaves that open.
        """

    @abstractmethod
    def set_properties(self, properties: Mapping[str, str]) -> Snapshot:
        """Set properties of the table, and nothing else, in one commit on top of `snapshot`, and return what it made.

        Raises what `commit` does.
        """

    def verify(self) -> None:
        """Raise `CorruptFileError` if another writer has since committed over a swap of this object."""
        return


class Erasable(Committable):
    """A table whose rows can be deleted by commits, and whose earlier versions can be read."""

    @abstractmethod
    def require_erasable(self) -> None:
        """Raise `UnsupportedError` if no row of the table can be deleted by a commit of ours."""

    def prepare_erasure(self) -> None:
        """Raise `UnsupportedError` if a try shows that commits that delete rows are not safe where the table lies."""
        return

    @abstractmethod
    def why_not_erased(self, file: LiveFile) -> str | None:
        """Return why no row of this file can be erased without harm, or None."""

    @abstractmethod
    def erase(self, erasures: Sequence[Erasure], what: str) -> Snapshot:
        """Delete rows in one commit on top of `snapshot`, and return the snapshot that it made.

        `what` is what the commit says of the rows. Raises what `commit` does.
        """

    @abstractmethod
    def history(self) -> Iterator[tuple[int, Sequence[LiveFile]]]:
        """Yield each earlier version that can still be read, the oldest first, and its files."""

    def roles(self) -> Iterator[tuple[str, str]]:
        """Yield what files other than data are, by their paths; the last one counts."""
        return iter(())

    def references(self) -> dict[str, int]:
        """Return the versions that branches and tags keep, besides the main branch, by their names."""
        return {}

    @property
    @abstractmethod
    def statements(self) -> DeltaStatements | IcebergStatements:
        """Spark's statements that take rows, and what is left of them, out of the table."""

    @property
    @abstractmethod
    def streams(self) -> str:
        """Which readers stop at a commit that deletes rows, and the option with which they go on."""


def check_erasures(table: Erasable, erasures: Sequence[Erasure]) -> None:
    """Raise unless the files are in the table's snapshot and lose only the rows that they should."""
    table.require_erasable()
    live = {file.recorded: file for file in table.snapshot.files}
    for erasure in erasures:
        old = erasure.old
        now = live.pop(old.recorded, None)
        if now is None or now.size != old.size:
            raise ConcurrentChangeError(f"{old.path} is no longer in {table.snapshot.root}; nothing was committed")
        if now.num_rows not in (None, erasure.rows_left + erasure.rows_erased + len(erasure.deleted)):
            raise UnsupportedError(f"{old.path} does not have the {now.num_rows:,} rows that the table records")
        if reason := table.why_not_erased(now):
            raise UnsupportedError(f"{old.path} cannot be written again: {reason}")
        if table.snapshot.deleted_rows(now) != erasure.deleted:
            raise ConcurrentChangeError(f"other rows of {old.path} were deleted meanwhile; nothing was committed")


def check_swaps(table: Committable, swaps: Sequence[Swap]) -> None:
    """Raise unless each swap leaves the rows of the table's snapshot as they are."""
    table.require_committable()
    live = {file.recorded: file for file in table.snapshot.files}
    seen: set[str] = set()
    for swap in swaps:
        old = swap.old
        now = live.get(old.recorded)
        if now is None or now.size != old.size:
            raise ConcurrentChangeError(f"{old.path} is no longer in {table.snapshot.root}; nothing was committed")
        if old.recorded in seen:
            raise UnsupportedError(f"{old.path} would be swapped twice, and its rows duplicated")
        seen.add(old.recorded)
        if old.path.rpartition("/")[0] != swap.path.rpartition("/")[0]:
            raise UnsupportedError(f"{swap.path} is not in the directory of {old.path}, which it replaces")
        if now.num_rows is not None and now.num_rows != swap.num_rows:
            raise UnsupportedError(
                f"{swap.path} has {swap.num_rows:,} rows, and the table records {now.num_rows:,} of {old.path}"
            )
        if reason := table.refusal(now):
            raise UnsupportedError(f"{old.path} cannot be swapped: {reason}")


def check_outcome(before: Snapshot, after: Snapshot, renamed: Mapping[str, tuple[str, int] | None]) -> None:
    """Raise `CorruptFileError` unless `after` is `before` with files replaced: old `recorded` -> new, and its rows.

    None is for a file that went.
    """
    wanted: dict[str, int | None] = {}
    for file in before.files:
        if (new := renamed.get(file.recorded, (file.recorded, file.num_rows))) is not None:
            wanted[new[0]] = new[1]
    gone = sum(new is None for new in renamed.values())
    outcome = {file.recorded: file.num_rows for file in after.files}
    if outcome != wanted or len(after.files) != len(before.files) - gone:
        raise CorruptFileError(
            f"the commit came out wrong: {len(before.files):,} files with {_rows(wanted.values())} rows became "
            f"{len(after.files):,} with {_rows(outcome.values())}, which is not what was written; compare the rows of "
            f"{before.kind} versions {before.version} and {after.version} before you restore or delete any",
            path=before.root,
        )


def _rows(counts: Any) -> str:
    known = [count for count in counts if count is not None]
    return f"{sum(known):,}"


# ---- how others spell things -------------------------------------------------------------


def moment(as_of: str) -> datetime:
    """Return a time in ISO 8601, in UTC unless it says otherwise."""
    try:
        time = datetime.fromisoformat(as_of)
    except ValueError:
        raise ValueError(f"{as_of!r} is neither a version of the table nor a time such as 2026-01-31T12:00") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


_S3_OPTIONS = {
    "key": ("AWS_ACCESS_KEY_ID", "s3.access-key-id"),
    "secret": ("AWS_SECRET_ACCESS_KEY", "s3.secret-access-key"),
    "token": ("AWS_SESSION_TOKEN", "s3.session-token"),
    "endpoint_url": ("AWS_ENDPOINT_URL", "s3.endpoint"),
    "region_name": ("AWS_REGION", "s3.region"),
}
"""What s3fs calls it -> what deltalake and pyiceberg call it."""


def _is_foreign(name: str) -> bool:
    return name.isupper() or "." in name or "-" in name


def fsspec_options(options: StorageOptions) -> StorageOptions:
    """Return the options that are fsspec's."""
    return {name: value for name, value in options.items() if not _is_foreign(name)} if options else options


def delta_options(options: StorageOptions) -> dict[str, str]:
    """Return the options as deltalake calls them."""
    translated = _translated(options, 0)
    if translated.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        translated.setdefault("AWS_ALLOW_HTTP", "true")
    if options and options.get("anon"):
        translated.setdefault("AWS_SKIP_SIGNATURE", "true")
    return translated


def iceberg_options(options: StorageOptions) -> dict[str, str]:
    """Return the options as pyiceberg calls them."""
    translated = _translated(options, 1)
    if options and options.get("anon"):
        translated.setdefault("s3.anonymous", "true")
    return translated


def _translated(options: StorageOptions, column: int) -> dict[str, str]:
    given = dict(options or {})
    known = {**(given.get("client_kwargs") or {}), **given}
    ours = {names[column]: str(known[name]) for name, names in _S3_OPTIONS.items() if known.get(name) is not None}
    foreign = {name: str(value) for name, value in given.items() if _is_foreign(name)}
    return {**ours, **foreign}
