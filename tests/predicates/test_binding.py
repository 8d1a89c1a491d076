"""A column that files store as several types: no row that DuckDB returns is excluded, whatever the order of the files.

More of it with a larger number in PARQUET_BLOOM_SEEDS.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from datetime import date, time
from decimal import Decimal
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import absent, find, lookup, prune
from parquet_bloom.errors import ColumnNotFoundError, LiteralError, ParquetBloomError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.predicates.binding import ALIKE_INTEGERS, comparable_type
from parquet_bloom.predicates.parsing import to_predicate
from parquet_bloom.predicates.tree import col
from parquet_bloom.storage import listing
from parquet_bloom.storage.listing import Source
from parquet_bloom.tables.placement import Columns
from parquet_bloom.values.encoding import ALIKE_DIGITS
from parquet_bloom.verbs.prune import FileEvaluator
from tests.support import engines
from tests.support.files import footer_bytes, with_footer

SEEDS = range(4, 4 + int(os.environ.get("PARQUET_BLOOM_SEEDS", "3")))
DAY = 1_704_067_200  # 2024-01-01, in seconds


def decimals(precision: int, scale: int) -> pa.Array:
    return pa.array([Decimal("1"), Decimal("7"), Decimal("0.1")], pa.decimal128(precision, scale))


VALUES = {
    "bool": pa.array([True, False]),
    "int8": pa.array([1, 7, -1, 44], pa.int8()),
    "uint16": pa.array([1, 300], pa.uint16()),
    "int32": pa.array([1, 7, 2**24 + 1, 19723], pa.int32()),
    "int64": pa.array([1, 7, 2**53 + 1, 2**24 + 1, 300]),
    "uint64": pa.array([1, 7, 2**63], pa.uint64()),
    "float": pa.array([1.0, 7.0, 0.1, 2.0**24], pa.float32()),
    "double": pa.array([1.0, 7.0, 0.1, 2.0**53]),
    "decimal 5,2": decimals(5, 2),
    "decimal 22,2": decimals(22, 2),
    "decimal 38,2": decimals(38, 2),
    "decimal 9,3": pa.array([Decimal("7.001"), Decimal("0.1")], pa.decimal128(9, 3)),
    "decimal 45,2": pa.array([Decimal("7.00"), Decimal("90071992547409.93")], pa.decimal256(45, 2)),
    "date": pa.array([date(2024, 1, 1), date(1970, 1, 8)]),
    "local us": pa.array([DAY * 10**6, DAY * 10**6 + 1], pa.timestamp("us")),
    "local ms": pa.array([DAY * 10**3, DAY * 10**3 + 1], pa.timestamp("ms")),
    "UTC us": pa.array([DAY * 10**6, DAY * 10**6 + 1], pa.timestamp("us", "UTC")),
    "time": pa.array([time(12), time(0, 0, 1)]),
    "text": pa.array(["1", "7", "7.0", "07", "true", "2024-01-01", "12:00:00", r"\x41", "A", "é", "ab", "16777216"]),
    "enum": pa.array([b"1", b"7", b"A"]),
    "json": pa.array(["1", "7.0", '"a"'], pa.json_()),
    "binary": pa.array([b"1", b"A", rb"\x41", "é".encode(), b"\x00", b"\xff", b"ab"]),
    "fixed 2": pa.array([b"ab", b"\x00\x00"], pa.binary(2)),
    "fixed 4": pa.array([b"ab\x00\x00", rb"\x41"], pa.binary(4)),
    "null": pa.nulls(2),
}
LITERALS = [
    *("1", "7", "7.0", "7.001", "0.1", "1e0", "16777216", "16777217", "16777216e0", "9007199254740992", "300", "44"),
    *("-1", "true", "'1'", "'7'", "'7.0'", "'07'", "'1.0'", "'1.00'", "'true'", "'t'", "'2024-01-01'", "'2024-1-1'"),
    *("'2024-01-01 00:00:00'", "'1970-01-08'", "'12:00:00'", "'A'", "'é'", r"'\x41'", r"'\xC3\xA9'", r"'\x00'", "'ab'"),
    *("DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '2024-01-01 00:00:00.000001'"),
]
KEYS: list[Any] = [
    *(1, 7, 300, 2**24, 2**24 + 1, True, 7.0, 0.1, Decimal("7.0"), Decimal("7.001"), "7", "7.0", "A", b"A", b"ab"),
    *(date(2024, 1, 1), "2024-01-01"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns a file of each type, with a row group and a filter for each of the values in its column `c`."""
    folder, paths = tmp_path_factory.mktemp("types"), {}
    for name, values in VALUES.items():
        paths[name] = folder / f"{name}.parquet"
        table = pa.table({"k": [f"{name}:{row}" for row in range(len(values))], "c": values})
        pq.write_table(table, paths[name], row_group_size=1, store_schema=False)
        if name == "enum":
            with_logical_type(paths[name], ttypes.LogicalType(ENUM=ttypes.EnumType()))
        if name not in ("bool", "null", "decimal 45,2"):
            parquet_bloom.add(paths[name], ["c"])
    return paths


