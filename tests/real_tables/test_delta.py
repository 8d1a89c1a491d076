"""Delta: no row that delta-spark returns is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from real_tables import sessions
from real_tables.delta import KINDS
from real_tables.examine import examine
from real_tables.left import erase_from_delta

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not sessions.JARS, reason="PARQUET_BLOOM_TABLES names no folder of jars"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with sessions.running("Delta and Iceberg", tmp_path_factory.mktemp("delta")) as found:
        yield found


@pytest.mark.parametrize("title", KINDS)
def test_no_row_of_a_delta_table_is_lost(spark: Any, title: str, tmp_path: Path) -> None:
    examine("Delta", title, KINDS[title], spark, tmp_path)


@pytest.mark.parametrize("title", KINDS)
def test_nothing_is_left_of_rows_that_were_erased(spark: Any, title: str, tmp_path: Path) -> None:
    erase_from_delta(title, KINDS[title], spark, tmp_path)
