"""A table's directory means its snapshot: dead files, names, partition values and versions are the table's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from files import index_folder

import parquet_bloom
from parquet_bloom import col
from parquet_bloom.errors import ColumnNotFoundError, UnsupportedError


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path / "warehouse") as found:
        yield found


def rows_kept(pruning: Any) -> int:
    return pruning.totals.rows_kept


def test_only_live_files_are_evaluated(tmp_path: Path) -> None:
    table = lakes.delta(tmp_path / "t", files=4)
    table.delete("id < 20")
    assert parquet_bloom.prune(tmp_path / "t", "id >= 0").totals.files == 3
    assert not parquet_bloom.prune(tmp_path / "t", "id = 5").might_match
    assert rows_kept(parquet_bloom.prune(tmp_path / "t", "id = 5", as_of=3)) == 20
    table.optimize.compact()
    assert rows_kept(parquet_bloom.prune(tmp_path / "t", "id = 45")) == 60
    assert parquet_bloom.prune(tmp_path / "t" / "*.parquet", "id >= 0").totals.files > 3


def test_partition_values_are_those_of_the_log(tmp_path: Path) -> None:
    rows = lakes.odd_rows()
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["p"])
    for value in dict.fromkeys(rows["p"].to_pylist()):
        where = col("p").is_null() if value is None else col("p") == value
        kept = rows_kept(parquet_bloom.prune(tmp_path / "t", where))
        assert kept == 3 or (kept > 3 and "%" in value)  # some engines take one spelling for the other
    assert not parquet_bloom.prune(tmp_path / "t", "p = 'nothing like it'").might_match


def test_names_in_the_files_of_a_delta_table(tmp_path: Path) -> None:
    root = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "s": [{"a": 1, "b.c": "x"}, {"a": 2, "b.c": "y"}], "l": [[1], [2]], "p": ["v", "w"]})
    write_deltalake(str(root), rows, partition_by=["p"], configuration={"delta.columnMapping.mode": "name"})
    for where in ("id = 1", "s.a = 1", "p = 'v'"):
        assert rows_kept(parquet_bloom.prune(root, where)) == 1, where
    assert parquet_bloom.prune(root, "s.`b.c` = 'x'").might_match
    assert parquet_bloom.prune(root, "l.list.item = 1 OR id = 7").might_match
    assert not parquet_bloom.prune(root, "id = 400").might_match
    with pytest.raises(ColumnNotFoundError):
        parquet_bloom.prune(root, "nothing = 25")
    with pytest.raises(UnsupportedError, match="are not in them"):
        parquet_bloom.prune(root, "id = 25").to_dataset()


def test_iceberg_columns_go_by_their_ids(catalog: Any) -> None:
    table = lakes.iceberg(catalog, files=2)
    assert rows_kept(parquet_bloom.prune(table, "id = 25")) == 20
    with table.update_schema() as update:
        update.rename_column("id", "old")
    with table.update_schema() as update:
        update.rename_column("name", "id")
    assert rows_kept(parquet_bloom.prune(table, "old = 25")) == 20
    assert not parquet_bloom.prune(table, "old = 400").might_match
    assert parquet_bloom.prune(table, "id = 'name 000025'").might_match


def test_snapshots_of_iceberg(catalog: Any) -> None:
    table = lakes.iceberg(catalog, files=3)
    first = table.metadata.snapshots[0].snapshot_id
    assert parquet_bloom.prune(table, "id >= 0", as_of=first).totals.files == 1
    assert parquet_bloom.prune(table, "id >= 0").totals.files == 3
    lakes.give_deletes(table, [0])
    assert rows_kept(parquet_bloom.prune(table, "id = 1")) == 20


def test_deleted_rows_are_in_no_dataset(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t", files=1)
    lakes.give_deletion_vector(tmp_path / "t", [3])
    found = parquet_bloom.prune(tmp_path / "t", "id = 3")
    assert rows_kept(found) == 20
    with pytest.raises(UnsupportedError, match="deleted"):
        found.to_dataset()


def test_a_plain_table_is_a_dataset(tmp_path: Path) -> None:
    table = lakes.delta(tmp_path / "t", files=3)
    table.delete("id < 20")
    assert parquet_bloom.prune(tmp_path / "t", "id >= 0").to_dataset().to_table().num_rows == 40


def test_versions_are_for_tables(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t")
    for paths in (tmp_path / "t" / "*.parquet", [tmp_path / "t", tmp_path / "t"]):
        with pytest.raises(UnsupportedError, match="as_of="):
            parquet_bloom.prune(paths, "id = 1", as_of=1)


def test_filters_added_by_a_commit_prune(tmp_path: Path) -> None:
    from parquet_bloom import add

    ids = [f"{number * 2_654_435_761 % 2**32:08x}" for number in range(400)]
    for part in range(4):
        write_deltalake(str(tmp_path / "t"), pa.table({"id": ids[part::4]}), mode="append")
    assert parquet_bloom.prune(tmp_path / "t", col("id") == ids[5]).totals.files_kept == 4
    add(str(tmp_path / "t"), "id", table=True, fpp=0.0001)
    assert parquet_bloom.prune(tmp_path / "t", col("id") == ids[5]).totals.files_kept == 1
    assert DeltaTable(str(tmp_path / "t")).version() == 4


def test_keys_are_looked_up_in_live_files(tmp_path: Path) -> None:
    table = lakes.delta(tmp_path / "t", files=3)
    table.delete("id < 20")

    def found(**options: Any) -> list[Any]:
        rows = parquet_bloom.lookup(tmp_path / "t", "id", [5, 25], **options).to_arrow().to_pylist()
        return sorted(row["key"] for row in rows if row["path"] is not None)

    assert (found(), found(as_of=2)) == ([25], [5, 25])


@pytest.mark.usefixtures("mtime_stable")
def test_vacuum_leaves_the_index_whole(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = lakes.delta(root, files=6)
    table.delete("id < 20")
    parquet_bloom.index.create(root, ["id", "name"])
    files = sorted(index_folder(root).iterdir())
    removed = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert len(removed) >= 1
    assert sorted(index_folder(root).iterdir()) == files
    found = parquet_bloom.prune(root, "name = 'name 000045 and more'")
    assert (found.totals.files, found.totals.files_kept) == (5, 0)
    assert "(in the index)" in found.explain()
    assert parquet_bloom.index.show(root).rows[0].files == 5
