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
from parquet_bloom import UnsupportedError, absent, erase, verify

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not os.environ.get("PARQUET_BLOOM_TABLES"), reason="PARQUET_BLOOM_TABLES names no folder of jars"
    ),
]

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


def test_delta_with_deletion_vectors(spark: Any, work: Path) -> None:
    root = work / "vectors"
    table = f"delta.`{root}`"
    properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING, p STRING) USING delta PARTITIONED BY (p) {properties}")
    for first in (0, 30):
        spark.sql(f"INSERT INTO {table} {rows(first, 30)}")
    spark.sql(f"DELETE FROM {table} WHERE id IN (1, 3, 45)")
    before = ids(spark, table)
    erased = erase(root, "id", pa.array(KEYS), table=True)
    assert (erased.rows_erased, sum(row.rows_deleted_before for row in erased), erased.errors) == (4, 1, ())
    left = [row for row in before if row not in KEYS]
    assert ids(spark, table) == left
    history = spark.sql(f"DESCRIBE HISTORY {table}").collect()
    assert ids(spark, f"{table} VERSION AS OF {history[1].version}") == before
    live = [str(path) for path in parquet_bloom.prune(root, "id >= 0").paths]
    in_files = {row for (row,) in duckdb.sql(f"SELECT id FROM read_parquet({live})").fetchall()}
    assert not in_files & {*KEYS}
    spark.sql(f"DELETE FROM {table} WHERE id = 0")
    erased = erase(root, "id", pa.array([0]), table=True)
    assert (erased.rows_erased, sum(row.rows_deleted_before for row in erased), erased.errors) == (1, 1, ())
    assert ids(spark, table) == left[1:]
    spark.sql(f"REORG TABLE {table} APPLY (PURGE)")
    spark.sql(f"INSERT INTO {table} {rows(60, 5)}")
    spark.sql(f"OPTIMIZE {table}")
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {history[0].version}")
    assert ids(spark, table) == left


@pytest.mark.parametrize("feature", ["RowTracking", "ChangeDataFeed"])
def test_delta_tables_that_are_refused_as_the_refusal_says(spark: Any, work: Path, feature: str) -> None:
    root = work / feature
    table = f"delta.`{root}`"
    properties = f"('delta.enableDeletionVectors' = 'true', 'delta.enable{feature}' = 'true')"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING, p STRING) USING delta TBLPROPERTIES {properties}")
    spark.sql(f"INSERT INTO {table} {rows(0, 30)}")
    spark.sql(f"DELETE FROM {table} WHERE id = 5")
    before = sorted(root.rglob("*"))
    with pytest.raises(UnsupportedError, match="delete the rows with Spark"):
        erase(root, "id", [3, 5], table=True)
    assert sorted(root.rglob("*")) == before
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 5)")
    spark.sql(f"REORG TABLE {table} APPLY (PURGE)")
    live = [str(path) for path in parquet_bloom.prune(root, "id >= 0").paths]
    in_files = {row for (row,) in duckdb.sql(f"SELECT id FROM read_parquet({live})").fetchall()}
    assert in_files == {*range(30)} - {3, 5}


