"""The only module that talks to fsspec: finds files, drives reading plans, and writes new files.

Local files are read by position through one descriptor, one file after the other. Everything else is read in rounds,
through `cat_ranges` or on S3 by conditional GETs, so that a store that can work on many requests at once is given many.
"""

from __future__ import annotations

import contextlib
import errno
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
from parquet_bloom.ranges import COALESCE_GAP, COALESCE_LIMIT, ByteRange, are_apart, coalesce, cut

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Limits:
    """How stores are read.

    `files` advance side by side, and what they wait for is asked for in rounds of at most `round_bytes`; both bound
    memory. Of a round, `in_flight` requests are under way at once. Ranges at most `gap` bytes apart become one request
    of at most `limit` bytes. A request that fails for a passing reason is made `retries` times more, after `backoff`
    seconds, then twice that, and so on.

    On a local disk files are read one after the other, and ranges coalesced over at most `local_gap` bytes: there a
    request costs next to nothing.
    """

    files: int = 256
    in_flight: int = 64
    round_bytes: int = 256 * 1024 * 1024
    gap: int = COALESCE_GAP
    local_gap: int = 512
    limit: int = COALESCE_LIMIT
    retries: int = 3
    backoff: float = 0.2

    def __post_init__(self) -> None:
        if min(self.files, self.in_flight, self.round_bytes) < 1 or self.retries < 0:
            raise ValueError("at least one file, one request and one byte at a time, and no negative retries")


DEFAULT_LIMITS = Limits()

SETTLING_SECONDS = 2.0
"""A file younger than this may change again within the same tick of its store's clock."""

PathLike = str | os.PathLike[str]
StorageOptions = dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Source:
    """One existing file. `name` is how users see it, `path` what its filesystem calls it.

    `version` changes when the file does: inode and modification time, an ETag, or whatever the store offers.
    `relative` is the path below the directory or the glob's fixed part that it was found under. It `is_settled` if
    no change from now on can leave the version as it is.
    """

    fs: Any = field(repr=False)
    path: str
    name: str
    size: int
    version: str
    relative: str
    is_local: bool = False
    is_settled: bool = True

    @property
    def local(self) -> Path | None:
        """The path on this machine's file systems, or None."""
        return Path(self.path) if self.is_local else None

    @property
    def identity(self) -> tuple[str, str, int, str] | None:
        """What tells this file, as it is now, from every other that there is or will be; None if nothing does."""
        if not self.is_settled:
            return None
        return "" if self.is_local else self.fs._fs_token, self.path, self.size, self.version

    @property
    def footer_guess(self) -> int:
        """How much to read first of the file's end: on a local disk another request is cheaper than more bytes."""
        return LOCAL_FOOTER_GUESS if self.is_local else FOOTER_GUESS


# ---- finding files -----------------------------------------------------------------------


