"""The speed of `prune`, `find` and `lookup` as ratios to other readers' in the same run. Not part of the usual tests:

pytest tests/benchmarks -m benchmark -s -n0

A machine that does other things at the same time may fail them.
"""

import os
import random
import tracemalloc
from pathlib import Path

import chdb
import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from benchmarking import Bench

import parquet_bloom
from parquet_bloom import Cache, col

pytestmark = pytest.mark.benchmark


def test_one_key_takes_no_more_than_duckdb(bench: Bench, lake: Path, present: str) -> None:
    engine = duckdb.connect()
    sql = f"SELECT * FROM parquet_bloom_probe('{lake}/*.parquet', 'id', '{present}')"
    taken = bench.compare(
        "key",
        f"one key, {bench.scaled(400):,} files",
        {
            "`prune`, nothing remembered": lambda: parquet_bloom.prune(lake, col("id") == present, cache=Cache(0)),
            "`prune`, footers remembered": lambda: parquet_bloom.prune(lake, col("id") == present),
        },
        {"DuckDB's parquet_bloom_probe": lambda: engine.execute(sql).fetchall()},
    )
    duck = taken["DuckDB's parquet_bloom_probe"]  # uses all cores
    bench.expect(taken["`prune`, nothing remembered"].processor_ratio(duck), at_most=1)
    bench.expect(taken["`prune`, footers remembered"].ratio(duck), at_most=1.25)


def test_rows_of_one_key_beside_other_readers(bench: Bench, lake: Path, present: str) -> None:
    engine, session = duckdb.connect(), datafusion.SessionContext()
    session.register_parquet("lake", str(lake))
    sql = f"WHERE id = '{present}'"
    condition = col("id") == present
    taken = bench.compare(
        "key",
        "the rows of one key",
        {
            "`find`, nothing remembered": lambda: parquet_bloom.find(lake, condition, cache=Cache(0)).to_arrow(),
            "`find`, footers remembered": lambda: parquet_bloom.find(lake, condition).to_arrow(),
        },
        {
            "DuckDB": lambda: engine.execute(f"SELECT * FROM '{lake}/*.parquet' {sql}").fetchall(),
            "DataFusion": lambda: session.sql(f"SELECT * FROM lake {sql}").collect(),
            "ClickHouse": lambda: chdb.query(f"SELECT * FROM file('{lake}/*.parquet', Parquet) {sql}", "ArrowTable"),
            "Polars": lambda: pl.scan_parquet(f"{lake}/*.parquet").filter(pl.col("id") == present).collect(),
            "pyarrow": lambda: ds.dataset(lake).to_table(filter=ds.field("id") == present),
        },
    )
    bench.expect(taken["`find`, footers remembered"].ratio(taken["DuckDB"]), at_most=1)


def test_an_exact_answer_takes_about_as_long_as_duckdbs(bench: Bench, lake: Path, present: str) -> None:
    engine = duckdb.connect()
    for what, key, groups in (("present", present, 1), ("absent", "a" + "0" * 31, 0)):
        sql = f"SELECT count(*) FROM read_parquet('{lake}/*.parquet') WHERE id = '{key}'"
        condition = col("id") == key
        assert len(parquet_bloom.prune(lake, condition, exact=True).kept_row_groups) == groups
        taken = bench.compare(
            "key",
            f"which row groups have one {what} key",
            {
                "`prune(exact=True)`": lambda condition=condition: parquet_bloom.prune(lake, condition, exact=True),
            },
            {"DuckDB, WHERE id =": lambda sql=sql: engine.execute(sql).fetchall()},
        )
        bench.expect(taken["`prune(exact=True)`"].ratio(taken["DuckDB, WHERE id ="]), at_most=1.5)


def random_keys(count: int) -> pa.Array:
    dice = random.Random(3)
    return pa.array(f"{dice.getrandbits(128):032x}" for _ in range(count))


def test_a_thousand_keys_beat_duckdb(bench: Bench, lake: Path, present: str) -> None:
    keys = [present, *random_keys(999).to_pylist()]
    engine = duckdb.connect()
    sql = f"SELECT * FROM read_parquet('{lake}/*.parquet') WHERE id IN ({', '.join(map(repr, keys))})"
    taken = bench.compare(
        "keys",
        "1,000 random keys",
        {
            "`lookup`, nothing remembered": lambda: parquet_bloom.lookup(lake, "id", keys, cache=Cache(0)).to_arrow(),
            "`lookup`, footers remembered": lambda: parquet_bloom.lookup(lake, "id", keys).to_arrow(),
        },
        {"DuckDB, IN": lambda: engine.execute(sql).fetchall()},
        x=1000,
    )
    bench.expect(taken["`lookup`, footers remembered"].ratio(taken["DuckDB, IN"]), at_most=1 / 15)


@pytest.mark.parametrize(("count", "turns", "at_most"), [(10_000, 7, None), (100_000, 7, 1.5), (1_000_000, 3, None)])
def test_many_keys_beside_a_join(bench: Bench, lake: Path, count: int, turns: int, at_most: float | None) -> None:
    keys = random_keys(count)
    wanted = pa.table({"key": keys})
    engine = duckdb.connect()
    engine.register("wanted", wanted)
    sql = f"SELECT id FROM read_parquet('{lake}/*.parquet') SEMI JOIN wanted ON id = key"
    ours = {
        "`lookup`, nothing remembered": lambda: parquet_bloom.lookup(lake, "id", keys, cache=Cache(0)).to_arrow(),
        "`lookup`, footers remembered": lambda: parquet_bloom.lookup(lake, "id", keys).to_arrow(),
    }
    theirs = {"DuckDB, SEMI JOIN": lambda: engine.execute(sql).fetchall()}
    dataset = {"`lookup(…).to_dataset()`": lambda: parquet_bloom.lookup(lake, "id", keys).to_dataset()}
    taken = bench.compare("keys", f"{count:,} random keys", {**ours, **dataset}, theirs, turns=turns, x=count)
    if at_most is not None:  # of more keys the table in docs/pages/lookup.md says what they take
        for one in ours:
            bench.expect(taken[one].ratio(taken["DuckDB, SEMI JOIN"]), at_most=at_most)


def test_memory_of_many_keys_does_not_grow_with_files(bench: Bench, lake: Path) -> None:
    keys = random_keys(100_000)
    paths = sorted(lake.iterdir())
    peaks = []
    for count in (len(paths) // 4, len(paths)):
        tracemalloc.start()
        for _ in parquet_bloom.lookup(paths[:count], "id", keys, cache=Cache(0)):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        bench.figure("memory", f"`lookup` of 100,000 keys over {count} files", peaks[-1], "bytes")
    bench.expect(peaks[1], at_most=1.2 * peaks[0] + 4e6)  # what is known of 300 files more


def test_cost_of_a_file_is_flat(bench: Bench, lake: Path, present: str, tmp_path: Path) -> None:
    files = bench.scaled(400)
    for copy in range(10):
        for path in lake.iterdir():
            os.link(path, tmp_path / f"{copy}-{path.name}")
    few, many = bench.measure(
        {
            "few": lambda: parquet_bloom.prune(lake, col("id") == present),
            "many": lambda: parquet_bloom.prune(tmp_path, col("id") == present),
        }
    ).values()
    bench.row("file", f"`prune`, for one of {10 * files:,} files", "footers remembered", many.each(10 * files),
              f"one of {files:,}", few.each(files))  # fmt: skip
    bench.expect(many.each(10).ratio(few), at_most=1.5)
