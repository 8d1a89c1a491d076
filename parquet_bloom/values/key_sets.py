"""Which values of a column equal a key: the one place that answers it, for filters, bounds and pages alike.

`values/stored_keys.py` converts keys to what a column stores for them. A `KeySet` holds that, and answers

    hashes, owners   of filters: the hash of each stored value, and the index of the key that it is of
    places, within   of statistics and page bounds: the same values on the column's scale, ascending, beside the hashes
    mask, owners_of  of pages: which of their values are a key
    MetKeys          of many pages: which keys were among their values so far

A value equals a key if its bytes are one of those that the column stores for the key, with these exceptions:

    zeros            0.0 and -0.0 are one value; the column stores both for either
    NaN              equals every NaN, whatever its bits; filters and bounds do not say whether one is there
    INT96            equal if they are the same microsecond, as Spark and DuckDB read it, however day and time are split
    DECIMAL          in BYTE_ARRAY equal if they are the same number, in any number of bytes
    text             by its bytes; a column that Spark compares by another rule (a collation) is refused

Keys that cannot be placed: `wide` ones may equal values in more than one place (engines round or cut them in several
ways), so they are looked up in every filter; `unusable` ones are not excluded by anything, for `why_unusable`. To
compare them with values needs more: where engines disagree on what one equals, `refusal` is raised.

Keys are exact. Conditions follow SQL, which first converts column and literal to a common type: `i = 5.0e0` compares as
DOUBLE. So `predicates/rows.py` brings both to that type, and `KeySet.of_values` finds equal values of it; zeros and NaN
are as above. `find` by keys is such a condition on the files' common type, since its rows may come from several types.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from parquet_bloom import _kernel
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.format.schema import INT96, LeafColumn
from parquet_bloom.values.arrays import (
    as_integers,
    content,
    hash_values,
    indexes_of,
    is_nan,
    key_type,
    numbers_as_arrow,
)
from parquet_bloom.values.encoding import unpack_int96, why_uncountable
from parquet_bloom.values.ordering import Key
from parquet_bloom.values.statistics import ColumnStatistics

if TYPE_CHECKING:
    import pyarrow as pa

Buffer = bytes | memoryview


@dataclass(eq=False)
class HashedKeys:
    """Values that a column stores for keys, beside the keys' indexes; `owners` is a range if there is one for each."""

    values: Any = ()
    owners: range | array[int] = range(0)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: all else follows from them."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def hashes(self) -> bytes:
        """The hash of each value, as native-endian uint64."""
        return hash_values(self.values) if self.owners else b""

    @cached_property
    def by_hash(self) -> tuple[Buffer, Buffer]:
        """The hashes in ascending order, and the place of each in `hashes`, as uint32."""
        import pyarrow as pa
        import pyarrow.compute as pc

        hashes = numbers_as_arrow(self.hashes, pa.uint64())
        order = pc.array_sort_indices(hashes)
        return content(hashes.take(order)), content(order.cast(pa.uint32()))


