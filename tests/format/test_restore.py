"""The original is found inside a file that was appended to, or the search ends with an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from files import footer_bytes, with_footer, write

from parquet_bloom import add
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import Footer, Plan, read_footer
from parquet_bloom.format.restore import whole_prefixes
from parquet_bloom.format.thrift_io import decode, encode


def driven(data: bytes, plan: Plan[Any], *, short: int = -1) -> Any:
    """Returns a plan's result on these bytes; the answer to request number `short` lacks its last byte."""
    parts: Any = None
    number = 0
    while True:
        try:
            wanted = plan.send(parts)
        except StopIteration as stop:
            return stop.value
        parts = [data[start : end - (number == short)] for start, end in wanted]
        number += 1


def test_no_original_is_missed_for_a_read_that_came_short(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    original = len(write(path))
    add(path, "id")
    data = path.read_bytes()
    footer: Footer = driven(data, read_footer(len(data)))
    assert [each.file_size for each in driven(data, whole_prefixes(footer))] == [original, len(data)]
    for number in range(3):
        with pytest.raises(CorruptFileError, match="were requested"):
            driven(data, whole_prefixes(footer), short=number)


def prefixes(data: bytes) -> list[int]:
    """Returns the sizes of the prefixes that are found."""
    return [each.file_size for each in driven(data, whole_prefixes(driven(data, read_footer(len(data)))))]


def test_a_footer_that_describes_other_pages_ends_no_original(tmp_path: Path) -> None:
    data = write(tmp_path / "x.parquet")
    footer = footer_bytes(data)
    end = data[-len(footer) - 8 :]
    assert prefixes(data + end) == [len(data), len(data + end)]
    metadata, _ = decode(ttypes.FileMetaData, footer)
    metadata.row_groups[0].columns[0].meta_data.total_uncompressed_size += 1
    other = with_footer(data, encode(metadata))
    assert prefixes(other) == [len(other)]
    assert prefixes(other + end) == [len(other + end)]


def test_an_original_does_not_end_in_its_own_pages(tmp_path: Path) -> None:
    """A footer that begins in a value of the last page, and goes on behind the pages."""
    data = write(tmp_path / "x.parquet")
    footer = footer_bytes(data)
    end = data[-len(footer) - 8 :]
    forged = data[: -len(end) - 20] + footer[:20] + end[20:] + end
    assert prefixes(forged) == [len(forged)]
