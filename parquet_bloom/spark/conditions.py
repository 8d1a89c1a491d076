"""Spark's conditions as our predicates; what is not certainly understood becomes `Opaque`.

An `Opaque` part prunes nothing. Spark applies the whole condition again to what it reads, so all that is lost is speed.
The other parts of an AND prune beside it, whatever it is: a row for which one of them is not true is not returned.
Spark does the same, also beside parts that are not deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicates.parsing import opaque_parts, parse_sql, to_predicate
from parquet_bloom.predicates.tree import And, Comparison, In, IsNull, Not, Opaque, Or, Predicate
from parquet_bloom.spark.expressions import predicate_of
from parquet_bloom.spark.session import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

LOG = logging.getLogger("parquet_bloom.spark")

# With one of these on, and the sign in the text, Spark parses the text differently than our parser.
_OTHER_GRAMMARS = {
    "spark.sql.parser.escapedStringLiterals": "\\",
    "spark.sql.ansi.doubleQuotedIdentifiers": '"',
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "'",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "",  # any text
}

# With any other value of these, Spark reads other values or types than the file has.
_PLAIN_TIMES = {
    "spark.sql.parquet.inferTimestampNTZ.enabled": ("true",),
    "spark.sql.parquet.int96AsTimestamp": ("true",),
    "spark.sql.parquet.int96TimestampConversion": ("false",),
    "spark.sql.legacy.parquet.nanosAsLong": ("false",),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("EXCEPTION", "CORRECTED"),
    "spark.sql.parquet.int96RebaseModeInRead": ("EXCEPTION", "CORRECTED"),
}
_REBASING = "spark.sql.parquet.datetimeRebaseModeInRead"
_TIMES = ("date", "timestamp", "timestamp_ntz")

_OF_READING = {
    "datetimerebasemode": "spark.sql.parquet.datetimeRebaseModeInRead",
    "int96rebasemode": "spark.sql.parquet.int96RebaseModeInRead",
}
"""Options of a read, in lower case -> the settings whose place they take."""


def quoted_name(name: str) -> str:
    """Return a column's name in backticks."""
    return "`{}`".format(name.replace("`", "``"))


def is_column(where: Any) -> bool:
    """Return whether `where` is PySpark's Column, classic or Connect."""
    return any(kind.__module__.startswith("pyspark.sql") and kind.__name__ == "Column" for kind in type(where).__mro__)


def understood(
    settings: Settings, where: Any, frame: Callable[[], DataFrame] | None = None, *, strict: bool = True
) -> Predicate:
    """Return the condition as our predicate.

    A Column needs a `frame` whose columns it names; with Spark Connect only what `functions.expr` made from text is
    understood. Raises `PredicateError` for text that our parser does not understand; without `strict` that is `Opaque`.
    """
    if is_column(where):
        if settings.is_connect:
            return _of_connect(settings, getattr(where, "_expr", None))
        return Opaque(str(where)) if frame is None else predicate_of(where, frame())
    if isinstance(where, str):
        if "${" in where:  # Spark replaces it by a setting's value, inside quotes, too
            return Opaque(where)
        for key, sign in _OTHER_GRAMMARS.items():
            if sign in where and settings.is_on(key):
                return Opaque(f"{where} ({key} is set)")
        try:
            return parse_sql(where)
        except PredicateError as error:
            if strict:
                raise
            return Opaque(f"{where} ({error})")
    return to_predicate(where)


def warn_of_unused(settings: Settings, where: Any, predicate: Predicate) -> None:
    """Log the parts of a condition that exclude no file."""
    if not (parts := opaque_parts(predicate)):
        return
    advice = "; with Spark Connect, pass the condition as text or as functions.expr(text)"
    LOG.warning(
        "parts of the condition that exclude no files: %s%s",
        "; ".join(map(_shortened, parts)),
        advice if is_column(where) and settings.is_connect else "",
    )


_MOST_SHOWN = 200


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"


def _of_connect(settings: Settings, expression: Any) -> Predicate:
    kind, text = type(expression).__name__, getattr(expression, "_expr", None)
    if kind == "SQLExpression" and isinstance(text, str):
        return understood(settings, text, strict=False)
    arguments = getattr(expression, "_args", None)
    if kind == "UnresolvedFunction" and isinstance(arguments, list):
        parts = tuple(_of_connect(settings, argument) for argument in arguments)
        match getattr(expression, "_name", None), parts:
            case "and", (_, _):
                return And(parts)
            case "or", (_, _):
                return Or(parts)
            case "not", (part,):
                return Not(part)
    return Opaque(str(expression))


def is_rebasing(settings: Settings) -> bool:
    """Return whether this session shifts old dates of files that do not name their calendar."""
    return settings.get(_REBASING, _PLAIN_TIMES[_REBASING][0]) not in _PLAIN_TIMES[_REBASING]


def odd_times(settings: Settings, options: Mapping[str, Any] | None = None) -> list[str]:
    """Return the settings, and the options of a read, that change dates or timestamps while they are read."""
    odd = [key for key, plain in _PLAIN_TIMES.items() if settings.get(key, plain[0]) not in plain]
    for name, value in (options or {}).items():
        if (key := _OF_READING.get(name.lower())) and str(value).upper() not in _PLAIN_TIMES[key]:
            odd.append(name)
    return odd


def without_nulls(predicate: Predicate) -> Predicate:
    """Return the condition without its tests that NULL can pass."""

    def check(test: Predicate, path: tuple[str, ...]) -> Predicate:
        is_of_null = isinstance(test, IsNull) or (isinstance(test, Comparison) and test.op == "<=>")
        return Opaque(str(test)) if is_of_null else test

    return _mapped(predicate, check)


def trusted(
    settings: Settings,
    predicate: Predicate,
    schema: StructType,
    options: Mapping[str, Any] | None = None,
    doubtful: frozenset[str] = frozenset(),
) -> Predicate:
    """Return the condition without its tests of columns that this session may read as other values.

    Those are dates and timestamps, if settings or `options` of the read change them; names that are not in the schema;
    and `doubtful` columns.
    """
    odd = odd_times(settings, options)
    case_sensitive = settings.case_sensitive
    types = {
        name if case_sensitive else name.casefold(): kind
        for name, kind in ((field.name, field.dataType.simpleString()) for field in schema)
    }
    unsure = doubtful if case_sensitive else {name.casefold() for name in doubtful}

    def check(test: Predicate, path: tuple[str, ...]) -> Predicate:
        name = path[0] if case_sensitive else path[0].casefold()
        kind = None if name in unsure else types.get(name)
        if kind is None:
            return Opaque(str(test))
        if odd and any(time in kind for time in _TIMES):
            return Opaque(f"{test} ({odd[0]} is set)")
        return test

    return _mapped(predicate, check)


def _mapped(node: Predicate, check: Callable[[Predicate, tuple[str, ...]], Predicate]) -> Predicate:
    match node:
        case And(parts):
            return And(tuple(_mapped(part, check) for part in parts))
        case Or(parts):
            return Or(tuple(_mapped(part, check) for part in parts))
        case Not(part):
            return Not(_mapped(part, check))
        case Comparison() | In() | IsNull():
            return check(node, node.column)
    return node
