"""The other engines: run a query in them, and see whether they used a filter."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

INSTALL_JAVA = (
    "Spark needs Java 17 or later: install a JDK (apt install openjdk-17-jre-headless, brew install openjdk@17)"
)


@functools.cache
def java_version() -> int:
    """Returns the major version of the Java that Spark would start, 0 where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java or not Path(java).exists():
        return 0
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else 0


# In CI nothing is skipped: there `spark()` fails and says what is missing.
needs_java = pytest.mark.skipif(
    "__import__('engines').java_version() < 17 and not os.environ.get('CI')", reason=INSTALL_JAVA
)


@functools.cache
def spark() -> Any:
    """Returns the one Spark session of this process."""
    if java_version() < 17:
        pytest.fail(INSTALL_JAVA)
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


_SLOW = """
import os, time
import parquet_bloom.filters.build as writer

hash_array = writer.hash_array

def slow(leaf, array):
    if os.path.exists(os.environ["BEGUN"]):
        with open(os.environ["BEGUN"], "a") as file:
            file.write("hashing")
        time.sleep(0.05)
    return hash_array(leaf, array)

writer.hash_array = slow
"""


def slowed(hook: Path, begun: Path) -> dict[str, str]:
    """Returns the environment in which `add` takes its time, and tells a pipe `begun`, as soon as there is one."""
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(_SLOW)
    return {"PYTHONPATH": str(hook), "BEGUN": str(begun)}


def slow_files(folder: Path) -> None:
    """Writes two files of 1,000 row groups each: when slowed, work for minutes."""
    folder.mkdir()
    for name in ("a", "b"):
        pq.write_table(pa.table({"id": range(2000)}), folder / f"{name}.parquet", row_group_size=2)


def interrupted(line: list[str], begun: Path, *, cwd: Path, **environment: str) -> tuple[int, str]:
    """Returns the exit code of a command that was interrupted amid its work, and what it said."""
    os.mkfifo(begun)
    command = [sys.executable, "-m", "parquet_bloom", *line]
    variables = {**os.environ, **environment}
    with (
        subprocess.Popen(command, cwd=cwd, env=variables, stderr=subprocess.PIPE, text=True) as process,
        begun.open() as opened,
    ):
        assert opened.read(7) == "hashing"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    return process.returncode, said


def duckdb_rows(sql: str) -> list[tuple]:
    import duckdb

    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


def datafusion(sql: str) -> list[tuple]:
    """Returns the rows of a query, in which a file is a quoted path: `FROM '/some/file.parquet'`."""
    from datafusion import SessionContext

    batches = SessionContext().enable_url_table().sql(sql).collect()
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def clickhouse(sql: str) -> list[list]:
    """Returns the rows of a query; a file is `file(...)` in it; wide integers may come as text."""
    import chdb

    said = str(chdb.query(sql, "JSONCompact"))
    return json.loads(said)["data"] if said else []


def duckdb_probe(path: str | Path, column: str, value: object) -> dict[int, bool]:
    """Returns, for each row group that has a filter, whether DuckDB finds that the filter excludes the value."""
    import duckdb

    sql = "SELECT row_group_id, bloom_filter_excludes FROM parquet_bloom_probe(?, ?, ?)"
    with duckdb.connect() as connection:
        return dict(connection.execute(sql, [str(path), column, value]).fetchall())


def duckdb_row_groups_scanned(sql: str) -> int:
    """Returns how many row groups DuckDB read to answer the query."""
    (row,) = duckdb_rows(f"EXPLAIN (ANALYZE, FORMAT json) {sql}")
    return sum(int(count) for count in re.findall(r'"row_groups_scanned":\s*"?(\d+)', row[-1]))


def clickhouse_pages_read(sql: str) -> int:
    """Returns how many Parquet pages ClickHouse read for the query, dictionaries not used to prune."""

    def pages() -> int:
        rows = clickhouse("SELECT value FROM system.events WHERE event = 'ParquetReadPages'")
        return int(rows[0][0]) if rows else 0

    before = pages()
    clickhouse(f"{sql} SETTINGS input_format_parquet_dictionary_filter_push_down = 0, use_parquet_metadata_cache = 0")
    return pages() - before


def understood(rows: Any, asked: list[str]) -> list[str]:
    """Returns the conditions that Spark understands; all are analysed at once, or halves where one is refused."""
    from pyspark.errors import AnalysisException

    if not asked:
        return []
    try:
        rows.selectExpr(*asked)
    except AnalysisException:
        middle = len(asked) // 2
        return [*understood(rows, asked[:middle]), *understood(rows, asked[middle:])] if middle else []
    return asked


def spark_rows_scanned(df: Any) -> tuple[list, int]:
    """Returns the rows of a DataFrame, and how many rows its file scans gave out: after pruning, before filtering."""
    rows = df.collect()
    return rows, sum(_scans(df._jdf.queryExecution().executedPlan()))


def _scans(plan: Any) -> Iterator[int]:
    name = plan.getClass().getSimpleName()
    if name in ("FileSourceScanExec", "BatchScanExec"):
        yield plan.metrics().apply("numOutputRows").value()
    elif name == "AdaptiveSparkPlanExec":
        yield from _scans(plan.executedPlan())
    elif name.endswith("QueryStageExec"):
        yield from _scans(plan.plan())
    children = plan.children()
    for i in range(children.size()):
        yield from _scans(children.apply(i))


class ParquetJavaFilter:
    """One filter as parquet-java read it; asked with plain-encoded bytes, so no value is converted on the way."""

    def __init__(self, java_filter: Any) -> None:
        self._filter = java_filter
        self._bytes = spark()._jvm.org.apache.parquet.io.api.Binary.fromConstantByteArray

    def hash(self, plain: bytes) -> int:
        return self._filter.hash(self._bytes(bytearray(plain))) & 2**64 - 1

    def check(self, plain: bytes) -> bool:
        return self._filter.findHash(self._filter.hash(self._bytes(bytearray(plain))))

    def bitset(self) -> bytes:
        out = spark()._jvm.java.io.ByteArrayOutputStream()
        self._filter.writeTo(out)
        return bytes(out.toByteArray())


def parquet_java_filter(path: str | Path, row_group: int, column_path: str) -> ParquetJavaFilter | None:
    """Returns the filter that parquet-java finds for a column chunk, None where it finds none."""
    jvm = spark()._jvm
    hadoop = jvm.org.apache.parquet.hadoop
    configuration = spark().sparkContext._jsc.hadoopConfiguration()
    file = hadoop.util.HadoopInputFile.fromPath(jvm.org.apache.hadoop.fs.Path(str(path)), configuration)
    reader = hadoop.ParquetFileReader.open(file)
    try:
        chunks = reader.getRowGroups()[row_group].getColumns()
        (chunk,) = [c for c in chunks if c.getPath().toDotString() == column_path]
        found = reader.readBloomFilter(chunk)
    finally:
        reader.close()
    return found and ParquetJavaFilter(found)
