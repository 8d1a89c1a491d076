"""Rows leave a Delta table by commits: what readers see now and of earlier versions, the log, and what is refused."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError
from files import only_error, statuses, table
from hypothesis import given, settings
from hypothesis import strategies as st

from parquet_bloom import LiteralError, UnsupportedError, add, erase, index, lookup, verify
from parquet_bloom.cli.commands import main
from parquet_bloom.tables.delta import OpenDelta


def rows_in_log(root: Path) -> int:
    return DeltaTable(str(root)).count()


def has_key(root: Path, keys: Any) -> bool:
    """Returns whether lookup still finds a candidate, or any live file's bytes of the column hold a key."""
    read = pa.RecordBatchReader.from_stream(DeltaTable(str(root)).scan(columns=["id"])).read_all()
    return bool({*read["id"].to_pylist()} & {*keys})


def test_rows_leave_the_newest_version_only(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=4)
    keys = [3, 25, 26, *range(60, 80), 999]
    before = {path: path.read_bytes() for path in tmp_path.glob("*.parquet")}
    planned = erase(tmp_path, "id", keys, table=True, dry_run=True)
    assert (sorted(statuses(planned)), planned.rows_erased) == (["planned"] * 3 + ["unchanged"], 23)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.parquet")} == before
    erased = erase(tmp_path, "id", keys, table=True, batch=2)
    assert sorted(statuses(erased)) == ["removed", "unchanged", "written", "written"]
    assert (erased.rows_erased, erased.version_before, erased.version_after) == (23, 3, 5)
    assert (erased.errors, erased.unreferenced) == ((), ())
    assert lakes.delta_rows(tmp_path) == sorted({*range(80)} - {*keys})
    assert lakes.delta_rows(tmp_path, 3) == list(range(80))
    assert rows_in_log(tmp_path) == 57
    assert all(path.read_bytes() == data for path, data in before.items())
    again = erase(tmp_path, "id", keys, table=True)
    assert set(statuses(again)) == {"unchanged"}
    assert again.version_after == 5


def test_the_commit_says_what_it_is(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=2, configuration={"delta.dataSkippingNumIndexedCols": "1"})
    erase(tmp_path, "id", [0, 19, *range(20, 40)], table=True)
    information, *others = lakes.actions(tmp_path, 2)
    said = information["commitInfo"]
    assert (said["operation"], said["readVersion"], said["isBlindAppend"]) == ("DELETE", 1, False)
    counts = {name: int(said["operationMetrics"][name]) for name in said["operationMetrics"]}
    assert (counts["numRemovedFiles"], counts["numAddedFiles"]) == (2, 1)
    assert (counts["numDeletedRows"], counts["numCopiedRows"]) == (22, 18)
    assert all(action.get("remove", action.get("add"))["dataChange"] for action in others)
    (new,) = [action["add"] for action in others if "add" in action]
    assert json.loads(new["stats"]) == {
        "numRecords": 18,
        "minValues": {"id": 1},
        "maxValues": {"id": 18},
        "nullCount": {"id": 0},
    }
    assert DeltaTable(str(tmp_path)).history(1)[0]["operation"] == "DELETE"


def test_statistics_of_many_types(tmp_path: Path) -> None:
    """Each bound is one of the rows that are left, or above and below all of them; deltalake reads them as such."""
    from datetime import UTC, date, datetime
    from decimal import Decimal

    long = "ü" * 40
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "text": ["a", long, "zz"],
            "day": [date(2020, 1, 1), date(2021, 1, 1), date(2022, 1, 1)],
            "at": pa.array([datetime(2020, 1, 1, 0, 0, 0, n, UTC) for n in (1, 1001, 5001)], pa.timestamp("us", "UTC")),
            "amount": pa.array([Decimal("1.10"), Decimal("1234567890123456.78"), Decimal("3")], pa.decimal128(18, 2)),
            "share": [0.5, float("nan"), 2.5],
            "flag": [True, False, None],
            "inner": [{"x": 1}, {"x": 2}, {"x": 9}],
        }
    )
    write_deltalake(str(tmp_path), rows)
    erase(tmp_path, "id", [3], table=True)
    (new,) = lakes.adds(tmp_path, 1)
    written = json.loads(new["stats"], parse_float=Decimal)
    low, high = written["minValues"], written["maxValues"]
    assert (low["id"], high["id"], low["inner"], high["inner"]) == (1, 2, {"x": 1}, {"x": 2})
    assert (low["text"], high["text"]) == ("a", long[:32] + "\U0010ffff")
    assert (low["day"], high["day"]) == ("2020-01-01", "2021-01-01")
    assert (low["at"], high["at"]) == ("2020-01-01T00:00:00.000Z", "2020-01-01T00:00:00.002Z")
    assert (low["amount"], high["amount"]) == (Decimal("1.10"), Decimal("1234567890123456.78"))
    assert written["nullCount"] == {**json.loads(lakes.adds(tmp_path)[0]["stats"])["nullCount"], "flag": 0}
    reader = pa.RecordBatchReader.from_stream(DeltaTable(str(tmp_path)).scan(predicate=f"text = '{long}'"))
    assert reader.read_all()["id"].to_pylist() == [2]


