"""Rewrites on S3: call by call, under failures and other writers, and what the new object inherits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from files import only_error, statuses
from stores import Calls

from parquet_bloom import add, drop, verify
from parquet_bloom.errors import ConcurrentChangeError, FilterExistsError, UnsupportedError
from parquet_bloom.storage import s3
from parquet_bloom.storage.s3 import MIN_PART, S3Rewrite

pytestmark = pytest.mark.servers

TAGS = [{"Key": "team", "Value": "lake + sea = été"}, {"Key": "a b", "Value": "x=1"}]
EXPIRES = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
ATTRIBUTES = {
    "Metadata": {"owner": "somebody", "purpose": "tests"},
    "ContentType": "application/vnd.apache.parquet",
    "CacheControl": "max-age=60",
    "ContentDisposition": "attachment",
    "ContentLanguage": "en",
    "StorageClass": "STANDARD_IA",
    "ServerSideEncryption": "aws:kms",
    "SSEKMSKeyId": "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555",
}


def content(other: Any, bucket: str, key: str = "x.parquet") -> bytes:
    data: bytes = other.get_object(Bucket=bucket, Key=key)["Body"].read()
    return data


def uploads(other: Any, bucket: str) -> list[Any]:
    found: list[Any] = other.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return found


@pytest.fixture(params=["small", "large"])
def old(request: pytest.FixtureRequest, blobs: dict[str, bytes], bucket: str, other: Any) -> bytes:
    data = blobs[request.param]
    other.put_object(Bucket=bucket, Key="x.parquet", Body=data)
    return data


# ---- the calls ---------------------------------------------------------------------------


def test_the_calls_for_a_large_object(fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes]) -> None:
    etag = other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["large"])["ETag"]
    assert statuses(add(f"{bucket}/x.parquet", "id", jobs=1, filesystem=fs)) == ["written"]
    writes = [name for name in calls.names if name not in ("GetObject", "ListObjectsV2")]
    assert writes == [
        "HeadObject",  # the listing
        "ListMultipartUploads",  # what interrupted runs have left
        "HeadObject",
        "CreateMultipartUpload",
        "UploadPart",  # the mark
        "UploadPartCopy",
        "UploadPart",
        "HeadObject",
        "CompleteMultipartUpload",
        "HeadObject",
    ]
    headers = dict(calls.headers)
    assert headers["UploadPartCopy"]["x-amz-copy-source-if-match"] == etag
    assert headers["UploadPartCopy"]["x-amz-copy-source-range"] == f"bytes=0-{len(blobs['large']) - 1}"
    assert headers["CompleteMultipartUpload"]["If-Match"] == etag


def test_the_calls_for_a_small_object(fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes]) -> None:
    etag = other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["small"])["ETag"]
    assert statuses(add(f"{bucket}/x.parquet", "id", filesystem=fs)) == ["written"]
    writes = [name for name in calls.names if name not in ("GetObject", "ListObjectsV2")]
    assert writes == ["HeadObject", "ListMultipartUploads", "HeadObject", "HeadObject", "PutObject", "HeadObject"]
    assert dict(calls.headers)["PutObject"]["If-Match"] == etag


def test_a_new_key_must_be_new(fs: Any, calls: Calls, bucket: str, other: Any, old: bytes) -> None:
    output = f"s3://{bucket}/y.parquet"
    assert statuses(add(f"{bucket}/x.parquet", "id", output=output, filesystem=fs)) == ["written"]
    put = "PutObject" if len(old) < MIN_PART else "CompleteMultipartUpload"
    assert dict(calls.headers)[put]["If-None-Match"] == "*"
    new = content(other, bucket, "y.parquet")
    assert "exists" in only_error(add(f"{bucket}/x.parquet", "id", output=output, filesystem=fs))
    assert (content(other, bucket, "y.parquet"), content(other, bucket)) == (new, old)


def test_a_key_that_another_writer_makes_meanwhile_stays_theirs(
    fs: Any, calls: Calls, bucket: str, other: Any, old: bytes
) -> None:
    def meddle(number: int, name: str) -> None:
        if name in ("PutObject", "CompleteMultipartUpload"):
            other.put_object(Bucket=bucket, Key="y.parquet", Body=b"theirs")

    calls.meddle = meddle
    error = only_error(add(f"{bucket}/x.parquet", "id", output=f"s3://{bucket}/y.parquet", filesystem=fs))
    assert "was created meanwhile" in error
    assert (content(other, bucket, "y.parquet"), content(other, bucket)) == (b"theirs", old)
    assert uploads(other, bucket) == []


def test_the_tail_goes_up_in_parts(
    fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "TAIL_PART", MIN_PART)
    monkeypatch.setattr(s3, "READ_BACK", MIN_PART)
    etag = other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["large"])["ETag"].strip('"')
    pieces = [bytes([i]) * (2 * 1024 * 1024) for i in range(7)]
    with S3Rewrite(fs, f"{bucket}/x.parquet", len(blobs["large"]), etag=etag, target=None) as out:
        out.copy()
        for piece in pieces:
            at = out.append(piece)
            assert out.read(at, len(piece)) == piece
        out.commit()
    assert content(other, bucket) == blobs["large"] + b"".join(pieces)
    assert calls.names.count("UploadPart") == 1 + 3  # the mark


def test_a_larger_object_is_copied_in_equal_ranges(
    fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = blobs["large"] * 4  # 25 MB
    monkeypatch.setattr(s3, "MAX_PART", 2 * MIN_PART)
    etag = other.put_object(Bucket=bucket, Key="x.parquet", Body=data)["ETag"].strip('"')
    with S3Rewrite(fs, f"{bucket}/x.parquet", len(data), etag=etag, target=None) as out:
        out.copy()
        out.append(b"tail")
        out.commit()
    assert content(other, bucket) == data + b"tail"
    assert calls.names.count("UploadPartCopy") == 3


# ---- other writers -----------------------------------------------------------------------


def clean_calls(fs: Any, calls: Calls, bucket: str) -> list[str]:
    """Returns the calls of an `add` without trouble, which is then taken back."""
    calls.names.clear()
    assert statuses(add(f"{bucket}/x.parquet", "id", jobs=1, filesystem=fs)) == ["written"]
    return list(calls.names)


def test_an_object_that_is_replaced_at_any_moment_stays_theirs(
    fs: Any, calls: Calls, bucket: str, other: Any, old: bytes
) -> None:
    names = clean_calls(fs, calls, bucket)
    # moto does not look at the condition of Complete, which therefore is the last that a HEAD can tell of.
    last = next(i for i, name in enumerate(names, 1) if name in ("PutObject", "CompleteMultipartUpload"))
    for at in range(2, last):
        other.put_object(Bucket=bucket, Key="x.parquet", Body=old)
        fs.invalidate_cache()
        theirs = b"theirs" * at

        def meddle(number: int, name: str, at: int = at, theirs: bytes = theirs) -> None:
            if number == at:
                other.put_object(Bucket=bucket, Key="x.parquet", Body=theirs)

        calls.names.clear()
        calls.meddle = meddle
        assert "changed" in only_error(add(f"{bucket}/x.parquet", "id", jobs=1, filesystem=fs))
        assert content(other, bucket) == theirs
        assert uploads(other, bucket) == []


def test_a_refused_condition_is_a_concurrent_change(fs: Any, calls: Calls, bucket: str, other: Any, old: bytes) -> None:
    from botocore.exceptions import ClientError

    def meddle(number: int, name: str) -> None:
        if name in ("PutObject", "CompleteMultipartUpload"):
            raise ClientError({"Error": {"Code": "PreconditionFailed", "Message": "no"}}, name)

    calls.meddle = meddle
    error = only_error(add(f"{bucket}/x.parquet", "id", filesystem=fs))
    assert error == f"s3://{bucket}/x.parquet changed since it was read; nothing was written"
    assert (content(other, bucket), uploads(other, bucket)) == (old, [])


def test_an_object_that_was_deleted_is_not_made_again(
    fs: Any, calls: Calls, bucket: str, other: Any, old: bytes
) -> None:
    def meddle(number: int, name: str) -> None:
        if name == "HeadObject" and calls.names.count("HeadObject") == 3:
            other.delete_object(Bucket=bucket, Key="x.parquet")

    calls.meddle = meddle
    assert "changed since it was read" in only_error(add(f"{bucket}/x.parquet", "id", filesystem=fs))
    assert other.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_successor_of_the_new_object_is_told_apart_from_damage(
    fs: Any, calls: Calls, bucket: str, other: Any, old: bytes
) -> None:
    def after(name: str) -> None:
        if name in ("PutObject", "CompleteMultipartUpload"):
            other.put_object(Bucket=bucket, Key="x.parquet", Body=b"theirs")

    calls.after = after
    assert "replaced by another writer" in only_error(add(f"{bucket}/x.parquet", "id", filesystem=fs))
    assert content(other, bucket) == b"theirs"


# ---- failures ----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["add", "restore"])
def test_a_failure_at_any_call_leaves_the_old_object_whole(
    fs: Any, calls: Calls, bucket: str, other: Any, old: bytes, verb: str
) -> None:
    url = f"{bucket}/x.parquet"
    if verb == "restore":
        add(url, "id", filesystem=fs)
    start = content(other, bucket)

    def run() -> Any:
        return add(url, "id", jobs=1, filesystem=fs) if verb == "add" else drop(url, restore=True, filesystem=fs)

    calls.names.clear()
    assert statuses(run()) == ["written"]
    done, count = content(other, bucket), len(calls.names)
    outcomes = []
    for at in range(1, count + 1):
        other.put_object(Bucket=bucket, Key="x.parquet", Body=start)
        fs.invalidate_cache()

        def fail(number: int, name: str, at: int = at) -> None:
            if number == at:
                raise PermissionError(f"denied: {name}")

        calls.names.clear()
        calls.meddle = fail
        try:
            outcomes.append(statuses(run())[0])
        except PermissionError:
            outcomes.append("raised")
        calls.meddle = lambda number, name: None
        now = content(other, bucket)
        written = {"PutObject", "CompleteMultipartUpload"} & set(calls.names[: at - 1])
        assert now == (done if written or outcomes[-1] == "written" else start), calls.names[at - 1]
        assert uploads(other, bucket) == []
    assert {"refused", "raised"} <= set(outcomes)
    assert outcomes.count("refused") >= 4


def test_what_became_of_an_object_is_not_known_where_the_store_is_gone(
    fs: Any, calls: Calls, bucket: str, other: Any, old: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The store carries the last call out, and answers nothing any more."""
    is_gone = []

    def fail(number: int, name: str) -> None:
        if is_gone:
            raise ConnectionResetError("no answer")

    def lose(name: str) -> None:
        if name in ("PutObject", "CompleteMultipartUpload"):
            is_gone.append(name)
            raise ConnectionResetError("no answer")

    calls.meddle, calls.after = fail, lose
    error = only_error(add(f"{bucket}/x.parquet", "id", filesystem=fs))
    calls.meddle, calls.after = lambda number, name: None, lambda name: None
    assert error.endswith(f"; whether s3://{bucket}/x.parquet was written is not known")
    assert content(other, bucket) != old
    assert ("may be left in the store; abort it" in caplog.text) is (len(old) >= MIN_PART)


