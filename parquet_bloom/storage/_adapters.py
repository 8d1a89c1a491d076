"""Turns pyarrow's file systems, open files and buffers into file systems of fsspec.

The module is private, since fsspec has no types: what is derived from its classes has no known type, either.
"""

from __future__ import annotations

import io
import threading
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.implementations.arrow import ArrowFSWrapper
from fsspec.spec import AbstractBufferedFile


class ArrowFiles(ArrowFSWrapper):  # type: ignore[misc]
    """A pyarrow file system whose files are opened seekable."""

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
        return super()._open(path, mode, block_size, seekable=mode == "rb")


class OpenFile(AbstractFileSystem):  # type: ignore[misc]
    """The one file of its file system: a seekable binary file, or a buffer.

    Its position is the same after each read as before.
    """

    protocol = "open-file"
    cachable = False

    def __init__(self, opened: Any, number: int) -> None:
        super().__init__()
        if not hasattr(opened, "read"):
            opened = io.BytesIO(memoryview(opened))
        self._file, self._lock = opened, threading.Lock()
        self.path = f"<buffer {number}>"
        name = getattr(opened, "name", None)
        self.name = name if isinstance(name, str) else self.path
        if not isinstance(self.cat_file(self.path, 0, 1), bytes):
            raise TypeError(f"{self.name} is open in text mode; open a Parquet file with mode 'rb'")

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        """Return the size."""
        with self._lock:
            before = self._file.tell()
            self._file.seek(0, io.SEEK_END)
            size = self._file.tell()
            self._file.seek(before)
        return {"name": self.path, "size": size, "type": "file"}

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """Return the one file."""
        return [self.info(path) if detail else self.path]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> Any:
        """Return some of its bytes."""
        with self._lock:
            before = self._file.tell()
            self._file.seek(start or 0)
            data = self._file.read() if end is None else self._file.read(end - (start or 0))
            self._file.seek(before)
        return data

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        return _View(self, self.path, mode, cache_type="none", size=self.info(path)["size"])


class _View(AbstractBufferedFile):  # type: ignore[misc]
    def _fetch_range(self, start: int, end: int) -> Any:
        return self.fs.cat_file(self.path, start, end)
