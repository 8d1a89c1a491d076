"""Keys, and what a column stores for them: by `encode_literal` for each, or with Arrow for all at once.

For the common types, what follows `_entries` says in Arrow's terms what `encode_literal` and `literal_interval` say of
each key; tests compare them. See `values/key_sets.py` for what the result answers.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from parquet_bloom import _kernel
from parquet_bloom.errors import LiteralError, ParquetBloomError, UnsupportedError
from parquet_bloom.format.schema import BYTE_ARRAY, DOUBLE, FIXED, FLOAT, INT32, INT64, LeafColumn
from parquet_bloom.values.arrays import content, indexes_of, numbers_as_arrow, plain_array, require_stored
from parquet_bloom.values.encoding import (
    DECIMAL_DIGITS,
    GREGORIAN_FROM,
    NANOSECONDS,
    ZONES_AGREED_FROM,
    encode_literal,
    integer_digits,
    is_never_rebased,
    literal_text,
    parse_literal,
    why_untrusted,
)
from parquet_bloom.values.key_sets import HashedKeys, KeySet
from parquet_bloom.values.literals import (
    PER_SECOND,
    SECOND,
    FloatLiteral,
    Null,
    TimeOfDay,
    Timestamp,
    normalize_literal,
)
from parquet_bloom.values.ordering import Key, literal_interval

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys as literals, and `shown` as one Arrow array, which holds the same values if `is_exact`, or their text.

    `are_text` says that the literals are text which the column's type is to parse.
    """

    shown: pa.Array
    literals: Sequence[object]
    is_exact: bool = True
    are_text: bool = False
    _stored: dict[Any, KeySet] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.shown)

    def __reduce__(self) -> Any:
        """Leave out what is made from the rest."""
        return Keys, (self.shown, self.literals, self.is_exact, self.are_text)

    def stored_in(self, leaf: LeafColumn, timezone: str | None, *, exactly: bool = False) -> KeySet:
        """Return the keys as a leaf stores them, made once for each type.

        Raises `LiteralError` for a key that the leaf cannot be compared with; with `exactly`, also as `require_exact`.
        """
        kind = leaf.physical_type, leaf.type_length, leaf.logical_type, leaf.text_rule, timezone
        if kind not in self._stored:
            self._stored[kind] = key_set(leaf, self, timezone)
        found = self._stored[kind]
        return found.require_exact() if exactly else found


def is_null(literal: object) -> bool:
    """Return whether a literal is NULL, which equals nothing, whatever wrote it."""
    return isinstance(normalize_literal(literal), Null)


def literals_of(keys: Keys, leaf: LeafColumn | None) -> Iterator[object]:
    """Yield keys as literals for a leaf: text is parsed as its type. Empty text is NULL to a leaf without texts."""
    takes_empty = leaf is not None and leaf.physical_type in (BYTE_ARRAY, FIXED)
    for key in keys.literals:
        if not keys.are_text or leaf is None or is_null(key):
            yield key
        else:
            yield None if key == "" and not takes_empty else parse_literal(leaf, str(key))


def key_set(leaf: LeafColumn, keys: Keys, timezone: str | None) -> KeySet:
    """Return the keys as `leaf` stores them.

    Raises `LiteralError` for a key that the leaf cannot be compared with.
    """
    import pyarrow as pa

    try:
        made = _all_at_once(leaf, keys, timezone)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a number that is too large, say
        made = None
    if made is None:
        made = _one_by_one(leaf, keys, timezone)
    if leaf.text_rule:
        made.refusal = UnsupportedError(f"column {leaf.name}: {leaf.text_rule}")
    return made


# ---- one by one --------------------------------------------------------------------------


def _one_by_one(leaf: LeafColumn, keys: Keys, timezone: str | None) -> KeySet:
    distrust = why_untrusted(leaf)
    stored = _Stored(leaf, timezone)
    try:
        for index, literal in enumerate(literals_of(keys, leaf)):
            if not is_null(literal):
                stored.add(index, literal)
    except LiteralError as error:
        if distrust is None:
            raise
        stored.refusal = stored.refusal or error  # only who compares values needs to know
    if distrust is not None:
        stored.unplaced += [(plain, index) for _, plain, index in stored.placed] + stored.wide
        stored.unusable = [index for index, key in enumerate(keys.literals) if not is_null(key)]
        stored.placed, stored.wide, stored.why = [], [], distrust
    return stored.key_set()


