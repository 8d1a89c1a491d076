"""Keys to look up: from a list, an Arrow array or a file, and as a column stores them; and candidates, written."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import uuid
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from parquet_bloom import _kernel
from parquet_bloom.errors import ColumnNotFoundError, LiteralError, UnsupportedError
from parquet_bloom.format.schema import LeafColumn, PhysicalType, parse_path
from parquet_bloom.storage.local_files import new_file
from parquet_bloom.values.arrays import PlainKeys, hash_array, plain_array
from parquet_bloom.values.encoding import (
    DECIMAL_DIGITS,
    GREGORIAN_FROM,
    NANOSECONDS,
    ZONES_AGREED_FROM,
    Encodings,
    encode_literal,
    integer_digits,
    is_never_rebased,
    literal_text,
    parse_literal,
    why_untrusted,
)
from parquet_bloom.values.interchange import plain_values, python_value, values_of
from parquet_bloom.values.literals import (
    PER_SECOND,
    SECOND,
    DecimalLiteral,
    FloatLiteral,
    Null,
    TimeOfDay,
    Timestamp,
    normalize_literal,
)
from parquet_bloom.values.ordering import Key, literal_interval
from parquet_bloom.values.statistics import ColumnStatistics

if TYPE_CHECKING:
    import pyarrow as pa

LOG = logging.getLogger("parquet_bloom")


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys as literals, and `shown` as one Arrow array, which holds the same values if `is_exact`, or their text.

    `are_text` says that the literals are text which the column's type is to parse.
    """

    shown: pa.Array
    literals: Sequence[object]
    is_exact: bool = True
    are_text: bool = False

    def __len__(self) -> int:
        return len(self.shown)


def read_keys(keys: Any, column: str) -> Keys:
    """Return the keys of a container, as `values_of` reads it, or of the file that a `Path` names.

    Of what has columns the one named `column` is taken, or its only one; so of a Parquet, CSV or TSV file. Any other
    file has a key a line. Raises `TypeError` for anything else: text is neither a path nor keys.
    """
    if isinstance(keys, Keys):
        return keys
    if isinstance(keys, os.PathLike):
        read = _read_file(Path(keys), column)
        if not len(read):
            LOG.warning("%s has no keys", keys)
        return read
    values = values_of(keys, column)
    return _of_values(values) if isinstance(values, list) else Keys(values, values)


def _of_values(values: list[Any]) -> Keys:
    """Return Python values as they are; Arrow would make dates of datetimes, and drop nanoseconds and zones."""
    import pyarrow as pa

    try:
        shown = pa.array(values)
        listed = shown.to_pylist()
        is_equal = _are_equal(values, listed)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        is_equal = False
    if not is_equal:
        shown = pa.array([None if is_null(value) else _text(value) for value in values], pa.string())
    return Keys(shown, values, is_equal)


def _are_equal(values: list[Any], shown: list[Any]) -> bool:
    """Return whether Arrow kept the values. NumPy's own == would say so of 2^60+1 and the nearest float."""
    kinds = set(map(type, values))
    are_local = datetime not in kinds or not any(getattr(value, "tzinfo", None) for value in values)
    if kinds <= _COMPARED_EXACTLY and are_local and values == shown:
        return True
    return all(_meaning(value) == _meaning(one) for value, one in zip(values, shown, strict=True))


_COMPARED_EXACTLY = {type(None), int, float, str, bytes, Decimal, date, datetime, uuid.UUID}


def _meaning(value: Any) -> object:
    literal = normalize_literal(value)
    if literal is None:
        return object()  # which equals nothing
    if isinstance(literal, Null):
        return Null
    if isinstance(literal, FloatLiteral | DecimalLiteral):
        return literal.value if literal.value == literal.value else FloatLiteral
    return (literal,) if isinstance(literal, bool) else literal  # True is not 1


def _text(value: Any) -> str:
    return literal_text(value).encode(errors="replace").decode()


