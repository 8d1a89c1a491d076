"""Literals: values of Python, NumPy and pyarrow as the few types that columns are compared with."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, total_ordering
from typing import Any

MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000
DAY = 86_400 * SECOND
"""In nanoseconds."""

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
"""How many of a unit, as NumPy and Arrow write it, a second has."""

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


# --- values that Python's own types cannot hold ---------------------------------------------------------------


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Timestamp:
    """A point in time to the nanosecond, of any year.

    `nanoseconds` are counted from 1970-01-01T00:00, in UTC if `utc`, else in local time of an unknown zone. It can be
    compared with `Timestamp`, `datetime` and `date`, but not with and without time zone.
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
        days, rest = divmod(self.nanoseconds, DAY)
        year, month, day = _civil(days)
        return f"{year:04}-{month:02}-{day:02}T{TimeOfDay(rest)}{'Z' if self.utc else ''}"

    def to_python(self) -> datetime | Timestamp:
        """Return the same as a `datetime`, or this value if a `datetime` cannot hold it."""
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
    """A time of day in `nanoseconds` since midnight; it can be compared with `TimeOfDay` and `time`."""

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
        seconds, fraction = divmod(self.nanoseconds, SECOND)
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{text}.{fraction:09}".rstrip("0") if fraction else text

    def to_python(self) -> time | TimeOfDay:
        """Return the same as a `time`, or this value if a `time` cannot hold it."""
        microseconds, rest = divmod(self.nanoseconds, 1000)
        if rest or not 0 <= self.nanoseconds < DAY:
            return self
        return (datetime(1970, 1, 1) + timedelta(microseconds=microseconds)).time()


def _as_timestamp(value: object) -> Timestamp | None:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, datetime):
        return _from_datetime(value)
    if isinstance(value, date):
        return Timestamp((value.toordinal() - EPOCH_ORDINAL) * DAY)
    return None


def _from_datetime(value: datetime) -> Timestamp:
    days, clock = value.toordinal() - EPOCH_ORDINAL, value.time()
    nanoseconds = days * DAY + clock_nanoseconds(clock) + getattr(value, "nanosecond", 0)  # pandas has them
    offset = value.utcoffset()
    return Timestamp(nanoseconds) if offset is None else Timestamp(nanoseconds - nanoseconds_of(offset), utc=True)


def _as_time_of_day(value: object) -> TimeOfDay | None:
    if isinstance(value, TimeOfDay):
        return value
    if isinstance(value, time) and value.tzinfo is None:
        return TimeOfDay(clock_nanoseconds(value))
    return None


def clock_nanoseconds(clock: time) -> int:
    """Return the nanoseconds since midnight."""
    return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * SECOND + clock.microsecond * 1000


