"""What is left out of a run is left out by its markers, and said."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import TIERS, may_run, module_marks

DEFAULT = "not (spark or engines or servers or sweep or slow or benchmark or matrix)"
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("pytestmark = pytest.mark.spark\n", {"spark"}),
        ("pytestmark = [pytest.mark.slow, needs_java, pytest.mark.spark]\n", {"slow", "spark"}),
        (
            "pytestmark = [\n    pytest.mark.engines,\n    needs_java,\n]\nx = pytest.mark.slow\n",
            {"engines"},
        ),
        ("@pytest.mark.spark\ndef test(): ...\n", set()),
        ('"""pytestmark = pytest.mark.spark"""\n', set()),
    ],
)
def test_marks_of_a_module(tmp_path: Path, text: str, marks: set[str]) -> None:
    (tmp_path / "test_it.py").write_text(text)
    assert module_marks(tmp_path / "test_it.py") == marks


def test_what_an_expression_can_choose() -> None:
    for tier in TIERS:
        assert not may_run(frozenset([tier]), DEFAULT)
        assert may_run(frozenset([tier]), "")
        assert may_run(frozenset(), tier)  # single tests of the module may have the marker
        assert may_run(frozenset([tier]), tier)
    assert may_run(frozenset(), DEFAULT)
    assert not may_run(frozenset(["slow"]), "engines and not slow")


MODULE = """
import pytest
{above}
{mark}
def test_it():
    import {engine}
"""


@pytest.mark.parametrize(
    ("above", "mark", "engine", "arguments", "outcome"),
    [
        ("", "", "json", [], "1 passed"),
        ("", "@pytest.mark.engines", "json", [], "1 deselected"),
        ("pytestmark = pytest.mark.engines; import nowhere", "", "json", [], "no tests ran"),
        ("pytestmark = pytest.mark.engines", "", "json", ["--all"], "1 passed"),
        ("pytestmark = pytest.mark.engines", "", "json", ["-m", "engines"], "1 passed"),
        ("", "", "duckdb", [], "a test that imports duckdb must be marked engines"),
    ],
)
def test_a_run(tmp_path: Path, above: str, mark: str, engine: str, arguments: list[str], outcome: str) -> None:
    for name in ("conftest.py", "support/tiers.py", "support/stores.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).write_bytes((ROOT / "tests" / name).read_bytes())
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    (tmp_path / "tests/test_it.py").write_text(MODULE.format(above=above, mark=mark, engine=engine))
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", *arguments]
    output = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False).stdout
    assert outcome in output
    last = "not run: spark, engines, servers, sweep, slow; all: pytest --all"
    assert bool(re.search(f"^{re.escape(last)}$", output, re.MULTILINE)) == (not arguments)
