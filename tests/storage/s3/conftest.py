"""An S3 for these tests, and another user of it."""

from __future__ import annotations

import itertools
from typing import Any

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
