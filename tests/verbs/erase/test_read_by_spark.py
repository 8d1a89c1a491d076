"""Spark reads the old rows without the keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engines import needs_java, spark
from files import fixture, names

from parquet_bloom import erase

pytestmark = [pytest.mark.spark, needs_java]


def rows(frame: Any) -> list[str]:
    return sorted(row["row"] for row in frame.selectExpr("to_json(struct(*)) AS row").collect())


@pytest.mark.parametrize("name", names(["spark/nested.parquet", "spark/int96.parquet", "spark/pages_v2.parquet"]))
def test_spark_reads_the_old_rows_without_the_keys(name: str, tmp_path: Path) -> None:
    file, old = tmp_path / "x.parquet", tmp_path / "old.parquet"
    for path in (file, old):
        path.write_bytes(fixture(name))
    before = spark().read.parquet(str(old))
    ids = sorted({row["id"] for row in before.select("id").collect()})
    keys = ids[3::7]
    left = rows(before.where(~before["id"].isin(keys)))

    assert erase(file, "id", keys).rows_erased == before.count() - len(left) > 0

    after = spark().read.parquet(str(file))
    assert after.schema == before.schema
    assert rows(after) == left
    assert after.where(after["id"].isin(keys)).count() == 0
    assert after.where(after["id"] == ids[4]).count() > 0
