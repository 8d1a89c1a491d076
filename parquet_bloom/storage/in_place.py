"""Appends to a local file where it is, and cuts off what an append that was killed has left.

Nothing is copied, so a file may be larger than what is free on its disk. The price: from the first byte that is
appended to the last, the file does not end in a footer. So what is appended waits in a temporary file, and the file
itself is touched only once all of it is there:

    old file | filters, synced | new footer, synced

Until the new footer is complete, `recover` finds the old one. Writers exclude each other by the same lock as those that
replace a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from parquet_bloom.errors import ConcurrentChangeError, UnsupportedError
from parquet_bloom.storage import system
from parquet_bloom.storage.local_files import Checksums, is_at, lock, read_at, sync_directory, unlink, version

_HELD = 32 * 1024 * 1024
"""What is appended waits in memory up to this size."""

_STEP = 1024 * 1024


class Append:
    """A local file to whose end something is being appended; see `storage.Rewrite`.

    `commit` raises unless all of it is there and durable, and then the file is as it was before.
    """

    def __init__(self, path: Path, *, version: str, keep_mtime: bool = False) -> None:
        self._name, self._keep_mtime = path, keep_mtime
        self.stale: str | None = None
        with contextlib.ExitStack() as undo:
            self._path, self._fd, self._status = undo.enter_context(_locked(path, version))
            self._size = self._status.st_size
            self.position: int = self._size
            with contextlib.suppress(OSError):
                Checksums.remove_leftovers(self._path, {system.user(), self._status.st_uid})
            self._checksums = Checksums.of(self._path, self._fd)
            # Deleted already: it needs no name, and nobody else can open it.
            self._waiting: IO[bytes] = undo.enter_context(tempfile.SpooledTemporaryFile(_HELD))
            self._last = self.position
            self._undo = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def copy(self) -> None:
        """Do nothing: the old bytes are there."""

    def append(self, data: bytes) -> int:
        """Take `data` for the end; return its offset in the file."""
        self._last = self.position
        self._waiting.seek(self.position - self._size)
        self._waiting.write(data)
        self.position += len(data)
        return self._last

    def read(self, start: int, length: int) -> bytes:
        """Return bytes of what was appended."""
        self._waiting.seek(start - self._size)
        return self._waiting.read(length)

    def commit(self) -> None:
        """Write what was appended, and read it back; what was appended last is the footer, and comes last.

        Raises `ConcurrentChangeError` if another program has changed the file meanwhile.
        """
        _require_unchanged(self._name, self._path, self._fd, self._status)
        try:
            self._write(self._size, self._last)
            if self._checksums:  # it fits until the file has its new end; one that does not fit makes Spark fail
                unlink(self._checksums.path)
                sync_directory(self._path.parent)
            self._write(self._last, self.position)
            self._read_back()
            if self._keep_mtime:
                self._set_old_times()
        except BaseException as error:
            self._give_up(error)
            raise
        # From here on the file is written, and nothing may raise.
        self._put_checksums_back()

    def _write(self, start: int, stop: int) -> None:
        for at in range(start, stop, _STEP):
            data = memoryview(self.read(at, min(_STEP, stop - at)))
            while data:
                written = system.pwrite(self._fd, data, at)
                at, data = at + written, data[written:]
        os.fsync(self._fd)

    def _read_back(self) -> None:
        if hasattr(os, "posix_fadvise"):  # so that it comes from the disk, as far as this system can tell
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._fd, self._size, 0, os.POSIX_FADV_DONTNEED)
        for at in range(self._size, self.position, _STEP):
            length = min(_STEP, self.position - at)
            if read_at(self._fd, length, at) != self.read(at, length):
                raise OSError(errno.EIO, "what was written reads back differently")
        if os.fstat(self._fd).st_size != self.position or not is_at(self._fd, self._path):
            raise ConcurrentChangeError(f"{self._name} was changed by another program meanwhile")

    def _give_up(self, error: BaseException) -> None:
        """Make the file what it was; raises where that fails, or another program has appended something."""
        try:
            if os.fstat(self._fd).st_size > self.position:
                raise ConcurrentChangeError("another program has appended to it")
            os.ftruncate(self._fd, self._size)
            os.fsync(self._fd)
        except OSError as failure:
            raise OSError(
                f"{error}; then {self._name} could not be cut back to its {self._size:,} bytes ({failure}): run recover"
            ) from error
        with contextlib.suppress(OSError):
            self._set_old_times()
        self._put_checksums_back()

    def _set_old_times(self) -> None:
        system.set_times(self._fd, self._path, self._status.st_atime_ns, self._status.st_mtime_ns)

    def _put_checksums_back(self) -> None:
        if self._checksums:
            with contextlib.suppress(OSError, UnsupportedError):  # without a side file the data is merely unchecked
                self._checksums.rewrite(self._fd, self._size)


def cut(path: Path, size: int, *, version: str) -> None:
    """Cut a local file to `size` bytes, durably; raises `ConcurrentChangeError` if it changed or is being written."""
    with _locked(path, version) as (where, fd, status):
        _require_unchanged(path, where, fd, status)
        os.ftruncate(fd, size)
        try:
            os.fsync(fd)
        except OSError as error:
            raise OSError(
                f"{path} was cut back to its {size:,} bytes, but that may not be on the disk yet: {error}"
            ) from error


def why_not_in_place(path: Path) -> str | None:
    """Return why a local file cannot be appended to, or None."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if system.user() not in (0, status.st_uid):
        return "it belongs to another user"
    if not status.st_mode & stat.S_IWUSR or not os.access(path, os.W_OK):
        return "it is read-only"
    return None


@contextlib.contextmanager
def _locked(path: Path, known: str) -> Iterator[tuple[Path, int, os.stat_result]]:
    """Give the path that links lead to, a descriptor that is locked, and the file's status, which is as it is known."""
    if reason := why_not_in_place(path):
        raise UnsupportedError(f"{path} cannot be changed in place: {reason}")
    where = Path(os.path.realpath(path))
    fd = os.open(where, os.O_RDWR | system.CLOEXEC | system.NOFOLLOW)
    try:
        try:
            is_locked = lock(fd, where)
        except BlockingIOError:
            raise ConcurrentChangeError(f"{path} is being written by another parquet-bloom") from None
        if not is_locked:
            raise UnsupportedError(f"{path} is on a file system without locks, so it cannot be changed in place")
        status = os.fstat(fd)
        if version(status) != known:
            raise ConcurrentChangeError(f"{path} changed since it was read; nothing was written")
        yield where, fd, status
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)


def _require_unchanged(name: Path, path: Path, fd: int, status: os.stat_result) -> None:
    if version(os.fstat(fd)) != version(status) or not is_at(fd, path):
        raise ConcurrentChangeError(f"{name} changed since it was read; nothing was written")
