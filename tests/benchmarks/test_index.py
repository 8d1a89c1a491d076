"""The speed of `prune` with an index, as a ratio to that without, in the same run. Not part of the usual tests:

pytest tests/benchmarks/test_index.py -m benchmark -s -n0

Processor time is compared, so that other work on the machine counts for little.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import many_files
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.storage.drive import RequestLog
from parquet_bloom.storage.listing import MTIME_STABLE_SECONDS, find
from parquet_bloom.verbs import index

_spec = importlib.util.spec_from_file_location("sample", Path(__file__).with_name("sample.py"))
sample = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sample)

pytestmark = pytest.mark.benchmark

FILES, COPIES, RUNS = 400, 25, 5


@pytest.fixture(scope="module")
def lake() -> Iterator[Path]:
    """10,000 files of four row groups with filters of their own: 400, linked again and again."""
    source = sample.lake(FILES)
    folder = source.parent / f"linked-{os.getpid()}"
    folder.mkdir()
    try:
        for copy in range(COPIES):
            for path in source.glob("*.parquet"):
                os.link(path, folder / f"{copy:02}-{path.name}")
        time.sleep(MTIME_STABLE_SECONDS + 0.1)
        yield folder
    finally:
        for path in (*folder.glob("_bloom_index/*"), *folder.glob("*.parquet")):
            path.unlink()
        (folder / "_bloom_index").rmdir()
        folder.rmdir()


def least(call: Callable[[], object]) -> float:
    """Returns the least processor time of some calls, of which the first warms up."""
    times = []
    for _ in range(RUNS + 1):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times[1:])


def line(what: str, *figures: str) -> None:
    print(f"{what:<62}" + "  ".join(f"{figure:>14}" for figure in figures))


def test_one_key_over_ten_thousand_files(lake: Path) -> None:
    first = min(lake.iterdir())
    present = pq.ParquetFile(first).read_row_group(1, columns=["id"])["id"][5000].as_py()
    where = parquet_bloom.col("id") == present
    cache = parquet_bloom.Cache(4 << 30)
    without = least(lambda: parquet_bloom.prune(lake, where, cache=cache))
    log = RequestLog()
    parquet_bloom.prune(lake, where, cache=parquet_bloom.Cache(0), log=log)
    start = time.perf_counter()
    state = index.create(lake, "id")
    line(
        "index.create, 10,000 files with filters",
        f"{time.perf_counter() - start:.1f} s",
        f"{state.num_bytes / 1e6:.0f} MB",
    )
    time.sleep(MTIME_STABLE_SECONDS + 0.1)
    with_index = least(lambda: parquet_bloom.prune(lake, where, cache=cache))
    line("prune, footers and index in memory: without, with", f"{without * 1e3:.0f} ms", f"{with_index * 1e3:.0f} ms")
    line("", f"{without / with_index:.1f}x")
    indexed = RequestLog()
    result = parquet_bloom.prune(lake, where, cache=parquet_bloom.Cache(0), log=indexed)
    assert str(first) in [file.path for file in result.kept_files]
    line("requests, nothing in memory: without, with", f"{len(log.requests):,}", f"{len(indexed.requests):,}")
    line("bytes, nothing in memory: without, with", f"{log.num_bytes:,}", f"{indexed.num_bytes:,}")
    assert without >= 5 * with_index


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
def test_an_absent_key_over_very_many_files(count: int) -> None:
    root = sample.folder() / f"many-{count}"
    if not (root / "_bloom_index").exists():
        many_files.on_disk(root, count)
        time.sleep(MTIME_STABLE_SECONDS + 0.1)
        many_files.index_id(str(root), find(str(root)))
    for what, work in WORK.items():
        runs = [in_a_process(work, root) for _ in range(3)]
        taken, processor, peak = (min(values) for values in zip(*runs, strict=True))
        line(
            f"one absent key, {count:,} files, {what}",
            f"{taken:.2f} s",
            f"cpu {processor:.2f} s",
            f"{peak / 1e6:.0f} MB",
        )
    log = RequestLog()
    assert not parquet_bloom.prune(root, "id = 12345", cache=parquet_bloom.Cache(0), log=log).kept_files
    line("", f"{len(log.requests)} requests", f"{log.num_bytes / 1e6:.1f} MB")
    assert log.num_bytes < 90 * count


@pytest.mark.parametrize("count", [count for count in COUNTS if count <= 100_000])
def test_an_absent_key_over_very_many_files_in_a_store(count: int) -> None:
    store = many_files.in_store(count)
    many_files.index_id("lake", find("lake", filesystem=store), filesystem=store)
    start = store.clock
    find("lake", filesystem=store, all_rows=True)
    listing = store.clock - start
    requests, start, log = store.requests, store.clock, RequestLog()
    assert not parquet_bloom.prune("lake", "id = 12345", filesystem=store, cache=parquet_bloom.Cache(0), log=log).paths
    rounds = round((store.clock - start - listing) / 0.05)
    line(
        f"one absent key, {count:,} files, 50 ms a request",
        f"listing {listing:.2f} s",
        f"{rounds} rounds more",
        f"{store.requests - requests:,} requests",
    )
    assert rounds <= 4  # whether it is a table, the index's folder, its version, and all that is needed of it
