"""The one place that turns a literal, or an Arrow array, into plain-encoded bytes and then into hashes.

A filter holds the XXH64 hash, seed 0, of each value's plain encoding ("Plain" in the format's Encodings.md),
of a BYTE_ARRAY the bytes without their length. So everything rests on one table, physical type x logical type
-> plain bytes, and that table is `_RULES` below:

    physical type            plain bytes of one value
    INT32, INT64             4 or 8 bytes, little-endian two's complement, unsigned values too
    FLOAT, DOUBLE            4 or 8 bytes, IEEE 754, little-endian
    INT96                    8 bytes nanoseconds of the day, 4 bytes Julian day, both little-endian
    BYTE_ARRAY               the bytes
    FIXED_LEN_BYTE_ARRAY     the bytes, always type_length of them

    logical type             what is stored
    INTEGER of any width     the integer, in the physical type's width
    DECIMAL                  the unscaled integer; in byte arrays big-endian two's complement, in BYTE_ARRAY of
                             any width that the writer liked
    DATE                     days since 1970-01-01
    TIME, TIMESTAMP          units since midnight, or since 1970-01-01T00:00 (UTC, or the wall clock's)
    STRING, ENUM, JSON       UTF-8
    UUID                     16 bytes, big-endian
    FLOAT16                  IEEE 754 half precision, little-endian

A literal is not one value. Engines compare it after conversions of their own: of the literal to the column's
type (`f = 0.1` on FLOAT in DuckDB), of the column to the literal's (the same in Spark), or of both to a third.
`encode_literal` therefore returns every encoding that any of Spark, DuckDB, DataFusion and ClickHouse may call
equal. Where a conversion maps many stored values to one, or an answer depends on a session, it gives a reason
and no encodings: nothing follows from the filter then.
"""

from __future__ import annotations

import math
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from functools import cache, total_ordering
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import xxhash

from parquet_bloom import _kernel
from parquet_bloom.errors import CorruptFileError, LiteralError
from parquet_bloom.schema import LeafColumn, PhysicalType

if TYPE_CHECKING:
    import pyarrow as pa

BOOLEAN, INT32, INT64, INT96 = PhysicalType.BOOLEAN, PhysicalType.INT32, PhysicalType.INT64, PhysicalType.INT96
FLOAT, DOUBLE = PhysicalType.FLOAT, PhysicalType.DOUBLE
BYTE_ARRAY, FIXED = PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY

_NANOSECONDS = {"MILLIS": 1_000_000, "MICROS": 1_000, "NANOS": 1}
_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH_JULIAN_DAY = 2_440_588
_DECIMAL_DIGITS = 38  # what Spark and DuckDB hold; beyond, they round, or compare as DOUBLE
_MAX_DECIMAL_BYTES = 32  # 76 digits, the most that any engine writes

_GREGORIAN_FROM = date(1582, 10, 15).toordinal() - _EPOCH_ORDINAL
_ZONES_SETTLED_FROM = (date(1900, 1, 1).toordinal() - _EPOCH_ORDINAL) * _DAY
_REBASED = "Spark shifts dates before 1582-10-15 and instants before 1900 in files of its older versions"


# --- values that Python's own types cannot hold ---------------------------------------------------------------


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Timestamp:
    """A point in time to the nanosecond, of any year.

    `nanoseconds` count from 1970-01-01T00:00, in UTC if `utc`, else on a wall clock in an unknown zone. It
    compares with its like and with `datetime` and `date`; with and without zone do not compare.
    """

    nanoseconds: int
    utc: bool = False

    def __eq__(self, other: object) -> bool:
        like = _as_timestamp(other) if isinstance(other, Timestamp | datetime) else None
        return like is not None and (self.nanoseconds, self.utc) == (like.nanoseconds, like.utc)

    def __lt__(self, other: object) -> bool:
        like = _as_timestamp(other)
        if like is None or like.utc != self.utc:
            return NotImplemented
        return self.nanoseconds < like.nanoseconds

    def __hash__(self) -> int:
        same = self.to_python()
        return hash((self.nanoseconds, self.utc)) if isinstance(same, Timestamp) else hash(same)

    def __str__(self) -> str:
        days, rest = divmod(self.nanoseconds, _DAY)
        year, month, day = _civil(days)
        return f"{year:04}-{month:02}-{day:02}T{TimeOfDay(rest)}{'Z' if self.utc else ''}"

    def to_python(self) -> datetime | Timestamp:
        """Return the same as a `datetime`, or this value where a `datetime` cannot hold it."""
        microseconds, rest = divmod(self.nanoseconds, 1000)
        if rest:
            return self
        try:
            wall = datetime(1970, 1, 1) + timedelta(microseconds=microseconds)
        except OverflowError:
            return self
        return wall.replace(tzinfo=UTC) if self.utc else wall


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class TimeOfDay:
    """A time of day in `nanoseconds` since midnight; it compares with its like and with `time`."""

    nanoseconds: int

    def __eq__(self, other: object) -> bool:
        like = _as_time_of_day(other)
        return like is not None and self.nanoseconds == like.nanoseconds

    def __lt__(self, other: object) -> bool:
        like = _as_time_of_day(other)
        return NotImplemented if like is None else self.nanoseconds < like.nanoseconds

    def __hash__(self) -> int:
        same = self.to_python()
        return hash(self.nanoseconds) if isinstance(same, TimeOfDay) else hash(same)

    def __str__(self) -> str:
        seconds, fraction = divmod(self.nanoseconds, _SECOND)
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{text}.{fraction:09}".rstrip("0") if fraction else text

    def to_python(self) -> time | TimeOfDay:
        """Return the same as a `time`, or this value where a `time` cannot hold it."""
        microseconds, rest = divmod(self.nanoseconds, 1000)
        if rest or not 0 <= self.nanoseconds < _DAY:
            return self
        return (datetime(1970, 1, 1) + timedelta(microseconds=microseconds)).time()


def _as_timestamp(value: object) -> Timestamp | None:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, datetime):
        return _from_datetime(value)
    if isinstance(value, date):
        return Timestamp((value.toordinal() - _EPOCH_ORDINAL) * _DAY)
    return None


def _from_datetime(value: datetime) -> Timestamp:
    days, clock = value.toordinal() - _EPOCH_ORDINAL, value.time()
    nanoseconds = days * _DAY + _clock_nanoseconds(clock) + getattr(value, "nanosecond", 0)  # pandas has them
    offset = value.utcoffset()
    return Timestamp(nanoseconds) if offset is None else Timestamp(nanoseconds - _nanoseconds(offset), utc=True)


def _as_time_of_day(value: object) -> TimeOfDay | None:
    if isinstance(value, TimeOfDay):
        return value
    if isinstance(value, time) and value.tzinfo is None:
        return TimeOfDay(_clock_nanoseconds(value))
    return None


def _clock_nanoseconds(clock: time) -> int:
    return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * _SECOND + clock.microsecond * 1000


