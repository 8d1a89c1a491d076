"""`spark.lookup` and `spark.prune` say of tables what the local verbs say; `read` returns live rows, or refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from engines import needs_java, spark
from files import FIXTURES, unpacked
from lazily import duckdb
from pyspark.sql import functions as F

import parquet_bloom
from parquet_bloom import spark as bloom
from parquet_bloom.errors import ColumnNotFoundError, UnsupportedError
from parquet_bloom.results import from_row
from parquet_bloom.spark import tasks
from parquet_bloom.spark.tasks import to_arrow
from parquet_bloom.tables import snapshot_of
from parquet_bloom.tables.hudi import LOGS
from parquet_bloom.verbs.verdicts import FileVerdict

pytestmark = [needs_java, pytest.mark.spark]

KEY = "_hoodie_record_key"
HUDI = ["hudi/v8_cow", "hudi/v6_mor", "hudi/v8_mor"]
PAIMON = ["paimon/append", "paimon/evolved", "paimon/pk", "paimon_rust/embedded"]


def values_of(path: str, column: str) -> set[Any]:
    try:
        return set(pq.ParquetFile(path).read([column])[column].to_pylist()) - {None}
    except pa.ArrowInvalid:  # no Parquet
        return set()


def candidates(rows: Any) -> set[tuple[Any, ...]]:
    return {(row["key"], row["path"], row["row_group"], row["reason"]) for row in rows.to_pylist()}


def verdicts(frame: Any) -> dict[str, FileVerdict]:
    return {row.path: from_row(FileVerdict, row.asDict(recursive=True)) for row in frame.collect()}


@pytest.mark.parametrize("name", [*HUDI, *PAIMON])
def test_both_engines_say_the_same_and_leave_no_row_out(name: str, tmp_path: Path) -> None:
    table = unpacked(name, tmp_path)
    column = KEY if name in HUDI else "id"
    files = snapshot_of(table).files
    held = {file.path: values_of(file.path, column) for file in files}
    keys = sorted(set().union(*held.values()))
    strange = [f"{key}?" if isinstance(key, str) else key + 500_000 for key in keys[:20]]
    asked = pa.array(keys + strange)
    found = candidates(to_arrow(bloom.lookup(spark(), table, column, asked, num_tasks=1)))  # several files a task
    assert found == candidates(parquet_bloom.lookup(table, column, asked).to_arrow())
    places = {(key, path) for key, path, _, _ in found}
    assert {(key, path) for path, values in held.items() for key in values} <= places
    kept = {file.path: file.not_excluded for file in files if file.not_excluded}
    assert {(key, path, reason) for key, path, group, reason in found if group is None and path} == {
        (key, path, reason) for path, reason in kept.items() for key in keys + strange
    }
    if name in HUDI:  # what Hudi itself reads, of log files, too
        (*_, step) = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))
        groups = {(key, path.rpartition("/")[2].lstrip(".").partition("_")[0]) for key, path in places if path}
        assert {(row[0], row[1].partition("_")[0]) for row in step["rows"]} <= groups
        assert set(kept.values()) == (set() if name.endswith("cow") else {LOGS})
    where = f"{column} IN ({keys[len(keys) // 2]!r}, {strange[0]!r})"
    judged = verdicts(bloom.prune(spark(), table, where))
    local = parquet_bloom.prune(table, where, timezone="UTC", case_sensitive=False)
    assert_same(judged, local.all_files)
    assert {path: judged[path].not_pruned for path in kept} == kept
    with_key = {path for path, values in held.items() if keys[len(keys) // 2] in values}
    assert with_key <= {path for path, file in judged.items() if file.is_kept}
    reasons = [group.reason for file in judged.values() for group in file.row_groups]
    assert any("Hudi" in reason for reason in reasons) == (name in HUDI)
    assert any("Paimon" in reason for reason in reasons) == (name in ("paimon/append", "paimon_rust/embedded"))


def test_columns_of_hudi_that_were_something_else_prove_nothing(tmp_path: Path) -> None:
    table = unpacked("hudi_evolved/v9_swap", tmp_path)
    for where in ("a = -1", "A = 2005", "old_a IS NULL OR b = 5", "id = 5 AND a = 2005", "id = 5"):
        judged = verdicts(bloom.prune(spark(), table, where))
        assert_same(judged, parquet_bloom.prune(table, where, timezone="UTC", case_sensitive=False).all_files)
    for column in ("a", "b", "id"):
        asked = pa.array([5, 2005, 1005, -1])
        found = candidates(to_arrow(bloom.lookup(spark(), table, column, asked, num_tasks=1)))
        assert found == candidates(parquet_bloom.lookup(table, column, asked).to_arrow())


@pytest.mark.parametrize(
    ("name", "wheres"),
    [
        ("v9_bootstrap", ["n = 3", "n IS NULL", "_hoodie_record_key = 'k3'"]),
        ("v9_widened", ["f = 16777217", "t > '10'", "k = 'm3' AND w = 3"]),
        ("v9_paths", ["p = 'y'", "p IS NULL", "p = 'plain'"]),
    ],
)
def test_columns_that_files_of_hudi_do_not_hold_prove_nothing(name: str, wheres: list[str], tmp_path: Path) -> None:
    table = unpacked(f"hudi_columns/{name}", tmp_path)
    for where in wheres:
        local = parquet_bloom.prune(table, where, timezone="UTC", case_sensitive=False).all_files
        assert_same(verdicts(bloom.prune(spark(), table, where)), local)
        judged = verdicts(bloom.prune(spark(), table, F.expr(where)))
        assert {file.path for file in local if file.is_kept} <= {file.path for file in judged.values() if file.is_kept}
    column = wheres[0].split()[0]
    asked = pa.array(["3", "y", "x"]) if column in "pt" else pa.array([3, -1])
    found = candidates(to_arrow(bloom.lookup(spark(), table, column, asked, num_tasks=1)))
    assert found == candidates(parquet_bloom.lookup(table, column, asked).to_arrow())


def assert_same(judged: dict[str, FileVerdict], local: Sequence[FileVerdict]) -> None:
    """Asserts that Spark's verdicts are those here, but on files left out by what a table records, which it asks."""
    assert judged.keys() == {file.path for file in local}
    assert all(judged[file.path] == file or (file.excluded and not judged[file.path].not_pruned) for file in local)


