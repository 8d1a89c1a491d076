"""The upserts of the documentation end as those of pyiceberg and deltalake do, and write fewer files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pytest
from documents import PAGES, blocks, text

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")

NEW = pa.table({"id": pa.array([3, 45, 1000, 44, 1001], pa.int64()), "name": ["a", "b", "c", "d", "e"]})


def recipe(number: int) -> Callable[..., None]:
    names: dict[str, Any] = {}
    exec(blocks(text(PAGES / "upserts.md"), "python")[number][1], names)
    upsert: Callable[..., None] = names["upsert"]
    return upsert


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("part", [slice(0, 5), slice(2, 3), slice(0, 2)], ids=["both", "new", "known"])
def test_iceberg(tmp_path: Path, part: slice) -> None:
    given = NEW.take(list(range(5))[part])
    with lakes.catalog(tmp_path) as found:
        ours, plain = lakes.iceberg(found, "ours", files=6), lakes.iceberg(found, "plain", files=6)
        before = {task.file.file_path for task in ours.scan().plan_files()}
        recipe(0)(ours, given, "id")
        plain.upsert(given, join_cols=["id"])
        ours = ours.refresh()
        assert rows(ours.scan().to_arrow()) == rows(plain.refresh().scan().to_arrow())
        left = {task.file.file_path for task in ours.scan().plan_files()} & before
        assert len(before - left) == len({number // 20 for number in given["id"].to_pylist() if number < 120})


@pytest.mark.parametrize("part", [slice(0, 5), slice(2, 3), slice(0, 2)], ids=["both", "new", "known"])
def test_delta(tmp_path: Path, part: slice) -> None:
    from deltalake import DeltaTable, write_deltalake

    old = pa.table({"id": pa.array(range(60), pa.int64()), "name": [f"n{n}" for n in range(60)]})
    tables = []
    for name in ("ours", "plain"):
        days = pa.array([f"d{n // 10}" for n in range(60)])
        write_deltalake(str(tmp_path / name), old.append_column("day", days), partition_by=["day"])
        tables.append(DeltaTable(str(tmp_path / name)))
    ours, plain = tables
    given = NEW.take(list(range(5))[part])
    given = given.append_column("day", pa.array([f"d{min(n // 10, 9)}" for n in given["id"].to_pylist()]))
    before = set(ours.file_uris())
    recipe(1)(ours, given, "id", "day")
    merge = plain.merge(given, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows(read(ours)) == rows(read(plain))
    touched = {number // 10 for number in given["id"].to_pylist() if number < 60}
    assert len(before - set(ours.file_uris())) == len(touched)


def read(table: Any) -> pa.Table:
    return pa.table(table.to_pyarrow_table()) if hasattr(table, "to_pyarrow_table") else pa.table(table.to_arrow())