def test_an_upload_that_cannot_be_given_up_is_named(
    fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["large"])

    def fail(number: int, name: str) -> None:
        if "UploadPart" in calls.names:
            raise ConnectionResetError("no answer")

    calls.meddle = fail
    assert "no answer" in only_error(add(f"{bucket}/x.parquet", "id", filesystem=fs))
    (upload,) = uploads(other, bucket)
    assert f"s3://{bucket}/x.parquet may be left in the store; abort it: {upload['UploadId']}" in caplog.text


@pytest.mark.parametrize("times", [1, 2])
def test_an_upload_is_given_up_even_if_that_fails_at_first(
    fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes], times: int
) -> None:
    other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["large"])

    def meddle(number: int, name: str) -> None:
        if name == "UploadPart" or (name == "AbortMultipartUpload" and calls.names.count(name) <= times):
            raise ConnectionError("no route")

    calls.meddle = meddle
    assert "no route" in only_error(add(f"{bucket}/x.parquet", "id", filesystem=fs))
    assert uploads(other, bucket) == []


def dated(fs: Any, seconds: float) -> None:
    """Has the store say when uploads began, which moto does not know."""

    def date(parsed: Any, **_: Any) -> None:
        for upload in parsed.get("Uploads") or ():
            upload["Initiated"] = datetime.now(UTC) + timedelta(seconds=seconds)

    fs._s3.meta.events.register("after-call.s3.ListMultipartUploads", date)


