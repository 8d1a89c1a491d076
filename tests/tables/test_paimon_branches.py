"""Branches of Paimon tables, parts of tables, and indexes that cannot be used: what is told of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from files import unpacked

import parquet_bloom
from parquet_bloom import inspect, lookup, paimon, probe, prune, verify
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.filters.stored import with_table_filters
from parquet_bloom.storage.listing import find, find_flat
from parquet_bloom.tables import FileIndex, snapshot_of

BY_BRANCH = {"": range(20), "$branch_audit": (*range(10), *range(20, 30)), "$branch_bare": ()}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return unpacked("paimon_1_4/branches", tmp_path)


def ids(root: str, **options: Any) -> list[int]:
    snapshot = snapshot_of(root, **options)
    assert snapshot is not None
    return sorted(found for file in snapshot.files for found in pq.read_table(file.path)["id"].to_pylist())


@pytest.mark.parametrize("branch", BY_BRANCH)
def test_a_branch_has_the_rows_that_were_written_to_it(branch: str, table: Path) -> None:
    assert ids(f"{table}{branch}") == ids(f"file://{table}{branch}/") == [*BY_BRANCH[branch]]
    for found in range(30):
        assert prune(f"{table}{branch}", f"id = {found}").might_match == (found in BY_BRANCH[branch])
    asked = lookup(f"{table}{branch}", "id", list(range(30))).to_arrow().to_pylist()
    assert {row["key"] for row in asked if row["path"]} == set(BY_BRANCH[branch])


def test_a_branch_is_a_name_like_a_tag(table: Path) -> None:
    assert ids(str(table), as_of="audit") == ids(f"{table}$branch_audit", as_of=2) == [*BY_BRANCH["$branch_audit"]]
    assert ids(str(table), as_of="bare") == []
    for root in (str(table), f"{table}$branch_audit"):
        assert ids(root, as_of="before") == ids(root, as_of=1) == [*range(10)]
    (table / "tag" / "tag-audit").write_bytes((table / "tag" / "tag-before").read_bytes())
    assert ids(str(table), as_of="audit") == [*range(10)]  # a tag goes first


def test_what_is_no_branch_is_told(table: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no branch other; it has audit, bare"):
        prune(f"{table}$branch_other", "id = 1")
    with pytest.raises(FileNotFoundError):
        prune(f"{table.parent}/nowhere$branch_audit", "id = 1")
    with pytest.raises(ValueError, match="other"):
        prune(table, "id = 1", as_of="other")
    for refused in (
        lambda root: parquet_bloom.index.create(root, ["id"]),
        lambda root: paimon.attach_index(root, ["id"]),
    ):
        with pytest.raises((UnsupportedError, FileNotFoundError)):
            refused(f"{table}$branch_audit")
    assert not Path(f"{table}$branch_audit").exists()


@pytest.mark.parametrize("branch", ["", "$branch_bare"])
def test_a_table_that_takes_partitions_from_another_branch_is_refused(branch: str, table: Path) -> None:
    folder = table / "schema" if not branch else table / "branch" / "branch-bare" / "schema"
    schema = json.loads((folder / "schema-0").read_text("utf-8"))
    schema["options"]["scan.fallback-branch"] = "audit"
    (folder / "schema-0").write_text(json.dumps(schema), "utf-8")
    with pytest.raises(UnsupportedError, match=r"table\$branch_audit"):
        prune(f"{table}{branch}", "id = 25")


def test_parts_and_lists_of_tables_are_refused(table: Path) -> None:
    bucket = table / "bucket-0"
    file = min(bucket.glob("*.parquet"))
    for part in (bucket, [table, table], [bucket], f"{bucket}/*.parquet", f"{table}/*/*.parquet", table.parent):
        for ask in (lambda part: prune(part, "id = 1"), lambda part: lookup(part, "id", [1])):
            with pytest.raises(UnsupportedError, match="data files of a Paimon table"):
                ask(part)
    with pytest.raises(UnsupportedError, match="data files of a Paimon table"):
        find_flat([str(bucket)])
    assert len(prune(file, "id >= 0").all_files) == 1  # a file that is named is itself
    assert len(verify(bucket).files) == 3


DAMAGES = {
    "has version 2; only 1 is supported": lambda data: data[:8] + b"\0\0\0\2" + data[12:],
    "does not start like Paimon's file indexes": lambda data: b"x" + data[1:],
    "does not fit": lambda data: data[:20],
    "is gone": None,
}


@pytest.mark.parametrize("told", DAMAGES)
def test_an_index_that_cannot_be_used_says_so(told: str, table: Path) -> None:
    damage = DAMAGES[told]
    for index in (table / "bucket-0").glob("*.index"):
        if damage is None:
            index.unlink()
        else:
            index.write_bytes(damage(index.read_bytes()))
    live = {str(file.path) for file in snapshot_of(table).files}
    reasons = [row.reason for row in prune(table, "id = 5").rows if row.answer == "MIGHT_MATCH"]
    reasons += lookup(table, "id", [5]).to_arrow()["reason"].to_pylist()
    reasons += [row.reason for row in probe(table, "id", [5, 15]).rows if row.path in live]
    checked = [file for file in (*verify(table).files, *inspect(table).files) if file.path in live]
    reasons += [str(file.error) for file in checked]
    assert len(checked) == 4
    for reason in reasons:
        assert "Paimon's index of the file cannot be used" in reason
        assert told in reason
    assert verify(table).errors
    ranged = [row.reason for row in prune(table, "id IS NOT NULL").rows]
    assert not any("Paimon" in reason for reason in ranged)  # which no such index decides


def test_an_index_in_the_manifest_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    table = unpacked("paimon_1_4/branches", tmp_path)
    snapshot = snapshot_of(table)
    assert snapshot is not None
    live = {source: file for file in snapshot.files for source in find(file.path)}
    broken = {s: replace(f, file_index=FileIndex({"id": "BIGINT"}, data=b"no index")) for s, f in live.items()}
    for _, kept in with_table_filters(broken, broken, None):
        assert kept.filters == ()
        assert "cannot be used: in the table's manifest" in str(kept.problem)