def find(
    paths: PathLike | Iterable[PathLike],
    *,
    filesystem: Any = None,
    storage_options: StorageOptions = None,
    all_rows: bool = False,
) -> list[Source]:
    """Return the files that `paths` name: files, globs, directories (recursively, `*.parquet`), fsspec URLs.

    Below directories and globs, names that start with `_` or `.` are skipped, as engines do. Files come in the
    order of `paths`, sorted within each, and only once. Raises `FileNotFoundError` for a path that names nothing; with
    `all_rows` `UnsupportedError` for a directory with log files of a Hudi table, whose rows are in no Parquet file.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: dict[tuple[int, str], Source] = {}
    resolved = [(*resolve(os.fspath(path), filesystem, storage_options), path) for path in listed]
    known = _infos([(fs, inner) for fs, inner, _ in resolved])
    for fs, inner, path in resolved:
        info = known.get((id(fs), inner))
        if info is not None and info["type"] == "file" and info.get("size") is not None:
            sources = [_remote_source(fs, info, inner.rpartition("/")[0], os.fspath(path))]
        else:
            sources = _expand(fs, inner, os.fspath(path), all_rows)
        if not sources:
            raise FileNotFoundError(f"{os.fspath(path)} names no Parquet file")
        for source in sources:
            found.setdefault((id(fs), source.path), source)
    return list(found.values())


def find_flat(paths: Iterable[str], *, storage_options: StorageOptions = None) -> list[Source] | None:
    """Return every visible file of the given files and directories, whatever its name, sorted by path.

    None where there is more to it: folders below, summary files, globs, or a path that names nothing. Raises
    `UnsupportedError` as `find` does with `all_rows`.
    """
    found: dict[tuple[int, str], Source] = {}
    for path in paths:
        fs, inner = resolve(path, None, storage_options)
        sources = _flat_local(fs, inner) if is_local(fs) else _flat_remote(fs, inner, path)
        if not sources:
            return None
        found.update({(id(fs), source.path): source for source in sources})
    return sorted(found.values(), key=lambda source: source.path.encode("utf-16-be", "surrogatepass"))


def _flat_local(fs: Any, path: str) -> list[Source] | None:
    if not os.path.isdir(path):
        return _expand_local(fs, path, None, path) if os.path.isfile(path) else None
    sources = []
    with os.scandir(path) as entries:
        for entry in entries:
            _refuse_log(entry.name, path)
            if entry.name.startswith(_SUMMARIES) or (entry.is_dir() and not _is_hidden(entry.name)):
                return None
            if not _is_hidden(entry.name):
                sources.append(_stat_source(fs, entry.path, entry.path, entry.stat(), entry.name))
    return sources


def _flat_remote(fs: Any, path: str, asked: str) -> list[Source] | None:
    fs.invalidate_cache(path)
    try:
        listed = fs.ls(path, detail=True)
    except FileNotFoundError:
        return None
    sources = []
    for info in listed:
        name = info["name"].rstrip("/").rpartition("/")[2]
        _refuse_log(name, path)
        if name.startswith(_SUMMARIES) or (info["type"] == "directory" and not _is_hidden(name)):
            return None
        is_marker = info["name"].rstrip("/") == path.rstrip("/") and len(listed) > 1
        if not _is_hidden(name) and not is_marker:
            sources.append(_remote_source(fs, info, path, asked))
    return sources


_SUMMARIES = ("_metadata", "_common_metadata")


def _infos(paths: list[tuple[Any, str]]) -> dict[tuple[int, str], dict[str, Any]]:
    """Return what listings tell of remote files of which many are in one directory: one request instead of many.

    Whatever a store remembers of its listings is forgotten first; files may have been replaced since.
    """
    folders: dict[tuple[int, str], list[str]] = {}
    stores = {id(fs): fs for fs, _ in paths}
    for fs, path in paths:
        if not is_local(fs):
            folders.setdefault((id(fs), fs._parent(path)), []).append(path)
    infos = {}
    for (store, folder), members in folders.items():
        fs = stores[store]
        fs.invalidate_cache(folder)
        for path in members:
            fs.invalidate_cache(path)
        if len(members) >= _WORTH_LISTING:
            listed = _listed(fs, folder)
            infos.update({(store, path): listed[path] for path in members if path in listed})
    return infos


def resolve(path: str, filesystem: Any, storage_options: StorageOptions) -> tuple[Any, str]:
    """Return the file system of a path as users write it, and what that calls the path."""
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    if filesystem is not None:
        return filesystem, filesystem._strip_protocol(path)
    if "://" not in path and ("::" not in path or os.path.lexists(path)):
        return LocalFileSystem(), os.path.abspath(path)
    options = dict(storage_options or {})
    if path.startswith(("s3://", "s3a://")):
        options["config_kwargs"] = object_store.CONFIG | (options.get("config_kwargs") or {})
    fs, inner = url_to_fs(path, **options)
    return fs, inner


def is_local(fs: Any) -> bool:
    """Return whether a file system is this machine's."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(fs, LocalFileSystem)


