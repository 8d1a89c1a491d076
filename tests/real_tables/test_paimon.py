"""Paimon: no row that Paimon returns is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from real_tables import sessions
from real_tables.examine import examine
from real_tables.paimon import KINDS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not sessions.JARS, reason="PARQUET_BLOOM_TABLES names no folder of jars"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with sessions.running("Paimon", tmp_path_factory.mktemp("paimon")) as found:
        yield found


@pytest.mark.parametrize("title", KINDS)
def test_no_row_of_a_paimon_table_is_lost(spark: Any, title: str, tmp_path: Path) -> None:
    examine("Paimon 0.9", title, KINDS[title], spark, tmp_path)
