"""Hudi tables, written by Hudi in Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from real_tables.asking import View
from real_tables.kinds import Bench, Made, kinds

import parquet_bloom

KINDS, kind = kinds()
COLUMNS, kind_of_columns = kinds()
"""Tables whose files do not hold the columns as readers see them; releases do this differently."""

SMALL = {
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.parquet.block.size": "8192",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.bloom.index.parallelism": "1",
    "hoodie.embed.timeline.server": "false",
}
KEYED = {
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.datasource.write.precombine.field": "rid",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}
PARTED = {
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
}
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}

BY_IDS = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.avro.schema.validate": "false",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.embed.timeline.server": "false",
    "spark.sql.parquet.enableVectorizedReader": "false",  # it does not read nested columns of another type
}


class Table:
    """A table that is written step by step."""

    def __init__(self, bench: Bench, *options: dict[str, str]) -> None:
        self.bench, self.spark = bench, bench.spark
        self.options = {**SMALL, **KEYED, "hoodie.table.name": bench.name}
        for each in options:
            self.options |= each
        self.batches = 0

    def write(self, keys: Iterable[int], operation: str = "upsert", /, *select: str, **more: str) -> None:
        rows = self.bench.rows.frame(self.spark, self.batches, keys=list(keys)).na.fill("none", ["p"])
        rows = rows.selectExpr(*select) if select else rows
        given = self.options | {"hoodie.datasource.write.operation": operation}
        given |= {key.replace("__", "."): value for key, value in more.items()}
        mode = "append" if self.batches else "overwrite"
        rows.write.format("hudi").options(**given).mode(mode).save(self.bench.path)
        self.batches += 1

    def instants(self) -> list[str]:
        folder = Path(self.bench.path, ".hoodie")
        names = [path.name for path in [*folder.glob("*"), *folder.glob("timeline/*")] if path.is_file()]
        done = [n for n in names if n.split(".")[-1] in ("commit", "deltacommit", "replacecommit")]
        return sorted({name.split(".")[0].split("_")[0] for name in done})

    def seen(self, **options: str) -> Any:
        given = {key.replace("__", "."): value for key, value in options.items()}
        return located(self.spark.read.format("hudi").options(**given).load(self.bench.path))

    def made(self, *earlier: int, column: str = "k", **options: str) -> Made:
        """Return the table as it is now, and as of instants, by their place in the timeline."""
        views = [View(lambda: self.seen(**options), self.bench.path)]
        for number in earlier:
            at = self.instants()[number]
            views.append(
                View(
                    lambda t=at: self.seen(as__of__instant=t, **options), self.bench.path, {"as_of": at}, f"as of {at}"
                )
            )
        return Made(views, column, lambda: parquet_bloom.add(self.bench.path, [column], table=True, replace=True))


def located(frame: Any) -> Any:
    if "_hoodie_file_name" not in frame.columns:
        return frame.selectExpr("*", "cast(null as string) as _file")
    return frame.selectExpr("*", "_hoodie_file_name as _file")


@kind("copy-on-write: upserts, deletes")
def cow(bench: Bench) -> Made:
    table = Table(bench)
    table.write(range(0, 900, 3), "insert")
    table.write(range(1000, 1300, 2), "insert")
    table.write(range(300, 500, 3))
    table.write(range(0, 200, 3), "delete")
    return table.made(1, 2)


@kind("copy-on-write, partitions")
def parted(bench: Bench) -> Made:
    table = Table(bench, PARTED)
    table.write(range(0, 900, 3), "insert")
    table.write(range(300, 500, 3))
    table.write(range(1000, 1300, 2), "insert_overwrite")
    return table.made(0, 1)


@kind("copy-on-write, Hive partitions, a partition deleted")
def hive(bench: Bench) -> Made:
    hive = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    table = Table(bench, PARTED, hive, {"hoodie.datasource.write.partitionpath.urlencode": "true"})
    table.write(range(0, 900, 3), "insert")
    table.write(range(300, 500, 3))
    return table.made(0)


@kind("bulk_insert, clustering")
def clustered(bench: Bench) -> Made:
    table = Table(bench)
    table.write(range(0, 900, 3), "bulk_insert")
    table.write(range(1000, 1300, 2), "bulk_insert")
    table.write(
        range(2000, 2100, 2),
        "insert",
        hoodie__clustering__inline="true",
        hoodie__clustering__inline__max__commits="1",
        hoodie__clustering__plan__strategy__sort__columns="n",
    )
    return table.made(1)


@kind("merge-on-read: logs")
def mor(bench: Bench) -> Made:
    table = Table(bench, MOR)
    table.write(range(0, 900, 3), "insert")
    table.write(range(1000, 1300, 2), "insert")
    table.write(range(300, 500, 3))
    table.write(range(0, 100, 3), "delete")
    return table.made(1, 2)


@kind("merge-on-read, partitions, compacted")
def compacted(bench: Bench) -> Made:
    table = Table(bench, MOR, PARTED)
    table.write(range(0, 900, 3), "insert")
    table.write(range(300, 500, 3))
    table.write(
        range(300, 400, 3), "upsert", hoodie__compact__inline="true", hoodie__compact__inline__max__delta__commits="1"
    )
    table.write(range(600, 650, 3))
    return table.made(1)


@kind("merge-on-read, inserts into logs (bucket index)")
def bucketed(bench: Bench) -> Made:
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    table = Table(bench, MOR, buckets)
    table.write(range(0, 900, 3))
    table.write(range(300, 1200, 5))
    return table.made(0)


@kind("copy-on-write without Hudi's own columns")
def bare(bench: Bench) -> Made:
    table = Table(bench, {"hoodie.populate.meta.fields": "false"})
    table.write(range(0, 900, 3), "insert")
    table.write(range(300, 500, 3))
    return table.made()


@kind("table version 6")
def sixth(bench: Bench) -> Made:
    table = Table(bench, MOR, {"hoodie.write.table.version": "6"})
    table.write(range(0, 900, 3), "insert")
    table.write(range(300, 500, 3))
    return table.made(0)


@kind("record level index, column statistics")
def indexed(bench: Bench) -> Made:
    wanted = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    table = Table(bench, wanted)
    table.write(range(0, 900, 3), "insert")
    table.write(range(300, 500, 3))
    return table.made(0)


@kind("cleaned and archived")
def archived(bench: Bench) -> Made:
    tidy = {
        "hoodie.clean.automatic": "true",
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    table = Table(bench, tidy)
    for number in range(6):
        table.write(range(number * 40, number * 40 + 120, 2))
    return table.made()


@kind("rolled back to a savepoint")
def restored(bench: Bench) -> Made:
    table = Table(bench)
    table.write(range(0, 900, 3), "insert")
    at = table.instants()[-1]
    table.spark.sql(f"CALL create_savepoint(path => '{bench.path}', commit_time => '{at}')")
    table.write(range(300, 500, 3))
    table.write(range(1000, 1300, 2), "insert")
    table.spark.sql(f"CALL rollback_to_savepoint(path => '{bench.path}', instant_time => '{at}')")
    table.write(range(2000, 2100, 2), "insert")
    return table.made()


def _evolved(bench: Bench, type_: str) -> Made:
    """Schema-on-read: columns renamed, swapped, dropped and added again, widened."""
    spark = bench.spark.newSession()  # settings of its own
    for name, value in BY_IDS.items():
        spark.conf.set(name, value)
    spark.sql(
        f"CREATE TABLE {bench.name} (rid bigint, k bigint, s string, n int, e float, p string, d decimal(10,2), "
        "day date, st struct<a: bigint, b: string>) "
        f"USING hudi TBLPROPERTIES (type='{type_}', primaryKey='k', preCombineField='rid', "
        f"'hoodie.parquet.small.file.limit'='0', 'hoodie.parquet.block.size'='8192') LOCATION '{bench.path}'"
    )
    columns = ["rid", "k", "s", "n", "e", "p", "d", "day", "st"]

    def insert(batch: int, keys: range, *select: str) -> None:
        rows = bench.rows.frame(spark, batch, keys=keys).selectExpr(*(select or columns))
        rows.createOrReplaceTempView("incoming")
        spark.sql(f"INSERT INTO {bench.name} SELECT * FROM incoming")

    insert(0, range(0, 900, 3))
    insert(1, range(1000, 1300, 2))
    for change in (
        "RENAME COLUMN s TO old_s",
        "RENAME COLUMN p TO s",
        "RENAME COLUMN old_s TO p",
        "DROP COLUMN e",
        "ADD COLUMNS (e float)",
        "ALTER COLUMN n TYPE bigint",
        "ALTER COLUMN d TYPE decimal(20,2)",
        "RENAME COLUMN st.a TO c",
    ):
        spark.sql(f"ALTER TABLE {bench.name} {change}")
    names = spark.table(bench.name).columns
    select = {"n": "n + 3000000000 as n", "p": "s as p", "s": "p as s", "d": "cast(d as decimal(20,2)) as d"}
    select["st"] = "named_struct('c', st.a, 'b', st.b) as st"
    insert(2, range(100, 600, 4), *(select.get(n, n) for n in names if not n.startswith("_")))
    view = View(lambda: located(spark.table(bench.name)), bench.path)
    return Made([view], "k", lambda: parquet_bloom.add(bench.path, ["k"], table=True, replace=True))


@kind("schema-on-read evolution, copy-on-write")
def evolved(bench: Bench) -> Made:
    return _evolved(bench, "cow")


@kind("schema-on-read evolution, merge-on-read")
def evolved_mor(bench: Bench) -> Made:
    return _evolved(bench, "mor")


@kind("columns added and widened on write")
def grown(bench: Bench) -> Made:
    table = Table(bench)
    rows = bench.rows.frame(bench.spark, 0, keys=range(0, 600, 3)).select("rid", "k", "n", "e")
    rows.write.format("hudi").options(**table.options).mode("overwrite").save(bench.path)
    table.batches = 1
    rows = bench.rows.frame(bench.spark, 1, keys=range(300, 900, 2))
    rows = rows.selectExpr("rid", "k", "cast(n as bigint) + 3000000000 as n", "cast(e as double) + 0.1D as e", "s")
    rows.write.format("hudi").options(**table.options).mode("append").save(bench.path)
    return table.made(0)


@kind("partial updates by MERGE INTO, merge-on-read")
def partial(bench: Bench) -> Made:
    spark = bench.spark
    spark.sql(
        f"CREATE TABLE {bench.name} (rid bigint, k bigint, s string, n int, p string) USING hudi "
        f"TBLPROPERTIES (type='mor', primaryKey='k', preCombineField='rid', "
        f"'hoodie.parquet.block.size'='8192') LOCATION '{bench.path}'"
    )
    bench.rows.frame(spark, 0, keys=range(0, 900, 3)).select("rid", "k", "s", "n", "p").createOrReplaceTempView("base")
    spark.sql(f"INSERT INTO {bench.name} SELECT * FROM base")
    rows = bench.rows.frame(spark, 4, keys=range(300, 500, 3)).select("rid", "k", "s")
    rows.createOrReplaceTempView("changes")
    spark.sql(
        f"MERGE INTO {bench.name} t USING changes c ON t.k = c.k WHEN MATCHED THEN UPDATE SET rid = c.rid, s = c.s"
    )
    view = View(lambda: located(spark.table(bench.name)), bench.path)
    return Made([view], "k", lambda: parquet_bloom.add(bench.path, ["k"], table=True, replace=True))


# ---- columns that files do not hold as readers see them --------------------------------------

PLAIN = ("rid", "k", "s", "n", "e", "day")


@kind_of_columns("bootstrap, metadata only")
def bootstrapped(bench: Bench) -> Made:
    # Of a bootstrap with a metadata table, Hudi 1.2.0 fails to commit.
    plain = {"hoodie.parquet.block.size": "1048576", "hoodie.metadata.enable": "false"}
    table, source = Table(bench, plain), f"{bench.path}.source"
    bench.rows.frame(bench.spark, 0, keys=range(0, 600, 3)).select(*PLAIN).write.parquet(source)
    table.write(
        [],
        "bootstrap",
        *PLAIN,
        hoodie__bootstrap__base__path=source,
        hoodie__bootstrap__keygen__class=KEYED["hoodie.datasource.write.keygenerator.class"],
        hoodie__bootstrap__parallelism="1",
        hoodie__bootstrap__mode__selector=(
            "org.apache.hudi.client.bootstrap.selector.MetadataOnlyBootstrapModeSelector"
        ),
    )
    table.write(range(1000, 1200, 2), "insert", *PLAIN)
    return table.made(0)


@kind_of_columns("widened by an upsert into logs")
def widened(bench: Bench) -> Made:
    table = Table(bench, MOR)
    older = ("rid", "k", "s", "n", "e", "n as t", "n as w", "n as x")
    table.write(range(0, 900, 3), "insert", *older)
    table.write(range(1000, 1300, 2), "insert", *older)
    newer = ("cast(n as float) n", "cast(e as double) e", "cast(n as string) t", "cast(n as bigint) w")
    table.write(range(300, 340, 3), "upsert", "rid", "k", "s", *newer, "cast(n as double) x")
    return table.made(0, 1)


def _parted(bench: Bench, column: str, *options: dict[str, str]) -> Made:
    table = Table(bench, PARTED, *options)
    select = (*PLAIN, f"{column} as p")
    table.write(range(0, 600, 3), "insert", *select)
    table.write(range(300, 500, 3), "upsert", *select)
    return table.made(0)


ODD = "element_at(array('', '__HIVE_DEFAULT_PARTITION__', 'x=y', 'a%2Fb', '007', 'p', null), int(k % 7) + 1)"
HIVE = {
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}
DROPPED = {"hoodie.datasource.write.drop.partition.columns": "true"}


@kind_of_columns("partitions with odd values")
def odd(bench: Bench) -> Made:
    return _parted(bench, ODD)


@kind_of_columns("Hive partitions with odd values")
def odd_hive(bench: Bench) -> Made:
    return _parted(bench, ODD, HIVE)


@kind_of_columns("partition columns dropped from the files")
def dropped(bench: Bench) -> Made:
    return _parted(bench, ODD, HIVE, DROPPED)


@kind_of_columns("partitions of integers")
def numbered(bench: Bench) -> Made:
    return _parted(bench, "int(k % 4)", HIVE)


@kind_of_columns("partitions of dates")
def dated(bench: Bench) -> Made:
    return _parted(bench, "date'2024-01-01' + int(k % 4)", HIVE)


@kind_of_columns("partitions of timestamps")
def timed(bench: Bench) -> Made:
    return _parted(bench, "timestamp'2024-01-01 05:06:07' + make_interval(0, 0, 0, int(k % 4))")


@kind_of_columns("partitions of a timestamp key generator")
def epochs(bench: Bench) -> Made:
    generator = {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    return _parted(bench, "1704067200L + 86400 * (k % 4)", generator)


KINDS |= COLUMNS
