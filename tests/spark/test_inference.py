"""What Spark infers is known here without it, or it is asked; and it is asked little."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java
from files import FIXTURES, SOUND, opened
from spark.test_reading import num_files, same, settings, write

from parquet_bloom.spark import read
from parquet_bloom.spark.conditions import odd_times
from parquet_bloom.spark.inference import schema_of
from parquet_bloom.spark.session import Settings

pytestmark = [needs_java, pytest.mark.spark]


MOST_CALLS = 16


@pytest.fixture
def session() -> Iterator[Any]:
    with settings(spark__sql__parquet__filterPushdown="false") as found:
        yield found


@contextmanager
def jobs_counted(session: Any) -> Iterator[list[int]]:
    """Counts the jobs that Spark starts in the block."""
    context = session.sparkContext
    context.setJobGroup("counted", "counted")
    before = len(context.statusTracker().getJobIdsForGroup("counted"))
    counted: list[int] = []
    try:
        yield counted
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(key, None)
        context._jsc.sc().listenerBus().waitUntilEmpty()
        counted.append(len(context.statusTracker().getJobIdsForGroup("counted")) - before)


@contextmanager
def calls_counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collects the commands that go to the JVM in the block, but for those that free objects there."""
    from py4j.clientserver import ClientServerConnection
    from py4j.java_gateway import GatewayConnection

    commands: list[str] = []
    with monkeypatch.context() as patched:
        for kind in (ClientServerConnection, GatewayConnection):

            def send(self: Any, command: str, /, _send: Any = kind.send_command, **rest: Any) -> str:
                if not command.startswith("m\nd\n"):
                    commands.append(command)
                return _send(self, command, **rest)

            patched.setattr(kind, "send_command", send)
        yield commands


# ---- footers -----------------------------------------------------------------------------


def test_footers_have_the_schema_that_spark_infers(session: Any) -> None:
    known = 0
    for name in SOUND:
        path = FIXTURES / name
        if (ours := schema_of(Settings(session), opened(path)[1])) is not None:
            assert ours == session.read.parquet(str(path)).schema, name
            known += 1
    assert known > len(SOUND) // 2


ARROW = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("us"), pa.null()),
    *(pa.timestamp(unit, zone) for unit in ("ms", "us") for zone in (None, "UTC", "Europe/Berlin")),
    *(pa.string(), pa.large_string(), pa.binary(), pa.binary(5), pa.uuid(), pa.json_()),
    *(pa.decimal128(digits, min(digits, 2)) for digits in (1, 9, 10, 18, 19, 38)),
    *(pa.list_(pa.int32()), pa.struct({"x": pa.int32()}), pa.map_(pa.string(), pa.int32())),
    pa.dictionary(pa.int32(), pa.string()),
]
STYLES: list[dict[str, Any]] = [
    {},
    {"store_decimal_as_integer": True, "use_deprecated_int96_timestamps": True},
    {"version": "1.0"},
]


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_columns_of_arrow_have_the_types_that_spark_infers(tmp_path: Path, session: Any, style: dict[str, Any]) -> None:

    path, known = tmp_path / "f.parquet", set()
    for kind in ARROW:
        try:
            table = pa.table({"c": pa.nulls(2, kind), "d": [1, 2]})
            pq.write_table(table, path, **style)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            continue
        ours = schema_of(Settings(session), opened(path)[1])
        if ours is not None:
            assert ours == session.read.parquet(str(path)).schema, kind
            known.add(ours["c"].dataType.typeName())
    assert {"string", "binary", "decimal", "timestamp", "date", "byte", "short", "integer", "long", "double"} <= known


NOTED = {
    "a INT NOT NULL, b STRUCT<x: BIGINT NOT NULL, y: ARRAY<STRING>> NOT NULL, c MAP<STRING, DECIMAL(10,2)>": True,
    "`a b` TINYINT, `é.ü` SMALLINT, c TIMESTAMP_NTZ, d DATE, e BINARY, f BOOLEAN, g FLOAT, h TIMESTAMP": True,
    "a STRING COLLATE UNICODE_CI": False,
    "a INT COMMENT 'a comment'": False,
    "a INT, b INTERVAL DAY TO SECOND": False,
}


