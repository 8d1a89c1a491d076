"""Rewrites an object on S3 so that the old bytes never leave the store.

Multipart upload: the old object is copied server side as the first part (in equal ranges above 5 GiB), what is appended
follows, and nothing is visible before Complete. Objects below 5 MiB, the least that a part may have, take a GET and a
PUT. Complete and PUT are conditional on the ETag that was read; a HEAD just before also catches stores that ignore the
condition. (Amazon S3 API: UploadPartCopy, CompleteMultipartUpload, "Multipart upload limits".)

The upload of a killed process stays, invisible and paid for. So that later runs know which uploads are ours, each has a
part of a few bytes with the highest number, `MARK_PART`, which Complete does not list and the store then drops.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from parquet_bloom.errors import ConcurrentChangeError, FilterExistsError, ParquetBloomError, UnsupportedError
from parquet_bloom.storage.store_errors import code_of

CONFIG = {"max_pool_connections": 64, "read_timeout": 120}
"""Ten connections are too few for rounds of reads, and 15 seconds for copying 5 GiB."""

MIN_PART = 5 * 1024 * 1024
"""The minimum size of every part but the last."""

MAX_PART = 5 * 1024 * 1024 * 1024
"""The maximum size of a part."""

TAIL_PART = 64 * 1024 * 1024
"""Appended bytes are uploaded in parts of this size."""

READ_BACK = 16 * 1024 * 1024
"""Appended bytes are read back in pieces of this size."""

MARK_PART, MARK = 10_000, b"parquet_bloom"
"""The part by which our uploads are known: its number and its content."""

LEFT_SECONDS = 3600
"""An upload of ours that got no part for so long is one that a killed process has left."""

_ABORTS = 3

_RETENTION = ("ObjectLockMode", "ObjectLockRetainUntilDate", "ObjectLockLegalHoldStatus")

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
    *_RETENTION,
)
"""What HEAD returns and the new object must be given."""

_CHECKSUMS = ("ChecksumCRC32", "ChecksumCRC32C", "ChecksumCRC64NVME", "ChecksumSHA1", "ChecksumSHA256")
_REFUSALS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


def is_s3(fs: Any) -> bool:
    """Return whether this filesystem is s3fs."""
    return hasattr(fs, "call_s3") and hasattr(fs, "split_path")


def fetch(fs: Any, asked: list[tuple[str, int, int, str]], *, in_flight: int) -> list[bytes | Exception]:
    """Return the bytes of each (path, start, stop, ETag), or the error that it gave; `in_flight` requests run at once.

    An object that is not at its ETag any more is a `ConcurrentChangeError`: bytes of two versions never mix.
    """
    import asyncio

    from fsspec.asyn import sync

    async def one(path: str, start: int, stop: int, etag: str, turn: asyncio.Semaphore) -> bytes:
        if start >= stop:
            return b""
        bucket, key, version = fs.split_path(path)
        span = {"Range": f"bytes={start}-{stop - 1}", "IfMatch": _quoted(etag)}
        async with turn:
            try:
                answer = await fs._call_s3("get_object", Bucket=bucket, Key=key, **_version(version), **span)
            except OSError as error:
                if _is_refusal(error) and not isinstance(error, FileNotFoundError):
                    raise ConcurrentChangeError(f"s3://{path} changed while it was read") from error
                raise
            async with answer["Body"] as body:
                data: bytes = await body.read()
        if answer["ETag"].strip('"') != etag:  # a store that ignores the condition
            raise ConcurrentChangeError(f"s3://{path} changed while it was read")
        return data

    async def all_of_them() -> list[Any]:
        turn = asyncio.Semaphore(in_flight)
        return await asyncio.gather(*(one(*each, turn) for each in asked), return_exceptions=True)

    return list(sync(fs.loop, all_of_them))


def give_reason(fs: Any, path: str) -> None:
    """Raise the store's reason for refusing a path: a listing's error has a message, a HEAD's has none."""
    bucket, key, _ = fs.split_path(path)
    fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=key, MaxKeys=1)


