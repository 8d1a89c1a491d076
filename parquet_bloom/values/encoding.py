"""The one place that turns a literal into plain-encoded bytes and then into hashes.

A filter contains the XXH64 hash, seed 0, of each value's plain encoding ("Plain" in the format's Encodings.md);
a BYTE_ARRAY is hashed without its length. So one table is the base of everything: physical type x logical type
-> plain bytes. It is `_RULES` below:

    physical type            plain bytes of one value
    INT32, INT64             4 or 8 bytes, little-endian two's complement, unsigned values too
    FLOAT, DOUBLE            4 or 8 bytes, IEEE 754, little-endian
    INT96                    8 bytes nanoseconds of the day, 4 bytes Julian day, both little-endian
    BYTE_ARRAY               the bytes
    FIXED_LEN_BYTE_ARRAY     the bytes, always type_length of them

    logical type             what is stored
    INTEGER of any width     the integer, in the physical type's width
    DECIMAL                  the unscaled integer; in byte arrays big-endian two's complement, in BYTE_ARRAY of
                             any width that the writer chose, so filters on it prove nothing (Spark and
                             DuckDB read empty bytes as 0)
    DATE                     days since 1970-01-01
    TIME, TIMESTAMP          units since midnight, or since 1970-01-01T00:00 (UTC, or the wall clock's)
    STRING, ENUM, JSON       UTF-8
    UUID                     16 bytes, big-endian
    FLOAT16                  IEEE 754 half precision, little-endian

A literal is not one value. Engines convert before they compare: the literal to the column's type (`f = 0.1` on
FLOAT in DuckDB), the column to the literal's type (the same in Spark), or both to a third. `encode_literal` therefore
returns every encoding that Spark, DuckDB, DataFusion or ClickHouse may treat as equal. If a conversion maps many
stored values to one, or the answer depends on a session, it returns a reason and no encodings: then a filter proves
nothing.
"""

from __future__ import annotations

import contextlib
import math
import re
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any

import xxhash

from parquet_bloom.errors import CorruptFileError, LiteralError
from parquet_bloom.format.schema import (
    BOOLEAN,
    BYTE_ARRAY,
    DOUBLE,
    FIXED,
    FLOAT,
    INT32,
    INT64,
    INT96,
    LeafColumn,
    PhysicalType,
)
from parquet_bloom.values.interchange import python_value
from parquet_bloom.values.literals import (
    DAY,
    EPOCH_ORDINAL,
    MICROSECOND,
    MILLISECOND,
    SECOND,
    DateLiteral,
    DecimalLiteral,
    FloatLiteral,
    Null,
    TimeOfDay,
    Timestamp,
    ZonedTime,
    from_decimal,
    nanoseconds_of,
    normalize_literal,
)
from parquet_bloom.values.text import (
    parse_boolean,
    parse_bytes,
    parse_date,
    parse_decimal,
    parse_float,
    parse_integer,
    parse_text,
    parse_time,
    parse_timestamp,
    parse_uuid,
    zone_of,
)

NANOSECONDS = {"MILLIS": MILLISECOND, "MICROS": MICROSECOND, "NANOS": 1}
EPOCH_JULIAN_DAY = 2_440_588
DECIMAL_DIGITS = 38  # what Spark and DuckDB hold; beyond, they round, or compare as DOUBLE
ALIKE_DIGITS = 28  # a DECIMAL of fewer may be read with as many, beside another file that has them
_MAX_DECIMAL_BYTES = 32  # 76 digits, the most that any engine writes

GREGORIAN_FROM = date(1582, 10, 15).toordinal() - EPOCH_ORDINAL
"""The first day, counted from 1970, of the calendar that engines agree on."""

ZONES_AGREED_FROM = (date(1900, 1, 1).toordinal() - EPOCH_ORDINAL) * DAY
"""The first instant, in nanoseconds since 1970, for which engines agree on the offset of a time zone."""

_REBASED = "Spark shifts dates before 1582-10-15 and instants before 1900 in files of its older versions"


class _Unprovable(Exception):
    """A filter proves nothing for this literal; the message is the reason."""


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
        raise _Unprovable("DuckDB reduces an integer of more than 128 bits modulo 2^128")
    least, most = _integer_range(leaf)
    if least <= value <= most:
        width = leaf.width or 0
        yield (value % (1 << 8 * width)).to_bytes(width, "little")


