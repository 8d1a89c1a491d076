"""Conditions as Spark's users write them, made into ours; what is not surely understood becomes `Opaque`.

An `Opaque` part prunes nothing. Spark applies the whole condition again to what it reads, so all that is lost is speed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate import And, Comparison, In, IsNull, Not, Opaque, Or, Predicate, parse_sql, to_predicate
from parquet_bloom.spark.session import is_connect, setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LOG = logging.getLogger("parquet_bloom.spark")

# With one of these on, and the sign in the text, Spark reads the text otherwise than our parser does.
_OTHER_GRAMMARS = {
    "spark.sql.parser.escapedStringLiterals": "\\",
    "spark.sql.ansi.doubleQuotedIdentifiers": '"',
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "'",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "",  # any text
}

# A value of these other than the one here, and Spark reads another value than the file holds, or another type.
_PLAIN_TIMES = {
    "spark.sql.parquet.inferTimestampNTZ.enabled": ("true",),
    "spark.sql.parquet.int96AsTimestamp": ("true",),
    "spark.sql.parquet.int96TimestampConversion": ("false",),
    "spark.sql.legacy.parquet.nanosAsLong": ("false",),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("EXCEPTION", "CORRECTED"),
    "spark.sql.parquet.int96RebaseModeInRead": ("EXCEPTION", "CORRECTED"),
}
_TIMES = ("date", "timestamp", "timestamp_ntz")


def is_column(where: Any) -> bool:
    """Return whether `where` is PySpark's Column, classic or Connect."""
    return any(kind.__module__.startswith("pyspark.sql") and kind.__name__ == "Column" for kind in type(where).__mro__)


def understood(
    spark: SparkSession, where: Any, frame: Callable[[], DataFrame] | None = None, *, strict: bool = True
) -> Predicate:
    """Return the condition as ours.

    A Column takes a `frame` whose columns it names, and a classic session; it is `Opaque` otherwise. Raises
    `PredicateError` for text that is no condition to our parser; without `strict` that is `Opaque`, too.
    """
    if is_column(where):
        text = None if frame is None or is_connect(spark) else _text_of(where, frame())
        if text is None:
            LOG.info("the Column %s prunes nothing: it cannot be turned into text here", where)
            return Opaque(str(where))
        return understood(spark, text, strict=False)
    if isinstance(where, str):
        if "${" in where:  # which Spark replaces by a setting's value, inside of quotes, too
            return Opaque(where)
        for key, sign in _OTHER_GRAMMARS.items():
            if sign in where and setting(spark, key) == "true":
                LOG.info("the condition prunes nothing: %s is set", key)
                return Opaque(where)
        try:
            return parse_sql(where)
        except PredicateError as error:
            if strict:
                raise
            LOG.info("the condition prunes nothing: %s", error)
            return Opaque(where)
    return to_predicate(where)


def _text_of(column: Any, frame: DataFrame) -> str | None:
    """Return a Column as SQL, as Spark understands it over these columns."""
    from pyspark.errors import PySparkException

    try:
        plan = frame.where(column)._jdf.queryExecution().analyzed()
        return str(plan.condition().sql())
    except PySparkException:
        raise  # the column is wrong, and the user is told so
    except Exception as error:
        LOG.info("a Column could not be turned into text: %s", error)
        return None


def trusted(spark: SparkSession, predicate: Predicate, schema: StructType) -> Predicate:
    """Return the condition without its tests of columns that this session reads in a way of its own.

    Those are dates and timestamps under settings that make others of them, and names that are no column of the schema.
    """
    odd = [key for key, plain in _PLAIN_TIMES.items() if setting(spark, key, plain[0]) not in plain]
    case_sensitive = setting(spark, "spark.sql.caseSensitive") == "true"
    types = {
        name if case_sensitive else name.casefold(): kind
        for name, kind in ((field.name, field.dataType.simpleString()) for field in schema)
    }

    def check(test: Predicate, path: tuple[str, ...]) -> Predicate:
        kind = types.get(path[0] if case_sensitive else path[0].casefold())
        if kind is None or (odd and any(time in kind for time in _TIMES)):
            return Opaque(str(test))
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