def with_logical_type(path: Path, logical: ttypes.LogicalType) -> None:
    """Gives the column `c` another logical type."""
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    (element,) = [one for one in metadata.schema if one.name == "c"]
    element.logicalType, element.converted_type = logical, None
    path.write_bytes(with_footer(data, encode(metadata)))


NUMBERS = [name for name in VALUES if re.match("bool|u?int|float|double|decimal|null", name)]
MOMENTS = ["date", "local us", "local ms", "UTC us", "time", "text"]
TEXTS = ["text", "enum", "json", "binary", "fixed 2", "fixed 4", "int32", "date", "bool", "null"]


def some(rng: random.Random) -> list[str]:
    """Returns two or three types, mostly such that DuckDB reads as one."""
    return rng.sample(rng.choice([NUMBERS, NUMBERS, MOMENTS, TEXTS, list(VALUES)]), rng.choice([2, 2, 3]))


def conditions(rng: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        if rng.random() < 0.15:
            yield f"c IN ({', '.join(rng.sample(LITERALS, 2))})"
        else:
            yield f"c {rng.choice(['=', '=', '=', '<', '<=', '>', '>=', '<>'])} {rng.choice(LITERALS)}"


def rows_of(path: str, row_group: int) -> str:
    return f"{Path(path).stem}:{row_group}"


def held(paths: Sequence[Path], where: Any, **options: Any) -> set[str]:
    """Returns the rows that `prune` does not exclude."""
    where = where.replace("\\", "\\\\") if isinstance(where, str) else where  # as Spark writes a backslash
    kept = prune(paths, where, timezone="UTC", **options).kept_row_groups
    return {rows_of(one.path, one.row_group) for one in kept}


def readings_of_duckdb(connection: Any, paths: Sequence[Path]) -> Iterator[None]:
    """Makes a table of the files in each way in which DuckDB reads them: in a common type, or in the first file's."""
    import duckdb

    connection.execute("SET TimeZone = 'UTC'")
    for by_name in (True, False):
        source = f"read_parquet({[str(path) for path in paths]}, union_by_name = {by_name})"
        try:
            connection.execute(f"CREATE OR REPLACE TABLE rows AS SELECT k, c FROM {source}")
        except duckdb.Error:  # it does not read them so
            continue
        yield


@pytest.mark.engines
@pytest.mark.parametrize("seed", SEEDS)
def test_no_row_that_duckdb_returns_is_excluded(files: dict[str, Path], seed: int) -> None:
    import duckdb

    rng, compared = random.Random(seed), 0
    with duckdb.connect() as connection:
        for _ in range(12):
            paths = [files[name] for name in some(rng)]
            asked = {}
            for where in conditions(rng, 20):
                try:
                    asked[where] = held(paths, where), held(paths, where, exact=True)
                except LiteralError:
                    continue
            for _ in readings_of_duckdb(connection, paths):
                for where, (kept, exactly) in asked.items():
                    try:
                        truth = {k for (k,) in connection.execute(f"SELECT k FROM rows WHERE {where}").fetchall()}
                    except duckdb.Error:
                        continue
                    assert truth <= kept, (where, paths)
                    assert truth <= exactly, (where, paths)
                    compared += 1
    assert compared > 40


@pytest.mark.engines
@pytest.mark.parametrize("seed", SEEDS)
def test_no_key_that_duckdb_finds_is_excluded(files: dict[str, Path], seed: int) -> None:
    import duckdb

    rng, compared = random.Random(seed), 0
    with duckdb.connect() as connection:
        for _ in range(15):
            paths = [files[name] for name in some(rng)]
            asked = {}
            for key in rng.sample(KEYS, 7):
                try:
                    asked[key] = candidates(paths, key)
                except LiteralError:
                    continue
            for _ in readings_of_duckdb(connection, paths):
                for key, found in asked.items():
                    try:
                        truth = connection.execute("SELECT k FROM rows WHERE c = $1", [key]).fetchall()
                    except duckdb.Error:
                        continue
                    assert all(k in found or k.partition(":")[0] in found for (k,) in truth), (key, paths)
                    compared += 1
    assert compared > 20


def candidates(paths: Sequence[Path], key: Any) -> set[str]:
    """Returns the rows that may hold a key, and the names of files that may as a whole."""
    rows = lookup(paths, "c", [key], timezone="UTC").to_arrow().to_pylist()
    found = [(row["path"], row["row_group"]) for row in rows if row["path"]]
    return {rows_of(path, group) if group is not None else Path(path).stem for path, group in found}


class Outcome(NamedTuple):
    rows: Any
    error: str | None = None


def outcome(call: Any) -> Outcome:
    try:
        return Outcome(call())
    except ParquetBloomError as error:
        return Outcome(None, type(error).__name__)


def reasons(paths: Sequence[Path], where: str) -> Any:
    rows = prune(paths, where.replace("\\", "\\\\"), timezone="UTC").rows
    return {(Path(row.path).stem, row.row_group): (row.answer, row.reason) for row in rows}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_files_decides_nothing(files: dict[str, Path], seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        names = some(rng)
        key, wheres = rng.choice(KEYS), list(conditions(rng, 4))
        orders = [[files[name] for name in order] for order in permutations(names)]
        calls = [
            *(partial(call, where=where) for where in wheres for call in (reasons, found)),
            partial(candidates, key=key),
            partial(found, column="c", keys=[key]),
            partial(positions_absent, key=key),
        ]
        for call in calls:
            first, *others = (outcome(partial(call, paths)) for paths in orders)
            assert all(other == first for other in others), (names, key, wheres)


def found(paths: Sequence[Path], where: str | None = None, **options: Any) -> list[str]:
    where = where and where.replace("\\", "\\\\")
    rows = find(paths, where, columns=["k"], timezone="UTC", strict=True, **options)
    return sorted(rows.to_arrow()["k"].to_pylist())


def positions_absent(paths: Sequence[Path], key: Any) -> list[int]:
    return absent(paths, "c", [key], timezone="UTC").positions.to_pylist()


# ---- what was overlooked where a literal does not fit one of the files -----------------------------------


@pytest.mark.parametrize("others_first", [False, True])
@pytest.mark.parametrize(
    ("one", "other", "where", "rows"),
    [
        ("date", "local us", "c = '2024-01-01 00:00:00'", {"date:0", "local us:0"}),
        ("bool", "int64", "c = 1", {"bool:0", "int64:0"}),
        ("int32", "text", "c = '7.0'", {"text:2"}),
        ("int32", "decimal 9,3", "c = '7.001'", {"decimal 9,3:0"}),
    ],
)
def test_types_are_noted_before_literals(
    files: dict[str, Path], one: str, other: str, where: str, rows: set[str], others_first: bool
) -> None:
    paths = [files[other], files[one]] if others_first else [files[one], files[other]]
    everything = {f"{name}:{row}" for name in (one, other) for row in range(len(VALUES[name]))}
    assert held(paths, where) == everything >= rows
    explained = prune(paths, where, timezone="UTC").explain()
    assert explained.count("files store c with conflicting types") == len(everything)


def test_a_key_that_does_not_fit_one_of_the_files(files: dict[str, Path]) -> None:
    for paths in permutations([files["int32"], files["text"]]):
        assert candidates(paths, 5) >= {"int32", "text"}
        with pytest.raises(parquet_bloom.UnsupportedError, match="conflicting types"):
            absent(paths, "c", [5])
        with pytest.raises(parquet_bloom.UnsupportedError, match="conflicting types"):
            find(paths, column="c", keys=[5])
        with pytest.raises(parquet_bloom.UnsupportedError, match="conflicting types"):
            find(paths, "c = 5")


def test_a_literal_that_fits_no_file_is_told_before_a_column_that_is_not_there(tmp_path: Path) -> None:
    paths = [tmp_path / "without.parquet", tmp_path / "with.parquet"]
    pq.write_table(pa.table({"k": [1]}), paths[0])
    pq.write_table(pa.table({"k": [1], "c": [5]}), paths[1])
    for order in permutations(paths):
        for call in (
            lambda order=order: prune(order, "c = 'x'"),
            lambda order=order: lookup(order, "c", ["x"]).to_arrow(),
            lambda order=order: parquet_bloom.probe(order, "c", ["x"]),
            lambda order=order: parquet_bloom.erase(order, "c", ["x"], dry_run=True),
            lambda order=order: find(order, column="c", keys=["x"]),
            lambda order=order: absent(order, "c", ["x"]),
        ):
            with pytest.raises(LiteralError):
                call()
        with pytest.raises(ColumnNotFoundError):
            prune(order, "d = 'x'")


@pytest.mark.spark
def test_a_decimal_that_spark_rounds_because_another_file_has_more_digits(files: dict[str, Path]) -> None:
    frame = engines.spark().read.option("mergeSchema", "true")
    for paths in permutations([files["decimal 5,2"], files["decimal 38,2"]]):
        truth = frame.parquet(*map(str, paths)).where("c = 7.001").select("k").collect()
        assert {row["k"] for row in truth} == {"decimal 5,2:1", "decimal 38,2:1"}
        assert held(paths, "c = 7.001") >= {row["k"] for row in truth}
    wider = [files["decimal 5,2"], files["decimal 22,2"]]  # all literals that could be rounded prove nothing
    assert not held(wider, "c = 7.001")
    assert held(wider, "c = 7.0000000000001") == {f"{path.stem}:{row}" for path in wider for row in range(3)}


# ---- the closed list ---------------------------------------------------------------------------------------


def test_a_type_of_a_later_version_excludes_nothing_in_the_other_files(tmp_path: Path) -> None:
    known, unknown = tmp_path / "known.parquet", tmp_path / "unknown.parquet"
    for path in (known, unknown):
        pq.write_table(pa.table({"c": pa.array([5, 6])}), path)
    where = col("c") == 7
    assert not prune([known, unknown], where).might_match
    with_logical_type(unknown, ttypes.LogicalType())
    assert not prune(known, where).might_match
    assert {Path(file.path).stem for file in prune([known, unknown], where).kept_files} == {"known", "unknown"}


def test_two_types_compare_alike_only_if_the_list_has_them() -> None:
    made = [
        LeafColumn(("c",), 0, physical, 4 if physical is PhysicalType.FIXED_LEN_BYTE_ARRAY else None, logical, ())
        for physical in PhysicalType
        for logical in (
            *(None, *map(LogicalType, ("STRING", "ENUM", "JSON", "BSON", "DATE", "UUID", "FLOAT16", "UNKNOWN", "NEW"))),
            *(
                LogicalType("INTEGER", bit_width=bits, is_signed=signed)
                for bits in (8, 32, 64)
                for signed in (False, True)
            ),
            *(LogicalType("TIMESTAMP", unit=unit) for unit in ("MILLIS", "MICROS")),
            *(LogicalType("DECIMAL", precision=precision, scale=2) for precision in (0, 5, 28, 29, 38)),
        )
    ]
    alike = {
        frozenset({one.type_name, other.type_name})
        for one in made
        for other in made
        if one.type_name != other.type_name and comparable_type(one) == comparable_type(other)
    }
    # A type of 32 or 64 signed bits goes by the name of the physical one.
    groups = [
        ALIKE_INTEGERS,
        *(
            {one.type_name for one in made if re.search(f"DECIMAL.{digits},2", one.type_name)}
            for digits in ("(5|28)", "0", "29", "38")
        ),
    ]
    expected = {frozenset({a, b}) for group in groups for a in group for b in group if a != b}
    assert {pair for pair in alike if len(pair) == 2} == expected


def test_decimals_of_two_scales_exclude_nothing(files: dict[str, Path]) -> None:
    paths = [files["decimal 9,3"], files["decimal 5,2"]]
    assert not held(paths[:1], "c = 9")
    assert held(paths, "c = 9") == held(paths, "TRUE")


def test_a_rule_for_the_text_of_one_file_may_be_that_of_all(tmp_path: Path) -> None:
    field = {"name": "c", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"c": "icu.UNICODE_CI"}}}
    noted = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": [field]})}
    pq.write_table(pa.table({"c": ["x"]}).replace_schema_metadata(noted), tmp_path / "ruled.parquet")
    pq.write_table(pa.table({"c": ["B"]}), tmp_path / "plain.parquet")
    assert not prune(tmp_path / "plain.parquet", "c = 'b'").might_match
    assert prune(tmp_path, "c = 'b'").totals.files_kept == 2


