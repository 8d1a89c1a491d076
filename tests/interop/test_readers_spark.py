"""Spark reads what we retrofitted: all rows, the same answers, and the filters where it uses filters."""

from __future__ import annotations

import functools
import itertools
from collections import Counter

import pyarrow.parquet as pq
import pytest
from engines import needs_java, parquet_java_filter, spark, spark_rows_scanned
from kinds import KINDS, ROW, ROW_GROUP_ROWS, check_use, footer_of, row_groups_left, users_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from samples import EDGES, FILES, FIXTURES, plain_leaves, retrofit, sample, supported

from parquet_bloom import inspect
from parquet_bloom.filters.engines import SPARK
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.listing import find
from parquet_bloom.values.arrays import plain_value

pytestmark = [pytest.mark.spark, needs_java]

# A single column of such a type keeps Spark from reading a file at all, whatever the filters.
UNREADABLE_KINDS = (
    *("FLOAT16", "UUID", "INTERVAL", "DECIMAL(60) FIXED(26)", "DECIMAL(60) BYTE_ARRAY", "TIME MILLIS"),
    *("TIME UTC MILLIS", "TIME UTC MICROS", "TIME UTC NANOS"),
    *("TIMESTAMP local NANOS", "TIMESTAMP UTC NANOS"),
)
UNREADABLE_FILES = {
    **{
        f"{engine}/{name}_types.parquet": "PARQUET_TYPE_ILLEGAL|EXCEEDS_MAX_PRECISION"
        for engine in ("pyarrow", "duckdb", "datafusion", "clickhouse")
        for name in ("all", "plain")
    },
    "clickhouse/brotli.parquet": "BrotliCodec was not found",
    "polars/all_types.parquet": "PARQUET_TYPE_ILLEGAL",
    "polars/brotli.parquet": "BrotliCodec was not found",
    "polars/uncompressed.parquet": "PARQUET_TYPE_ILLEGAL",
    "pyarrow/names.parquet": "COLUMN_ALREADY_EXISTS",
    "pyarrow/names_filtered.parquet": "COLUMN_ALREADY_EXISTS",
    "pyarrow/spark_types.parquet": "EXCEEDS_MAX_PRECISION",
    "pyarrow/zero_columns.parquet": "IndexOutOfBoundsException",
}
UNREADABLE_COLUMNS_OF = {
    "pyarrow/codecs.parquet": ["id_brotli", "name_brotli"],
    "pyarrow/decimal_bytes.parquet": ["short", "wide"],  # decimals in BYTE_ARRAY with a dictionary
}
UNREADABLE_COLUMNS = ("float16", "uuid_type", "decimal60", "time_ms", "time_ns", "ts_ns_local", "ts_ns_utc")

RICH = [
    *("pyarrow/decimal_integers.parquet", "pyarrow/int96.parquet"),
    *(f"spark/{name}.parquet" for name in ("plain_types", "legacy", "nested", "int96", "millis")),
]


@pytest.fixture(scope="module", autouse=True)
def session():
    session = spark()
    session.conf.set("spark.sql.timeType.enabled", "true")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.sparkContext.setLogLevel("ERROR")
    session.conf.unset("spark.sql.timeType.enabled")


@pytest.fixture
def without_codegen(session):
    """Plans of a hundred scans are not worth compiling."""
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    yield
    session.conf.unset("spark.sql.codegen.wholeStage")


def frame(path):
    return spark().read.parquet(str(path))


def quoted(path):
    return ".".join("`{}`".format(part.replace("`", "``")) for part in path)


def all_rows(path, without=()):
    return frame(path).drop(*without).selectExpr("to_json(struct(*)) AS row").collect()


@pytest.mark.parametrize("file", FILES)
def test_all_rows_come_back(retrofitted, file):
    if file in UNREADABLE_FILES:
        with pytest.raises((PySparkException, Py4JJavaError), match=UNREADABLE_FILES[file]):
            all_rows(FIXTURES / file)
        return
    unreadable = UNREADABLE_COLUMNS_OF.get(file, ())
    for column in unreadable:
        with pytest.raises((PySparkException, Py4JJavaError)):
            frame(FIXTURES / file).select(column).collect()
    assert all_rows(retrofitted(file), unreadable) == all_rows(FIXTURES / file, unreadable)


def literal(hexadecimal, kind):
    return f"unhex('{hexadecimal}')" if kind == "binary" else f"CAST(decode(unhex('{hexadecimal}'), 'utf-8') AS {kind})"


def as_hex(column, kind):
    return f"hex({column})" if kind == "binary" else f"hex(CAST({column} AS STRING))"


def conditions_of(path):
    """Returns conditions on every column: on values that it holds, and on others that its type takes."""
    df = frame(path)
    columns = [quoted(leaf.path) for leaf in plain_leaves(path)]
    kinds = [df.select(column).schema[0].dataType.simpleString() for column in columns]
    typed = list(enumerate(zip(columns, kinds, strict=True)))
    held = df.selectExpr(*(f"collect_set({as_hex(column, kind)}) AS c{i}" for i, (column, kind) in typed)).first()
    tried = ", ".join(f"try_cast(text AS {kind}) IS NOT NULL" for kind in kinds)
    edges = ", ".join(f"('{text.encode().hex()}')" for text in EDGES)
    texts = f"SELECT h, decode(unhex(h), 'utf-8') AS text FROM VALUES {edges} AS edges(h)"
    fitting = spark().sql(f"SELECT h, {tried} FROM ({texts})").collect()
    for i, (column, kind) in typed:
        there = [literal(text, kind) for text in sample(held[i], 2)]
        others = [literal(h, kind) for h, *fits in fitting if fits[i]]
        yield from (f"{column} = {value}" for value in (*there, *sample(others, 1)))
        yield f"{column} IN ({', '.join((*there[:1], *sample(others, 6), 'NULL'))})"


