"""Rewrites a blob on Azure so that the old bytes never leave the store.

A block blob is a list of blocks. What is appended is staged as new blocks, which nobody sees. One Put Block List then
names the old blocks and the new ones, if the blob still has the ETag that was read. Of a blob whose blocks the store
does not tell (it was written in one request, or is copied to another name), the old bytes are staged by Put Block From
URL: the store reads them from itself. If it refuses that, they go through this machine. Blobs below 5 MiB take a GET
and a conditional Put Blob. Blocks that are never named in a list are removed by the store after a week. (Azure Blob
Storage REST API: Get Block List, Put Block, Put Block From URL, Put Block List.)
"""

from __future__ import annotations

import base64
import binascii
import itertools
import logging
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

from parquet_bloom.errors import FilterExistsError, ParquetBloomError, UnsupportedError
from parquet_bloom.storage.object_rewrite import ObjectRewrite

LOG = logging.getLogger("parquet_bloom")

MIN_BLOCKS = 5 * 1024 * 1024
"""Below this, a GET and one Put Blob are less than blocks and their list."""

COPY_BLOCK = 256 * 1024 * 1024
"""The store copies blocks of this size from itself."""

READ_BLOCK = 32 * 1024 * 1024
"""Blocks of this size are read and staged again where the store does not copy."""

MOST_BLOCKS = 50_000
"""How many blocks a blob may have."""

MOST_IN_ONE_PUT = 5000 * 1024 * 1024
"""The largest blob that one Put Blob writes."""

_USUAL_PUT = 64 * 1024 * 1024
"""Up to this size the library sends a blob in one request anyway."""

_SCOPE = "https://storage.azure.com/.default"
_NAME_BYTES = 32
_SHORTEST_NAME = 8  # random names any shorter may be those of another writer
_DATA_LAKE = ("x-ms-owner", "x-ms-permissions", "x-ms-resource-type")
"""Headers that a store with a hierarchical namespace sends."""

_REFUSALS = {
    "BlobAlreadyExists",
    "BlobNotFound",
    "ConditionNotMet",
    "InvalidBlockList",  # another writer's list has removed our blocks
    "SourceConditionNotMet",
    "TargetConditionNotMet",
}


def is_azure(fs: Any) -> bool:
    """Return whether this filesystem is adlfs."""
    return "abfs" in getattr(fs, "protocol", ()) and hasattr(fs, "service_client") and hasattr(fs, "split_path")