def _nanoseconds(delta: timedelta) -> int:
    return delta // timedelta(microseconds=1) * 1000


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day; the Gregorian calendar repeats every 400 years, which are 146,097 days."""
    cycles, rest = divmod(days + _EPOCH_ORDINAL - 1, 146_097)
    inside = date.fromordinal(rest + 1)
    return inside.year + 400 * cycles, inside.month, inside.day


# --- literals, told apart by what engines would make of them --------------------------------------------------


@dataclass(frozen=True, slots=True)
class FloatLiteral:
    """A binary floating-point literal. Each width names what the column loses when converted to it:
    integers up to `integers` and decimals of up to `digits` digits stay apart.
    """

    value: float
    bits: int = 64

    @property
    def integers(self) -> int:
        """The integers from which on neighbours collapse."""
        return {64: 2**53, 32: 2**24}.get(self.bits, 0)

    @property
    def digits(self) -> int:
        """The decimal digits that stay apart."""
        return {64: 15, 32: 6}.get(self.bits, 0)


@dataclass(frozen=True, slots=True)
class DecimalLiteral:
    """A decimal literal with the scale and the digits before the point of the type that an engine gives it."""

    value: Decimal
    scale: int
    integer_digits: int


@dataclass(frozen=True, slots=True)
class DateLiteral:
    """A calendar day of any year, in days since 1970-01-01."""

    days: int


class _Null:
    """NULL, whatever wrote it: None, NaT, an Arrow scalar that is not valid."""


class _ZonedTime:
    """A time of day with a zone: without a day no zone has a known offset."""


class _Unprovable(Exception):
    """Nothing follows from the filter for this literal; the text is the reason."""


def normalize_literal(value: object) -> object:
    """Return the literal as one of the types that the rules know, or None for what no rule knows."""
    module = type(value).__module__.partition(".")[0]
    if value is None or (module == "pandas" and type(value).__name__ in ("NaTType", "NAType")):
        return _Null()
    if module in _FOREIGN:
        value = _FOREIGN[module](value)
    for kind, convert in _OWN.items():
        if isinstance(value, kind):
            return convert(value)
    return None


def _from_numpy(value: Any) -> object:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind == "" or getattr(value, "shape", ()) != ():
        return None
    if kind == "M":
        return _from_datetime64(value)
    if kind == "f":
        exact = float(value)
        return FloatLiteral(exact, 8 * value.dtype.itemsize) if exact == value or math.isnan(exact) else None
    return value.item() if kind in "biuSU" else None


def _from_datetime64(value: Any) -> object:
    if value != value:
        return _Null()
    found = re.search(r"\[(\d*)(\w+)\]", value.dtype.str)
    count, unit = (int(found[1] or 1), found[2]) if found else (1, "")
    if unit in ("Y", "M", "W", "D"):
        return DateLiteral(int(value.astype("datetime64[D]").astype("int64")))
    ticks = int(value.astype("int64")) * count
    if unit in _DATETIME64_PER_SECOND:
        nanoseconds = Fraction(ticks * _SECOND, _DATETIME64_PER_SECOND[unit])
    else:
        nanoseconds = Fraction(ticks * _DATETIME64_SECONDS[unit] * _SECOND)
    # Finer than a nanosecond: no column holds it and no engine types it.
    return Timestamp(int(nanoseconds)) if nanoseconds.denominator == 1 else None


_DATETIME64_SECONDS = {"h": 3600, "m": 60}
_DATETIME64_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}


def _from_pyarrow(value: Any) -> object:
    import pyarrow as pa

    if not isinstance(value, pa.Scalar):
        return None
    if not value.is_valid:
        return _Null()
    kind = value.type
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind):
        return _from_pyarrow(value.value)
    if pa.types.is_timestamp(kind):
        return Timestamp(value.value * (_SECOND // _DATETIME64_PER_SECOND[kind.unit]), utc=kind.tz is not None)
    if pa.types.is_time(kind):
        return TimeOfDay(value.value * (_SECOND // _DATETIME64_PER_SECOND[kind.unit]))
    if pa.types.is_date(kind):
        return DateLiteral(value.value if kind == pa.date32() else value.value // 86_400_000)
    if pa.types.is_decimal(kind):
        return DecimalLiteral(value.as_py(), max(kind.scale, 0), kind.precision - kind.scale)
    if pa.types.is_floating(kind):
        return FloatLiteral(float(value.as_py()), kind.bit_width)
    known = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or _is_bytes(kind)
    return value.as_py() if known else None


def _is_bytes(kind: Any) -> bool:
    import pyarrow as pa

    return kind in _byte_array_types() or pa.types.is_fixed_size_binary(kind)


def _from_decimal(value: Decimal) -> DecimalLiteral:
    exponent = value.as_tuple().exponent
    scale = max(-exponent, 0) if isinstance(exponent, int) else 0
    return DecimalLiteral(value, scale, max(value.adjusted() + 1, 1))


def _same(value: Any) -> Any:
    return value


# datetime before date and bool before int, of which they are kinds.
_OWN: Mapping[type, Callable[[Any], object]] = {
    bool: _same,
    int: int,
    str: str,
    bytes: bytes,
    bytearray: bytes,
    memoryview: bytes,
    float: FloatLiteral,
    Decimal: _from_decimal,
    uuid.UUID: _same,
    datetime: _from_datetime,
    date: lambda value: DateLiteral(value.toordinal() - _EPOCH_ORDINAL),
    time: lambda value: _as_time_of_day(value) or _ZonedTime(),
    **dict.fromkeys((FloatLiteral, DecimalLiteral, DateLiteral, _Null, Timestamp, TimeOfDay), _same),
}
_FOREIGN: Mapping[str, Callable[[Any], object]] = {"numpy": _from_numpy, "pyarrow": _from_pyarrow}


# --- integers -------------------------------------------------------------------------------------------------


def _bits(leaf: LeafColumn) -> tuple[int, bool]:
    logical = leaf.logical_type
    if logical is not None and logical.name == "INTEGER":
        return logical.bit_width, logical.is_signed
    return 8 * (leaf.width or 0), True


def _integer_range(leaf: LeafColumn) -> tuple[int, int]:
    bits, signed = _bits(leaf)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def _integer(leaf: LeafColumn, value: int) -> Iterator[bytes]:
    if not -(2**127) <= value < 2**128:
        raise _Unprovable("DuckDB takes an integer of more than 128 bits for what it is modulo 2^128")
    least, most = _integer_range(leaf)
    if least <= value <= most:
        width = leaf.width or 0
        yield (value % (1 << 8 * width)).to_bytes(width, "little")


def _integer_from_float(leaf: LeafColumn, literal: FloatLiteral) -> Iterator[bytes]:
    # Spark, DuckDB and DataFusion convert the column to the literal's type, and large integers collapse there.
    least, most = _integer_range(leaf)
    if max(-least, most) > literal.integers and not abs(literal.value) < literal.integers:
        raise _Unprovable(
            f"engines compare {leaf.type_name} with {literal.value!r} as floats, which are not exact there"
        )
    if literal.value.is_integer():
        yield from _integer(leaf, int(literal.value))


def _integer_from_decimal(leaf: LeafColumn, literal: DecimalLiteral) -> Iterator[bytes]:
    _require_common_decimal(20, 0, literal)  # the type that engines give a 64-bit integer
    if literal.value == literal.value.to_integral_value():
        yield from _integer(leaf, int(literal.value))


def _decode_integer(leaf: LeafColumn, plain: bytes) -> int:
    return int.from_bytes(plain, "little", signed=_bits(leaf)[1])


# --- floats ---------------------------------------------------------------------------------------------------


def _float_format(leaf: LeafColumn) -> str:
    return {8: "<d", 4: "<f", 2: "<e"}[leaf.width or 0]


def _float(leaf: LeafColumn, literal: FloatLiteral) -> Iterator[bytes]:
    # Either the column is widened, which keeps values apart, or the literal is narrowed, perhaps in two steps.
    narrowed = struct.unpack("<f", _pack_float("<f", literal.value))[0] if leaf.width == 2 else literal.value
    for value in (literal.value, narrowed):
        plain = _pack_float(_float_format(leaf), value)
        yield plain
        if not any(plain[:-1]) and plain[-1] in (0x00, 0x80):
            yield from _zeros(len(plain))


def _zeros(width: int) -> tuple[bytes, bytes]:
    return bytes(width), bytes(width - 1) + b"\x80"


def _pack_float(form: str, value: float) -> bytes:
    try:
        return struct.pack(form, value)
    except OverflowError:
        return struct.pack(form, math.copysign(math.inf, value))


def _float_from_integer(leaf: LeafColumn, value: int) -> Iterator[bytes]:
    if not -(2**63) <= value < 2**64 or int(float(value)) != value:
        raise _Unprovable(f"{_short(value)} is not exactly a float, and engines round it differently")
    yield from _float(leaf, FloatLiteral(float(value)))


def _float_from_decimal(leaf: LeafColumn, literal: DecimalLiteral) -> Iterator[bytes]:
    raise _Unprovable("DataFusion rounds the column to compare it with a DECIMAL literal")


def _decode_float(leaf: LeafColumn, plain: bytes) -> float:
    value: float = struct.unpack(_float_format(leaf), plain)[0]
    return value


# --- decimals -------------------------------------------------------------------------------------------------


def _precision_and_scale(leaf: LeafColumn) -> tuple[int, int]:
    logical = leaf.logical_type
    assert logical is not None  # the rule is for DECIMAL only
    return logical.precision, logical.scale


def _require_common_decimal(integer_digits: int, scale: int, literal: DecimalLiteral) -> None:
    """Refuse what no common type of 38 digits holds: engines then round the column, the literal or both."""
    if not literal.value.is_finite():
        raise _Unprovable(f"{literal.value} is no decimal number")
    if max(integer_digits, literal.integer_digits) + max(scale, literal.scale) > _DECIMAL_DIGITS:
        raise _Unprovable(f"column and literal have no common DECIMAL of {_DECIMAL_DIGITS} digits, so engines round")


def _decimal(leaf: LeafColumn, literal: DecimalLiteral) -> Iterator[bytes]:
    precision, scale = _precision_and_scale(leaf)
    _require_common_decimal(precision - scale, scale, literal)
    unscaled = Fraction(literal.value) * 10**scale
    if unscaled.denominator == 1:
        yield from _unscaled(leaf, int(unscaled))


def _decimal_from_integer(leaf: LeafColumn, value: int) -> Iterator[bytes]:
    if abs(value) >= 10**_DECIMAL_DIGITS:
        raise _Unprovable(f"the literal has more than {_DECIMAL_DIGITS} digits")
    yield from _decimal(leaf, _from_decimal(Decimal(value)))


def _decimal_from_float(leaf: LeafColumn, literal: FloatLiteral) -> Iterator[bytes]:
    precision, scale = _precision_and_scale(leaf)
    if precision > literal.digits:
        raise _Unprovable(
            f"engines compare {leaf.type_name} with a {literal.bits}-bit float as floats, which are not exact there"
        )
    if math.isfinite(literal.value):
        # Values of so few digits lie further apart than floats: only a neighbour can become the same float.
        exact = Fraction(literal.value) * 10**scale
        yield from _unscaled(leaf, math.floor(exact))
        yield from _unscaled(leaf, math.ceil(exact))


def _unscaled(leaf: LeafColumn, value: int) -> Iterator[bytes]:
    """Yield each form in which the unscaled integer may be stored: none if it does not fit."""
    shortest = (value if value >= 0 else ~value).bit_length() // 8 + 1
    if leaf.physical_type is BYTE_ARRAY:
        for width in range(shortest, 17):
            yield value.to_bytes(width, "big", signed=True)
    elif leaf.width is not None and shortest <= leaf.width:
        yield value.to_bytes(leaf.width, _decimal_order(leaf), signed=True)


def _decimal_order(leaf: LeafColumn) -> Any:
    return "little" if leaf.physical_type in (INT32, INT64) else "big"


def _decode_decimal(leaf: LeafColumn, plain: bytes) -> Decimal:
    if len(plain) > _MAX_DECIMAL_BYTES:
        raise CorruptFileError(f"column {leaf.name}: a DECIMAL of {len(plain)} bytes")
    unscaled = int.from_bytes(plain, _decimal_order(leaf), signed=True)
    return Decimal(f"{unscaled}E-{_precision_and_scale(leaf)[1]}")  # exact: the constructor never rounds


# --- bytes ----------------------------------------------------------------------------------------------------


def _raw(leaf: LeafColumn, value: bytes) -> Iterator[bytes]:
    yield value


def _text(leaf: LeafColumn, value: str) -> Iterator[bytes]:
    try:
        yield value.encode()
    except UnicodeEncodeError as error:
        raise LiteralError(
            f"column {leaf.name} is {leaf.type_name}; {value!r} is no text: it has half of a surrogate pair"
        ) from error


def _text_for_bytes(leaf: LeafColumn, value: str) -> Iterator[bytes]:
    for plain in _text(leaf, value):
        yield plain
        # DuckDB reads \xAA in text that it compares with bytes as one byte.
        yield re.sub(rb"\\x([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), plain)


def _fixed(leaf: LeafColumn, value: bytes) -> Iterator[bytes]:
    # ClickHouse compares FixedString as if both sides went on with zeros.
    width = leaf.width or 0
    padded = value.rstrip(b"\0").ljust(width, b"\0")
    if len(padded) == width:
        yield padded


def _uuid_bytes(leaf: LeafColumn, value: bytes) -> Iterator[bytes]:
    if len(value) != 16:
        raise _incomparable(leaf, value)
    yield value


def _decode_bytes(leaf: LeafColumn, plain: bytes) -> bytes:
    return plain


def _decode_text(leaf: LeafColumn, plain: bytes) -> str | bytes:
    try:
        return plain.decode()
    except UnicodeDecodeError:
        return plain


# --- dates and times ------------------------------------------------------------------------------------------


def _date(leaf: LeafColumn, literal: DateLiteral) -> Iterator[bytes]:
    if literal.days < _GREGORIAN_FROM:
        raise _Unprovable(_REBASED)
    yield from _integer(leaf, literal.days)


def _date_from_timestamp(leaf: LeafColumn, literal: Timestamp) -> Iterator[bytes]:
    if literal.utc:
        raise _Unprovable("the day of a zoned timestamp depends on the session's time zone")
    yield from _date(leaf, DateLiteral(literal.nanoseconds // _DAY))


def _decode_date(leaf: LeafColumn, plain: bytes) -> date | Timestamp:
    days = _decode_integer(leaf, plain)
    if 1 <= days + _EPOCH_ORDINAL <= date.max.toordinal():
        return date.fromordinal(days + _EPOCH_ORDINAL)
    return Timestamp(days * _DAY)


def _unit(leaf: LeafColumn) -> int:
    """Return the nanoseconds in one unit of a TIME or TIMESTAMP column."""
    assert leaf.logical_type is not None  # the rules are for TIME and TIMESTAMP only
    return _NANOSECONDS[leaf.logical_type.unit or ""]


def _in_units(leaf: LeafColumn, nanoseconds: int) -> Iterator[bytes]:
    # Engines cut a literal to the column's unit or, as most of them know no finer one, to microseconds; the
    # neighbours on both sides cover any rounding.
    unit = _unit(leaf)
    microsecond = nanoseconds // 1000 * 1000
    readings = (nanoseconds, microsecond, microsecond + 1000) if nanoseconds % 1000 else (nanoseconds,)
    for reading in readings:
        count, rest = divmod(reading, unit)
        for units in (count, count + 1) if rest else (count,):
            yield from _integer(leaf, units)


def _time(leaf: LeafColumn, literal: TimeOfDay) -> Iterator[bytes]:
    yield from _in_units(leaf, literal.nanoseconds)


def _zoned_time(leaf: LeafColumn, literal: _ZonedTime) -> Iterator[bytes]:
    raise _Unprovable("a time of day with a zone is compared differently by each engine")


def _decode_time(leaf: LeafColumn, plain: bytes) -> time | TimeOfDay:
    return TimeOfDay(_decode_integer(leaf, plain) * _unit(leaf)).to_python()


def _timestamp(leaf: LeafColumn, literal: Timestamp, zone: tzinfo | None) -> Iterator[bytes]:
    if not _is_adjusted(leaf):
        if literal.utc:
            raise _Unprovable("a zoned timestamp on a column without zone depends on the session's time zone")
        yield from _in_units(leaf, literal.nanoseconds)
        return
    for instant in _instants(literal, zone):
        yield from _in_units(leaf, instant)
    if not literal.utc and _unit(leaf) == 1:
        yield from _in_units(leaf, literal.nanoseconds)  # beside nanoseconds DuckDB takes a wall clock for UTC


def _is_adjusted(leaf: LeafColumn) -> bool:
    return leaf.logical_type is not None and leaf.logical_type.is_adjusted_to_utc


def _instants(literal: Timestamp, zone: tzinfo | None) -> list[int]:
    """Return the instants that the literal may mean, in nanoseconds: two where clocks are put back or forward."""
    if literal.utc:
        instants = [literal.nanoseconds]
    elif zone is None:
        raise _Unprovable("a timestamp without zone on a UTC-adjusted column needs timezone=")
    else:
        instants = [literal.nanoseconds - _offset(literal, zone, fold) for fold in (0, 1)]
    if min(instants) < _ZONES_SETTLED_FROM:
        raise _Unprovable(_REBASED)
    return instants


def _offset(literal: Timestamp, zone: tzinfo, fold: int) -> int:
    wall = Timestamp(literal.nanoseconds // _SECOND * _SECOND).to_python()
    offset = wall.replace(tzinfo=zone, fold=fold).utcoffset() if isinstance(wall, datetime) else None
    if offset is None:
        raise _Unprovable(f"the offset of {zone} at {literal} is not known")
    return _nanoseconds(offset)


def _timestamp_from_date(leaf: LeafColumn, literal: DateLiteral, zone: tzinfo | None) -> Iterator[bytes]:
    yield from _timestamp(leaf, Timestamp(literal.days * _DAY), zone)


def _decode_timestamp(leaf: LeafColumn, plain: bytes) -> datetime | Timestamp:
    return Timestamp(_decode_integer(leaf, plain) * _unit(leaf), _is_adjusted(leaf)).to_python()


def _int96(leaf: LeafColumn, literal: Timestamp, zone: tzinfo | None) -> Iterator[bytes]:
    # Spark takes INT96 for an instant, the others for a wall clock; so one literal has both readings.
    if zone is None:
        raise _Unprovable("whether INT96 is UTC or a wall clock differs by engine, so the literal needs timezone=")
    readings = [literal.nanoseconds, *_instants(literal, zone)]
    if literal.utc:
        wall = Timestamp(literal.nanoseconds // _SECOND * _SECOND, utc=True).to_python()
        if not isinstance(wall, datetime):
            raise _Unprovable(f"the offset of {zone} at {literal} is not known")
        offset = _nanoseconds(wall.astimezone(zone).utcoffset() or timedelta(0))
        readings.append(literal.nanoseconds + offset)
    for nanoseconds in readings:
        yield from _pack_int96(nanoseconds)
        yield from _pack_int96(nanoseconds // 1000 * 1000)  # Spark and DuckDB read it in microseconds


def _int96_from_date(leaf: LeafColumn, literal: DateLiteral, zone: tzinfo | None) -> Iterator[bytes]:
    yield from _int96(leaf, Timestamp(literal.days * _DAY), zone)


def _pack_int96(nanoseconds: int) -> Iterator[bytes]:
    days, rest = divmod(nanoseconds, _DAY)
    if -(2**31) <= days + _EPOCH_JULIAN_DAY < 2**31:
        yield struct.pack("<qi", rest, days + _EPOCH_JULIAN_DAY)


def _unpack_int96(plain: bytes) -> int:
    nanoseconds, day = struct.unpack("<qi", plain)
    return int((day - _EPOCH_JULIAN_DAY) * _DAY + nanoseconds)


def _decode_int96(leaf: LeafColumn, plain: bytes) -> datetime | Timestamp:
    return Timestamp(_unpack_int96(plain)).to_python()


@cache
def _zone(name: str) -> tzinfo:
    """Return the zone of an IANA name or of an offset such as +05:30 or UTC-3, as Spark's sessions name them."""
    found = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?|Z", name)
    try:
        if found is None:
            return ZoneInfo(name)
        offset = timedelta(hours=int(found[2] or 0), minutes=int(found[3] or 0))
        return timezone(-offset if found[1] == "-" else offset)
    except (ValueError, LookupError, OSError) as error:
        raise LiteralError(
            f"the time zone {name!r} is not known; give an IANA name such as 'Europe/Paris', or an offset '+01:00'"
        ) from error


