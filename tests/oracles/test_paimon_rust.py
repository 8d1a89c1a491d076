"""paimon-rust writes the same filters, of tables of random rows and sizes, and its filters hold its rows.

`PARQUET_BLOOM_ORACLES` names a folder whose `python` has pypaimon-rust; without it the test is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from parquet_bloom import paimon
from parquet_bloom.filters.paimon import PaimonFilter, parse_container
from parquet_bloom.tables import snapshot_of

ORACLES = os.environ.get("PARQUET_BLOOM_ORACLES")
LEAST = 400
"""Filters that are compared, so that a table without any is noticed."""


@pytest.mark.skipif(not ORACLES, reason="PARQUET_BLOOM_ORACLES names no folder with pypaimon-rust")
def test_filters_are_those_of_paimon_rust(tmp_path: Path) -> None:
    script = str(Path(__file__).with_name("paimon_rust.py"))
    environment = {**os.environ, "PYTHONPATH": f"{ORACLES}/python"}
    written = subprocess.run(
        [sys.executable, script, str(tmp_path)], env=environment, capture_output=True, text=True, check=True
    ).stdout
    compared = 0
    for name, sizes in json.loads(written).items():
        for file in snapshot_of(tmp_path / "d.db" / name).files:
            assert file.file_index is not None
            theirs = parse_container(file.file_index.data or Path(str(file.file_index.path)).read_bytes())
            ours = parse_container(
                paimon.build_index(
                    file.path,
                    list(sizes),
                    ndv={column: items for column, (items, _) in sizes.items()},
                    fpp={column: fpp for column, (_, fpp) in sizes.items()},
                )
            )
            for column in sizes:
                payload = theirs[column]["bloom-filter"]
                assert payload == ours[column]["bloom-filter"]
                values = pq.ParquetFile(file.path).read([column])[column].drop_null().to_pylist()
                assert all(PaimonFilter(payload, (column,), file.file_index.columns[column]).might_contain(values))
                compared += 1
    assert compared >= LEAST
