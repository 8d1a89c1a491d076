"""What a table's log or manifests record of its files rules them out before a footer is read, and never wrongly."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from parquet_bloom import Cache, col, lookup, prune
from parquet_bloom.errors import ColumnNotFoundError, LiteralError
from parquet_bloom.storage.drive import RequestLog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path / "warehouse") as found:
        yield found


# ---- a property --------------------------------------------------------------------------

COMMON = "0123456789abcdefghijklmnopqrstuvwxyz"
TEXTS = [
    *("", "a", "b", "Z", "é", "éa", "z\u0301", "\ue000", "\ufffd", "\uffff", "\U00010000", "\U0010ffff", "\ud7ff"),
    *(COMMON[:15] + end for end in ("", "z", "\uffff", "\U00010000", "\U0010ffff\U0010ffff")),
    *(COMMON[:31] + end for end in ("", "0", "00", "0\uffff", "0\U00010000", "\U0010ffff0", "é")),
    *(COMMON + end for end in ("", "a", "b", "\ufffd", "\U0010ffff")),
    *(char * count for char in ("\uffff", "\U0010ffff", "é") for count in (15, 16, 17, 31, 32, 33, 70)),
]
MOMENTS = [
    dt.datetime(1, 1, 1),
    dt.datetime(1899, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_001),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1970, 1, 1),
    *(dt.datetime(2024, 2, 29, 12, 0, 0, micros) for micros in (0, 1, 122_999, 123_000, 123_001, 123_999, 124_000)),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
SMALL = [
    Decimal(n).scaleb(-3) for n in (-9_999_999_999, -1001, -1000, -999, -1, 0, 1, 10, 300, 700, 1001, 9_999_999_999)
]
LARGE = [Decimal(n).scaleb(-5) for n in (-(10**37), -(10**20) - 1, -(10**20), -1, 0, 1, 10**20, 10**20 + 1, 10**37)]

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [-(2**31), -2, -1, 0, 1, 2, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "s": (pa.string(), TEXTS),
    "d": (pa.date32(), [moment.date() for moment in MOMENTS]),
    "t": (pa.timestamp("us", "UTC"), [moment.replace(tzinfo=dt.UTC) for moment in MOMENTS]),
    "n": (pa.timestamp("us"), MOMENTS),
    "x": (pa.decimal128(10, 3), SMALL),
    "y": (pa.decimal128(38, 5), LARGE),
    "o": (pa.bool_(), [False, True]),
    "f": (pa.float64(), [float("nan"), float("-inf"), -1.5, -0.0, 0.0, 1.5, float("inf")]),
    "g": (pa.float32(), [float("nan"), -1.5, -0.0, 0.0, 0.1, 1.5]),
    "b": (pa.binary(), [b"", b"\0", b"a", b"\xff" * 20]),
    "w": (pa.string(), [COMMON + "é"]),
}
SCHEMA = pa.schema([*((name, kind) for name, (kind, _) in COLUMNS.items()), ("part", pa.int64())])

PARTS = 8


def column(chance: random.Random, name: str, count: int) -> list[Any]:
    """Returns values near each other, so that files differ; some are NULL, or all."""
    values = COLUMNS[name][1]
    start = chance.randrange(len(values))
    near = (values[start:] + values[:start])[: chance.randint(1, 3)]
    nulls = chance.choice([0, 0, 0.3, 1])
    return [None if chance.random() < nulls else chance.choice(near) for _ in range(count)]


def part_of(chance: random.Random, number: int) -> pa.Table:
    count = chance.randint(1, 4)
    columns: dict[str, list[Any]] = {name: column(chance, name, count) for name in COLUMNS}
    return pa.table({**columns, "part": [number] * count}, schema=SCHEMA)


def literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).upper()
        case str():
            return f"'{value}'"
        case dt.datetime():
            return f"TIMESTAMP '{value.replace(tzinfo=None):%Y-%m-%d %H:%M:%S.%f}'".replace("'1-", "'0001-")
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"{value:f}"
    return str(value)


def one_test(chance: random.Random, names: list[str]) -> tuple[str, str]:
    """Returns a condition on one column, and the column."""
    name = chance.choice(names)
    values = [value for value in COLUMNS[name][1] if value == value and value not in (float("inf"), float("-inf"))]
    one, two = chance.choice(values), chance.choice(values)
    form = chance.choice(["{c} {op} {one}"] * 6 + FORMS)
    op = chance.choice(["=", "=", "<", "<=", ">", ">=", "<>"])
    return form.format(c=name, op=op, one=literal(one), two=literal(two)), name


FORMS = [
    *("{c} IN ({one}, {two})", "{c} NOT IN ({one}, {two})", "{c} BETWEEN {one} AND {two}"),
    *("NOT ({c} {op} {one})", "{c} IS NULL", "{c} IS NOT NULL"),
]


def condition(chance: random.Random, names: list[str]) -> tuple[str, list[str]]:
    tests = [one_test(chance, names) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
    text = chance.choice([" AND ", " OR "]).join(f"({test})" for test, _ in tests)
    return (f"NOT ({text})" if chance.random() < 0.1 else text), [name for _, name in tests]


def in_delta(mode: str) -> Callable[[Path, list[pa.Table]], Path]:
    def write(root: Path, parts: list[pa.Table]) -> Path:
        for number, part in enumerate(parts):
            options = {} if number else {"configuration": {"delta.columnMapping.mode": mode}}
            write_deltalake(str(root), part, mode="append", **options)
        return root

    return write


def in_iceberg(root: Path, parts: list[pa.Table]) -> Path:
    with lakes.catalog(root) as catalog:
        table = catalog.create_table("n.t", parts[0].schema)
        for part in parts:
            table.append(part)
        return lakes.metadata_of(table)


# deltalake 1.6.6 does not map the names of a table with local timestamps.
WRITERS = {"delta": (in_delta("none"), "b"), "mapped delta": (in_delta("name"), "bn"), "iceberg": (in_iceberg, "b")}


@pytest.mark.engines
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("seed", range(3))
def test_no_row_is_lost(tmp_path: Path, writer: str, seed: int) -> None:
    import duckdb

    chance = random.Random(seed)
    write, without = WRITERS[writer]
    parts = [part_of(chance, number).drop_columns([n for n in without if n != "b"]) for number in range(PARTS)]
    asked = [name for name in COLUMNS if name not in without]
    root = write(tmp_path / "t", parts)
    rows = pa.concat_tables(parts)
    con = duckdb.connect()
    at = rows.schema.get_field_index("t")  # without its zone, which is that of the condition
    con.register("rows", rows.set_column(at, "t", rows["t"].cast(pa.timestamp("us"))))
    con.execute("CREATE TABLE held AS SELECT * FROM rows")
    paths = {file.path for file in prune(root, "part >= 0").kept_files}
    part_in = {path: pq.read_table(path).column(rows.num_columns - 1)[0].as_py() for path in paths}
    assert sorted(part_in.values()) == list(range(PARTS))
    excluded: Counter[str] = Counter()
    for _ in range(150):
        where, names = condition(chance, asked)
        found = prune(root, where, timezone="UTC")
        kept = {part_in[file.path] for file in found.kept_files}
        wanted = {row[0] for row in con.execute(f"SELECT DISTINCT part FROM held WHERE {where}").fetchall()}
        assert wanted <= kept, where
        if len(names) == 1:
            excluded[names[0]] += found.totals.files_excluded
    assert {name for name in excluded if excluded[name]} >= set(asked) - {"y", "t", "n", "g", "s", "w"}
    for name in ("i", "l", "s", "d"):
        keys = [value for value in COLUMNS[name][1] if value is not None]
        candidates = lookup(root, name, pa.array(keys, COLUMNS[name][0])).to_arrow().to_pylist()
        found = {(row["key"], part_in[row["path"]]) for row in candidates if row["path"] is not None}
        there = zip(rows[name].to_pylist(), rows["part"].to_pylist(), strict=True)
        assert {(key, part) for key, part in there if key is not None} <= found


# ---- requests ----------------------------------------------------------------------------


def asked(root: Any, where: str, **options: Any) -> tuple[int, int]:
    """Returns how many files must be read, and of how many anything was asked."""
    log = RequestLog()
    found = prune(root, where, cache=Cache(0), log=log, **options)
    return found.totals.files_kept, len({name for name, _ in log.requests})


def looked_up(root: Any, column: str, keys: list[Any]) -> tuple[int, int]:
    log = RequestLog()
    found = lookup(root, column, keys, cache=Cache(0), log=log).to_arrow().to_pylist()
    return len({row["path"] for row in found if row["path"] is not None}), len({name for name, _ in log.requests})


@pytest.mark.parametrize("kind", ["delta", "mapped delta", "iceberg"])
def test_pruned_files_are_not_read(tmp_path: Path, kind: str) -> None:
    parts = [pa.table({"id": range(20 * n, 20 * n + 20), "s": [f"{n}-{row}" for row in range(20)]}) for n in range(5)]
    root = WRITERS[kind][0](tmp_path / "t", parts)
    assert asked(root, "id = 45") == (1, 1)
    assert asked(root, "id >= 45 AND s < '4'")[1] == 3  # texts are for the files to say
    assert asked(root, "id = 5 OR s = '3-7'")[1] == 5
    assert asked(root, "id = -1") == (0, 0)
    assert asked(root, "id IS NULL") == (0, 0)
    assert asked(root, "NOT (id >= 20)") == (1, 1)
    assert asked(root, "id = 1.5") == (0, 5)  # what a type cannot hold is for the files to say
    assert looked_up(root, "id", [5, 45, 400]) == (2, 2)
    assert looked_up(root, "s", ["3-7", "none"])[1] == 5
    assert looked_up(root, "id", [-1]) == (0, 0)
    (file, *_) = prune(root, "id = -1").all_files
    where = "manifests" if kind == "iceberg" else "log"
    assert (file.by, file.excluded) == (
        "statistics",
        f"the value is outside the min-max range of id (in the table's {where})",
    )
    done: list[tuple[int, int]] = []
    prune(root, "id = -1", progress=lambda *now: done.append(now))
    assert done == [(5, 5)]


def test_errors_are_as_without_statistics(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": [1, 2], "st": [{"a": 1}, {"a": 2}]}))
    for where, error in (
        ("nothing = 1 AND id = 7", ColumnNotFoundError),
        ("id = DATE '2024-01-01'", LiteralError),
        ("id = 7 AND id = DATE '2024-01-01'", LiteralError),
    ):
        with pytest.raises(error):
            prune(tmp_path, where)
    assert not prune(tmp_path, "st.a = 1 AND id = 7").might_match
    assert not prune(tmp_path, "ID = 7", case_sensitive=False).might_match


# ---- Delta -------------------------------------------------------------------------------


def with_statistics(root: Path, rows: pa.Table, statistics: Any, kind: dict[str, Any] | None = None) -> None:
    """Writes a table of one file whose log says this of it, or of whose field it says this."""
    write_deltalake(str(root), rows)
    actions = lakes.actions(root, 0)
    for action in actions:
        if "add" in action:
            action["add"]["stats"] = statistics if isinstance(statistics, str | None) else json.dumps(statistics)
        if "metaData" in action and kind:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][0].update(kind)
            action["metaData"]["schemaString"] = json.dumps(schema)
    lakes.log(root, 0, *actions)


def of(low: Any, high: Any, **more: Any) -> dict[str, Any]:
    return {"numRecords": 2, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": 0}, **more}


@pytest.mark.parametrize(
    ("statistics", "is_left_out"),
    [
        (of(1, 2), True),
        (of(1, 2, tightBounds=False), True),
        ({"numRecords": 2}, False),
        (None, False),
        ("", False),
        ({"minValues": {"c": 1}, "maxValues": {"c": 2}}, True),
        ({"numRecords": 2, "minValues": {"c": 1}}, False),
        ({"numRecords": 2, "maxValues": {"c": 2}}, False),
        (of(None, 2), False),
        (of(2, 1), False),
        (of(1, 2, nullCount={"c": 3}), False),
        (of(1, 2, nullCount={"c": 2}), False),
        (of(1, 2, nullCount={}), True),
        ({"numRecords": 2, "nullCount": {"c": 2}}, True),
    ],
)
def test_what_other_writers_leave_in_the_log(tmp_path: Path, statistics: Any, is_left_out: bool) -> None:
    with_statistics(tmp_path, pa.table({"c": pa.array([1, 2], pa.int64())}), statistics)
    assert prune(tmp_path, "c = 70").totals.files_excluded == is_left_out
    assert prune(tmp_path, "c = 1 OR c IS NULL").totals.files_kept in (1, 1 - is_left_out)


def test_decimals_that_a_writer_may_have_rounded_leave_no_file_out(tmp_path: Path) -> None:
    value = Decimal("9007199254740993.00")  # as a float it is one less
    with_statistics(
        tmp_path, pa.table({"c": pa.array([value] * 2, pa.decimal128(18, 2))}), of(float(value), float(value))
    )
    assert prune(tmp_path, f"c = {value}").might_match


def test_no_nulls_are_believed_beside_bounds_only(tmp_path: Path) -> None:
    statistics = {"numRecords": 2, "nullCount": {"c": 0}}
    with_statistics(tmp_path, pa.table({"c": pa.array([1, None], pa.int64())}), statistics)
    assert prune(tmp_path, "c IS NULL").might_match


def with_long_texts(path: Path) -> None:
    """Writes a file with texts in two row groups, of which the second one's are too long for Arrow to give bounds."""
    rows = pa.table({"id": range(6), "s": ["a", "b", "c", "x" * 5000, "y" * 5000, None]})
    pq.write_table(rows, path, row_group_size=3)
    first, second = (pq.read_metadata(path).row_group(n).column(1).statistics.has_min_max for n in (0, 1))
    assert (first, second) == (True, False)


