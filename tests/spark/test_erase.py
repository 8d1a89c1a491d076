"""`spark.erase` leaves the files as `parquet_bloom.erase` does, also if a task is repeated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import parquet_bloom
import parquet_bloom.spark as bloom
from parquet_bloom.spark import erasing, retrofit
from parquet_bloom.verbs.erase_files import FileErased
from parquet_bloom.verbs.keys import read_keys
from tests.support import engines

pytestmark = pytest.mark.spark

KEYS = ["u7", "u14", "only"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    for number in range(3):
        ids = [f"u{n * 7 % 100 + 100 * number}" for n in range(200)]
        pq.write_table(pa.table({"id": ids, "n": range(200)}), folder / f"{number}.parquet", row_group_size=50)
    pq.write_table(pa.table({"id": ["only"], "n": [1]}), folder / "only.parquet")
    parquet_bloom.add(folder, "id")
    parquet_bloom.index.create(folder, "id")
    (folder / "broken.parquet").write_bytes(b"PAR1 no footer PAR1")
    return folder


def contents(folder: Path) -> dict[str, list[dict[str, object]]]:
    files = sorted(path for path in folder.glob("*.parquet") if path.name != "broken.parquet")
    return {path.name: pq.read_table(path).to_pylist() for path in files}


def test_files_are_left_as_the_local_verb_leaves_them(lake: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    shutil.copytree(lake, here)
    spark = engines.spark()
    planned = bloom.erase(spark, str(lake), "id", KEYS, dry_run=True).collect()
    assert {row.status for row in planned} == {"planned", "unchanged", "refused"}
    local = parquet_bloom.erase(here, "id", KEYS)
    rows = bloom.erase(spark, str(lake), "id", KEYS).collect()
    assert contents(lake) == contents(here)
    assert [(Path(row.path).name, row.status, row.rows_erased) for row in rows] == [
        (Path(row.path).name, row.status, row.rows_erased) for row in local.rows
    ]
    assert [(Path(row.path).name, bool(row.error)) for row in rows if row.status == "refused"] == [
        ("broken.parquet", True)
    ]
    assert not (lake / "only.parquet").exists()
    left = ds.dataset([str(lake / name) for name in contents(lake)]).to_table()["id"].to_pylist()
    assert not {*left} & {*KEYS}
    assert parquet_bloom.index.show(lake).rows[0].files == 3
    again = bloom.erase(spark, str(lake), "id", KEYS).collect()
    assert {row.status for row in again} == {"unchanged", "refused"}


def test_a_task_that_is_repeated_finds_its_work_done(lake: Path) -> None:
    options = {
        "column": "id", "keys": read_keys(KEYS, "id"), "timezone": None, "keep_empty": False, "dry_run": False,
        "any_name": False, "jobs": 1, "storage_options": None,
    }  # fmt: skip
    work = erasing._Erasure(erasing._erase, FileErased, options)
    for name, status in (("0.parquet", "written"), ("only.parquet", "removed")):
        path = lake / name
        item = retrofit.Item(0, str(path), path.stat().st_size, None, False)
        assert work.outcome(item)[0].status == status
        repeated, _ = work.outcome(item)
        assert repeated.status in ("unchanged", "removed")
        assert retrofit.EARLIER in repeated.notes
        assert retrofit.is_changed(repeated)
