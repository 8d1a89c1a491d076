"""Replaces files: atomically on a disk, within the store for objects."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from parquet_bloom.errors import ConcurrentChangeError, FilterExistsError, UnsupportedError
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.storage import azure, gcs, in_place, local_files, s3
from parquet_bloom.storage.drive import changes, etag, read_range
from parquet_bloom.storage.listing import LOG, Source, at_home, exists, is_local, remote_version
from parquet_bloom.storage.store_errors import ask


class Rewrite(Protocol):
    """A file that is being written: a prefix of the old one, then what is appended. `commit` makes it visible."""

    position: int
    stale: str | None

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def copy(self) -> None:
        """Copy the prefix."""

    def append(self, data: bytes) -> int:
        """Write `data` at the end; return its offset in the new file."""

    def read(self, start: int, length: int) -> bytes:
        """Return bytes of the new file as they are now."""

    def commit(self) -> None:
        """Make the new file visible, or raise and leave the old one."""


class Composition(Rewrite, Protocol):
    """A file that is written from nothing, of bytes and of parts of the old one."""

    def append_from(self, start: int, stop: int) -> None:
        """Write bytes of the old file at the end."""

    def remove(self) -> None:
        """Remove the old file instead of writing a new one; `commit` is not called."""


def compose(source: Source, *, target: str | None = None) -> Composition:
    """Return a composition that replaces `source`, or that becomes `target`, as in `rewrite`.

    What goes to a store is first written to a local temporary file, without a name.
    """
    if source.local is not None:
        new = Path(target) if target is not None else None
        if new is not None:
            new.parent.mkdir(parents=True, exist_ok=True)
        return local_files.Rewrite(source.local, 0, version=source.version, target=new)
    return _Spooled(source, rewrite(source, 0, target=target))


class _Spooled:
    """The composition for stores: collected in a local file, so that it can be read before it is sent."""

    def __init__(self, source: Source, out: Rewrite) -> None:
        self._source, self._out = source, out
        self._spool = tempfile.TemporaryFile(prefix="parquet-bloom-")  # noqa: SIM115
        self.position = 0
        self.stale: str | None = None

    def __enter__(self) -> Self:
        self._out.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()
        self._out.__exit__(kind, error, trace)

    def copy(self) -> None:
        pass

    def append(self, data: bytes) -> int:
        start = self.position
        self._spool.seek(start)
        self._spool.write(data)
        self.position += len(data)
        return start

    def append_from(self, start: int, stop: int) -> None:
        for at in range(start, stop, _STEP):
            wanted = ByteRange(at, min(at + _STEP, stop))
            data = read_range(self._source, wanted)
            if len(data) != len(wanted):
                raise ConcurrentChangeError(
                    f"{self._source.name} became shorter since it was read; nothing was written"
                )
            self.append(data)

    def read(self, start: int, length: int) -> bytes:
        self._spool.seek(start)
        return self._spool.read(length)

    def commit(self) -> None:
        if error := changes([self._source]).get(self._source):  # while its parts were read one by one
            raise error
        self._out.copy()
        for at in range(0, self.position, _STEP):
            self._out.append(self.read(at, min(_STEP, self.position - at)))
        self._out.commit()

    def remove(self) -> None:
        require_unchanged(self._source)
        ask(self._source.name, self._source.fs.rm_file, self._source.path)


_STEP = 16 * 1024 * 1024


def rewrite(source: Source, keep: int, *, target: str | None = None, keep_mtime: bool = False) -> Rewrite:
    """Return a rewrite of `source` that starts with its first `keep` bytes.

    Without `target` it replaces the source; with it, a path on the source's filesystem that must not exist.
    """
    if source.local is not None:
        new = Path(target) if target is not None else None
        if new is not None:
            new.parent.mkdir(parents=True, exist_ok=True)
        return local_files.Rewrite(source.local, keep, version=source.version, target=new, keep_mtime=keep_mtime)
    if s3.is_s3(source.fs):
        return s3.S3Rewrite(source.fs, source.path, keep, etag=etag(source), target=target)
    if gcs.is_gcs(source.fs):
        return gcs.GcsRewrite(source.fs, source.path, keep, size=source.size, generation=etag(source), target=target)
    if azure.is_azure(source.fs):
        return azure.AzureRewrite(source.fs, source.path, keep, etag=etag(source), target=target)
    return _ObjectRewrite(source, keep, target)


def append_in_place(source: Source, *, keep_mtime: bool = False) -> Rewrite:
    """Return a rewrite that appends to `source` itself; see `storage/in_place.py` for what that means to readers."""
    require_in_place(source)
    return in_place.Append(Path(source.path), version=source.version, keep_mtime=keep_mtime)


def cut_in_place(source: Source, size: int) -> None:
    """Cut a local file to `size` bytes; raises `ConcurrentChangeError` if it changed or is being written."""
    require_in_place(source)
    in_place.cut(Path(source.path), size, version=source.version)


def remove_leftovers(sources: Iterable[Source]) -> None:
    """Remove the temporary files that killed writers left beside local files."""
    for folder in sorted({source.local.parent for source in sources if source.local is not None}):
        local_files.remove_leftovers(folder)


def require_in_place(source: Source) -> None:
    """Raise `UnsupportedError` unless a file can be changed where it is."""
    if source.local is None:
        raise UnsupportedError(f"only local files can be changed in place; {source.name} is in a store")
    if reason := in_place.why_not_in_place(source.local):
        raise UnsupportedError(f"the file cannot be changed in place: {reason}")


def clear_left(targets: Iterable[tuple[Source, str | None]]) -> None:
    """Abort the uploads to S3 that killed runs have left, to sources themselves or to their targets; log each."""
    stores: dict[int, tuple[Any, list[str]]] = {}
    for source, target in targets:
        if s3.is_s3(source.fs):
            stores.setdefault(id(source.fs), (source.fs, []))[1].append(target or source.path)
    for fs, paths in stores.values():
        for path in s3.abort_left(fs, paths):
            LOG.warning("aborted an upload of %s, which an interrupted run had left", path)


def links_to(source: Source) -> Iterator[str]:
    """Yield a sentence if a local file has other names, under which it is changed, too."""
    if (count := os.stat(source.path).st_nlink) > 1:
        yield f"the file has {count} hard links, and is changed under all of these names"


class _ObjectRewrite:
    """The rewrite for every other filesystem: what is appended waits in memory, `commit` puts the whole object."""

    def __init__(self, source: Source, keep: int, target: str | None) -> None:
        from fsspec.archive import AbstractArchiveFileSystem

        self._source, self._keep, self._target = source, keep, target or source.path
        self._tail = bytearray()
        self.position = keep
        self.stale: str | None = None
        if isinstance(source.fs, AbstractArchiveFileSystem):
            raise UnsupportedError("a file inside an archive cannot be changed; extract it first")
        if _is_local_inside(source.fs):
            raise UnsupportedError(
                "local files cannot be replaced safely through a file system of pyarrow; leave out filesystem="
            )
        if target is not None and exists(source.fs, target):
            raise FilterExistsError(f"{target} already exists; choose another path, or remove it first")
        self._check_unchanged()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tail.clear()

    def copy(self) -> None:
        pass

    def append(self, data: bytes) -> int:
        start = self.position
        self._tail += data
        self.position += len(data)
        return start

    def read(self, start: int, length: int) -> bytes:
        at = start - self._keep
        return bytes(self._tail[at : at + length])

    def commit(self) -> None:
        fs = self._source.fs
        kept = ask(self._source.name, fs.cat_file, self._source.path, 0, self._keep) if self._keep else b""
        self._check_unchanged()
        if len(kept) != self._keep:
            raise ConcurrentChangeError(f"{self._source.name} became shorter since it was read; nothing was written")
        content = kept + self._tail
        try:
            ask(self._target, fs.pipe_file, self._target, content)
        except NotImplementedError:
            raise UnsupportedError(
                f"{type(fs).__name__} is read-only; copy the file to a store that can be written"
            ) from None
        if ask(self._target, fs.size, self._target) != len(content):
            raise ConcurrentChangeError(f"{self._target} does not have the size that was written")

    def _check_unchanged(self) -> None:
        require_unchanged(self._source)


def require_unchanged(source: Source) -> None:
    """Raise `ConcurrentChangeError` if an object of a store is no longer the one that was listed."""
    fs, path = source.fs, source.path
    fs.invalidate_cache(fs._parent(path))
    if remote_version(ask(source.name, fs.info, path)) != source.version:
        raise ConcurrentChangeError(f"{source.name} changed since it was read; nothing was written")


def refuse_read_only(fs: Any) -> None:
    """Raise `UnsupportedError` for a store that can only be read, before anything is asked of it."""
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    if protocols & _READ_ONLY:
        raise UnsupportedError(f"{type(fs).__name__} is read-only; copy the file to a store that can be written")


_READ_ONLY = {"http", "https", "github", "gist", "git", "data", "reference"}


def _is_local_inside(fs: Any) -> bool:
    """Return whether pyarrow would write to a local disk, where it truncates a file before writing it."""
    inner: Any = getattr(fs, "fs", None)
    while type(inner).__name__ == "SubTreeFileSystem":
        inner = inner.base_fs
    return getattr(inner, "type_name", None) == "local"


def join_output(fs: Any, output: str, relative: str = "") -> str:
    """Return the path, as `fs` calls it, of `output` or of what lies below it."""
    scheme = output.partition("://")[0] if "://" in output else None
    if scheme is not None and scheme not in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol):
        raise UnsupportedError(f"{output} is not on the same file system as the input; copy it there afterwards")
    inner = os.path.abspath(at_home(output)) if is_local(fs) and scheme is None else fs._strip_protocol(output)
    return f"{inner.rstrip('/')}/{relative}" if relative else inner


def summaries_above(source: Source, sentence: str) -> list[str]:
    """Return a sentence for each `_metadata` file from a local file's folder up to the one it was found under.

    Such a file repeats footers; engines on object stores have given it up.
    """
    folder, top = os.path.dirname(source.path), source.path.removesuffix(source.relative).rstrip("/")
    sentences = []
    while source.is_local and folder.startswith(top):
        if os.path.exists(summary := f"{folder}/_metadata"):
            sentences.append(sentence.format(summary))
        if folder in (top, "/"):
            break
        folder = os.path.dirname(folder)
    return sentences
