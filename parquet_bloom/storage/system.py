"""What operating systems do differently: flags, locks, reads and writes at a place, owners, modes and names.

On Linux and macOS these are the system's own calls. Windows has no `fcntl`, `pread` or owners, does not rename a file
that is open, and separates folders by a backslash. It has been written from its documentation, and never been run.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from typing import Any

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:
    fcntl = None


def _flag(name: str) -> int:
    return int(getattr(os, name, 0))


CLOEXEC = _flag("O_CLOEXEC") | _flag("O_NOINHERIT") | _flag("O_BINARY")
NOFOLLOW, NONBLOCK, DIRECTORY = _flag("O_NOFOLLOW"), _flag("O_NONBLOCK"), _flag("O_DIRECTORY")

CAN_OPEN_FOLDERS = bool(DIRECTORY)
CAN_RENAME_OPEN_FILES = os.name != "nt"

_LOCK_PLACE = 1 << 62  # Windows keeps others from reading what is locked: a byte beyond every file


def slashed(path: str) -> str:
    """Return a local path with slashes, as fsspec and this package have it on every system."""
    return path if os.sep == "/" else path.replace(os.sep, "/")


def status_of(entry: os.DirEntry[str]) -> os.stat_result:
    """Return a file's status as `os.stat` does; on Windows an entry of a folder does not know which file it is."""
    return entry.stat() if os.name != "nt" else os.stat(entry.path)


def user() -> int:
    """Return the user that this process acts for; where files have no owners, as if root."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def set_owner(fd: int, uid: int, gid: int) -> None:
    """Give an open file to a user and a group, where files have them."""
    if hasattr(os, "fchown"):
        os.fchown(fd, uid, gid)


def set_mode(fd: int, mode: int) -> None:
    """Give an open file its mode, where it has one."""
    if hasattr(os, "fchmod"):
        os.fchmod(fd, mode)


def set_times(fd: int, path: str | os.PathLike[str], accessed: int, modified: int) -> None:
    """Set the times of an open file that is at `path`, in nanoseconds."""
    os.utime(path if os.name == "nt" else fd, ns=(accessed, modified))


def pread(fd: int, length: int, start: int) -> bytes:
    """Return bytes at a place of an open file, perhaps fewer than asked for."""
    if hasattr(os, "pread"):
        return os.pread(fd, length, start)
    with _moving:
        os.lseek(fd, start, os.SEEK_SET)
        return os.read(fd, length)


def pwrite(fd: int, data: bytes | memoryview, start: int) -> int:
    """Write bytes at a place of an open file; return how many were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(fd, data, start)
    with _moving:
        os.lseek(fd, start, os.SEEK_SET)
        return os.write(fd, data)


_moving = threading.Lock()  # a file has one position for all threads


def lock(fd: int) -> bool:
    """Lock an open file against other writers, and return False where there are no locks.

    Raises `BlockingIOError` if another process has locked it.
    """
    if sys.platform == "win32":
        return _lock_on_windows(fd)
    if fcntl is None:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    class _Overlapped(ctypes.Structure):
        _fields_ = (
            ("internal", ctypes.c_void_p),
            ("internal_high", ctypes.c_void_p),
            ("offset", wintypes.DWORD),
            ("offset_high", wintypes.DWORD),
            ("event", wintypes.HANDLE),
        )

    def _lock_on_windows(fd: int) -> bool:
        kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
        where = _Overlapped(offset=_LOCK_PLACE & 0xFFFFFFFF, offset_high=_LOCK_PLACE >> 32)
        fail_at_once, exclusive, held_by_others = 1, 2, (33, 997)
        handle = wintypes.HANDLE(msvcrt.get_osfhandle(fd))
        if kernel32.LockFileEx(handle, exclusive | fail_at_once, 0, 1, 0, ctypes.byref(where)):
            return True
        if ctypes.get_last_error() in held_by_others:
            raise BlockingIOError
        return False
