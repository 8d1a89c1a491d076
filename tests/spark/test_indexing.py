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
    # Spark reads a table's folder as the plain files that are there, under their own names.
    options = {"recursiveFileLookup": "true"}
    (name,) = session.read.options(**options).parquet(root).columns
    frame = bloom.read(session, root, f"`{name}` = '3-4'", exact=False, options=options)
    assert [row[0] for row in frame.collect()] == ["3-4"]
    assert len(frame.inputFiles()) == 2  # with the dead one, which is not in the index


def reads(root: str) -> list[str]:
    """Returns what must be read of data files for a key that is nowhere: with the index, nothing."""
    log = RequestLog()
    parquet_bloom.prune(root, "id = 'nowhere'", cache=parquet_bloom.Cache(0), log=log)
    return [name for name, _ in log.requests if ".bloom-index" not in name]