@pytest.mark.parametrize("name", ["hudi/v8_compacted", "paimon/append"])
def test_rows_are_not_read_as_parquet(name: str, tmp_path: Path) -> None:
    table = unpacked(name, tmp_path)
    column, kind = (KEY, "Hudi") if name.startswith("hudi/") else ("id", "Paimon")
    for path in (table, [f"{table}/"], f"file:{table}"):
        with pytest.raises(UnsupportedError, match=f"is a {kind} table, whose rows are not those of its Parquet files"):
            bloom.read(spark(), path, f"{column} IS NOT NULL")
    with pytest.raises(UnsupportedError, match=f"is a {kind} table"):
        bloom.semi_join(spark(), table, column, [1])
    path = next(file.path for file in snapshot_of(table).files if file.path.endswith(".parquet"))
    assert bloom.read(spark(), path, f"{column} IS NOT NULL").count() == pq.read_metadata(path).num_rows


def _as_text(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr({name: str(value) for name, value in row.items()}) for row in rows)


def assert_same_rows(table: Path, where: str, column: str, keys: list[Any]) -> None:
    """Asserts that the rows are those that deltalake returns: of live files alone."""
    whole = DeltaTable(str(table)).to_pyarrow_table()
    ours = to_arrow(bloom.read(spark(), table, "true"))
    assert ours.column_names == whole.column_names
    assert _as_text(ours.to_pylist()) == _as_text(whole.to_pylist())
    for frame in (bloom.read(spark(), table, where), bloom.find(spark(), table, where)):
        found = duckdb.sql(f"SELECT * FROM whole WHERE {where}").to_arrow_table().to_pylist()
        assert _as_text(to_arrow(frame).to_pylist()) == _as_text(found)
    joined = to_arrow(bloom.semi_join(spark(), table, column, keys))
    assert sorted(joined[column].to_pylist()) == sorted(k for k in whole[column].to_pylist() if k in keys)


