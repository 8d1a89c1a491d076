"""`spark.lookup` gives the candidates of the local `lookup`, and `spark.semi_join` the rows of Spark's own join."""

from __future__ import annotations

import gc
import math
import random
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java, spark
from files import DAMAGED, FIXTURES
from lazily import pl
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DecimalType, DoubleType, IntegerType

import parquet_bloom
from parquet_bloom.errors import ColumnNotFoundError, LiteralError
from parquet_bloom.spark import erase, find, joins, lookup, semi_join
from parquet_bloom.spark.reading import lake_of
from parquet_bloom.spark.tasks import live_sources_of, to_arrow
from parquet_bloom.storage import listing
from parquet_bloom.storage.cache import Cache

pytestmark = [needs_java, pytest.mark.spark]

ENGINES = [FIXTURES / engine / "all_types.parquet" for engine in ("pyarrow", "spark", "duckdb", "polars", "datafusion")]


def local(paths: Any, column: str, keys: Any) -> Counter[tuple[Any, ...]]:
    rows = parquet_bloom.lookup(paths, column, keys, timezone="UTC", cache=Cache(0)).to_arrow().to_pylist()
    return Counter((repr(r["key"]), r["path"], r["row_group"], r["reason"]) for r in rows)


def found(paths: Any, column: str, keys: Any, **options: Any) -> Counter[tuple[Any, ...]]:
    candidates = lookup(spark(), paths, column, keys, **options)
    assert candidates.is_cached
    rows = to_arrow(candidates).to_pylist()
    candidates.unpersist()
    return Counter((repr(r["key"]), r["path"], r["row_group"], r["reason"]) for r in rows)


def places(rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter({row[:3]: count for row, count in rows.items()})


def frame(values: pa.Array, name: str = "key") -> Any:
    table = pa.table({name: values})
    rows = (
        table if hasattr(DataFrame, "toArrow") else [(value,) for value in values.to_pylist()]
    )  # as PySpark 3.5 has it
    return spark().createDataFrame(rows, from_arrow_schema(table.schema, True))  # wall clocks stay that


# ---- lookup ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    ["string", "int32", "int64", "binary", "date", "ts_us_utc", "ts_us_local", "decimal9", "decimal38", "double"],
)
def test_files_of_all_engines(column: str) -> None:
    values = pq.read_table(ENGINES[0], columns=[column])[column].combine_chunks()
    keys = pa.concat_arrays([values.slice(0, 40), values.slice(3, 2), pa.nulls(2, values.type)])
    expected = local(ENGINES, column, keys)
    assert found(ENGINES, column, keys) == expected
    assert found(ENGINES, column, frame(keys), broadcast_bytes=len(keys) * 10, num_tasks=2) == expected


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    for number in range(4):
        ids = range(number * 100, number * 100 + 20)
        table = pa.table({"id": pa.array(ids), "name": [f"n{i:03}" for i in ids], "u": [{"v": i} for i in ids]})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=10, write_statistics=["id"])
    parquet_bloom.add([folder / f"{n}.parquet" for n in range(3)], ["id", "name", "u.v"], fpp=0.00001)
    return folder


def test_keys_come_in_many_forms(lake: Path, tmp_path: Path) -> None:
    keys = [5, 115, 999, 5, None, 12]
    expected = local(lake, "id", keys)
    assert expected["5", str(lake / "0.parquet"), 0, "the filter says the key may be present"] == 2
    assert expected["None", None, None, "no row group can hold it"] == 1
    array = pa.array(keys)
    for given in (keys, array, pa.table({"x": ["a"] * 6, "id": array}), frame(array, "id"), frame(array, "other")):
        assert found(lake, "id", given) == expected
    pq.write_table(pa.table({"id": array}), tmp_path / "keys.parquet")
    assert found(lake, "id", tmp_path / "keys.parquet") == expected
    (tmp_path / "keys.txt").write_text("0115\n999\n", "utf-8")
    assert found(lake, "id", tmp_path / "keys.txt") == local(lake, "id", tmp_path / "keys.txt")
    paths = frame(pa.array([str(lake)]), "path")
    assert found(paths, "u.v", frame(array, "v")) == local(lake, "u.v", array)
    mixed = [115.0, Decimal("5.0")]
    assert found(lake, "id", mixed, broadcast_bytes=4) == local(lake, "id", mixed)
    odd = [uuid.UUID(int=5)]
    with pytest.raises(LiteralError):
        found(lake, "id", odd)


