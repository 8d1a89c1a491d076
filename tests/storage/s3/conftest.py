"""An S3 for these tests, and another user of it."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stores import KEYS, Calls, connected

_numbers = itertools.count()


@pytest.fixture
def fs(endpoint: str) -> Any:
    return connected(endpoint)


@pytest.fixture
def calls(fs: Any) -> Calls:
    return Calls(fs)


@pytest.fixture
def other(endpoint: str) -> Any:
    """Another user of the store, who shares nothing with the one under test."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEYS["key"],
        aws_secret_access_key=KEYS["secret"],
    )


@pytest.fixture
def bucket(other: Any) -> str:
    name = f"bucket-{next(_numbers)}"
    other.create_bucket(Bucket=name)
    return name


@pytest.fixture(scope="session")
def blobs() -> dict[str, bytes]:
    """Two files: one below the least size of a part, and one above it."""
    return {"small": blob(200_000), "large": blob(6 * 1024 * 1024)}


def blob(num_bytes: int, first: int = 0) -> bytes:
    """Returns a file of a little more than so many bytes, with four row groups of 500 ids."""
    payload = num_bytes // 2000
    noise = np.random.default_rng(first).bytes(2000 * payload)
    table = pa.table(
        {
            "id": np.arange(first, first + 2000) * 3,
            "payload": [noise[i * payload : (i + 1) * payload] for i in range(2000)],
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=500, compression="none", use_dictionary=False)
    return buffer.getvalue()
