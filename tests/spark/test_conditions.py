"""What Spark makes of a condition: which casts of it are dropped, which parts prune, and what is said of the others."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark
from spark.test_reading import our_records, rows, settings

from parquet_bloom.predicates.parsing import opaque_parts, parse_sql
from parquet_bloom.predicates.tree import And, Predicate
from parquet_bloom.spark import read
from parquet_bloom.spark.conditions import trusted
from parquet_bloom.spark.expressions import is_exact, predicate_of
from parquet_bloom.spark.reading import lake_of
from parquet_bloom.spark.session import Settings
from parquet_bloom.verbs.prune import FileEvaluator

pytestmark = [needs_java, pytest.mark.spark]


class Kind(NamedTuple):
    """A type of column: what its files hold, one value each; what is asked besides; and a literal in SQL."""

    arrow: pa.DataType
    values: list[Any]
    others: list[Any]
    text: Callable[[Any], str] = str


def _quoted(prefix: str) -> Callable[[Any], str]:
    return lambda value: f"{prefix}'{value}'"


_NOON = datetime(2024, 3, 10, 12, tzinfo=UTC)
_HOURS = [_NOON + timedelta(hours=hours) for hours in (0, 1, 2)]
KINDS = {
    "tinyint": Kind(pa.int8(), [-128, 5, 127], [6, -129, 128]),
    "smallint": Kind(pa.int16(), [-(2**15), 5, 2**15 - 1], [6, -(2**15) - 1, 2**15]),
    "int": Kind(pa.int32(), [-(2**31), 5, 2**31 - 1], [6, -(2**31) - 1, 2**31]),
    "bigint": Kind(pa.int64(), [-(2**63), 5, 2**53 + 1], [2**53, 2**63 - 1, 2.0**53]),
    "float": Kind(pa.float32(), [-0.0, 0.5, math.inf], [0.1, 0.0, 2.0**-149, 3.4e38]),
    "double": Kind(pa.float64(), [-0.0, 0.1, math.inf], [0.2, 0.0, 1e308]),
    "decimal(9,2)": Kind(
        pa.decimal128(9, 2),
        [Decimal("-9999999.99"), Decimal("1.50"), Decimal("9999999.99")],
        [Decimal("1.5"), Decimal("1.505"), Decimal("10000000.00"), Decimal(2)],
    ),
    "string": Kind(pa.string(), ["", "b", "b\n'\\é"], ["B", "zz"], lambda text: f'"{text}"'),
    "date": Kind(
        pa.date32(),
        [date(1900, 1, 1), date(2024, 3, 10), date(9999, 12, 31)],
        [date(2024, 3, 11)],
        _quoted("DATE "),
    ),
    "timestamp": Kind(pa.timestamp("us", "UTC"), _HOURS, [_NOON + timedelta(minutes=1)], _quoted("TIMESTAMP ")),
    "timestamp_ntz": Kind(
        pa.timestamp("us"),
        [hour.replace(tzinfo=None) for hour in _HOURS],
        [datetime(2024, 3, 10, 12, 1)],
        _quoted("TIMESTAMP_NTZ "),
    ),
    "binary": Kind(pa.binary(), [b"", b"b", b"b\0\xff"], [b"\xff"], lambda value: f"X'{value.hex()}'"),
}

_Form = Callable[[Any, Any, Any], Any]
"""What makes a condition of a column, and of one or two values."""


def _sql(form: str) -> _Form:
    def condition(kind: Kind, name: str, low: Any, high: Any) -> str:
        return form.format(name, kind.text(low), kind.text(high))

    return condition


def _forms() -> dict[str, Callable[[Kind, str, Any, Any], Any]]:
    from pyspark.sql import functions

    col, lit = functions.col, functions.lit
    return {
        "F.col == v": lambda _, name, low, __: col(name) == low,
        "v == F.col": lambda _, name, low, __: lit(low) == col(name),
        ".isin": lambda _, name, low, high: col(name).isin(low, high),
        ".between": lambda _, name, low, high: col(name).between(low, high),
        ".eqNullSafe": lambda _, name, low, __: col(name).eqNullSafe(low),
        "expr": lambda kind, name, low, high: functions.expr(
            f"`{name}` BETWEEN {kind.text(low)} AND {kind.text(high)}"
        ),
        "=": _sql("`{0}` = {1}"),
        "IN": _sql("`{0}` IN ({1}, {2})"),
        "BETWEEN": _sql("`{0}` BETWEEN {1} AND {2}"),
    }


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of a row each, with a column of every type; the last has NULL in all of them."""
    folder = tmp_path_factory.mktemp("kinds")
    for number in range(4):
        columns = {name: pa.array([[*kind.values, None][number]], kind.arrow) for name, kind in KINDS.items()}
        pq.write_table(pa.table({"k": [number], **columns}), folder / f"{number}.parquet")
    return folder


