"""Rewrites on Google Cloud Storage: request by request, under failures and other writers, and what is inherited."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from clouds import Google, Refusal
from files import only_error, statuses

from parquet_bloom import add, drop, verify
from parquet_bloom.errors import ConcurrentChangeError, UnsupportedError
from parquet_bloom.storage import gcs, object_rewrite
from parquet_bloom.storage.gcs import GcsRewrite
from parquet_bloom.storage.listing import find
from parquet_bloom.storage.rewrite import rewrite

URL = "gs://lake/d/x.parquet"
WHERE = ("lake", "d/x.parquet")


@pytest.fixture(params=["small", "large"])
def old(request: pytest.FixtureRequest, blobs: dict[str, bytes], google: Google) -> bytes:
    google.put(*WHERE, blobs[request.param])
    return blobs[request.param]


@pytest.fixture
def large(blobs: dict[str, bytes], google: Google) -> bytes:
    google.put(*WHERE, blobs["large"])
    return blobs["large"]


def content(google: Google, key: str = "d/x.parquet", bucket: str = "lake") -> bytes:
    return google.objects[bucket, key].data


def keys(google: Google) -> set[str]:
    return {"/".join(where) for where in google.objects}


def writes(google: Google) -> list[str]:
    return [name for name in google.names if name not in ("media", "list")]


def rewriting(gs: Any, google: Google, keep: int, target: str | None = None) -> GcsRewrite:
    about = google.objects[WHERE].about
    return GcsRewrite(gs, "/".join(WHERE), keep, size=int(about["size"]), generation=about["generation"], target=target)


# ---- the requests ------------------------------------------------------------------------


def test_the_requests_for_a_large_object(gs: Any, google: Google, large: bytes) -> None:
    generation = google.objects[WHERE].about["generation"]
    assert statuses(add(URL, "id", jobs=1, filesystem=gs)) == ["written"]
    assert content(google).startswith(large)
    names = writes(google)
    assert names[names.index("insert") :] == ["insert", "get", "compose", "get", "delete"]
    composed = next(request for request in google.requests if request.parts[-1] == "compose")
    assert composed.query["ifGenerationMatch"] == generation
    first, second = json.loads(composed.body)["sourceObjects"]
    assert first["generation"] == first["objectPreconditions"]["ifGenerationMatch"] == generation
    assert second["generation"] == second["objectPreconditions"]["ifGenerationMatch"] != generation
    tail = len(content(google)) - len(large)
    assert tail < google.sent < tail + 2000
    assert keys(google) == {"lake/d/x.parquet"}


def test_the_requests_for_a_small_object(gs: Any, google: Google, blobs: dict[str, bytes]) -> None:
    generation = google.put(*WHERE, blobs["small"])
    assert statuses(add(URL, "id", filesystem=gs)) == ["written"]
    assert "compose" not in google.names
    (sent,) = (request for request in google.requests if request.method == "POST")
    assert sent.query["ifGenerationMatch"] == generation
    assert {row.verdict for row in verify(URL, filesystem=gs).rows} == {"ok"}


def test_add_then_restore(gs: Any, google: Google, old: bytes) -> None:
    assert statuses(add(URL, "id", filesystem=gs)) == ["written"]
    (row,) = drop(URL, restore=True, filesystem=gs).rows
    assert (row.status, row.error) == ("written", None)
    assert content(google) == old
    assert keys(google) == {"lake/d/x.parquet"}


@pytest.mark.parametrize("bucket", ["lake", "pond"])
def test_a_copy_in_the_same_bucket_and_in_another(gs: Any, google: Google, old: bytes, bucket: str) -> None:
    output = f"gs://{bucket}/y.parquet"
    assert statuses(add(URL, "id", output=output, filesystem=gs)) == ["written"]
    new = content(google, "y.parquet", bucket)
    assert (new[: len(old)], content(google)) == (old, old)
    assert keys(google) == {"lake/d/x.parquet", f"{bucket}/y.parquet"}
    assert "already exists" in only_error(add(URL, "id", output=output, filesystem=gs))
    if len(old) > gcs.MIN_COMPOSED:
        assert google.sent < 100_000


def test_any_number_of_parts(gs: Any, google: Google, large: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_rewrite, "TAIL_PART", 100)
    pieces = [bytes([i]) * 100 for i in range(70)]
    with rewriting(gs, google, len(large)) as out:
        out.copy()
        for piece in pieces:
            assert out.read(out.append(piece), 100) == piece
        out.commit()
    assert content(google) == large + b"".join(pieces)
    assert google.names.count("insert") == 70
    assert google.names.count("compose") == 3
    assert keys(google) == {"lake/d/x.parquet"}


@pytest.mark.parametrize("step", [100, object_rewrite.TAIL_PART])
def test_an_object_that_is_written_from_nothing(
    gs: Any, google: Google, old: bytes, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(object_rewrite, "TAIL_PART", step)
    (source,) = find(URL, filesystem=gs)
    with rewrite(source, 0) as out:
        out.copy()
        for i in range(5):
            out.append(bytes([i]) * 100)
        out.commit()
    assert content(google) == b"".join(bytes([i]) * 100 for i in range(5))


# ---- other writers -----------------------------------------------------------------------


def test_an_object_that_is_replaced_at_any_moment_stays_theirs(gs: Any, google: Google, old: bytes) -> None:
    google.forget()
    assert statuses(add(URL, "id", jobs=1, filesystem=gs)) == ["written"]
    last = next(
        i
        for i, r in enumerate(google.requests, 1)
        if r.method == "POST" and (r.parts[-1] == "compose" or len(old) < gcs.MIN_COMPOSED)
    )
    read = google.names.index("get")  # the listing
    for at in range(read + 3, last + 1):
        google.put(*WHERE, old)
        google.forget()
        gs.invalidate_cache()
        theirs = b"theirs" * at

        def meddle(number: int, name: str, at: int = at, theirs: bytes = theirs) -> None:
            if number == at:
                google.put(*WHERE, theirs)

        google.meddle = meddle
        assert only_error(add(URL, "id", jobs=1, filesystem=gs)), at
        assert content(google) == theirs
        assert keys(google) == {"lake/d/x.parquet"}


def test_metadata_that_is_changed_meanwhile_is_not_lost(gs: Any, google: Google, old: bytes) -> None:
    def meddle(number: int, name: str) -> None:
        if name == "compose" or (name == "insert" and len(old) < gcs.MIN_COMPOSED):
            google.objects[WHERE].about["metageneration"] = "2"

    google.meddle = meddle
    assert "changed since it was read; nothing was written" in only_error(add(URL, "id", filesystem=gs))
    assert content(google) == old


def test_a_key_that_another_writer_makes_meanwhile_stays_theirs(gs: Any, google: Google, old: bytes) -> None:
    def meddle(number: int, name: str) -> None:
        if name == "compose" or (name == "insert" and len(old) < gcs.MIN_COMPOSED):
            google.put("lake", "y.parquet", b"theirs")

    google.meddle = meddle
    error = only_error(add(URL, "id", output="gs://lake/y.parquet", filesystem=gs))
    assert "was created meanwhile" in error
    assert (content(google, "y.parquet"), content(google)) == (b"theirs", old)
    assert keys(google) == {"lake/d/x.parquet", "lake/y.parquet"}


def test_a_successor_of_the_new_object_is_told_apart_from_damage(gs: Any, google: Google, old: bytes) -> None:
    def after(name: str) -> None:
        if name == "compose" or (name == "insert" and len(old) < gcs.MIN_COMPOSED):
            google.after = lambda name: None
            made = json.dumps(google.objects[WHERE].about).encode()
            google.put(*WHERE, b"theirs")
            google.answer_with = made  # type: ignore[attr-defined]

    google.after = after
    error = only_error(add(URL, "id", filesystem=gs))
    assert "replaced by another writer" in error or "changed" in error
    assert content(google) == b"theirs"


def test_the_generation_identifies_an_object(gs: Any, google: Google, old: bytes) -> None:
    """The ETag also changes with the metadata, and a composed object has no MD5."""
    with rewriting(gs, google, len(old)) as out:
        out.copy()
        google.objects[WHERE].about["etag"] = "another"
        out.append(b"tail")
        out.commit()
    assert content(google) == old + b"tail"


# ---- failures ----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["add", "restore"])
def test_a_failure_at_any_request_leaves_the_old_object_and_nothing_else(
    gs: Any, google: Google, old: bytes, verb: str
) -> None:
    if verb == "restore":
        add(URL, "id", filesystem=gs)
    start = content(google)

    def run() -> Any:
        gs.invalidate_cache()
        return add(URL, "id", jobs=1, filesystem=gs) if verb == "add" else drop(URL, restore=True, filesystem=gs)

    google.forget()
    assert statuses(run()) == ["written"]
    done, names = content(google), list(google.names)
    outcomes = []
    for at in range(1, len(names) + 1):
        google.put(*WHERE, start)
        google.forget()

        def fail(number: int, name: str, at: int = at) -> None:
            if number == at:
                raise Refusal(403, "denied")

        google.meddle = fail
        try:
            outcomes.append(statuses(run())[0])
        except OSError:
            outcomes.append("raised")
        is_published = content(google) != start
        assert content(google) == (done if is_published else start), names[at - 1]
        assert is_published or outcomes[-1] != "written"
        assert keys(google) == {"lake/d/x.parquet"}, names[at - 1]
    assert "refused" in outcomes


def test_a_compose_whose_answer_was_lost_is_recognized(gs: Any, google: Google, large: bytes) -> None:
    def after(name: str) -> None:
        if name == "compose":
            google.after = lambda name: None
            raise Refusal(503, "try again")

    google.after = after
    assert statuses(add(URL, "id", filesystem=gs)) == ["written"]
    assert content(google).startswith(large)
    assert google.names.count("compose") == 2
    assert keys(google) == {"lake/d/x.parquet"}


def test_a_part_whose_answer_was_lost_is_used_and_removed(gs: Any, google: Google, large: bytes) -> None:
    def after(name: str) -> None:
        if name == "insert":
            google.after = lambda name: None
            raise Refusal(503, "try again")

    google.after = after
    assert statuses(add(URL, "id", filesystem=gs)) == ["written"]
    assert keys(google) == {"lake/d/x.parquet"}


def test_a_temporary_object_that_cannot_be_removed_is_named(
    gs: Any, google: Google, large: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    def meddle(number: int, name: str) -> None:
        if name == "delete":
            raise Refusal(403, "denied")

    google.meddle = meddle
    assert statuses(add(URL, "id", filesystem=gs)) == ["written"]
    (left,) = keys(google) - {"lake/d/x.parquet"}
    assert f"the temporary object gs://{left} could not be removed" in caplog.text
    assert left.startswith("lake/d/.x.parquet.")
    google.objects.pop(tuple(left.split("/", 1)))  # type: ignore[call-overload]


def test_what_a_killed_run_left_is_removed_a_day_later(gs: Any, google: Google, large: bytes) -> None:
    left = "d/.x.parquet.0123456789abcdef.parquet-bloom.tmp"
    google.put("lake", left, b"old tail")
    google.put("lake", left.replace("0123", "4567"), b"of a run that is under way")
    google.objects["lake", left.replace("0123", "4567")].about["timeCreated"] = "2999-01-01T00:00:00Z"
    (row,) = add(URL, "id", filesystem=gs).rows
    assert row.notes == (f"removed gs://lake/{left}, which an interrupted run had left",)
    assert keys(google) == {"lake/d/x.parquet", f"lake/{left.replace('0123', '4567')}"}


# ---- what is inherited, and what is refused -------------------------------------------------

ABOUT = {
    "contentType": "application/vnd.apache.parquet",
    "cacheControl": "max-age=60",
    "contentDisposition": "attachment",
    "contentEncoding": "identity",
    "contentLanguage": "en",
    "customTime": "2026-05-06T07:08:09Z",
    "metadata": {"owner": "somebody", "zweck": "prüfung"},
    "storageClass": "NEARLINE",
    "contexts": {"custom": {"team": {"value": "lake"}}},
}


@pytest.mark.parametrize("size", ["small", "large"])
def test_the_new_object_is_given_what_the_old_one_had(
    gs: Any, google: Google, blobs: dict[str, bytes], size: str
) -> None:
    google.put(*WHERE, blobs[size], **ABOUT)
    assert statuses(add(URL, "id", filesystem=gs)) == ["written"]
    about = google.objects[WHERE].about
    assert {name: about[name] for name in ABOUT} == ABOUT


@pytest.mark.parametrize("size", ["small", "large"])
def test_a_key_of_cloud_kms_is_used_again(gs: Any, google: Google, blobs: dict[str, bytes], size: str) -> None:
    key = "projects/p/locations/eu/keyRings/r/cryptoKeys/k"
    google.put(*WHERE, blobs[size], kmsKeyName=f"{key}/cryptoKeyVersions/7")
    assert statuses(add(URL, "id", filesystem=gs)) == ["written"]
    sent = [request for request in google.requests if request.method == "POST"]
    assert {request.query["kmsKeyName"] for request in sent} == {key}


@pytest.mark.parametrize("size", ["small", "large"])
def test_who_may_read_an_object_stays_the_same(gs: Any, google: Google, blobs: dict[str, bytes], size: str) -> None:
    google.has_acl = True
    acl = [{"entity": "user-a@example.com", "role": "OWNER"}, {"entity": "allUsers", "role": "READER"}]
    google.put(*WHERE, blobs[size], acl=acl)
    assert statuses(add(URL, "id", filesystem=gs)) == ["written"]
    assert google.objects[WHERE].about["acl"] == acl
    parts = [
        r for r in google.requests if "parquet-bloom.tmp" in r.body[:400].decode("latin-1") and "upload" in r.parts
    ]
    assert all(request.query["predefinedAcl"] == "private" for request in parts)


def test_a_list_of_readers_that_may_not_be_seen_is_a_warning(
    gs: Any, google: Google, old: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    def meddle(number: int, name: str) -> None:
        if google.requests[-1].query.get("projection"):
            raise Refusal(403, "no storage.objects.getIamPolicy")

    google.meddle = meddle
    with caplog.at_level(logging.WARNING):
        assert statuses(add(URL, "id", filesystem=gs)) == ["written"]
    assert "who may read it cannot be seen" in caplog.text


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({"customerEncryption": {"encryptionAlgorithm": "AES256"}}, "customer-supplied key"),
        ({"storageClass": "RAPID"}, "zonal bucket"),
        ({"temporaryHold": True}, "under a hold"),
        ({"eventBasedHold": True}, "under a hold"),
        ({"retentionExpirationTime": "2999-01-01T00:00:00Z"}, "retained until 2999-01-01"),
        ({"retention": {"mode": "Locked", "retainUntilTime": "2999-01-01T00:00:00Z"}}, "retained until 2999-01-01"),
        ({"retentionExpirationTime": "2001-01-01T00:00:00Z"}, "the bucket retains its objects"),
    ],
)
def test_what_cannot_be_replaced_is_refused_before_the_first_byte(
    gs: Any, google: Google, blobs: dict[str, bytes], about: dict[str, Any], reason: str
) -> None:
    google.put(*WHERE, blobs["large"], **about)
    assert reason in only_error(add(URL, "id", filesystem=gs))
    assert {request.method for request in google.requests} == {"GET"}


def test_a_copy_of_a_retained_object_is_not_retained(gs: Any, google: Google, blobs: dict[str, bytes]) -> None:
    until = {"mode": "Locked", "retainUntilTime": "2999-01-01T00:00:00Z"}
    google.put(*WHERE, blobs["large"], retention=until, retentionExpirationTime=until["retainUntilTime"])
    assert statuses(add(URL, "id", output="gs://lake/y.parquet", filesystem=gs)) == ["written"]
    assert "retention" not in google.objects["lake", "y.parquet"].about


def test_an_object_that_is_gone_or_has_changed_is_not_rewritten(gs: Any, google: Google, old: bytes) -> None:
    generation = google.objects[WHERE].about["generation"]
    google.put(*WHERE, old)
    with pytest.raises(ConcurrentChangeError, match="changed since it was read; nothing was written"):
        GcsRewrite(gs, "/".join(WHERE), len(old), size=len(old), generation=generation, target=None)
    del google.objects[WHERE]
    with pytest.raises(ConcurrentChangeError, match="changed since it was read; nothing was written"):
        GcsRewrite(gs, "/".join(WHERE), len(old), size=len(old), generation=generation, target=None)


def test_a_bucket_that_does_not_exist_is_named(gs: Any, google: Google, old: bytes) -> None:
    def meddle(number: int, name: str) -> None:
        if "pond" in google.requests[-1].parts:
            raise Refusal(404, "The specified bucket does not exist.")

    google.meddle = meddle
    assert "pond" in only_error(add(URL, "id", output="gs://pond/y.parquet", filesystem=gs))


def test_unsupported_is_raised_with_strict(gs: Any, google: Google, blobs: dict[str, bytes]) -> None:
    google.put(*WHERE, blobs["large"], temporaryHold=True)
    with pytest.raises(UnsupportedError, match="release the hold"):
        add(URL, "id", filesystem=gs, strict=True)
