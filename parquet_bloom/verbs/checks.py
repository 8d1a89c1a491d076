"""Checks of many keys in many filters: collected, and carried out together, on threads where they take long.

A key is a hash here, and an answer is an array of the keys' indexes: nothing is done for each key in Python. One call
of the kernel checks the keys of many row groups, which pays for few keys; with many keys it takes some milliseconds
without the interpreter lock, so that the next files are read meanwhile and other processors take part.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate

from parquet_bloom import _kernel
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.values.key_sets import HashedKeys

MOST_CHECKS, MOST_BYTES = 4 * 1024 * 1024, 8 * 1024 * 1024
"""So many checks, or filters of so many bytes, are collected: a check takes about a nanosecond."""

_WORTH_A_THREAD = 1024 * 1024


class _Batch:
    """Checks of the same keys in one call of the kernel."""

    __slots__ = ("_ends", "_filters", "_found", "_keys", "_owners", "_runs")

    def __init__(self, keys: HashedKeys) -> None:
        self._keys = keys
        self._filters: list[memoryview] = []
        self._runs = array("q")
        self._found: Future[tuple[bytes, bytes]] | tuple[bytes, bytes] | None = None
        self._owners: memoryview | None = None
        self._ends: Sequence[int] = ()

    def add(self, bloom: SplitBlockBloomFilter, start: int, stop: int) -> int:
        """Add a check, and return its number in the batch."""
        self._filters.append(bloom.bitset)
        self._runs.extend((start, stop))
        return len(self._filters) - 1

    def start(self, pool: ThreadPoolExecutor | None) -> None:
        keys = self._keys
        largest = max(bitset.nbytes for bitset in self._filters)
        order = keys.by_hash if largest > _kernel.CACHED_BYTES else (b"", b"")
        owners = b"" if isinstance(keys.owners, range) else keys.owners
        asked = tuple(self._filters), self._runs, keys.hashes, owners, *order
        self._filters = []
        self._found = pool.submit(_kernel.find, *asked) if pool else _kernel.find(*asked)

    @property
    def is_started(self) -> bool:
        return self._found is not None

    @property
    def is_done(self) -> bool:
        return self._found is not None and (not isinstance(self._found, Future) or self._found.done())

    def wait(self) -> None:
        if self._owners is None:
            assert self._found is not None  # it was started
            found, counts = self._found.result() if isinstance(self._found, Future) else self._found
            self._owners = memoryview(found).cast("I").cast("B").cast("i")
            self._ends = array("Q", accumulate(memoryview(counts).cast("I"), initial=0))

    def owners(self, number: int) -> memoryview:
        self.wait()
        assert self._owners is not None
        return self._owners[self._ends[number] : self._ends[number + 1]]


class Check:
    """Which of some keys pass a filter."""

    __slots__ = ("_batch", "_checks", "_number")

    def __init__(self, checks: Checks, batch: _Batch, number: int) -> None:
        self._checks, self._batch, self._number = checks, batch, number

    @property
    def is_done(self) -> bool:
        """Whether `owners` returns at once."""
        return self._batch.is_done

    def owners(self) -> memoryview:
        """Return the numbers of the keys that pass, int32, after waiting for them if need be."""
        if not self._batch.is_started:
            self._checks.start()
        return self._batch.owners(self._number)


class Checks:
    """Collects checks, and carries them out together once there are enough, or when an answer is needed."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._open: dict[int, _Batch] = {}
        self._under_way: deque[_Batch] = deque()
        self._num_checks = self._num_bytes = 0

    def add(self, keys: HashedKeys, start: int, stop: int, bloom: SplitBlockBloomFilter) -> Check:
        """Check the keys from `start` to `stop` in a filter, now or later."""
        batch = self._open.get(id(keys))
        if batch is None:
            batch = self._open[id(keys)] = _Batch(keys)
        check = Check(self, batch, batch.add(bloom, start, stop))
        self._num_checks += stop - start
        self._num_bytes += bloom.num_bytes
        if self._num_checks >= MOST_CHECKS or self._num_bytes >= MOST_BYTES:
            self.start()
        return check

    def start(self) -> None:
        """Carry out what was collected, on threads if there is much of it and what was started before leaves room."""
        if self._threads > 1 and self._num_checks >= _WORTH_A_THREAD and self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads)
        pool = self._pool if self._num_checks >= _WORTH_A_THREAD else None
        for batch in self._open.values():
            while len(self._under_way) > self._threads:
                self._under_way.popleft().wait()
            batch.start(pool)
            if pool:
                self._under_way.append(batch)
        self._open.clear()
        self._num_checks = self._num_bytes = 0

    def close(self) -> None:
        """Wait for the threads, if there are any."""
        self._open.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
