"""With `--engine spark` a command prints what it prints without."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from deltalake import write_deltalake
from engines import interrupted, needs_java, slow_files, slowed, spark
from files import FIXTURES, snapshot, write

from parquet_bloom.cli.commands import main

PATIENCE = 300  # seconds after which something hangs


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with files of other engines in a folder `lake`."""
    for name in ("spark/snappy", "pyarrow/small", "duckdb/all_types", "clickhouse/early", "damaged/cut_in_footer"):
        path = tmp_path / "lake" / f"{name}.parquet"
        path.parent.mkdir(parents=True)
        shutil.copy(FIXTURES / f"{name}.parquet", path)
    for number in range(3):
        write(tmp_path / "lake" / "plain" / f"{number}.parquet", rows=100 * (number + 1))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "lake"


def run(*arguments: str) -> Result:
    ran = CliRunner().invoke(main, arguments)
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran


def by_both(*arguments: str) -> Result:
    """Runs a command with both engines, which must say the same; returns what they said."""
    spark()
    here, there = run(*arguments), run(*arguments, "--engine", "spark")
    assert there.stdout == here.stdout
    assert there.stderr == here.stderr
    assert there.exit_code == here.exit_code
    return here


REPORTS = [
    "inspect lake",
    "inspect lake --all",
    "inspect lake/plain lake/pyarrow -c id",
    "inspect lake --json",
    "verify lake",
    "verify lake/pyarrow -c id",
    "verify lake --json",
    "prune lake -w id=5",
    "prune lake -w id=5 --json",
    "prune lake -w id=5 --format csv",
    "prune lake -w id=5 --explain",
    "prune lake -w id=5 --files-only",
    "prune lake/plain -w id=-1",
    "add lake -c id --dry-run",
    "add lake -c id --dry-run --json",
    "add ./lake/plain/*.parquet lake/clickhouse -c id -n",
    "drop lake --dry-run",
    "drop lake/pyarrow -c id -n --json",
    "lookup lake -c id -k keys.txt",
    "lookup lake/plain -c id -k keys.txt --json",
    "lookup lake/plain -c id -k keys.txt --format csv",
    "lookup lake/plain -c id -k none.txt",
    "find lake/plain -w id=5",
    "find lake/plain -w id=5 --positions",
    "find lake/plain lake/pyarrow/small.parquet -w id<3 -s id -p --json",
    "find lake/plain -w id>=298 --format csv",
    "find lake/plain -c id -k keys.txt -p",
    "find lake/plain -c id -k keys.txt -s id --json",
    "find lake/plain -w id=5 --files-only",
    "find lake/plain -c id -k keys.txt --count",
    "find lake/plain -w id=-1",
    "find lake/plain -c id -k none.txt",
    "erase lake -c id -k keys.txt --dry-run",
    "erase lake/plain -c id -k keys.txt -n --json",
    "erase lake/plain -c id -k none.txt -n",
]


@pytest.mark.parametrize("line", REPORTS)
@needs_java
@pytest.mark.spark
def test_the_engines_print_the_same(lake, line):
    Path("keys.txt").write_text("5\n17\n250\n-1\n")
    Path("none.txt").write_text("-1\n")
    before = snapshot(lake)
    assert by_both(*line.split()).output
    assert snapshot(lake) == before


@needs_java
@pytest.mark.spark
def test_writing_does_and_says_the_same(lake):
    spark()
    shutil.copytree(lake, "twin")
    for line in ("add {} -c id", "add {} -c id", "drop {} -c id", "drop {} --restore", "add {} -c id -o {}-new"):
        here = run(*line.format("lake", "lake").split())
        there = run(*line.format("twin", "twin").split(), "--engine", "spark")
        assert there.output.replace("twin", "lake") == here.output
        assert there.exit_code == here.exit_code
        assert snapshot(Path("twin")) == snapshot(lake)
    assert snapshot(Path("twin-new")) == snapshot(Path("lake-new"))


