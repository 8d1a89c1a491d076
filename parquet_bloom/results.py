"""What every verb's result can do: become plain data, JSON or an Arrow table."""

from __future__ import annotations

import dataclasses
import html
import inspect
import math
import types
import typing
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

_R = TypeVar("_R", bound="Record")

SCHEMA_VERSION = 1
"""The version of the dictionaries. It is raised when a field is removed or changes its meaning, not for a new field."""


class Record:
    """A frozen dataclass that can be shown as plain data."""

    __slots__ = ()

    SHOWN: ClassVar[tuple[str, ...]] = ()
    """The fields that its repr shows unless they are empty; all fields if none is named."""

    def __repr__(self) -> str:
        assert dataclasses.is_dataclass(self)
        names = self.SHOWN or [field.name for field in dataclasses.fields(self)]
        shown = {name: value for name in names if (value := getattr(self, name)) not in (None, "", ())}
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in shown.items())})"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready data: tuples are lists, numbers that JSON lacks are None."""
        assert dataclasses.is_dataclass(self)
        plain = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"schema_version": SCHEMA_VERSION, **plain}


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class FailedFile(Record):
    """A file that could not be done, and why, where a result has no row of its own for it."""

    path: str
    error: str


class Table:
    """A result that is rows; `rows` are records of one class.

    Arrow's libraries take it as it is: `pa.table(result)`, `pl.DataFrame(result)`, `duckdb.sql("from result")`.
    It has no truth value: `assert verify(path)` would pass whatever was found. `TRUTH` is the property to use.
    """

    __slots__ = ()

    TRUTH: ClassVar[str] = ".rows"
    NOUN: ClassVar[str] = "row"
    """What its repr calls a row."""

    def __bool__(self) -> bool:
        """Raise `TypeError`, which names the property to use."""
        raise TypeError(f"{type(self).__name__} has no truth value; use {self.TRUTH}")

    if TYPE_CHECKING:

        @property
        def rows(self) -> tuple[Record, ...]: ...  # noqa: D102

        @property
        def errors(self) -> tuple[Any, ...]: ...  # noqa: D102

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._said()}, {count_text(len(self.errors), 'error')}>"

    def _said(self) -> str:
        """Return the outcome in a few words."""
        return count_text(len(self), self.NOUN)

    def _repr_html_(self) -> str:
        names = [field.name for field in dataclasses.fields(_record_of(type(self)))]
        rows = ("".join(f"<td>{_cell(getattr(row, name))}</td>" for name in names) for row in self.rows[:HTML_ROWS])
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        more = f"<p>and {len(self) - HTML_ROWS:,} more</p>" if len(self) > HTML_ROWS else ""
        return f"<p>{html.escape(repr(self))}</p><table><tr>{head}</tr>{body}</table>{more}"

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each row's `to_dict()`."""
        return [row.to_dict() for row in self.rows]

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, whose schema does not depend on them."""
        import pyarrow as pa

        schema = pa.schema([("schema_version", pa.int64()), *arrow_schema(_record_of(type(self)))])
        rows = [row.to_dict() for row in self.rows]
        try:
            return pa.Table.from_pylist(rows, schema)
        except UnicodeEncodeError:
            return pa.Table.from_pylist([_in_unicode(row) for row in rows], schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


NOT_UNICODE = "its name is not UTF-8, and Arrow has no other text; rename it"


def in_unicode(name: str) -> str:
    r"""Return a file's name with bytes that are not UTF-8 escaped, as in `\xff`: Arrow has no text for them."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _in_unicode(plain: Any) -> Any:
    match plain:
        case str():
            return in_unicode(plain)
        case list():
            return [_in_unicode(item) for item in plain]
        case dict():
            return {key: _in_unicode(value) for key, value in plain.items()}
    return plain


def printable(text: str) -> str:
    """Return a text in one line that a terminal shows as it is: control characters are escaped, as in `\\x1b`.

    So are those that change the direction of writing, and bytes of file names that are not UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1].replace(*_BYTE) for one in text)


_BYTE = r"\udc", r"\x"  # what Python reads of a file's name, and what it is


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return f"<{count_text(len(value), 'item')}>"
    if isinstance(value, str) and len(value) > _SHORT:
        # The end of a path says more than its beginning.
        value = f"…{value[1 - _SHORT :]}" if "/" in value.partition(" ")[0] else f"{value[: _SHORT - 1]}…"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


_SHORT = 60

HTML_ROWS = 20
"""Rows that a notebook shows of a result."""


def count_text(n: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def names_text(names: Sequence[str], most: int = 8) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def size_text(n: int) -> str:
    """Return a size with its unit."""
    value, units = float(n), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{n:,} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def percent_text(rate: float | None) -> str:
    """Return a rate in percent, nothing for None."""
    return "" if rate is None else f"{100 * rate:.2f}%" if rate >= 0.0001 or rate == 0 else f"{100 * rate:.1e}%"


def _cell(value: Any) -> str:
    """Return a field as HTML; lists by their length, as they may be long."""
    text = f"{count_text(len(value), 'item')}" if isinstance(value, tuple) else "" if value is None else str(value)
    return html.escape(text)


def _record_of(table: type[Table]) -> type:
    """Return the class of a result's rows, which is what its `rows` are annotated with."""
    rows = inspect.getattr_static(table, "rows", None)
    function = getattr(rows, "fget", None) or getattr(rows, "func", None)
    hint = typing.get_type_hints(function)["return"] if function else typing.get_type_hints(table)["rows"]
    record: type = typing.get_args(hint)[0]
    return record


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# ---- records as rows ---------------------------------------------------------------------


def arrow_schema(record: type) -> pa.Schema:
    """Return the schema of a class of records as rows: numbers in 64 bits, tuples as lists, records as structs."""
    import pyarrow as pa

    return pa.schema(_arrow_fields(record))


def _arrow_fields(record: type) -> list[pa.Field]:
    import pyarrow as pa

    hints = typing.get_type_hints(record)
    return [pa.field(field.name, _arrow_type(hints[field.name])) for field in dataclasses.fields(record)]


def _arrow_type(hint: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(hint, types.UnionType):  # with None
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    if typing.get_origin(hint) is typing.Literal:
        return _arrow_type(type(typing.get_args(hint)[0]))
    if typing.get_origin(hint) is tuple:
        return pa.list_(_arrow_type(typing.get_args(hint)[0]))
    if dataclasses.is_dataclass(hint):
        return pa.struct(_arrow_fields(typing.cast(type, hint)))
    return {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), bytes: pa.binary()}[hint]


def to_row(record: Record) -> dict[str, Any]:
    """Return a record's fields as a row of `arrow_schema`."""
    row = record.to_dict()
    del row["schema_version"]
    return row


def from_row(record: type[_R], row: dict[str, Any]) -> _R:
    """Return the record that `to_row` made a row of; NaN and infinities have become None there."""
    hints = typing.get_type_hints(record)
    return record(**{name: _restored(hints[name], row[name]) for name in hints if name in row})


def _restored(hint: Any, value: Any) -> Any:
    if isinstance(hint, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    if value is None:
        return None
    if typing.get_origin(hint) is tuple:
        return tuple(_restored(typing.get_args(hint)[0], item) for item in value)
    if dataclasses.is_dataclass(hint):
        return from_row(typing.cast("type[Record]", hint), value)
    return value
