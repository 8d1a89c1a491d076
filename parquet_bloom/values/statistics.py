"""Column statistics: the min, max and null count of a column chunk in the footer, if they can be trusted.

Every rule here exists because some writer's statistics would lose rows without it. What is not trusted is
None, and the reason is kept.
(parquet.thrift: Statistics, ColumnOrder; PARQUET-251, PARQUET-686, PARQUET-1222, PARQUET-1246, PARQUET-1655.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from parquet_bloom.format.footer import (
    HAS_HIGH,
    HAS_LOW,
    HAS_NULL_COUNT,
    HAS_STATISTICS,
    HIGH_IS_EXACT,
    IS_IN_ORDER,
    KNOWS_HIGH_EXACT,
    KNOWS_LOW_EXACT,
    LOW_IS_EXACT,
    ChunkPlaces,
    ChunkRecord,
    Footer,
)
from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.values.ordering import Key, Point, key_function


class ColumnStatistics(NamedTuple):
    """What is known of the non-null values of a column chunk.

    No value is below the key `low` or above `high`; both are None if they cannot be trusted, for the reason in
    `why_untrusted`. Only if `is_exact` are they values of the chunk. `null_count` is None if it is unknown. A column of
    floats may contain NaN, which `low` and `high` ignore.
    """

    num_values: int
    null_count: int | None
    low: Key | None = None
    high: Key | None = None
    is_exact: bool = False
    why_untrusted: str = "there are no statistics"

    @property
    def is_all_null(self) -> bool:
        """Whether all values are null."""
        return self.null_count == self.num_values


class StatisticsReader:
    """Reads the statistics of one leaf's column chunks; what depends on the type alone is computed once."""

    def __init__(self, leaf: LeafColumn) -> None:
        self.leaf = leaf
        self.index: int = leaf.index
        self._is_repeated = leaf.is_repeated
        self._key = key_function(leaf)
        self._is_bytes = leaf.physical_type in (PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY)
        self._is_decimal = leaf.logical_type is not None and leaf.logical_type.name == "DECIMAL"
        self._is_of_any_width = leaf.physical_type is PhysicalType.BYTE_ARRAY and self._is_decimal
        self._is_always_sorted = _is_always_sorted(leaf)
        self._is_signed_integer = self._is_always_sorted and leaf.physical_type in _INTEGERS

    def read_usual(self, footer: Footer, records: Iterable[ChunkRecord]) -> Iterator[ColumnStatistics | None]:
        """Yield the statistics of usual column chunks, and None for the others, which need `read`."""
        key = None if self._why_damaged(footer) or self._why_unsorted(footer) else self._key
        raw = footer.raw
        for (num_rows, _, _), record in zip(footer.row_groups, records, strict=True):
            flags, num_values = record.flags, record.num_values
            nulls = record.null_count if flags & HAS_NULL_COUNT else None
            if key is None or flags & _USUAL != _USUAL or num_values != num_rows or not 0 <= (nulls or 0) < num_values:
                yield None
                continue
            low, high = key(raw[record.low_start : record.low_stop]), key(raw[record.high_start : record.high_stop])
            if low is None or high is None or low > high:
                yield None
                continue
            is_truncated = flags & _LOW_EXACTNESS == KNOWS_LOW_EXACT or flags & _HIGH_EXACTNESS == KNOWS_HIGH_EXACT
            is_exact = not self._is_bytes and not is_truncated
            yield ColumnStatistics(num_values, nulls, low, high, is_exact, "")

    def place(self, footer: Footer, point: Point) -> ChunkPlaces | None:
        """Return where a value lies in the column chunks; None unless all of them are as usual."""
        if self._why_damaged(footer) or self._why_unsorted(footer):
            return None
        return footer.places_in_chunks(self.leaf, *point)

    def read(self, footer: Footer, row_group: int) -> ColumnStatistics:
        """Return the statistics of a column chunk that has no `Footer.chunk_problem`."""
        group, chunk = footer.row_groups[row_group], footer.column_chunk(row_group, self.index).meta_data
        statistics = chunk.statistics
        if chunk.num_values < group.num_rows or (chunk.num_values > group.num_rows and not self._is_repeated):
            problem = f"the column chunk has {chunk.num_values} values in {group.num_rows} rows, which is impossible"
            return ColumnStatistics(chunk.num_values, None, why_untrusted=problem)
        if statistics is None:
            return ColumnStatistics(chunk.num_values, None)
        nulls = statistics.null_count
        if nulls is not None and not 0 <= nulls <= chunk.num_values:
            return ColumnStatistics(chunk.num_values, None, why_untrusted=f"the null count {nulls} is impossible")
        if nulls == chunk.num_values and any(
            (statistics.min_value, statistics.max_value, statistics.min, statistics.max)
        ):
            return ColumnStatistics(
                chunk.num_values, None, why_untrusted="the statistics have a min or max although all values are null"
            )
        pair = self._trusted_pair(footer, statistics)
        if isinstance(pair, str):
            return ColumnStatistics(chunk.num_values, nulls, why_untrusted=pair)
        low, high = pair
        if low is None or high is None:
            return ColumnStatistics(
                chunk.num_values, nulls, why_untrusted="the min or max is not a value of the column's type"
            )
        if low > high:
            return ColumnStatistics(chunk.num_values, nulls, why_untrusted="the min is above the max")
        # Writers truncate long bytes without a note: is_min_value_exact was added later.
        is_exact = not self._is_bytes and not (
            statistics.is_min_value_exact is False or statistics.is_max_value_exact is False
        )
        return ColumnStatistics(chunk.num_values, nulls, low, high, is_exact, "")

    def read_page(self, footer: Footer, num_rows: int, bounds: tuple[bytes, bytes] | None) -> ColumnStatistics:
        """Return the statistics of a data page with these bounds in the page index; None if it has only nulls.

        They are trusted as those of column chunks are.
        """
        if problem := self.why_no_pages(footer):
            return ColumnStatistics(num_rows, None, why_untrusted=problem)
        if bounds is None:
            return ColumnStatistics(num_rows, num_rows)
        assert self._key is not None
        low, high = map(self._key, bounds)
        if low is None or high is None or low > high:
            return ColumnStatistics(num_rows, None, why_untrusted="the bounds of the page are damaged")
        return ColumnStatistics(num_rows, None, low, high, why_untrusted="")

    def why_no_pages(self, footer: Footer) -> str | None:
        """Return why the bounds of pages cannot be trusted in this file, or None."""
        if self._key is None:
            return _NO_ORDER
        return self._why_damaged(footer) or self._why_unsorted(footer)

    def _trusted_pair(self, footer: Footer, statistics: Any) -> tuple[Key | None, Key | None] | str:
        """Return min and max, or why they cannot be trusted."""
        if self._key is None:
            return _NO_ORDER
        if problem := self._why_damaged(footer):
            return problem
        if statistics.min_value is not None and statistics.max_value is not None:
            return self._why_unsorted(footer) or (self._key(statistics.min_value), self._key(statistics.max_value))
        if statistics.min is not None and statistics.max is not None:
            # The deprecated pair was compared as signed bytes for every type.
            if self._is_signed_integer:
                return self._key(statistics.min), self._key(statistics.max)
            return "the statistics use the deprecated order of signed bytes"
        return "there are no statistics"

    def _why_damaged(self, footer: Footer) -> str | None:
        """Return why this writer's statistics of the leaf cannot be trusted, or None."""
        if not self._is_bytes:
            return None
        return _damaged_writer(footer.created_by, is_decimal=self._is_decimal, is_of_any_width=self._is_of_any_width)

    def _why_unsorted(self, footer: Footer) -> str | None:
        """Return why min_value and max_value may not be sorted like the leaf's values, or None."""
        ordered = footer.ordered_by_type
        if ordered is None and not self._is_always_sorted:
            return "the footer does not say how its statistics are sorted"
        # The list of orders may be too short, or have an order that is newer than this version.
        if ordered is not None and (self.index >= len(ordered) or not ordered[self.index]):
            return "the statistics use an unknown sort order"
        return None


