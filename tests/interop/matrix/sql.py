"""The engines that Python can call: each finds the rows of a file with some values, and writes a file with filters."""

from __future__ import annotations

import functools
import operator
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
import pyarrow.compute as pc
import pyarrow.parquet as pq
from interop.matrix.column_types import Widened
from kinds import ROW_GROUP_ROWS
from pyarrow import dataset


class NotTried(Exception):
    """Our program does not ask this; the engine might answer."""


class NoWay(Exception):
    """The engine has no condition for this, by its documentation or its source."""


@dataclass(frozen=True)
class Place:
    """The value of a column in a row of a file."""

    file: Path
    row: int


@dataclass(frozen=True)
class Question:
    """Which rows of `file` hold a value in the column `leaf`, by `=`, or one of several, by `IN`?

    The file may be one of a table that has another type for the column, `widened`.
    """

    file: Path
    leaf: str
    values: tuple[Place, ...]
    widened: Widened | None = None

    @cached_property
    def path(self) -> str:
        """The leaf without the steps that lists and maps put in."""
        return self.leaf.removesuffix(".list.element").partition(".key_value")[0]


def schema_of(widened: Widened) -> pa.Schema:
    return pa.schema({"k": pa.int64(), "v": widened.arrow})


def empty_file(question: Question) -> Path:
    """Returns a file of the table that has no rows, and the table's type."""
    path = question.file.with_name(f"empty-{question.widened.sql}.parquet")
    if not path.exists():
        pq.write_table(schema_of(question.widened).empty_table(), path)
    return path


class Sql:
    """An engine whose conditions are SQL."""

    columns: ClassVar[dict[str, str]] = {}
    """How a value inside another is written."""
    conditions: ClassVar[dict[str, tuple[str, str]]] = {}
    """The conditions that are not `=` and `IN`: for one value, and for several."""
    widens = True
    types: ClassVar[dict[str, str]] = {}
    """The types that have another name here."""

    @cached_property
    def literals(self) -> dict[tuple[Place, str], str]:
        return {}

    def type_name(self, widened: Widened) -> str:
        return self.types.get(widened.sql, widened.sql)

    def where(self, question: Question) -> str:
        """Returns the condition; a value is fetched and written as SQL only once, for some engines take long."""
        column = self.columns.get(question.path, question.path)
        for place in question.values:
            if (place, column) not in self.literals:
                self.literals[place, column] = self.literal(place, column)
        one, several = self.conditions.get(question.path, ("{column} = {values}", "{column} IN ({values})"))
        literals = [self.literals[place, column] for place in question.values]
        if question.widened:
            literals = [f"CAST({literal} AS {self.type_name(question.widened)})" for literal in literals]
        values = ", ".join(literals)
        return (one if len(question.values) == 1 else several).format(column=column, values=values)

    def literal(self, place: Place, column: str) -> str:
        raise NotImplementedError


class DuckDB(Sql):
    name, package = "DuckDB", "duckdb"
    counts = "row_groups"
    columns: ClassVar = {"l": "l[1]", "m": "m['k']", "n": "map_keys(n)[1]"}
    conditions: ClassVar = {"n": ("map_contains(n, {values})", "list_has_any(map_keys(n), [{values}])")}

    def __init__(self) -> None:
        import duckdb

        self.db = duckdb.connect(config={"threads": 1})
        self.db.execute("SET TimeZone = 'UTC'")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.db.execute(sql).fetchall()

    def literal(self, place: Place, column: str) -> str:
        sql = f"SELECT {column}::VARCHAR, typeof({column}) FROM '{place.file}' WHERE k = {place.row}"
        ((text, kind),) = self.rows(sql)
        return f"""CAST('{text.replace("'", "''")}' AS {kind})"""

    def query(self, question: Question) -> str:
        source = f"'{question.file}'"
        if question.widened:
            files = [str(empty_file(question)), str(question.file)]
            source = f"read_parquet({files}, union_by_name = true)"
        return f"SELECT k FROM {source} WHERE {self.where(question)}"

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


