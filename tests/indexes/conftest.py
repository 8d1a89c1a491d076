"""Folders of files that count as settled at once: their clock ticks between two changes here. And an S3."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest
from stores import missing_for_s3, moto

from parquet_bloom import storage


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "SETTLING_SECONDS", -1)


@pytest.fixture
def tick() -> Callable[[], None]:
    """Returns what lets the file system's clock go on, so that no change is hidden in the tick of the one before."""
    return lambda: time.sleep(0.015)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    if reason := missing_for_s3():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with moto() as url:
        yield url
