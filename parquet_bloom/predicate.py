"""Conditions on rows: an immutable tree, built in Python, from SQL text, or from pyarrow-style filter lists.

A tree knows column names and literals, no file. Only a bare `column op literal` is ever used to prune; whatever else
a condition holds becomes `Opaque`, which matches every row as far as anyone can prove.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any

from parquet_bloom.errors import LiteralError, PredicateError
from parquet_bloom.schema import LeafColumn, LogicalType, PhysicalType, format_path, parse_path
from parquet_bloom.values import DecimalLiteral, FloatLiteral, normalize_literal, parse_literal, untrusted

ColumnPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """A literal that came as text and is typed by each file's column, as in `day >= '2024-01-01'`.

    `others` are further readings of the same text: versions of Spark disagree about quotes.
    """

    text: str
    others: tuple[str, ...] = ()

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
class Listed:
    """A literal that stands with others in IN or BETWEEN, which engines may give one type that holds them all.

    `float_bits` are those of a float among the others, `scale` and `integer_digits` of what holds its decimals.
    """

    value: Any
    float_bits: int | None
    scale: int | None
    integer_digits: int

    def __str__(self) -> str:
        return _show(self.value)


class Predicate:
    """A condition. Combine with `&`, `|` and `~`; `and`, `or` and `not` would ask for its truth and raise."""

    __slots__ = ()

    def __and__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return And((*_parts(self, And), *_parts(other, And)))

    def __or__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return Or((*_parts(self, Or), *_parts(other, Or)))

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
        """The operator between values with NOT worked in, right where values have a total order; NULL is apart."""
        op = "=" if self.op == "<=>" else self.op
        return _NEGATED[op] if self.is_negated else op

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
        return " AND ".join(f"({p})" if isinstance(p, Or) else str(p) for p in self.parts) or "TRUE"


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True where any part is."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({p})" if isinstance(p, And) else str(p) for p in self.parts) or "FALSE"


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


def _parts(predicate: Predicate, kind: type[And] | type[Or]) -> tuple[Predicate, ...]:
    """Return the parts of an AND (or OR), so that long chains do not nest."""
    return predicate.parts if isinstance(predicate, kind) else (predicate,)


MAX_DEPTH = 100
"""How deep a condition may nest; a chain of ANDs, or of ORs, counts as one level."""


def _require_shallow(predicate: Predicate) -> Predicate:
    level, depth = [predicate], 0
    while level:
        if depth > MAX_DEPTH:
            raise PredicateError(f"the condition is nested more than {MAX_DEPTH} levels deep")
        level = [part for node in level for part in _children(node)]
        depth += 1
    return predicate


def _children(predicate: Predicate) -> tuple[Predicate, ...]:
    match predicate:
        case And(parts) | Or(parts):
            return parts
        case Not(part):
            return (part,)
    return ()


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
        return In(self._path, _listed(values))

    def between(self, low: object, high: object) -> Predicate:
        """`column BETWEEN low AND high`, both included."""
        return _between(self._path, low, high)

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


def _between(column: ColumnPath, low: Any, high: Any) -> Predicate:
    low, high = together((low, high))
    return And((Comparison(">=", column, low), Comparison("<=", column, high)))


def _listed(values: Any) -> tuple[Any, ...]:
    if isinstance(values, str | bytes | bytearray | memoryview) or not isinstance(values, Iterable):
        raise PredicateError(f"IN wants a list of values, not {values!r}")
    return tuple(values)


def together(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the literals of one list as they are beside each other: in IN (1, 0.5e0) the 1 may be a float, too."""
    kinds = {type(value) for value in values}
    if len(kinds) <= 1 and not kinds & {Decimal, Number}:
        return values
    literals = [normalize_literal(value) for value in values]
    floats = [literal.bits for literal in literals if isinstance(literal, FloatLiteral)]
    decimals = [literal for literal in literals if isinstance(literal, DecimalLiteral)]
    bits = min(floats, default=None) if len(floats) < len(values) else None
    scale = max((literal.scale for literal in decimals), default=None) if len(values) > 1 else None
    if bits is None and scale is None:
        return values
    whole = [abs(literal) for literal in literals if isinstance(literal, int)]
    digits = max([literal.integer_digits for literal in decimals] + [len(str(min(n, _HUGE))) for n in whole], default=1)
    return tuple(
        value if isinstance(literal, FloatLiteral) else Listed(value, bits, scale, digits)
        for value, literal in zip(values, literals, strict=True)
    )


