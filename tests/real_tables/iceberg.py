"""Iceberg tables, written by Iceberg in Spark: in a Hadoop catalog `dir`, and in `db`, which keeps them in SQLite."""

from __future__ import annotations

import datetime
import shutil
import sqlite3
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from real_tables.asking import View
from real_tables.kinds import Bench, Made, kinds

import parquet_bloom

KINDS, kind = kinds()

COLUMNS = (
    "rid bigint, k bigint, s string, n int, d decimal(10,2), day date, at timestamp, f double, e float, b boolean, "
    "p string, st struct<a: bigint, b: string>"
)
SMALL = {
    "write.parquet.row-group-size-bytes": "8192",
    "write.parquet.row-group-check-min-record-count": "50",
    "write.parquet.row-group-check-max-record-count": "50",
    "write.parquet.bloom-filter-enabled.column.k": "true",
    "write.parquet.bloom-filter-enabled.column.s": "true",
    "write.parquet.bloom-filter-max-bytes": "512",
    "write.distribution-mode": "none",
}


class Table:
    """A table of one of the catalogs, as the engine and as our verbs know it."""

    def __init__(self, bench: Bench, catalog: str = "dir", short: str | None = None) -> None:
        self.bench, self.catalog, self.spark = bench, catalog, bench.spark
        self.short = short or f"n.{bench.name}"
        self.name = f"{catalog}.{self.short}"
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.n")

    @property
    def folder(self) -> Path:
        warehouse = self.spark.conf.get(f"spark.sql.catalog.{self.catalog}.warehouse")
        return Path(warehouse.removeprefix("file://")) / "n" / self.bench.name

    def create(self, columns: str = COLUMNS, more: str = "", batches: int = 3, **properties: str) -> None:
        given = SMALL | {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}
        listed = ", ".join(f"'{key}'='{value}'" for key, value in given.items())
        self.spark.sql(f"CREATE TABLE {self.name} ({columns}) USING iceberg {more} TBLPROPERTIES ({listed})")
        for batch in range(batches):
            self.write(batch)

    def write(self, batch: int, count: int = 260, branch: str = "", *select: str) -> None:
        rows = self.bench.rows.frame(self.spark, batch, count)
        rows = rows.selectExpr(*select) if select else rows
        rows.writeTo(self.name + (f".branch_{branch}" if branch else "")).append()

    def run(self, *statements: str) -> None:
        """Run statements, in which T! is the table and call! its catalog's procedures."""
        for statement in statements:
            self.spark.sql(
                statement.replace("T!", self.name)
                .replace("call!", f"CALL {self.catalog}.system.")
                .replace("t!", f"table => '{self.short}'")
            )

    def snapshots(self) -> list[Any]:
        return self.spark.sql(f"SELECT * FROM {self.name}.snapshots ORDER BY committed_at").collect()

    def java(self) -> Any:
        """Return the engine's own object, for what SQL has no words for."""
        util = self.spark._jvm.org.apache.iceberg.spark.Spark3Util
        return util.loadIcebergTable(self.spark._jsparkSession, self.name)

    @property
    def known(self) -> Any:
        """Return what our verbs are given: the directory, or the table as pyiceberg loads it from the catalog."""
        return str(self.folder) if self.catalog == "dir" else self.loaded()

    def loaded(self) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        uri = self.spark.conf.get("spark.sql.catalog.db.uri").removeprefix("jdbc:sqlite:")
        return SqlCatalog(self.catalog, uri=f"sqlite:///{uri}").load_table(self.short)

    def seen(self, at: str = "") -> Any:
        return self.spark.sql(f"SELECT *, _file FROM {self.name} {at}")

    def made(self, *earlier: int | str, column: str = "k") -> Made:
        """Return the table as it is now, and as of snapshots, by their place in history, branches and tags."""
        views = [View(self.seen, self.known)]
        history = self.snapshots()
        for each in earlier:
            at = history[each].snapshot_id if isinstance(each, int) else each
            text = f"VERSION AS OF {at}" if isinstance(at, int) else f"VERSION AS OF '{at}'"
            views.append(View(lambda t=text: self.seen(t), self.known, {"as_of": at}, f"as of {each}"))
        return Made(views, column, lambda: parquet_bloom.add(views[0].table, [column], table=True, replace=True))


