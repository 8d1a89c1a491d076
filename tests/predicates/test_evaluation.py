"""Statistics and filters exclude a row group only where none of its rows can match: rule by rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import footer_bytes, opened, with_footer

import parquet_bloom
from parquet_bloom import col, prune
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.predicates.binding import Binder
from parquet_bloom.predicates.evaluation import absent_by_filters
from parquet_bloom.predicates.parsing import to_predicate
from parquet_bloom.storage.partitions import Partitions


def write(folder: Path, *groups: list[Any], kind: pa.DataType | None = None, **options: Any) -> Path:
    """Writes a file with a column x of these row groups."""
    path = folder / "f.parquet"
    kind = kind or pa.array([value for group in groups for value in group]).type
    with pq.ParquetWriter(path, pa.schema({"x": kind}), **options) as writer:
        for group in groups:
            writer.write_table(pa.table({"x": pa.array(group, kind)}))
    return path


def kept(path: Path, where: Any) -> list[int | None]:
    return [row.row_group for row in prune(path, where).rows if row.is_kept]


def changed(path: Path, change: Any) -> None:
    """Changes a file's footer."""
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    change(metadata)
    path.write_bytes(with_footer(data, encode(metadata)))


# ---- nulls -------------------------------------------------------------------------------


def test_null_counts_of_elements_say_nothing_about_rows(tmp_path: Path) -> None:
    path = write(tmp_path, [[1, 2]], [[None], [None, None]], [None, []], kind=pa.list_(pa.int64()))
    assert kept(path, "x.list.element IS NULL") == [0, 1, 2]
    assert kept(path, "x.list.element IS NOT NULL") == [0, 1, 2]


def test_without_a_null_count_nulls_may_be_there(tmp_path: Path) -> None:
    path = write(tmp_path, [5, None], [6])
    assert kept(path, "x IS NULL") == [0]

    def without_counts(metadata: Any) -> None:
        for group in metadata.row_groups:
            group.columns[0].meta_data.statistics.null_count = None

    changed(path, without_counts)
    assert kept(path, "x IS NULL") == [0, 1]


def test_a_null_differs_from_every_value_by_the_null_safe_operator(tmp_path: Path) -> None:
    path = write(tmp_path, [5, None], [None, None], [5, 5], kind=pa.int64())
    assert kept(path, "NOT (x <=> 5)") == [0, 1]
    assert kept(path, "x <> 5") == []


def test_a_list_with_null_has_no_rows_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path, [5], [6])
    for where in ("x NOT IN (5, NULL)", "x IN (5, NULL)", "x <> NULL"):
        assert kept(path, where) == [0, 1]  # none that is certain: what NULL means there is not ours to say


def test_every_value_is_not_in_an_empty_list(tmp_path: Path) -> None:
    path = write(tmp_path, [5], [None], kind=pa.int64())
    assert kept(path, ~col("x").isin([])) == [0, 1]
    assert kept(path, col("x").isin([])) == []


def test_text_excludes_nothing_where_engines_differ(tmp_path: Path) -> None:
    path = write(tmp_path, [5, 5], [6, 6])
    assert kept(path, "x = '5'") == [0]
    assert kept(path, "x NOT IN ('5')") == [0, 1]
    assert kept(path, "x <=> '5'") == [0, 1]  # NULL to Spark, if it does not fit the type


# ---- bounds ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("x <= 10", [0, 1]),
        ("x < 10", [0]),
        ("x >= 20", [1, 2]),
        ("x > 20", [2]),
        ("x < 20", [0, 1]),
        ("x > 10", [1, 2]),
        ("x = 10", [1]),
        ("x = 20", [1]),
        ("x IN (20, 25)", [1]),
        ("x IN (5, 10)", [1]),
        ("x BETWEEN 20 AND 29", [1]),
        ("x <> 15", [0, 1, 2]),
        ("NOT (x >= 10)", [0]),
        ("NOT (x > 10)", [0, 1]),
        ("NOT (x <= 20)", [2]),
        ("NOT (x < 20)", [1, 2]),
    ],
)
def test_both_ends_are_values(tmp_path: Path, where: str, groups: list[int]) -> None:
    assert kept(write(tmp_path, [1, 4], [10, 15, 20], [30]), where) == groups


