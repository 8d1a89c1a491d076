"""Folders of files that count as stable at once: their clock ticks between two changes here."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


@pytest.fixture(autouse=True)
def _without_waiting(mtime_stable: None) -> None:
    pass


@pytest.fixture
def tick() -> Callable[[], None]:
    """Returns what lets the file system's clock go on, so that no change is hidden in the tick of the one before."""
    return lambda: time.sleep(0.015)
