"""The original is found inside a file that was appended to, or the search ends with an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from files import write

from parquet_bloom import add
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format.footer import Footer, Plan, read_footer
from parquet_bloom.format.restore import whole_prefixes


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
