"""What rewrites in Google's and Azure's stores share: the tail goes up in parts, and `commit` is checked.

A store's class knows how to copy the old bytes, to send a part, to publish under a condition and to read back.
"""

from __future__ import annotations

import contextlib
import hashlib
from types import TracebackType
from typing import Self

from parquet_bloom.errors import ConcurrentChangeError, ParquetBloomError

TAIL_PART = 64 * 1024 * 1024
"""What is appended is uploaded in parts of this size."""

READ_BACK = 16 * 1024 * 1024
"""What was appended is read back in pieces of this size."""


class ObjectRewrite:
    """The first `keep` bytes of an object, then what is appended; see `storage.Rewrite`."""

    def __init__(self, source: str, target: str, keep: int, version: str) -> None:
        self._source, self._target = source, target  # as users see them
        self._in_place = source == target
        self._keep, self._old = keep, version
        self._pending = bytearray()
        self._whole: bytes | None = None  # what is kept, where old and new bytes go up in one request
        self._digest = hashlib.sha256()  # of what is appended
        self.position: int = keep
        self.stale: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pending.clear()
        self._clean_up()

    def append(self, data: bytes) -> int:
        """Take `data` for the end; return its offset in the new object."""
        if len(self._pending) >= TAIL_PART and (self._whole is None or self._may_split):
            self._whole = None
            self._send_pending()
        start = self.position
        self._pending += data
        self.position += len(data)
        self._digest.update(data)
        return start

    @property
    def _may_split(self) -> bool:
        """Whether what was to go up in one request may go up in parts: nothing of the old object is in it."""
        return not self._keep

    def read(self, start: int, length: int) -> bytes:
        """Return bytes that were just appended; `commit` reads all of them back from the store."""
        at = start - (self.position - len(self._pending))
        return bytes(self._pending[at : at + length])

    def commit(self) -> None:
        """Make the new object visible and read back what was appended, or raise and leave the old one."""
        if self._whole is None and self._pending:
            self._send_pending()
        self._require_unchanged()
        try:
            version = self._publish()
        except OSError as error:
            # The answer alone may have been lost; then the call, made again, was refused for its own success.
            if not self._has_arrived():
                if self._is_refusal(error):
                    raise self._changed() from error
                raise
        else:
            self._check(version)

    def _has_arrived(self) -> bool:
        with contextlib.suppress(OSError):
            version, _ = self._head_target()
            if not self._in_place or version != self._old:
                self._check(version)
                return True
        return False

    def _check(self, version: str) -> None:
        """Raise unless the new part of the object at `version` is what was written."""
        digest = hashlib.sha256()
        try:
            found, size = self._head_target()
            if found != version:
                raise ConcurrentChangeError(f"{self._target} was written, and then replaced by another writer")
            for start in range(self._keep, self.position, READ_BACK):
                digest.update(self._read_target(version, start, min(start + READ_BACK, self.position)))
        except ParquetBloomError:
            raise
        except OSError as error:
            if self._is_refusal(error):
                raise ConcurrentChangeError(
                    f"{self._target} was written, and then replaced by another writer"
                ) from error
            raise OSError(f"{self._target} was written, but could not be read back: {error}") from error
        if size != self.position or digest.digest() != self._digest.digest():
            raise OSError(f"{self._target} does not read back as it was written")

    def _changed(self) -> ConcurrentChangeError:
        what = f"{self._source} changed since it was read"
        if not self._in_place:
            what = f"{self._target} was created meanwhile, or its source changed"
        return ConcurrentChangeError(f"{what}; nothing was written")

    # ---- what each store does its own way ----------------------------------------------------

    def copy(self) -> None:
        """Copy the old bytes within the store, or prepare it."""
        raise NotImplementedError

    def _send_pending(self) -> None:
        raise NotImplementedError

    def _publish(self) -> str:
        """Make the new object visible if nothing has changed; return its version."""
        raise NotImplementedError

    def _head_target(self) -> tuple[str, int]:
        """Return the version and the size of what is there now."""
        raise NotImplementedError

    def _read_target(self, version: str, start: int, stop: int) -> bytes:
        raise NotImplementedError

    def _require_unchanged(self) -> None:
        raise NotImplementedError

    def _clean_up(self) -> None:
        """Remove what is left, whether or not the object was written."""

    @staticmethod
    def _is_refusal(error: OSError) -> bool:
        """Return whether a condition was not met."""
        raise NotImplementedError