def in_converted(folder: Path, catalog: Any) -> Path:
    from deltalake import convert_to_deltalake

    (folder / "t").mkdir()
    with_long_texts(folder / "t" / "a.parquet")
    convert_to_deltalake(str(folder / "t"))
    return folder / "t"


def in_adopted(folder: Path, catalog: Any) -> Path:
    with_long_texts(folder / "a.parquet")
    table = catalog.create_table("n.t", pq.read_schema(folder / "a.parquet"))
    table.add_files([f"{folder}/a.parquet"])
    return lakes.metadata_of(table)


@pytest.mark.parametrize("make", [in_converted, in_adopted])
def test_bounds_of_texts_leave_out_row_groups(tmp_path: Path, catalog: Any, make: Any) -> None:
    root = make(tmp_path, catalog)
    for where in ("s > 'm'", f"s = '{'x' * 5000}'", "s IS NULL", "s = 'a'"):
        assert prune(root, where, allow_outside=True).might_match
    assert prune(root, "id = 70", allow_outside=True).totals.files_excluded == 1


def test_times_are_cut_to_milliseconds(tmp_path: Path) -> None:
    moments = [
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC),
        dt.datetime(2024, 1, 1, 0, 0, 0, 123_999, dt.UTC),
    ]
    write_deltalake(str(tmp_path), pa.table({"c": pa.array(moments, pa.timestamp("us", "UTC"))}))
    for moment in moments:
        assert prune(tmp_path, col("c") == moment).might_match
    late = dt.datetime(2024, 1, 1, 0, 0, 0, 124_001, dt.UTC)
    assert prune(tmp_path, col("c") >= late).totals.files_excluded == 1
    assert prune(tmp_path, col("c") < dt.datetime(1969, 12, 31, tzinfo=dt.UTC)).totals.files_excluded == 1


