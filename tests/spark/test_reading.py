"""`spark.read` gives the rows that Spark alone would, of fewer files."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark, spark_rows_scanned, understood
from verbs.prune.test_no_row_lost import by_pyarrow
from verbs.prune.test_no_row_lost_in_spark import SPARK_TYPES, _answers, asked_of
from verbs.prune.worlds import KINDS, Column, World

import parquet_bloom
from parquet_bloom.errors import PredicateError
from parquet_bloom.spark import read

pytestmark = [needs_java, pytest.mark.spark]

FILTERS = {"bloom_filter_options": {"id": True}}


@contextmanager
def settings(**changes: str) -> Iterator[Any]:
    session = spark()
    names = {name.replace("__", "."): value for name, value in changes.items()}
    try:
        for name, value in names.items():
            session.conf.set(name, value)
        yield session
    finally:
        for name in names:
            session.conf.unset(name)
        session.conf.set("spark.sql.session.timeZone", "UTC")


def our_records(caplog: Any) -> list[str]:
    """What this package logged; PySpark's own loggers speak or not, as other tests in the process have set them."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("parquet_bloom")]


@pytest.fixture
def session() -> Iterator[Any]:
    """Spark without pushdown, which on its own loses rows with NaN."""
    with settings(spark__sql__parquet__filterPushdown="false") as found:
        yield found


