"""The speed of `absent` beside DuckDB's anti join. Not part of the usual tests:

pytest tests/benchmarks/test_absent.py -m benchmark -s -n0

Processor time is compared, so that other work on the machine counts for little.
"""

import importlib.util
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom

_spec = importlib.util.spec_from_file_location("sample", Path(__file__).with_name("sample.py"))
sample = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sample)

pytestmark = pytest.mark.benchmark

FILES, KEYS, RUNS = 400, 1_000_000, 3


def least(call: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the least processor time of some calls, of which the first warms up, and what they return."""
    times = []
    for _ in range(RUNS + 1):
        start = resource.getrusage(resource.RUSAGE_SELF)
        result = call()
        end = resource.getrusage(resource.RUSAGE_SELF)
        times.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
    return min(times[1:]), result


def keys_for(files: list[Path]) -> pa.Table:
    """Returns keys of which nine of ten are nowhere."""
    each = KEYS // 10 // len(files)
    there = [pq.read_table(path, columns=["id"])["id"].combine_chunks().slice(0, each) for path in files]
    dice = np.random.default_rng(77)
    keys = pa.concat_arrays([sample.random_ids(dice, KEYS - each * len(files)), *there])
    return pa.table({"id": keys.take(pa.array(dice.permutation(KEYS)))})


def test_a_million_keys_of_which_most_are_nowhere() -> None:
    lake = sample.lake(FILES)
    keys = keys_for(sorted(lake.glob("*.parquet")))
    ours, found = least(lambda: parquet_bloom.absent(lake, "id", keys))
    connection = duckdb.connect().register("keys", keys)
    query = f"SELECT id FROM keys ANTI JOIN '{lake}/*.parquet' f USING (id)"
    duckdbs, expected = least(lambda: connection.sql(query).to_arrow_table())
    assert len(found) == len(expected) == KEYS * 9 // 10
    print(f"absent {ours:.2f} s, DuckDB's anti join {duckdbs:.2f} s, ratio {ours / duckdbs:.2f}")
