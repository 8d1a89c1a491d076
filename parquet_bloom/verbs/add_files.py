"""How files are given filters: planned from their footers, checked, then written one by one.

A file is only appended to; no byte of it is moved or changed:

    old file, its footer included | filters | new footer

The new footer is the old one's bytes with `bloom_filter_offset` and `bloom_filter_length` spliced in. So a reader
that was told the old length still finds the old footer at that place, and `drop --restore` can cut the file there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeGuard

from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    UnsupportedError,
)
from parquet_bloom.filters.engines import Hazard, hazards
from parquet_bloom.filters.parquet import StoredFilter, read_filters, why_distrusted
from parquet_bloom.filters.readers import ANYONE, Readers, settled
from parquet_bloom.format.footer import Footer, Plan, read_footer
from parquet_bloom.format.recovery import find_whole_state
from parquet_bloom.format.sbbf import MAX_BYTES, SplitBlockBloomFilter, optimal_num_bytes, write_header
from parquet_bloom.format.schema import LeafColumn, parse_path
from parquet_bloom.format.splice import splice_filters
from parquet_bloom.results import Table
from parquet_bloom.storage.drive import drive, run
from parquet_bloom.storage.listing import PathLike, Source, StorageOptions
from parquet_bloom.storage.rewrite import (
    Rewrite,
    append_in_place,
    links_to,
    require_in_place,
    rewrite,
    summaries_above,
)
from parquet_bloom.tables.detect import refuse_links_out
from parquet_bloom.values.encoding import most_hashes, why_unbuildable
from parquet_bloom.verbs.parallel import Progress, Ticker, background, map_in_order, share_threads
from parquet_bloom.verbs.retrofit import (
    SUMMARY,
    AddedFilter,
    AddingPlan,
    Edits,
    FileAdded,
    SkippedChunk,
    SkippedColumn,
    Step,
    append_checked,
    append_footer,
    carry_out,
    column_error,
    find_with_targets,
    note_stale,
    once_copied,
    parquet_outcomes,
    plan_each,
    raise_refusals,
    require_writable,
)

if TYPE_CHECKING:
    from parquet_bloom.storage.columns import ColumnChunks
    from parquet_bloom.tables import Snapshot

DEFAULT_FPP = 0.01

LARGE_SHARE, NOTED_BYTES = 0.1, 64 * 1024
"""Filters that take more than this share of their file, and so many bytes, are worth a note."""

LARGE_BYTES = 1024 * 1024
"""Filters that are larger than this and than their whole file are refused unless they are allowed."""


@dataclass(frozen=True, slots=True, repr=False)
class Added(Table):
    """The result of `add`, a row for each file."""

    TRUTH: ClassVar[str] = ".rows, or .errors"
    NOUN: ClassVar[str] = "file"

    rows: tuple[FileAdded, ...]

    @property
    def errors(self) -> tuple[FileAdded, ...]:
        """The files that were refused, or of which a requested column was."""
        return tuple(row for row in self.rows if row.error or row.skipped_columns)


# ---- add ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddOptions:
    """The options of `add`, checked.

    `for_swap`: what is written takes its file's place in a table by a commit, so lying in the table is no reason to
    refuse, and a file with nothing left to do is not written. Columns are those that the table of `snapshot` calls so,
    and so are they shown; `table_leaves` are the table's own, by path. `rates` are those of single columns; `fpp` is
    that of the others.
    `readers` say which hazards of filters count.
    `is_advised`: `advise` chose the columns, of which a file need not have any, and has warned of files that are not
    Parquet.
    """

    columns: tuple[tuple[str, ...], ...]
    _: KW_ONLY
    fpp: float = DEFAULT_FPP
    ndv: int | None = None
    max_bytes: int = MAX_BYTES
    replace: bool = False
    fill_lengths: bool = False
    keep_mtime: bool = False
    force: bool = False
    allow_large: bool = False
    for_swap: bool = False
    snapshot: Snapshot | None = None
    any_name: bool = False
    in_place: bool = False
    rates: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    table_leaves: Mapping[tuple[str, ...], LeafColumn] = field(default_factory=dict)
    readers: Readers = ANYONE
    is_advised: bool = False

    def __post_init__(self) -> None:
        for fpp in (self.fpp, *self.rates.values()):
            if not (isinstance(fpp, Real) and 0 < fpp < 1):
                raise ValueError(f"fpp= must be between 0 and 1, not {fpp}")
        if self.ndv is not None and self.ndv < 0:
            raise ValueError(f"ndv= must be 0 or more, not {self.ndv}")
        if self.max_bytes < 64:
            raise ValueError(f"max_bytes= must be at least 64, not {self.max_bytes}")
        if not self.columns:
            raise ValueError("give at least one column")

    def find(self, footer: Footer, path: tuple[str, ...], source: Source) -> LeafColumn:
        """Return the leaf of a file at a requested `path`; raises `ColumnNotFoundError`."""
        if self.snapshot is None:
            return source.find_leaf(footer.leaves, path)
        return self.snapshot.find(footer, path, where=source.name)

    def rate(self, footer: Footer, leaf: LeafColumn) -> float:
        """Return the false-positive rate that a file's leaf is to stay within."""
        return self.rates.get(parse_path(self.name(footer, leaf)), self.fpp) if self.rates else self.fpp

    def name(self, footer: Footer, leaf: LeafColumn) -> str:
        """Return what users call a file's leaf."""
        return leaf.name if self.snapshot is None else self.snapshot.leaves(footer)[leaf.index].name

    def why_left_out(self, footer: Footer, leaf: LeafColumn) -> str | None:
        """Return why a file's leaf gets no filter for the sake of readers, or None."""
        return self.readers.why_left_out(footer, leaf, self._table_leaf(footer, leaf))

    def notes(self, footer: Footer, leaves: Iterable[LeafColumn]) -> Iterator[str]:
        """Yield what readers lose by how they read columns that get filters, or because of the file."""
        found: dict[Hazard, list[str]] = {}
        for leaf in leaves:
            all_ = hazards(footer, leaf, self._table_leaf(footer, leaf))
            for hazard in filter(self.readers.are_told, all_):
                found.setdefault(hazard, []).append(self.name(footer, leaf))
        for hazard, names in found.items():
            yield f"{hazard}: {', '.join(names)}"

    def _table_leaf(self, footer: Footer, leaf: LeafColumn) -> LeafColumn | None:
        return self.table_leaves.get(parse_path(self.name(footer, leaf))) if self.table_leaves else None


