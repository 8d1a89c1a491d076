"""Delta tables as delta-spark wrote them: versions by time, features that deltalake lacks, statistics, clones."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakes
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction
from files import fixture, snapshot, statuses, unpacked
from files import table as rows_of

import parquet_bloom
from parquet_bloom import (
    ColumnNotFoundError,
    ConcurrentChangeError,
    CorruptFileError,
    UnsupportedError,
    add,
    erase,
    lookup,
    prune,
)
from parquet_bloom.tables import Snapshot, Swap, open_table, snapshot_of
from parquet_bloom.tables.delta_features import BY_ENTRY, THROUGH_DELTALAKE

CARRIED = [
    "clustering",
    "column_defaults",
    "iceberg_v1",
    "iceberg_v2",
    "in_commit",
    "protection",
    "vacuum_check",
    "widening",
]
REFUSED = {"row_tracking": "new row ids", "materialized": "must contain the partition columns"}


def ids(found: Snapshot | None) -> list[int]:
    """Returns the ids in the live files, whatever their column is called there."""
    assert found is not None
    tables = [pq.read_table(source.path) for source in found.sources()]
    return sorted(value for each in tables for value in each.column(0).to_pylist())


def kept(root: Path, where: str, **options: Any) -> set[str]:
    """Returns the names of the files that must be read for a condition."""
    return {row.path.rpartition("/")[2] for row in prune(root, where, timezone="UTC", **options).rows if row.is_kept}


def version_of(root: Path) -> int:
    return max(int(path.stem) for path in (root / "_delta_log").glob("*.json") if path.stem.isdecimal())


def logged(root: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Returns the newest add or remove actions of each path, by path."""
    found = {}
    for path in sorted((root / "_delta_log").glob("*.json")):
        if path.stem.isdecimal():
            found |= {a[kind]["path"]: a[kind] for a in lakes.actions(root, int(path.stem)) if kind in a}
    return found


# ---- versions by time --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["times_none", "times_first", "times_later", "times_cut"])
def test_a_time_names_the_version_that_it_names_in_delta_spark(tmp_path: Path, name: str) -> None:
    root = unpacked(f"delta_spark/{name}", tmp_path)
    told = json.loads(fixture(f"delta_spark/{name}.json"))
    for file, time in told["times"].items():
        os.utime(root / "_delta_log" / file, ns=(time * 1_000_000,) * 2)
    wrong = []
    for time, wanted in told["answers"]:
        as_of = datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds")
        found: Any = None
        with contextlib.suppress(UnsupportedError):
            found = ids(snapshot_of(root, as_of=as_of))
        if found != wanted:
            wrong.append((as_of, found, wanted))
    assert wrong == []
    with pytest.raises(UnsupportedError, match=r"the log of .* begins after 2000-01-01"):
        snapshot_of(root, as_of="2000-01-01")
    assert any(wanted is None for _, wanted in told["answers"])


def test_a_table_object_goes_back_by_time_too(tmp_path: Path) -> None:
    root = unpacked("delta_spark/times_first", tmp_path)
    first = lakes.actions(root, 1)[0]["commitInfo"]["inCommitTimestamp"]
    as_of = datetime.fromtimestamp(first / 1000, UTC).isoformat(timespec="milliseconds")
    assert snapshot_of(DeltaTable(str(root)), as_of=as_of).version == 1  # type: ignore[union-attr]
    assert snapshot_of(DeltaTable(str(root), version=0), as_of=as_of).version == 1  # type: ignore[union-attr]


def test_a_commit_without_its_time_is_an_error(tmp_path: Path) -> None:
    root = unpacked("delta_spark/times_first", tmp_path)
    commits = sorted((root / "_delta_log").glob("*.json"))
    for path in commits:
        path.write_text(path.read_text().replace('"inCommitTimestamp":', '"other":'))
    with pytest.raises(CorruptFileError, match="has no in-commit timestamp, although the table requires one"):
        snapshot_of(root, as_of="2026-01-01")
    with pytest.raises(CorruptFileError, match="has no in-commit timestamp, although the table requires one"):
        open_table(root)


