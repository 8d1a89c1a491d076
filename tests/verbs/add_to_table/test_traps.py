"""Commits that would lose or duplicate rows: what the naive one does to a copy of the table, and that ours refuses."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import lakes
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.transaction import AddAction, RemoveAction
from files import statuses, table, write

from parquet_bloom import ColumnNotFoundError, ConcurrentChangeError, CorruptFileError, UnsupportedError, add, prune
from parquet_bloom.tables import LiveFile, Swap, iceberg, open_table
from parquet_bloom.tables.delta import OpenDelta
from parquet_bloom.tables.iceberg import OpenIceberg
from parquet_bloom.tables.iceberg_replace import Replacement, copy_of


def naive_delta(root: Path, recorded: str, old: str, *, stats: str = '{"numRecords":20}', **commit: Any) -> None:
    """Swaps a file for a copy of it, as one would who trusts deltalake."""
    shutil.copy(root / old, (root / old).with_suffix(".new.parquet"))
    size, now = (root / old).stat().st_size, int(time.time() * 1000)
    new = str(Path(old).with_suffix(".new.parquet"))
    delta = commit.pop("at", None) or DeltaTable(str(root))
    delta.create_write_transaction(
        [RemoveAction(recorded, False, now, size, {}), AddAction(new, size, {}, now, False, stats)],
        "append",
        delta.schema(),
        **commit,
    )


ONCE = {"commit_properties": CommitProperties(max_commit_retries=0)}


def copy(root: Path) -> Path:
    return Path(shutil.copytree(root, root.with_name(f"{root.name}-copy")))


def swap_for_copy(old: LiveFile, rows: int = 20) -> Swap:
    """Returns a swap for a file that does not matter, since nothing is committed."""
    return Swap(old, f"{old.path}-new.parquet", old.size, rows)


def only_error(result: Any) -> str:
    (row,) = (row for row in result.rows if row.status == "refused")
    assert row.output == row.path
    return str(row.error)


# ---- Delta -------------------------------------------------------------------------------


def test_a_file_that_is_not_in_the_table(tmp_path: Path) -> None:
    delta = lakes.delta(tmp_path / "t")
    naive = copy(tmp_path / "t")
    recorded = lakes.adds(naive)[0]["path"]
    DeltaTable(str(naive)).optimize.compact()
    naive_delta(naive, recorded, recorded, **ONCE)
    assert len(lakes.delta_rows(naive)) == DeltaTable(str(naive)).count() == 80  # of 60

    opened = open_table(delta)
    old = opened.snapshot.files[0]
    DeltaTable(delta.table_uri).optimize.compact()
    opened.refresh()
    with pytest.raises(ConcurrentChangeError, match=r"is no longer in .*; nothing was committed"):
        opened.commit([swap_for_copy(old)])
    assert lakes.delta_rows(tmp_path / "t") == list(range(60))


def test_a_concurrent_optimize(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t")
    naive = copy(tmp_path / "t")
    handle = DeltaTable(str(naive))
    recorded = lakes.adds(naive)[0]["path"]
    DeltaTable(str(naive)).optimize.compact()
    naive_delta(naive, recorded, recorded, at=handle)
    assert len(lakes.delta_rows(naive)) == 80  # of 60

    opened = open_table(tmp_path / "t")
    DeltaTable(str(tmp_path / "t")).optimize.compact()
    with pytest.raises(ConcurrentChangeError, match=r"another writer committed version 3 of .*; nothing was committed"):
        opened.commit([swap_for_copy(opened.snapshot.files[0])])
    assert lakes.delta_rows(tmp_path / "t") == list(range(60))


def test_a_deletion_vector(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t", files=1)
    lakes.give_deletion_vector(tmp_path / "t", [1, 2, 3])
    naive = copy(tmp_path / "t")
    recorded = lakes.adds(naive)[0]["path"]
    naive_delta(naive, recorded, recorded, **ONCE)
    assert len(lakes.delta_rows(naive)) == 37  # of 17

    files = set((tmp_path / "t").iterdir())
    assert "it has a deletion vector, and its deleted rows would come back" in only_error(
        add(tmp_path / "t", "id", table=True)
    )
    opened = open_table(tmp_path / "t")
    with pytest.raises(UnsupportedError, match="deletion vector"):
        opened.commit([swap_for_copy(opened.snapshot.files[0])])
    assert len(lakes.delta_rows(tmp_path / "t")) == 17
    assert set((tmp_path / "t").iterdir()) == files


@pytest.mark.parametrize("spelling", ["ü.parquet", "a*b.parquet", "a%2Bb.parquet", "a%2bb.parquet"])
def test_a_path_that_the_log_spells_otherwise(tmp_path: Path, spelling: str) -> None:
    root = tmp_path / "t"
    lakes.delta(root, files=1)
    (entry,) = lakes.adds(root)
    (root / entry["path"]).rename(root / unquote(spelling))
    lakes.log(root, 1, lakes.removal(entry), {"add": {**entry, "path": spelling}})
    assert len(lakes.delta_rows(root)) == 20
    naive = copy(root)
    naive_delta(naive, unquote(spelling), unquote(spelling), **ONCE)
    assert len(lakes.delta_rows(naive)) == 40  # of 20

    assert "would write its path differently" in only_error(add(root, "id", table=True))
    assert len(lakes.delta_rows(root)) == 20


def test_a_path_that_is_not_decoded(tmp_path: Path) -> None:
    """Where a partition's directory is spelled oddly, the log's path must be decoded once, or reads fail."""
    root = tmp_path / "t"
    write_deltalake(str(root), lakes.odd_rows(), partition_by=["p"])
    naive = copy(root)
    for entry in lakes.adds(naive):
        if "%25" in entry["path"]:
            size = entry["size"]
            delta = DeltaTable(str(naive))
            gone = RemoveAction(entry["path"], False, 1, size, entry["partitionValues"])
            new = AddAction(f"{entry['path']}-new", size, entry["partitionValues"], 1, False, entry["stats"])
            delta.create_write_transaction([gone, new], "append", delta.schema(), ["p"], **ONCE)
            break
    assert len(DeltaTable(str(naive)).file_uris()) == len(lakes.adds(naive)) + 1
    before = lakes.delta_rows(root)
    assert set(statuses(add(root, "id", table=True))) == {"written"}
    assert lakes.delta_rows(root) == before


def test_statistics_that_are_not_given(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t", files=1)
    naive = copy(tmp_path / "t")
    recorded = lakes.adds(naive)[0]["path"]
    naive_delta(naive, recorded, recorded, stats="{}", **ONCE)
    assert DeltaTable(str(naive)).count() != 20
    add(tmp_path / "t", "id", table=True)
    assert DeltaTable(str(tmp_path / "t")).count() == 20


def test_a_file_of_another_table(tmp_path: Path) -> None:
    """A shallow clone's files lie in its origin; what is put beside them is the origin's to clean up."""
    root, origin = tmp_path / "clone", tmp_path / "origin"
    lakes.delta(origin, files=1)
    lakes.delta(root, files=1)
    (theirs,), (ours,) = lakes.adds(origin), lakes.adds(root)
    lakes.log(root, 1, lakes.removal(ours), {"add": {**theirs, "path": f"file://{origin}/{theirs['path']}"}})
    files = set(origin.iterdir())
    assert "lies outside of the table's directory" in only_error(add(root, "id", table=True))
    assert set(origin.iterdir()) == files


def test_row_ids(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1)
    (entry,) = lakes.adds(tmp_path)
    lakes.log(tmp_path, 1, lakes.removal(entry), {"add": {**entry, "path": "x.parquet", "baseRowId": 7}})
    shutil.copy(tmp_path / entry["path"], tmp_path / "x.parquet")
    for dry_run in (True, False):
        assert "it has row ids" in only_error(add(tmp_path, "id", table=True, dry_run=dry_run))


def test_tags_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    lakes.delta(tmp_path, files=1)
    (entry,) = lakes.adds(tmp_path)
    lakes.log(tmp_path, 1, lakes.removal(entry), {"add": {**entry, "path": "x.parquet", "tags": {"ZCUBE_ID": "1"}}})
    shutil.copy(tmp_path / entry["path"], tmp_path / "x.parquet")
    (row,) = add(tmp_path, "id", table=True).rows
    assert row.notes == ("the log's tags ['ZCUBE_ID'] are not carried over",)


def test_a_file_with_other_rows_than_are_recorded(tmp_path: Path) -> None:
    root = tmp_path / "t"
    lakes.delta(root, files=1)
    (entry,) = lakes.adds(root)
    lakes.log(root, 1, lakes.removal(entry), {"add": {**entry, "path": "x.parquet", "size": 100}})
    write(root / "x.parquet", 21)
    assert "the file has 21 rows, and the table records 20" in only_error(add(root, "id", table=True))
    opened = open_table(root)
    with pytest.raises(UnsupportedError, match="has 21 rows, and the table records 20"):
        opened.commit([swap_for_copy(opened.snapshot.files[0], 21)])


def test_swaps_that_make_no_sense(tmp_path: Path) -> None:
    opened = open_table(lakes.delta(tmp_path))
    old = opened.snapshot.files[0]
    with pytest.raises(UnsupportedError, match="would be swapped twice"):
        opened.commit([swap_for_copy(old), swap_for_copy(old)])
    with pytest.raises(UnsupportedError, match="is not in the directory of"):
        opened.commit([Swap(old, "/elsewhere/x.parquet", old.size, 20)])
    with pytest.raises(ConcurrentChangeError, match="is no longer in"):
        opened.commit([swap_for_copy(replace(old, size=old.size + 1))])


def test_a_commit_that_comes_out_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_table(lakes.delta(tmp_path))
    actions = OpenDelta._actions
    monkeypatch.setattr(OpenDelta, "_actions", lambda *given: actions(*given)[1:])  # the old file stays
    with pytest.raises(CorruptFileError, match="came out wrong: 3 files with 60 rows became 4 with 80"):
        opened.commit([swap_for_copy(opened.snapshot.files[0])])


def test_a_column_that_no_file_has(tmp_path: Path) -> None:
    delta = lakes.delta(tmp_path)
    with pytest.raises(ColumnNotFoundError, match="did you mean name"):
        add(delta, "nam", table=True)
    with pytest.raises(ValueError, match="at least 1"):
        add(delta, "id", table=True, batch=0)
    assert delta.version() == 2


# ---- Iceberg -----------------------------------------------------------------------------


def naive_iceberg(made: Any, old: Any, path: str) -> None:
    shutil.copy(old.file_path.removeprefix("file://"), path.removeprefix("file://"))
    transaction = made.transaction()
    with transaction.update_snapshot().overwrite() as overwrite:
        overwrite.delete_data_file(old)
        overwrite.append_data_file(copy_of(old, file_path=path))
    transaction.commit_transaction()


def first_file(made: Any) -> Any:
    return next(iter(made.scan().plan_files())).file


def test_delete_files(catalog: Any) -> None:
    ours, naive = lakes.iceberg(catalog), lakes.iceberg(catalog, "naive")
    for made in (ours, naive):
        lakes.give_deletes(made, [3, 4])
    (victim,) = (task.file for task in naive.scan().plan_files() if task.delete_files)
    naive_iceberg(naive, victim, victim.file_path.replace(".parquet", "-new.parquet"))
    assert len(lakes.iceberg_rows(naive)) == 60  # of 58

    added = add(ours, "id", table=True)
    assert "delete files apply to it" in only_error(added)
    assert sorted(statuses(added)) == ["refused", "written", "written"]
    assert len(lakes.iceberg_rows(ours)) == 58
    opened = open_table(ours)
    (old,) = (file for file in opened.snapshot.files if file.has_deletes)
    with pytest.raises(UnsupportedError, match="delete files apply"):
        opened.commit([swap_for_copy(old)])


def test_an_older_partition_spec(catalog: Any) -> None:
    tables = []
    for name in ("ours", "naive"):
        made = catalog.create_table(f"n.{name}", lakes.odd_rows().schema)
        made.append(lakes.odd_rows())
        with made.update_spec() as update:
            update.add_identity("p")
        tables.append(made)
    ours, naive = tables
    old = first_file(naive)
    with pytest.raises(IndexError):  # of the partition's fields
        naive_iceberg(naive, old, old.file_path.replace(".parquet", "-new.parquet"))
    ours.append(lakes.odd_rows())
    assert set(statuses(add(ours, "id", table=True))) == {"written"}
    assert {task.file.spec_id for task in ours.scan().plan_files()} == {0, 1}
    assert len(ours.scan("p = 'plain'").to_arrow()) == 6
    assert len(ours.scan().to_arrow()) == 2 * len(lakes.odd_rows())


def test_a_partition_spec_of_a_column_that_is_gone(catalog: Any) -> None:
    made = catalog.create_table("n.t", lakes.odd_rows().schema, properties={"format-version": "1"})
    with made.update_spec() as update:
        update.add_identity("p")
    made.append(lakes.odd_rows())
    with made.update_spec() as update:
        update.remove_field("p")
    with made.update_schema() as update:
        update.delete_column("p")
    snapshots = len(made.history())
    errors = [row.error for row in add(made, "id", table=True).rows]
    assert errors
    assert all("of a column that the table no longer has (field id 3)" in error for error in errors)
    assert len(made.refresh().history()) == snapshots


def test_a_file_that_the_table_has_twice(catalog: Any) -> None:
    made = lakes.iceberg(catalog, files=1)
    path = f"{made.location().removeprefix('file://')}/data/added.parquet"
    pq.write_table(table(20, 100), path)
    for _ in range(2):
        made.add_files([path], check_duplicate_files=False)
    assert prune(made, "id = 105").totals.files_kept == 2
    added = add(made, "id", table=True)
    assert sorted(statuses(added)) == ["refused", "refused", "written"]
    assert all("lists it more than once" in (row.error or "") for row in added.rows if row.status == "refused")
    assert len(lakes.iceberg_rows(made)) == 60


def test_a_file_that_is_listed_twice_meanwhile(catalog: Any) -> None:
    made = catalog.create_table("n.t", table(1).schema)
    path = f"{made.location().removeprefix('file://')}/added.parquet"
    pq.write_table(table(20), path)
    for _ in range(2):
        made.add_files([path], check_duplicate_files=False)
    replacement = Replacement(made, {path: copy_of(first_file(made), file_path=f"{path}-new.parquet")}, {})
    with pytest.raises(ValueError, match=r"the table has 2 entries of .*, not one"):
        replacement.write()


def test_new_files_have_the_sequence_numbers_of_the_old_ones(catalog: Any) -> None:
    """So that a delete applies to them if it applied to the old ones."""
    made = lakes.iceberg(catalog)
    assert set(statuses(add(made, "id", table=True))) == {"written"}
    entries = made.refresh().inspect.entries().to_pylist()
    assert sorted(entry["sequence_number"] for entry in entries if entry["status"] == 1) == [1, 2, 3]
    gone = [entry["data_file"] for entry in entries if entry["status"] == 2]
    assert [(file["lower_bounds"], file["upper_bounds"]) for file in gone] == [(None, None)] * 3  # maybe of erased rows


def test_format_version_3(catalog: Any) -> None:
    made = lakes.iceberg(catalog, files=1)
    made.metadata = made.metadata.model_copy(update={"format_version": 3})
    made.refresh = lambda: made
    with pytest.raises(UnsupportedError, match="format version 3"):
        add(made, "id", table=True)
    with pytest.raises(UnsupportedError, match="format version 3"):
        OpenIceberg(made).commit([])


def test_a_snapshot_that_comes_out_wrong(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_table(lakes.iceberg(catalog))
    monkeypatch.setattr(iceberg, "copy_of", lambda old, **changes: copy_of(old, record_count=21, **changes))
    with pytest.raises(CorruptFileError, match="came out wrong: 3 files with 60 rows became 3 with 61"):
        opened.commit([swap_for_copy(opened.snapshot.files[0])])


def test_a_concurrent_change_of_an_iceberg_table(catalog: Any, tmp_path: Path) -> None:
    made = lakes.iceberg(catalog)
    with lakes.connected(tmp_path / "warehouse") as other:
        opened = open_table(made)
        before = opened.snapshot.files
        other.load_table("n.t").delete("id < 20")
        root = Path(made.location().removeprefix("file://"))
        files = set(root.rglob("*.parquet"))
        with pytest.raises(ConcurrentChangeError, match="another writer changed"):
            opened.commit([swap_for_copy(file) for file in before])
        live = {file.recorded for file in opened.refresh().files}
        (gone,) = (file for file in before if file.recorded not in live)
        with pytest.raises(ConcurrentChangeError, match=r"is no longer in .*; nothing was committed"):
            opened.commit([swap_for_copy(gone)])
    assert len(lakes.iceberg_rows(made)) == 40
    assert set(root.rglob("*.parquet")) == files
