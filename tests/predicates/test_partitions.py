"""Directories as constants: no engine, whatever types it gives them, finds rows in a file that they pruned."""

from __future__ import annotations

import contextlib
import functools
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark, understood
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom import index
from parquet_bloom.errors import ColumnNotFoundError
from parquet_bloom.predicates.partitions import might_hold
from parquet_bloom.predicates.tree import Comparison, In, IsNull, Number, Text, TimestampText
from parquet_bloom.storage.partitions import NULL_NAME, partitions_of
from parquet_bloom.verbs.prune import prune

LAKES = {
    "integers": ["1", "2", "9", "10", "-3", "007", NULL_NAME],
    "large integers": ["9007199254740992", "9007199254740993", "9223372036854775807", "99999999999999999999"],
    "fractions": ["1", "1.5", "2.50", "-0.5", "5.5", "1e3", ".25"],
    "odd floats": ["1", "NaN", "Infinity", "-Infinity", "1d", "3f", "0x1p3"],
    "spelled integers": ["5", "+5", " 7 ", "0x10", "1_0", "00"],
    "dates": ["2024-01-01", "2024-01-02", "2023-12-31", "1999-12-31", NULL_NAME],
    "loose dates": ["2024-01-01", "2024-1-5", "2024-01-05"],
    "timestamps": ["2024-01-01 00:00:00", "2024-01-01 12:00:00", "2024-01-02"],
    "months": ["2023-12", "2024-01", "2024-02"],
    "compact dates": ["20231231", "20240101", "20240102"],
    "texts": ["a", "B", "b c", "a=b", "50%", "x/y", "é", "日本", "a+b", "it's", "NULL", "null", NULL_NAME],
    "mixed": ["1", "10", "9", "abc", "2024-01-01", "true", "", "3f"],
    "truths": ["true", "false", "TRUE", "t"],
    "hex": ["0a", "1f", "ff", "3e", "1e5"],
}
LITERALS: list[Any] = [
    *(0, 1, 5, 6, 7, 9, 10, 16, 1000, -3, 20240101, 2**53, 2**53 + 1, 10**30),
    *(1.5, 0.25, 5.4, Decimal("1.5"), Decimal("5.5"), Decimal("2.5")),
    *(
        "1",
        "01",
        "9",
        "10",
        "5.5",
        "1.50",
        "6",
        "abc",
        "a",
        "b c",
        "a=b",
        "50%",
        "x/y",
        "é",
        "it's",
        "NULL",
        "",
        "true",
    ),
    *("2024-01-01", "2024-01-01 00:00:00", "2024-01-01 12:00:00", "2024-1-5", "2024", "2024-01", "20240101", "NaN"),
    *("nan", "1d", "3e", "0a", "1f", NULL_NAME, "Infinity", "inf"),
    *(date(2024, 1, 1), date(2024, 1, 2), date(1999, 12, 31), datetime(2024, 1, 1), datetime(2024, 1, 1, 12)),
]
OPS = ("=", "<>", "<", "<=", ">", ">=")


@pytest.fixture(scope="module", params=LAKES)
def lake(request: Any, tmp_path_factory: Any) -> Path:
    """A directory of one file for each constant; the file's one row holds the constant's number."""
    root = tmp_path_factory.mktemp("lake")
    for number, text in enumerate(LAKES[request.param]):
        folder = root / f"k={quote(text, safe=' ')}"
        folder.mkdir()
        pq.write_table(pa.table({"n": [number]}), folder / f"{number}.parquet")
    return root


def sql(value: Any) -> str:
    match value:
        case datetime():
            return f"TIMESTAMP '{value}'"
        case date():
            return f"DATE '{value}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


def kept(lake: Path, where: Any) -> set[int]:
    """Returns the numbers of the constants whose files are kept."""
    return {int(Path(file.path).stem) for file in prune(lake, where, timezone="UTC").kept_files}


@pytest.fixture(scope="module")
def held(lake: Path) -> dict[str, set[int]]:
    """What is kept of the lake for each of the tests, by name."""
    return {name: kept(lake, where) for _, where, name in asked_of_a_lake()}


