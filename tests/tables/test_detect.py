"""A file inside a table is known by the directories around it, wherever links lead; there, in place is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from files import only_error, snapshot, statuses, write

from parquet_bloom import add, drop, lookup, prune
from parquet_bloom.tables.detect import table_around
from parquet_bloom.verbs.add_files import Added

LAYOUTS = {
    "Delta": ["_delta_log/00000000000000000000.json"],
    "Iceberg": ["metadata/v1.metadata.json", "metadata/snap-1.avro"],
    "Iceberg, packed": ["metadata/v1.gz.metadata.json"],
    "Iceberg, packed long ago": ["metadata/v1.metadata.json.gz"],
    "Iceberg, by its hint": ["metadata/version-hint.text"],
    "Hudi": [".hoodie/hoodie.properties"],
    "Paimon": ["snapshot/snapshot-1", "manifest/manifest-1"],
}
PLACES = ["x.parquet", "data/x.parquet", "data/year=2026/month=1/x.parquet"]


@pytest.fixture
def memory() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    yield fs
    if fs.exists("/tables"):
        fs.rm("/tables", recursive=True)


def make(root: Path, files: list[str]) -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_layout_is_known_at_every_depth(tmp_path: Path, memory: Any, kind: str, place: str) -> None:
    local, name_of = fsspec.filesystem("file"), kind.partition(",")[0]
    make(tmp_path / "t", LAYOUTS[kind])
    assert table_around(local, str(tmp_path / "t" / place)) == (name_of, str(tmp_path / "t"))
    for name in LAYOUTS[kind]:
        memory.pipe_file(f"/tables/t/{name}", b"{}")
    assert table_around(memory, f"/tables/t/{place}") == (name_of, "/tables/t")


NO_TABLES = [["metadata/readme.txt"], ["snapshot/snapshot-1"], ["manifest/m"], ["_SUCCESS"], ["hoodie/x"], []]


@pytest.mark.parametrize("files", NO_TABLES, ids=str)
def test_what_only_looks_alike_is_no_table(tmp_path: Path, memory: Any, files: list[str]) -> None:
    make(tmp_path / "t", files)
    assert table_around(fsspec.filesystem("file"), str(tmp_path / "t/x.parquet")) is None
    for name in files:
        memory.pipe_file(f"/tables/t/{name}", b"{}")
    assert table_around(memory, "/tables/t/x.parquet") is None


@pytest.mark.parametrize("kind", LAYOUTS)
def test_in_place_is_refused_with_the_table_named(tmp_path: Path, kind: str) -> None:
    make(tmp_path, LAYOUTS[kind])
    file = tmp_path / "data/x.parquet"
    write(file)
    before = snapshot(tmp_path)
    for result in (add(file, "id"), drop(file), drop(file, restore=True)):
        name = kind.partition(",")[0]
        assert only_error(result).startswith(f"{tmp_path} is {'an' if name == 'Iceberg' else 'a'} {name} table")
        takes_commits = isinstance(result, Added) and name in ("Delta", "Iceberg")
        assert ("commit new files to it with table=True" in only_error(result)) == takes_commits
    assert snapshot(tmp_path) == before


def test_force_does_it_and_notes_it(tmp_path: Path) -> None:
    make(tmp_path, LAYOUTS["Delta"])
    file = tmp_path / "x.parquet"
    write(file)
    for verb in (lambda: add(file, "id", force=True), lambda: drop(file, force=True)):
        (row,) = verb().rows
        assert row.status == "written"
        assert row.notes[0].startswith(f"forced: {tmp_path} is a Delta table")


def test_a_copy_elsewhere_is_free(tmp_path: Path) -> None:
    make(tmp_path / "t", LAYOUTS["Delta"])
    write(tmp_path / "t/x.parquet")
    before = snapshot(tmp_path / "t")
    assert statuses(add(tmp_path / "t/x.parquet", "id", output=tmp_path / "copy.parquet")) == ["written"]
    assert snapshot(tmp_path / "t") == before


@pytest.mark.parametrize("output", ["t/new.parquet", "t/part=1/new.parquet"])
def test_a_copy_into_a_table_is_refused(tmp_path: Path, output: str) -> None:
    make(tmp_path / "t", LAYOUTS["Iceberg"])
    write(tmp_path / "x.parquet")
    before = snapshot(tmp_path)
    assert "Iceberg table" in only_error(add(tmp_path / "x.parquet", "id", output=tmp_path / output))
    assert snapshot(tmp_path) == before


def test_links_into_a_table_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "t", LAYOUTS["Delta"])
    write(tmp_path / "t/x.parquet")
    (tmp_path / "link.parquet").symlink_to("t/x.parquet")
    (tmp_path / "folder").symlink_to("t")
    before = snapshot(tmp_path / "t")
    for path in ("link.parquet", "folder/x.parquet"):
        assert "Delta table" in only_error(add(tmp_path / path, "id"))
    write(tmp_path / "y.parquet")
    assert "Delta table" in only_error(add(tmp_path / "y.parquet", "id", output=tmp_path / "folder/y.parquet"))
    assert snapshot(tmp_path / "t") == before


def test_a_folder_that_cannot_be_listed_now_is_not_taken_for_no_table(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe_file("/tables/t/.hoodie/hoodie.properties", b"hoodie.table.name=t")
    memory.pipe_file("/tables/t/x.parquet", write(tmp_path / "x.parquet"))

    def busy(path: str, **options: Any) -> Any:
        raise OSError(16, "Please reduce your request rate")

    monkeypatch.setattr(memory, "ls", busy)
    assert "reduce your request rate" in only_error(add("memory://tables/t/x.parquet", "id"))
    for verb in (prune, lambda path, _: lookup(path, "id", [1])):
        with pytest.raises(OSError, match="reduce your request rate"):
            verb("memory://tables/t", "id = 1")


def test_a_table_in_memory_is_refused(memory: Any, tmp_path: Path) -> None:
    memory.pipe_file("/tables/t/_delta_log/0.json", b"{}")
    memory.pipe_file("/tables/t/x.parquet", write(tmp_path / "x.parquet"))
    assert "/tables/t is a Delta table" in only_error(add("memory://tables/t/x.parquet", "id"))