def test_a_name_that_two_columns_share_in_a_log(tmp_path: Path) -> None:
    """`a` has become `b`, and a new `a` has come: which of them statistics of `a` are about, writers disagree."""
    write_deltalake(str(tmp_path), pa.table({"a": [1, 2]}), configuration={"delta.columnMapping.mode": "name"})
    actions = lakes.actions(tmp_path, 0)
    for action in actions:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            (field,) = schema["fields"]
            physical = field["metadata"]["delta.columnMapping.physicalName"]
            old = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "a"}
            schema["fields"].append({**field, "name": "b", "metadata": old})
            action["metaData"]["schemaString"] = json.dumps(schema)
        if "add" in action:
            statistics = {"numRecords": 2, "minValues": {"a": 1, physical: 1}, "maxValues": {"a": 2, physical: 2}}
            action["add"]["stats"] = json.dumps(statistics)
    lakes.log(tmp_path, 0, *actions)
    assert prune(tmp_path, "a = 70").totals.files_excluded == 1
    assert prune(tmp_path, "b = 70").totals.files_kept == 1


INT = pa.int64()


@pytest.mark.parametrize(
    ("before", "after", "literal"),
    [
        (pa.array(range(1, 21), INT), pa.array(["x"]), "'9'"),
        (pa.array(["10", "2", "30"]), pa.array([1], INT), "2"),
        (pa.array([1.5, 2.5, 3.5]), pa.array([1], INT), "3"),
        (pa.array([dt.datetime(2024, 1, 1, 12)], pa.timestamp("us", "UTC")), pa.array(["x"]), "'2024-01-01 12:00:00Z'"),
        (pa.array(["2024-01-01T12:00:00Z"]), pa.array([dt.date(2024, 1, 1)]), "DATE '2024-01-01'"),
    ],
)
def test_files_from_before_a_column_had_its_type(tmp_path: Path, before: Any, after: Any, literal: str) -> None:
    """deltalake takes another type for a part of the table, and reads what is left in it."""
    root = str(tmp_path)
    write_deltalake(root, pa.table({"k": ["a"] * len(before), "c": before}), partition_by=["k"])
    options = {"mode": "overwrite", "predicate": "k = 'b'", "schema_mode": "overwrite"}
    write_deltalake(root, pa.table({"k": ["b"], "c": after}), **options)  # type: ignore[arg-type]
    kept = {file.path.rpartition("/")[0][-3:] for file in prune(root, f"c = {literal}", timezone="UTC").kept_files}
    assert "k=a" in kept


