"""Rows that match, read from the row groups that can hold some.

Of each, the columns of the condition are read first, and of these only the pages that can hold such rows; the condition
is evaluated on every row of them, and the other columns are read only where rows match.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import (
    UnsupportedError,
    describe_error,
)
from parquet_bloom.format.footer import Footer, Plan, together, with_tail, without_repeats
from parquet_bloom.format.page_index import Page, index_extents, read_pages
from parquet_bloom.format.schema import (
    ColumnPath,
    LeafColumn,
)
from parquet_bloom.predicates.pages import Runs
from parquet_bloom.results import FailedFile, in_unicode
from parquet_bloom.storage.drive import Limits, RequestLog, changes, drive
from parquet_bloom.storage.listing import Source
from parquet_bloom.tables.columns import constant
from parquet_bloom.values.arrays import numbers_as_arrow, numbers_of
from parquet_bloom.verbs.common_columns import CommonColumns, File, Group, shown_name
from parquet_bloom.verbs.exact import INDEX_WORTH, THREAD_WORTH
from parquet_bloom.verbs.parallel import Progress, Ticker, map_in_order, num_threads

if TYPE_CHECKING:
    import pyarrow as pa


BATCH_ROWS = 64 * 1024

TOGETHER = 64 * 1024
"""Of a store, columns of at most so many bytes are read beside those of the condition: a request takes longer."""


class RowTest:
    """Which rows of a row group match: a condition or keys, as the files' common types have them."""

    names: tuple[str, ...]
    """The top-level columns that it takes."""

    def leaves(self, group: Group, footer: Footer) -> list[LeafColumn]:
        """Return the columns whose pages' bounds exclude rows."""
        raise AssertionError

    def runs(self, group: Group, footer: Footer, pages: Mapping[int, Sequence[Page]]) -> Runs | None:
        """Return the rows that pages leave, None for all."""
        raise AssertionError

    def mask(self, group: Group, columns: Mapping[ColumnPath, Any]) -> Any:
        """Return which rows match, without nulls."""
        raise AssertionError

    paths: tuple[ColumnPath, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReader:
    """Reads the row groups that are left."""

    shape: CommonColumns
    chosen: list[ColumnPath]
    test: RowTest
    positions: bool
    strict: bool
    limits: Limits
    log: RequestLog | None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        import pyarrow as pa

        fields = [pa.field(shown_name(path), self.shape.type_of(path)) for path in self.chosen]
        if self.positions:
            fields += [pa.field("path", pa.string()), pa.field("row_group", pa.int32()), pa.field("row", pa.int64())]
        return pa.schema(fields)

    def batches(
        self, files: Sequence[File], failed: dict[str, FailedFile], progress: Progress | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows; files that cannot be read are added to `failed`."""
        units = [(file, group) for file in files for group in file.groups]
        tick = Ticker(progress, len(units))
        for source, outcome in self._outcomes(units):
            tick()
            if isinstance(outcome, Exception):
                if self.strict:
                    raise outcome
                failed.setdefault(source.name, FailedFile(source.name, describe_error(outcome)))
            elif outcome is not None:
                yield from outcome.to_batches(max_chunksize=BATCH_ROWS)
        for source, error in changes([file.source for file in files]).items():
            if self.strict:
                raise error
            failed.setdefault(source.name, FailedFile(source.name, describe_error(error)))

    def _outcomes(self, units: list[tuple[File, Group]]) -> Iterator[tuple[Source, Any]]:
        def read(some: Iterable[tuple[File, Group]]) -> Iterator[tuple[Source, Any]]:
            plans = ((file.source, self._plan(file, group)) for file, group in some)
            return drive(plans, limits=self.limits, log=self.log)

        if not all(file.source.is_local for file, _ in units):
            return read(units)
        num_bytes = sum(file.rows.num_bytes(group.row_group, self._first(file)) for file, group in units)
        threads = min(num_threads(None), len(units), 1 + num_bytes // THREAD_WORTH)
        if threads <= 1:
            return read(units)
        done = map_in_order(lambda unit: list(read([unit])), units, threads, threading.Event())
        return chain.from_iterable(done)

    def _first(self, file: File) -> list[str]:
        """Return the condition's columns that a file stores, under their names there."""
        return [file.names[name] for name in self.test.names if self._is_stored(file, name)]

    def _is_stored(self, file: File, name: str) -> bool:
        return name in file.names and name not in self.shape.partitions

    def _require_readable(self, file: File) -> None:
        """Raise `UnsupportedError` if the file does not tell the values of a column that is needed."""
        for name in (*self.test.names, *(path[0] for path in self.chosen)):
            if (reason := file.unread.get(name)) is not None:
                raise UnsupportedError(f"column {name}: {reason}")

    def _plan(self, file: File, group: Group) -> Plan[pa.Table | None]:
        plan, footer = self._read(file, group), file.footer
        if file.source.is_local:
            return plan
        # Page indexes come after the pages, and are needed more than once.
        return with_tail(footer, without_repeats(plan, start=footer.row_groups[group.row_group].stop))

    def _read(self, file: File, group: Group) -> Plan[pa.Table | None]:
        """Plan to return the rows of a row group that match; None if there are none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self._require_readable(file)
        num_rows = file.footer.row_groups[group.row_group].num_rows
        first = self._first(file)
        wanted = dict.fromkeys(path[0] for path in self.chosen)
        rest = [file.names[name] for name in wanted if self._is_stored(file, name) and file.names[name] not in first]
        runs = yield from self._runs(file, group, rest)
        if runs == []:
            return None
        some = None if runs in (None, [(0, num_rows)]) else array("q", chain.from_iterable(starmap(range, runs or ())))
        if not file.source.is_local and file.rows.num_bytes(group.row_group, rest) <= TOGETHER:
            first, rest = first + rest, []
        stored = yield from file.rows.read(group.row_group, first, some)
        count = num_rows if some is None else len(some)
        columns = self._columns(file, stored, count, self.test.names)
        mask = self.test.mask(group, {path: self.shape.at(columns, path) for path in self.test.paths})
        if not self.test.paths:  # which says the same of every row
            mask = pa.repeat(mask[0], count)
        at = pc.indices_nonzero(mask).cast(pa.int64())
        hits = at if some is None else numbers_as_arrow(some).take(at)
        if file.deleted and len(at):
            is_live = self._are_live(file, group, hits)
            at, hits = at.filter(is_live), hits.filter(is_live)
        if not len(at):
            return None
        stored = {name: column.take(at) for name, column in stored.items()}
        if rest:
            stored |= yield from file.rows.read(group.row_group, rest, numbers_of(hits))
        return self._table(file, group, self._columns(file, stored, len(hits), wanted), hits)

    def _are_live(self, file: File, group: Group, hits: Any) -> Any:
        """Return which of a row group's rows are not deleted."""
        import pyarrow.compute as pc

        before = _rows_before(file, group)
        start, stop = (
            bisect_left(file.deleted, row)
            for row in (before, before + file.footer.row_groups[group.row_group].num_rows)
        )
        deleted = numbers_as_arrow(file.deleted[start:stop])
        return pc.invert(pc.is_in(pc.add(hits, before), value_set=deleted))

    def _runs(self, file: File, group: Group, rest: Iterable[str]) -> Plan[Runs | None]:
        """Plan to return the rows that the page indexes of the condition's columns leave.

        Of a store, where the pages of the `rest` are comes along: later it would take a round of its own.
        """
        footer, row_group = file.footer, group.row_group
        leaves = [
            leaf
            for leaf in self.test.leaves(group, footer)
            if not footer.is_encrypted(row_group, leaf)
            and file.rows.num_bytes(row_group, [leaf.path[0]]) >= INDEX_WORTH
            and index_extents(footer, row_group, leaf)
        ]
        if not leaves:
            return None
        plans = [read_pages(footer, row_group, leaf) for leaf in leaves]
        ahead = [] if file.source.is_local else file.rows.read_ahead(row_group, rest)
        pages = yield from together([*plans, *ahead])
        known = {leaf.index: of_leaf for leaf, of_leaf in zip(leaves, pages, strict=False) if of_leaf is not None}
        return self.test.runs(group, footer, known) if known else None

    def _columns(self, file: File, stored: Mapping[str, Any], count: int, names: Iterable[str]) -> dict[str, Any]:
        """Return columns as all files have them: in common types, with partitions, and nulls for what is missing."""
        import pyarrow as pa

        columns = {}
        for name in names:
            kind = self.shape.fields[name]
            if name in self.shape.partitions:
                column = pa.repeat(pa.scalar(file.constants.get(name)).cast(kind), count)
            elif name in file.names:
                column = self.shape.converted(name, stored[file.names[name]])
            elif name in file.constants:
                column = pa.repeat(constant(name, file.constants[name], kind), count)
            else:
                column = pa.repeat(self.shape.initial(name), count)
            columns[name] = column
        return columns

    def _table(self, file: File, group: Group, columns: Mapping[str, Any], hits: Any) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        arrays = [self.shape.at(columns, path) for path in self.chosen]
        if self.positions:
            arrays += [
                pa.repeat(pa.scalar(in_unicode(file.source.name)), len(hits)),
                pa.repeat(pa.scalar(group.row_group, pa.int32()), len(hits)),
                pc.add(hits, _rows_before(file, group)),
            ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _rows_before(file: File, group: Group) -> int:
    return sum(one.num_rows for one in file.footer.row_groups[: group.row_group])
