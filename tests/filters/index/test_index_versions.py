"""Which versions follow which, and what is left of writers that were killed goes only when it is old."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parquet_bloom.filters.index import Version, version_name
from parquet_bloom.filters.index_versions import GRACE_SECONDS, _is_follower, sweep
from parquet_bloom.storage.folder import Folder


@pytest.mark.parametrize(
    ("there", "number", "before", "age", "is_follower"),
    [
        ([1, 2], 2, 1, 0.0, True),
        ([1], 1, 0, 0.0, True),
        ([2], 2, 1, 0.0, False),  # what it follows was removed
        ([1, 2, 3], 2, 1, 0.0, True),
        ([1, 2, 3], 2, 1, GRACE_SECONDS + 1, False),
        ([1, 2, 4], 2, 1, 0.0, False),
        ([1, 7], 1, 0, 0.0, False),  # of a writer that slept while all versions were removed
    ],
)
def test_a_version_follows_the_newest_one(
    there: list[int], number: int, before: int, age: float, is_follower: bool
) -> None:
    folder: Any = SimpleNamespace(names=lambda: [*map(version_name, there)], age=lambda name: age)
    assert _is_follower(folder, number, before) == is_follower


def test_files_in_no_version_go_when_no_writer_can_be_about_to_name_them(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.create(version_name(1), Version(number=1).to_json())
    folder.create("unnamed", b"of a living writer, perhaps")
    sweep(folder)
    assert folder.names() == sorted(["unnamed", version_name(1)])
    old = time.time() - GRACE_SECONDS - 60
    os.utime(tmp_path / "unnamed", (old, old))
    sweep(folder)
    assert folder.names() == [version_name(1)]
