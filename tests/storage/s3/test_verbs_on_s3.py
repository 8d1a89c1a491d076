"""Every verb on S3, what it asks of the store, and objects that are replaced while they are read."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import statuses
from stores import KEYS, Calls, Filter, connected, counting_proxy, laid_out

from parquet_bloom import CANNOT_MATCH, MIGHT_MATCH, add, drop, erase, inspect, lookup, probe, prune, verify
from parquet_bloom.errors import ConcurrentChangeError
from parquet_bloom.storage import s3
from parquet_bloom.storage.cache import Cache
from parquet_bloom.storage.drive import Limits
from parquet_bloom.storage.listing import find

pytestmark = pytest.mark.servers

MIB = 1024 * 1024


@pytest.fixture(params=["small", "large"])
def old(request: pytest.FixtureRequest, blobs: dict[str, bytes], bucket: str, other: Any) -> bytes:
    """An object `x.parquet`: one below the least size of a part, and one above it."""
    data = blobs[request.param]
    other.put_object(Bucket=bucket, Key="d/x.parquet", Body=data)
    return data


def content(other: Any, bucket: str, key: str = "d/x.parquet") -> bytes:
    data: bytes = other.get_object(Bucket=bucket, Key=key)["Body"].read()
    return data


def test_every_verb_by_url(endpoint: str, bucket: str, other: Any, old: bytes) -> None:
    url = f"s3://{bucket}/d/x.parquet"
    options = {"storage_options": {**KEYS, "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}}
    (row,) = add(url, "id", **options).rows
    new = content(other, bucket)
    assert (row.status, row.error, row.size + row.bytes_added) == ("written", None, len(new))
    assert new[: len(old)] == old

    assert [f.problem for f in inspect(url, **options).rows] == [None] * 4
    assert {row.verdict for row in verify(url, **options).rows} == {"ok"}
    assert [row.answer for row in probe(url, "id", [3, 4], **options).rows[:2]] == [MIGHT_MATCH, CANNOT_MATCH]
    result = prune(f"s3://{bucket}/d", "id IN (3, 4, 4501)", **options)
    assert [(group.path, group.row_group) for group in result.kept_row_groups] == [(url, 0)]
    found = lookup(f"s3://{bucket}/d/*.parquet", "id", [3, 4, 4500], **options).to_arrow().to_pylist()
    assert [(row["key"], row["path"], row["row_group"]) for row in found] == [
        (3, url, 0),
        (4500, url, 3),
        (4, None, None),
    ]

    assert statuses(drop(url, **options)) == ["written"]
    assert content(other, bucket)[: len(new)] == new
    assert inspect(url, **options).rows == ()
    assert statuses(drop(url, restore=True, **options)) == ["written"]
    assert content(other, bucket) == old


def test_a_multipart_object_is_read_and_rewritten_again(
    fs: Any, bucket: str, other: Any, blobs: dict[str, bytes]
) -> None:
    other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["large"])
    url = f"{bucket}/x.parquet"
    assert statuses(add(url, "id", filesystem=fs)) == ["written"]
    assert other.head_object(Bucket=bucket, Key="x.parquet")["ETag"].endswith('-2"')
    (source,) = find(url, filesystem=fs)
    assert source.version.endswith("-2")
    assert statuses(add(url, "id", replace=True, filesystem=fs)) == ["written"]
    assert not prune(url, "id = 4", filesystem=fs).kept_files
    assert {row.verdict for row in verify(url, filesystem=fs).rows} == {"ok"}


def test_a_copy_leaves_the_object(fs: Any, bucket: str, other: Any, old: bytes) -> None:
    url = f"s3://{bucket}/d/x.parquet"
    assert statuses(add(url, "id", output=f"s3://{bucket}/out/y.parquet", filesystem=fs)) == ["written"]
    assert content(other, bucket) == old
    assert content(other, bucket, "out/y.parquet")[: len(old)] == old
    assert {row.verdict for row in verify(f"s3://{bucket}/out", filesystem=fs).rows} == {"ok"}


def test_a_table_is_recognised(fs: Any, bucket: str, other: Any, old: bytes) -> None:
    other.put_object(Bucket=bucket, Key="d/_delta_log/0.json", Body=b"{}")
    (row,) = add(f"{bucket}/d/x.parquet", "id", filesystem=fs).rows
    assert "is a Delta table" in row.error
    assert content(other, bucket) == old


# ---- reading -----------------------------------------------------------------------------


def test_reads_are_bound_to_the_version_that_was_listed(fs: Any, calls: Calls, bucket: str, other: Any) -> None:
    data = laid_out(Filter(MIB - 300_000, 4096), size=MIB)
    etag = other.put_object(Bucket=bucket, Key="d/x.parquet", Body=data)["ETag"]
    assert not prune(f"{bucket}/d", "id = 7", filesystem=fs, cache=Cache(0)).kept_files
    reads = [headers for name, headers in calls.headers if name == "GetObject"]
    assert [(read["Range"], read["If-Match"]) for read in reads] == [
        ("bytes=983040-1048575", etag),
        ("bytes=748576-752687", etag),
    ]


def test_a_store_that_ignores_the_condition_does_not_mix_versions(fs: Any, bucket: str, other: Any) -> None:
    def ignore(params: dict[str, Any], **_: Any) -> None:
        params["headers"].pop("If-Match")

    etag = other.put_object(Bucket=bucket, Key="x", Body=b"old")["ETag"].strip('"')
    asked = [(f"{bucket}/x", 0, 3, etag)]
    assert s3.fetch(fs, asked, in_flight=1) == [b"old"]
    fs._s3.meta.events.register("before-call.s3.GetObject", ignore)
    assert s3.fetch(fs, asked, in_flight=1) == [b"old"]
    other.put_object(Bucket=bucket, Key="x", Body=b"new")
    (answer,) = s3.fetch(fs, asked, in_flight=1)
    assert isinstance(answer, ConcurrentChangeError)


@pytest.mark.parametrize("at", [1, 2])
def test_an_object_that_is_replaced_while_it_is_read_is_kept_whole(
    fs: Any, calls: Calls, bucket: str, other: Any, at: int
) -> None:
    without = laid_out(Filter(MIB - 300_000, 4096), size=MIB)
    with_key = laid_out(Filter(MIB - 300_000, 4096, keys=(7,)), size=MIB)

    def meddle(number: int, name: str) -> None:
        if name == "GetObject" and calls.names.count("GetObject") == at:
            other.put_object(Bucket=bucket, Key="x.parquet", Body=with_key)

    calls.meddle = meddle
    for verb, arguments in ((prune, ("id = 7",)), (lookup, ("id", [7]))):
        other.put_object(Bucket=bucket, Key="x.parquet", Body=without)
        calls.names.clear()
        result = verb(f"{bucket}/x.parquet", *arguments, filesystem=fs, cache=Cache(0))
        reason = result.kept_files[0].not_pruned if verb is prune else result.to_arrow()["reason"][0].as_py()
        assert "changed while it was read" in reason


def test_columns_are_read_of_the_version_that_was_listed(fs: Any, calls: Calls, bucket: str, other: Any) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(range(0, 200_000, 2), pa.int64())}), sink, use_dictionary=False)
    for key in ("d/1.parquet", "d/2.parquet"):
        other.put_object(Bucket=bucket, Key=key, Body=sink.getvalue())
    for wanted, kept in ((5000, 2), (5001, 0)):
        assert len(prune(f"{bucket}/d", f"n = {wanted}", filesystem=fs, exact=True).kept_files) == kept

    def meddle(number: int, name: str) -> None:
        if name == "GetObject" and calls.names.count("GetObject") == 3:  # after both footers
            other.put_object(Bucket=bucket, Key="d/1.parquet", Body=sink.getvalue()[::-1])
            other.put_object(Bucket=bucket, Key="d/2.parquet", Body=sink.getvalue()[::-1])

    calls.names.clear()
    calls.meddle = meddle
    (row, *_) = prune(f"{bucket}/d", "n = 5001", filesystem=fs, exact=True, cache=Cache(0)).errors
    assert "changed while it was read" in row.not_pruned


def test_an_object_that_vanished_is_kept(fs: Any, calls: Calls, bucket: str, other: Any) -> None:
    other.put_object(Bucket=bucket, Key="x.parquet", Body=laid_out(size=MIB))

    def meddle(number: int, name: str) -> None:
        if name == "GetObject":
            other.delete_object(Bucket=bucket, Key="x.parquet")

    calls.meddle = meddle
    (file,) = prune(f"{bucket}/x.parquet", "id = 7", filesystem=fs).kept_files
    assert file.not_pruned
    assert calls.names.count("GetObject") == 1


def test_what_was_listed_before_is_listed_again(fs: Any, bucket: str, other: Any) -> None:
    url, cache = f"{bucket}/d/x.parquet", Cache()
    for has_key in (False, True):
        keys = (7,) if has_key else ()
        other.put_object(Bucket=bucket, Key="d/x.parquet", Body=laid_out(Filter(1000, 4096, keys=keys), size=MIB))
        for path in (url, f"{bucket}/d", f"{bucket}/d/*.parquet", [url]):
            (file,) = prune(path, "id = 7", filesystem=fs, cache=cache).all_files
            assert (file.is_kept, file.not_pruned) == (has_key, None)
        fs.ls(f"{bucket}/d")  # which s3fs remembers


def test_many_paths_take_one_listing(fs: Any, calls: Calls, bucket: str, other: Any) -> None:
    paths = [f"s3://{bucket}/d/{i:02}.parquet" for i in range(20)]
    for path in paths:
        other.put_object(Bucket=bucket, Key=path.partition(f"{bucket}/")[2], Body=laid_out(size=1000))
    assert [s.name for s in find(paths, filesystem=fs)] == paths
    assert calls.names == ["ListObjectsV2"]


def test_connections_are_as_many_as_requests_under_way(endpoint: str, bucket: str, other: Any) -> None:
    options = {**KEYS, "endpoint_url": endpoint}
    assert s3.CONFIG["max_pool_connections"] == Limits().in_flight
    for chosen, expected in ({}, Limits().in_flight), ({"max_pool_connections": 7}, 7):
        other.put_object(Bucket=bucket, Key="x.parquet", Body=b"")
        (source,) = find(f"s3://{bucket}/x.parquet", storage_options={**options, "config_kwargs": chosen})
        assert source.fs.config_kwargs["max_pool_connections"] == expected


# ---- what it moves -----------------------------------------------------------------------


def test_add_moves_the_hashed_column_down_and_the_filters_up_and_nothing_else(
    endpoint: str, bucket: str, other: Any
) -> None:
    rows = 1_200_000
    noise = pa.Array.from_buffers(pa.binary(48), rows, [None, pa.py_buffer(np.random.default_rng(1).bytes(48 * rows))])
    buffer = io.BytesIO()
    table = pa.table({"id": np.random.default_rng(2).permutation(rows), "payload": noise})
    pq.write_table(table, buffer, row_group_size=rows, compression="none", use_dictionary=False)
    data = buffer.getvalue()
    assert len(data) > 64 * MIB
    other.put_object(Bucket=bucket, Key="x.parquet", Body=data)
    hashed = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0).total_compressed_size

    with counting_proxy(endpoint) as (url, traffic):
        (row,) = add(f"{bucket}/x.parquet", "id", filesystem=connected(url)).rows
    assert row.error is None
    filters = sum(f.length for f in row.filters)
    footer = row.bytes_added - filters
    assert traffic.down < hashed + filters + MIB
    assert traffic.up < filters + footer + MIB
    assert content(other, bucket, "x.parquet")[: len(data)] == data
    print(f"{len(data)=} {hashed=} {filters=} {footer=} {traffic.down=} {traffic.up=}")


def test_erase_replaces_and_removes_objects(
    endpoint: str, bucket: str, other: Any, old: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "TAIL_PART", s3.MIN_PART)
    url = f"s3://{bucket}/d/x.parquet"
    options = {"storage_options": {**KEYS, "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}}
    ids = pq.read_table(pa.BufferReader(old))["id"].to_pylist()
    add(url, "id", **options)
    (row,) = erase(url, "id", ids[3:5], **options).rows
    new = content(other, bucket)
    assert (row.status, row.error, row.rows_erased, row.bytes_written) == ("written", None, 2, len(new))
    assert pq.read_table(pa.BufferReader(new))["id"].to_pylist() == [*ids[:3], *ids[5:]]
    assert verify(url, **options).is_sound
    assert statuses(erase(url, "id", ids[3:5], **options)) == ["unchanged"]
    assert other.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    assert statuses(erase(url, "id", ids, **options)) == ["removed"]
    assert "Contents" not in other.list_objects_v2(Bucket=bucket)


def test_erase_does_not_replace_an_object_that_was_replaced_meanwhile(
    endpoint: str, bucket: str, other: Any, old: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://{bucket}/d/x.parquet"
    options = {"storage_options": {**KEYS, "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}}
    real = s3.S3Rewrite.commit

    def commit(self: Any) -> None:
        other.put_object(Bucket=bucket, Key="d/x.parquet", Body=b"another")
        real(self)

    monkeypatch.setattr(s3.S3Rewrite, "commit", commit)
    first = pq.read_table(pa.BufferReader(old))["id"][0]
    (row,) = erase(url, "id", [first], **options).errors
    assert "changed since it was read" in str(row.error)
    assert content(other, bucket) == b"another"