def test_a_name_that_two_columns_have_excludes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": [1], "C": [2]}), path)
    assert not prune(path, "c = 2").might_match
    (group,) = prune(path, "c = 3", case_sensitive=False).rows
    assert (group.is_kept, group.reason) == (True, "c matches 2 columns")


class Elsewhere:
    """A reader that may see other values than those in a file."""

    knows_types = True

    def __init__(self, why: str | None) -> None:
        self._why = why

    def partitions(self, source: Source) -> None:
        return None

    def leaves(self, columns: Columns) -> tuple[LeafColumn, ...]:
        return columns.leaves

    def why_other(self, leaf: LeafColumn) -> str | None:
        return self._why


def test_a_reader_that_sees_other_values_excludes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": ["a", "x"]}), path)
    parquet_bloom.add(path, ["c"])
    for where in ("c = 'b'", "c > 'y'", "c = 'z'"):
        for why in (None, "texts are cut there"):
            evaluator = FileEvaluator(to_predicate(where), view=Elsewhere(why))
            ((file,), _) = evaluator.evaluate_all(listing.find(path))
            assert file.is_kept is (why is not None), where


def test_the_page_lists_what_compares_alike() -> None:
    page = (Path(__file__).parents[2] / "docs/pages/prune.md").read_text("utf-8")
    table = page.split("| types of the column |")[1].split("\n\n")[0]
    (integers,) = re.findall(r"\| (.*) \(nulls only\): integers", table)
    assert set(integers.split(", ")) == ALIKE_INTEGERS
    assert f"| DECIMAL of one scale and up to {ALIKE_DIGITS} digits" in table
    assert table.count("what it proves") == 3