# ---- features ----------------------------------------------------------------------------


def deltalake_commits(root: Path) -> bool:
    """Returns whether deltalake commits an add of nothing to the table."""
    delta = DeltaTable(str(root))
    action: Any = AddAction("nothing.parquet", 1, {}, 1, False, '{"numRecords":0}')
    try:
        delta.create_write_transaction(
            [action], "append", delta.schema(), commit_properties=CommitProperties(max_commit_retries=0)
        )
    except DeltaError as error:
        if "Unsupported table features required" in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize("name", CARRIED)
def test_features_that_deltalake_lacks_are_carried_along(tmp_path: Path, name: str) -> None:
    root = unpacked(f"delta_spark/{name}", tmp_path / "ours")
    assert not deltalake_commits(unpacked(f"delta_spark/{name}", tmp_path / "theirs"))
    before, files = snapshot_of(root), snapshot(root)
    assert before is not None
    assert before.version is not None
    assert set(statuses(add(root, "name", table=True, dry_run=True))) == {"planned"}
    assert snapshot(root) == files

    added = add(root, "name", table=True)
    assert set(statuses(added)) == {"written"}
    assert [row.notes for row in added.rows] == [()] * len(added.rows)
    after = snapshot_of(root)
    assert ids(after) == ids(before)
    assert {path: data for path, data in snapshot(root).items() if path in files} == files
    (commit, *actions) = lakes.actions(root, before.version + 1)
    assert len(actions) == 2 * len(before.files)
    removes = {a["remove"]["path"]: a["remove"] for a in actions if "remove" in a}
    assert removes.keys() == {file.recorded for file in before.files}
    assert not any(next(iter(action.values()))["dataChange"] for action in actions)
    olds = logged(root, "add")
    for action in actions:
        if "add" in action:
            new = action["add"]
            (old,) = (olds[path] for path in removes if new["path"].startswith(path.removesuffix(".parquet")))
            kept = ("stats", "tags", "partitionValues", "clusteringProvider")
            assert {key: new.get(key) for key in kept} == {key: old.get(key) for key in kept}
    last = lakes.actions(root, before.version)[0]["commitInfo"]
    assert ("inCommitTimestamp" in commit["commitInfo"]) == ("inCommitTimestamp" in last) == (name == "in_commit")
    assert set(statuses(add(root, "name", table=True))) == {"unchanged"}


def test_an_in_commit_timestamp_is_later_than_the_one_before(tmp_path: Path) -> None:
    """Whatever the clock says: the last commit may be of a machine whose clock is ahead."""
    root = unpacked("delta_spark/in_commit", tmp_path)
    ahead = 4_102_444_800_000  # the year 2100
    last = root / "_delta_log" / f"{version_of(root):020}.json"
    last.write_text(re.sub(r'"inCommitTimestamp":\d+', f'"inCommitTimestamp":{ahead}', last.read_text()))
    for checksum in (root / "_delta_log").glob("*.crc"):
        checksum.unlink()
    add(root, "id", table=True, batch=1)
    times = [lakes.actions(root, version)[0]["commitInfo"]["inCommitTimestamp"] for version in (3, 4)]
    assert times == [ahead + 1, ahead + 2]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("dry_run", [True, False])
def test_features_in_whose_way_a_swap_is_are_refused_before_the_first_byte(
    tmp_path: Path, name: str, dry_run: bool
) -> None:
    root = unpacked(f"delta_spark/{name}", tmp_path)
    before = snapshot(root)
    with pytest.raises(UnsupportedError, match=f"cannot be committed to: it has the feature .*{REFUSED[name]}"):
        add(root, "id", table=True, dry_run=dry_run)
    with pytest.raises(UnsupportedError, match=f"{REFUSED[name]}.*; delete the rows with Spark, and then run REORG"):
        erase(root, "id", [1], table=True, dry_run=dry_run)
    assert snapshot(root) == before


