"""Conditions on rows: an immutable tree, built in Python, from SQL text, or from pyarrow-style filter lists.

A tree has column names and literals, and knows no file. Only a bare `column op literal` is used to prune. Everything
else becomes `Opaque`, which might match any row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from parquet_bloom.errors import PredicateError
from parquet_bloom.format.schema import ColumnPath, format_path, parse_path
from parquet_bloom.values.encoding import literal_text
from parquet_bloom.values.interchange import python_value, values_of
from parquet_bloom.values.literals import DecimalLiteral, FloatLiteral, normalize_literal


@dataclass(frozen=True, slots=True)
class Text:
    """A literal that was text and gets its type from each file's column, as in `day >= '2024-01-01'`.

    `others` are other ways to read the same text: versions of Spark disagree about quotes.
    """

    text: str
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return repr(self.text)


class Number(Decimal):
    """A number with a point in SQL text: a DECIMAL for exact columns, and a DOUBLE for floats."""


@dataclass(frozen=True, slots=True)
class TimestampText:
    """The literal `TIMESTAMP '…'`: text, but never compared with a text column."""

    text: str

    def __str__(self) -> str:
        return f"TIMESTAMP {self.text!r}"


@dataclass(frozen=True, slots=True)
class Listed:
    """A literal in the list of IN or BETWEEN. Engines may convert the whole list to one common type.

    `float_bits` is the width of a float in the list, `scale` and `integer_digits` are those of a type for its decimals.
    """

    value: Any
    float_bits: int | None
    scale: int | None
    integer_digits: int

    def __str__(self) -> str:
        return _show(self.value)


class Predicate:
    """A condition. Combine conditions with `&`, `|` and `~`; `and`, `or` and `not` raise `TypeError`."""

    __slots__ = ()

    def __and__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return And((*_flattened(self, And), *_flattened(other, And)))

    def __or__(self, other: Predicate) -> Predicate:
        if not isinstance(other, Predicate):
            return NotImplemented
        return Or((*_flattened(self, Or), *_flattened(other, Or)))

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a predicate is neither true nor false: combine predicates with &, | and ~, in parentheses")


_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """`column op value`, with op one of `=`, `<>`, `<=>`, `<`, `<=`, `>`, `>=`.

    `is_negated` means NOT (column op value). It is kept because NOT (x < 1) and x >= 1 differ for NaN in some engines.
    """

    op: str
    column: ColumnPath
    value: Any
    is_negated: bool = False

    @property
    def plain_op(self) -> str:
        """The operator with NOT applied. It is right for values with a total order; NULL is handled elsewhere."""
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
    """True if all parts are."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({p})" if isinstance(p, Or) else str(p) for p in self.parts) or "TRUE"


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True if any part is."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({p})" if isinstance(p, And) else str(p) for p in self.parts) or "FALSE"


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """True if the part is false, unknown if it is unknown."""

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
    """A part that is not understood, so it might match any row."""

    text: str

    def __str__(self) -> str:
        return self.text


def _flattened(predicate: Predicate, kind: type[And] | type[Or]) -> tuple[Predicate, ...]:
    """Return the parts of an AND (or OR), so that long chains do not nest."""
    return predicate.parts if isinstance(predicate, kind) else (predicate,)


MAX_DEPTH = 100
"""How deep a condition may nest; a chain of ANDs, or of ORs, counts as one level."""


def require_shallow(predicate: Predicate) -> Predicate:
    """Raise `PredicateError` for a predicate that is nested too deeply."""
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

    __hash__: ClassVar[None] = None  # type: ignore[assignment]
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
        """`column IN (values)`, of the values of any container that `lookup` takes, but for files."""
        return In(self._path, list_of(values, self._path))

    def between(self, low: object, high: object) -> Predicate:
        """`column BETWEEN low AND high`, both included."""
        return between_of(self._path, low, high)

    def is_null(self) -> Predicate:
        """`column IS NULL`."""
        return IsNull(self._path)

    def is_not_null(self) -> Predicate:
        """`column IS NOT NULL`."""
        return IsNull(self._path, is_negated=True)


def col(path: str) -> Column:
    """Return the column at a dotted path, to build a condition on.

    Args:
        path: The path, such as `user.id`. A name with a dot in it goes in backticks.

    Returns:
        A `Column`, which has the comparison operators and `isin`, `between`, `is_null`, `is_not_null`, `eq_null_safe`.

    Raises:
        PredicateError: The path does not parse.

    Examples:
        >>> from parquet_bloom import col
        >>> str((col("id") == "x") & ~col("day").is_null())
        "id = 'x' AND NOT (day IS NULL)"
    """
    return Column(path)


def between_of(column: ColumnPath, low: Any, high: Any) -> Predicate:
    """Return `low <= column <= high`."""
    low, high = listed_together((low, high))
    return And((Comparison(">=", column, low), Comparison("<=", column, high)))


def list_of(values: Any, column: ColumnPath) -> tuple[Any, ...]:
    """Return the literals of a list, an array or a column. Raises `PredicateError` for anything else."""
    try:
        found = values_of(values, column[-1], what="values")
    except TypeError as error:
        raise PredicateError(f"IN needs a list of values: {error}") from error
    return tuple(found if isinstance(found, list) else map(python_value, found))


def listed_together(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the literals of one list with what they mean together: in IN (1, 0.5e0) the 1 may be a float, too.

    Spark also compares a whole list as DOUBLE if it contains both exact numbers and text.
    """
    kinds = {type(value) for value in values}
    if len(kinds) <= 1 and not kinds & {Decimal, Number}:
        return values
    literals = [normalize_literal(value) for value in values]
    floats = [literal.bits for literal in literals if isinstance(literal, FloatLiteral)]
    decimals = [literal for literal in literals if isinstance(literal, DecimalLiteral)]
    whole = [abs(literal) for literal in literals if isinstance(literal, int)]
    if (whole or decimals) and any(isinstance(value, Text) for value in values):
        floats.append(64)
    bits = min(floats, default=None) if len(floats) < len(values) else None
    scale = max((literal.scale for literal in decimals), default=None) if len(values) > 1 else None
    if bits is None and scale is None:
        return values
    digits = max([literal.integer_digits for literal in decimals] + [len(str(min(n, _HUGE))) for n in whole], default=1)
    return tuple(
        value if isinstance(literal, FloatLiteral) else Listed(value, bits, scale, digits)
        for value, literal in zip(values, literals, strict=True)
    )


_HUGE = 10**100


# ---- pyarrow-style filters ---------------------------------------------------------------

_FILTER_OPS = {"=": "=", "==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def from_filters(filters: Sequence[Any]) -> Predicate:
    """Return the predicate of `[(column, op, value), …]` (all hold) or a list of such lists (any does).

    The operators are pyarrow's: `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`. As in pyarrow, `not in` is
    true for NULL.

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
        return In(path, list_of(value, path))
    if op == "not in":
        return Or((In(path, list_of(value, path), is_negated=True), IsNull(path)))
    raise PredicateError(f"{op!r} is not a filter operator; use one of {', '.join([*_FILTER_OPS, 'in', 'not in'])}")


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
    return (
        "NULL"
        if value is None
        else str(value)
        if isinstance(value, Text | Decimal | Listed)
        else literal_text(value, repr)
    )