def python_values(keys: pa.Array) -> tuple[Any, ...]:
    """Return an array's values as Python's, those that Python cannot hold as the array has them."""
    import pyarrow as pa

    if keys.type != pa.time64("ns"):  # whose nanoseconds would be dropped
        with contextlib.suppress(ArithmeticError, ValueError):
            return tuple(keys.to_pylist())
    return tuple(map(python_value, keys))


def is_null(literal: object) -> bool:
    """Return whether a literal is NULL, which equals nothing, whatever wrote it."""
    return isinstance(normalize_literal(literal), Null)


# ---- keys as a column stores them --------------------------------------------------------


@dataclass(slots=True)
class HashedKeys:
    """Hashes beside the indexes of the keys that they are of, int32; `owners` is a range where there is one of each."""

    hashes: bytes = b""
    owners: range | array[int] = range(0)
    _by_hash: tuple[bytes, bytes] | None = None

    def by_hash(self) -> tuple[bytes, bytes]:
        """Return the hashes in ascending order, and the place of each in `hashes`, as uint32."""
        if self._by_hash is None:
            import pyarrow as pa
            import pyarrow.compute as pc

            hashes = pa.Array.from_buffers(pa.uint64(), len(self.owners), [None, pa.py_buffer(self.hashes)])
            order = pc.array_sort_indices(hashes)
            self._by_hash = _content(hashes.take(order)), _content(order.cast(pa.uint32()))
        return self._by_hash


@dataclass(slots=True)
class KeySet(HashedKeys):
    """The keys as one type of column stores them.

    `points` are the places of the keys that have one on the column's scale, ascending; `hashes` and `owners` run beside
    them. `wide` keys have no single place and are checked everywhere; `unprovable` ones are always kept.
    Only with `repeats` may a key own several hashes.
    """

    points: Sequence[Key] = ()
    wide: HashedKeys = field(default_factory=HashedKeys)
    unprovable: Sequence[int] = ()
    why_unprovable: str = ""
    repeats: bool = False

    def owners_by_hash(self) -> dict[int, list[int]]:
        """Return the indexes of the keys that each hash is of."""
        found: dict[int, list[int]] = {}
        for of in (self, self.wide):
            for hash_, owner in zip(array("Q", of.hashes), of.owners, strict=True):
                found.setdefault(hash_, []).append(owner)
        return found

    def within(self, known: ColumnStatistics) -> tuple[int, int]:
        """Return start and stop of the points that statistics leave open."""
        if known.is_all_null:
            return 0, 0
        if known.low is None or known.high is None:
            return 0, len(self.points)
        if isinstance(self.points, _Bytes):
            return self.points.between(known.low, known.high)
        return bisect_left(self.points, known.low), bisect_right(self.points, known.high)


def key_set(leaf: LeafColumn, keys: Keys, timezone: str | None) -> KeySet:
    """Return the keys as `leaf` stores them, all at once where Arrow can.

    Raises `LiteralError` for a key that the leaf cannot be compared with.
    """
    import pyarrow as pa

    try:
        converted = _converted(leaf, keys)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # a number that is too large, say
        converted = None
    return _one_by_one(leaf, keys, timezone) if converted is None else converted


