"""`erase_plan`: the statements by which a table's own engine erases rows, for tables that `erase` refuses, too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar

from parquet_bloom.errors import ParquetBloomError, UnsupportedError
from parquet_bloom.format.footer import read_footer
from parquet_bloom.format.schema import ColumnPath, LeafColumn, parse_path
from parquet_bloom.results import FailedFile, Record, Table
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import StorageOptions
from parquet_bloom.tables import Erasable, open_history
from parquet_bloom.values.encoding import literal_text, parse_literal
from parquet_bloom.values.interchange import python_value
from parquet_bloom.values.literals import Timestamp
from parquet_bloom.values.stored_keys import Keys
from parquet_bloom.verbs.reading_keys import read_keys, require_no_null

MOST_KEYS = 100
"""Keys that stand in a statement."""


@dataclass(frozen=True, slots=True, repr=False)
class Step(Record):
    """A statement of Spark, and what it is for."""

    statement: str
    why: str


@dataclass(frozen=True, slots=True, repr=False)
class Steps(Table):
    """The result of `erase_plan`: statements in the order in which they are to be run. Nothing has run them."""

    NOUN: ClassVar[str] = "statement"

    rows: tuple[Step, ...]

    @property
    def errors(self) -> tuple[FailedFile, ...]:
        """None: what cannot be planned is raised."""
        return ()


def erase_plan(
    path: Any,
    column: str,
    keys: Any,
    *,
    catalog: str | None = None,
    storage_options: StorageOptions = None,
) -> Steps:
    """Return the statements by which Spark takes the rows with `keys`, and all that is left of them, out of a table.

    They are for tables that `erase` refuses, and are right for others, too. `erased` tells whether they have worked.

    Args:
        path: A Delta or Iceberg table: its directory, its name in the catalog, or pyiceberg's own object.
        column: The leaf column that holds the keys.
        keys: The keys, as `erase` takes them. More than 100 are not in the statement, which then names a table of them.
        catalog: A catalog of pyiceberg's configuration; `path` is then a name in it, such as `db.events`.
        storage_options: Options for fsspec, such as credentials.

    Returns:
        A `Steps`: a row for each statement. `<catalog>`, and other names like that, are to be replaced.

    Raises:
        FileNotFoundError: The path names nothing.
        LiteralError: A key is NULL, or is not of the column's type.
        UnsupportedError: The path is no Delta or Iceberg table, or it is not known which version is current.

    Examples:
        >>> import deltalake, pyarrow
        >>> deltalake.write_deltalake("people", pyarrow.table({"id": [6, 7, 8]}))
        >>> [row.statement[:18] for row in parquet_bloom.erase_plan("people", "id", [7])]
        ['DELETE FROM delta.', 'REORG TABLE delta.', 'VACUUM delta.`...', 'ALTER TABLE delta.']
    """
    where = parse_path(column)
    read = read_keys(keys, where[-1])
    require_no_null(read)
    kind, table, why_unknown = open_history(path, catalog=catalog, storage_options=storage_options)
    if table is None:
        engines = f"delete the rows with {kind}'s own engines" if kind in ("Hudi", "Paimon") else why_unknown
        raise UnsupportedError(engines or f"{path} is not a Delta or Iceberg table; erase its files themselves")
    condition = _condition(where, read, _leaf(table, where, storage_options))
    return Steps(tuple(Step(each.sql, each.why) for each in table.statements.steps(condition)))


def _leaf(table: Erasable, path: ColumnPath, storage_options: StorageOptions) -> LeafColumn | None:
    """Return the column in a live file that has it."""
    sources, _ = table.snapshot.found(storage_options)
    for source in sources:
        try:
            return table.snapshot.find(run(source, read_footer(source.size, guess=source.footer_guess)), path)
        except (ParquetBloomError, OSError):
            continue
    return None


def _condition(path: ColumnPath, keys: Keys, leaf: LeafColumn | None) -> str:
    name = ".".join(part if re.fullmatch(r"[A-Za-z_]\w*", part, re.ASCII) else _quoted(part, "`") for part in path)
    if len(keys) > MOST_KEYS:
        return f"{name} IN (SELECT {_quoted(path[-1], '`')} FROM <table of the keys>)"
    literals: Sequence[Any] = keys.literals
    if keys.are_text and leaf is not None:
        literals = [parse_literal(leaf, str(text)) for text in literals]
    return f"{name} IN ({', '.join(_literal(one) for one in literals)})"


def _literal(value: Any) -> str:
    """Return a value as Spark's SQL has it."""
    plain = python_value(value) if hasattr(value, "as_py") else value
    match plain:
        case bool():
            return str(plain).upper()
        case int():
            return str(plain)
        case float():
            return f"{plain!r}D"
        case Decimal():
            return f"{plain:f}BD"
        case bytes():
            return f"X'{plain.hex().upper()}'"
        case datetime() | Timestamp():
            return f"TIMESTAMP '{plain}'"
        case date():
            return f"DATE '{plain}'"
    text = literal_text(plain).replace("\\", "\\\\")
    return _quoted(text, "'", escaped="\\'")


def _quoted(text: str, quote: str, *, escaped: str | None = None) -> str:
    return f"{quote}{text.replace(quote, escaped or quote * 2)}{quote}"


__all__ = ["Step", "Steps", "erase_plan"]