def _expand(fs: Any, path: str, asked: str, all_rows: bool) -> list[Source]:
    is_glob = any(c in path for c in "*?[") and not fs.exists(path)
    if is_glob:
        root = path[: re.search(r"[*?\[]", path).start()].rpartition("/")[0]  # type: ignore[union-attr]
        names = sorted(globbing.glob(path, recursive=True)) if is_local(fs) else sorted(fs.glob(path))
        return [s for name in names for s in _expand_one(fs, name, root, asked, all_rows) if _visible(s.path, root)]
    return _expand_one(fs, path, None, asked, all_rows)


def _expand_one(fs: Any, path: str, root: str | None, asked: str, all_rows: bool) -> list[Source]:
    if is_local(fs):
        return _expand_local(fs, path, root, asked, all_rows)
    try:
        info = fs.info(path)
    except FileNotFoundError:
        return []
    if info["type"] != "directory":
        return [_remote_source(fs, info, root if root is not None else path.rpartition("/")[0], asked)]
    below = root if root is not None else path.rstrip("/")
    infos = fs.find(path, detail=True)
    if all_rows:
        for name in infos:
            folder, _, base = name.rpartition("/")
            if base.startswith(".") and _visible(folder, below):
                _refuse_log(base, folder)
    return [
        _remote_source(fs, infos[name], below, asked)
        for name in sorted(infos)
        if name.endswith(".parquet") and _visible(name, below)
    ]


def _expand_local(fs: Any, path: str, root: str | None, asked: str, all_rows: bool = False) -> list[Source]:
    relative_names = not os.path.isabs(asked) and "://" not in asked
    if not os.path.isdir(path):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return []
        return [_local_source(fs, path, status, root if root is not None else os.path.dirname(path), relative_names)]
    below = root if root is not None else path
    shown = os.path.relpath(path) if relative_names else path
    sources = []
    entered: set[str] = set()
    for folder, folders, files in os.walk(path, followlinks=True, onerror=_complain):
        if (real := os.path.realpath(folder)) in entered:  # by way of a symbolic link
            folders.clear()
            continue
        entered.add(real)
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        inside, seen = os.path.join(folder, ""), os.path.join(shown, folder[len(path) :].lstrip("/"), "")
        for name in sorted(files):
            if all_rows and name[0] == ".":
                _refuse_log(name, folder)
            if not name.endswith(".parquet") or _is_hidden(name):
                continue
            whole = inside + name
            try:
                status = os.stat(whole)
            except FileNotFoundError:  # a link that leads nowhere, or a file that has just gone
                continue
            sources.append(_stat_source(fs, whole, seen + name, status, whole[len(below) :].lstrip("/")))
    return sources


_HUDI_LOG = re.compile(r"\.[^_]+_\d+\.log\.\d+(_[^_]*)?")


def _refuse_log(name: str, folder: str) -> None:
    if _HUDI_LOG.fullmatch(name):
        raise UnsupportedError(
            f"{folder} has log files of a Hudi table, whose rows are in no Parquet file; name the table's own "
            "directory, alone, and with storage_options where it needs some"
        )


def _complain(error: OSError) -> None:
    raise error  # a folder that cannot be listed may hold rows


def _local_source(fs: Any, path: str, status: os.stat_result, root: str, relative_name: bool) -> Source:
    name = os.path.relpath(path) if relative_name else path
    relative = os.path.relpath(path, root or "/")
    return _stat_source(fs, path, name, status, relative)


def _stat_source(fs: Any, path: str, name: str, status: os.stat_result, relative: str) -> Source:
    is_settled = max(status.st_mtime, status.st_ctime) < time.time() - SETTLING_SECONDS
    return Source(fs, path, name, status.st_size, local_files.version(status), relative, True, is_settled)


