"""The engines that Python can call: each finds the rows of a file with a value, and writes a file with filters."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import engines
import pyarrow as pa
import pyarrow.parquet as pq
from kinds import ROW, ROW_GROUP_ROWS
from pyarrow import dataset


@dataclass(frozen=True)
class Question:
    """Which rows of `file` hold the value that the column `leaf` of `source` has in `ROW`?"""

    file: Path
    leaf: str
    source: Path

    @cached_property
    def path(self) -> str:
        """The leaf without the steps that lists and maps put in."""
        return self.leaf.removesuffix(".list.element").partition(".key_value")[0]


class DuckDB:
    name, package = "DuckDB", "duckdb"
    counts = "row_groups"
    conditions: ClassVar = {"l": "l[1] = {}", "m": "m['k'] = {}", "n": "map_contains(n, {})"}

    def __init__(self) -> None:
        import duckdb

        self.db = duckdb.connect(config={"threads": 1})
        self.db.execute("SET TimeZone = 'UTC'")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.db.execute(sql).fetchall()

    def literal(self, question: Question, column: str) -> str:
        sql = f"SELECT {column}::VARCHAR, typeof({column}) FROM '{question.source}' WHERE k = {ROW}"
        ((text, kind),) = self.rows(sql)
        return f"""CAST('{text.replace("'", "''")}' AS {kind})"""

    def query(self, question: Question) -> str:
        column = {"l": "l[1]", "m": "m['k']", "n": "map_keys(n)[1]"}.get(question.path, question.path)
        condition = self.conditions.get(question.path, f"{question.path} = {{}}")
        return f"SELECT k FROM '{question.file}' WHERE {condition.format(self.literal(question, column))}"

    def find(self, question: Question) -> list[int]:
        return [k for (k,) in self.rows(f"{self.query(question)} ORDER BY k")]

    def count(self, question: Question) -> int:
        return engines.duckdb_row_groups_scanned(self.query(question))

    def write(self, source: Path, output: Path) -> None:
        """Writes every value ten times, because only dictionaries get filters."""
        self.db.execute(
            f"COPY (SELECT v FROM '{source}', range(10)) TO '{output}'"
            " (FORMAT parquet, ROW_GROUP_SIZE 2048, DICTIONARY_SIZE_LIMIT 1000000)"
        )


class DataFusion:
    name, package = "DataFusion", "datafusion"
    counts = "row_groups"
    conditions: ClassVar = {"l": "array_has(l, {})", "n": "array_has(map_keys(n), {})"}
    columns: ClassVar = {"s.v": "s['v']", "l": "l[1]", "m": "m['k']", "n": "map_keys(n)[1]"}

    def __init__(self) -> None:
        from datafusion import SessionConfig, SessionContext

        self.context = SessionContext(SessionConfig().with_target_partitions(1)).enable_url_table()

    def table(self, sql: str, **values: Any) -> pa.Table:
        frame = self.context.sql(sql, param_values=values)
        return pa.Table.from_batches(frame.collect(), frame.schema())

    def query(self, question: Question) -> tuple[str, dict[str, Any]]:
        column = self.columns.get(question.path, question.path)
        where = f"FROM '{question.source}' WHERE k = {ROW}"
        value = self.table(f"SELECT {column} AS x {where}")["x"]
        if "interval" in str(value.type):  # of which there are no parameters
            (text,) = self.table(f"SELECT CAST({column} AS VARCHAR) AS x {where}")["x"].to_pylist()
            literal, values = f"INTERVAL '{text}'", {}
        else:
            literal, values = "$v", {"v": value[0]}
        condition = self.conditions.get(question.path, f"{column} = {{}}").format(literal)
        return f"SELECT k FROM '{question.file}' WHERE {condition}", values

    def find(self, question: Question) -> list[int]:
        sql, values = self.query(question)
        return self.table(f"{sql} ORDER BY k", **values)["k"].to_pylist()

    def count(self, question: Question) -> int:
        sql, values = self.query(question)
        plan = "".join(map(str, self.table(f"EXPLAIN ANALYZE {sql}", **values).to_pylist()))
        return int(re.findall(r"row_groups_pruned_bloom_filter=\d+ total → (\d+) matched", plan)[0])

    def write(self, source: Path, output: Path) -> None:
        options = "'format.max_row_group_size' '100', 'format.bloom_filter_on_write' 'true'"
        options += ", 'format.bloom_filter_ndv' '100', 'format.bloom_filter_fpp' '0.01'"
        self.table(f"COPY (SELECT k, v FROM '{source}') TO '{output}' STORED AS PARQUET OPTIONS ({options})")


class ClickHouse:
    name, package = "ClickHouse", "chdb"
    counts = "row_groups"
    conditions: ClassVar = {"l": "has(l, {})", "m": "m['k'] = {}", "n": "mapContains(n, {})"}
    columns: ClassVar = {"l": "l[1]", "m": "m['k']", "n": "mapKeys(n)[1]"}
    settings = "SETTINGS max_threads = 1, use_parquet_metadata_cache = 0, session_timezone = 'UTC'"
    only_filters = f"{settings}, input_format_parquet_dictionary_filter_push_down = 0"

    def __init__(self) -> None:
        ((clickhouse,),) = engines.clickhouse("SELECT version()")
        self.version = f"{version(self.package)} (ClickHouse {clickhouse})"

    def query(self, question: Question) -> str:
        column = self.columns.get(question.path, question.path)
        kind = f"SELECT hex(toString({column})), toTypeName({column}) FROM file('{question.source}', Parquet)"
        ((text, kind),) = engines.clickhouse(f"{kind} WHERE k = {ROW} {self.settings}")
        kind = kind.replace("\\", "\\\\").replace("'", "\\'")
        condition = self.conditions.get(question.path, f"{column} = {{}}")
        literal = f"CAST(unhex('{text}'), '{kind}')"
        return f"SELECT k FROM file('{question.file}', Parquet) WHERE {condition.format(literal)}"

    def find(self, question: Question) -> list[int]:
        found = engines.clickhouse(f"{self.query(question)} ORDER BY k {self.only_filters}")
        return [int(k) for (k,) in found]

    def count(self, question: Question) -> int:
        return engines.clickhouse_pages_read(self.query(question)) // 2  # a row group is one page of k and one of v

    def write(self, source: Path, output: Path) -> None:
        engines.clickhouse(
            f"INSERT INTO FUNCTION file('{output}', Parquet) SELECT v FROM file('{source}', Parquet)"
            " SETTINGS output_format_parquet_row_group_size = 100, max_block_size = 100, max_threads = 1,"
            " output_format_parquet_bloom_filter_bits_per_value = 10.5"
        )


class Spark:
    name, package = "Spark", "pyspark"
    counts = "row_groups"
    conditions: ClassVar = {"l": "array_contains(l, {})", "m": "m['k'] = {}", "n": "map_contains_key(n, {})"}
    columns: ClassVar = {"l": "l[0]", "m": "m['k']", "n": "map_keys(n)[0]"}

    def __init__(self) -> None:
        self.spark = engines.spark()
        self.spark.conf.set("spark.sql.timeType.enabled", "true")
        self.spark.conf.set("spark.sql.codegen.wholeStage", "false")
        self.spark.sparkContext.setLogLevel("OFF")

    def query(self, question: Question) -> Any:
        column = self.columns.get(question.path, question.path)
        df = self.spark.read.parquet(str(question.source)).where(f"k = {ROW}")
        kind = df.selectExpr(f"{column} AS x").schema["x"].dataType.simpleString()
        text = df.selectExpr(f"hex({column if kind == 'binary' else f'CAST({column} AS STRING)'}) AS x").first()[0]
        literal = f"unhex('{text}')" if kind == "binary" else f"CAST(decode(unhex('{text}'), 'utf-8') AS {kind})"
        condition = self.conditions.get(question.path, f"{column} = {{}}").format(literal)
        return self.spark.read.parquet(str(question.file)).where(condition).select("k")

    def find(self, question: Question) -> list[int]:
        return sorted(row.k for row in self.query(question).collect())

    def count(self, question: Question) -> int:
        _, scanned = engines.spark_rows_scanned(self.query(question))
        return scanned // ROW_GROUP_ROWS

    def write(self, source: Path, output: Path) -> None:
        options = {
            "parquet.bloom.filter.enabled#v": "true",
            "parquet.bloom.filter.expected.ndv#v": "100",
            "parquet.enable.dictionary": "false",
            "parquet.block.row.count.limit": "100",
            "parquet.page.size.row.check.min": "10",
        }
        frame = self.spark.read.parquet(str(source)).select("v").coalesce(1)
        with tempfile.TemporaryDirectory() as folder:
            frame.write.options(**options).mode("append").parquet(folder)
            (part,) = Path(folder).glob("part-*.parquet")
            shutil.copyfile(part, output)


class Polars:
    name, package = "Polars", "polars"

    def find(self, question: Question) -> list[int]:
        import polars as pl

        try:
            return self._find(question)
        except pl.exceptions.PanicException as error:  # is no Exception
            raise RuntimeError(str(error)) from error

    def _find(self, question: Question) -> list[int]:
        import polars as pl

        column = pl.col("v")
        match question.path:
            case "s.v":
                column = pl.col("s").struct.field("v")
            case "l":
                column = pl.col("l").list.first()
            case "m" | "n":
                raise NotImplementedError("our program asks nothing of its maps")
        where = pl.read_parquet(question.source).filter(pl.col("k") == ROW).select(column.alias("x"))["x"]
        literal = pl.lit(where)  # of one row; as a Python value it would lose nanoseconds
        return pl.scan_parquet(question.file).filter(column == literal).select("k").collect()["k"].sort().to_list()


class PyArrow:
    name, package = "pyarrow", "pyarrow"

    def find(self, question: Question) -> list[int]:
        field = dataset.field("s", "v") if question.path == "s.v" else dataset.field(question.path)
        if question.path in ("l", "m", "n"):
            raise NotImplementedError("a dataset's filters do not look into lists and maps")
        source = dataset.dataset(question.source)
        literal = source.to_table(columns={"x": field}, filter=dataset.field("k") == ROW)["x"][0]
        return dataset.dataset(question.file).to_table(columns=["k"], filter=field == literal)["k"].to_pylist()

    def write(self, source: Path, output: Path) -> None:
        table = pq.read_table(source, columns=["v"])
        options = {"v": {"ndv": 100, "fpp": 0.01}}
        pq.write_table(table, output, row_group_size=ROW_GROUP_ROWS, bloom_filter_options=options)


class DeltaRs:
    name, package = "delta-rs", "deltalake"

    def write(self, source: Path, output: Path) -> None:
        import deltalake

        bloom = deltalake.BloomFilterProperties(True, fpp=0.01, ndv=100)
        columns = deltalake.ColumnProperties(bloom_filter_properties=bloom)
        properties = deltalake.WriterProperties(max_row_group_size=100, default_column_properties=columns)
        with tempfile.TemporaryDirectory() as folder:
            table = pq.read_table(source, columns=["v"])
            deltalake.write_deltalake(folder, table, writer_properties=properties)
            (part,) = Path(folder).glob("part-*.parquet")
            shutil.copyfile(part, output)


class Rugo:
    name, package = "rugo", "rugo"

    def find(self, question: Question) -> list[int]:
        from rugo import parquet

        def column(path: Path, name: str, predicates: list[Any]) -> list[Any]:
            with parquet.read_parquet(str(path), columns=[name], predicates=predicates, threads=1) as reader:
                return [value for morsel in reader for value in morsel.column(name).to_pylist()]

        (value,) = column(question.source, question.path, [("k", "=", ROW)])
        return column(question.file, "k", [(question.path, "=", value)])

    def write(self, source: Path, output: Path) -> None:
        from rugo import parquet

        with parquet.read_parquet(str(source), columns=["k", "v"], threads=1) as reader, output.open("wb") as file:
            writer = parquet.open_parquet_writer(file.write, bloom_filters=["v"])
            for morsel in reader:
                writer.write_row_group(morsel)
            writer.close()


PYTHON: tuple[Callable[[], Any], ...] = (DuckDB, DataFusion, ClickHouse, Spark, Polars, PyArrow, DeltaRs, Rugo)