def catalog_in(work: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("db", uri=f"sqlite:///{work}/catalog.db", warehouse=f"file://{work}/db")


def test_iceberg_with_position_deletes(spark: Any, work: Path) -> None:
    """A delete file for a partition, that names files which are written again and others."""
    modes = "'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition', 'format-version' = '2'"
    spark.sql(f"CREATE TABLE db.n.d (id BIGINT, name STRING, p STRING) USING iceberg TBLPROPERTIES ({modes})")
    for first in (0, 30, 60):
        spark.sql(f"INSERT INTO db.n.d {rows(first, 30)}")
    spark.sql("DELETE FROM db.n.d WHERE id IN (1, 3, 45, 70)")
    assert len(spark.sql("SELECT * FROM db.n.d.delete_files").collect()) == 1
    before = ids(spark, "db.n.d")
    catalog = catalog_in(work)
    try:
        erased = erase(catalog.load_table("n.d"), "id", pa.array(KEYS), table=True)
        assert (erased.rows_erased, sum(row.rows_deleted_before for row in erased), erased.errors) == (4, 1, ())
        spark.sql("REFRESH TABLE db.n.d")
        left = [row for row in before if row not in KEYS]
        assert ids(spark, "db.n.d") == left
        assert ids(spark, f"db.n.d VERSION AS OF {erased.version_before}") == before
        live = [row.file_path.removeprefix("file:") for row in spark.sql("SELECT * FROM db.n.d.files").collect()]
        data = [path for path in live if "-deletes" not in path]
        in_files = {row for (row,) in duckdb.sql(f"SELECT id FROM read_parquet({data})").fetchall()}
        assert in_files == {*left, 70}  # the file that had no key
        spark.sql("DELETE FROM db.n.d WHERE id = 0")
        spark.sql("CALL db.system.rewrite_position_delete_files(table => 'n.d', options => map('rewrite-all', 'true'))")
        assert ids(spark, "db.n.d") == left[1:]
        erased = erase(catalog.load_table("n.d"), "id", pa.array([0, 70]), table=True)
        assert (erased.rows_erased, sum(row.rows_deleted_before for row in erased), erased.errors) == (2, 2, ())
        spark.sql("REFRESH TABLE db.n.d")
        spark.sql("CALL db.system.rewrite_data_files(table => 'n.d', options => map('rewrite-all', 'true'))")
        assert ids(spark, "db.n.d") == left[1:]
    finally:
        catalog.engine.dispose()


def test_iceberg_of_format_3_as_the_refusal_says(spark: Any, work: Path) -> None:
    modes = "'write.delete.mode' = 'merge-on-read', 'format-version' = '3'"
    spark.sql(f"CREATE TABLE db.n.v (id BIGINT, name STRING, p STRING) USING iceberg TBLPROPERTIES ({modes})")
    spark.sql(f"INSERT INTO db.n.v {rows(0, 30)}")
    spark.sql("DELETE FROM db.n.v WHERE id = 5")
    catalog = catalog_in(work)
    try:
        folder = work / "db" / "n" / "v"
        before = sorted(folder.rglob("*"))
        assert before
        with pytest.raises(UnsupportedError, match=r"format version 3.*delete the rows with Spark"):
            erase(catalog.load_table("n.v"), "id", [3, 5], table=True)
        assert sorted(folder.rglob("*")) == before
        spark.sql("DELETE FROM db.n.v WHERE id IN (3, 5)")
        options = "map('delete-file-threshold', '1')"
        spark.sql(f"CALL db.system.rewrite_data_files(table => 'n.v', options => {options})")
        live = [row.file_path.removeprefix("file:") for row in spark.sql("SELECT * FROM db.n.v.data_files").collect()]
        in_files = {row for (row,) in duckdb.sql(f"SELECT id FROM read_parquet({live})").fetchall()}
        assert in_files == {*range(30)} - {3, 5}
    finally:
        catalog.engine.dispose()


def test_iceberg_with_equality_deletes_once_they_are_applied(spark: Any, work: Path) -> None:
    """What the refusal says to run first does what it says."""
    spark.sql("CREATE TABLE db.n.q (id INT) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    spark.sql("INSERT INTO db.n.q SELECT CAST(id AS INT) FROM range(20)")
    delete_by_value(spark, "db.n.q", 5)
    catalog = catalog_in(work)
    try:
        assert "delete-file-threshold" in erase(catalog.load_table("n.q"), "id", [3], table=True).errors[0].error
        options = "map('delete-file-threshold', '1')"
        spark.sql(f"CALL db.system.rewrite_data_files(table => 'n.q', options => {options})")
        erased = erase(catalog.load_table("n.q"), "id", [3, 5], table=True)
        assert (erased.rows_erased, erased.errors) == (1, ())
        spark.sql("REFRESH TABLE db.n.q")
        assert ids(spark, "db.n.q") == [row for row in range(20) if row not in (3, 5)]
        options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
        spark.sql(f"CALL db.system.rewrite_data_files(table => 'n.q', options => {options})")
        assert spark.sql("SELECT * FROM db.n.q.delete_files").collect() == []
    finally:
        catalog.engine.dispose()


def delete_by_value(spark: Any, name: str, value: int) -> None:
    """Commits an equality delete of an id, which Spark's SQL does not write."""
    jvm = spark._jvm.org.apache.iceberg
    java = jvm.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    ids = spark.sparkContext._gateway.new_array(spark._jvm.int, 1)
    ids[0] = java.schema().findField("id").fieldId()
    factory = jvm.data.GenericAppenderFactory(java.schema(), java.spec(), ids, java.schema(), None)
    output = jvm.encryption.EncryptedFiles.encryptedOutput(
        java.io().newOutputFile(f"{java.location()}/data/by-value.parquet"), jvm.encryption.EncryptionKeyMetadata.EMPTY
    )
    writer = factory.newEqDeleteWriter(output, jvm.FileFormat.PARQUET, None)
    record = jvm.data.GenericRecord.create(java.schema())
    record.setField("id", value)
    writer.write(record)
    writer.close()
    java.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def test_iceberg(spark: Any, work: Path) -> None:
    spark.sql("CREATE TABLE db.n.e (id BIGINT, name STRING, p STRING) USING iceberg PARTITIONED BY (p)")
    for first in (0, 30):
        spark.sql(f"INSERT INTO db.n.e {rows(first, 30)}")
    before = spark.sql("SELECT snapshot_id FROM db.n.e.snapshots ORDER BY committed_at DESC").collect()[0][0]
    catalog = catalog_in(work)
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
