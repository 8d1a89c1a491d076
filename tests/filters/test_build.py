"""A filter that is built has every value of its column chunk, in each form that readers may ask for."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import opened
from reference import xxh64

from parquet_bloom.errors import CorruptFileError
from parquet_bloom.filters.build import fill
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.storage.columns import ColumnChunks


def filled(bloom: SplitBlockBloomFilter, path: Path, values: list[float]) -> SplitBlockBloomFilter:
    pq.write_table(pa.table({"x": pa.array(values, pa.float64())}), path)
    source, footer = opened(path)
    fill(bloom, ColumnChunks(source, footer), 0, footer.leaves[0])
    return bloom


def test_each_value_is_there_and_both_zeros(tmp_path: Path) -> None:
    bloom = filled(SplitBlockBloomFilter(4096), tmp_path / "x.parquet", [-0.0, 1.5])
    there = [bloom.check_hash(xxh64(struct.pack("<d", value))) for value in (-0.0, 0.0, 1.5, 2.5)]
    assert there == [True, True, True, False]


def test_a_filter_that_forgets_what_was_inserted_is_an_error(tmp_path: Path) -> None:
    class Forgetful(SplitBlockBloomFilter):
        def insert(self, hashes: Any) -> None:
            pass

    with pytest.raises(CorruptFileError, match="a value that was just inserted is not in the filter"):
        filled(Forgetful(4096), tmp_path / "x.parquet", [1.5])
