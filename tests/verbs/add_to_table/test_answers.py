"""Engines give the same answers before and after a commit, now and for earlier versions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from files import snapshot, statuses, table
from lazily import chdb, pl

from parquet_bloom import add, inspect
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.tables import snapshot_of

QUESTIONS = [
    "id >= 0",
    "id = 25",
    "id = 1000000",
    "name = 'name 7'",
    "p = 'a b'",
    "p IS NULL",
    "id > 10 AND p <> 'x:y'",
]


def of_chdb(source: str, settings: str = "") -> list[list[tuple[Any, ...]]]:
    answers = []
    for question in QUESTIONS:
        query = f"SELECT id, name, p FROM {source} WHERE {question} ORDER BY id {settings}"
        answers.append([tuple(row.values()) for row in chdb.query(query, "ArrowTable").to_pylist()])
    return answers


def of_arrow(rows: pa.Table) -> list[list[tuple[Any, ...]]]:
    """Returns the answers of a table's rows, all of which the engine under test has read."""
    with pl.SQLContext(rows=pl.from_arrow(rows.select(["id", "name", "p"]))) as context:
        asked = [f"SELECT id, name, p FROM rows WHERE {question} ORDER BY id" for question in QUESTIONS]
        return [context.execute(query, eager=True).rows() for query in asked]


def of_frame(frame: Any) -> list[list[tuple[Any, ...]]]:
    asked = [frame.filter(pl.sql_expr(question)).select("id", "name", "p").sort("id") for question in QUESTIONS]
    return [query.collect().rows() for query in asked]


DELTA_READERS: dict[str, Callable[[str, int], Any]] = {
    "deltalake": lambda root, version: of_arrow(DeltaTable(root, version=version).to_pyarrow_table()),
    "deltalake scan": lambda root, version: of_arrow(
        pa.RecordBatchReader.from_stream(DeltaTable(root, version=version).scan()).read_all()
    ),
    "polars": lambda root, version: of_frame(pl.scan_delta(root, version=version)),
    "chdb": lambda root, version: of_chdb(
        f"deltaLakeLocal('{root}')", f"SETTINGS delta_lake_snapshot_version = {version}"
    ),
}


