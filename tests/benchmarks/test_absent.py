"""The speed of `absent` beside DuckDB's anti join, and beside what pyiceberg does before an upsert.

Not part of the usual tests:

pytest tests/benchmarks/test_absent.py -m benchmark -s -n0

Processor time is compared, so that other work on the machine counts for little.
"""

import importlib.util
import resource
import time
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


def keys_for(files: list[Path], count: int = KEYS) -> pa.Table:
    """Returns keys of which nine of ten are nowhere."""
    each = -(-count // 10 // len(files))
    there = [pq.read_table(path, columns=["id"])["id"].combine_chunks().slice(0, each) for path in files]
    there = pa.concat_arrays(there)[: count // 10]
    keys = pa.concat_arrays([sample.random_ids(np.random.default_rng(77), count - len(there)), there])
    return pa.table({"id": keys.take(pa.array(np.random.default_rng(78).permutation(count)))})


def test_a_million_keys_of_which_most_are_nowhere() -> None:
    lake = sample.lake(FILES)
    keys = keys_for(sorted(lake.glob("*.parquet")))
    ours, found = least(lambda: parquet_bloom.absent(lake, "id", keys))
    connection = duckdb.connect().register("keys", keys)
    query = f"SELECT id FROM keys ANTI JOIN '{lake}/*.parquet' f USING (id)"
    duckdbs, expected = least(lambda: connection.sql(query).to_arrow_table())
    assert len(found) == len(expected) == KEYS * 9 // 10
    print(f"absent {ours:.2f} s, DuckDB's anti join {duckdbs:.2f} s, ratio {ours / duckdbs:.2f}")


def new_by_pyiceberg(table: Any, rows: pa.Table) -> pa.Table:
    """Returns the rows that `Table.upsert` would append, found as it does."""
    from pyiceberg.expressions.visitors import bind
    from pyiceberg.io.pyarrow import expression_to_pyarrow
    from pyiceberg.table import upsert_util

    new = rows
    for batch in table.scan(row_filter=upsert_util.create_match_filter(rows, ["id"])).to_arrow_batch_reader():
        found = pa.Table.from_batches([batch])
        upsert_util.get_rows_to_update(rows, found, ["id"])
        matching = bind(table.schema(), upsert_util.create_match_filter(found, ["id"]), True)
        new = new.filter(~expression_to_pyarrow(matching))
    return new


MOST_SECONDS = 180
"""pyiceberg is not tried with more keys where the time for ten times as many is likely to be longer."""


def test_what_an_upsert_into_an_iceberg_table_has_to_find_out(tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    files = sorted(sample.lake(FILES).glob("*.parquet"))
    catalog = SqlCatalog("benchmark", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.lake", pq.read_schema(files[0]))
    table.add_files([f"file://{path}" for path in files])
    seconds = 0.0
    for count in (1_000, 10_000, 100_000, KEYS):
        keys = keys_for(files, count)
        start = time.process_time()
        found = parquet_bloom.absent(table, "id", keys, allow_outside=True)
        ours, theirs = time.process_time() - start, "not tried"
        assert len(found) == count * 9 // 10
        if 10 * seconds <= MOST_SECONDS:
            start = time.process_time()
            new = new_by_pyiceberg(table, keys)
            seconds = time.process_time() - start
            assert len(new) == count * 9 // 10
            theirs = f"{seconds:.1f} s, ratio {ours / seconds:.3f}"
        print(f"{count:>9,} keys: absent {ours:.2f} s, pyiceberg's planning {theirs}")