@pytest.fixture
def session() -> Iterator[Any]:
    """Spark without pushdown, which on its own loses rows with NaN."""
    with settings(spark__sql__parquet__filterPushdown="false") as found:
        yield found


def _files_of(frame: Any) -> set[int]:
    return {int(Path(path).stem) for path in frame.inputFiles()}


def _answers(session: Any, lake: Path, tests: list[Any]) -> list[set[int]]:
    """In which files each condition is true, by one query of Spark."""
    tests = [test.alias(str(at)) for at, test in enumerate(tests)]
    found = session.read.parquet(str(lake)).select("k", *tests).collect()
    return [{row.k for row in found if row[1 + at]} for at in range(len(tests))]


def _left(session: Any, lake: Path, tests: list[Any]) -> list[set[int] | None]:
    """Which files each Column leaves, None of one that is not used; the analyzer is asked once."""
    predicate = predicate_of(_all([~~test for test in tests]), session.read.parquet(str(lake)))
    assert isinstance(predicate, And)
    return _left_by(session, lake, predicate.parts)


def _all(tests: list[Any]) -> Any:
    """Whether all conditions hold, as a tree that is not deep."""
    middle = len(tests) // 2
    return _all(tests[:middle]) & _all(tests[middle:]) if middle else tests[0]


def _left_by(session: Any, lake: Path, predicates: Iterable[Predicate]) -> list[set[int] | None]:
    of_files = lake_of(session, str(lake))
    left: list[set[int] | None] = []
    for part in predicates:
        evaluator = FileEvaluator(part, timezone=of_files.settings.timezone, view=of_files.view())
        files, _ = evaluator.evaluate_all(of_files.sources)
        kept = {int(Path(file.path).stem) for file in files if file.is_kept}
        left.append(None if opaque_parts(part) else kept)
    return left


def test_every_type_in_every_form(lake: Path) -> None:
    from pyspark.sql import functions

    session = spark()
    asked = [
        (name, form, make(kind, name, kind.values[1], kind.values[1]))
        for name, kind in KINDS.items()
        for form, make in _forms().items()
    ]
    answers = _answers(session, lake, [functions.expr(c) if isinstance(c, str) else c for *_, c in asked])
    for (name, form, where), answer in zip(asked, answers, strict=True):
        kept = _files_of(read(session, lake, where, exact=False))
        # Of floats a bound from below excludes nothing: NaN is greater than all, and not in the statistics.
        is_range_of_floats = name in ("float", "double") and form in (".between", "expr", "BETWEEN")
        assert (answer, kept) == ({1}, {0, 1} if is_range_of_floats else {1}), (name, form)


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_no_row_is_lost_at_the_ends_of_any_type(lake: Path, ansi: str, zone: str) -> None:
    forms = _forms()
    names = [".isin", ".eqNullSafe"] if ansi == "true" else ["F.col == v", ".between"]
    with settings(spark__sql__ansi__enabled=ansi, spark__sql__session__timeZone=zone) as session:
        asked = [
            (f"{name} {form} {value}", forms[form](kind, name, value, value))
            for name, kind in KINDS.items()
            for value in (*kind.values, *kind.others)
            for form in names
        ]
        asked += [(f"not {what}", ~test) for what, test in asked[:: len(names)]]
        left, answers = (find(session, lake, [test for _, test in asked]) for find in (_left, _answers))
    for (what, _), files, answer in zip(asked, left, answers, strict=True):
        assert files is not None, what
        assert answer <= files, what