@pytest.mark.parametrize("mapping", ["none", "name"])
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_partitions_with_odd_names(tmp_path: Path, mapping: str, is_checkpointed: bool) -> None:
    rows = lakes.odd_rows()
    properties = {} if mapping == "none" else {"delta.columnMapping.mode": mapping}
    write_deltalake(str(tmp_path), rows, partition_by=["p"], configuration=properties)
    if is_checkpointed:
        DeltaTable(str(tmp_path)).create_checkpoint()
    keys = [0, 1, 6, 20]
    erased = erase(tmp_path, "id", keys, table=True)
    assert (erased.rows_erased, erased.errors) == (4, ())
    left = pa.RecordBatchReader.from_stream(DeltaTable(str(tmp_path)).scan()).read_all().select(rows.column_names)
    wanted = [row for row in rows.to_pylist() if row["id"] not in keys]
    assert sorted(left.to_pylist(), key=lambda row: row["id"]) == wanted
    statistics = [json.loads(add["stats"]) for add in lakes.adds(tmp_path, 1)]
    assert all(set(each["nullCount"]) == set(each["minValues"]) != set() for each in statistics)
    found = pa.RecordBatchReader.from_stream(DeltaTable(str(tmp_path)).scan(predicate="id = 7")).read_all()
    assert found.num_rows == 1


def test_in_commit_timestamps_rise(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1)
    (metadata,) = [action["metaData"] for action in lakes.actions(tmp_path, 0) if "metaData" in action]
    metadata["configuration"] |= {"delta.enableInCommitTimestamps": "true"}
    metadata["configuration"] |= {"delta.inCommitTimestampEnablementVersion": "1"}
    future = int(time.time() * 1000) + 10**9
    metadata["configuration"] |= {"delta.inCommitTimestampEnablementTimestamp": str(future)}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}
    information = {"inCommitTimestamp": future, "timestamp": future, "operation": "UPGRADE PROTOCOL"}
    lakes.log(tmp_path, 1, {"commitInfo": information}, {"protocol": protocol}, {"metaData": metadata})
    assert erase(tmp_path, "id", [3], table=True).errors == ()
    assert lakes.actions(tmp_path, 2)[0]["commitInfo"]["inCommitTimestamp"] == future + 1
    assert lakes.delta_rows(tmp_path) == [row for row in range(20) if row != 3]


def test_a_file_from_before_the_column_has_none_of_the_keys(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"x": [1, 2]}))
    write_deltalake(str(tmp_path), pa.table({"x": [3], "id": [7]}), mode="append", schema_mode="merge")
    erased = erase(tmp_path, "id", [7], table=True)
    assert (sorted(statuses(erased)), erased.errors) == (["removed", "unchanged"], ())
    assert rows_in_log(tmp_path) == 2


@pytest.mark.usefixtures("mtime_stable")
def test_filters_and_the_index_hold_what_is_left(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=3)
    add(tmp_path, "id", table=True)
    index.create(tmp_path, "id")
    erased = erase(tmp_path, "id", [5, 45], table=True)
    assert erased.errors == ()
    assert verify([row.output for row in erased if row.output]).is_sound
    assert index.refresh(tmp_path).built == 0
    found = lookup(tmp_path, "id", [4, 5, 45, 46]).to_arrow()
    assert set(found.filter(pa.compute.is_valid(found["path"]))["key"].to_pylist()) == {4, 46}


