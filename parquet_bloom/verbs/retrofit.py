"""What `add`, `drop` and the tables' verbs share: which files, checked before the first write, changed one by one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    FilterExistsError,
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.format.footer import MAGIC, Footer, parse_footer
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import parse_path
from parquet_bloom.format.splice import FilterEdit, splice_filters
from parquet_bloom.results import Record
from parquet_bloom.storage.links import require_inside, to_change
from parquet_bloom.storage.listing import (
    PathLike,
    Source,
    StorageOptions,
    find,
    is_directory,
    is_local,
    is_open_file,
    listed,
    resolve,
)
from parquet_bloom.storage.rewrite import Rewrite, clear_left, join_output, refuse_read_only
from parquet_bloom.storage.strays import Strays
from parquet_bloom.tables.detect import STREAMING, table_around
from parquet_bloom.verbs.parallel import map_in_order

HELD_BYTES = 32 * 1024 * 1024
"""Filters that are held while the old file is still being copied."""

Edits = dict[tuple[int, int], FilterEdit]
_Outcome = TypeVar("_Outcome")

Status = Literal["written", "unchanged", "planned", "refused"]
"""What came of a file."""


# ---- results -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class AddedFilter(Record):
    """A filter that was written; `fpp` is the exact rate of its bits, `replaced` why an older one was given up."""

    SHOWN: ClassVar[tuple[str, ...]] = ("row_group", "column", "num_bytes", "fpp")

    row_group: int
    column: str
    num_bytes: int
    fpp: float
    offset: int
    length: int
    replaced: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class SkippedChunk(Record):
    """A column chunk that was left as it is, and why."""

    row_group: int
    column: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class SkippedColumn(Record):
    """A requested column that cannot have a filter, and why."""

    column: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class FileAdded(Record):
    """What `add` did to one file.

    `status` is `written`, `unchanged` (nothing was left to do), `planned` (dry run: `bytes_added` is the most that
    it would be) or `refused`, with the `error`. `skipped_columns` are those that cannot have a filter, for which the
    others were done all the same. `notes` are sentences that the user should see.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "status", "bytes_added", "filters", "error")

    path: str
    output: str
    status: Status
    size: int
    bytes_added: int = 0
    filters: tuple[AddedFilter, ...] = ()
    skipped: tuple[SkippedChunk, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    skipped_columns: tuple[SkippedColumn, ...] = ()


_Row = TypeVar("_Row")
_File = TypeVar("_File", bound="FilePlan[Any]")
_Plan = TypeVar("_Plan", bound="FilePlan[Any]")


@dataclass(frozen=True, slots=True)
class Refused(Generic[_Row]):
    """A file to which nothing is done, as its row says, and why."""

    row: _Row
    problem: Exception


@dataclass(frozen=True, slots=True)
class Unchanged(Generic[_Row]):
    """A file to which nothing is to be done; `is_for_name` if it stays as it is for its name."""

    source: Source
    row: _Row
    is_for_name: bool = False


@dataclass(slots=True)
class FilePlan(Generic[_Row]):
    """What is to be done to one file; each verb adds what that is."""

    source: Source
    target: str | None
    notes: list[str] = field(default_factory=list)

    def result(self, status: Status, **fields: Any) -> _Row:
        """Return what came of the file."""
        raise NotImplementedError

    def refused(self, error: Exception) -> Refused[_Row]:
        """Return that nothing is done to the file, and why."""
        error = error.with_traceback(None)  # its frames hold filters of up to 128 MiB
        return Refused(self.result("refused", error=describe_error(error)), error)

    def left_alone(self) -> Unchanged[_Row]:
        """Return that the file stays as it is, for its name."""
        self.notes.append(UNFAMILIAR)
        return Unchanged(self.source, self.result("unchanged"), is_for_name=True)

    @property
    def problem(self) -> Exception | None:
        """What cannot be done of it."""
        return None


Step: TypeAlias = _Plan | Refused[_Row] | Unchanged[_Row]
"""What is known of a file before anything is written."""


@dataclass(slots=True)
class AddingPlan(FilePlan[FileAdded]):
    """What is to be added to one file."""

    skipped: list[SkippedChunk] = field(default_factory=list)
    skipped_columns: list[SkippedColumn] = field(default_factory=list)

    def result(self, status: Status, **fields: Any) -> FileAdded:
        """Return what came of the file."""
        name = self.source.name
        return FileAdded(
            name,
            self.target or name,
            status,
            self.source.size,
            skipped=tuple(self.skipped),
            skipped_columns=tuple(self.skipped_columns),
            notes=tuple(self.notes),
            **fields,
        )

    @property
    def problem(self) -> Exception | None:
        """The first column that cannot have what was requested."""
        return column_error(self.skipped_columns[0]) if self.skipped_columns else None


def rates_of(columns: Sequence[str] | Mapping[str, float] | str) -> dict[tuple[str, ...], float]:
    """Return the false-positive rates that columns were given one by one."""
    return {parse_path(c): fpp for c, fpp in columns.items()} if isinstance(columns, Mapping) else {}


def parse_paths(columns: Sequence[str] | Mapping[str, float] | str) -> tuple[tuple[str, ...], ...]:
    """Return the leaf paths that users' columns are."""
    return tuple(parse_path(c) for c in ([columns] if isinstance(columns, str) else columns))


def parquet_outcomes(
    outcomes: Iterable[tuple[Source, _Outcome]], targets: Sequence[str | None], *, warns: bool = True
) -> list[tuple[Source, str | None, _Outcome]]:
    """Return what came of reading each file, with its target, but of those that are not Parquet, of which it warns."""
    strays = Strays()
    of_parquet = [
        (source, target, outcome)
        for target, (source, outcome) in zip(targets, outcomes, strict=True)
        if not strays.take(source, outcome)
    ]
    strays.rest([source for source, _, _ in of_parquet], warns=warns)
    return of_parquet


def is_left_alone(source: Source, target: str | None, any_name: bool) -> bool:
    """Return whether a file must not be changed in place, for its name does not say that it is Parquet."""
    return source.is_unfamiliar and target is None and not any_name


UNFAMILIAR = "not changed: its name does not end in .parquet, .parq or .pq; any_name=True changes it, too"


def plan_each(
    outcomes: Iterable[tuple[Source, str | None, _Outcome | Exception]],
    file_of: Callable[[Source, str | None], _File],
    plan: Callable[[_File, _Outcome], _Plan],
    *,
    any_name: bool,
) -> list[Step[_Plan, Any]]:
    """Return what is to be done to each file, as `plan_one` does."""
    return [plan_one(file_of(source, target), outcome, plan, any_name) for source, target, outcome in outcomes]


def plan_one(
    file: _File, outcome: _Outcome | Exception, plan: Callable[[_File, _Outcome], Step[_Plan, Any]], any_name: bool
) -> Step[_Plan, Any]:
    """Return what is to be done to a file: what `plan` makes of what was read of it, unless that is refused."""
    if is_left_alone(file.source, file.target, any_name):
        return file.left_alone()
    try:
        if isinstance(outcome, Exception):
            raise outcome
        return plan(file, outcome)
    except (ParquetBloomError, OSError) as error:
        return file.refused(error)


SUMMARY = "{} still has the old footers: readers that use it do not see the filters until it is written again"


def carry_out(
    steps: Sequence[Step[_Plan, _Row]],
    work: Callable[[_Plan, threading.Event], _Row],
    *,
    at_once: int,
    strict: bool,
    dry_run: bool = False,
) -> tuple[_Row, ...]:
    """Return what came of each file, `at_once` of which are worked on; the event is set once the run has failed.

    What a file's work raises is its error, and the others go on; with `strict` it stops them all.
    """
    stop = threading.Event()
    if not dry_run:
        there = [step for step in steps if not isinstance(step, Refused)]
        clear_left((step.source, step.target if isinstance(step, FilePlan) else None) for step in there)

    def done(step: Step[_Plan, _Row]) -> _Row:
        if isinstance(step, Refused | Unchanged):
            return step.row
        try:
            return work(step, stop)
        except (ParquetBloomError, OSError) as failure:
            if strict:
                raise
            refused: Refused[_Row] = step.refused(failure)
            return refused.row

    return tuple(map_in_order(done, steps, at_once, stop))


def column_error(skipped: SkippedColumn) -> UnsupportedError:
    """Return a skipped column as the error that it would be."""
    return UnsupportedError(f"column {skipped.column}: {skipped.reason}")


def require_writable(
    source: Source,
    target: str | None,
    footer: Footer,
    force: bool,
    notes: list[str],
    *,
    for_swap: bool = False,
    can_swap: bool = False,
) -> None:
    """Raise unless a changed copy of this file is as good as the file; with `force`, note what may break.

    `can_swap`: the verb has `table=`, which is what a Delta or Iceberg table is told to use.
    """
    require_inside(source)
    if footer.is_signed:
        raise UnsupportedError(
            "the footer is signed (encryption with a plaintext footer), and a change would break the signature"
        )
    for group in () if footer.is_whole else footer.metadata.row_groups:
        for column in group.columns:
            if column.crypto_metadata is not None or column.meta_data is None:
                raise UnsupportedError("the file has encrypted columns, so its footer cannot be changed")
            if column.file_path:
                raise UnsupportedError(f"column chunks are in another file ({column.file_path})")
    table = None if for_swap else table_around(source.fs, target or source.path)
    if table is None or table[0] in _MAY_GROW:
        return
    kind, root = table
    a_table = f"{'an' if kind == 'Iceberg' else 'a'} {kind} table"
    breaks = f"{root} is {a_table}, which records the sizes of its files and forbids changing them in place"
    if not force:
        swap = "commit new files to it with table=True, " if can_swap and kind in ("Delta", "Iceberg") else ""
        raise UnsupportedError(f"{breaks}; {swap}write copies with output=, or change them with force=True")
    notes.append(f"forced: {breaks}; readers that compare sizes or checksums may fail")


_MAY_GROW = frozenset({STREAMING})
"""Tables whose readers take a file that has grown since its size was recorded, if it starts with the same bytes."""


def once_copied(copied: Future[None], built: Iterable[SplitBlockBloomFilter]) -> Iterator[SplitBlockBloomFilter]:
    """Yield what is built, in order, from when the copy is done; until then a bounded lot of it is held."""
    held: list[SplitBlockBloomFilter] = []
    for bloom in built:
        held.append(bloom)
        if sum(h.num_bytes for h in held) > HELD_BYTES:
            copied.result()
        if copied.done():
            copied.result()
            yield from held
            held.clear()
    copied.result()
    yield from held


def append_checked(out: Rewrite, data: bytes) -> int:
    """Return where data was appended, after reading it back."""
    offset = out.append(data)
    if out.read(offset, len(data)) != data:
        raise OSError("what was written reads back differently")
    return offset


def append_footer(out: Rewrite, footer: Footer, edits: Edits) -> None:
    """Append the footer with `edits` spliced in, proved to differ from the old one in nothing else."""
    raw = splice_filters(footer.raw, edits)
    nothing: Edits = dict.fromkeys(edits)
    if splice_filters(raw, nothing) != splice_filters(footer.raw, nothing):
        raise CorruptFileError("the footer cannot be changed without loss")
    new = parse_footer(out.position + len(raw) + 8, raw)
    for (row_group, column), edit in edits.items():
        location = new.filter_location(row_group, new.leaves[column])
        if (location and (location.offset, location.length)) != edit:
            raise CorruptFileError("the footer reads back differently")
    append_checked(out, raw + len(raw).to_bytes(4, "little") + MAGIC)


# ---- shared ------------------------------------------------------------------------------


def find_with_targets(
    paths: PathLike | Iterable[PathLike],
    output: PathLike | None,
    *,
    follow_links: bool,
    filesystem: Any,
    storage_options: StorageOptions,
) -> tuple[list[Source], list[str | None]]:
    """Return the files that `paths` name, and where each is written; see `targets_of` and `to_change`."""
    given = listed(paths)  # once: they may be a stream
    for path in given:
        if not is_open_file(path):
            store, _ = resolve(os.fspath(path), filesystem, storage_options)
            if not is_local(store):
                refuse_read_only(store)
    sources = find(given, filesystem=filesystem, storage_options=storage_options)
    if output is None:
        sources = to_change(sources, follow_links=follow_links)
    return sources, targets_of(sources, given, output)


def targets_of(sources: list[Source], given: Sequence[Any], output: PathLike | None) -> list[str | None]:
    """Return where each source is written: None for in place, else its path below or at `output`."""
    if any(map(is_open_file, given)):
        raise UnsupportedError("an open file or a buffer can only be read; give a path to write to")
    if output is None or not sources:
        return [None] * len(sources)
    fs = sources[0].fs
    if "://" in sources[0].name and "://" not in os.fspath(output):
        scheme = sources[0].name.partition("://")[0]
        raise UnsupportedError(
            f"{output} has no scheme; say {scheme}://{os.fspath(output).lstrip('/')} if you mean that"
        )
    is_one_file = len(given) == 1 and len(sources) == 1 and not is_directory(sources[0].fs, os.fspath(given[0]))
    if is_one_file and not os.fspath(output).endswith("/"):
        target = join_output(fs, os.fspath(output))
        if not is_directory(fs, target, literal=True):
            return [target]
    targets = [join_output(fs, os.fspath(output), source.relative) for source in sources]
    if len(set(targets)) < len(targets):
        raise FilterExistsError(f"two of the files would become the same file below {output}; give one root for all")
    return list(targets)


def raise_refusals(steps: Sequence[Step[Any, Any]], *, strict: bool) -> None:
    """Raise `ColumnNotFoundError` where every file lacks a column, and with `strict` the first error of any."""
    errors = [step.problem if isinstance(step, Refused) else None for step in steps if not _is_for_name(step)]
    if errors and (first := errors[0]) and all(isinstance(error, ColumnNotFoundError) for error in errors):
        raise first
    problems = (step.problem for step in steps if not isinstance(step, Unchanged))
    if strict and (first := next(filter(None, problems), None)):
        raise first


def _is_for_name(step: Step[Any, Any]) -> bool:
    return isinstance(step, Unchanged) and step.is_for_name


def note_stale(out: Rewrite, notes: list[str]) -> None:
    """Note what an interrupted run had left and this one has removed."""
    if out.stale:
        notes.append(f"removed {out.stale}, which an interrupted run had left")
