"""Rewrites on Azure: request by request, under failures and other writers, and what is inherited."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest
from clouds import Azure, Refusal, azure_fs, serving
from files import only_error, statuses

from parquet_bloom import add, drop, verify
from parquet_bloom.errors import ConcurrentChangeError
from parquet_bloom.storage import azure as azure_module
from parquet_bloom.storage import object_rewrite
from parquet_bloom.storage.azure import AzureRewrite
from parquet_bloom.storage.listing import find
from parquet_bloom.storage.rewrite import rewrite

URL = "abfs://lake/d/x.parquet"
WHERE = ("lake", "d/x.parquet")
MB = 1024 * 1024
SHAPES = {"small": ("small", None), "in one request": ("large", None), "in blocks": ("large", MB)}


@pytest.fixture(params=SHAPES)
def old(request: pytest.FixtureRequest, blobs: dict[str, bytes], azure: Azure) -> bytes:
    size, step = SHAPES[request.param]
    azure.put(*WHERE, blobs[size], step=step)
    return blobs[size]


@pytest.fixture
def large(blobs: dict[str, bytes]) -> bytes:
    return blobs["large"]


def content(azure: Azure, key: str = "d/x.parquet", container: str = "lake") -> bytes:
    return azure.blobs[container, key].data


def writes(azure: Azure) -> list[str]:
    return [name for name in azure.names if name.startswith("put")]


def sent(azure: Azure, name: str) -> list[Any]:
    return [request for known, request in zip(azure.names, azure.requests, strict=True) if known == name]


# ---- the requests ------------------------------------------------------------------------


def test_blocks_are_named_again_and_only_the_tail_is_sent(abfs: Any, azure: Azure, large: bytes) -> None:
    etag = azure.put(*WHERE, large, step=MB)
    names = [name for name, _ in azure.blobs[WHERE].blocks]
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    assert content(azure).startswith(large)
    assert writes(azure) == ["put_block", "put_block_list"]
    assert sent(azure, "put_block_list")[0].headers["If-Match"] == etag
    assert [name for name, _ in azure.blobs[WHERE].blocks][: len(names)] == names
    assert azure.sent < len(content(azure)) - len(large) + 2000
    assert {row.verdict for row in verify(URL, filesystem=abfs).rows} == {"ok"}


def test_a_blob_without_blocks_is_copied_by_the_store(
    abfs: Any, azure: Azure, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_module, "COPY_BLOCK", 4 * MB)
    etag = azure.put(*WHERE, large)
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    assert content(azure).startswith(large)
    assert writes(azure) == ["put_block_from_url"] * 2 + ["put_block", "put_block_list"]
    assert {request.headers["x-ms-source-if-match"] for request in sent(azure, "put_block_from_url")} == {etag}
    assert sent(azure, "put_block_list")[0].headers["If-Match"] == etag
    assert azure.copied == len(large)
    assert azure.sent < len(content(azure)) - len(large) + 2000


def test_a_small_blob_is_sent_whole(abfs: Any, azure: Azure, blobs: dict[str, bytes]) -> None:
    etag = azure.put(*WHERE, blobs["small"])
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    assert writes(azure) == ["put_blob"]
    assert sent(azure, "put_blob")[0].headers["If-Match"] == etag


def test_add_twice_then_restore(abfs: Any, azure: Azure, old: bytes) -> None:
    for fpp in (0.1, 0.001):
        assert statuses(add(URL, "id", fpp=fpp, replace=True, filesystem=abfs)) == ["written"]
    azure.forget()
    assert statuses(drop(URL, restore=True, filesystem=abfs)) == ["written"]
    assert content(azure) == old
    if len(old) > azure_module.MIN_BLOCKS:
        assert writes(azure) == ["put_block_list"]  # of the blocks that the first `add` found or made


@pytest.mark.parametrize("container", ["lake", "pond"])
def test_a_copy_in_the_same_container_and_in_another(abfs: Any, azure: Azure, old: bytes, container: str) -> None:
    output = f"abfs://{container}/y.parquet"
    assert statuses(add(URL, "id", output=output, filesystem=abfs)) == ["written"]
    assert (content(azure, "y.parquet", container)[: len(old)], content(azure)) == (old, old)
    assert sent(azure, writes(azure)[-1])[-1].headers["If-None-Match"] == "*"
    assert "already exists" in only_error(add(URL, "id", output=output, filesystem=abfs))
    if len(old) > azure_module.MIN_BLOCKS:
        assert azure.copied == len(old)


def test_any_number_of_parts(abfs: Any, azure: Azure, large: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_rewrite, "TAIL_PART", 100)
    etag = azure.put(*WHERE, large, step=MB).strip('"')
    with AzureRewrite(abfs, "/".join(WHERE), len(large), etag=etag, target=None) as out:
        out.copy()
        for i in range(5):
            assert out.read(out.append(bytes([i]) * 100), 100) == bytes([i]) * 100
        out.commit()
    assert content(azure) == large + b"".join(bytes([i]) * 100 for i in range(5))
    assert writes(azure).count("put_block") == 5


# ---- where the store does not copy ---------------------------------------------------------


def test_what_the_store_does_not_copy_goes_through_this_machine(
    abfs: Any, azure: Azure, large: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_module, "READ_BLOCK", 4 * MB)
    azure.put(*WHERE, large)
    azure.copies = False
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    assert content(azure).startswith(large)
    assert "the store does not copy (CannotVerifyCopySource" in caplog.text
    assert writes(azure) == ["put_block_from_url"] + ["put_block"] * 3 + ["put_block_list"]


@pytest.mark.parametrize("kind", ["SAS in the URL", "SAS beside it", "token", "nothing"])
def test_each_credential_lets_the_store_read_the_old_blob(azure: Azure, large: bytes, kind: str) -> None:
    class Token:
        async def get_token(self, *scopes: str, **options: Any) -> Any:
            from azure.core.credentials import AccessToken

            assert scopes == ("https://storage.azure.com/.default",)
            return AccessToken("secret", 4_000_000_000)

    from azure.core.credentials import AzureSasCredential
    from azure.storage.blob.aio import BlobServiceClient

    azure.put(*WHERE, large)
    with serving(azure) as url:
        fs = azure_fs(url)
        token, address = "sv=2020-08-04&sig=abc", f"{url}/tests"
        clients = {  # tokens are sent by HTTPS alone, so all but the copy goes by a key
            "SAS in the URL": lambda: BlobServiceClient(f"{address}?{token}"),
            "SAS beside it": lambda: BlobServiceClient(address, credential=AzureSasCredential(token)),
            "token": lambda: SimpleNamespace(
                credential=Token(),
                close=fs.service_client.close,
                get_blob_client=fs.service_client.get_blob_client,
                get_container_client=fs.service_client.get_container_client,
            ),
            "nothing": lambda: BlobServiceClient(address),
        }
        fs.service_client = clients[kind]()
        assert statuses(add(URL, "id", filesystem=fs)) == ["written"]
    assert content(azure).startswith(large)
    assert azure.copied == (0 if kind == "nothing" else len(large))
    if kind == "token":
        assert sent(azure, "put_block_from_url")[0].headers["x-ms-copy-source-authorization"] == "Bearer secret"


def test_files_of_the_data_lake_api_are_replaced_by_one_put(
    abfs: Any, azure: Azure, large: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    azure.headers = {"x-ms-owner": "$superuser", "x-ms-permissions": "rw-r-----"}
    etag = azure.put(*WHERE, large)
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    assert writes(azure) == ["put_blob"]
    assert sent(azure, "put_blob")[0].headers["If-Match"] == etag
    assert "the whole file goes through this machine" in caplog.text


def test_files_of_the_data_lake_api_may_be_too_large(
    abfs: Any, azure: Azure, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_module, "MOST_IN_ONE_PUT", 5 * MB)
    azure.headers = {"x-ms-owner": "$superuser"}
    azure.put(*WHERE, large)
    assert "larger than one Put Blob" in only_error(add(URL, "id", filesystem=abfs))
    assert (writes(azure), content(azure)) == ([], large)


# ---- names of blocks ---------------------------------------------------------------------


def test_blocks_whose_names_are_not_text_are_copied(abfs: Any, azure: Azure, large: bytes) -> None:
    azure.put(*WHERE, large, step=MB)
    blob = azure.blobs[WHERE]
    blob.blocks = [
        (base64.b64encode(b"\xff" * 11 + bytes([i])).decode(), data) for i, (_, data) in enumerate(blob.blocks)
    ]
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    assert content(azure).startswith(large)
    assert azure.copied == len(large)


@pytest.mark.parametrize("step", [None, MB])
def test_names_are_as_long_as_those_of_blocks_that_wait(
    abfs: Any, azure: Azure, large: bytes, step: int | None
) -> None:
    azure.put(*WHERE, large, step=step)
    azure.waiting[WHERE] = {base64.b64encode(b"another upload's name").decode(): b"theirs"}
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    assert content(azure).startswith(large)


def test_a_block_that_another_writer_stages_under_an_old_name_is_not_taken(
    abfs: Any, azure: Azure, large: bytes
) -> None:
    azure.put(*WHERE, large, step=MB)
    first = azure.blobs[WHERE].blocks[0][0]

    def meddle(number: int, name: str) -> None:
        if name == "put_block_list":
            azure.waiting.setdefault(WHERE, {})[first] = b"theirs"

    azure.meddle = meddle
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    assert content(azure).startswith(large)


def test_a_library_that_does_not_say_that_blocks_are_committed_ones_is_refused(
    abfs: Any, azure: Azure, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_module, "SimpleNamespace", lambda value: SimpleNamespace(value="latest"))
    azure.put(*WHERE, large, step=MB)
    assert "cannot keep a blob's blocks" in only_error(add(URL, "id", filesystem=abfs))
    assert content(azure) == large


def test_names_too_short_to_be_told_apart_are_refused(abfs: Any, azure: Azure, large: bytes) -> None:
    azure.put(*WHERE, large)
    azure.waiting[WHERE] = {base64.b64encode(b"0001").decode(): b"theirs"}
    assert "another upload of the blob has begun" in only_error(add(URL, "id", filesystem=abfs))
    assert writes(azure) == []


def test_a_blob_cannot_have_any_number_of_blocks(
    abfs: Any, azure: Azure, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    azure.put(*WHERE, large, step=MB)
    monkeypatch.setattr(azure_module, "MOST_BLOCKS", 7)
    assert "more than 7 blocks" in only_error(add(URL, "id", filesystem=abfs))
    assert content(azure) == large


@pytest.mark.parametrize("step", [100, object_rewrite.TAIL_PART])
def test_an_object_that_is_written_from_nothing(
    abfs: Any, azure: Azure, old: bytes, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(object_rewrite, "TAIL_PART", step)
    (source,) = find(URL, filesystem=abfs)
    with rewrite(source, 0) as out:
        out.copy()
        for i in range(5):
            out.append(bytes([i]) * 100)
        out.commit()
    assert content(azure) == b"".join(bytes([i]) * 100 for i in range(5))


# ---- other writers -----------------------------------------------------------------------


def test_a_blob_that_is_replaced_at_any_moment_stays_theirs(abfs: Any, azure: Azure, old: bytes) -> None:
    etag = azure.blobs[WHERE].headers["ETag"].strip('"')

    def run() -> None:
        with AzureRewrite(abfs, "/".join(WHERE), len(old), etag=etag, target=None) as out:
            out.copy()
            out.append(b"tail")
            out.commit()

    blocks = azure.blobs[WHERE].blocks
    run()
    last = 1 + next(i for i, name in enumerate(azure.names) if name in ("put_blob", "put_block_list"))
    for at in range(1, last + 1):
        azure.put(*WHERE, old)
        azure.blobs[WHERE].headers["ETag"], azure.blobs[WHERE].blocks = f'"{etag}"', blocks
        azure.forget()

        def meddle(number: int, name: str, at: int = at) -> None:
            if number == at:
                azure.put(*WHERE, b"theirs")

        azure.meddle = meddle
        with pytest.raises(ConcurrentChangeError, match="changed since it was read; nothing was written"):
            run()
        assert content(azure) == b"theirs"


def test_a_key_that_another_writer_makes_meanwhile_stays_theirs(abfs: Any, azure: Azure, old: bytes) -> None:
    def meddle(number: int, name: str) -> None:
        if name in ("put_blob", "put_block_list"):
            azure.put("lake", "y.parquet", b"theirs")

    azure.meddle = meddle
    assert "was created meanwhile" in only_error(add(URL, "id", output="abfs://lake/y.parquet", filesystem=abfs))
    assert (content(azure, "y.parquet"), content(azure)) == (b"theirs", old)


# ---- failures ----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["add", "restore"])
def test_a_failure_at_any_request_leaves_the_old_blob(abfs: Any, azure: Azure, old: bytes, verb: str) -> None:
    step = MB if azure.blobs[WHERE].blocks else None
    if verb == "restore":
        add(URL, "id", filesystem=abfs)
    start = content(azure)

    def run() -> Any:
        abfs.invalidate_cache()
        return add(URL, "id", jobs=1, filesystem=abfs) if verb == "add" else drop(URL, restore=True, filesystem=abfs)

    azure.forget()
    assert statuses(run()) == ["written"]
    done, names = content(azure), list(azure.names)
    outcomes = []
    for at in range(1, len(names) + 1):
        azure.put(*WHERE, start, step=step)
        azure.forget()

        def fail(number: int, name: str, at: int = at) -> None:
            if number == at:
                raise Refusal(403, "AuthorizationFailure")

        azure.meddle = fail
        try:
            outcomes.append(statuses(run())[0])
        except OSError:
            outcomes.append("raised")
        is_published = content(azure) != start
        assert content(azure) == (done if is_published else start), names[at - 1]
        assert is_published or outcomes[-1] != "written"
    assert "refused" in outcomes


def test_a_commit_whose_answer_was_lost_is_recognized(abfs: Any, azure: Azure, old: bytes) -> None:
    def after(name: str) -> None:
        if name in ("put_blob", "put_block_list"):
            azure.after = lambda name: None
            raise Refusal(503, "ServerBusy")

    azure.after = after
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    assert content(azure).startswith(old)


# ---- what is inherited, and what is refused -------------------------------------------------

ABOUT = {
    "content_type": "application/vnd.apache.parquet",
    "cache_control": "max-age=60",
    "content_disposition": "attachment",
    "content_encoding": "identity",
    "content_language": "en",
    "x_ms_meta_owner": "somebody",
    "x_ms_access_tier": "Cool",
    "x_ms_encryption_scope": "ours",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_new_blob_is_given_what_the_old_one_had(
    abfs: Any, azure: Azure, blobs: dict[str, bytes], shape: str
) -> None:
    size, step = SHAPES[shape]
    azure.put(*WHERE, blobs[size], step=step, tags="team=lake&a%20b=x", **ABOUT, content_md5="b2xk")
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    blob = azure.blobs[WHERE]
    expected = {name.replace("_", "-"): value for name, value in ABOUT.items()}
    assert {name: blob.headers[name] for name in expected} == expected
    assert "content-md5" not in blob.headers
    assert sorted(blob.tags.replace("+", "%20").split("&")) == ["a%20b=x", "team=lake"]
    if size == "large":
        assert {r.headers["x-ms-encryption-scope"] for r in sent(azure, "put_block")} == {"ours"}


def test_an_inferred_tier_stays_inferred(abfs: Any, azure: Azure, large: bytes) -> None:
    azure.put(*WHERE, large, x_ms_access_tier="Hot", x_ms_access_tier_inferred="true")
    assert statuses(add(URL, "id", filesystem=abfs)) == ["written"]
    assert "x-ms-access-tier" not in azure.blobs[WHERE].headers


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"x_ms_blob_type": "AppendBlob"}, "of type AppendBlob"),
        ({"x_ms_encryption_key_sha256": "abc"}, "customer-provided key"),
        ({"x_ms_legal_hold": "true"}, "immutable"),
        (
            {
                "x_ms_immutability_policy_until_date": "Fri, 01 Jan 2999 00:00:00 GMT",
                "x_ms_immutability_policy_mode": "Unlocked",
            },
            "immutable",
        ),
        ({"x_ms_lease_status": "locked"}, "leased by another client"),
        ({"x_ms_expiry_time": "Fri, 01 Jan 2999 00:00:00 GMT"}, "expiry time"),
    ],
)
def test_what_cannot_be_replaced_is_refused_before_the_first_byte(
    abfs: Any, azure: Azure, large: bytes, headers: dict[str, str], reason: str
) -> None:
    azure.put(*WHERE, large, **headers)
    assert reason in only_error(add(URL, "id", filesystem=abfs))
    assert (writes(azure), content(azure)) == ([], large)


def test_a_blob_that_is_gone_or_has_changed_is_not_rewritten(abfs: Any, azure: Azure, old: bytes) -> None:
    etag = azure.blobs[WHERE].headers["ETag"].strip('"')
    azure.put(*WHERE, old)
    for target in (None, "lake/y.parquet"):
        with pytest.raises(ConcurrentChangeError, match="nothing was written"):
            AzureRewrite(abfs, "/".join(WHERE), len(old), etag=etag, target=target)
    del azure.blobs[WHERE]
    with pytest.raises(ConcurrentChangeError, match="changed since it was read; nothing was written"):
        AzureRewrite(abfs, "/".join(WHERE), len(old), etag=etag, target=None)


def test_a_container_that_does_not_exist_is_named(abfs: Any, azure: Azure, old: bytes) -> None:
    def meddle(number: int, name: str) -> None:
        if azure.requests[-1].parts[1] == "pond":
            raise Refusal(404, "ContainerNotFound")

    azure.meddle = meddle
    assert "ContainerNotFound" in only_error(add(URL, "id", output="abfs://pond/y.parquet", filesystem=abfs))