@pytest.mark.parametrize("is_whole", [True, False])
def test_statistics_in_a_checkpoint(tmp_path: Path, is_whole: bool) -> None:
    table = lakes.delta(tmp_path, files=3)
    table.create_checkpoint()
    for version in range(2):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    lakes.delta(tmp_path, files=1)
    if not is_whole:
        (checkpoint,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
        rows = pq.read_table(checkpoint)
        add = rows["add"].type
        values = [each and {**each, "stats": None} for each in rows["add"].to_pylist()]
        rows = rows.set_column(rows.column_names.index("add"), "add", pa.array(values, add))
        pq.write_table(rows, checkpoint)
    assert prune(tmp_path, "id = 45").totals.files_excluded == (3 if is_whole else 1)


# ---- Iceberg -----------------------------------------------------------------------------


def test_bounds_go_by_ids(catalog: Any) -> None:
    table = lakes.iceberg(catalog, files=3)
    first = table.current_snapshot().snapshot_id
    with table.update_schema() as update:
        update.rename_column("id", "old")
    with table.update_schema() as update:
        update.add_column("id", table.schema().find_type("old"))
    assert asked(table, "old = 25") == (1, 1)
    assert asked(table, "id = 25") == (3, 3)  # which no file has
    assert asked(table, "id IS NULL") == (3, 3)
    table.append(pa.table({"id": [25], "name": ["x"], "old": [25]}))
    assert asked(table, "id = 25", as_of=first) == (1, 1)
    assert asked(table, "id = 26") == (3, 3)


def test_an_int_that_became_a_long(catalog: Any) -> None:
    from pyiceberg.types import LongType

    table = catalog.create_table("n.t", pa.schema([("c", pa.int32())]))
    table.append(pa.table({"c": pa.array([-5, 5], pa.int32())}))
    with table.update_schema() as update:
        update.update_column("c", LongType())
    table.append(pa.table({"c": [2**40, -(2**40)]}))
    assert asked(table, "c = 5") == (2, 2)
    assert asked(table, f"c = {2**40}") == (1, 1)
    assert asked(table, "c = -6") == (1, 1)


def test_a_float_that_became_a_double(catalog: Any) -> None:
    from pyiceberg.types import DoubleType

    table = catalog.create_table("n.t", pa.schema([("c", pa.float32())]))
    table.append(pa.table({"c": pa.array([0.1], pa.float32())}))
    with table.update_schema() as update:
        update.update_column("c", DoubleType())
    assert looked_up(table, "c", [0.1])[0] == 1  # the file stores it, and its bounds, with fewer digits


def test_partitions_come_first(catalog: Any) -> None:
    table = lakes.partitioned(catalog, lakes.odd_rows())
    found = prune(table, "p = 'a b'")
    assert found.totals.files_kept == 1
    assert {file.by for file in found.all_files if not file.is_kept} == {"partition"}


def test_a_partition_of_an_earlier_snapshot_has_its_name_of_then(catalog: Any) -> None:
    rows = pa.table({"p": ["x", "y"], "q": ["y", "x"]})
    table = catalog.create_table("n.t", rows.schema)
    with table.update_spec() as update:
        update.add_field("p", "identity", "of_p")
    table.append(rows)
    then = table.current_snapshot().snapshot_id
    for old, new in (("p", "r"), ("q", "p"), ("r", "q")):
        with table.update_schema() as update:
            update.rename_column(old, new)
    table.append(pa.table({"p": ["z"], "q": ["z"]}))
    for as_of, name, first in ((then, "p", "p"), (then, "q", "q"), (None, "q", "p"), (None, "p", "q")):
        found = prune(table, f"{name} = 'x'", as_of=as_of)
        (kept,) = [pq.ParquetFile(file.path).read() for file in found.kept_files]
        assert kept[first].to_pylist() == ["x"]


def test_files_without_ids_go_by_the_table_s_mapping(catalog: Any, tmp_path: Path) -> None:
    """Readers give the values of `c` to the new column of that name, and none to `e`, which was `c`."""
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64()), ("c", pa.string())]))
    pq.write_table(pa.table({"id": [1, 2], "c": ["x", "y"]}), tmp_path / "f.parquet")
    table.add_files([f"{tmp_path}/f.parquet"])
    with table.update_schema() as update:
        update.rename_column("c", "e")
    assert asked(table, "e = 'a'", allow_outside=True) == (0, 1)
    assert asked(table, "e = 'x'", allow_outside=True) == (1, 1)
    with table.update_schema() as update:
        update.add_column("c", table.schema().find_type("e"))
    assert table.scan().to_arrow()["e"].to_pylist() == [None, None]
    assert asked(table, "e IS NULL", allow_outside=True) == (1, 1)
    assert asked(table, "c = 'x'", allow_outside=True) == (1, 1)
    assert asked(table, "id = 7", allow_outside=True) == (0, 0)