def create(fs: Any, path: str, data: bytes) -> None:
    """Put a new object; raises `FileExistsError` if it exists, also if it was created in the meantime."""
    bucket, key, _ = fs.split_path(path)
    try:
        with _os_errors():
            fs.call_s3("put_object", Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
    except OSError as error:
        # Where only the answer was lost, the call was made again and refused for its own success.
        if _is_refusal(error) and fs.cat_file(path) != data:
            raise FileExistsError(path) from error
        if not _is_refusal(error):
            raise
    fs.invalidate_cache(path)


class S3Rewrite:
    """The rewrite of an S3 object: its first `keep` bytes, then what is appended; see `storage.Rewrite`."""

    def __init__(self, fs: Any, path: str, keep: int, *, etag: str, target: str | None) -> None:
        import hashlib

        self._fs, self._keep, self._etag = fs, keep, etag  # the ETag without its quotes
        self._bucket, self._key, self._version = fs.split_path(path)
        self._target_bucket, self._target_key, _ = fs.split_path(target or path)
        self._in_place = target is None
        self._upload: str | None = None
        self._parts: list[dict[str, Any]] = []
        self._pending = bytearray()
        self._whole: bytes | None = None  # of a small object: what is kept of it
        self._digest = hashlib.sha256()  # of what is appended
        self.position: int = keep
        self.stale: str | None = None
        if self._version and self._in_place:
            raise UnsupportedError("the path names one version of an object, and a version never changes")
        self._head = self._require_unchanged()
        if self._head.get("SSECustomerAlgorithm"):
            raise UnsupportedError(
                "the object is encrypted with a customer-provided key (SSE-C), which would be needed to copy it"
            )
        if not self._in_place and self._exists():
            raise FilterExistsError(f"s3://{target} already exists; choose another path, or remove it first")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pending.clear()
        if self._upload is not None:
            upload, self._upload = self._upload, None
            for _ in range(_ABORTS):
                try:
                    self._to_target("abort_multipart_upload", UploadId=upload)
                except OSError as failure:
                    if code_of(failure) == "NoSuchUpload":
                        return
                else:
                    return
            logging.getLogger("parquet_bloom").warning(
                f"an upload of {self._target_name} may be left in the store; abort it: {upload}"
            )

    def copy(self) -> None:
        """Copy the old object's first `keep` bytes within the store, or fetch them if they are too few for that."""
        if not self._keep:
            self._whole = b""
            return
        if self._keep < MIN_PART:
            span = {"Range": f"bytes=0-{self._keep - 1}", "IfMatch": _quoted(self._etag)}
            self._whole = self._body(self._from_source("get_object", **span))
            if len(self._whole) != self._keep:
                raise self._changed()
            return
        self._begin()
        source = {"Bucket": self._bucket, "Key": self._key, **_version(self._version)}
        for start, stop in _equal_ranges(self._keep):
            number = len(self._parts) + 1
            try:
                answer = self._to_target(
                    "upload_part_copy",
                    UploadId=self._upload,
                    PartNumber=number,
                    CopySource=source,
                    CopySourceRange=f"bytes={start}-{stop - 1}",
                    CopySourceIfMatch=_quoted(self._etag),
                )
            except OSError as error:
                if _is_refusal(error):
                    raise self._changed() from error
                raise
            self._parts.append(_part(number, answer["CopyPartResult"]))

    def _begin(self) -> None:
        attributes = self._attributes()
        try:
            answer = self._to_target("create_multipart_upload", **attributes)
        except OSError as error:
            if left := self._abort_lost():
                raise OSError(f"{error}; {left}") from error
            raise
        self._upload = answer["UploadId"]
        if answer.get("ResponseMetadata", {}).get("RetryAttempts") and (left := self._abort_lost()):
            logging.getLogger("parquet_bloom").warning(left)
        with contextlib.suppress(OSError):  # a store that refuses it would only not clear up
            self._send_part(MARK_PART, MARK)

    def _abort_lost(self) -> str | None:
        """Give up uploads that were begun but whose answers were lost; return a sentence about what may be left.

        They are those of this key that began after our HEAD, by the store's clock, and have no parts: with such an
        upload nothing of anybody is lost.
        """
        from email.utils import parsedate_to_datetime

        name, left = self._target_name, []
        try:
            since = parsedate_to_datetime(self._head["ResponseMetadata"]["HTTPHeaders"]["date"])
            found = self._call("list_multipart_uploads", Bucket=self._target_bucket, Prefix=self._target_key)
            for upload in found.get("Uploads") or ():
                number = upload["UploadId"]
                if upload["Key"] == self._target_key and number != self._upload and upload["Initiated"] >= since:
                    left.append(number)
            for number in list(left):
                if not self._to_target("list_parts", UploadId=number).get("Parts"):
                    self._to_target("abort_multipart_upload", UploadId=number)
                    left.remove(number)
        except (OSError, KeyError, TypeError, ValueError):
            if not left:
                return f"an upload of {name} may be left in the store; list its multipart uploads, and abort it"
        return f"uploads of {name} are left in the store: {', '.join(left)}" if left else None

    def append(self, data: bytes) -> int:
        """Take `data` for the end; return its offset in the new object."""
        if len(self._pending) >= TAIL_PART:
            if self._upload is None and not self._keep:
                self._begin()
            if self._upload is not None:
                self._send_pending()
        start = self.position
        self._pending += data
        self.position += len(data)
        self._digest.update(data)
        return start

    def read(self, start: int, length: int) -> bytes:
        """Return bytes that were just appended; `commit` reads all of them back from the store."""
        at = start - (self.position - len(self._pending))
        return bytes(self._pending[at : at + length])

    def commit(self) -> None:
        """Make the new object visible and read back what was appended, or raise and leave the old one."""
        if self._upload is not None and self._pending:
            self._send_pending()
        self._require_unchanged()
        try:
            etag = self._publish()
        except OSError as error:
            # The answer alone may have been lost; then the call, made again, was refused for its own success.
            has_arrived = self._has_arrived()
            if has_arrived is None:
                raise OSError(f"{error}; whether {self._target_name} was written is not known") from error
            if not has_arrived:
                if _is_refusal(error):
                    raise self._changed() from error
                raise
        else:
            self._read_back(etag)
        self._upload = None
        self._fs.invalidate_cache(f"{self._target_bucket}/{self._target_key}")

    def _publish(self) -> str:
        condition = {"IfMatch": _quoted(self._etag)} if self._in_place else {"IfNoneMatch": "*"}
        if self._upload is None:
            assert self._whole is not None
            body = self._whole + self._pending
            answer = self._to_target("put_object", Body=body, ContentMD5=_md5(body), **self._attributes(), **condition)
        else:
            parts = {"Parts": self._parts}
            answer = self._to_target(
                "complete_multipart_upload", UploadId=self._upload, MultipartUpload=parts, **condition
            )
            self._upload = None
        return str(answer["ETag"]).strip('"')

    def _send_pending(self) -> None:
        number = len(self._parts) + 1
        self._parts.append(_part(number, self._send_part(number, bytes(self._pending))))
        self._pending.clear()

    def _send_part(self, number: int, body: bytes) -> Any:
        return self._to_target(
            "upload_part", UploadId=self._upload, PartNumber=number, Body=body, ContentMD5=_md5(body)
        )

    def _has_arrived(self) -> bool | None:
        """Return whether the new object is there; None if the store does not tell."""
        try:
            etag = str(self._to_target("head_object")["ETag"]).strip('"')
            return not (self._in_place and etag == self._etag) and self._reads_back(etag)
        except FileNotFoundError:
            return False
        except OSError:
            return None

    def _read_back(self, etag: str) -> None:
        """Raise unless the new part of the object at `etag` is what was written."""
        name = self._target_name
        try:
            is_same = self._reads_back(etag)
        except OSError as error:
            if _is_refusal(error):
                raise ConcurrentChangeError(f"{name} was written, and then replaced by another writer") from error
            raise OSError(f"{name} was written, but could not be read back: {error}") from error
        if not is_same:
            raise OSError(f"{name} does not read back as it was written")

    def _reads_back(self, etag: str) -> bool:
        import hashlib

        digest = hashlib.sha256()
        size = self._to_target("head_object", IfMatch=_quoted(etag))["ContentLength"]
        if size != self.position:
            return False
        for start in range(self._keep, self.position, READ_BACK):
            stop = min(start + READ_BACK, self.position)
            span = f"bytes={start}-{stop - 1}"
            data = self._body(self._to_target("get_object", Range=span, IfMatch=_quoted(etag)))
            if len(data) != stop - start:
                raise OSError(f"the store sent {len(data):,} of {stop - start:,} bytes")
            digest.update(data)
        return digest.digest() == self._digest.digest()

    @property
    def _target_name(self) -> str:
        return f"s3://{self._target_bucket}/{self._target_key}"

    def _require_unchanged(self) -> Any:
        try:
            head = self._from_source("head_object")
        except FileNotFoundError:
            raise self._changed() from None
        if head["ETag"].strip('"') != self._etag:
            raise self._changed()
        return head

    def _changed(self) -> ConcurrentChangeError:
        what = f"s3://{self._bucket}/{self._key} changed since it was read"
        if not self._in_place:
            what = f"s3://{self._target_bucket}/{self._target_key} was created meanwhile, or its source changed"
        return ConcurrentChangeError(f"{what}; nothing was written")

    def _exists(self) -> bool:
        try:
            self._to_target("head_object")
        except FileNotFoundError:
            return False
        return True

    def _attributes(self) -> dict[str, Any]:
        attributes = {name: self._head[name] for name in _CARRIED if self._head.get(name) not in (None, {}, "")}
        until = attributes.get("ObjectLockRetainUntilDate")
        if not self._in_place or (until is not None and until <= datetime.now(UTC)):
            attributes = {name: value for name, value in attributes.items() if name not in _RETENTION}
        if self._head.get("TagCount"):
            tags = self._from_source("get_object_tagging")["TagSet"]
            attributes["Tagging"] = urlencode([(tag["Key"], tag["Value"]) for tag in tags])
        return attributes

    def _from_source(self, method: str, **arguments: Any) -> Any:
        return self._call(method, Bucket=self._bucket, Key=self._key, **_version(self._version), **arguments)

    def _to_target(self, method: str, **arguments: Any) -> Any:
        return self._call(method, Bucket=self._target_bucket, Key=self._target_key, **arguments)

    def _call(self, method: str, **arguments: Any) -> Any:
        with _os_errors():
            return self._fs.call_s3(method, **arguments)

    def _body(self, answer: Any) -> bytes:
        from fsspec.asyn import sync

        with _os_errors():
            data: bytes = sync(self._fs.loop, answer["Body"].read)
            return data


def unfinished_uploads(fs: Any, paths: Iterable[str]) -> list[tuple[str, str]]:
    """Return the objects, among `paths`, with a multipart upload that is not finished, and the upload's id.

    Nothing is returned where the store does not let us look.
    """
    keys: dict[str, set[str]] = {}
    for path in paths:
        bucket, key, _ = fs.split_path(path)
        keys.setdefault(bucket, set()).add(key)
    found = []
    for bucket, ours in keys.items():
        shared = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(min(ours), max(ours), strict=False))
        prefix = "".join(letter for letter, _ in shared)
        with contextlib.suppress(Exception):
            answer = fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix)
            uploads = answer.get("Uploads", [])
            found += [(f"s3://{bucket}/{one['Key']}", one["UploadId"]) for one in uploads if one["Key"] in ours]
    return found


