"""Rows leave an Iceberg table by snapshots: what readers see, what manifests say, and what is refused."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
import uuid
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from files import statuses, table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parquet_bloom import UnsupportedError, add, erase, index, lookup, verify
from parquet_bloom.tables.iceberg import OpenIceberg


def ids(made: Any, **scan: Any) -> list[int]:
    return sorted(made.refresh().scan(**scan).to_arrow()["id"].to_pylist())


def entries(made: Any) -> list[Any]:
    manifests = made.refresh().current_snapshot().manifests(made.io)
    return [each.data_file for manifest in manifests for each in manifest.fetch_manifest_entry(made.io)]


def test_rows_leave_the_newest_snapshot_only(catalog: Any) -> None:
    made = lakes.iceberg(catalog, files=4)
    keys = [3, 25, 26, *range(60, 80), 999]
    planned = erase(made, "id", keys, table=True, dry_run=True)
    assert (sorted(statuses(planned)), planned.rows_erased) == (["planned"] * 3 + ["unchanged"], 23)
    erased = erase(made, "id", keys, table=True, batch=2)
    assert sorted(statuses(erased)) == ["removed", "unchanged", "written", "written"]
    assert (erased.rows_erased, erased.errors, erased.unreferenced) == (23, (), ())
    assert ids(made) == sorted({*range(80)} - {*keys})
    assert ids(made, snapshot_id=erased.version_before) == list(range(80))
    assert set(statuses(erase(made, "id", keys, table=True))) == {"unchanged"}
    assert made.refresh().current_snapshot().snapshot_id == erased.version_after


@pytest.mark.parametrize(("keys", "operation", "files"), [([3, 4], "overwrite", 3), (range(20), "delete", 2)])
def test_the_snapshot_says_what_it_is(catalog: Any, keys: Any, operation: str, files: int) -> None:
    made = lakes.iceberg(catalog)
    erase(made, "id", list(keys), table=True)
    summary = made.refresh().current_snapshot().summary
    assert summary.operation.value == operation
    said = {name: int(value) for name, value in summary.additional_properties.items() if value.isdecimal()}
    assert (said["total-records"], said["total-data-files"]) == (60 - len(keys), files)
    assert (said["deleted-records"], said["deleted-data-files"]) == (20, 1)
    assert said["total-files-size"] == sum(file.file_size_in_bytes for file in entries(made))
    assert said.get("added-records", 0) == (20 - len(keys) if operation == "overwrite" else 0)


def test_metrics_are_those_that_pyiceberg_writes(catalog: Any) -> None:
    rows = pa.table(
        {
            "id": [1, 2, 3, 4],
            "text": ["a", "b" * 40, None, "zz"],
            "day": [date(2020, 1, 1), date(2021, 1, 1), date(2021, 1, 1), date(2022, 1, 1)],
            "at": pa.array([datetime(2020, 1, 1, 0, 0, 0, n) for n in range(4)], pa.timestamp("us")),
            "amount": pa.array(
                [Decimal("-1.28"), Decimal("1.28"), Decimal("300"), Decimal("3000")], pa.decimal128(20, 2)
            ),
            "share": [0.5, -1.5, 2.5, 9.5],
            "small": pa.array([1, -2, 3, 99], pa.int32()),
            "flag": [True, False, None, None],
            "inner": [{"x": 1}, {"x": 2}, {"x": 3}, {"x": 9}],
            "list": [[1], [2, 3], [], [9]],
        }
    )
    made, other = (catalog.create_table(f"n.{name}", rows.schema) for name in ("made", "other"))
    made.append(rows)
    erase(made, "id", [4], table=True)
    other.append(rows.slice(0, 3))
    (ours,), (theirs,) = entries(made), entries(other)
    assert ours.record_count == 3
    for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
        assert dict(getattr(ours, name).items()) == dict(getattr(theirs, name).items()), name
    assert set(ours.column_sizes) == set(theirs.column_sizes)
    assert sum(ours.column_sizes.values()) < ours.file_size_in_bytes
    assert ours.split_offsets == [4]
    for column in ("text", "amount", "day", "share"):
        for row in rows.slice(0, 3).to_pylist():
            if row[column] is not None:
                found = made.refresh().scan(row_filter=f"{column} == '{row[column]}'").to_arrow()
                assert row["id"] in found["id"].to_pylist()


@pytest.mark.parametrize("transform", ["identity", "bucket[4]", "truncate[3]"])
def test_partitions(catalog: Any, transform: str) -> None:
    rows = lakes.odd_rows()
    made = lakes.partitioned(catalog, rows, transform)
    erased = erase(made, "id", [0, 1, 6, 20], table=True)
    assert (erased.rows_erased, erased.errors) == (4, ())
    left = made.refresh().scan().to_arrow().sort_by("id").to_pylist()
    assert left == [row for row in rows.to_pylist() if row["id"] not in (0, 1, 6, 20)]


def test_a_column_that_was_renamed(catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    with made.update_schema() as update:
        update.rename_column("id", "number")
    made.append(table(5, 100).rename_columns({"id": "number"}))
    assert erase(made, "number", [3, 102], table=True).rows_erased == 2
    left = made.refresh().scan().to_arrow()["number"].to_pylist()
    assert sorted(left) == sorted({*range(60), *range(100, 105)} - {3, 102})


@pytest.mark.usefixtures("mtime_stable")
def test_filters_and_the_index_hold_what_is_left(catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    add(made, "id", table=True)
    index.create(made.refresh(), "id")
    erased = erase(made, "id", [5, 45], table=True)
    assert erased.errors == ()
    assert verify([row.output for row in erased if row.output]).is_sound
    assert index.refresh(made.refresh()).built == 0
    found = lookup(made, "id", [4, 5, 45, 46]).to_arrow()
    assert set(found.filter(pc.is_valid(found["path"]))["key"].to_pylist()) == {4, 46}


@pytest.mark.parametrize("kind", ["tag", "branch"])
@pytest.mark.parametrize("is_newest", [True, False])
def test_a_branch_or_tag_with_the_rows_is_named_before_anything_is_written(
    catalog: Any, kind: str, is_newest: bool
) -> None:
    made = lakes.iceberg(catalog)
    at = made.refresh().snapshots()[2 if is_newest else 0].snapshot_id
    with made.manage_snapshots() as manage:
        getattr(manage, f"create_{kind}")(snapshot_id=at, **{f"{kind}_name": "kept"})
    before = made.refresh().current_snapshot().snapshot_id
    for dry_run in (True, False):
        with pytest.raises(UnsupportedError, match="branch or tag kept"):
            erase(made, "id", [3], table=True, dry_run=dry_run)
    assert made.refresh().current_snapshot().snapshot_id == before
    assert (erase(made, "id", [45], table=True).rows_erased == 1) if not is_newest else True


def test_format_version_3_and_tables_without_a_catalog_are_refused(catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    with pytest.raises(UnsupportedError, match="without its catalog"):
        erase(made.metadata_location, "id", [1], table=True)
    made.metadata = made.metadata.model_copy(update={"format_version": 3})
    made.refresh = lambda: made
    with pytest.raises(
        UnsupportedError, match=r"format version 3.*; delete the rows with Spark, and then run rewrite_data_files"
    ):
        erase(made, "id", [1], table=True)


def test_rows_that_come_meanwhile_are_erased_too(catalog: Any, tmp_path: Path, monkeypatch: Any) -> None:
    made = lakes.iceberg(catalog)
    commit, calls = OpenIceberg.erase, []
    with lakes.connected(tmp_path / "warehouse") as other:

        def after_another(opened: Any, *arguments: Any) -> Any:
            calls.append(1)
            if len(calls) <= 2:
                other.load_table("n.t").append(table(5, 100 + 10 * len(calls)))
            return commit(opened, *arguments)

        monkeypatch.setattr(OpenIceberg, "erase", after_another)
        erased = erase(made, "id", [3, 112, 121], table=True)
    assert (erased.errors, erased.rows_erased) == ((), 3)
    assert ids(made) == sorted({*range(60), *range(110, 115), *range(120, 125)} - {3, 112, 121})


# ---- delete files ------------------------------------------------------------------------------


def in_files(made: Any) -> list[int]:
    """Returns the ids in the live data files, deletes not applied."""
    paths = [task.file.file_path.removeprefix("file://") for task in made.refresh().scan().plan_files()]
    return sorted(value for path in paths for value in pq.read_table(path)["id"].to_pylist())


def test_rows_of_position_deletes_leave_the_file_too(catalog: Any) -> None:
    """The first row has a key and was deleted already; another has none."""
    made = lakes.iceberg(catalog, files=2)
    lakes.give_deletes(made, [0, 1])
    before = ids(made)
    keys = [0, 10, 20, 30]
    erased = erase(made, "id", keys, table=True)
    assert (erased.errors, erased.rows_erased) == ((), 4)
    assert sum(row.rows_deleted_before for row in erased) == 1
    assert ids(made) == in_files(made) == [row for row in before if row not in keys]
    assert ids(made, snapshot_id=erased.version_before) == before
    assert set(statuses(erase(made, "id", keys, table=True))) == {"unchanged"}
    said = made.current_snapshot().summary.additional_properties
    assert (said["deleted-records"], said["added-records"]) == ("40", str(len(ids(made))))
    again = erase(made, "id", [11], table=True)
    assert (again.rows_erased, again.errors) == (1, ())
    assert ids(made) == in_files(made) == [row for row in before if row not in (*keys, 11)]


def test_a_key_in_deleted_rows_alone(catalog: Any) -> None:
    made = lakes.iceberg(catalog, files=1)
    lakes.give_deletes(made, [3])
    (row,) = erase(made, "id", [3], table=True)
    assert (row.status, row.rows_erased, row.rows_deleted_before) == ("written", 1, 1)
    assert ids(made) == in_files(made) == [row for row in range(20) if row != 3]


def test_equality_deletes_are_refused(catalog: Any) -> None:
    """Only files older than them; the others lose their rows."""
    made = lakes.iceberg(catalog, files=1)
    lakes.give_deletes(made, [3], content="EQUALITY_DELETES")
    made.append(table(5, 100))
    erased = erase(made, "id", [3, 102], table=True)
    (refused,) = erased.errors
    assert "equality deletes apply to it" in refused.error
    assert "first run rewrite_data_files with the option delete-file-threshold 1" in refused.error
    assert sorted(statuses(erased)) == ["refused", "written"]
    assert in_files_of(made) == sorted({*range(20), *range(100, 105)} - {102})
    with pytest.raises(UnsupportedError, match="equality deletes"):
        erase(made, "id", [4, 101], table=True, strict=True)


def in_files_of(made: Any) -> list[int]:
    """Returns what `in_files` does, of a table with equality deletes, for which pyiceberg plans nothing."""
    data = [each for each in entries(made) if each.content.name == "DATA" and Path(each.file_path[7:]).exists()]
    live = {each.file_path for each in data} - gone_from(made)
    return sorted(value for path in live for value in pq.read_table(path[7:])["id"].to_pylist())


def gone_from(made: Any) -> set[str]:
    manifests = made.refresh().current_snapshot().manifests(made.io)
    found = [each for one in manifests for each in one.fetch_manifest_entry(made.io, discard_deleted=False)]
    return {each.data_file.file_path for each in found if each.status.name == "DELETED"}


def test_rows_that_another_writer_deletes_meanwhile_stay_deleted(
    catalog: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    made = lakes.iceberg(catalog, files=1)
    commit, calls = OpenIceberg.erase, []
    with lakes.connected(tmp_path / "warehouse") as other:

        def after_another(opened: Any, *arguments: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                lakes.give_deletes(other.load_table("n.t"), [7])
            return commit(opened, *arguments)

        monkeypatch.setattr(OpenIceberg, "erase", after_another)
        erased = erase(made, "id", [3], table=True)
    assert (statuses(erased), erased.errors, erased.unreferenced) == (["written"], (), ())
    assert ids(made) == in_files(made) == sorted({*range(20)} - {3, 7})


KILLED = """
import sys, parquet_bloom
sys.path.append(sys.argv[1])
import lakes
from pathlib import Path
with lakes.connected(Path(sys.argv[2])) as found:
    parquet_bloom.erase(found.load_table("n.t"), "id", list(range(0, 160, 5)), table=True, batch=2)
