"""Files whose columns have other names than the table's: all verbs find the values that readers of the table see.

A file without field ids goes by the table's mapping of names, which `add_files` makes and each change of the schema
keeps up. Where that leaves open which column is which, no verb may take the column for NULL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import parquet_bloom
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.format.schema import LeafColumn, PhysicalType, Repetition
from parquet_bloom.tables.placement import ByIds, Here, Lacking, Unknown, name_mapping
from parquet_bloom.verbs.erase_table import TableErasure

ROWS = {"id": pa.array(range(4), pa.int64()), "user": pa.array(["a", "b", None, "d"])}
NESTED = {
    "id": pa.array(range(4), pa.int64()),
    "s": pa.array([{"a": 10, "b": 20, "t": {"x": 1, "y": 2}}, {"a": 11, "b": 21, "t": None}, None, {"a": 13}]),
    "l": pa.array([[{"e": 1, "f": 2}], [], [], [{"e": 3, "f": None}]]),  # pyiceberg makes NULL an empty list
    "m": pa.array([[("k", {"v": 1})], [], [], []], pa.map_("string", pa.struct([("v", pa.int64())]))),
}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path / "warehouse") as found:
        yield found


def created(catalog: Any, columns: dict[str, pa.Array], name: str = "t") -> Any:
    table = catalog.create_table(f"n.{name}", pa.table(columns).schema)
    give(table, columns)
    return table


def give(table: Any, columns: dict[str, Any], **options: Any) -> Path:
    """Adds a file without field ids."""
    folder = Path(table.location().removeprefix("file://")) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(pa.table(columns), path, **options)
    table.add_files([f"file://{path}"])
    return path


def rename(table: Any, *names: tuple[Any, str]) -> None:
    for old, new in names:
        with table.update_schema() as update:
            update.rename_column(old, new)


def leaf_values(rows: list[dict[str, Any]], table: Any) -> dict[str, list[Any]]:
    """Returns the values of each column that is in no list or map, a row each and another, by its name."""
    from pyiceberg.types import PrimitiveType, StructType

    found: dict[str, list[Any]] = {}

    def walk(fields: Any, name: str, values: list[Any]) -> None:
        for one in fields:
            below = [None if value is None else value.get(one.name) for value in values]
            if isinstance(one.field_type, StructType):
                walk(one.field_type.fields, f"{name}{one.name}.", below)
            elif isinstance(one.field_type, PrimitiveType):
                found[name + one.name] = [*below, "none" if str(one.field_type) == "string" else -5]

    walk(table.schema().fields, "", rows)
    return found


def ids(found: Any) -> list[int]:
    return sorted(found.to_arrow()["id"].to_pylist())


def require_nothing_lost(table: Any, *, is_known: bool = True) -> None:
    """Compares every verb's answer about every value with the rows that pyiceberg reads."""
    rows = table.scan().to_arrow().to_pylist()
    for name, values in leaf_values(rows, table).items():
        for value in dict.fromkeys(values):
            where = f"{name} IS NULL" if value is None else f"{name} = {value!r}"
            wanted = sorted(row["id"] for row, own in zip(rows, values, strict=False) if own == value)
            assert not wanted or parquet_bloom.prune(table, where, exact=True).might_match, where
            found = parquet_bloom.find(table, where)
            require_rows(ids(found), wanted, found.errors, where, is_known)
            if value is None or name == "id":
                continue
            assert not wanted or is_candidate(table, name, value), where
            found = parquet_bloom.find(table, column=name, keys=[value], columns=["id"])
            require_rows(ids(found), wanted, found.errors, where, is_known)
            absent = parquet_bloom.absent(table, name, [value])
            assert not (wanted and len(absent.keys)), where


def is_candidate(table: Any, name: str, value: Any) -> bool:
    return any(row["path"] is not None for row in parquet_bloom.lookup(table, name, [value]).to_arrow().to_pylist())


def require_rows(found: list[int], wanted: list[int], errors: Any, where: str, is_known: bool) -> None:
    assert set(found) <= set(wanted), where
    assert found == wanted or (errors and not is_known), where