# ---- deletion vectors --------------------------------------------------------------------------


def in_files(root: Path) -> list[int]:
    """Returns the ids in the live files, deletion vectors not applied."""
    tables = [pq.read_table(path, partitioning=None) for path in DeltaTable(str(root)).file_uris()]
    return sorted(value for each in tables for value in each["id"].to_pylist())


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_rows_of_a_deletion_vector_leave_the_file_too(tmp_path: Path, is_checkpointed: bool) -> None:
    lakes.delta(tmp_path, files=1)
    lakes.give_deletion_vector(tmp_path, [3, 4, 15])
    if is_checkpointed:
        DeltaTable(str(tmp_path)).create_checkpoint()
    (planned,) = erase(tmp_path, "id", [3, 5], table=True, dry_run=True)
    (row,) = erased = erase(tmp_path, "id", [3, 5], table=True)
    for each in (planned, row):
        assert (each.rows_erased, each.rows_deleted_before) == (2, 1)
        assert each.notes == ("the file also loses rows without a key that the table had already deleted: 2",)
    assert erased.errors == ()
    left = [row for row in range(20) if row not in (3, 4, 5, 15)]
    assert in_files(tmp_path) == lakes.delta_rows(tmp_path) == left
    assert lakes.delta_rows(tmp_path, 1) == sorted({*range(20)} - {3, 4, 15})
    information, removed, added = lakes.actions(tmp_path, 2)
    (was,) = lakes.adds(tmp_path, 1)
    assert removed["remove"]["deletionVector"] == was["deletionVector"]
    assert "deletionVector" not in added["add"]
    assert json.loads(added["add"]["stats"])["numRecords"] == 16
    counts = information["commitInfo"]["operationMetrics"]
    assert [counts[f"num{name}"] for name in ("DeletedRows", "CopiedRows", "DeletionVectorsRemoved")] == [
        "1",
        "16",
        "1",
    ]


def test_a_key_in_deleted_rows_alone(tmp_path: Path) -> None:
    """The file is written again; one without a key keeps its deletion vector."""
    lakes.delta(tmp_path, files=2)
    lakes.give_deletion_vectors(tmp_path, [3], files=2)
    erased = erase(tmp_path, "id", [3], table=True)
    assert sorted((row.status, row.rows_erased, row.rows_deleted_before) for row in erased) == [
        ("unchanged", 0, 0),
        ("written", 1, 1),
    ]
    assert in_files(tmp_path) == [row for row in range(40) if row != 3]
    assert lakes.delta_rows(tmp_path) == [row for row in range(40) if row not in (3, 23)]
    assert set(statuses(erase(tmp_path, "id", [3], table=True))) == {"unchanged"}


def test_the_command_line_says_which_rows_were_deleted_before(tmp_path: Path) -> None:
    root, keys = tmp_path / "t", tmp_path / "keys.txt"
    lakes.delta(root, files=1)
    lakes.give_deletion_vector(root, [3])
    keys.write_text("3\n5\n")
    ran = CliRunner().invoke(main, ["erase", str(root), "--table", "-c", "id", "-k", str(keys), "--yes"])
    assert ": 2 rows (the table had already deleted 1) erased; " in ran.output


def test_a_file_whose_other_rows_are_deleted_goes(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1, rows=5)
    lakes.give_deletion_vector(tmp_path, [0, 1, 2])
    erased = erase(tmp_path, "id", [3, 4], table=True)
    assert (statuses(erased), erased.errors) == (["removed"], ())
    assert (lakes.delta_rows(tmp_path), lakes.delta_rows(tmp_path, 1)) == ([], [3, 4])


