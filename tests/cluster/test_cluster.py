"""A standalone Spark cluster over S3: each verb, and an executor that is killed amid its work.

The executors have Spark's Java, and otherwise only the packed environment of `.ci/cluster`.
"""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from stores import KEYS, connected

import parquet_bloom
from parquet_bloom import spark as bloom
from parquet_bloom.errors import StoreError, UnsupportedError

FOLDER = os.environ.get("PARQUET_BLOOM_CLUSTER")

pytestmark = [pytest.mark.spark, pytest.mark.skipif(not FOLDER, reason="PARQUET_BLOOM_CLUSTER names no folder of jars")]

HOME = Path(pyspark.__file__).parent
ROWS = 200_000
NAMES = [f"{number}.parquet" for number in range(6)]
KEY = 77_777 * len(NAMES) + 5  # in the last file only


def ids(number: int) -> np.ndarray[Any, Any]:
    """Returns the ids of a file: mixed, so that statistics exclude no row group."""
    return np.random.default_rng(number).permutation(ROWS) * len(NAMES) + number


def data(number: int) -> bytes:
    """Returns a file above the least size of a multipart upload's part."""
    payload = np.random.default_rng(number).bytes(32 * ROWS)
    columns = {"id": ids(number), "payload": [payload[i : i + 32] for i in range(0, len(payload), 32)]}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=ROWS // 4, use_dictionary=False, compression="none")
    return sink.getvalue()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and two workers with nothing of this process's environment."""
    work, url = tmp_path_factory.mktemp("cluster"), f"spark://127.0.0.1:{free_port()}"
    environment = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "HOME") if name in os.environ}
    environment |= {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "AWS_EC2_METADATA_DISABLED": "true"}
    port = url.rpartition(":")[2]
    lines = [["Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0"]]
    lines += [
        ["Worker", "--cores", "1", "--memory", "1g", "--work-dir", f"{work}/{n}", "--webui-port", "0", url]
        for n in "ab"
    ]
    with ExitStack() as stack, (work / "log").open("w") as log:
        for name, *arguments in lines:
            command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name.lower()}.{name}", *arguments]
            process = stack.enter_context(
                subprocess.Popen(command, env=environment, cwd=work, stdout=log, stderr=log, start_new_session=True)
            )
            stack.callback(process.terminate)
        yield url