def test_a_part_at_a_time_is_the_same(lake: Path) -> None:
    dice = random.Random(1)
    names = [f"n{dice.randrange(400):03}" for _ in range(500)] + [None, "zzz"]
    expected = local(lake, "name", names)
    assert found(lake, "name", pa.array(names), num_tasks=9) == expected
    assert found(lake, "name", pa.array(names), broadcast_bytes=1000) == expected
    assert found(lake, "name", frame(pa.array(names)), broadcast_bytes=1500, num_tasks=1) == expected
    present = Counter({row: count for row, count in expected.items() if row[1] is not None})
    assert found(lake, "name", pa.array(names), absent=False) == present


def test_no_keys(lake: Path) -> None:
    none = pa.array([], pa.int64())
    assert found(lake, "id", []) == found(lake, "id", none) == found(lake, "id", frame(none)) == Counter()
    assert found(lake, "id", [None]) == local(lake, "id", [None])
    with pytest.raises(ColumnNotFoundError):
        found(lake, "idd", none)


def test_errors(lake: Path) -> None:
    with pytest.raises(ColumnNotFoundError, match="did you mean"):
        lookup(spark(), lake, "nam", ["x"])
    with pytest.raises(LiteralError, match="column id"):
        lookup(spark(), lake, "id", frame(pa.array(["x"])))
    with pytest.raises(ColumnNotFoundError, match="DataFrame of keys"):
        lookup(spark(), lake, "id", spark().createDataFrame([(1, 2)], "a int, b int"))
    with pytest.raises(FileNotFoundError):
        lookup(spark(), lake / "missing", "id", [1])


def test_what_cannot_be_evaluated_keeps_every_key(lake: Path) -> None:
    pq.write_table(pa.table({"other": [1]}), lake / "4.parquet")
    pq.write_table(pa.table({"id": pa.array([5, 7], pa.int32())}), lake / "6.parquet")
    (lake / "7.parquet").write_bytes(b"nothing that Parquet is")
    data = bytearray((lake / "0.parquet").read_bytes())
    at = pq.read_metadata(lake / "0.parquet").row_group(0).column(0).bloom_filter_offset
    data[at : at + 8] = bytes(8)
    (lake / "0.parquet").write_bytes(data)
    keys = [5, 115, 999, 5, None]
    expected = local(lake, "id", keys)
    assert len({path for _, path, group, _ in expected if group is None and path}) == 2
    assert found(lake, "id", keys) == expected
    in_parts = found(lake, "id", frame(pa.array(keys[:4])), broadcast_bytes=16, num_tasks=8)
    assert places(in_parts) == places(local(lake, "id", keys[:4]))  # a reason may name a key of the part


def test_damaged_files() -> None:
    paths = [FIXTURES / name for name in DAMAGED]
    assert found([*paths, ENGINES[0]], "id", [1, 2, 3]) == local([*paths, ENGINES[0]], "id", [1, 2, 3])


def test_a_file_that_vanishes_keeps_every_key(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanishing(*given: Any, **options: Any) -> Any:
        sources = live_sources_of(*given, **options)
        (lake / "1.parquet").unlink()
        return sources

    monkeypatch.setattr("parquet_bloom.spark.lookups.live_sources_of", vanishing)
    rows = found(lake, "id", [5])
    assert {row[1:3] for row in rows} == {(str(lake / "0.parquet"), 0), (str(lake / "1.parquet"), None)}


def test_rows_are_freed(lake: Path) -> None:
    kept = spark().sparkContext._jsc.getPersistentRDDs().size()
    candidates = lookup(spark(), lake, "id", frame(pa.array([5, 999])))
    assert spark().sparkContext._jsc.getPersistentRDDs().size() == kept + 1
    candidates.unpersist(blocking=True)
    assert spark().sparkContext._jsc.getPersistentRDDs().size() == kept


def test_types_that_differ_between_tasks_are_noticed(tmp_path: Path) -> None:
    huge = 2**24
    for number, column in enumerate([pa.array([huge + 1], pa.int32()), pa.array([0.5], pa.float32())]):
        pq.write_table(pa.table({"c": column}), tmp_path / f"{number}.parquet")
        parquet_bloom.add(tmp_path / f"{number}.parquet", ["c"])
    for keys in ([float(huge)], frame(pa.array([float(huge), 7.0]))):
        candidates = found(tmp_path, "c", keys, num_tasks=2)
        assert {Path(row[1]).stem for row in candidates} == {"0", "1"}
        assert {row[3] for row in candidates if row[2] is None} == {"files store c with conflicting types"}


def test_old_dates_are_kept_by_a_session_that_shifts_them(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"d": [date(1500, 1, 10), date(2024, 1, 1)]}), path)
    parquet_bloom.add(path, ["d"])
    with conf(spark__sql__parquet__datetimeRebaseModeInRead="LEGACY"):
        session = spark()
        assert [row.d for row in session.read.parquet(str(path)).where("d = DATE '1500-01-01'").collect()]
        assert {row[1] for row in found(path, "d", [date(1500, 1, 1)])} == {str(path)}
        keys = session.createDataFrame([(date(1500, 1, 1),)], "d date")
        assert semi_join(session, str(path), "d", keys).count() == 1
    assert {row[1] for row in found(path, "d", [date(1500, 1, 1)])} == {None}
    assert {row[1] for row in found(path, "d", [date(1500, 1, 10)])} == {str(path)}


