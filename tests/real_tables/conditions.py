"""Random conditions over the columns of a frame, in SQL that Spark and parquet_bloom read alike."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Sequence
from typing import Any

from real_tables.rows import RID


class Column:
    """A column that conditions are about: how SQL names it, its type in Spark, and values to ask for."""

    def __init__(self, name: str, kind: str, values: Sequence[Any]) -> None:
        self.name, self.kind, self.values = name, kind, values

    def literal(self, rng: random.Random) -> str:
        """Return one of the values, or one that is near, as SQL."""
        value = rng.choice(self.values)
        if rng.random() < 0.25:
            value = _near(rng, value)
        return to_sql(value)


def _near(rng: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + rng.choice([-1, 1, 13])
    if isinstance(value, str):
        return rng.choice([value + "0", value + "x", value.swapcase()])
    if isinstance(value, datetime.date):
        return value + datetime.timedelta(days=rng.choice([-1, 1, 40]))
    return value


def to_sql(value: Any) -> str:
    """Return a literal."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    return repr(value) if isinstance(value, float) else str(value)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def columns(frame: Any, rows: Sequence[Any], strangers: Sequence[Any] = ()) -> list[Column]:
    """Return what can be asked of a frame whose rows these are.

    `strangers` are rows of the same table at other times: values that were under other names, or are gone.
    """
    found = []
    for field in frame.schema.fields:
        if field.name.startswith("_") and field.name != "_hoodie_record_key":
            continue
        if field.dataType.typeName() == "struct":
            parts = [(f"{quoted(field.name)}.{quoted(each.name)}", each) for each in field.dataType.fields]
            owners = [row[field.name] for row in rows if row[field.name] is not None]
            found += [_column(name, each, [owner[each.name] for owner in owners]) for name, each in parts]
        else:
            found.append(_column(quoted(field.name), field, [row[field.name] for row in rows]))
    pool = [value for row in strangers for value in row if value is not None]
    for column in found:
        if column.kind in ("long", "integer", "string"):
            kind = str if column.kind == "string" else int
            more = [value for value in pool if type(value) is kind and not (kind is int and abs(value) >= 2**31)]
            column.values = [*column.values, *more[: len(column.values) // 3 + 5]]
    return [column for column in found if column.values]


def _column(name: str, field: Any, values: list[Any]) -> Column:
    usable = [value for value in values if value is not None and value == value]  # no NaN: it has no literal
    kind = field.dataType.typeName()
    return Column(name, kind, usable if isinstance(usable[0] if usable else None, _PLAIN) or not usable else [])


_PLAIN = (int, float, str, datetime.date, decimal.Decimal)


def condition(rng: random.Random, asked: Sequence[Column], depth: int = 0) -> str:
    """Return a condition; most are about one column and few values, for they are what excludes."""
    shape = rng.random()
    if depth < 2 and shape < 0.3:
        joint = rng.choice([" AND ", " OR "])
        parts = [condition(rng, asked, depth + 1) for _ in range(rng.choice([2, 2, 3]))]
        return "(" + joint.join(parts) + ")"
    if depth < 2 and shape < 0.36:
        return f"NOT ({condition(rng, asked, depth + 1)})"
    column = rng.choice(asked)
    name, value = column.name, lambda: column.literal(rng)
    shape = rng.random()
    if shape < 0.4:
        return f"{name} = {value()}"
    if shape < 0.55:
        return f"{name} IN ({', '.join(value() for _ in range(rng.choice([1, 2, 3, 8])))})"
    if shape < 0.7:
        return f"{name} {rng.choice(['<', '<=', '>', '>='])} {value()}"
    if shape < 0.78:
        if column.kind == "string":  # Spark has no BETWEEN of texts with a collation
            return f"({name} >= {value()} AND {name} <= {value()})"
        return f"{name} BETWEEN {value()} AND {value()}"
    if shape < 0.84:
        return f"{name} IS NULL"
    if shape < 0.88:
        return f"{name} IS NOT NULL"
    if shape < 0.92:
        return f"{name} <=> {value()}"
    if shape < 0.95:
        return f"{name} <> {value()}"
    if shape < 0.97 or column.kind != "string":
        return f"{name} NOT IN ({value()}, {value()})"
    return f"{name} LIKE {to_sql(str(rng.choice(column.values))[:3] + '%')}"


def conditions(rng: random.Random, asked: Sequence[Column], count: int) -> list[str]:
    return [condition(rng, asked) for _ in range(count)]


__all__ = ["RID", "Column", "columns", "conditions", "quoted", "to_sql"]
