"""`absent`: which of many keys are nowhere in the files, exactly.

`lookup` says which row groups may hold which keys. Their key column is read, and the keys are compared with its values.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    LiteralError,
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.format.footer import Footer, Plan
from parquet_bloom.format.page_index import Page, index_extents, read_pages
from parquet_bloom.format.schema import LeafColumn, find_leaf, format_path, parse_path
from parquet_bloom.predicates.binding import why_conflicting
from parquet_bloom.results import FailedFile
from parquet_bloom.storage.cache import footer_of
from parquet_bloom.storage.drive import RequestLog, changes, drive
from parquet_bloom.storage.listing import PathLike, Source
from parquet_bloom.storage.local_files import new_file
from parquet_bloom.storage.partitions import PARTITION
from parquet_bloom.tables.stored import stored_columns
from parquet_bloom.values.arrays import numbers_as_arrow
from parquet_bloom.values.interchange import python_values
from parquet_bloom.values.key_sets import KeySet, MetKeys
from parquet_bloom.verbs.common_columns import deleted_rows
from parquet_bloom.verbs.declared import Declared
from parquet_bloom.verbs.exact import INDEX_WORTH, THREAD_WORTH
from parquet_bloom.verbs.lookup import Hit, Search, mark, outcomes
from parquet_bloom.verbs.opening import Opened, OpenLake, Reading, with_reading
from parquet_bloom.verbs.parallel import Progress, Ticker, map_in_order, num_threads
from parquet_bloom.verbs.reading_keys import read_keys

if TYPE_CHECKING:
    import pyarrow as pa

    from parquet_bloom.storage.columns import ColumnChunks

_EXPECTED = (ParquetBloomError, OSError)
"""What is wrong with one file, which does not end a call over many."""

_FEW = 4096
"""Of so many keys it is looked up whether a row group needs to be read for them."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Absent:
    """The keys that are nowhere: `keys`, and `positions`, their indexes among the keys that were given, from 0.

    `unknown` are the keys that were found nowhere, but that a file in `errors` may hold. They are not in `keys`.
    """

    keys: pa.Array
    positions: pa.Int64Array
    unknown: pa.Array
    errors: tuple[FailedFile, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(python_values(self.keys))

    def __bool__(self) -> bool:
        """Raise `TypeError`: no absent keys may mean that all were found, or that files could not be read."""
        raise TypeError("Absent has no truth value; use .keys, or .unknown")

    def __repr__(self) -> str:
        return f"<Absent: {len(self):,} keys, {len(self.unknown):,} unknown, {len(self.errors):,} errors>"

    def to_arrow(self) -> pa.Table:
        """Return the keys as a table of one column, `key`."""
        import pyarrow as pa

        return pa.table({"key": self.keys})

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def write(self, path: str) -> int:
        """Write the keys to a new Parquet file; return how many there are."""
        from pyarrow import parquet

        with new_file(Path(path)) as file:
            parquet.write_table(self.to_arrow(), file)
        return len(self)


@with_reading
def absent(
    paths: PathLike | Iterable[PathLike] | Any,
    column: str,
    keys: Any,
    **how: Unpack[Reading],
) -> Absent:
    """Return which of `keys` are nowhere in the files, exactly.

    Of the row groups that may hold keys, the key column is read. The keys come in their order, each as often as it was
    given. A NULL key equals nothing, so it is absent; NaN equals NaN, and `0.0` equals `-0.0`. It is the answer of
    SQL's anti join. What engines do not agree on is refused, such as the key 0.1 in a FLOAT column.

    Tables are named as for `prune`, and only live rows count. A key that may be in a file that cannot be read is not
    absent, but `unknown`.

    Args:
        paths: Files, directories, globs or fsspec URLs: one, a list, or a column of Arrow, Polars or DuckDB. Or a
            table.
        column: The leaf column that holds the keys. It may be in a struct, and not in a list.
        keys: The keys, as for `lookup`.

    Returns:
        An `Absent`. `.errors` are the files that could not be read.

    Raises:
        FileNotFoundError: A path names nothing.
        TypeError: The keys are none of these.
        ColumnNotFoundError: No file has the column, or it is a partition's.
        LiteralError: A column cannot be compared with a key.
        UnsupportedError: The answer would not be exact.

    Examples:
        >>> parquet_bloom.absent("events", "id", [5000, 7, 5001]).to_arrow().to_pylist()
        [{'key': 5000}, {'key': 5001}]
        >>> parquet_bloom.absent("events", "id", [5000, 7, 5001]).positions.to_pylist()
        [0, 2]
    """
    return absent_lake(OpenLake(paths, **how), column, keys)


def absent_lake(lake: OpenLake, column: str, keys: Any) -> Absent:
    """Return what `absent` does of files that are open."""
    path = parse_path(column)
    read = read_keys(keys, path[-1])
    opened = lake.opened()
    declared = Declared.of(opened.table)
    # No budget: a row group that keys pass by chance is read in any case.
    search = Search.of(lake, opened, path, read, view=declared and declared.at(path), budget=0)
    return _Answer(search, opened, declared, strict=lake.strict, log=lake.log).after_reading(lake.progress)


@dataclass(frozen=True, eq=False)
class _Part:
    """A row group to read; `keys` are those that it may hold, by index, None for all; `deleted` the rows to ignore."""

    source: Source
    footer: Footer
    leaf: LeafColumn
    row_group: int
    chunks: ColumnChunks
    keys: Sequence[Sequence[int] | None]
    met: MetKeys
    deleted: Sequence[int] = ()

    @cached_property
    def num_bytes(self) -> int:
        """How many bytes are read at most."""
        return self.chunks.num_bytes(self.row_group, self.leaf)

    @cached_property
    def is_plain(self) -> bool:
        """Whether it can be read together with others: it is small, and has neither secrets nor a dictionary alone."""
        return (
            self.num_bytes < INDEX_WORTH * 4
            and not self.deleted
            and self.footer.seal_of_pages(self.row_group, self.leaf) is None
            and not self.chunks.has_dictionary_alone(self.row_group, self.leaf)
        )


class _Answer:
    """What is known of the keys, by index: which were `_seen`, and which a file may hold that cannot be read."""

    def __init__(
        self, search: Search, opened: Opened, declared: Declared | None, *, strict: bool, log: RequestLog | None
    ) -> None:
        self._search, self._opened, self._strict, self._log = search, opened, strict, log
        self._seen, self._doubted = bytearray(len(search.keys)), bytearray(len(search.keys))
        self._failed: dict[str, FailedFile] = {}
        self._met: dict[KeySet, MetKeys] = {}
        self._declared = declared

    def after_reading(self, progress: Progress | None) -> Absent:
        """Return the answer."""
        parts = list(self._parts(self._candidates(progress)))
        tick = Ticker(progress, len(parts))
        for part, outcome in self._read_all(parts):
            tick()
            if outcome is not None:
                self._fail(part.source, outcome, part.keys)
        for source, error in changes(list(dict.fromkeys(part.source for part in parts))).items():
            self._fail(source, error)
        return self._result()

    def _fail(self, source: Source, error: Exception, keys: Iterable[Sequence[int] | None] = (None,)) -> None:
        """Note that a file which may hold these keys cannot be read."""
        if self._strict or not isinstance(error, _EXPECTED):
            raise error
        self._failed.setdefault(source.name, FailedFile(source.name, describe_error(error)))
        for some in keys:
            mark(self._doubted, some)

    def _result(self) -> Absent:
        import pyarrow as pa
        import pyarrow.compute as pc

        shown = self._search.keys.shown
        seen, doubted = (numbers_as_arrow(flags, pa.uint8()).cast(pa.bool_()) for flags in (self._seen, self._doubted))
        doubted = pc.and_(doubted, shown.is_valid())  # no file holds NULL as a key
        positions = pc.indices_nonzero(pc.invert(pc.or_(seen, doubted)))
        unknown = pc.and_not(doubted, seen)
        return Absent(
            shown.take(positions), positions.cast(pa.int64()), shown.filter(unknown), tuple(self._failed.values())
        )

    # -- candidates --

    def _candidates(self, progress: Progress | None) -> dict[Source, list[Hit]]:
        """Return the files that may hold keys, with their row groups."""
        search = self._search
        found: dict[Source, list[Hit]] = {}
        lacking: dict[Source, ColumnNotFoundError] = {}
        unfit: LiteralError | None = None
        for source, outcome in outcomes(self._opened.sources, search, progress=progress, log=self._log):
            if not isinstance(outcome, Exception):
                found[source] = outcome
                continue
            found.pop(source, None)
            if isinstance(outcome, ColumnNotFoundError):
                if self._is_partition(source):
                    raise outcome
                if self._is_declared:
                    found[source] = []
                    if self._declared.may_have_values(source, search.path[0]):  # type: ignore[union-attr]
                        self._fail(source, outcome)
                else:
                    lacking[source] = outcome  # none of its rows has a key
            elif isinstance(outcome, LiteralError):
                unfit = unfit or outcome
            else:
                self._fail(source, outcome)
        if search.findings.conflicting and self._declared is None:
            raise UnsupportedError(why_conflicting(format_path(search.path)))
        if unfit:
            raise unfit
        if lacking and not found and not self._failed:
            raise next(iter(lacking.values()))
        if self._has_other_spelling():
            for source, error in lacking.items():
                self._fail(source, error)
        return {source: hits for source in self._opened.sources if (hits := found.get(source))}

    @property
    def _is_declared(self) -> bool:
        """Whether a table has the column, also if files lack it."""
        return self._declared is not None and self._search.path[0] in self._declared.columns

    def _is_partition(self, source: Source) -> bool:
        table = self._opened.table
        names = source.partitions.constants if table is None else table.files[source].partition
        return len(self._search.path) == 1 and self._search.path[0] in names

    def _has_other_spelling(self) -> bool:
        """Return whether a file has a column whose name an engine may take for that of the keys."""
        wanted = [part.casefold() for part in self._search.path]
        leaves = chain.from_iterable(self._search.leaves(footer) for _, footer in self._search.schemas.values())
        return any(leaf.path != self._search.path and [p.casefold() for p in leaf.path] == wanted for leaf in leaves)

    # -- reading --

    def _parts(self, found: dict[Source, list[Hit]]) -> Iterator[_Part]:
        """Yield the row groups to read."""
        search = self._search
        plans = ((source, footer_of(source, search.cache, search.decryption)) for source in found)
        for source, outcome in drive(plans, limits=search.limits, log=self._log):
            hits = found[source]
            try:
                if isinstance(outcome, Exception):
                    raise outcome
                footer = outcome
                leaf = self._leaf(source, footer)
                deleted = array("q")
                if (table := self._opened.table) is not None:
                    deleted = deleted_rows(table.snapshot, table.files[source], footer)
            except _EXPECTED as error:
                self._fail(source, error, [hit.keys for hit in hits])
                continue
            if leaf is not None:
                yield from self._parts_of(source, footer, leaf, deleted, hits)

    def _leaf(self, source: Source, footer: Footer) -> LeafColumn | None:
        """Return the leaf with the keys, None if the file's rows have none. Raises what makes its values doubtful."""
        path, table = self._search.path, self._opened.table
        if table is None:
            return footer.leaves[source.find_leaf(self._search.leaves(footer), path).index]
        live = table.files[source]
        if live.unreadable is not None:
            raise UnsupportedError(live.unreadable)
        columns = None if self._declared is None else self._declared.columns
        stored = stored_columns(table.snapshot, live, footer, columns)
        if (reason := stored.unread.get(path[0])) is not None:
            raise UnsupportedError(reason)
        if path[0] in stored.constants:
            raise UnsupportedError(PARTITION)
        if live.own_names is None:
            leaf = table.snapshot.find(footer, path)
        elif (own := stored.names.get(path[0])) is None:
            return None
        else:
            leaf = find_leaf(footer.leaves, (own, *path[1:]), where="the file")
        if self._declared is not None and (reason := self._declared.at(path).why_other(leaf)):
            raise UnsupportedError(reason)
        return leaf

    def _parts_of(
        self, source: Source, footer: Footer, leaf: LeafColumn, deleted: array[int], hits: Iterable[Hit]
    ) -> Iterator[_Part]:
        from parquet_bloom.storage.columns import ColumnChunks

        met = self._met_keys(leaf)
        of_groups: dict[int, list[Sequence[int] | None]] = {}
        for hit in hits:
            numbers = range(footer.num_row_groups) if hit.row_group is None else [hit.row_group]
            for number in numbers:
                if footer.row_groups[number].num_rows:
                    of_groups.setdefault(number, []).append(hit.keys)
        chunks = ColumnChunks(source, footer)
        starts = list(accumulate((one.num_rows for one in footer.row_groups), initial=0)) if deleted else []
        for number, some in sorted(of_groups.items(), key=lambda one: one[0]):
            try:
                if problem := footer.chunk_problem(number, leaf):
                    raise CorruptFileError(problem)
                footer.seal_of_pages(number, leaf)
            except _EXPECTED as error:
                self._fail(source, error, some)
                continue
            gone: Sequence[int] = ()
            if deleted:
                start, stop = (bisect_left(deleted, row) for row in starts[number : number + 2])
                gone = [row - starts[number] for row in deleted[start:stop]]
            yield _Part(source, footer, leaf, number, chunks, some, met, gone)

    def _met_keys(self, leaf: LeafColumn) -> MetKeys:
        """Return the keys as a leaf stores them, to be met."""
        if leaf.is_repeated:
            raise UnsupportedError(f"column {leaf.name} is in a list, so a row has many values of it")
        keys, _ = self._search.bound(leaf)
        if keys not in self._met:
            self._met[keys] = MetKeys(keys, self._seen)
        return self._met[keys]

    def _read_all(self, parts: list[_Part]) -> Iterator[tuple[_Part, Exception | None]]:
        """Yield row groups, each with the error that it gave, if it did."""
        if not parts:
            return iter(())
        is_local = all(part.source.is_local for part in parts)
        num_bytes = sum(part.num_bytes for part in parts)
        threads = min(num_threads(None), len(parts), 1 + num_bytes // THREAD_WORTH)
        units = list(_units(parts))
        each = 1 if is_local else -(-len(units) // threads)  # of stores, each thread has many requests under way
        shares = [units[start : start + each] for start in range(0, len(units), each)]
        limits = self._search.limits
        limits = replace(
            limits,
            files=max(1, limits.files // threads),
            in_flight=max(1, limits.in_flight // threads),
            round_bytes=max(1, limits.round_bytes // threads),
        )

        def read(share: list[list[_Part]]) -> list[tuple[_Part, Exception | None]]:
            done: list[tuple[_Part, Exception | None]] = []
            plans = ((unit[0].source, self._read_unit(unit)) for unit in share)
            for unit, (_, outcome) in zip(share, drive(plans, limits=limits, log=self._log), strict=True):
                if isinstance(outcome, Exception) and len(unit) > 1:  # which of them has it?
                    each_alone = ((part.source, self._read(part)) for part in unit)
                    outcomes = [outcome for _, outcome in drive(each_alone, limits=limits, log=self._log)]
                    done += zip(unit, outcomes, strict=True)
                else:
                    done += [(part, outcome) for part in unit]
            return done

        done = map(read, shares) if threads == 1 else map_in_order(read, shares, threads, threading.Event())
        return chain.from_iterable(done)

    def _read_unit(self, unit: list[_Part]) -> Plan[None]:
        """Plan to look for the keys in row groups."""
        needed = [part for part in unit if self._is_needed(part)]
        if len(needed) == 1:
            yield from self._read(needed[0])
        elif needed:
            first = needed[0]
            row_groups = [part.row_group for part in needed]
            for values in (yield from first.chunks.read_together(row_groups, first.leaf)):
                first.met.meet(values)

    def _read(self, part: _Part) -> Plan[None]:
        """Plan to look for the keys in a row group."""
        if not self._is_needed(part):
            return
        if part.chunks.has_dictionary_alone(part.row_group, part.leaf):
            (dictionary,) = yield from part.chunks.read(part.row_group, part.leaf)
            if not part.met.has_new(dictionary):
                return
        pages = None if part.deleted else (yield from self._pages(part))
        if pages == []:
            return
        row = 0
        # A dictionary may have values that no row has.
        for values in (yield from part.chunks.read(part.row_group, part.leaf, pages, each=True)):
            part.met.meet(_without(part.deleted, values, row) if part.deleted else values)
            row += len(values)
            if not self._is_needed(part):
                return

    def _is_needed(self, part: _Part) -> bool:
        """Return whether there is a key that the row group may hold, and that was not found yet."""
        if part.met.is_complete:
            return False
        if any(some is None or len(some) > _FEW for some in part.keys):
            return True
        return any(not self._seen[key] for some in part.keys if some is not None for key in some)

    def _pages(self, part: _Part) -> Plan[list[Page] | None]:
        """Plan to return the pages that may hold keys; None if the page index does not tell."""
        footer, leaf, chunks = part.footer, part.leaf, part.chunks
        keys, reader = self._search.bound(leaf)
        if (
            keys.unusable
            or keys.wide.owners
            or len(self._search.keys) > _FEW
            or chunks.has_dictionary_alone(part.row_group, leaf)
            or part.num_bytes < INDEX_WORTH
            or reader.why_no_pages(footer)
            or not index_extents(footer, part.row_group, leaf)
        ):
            return None
        pages = yield from read_pages(footer, part.row_group, leaf)
        if pages is None:
            return None
        runs = [keys.within(reader.read_page(footer, page.num_rows, page.bounds)) for page in pages]
        return [page for page, (start, stop) in zip(pages, runs, strict=True) if start < stop]


def _without(deleted: Sequence[int], values: pa.Array, first: int) -> pa.Array:
    """Return the values of live rows, of which the first has this number in the row group."""
    import pyarrow as pa
    import pyarrow.compute as pc

    start, stop = bisect_left(deleted, first), bisect_left(deleted, first + len(values))
    gone = pa.array([row - first for row in deleted[start:stop]], pa.int64())
    rows = pa.array(range(len(values)), pa.int64())
    return values.filter(pc.invert(pc.is_in(rows, gone)))


def _units(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Yield row groups that are read together: some small ones of a file, or a single one."""
    waiting: list[_Part] = []
    num_bytes = 0
    for part in parts:
        if waiting and not (
            part.source is waiting[0].source and part.is_plain and num_bytes + part.num_bytes <= UNIT_BYTES
        ):
            yield waiting
            waiting, num_bytes = [], 0
        waiting.append(part)
        num_bytes += part.num_bytes if part.is_plain else UNIT_BYTES
    if waiting:
        yield waiting


UNIT_BYTES = 4 * 1024 * 1024
"""Row groups of so many bytes are decoded together."""