@pytest.fixture(scope="module")
def session(master: str, endpoint: str) -> Iterator[Any]:
    """A session as the documentation has it; the jars lie where the executors find them."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = "./environment/bin/python"
    settings = {
        "spark.archives": f"{FOLDER}/environment.tar.gz#environment",
        "spark.driver.extraClassPath": f"{FOLDER}/jars/*",
        "spark.executor.extraClassPath": f"{FOLDER}/jars/*",
        "spark.hadoop.fs.s3a.access.key": KEYS["key"],
        "spark.hadoop.fs.s3a.secret.key": KEYS["secret"],
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "600m",
        "spark.log.level": "ERROR",
    }
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    yield spark
    spark.stop()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {name: data(number) for number, name in enumerate(NAMES)}


@pytest.fixture
def lake(endpoint: str, files: dict[str, bytes], request: pytest.FixtureRequest) -> Iterator[str]:
    """A folder of large files on S3."""
    store, bucket = connected(endpoint), re.sub(r"\W|_", "-", request.node.name).rstrip("-")
    store.call_s3("create_bucket", Bucket=bucket)
    for name, content in files.items():
        store.pipe_file(f"{bucket}/lake/{name}", content)
    return f"s3a://{bucket}/lake"


def statuses(frame: Any) -> set[str]:
    return {row.status for row in frame.collect()}


def test_every_verb(session: Any, lake: str, endpoint: str, files: dict[str, bytes]) -> None:
    given = {"storage_options": "spark"}

    def places_of_tasks(batches: Any) -> Any:
        import sys

        import pyarrow as pa

        import parquet_bloom._kernel

        for _ in batches:
            yield pa.RecordBatch.from_pylist([{"python": sys.prefix, "package": parquet_bloom._kernel.__file__}])

    places = session.range(4).repartition(4).mapInArrow(places_of_tasks, "python string, package string").collect()
    assert {row.python.rpartition("/")[2] for row in places} == {"environment"}
    assert all("/environment/" in row.package for row in places)

    assert statuses(bloom.add(session, lake, "id", **given)) == {"written"}
    assert bloom.inspect(session, lake, **given).selectExpr("inline(filters)").count() == 4 * len(NAMES)
    assert bloom.verify(session, lake, **given).where("error is not null").isEmpty()
    pruned = bloom.prune(session, lake, f"id = {KEY}", **given).selectExpr("inline(row_groups)")
    assert 1 <= pruned.where("answer = 'MIGHT_MATCH'").count() <= 3
    found = bloom.lookup(session, lake, "id", [KEY, -1], **given).where("path is not null").collect()
    assert f"{lake}/5.parquet" in {row.path for row in found}
    assert {row.key for row in found} == {KEY}
    for row_groups in (False, True):
        rows = bloom.read(session, lake, f"id = {KEY}", row_groups=row_groups, **given)
        assert [row.id for row in rows.collect()] == [KEY]
        assert row_groups or len(rows.inputFiles()) == 1  # Spark names no files of chosen row groups
        joined = bloom.semi_join(session, lake, "id", [KEY, -1], row_groups=row_groups, **given)
        assert [row.id for row in joined.collect()] == [KEY]
    assert statuses(bloom.drop(session, lake, restore=True, **given)) == {"written"}
    store = connected(endpoint)
    assert {name: store.cat_file(f"{lake.removeprefix('s3a://')}/{name}") for name in NAMES} == files
    state = bloom.index.create(session, lake, "id", **given)
    assert (state.built, state.errors) == (len(NAMES), ())
    assert bloom.index.refresh(session, lake, **given).built == 0
    assert len(bloom.read(session, lake, f"id = {KEY}", **given).inputFiles()) == 1


def test_s3_without_the_a(session: Any, lake: str) -> None:
    other = lake.replace("s3a:", "s3:")
    assert statuses(bloom.add(session, other, "id", storage_options="spark")) == {"written"}
    with pytest.raises(StoreError, match=r'Spark itself cannot read it \(No FileSystem for scheme "s3"'):
        bloom.read(session, other, f"id = {KEY}", storage_options="spark")
    session.conf.set("fs.s3.impl", "org.apache.hadoop.fs.s3a.S3AFileSystem")
    assert bloom.read(session, other, f"id = {KEY}", storage_options="spark").count() == 1


def test_paths_without_a_scheme(session: Any, lake: str) -> None:
    session.conf.set("fs.defaultFS", lake.removesuffix("lake"))
    try:
        assert session.read.parquet("/lake").count() == ROWS * len(NAMES)
        with pytest.raises(UnsupportedError, match=r"to Spark it lies on s3a://"):
            bloom.read(session, "/lake", f"id = {KEY}", storage_options="spark")
        assert bloom.read(session, lake, f"id = {KEY}", storage_options="spark").count() == 1
    finally:
        session.conf.unset("fs.defaultFS")


def test_settings_that_only_one_of_the_two_has(session: Any, lake: str, endpoint: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret"])
    ours = {"endpoint_url": endpoint}
    with pytest.raises(StoreError, match=r"NoCredentialsError: .* an executor found no credentials"):
        bloom.inspect(session, lake, storage_options=ours)
    given = {**ours, **KEYS}
    assert bloom.inspect(session, lake, storage_options=given).count() == len(NAMES)


# ---- an executor that is killed ----------------------------------------------------------


def executors() -> dict[int, list[int]]:
    """Returns the processes of our workers' executors: each one's Java, and all below it."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile

    def below(process: int) -> list[int]:
        return [process, *(found for child, parent in parents.items() if parent == process for found in below(child))]

    ours = set(below(os.getpid()))
    found = [process for process, name in names.items() if process in ours and b"CoarseGrainedExecutorBackend" in name]
    return {process: below(process) for process in found}


@pytest.mark.parametrize("moment", ["reading", "uploading"])
def test_an_executor_is_killed(
    session: Any, lake: str, endpoint: str, files: dict[str, bytes], moment: str, caplog: Any
) -> None:
    store, folder = connected(endpoint), lake.removeprefix("s3a://")
    bucket = folder.partition("/")[0]
    assert bloom.inspect(session, lake, storage_options="spark").count() == len(NAMES)  # both executors are up
    result: list[Any] = []
    call = threading.Thread(target=lambda: result.append(bloom.add(session, lake, "id", storage_options="spark")))
    call.start()

    def uploads() -> list[Any]:
        return list(store.call_s3("list_multipart_uploads", Bucket=bucket).get("Uploads", []))

    while moment == "uploading" and call.is_alive() and not uploads():
        time.sleep(0.002)
    if moment == "reading":
        time.sleep(0.3)
    doomed = executors()
    assert len(doomed) == 2
    assert call.is_alive()
    for process in next(iter(doomed.values())):  # as if the machine were gone: nothing of it can tidy up
        os.kill(process, signal.SIGKILL)
    call.join(300)
    (done,) = result
    assert statuses(done) <= {"written", "unchanged"}
    assert {row.path for row in done.collect()} == {f"{lake}/{name}" for name in NAMES}

    options = {**KEYS, "endpoint_url": endpoint}
    assert sorted(store.find(folder, refresh=True)) == [f"{folder}/{name}" for name in NAMES]
    assert parquet_bloom.verify(lake, storage_options=options).is_sound
    for name, before in files.items():  # the old bytes, and filters after them
        assert store.cat_file(f"{folder}/{name}").startswith(before[: before.rindex(b"PAR1") - 100_000])
    left = uploads()
    assert all(upload["UploadId"] in caplog.text for upload in left)