def test_rows_of_delta_are_those_of_live_files(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for number in range(3):
        rows = {"id": range(20 * number, 20 * number + 20), "s": [f"{number}-{row % 3}" for row in range(20)]}
        kinds = {"d": [Decimal("1.50")] * 20, "t": [datetime(2024, 1, 1, tzinfo=UTC)] * 20, "x": [{"y": number}] * 20}
        write_deltalake(str(table), pa.table({**rows, **kinds}), mode="append")
    write_deltalake(str(table), pa.table({"id": [7], "new": [1.5]}), mode="append", schema_mode="merge")
    delta = DeltaTable(str(table))
    delta.delete("id >= 20 AND id < 40")
    delta.update({"s": "'other'"}, predicate="id = 41")
    assert len(list(table.glob("*.parquet"))) > len(delta.file_uris())
    assert_same_rows(table, "id IN (7, 25, 41)", "id", [7, 25, 41])
    assert_same_rows(table, "s = '2-0'", "s", ["2-0", "1-1", "other"])
    assert len(bloom.read(spark(), table, "id = 3").inputFiles()) == 1


def _partitioned(table: Path) -> None:
    write_deltalake(str(table), pa.table({"id": [1, 2], "p": ["a", "b"]}), partition_by=["p"])


def _with_a_vector(table: Path) -> None:
    lakes.delta(table, files=1)
    lakes.give_deletion_vector(table, [3])


def _with_a_field_of(metadata: dict[str, str], kind: Any) -> Callable[[Path], None]:
    def make(table: Path) -> None:
        lakes.delta(table, files=1)
        path = table / "_delta_log" / f"{0:020}.json"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "metaData" in line:
                schema = json.loads(line["metaData"]["schemaString"])
                schema["fields"].append({"name": "more", "type": kind, "nullable": True, "metadata": metadata})
                line["metaData"]["schemaString"] = json.dumps(schema)
        path.write_text("\n".join(map(json.dumps, lines)))

    return make


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "partitions": (_partitioned, "partition columns"),
    "deletion vector": (_with_a_vector, "rows are deleted"),
    "column mapping": (lambda table: unpacked("delta_spark/iceberg_v2", table.parent).rename(table), "other names"),
    "a type of no other system": (_with_a_field_of({}, "interval day to second"), "other types"),
    "CHAR": (_with_a_field_of({"__CHAR_VARCHAR_TYPE_STRING": "char(9)"}, "string"), "CHAR"),
    "collation": (_with_a_field_of({"__COLLATIONS": {"more": "icu.UNICODE_CI"}}, "string"), "collat"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_sparks_own_reader_would_read_otherwise_is_refused(tmp_path: Path, case: str) -> None:
    make, why = REFUSED[case]
    make(tmp_path / "t")
    calls: list[Callable[[], object]] = [
        lambda: bloom.read(spark(), tmp_path / "t", "id = 1"),
        lambda: bloom.find(spark(), tmp_path / "t", "id = 1"),
        lambda: bloom.semi_join(spark(), tmp_path / "t", "id", [1]),
    ]
    for call in calls:
        with pytest.raises(UnsupportedError, match=rf"{why}.*read it with spark.read.format\('delta'\)"):
            call()


def test_tables_are_given_alone_and_without_options(tmp_path: Path) -> None:
    lakes.delta(tmp_path / "t")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    for paths in ([tmp_path / "t", tmp_path / "a.parquet"], [tmp_path / "t", tmp_path / "t"]):
        with pytest.raises(UnsupportedError, match="other paths"):
            bloom.read(spark(), paths, "id = 1")
    with pytest.raises(UnsupportedError, match="options"):
        bloom.read(spark(), tmp_path / "t", "id = 1", options={"recursiveFileLookup": "true"})


@pytest.mark.parametrize("name", ["widening", "statistics", "v2_parquet"])
def test_tables_by_delta_spark_have_their_rows(tmp_path: Path, name: str) -> None:
    table = unpacked(f"delta_spark/{name}", tmp_path)
    ours = to_arrow(bloom.read(spark(), table, "true"))
    assert _as_text(ours.to_pylist()) == _as_text(parquet_bloom.find(table, "true").to_arrow().to_pylist())


def test_a_part_of_a_table_with_log_files_is_refused(tmp_path: Path) -> None:
    table = unpacked("hudi/v8_mor", tmp_path)
    where, says = f"{KEY} = 'key-1'", "has log files of a Hudi table"
    for verb in (bloom.read, bloom.prune):
        with pytest.raises(UnsupportedError, match=says):
            verb(spark(), table / "p0", where)
    with pytest.raises(UnsupportedError, match=says):
        bloom.lookup(spark(), [table, table / "p0"], KEY, ["key-1"])


def test_files_that_go_meanwhile_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = unpacked("paimon/append", tmp_path / "there")
    gone, *others = (file.path for file in snapshot_of(table).files)
    expected = parquet_bloom.prune(table, "id = 500000", timezone="UTC").all_files
    listed = tasks.shared_out

    def then_removed(*arguments: Any) -> Any:
        shares = listed(*arguments)
        shutil.move(gone, tmp_path / "elsewhere")
        return shares

    monkeypatch.setattr(tasks, "shared_out", then_removed)
    judged = verdicts(bloom.prune(spark(), table, "id = 500000"))
    assert judged.pop(gone).not_pruned == tasks.GONE
    assert_same(judged, [file for file in expected if file.path in others])
    shutil.move(tmp_path / "elsewhere", gone)
    found = bloom.lookup(spark(), table, "id", [500_000], num_tasks=1).collect()
    assert [(row.path, row.row_group) for row in found] == [(gone, None)]


def test_a_table_without_rows_and_conditions_of_other_forms(tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    table = unpacked("hudi/v8_mor", tmp_path)
    local = parquet_bloom.prune(table, f"{KEY} = 'key-1'").all_files
    assert verdicts(bloom.prune(spark(), table, F.col(KEY) == "key-1")) == {file.path: file for file in local}
    options = {"AWS_REGION": "nowhere"}  # what other libraries are told is not said to fsspec
    assert bloom.lookup(spark(), table, KEY, ["key-1"], storage_options=options).count()
    with pytest.raises(ColumnNotFoundError):
        bloom.prune(spark(), unpacked("hudi/v8_cow", tmp_path / "cow"), "nothing = 1")
    for path in [*table.glob("p*"), table / ".hoodie" / "timeline", tmp_path / "cow"]:
        shutil.rmtree(path)
    assert verdicts(bloom.prune(spark(), table, f"{KEY} = 'key-1'")) == {}
    assert [(row.key, row.path) for row in bloom.lookup(spark(), table, KEY, ["a"]).collect()] == [("a", None)]