def _remote_source(fs: Any, info: dict[str, Any], root: str, asked: str) -> Source:
    path = info["name"]
    scheme = asked.partition("://")[0] if "://" in asked else ""
    name = f"{scheme}://{path.lstrip('/')}" if scheme and "::" not in asked else path
    relative = path[len(root) :].lstrip("/") if path.startswith(root) else path.rpartition("/")[2]
    return Source(fs, path, name, info["size"] or 0, _remote_version(info), relative, False, _is_settled(fs, info))


_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "CRC")
_DATES = ("LastModified", "last_modified", "mtime", "updated", "created")


def _remote_version(info: dict[str, Any]) -> str:
    for key in (*_TAGS, *_DATES):
        if info.get(key) is not None:
            return f"{info['size']}-{_one_spelling(info[key])}"
    return f"{info['size']}"


def _is_settled(fs: Any, info: dict[str, Any]) -> bool:
    if not hasattr(fs, "_fs_token"):
        return False
    if any(info.get(key) is not None for key in _TAGS):
        return True
    for key in _DATES:
        if (value := info.get(key)) is not None:
            try:
                return float(_one_spelling(value)) < time.time() - SETTLING_SECONDS
            except ValueError:
                return False
    return False


def _one_spelling(value: Any) -> str:
    """Return the same text for what a listing and a look at one object spell differently: dates, quoted tags."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value)
    return str(value.timestamp() if isinstance(value, datetime) else value).strip('"')


def _visible(path: str, root: str) -> bool:
    below = path[len(root) :] if path.startswith(root) else path.rpartition("/")[2]
    return not any(_is_hidden(part) for part in below.split("/") if part)


def _is_hidden(name: str) -> bool:
    """Return whether engines pass a name by; `_year=2026` is a partition, for all its underscore."""
    return name[0] == "." or (name[0] == "_" and "=" not in name)


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

    @property
    def num_bytes(self) -> int:
        """What the next answer takes."""
        return sum(map(len, self.merged))

    def advance(self, parts: list[bytes] | Exception | None, limits: Limits) -> None:
        try:
            if isinstance(parts, Exception):
                self.wanted = self.plan.throw(parts)
            else:
                pieces = None if parts is None else cut(self.wanted, self.merged, parts)
                self.wanted = self.plan.send(pieces)  # type: ignore[arg-type]
            self.merged = coalesce(self.wanted, gap=limits.gap, limit=limits.limit)
        except StopIteration as stop:
            self.outcome = stop.value
            self.close()
        except (ParquetBloomError, OSError) as error:
            self.outcome = _named(error, self.source.name)
            self.close()

    def close(self) -> None:
        self.done = True
        self.plan.close()


_HELD = 4
"""Results that wait for an earlier file's, for each file that may be open."""


def drive(
    jobs: Iterable[tuple[Source, Plan[_Result]]],
    *,
    limits: Limits = DEFAULT_LIMITS,
    log: RequestLog | None = None,
) -> Iterator[tuple[Source, _Result | Exception]]:
    """Yield each source with its plan's result, in order; an expected error is a result, named after its file.

    The open plans of remote files advance together: what they wait for is coalesced per file and read in one round.
    A local file, or an S3 object, that is replaced or changed while it is read is a `ConcurrentChangeError`; for
    other stores the caller asks `changes` at the end.
    """
    waiting = iter(jobs)
    window: deque[_Job[_Result]] = deque()  # in order; those done wait for the ones before them
    active: list[_Job[_Result]] = []
    try:
        while True:
            room = min(limits.files - len(active), _HELD * limits.files - len(window))
            is_done = not window
            for source, plan in islice(waiting, max(0, room)):
                is_done = False
                if source.is_local and not window:
                    yield source, _run_local(source, plan, limits, log)
                    continue
                job = _Job(source, plan)
                window.append(job)
                if source.is_local:
                    job.outcome, job.done = _run_local(source, plan, limits, log), True
                else:
                    active.append(job)
                    job.advance(None, limits)
                    if job.done:
                        active.pop()
                yield from _finished(window)
            if is_done:
                return
            for job, parts in _read(active, limits, log):
                job.advance(parts, limits)
            active = [job for job in active if not job.done]
            yield from _finished(window)
    finally:
        for job in active:
            job.close()


