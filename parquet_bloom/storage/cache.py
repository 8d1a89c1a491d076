"""Footers and filters kept in memory between calls, bounded, by file identity.

A key is a local file's device, inode, size and times, or an object's store, path, size and ETag, so what a replaced
file had is never used for its successor; of a filter, the row group and the leaf as well. Nothing is kept of a file
without such an identity, or of one that was changed just now: its next change might leave no trace in its times.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Any

from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.footer import (
    FilterLocation,
    Footer,
    Plan,
    read_filter,
    read_footer,
    unpack_footer,
    with_keys,
)
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.storage.listing import Source

CACHE_BYTES = 256 * 1024 * 1024
"""The limit of the cache that all calls share."""

_FOOTER_BYTES = 4 * 1024
"""About how much memory a footer takes besides its bytes, once one of its columns was evaluated."""

_ENTRY_BYTES = 400
"""About how much memory an entry takes besides the bytes of a packed footer, most of it for the file's identity."""

_SHARE_UNPACKED = 8
"""Of this part of a cache's bytes footers are at hand as they were used; of all others there is the packed form."""


class Cache:
    """The most recently used footers and filters, of at most `max_bytes` in all. Safe to share between threads.

    A packed footer is bytes alone: those of its row groups (80 to 120 bytes a column chunk, as writers have them), for
    files of one writer and schema share the others. So the garbage collector has nothing to visit in it.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self.max_bytes = max_bytes
        self._num_bytes = 0
        self._entries: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._unpacked: OrderedDict[Any, Footer] = OrderedDict()
        self._unpacked_bytes = 0
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """About how much memory the entries take."""
        return self._num_bytes + self._unpacked_bytes

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

    def get_all(self, keys: Iterable[Any]) -> list[Any]:
        """Return the entries, None for those that it has not."""
        entries = self._entries
        found = []
        with self._lock:
            for key in keys:
                entry = entries.get(key)
                if entry is not None:
                    entries.move_to_end(key)
                found.append(entry and entry[0])
        return found

    def put(self, key: Any, value: Any, num_bytes: int) -> None:
        """Keep an entry, and drop the least recently used ones if the limit is exceeded."""
        with self._lock:
            if key in self._entries:
                self._num_bytes -= self._entries.pop(key)[1]
            if num_bytes > self.max_bytes:
                return
            self._entries[key] = value, num_bytes
            self._num_bytes += num_bytes
            self._make_room()

    def _make_room(self) -> None:
        while self._num_bytes > self.max_bytes - self._unpacked_bytes:
            self._num_bytes -= self._entries.popitem(last=False)[1][1]

    def _footer(self, key: Any) -> Footer | None:
        """Return a footer that was put, or None."""
        with self._lock:
            if (footer := self._unpacked.get(key)) is not None:
                self._unpacked.move_to_end(key)
        if (packed := self.get(key)) is None:
            return None
        if footer is None:
            footer = unpack_footer(packed)
            self._unpack(key, footer)
        return footer

    def _put_footer(self, key: Any, footer: Footer) -> None:
        """Keep a footer."""
        packed = footer.packed()
        self.put(key, packed, _ENTRY_BYTES + len(packed[2]))
        self._unpack(key, footer)

    def _unpack(self, key: Any, footer: Footer) -> None:
        with self._lock:
            if (before := self._unpacked.pop(key, None)) is not None:
                self._unpacked_bytes -= _FOOTER_BYTES + len(before.raw)
            self._unpacked[key] = footer
            self._unpacked_bytes += _FOOTER_BYTES + len(footer.raw)
            while self._unpacked_bytes > self.max_bytes // _SHARE_UNPACKED:
                self._unpacked_bytes -= _FOOTER_BYTES + len(self._unpacked.popitem(last=False)[1].raw)
            self._make_room()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._unpacked.clear()
            self._num_bytes = self._unpacked_bytes = 0


SHARED = Cache()
"""The cache of every call that is not given one of its own."""


def footer_of(source: Source, cache: Cache, decryption: Decryption | None = None) -> Plan[Footer]:
    """Plan to return a file's footer, from the cache if it has it. What was decrypted is not kept."""
    key = source.identity
    footer = cache._footer(key) if key else None
    if footer is None:
        footer = yield from read_footer(
            source.size, guess=source.footer_guess, keeps_tail=not source.is_local, decryption=decryption
        )
        if key and cache.max_bytes and footer.cipher is None:
            # The bytes before the footer are only for this call: filters have entries of their own.
            cache._put_footer(key, footer.without_tail() if footer.before else footer)
    elif decryption is not None:
        footer = with_keys(footer, decryption)
    return footer


def filter_of(
    source: Source, footer: Footer, row_group: int, leaf: LeafColumn, location: FilterLocation, cache: Cache
) -> Plan[SplitBlockBloomFilter]:
    """Plan to return a whole filter, from the cache if it has it."""
    identity = source.identity if location.seal is None else None
    key = identity and (identity, row_group, leaf.index)
    bloom: SplitBlockBloomFilter | None = cache.get(key) if key else None
    if bloom is None:
        bloom, _ = yield from read_filter(location, end=footer.start)
        if key:
            cache.put(key, bloom, bloom.num_bytes)
    return bloom


def cached_filters(
    source: Source, leaf: LeafColumn, row_groups: Collection[int], cache: Cache
) -> dict[int, SplitBlockBloomFilter]:
    """Return those of a leaf's filters that the cache has, by row group."""
    if (identity := source.identity) is None:
        return {}
    found = cache.get_all((identity, row_group, leaf.index) for row_group in row_groups)
    return {row_group: bloom for row_group, bloom in zip(row_groups, found, strict=True) if bloom is not None}