def counts(path, conditions):
    """Returns how many rows each condition finds: one scan for each, all of them in one job."""
    df = frame(path)
    found = Counter()
    for start in range(0, len(conditions), 40):
        some = enumerate(conditions[start : start + 40], start)
        branches = [df.where(condition).selectExpr(f"{i} AS i") for i, condition in some]
        found.update(row.i for row in functools.reduce(DataFrame.unionAll, branches).collect())
    return [found[i] for i in range(len(conditions))]


def check_answers(bare, ours):
    conditions = list(conditions_of(bare))
    exprs = [f"count_if({condition}) AS c{i}" for i, condition in enumerate(conditions)]
    truth = list(frame(bare).selectExpr(*exprs).first())
    assert sum(count > 0 for count in truth) > len(conditions) / 2
    answers = counts(ours, conditions)
    differ = [i for i, (one, other) in enumerate(zip(answers, truth, strict=True)) if one != other]
    # Statistics alone lose NaNs, in a file without filters too.
    assert all("nan" in bytes.fromhex(conditions[i].split("'")[1]).decode().lower() for i in differ)
    assert counts(bare, [conditions[i] for i in differ]) == [answers[i] for i in differ]


@pytest.mark.parametrize("file", RICH)
def test_equal_and_in_find_the_same_rows(without_codegen, without_filters, retrofitted, file):
    check_answers(without_filters(file), retrofitted(file))


def test_equal_and_in_find_the_same_rows_of_all_types(without_codegen, tmp_path):
    table = pq.read_table(FIXTURES / "pyarrow/plain_types.parquet").drop_columns(UNREADABLE_COLUMNS)
    pq.write_table(table, tmp_path / "bare.parquet", row_group_size=80, use_dictionary=False)
    check_answers(tmp_path / "bare.parquet", retrofit(tmp_path / "bare.parquet", tmp_path / "ours.parquet"))


def literal_of_the_row(path):
    df = frame(path)
    kind = df.schema["v"].dataType.simpleString()
    return literal(df.where(f"k = {ROW}").selectExpr(as_hex("v", kind)).first()[0], kind)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_uses_filters_of_the_kinds_that_our_table_says(without_codegen, kind_files, kind):
    files = kind_files(kind)
    if kind in UNREADABLE_KINDS:
        with pytest.raises(PySparkException, match=r"PARQUET_TYPE|TIME|EXCEEDS_MAX_PRECISION"):
            frame(files["plain"])
        assert users_of(files["plain"], SPARK) == set()
        return
    value = literal_of_the_row(files["plain"])
    columns = {"v": f"v = {value}", "s.v": f"s.v = {value}", "l.list.element": f"array_contains(l, {value})"}
    questions = list(itertools.product({files[name] for name in ("plain", "ours", "lying", "exact")}, columns))
    branches = [frame(f).where(columns[leaf]).selectExpr(f"{i} AS i", "k") for i, (f, leaf) in enumerate(questions)]
    found = {question: [] for question in questions}
    for row in sorted(functools.reduce(DataFrame.unionAll, branches).collect()):
        found[questions[row.i]].append(row.k)
    check_use(files, SPARK, lambda file, leaf: found[file, leaf])


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
def test_reads_the_row_groups_that_our_filters_leave(kind_files, kind):
    files = kind_files(kind)
    if "v" not in users_of(files["plain"], SPARK):
        pytest.skip("no filters")
    for source, least in ((files["plain"], 1), (files["other"], 0)):
        df = frame(files["ours"]).where(f"v = {literal_of_the_row(source)}")
        _, scanned = spark_rows_scanned(df)
        assert least <= scanned / ROW_GROUP_ROWS <= row_groups_left(files["ours"], source) < 4


@pytest.mark.parametrize("file", ["pyarrow/plain_types.parquet", "spark/plain_types.parquet"])
def test_parquet_java_finds_every_value_in_our_filters(retrofitted, file):
    path = retrofitted(file)
    (source,), footer = find(path), footer_of(path)
    chunks, asked = ColumnChunks(source, footer), 0
    leaves = {leaf.name: leaf for leaf in footer.leaves}
    filters = inspect(path).rows
    assert {info.column for info in filters} == {leaf.name for leaf in supported(path)}
    for info in filters:
        theirs = parquet_java_filter(path, info.row_group, info.column)
        start = info.offset + info.length - info.num_bytes
        assert theirs.bitset() == path.read_bytes()[start : start + info.num_bytes]
        for array in chunks.values(info.row_group, leaves[info.column]):
            for plain in {plain_value(array, i) for i in range(len(array)) if array[i].is_valid}:
                assert theirs.check(plain)
                asked += 1
    assert asked > 3000