def test_a_mapping_that_gives_a_name_to_another_column(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("n.t", pa.schema([("c", pa.string())]))
    pq.write_table(pa.table({"c": ["x", "y"]}), tmp_path / "f.parquet")
    table.add_files([f"{tmp_path}/f.parquet"])
    mapping = table.properties["schema.name-mapping.default"]
    with table.update_schema() as update:
        update.rename_column("c", "e")
    with table.update_schema() as update:
        update.add_column("c", table.schema().find_type("e"))
    with table.transaction() as transaction:  # as an engine leaves it that does not keep it up
        transaction.set_properties({"schema.name-mapping.default": mapping})
    assert table.scan().to_arrow().to_pylist() == [{"e": "x", "c": None}, {"e": "y", "c": None}]
    assert asked(table, "c IS NULL", allow_outside=True) == (1, 1)
    assert asked(table, "e = 'x'", allow_outside=True) == (1, 1)
    assert asked(table, "e = 'a'", allow_outside=True) == (0, 1)


def test_milliseconds_of_files_that_were_added(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("n.t", pa.schema([("t", pa.timestamp("us"))]))
    moments = [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)]
    pq.write_table(pa.table({"t": pa.array(moments, pa.timestamp("ms"))}), tmp_path / "f.parquet")
    table.add_files([f"{tmp_path}/f.parquet"])
    for moment in moments:
        assert prune(table, f"t = TIMESTAMP '{moment}'", allow_outside=True).might_match


def test_files_may_hold_finer_times_than_the_table(tmp_path: Path) -> None:
    moment = dt.datetime(2024, 1, 1, 0, 0, 0, 123_456)
    write_deltalake(str(tmp_path), pa.table({"c": pa.array([moment], pa.timestamp("us", "UTC"))}))
    actions = lakes.actions(tmp_path, 0)
    (add,) = [action["add"] for action in actions if "add" in action]
    finer = pa.array([1_704_067_200_123_456_789], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"c": finer}), tmp_path / add["path"])
    add["size"] = (tmp_path / add["path"]).stat().st_size
    lakes.log(tmp_path, 0, *actions)
    where = "c = TIMESTAMP '2024-01-01 00:00:00.123456789'"
    assert prune(tmp_path, where, timezone="UTC").might_match
    assert looked_up(tmp_path, "c", finer)[0] == 1


def test_keys_that_prove_nothing_are_for_the_files_to_say(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": [2**60 + 1]}))
    assert looked_up(tmp_path, "id", [7]) == (0, 0)
    assert looked_up(tmp_path, "id", [2.0**60])[0] == 1  # as floats they are equal