def test_columns_that_may_be_folders_prune_nothing() -> None:
    from pyspark.sql.types import StructType

    schema = StructType().add("p", "integer").add("id", "string")
    asked = parse_sql("P = 1 AND id = 'x'")
    for is_sensitive, doubtful, unused in (("false", {"p"}, ["P = 1"]), ("true", {"id"}, ["P = 1", "id = 'x'"])):
        with settings(spark__sql__caseSensitive=is_sensitive) as session:
            found = trusted(Settings(session), asked, schema, doubtful=frozenset(doubtful))
        assert opaque_parts(found) == unused
    assert opaque_parts(trusted(Settings(spark()), asked, schema)) == []


# ---- casts -------------------------------------------------------------------------------

TYPES = [*KINDS, "boolean", "decimal(9,3)", "decimal(12,2)", "decimal(20,0)", "decimal(21,1)", "decimal(38,2)"]


def _listed() -> dict[str, set[str]]:
    """The casts that the documentation lists as dropped, of the types here."""
    page = (Path(__file__).parents[2] / "docs" / "pages" / "spark.md").read_text()
    table = page.partition("| Column | Cast to | Cast to DECIMAL with at least |")[2].partition("\n\n")[0]
    casts = {}
    for line in table.splitlines()[2:]:
        of, others, digits = (cell.strip() for cell in line.split("|")[1:-1])
        to = set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", others).lower()))
        least = (7, 2) if digits.startswith("its own") else (int(digits.split()[0]), 0) if digits else (99, 0)
        wide = {kind: (int(p) - int(s), int(s)) for kind in TYPES for p, s in re.findall(r"(\d+),(\d+)", kind)}
        to |= {kind for kind, (before, after) in wide.items() if before >= least[0] and after >= least[1]}
        casts["decimal(9,2)" if of == "DECIMAL" else of.lower()] = to
    return casts


def _can_cast(session: Any, of: str, to: str) -> bool:
    types = [session.sparkContext._jvm.org.apache.spark.sql.types.DataType.fromDDL(kind) for kind in (of, to)]
    return session.sparkContext._jvm.org.apache.spark.sql.catalyst.expressions.Cast.canCast(*types)


def test_the_casts_that_are_dropped_are_those_of_the_documentation(lake: Path, caplog: Any) -> None:
    from pyspark.sql import functions

    with settings(spark__sql__ansi__enabled="false") as session:
        pairs = [(of, to) for of in KINDS for to in TYPES if _can_cast(session, of, to)]
        null = functions.lit(None)
        tests = [functions.col(of).cast(to) == null.cast(to) for of, to in pairs]
        left = _left(session, lake, tests)
    dropped: dict[str, set[str]] = {}
    for (of, to), files in zip(pairs, left, strict=True):
        if files is not None:
            dropped.setdefault(of, set()).add(to)
    assert {**dropped, "boolean": {"boolean"}} == _listed()


def test_a_cast_that_is_not_listed_is_named(lake: Path, caplog: Any) -> None:
    from pyspark.sql import functions

    col = functions.col
    where = (col("bigint").cast("string") == "5") & (col("int").cast("float") <= 5) & (col("k") == 1)
    assert _files_of(read(spark(), lake, where)) == {1}
    (said,) = our_records(caplog)
    assert said.startswith("parts of the condition that exclude no files: ")
    assert "(CAST(bigint AS STRING) = '5')" in said
    assert "CAST(int AS FLOAT)" in said
    assert "k =" not in said


def test_an_unknown_type_is_not_exact() -> None:
    assert not is_exact("long", "int128")
    assert not is_exact("int128", "int128")
    assert not is_exact("decfloat(9,2)", "double")
    assert not is_exact({"type": "udt"}, {"type": "udt"})


def test_decimals_of_many_digits_are_not_doubles() -> None:
    assert is_exact("decimal(15,2)", "double")
    assert not is_exact("decimal(16,2)", "double")


# ---- parts -------------------------------------------------------------------------------


