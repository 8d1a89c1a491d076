"""`spark.erase` leaves the files as `parquet_bloom.erase` does, also if a task is repeated."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import parquet_bloom
import parquet_bloom.spark as bloom
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.spark import erasing, retrofit
from parquet_bloom.verbs.erase import erase_from_table
from parquet_bloom.verbs.erase_files import ErasePlan, FileErased
from parquet_bloom.verbs.reading_keys import read_keys
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
        "any_name": False, "follow_links": False, "jobs": 1, "storage_options": None,
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


# ---- tables ------------------------------------------------------------------------------

GONE = [3, 25, 26, *range(60, 80), 999]


def delta(folder: Path) -> Any:
    lakes.delta(folder, files=4)
    return folder


def iceberg(folder: Path) -> Any:
    folder.mkdir()
    catalog = lakes.catalog(folder / "warehouse").__enter__()
    return lakes.iceberg(catalog, files=4)


def ids_of(made: Any) -> list[int]:
    scanned = made.refresh().scan().to_arrow() if hasattr(made, "refresh") else None
    return sorted(scanned["id"].to_pylist()) if scanned is not None else lakes.delta_rows(made)


def in_ledger(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a ledger but for what names a table, a file, a snapshot or a time."""
    differing = {"file", "time", "version_before", "version_after", "held_by", "expire_with"}
    rows = json.loads(path.read_text())["rows"]
    kept = [{name: value for name, value in row.items() if name not in differing} for row in rows]
    return [{**one, "held": len(row["held_by"])} for one, row in zip(kept, rows, strict=True)]


@pytest.mark.parametrize("make", [delta, iceberg])
def test_tables_are_left_as_the_local_verb_leaves_them(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    here, there = make(tmp_path / "here"), make(tmp_path / "there")
    spark = engines.spark()
    options: dict[str, Any] = {"table": True, "ledger_keys": "plain", "batch": 2}
    planned = bloom.erase(spark, there, "id", GONE, table=True, dry_run=True).collect()
    assert Counter(row.status for row in planned) == {"planned": 3, "unchanged": 1}
    assert ids_of(there) == list(range(80))
    local = parquet_bloom.erase(here, "id", GONE, **options, ledger=tmp_path / "here.json")
    rows = bloom.erase(spark, there, "id", GONE, **options, ledger=str(tmp_path / "there.json")).collect()
    assert ids_of(there) == ids_of(here) == sorted({*range(80)} - {*GONE})
    outcome = ("status", "rows_erased", "row_groups_copied", "row_groups_rewritten", "bytes_written", "error")
    assert Counter(tuple(row[name] for name in outcome) for row in rows) == Counter(
        tuple(getattr(row, name) for name in outcome) for row in local.rows
    )
    assert in_ledger(tmp_path / "there.json") == in_ledger(tmp_path / "here.json")
    assert sum(row["rows_erased"] for row in in_ledger(tmp_path / "there.json")) == local.rows_erased == 23
    for row in rows:
        assert (row.status == "written") == (row.output is not None)
    again = bloom.erase(spark, there, "id", GONE, table=True).collect()
    assert {row.status for row in again} == {"unchanged"}


def test_an_attempt_that_is_repeated_writes_a_file_of_its_own(tmp_path: Path) -> None:
    root = delta(tmp_path / "t")
    plans: list[ErasePlan] = []

    def write(given: Any, keys: Any, jobs: int | None) -> Any:
        rows = []
        for number, plan in enumerate(given):
            task = erasing._Write({plan.leaf: keys(plan.leaf)})
            bare = pickle.dumps(plan)
            first, second = (next(iter(task([str(number)], pickle.loads(bare)))) for _ in range(2))
            assert first["number"] == second["number"] == number
            (row, target), (same, other) = (pickle.loads(each["outcome"]) for each in (first, second))
            assert row == same
            assert Path(target).read_bytes() == Path(other).read_bytes()
            assert target != other
            plan.target = other
            plans.append(plan)
            rows.append(row)
        return rows

    done = erase_from_table(
        *(root, "id", read_keys([3, 25], "id")), timezone=None, dry_run=False, strict=False, table=True, catalog=None,
        batch=100, index=None, where=None, max_commits_per_minute=None,
        record=None, jobs=None, storage_options=None, progress=None, write=write,
    )  # fmt: skip
    assert (done.rows_erased, done.errors, len(plans)) == (2, (), 2)
    assert lakes.delta_rows(root) == sorted({*range(80)} - {3, 25})
    assert len(done.unreferenced) == 2  # those of the first attempts


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": True, "keep_empty": True}, "keep_empty= cannot be used with table="),
        ({"table": True, "batch": 0}, "batch= must be at least 1"),
        ({"catalog": "c"}, "it needs table=True"),
        ({"where": "p = 1"}, "where= needs table=True"),
        ({"table": True, "max_commits_per_minute": 0}, "max_commits_per_minute= must be above 0"),
        ({"ledger": "l.json", "ledger_secret": b"x" * 16}, "ledger= needs table=True on Spark"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    root = delta(tmp_path / "t")
    with pytest.raises(ValueError, match=re.escape(said)):
        bloom.erase(engines.spark(), root, "id", [3], **options)
    assert lakes.delta_rows(root) == list(range(80))


def test_only_chosen_partitions_are_searched(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2, 1], "p": ["a", "a", "b"]}), partition_by=["p"])
    with pytest.raises(UnsupportedError, match="id is not a partition column"):
        bloom.erase(engines.spark(), tmp_path / "t", "id", [1], table=True, where="id = 1")
    (row,) = bloom.erase(engines.spark(), tmp_path / "t", "id", [1], table=True, where="p = 'a'").collect()
    assert (row.rows_erased, lakes.delta_rows(tmp_path / "t")) == (1, [1, 2])