def aged(fs: Any, seconds: float) -> None:
    """Has the store say that parts came so long ago."""

    def date(parsed: Any, **_: Any) -> None:
        for part in parsed.get("Parts") or ():
            part["LastModified"] -= timedelta(seconds=seconds)

    fs._s3.meta.events.register("after-call.s3.ListParts", date)


@pytest.mark.parametrize("run", ["add", "nothing to do", "dry run", "drop", "another object"])
def test_the_next_run_aborts_what_a_killed_one_has_left(
    fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes], run: str
) -> None:
    for key in ("x.parquet", "y.parquet"):
        other.put_object(Bucket=bucket, Key=key, Body=blobs["large"])
    path = f"{bucket}/x.parquet"

    def die(number: int, name: str) -> None:
        if name in ("CompleteMultipartUpload", "AbortMultipartUpload"):
            raise ConnectionResetError("gone")

    calls.meddle = die
    only_error(add(path, "id", filesystem=fs))
    calls.meddle = lambda number, name: None
    (left,) = uploads(other, bucket)
    if run in ("nothing to do", "drop"):
        add(path, "id", filesystem=fs)
    assert uploads(other, bucket) == [left]  # it may still be running
    aged(fs, s3.LEFT_SECONDS + 1)
    if run == "drop":
        drop(path, "id", filesystem=fs)
    else:
        add(f"{bucket}/y.parquet" if run == "another object" else path, "id", filesystem=fs, dry_run=run == "dry run")
    assert uploads(other, bucket) == ([left] if run in ("dry run", "another object") else [])