def write(path: Path, *, row_group_size: int = 2, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    filters = {name: True for name in table.column_names if table[name].type not in (pa.bool_(),)}
    pq.write_table(table, path, row_group_size=row_group_size, bloom_filter_options=filters, use_dictionary=False)
    return path


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Ten files with three ids each: a0, b0, c0 in the first, and so on."""
    for number in range(10):
        ids = [f"{letter}{number}" for letter in "abc"]
        write(tmp_path / "lake" / f"{number}.parquet", id=ids, n=[number, number + 1, number + 2])
    return tmp_path / "lake"


def rows(frame: Any) -> list[str]:
    return sorted(map(repr, frame.collect()))


def same(session: Any, paths: Any, where: Any, columns: Any = None, **options: Any) -> Any:
    """Asserts that both ways give the same rows and schema, and returns our frame."""
    listed = [str(path) for path in (paths if isinstance(paths, list) else [paths])]
    frame = read(session, listed, where, columns, options=options)
    truth = session.read.options(**options).parquet(*listed).where(where)
    truth = truth if columns is None else truth.select(*columns)
    assert frame.schema == truth.schema
    assert rows(frame) == rows(truth)
    return frame


def num_files(frame: Any) -> int:
    return len(frame.inputFiles())


# ---- the answer --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SPARK_TYPES)
def test_every_type(tmp_path: Path, session: Any, kind: str) -> None:
    quoted = list(SPARK_TYPES).index(kind) % 2 == 0  # lenient, or ANSI
    rng = random.Random(f"{kind} {quoted}")
    values = KINDS[kind].values
    for number in range(4):
        cells = rng.sample(values, min(len(values), 3)) + [None] * (number % 2)
        world = World((Column("c0", kind, "plain"),), tuple((cell,) for cell in cells), 2)
        by_pyarrow(world, tmp_path / f"{number}.parquet")
    with settings(spark__sql__ansi__enabled=str(not quoted)):
        frame = session.read.parquet(str(tmp_path)).withColumn("k", _position())
        asked = understood(frame, asked_of(kind, quoted, rng))
        truth = _answers(frame, rng.sample(asked, min(len(asked), 40)))
        fewer = 0
        for text, expected in list(truth.items())[:6]:
            ours = read(session, tmp_path, text)
            found = {row[0] for row in ours.select(_position()).collect()} if num_files(ours) else set()
            assert found == expected, text
            fewer += num_files(ours) < 4
    assert fewer or kind == "decimal(20,2) bytes"  # whose filters never prune: a value has many forms


def _position() -> Any:
    from pyspark.sql import functions

    return functions.concat("_metadata.file_name", functions.lit(" "), "_metadata.row_index")


def test_only_what_can_match_is_read(lake: Path, session: Any) -> None:
    assert num_files(same(session, lake, "id = 'b3'")) == 1
    assert num_files(same(session, lake, "id IN ('b3', 'a7') AND n > 4")) == 1
    assert num_files(same(session, lake, "id = 'b3' OR n = 11", ["n"])) == 2
    assert num_files(same(session, lake, "upper(id) = 'B3' OR n = 11")) == 10


def test_only_row_groups_that_can_match_are_read(tmp_path: Path, session: Any, caplog: Any) -> None:
    from pyspark.sql import functions

    moments = [datetime(2024, 1, 1, hour) for hour in range(24)]
    for number in range(3):
        columns = {"w": pa.array(moments[number::3], pa.timestamp("us")), "n": [number] * 8}
        write(tmp_path / "t" / f"{number}.parquet", **columns)
    where = "w = TIMESTAMP_NTZ '2024-01-01 07:00:00'"  # of whose filters Spark makes no use
    for condition in (where, functions.expr(where)):
        frame = read(session, tmp_path / "t", condition, ["n", "w"], row_groups=True)
        assert spark_rows_scanned(frame)[0] == [(1, moments[7])]
        assert rows(frame.union(frame)) == rows(frame) * 2
    assert not our_records(caplog)
    with settings(spark__sql__sources__useV1SourceList=""):
        assert read(session, tmp_path / "t", where, "n", row_groups=True).collect() == [(1,)]
    assert "reading whole files" in caplog.text


def test_row_groups_are_read_though_spark_folds_a_column_away(tmp_path: Path, session: Any, caplog: Any) -> None:
    write(tmp_path / "t" / "1.parquet", id=["a", "b", "c"], n=[1, 2, 3], m=[1, 2, 3])
    for where in ("id = 'c' AND (n = 5 OR true)", "id = 'c' AND coalesce(1, n) = 1"):
        frame = read(session, tmp_path / "t", where, "m", row_groups=True)
        assert spark_rows_scanned(frame)[0] == [(3,)]
        assert rows(frame) == rows(session.read.parquet(str(tmp_path / "t")).where(where).select("m"))
    assert our_records(caplog) == ["parts of the condition that exclude no files: COALESCE(1, n) = 1"]


def test_the_reason_for_whole_files_is_a_sentence(tmp_path: Path, session: Any) -> None:
    from parquet_bloom.spark.row_groups import Unavailable, _internals

    with pytest.raises(Unavailable) as raised, _internals("it failed"):
        raise ValueError("a plan " * 1000)
    assert len(str(raised.value)) < 250


def test_text_and_exact_numbers_in_one_list_are_doubles(tmp_path: Path, session: Any) -> None:
    kinds = {"i": pa.int64(), "d": pa.decimal128(20, 1)}
    for number, value in enumerate((2**53, 2**53 + 1, 5, 6)):
        write(tmp_path / "t" / f"{number}.parquet", **{name: pa.array([value], kind) for name, kind in kinds.items()})
    for column in kinds:
        for listed in ("9007199254740993.0, '5'", "9007199254740993, '5', 6.5", "'9007199254740993', 5.0", "6, '5'"):
            for ansi in ("true", "false"):
                with settings(spark__sql__ansi__enabled=ansi):
                    frame = same(session, tmp_path / "t", f"{column} IN ({listed})")
        assert column == "d" or num_files(frame) == 2


def test_nothing_kept_has_the_schema(lake: Path, session: Any) -> None:
    frame = same(session, lake, "id = 'nowhere'", ["n", "id"])
    assert (frame.count(), frame.columns) == (0, ["n", "id"])
    assert frame.union(session.read.parquet(str(lake)).select("n", "id")).count() == 30


def test_a_column_as_the_condition(lake: Path, session: Any) -> None:
    from pyspark.sql import functions

    col = functions.col
    assert num_files(same(session, lake, col("id") == "b3")) == 1
    assert num_files(same(session, lake, (col("id").isin("b3", "a7")) & ~(col("n") < 5))) == 1
    assert num_files(same(session, lake, col("ID").eqNullSafe('it\'s \\ "b3"'))) <= 1
    assert num_files(same(session, lake, functions.upper("id") == "B3")) == 10


def test_variables_in_the_text_are_spark_s(lake: Path, session: Any) -> None:
    with settings(the__id="b3"):
        assert same(session, lake, "id = '${the.id}'").count() == 1


def test_what_spark_refuses_is_refused(lake: Path, session: Any) -> None:
    from pyspark.errors import AnalysisException

    for where in ("nothing = 3", "id ==== 3"):
        with pytest.raises(AnalysisException):
            read(session, lake, where)
    with pytest.raises(AnalysisException):
        read(session, lake / "nothing", "id = 'b3'")
    with pytest.raises(PredicateError, match="text or a Column"):
        read(session, lake, [("id", "=", "b3")])


# ---- exact pruning -----------------------------------------------------------------------


@pytest.fixture
def misleading(tmp_path: Path) -> Path:
    """Ten files with a row group each, of which statistics exclude none, and which have no filters."""
    (tmp_path / "lake").mkdir()
    for number in range(10):
        table = pa.table({"id": ["a", f"b{number}", "z"], "n": [0, 2 * number, 20]})
        pq.write_table(table, tmp_path / "lake" / f"{number}.parquet")
    return tmp_path / "lake"


def test_columns_of_few_row_groups_are_read(misleading: Path, session: Any) -> None:
    for where, left in {
        "id = 'b3'": 1,
        "id = 'b33'": 0,
        "id IN ('b3', 'b33') AND n = 6": 1,
        "n = 7": 0,
        "id = 'b3' OR n = 8": 2,
        "upper(id) = 'B3'": 10,
    }.items():
        assert num_files(same(session, misleading, where)) == left, where
        assert num_files(read(session, misleading, where, exact=False)) == 10


def test_columns_of_many_row_groups_are_read_only_if_that_is_forced(
    misleading: Path, session: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "parquet_bloom")
    monkeypatch.setattr("parquet_bloom.spark.reading._MOST_ROW_GROUPS", 16)
    for number in range(10, 17):
        shutil.copyfile(misleading / "0.parquet", misleading / f"{number}.parquet")
    assert num_files(same(session, misleading, "id = 'b3'")) == 17
    assert num_files(read(session, misleading, "id = 'b3'", exact=True)) == 1
    assert "reading columns of 17 row groups" in caplog.text
    (misleading / "16.parquet").unlink()
    assert num_files(read(session, misleading, "id = 'b3'")) == 1
    monkeypatch.setattr("parquet_bloom.spark.reading._MOST_BYTES", 100)
    assert num_files(read(session, misleading, "id = 'b3'")) == 16
    assert "columns are not read" in caplog.text


# ---- a frame like any other --------------------------------------------------------------


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_frames_can_be_used_again(lake: Path, session: Any, tmp_path: Path, adaptive: str) -> None:
    with settings(spark__sql__adaptive__enabled=adaptive):
        three, four = read(session, lake, "id = 'b3'"), read(session, lake, "id = 'b4'")
        assert [row.id for row in three.union(four).union(three).orderBy("id").collect()] == ["b3", "b3", "b4"]
        assert [row.id for row in three.collect()] == ["b3"]
        assert three.alias("x").join(three.alias("y"), "id").count() == 1
        assert three.crossJoin(four.select(four.id.alias("other"))).collect()[0][:] == ("b3", 4, "b4")
        three.createOrReplaceTempView("three")
        assert session.sql("SELECT id FROM three UNION ALL SELECT id FROM three").count() == 2
        both = read(session, lake, "id IN ('b3', 'b4')")
        assert both.where("id = 'b4'").count() == 1
        assert both.count() == 2
        cached = both.cache()
        assert (cached.count(), cached.where("id = 'b3'").count()) == (2, 1)
        cached.unpersist()
        both.write.parquet(str(tmp_path / f"out-{adaptive}"))
        assert rows(session.read.parquet(str(tmp_path / f"out-{adaptive}"))) == rows(both)
        assert both.groupBy("n").count().count() == 2


@pytest.mark.parametrize("layout", ["flat", "days"])
def test_a_frame_of_nothing_is_like_any_other(tmp_path: Path, session: Any, layout: str, capsys: Any) -> None:
    from pyspark.sql import functions

    root = tmp_path / "t"
    for number in range(4):
        write(
            root / ("" if layout == "flat" else f"day={number}") / f"{number}.parquet", id=[f"id{number}"], n=[number]
        )
    nothing, some = read(session, root, "id = 'nowhere'"), read(session, root, "id = 'id2'")
    truth = session.read.parquet(str(root))
    assert nothing.schema == some.schema == truth.schema
    assert nothing.columns == truth.columns
    assert nothing.dtypes == truth.dtypes
    both = nothing.union(some).union(nothing)
    assert rows(both) == rows(truth.where("id = 'id2'"))
    assert both.schema == truth.schema
    assert rows(nothing.join(some, "id", "right").select("id")) == ["Row(id='id2')"]
    assert nothing.join(some, nothing.id == some.id).collect() == []
    places = [functions.input_file_name(), functions.col("_metadata.file_path"), functions.col("_metadata.row_index")]
    assert nothing.select("id", *places).collect() == []
    assert [row[0] for row in nothing.union(some).where("n >= 0").select("id").collect()] == ["id2"]
    assert (nothing.groupBy("n").count().count(), nothing.count()) == (0, 0)
    cached = nothing.cache()
    try:
        assert (cached.count(), cached.union(some).count(), read(session, root, "id = 'id2'").count()) == (0, 1, 1)
    finally:
        cached.unpersist()
    nothing.explain(True)
    assert "LocalTableScan <empty>" in capsys.readouterr().out
    nothing.write.parquet(str(tmp_path / "out"))
    assert session.read.schema(nothing.schema).parquet(str(tmp_path / "out")).count() == 0
    with settings(spark__sql__sources__useV1SourceList=""):
        same(session, root, "id = 'nowhere'")
        same(session, root, "id = 'id2'")


# ---- what Spark makes of paths -----------------------------------------------------------

ODD = ["a b", "a=b", "a%b", "é", "x+y", "a:b", "[1]", "*", "{a,b}", "?", "#", "it's", "a/b", 'q"q', "100%25", None, ""]


def test_partitions_with_odd_characters(tmp_path: Path, session: Any) -> None:
    data = [(number, f"id{number}", value) for number, value in enumerate(ODD)]
    root = tmp_path / "a [b] %20"
    session.createDataFrame(data, "n int, id string, p string").write.partitionBy("p").parquet(str(root))
    parquet_bloom.add(root, "id")
    root_for_spark = str(root).replace("[", "\\[").replace("]", "\\]")
    for where in (
        "id = 'id3'",
        "id IN ('id0', 'id2', 'id14')",
        "p = 'a=b'",
        "p IS NULL",
        "p = '*' OR id = 'id6'",
        "n > 9",
    ):
        truth = session.read.parquet(root_for_spark).where(where)
        ours = read(session, root_for_spark, where)
        assert ours.schema == truth.schema
        assert rows(ours) == rows(truth), where
    assert num_files(read(session, root_for_spark, "id = 'id3'")) == 1


@pytest.mark.parametrize("values", [["01", "02"], ["1", "x"], ["2024-01-01", "2024-01-02"], ["1", "2.5"]])
def test_partitions_keep_the_type_of_the_whole(tmp_path: Path, session: Any, values: list[str]) -> None:
    for number, value in enumerate(values):
        write(tmp_path / "t" / f"p={value}" / "f.parquet", id=[f"id{number}"])
    for number, value in enumerate(values):
        assert num_files(same(session, tmp_path / "t", f"id = 'id{number}'")) == 1
        same(session, tmp_path / "t", f"p = '{value}'")
    same(session, tmp_path / "t", "id = 'nowhere'")


def test_ways_to_name_a_partitioned_directory(tmp_path: Path, session: Any) -> None:
    for root in ("x", "y"):
        for day in (1, 2):
            write(tmp_path / "env=prod" / root / f"day={day}" / "f.parquet", id=[f"{root}{day}"], n=[day])
    top = tmp_path / "env=prod"
    same(session, top / "x", "id = 'x2'")
    same(session, top / "x" / "day=*", "id = 'x2'")
    same(session, top / "x" / "day=1", "id = 'x1'")
    same(session, [top / "x" / "day=1" / "f.parquet", top / "x" / "day=2" / "f.parquet"], "id = 'x2'")
    same(session, top / "x" / "day=1", "id = 'x1' AND day = 1", basePath=str(top / "x"))
    assert num_files(same(session, top / "x" / "day=*", "id = 'x1'", basePath=str(top / "x"))) == 1
    for paths in ([top / "x", top / "y"], [top / "*"]):  # these Spark cannot read at all
        with pytest.raises(failures(), match=r"(?i)conflicting[ _]directory[ _]structures"):
            read(session, paths, "id = 'x2'")


def test_a_partition_column_that_the_files_hold_too(tmp_path: Path, session: Any) -> None:
    for day in (1, 2):
        write(tmp_path / "t" / f"day={day}" / "f.parquet", id=[f"id{day}"], day=[7], n=[1])
    for where in ("id = 'id2'", "day = 1", "day = 7", "day = 2 AND id = 'id2'"):
        same(session, tmp_path / "t", where)


def test_files_are_those_that_spark_reads(tmp_path: Path, session: Any) -> None:
    root = tmp_path / "t"
    for name in ("a.parquet", "b", "c.parq", "d [1]*{x}?.parquet", "e %20 f.parquet"):
        write(root / name, id=[name])
    write(root / "_hidden.parquet", id=["hidden"])
    write(root / ".hidden.parquet", id=["hidden"])
    for where in ("id = 'b'", "id = 'c.parq'", "id = 'd [1]*{x}?.parquet'", "id = 'e %20 f.parquet'", "id = 'hidden'"):
        assert num_files(same(session, root, where)) <= 1
    write(root / "below" / "f.parquet", id=["below"])
    same(session, root, "id = 'below'")
    assert same(session, root, "id = 'below'", recursiveFileLookup="true").count() == 1
    same(session, root, "id = 'b'", pathGlobFilter="*.parquet")
    same(session, root / "*.parq*", "id >= 'b'")


def test_the_schema_of_a_summary_file(lake: Path, session: Any) -> None:
    pq.write_metadata(pa.schema([("id", pa.string()), ("more", pa.int64())]), lake / "_common_metadata")
    same(session, lake, "id = 'b3'")


def test_evolved_schemas(tmp_path: Path, session: Any) -> None:
    root = tmp_path / "t"
    write(root / "1.parquet", id=["a", "b"], n=pa.array([1, 2], pa.int32()))
    write(root / "2.parquet", id=["c", "d"])
    write(root / "3.parquet", id=["e", "f"], n=pa.array([5, 6], pa.int32()), m=[1.5, float("nan")])
    for where in ("id = 'c'", "n = 5", "n IS NULL", "n <=> NULL", "n = 5 OR id = 'a'", "NOT n = 5"):
        same(session, root, where)
        same(session, root, where, mergeSchema="true")
    same(session, root, "m > 1", mergeSchema="true")
    with settings(spark__sql__parquet__mergeSchema="true"):
        same(session, root, "m > 1 AND id = 'f'")
    wide = tmp_path / "wide"
    write(wide / "1.parquet", n=pa.array([1, 2], pa.int64()))
    write(wide / "2.parquet", n=pa.array([3, 4], pa.int32()))
    for where in ("n = 3", "n = 1", "n > 2", "n = 3000000000"):
        same(session, wide, where)


def test_names_in_other_cases(tmp_path: Path, session: Any) -> None:
    write(tmp_path / "t" / "1.parquet", Id=["a", "b"])
    write(tmp_path / "t" / "2.parquet", ID=["c", "d"])
    for where in ("id = 'c'", "ID = 'a'", "Id = 'nowhere'"):
        same(session, tmp_path / "t", where)
    with settings(spark__sql__caseSensitive="true"):
        for where in ("Id = 'c'", "Id = 'a'", "Id IS NULL"):
            same(session, tmp_path / "t", where)
        write(tmp_path / "u" / "p=1" / "1.parquet", P=[5], id=["a"])
        write(tmp_path / "u" / "p=2" / "2.parquet", id=["b"])
        for where in ("P = 5", "p = 1", "P = 1", "P IS NULL"):
            same(session, tmp_path / "u", where)


# ---- settings ----------------------------------------------------------------------------

MOMENTS = [
    datetime(2024, 3, 31, 0, 30),
    datetime(2024, 10, 27, 0, 30),
    datetime(2024, 10, 27, 1, 30),
    datetime(2024, 1, 1),
]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Los_Angeles", "+05:30", "Asia/Kathmandu"])
def test_time_zones(tmp_path: Path, session: Any, zone: str) -> None:
    for number, moment in enumerate(MOMENTS):
        columns = {"t": pa.array([moment], pa.timestamp("us", "UTC")), "w": pa.array([moment], pa.timestamp("us"))}
        write(tmp_path / "t" / f"{number}.parquet", **columns, d=[moment.date()])
    session.conf.set("spark.sql.session.timeZone", zone)
    try:
        texts = [f"TIMESTAMP '{m:%Y-%m-%d} {hour:02}:30:00'" for m in MOMENTS for hour in (0, 1, 2, 5, 16, 17)]
        texts = random.Random(zone).sample(texts, 10)
        frames = [
            same(session, tmp_path / "t", f"{column} = {text}")
            for text in (*texts, "TIMESTAMP '2024-01-01'", "DATE '2024-01-01'", "'2024-10-27T01:30:00Z'")
            for column in random.Random(text).sample(["t", "w", "d"], 1)
        ]
        here = ZoneInfo(zone) if zone[0] != "+" else timezone(timedelta(hours=5, minutes=30))
        for moment in MOMENTS:
            local = moment.replace(tzinfo=UTC).astimezone(here)
            assert same(session, tmp_path / "t", f"t = TIMESTAMP '{local:%Y-%m-%d %H:%M:%S}'").count() == 1
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")
    assert any(num_files(frame) < len(MOMENTS) for frame in frames)


@pytest.mark.parametrize(
    ("setting", "value", "where"),
    [
        ("spark.sql.parser.escapedStringLiterals", "true", r"id = 'a\\b'"),
        ("spark.sql.parser.escapedStringLiterals", "true", r"id = 'a\tb'"),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'id = "other"'),
        ("spark.sql.parquet.inferTimestampNTZ.enabled", "false", "w = TIMESTAMP '2024-01-01 05:30:00'"),
        ("spark.sql.parquet.inferTimestampNTZ.enabled", "false", "w = TIMESTAMP '2024-01-01 00:00:00'"),
        ("spark.sql.parquet.binaryAsString", "true", "b = 'x'"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY", "d = DATE '1500-01-01'"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY", "d = DATE '1499-12-23'"),
        ("spark.sql.legacy.typeCoercion.datetimeToString.enabled", "true", "d = '2024-1-1'"),
    ],
)
def test_settings_that_change_what_is_read(tmp_path: Path, session: Any, setting: str, value: str, where: str) -> None:
    for number, text in enumerate(["a\\b", "a\\\\b", "a\tb", "a\\tb", "other"]):
        days = [date(2024, 1, 1), date(1500, 1, 1), date(1499, 12, 23), date(1500, 1, 10), date(2000, 1, 1)]
        write(
            tmp_path / "t" / f"{number}.parquet",
            id=[text],
            other=[text],
            b=[b"x", b"y", b"z", b"", b"0"][number : number + 1],
            d=days[number : number + 1],
            w=pa.array([datetime(2024, 1, 1, number)], pa.timestamp("us")),
        )
    changes = {setting.replace(".", "__"): value, "spark__sql__ansi__enabled": "true"}
    with settings(**changes):
        session.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        same(session, tmp_path / "t", where)


@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED"])
def test_old_dates_in_files_that_spark_wrote(tmp_path: Path, mode: str) -> None:
    days = ["0001-01-01", "1066-10-14", "1500-02-28", "1582-10-04", "1582-10-15", "2024-02-29"]
    changes = {
        "spark__sql__parquet__filterPushdown": "false",
        "spark__sql__parquet__datetimeRebaseModeInWrite": mode,
        "spark__sql__sources__parallelPartitionDiscovery__threshold": "1000",
    }
    with settings(**changes) as session:
        for day in days:
            frame = session.sql(f"SELECT DATE '{day}' AS d, '{day}' AS t").coalesce(1)
            frame.write.option("parquet.bloom.filter.enabled#d", "true").parquet(str(tmp_path / "t" / day))
        paths = [str(tmp_path / "t" / day) for day in days]
        frames = [same(session, paths, f"d = DATE '{day}'") for day in days]
        assert [frame.count() for frame in frames] == [1] * len(days)
        is_proved = mode == "CORRECTED"
        assert [num_files(frame) for frame in frames[:4]] == ([1] * 4 if is_proved else [6] * 4)
        for absent in ("1066-10-13", "1066-10-20", "1582-10-14"):
            assert num_files(same(session, paths, f"d = DATE '{absent}'")) == (0 if is_proved else 6)
    with settings(
        spark__sql__parquet__datetimeRebaseModeInRead="LEGACY", spark__sql__parquet__filterPushdown="false"
    ) as s:
        for day in days:
            assert same(s, paths, f"d = DATE '{day}'").count() == 1


# ---- files that change -------------------------------------------------------------------


def failures() -> tuple[type[Exception], ...]:
    """Returns what PySpark raises when a job fails."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JJavaError


def test_files_that_change_between_pruning_and_reading(lake: Path, session: Any) -> None:
    frame = read(session, lake, "id IN ('b3', 'b4')")
    shutil.copyfile(lake / "8.parquet", lake / "3.parquet")  # what is there when it is read is filtered
    assert [row.id for row in frame.collect()] == ["b4"]
    (lake / "4.parquet").unlink()
    with pytest.raises(failures(), match=r"4\.parquet"):
        frame.collect()
    assert [row.id for row in read(session, lake, "id IN ('b3', 'b4', 'b5')").collect()] == ["b5"]
    compacted = pa.concat_tables([pq.read_table(file) for file in sorted(lake.iterdir())])
    frame = read(session, lake, "id = 'b5'")
    for file in lake.iterdir():
        file.unlink()
    write(lake / "all.parquet", **{name: compacted[name] for name in compacted.column_names})
    with pytest.raises(failures(), match=r"5\.parquet"):
        frame.collect()
    same(session, lake, "id = 'b5'")


def test_a_damaged_file_is_sparks_to_report(lake: Path, session: Any) -> None:
    (lake / "4.parquet").write_bytes((lake / "4.parquet").read_bytes()[:-20])
    with pytest.raises(failures(), match=r"4\.parquet"):
        read(session, lake, "id = 'b5'").collect()