@dataclass(slots=True)
class AddPlan(AddingPlan):
    """What `add` is to do: filters to build, of which row group and column and in place of which bad one, and edits."""

    footer: Footer = field(kw_only=True)
    build: list[tuple[int, LeafColumn, str | None]] = field(default_factory=list)
    edits: Edits = field(default_factory=dict)

    @property
    def has_work(self) -> bool:
        """Whether anything would be changed."""
        return bool(self.build or self.edits)


AddStep: TypeAlias = Step[AddPlan, FileAdded]


def add_files(
    paths: PathLike | Iterable[PathLike],
    options: AddOptions,
    *,
    output: PathLike | None,
    follow_links: bool,
    dry_run: bool,
    strict: bool,
    jobs: int | None,
    filesystem: Any,
    storage_options: StorageOptions,
    progress: Progress | None,
) -> Added:
    """Return what was done to give the files at `paths` filters."""
    if options.in_place and output is not None:
        raise ValueError("in_place= changes the files where they are; leave out output=")
    sources, targets = find_with_targets(
        *(paths, output), follow_links=follow_links, filesystem=filesystem, storage_options=storage_options
    )
    options = dataclasses.replace(options, readers=settled(options.readers, sources))
    plans = plan_adds(sources, targets, options)
    raise_refusals(plans, strict=strict)
    if dry_run:
        return Added(tuple(preview_add(plan, options) for plan in plans))
    return Added(write_adds(plans, options, strict=strict, jobs=jobs, progress=progress))


def plan_adds(sources: Sequence[Source], targets: Sequence[str | None], options: AddOptions) -> list[AddStep]:
    """Return what is to be done to each file; nothing is written yet.

    Raises `ColumnNotFoundError` for a column that no file has.
    """
    outcomes = drive(refuse_links_out((source, _read_requested(source, options)) for source in sources))
    of_parquet = parquet_outcomes(outcomes, targets, warns=not options.is_advised)
    plan_one = partial(_plan_add, options)
    steps: list[AddStep] = plan_each(of_parquet, AddingPlan, plan_one, any_name=options.any_name)
    raise_refusals(steps, strict=False)
    for plan in steps:
        if isinstance(plan, AddPlan) and plan.has_work:
            if plan.target is None:
                plan.notes += summaries_above(plan.source, SUMMARY)
            if options.in_place:
                plan.notes += [IN_PLACE, *links_to(plan.source)]
    return steps


IN_PLACE = (
    "in place: while filters are appended, readers may fail, and after a crash the file needs `parquet-bloom recover`"
)


