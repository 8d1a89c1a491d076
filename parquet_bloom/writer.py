"""Retrofits files: `add` gives column chunks filters, `drop` takes them away again.

Both append to the file as it is and never move or touch a byte of it:

    old file, its footer included | filters | new footer

The new footer is the old one's bytes with `bloom_filter_offset` and `bloom_filter_length` spliced in. So a reader
that was told the old length still finds the old footer at that place, and `drop --restore` can cut the file there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from parquet_bloom.columns import ColumnChunks
from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    FilterExistsError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.footer import MAGIC, Footer, Plan, pages_extent, parse_footer, read_footer
from parquet_bloom.format.parquet_thrift import ttypes
from parquet_bloom.format.splice import FilterEdit, splice_filters
from parquet_bloom.format.thrift_io import decode
from parquet_bloom.parallel import Progress, Ticker, background, map_in_order, share_threads
from parquet_bloom.ranges import ByteRange
from parquet_bloom.reader import StoredFilter, describe_error, distrust, read_filters
from parquet_bloom.results import Record, Table
from parquet_bloom.sbbf import MAX_BYTES, SplitBlockBloomFilter, optimal_num_bytes, write_header
from parquet_bloom.schema import LeafColumn, find_leaf, parse_path
from parquet_bloom.storage import (
    PathLike,
    Rewrite,
    Source,
    StorageOptions,
    drive,
    find,
    is_directory,
    join_output,
    rewrite,
    run,
    summaries_above,
    table_around,
)
from parquet_bloom.values import companion_hashes, hash_array, unbuildable

DEFAULT_FPP = 0.01

HELD_BYTES = 32 * 1024 * 1024
"""Filters that are held while the old file is still being copied."""

_Edits = dict[tuple[int, int], FilterEdit]


# ---- results -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddedFilter(Record):
    """A filter that was written; `fpp` is the exact rate of its bits, `replaced` why an older one was given up."""

    row_group: int
    column: str
    num_bytes: int
    fpp: float
    offset: int
    length: int
    replaced: str | None = None


@dataclass(frozen=True, slots=True)
class SkippedChunk(Record):
    """A column chunk that was left as it is, and why."""

    row_group: int
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileAdded(Record):
    """What `add` did to one file.

    `status` is `written`, `unchanged` (nothing was left to do), `planned` (dry run: `bytes_added` is the most that
    it would be) or `refused`, with the `error`. `notes` are sentences that the user should see.
    """

    path: str
    output: str
    status: str
    size: int
    bytes_added: int = 0
    filters: tuple[AddedFilter, ...] = ()
    skipped: tuple[SkippedChunk, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FileDropped(Record):
    """What `drop` did to one file; `bytes_left` is what the cleared filters still take, `bytes_freed` what was cut."""

    path: str
    output: str
    status: str
    size: int
    cleared: int = 0
    bytes_left: int = 0
    bytes_freed: int = 0
    notes: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Added(Table):
    """The result of `add`, a row for each file."""

    rows: tuple[FileAdded, ...]

    @property
    def has_errors(self) -> bool:
        """Whether any file was refused."""
        return any(row.error for row in self.rows)


@dataclass(frozen=True, slots=True)
class Dropped(Table):
    """The result of `drop`, a row for each file."""

    rows: tuple[FileDropped, ...]

    @property
    def has_errors(self) -> bool:
        """Whether any file was refused."""
        return any(row.error for row in self.rows)


# ---- add ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddOptions:
    """What is asked of `add`.

    `for_swap`: what is written takes its file's place in a table by a commit, so lying in the table is no reason to
    refuse, and a file with nothing left to do is not written. `locate` tells a column's path in one file, where that
    is not how it was asked for.
    """

    columns: tuple[tuple[str, ...], ...]
    fpp: float = DEFAULT_FPP
    ndv: int | None = None
    max_bytes: int = MAX_BYTES
    replace: bool = False
    fill_lengths: bool = False
    keep_mtime: bool = False
    force: bool = False
    for_swap: bool = False
    locate: Callable[[Footer, tuple[str, ...]], tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.fpp < 1:
            raise ValueError(f"fpp is a rate between 0 and 1, not {self.fpp}")
        if self.ndv is not None and self.ndv < 0:
            raise ValueError(f"ndv is a count, not {self.ndv}")
        if self.max_bytes < 64:
            raise ValueError(f"max_bytes is at least 64, not {self.max_bytes}")
        if not self.columns:
            raise ValueError("name at least one column")


@dataclass(slots=True)
class FilePlan:
    """What is to be done to one file, or the error that keeps it from being done."""

    source: Source
    target: str | None
    footer: Footer | None = None
    skipped: list[SkippedChunk] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: Exception | None = None

    def result(self, status: str, **fields: Any) -> FileAdded:
        """Return what came of the file."""
        name = self.source.name
        return FileAdded(
            name,
            self.target or name,
            status,
            self.source.size,
            skipped=tuple(self.skipped),
            notes=tuple(self.notes),
            **fields,
        )

    def refused(self, error: Exception) -> FileAdded:
        """Return that nothing came of it, and why."""
        return self.result("refused", error=describe_error(error))


@dataclass(slots=True)
class AddPlan(FilePlan):
    """What `add` is to do: filters to build, of which row group and column and in place of which bad one, and edits."""

    build: list[tuple[int, LeafColumn, str | None]] = field(default_factory=list)
    edits: _Edits = field(default_factory=dict)

    @property
    def has_work(self) -> bool:
        """Whether anything would be changed."""
        return self.error is None and bool(self.build or self.edits)


def add(
    paths: PathLike | Iterable[PathLike],
    columns: Sequence[str] | str,
    *,
    fpp: float = DEFAULT_FPP,
    ndv: int | None = None,
    max_bytes: int = MAX_BYTES,
    replace: bool = False,
    fill_lengths: bool = False,
    output: PathLike | None = None,
    dry_run: bool = False,
    keep_mtime: bool = False,
    force: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> Added:
    """Return what was done to give `columns` a filter in every row group that has none.

    Filters are sized for what the column chunks hold and then folded while their exact rate stays within `fpp`;
    `ndv` fixes the size instead, `max_bytes` caps it (the result tells the worse rate). Sound filters are kept unless
    `replace`; `fill_lengths` gives kept ones the `bloom_filter_length` that they lack. The files are replaced
    atomically, or with `output` written there: a new file for one file, a directory for several.

    Every file is checked before the first is written. A file that cannot be done right is refused with its error and
    the others go on; `strict` raises at the first. Files inside a Delta, Iceberg, Hudi or Paimon table are refused
    unless `force`. Raises `ColumnNotFoundError` for a column that no file has.
    """
    options = AddOptions(parse_paths(columns), fpp, ndv, max_bytes, replace, fill_lengths, keep_mtime, force)
    sources = find(paths, filesystem=filesystem, storage_options=storage_options)
    plans = plan_adds(sources, targets_of(sources, paths, output), options)
    raise_refusals(plans, strict=strict)
    if dry_run:
        return Added(tuple(preview_add(plan, options) for plan in plans))
    return Added(write_adds(plans, options, strict=strict, jobs=jobs, progress=progress))


def parse_paths(columns: Sequence[str] | str) -> tuple[tuple[str, ...], ...]:
    """Return the leaf paths that users' columns are."""
    return tuple(parse_path(c) for c in ([columns] if isinstance(columns, str) else columns))


