"""Rewrites an object on Google Cloud Storage so that the old bytes never leave the store.

What is appended goes up as temporary objects with hidden names. One `compose` joins the old object and these into the
new one, if the old object is still at the generation and metageneration that were read. The temporary objects are then
removed. Objects below 5 MiB take a GET and a conditional upload. A compose takes whole objects, so a shorter prefix
(`drop --restore`) is read and uploaded again. (Cloud Storage JSON API: Objects: compose, insert, rewrite.)
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import logging
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from parquet_bloom.errors import FilterExistsError, ParquetBloomError, UnsupportedError
from parquet_bloom.storage import object_rewrite
from parquet_bloom.storage.object_rewrite import ObjectRewrite

LOG = logging.getLogger("parquet_bloom")

MIN_COMPOSED = 5 * 1024 * 1024
"""Below this, a GET and an upload are less than an upload, a compose and a removal."""

MOST_COMPONENTS = 32
"""How many objects one compose takes."""

_CARRIED = (
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "contentType",
    "customTime",
    "metadata",
    "storageClass",
)
"""What the new object must be given again."""

_SUFFIX = ".parquet-bloom.tmp"
_STALE = timedelta(days=1)
"""A temporary object that is older belongs to no run."""

_REMOVALS = 3


def is_gcs(fs: Any) -> bool:
    """Return whether this filesystem is gcsfs."""
    return "gs" in getattr(fs, "protocol", ()) and hasattr(fs, "call") and hasattr(fs, "split_path")


class GcsRewrite(ObjectRewrite):
    """The rewrite of an object on Google Cloud Storage: its first `keep` bytes, then what is appended."""

    def __init__(self, fs: Any, path: str, keep: int, *, size: int, generation: str, target: str | None) -> None:
        self._fs, self._is_prefix = fs, keep < size
        self._from: tuple[str, str] = tuple(fs.split_path(path)[:2])
        self._to: tuple[str, str] = tuple(fs.split_path(target or path)[:2])
        super().__init__(_name(self._from), _name(self._to), keep, generation)
        self._began: dict[str, str | None] = {}  # temporary objects, and their generations where they are known
        self._parts: list[str] = []
        self._head = self._full_head()
        if reason := self._why_not():
            raise UnsupportedError(reason)
        if not self._in_place and self._exists():
            raise FilterExistsError(f"{self._target} already exists; choose another path, or remove it first")
        if not self._is_small:
            self._remove_stale()

    def copy(self) -> None:
        """Prepare the copy: a compose needs nothing for it, unless it takes place in another bucket."""
        if self._is_small:
            self._whole = self._read_source(0, self._keep) if self._keep else b""
        elif self._is_prefix:
            for start in range(0, self._keep, object_rewrite.TAIL_PART):
                self._send(self._read_source(start, min(start + object_rewrite.TAIL_PART, self._keep)))
        elif self._from[0] != self._to[0]:
            self._copy_to_bucket()

    def _why_not(self) -> str | None:
        head = self._head
        if head.get("customerEncryption"):
            return "the object is encrypted with a customer-supplied key, which would be needed to copy it"
        if head.get("storageClass") == "RAPID":
            return "the object is in a zonal bucket, whose objects cannot be composed"
        if head.get("eventBasedHold") or (head.get("temporaryHold") and self._in_place):
            return "the object is under a hold, which keeps it or its temporary copy in place; release the hold first"
        until = head.get("retentionExpirationTime") or head.get("retention", {}).get("retainUntilTime")
        if until and self._in_place and datetime.fromisoformat(until) > datetime.now(UTC):
            return f"the object is retained until {until}, and cannot be replaced before"
        if until and not head.get("retention") and not self._is_small:
            return "the bucket retains its objects, so the temporary object for the copy could not be removed"
        return None

    @property
    def _is_small(self) -> bool:
        return self._keep < MIN_COMPOSED

    # ---- the parts -----------------------------------------------------------------------

    def _send_pending(self) -> None:
        self._send(bytes(self._pending))
        self._pending.clear()

    def _send(self, data: bytes) -> None:
        name = self._new_part()
        answer = self._upload(name, data, self._part_attributes, "0", predefinedAcl=self._private)
        self._began[name] = answer["generation"]
        self._parts.append(name)

    def _new_part(self) -> str:
        """Return a new temporary name; as many parts as one compose takes are made one before."""
        if len(self._parts) == MOST_COMPONENTS - 1:
            joined, parts = self._temporary_name(), list(self._parts)
            self._began[joined] = None
            self._began[joined] = self._compose(
                joined, [self._component(part) for part in parts], self._part_attributes, "0", self._private
            )
            self._parts = [joined]
            for part in parts:
                self._remove(part)
        name = self._temporary_name()
        self._began[name] = None
        return name

    def _temporary_name(self) -> str:
        return f"{self._temporary_prefix}{os.urandom(8).hex()}{_SUFFIX}"

    @property
    def _temporary_prefix(self) -> str:
        folder, slash, base = self._to[1].rpartition("/")
        return f"{folder}{slash}.{base[:64]}."

    @property
    def _part_attributes(self) -> dict[str, Any]:
        """The components of a compose must have one storage class."""
        return {name: self._head[name] for name in ("storageClass",) if name in self._head}

    @property
    def _private(self) -> str | None:
        """Nobody else reads a temporary object; where access is the bucket's alone, the store refuses to be told."""
        return "private" if "acl" in self._head else None

    def _component(self, name: str) -> dict[str, Any]:
        generation = self._began[name]
        return {"name": name, "generation": generation, "objectPreconditions": {"ifGenerationMatch": generation}}

    def _copy_to_bucket(self) -> None:
        name = self._new_part()
        token = None
        while True:
            answer = self._call(
                "POST",
                "b/{}/o/{}/rewriteTo/b/{}/o/{}",
                *(*self._from, self._to[0], name),
                json=self._part_attributes,
                json_out=True,
                sourceGeneration=self._old,
                ifGenerationMatch="0",
                destinationPredefinedAcl=self._private,
                destinationKmsKeyName=self._key,
                rewriteToken=token,
            )
            if answer["done"]:
                break
            token = answer["rewriteToken"]
        self._began[name] = answer["resource"]["generation"]
        self._parts.append(name)

    # ---- publishing ----------------------------------------------------------------------

    def _publish(self) -> str:
        condition = self._old if self._in_place else "0"
        unchanged = {"ifMetagenerationMatch": self._head.get("metageneration")} if self._in_place else {}
        if self._whole is not None:
            body = self._whole + self._pending
            return str(self._upload(self._to[1], body, self._attributes(), condition, **unchanged)["generation"])
        components = [self._component(part) for part in self._parts]
        if not self._is_prefix and self._from[0] == self._to[0]:
            here = {"ifGenerationMatch": self._old}
            components.insert(0, {"name": self._from[1], "generation": self._old, "objectPreconditions": here})
        return self._compose(self._to[1], components, self._attributes(), condition, **unchanged)

    def _compose(
        self,
        name: str,
        components: list[dict[str, Any]],
        attributes: dict[str, Any],
        generation: str,
        acl: str | None = None,
        **conditions: Any,
    ) -> str:
        answer = self._call(
            "POST",
            "b/{}/o/{}/compose",
            *(self._to[0], name),
            json={"sourceObjects": components, "destination": attributes},
            json_out=True,
            ifGenerationMatch=generation,
            destinationPredefinedAcl=acl,
            kmsKeyName=self._key,
            **conditions,
        )
        return str(answer["generation"])

    def _upload(self, name: str, data: bytes, attributes: dict[str, Any], generation: str, **options: Any) -> Any:
        """Return what the store says of an object that it was sent in one request, checked by its MD5."""
        digest = base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
        about = json.dumps({**attributes, "name": name, "md5Hash": digest}).encode()
        edge = os.urandom(16).hex().encode()
        kind = attributes.get("contentType", "application/octet-stream").encode()
        body = b"".join(
            (
                *(b"--", edge, b"\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n", about),
                *(b"\r\n--", edge, b"\r\nContent-Type: ", kind, b"\r\n\r\n", data, b"\r\n--", edge, b"--\r\n"),
            )
        )
        try:
            return self._call(
                "POST",
                f"{self._fs._location}/upload/storage/v1/b/{{}}/o",
                self._to[0],
                headers={"Content-Type": f"multipart/related; boundary={edge.decode()}"},
                data=_Body(body),
                json_out=True,
                uploadType="multipart",
                ifGenerationMatch=generation,
                kmsKeyName=self._key,
                **options,
            )
        except FileExistsError:
            # Of a name that nobody else knows it is our own upload, whose answer was lost.
            if name in self._began and (found := self._metadata(self._to[0], name)).get("md5Hash") == digest:
                return found
            raise

    @property
    def _key(self) -> str | None:
        """The name of Cloud KMS's key, without the version that the object has."""
        name: str | None = self._head.get("kmsKeyName")
        return name.partition("/cryptoKeyVersions/")[0] if name else None

    def _attributes(self) -> dict[str, Any]:
        attributes = {name: self._head[name] for name in _CARRIED if name in self._head}
        if acl := self._head.get("acl"):
            attributes["acl"] = [{"entity": one["entity"], "role": one["role"]} for one in acl]
        if contexts := self._head.get("contexts", {}).get("custom"):
            attributes["contexts"] = {"custom": {name: {"value": one["value"]} for name, one in contexts.items()}}
        return attributes

    # ---- the store -----------------------------------------------------------------------

    def _full_head(self) -> Any:
        """Return the object's metadata, with who may read it where the store tells."""
        try:
            head = self._metadata(*self._from, projection="full")
        except FileNotFoundError:
            raise self._changed() from None
        except OSError as error:
            if "Forbidden" not in str(error):
                raise
            head = self._metadata(*self._from)
            LOG.warning("%s: who may read it cannot be seen; the new object gets the bucket's default", self._source)
        if head["generation"] != self._old:
            raise self._changed()
        return head

    def _require_unchanged(self) -> None:
        try:
            generation = self._metadata(*self._from)["generation"]
        except FileNotFoundError:
            raise self._changed() from None
        if generation != self._old:
            raise self._changed()

    def _exists(self) -> bool:
        try:
            self._metadata(*self._to)
        except FileNotFoundError:
            return False
        return True

    def _head_target(self) -> tuple[str, int]:
        head = self._metadata(*self._to)
        return head["generation"], int(head["size"])

    def _read_target(self, version: str, start: int, stop: int) -> bytes:
        return self._read(self._to, version, start, stop)

    def _read_source(self, start: int, stop: int) -> bytes:
        try:
            data = self._read(self._from, self._old, start, stop)
        except FileNotFoundError:
            raise self._changed() from None
        if len(data) != stop - start:
            raise self._changed()
        return data

    def _read(self, where: tuple[str, str], generation: str, start: int, stop: int) -> bytes:
        span = {"Range": f"bytes={start}-{stop - 1}"}
        _, data = self._call("GET", "b/{}/o/{}", *where, headers=span, alt="media", generation=generation)
        return bytes(data)

    def _metadata(self, bucket: str, key: str, **options: Any) -> Any:
        return self._call("GET", "b/{}/o/{}", bucket, key, json_out=True, **options)

    def _call(self, method: str, path: str, *names: str, **options: Any) -> Any:
        try:
            return self._fs.call(method, path, *names, **options)
        except (OSError, ParquetBloomError):
            raise
        except Exception as error:  # gcsfs and aiohttp have errors of their own
            is_refused = str(getattr(error, "code", "")) == "412"
            raise (FileExistsError if is_refused else OSError)(f"{type(error).__name__}: {error}") from error

    @staticmethod
    def _is_refusal(error: OSError) -> bool:
        # They are gcsfs's errors for 412 and 404. Nothing to upload to is a bucket that does not exist.
        return isinstance(error, FileExistsError) or (
            isinstance(error, FileNotFoundError) and "/upload/" not in str(error)
        )

    # ---- what is left --------------------------------------------------------------------

    def _clean_up(self) -> None:
        for name in list(self._began):
            self._remove(name)
        self._fs.invalidate_cache("/".join(self._to))

    def _remove(self, name: str) -> None:
        """Remove a temporary object for good: by its generation, or a bucket with versions would keep it."""
        for _ in range(_REMOVALS):
            with contextlib.suppress(OSError):
                try:
                    generation = self._began[name] or self._metadata(self._to[0], name)["generation"]
                    self._call("DELETE", "b/{}/o/{}", self._to[0], name, generation=generation)
                except FileNotFoundError:
                    pass
                del self._began[name]
                return
        del self._began[name]
        LOG.warning("the temporary object %s could not be removed; remove it", _name((self._to[0], name)))

    def _remove_stale(self) -> None:
        """Remove the temporary objects of a run that was killed, if they are old enough to belong to none."""
        with contextlib.suppress(OSError, KeyError, ValueError):
            prefix = self._temporary_prefix
            found = self._call("GET", "b/{}/o", self._to[0], prefix=prefix, json_out=True).get("items", [])
            for item in found:
                created = datetime.fromisoformat(item["timeCreated"])
                if item["name"].endswith(_SUFFIX) and created < datetime.now(UTC) - _STALE:
                    self._began[item["name"]] = item["generation"]
                    self._remove(item["name"])
                    self.stale: str | None = _name((self._to[0], item["name"]))


class _Body(io.BytesIO):
    """What is sent, and sent again if need be: aiohttp closes it each time."""

    def close(self) -> None:
        pass


def _name(where: tuple[str, str]) -> str:
    return "gs://" + "/".join(where)
