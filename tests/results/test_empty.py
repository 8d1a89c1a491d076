"""A result without rows has the columns that one with rows has, of the same types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.results import Table
from parquet_bloom.verbs.add_files import Added
from parquet_bloom.verbs.advise import Advice
from parquet_bloom.verbs.drop import Dropped
from parquet_bloom.verbs.erase import Erased
from parquet_bloom.verbs.erase_ledger import LedgerCheck
from parquet_bloom.verbs.erase_plan import Steps
from parquet_bloom.verbs.erased import Traces
from parquet_bloom.verbs.index import IndexState
from parquet_bloom.verbs.inspect import Inspection
from parquet_bloom.verbs.probe import Probe
from parquet_bloom.verbs.recover import Recovered
from parquet_bloom.verbs.report import Report
from parquet_bloom.verbs.verdicts import Pruning
from parquet_bloom.verbs.verify import Verification

pytestmark = pytest.mark.usefixtures("mtime_stable")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"id": [1, 2, None]}), tmp_path / "f.parquet")
    parquet_bloom.add(tmp_path, "id")
    return tmp_path


def delta_of(file: Path) -> Path:
    import deltalake

    table = file.with_name("delta")
    if not table.exists():
        deltalake.write_deltalake(table, pa.table({"id": [1, 2]}))
    return table


def ledger_of(file: Path) -> Path:
    ledger = file.with_name("ledger.json")
    if not ledger.exists():
        parquet_bloom.erase(file, "id", [7], ledger=ledger, ledger_keys="plain")
    return ledger


RESULTS: dict[type[Table], tuple[Any, Any]] = {
    Inspection: (lambda file: parquet_bloom.inspect(file), Inspection(())),
    Probe: (lambda file: parquet_bloom.probe(file, "id", 1), Probe(())),
    Pruning: (lambda file: parquet_bloom.prune(file, "id = 1"), Pruning("TRUE", ())),
    Verification: (lambda file: parquet_bloom.verify(file), Verification(())),
    Added: (lambda file: parquet_bloom.add(file, "id", replace=True), Added(())),
    Dropped: (lambda file: parquet_bloom.drop(file), Dropped(())),
    Erased: (lambda file: parquet_bloom.erase(file, "id", [1]), Erased(())),
    LedgerCheck: (lambda file: parquet_bloom.check_ledger(ledger_of(file)), LedgerCheck("", ())),
    Traces: (lambda file: parquet_bloom.erased(file, "id", [1]), Traces(())),
    Steps: (lambda file: parquet_bloom.erase_plan(delta_of(file), "id", [1]), Steps(())),
    Recovered: (lambda file: parquet_bloom.recover(file), Recovered(())),
    Advice: (lambda file: parquet_bloom.advise(file), Advice((), (), 0, 0, 0, 0)),
    Report: (lambda file: parquet_bloom.report(file, file / "r.html", force=True), Report("", 0, Inspection(()))),
    IndexState: (lambda file: parquet_bloom.index.create(file, "id"), IndexState("", 0, 0, 0, ())),
}


def test_every_result_is_here() -> None:
    # A dataclass with slots is a second class of its name.
    assert {kind.__name__ for kind in Table.__subclasses__()} == {kind.__name__ for kind in RESULTS}


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_schema_without_rows(file: Path, kind: type[Table]) -> None:
    make, empty = RESULTS[kind]
    full = make(file).to_arrow()
    assert full.num_rows > 0
    assert pa.null() not in full.schema.types
    assert empty.to_arrow().schema == full.schema
    assert full.schema.names[0] == "schema_version"
    assert full.to_pylist() == make(file).to_dicts() or kind in (Added, Dropped, Erased, IndexState)


def test_a_verb_that_finds_nothing_has_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "f.parquet")
    found = parquet_bloom.inspect(tmp_path).to_arrow()
    assert (found.num_rows, found.schema.field("num_bytes").type) == (0, pa.int64())