# --- text that was typed --------------------------------------------------------------------------------------


def _parse_boolean(leaf: LeafColumn, text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _parse_integer(leaf: LeafColumn, text: str) -> int:
    return int(_full(r"[+-]?[0-9]{1,400}", text)[0])


_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?"


def _parse_float(leaf: LeafColumn, text: str) -> float:
    return float(_full(rf"{_NUMBER}|[+-]?(inf|infinity|nan)", text, re.IGNORECASE)[0])


def _parse_decimal(leaf: LeafColumn, text: str) -> Decimal:
    return Decimal(_full(_NUMBER, text)[0])


def _parse_text(leaf: LeafColumn, text: str) -> str:
    return text


def _parse_bytes(leaf: LeafColumn, text: str) -> bytes | str:
    if text[:2] in ("0x", "0X"):
        return bytes.fromhex(_full("0[xX]((?:[0-9A-Fa-f]{2})*)", text)[1])
    return text.encode() if leaf.physical_type is FIXED else text


def _parse_uuid(leaf: LeafColumn, text: str) -> uuid.UUID:
    return uuid.UUID(text)


def _parse_date(leaf: LeafColumn, text: str) -> date:
    return date.fromisoformat(_full(r"\d{4}-\d\d-\d\d", text)[0])


_CLOCK = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"


def _parse_time(leaf: LeafColumn, text: str) -> time | TimeOfDay:
    return TimeOfDay(_parse_clock(*_full(_CLOCK, text).groups())).to_python()


def _parse_clock(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    clock = time(int(hour), int(minute), int(second or 0))
    return _clock_nanoseconds(clock) + int((fraction or "").ljust(9, "0"))


def _parse_timestamp(leaf: LeafColumn, text: str) -> date | datetime | Timestamp:
    found = _full(rf"(\d{{4}}-\d\d-\d\d)(?:[T ]{_CLOCK} ?(Z|[+-]\d\d(?::?\d\d)?)?)?", text)
    day = date.fromisoformat(found[1])
    if found[2] is None:
        return day
    nanoseconds = (day.toordinal() - _EPOCH_ORDINAL) * _DAY + _parse_clock(*found.groups()[1:5])
    if found[6] is None:
        return Timestamp(nanoseconds).to_python()
    offset = _zone(found[6]).utcoffset(None) or timedelta(0)
    return Timestamp(nanoseconds - _nanoseconds(offset), utc=True).to_python()


def _full(pattern: str, text: str, flags: int = 0) -> re.Match[str]:
    found = re.fullmatch(pattern, text.strip(), flags | re.ASCII)
    if found is None:
        raise ValueError(text)
    return found


# --- the table ------------------------------------------------------------------------------------------------

Encoder = Callable[..., Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class _Rule:
    """How the values of one kind of column are written, read and typed.

    `encode` maps each comparable type of literal to what yields its encodings, from leaf and literal and, for
    the types in `zoned`, the session's zone. `example` is a literal in Python, `typed` one on a command line.
    """

    encode: Mapping[type, Encoder]
    decode: Callable[[LeafColumn, bytes], object]
    parse: Callable[[LeafColumn, str], object]
    example: str
    typed: str
    holds: Callable[[LeafColumn], bool] = field(default=lambda leaf: True)
    zoned: bool = False


def _decimal_fits(leaf: LeafColumn) -> bool:
    precision, scale = _precision_and_scale(leaf)
    return 0 <= scale <= precision and precision > 0 and (leaf.width or 0) <= _MAX_DECIMAL_BYTES


def _unit_fits(leaf: LeafColumn) -> bool:
    unit = leaf.logical_type and leaf.logical_type.unit
    return unit in _NANOSECONDS and (unit == "MILLIS" or leaf.physical_type is INT64)


def _bits_fit(leaf: LeafColumn) -> bool:
    return _bits(leaf)[0] in {4: (8, 16, 32), 8: (64,)}[leaf.width or 0]


_BOOLEANS = _Rule(
    {bool: lambda leaf, value: iter([b"\x01" if value else b"\x00"])},
    lambda leaf, plain: plain != b"\0",
    _parse_boolean,
    "a bool such as True",
    "true",
)
_INTEGERS = _Rule(
    {int: _integer, FloatLiteral: _integer_from_float, DecimalLiteral: _integer_from_decimal},
    _decode_integer,
    _parse_integer,
    "an int such as 42",
    "42",
)
_SIZED_INTEGERS = _Rule(
    _INTEGERS.encode, _decode_integer, _parse_integer, _INTEGERS.example, _INTEGERS.typed, _bits_fit
)
_FLOATS = _Rule(
    {FloatLiteral: _float, int: _float_from_integer, DecimalLiteral: _float_from_decimal},
    _decode_float,
    _parse_float,
    "a float such as 1.5",
    "1.5",
)
_HALF_FLOATS = _Rule(
    _FLOATS.encode, _decode_float, _parse_float, _FLOATS.example, _FLOATS.typed, lambda leaf: leaf.width == 2
)
_DECIMALS = _Rule(
    {DecimalLiteral: _decimal, int: _decimal_from_integer, FloatLiteral: _decimal_from_float},
    _decode_decimal,
    _parse_decimal,
    "a decimal.Decimal such as Decimal('1.50')",
    "1.50",
    _decimal_fits,
)
_TEXTS = _Rule({str: _text, bytes: _raw}, _decode_text, _parse_text, "a str such as 'abc'", "abc")
_BYTES = _Rule(
    {bytes: _raw, str: _text_for_bytes}, _decode_bytes, _parse_bytes, "bytes such as b'abc'", "abc or 0x616263"
)
_DOCUMENTS = _Rule({bytes: _raw}, _decode_bytes, _parse_bytes, "bytes such as b'abc'", "0x616263")
_FIXED_BYTES = _Rule({bytes: _fixed}, _decode_bytes, _parse_bytes, "bytes such as b'abc'", "0x616263")
_UUIDS = _Rule(
    {uuid.UUID: lambda leaf, value: iter([value.bytes]), bytes: _uuid_bytes},
    lambda leaf, plain: uuid.UUID(bytes=plain),
    _parse_uuid,
    "a uuid.UUID, or its 16 bytes",
    "01234567-89ab-cdef-0123-456789abcdef",
    lambda leaf: leaf.width == 16,
)
_DATES = _Rule(
    {DateLiteral: _date, Timestamp: _date_from_timestamp},
    _decode_date,
    _parse_date,
    "a datetime.date such as date(2024, 2, 3)",
    "2024-02-03",
)
_TIMES = _Rule(
    {TimeOfDay: _time, _ZonedTime: _zoned_time},
    _decode_time,
    _parse_time,
    "a datetime.time such as time(12, 30)",
    "12:30:00.5",
    _unit_fits,
)
_TIMESTAMPS = _Rule(
    {Timestamp: _timestamp, DateLiteral: _timestamp_from_date},
    _decode_timestamp,
    _parse_timestamp,
    "a datetime such as datetime(2024, 2, 3, 12, 30)",
    "2024-02-03T12:30:00Z",
    _unit_fits,
    zoned=True,
)
_OLD_TIMESTAMPS = _Rule(
    {Timestamp: _int96, DateLiteral: _int96_from_date},
    _decode_int96,
    _parse_timestamp,
    _TIMESTAMPS.example,
    _TIMESTAMPS.typed,
    zoned=True,
)

_RULES: Mapping[tuple[PhysicalType, str | None], _Rule] = {
    (BOOLEAN, None): _BOOLEANS,
    (INT32, None): _INTEGERS,
    (INT32, "INTEGER"): _SIZED_INTEGERS,
    (INT32, "DECIMAL"): _DECIMALS,
    (INT32, "DATE"): _DATES,
    (INT32, "TIME"): _TIMES,
    (INT64, None): _INTEGERS,
    (INT64, "INTEGER"): _SIZED_INTEGERS,
    (INT64, "DECIMAL"): _DECIMALS,
    (INT64, "TIME"): _TIMES,
    (INT64, "TIMESTAMP"): _TIMESTAMPS,
    (INT96, None): _OLD_TIMESTAMPS,
    (FLOAT, None): _FLOATS,
    (DOUBLE, None): _FLOATS,
    (BYTE_ARRAY, None): _BYTES,
    (BYTE_ARRAY, "STRING"): _TEXTS,
    (BYTE_ARRAY, "ENUM"): _TEXTS,
    (BYTE_ARRAY, "JSON"): _TEXTS,
    (BYTE_ARRAY, "BSON"): _DOCUMENTS,
    (BYTE_ARRAY, "DECIMAL"): _DECIMALS,
    (FIXED, None): _FIXED_BYTES,
    (FIXED, "DECIMAL"): _DECIMALS,
    (FIXED, "UUID"): _UUIDS,
    (FIXED, "FLOAT16"): _HALF_FLOATS,
}

_UNTRUSTED = {
    "INTERVAL": "equal intervals are stored in different ways",
    "UNKNOWN": "the column's type says that it holds nulls only",
    "VARIANT": "equal variants are stored in different ways",
    "GEOMETRY": "equal geometries are stored in different ways",
    "GEOGRAPHY": "equal geometries are stored in different ways",
    "UNKNOWN_TO_US": "the column's logical type is newer than this version",
}


def untrusted(leaf: LeafColumn) -> str | None:
    """Return why a filter that is there must never prune, or None if its type is sound."""
    logical = leaf.logical_type.name if leaf.logical_type else None
    if leaf.physical_type is BOOLEAN:
        return "parquet-java writes BOOLEAN filters that hold nothing"
    if logical in _UNTRUSTED:
        return _UNTRUSTED[logical]
    rule = _RULES.get((leaf.physical_type, logical))
    if rule is None or not rule.holds(leaf):
        return f"{leaf.type_name} is no type that the format describes"
    return None


def unbuildable(leaf: LeafColumn) -> str | None:
    """Return why no filter must be built for this leaf, or None if one may be."""
    if leaf.physical_type is BOOLEAN:
        return "a column of two values gains nothing, and engines ignore BOOLEAN filters"
    logical = leaf.logical_type
    if logical is not None and logical.name == "FLOAT16":
        return "DuckDB hashes FLOAT16 as FLOAT, and would find no rows at all"
    if logical is not None and logical.name == "DECIMAL" and logical.precision > _DECIMAL_DIGITS:
        return f"DuckDB reads decimals of over {_DECIMAL_DIGITS} digits as DOUBLE, and would find no rows at all"
    return untrusted(leaf)


# --- literals -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Encodings:
    """Every plain encoding under which a value equal to a literal may be stored.

    No encodings and no `reason` prove that no value of the column equals it. A `reason` says why nothing can
    be proved: the answer is MIGHT_MATCH, whatever the filter holds.
    """

    plain: tuple[bytes, ...]
    reason: str | None = None

    def hashes(self) -> tuple[int, ...]:
        """Return the hash of each encoding, in their order."""
        return tuple(map(hash_plain, self.plain))


def encode_literal(leaf: LeafColumn, value: object, *, timezone: str | None = None) -> Encodings:
    """Return the encodings of every stored value that Spark, DuckDB, DataFusion or ClickHouse calls equal.

    `value` is a Python value, a NumPy or Arrow scalar or a pandas timestamp. `timezone` is the session's zone,
    an IANA name or an offset; without it a literal without zone proves nothing on a UTC-adjusted column.
    Raises `LiteralError` if such a value and this column are not comparable. Text is never converted.

    >>> leaf = LeafColumn(("user", "id"), 0, PhysicalType.INT64, None, None, ())
    >>> encode_literal(leaf, 42)
    Encodings(plain=(b'*\\x00\\x00\\x00\\x00\\x00\\x00\\x00',), reason=None)
    >>> encode_literal(leaf, 0.5)
    Encodings(plain=(), reason=None)
    """
    zone = _zone(timezone) if timezone is not None else None
    reason = untrusted(leaf)
    if reason is not None and leaf.physical_type is not BOOLEAN:
        return Encodings((), reason)  # which literals compare with an unknown type is unknown, too
    try:
        encodings = _encodings(leaf, value, zone)
        return Encodings((), reason) if reason else Encodings(tuple(dict.fromkeys(encodings)))
    except _Unprovable as unprovable:
        return Encodings((), str(unprovable))


def _encodings(leaf: LeafColumn, value: object, zone: tzinfo | None) -> Iterator[bytes]:
    rule, literal = _rule(leaf), normalize_literal(value)
    if isinstance(literal, _Null):
        raise _Unprovable("NULL")
    encode = rule.encode.get(type(literal))
    if encode is None:
        raise _incomparable(leaf, value)
    if isinstance(literal, FloatLiteral) and math.isnan(literal.value):
        raise _Unprovable("NaN")
    return encode(leaf, literal, zone) if rule.zoned else encode(leaf, literal)


def _rule(leaf: LeafColumn) -> _Rule:
    """Return the leaf's rule; where its logical type is not understood, the rule of what is stored."""
    logical = leaf.logical_type.name if leaf.logical_type else None
    rule = _RULES.get((leaf.physical_type, logical))
    return rule if rule is not None and rule.holds(leaf) else _RULES[leaf.physical_type, None]


def _incomparable(leaf: LeafColumn, value: object) -> LiteralError:
    return LiteralError(
        f"column {leaf.name} is {leaf.type_name}; {_short(value)} ({type(value).__name__}) is not comparable "
        f"with it, give {_rule(leaf).example}"
    )


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an int of too many digits to print
        text = "the literal"
    return text if len(text) <= 60 else text[:59] + "…"


def parse_literal(leaf: LeafColumn, text: str) -> object:
    """Return the literal that `text`, as typed on a command line, means for this column.

    `0x…` is bytes on columns of bytes; on columns of text, text stays what it is. Nanoseconds come back as
    `Timestamp` or `TimeOfDay`. Raises `LiteralError` with an example if the text is none of the column's type.
    """
    rule = _rule(leaf)
    try:
        return rule.parse(leaf, text)
    except (ValueError, LookupError, ArithmeticError) as error:
        raise LiteralError(
            f"column {leaf.name} is {leaf.type_name}; {_short(text)} is none of its values, write it like {rule.typed}"
        ) from error


# --- stored values, to show and to compare --------------------------------------------------------------------


def decode_plain(leaf: LeafColumn, plain: bytes) -> object:
    """Return the Python value of a plain encoding, exactly.

    `Timestamp` and `TimeOfDay` stand in where `datetime`, `date` and `time` cannot hold it, and bytes where
    text is not UTF-8. Raises `CorruptFileError` if the bytes have the wrong length.
    """
    width = 1 if leaf.physical_type is BOOLEAN else leaf.width
    if width is not None and len(plain) != width:
        raise CorruptFileError(f"column {leaf.name}: a value of {leaf.type_name} has {len(plain)} bytes")
    return _rule(leaf).decode(leaf, plain)


def format_value(leaf: LeafColumn, plain: bytes) -> str:
    """Return a plain encoding as a person reads it, in at most 60 characters and on one line."""
    try:
        value = decode_plain(leaf, plain)
    except CorruptFileError:
        value = plain
    text = _format_float(leaf, value) if isinstance(value, float) else _FORMATS.get(type(value), str)(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _format_float(leaf: LeafColumn, value: float) -> str:
    """Return the shortest text that is this value in the column's width."""
    form = _float_format(leaf)
    if form == "<d" or not math.isfinite(value):
        return repr(value)
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    shortest = next(text for text in texts if _pack_float(form, float(text)) == _pack_float(form, value))
    return repr(float(shortest))


def _format_text(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]


_FORMATS: Mapping[type, Callable[[Any], str]] = {
    str: _format_text,
    bytes: lambda value: f"0x{value[:30].hex()}",
    bool: lambda value: str(value).lower(),
    Decimal: lambda value: f"{value:f}",
    datetime: lambda value: value.isoformat().replace("+00:00", "Z"),
    date: date.isoformat,
    time: time.isoformat,
}


# --- arrays ---------------------------------------------------------------------------------------------------


def hash_array(leaf: LeafColumn, array: pa.Array | pa.ChunkedArray) -> bytes:
    """Return the hashes of every value that is not null, as native-endian uint64, 8 bytes each.

    `array` holds what the pages hold: int32, int64, float, double, any binary or string type, or
    fixed_size_binary of `type_length` (of 12 for INT96). Of a dictionary-encoded chunk each value in use is
    hashed once. Raises `TypeError` if the array's type is not the leaf's physical type.
    """
    return b"".join(_hash_chunk(chunk) for chunk in _chunks(leaf, array))


def _hash_chunk(chunk: Any) -> bytes:
    import pyarrow as pa

    if len(chunk) == chunk.null_count:
        return b""
    buffers = chunk.buffers()
    if len(buffers) == 3:
        wide = chunk.type in (pa.large_binary(), pa.large_string())
        data = buffers[2] if buffers[2] is not None else b""
        hashes = _kernel.hash_variable(buffers[1], 8 if wide else 4, data, chunk.offset, len(chunk))
    else:
        hashes = _kernel.hash_fixed(buffers[1], chunk.type.bit_width // 8, chunk.offset, len(chunk))
    if not chunk.null_count:
        return hashes
    # What lies under a null is hashed too and dropped here, 8 bytes a value instead of the value.
    kept = pa.Array.from_buffers(pa.uint64(), len(chunk), [None, pa.py_buffer(hashes)]).filter(chunk.is_valid())
    return bytes(memoryview(kept.buffers()[1])[8 * kept.offset : 8 * (kept.offset + len(kept))])


def _chunks(leaf: LeafColumn, array: Any) -> Iterator[Any]:
    """Yield the array's chunks as the kernel takes them: no dictionaries, no views."""
    import pyarrow as pa

    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if kind not in _arrow_types(leaf):
        raise TypeError(f"column {leaf.name} is {leaf.type_name}; an array of {array.type} is not what it stores")
    views = {pa.binary_view(): pa.large_binary(), pa.string_view(): pa.large_string()}
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        values = _used(chunk) if pa.types.is_dictionary(chunk.type) else chunk
        yield values.cast(views[kind]) if kind in views else values


def _used(chunk: Any) -> Any:
    indices = chunk.indices.drop_null().unique()
    return chunk.dictionary if len(indices) == len(chunk.dictionary) else chunk.dictionary.take(indices)


def _arrow_types(leaf: LeafColumn) -> tuple[Any, ...]:
    import pyarrow as pa

    if leaf.physical_type is BYTE_ARRAY:
        return _byte_array_types()
    if leaf.physical_type in (FIXED, INT96):
        return (pa.binary(leaf.width),)
    return {INT32: (pa.int32(),), INT64: (pa.int64(),), FLOAT: (pa.float32(),), DOUBLE: (pa.float64(),)}.get(
        leaf.physical_type, ()
    )


@cache
def _byte_array_types() -> tuple[Any, ...]:
    import pyarrow as pa

    return (
        *(pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.string(), pa.large_string(), pa.string_view()),
    )


def plain_value(array: pa.Array, index: int) -> bytes:
    """Return the plain encoding of one value of such an array; it must not be null."""
    value = array[index]
    if len(array.buffers()) == 3:
        return bytes(value.as_buffer())
    width = array.type.bit_width // 8
    at = (array.offset + index) * width
    return bytes(array.buffers()[1][at : at + width])


def hash_plain(plain: bytes) -> int:
    """Return the hash of a plain-encoded value."""
    return xxhash.xxh64_intdigest(plain)


def is_nan(leaf: LeafColumn, plain: bytes) -> bool:
    """Return whether a plain-encoded value is a NaN, which no filter is asked for."""
    value = decode_plain(leaf, plain)
    return isinstance(value, float) and math.isnan(value)


def companion_hashes(leaf: LeafColumn, array: pa.Array | pa.ChunkedArray) -> bytes:
    """Return hashes to insert beside those of `hash_array`, so that no engine loses rows; mostly none.

    Engines hash the literal's own zero, the canonical NaN and the canonical INT96 only. So: both zeros when any
    zero occurs, the canonical NaN when any NaN does, and for an INT96 its canonical form, to the nanosecond and
    cut to microseconds, in which Spark and DuckDB read it. Raises `TypeError` as `hash_array` does.
    """
    companions = _COMPANIONS.get(leaf.physical_type)
    if leaf.logical_type is not None and leaf.logical_type.name == "FLOAT16":
        companions = _half_float_companions
    if companions is None:
        return b""
    plain = dict.fromkeys(value for chunk in _chunks(leaf, array) for value in companions(chunk))
    width = leaf.width or 1
    return _kernel.hash_fixed(b"".join(plain), width, 0, len(plain))


def _float_companions(chunk: Any) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    width = chunk.type.bit_width // 8
    if pc.any(pc.equal(chunk, pa.scalar(0.0, chunk.type))).as_py():
        yield from _zeros(width)
    if pc.any(pc.is_nan(chunk)).as_py():
        yield _pack_float("<f" if width == 4 else "<d", math.nan)


def _half_float_companions(chunk: Any) -> Iterable[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    zeros = _zeros(2)
    return zeros if pc.any(pc.is_in(chunk, pa.array(zeros, chunk.type))).as_py() else ()


def _int96_companions(chunk: Any) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    chunk = chunk.drop_null()
    if not len(chunk):
        return
    words = pa.Array.from_buffers(pa.uint32(), 3 * len(chunk), [None, chunk.buffers()[1]], offset=3 * chunk.offset)
    triples = pa.FixedSizeListArray.from_arrays(words, 3)
    low, high = (pc.list_element(triples, i).cast(pa.uint64()) for i in (0, 1))
    nanoseconds = pc.bit_wise_or(low, pc.shift_left(high, pa.scalar(32, pa.uint64())))
    whole = pc.multiply(pc.divide(nanoseconds, pa.scalar(1000, pa.uint64())), pa.scalar(1000, pa.uint64()))
    odd = pc.or_(pc.greater_equal(nanoseconds, pa.scalar(_DAY, pa.uint64())), pc.not_equal(nanoseconds, whole))
    for plain in chunk.filter(odd).unique().to_pylist():
        instant = _unpack_int96(plain)
        yield from _pack_int96(instant)
        yield from _pack_int96(instant // 1000 * 1000)


_COMPANIONS: Mapping[PhysicalType, Callable[[Any], Iterable[bytes]]] = {
    FLOAT: _float_companions,
    DOUBLE: _float_companions,
    INT96: _int96_companions,
}


# --- wrong encodings, to explain what a filter holds instead --------------------------------------------------


def mistaken_encodings(leaf: LeafColumn, plain: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield plausible wrong encodings of a stored value, each with its cause; none is `plain` itself.

    A filter that lacks a present value but holds one of these was built by a writer with that mistake.
    """
    seen = {plain}
    for cause, wrong in _mistakes(leaf, plain):
        if wrong not in seen:
            seen.add(wrong)
            yield cause, wrong


def _mistakes(leaf: LeafColumn, plain: bytes) -> Iterator[tuple[str, bytes]]:
    rule = _rule(leaf)
    value = decode_plain(leaf, plain)
    if leaf.physical_type in (BYTE_ARRAY, FIXED):
        yield "length prefix: hashed with the 4-byte length", struct.pack("<I", len(plain)) + plain
    for rules, mistakes in _MISTAKES:
        if rule in rules:
            yield from mistakes(leaf, plain, value)
    if leaf.width is not None:
        yield "byte order: hashed in reverse", plain[::-1]
    yield "text: hashed as it prints", format_value(leaf, plain).encode()


def _integer_mistakes(leaf: LeafColumn, plain: bytes, value: Any) -> Iterator[tuple[str, bytes]]:
    width = len(plain)
    for signed in (True, False):
        stored = int.from_bytes(plain, "little", signed=signed)
        for wrong in (1, 2, 4, 8):
            if wrong != width and -(1 << 8 * wrong - 1) <= stored < 1 << 8 * wrong:
                cause = f"width: hashed as {wrong} byte{'s' if wrong > 1 else ''} instead of {width}"
                yield cause, (stored % (1 << 8 * wrong)).to_bytes(wrong, "little")


def _unit_mistakes(leaf: LeafColumn, plain: bytes, value: Any) -> Iterator[tuple[str, bytes]]:
    if leaf.physical_type is INT96:
        nanoseconds = _unpack_int96(plain)
    else:
        is_date = leaf.logical_type is not None and leaf.logical_type.name == "DATE"
        nanoseconds = int.from_bytes(plain, "little", signed=True) * (_DAY if is_date else _unit(leaf))
    for name, unit in {**_NANOSECONDS, "SECONDS": _SECOND, "DAYS": _DAY}.items():
        for width in (4, 8):
            count = nanoseconds // unit
            if -(1 << 8 * width - 1) <= count < 1 << 8 * width - 1:
                yield f"unit: hashed as {width} bytes in {name}", count.to_bytes(width, "little", signed=True)
    if leaf.physical_type is not INT96:
        for wrong in _pack_int96(nanoseconds):
            yield "type: hashed as INT96", wrong


def _float_mistakes(leaf: LeafColumn, plain: bytes, value: float) -> Iterator[tuple[str, bytes]]:
    for name, form in (("FLOAT16", "<e"), ("FLOAT", "<f"), ("DOUBLE", "<d")):
        yield f"width: hashed as {name}", _pack_float(form, value)
    if value == 0:
        for zero in _zeros(len(plain)):
            yield "zero: hashed with the other sign", zero
    if math.isnan(value):
        yield "NaN: hashed as the canonical one", _pack_float(_float_format(leaf), math.nan)


def _decimal_mistakes(leaf: LeafColumn, plain: bytes, value: Decimal) -> Iterator[tuple[str, bytes]]:
    unscaled = int.from_bytes(plain, _decimal_order(leaf), signed=True)
    shortest = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    widths = dict.fromkeys((shortest, 4, 8, 16))
    for order in ("big", "little"):
        for width in widths:
            if width >= shortest:
                cause = f"width: hashed as {width} {order}-endian bytes"
                yield cause, unscaled.to_bytes(width, "big" if order == "big" else "little", signed=True)
    yield "type: hashed as DOUBLE", _pack_float("<d", float(value))
    yield "text: hashed as the unscaled integer prints", str(unscaled).encode()


def _byte_mistakes(leaf: LeafColumn, plain: bytes, value: Any) -> Iterator[tuple[str, bytes]]:
    escaped = "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02X}" for byte in plain).encode()
    yield "text: hashed escaped", escaped
    yield "text: hashed in hexadecimal", plain.hex().encode()
    yield "text: hashed in quotes", b'"' + plain + b'"'
    yield "text: hashed with a final zero", plain + b"\0"
    yield "padding: hashed without trailing spaces", plain.rstrip(b" ")
    yield "padding: hashed without trailing zeros", plain.rstrip(b"\0")
    if isinstance(value, str):
        yield "text: hashed as UTF-16", value.encode("utf-16-le")


def _uuid_mistakes(leaf: LeafColumn, plain: bytes, value: uuid.UUID) -> Iterator[tuple[str, bytes]]:
    yield "byte order: hashed with little-endian fields", value.bytes_le
    yield "text: hashed as hexadecimal digits", value.hex.encode()


_MISTAKES: tuple[tuple[tuple[_Rule, ...], Callable[[LeafColumn, bytes, Any], Iterator[tuple[str, bytes]]]], ...] = (
    ((_DATES, _TIMES, _TIMESTAMPS, _OLD_TIMESTAMPS), _unit_mistakes),
    ((_INTEGERS, _SIZED_INTEGERS, _DATES, _TIMES, _TIMESTAMPS), _integer_mistakes),
    ((_FLOATS, _HALF_FLOATS), _float_mistakes),
    ((_DECIMALS,), _decimal_mistakes),
    ((_TEXTS, _BYTES, _DOCUMENTS, _FIXED_BYTES), _byte_mistakes),
    ((_UUIDS,), _uuid_mistakes),
)
