"""`spark.add` and `spark.drop` do to a lake what the local verbs do, whatever happens to their tasks."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark
from files import FIXTURES, SOUND, snapshot, write

import parquet_bloom
import parquet_bloom.spark as on_spark
from parquet_bloom.errors import ColumnNotFoundError, FilterExistsError, UnsupportedError
from parquet_bloom.filters.readers import VARIABLE
from parquet_bloom.results import from_row
from parquet_bloom.spark import retrofit
from parquet_bloom.storage.listing import find
from parquet_bloom.storage.local_files import temporary_path
from parquet_bloom.storage.rewrite import rewrite
from parquet_bloom.verbs.add import add
from parquet_bloom.verbs.drop import FileDropped, drop
from parquet_bloom.verbs.retrofit import FileAdded

pytestmark = [needs_java, pytest.mark.spark]

PATIENCE = 300  # seconds after which something hangs
GOOD = [name for name in SOUND if name.split("/")[0] in ("clickhouse", "datafusion", "duckdb", "polars", "spark")]
LACKING = {  # engines' files whose `id` has no filter
    "clickhouse": ["plain_types"],
    "datafusion": ["plain_types"],
    "duckdb": ["plain_types", "partly"],
    "polars": ["brotli", "gzip", "lz4", "snappy", "no_statistics"],
    "pyarrow": ["plain_types", "names"],
    "spark": ["plain_types", "nested"],
}


def records(frame: Any, root: Path | None = None) -> list[Any]:
    """Returns the rows as the library's records; paths are those below `root`."""
    record = FileAdded if "filters" in frame.columns else FileDropped
    found = [from_row(record, row.asDict(recursive=True)) for row in frame.collect()]
    return found if root is None else [below(row, root) for row in found]


def below(row: Any, root: Path) -> Any:
    """Returns a record without what depends on where the folder is."""
    return from_row(type(row), json.loads(json.dumps(row.to_dict()).replace(f"{root}/", "")))


def statuses(frame: Any) -> Counter[str]:
    return Counter(row.status for row in frame.collect())


def lake(folder: Path) -> Path:
    """Writes files of five engines into a tree."""
    for name in GOOD:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FIXTURES / name, folder / name)
    return folder


def spoil(folder: Path) -> list[str]:
    """Adds files that are refused, each for a reason of its own; returns their names."""
    bad = folder / "bad"
    bad.mkdir()
    shutil.copy(FIXTURES / "damaged" / "cut_in_footer.parquet", bad / "truncated.parquet")
    shutil.copy(FIXTURES / "damaged" / "text.parquet", bad / "text.parquet")
    shutil.copy(FIXTURES / "pyarrow" / "encrypted_footer.parquet", bad / "encrypted.parquet")
    shutil.copy(FIXTURES / "duckdb" / "uncompressed.parquet", bad / "lacking.parquet")
    write(bad / "linked.parquet")
    os.link(bad / "linked.parquet", bad / "_other_link")
    return [f"bad/{name}.parquet" for name in ("encrypted", "lacking", "linked", "text", "truncated")]


