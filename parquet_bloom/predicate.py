"""Conditions on rows: an immutable tree, built in Python, from SQL text, or from pyarrow-style filter lists.

A tree knows column names and literals, no file. Only a bare `column op literal` is ever used to prune; whatever else
a condition holds becomes `Opaque`, which matches every row as far as anyone can prove.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from parquet_bloom.errors import PredicateError
from parquet_bloom.schema import LeafColumn, LogicalType, PhysicalType, format_path, parse_path
from parquet_bloom.values import parse_literal

ColumnPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """A literal that came as text and is typed by each file's column, as in `day >= '2024-01-01'`."""

    text: str

    def __str__(self) -> str:
        return repr(self.text)


class Number(Decimal):
    """A number with a point in SQL text: exact beside exact columns, and a DOUBLE beside floats."""


@dataclass(frozen=True, slots=True)
class TimestampText:
    """The literal `TIMESTAMP '…'`: text, but never compared with a column of text."""

    text: str

    def __str__(self) -> str:
        return f"TIMESTAMP {self.text!r}"


@dataclass(frozen=True, slots=True)
class _Readings:
    """A literal that versions of Spark read differently."""

    values: tuple[Text, ...]


class Predicate:
    """A condition. Combine with `&`, `|` and `~`; `and`, `or` and `not` would ask for its truth and raise."""

    __slots__ = ()

    def __and__(self, other: Predicate) -> Predicate:
        return And((self, other))

    def __or__(self, other: Predicate) -> Predicate:
        return Or((self, other))

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a predicate has no truth of its own: combine with &, | and ~, in parentheses")


_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """`column op value`, with op one of `=`, `<>`, `<=>`, `<`, `<=`, `>`, `>=`.

    `is_negated` marks NOT around it, kept because NOT (x < 1) and x >= 1 differ for NaN in some engines.
    """

    op: str
    column: ColumnPath
    value: Any
    is_negated: bool = False

    @property
    def plain_op(self) -> str:
        """The operator with NOT worked in, right wherever values have a total order."""
        return _NEGATED.get(self.op, self.op) if self.is_negated else self.op

    def __str__(self) -> str:
        text = f"{format_path(self.column)} {self.op} {_show(self.value)}"
        return f"NOT ({text})" if self.is_negated else text


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """`column IN (values)`, or NOT IN."""

    column: ColumnPath
    values: tuple[Any, ...]
    is_negated: bool = False

    def __str__(self) -> str:
        listed = ", ".join(map(_show, self.values[:5])) + (", …" if len(self.values) > 5 else "")
        return f"{format_path(self.column)} {'NOT IN' if self.is_negated else 'IN'} ({listed})"


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """`column IS NULL`, or IS NOT NULL."""

    column: ColumnPath
    is_negated: bool = False

    def __str__(self) -> str:
        return f"{format_path(self.column)} IS {'NOT ' if self.is_negated else ''}NULL"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """True where all parts are."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({p})" if isinstance(p, Or) else str(p) for p in self.parts)


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True where any part is."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({p})" if isinstance(p, And) else str(p) for p in self.parts)


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """True where the part is false, unknown where it is unknown."""

    part: Predicate

    def __str__(self) -> str:
        return f"NOT ({self.part})"


@dataclass(frozen=True, slots=True)
class Constant(Predicate):
    """TRUE, or FALSE, which no row matches."""

    is_true: bool

    def __str__(self) -> str:
        return "TRUE" if self.is_true else "FALSE"


@dataclass(frozen=True, slots=True)
class Opaque(Predicate):
    """Something that is not understood, and so might match any row."""

    text: str

    def __str__(self) -> str:
        return self.text


# ---- in Python ---------------------------------------------------------------------------


class Column:
    """A column to build conditions on: `col("user.id") == 42`, `col("day").between(a, b)`."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = parse_path(path)

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]
        return Comparison("=", self._path, value)

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]
        return Comparison("<>", self._path, value)

    def __lt__(self, value: object) -> Predicate:
        return Comparison("<", self._path, value)

    def __le__(self, value: object) -> Predicate:
        return Comparison("<=", self._path, value)

    def __gt__(self, value: object) -> Predicate:
        return Comparison(">", self._path, value)

    def __ge__(self, value: object) -> Predicate:
        return Comparison(">=", self._path, value)

    def eq_null_safe(self, value: object) -> Predicate:
        """`column <=> value`: like `=`, but NULL equals NULL."""
        return Comparison("<=>", self._path, value)

    def isin(self, values: Iterable[object]) -> Predicate:
        """`column IN (values)`."""
        return In(self._path, tuple(values))

    def between(self, low: object, high: object) -> Predicate:
        """`column BETWEEN low AND high`, both included."""
        return And((Comparison(">=", self._path, low), Comparison("<=", self._path, high)))

    def is_null(self) -> Predicate:
        """`column IS NULL`."""
        return IsNull(self._path)

    def is_not_null(self) -> Predicate:
        """`column IS NOT NULL`."""
        return IsNull(self._path, is_negated=True)


