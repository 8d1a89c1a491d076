"""The speed of `prune` with an index, as a ratio to that without, in the same run. Not part of the usual tests:

pytest tests/benchmarks/test_index.py -m benchmark -s -n0

Processor time is compared, so that other work on the machine counts for little.
"""

import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.storage.drive import RequestLog
from parquet_bloom.storage.listing import MTIME_STABLE_SECONDS
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