def asked_of_a_lake() -> list[tuple[str, Any, str]]:
    """Returns what is asked: as SQL, as ours, and what it is called."""
    asked: list[tuple[str, Any, str]] = []
    for value in LITERALS:
        ours = (
            Text(value)
            if isinstance(value, str)
            else TimestampText(str(value))
            if isinstance(value, datetime)
            else value
        )
        asked += [(f"k {op} {sql(value)}", Comparison(op, ("k",), ours), f"{op} {value}") for op in OPS]
        asked.append((f"NOT (k <= {sql(value)})", Comparison("<=", ("k",), ours, True), f"NOT <= {value}"))
        asked.append((f"k NOT IN ({sql(value)})", In(("k",), (ours,), True), f"NOT IN {value}"))
        null_safe = f"k IS NOT DISTINCT FROM {sql(value)}"
        asked.append((f"NOT ({null_safe})", Comparison("<=>", ("k",), ours, True), f"NOT <=> {value}"))
    asked.append(("k IS NULL", IsNull(("k",)), "IS NULL"))
    asked.append(("k IS NOT NULL", IsNull(("k",), True), "IS NOT NULL"))
    return asked


@pytest.mark.engines
@pytest.mark.parametrize("autocast", [True, False], ids=["typed", "text"])
def test_duckdb_finds_nothing_in_what_is_pruned(lake: Path, held: dict[str, set[int]], autocast: bool) -> None:
    import duckdb

    pruned = 0
    with duckdb.connect() as connection:
        files = f"read_parquet('{lake}/*/*.parquet', hive_partitioning = true, hive_types_autocast = {autocast})"
        connection.execute(f"CREATE TABLE rows AS SELECT * FROM {files}")
        everything = {n for (n,) in connection.execute("SELECT n FROM rows").fetchall()}
        for text, _, name in asked_of_a_lake():
            try:
                found = {n for (n,) in connection.execute(f"SELECT n FROM rows WHERE {text}").fetchall()}
            except duckdb.Error:
                continue
            assert found <= held[name], name
            pruned += held[name] < everything
    assert pruned > 20


@needs_java
@pytest.mark.spark
def test_spark_finds_nothing_in_what_is_pruned(lake: Path, held: dict[str, set[int]]) -> None:
    from pyspark.errors import PySparkException

    session = spark()
    session.conf.set("spark.sql.ansi.enabled", "false")  # where a cast fails, NULL, and not no answer at all
    # Spark 4.3 answers `k <= 1e30` with the rows where k is NULL, too.
    asked = [test for test in asked_of_a_lake() if f"{10**30}" not in test[0]][::8]
    try:
        rows = session.read.parquet(str(lake))
        texts = set(understood(rows, [text for text, _, _ in asked]))
        asked = [test for test in asked if test[0] in texts]
        answers = rows.selectExpr("n", *(text for text, _, _ in asked)).collect()
    except PySparkException as error:
        if "EMPTY_PARTITION_COLUMN_VALUE" not in str(error):
            raise
        pytest.skip("Spark refuses an empty directory value")
    finally:
        session.conf.unset("spark.sql.ansi.enabled")
    for number, (_, _, name) in enumerate(asked, 1):
        assert {row[0] for row in answers if row[number]} <= held[name], name


@pytest.mark.parametrize("is_text", [True, False])
def test_pyarrow_finds_nothing_in_what_is_pruned(lake: Path, is_text: bool) -> None:
    kind = pa.schema([("k", pa.string())]) if is_text else None
    try:
        rows = ds.dataset(lake, partitioning=ds.partitioning(kind, flavor="hive")).to_table()
    except pa.ArrowInvalid:
        pytest.skip("pyarrow cannot infer one type for this lake")
    compare = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
    for value in LITERALS[::2]:
        for op, method in compare.items():
            filters = [("k", {"<>": "!="}.get(op, op), value)]
            try:
                found = rows.filter(getattr(ds.field("k"), method)(value))["n"].to_pylist()
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
                continue
            assert set(found) <= kept(lake, filters), f"{op} {value!r}"