@pytest.mark.parametrize("feature", ["somethingNew", "collations-preview", "icebergCompatV3", "icebergWriterCompatV1"])
def test_a_feature_that_is_not_known_is_refused(tmp_path: Path, feature: str) -> None:
    root = unpacked("delta_spark/protection", tmp_path)
    for checksum in (root / "_delta_log").glob("*.crc"):
        checksum.unlink()
    first = root / "_delta_log" / f"{0:020}.json"
    first.write_text(first.read_text().replace("checkpointProtection", feature))
    before = snapshot(root)
    with pytest.raises(UnsupportedError, match=f"the feature {feature}: "):
        add(root, "id", table=True, dry_run=True)
    assert snapshot(root) == before


def test_a_protocol_of_later_writers_is_refused(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t", files=1)
    lakes.log(tmp_path / "t", 1, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 8}})
    with pytest.raises(UnsupportedError, match="it needs writer version 8, which is not supported"):
        open_table(tmp_path / "t")


def test_deltalake_commits_to_just_the_tables_of_which_it_is_thought(tmp_path: Path) -> None:
    found = set()
    readers = {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
    readers |= {"typeWidening", "variantType", "variantType-preview"}
    for feature in THROUGH_DELTALAKE | BY_ENTRY:
        root = unpacked("delta_spark/protection", tmp_path / feature)
        for checksum in (root / "_delta_log").glob("*.crc"):
            checksum.unlink()
        first = root / "_delta_log" / f"{0:020}.json"
        text = re.sub(r'"writerFeatures":\[[^]]*\]', f'"writerFeatures":["{feature}"]', first.read_text())
        if feature in readers:
            text = text.replace('"minReaderVersion":1', f'"minReaderVersion":3,"readerFeatures":["{feature}"]')
        first.write_text(text)
        if deltalake_commits(root):
            found.add(feature)
    assert found == THROUGH_DELTALAKE


def test_an_entry_is_written_only_as_the_version_after_the_one_that_was_looked_at(tmp_path: Path) -> None:
    root = unpacked("delta_spark/clustering", tmp_path)
    opened = open_table(root)
    old = opened.snapshot.files[0]
    version = version_of(root)
    theirs = root / "_delta_log" / f"{version + 1:020}.json"
    theirs.write_text('{"commitInfo":{"timestamp":1,"operation":"WRITE"}}\n')
    with pytest.raises(ConcurrentChangeError, match=f"committed version {version + 1} .*; nothing was committed"):
        opened.commit([Swap(old, f"{old.path}-new.parquet", old.size, old.num_rows or 0)])
    assert theirs.read_text() == '{"commitInfo":{"timestamp":1,"operation":"WRITE"}}\n'
    assert version_of(root) == version + 1
    assert set(statuses(add(root, "id", table=True))) == {"written"}


def test_a_protocol_that_changes_meanwhile_is_seen(tmp_path: Path) -> None:
    root = unpacked("delta_spark/clustering", tmp_path)
    opened = open_table(root)
    files = opened.snapshot.files
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["clustering", "rowTracking"]}
    lakes.log(root, version_of(root) + 1, {"protocol": protocol})
    opened.refresh()
    with pytest.raises(UnsupportedError, match="the feature rowTracking"):
        opened.commit([Swap(files[0], f"{files[0].path}-new.parquet", files[0].size, files[0].num_rows or 0)])


def test_an_entry_that_another_writer_wrote_over_is_told(tmp_path: Path, monkeypatch: Any) -> None:
    """Spark on a local disk looks whether a version exists, and then renames its own over what came meanwhile."""
    from parquet_bloom.tables.delta import OpenDelta

    root = unpacked("delta_spark/clustering", tmp_path)
    commit = OpenDelta.commit

    def written_over(opened: Any, swaps: Any) -> Any:
        made = commit(opened, swaps)
        (root / "_delta_log" / f"{made.version:020}.json").write_text('{"commitInfo":{"timestamp":1}}\n')
        return made

    monkeypatch.setattr(OpenDelta, "commit", written_over)
    with pytest.raises(CorruptFileError, match=r"another writer overwrote version .* with all of its rows: run again"):
        add(root, "id", table=True, batch=1)
    monkeypatch.undo()
    assert set(statuses(add(root, "id", table=True))) == {"written"}


