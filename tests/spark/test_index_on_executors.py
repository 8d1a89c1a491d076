"""An index that executors build is the one that this machine would, and `spark.read` asks it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from engines import needs_java, spark

import parquet_bloom
from parquet_bloom import spark as bloom
from parquet_bloom.storage.drive import RequestLog

pytestmark = [needs_java, pytest.mark.spark]


def write(root: Path, numbers: range, row_groups: int = 2) -> None:
    for number in numbers:
        folder = root / f"p={number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.table({"id": [f"{number}-{row}" for row in range(20)], "n": [number] * 20})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=20 // row_groups)


def test_an_index_built_by_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.storage.listing.MTIME_STABLE_SECONDS", 2.1)
    session, root = spark(), str(tmp_path / "t")
    write(tmp_path / "t", range(8))
    state = bloom.index.create(session, root, ["id", "n"], fpp=0.001)
    assert (state.built, [row.files for row in state.rows], state.segments > 1) == (16, [8, 8], True)
    write(tmp_path / "t", range(8, 12))
    assert bloom.index.refresh(session, root).built == 8
    assert parquet_bloom.index.refresh(root).built == 0
    for number in range(12):
        assert parquet_bloom.prune(root, f"id = '{number}-7'").totals.files_kept == 1
    assert reads(root) == []
    frame = bloom.read(session, root, "id = '11-3' AND p = 2")
    assert ([row.n for row in frame.collect()], len(frame.inputFiles())) == ([11], 1)
    assert bloom.read(session, root, "id = 'nowhere'").count() == 0


def test_the_index_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.storage.listing.MTIME_STABLE_SECONDS", 2.1)
    session, root = spark(), str(tmp_path / "t")
    for number in range(6):
        rows = pa.table({"id": [f"{row}-{number}" for row in range(20)]})
        mode = {"configuration": {"delta.columnMapping.mode": "name"}} if number == 0 else {}
        write_deltalake(root, rows, mode="overwrite" if number == 1 else "append", **mode)
    state = bloom.index.create(session, root, "id", fpp=0.0001)
    assert (state.built, state.rows[0].files) == (5, 5)
    assert parquet_bloom.index.refresh(root).built == 0
    assert parquet_bloom.prune(root, "id = '3-4'").totals.files_kept == 1


def test_spark_reads_a_folder_and_the_one_above_alike_before_and_after(tmp_path: Path, mtime_stable: None) -> None:
    session, root = spark(), tmp_path / "above" / "t"
    write(root, range(4))
    paths = [f"{root}{end}" for end in ("", "/", "/*", "/*/*.parquet", "/p=*")]
    paths += [f"{root.parent}{end}" for end in ("", "/*", "/*/*/*.parquet")]

    def rows(path: str, recursive: str) -> list[tuple[object, ...]] | str:
        try:
            return sorted(map(tuple, session.read.option("recursiveFileLookup", recursive).parquet(path).collect()))
        except Exception as error:
            return type(error).__name__ + str(error).partition("SQLSTATE")[0]

    asked = [(path, recursive) for path in paths for recursive in ("true", "false")]
    before = {each: rows(*each) for each in asked}
    assert len(before[str(root.parent), "true"]) == 80
    parquet_bloom.index.create(root, "id")
    assert {each: rows(*each) for each in asked} == before


def test_an_index_at_another_place_is_built_and_used_by_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.storage.listing.MTIME_STABLE_SECONDS", 2.1)
    session, root, at = spark(), tmp_path / "t", tmp_path / "at"
    write(root, range(3))
    assert bloom.index.create(session, str(root), "id", fpp=0.001, at=at).built == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["at", "t"]
    frame = bloom.read(session, str(root), "id = '2-3'", index=at)
    assert ([row.n for row in frame.collect()], len(frame.inputFiles())) == ([2], 1)
    assert {row.status for row in bloom.erase(session, str(root), "id", ["2-3"], index=at).collect()} == {
        "written",
        "unchanged",
    }
    assert [row.files for row in parquet_bloom.index.show(root, at=at)] == [3]
    with pytest.raises(ValueError, match="index= needs the path of one directory"):
        bloom.erase(session, [str(root), str(at)], "id", ["2-3"], index=at)


def reads(root: str) -> list[str]:
    """Returns what must be read of data files for a key that is nowhere: with the index, nothing."""
    log = RequestLog()
    parquet_bloom.prune(root, "id = 'nowhere'", cache=parquet_bloom.Cache(0), log=log)
    return [name for name, _ in log.requests if ".bloom-index" not in name]
