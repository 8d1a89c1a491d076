"""What `advise` knows of a column: the bounds of its row groups from footers, and the values of a few of them."""

from __future__ import annotations

import math
import random
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate, cycle, islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from parquet_bloom.errors import ParquetBloomError, describe_error
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import ColumnPath, LeafColumn
from parquet_bloom.predicates.binding import comparable_type
from parquet_bloom.predicates.evaluation import chunk_facts
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.listing import Source
from parquet_bloom.values.arrays import hash_array, is_nan, numbers_as_arrow, plain_value
from parquet_bloom.values.encoding import hash_plain
from parquet_bloom.values.ordering import Key, key_function
from parquet_bloom.values.statistics import StatisticsReader
from parquet_bloom.verbs.parallel import Progress, Ticker, map_in_order, num_threads

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLED_GROUPS = 16
"""Row groups of a column whose values are read."""

SAMPLED_BYTES = 256 * 1024 * 1024
"""Bytes that all columns share for their samples; each gets two row groups in any case."""

_DRAWN = 32
"""Values that are drawn from each row group of a sample."""


class Point(NamedTuple):
    """A value: where it lies between bounds, if its type has an order, and its hash."""

    key: Key | None
    hash: int


class Group(NamedTuple):
    """A row group: its file's number in the call, what there is to read of it, and what is known of one column.

    `low` and `high` are None where bounds cannot be trusted. `is_empty`: it has no value of the column but NULL.
    """

    file: int
    row_group: int
    num_bytes: int
    num_values: int
    low: Key | None
    high: Key | None
    is_empty: bool
    has_filter: bool

    @property
    def has_values(self) -> bool:
        """Return whether it has a value of the column that is not NULL."""
        return self.num_values > 0 and not self.is_empty

    @property
    def share(self) -> float:
        """How likely it is to be sampled: the larger the likelier, but a hundred times larger is ten times likelier."""
        return math.sqrt(self.num_values)

    def is_open(self, key: Key | None) -> bool:
        """Return whether statistics let it hold a value."""
        if self.is_empty or self.low is None or self.high is None or key is None:
            return not self.is_empty
        return bool(self.low <= key <= self.high)


@dataclass(slots=True)
class SampledGroup:
    """The distinct hashes of a row group, and values of rows drawn at random."""

    number: int
    hashes: pa.UInt64Array
    drawn: list[Point]


@dataclass(slots=True)
class ColumnSample:
    """A column in all row groups that were looked at, and in those of its sample; `error` if none could be read."""

    path: ColumnPath
    leaf: LeafColumn
    groups: list[Group] = field(default_factory=list)
    sampled: list[SampledGroup] = field(default_factory=list)
    error: str | None = None

    def counts(self) -> dict[int, int]:
        """Return for each row group with values how many are distinct: as in those of the sample of about its size."""
        known = {one.number: len(one.hashes) for one in self.sampled}
        ratios: dict[int, list[float]] = {}
        for number, ndv in known.items():
            num_values = self.groups[number].num_values
            ratios.setdefault(num_values.bit_length(), []).append(ndv / num_values)
        turns: dict[int, Iterator[float]] = {}
        counts = {}
        for number, group in enumerate(self.groups):
            if group.has_values:
                size = group.num_values.bit_length()
                if size not in turns:
                    turns[size] = cycle(ratios[min(ratios, key=lambda one: abs(one - size))])
                counts[number] = known.get(number) or max(1, round(next(turns[size]) * group.num_values))
        return counts


class FileColumns(NamedTuple):
    """A file to look at: its footer, and its leaf columns under the names of the one who asks."""

    source: Source
    footer: Footer
    leaves: Sequence[LeafColumn]

    def leaf(self, path: ColumnPath) -> LeafColumn:
        """Return the leaf at a path as the file has it."""
        return next(self.footer.leaves[seen.index] for seen in self.leaves if seen.path == path)


