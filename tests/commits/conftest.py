"""A catalog over SQLite, and an S3 that ends with these tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakes
import pytest
from stores import missing_for_s3, moto


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path / "warehouse") as found:
        yield found


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    if reason := missing_for_s3():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with moto() as url:
        yield url