def abort_left(fs: Any, paths: Iterable[str]) -> list[str]:
    """Abort the uploads to `paths` that killed processes of ours have left; return the objects' names."""
    aborted = []
    for path, upload in unfinished_uploads(fs, paths):
        bucket, key, _ = fs.split_path(path)
        with contextlib.suppress(Exception):  # somebody else may have ended it, or the store does not let us look
            upload_of = {"Bucket": bucket, "Key": key, "UploadId": upload}
            if _is_left(fs.call_s3("list_parts", **upload_of)):
                fs.call_s3("abort_multipart_upload", **upload_of)
                aborted.append(path)
    return aborted


def _is_left(listed: Mapping[str, Any]) -> bool:
    """Return whether an upload is ours by its mark, and got its last part long ago by the store's clock."""
    from email.utils import parsedate_to_datetime

    parts = listed.get("Parts") or ()
    is_ours = any((part["PartNumber"], part["Size"]) == (MARK_PART, len(MARK)) for part in parts)
    if not is_ours or listed.get("IsTruncated"):
        return False
    now = parsedate_to_datetime(listed["ResponseMetadata"]["HTTPHeaders"]["date"])
    return bool(max(part["LastModified"] for part in parts) < now - timedelta(seconds=LEFT_SECONDS))


@contextlib.contextmanager
def _os_errors() -> Iterator[None]:
    """Turn botocore's connection errors into those that the callers expect."""
    try:
        yield
    except (OSError, ParquetBloomError):
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def _equal_ranges(length: int) -> list[tuple[int, int]]:
    count = -(-length // MAX_PART)
    edges = [length * i // count for i in range(count + 1)]
    return list(itertools.pairwise(edges))


def _part(number: int, answer: Any) -> dict[str, Any]:
    """Return what Complete needs of a part: its ETag, and its checksum if the store keeps one."""
    sums = {name: value for name, value in answer.items() if name in _CHECKSUMS and value}
    return {"PartNumber": number, "ETag": answer["ETag"], **sums}


def _version(version: str | None) -> dict[str, str]:
    return {"VersionId": version} if version else {}


def _quoted(etag: str) -> str:
    return f'"{etag}"'


def _md5(data: bytes) -> str:
    import hashlib

    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _is_refusal(error: OSError) -> bool:
    """Return whether a condition was not met: the object was replaced, created or removed in the meantime."""
    answer = getattr(error.__cause__, "response", None) or {}
    return isinstance(error, FileNotFoundError) or answer.get("Error", {}).get("Code") in _REFUSALS