def test_an_upload_of_another_program_is_not_aborted(
    fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes]
) -> None:
    other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["large"])
    upload = other.create_multipart_upload(Bucket=bucket, Key="x.parquet")["UploadId"]
    for number in (1, 9_999):
        other.upload_part(Bucket=bucket, Key="x.parquet", UploadId=upload, PartNumber=number, Body=s3.MARK)
    other.upload_part(Bucket=bucket, Key="x.parquet", UploadId=upload, PartNumber=s3.MARK_PART, Body=b"theirs")
    aged(fs, 10 * s3.LEFT_SECONDS)
    assert statuses(add(f"{bucket}/x.parquet", "id", filesystem=fs)) == ["written"]
    assert [one["UploadId"] for one in uploads(other, bucket)] == [upload]


def losing_the_answer(calls: Calls) -> None:
    def after(name: str) -> None:
        if name == "CreateMultipartUpload":
            raise ConnectionResetError("reset by peer")

    calls.after = after


def test_an_upload_whose_number_was_lost_is_given_up(
    fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes]
) -> None:
    other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["large"])
    theirs = other.create_multipart_upload(Bucket=bucket, Key="x.parquet.other")["UploadId"]
    busy = other.create_multipart_upload(Bucket=bucket, Key="x.parquet")["UploadId"]
    other.upload_part(Bucket=bucket, Key="x.parquet", UploadId=busy, PartNumber=1, Body=b"theirs")
    dated(fs, 1)
    losing_the_answer(calls)
    error = only_error(add(f"{bucket}/x.parquet", "id", filesystem=fs))
    assert error == f"reset by peer; uploads of s3://{bucket}/x.parquet are left in the store: {busy}"
    assert {upload["UploadId"] for upload in uploads(other, bucket)} == {theirs, busy}