def _finished(window: deque[_Job[_Result]]) -> Iterator[tuple[Source, _Result | Exception]]:
    while window and window[0].done:
        job = window.popleft()
        yield job.source, job.outcome  # type: ignore[misc]


def run(source: Source, plan: Plan[_Result], *, log: RequestLog | None = None) -> _Result:
    """Return the result of one plan on one file, or raise its error."""
    ((_, outcome),) = drive([(source, plan)], log=log)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _run_local(source: Source, plan: Plan[_Result], limits: Limits, log: RequestLog | None) -> _Result | Exception:
    """Return the result of a plan on a local file, or its error."""
    descriptor = None
    failed: OSError | None = None
    parts: list[bytes] | None = None
    try:
        while True:
            wanted = plan.throw(failed) if failed else plan.send(parts)  # type: ignore[arg-type]
            is_plain = are_apart(wanted, limits.local_gap)
            merged = wanted if is_plain else coalesce(wanted, gap=limits.local_gap, limit=limits.limit)
            if log is not None:
                log.requests += ((source.name, r) for r in merged)
            try:
                if descriptor is None:
                    descriptor = os.open(source.path, os.O_RDONLY | os.O_CLOEXEC)
                read = [os.pread(descriptor, stop - start, start) for start, stop in merged]
            except OSError as error:
                failed = error
            else:
                failed, parts = None, read if is_plain else cut(wanted, merged, read)
    except StopIteration as stop:
        result: _Result = stop.value
        return result if descriptor is None or _is_still_there(source) else _changed(source)
    except (ParquetBloomError, OSError) as error:
        return _named(error, source.name)
    finally:
        plan.close()
        if descriptor is not None:
            os.close(descriptor)


def _is_still_there(source: Source) -> bool:
    """Return whether what was read of a local file is what the name stands for now; of stores `changes` tells."""
    try:
        return local_files.version(os.stat(source.path)) == source.version
    except OSError:
        return False


def _read(
    jobs: list[_Job[Any]], limits: Limits, log: RequestLog | None
) -> Iterator[tuple[_Job[Any], list[bytes] | Exception]]:
    """Yield each job of a round with what it waits for, or an error."""
    stores: dict[int, list[_Job[Any]]] = {}
    for job in jobs:
        stores.setdefault(id(job.source.fs), []).append(job)
    for of_store in stores.values():
        remaining = deque(of_store)
        while remaining:
            batch: list[_Job[Any]] = []
            num_bytes = 0
            while remaining and (not batch or num_bytes + remaining[0].num_bytes <= limits.round_bytes):
                batch.append(remaining.popleft())
                num_bytes += batch[-1].num_bytes
            yield from _read_batch(batch, limits, log)


def _read_batch(
    jobs: list[_Job[Any]], limits: Limits, log: RequestLog | None
) -> Iterator[tuple[_Job[Any], list[bytes] | Exception]]:
    asked = [(job.source, r) for job in jobs for r in job.merged]
    parts = _fetch(asked, limits, log)
    pause = limits.backoff
    for _ in range(limits.retries):
        again = [i for i, part in enumerate(parts) if isinstance(part, Exception) and _is_passing(part)]
        if not again:
            break
        time.sleep(pause)
        pause *= 2
        for i, part in zip(again, _fetch([asked[i] for i in again], limits, log), strict=True):
            parts[i] = part
    answers = iter(parts)
    for job in jobs:
        of_job = [next(answers) for _ in job.merged]
        failed = next((part for part in of_job if isinstance(part, Exception)), None)
        # Stores and archives have errors of their own.
        if failed is not None and not isinstance(failed, OSError | ParquetBloomError):
            failed = OSError(f"{type(failed).__name__}: {failed}")
        yield job, failed or of_job  # type: ignore[misc]