def _one_by_one(leaf: LeafColumn, keys: Keys, timezone: str | None) -> KeySet:
    made = KeySet()
    if reason := why_untrusted(leaf):
        made.unprovable, made.why_unprovable = [i for i, key in enumerate(keys.literals) if not is_null(key)], reason
        return made
    points: list[tuple[Key, int, int]] = []
    wide: list[bytes] = []
    wide_owners: list[int] = []
    unprovable: list[int] = []
    takes_empty = leaf.physical_type in (PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY)
    for index, key in enumerate(keys.literals):
        if is_null(key) or (keys.are_text and key == "" and not takes_empty):
            continue
        literal = parse_literal(leaf, str(key)) if keys.are_text else key
        encodings = encode_literal(leaf, literal, timezone=timezone)
        if encodings.reason is not None and not encodings.plain:
            unprovable.append(index)
            made.why_unprovable = encodings.reason
            continue
        interval = literal_interval(leaf, literal, encodings) if encodings.plain else ""
        for hash_ in encodings.hashes():
            if isinstance(interval, str) or interval[0] != interval[1]:
                wide.append(hash_.to_bytes(8, sys.byteorder))
                wide_owners.append(index)
            else:
                points.append((interval[0], hash_, index))
    points.sort(key=itemgetter(0))
    made.wide, made.unprovable = HashedKeys(b"".join(wide), array("i", wide_owners)), unprovable
    made.points = [point for point, _, _ in points]
    made.hashes = b"".join(hash_.to_bytes(8, sys.byteorder) for _, hash_, _ in points)
    made.owners = array("i", [index for _, _, index in points])
    made.repeats = bool(wide) or len(set(made.owners)) < len(points)
    return made


# ---- keys as plain values ----------------------------------------------------------------


def require_no_null(keys: Keys) -> None:
    """Raise `LiteralError` if one of the keys is NULL."""
    if keys.shown.null_count or any(map(is_null, () if keys.literals is keys.shown else keys.literals)):
        raise LiteralError("one of the keys is NULL, which equals no value; leave it out")


class PlainEntries(NamedTuple):
    """The values under which a leaf stores keys, and beside each the index of its key; `nans` are those of NaNs."""

    values: pa.Array
    owners: Sequence[int]
    nans: Sequence[int] = ()


def stored_keys(leaf: LeafColumn, keys: Keys, timezone: str | None) -> PlainKeys:
    """Return the values under which a leaf stores the keys, to find them; raises as `plain_entries` does."""
    entries = plain_entries(leaf, keys, timezone)
    return PlainKeys(leaf, entries.values, has_nan=bool(entries.nans))


