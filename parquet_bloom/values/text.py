"""Parses values from text, as in arguments of the command line and files of keys."""

from __future__ import annotations

import re
import uuid
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cache
from zoneinfo import ZoneInfo

from parquet_bloom.errors import LiteralError
from parquet_bloom.format.schema import FIXED, LeafColumn
from parquet_bloom.values.literals import DAY, EPOCH_ORDINAL, TimeOfDay, Timestamp, clock_nanoseconds, nanoseconds_of


@cache
def zone_of(name: str) -> tzinfo:
    """Return the zone of an IANA name or of an offset such as +05:30 or UTC-3, as in Spark's sessions."""
    match = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?|Z", name)
    try:
        if match is None:
            return ZoneInfo(name)
        offset = timedelta(hours=int(match[2] or 0), minutes=int(match[3] or 0))
        return timezone(-offset if match[1] == "-" else offset)
    except (ValueError, LookupError, OSError) as error:
        raise LiteralError(
            f"the time zone {name!r} is not known; give an IANA name such as 'Europe/Paris', or an offset '+01:00'"
        ) from error


# --- text that was typed --------------------------------------------------------------------------------------


def parse_boolean(leaf: LeafColumn, text: str) -> bool:
    """Return True or False."""
    return {"true": True, "false": False}[text.lower()]


def parse_integer(leaf: LeafColumn, text: str) -> int:
    """Return a whole number."""
    return int(_full(r"[+-]?[0-9]{1,400}", text)[0])


_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?"


def parse_float(leaf: LeafColumn, text: str) -> float:
    """Return a floating-point number."""
    return float(_full(rf"{_NUMBER}|[+-]?(inf|infinity|nan)", text, re.IGNORECASE)[0])


def parse_decimal(leaf: LeafColumn, text: str) -> Decimal:
    """Return a decimal number, exactly."""
    return Decimal(_full(_NUMBER, text)[0])


def parse_text(leaf: LeafColumn, text: str) -> str:
    """Return the text itself."""
    return text


def parse_bytes(leaf: LeafColumn, text: str) -> bytes | str:
    """Return the bytes of `0x…`, or of text as UTF-8."""
    if text[:2] in ("0x", "0X"):
        return bytes.fromhex(_full("0[xX]((?:[0-9A-Fa-f]{2})*)", text)[1])
    return text.encode() if leaf.physical_type is FIXED else text


def parse_uuid(leaf: LeafColumn, text: str) -> uuid.UUID:
    """Return a UUID."""
    return uuid.UUID(text)


def parse_date(leaf: LeafColumn, text: str) -> date:
    """Return a date."""
    return date.fromisoformat(_full(r"\d{4}-\d\d-\d\d", text)[0])


_CLOCK = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"


def parse_time(leaf: LeafColumn, text: str) -> time | TimeOfDay:
    """Return a time of day."""
    return TimeOfDay(_parse_clock(*_full(_CLOCK, text).groups())).to_python()


def _parse_clock(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    clock = time(int(hour), int(minute), int(second or 0))
    return clock_nanoseconds(clock) + int((fraction or "").ljust(9, "0"))


def parse_timestamp(leaf: LeafColumn, text: str) -> date | datetime | Timestamp:
    """Return a timestamp, or a date, which means its midnight."""
    match = _full(rf"(\d{{4}}-\d\d-\d\d)(?:[T ]{_CLOCK} ?(Z|[+-]\d\d(?::?\d\d)?)?)?", text)
    day = date.fromisoformat(match[1])
    if match[2] is None:
        return day
    nanoseconds = (day.toordinal() - EPOCH_ORDINAL) * DAY + _parse_clock(*match.groups()[1:5])
    if match[6] is None:
        return Timestamp(nanoseconds).to_python()
    offset = zone_of(match[6]).utcoffset(None) or timedelta(0)
    return Timestamp(nanoseconds - nanoseconds_of(offset), utc=True).to_python()


def _full(pattern: str, text: str, flags: int = 0) -> re.Match[str]:
    match = re.fullmatch(pattern, text.strip(), flags | re.ASCII)
    if match is None:
        raise ValueError(text)
    return match