# ---- semi_join ---------------------------------------------------------------------------


@contextmanager
def conf(**changes: str) -> Iterator[None]:
    session = spark()
    before = {name.replace("__", "."): session.conf.get(name.replace("__", "."), None) for name in changes}
    try:
        for name, value in changes.items():
            session.conf.set(name.replace("__", "."), value)
        yield
    finally:
        for name, value in before.items():
            session.conf.unset(name) if value is None else session.conf.set(name, value)


def rows_of(df: Any) -> Counter[str]:
    return Counter(map(repr, to_arrow(df).to_pylist()))


def agrees(paths: Any, column: str, keys: Any, **options: Any) -> tuple[int, int]:
    """Asserts that the answer is that of Spark's own join; returns its rows, and how many files it read."""
    given = [str(path) for path in paths] if isinstance(paths, list) else [str(paths)]
    theirs = spark().read.parquet(*given).join(keys, on=column, how="left_semi")
    ours = semi_join(spark(), paths, column, keys, **options)
    assert ours.schema == theirs.schema
    expected = rows_of(theirs)
    assert rows_of(ours) == expected
    return expected.total(), len(ours.inputFiles()) if expected else 0


NAN, DAY = math.nan, date(2024, 1, 1)
JOINED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["", "a", "ab", "ä", "zz", "\\xAA"]),
    "bigint": (pa.int64(), [0, -1, 7, 2**60, -(2**63)]),
    "int": (pa.int32(), [0, -1, 7, 2**31 - 1]),
    "double": (pa.float64(), [0.0, -0.0, NAN, math.inf, 0.1, -1.5]),
    "float": (pa.float32(), [0.0, -0.0, NAN, math.inf, 0.5, -1.5]),
    "decimal": (pa.decimal128(20, 2), [Decimal("0.00"), Decimal("-1.50"), Decimal("9.99"), Decimal("1e15")]),
    "date": (pa.date32(), [DAY + timedelta(days) for days in (0, 1, 500)] + [date(1500, 1, 1)]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in range(5)]),
    "timestamp_ntz": (pa.timestamp("us"), [datetime(2024, 3, 31, hour) for hour in range(5)]),
    "binary": (pa.binary(), [b"", b"\0", b"a\xff", b"zz"]),
}


@pytest.mark.parametrize("kind", JOINED)
def test_random_rows(tmp_path: Path, kind: str) -> None:
    arrow, values = JOINED[kind]
    dice = random.Random(kind)
    options = {"bloom_filter_options": {"c": {"ndv": 16, "fpp": 0.001}}, "use_dictionary": False}
    for number in range(5):
        cells = [dice.choice([*dice.sample(values, 2), None]) for _ in range(4)]
        table = pa.table({"n": [number] * 4, "c": pa.array(cells, arrow)})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=2, **options)
    with conf(spark__sql__session__timeZone="Europe/Paris"):
        some = [*dice.sample(values, len(values) - 1), None]
        keys = frame(pa.array([*some, some[0]], arrow), "c")
        agrees(tmp_path, "c", keys, broadcast_bytes=dice.choice([8, 2**20]), row_groups=dice.choice([True, False]))