def test_parts_that_are_not_understood_do_not_lose_the_others(lake: Path, session: Any, caplog: Any) -> None:
    from pyspark.sql import functions

    col = functions.col
    is_odd = functions.udf(lambda number: number % 2 == 1, "boolean")
    for other, text in (
        (is_odd("k"), "<lambda>(k)"),
        (functions.rand(7) >= 0, "rand(7"),
        (col("_metadata.file_name") == "1.parquet", "_metadata"),
        (col("date") <= functions.current_date(), "current_date()"),
    ):
        caplog.clear()
        where = other & ~((col("k") != 1) | (col("string") != "b"))
        assert _files_of(read(session, lake, where)) == {1}, text
        assert rows(read(session, lake, where, "k")) == ["Row(k=1)"]
        (said,) = set(our_records(caplog))
        assert text in said
        assert "string" not in said
        assert len(_files_of(read(session, lake, other | (col("k") == 1)))) == 4


def test_spark_excludes_files_beside_what_is_not_deterministic_too(tmp_path: Path, session: Any) -> None:
    for number in range(3):
        (tmp_path / f"p={number}").mkdir()
        pq.write_table(pa.table({"k": [number]}), tmp_path / f"p={number}" / "0.parquet")
    frame = session.read.parquet(str(tmp_path)).where("p = 2 AND rand(7) >= 0")
    scanned = frame._jdf.queryExecution().executedPlan().toString()
    assert "PartitionFilters: [isnotnull(p" in scanned


def test_many_parts_and_long_lists(lake: Path, session: Any, caplog: Any) -> None:
    from pyspark.sql import functions

    col = functions.col
    chain = reduce(or_, (col("k") == number for number in range(1, 300, 2)))
    assert _files_of(read(session, lake, chain)) == {1, 3}
    assert _files_of(read(session, lake, col("k").isin(list(range(2, 500))))) == {2, 3}
    moments = [_NOON + timedelta(minutes=minute) for minute in range(61)]
    assert _files_of(read(session, lake, col("timestamp").isin(moments))) == {0, 1}
    assert not our_records(caplog)


# ---- local times -------------------------------------------------------------------------

CHANGES = {
    "Europe/Berlin": [datetime(2024, 3, 31, 2, 30), datetime(2024, 10, 27, 2, 30)],
    "America/Sao_Paulo": [datetime(2018, 11, 4, 0, 30), datetime(2019, 2, 16, 23, 30)],
    "Pacific/Apia": [datetime(2011, 12, 30, 12)],  # a day that there was not
    "Australia/Lord_Howe": [datetime(2024, 10, 6, 2, 15)],
}


@pytest.mark.parametrize("zone", CHANGES)
def test_local_times_and_days_that_clocks_skip_or_repeat(tmp_path: Path, zone: str) -> None:
    from pyspark.sql import functions

    walls = [moment + timedelta(minutes=minutes) for moment in CHANGES[zone] for minutes in range(-90, 91, 30)]
    walls += [datetime.combine(moment + timedelta(days=day), time()) for moment in CHANGES[zone] for day in (-1, 0, 1)]
    for number, wall in enumerate(walls):
        columns = {"n": pa.array([wall], pa.timestamp("us")), "d": [wall.date()]}
        pq.write_table(pa.table({"k": [number], **columns}), tmp_path / f"{number}.parquet")
    instants = [
        moment.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) + timedelta(minutes=minutes)
        for moment in CHANGES[zone]
        for fold in (0, 1)
        for minutes in (-60, -10, 0, 30, 60)
    ]
    texts = [f"TIMESTAMP '{instant:%Y-%m-%d %H:%M:%S}Z'" for instant in instants]
    texts += [f"TIMESTAMP '{wall}'" for wall in walls]
    with settings(spark__sql__session__timeZone=zone) as session:
        asked = [f"{name} {op} {text}" for text in texts for name in "nd" for op in ("=", "<", ">", "<>")]
        answers = _answers(session, tmp_path, list(map(functions.expr, asked)))
        of_columns = _left(session, tmp_path, list(map(functions.expr, asked)))
        of_texts = _left_by(session, tmp_path, list(map(parse_sql, asked)))
    for where, answer, *files in zip(asked, answers, of_columns, of_texts, strict=True):
        assert all(answer <= left for left in files), where
        assert max(map(len, files)) <= 5 or not where.startswith("n ="), where
