"""Files whose schemas differ: what a file lacks, or holds as another type, is no reason to leave rows out."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ColumnNotFoundError, LiteralError, ParquetBloomError
from parquet_bloom.predicates.tree import col
from parquet_bloom.verbs.prune import prune


def lake(folder: Path, *arrays: pa.Array | None) -> list[Path]:
    """Writes a file with a column `c` of each array; None is a file without it. `k` is the file's number."""
    paths = []
    for number, array in enumerate(arrays):
        path = folder / f"{number}.parquet"
        columns = {"k": pa.array([number] * (1 if array is None else len(array)))}
        pq.write_table(pa.table(columns if array is None else {**columns, "c": array}), path)
        paths.append(path)
    return paths


def kept(paths: list[Path], where: Any, **options: Any) -> list[str]:
    return [Path(file.path).stem for file in prune(paths, where, **options).kept_files]


def test_a_file_that_lacks_the_column_is_kept(tmp_path: Path) -> None:
    paths = lake(tmp_path, pa.array([1, 2]), None, pa.array([7, 8]))
    for where in (col("c") == 7, "c > 5", "c IS NOT NULL AND c = 7", [("c", "in", [7])]):
        assert kept(paths, where) == ["1", "2"]
    assert "the file has no column c" in prune(paths, col("c") == 7).explain()


def test_a_column_that_no_file_has(tmp_path: Path) -> None:
    paths = lake(tmp_path, pa.array([1]), None)
    with pytest.raises(ColumnNotFoundError, match="did you mean c"):
        prune(paths, "cc = 1")
    with pytest.raises(ColumnNotFoundError):
        prune(paths, "k = 1 OR c2 = 1")
    with pytest.raises(ColumnNotFoundError):
        prune(paths, "C = 1")
    assert kept(paths, "C = 2", case_sensitive=False) == ["1"]


def test_columns_that_differ_in_case_only(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": [1], "C": [2]}), path)
    assert kept([path], "c = 3") == []
    (group,) = prune(path, "c = 3", case_sensitive=False).rows
    assert group.reason == "c matches 2 columns"


def test_groups_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"s": [{"v": 1}], "l": [[1]]}), path)
    for where in ("s IS NULL", "l IS NULL", "l = 5"):
        (group,) = prune(path, where).rows
        assert group.is_kept
        assert "group of columns" in group.reason
    assert kept([path], "s.v = 5 AND l.list.element = 1") == []
    assert kept([path], "`S`.V = 5", case_sensitive=False) == []


def test_a_literal_that_some_files_accept(tmp_path: Path) -> None:
    paths = lake(tmp_path, pa.array([1]), pa.array(["a"]), pa.array([5]))
    for literal in (5, "b"):  # 5 is '5' to an engine that reads all of them as text
        assert kept(paths, col("c") == literal) == ["0", "1", "2"]
    assert "with conflicting types" in prune(paths, col("c") == 5).explain()


def test_a_literal_that_no_file_accepts(tmp_path: Path) -> None:
    paths = lake(tmp_path, pa.array([1]), pa.array([2.5]))
    with pytest.raises(LiteralError, match="column c"):
        prune(paths, col("c") == "x")
    with pytest.raises(LiteralError):
        prune(paths, "c = 'x'")
    with pytest.raises(LiteralError):
        prune(paths, col("c") == col("k"))
    with pytest.raises(LiteralError):
        prune(paths, "k = 0 AND c = DATE '2024-01-01'")


def test_an_unknown_time_zone_is_an_error(tmp_path: Path) -> None:
    paths = lake(tmp_path, pa.array([date(2024, 1, 1)]))
    with pytest.raises(ParquetBloomError, match="zone"):
        prune(paths, col("c") == date(2024, 1, 1), timezone="Mars/Olympus")