@dataclass(eq=False)
class KeySet(HashedKeys):
    """Keys as one type of column stores them; see above. It does not change, so threads may share it.

    `values` are in ascending order of their `places`; those in `wide` and `unplaced` have no single one, and
    those in `unplaced` are only compared with values. Only with `repeats` may a key own several values.
    """

    leaf: LeafColumn | None = None
    places: pa.Array | list[Key] = field(default_factory=list)
    wide: HashedKeys = field(default_factory=HashedKeys)
    unplaced: HashedKeys = field(default_factory=HashedKeys)
    unusable: Sequence[int] = ()
    why_unusable: str = ""
    nans: Sequence[int] = ()
    refusal: ParquetBloomError | None = None
    repeats: bool = False

    @classmethod
    def of_values(cls, values: pa.Array) -> KeySet:
        """Return values without nulls as keys, for the `mask` of arrays of the same Arrow type alone."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not pa.types.is_floating(values.type):
            return cls(values)
        if pc.any(pc.equal(values, pa.scalar(0.0, values.type))).as_py():
            values = pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)])
        return cls(values, nans=indexes_of(pc.indices_nonzero(pc.is_nan(values))))

    # -- filters and bounds --

    def within(self, known: ColumnStatistics) -> tuple[int, int]:
        """Return start and stop of the places that statistics leave open."""
        if known.is_all_null or not self.owners:
            return 0, 0
        if known.low is None or known.high is None:
            return 0, len(self.owners)
        return self._between(known.low, known.high)

    @cached_property
    def _between(self) -> Callable[[Key, Key], tuple[int, int]]:
        """The function that returns start and stop of the places that are neither below a key nor above another."""
        import pyarrow as pa

        places: Any = self.places
        if isinstance(places, pa.Array):
            if places.type == pa.large_binary():
                _, offsets, data = places.buffers()
                return lambda low, high: _kernel.run_between(
                    offsets, 8, data or b"", places.offset, len(places), low, high
                )
            form = {pa.int32(): "i", pa.int64(): "q", pa.float64(): "d"}.get(places.type)
            if form is not None:
                places = memoryview(content(places)).cast(form)  # type: ignore[call-overload]
            elif len(places) <= _LISTED:
                places = places.to_pylist()
            else:
                every, at = range(len(places)), _getter(places)
                return lambda low, high: (bisect_left(every, low, key=at), bisect_right(every, high, key=at))
        return lambda low, high: (bisect_left(places, low), bisect_right(places, high))

    def owners_by_hash(self) -> dict[int, list[int]]:
        """Return the indexes of the keys that each hash is of."""
        found: dict[int, list[int]] = {}
        for of in (self, self.wide):
            for hash_, owner in zip(array("Q", of.hashes), of.owners, strict=True):
                found.setdefault(hash_, []).append(owner)
        return found

    # -- values --

    def mask(self, values: pa.Array) -> pa.BooleanArray:
        """Return which values, as pages store them, equal a key; nulls do not. Raises as `require_exact` does."""
        import pyarrow.compute as pc

        found = pc.is_in(self.comparable(values), self._distinct)
        return pc.or_(found, self.are_nan(values)) if self.nans else found

    def owners_of(self, values: pa.Array) -> Iterator[Sequence[int]]:
        """Yield the indexes of the keys that each of some values equals. Raises as `require_exact` does."""
        for value, is_nan_ in zip(self.comparable(values).to_pylist(), self.are_nan(values).to_pylist(), strict=True):
            yield self.nans if is_nan_ else self._owners_by_value.get(value, ())

    def require_exact(self) -> KeySet:
        """Return these keys.

        Raises `UnsupportedError` if engines disagree about one, and `LiteralError` if the column cannot hold one.
        """
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)
        return self

    @cached_property
    def exact(self) -> HashedKeys:
        """All values that equal a key, but for NaN. Raises as `require_exact` does."""
        import pyarrow as pa

        self.require_exact()
        if not self.unplaced.owners:
            return self
        values = pa.concat_arrays([self.values, self.unplaced.values])
        return HashedKeys(values, array("i", [*self.owners, *self.unplaced.owners]))

    @cached_property
    def _distinct(self) -> pa.Array:
        import pyarrow.compute as pc

        values = self.exact.values
        return pc.unique(self.comparable(values if self.leaf is None else values.cast(key_type(self.leaf))))

    @cached_property
    def _owners_by_value(self) -> dict[object, list[int]]:
        found: dict[object, list[int]] = {}
        for value, owner in zip(self.comparable(self.exact.values).to_pylist(), self.exact.owners, strict=True):
            found.setdefault(value, []).append(owner)
        return found

    @cached_property
    def meaning(self) -> Callable[[bytes], int] | None:
        """What equal values have in common that may be stored in several ways; None if these have the same bytes."""
        if self.leaf is None:
            return None
        if self.leaf.physical_type is INT96:
            return _microseconds
        return _unscaled if why_uncountable(self.leaf) else None

    def comparable(self, values: pa.Array) -> pa.Array:
        """Return values in a form in which equal ones have the same bytes, but for NaN and zeros."""
        import pyarrow as pa

        if self.leaf is None:  # of a condition, whose columns may be in chunks
            return values
        if self.meaning is None:
            return as_integers(values)
        encoded = values.dictionary_encode()
        distinct = [str(self.meaning(one)).encode() for one in encoded.dictionary.to_pylist()]
        return pa.array(distinct, pa.binary()).take(encoded.indices)

    def are_nan(self, values: pa.Array) -> pa.BooleanArray:
        """Return which values are NaN; nulls are not."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_floating(values.type):
            return pc.fill_null(pc.is_nan(values), False)
        logical = self.leaf.logical_type if self.leaf else None
        if self.leaf is None or logical is None or logical.name != "FLOAT16":
            return pa.repeat(pa.scalar(False), len(values))
        stored = [one for one in values.unique().drop_null().to_pylist() if is_nan(self.leaf, one)]
        return pc.is_in(values, pa.array(stored, values.type))


def _microseconds(plain: bytes) -> int:
    return unpack_int96(plain) // 1000


def _unscaled(plain: bytes) -> int:
    return int.from_bytes(plain, "big", signed=True)


