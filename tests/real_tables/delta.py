"""Delta tables, written by delta-spark."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from deltalake import write_deltalake
from real_tables.asking import View
from real_tables.kinds import Bench, Made, kinds

import parquet_bloom

KINDS, kind = kinds()


def write(bench: Bench, batch: int, count: int = 260, **options: str) -> None:
    rows = bench.rows.frame(bench.spark, batch, count)
    rows.write.format("delta").mode("append").options(**options).save(bench.path)


def created(bench: Bench, *properties: str, more: str = "", columns: str = "", batches: int = 3) -> None:
    """Create a table and fill it by as many commits."""
    listed = ", ".join(f"'delta.{each.partition('=')[0]}'='{each.partition('=')[2]}'" for each in properties)
    declared = columns or (
        "rid bigint, k bigint, s string, n int, d decimal(10,2), day date, at timestamp, f double, e float, "
        "b boolean, p string, st struct<a: bigint, b: string>"
    )
    bench.sql(
        f"CREATE TABLE delta.`{bench.path}` ({declared}) USING delta {more} TBLPROPERTIES ({listed})"
        if listed
        else f"CREATE TABLE delta.`{bench.path}` ({declared}) USING delta {more}"
    )
    for batch in range(batches):
        write(bench, batch)


def run(bench: Bench, *statements: str) -> None:
    """Run statements, in which T is the table."""
    for statement in statements:
        bench.spark.sql(statement.replace("T!", f"delta.`{bench.path}`"))


def versions(bench: Bench) -> list[int]:
    return sorted(int(p.stem) for p in Path(bench.path, "_delta_log").glob("*.json") if p.stem.isdecimal())


def seen(bench: Bench, **options: Any) -> Any:
    frame = bench.spark.read.format("delta").options(**options).load(bench.path)
    # The path is a URI.
    plain = "url_decode(replace(_metadata.file_path, '+', '%2B'))"
    return frame.selectExpr("*", f"{plain} as _file")


def made(bench: Bench, *earlier: int, column: str = "k") -> Made:
    """Return the table as it is now, and as of earlier versions."""
    views = [View(lambda: seen(bench), bench.path)]
    views += [
        View(lambda v=version: seen(bench, versionAsOf=v), bench.path, {"as_of": version}, f"version {version}")
        for version in earlier
    ]
    return Made(views, column, lambda: parquet_bloom.add(bench.path, [column], table=True, replace=True))


@kind("plain appends")
def plain(bench: Bench) -> Made:
    created(bench)
    return made(bench, 2)


@kind("partitions of odd names")
def partitioned(bench: Bench) -> Made:
    created(bench, more="PARTITIONED BY (p, day)", batches=0)
    for batch in range(2):
        write(bench, batch, 60)
    return made(bench, 1)


@kind("DELETE, UPDATE, MERGE by rewriting files")
def rewritten(bench: Bench) -> Made:
    created(bench, "enableDeletionVectors=false")
    run(bench, "DELETE FROM T! WHERE k % 5 = 0", "UPDATE T! SET s = concat(s, '!') WHERE n < 60")
    return made(bench, 3, 4)


@kind("column mapping by name: rename, swap, drop and re-add")
def mapped(bench: Bench) -> Made:
    created(bench, "columnMapping.mode=name")
    run(
        bench,
        "ALTER TABLE T! RENAME COLUMN s TO old_s",
        "ALTER TABLE T! RENAME COLUMN p TO s",
        "ALTER TABLE T! RENAME COLUMN old_s TO p",
        "ALTER TABLE T! RENAME COLUMN st.a TO c",
        "ALTER TABLE T! DROP COLUMN e",
        "ALTER TABLE T! ADD COLUMN (e float)",
        "ALTER TABLE T! DROP COLUMN st.b",
        "ALTER TABLE T! ADD COLUMN (st.b string, `odd name, {{x}}` int)".replace("{{", "(").replace("}}", ")"),
    )
    rows = bench.rows.frame(bench.spark, 4).selectExpr(
        "rid",
        "k",
        "s as p",
        "n",
        "d",
        "day",
        "at",
        "f",
        "b",
        "p as s",
        "named_struct('c', st.a, 'b', st.b) as st",
        "e",
        "n as `odd name, (x)`",
    )
    rows.write.format("delta").mode("append").save(bench.path)
    return made(bench, 3)


@kind("column mapping by id, partitioned")
def mapped_by_id(bench: Bench) -> Made:
    created(bench, "columnMapping.mode=id", more="PARTITIONED BY (p)")
    run(
        bench,
        "ALTER TABLE T! RENAME COLUMN k TO kk",
        "ALTER TABLE T! RENAME COLUMN p TO k",
        "ALTER TABLE T! RENAME COLUMN kk TO p",
    )
    rows = bench.rows.frame(bench.spark, 5).selectExpr(
        "rid", "k as p", "s", "n", "d", "day", "at", "f", "e", "b", "p as k", "st"
    )
    rows.write.format("delta").mode("append").save(bench.path)
    return made(bench, 2, column="p")


@kind("column mapping put on an old table")
def upgraded(bench: Bench) -> Made:
    created(bench)
    run(
        bench,
        "ALTER TABLE T! SET TBLPROPERTIES ('delta.columnMapping.mode'='name', 'delta.minReaderVersion'='2', "
        "'delta.minWriterVersion'='5')",
        "ALTER TABLE T! RENAME COLUMN s TO z",
        "ALTER TABLE T! ADD COLUMN (s string)",
    )
    bench.rows.frame(bench.spark, 3).selectExpr("*", "p as z").write.format("delta").mode("append").save(bench.path)
    return made(bench, 2)


@kind("type widening")
def widened(bench: Bench) -> Made:
    created(bench, "enableTypeWidening=true", "feature.timestampNtz=supported")
    run(
        bench,
        "ALTER TABLE T! ALTER COLUMN n TYPE bigint",
        "ALTER TABLE T! ALTER COLUMN e TYPE double",
        "ALTER TABLE T! ALTER COLUMN d TYPE decimal(20,5)",
        "ALTER TABLE T! ALTER COLUMN day TYPE timestamp_ntz",
    )
    rows = bench.rows.frame(bench.spark, 3).selectExpr(
        "rid",
        "k",
        "s",
        "n + 3000000000 as n",
        "d * 1.001 as d",
        "cast(day as timestamp_ntz) as day",
        "at",
        "f",
        "e + 0.1D as e",
        "b",
        "p",
        "st",
    )
    rows.selectExpr("*").withColumn("d", rows.d.cast("decimal(20,5)")).write.format("delta").mode("append").save(
        bench.path
    )
    return made(bench, 3)


@kind("deletion vectors")
def vectors(bench: Bench) -> Made:
    created(bench, "enableDeletionVectors=true")
    run(bench, "DELETE FROM T! WHERE k % 5 = 0 AND n < 100", "UPDATE T! SET s = 'changed' WHERE k % 11 = 0 AND n > 120")
    return made(bench, 3, 4)


@kind("clustering")
def clustered(bench: Bench) -> Made:
    created(bench, more="CLUSTER BY (k, n)")
    run(bench, "OPTIMIZE T!")
    write(bench, 4)
    return made(bench, 2)


@kind("change data feed")
def fed(bench: Bench) -> Made:
    created(bench, "enableChangeDataFeed=true")
    run(bench, "DELETE FROM T! WHERE k % 9 = 1", "UPDATE T! SET s = 'fed' WHERE n % 10 = 3")
    result = made(bench, 3)
    feed = {"readChangeFeed": "true", "startingVersion": "1"}

    def changes() -> Any:
        read = bench.spark.read.format("delta").options(**feed).load(bench.path)
        return read.selectExpr("concat(rid, _change_type, _commit_version) as rid", "k", "s", "n")

    result.add = _unchanged(result.add, changes)
    return result


def _unchanged(add: Any, changes: Any) -> Any:
    """Return `add` that also compares what a change feed has before and after."""

    def checked() -> Any:
        before = sorted(map(repr, changes().collect()))
        done = add()
        assert sorted(map(repr, changes().collect())) == before, "the change feed shows changes"
        return done

    return checked


@kind("in-commit timestamps, as of times")
def stamped(bench: Bench) -> Made:
    created(bench, batches=1)
    run(bench, "ALTER TABLE T! SET TBLPROPERTIES ('delta.enableInCommitTimestamps'='true')")
    for batch in range(1, 5):
        time.sleep(1.1)
        write(bench, batch)
    history = {
        row.version: row.timestamp for row in bench.spark.sql(f"DESCRIBE HISTORY delta.`{bench.path}`").collect()
    }
    for number, version in enumerate(versions(bench)):  # as after a copy: the files' times say nothing
        os.utime(Path(bench.path, "_delta_log", f"{version:020}.json"), times=(2e9 - number, 2e9 - number))
    result = made(bench)
    for version in (3, 4, 5):
        moment = f"{history[version]:%Y-%m-%d %H:%M:%S.%f}"
        result.views.append(
            View(
                lambda m=moment: seen(bench, timestampAsOf=m),
                bench.path,
                {"as_of": moment.replace(" ", "T") + "Z"},
                f"as of the time of version {version}",
            )
        )
    return result


@kind("as of times, by the log's files")
def timed(bench: Bench) -> Made:
    created(bench, "enableInCommitTimestamps=false", batches=4)
    start = int(time.time()) - 3600
    for number, version in enumerate(versions(bench)):
        at = start + number * 60
        os.utime(Path(bench.path, "_delta_log", f"{version:020}.json"), times=(at, at))
    result = made(bench)
    for seconds, label in ((start + 130, "between 2 and 3"), (start + 60, "exactly 1")):
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
        result.views.append(
            View(
                lambda m=moment: seen(bench, timestampAsOf=m),
                bench.path,
                {"as_of": moment.replace(" ", "T") + "Z"},
                label,
            )
        )
    return result


@kind("shallow clone")
def cloned(bench: Bench) -> Made:
    source = Bench(bench.spark, bench.work, bench.rows, bench.name + "-source of clone")
    created(source, more="PARTITIONED BY (p)")
    bench.spark.sql(f"CREATE TABLE delta.`{bench.path}` SHALLOW CLONE delta.`{source.path}`")
    return made(bench)


@kind("shallow clone, changed on both sides")
def diverged(bench: Bench) -> Made:
    source = Bench(bench.spark, bench.work, bench.rows, bench.name + "-source")
    created(source)
    bench.spark.sql(f"CREATE TABLE delta.`{bench.path}` SHALLOW CLONE delta.`{source.path}`")
    write(source, 3)
    run(source, "DELETE FROM T! WHERE k % 3 = 0")
    write(bench, 4)
    run(bench, "DELETE FROM T! WHERE k % 5 = 0")
    return made(bench, 0)


@kind("checkpoints with statistics as structs only")
def structs(bench: Bench) -> Made:
    created(
        bench,
        "checkpoint.writeStatsAsStruct=true",
        "checkpoint.writeStatsAsJson=false",
        "checkpointInterval=2",
        batches=5,
    )
    return made(bench, 3)


@kind("v2 checkpoints")
def v2(bench: Bench) -> Made:
    created(bench, "checkpointPolicy=v2", "checkpointInterval=2", batches=5)
    return made(bench, 4)


@kind("a log that starts at a checkpoint")
def cleaned(bench: Bench) -> Made:
    created(bench, "checkpointInterval=3", batches=5)
    for version in versions(bench)[:3]:
        Path(bench.path, "_delta_log", f"{version:020}.json").unlink()
        Path(bench.path, "_delta_log", f".{version:020}.json.crc").unlink(missing_ok=True)
    return made(bench, 4)


@kind("column defaults, generated columns, constraints")
def generated(bench: Bench) -> Made:
    tables = bench.spark._jvm.io.delta.tables.DeltaTable  # SQL makes no generated columns
    builder = tables.create(bench.spark._jsparkSession).location(bench.path)
    for name, kind_ in (("rid", "bigint"), ("k", "bigint"), ("s", "string"), ("n", "int"), ("day", "date")):
        builder.addColumn(name, kind_)
    builder.addColumn(tables.columnBuilder("tens").dataType("int").generatedAlwaysAs("cast(n / 10 as int)").build())
    builder.execute()
    run(
        bench,
        "ALTER TABLE T! SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "ALTER TABLE T! ALTER COLUMN k SET DEFAULT 7",
    )
    for batch in range(2):
        rows = bench.rows.frame(bench.spark, batch).select("rid", "k", "s", "n", "day")
        rows.write.format("delta").mode("append").save(bench.path)
    run(bench, "ALTER TABLE T! ADD CONSTRAINT positive CHECK (rid > 0)")
    return made(bench, 3)


@kind("row tracking")
def tracked(bench: Bench) -> Made:
    created(bench, "enableRowTracking=true")
    run(bench, "UPDATE T! SET s = 'tracked' WHERE n % 10 = 3")
    return made(bench, 2)


@kind("RESTORE to an earlier version")
def restored(bench: Bench) -> Made:
    created(bench)
    run(bench, "DELETE FROM T! WHERE n < 100", "RESTORE TABLE T! TO VERSION AS OF 2")
    write(bench, 5)
    return made(bench, 4)


@kind("another schema written over it")
def overwritten(bench: Bench) -> Made:
    created(bench)
    rows = bench.rows.frame(bench.spark, 3).selectExpr("rid", "s as k", "k as s", "cast(n as string) n", "p", "day")
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(bench.path)
    return made(bench, 3)


@kind("IcebergCompatV2")
def compatible(bench: Bench) -> Made:
    created(bench, "columnMapping.mode=name", "enableIcebergCompatV2=true", "enableDeletionVectors=false")
    return made(bench, 2)


@kind("columns with collations")
def collated(bench: Bench) -> Made:
    bench.spark.conf.set("spark.databricks.delta.schema.typeCheck.enabled", "false")  # others write such tables
    created(
        bench,
        columns="rid bigint, k bigint, s string COLLATE UTF8_LCASE, p string COLLATE UTF8_LCASE, n int",
        batches=0,
    )
    taken = ["rid", "k", "collate(s, 'UTF8_LCASE') as s", "collate(p, 'UTF8_LCASE') as p", "n"]
    for batch in range(3):
        rows = bench.rows.frame(bench.spark, batch).selectExpr(*taken)
        rows.write.format("delta").mode("append").save(bench.path)
    # A writer that does not say so in its files.
    rows = bench.rows.table(3).select(["rid", "k", "s", "p", "n"])
    write_deltalake(bench.path, rows, mode="append")
    return made(bench, 2, column="s")


@kind("columns that only newer files have")
def grown(bench: Bench) -> Made:
    created(bench, columns="rid bigint, k bigint, n int", batches=0)
    first = bench.rows.frame(bench.spark, 0).select("rid", "k", "n")
    first.write.format("delta").mode("append").save(bench.path)
    write(bench, 1, mergeSchema="true")
    return made(bench, 1)