def test_nan_is_above_the_maximum(tmp_path: Path) -> None:
    path = write(tmp_path, [1.0, math.nan], [2.0])
    for where in ("x > 5", "x >= 5", "NOT (x < 5)", "NOT (x <= 5)", "x <> 1.0", "NOT (x > 0.5)"):
        assert 0 in kept(path, where), where
    assert kept(path, "x < 0.5") == []


def test_bounds_that_may_be_cut_are_not_the_only_value(tmp_path: Path) -> None:
    path = write(tmp_path, [7, 7], [8, 8])
    assert kept(path, "x <> 7") == [1]

    def cut(metadata: Any) -> None:
        metadata.row_groups[0].columns[0].meta_data.statistics.is_max_value_exact = False

    changed(path, cut)
    assert kept(path, "x <> 7") == [0, 1]


def test_texts_are_never_known_to_be_the_only_value(tmp_path: Path) -> None:
    assert kept(write(tmp_path, ["aa", "aa"]), col("x") != "aa") == [0]


def test_elements_of_lists_have_no_order(tmp_path: Path) -> None:
    path = write(tmp_path, [[1], []], [[5, 6]], kind=pa.list_(pa.int64()))
    for where in ("x.list.element > 9", "x.list.element < 0", "x.list.element <> 1", "NOT (x.list.element <> 9)"):
        assert kept(path, where) == [0, 1], where
    assert kept(path, "x.list.element = 1") == [0]
    path = write(tmp_path, [[1]], [[5]], kind=pa.list_(pa.int64()))  # as many values as rows
    parquet_bloom.add(path, ["x.list.element"])
    assert kept(path, "NOT (x.list.element <> 9)") == [0, 1]
    assert kept(path, "x.list.element = 1") == [0]


def test_each_reading_of_a_literal_counts(tmp_path: Path) -> None:
    path = write(tmp_path, [0.1], [1.0], [3.0], kind=pa.float32())
    assert kept(path, "x IN (1.0, 0.1)") == [0, 1]
    assert kept(path, "x IN (0.1, 1.0)") == [0, 1]


def test_each_reading_of_a_text_has_its_own_place(tmp_path: Path) -> None:
    path = write(tmp_path, ["aa"], ["a#"], ["b"])
    assert kept(path, "x < 'a''b'") == [0, 1]  # ab, a'b or a"b
    assert kept(path, "x > 'a''b'") == [0, 1, 2]
    assert kept(write(tmp_path, ["a'b"], ["ab"], ['a"b'], ["aab"]), "x = 'a''b'") == [0, 1, 2]


def test_text_that_spark_may_round_excludes_no_decimal(tmp_path: Path) -> None:
    path = write(tmp_path, [Decimal("1.00")], [Decimal("9.00")], kind=pa.decimal128(20, 2))
    assert kept(path, "x = '1.0'") == [0]
    assert kept(path, "x = '1.005'") == [0, 1]
    assert kept(path, "x = '90071992547409.93'") == [0, 1]  # DOUBLE has no such number


def test_a_float_in_a_list_makes_all_of_it_floats(tmp_path: Path) -> None:
    path = write(tmp_path, [2**53], [5])
    assert kept(path, f"x IN ({2**53 + 1}, 7)") == []
    assert 0 in kept(path, f"x IN ({2**53 + 1}, 0.5e0)")


def test_an_hour_that_a_zone_skips_is_that_after_it(tmp_path: Path) -> None:
    """Spark casts a local time to compare it with an instant."""
    path = write(tmp_path, *([datetime(2024, 3, 31, hour, 30)] for hour in (1, 2, 3, 4)), kind=pa.timestamp("us"))
    where = "x = TIMESTAMP '2024-03-31 03:30:00'"
    assert kept(path, where) == [2]
    assert [row.row_group for row in prune(path, where, timezone="Europe/Berlin").rows if row.is_kept] == [1, 2]


def test_a_value_whose_filter_proves_nothing_is_found(tmp_path: Path) -> None:
    assert kept(write(tmp_path, [True], [False]), "x = true") == [0]


