"""`probe` says CANNOT_MATCH of a row group only where its filter, as it is, proves that."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import footer_bytes, with_footer

from parquet_bloom import add, probe
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"n": [0, 5, 9], "f": [math.nan, 1.0, 2.0], "plain": [1, 2, 3]}), path)
    add(path, ["n", "f"], fpp=1e-6)
    return path


def might_match(path: Path, column: str, *values: Any) -> list[bool]:
    return [row.answer == "MIGHT_MATCH" for row in probe(path, column, list(values))]


def test_what_filters_do_not_prove_might_match(file: Path) -> None:
    assert might_match(file, "n", 5, 6, 6.5) == [True, False, False]
    assert might_match(file, "f", 1.0, 1.5, math.nan) == [True, False, True]
    assert might_match(file, "plain", 7) == [True]


def test_a_chunk_of_another_column_might_match(file: Path) -> None:
    data = file.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    metadata.row_groups[0].columns[0].meta_data.path_in_schema = ["other"]
    file.write_bytes(with_footer(data, encode(metadata)))
    assert might_match(file, "n", 6, 6.5) == [True, True]


def test_a_filter_that_somebody_emptied_might_match(file: Path) -> None:
    data = bytearray(file.read_bytes())
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(bytes(data)))
    chunk = metadata.row_groups[0].columns[0].meta_data
    stop = chunk.bloom_filter_offset + chunk.bloom_filter_length
    start = stop - chunk.bloom_filter_length // 32 * 32
    data[start:stop] = bytes(stop - start)
    file.write_bytes(data)
    assert might_match(file, "n", 5, 6) == [True, True]
