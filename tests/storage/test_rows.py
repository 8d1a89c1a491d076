"""A file whose pages lie at impossible places is an error, or all its rows are found; other files are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from files import footer_bytes, with_footer, write

from parquet_bloom import find
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode


@pytest.mark.parametrize("by_keys", [False, True])
@pytest.mark.parametrize("value", [-1, -(2**40), 2**40])
@pytest.mark.parametrize("field", ["total_compressed_size", "data_page_offset", "num_values"])
def test_an_impossible_place_loses_no_row_silently(tmp_path: Path, field: str, value: int, by_keys: bool) -> None:
    damaged, sound = tmp_path / "a.parquet", tmp_path / "b.parquet"
    write(sound, 8)
    data = write(damaged, 8)
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    for group in metadata.row_groups:
        setattr(group.columns[0].meta_data, field, value)
    damaged.write_bytes(with_footer(data, encode(metadata)))
    found = find(tmp_path, column="id", keys=[3]) if by_keys else find(tmp_path, "id = 3")
    ids = found.to_arrow()["id"].to_pylist()
    errors = [error.path for error in found.errors]
    assert (ids, errors) in (([3], [str(damaged)]), ([3, 3], []))
    assert errors or value == 2**40  # pyarrow finds the pages after the dictionary, and counts their values
