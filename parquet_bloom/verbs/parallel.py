"""Threads for work that lets go of the interpreter lock, and a count of what is done."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")

Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is in all."""


def share_threads(jobs: int | None, num_files: int) -> tuple[int, int]:
    """Return how many files, and how many column chunks of each, are worked on at once."""
    jobs = num_threads(jobs)
    return (jobs, 1) if num_files >= 2 * jobs else (1, jobs)


def num_threads(jobs: int | None) -> int:
    """Return `jobs`, or by default one for each processor."""
    if jobs:
        return jobs
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_order(
    function: Callable[[_T], _R], items: Iterable[_T], threads: int, stop: threading.Event
) -> Generator[_R, None, None]:
    """Yield `function(item)` in order, a few items ahead on a thread pool; an error stops what is under way.

    It waits for its threads when it is done, fails or is closed. Whoever may leave it before closes it.
    """
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[_R]] = deque()
        try:
            for item in items:
                ahead.append(pool.submit(function, item))
                if len(ahead) > threads:
                    yield _result(ahead.popleft())
            while ahead:
                yield _result(ahead.popleft())
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _result(future: Future[_R]) -> _R:
    # A signal that arrives just before the interpreter blocks is seen only when it wakes: so it wakes now and then.
    while not future.done():
        wait([future], timeout=0.5)
    return future.result()


@contextlib.contextmanager
def background(call: Callable[[], None]) -> Iterator[Future[None]]:
    """Run a call on a thread of its own; leaving the block waits for it."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(call)


class Ticker:
    """Counts what is done, from any thread, and reports it to the caller."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0
        self._lock = threading.Lock()

    def __call__(self, amount: int = 1) -> None:
        """Count one more, or so many bytes."""
        if self._progress:
            with self._lock:
                self._done += amount
                self._progress(self._done, self._total)

    @contextlib.contextmanager
    def part(self, num_bytes: int, num_values: int) -> Iterator[Callable[[int], None]]:
        """Yield what counts values of a part of so many bytes; at the end the whole part has been counted."""
        values = told = 0
        lock = threading.Lock()

        def count(more: int) -> None:
            nonlocal values, told
            with lock:
                values += more
                now = min(num_bytes, num_bytes * values // max(1, num_values))
                if now > told:
                    self(now - told)
                    told = now

        try:
            yield count
        finally:
            if num_bytes > told:
                self(num_bytes - told)