def test_new_files_give_the_access_that_the_old_ones_gave(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    lakes.delta(root)
    old = list(root.glob("*.parquet"))
    for path in old:
        path.chmod(0o640)
        if os.geteuid() == 0:
            os.chown(path, 1234, 4321)
    assert set(statuses(add(root, "id", table=True))) == {"written"}
    new = [path.stat() for path in root.glob("*.parquet") if path not in old]
    wanted = old[0].stat()
    assert {(s.st_mode, s.st_uid, s.st_gid) for s in new} == {(wanted.st_mode, wanted.st_uid, wanted.st_gid)}


@pytest.mark.engines
@pytest.mark.parametrize("parted", [False, True], ids=["plain", "partitioned"])
def test_readers_of_delta_agree(tmp_path: Path, monkeypatch: Any, parted: bool) -> None:
    monkeypatch.chdir(tmp_path)  # ClickHouse reads tables only below where it runs
    root = str(tmp_path / "lake")
    rows = lakes.odd_rows()
    for part in (rows.slice(0, 20), rows.slice(20)):
        write_deltalake(root, part, mode="append", partition_by=["p"] if parted else None)
    before = {name: [read(root, version) for version in (0, 1)] for name, read in DELTA_READERS.items()}
    files = snapshot(Path(root))
    old = snapshot_of(root)
    added = add(root, ["id", "name"], table=True, batch=1000)
    assert set(statuses(added)) == {"written"}
    for name, read in DELTA_READERS.items():
        assert [read(root, version) for version in (0, 1)] == before[name], name
        assert read(root, 2) == before[name][1], name
    assert DeltaTable(root).count() == len(rows)
    _check_files(Path(root), files, old, added)
    (entry,) = DeltaTable(root).history(1)
    assert entry["userMetadata"] == f"parquet-bloom: {len(added.rows)} files with filters"
    assert set(statuses(add(root, ["id", "name"], table=True))) == {"unchanged"}
    assert DeltaTable(root).version() == 2


ICEBERG_READERS: dict[str, Callable[[Any, int], Any]] = {
    "pyiceberg": lambda made, version: of_arrow(made.scan(snapshot_id=version).to_arrow()),
    "polars": lambda made, version: of_frame(pl.scan_iceberg(made, snapshot_id=version)),
    "chdb": lambda made, version: of_chdb(
        f"icebergLocal('{made.location().removeprefix('file://')}')", f"SETTINGS iceberg_snapshot_id = {version}"
    ),
}


@pytest.mark.engines
@pytest.mark.parametrize("transform", [None, "identity", "bucket[4]"], ids=["plain", "identity", "bucket"])
def test_readers_of_iceberg_agree(catalog: Any, tmp_path: Path, monkeypatch: Any, transform: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    rows = lakes.odd_rows()
    if transform:
        made = lakes.partitioned(catalog, rows.slice(0, 20), transform)
    else:
        made = catalog.create_table("n.t", rows.schema)
        made.append(rows.slice(0, 20))
    made.append(rows.slice(20))
    versions = [entry.snapshot_id for entry in made.history()]
    root = Path(made.location().removeprefix("file://"))
    before = {name: [read(made, version) for version in versions] for name, read in ICEBERG_READERS.items()}
    files, old = snapshot(root), snapshot_of(made)
    added = add(made, ["id", "name"], table=True, batch=1000)
    assert set(statuses(added)) == {"written"}
    now = made.current_snapshot()
    assert (now.parent_snapshot_id, len(made.history())) == (versions[-1], len(versions) + 1)
    assert now.summary["total-records"] == str(len(rows))
    for name, read in ICEBERG_READERS.items():
        assert [read(made, version) for version in versions] == before[name], name
        assert read(made, now.snapshot_id) == before[name][-1], name
    assert now.summary.operation.value == "replace"
    _check_files(root, files, old, added, lakes.metadata_of(made))
    assert set(statuses(add(made, ["id", "name"], table=True))) == {"unchanged"}
    assert made.refresh().current_snapshot().snapshot_id == now.snapshot_id


def _check_files(root: Path, before: dict[str, Any], old: Any, added: Any, table: Path | None = None) -> None:
    """Each live file starts with the one whose place it took, and has the filters; no older file has changed."""
    after = snapshot(root)
    assert {name: after[name] for name in before} == before
    new = {file.path: file for file in snapshot_of(table or root).files}  # type: ignore[union-attr]
    assert {row.output for row in added.rows} == set(new)
    assert {row.path for row in added.rows} == {file.path for file in old.files}
    parts = {file.path: file for file in old.files}
    for row in added.rows:
        first, second = Path(row.path), Path(row.output)
        assert second.read_bytes().startswith(first.read_bytes())
        assert second.stat().st_size == new[row.output].size == row.size + row.bytes_added
        assert new[row.output].partition == parts[row.path].partition
        assert new[row.output].num_rows == parts[row.path].num_rows
        filters = {f.column for f in inspect(row.output).rows if f.num_bytes}
        assert {"id", "name"} <= filters
    data = {str(p.relative_to(root)) for p in root.rglob("*.parquet") if "_delta_log" not in p.parts}
    assert len(data) == len(parts) + len(new)


def test_columns_have_the_table_s_names(tmp_path: Path, catalog: Any) -> None:
    mapped = str(tmp_path / "mapped")
    write_deltalake(mapped, lakes.odd_rows(), partition_by=["p"], configuration={"delta.columnMapping.mode": "name"})
    before = lakes.delta_rows(mapped)
    assert set(statuses(add(mapped, "name", table=True))) == {"written"}
    assert lakes.delta_rows(mapped) == before
    made = lakes.iceberg(catalog)
    with made.update_schema() as update:
        update.rename_column("name", "title")
    made.append(table(5, 60).rename_columns(["id", "title"]))
    added = add(made, "title", table=True)
    assert statuses(added) == ["written"] * 4
    assert {f.column for row in added.rows for f in row.filters} == {"title"}
    assert len(lakes.iceberg_rows(made)) == 65


def test_statistics_are_carried_over(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    delta = lakes.delta(root)
    delta.create_checkpoint()
    shutil.rmtree(tmp_path / "copy", ignore_errors=True)
    old = {entry["path"]: entry for version in range(3) for entry in lakes.adds(root, version)}
    added = add(delta, "id", table=True)
    assert delta.version() == 3
    origin = {Path(row.output).name: Path(row.path).name for row in added.rows}
    for entry in lakes.adds(root, 3):
        was = old[origin[entry["path"]]]
        assert (entry["stats"], entry["partitionValues"]) == (was["stats"], was["partitionValues"])
        assert entry["dataChange"] is False
    kept = [action["remove"] for action in lakes.actions(root, 3) if "remove" in action]
    assert {remove["path"] for remove in kept} == set(old)
    assert not any(remove["dataChange"] for remove in kept)


def test_a_file_without_statistics_gets_its_row_count(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1)
    (entry,) = lakes.adds(tmp_path)
    lakes.log(tmp_path, 1, lakes.removal(entry), {"add": {**entry, "stats": None, "path": "other.parquet"}})
    shutil.copy(tmp_path / entry["path"], tmp_path / "other.parquet")
    assert snapshot_of(tmp_path).num_rows is None  # type: ignore[union-attr]
    assert statuses(add(tmp_path, "id", table=True)) == ["written"]
    assert snapshot_of(tmp_path).num_rows == DeltaTable(str(tmp_path)).count() == 20  # type: ignore[union-attr]


def test_tables_may_be_mixed_and_batches_small(tmp_path: Path) -> None:
    delta = lakes.delta(tmp_path, files=5)
    done: list[tuple[int, int]] = []
    added = add(delta, "id", table=True, batch=2, progress=lambda *counts: done.append(counts))
    assert statuses(added) == ["written"] * 5
    assert delta.version() == 4 + 3
    assert done[-1] == (5, 5)
    assert done == sorted(done)
    write_deltalake(str(tmp_path), table(20, 100), mode="append")
    assert sorted(statuses(add(tmp_path, "id", table=True))) == ["unchanged"] * 5 + ["written"]
    again = add(tmp_path, "id", table=True, replace=True)
    assert statuses(again) == ["written"] * 6
    assert lakes.delta_rows(tmp_path) == list(range(120))


def test_a_dry_run_writes_nothing(tmp_path: Path, catalog: Any) -> None:
    delta, made = lakes.delta(tmp_path / "delta"), lakes.iceberg(catalog)
    before = snapshot(tmp_path)
    for given in (delta, made):
        planned = add(given, "id", table=True, dry_run=True)
        assert statuses(planned) == ["planned"] * 3
        assert all(row.bytes_added for row in planned.rows)
    del before["warehouse/catalog.db"]
    after = snapshot(tmp_path)
    del after["warehouse/catalog.db"]
    assert after == before


def test_an_empty_table_needs_nothing(tmp_path: Path, catalog: Any) -> None:
    delta = DeltaTable.create(str(tmp_path / "delta"), table().schema)
    assert add(delta, "id", table=True).rows == ()
    assert add(lakes.iceberg(catalog, files=0), "id", table=True).rows == ()


def test_a_table_of_a_catalog_by_its_names(catalog: Any, tmp_path: Path) -> None:
    made = lakes.iceberg(catalog)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".pyiceberg.yaml").write_text(f"catalog:\n  tests:\n    type: sql\n    uri: {catalog.properties['uri']}\n")

    of_table = ("n.t", "--catalog", "tests")
    (code, _, errors), *_ = lakes.commands(home, ("add", "-c", "name", "--table", "iceberg", *of_table))
    assert code == 0, errors
    assert len(made.refresh().history()) == 4
    assert set(statuses(add(made, "name", table=True))) == {"unchanged"}
    (home / "keys.txt").write_text("25\n")
    root = made.location().removeprefix("file://")
    answers = (
        (("prune", "-w", "id = 25", "--files-only"), 0, f"{root}/data/"),
        (("prune", "-w", "id = 70", "--files-only"), 1, ""),
        (("lookup", "-c", "id", "-k", "keys.txt"), 0, f"25\t{root}/data/"),
        (("index", "create", "-c", "id"), 0, f"{root}: 1 column"),
        (("index", "show"), 0, f"{root}: 1 column"),
        (("index", "drop"), 0, f"{root}: index dropped"),
    )
    verbs = (("add", "-c", "name", "--table", "iceberg"), ("prune", "-w", "id = 25"))
    refusals = [
        (("prune", root, "-w", "id = 25"), "only its catalog knows"),
        *(((*verb, "--catalog", "tests", "n.other"), "the catalog tests has no table n.other") for verb in verbs),
        *(((*verb, "--catalog", "tests", "other.t"), "the catalog tests has no table other.t") for verb in verbs),
        *(((*verb, "--catalog", "no", "n.t"), "pyiceberg cannot load n.t from the catalog no") for verb in verbs),
    ]
    ran = lakes.commands(home, *((*line, *of_table) for line, _, _ in answers), *(line for line, _ in refusals))
    for (line, code, said), (exit_code, output, errors) in zip(answers, ran, strict=False):
        assert (exit_code, output.startswith(said)) == (code, True), (line, errors)
    for (line, message), (exit_code, _, errors) in zip(refusals, ran[len(answers) :], strict=True):
        assert (exit_code, message in errors) == (2, True), (line, errors)
    (home / ".pyiceberg.yaml").write_text("catalog: {tests: {type: sql}}\n")  # in a form that pyiceberg does not take
    ((code, _, errors),) = lakes.commands(home, ("prune", "-w", "id = 25", *of_table))
    assert (code, "cannot read its configuration" in errors) == (2, True), errors
    with pytest.raises(UnsupportedError, match="works with Iceberg tables only, not with delta"):
        add("n.t", "name", table="delta", catalog="tests")
