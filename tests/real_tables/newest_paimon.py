"""Tables of the newest Paimon, which has no connector for Spark on Maven: written and read by its bundle in Java."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from real_tables.asking import View
from real_tables.kinds import Bench, Build, Made
from real_tables.sessions import JARS

import parquet_bloom

KINDS = {
    "append: rename, swap, drop and re-add, type change": ("append", ("2", "3")),
    "append, row tracking": ("row_tracking", ("2",)),
    "data evolution: some columns written again": ("data_evolution", ("2",)),
    "branches and tags": ("branches", ("old",)),
    "a branch": ("branches", ("branch:other",)),
    "primary key, evolved": ("pk", ("2",)),
    "primary key, deletion vectors, evolved": ("pk_vectors", ("2",)),
    "primary key, deletion vectors of 64-bit numbers": ("pk_long_vectors", ("2",)),
    "primary key, keys only in Paimon's own columns (thin mode)": ("pk_thin", ("2",)),
    "primary key, thin mode, deletion vectors": ("pk_thin_vectors", ("2",)),
    "primary key, first-row": ("pk_first_row", ()),
    "primary key, partial-update": ("pk_partial", ("2",)),
    "primary key, sequence field": ("pk_sequence", ("2",)),
    "primary key, deletion vectors beside the data files": ("pk_vectors_beside", ("2",)),
    "option branch": ("state_branch", ()),
    "option scan.primary-branch": ("state_primary_branch", ()),
    "option scan.fallback-branch": ("state_fallback", ()),
    "option scan.snapshot-id": ("state_snapshot", ()),
    "option scan.tag-name": ("state_tag", ()),
    "option scan.timestamp-millis": ("state_time", ()),
    "option incremental-between": ("state_changes", ()),
    "chain table": ("chain", ()),
}


class Java:
    """The program, of which questions are asked line by line."""

    def __init__(self, process: subprocess.Popen[str], warehouse: Path) -> None:
        self._process, self.warehouse = process, warehouse
        self._made: set[str] = set()

    def ask(self, question: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer
        return answer

    def make(self, name: str) -> None:
        if name not in self._made:
            self.ask(f"make {name}")
            self._made.add(name)


@contextmanager
def java(work: Path) -> Iterator[Java]:
    """Yield the program, with a warehouse of its own."""
    spark = Path(f"{JARS}/pyspark-3.5/pyspark/jars")
    jars = [Path(f"{JARS}/paimon-bundle-1.4.2.jar"), *spark.glob("hadoop-client-*.jar"), *spark.glob("slf4j-api-*")]
    source = Path(__file__).with_name("RealPaimon.java")
    command = ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, jars)), str(source)]
    with (
        (work / "java.log").open("w") as log,
        subprocess.Popen(
            [*command, f"file:{work}/warehouse", f"{work}/scratch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            yield Java(process, work / "warehouse")
        finally:
            process.kill()


_NUMBERS = itertools.count()


def _frame(bench: Bench, answer: dict[str, Any]) -> Any:
    """Return what was read as a frame; it goes by a Parquet file, which no Python worker has to read."""
    columns = {}
    for place, (name, kind) in enumerate(answer["columns"]):
        type_, convert = _arrow(kind)
        values = [row[place] for row in answer["rows"]]
        columns[name] = pa.array([None if value is None else convert(value) for value in values], type_)
    path = bench.work / f"read-{next(_NUMBERS)}.parquet"
    pq.write_table(pa.table(columns), path)
    return bench.spark.read.parquet(str(path)).selectExpr("*", "cast(null as string) as _file")


def _arrow(kind: str) -> tuple[pa.DataType, Any]:
    """Return the Arrow type of one of Paimon's, and what makes its values of JSON's."""
    if found := re.match(r"DECIMAL\((\d+), ?(\d+)\)", kind):
        return pa.decimal128(int(found[1]), int(found[2])), decimal.Decimal
    plain = {"BIGINT": pa.int64(), "INT": pa.int32(), "FLOAT": pa.float32(), "DOUBLE": pa.float64()}
    name = kind.partition(" ")[0]
    if name == "DATE":
        return pa.date32(), lambda days: datetime.date(1970, 1, 1) + datetime.timedelta(days=days)
    return plain.get(name, pa.string()), lambda value: value


def built(program: Java, title: str) -> Build:
    """Return what makes a kind: the table as it is now, and as of snapshots, tags and branches."""
    name, earlier = KINDS[title]

    def build(bench: Bench) -> Made:
        program.make(name)
        path = f"{program.warehouse}/n.db/{name}"

        def view(at: str) -> View:
            options = {} if at == "-" else {"as_of": at.removeprefix("branch:")}
            return View(lambda: _frame(bench, program.ask(f"read {name} {at}")), path, options, at)

        views = [view(at) for at in ("-", *earlier)]
        if earlier and earlier[0].startswith("branch:"):
            views = views[1:]
        return Made(views, "k", lambda: parquet_bloom.paimon.attach_index(path, ["k"], ndv=1000), "attach")

    return build
