"""delta-spark writes to tables while filters are added to them, and none of its rows is lost or doubled.

`PARQUET_BLOOM_TABLES` names a folder with PySpark 4.1 in `pyspark-4.1` and the jars of delta-spark 4.3.1 for it.
Without them, or without Java, the test is skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import delta_writer
import pytest
from engines import needs_java

from parquet_bloom import ConcurrentChangeError, CorruptFileError, add, lookup

FOLDER = os.environ.get("PARQUET_BLOOM_TABLES", "")
STEPS = int(os.environ.get("PARQUET_BLOOM_STEPS", "12"))

pytestmark = [
    pytest.mark.spark,
    needs_java,
    pytest.mark.skipif(not FOLDER, reason="PARQUET_BLOOM_TABLES names no folder of PySpark 4.1 and Delta's jars"),
]


def test_delta_spark_writes_at_the_same_time(tmp_path: Path) -> None:
    command = [sys.executable, delta_writer.__file__, FOLDER, str(tmp_path), str(STEPS)]
    outcomes: Counter[str] = Counter()
    rng = random.Random(3)
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        while not (tmp_path / "ready").exists():
            assert writer.poll() is None
            time.sleep(0.2)
        while not (tmp_path / "over").exists():
            assert writer.poll() is None
            for name in delta_writer.KINDS:
                with contextlib.suppress(ConcurrentChangeError):
                    outcomes += _add(tmp_path / name)
            time.sleep(rng.random())  # every file is swapped each time, and Spark wants its turn
        for name in delta_writer.KINDS:
            assert "written over" not in _add(tmp_path / name)
        writer.communicate("\n", timeout=600)
    told = json.loads((tmp_path / "done.json").read_text())
    print(outcomes, {name: (each["did"], each["swaps"]) for name, each in told.items()})
    for name, each in told.items():
        assert each["found"] == each["wanted"], name
        assert each["swaps"] > 0
        keys = [key for key, _ in each["wanted"]]
        assert {key for batch in lookup(tmp_path / name, "id", keys) for key in batch["key"].to_pylist()} == set(keys)
    assert sum(sum(each["did"].values()) for each in told.values()) == STEPS * len(told)


def _add(root: Path) -> Counter[str]:
    try:
        return Counter(row.status for row in add(root, "id", table=True, batch=3, replace=True).rows)
    except CorruptFileError as error:
        # Between Spark's look and its renaming on a local disk there is room; then the rows are as Spark left them.
        if "overwrote version" in str(error):
            return Counter(["written over"])
        raise