@dataclass(slots=True)
class _Stored:
    """What a leaf stores for keys, beside their indexes; the fields are those of `KeySet`."""

    leaf: LeafColumn
    timezone: str | None
    placed: list[tuple[Key, bytes, int]] = field(default_factory=list)
    wide: list[tuple[bytes, int]] = field(default_factory=list)
    unplaced: list[tuple[bytes, int]] = field(default_factory=list)
    unusable: list[int] = field(default_factory=list)
    nans: list[int] = field(default_factory=list)
    why: str = ""
    refusal: ParquetBloomError | None = None

    def add(self, index: int, literal: object) -> None:
        encodings = encode_literal(self.leaf, literal, timezone=self.timezone)
        if not encodings.plain and encodings.reason is not None:
            self.unusable.append(index)
            self.why = encodings.reason
            if encodings.reason == "NaN" and _is_nan(literal):
                self.nans.append(index)
            else:
                self._refuse(literal, encodings.reason)
        if not encodings.plain:
            return
        interval = literal_interval(self.leaf, literal, encodings)
        if not isinstance(interval, str) and interval[0] == interval[1]:
            self.placed += [(interval[0], plain, index) for plain in encodings.plain]
            return
        self.wide += [(plain, index) for plain in encodings.plain]
        if (exact := _in_nanoseconds(self.leaf, literal)) is not None:
            equal = (one for one in encodings.plain if int.from_bytes(one, "little", signed=True) == exact)
            self.unplaced += [(plain, index) for plain in equal]
        elif isinstance(interval, str) and len(encodings.plain) == 1:
            self.unplaced.append((encodings.plain[0], index))
        else:
            self._refuse(literal)

    def _refuse(self, literal: object, reason: str | None = None) -> None:
        self.refusal = self.refusal or _refusal(self.leaf, literal, reason)

    def key_set(self) -> KeySet:
        self.placed.sort(key=itemgetter(0))
        owners = array("i", [index for _, _, index in self.placed])
        return KeySet(
            plain_array(self.leaf, [plain for _, plain, _ in self.placed]),
            owners,
            leaf=self.leaf,
            places=[place for place, _, _ in self.placed],
            wide=self._values(self.wide),
            unplaced=self._values(self.unplaced),
            unusable=self.unusable,
            why_unusable=self.why,
            nans=self.nans,
            refusal=self.refusal,
            repeats=bool(self.wide) or len(set(owners)) < len(owners),
        )

    def _values(self, pairs: list[tuple[bytes, int]]) -> HashedKeys:
        values = plain_array(self.leaf, [plain for plain, _ in pairs])
        return HashedKeys(values, array("i", [index for _, index in pairs]))


def _is_nan(literal: object) -> bool:
    normal = normalize_literal(literal)
    return isinstance(normal, FloatLiteral) and math.isnan(normal.value)


def _refusal(leaf: LeafColumn, key: object, reason: str | None = None) -> UnsupportedError:
    why = reason or "engines disagree about which values it equals"
    return UnsupportedError(f"column {leaf.name} is {leaf.type_name}, and for the key {literal_text(key)}: {why}")


def _in_nanoseconds(leaf: LeafColumn, literal: object) -> int | None:
    """Return what a column of nanoseconds stores of a time on its own clock, which engines cut only in SQL text."""
    normal, logical = normalize_literal(literal), leaf.logical_type
    if logical is None or logical.unit != "NANOS" or not isinstance(normal, Timestamp | TimeOfDay):
        return None
    is_other = isinstance(normal, Timestamp) and normal.utc != logical.is_adjusted_to_utc
    return None if is_other else normal.nanoseconds


# ---- all at once -------------------------------------------------------------------------


@dataclass(slots=True)
class _Entries:
    """Stored values beside its place on the column's scale, in any order; the null entries are keys that no column
    holds. `owners` are the keys' indexes, None where the entries are the keys in their order.
    """

    stored: pa.Array
    places: pa.Array
    owners: pa.Array | None = None
    wide: pa.Array | None = None
    wide_owners: pa.Array | None = None
    unusable: pa.Array | None = None  # a mask over the keys


