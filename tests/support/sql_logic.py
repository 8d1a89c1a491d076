"""What SQL says of a row, in plain Python: three-valued logic over a tree of comparisons.

Numbers of different types are compared in more than one way by engines: exactly, as doubles, or with the literal
rounded to FLOAT; and an hour that a zone has twice is either of them. Whatever a row is under one of these readings,
it must be found. NaN is equal to itself and above all others, as in Spark and DuckDB, or as in IEEE 754 differs from
every number and itself; texts are ordered by their UTF-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from parquet_bloom.predicates.tree import And, Comparison, In, IsNull, Listed, Not, Or, Predicate

EPOCH = datetime(1970, 1, 1)


class Reading(NamedTuple):
    """How an engine makes two values comparable."""

    numbers: str = "exact"  # or "doubles", or "floats"
    zone: str = "UTC"
    fold: int = 0
    has_nan_last: bool = True


def readings(zone: str) -> list[Reading]:
    """Returns every way in which an engine may read a condition."""
    folds = (0,) if zone == "UTC" else (0, 1)
    return [Reading(numbers, zone, fold) for numbers in ("exact", "doubles", "floats") for fold in folds]


def is_true(node: Predicate, value_at: Callable[[tuple[str, ...]], Any], reading: Reading) -> bool | None:
    """Whether a condition is true of a row, None where SQL says unknown; `value_at` has the row's values.

    A list, which SQL does not compare, is what one of its elements is.
    """
    match node:
        case And(parts):
            return _all([is_true(part, value_at, reading) for part in parts])
        case Or(parts):
            return _not(_all([_not(is_true(part, value_at, reading)) for part in parts]))
        case Not(part):
            return _not(is_true(part, value_at, reading))
        case IsNull(path, is_negated):
            return (value_at(path) is None) != is_negated
        case Comparison(op, path, literal, is_negated):
            found = _each(value_at(path), lambda value: _compare(op, value, [_bare(literal)], reading))
        case In(path, literals, is_negated):
            bare = [_bare(literal) for literal in literals]
            found = _each(value_at(path), lambda value: _compare("=", value, bare, reading))
        case _:
            raise AssertionError(node)
    return _not(found) if is_negated else found


def _all(parts: list[bool | None]) -> bool | None:
    return False if False in parts else None if None in parts else True


def _not(part: bool | None) -> bool | None:
    return None if part is None else not part


def _bare(literal: Any) -> Any:
    return literal.value if isinstance(literal, Listed) else literal


def _each(value: Any, test: Callable[[Any], bool | None]) -> bool | None:
    return any(test(one) for one in value) if isinstance(value, list) else test(value)


def _compare(op: str, value: Any, literals: list[Any], reading: Reading) -> bool | None:
    """Whether a value compares so with one of the literals."""
    if op == "<=>":
        (literal,) = literals
        if value is None or literal is None:
            return value is literal
        op = "="
    if value is None:
        return None if literals else False  # nothing is in an empty list
    given = [literal for literal in literals if literal is not None]
    if reading.numbers == "floats" and isinstance(value, np.float32):
        given = [np.float32(one) if isinstance(one, int | Decimal) else one for one in given]
    if reading.numbers != "exact" and any(isinstance(one, float | np.float32) for one in (value, *given)):
        value, given = float(value), [float(one) for one in given]
    if any(getattr(one, "tzinfo", None) for one in (value, *given)):
        value, given = _instant(value, reading), [_instant(one, reading) for one in given]
    key = _key(value)
    found = any(_holds(op, key, _key(one), reading) for one in given)
    return None if not found and len(given) < len(literals) else found


def _holds(op: str, key: Any, other: Any, reading: Reading) -> bool:
    if not reading.has_nan_last and _NAN in (key, other):
        return op == "<>"
    return ORDER[op](key, other)


_NAN = True, 0


def _instant(value: date, reading: Reading) -> int:
    moment = _moment(value)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(reading.zone), fold=reading.fold)
    return _microseconds(moment.replace(tzinfo=None)) - (moment.utcoffset() or timedelta()) // timedelta(microseconds=1)


def _moment(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, time())


ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def _key(value: Any) -> Any:
    """Returns what is ordered as the value is."""
    match value:
        case str():
            return value.encode()
        case bytes():
            return value
        case date():
            return _microseconds(_moment(value))
        case time():
            return _microseconds(datetime.combine(EPOCH, value))
        case float() | np.floating():
            number = float(value)
            return math.isnan(number), 0 if math.isnan(number) else number if math.isinf(number) else Fraction(number)
    return False, Fraction(value)


def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)