# ---- evolutions --------------------------------------------------------------------------


def renamed(table: Any) -> None:
    rename(table, ("user", "name"))
    with table.update_schema() as update:
        update.add_column("later", table.schema().find_type("name"))


def nested_swap(table: Any) -> None:
    rename(table, (("s", "a"), "c"), (("s", "b"), "a"), (("s", "c"), "b"), ("s", "r"), (("r", "t"), "u"))


def moved(table: Any) -> None:
    with table.update_schema() as update:
        update.move_first(("s", "b"))
        update.move_before("s", "id")
        update.move_after(("s", "t", "x"), ("s", "t", "y"))


def dropped_and_added(table: Any) -> None:
    from pyiceberg.types import LongType

    with table.update_schema() as update:
        update.delete_column(("s", "a"))
        update.delete_column(("s", "t", "x"))
    with table.update_schema() as update:
        update.add_column(("s", "z"), LongType())
        update.add_column(("s", "t", "w"), LongType())


def in_containers(table: Any) -> None:
    rename(table, (("l", "e"), "g"), (("m", "v"), "w"), ("l", "many"))


EVOLUTIONS: dict[str, tuple[dict[str, pa.Array], Callable[[Any], None]]] = {
    "renamed": (ROWS, renamed),
    "nested swap": (NESTED, nested_swap),
    "moved": (NESTED, moved),
    "dropped and added": (NESTED, dropped_and_added),
    "in containers": (NESTED, in_containers),
}


@pytest.mark.parametrize("kind", EVOLUTIONS)
def test_files_without_ids_have_the_values_that_the_mapping_gives_them(catalog: Any, kind: str) -> None:
    columns, evolve = EVOLUTIONS[kind]
    table = created(catalog, columns)
    evolve(table)
    require_nothing_lost(table)
    rows = parquet_bloom.find(table, "id >= 0").to_arrow().to_pylist()
    assert rows == table.scan().to_arrow().to_pylist()
    new = parquet_bloom.find(table, "id >= 0").to_arrow()
    give(table, {name: new[name] for name in new.column_names})
    require_nothing_lost(table)


KNOWN = [("id", pa.int64()), ("user", pa.string()), ("n", pa.struct([("a", pa.int64()), ("b", pa.int64())]))]
BELOW = ("a", "b", "c")


@settings(max_examples=3)
@given(st.data())
def test_random_evolutions_lose_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    from pyiceberg.types import LongType, StringType

    with lakes.catalog(tmp_path_factory.mktemp("names")) as found:
        table = found.create_table("n.t", pa.schema(KNOWN))
        for number in range(data.draw(st.integers(2, 7))):
            top = [field.name for field in table.schema().fields if field.name not in ("id", "n")]
            below = [field.name for field in table.schema().find_type("n").fields]
            new = [name for name in ("user", "v", "w") if name not in top]
            new_below = [name for name in BELOW if name not in below]
            with table.update_schema() as update:
                match data.draw(st.sampled_from(["keep", "rename", "rename below", "add", "add below", "drop"])):
                    case "rename" if top and new:
                        update.rename_column(data.draw(st.sampled_from(top)), new[0])
                    case "rename below" if new_below:
                        update.rename_column(("n", data.draw(st.sampled_from(below))), new_below[0])
                    case "add" if new:
                        update.add_column(data.draw(st.sampled_from(new)), StringType())
                    case "add below" if new_below:
                        update.add_column(("n", data.draw(st.sampled_from(new_below))), LongType())
                    case "drop" if top:
                        update.delete_column(data.draw(st.sampled_from(top)))
            rows = random_rows(table, number, data)
            if data.draw(st.booleans()):
                give(table, {name: rows[name] for name in rows.column_names})
            else:
                table.append(rows)
        if table.current_snapshot() is not None:
            require_nothing_lost(table, is_known=False)