def plan_adds(sources: Sequence[Source], targets: Sequence[str | None], options: AddOptions) -> list[AddPlan]:
    """Return what is to be done to each file; nothing is written yet.

    Raises `ColumnNotFoundError` for a column that no file has.
    """
    surveyed = drive((source, _survey(source, options)) for source in sources)
    plans = [
        _checked_add(source, target, outcome, options)
        for target, (source, outcome) in zip(targets, surveyed, strict=True)
    ]
    raise_refusals(plans, strict=False)
    for plan in plans:
        if plan.has_work and plan.target is None:
            plan.notes += summaries_above(plan.source, SUMMARY)
    return plans


SUMMARY = "{} has the footers as they were: readers that go by it do not see the filters until it is written anew"


def write_adds(
    plans: Sequence[AddPlan],
    options: AddOptions,
    *,
    strict: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[FileAdded, ...]:
    """Return what was done to each planned file; the files are written one by one, each whole or not at all."""
    total = sum(len(plan.build) for plan in plans if not plan.error) or 1
    tick = Ticker(progress, total)
    at_once, threads = share_threads(jobs, len(plans))

    def work(plan: AddPlan, stop: threading.Event) -> FileAdded:
        if not plan.build and not plan.edits:
            return _leave(plan, options)
        return _write_filters(plan, options, threads, tick, stop)

    return carry_out(plans, work, at_once=at_once, strict=strict)


_AnyPlan = TypeVar("_AnyPlan", bound=FilePlan)


def carry_out(
    plans: Sequence[_AnyPlan], work: Callable[[_AnyPlan, threading.Event], FileAdded], *, at_once: int, strict: bool
) -> tuple[FileAdded, ...]:
    """Return what came of each plan, `at_once` of which are worked on; the event tells that there is no use any more.

    What a file's work raises is its error, and the others go on; with `strict` it stops them all.
    """
    stop = threading.Event()

    def settled(plan: _AnyPlan) -> FileAdded:
        if plan.error is not None:
            return plan.refused(plan.error)
        try:
            return work(plan, stop)
        except (ParquetBloomError, OSError) as error:
            if strict:
                raise
            return plan.refused(error)

    return tuple(map_in_order(settled, plans, at_once, stop))


_Survey = tuple[Footer, list[LeafColumn], list[StoredFilter]]


def _survey(source: Source, options: AddOptions) -> Plan[_Survey]:
    footer = yield from read_footer(source.size)
    paths = [options.locate(footer, path) if options.locate else path for path in options.columns]
    leaves = [find_leaf(footer.leaves, path, where=source.name) for path in dict.fromkeys(paths)]
    return footer, leaves, (yield from read_filters(footer, leaves))


def _checked_add(source: Source, target: str | None, outcome: _Survey | Exception, options: AddOptions) -> AddPlan:
    plan = AddPlan(source, target)
    try:
        if isinstance(outcome, Exception):
            raise outcome
        footer, leaves, stored = outcome
        plan.footer = footer
        require_writable(source, target, footer, options.force, plan.notes, for_swap=options.for_swap)
        for leaf in leaves:
            if reason := unbuildable(leaf):
                raise UnsupportedError(f"column {leaf.name} ({leaf.type_name}) cannot have a filter: {reason}")
        present = {(f.row_group, f.leaf.index): f for f in stored}
        for row_group, leaf, chunk in footer.chunks(tuple(leaves)):
            if problem := footer.chunk_problem(row_group, leaf):
                raise CorruptFileError(f"row group {row_group}, column {leaf.name}: {problem}")
            _plan_chunk(plan, row_group, leaf, chunk, present.get((row_group, leaf.index)), options)
    except (ParquetBloomError, OSError) as error:
        plan.error = error
    return plan


def _plan_chunk(
    plan: AddPlan, row_group: int, leaf: LeafColumn, chunk: Any, old: StoredFilter | None, options: AddOptions
) -> None:
    if old is not None and old.problem is None and not options.replace:
        if options.fill_lengths and old.location and old.location.length is None:
            plan.edits[row_group, leaf.index] = (old.location.offset, old.length)
            plan.skipped.append(SkippedChunk(row_group, leaf.name, "has a filter; its missing length was filled in"))
        else:
            plan.skipped.append(SkippedChunk(row_group, leaf.name, "has a filter"))
    elif chunk.num_values == 0:
        plan.skipped.append(SkippedChunk(row_group, leaf.name, "holds no values"))
    else:
        plan.build.append((row_group, leaf, (old.problem or "asked to") if old else None))


def require_writable(
    source: Source, target: str | None, footer: Footer, force: bool, notes: list[str], *, for_swap: bool = False
) -> None:
    """Raise unless a changed copy of this file is as good as the file; with `force`, note what may break."""
    if footer.is_signed:
        raise UnsupportedError("the footer is signed (encryption with a plaintext footer); a change would break it")
    for group in footer.metadata.row_groups:
        for column in group.columns:
            if column.crypto_metadata is not None or column.meta_data is None:
                raise UnsupportedError("the file has encrypted columns, and its footer is not ours to change")
            if column.file_path:
                raise UnsupportedError(f"column chunks lie in another file ({column.file_path})")
    table = None if for_swap else table_around(source.fs, target or source.path)
    if table is None:
        return
    kind, root = table
    breaks = f"{root} is a {kind} table, which records the sizes of its files and forbids changing them in place"
    if not force:
        raise UnsupportedError(f"{breaks}; write copies elsewhere with -o, or --force")
    notes.append(f"forced: {breaks}; readers that compare sizes or checksums may fail")


def preview_add(plan: AddPlan, options: AddOptions) -> FileAdded:
    """Return what would be done to a planned file."""
    if plan.error is not None:
        return plan.refused(plan.error)
    assert plan.footer is not None
    if not plan.build and not plan.edits:
        return plan.result("unchanged")
    chunks = ColumnChunks(plan.source, plan.footer)
    filters = []
    edits = dict(plan.edits)
    position = plan.source.size
    for row_group, leaf, replaced in plan.build:
        size = optimal_num_bytes(
            _sizing_ndv(chunks, row_group, leaf, options), options.fpp, max_bytes=options.max_bytes
        )
        length = len(write_header(size)) + size
        filters.append(AddedFilter(row_group, leaf.name, size, options.fpp, position, length, replaced))
        edits[row_group, leaf.index] = (position, length)
        position += length
    added = position - plan.source.size + len(splice_filters(plan.footer.raw, edits)) + 8
    return plan.result("planned", bytes_added=added, filters=tuple(filters))


def _write_filters(
    plan: AddPlan, options: AddOptions, threads: int, tick: Callable[[], None], stop: threading.Event
) -> FileAdded:
    footer = plan.footer
    assert footer is not None
    chunks = ColumnChunks(plan.source, footer)
    filters: list[AddedFilter] = []
    edits = dict(plan.edits)

    failed = threading.Event()

    def build(task: tuple[int, LeafColumn, str | None]) -> SplitBlockBloomFilter:
        return _build(chunks, task[0], task[1], options, lambda: stop.is_set() or failed.is_set())

    with rewrite(plan.source, plan.source.size, target=plan.target, keep_mtime=options.keep_mtime) as out:
        note_stale(out, plan.notes)
        # Closed here, or the threads of a run that failed would be waited for wherever the garbage is collected.
        with background(out.copy) as copied, closing(map_in_order(build, plan.build, threads, failed)) as built:
            for (row_group, leaf, replaced), bloom in zip(plan.build, _once_copied(copied, built), strict=True):
                tick()
                if bloom.is_empty and distrust(footer, row_group, leaf, bloom):
                    # No reader could tell this filter from a damaged one.
                    plan.skipped.append(SkippedChunk(row_group, leaf.name, "holds no values but nulls"))
                    if replaced:
                        edits[row_group, leaf.index] = None
                    continue
                data = bloom.to_bytes()
                offset = append_checked(out, data)
                edits[row_group, leaf.index] = (offset, len(data))
                filters.append(
                    AddedFilter(row_group, leaf.name, bloom.num_bytes, bloom.fpp, offset, len(data), replaced)
                )
            copied.result()
        if not edits:
            return _finish(plan, out, options)
        _append_footer(out, footer, edits)
        out.commit()
    return plan.result("written", bytes_added=out.position - plan.source.size, filters=tuple(filters))


def _once_copied(copied: Future[None], built: Iterable[SplitBlockBloomFilter]) -> Iterator[SplitBlockBloomFilter]:
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


def _leave(plan: AddPlan, options: AddOptions) -> FileAdded:
    """Return that there is nothing to do, after copying the file as it is where there is another to write."""
    if plan.target is None or options.for_swap:
        return plan.result("unchanged")
    with rewrite(plan.source, plan.source.size, target=plan.target, keep_mtime=options.keep_mtime) as out:
        note_stale(out, plan.notes)
        out.copy()
        return _finish(plan, out, options)


def _finish(plan: AddPlan, out: Rewrite, options: AddOptions) -> FileAdded:
    if plan.target is not None and not options.for_swap:
        out.commit()
    return plan.result("unchanged")


def _build(
    chunks: ColumnChunks, row_group: int, leaf: LeafColumn, options: AddOptions, stopped: Callable[[], bool]
) -> SplitBlockBloomFilter:
    """Return the filter of a column chunk's values, every batch of which was checked against it."""
    ndv = _sizing_ndv(chunks, row_group, leaf, options)
    bloom = SplitBlockBloomFilter.sized_for(ndv, options.fpp, max_bytes=options.max_bytes)
    fill(bloom, chunks, row_group, leaf, stopped)
    return bloom if options.ndv is not None else bloom.folded_to(options.fpp)


def fill(
    bloom: SplitBlockBloomFilter,
    chunks: ColumnChunks,
    row_group: int,
    leaf: LeafColumn,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Insert every value of a column chunk, and check that each is found."""
    for array in chunks.values(row_group, leaf):
        if stopped():
            raise CancelledError
        for hashes in (hash_array(leaf, array), companion_hashes(leaf, array)):
            bloom.insert(hashes)
            if 0 in bloom.check(hashes):
                raise CorruptFileError("a value just inserted is not found: this machine's memory or build is broken")


def _sizing_ndv(chunks: ColumnChunks, row_group: int, leaf: LeafColumn, options: AddOptions) -> int:
    return options.ndv if options.ndv is not None else chunks.value_bound(row_group, leaf)


def append_checked(out: Rewrite, data: bytes) -> int:
    """Return where data was appended, after reading it back."""
    offset = out.append(data)
    if out.read(offset, len(data)) != data:
        raise OSError("what was written does not read back the same")
    return offset


def _append_footer(out: Rewrite, footer: Footer, edits: _Edits) -> None:
    """Append the footer with `edits` spliced in, proved to differ from the old one in nothing else."""
    raw = splice_filters(footer.raw, edits)
    nothing: _Edits = dict.fromkeys(edits)
    if splice_filters(raw, nothing) != splice_filters(footer.raw, nothing):
        raise CorruptFileError("the footer has a form that cannot be changed without loss")
    new = parse_footer(out.position + len(raw) + 8, raw)
    for (row_group, column), edit in edits.items():
        location = new.filter_location(row_group, new.leaves[column])
        if (location and (location.offset, location.length)) != edit:
            raise CorruptFileError("the footer does not read back as it was written")
    append_checked(out, raw + len(raw).to_bytes(4, "little") + MAGIC)


# ---- drop --------------------------------------------------------------------------------


def drop(
    paths: PathLike | Iterable[PathLike],
    columns: Sequence[str] | str | None = None,
    *,
    restore: bool = False,
    output: PathLike | None = None,
    dry_run: bool = False,
    keep_mtime: bool = False,
    force: bool = False,
    strict: bool = False,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    progress: Progress | None = None,
) -> Dropped:
    """Return what was done to take the filters of `columns` (default: all) away.

    The fields in the footer are cleared and the filters' bytes stay; `restore` cuts the file instead, to the oldest
    prefix that is a whole Parquet file with the same pages: after `add`, the original byte for byte. Output, checks
    and errors are those of `add`.
    """
    if restore and columns:
        raise UnsupportedError("--restore cuts the whole file back, so it takes all columns; leave --column out")
    wanted = None if columns is None else [parse_path(c) for c in ([columns] if isinstance(columns, str) else columns)]
    sources = find(paths, filesystem=filesystem, storage_options=storage_options)
    targets = targets_of(sources, paths, output)
    checked: list[tuple[Source, str | None, _DropPlan | Exception]] = []
    for target, (source, outcome) in zip(targets, drive((s, _survey_drop(s, wanted)) for s in sources), strict=True):
        checked.append((source, target, _checked_drop(source, target, outcome, force)))
    _raise_if_everywhere_missing([plan if isinstance(plan, Exception) else None for _, _, plan in checked])
    if strict and (first := next((p for _, _, p in checked if isinstance(p, Exception)), None)):
        raise first
    rows = []
    tick = Ticker(progress, len(checked))
    for source, target, plan in checked:
        try:
            if isinstance(plan, Exception):
                raise plan
            rows.append(_drop_one(source, target, plan, restore=restore, dry_run=dry_run, keep_mtime=keep_mtime))
        except (ParquetBloomError, OSError) as error:
            if strict:
                raise
            rows.append(
                FileDropped(source.name, target or source.name, "refused", source.size, error=describe_error(error))
            )
        tick()
    return Dropped(tuple(rows))


@dataclass(slots=True)
class _DropPlan:
    footer: Footer
    cleared: list[tuple[int, LeafColumn]]
    bytes_left: int
    notes: list[str]


def _survey_drop(source: Source, wanted: list[tuple[str, ...]] | None) -> Plan[_DropPlan]:
    footer = yield from read_footer(source.size)
    leaves = footer.leaves
    if wanted is not None:
        leaves = tuple(find_leaf(leaves, path, where=source.name) for path in wanted)
    cleared = [
        (row_group, leaf)
        for row_group, leaf, chunk in footer.chunks(leaves)
        if chunk is not None and (chunk.bloom_filter_offset is not None or chunk.bloom_filter_length is not None)
    ]
    filters = yield from read_filters(footer, leaves)
    return _DropPlan(footer, cleared, sum(f.length for f in filters), [])


def _checked_drop(
    source: Source, target: str | None, outcome: _DropPlan | Exception, force: bool
) -> _DropPlan | Exception:
    if isinstance(outcome, Exception):
        return outcome
    try:
        require_writable(source, target, outcome.footer, force, outcome.notes)
    except ParquetBloomError as error:
        return error
    return outcome


def _drop_one(
    source: Source, target: str | None, plan: _DropPlan, *, restore: bool, dry_run: bool, keep_mtime: bool
) -> FileDropped:
    keep = run(source, _find_oldest(plan.footer)) if restore else source.size

    def result(status: str, **fields: Any) -> FileDropped:
        return FileDropped(source.name, target or source.name, status, source.size, notes=tuple(plan.notes), **fields)

    unchanged = keep == source.size if restore else not plan.cleared
    if unchanged and (target is None or dry_run):
        return result("unchanged")
    if restore:
        done = {"cleared": len(plan.cleared), "bytes_freed": source.size - keep}
    else:
        done = {"cleared": len(plan.cleared), "bytes_left": plan.bytes_left}
    if dry_run:
        return result("planned", **done)
    with rewrite(source, keep, target=target, keep_mtime=keep_mtime) as out:
        note_stale(out, plan.notes)
        out.copy()
        if not restore and not unchanged:
            _append_footer(out, plan.footer, {(group, leaf.index): None for group, leaf in plan.cleared})
        out.commit()
    return result("unchanged") if unchanged else result("written", **done)


_SCAN_STEP = 4 * 1024 * 1024


def _find_oldest(footer: Footer) -> Plan[int]:
    """Plan to return the length of the shortest prefix that is a whole Parquet file with the same pages."""
    metadata, _ = decode(ttypes.FileMetaData, footer.raw)
    position = _end_of_pages(metadata)
    pages = _without_filters(metadata)
    carried = b""
    while position < footer.file_size:
        stop = min(position + _SCAN_STEP, footer.file_size)
        (data,) = yield [ByteRange(position, stop)]
        window, start = carried + data, position - len(carried)
        at = window.find(MAGIC)
        while at >= 0:
            end = start + at + len(MAGIC)
            if (yield from _is_same_file(end, pages, metadata)):
                return end
            at = window.find(MAGIC, at + 1)
        carried, position = window[-(len(MAGIC) - 1) :], stop
    return footer.file_size


def _is_same_file(end: int, pages: Any, newest: Any) -> Plan[bool]:
    if end < 12:
        return False
    (tail,) = yield [ByteRange(end - 8, end)]
    length = int.from_bytes(tail[:4], "little")
    start = end - 8 - length
    if length == 0 or start < _end_of_pages(newest):
        return False
    (raw,) = yield [ByteRange(start, end - 8)]
    try:
        footer = parse_footer(end, raw)
        for row_group, leaf, _ in footer.chunks():
            footer.filter_location(row_group, leaf)
        return bool(_without_filters(decode(ttypes.FileMetaData, raw)[0]) == pages)
    except CorruptFileError:
        return False


def _end_of_pages(metadata: Any) -> int:
    ends = [len(MAGIC)]
    for group in metadata.row_groups:
        for column in group.columns:
            chunk = column.meta_data
            size = chunk.total_compressed_size
            if size is None or size < 0:
                raise CorruptFileError(f"a column chunk's pages take {size} bytes; where they end is not known")
            ends.append(pages_extent(chunk)[1])
    return max(ends)


def _without_filters(metadata: Any) -> tuple[Any, ...]:
    """Return what makes two footers describe the same pages; takes the filters out of `metadata`."""
    for group in metadata.row_groups:
        for column in group.columns:
            column.meta_data.bloom_filter_offset = column.meta_data.bloom_filter_length = None
    return metadata.schema, metadata.num_rows, metadata.row_groups


# ---- shared ------------------------------------------------------------------------------


def targets_of(
    sources: list[Source], paths: PathLike | Iterable[PathLike], output: PathLike | None
) -> list[str | None]:
    """Return where each source is written: None for in place, else its path below or at `output`."""
    if output is None or not sources:
        return [None] * len(sources)
    asked = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    fs = sources[0].fs
    if "://" in sources[0].name and "://" not in os.fspath(output):
        scheme = sources[0].name.partition("://")[0]
        raise UnsupportedError(
            f"{output} has no scheme; say {scheme}://{os.fspath(output).lstrip('/')} if that is meant"
        )
    if len(asked) == 1 and len(sources) == 1 and not is_directory(sources[0].fs, os.fspath(asked[0])):
        target = join_output(fs, os.fspath(output))
        if is_directory(fs, target):
            raise FilterExistsError(f"{output} is a directory; name the file to write")
        return [target]
    targets = [join_output(fs, os.fspath(output), source.relative) for source in sources]
    if len(set(targets)) < len(targets):
        raise FilterExistsError(f"two of the files would become the same file below {output}; give one root for all")
    return list(targets)


def raise_refusals(plans: Sequence[FilePlan], *, strict: bool) -> None:
    """Raise `ColumnNotFoundError` where every file lacks a column, and with `strict` the first error of any."""
    errors = [plan.error for plan in plans]
    _raise_if_everywhere_missing(errors)
    if strict and (first := next((error for error in errors if error), None)):
        raise first


def _raise_if_everywhere_missing(errors: list[Exception | None]) -> None:
    if errors and all(isinstance(error, ColumnNotFoundError) for error in errors):
        assert errors[0] is not None
        raise errors[0]


def note_stale(out: Rewrite, notes: list[str]) -> None:
    """Note what an interrupted run had left and this one has removed."""
    if out.stale:
        notes.append(f"removed {out.stale}, which an interrupted run had left")
