"""Reads local files, and writes them so that every moment shows the old file or the new one, whole.

`Rewrite` copies a prefix of the old file into a dot-prefixed temporary file beside the target (engines skip
such names), takes what is appended, and on `commit` renames it over the target, or to a new name that must not
exist.

Other users may be able to write to the folder. So a temporary file has a name that cannot be guessed, is never
one that was there before, and can be opened by its owner alone until it is complete; then it takes the mode, and
from root the owner, of the file that it replaces or stands beside. It is locked while it is written: so what a
killed writer left is recognised, and removed by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from parquet_bloom.errors import ConcurrentChangeError, FilterExistsError, UnsupportedError
from parquet_bloom.format.footer import ENCRYPTED_MAGIC, MAGIC
from parquet_bloom.storage import system

_COPY_STEP = 64 * 1024 * 1024
_HTML, _LEDGER = b"<!do", b'{\n "'  # of what `report` and `erase` write
_FICLONE = 0x40049409  # linux/fs.h: share the extents of a whole file
_CANNOT_COPY_SO = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM, errno.EBADF)


def version(status: os.stat_result) -> str:
    """Return a text that changes whenever the file is replaced or written to."""
    s = status
    # Of each file it is called twice, and an f-string takes twice as long.
    return "%x-%x-%x-%x-%x" % (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)  # noqa: UP031


def read_at(fd: int, length: int, start: int) -> bytes:
    """Return bytes of a file, as many as asked for unless the file ends before; one read may return fewer."""
    data = system.pread(fd, length, start)
    if len(data) in (0, length):
        return data
    parts = [data]
    done = len(data)
    while done < length and (data := system.pread(fd, length - done, start + done)):
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def temporary_path(target: Path) -> Path:
    """Return a new name, beside `target`, for a temporary file that is to become it."""
    return target.with_name(f"{_temporary_prefix(target)}{os.urandom(8).hex()}{_TEMPORARY}")


def leftovers(target: Path) -> list[Path]:
    """Return the temporary files that are to become `target`, of writers that live or were killed, by their names."""
    prefix = _temporary_prefix(target)
    return sorted(target.with_name(name) for name in _names(target.parent) if _is_temporary(name, prefix))


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of this user's killed writers that were to become Parquet files, whatever their names.

    Where new files have names of their own, the next run does not find them by their targets' names.
    """
    with contextlib.suppress(OSError):
        for name in _names(folder):
            if name.startswith(".") and re.search(rf"\.[0-9a-f]{{8}}\.[0-9a-f]{{16}}{_TEMPORARY}$", name):
                with contextlib.suppress(BlockingIOError):  # its writer lives
                    _remove_leftover(folder / name, {MAGIC, bytes(len(MAGIC))}, {system.user()})


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except PermissionError:  # a folder that may be written to need not be one that may be listed
        return []


_TEMPORARY = ".parquet-bloom.tmp"


def _temporary_prefix(target: Path) -> str:
    import hashlib

    name = os.fsencode(target.name)
    digest = hashlib.sha256(name).hexdigest()[:8]
    return f".{os.fsdecode(name[:100])}.{digest}."


