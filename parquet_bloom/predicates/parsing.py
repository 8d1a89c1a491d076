"""SQL in Spark's dialect becomes a predicate."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from parquet_bloom.errors import PredicateError
from parquet_bloom.format.schema import ColumnPath
from parquet_bloom.predicates.tree import (
    MIRRORED,
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Number,
    Opaque,
    Or,
    Predicate,
    Text,
    TimestampText,
    between_of,
    from_filters,
    normalized,
    require_shallow,
)


def to_predicate(where: Any) -> Predicate:
    """Return the predicate of SQL text, a pyarrow-style filter list, a pyarrow `Expression`, or a predicate itself."""
    if isinstance(where, Predicate):
        return require_shallow(where)
    if isinstance(where, str):
        return parse_sql(where)
    if isinstance(where, list | tuple):
        return from_filters(where)
    if type(where).__module__.startswith("pyarrow.") and type(where).__name__ == "Expression":
        from parquet_bloom.predicates.expressions import from_expression

        return require_shallow(from_expression(where))
    raise PredicateError(
        "a condition is SQL text, a list of filters, a pyarrow Expression, or built with col(), not "
        f"{type(where).__name__}"
    )


# ---- SQL ---------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def parse_sql(text: str) -> Predicate:
    """Return the predicate of a SQL condition in Spark's dialect.

    Text literals get their type from the column that they are compared with. Functions, arithmetic, subqueries and
    comparisons of two columns become `Opaque`. Raises `PredicateError` with the position if the text does not parse.
    """
    plain = _plain(text)
    return _by_sqlglot(text) if plain is None else plain


def _by_sqlglot(text: str) -> Predicate:
    from sqlglot.errors import SqlglotError

    try:
        parsed = _parsed(text)
        if len(parsed) != 1 or parsed[0] is None:
            empty = "the condition is empty"
            raise PredicateError(
                f"{_shortened(text)!r} is not a single condition" if text.strip() else empty, position=0
            )
        return require_shallow(_Translator().predicate(parsed[0]))
    except SqlglotError as error:
        raise _parse_error(text, error) from None
    except RecursionError:
        raise PredicateError("the condition is nested too deeply") from None


PARAMETER = object()
"""Stands in a condition of a statement for a value that the statement does not have, such as `?`."""


class Conditions(NamedTuple):
    """The conditions of some SQL statements, and what was not understood: the first error, of how many statements."""

    found: list[Predicate]
    num_statements: int
    num_errors: int
    first_error: PredicateError | None


def conditions_in(statements: str, dialect: str) -> Conditions:
    """Return the conditions in the WHERE and JOIN clauses of SQL statements, columns without their tables' names.

    Parameters, such as `?` and `:id`, are `PARAMETER`. Statements that do not parse are counted. Raises `ValueError`
    for a dialect that sqlglot does not know.
    """
    from sqlglot import Dialect

    Dialect.get_or_raise(dialect)
    found: list[Predicate] = []
    errors: list[PredicateError] = []
    pieces = _statements_of(statements, dialect)
    for line, piece in pieces:
        try:
            found += _conditions_of(piece, dialect)
        except PredicateError as error:
            errors.append(PredicateError(f"the statement at line {line:,}: {error}"))
    return Conditions(found, len(pieces), len(errors), errors[0] if errors else None)


def _statements_of(text: str, dialect: str) -> list[tuple[int, str]]:
    """Return the statements with the lines that they begin in; semicolons end them."""
    from sqlglot import Dialect, TokenType
    from sqlglot.errors import SqlglotError

    try:
        tokens = Dialect.get_or_raise(dialect).tokenize(text)
        stops = [token.start for token in tokens if token.token_type == TokenType.SEMICOLON]
    except SqlglotError:  # a quote without its other one: which semicolons are text is not known
        stops = [found.start() for found in re.finditer(";", text)]
    pieces = []
    for start, stop in zip([0, *(stop + 1 for stop in stops)], [*stops, len(text)], strict=True):
        piece = text[start:stop]
        first = start + len(piece) - len(piece.lstrip())
        pieces.append((text.count("\n", 0, first) + 1, piece.strip()))
    return [(line, piece) for line, piece in pieces if piece]


def _conditions_of(text: str, dialect: str) -> list[Predicate]:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    found = []
    try:
        with _silent():
            parsed = sqlglot.parse(text, read=dialect)
        for statement in filter(None, parsed):
            tables = {name for table in statement.find_all(exp.Table) for name in (table.name, table.alias)}
            for column in statement.find_all(exp.Column):
                if column.table in tables:
                    for part in ("table", "db", "catalog"):
                        column.set(part, None)
            clauses = [clause.this for clause in statement.find_all(exp.Where)]
            clauses += [on for join in statement.find_all(exp.Join) if (on := join.args.get("on"))]
            found += [require_shallow(_StatementTranslator().predicate(clause)) for clause in clauses]
    except SqlglotError as error:
        raise _parse_error(text, error, "it") from None
    except RecursionError:
        raise PredicateError("it is nested too deeply") from None
    except (ArithmeticError, AttributeError, LookupError) as error:
        raise PredicateError(f"it cannot be parsed: {error!r}") from error
    return found


def _parsed(text: str) -> list[Any]:
    from sqlglot import Dialect, exp

    try:
        with _silent():
            return Dialect.get_or_raise("spark").parse_into(exp.Condition, text)
    except (ArithmeticError, AttributeError, LookupError) as error:  # it computes with some literals, odd ones as well
        raise PredicateError(f"{_shortened(text)!r} cannot be parsed: {error!r}") from error


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep sqlglot from warning of what it does not know: the result says that."""
    here, logger = threading.get_ident(), logging.getLogger("sqlglot")

    def is_of_others(record: logging.LogRecord) -> bool:
        return record.thread != here

    logger.addFilter(is_of_others)
    try:
        yield
    finally:
        logger.removeFilter(is_of_others)