_NO_ORDER = "the column's type has no sort order"

_USUAL = IS_IN_ORDER | HAS_STATISTICS | HAS_LOW | HAS_HIGH
_LOW_EXACTNESS, _HIGH_EXACTNESS = KNOWS_LOW_EXACT | LOW_IS_EXACT, KNOWS_HIGH_EXACT | HIGH_IS_EXACT

_INTEGERS = (PhysicalType.INT32, PhysicalType.INT64)


def _is_always_sorted(leaf: LeafColumn) -> bool:
    """Return whether every writer has always sorted this type by its values."""
    logical = leaf.logical_type
    if leaf.physical_type in (PhysicalType.FLOAT, PhysicalType.DOUBLE):
        return logical is None
    if leaf.physical_type not in _INTEGERS:
        return False
    if logical is None or logical.name in ("DATE", "TIME", "TIMESTAMP"):
        return True
    return logical.name == "INTEGER" and logical.is_signed


@lru_cache(maxsize=256)
def _damaged_writer(created_by: str, *, is_decimal: bool, is_of_any_width: bool) -> str | None:
    """Return why a writer's binary statistics cannot be trusted, or None.

    (PARQUET-251, PARQUET-1655; arrow-rs 10860, parquet-go 592: decimals of several widths sorted by their bytes.)
    """
    writer = re.match(r"(.*?)\s+version\s+v?(\d+)\.(\d+)", created_by)
    if writer is None:
        return "the writer is unknown, and some writers store wrong statistics"
    if writer[1] == "parquet-mr" and (int(writer[2]), int(writer[3])) < (1, 8):
        return "parquet-mr before 1.8.0 stores wrong statistics of binary columns"
    is_old_arrow = writer[1] == "parquet-cpp" or (writer[1] == "parquet-cpp-arrow" and int(writer[2]) < 4)
    if is_old_arrow and is_decimal:
        return "Arrow before 4.0 sorted decimals by their bytes"
    if is_of_any_width and writer[1] not in _SORTS_ANY_WIDTH:
        return "the writer may sort decimals of different widths by their bytes"
    return None


_SORTS_ANY_WIDTH = ("parquet-mr", "parquet-cpp-arrow")


def may_have_nulls(footer: Footer, leaf: LeafColumn) -> bool:
    """Return whether a column may hold NULLs, as far as the footer's counts of them tell."""
    if not leaf.max_definition_level:
        return False
    records = footer.chunk_records(leaf)
    if records is not None:
        return any(not record.flags & HAS_NULL_COUNT or record.null_count for record in records)
    statistics = (chunk and chunk.statistics for _, _, chunk in footer.chunks((leaf,)))
    return any(one is None or one.null_count != 0 for one in statistics)
