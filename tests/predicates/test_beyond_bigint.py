"""Beyond the range of BIGINT, Spark 4 orders NULL as if it were a value, and rounds to compare with a wide DECIMAL."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import UnsupportedError
from tests.support import engines

MOST, LEAST = 2**63 - 1, -(2**63)
BEYOND = [
    f"n < {MOST + 1}",
    f"n < {MOST}.5",
    f"n <= {MOST + 1}",
    f"NOT (n > {MOST + 1})",
    f"NOT (n >= {MOST + 1})",
    f"n > {LEAST - 1}",
    f"n >= {LEAST - 1}.5",
    f"NOT (n < {LEAST - 1})",
    f"NOT (n BETWEEN {MOST + 1} AND 5)",
]
WITHIN = [f"n < {MOST}", f"n = {MOST + 1}", f"n <> {MOST + 1}", f"n IN ({MOST + 1}, 5)"]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]


@pytest.fixture(scope="module", params=INTEGERS, ids=str)
def nulls(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    path = tmp_path_factory.mktemp("beyond") / "nulls.parquet"
    pq.write_table(pa.table({"n": pa.nulls(3, request.param)}), path)
    return path


def rows_of_spark(path: Path, conditions: list[str]) -> Iterator[list[int]]:
    """Yields the numbers of the rows that Spark finds, for each condition."""
    rows = engines.spark().read.parquet(str(path)).selectExpr("_metadata.row_index", *conditions).collect()
    for column in range(1, len(conditions) + 1):
        yield [row[0] for row in rows if row[column]]


@pytest.mark.spark
def test_rows_that_spark_returns_are_kept(nulls: Path) -> None:
    for where, rows in zip(BEYOND, rows_of_spark(nulls, BEYOND), strict=True):
        assert len(rows) == 3, where
        assert parquet_bloom.prune(nulls, where).might_match, where
        with pytest.raises(UnsupportedError, match="orders NULL"):
            parquet_bloom.find(nulls, where)


@pytest.mark.spark
def test_spark_reads_64_unsigned_bits_as_a_decimal(tmp_path: Path) -> None:
    path = tmp_path / "nulls.parquet"
    pq.write_table(pa.table({"n": pa.nulls(3, pa.uint64())}), path)
    for where, rows in zip(BEYOND, rows_of_spark(path, BEYOND), strict=True):
        assert not rows, where
        assert parquet_bloom.find(path, where).to_arrow().num_rows == 0, where


@pytest.mark.spark
def test_a_partition_that_is_null(tmp_path: Path) -> None:
    for folder in ("n=5", "n=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"k": [1]}), tmp_path / folder / "k.parquet")
    for where, rows in zip(BEYOND, rows_of_spark(tmp_path, BEYOND), strict=True):
        assert len(rows) == 2, where
        assert len(parquet_bloom.prune(tmp_path, where).kept_files) == 2, where
    assert not parquet_bloom.prune(tmp_path, "n < 4").might_match


@pytest.mark.parametrize("where", BEYOND)
def test_beyond_the_range_nulls_may_match(nulls: Path, where: str) -> None:
    assert parquet_bloom.prune(nulls, where).might_match
    with pytest.raises(UnsupportedError, match="orders NULL"):
        parquet_bloom.find(nulls, where)


@pytest.mark.parametrize("where", BEYOND)
def test_beyond_the_range_a_partition_that_is_null_may_match(tmp_path: Path, where: str) -> None:
    folder = tmp_path / "n=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir()
    pq.write_table(pa.table({"k": [1]}), folder / "k.parquet")
    assert parquet_bloom.prune(tmp_path, where).might_match
    assert not parquet_bloom.prune(tmp_path, "n < 4").might_match


@pytest.mark.parametrize("where", WITHIN)
def test_within_the_range_nulls_are_proof(nulls: Path, where: str) -> None:
    assert not parquet_bloom.prune(nulls, where).might_match


# ---- DECIMALs that Spark rounds --------------------------------------------------------------------------

TEST = ["n = {}", "n <> {}", "n < {}", "n >= {}", "n IN ({}, 7)", "NOT (n <=> {})"]
EXACT = {
    (38, 10): [10**27, 10**28 - 1, MOST + 1, 7],
    (38, 30): [10**7, 7],
    (38, 0): [10**37, MOST + 1],
    (20, 0): [10**20],
}
ROUNDED = {(38, 10): [10**28, -(10**28)], (38, 30): [10**8], (38, 38): [1]}


def decimals(folder: Path, precision: int, scale: int) -> Path:
    """Writes the outermost values of a DECIMAL, and what is between."""
    most = 10**precision - 1
    unscaled = [None, most, -most, most - 1, 0, 7 * 10**scale if precision > scale else 1]
    values = [None if number is None else Decimal(f"{number}E-{scale}") for number in unscaled]
    pq.write_table(pa.table({"n": pa.array(values, pa.decimal128(precision, scale))}), folder / "n.parquet")
    return folder / "n.parquet"


@pytest.mark.spark
@pytest.mark.parametrize("kind", EXACT, ids=str)
def test_an_integer_is_compared_with_a_decimal_as_by_spark(tmp_path: Path, kind: tuple[int, int]) -> None:
    path = decimals(tmp_path, *kind)
    conditions = [test.format(number) for number in EXACT[kind] for test in TEST]
    for where, rows in zip(conditions, rows_of_spark(path, conditions), strict=True):
        assert found(path, where) == rows, where


@pytest.mark.spark
@pytest.mark.parametrize("kind", ROUNDED, ids=str)
def test_an_integer_that_spark_rounds_a_decimal_to_is_refused(tmp_path: Path, kind: tuple[int, int]) -> None:
    path = decimals(tmp_path, *kind)
    for number in ROUNDED[kind]:
        conditions = [test.format(number) for test in TEST]
        for where, rows in zip(conditions, rows_of_spark(path, conditions), strict=True):
            assert parquet_bloom.prune(path, where).might_match or not rows
            with pytest.raises(UnsupportedError, match="Spark rounds n"):
                found(path, where)
        with pytest.raises(UnsupportedError, match="Spark rounds n"):
            parquet_bloom.find(path, column="n", keys=[number])


def found(path: Path, where: Any) -> list[int]:
    return parquet_bloom.find(path, where, columns=[], positions=True).to_arrow()["row"].to_pylist()