def random_rows(table: Any, number: int, data: st.DataObject) -> pa.Table:
    below = [field.name for field in table.schema().find_type("n").fields]
    kinds = {field.name: str(field.field_type) for field in table.schema().fields}
    values: dict[str, pa.Array] = {}
    for name in kinds:
        if name == "id":
            values[name] = pa.array([10 * number, 10 * number + 1], pa.int64())
        elif name == "n":
            drawn = data.draw(st.lists(st.none() | st.integers(0, 3), min_size=len(below), max_size=len(below)))
            kind = pa.struct([(one, pa.int64()) for one in below])
            values[name] = pa.array([dict(zip(below, drawn, strict=True)), None], kind)
        else:
            values[name] = pa.array(
                data.draw(st.lists(st.sampled_from([None, "a", "b"]), min_size=2, max_size=2)), "string"
            )
    return pa.table(values)


# ---- what is not known -------------------------------------------------------------------


def two_names(table: Any) -> Path:
    """`user_v2` takes the place, and the name, of `user`: in a file with both, either may be the column."""
    from pyiceberg.types import StringType

    with table.update_schema() as update:
        update.add_column("user_v2", StringType())
    path = give(table, {"id": pa.array([7, 8], pa.int64()), "user": ["old", "g"], "user_v2": ["key", "h"]})
    with table.update_schema() as update:
        update.delete_column("user")
    rename(table, ("user_v2", "user"))
    return path


def without_mapping(table: Any) -> Path:
    return set_mapping(table, None)


def odd_mapping(table: Any) -> Path:
    return set_mapping(table, '[{"names": "user", "field-id": 2}]')


def newer_mapping(table: Any) -> Path:
    return set_mapping(table, '[{"names": ["user"], "field-id": 2, "case-sensitive": false}]')


def shared_name(table: Any) -> Path:
    return set_mapping(table, '[{"names": ["user"], "field-id": 2}, {"names": ["user"], "field-id": 1}]')


def unmapped(table: Any) -> Path:
    return set_mapping(table, '[{"names": ["id"], "field-id": 1}]')


def set_mapping(table: Any, text: str | None) -> Path:
    path = give(table, {"id": pa.array([7, 8], pa.int64()), "user": ["key", "h"]})
    with table.transaction() as transaction:
        if text is None:
            transaction.remove_properties("schema.name-mapping.default")
        else:
            transaction.set_properties({"schema.name-mapping.default": text})
    return path


def some_ids(table: Any) -> Path:
    return rewritten(table, [("id", pa.int64(), "1"), ("user", pa.string(), None)])


def one_id_twice(table: Any) -> Path:
    return rewritten(table, [("id", pa.int64(), "2"), ("user", pa.string(), "2")])


def rewritten(table: Any, fields: list[tuple[str, pa.DataType, str | None]]) -> Path:
    """A file that its writer gave such ids."""
    path = give(table, {"id": pa.array([7, 8], pa.int64()), "user": ["key", "h"]})
    metadata = [{"PARQUET:field_id": number} if number else None for *_, number in fields]
    schema = pa.schema([pa.field(*one[:2], metadata=each) for one, each in zip(fields, metadata, strict=True)])
    put_back(pq.read_table(path).cast(schema), path)
    return path


NOT_KNOWN = {
    two_names: "several columns of the file",
    without_mapping: "has no field ids, and the table does not map names",
    odd_mapping: "in a way that is understood",
    newer_mapping: "in a way that is understood",
    shared_name: "maps user to more than one column",
    unmapped: "has a column user, which the table does not map",
    some_ids: "some of the file's columns have field ids",
    one_id_twice: "several columns of the file",
}