def _fetch(asked: list[tuple[Source, ByteRange]], limits: Limits, log: RequestLog | None) -> list[bytes | Exception]:
    """Return the bytes of each range, or the error that asking for it gave; all are of one filesystem."""
    if not asked:
        return []
    if log is not None:
        log.requests += ((source.name, r) for source, r in asked)
    fs = asked[0][0].fs
    try:
        if object_store.is_s3(fs):
            wanted = [(source.path, r.start, r.stop, _etag(source)) for source, r in asked]
            parts = object_store.fetch(fs, wanted, in_flight=limits.in_flight)
        else:
            paths, starts, stops = map(list, zip(*((source.path, r.start, r.stop) for source, r in asked), strict=True))
            options = {"batch_size": limits.in_flight} if getattr(fs, "async_impl", False) else {}
            parts = fs.cat_ranges(paths, starts, stops, on_error="return", **options)
    except Exception as error:  # a store that fails as a whole, with whatever error it has for that
        return [error] * len(asked)
    return [_exactly(part, r) for part, (_, r) in zip(parts, asked, strict=True)]


def _exactly(part: Any, wanted: ByteRange) -> bytes | Exception:
    if isinstance(part, Exception):
        return part
    if len(part) > len(wanted):
        return UnsupportedError("the store does not honour ranges: it sent more bytes than it was asked for")
    return bytes(part)


_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ValueError, ParquetBloomError)
_LASTING_NUMBERS = {errno.EINVAL, errno.ENAMETOOLONG, errno.ENOSYS, errno.ENOTSUP, errno.ELOOP, errno.EROFS}
_PASSING_STATUS = {408, 425, 429, 500, 502, 503, 504}
_TRANSPORT = re.compile("Timeout|Connect|Disconnect|IncompleteRead|Payload|Streaming")


def _is_passing(error: Exception) -> bool:
    """Return whether asking again may help."""
    if isinstance(error, _LASTING):
        return False
    for name in ("status", "status_code", "code"):  # of HTTP, as the libraries below fsspec call it
        if isinstance(status := getattr(error, name, None), int) and 400 <= status < 600:
            return status in _PASSING_STATUS
    if isinstance(error, OSError):
        return error.errno not in _LASTING_NUMBERS
    # Those libraries have errors of their own for a connection that breaks, and are not imported here to be asked.
    return any(_TRANSPORT.search(kind.__name__) for kind in type(error).__mro__)


def changes(sources: Iterable[Source]) -> dict[Source, ConcurrentChangeError]:
    """Return the files of stores without conditional reads that are not the ones that were listed any more.

    Where many are in one directory they take one listing. Local files and S3 objects are left out: `drive` has told
    of them already.
    """
    folders: dict[tuple[int, str], list[Source]] = {}
    for source in sources:
        if not source.is_local and not object_store.is_s3(source.fs):
            folders.setdefault((id(source.fs), source.fs._parent(source.path)), []).append(source)
    found = {}
    for (_, folder), members in folders.items():
        fs = members[0].fs
        fs.invalidate_cache(folder)
        listed = _listed(fs, folder) if len(members) >= _WORTH_LISTING else {}
        for source in members:
            # What a listing lacks or tells otherwise, a look at the file itself has the last word on.
            if not (_is_version(listed.get(source.path), source) or _is_version(_info(source), source)):
                found[source] = _changed(source)
    return found


_WORTH_LISTING = 8
"""Of so many files in one directory, one listing tells more cheaply than a look at each."""


def _listed(fs: Any, folder: str) -> dict[str, dict[str, Any]]:
    with contextlib.suppress(Exception):  # stores have errors of their own for what they cannot list
        return {info["name"]: info for info in fs.ls(folder, detail=True)}
    return {}


def _info(source: Source) -> dict[str, Any] | None:
    with contextlib.suppress(Exception):
        info: dict[str, Any] = source.fs.info(source.path)
        return info
    return None