class DataFusion(Sql):
    name, package = "DataFusion", "datafusion"
    counts = "row_groups"
    conditions: ClassVar = {
        "l": ("array_has(l, {values})", "array_has_any(l, [{values}])"),
        "n": ("array_has(map_keys(n), {values})", "array_has_any(map_keys(n), [{values}])"),
    }
    columns: ClassVar = {"s.v": "s['v']", "l": "l[1]", "m": "m['k']", "n": "map_keys(n)[1]"}

    def __init__(self) -> None:
        from datafusion import SessionConfig, SessionContext

        self.context = SessionContext(SessionConfig().with_target_partitions(1)).enable_url_table()
        self.parameters: dict[str, pa.Scalar] = {}

    def table(self, sql: str) -> pa.Table:
        named = {name: value for name, value in self.parameters.items() if re.search(rf"\${name}\b", sql)}
        frame = self.context.sql(sql, param_values=named)
        return pa.Table.from_batches(frame.collect(), frame.schema())

    def literal(self, place: Place, column: str) -> str:
        where = f"FROM '{place.file}' WHERE k = {place.row}"
        value = self.table(f"SELECT {column} AS x {where}")["x"]
        if "interval" in str(value.type):  # of which there are no parameters
            (text,) = self.table(f"SELECT CAST({column} AS VARCHAR) AS x {where}")["x"].to_pylist()
            return f"INTERVAL '{text}'"
        name = f"v{len(self.parameters)}"
        self.parameters[name] = value[0]
        return f"${name}"

    def query(self, question: Question) -> str:
        source = f"'{question.file}'"
        if question.widened:
            source = "widened"
            self.context.deregister_table(source)
            self.context.register_parquet(source, str(question.file), schema=schema_of(question.widened))
        return f"SELECT k FROM {source} WHERE {self.where(question)}"

    def find(self, question: Question) -> list[int]:
        return self.table(f"{self.query(question)} ORDER BY k")["k"].to_pylist()

    def count(self, question: Question) -> int:
        plan = "".join(map(str, self.table(f"EXPLAIN ANALYZE {self.query(question)}").to_pylist()))
        return int(re.findall(r"row_groups_pruned_bloom_filter=\d+ total → (\d+) matched", plan)[0])

    def write(self, source: Path, output: Path) -> None:
        options = "'format.max_row_group_size' '100', 'format.bloom_filter_on_write' 'true'"
        options += ", 'format.bloom_filter_ndv' '100', 'format.bloom_filter_fpp' '0.01'"
        self.table(f"COPY (SELECT k, v FROM '{source}') TO '{output}' STORED AS PARQUET OPTIONS ({options})")


class ClickHouse(Sql):
    name, package = "ClickHouse", "chdb"
    counts = "row_groups"
    conditions: ClassVar = {
        "l": ("has(l, {values})", "hasAny(l, [{values}])"),
        "n": ("mapContains(n, {values})", "hasAny(mapKeys(n), [{values}])"),
    }
    columns: ClassVar = {"l": "l[1]", "m": "m['k']", "n": "mapKeys(n)[1]"}
    types: ClassVar = {"TIMESTAMP": "DateTime64(6)"}
    settings = "SETTINGS max_threads = 1, use_parquet_metadata_cache = 0, session_timezone = 'UTC'"
    only_filters = f"{settings}, input_format_parquet_dictionary_filter_push_down = 0"

    def __init__(self) -> None:
        ((clickhouse,),) = engines.clickhouse("SELECT version()")
        self.version = f"{version(self.package)} (ClickHouse {clickhouse})"

    def literal(self, place: Place, column: str) -> str:
        kind = f"SELECT hex(toString({column})), toTypeName({column}) FROM file('{place.file}', Parquet)"
        ((text, kind),) = engines.clickhouse(f"{kind} WHERE k = {place.row} {self.settings}")
        kind = kind.replace("\\", "\\\\").replace("'", "\\'")
        return f"CAST(unhex('{text}'), '{kind}')"

    def query(self, question: Question) -> str:
        columns = f", 'k BIGINT, v {self.type_name(question.widened)}'" if question.widened else ""
        return f"SELECT k FROM file('{question.file}', Parquet{columns}) WHERE {self.where(question)}"

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