def collect(files: Sequence[FileColumns], paths: Iterable[ColumnPath] | None) -> dict[ColumnPath, ColumnSample]:
    """Return each leaf column, or those at `paths`, with its row groups; nothing is sampled yet."""
    wanted = None if paths is None else set(paths)
    columns: dict[ColumnPath, ColumnSample] = {}
    for number, file in enumerate(files):
        for seen in file.leaves:
            if (wanted is not None and seen.path not in wanted) or not seen.path[0]:
                continue
            leaf = file.footer.leaves[seen.index]
            column = columns.setdefault(seen.path, ColumnSample(seen.path, leaf))
            is_alike = comparable_type(leaf) == comparable_type(column.leaf)
            facts = chunk_facts(file.footer, StatisticsReader(leaf))
            for row_group, (extent, fact) in enumerate(zip(file.footer.row_groups, facts, strict=True)):
                if extent.num_rows == 0:
                    continue
                has_bounds = is_alike and fact.problem is None
                column.groups.append(
                    Group(
                        number,
                        row_group,
                        extent.stop - extent.start,
                        max(0, fact.known.num_values - (fact.known.null_count or 0)),
                        fact.known.low if has_bounds else None,
                        fact.known.high if has_bounds else None,
                        fact.problem is None and fact.known.is_all_null,
                        fact.location is not None,
                    )
                )
    return columns