def nanoseconds_of(delta: timedelta) -> int:
    """Return a time difference in nanoseconds."""
    return delta // timedelta(microseconds=1) * 1000


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day; the Gregorian calendar repeats every 400 years, which are 146,097 days."""
    cycles, rest = divmod(days + EPOCH_ORDINAL - 1, 146_097)
    inside = date.fromordinal(rest + 1)
    return inside.year + 400 * cycles, inside.month, inside.day


# --- literals, by the types that engines give them --------------------------------------------------


@dataclass(frozen=True, slots=True)
class FloatLiteral:
    """A binary floating-point literal, `bits` wide.

    A column that is converted to this width keeps integers up to `integers`, and decimals of up to `digits` digits,
    different.
    """

    value: float
    bits: int = 64

    @property
    def integers(self) -> int:
        """The first integer whose neighbour becomes the same float."""
        return {64: 2**53, 32: 2**24}.get(self.bits, 0)

    @property
    def digits(self) -> int:
        """The number of decimal digits with which values stay different."""
        return {64: 15, 32: 6}.get(self.bits, 0)


@dataclass(frozen=True, slots=True)
class DecimalLiteral:
    """A decimal literal, with the scale and the digits before the point of the type that an engine gives it."""

    value: Decimal
    scale: int
    integer_digits: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class DateLiteral:
    """A calendar day of any year, in days since 1970-01-01."""

    days: int

    def __str__(self) -> str:
        return str(Timestamp(self.days * DAY)).partition("T")[0]


class Null:
    """NULL: None, NaT, what NumPy masks, or an Arrow scalar that is not valid."""


class ZonedTime:
    """A time of day with a time zone, whose offset is unknown without a date."""


def normalize_literal(value: object) -> object:
    """Return the literal as one of the types in the rules, or None if no rule has its type."""
    module = type(value).__module__.partition(".")[0]
    if value is None or (module == "pandas" and type(value).__name__ in ("NaTType", "NAType")):
        return Null()
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
    if type(value).__name__ == "MaskedConstant":
        return Null()
    if kind == "M":
        return _from_datetime64(value)
    if kind == "f":
        exact = float(value)
        return FloatLiteral(exact, 8 * value.dtype.itemsize) if exact == value or math.isnan(exact) else None
    return value.item() if kind in "biuSU" else None


def _from_datetime64(value: Any) -> object:
    if value != value:
        return Null()
    step = re.search(r"\[(\d*)(\w+)\]", value.dtype.str)
    count, unit = (int(step[1] or 1), step[2]) if step else (1, "")
    if unit in ("Y", "M", "W", "D"):
        return DateLiteral(int(value.astype("datetime64[D]").astype("int64")))
    ticks = int(value.astype("int64")) * count
    if unit in PER_SECOND:
        nanoseconds = Fraction(ticks * SECOND, PER_SECOND[unit])
    else:
        nanoseconds = Fraction(ticks * _DATETIME64_SECONDS[unit] * SECOND)
    # Finer than a nanosecond: no column and no engine has such values.
    return Timestamp(int(nanoseconds)) if nanoseconds.denominator == 1 else None


_DATETIME64_SECONDS = {"h": 3600, "m": 60}


def _from_pyarrow(value: Any) -> object:
    import pyarrow as pa

    if not isinstance(value, pa.Scalar):
        return None
    if not value.is_valid:
        return Null()
    kind = value.type
    if getattr(kind, "extension_name", None) == "arrow.uuid":
        return value.as_py()
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _from_pyarrow(value.value)
    if pa.types.is_timestamp(kind):
        return Timestamp(value.value * (SECOND // PER_SECOND[kind.unit]), utc=kind.tz is not None)
    if pa.types.is_time(kind):
        return TimeOfDay(value.value * (SECOND // PER_SECOND[kind.unit]))
    if kind == pa.date32():
        return DateLiteral(value.value)
    if kind == pa.date64():
        days, rest = divmod(value.value, DAY // MILLISECOND)
        return None if rest else DateLiteral(days)
    if pa.types.is_decimal(kind):
        return DecimalLiteral(value.as_py(), max(kind.scale, 0), kind.precision - kind.scale)
    if pa.types.is_floating(kind):
        return FloatLiteral(float(value.as_py()), kind.bit_width)
    known = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or _is_bytes(kind)
    return value.as_py() if known else None


def _is_bytes(kind: Any) -> bool:
    import pyarrow as pa

    return kind in byte_array_types() or pa.types.is_fixed_size_binary(kind)


def from_decimal(value: Decimal) -> DecimalLiteral:
    """Return the literal of a Python decimal."""
    exponent = value.as_tuple().exponent
    scale = max(-exponent, 0) if isinstance(exponent, int) else 0
    return DecimalLiteral(value, scale, max(value.adjusted() + 1, 1))


def _same(value: Any) -> Any:
    return value


# datetime before date and bool before int, their base classes.
_OWN: Mapping[type, Callable[[Any], object]] = {
    bool: _same,
    int: int,
    str: str,
    bytes: bytes,
    bytearray: bytes,
    memoryview: bytes,
    float: FloatLiteral,
    Decimal: from_decimal,
    uuid.UUID: _same,
    datetime: _from_datetime,
    date: lambda value: DateLiteral(value.toordinal() - EPOCH_ORDINAL),
    time: lambda value: _as_time_of_day(value) or ZonedTime(),
    **dict.fromkeys((FloatLiteral, DecimalLiteral, DateLiteral, Null, Timestamp, TimeOfDay), _same),
}
_FOREIGN: Mapping[str, Callable[[Any], object]] = {"numpy": _from_numpy, "pyarrow": _from_pyarrow}


@cache
def byte_array_types() -> tuple[Any, ...]:
    """Return Arrow's types of binary values."""
    import pyarrow as pa

    return (
        *(pa.binary(), pa.large_binary(), pa.binary_view()),
        *(pa.string(), pa.large_string(), pa.string_view()),
    )