@needs_java
@pytest.mark.spark
def test_rows_of_odd_files_are_printed_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table(
        {
            "id": range(4),
            "at": pa.array([1704067200_000_000, 0, None, -1], pa.timestamp("us", "UTC")),
            "user": [{"id": 1}, None, {"id": 3}, {"id": None}],
            "path": ["x", "y", "x", None],
            "raw": [b"\xff", b"", None, b"a"],
        }
    )
    for name in ("a b%20.parquet", "=1.parquet"):
        (tmp_path / "odd").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "odd" / name, row_group_size=3)
    assert by_both("find", "odd", "-w", "path = 'x'", "--json").exit_code == 0
    assert by_both("find", "odd", "-w", "id >= 2", "--files-only").output.count("\n") == 2
    for columns in (["-s", "user.id", "-s", "at"], ["-s", "id"]):
        assert by_both("find", "odd", "-w", "id >= 2", "-p", *columns).output.count("%20") == 2
    assert by_both("find", "odd", "-w", "id >= 2", "-p").exit_code == 2  # two columns would be called path
    Path("keys.txt").write_text("x\n")
    assert by_both("find", "odd", "-c", "path", "-k", "keys.txt", "--json").output.count('"x"') == 4
    assert by_both("find", "odd", "-w", "id = 1", "-q").exit_code == 0
    limited = run("find", "odd", "-w", "id >= 0", "-n", "3", "--count", "--engine", "spark")
    assert (limited.exit_code, limited.stdout) == (0, "3\n")


@needs_java
@pytest.mark.spark
def test_erasing_does_and_says_the_same(lake):
    spark()
    Path("keys.txt").write_text("5\n17\n250\n-1\n")
    run("add", "lake", "-c", "id")
    run("index", "create", "lake/plain", "-c", "id")
    shutil.copytree(lake, "copy")
    for _ in range(2):
        here = run("erase", "lake", "-c", "id", "-k", "keys.txt", "--yes")
        there = run("erase", "copy", "-c", "id", "-k", "keys.txt", "--yes", "--engine", "spark")
        assert there.output.replace("copy/", "lake/") == here.output
        assert there.exit_code == here.exit_code == 2  # one file is damaged
        files = {name: data for name, data in snapshot(lake).items() if ".bloom-index" not in name}
        assert {name: data for name, data in snapshot(Path("copy")).items() if ".bloom-index" not in name} == files
    assert run("lookup", "copy/plain", "-c", "id", "-k", "keys.txt").exit_code == 1


@needs_java
@pytest.mark.spark
def test_erasing_from_a_table_does_and_says_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spark()
    lakes.delta(tmp_path / "lake", files=3)
    shutil.copytree("lake", "copy")
    Path("keys.txt").write_text("5\n25\n999\n")
    for how in ("--dry-run", "--yes", "--yes"):
        line = ["-c", "id", "-k", "keys.txt", "--table", how]
        here = run("erase", "lake", *line)
        there = run("erase", "copy", *line, "--engine", "spark")
        assert there.output.replace("/copy", "/lake") == here.output
        assert there.exit_code == here.exit_code == 0
    assert lakes.delta_rows(Path("copy")) == lakes.delta_rows(Path("lake")) == sorted({*range(60)} - {5, 25})


