"""The index of a table: its live files, under the table's names, whatever each file calls a column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from files import index_folder

from parquet_bloom import Cache, index, lookup, prune
from parquet_bloom.errors import ColumnNotFoundError, UnsupportedError
from parquet_bloom.storage.drive import RequestLog

FILES = 6


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path / "warehouse") as found:
        yield found


def rows(part: int, names: tuple[str, str] = ("id", "name"), count: int = 40) -> pa.Table:
    """Returns rows whose values all parts share out among them, so that statistics tell no part from another."""
    ids = range(part, FILES * count, FILES)
    return pa.table({names[0]: pa.array(ids, pa.int64()), names[1]: [f"{i * 2_654_435_761 % 2**32:08x}" for i in ids]})


def word(number: int) -> str:
    return f"{number * 2_654_435_761 % 2**32:08x}"


def delta(root: Path, mode: str = "none") -> DeltaTable:
    for part in range(FILES):
        options = {} if part else {"configuration": {"delta.columnMapping.mode": mode}}
        write_deltalake(str(root), rows(part), mode="append", **options)
    return DeltaTable(str(root))


def iceberg(catalog: Any) -> Any:
    table = catalog.create_table("n.t", rows(0).schema)
    for part in range(FILES):
        table.append(rows(part))
    return table


def home(table: Any) -> Path:
    return Path(table.location().removeprefix("file://"))


def kept(root: Any, where: str, **options: Any) -> tuple[int, int]:
    """Returns how many files must be read, and of how many data files anything was asked."""
    log = RequestLog()
    found = prune(root, where, cache=Cache(0), log=log, **options)
    return found.totals.files_kept, len({name for name, _ in log.requests if ".bloom-index" not in name})


def looked_up(root: Any, column: str, keys: list[Any], **options: Any) -> tuple[int, int]:
    log = RequestLog()
    found = lookup(root, column, keys, cache=Cache(0), log=log, **options).to_arrow().to_pylist()
    asked = {name for name, _ in log.requests if ".bloom-index" not in name}
    return len({row["path"] for row in found if row["path"] is not None}), len(asked)


def put(table: Any, part: int, names: tuple[str, str]) -> None:
    table.append(rows(part, names))


# ---- names -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "name"])
def test_delta(tmp_path: Path, mode: str) -> None:
    delta(tmp_path / "t", mode)
    state = index.create(tmp_path / "t", ["id", "name"], fpp=0.0001)
    assert [(row.column, row.files, row.files_without_filter) for row in state.rows] == [
        ("id", FILES, 0),
        ("name", FILES, 0),
    ]
    assert kept(tmp_path / "t", f"name = '{word(7)}'") == (1, 1)
    assert kept(tmp_path / "t", f"name = '{word(7)}' AND id = 8") == (0, 0)
    assert kept(tmp_path / "t", f"name = '{word(7)}' OR id = 8") == (2, 2)
    assert looked_up(tmp_path / "t", "name", [word(7), word(13)]) == (1, 1)
    assert index.refresh(tmp_path / "t").built == 0


def test_iceberg(catalog: Any) -> None:
    root = iceberg(catalog)
    state = index.create(root, ["id", "name"], fpp=0.0001)
    assert state.root == str(home(root))
    assert kept(root, f"name = '{word(7)}'") == (1, 1)
    assert kept(root, f"name = '{word(7)}' AND id = 8") == (0, 0)
    assert looked_up(root, "id", [7, 13]) == (1, 1)
    metadata = lakes.metadata_of(root)
    assert kept(metadata, f"name = '{word(7)}'") == (1, 1)
    for given in (root, metadata):
        assert index.show(given) == replace(state, built=0)
        assert index.refresh(given).built == 0
    put(root, 7, ("id", "name"))
    assert index.refresh(root).built == 2
    assert [row.column for row in index.drop(root, "id").rows] == ["name"]
    with pytest.raises(UnsupportedError, match="only its catalog knows which of its metadata files is current"):
        index.drop(home(root), "name")
    assert index.show(root).rows[0].files == FILES + 1
    assert not index.drop(home(root)).exists  # nothing need be known of its files
    assert not index_folder(home(root)).exists()


def test_a_renamed_column_keeps_its_filters(catalog: Any) -> None:
    table = iceberg(catalog)
    root = table
    index.create(root, "name", fpp=0.0001)
    with table.update_schema() as update:
        update.rename_column("name", "title")
    assert kept(root, f"title = '{word(7)}'") == (1, 1)
    put(table, 7, ("id", "title"))
    assert kept(root, f"title = '{word(7)}'") == (2, 2)
    index.create(root, "title", fpp=0.0001)
    assert kept(root, f"title = '{word(13)}'") == (2, 2)
    assert kept(root, f"title = '{word(8)}'") == (1, 1)
    assert looked_up(root, "title", [word(8)]) == (1, 1)


def test_a_column_with_the_name_of_another(catalog: Any) -> None:
    table = iceberg(catalog)
    root = table
    index.create(root, ["id", "name"], fpp=0.0001)
    with table.update_schema() as update:
        update.rename_column("name", "old")
    with table.update_schema() as update:
        update.add_column("name", table.schema().find_type("old"))
    assert kept(root, f"old = '{word(7)}'") == (1, 1)
    ends = ["0", "g"]  # so that statistics leave all open
    table.append(pa.table({"id": [1, 2, 3], "name": [word(7), *ends], "old": [word(8), *ends]}))
    assert kept(root, "name IS NULL") == (FILES, FILES + 1)
    index.refresh(root)
    # The files before lack the column; none of their filters is for it.
    assert kept(root, f"name = '{word(7)}'") == (FILES + 1, FILES + 1)
    assert kept(root, f"name = '{word(8)}'") == (FILES, FILES)
    assert looked_up(root, "name", [word(7)]) == (FILES + 1, FILES + 1)
    assert index.show(root).rows[1].files == FILES + 1


def test_two_columns_that_change_names(catalog: Any) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    table = catalog.create_table("n.t", schema)
    for part in range(3):
        table.append(pa.table({"a": [f"a{part}", "m"], "b": [f"b{part}", "m"]}, schema=schema))
    root = table
    index.create(root, ["a", "b"], fpp=0.0001)
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        with table.update_schema() as update:
            update.rename_column(old, new)
    for part in range(3):
        assert kept(root, f"a = 'b{part}'") == (1, 1)
        assert kept(root, f"b = 'a{part}'") == (1, 1)
    index.create(root, "a", fpp=0.0001)
    for part in range(3):
        assert kept(root, f"a = 'b{part}' AND b = 'a{part}'") == (1, 1)


def test_files_without_ids_go_by_names(catalog: Any, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = catalog.create_table("n.t", rows(0).schema)
    paths = [f"{tmp_path}/{part}.parquet" for part in range(FILES)]
    for part, path in enumerate(paths):
        pq.write_table(rows(part), path)
    table.add_files(paths)
    index.create(table, "name", fpp=0.0001, allow_outside=True)
    assert kept(table, f"name = '{word(7)}'", allow_outside=True) == (1, 1)


def test_what_the_table_does_not_have(tmp_path: Path, catalog: Any) -> None:
    table = iceberg(catalog)
    with table.update_schema() as update:
        update.rename_column("name", "title")
    with pytest.raises(ColumnNotFoundError, match="name"):
        index.create(table, "name")
    write_deltalake(str(tmp_path / "t"), lakes.odd_rows(), partition_by=["p"])
    with pytest.raises(UnsupportedError, match="p is a partition column"):
        index.create(tmp_path / "t", "p")


# ---- live files --------------------------------------------------------------------------


def test_only_live_files_are_indexed(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table = delta(root)
    write_deltalake(table, rows(0), mode="overwrite")
    state = index.create(root, "name", fpp=0.0001)
    assert (state.built, state.rows[0].files, state.rows[0].files_missing) == (1, 1, 0)
    assert kept(root, f"name = '{word(7)}'") == (0, 0)
    assert kept(root, f"name = '{word(7)}'", as_of=FILES - 1) == (FILES, FILES)  # which is not in the index
    assert kept(root, f"name = '{word(7)}'", as_of=FILES) == (0, 0)
    table.update_incremental()
    write_deltalake(table, rows(7), mode="append")
    assert index.show(root).rows[0].files_missing == 1
    assert index.refresh(root).built == 1
    assert kept(root, f"name = '{word(13)}'") == (1, 1)


def test_files_of_another_place_are_indexed(tmp_path: Path) -> None:
    """A shallow clone: one commit that names the files of another table."""
    delta(tmp_path / "origin")
    first, *_ = [lakes.actions(tmp_path / "origin", 0)]
    added = [add for version in range(FILES) for add in lakes.adds(tmp_path / "origin", version)]
    clone = [{**add, "path": f"file://{tmp_path}/origin/{add['path']}"} for add in added]
    (tmp_path / "clone" / "_delta_log").mkdir(parents=True)
    kinds = [action for action in first if "protocol" in action or "metaData" in action]
    lakes.log(tmp_path / "clone", 0, *kinds, *({"add": add} for add in clone))
    with pytest.raises(UnsupportedError, match="nor are 5 others: it lies outside of the table's directory"):
        index.create(tmp_path / "clone", "name")
    created = index.create(tmp_path / "clone", "name", fpp=0.0001, allow_outside=True)
    assert (created.rows[0].files, created.rows[0].files_missing) == (FILES, 0)
    assert kept(tmp_path / "clone", f"name = '{word(7)}'", allow_outside=True) == (1, 1)
    assert kept(tmp_path / "clone", f"name = '{word(7)}'") == (FILES, 0)
    assert not index_folder(tmp_path / "origin").exists()