def test_keys_that_spark_converts_prune_nothing(tmp_path: Path) -> None:
    options = {"bloom_filter_options": {"n": {"ndv": 16, "fpp": 0.001}}, "use_dictionary": False}
    for number in range(3):
        columns = {"n": [2**53 + 2 * number + 1], "d": [2.0**53 + 2 * number]}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet", **options)
    for column, keys in (
        ("n", pa.array([2.0**53])),  # which is 2**53 + 1 as a double
        ("d", pa.array([Decimal(2**53 + 1)], pa.decimal128(20, 0))),
        ("n", pa.array([f" {2**53 + 1}"])),
    ):
        assert agrees(tmp_path, column, frame(keys, column)) == (1, 3)
    lake = lake_of(spark(), str(tmp_path))
    for column, kind, why in (
        ("n", IntegerType(), None),
        ("n", DoubleType(), "Spark converts bigint and double to compare them"),
        ("d", DoubleType(), None),
        ("d", DecimalType(20, 0), "Spark converts double and decimal(20,0) to compare them"),
    ):
        assert joins._why_not(spark(), lake, (column,), kind) == why


def test_files_are_left_out(lake: Path) -> None:
    assert agrees(lake, "id", frame(pa.array([5, 999]), "id")) == (1, 1)
    assert agrees(lake, "ID", frame(pa.array([5, 115, None], pa.int32()), "Id")) == (2, 4)
    assert agrees(lake, "name", frame(pa.array([f"n{n:03}" for n in range(400)]), "name")) == (80, 4)
    assert agrees(lake, "id", frame(pa.array([999]), "id")) == (0, 0)
    assert agrees(lake, "id", frame(pa.array([], pa.int64()), "id")) == (0, 0)
    # What Spark converts to compare, it compares alone.
    assert agrees(lake, "id", frame(pa.array([5.0, 7.5]), "id"))[0] == 1
    assert agrees(lake, "id", frame(pa.array(["5"]), "id"))[0] == 1


def test_row_groups_are_left_out(lake: Path) -> None:

    keys = frame(pa.array([5, 115, 300], pa.int64()), "id")
    agrees(lake, "id", keys, row_groups=True)
    agrees(lake, "name", frame(pa.array(["n005", "nowhere"]), "name"), row_groups=True)
    by_row_groups = semi_join(spark(), lake, "id", keys, row_groups=True)
    scans = by_row_groups._jdf.queryExecution().optimizedPlan().collectLeaves()
    (scan,) = (leaf for leaf in map(scans.apply, range(scans.size())) if leaf.output().size() == 3)
    assert scan.getClass().getSimpleName() == "LogicalRDD"
    assert scan.rdd().count() == 30  # three of eight row groups


def test_row_groups_of_files_that_are_kept_whole_are_read(lake: Path) -> None:
    source, *_ = listing.find(lake)
    group = parquet_bloom.prune(source.path, "TRUE").all_files[0].row_groups[0]
    for places, is_kept in (({None}, True), ({0}, True), ({1}, False), (set(), False)):
        found = joins._only_candidates(group, source, {(source.path, place) for place in places})
        assert found.is_kept == is_kept