@pytest.mark.parametrize("first", [[], [4]])
def test_rows_that_another_writer_deletes_meanwhile_stay_deleted(
    tmp_path: Path, monkeypatch: Any, first: list[int]
) -> None:
    lakes.delta(tmp_path, files=1)
    lakes.give_deletion_vector(tmp_path, [9, *first])
    (was,) = lakes.adds(tmp_path, 1)
    commit, calls = OpenDelta.erase, []

    def after_another(opened: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            gone = {**lakes.removal(was)["remove"], "deletionVector": was["deletionVector"]}
            lakes.log(tmp_path, 2, {"remove": gone}, lakes.vectored(was, [7, 9, *first]))
        return commit(opened, *arguments)

    monkeypatch.setattr(OpenDelta, "erase", after_another)
    erased = erase(tmp_path, "id", [3], table=True)
    assert (statuses(erased), erased.errors, erased.unreferenced) == (["written"], (), ())
    assert lakes.delta_rows(tmp_path) == in_files(tmp_path) == sorted({*range(20)} - {3, 7, 9, *first})


@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    keys=st.sets(st.integers(0, 9), min_size=1),
    row_group=st.integers(1, 8),
    data=st.data(),
)
def test_whatever_is_deleted_only_live_rows_without_a_key_are_left(
    rows: list[int], keys: set[int], row_group: int, data: st.DataObject
) -> None:
    deleted = data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1))
    with tempfile.TemporaryDirectory() as folder:
        properties = WriterProperties(max_row_group_size=row_group)
        write_deltalake(folder, pa.table({"id": rows}), writer_properties=properties)
        lakes.give_deletion_vector(Path(folder), sorted(deleted))
        erased = erase(folder, "id", pa.array(sorted(keys)), table=True)
        assert erased.errors == ()
        live = [row for at, row in enumerate(rows) if at not in deleted]
        assert lakes.delta_rows(folder) == sorted(row for row in live if row not in keys)
        if {*rows} & keys:
            assert in_files(Path(folder)) == lakes.delta_rows(folder)
        assert erased.rows_erased == sum(row in keys for row in rows)
        assert erased.rows_erased - erased.rows[0].rows_deleted_before == sum(row in keys for row in live)


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("property_", "said"),
    [
        ("delta.appendOnly", "must not be deleted"),
        ("delta.enableChangeDataFeed", "change data feed is on"),
        ("delta.enableRowTracking", r"rowTracking.*; delete the rows with Spark, and then run REORG"),
    ],
)
def test_tables_that_are_refused_stay_as_they_are(tmp_path: Path, property_: str, said: str) -> None:
    lakes.delta(tmp_path, files=1)
    (metadata,) = [action["metaData"] for action in lakes.actions(tmp_path, 0) if "metaData" in action]
    metadata["configuration"][property_] = "true"
    features = ["appendOnly", "changeDataFeed", *(["rowTracking", "domainMetadata"] if "Row" in property_ else [])]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": features}
    lakes.log(tmp_path, 1, {"protocol": protocol}, {"metaData": metadata})
    for dry_run in (True, False):
        with pytest.raises(UnsupportedError, match=said):
            erase(tmp_path, "id", [3], table=True, dry_run=dry_run)
    assert len(list(tmp_path.glob("*.parquet"))) == 1


def test_a_vector_of_which_deltalake_does_not_tell_is_refused(tmp_path: Path) -> None:
    """The log has a deletion vector, and the protocol says that there are none."""
    lakes.delta(tmp_path, files=1)
    (add,) = lakes.adds(tmp_path)
    lakes.log(tmp_path, 1, lakes.removal(add), lakes.vectored(add, [4]))
    assert "do not agree on whether it has a deletion vector" in only_error(erase(tmp_path, "id", [3], table=True))
    assert len(list(tmp_path.glob("*.parquet"))) == 1


def test_a_file_with_row_ids_is_refused(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1)
    (add,) = lakes.adds(tmp_path)
    lakes.log(tmp_path, 1, {"add": {**add, "baseRowId": 0, "defaultRowCommitVersion": 1}})
    assert "it has row ids, which a commit would lose; delete the rows with Spark" in only_error(
        erase(tmp_path, "id", [3], table=True)
    )


@pytest.mark.parametrize("kind", ["Hudi", "Paimon"])
def test_other_tables_are_refused(tmp_path: Path, kind: str) -> None:
    for folder in {"Hudi": [".hoodie"], "Paimon": ["snapshot", "manifest", "schema"]}[kind]:
        (tmp_path / folder).mkdir()
    with pytest.raises(UnsupportedError, match=f"is a {kind} table; delete the rows with {kind}'s own engines"):
        erase(tmp_path, "id", [1], table=True)


