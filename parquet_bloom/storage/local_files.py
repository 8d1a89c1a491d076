"""Writes a local file so that every moment shows the old file or the new one, whole.

`Rewrite` copies a prefix of the old file into a dot-prefixed temporary file beside the target (engines skip
such names), takes what is appended, and on `commit` renames it over the target, or to a new name that must not
exist. The temporary file's name is fixed by the target's and the file is locked while it is written: so writers
exclude each other, and what a killed writer left is found and removed by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import zlib
from pathlib import Path
from types import TracebackType
from typing import Self

from parquet_bloom.errors import ConcurrentChangeError, FilterExistsError, UnsupportedError

_COPY_STEP = 64 * 1024 * 1024
_FICLONE = 0x40049409  # linux/fs.h: share the extents of a whole file
_CANNOT_COPY_SO = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.EBADF)


def version(status: os.stat_result) -> str:
    """Return what changes whenever another file takes the place or a writer touches it."""
    s = status
    return f"{s.st_dev:x}-{s.st_ino:x}-{s.st_size:x}-{s.st_mtime_ns:x}-{s.st_ctime_ns:x}"


def temporary_path(target: Path) -> Path:
    """Return the one temporary name that writers of `target` use."""
    name = os.fsencode(target.name)
    digest = hashlib.sha256(name).hexdigest()[:8]
    return target.with_name(f".{os.fsdecode(name[:100])}.{digest}.parquet-bloom.tmp")


class Rewrite:
    """A new file under way: `old` up to byte `keep`, then whatever is appended.

    With `target` the new file appears under that name, which must not exist; without, it replaces `old`, whose
    owner, mode and extended attributes it takes. Use it as a context manager: leaving it without `commit`
    removes every trace. `stale` names the leftover of a killed writer that was removed, if there was one.
    Raises `ConcurrentChangeError` if `old` is not at `version` any more or another writer is at work.
    """

    def __init__(
        self, old: Path, keep: int, *, version: str, target: Path | None = None, keep_mtime: bool = False
    ) -> None:
        self._old_path = old if target else Path(os.path.realpath(old))
        self._target = target or self._old_path
        self._in_place = target is None
        self._keep, self._version, self._keep_mtime = keep, version, keep_mtime
        self.stale: str | None = None
        self.position = keep
        self._committed = False
        with contextlib.ExitStack() as undo:
            self._old = undo.enter_context(self._old_path.open("rb", buffering=0))
            if self._in_place:  # held until the checksum file is back, so that the next writer finds it
                self._exclude_others(self._old.fileno(), self._old_path)
            self._status = os.fstat(self._old.fileno())
            self._check_unchanged(self._status)
            if self._in_place and self._status.st_nlink > 1:
                raise UnsupportedError(
                    f"{old} has {self._status.st_nlink} hard links, and replacing it would separate them; "
                    "write to a new file with -o"
                )
            if not self._in_place and os.path.lexists(self._target):
                raise FilterExistsError(f"{self._target} already exists; choose another path, or remove it first")
            self._checksums = _Checksums.of(self._old_path, self._old.fileno()) if self._in_place else None
            self._temporary = temporary_path(self._target)
            self._fd = self._create_temporary()
            undo.callback(os.close, self._fd)
            undo.callback(self._abandon)
            self._undo = undo.pop_all()

    def _create_temporary(self) -> int:
        _unlink(_Checksums.temporary(self._target))
        while True:
            mode = 0o600 if self._in_place else 0o666
            fd = os.open(self._temporary, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
            try:
                self._exclude_others(fd, self._temporary)
            except BaseException:
                os.close(fd)
                raise
            if not os.fstat(fd).st_size:
                return fd
            self.stale = str(self._temporary)
            self._temporary.unlink()
            os.close(fd)

    def _exclude_others(self, fd: int, path: Path) -> None:
        try:
            _lock(fd, path)
        except (BlockingIOError, FileNotFoundError):
            raise ConcurrentChangeError(f"{self._target} is being written by another parquet-bloom") from None

    def _abandon(self) -> None:
        # While we hold its lock the temporary name is ours; after the rename it may be the next writer's.
        if not self._committed:
            _unlink(self._temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def copy(self) -> None:
        """Copy the old file's first `keep` bytes, without moving them through user space where possible.

        The copy is also sent to the disk here, so that a caller who computes meanwhile does not wait for it.
        """
        _copy(self._old.fileno(), self._fd, self._keep)
        getattr(os, "fdatasync", os.fsync)(self._fd)  # macOS has the one only

    def append(self, data: bytes) -> int:
        """Write `data` at the end; return its offset in the new file."""
        start = self.position
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, self.position)
            self.position += written
            view = view[written:]
        return start

    def read(self, start: int, length: int) -> bytes:
        """Return bytes of the new file as they are now."""
        return os.pread(self._fd, length, start)

    def commit(self) -> None:
        """Make the new file visible under its name, durably; readers of the old one keep theirs.

        Raises `ConcurrentChangeError` if the old file changed meanwhile: it then stays as it is.
        """
        self._take_attributes()
        os.fsync(self._fd)
        try:
            self._check_unchanged(self._old_path.stat())
        except FileNotFoundError:
            raise ConcurrentChangeError(f"{self._old_path} was removed meanwhile") from None
        if self._in_place:
            self._replace()
        else:
            self._appear()
        self._committed = True
        _sync_directory(self._target.parent)
        if self._checksums:
            with contextlib.suppress(OSError):  # without a side file the data is merely unchecked
                self._checksums.rewrite(self._fd, self._keep)

    def _replace(self) -> None:
        # A checksum file that does not fit makes Spark fail, one that is missing does not: so it goes first
        # and comes back last.
        if self._checksums:
            _unlink(self._checksums.path)
        self._temporary.replace(self._target)

    def _appear(self) -> None:
        try:
            os.link(self._temporary, self._target)
        except FileExistsError:
            raise FilterExistsError(f"{self._target} already exists; it was created meanwhile") from None
        except OSError as error:
            if error.errno not in _CANNOT_COPY_SO:
                raise
            if os.path.lexists(self._target):  # a file system without hard links
                raise FilterExistsError(f"{self._target} already exists; it was created meanwhile") from None
            self._temporary.rename(self._target)
        else:
            self._temporary.unlink()

    def _check_unchanged(self, status: os.stat_result) -> None:
        if version(status) != self._version:
            raise ConcurrentChangeError(f"{self._old_path} changed since it was read; nothing was written")

    def _take_attributes(self) -> None:
        old = self._status
        if self._in_place:
            new = os.fstat(self._fd)
            if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                os.fchown(self._fd, old.st_uid, old.st_gid)
            _copy_extended_attributes(self._old.fileno(), self._fd)
            os.fchmod(self._fd, stat.S_IMODE(old.st_mode))
        if self._keep_mtime:
            os.utime(self._fd, ns=(old.st_atime_ns, old.st_mtime_ns))


class _Checksums:
    """The side file `.NAME.crc` that Hadoop's local file system writes and insists on.

    `crc\\0`, int32 big-endian bytes per chunk, then a CRC-32 (big-endian) for each chunk of the data file.
    """

    _MAGIC = b"crc\0"

    def __init__(self, path: Path, step: int, sums: bytes) -> None:
        self.path, self._step, self._sums = path, step, sums

    @staticmethod
    def temporary(data_file: Path) -> Path:
        return temporary_path(data_file.with_name(f".{data_file.name}.crc"))

    @classmethod
    def of(cls, data_file: Path, fd: int) -> _Checksums | None:
        """Return the side file of `data_file` if it has one; refuses one that does not fit its end."""
        path = data_file.with_name(f".{data_file.name}.crc")
        try:
            content = path.read_bytes()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
                return None
            raise
        size = os.fstat(fd).st_size
        step = int.from_bytes(content[4:8], "big")
        if content[:4] == cls._MAGIC and step > 0 and len(content) == 8 + 4 * -(-size // step):
            start = (size - 1) // step * step
            if content[-4:] == _crc(os.pread(fd, size - start, start)):
                return cls(path, step, content[8:])
        raise UnsupportedError(
            f"{data_file} does not match its checksum file {path.name}: it was changed after it was written; "
            "remove the checksum file if the data is right"
        )

    def rewrite(self, fd: int, keep: int) -> None:
        """Write the side file again, keeping the sums of the chunks that lie wholly below `keep`."""
        whole = keep // self._step
        size = os.fstat(fd).st_size
        sums = [self._sums[: 4 * whole]]
        starts = range(whole * self._step, size, self._step)
        sums += (_crc(os.pread(fd, min(self._step, size - at), at)) for at in starts)
        temporary = temporary_path(self.path)
        try:
            temporary.write_bytes(self._MAGIC + self._step.to_bytes(4, "big") + b"".join(sums))
            temporary.replace(self.path)
        except BaseException:
            _unlink(temporary)
            raise


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


def _copy(source: int, target: int, length: int) -> None:
    if length == os.fstat(source).st_size and hasattr(fcntl, "ioctl"):
        with contextlib.suppress(OSError):
            fcntl.ioctl(target, _FICLONE, source)
            return
    done = 0
    try:
        while done < length:
            step = os.copy_file_range(source, target, min(_COPY_STEP, length - done), done, done)
            if not step:
                break
            done += step
    except (OSError, AttributeError) as error:
        if isinstance(error, OSError) and error.errno not in _CANNOT_COPY_SO:
            raise
    while done < length:
        data = os.pread(source, min(_COPY_STEP // 16, length - done), done)
        if not data:
            raise ConcurrentChangeError("the file became shorter while it was copied")
        done += os.pwrite(target, data, done)


def _copy_extended_attributes(source: int, target: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    with contextlib.suppress(OSError):  # a file system without them
        for name in os.listxattr(source):
            with contextlib.suppress(OSError):  # security.* and trusted.* are the system's to set
                os.setxattr(target, name, os.getxattr(source, name))


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return  # a file system without locks
    if not os.path.samestat(os.fstat(fd), path.stat()):
        raise BlockingIOError  # its writer renamed it between our open and our lock


def create(target: Path, data: bytes) -> None:
    """Write a new file that appears whole and for good; raises `FileExistsError` where there is one."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}.parquet-bloom.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
        try:
            os.link(temporary, target)  # which, unlike renaming, replaces nothing
        except OSError as error:
            if error.errno not in _CANNOT_COPY_SO:
                raise
            if os.path.lexists(target):  # a file system without hard links
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            temporary.rename(target)
    finally:
        os.close(fd)
        _unlink(temporary)
    _sync_directory(target.parent)


def require_links(path: Path) -> None:
    """Raise `UnsupportedError` where `create` cannot link files; `path` is a name to try it with, and gone then."""
    other = path.with_name(f"{path.name}2")
    try:
        path.touch(exist_ok=False)
        os.link(path, other)
    except OSError as error:
        if error.errno not in _CANNOT_COPY_SO:
            raise
        raise UnsupportedError(
            f"{path.parent} is on a file system without hard links, where two writers may replace each other's files"
        ) from None
    finally:
        _unlink(other)
        _unlink(path)


def _unlink(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _sync_directory(path: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