class AzureRewrite(ObjectRewrite):
    """The rewrite of a block blob on Azure: its first `keep` bytes, then what is appended."""

    def __init__(self, fs: Any, path: str, keep: int, *, etag: str, target: str | None) -> None:
        self._fs = fs
        self._from: tuple[str, str] = tuple(fs.split_path(path)[:2])
        self._to: tuple[str, str] = tuple(fs.split_path(target or path)[:2])
        super().__init__(_name(self._from), _name(self._to), keep, etag)
        self._kept: list[str] = []  # committed blocks of the old blob
        self._staged: list[str] = []
        self._name_bytes = _NAME_BYTES
        self._head, self._headers = self._properties()
        if reason := self._why_not():
            raise UnsupportedError(reason)
        if not self._in_place and self._exists():
            raise FilterExistsError(f"{self._target} already exists; choose another path, or remove it first")
        self._tags = self._read_tags()

    def copy(self) -> None:
        """Have the store keep or copy the old blob's first `keep` bytes, or fetch them where it cannot."""
        if self._keep < MIN_BLOCKS:
            self._whole = self._read_source(0, self._keep) if self._keep else b""
            return
        start = self._take_blocks()
        if start < self._keep and self._is_data_lake:
            # What the Data Lake API wrote has no blocks, and a list of blocks is refused as its successor.
            if self._keep > MOST_IN_ONE_PUT:
                raise UnsupportedError(
                    "the file is larger than one Put Blob, and in a store with a hierarchical namespace a list of "
                    "blocks cannot replace it; write it elsewhere"
                )
            LOG.warning("%s: its blocks are not known, so the whole file goes through this machine", self._source)
            self._whole = b"".join(self._read_source(*span) for span in _ranges(0, self._keep, READ_BLOCK))
        elif start < self._keep:
            self._stage_old(start)

    def _why_not(self) -> str | None:
        head = self._head
        kind = getattr(head.blob_type, "value", head.blob_type)
        if kind != "BlockBlob":
            return f"the blob is of type {kind}; only block blobs can be rewritten"
        if head.encryption_key_sha256:
            return "the blob is encrypted with a customer-provided key, which would be needed to copy it"
        if not self._in_place:
            return None
        until = head.immutability_policy.expiry_time
        if head.has_legal_hold or (until is not None and _as_time(until) > datetime.now(UTC)):
            return "the blob is immutable: it has a legal hold, or a policy that has not expired"
        if head.lease.status == "locked":
            return "the blob is leased by another client, and cannot be replaced before the lease ends"
        if "x-ms-expiry-time" in self._headers:
            return "the blob has an expiry time, which its successor would not have; write it elsewhere"
        return None

    @property
    def _is_data_lake(self) -> bool:
        return any(name in self._headers for name in _DATA_LAKE)

    @property
    def _may_split(self) -> bool:
        return super()._may_split and not self._is_data_lake

    # ---- the old bytes -------------------------------------------------------------------

    def _take_blocks(self) -> int:
        """Take the old blob's own blocks, as far as they are within what is kept; return where they end."""
        if not self._in_place:
            return 0
        committed, waiting = self._blocks()
        lengths = {_name_length(name) for name in waiting}
        end, kept = 0, []
        for name, size in committed:
            # azure-storage-blob can name only blocks whose names are text.
            if end + size > self._keep or not _is_text(name):
                break
            end += size
            kept.append(name)
        lengths_kept = lengths | {_name_length(name) for name in kept}
        if kept and len(lengths_kept) == 1 and min(lengths_kept) >= _SHORTEST_NAME:
            self._kept, lengths = kept, lengths_kept
        else:
            end = 0
        if lengths and (len(lengths) > 1 or min(lengths) < _SHORTEST_NAME):
            raise UnsupportedError(
                "another upload of the blob has begun, with block names that ours cannot stand beside"
            )
        self._name_bytes = next(iter(lengths), _NAME_BYTES)
        return end

    def _blocks(self) -> tuple[list[tuple[str, int]], list[str]]:
        """Return the names in base64 and sizes of the blob's blocks, and the names of those in no list yet."""
        pages: list[bytes] = []

        def keep_page(response: Any) -> None:
            pages.append(response.http_response.body())

        self._run(self._to, lambda client: client.get_block_list("all", raw_response_hook=keep_page))
        tree = ElementTree.fromstring(pages[-1])
        found = {
            kind: [(block.findtext("Name", ""), int(block.findtext("Size", "0"))) for block in tree.iter("Block")]
            for kind, tree in ((part.tag, part) for part in tree)
        }
        return found.get("CommittedBlocks", []), [name for name, _ in found.get("UncommittedBlocks", [])]

    def _stage_old(self, start: int) -> None:
        try:
            url, authorization = self._source_url()
            for first, stop in _ranges(start, self._keep, COPY_BLOCK):
                self._stage_from(url, authorization, first, stop)
        except (OSError, UnsupportedError) as error:
            if isinstance(error, OSError) and self._is_refusal(error):
                raise self._changed() from error
            LOG.warning("%s: the store does not copy (%s), so the file goes through this machine", self._source, error)
        else:
            return
        self._staged.clear()
        for first, stop in _ranges(start, self._keep, READ_BLOCK):
            self._stage(self._read_source(first, stop))

    def _stage_from(self, url: str, authorization: str | None, start: int, stop: int) -> None:
        name = self._new_block()
        self._run(
            self._to,
            lambda client: client.stage_block_from_url(
                name,
                url,
                source_offset=start,
                source_length=stop - start,
                source_authorization=authorization,
                headers={"x-ms-source-if-match": _quoted(self._old)},
                **self._encryption,
            ),
        )
        self._staged.append(name)

    def _source_url(self) -> tuple[str, str | None]:
        """Return a URL by which the store can read the old blob for us, and what authorizes that, if not the URL."""
        from azure.storage.blob import BlobSasPermissions, generate_blob_sas
        from fsspec.asyn import sync

        credential = self._fs.service_client.credential
        url = self._fs.service_client.get_blob_client(*self._from).url
        if "sig=" in url:
            return url, None
        if hasattr(credential, "get_token"):
            token = sync(self._fs.loop, credential.get_token, _SCOPE)
            return url, f"Bearer {token.token}"
        if signature := getattr(credential, "signature", None):
            return f"{url}?{signature.lstrip('?')}", None
        if key := getattr(credential, "account_key", None):
            signature = generate_blob_sas(
                credential.account_name,
                *self._from,
                account_key=key,
                permission=BlobSasPermissions(read=True),
                expiry=datetime.now(UTC) + timedelta(hours=6),
            )
            return f"{url}?{signature}", None
        raise UnsupportedError("the credential cannot sign a URL for it")

    # ---- the tail, and publishing ----------------------------------------------------------

    def _send_pending(self) -> None:
        self._stage(bytes(self._pending))
        self._pending.clear()

    def _stage(self, data: bytes) -> None:
        name = self._new_block()
        self._run(
            self._to,
            lambda client: client.stage_block(name, data, len(data), validate_content=True, **self._encryption),
        )
        self._staged.append(name)

    def _new_block(self) -> str:
        if len(self._kept) + len(self._staged) >= MOST_BLOCKS:
            raise UnsupportedError(f"the blob would have more than {MOST_BLOCKS:,} blocks; write it elsewhere")
        return os.urandom(self._name_bytes).hex()[: self._name_bytes]

    def _publish(self) -> str:
        from azure.core import MatchConditions
        from azure.storage.blob import BlobBlock
        from azure.storage.blob.aio import BlobClient

        condition: dict[str, Any] = {"match_condition": MatchConditions.IfMissing}
        if self._in_place:
            condition = {"match_condition": MatchConditions.IfNotModified, "etag": _quoted(self._old)}
        attributes = self._attributes()
        if self._whole is None:
            # The library compares a state with "committed", which its own enumeration spells otherwise.
            blocks = [BlobBlock(base64.b64decode(name).decode()) for name in self._kept]
            for block in blocks:
                block.state = SimpleNamespace(value="committed")
            blocks += [BlobBlock(name) for name in self._staged]
            request = {**attributes, **condition, "raw_request_hook": self._require_committed}
            answer = self._run(self._to, lambda client: client.commit_block_list(blocks, **request))
            return _bare(answer["etag"])

        body = self._whole + self._pending
        if len(body) > MOST_IN_ONE_PUT:
            raise UnsupportedError("the new file is larger than one Put Blob; write it elsewhere")

        async def put(client: Any) -> Any:
            if len(body) <= _USUAL_PUT:
                return await client.upload_blob(body, overwrite=self._in_place, **attributes, **condition)
            # A client of its own sends the blob in one request, whatever its size.
            whole = BlobClient.from_blob_url(
                client.url, credential=client.credential, max_single_put_size=MOST_IN_ONE_PUT
            )
            async with whole:
                return await whole.upload_blob(body, overwrite=self._in_place, **attributes, **condition)

        return _bare(self._run(self._to, put)["etag"])

    def _require_committed(self, request: Any) -> None:
        """Raise unless the old blocks are named as such.

        By their names alone, blocks that another writer has staged meanwhile would be taken for them.
        """
        body = request.http_request.body
        text = body.decode() if isinstance(body, bytes) else str(body)
        if text.count("<Committed>") != len(self._kept):
            raise UnsupportedError("this version of azure-storage-blob cannot keep a blob's blocks")

    def _attributes(self) -> dict[str, Any]:
        from azure.storage.blob import ContentSettings, StandardBlobTier

        head, old = self._head, self._head.content_settings
        attributes = {"metadata": head.metadata, "tags": self._tags, "validate_content": True, **self._encryption}
        attributes["content_settings"] = ContentSettings(  # without the old bytes' MD5
            content_type=old.content_type,
            content_encoding=old.content_encoding,
            content_language=old.content_language,
            content_disposition=old.content_disposition,
            cache_control=old.cache_control,
        )
        if head.blob_tier and not head.blob_tier_inferred and head.blob_tier in StandardBlobTier._value2member_map_:
            attributes["standard_blob_tier"] = StandardBlobTier(head.blob_tier)
        return attributes

    @property
    def _encryption(self) -> dict[str, Any]:
        return {"encryption_scope": scope} if (scope := self._head.encryption_scope) else {}

    # ---- the store -----------------------------------------------------------------------

    def _properties(self) -> tuple[Any, dict[str, str]]:
        """Return what the store says of the old blob, and the headers that the library leaves out of it."""
        headers: dict[str, str] = {}

        def keep_headers(response: Any) -> None:
            headers.update({name.lower(): value for name, value in response.http_response.headers.items()})

        try:
            head = self._run(self._from, lambda client: client.get_blob_properties(raw_response_hook=keep_headers))
        except FileNotFoundError:
            raise self._changed() from None
        if _bare(head.etag) != self._old:
            raise self._changed()
        return head, headers

    def _read_tags(self) -> dict[str, str] | None:
        if not int(self._head.tag_count or 0):
            return None
        tags: dict[str, str] = self._run(self._from, lambda client: client.get_blob_tags())
        return tags

    def _require_unchanged(self) -> None:
        self._properties()

    def _exists(self) -> bool:
        try:
            self._head_target()
        except FileNotFoundError:
            return False
        return True

    def _head_target(self) -> tuple[str, int]:
        head = self._run(self._to, lambda client: client.get_blob_properties())
        return _bare(head.etag), head.size

    def _read_target(self, version: str, start: int, stop: int) -> bytes:
        return self._read(self._to, version, start, stop)

    def _read_source(self, start: int, stop: int) -> bytes:
        try:
            data = self._read(self._from, self._old, start, stop)
        except OSError as error:
            if self._is_refusal(error):
                raise self._changed() from error
            raise
        if len(data) != stop - start:
            raise self._changed()
        return data

    def _read(self, where: tuple[str, str], etag: str, start: int, stop: int) -> bytes:
        from azure.core import MatchConditions

        condition = {"etag": _quoted(etag), "match_condition": MatchConditions.IfNotModified}

        async def read(client: Any) -> bytes:
            stream = await client.download_blob(offset=start, length=stop - start, **condition)
            data: bytes = await stream.readall()
            return data

        return bytes(self._run(where, read))

    def _run(self, where: tuple[str, str], work: Callable[[Any], Awaitable[Any]]) -> Any:
        """Return what a request about a blob returns; errors of the store's library become OSErrors."""
        from fsspec.asyn import sync

        async def request() -> Any:
            async with self._fs.service_client.get_blob_client(*where) as client:
                return await work(client)

        try:
            return sync(self._fs.loop, request)
        except (OSError, ParquetBloomError):
            raise
        except Exception as error:
            code = _code(error)
            text = f"{code or type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            is_absent = getattr(error, "status_code", None) == 404 and code in (None, "BlobNotFound")
            raise (FileNotFoundError if is_absent else OSError)(text) from error

    @staticmethod
    def _is_refusal(error: OSError) -> bool:
        return isinstance(error, FileNotFoundError) or _code(error.__cause__) in _REFUSALS

    def _clean_up(self) -> None:
        self._fs.invalidate_cache(self._fs._parent("/".join(self._to)))


def _code(error: BaseException | None) -> str | None:
    code = getattr(error, "error_code", None)
    return None if code is None else str(getattr(code, "value", code))


def _as_time(value: datetime | str) -> datetime:
    """Return a time that some versions of the library give as HTTP's text."""
    from email.utils import parsedate_to_datetime

    return parsedate_to_datetime(value) if isinstance(value, str) else value


def _ranges(start: int, stop: int, step: int) -> list[tuple[int, int]]:
    return list(itertools.pairwise([*range(start, stop, step), stop]))


def _is_text(name: str) -> bool:
    try:
        return base64.b64encode(base64.b64decode(name).decode().encode()).decode() == name
    except ValueError:
        return False


def _name_length(name: str) -> int:
    try:
        return len(base64.b64decode(name))
    except binascii.Error:
        return 0


def _bare(etag: str) -> str:
    return etag.strip('"')


def _quoted(etag: str) -> str:
    return f'"{etag}"'


def _name(where: tuple[str, str]) -> str:
    return "abfs://" + "/".join(where)