def _plain(text: str) -> Predicate | None:
    """Return the predicate of `column op literal AND …` without sqlglot, whose import takes longer than many a `prune`.

    None for all other text: only names, whole numbers and text without quotes or backslashes in it are read here.
    """
    parts: list[Predicate] = []
    end = 0
    while end < len(text) or not parts:
        match = _PLAIN.match(text, end)
        if match is None or match["column"].lower() in _NOT_COLUMNS:
            return None
        value = Text(match["text"]) if match["number"] is None else int(match["number"])
        parts.append(Comparison("<>" if match["op"] == "!=" else match["op"], (match["column"],), value))
        end = match.end()
    return parts[0] if len(parts) == 1 else And(tuple(parts))


_PLAIN = re.compile(
    r" *(?P<column>[A-Za-z_][A-Za-z0-9_]*) *(?P<op>=|<>|!=|<=>|<=|>=|<|>) *"
    r"(?:(?P<number>-?[0-9]{1,18})|'(?P<text>[^'\\]*)')(?: *\Z| +(?i:AND)(?= ))"
)

_WORDS = """
    alter and any array as between call case connect_by_root create cross current_catalog current_database current_date
    current_schema current_time current_timestamp current_user distinct drop else except execute explain false fetch for
    from glob grant having if ilike inner insert intersect interval into join lateral like list localtime localtimestamp
    map minus not notnull null nullable object on optimize or outer partitioned_by prepare qualify range regexp rename
    returning revoke rlike rollback select serdeproperties session_user show some struct tablesample then true uncache
    union using vacuum values when where with xor
"""
_NOT_COLUMNS = frozenset(_WORDS.split())
"""Names that are something else in SQL, at least to sqlglot."""


