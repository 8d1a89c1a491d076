"""Which rows of a row group can match a condition, by the bounds of its pages.

Each page is evaluated as a row group is. Pages of different columns end at different rows, so what is left is runs of
rows: an AND keeps those that all of its parts keep, an OR those that any part keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from parquet_bloom.format.footer import Footer
from parquet_bloom.format.page_index import Page
from parquet_bloom.format.probing import Answer, Question
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.predicates.evaluation import (
    CANNOT,
    BoundPredicate,
    ColumnTest,
    Combined,
    Facts,
    Fixed,
    NullTest,
    Verdict,
)
from parquet_bloom.values.statistics import StatisticsReader

Runs = list[tuple[int, int]]
"""Runs of rows, start and stop, that are in order and do not touch."""


class _Pages:
    """The pages of a column, each treated as one row group; see `KnownFile`."""

    absent: Mapping[int, Verdict] = MappingProxyType({})

    def __init__(self, footer: Footer, reader: StatisticsReader, pages: Sequence[Page]) -> None:
        self.open: dict[tuple[int, int], Question] = {}
        self.answers: dict[tuple[int, int], Answer] = {}
        known = (reader.read_page(footer, page.num_rows, page.bounds) for page in pages)
        self._facts = [Facts(None, of_page, no_filter="pages have no filters") for of_page in known]

    def facts(self, reader: StatisticsReader) -> Sequence[Facts]:
        """Return what is known about the pages."""
        return self._facts


def leaves_with_pages(bound: BoundPredicate, footer: Footer) -> Iterator[LeafColumn]:
    """Yield the columns of a condition whose pages' bounds can be trusted, as the file has them."""
    match bound:
        case Combined(parts):
            for part in parts:
                yield from leaves_with_pages(part, footer)
        case ColumnTest(leaf=leaf, reader=reader) | NullTest(leaf=leaf, reader=reader):
            if not leaf.is_repeated and not reader.why_no_pages(footer):
                yield footer.leaves[leaf.index]


def runs_left(bound: BoundPredicate, footer: Footer, pages: Mapping[int, Sequence[Page]]) -> Runs | None:
    """Return the rows of a row group that its pages leave, or None for all of them.

    `pages` are those of columns, by the leaf's index, that are known and can be trusted.
    """
    match bound:
        case Fixed(verdict):
            return [] if verdict.rank is CANNOT else None
        case Combined(parts, choose):
            of_parts = [runs_left(part, footer, pages) for part in parts]
            known = [runs for runs in of_parts if runs is not None]
            if choose is max:
                return _union(known) if len(known) == len(parts) else None
            left = None
            for runs in known:
                left = runs if left is None else _common(left, runs)
            return left
        case ColumnTest(leaf=leaf, reader=reader) | NullTest(leaf=leaf, reader=reader) if leaf.index in pages:
            of_column = pages[leaf.index]
            file = _Pages(footer, reader, of_column)
            return runs_of(of_column, [bound.evaluate(file, n).rank is not CANNOT for n in range(len(of_column))])
    return None


def runs_of(pages: Sequence[Page], is_kept: Sequence[bool]) -> Runs:
    """Return the rows of the pages that are kept."""
    runs: Runs = []
    start = 0
    for page, keep in zip(pages, is_kept, strict=True):
        stop = start + page.num_rows
        if keep and stop > start:
            if runs and runs[-1][1] == start:
                runs[-1] = runs[-1][0], stop
            else:
                runs.append((start, stop))
        start = stop
    return runs


def _union(parts: list[Runs]) -> Runs:
    runs: Runs = []
    for start, stop in sorted(run for part in parts for run in part):
        if runs and start <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(stop, runs[-1][1])
        else:
            runs.append((start, stop))
    return runs


def _common(left: Runs, right: Runs) -> Runs:
    runs: Runs = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, stop = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < stop:
            runs.append((start, stop))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return runs
