"""Carries out plans: batches their byte ranges, reads many files at once, repeats temporary failures, logs requests."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

from parquet_bloom import _kernel
from parquet_bloom.errors import (
    ConcurrentChangeError,
    CorruptFileError,
    ParquetBloomError,
    UnsupportedError,
)
from parquet_bloom.format.footer import FOOTER_BYTES, Plan, most_footer_bytes
from parquet_bloom.format.ranges import COALESCE_GAP, COALESCE_LIMIT, ByteRange, are_apart, coalesce, cut
from parquet_bloom.storage import local_files, s3, system
from parquet_bloom.storage.listing import WORTH_LISTING, Source, in_listing, remote_version

_Result = TypeVar("_Result")


METADATA_BYTES = 1024 * 1024 * 1024
"""The most bytes that a table's compressed metadata may unpack to unless the caller says otherwise."""


def _of_environment(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() and int(text) else default


def _footer_bytes() -> int:
    """Return the longest footer that is read where the call does not say."""
    return _of_environment("PARQUET_BLOOM_FOOTER_BYTES", FOOTER_BYTES)


def metadata_bytes() -> int:
    """Return the most that a table's metadata may unpack to where the call does not say."""
    return _of_environment("PARQUET_BLOOM_METADATA_BYTES", METADATA_BYTES)


@dataclass(frozen=True, slots=True)
class Limits:
    """How stores are read.

    `files` are read at the same time, in rounds of at most `round_bytes`; both limit memory. Of a round, `in_flight`
    requests are sent at once. Ranges at most `gap` bytes apart become one request of at most `limit` bytes. A request
    that fails with a temporary error is repeated up to `retries` times, after `backoff` seconds, then twice that, and
    so on.

    On a local disk files are read one after the other, and ranges coalesced over at most `local_gap` bytes: there a
    request costs next to nothing.

    A file whose footer is longer than `footer_bytes` is not read, and a table whose compressed metadata unpacks to more
    than `metadata_bytes` is refused. The environment's PARQUET_BLOOM_FOOTER_BYTES and PARQUET_BLOOM_METADATA_BYTES are
    the defaults of all calls.
    """

    files: int = 256
    in_flight: int = 64
    round_bytes: int = 256 * 1024 * 1024
    gap: int = COALESCE_GAP
    local_gap: int = 512
    limit: int = COALESCE_LIMIT
    retries: int = 3
    backoff: float = 0.2
    footer_bytes: int = field(default_factory=_footer_bytes)
    metadata_bytes: int = field(default_factory=metadata_bytes)

    def __post_init__(self) -> None:
        sizes = self.files, self.in_flight, self.round_bytes, self.footer_bytes, self.metadata_bytes
        if min(sizes) < 1 or self.retries < 0:
            raise ValueError(
                "files, in_flight, round_bytes, footer_bytes and metadata_bytes must be at least 1, and retries at "
                "least 0"
            )


DEFAULT_LIMITS = Limits()


# ---- driving plans -----------------------------------------------------------------------


@dataclass(slots=True)
class RequestLog:
    """Every request that was made, in order; `str()` is the text that I/O tests compare."""

    requests: list[tuple[str, ByteRange]] = field(default_factory=list)

    @property
    def num_bytes(self) -> int:
        """The bytes of all requests."""
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
        """The size of the next answer."""
        return sum(map(len, self.merged))

    def advance(self, parts: list[bytes] | Exception | None, limits: Limits) -> None:
        token = most_footer_bytes.set(limits.footer_bytes)
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
        finally:
            most_footer_bytes.reset(token)

    def close(self) -> None:
        self.done = True
        self.plan.close()


_HELD = 4
"""How many results may wait for an earlier file's, for each file that may be open."""


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
    queue: deque[_Job[_Result]] = deque()  # in order; those done wait for the ones before them
    try:
        while True:
            num_started = 0
            for source, plan in islice(waiting, _room(queue, limits)):
                num_started += 1
                if source.is_local and not queue:
                    yield source, _run_local(source, plan, limits, log)
                    continue
                queue.append(_started(source, plan, limits, log))
                yield from _finished(queue)
            if not queue and not num_started:
                return
            for job, parts in _read([job for job in queue if not job.done], limits, log):
                job.advance(parts, limits)
            yield from _finished(queue)
    finally:
        for job in queue:
            job.close()


def _room(queue: deque[_Job[Any]], limits: Limits) -> int:
    """Return how many more files may be open."""
    num_open = sum(not job.done for job in queue)
    return max(0, min(limits.files - num_open, _HELD * limits.files - len(queue)))


def _started(source: Source, plan: Plan[_Result], limits: Limits, log: RequestLog | None) -> _Job[_Result]:
    """Return a job that waits for bytes of a remote file, or is done."""
    job = _Job(source, plan)
    if source.is_local:
        job.outcome, job.done = _run_local(source, plan, limits, log), True
    else:
        job.advance(None, limits)
    return job


def _finished(queue: deque[_Job[_Result]]) -> Iterator[tuple[Source, _Result | Exception]]:
    while queue and queue[0].done:
        job = queue.popleft()
        yield job.source, job.outcome  # type: ignore[misc]


def run(source: Source, plan: Plan[_Result], *, log: RequestLog | None = None) -> _Result:
    """Return the result of one plan on one file, or raise its error."""
    ((_, outcome),) = drive([(source, plan)], log=log)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def read_whole(source: Source, *, log: RequestLog | None = None) -> bytes:
    """Return a file's bytes."""
    return run(source, _read_range(ByteRange(0, source.size)), log=log)


def read_range(source: Source, wanted: ByteRange) -> bytes:
    """Return some bytes of a file, fewer if it ends before."""
    return run(source, _read_range(wanted))


def read_each(sources: Iterable[Source]) -> Iterator[bytes]:
    """Yield the bytes of each file, in order; raises the error of the first one that cannot be read."""
    for _, outcome in drive((source, _read_range(ByteRange(0, source.size))) for source in sources):
        if isinstance(outcome, Exception):
            raise outcome
        yield outcome


def _read_range(wanted: ByteRange) -> Plan[bytes]:
    (data,) = yield [wanted]
    return data


_READING = os.O_RDONLY | system.CLOEXEC | system.NONBLOCK  # a pipe may be there by now, and nobody writing to it


def _run_local(source: Source, plan: Plan[_Result], limits: Limits, log: RequestLog | None) -> _Result | Exception:
    """Return the result of a plan on a local file, or its error."""
    descriptor = None
    failed: OSError | None = None
    parts: list[bytes] | None = None
    token = most_footer_bytes.set(limits.footer_bytes)
    try:
        while True:
            wanted = plan.throw(failed) if failed else plan.send(parts)  # type: ignore[arg-type]
            is_plain = are_apart(wanted, limits.local_gap)
            merged = wanted if is_plain else coalesce(wanted, gap=limits.local_gap, limit=limits.limit)
            if log is not None:
                log.requests += ((source.name, r) for r in merged)
            try:
                if descriptor is None:
                    descriptor = os.open(source.path, _READING)
                read = _kernel.read_ranges(descriptor, merged)
            except OSError as error:
                failed = error
            else:
                failed, parts = None, read if is_plain else cut(wanted, merged, read)
    except StopIteration as stop:
        result: _Result = stop.value
        return result if descriptor is None or is_still_there(source) else _changed(source)
    except (ParquetBloomError, OSError) as error:
        # Of another file's bytes anything may be wrong.
        has_misread = isinstance(error, ParquetBloomError) and descriptor is not None and not is_still_there(source)
        return _changed(source) if has_misread else _named(error, source.name)
    finally:
        most_footer_bytes.reset(token)
        plan.close()
        if descriptor is not None:
            os.close(descriptor)


def is_still_there(source: Source) -> bool:
    """Return whether a local file is still the one that was listed; for stores, see `changes`."""
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
    """Return the bytes of each range, or its error; all are of one filesystem."""
    if not asked:
        return []
    if log is not None:
        log.requests += ((source.name, r) for source, r in asked)
    fs = asked[0][0].fs
    try:
        if s3.is_s3(fs):
            wanted = [(source.path, r.start, r.stop, etag(source)) for source, r in asked]
            parts = s3.fetch(fs, wanted, in_flight=limits.in_flight)
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
        return UnsupportedError("the store ignores byte ranges: it sent more bytes than were requested")
    return bytes(part)


_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ValueError, ParquetBloomError)
_LASTING_NUMBERS = {errno.EINVAL, errno.ENAMETOOLONG, errno.ENOSYS, errno.ENOTSUP, errno.ELOOP, errno.EROFS}
_PASSING_STATUS = {408, 425, 429, 500, 502, 503, 504}
_TRANSPORT = re.compile("Timeout|Connect|Disconnect|IncompleteRead|Payload|Streaming")


