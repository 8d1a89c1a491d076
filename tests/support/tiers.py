"""What `pytest` runs when it is not told more, and the tiers that it leaves out.

A tier is a marker. A module whose `pytestmark` puts all its tests into a tier that is left out is not even imported:
a JVM's or an engine's library takes longer to import than most tests to run.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.mark.expression import Expression

TIERS = ("spark", "engines", "servers", "sweep", "slow")
BY_HAND = ("benchmark", "matrix")  # not even with --all

ENGINES = {"duckdb", "datafusion", "chdb", "polars"}


def add_option(parser: pytest.Parser) -> None:
    """Gives pytest the option `--all`."""
    parser.addoption("--all", action="store_true", help=f"run all tests, those marked {', '.join(TIERS)} too")


class Tiers:
    """A plugin: which tiers a run leaves out, and what follows from it."""

    def __init__(self, config: pytest.Config) -> None:
        self.left_out = [tier for tier in TIERS if not may_run(frozenset([tier]), config.option.markexpr)]
        self._expression = config.option.markexpr
        self._by_id = any("::" in argument for argument in config.args)
        if "engines" in self.left_out:
            sys.meta_path.insert(0, _NoEngines())

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
        """An empty module in the place of one whose tests are all left out."""
        if self._by_id or may_run(module_marks(module_path), self._expression):
            return None
        return _LeftOut.from_parent(parent, path=module_path)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Names what did not run."""
        if self.left_out:
            terminalreporter.write_line(f"not run: {', '.join(self.left_out)}; all: pytest --all")


class _LeftOut(pytest.Module):
    def collect(self) -> Iterable[pytest.Item]:
        return []


class _NoEngines(MetaPathFinder):
    """Keeps other engines out of tests that are not marked with them."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname in ENGINES:
            raise ImportError(f"a test that imports {fullname} must be marked engines")


@cache
def may_run(marks: frozenset[str], expression: str) -> bool:
    """Whether `-m expression` can choose a test that has `marks`, and maybe more of the tiers' markers."""
    if not expression:
        return True
    chooses: Callable[[Callable[[str], bool]], bool] = Expression.compile(expression).evaluate
    others = [tier for tier in TIERS + BY_HAND if tier not in marks]
    return any(
        chooses(marks.union(more).__contains__)
        for count in range(len(others) + 1)
        for more in itertools.combinations(others, count)
    )


def module_marks(path: Path) -> frozenset[str]:
    """The tiers that a module's `pytestmark` names, without importing it."""
    statement = re.search(r"^pytestmark\b[^\n]*(?:\n[ \])][^\n]*)*", path.read_text("utf-8"), re.MULTILINE)
    return frozenset(re.findall(r"mark\.(\w+)", statement[0]) if statement else ()).intersection(TIERS + BY_HAND)