def test_an_upload_that_is_older_is_not_given_up(
    fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes]
) -> None:
    other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["large"])
    other.create_multipart_upload(Bucket=bucket, Key="x.parquet")
    dated(fs, -60)

    def meddle(number: int, name: str) -> None:
        if name == "CreateMultipartUpload":
            raise ConnectionResetError("no route")

    calls.meddle = meddle
    assert only_error(add(f"{bucket}/x.parquet", "id", filesystem=fs)) == "no route"
    assert len(uploads(other, bucket)) == 1


def test_an_upload_that_may_be_left_is_named(
    fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes]
) -> None:
    other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["large"])
    losing_the_answer(calls)

    def meddle(number: int, name: str) -> None:
        if name == "ListMultipartUploads":
            raise PermissionError("Access Denied")

    calls.meddle = meddle
    error = only_error(add(f"{bucket}/x.parquet", "id", filesystem=fs))
    assert f"an upload of s3://{bucket}/x.parquet may be left in the store" in error


@pytest.mark.parametrize("in_place", [True, False])
def test_an_answer_that_is_lost_is_no_failure(
    fs: Any, calls: Calls, bucket: str, other: Any, old: bytes, in_place: bool
) -> None:
    def after(name: str) -> None:
        if name in ("PutObject", "CompleteMultipartUpload"):
            raise ConnectionResetError("reset by peer")

    calls.after = after
    output = None if in_place else f"s3://{bucket}/y.parquet"
    (row,) = add(f"{bucket}/x.parquet", "id", output=output, filesystem=fs).rows
    assert (row.status, row.error) == ("written", None)
    assert content(other, bucket, "x.parquet" if in_place else "y.parquet")[: len(old)] == old
    assert {row.verdict for row in verify(output or f"{bucket}/x.parquet", filesystem=fs).rows} == {"ok"}
    assert uploads(other, bucket) == []


def test_what_the_store_garbles_is_noticed(fs: Any, calls: Calls, bucket: str, other: Any, old: bytes) -> None:
    (source_etag,) = {other.head_object(Bucket=bucket, Key="x.parquet")["ETag"].strip('"')}
    with S3Rewrite(fs, f"{bucket}/x.parquet", len(old), etag=source_etag, target=None) as out:
        out.copy()
        out.append(b"tail")
        out._pending[:] = b"liar"
        with pytest.raises(OSError, match="does not read back as it was written"):
            out.commit()


def test_errors_of_the_connection_refuse_the_file(fs: Any, calls: Calls, bucket: str, other: Any, old: bytes) -> None:
    from botocore.exceptions import BotoCoreError

    class Lost(BotoCoreError):  # type: ignore[misc]
        fmt = "lost"

    def meddle(number: int, name: str) -> None:
        if name in ("PutObject", "UploadPartCopy"):
            raise Lost

    calls.meddle = meddle
    assert only_error(add(f"{bucket}/x.parquet", "id", filesystem=fs)) == "Lost: lost"
    assert (content(other, bucket), uploads(other, bucket)) == (old, [])


# ---- what the new object inherits --------------------------------------------------------