def _is_passing(error: Exception) -> bool:
    """Return whether the error is temporary: repeating the request may help."""
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
    """Return the files that have changed since they were listed, in stores without conditional reads.

    Where many are in one directory they take one listing. Local files and S3 objects are left out: `drive` has told
    of them already.
    """
    return _changes_in_stores(source for source in sources if not source.is_local and not s3.is_s3(source.fs))


def are_as_listed(sources: Iterable[Source], *, local_only: bool = False) -> bool:
    """Return whether files are certain to be as they were listed; with `local_only`, those in stores are not checked.

    Each local file costs a look at its status, each folder of a store a listing.
    """
    remote = []
    for source in sources:
        if not source.is_local:
            remote.append(source)
        elif not source.is_mtime_stable or not _is_status(source):
            return False
    return local_only or not _changes_in_stores(remote)


def _is_status(source: Source) -> bool:
    try:
        return local_files.version(os.stat(source.path)) == source.version
    except OSError:
        return False


def _changes_in_stores(sources: Iterable[Source]) -> dict[Source, ConcurrentChangeError]:
    folders: dict[tuple[int, str], list[Source]] = {}
    for source in sources:
        folders.setdefault((id(source.fs), source.fs._parent(source.path)), []).append(source)
    changed = {}
    for (_, folder), members in folders.items():
        fs = members[0].fs
        fs.invalidate_cache(folder)
        listed = in_listing(fs, folder) if len(members) >= WORTH_LISTING else {}
        for source in members:
            # What a listing lacks or tells otherwise, a look at the file itself has the last word on.
            if not (_is_version(listed.get(source.path), source) or _is_version(_info(source), source)):
                changed[source] = _changed(source)
    return changed


def _info(source: Source) -> dict[str, Any] | None:
    with contextlib.suppress(Exception):
        info: dict[str, Any] = source.fs.info(source.path)
        return info
    return None


def _is_version(info: dict[str, Any] | None, source: Source) -> bool:
    return info is not None and remote_version(info) == source.version


def _changed(source: Source) -> ConcurrentChangeError:
    return ConcurrentChangeError(f"{source.name} changed while it was read")


def etag(source: Source) -> str:
    """Return an object's ETag, if it has one."""
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


def _named(error: Exception, name: str) -> Exception:
    if isinstance(error, CorruptFileError):
        error.path = error.path or name
    return error