def test_a_literal_may_equal_what_is_cut_from_it(tmp_path: Path) -> None:
    """Some engines cut nanoseconds off a literal, or round them, others keep them."""
    second, kind = 1_704_067_200 * 10**9, pa.timestamp("ns")  # 2024-01-01
    path = write(tmp_path, *([second + ns] for ns in (999, 1000, 1001, 2000, 2001)), kind=kind)
    assert kept(path, "x = '2024-01-01 00:00:00.000001001'") == [1, 2, 3]


def test_a_literal_that_engines_read_differently_excludes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, [b"A   "], [b"B   "], kind=pa.binary(4))
    assert kept(path, r"x = '\\x41   '") == [0, 1]


def test_a_chunk_of_another_type_is_not_believed(tmp_path: Path) -> None:
    path = write(tmp_path, [5], [6])

    def other(metadata: Any) -> None:
        metadata.row_groups[0].columns[0].meta_data.path_in_schema = ["y"]

    changed(path, other)
    for where in ("x = 9", "x < 0", "x IS NULL", "x <> 5", "x = 5.5"):
        assert 0 in kept(path, where), where


def test_a_chunk_of_another_column_may_have_nulls(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([[5]], pa.schema([pa.field("x", pa.int64(), nullable=False)])), path)
    assert kept(path, "x IS NULL") == []

    def other(metadata: Any) -> None:
        metadata.row_groups[0].columns[0].meta_data.path_in_schema = ["y"]

    changed(path, other)
    assert kept(path, "x IS NULL") == [0]


# ---- filters -----------------------------------------------------------------------------


def test_one_literal_in_the_filter_is_enough(tmp_path: Path) -> None:
    path = write(tmp_path, [0, 5, 9], [0, 7, 9])
    parquet_bloom.add(path, ["x"], fpp=1e-6)
    assert kept(path, "x IN (5, 6)") == [0]
    assert kept(path, "x IN (6, 7)") == [1]
    assert kept(path, "x = 6 OR x = 5") == [0]
    assert kept(path, "x = 6 OR x = 8") == []


def test_a_filter_that_cannot_be_read_excludes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, [0, 5, 9], [0, 7, 9])
    parquet_bloom.add(path, ["x"], fpp=1e-6)
    assert kept(path, "x = 6") == []
    data = bytearray(path.read_bytes())
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(bytes(data)))
    data[metadata.row_groups[0].columns[0].meta_data.bloom_filter_offset] ^= 0xFF
    path.write_bytes(data)
    for where in ("x = 6", "x IN (6, 8)", "x = 6 AND x = 8"):
        assert kept(path, where) == [0], where


def test_of_two_columns_each_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"x": [0, 5, 9], "y": [0, 6, 9]}), path)
    parquet_bloom.add(path, ["x", "y"], fpp=1e-6)
    assert kept(path, "x = 7 OR y = 6") == [0]
    assert kept(path, "x = 20 OR y = 6") == [0]
    assert kept(path, "x = 5 OR y = 7") == [0]
    assert kept(path, "x = 5 AND y = 7") == []
    assert kept(path, "x = 7 OR y = 7") == []


class Held:
    """A file's filter of another format: of one column, and of these values."""

    format = "other"

    def __init__(self, column: str, *values: int) -> None:
        self.column, self._values = (column,), values

    def might_contain(self, literals: Sequence[Any]) -> list[bool]:
        return [literal in self._values for literal in literals]


@pytest.mark.parametrize(
    ("where", "excluded"),
    [
        ("x = 5", False),
        ("x = 6", True),
        ("x IN (5, 6)", False),
        ("x IN (6, 7)", True),
        ("y = 6", False),
        ("x <> 6", False),
    ],
)
def test_a_filter_of_another_format_is_of_its_column_alone(tmp_path: Path, where: str, excluded: bool) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"x": [0, 5, 9], "y": [0, 6, 9]}), path)
    footer = opened(path)[1]
    binder = Binder(to_predicate(where), None, case_sensitive=True, conflicting=frozenset())
    absent = absent_by_filters(binder.bind(footer.leaves, Partitions()), footer, [Held("x", 5)])  # type: ignore[list-item]
    assert bool(absent) is excluded
