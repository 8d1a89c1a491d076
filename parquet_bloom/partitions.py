"""Hive partitions: the constants in a file's directories, such as `day=2024-01-01/`.

A directory's text has no type; engines infer one. So a constant is compared as text and as every type that it could be
inferred as, and it rules rows out only where no reading matches.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from urllib.parse import unquote

from parquet_bloom.predicate import ColumnPath, Comparison, In, IsNull, Text, TimestampText

NULL_NAME = "__HIVE_DEFAULT_PARTITION__"
"""The directory value that stands for NULL."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """The constants of one file: (name, text), None for NULL; a name may come twice."""

    constants: tuple[tuple[str, str | None], ...] = ()

    def named(self, path: ColumnPath, *, case_sensitive: bool) -> list[str | None]:
        """Return the constants of this column."""
        if len(path) != 1:
            return []
        if case_sensitive:
            return [text for name, text in self.constants if name == path[0]]
        return [text for name, text in self.constants if name.casefold() == path[0].casefold()]


def partitions_of(path: str) -> Partitions:
    """Return the constants in the directories of `path`, percent-decoded as Spark and Hive write them.

    >>> partitions_of("lake/day=2024-01-01/city=a%3Db/part-0.parquet").constants
    (('day', '2024-01-01'), ('city', 'a=b'))
    """
    if "=" not in path:
        return Partitions()
    found = []
    for part in path.replace("\\", "/").split("/")[:-1]:
        name, equals, text = part.partition("=")
        if equals and name:
            found.append((unquote(name), None if text == NULL_NAME else unquote(text)))
    return Partitions(tuple(found))


_OPS = {
    "=": operator.eq,
    "<=>": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def might_hold(node: Comparison | In | IsNull, constant: str | None) -> bool:
    """Return False only if the test is proved to be false or unknown for this constant, however it is read."""
    match node:
        case IsNull(_, is_negated):
            return (constant is None) != is_negated or constant == ""  # some engines read an empty text as NULL
        case In(_, values, is_negated):
            if constant is None:
                return False
            if is_negated:
                return all(_might_hold("<>", constant, value) for value in values)
            return any(_might_hold("=", constant, value) for value in values)
        case Comparison(op, _, value):
            if value is None:
                return op == "<=>" and ((constant is None) != node.is_negated or constant == "")
            if constant is None:
                return op == "<=>" and node.is_negated
            return _might_hold(node.plain_op if op != "<=>" else "<>" if node.is_negated else "=", constant, value)
    return True


def _might_hold(op: str, constant: str, value: Any) -> bool:
    if value is None:
        return True  # NULL in a list: left to the engine
    pairs = _comparable(constant, value)
    if pairs is None:
        return True
    return any(_OPS[op](left, right) for left, right in pairs)


def _comparable(constant: str, value: Any) -> list[tuple[Any, Any]] | None:
    """Return the constant and the literal as each pair of like values, or None where not all readings are known."""
    match value:
        case None | bool() | datetime() | TimestampText():
            return None  # engines spell truth differently, and disagree on the zone of a directory's time
        case int() | float() | Decimal():
            number = _number(constant)
            if number is None or not abs(value) < math.inf:
                return None
            return [(number, Fraction(value)), (float(number), float(value))]
        case Text(text) | str(text):
            return _like_texts(constant, text)
        case date():
            moment = _moment(constant)
            return None if moment is None else [(moment.date(), value)]
    return None


def _like_texts(constant: str, text: str) -> list[tuple[Any, Any]] | None:
    numbers, moments = [_number(t) for t in (constant, text)], [_moment(t) for t in (constant, text)]
    if (numbers.count(None), moments.count(None)).count(1):
        return None  # only one of the two is a number, or a time, to us; an engine's cast may be laxer
    pairs: list[tuple[Any, Any]] = [(constant, text)]
    if None not in numbers:
        # The column may have been inferred as integer, and the literal be cut to one.
        pairs += [(*numbers,), (*map(int, numbers),), (*map(float, numbers),)]  # type: ignore[list-item, arg-type]
    if None not in moments:
        pairs += [(*moments,), (*(moment.date() for moment in moments if moment),)]  # type: ignore[list-item]
    return pairs


def _number(text: str) -> Fraction | None:
    try:
        return Fraction(Decimal(text.strip()))
    except (InvalidOperation, ValueError, OverflowError):
        return None


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo is None else None
