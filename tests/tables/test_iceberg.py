"""The live files of Iceberg tables, as pyiceberg and the disk have them."""

from __future__ import annotations

import gzip
import json
import shutil
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import table
from fsspec.implementations.local import LocalFileSystem
from pyiceberg.manifest import FileFormat

from parquet_bloom import ColumnNotFoundError, UnsupportedError, index, lookup, prune
from parquet_bloom.format.footer import read_footer
from parquet_bloom.storage.drive import run
from parquet_bloom.tables import open_table, snapshot_of
from parquet_bloom.tables.iceberg import OpenIceberg, _bounds, _surely_recorded
from parquet_bloom.tables.iceberg_replace import copy_of
from parquet_bloom.tables.placement import UNMAPPED, Here, Lacking, Mapped


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path) as found:
        yield found


def directory(found: Any) -> Path:
    return Path(found.location().removeprefix("file://"))


def test_live_files_are_where_they_are_said_to_be(catalog: Any) -> None:
    rows = lakes.odd_rows()
    made = lakes.partitioned(catalog, rows)
    for given in (made, made.metadata_location, lakes.metadata_of(made), str(lakes.metadata_of(made))):
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


def test_a_branch_is_read_under_the_tables_schema_and_all_else_under_its_own(catalog: Any) -> None:
    """So do Iceberg's readers; pyiceberg is asked of the snapshot by its number, which is the current one here."""
    from pyiceberg.types import StringType

    made = lakes.iceberg(catalog, files=1)
    snapshot = made.current_snapshot().snapshot_id
    made.manage_snapshots().create_branch(snapshot, "other").create_tag(snapshot, "old").commit()
    with made.update_schema() as update:
        update.rename_column("name", "title")
    with made.update_schema() as update:
        update.add_column("name", StringType())
    later = datetime.fromtimestamp(datetime.now().timestamp() + 60, UTC).isoformat()
    under = {"old": ("name",), snapshot: ("name",), later: ("name",)} | {"other": ("title", "name")}
    assert under[snapshot] == tuple(made.scan(snapshot_id=snapshot).to_arrow().column_names[1:])
    for as_of, (column, *_) in under.items():
        with_text, without = f"{column} = 'name 000007'", f"{column} IS NULL"
        assert prune(made.metadata_location, with_text, as_of=as_of).might_match, as_of
        assert not prune(made.metadata_location, without, as_of=as_of).might_match, as_of
    assert prune(made.metadata_location, "name IS NULL", as_of="other").might_match
    assert prune(made.metadata_location, "name IS NULL").might_match
    found = lookup(made.metadata_location, "name", ["name 000007"], as_of=snapshot).to_arrow()
    assert found["path"].null_count == 0


def test_a_table_without_snapshots_has_no_files(catalog: Any) -> None:
    made = lakes.iceberg(catalog, files=0)
    found = snapshot_of(made)
    assert found is not None
    assert (found.version, found.files, found.sources()) == (None, (), [])


# ---- which metadata is current -----------------------------------------------------------


def test_a_table_that_was_created_again_in_its_place(catalog: Any) -> None:
    lakes.iceberg(catalog, files=4)
    catalog.drop_table("n.t")  # which leaves the files of version 4
    made = lakes.iceberg(catalog, files=1)
    made.append(table(20, 500))
    assert len(list(directory(made).glob("metadata/00004-*.metadata.json"))) == 1
    for given in (directory(made), str(directory(made)), made.location()):
        for verb in (prune, lambda path, _: lookup(path, "id", [505]), lambda path, _: index.create(path, "id")):
            with pytest.raises(UnsupportedError, match="only its catalog knows which of its metadata files is current"):
                verb(given, "id = 505")
    for given in (made, lakes.metadata_of(made)):
        assert prune(given, "id = 505").totals.rows_kept == 20
        assert lookup(given, "id", [505]).to_arrow()["path"].null_count == 0
        assert not prune(given, "id = 45").might_match  # of the one that was dropped


