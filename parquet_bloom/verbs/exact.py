"""What `prune(exact=True)` does last: it reads the columns of the row groups that might still match.

A row group whose column does not contain the value is pruned. Of a column chunk the dictionary is read if it has every
value, else the pages that the page index leaves, else all pages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from parquet_bloom.errors import ConcurrentChangeError, CorruptFileError, UnsupportedError, describe_error
from parquet_bloom.format.footer import Plan
from parquet_bloom.format.page_index import Page, index_extents, read_pages
from parquet_bloom.format.ranges import coalesce
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.predicates.evaluation import CANNOT, MIGHT, BoundPredicate, ColumnTest, FileWithFooter, Verdict
from parquet_bloom.predicates.exact import ReadRowGroup, unread, verdict_on
from parquet_bloom.storage.drive import DEFAULT_LIMITS, Limits, RequestLog, drive
from parquet_bloom.storage.listing import Source
from parquet_bloom.values.arrays import hashes_among
from parquet_bloom.verbs.parallel import Progress, Ticker, map_in_order, num_threads
from parquet_bloom.verbs.verdicts import CANNOT_MATCH, FileVerdict, RowGroupVerdict

if TYPE_CHECKING:
    from parquet_bloom.storage.columns import ColumnChunks

INDEX_WORTH = 256 * 1024
"""From this size on, a chunk's page index is read first: it costs another request, and may save most pages."""

THREAD_WORTH = 4 * 1024 * 1024
"""So many bytes are worth another thread: for fewer, handing the interpreter's lock around takes longer."""

OpenFiles = Mapping[Source, tuple[BoundPredicate, FileWithFooter]]
"""What is known of the files that might match, with the condition bound to each."""