@contextmanager
def before_the_job(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> Iterator[None]:
    """Does something between the listing of the files and the first task."""
    call = retrofit.interruptibly

    def acting(session: Any, run: Callable[[], Any]) -> Any:
        act()
        return call(session, run)

    with monkeypatch.context() as patched:
        patched.setattr(retrofit, "interruptibly", acting)
        yield


# ---- a lake with bad files ---------------------------------------------------------------


def test_a_lake_is_retrofitted_as_one_local_call_would_and_bad_files_are_rows(tmp_path, monkeypatch):
    here, there = lake(tmp_path / "here"), lake(tmp_path / "there")
    bad = spoil(here)
    assert spoil(there) == bad
    write(there / "gone.parquet")
    before = snapshot(there)
    with before_the_job(monkeypatch, (there / "gone.parquet").unlink):
        rows = records(on_spark.add(spark(), there, "id"), there)

    local = [below(row, here) for row in add(here, "id").rows]
    (gone,) = [row for row in rows if row.path == "gone.parquet"]
    assert (gone.status, gone.error) == ("refused", "gone.parquet: no such file or directory")
    assert [row for row in rows if row is not gone] == local
    after = snapshot(there)
    assert after == snapshot(here)
    assert {row.path for row in local if row.path in bad} == set(bad)
    for row in local:
        assert after[row.path].startswith(before[row.path])
        assert (after[row.path] != before[row.path]) == (row.status == "written")
    done = [there / row.path for row in local if row.status != "refused"]
    assert len(done) >= 30
    assert not parquet_bloom.verify(done, "id").findings

    again = on_spark.add(spark(), there, "id")
    assert set(statuses(again)) == {"unchanged", "refused"}
    assert statuses(again)["unchanged"] == sum(row.status != "refused" for row in local)
    assert snapshot(there) == after


def test_two_hundred_files_five_of_them_bad_and_a_killed_worker(tmp_path):
    """A worker dies by SIGKILL amid its files, one of them half written; its task is repeated elsewhere."""
    there, here = tmp_path / "there", tmp_path / "here"
    for copy in range(15):
        plain_files(there / f"day={copy}")
    plain_files(here)
    bad = spoil(there)
    before = snapshot(there)
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(DIES_ONCE)
    environment = {
        **os.environ,
        "PYTHONPATH": str(hook),
        "DEAD": str(tmp_path / "dead"),
        "PYSPARK_PYTHON": sys.executable,
    }
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(there)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert (tmp_path / "dead").exists()
    first, second = ([from_row(FileAdded, row) for row in rows] for rows in json.loads(ran.stdout))
    done = [row for row in first if row.status != "refused"]
    assert (len(first), len(done)) == (200, 195)
    assert sorted(below(row, there).path for row in first if row.error) == bad
    for row in done:
        assert row.status in ("written", "unchanged")
        assert (row.status == "unchanged") == (retrofit.EARLIER in row.notes)
    assert any(row.status == "unchanged" for row in done)  # what the dead worker had done
    assert sum("which an interrupted run had left" in note for row in first for note in row.notes) == 1

    add(here, "id")
    retrofitted = {f"day={n}/{name}": data for n in range(15) for name, data in snapshot(here).items()}
    assert snapshot(there) == before | retrofitted
    assert Counter(row.status for row in second) == {"unchanged": 195, "refused": 5}
    assert not any(row.notes for row in second)
    assert not parquet_bloom.verify(here).findings


def plain_files(folder: Path) -> None:
    for engine, names in LACKING.items():
        for name in names:
            (folder / engine).mkdir(parents=True, exist_ok=True)
            shutil.copy(FIXTURES / engine / f"{name}.parquet", folder / engine)


DIES_ONCE = """
import os, signal
import parquet_bloom.storage.local_files as local_files

copy, copies = local_files.Rewrite.copy, 0

def dying(self):
    global copies
    copy(self)
    copies += 1
    if copies == 20:
        try:
            os.close(os.open(os.environ["DEAD"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

local_files.Rewrite.copy = dying
"""

KILLED = """
import json, sys
from pyspark.sql import SparkSession
import parquet_bloom.spark

settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.bindAddress": "127.0.0.1"}
session = SparkSession.builder.master("local[2,4]").config(map=settings).getOrCreate()
twice = [parquet_bloom.spark.add(session, sys.argv[1], "id").collect() for _ in range(2)]
print(json.dumps([[row.asDict(recursive=True) for row in rows] for rows in twice]))
session.stop()
"""


def test_two_calls_at_once_leave_what_one_would(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        for number in range(8):
            write(folder / f"{number}.parquet", rows=20_000 + number)
    found: list[Any] = []
    sessions = [spark(), spark().newSession()]
    threads = [
        threading.Thread(target=lambda s=session: found.append(records(on_spark.add(s, there, ["id", "name"]))))
        for session in sessions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    add(here, ["id", "name"])
    assert snapshot(there) == snapshot(here)
    for pair in zip(*found, strict=True):
        assert sorted(row.status for row in pair) == ["unchanged", "written"]


# ---- an attempt beside another -----------------------------------------------------------


def work(**options: Any) -> retrofit.Retrofit:
    return retrofit.Retrofit(add, FileAdded, {"columns": ["id"], "jobs": 1, "storage_options": None, **options})


def item(path: Path, target: Path | None = None, *, is_new: bool = True) -> retrofit.Item:
    return retrofit.Item(0, str(path), path.stat().st_size, target and str(target), is_new)


def test_an_attempt_waits_for_another_that_holds_the_file(tmp_path, sleeps):
    write(tmp_path / "x.parquet")
    at = item(tmp_path / "x.parquet")
    waited = []
    with rewrite(*_all_of(tmp_path / "x.parquet")) as other:
        other.copy()

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            other.__exit__(None, None, None)
            add(tmp_path, "id")

        sleeps(retrofit, sleep)
        row, _ = work().outcome(at)
    assert waited == [retrofit.WAITS[0]]
    assert (row.status, row.notes, row.error) == ("unchanged", (retrofit.EARLIER,), None)


def _all_of(path: Path) -> tuple[Any, int]:
    (source,) = find(path)
    return source, source.size


def test_an_attempt_that_never_gets_the_file_is_refused(tmp_path, monkeypatch):
    write(tmp_path / "x.parquet")
    monkeypatch.setattr(retrofit, "WAITS", (0.0, 0.0))
    with rewrite(*_all_of(tmp_path / "x.parquet")):
        row, missing = work().outcome(item(tmp_path / "x.parquet"))
    assert (row.status, missing) == ("refused", None)
    assert "is being written by another parquet-bloom" in row.error


def test_what_an_earlier_attempt_replaced_is_not_replaced_again(tmp_path):
    write(tmp_path / "x.parquet")
    at = item(tmp_path / "x.parquet")
    assert work(replace=True).outcome(at)[0].status == "written"
    after = snapshot(tmp_path)
    row, _ = work(replace=True).outcome(at)
    assert (row.status, row.notes) == ("unchanged", (retrofit.EARLIER,))
    assert snapshot(tmp_path) == after


def test_what_an_earlier_attempt_wrote_elsewhere_is_there(tmp_path):
    write(tmp_path / "x.parquet")
    at = item(tmp_path / "x.parquet", tmp_path / "new.parquet")
    assert work().outcome(at)[0].status == "written"
    after = snapshot(tmp_path)
    row, _ = work().outcome(at)
    assert (row.path, row.output, row.status) == (at.path, at.target, "unchanged")
    assert row.notes == (retrofit.EARLIER,)
    there_before, _ = work().outcome(dataclasses.replace(at, is_new=False))
    assert (there_before.status, there_before.output) == ("refused", at.target)
    assert "exists" in there_before.error
    assert snapshot(tmp_path) == after


def test_another_file_that_came_meanwhile_is_not_taken_for_ours(tmp_path):
    write(tmp_path / "x.parquet")
    write(tmp_path / "new.parquet")
    row, _ = work().outcome(item(tmp_path / "x.parquet", tmp_path / "new.parquet"))
    assert row.status == "refused"


def test_a_file_that_is_gone_is_no_glob(tmp_path):
    write(tmp_path / "x[1].parquet")
    at = item(tmp_path / "x[1].parquet")
    (tmp_path / "x[1].parquet").rename(tmp_path / "x1.parquet")
    before = snapshot(tmp_path)
    row, _ = work().outcome(at)
    assert (row.path, row.status) == (at.path, "refused")
    assert snapshot(tmp_path) == before


def test_any_error_becomes_a_row(tmp_path, monkeypatch):
    write(tmp_path / "x.parquet")

    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by zero")

    row, _ = dataclasses.replace(work(), verb=fail).outcome(item(tmp_path / "x.parquet"))
    assert (row.status, row.error) == ("refused", "by zero")


def test_what_killed_tasks_left_is_cleared_away(tmp_path):
    write(tmp_path / "x.parquet")
    leftover = temporary_path(tmp_path / "x.parquet")
    leftover.write_bytes(b"PAR1 half")
    before = snapshot(tmp_path)
    sources = find(tmp_path)
    retrofit._clear_away(sources, [None])
    assert set(before) - set(snapshot(tmp_path)) == {leftover.name}
    assert snapshot(tmp_path)["x.parquet"] == before["x.parquet"]


def test_what_a_dying_task_still_holds_is_cleared_away(tmp_path):
    write(tmp_path / "x.parquet")
    before = snapshot(tmp_path)
    with temporary_path(tmp_path / "x.parquet").open("wb") as held:
        held.write(b"PAR1 half")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        dies = threading.Timer(0.5, held.close)
        dies.start()
        retrofit._clear_away(find(tmp_path), [None])
        dies.join()
    assert snapshot(tmp_path) == before


# ---- what the call takes and gives -------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        write(tmp_path / "lake" / f"day={number}" / "x.parquet", rows=100 + number)
    return tmp_path / "lake"


def test_a_dry_run_writes_nothing_and_tells_what_the_local_one_does(folder):
    before = snapshot(folder)
    planned = records(on_spark.add(spark(), folder, "id", dry_run=True))
    assert planned == list(add(folder, "id", dry_run=True).rows)
    assert snapshot(folder) == before


def test_dropping_and_restoring(folder):
    before = snapshot(folder)
    on_spark.add(spark(), folder, ["id", "name"])
    dropped = records(on_spark.drop(spark(), folder, "id"))
    assert [(row.status, row.cleared) for row in dropped] == [("written", 4)] * 3
    assert {row.column for row in parquet_bloom.inspect(folder).rows} == {"name"}
    restored = records(on_spark.drop(spark(), folder, restore=True))
    assert all(row.status == "written" and row.bytes_freed for row in restored)
    assert snapshot(folder) == before
    assert statuses(on_spark.drop(spark(), folder, restore=True)) == {"unchanged": 3}


def test_the_frame_is_a_result_and_not_a_recipe(folder):
    added = on_spark.add(spark(), folder, "id")
    drop(folder, restore=True)
    before = snapshot(folder)
    assert statuses(added) == {"written": 3}
    assert added.where("status = 'written'").count() == 3
    assert added.selectExpr("explode(filters) as f").selectExpr("sum(f.num_bytes)").first()[0] > 0
    assert snapshot(folder) == before


@pytest.mark.parametrize("kind", ["glob", "list", "frame", "frame of one column", "path"])
def test_paths_in_every_form(folder, kind):
    names = [str(path) for path in sorted(folder.rglob("*.parquet"))]
    paths = {
        "glob": lambda: f"{folder}/*/x.parquet",
        "list": lambda: names,
        "frame": lambda: spark().createDataFrame([(n, i) for i, n in enumerate(names)], "path string, i int"),
        "frame of one column": lambda: spark().createDataFrame([(n,) for n in names], "name string"),
        "path": lambda: Path(folder),
    }[kind]()
    rows = records(on_spark.add(spark(), paths, "id", dry_run=True))
    assert [row.path for row in rows] == names


def test_no_files_are_no_rows():
    assert records(on_spark.add(spark(), [], "id")) == []


def test_new_files_keep_their_places_below_the_output(folder, tmp_path):
    before = snapshot(folder)
    rows = records(on_spark.add(spark(), folder, "id", output=tmp_path / "new"))
    assert rows == [
        dataclasses.replace(row, output=row.output.replace("/local/", "/new/"))
        for row in add(folder, "id", output=tmp_path / "local").rows
    ]
    assert snapshot(tmp_path / "new") == snapshot(tmp_path / "local")
    assert snapshot(folder) == before
    again = records(on_spark.add(spark(), folder, "id", output=tmp_path / "new"))
    assert [row.status for row in again] == ["refused"] * 3  # as the local verb has it


def test_one_file_has_a_file_for_its_output(folder, tmp_path):
    (row,) = records(on_spark.add(spark(), folder / "day=1" / "x.parquet", "id", output=tmp_path / "new.parquet"))
    assert (row.status, row.output) == ("written", str(tmp_path / "new.parquet"))
    assert parquet_bloom.inspect(tmp_path / "new.parquet").rows


def test_wrong_calls_fail_before_any_task(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(retrofit, "frame_of", None)
    with pytest.raises(ValueError, match="at least one column"):
        on_spark.add(spark(), folder, [])
    with pytest.raises(ValueError, match="fpp"):
        on_spark.add(spark(), folder, "id", fpp=1.5)
    with pytest.raises(FileNotFoundError, match="no such file or directory"):
        on_spark.add(spark(), folder / "none", "id")
    with pytest.raises(UnsupportedError, match="leave out columns="):
        on_spark.drop(spark(), folder, "id", restore=True)
    roots = [folder / f"day={number}" for number in range(3)]
    with pytest.raises(FilterExistsError, match="would become the same file"):
        on_spark.add(spark(), roots, "id", output=tmp_path / "new")


def test_a_column_that_no_file_has_is_an_error_and_one_that_some_lack_is_not(folder):
    before = snapshot(folder)
    with pytest.raises(ColumnNotFoundError, match="did you mean name"):
        on_spark.add(spark(), folder, "nam")
    assert snapshot(folder) == before
    shutil.copy(FIXTURES / "duckdb" / "uncompressed.parquet", folder / "y.parquet")
    assert statuses(on_spark.add(spark(), folder, "id")) == {"refused": 1, "written": 3}


def test_tables_are_refused(folder):
    (folder / "_delta_log").mkdir()
    before = snapshot(folder)
    rows = records(on_spark.add(spark(), folder, "id"))
    assert rows == list(add(folder, "id", dry_run=True).rows)
    assert all("Delta" in row.error for row in rows)
    assert snapshot(folder) == before


def test_the_job_has_a_description_and_progress_is_told(folder):
    told = []
    on_spark.add(spark(), folder, "id", progress=lambda done, total: told.append((done, total)))
    jobs = spark()._jsc.sc().statusStore().jobsList(None)
    described = {str(jobs.apply(i).description()) for i in range(jobs.size())}
    assert "Some(parquet_bloom: adding filters)" in described
    assert all(0 <= done <= total for done, total in told)
    assert spark().sparkContext.getLocalProperty("spark.job.description") is None


def test_spark_finds_the_new_filters_of_what_it_had_cached(folder):
    cached = spark().read.parquet(str(folder)).cache()
    assert cached.count() == 303
    on_spark.add(spark(), folder, "id")
    assert cached.where("id = 5").count() == 3
    cached.unpersist()


def test_names_that_are_not_utf8(tmp_path):
    write(tmp_path / "x.parquet")
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet")
    shutil.copy(tmp_path / "x.parquet", odd)
    assert statuses(on_spark.add(spark(), tmp_path, "id")) == {"written": 2}
    assert parquet_bloom.inspect(odd).rows


def test_the_driver_knows_the_readers(tmp_path, monkeypatch):
    folder = tmp_path / "lake"
    folder.mkdir()
    for number in range(3):
        pq.write_table(pa.table({"id": range(9), "blob": [b"1"] * 9}), folder / f"{number}.parquet")

    def left_out(**options: Any) -> set[bool]:
        rows = records(on_spark.add(spark(), folder, ["id", "blob"], dry_run=True, **options))
        assert rows == [*add(folder, ["id", "blob"], dry_run=True, **options).rows]
        return {bool(row.skipped_columns) for row in rows}

    assert left_out() == {False}
    monkeypatch.delenv(VARIABLE)  # here: the executors still have it
    assert left_out() == {True}
    assert left_out(accept_hazards=True) == {False}
    assert left_out(readers="duckdb>=2,spark") == {False}
    with pytest.raises(ValueError, match="does not know 'x'"):
        on_spark.add(spark(), folder, "blob", readers="x")
    state = on_spark.index.create(spark(), folder, "id", readers="duckdb>=2,spark")
    assert state.readers == "duckdb>=2,spark"
    assert left_out() == {False}
    assert left_out(readers="duckdb") == {True}
