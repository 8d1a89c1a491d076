"""Libraries that are imported when something of them is first used: tests are collected sooner without them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import pytest
from tiers import ENGINES


class Library:
    """A library in a table of functions, most of which a run may not call."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


chdb, duckdb, pd, pl = map(Library, ("chdb", "duckdb", "pandas", "polars"))


def by_engine(names: Iterable[str]) -> list[Any]:
    """Returns a test's parameters, of which those that begin with the name of an engine are marked as its tests."""
    marks = {name: [pytest.mark.engines] * (name.split(",")[0].split()[0].lower() in ENGINES) for name in names}
    return [pytest.param(name, id=name, marks=marks[name]) for name in marks]
