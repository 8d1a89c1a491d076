"""Several ranges of a file in one call are what `os.pread` returns of each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom._kernel import read_ranges


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> int:
    path: Path = tmp_path_factory.mktemp("reading") / "file"
    path.write_bytes(bytes(range(256)) * 4)
    return os.open(path, os.O_RDONLY)


PLACES = st.integers(0, 1100)


@given(ranges=st.lists(st.tuples(PLACES, PLACES).map(lambda pair: (min(pair), max(pair)))))
def test_ranges_are_what_pread_returns(opened: int, ranges: list[tuple[int, int]]) -> None:
    assert read_ranges(opened, ranges) == [os.pread(opened, stop - start, start) for start, stop in ranges]


@pytest.mark.parametrize("one", [(-1, 5), (5, 4)])
def test_what_is_no_range_is_refused(opened: int, one: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not a range"):
        read_ranges(opened, [(0, 1), one])


@pytest.mark.parametrize("one", [(1,), (1, 2, 3), "12", 7])
def test_what_is_no_pair_is_refused(opened: int, one: object) -> None:
    with pytest.raises(TypeError):
        read_ranges(opened, [one])  # type: ignore[list-item]


def test_a_failure_is_the_systems(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        read_ranges(-1, [(0, 1)])
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        read_ranges(folder, [(0, 1)])
    os.close(folder)
