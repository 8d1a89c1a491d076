"""An S3 for these tests: moto in a process of its own, which ends with them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest
from stores import KEYS, Calls, missing_for_s3, moto

_numbers = itertools.count()


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    if reason := missing_for_s3():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with moto() as url:
        yield url


def connected(url: str) -> Any:
    from s3fs import S3FileSystem

    return S3FileSystem(**KEYS, endpoint_url=url, client_kwargs={"region_name": "us-east-1"}, skip_instance_cache=True)


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
