"""What was written to a store is what is read back from it, in the version that was written."""

from __future__ import annotations

import pytest

from parquet_bloom.errors import ConcurrentChangeError
from parquet_bloom.storage.object_rewrite import ObjectRewrite


class Versioned(ObjectRewrite):
    """An object in a store that keeps old versions; others may have written `newest` already."""

    def __init__(self, newest: str, read: bytes) -> None:
        super().__init__("x", "x", 100, "1")
        self._newest, self._read = newest, read

    def _send_pending(self) -> None:
        self._pending.clear()

    def _publish(self) -> str:
        return "2"

    def _head_target(self) -> tuple[str, int]:
        return self._newest, self.position

    def _read_target(self, version: str, start: int, stop: int) -> bytes:
        assert (version, start, stop) == ("2", 100, self.position)
        return self._read

    def _require_unchanged(self) -> None:
        pass


def written(out: ObjectRewrite) -> None:
    out.append(b"tail")
    out.commit()


def test_what_reads_back_is_written() -> None:
    written(Versioned("2", b"tail"))


def test_a_version_of_another_writer_is_not_ours() -> None:
    with pytest.raises(ConcurrentChangeError, match="was written, and then replaced by another writer"):
        written(Versioned("3", b"tail"))


def test_what_reads_back_differently_is_an_error() -> None:
    with pytest.raises(OSError, match="does not read back as it was written"):
        written(Versioned("2", b"liar"))
