"""`find` returns the rows that Spark returns, for random conditions on all types; more of them with a larger number."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import LiteralError, UnsupportedError
from tests.support import engines
from tests.verbs.find.random_conditions import condition, table

pytestmark = pytest.mark.spark

NUM_CONDITIONS = int(os.environ.get("PARQUET_BLOOM_CONDITIONS", "80"))
ZONE = "America/New_York"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(5)
    folder = tmp_path_factory.mktemp("find")
    for number in range(2):
        pq.write_table(
            table(rng), folder / f"{number}.parquet", row_group_size=100, use_dictionary=bool(number),
            write_page_index=True, data_page_size=64,
        )  # fmt: skip
    parquet_bloom.add(folder, ["i64", "s", "d9"], fpp=0.01)
    return folder


@pytest.fixture(scope="module")
def rows(lake: Path) -> Iterator[Any]:
    """Spark's rows of the lake, with the name of each one's file and its number there."""
    spark = engines.spark()
    changed = {"spark.sql.parquet.filterPushdown": "false", "spark.sql.session.timeZone": ZONE}
    before = {name: spark.conf.get(name) for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    yield spark.read.parquet(str(lake)).select("*", "_metadata.file_name", "_metadata.row_index")
    for name, value in before.items():
        spark.conf.set(name, value)


def is_understood(rows: Any, text: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        rows.selectExpr(text).schema  # noqa: B018
    except AnalysisException:
        return False
    return True


def test_random_conditions_find_the_rows_that_spark_finds(lake: Path, rows: Any) -> None:
    rng = random.Random(11)
    refused, compared = [], 0
    while compared < NUM_CONDITIONS:
        found: dict[str, set[tuple[str, int]]] = {}
        while len(found) < min(40, NUM_CONDITIONS - compared):
            text = condition(rng)
            try:
                hits = parquet_bloom.find(lake, text, columns=[], positions=True, timezone=ZONE, strict=True).to_arrow()
            except (UnsupportedError, LiteralError):
                refused.append(text)
                continue
            if is_understood(rows, text):
                places = zip(hits["path"].to_pylist(), hits["row"].to_pylist(), strict=True)
                found[text] = {(path.rpartition("/")[2], row) for path, row in places}
        masks = rows.selectExpr("file_name", "row_index", *found).collect()
        for number, (text, mine) in enumerate(found.items(), 2):
            assert mine == {(row[0], row[1]) for row in masks if row[number]}, text
        compared += len(found)
    assert len(refused) < compared


# ---- files of other engines --------------------------------------------------------------

FEW = ("clickhouse/all_types", "duckdb/all_types", "pyarrow/all_types", "pyarrow/int96", "spark/legacy")
MORE = (
    "clickhouse/plain_types", "datafusion/all_types", "datafusion/fallback", "polars/all_types",
    "polars/no_statistics", "pyarrow/decimal_integers", "pyarrow/encodings", "pyarrow/fallback", "pyarrow/all_null",
    "pyarrow/empty_row_group", "pyarrow/spark_types", "spark/all_types", "spark/pages_v2", "spark/int96",
    "spark/millis", "spark/nested", "spark/adaptive",
)  # fmt: skip
FIXTURES = Path(__file__).parents[3] / "fixtures"


def sql_literal(kind: str, text: str) -> str | None:
    """Returns the SQL of a value that Spark shows as this text; None for one that has no literal of its own."""
    if kind in ("tinyint", "smallint", "int", "bigint") or kind.startswith("decimal"):
        return text
    if kind in ("float", "double"):
        return None if text in ("NaN", "Infinity", "-Infinity") else f"{float(text)!r}e0" if "e" not in repr(
            float(text)) else repr(float(text))  # fmt: skip
    if kind == "string":
        return None if "'" in text or "\\" in text else f"'{text}'"
    if kind == "boolean":
        return text
    return f"{kind.upper()} '{text}'" if kind in ("date", "timestamp", "timestamp_ntz") else None


def frame_of(path: Path) -> Any:
    """Returns Spark's frame of those columns of a file that it reads."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType, TimestampType

    file = pq.ParquetFile(path)
    physical = {file.schema.column(n).path: file.schema.column(n).physical_type for n in range(len(file.schema))}
    readable = StructType()
    for field in file.schema_arrow:
        kind, stored = field.type, physical.get(field.name)
        if stored == "INT96":
            readable.add(StructField(field.name, TimestampType()))
        elif (
            pa.types.is_signed_integer(kind)
            or kind in (pa.float32(), pa.float64(), pa.string(), pa.bool_(), pa.date32())
            or (pa.types.is_timestamp(kind) and kind.unit in ("ms", "us"))
            or (pa.types.is_decimal(kind) and kind.precision <= 38 and stored != "BYTE_ARRAY")
        ):
            readable.add(StructField(field.name, from_arrow_type(kind, prefer_timestamp_ntz=True)))
    return engines.spark().read.schema(readable).parquet(str(path))


def conditions_on(frame: Any) -> list[str]:
    from pyspark.sql import functions as F

    shown = [f for f in frame.schema if f.dataType.typeName() not in ("array", "map", "struct", "binary", "variant")]
    names = {f.name: f"`{f.name.replace('`', '``')}`" for f in shown}
    if not names:
        return []
    rows = frame.select(*(F.col(name).cast("string") for name in names.values())).limit(60).collect()
    made = []
    for at, field in enumerate(shown):
        name, kind = names[field.name], field.dataType.simpleString()
        texts = list(dict.fromkeys(row[at] for row in rows if row[at] is not None))
        literals = [literal for text in texts if (literal := sql_literal(kind, text))][1:40:9]
        made += [f"{name} IS NULL", f"{name} IS NOT NULL"]
        for literal in literals[:2]:
            made += [f"{name} {op} {literal}" for op in ("=", "<", ">=", "<>")]
        if len(literals) > 2:
            made += [f"{name} IN ({', '.join(literals)})", f"NOT ({name} BETWEEN {literals[0]} AND {literals[1]})"]
    return made


@pytest.mark.parametrize("name", FEW if NUM_CONDITIONS <= 80 else FEW + MORE)
def test_rows_of_a_fixture_are_those_that_spark_finds(name: str) -> None:
    path = FIXTURES / f"{name}.parquet"
    frame = frame_of(path)
    zone = engines.spark().conf.get("spark.sql.session.timeZone")
    found, refused = {}, {}
    for text in conditions_on(frame):
        try:
            hits = parquet_bloom.find(path, text, columns=[], positions=True, timezone=zone, strict=True).to_arrow()
            found[text] = set(hits["row"].to_pylist())
        except (UnsupportedError, LiteralError) as error:
            refused[text] = str(error)
    masks = frame.selectExpr("_metadata.row_index", *found).collect()
    for number, (text, mine) in enumerate(found.items(), 1):
        assert mine == {row[0] for row in masks if row[number]}, text
    assert len(found) > len(refused), refused
