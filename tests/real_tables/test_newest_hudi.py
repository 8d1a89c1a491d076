"""Hudi 1.2: no row that it returns is lost, of tables whose files do not hold the columns as readers see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from real_tables import sessions
from real_tables.examine import examine
from real_tables.hudi import COLUMNS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not sessions.JARS, reason="PARQUET_BLOOM_TABLES names no folder of jars"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with sessions.running("Hudi 1.2", tmp_path_factory.mktemp("hudi")) as found:
        yield found


@pytest.mark.parametrize("title", COLUMNS)
def test_no_row_of_a_hudi_table_is_lost(spark: Any, title: str, tmp_path: Path) -> None:
    examine("Hudi 1.2", title, COLUMNS[title], spark, tmp_path)
