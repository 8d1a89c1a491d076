"""`spark.find` returns what `parquet_bloom.find` does, as a DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
import parquet_bloom.spark as bloom
from tests.support import engines

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for number in range(2):
        ids = [f"u{n * 7 % 100}" for n in range(number, 200)]
        pq.write_table(pa.table({"id": ids, "n": range(len(ids))}), tmp_path / f"{number}.parquet", row_group_size=50)
    parquet_bloom.add(tmp_path, "id")
    return tmp_path


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("question", [{"where": "id = 'u7'"}, {"column": "id", "keys": ["u7", "absent"]}])
@pytest.mark.parametrize("row_groups", [False, True])
def test_rows_and_positions_are_those_found_here(lake: Path, question: dict[str, Any], row_groups: bool) -> None:
    spark = engines.spark()
    here = parquet_bloom.find(lake, **question, columns=["n", "id"], positions=True).to_arrow().to_pylist()
    there = bloom.find(spark, str(lake), **question, columns=["n", "id"], positions=True, row_groups=row_groups)
    assert there.columns == ["n", "id", "path", "row"]
    assert rows(there) == sorted((row["n"], row["id"], f"file:{row['path']}", row["row"]) for row in here)
    assert len(rows(there)) > 3
    whole = bloom.find(spark, str(lake), **question, row_groups=row_groups)
    assert rows(whole.select("n")) == sorted((row["n"],) for row in here)


def test_it_takes_a_condition_or_keys(lake: Path) -> None:
    with pytest.raises(TypeError, match="condition, or a column"):
        bloom.find(engines.spark(), str(lake))