def test_without_table_nothing_is_touched(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1)
    with pytest.raises(UnsupportedError, match="table=True"):
        erase(tmp_path, "id", [1])


def test_a_file_with_other_rows_than_are_recorded_is_refused(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1)
    actions = lakes.actions(tmp_path, 0)
    (one,) = [action["add"] for action in actions if "add" in action]
    one["stats"] = json.dumps({"numRecords": 21})
    lakes.log(tmp_path, 0, *actions)
    error = only_error(erase(tmp_path, "id", [3], table=True))
    assert error == "the file has 20 rows, and the table records 21"


def test_what_an_interrupted_commit_may_have_made_is_kept_and_named(tmp_path: Path, monkeypatch: Any) -> None:
    lakes.delta(tmp_path)
    real = OpenDelta.erase

    def interrupted(*arguments: Any) -> None:
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(OpenDelta, "erase", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        erase(tmp_path, "id", [3], table=True)
    (note,) = caught.value.__notes__
    (new,) = tmp_path.glob("*-erased-*")
    assert str(new) in note
    assert lakes.delta_rows(tmp_path) == [n for n in range(60) if n != 3]


def test_null_is_no_key_of_a_table(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1)
    with pytest.raises(LiteralError, match="is NULL"):
        erase(tmp_path, "id", [1, None], table=True)
    assert lakes.delta_rows(tmp_path) == list(range(20))


@pytest.mark.parametrize("option", [{"keep_empty": True}, {"any_name": True}, {"batch": 0}])
def test_options_that_do_not_go_with_a_table(tmp_path: Path, option: dict[str, Any]) -> None:
    lakes.delta(tmp_path, files=1)
    with pytest.raises(ValueError, match=next(iter(option))):
        erase(tmp_path, "id", [1], table=True, **option)


# ---- other writers, and ends ------------------------------------------------------------------


def test_rows_that_come_meanwhile_are_erased_too(tmp_path: Path, monkeypatch: Any) -> None:
    lakes.delta(tmp_path, files=3)
    commit, calls = OpenDelta.erase, []

    def after_another(opened: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) <= 2:
            write_deltalake(str(tmp_path), table(5, 100 + 10 * len(calls)), mode="append")
        return commit(opened, *arguments)

    monkeypatch.setattr(OpenDelta, "erase", after_another)
    erased = erase(tmp_path, "id", [3, 112, 121], table=True)
    assert (erased.errors, erased.rows_erased) == ((), 3)
    assert not has_key(tmp_path, [3, 112, 121])
    assert rows_in_log(tmp_path) == 60 + 10 - 3


def test_a_file_that_another_writer_deletes_from_meanwhile(tmp_path: Path, monkeypatch: Any) -> None:
    lakes.delta(tmp_path, files=2)
    commit, calls = OpenDelta.erase, []

    def after_another(opened: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            DeltaTable(str(tmp_path)).delete("id = 7")
        return commit(opened, *arguments)

    monkeypatch.setattr(OpenDelta, "erase", after_another)
    erased = erase(tmp_path, "id", [3, 25], table=True)
    assert erased.errors == ()
    assert lakes.delta_rows(tmp_path) == sorted({*range(40)} - {3, 7, 25})
    assert erased.unreferenced == ()


def test_a_compaction_that_began_before_does_not_bring_rows_back(tmp_path: Path, monkeypatch: Any) -> None:
    lakes.delta(tmp_path, files=4)
    early, commit = DeltaTable(str(tmp_path)), OpenDelta.erase

    def before_compaction(opened: Any, *arguments: Any) -> Any:
        made = commit(opened, *arguments)
        with pytest.raises(DeltaError, match="concurrent"):
            early.optimize.compact()
        return made

    monkeypatch.setattr(OpenDelta, "erase", before_compaction)
    assert erase(tmp_path, "id", [3, 25], table=True).errors == ()
    assert lakes.delta_rows(tmp_path) == sorted({*range(80)} - {3, 25})


def test_earlier_versions_that_cannot_be_read(tmp_path: Path, monkeypatch: Any) -> None:
    lakes.delta(tmp_path, files=2)

    def damaged(opened: Any) -> Any:
        raise UnsupportedError("the log is not whole")

    monkeypatch.setattr(OpenDelta, "history", damaged)
    ledger = tmp_path / "ledger.json"
    with pytest.raises(UnsupportedError, match="not whole"):
        erase(tmp_path, "id", [3], table=True, ledger=ledger, ledger_keys="plain")
    assert DeltaTable(str(tmp_path)).version() == 1
    (failed,) = erase(tmp_path, "id", [3], table=True).errors
    assert "earlier versions cannot be read" in failed.error
    assert not has_key(tmp_path, [3])


def test_a_writer_that_keeps_appending(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=20, rows=10)
    stop, written = threading.Event(), []

    def append() -> None:
        while not stop.is_set() and len(written) < 30:
            first = 1000 + 10 * len(written)
            with contextlib.suppress(DeltaError):  # one that met a commit of ours, and was not made
                write_deltalake(str(tmp_path), table(10, first), mode="append")
                written.append(first)

    thread = threading.Thread(target=append)
    thread.start()
    try:
        keys = list(range(0, 200, 7))
        erased = erase(tmp_path, "id", keys, table=True, batch=3)
    finally:
        stop.set()
        thread.join()
    assert erased.errors == ()
    wanted = {*range(200)} - {*keys} | {row for first in written for row in range(first, first + 10)}
    assert lakes.delta_rows(tmp_path) == sorted(wanted)


KILLED = """
import sys, parquet_bloom
parquet_bloom.erase(sys.argv[1], "id", list(range(0, 400, 5)), table=True, batch=4)
"""


def kill_and_finish(root: Path, after: float, deleted: tuple[int, ...]) -> int:
    """Kills a run that long after its first output of files, runs again; returns how many files were unreferenced."""
    seen = len(list(root.glob("*.parquet")))
    run = subprocess.Popen([sys.executable, "-c", KILLED, str(root)], stderr=subprocess.DEVNULL)
    while run.poll() is None and len(list(root.glob("*.parquet"))) == seen:
        time.sleep(0.001)
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.wait(after)
    run.send_signal(signal.SIGKILL)
    run.wait()
    erased = erase(root, "id", list(range(0, 400, 5)), table=True, batch=4)
    assert erased.errors == ()
    wanted = [row for row in range(400) if row % 5 and row % 20 not in deleted]
    assert lakes.delta_rows(root) == in_files(root) == wanted
    assert rows_in_log(root) == len(wanted)
    known = {str(root / path) for v in range(DeltaTable(str(root)).version() + 1) for path in _files(root, v)}
    new = {str(path) for path in root.glob("*-erased-*.parquet")}
    assert set(erased.unreferenced) == new - known
    assert not list(root.glob(".*.tmp"))
    return len(erased.unreferenced)


def _files(root: Path, version: int) -> list[str]:
    return [add["path"] for add in lakes.adds(root, version)]


@pytest.mark.parametrize("deleted", [(), (5, 7)], ids=["plain", "with deletion vectors"])
@pytest.mark.parametrize("after", [0.0, 0.02, 0.05])
def test_a_run_that_is_killed_is_finished_by_the_next(tmp_path: Path, after: float, deleted: tuple[int, ...]) -> None:
    lakes.delta(tmp_path, files=20)
    if deleted:
        lakes.give_deletion_vectors(tmp_path, deleted, files=20)
    kill_and_finish(tmp_path, after, deleted)


@settings(max_examples=15, deadline=None)
@given(
    files=st.lists(st.lists(st.integers(0, 30) | st.none(), min_size=1, max_size=20), min_size=1, max_size=4),
    keys=st.sets(st.integers(0, 30)),
)
def test_whatever_the_rows_those_without_a_key_are_left(files: list[list[int | None]], keys: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for rows in files:
            write_deltalake(folder, pa.table({"id": pa.array(rows, pa.int64())}), mode="append")
        erased = erase(folder, "id", pa.array(sorted(keys), pa.int64()), table=True, batch=2)
        left = pa.RecordBatchReader.from_stream(DeltaTable(folder).scan()).read_all()["id"].to_pylist()
        wanted = [row for rows in files for row in rows if row not in keys]
        assert sorted(map(repr, left)) == sorted(map(repr, wanted))
        assert erased.rows_erased == sum(map(len, files)) - len(wanted)
        assert DeltaTable(folder).count() == len(wanted)
