"""Tables on S3."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lakes
import pytest
from deltalake import DeltaTable, write_deltalake
from files import statuses, table, unpacked
from stores import KEYS, connected

from parquet_bloom import ConcurrentChangeError, UnsupportedError, add
from parquet_bloom.storage.folder import Folder
from parquet_bloom.tables import Swap, UnknownOutcomeError, open_table, snapshot_of
from parquet_bloom.tables.snapshots import delta_options

pytestmark = pytest.mark.servers

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

    added = add(root, "id", table=True, storage_options=options)
    assert set(statuses(added)) == {"written"}
    delta = DeltaTable(root, storage_options=theirs)
    assert delta.version() == 1
    assert sorted(delta.to_pyarrow_table()["id"].to_pylist()) == sorted(rows["id"].to_pylist())
    fs = connected(endpoint)
    for row in added.rows:
        assert fs.cat(row.output).startswith(fs.cat(row.path))

    by_object = add(delta, "name", table=True, storage_options=options)
    assert set(statuses(by_object)) == {"written"}
    assert delta.version() == 2
    assert set(statuses(add(root, ["id", "name"], table=True, storage_options=options))) == {"unchanged"}
    assert snapshot_of(root, as_of=0, storage_options=options).num_rows == len(rows)  # type: ignore[union-attr]


def test_a_version_that_is_written_to_the_log_here(
    root: str, options: dict[str, Any], endpoint: str, tmp_path: Path
) -> None:
    """Of a table with features that deltalake lacks; and never over another writer's version."""
    fs = connected(endpoint)
    local = unpacked("delta_spark/in_commit", tmp_path)
    fs.put(f"{local}/", f"{root}/", recursive=True)
    before = sorted(fs.find(root))
    assert set(statuses(add(root, "id", table=True, dry_run=True, storage_options=options))) == {"planned"}
    assert sorted(fs.find(root)) == before
    assert set(statuses(add(root, "id", table=True, batch=1, storage_options=options))) == {"written"}
    fs.invalidate_cache()
    commits = [json.loads(fs.cat(f"{root}/_delta_log/{version:020}.json").split(b"\n")[0]) for version in range(5)]
    times = [commit["commitInfo"]["inCommitTimestamp"] for commit in commits]
    assert times == sorted(set(times))
    assert not [path for path in fs.find(root) if "tmp" in path]
    assert DeltaTable(root, storage_options=delta_options(options)).count() == 3
    as_of = datetime.fromtimestamp(times[3] / 1000, UTC).isoformat(timespec="milliseconds")
    assert snapshot_of(root, as_of=as_of, storage_options=options).version == 3  # type: ignore[union-attr]

    opened = open_table(root, storage_options=options)
    fs.pipe(f"{root}/_delta_log/{5:020}.json", b'{"commitInfo":{"inCommitTimestamp":4102444800000}}\n')
    old = opened.snapshot.files[0]
    with pytest.raises(ConcurrentChangeError, match="another writer committed version 5"):
        opened.commit([Swap(old, f"{old.path}-new.parquet", old.size, old.num_rows or 0)])
    assert fs.cat(f"{root}/_delta_log/{5:020}.json") == b'{"commitInfo":{"inCommitTimestamp":4102444800000}}\n'


def test_a_store_that_ignores_conditions_is_refused(root: str, options: dict[str, Any], endpoint: str) -> None:
    folder = Folder(root.replace(" ", "-"), storage_options=options)
    folder.require_exclusive()
    call = folder.fs.call_s3

    def without_condition(method: str, **arguments: Any) -> Any:
        arguments.pop("IfNoneMatch", None)
        return call(method, **arguments)

    folder.fs.call_s3 = without_condition
    try:
        with pytest.raises(UnsupportedError, match="a store that overwrites a file although it was told not to"):
            folder.require_exclusive()
    finally:
        del folder.fs.call_s3
    assert folder.names() == []


def test_a_delta_commit_whose_answer_is_lost(root: str, options: dict[str, Any], endpoint: str) -> None:
    """The store may still publish it, so the new files stay, and the error names them."""
    theirs = delta_options(options)
    write_deltalake(root, table(20), storage_options=theirs)
    delta = DeltaTable(root, storage_options=theirs)

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError("no answer")

    delta.create_write_transaction = fail
    with pytest.raises(UnknownOutcomeError, match="the store may still publish it as version 1") as caught:
        add(delta, "id", table=True, storage_options=options)
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
        found = snapshot_of(made.metadata_location, storage_options=options)
        assert found is not None
        assert found.num_rows == len(before)
        assert len(found.sources(options)) == len(found.files)
        assert set(statuses(add(made, "id", table=True, storage_options=options))) == {"written"}
        assert lakes.iceberg_rows(made) == before
    finally:
        catalog.engine.dispose()