# ---- golden ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constant", "op", "value", "answer"),
    [
        ("2024-01-01", "=", Text("2024-01-02"), False),
        ("2024-01-01", ">=", Text("2024-01-02"), False),
        ("2024-01-01", "=", date(2024, 1, 2), False),
        ("2024-01-01", "<", date(2024, 1, 2), True),
        ("2024-01-01 12:00:00", ">", date(2024, 1, 1), True),
        ("2024-01-01", "=", TimestampText("2024-02-01"), True),  # its zone is not known
        ("2024-01-01 12:00:00", "=", datetime(2024, 1, 1, 11), True),
        ("9", "<", Text("10"), True),
        ("9", ">", Text("10"), True),  # as text
        ("9", ">", 10, True),  # for DataFusion, which compares with '10'
        ("9", "=", 10, False),
        ("007", "=", 7, True),
        ("007", "=", Text("7"), True),
        ("5.5", "=", 5, True),  # cut to an integer
        ("5.5", "=", 6, True),  # rounded
        ("5.5", "=", 7, False),
        ("5", "=", Number("5.5"), False),
        ("5", "=", Text("5.5"), True),  # the text is cut
        ("9007199254740993", "=", 2**53, True),  # as floats
        ("5", "<=", 5, True),
        ("5", ">=", Text("5"), True),
        ("5", "<", 5, False),
        ("abc", "=", 5, False),
        ("paris", "=", Text("75"), False),
        ("75", "=", Text("paris"), False),
        ("paris", "=", Text("london", ("paris",)), True),
        ("paris", "<>", Text("paris", ("london",)), True),
        ("paris", "<>", Text("paris"), False),
        ("paris", "=", "paris", True),
        (NULL_NAME, "=", Text("paris"), False),
        (NULL_NAME, "<>", Text("paris"), True),  # for engines to which it is a text
        ("1e999999999", "=", 5, True),
        ("5", "=", 10**1000, True),
        ("5", "=", float("nan"), True),
        ("5", "=", Decimal("sNaN"), True),
        ("5", "=", b"5", True),
        ("3f", "=", Text("4f"), True),  # a float to Java
        ("true", "=", True, True),
    ],
)
def test_golden(constant: str, op: str, value: Any, answer: bool) -> None:
    assert might_hold(Comparison(op, ("k",), value), constant) is answer


@pytest.mark.parametrize(
    ("node", "constant", "answer"),
    [
        (IsNull(("k",)), "a", False),
        (IsNull(("k",)), NULL_NAME, True),
        (IsNull(("k",)), "", True),
        (IsNull(("k",)), "null", True),
        (IsNull(("k",), True), "a", True),
        (Comparison("<=>", ("k",), None), "a", False),
        (Comparison("<=>", ("k",), None), NULL_NAME, True),
        (Comparison("<=>", ("k",), None, True), "a", True),
        (Comparison("<=>", ("k",), Text("a"), True), "a", False),
        (Comparison("<=>", ("k",), Text("null"), True), "null", True),
        (Comparison("<=>", ("k",), Text("5")), NULL_NAME, True),  # NULL to Spark, if it does not fit the type
        (In(("k",), (Text("a"), Text("b"))), "b", True),
        (In(("k",), (Text("a"), Text("b"))), "c", False),
        (In(("k",), (Text("a"), None)), "c", True),
        (In(("k",), (Text("a"), Text("b")), True), "b", False),
        (In(("k",), (Text("a"), Text("b")), True), "c", True),
        (In(("k",), ()), "c", False),
        (In(("k",), (), True), "c", True),
    ],
)
def test_nulls_and_lists(node: Any, constant: str, answer: bool) -> None:
    assert might_hold(node, constant) is answer


def test_directories() -> None:
    found = partitions_of("s3://bucket/lake/Day=1/day=2/=x/plain/e=/a%20b=c%3Dd=e/year=1999.parquet")
    assert found.constants == {"Day": "1", "day": "2", "e": "", "a b": "c=d=e"}
    assert found.named(("day",), case_sensitive=True) == ["2"]
    assert found.named(("DAY",), case_sensitive=True) == []
    assert found.named(("DAY",), case_sensitive=False) == ["1", "2"]
    assert found.named(("a b",), case_sensitive=True) == ["c=d=e", "c%3Dd=e"]  # ClickHouse does not decode
    assert found.named(("e", "f"), case_sensitive=True) == []
    assert partitions_of(f"x={NULL_NAME}\\y=1\\f").constants == {"x": None, "y": "1"}


@given(st.text(), st.one_of(st.text().map(Text), st.integers(), st.floats(), st.decimals(), st.dates(), st.none()))
def test_whatever_the_text_nothing_is_raised_and_equal_texts_match(constant: str, value: Any) -> None:
    for op in OPS:
        assert might_hold(Comparison(op, ("k",), value), constant) in (True, False)
    assert might_hold(Comparison("=", ("k",), Text(constant)), constant)


