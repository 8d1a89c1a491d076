"""What a file that was just written tells of its columns, for a table to record."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.storage.listing import Source
from parquet_bloom.values.ordering import Key
from parquet_bloom.values.statistics import ColumnStatistics, StatisticsReader


class Written(NamedTuple):
    """A leaf of a file: its values and nulls, and the keys of bounds, which are None if there are none to record."""

    num_values: int
    null_count: int | None
    low: Key | None
    high: Key | None


def written_statistics(source: Source, footer: Footer, leaf: LeafColumn) -> Written:
    """Return what the footer tells of a leaf; texts are decoded where the footer's bounds cannot be trusted."""
    known = _of_row_groups(source, footer, leaf)
    counts = [one.null_count for one in known]
    nulls = None if None in counts else sum(count for count in counts if count is not None)
    filled = [one for one in known if not one.is_all_null]
    lows = [one.low for one in filled if one.low is not None]
    highs = [one.high for one in filled if one.high is not None]
    num_values = sum(one.num_values for one in known)
    if not filled or min(len(lows), len(highs)) < len(filled) or not all(map(_may_answer(leaf), filled)):
        return Written(num_values, nulls, None, None)
    return Written(num_values, nulls, min(lows), max(highs))


def _may_answer(leaf: LeafColumn) -> Callable[[ColumnStatistics], bool]:
    """Return what tells whether bounds may be recorded: engines answer MIN and MAX of numbers and dates from them."""
    name = leaf.logical_type.name if leaf.logical_type is not None else None
    is_answer = leaf.physical_type in _ANSWERS and name in (None, "INTEGER", "DATE")
    return lambda known: known.is_exact or not is_answer


_ANSWERS = (PhysicalType.INT32, PhysicalType.INT64, PhysicalType.FLOAT, PhysicalType.DOUBLE)


def _of_row_groups(source: Source, footer: Footer, leaf: LeafColumn) -> list[ColumnStatistics]:
    """Return what is known of each row group; texts are decoded where the footer's bounds cannot be trusted."""
    reader, is_text = StatisticsReader(leaf), leaf.logical_type is not None and leaf.logical_type.name == "STRING"
    known = []
    for number, group in enumerate(footer.row_groups):
        if not group.num_rows:
            continue
        one = reader.read(footer, number)
        known.append(_of_values(source, footer, number, leaf, one) if is_text and one.low is None else one)
    return known


def _of_values(
    source: Source, footer: Footer, row_group: int, leaf: LeafColumn, known: ColumnStatistics
) -> ColumnStatistics:
    import pyarrow.compute as pc

    from parquet_bloom.storage.columns import ColumnChunks

    pairs = [pc.min_max(array) for array in ColumnChunks(source, footer).values(row_group, leaf) if len(array)]
    lows, highs = ([pair[end].as_py() for pair in pairs if pair[end].is_valid] for end in ("min", "max"))
    return known._replace(low=min(lows), high=max(highs)) if lows else known


__all__ = ["Written", "written_statistics"]