# As one engine reads both files, in one type: the rows that it finds are in what is kept.
PAIRS: dict[str, tuple[pa.Array, pa.Array]] = {
    "int and text": (pa.array([1000, 5]), pa.array(["2", "05"])),
    "int and double": (pa.array([2**53, 2**53 + 1]), pa.array([2.0**53, 0.5])),
    "int32 and double": (pa.array([2**31 - 1, 5], pa.int32()), pa.array([2.0**53, 5.5])),
    "int32 and float": (pa.array([2**24 + 1], pa.int32()), pa.array([2.0**24], pa.float32())),
    "int32 and int64": (pa.array([5, 1000], pa.int32()), pa.array([2**40])),
    "float and double": (pa.array([0.1, 5.0], pa.float32()), pa.array([0.1])),
    "int and decimal": (pa.array([5, 1000]), pa.array([Decimal("5.50"), Decimal("5.00")])),
    "decimals": (pa.array([Decimal("5.5")]), pa.array([Decimal("5.501")])),
    "decimal and double": (pa.array([Decimal("9007199254740993.00")]), pa.array([2.0**53])),
    "date and timestamp": (
        pa.array([date(2024, 1, 1)]),
        pa.array([1_704_067_200_000_000, 1_704_110_400_000_000], pa.timestamp("us")),
    ),
    "date and text": (pa.array([date(2024, 1, 1)]), pa.array(["2024-01-01", "2024-1-1"])),
    "local and UTC": (
        pa.array([1_704_067_200_000_000], pa.timestamp("us")),
        pa.array([1_704_067_200_000_000], pa.timestamp("us", "UTC")),
    ),
    "bool and text": (pa.array([True]), pa.array(["true", "t"])),
}
LITERALS = [
    *(
        "5",
        "05",
        "2",
        "2.5",
        "1000",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993.0",
        "16777216",
        "0.1",
        "5.5",
    ),
    *("'5'", "'05'", "'2'", "'1000'", "'true'", "'2024-01-01'", "DATE '2024-01-01'", "TIMESTAMP '2024-01-01 12:00:00'"),
]


@pytest.mark.engines
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("swapped", [False, True])
def test_one_column_of_two_types(tmp_path: Path, pair: str, swapped: bool) -> None:
    import duckdb

    arrays = PAIRS[pair][::-1] if swapped else PAIRS[pair]
    paths = lake(tmp_path, *arrays)
    for path in paths:
        parquet_bloom.add(path, ["c"]) if not pa.types.is_boolean(pq.read_schema(path).field("c").type) else None
    asked = [f"c {op} {literal}" for literal in LITERALS for op in ("=", "<", ">", "<=", ">=", "<>")]
    asked += [f"c IN ({a}, {b})" for a, b in pairwise(LITERALS)]
    answered = 0
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        # Not all that one engine does is done by all: united by name, or in the type of the first file.
        for union in (True, False):
            files = f"read_parquet({[str(path) for path in paths]}, union_by_name = {union})"
            try:
                connection.execute(f"CREATE OR REPLACE TABLE rows AS SELECT * FROM {files}")
            except duckdb.Error:
                continue
            for where in asked:
                try:
                    truth = {str(k) for (k,) in connection.execute(f"SELECT k FROM rows WHERE {where}").fetchall()}
                    found = set(kept(paths, where, timezone="UTC"))
                except (duckdb.Error, LiteralError):
                    continue
                assert truth <= found, where
                answered += 1
    assert answered > 10


def test_types_that_are_compared_alike_still_prune(tmp_path: Path) -> None:
    paths = lake(tmp_path, pa.array([5], pa.int32()), pa.array([2**40]), pa.array([7]))
    assert kept(paths, "c = 7") == ["2"]
    paths = lake(tmp_path, pa.array([Decimal("5.5")]), pa.array([Decimal("1234567.5")]))
    assert kept(paths, "c = 5.5") == ["0"]
    paths = lake(tmp_path, pa.array(["a"]), pa.array(["b"], pa.large_string()))
    assert kept(paths, "c = 'b'") == ["1"]
    paths = lake(tmp_path, pa.array([5]), pa.array(["5"]))
    assert kept(paths, "c = '6'") == ["0", "1"]
    assert "with conflicting types" in prune(paths, "c = '6'").explain()
    assert kept(paths, "c IS NULL") == []


@pytest.mark.parametrize("narrow", [pa.int8(), pa.int16(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str)
def test_integers_that_spark_cuts_to_a_narrow_type_are_kept(tmp_path: Path, narrow: pa.DataType) -> None:
    whole = pa.array([300, 65580], pa.int32())
    assert kept(lake(tmp_path, pa.array([5], narrow), whole), "c = 44") == ["0", "1"]
    assert kept(lake(tmp_path, pa.array([5], narrow), pa.array([6], narrow)), "c = 6") == ["1"]


def test_a_partition_in_one_file_and_a_column_in_another(tmp_path: Path) -> None:
    for number, folder in enumerate(("c=5", "c=6", ".")):
        (tmp_path / folder).mkdir(exist_ok=True)
        columns = {"k": [number]} if folder != "." else {"k": [number], "c": [5]}
        pq.write_table(pa.table(columns), tmp_path / folder / f"{number}.parquet")
    assert sorted(kept([tmp_path], "c = 7")) == ["0", "1", "2"]
    assert kept([tmp_path / "c=5/0.parquet", tmp_path / "c=6/1.parquet"], "c = 5") == ["0"]
    with pytest.raises(ColumnNotFoundError, match="c=5 is above the given path"):
        kept([tmp_path / "c=5", tmp_path / "c=6"], "c = 5")