"""


def kill_and_finish(folder: Path, made: Any, after: float) -> None:
    """Kills a run that long after its first new file, runs again, and compares the rows."""
    wanted = [row for row in ids(made) if row % 5]
    data = Path(made.location().removeprefix("file://")) / "data"
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(Path(lakes.__file__).parent), str(folder)], stderr=subprocess.DEVNULL
    )
    while run.poll() is None and not list(data.glob("*-erased-*")):
        time.sleep(0.001)
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.wait(after)
    run.send_signal(signal.SIGKILL)
    run.wait()
    erased = erase(made, "id", list(range(0, 160, 5)), table=True, batch=2)
    assert erased.errors == ()
    assert ids(made) == in_files(made) == wanted
    known = {task.file_path.removeprefix("file://") for task in _all_files(made)}
    assert {*map(str, data.glob("*-erased-*"))} - known == {*erased.unreferenced}


def _all_files(made: Any) -> list[Any]:
    return [
        entry.data_file
        for snapshot in made.refresh().snapshots()
        for manifest in snapshot.manifests(made.io)
        for entry in manifest.fetch_manifest_entry(made.io)
    ]


@pytest.mark.parametrize("deleted", [[], [5, 7]], ids=["plain", "with deletes"])
@pytest.mark.parametrize("after", [0.0, 0.1])
def test_a_run_that_is_killed_is_finished_by_the_next(
    tmp_path: Path, catalog: Any, after: float, deleted: list[int]
) -> None:
    made = lakes.iceberg(catalog, files=8)
    if deleted:
        lakes.give_deletes(made, deleted)
    kill_and_finish(tmp_path / "warehouse", made, after)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.integers(0, 9), min_size=1, max_size=20), keys=st.sets(st.integers(0, 9)), data=st.data())
def test_whatever_is_deleted_only_live_rows_without_a_key_are_left(
    catalog: Any, rows: list[int], keys: set[int], data: st.DataObject
) -> None:
    deleted = data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1))
    made = catalog.create_table(f"n.t{uuid.uuid4().hex}", pa.schema([("id", pa.int64())]))
    made.append(pa.table({"id": rows}))
    lakes.give_deletes(made, sorted(deleted))
    (row,) = erased = erase(made, "id", pa.array(sorted(keys), pa.int64()), table=True)
    assert erased.errors == ()
    live = [row for at, row in enumerate(rows) if at not in deleted]
    assert ids(made) == sorted(row for row in live if row not in keys)
    if {*rows} & keys:
        assert in_files(made) == ids(made)
    assert row.rows_erased == sum(row in keys for row in rows)
    assert row.rows_erased - row.rows_deleted_before == sum(row in keys for row in live)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(st.lists(st.text("ab", max_size=3) | st.none(), min_size=1, max_size=9), min_size=1, max_size=3),
    keys=st.sets(st.text("ab", max_size=3), min_size=1),
)
def test_whatever_the_rows_those_without_a_key_are_left(
    catalog: Any, files: list[list[str | None]], keys: set[str]
) -> None:
    from pyiceberg.expressions import EqualTo

    made = catalog.create_table(f"n.t{uuid.uuid4().hex}", pa.schema([("id", pa.string())]))
    for rows in files:
        made.append(pa.table({"id": pa.array(rows, pa.string())}))
    erased = erase(made, "id", sorted(keys), table=True, batch=1)
    left = made.refresh().scan().to_arrow()["id"].to_pylist()
    wanted = [row for rows in files for row in rows if row not in keys]
    assert sorted(map(repr, left)) == sorted(map(repr, wanted))
    assert erased.rows_erased == sum(map(len, files)) - len(wanted)
    for row in {*wanted} - {None}:
        assert made.scan(row_filter=EqualTo("id", row)).to_arrow().num_rows == wanted.count(row)