def write_adds(
    steps: Sequence[AddStep],
    options: AddOptions,
    *,
    strict: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[FileAdded, ...]:
    """Return what was done to each planned file; the files are written one by one, each whole or not at all."""
    plans = [step for step in steps if isinstance(step, AddPlan)]
    tick = Ticker(progress, sum(_num_bytes(chunk) for plan in plans for chunk in _chunks_to_build(plan)))
    at_once, threads = share_threads(jobs, len(steps))

    def work(plan: AddPlan, stop: threading.Event) -> FileAdded:
        if not plan.has_work:
            return _leave(plan, options)
        return _write_filters(plan, options, threads, tick, stop)

    return carry_out(steps, work, at_once=at_once, strict=strict)


_Requested = tuple[Footer, list[LeafColumn], list[StoredFilter]]


def _read_requested(source: Source, options: AddOptions) -> Plan[_Requested]:
    footer = yield from read_footer(source.size)
    requested: list[LeafColumn] = []
    for path in options.columns:
        with contextlib.suppress(*([ColumnNotFoundError] if options.is_advised else ())):
            requested.append(options.find(footer, path, source))
    leaves = list({leaf.index: leaf for leaf in requested}.values())
    return footer, leaves, (yield from read_filters(footer, leaves))


def _plan_add(options: AddOptions, file: AddingPlan, requested: _Requested) -> AddPlan:
    """Return what is to be added to a file; what is noted meanwhile is noted of the file, too."""
    footer, leaves, stored = requested
    source = file.source
    plan = AddPlan(source, file.target, file.notes, file.skipped, file.skipped_columns, footer=footer)
    require_writable(
        *(source, file.target, footer, options.force, plan.notes),
        for_swap=options.for_swap,
        can_swap=not options.in_place,
    )
    if options.in_place:
        require_in_place(source)
        _require_recoverable(source)
    present = {(f.row_group, f.leaf.index): f for f in stored}
    leaves = _buildable(plan, leaves, present, options)
    for row_group, leaf, chunk in footer.chunks(tuple(leaves)):
        if problem := footer.chunk_problem(row_group, leaf):
            raise CorruptFileError(f"row group {row_group}, column {options.name(footer, leaf)}: {problem}")
        _plan_chunk(plan, row_group, leaf, chunk, present.get((row_group, leaf.index)), options)
    if not options.allow_large:
        _require_moderate(plan, options)
    built, filtered = {leaf.index for _, leaf, _ in plan.build}, {index for _, index in present}
    plan.notes += options.notes(
        footer,
        (
            leaf
            for leaf in leaves
            if leaf.index in built or (leaf.index in filtered and options.why_left_out(footer, leaf))
        ),
    )
    return plan


def _require_recoverable(source: Source) -> None:
    """Raise unless `recover` would know the file again if it was cut off behind its end."""
    try:
        state = run(source, find_whole_state(source.size))
    except CorruptFileError as error:
        raise UnsupportedError(f"the file cannot be changed in place: `recover` would refuse it: {error}") from error
    if state.footer.file_size != source.size:
        raise UnsupportedError("the file cannot be changed in place: `recover` would not know its footer again")


_Present = Mapping[tuple[int, int], StoredFilter]
"""The filters that a file has, by row group and column."""


def _buildable(plan: AddPlan, leaves: list[LeafColumn], present: _Present, options: AddOptions) -> list[LeafColumn]:
    """Return the leaves that are to have filters, and note the others; raises where none is."""
    buildable = []
    for leaf in leaves:
        name = options.name(plan.footer, leaf)
        if reason := why_unbuildable(leaf):
            plan.skipped_columns.append(SkippedColumn(name, f"{leaf.type_name} cannot have a filter: {reason}"))
            continue
        reason = options.why_left_out(plan.footer, leaf)
        if reason and _lacks_filters(plan.footer, leaf, present, options):
            plan.skipped_columns.append(SkippedColumn(name, f"{leaf.type_name} is left out: {reason}"))
            continue
        buildable.append(leaf)
    if leaves and len(plan.skipped_columns) == len(leaves):
        error = column_error(plan.skipped_columns[0])
        plan.skipped_columns.clear()
        raise error
    return buildable


def _lacks_filters(footer: Footer, leaf: LeafColumn, present: _Present, options: AddOptions) -> bool:
    """Return whether a filter of a leaf would be built, as far as that can be known."""
    return any(
        footer.chunk_problem(row_group, leaf)
        or (chunk.num_values and not _is_kept(present.get((row_group, leaf.index)), options))
        for row_group, _, chunk in footer.chunks((leaf,))
    )


def _is_kept(old: StoredFilter | None, options: AddOptions) -> TypeGuard[StoredFilter]:
    return old is not None and old.problem is None and not options.replace


def _require_moderate(plan: AddPlan, options: AddOptions) -> None:
    """Raise where the filters would be larger than their file, and than what nobody minds.

    The counts in the footer are upper bounds, and decide for nearly every file. For the others the filters are built,
    because large ones may fold to small ones.
    """
    limit = max(plan.source.size, LARGE_BYTES)
    counted = (options.ndv if options.ndv is not None else c.num_values for c in _chunks_to_build(plan))
    rates = [options.rate(plan.footer, leaf) for _, leaf, _ in plan.build]
    sizes = (optimal_num_bytes(*of, max_bytes=options.max_bytes) for of in zip(counted, rates, strict=True))
    if sum(sizes) <= limit:
        return
    chunks = _column_chunks(plan)
    if options.ndv is None and sum(_planned_bytes(plan, chunks, options)) <= limit:
        return
    total = 0
    for (row_group, leaf, _), fpp in zip(plan.build, rates, strict=True):
        if options.ndv is not None:
            total += optimal_num_bytes(options.ndv, fpp, max_bytes=options.max_bytes)
        else:
            total += build_filter(
                chunks, row_group, leaf, dataclasses.replace(options, fpp=fpp), lambda: False
            ).num_bytes
        if total > limit:
            raise UnsupportedError(
                f"the filters would take {total:,} bytes or more, and the whole file has {plan.source.size:,}; give a "
                "larger fpp=, cap them with max_bytes=, or allow them with allow_large=True"
            )


def _num_bytes(chunk: Any) -> int:
    """Return what a column chunk counts for in the progress: its bytes as they are stored, and never nothing."""
    return max(1, chunk.total_compressed_size or 0)


def _chunks_to_build(plan: AddPlan) -> Iterator[Any]:
    for row_group, leaf, _ in plan.build:
        yield plan.footer.chunk(row_group, leaf)


def _planned_bytes(plan: AddPlan, chunks: ColumnChunks, options: AddOptions) -> Iterator[int]:
    """Yield the most bytes that the bitset of each filter takes."""
    for row_group, leaf, _ in plan.build:
        most = _sizing_hashes(chunks, row_group, leaf, options)
        yield optimal_num_bytes(most, options.rate(plan.footer, leaf), max_bytes=options.max_bytes)


def _note_share(plan: AddPlan, filters: Sequence[AddedFilter], what: str) -> None:
    num_bytes = sum(f.length for f in filters)
    if num_bytes > max(NOTED_BYTES, LARGE_SHARE * plan.source.size):
        share = num_bytes / max(1, plan.source.size)
        much = f"{share:.0%} of" if share < 2 else f"{share:,.0f} times"
        plan.notes.append(f"the filters {what} {much} the file's size; a larger fpp= makes them smaller")


def _plan_chunk(
    plan: AddPlan, row_group: int, leaf: LeafColumn, chunk: Any, old: StoredFilter | None, options: AddOptions
) -> None:
    name = options.name(plan.footer, leaf)
    if _is_kept(old, options):
        if options.fill_lengths and old.location and old.location.length is None:
            plan.edits[row_group, leaf.index] = (old.location.offset, old.length)
            plan.skipped.append(SkippedChunk(row_group, name, "has a filter; its missing length was filled in"))
        else:
            plan.skipped.append(SkippedChunk(row_group, name, "has a filter"))
    elif chunk.num_values == 0:
        plan.skipped.append(SkippedChunk(row_group, name, "holds no values"))
    else:
        plan.build.append((row_group, leaf, (old.problem or "requested") if old else None))


def preview_add(plan: AddStep, options: AddOptions) -> FileAdded:
    """Return what would be done to a file."""
    if not isinstance(plan, AddPlan):
        return plan.row
    if not plan.has_work:
        return plan.result("unchanged")
    chunks = _column_chunks(plan)
    filters = []
    edits = dict(plan.edits)
    position = plan.source.size
    sizes = _planned_bytes(plan, chunks, options)
    for (row_group, leaf, replaced), size in zip(plan.build, sizes, strict=True):
        length = len(write_header(size)) + size
        name = options.name(plan.footer, leaf)
        filters.append(AddedFilter(row_group, name, size, options.rate(plan.footer, leaf), position, length, replaced))
        edits[row_group, leaf.index] = (position, length)
        position += length
    _note_share(plan, filters, "may take up to")
    added = position - plan.source.size + len(splice_filters(plan.footer.raw, edits)) + 8
    return plan.result("planned", bytes_added=added, filters=tuple(filters))


def _write_filters(plan: AddPlan, options: AddOptions, threads: int, tick: Ticker, stop: threading.Event) -> FileAdded:
    footer = plan.footer
    filters: list[AddedFilter] = []
    edits = dict(plan.edits)

    failed = threading.Event()

    def build(task: tuple[int, LeafColumn, str | None]) -> SplitBlockBloomFilter:
        row_group, leaf, _ = task
        own = dataclasses.replace(options, fpp=options.rate(footer, leaf))
        chunk = footer.chunk(row_group, leaf)
        with tick.part(_num_bytes(chunk), chunk.num_values) as count:
            return build_filter(chunks, row_group, leaf, own, lambda: stop.is_set() or failed.is_set(), count)

    with _opened(plan, options) as out:
        note_stale(out, plan.notes)
        # Closed here, or the threads of a run that failed would be waited for wherever the garbage is collected.
        with background(out.copy) as copied, closing(map_in_order(build, plan.build, threads, failed)) as built:
            chunks = _column_chunks(plan)
            for (row_group, leaf, replaced), bloom in zip(plan.build, once_copied(copied, built), strict=True):
                name = options.name(footer, leaf)
                if bloom.is_empty and why_distrusted(footer, row_group, leaf, bloom):
                    # No reader could tell this filter from a damaged one.
                    plan.skipped.append(SkippedChunk(row_group, name, "holds no values but nulls"))
                    if replaced:
                        edits[row_group, leaf.index] = None
                    continue
                data = bloom.to_bytes()
                offset = append_checked(out, data)
                edits[row_group, leaf.index] = (offset, len(data))
                filters.append(AddedFilter(row_group, name, bloom.num_bytes, bloom.fpp, offset, len(data), replaced))
            copied.result()
        if not edits:
            return _finish(plan, out, options)
        append_footer(out, footer, edits)
        out.commit()
    _note_share(plan, filters, "take")
    return plan.result("written", bytes_added=out.position - plan.source.size, filters=tuple(filters))


def _column_chunks(plan: AddPlan) -> ColumnChunks:
    """Return a file's column chunks. What decodes them is imported now: in a new process while the file is copied."""
    from parquet_bloom.storage.columns import ColumnChunks

    return ColumnChunks(plan.source, plan.footer)


def _opened(plan: AddPlan, options: AddOptions) -> Rewrite:
    """Return what is to become the new file, which starts with the old one's bytes."""
    if options.in_place:
        return append_in_place(plan.source, keep_mtime=options.keep_mtime)
    return rewrite(plan.source, plan.source.size, target=plan.target, keep_mtime=options.keep_mtime)


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


def build_filter(
    chunks: ColumnChunks,
    row_group: int,
    leaf: LeafColumn,
    options: AddOptions,
    stopped: Callable[[], bool],
    count: Callable[[int], None] = lambda values: None,
) -> SplitBlockBloomFilter:
    """Return the filter of a column chunk's values, every batch of which was checked against it."""
    from parquet_bloom.filters.build import fill

    most = _sizing_hashes(chunks, row_group, leaf, options)
    if options.ndv is None and chunks.is_doubtful(row_group, leaf) and optimal_num_bytes(most, options.fpp) > _UNPROVED:
        # No memory for values of which only the footer knows: they are counted first.
        most = most_hashes(leaf, sum(map(len, chunks.values(row_group, leaf))))
    bloom = SplitBlockBloomFilter.sized_for(most, options.fpp, max_bytes=options.max_bytes)
    fill(bloom, chunks, row_group, leaf, stopped, count)
    if options.ndv is None:
        return bloom.folded_to(options.fpp)
    return _shrunk(bloom, options.ndv, options)


_UNPROVED = 1024 * 1024
"""The bytes of a filter that are allocated for as many values as a footer claims, however few bytes they take."""


def _shrunk(bloom: SplitBlockBloomFilter, ndv: int, options: AddOptions) -> SplitBlockBloomFilter:
    """Return the filter at the size for `ndv` values, or at the least above it that holds what went in beside them."""
    least = optimal_num_bytes(ndv, options.fpp, max_bytes=options.max_bytes)
    while bloom.num_bytes > least and (folded := bloom.fold()).fpp <= options.fpp:
        bloom = folded
    return bloom


def _sizing_hashes(chunks: ColumnChunks, row_group: int, leaf: LeafColumn, options: AddOptions) -> int:
    return most_hashes(leaf, options.ndv if options.ndv is not None else chunks.value_bound(row_group, leaf))
