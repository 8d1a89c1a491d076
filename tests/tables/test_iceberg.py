"""The live files of Iceberg tables, as pyiceberg and the disk have them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import table

from parquet_bloom import ColumnNotFoundError, UnsupportedError
from parquet_bloom.footer import read_footer
from parquet_bloom.schema import find_leaf
from parquet_bloom.storage import run
from parquet_bloom.tables import open_table, snapshot_of


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path) as found:
        yield found


def directory(found: Any) -> Path:
    return Path(found.location().removeprefix("file://"))


def test_live_files_are_where_they_are_said_to_be(catalog: Any) -> None:
    rows = lakes.odd_rows()
    made = lakes.partitioned(catalog, rows)
    for given in (made, directory(made), str(directory(made)), made.location(), made.metadata_location):
        found = snapshot_of(given)
        assert found is not None
        assert (found.kind, found.root, found.num_rows) == ("Iceberg", str(directory(made)), len(rows))
        assert found.version == made.current_snapshot().snapshot_id
        assert {Path(file.path) for file in found.files} == set(directory(made).glob("data/p=*/*.parquet"))
        assert [(s.path, s.size) for s in found.sources()] == [(f.path, f.size) for f in found.files]
        for file in found.files:
            assert {file.partition["p"]} == set(pq.ParquetFile(file.path).read()["p"].to_pylist())


def test_only_values_that_columns_have_are_partition_values(catalog: Any) -> None:
    made = lakes.partitioned(catalog, lakes.odd_rows(), "bucket[4]")
    assert {tuple(file.partition) for file in snapshot_of(made).files} == {()}  # type: ignore[union-attr]


def test_dates_are_texts(catalog: Any) -> None:
    rows = pa.table({"id": [1, 2], "p": pa.array([datetime(2026, 1, 31).date(), None])})
    made = lakes.partitioned(catalog, rows)
    assert {file.partition["p"] for file in snapshot_of(made).files} == {"2026-01-31", None}  # type: ignore[union-attr]


def test_earlier_snapshots(catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    first, second, third = (entry.snapshot_id for entry in made.history())
    made.manage_snapshots().create_tag(second, "then").commit()
    later = datetime.fromtimestamp(datetime.now().timestamp() + 60, UTC).isoformat()
    for as_of, version, files in [(first, first, 1), (str(second), second, 2), ("then", second, 2), (later, third, 3)]:
        found = snapshot_of(made, as_of=as_of)
        assert found is not None
        assert (found.version, len(found.files)) == (version, files)
    for missing in (7, "2001-01-01"):
        with pytest.raises(ValueError, match=f"has no snapshot {missing}"):
            snapshot_of(made, as_of=missing)


def test_a_table_without_snapshots_has_no_files(catalog: Any) -> None:
    made = lakes.iceberg(catalog, files=0)
    found = snapshot_of(directory(made))
    assert found is not None
    assert (found.version, found.files, found.sources()) == (None, (), [])


def test_a_directory_has_one_newest_metadata_file(catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    metadata = Path(made.metadata_location.removeprefix("file://"))
    shutil.copy(metadata, metadata.with_name(f"{metadata.name[:5]}-lost.metadata.json"))
    with pytest.raises(
        UnsupportedError, match=r"lost\.metadata\.json; name the one that the table's catalog points to"
    ):
        snapshot_of(directory(made))
    assert snapshot_of(metadata).num_rows == 60  # type: ignore[union-attr]
    metadata.write_text("{}")
    with pytest.raises(UnsupportedError, match="pyiceberg cannot read"):
        snapshot_of(metadata)


def test_a_hadoop_table_s_metadata_is_found(catalog: Any, tmp_path: Path) -> None:
    made = lakes.iceberg(catalog)
    folder = tmp_path / "copy/metadata"
    folder.mkdir(parents=True)
    for number in (2, 9, 10):
        shutil.copy(made.metadata_location.removeprefix("file://"), folder / f"v{number}.metadata.json")
    (folder / "v9.metadata.json").write_text("damaged")
    (folder / "version-hint.text").write_text("10")
    assert snapshot_of(folder.parent).num_rows == 60  # type: ignore[union-attr]


def test_columns_are_found_by_id_after_a_rename(catalog: Any) -> None:
    made = lakes.iceberg(catalog, files=1)
    with made.update_schema() as update:
        update.rename_column("name", "title")
    with made.update_schema() as update:
        update.add_column("name", made.schema().find_type("title"))
    made.append(pa.table({"id": pa.array([1], pa.int64()), "title": ["t"], "name": ["n"]}))
    found = snapshot_of(made)
    assert found is not None
    assert found.field_ids == {"id": 1, "title": 2, "name": 3}
    for file, source in zip(found.files, found.sources(), strict=True):
        footer = run(source, read_footer(source.size))
        is_old = file.num_rows == 20
        assert found.locate(footer, ("title",)) == ("name",) if is_old else ("title",)
        assert found.locate(footer, ("other",)) == ("other",)
        if is_old:
            # The old file has a column of this name, and it is another one.
            with pytest.raises(ColumnNotFoundError, match="field id 3"):
                find_leaf(footer.leaves, found.locate(footer, ("name",)))


def test_leaves_of_nested_columns_have_ids(catalog: Any) -> None:
    rows = pa.table(
        {"s": [{"a": 1, "b.c": "x"}], "l": [[1, 2]], "m": pa.array([[("k", 1)]], pa.map_("string", "int64"))}
    )
    made = catalog.create_table("n.nested", rows.schema)
    made.append(rows)
    found = snapshot_of(made)
    assert found is not None
    (source,) = found.sources()
    footer = run(source, read_footer(source.size))
    asked = [("s", "a"), ("s", "b.c"), ("l", "list", "element"), ("m", "key_value", "key"), ("m", "key_value", "value")]
    located = [found.locate(footer, path) for path in asked]
    assert located[1] == ("s", "b_x2Ec")  # a name that Avro could not have is another one in files
    assert sorted(located) == sorted(leaf.path for leaf in footer.leaves)


def test_files_with_deletes_are_told(catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    assert not any(file.has_deletes for file in snapshot_of(made).files)  # type: ignore[union-attr]
    lakes.give_deletes(made, [0, 1])
    found = snapshot_of(made)
    assert found is not None
    assert sorted(file.has_deletes for file in found.files) == [False, False, True]
    assert len(lakes.iceberg_rows(made)) == 58
    assert found.num_rows == 60


def test_where_deletes_are_not_understood_every_file_may_have_them(catalog: Any, monkeypatch: Any) -> None:
    made = lakes.iceberg(catalog)
    lakes.give_deletes(made, [0, 1])

    def refuse(scan: Any) -> Any:
        raise ValueError("PyIceberg does not yet support equality deletes")

    monkeypatch.setattr("pyiceberg.table.DataScan.plan_files", refuse)
    assert all(file.has_deletes for file in snapshot_of(made).files)  # type: ignore[union-attr]


def test_a_directory_cannot_be_committed_to(catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    with pytest.raises(UnsupportedError, match="without its catalog; pass the table that the catalog loads"):
        open_table(directory(made))


def test_a_table_object_is_read_at_its_newest_snapshot(catalog: Any, tmp_path: Path) -> None:
    made = lakes.iceberg(catalog)
    with lakes.connected(tmp_path) as other:
        other.load_table("n.t").append(table(5, 60))
    assert snapshot_of(made).num_rows == 65  # type: ignore[union-attr]
