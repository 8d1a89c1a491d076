"""The rows of one key in a store that takes 50 ms for each request, beside other readers. Not part of the usual tests:

pytest tests/benchmarks/test_store.py -m benchmark -s -n0
"""

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import S3FileSystem

import parquet_bloom

_spec = importlib.util.spec_from_file_location("sample", Path(__file__).with_name("sample.py"))
sample = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sample)

pytestmark = pytest.mark.benchmark

FILES, SECONDS, RUNS = 400, 0.05, 3


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    command = [sys.executable, Path(__file__).with_name("slow_s3.py"), sample.lake(FILES), str(SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


def least(call: Callable[[], int]) -> float:
    """Returns the least time of some calls, each of which finds the one row."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        assert call() == 1
        times.append(time.perf_counter() - start)
    return min(times)


def test_rows_of_one_key_in_a_slow_store(port: int) -> None:
    file = pq.ParquetFile(sorted(sample.lake(FILES).iterdir())[FILES // 2])
    key = file.read_row_group(1, columns=["id"])["id"][5000].as_py()
    url = f"http://127.0.0.1:{port}"
    ours = {"key": "a", "secret": "b", "client_kwargs": {"endpoint_url": url, "region_name": "us-east-1"}}
    theirs = {
        "aws_endpoint_url": url,
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }
    arrow = S3FileSystem(
        access_key="a", secret_key="b", endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1"
    )

    def find(cache: parquet_bloom.Cache) -> int:
        condition = parquet_bloom.col("id") == key
        return parquet_bloom.find("s3://lake", condition, storage_options=ours, cache=cache).to_arrow().num_rows

    shared = parquet_bloom.Cache()
    find(shared)
    calls = {
        "find, nothing remembered": lambda: find(parquet_bloom.Cache(0)),
        "find, footers remembered": lambda: find(shared),
        "Polars": lambda: pl.scan_parquet("s3://lake/*.parquet", storage_options=theirs).filter(pl.col("id") == key)
        .collect().height,
        "pyarrow": lambda: ds.dataset("lake", filesystem=arrow).to_table(filter=ds.field("id") == key).num_rows,
    }  # fmt: skip
    for name, call in calls.items():
        print(f"{name:<26}{least(call):6.2f} s")
