"""Asks one release of an engine, with nothing of ours beside it: a line of JSON for each line of JSON.

    python -S -P ask_release.py ENGINE

A line has the file, the question, and the values, each by a file and the row that holds it. The answer has the numbers
of the rows that the engine finds, those that it no longer finds after a DELETE or an UPDATE, or its error.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

QUERIES = {
    "=": "SELECT k FROM {source} WHERE v = {first}",
    "IN": "SELECT k FROM {source} WHERE v IN ({literals})",
    "join": "SELECT t.k FROM {source} t JOIN {wanted} w ON t.v = w.v",
}


class Sql:
    """An engine whose conditions are SQL."""

    def find(self, question, file, values):
        named = {"source": self.source(file), "wanted": ""}
        if "wanted" in QUERIES[question]:
            ((held, row),) = values
            named["wanted"] = self.build_side(f"SELECT v FROM {self.source(held)} WHERE k = {row}")
        else:
            named["literals"] = ", ".join(self.known_literal(*value) for value in values)
            named["first"] = self.known_literal(*values[0])
        return self.rows(QUERIES[question].format(**named))

    @functools.cache  # noqa: B019, there is one
    def known_literal(self, file, row):
        return self.literal(file, row)

    def build_side(self, sql):
        return f"({sql})"


class DuckDB(Sql):
    def __init__(self):
        import duckdb

        self.version = duckdb.__version__
        self.db = duckdb.connect()
        self.db.execute("SET TimeZone = 'UTC'")

    def source(self, file):
        return f"'{file}'"

    def literal(self, file, row):
        sql = f"SELECT v::VARCHAR, typeof(v) FROM '{file}' WHERE k = {row}"
        ((text, kind),) = self.db.execute(sql).fetchall()
        return f"""CAST('{text.replace("'", "''")}' AS {kind})"""

    def build_side(self, sql):
        self.db.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS {sql}")
        return "wanted"

    def rows(self, sql):
        return [k for (k,) in self.db.execute(sql).fetchall()]


class DataFusion(Sql):
    def __init__(self):
        import datafusion

        self.version = datafusion.__version__
        self.context = datafusion.SessionContext()
        self.tables = {}

    def source(self, file):
        if file not in self.tables:
            self.tables[file] = f"t{len(self.tables)}"
            self.context.register_parquet(self.tables[file], file)
        return self.tables[file]

    def frame(self, file):
        return self.context.table(self.source(file))

    @functools.cache  # noqa: B019, there is one
    def expression(self, file, row):
        from datafusion import col, lit

        (batch,) = [b for b in self.frame(file).filter(col("k") == lit(row)).select("v").collect() if b.num_rows]
        return lit(batch.column(0)[0])

    def find(self, question, file, values):
        from datafusion import col, functions

        if question not in ("=", "IN"):
            return super().find(question, file, values)
        literals = [self.expression(*value) for value in values]
        condition = col("v") == literals[0] if question == "=" else functions.in_list(col("v"), literals)
        return self.ks(self.frame(file).filter(condition).select("k"))

    def build_side(self, sql):
        self.context.sql("DROP TABLE IF EXISTS wanted").collect()
        self.context.sql(f"CREATE TABLE wanted AS {sql}").collect()
        return "wanted"

    def rows(self, sql):
        return self.ks(self.context.sql(sql))

    def ks(self, frame):
        return [k for batch in frame.collect() for k in batch.column(0).to_pylist()]


DELTA_TYPES = {
    "Int8": "TINYINT",
    "Int16": "SMALLINT",
    "Int32": "INT",
    "Int64": "BIGINT",
    "Float32": "REAL",
    "Float64": "DOUBLE",
    "Utf8": "VARCHAR",
    "Utf8View": "VARCHAR",
    "Date32": "DATE",
}


class DeltaRs(Sql):
    def __init__(self):
        import deltalake

        self.version = deltalake.__version__

    @functools.cache  # noqa: B019, there is one
    def table(self, folder):
        from deltalake import DeltaTable

        return DeltaTable(folder)

    def source(self, folder):
        return "t" + re.sub(r"\W", "_", folder).lower()

    def arrow(self, sql, *folders):
        import pyarrow as pa
        from deltalake import QueryBuilder

        builder = QueryBuilder()
        for folder in folders:
            builder = builder.register(self.source(folder), self.table(folder)) or builder
        found = builder.execute(sql)
        batches = found.fetchall() if hasattr(found, "fetchall") else found
        return [pa.record_batch(batch) for batch in batches]

    def literal(self, folder, row):
        types = f"SELECT arrow_typeof(v) AS t FROM {self.source(folder)} WHERE k = {row}"
        kind = self.arrow(types, folder)[0].column(0)[0].as_py()
        text = "encode(v, 'hex')" if "Binary" in kind else "CAST(v AS VARCHAR)"
        sql = f"SELECT {text} AS x FROM {self.source(folder)} WHERE k = {row}"
        text = self.arrow(sql, folder)[0].column(0)[0].as_py().replace("'", "''")
        if "Binary" in kind:
            return f"X'{text}'"
        name = DELTA_TYPES.get(kind, kind.replace("Decimal128", "DECIMAL"))
        return f"'{text}'" if "Timestamp" in kind else f"CAST('{text}' AS {name})"

    def find(self, question, folder, values):
        self.folders = dict.fromkeys([folder, *(held for held, _ in values)])
        if question in QUERIES:
            return super().find(question, folder, values)
        predicate = f"v = {self.known_literal(*values[0])}"
        before = self.rows(f"SELECT k FROM {self.source(folder)}")
        with tempfile.TemporaryDirectory() as copy:
            self.folders = [str(shutil.copytree(folder, copy, dirs_exist_ok=True))]
            if question == "delete":
                self.table(copy).delete(predicate)
            else:
                self.table(copy).update(updates={"k": "-1"}, predicate=predicate)
            self.table.cache_clear()
            left = self.rows(f"SELECT k FROM {self.source(copy)}")
        return set(before) - set(left)

    def rows(self, sql):
        return [k for batch in self.arrow(sql, *self.folders) for k in batch.column(0).to_pylist()]


class ClickHouse(Sql):
    def __init__(self):
        self.start()
        ((version,),) = self.query("SELECT version()")
        self.version = ".".join(version.split(".")[:3])

    def start(self):
        from chdb.session import Session

        self.session = Session()  # chdb.query() starts everything again each time

    def query(self, sql):
        try:
            said = str(self.session.query(sql, "JSONCompact"))
        except Exception:
            self.session.close()
            self.start()  # or the next answer may have another's lines, too
            raise
        return json.loads(said)["data"] if said else []

    def source(self, file):
        return f"file('{file}', Parquet)"

    @functools.cache  # noqa: B019, there is one
    def type_of(self, file):
        ((kind,),) = self.query(f"SELECT toTypeName(v) FROM {self.source(file)} LIMIT 1")
        return re.sub(r"^Nullable\((.*)\)$", r"\1", kind)

    def literal(self, file, row):
        ((text,),) = self.query(f"SELECT hex(toString(v)) FROM {self.source(file)} WHERE k = {row}")
        kind = self.type_of(file).replace("'", "\\'")
        return f"CAST(unhex('{text}'), '{kind}')"

    def find(self, question, file, values):
        if question != "default":
            return super().find(question, file, values)
        kind = self.type_of(file).replace("'", "\\'")
        source = f"file('{file}', Parquet, 'k Int64, v {kind}')"
        return self.rows(f"SELECT k FROM {source} WHERE v = defaultValueOfTypeName('{kind}')")

    def rows(self, sql):
        return [int(k) for (k,) in self.query(sql)]


class Spark(Sql):
    def __init__(self):
        import pyspark
        from pyspark.sql import SparkSession

        self.version = pyspark.__version__
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.codegen.wholeStage": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        builder = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.views = {}

    def source(self, file):
        if file not in self.views:
            self.spark.read.parquet(file).createOrReplaceTempView(f"t{len(self.views)}")
            self.views[file] = f"t{len(self.views)}"
        return self.views[file]

    def literal(self, file, row):
        rows = self.spark.sql(f"SELECT v FROM {self.source(file)} WHERE k = {row}")
        kind = rows.schema["v"].dataType.simpleString()
        text = rows.selectExpr(f"hex({'v' if kind == 'binary' else 'CAST(v AS STRING)'}) AS x").first()[0]
        return f"unhex('{text}')" if kind == "binary" else f"CAST(decode(unhex('{text}'), 'utf-8') AS {kind})"

    def rows(self, sql):
        return [row.k for row in self.spark.sql(sql).collect()]


class Polars:
    def __init__(self):
        import polars

        self.version = polars.__version__

    @functools.cache  # noqa: B019, there is one
    def value(self, file, row):
        import polars as pl

        return pl.read_parquet(file, columns=["k", "v"]).filter(pl.col("k") == row)["v"]

    def find(self, question, file, values):
        import polars as pl

        rows, held = pl.scan_parquet(file), pl.concat([self.value(*value) for value in values])
        if question == "=":
            rows = rows.filter(pl.col("v") == pl.lit(held))
        elif question == "IN":
            is_old = [int(part) for part in self.version.split(".")[:2]] < [1, 31]
            rows = rows.filter(pl.col("v").is_in(held if is_old else held.implode()))
        else:
            rows = rows.join(held.to_frame("v").lazy(), on="v")
        return rows.select("k").collect()["k"].to_list()


def said(error):
    """Returns the first words of an error, without paths."""
    error = getattr(error, "java_exception", error)
    (line, *_) = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"(file:)?/[^\s'\",)]*", "…", line)[:150].strip()


def main(name):
    out, sys.stdout = sys.stdout, sys.stderr
    engine = {
        "ClickHouse": ClickHouse,
        "DataFusion": DataFusion,
        "DuckDB": DuckDB,
        "Polars": Polars,
        "Spark": Spark,
        "deltalake": DeltaRs,
    }[name]()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked["question"] == "version":
                answer = {"version": engine.version}
            else:
                values = [tuple(value) for value in asked["values"]]
                answer = {"rows": sorted(engine.find(asked["question"], asked["file"], values))}
        except BaseException as error:  # a panic of Rust is no Exception
            traceback.print_exc()
            answer = {"error": said(error)}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    assert Path(sys.argv[0]).name == "ask_release.py"
    main(sys.argv[1])