def plain_entries(leaf: LeafColumn, keys: Keys, timezone: str | None) -> PlainEntries:
    """Return the values under which a leaf stores the keys; none for NULL, and for what no value equals.

    Raises `LiteralError` for a key that the leaf cannot be compared with, and `UnsupportedError` for one of which
    engines disagree what it equals.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if leaf.text_rule:
        raise UnsupportedError(f"column {leaf.name}: {leaf.text_rule}")
    try:
        entries = _entries(leaf, keys)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        entries = None
    if entries is None:
        return _plain_one_by_one(leaf, keys, timezone)
    nans: Sequence[int] = ()
    if entries.unprovable is not None and (unprovable := _flagged(entries.unprovable)):
        literals = [keys.shown[index] for index in unprovable]
        if not all(map(_is_nan, literals)):
            _refuse_unclear(leaf, literals[0], encode_literal(leaf, literals[0], timezone=timezone).reason)
        nans = unprovable
    if entries.wide_owners is not None and len(entries.wide_owners):
        _refuse_unclear(leaf, keys.shown[entries.wide_owners[0].as_py()])
    owners: Sequence[int] = range(len(entries.stored))
    if entries.owners is not None or entries.stored.null_count:
        places = pc.indices_nonzero(entries.stored.is_valid())
        owners = indexes_of(places if entries.owners is None else entries.owners.take(places))
    return PlainEntries(_as_stored(leaf, entries.stored.drop_null()), owners, nans)


def _flagged(mask: pa.Array) -> Sequence[int]:
    import pyarrow.compute as pc

    return indexes_of(pc.indices_nonzero(pc.fill_null(mask, False)))


def _is_nan(literal: object) -> bool:
    normal = normalize_literal(literal)
    return isinstance(normal, FloatLiteral) and math.isnan(normal.value)


def _refuse_unclear(leaf: LeafColumn, key: object, reason: str | None = None) -> NoReturn:
    why = reason or "engines disagree about which values it equals"
    raise UnsupportedError(f"column {leaf.name} is {leaf.type_name}, and for the key {literal_text(key)}: {why}")


def _plain_one_by_one(leaf: LeafColumn, keys: Keys, timezone: str | None) -> PlainEntries:
    takes_empty = leaf.physical_type in (PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY)
    plain: list[bytes] = []
    owners, nans = array("i"), array("i")
    for index, key in enumerate(keys.literals):
        if is_null(key) or (keys.are_text and key == "" and not takes_empty):
            continue
        literal = parse_literal(leaf, str(key)) if keys.are_text else key
        encodings = encode_literal(leaf, literal, timezone=timezone)
        if encodings.plain:
            found = _agreed(leaf, literal, encodings)
            if found is None:
                _refuse_unclear(leaf, literal)
            plain += found
            owners.extend([index] * len(found))
        elif _is_nan(literal) and encodings.reason == "NaN":
            nans.append(index)
        elif encodings.reason is not None:
            _refuse_unclear(leaf, literal, encodings.reason)
    return PlainEntries(plain_array(leaf, plain), owners, nans)


def _agreed(leaf: LeafColumn, literal: object, encodings: Encodings) -> Sequence[bytes] | None:
    """Return the encodings of what a literal equals, or None if engines do not agree on it."""
    if (exact := _in_nanoseconds(leaf, literal)) is not None:
        return [plain for plain in encodings.plain if int.from_bytes(plain, "little", signed=True) == exact]
    interval = literal_interval(leaf, literal, encodings)
    is_agreed = len(encodings.plain) == 1 if isinstance(interval, str) else interval[0] == interval[1]
    return encodings.plain if is_agreed else None


def _in_nanoseconds(leaf: LeafColumn, literal: object) -> int | None:
    """Return what a column of nanoseconds stores of a time on its own clock, which engines cut only in SQL text."""
    normal, logical = normalize_literal(literal), leaf.logical_type
    if logical is None or logical.unit != "NANOS" or not isinstance(normal, Timestamp | TimeOfDay):
        return None
    is_other = isinstance(normal, Timestamp) and normal.utc != logical.is_adjusted_to_utc
    return None if is_other else normal.nanoseconds


# ---- all at once -------------------------------------------------------------------------
# What follows says in Arrow's terms what `encode_literal` and `literal_interval` say of each key, for the common types.


@dataclass(slots=True)
class _Entries:
    """What is stored beside its place on the column's scale, in any order; the null entries are keys that no column
    holds. `owners` are the keys' indexes, None where the entries are the keys in their order.
    """

    stored: pa.Array
    places: pa.Array
    owners: pa.Array | None = None
    wide: pa.Array | None = None
    wide_owners: pa.Array | None = None
    unprovable: pa.Array | None = None  # a mask over the keys


def _converted(leaf: LeafColumn, keys: Keys) -> KeySet | None:
    """Return the key set made in bulk, or None where each key has to be looked at."""
    import pyarrow.compute as pc

    entries = _entries(leaf, keys)
    if entries is None:
        return None
    is_owned = entries.owners is None
    is_in_order = entries.owners is None and _is_sorted(entries.places)
    if not is_in_order:
        order = _order(entries.places)
        is_one = entries.places is entries.stored
        entries.stored = entries.stored.take(order)
        entries.places = entries.stored if is_one else entries.places.take(order)
        entries.owners = order if entries.owners is None else entries.owners.take(order)
    made = KeySet(
        hash_array(leaf, _as_stored(leaf, entries.stored)),
        range(len(entries.places)) if is_in_order else indexes_of(entries.owners),
        points=_points(entries.places),
    )
    if entries.wide is not None and entries.wide_owners is not None:
        made.wide = HashedKeys(hash_array(leaf, entries.wide), indexes_of(entries.wide_owners))
    if not is_owned:
        made.repeats = bool(made.wide.owners) or len(set(made.owners)) < len(made.owners)
    if entries.unprovable is not None:
        made.unprovable = indexes_of(pc.indices_nonzero(pc.fill_null(entries.unprovable, False)))
        if made.unprovable:
            made.why_unprovable = encode_literal(leaf, keys.shown[made.unprovable[0]]).reason or ""
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
    order = pa.Array.from_buffers(pa.uint32(), len(places), [None, pa.py_buffer(sorted_)])
    return order.filter(places.is_valid().take(order)) if places.null_count else order


def _is_sorted(places: pa.Array) -> bool:
    import pyarrow.compute as pc

    return not places.null_count and (
        len(places) < 2 or bool(pc.all(pc.less_equal(places.slice(0, len(places) - 1), places.slice(1))).as_py())
    )


def _points(places: pa.Array) -> Sequence[Key]:
    """Return places without nulls as a sequence to bisect."""
    import pyarrow as pa

    kind = places.type
    if pa.types.is_integer(kind):
        return array("q", _content(places.cast(pa.int64())))
    if pa.types.is_floating(kind):
        return array("d", _content(places.cast(pa.float64())))
    if kind == pa.large_binary():
        return _Bytes(places)
    return _Points(places) if len(places) > _LISTED else places.to_pylist()


_LISTED = 64 * 1024
"""So many points are kept as Python objects, which is faster; more are left in Arrow, which takes less memory."""


class _Points(Sequence[Any]):
    """An Arrow array as a sequence to bisect."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        return self._values[index].as_py()