_HUGE = 10**100


def unlisted(value: Any) -> Any:
    """Return the literal itself of one that stands with others."""
    return value.value if isinstance(value, Listed) else value


def to_predicate(where: Any) -> Predicate:
    """Return the predicate of SQL text, a pyarrow-style filter list, or a predicate itself."""
    if isinstance(where, Predicate):
        return _require_shallow(where)
    if isinstance(where, str):
        return parse_sql(where)
    if isinstance(where, list | tuple):
        return from_filters(where)
    raise PredicateError(f"a condition is SQL text, a list of filters, or built with col(), not {type(where).__name__}")


# ---- pyarrow-style filters ---------------------------------------------------------------

_FILTER_OPS = {"=": "=", "==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def from_filters(filters: Sequence[Any]) -> Predicate:
    """Return the predicate of `[(column, op, value), …]` (all hold) or a list of such lists (any does).

    The operators are pyarrow's: `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`. As in pyarrow, `not in` holds
    for NULL.

    >>> str(from_filters([("id", "in", [1, 2]), ("day", ">=", "2024-01-01")]))
    "id IN (1, 2) AND day >= '2024-01-01'"
    """
    if not filters:
        return Constant(True)
    if _is_conjunction(filters):
        return And(tuple(_from_filter(*f) for f in filters))
    if all(isinstance(f, list | tuple) and f and _is_conjunction(f) for f in filters):
        return Or(tuple(And(tuple(_from_filter(*f) for f in conjunction)) for conjunction in filters))
    raise PredicateError("filters are [(column, op, value), …], or a list of such lists")


def _is_conjunction(filters: Sequence[Any]) -> bool:
    return all(isinstance(f, list | tuple) and len(f) == 3 and isinstance(f[0], str) for f in filters)


def _from_filter(column: str, op: str, value: Any) -> Predicate:
    path = parse_path(column)
    if op in _FILTER_OPS:
        return Comparison(_FILTER_OPS[op], path, value)
    if op == "in":
        return In(path, _listed(value))
    if op == "not in":
        return Or((In(path, _listed(value), is_negated=True), IsNull(path)))
    raise PredicateError(f"{op!r} is no operator of a filter; use one of {', '.join([*_FILTER_OPS, 'in', 'not in'])}")


# ---- SQL ---------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def parse_sql(text: str) -> Predicate:
    """Return the predicate of a SQL condition in Spark's dialect.

    Text literals are typed by the column that they are compared with. Functions, arithmetic, subqueries and column to
    column comparisons become `Opaque`. Raises `PredicateError` with the position where the text is no condition.
    """
    from sqlglot import Dialect, exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = Dialect.get_or_raise("spark").parse_into(exp.Condition, text)
        if len(parsed) != 1 or parsed[0] is None:
            raise PredicateError(f"{_shortened(text)!r} is not one condition", position=0)
        return _require_shallow(_Translator().predicate(parsed[0]))
    except SqlglotError as error:
        raise _parse_error(text, error) from None
    except RecursionError:
        raise PredicateError("the condition is nested too deeply") from None


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
                    return And(tuple(self.predicate(part) for part in _operands(node)))
                case exp.Or():
                    return Or(tuple(self.predicate(part) for part in _operands(node)))
                case exp.Not():
                    return Not(self.predicate(node.this))
                case exp.Boolean():
                    return Constant(bool(node.this))
                case exp.In() if node.expressions and not node.args.get("query"):
                    return In(self.column(node.this), _listed(map(self.literal, node.expressions)))
                case exp.Between() if not node.args.get("symmetric"):
                    column = self.column(node.this)
                    return _between(column, self.literal(node.args["low"]), self.literal(node.args["high"]))
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
        return Comparison(op, self.column(left), self.literal(right))

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
                return _minus(self.literal(node.this))
            case exp.Concat() if all(isinstance(part, exp.Literal) and part.is_string for part in node.expressions):
                return _joined([part.this for part in node.expressions])
            case exp.Cast():
                return self.cast(self.literal(node.this), node.to)
        raise _NotLiteral

    def cast(self, value: Any, to: Any) -> Any:
        """Return a typed literal such as DATE '2024-01-01' or 5L, if the cast changes nothing but the type."""
        kinds = self._exp.DataType.Type
        match value:
            case Text(text, ()) if to.this == kinds.DATE and re.fullmatch(r"\d{4}-\d\d-\d\d", text):
                with contextlib.suppress(ValueError):
                    return date.fromisoformat(text)
            case Text(text, ()) if to.this in (kinds.TIMESTAMP, kinds.TIMESTAMPTZ, kinds.TIMESTAMPLTZ):
                return TimestampText(text)
            case Text(text, ()) if to.this == kinds.TIMESTAMPNTZ and not _ZONE.search(text):
                return TimestampText(text)  # with a zone, Spark's configuration decides what it is
            case bool():
                pass
            case int() if (bits := self._integer_bits.get(to.this)) and -(1 << bits - 1) <= value < 1 << bits - 1:
                return value
            case int() | float() | Decimal() if to.this == kinds.DOUBLE:
                with contextlib.suppress(OverflowError):
                    return float(value)
            case Text(_, ()) | int() | Decimal() if to.this == kinds.DECIMAL:
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


_ZONE = re.compile(r"[A-Za-z+]|:.*-")


def _joined(parts: list[str]) -> Text:
    """Return the text of string literals that touch, such as 'it''s'.

    Up to Spark 3 neighbours are joined; from 4.0 those without a space between hold a quote. sqlglot tells them and
    their kind of quote no longer apart, so every way to read them counts.
    """
    if not 0 < len(parts) <= _MAX_JOINED:
        raise _NotLiteral
    readings = [parts[0]]
    for part in parts[1:]:
        readings = [before + joint + part for before in readings for joint in ("'", "", '"')]
    return Text(readings[0], tuple(readings[1:]))


_MAX_JOINED = 4


def _minus(value: Any) -> Any:
    match value:
        case Number():
            return Number(value.copy_negate())
        case Decimal():
            return value.copy_negate()  # the operator would round to the context's 28 digits
        case bool():
            raise _NotLiteral
        case int() | float():
            return -value
    raise _NotLiteral


def _operands(node: Any) -> Iterator[Any]:
    """Yield what a chain of one connector connects, without recursion and through parentheses."""
    pending = [node]
    while pending:
        part = _bare(pending.pop())
        if type(part) is type(node):
            pending += [part.right, part.left]
        else:
            yield part


def _bare(node: Any) -> Any:
    return node.unnest()


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _number(text: str) -> int | float | Number:
    try:
        if "e" in text.lower():
            return float(text)  # Spark reads 1e3 as DOUBLE and 1.5 as DECIMAL
        return Number(text) if "." in text else int(text)
    except (ValueError, ArithmeticError):  # 1e, or more digits than Python converts
        raise _NotLiteral from None


def readings(leaf: LeafColumn, value: Any) -> tuple[Any, ...] | Opaque:
    """Return the literals that `encode_literal` takes for this leaf: more than one where the text may mean several.

    Text and the numbers of SQL are typed by the column. Returns `Opaque` with the reason where nothing follows from
    them. Raises `LiteralError` if they are none of the column's values.
    """
    if (reason := untrusted(leaf)) and leaf.physical_type is not PhysicalType.BOOLEAN:
        return Opaque(reason)
    match value:
        case Listed():
            return _beside_others(leaf, readings(leaf, value.value), value)
        case Text(text, others):
            return _typed_texts(leaf, (text, *others))
        case TimestampText(text):
            return (_typed_timestamp(leaf, text),)
        case Number() if leaf.physical_type in (PhysicalType.FLOAT, PhysicalType.DOUBLE):
            return (float(value),)
    return (value,)


def _beside_others(leaf: LeafColumn, found: tuple[Any, ...] | Opaque, listed: Listed) -> tuple[Any, ...] | Opaque:
    if isinstance(found, Opaque):
        return found
    beside: list[Any] = []
    for value in found:
        literal = normalize_literal(value)
        exact = literal.value if isinstance(literal, DecimalLiteral) else literal
        if not isinstance(exact, int | Decimal) or isinstance(exact, bool):
            beside.append(value)
            continue
        if listed.scale is None or is_float(leaf):
            beside.append(value)
        else:
            beside.append(DecimalLiteral(Decimal(exact), listed.scale, listed.integer_digits))
        if listed.float_bits is not None:
            beside.append(FloatLiteral(_as_float(exact), listed.float_bits))
    return tuple(beside)


def is_float(leaf: LeafColumn) -> bool:
    """Return whether the column's values are floats of any width."""
    is_half = leaf.logical_type is not None and leaf.logical_type.name == "FLOAT16"
    return is_half or leaf.physical_type in (PhysicalType.FLOAT, PhysicalType.DOUBLE)


def _as_float(number: int | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _typed_texts(leaf: LeafColumn, texts: tuple[str, ...]) -> tuple[Any, ...] | Opaque:
    found: list[Any] = []
    refused: LiteralError | None = None
    for text in texts:
        try:
            literal = _typed_text(leaf, text)
        except LiteralError as error:
            refused = refused or error
            continue
        if isinstance(literal, Opaque):
            return literal
        found.append(literal)
    if not found and refused:
        raise refused
    return tuple(found)


def _typed_text(leaf: LeafColumn, text: str) -> Any:
    logical = leaf.logical_type
    if logical is not None and logical.name == "DECIMAL":
        return _typed_decimal(leaf.name, logical.scale, parse_literal(leaf, text))
    if leaf.physical_type is PhysicalType.BYTE_ARRAY:
        return text.encode() if logical is not None and logical.name == "BSON" else text
    if leaf.physical_type is PhysicalType.FIXED_LEN_BYTE_ARRAY and logical is None:
        # In SQL 0x41 in quotes is four characters, but DuckDB reads \x41 as one byte.
        return Opaque(f"engines read {text!r} differently") if "\\" in text else text.encode()
    return parse_literal(leaf, text)


def _typed_decimal(name: str, scale: int, literal: Any) -> Any:
    """Spark compares DECIMAL with text as DOUBLE, others round the text to the column's scale."""
    exponent = literal.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > scale:
        return Opaque(f"engines round {literal} to the scale of {name}")
    if literal and literal.adjusted() + scale >= _DOUBLE_DIGITS:
        return Opaque(f"Spark compares {name} with text as DOUBLE, which is not exact for {literal}")
    return literal


_DOUBLE_DIGITS = 15


def _typed_timestamp(leaf: LeafColumn, text: str) -> Any:
    logical = leaf.logical_type.name if leaf.logical_type else None
    if logical not in ("TIMESTAMP", "DATE") and leaf.physical_type is not PhysicalType.INT96:
        raise LiteralError(f"column {leaf.name} is {leaf.type_name}; TIMESTAMP {text!r} is not comparable with it")
    # As a timestamp, whatever the column: a date column is compared with it as midnight.
    return parse_literal(replace(leaf, physical_type=PhysicalType.INT64, logical_type=_ANY_TIMESTAMP), text)


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


def _show(value: Any) -> str:
    return "NULL" if value is None else str(value) if isinstance(value, Text | Decimal | Listed) else repr(value)
