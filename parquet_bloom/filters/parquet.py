"""Filters stored in Parquet files, and which of them may prune."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from parquet_bloom.errors import (
    CorruptFileError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.format.footer import FilterLocation, Footer, Plan, read_filter, together, with_tail
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.values.encoding import why_uncountable, why_untrusted

_Item = TypeVar("_Item")

NO_FILTER = "there is no filter"

FILTERS_AT_ONCE = 64
"""How many filters of one file are read together: more would take more memory, fewer more requests."""


def why_distrusted(footer: Footer, row_group: int, leaf: LeafColumn, bloom: SplitBlockBloomFilter) -> str | None:
    """Return why a filter that was read must not prune, or None."""
    if reason := why_untrusted(leaf):
        return reason
    chunk = footer.chunk(row_group, leaf)
    nulls = chunk.statistics.null_count if chunk.statistics else None
    if bloom.is_empty and chunk.num_values and nulls != chunk.num_values:
        # Below a repeated or optional node, all entries may be null although the statistics do not say so.
        return "the bitset is empty although the column chunk has values"
    return None


def why_unusable(footer: Footer, leaf: LeafColumn) -> str | None:
    """Return why no filter of this leaf may prune in this file, or None."""
    if reason := why_untrusted(leaf) or why_uncountable(leaf):
        return reason
    if leaf.physical_type is PhysicalType.INT96 and not _writes_microseconds(footer):
        return "INT96 values have several forms, and this writer may use more than one"
    return leaf.text_rule


def _writes_microseconds(footer: Footer) -> bool:
    """Return whether Spark wrote the file: others hash nanoseconds, which Spark and DuckDB truncate when they read."""
    return footer.created_by.startswith("parquet-mr") and b"org.apache.spark.version" in footer.notes


# ---- reading -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredFilter:
    """A filter in a file: its bits, its length in the file, and the `problem` because of which it must not prune."""

    row_group: int
    leaf: LeafColumn
    location: FilterLocation | None
    bloom: SplitBlockBloomFilter | None
    length: int
    problem: str | None


def stored_filter(footer: Footer, row_group: int, leaf: LeafColumn) -> Plan[StoredFilter | None]:
    """Plan to return a chunk's filter, valid or not, or None if it has none."""
    location = None
    try:
        location = footer.filter_location(row_group, leaf)
        if location is None:
            return None
        bloom, length = yield from read_filter(location, end=footer.start)
    except (CorruptFileError, UnsupportedError) as error:
        return StoredFilter(row_group, leaf, location, None, 0, describe_error(error))
    return StoredFilter(row_group, leaf, location, bloom, length, why_distrusted(footer, row_group, leaf, bloom))


def read_filters(footer: Footer, leaves: Iterable[LeafColumn]) -> Plan[list[StoredFilter]]:
    """Plan to return every filter of the given leaves."""
    filters: list[StoredFilter] = []
    for chunks in groups(footer.chunks(tuple(leaves))):
        plans = (stored_filter(footer, row_group, leaf) for row_group, leaf, _ in chunks)
        stored_filters = yield from with_tail(footer, together(plans))
        filters += (stored for stored in stored_filters if stored)
    return filters


def groups(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield items in groups of at most `FILTERS_AT_ONCE`."""
    remaining = iter(items)
    while group := list(islice(remaining, FILTERS_AT_ONCE)):
        yield group
