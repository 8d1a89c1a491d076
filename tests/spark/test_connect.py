"""The verbs, and the commands with `--master sc://…`, on a server of Spark Connect."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import interrupted, needs_java, slow_files, slowed
from files import snapshot

pytestmark = [needs_java, pytest.mark.spark]

PATIENCE = 300  # seconds after which something hangs

SERVER = """
import sys
from pyspark.sql import SparkSession

settings = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.port": sys.argv[1],
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}
session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
print("ready", flush=True)
sys.stdin.read()
session.stop()
"""


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a pipe slows down the server."""
    return tmp_path_factory.mktemp("server") / "begun"


@pytest.fixture(scope="module")
def server(begun: Path) -> Iterator[str]:
    """The address of a server that ends with these tests."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SERVER, str(port)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, **slowed(begun.parent / "hook", begun)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield f"sc://127.0.0.1:{port}"
        process.communicate(timeout=PATIENCE)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Ten files with three ids each, which have filters: a0, b0, c0 in the first, and so on; and `plain`, without."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "plain").mkdir()
    for number in range(10):
        table = pa.table({"id": [f"{letter}{number}" for letter in "abc"], "n": range(number, number + 3)})
        options = {"bloom_filter_options": {"id": True, "n": True}, "use_dictionary": False}
        pq.write_table(table, tmp_path / "lake" / f"{number}.parquet", row_group_size=2, **options)
        pq.write_table(table, tmp_path / "plain" / f"{number}.parquet", row_group_size=2)
    return tmp_path / "lake"


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


VERBS = """
import sys
from pyspark.sql import SparkSession, functions
from parquet_bloom import spark as bloom

session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
frame = bloom.read(session, "lake", "id = 'b3'", row_groups=True)
assert [row.id for row in frame.collect()] == ["b3"] and len(frame.inputFiles()) == 1
frame = bloom.read(session, "lake", functions.col("id") == "b3")
assert frame.count() == 1 and len(frame.inputFiles()) == 10
for column in (functions.expr("id = 'b3'"), functions.expr("id = 'b3'") & (functions.col("n") > 0)):
    frame = bloom.read(session, "lake", column)
    assert frame.count() == 1 and len(frame.inputFiles()) == 1
assert bloom.read(session, "lake", "id = 'nowhere'").count() == 0
verdicts = bloom.prune(session, "lake", "id = 'b3'").selectExpr("inline(row_groups)")
assert verdicts.where("answer = 'MIGHT_MATCH'").count() == 1
assert bloom.inspect(session, "lake").selectExpr("explode(filters)").count() == 40
assert bloom.verify(session, "lake").selectExpr("inline(filters)").where("verdict <> 'ok'").count() == 0

keys = session.createDataFrame([("b3",), ("c9",), ("nowhere",)], "id string")
found = bloom.lookup(session, "lake", "id", keys)
assert {row.key for row in found.collect() if row.path} == {"b3", "c9"}
joined = bloom.semi_join(session, "lake", "id", ["b3", "c9", "nowhere"], row_groups=True)
assert sorted(row.id for row in joined.collect()) == ["b3", "c9"] and len(joined.inputFiles()) == 2

assert {row.status for row in bloom.add(session, "plain", "id").collect()} == {"written"}
assert {row.status for row in bloom.add(session, "plain", "id").collect()} == {"unchanged"}
assert bloom.verify(session, "plain").selectExpr("inline(filters)").where("verdict = 'ok'").count() == 20
assert {row.status for row in bloom.drop(session, "plain", restore=True).collect()} == {"written"}
print("all is well")
"""


def test_every_verb(server, lake):
    before = snapshot(lake.parent)
    done = run("-c", VERBS, server, cwd=lake.parent)
    assert done.stdout.splitlines()[-1:] == ["all is well"], done.stderr[-3000:]
    assert done.stderr.count("; with Spark Connect, pass the condition as text") == 2
    assert snapshot(lake.parent) == before


@pytest.mark.parametrize("by", ["master", "environment"])
def test_commands_say_what_they_say_here(server, lake, by):
    shutil.copytree(lake.parent / "plain", lake.parent / "here" / "plain")
    (lake.parent / "there").mkdir()
    (lake.parent / "plain").rename(lake.parent / "there" / "plain")
    for line in ("add plain -c id", "drop plain -c nothing"):
        here = run("-m", "parquet_bloom", *line.split(), cwd=lake.parent / "here")
        there = run(
            *("-m", "parquet_bloom", *line.split(), "--engine", "spark"),
            *(["--master", server] if by == "master" else []),
            cwd=lake.parent / "there",
            **({"SPARK_REMOTE": server} if by == "environment" else {}),
        )
        assert (there.stdout, there.returncode) == (here.stdout, here.returncode)
        assert there.stderr.replace(f"{lake.parent}/there/", "") == here.stderr  # the executors' names are whole paths
    assert snapshot(lake.parent / "there") == snapshot(lake.parent / "here")


def test_an_interrupted_add_ends_its_tasks_and_leaves_nothing_behind(server, begun, tmp_path):
    slow_files(tmp_path / "work")
    before = snapshot(tmp_path / "work")
    line = ["add", "--engine", "spark", "--master", server, ".", "-c", "id"]
    status, said = interrupted(line, begun, cwd=tmp_path / "work")
    assert (status, said) == (130, "interrupted: no file was left half written\n")
    assert snapshot(tmp_path / "work") == before
    begun.unlink()


def test_a_server_that_is_not_there_is_said_to_be(lake):
    line = ["-m", "parquet_bloom", "inspect", "--engine", "spark", "--master", "sc://127.0.0.1:9", "plain"]
    done = run(*line, cwd=lake.parent)
    assert done.returncode == 2
    assert "no Spark Connect server answers at sc://127.0.0.1:9" in done.stderr