def test_a_writer_that_died_before_its_commit(catalog: Any, monkeypatch: Any) -> None:
    from sqlalchemy.orm import Session

    def die(session: Session) -> None:
        raise KeyboardInterrupt

    made = lakes.iceberg(catalog, files=2)
    with monkeypatch.context() as patch:
        patch.setattr(Session, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            made.delete("id < 20")
    made = catalog.load_table("n.t")
    assert len(list(directory(made).glob("metadata/00003-*.metadata.json"))) == 1
    assert 5 in lakes.iceberg_rows(made)
    with pytest.raises(UnsupportedError, match="table that pyiceberg loads"):
        prune(directory(made), "id = 5")
    assert prune(made, "id = 5").totals.rows_kept == 20
    assert lookup(made, "id", [5]).to_arrow()["path"].null_count == 0


def test_a_loaded_table_that_is_gone_or_another(catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    catalog.drop_table("n.t")
    with pytest.raises(FileNotFoundError, match=r"no longer has the table n\.t"):
        prune(made, "id = 5")
    lakes.iceberg(catalog, files=1)
    with pytest.raises(UnsupportedError, match=r"n\.t was dropped and created again since it was loaded"):
        prune(made, "id = 5")


def test_another_table_is_told_where_pyiceberg_does_not(catalog: Any, monkeypatch: Any) -> None:
    made = lakes.iceberg(catalog, files=1)

    def refresh() -> None:
        made.metadata = made.metadata.model_copy(update={"table_uuid": uuid.uuid4()})

    monkeypatch.setattr(made, "refresh", refresh)
    with pytest.raises(UnsupportedError, match=r"n\.t was dropped and created again since it was loaded"):
        prune(made, "id = 5")


def test_what_a_catalog_fails_with_is_told(catalog: Any, monkeypatch: Any) -> None:
    made = lakes.partitioned(catalog, lakes.odd_rows())

    def fail() -> None:
        raise RuntimeError("database disk image is malformed")

    monkeypatch.setattr(made, "refresh", fail)
    with pytest.raises(UnsupportedError, match=r"cannot load n\.\w+ from its catalog: database disk image"):
        open_table(made)


def test_a_loaded_table_is_asked_for_its_newest_versions(catalog: Any, tmp_path: Path) -> None:
    made = lakes.iceberg(catalog, files=1)
    with lakes.connected(tmp_path) as other:
        other.load_table("n.t").append(table(5, 60))
    now = datetime.fromtimestamp(datetime.now().timestamp() + 60, UTC).isoformat()
    assert prune(made, "id = 62", as_of=now).totals.rows_kept == 5


def test_one_table_at_a_time(catalog: Any) -> None:
    made = lakes.iceberg(catalog, files=1)
    for paths, options in (([made, made], {}), (["n.t", "n.u"], {"catalog": "tests"})):
        with pytest.raises(UnsupportedError, match="only one table of a catalog"):
            prune(paths, "id = 1", **options)
    with pytest.raises(UnsupportedError, match="not filesystem="):
        prune(made, "id = 1", filesystem=LocalFileSystem())
    with pytest.raises(UnsupportedError, match=r"namespace\.table"):
        prune(made, "id = 1", catalog="tests")
    assert prune([made], "id = 1").totals.files == 1
    root = directory(made)
    for paths, options in (([root, root], {}), (str(root), {"filesystem": LocalFileSystem()})):
        with pytest.raises(UnsupportedError, match=r"is the directory of a table, .* give it alone"):
            prune(paths, "id = 1", **options)
    files = list(root.glob("data/*.parquet"))
    assert prune([*files, *files], "id = 1").totals.files == 1


def test_a_metadata_file_is_what_its_caller_says(catalog: Any) -> None:
    made = lakes.iceberg(catalog)
    metadata = lakes.metadata_of(made)
    assert snapshot_of(metadata).num_rows == 60  # type: ignore[union-attr]
    metadata.write_text("{}")
    with pytest.raises(UnsupportedError, match="pyiceberg cannot read"):
        snapshot_of(metadata)


# ---- Hadoop's directories ----------------------------------------------------------------


@pytest.fixture
def versions(catalog: Any, tmp_path: Path) -> Path:
    """Returns a directory as Hadoop's catalog keeps it: version 4 has three files, and the hint is at 2."""
    made = lakes.iceberg(catalog)
    folder = tmp_path / "hadoop/metadata"
    folder.mkdir(parents=True)
    for path in directory(made).glob("metadata/*.metadata.json"):
        shutil.copy(path, folder / f"v{int(path.name[:5]) + 1}.metadata.json")
    (folder / "version-hint.text").write_text("2")
    (folder / "1b4fee1e-8a5b-4d3e-9c5d-0f6a54ba1a5a.metadata.json").write_text("{}")  # by a writer that died
    return folder


def rows_of(folder: Path) -> int | None:
    found = snapshot_of(folder.parent, allow_outside=True)  # the manifests lie where the catalog's table is
    assert found is not None
    return found.num_rows


def packed(folder: Path, number: int, name: str) -> None:
    data = (folder / f"v{number}.metadata.json").read_bytes()
    (folder / f"v{number}.metadata.json").unlink()
    (folder / name.format(number)).write_bytes(gzip.compress(data))


def test_versions_after_the_hint_s_count_while_there_is_no_gap(versions: Path) -> None:
    assert rows_of(versions) == 60
    (versions / "v3.metadata.json").rename(versions / "v9.metadata.json")
    assert rows_of(versions) == 20
    (versions / "version-hint.text").write_text("4\n")
    assert rows_of(versions) == 60


def test_packed_versions_count(versions: Path) -> None:
    for number in (2, 4):
        packed(versions, number, "v{}.gz.metadata.json")
    assert rows_of(versions) == 60
    assert prune(versions.parent, "id = 45", allow_outside=True).totals.rows_kept == 20


def other_table(folder: Path) -> None:
    data = json.loads((folder / "v4.metadata.json").read_text())
    (folder / "v4.metadata.json").write_text(json.dumps({**data, "table-uuid": str(uuid.uuid4())}))


def of_a_catalog(folder: Path) -> None:
    (folder / "00000-1b4fee1e-8a5b-4d3e-9c5d-0f6a54ba1a5a.metadata.json").write_text("{}")


UNSURE = {
    "no hint": (lambda folder: (folder / "version-hint.text").unlink(), r"has no metadata/version-hint\.text"),
    "hint of nothing": (
        lambda folder: (folder / "version-hint.text").write_text("new"),
        "does not contain a version: 'new'",
    ),
    "hint of none": (lambda folder: (folder / "version-hint.text").write_text("7"), "version 7, which has no file"),
    "of a catalog": (of_a_catalog, "00000-1b4fee1e.* was written for a catalog"),
    "other packing": (lambda folder: packed(folder, 4, "v{}.zstd.metadata.json"), "which file is version 4"),
    "old packing": (lambda folder: packed(folder, 4, "v{}.metadata.json.gz"), "which file is version 4"),
    "two of one": (lambda folder: (folder / "v3.gz.metadata.json").write_text(""), "which file is version 3"),
    "two tables": (other_table, r"v2\.metadata\.json and v4\.metadata\.json are of different tables \(table-uuid\)"),
    "damaged": (lambda folder: (folder / "v4.metadata.json").write_text("{"), r"cannot read .*v4\.metadata\.json"),
}


@pytest.mark.parametrize("kind", UNSURE)
def test_a_directory_that_is_not_sure_is_refused(versions: Path, kind: str) -> None:
    spoil, why = UNSURE[kind]
    spoil(versions)
    for verb in (prune, lambda path, _: lookup(path, "id", [5])):
        with pytest.raises(UnsupportedError, match=why):
            verb(versions.parent, "id = 5")


def test_columns_are_found_by_id_after_a_rename(catalog: Any) -> None:
    made = lakes.iceberg(catalog, files=1)
    with made.update_schema() as update:
        update.rename_column("name", "title")
    with made.update_schema() as update:
        update.add_column("name", made.schema().find_type("title"))
    made.append(pa.table({"id": pa.array([1], pa.int64()), "title": ["t"], "name": ["n"]}))
    found = snapshot_of(made)
    assert found is not None
    for file, source in zip(found.files, found.sources(), strict=True):
        footer = run(source, read_footer(source.size))
        is_old = file.num_rows == 20
        assert found.locate(footer, ("title",)) == Here(("name",) if is_old else ("title",))
        assert found.locate(footer, ("other",)) == Lacking()
        if is_old:
            # The old file has a column of this name, and it is another one.
            assert found.locate(footer, ("name",)) == Lacking()
            with pytest.raises(ColumnNotFoundError, match="'name'"):
                found.find(footer, ("name",))


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
    located = [found.locate(footer, path).path for path in asked]  # type: ignore[union-attr]
    assert located[1] == ("s", "b_x2Ec")  # a name that Avro could not have is another one in files
    assert sorted(located) == sorted(leaf.path for leaf in footer.leaves)


INT_5, DECIMAL_5 = (5).to_bytes(4, "little"), (5).to_bytes(1, "big")


@pytest.mark.parametrize(
    ("kind", "bound", "value"),
    [
        ("int", INT_5, 5),
        ("long", INT_5, 5),
        ("long", (5).to_bytes(8, "little"), 5),
        ("decimal(9, 2)", DECIMAL_5, 5),
        ("int", (5).to_bytes(8, "little"), None),
        ("int", b"", None),
        ("long", (5).to_bytes(5, "little"), None),
        ("decimal(9, 2)", bytes(17), None),
        ("float", INT_5, None),
        ("double", bytes(8), None),
    ],
)
def test_bounds_are_those_of_their_type(kind: str, bound: bytes, value: int | None) -> None:
    entry = SimpleNamespace(record_count=9, null_value_counts={1: 2}, value_counts={1: 9})
    entry.lower_bounds = entry.upper_bounds = {1: bound}
    found = _bounds(entry, 1, kind)
    assert (None if found is None else found.low) == (None if found is None else found.high) == value
    assert kind not in ("float", "double") or (found is not None and found.null_count == 2)  # which are known
    entry.value_counts = {1: 8}
    assert _bounds(entry, 1, kind) is None


def test_files_of_another_format_are_refused(catalog: Any) -> None:
    opened = OpenIceberg(lakes.iceberg(catalog, files=1))
    (entry,) = opened._entries.values()
    with pytest.raises(UnsupportedError, match="is ORC; tables with such files are not supported"):
        opened._live_file(copy_of(entry, file_format=FileFormat.ORC), opened._table.schema(), False)


def test_bounds_may_be_another_column_s_where_names_decide() -> None:
    """What was recorded of files without ids went by the names and the mapping of its time."""

    def fields(*pairs: tuple[int, str]) -> Any:
        return [SimpleNamespace(field_id=field_id, name=name) for field_id, name in pairs]

    def sure(mapping: Any, *schemas: Any) -> list[int]:
        return [one.field_id for one in _surely_recorded(schemas[-1], map(_of_fields, schemas), mapping)]

    def _of_fields(given: Any) -> Any:
        return SimpleNamespace(fields=given)

    now = fields((1, "a"), (2, "b"))
    each = tuple(Mapped(frozenset([name]), field_id) for field_id, name in ((1, "a"), (2, "b")))
    assert sure(UNMAPPED, fields((1, "b")), now) == [1, 2]
    assert sure(each, now) == [1, 2]
    assert sure(each[:1], now) == [1]
    assert sure("it is not understood", now) == []
    assert sure((each[0], Mapped(frozenset(["b", "c"]), 2)), now) == [1]
    assert sure((each[0], Mapped(frozenset(["b"]), 2), Mapped(frozenset(["b"]), 3)), now) == [1]
    assert sure(each, fields((1, "a"), (2, "c")), now) == [1]
    assert sure(each, fields((1, "b")), now) == []


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
        open_table(lakes.metadata_of(made))
    with pytest.raises(UnsupportedError, match="only its catalog knows"):
        open_table(directory(made))


def test_a_table_object_is_read_at_its_newest_snapshot(catalog: Any, tmp_path: Path) -> None:
    made = lakes.iceberg(catalog)
    with lakes.connected(tmp_path) as other:
        other.load_table("n.t").append(table(5, 60))
    assert snapshot_of(made).num_rows == 65  # type: ignore[union-attr]
