"""The only module that talks to fsspec: finds files, drives reading plans, and writes new files.

Local files are read by position through one descriptor; everything else through `cat_ranges`, so that a store
that can work on many requests at once is given many at once.
"""

from __future__ import annotations

import contextlib
import glob as globbing
import io
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from parquet_bloom import local_files, object_store
from parquet_bloom.errors import (
    ConcurrentChangeError,
    CorruptFileError,
    FilterExistsError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.footer import FOOTER_GUESS, LOCAL_FOOTER_GUESS, Plan
from parquet_bloom.ranges import COALESCE_GAP, COALESCE_LIMIT, ByteRange, coalesce, cut

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Limits:
    """How stores are read.

    `in_flight` files advance side by side, which bounds memory (a guess is 256 KiB) and parallel requests. Ranges at
    most `gap` bytes apart become one request of at most `limit` bytes; on a local disk only `local_gap` apart, for
    there a request costs next to nothing. A request that fails for a passing reason is made `retries` times more,
    after `backoff` seconds, then twice that, and so on.
    """

    in_flight: int = 64
    gap: int = COALESCE_GAP
    local_gap: int = 512
    limit: int = COALESCE_LIMIT
    retries: int = 3
    backoff: float = 0.2


DEFAULT_LIMITS = Limits()

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

    @property
    def is_local(self) -> bool:
        """Whether the path is on this machine's file systems."""
        return _is_local(self.fs)

    @property
    def footer_guess(self) -> int:
        """How much to read first of the file's end: on a local disk another request is cheaper than more bytes."""
        return LOCAL_FOOTER_GUESS if self.is_local else FOOTER_GUESS


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
    if "://" not in path and ("::" not in path or os.path.lexists(path)):
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
    entered: set[str] = set()
    for folder, folders, files in os.walk(path, followlinks=True):
        if (real := os.path.realpath(folder)) in entered:  # by way of a symbolic link
            folders.clear()
            continue
        entered.add(real)
        folders[:] = sorted(name for name in folders if name[0] not in "_.")
        for name in sorted(files):
            whole = os.path.join(folder, name)
            if name.endswith(".parquet") and name[0] not in "_." and os.path.exists(whole):
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
            return f"{info['size']}-{_one_spelling(info[key])}"
    return f"{info['size']}"


def _one_spelling(value: Any) -> str:
    """Return the same text for what a listing and a look at one object spell differently: dates, quoted tags."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value)
    return str(value.timestamp() if isinstance(value, datetime) else value).strip('"')


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

    def advance(self, parts: list[bytes] | Exception | None, limits: Limits) -> None:
        gap = limits.local_gap if self.source.is_local else limits.gap
        try:
            if isinstance(parts, Exception):
                self.plan.throw(parts)
                raise AssertionError("a plan went on after a failed read")
            pieces = None if parts is None else cut(self.wanted, self.merged, parts)
            self.wanted = self.plan.send(pieces)  # type: ignore[arg-type]
            self.merged = coalesce(self.wanted, gap=gap, limit=limits.limit)
        except StopIteration as stop:
            self.outcome = stop.value if self._is_still_there() else _changed(self.source)
            self._close()
        except (ParquetBloomError, OSError) as error:
            self.outcome = _named(error, self.source.name)
            self._close()

    def _is_still_there(self) -> bool:
        """Return whether what was read is what the name stands for now; of other stores `unchanged` tells."""
        if self.descriptor is None:
            return True
        try:
            return local_files.version(os.stat(self.source.path)) == self.source.version
        except OSError:
            return False

    def _close(self) -> None:
        self.done = True
        self.plan.close()
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def drive(
    jobs: Iterable[tuple[Source, Plan[_Result]]],
    *,
    limits: Limits = DEFAULT_LIMITS,
    log: RequestLog | None = None,
) -> Iterator[tuple[Source, _Result | Exception]]:
    """Yield each source with its plan's result, in order; an expected error is a result, named after its file.

    All open plans advance together: what they wait for is coalesced per file and read in one batch. A file that is
    replaced or changed while it is read is a `ConcurrentChangeError`.
    """
    waiting = iter(jobs)
    window: deque[_Job[_Result]] = deque()  # in order; those done wait for the ones before them
    active: list[_Job[_Result]] = []
    try:
        while True:
            for source, plan in islice(waiting, limits.in_flight - len(active)):
                window.append(_Job(source, plan))
                active.append(window[-1])
                window[-1].advance(None, limits)
            active = [job for job in active if not job.done]
            for open_job, parts in _read(active, limits, log):
                open_job.advance(parts, limits)
            active = [job for job in active if not job.done]
            while window and window[0].done:
                finished = window.popleft()
                yield finished.source, finished.outcome  # type: ignore[misc]
            if not window and not active:
                return
    finally:
        for job in active:
            job._close()


def run(source: Source, plan: Plan[_Result], *, log: RequestLog | None = None) -> _Result:
    """Return the result of one plan on one file, or raise its error."""
    ((_, outcome),) = drive([(source, plan)], log=log)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _read(
    jobs: list[_Job[Any]], limits: Limits, log: RequestLog | None
) -> Iterator[tuple[_Job[Any], list[bytes] | Exception]]:
    if log is not None:
        log.requests += ((job.source.name, r) for job in jobs for r in job.merged)
    remote: dict[int, list[_Job[Any]]] = {}
    for job in jobs:
        if job.source.is_local:
            yield job, _read_local(job)
        else:
            remote.setdefault(id(job.source.fs), []).append(job)
    for group in remote.values():
        yield from _read_remote(group, limits, log)


def _read_local(job: _Job[Any]) -> list[bytes] | Exception:
    try:
        if job.descriptor is None:
            job.descriptor = os.open(job.source.path, os.O_RDONLY | os.O_CLOEXEC)
        return [os.pread(job.descriptor, len(r), r.start) for r in job.merged]
    except OSError as error:
        return error


def _read_remote(
    jobs: list[_Job[Any]], limits: Limits, log: RequestLog | None
) -> Iterator[tuple[_Job[Any], list[bytes] | Exception]]:
    asked = [(job.source, r) for job in jobs for r in job.merged]
    parts = _fetch(asked)
    pause = limits.backoff
    for _ in range(limits.retries):
        again = [i for i, part in enumerate(parts) if isinstance(part, Exception) and _is_passing(part)]
        if not again:
            break
        time.sleep(pause)
        pause *= 2
        if log is not None:
            log.requests += ((asked[i][0].name, asked[i][1]) for i in again)
        for i, part in zip(again, _fetch([asked[i] for i in again]), strict=True):
            parts[i] = part
    answers = iter(parts)
    for job in jobs:
        of_job = [next(answers) for _ in job.merged]
        failed = next((part for part in of_job if isinstance(part, Exception)), None)
        if failed is not None and not isinstance(failed, OSError):  # stores and archives have errors of their own
            failed = OSError(f"{type(failed).__name__}: {failed}")
        yield job, failed or of_job  # type: ignore[misc]


def _fetch(asked: list[tuple[Source, ByteRange]]) -> list[bytes | Exception]:
    """Return the bytes of each range, or the error that asking for it gave; all are of one filesystem."""
    if not asked:
        return []
    fs = asked[0][0].fs
    if object_store.is_s3(fs):
        return object_store.fetch(fs, [(source.path, r.start, r.stop, _etag(source)) for source, r in asked])
    paths, starts, stops = map(list, zip(*((source.path, r.start, r.stop) for source, r in asked), strict=True))
    parts = fs.cat_ranges(paths, starts, stops, on_error="return")
    return [part if isinstance(part, Exception) else bytes(part) for part in parts]


_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ConcurrentChangeError)


def _is_passing(error: Exception) -> bool:
    """Return whether asking again may help."""
    return isinstance(error, OSError | TimeoutError | ConnectionError) and not isinstance(error, _LASTING)


def unchanged(sources: Iterable[Source]) -> dict[str, bool]:
    """Return for each path of a store without conditional reads whether the file is still the one that was listed.

    One listing for each directory. Local files and S3 objects are left out: `drive` has told of them already.
    """
    folders: dict[tuple[int, str], list[Source]] = {}
    for source in sources:
        if not source.is_local and not object_store.is_s3(source.fs):
            folders.setdefault((id(source.fs), source.fs._parent(source.path)), []).append(source)
    found = {}
    for (_, folder), members in folders.items():
        fs = members[0].fs
        try:
            fs.invalidate_cache(folder)
            infos = {info["name"]: info for info in fs.ls(folder, detail=True)}
        except (OSError, ValueError, NotImplementedError):
            infos = {}
        for source in members:
            info = infos.get(source.path)
            found[source.path] = info is not None and _remote_version(info) == source.version
    return found


def _changed(source: Source) -> ConcurrentChangeError:
    return ConcurrentChangeError(f"{source.name} changed while it was read")


def _etag(source: Source) -> str:
    return source.version.partition("-")[2]


def open_chunk(source: Source, start: int, stop: int) -> Any:
    """Return a seekable file for reading one column chunk of a remote file, at these bytes of it."""
    return _Window(source, start, stop)


_WINDOW_BYTES = 8 * 1024 * 1024


class _Window(io.RawIOBase):
    """A remote file that fetches pieces of a range as they are needed, and nothing ahead of the range's end."""

    def __init__(self, source: Source, start: int, stop: int) -> None:
        self._source, self._range = source, ByteRange(start, min(stop, source.size))
        self._position = 0
        self._piece, self._piece_start = b"", 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._source.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self._at(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _at(self, start: int, length: int) -> bytes:
        stop = min(start + length, self._source.size)
        if start >= stop:
            return b""
        held = self._piece_start, self._piece_start + len(self._piece)
        if not held[0] <= start < held[1]:
            inside = self._range.start <= start < self._range.stop
            most = min(max(start + _WINDOW_BYTES, stop), self._range.stop) if inside else stop
            self._piece = run(self._source, _read_range(ByteRange(start, most)))
            self._piece_start = start
            if not self._piece:
                raise OSError(f"{self._source.name} ends before byte {start}")
        at = start - self._piece_start
        return self._piece[at : at + stop - start]


def _read_range(wanted: ByteRange) -> Plan[bytes]:
    (data,) = yield [wanted]
    return data


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
    if object_store.is_s3(source.fs):
        return object_store.S3Rewrite(source.fs, source.path, keep, etag=_etag(source), target=target)
    return _ObjectRewrite(source, keep, target)


class _ObjectRewrite:
    """The rewrite for every other filesystem: what is appended waits in memory, `commit` puts the whole object."""

    def __init__(self, source: Source, keep: int, target: str | None) -> None:
        from fsspec.archive import AbstractArchiveFileSystem

        self._source, self._keep, self._target = source, keep, target or source.path
        self._tail = bytearray()
        self.position = keep
        self.stale: str | None = None
        if isinstance(source.fs, AbstractArchiveFileSystem):
            raise UnsupportedError("a file inside an archive cannot be written; take it out first")
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
        kept = fs.cat_file(self._source.path, 0, self._keep)
        self._check_unchanged()
        if len(kept) != self._keep:
            raise ConcurrentChangeError(f"{self._source.name} became shorter since it was read; nothing was written")
        content = kept + self._tail
        try:
            fs.pipe_file(self._target, content)
        except NotImplementedError:
            raise UnsupportedError(f"{type(fs).__name__} cannot be written to; copy the file to where it can") from None
        if fs.size(self._target) != len(content):
            raise ConcurrentChangeError(f"{self._target} has not the size that was written")

    def _check_unchanged(self) -> None:
        self._source.fs.invalidate_cache(self._source.fs._parent(self._source.path))
        if _remote_version(self._source.fs.info(self._source.path)) != self._source.version:
            raise ConcurrentChangeError(f"{self._source.name} changed since it was read; nothing was written")


# ---- tables ------------------------------------------------------------------------------

_TABLE_MARKS = {"Delta": ("_delta_log",), "Hudi": (".hoodie",), "Paimon": ("snapshot", "manifest")}


def table_around(fs: Any, path: str) -> tuple[str, str] | None:
    """Return the kind and the root of the table that `path` lies in (or would), or None.

    Walks up: `_delta_log/` is Delta, `metadata/*.metadata.json` Iceberg, `.hoodie/` Hudi, `snapshot/` with
    `manifest/` Paimon. A symbolic link lies where it is and where it leads.
    """
    for start in dict.fromkeys([path, os.path.realpath(path)] if _is_local(fs) else [path]):
        folder = start.rstrip("/")
        while "/" in folder:
            folder = folder.rpartition("/")[0]
            if kind := _table_kind(fs, folder):
                return kind, folder or "/"
    return None


def _table_kind(fs: Any, folder: str) -> str | None:
    # A local directory may hold very many files, so it is asked for names instead of listed.
    listed = None if _is_local(fs) else _names(fs, folder or "/")

    def holds(name: str) -> bool:
        return os.path.exists(f"{folder}/{name}") if listed is None else name in listed

    for kind, marks in _TABLE_MARKS.items():
        if all(holds(mark) for mark in marks):
            return kind
    if holds("metadata") and any(n.endswith(".metadata.json") for n in _names(fs, f"{folder}/metadata")):
        return "Iceberg"
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
    scheme = output.partition("://")[0] if "://" in output else None
    if scheme is not None and scheme not in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol):
        raise UnsupportedError(f"{output} is not on the file system of what is read; copy it there afterwards")
    inner = os.path.abspath(output) if _is_local(fs) and scheme is None else fs._strip_protocol(output)
    return f"{inner.rstrip('/')}/{relative}" if relative else inner


def is_directory(fs: Any, path: str) -> bool:
    """Return whether `path`, as users write it, is a directory (or a glob, which stands for several files)."""
    inner = path if _is_local(fs) else fs._strip_protocol(path)
    return bool(fs.isdir(inner)) or (any(c in inner for c in "*?[") and not fs.exists(inner))
