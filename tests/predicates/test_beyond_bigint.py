"""Beyond the range of BIGINT Spark 4 orders NULL as if it were a value, so a column of nulls is no proof there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import UnsupportedError
from tests.support import engines

MOST, LEAST = 2**63 - 1, -(2**63)
BEYOND = [
    f"n < {MOST + 1}",
    f"n <= {MOST + 1}",
    f"NOT (n > {MOST + 1})",
    f"NOT (n >= {MOST + 1})",
    f"n > {LEAST - 1}",
    f"n >= {LEAST - 1}.5",
    f"NOT (n < {LEAST - 1})",
    f"NOT (n BETWEEN {MOST + 1} AND 5)",
]


@pytest.fixture(scope="module")
def nulls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("beyond") / "nulls.parquet"
    pq.write_table(pa.table({"n": pa.nulls(3, pa.int64())}), path)
    return path


@pytest.mark.spark
@pytest.mark.parametrize("where", BEYOND)
def test_rows_that_spark_returns_are_kept(nulls: Path, where: str) -> None:
    assert engines.spark().read.parquet(str(nulls)).where(where).count() == 3
    assert parquet_bloom.prune(nulls, where).might_match
    with pytest.raises(UnsupportedError, match="orders NULL"):
        parquet_bloom.find(nulls, where)


@pytest.mark.parametrize("where", [f"n < {MOST}", f"n = {MOST + 1}", f"n <> {MOST + 1}", f"n IN ({MOST + 1}, 5)"])
def test_within_the_range_nulls_are_proof(nulls: Path, where: str) -> None:
    assert not parquet_bloom.prune(nulls, where).might_match