class _Bytes(_Points):
    """The same of large_binary values."""

    def between(self, low: bytes, high: bytes) -> tuple[int, int]:
        """Return start and stop of the values that are neither below `low` nor above `high`."""
        if not len(self):
            return 0, 0
        _, offsets, data = self._values.buffers()
        return _kernel.run_between(offsets, 8, data or b"", self._values.offset, len(self), low, high)


def indexes_of(values: pa.Array) -> array[int]:
    """Return indexes of keys in an Arrow array of any integer type, without nulls, as int32."""
    import pyarrow as pa

    return array("i", _content(values.cast(pa.int32())))


def _content(values: pa.Array) -> bytes:
    """Return the values of an array of fixed width, without nulls, as bytes."""
    if not len(values):
        return b""
    width = values.type.bit_width // 8
    return bytes(memoryview(values.buffers()[1])[width * values.offset : width * (values.offset + len(values))])


def _entries(leaf: LeafColumn, keys: Keys) -> _Entries | None:
    logical, physical = leaf.logical_type.name if leaf.logical_type else None, leaf.physical_type
    if not keys.is_exact or why_untrusted(leaf):
        return None
    if physical is PhysicalType.BYTE_ARRAY and logical in (None, "STRING", "ENUM", "JSON", "BSON"):
        return _of_bytes(logical, keys)
    if keys.are_text:  # which the column's type is to parse
        return None
    if logical == "DECIMAL":
        return _of_decimals(leaf, keys)
    if physical in (PhysicalType.INT32, PhysicalType.INT64) and logical in (None, "INTEGER"):
        return _of_integers(leaf, keys)
    if physical is PhysicalType.INT32 and logical == "DATE":
        return _of_dates(leaf, keys)
    if physical is PhysicalType.INT64 and logical == "TIMESTAMP":
        return _of_timestamps(leaf, keys)
    if physical in (PhysicalType.FLOAT, PhysicalType.DOUBLE) and logical is None:
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
    return _Entries(stored, stored, unprovable=is_rebased)


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
    return _Entries(stored, stored, unprovable=is_rebased)


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
        return _Entries(nothing, nothing, unprovable=pc.is_valid(keys.shown))
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
    if leaf.physical_type is not PhysicalType.FIXED_LEN_BYTE_ARRAY:
        return values.cast(pa.int32() if leaf.width == 4 else pa.int64())
    if not len(values):
        return pa.array([], pa.binary(leaf.width))
    little = memoryview(values.buffers()[1])[16 * values.offset : 16 * (values.offset + len(values))]
    # Backwards they are big-endian, the last one first.
    big = pa.Array.from_buffers(pa.binary(16), len(values), [None, pa.py_buffer(little.tobytes()[::-1])])
    big = big.take(pa.array(range(len(values) - 1, -1, -1)))
    return big if leaf.width == 16 else pc.binary_slice(big, 16 - leaf.width, 16).cast(pa.binary(leaf.width))