def _is_version(info: dict[str, Any] | None, source: Source) -> bool:
    return info is not None and _remote_version(info) == source.version


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
        self._source, self._range = source, range(start, min(stop, source.size))
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
        """Fill the buffer, unless the file ends before: the decoder takes less for the file's end."""
        length = min(len(buffer), max(0, self._source.size - self._position))
        done = 0
        while done < length:
            piece = self._some(self._position, length - done)
            buffer[done : done + len(piece)] = piece
            self._position += len(piece)
            done += len(piece)
        return done

    def _some(self, start: int, most: int) -> bytes:
        """Return at least one and at most so many bytes from `start`, which the file has."""
        if not self._piece_start <= start < self._piece_start + len(self._piece):
            stop = start + most
            if start in self._range:
                stop = max(stop, min(start + _WINDOW_BYTES, self._range.stop))
            self._piece, self._piece_start = b"", start
            try:
                self._piece = run(self._source, _read_range(ByteRange(start, stop)))
            except OSError as error:
                if error.errno or isinstance(error, ConcurrentChangeError):
                    raise
                # With a number, so that the decoder's caller can tell it from pages that do not decode.
                raise OSError(errno.EIO, str(error)) from error
            if not self._piece:
                raise OSError(errno.EIO, f"{self._source.name} ends before byte {start}")
        at = start - self._piece_start
        return self._piece[at : at + most]


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

TABLE_MARKS = {"Delta": ("_delta_log",), "Hudi": (".hoodie",), "Paimon": ("snapshot", "manifest")}


def table_around(fs: Any, path: str) -> tuple[str, str] | None:
    """Return the kind and the root of the table that `path` lies in (or would), or None.

    Walks up: `_delta_log/` is Delta, `metadata/*.metadata.json` Iceberg, `.hoodie/` Hudi, `snapshot/` with
    `manifest/` Paimon. A symbolic link lies where it is and where it leads.
    """
    for start in dict.fromkeys([path, os.path.realpath(path)] if is_local(fs) else [path]):
        folder = start.rstrip("/")
        while "/" in folder:
            folder = folder.rpartition("/")[0]
            if kind := table_kind(fs, folder):
                return kind, folder or "/"
    return None


def table_kind(fs: Any, folder: str) -> str | None:
    """Return which table format's root a folder is, or None."""
    # A local directory may hold very many files, so it is asked for names instead of listed.
    listed = None if is_local(fs) else names_in(fs, folder or "/")

    def holds(name: str) -> bool:
        return os.path.exists(f"{folder}/{name}") if listed is None else name in listed

    for kind, marks in TABLE_MARKS.items():
        if all(holds(mark) for mark in marks):
            return kind
    if holds("metadata") and any(n.endswith(".metadata.json") for n in names_in(fs, f"{folder}/metadata")):
        return "Iceberg"
    return None


def names_in(fs: Any, folder: str) -> set[str]:
    """Return the names in a folder; none where there is none, or none may be listed. Raises what else went wrong."""
    if is_local(fs):
        with contextlib.suppress(OSError):
            return set(os.listdir(folder))
        return set()
    # An error that may pass is raised: what is taken for no table is read, and written to, as plain files.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError, ValueError, NotImplementedError):
        return {name.rstrip("/").rpartition("/")[2] for name in fs.ls(folder, detail=False)}
    return set()


def files_below(path: str, *, filesystem: Any = None, storage_options: StorageOptions = None) -> dict[str, int]:
    """Return the size of every file below a directory, hidden ones included, by its path there."""
    fs, top = resolve(path, filesystem, storage_options)
    top = top.rstrip("/")
    found: dict[str, int] = {}
    if not is_local(fs):
        fs.invalidate_cache(top)
        for name, info in fs.find(top, detail=True).items():
            found[name.removeprefix(top).lstrip("/")] = info["size"]
        return found
    entered: set[str] = set()
    for folder, folders, files in os.walk(top or "/", followlinks=True, onerror=_complain):
        if (real := os.path.realpath(folder)) in entered:
            folders.clear()
            continue
        entered.add(real)
        for name in files:
            whole = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                found[whole[len(top) :].lstrip("/")] = os.stat(whole).st_size
    return found


