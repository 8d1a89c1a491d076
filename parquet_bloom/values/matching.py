"""Which of very many keys are among the values of arrays.

The keys' hashes are a table for the kernel, made once; a value whose hash is a key's is then compared with the key.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from parquet_bloom import _kernel
from parquet_bloom.format.schema import INT96, LeafColumn
from parquet_bloom.values.arrays import as_integers, hash_values, is_nan, microseconds, unscaled
from parquet_bloom.values.encoding import why_uncountable

if TYPE_CHECKING:
    import pyarrow as pa


class KeyTable:
    """The values under which a leaf stores keys, and which of these were met; `seen` has a byte for each key.

    Beside each value, `owners` has the index of its key; `nans` are those that are NaN. It may be used by many threads.
    """

    def __init__(
        self, leaf: LeafColumn, values: pa.Array, owners: Sequence[int], nans: Sequence[int], seen: bytearray
    ) -> None:
        import pyarrow.compute as pc

        self._leaf, self._nans, self._seen = leaf, nans, seen
        self._meaning: Callable[[bytes], int] | None = None  # equal values may be stored in several ways
        if leaf.physical_type is INT96:
            self._meaning = microseconds
        elif why_uncountable(leaf):
            self._meaning = unscaled
        canonical = self._canonical(values)
        self._owners = None if owners == range(len(values)) else _as_int32(owners)
        self._codes: pa.Array | None = None
        hashes = _hashes(canonical)
        order = pc.array_sort_indices(hashes)
        if _has_repeats(hashes.take(order)):
            encoded = canonical.dictionary_encode()
            canonical, self._codes = encoded.dictionary, encoded.indices
            hashes = _hashes(canonical)
            order = pc.array_sort_indices(hashes)
        self._values, self._order = canonical, order
        self._sorted = hashes.take(order).buffers()[1] if len(order) else b""
        self._prefixes = _kernel.prefixes(self._sorted)
        self._met = bytearray(len(order))
        self._has_met_nan = not nans
        self._lock = threading.Lock()

    @property
    def is_complete(self) -> bool:
        """Whether all keys were met."""
        return self._has_met_nan and 0 not in self._met

    def has_new(self, stored: pa.Array) -> bool:
        """Return whether a key that was not met yet may be among the values of an array."""
        values = self._canonical(stored.drop_null() if stored.null_count else stored)
        return (not self._has_met_nan and self._has_nan(stored)) or self._meetings(values)[0] != b""

    def meet(self, stored: pa.Array) -> bool:
        """Mark the keys that are among the values of an array, as pages store them; return whether one is new."""
        import pyarrow.compute as pc

        is_new = False
        if not self._has_met_nan and self._has_nan(stored):
            _kernel.mark(self._seen, _content(_as_int32(self._nans)))
            self._has_met_nan = is_new = True
        values = self._canonical(stored.drop_null() if stored.null_count else stored)
        places, ranks = map(_numbers, self._meetings(values))
        if not len(ranks):
            return is_new
        is_same = pc.equal(values.take(places).cast(self._values.type), self._values.take(self._order.take(ranks)))
        if is_same.true_count < len(ranks):  # two values have one hash, and only the first was compared
            others = ranks.filter(pc.invert(is_same)).to_pylist()
            met = [rank for rank in others if pc.any(pc.equal(values, self._value(rank).cast(values.type))).as_py()]
            ranks = _joined(ranks.filter(is_same), met)
        return self._mark(ranks) or is_new

    def _value(self, rank: int) -> pa.Scalar:
        return self._values[self._order[rank].as_py()]

    def _meetings(self, values: pa.Array) -> tuple[bytes, bytes]:
        return _kernel.meet(hash_values(values), self._sorted, self._prefixes, self._met)

    def _mark(self, ranks: pa.Array) -> bool:
        import pyarrow as pa
        import pyarrow.compute as pc

        with self._lock:
            flags = pa.Array.from_buffers(pa.uint8(), len(self._met), [None, pa.py_buffer(self._met)])
            ranks = ranks.filter(pc.equal(flags.take(ranks), 0))
            if not len(ranks):
                return False
            _kernel.mark(self._met, _content(ranks))
            entries = self._order.take(ranks).cast(pa.uint32())
            if self._codes is not None:
                entries = pc.indices_nonzero(pc.is_in(self._codes, entries.cast(pa.int32()))).cast(pa.uint32())
            _kernel.mark(self._seen, _content(entries if self._owners is None else self._owners.take(entries)))
            return True

    def _canonical(self, values: pa.Array) -> pa.Array:
        """Return values in a form in which equal ones have the same bytes."""
        import pyarrow as pa

        if self._meaning is None:
            return as_integers(values)
        return pa.array([str(self._meaning(one)).encode() for one in values.unique().to_pylist()], pa.binary())

    def _has_nan(self, stored: pa.Array) -> bool:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_floating(stored.type):
            return bool(pc.any(pc.is_nan(stored)).as_py())
        return any(is_nan(self._leaf, one) for one in stored.unique().drop_null().to_pylist())


def _hashes(values: pa.Array) -> pa.UInt64Array:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.uint64(), len(values), [None, pa.py_buffer(hash_values(values))])


def _has_repeats(ordered: pa.Array) -> bool:
    import pyarrow.compute as pc

    count = len(ordered) - 1
    return count > 0 and bool(pc.any(pc.equal(ordered.slice(0, count), ordered.slice(1))).as_py())


def _numbers(data: bytes) -> pa.UInt32Array:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.uint32(), len(data) // 4, [None, pa.py_buffer(data)])


def _joined(ranks: pa.Array, more: list[int]) -> pa.Array:
    import pyarrow as pa

    return pa.concat_arrays([ranks, pa.array(more, pa.uint32())])


def _as_int32(numbers: Sequence[int]) -> pa.Int32Array:
    import pyarrow as pa

    whole = array("i", numbers)
    return pa.Array.from_buffers(pa.int32(), len(whole), [None, pa.py_buffer(whole)])


def _content(numbers: pa.Array) -> Any:
    """Return the bytes of 32-bit numbers without nulls."""
    if not len(numbers):
        return b""
    return memoryview(numbers.buffers()[1])[4 * numbers.offset : 4 * (numbers.offset + len(numbers))]