def _getter(places: pa.Array) -> Callable[[int], Key]:
    return lambda number: places[number].as_py()


_LISTED = 64 * 1024
"""So many decimals are kept as Python objects, which is faster; more are left in Arrow, which takes less memory."""


# ---- which keys were met -----------------------------------------------------------------


class MetKeys:
    """Which of very many keys were met among the values of arrays; `seen` has a byte for each key.

    The keys' hashes are a table for the kernel, made once; a value whose hash is a key's is then compared with the key.
    It may be used by many threads. Raises as `KeySet.require_exact` does.
    """

    def __init__(self, keys: KeySet, seen: bytearray) -> None:
        import pyarrow as pa

        self._keys, self._seen, stored = keys, seen, keys.exact
        self._values = keys.comparable(stored.values)
        self._owners = None if stored.owners == range(len(stored.owners)) else _as_int32(stored.owners)
        self._codes: pa.Array | None = None
        if keys.meaning is not None:
            stored = HashedKeys(self._values, stored.owners)
        if _has_repeats(numbers_as_arrow(stored.by_hash[0], pa.uint64())):
            encoded = self._values.dictionary_encode()
            self._values, self._codes = encoded.dictionary, encoded.indices
            stored = HashedKeys(self._values, range(len(self._values)))
        self._hashes, order = stored.by_hash
        self._order = numbers_as_arrow(order, pa.uint32())
        self._prefixes = _kernel.prefixes(self._hashes)
        self._met = bytearray(len(self._order))
        self._has_met_nan = not keys.nans
        self._lock = threading.Lock()

    @property
    def is_complete(self) -> bool:
        """Whether all keys were met."""
        return self._has_met_nan and 0 not in self._met

    def has_new(self, stored: pa.Array) -> bool:
        """Return whether a key that was not met yet may be among the values of an array."""
        return self._has_new_nan(stored) or self._meetings(self._comparable(stored))[0] != b""

    def meet(self, stored: pa.Array) -> bool:
        """Mark the keys that are among the values of an array, as pages store them; return whether one is new."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if is_new := self._has_new_nan(stored):
            _kernel.mark(self._seen, content(_as_int32(self._keys.nans)))
            self._has_met_nan = True
        values = self._comparable(stored)
        places, ranks = (numbers_as_arrow(one, pa.uint32()) for one in self._meetings(values))
        if not len(ranks):
            return is_new
        is_same = pc.equal(values.take(places).cast(self._values.type), self._values.take(self._order.take(ranks)))
        if is_same.true_count < len(ranks):  # two values have one hash, and only the first was compared
            others = ranks.filter(pc.invert(is_same)).to_pylist()
            met = [rank for rank in others if pc.any(pc.equal(values, self._value(rank).cast(values.type))).as_py()]
            ranks = pa.concat_arrays([ranks.filter(is_same), pa.array(met, pa.uint32())])
        return self._mark(ranks) or is_new

    def _value(self, rank: int) -> pa.Scalar:
        return self._values[self._order[rank].as_py()]

    def _comparable(self, stored: pa.Array) -> pa.Array:
        return self._keys.comparable(stored.drop_null() if stored.null_count else stored)

    def _meetings(self, values: pa.Array) -> tuple[bytes, bytes]:
        return _kernel.meet(hash_values(values), self._hashes, self._prefixes, self._met)

    def _has_new_nan(self, stored: pa.Array) -> bool:
        return not self._has_met_nan and bool(self._keys.are_nan(stored).true_count)

    def _mark(self, ranks: pa.Array) -> bool:
        import pyarrow as pa
        import pyarrow.compute as pc

        with self._lock:
            flags = numbers_as_arrow(self._met, pa.uint8())
            ranks = ranks.filter(pc.equal(flags.take(ranks), 0))
            if not len(ranks):
                return False
            _kernel.mark(self._met, content(ranks))
            entries = self._order.take(ranks)
            if self._codes is not None:
                entries = pc.indices_nonzero(pc.is_in(self._codes, entries.cast(pa.int32()))).cast(pa.uint32())
            _kernel.mark(self._seen, content(entries if self._owners is None else self._owners.take(entries)))
            return True


def _has_repeats(ordered: pa.Array) -> bool:
    import pyarrow.compute as pc

    return len(ordered) > 1 and bool(pc.any(pc.equal(ordered[:-1], ordered[1:])).as_py())


def _as_int32(numbers: Sequence[int]) -> pa.Int32Array:
    import pyarrow as pa

    return numbers_as_arrow(array("i", numbers), pa.int32())