class Spark(Sql):
    name, package = "Spark", "pyspark"
    counts = "row_groups"
    conditions: ClassVar = {
        "l": ("array_contains(l, {values})", "arrays_overlap(l, array({values}))"),
        "n": ("map_contains_key(n, {values})", "arrays_overlap(map_keys(n), array({values}))"),
    }
    columns: ClassVar = {"l": "l[0]", "m": "m['k']", "n": "map_keys(n)[0]"}
    types: ClassVar = {"TIMESTAMP": "TIMESTAMP_NTZ"}

    def __init__(self) -> None:
        self.spark = engines.spark()
        self.spark.conf.set("spark.sql.timeType.enabled", "true")
        self.spark.conf.set("spark.sql.codegen.wholeStage", "false")
        self.spark.sparkContext.setLogLevel("OFF")

    def literal(self, place: Place, column: str) -> str:
        df = self.spark.read.parquet(str(place.file)).where(f"k = {place.row}")
        kind = df.selectExpr(f"{column} AS x").schema["x"].dataType.simpleString()
        text = df.selectExpr(f"hex({column if kind == 'binary' else f'CAST({column} AS STRING)'}) AS x").first()[0]
        return f"unhex('{text}')" if kind == "binary" else f"CAST(decode(unhex('{text}'), 'utf-8') AS {kind})"

    def query(self, question: Question) -> Any:
        where, reader = self.where(question), self.spark.read
        if question.widened:
            reader = reader.schema(f"k BIGINT, v {self.type_name(question.widened)}")
        return reader.parquet(str(question.file)).where(where).select("k")

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
    widens = True

    def find(self, question: Question) -> list[int]:
        import polars as pl

        try:
            return self._find(question)
        except pl.exceptions.PanicException as error:  # is no Exception
            raise RuntimeError(str(error)) from error

    def _find(self, question: Question) -> list[int]:
        import polars as pl

        column = {
            "v": pl.col("v"),
            "s.v": pl.col("s").struct.field("v"),
            "l": pl.col("l").list.first(),
            "m": pl.col("m").map.get("k"),
            "n": pl.col("n").map.keys().list.first(),
        }[question.path]
        # of one row each; as Python values they would lose nanoseconds
        values = [
            pl.read_parquet(place.file).filter(pl.col("k") == place.row).select(column.alias("x"))["x"]
            for place in question.values
        ]
        options: dict[str, Any] = {}
        if question.widened:
            dtype = pl.Series(pa.nulls(1, question.widened.arrow)).dtype
            values = [value.cast(dtype) for value in values]
            casts = pl.ScanCastOptions(integer_cast="upcast", float_cast="upcast")
            options = {"schema": {"k": pl.Int64(), "v": dtype}, "cast_options": casts, "extra_columns": "ignore"}
        condition = column == pl.lit(values[0]) if len(values) == 1 else column.is_in(pl.concat(values).implode())
        return pl.scan_parquet(question.file, **options).filter(condition).select("k").collect()["k"].sort().to_list()


class PyArrow:
    name, package = "pyarrow", "pyarrow"

    def find(self, question: Question) -> list[int]:
        column = {
            "v": dataset.field("v"),
            "s.v": dataset.field("s", "v"),
            "l": pc.list_element(dataset.field("l"), 0),
            "m": pc.map_lookup(dataset.field("m"), pa.scalar("k"), "first"),
        }
        key = {"n": dataset.field("n")}
        values = [
            dataset.dataset(place.file)
            .to_table(columns={"x": (column | key)[question.path]}, filter=dataset.field("k") == place.row)["x"]
            .combine_chunks()
            for place in question.values
        ]
        if question.path == "n":
            held = [pc.map_lookup(key["n"], value[0][0][0], "first").is_valid() for value in values]
            condition = functools.reduce(operator.or_, held)
        else:
            field = column[question.path]
            condition = field == values[0][0] if len(values) == 1 else field.isin(pa.concat_arrays(values))
        return dataset.dataset(question.file).to_table(columns=["k"], filter=condition)["k"].to_pylist()

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

        def rows(path: Path, predicates: list[Any]) -> list[int]:
            with parquet.read_parquet(str(path), columns=["k"], predicates=predicates, threads=1) as reader:
                return [k for morsel in reader for k in morsel.column("k").to_pylist()]

        values = [self.value(place, question.leaf) for place in question.values]
        condition = ("=", values[0]) if len(values) == 1 else ("in", values)
        name = "l" if question.path == "l" else question.leaf  # which is how it names them
        return rows(question.file, [(name, *condition)])

    def value(self, place: Place, leaf: str) -> Any:
        """Returns a value by pyarrow: rugo's own ones lose nanoseconds and the fractions of wide decimals."""
        column = leaf.partition(".")[0]
        values = pq.read_table(place.file, columns=[column])[column].combine_chunks().slice(place.row, 1)
        if pa.types.is_time(values.type) or values.type in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
            values = values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())
        (value,) = values.to_pylist()
        match column:
            case "s":
                return value["v"]
            case "l":
                return value[0]
            case "m" | "n":
                return value[0][column == "m"]  # a pair for each entry
        return value

    def write(self, source: Path, output: Path) -> None:
        from rugo import parquet

        with parquet.read_parquet(str(source), columns=["k", "v"], threads=1) as reader, output.open("wb") as file:
            writer = parquet.open_parquet_writer(file.write, bloom_filters=["v"])
            for morsel in reader:
                writer.write_row_group(morsel)
            writer.close()


PYTHON: tuple[Callable[[], Any], ...] = (DuckDB, DataFusion, ClickHouse, Spark, Polars, PyArrow, DeltaRs, Rugo)