def sample(
    columns: Sequence[ColumnSample],
    files: Sequence[FileColumns],
    jobs: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Read the values of a few row groups of each column, the same ones for all columns as far as they have values."""
    share = SAMPLED_BYTES // max(1, len(columns))
    work = [(column, number) for column in columns for number in _chosen(column, files, share)]
    ticker = Ticker(progress, len(work))

    def read(item: tuple[ColumnSample, int]) -> tuple[ColumnSample, SampledGroup | str]:
        column, number = item
        group = column.groups[number]
        try:
            return column, _read(column, number, files[group.file])
        except (ParquetBloomError, OSError) as error:
            return column, describe_error(error)
        finally:
            ticker()

    with closing(map_in_order(read, work, num_threads(jobs), threading.Event())) as outcomes:
        for column, outcome in outcomes:
            if isinstance(outcome, str):
                column.error = outcome
            else:
                column.sampled.append(outcome)
    for column in columns:
        if column.sampled:
            column.error = None


def _chosen(column: ColumnSample, files: Sequence[FileColumns], share: int) -> Iterator[int]:
    """Yield the numbers of the row groups to read, as far as their bytes allow."""
    spent = 0
    for count, number in enumerate(islice(_in_pairs(column.groups), SAMPLED_GROUPS)):
        group = column.groups[number]
        file = files[group.file]
        chunk = file.footer.column_chunk(group.row_group, file.leaf(column.path).index).meta_data
        spent += max(0, (chunk.total_compressed_size or 0) if chunk else 0)
        if count >= 2 and spent > share:
            return
        yield number


def _in_pairs(groups: Sequence[Group]) -> Iterator[int]:
    """Yield the numbers of row groups that have values, at random, but the same for every call.

    They come from all parts of the files, since what is written together is alike. Each is followed by another nearby,
    in turns of its own file and of another, because values are shared most often there.
    """
    numbers = [number for number, group in enumerate(groups) if group.has_values]
    generator = random.Random(0)
    drawn = {number: generator.expovariate(groups[number].share) for number in numbers}
    total = sum(groups[number].share for number in numbers)
    parts: list[list[int]] = [[] for _ in range(SAMPLED_GROUPS // 2)]
    before = 0.0
    for number in numbers:
        middle = before + groups[number].share / 2
        parts[min(int(len(parts) * middle / total), len(parts) - 1)].append(number)
        before += groups[number].share
    generator.shuffle(parts)
    turns = [sorted(part, key=drawn.__getitem__) for part in parts]
    taken: set[int] = set()
    for turn, first in enumerate(one for several in zip_longest(*turns) for one in several if one is not None):
        if first in taken:
            continue
        taken.add(first)
        yield first
        second = _partner(groups, numbers, first, taken, turn)
        if second is not None:
            taken.add(second)
            yield second


def _partner(groups: Sequence[Group], numbers: Sequence[int], first: int, taken: set[int], turn: int) -> int | None:
    """Return a row group 1, 2, 4 or 8 away: in even turns of the same file if it has one, in odd ones of another."""
    at = bisect_left(numbers, first)
    near = [number for number in numbers[max(0, at - _NEAR) : at + _NEAR] if number not in taken]
    wanted = [number for number in near if (groups[number].file == groups[first].file) == (turn % 2 == 0)]
    distance = 1 << turn // 2 % 4
    return min(wanted or near, key=lambda number: abs(abs(number - first) - distance), default=None)


_NEAR = 64


def chances(groups: Sequence[Group], sampled: Iterable[int]) -> dict[int, float]:
    """Return for each row group of a sample how likely it is to be in one."""
    numbers = list(sampled)
    sizes = sorted((group.share for group in groups if group.has_values), reverse=True)
    left, total = len(numbers), sum(sizes)
    for size in sizes:  # the large ones are in every sample
        if left <= 0 or size * left < total:
            break
        left, total = left - 1, total - size
    rate = left / total if left > 0 and total > 0 else math.inf
    return {number: min(1.0, rate * groups[number].share) for number in numbers}


def _read(column: ColumnSample, number: int, file: FileColumns) -> SampledGroup:
    import pyarrow as pa
    import pyarrow.compute as pc

    group = column.groups[number]
    leaf = file.leaf(column.path)
    chunks = ColumnChunks(file.source, file.footer)
    generator = random.Random(number)
    arrays: list[pa.UInt64Array] = []
    drawn: list[bytes] = []
    seen = 0
    for values in chunks.values(group.row_group, leaf, each=True):
        hashes = hash_array(leaf, values)
        arrays.append(pc.unique(numbers_as_arrow(hashes, pa.uint64())))
        present = values.drop_null()
        seen += len(present)
        for _ in range(min(_DRAWN, len(present))):  # a reservoir of batches: each has its share of the values
            plain = plain_value(present, generator.randrange(len(present)))
            if len(drawn) < _DRAWN:
                drawn.append(plain)
            elif generator.random() < len(present) / seen:
                drawn[generator.randrange(_DRAWN)] = plain
    # A value of a type that the column's bounds do not have is not compared with them.
    key = key_function(leaf) if comparable_type(leaf) == comparable_type(column.leaf) else None
    points = [Point(key(plain) if key else None, hash_plain(plain)) for plain in drawn if not is_nan(leaf, plain)]
    return SampledGroup(number, pc.unique(pa.chunked_array(arrays, pa.uint64()).combine_chunks()), points)


# ---- what a lookup reads -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reads:
    """Row groups, and their bytes; on average, so they may be fractions."""

    row_groups: float
    num_bytes: float

    def __add__(self, other: Reads) -> Reads:
        return Reads(self.row_groups + other.row_groups, self.num_bytes + other.num_bytes)

    def __sub__(self, other: Reads) -> Reads:
        return Reads(self.row_groups - other.row_groups, self.num_bytes - other.num_bytes)

    def __rmul__(self, factor: float) -> Reads:
        return Reads(factor * self.row_groups, factor * self.num_bytes)


def sum_of(groups: Iterable[Group]) -> Reads:
    """Return these row groups together."""
    sizes = [group.num_bytes for group in groups]
    return Reads(len(sizes), sum(sizes))


class Bounds:
    """The bounds of a column's row groups, to count how many of them are open to a value."""

    def __init__(self, groups: Sequence[Group]) -> None:
        bounded = [group for group in groups if group.low is not None and not group.is_empty]
        self._always = sum_of(group for group in groups if group.low is None and not group.is_empty)
        self._starts = _Sums((group.low, group.num_bytes) for group in bounded)
        self._stops = _Sums((group.high, group.num_bytes) for group in bounded)

    def open_to(self, key: Key | None) -> Reads:
        """Return how many row groups, and of how many bytes, statistics leave open to a value."""
        if key is None:
            return self._always + self._starts.all
        return self._always + self._starts.until(key) - self._stops.below(key)


class _Sums:
    """Row groups in the order of one of their bounds, with the bytes of all up to each."""

    def __init__(self, bounds: Iterable[tuple[Any, int]]) -> None:
        ordered = sorted(bounds, key=lambda one: one[0])
        self._keys = [key for key, _ in ordered]
        self._bytes = list(accumulate((num_bytes for _, num_bytes in ordered), initial=0))

    @property
    def all(self) -> Reads:
        return Reads(len(self._keys), self._bytes[-1])

    def until(self, key: Key) -> Reads:
        count = bisect_right(self._keys, key)
        return Reads(count, self._bytes[count])

    def below(self, key: Key) -> Reads:
        count = bisect_left(self._keys, key)
        return Reads(count, self._bytes[count])