@pytest.mark.parametrize("make", NOT_KNOWN, ids=lambda make: make.__name__)
def test_a_column_that_is_not_known_is_never_null(catalog: Any, make: Callable[[Any], Path]) -> None:
    table, why = created(catalog, ROWS), NOT_KNOWN[make]
    path = make(table)
    for where in ("user = 'key'", "user IS NULL", "user > 'zz'"):
        for exact in (False, True):
            (kept,) = [
                file for file in parquet_bloom.prune(table, where, exact=exact).kept_files if file.path == str(path)
            ]
            assert {group.answer for group in kept.row_groups} == {"MIGHT_MATCH"}
            assert all(why in group.reason for group in kept.row_groups)
        assert refused(parquet_bloom.find(table, where), path, why)
    candidates = parquet_bloom.lookup(table, "user", ["key"]).to_arrow().to_pylist()
    assert any(row["path"] == str(path) and why in row["reason"] for row in candidates)
    assert refused(parquet_bloom.find(table, column="user", keys=["key"]), path, why)
    absent = parquet_bloom.absent(table, "user", ["key"])
    assert (len(absent.keys), absent.unknown.to_pylist()) == (0, ["key"])
    assert why in absent.errors[-1].error
    for keys in (["key"], ["none"]):
        before, at = path.read_bytes(), table.refresh().current_snapshot().snapshot_id
        for dry_run in (True, False):
            erased = parquet_bloom.erase(table, "user", keys, table=True, dry_run=dry_run)
            (row,) = [file for file in erased.rows if file.path == str(path)]
            assert row.status == "refused"
            assert why in str(row.error)
        assert (path.read_bytes(), table.refresh().current_snapshot().snapshot_id) == (before, at)


def put_back(rows: pa.Table, path: Any) -> None:
    """Writes another file in the place of a table's; a shorter one would be taken for a damaged one."""
    pq.write_table(rows.replace_schema_metadata({"padding": "x" * 4000}), path)


def refused(found: Any, path: Path, why: str) -> bool:
    found.to_arrow()
    return any(error.path == str(path) and why in error.error for error in found.errors)


@pytest.mark.parametrize("make", NOT_KNOWN, ids=lambda make: make.__name__)
def test_no_filter_is_written_for_a_column_that_is_not_known(catalog: Any, make: Callable[[Any], Path]) -> None:
    table = created(catalog, ROWS)
    path = make(table)
    added = parquet_bloom.add(table, ["user"], table=True)
    (row,) = [file for file in added.rows if file.path == str(path)]
    assert (row.status, NOT_KNOWN[make] in str(row.error)) == ("refused", True)


@pytest.mark.parametrize("make", NOT_KNOWN, ids=lambda make: make.__name__)
def test_an_index_has_no_filter_of_a_column_that_is_not_known(catalog: Any, make: Callable[[Any], Path]) -> None:
    table = created(catalog, ROWS)
    path = make(table)
    is_nowhere = make in (without_mapping, odd_mapping, newer_mapping, shared_name, unmapped)
    with pytest.raises(UnsupportedError, match=NOT_KNOWN[make]) if is_nowhere else nullcontext():
        parquet_bloom.index.create(table, "user")
    assert str(path) in {file.path for file in parquet_bloom.prune(table, "user = 'none'").kept_files}
    assert is_candidate(table, "user", "key")


def test_a_filter_and_an_index_go_by_the_mapping(catalog: Any) -> None:
    table = created(catalog, ROWS)
    with table.update_schema() as update:
        update.add_column("name", table.schema().find_type("user"))
    path = give(table, {"id": pa.array([7, 8], pa.int64()), "user": ["old", "g"], "name": ["key", "h"]})
    rename(table, ("user", "x"), ("name", "user"), ("x", "name"))
    where = "user = 'hh'"
    parquet_bloom.index.create(table, "user")
    assert str(path) not in {file.path for file in parquet_bloom.prune(table, where).kept_files}
    require_nothing_lost(table)
    added = parquet_bloom.add(table, ["user"], table=True)
    require_nothing_lost(table)
    assert [row.status for row in added.rows] == ["written", "written"]
    assert {str(path)} & {file.path for file in parquet_bloom.prune(table, "name = 'none'").kept_files} == set()
    assert parquet_bloom.prune(table, where).totals.files_kept == 0


# ---- lists and maps in files without ids ---------------------------------------------------


