"""Paimon's newest: no row that it returns is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from real_tables import sessions
from real_tables.examine import examine
from real_tables.newest_paimon import KINDS, Java, built, java

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not sessions.JARS, reason="PARQUET_BLOOM_TABLES names no folder of jars"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with sessions.running("Paimon", tmp_path_factory.mktemp("spark")) as found:
        yield found


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with java(tmp_path_factory.mktemp("paimon")) as found:
        yield found


@pytest.mark.parametrize("title", KINDS)
def test_no_row_of_a_table_of_the_newest_paimon_is_lost(spark: Any, program: Java, title: str, tmp_path: Path) -> None:
    examine("Paimon 1.4", title, built(program, title), spark, tmp_path)