def _all_at_once(leaf: LeafColumn, keys: Keys, timezone: str | None) -> KeySet | None:
    """Return the keys converted in bulk, or None where each has to be looked at."""
    import pyarrow.compute as pc

    entries = _entries(leaf, keys)
    if entries is None:
        return None
    stored, places, owners = entries.stored, entries.places, entries.owners
    if owners is not None or not _is_sorted(places):
        order = _order(places)
        is_one = places is stored
        stored = stored.take(order)
        places = stored if is_one else places.take(order)
        owners = order if owners is None else owners.take(order)
    values = _as_stored(leaf, stored)
    require_stored(leaf, values.type)
    made = KeySet(values, range(len(values)) if owners is None else indexes_of(owners), leaf=leaf, places=places)
    if entries.wide is not None and entries.wide_owners is not None and len(entries.wide):
        made.wide = HashedKeys(entries.wide, indexes_of(entries.wide_owners))
        made.refusal = _refusal(leaf, keys.shown[made.wide.owners[0]])
    if entries.owners is not None:
        made.repeats = bool(made.wide.owners) or len(set(made.owners)) < len(made.owners)
    if entries.unusable is not None:
        made.unusable = indexes_of(pc.indices_nonzero(pc.fill_null(entries.unusable, False)))
    if made.unusable:
        first = keys.shown[made.unusable[0]]
        made.why_unusable = encode_literal(leaf, first, timezone=timezone).reason or ""
        if leaf.physical_type in (FLOAT, DOUBLE):
            made.nans = made.unusable
        else:
            made.refusal = _refusal(leaf, first, made.why_unusable)
    return made