def attributes(other: Any, bucket: str, key: str) -> dict[str, Any]:
    head = other.head_object(Bucket=bucket, Key=key)
    tags = other.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    found = {name: head.get(name) for name in (*ATTRIBUTES, "Expires", "WebsiteRedirectLocation", "ContentEncoding")}
    return {**found, "tags": sorted(tags, key=lambda tag: tag["Key"])}


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("verb", ["add", "drop", "restore", "copy"])
def test_attributes_are_carried_over(
    fs: Any, calls: Calls, bucket: str, other: Any, blobs: dict[str, bytes], size: str, verb: str
) -> None:
    other.put_object(
        Bucket=bucket, Key="x.parquet", Body=blobs[size], Expires=EXPIRES, BucketKeyEnabled=True, **ATTRIBUTES
    )
    other.put_object_tagging(Bucket=bucket, Key="x.parquet", Tagging={"TagSet": TAGS})
    before = attributes(other, bucket, "x.parquet")
    assert before["Metadata"] == ATTRIBUTES["Metadata"]
    url, key = f"{bucket}/x.parquet", "x.parquet"
    if verb == "copy":
        key = "y.parquet"
        assert statuses(add(url, "id", output=f"s3://{bucket}/{key}", filesystem=fs)) == ["written"]
    else:
        assert statuses(add(url, "id", filesystem=fs)) == ["written"]
    if verb in ("drop", "restore"):
        assert statuses(drop(url, restore=verb == "restore", filesystem=fs)) == ["written"]
    assert attributes(other, bucket, key) == before
    # moto forgets this one when an object is put together from parts.
    sent = [headers for name, headers in calls.headers if name in ("PutObject", "CreateMultipartUpload")]
    assert sent[0]["x-amz-server-side-encryption-bucket-key-enabled"] == "true"


@pytest.mark.parametrize("size", ["small", "large"])
def test_in_a_versioned_bucket_the_old_version_remains_and_the_new_one_has_its_lock(
    fs: Any, calls: Calls, other: Any, blobs: dict[str, bytes], size: str
) -> None:
    bucket = f"locked-{size}"
    other.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}
    other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs[size], **lock)
    assert statuses(add(f"{bucket}/x.parquet", "id", filesystem=fs)) == ["written"]
    versions = other.list_object_versions(Bucket=bucket)["Versions"]
    assert [(v["IsLatest"], v["Size"] == len(blobs[size])) for v in versions] == [(True, False), (False, True)]
    (sent,) = (headers for name, headers in calls.headers if name in ("PutObject", "CreateMultipartUpload"))
    assert sent["x-amz-object-lock-mode"] == "GOVERNANCE"
    assert sent["x-amz-object-lock-retain-until-date"].startswith(until.isoformat()[:19])


def test_one_version_of_an_object_is_not_written_to(fs: Any, bucket: str, other: Any, blobs: dict[str, bytes]) -> None:
    etag = other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["small"])["ETag"].strip('"')
    fs.version_aware = True
    with pytest.raises(UnsupportedError, match="one version"):
        S3Rewrite(fs, f"{bucket}/x.parquet?versionId=abc", 100, etag=etag, target=None)


def test_a_rewrite_begins_only_from_what_was_read(fs: Any, bucket: str, other: Any, blobs: dict[str, bytes]) -> None:
    etag = other.put_object(Bucket=bucket, Key="x.parquet", Body=blobs["small"])["ETag"].strip('"')
    with pytest.raises(ConcurrentChangeError):
        S3Rewrite(fs, f"{bucket}/x.parquet", 100, etag="another", target=None)
    with pytest.raises(ConcurrentChangeError):
        S3Rewrite(fs, f"{bucket}/nothing.parquet", 100, etag=etag, target=None)
    with pytest.raises(FilterExistsError):
        S3Rewrite(fs, f"{bucket}/x.parquet", 100, etag=etag, target=f"{bucket}/x.parquet")


def test_unfinished_uploads_of_these_objects_are_found(fs: Any, bucket: str, other: Any) -> None:
    for key in ("lake/a.parquet", "lake/b.parquet", "lake/c.parquet"):
        other.create_multipart_upload(Bucket=bucket, Key=key)
    found = s3.unfinished_uploads(fs, [f"{bucket}/lake/b.parquet", f"{bucket}/lake/a.parquet", f"{bucket}/lake/d"])
    assert sorted(path for path, _ in found) == [f"s3://{bucket}/lake/a.parquet", f"s3://{bucket}/lake/b.parquet"]
    assert {upload for _, upload in found} <= {upload["UploadId"] for upload in uploads(other, bucket)}
    assert s3.unfinished_uploads(fs, ["no-such-bucket/x"]) == []