def _is_temporary(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and re.fullmatch(rf"[0-9a-f]{{16}}{_TEMPORARY}", name[len(prefix) :]) is not None


class Rewrite:
    """A file that is being written: `old` up to byte `keep`, then whatever is appended.

    With `target` the new file appears under that name, which must not exist; without, it replaces `old`, whose
    owner, mode and extended attributes it takes. Use it as a context manager: leaving it without `commit`
    removes every trace. `stale` names the leftovers of killed writers that were removed, if there were any.
    Raises `ConcurrentChangeError` if `old` is not at `version` any more or another writer is at work.
    """

    def __init__(
        self, old: Path, keep: int, *, version: str, target: Path | None = None, keep_mtime: bool = False
    ) -> None:
        self._old_path = old if target else Path(os.path.realpath(old))
        self._target = target or self._old_path
        self._in_place = target is None
        self._keep, self._version, self._keep_mtime = keep, version, keep_mtime
        self.position: int = keep
        with contextlib.ExitStack() as undo:
            self._old = self._old_path.open("rb", buffering=0)
            undo.callback(_close_quietly, self._old)
            if self._in_place:  # held until the checksum file is back, so that the next writer finds it
                self._exclude_others()
            self.stale: str | None = " and ".join(map(str, self._remove_leftovers())) or None
            self._status = os.fstat(self._old.fileno())
            self._check_unchanged(self._status)
            if self._in_place and self._status.st_nlink > 1:
                raise UnsupportedError(
                    f"{old} has {self._status.st_nlink} hard links, and replacing it would separate them; "
                    "write to a new file with output="
                )
            if not self._in_place and os.path.lexists(self._target):
                raise FilterExistsError(f"{self._target} already exists; choose another path, or remove it first")
            self._checksums = Checksums.of(self._old_path, self._old.fileno()) if self._in_place else None
            self._temporary, self._fd = _create_locked(self._target)
            undo.callback(_discard, self._temporary)
            undo.callback(self._close_new)
            self._undo = undo.pop_all()

    def _close_new(self) -> None:
        fd, self._fd = self._fd, -1
        _close(fd)

    def _exclude_others(self) -> None:
        try:
            lock(self._old.fileno(), self._old_path)
        except BlockingIOError:
            raise self._is_busy() from None

    def _is_busy(self) -> ConcurrentChangeError:
        return ConcurrentChangeError(f"{self._target} is being written by another parquet-bloom")

    def _remove_leftovers(self) -> Iterator[Path]:
        """Remove what killed writers left, and yield each file that had something in it.

        Raises `ConcurrentChangeError` if another process of this user is about to write a new `target`.
        """
        owners = {system.user()}
        if system.user() == 0:  # which gives a file to its owner just before it is renamed
            owners.add(os.fstat(self._old.fileno()).st_uid)
        try:
            if self._in_place:
                Checksums.remove_leftovers(self._target, owners)
            for path in leftovers(self._target):  # zeros are a copy that a power cut has lost
                if _remove_leftover(path, {MAGIC, bytes(len(MAGIC))}, owners):
                    yield path
        except BlockingIOError:
            raise self._is_busy() from None

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

    def append_from(self, start: int, stop: int) -> None:
        """Write bytes of the old file at the end, without moving them through user space where possible."""
        _copy_range(self._old.fileno(), self._fd, start, self.position, stop - start)
        self.position += stop - start

    def append(self, data: bytes) -> int:
        """Write `data` at the end; return its offset in the new file."""
        start = self.position
        view = memoryview(data)
        while view:
            written = system.pwrite(self._fd, view, self.position)
            self.position += written
            view = view[written:]
        return start

    def read(self, start: int, length: int) -> bytes:
        """Return bytes of the new file as they are now."""
        return read_at(self._fd, length, start)

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
        if not is_at(self._fd, self._temporary):  # which those may do who can write to the folder
            raise ConcurrentChangeError(f"{self._temporary} was removed or replaced; nothing was written")
        if self._in_place:
            self._replace()
        else:
            try:
                _appear(self._temporary, self._target)
            except FileExistsError:
                raise FilterExistsError(f"{self._target} already exists; it was created meanwhile") from None
        # From here on the file is written, and nothing may raise.
        sync_directory(self._target.parent)
        if self._checksums:
            with contextlib.suppress(OSError, UnsupportedError):  # without a side file the data is merely unchecked
                self._checksums.rewrite(self._fd, self._keep)

    def remove(self) -> None:
        """Remove the old file and its checksum file, durably, instead of writing a new one; `commit` is not called.

        Raises `ConcurrentChangeError` if the old file changed meanwhile: it then stays.
        """
        try:
            self._check_unchanged(self._old_path.stat())
        except FileNotFoundError:
            raise ConcurrentChangeError(f"{self._old_path} was removed meanwhile") from None
        if self._checksums:
            unlink(self._checksums.path)
        if not system.CAN_RENAME_OPEN_FILES:
            self._old.close()
        self._old_path.unlink()
        sync_directory(self._old_path.parent)

    def _replace(self) -> None:
        # A checksum file that does not fit makes Spark fail, one that is missing does not: so it goes first
        # and comes back last.
        if self._checksums:
            unlink(self._checksums.path)
        new = os.fstat(self._fd)
        if not system.CAN_RENAME_OPEN_FILES:  # nor replace them, so whoever opens the old file now makes this fail
            self._close_new()
            self._old.close()
            self._check_unchanged(self._old_path.stat())
        try:
            self._temporary.replace(self._target)
        except OSError:
            if _is_named(new, self._target):  # over a network, the answer alone may have been lost
                return
            if self._checksums:
                with contextlib.suppress(OSError, UnsupportedError, ValueError):  # the old file is closed
                    self._checksums.rewrite(self._old.fileno(), self._status.st_size)
            raise

    def _check_unchanged(self, status: os.stat_result) -> None:
        if version(status) != self._version:
            raise ConcurrentChangeError(f"{self._old_path} changed since it was read; nothing was written")

    def _take_attributes(self) -> None:
        old = self._status
        if self._in_place:
            new = os.fstat(self._fd)
            if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                system.set_owner(self._fd, old.st_uid, old.st_gid)
            _copy_extended_attributes(self._old.fileno(), self._fd)
            system.set_mode(self._fd, stat.S_IMODE(old.st_mode))
        else:
            _take_access(self._fd, [old])
        if self._keep_mtime:
            system.set_times(self._fd, self._temporary, old.st_atime_ns, old.st_mtime_ns)


class Checksums:
    """The side file `.NAME.crc` that Hadoop's local file system writes and insists on.

    `crc\\0`, int32 big-endian bytes per chunk, then a CRC-32 (big-endian) for each chunk of the data file.
    """

    MAGIC = b"crc\0"

    def __init__(self, path: Path, status: os.stat_result, step: int, sums: bytes) -> None:
        self.path = path
        self._status, self._step, self._sums = status, step, sums

    @staticmethod
    def path_of(data_file: Path) -> Path:
        """Return the path of a file's side file."""
        return data_file.with_name(f".{data_file.name}.crc")

    @classmethod
    def remove_leftovers(cls, data_file: Path, owners: set[int]) -> None:
        """Remove what killed writers left of a side file; raises `BlockingIOError` if one of them lives."""
        for path in leftovers(cls.path_of(data_file)):
            _remove_leftover(path, {cls.MAGIC}, owners)

    @classmethod
    def of(cls, data_file: Path, fd: int) -> Checksums | None:
        """Return the side file of `data_file` if it has one; refuses one that does not fit its end."""
        path = cls.path_of(data_file)
        size = os.fstat(fd).st_size
        try:
            content, status = _read_regular(path, 8 + 4 * size)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
                return None
            raise
        step = int.from_bytes(content[4:8], "big")
        if content[:4] == cls.MAGIC and step > 0 and len(content) == 8 + 4 * -(-size // step):
            start = (size - 1) // step * step
            if content[-4:] == _crc(fd, start, size - start):
                return cls(path, status, step, content[8:])
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
        sums += (_crc(fd, at, min(self._step, size - at)) for at in starts)
        content = self.MAGIC + self._step.to_bytes(4, "big") + b"".join(sums)
        with _written(self.path, content, [self._status]) as temporary:
            temporary.replace(self.path)


def _crc(fd: int, start: int, length: int) -> bytes:
    """Return the CRC-32 of some of a file; a chunk may be of 2 GiB."""
    crc = 0
    for at in range(start, start + length, _CRC_STEP):
        wanted = min(_CRC_STEP, start + length - at)
        data = read_at(fd, wanted, at)
        if len(data) != wanted:
            raise OSError(errno.EIO, "the file became shorter while its checksums were computed")
        crc = zlib.crc32(data, crc)
    return crc.to_bytes(4, "big")


_CRC_STEP = 16 * 1024 * 1024


def _read_regular(path: Path, most: int) -> tuple[bytes, os.stat_result]:
    """Return what is in a file of at most so many bytes, and its status; what is not a file is as good as empty."""
    fd = os.open(path, os.O_RDONLY | system.CLOEXEC | system.NONBLOCK)
    try:
        status = os.fstat(fd)
        is_readable = stat.S_ISREG(status.st_mode) and status.st_size <= most
        return read_at(fd, status.st_size, 0) if is_readable else b"", status
    finally:
        _close(fd)


def _copy(source: int, target: int, length: int) -> None:
    if length == os.fstat(source).st_size and system.fcntl is not None:
        with contextlib.suppress(OSError):
            system.fcntl.ioctl(target, _FICLONE, source)
            return
    _copy_range(source, target, 0, 0, length)


def _copy_range(source: int, target: int, start: int, at: int, length: int) -> None:
    """Copy bytes of one file to a place in another."""
    done = 0
    try:
        while done < length:
            step = os.copy_file_range(source, target, min(_COPY_STEP, length - done), start + done, at + done)
            if not step:
                break
            done += step
    except (OSError, AttributeError) as error:
        if isinstance(error, OSError) and error.errno not in _CANNOT_COPY_SO:
            raise
    while done < length:
        data = read_at(source, min(_COPY_STEP // 16, length - done), start + done)
        if not data:
            raise ConcurrentChangeError("the file became shorter while it was copied")
        done += system.pwrite(target, data, at + done)


def _copy_extended_attributes(source: int, target: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    with contextlib.suppress(OSError):  # a file system without them
        for name in os.listxattr(source):
            with contextlib.suppress(OSError):  # security.* and trusted.* are the system's to set
                os.setxattr(target, name, os.getxattr(source, name))


def lock(fd: int, path: Path) -> bool:
    """Lock a file, and return False where the file system has no locks; raises `BlockingIOError` if others hold it."""
    if not system.lock(fd):
        return False
    if not is_at(fd, path):
        raise BlockingIOError  # its writer renamed it between our open and our lock
    return True


def is_at(fd: int, path: Path) -> bool:
    """Return whether an open file is the one that has this name."""
    return _is_named(os.fstat(fd), path)


def _is_named(status: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(status, path.lstat())
    except FileNotFoundError:
        return False


# ---- new files ---------------------------------------------------------------------------


def create(target: Path, data: bytes, *, like: Iterable[os.stat_result] = ()) -> None:
    """Write a new file that appears whole and for good; raises `FileExistsError` where there is one.

    It may be read by those, and as root belongs to the one, who may read all that is `like` it: by default the last
    file beside it, or where there is none the folder.
    """
    with _written(target, data, [*like] or [_last_beside(target)]) as temporary:
        _appear(temporary, target)
    sync_directory(target.parent)


@contextlib.contextmanager
def new_file(target: Path, *, replace: bool = False, like: Iterable[os.stat_result] = ()) -> Iterator[BinaryIO]:
    """Give a file to write to, which appears as `target` once the block has ended without an error.

    It then has the usual mode of new files, without the access that one of the files that it is `like` does not give.
    Raises `FileExistsError` where there is one, unless it is to `replace` it.
    """
    if not replace and os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    for path in leftovers(target):
        with contextlib.suppress(BlockingIOError):
            _remove_leftover(path, {MAGIC, _HTML, _LEDGER}, {system.user()})
    temporary, fd = _create_locked(target)
    try:
        with open(fd, "wb", closefd=False) as file:
            yield file
        _take_access(fd, [*like], most=_usual_mode(target))
        os.fsync(fd)
        if not system.CAN_RENAME_OPEN_FILES:
            fd, closed = -1, fd
            _close(closed)
        if replace:
            temporary.replace(target)
        else:
            _appear(temporary, target)
    finally:
        _close(fd)
        _discard(temporary)
    sync_directory(target.parent)


def statuses(paths: Iterable[str | os.PathLike[str]]) -> list[os.stat_result]:
    """Return what a file that is `like` all of these needs: the status of each that is there, one of those alike."""
    found: dict[tuple[int, int, int], os.stat_result] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                found[status.st_mode, status.st_uid, status.st_gid] = status
    return [*found.values()]


def refuse_parquet(target: Path) -> None:
    """Raise `FileExistsError` if a Parquet file is there: something else is never meant to replace it."""
    with contextlib.suppress(FileNotFoundError), target.open("rb") as file:
        if file.read(4) in (MAGIC, ENCRYPTED_MAGIC):
            raise FileExistsError(f"{target} is a Parquet file; write to another name")


def _usual_mode(target: Path) -> int:
    """Return the mode that a new file has here: asking for the umask would change it for all threads."""
    path = temporary_path(target)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | system.CLOEXEC | system.NOFOLLOW, 0o666)
    try:
        return stat.S_IMODE(os.fstat(fd).st_mode)
    finally:
        _close(fd)
        _discard(path)


def make_folder(path: Path, *, like: str | None = None) -> None:
    """Make a folder with the access that another one gives, by default its parent, unless there is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
        if not system.CAN_OPEN_FOLDERS:
            return
        fd = os.open(path, os.O_RDONLY | system.DIRECTORY | system.NOFOLLOW | system.CLOEXEC)
        try:
            _take_access(fd, [os.stat(path.parent if like is None else like)], most=0o2777)
        finally:
            _close(fd)


@contextlib.contextmanager
def _written(target: Path, data: bytes, like: list[os.stat_result]) -> Iterator[Path]:
    """Give a complete temporary file of `data`, which is to become `target`, and remove what is left of it."""
    temporary, fd = _create_locked(target)
    try:
        done, view = 0, memoryview(data)
        while done < len(data):
            done += system.pwrite(fd, view[done:], done)
        _take_access(fd, like)
        os.fsync(fd)
        yield temporary
    finally:
        _close(fd)
        _discard(temporary)


def _create_locked(target: Path) -> tuple[Path, int]:
    """Create an empty temporary file that only its owner can open; return its path and its descriptor, locked."""
    for _ in range(_TRIES):
        path = temporary_path(target)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | system.CLOEXEC | system.NOFOLLOW, 0o600)
        try:
            _require_own(fd, path)
            lock(fd, path)
        except BlockingIOError:  # another writer took it for a leftover before it was locked
            _close(fd)
            _discard(path)
        except BaseException:
            _close(fd)
            _discard(path)
            raise
        else:
            return path, fd
    raise ConcurrentChangeError(f"{target} cannot be written: its temporary files are taken away at once")


_TRIES = 8


def _require_own(fd: int, path: Path) -> None:
    """Raise `UnsupportedError` unless a new file is one that nobody else has."""
    status = os.fstat(fd)
    owners = {system.user(), path.parent.stat().st_uid}  # some file systems give all files the owner of their folder
    is_owned = status.st_uid in owners or system.user() == 0  # and some take root for somebody else
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or not is_owned:
        raise UnsupportedError(f"{path} is not the file that was created; do not write to a folder of this kind")


def _remove_leftover(path: Path, beginnings: set[bytes], owners: set[int]) -> int:
    """Remove a temporary file of a killed writer, and return its size; 0 if it is not surely one, and stays.

    It has one of these owners, nobody has locked it, and it is empty or begins as its kind does. Raises
    `BlockingIOError` if its writer lives.
    """
    try:
        fd = os.open(path, os.O_RDONLY | system.NOFOLLOW | system.NONBLOCK | system.CLOEXEC)
    except OSError:
        return 0
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in owners or not lock(fd, path):
            return 0
        if status.st_size and read_at(fd, 4, 0) not in beginnings:
            return 0
        if not system.CAN_RENAME_OPEN_FILES:
            fd, closed = -1, fd
            _close(closed)
        path.unlink()
    except BlockingIOError:
        raise
    except OSError:
        return 0
    else:
        return status.st_size
    finally:
        _close(fd)


def _take_access(fd: int, like: list[os.stat_result], *, most: int = 0o666) -> None:
    """Give a new file the access that all these files give, if there are any, and as root their owner if they have one.

    Where it cannot have their group, its group may do no more than everybody.
    """
    mode = most
    for status in like:
        mode &= stat.S_IMODE(status.st_mode)
    uids, gids = {status.st_uid for status in like}, {status.st_gid for status in like}
    uid = uids.pop() if len(uids) == 1 and system.user() == 0 else -1
    gid = next(iter(gids)) if len(gids) == 1 else -1
    new = os.fstat(fd)
    if uid not in (-1, new.st_uid) or gid not in (-1, new.st_gid):
        with contextlib.suppress(OSError):
            system.set_owner(fd, uid, gid)
    if gids and {os.fstat(fd).st_gid} != gids:
        mode &= ~0o070 | (mode & 0o007) << 3
    with contextlib.suppress(OSError):  # a file system without modes; where it has them, nobody else gets access
        system.set_mode(fd, mode)


def _last_beside(target: Path) -> os.stat_result:
    """Return the status of the last file of a folder by name, leaving out hidden ones, or else of the folder."""
    for name in sorted(_names(target.parent), reverse=True):
        if name[0] not in "._":
            with contextlib.suppress(OSError):
                status = target.with_name(name).lstat()
                if stat.S_ISREG(status.st_mode):
                    return status
    return target.parent.stat()


def _appear(temporary: Path, target: Path) -> None:
    """Give a temporary file its name; raises `FileExistsError` where that is taken."""
    try:
        os.link(temporary, target)  # which, unlike renaming, replaces nothing
    except FileExistsError:
        if not _are_one(temporary, target):  # over a network, the answer alone may have been lost
            raise
        _discard(temporary)
    except OSError as error:
        if error.errno not in _CANNOT_COPY_SO:
            raise
        if os.path.lexists(target):  # a file system without hard links
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        temporary.rename(target)
    else:
        _discard(temporary)


def _are_one(temporary: Path, target: Path) -> bool:
    """Return whether two names are those of one file."""
    try:
        return os.path.samestat(temporary.lstat(), target.lstat())
    except OSError:
        return False


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
        unlink(other)
        unlink(path)


def _discard(temporary: Path) -> None:
    """Remove a temporary file; one that cannot be removed is left to the next writer."""
    with contextlib.suppress(OSError):
        temporary.unlink()


def unlink(path: Path) -> None:
    """Remove a file unless it is gone already."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _close_quietly(file: io.FileIO) -> None:
    with contextlib.suppress(OSError):
        file.close()


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):  # what was written has been synced, or is given up
        os.close(fd)


def sync_directory(path: Path) -> None:
    """Have a folder's new and removed names on the disk."""
    with contextlib.suppress(OSError):  # some file systems cannot
        fd = os.open(path, os.O_RDONLY | system.DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
