"""Delta's and Iceberg's own Spark reads tables from which rows were erased, now and by time travel, and goes on.

`PARQUET_BLOOM_TABLES` names the folder of jars that `.ci/tables` fills.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import parquet_bloom
from parquet_bloom import absent, erase, verify

pytestmark = pytest.mark.skipif(
    not os.environ.get("PARQUET_BLOOM_TABLES"), reason="PARQUET_BLOOM_TABLES names no folder of jars"
)

KEYS = [3, 30, 31, 59, 1000]
"""Of ids 0 to 59: some in each of three files, and one that is nowhere."""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("erased")


@pytest.fixture(scope="module")
def spark(work: Path) -> Iterator[Any]:
    from real_tables import sessions

    with sessions.running("Delta and Iceberg", work) as found:
        found.sql("CREATE NAMESPACE IF NOT EXISTS db.n")
        yield found


def ids(spark: Any, source: str) -> list[int]:
    return sorted(row.id for row in spark.sql(f"SELECT id FROM {source}").collect())


def rows(first: int, count: int) -> str:
    return f"SELECT id, concat('name ', id) AS name, concat('p', id % 3) AS p FROM range({first}, {first + count})"


LEFT = sorted(set(range(60)) - {*KEYS})


def test_delta(spark: Any, work: Path) -> None:
    root = work / "delta"
    table = f"delta.`{root}`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING, p STRING) USING delta PARTITIONED BY (p)")
    for first in (0, 30):
        spark.sql(f"INSERT INTO {table} {rows(first, 30)}")
    parquet_bloom.add(root, "id", table=True)
    before = parquet_bloom.prune(root, "id = 3")
    erased = erase(root, "id", pa.array(KEYS), table=True)
    assert erased.rows_erased == 4
    assert not erased.errors
    assert ids(spark, table) == LEFT
    history = spark.sql(f"DESCRIBE HISTORY {table}").collect()
    assert history[0].operation == "DELETE"
    assert ids(spark, f"{table} VERSION AS OF {history[1].version}") == list(range(60))
    assert spark.sql(f"SELECT count(*) FROM {table} WHERE name = 'name 30'").collect()[0][0] == 0
    assert absent(root, "id", pa.array(range(60))).keys.to_pylist() == sorted({*KEYS} - {1000})
    live = [str(path) for path in parquet_bloom.prune(root, "id >= 0").paths]
    assert before.might_match
    assert not verify(live).findings
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet({live})").fetchall() == [(len(LEFT),)]
    spark.sql(f"INSERT INTO {table} {rows(60, 5)}")
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"MERGE INTO {table} t USING (SELECT 0L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert ids(spark, table) == [*LEFT[1:], *range(60, 65)]


def test_iceberg(spark: Any, work: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    spark.sql("CREATE TABLE db.n.e (id BIGINT, name STRING, p STRING) USING iceberg PARTITIONED BY (p)")
    for first in (0, 30):
        spark.sql(f"INSERT INTO db.n.e {rows(first, 30)}")
    before = spark.sql("SELECT snapshot_id FROM db.n.e.snapshots ORDER BY committed_at DESC").collect()[0][0]
    catalog = SqlCatalog("db", uri=f"sqlite:///{work}/catalog.db", warehouse=f"file://{work}/db")
    try:
        erased = erase(catalog.load_table("n.e"), "id", pa.array(KEYS), table=True)
        assert (erased.rows_erased, erased.errors) == (4, ())
        spark.sql("REFRESH TABLE db.n.e")
        assert ids(spark, "db.n.e") == LEFT
        assert ids(spark, f"db.n.e VERSION AS OF {before}") == list(range(60))
        operation, summary = spark.sql(
            "SELECT operation, summary FROM db.n.e.snapshots ORDER BY committed_at DESC LIMIT 1"
        ).collect()[0]
        assert operation in ("overwrite", "delete")
        assert summary["total-records"] == str(len(LEFT))
        counted = spark.sql("SELECT count(*), min(id), max(id), count(DISTINCT name) FROM db.n.e").collect()[0]
        assert tuple(counted) == (len(LEFT), 0, 58, len(LEFT))
        spark.sql("DELETE FROM db.n.e WHERE id = 0")
        spark.sql(f"INSERT INTO db.n.e {rows(60, 5)}")
        spark.sql("CALL db.system.rewrite_data_files(table => 'n.e', options => map('rewrite-all', 'true'))")
        assert ids(spark, "db.n.e") == [*LEFT[1:], *range(60, 65)]
    finally:
        catalog.engine.dispose()