def listed(*middle: str) -> LeafColumn:
    nodes = (Repetition.OPTIONAL, Repetition.REPEATED, *[Repetition.OPTIONAL] * (len(middle) - 1))
    return LeafColumn(("l", *middle), 0, PhysicalType.INT64, None, None, nodes)


LISTS = {
    "as the rules have it": ([listed("list", "element")], True),
    "of Hive": ([listed("bag", "array_element")], True),
    "of older Arrow": ([listed("list", "item")], True),
    "without a group": ([listed("array")], False),
    "of structs of one field": ([listed("array", "x")], False),
    "of structs of one field, in Avro": ([listed("l_tuple", "x")], False),
    "of structs of two": ([listed("list", "x"), listed("list", "y")], False),
    "a map": ([listed("key_value", "key"), listed("key_value", "value")], False),
    "in lists": ([listed("list", "list", "element")], False),
}


@pytest.mark.parametrize("kind", LISTS)
def test_lists_are_known_where_parquet_s_rules_have_them(kind: str) -> None:
    leaves, is_known = LISTS[kind]
    mapping = name_mapping(json.dumps([
        {"names": ["l"], "field-id": 1, "fields": [{"names": ["element"], "field-id": 2}]},
        {"names": ["n"], "field-id": 3},
    ]))  # fmt: skip
    naming = ByIds.of_iceberg({("l",): (1,), ("l", "list", "element"): (1, 2), ("n",): (3,)}, mapping)
    placement = naming.place(Schema(tuple(leaves)))
    place = placement.of(("l", "list", "element"))
    assert isinstance(place, Here if is_known else Unknown)
    assert placement.of(("n",)) == Lacking()
    assert isinstance(ByIds.of_iceberg({("l",): (1,)}, mapping).place(Schema(tuple(leaves))).of(("l",)), Unknown)


@dataclass
class Schema:
    """A file's columns, without ids."""

    leaves: tuple[LeafColumn, ...]
    renamed_leaves: dict[Any, Any] = field(default_factory=dict)

    @property
    def node_ids(self) -> tuple[tuple[None, ...], ...]:
        return tuple((None,) * len(leaf.path) for leaf in self.leaves)


# ---- rows of files that lack a column ------------------------------------------------------


def test_a_partition_column_that_a_file_lacks_is_not_null(catalog: Any) -> None:
    """The files of a table of Hive's that was migrated are without the columns of its folders."""
    rows = pa.table({"id": pa.array(range(4), pa.int64()), "p": ["x", "x", "y", "y"]})
    table = lakes.partitioned(catalog, rows)
    paths = {file.path: file for file in parquet_bloom.prune(table, "id >= 0").all_files}
    lacking = next(path for path in paths if "p=x" in path)
    without = pq.read_table(lacking, partitioning=None).drop_columns("p")
    put_back(without, lacking)
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == rows.to_pylist()
    for keys in (["x"], ["y"]):
        erased = parquet_bloom.erase(table, "p", keys, table=True, dry_run=True)
        (row,) = [row for row in erased.rows if row.path == lacking]
        assert (row.status, "partition column" in str(row.error)) == ("refused", True)


@pytest.mark.parametrize("verb", ["dry run", "erase"])
def test_a_required_column_that_a_file_lacks_is_not_null(catalog: Any, verb: str) -> None:
    from pyiceberg.schema import Schema as Declared
    from pyiceberg.types import LongType, NestedField, StringType

    declared = Declared(NestedField(1, "id", LongType()), NestedField(2, "user", StringType(), required=True))
    table = catalog.create_table("n.t", declared)
    for start in (0, 2):
        kinds = pa.schema([pa.field("id", pa.int64()), pa.field("user", pa.string(), nullable=False)])
        table.append(pa.table({"id": [start, start + 1], "user": ["a", f"b{start}"]}, kinds))
    lacking = Path(parquet_bloom.prune(table, "id = 0").kept_files[0].path)
    without = pq.read_table(lacking).drop_columns("user")
    put_back(without, lacking)
    erased = parquet_bloom.erase(table, "user", ["a"], table=True, dry_run=verb == "dry run")
    (row,) = [row for row in erased.rows if row.path == str(lacking)]
    assert (row.status, "the table requires it" in str(row.error)) == ("refused", True)


