"""What the verbs make of the filters of Hudi and Paimon, on tables of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import snapshot, unpacked
from stores import KEYS, connected

from parquet_bloom import add, col, index, inspect, lookup, probe, prune, verify
from parquet_bloom.filters.hudi import build
from parquet_bloom.tables import snapshot_of

pytestmark = pytest.mark.usefixtures("mtime_stable")

KEY = "_hoodie_record_key"
HUDI = ["hudi/v6_cow", "hudi/v8_cow", "hudi/v6_mor", "hudi/v8_mor", "hudi/v6_simple"]
PAIMON = [
    *("paimon/append", "paimon/evolved", "paimon/avro", "paimon/pk", "paimon/pk_dv"),
    *("paimon_rust/append", "paimon_rust/embedded"),
]


def values_of(path: str, column: str) -> list[Any]:
    try:
        return [value for value in pq.read_table(path, columns=[column])[column].to_pylist() if value is not None]
    except pa.ArrowInvalid:  # no Parquet
        return []


def held_to_brute_force(table: Path, column: str) -> tuple[int, int]:
    """Returns how many files are live, and how often the filter of the other format pruned one."""
    files = snapshot_of(table).files
    held = {file.path: values_of(file.path, column) for file in files}
    keys = sorted({value for values in held.values() for value in values})
    strange = [f"{key}?" if isinstance(key, str) else key + 500_000 for key in keys[:20]]
    found = lookup(table, column, pa.array(keys + strange)).to_arrow().to_pylist()
    candidates = {(row["key"], row["path"]) for row in found}
    assert {(key, path) for path, values in held.items() for key in values} <= candidates
    ruled_out = 0
    for key in [*keys[::7], *strange]:
        pruned = prune(table, col(column) == key)
        assert {path for path, values in held.items() if key in values} <= {file.path for file in pruned.kept_files}
        assert {file.path for file in pruned.kept_files} <= {path for wanted, path in candidates if wanted == key}
        ruled_out += sum("Hudi" in group.reason or "Paimon" in group.reason for group in pruned.rows)
    return len(files), ruled_out


@pytest.mark.parametrize("name", HUDI)
def test_no_hudi_file_with_the_key_is_pruned(name: str, tmp_path: Path) -> None:
    files, ruled_out = held_to_brute_force(unpacked(name, tmp_path), KEY)
    assert files
    assert ruled_out


@pytest.mark.parametrize("name", PAIMON)
def test_no_paimon_file_with_the_key_is_pruned(name: str, tmp_path: Path) -> None:
    table = unpacked(name, tmp_path)
    files, ruled_out = held_to_brute_force(table, "id")
    assert files
    has_index = any(file.file_index and not file.not_excluded for file in snapshot_of(table).files)
    assert has_index or not ruled_out
    assert name != "paimon/append" or ruled_out


def mixed(folder: Path) -> tuple[Path, Path]:
    """Makes a tree that holds filters of all formats; returns its Hudi and its Paimon table."""
    hudi, paimon = unpacked("hudi/v8_cow", folder / "hudi"), unpacked("paimon/append", folder / "paimon")
    (folder / "plain").mkdir()
    pq.write_table(pa.table({"id": range(100)}), folder / "plain" / "a.parquet")
    add(folder / "plain", "id")
    index.create(hudi, KEY)
    return hudi, paimon


def test_one_table_lists_the_filters_of_all_formats(tmp_path: Path) -> None:
    _, paimon = mixed(tmp_path)
    found = inspect(tmp_path)
    assert {row.format for row in found.rows} == {"Parquet", "Hudi DYNAMIC_V0", "Paimon bloom-filter", "index"}
    assert all((row.row_group is None) == (row.format != "Parquet") for row in found.rows)
    assert all(row.num_bytes for row in found.rows)
    of_paimon = {row.path for row in found.rows if row.format.startswith("Paimon")}
    assert of_paimon == {file.path for file in snapshot_of(paimon).files if file.file_index}


@pytest.mark.servers
def test_a_store_is_searched_as_a_disk_is(tmp_path: Path, endpoint: str) -> None:
    hudi, paimon = mixed(tmp_path)
    index.drop(hudi)  # it knows files by when they were written
    options = {**KEYS, "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}
    store = connected(endpoint)
    store.call_s3("create_bucket", Bucket="mixed")
    store.put(str(tmp_path), "mixed/lake", recursive=True)
    root = "s3://mixed/lake"
    index.create(f"{root}/hudi", KEY, storage_options=options)
    index.create(hudi, KEY)

    def shapes(found: Any, *fields: str) -> list[tuple[Any, ...]]:
        prefixes = (root, str(tmp_path))
        names = [next(row.path.removeprefix(p) for p in prefixes if row.path.startswith(p)) for row in found.rows]
        shown = ("format", "column", "row_group", *fields)
        return sorted((n, *(getattr(row, f) for f in shown)) for n, row in zip(names, found.rows, strict=True))

    remote, local = inspect(root, storage_options=options), inspect(tmp_path)
    assert shapes(remote, "num_bytes", "problem") == shapes(local, "num_bytes", "problem")
    remote, local = verify(root, storage_options=options), verify(tmp_path)
    assert shapes(remote, "verdict", "num_values") == shapes(local, "verdict", "num_values")
    ids = list(range(10**6, 10**6 + 40))
    remote, local = probe(f"{root}/paimon", "id", ids, storage_options=options), probe(paimon, "id", ids)
    assert [row.answer for row in remote.rows] == [row.answer for row in local.rows]
    assert "Paimon" in str({row.reason for row in remote.rows})


@pytest.mark.parametrize(("name", "column"), [("hudi/v8_cow", KEY), ("paimon/append", "id")])
def test_an_index_is_made_beside_a_table_that_is_not_touched(name: str, column: str, tmp_path: Path) -> None:
    table = unpacked(name, tmp_path)
    before = snapshot(table)
    state = index.create(table, column)
    assert state.rows[0].files == len(snapshot_of(table).files)
    assert snapshot(table) == before
    held_to_brute_force(table, column)
    index.drop(table)
    assert snapshot(table) == before


def test_a_probe_is_answered_by_hudis_filter(tmp_path: Path) -> None:
    table = unpacked("hudi/v8_cow", tmp_path)
    for file in snapshot_of(table).files:
        here = values_of(file.path, KEY)
        rows = probe(file.path, KEY, [*here, "nowhere at all"]).rows
        assert [row.answer for row in rows] == ["MIGHT_MATCH"] * len(here) + ["CANNOT_MATCH"]
        assert "Hudi DYNAMIC_V0 filter" in rows[-1].reason


def test_verify_asks_hudis_filter_for_every_key(tmp_path: Path) -> None:
    table = unpacked("hudi/v6_cow", tmp_path)
    rows = verify(table).rows
    assert {(row.verdict, row.format, row.row_group) for row in rows} == {("ok", "Hudi DYNAMIC_V0", None)}
    assert sum(row.num_values for row in rows) == sum(pq.read_metadata(p).num_rows for p in table.rglob("*.parquet"))


def test_a_filter_of_other_rows_is_found_out(tmp_path: Path) -> None:
    table = unpacked("hudi/v6_cow", tmp_path / "table")
    one, other = (next((table / f"p{n}").glob("*.parquet")) for n in (0, 1))
    entries = {key: value for key, value in pq.read_metadata(one).metadata.items() if b"schema" not in key}
    wrong = tmp_path / "wrong.parquet"
    rows = pq.read_table(other).replace_schema_metadata(None)
    with pq.ParquetWriter(wrong, rows.schema) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({key.decode(): value.decode() for key, value in entries.items()})
    (verdict,) = verify(wrong).rows
    assert verdict.verdict == "false negative"
    assert verdict.num_missing > 0
    assert json.loads(json.dumps(verdict.to_dict()))["format"] == "Hudi DYNAMIC_V0"


def test_paimons_indexes_are_probed_and_verified(tmp_path: Path) -> None:
    table = unpacked("paimon/append", tmp_path)
    files = {file.path for file in snapshot_of(table).files if file.file_index}
    rows = [row for row in verify(table).rows if row.format == "Paimon bloom-filter"]
    assert {row.path for row in rows} == files
    assert {row.verdict for row in rows} == {"ok"}
    for path in files:
        here = values_of(path, "id")
        answers = [row.answer for row in probe(path, "id", here).rows]
        assert answers == ["MIGHT_MATCH"] * len(here)
    reasons = [row.reason for row in probe(table, "id", 12345).rows if row.path in files]
    assert reasons == ["the Paimon bloom-filter filter lacks the value"] * len(files)


def test_text_that_is_compared_by_a_collation_is_kept(tmp_path: Path) -> None:
    path, schema = tmp_path / "a.parquet", pa.schema([(KEY, pa.string())])
    for collations in ({}, {"org.apache.spark.sql.parquet.row.metadata": '{"__COLLATIONS": {}}'}):
        with pq.ParquetWriter(path, schema, store_schema=False, write_statistics=False) as writer:
            writer.write_table(pa.table({KEY: ["A"]}))
            writer.add_key_value_metadata({**build(["A"], num_entries=10, fpp=0.001), **collations})
        kept = bool(collations)
        assert prune(path, col(KEY) == "a").might_match == kept
        assert bool(lookup(path, KEY, ["a"]).to_arrow()["path"].drop_null()) == kept
        assert probe(path, KEY, "a").might_match == kept