def test_two_of_these_at_once_and_an_appender(tmp_path: Path) -> None:
    root = unpacked("delta_spark/in_commit", tmp_path)
    before = ids(snapshot_of(root))
    errors: list[Exception] = []
    stop = threading.Event()
    appended: list[int] = []

    def add_one(column: str) -> None:
        try:
            add(root, column, table=True, batch=1, jobs=1)
        except Exception as error:
            errors.append(error)

    def append() -> None:
        number = 100
        while not stop.is_set():
            name = f"appended-{number}.parquet"
            pq.write_table(rows_of(1, number), root / name)
            version = version_of(root)
            time = lakes.actions(root, version)[0]["commitInfo"]["inCommitTimestamp"] + 1
            new = {"path": name, "partitionValues": {}, "size": (root / name).stat().st_size, "modificationTime": 1}
            entry = [
                {"commitInfo": {"inCommitTimestamp": time, "timestamp": time}},
                {"add": {**new, "dataChange": True, "stats": '{"numRecords":1}'}},
            ]
            text = "".join(json.dumps(action) + "\n" for action in entry)
            (root / f".{name}").write_text(text)
            try:
                os.link(root / f".{name}", root / "_delta_log" / f"{version + 1:020}.json")
            except FileExistsError:
                continue
            appended.append(number)
            number += 1
            stop.wait(0.05)

    other = threading.Thread(target=append)
    threads = [threading.Thread(target=add_one, args=(column,)) for column in ("id", "name")]
    for thread in (other, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    other.join()
    assert errors == []
    assert ids(snapshot_of(root)) == sorted(before + appended)
    times = [lakes.actions(root, v)[0]["commitInfo"]["inCommitTimestamp"] for v in range(version_of(root) + 1)]
    assert times == sorted(set(times))


# ---- statistics that are structs ---------------------------------------------------------


def struct_statistics(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Returns a table that is known from its checkpoint, and the statistics that its commits had."""
    root = unpacked("delta_spark/statistics", folder)
    wanted = {path: json.loads(add["stats"], parse_float=Decimal) for path, add in logged(root, "add").items()}
    for version in range(version_of(root)):  # a log is cleaned up to its checkpoint, whose own commit stays
        (root / "_delta_log" / f"{version:020}.json").unlink()
    return root, wanted


def test_statistics_that_are_structs_are_those_of_the_commits(tmp_path: Path) -> None:
    root, wanted = struct_statistics(tmp_path)
    (checkpoint,) = (root / "_delta_log").glob("*.checkpoint.parquet")
    assert "stats" not in [field.name for field in pq.read_schema(checkpoint).field("add").type]
    opened: Any = open_table(root)
    found = {f.recorded: json.loads(opened._logged(f)["stats"], parse_float=Decimal) for f in opened.snapshot.files}
    assert found == wanted


def test_statistics_that_are_structs_in_a_checkpoint_of_deltalake(tmp_path: Path) -> None:
    """It takes 1500 for 2084: INT96 is read as nanoseconds."""
    root, wanted = struct_statistics(tmp_path)
    lakes.log(root, 5, {"commitInfo": {"timestamp": 1, "operation": "WRITE"}})
    DeltaTable(str(root)).create_checkpoint()
    assert max((root / "_delta_log").glob("*.checkpoint.parquet")).name.startswith(f"{5:020}.")
    opened: Any = open_table(root)
    for file in opened.snapshot.files:
        found = json.loads(opened._logged(file)["stats"], parse_float=Decimal)
        for part in ("minValues", "maxValues"):
            for column, value in found[part].items():
                assert wanted[file.recorded][part][column] == value or column in ("f", "d")
        assert found["numRecords"] == 1
        assert {"l", "n", "m", "dt", "t"} <= found["minValues"].keys() or found["nullCount"]["l"]
    assert kept(root, "ts = TIMESTAMP '1500-01-01 00:00:00'")


def test_statistics_that_deltalake_makes_of_structs_have_no_moments(tmp_path: Path) -> None:
    root, _ = struct_statistics(tmp_path)
    DeltaTable(str(root)).alter.set_table_properties({"delta.checkpoint.writeStatsAsJson": "true"})
    DeltaTable(str(root)).create_checkpoint()
    rows = pq.read_table(max((root / "_delta_log").glob("*.checkpoint.parquet")))["add"].to_pylist()
    assert any('"2084-07-20T' in row["stats"] for row in rows if row)  # of 1500: the reason why they are not believed
    opened: Any = open_table(root)
    for file in opened.snapshot.files:
        found = json.loads(opened._logged(file)["stats"])
        assert found["minValues"].get("ts") is None
        assert opened._log.adds[file.recorded]["is_parsed"]
    assert set(statuses(add(root, "l", table=True))) == {"written"}
    assert not any("2084" in add["stats"] for add in (a["add"] for a in lakes.actions(root, 6) if "add" in a))


def test_swapped_files_keep_statistics_that_are_structs(tmp_path: Path) -> None:
    root, wanted = struct_statistics(tmp_path)
    assert set(statuses(add(root, "l", table=True))) == {"written"}
    live = {file.recorded for file in snapshot_of(root).files}  # type: ignore[union-attr]
    new = [json.loads(a["stats"], parse_float=Decimal) for path, a in logged(root, "add").items() if path in live]
    assert len(new) == len(wanted) == 4
    assert all(statistics in new for statistics in wanted.values())
    assert all(statistics in wanted.values() for statistics in new)


def test_pruning_where_statistics_are_structs(tmp_path: Path) -> None:
    root, _ = struct_statistics(tmp_path)
    plain = unpacked("delta_spark/statistics", tmp_path / "plain")
    recorded = snapshot_of(root).recorded  # type: ignore[union-attr]
    bounds = [one for leaf in recorded.leaves for one in recorded.bounds(leaf)]  # type: ignore[union-attr]
    assert bounds
    assert all(one.low is one.null_count is None for one in bounds)  # who wrote the checkpoint may have converted them
    for where in ("i = 3", "n = 1.5", "dt = DATE '2020-02-29'", "l IS NULL", "ts = TIMESTAMP '2020-01-01 00:00:00'"):
        assert kept(root, where) == kept(plain, where)


# ---- V2 checkpoints ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_log_that_goes_on_from_a_v2_checkpoint(tmp_path: Path, kind: str) -> None:
    root = unpacked(f"delta_spark/v2_{kind}", tmp_path)
    opened: Any = open_table(root)
    assert [json.loads(opened._logged(file)["stats"])["numRecords"] for file in opened.snapshot.files] == [1] * 4
    assert set(statuses(add(root, "id", table=True))) == {"written"}
    assert lakes.delta_rows(root) == [0, 1, 2, 3]


# ---- clones ------------------------------------------------------------------------------


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """A directory with clones and their origins, whose paths lead there."""
    folder = unpacked("delta_spark/clone", tmp_path / "a b").parent
    was = json.loads(fixture("delta_spark/clone.json"))["root"]
    for path in [*folder.glob("*/_delta_log/*.json"), *folder.glob("*/_delta_log/*.crc")]:
        path.write_text(path.read_text().replace(f"file:{was}", f"file:{str(folder).replace(' ', '%20')}"))
    return folder


def test_a_shallow_clone_is_read_where_its_files_lie(clones: Path) -> None:
    found = snapshot_of(clones / "clone", allow_outside=True)
    assert ids(found) == [1, 2, 3]
    assert found is not None
    assert {Path(file.path).relative_to(clones).parts[0] for file in found.files} == {"origin", "clone"}
    assert {file.partition["p"] for file in found.files} == {"x y", "z%"}
    for where, wanted in (("id = 2", 1), ("p = 'x y'", 2), ("id = 99", 0)):
        assert len(kept(clones / "clone", where, allow_outside=True)) == wanted


def test_rows_are_erased_from_a_file_with_a_deletion_vector_of_spark(clones: Path) -> None:
    root = clones / "deleted"
    erased = erase(root, "id", [7, 8], table=True)
    assert (erased.errors, erased.rows_erased, erased.rows[0].rows_deleted_before) == ((), 2, 1)
    assert ids(snapshot_of(root)) == lakes.delta_rows(root) == [row for row in range(100) if row not in (7, 8)]
    (was,) = lakes.adds(root, 2)
    (gone,) = [action["remove"] for action in lakes.actions(root, 3) if "remove" in action]
    assert gone["deletionVector"] == was["deletionVector"]


def test_files_of_another_table_are_not_swapped(clones: Path) -> None:
    origin = snapshot(clones / "origin")
    added = add(clones / "clone", "id", table=True)
    assert sorted(statuses(added)) == ["refused", "refused", "written"]
    assert all("lies outside of the table's directory" in row.error for row in added.rows if row.error)
    assert snapshot(clones / "origin") == origin
    assert ids(snapshot_of(clones / "clone")) == [1, 2, 3]


def test_deletion_vectors_of_a_clone(clones: Path) -> None:
    found = snapshot_of(clones / "deleted_clone")
    assert found is not None
    assert [file.has_deletes for file in found.files] == [True]


# ---- names -------------------------------------------------------------------------------


@pytest.mark.usefixtures("mtime_stable")
def test_columns_go_by_the_table_s_names(tmp_path: Path) -> None:
    """The files of a table with column mapping call its columns `col-` and a UUID."""
    root = unpacked("delta_spark/iceberg_v2", tmp_path)
    for ask in (
        lambda: add(root, "nothing", table=True),
        lambda: lookup(root, "nothing", [1]),
        lambda: parquet_bloom.index.create(root, ["nothing"]),
    ):
        with pytest.raises(ColumnNotFoundError, match=r"columns: id, name$|did you mean name") as caught:
            ask()
        assert "col-" not in str(caught.value)
    for dry_run in (True, False):
        added = add(root, ["id"], table=True, dry_run=dry_run)
        assert {each.column for row in added.rows for each in row.filters} == {"id"}
    added = add(root, ["name", "id"], table=True)
    assert {each.column for row in added.rows for each in row.filters} == {"name"}
    assert {each.column for row in added.rows for each in row.skipped} == {"id"}
    assert [index.column for index in parquet_bloom.index.create(root, ["name"]).rows] == ["name"]


def test_a_column_that_the_table_has_widened_gets_no_filter(tmp_path: Path) -> None:
    root = unpacked("delta_spark/widening", tmp_path)
    rows = add(root, "id", table=True, readers="trino").rows
    for row in rows:
        is_narrow = str(pq.read_schema(row.path).field("id").type) == "int32"
        assert (row.status == "refused") == is_narrow
        assert ("loses rows if the table declares another type than the file has" in (row.error or "")) == is_narrow
    assert sorted(row.status for row in rows) == ["refused", "refused", "written"]
    assert snapshot_of(root).recorded is None  # type: ignore[union-attr]


@pytest.mark.parametrize("name", CARRIED)
def test_rows_are_erased_from_tables_with_features_that_deltalake_lacks(tmp_path: Path, name: str) -> None:
    root = unpacked(f"delta_spark/{name}", tmp_path)
    before, old = snapshot_of(root), logged(root, "add")
    gone = ids(before)[:1]
    erased = erase(root, "id", gone, table=True)
    assert (erased.errors, erased.rows_erased) == ((), 1)
    assert ids(snapshot_of(root)) == ids(before)[1:]
    assert version_of(root) == before.version + 1
    for action in lakes.actions(root, version_of(root))[1:]:
        if "add" in action:
            (was,) = (old[path] for path in old if action["add"]["path"].startswith(path.removesuffix(".parquet")))
            for kept in ("tags", "partitionValues", "clusteringProvider"):
                assert action["add"].get(kept) == was.get(kept)
            new, then = (json.loads(add["stats"]) for add in (action["add"], was))
            assert new["numRecords"] == then["numRecords"] - 1
            for part in ("minValues", "maxValues", "nullCount"):
                assert new[part].keys() == then[part].keys()
                assert {type(value) for value in new[part].values()} == {type(value) for value in then[part].values()}
