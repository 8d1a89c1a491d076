"""Iceberg's own Spark goes on with a table whose files were swapped for others with filters, and knows its directory.

`PARQUET_BLOOM_TABLES` names the folder of jars that `.ci/tables` fills.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from files import statuses

from parquet_bloom import UnsupportedError, add, inspect, lookup, prune

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not os.environ.get("PARQUET_BLOOM_TABLES"), reason="PARQUET_BLOOM_TABLES names no folder of jars"
    ),
]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("swaps")


@pytest.fixture(scope="module")
def spark(work: Path) -> Iterator[Any]:
    from real_tables import sessions

    with sessions.running("Delta and Iceberg", work) as found:
        found.sql("CREATE NAMESPACE IF NOT EXISTS db.n")
        yield found


@contextmanager
def loaded(work: Path, name: str) -> Iterator[Any]:
    """Yields the table of Spark's catalog `db`, by pyiceberg's catalog over the same database."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("db", uri=f"sqlite:///{work}/catalog.db", warehouse=f"file://{work}/db")
    try:
        yield catalog.load_table(f"n.{name}")
    finally:
        catalog.engine.dispose()


def create(spark: Any, table: str, *, by: str = "", **properties: str) -> None:
    given = ", ".join(f"'{key.replace('_', '-')}'='{value}'" for key, value in properties.items())
    columns = "(id BIGINT, name STRING, p STRING)"
    spark.sql(f"CREATE TABLE {table} {columns} USING iceberg {by} {given and f'TBLPROPERTIES ({given})'}")


def put(spark: Any, table: str, first: int, count: int = 30) -> None:
    rows = f"SELECT id, concat('name ', id), concat('p', id % 3) FROM range({first}, {first + count})"
    spark.sql(f"INSERT INTO {table} {rows}")


def counts(spark: Any, table: str, at: str = "") -> Any:
    return spark.sql(f"SELECT count(*), sum(id), count(DISTINCT name), min(p) FROM {table} {at}").collect()[0]


def history(spark: Any, table: str) -> list[Any]:
    return spark.sql(f"SELECT * FROM {table}.snapshots ORDER BY committed_at").collect()


class Stream:
    """A stream over a table, which goes on each time where it was before."""

    def __init__(self, spark: Any, table: str, folder: Path) -> None:
        self.ids: list[int] = []
        self._spark, self._table, self._checkpoint = spark, table, str(folder / "checkpoint")

    def catch_up(self) -> None:
        rows = self._spark.readStream.format("iceberg").load(self._table).writeStream
        rows = rows.option("checkpointLocation", self._checkpoint).trigger(availableNow=True)
        rows.foreachBatch(
            lambda batch, _: self.ids.extend(row.id for row in batch.collect())
        ).start().awaitTermination()


def overwritten(table: Any) -> None:
    """Commits a swap of a file for a copy of it as pyiceberg would: as an overwrite."""
    from parquet_bloom.tables.iceberg_replace import copy_of

    old = next(iter(table.scan().plan_files())).file
    path = old.file_path.replace(".parquet", "-copy.parquet")
    Path(path.removeprefix("file:")).write_bytes(Path(old.file_path.removeprefix("file:")).read_bytes())
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        overwrite.delete_data_file(old)
        overwrite.append_data_file(copy_of(old, file_path=path))


def test_streams_and_time_travel_go_on(spark: Any, work: Path, tmp_path: Path) -> None:
    create(spark, "db.n.t", by="PARTITIONED BY (p)")
    put(spark, "db.n.t", 0)
    put(spark, "db.n.t", 30)
    stream = Stream(spark, "db.n.t", tmp_path)
    stream.catch_up()
    now, then = counts(spark, "db.n.t"), {}
    for snapshot in history(spark, "db.n.t"):
        then[snapshot.snapshot_id] = counts(spark, "db.n.t", f"VERSION AS OF {snapshot.snapshot_id}")
    with loaded(work, "t") as table:
        assert set(statuses(add(table, ["id", "name"], table=True, replace=True, batch=4))) == {"written"}
        swaps = [snapshot for snapshot in history(spark, "db.n.t") if snapshot.snapshot_id not in then]
        assert [snapshot.operation for snapshot in swaps] == ["replace", "replace"]
        assert {snapshot.summary["total-records"] for snapshot in swaps} == {"60"}
        assert {snapshot.summary["total-data-files"] for snapshot in swaps} == {"6"}
        assert counts(spark, "db.n.t") == now
        assert {at: counts(spark, "db.n.t", f"VERSION AS OF {at}") for at in then} == then
        put(spark, "db.n.t", 60)
        stream.catch_up()
        assert sorted(stream.ids) == list(range(90))
        overwritten(table.refresh())
        put(spark, "db.n.t", 90)
        with pytest.raises(Exception, match=r"(?i)cannot process overwrite snapshot"):
            stream.catch_up()  # what the swaps have spared it


