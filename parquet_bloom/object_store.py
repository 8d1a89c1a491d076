"""Rewrites an object on S3 so that the old bytes never leave the store.

Multipart upload: the old object is copied server side as the first part (in equal ranges above 5 GiB), what is appended
follows, and nothing is visible before Complete. Objects below 5 MiB, the least that a part may have, take a GET and a
PUT. Complete and PUT are conditional on the ETag that was read; a HEAD just before also catches stores that ignore the
condition. (Amazon S3 API: UploadPartCopy, CompleteMultipartUpload, "Multipart upload limits".)
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from parquet_bloom.errors import ConcurrentChangeError, FilterExistsError

MIN_PART = 5 * 1024 * 1024
"""The least that every part but the last must have."""

MAX_PART = 5 * 1024 * 1024 * 1024
"""The most that one part may have."""

TAIL_PART = 64 * 1024 * 1024
"""What is appended is uploaded whenever this much has gathered."""

_CARRIED = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "Expires",
    "Metadata",
    "StorageClass",
    "ServerSideEncryption",
    "SSEKMSKeyId",
    "BucketKeyEnabled",
    "WebsiteRedirectLocation",
    "ObjectLockMode",
    "ObjectLockRetainUntilDate",
    "ObjectLockLegalHoldStatus",
)
"""What HEAD tells of an object and the new one must be given again."""


def is_s3(fs: Any) -> bool:
    """Return whether this filesystem is s3fs."""
    return hasattr(fs, "call_s3") and hasattr(fs, "split_path")


def fetch(fs: Any, asked: list[tuple[str, int, int, str]]) -> list[bytes | Exception]:
    """Return the bytes of each (path, start, stop, ETag), all asked for at once, or the error that it gave.

    An object that is not at its ETag any more is a `ConcurrentChangeError`: bytes of two versions never mix.
    """
    import asyncio

    from fsspec.asyn import sync

    async def one(path: str, start: int, stop: int, etag: str) -> bytes:
        bucket, key, _ = fs.split_path(path)
        try:
            answer = await fs._call_s3(
                "get_object", Bucket=bucket, Key=key, Range=f"bytes={start}-{stop - 1}", IfMatch=_quoted(etag)
            )
        except OSError as error:
            if _is_condition(error):
                raise ConcurrentChangeError(f"s3://{path} changed while it was read") from error
            raise
        async with answer["Body"] as body:
            data: bytes = await body.read()
        if answer["ETag"].strip('"') != etag:
            raise ConcurrentChangeError(f"s3://{path} changed while it was read")
        return data

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(one(*each) for each in asked), return_exceptions=True)

    return list(sync(fs.loop, all_of_them))


class S3Rewrite:
    """The rewrite of an S3 object: its first `keep` bytes, then what is appended; see `storage.Rewrite`."""

    def __init__(self, fs: Any, path: str, keep: int, *, etag: str, target: str | None) -> None:
        self._fs, self._keep, self._etag = fs, keep, etag  # the ETag without its quotes
        self._bucket, self._key, _ = fs.split_path(path)
        self._target_bucket, self._target_key, _ = fs.split_path(target or path)
        self._in_place = target is None
        self._upload: str | None = None
        self._parts: list[dict[str, Any]] = []
        self._pending = bytearray()
        self._whole: bytes | None = None  # of a small object: what is kept of it
        self._digests: list[tuple[int, int, bytes]] = []
        self.position = keep
        self.stale: str | None = None
        self._head = self._require_unchanged()
        if not self._in_place and self._exists():
            raise FilterExistsError(f"s3://{target} exists; name a path that does not, or remove it first")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._upload is not None:
            upload, self._upload = self._upload, None
            with contextlib.suppress(OSError):
                self._call("abort_multipart_upload", UploadId=upload)

    def copy(self) -> None:
        """Copy the old object's first `keep` bytes within the store, or fetch them if they are too few for that."""
        if self._keep < MIN_PART:
            answer = self._fs.call_s3(
                "get_object",
                Bucket=self._bucket,
                Key=self._key,
                Range=f"bytes=0-{self._keep - 1}",
                IfMatch=_quoted(self._etag),
            )
            self._whole = _body(self._fs, answer)
            if len(self._whole) != self._keep:
                raise ConcurrentChangeError(f"s3://{self._bucket}/{self._key} became shorter; nothing was written")
            return
        self._upload = self._call("create_multipart_upload", **self._attributes())["UploadId"]
        source = {"Bucket": self._bucket, "Key": self._key}
        for start, stop in _equal_ranges(self._keep):
            number = len(self._parts) + 1
            answer = self._call(
                "upload_part_copy",
                UploadId=self._upload,
                PartNumber=number,
                CopySource=source,
                CopySourceRange=f"bytes={start}-{stop - 1}",
                CopySourceIfMatch=_quoted(self._etag),
            )
            self._parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})

    def append(self, data: bytes) -> int:
        """Take `data` for the end; return its offset in the new object."""
        if self._upload is not None and len(self._pending) >= TAIL_PART:
            self._send_pending()
        start = self.position
        self._pending += data
        self.position += len(data)
        self._digests.append((start, len(data), hashlib.sha256(data).digest()))
        return start

    def read(self, start: int, length: int) -> bytes:
        """Return bytes that were just appended; `commit` reads all of them back from the store."""
        at = start - (self.position - len(self._pending))
        return bytes(self._pending[at : at + length])

    def commit(self) -> None:
        """Make the new object visible and read back what was appended, or raise and leave the old one."""
        condition = {"IfMatch": _quoted(self._etag)} if self._in_place else {"IfNoneMatch": "*"}
        if self._upload is not None:
            self._send_pending()
        self._require_unchanged()
        try:
            if self._upload is None:
                assert self._whole is not None
                body = self._whole + self._pending
                self._call("put_object", Body=body, ContentMD5=_md5(body), **self._attributes(), **condition)
            else:
                parts = {"Parts": self._parts}
                self._call("complete_multipart_upload", UploadId=self._upload, MultipartUpload=parts, **condition)
                self._upload = None
        except OSError as error:
            if _is_condition(error):
                raise self._changed() from error
            raise
        self._fs.invalidate_cache(f"{self._target_bucket}/{self._target_key}")
        self._fs.invalidate_cache(self._target_bucket)
        self._read_back()

    def _send_pending(self) -> None:
        if not self._pending:
            return
        number, body = len(self._parts) + 1, bytes(self._pending)
        answer = self._call("upload_part", UploadId=self._upload, PartNumber=number, Body=body, ContentMD5=_md5(body))
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})
        self._pending.clear()

    def _read_back(self) -> None:
        for start, length, digest in self._digests:
            span = f"bytes={start}-{start + length - 1}"
            stored = _body(self._fs, self._call("get_object", Range=span))
            if hashlib.sha256(stored).digest() != digest:
                raise OSError(f"s3://{self._target_bucket}/{self._target_key} does not read back as it was written")

    def _require_unchanged(self) -> Any:
        try:
            head = self._fs.call_s3("head_object", Bucket=self._bucket, Key=self._key)
        except FileNotFoundError:
            raise self._changed() from None
        if head["ETag"].strip('"') != self._etag:
            raise self._changed()
        return head

    def _changed(self) -> ConcurrentChangeError:
        what = f"s3://{self._bucket}/{self._key} changed since it was read"
        if not self._in_place:
            what = f"s3://{self._target_bucket}/{self._target_key} was made meanwhile, or its source changed"
        return ConcurrentChangeError(f"{what}; nothing was written")

    def _exists(self) -> bool:
        try:
            self._call("head_object")
        except FileNotFoundError:
            return False
        return True

    def _attributes(self) -> dict[str, Any]:
        found = {name: self._head[name] for name in _CARRIED if self._head.get(name) not in (None, {}, "")}
        if self._head.get("TagCount"):
            tags = self._fs.call_s3("get_object_tagging", Bucket=self._bucket, Key=self._key)["TagSet"]
            found["Tagging"] = urlencode([(tag["Key"], tag["Value"]) for tag in tags])
        return found

    def _call(self, method: str, **arguments: Any) -> Any:
        return self._fs.call_s3(method, Bucket=self._target_bucket, Key=self._target_key, **arguments)


def _equal_ranges(length: int) -> list[tuple[int, int]]:
    count = -(-length // MAX_PART)
    edges = [length * i // count for i in range(count + 1)]
    return list(zip(edges, edges[1:], strict=False))


def _body(fs: Any, answer: Any) -> bytes:
    from fsspec.asyn import sync

    data: bytes = sync(fs.loop, answer["Body"].read)
    return data


def _quoted(etag: str) -> str:
    return f'"{etag}"'


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _is_condition(error: OSError) -> bool:
    text = f"{error} {error.__cause__}"
    return "PreconditionFailed" in text or "ConditionalRequestConflict" in text or "412" in text
