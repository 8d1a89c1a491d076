"""A filter is used only where each value has one hash, and where it can have been filled."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import footer_bytes, opened, with_footer

from parquet_bloom.filters.parquet import why_distrusted, why_unusable
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.thrift_io import decode, encode

SPARK = ttypes.KeyValue("org.apache.spark.version", "3.5.1")


@pytest.mark.parametrize(
    ("created_by", "notes", "is_used"),
    [
        ("parquet-mr version 1.13.1 (build 1)", [SPARK], True),
        ("parquet-mr version 1.13.1 (build 1)", [], False),
        ("parquet-cpp-arrow version 25.0.0", [SPARK], False),
        (None, [SPARK], False),
    ],
)
def test_int96_is_hashed_in_one_form_by_spark_alone(
    tmp_path: Path, created_by: str | None, notes: list[ttypes.KeyValue], is_used: bool
) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"at": [datetime(2024, 5, 6)], "id": [1]})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False)
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(path.read_bytes()))
    metadata.created_by, metadata.key_value_metadata = created_by, notes
    path.write_bytes(with_footer(path.read_bytes(), encode(metadata)))
    _, footer = opened(path)
    at, id = footer.leaves
    assert why_unusable(footer, id) is None
    assert ("INT96 values have several forms" in (why_unusable(footer, at) or "")) != is_used


def test_a_decimal_of_any_width_has_any_number_of_hashes(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"price": [Decimal("1.5")]}), path)
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(path.read_bytes()))
    metadata.schema[1].type = metadata.row_groups[0].columns[0].meta_data.type = ttypes.Type.BYTE_ARRAY
    path.write_bytes(with_footer(path.read_bytes(), encode(metadata)))
    _, footer = opened(path)
    assert "may be stored in any number of bytes" in (why_unusable(footer, footer.leaves[0]) or "")


def test_text_with_a_collation_has_equals_with_other_hashes(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    field = {"name": "s", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"s": "UTF8_LCASE"}}}
    noted = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": [field]})}
    pq.write_table(pa.table({"s": ["a"], "t": ["a"]}).replace_schema_metadata(noted), path)
    _, footer = opened(path)
    assert "by a collation" in (why_unusable(footer, footer.leaves[0]) or "")
    assert why_unusable(footer, footer.leaves[1]) is None


@pytest.mark.parametrize(
    ("values", "has_counts", "is_used"),
    [([1, None], True, False), ([1], True, False), ([None, None], True, True), ([None], False, False)],
)
def test_an_empty_filter_is_used_only_of_nulls_alone(
    tmp_path: Path, values: list[int | None], has_counts: bool, is_used: bool
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": pa.array(values, pa.int64())}), path, write_statistics=has_counts)
    _, footer = opened(path)
    bloom = SplitBlockBloomFilter(32)
    assert (why_distrusted(footer, 0, footer.leaves[0], bloom) is None) == is_used
    bloom.insert_hash(1)
    assert why_distrusted(footer, 0, footer.leaves[0], bloom) is None
