"""`find` on tables: the rows are those that the table's own library reads, or the file is an error that says why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake
from files import fixture, footer_bytes, unpacked, with_footer
from hypothesis import given, settings
from hypothesis import strategies as st

import parquet_bloom
from parquet_bloom.errors import ColumnNotFoundError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path / "warehouse") as found:
        yield found


def rows_of(table: Any, where: str, **options: Any) -> list[dict[str, Any]]:
    """Returns the rows that are found, when every file can be read."""
    found = parquet_bloom.find(table, where, **options)
    rows = found.to_arrow().to_pylist()
    assert found.errors == ()
    return rows


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def delta_rows(root: Path) -> list[dict[str, Any]]:
    return pa.table(DeltaTable(str(root)).scan()).to_pylist()


# ---- Delta -------------------------------------------------------------------------------


@settings(max_examples=20)
@given(deleted=st.sets(st.integers(0, 19)), where=st.sampled_from(["id >= 0", "id < 7", "name = 'name 000003'"]))
def test_rows_in_a_deletion_vector_are_not_found(
    tmp_path_factory: pytest.TempPathFactory, deleted: set[int], where: str
) -> None:
    root = tmp_path_factory.mktemp("delta")
    lakes.delta(root, files=1)
    lakes.give_deletion_vector(root, sorted(deleted))
    alive = [row for row in delta_rows(root) if row["id"] not in deleted]
    assert in_order(rows_of(root, "id >= 0")) == in_order(delta_rows(root)) == in_order(alive)
    found = rows_of(root, where, columns=["id"], positions=True)
    assert all(row["row"] == row["id"] and row["id"] not in deleted for row in found)
    keys = parquet_bloom.find(root, column="id", keys=pa.array(range(20)), columns=["id"]).to_arrow()
    assert sorted(keys["id"].to_pylist()) == sorted(row["id"] for row in alive)


def test_rows_in_a_deletion_vector_are_counted_in_the_file(tmp_path: Path) -> None:
    of_five = WriterProperties(max_row_group_size=5)
    write_deltalake(str(tmp_path), pa.table({"id": range(20)}), writer_properties=of_five)
    lakes.give_deletion_vector(tmp_path, [3, 12])
    alive = [n for n in range(20) if n not in (3, 12)]
    assert [row["id"] for row in rows_of(tmp_path, "id >= 0")] == alive


@pytest.mark.parametrize("name", ["clone", "iceberg_v1", "iceberg_v2", "materialized", "statistics", "v2_parquet"])
def test_rows_of_delta_spark_are_those_of_deltalake(tmp_path: Path, name: str) -> None:
    folder = unpacked(f"delta_spark/{name}", tmp_path)
    root = folder.parent / "deleted" if name == "clone" else folder
    expected = delta_rows(root)
    first = next(iter(expected[0]))
    rows = rows_of(root, f"{first} IS NOT NULL OR {first} IS NULL")
    for row in (*rows, *expected):
        row.pop("ts", None)  # an INT96, of which deltalake loses the years that do not fit nanoseconds
    assert list(map(repr, in_order(rows))) == list(map(repr, in_order(expected)))  # NaN is not equal to itself
    if name == "clone":
        assert len(rows) == 99


def test_a_deletion_vector_that_does_not_fit_its_file_is_an_error(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t", files=1)
    lakes.give_deletion_vector(tmp_path / "t", [3, 25])
    with pytest.raises(UnsupportedError, match="vector"):
        parquet_bloom.find(tmp_path / "t", "id >= 0")


def test_files_outside_of_the_table_are_errors(tmp_path: Path) -> None:
    folder = unpacked("delta_spark/clone", tmp_path).parent
    log = json.loads(fixture("delta_spark/clone.json"))
    found = parquet_bloom.find(folder / "clone", "id >= 0", columns=["id"])
    rows = found.to_arrow().to_pylist()
    assert rows
    assert log
    assert all("outside of the table's directory" in error.error for error in found.errors)
    assert len(found.errors) == len(DeltaTable(str(folder / "clone")).file_uris()) - 1
    found = parquet_bloom.find(folder / "clone", "id >= 0", columns=["id"], allow_outside=True)
    found.to_arrow()
    assert all("missing" in error.error for error in found.errors)  # the clone names the folder of its origin


def test_partition_values_have_the_types_of_the_table(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": pa.array(range(4), pa.int64()),
            "k": pa.array([7, 10, None, 100], pa.int32()),
            "day": pa.array([date(2024, 1, 1), None, date(1969, 12, 31), date(2024, 1, 1)]),
            "cost": pa.array([Decimal("1.50"), Decimal("10.00"), None, Decimal("20.25")], pa.decimal128(9, 2)),
            "text": ["007", "1", None, "a b"],
        }
    )
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["k", "day", "cost", "text"])
    kinds = parquet_bloom.find(tmp_path / "t", "id < 0").to_arrow().schema
    assert [str(kinds.field(name).type) for name in ("k", "day", "cost", "text")] == [
        "int32", "date32[day]", "decimal128(9, 2)", "string",
    ]  # fmt: skip
    assert in_order(rows_of(tmp_path / "t", "id >= 0")) == in_order(rows.to_pylist())
    for where, ids in [
        ("k > 8", [1, 3]),
        ("text = '007'", [0]),
        ("text = '7'", []),
        ("cost = 1.5", [0]),
        ("cost > 15", [3]),
        ("day < DATE '2000-01-01'", [2]),
        ("k IS NULL AND text IS NULL", [2]),
    ]:
        assert sorted(row["id"] for row in rows_of(tmp_path / "t", where)) == ids, where
    keys = parquet_bloom.find(tmp_path / "t", column="k", keys=[10, 100, 1], columns=["id"]).to_arrow()
    assert sorted(keys["id"].to_pylist()) == [1, 3]


def test_instants_of_partitions_are_not_guessed(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    rows = pa.table({"id": [1, 2], "at": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"))})
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["at"])
    assert sorted(row["id"] for row in rows_of(tmp_path / "t", "id > 0", columns=["id"])) == [1, 2]
    for options in ({}, {"columns": ["at"]}):
        found = parquet_bloom.find(tmp_path / "t", "id > 0", **options)  # type: ignore[arg-type]
        assert found.to_arrow().num_rows == 0
        assert "time zone" in found.errors[0].error
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"2024-01-01 00:00:00.000000"', '"2024-01-01T00:00:00.000000Z"'))
    assert rows_of(tmp_path / "t", "id = 1")[0]["at"] == datetime(2024, 1, 1, tzinfo=UTC)
    assert len(rows_of(tmp_path / "t", "at = TIMESTAMP '2024-01-01T00:00:00Z'")) == 2
    assert rows_of(tmp_path / "t", "at > TIMESTAMP '2024-01-01T00:00:00Z'") == []


def test_mapped_names_are_those_of_the_table_at_every_depth(tmp_path: Path) -> None:
    root = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "s": [{"a": 1, "b.c": {"d": "x"}}, None], "l": [[{"e": 1}], []], "p": ["v", "w"]})
    write_deltalake(str(root), rows, partition_by=["p"], configuration={"delta.columnMapping.mode": "name"})
    assert in_order(rows_of(root, "id > 0")) == in_order(rows.to_pylist())
    assert rows_of(root, "s.`b.c`.d = 'x'", columns=["id", "s.a"]) == [{"id": 1, "s.a": 1}]
    assert {name for path in root.rglob("*.parquet") for name in pq.read_schema(path).names}.isdisjoint(
        rows.schema.names
    )


@pytest.mark.parametrize("dropped", ["a", "b"])
def test_fields_below_a_mapped_column_that_were_dropped_and_added(tmp_path: Path, dropped: str) -> None:
    root = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "s": [{"a": 1, "b": {"c": "x"}}, None]})
    write_deltalake(str(root), rows, configuration={"delta.columnMapping.mode": "name"})
    log = root / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    (metadata,) = (action["metaData"] for action in actions if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    (column,) = (field for field in schema["fields"] if field["name"] == "s")
    kept = [field for field in column["type"]["fields"] if field["name"] != dropped]
    mapped = {"delta.columnMapping.id": 99, "delta.columnMapping.physicalName": "col-new"}
    column["type"]["fields"] = [*kept, {"name": dropped, "type": "long", "nullable": True, "metadata": mapped}]
    metadata["schemaString"] = json.dumps(schema)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert [row["id"] for row in rows_of(root, "id > 0", columns=["id"])] == [1, 2]
    assert in_order(rows_of(root, "id > 0")) == in_order(delta_rows(root))
    if dropped == "a":  # the file's own `a` is not the table's
        assert rows_of(root, "id = 1") == [{"id": 1, "s": {"b": {"c": "x"}, "a": None}}]
        assert parquet_bloom.prune(root, "s.a IS NULL").might_match


def test_widened_columns_have_the_type_of_the_table(tmp_path: Path) -> None:
    root = unpacked("delta_spark/widening", tmp_path)
    found = parquet_bloom.find(root, "id > 2").to_arrow()
    assert str(found.schema.field("id").type) == "int64"
    assert sorted(found["id"].to_pylist()) == [3, 5_000_000_000]
    assert "int32" in {str(pq.read_schema(path).field("id").type) for path in root.glob("*.parquet")}


def with_file(root: Path, declared: pa.Table, stored: pa.Table, created_by: str | None = None) -> Path:
    """Returns a table whose only file has other columns than the table declares."""
    write_deltalake(str(root), declared)
    actions = lakes.actions(root, 0)
    (add,) = [action["add"] for action in actions if "add" in action]
    pq.write_table(stored, root / add["path"])
    if created_by is not None:
        data = (root / add["path"]).read_bytes()
        metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
        metadata.created_by = created_by
        (root / add["path"]).write_bytes(with_footer(data, encode(metadata)))
    add["size"] = (root / add["path"]).stat().st_size
    add["stats"] = None
    lakes.log(root, 0, *actions)
    return root


def test_a_file_of_another_type_than_its_table_is_an_error(tmp_path: Path) -> None:
    root = with_file(tmp_path, pa.table({"id": [5, 9]}), pa.table({"id": [5.0, 9.0]}))
    for where in ("id = 5", "id = 70"):  # the bounds in the file are of another type, too
        found = parquet_bloom.find(root, where)
        assert found.to_arrow().num_rows == 0
        assert "int64 in the table" in found.errors[0].error


def test_a_file_of_a_table_may_have_a_rule_for_its_texts(tmp_path: Path) -> None:
    field = {"name": "s", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"s": "icu.UNICODE_CI"}}}
    noted = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": [field]})}
    texts = pa.table({"s": ["A"]})
    root = with_file(tmp_path, texts, texts.replace_schema_metadata(noted))
    with pytest.raises(UnsupportedError, match="by its bytes"):
        parquet_bloom.find(root, "s = 'a'")
    assert parquet_bloom.absent(root, "s", ["a"]).unknown.to_pylist() == ["a"]


def test_days_of_a_table_may_have_been_shifted_in_one_file(tmp_path: Path) -> None:
    days = pa.table({"d": [date(1500, 1, 1)]})
    root = with_file(tmp_path / "now", days, days)
    assert parquet_bloom.find(root, "d = DATE '1500-01-01'").to_arrow().num_rows == 1
    root = with_file(tmp_path / "then", days, days, "parquet-mr version 1.10.1 (build x)")
    with pytest.raises(UnsupportedError, match="before 1582"):
        parquet_bloom.find(root, "d = DATE '1500-01-01'").to_arrow()


def test_earlier_versions_have_their_own_rows(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t", files=1)
    lakes.give_deletion_vector(tmp_path / "t", [4])
    assert [row["id"] for row in rows_of(tmp_path / "t", "id = 4", as_of=0)] == [4]
    assert rows_of(tmp_path / "t", "id = 4") == []


# ---- Iceberg -----------------------------------------------------------------------------


@settings(max_examples=20)
@given(deleted=st.lists(st.integers(0, 19), min_size=1), as_vector=st.booleans())
def test_deleted_positions_of_iceberg_are_not_found(
    tmp_path_factory: pytest.TempPathFactory, deleted: list[int], as_vector: bool
) -> None:
    with lakes.catalog(tmp_path_factory.mktemp("iceberg")) as found:
        table = lakes.iceberg(found, files=2)
        lakes.give_deletes(table, deleted, as_vector=as_vector)
        rows = rows_of(table, "id >= 0", positions=True)
        assert sorted(row["id"] for row in rows) == lakes.iceberg_rows(table)
        assert len(rows) == 40 - len(set(deleted))
        keys = parquet_bloom.find(table, column="id", keys=pa.array(range(40)), columns=["id"]).to_arrow()
        assert sorted(keys["id"].to_pylist()) == lakes.iceberg_rows(table)


def test_deletes_that_pyiceberg_does_not_read_are_errors(catalog: Any) -> None:
    table = lakes.iceberg(catalog, files=2)
    lakes.give_deletes(table, [3], content="EQUALITY_DELETES")
    found = parquet_bloom.find(table, "id >= 0")
    assert found.to_arrow().num_rows == 0
    assert len(found.errors) == 2
    assert "equality deletes" in found.errors[0].error
    table.append(lakes.iceberg(catalog, "other", files=1).scan().to_arrow())  # newer than the deletes
    found = parquet_bloom.find(table, "id >= 0", columns=["id"])
    assert sorted(found.to_arrow()["id"].to_pylist()) == list(range(20))
    assert len(found.errors) == 2


def test_equality_deletes_of_one_partition_leave_the_others(catalog: Any) -> None:
    rows = lakes.odd_rows()
    table = lakes.partitioned(catalog, rows)
    lakes.give_deletes(table, [0], content="EQUALITY_DELETES")
    found = parquet_bloom.find(table, "id >= 0")
    kept = found.to_arrow().to_pylist()
    assert len(found.errors) == 1
    assert len(kept) == rows.num_rows - 3
    assert len({row["p"] for row in kept}) == len(lakes.ODD) - 1


def test_rows_of_older_files_have_the_initial_default(catalog: Any) -> None:
    table = lakes.iceberg(catalog, files=1)
    path = lakes.metadata_of(table)
    metadata = json.loads(path.read_text())
    (schema,) = metadata["schemas"]
    added = [
        ("x", "long", 5),
        ("day", "date", "2020-01-01"),
        ("cost", "decimal(9, 2)", "1.50"),
        ("u", "uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ]
    schema["fields"] += [
        {"id": 10 + number, "name": name, "type": kind, "required": False, "initial-default": default}
        for number, (name, kind, default) in enumerate(added)
    ]
    metadata |= {"format-version": 3, "next-row-id": 0, "last-column-id": 20}
    newer = path.with_name("v3.metadata.json")
    newer.write_text(json.dumps(metadata))
    wanted = {"x": 5, "day": date(2020, 1, 1), "cost": Decimal("1.50")}
    assert rows_of(str(newer), "id = 3", columns=list(wanted)) == [wanted]
    assert len(rows_of(str(newer), "x = 5 AND cost > 1 AND day < DATE '2021-01-01'", columns=["id"])) == 20
    assert rows_of(str(newer), "x <> 5 OR x IS NULL", columns=["id"]) == []
    keys = parquet_bloom.find(str(newer), column="x", keys=[5, 6], columns=["id"])
    assert keys.to_arrow().num_rows == 20
    found = parquet_bloom.find(str(newer), "id = 3")
    assert found.to_arrow().num_rows == 0
    assert "is not understood" in found.errors[0].error


def test_files_without_ids_go_by_the_mapping_of_names(catalog: Any) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"], "s": [{"a": 1}, {"a": 2}]})
    table = catalog.create_table("n.t", rows.schema)
    path = Path(table.location().removeprefix("file://")) / "plain.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    table.add_files([f"file://{path}"])
    with table.update_schema() as update:
        update.rename_column("name", "title")
    assert rows_of(table, "id = 2") == [{"id": 2, "title": "b", "s": {"a": 2}}]


def test_deletes_of_rows_that_a_file_does_not_have_are_an_error(catalog: Any) -> None:
    table = lakes.iceberg(catalog, files=1)
    lakes.give_deletes(table, [3, 25])
    found = parquet_bloom.find(table, "id >= 0")
    assert found.to_arrow().num_rows == 0
    assert "row 25" in found.errors[0].error


def test_columns_of_iceberg_go_by_their_ids_at_every_depth(catalog: Any) -> None:
    from pyiceberg.types import DoubleType, LongType, StringType

    first = pa.table(
        {
            "n": pa.array([1, 2], pa.int32()),
            "f": pa.array([0.1, 0.5], pa.float32()),
            "s": [{"a": 1, "b": {"c": "x"}}, None],
            "gone": ["g", "h"],
        }
    )
    table = catalog.create_table("n.t", first.schema)
    table.append(first)
    with table.update_schema() as update:
        update.update_column("n", LongType())
        update.update_column("f", DoubleType())
        update.rename_column(("s", "a"), "z")
        update.rename_column(("s", "b"), "y")
        update.delete_column("gone")
    with table.update_schema() as update:
        update.add_column(("s", "a"), StringType())
        update.add_column("gone", LongType())
    kind = pa.struct([("z", pa.int64()), ("y", pa.struct([("c", pa.string())])), ("a", pa.string())])
    second = {"n": pa.array([2**40]), "f": [0.1], "s": pa.array([{"z": 5, "a": "new", "y": {"c": "w"}}], kind)}
    table.append(pa.table(second))
    expected = table.scan().to_arrow()
    assert in_order(rows_of(table, "n > 0")) == in_order(expected.to_pylist())
    found = parquet_bloom.find(table, "n < 0").to_arrow()
    assert found.schema.names == expected.schema.names
    assert [str(kind) for kind in found.schema.types[:2]] == ["int64", "double"]
    for where, numbers in [
        ("f > 0.1", [1, 2]),  # 0.1 as FLOAT is more than that
        ("f = 0.1", [2**40]),
        ("f = '0.1'", [2**40]),
        ("s.z = 1", [1]),
        ("s.a IS NULL", [1, 2]),
        ("s.a = 'new'", [2**40]),
        ("s.y.c = 'x'", [1]),
        ("gone IS NULL", [1, 2, 2**40]),
    ]:
        assert sorted(row["n"] for row in rows_of(table, where)) == numbers, where
    assert parquet_bloom.find(table, column="gone", keys=[1]).to_arrow().num_rows == 0
    with pytest.raises(ColumnNotFoundError):
        parquet_bloom.find(table, "nothing = 1")


def test_partitions_of_iceberg(catalog: Any) -> None:
    rows = lakes.odd_rows()
    table = lakes.partitioned(catalog, rows)
    assert in_order(rows_of(table, "id >= 0")) == in_order(rows.to_pylist())
    assert [row["p"] for row in rows_of(table, "p = 'a%b'")] == ["a%b"] * 3
    assert len(rows_of(table, "p IS NULL")) == 3


# ---- Hudi and Paimon ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["append", "evolved", "pk_dv"])
def test_rows_of_paimon_are_those_of_paimon(tmp_path: Path, name: str) -> None:
    root = unpacked(f"paimon/{name}", tmp_path)
    told = json.loads((tmp_path / "answers.json").read_text())
    newest = told[max(told, key=int)]
    rows = rows_of(root, "id IS NOT NULL")
    assert sorted(row["id"] for row in rows) == sorted(newest["first_column"])
    assert not [name for name in rows[0] if name.startswith("_")]


@pytest.mark.parametrize("name", ["append", "evolved", "pk", "pk_dv"])
def test_earlier_snapshots_of_paimon_have_their_own_rows(tmp_path: Path, name: str) -> None:
    root = unpacked(f"paimon/{name}", tmp_path)
    reasons = set()
    for snapshot, told in json.loads((tmp_path / "answers.json").read_text()).items():
        found = parquet_bloom.find(root, "id IS NOT NULL", columns=["id"], as_of=snapshot)
        ids = sorted(found.to_arrow()["id"].to_pylist())
        reasons |= {error.error for error in found.errors}
        assert ids == sorted(told["first_column"]) or (found.errors and set(ids) < set(told["first_column"]))
    assert bool(reasons) == (name == "pk")


@pytest.mark.parametrize(("name", "fewest"), [("append_vectors", 7), ("keyed_vectors", 8)])
def test_rows_in_deletion_vectors_of_paimon_are_not_found(tmp_path: Path, name: str, fewest: int) -> None:
    root = unpacked(f"paimon_spark/{name}", tmp_path)
    by_snapshot = json.loads((tmp_path / "rows.json").read_text())
    assert len(by_snapshot) >= fewest
    for snapshot, rows in by_snapshot.items():
        found = rows_of(root, "id IS NOT NULL", columns=["id", "name"], as_of=snapshot)
        assert sorted([row["id"], row["name"]] for row in found) == rows
    assert sorted([row["id"], row["name"]] for row in rows_of(root, "id IS NOT NULL", columns=["id", "name"])) == rows
    keys = [id_ for id_, _ in by_snapshot["2"]] + [1]
    gone = set(keys) - {id_ for id_, _ in rows}
    assert len(gone) > 20
    found = parquet_bloom.find(root, column="id", keys=keys).to_arrow()
    assert sorted(found["id"].to_pylist()) == sorted({*keys} - gone)
    assert {*parquet_bloom.absent(root, "id", sorted(gone)).to_arrow()["key"].to_pylist()} == gone


def test_files_that_paimon_merges_are_errors(tmp_path: Path) -> None:
    found = parquet_bloom.find(unpacked("paimon/pk", tmp_path), "id >= 0")
    assert found.to_arrow().num_rows == 0
    assert found.errors
    assert all("merge" in error.error for error in found.errors)


def test_columns_of_older_schemas_of_paimon(tmp_path: Path) -> None:
    root = unpacked("paimon/evolved", tmp_path)
    found = parquet_bloom.find(root, "title = 'title 3'").to_arrow()
    assert found.schema.names == ["id", "title", "name", "other"]
    assert str(found.schema.field("id").type) == "int64"
    assert [(row["id"], row["name"], row["other"]) for row in found.to_pylist()] == [(3, "name 3", None)]


@pytest.mark.parametrize("name", ["v6_cow", "v8_cow", "v6_compacted", "v8_compacted"])
def test_rows_of_base_files_of_hudi(tmp_path: Path, name: str) -> None:
    root = unpacked(f"hudi/{name}", tmp_path)
    told = json.loads(fixture(f"hudi/{name}.json"))[-1]
    rows = rows_of(root, "id IS NOT NULL")
    assert sorted(row["id"] for row in rows) == sorted(key for key, _, _ in told["rows"])


@pytest.mark.parametrize("name", ["hudi/v6_mor", "hudi/v8_mor", "hudi_evolved/v9_logs"])
def test_base_files_with_logs_are_errors(tmp_path: Path, name: str) -> None:
    root = unpacked(name, tmp_path)
    found = parquet_bloom.find(root, "id IS NOT NULL")
    found.to_arrow()
    assert found.errors
    assert all("log file" in error.error for error in found.errors)
    key = -7 if pa.types.is_integer(found.schema.field("id").type) else "no id"
    doubted = parquet_bloom.absent(root, "id", [key])
    assert (len(doubted), doubted.unknown.to_pylist()) == (0, [key])
    assert all("log file" in error.error for error in doubted.errors)  # which may have the key


@pytest.mark.parametrize("name", ["v6_swap", "v9_swap"])
def test_only_wanted_columns_of_other_names_make_a_file_of_hudi_an_error(tmp_path: Path, name: str) -> None:
    root = unpacked(f"hudi_evolved/{name}", tmp_path)
    ids = [row["id"] for row in json.loads(fixture(f"hudi_evolved/{name}.json"))["ids"]]
    assert sorted(row["id"] for row in rows_of(root, "id >= 0", columns=["id", "ts"])) == sorted(ids)
    found = parquet_bloom.find(root, "id >= 0", columns=["id", "b"])
    assert 0 < found.to_arrow().num_rows < len(ids)
    assert "another name" in found.errors[0].error
    doubted = parquet_bloom.absent(root, "b", [-7])
    assert (len(doubted), doubted.unknown.to_pylist()) == (0, [-7])
    with pytest.raises(UnsupportedError, match="another name"):
        parquet_bloom.find(root, "b > 0", strict=True).to_arrow()


@pytest.mark.parametrize(
    "name", ["hudi/v6_mor", "hudi_evolved/v6_logs", "hudi_evolved/v9_readd", "hudi_evolved/v9_nested"]
)
def test_no_row_of_hudi_is_other_than_hudi_reads_it(tmp_path: Path, name: str) -> None:
    root = unpacked(name, tmp_path)
    found = parquet_bloom.find(root, "id IS NOT NULL")
    rows = found.to_arrow().to_pylist()
    told = json.loads(fixture(f"{name}.json"))
    if isinstance(told, dict):  # all rows, without the columns that are NULL
        wanted = {each["id"]: each for each in told["ids"]}
        for row in rows:
            stored = {key: value for key, value in row.items() if key[0] != "_" and value is not None}
            assert without_nulls(stored) == without_nulls(wanted[row["id"]])
        assert len(rows) < len(wanted) or not found.errors
    else:
        wanted = {key: v for key, _, v in told[-1]["rows"]}
        assert all(wanted[row["id"]] == row["v"] for row in rows)
    assert found.errors


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return value


def test_the_columns_of_hudi_are_those_of_its_newest_write(tmp_path: Path) -> None:
    found = parquet_bloom.find(unpacked("hudi_evolved/v9_logs", tmp_path), "id = 1").to_arrow()
    assert {name: str(found.schema.field(name).type) for name in found.schema.names if name[0] != "_"} == {
        "id": "int64", "name": "string", "ts": "int64",
    }  # fmt: skip


def test_partition_columns_that_hudi_leaves_out_are_in_the_paths(tmp_path: Path) -> None:
    root = unpacked("hudi/v6_cow", tmp_path)
    path = root / ".hoodie" / "hoodie.properties"
    path.write_text(path.read_text().replace("drop.partition.columns=false", "drop.partition.columns=true"))
    found = parquet_bloom.find(root, "id IS NOT NULL", columns=["p"], positions=True).to_arrow().to_pylist()
    assert len(found) == 10
    assert {(row["p"], Path(row["path"]).parent.name) for row in found} == {("p0", "p0"), ("p1", "p1")}
    path.write_text(path.read_text().replace("SimpleKeyGenerator", "OtherKeyGenerator"))
    unknown = parquet_bloom.find(root, "id IS NOT NULL")
    assert unknown.to_arrow().num_rows == 0
    assert "column p: readers may take other values of p from the file's path" in unknown.errors[0].error
    assert len(rows_of(root, "id IS NOT NULL", columns=["id"])) == 10
