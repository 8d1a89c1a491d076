"""A table remembers its readers as a property, and nothing else of it changes by that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from files import statuses

import parquet_bloom
from parquet_bloom import add, advise
from parquet_bloom.errors import ConcurrentChangeError, UnsupportedError
from parquet_bloom.filters.readers import VARIABLE
from parquet_bloom.storage.folder import Folder
from parquet_bloom.tables.delta import OpenDelta
from parquet_bloom.tables.iceberg import OpenIceberg
from parquet_bloom.tables.table_properties import READERS

CURRENT = "duckdb>=2,datafusion>=55"


@pytest.fixture(autouse=True)
def anyone_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)


def rows(first: int = 0) -> pa.Table:
    return pa.table({"id": range(first, first + 50), "blob": [b"%d\xff" % i for i in range(first, first + 50)]})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table with a constraint, properties and a description, in two files."""
    write_deltalake(
        str(tmp_path / "t"),
        rows(),
        name="events",
        description="ünter",
        configuration={"delta.appendOnly": "false", "delta.logRetentionDuration": "interval 99 days"},
    )
    table = DeltaTable(str(tmp_path / "t"))
    table.alter.add_constraint({"positive": "id >= 0"})
    table.alter.set_table_properties({"own.key": "x"}, raise_if_not_exists=False)
    write_deltalake(table, rows(50), mode="append")
    return tmp_path / "t"


def metadata(root: Path, version: int | None = None) -> dict[str, Any]:
    """Returns what deltalake knows of a table, but its files."""
    table = DeltaTable(str(root), version=version)
    known, protocol = table.metadata(), table.protocol()
    return {
        "id": known.id,
        "name": known.name,
        "description": known.description,
        "partitions": known.partition_columns,
        "created": known.created_time,
        "configuration": known.configuration,
        "schema": json.loads(table.schema().to_json()),
        "protocol": tuple(
            getattr(protocol, each)
            for each in ("min_reader_version", "min_writer_version", "reader_features", "writer_features")
        ),
    }


def expect_remembered(root: Path, before: dict[str, Any], readers: str) -> None:
    now = metadata(root)
    assert now["configuration"] == {**before["configuration"], READERS: readers}
    assert {**now, "configuration": None} == {**before, "configuration": None}


def test_a_delta_table_remembers_them_and_nothing_else_changes(root: Path) -> None:
    before, version = metadata(root), DeltaTable(str(root)).version()
    added = add(root, ["id", "blob"], table=True, readers=CURRENT)
    assert statuses(added) == ["written"] * 2
    assert added.errors == ()
    assert [row.notes for row in added.rows] == [(), ()]
    expect_remembered(root, before, CURRENT)
    (information, changed) = lakes.actions(root, version + 1)
    assert information["commitInfo"]["operation"] == "SET TBLPROPERTIES"
    assert changed.keys() == {"metaData"}
    (old,) = [one["metaData"] for one in lakes.actions(root, 2) if "metaData" in one]
    assert {**changed["metaData"], "configuration": None} == {**old, "configuration": None}
    # time travel, and other writers
    assert metadata(root, version) == before
    for each in range(version + 3):
        assert lakes.delta_rows(root, each) == list(range(50 if each < 3 else 100))
    write_deltalake(str(root), rows(100), mode="append")
    with pytest.raises(Exception, match="failed validation"):
        write_deltalake(str(root), rows(-50), mode="append")
    # From now on it is known, and no more is committed for it.
    assert add(root, ["id", "blob"], table=True).errors == ()
    newest = DeltaTable(str(root)).version()
    assert add(root, ["id", "blob"], table=True, readers=CURRENT).errors == ()
    assert DeltaTable(str(root)).version() == newest
    assert lakes.delta_rows(root) == list(range(150))


def test_it_is_remembered_from_a_checkpoint(root: Path) -> None:
    table = DeltaTable(str(root))
    table.create_checkpoint()
    before = metadata(root)
    for commit in (root / "_delta_log").glob("*.json"):
        if int(commit.stem) < table.version():
            commit.unlink()
    assert add(root, "blob", table=True, readers=CURRENT).errors == ()
    expect_remembered(root, before, CURRENT)
    (_, changed) = lakes.actions(root, table.version() + 1)
    assert changed["metaData"]["format"] == {"provider": "parquet", "options": {}}
    assert lakes.delta_rows(root) == list(range(100))


