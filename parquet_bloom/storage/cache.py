"""Footers and filters kept in memory between calls, bounded, by file identity.

A key is the file system, path, size and version (inode and times, or ETag), so what a replaced file had is never used
for its successor; of a filter, the row group and the leaf as well. Nothing is kept of a file without such an identity,
or of one that was changed just now: its next change might leave no trace in its times.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from parquet_bloom.format.footer import FilterLocation, Footer, Plan, read_filter, read_footer
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.storage.listing import Source

CACHE_BYTES = 256 * 1024 * 1024
"""The limit of the cache that all calls share."""

_FOOTER_BYTES = 4 * 1024
"""About how much memory a footer takes besides its bytes, once one of its columns was evaluated."""


class Cache:
    """The most recently used footers and filters, of at most `max_bytes` in all. Safe to share between threads."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self.max_bytes, self._num_bytes = max_bytes, 0
        self._entries: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """About how much memory the entries take."""
        return self._num_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Any) -> Any:
        """Return the entry, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Any, value: Any, num_bytes: int) -> None:
        """Keep an entry, and drop the least recently used ones if the limit is exceeded."""
        with self._lock:
            if key in self._entries:
                self._num_bytes -= self._entries.pop(key)[1]
            if num_bytes > self.max_bytes:
                return
            self._entries[key] = value, num_bytes
            self._num_bytes += num_bytes
            while self._num_bytes > self.max_bytes:
                self._num_bytes -= self._entries.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._num_bytes = 0


SHARED = Cache()
"""The cache of every call that is not given one of its own."""


def footer_of(source: Source, cache: Cache) -> Plan[Footer]:
    """Plan to return a file's footer, from the cache if it has it."""
    key = source.identity
    footer: Footer | None = cache.get(key) if key else None
    if footer is None:
        footer = yield from read_footer(source.size, guess=source.footer_guess, keeps_tail=not source.is_local)
        if (
            key and cache.max_bytes
        ):  # the bytes before the footer are only for this call: filters have entries of their own
            cache.put(key, footer.without_tail() if footer.before else footer, len(footer.raw) + _FOOTER_BYTES)
    return footer


def filter_of(
    source: Source, footer: Footer, row_group: int, leaf: LeafColumn, location: FilterLocation, cache: Cache
) -> Plan[SplitBlockBloomFilter]:
    """Plan to return a whole filter, from the cache if it has it."""
    key = source.identity and (source.identity, row_group, leaf.index)
    bloom: SplitBlockBloomFilter | None = cache.get(key) if key else None
    if bloom is None:
        bloom, _ = yield from read_filter(location, end=footer.start)
        if key:
            cache.put(key, bloom, bloom.num_bytes)
    return bloom