def _order(places: pa.Array) -> pa.Array:
    """Return the indexes of places in ascending order, without nulls, which nothing equals."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if places.type != pa.large_binary() or not len(places):
        order = pc.array_sort_indices(places)
        return order.slice(0, len(order) - places.null_count)  # nulls come last
    _, offsets, data = places.buffers()
    sorted_ = _kernel.order(offsets, 8, data or b"", places.offset, len(places))
    order = numbers_as_arrow(sorted_, pa.uint32())
    return order.filter(places.is_valid().take(order)) if places.null_count else order


def _is_sorted(places: pa.Array) -> bool:
    import pyarrow.compute as pc

    return not places.null_count and (
        len(places) < 2 or bool(pc.all(pc.less_equal(places.slice(0, len(places) - 1), places.slice(1))).as_py())
    )


def _entries(leaf: LeafColumn, keys: Keys) -> _Entries | None:
    logical, physical = leaf.logical_type.name if leaf.logical_type else None, leaf.physical_type
    if not keys.is_exact or why_untrusted(leaf):
        return None
    if physical is BYTE_ARRAY and logical in (None, "STRING", "ENUM", "JSON", "BSON"):
        return _of_bytes(logical, keys)
    if keys.are_text:  # which the column's type is to parse
        return None
    if logical == "DECIMAL":
        return _of_decimals(leaf, keys)
    if physical in (INT32, INT64) and logical in (None, "INTEGER"):
        return _of_integers(leaf, keys)
    if physical is INT32 and logical == "DATE":
        return _of_dates(leaf, keys)
    if physical is INT64 and logical == "TIMESTAMP":
        return _of_timestamps(leaf, keys)
    if physical in (FLOAT, DOUBLE) and logical is None:
        return _of_floats(leaf, keys)
    return None


def _of_bytes(logical: str | None, keys: Keys) -> _Entries | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = keys.shown.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if logical == "BSON" or (keys.are_text and logical is None):
            return None
        if logical is None and pc.any(pc.match_substring(keys.shown, "\\x")).as_py():  # DuckDB's way to write a byte
            return None
    elif not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return None
    stored = keys.shown.cast(pa.large_binary())
    return _Entries(stored, stored)


def _of_integers(leaf: LeafColumn, keys: Keys) -> _Entries | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    logical = leaf.logical_type
    if not pa.types.is_integer(keys.shown.type) or (logical is not None and not logical.is_signed):
        return None
    bits = logical.bit_width if logical is not None else 8 * (leaf.width or 0)
    whole = keys.shown.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(whole, -(1 << bits - 1)), pc.less_equal(whole, (1 << bits - 1) - 1))
    stored = _only_where(inside, whole).cast(pa.int32() if leaf.width == 4 else pa.int64())
    return _Entries(stored, stored)


def _of_dates(leaf: LeafColumn, keys: Keys) -> _Entries | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if keys.shown.type != pa.date32():
        return None
    days = keys.shown.cast(pa.int32())
    if is_never_rebased(leaf):
        return _Entries(days, days)
    is_rebased = pc.less(days, GREGORIAN_FROM)
    stored = _only_where(pc.invert(is_rebased), days)
    return _Entries(stored, stored, unusable=is_rebased)


def _of_timestamps(leaf: LeafColumn, keys: Keys) -> _Entries | None:
    """Return timestamps that are whole in the column's unit and in microseconds: engines cut others in several ways."""
    import pyarrow as pa
    import pyarrow.compute as pc

    logical, kind = leaf.logical_type, keys.shown.type
    if logical is None or not pa.types.is_timestamp(kind) or (kind.tz is not None) != logical.is_adjusted_to_utc:
        return None
    count = keys.shown.cast(pa.int64())
    per_second, wanted = PER_SECOND[kind.unit], SECOND // NANOSECONDS[logical.unit or ""]
    coarsest = min(wanted, PER_SECOND["us"])
    if per_second > coarsest:
        step = per_second // coarsest
        if not pc.all(pc.equal(pc.multiply(pc.divide(count, step), step), count)).as_py():
            return None
    if per_second > wanted:
        stored = pc.divide(count, per_second // wanted)
    else:
        stored = pc.multiply_checked(count, wanted // per_second)
    if not logical.is_adjusted_to_utc:
        return _Entries(stored, stored)
    is_rebased = pc.less(count, ZONES_AGREED_FROM // SECOND * per_second)
    stored = _only_where(pc.invert(is_rebased), stored)
    return _Entries(stored, stored, unusable=is_rebased)


def _of_decimals(leaf: LeafColumn, keys: Keys) -> _Entries | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    logical, kind = leaf.logical_type, keys.shown.type
    # Decimals of a list have each a scale of their own.
    if logical is None or keys.literals is not keys.shown or not pa.types.is_decimal128(kind) or kind.scale < 0:
        return None
    if leaf.width is None or leaf.width > 16:
        return None
    wide = pa.decimal128(DECIMAL_DIGITS, 0)
    scale = logical.scale
    if max(integer_digits(leaf), kind.precision - kind.scale) + max(scale, kind.scale) > DECIMAL_DIGITS:
        nothing = pa.nulls(len(keys), wide)
        return _Entries(nothing, nothing, unusable=pc.is_valid(keys.shown))
    values: Any = keys.shown
    scaled = values.cast(pa.decimal128(DECIMAL_DIGITS, scale), safe=False)
    if kind.scale > scale:
        scaled = _only_where(pc.equal(scaled.cast(pa.decimal128(DECIMAL_DIGITS, kind.scale)), values), scaled)
    unscaled = pa.Array.from_buffers(wide, len(scaled), scaled.buffers(), offset=scaled.offset)
    if leaf.width < 16:
        least, most = (
            pa.scalar(Decimal(bound), wide) for bound in (-(1 << 8 * leaf.width - 1), (1 << 8 * leaf.width - 1) - 1)
        )
        unscaled = _only_where(pc.and_(pc.greater_equal(unscaled, least), pc.less_equal(unscaled, most)), unscaled)
    return _Entries(unscaled, unscaled)


def _of_floats(leaf: LeafColumn, keys: Keys) -> _Entries | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if keys.shown.type not in (pa.float32(), pa.float64()):
        return None
    width = pa.float32() if leaf.width == 4 else pa.float64()
    values = keys.shown.cast(pa.float64())
    narrowed = values.cast(width, safe=False)
    is_zero = pc.equal(narrowed, pa.scalar(0.0, width))
    is_plain = pc.invert(pc.or_(is_zero, pc.is_nan(values)))
    ordinary, zeros = (pc.indices_nonzero(pc.fill_null(mask, False)) for mask in (is_plain, is_zero))
    both = [pa.repeat(pa.scalar(zero, width), len(zeros)) for zero in (0.0, -0.0)]  # either equals either
    stored = pa.concat_arrays([narrowed.take(ordinary), *both])
    owners = pa.concat_arrays([ordinary, zeros, zeros])
    places = values.take(owners)
    # What the column's width does not hold is rounded by one engine and by another not: it has two places.
    is_exact = pc.equal(stored.cast(pa.float64()), places)
    here, wide = pc.indices_nonzero(is_exact), pc.indices_nonzero(pc.invert(is_exact))
    return _Entries(
        stored.take(here),
        places.take(here),
        owners.take(here),
        stored.take(wide),
        owners.take(wide),
        pc.is_nan(values),
    )


def _only_where(mask: pa.Array, values: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(mask, values, pa.scalar(None, values.type))


def _as_stored(leaf: LeafColumn, values: pa.Array) -> pa.Array:
    """Return entries without nulls as the pages hold them: that takes something for decimals only."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_decimal128(values.type) or leaf.width is None:
        return values
    if leaf.physical_type is not FIXED:
        return values.cast(pa.int32() if leaf.width == 4 else pa.int64())
    if not len(values):
        return pa.array([], pa.binary(leaf.width))
    little = bytes(content(values))
    # Backwards they are big-endian, the last one first.
    big = numbers_as_arrow(little[::-1], pa.binary(16))
    big = big.take(pa.array(range(len(values) - 1, -1, -1)))
    return big if leaf.width == 16 else pc.binary_slice(big, 16 - leaf.width, 16).cast(pa.binary(leaf.width))