@pytest.mark.parametrize("fields", NOTED)
def test_a_schema_that_spark_noted_is_the_one_that_it_infers(tmp_path: Path, session: Any, fields: str) -> None:
    session.createDataFrame([], fields).coalesce(1).write.parquet(str(tmp_path / "t"))
    (path,) = (tmp_path / "t").glob("*.parquet")
    ours = schema_of(Settings(session), opened(path)[1])
    assert (ours is not None) == NOTED[fields]
    assert ours is None or ours == session.read.parquet(str(path)).schema
    same(session, tmp_path / "t", "true")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.parquet.binaryAsString", "true"),
        ("spark.sql.parquet.int96AsTimestamp", "false"),
        ("spark.sql.parquet.inferTimestampNTZ.enabled", "false"),
        ("spark.sql.parquet.fieldId.read.enabled", "true"),
    ],
)
def test_settings_that_change_the_types_leave_them_to_spark(
    tmp_path: Path, session: Any, setting: str, value: str
) -> None:
    field = pa.field("c", pa.binary(), metadata={"PARQUET:field_id": "7"})
    other = pa.field("t", pa.timestamp("us"))
    table = pa.table([[b"x"], [datetime(2024, 1, 1)]], schema=pa.schema([field, other]))
    (tmp_path / "t").mkdir()
    pq.write_table(table, tmp_path / "t" / "f.parquet")
    with settings(**{setting.replace(".", "__"): value}):
        same(session, tmp_path / "t", "true")


# ---- folders -----------------------------------------------------------------------------

