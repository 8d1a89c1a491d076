"""No result is true or false: `assert verify(path)` would pass whatever was found."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.results import Table
from parquet_bloom.verbs.erase_ledger import LedgerCheck
from parquet_bloom.verbs.erase_plan import Steps
from parquet_bloom.verbs.paimon import Attached

RESULTS: dict[str, Callable[[Path], Any]] = {
    "inspect": lambda path: parquet_bloom.inspect(path),
    "advise": lambda path: parquet_bloom.advise(path),
    "probe": lambda path: parquet_bloom.probe(path, "id", 5),
    "add": lambda path: parquet_bloom.add(path, "id"),
    "hudi.add_filter": lambda path: parquet_bloom.hudi.add_filter(path, "name", dry_run=True),
    "drop": lambda path: parquet_bloom.drop(path),
    "recover": lambda path: parquet_bloom.recover(path),
    "verify": lambda path: parquet_bloom.verify(path),
    "report": lambda path: parquet_bloom.report(path, path.with_suffix(".html"), force=True),
    "prune": lambda path: parquet_bloom.prune(path, "id = 5"),
    "lookup": lambda path: parquet_bloom.lookup(path, "id", [5]),
    "find": lambda path: parquet_bloom.find(path, "id = 5"),
    "absent": lambda path: parquet_bloom.absent(path, "id", [5]),
    "erase": lambda path: parquet_bloom.erase(path, "id", [5], dry_run=True),
    "index.create": lambda path: parquet_bloom.index.create(path.parent, "id"),
    "index.refresh": lambda path: parquet_bloom.index.refresh(path.parent),
    "index.show": lambda path: parquet_bloom.index.show(path.parent),
    "index.drop": lambda path: parquet_bloom.index.drop(path.parent),
    "execute": lambda path: parquet_bloom.execute(f"CREATE BLOOMFILTER INDEX ON '{path.parent}' FOR COLUMNS (id)"),
    "erased": lambda path: parquet_bloom.erased(path, "id", [5]),
    "erase_plan": lambda _: Steps(()),
    "check_ledger": lambda _: LedgerCheck("", ()),
    "paimon.attach_index": lambda _: Attached(()),
}


@pytest.fixture
def path(tmp_path: Path, mtime_stable: None) -> Path:
    path = tmp_path / "ids.parquet"
    pq.write_table(pa.table({"id": range(10), "name": ["x"] * 10}), path)
    parquet_bloom.index.create(tmp_path, "id")
    return path


@pytest.mark.parametrize("verb", RESULTS)
def test_a_result_is_neither_and_names_the_property_to_ask(verb: str, path: Path) -> None:
    result = RESULTS[verb](path)
    with pytest.raises(TypeError, match=r"has no truth value; use [.]") as raised:
        assert result
    asked = [word.strip("(),") for word in str(raised.value).split() if word.startswith(".")]
    assert asked
    for name in asked:
        assert hasattr(result, name.strip(".()"))


def test_every_verb_and_every_class_of_results_is_tried(path: Path) -> None:
    made = {type(RESULTS[verb](path)).__name__ for verb in RESULTS}

    def below(kind: type) -> set[str]:
        return {name for each in kind.__subclasses__() for name in (each.__name__, *below(each))}

    assert below(Table) <= made
    functions = {name for name, value in public_names().items() if inspect.isfunction(value)}
    assert functions - {"demo", "col", "open", "paimon.build_index", "paimon.write_index"} == RESULTS.keys()


def public_names() -> dict[str, Any]:
    modules = {"": parquet_bloom, "index.": parquet_bloom.index}
    modules |= {"hudi.": parquet_bloom.hudi, "paimon.": parquet_bloom.paimon}
    return {f"{family}{name}": getattr(module, name) for family, module in modules.items() for name in module.__all__}
