"""Tables on S3."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lakes
import pytest
from deltalake import DeltaTable, write_deltalake
from files import statuses, table
from stores import KEYS, connected

from parquet_bloom.commits import add_to_table
from parquet_bloom.tables import UnknownOutcomeError, snapshot_of
from parquet_bloom.tables.snapshots import delta_options

_numbers = itertools.count()


@pytest.fixture
def options(endpoint: str) -> dict[str, Any]:
    return {**KEYS, "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}


@pytest.fixture
def root(endpoint: str) -> str:
    bucket = f"lake-{next(_numbers)}"
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEYS["key"],
        aws_secret_access_key=KEYS["secret"],
    )
    client.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/a table"


def test_a_delta_table(root: str, options: dict[str, Any], endpoint: str) -> None:
    theirs = {
        "AWS_ACCESS_KEY_ID": KEYS["key"],
        "AWS_SECRET_ACCESS_KEY": KEYS["secret"],
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }
    rows = lakes.odd_rows()
    write_deltalake(root, rows, partition_by=["p"], storage_options=theirs)
    found = snapshot_of(root, storage_options=options)
    assert found is not None
    assert [source.name for source in found.sources(options)] == [file.path for file in found.files]

    added = add_to_table(root, "id", storage_options=options)
    assert set(statuses(added)) == {"written"}
    delta = DeltaTable(root, storage_options=theirs)
    assert delta.version() == 1
    assert sorted(delta.to_pyarrow_table()["id"].to_pylist()) == sorted(rows["id"].to_pylist())
    fs = connected(endpoint)
    for row in added.rows:
        assert fs.cat(row.output).startswith(fs.cat(row.path))

    by_object = add_to_table(delta, "name", storage_options=options)
    assert set(statuses(by_object)) == {"written"}
    assert delta.version() == 2
    assert set(statuses(add_to_table(root, ["id", "name"], storage_options=options))) == {"unchanged"}
    assert snapshot_of(root, as_of=0, storage_options=options).num_rows == len(rows)  # type: ignore[union-attr]


def test_a_delta_commit_whose_answer_is_lost(root: str, options: dict[str, Any], endpoint: str) -> None:
    """The store may yet have it, so the new files stay, and the error names them."""
    theirs = delta_options(options)
    write_deltalake(root, table(20), storage_options=theirs)
    delta = DeltaTable(root, storage_options=theirs)

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError("no answer")

    delta.create_write_transaction = fail
    with pytest.raises(UnknownOutcomeError, match="the store may yet make it version 1") as caught:
        add_to_table(delta, "id", storage_options=options)
    (note,) = caught.value.__notes__
    new = [path for path in connected(endpoint).find(root) if "-bloom-" in path]
    assert len(new) == 1
    assert new[0] in note


def test_an_iceberg_table(root: str, options: dict[str, Any], endpoint: str, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    theirs = {
        "s3.endpoint": endpoint,
        "s3.access-key-id": KEYS["key"],
        "s3.secret-access-key": KEYS["secret"],
        "s3.region": "us-east-1",
    }
    catalog = SqlCatalog("s3", uri=f"sqlite:///{tmp_path}/c.db", warehouse=root.replace(" ", "-"), **theirs)
    try:
        catalog.create_namespace("n")
        made = lakes.partitioned(catalog, lakes.odd_rows())
        before = lakes.iceberg_rows(made)
        found = snapshot_of(made.location(), storage_options=options)
        assert found is not None
        assert found.num_rows == len(before)
        assert len(found.sources(options)) == len(found.files)
        assert set(statuses(add_to_table(made, "id", storage_options=options))) == {"written"}
        assert lakes.iceberg_rows(made) == before
    finally:
        catalog.engine.dispose()