@dataclass(frozen=True)
class ExactPlan:
    """What there is to read, so that it can be decided whether it is worth it; `carry_out` reads it.

    `files` are the verdicts on `sources` so far. Nothing was read yet.
    """

    sources: Sequence[Source]
    files: list[FileVerdict]
    open_files: OpenFiles
    _: KW_ONLY
    not_pruned: Callable[[Source, Exception], FileVerdict]
    """Return the verdict on a file that is gone or changed, or raise the error."""
    keep_changed: Callable[[list[Source], list[FileVerdict]], None]
    strict: bool = False
    limits: Limits = DEFAULT_LIMITS
    log: RequestLog | None = None

    @cached_property
    def _row_groups(self) -> list[_RowGroup]:
        return [
            group
            for source, file in zip(self.sources, self.files, strict=True)
            if file.not_pruned is None and source in self.open_files
            for group in _row_groups(source, file, *self.open_files[source])
        ]

    @property
    def num_row_groups(self) -> int:
        """How many row groups would be looked into: those left in which reading columns may prove something."""
        return len(self._row_groups)

    @cached_property
    def num_bytes(self) -> int:
        """How many bytes would be read at most: fewer where one column, or the page index, is enough."""
        gap = max(self.limits.gap, self.limits.local_gap)
        return sum(group.num_bytes(gap) for group in self._row_groups)

    def carry_out(self, progress: Progress | None = None, *, jobs: int | None = None) -> list[FileVerdict]:
        """Return the verdicts on all files after reading, on up to so many threads; `progress` counts row groups.

        A row group whose column cannot be read is kept, with the reason.
        """
        groups = self._row_groups
        if not groups:
            return self.files
        tick = Ticker(progress, len(groups))
        threads = min(num_threads(jobs), len(groups), 1 + self.num_bytes // THREAD_WORTH)
        # Local row groups are handed out one by one; of stores, each thread has many requests under way.
        each = 1 if all(group.source.is_local for group in groups) else -(-len(groups) // threads)
        shares = [groups[start : start + each] for start in range(0, len(groups), each)]
        limits = replace(
            self.limits,
            files=max(1, self.limits.files // threads),
            in_flight=max(1, self.limits.in_flight // threads),
            round_bytes=max(1, self.limits.round_bytes // threads),
        )

        def read(share: list[_RowGroup]) -> list[Verdict | Exception]:
            outcomes = []
            for _, outcome in drive(((group.source, group.read()) for group in share), limits=limits, log=self.log):
                outcomes.append(outcome)
                tick()
            return outcomes

        done = map(read, shares) if threads == 1 else map_in_order(read, shares, threads, threading.Event())
        return self._with_outcomes(dict(zip(groups, chain.from_iterable(done), strict=True)))

    def _with_outcomes(self, outcomes: Mapping[_RowGroup, Verdict | Exception]) -> list[FileVerdict]:
        of_sources: dict[Source, dict[int, Verdict | Exception]] = {}
        for group, outcome in outcomes.items():
            of_sources.setdefault(group.source, {})[group.row_group] = outcome
        files = list(self.files)
        read: list[int] = []
        for number, source in enumerate(self.sources):
            if (of_source := of_sources.get(source)) is not None:
                files[number] = self._with_verdicts(source, files[number], of_source)
                read.append(number)
        some = [files[number] for number in read]
        self.keep_changed([self.sources[number] for number in read], some)
        for number, file in zip(read, some, strict=True):
            files[number] = file
        return files

    def _with_verdicts(
        self, source: Source, file: FileVerdict, outcomes: Mapping[int, Verdict | Exception]
    ) -> FileVerdict:
        for outcome in outcomes.values():
            if isinstance(outcome, ConcurrentChangeError | FileNotFoundError):
                return self.not_pruned(source, outcome)
            if self.strict and isinstance(outcome, Exception):
                raise outcome
        return replace(file, row_groups=tuple(_updated(group, outcomes) for group in file.row_groups))


def _updated(group: RowGroupVerdict, outcomes: Mapping[int, Verdict | Exception]) -> RowGroupVerdict:
    match outcomes.get(group.row_group if group.row_group is not None else -1):
        case Verdict(rank, reason, by) if rank is CANNOT:
            return replace(group, answer=CANNOT_MATCH, reason=reason, by=by)
        case Verdict(rank, reason) if rank is MIGHT:
            return replace(group, reason=reason)
        case Exception() as error:
            return replace(group, reason=f"the column could not be read: {describe_error(error)}")
    return group


def _row_groups(source: Source, file: FileVerdict, bound: BoundPredicate, known: FileWithFooter) -> list[_RowGroup]:
    """Return the row groups of a file that are kept so far, and in which reading columns may prove something."""
    from parquet_bloom.storage.columns import ColumnChunks

    chunks = ColumnChunks(source, known.footer)
    kept = [group.row_group for group in file.row_groups if group.is_kept and group.row_group is not None]
    groups = (_RowGroup(source, chunks, ReadRowGroup(bound, known, number)) for number in kept)
    return [group for group in groups if group.columns]


@dataclass(frozen=True, eq=False)
class _RowGroup:
    """A row group to look into."""

    source: Source
    chunks: ColumnChunks
    known: ReadRowGroup
    columns: dict[LeafColumn, _Tests] = field(init=False)
    """What would be read first; after that, perhaps less."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _by_column(self.known))

    @property
    def row_group(self) -> int:
        return self.known.row_group

    def num_bytes(self, gap: int) -> int:
        total = 0
        for leaf, tests in self.columns.items():
            total += self.chunks.num_bytes(self.row_group, leaf)
            if self._has_pages(leaf, tests):
                extents = index_extents(self.known.footer, self.row_group, leaf)
                total += sum(map(len, coalesce(extents, gap=gap)))
        return total

    def read(self) -> Plan[Verdict]:
        """Plan to return the verdict after reading columns, the smallest first, until it is decided."""
        columns = self.columns
        while columns:
            leaf = min(columns, key=lambda leaf: self.chunks.num_bytes(self.row_group, leaf))
            tests = columns[leaf]
            try:
                found = yield from self._search(leaf, tests)
                verdicts = {
                    test.number: verdict_on(test, is_present=not found.isdisjoint(h)) for test, h in tests.items()
                }
            except (CorruptFileError, UnsupportedError) as error:
                verdicts = unread(tests, describe_error(error))
            self.known.note(verdicts)
            columns = _by_column(self.known)
        return self.known.verdict

    def _search(self, leaf: LeafColumn, tests: _Tests) -> Plan[set[int]]:
        """Plan to return those of the tests' hashes that a column has; as soon as no test can be false, not all."""
        import pyarrow as pa

        found: set[int] = set()
        pages = (yield from self._pages(leaf, tests)) if self._has_pages(leaf, tests) else None
        if pages == []:
            return found
        wanted = pa.array(sorted({hash_ for hashes in tests.values() for hash_ in hashes}), pa.uint64())
        for array in (yield from self.chunks.read(self.row_group, leaf, pages)):
            found |= hashes_among(leaf, array, wanted)
            if not any(found.isdisjoint(hashes) for hashes in tests.values()):
                break
        return found

    def _has_pages(self, leaf: LeafColumn, tests: _Tests) -> bool:
        """Return whether it is worth reading the page index of a chunk."""
        chunks, footer = self.chunks, self.known.footer
        return (
            not leaf.is_repeated
            and not chunks.has_dictionary_alone(self.row_group, leaf)
            and chunks.num_bytes(self.row_group, leaf) >= INDEX_WORTH
            and not next(iter(tests)).reader.why_no_pages(footer)
            and bool(index_extents(footer, self.row_group, leaf))
        )

    def _pages(self, leaf: LeafColumn, tests: _Tests) -> Plan[list[Page] | None]:
        """Plan to return the pages that may have one of the values; None if the page index does not tell."""
        footer = self.known.footer
        pages = yield from read_pages(footer, self.row_group, leaf)
        if pages is None:
            return None
        reader = next(iter(tests)).reader
        known = [reader.read_page(footer, page.num_rows, page.bounds) for page in pages]
        return [
            page
            for page, of_page in zip(pages, known, strict=True)
            if not of_page.is_all_null and any(test.literals.within(of_page) for test in tests)
        ]


_Tests = dict[ColumnTest, list[int]]


def _by_column(known: ReadRowGroup) -> dict[LeafColumn, _Tests]:
    """Return the tests to read columns for, by the leaf as the file has it."""
    columns: dict[LeafColumn, _Tests] = {}
    for test, hashes in known.tests_to_read().items():
        columns.setdefault(known.footer.leaves[test.leaf.index], {})[test] = hashes
    return columns