def test_a_column_that_is_both_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "k=1" / "f.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"k": [2]}), path)
    for value in (1, 2, 3):
        (group,) = prune(tmp_path, [("k", "=", value)]).rows
        assert group.is_kept
        assert "both a column and a partition" in group.reason


# ---- which directories are constants -----------------------------------------------------

TREE: dict[str, dict[str, list[Any]]] = {
    "day=7/t/both.parquet": {"n": [1, 2], "day": [5, None], "hour": [30, 4]},
    "day=7/t/lacks.parquet": {"n": [3]},
    "day=7/t/hour=3/below.parquet": {"n": [4], "day": [7]},
    "day=7/t/hour=4/below.parquet": {"n": [5]},
    "day=8/t/hour=4/other.parquet": {"n": [6], "day": [9]},
}
"""Files with and without columns that are called as the directories above them, each row with its number."""

NAMED = [
    "day=7/t",
    "day=7/t/",
    "day=7/t/*.parquet",
    "day=7/t/hour=*",
    "day=7/t/hour=*/*.parquet",
    "day=*/t",
    "day=*/t/hour=4",
    "day=7/t/both.parquet",
    "day=7/t/lacks.parquet",
    "day=7/t/hour=3/below.parquet",
    ["day=7/t/both.parquet", "day=7/t/lacks.parquet"],
    ["day=7/t/hour=3/below.parquet", "day=7/t/hour=4/below.parquet", "day=8/t/hour=4/other.parquet"],
    ["day=7/t/hour=3", "day=7/t/hour=4"],
    ["day=7/t", "day=8/t"],
    ".",
]
CONDITIONS = [
    *(f"{name} {op} {value}" for name in ("day", "hour") for op in ("=", "<>", "<", ">=") for value in (3, 4, 5, 7, 8)),
    *(f"{name} IS {n}NULL" for name in ("day", "hour") for n in ("", "NOT ")),
    *(f"{name} {n}IN (3, 7, 30)" for name in ("day", "hour") for n in ("", "NOT ")),
    *("day IS NOT DISTINCT FROM 7", "day IS DISTINCT FROM 7", "day IS NULL OR hour = 99", "day = 7 AND hour IS NULL"),
    *("NOT (day = 7)", "n > 4 AND day IS NULL"),
]


@pytest.fixture
def plain_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, columns in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({n: pa.array(v, pa.int64()) for n, v in columns.items()}), path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


INDEXED = {"day=7/t": "7.bloom-index", "day=8/t": "8.bloom-index"}


def give_indexes(tree: Path) -> None:
    for folder, name in INDEXED.items():
        index.create(tree / folder, "day", at=tree.parent / f"{tree.name}-{name}")


def index_of(paths: Any) -> Path | None:
    """Returns where the index of paths is, if they have one."""
    name = INDEXED.get(paths.rstrip("/")) if isinstance(paths, str) else None
    at = Path(f"{Path.cwd()}-{name}")
    return at if at.exists() else None


@pytest.fixture(params=[False, True], ids=["plain", "indexed"])
def tree(request: Any, plain_tree: Path) -> Path:
    if request.param:
        give_indexes(plain_tree)
    return plain_tree


def rows_kept(paths: Any, where: str) -> set[int] | None:
    """Returns the numbers of the rows in what is kept; None where no file knows a column."""
    try:
        pruning = prune(paths, where, index=index_of(paths))
    except ColumnNotFoundError:
        return None
    groups = ((group.path, group.row_group) for group in pruning.kept_row_groups)
    return {n for path, group in groups for n in pq.ParquetFile(path).read_row_group(group, ["n"])["n"].to_pylist()}


def listed(paths: Any) -> list[str]:
    return [paths] if isinstance(paths, str) else paths


@pytest.mark.engines
def test_duckdb_takes_every_directory_for_a_partition(tree: Path) -> None:
    import duckdb

    questions = 0
    with duckdb.connect() as connection:
        for paths in NAMED:
            files = [p if p.endswith(".parquet") else f"{p.rstrip('/')}/**/*.parquet" for p in listed(paths)]
            kept_of = functools.cache(functools.partial(rows_kept, paths))
            for options in ("", ", union_by_name = true", ", hive_partitioning = false, union_by_name = true"):
                for where in CONDITIONS:
                    try:
                        rows = connection.execute(
                            f"SELECT n FROM read_parquet({files}{options}) WHERE {where}"
                        ).fetchall()
                    except (duckdb.BinderException, duckdb.InvalidInputException):  # no such column, or not in all
                        continue
                    questions += 1
                    kept = kept_of(where)
                    found = {n for (n,) in rows}
                    assert kept is None or found <= kept, f"{where} in {paths}{options}"
    assert questions > 1000


