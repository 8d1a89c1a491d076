"""Whether the text of a Hive partition can match a condition, however engines read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import ceil, floor
from typing import Any

from parquet_bloom.predicates.tree import Comparison, In, IsNull, Listed, Text, TimestampText
from parquet_bloom.predicates.typing import is_beyond_bigint
from parquet_bloom.storage.partitions import NULL_NAME, may_be_typed

_NULL_TEXTS = ("", "null", NULL_NAME.lower())
"""Texts that at least one engine reads as NULL; DataFusion and ClickHouse read `NULL_NAME` as text."""


# ---- comparing ---------------------------------------------------------------------------


def might_hold(node: Comparison | In | IsNull, constant: str) -> bool:
    """Return False only if the test is proved to be false or unknown for this constant in every engine."""
    if constant.lower() in _NULL_TEXTS and might_hold_null(node):
        return True
    match node:
        case IsNull(_, is_negated) | Comparison("<=>", _, None, is_negated):
            return is_negated
        case In(_, values, is_negated):
            if is_negated:
                return all(_might_hold("<>", constant, value) for value in values)
            return any(_might_hold("=", constant, value) for value in values)
        case Comparison(_, _, value):
            return _might_hold(node.plain_op, constant, value)
    return True


def might_hold_null(node: Comparison | In | IsNull) -> bool:
    """Return False only if the test is proved to be false or unknown for NULL."""
    match node:
        case IsNull(_, is_negated):
            return not is_negated
        case Comparison("<=>", _, value, is_negated):
            # A text that does not fit the type is NULL to Spark.
            return isinstance(value, Text) or (value is None) != is_negated
        case In(_, (), is_negated):
            return is_negated
        case Comparison(_, _, value):
            return node.plain_op not in ("=", "<>") and is_beyond_bigint(value)
    return False


def _might_hold(op: str, constant: str, value: Any) -> bool:
    spans = _readings(constant, value)
    return spans is None or any(_holds_within(op, *pair) for pair in spans)


_Span = tuple[Any, Any]


def _holds_within(op: str, left: _Span, right: _Span) -> bool:
    """Return whether `x op y` is true for some x in one span and some y in the other, ends included."""
    if op == "=":
        return bool(left[0] <= right[1] and right[0] <= left[1])
    if op == "<>":
        return not left[0] == left[1] == right[0] == right[1]
    (low, high), strict = (left, right) if op[0] == "<" else (right, left), op in ("<", ">")
    return bool(low[0] < high[1] if strict else low[0] <= high[1])


def _readings(constant: str, value: Any) -> list[tuple[_Span, _Span]] | None:
    """Return each pair of values that engines may compare, or None if not all of them are known."""
    match value:
        case Listed(inner):
            return _readings(constant, inner)
        case None | bool() | datetime() | TimestampText():
            return None  # engines write booleans differently, and disagree on the time zone of times
        case int() | float() | Decimal():
            return _pairs_of_number(constant, value)
        case Text(text, others):
            return _text_pairs_of_all(constant, (text, *others))
        case str(text):
            return _text_pairs_of_all(constant, (text,))
        case date():
            return _pairs_of_date(constant, value)
    return None


def _pairs_of_number(constant: str, value: int | float | Decimal) -> list[tuple[_Span, _Span]] | None:
    literal = None if isinstance(value, int) and abs(value) >= 10**_MAX_DIGITS else _number(str(value))
    if literal is None:
        return None
    # An engine that reads the directory as text may convert the literal to text.
    as_text, number = _pair(constant, str(value)), _number(constant)
    if not may_be_typed(constant):
        return [as_text]
    if number is None:
        return None
    return [as_text, *_number_pairs(number, (literal, literal))]


def _pairs_of_date(constant: str, value: date) -> list[tuple[_Span, _Span]] | None:
    as_text, moment = _pair(constant, value.isoformat()), _moment(constant)
    if not may_be_typed(constant):
        return [as_text]
    if moment is None:
        return None
    return [as_text, _pair(moment, datetime.combine(value, time())), _pair(moment.date(), value)]


def _pair(left: Any, right: Any) -> tuple[_Span, _Span]:
    return (left, left), (right, right)


def _text_pairs_of_all(constant: str, texts: tuple[str, ...]) -> list[tuple[_Span, _Span]] | None:
    all_pairs: list[tuple[_Span, _Span]] = []
    for text in texts:
        pairs = _text_pairs(constant, text)
        if pairs is None:
            return None
        all_pairs += pairs
    return all_pairs


def _text_pairs(constant: str, text: str) -> list[tuple[_Span, _Span]] | None:
    pairs = [_pair(constant, text)]
    if not (may_be_typed(constant) and may_be_typed(text)):
        return pairs  # a column with such a constant is text; such a literal does not equal another type
    number, literal = _number(constant), _number(text)
    moment, literal_moment = _moment(constant), _moment(text)
    known = (number is not None, moment is not None)
    if known != (literal is not None, literal_moment is not None) or not any(known):
        return None  # only one of the two is a number or a time here; an engine may cast more
    if number is not None and literal is not None:
        pairs += _number_pairs(number, (floor(literal), ceil(literal)))
        pairs += _number_pairs(number, (literal, literal))
    if moment is not None and literal_moment is not None:
        pairs += [_pair(moment, literal_moment), _pair(moment.date(), literal_moment.date())]
    return pairs


def _number_pairs(number: Fraction, literal: tuple[Fraction | int, Fraction | int]) -> Iterator[tuple[_Span, _Span]]:
    """Yield the pairs as exact numbers, as truncated or rounded integers, and as floats, which may become equal."""
    yield (floor(number), ceil(number)), literal
    with suppress(OverflowError):
        yield _pair(float(number), float(literal[0]))
        yield _pair(float(number), float(literal[1]))


def _number(text: str) -> Fraction | None:
    try:
        number = Decimal(text.strip())
    except (InvalidOperation, ValueError):
        return None
    return Fraction(number) if number.is_finite() and abs(number.adjusted()) < _MAX_DIGITS else None


_MAX_DIGITS = 400


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo is None else None
