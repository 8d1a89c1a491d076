"""Docstrings: a verb's arguments are those of its signature, and every example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from documents import ROOT

import parquet_bloom

FAMILIES: dict[str, Any] = {
    "parquet_bloom": parquet_bloom,
    "parquet_bloom.index": parquet_bloom.index,
    "parquet_bloom.hudi": parquet_bloom.hudi,
    "parquet_bloom.paimon": parquet_bloom.paimon,
}
VERBS: dict[str, Callable[..., Any]] = {
    f"{family}.{name}": value
    for family, module in FAMILIES.items()
    for name in module.__all__
    if inspect.isfunction(value := getattr(module, name))
}
SECTIONS = ("Args", "Returns|Yields", "Raises", "Examples")


def examples() -> Iterator[doctest.DocTest]:
    """Yields the examples of every module but the ones that need Spark."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in pkgutil.walk_packages(parquet_bloom.__path__, "parquet_bloom."):
        if not re.match(r"parquet_bloom\.(_|__main__|spark|format\._parquet_thrift)", module.name):
            yield from (found for found in finder.find(importlib.import_module(module.name)) if found.examples)


EXAMPLES = list(examples())


def section(verb: str, name: str) -> str:
    text = inspect.getdoc(VERBS[verb]) or ""
    (found,) = re.findall(rf"^(?:{name}):\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_describes_every_argument_in_order(verb: str) -> None:
    described = re.findall(r"^    (\w+): \S", section(verb, "Args"), re.MULTILINE)
    assert described == list(inspect.signature(VERBS[verb]).parameters)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_says_what_it_returns_and_raises_and_has_an_example(verb: str) -> None:
    first, *_ = (inspect.getdoc(VERBS[verb]) or "").split("\n")
    assert first.endswith(".")
    assert [len(re.findall(rf"^(?:{name}):$", inspect.getdoc(VERBS[verb]) or "", re.M)) for name in SECTIONS] == [1] * 4
    assert f"{VERBS[verb].__name__}(" in section(verb, "Examples")
    for error in re.findall(r"^    (\w+): \S", section(verb, "Raises"), re.MULTILINE):
        assert issubclass(getattr(parquet_bloom, error, None) or __builtins__[error], Exception)


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of two row groups each that only filters can tell apart; a file of Hudi's, and a table of Paimon's."""
    for folder in ("events", "staged"):
        (tmp_path / folder).mkdir()
    for number, name in enumerate("ab"):
        ids = [4 * i + 2 * number + group for group in range(2) for i in range(500)]
        table = pa.table({"id": ids, "user": [f"u{i}" for i in ids]})
        path = tmp_path / "events" / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=500)
        parquet_bloom.add(path, "id", fpp=1e-6)
    pq.write_table(pa.table({"_hoodie_record_key": ["k1", "k2"]}), tmp_path / "staged" / "base.parquet")
    with zipfile.ZipFile(ROOT / "fixtures" / "paimon_rust" / "append.zip") as packed:
        packed.extractall(tmp_path / "paimon")
    (tmp_path / "paimon" / "table").rename(tmp_path / "orders")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
@pytest.mark.usefixtures("sample", "mtime_stable")
def test_an_example_runs(example: doctest.DocTest) -> None:
    example.globs.setdefault("parquet_bloom", parquet_bloom)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    shown: list[str] = []
    runner.run(example, out=shown.append)
    assert runner.failures == 0, "".join(shown)


def test_every_verb_has_an_example() -> None:
    found = {example.name for example in EXAMPLES}
    assert {f"{verb.__module__}.{verb.__name__}" for verb in VERBS.values()} <= found