def test_what_spark_does_next_to_a_table(spark: Any, work: Path) -> None:
    create(spark, "db.n.next")
    put(spark, "db.n.next", 0)
    spark.sql("ALTER TABLE db.n.next ADD PARTITION FIELD p")
    put(spark, "db.n.next", 30)
    spark.sql("ALTER TABLE db.n.next REPLACE PARTITION FIELD p WITH bucket(4, id)")
    put(spark, "db.n.next", 60)
    with loaded(work, "next") as table:
        assert set(statuses(add(table, ["id", "name"], table=True, replace=True))) == {"written"}
        assert counts(spark, "db.n.next")[0] == 90
        spark.sql("DELETE FROM db.n.next WHERE p = 'p1' AND id < 60")  # whole files of one spec, parts of another
        spark.sql("ALTER TABLE db.n.next SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
        spark.sql("DELETE FROM db.n.next WHERE id IN (3, 62)")
        alive = sorted(set(range(90)) - {i for i in range(60) if i % 3 == 1} - {3, 62})
        added = add(table, ["id", "name"], table=True, replace=True)
        assert {"written", "refused"} == set(statuses(added))
        for step in (
            "rewrite_data_files(table => 'n.next', options => map('rewrite-all', 'true'))",
            "rewrite_manifests('n.next')",
            "expire_snapshots(table => 'n.next', older_than => TIMESTAMP '2199-01-01 00:00:00', retain_last => 1)",
        ):
            spark.sql(f"CALL db.system.{step}")
            assert sorted(row.id for row in spark.sql("SELECT id FROM db.n.next").collect()) == alive
            add(table, ["id", "name"], table=True, replace=True)
            assert sorted(row.id for row in spark.sql("SELECT id FROM db.n.next").collect()) == alive
        for key in (5, 61, 89):
            (file,) = prune(table, f"id = {key} AND name = 'name {key}'").kept_files
            assert any(each.num_bytes for each in inspect(file.path).rows)


def test_a_table_dropped_and_created_again(spark: Any, work: Path) -> None:
    create(spark, "db.n.again")
    for first in range(0, 120, 30):
        put(spark, "db.n.again", first)
    with loaded(work, "again") as table:
        root = table.location().removeprefix("file:").replace("//", "/")
    spark.sql("DROP TABLE db.n.again")
    create(spark, "db.n.again")
    put(spark, "db.n.again", 500)
    with loaded(work, "again") as table:
        assert table.location().removeprefix("file:").replace("//", "/") == root
        assert [row.id for row in spark.sql("SELECT id FROM db.n.again WHERE id = 505").collect()] == [505]
        assert prune(table, "id = 505").might_match
        assert lookup(table, "id", [505, 45]).to_arrow()["path"].null_count == 1
        for verb in (prune, lambda path, _: lookup(path, "id", [505])):
            with pytest.raises(UnsupportedError, match="only its catalog knows"):
                verb(root, "id = 505")


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_directory_of_hadoop_s_catalog(spark: Any, work: Path, codec: str) -> None:
    table, root = f"dir.n.{codec}", work / "dir" / "n" / codec
    for first in (0, 500):  # a table, and another one in its place
        spark.sql(
            f"CREATE TABLE {table} (id BIGINT, name STRING, p STRING) USING iceberg "
            f"TBLPROPERTIES ('write.metadata.compression-codec'='{codec}')"
        )
        put(spark, table, first)
        put(spark, table, first + 30)
        assert prune(root, f"id = {first + 45}").might_match
        assert lookup(root, "id", [first + 5, first + 45, 1000]).to_arrow()["path"].null_count == 1
        # A writer that died between its commit and the hint.
        (root / "metadata" / "version-hint.text").write_text("1")
        assert prune(root, f"id = {first + 45}").might_match
        assert {row.id for row in spark.sql(f"SELECT id FROM {table}").collect()} == set(range(first, first + 60))
        spark.sql(f"DROP TABLE {table}")
    assert not root.exists()
