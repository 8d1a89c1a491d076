"""Rows leave a Delta table on S3."""

from __future__ import annotations

from typing import Any

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from files import table
from stores import KEYS

import parquet_bloom
from parquet_bloom import erase

pytestmark = pytest.mark.servers


def test_a_delta_table(endpoint: str) -> None:
    region = "us-east-1"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=KEYS["key"],
        aws_secret_access_key=KEYS["secret"],
    )
    client.create_bucket(Bucket="erased")
    root = "s3://erased/a table"
    options: dict[str, Any] = {**KEYS, "endpoint_url": endpoint, "client_kwargs": {"region_name": region}}
    theirs = {
        "AWS_ACCESS_KEY_ID": KEYS["key"],
        "AWS_SECRET_ACCESS_KEY": KEYS["secret"],
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": region,
    }
    for first in (0, 20, 40):
        write_deltalake(root, table(20, first), mode="append", storage_options=theirs)
    keys = [3, *range(20, 40)]
    erased = erase(root, "id", keys, table=True, storage_options=options)
    assert (erased.rows_erased, erased.errors, erased.unreferenced) == (21, (), ())
    read = pa.RecordBatchReader.from_stream(DeltaTable(root, storage_options=theirs).scan()).read_all()
    assert sorted(read["id"].to_pylist()) == sorted({*range(60)} - {*keys})
    client.put_object(Bucket="erased", Key="a table/x-erased-0123456789ab.parquet", Body=b"of a run that was killed")
    again = erase(root, "id", keys, table=True, storage_options=options)
    assert [path.rpartition("/")[2] for path in again.unreferenced] == ["x-erased-0123456789ab.parquet"]
    left = parquet_bloom.erased(root, "id", [3], storage_options=options)
    assert {row.place for row in left} == {"version 2"}
    client.delete_object(Bucket="erased", Key="a table/x-erased-0123456789ab.parquet")
    DeltaTable(root, storage_options=theirs).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert parquet_bloom.erased(root, "id", [3], storage_options=options).is_nowhere
    assert f"VACUUM delta.`{root}`" in [
        row.statement for row in parquet_bloom.erase_plan(root, "id", [3], storage_options=options)
    ]