@needs_java
@pytest.mark.spark
def test_spark_takes_those_below_a_directory_that_is_named(plain_tree: Path) -> None:
    from pyspark.errors import PySparkException

    def frame_of(paths: Any) -> Any:
        files = [f"{plain_tree}/{path}" for path in listed(paths)]
        return spark().read.option("mergeSchema", "true").parquet(*files)

    frames = {}
    for paths in NAMED:
        with contextlib.suppress(PySparkException):
            frame = frame_of(paths)
            asked = understood(frame, list(CONDITIONS))
            frames[str(paths)] = frame.selectExpr("n", *asked).collect(), asked, frame.schema, frame.inputFiles()
    assert len(frames) > 10

    def nothing_is_lost() -> None:
        for paths in NAMED:
            answers, asked, *_ = frames.get(str(paths), ([], []))
            for number, where in enumerate(asked, 1):
                kept = rows_kept(paths, where)
                assert kept is not None, f"{where} in {paths}"
                assert {row[0] for row in answers if row[number]} <= kept, f"{where} in {paths}"

    nothing_is_lost()
    give_indexes(plain_tree)
    for paths in NAMED:
        try:
            frame = frame_of(paths)
        except PySparkException:
            assert str(paths) not in frames
        else:  # an index is nothing to Spark, so its answers hold
            _, _, schema, files = frames[str(paths)]
            assert (frame.schema, sorted(frame.inputFiles())) == (schema, sorted(files)), paths
    nothing_is_lost()


@pytest.mark.engines
def test_pyarrow_takes_those_of_files_that_are_named(tree: Path) -> None:
    import duckdb

    questions = 0
    for paths in NAMED:
        if any("*" in path for path in listed(paths)) or (isinstance(paths, list) and ".parquet" not in paths[0]):
            continue  # it has neither globs nor lists of directories
        schema = pa.schema([(name, pa.int64()) for name in ("n", "day", "hour")])
        hive = ds.partitioning(schema, flavor="hive")
        rows = ds.dataset(paths, schema, partitioning=hive, exclude_invalid_files=True).to_table()
        with duckdb.connect() as connection:
            for where in CONDITIONS:
                with contextlib.suppress(duckdb.BinderException):
                    found = {n for (n,) in connection.execute(f"SELECT n FROM rows WHERE {where}").fetchall()}
                    kept = rows_kept(paths, where)
                    questions += 1
                    assert kept is None or found <= kept, f"{where} in {paths}"
    assert questions > 100
    assert rows.num_rows == len(TREE) + 1


@pytest.mark.parametrize("named", ["day=7/u", "day=7/u/*.parquet"])
def test_directories_above_what_is_named_are_no_partitions(tmp_path: Path, named: str) -> None:
    (tmp_path / "day=7/u").mkdir(parents=True)
    pq.write_table(pa.table({"n": [1]}), tmp_path / "day=7/u/f.parquet")
    with pytest.raises(ColumnNotFoundError, match="day=7 is above the given path, so it is not a partition"):
        prune(tmp_path / named, "day = 7")


def test_a_file_given_by_its_path_is_pruned_if_no_reading_matches(tree: Path) -> None:
    for where, is_kept in {"day = 7": True, "day = 8": False, "day IS NULL": True, "day IS NOT NULL": True}.items():
        assert prune("day=7/t/lacks.parquet", where).might_match is is_kept
    for where, is_kept in {"day = 5": True, "day = 7": True, "day = 6": False, "day = 7 AND n = 9": False}.items():
        assert prune("day=7/t/both.parquet", where).might_match is is_kept


def test_a_file_that_is_found_twice_has_no_sure_partitions(tree: Path) -> None:
    twice = ["day=8/t/hour=4/other.parquet", "day=8"]
    for paths in (twice, twice[::-1]):
        assert prune(paths, "hour IS NULL").might_match
        assert not prune(paths, "hour = 3").might_match
