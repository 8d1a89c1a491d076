"""Builds a filter from values."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError

from parquet_bloom.errors import (
    CorruptFileError,
)
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.values.arrays import companion_hashes, hash_array


def fill(
    bloom: SplitBlockBloomFilter,
    chunks: ColumnChunks,
    row_group: int,
    leaf: LeafColumn,
    stopped: Callable[[], bool] = lambda: False,
    count: Callable[[int], None] = lambda values: None,
) -> None:
    """Insert every value of a column chunk, and check that the filter has it; `count` gets numbers of done values."""
    for array in chunks.values(row_group, leaf):
        if stopped():
            raise CancelledError
        for hashes in (hash_array(leaf, array), companion_hashes(leaf, array)):
            bloom.insert(hashes)
            if 0 in bloom.check(hashes):
                raise CorruptFileError(
                    "a value that was just inserted is not in the filter: this machine's memory or build is broken"
                )
        count(len(array))
