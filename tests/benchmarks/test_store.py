"""The rows of one key in a store that takes 50 ms for each request, beside other readers. Not part of the usual tests:

pytest tests/benchmarks/test_store.py -m benchmark -s -n0
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow.dataset as ds
import pytest
from benchmarking import Bench
from pyarrow.fs import S3FileSystem

import parquet_bloom

pytestmark = pytest.mark.benchmark

SECONDS = 0.05


@pytest.fixture(scope="module")
def port(lake: Path) -> Iterator[int]:
    command = [sys.executable, Path(__file__).with_name("slow_s3.py"), lake, str(SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield int(server.stdout.readline())
        finally:
            server.terminate()


def test_rows_of_one_key_in_a_slow_store(bench: Bench, present: str, port: int) -> None:
    key = present
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

    def find(cache: parquet_bloom.Cache) -> None:
        condition = parquet_bloom.col("id") == key
        found = parquet_bloom.find("s3://lake", condition, storage_options=ours, cache=cache).to_arrow()
        assert found.num_rows == 1

    def polars() -> None:
        lake = pl.scan_parquet("s3://lake/*.parquet", storage_options=theirs)
        assert lake.filter(pl.col("id") == key).collect().height == 1

    def pyarrow() -> None:
        assert ds.dataset("lake", filesystem=arrow).to_table(filter=ds.field("id") == key).num_rows == 1

    shared = parquet_bloom.Cache()
    bench.compare(
        "store",
        f"the rows of one key, {bench.scaled(400):,} files",
        {
            "`find`, nothing remembered": lambda: find(parquet_bloom.Cache(0)),
            "`find`, footers remembered": lambda: find(shared),
        },
        {"Polars": polars, "pyarrow": pyarrow},
        turns=3,
    )
