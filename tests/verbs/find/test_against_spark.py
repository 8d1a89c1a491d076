"""`find` returns the rows that Spark returns, for random conditions on all types; more of them with a larger number."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import LiteralError, UnsupportedError
from tests.support import engines

pytestmark = pytest.mark.spark

NUM_CONDITIONS = int(os.environ.get("PARQUET_BLOOM_CONDITIONS", "80"))
ZONE = "America/New_York"
NAN, INF = float("nan"), float("inf")

WHOLE = [0, 1, -1, 5, 7, 100, -128, 127]
FLOATS = [0.0, -0.0, 0.5, -1.5, NAN, INF, -INF, 16777216.0, 7.0, 0.1]
DECIMALS = [Decimal(text) for text in ("0.00", "1.50", "-1.50", "7.00", "99999.99")]
TEXTS = ["", "a", "b", "ab", "é", "7", "true", "2024-01-01", "\U0001f600", "\uffff"]
DAYS = [date(2024, 1, 1), date(1970, 1, 1), date(1999, 12, 31), date(2024, 2, 29)]
MOMENTS = [datetime(2024, 3, 10, 7, 30), datetime(2024, 11, 3, 5, 30), datetime(2024, 1, 1), datetime(1970, 1, 1)]

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), WHOLE),
    "i32": (pa.int32(), [*WHOLE, 2**31 - 1, -(2**31)]),
    "i64": (pa.int64(), [*WHOLE, 2**63 - 1, 2**53, 2**53 + 1]),
    "u32": (pa.uint32(), [0, 1, 5, 7, 2**32 - 1]),
    "f32": (pa.float32(), FLOATS),
    "f64": (pa.float64(), FLOATS),
    "d9": (pa.decimal128(9, 2), DECIMALS),
    "d38": (pa.decimal128(38, 2), DECIMALS),
    "s": (pa.string(), TEXTS),
    "b": (pa.binary(), [b"", b"a", b"\xff", b"b", b"\x00"]),
    "t": (pa.bool_(), [True, False]),
    "day": (pa.date32(), DAYS),
    "at": (pa.timestamp("us", "UTC"), MOMENTS),
    "wall": (pa.timestamp("us"), MOMENTS),
}

LITERALS = {
    "i": ["0", "1", "-1", "5", "7", "127", "300", "1.5", "7.0", "-0.5", "5e0", "0.5e0", "2147483648", "'7'", "NULL"],
    "i64": ["9223372036854775807", "9007199254740993", "9007199254740992e0", "9223372036854775808"],
    "f": ["0", "-0.0", "0.5", "0.1", "7", "1e0", "16777217", "0.1e0", "double('NaN')", "'7'", "NULL", "1.5"],
    "d": ["0", "1.5", "1.50", "7", "-1.5", "7.001", "99999.99", "100000", "'1.5'", "NULL"],
    "s": ["'a'", "''", "'ab'", "'é'", "'7'", "'zz'", "NULL"],
    "b": ["X'61'", "X'FF'", "X''", "NULL"],
    "t": ["true", "false", "NULL"],
    "day": ["'2024-01-01'", "DATE '1999-12-31'", "DATE '2024-02-29'", "TIMESTAMP '2024-01-01 00:00:00'", "NULL"],
    "at": ["TIMESTAMP '2024-03-10 03:30:00'", "TIMESTAMP '2024-11-03 01:30:00'", "'2024-01-01 00:00:00'", "NULL",
           "TIMESTAMP '2024-01-01T00:00:00Z'", "DATE '2024-01-01'"],
    "wall": ["'2024-01-01 00:00:00'", "TIMESTAMP_NTZ '2024-03-10 07:30:00'", "TIMESTAMP '2024-01-01 00:00:00'", "NULL"],
}  # fmt: skip


def literals_of(name: str) -> list[str]:
    if name in ("i64", "day", "at", "wall", "s", "b", "t"):
        return LITERALS[name] + (LITERALS["i"] if name == "i64" else [])
    return LITERALS[name[0] if name[0] != "u" else "i"]


def condition(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.4:
        joint = rng.choice([" AND ", " OR "])
        return "(" + joint.join(condition(rng, depth - 1) for _ in range(2)) + ")"
    if depth and rng.random() < 0.15:
        return f"NOT ({condition(rng, depth - 1)})"
    name = rng.choice(list(COLUMNS))
    pool = literals_of(name)
    match rng.randrange(6):
        case 0:
            return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
        case 1:
            listed = rng.sample(pool, min(len(pool), rng.randint(1, 3)))
            return f"{name} {rng.choice(['', 'NOT '])}IN ({', '.join(listed)})"
        case 2:
            return f"{name} BETWEEN {rng.choice(pool)} AND {rng.choice(pool)}"
    return f"{name} {rng.choice(['=', '=', '<>', '<', '<=', '>', '>=', '<=>'])} {rng.choice(pool)}"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(5)
    folder = tmp_path_factory.mktemp("find")
    for number in range(2):
        columns = {
            name: pa.array(
                [
                    value if not isinstance(value, datetime) or kind.tz is None else value.replace(tzinfo=UTC)
                    for value in (None if rng.random() < 0.1 else rng.choice(values) for _ in range(400))
                ],
                kind,
            )
            for name, (kind, values) in COLUMNS.items()
        }
        pq.write_table(
            pa.table(columns), folder / f"{number}.parquet", row_group_size=100, use_dictionary=bool(number),
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
    found, refused = {}, {}
    for text in conditions_on(frame):
        try:
            hits = parquet_bloom.find(path, text, columns=[], positions=True, timezone="UTC", strict=True).to_arrow()
            found[text] = set(hits["row"].to_pylist())
        except (UnsupportedError, LiteralError) as error:
            refused[text] = str(error)
    masks = frame.selectExpr("_metadata.row_index", *found).collect()
    for number, (text, mine) in enumerate(found.items(), 1):
        assert mine == {row[0] for row in masks if row[number]}, text
    assert len(found) > len(refused), refused