def test_a_file_that_is_no_longer_readable_fails_the_proof(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read after the commit may hold the keys."""
    table = created(catalog, ROWS)
    path = give(table, {"id": pa.array([7], pa.int64()), "user": ["z"]})
    prove = TableErasure._prove

    def spoiled(erasure: TableErasure) -> None:
        path.write_bytes(b"PAR1" + bytes(path.stat().st_size - 8) + b"PAR1")
        prove(erasure)

    monkeypatch.setattr(TableErasure, "_prove", spoiled)
    erased = parquet_bloom.erase(table, "user", ["a"], table=True)
    assert [row.status for row in erased.rows if row.path == str(path)] == ["refused"]


# ---- Delta -------------------------------------------------------------------------------


def delta(folder: Path, rows: pa.Table, mode: str = "name") -> Path:
    write_deltalake(str(folder), rows, configuration={"delta.columnMapping.mode": mode} if mode != "none" else None)
    return next(path for path in folder.rglob("*.parquet") if "_delta_log" not in str(path))


def test_lists_and_maps_of_a_mapped_table_have_their_values(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "l": [[1, 2], []], "m": pa.array([[("k", 1)], []], pa.map_("string", "int64"))})
    delta(tmp_path, rows)
    found = parquet_bloom.find(tmp_path, "id > 0").to_arrow()
    assert found.to_pylist() == rows.to_pylist()
    assert parquet_bloom.prune(tmp_path, "l.list.element = 1").might_match


@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_column_in_another_case_is_not_null(tmp_path: Path, mode: str) -> None:
    """Spark finds it, and delta-rs does not."""
    path = delta(tmp_path, pa.table({"id": [1, 2], "user": ["key", "h"]}), mode)
    data = pq.read_table(path)
    put_back(data.rename_columns([data.schema.names[0], data.schema.names[1].swapcase()]), path)
    with_errors = [
        parquet_bloom.find(tmp_path, "user = 'key'", case_sensitive=True),
        parquet_bloom.find(tmp_path, column="user", keys=["key"]),
        parquet_bloom.find(tmp_path, "user IS NULL", case_sensitive=True),
    ]
    for found in with_errors:
        assert found.to_arrow().num_rows == 0
        assert "some engines take for" in found.errors[0].error or "does not map to this one" in found.errors[0].error
    assert parquet_bloom.absent(tmp_path, "user", ["key"]).unknown.to_pylist() == ["key"]
    for dry_run in (True, False):
        (row,) = parquet_bloom.erase(tmp_path, "user", ["key"], table=True, dry_run=dry_run).rows
        assert row.status == "refused"


@pytest.mark.parametrize("ids", [(1, 2), (2, 1), (1, None), (None, None), (1, 3)])
def test_columns_that_are_mapped_by_id_have_to_have_their_ids(tmp_path: Path, ids: tuple[int | None, ...]) -> None:
    """A table of Iceberg's that was converted keeps its files, whose names are of their time, and whose ids decide."""
    path = delta(tmp_path, pa.table({"id": [1, 2], "user": [7, 9]}), "name")
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"delta.columnMapping.mode":"name"', '"delta.columnMapping.mode":"id"'))
    data = pq.read_table(path)
    fields = [
        pa.field(one.name, one.type, metadata={"PARQUET:field_id": str(at)} if at else {})
        for one, at in zip(data.schema, ids, strict=True)
    ]
    put_back(data.cast(pa.schema(fields)), path)
    is_known = ids == (1, 2)
    assert len(parquet_bloom.prune(tmp_path, "user = 8", exact=True).kept_files) == (not is_known)
    found = parquet_bloom.find(tmp_path, "user = 7", columns=["user"])
    assert (found.to_arrow().num_rows, bool(found.errors)) == (int(is_known), not is_known)