def col(path: str) -> Column:
    """Return the column at a dotted path, to build a condition on.

    >>> str((col("id") == "x") & ~col("day").is_null())
    "id = 'x' AND NOT (day IS NULL)"
    """
    return Column(path)


def to_predicate(where: Any) -> Predicate:
    """Return the predicate of SQL text, a pyarrow-style filter list, or a predicate itself."""
    if isinstance(where, Predicate):
        return where
    if isinstance(where, str):
        return parse_sql(where)
    if isinstance(where, list | tuple):
        return from_filters(where)
    raise PredicateError(
        f"a condition is SQL text, a list of filters, or built with col(), not {type(where).__name__}"
    )


# ---- pyarrow-style filters ---------------------------------------------------------------

_FILTER_OPS = {"=": "=", "==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def from_filters(filters: Sequence[Any]) -> Predicate:
    """Return the predicate of `[(column, op, value), …]` (all hold) or a list of such lists (any does).

    The operators are pyarrow's: `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`.

    >>> str(from_filters([("id", "in", [1, 2]), ("day", ">=", "2024-01-01")]))
    "id IN (1, 2) AND day >= '2024-01-01'"
    """
    if not filters:
        return Constant(True)
    if all(isinstance(f, tuple) and len(f) == 3 and isinstance(f[0], str) for f in filters):
        return And(tuple(_from_filter(*f) for f in filters))
    if all(isinstance(f, list | tuple) for f in filters):
        return Or(tuple(from_filters(f) for f in filters))
    raise PredicateError("filters are [(column, op, value), …], or a list of such lists")


def _from_filter(column: str, op: str, value: Any) -> Predicate:
    path = parse_path(column)
    if op in _FILTER_OPS:
        return Comparison(_FILTER_OPS[op], path, value)
    if op in ("in", "not in"):
        return In(path, tuple(value), is_negated=op == "not in")
    raise PredicateError(f"{op!r} is no operator of a filter; use one of {', '.join([*_FILTER_OPS, 'in', 'not in'])}")


# ---- SQL ---------------------------------------------------------------------------------


def parse_sql(text: str) -> Predicate:
    """Return the predicate of a SQL condition in Spark's dialect.

    Text literals are typed by the column that they are compared with. Functions, arithmetic, subqueries and column to
    column comparisons become `Opaque`. Raises `PredicateError` with the position where the text is no condition.
    """
    from sqlglot import Dialect, exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = Dialect.get_or_raise("spark").parse_into(exp.Condition, text)
    except SqlglotError as error:
        raise _parse_error(text, error) from None
    except RecursionError:
        raise PredicateError("the condition is nested too deeply") from None
    if len(parsed) != 1 or parsed[0] is None:
        raise PredicateError(f"{text!r} is not one condition", position=0)
    return _Translator().predicate(parsed[0])


def _parse_error(text: str, error: Any) -> PredicateError:
    details = getattr(error, "errors", None) or [{}]
    description = details[0].get("description") or str(error).splitlines()[0]
    line, column = details[0].get("line"), details[0].get("col")
    position = None
    if line and column:
        position = sum(len(part) + 1 for part in text.split("\n")[: line - 1]) + column - 1
    at = f" at character {position + 1}" if position is not None else ""
    return PredicateError(f"the condition does not parse{at}: {description.rstrip('.')}", position=position)


class _NotLiteral(Exception):
    pass


class _Translator:
    """sqlglot's tree -> ours."""

    def __init__(self) -> None:
        from sqlglot import exp

        self._exp = exp
        self._ops = {
            exp.EQ: "=",
            exp.NEQ: "<>",
            exp.NullSafeEQ: "<=>",
            exp.LT: "<",
            exp.LTE: "<=",
            exp.GT: ">",
            exp.GTE: ">=",
        }
        kinds = exp.DataType.Type
        self._integer_bits = {kinds.TINYINT: 8, kinds.SMALLINT: 16, kinds.INT: 32, kinds.BIGINT: 64}

    def predicate(self, node: Any) -> Predicate:
        exp = self._exp
        try:
            match node:
                case exp.Paren():
                    return self.predicate(node.this)
                case exp.And():
                    return And(tuple(self.predicate(part) for part in node.flatten()))
                case exp.Or():
                    return Or(tuple(self.predicate(part) for part in node.flatten()))
                case exp.Not():
                    return Not(self.predicate(node.this))
                case exp.Boolean():
                    return Constant(bool(node.this))
                case exp.In() if node.expressions and not node.args.get("query"):
                    return In(self.column(node.this), self.literals(node.expressions))
                case exp.Between() if not node.args.get("symmetric"):
                    column = self.column(node.this)
                    low, high = self.single(node.args["low"]), self.single(node.args["high"])
                    return And((Comparison(">=", column, low), Comparison("<=", column, high)))
                case exp.Is() if isinstance(node.expression, exp.Null):
                    return IsNull(self.column(node.this))
            if type(node) in self._ops:
                return self.comparison(self._ops[type(node)], node.left, node.right)
        except _NotLiteral:
            pass
        return Opaque(node.sql(dialect="spark"))

    def comparison(self, op: str, left: Any, right: Any) -> Predicate:
        if not isinstance(_bare(left), self._exp.Column | self._exp.Dot):
            op, left, right = _MIRRORED[op], right, left
        column = self.column(left)
        if op == "=" and len(values := self.literals([right])) > 1:
            return In(column, values)
        return Comparison(op, column, self.single(right))

    def column(self, node: Any) -> ColumnPath:
        node = _bare(node)
        # `a.b.c.d` is a column with table, db and catalog; anything deeper is a Dot around it.
        names: list[str] = []
        while isinstance(node, self._exp.Dot):
            names.insert(0, node.expression.name)
            if not isinstance(node.expression, self._exp.Identifier):
                raise _NotLiteral
            node = node.this
        if not isinstance(node, self._exp.Column) or isinstance(node.this, self._exp.Star):
            raise _NotLiteral
        return (*(part.name for part in node.parts), *names)

    def literals(self, nodes: list[Any]) -> tuple[Any, ...]:
        values: list[Any] = []
        for node in nodes:
            value = self.literal(node)
            values += value.values if isinstance(value, _Readings) else [value]
        return tuple(values)

    def single(self, node: Any) -> Any:
        value = self.literal(node)
        if isinstance(value, _Readings):
            raise _NotLiteral
        return value

    def literal(self, node: Any) -> Any:
        exp = self._exp
        node = _bare(node)
        match node:
            case exp.Null():
                return None
            case exp.Boolean():
                return bool(node.this)
            case exp.Literal():
                return Text(node.this) if node.is_string else _number(node.this)
            case exp.RawString():
                return Text(node.this)
            case exp.HexString():
                return bytes.fromhex(node.this if len(node.this) % 2 == 0 else "0" + node.this)
            case exp.Neg():
                value = self.literal(node.this)
                if isinstance(value, Number):
                    return Number(value.copy_negate())
                if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                    return -value
            case exp.Concat() if all(isinstance(part, exp.Literal) and part.is_string for part in node.expressions):
                # 'it''s' is its up to Spark 3 (neighbours are joined) and it's from 4.0 (a quote).
                parts = [part.this for part in node.expressions]
                return _Readings((Text("".join(parts)), Text("'".join(parts))))
            case exp.Cast():
                return self.cast(self.literal(node.this), node.to)
        raise _NotLiteral

    def cast(self, value: Any, to: Any) -> Any:
        """Return a typed literal such as DATE '2024-01-01' or 5L, if the cast changes nothing but the type."""
        kinds = self._exp.DataType.Type
        match value:
            case Text(text) if to.this == kinds.DATE and re.fullmatch(r"\d{4}-\d\d-\d\d", text):
                with contextlib.suppress(ValueError):
                    return date.fromisoformat(text)
            case Text(text) if to.this in (
                kinds.TIMESTAMP,
                kinds.TIMESTAMPTZ,
                kinds.TIMESTAMPLTZ,
                kinds.TIMESTAMPNTZ,
            ):
                return TimestampText(text)
            case bool():
                pass
            case int() if (bits := self._integer_bits.get(to.this)) and -(1 << bits - 1) <= value < 1 << bits - 1:
                return value
            case int() | float() | Decimal() if to.this == kinds.DOUBLE:
                return float(value)
            case int() | float() | Decimal() if to.this == kinds.FLOAT:
                with contextlib.suppress(OverflowError):
                    return struct.unpack("<f", struct.pack("<f", value))[0]
            case Text() | int() | Decimal() if to.this == kinds.DECIMAL:
                return _decimal(value, [int(param.name) for param in to.expressions] or [10, 0])
        raise _NotLiteral


def _decimal(value: Text | int | Decimal, parameters: list[int]) -> Decimal:
    precision, scale = parameters if len(parameters) == 2 else (*parameters, 0)
    try:
        number = Decimal(value.text if isinstance(value, Text) else value)
    except ArithmeticError:
        raise _NotLiteral from None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > scale or number.adjusted() >= precision - scale:
        raise _NotLiteral  # it would be rounded, or overflow
    return number


def _bare(node: Any) -> Any:
    return node.unnest()


def _number(text: str) -> int | float | Number:
    try:
        if "e" in text.lower():
            return float(text)  # Spark reads 1e3 as DOUBLE and 1.5 as DECIMAL
        return Number(text) if "." in text else int(text)
    except (ValueError, ArithmeticError):
        raise _NotLiteral from None


def typed(leaf: LeafColumn, value: Any) -> Any:
    """Return a literal as `encode_literal` takes it for this leaf: text and numbers of SQL are typed by the column.

    Returns `Opaque` with the reason where Spark's cast of the text is laxer than ours. Raises `LiteralError`.
    """
    physical, logical = leaf.physical_type, leaf.logical_type.name if leaf.logical_type else None
    match value:
        case Number() if physical in (PhysicalType.FLOAT, PhysicalType.DOUBLE):
            return float(value)
        case TimestampText(text) if logical in ("TIMESTAMP", "DATE") or physical is PhysicalType.INT96:
            # As a timestamp, whatever the column: a date column is compared with it as midnight.
            return parse_literal(replace(leaf, physical_type=PhysicalType.INT64, logical_type=_ANY_TIMESTAMP), text)
        case TimestampText(text):
            return parse_literal(replace(leaf, physical_type=PhysicalType.BOOLEAN, logical_type=None), text)
        case Text(text) if physical is PhysicalType.BYTE_ARRAY and logical != "DECIMAL":
            return text
        case Text(text):
            literal = parse_literal(leaf, text)
            if logical == "DECIMAL" and isinstance(literal, Decimal):
                assert leaf.logical_type is not None
                exponent = literal.as_tuple().exponent
                if not isinstance(exponent, int) or -exponent > leaf.logical_type.scale:
                    return Opaque(f"Spark rounds {value} to the column's scale")
            return literal
    return value


_ANY_TIMESTAMP = LogicalType("TIMESTAMP", unit="NANOS")


# ---- for pruning -------------------------------------------------------------------------


def normalized(predicate: Predicate) -> Predicate:
    """Return the same condition with NOT moved into the leaves; the same in SQL's three-valued logic.

    >>> str(normalized(~((col("a") == 1) & col("b").is_null())))
    'NOT (a = 1) OR b IS NOT NULL'
    """
    match predicate:
        case Not(part):
            return _negated(part)
        case And(parts):
            return And(tuple(map(normalized, parts)))
        case Or(parts):
            return Or(tuple(map(normalized, parts)))
    return predicate


def _negated(predicate: Predicate) -> Predicate:
    match predicate:
        case Not(part):
            return normalized(part)
        case And(parts):
            return Or(tuple(map(_negated, parts)))
        case Or(parts):
            return And(tuple(map(_negated, parts)))
        case Constant(is_true):
            return Constant(not is_true)
        case Comparison(op, column, value, is_negated):
            return Comparison(op, column, value, not is_negated)
        case In(column, values, is_negated):
            return In(column, values, not is_negated)
        case IsNull(column, is_negated):
            return IsNull(column, not is_negated)
    return Opaque(f"NOT ({predicate})")


def leaves(predicate: Predicate) -> Iterator[Comparison | In | IsNull]:
    """Yield every part of the condition that speaks of one column."""
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Not(part):
            yield from leaves(part)
        case Comparison() | In() | IsNull():
            yield predicate


def _show(value: Any) -> str:
    return "NULL" if value is None else str(value) if isinstance(value, Text | Decimal) else repr(value)
