"""A folder of our own files beside the data: the index."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.storage import local_files, s3
from parquet_bloom.storage.listing import (
    DATES,
    Source,
    StorageOptions,
    exists,
    is_local,
    one_spelling,
    remote_source,
    resolve,
    stat_source,
)
from parquet_bloom.storage.store_errors import ask


class Folder:
    """A folder of files that are written once and never changed, on any file system.

    With a `prefix`, the files are those whose names begin with it, which callers leave out; no others are touched.
    """

    def __init__(
        self,
        path: str,
        *,
        storage_options: StorageOptions = None,
        filesystem: Any = None,
        guard: Callable[[str], object] | None = None,
        prefix: str = "",
        access_of: str | None = None,
    ) -> None:
        """`guard` is called with the path of the folder, and of each file before it is read, and raises if it must not
        be touched. On a local disk a folder that is made gets the access that the folder `access_of` gives, by default
        the one above."""
        if guard is not None:
            guard(path)
        self.fs: Any
        self.path: str
        self.fs, self.path = resolve(path, filesystem, storage_options)
        self.name = path
        self._guard = guard
        self._prefix = prefix
        self._access_of = access_of
        self._is_local = is_local(self.fs)

    def _at(self, name: str) -> str:
        """Return the path of one of its files; a temporary one has a name of its own."""
        return f"{self.path.rstrip('/')}/{name if name.startswith('.') else self._prefix + name}"

    def _own(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            if name.startswith((self._prefix, f".{self._prefix}")):
                yield name.removeprefix(self._prefix)

    def names(self) -> list[str]:
        """Return the names of the files in it, sorted; none where there is no such folder."""
        try:
            if self._is_local:
                return sorted(self._own(os.listdir(self.path)))
            self.fs.invalidate_cache(self.path)
            listed = ask(self.name, self.fs.ls, self.path, detail=False)
        except FileNotFoundError:
            return []
        return sorted(self._own(name.rstrip("/").rpartition("/")[2] for name in listed))

    def sources(self) -> dict[str, Source]:
        """Return the files in it by name, from one listing; none where there is no such folder."""
        if self._is_local:
            found = {}
            for name in self.names():
                with contextlib.suppress(FileNotFoundError):  # a file may go at any time
                    found[name] = self.source(name)
            return found
        self.fs.invalidate_cache(self.path)
        try:
            listed = ask(self.name, self.fs.ls, self.path, detail=True)
        except FileNotFoundError:
            return {}
        found = {}
        for info in listed:
            for name in self._own([info["name"].rpartition("/")[2]] if info["type"] == "file" else ()):
                found[name] = remote_source(self.fs, info, self.path, self.name)
        return found

    def local_path(self, name: str) -> str:
        """Return the path of one of its files on this machine's disks; none of another store's."""
        return self._at(name) if self._is_local else ""

    def source(self, name: str) -> Source:
        """Return one of its files; raises `FileNotFoundError`."""
        path = self._at(name)
        if self._guard is not None:
            self._guard(f"{self.name.rstrip('/')}/{name}")
        if self._is_local:
            return stat_source(self.fs, path, path, os.stat(path), name)
        return remote_source(self.fs, ask(self.name, self.fs.info, path), self.path, self.name)

    def create(self, name: str, data: bytes, *, like: Iterable[str] = ()) -> None:
        """Write a new file atomically, or raise `FileExistsError`, also if another writer has just created it.

        On a local disk it can be read by those who can read all the files that it is `like`, given by their paths; by
        default the last file beside it.
        """
        path = self._at(name)
        if self._is_local:
            self._create_local(path, data, [*_statuses(like)])
        elif s3.is_s3(self.fs):
            ask(self.name, s3.create, self.fs, path, data)
        else:
            if exists(self.fs, path):
                raise FileExistsError(path)
            ask(self.name, self.fs.pipe_file, path, data)

    def _create_local(self, path: str, data: bytes, like: list[os.stat_result]) -> None:
        for attempt in range(_ATTEMPTS):
            local_files.make_folder(Path(self.path), like=self._access_of)
            try:
                local_files.create(Path(path), data, like=like)
            except FileNotFoundError:  # another writer has removed the folder, or all that was in it, at this moment
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def times(self) -> dict[str, int]:
        """Return when each file was last written, in whole milliseconds since 1970, by name; folders are included.

        Raises `UnsupportedError` where the store does not tell.
        """
        if self._is_local:
            with os.scandir(self.path) as entries:
                return {entry.name: entry.stat().st_mtime_ns // 1_000_000 for entry in entries}
        self.fs.invalidate_cache(self.path)
        times = {}
        for info in self.fs.ls(self.path, detail=True):
            if info["type"] == "file":
                times[info["name"].rpartition("/")[2]] = self._time(info)
        return times

    def _time(self, info: dict[str, Any]) -> int:
        for key in DATES:
            if info.get(key) is not None:
                with contextlib.suppress(ValueError):
                    return round(float(one_spelling(info[key])) * 1_000_000) // 1000
        raise UnsupportedError(f"the store does not tell when {info['name']} was written")

    @property
    def may_be_exclusive(self) -> bool:
        """Whether `create` can be exclusive in this kind of store."""
        return self._is_local or s3.is_s3(self.fs)

    def require_exclusive(self) -> None:
        """Raise `UnsupportedError` unless a test shows that `create` refuses a file that exists, even to others.

        A hidden file is written and removed again for it. A disk without hard links fails, and a store that ignores
        conditions on what it is sent.
        """
        name = f".{os.urandom(8).hex()}.parquet-bloom.tmp"
        try:
            if self._is_local:
                local_files.require_links(Path(self.path) / name)
            else:
                self.create(name, b"1")
                with contextlib.suppress(FileExistsError):
                    self.create(name, b"2")
                    raise UnsupportedError(
                        f"{self.name} is in a store that overwrites a file although it was told not to"
                    )
        finally:
            self.remove([name])

    def age(self, name: str) -> float:
        """Return how many seconds ago a file was written, 0 if that is not known."""
        with contextlib.suppress(Exception):  # stores have errors of their own
            changed = self.fs.modified(self._at(name))
            return max(0.0, time.time() - float(one_spelling(changed)))
        return 0.0

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; it is fine if they are already gone."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                ask(self.name, self.fs.rm_file, self._at(name))

    def remove_if_empty(self) -> None:
        """Remove the folder itself if it is empty."""
        if self._is_local:
            with contextlib.suppress(OSError):
                os.rmdir(self.path)


_ATTEMPTS = 3


def links_in(path: str) -> list[str]:
    """Return the names of the symbolic links in a local folder; none if there is no such folder."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _statuses(paths: Iterable[str]) -> Iterator[os.stat_result]:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            yield os.stat(path)