@needs_java
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_find_refuses_a_table_whose_files_have_other_rows(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    if kind == "delta":
        write_deltalake("t", pa.table({"id": [1], "p": ["a"]}), partition_by=["p"])
    else:
        with lakes.catalog(tmp_path / "warehouse") as catalog:
            catalog.create_table("n.t", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
        shutil.copytree(next((tmp_path / "warehouse").rglob("metadata")).parent, "t")
    spark()
    ran = run("find", "t", "-w", "id = 1", "--engine", "spark")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"t is a {kind.title()} table, whose rows are not those of its Parquet files" in ran.stderr


@needs_java
@pytest.mark.spark
def test_candidates_are_written_to_one_file(lake):
    Path("keys.txt").write_text("5\n17\n-1\n")
    line = ["lookup", "lake", "-c", "id", "-k", "keys.txt", "-o"]
    here = run(*line, "here.parquet")
    there = run(*line, "there.parquet", "--engine", "spark")
    assert there.output.replace("there", "here") == here.output
    assert there.exit_code == here.exit_code == 0
    assert pq.read_table("there.parquet").schema == pq.read_table("here.parquet").schema
    assert _rows("there.parquet") == _rows("here.parquet")
    assert run(*line, "there.parquet", "--engine", "spark").exit_code == 2


def _rows(path: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in pq.read_table(path).to_pylist()), key=repr)


@needs_java
@pytest.mark.spark
@pytest.mark.parametrize(
    "line",
    [
        "add lake/plain -c nothing",
        "add none -c id",
        "inspect lake/plain -c nothing",
        "prune lake -w id==",
        "drop lake -c id --restore",
    ],
)
def test_errors_are_one_sentence_in_both(lake, line):
    spark()
    here, there = run(*line.split()), run(*line.split(), "--engine", "spark")
    assert (here.exit_code, there.exit_code) == (2, 2)
    assert there.stdout == here.stdout == ""
    # Where a whole path is said it is the executors'; which of several files is named is any.
    assert re.sub(f"{lake.parent}/|/.[.]parquet", "", there.stderr) == re.sub("/.[.]parquet", "", here.stderr)


@needs_java
@pytest.mark.spark
def test_the_time_zone_is_set_for_the_call_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    at = pa.array([1704067200_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": at}), "x.parquet")
    before = spark().conf.get("spark.sql.session.timeZone")
    line = ["prune", "x.parquet", "-w", "at = timestamp'2024-01-01 09:00:00'", "--timezone"]
    assert by_both(*line, "Asia/Tokyo").exit_code == 0
    assert by_both(*line, "UTC").exit_code == 1
    assert spark().conf.get("spark.sql.session.timeZone") == before


# ---- the program -------------------------------------------------------------------------


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "parquet_bloom", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("lacking", ["PATH", "JAVA_HOME"])
def test_without_java_there_is_one_sentence(lake, tmp_path, lacking):
    (tmp_path / "bin").mkdir()
    empty = {"PATH": str(tmp_path / "bin"), "JAVA_HOME": ""} if lacking == "PATH" else {"JAVA_HOME": str(tmp_path)}
    ran = program("add", "--engine", "spark", "lake", "-c", "id", **empty)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: Spark needs Java 17 or later, and none was found: install a JDK")
    assert ran.stderr.count("\n") == 1


def test_a_java_that_ends_at_once_is_not_said_to_be_missing(lake, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    ran = program("add", "--engine", "spark", "--master", "bogus", "lake", "-c", "id", JAVA_HOME=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[-1].startswith("error: Java ended before Spark was ready")


def test_without_pyspark_there_is_one_sentence(lake, tmp_path):
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text("import sys\nsys.modules['pyspark'] = None\n")
    ran = program("inspect", "--engine", "spark", "lake", PYTHONPATH=str(tmp_path / "hook"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: this needs PySpark: pip install 'parquet-bloom[spark]'\n"


@needs_java
@pytest.mark.spark
def test_an_interrupted_add_ends_its_tasks_and_leaves_nothing_behind(tmp_path):
    work, begun = tmp_path / "work", tmp_path / "begun"
    slow_files(work)
    before = snapshot(work)
    line = ["add", "--engine", "spark", "--master", "local[2]", ".", "-c", "id"]
    status, said = interrupted(line, begun, cwd=work, **slowed(tmp_path / "hook", begun))
    assert status == 130
    assert "interrupted: no file was left half written" in said
    assert "Traceback" not in said
    assert snapshot(work) == before


@needs_java
@pytest.mark.spark
def test_it_can_be_submitted(tmp_path):
    """`spark-submit` takes a script whose name ends in .py."""
    import parquet_bloom.__main__ as script

    write(tmp_path / "x.parquet")
    submit = Path(sys.executable).with_name("spark-submit")
    command = [str(submit), "--master", "local[1]", str(script.__file__), "inspect", "--engine", "spark", "--json", "."]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout)["path"] == "./x.parquet"
