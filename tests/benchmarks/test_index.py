"""The speed of `prune` with an index, as a ratio to that without, in the same run. Not part of the usual tests:

pytest tests/benchmarks/test_index.py -m benchmark -s -n0

Processor time is compared, so that other work on the machine counts for little.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import benchmark_files
import many_files
import pyarrow.parquet as pq
import pytest
from benchmarking import Bench, Taken
from files import index_folder

import parquet_bloom
from parquet_bloom.storage.drive import RequestLog
from parquet_bloom.storage.listing import MTIME_STABLE_SECONDS, find
from parquet_bloom.verbs import index

pytestmark = pytest.mark.benchmark

COPIES = 25


@pytest.fixture(scope="module")
def linked(lake: Path) -> Iterator[Path]:
    """10,000 files of four row groups with filters of their own: 400, linked again and again."""
    source = lake
    folder = source.parent / f"linked-{os.getpid()}"
    folder.mkdir()
    try:
        for copy in range(COPIES):
            for path in source.glob("*.parquet"):
                os.link(path, folder / f"{copy:02}-{path.name}")
        time.sleep(MTIME_STABLE_SECONDS + 0.1)
        yield folder
    finally:
        for path in (*index_folder(folder).glob("*"), *folder.glob("*.parquet")):
            path.unlink()
        index_folder(folder).rmdir()
        folder.rmdir()


def test_one_key_over_ten_thousand_files(bench: Bench, linked: Path) -> None:
    lake, files = linked, COPIES * bench.scaled(400)
    first = min(lake.iterdir())
    present = pq.ParquetFile(first).read_row_group(1, columns=["id"])["id"][5000].as_py()
    where = parquet_bloom.col("id") == present
    cache = parquet_bloom.Cache(4 << 30)

    def prune() -> Taken:
        return bench.measure({"": lambda: parquet_bloom.prune(lake, where, cache=cache)}, turns=5)[""]

    without = prune()
    log = RequestLog()
    parquet_bloom.prune(lake, where, cache=parquet_bloom.Cache(0), log=log)
    start = time.perf_counter()
    state = index.create(lake, "id")
    bench.figure("index", f"`index create`, {files:,} files with filters", time.perf_counter() - start, "seconds")
    bench.figure("index", f"size of the index, {files:,} files", state.num_bytes, "bytes")
    time.sleep(MTIME_STABLE_SECONDS + 0.1)
    with_index = prune()
    work = f"`prune`, {files:,} files, footers and index in memory"
    bench.row("index", work, "with an index", with_index, "without one", without)
    indexed = RequestLog()
    result = parquet_bloom.prune(lake, where, cache=parquet_bloom.Cache(0), log=indexed)
    assert str(first) in [file.path for file in result.kept_files]
    for name, requests in (("without an index", log), ("with an index", indexed)):
        bench.figure(
            "index", f"`prune`, {files:,} files, nothing in memory, {name}", len(requests.requests), "requests"
        )
        bench.figure("index", f"`prune`, {files:,} files, nothing in memory, {name}", requests.num_bytes, "bytes")
    bench.expect(with_index.processor_ratio(without), at_most=1 / 3)


# ---- very many files -------------------------------------------------------------------------

COUNTS = [int(count) for count in os.environ.get("PARQUET_BLOOM_BENCHMARK_FILES", "4000 100000").split()]
"""A million takes a quarter of an hour, nearly all of it to make the files' names and the index."""

WORK = {
    "python alone": "pass",
    "and the listing": "from parquet_bloom.storage.listing import find; find(root, all_rows=True)",
    "and prune": (
        "sys.argv = ['parquet-bloom', 'prune', root, '--where', 'id = 12345', '--files-only', '--quiet']\n"
        "from parquet_bloom.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 1, end.code"
    ),
}


def in_a_process(work: str, root: Path) -> tuple[float, float, int]:
    """Returns the seconds that a fresh process takes, its processor time, and the most memory that it had in bytes."""
    program = (
        f"import json, re, sys, time\nroot = {str(root)!r}\n{work}\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
        "print(json.dumps([time.process_time(), 1024 * int(peak)]))"
    )
    start = time.perf_counter()
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    taken = time.perf_counter() - start
    processor, peak = json.loads(said.splitlines()[-1])
    return taken, processor, peak


@pytest.mark.parametrize("count", COUNTS)
def test_an_absent_key_over_very_many_files(bench: Bench, count: int) -> None:
    count = bench.scaled(count)
    root = benchmark_files.folder() / f"many-{count}"
    if not index_folder(root).exists():
        many_files.on_disk(root, count)
        time.sleep(MTIME_STABLE_SECONDS + 0.1)
        many_files.index_id(str(root), find(str(root)))
    for what, work in WORK.items():
        runs = [in_a_process(work, root) for _ in range(3)]
        seconds, processor, peaks = zip(*runs, strict=True)
        work = f"one absent key, {count:,} files, a fresh process"
        bench.row("index", work, what, Taken(seconds, processor))
        bench.figure("index", f"{work}: {what}, memory", min(peaks), "bytes")
    log = RequestLog()
    assert not parquet_bloom.prune(root, "id = 12345", cache=parquet_bloom.Cache(0), log=log).kept_files
    bench.figure("index", f"one absent key, {count:,} files", len(log.requests), "requests")
    bench.figure("index", f"one absent key, {count:,} files, read of the index", log.num_bytes, "bytes")
    assert log.num_bytes < 90 * count


@pytest.mark.parametrize("count", [count for count in COUNTS if count <= 100_000])
def test_an_absent_key_over_very_many_files_in_a_store(bench: Bench, count: int) -> None:
    count = bench.scaled(count)
    store = many_files.in_store(count)
    many_files.index_id("lake", find("lake", filesystem=store), filesystem=store)
    start = store.clock
    find("lake", filesystem=store, all_rows=True)
    listing = store.clock - start
    requests, start, log = store.requests, store.clock, RequestLog()
    assert not parquet_bloom.prune("lake", "id = 12345", filesystem=store, cache=parquet_bloom.Cache(0), log=log).paths
    rounds = round((store.clock - start - listing) / 0.05)
    work = f"one absent key, {count:,} files in a store, 50 ms a request"
    bench.figure("index", f"{work}: listing", listing, "seconds")
    bench.figure("index", f"{work}: the index", rounds, "rounds of requests")
    bench.figure("index", f"{work}: all", store.requests - requests, "requests")
    assert rounds <= 4  # whether it is a table, the index's folder, its version, and all that is needed of it