def join_output(fs: Any, output: str, relative: str = "") -> str:
    """Return the path, as `fs` calls it, of `output` or of what lies below it."""
    scheme = output.partition("://")[0] if "://" in output else None
    if scheme is not None and scheme not in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol):
        raise UnsupportedError(f"{output} is not on the file system of what is read; copy it there afterwards")
    inner = os.path.abspath(output) if is_local(fs) and scheme is None else fs._strip_protocol(output)
    return f"{inner.rstrip('/')}/{relative}" if relative else inner


def is_directory(fs: Any, path: str) -> bool:
    """Return whether `path`, as users write it, is a directory (or a glob, which stands for several files)."""
    inner = path if is_local(fs) else fs._strip_protocol(path)
    return bool(fs.isdir(inner)) or (any(c in inner for c in "*?[") and not fs.exists(inner))


def summaries_above(source: Source, sentence: str) -> list[str]:
    """Return a sentence for each `_metadata` file from a local file's folder up to the one it was found under.

    Such a file repeats footers; engines on object stores have given it up.
    """
    folder, top = os.path.dirname(source.path), source.path.removesuffix(source.relative).rstrip("/")
    found = []
    while source.is_local and folder.startswith(top):
        if os.path.exists(summary := f"{folder}/_metadata"):
            found.append(sentence.format(summary))
        if folder in (top, "/"):
            break
        folder = os.path.dirname(folder)
    return found


# ---- a folder of small files -------------------------------------------------------------


class Folder:
    """A folder of files that are written once and never changed, on any file system."""

    def __init__(self, path: str, *, storage_options: StorageOptions = None, filesystem: Any = None) -> None:
        self.fs, self.path = resolve(path, filesystem, storage_options)
        self.name = path
        self._is_local = is_local(self.fs)

    def names(self) -> list[str]:
        """Return the names of the files in it, sorted; none where there is no such folder."""
        if self._is_local:
            try:
                return sorted(os.listdir(self.path))
            except FileNotFoundError:
                return []
        self.fs.invalidate_cache(self.path)
        try:
            return sorted(name.rstrip("/").rpartition("/")[2] for name in self.fs.ls(self.path, detail=False))
        except FileNotFoundError:
            return []

    def source(self, name: str) -> Source:
        """Return one of its files; raises `FileNotFoundError`."""
        path = f"{self.path.rstrip('/')}/{name}"
        if self._is_local:
            return _stat_source(self.fs, path, path, os.stat(path), name)
        return _remote_source(self.fs, self.fs.info(path), self.path, self.name)

    def create(self, name: str, data: bytes) -> None:
        """Write a new file whole, or raise `FileExistsError`, also where another writer was a moment before."""
        path = f"{self.path.rstrip('/')}/{name}"
        if self._is_local:
            os.makedirs(self.path, exist_ok=True)
            local_files.create(Path(path), data)
        elif object_store.is_s3(self.fs):
            object_store.create(self.fs, path, data)
        else:
            if self.fs.exists(path):
                raise FileExistsError(path)
            self.fs.pipe_file(path, data)

    def age(self, name: str) -> float:
        """Return how many seconds ago a file was written, 0 where that cannot be told."""
        with contextlib.suppress(Exception):  # stores have errors of their own
            changed = self.fs.modified(f"{self.path.rstrip('/')}/{name}")
            return max(0.0, time.time() - float(_one_spelling(changed)))
        return 0.0

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; one that is gone already is as good."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(f"{self.path.rstrip('/')}/{name}")

    def remove_if_empty(self) -> None:
        """Remove the folder itself where nothing is in it."""
        if self._is_local:
            with contextlib.suppress(OSError):
                os.rmdir(self.path)