def test_columns_and_keys_of_many_forms(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("0005\n115\nnothing\n", "utf-8")
    for keys in ([5, 115, 999], pa.array([5, 115], pa.uint32()), tmp_path / "keys.txt", frame(pa.array([5, 115]))):
        df = semi_join(spark(), lake, "id", keys, ["name", "u.v"])
        assert df.columns == ["name", "v"]
        assert sorted(map(tuple, df.collect())) == [("n005", 5), ("n115", 115)]
    nested = semi_join(spark(), lake, "u.v", [5], "id")
    assert ([tuple(row) for row in nested.collect()], len(nested.inputFiles())) == ([(5,)], 2)
    with pytest.raises(LiteralError):
        semi_join(spark(), lake, "id", [1, "a"])


def test_keys_that_spark_would_cut_are_refused(tmp_path: Path) -> None:
    moments = pa.array([0, 1], pa.timestamp("us"))
    pq.write_table(pa.table({"t": moments, "row": [0, 1]}), tmp_path / "a.parquet")
    exact = semi_join(spark(), tmp_path, "t", pl.Series([1000]).cast(pl.Datetime("ns")))
    assert [row["row"] for row in exact.collect()] == [1]
    for keys in (pa.array([1], pa.timestamp("ns")), pl.Series([1]).cast(pl.Datetime("ns"))):
        with pytest.raises(LiteralError, match=r"keys of the type timestamp\[ns\] are values that Spark does not have"):
            semi_join(spark(), tmp_path, "t", keys)
        with pytest.raises(LiteralError, match="Spark does not have"):
            find(spark(), tmp_path, column="t", keys=keys)


def test_text_is_no_file_of_keys(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("5\n", "utf-8")
    doors: list[Any] = [
        lambda keys: lookup(spark(), lake, "id", keys),
        lambda keys: semi_join(spark(), lake, "id", keys),
        lambda keys: find(spark(), lake, column="id", keys=keys),
        lambda keys: erase(spark(), lake, "id", keys, dry_run=True),
    ]
    for door in doors:
        for keys in (str(tmp_path / "keys.txt"), bytes(tmp_path / "keys.txt")):
            with pytest.raises(TypeError, match=r"give \[key\], or Path"):
                door(keys)


def test_partitions(tmp_path: Path) -> None:
    for number, folder in enumerate(["kind=a b", "kind=50%25", "kind=x%3Dy", "kind=plain"]):
        (tmp_path / folder).mkdir()
        ids = range(number * 10, number * 10 + 5)
        pq.write_table(pa.table({"id": ids}), tmp_path / folder / "f 1.parquet", bloom_filter_options={"id": True})
    assert agrees(tmp_path, "id", frame(pa.array([1, 11, 22, 99]), "id")) == (3, 3)
    assert agrees(tmp_path, "id", frame(pa.array([31]), "id")) == (1, 1)
    assert agrees(tmp_path, "kind", frame(pa.array(["a b", "50%", "none"]), "kind"))[0] == 10


@pytest.mark.parametrize(
    ("tries", "few_bytes", "options"),
    [(4, 2**22, {}), (2, 0, {}), (1, 0, {"row_groups": True}), (1, 0, {"broadcast_bytes": 8})],
)
def test_keys_that_change_are_evaluated_once(
    lake: Path, monkeypatch: pytest.MonkeyPatch, tries: int, few_bytes: int, options: dict[str, Any]
) -> None:
    from pyspark.sql import functions

    monkeypatch.setattr("parquet_bloom.spark.keys._FEW_BYTES", few_bytes)
    times = spark().sparkContext.accumulator(0)

    def in_some_file(number: int) -> int:
        times.add(1)
        return random.SystemRandom().randrange(4) * 100 + number

    udf = functions.udf(in_some_file, "long", useArrow=False).asNondeterministic()
    keys = spark().range(3).select(udf("id").alias("id"))
    for number in range(tries):
        verb = find if number % 2 and "broadcast_bytes" not in options else semi_join
        rows = verb(spark(), lake, column="id", keys=keys, **options)
        ids = [row.id for row in rows.collect()]
        assert sorted(id % 100 for id in ids) == [0, 1, 2], number
        assert sorted(ids) == sorted(row.id for row in rows.collect())
        assert times.value == 3 * (number + 1)


def test_keys_that_executors_keep_are_freed(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.spark.keys._FEW_BYTES", 0)
    context = spark().sparkContext._jsc
    before = set(context.getPersistentRDDs())
    rows = semi_join(spark(), lake, "id", spark().range(3).withColumnRenamed("id", "key"))
    assert rows.count() == 3
    (kept,) = set(context.getPersistentRDDs()) - before
    del rows
    for _ in range(50):
        gc.collect()
        spark().sparkContext._jvm.System.gc()
        if kept not in set(context.getPersistentRDDs()):
            break
        sleep(0.2)
    assert kept not in set(context.getPersistentRDDs())


def test_changed_schemas(lake: Path) -> None:
    pq.write_table(pa.table({"name": ["n500"]}), lake / "5.parquet")
    pq.write_table(pa.table({"id": pa.array([5, 7], pa.int32()), "name": ["x", "y"]}), lake / "6.parquet")
    assert agrees(lake, "id", frame(pa.array([5, 999]), "id")) == (2, 3)


def test_filters_that_tell_too_little_are_not_asked_for_ever(tmp_path: Path) -> None:
    options = {"bloom_filter_options": {"id": {"ndv": 10, "fpp": 0.5}}, "use_dictionary": False}
    for number in range(12):
        pq.write_table(pa.table({"id": range(number, 10_000, 50)}), tmp_path / f"{number}.parquet", **options)
    assert agrees(tmp_path, "id", frame(pa.array(range(3, 10_000, 50)), "id"))[0] == 200
    assert agrees(tmp_path, "id", frame(pa.array(range(49, 10_000, 50)), "id"))[0] == 0