def _integer_from_float(leaf: LeafColumn, literal: FloatLiteral) -> Iterator[bytes]:
    # Spark, DuckDB and DataFusion convert the column to the literal's type, in which large integers become equal.
    least, most = _integer_range(leaf)
    if max(-least, most) > literal.integers and not abs(literal.value) < literal.integers:
        raise _Unprovable(
            f"engines compare {leaf.type_name} with {literal.value!r} as floats, which are not exact for such values"
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


def float_format(leaf: LeafColumn) -> str:
    """Return the `struct` format of a column's floats."""
    return {8: "<d", 4: "<f", 2: "<e"}[leaf.width or 0]


def _float(leaf: LeafColumn, literal: FloatLiteral) -> Iterator[bytes]:
    # Either the column is widened, which keeps values different, or the literal is narrowed, perhaps in two steps.
    narrowed = struct.unpack("<f", pack_float("<f", literal.value))[0] if leaf.width == 2 else literal.value
    for value in (literal.value, narrowed):
        plain = pack_float(float_format(leaf), value)
        yield plain
        if not any(plain[:-1]) and plain[-1] in (0x00, 0x80):
            yield from both_zeros(len(plain))


def both_zeros(width: int) -> tuple[bytes, bytes]:
    """Return the encodings of both zeros."""
    return bytes(width), bytes(width - 1) + b"\x80"


def pack_float(form: str, value: float) -> bytes:
    """Return the bytes of the float that is nearest to a number, or of an infinity if it is too large."""
    try:
        return struct.pack(form, value)
    except OverflowError:
        return struct.pack(form, math.copysign(math.inf, value))


def _float_from_integer(leaf: LeafColumn, value: int) -> Iterator[bytes]:
    if not -(2**63) <= value < 2**64 or int(float(value)) != value:
        raise _Unprovable(f"{_short(value)} has no exact float, and engines round it differently")
    yield from _float(leaf, FloatLiteral(float(value)))


def _float_from_decimal(leaf: LeafColumn, literal: DecimalLiteral) -> Iterator[bytes]:
    raise _Unprovable("DataFusion rounds the column to compare it with a DECIMAL literal")


def _decode_float(leaf: LeafColumn, plain: bytes) -> float:
    value: float = struct.unpack(float_format(leaf), plain)[0]
    return value


# --- decimals -------------------------------------------------------------------------------------------------


def _precision_and_scale(leaf: LeafColumn) -> tuple[int, int]:
    logical = leaf.logical_type
    assert logical is not None  # the rule is for DECIMAL only
    return logical.precision, logical.scale


def _require_common_decimal(integer_digits: int, scale: int, literal: DecimalLiteral) -> None:
    """Raise `_Unprovable` if no common type of 38 digits exists: then engines round the column, the literal or both."""
    if not literal.value.is_finite():
        raise _Unprovable(f"{literal.value} is not a decimal number")
    if max(integer_digits, literal.integer_digits) + max(scale, literal.scale) > DECIMAL_DIGITS:
        raise _Unprovable(f"column and literal do not fit one DECIMAL of {DECIMAL_DIGITS} digits, so engines round")


def integer_digits(leaf: LeafColumn) -> int:
    """Return how many digits before the point a DECIMAL column may be read with."""
    precision, scale = _precision_and_scale(leaf)
    return max(precision, ALIKE_DIGITS) - scale


def _decimal(leaf: LeafColumn, literal: DecimalLiteral) -> Iterator[bytes]:
    _, scale = _precision_and_scale(leaf)
    _require_common_decimal(integer_digits(leaf), scale, literal)
    unscaled = Fraction(literal.value) * 10**scale
    if unscaled.denominator == 1:
        yield from _unscaled(leaf, int(unscaled))


def _decimal_from_integer(leaf: LeafColumn, value: int) -> Iterator[bytes]:
    if abs(value) >= 10**DECIMAL_DIGITS:
        raise _Unprovable(f"the literal has more than {DECIMAL_DIGITS} digits")
    yield from _decimal(leaf, from_decimal(Decimal(value)))


def _decimal_from_float(leaf: LeafColumn, literal: FloatLiteral) -> Iterator[bytes]:
    precision, scale = _precision_and_scale(leaf)
    if precision > literal.digits:
        raise _Unprovable(
            f"engines compare {leaf.type_name} with a {literal.bits}-bit float as floats, "
            "which are not exact for such values"
        )
    if math.isfinite(literal.value):
        # Values of so few digits are further apart than floats: only a neighbour can become the same float.
        exact = Fraction(literal.value) * 10**scale
        yield from _unscaled(leaf, math.floor(exact))
        yield from _unscaled(leaf, math.ceil(exact))


def _unscaled(leaf: LeafColumn, value: int) -> Iterator[bytes]:
    """Yield the bytes that store the unscaled integer, in BYTE_ARRAY the shortest; nothing if it does not fit."""
    shortest = (value if value >= 0 else ~value).bit_length() // 8 + 1
    width = shortest if leaf.width is None else leaf.width
    if shortest <= width:
        yield value.to_bytes(width, decimal_order(leaf), signed=True)


def decimal_order(leaf: LeafColumn) -> Any:
    """Return the byte order of a column's unscaled integers."""
    return "little" if leaf.physical_type in (INT32, INT64) else "big"


def _decode_decimal(leaf: LeafColumn, plain: bytes) -> Decimal:
    unscaled = int.from_bytes(plain, decimal_order(leaf), signed=True)
    if unscaled.bit_length() >= 8 * _MAX_DECIMAL_BYTES:  # of the value, however many bytes repeat its sign
        raise CorruptFileError(f"column {leaf.name}: a DECIMAL of {len(plain)} bytes")
    return Decimal(f"{unscaled}E-{_precision_and_scale(leaf)[1]}")  # exact: the constructor never rounds


# --- bytes ----------------------------------------------------------------------------------------------------


def _raw(leaf: LeafColumn, value: bytes) -> Iterator[bytes]:
    yield value


def _text(leaf: LeafColumn, value: str) -> Iterator[bytes]:
    try:
        yield value.encode()
    except UnicodeEncodeError as error:
        raise LiteralError(
            f"column {leaf.name} is {leaf.type_name}; {value!r} is not text: it has half of a surrogate pair"
        ) from error


def _text_for_bytes(leaf: LeafColumn, value: str) -> Iterator[bytes]:
    for plain in _text(leaf, value):
        yield plain
        # In text that it compares with bytes, DuckDB reads \xAA as one byte.
        yield re.sub(rb"\\x([0-9A-Fa-f]{2})", lambda match: bytes.fromhex(match[1].decode()), plain)


def _fixed(leaf: LeafColumn, value: bytes) -> Iterator[bytes]:
    # ClickHouse compares FixedString as if both sides were padded with zeros.
    width = leaf.width or 0
    padded = value.rstrip(b"\0").ljust(width, b"\0")
    if len(padded) == width:
        yield padded


def _bytes_of_uuid(leaf: LeafColumn, value: uuid.UUID) -> Iterator[bytes]:
    if leaf.width not in (None, 16):
        raise _incomparable(leaf, value)
    yield value.bytes


def _uuid_bytes(leaf: LeafColumn, value: bytes) -> Iterator[bytes]:
    if len(value) != 16:
        raise _incomparable(leaf, value)
    yield value


def _uuid_text(leaf: LeafColumn, value: str) -> Iterator[bytes]:
    try:
        yield parse_uuid(leaf, value).bytes
    except ValueError:
        raise _incomparable(leaf, value) from None


def _decode_bytes(leaf: LeafColumn, plain: bytes) -> bytes:
    return plain


def _decode_text(leaf: LeafColumn, plain: bytes) -> str | bytes:
    try:
        return plain.decode()
    except UnicodeDecodeError:
        return plain


# --- dates and times ------------------------------------------------------------------------------------------


def _date(leaf: LeafColumn, literal: DateLiteral) -> Iterator[bytes]:
    if literal.days < GREGORIAN_FROM and not is_never_rebased(leaf):
        raise _Unprovable(_REBASED)
    yield from _integer(leaf, literal.days)


def is_never_rebased(leaf: LeafColumn) -> bool:
    """Return whether days before 1582-10-15 mean the same to every reader, because of the writer."""
    return leaf.logical_type is not None and leaf.logical_type.is_proleptic


def _date_from_timestamp(leaf: LeafColumn, literal: Timestamp) -> Iterator[bytes]:
    if literal.utc:
        raise _Unprovable("the day of a zoned timestamp depends on the session's time zone")
    yield from _date(leaf, DateLiteral(literal.nanoseconds // DAY))


def _decode_date(leaf: LeafColumn, plain: bytes) -> date | Timestamp:
    days = _decode_integer(leaf, plain)
    if 1 <= days + EPOCH_ORDINAL <= date.max.toordinal():
        return date.fromordinal(days + EPOCH_ORDINAL)
    return Timestamp(days * DAY)


def unit_of(leaf: LeafColumn) -> int:
    """Return the nanoseconds in one unit of a TIME or TIMESTAMP column."""
    assert leaf.logical_type is not None  # the rules are for TIME and TIMESTAMP only
    return NANOSECONDS[leaf.logical_type.unit or ""]


def _in_units(leaf: LeafColumn, nanoseconds: int) -> Iterator[bytes]:
    # Engines truncate a literal to the column's unit, or to microseconds, the finest unit that most of them have. The
    # neighbours on both sides cover any rounding.
    unit = unit_of(leaf)
    microsecond = nanoseconds // 1000 * 1000
    readings = (nanoseconds, microsecond, microsecond + 1000) if nanoseconds % 1000 else (nanoseconds,)
    for reading in readings:
        count, rest = divmod(reading, unit)
        for units in (count, count + 1) if rest else (count,):
            yield from _integer(leaf, units)


def _time(leaf: LeafColumn, literal: TimeOfDay) -> Iterator[bytes]:
    yield from _in_units(leaf, literal.nanoseconds)


def _zoned_time(leaf: LeafColumn, literal: ZonedTime) -> Iterator[bytes]:
    raise _Unprovable("engines compare a time of day with a time zone differently")


def _decode_time(leaf: LeafColumn, plain: bytes) -> time | TimeOfDay:
    return TimeOfDay(_decode_integer(leaf, plain) * unit_of(leaf)).to_python()


def _timestamp(leaf: LeafColumn, literal: Timestamp, zone: tzinfo | None) -> Iterator[bytes]:
    if not is_adjusted(leaf):
        if literal.utc:
            raise _Unprovable("a zoned timestamp on a column without zone depends on the session's time zone")
        yield from _in_units(leaf, literal.nanoseconds)
        return
    for instant in _instants(literal, zone):
        yield from _in_units(leaf, instant)
    if not literal.utc and unit_of(leaf) == 1:
        yield from _in_units(leaf, literal.nanoseconds)  # with nanoseconds, DuckDB also reads local times as UTC


def is_adjusted(leaf: LeafColumn) -> bool:
    """Return whether a TIMESTAMP column holds instants, and not local times."""
    return leaf.logical_type is not None and leaf.logical_type.is_adjusted_to_utc


def _instants(literal: Timestamp, zone: tzinfo | None) -> list[int]:
    """Return the instants that the literal may mean, in nanoseconds: two if clocks are put back or forward then."""
    if literal.utc:
        instants = [literal.nanoseconds]
    elif zone is None:
        raise _Unprovable("the column holds instants, and which one a time without zone means depends on timezone=")
    else:
        instants = [literal.nanoseconds - _offset(literal, zone, fold) for fold in (0, 1)]
    if min(instants) < ZONES_AGREED_FROM:
        raise _Unprovable(_REBASED)
    return instants


def instant_of(literal: Timestamp, zone: tzinfo) -> Timestamp:
    """Return the instant of a local time, as Java has it: the first if clocks are put back then, shifted if forward.

    Raises `LiteralError` if the zone's offset is not known.
    """
    try:
        return Timestamp(literal.nanoseconds - _offset(literal, zone, 0), utc=True)
    except _Unprovable as unknown:
        raise LiteralError(str(unknown)) from None


def local_times(literal: Timestamp, zone: tzinfo) -> tuple[Timestamp, ...]:
    """Return the local times that span all that Java has for an instant, or for that of a local time.

    They are more than one near a change of clocks: two local times become the same instant where clocks are put
    forward, and some instants are that of no local time where they are put back. Raises `LiteralError` if the zone's
    offsets are not known.
    """
    if (fixed := zone.utcoffset(None)) is not None:
        return (Timestamp(literal.nanoseconds + nanoseconds_of(fixed)) if literal.utc else literal,)
    try:
        instants = _instants(literal, zone)
        offsets = {_offset_at(instant + near, zone) for instant in instants for near in (-DAY, 0, DAY)}
    except (_Unprovable, OverflowError):
        raise LiteralError(f"the offsets of {zone} near {literal} are not known") from None
    return tuple(Timestamp(nanoseconds) for nanoseconds in sorted({i + o for i in instants for o in offsets}))


def _offset_at(instant: int, zone: tzinfo) -> int:
    wall = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=instant // SECOND)
    return nanoseconds_of(wall.astimezone(zone).utcoffset() or timedelta(0))


def _offset(literal: Timestamp, zone: tzinfo, fold: int) -> int:
    wall = Timestamp(literal.nanoseconds // SECOND * SECOND).to_python()
    offset = wall.replace(tzinfo=zone, fold=fold).utcoffset() if isinstance(wall, datetime) else None
    if offset is None:
        raise _Unprovable(f"the offset of {zone} at {literal} is not known")
    return nanoseconds_of(offset)


def _timestamp_from_date(leaf: LeafColumn, literal: DateLiteral, zone: tzinfo | None) -> Iterator[bytes]:
    yield from _timestamp(leaf, Timestamp(literal.days * DAY), zone)


def _decode_timestamp(leaf: LeafColumn, plain: bytes) -> datetime | Timestamp:
    return Timestamp(_decode_integer(leaf, plain) * unit_of(leaf), is_adjusted(leaf)).to_python()


def _int96(leaf: LeafColumn, literal: Timestamp, zone: tzinfo | None) -> Iterator[bytes]:
    # Spark reads INT96 as an instant, other engines as local time; so one literal has both readings.
    if zone is None:
        raise _Unprovable("engines differ on whether INT96 is UTC or local time, so a time needs timezone=")
    readings = [literal.nanoseconds, *_instants(literal, zone)]
    if literal.utc:
        wall = Timestamp(literal.nanoseconds // SECOND * SECOND, utc=True).to_python()
        if not isinstance(wall, datetime):
            raise _Unprovable(f"the offset of {zone} at {literal} is not known")
        offset = nanoseconds_of(wall.astimezone(zone).utcoffset() or timedelta(0))
        readings.append(literal.nanoseconds + offset)
    for nanoseconds in readings:
        yield from pack_int96(nanoseconds)
        yield from pack_int96(nanoseconds // 1000 * 1000)  # Spark and DuckDB read it in microseconds


def _int96_from_date(leaf: LeafColumn, literal: DateLiteral, zone: tzinfo | None) -> Iterator[bytes]:
    yield from _int96(leaf, Timestamp(literal.days * DAY), zone)


def pack_int96(nanoseconds: int) -> Iterator[bytes]:
    """Yield the 12 bytes of an INT96: nanoseconds of the day, then the Julian day; nothing if it does not fit."""
    days, rest = divmod(nanoseconds, DAY)
    if -(2**31) <= days + EPOCH_JULIAN_DAY < 2**31:
        yield struct.pack("<qi", rest, days + EPOCH_JULIAN_DAY)


def unpack_int96(plain: bytes) -> int:
    """Return the nanoseconds since 1970 of an INT96."""
    nanoseconds, day = struct.unpack("<qi", plain)
    return int((day - EPOCH_JULIAN_DAY) * DAY + nanoseconds)


def _decode_int96(leaf: LeafColumn, plain: bytes) -> datetime | Timestamp:
    return Timestamp(unpack_int96(plain)).to_python()


# --- the table ------------------------------------------------------------------------------------------------

Encoder = Callable[..., Iterator[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the values of one kind of column are encoded, decoded and parsed.

    `plural` is a name for the values. `encode` maps each type of literal that can be compared to a function that yields
    its encodings, from leaf and literal and, if `zoned`, the session's time zone. `example` is a literal in Python,
    `typed` one on a command line. `holds` tells whether the leaf's type is valid.
    """

    plural: str
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
    return unit in NANOSECONDS and (unit == "MILLIS" or leaf.physical_type is INT64)


def _bits_fit(leaf: LeafColumn) -> bool:
    return _bits(leaf)[0] in {4: (8, 16, 32), 8: (64,)}[leaf.width or 0]


_BOOLEANS = Rule(
    plural="booleans",
    encode={bool: lambda leaf, value: iter([b"\x01" if value else b"\x00"])},
    decode=lambda leaf, plain: plain != b"\0",
    parse=parse_boolean,
    example="a bool such as True",
    typed="true",
)
INTEGERS = Rule(
    plural="{bits}-bit integers",
    encode={int: _integer, FloatLiteral: _integer_from_float, DecimalLiteral: _integer_from_decimal},
    decode=_decode_integer,
    parse=parse_integer,
    example="an int such as 42",
    typed="42",
)
SIZED_INTEGERS = Rule(
    plural="{sign}{sized}-bit integers",
    encode=INTEGERS.encode,
    decode=_decode_integer,
    parse=parse_integer,
    example=INTEGERS.example,
    typed=INTEGERS.typed,
    holds=_bits_fit,
)
FLOATS = Rule(
    plural="{bits}-bit floats",
    encode={FloatLiteral: _float, int: _float_from_integer, DecimalLiteral: _float_from_decimal},
    decode=_decode_float,
    parse=parse_float,
    example="a float such as 1.5",
    typed="1.5",
)
HALF_FLOATS = Rule(
    plural=FLOATS.plural,
    encode=FLOATS.encode,
    decode=_decode_float,
    parse=parse_float,
    example=FLOATS.example,
    typed=FLOATS.typed,
    holds=lambda leaf: leaf.width == 2,
)
DECIMALS = Rule(
    plural="decimals of up to {precision} digits, {scale} of them after the point",
    encode={DecimalLiteral: _decimal, int: _decimal_from_integer, FloatLiteral: _decimal_from_float},
    decode=_decode_decimal,
    parse=parse_decimal,
    example="a decimal.Decimal such as Decimal('1.50')",
    typed="1.50",
    holds=_decimal_fits,
)
TEXTS = Rule(
    plural="texts",
    encode={str: _text, bytes: _raw},
    decode=_decode_text,
    parse=parse_text,
    example="a str such as 'abc'",
    typed="abc",
)
BYTES = Rule(
    plural="byte strings",
    encode={bytes: _raw, str: _text_for_bytes, uuid.UUID: _bytes_of_uuid},
    decode=_decode_bytes,
    parse=parse_bytes,
    example="bytes such as b'abc'",
    typed="abc or 0x616263",
)
DOCUMENTS = Rule(
    plural="documents",
    encode={bytes: _raw},
    decode=_decode_bytes,
    parse=parse_bytes,
    example="bytes such as b'abc'",
    typed="0x616263",
)
FIXED_BYTES = Rule(
    plural="byte strings of {width} bytes",
    encode={bytes: _fixed, uuid.UUID: _bytes_of_uuid},
    decode=_decode_bytes,
    parse=parse_bytes,
    example="bytes such as b'abc'",
    typed="0x616263",
)
UUIDS = Rule(
    plural="UUIDs",
    encode={uuid.UUID: _bytes_of_uuid, bytes: _uuid_bytes, str: _uuid_text},  # as text DuckDB hands them out
    decode=lambda leaf, plain: uuid.UUID(bytes=plain),
    parse=parse_uuid,
    example="a uuid.UUID, its text, or its 16 bytes",
    typed="01234567-89ab-cdef-0123-456789abcdef",
    holds=lambda leaf: leaf.width == 16,
)
DATES = Rule(
    plural="dates",
    encode={DateLiteral: _date, Timestamp: _date_from_timestamp},
    decode=_decode_date,
    parse=parse_date,
    example="a datetime.date such as date(2024, 2, 3)",
    typed="2024-02-03",
)
TIMES = Rule(
    plural="times",
    encode={TimeOfDay: _time, ZonedTime: _zoned_time},
    decode=_decode_time,
    parse=parse_time,
    example="a datetime.time such as time(12, 30)",
    typed="12:30:00.5",
    holds=_unit_fits,
)
TIMESTAMPS = Rule(
    plural="timestamps",
    encode={Timestamp: _timestamp, DateLiteral: _timestamp_from_date},
    decode=_decode_timestamp,
    parse=parse_timestamp,
    example="a datetime such as datetime(2024, 2, 3, 12, 30)",
    typed="2024-02-03T12:30:00Z",
    holds=_unit_fits,
    zoned=True,
)
OLD_TIMESTAMPS = Rule(
    plural=TIMESTAMPS.plural,
    encode={Timestamp: _int96, DateLiteral: _int96_from_date},
    decode=_decode_int96,
    parse=parse_timestamp,
    example=TIMESTAMPS.example,
    typed=TIMESTAMPS.typed,
    zoned=True,
)

_RULES: Mapping[tuple[PhysicalType, str | None], Rule] = {
    (BOOLEAN, None): _BOOLEANS,
    (INT32, None): INTEGERS,
    (INT32, "INTEGER"): SIZED_INTEGERS,
    (INT32, "DECIMAL"): DECIMALS,
    (INT32, "DATE"): DATES,
    (INT32, "TIME"): TIMES,
    (INT64, None): INTEGERS,
    (INT64, "INTEGER"): SIZED_INTEGERS,
    (INT64, "DECIMAL"): DECIMALS,
    (INT64, "TIME"): TIMES,
    (INT64, "TIMESTAMP"): TIMESTAMPS,
    (INT96, None): OLD_TIMESTAMPS,
    (FLOAT, None): FLOATS,
    (DOUBLE, None): FLOATS,
    (BYTE_ARRAY, None): BYTES,
    (BYTE_ARRAY, "STRING"): TEXTS,
    (BYTE_ARRAY, "ENUM"): TEXTS,
    (BYTE_ARRAY, "JSON"): TEXTS,
    (BYTE_ARRAY, "BSON"): DOCUMENTS,
    (BYTE_ARRAY, "DECIMAL"): DECIMALS,
    (FIXED, None): FIXED_BYTES,
    (FIXED, "DECIMAL"): DECIMALS,
    (FIXED, "UUID"): UUIDS,
    (FIXED, "FLOAT16"): HALF_FLOATS,
}

_UNTRUSTED = {
    "INTERVAL": "equal intervals are stored in different ways",
    "UNKNOWN": "the column's type says that it holds nulls only",
    "VARIANT": "equal variants are stored in different ways",
    "GEOMETRY": "equal geometries are stored in different ways",
    "GEOGRAPHY": "equal geometries are stored in different ways",
    "UNKNOWN_TO_US": "the column's logical type is newer than this version of parquet-bloom",
}


def why_untrusted(leaf: LeafColumn) -> str | None:
    """Return why a filter on this leaf must never prune, or None if its type can be trusted."""
    logical = leaf.logical_type.name if leaf.logical_type else None
    if leaf.physical_type is BOOLEAN:
        return "parquet-java writes empty BOOLEAN filters"
    if logical in _UNTRUSTED:
        return _UNTRUSTED[logical]
    rule = _RULES.get((leaf.physical_type, logical))
    if rule is None or not rule.holds(leaf):
        return f"{leaf.type_name} is not a type that the format defines"
    return None


def why_uncountable(leaf: LeafColumn) -> str | None:
    """Return why equal values of this leaf may have any number of hashes, so that no filter can prune; or None."""
    is_decimal = leaf.logical_type is not None and leaf.logical_type.name == "DECIMAL"
    if leaf.physical_type is BYTE_ARRAY and is_decimal:
        return "a DECIMAL in BYTE_ARRAY may be stored in any number of bytes, so a filter cannot exclude it"
    return None


def why_unbuildable(leaf: LeafColumn) -> str | None:
    """Return why no filter must be built for this leaf, or None if one may be built."""
    if leaf.physical_type is BOOLEAN:
        return "a filter on two values is useless, and engines ignore BOOLEAN filters"
    logical = leaf.logical_type
    if logical is not None and logical.name == "FLOAT16":
        return "DuckDB hashes FLOAT16 as FLOAT, and would find no rows at all"
    if logical is not None and logical.name == "DECIMAL" and logical.precision > DECIMAL_DIGITS:
        return f"DuckDB reads decimals of over {DECIMAL_DIGITS} digits as DOUBLE, and would find no rows at all"
    return why_untrusted(leaf)


# --- literals -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Encodings:
    """Every plain encoding under which a value equal to a literal may be stored.

    No encodings and no `reason` prove that no value of the column equals it. A `reason` says why nothing can
    be proved: the answer is MIGHT_MATCH. With a reason there is one encoding per value, although more exist: it can be
    compared with statistics, but not looked up in a filter.
    """

    plain: tuple[bytes, ...]
    reason: str | None = None

    def hashes(self) -> tuple[int, ...]:
        """Return the hash of each encoding, in their order."""
        return tuple(map(hash_plain, self.plain))


def encode_literal(leaf: LeafColumn, value: object, *, timezone: str | None = None) -> Encodings:
    """Return the encodings of every stored value that Spark, DuckDB, DataFusion or ClickHouse treats as equal.

    A DECIMAL in BYTE_ARRAY has unlimited encodings, so the result has a reason there.

    `value` is a Python value, a NumPy or Arrow scalar or a pandas timestamp. `timezone` is the session's time zone,
    an IANA name or an offset; without it a literal without time zone proves nothing on a UTC-adjusted column.
    Raises `LiteralError` if the value cannot be compared with the column. Text is converted to UUIDs only.

    >>> leaf = LeafColumn(("user", "id"), 0, PhysicalType.INT64, None, None, ())
    >>> encode_literal(leaf, 42)
    Encodings(plain=(b'*\\x00\\x00\\x00\\x00\\x00\\x00\\x00',), reason=None)
    >>> encode_literal(leaf, 0.5)
    Encodings(plain=(), reason=None)
    """
    zone = zone_of(timezone) if timezone is not None else None
    reason = why_untrusted(leaf)
    if reason is not None and leaf.physical_type is not BOOLEAN:
        return Encodings((), reason)  # it is also unknown which literals can be compared with an unknown type
    try:
        plain = tuple(dict.fromkeys(_encodings(leaf, value, zone)))
        return Encodings(plain, reason or (why_uncountable(leaf) if plain else None))
    except _Unprovable as unprovable:
        return Encodings((), str(unprovable))


def _encodings(leaf: LeafColumn, value: object, zone: tzinfo | None) -> Iterator[bytes]:
    rule, literal = rule_of(leaf), normalize_literal(value)
    if isinstance(literal, Null):
        raise _Unprovable("NULL")
    encode = rule.encode.get(type(literal))
    if encode is None:
        raise _incomparable(leaf, value)
    if isinstance(literal, FloatLiteral) and math.isnan(literal.value):
        raise _Unprovable("NaN")
    return encode(leaf, literal, zone) if rule.zoned else encode(leaf, literal)


def rule_of(leaf: LeafColumn) -> Rule:
    """Return the leaf's rule; if its logical type is not understood, the rule of its physical type."""
    logical = leaf.logical_type.name if leaf.logical_type else None
    rule = _RULES.get((leaf.physical_type, logical))
    return rule if rule is not None and rule.holds(leaf) else _RULES[leaf.physical_type, None]


def _incomparable(leaf: LeafColumn, value: object) -> LiteralError:
    if hasattr(value, "as_py"):
        with contextlib.suppress(ArithmeticError, ValueError):  # dates before year 1, for example
            value = value.as_py()
    if isinstance(value, DecimalLiteral | FloatLiteral):  # of a list, whose literals have one type
        value = value.value
    return LiteralError(
        f"column {leaf.name} is {leaf.type_name}; {_short(value)} ({type(value).__name__}) cannot be compared "
        f"with it; give {rule_of(leaf).example}"
    )


def literal_text(value: object, form: Callable[[object], str] = str) -> str:
    """Return a literal as text, also if its own `str` fails, as for an Arrow date before year 1."""
    try:
        return form(python_value(value) if hasattr(value, "as_py") else value)
    except (ArithmeticError, ValueError):  # ArrowInvalid among them
        literal = normalize_literal(value)
    if isinstance(literal, Timestamp | TimeOfDay | DateLiteral):
        return str(literal)
    return "the literal"  # an int with too many digits to print


def _short(value: object) -> str:
    text = literal_text(value, repr)
    return text if len(text) <= 60 else text[:59] + "…"


def _plural(leaf: LeafColumn) -> str:
    """Return a name for the leaf's values."""
    logical = leaf.logical_type
    return rule_of(leaf).plural.format(
        width=leaf.width,
        bits=8 * (leaf.width or 0),
        sized=logical and logical.bit_width,
        sign="" if logical is None or logical.is_signed else "unsigned ",
        precision=logical and logical.precision,
        scale=logical and logical.scale,
    )


def parse_literal(leaf: LeafColumn, text: str) -> object:
    """Return the literal that `text`, as typed on a command line, means for this column.

    On columns of bytes, `0x…` is bytes; on columns of text, text is not changed. Values with nanoseconds are
    `Timestamp` or `TimeOfDay`. Raises `LiteralError` with an example if the text does not have the column's type.
    """
    rule = rule_of(leaf)
    try:
        return rule.parse(leaf, text)
    except (ValueError, LookupError, ArithmeticError) as error:
        raise LiteralError(
            f"column {leaf.name} holds {_plural(leaf)}; {_short(text)} is not one (example: {rule.typed})"
        ) from error


# --- stored values, to show and to compare --------------------------------------------------------------------


def plain_width(leaf: LeafColumn) -> int | None:
    """Return the bytes of a value's plain encoding when it stands alone, None where they vary."""
    return 1 if leaf.physical_type is BOOLEAN else leaf.width


def decode_plain(leaf: LeafColumn, plain: bytes) -> object:
    """Return the Python value of a plain encoding, exactly.

    It is a `Timestamp` or `TimeOfDay` if `datetime`, `date` or `time` cannot hold it, and bytes if text is not UTF-8.
    Raises `CorruptFileError` if the bytes have the wrong length.
    """
    width = plain_width(leaf)
    if width is not None and len(plain) != width:
        raise CorruptFileError(f"column {leaf.name}: a value of {leaf.type_name} has {len(plain)} bytes")
    return rule_of(leaf).decode(leaf, plain)


def format_value(leaf: LeafColumn, plain: bytes) -> str:
    """Return a plain encoding as readable text, in at most 60 characters and on one line."""
    try:
        value = decode_plain(leaf, plain)
    except CorruptFileError:
        value = plain
    text = _format_float(leaf, value) if isinstance(value, float) else _FORMATS.get(type(value), str)(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _format_float(leaf: LeafColumn, value: float) -> str:
    """Return the shortest text that gives the same float of the column's width."""
    form = float_format(leaf)
    if form == "<d" or not math.isfinite(value):
        return repr(value)
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    shortest = next(text for text in texts if pack_float(form, float(text)) == pack_float(form, value))
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


def hash_plain(plain: bytes) -> int:
    """Return the hash of a plain-encoded value."""
    return xxhash.xxh64_intdigest(plain)


def most_hashes(leaf: LeafColumn, num_values: int) -> int:
    """Return how many distinct hashes this many distinct values have at most, with their companions."""
    if leaf.physical_type is INT96:
        return 4 * num_values  # as stored, to the nanosecond, and truncated to microseconds in two ways
    is_float = leaf.physical_type in (FLOAT, DOUBLE) or (leaf.logical_type and leaf.logical_type.name == "FLOAT16")
    return num_values + 2 if is_float and num_values else num_values  # the other zero, and the canonical NaN