def test_with_column_mapping_and_in_commit_timestamps(root: Path) -> None:
    (old,) = [one["metaData"] for one in lakes.actions(root, 2) if "metaData" in one]
    version = DeltaTable(str(root)).version()
    configuration = {
        **old["configuration"],
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": str(version + 1),
        "delta.inCommitTimestampEnablementTimestamp": "4000000000000",
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": "2",
    }
    schema = json.loads(old["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    features = ["inCommitTimestamp", "columnMapping", "checkConstraints", "appendOnly", "invariants"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    lakes.log(
        root,
        version + 1,
        {"commitInfo": {"inCommitTimestamp": 4_000_000_000_000}},
        {"protocol": {**protocol, "readerFeatures": ["columnMapping"], "writerFeatures": features}},
        {"metaData": {**old, "configuration": configuration, "schemaString": json.dumps(schema)}},
    )
    before = metadata(root)
    assert add(root, ["id", "blob"], table=True, readers=CURRENT).errors == ()
    expect_remembered(root, before, CURRENT)
    (information, _) = lakes.actions(root, version + 2)
    assert information["commitInfo"]["inCommitTimestamp"] == 4_000_000_000_001
    assert lakes.delta_rows(root) == list(range(100))


def test_a_dry_run_and_a_column_that_no_file_has_remember_nothing(root: Path) -> None:
    version = DeltaTable(str(root)).version()
    assert add(root, "blob", table=True, readers=CURRENT, dry_run=True).errors == ()
    with pytest.raises(LookupError):
        add(root, "blobs", table=True, readers=CURRENT)
    with pytest.raises(ValueError, match="does not know 'x'"):
        add(root, "blob", table=True, readers="x")
    assert DeltaTable(str(root)).version() == version


def test_the_property_counts_more_than_the_environment_and_less_than_what_is_given(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_left_out(**options: Any) -> bool:
        added = add(root, ["id", "blob"], table=True, dry_run=True, **options)
        return any(row.skipped_columns for row in added.rows)

    assert is_left_out()
    assert not is_left_out(accept_hazards=True)
    monkeypatch.setenv(VARIABLE, CURRENT)
    assert not is_left_out()
    add(root, "id", table=True, readers="duckdb==1.5.*")
    assert is_left_out()
    assert not is_left_out(readers=CURRENT)
    monkeypatch.delenv(VARIABLE)
    add(root, "id", table=True, readers=CURRENT)  # another one is remembered instead
    assert DeltaTable(str(root)).metadata().configuration[READERS] == CURRENT
    assert not is_left_out()


def test_the_index_beside_a_table_counts_if_it_has_no_property(root: Path) -> None:
    parquet_bloom.index.create(root, "id", readers=CURRENT)
    assert add(root, ["id", "blob"], table=True, dry_run=True).errors == ()
    assert READERS not in DeltaTable(str(root)).metadata().configuration
    add(root, "id", table=True, readers="duckdb")
    assert "left out" in add(root, ["id", "blob"], table=True, dry_run=True).rows[0].skipped_columns[0].reason


def test_a_property_that_is_not_understood_is_an_error(root: Path) -> None:
    DeltaTable(str(root)).alter.set_table_properties({READERS: "duckbd"}, raise_if_not_exists=False)
    for call in (add, advise):
        options: dict[str, Any] = {"columns": "id", "table": True} if call is add else {}
        with pytest.raises(ValueError, match="the remembered readers 'duckbd': does not know 'duckbd'"):
            call(root, **options)
    assert add(root, "id", table=True, readers=CURRENT).errors == ()
    assert DeltaTable(str(root)).metadata().configuration[READERS] == CURRENT


def test_policy_leaves_out_what_readers_lose(root: Path) -> None:
    wanted = {f"parquet.bloom.filter.enabled#{name}": "true" for name in ("id", "blob")}
    DeltaTable(str(root)).alter.set_table_properties(wanted, raise_if_not_exists=False)
    added = add(root, policy=True, table=True, dry_run=True)
    assert [[one.column for one in row.skipped_columns] for row in added.rows] == [["blob"], ["blob"]]
    advice = {row.column: row for row in advise(root)}
    assert (advice["id"].advice, advice["blob"].advice) == ("add", "left out")
    assert advise(root, readers=CURRENT).columns.keys() == {"id", "blob"}


def test_where_it_cannot_be_remembered_a_note_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = metadata(root)
    monkeypatch.setattr(Folder, "may_be_exclusive", False)
    added = add(root, ["id", "blob"], table=True, readers=CURRENT)
    assert statuses(added) == ["written"] * 2
    for row in added.rows:
        assert [note for note in row.notes if "does not remember the readers" in note and "S3 only" in note]
    assert metadata(root) == before
    assert lakes.delta_rows(root) == list(range(100))


def test_metadata_that_is_not_understood_is_left_alone(root: Path) -> None:
    (old,) = [one["metaData"] for one in lakes.actions(root, 2) if "metaData" in one]
    version = DeltaTable(str(root)).version()
    lakes.log(root, version + 1, {"metaData": {**old, "shadow": 1}})
    added = add(root, "id", table=True, readers=CURRENT)
    assert statuses(added) == ["written"] * 2
    assert all("fields that are not understood: shadow" in row.notes[0] for row in added.rows)
    assert READERS not in DeltaTable(str(root)).metadata().configuration


def interrupted(monkeypatch: pytest.MonkeyPatch, what: type, before: Callable[[], None]) -> list[int]:
    """Has another writer commit before the first attempt to set properties; returns the attempts."""
    attempts: list[int] = []
    real = what.set_properties

    def first_another(self: Any, properties: Any) -> Any:
        attempts.append(1)
        if len(attempts) == 1:
            before()
        return real(self, properties)

    monkeypatch.setattr(what, "set_properties", first_another)
    return attempts


def test_another_writer_of_a_delta_table_loses_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write() -> None:
        table = DeltaTable(str(root))
        table.alter.set_table_properties({"their.key": "y"}, raise_if_not_exists=False)
        write_deltalake(table, rows(100), mode="append")

    attempts = interrupted(monkeypatch, OpenDelta, write)
    assert add(root, "id", table=True, readers=CURRENT).errors == ()
    assert len(attempts) == 2
    configuration = DeltaTable(str(root)).metadata().configuration
    assert (configuration["their.key"], configuration["own.key"], configuration[READERS]) == ("y", "x", CURRENT)
    assert lakes.delta_rows(root) == list(range(150))


@pytest.mark.parametrize(
    "operation",
    [
        lambda table: write_deltalake(table, rows(100), mode="append"),
        lambda table: table.delete("id = 5"),
        lambda table: table.optimize.compact(),
    ],
    ids=["append", "delete", "optimize"],
)
def test_what_deltalake_began_before_fails_and_changes_nothing(root: Path, operation: Callable[[Any], Any]) -> None:
    table = DeltaTable(str(root))
    OpenDelta(str(root)).set_properties({READERS: CURRENT})
    with pytest.raises(CommitFailedError, match="Metadata changed"):
        operation(table)
    assert lakes.delta_rows(root) == list(range(100))
    operation(DeltaTable(str(root)))
    assert DeltaTable(str(root)).metadata().configuration[READERS] == CURRENT


def test_a_table_that_never_lets_us_in_is_told_of(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(self: Any, properties: Any) -> Any:
        raise ConcurrentChangeError("always busy")

    monkeypatch.setattr(OpenDelta, "set_properties", busy)
    monkeypatch.setattr("parquet_bloom.verbs.changes._LONGEST_PAUSE", 0.0)
    added = add(root, "id", table=True, readers=CURRENT)
    assert statuses(added) == ["written"] * 2
    assert "always busy" in added.rows[0].notes[0]


# ---- Iceberg -----------------------------------------------------------------------------


@pytest.fixture
def iceberg(catalog: Any) -> Any:
    made = catalog.create_table("n.t", rows().schema, properties={"own.key": "x", "write.metadata.compression": "none"})
    made.append(rows())
    made.append(rows(50))
    return made


def state(table: Any) -> dict[str, Any]:
    """Returns an Iceberg table's metadata but for what each commit changes."""
    told = json.loads(table.metadata.model_dump_json())
    return {name: told[name] for name in told if name not in ("last-updated-ms", "metadata-log", "properties")}


def test_an_iceberg_table_remembers_them_and_nothing_else_changes(catalog: Any, iceberg: Any) -> None:
    before, own = state(iceberg), dict(iceberg.properties)
    added = add(iceberg, ["id", "blob"], table=True, readers=CURRENT, dry_run=True)
    assert added.errors == ()
    assert catalog.load_table("n.t").properties == own
    opened = OpenIceberg(catalog.load_table("n.t"))
    made = opened.set_properties({READERS: CURRENT})
    assert made.version == opened.snapshot.version
    assert opened.snapshot.properties == {**own, READERS: CURRENT}
    assert catalog.load_table("n.t").properties == {**own, READERS: CURRENT}
    assert state(catalog.load_table("n.t")) == before
    assert lakes.iceberg_rows(catalog.load_table("n.t")) == list(range(100))


def test_it_is_committed_before_the_files_and_known_from_then_on(catalog: Any, iceberg: Any) -> None:
    first, own = iceberg.current_snapshot().snapshot_id, dict(iceberg.properties)
    added = add(iceberg, ["id", "blob"], table=True, readers=CURRENT)
    assert statuses(added) == ["written"] * 2
    assert added.errors == ()
    now = catalog.load_table("n.t")
    assert now.properties == {**own, READERS: CURRENT}
    assert lakes.iceberg_rows(now) == lakes.iceberg_rows(now, first) == list(range(100))
    now.append(rows(100))
    again = add(catalog.load_table("n.t"), ["id", "blob"], table=True)
    assert again.errors == ()
    assert sorted(statuses(again)) == ["unchanged", "unchanged", "written"]
    log = catalog.load_table("n.t").metadata.metadata_log
    add(catalog.load_table("n.t"), ["id", "blob"], table=True, readers=CURRENT)
    assert catalog.load_table("n.t").metadata.metadata_log == log  # nothing was committed


def test_another_writer_of_an_iceberg_table_loses_nothing(
    catalog: Any, iceberg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write() -> None:
        other = catalog.load_table("n.t")
        with other.transaction() as transaction:
            transaction.set_properties({"their.key": "y"})
        other.append(rows(100))

    interrupted(monkeypatch, OpenIceberg, write)
    assert add(iceberg, "id", table=True, readers=CURRENT).errors == ()
    now = catalog.load_table("n.t")
    assert (now.properties["their.key"], now.properties["own.key"], now.properties[READERS]) == ("y", "x", CURRENT)
    assert lakes.iceberg_rows(now) == list(range(150))


def test_a_catalog_that_refuses_is_told_of(catalog: Any, iceberg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.table import Transaction

    def refused(self: Any, *properties: Any, **more: Any) -> Any:
        raise RuntimeError("no ALTER for you")

    monkeypatch.setattr(Transaction, "set_properties", refused)
    own = dict(iceberg.properties)
    added = add(iceberg, ["id", "blob"], table=True, readers=CURRENT)
    assert statuses(added) == ["written"] * 2
    assert all("no ALTER for you" in row.notes[0] for row in added.rows)
    assert catalog.load_table("n.t").properties == own


def test_a_table_that_cannot_be_committed_to_is_left_alone(root: Path) -> None:
    opened = OpenDelta(str(root))
    version = DeltaTable(str(root)).version() + 1
    lakes.log(root, version, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["magic"]}})
    opened.refresh()
    with pytest.raises(UnsupportedError, match="it has the feature magic"):
        opened.set_properties({READERS: CURRENT})
    assert DeltaTable(str(root)).version() == version
