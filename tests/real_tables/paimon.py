"""Paimon tables, written by Paimon's connector for Spark: of 0.9, the newest that Maven has."""

from __future__ import annotations

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
    "file.format": "parquet",
    "file.block-size": "8 kb",
    "parquet.block.size": "8192",
    "parquet.page.size.row.check.min": "50",
    "parquet.block.size.row.check.min": "50",
    "bucket": "-1",
}
INDEXED = {
    "file-index.bloom-filter.columns": "k,s",
    "file-index.bloom-filter.k.items": "1000",
    "file-index.bloom-filter.s.items": "1000",
}
KEYED = {"primary-key": "k", "bucket": "1"}


class Table:
    """A table of the catalog `paimon`."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.spark = bench, bench.spark
        self.name = f"paimon.n.{bench.name}"
        self.spark.sql("CREATE DATABASE IF NOT EXISTS paimon.n")
        warehouse = self.spark.conf.get("spark.sql.catalog.paimon.warehouse").removeprefix("file:")
        self.path = f"{warehouse}/n.db/{bench.name}"
        self.is_keyed = False

    def create(self, *options: dict[str, str], columns: str = COLUMNS, more: str = "") -> None:
        given = dict(SMALL)
        for each in options:
            given |= each
        self.is_keyed = "primary-key" in given
        listed = ", ".join(f"'{key}'='{value}'" for key, value in given.items())
        self.spark.sql(f"CREATE TABLE {self.name} ({columns}) {more} TBLPROPERTIES ({listed})")

    def write(self, batch: int, *select: str, keys: range | None = None, count: int = 260) -> None:
        rows = self.bench.rows.frame(self.spark, batch, count, keys=keys)
        rows = rows.selectExpr(*select) if select else rows
        rows.createOrReplaceTempView("incoming")
        self.spark.sql(f"INSERT INTO {self.name} SELECT * FROM incoming")

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement.replace("T!", self.name).replace("t!", f"table => 'n.{self.bench.name}'"))

    def seen(self, at: str = "", branch: str = "") -> Any:
        file = "cast(null as string)" if self.is_keyed else "url_decode(replace(__paimon_file_path, '+', '%2B'))"
        name = f"paimon.n.`{self.bench.name}$branch_{branch}`" if branch else self.name
        columns = ", ".join(f"`{column}`" for column in self.spark.sql(f"SELECT * FROM {name} {at}").columns)
        frame = self.spark.sql(f"SELECT {columns}, {file} AS _file FROM {name} {at}")
        # What was read goes on as plain rows: Paimon's optimizer fails on some conditions over older states.
        return self.spark.createDataFrame(frame.collect(), frame.schema)

    def made(self, *earlier: int | str, column: str = "k") -> Made:
        """Return the table as it is now, and as of snapshots and tags."""
        views = [View(self.seen, self.path)]
        for at in earlier:
            text = f"VERSION AS OF {at}" if isinstance(at, int) else f"VERSION AS OF '{at}'"
            views.append(View(lambda t=text: self.seen(t), self.path, {"as_of": at}, f"as of {at}"))
        attach = lambda: parquet_bloom.paimon.attach_index(self.path, [column], ndv=1000)  # noqa: E731
        return Made(views, column, attach, "attach")


@kind("append")
def append(bench: Bench) -> Made:
    table = Table(bench)
    table.create()
    for batch in range(3):
        table.write(batch)
    return table.made(1, 2)


@kind("append, with indexes")
def indexed(bench: Bench) -> Made:
    table = Table(bench)
    table.create(INDEXED)
    for batch in range(3):
        table.write(batch)
    return table.made(1)


@kind("append, partitions of odd names, overwritten")
def parted(bench: Bench) -> Made:
    table = Table(bench)
    table.create(more="PARTITIONED BY (p, n)")
    columns = ["rid", "k", "s", "d", "day", "at", "f", "e", "b", "st", "p", "n % 3 as n"]
    listed = [c if c != "n % 3 as n" else "cast(n % 3 as int) as n" for c in columns]
    order = [f.name for f in bench.spark.table(table.name).schema.fields]
    by_name = {c.rpartition(" ")[2]: c for c in listed}
    for batch in range(2):
        table.write(batch, *(by_name[name] for name in order), count=120)
    return table.made(1)


@kind("append, deletion vectors")
def vectors(bench: Bench) -> Made:
    table = Table(bench)
    table.create({"deletion-vectors.enabled": "true"})
    for batch in range(2):
        table.write(batch)
    table.run("DELETE FROM T! WHERE k % 5 = 0", "UPDATE T! SET s = 'changed' WHERE n < 40")
    return table.made(2)


@kind("append, DELETE and UPDATE by rewriting")
def rewritten(bench: Bench) -> Made:
    table = Table(bench)
    table.create(INDEXED)
    for batch in range(2):
        table.write(batch)
    table.run("DELETE FROM T! WHERE k % 5 = 0", "UPDATE T! SET s = 'changed' WHERE n < 40")
    return table.made(2)


@kind("append: rename, swap, drop and re-add, type change")
def evolved(bench: Bench) -> Made:
    table = Table(bench)
    table.create()
    for batch in range(2):
        table.write(batch)
    _evolve(table)
    return table.made(2)


def _evolve(table: Table, keys: range | None = None) -> None:
    for change in (
        "RENAME COLUMN s TO z",
        "RENAME COLUMN p TO s",
        "RENAME COLUMN z TO p",
        "DROP COLUMN d",
        "ADD COLUMN d decimal(12,2)",
        "ALTER COLUMN n TYPE bigint",
        "ALTER COLUMN e TYPE double",
    ):
        table.run(f"ALTER TABLE T! {change}")
    order = [field.name for field in table.spark.table(table.name).schema.fields]
    select = {"n": "n + 3000000000 as n", "p": "s as p", "s": "p as s", "d": "cast(d as decimal(12,2)) as d"}
    select["e"] = "e + 0.1D as e"
    table.write(4, *(select.get(name, name) for name in order), keys=keys)


@kind("append, compacted, tags")
def compacted(bench: Bench) -> Made:
    table = Table(bench)
    table.create({"compaction.min.file-num": "2"})
    for batch in range(3):
        table.write(batch)
    table.run("CALL paimon.sys.create_tag(t!, tag => 'old', snapshot => 2)", "CALL paimon.sys.compact(t!)")
    return table.made("old", 2)


@kind("append, branches")
def branched(bench: Bench) -> Made:
    table = Table(bench)
    table.create()
    table.write(0)
    table.run("CALL paimon.sys.create_tag(t!, tag => 'old', snapshot => 1)")
    table.run("CALL paimon.sys.create_branch(t!, branch => 'other', tag => 'old')")
    rows = bench.rows.frame(bench.spark, 1)
    rows.createOrReplaceTempView("incoming")
    bench.spark.sql(f"INSERT INTO paimon.n.`{bench.name}$branch_other` SELECT * FROM incoming")
    table.write(2)
    return table.made("old")


@kind("a branch")
def branch(bench: Bench) -> Made:
    made = branched(bench)
    table = Table(bench)
    made.views = [View(lambda: table.seen(branch="other"), table.path, {"as_of": "other"}, "branch other")]
    made.add = None
    return made


def _keyed(bench: Bench, *options: dict[str, str], more: str = "", **made: Any) -> Table:
    table = Table(bench)
    table.create(KEYED, *options, more=more)
    for batch, keys in enumerate((range(0, 900, 3), range(300, 500, 3), range(0, 1000, 7))):
        table.write(batch, keys=keys)
    return table


@kind("primary key")
def keyed(bench: Bench) -> Made:
    return _keyed(bench).made(1, 2)


@kind("primary key, indexes, compacted")
def keyed_indexed(bench: Bench) -> Made:
    table = _keyed(bench, INDEXED)
    table.run("CALL paimon.sys.compact(t!)")
    table.write(5, keys=range(200, 300))
    return table.made(2)


@kind("primary key, deletion vectors")
def keyed_vectors(bench: Bench) -> Made:
    table = _keyed(bench, {"deletion-vectors.enabled": "true"}, INDEXED)
    table.run("CALL paimon.sys.compact(t!)")
    table.write(5, keys=range(200, 300))
    return table.made()


@kind("primary key, partial-update")
def keyed_partial(bench: Bench) -> Made:
    return _keyed(bench, {"merge-engine": "partial-update"}).made(1)


@kind("primary key, aggregation")
def keyed_sums(bench: Bench) -> Made:
    return _keyed(bench, {"merge-engine": "aggregation", "fields.n.aggregate-function": "max"}).made(1)


@kind("primary key, first-row")
def keyed_first(bench: Bench) -> Made:
    table = _keyed(bench, {"merge-engine": "first-row"})
    table.run("CALL paimon.sys.compact(t!)")  # rows are seen once they are compacted
    return table.made()


@kind("primary key: rename, swap, drop and re-add, type change")
def keyed_evolved(bench: Bench) -> Made:
    table = _keyed(bench)
    _evolve(table, range(100, 700, 3))
    return table.made(1)


@kind("primary key, deletion vectors, evolved, compacted")
def keyed_vectors_evolved(bench: Bench) -> Made:
    table = _keyed(bench, {"deletion-vectors.enabled": "true"})
    table.run("CALL paimon.sys.compact(t!)")
    _evolve(table, range(100, 700, 3))
    table.run("CALL paimon.sys.compact(t!)")
    return table.made()


__all__ = ["KINDS", "Path"]
