"""Folders that structured streaming wrote: the same rows as Spark's, on Spark and off it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark_rows_scanned
from pyspark.errors import AnalysisException
from spark.test_reading import rows, same, settings

import parquet_bloom
from parquet_bloom import spark as bloom
from parquet_bloom.errors import UnsupportedError

pytestmark = [needs_java, pytest.mark.spark]

FILES = 5
COMPACT = "spark.sql.streaming.fileSink.log.compactInterval"


@pytest.fixture
def session() -> Iterator[Any]:
    with settings(spark__sql__parquet__filterPushdown="false") as found:
        yield found


@pytest.fixture(scope="module", params=[(), ("p", "q")], ids=["flat", "partitions"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    """A sink of five batches, its log compacted at every second; in each folder is a file that a failed batch left."""
    top = tmp_path_factory.mktemp("streams")
    (top / "in").mkdir()
    for number in range(FILES):
        ids = [f"k{number}-{row}" for row in range(4)]
        table = pa.table({"id": ids, "n": range(4), "p": ["a b", "x=%", "ü/", str(number)], "q": [1, 1, 2, 2]})
        pq.write_table(table, top / "in" / f"{number}.parquet")
    with settings(**{COMPACT.replace(".", "__"): "2"}) as session:
        source = session.readStream.schema("id string, n bigint, p string, q bigint").option("maxFilesPerTrigger", 1)
        sink = source.parquet(str(top / "in")).writeStream.format("parquet").partitionBy(*request.param)
        sink = sink.option("checkpointLocation", str(top / "checkpoint")).trigger(availableNow=True)
        sink.start(str(top / "sink")).awaitTermination()
    for folder in {file.parent for file in (top / "sink").rglob("*.parquet")}:
        table = pa.table({"id": ["dead", "k0-0"], "n": [7, 7], "p": ["a b", "a b"], "q": [1, 1]})
        pq.write_table(
            table.select([name for name in table.column_names if name not in request.param]), folder / "z.parquet"
        )
    return top / "sink", request.param


@pytest.fixture
def sink(written: tuple[Path, tuple[str, ...]], tmp_path: Path) -> Iterator[Path]:
    """The sink at its own place, which the log has; put back after the test."""
    shutil.copytree(written[0], tmp_path / "as it was")
    yield written[0]
    shutil.rmtree(written[0], ignore_errors=True)
    shutil.copytree(tmp_path / "as it was", written[0])


CONDITIONS = ["true", "id = 'dead'", "id = 'k0-0'", "id in ('k3-1', 'dead') or n = 3", "p = 'ü/'", "q = 1 and n = 0"]


def test_rows_are_those_of_the_log(sink: Path, session: Any) -> None:
    keys = ["dead", "k0-0", "k4-2", "nowhere"]
    names = ["id", "n", "p", "q"]
    whole = session.read.parquet(str(sink))
    assert whole.count() == 4 * FILES
    for where in CONDITIONS:
        same(session, sink, where)
        here = parquet_bloom.find(sink, where, columns=names).to_arrow().to_pylist()
        truth = [row.asDict() for row in whole.where(where).select(*names).collect()]
        assert sorted(map(_as_text, here)) == sorted(map(_as_text, truth)), where
    joined = whole.where(f"id in {tuple(keys)}")
    assert rows(bloom.semi_join(session, str(sink), "id", keys).select(*names)) == rows(joined.select(*names))
    found = parquet_bloom.find(sink, column="id", keys=keys, columns=["id"]).to_arrow()["id"].to_pylist()
    assert sorted(found) == ["k0-0", "k4-2"]
    assert list(parquet_bloom.absent(sink, "id", keys)) == ["dead", "nowhere"]
    assert bloom.lookup(session, str(sink), "id", ["dead"]).where("path is not null").count() == 0
    assert not any(path.endswith("/z.parquet") for path in parquet_bloom.prune(sink, "id > 'a'").paths)


def _as_text(row: dict[str, Any]) -> str:
    return str({name: str(value) for name, value in row.items()})


def test_a_setting_by_which_spark_ignores_the_log(sink: Path) -> None:
    with settings(spark__sql__streaming__fileStreamSink__ignoreMetadata="true") as session:
        same(session, sink, "id = 'k0-0'")
        assert bloom.read(session, str(sink), "id = 'dead'").count() >= 1


def test_what_is_named_in_another_way_is_plain(sink: Path, session: Any) -> None:
    dead = next(sink.rglob("z.parquet"))
    whole = {"basePath": str(sink)}
    for paths in (dead, [sink, dead], f"{dead.parent}/*.parquet", [*sink.glob("p=*")] or dead):
        assert same(session, paths, "id in ('dead', 'k0-0')", **whole).count() >= 2


def test_a_folder_that_was_moved_or_copied(sink: Path, session: Any, tmp_path: Path) -> None:
    """Spark goes on to read the files at the old place, or fails."""
    copy = tmp_path / "p=7" / "copy"
    shutil.copytree(sink, copy)
    if next(sink.glob("p=*"), None):
        for where in CONDITIONS:
            same(session, copy, where)
    else:
        with pytest.raises(AnalysisException):
            session.read.parquet(str(copy))
        with pytest.raises(AnalysisException):
            bloom.read(session, str(copy), "n = 1")
    for call in _off_spark(copy):
        with pytest.raises(UnsupportedError, match="moved or copied"):
            call()


def _off_spark(path: Path) -> list[Callable[[], object]]:
    return [lambda: parquet_bloom.find(path, "n = 1"), lambda: parquet_bloom.prune(path, "n = 1")]


def test_filters_are_added_and_dropped(sink: Path, session: Any) -> None:
    """The log has the old sizes: Spark reads all rows as before, and uses the filters."""
    before = rows(session.read.parquet(str(sink)))
    files = {file: file.read_bytes() for file in sink.rglob("*.parquet")}
    added = parquet_bloom.add(sink, "id")
    assert not added.errors
    assert rows(session.read.parquet(str(sink))) == before
    plain = {"parquet.filter.dictionary.enabled": "false", "parquet.filter.columnindex.enabled": "false"}
    with settings(spark__sql__parquet__filterPushdown="true"):
        frame = session.read.options(**plain).parquet(str(sink)).where("id = 'k0-00'")
        assert spark_rows_scanned(frame) == ([], 0)
    assert not parquet_bloom.drop(sink).errors
    assert rows(session.read.parquet(str(sink))) == before
    assert not parquet_bloom.drop(sink, restore=True).errors
    assert {file: file.read_bytes() for file in sink.rglob("*.parquet")} == files
    assert rows(session.read.parquet(str(sink))) == before


def test_rows_are_not_erased(sink: Path, session: Any) -> None:
    before = rows(session.read.parquet(str(sink)))
    done = bloom.erase(session, str(sink), "id", ["k0-0"]).select("status").distinct().collect()
    assert [row.status for row in done] == ["refused"]
    with pytest.raises(UnsupportedError, match="another folder with Spark"):
        parquet_bloom.erase(sink, "id", ["k0-0"])
    assert rows(session.read.parquet(str(sink))) == before