# ---- files -------------------------------------------------------------------------------


_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def _read_file(path: Path, column: str) -> Keys:
    import pyarrow as pa

    try:
        if path.suffix.lower() in (".parquet", ".parq", ".pq"):
            values = plain_values(_read_parquet(path, column))
            return Keys(values, values)
        if path.suffix.lower() in _SEPARATORS:
            return _texts(_read_csv(path, column))
        # Only line feeds end a line: text may hold what else Unicode calls a line's end.
        lines = (line.removesuffix("\r") for line in path.read_bytes().decode("utf-8-sig").split("\n"))
        return _texts(pa.array([line for line in lines if line], pa.string()))
    except (UnicodeDecodeError, pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(
                f"{path}: no such file of keys; it has one key per line, or is Parquet, CSV or TSV"
            ) from error
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system; Arrow's own, of damaged files, have no number
        raise LiteralError(f"{path} cannot be read as keys: {error}") from error


def _texts(shown: pa.Array) -> Keys:
    return Keys(shown, shown.to_pylist(), are_text=True)


def _read_parquet(path: Path, column: str) -> pa.ChunkedArray:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        number = _number_of(column, file.schema_arrow.names, path)
        leaves = [file.schema.column(leaf) for leaf in range(len(file.schema))]
        values = file.read().column(number)
    if (file.schema_arrow.names[number], "INT96") not in ((leaf.path, leaf.physical_type) for leaf in leaves):
        return values
    with parquet.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        return _of_int96(values, file.read().column(number))


def _of_int96(nanoseconds: pa.ChunkedArray, microseconds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the instants that pyarrow has read twice: beyond 2262 the first are others, and the second are cut."""
    import pyarrow as pa
    import pyarrow.compute as pc

    as_nanoseconds = pc.multiply(microseconds.cast(pa.int64()), 1000)  # overflows in the same way
    if pc.all(pc.equal(nanoseconds.cast(pa.int64()), as_nanoseconds)).as_py() is not False:
        return microseconds
    microseconds.cast(nanoseconds.type)  # raises if one is beyond
    return nanoseconds


def _read_csv(path: Path, column: str) -> pa.Array:
    import pyarrow as pa
    from pyarrow import csv

    # Everything is text: 007 is not 7, and NA not NULL, before the column has said so.
    ending = path.suffix.lower()
    parse = csv.ParseOptions(delimiter=_SEPARATORS[ending], newlines_in_values=True)
    with csv.open_csv(path, parse_options=parse) as opened:
        types = dict.fromkeys(opened.schema.names, pa.string())
    text = csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    table = csv.read_csv(path, parse_options=parse, convert_options=text)
    names = {column.casefold(), parse_path(column)[-1].casefold()}
    if table.num_columns == 1 and (first := table.schema.names[0]).casefold() not in names:  # it may be a key
        raise LiteralError(
            f"{path} begins with {first!r}, and not with the name of the column; write {column} as its first line, or "
            f"give text with one key per line in a file that does not end in {ending}"
        )
    chunks = table.column(_number_of(column, table.schema.names, path)).chunks
    return pa.concat_arrays(chunks or [pa.array([], pa.string())])


def _number_of(column: str, names: list[str], path: Path) -> int:
    if names.count(column) == 1:
        return names.index(column)
    if len(names) == 1:
        return 0
    raise ColumnNotFoundError(column, names, where=str(path))


def write_candidates(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str) -> int:
    """Write candidates to a new Parquet file, which appears once it is complete; return how many there are."""
    from pyarrow import parquet

    rows = 0
    with new_file(Path(path)) as file, parquet.ParquetWriter(file, schema) as writer:
        for batch in batches:
            rows += batch.num_rows - batch.column("path").null_count
            writer.write_batch(batch)
    return rows
