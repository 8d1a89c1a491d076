"""The only module that talks to fsspec: finds files, drives reading plans, and writes new files.

Local files are read by position through one descriptor; everything else through `cat_ranges`, so that a store
that can work on many requests at once is given many at once.
"""

from __future__ import annotations

import contextlib
import glob as globbing
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from parquet_bloom import local_files
from parquet_bloom.errors import (
    ConcurrentChangeError,
    CorruptFileError,
    FilterExistsError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.footer import Plan
from parquet_bloom.ranges import COALESCE_GAP, COALESCE_LIMIT, ByteRange, coalesce, cut

_Result = TypeVar("_Result")

PLANS_IN_FLIGHT = 64
"""How many files advance side by side: bounds memory (a guess is 256 KiB) and a store's parallel requests."""

PathLike = str | os.PathLike[str]
StorageOptions = dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Source:
    """One existing file. `name` is how users see it, `path` what its filesystem calls it.

    `version` changes when the file does: inode and modification time, an ETag, or whatever the store offers.
    `relative` is the path below the directory or the glob's fixed part that it was found under.
    """

    fs: Any = field(repr=False)
    path: str
    name: str
    size: int
    version: str
    relative: str

    @property
    def local(self) -> Path | None:
        """The path on this machine's file systems, or None."""
        return Path(self.path) if _is_local(self.fs) else None

    def open(self) -> Any:
        """Return a seekable binary file object (for pyarrow)."""
        return self.fs.open(self.path, "rb")


# ---- finding files -----------------------------------------------------------------------


def find(
    paths: PathLike | Iterable[PathLike], *, filesystem: Any = None, storage_options: StorageOptions = None
) -> list[Source]:
    """Return the files that `paths` name: files, globs, directories (recursively, `*.parquet`), fsspec URLs.

    Below directories and globs, names that start with `_` or `.` are skipped, as engines do. Files come in the
    order of `paths`, sorted within each, and only once. Raises `FileNotFoundError` for a path that names nothing.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: dict[tuple[int, str], Source] = {}
    for path in listed:
        fs, inner = _resolve(os.fspath(path), filesystem, storage_options)
        sources = _expand(fs, inner, os.fspath(path))
        if not sources:
            raise FileNotFoundError(f"{os.fspath(path)} names no Parquet file")
        for source in sources:
            found.setdefault((id(fs), source.path), source)
    return list(found.values())


def _resolve(path: str, filesystem: Any, storage_options: StorageOptions) -> tuple[Any, str]:
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    if filesystem is not None:
        return filesystem, filesystem._strip_protocol(path)
    if "://" not in path and "::" not in path:
        return LocalFileSystem(), os.path.abspath(path)
    fs, inner = url_to_fs(path, **(storage_options or {}))
    return fs, inner


def _is_local(fs: Any) -> bool:
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(fs, LocalFileSystem)


def _expand(fs: Any, path: str, asked: str) -> list[Source]:
    is_glob = any(c in path for c in "*?[") and not fs.exists(path)
    if is_glob:
        root = path[: re.search(r"[*?\[]", path).start()].rpartition("/")[0]  # type: ignore[union-attr]
        names = sorted(globbing.glob(path, recursive=True)) if _is_local(fs) else sorted(fs.glob(path))
        return [s for name in names for s in _expand_one(fs, name, root, asked) if _visible(s.path, root)]
    return _expand_one(fs, path, None, asked)


def _expand_one(fs: Any, path: str, root: str | None, asked: str) -> list[Source]:
    if _is_local(fs):
        return _expand_local(fs, path, root, asked)
    try:
        info = fs.info(path)
    except FileNotFoundError:
        return []
    if info["type"] != "directory":
        return [_remote_source(fs, info, root if root is not None else path.rpartition("/")[0], asked)]
    below = root if root is not None else path.rstrip("/")
    infos = fs.find(path, detail=True)
    return [
        _remote_source(fs, infos[name], below, asked)
        for name in sorted(infos)
        if name.endswith(".parquet") and _visible(name, below)
    ]


def _expand_local(fs: Any, path: str, root: str | None, asked: str) -> list[Source]:
    relative_names = not os.path.isabs(asked) and "://" not in asked
    if not os.path.isdir(path):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return []
        return [_local_source(fs, path, status, root if root is not None else os.path.dirname(path), relative_names)]
    below = root if root is not None else path
    sources = []
    for folder, folders, files in os.walk(path, followlinks=True):
        folders[:] = sorted(name for name in folders if name[0] not in "_.")
        for name in sorted(files):
            if name.endswith(".parquet") and name[0] not in "_.":
                whole = os.path.join(folder, name)
                sources.append(_local_source(fs, whole, os.stat(whole), below, relative_names))
    return sources


def _local_source(fs: Any, path: str, status: os.stat_result, root: str, relative_name: bool) -> Source:
    name = os.path.relpath(path) if relative_name else path
    return Source(fs, path, name, status.st_size, local_files.version(status), os.path.relpath(path, root or "/"))


def _remote_source(fs: Any, info: dict[str, Any], root: str, asked: str) -> Source:
    path = info["name"]
    scheme = asked.partition("://")[0] if "://" in asked else ""
    name = f"{scheme}://{path.lstrip('/')}" if scheme and "::" not in asked else path
    relative = path[len(root) :].lstrip("/") if path.startswith(root) else path.rpartition("/")[2]
    return Source(fs, path, name, info["size"] or 0, _remote_version(info), relative)


def _remote_version(info: dict[str, Any]) -> str:
    for key in (
        "ETag",
        "etag",
        "md5Hash",
        "content_md5",
        "LastModified",
        "last_modified",
        "mtime",
        "updated",
        "created",
    ):
        if info.get(key) is not None:
            return f"{info['size']}-{info[key]}"
    return f"{info['size']}"


def _visible(path: str, root: str) -> bool:
    below = path[len(root) :] if path.startswith(root) else path.rpartition("/")[2]
    return not any(part[:1] in ("_", ".") for part in below.split("/") if part)


# ---- driving plans -----------------------------------------------------------------------


@dataclass(slots=True)
class RequestLog:
    """Every request that was made, in order; `str()` is the text that I/O tests compare."""

    requests: list[tuple[str, ByteRange]] = field(default_factory=list)

    @property
    def num_bytes(self) -> int:
        """Bytes asked for, over all requests."""
        return sum(len(r) for _, r in self.requests)

    def __str__(self) -> str:
        return "\n".join(f"{name} {r} ({len(r)} bytes)" for name, r in self.requests)


@dataclass(slots=True)
class _Job(Generic[_Result]):
    source: Source
    plan: Plan[_Result]
    wanted: list[ByteRange] = field(default_factory=list)
    merged: list[ByteRange] = field(default_factory=list)
    outcome: _Result | Exception | None = None
    done: bool = False
    descriptor: int | None = None

    def advance(self, parts: list[bytes] | Exception | None, gap: int, limit: int) -> None:
        try:
            if isinstance(parts, Exception):
                self.plan.throw(parts)
                raise AssertionError("a plan went on after a failed read")
            pieces = None if parts is None else cut(self.wanted, self.merged, parts)
            self.wanted = self.plan.send(pieces)  # type: ignore[arg-type]
            self.merged = coalesce(self.wanted, gap=gap, limit=limit)
        except StopIteration as stop:
            self.outcome = stop.value
            self._close()
        except (ParquetBloomError, OSError) as error:
            self.outcome = _named(error, self.source.name)
            self._close()

    def _close(self) -> None:
        self.done = True
        self.plan.close()
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def drive(
    jobs: Iterable[tuple[Source, Plan[_Result]]],
    *,
    in_flight: int = PLANS_IN_FLIGHT,
    gap: int = COALESCE_GAP,
    limit: int = COALESCE_LIMIT,
    log: RequestLog | None = None,
) -> Iterator[tuple[Source, _Result | Exception]]:
    """Yield each source with its plan's result, in order; an expected error is a result, named after its file.

    At most `in_flight` plans are open. All of them advance together: what they wait for is coalesced per file and
    read in one batch.
    """
    waiting = iter(jobs)
    window: deque[_Job[_Result]] = deque()
    try:
        while True:
            for source, plan in islice(waiting, in_flight - len(window)):
                window.append(_Job(source, plan))
                window[-1].advance(None, gap, limit)
            if not window:
                return
            for open_job, parts in _read([job for job in window if not job.done], log):
                open_job.advance(parts, gap, limit)
            while window and window[0].done:
                finished = window.popleft()
                yield finished.source, finished.outcome  # type: ignore[misc]
    finally:
        for job in window:
            job._close()


def run(source: Source, plan: Plan[_Result], *, log: RequestLog | None = None) -> _Result:
    """Return the result of one plan on one file, or raise its error."""
    ((_, outcome),) = drive([(source, plan)], log=log)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _read(jobs: list[_Job[Any]], log: RequestLog | None) -> Iterator[tuple[_Job[Any], list[bytes] | Exception]]:
    if log is not None:
        log.requests += ((job.source.name, r) for job in jobs for r in job.merged)
    remote: dict[int, list[_Job[Any]]] = {}
    for job in jobs:
        if job.source.local is None:
            remote.setdefault(id(job.source.fs), []).append(job)
        else:
            yield job, _read_local(job)
    for group in remote.values():
        yield from _read_remote(group)


def _read_local(job: _Job[Any]) -> list[bytes] | Exception:
    try:
        if job.descriptor is None:
            job.descriptor = os.open(job.source.path, os.O_RDONLY | os.O_CLOEXEC)
        return [os.pread(job.descriptor, len(r), r.start) for r in job.merged]
    except OSError as error:
        return error


def _read_remote(jobs: list[_Job[Any]]) -> Iterator[tuple[_Job[Any], list[bytes] | Exception]]:
    asked = [(job.source.path, r.start, r.stop) for job in jobs for r in job.merged]
    paths, starts, stops = map(list, zip(*asked, strict=True)) if asked else ([], [], [])
    answers = iter(jobs[0].source.fs.cat_ranges(paths, starts, stops, on_error="return"))
    for job in jobs:
        parts = [next(answers) for _ in job.merged]
        failed = next((part for part in parts if isinstance(part, Exception)), None)
        yield job, failed or [bytes(part) for part in parts]


def _named(error: Exception, name: str) -> Exception:
    if isinstance(error, CorruptFileError):
        error.path = error.path or name
    return error


# ---- writing -----------------------------------------------------------------------------


class Rewrite(Protocol):
    """A new file under way: a prefix of the old one, then what is appended. Nothing is visible before `commit`."""

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


def rewrite(source: Source, keep: int, *, target: str | None = None, keep_mtime: bool = False) -> Rewrite:
    """Return a rewrite of `source` that starts with its first `keep` bytes.

    Without `target` it replaces the source; with it, a path on the source's filesystem that must not exist.
    """
    if source.local is not None:
        new = Path(target) if target is not None else None
        if new is not None:
            new.parent.mkdir(parents=True, exist_ok=True)
        return local_files.Rewrite(source.local, keep, version=source.version, target=new, keep_mtime=keep_mtime)
    return _ObjectRewrite(source, keep, target)


class _ObjectRewrite:
    """The rewrite for every other filesystem: what is appended waits in memory, `commit` puts the whole object."""

    def __init__(self, source: Source, keep: int, target: str | None) -> None:
        self._source, self._keep, self._target = source, keep, target or source.path
        self._tail = bytearray()
        self.position = keep
        self.stale: str | None = None
        if target is not None and source.fs.exists(target):
            raise FilterExistsError(f"{target} exists; name a path that does not, or remove it first")
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
        content = fs.cat_file(self._source.path, 0, self._keep) + self._tail
        self._check_unchanged()
        try:
            fs.pipe_file(self._target, content)
        except NotImplementedError:
            raise UnsupportedError(f"{type(fs).__name__} cannot be written to; write a copy with -o") from None
        if fs.size(self._target) != len(content):
            raise ConcurrentChangeError(f"{self._target} has not the size that was written")

    def _check_unchanged(self) -> None:
        self._source.fs.invalidate_cache(self._source.fs._parent(self._source.path))
        if _remote_version(self._source.fs.info(self._source.path)) != self._source.version:
            raise ConcurrentChangeError(f"{self._source.name} changed since it was read; nothing was written")


# ---- tables ------------------------------------------------------------------------------

_TABLE_MARKS: dict[str, Callable[[set[str]], bool]] = {
    "Delta": lambda names: "_delta_log" in names,
    "Hudi": lambda names: ".hoodie" in names,
    "Paimon": lambda names: {"snapshot", "manifest"} <= names,
}


def table_around(fs: Any, path: str) -> tuple[str, str] | None:
    """Return the kind and the root of the table that `path` lies in (or would), or None.

    Walks up: `_delta_log/` is Delta, `metadata/*.metadata.json` Iceberg, `.hoodie/` Hudi, `snapshot/` with
    `manifest/` Paimon.
    """
    folder = path.rstrip("/")
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        names = _names(fs, folder or "/")
        for kind, holds in _TABLE_MARKS.items():
            if holds(names):
                return kind, folder
        if "metadata" in names and any(n.endswith(".metadata.json") for n in _names(fs, f"{folder}/metadata")):
            return "Iceberg", folder
    return None


def _names(fs: Any, folder: str) -> set[str]:
    if _is_local(fs):
        with contextlib.suppress(OSError):
            return set(os.listdir(folder))
        return set()
    with contextlib.suppress(OSError, ValueError, NotImplementedError):
        return {name.rstrip("/").rpartition("/")[2] for name in fs.ls(folder, detail=False)}
    return set()


def join_output(fs: Any, output: str, relative: str = "") -> str:
    """Return the path, as `fs` calls it, of `output` or of what lies below it."""
    inner = os.path.abspath(output) if _is_local(fs) else fs._strip_protocol(output)
    return f"{inner.rstrip('/')}/{relative}" if relative else inner


def is_directory(fs: Any, path: str) -> bool:
    """Return whether `path`, as users write it, is a directory (or a glob, which stands for several files)."""
    inner = path if _is_local(fs) else fs._strip_protocol(path)
    return bool(fs.isdir(inner)) or (any(c in inner for c in "*?[") and not fs.exists(inner))