def _parse_error(text: str, error: Any, what: str = "the condition") -> PredicateError:
    details = getattr(error, "errors", None) or [{}]
    description = details[0].get("description") or str(error).splitlines()[0]
    if "<class " in description:  # sqlglot names its own classes where an operand is missing
        description = "something is missing"
    if "Unexpected token" in description and (token := details[0].get("highlight")):
        description = f"{token!r} is not expected here; text goes in single quotes, a name with spaces in backticks"
    if what == "the condition" and re.match(r"\s*select\b", text, re.IGNORECASE):
        description = "give only what follows WHERE"
    if description.startswith("Error tokenizing"):
        description = "a literal in it, a quote or a comment is not whole"
    line, column = details[0].get("line"), details[0].get("col")
    position = None
    if line and column:
        starts = [0, *(end.end() for end in re.finditer(r"\r\n|\r|\n", text))]  # all three end a line to sqlglot
        position = min(starts[min(line, len(starts)) - 1] + column - 1, len(text))
    at = f" at character {position + 1}" if position is not None else ""
    return PredicateError(f"{what} does not parse{at}: {description.rstrip('.')}", position=position)


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
                    return In(self.column(node.this), tuple(map(self.literal, node.expressions)))
                case exp.Between() if not node.args.get("symmetric"):
                    column = self.column(node.this)
                    return between_of(column, self.literal(node.args["low"]), self.literal(node.args["high"]))
                case exp.Is() if isinstance(node.expression, exp.Null):
                    return IsNull(self.column(node.this))
            if type(node) in self._ops:
                return self.comparison(self._ops[type(node)], node.left, node.right)
        except _NotLiteral:
            pass
        return Opaque(node.sql(dialect="spark"))

    def comparison(self, op: str, left: Any, right: Any) -> Predicate:
        if not isinstance(_bare(left), self._exp.Column | self._exp.Dot):
            op, left, right = MIRRORED[op], right, left
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
            case exp.HexString() if re.fullmatch("[0-9A-Fa-f]*", node.this):
                return bytes.fromhex(node.this if len(node.this) % 2 == 0 else "0" + node.this)
            case exp.Neg():
                return _minus(self.literal(node.this))
            case exp.Concat() if all(isinstance(part, exp.Literal) and part.is_string for part in node.expressions):
                return _joined([part.this for part in node.expressions])
            case exp.Cast():
                return self.cast(self.literal(node.this), node.to)
        raise _NotLiteral

    def cast(self, value: Any, to: Any) -> Any:
        """Return a typed literal such as DATE '2024-01-01' or 5L, if the cast changes only the type."""
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
                parameters = [param.name for param in to.expressions] or ["10", "0"]
                if all(re.fullmatch("[0-9]{1,4}", text) for text in parameters):
                    return _decimal(value, list(map(int, parameters)))
        raise _NotLiteral


class _StatementTranslator(_Translator):
    def literal(self, node: Any) -> Any:
        if isinstance(_bare(node), self._exp.Placeholder | self._exp.Parameter):
            return PARAMETER
        return super().literal(node)


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
    """Return the text of adjacent string literals, such as 'it''s'.

    Up to 3.x, Spark joins them; from 4.0, two without a space between them contain a quote. sqlglot does not tell which
    of these it parsed, nor the kind of quote, so the text has all of these readings.
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
    """Yield the operands of a chain of ANDs, or of ORs, without recursion and through parentheses."""
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


# ---- for pruning -------------------------------------------------------------------------


def why_unused(where: Any) -> str | None:
    """Return why a condition cannot prune any file; None if it can.

    >>> why_unused("id = 5 OR name LIKE 'a%'")
    "nothing in the condition can be used to prune: name LIKE 'a%'"
    """
    predicate = normalized(to_predicate(where))
    if _can_be_used(predicate):
        return None
    parts = opaque_parts(predicate)
    advice = ""
    if isinstance(where, str) and '"' in where:
        advice = "; in Spark's SQL, double quotes make text: write column names without them, or in `backticks`"
    elif names := next((names for part in parts if (names := re.fullmatch(r"([\w.]+) = (\w+)", part))), None):
        is_word = names[1].lower() in _NOT_COLUMNS
        advice = f"; {names[1]} is a word of SQL: write the column `{names[1]}` in backticks" if is_word else ""
        advice = advice or f"; text needs single quotes: {names[1]} = '{names[2]}'"
    return f"nothing in the condition can be used to prune: {', '.join(parts)}{advice}"


def opaque_parts(predicate: Predicate) -> list[str]:
    """Return the parts of a condition that are not used to prune."""
    return list(dict.fromkeys(_opaque(normalized(predicate))))


def _can_be_used(node: Predicate) -> bool:
    match node:
        case And(parts):
            return any(map(_can_be_used, parts))
        case Or(parts):
            return all(map(_can_be_used, parts))
    return not isinstance(node, Opaque)


def _opaque(node: Predicate) -> Iterator[str]:
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _opaque(part)
        case Opaque(text):
            yield text