FOLDERS = {
    "integers": (["1", "2", "010"], True),
    "long integers": (["1", "12345678901"], False),
    "negative integers": (["-1", "2"], False),
    "dates": (["2024-01-01", "2024-02-29"], True),
    "no date": (["2024-02-30"], False),
    "dates and other text": (["2024-01-01", "unknown"], False),
    "text": (["us-east-1", "eu_west", "DE2024"], True),
    "text and a number": (["us", "1"], False),
    "numbers as text": (["NaN", "Infinity"], False),
    "nothing": (["__HIVE_DEFAULT_PARTITION__", "us"], False),
    "fractions": (["1.5"], False),
    "exponents": (["1e5", "0x1p3"], False),
    "suffixes": (["1d", "2f", "3L"], False),
    "times": (["2024-01-01 10%3A00%3A00"], False),
    "a wide digit": (["１"], False),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_folders_have_the_types_that_spark_infers(tmp_path: Path, session: Any, case: str) -> None:
    values, known = FOLDERS[case]
    for number, value in enumerate(values):
        write(tmp_path / "t" / "Z=1" / f"p={value}" / "f.parquet", id=[f"id{number}"], n=[number])
    with jobs_counted(session) as jobs:
        read(session, tmp_path / "t", "id = 'id0'")
    assert (jobs == [0]) == known
    for where in (
        "id = 'id0'",
        "p IS NULL",
        "n >= 0 AND Z = 1",
        f"cast(p AS STRING) = '{values[0]}'",
        "id = 'nowhere'",
    ):
        same(session, tmp_path / "t", where)


LAYOUTS = {
    "two levels": (["a=1/b=xx", "a=2/b=yy"], True),
    "levels in another order": (["a=1/b=xx", "b=xx/a=1"], False),
    "other levels": (["a=1", "a=1/b=xx"], False),
    "a level of another name": (["a=1", "b=1"], False),
    "a name in another case": (["a=1", "A=1"], False),
    "a column of the file": (["n=1", "n=2"], False),
    "a column of the file in another case": (["N=1", "N=2"], False),
    "the same name twice": (["a=1/a=2", "a=1/a=3"], False),
    "a plain folder": (["a=1/plain", "a=2/plain"], False),
    "hidden folders": (["a=1", "_b", ".c=1"], True),
    "an underscore": (["_a=1", "_a=2"], True),
    "an odd name": (["a b=1", "a b=2"], False),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_layouts_of_folders_are_read_as_by_spark(tmp_path: Path, session: Any, case: str) -> None:
    from pyspark.errors import PySparkException

    folders, known = LAYOUTS[case]
    for number, folder in enumerate(folders):
        write(tmp_path / "up=1" / "t" / folder / "f.parquet", id=[f"id{number}"], n=[number])
    root = tmp_path / "up=1" / "t"
    try:
        session.read.parquet(str(root))
    except PySparkException:
        with pytest.raises(PySparkException):
            read(session, root, "id = 'id0'")
        return
    with jobs_counted(session) as jobs:
        read(session, root, "id = 'id0'")
    assert (jobs == [0]) == known
    for where in ("id = 'id0'", "id = 'id1'", "n < 5", "id = 'nowhere'"):
        same(session, root, where)


def test_what_else_lies_in_folders_is_left_to_spark(tmp_path: Path, session: Any) -> None:
    for number in (1, 2):
        write(tmp_path / "t" / f"a={number}" / "f.parquet", id=[f"id{number}"])
    assert num_files(same(session, tmp_path / "t", "id = 'id1'")) == 1
    write(tmp_path / "elsewhere" / "f.parquet", id=["id3"])
    (tmp_path / "t" / "a=3").symlink_to(tmp_path / "elsewhere")
    same(session, tmp_path / "t", "id = 'id3'")
    (tmp_path / "t" / "a=3").unlink()
    pq.write_metadata(pa.schema([("id", pa.string()), ("more", pa.int64())]), tmp_path / "t" / "_common_metadata")
    same(session, tmp_path / "t", "id = 'id1'")
    (tmp_path / "t" / "_common_metadata").unlink()
    with settings(spark__sql__sources__partitionColumnTypeInference__enabled="false"):
        assert same(session, tmp_path / "t", "id = 'id1'").schema["a"].dataType.typeName() == "string"


# ---- settings ----------------------------------------------------------------------------


def test_a_session_without_a_time_zone_has_that_of_its_jvm(tmp_path: Path, session: Any) -> None:
    zones = session._jvm.java.util.TimeZone
    before = zones.getDefault()
    for hour in range(24):
        write(tmp_path / "t" / f"{hour}.parquet", t=pa.array([datetime(2024, 1, 1, hour)], pa.timestamp("us", "UTC")))
    session.conf.unset("spark.sql.session.timeZone")
    zones.setDefault(zones.getTimeZone("Asia/Tokyo"))
    try:
        frame = same(session, tmp_path / "t", "t = TIMESTAMP '2024-01-01 12:00:00'")
        assert (num_files(frame), frame.count()) == (1, 1)
    finally:
        zones.setDefault(before)
        session.conf.set("spark.sql.session.timeZone", "UTC")


def test_settings_count_under_their_former_names_and_in_any_case(session: Any) -> None:
    former = "spark.sql.legacy.parquet.datetimeRebaseModeInRead"
    with settings(**{former.replace(".", "__"): "LEGACY"}):
        assert odd_times(Settings(session)) == ["spark.sql.parquet.datetimeRebaseModeInRead"]
    assert not odd_times(Settings(session))
    with settings(spark__sql__caseSensitive=" TRUE "):
        assert Settings(session).case_sensitive
    assert not Settings(session).case_sensitive


# ---- how much Spark is asked -------------------------------------------------------------


def test_a_read_takes_few_calls_and_no_job(tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        write(tmp_path / "flat" / f"{number}.parquet", id=[f"id{number}"], n=[number])
        write(tmp_path / "days" / f"day={number % 4}" / f"{number}.parquet", id=[f"id{number}"], n=[number])
    read(session, tmp_path / "flat", "id = 'id3'")
    counts = {}
    for root in ("flat", "days"):
        for where in ("id = 'id3'", "n < 40", "id = 'nowhere'", "n >= 0"):
            with jobs_counted(session) as jobs, calls_counted(monkeypatch) as calls:
                frame = read(session, tmp_path / root, where)
                counts[root, where] = len(calls)
            assert jobs == [0]
            assert num_files(frame) == {"id = 'id3'": 1, "n < 40": 40, "id = 'nowhere'": 0, "n >= 0": 50}[where]
    assert max(counts.values()) <= MOST_CALLS, counts
