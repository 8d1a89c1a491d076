"""The speed of `prune` and `lookup` as ratios to DuckDB's in the same run. Not part of the usual tests:

pytest tests/benchmarks -m benchmark -s -n0

A machine that does other things at the same time may fail them.
"""

import importlib.util
import os
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import parquet_bloom

_spec = importlib.util.spec_from_file_location("sample", Path(__file__).with_name("sample.py"))
sample = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sample)

pytestmark = pytest.mark.benchmark

FILES, RUNS = 400, 9


@pytest.fixture(scope="module")
def lake() -> Path:
    return sample.lake(FILES)


@pytest.fixture(scope="module")
def present(lake: Path) -> str:
    file = pq.ParquetFile(sorted(lake.iterdir())[FILES // 2])
    return file.read_row_group(1, columns=["id"])["id"][5000].as_py()


def best(*calls: Callable[[], object]) -> list[float]:
    """Returns the best time of each call; they take turns, and the first turn warms up."""
    times = [[] for _ in calls]
    for turn in range(RUNS + 1):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            if turn:
                taken.append(time.perf_counter() - start)
    return [min(taken) for taken in times]


def line(what: str, *figures: str) -> None:
    print(f"{what:<62}" + "  ".join(f"{figure:>14}" for figure in figures))


def test_one_key_is_no_slower_than_duckdb(lake: Path, present: str) -> None:
    engine = duckdb.connect()
    sql = f"SELECT * FROM parquet_bloom_probe('{lake}/*.parquet', 'id', '{present}')"
    ours, theirs = best(
        lambda: parquet_bloom.prune(lake, parquet_bloom.col("id") == present), lambda: engine.execute(sql).fetchall()
    )
    line("one key, 1,600 row groups: prune, parquet_bloom_probe", f"{ours * 1e3:.1f} ms", f"{theirs * 1e3:.1f} ms")
    assert ours <= theirs


def test_rows_of_one_key_beside_other_readers(lake: Path, present: str) -> None:
    engine = duckdb.connect()
    sql = f"SELECT * FROM '{lake}/*.parquet' WHERE id = '{present}'"
    condition = parquet_bloom.col("id") == present
    ours, cold, theirs, polars, arrow = best(
        lambda: parquet_bloom.find(lake, condition).to_arrow(),
        lambda: parquet_bloom.find(lake, condition, cache=parquet_bloom.Cache(0)).to_arrow(),
        lambda: engine.execute(sql).fetchall(),
        lambda: pl.scan_parquet(f"{lake}/*.parquet").filter(pl.col("id") == present).collect(),
        lambda: ds.dataset(lake).to_table(filter=ds.field("id") == present),
    )
    line("find, one key: footers cached, cold", f"{ours * 1e3:.1f} ms", f"{cold * 1e3:.1f} ms")
    line("DuckDB, Polars, pyarrow", *(f"{time_ * 1e3:.0f} ms" for time_ in (theirs, polars, arrow)))
    line("ratio, cached", *(f"{ours / time_:.2f}" for time_ in (theirs, polars, arrow)))
    assert ours <= theirs


def test_an_exact_answer_takes_about_as_long_as_duckdbs(lake: Path, present: str) -> None:
    engine = duckdb.connect()
    for what, key, groups in (("present", present, 1), ("absent", "a" + "0" * 31, 0)):
        sql = f"SELECT count(*) FROM read_parquet('{lake}/*.parquet') WHERE id = '{key}'"
        condition = parquet_bloom.col("id") == key
        assert len(parquet_bloom.prune(lake, condition, exact=True).kept_row_groups) == groups
        plain, ours, theirs = best(
            lambda condition=condition: parquet_bloom.prune(lake, condition),
            lambda condition=condition: parquet_bloom.prune(lake, condition, exact=True),
            lambda sql=sql: engine.execute(sql).fetchall(),
        )
        figures = (f"{figure * 1e3:.1f} ms" for figure in (plain, ours, theirs))
        line(f"{what} key: prune, prune exactly, WHERE id =", *figures)
        assert ours <= 1.5 * theirs


def medians(runs: int, *calls: Callable[[], object]) -> list[float]:
    """Returns the median time of each call; they take turns, and the first turn warms up."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(runs + 1):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            if turn:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def random_keys(count: int) -> pa.Array:
    dice = random.Random(3)
    return pa.array(f"{dice.getrandbits(128):032x}" for _ in range(count))


def test_a_thousand_keys_beat_duckdb(lake: Path, present: str) -> None:
    keys = [present, *random_keys(999).to_pylist()]
    engine = duckdb.connect()
    sql = f"SELECT * FROM read_parquet('{lake}/*.parquet') WHERE id IN ({', '.join(map(repr, keys))})"
    ours, cold, theirs = medians(
        RUNS,
        lambda: parquet_bloom.lookup(lake, "id", keys).to_arrow(),
        lambda: parquet_bloom.lookup(lake, "id", keys, cache=parquet_bloom.Cache(0)).to_arrow(),
        lambda: engine.execute(sql).fetchall(),
    )
    ratio = theirs / ours
    line(
        "1,000 keys: lookup, without a cache, WHERE id IN",
        *(f"{taken * 1e3:.1f} ms" for taken in (ours, cold, theirs)),
        f"{ratio:.1f}x",
    )
    assert ratio >= 15


@pytest.mark.parametrize(("count", "runs", "at_most"), [(100_000, 7, 1.5), (1_000_000, 3, None)])
def test_many_keys_beside_a_join(lake: Path, count: int, runs: int, at_most: float | None) -> None:
    keys = random_keys(count)
    wanted = pa.table({"key": keys})
    engine = duckdb.connect()
    engine.register("wanted", wanted)
    sql = f"SELECT id FROM read_parquet('{lake}/*.parquet') SEMI JOIN wanted ON id = key"
    ours, cold, dataset, theirs = medians(
        runs,
        lambda: parquet_bloom.lookup(lake, "id", keys).to_arrow(),
        lambda: parquet_bloom.lookup(lake, "id", keys, cache=parquet_bloom.Cache(0)).to_arrow(),
        lambda: parquet_bloom.lookup(lake, "id", keys).to_dataset(),
        lambda: engine.execute(sql).fetchall(),
    )
    line(
        f"{count:,} keys: lookup, without a cache, dataset, SEMI JOIN",
        *(f"{taken * 1e3:.0f} ms" for taken in (ours, cold, dataset, theirs)),
        f"{ours / theirs:.2f}x",
    )
    if at_most is not None:  # of more keys the table in docs/pages/lookup.md says what they take
        assert ours <= at_most * theirs
        assert cold <= at_most * theirs


def test_memory_of_many_keys_does_not_grow_with_files(lake: Path, tmp_path: Path) -> None:
    keys = random_keys(100_000)
    paths = sorted(lake.iterdir())
    peaks = []
    for count in (100, 400):
        tracemalloc.start()
        for _ in parquet_bloom.lookup(paths[:count], "id", keys, cache=parquet_bloom.Cache(0)):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    line("100,000 keys: peak over 100 files, over 400 files", *(f"{peak / 1e6:.0f} MB" for peak in peaks))
    assert peaks[1] < 1.2 * peaks[0] + 4e6  # what is known of 300 files more


def test_cost_of_a_file_is_flat(lake: Path, present: str, tmp_path: Path) -> None:
    for copy in range(10):
        for path in lake.iterdir():
            os.link(path, tmp_path / f"{copy}-{path.name}")
    few, many = best(
        lambda: parquet_bloom.prune(lake, parquet_bloom.col("id") == present),
        lambda: parquet_bloom.prune(tmp_path, parquet_bloom.col("id") == present),
    )
    per_file = [few / FILES, many / (10 * FILES)]
    line("prune, cost of a file: of 400, of 4,000", *(f"{cost * 1e6:.0f} us" for cost in per_file))
    assert per_file[1] < 1.5 * per_file[0]