@kind("plain appends, Hadoop catalog")
def plain(bench: Bench) -> Made:
    table = Table(bench)
    table.create()
    return table.made(1)


@kind("plain appends, SQL catalog")
def plain_db(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create()
    return table.made(1)


@kind("format 1, partitions of odd names")
def first(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create(more="PARTITIONED BY (p, b)", format_version="1")
    return table.made(0)


@kind("partition evolution")
def partitions(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create(more="PARTITIONED BY (p)", batches=1)
    table.run("ALTER TABLE T! ADD PARTITION FIELD bucket(4, k)")
    table.write(1, 60)
    table.run(
        "ALTER TABLE T! DROP PARTITION FIELD p", "ALTER TABLE T! REPLACE PARTITION FIELD bucket(4, k) WITH month(at)"
    )
    table.write(2, 20)
    table.run(
        "ALTER TABLE T! REPLACE PARTITION FIELD at_month WITH truncate(1, s)", "ALTER TABLE T! ADD PARTITION FIELD day"
    )
    table.write(3, 60)
    table.run("ALTER TABLE T! RENAME COLUMN p TO q", "ALTER TABLE T! RENAME COLUMN at TO moment")
    table.write(4, 20, "", "rid", "k", "s", "n", "d", "day", "at as moment", "f", "e", "b", "p as q", "st")
    return table.made(0, 2)


@kind("rename, swap, drop and re-add")
def renamed(bench: Bench) -> Made:
    table = Table(bench)
    table.create()
    _evolve(table)
    return table.made(2)


@kind("rename, swap, drop and re-add, SQL catalog")
def renamed_db(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create()
    _evolve(table)
    return table.made(2)


def _evolve(table: Table) -> None:
    table.run(
        "ALTER TABLE T! RENAME COLUMN s TO z",
        "ALTER TABLE T! RENAME COLUMN p TO s",
        "ALTER TABLE T! RENAME COLUMN z TO p",
        "ALTER TABLE T! DROP COLUMN d",
        "ALTER TABLE T! ADD COLUMN d decimal(12,2)",
        "ALTER TABLE T! RENAME COLUMN st.a TO c",
        "ALTER TABLE T! ADD COLUMN st.a bigint FIRST",
        "ALTER TABLE T! ADD COLUMN `odd.name (x)` int",
    )
    table.write(
        5,
        260,
        "",
        "rid",
        "k",
        "s as p",
        "n",
        "day",
        "at",
        "f",
        "e",
        "b",
        "p as s",
        "cast(d as decimal(12,2)) as d",
        "named_struct('a', st.a, 'c', st.a + 1, 'b', st.b) as st",
        "n as `odd.name (x)`",
    )


@kind("type promotion")
def promoted(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create()
    table.run(
        "ALTER TABLE T! ALTER COLUMN n TYPE bigint",
        "ALTER TABLE T! ALTER COLUMN e TYPE double",
        "ALTER TABLE T! ALTER COLUMN d TYPE decimal(18,2)",
    )
    table.write(
        3,
        260,
        "",
        "rid",
        "k",
        "s",
        "n + 3000000000 as n",
        "cast(d as decimal(18,2)) d",
        "day",
        "at",
        "f",
        "e + 0.1D as e",
        "b",
        "p",
        "st",
    )
    return table.made(2)


@kind("merge-on-read: position deletes")
def positions(bench: Bench) -> Made:
    table = Table(bench, "db")
    _mor(table, "2")
    return table.made(2, 3)


@kind("format 3: deletion vectors, row lineage")
def third(bench: Bench) -> Made:
    table = Table(bench, "db")
    _mor(table, "3")
    return table.made(2, 3)


def _mor(table: Table, version: str) -> None:
    modes = {f"write__{verb}__mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    table.create(format_version=version, **modes)
    table.run("DELETE FROM T! WHERE k % 5 = 0 AND n < 100", "UPDATE T! SET s = 'changed' WHERE k % 11 = 0 AND n > 120")


@kind("format 3: default values")
def defaults(bench: Bench) -> Made:
    table = Table(bench)
    table.create(format_version="3", batches=2)
    jvm = bench.spark._jvm.org.apache.iceberg
    types = jvm.types.Types
    change = table.java().updateSchema()
    change.addColumn("x", types.IntegerType.get(), "d", jvm.expressions.Expressions.lit(5))
    change.addColumn("y", types.StringType.get(), "d", jvm.expressions.Expressions.lit("why"))
    change.commit()
    table.run("REFRESH TABLE T!")
    table.write(2, 260, "", "*", "n as x", "s as y")
    return table.made(1)


@kind("equality deletes")
def equality(bench: Bench) -> Made:
    table = Table(bench)
    table.create(format_version="2")
    java, jvm = table.java(), bench.spark._jvm.org.apache.iceberg
    schema = java.schema().select(["n"])
    ids = bench.spark.sparkContext._gateway.new_array(bench.spark._jvm.int, 1)
    ids[0] = java.schema().findField("n").fieldId()
    factory = jvm.data.GenericAppenderFactory(java.schema(), java.spec(), ids, schema, None)
    output = jvm.encryption.EncryptedFiles.encryptedOutput(
        java.io().newOutputFile(f"{table.folder}/data/deletes-{uuid.uuid4()}.parquet"),
        jvm.encryption.EncryptionKeyMetadata.EMPTY,
    )
    writer = factory.newEqDeleteWriter(output, jvm.FileFormat.PARQUET, None)
    for row in bench.spark.sql(f"SELECT DISTINCT n FROM {table.name} WHERE n < 60 LIMIT 30").collect():
        record = jvm.data.GenericRecord.create(schema)
        record.setField("n", row.n)
        writer.write(record)
    writer.close()
    java.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
    table.write(4)
    return table.made(2)


@kind("copy-on-write: DELETE, UPDATE, MERGE")
def copied(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create()
    table.run("DELETE FROM T! WHERE k % 5 = 0", "UPDATE T! SET s = concat(s, '!') WHERE n < 60")
    return table.made(2, 3)


@kind("branches and tags, with evolution in between")
def branches(bench: Bench) -> Made:
    table = Table(bench)
    table.create()
    table.run("ALTER TABLE T! CREATE TAG old", "ALTER TABLE T! CREATE BRANCH other")
    table.write(3, 260, "other")
    table.run("ALTER TABLE T! RENAME COLUMN s TO z", "ALTER TABLE T! ADD COLUMN s string")
    table.write(4, 260, "", "*", "p as z")
    return table.made("old", "other", 0)


@kind("a branch, read under names that changed since")
def branch(bench: Bench) -> Made:
    table = Table(bench)
    table.create()
    table.run("ALTER TABLE T! CREATE BRANCH other")
    table.write(3, 260, "other")
    _evolve(table)
    known = table.known
    return Made([View(lambda: table.seen("VERSION AS OF 'other'"), known, {"as_of": "other"}, "branch other")])


@kind("roll back, cherry-pick, write-audit-publish")
def audited(bench: Bench) -> Made:
    table = Table(bench)
    table.create(write__wap__enabled="true")
    history = table.snapshots()
    table.run(f"call!rollback_to_snapshot(t!, snapshot_id => {history[1].snapshot_id})")
    bench.spark.conf.set("spark.wap.id", "staged")
    try:
        table.write(3)
    finally:
        bench.spark.conf.unset("spark.wap.id")
    table.write(4)
    return table.made(2)


@kind("as of times")
def timed(bench: Bench) -> Made:
    table = Table(bench)
    table.create()
    time.sleep(1.1)
    table.write(3)
    made = table.made()
    for row in table.snapshots()[1:3]:
        at = row.committed_at.replace(tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=1)
        text = f"TIMESTAMP AS OF '{at:%Y-%m-%d %H:%M:%S.%f}'"
        made.views.append(View(lambda t=text: table.seen(t), table.known, {"as_of": at.isoformat()}, f"as of {at}"))
    return made


@kind("rewritten: data files sorted, manifests, snapshots expired")
def rewritten(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create()
    table.run(
        "call!rewrite_data_files(t!, strategy => 'sort', sort_order => 'zorder(k, n)', "
        "options => map('rewrite-all', 'true'))",
        "call!rewrite_manifests(t!)",
    )
    table.write(3)
    now = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S}"
    table.run(f"call!expire_snapshots(t!, older_than => TIMESTAMP '{now}', retain_last => 2)")
    return table.made()


@kind("add_files: files without ids, then renamed columns")
def adopted(bench: Bench) -> Made:
    table = Table(bench)
    source = f"{bench.path}-source"
    for batch in range(2):
        rows = bench.rows.frame(bench.spark, batch)
        rows.write.mode("append").partitionBy("p").parquet(source)
    table.create(more="PARTITIONED BY (p)", batches=0)
    table.run(f"call!add_files(t!, source_table => '`parquet`.`{source}`')")
    table.run("ALTER TABLE T! RENAME COLUMN s TO z", "ALTER TABLE T! ADD COLUMN s string")
    table.write(3, 60, "", "*", "p as z")
    return table.made()


NESTED = (
    f"{COLUMNS}, l array<struct<e: bigint, f: string>>, m map<string, struct<v: bigint>>, "
    "deep struct<x: struct<a: bigint, b: bigint>, y: bigint>"
)
DEEP = (
    "*",
    "array(named_struct('e', k, 'f', s)) as l",
    "map('key', named_struct('v', k)) as m",
    "named_struct('x', if(n % 5 = 0, null, named_struct('a', k, 'b', k + 1)), 'y', k) as deep",
)


def _added(table: Table, columns: str, *select: str, **properties: str) -> str:
    """Create a table of files that Spark wrote, without field ids; return where another batch of them may lie."""
    table.create(columns, batches=0, **properties)
    source = f"{table.folder}/data/added"
    for batch in range(2):
        _add(table, f"{source}-{batch}", batch, *select)
    return f"{source}-later"


def _add(table: Table, source: str, batch: int, *select: str) -> None:
    table.bench.rows.frame(table.spark, batch).selectExpr(*select).write.parquet(source)
    table.run(f"call!add_files(t!, source_table => '`parquet`.`{source}`')")


@kind("add_files: nested columns, renamed, dropped and added")
def adopted_nested(bench: Bench) -> Made:
    table = Table(bench, "db")
    later = _added(table, NESTED, *DEEP)
    table.run(
        "ALTER TABLE T! RENAME COLUMN deep.x.a TO c",
        "ALTER TABLE T! RENAME COLUMN deep.y TO z",
        "ALTER TABLE T! RENAME COLUMN l.element.e TO g",
        "ALTER TABLE T! RENAME COLUMN m.value.v TO w",
        "ALTER TABLE T! DROP COLUMN deep.x.b",
        "ALTER TABLE T! ADD COLUMN deep.x.d bigint",
        "ALTER TABLE T! RENAME COLUMN deep TO deeper",
    )
    _add(
        table,
        later,
        3,
        "*",
        "array(named_struct('g', k, 'f', s)) as l",
        "map('key', named_struct('w', k)) as m",
        "named_struct('x', named_struct('c', k, 'd', k + 2), 'z', k) as deeper",
    )
    return table.made(0)


@kind("add_files: nested names that cross")
def adopted_nested_crossing(bench: Bench) -> Made:
    table = Table(bench, "db")
    _added(table, NESTED, *DEEP)
    table.run(
        "ALTER TABLE T! RENAME COLUMN deep.x.a TO c",
        "ALTER TABLE T! RENAME COLUMN deep.x.b TO a",
        "ALTER TABLE T! RENAME COLUMN deep.x.c TO b",
        "ALTER TABLE T! RENAME COLUMN l.element.e TO g",
        "ALTER TABLE T! DROP COLUMN st.a",
        "ALTER TABLE T! ADD COLUMN st.a bigint",
    )
    return table.made(0)


@kind("add_files: a new column takes an old one's name")
def adopted_crossing(bench: Bench) -> Made:
    table = Table(bench)
    later = _added(table, COLUMNS, "*")
    table.run("ALTER TABLE T! ADD COLUMN s2 string", "ALTER TABLE T! ADD COLUMN k2 bigint")
    _add(table, later, 3, "*", "concat(s, '!') as s2", "k + 1 as k2")
    table.run(
        "ALTER TABLE T! DROP COLUMN s",
        "ALTER TABLE T! RENAME COLUMN s2 TO s",
        "ALTER TABLE T! RENAME COLUMN k TO k1",
        "ALTER TABLE T! RENAME COLUMN k2 TO k",
    )
    table.write(4, 60, "", "*", "k as k1")
    return table.made(0)


@kind("add_files: columns in another order, and the mapping removed")
def adopted_unmapped(bench: Bench) -> Made:
    table = Table(bench)
    _added(table, "rid bigint, k bigint, s string, p string", "rid", "k", "p", "s")
    table.run("ALTER TABLE T! UNSET TBLPROPERTIES ('schema.name-mapping.default')")
    table.write(3, 60, "", "rid", "k", "s", "p")
    return table.made()


@kind("snapshot of a Spark table, then renamed")
def snapshotted(bench: Bench) -> Made:
    table = Table(bench, "db")
    source = f"spark_catalog.default.{_of_spark(bench)}"
    table.run(f"call!snapshot(source_table => '{source}', table => '{table.name}')")
    return _renamed(table)


@kind("migrate of a Spark table, then renamed")
def migrated(bench: Bench) -> Made:
    name = _of_spark(bench)
    table = Table(bench, "spark_catalog", f"default.{name}")
    table.run(f"call!migrate('default.{name}')")
    return _renamed(table)


def _of_spark(bench: Bench) -> str:
    """Return the name of a table of Spark's own catalog, in files without ids."""
    for batch in range(2):
        rows = bench.rows.frame(bench.spark, batch)
        rows.write.mode("append").format("parquet").saveAsTable(f"{bench.name}_own")
    return f"{bench.name}_own"


def _renamed(table: Table) -> Made:
    table.run("ALTER TABLE T! RENAME COLUMN s TO z", "ALTER TABLE T! RENAME COLUMN st.a TO c")
    table.run("ALTER TABLE T! ADD COLUMN s string", "ALTER TABLE T! ADD COLUMN st.a bigint")
    select = ("* except (s, st)", "s as z", "named_struct('c', st.a, 'b', st.b, 'a', 1L) as st", "p as s")
    table.write(3, 60, "", *select)
    made = table.made(0)
    for view in made.views:  # the files stay where they were
        view.options["allow_outside"] = True
    return made


@kind("dropped and created again in the same place")
def recreated(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create()
    table.run("DROP TABLE T!")
    table.create(batches=1)
    return table.made()


@kind("a commit that was lost: metadata that no catalog took")
def lost(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create()
    table.run("DELETE FROM T! WHERE n < 150")
    with sqlite3.connect(bench.spark.conf.get("spark.sql.catalog.db.uri").removeprefix("jdbc:sqlite:")) as found:
        found.execute(
            "UPDATE iceberg_tables SET metadata_location = previous_metadata_location WHERE table_name = ?",
            [bench.name],
        )
    return table.made()


@kind("its directory, where the catalog is SQL")
def directory(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create(batches=2)
    made = table.made()
    made.views = [View(table.seen, str(table.folder))]
    made.add = lambda: parquet_bloom.add(str(table.folder), ["k"], table=True)
    return made


@kind("its directory, where the catalog is SQL, created again")
def directory_again(bench: Bench) -> Made:
    table = Table(bench, "db")
    table.create()
    table.run("DROP TABLE T!")
    table.create(batches=1)
    made = table.made()
    made.views, made.add = [View(table.seen, str(table.folder))], None
    return made


@kind("Hadoop catalog with an old hint and a commit that was lost")
def hinted(bench: Bench) -> Made:
    table = Table(bench)
    table.create()
    metadata = table.folder / "metadata"
    before = sorted(metadata.glob("v*.metadata.json"), key=lambda p: int(p.name[1:].partition(".")[0]))
    shutil.copy(before[1], metadata / f"{uuid.uuid4()}.metadata.json")
    for stale in metadata.glob(".version-hint*"):
        stale.unlink()
    (metadata / "version-hint.text").write_text("2", "utf-8")
    return table.made()


@kind("metadata compressed")
def compressed(bench: Bench) -> Made:
    table = Table(bench)
    table.create(write__metadata__compression_codec="gzip")
    return table.made(1)


@kind("ORC and Parquet files")
def mixed(bench: Bench) -> Made:
    table = Table(bench)
    table.create(batches=1)
    table.run("ALTER TABLE T! SET TBLPROPERTIES ('write.format.default'='orc')")
    table.write(1)
    return table.made()


__all__: Sequence[str] = ["KINDS"]
