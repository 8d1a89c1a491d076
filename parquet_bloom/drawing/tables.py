"""The tables of the page: rows of plain values, which the page's script sorts and filters, and their text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from parquet_bloom.drawing.figures import ENGINES, Column, Ranked
from parquet_bloom.results import percent_text, printable, size_text

SHOWN = 15
"""Rows of each table that are there without the script, and before "show more"."""

MOST = 20_000
"""Rows that a table has at most: what is left out is said."""


class Head(NamedTuple):
    """A column of a table: its title, how its values are written, and whether only a row's details show it."""

    title: str
    kind: str
    is_detail: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in their first order; the id of row 5 is the table's `letter` and 5.

    Paths are shown from `folder` on.
    """

    letter: str
    title: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[Any]]
    num_all: int
    folder: str = ""

    @property
    def first(self) -> list[list[str]]:
        """The first rows as text, without the details."""
        return [
            [self._text(value, head.kind) for value, head in zip(row, self.heads, strict=True) if not head.is_detail]
            for row in self.rows[:SHOWN]
        ]

    def _text(self, value: Any, kind: str) -> str:
        text = text_of(value, kind)
        return text.removeprefix(self.folder) if kind == "path" else text

    @property
    def shown(self) -> list[Head]:
        """The columns that are no details."""
        return [head for head in self.heads if not head.is_detail]


def _table(
    letter: str, title: str, heads: Sequence[Head], rows: Sequence[Any], row: Callable[[Any], list[Any]]
) -> Table:
    written = [row(one) for one in rows[:MOST]]
    used = [at for at in range(len(heads)) if at == 0 or any(one[at] is not None for one in written)]
    return Table(letter, title, [heads[at] for at in used], [[one[at] for at in used] for one in written], len(rows))


_TEXTS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "long": str,
    "path": str,
    "count": lambda value: f"{value:,}",
    "estimate": lambda value: "full" if value == _FULL else f"~{value:,.0f}",
    "bytes": size_text,
    "rate": percent_text,
    "list": ", ".join,
}
_FULL = -1
"""In place of infinity, which JSON lacks."""


def text_of(value: Any, kind: str) -> str:
    """Return a value as it is shown; the page's script writes it in the same way."""
    return "" if value is None else _TEXTS[kind](value)


def as_json(tables: Iterable[Table], folder: str) -> str:
    """Return tables for the page's script; each text is there once, and none ends the element that it is in."""
    texts: dict[str, int] = {}

    def plain(value: Any) -> Any:
        match value:
            case str():
                return texts.setdefault(value, len(texts))
            case list():
                return [plain(one) for one in value]
            case float() if not math.isfinite(value):
                return None
        return value

    rows = {
        table.letter: {
            "heads": [[head.title, head.kind, head.is_detail] for head in table.heads],
            "rows": [[plain(value) for value in row] for row in table.rows],
        }
        for table in tables
    }
    whole = json.dumps({"shown": SHOWN, "folder": folder, "tables": rows, "texts": list(texts)}, separators=(",", ":"))
    return whole.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _estimate(ndv: float | None) -> float | None:
    return _FULL if ndv == float("inf") else ndv


def _text(text: str | None) -> str | None:
    return None if text is None else printable(text)


def _group(row_group: int | None) -> str | int:
    return "file" if row_group is None else row_group


# ---- the tables --------------------------------------------------------------------------


def columns(all_columns: Sequence[Column]) -> Table:
    """Return a row for each column, with filters or without."""
    heads = [
        Head("column", "text"),
        Head("type", "text"),
        Head("filters", "count"),
        Head("coverage", "rate"),
        Head("size", "bytes"),
        Head("of its data", "rate"),
        Head("worst rate", "rate"),
        Head("distinct values", "estimate"),
        Head("data", "bytes", True),
        Head("files with the column", "count", True),
        Head("best rate", "rate", True),
        Head("mean fill", "rate", True),
        Head("size if folded to 1 %", "bytes", True),
        Head("format", "text", True),
    ]

    def row(column: Column) -> list[Any]:
        fpp, ndv = column.spread("fpp"), column.spread("ndv")
        fills = [one.info.fill for one in column.filters if one.info.fill is not None]
        could = column.could_have
        size = column.num_bytes
        return [
            printable(column.label),
            printable(column.type),
            len(column.sized),
            len(column.sized) / could if could else None,
            size,
            size / column.num_bytes_of_data if column.num_bytes_of_data and size else None,
            fpp and fpp.high,
            ndv.middle if ndv else _FULL if any(one.info.ndv == float("inf") for one in column.filters) else None,
            column.num_bytes_of_data,
            column.num_files,
            fpp and fpp.low,
            sum(fills) / len(fills) if fills else None,
            sum(one.info.folds_to or 0 for one in column.filters) or None,
            column.format,
        ]

    return _table("c", "Columns", heads, all_columns, row)


def filters(all_filters: Sequence[Ranked], is_verified: bool) -> Table:
    """Return a row for each filter."""
    heads = [
        Head("column", "text"),
        Head("file", "path"),
        Head("row group", "count"),
        Head("size", "bytes"),
        Head("distinct values", "estimate"),
        Head("fill", "rate"),
        Head("real rate", "rate"),
        *([Head("verify", "text")] if is_verified else []),
        Head("note", "long"),
        Head("values", "count", True),
        Head("worst block's rate", "rate", True),
        Head("size if folded to 1 %", "bytes", True),
        Head("type", "text", True),
        Head("format", "text", True),
        Head("used by", "list", True),
        Head("careful", "long", True),
        Head("offset", "count", True),
        Head("length in the footer", "count", True),
    ]

    def row(one: Ranked) -> list[Any]:
        info = one.info
        return [
            printable(info.column),
            printable(info.path),
            info.row_group,
            info.num_bytes,
            _estimate(info.ndv),
            info.fill,
            info.fpp,
            *([one.verified.verdict if one.verified else "not checked"] if is_verified else []),
            _text(one.note),
            info.num_values,
            info.worst_block_fpp,
            info.folds_to,
            printable(info.type),
            info.format,
            list(info.used_by) or ["no engine known here"],
            "; ".join(map(printable, info.hazards)) or None,
            info.offset or None,
            info.length,
        ]

    return _table("f", "Filters, the worst first", heads, all_filters, row)


def engines(all_columns: Sequence[Column]) -> Table:
    """Return for each column that has filters of Parquet's which engines use them."""
    heads = [
        Head("column", "text"),
        Head("type", "text"),
        *(Head(engine, "text") for engine in ENGINES),
        Head("careful", "long"),
    ]

    def row(column: Column) -> list[Any]:
        used = [column.num_used_by(engine) for engine in ENGINES]
        total = len(column.sized)
        answers = ("yes" if one == total else f"{one:,} of {total:,}" if one else "no" for one in used)
        return [
            printable(column.label),
            printable(column.type),
            *answers,
            "; ".join(map(printable, column.hazards)) or None,
        ]

    return _table("e", "Engines", heads, [one for one in all_columns if one.sized and one.format == "Parquet"], row)


def files(all_files: Sequence[Any]) -> Table:
    """Return a row for each file."""
    heads = [
        Head("file", "path"),
        Head("size", "bytes"),
        Head("rows", "count"),
        Head("row groups", "count"),
        Head("filters", "count"),
        Head("size of filters", "bytes"),
        Head("of the file", "rate"),
        Head("worst rate", "rate"),
        Head("error", "long"),
        Head("column chunks", "count", True),
        Head("written by", "long", True),
    ]

    def row(file: Any) -> list[Any]:
        sized = [one.num_bytes for one in file.filters if one.num_bytes is not None]
        rates = [one.fpp for one in file.filters if one.fpp is not None]
        return [
            printable(file.path),
            file.size,
            file.num_rows,
            file.num_row_groups,
            len(sized),
            sum(sized),
            sum(sized) / file.size if file.size else None,
            max(rates, default=None),
            _text(file.error),
            file.num_column_chunks,
            _text(file.created_by),
        ]

    return _table("p", "All files", heads, all_files, row)


def findings(verification: Sequence[Any]) -> Table:
    """Return a row for each filter that is not ok, and for each file that could not be checked."""
    heads = [
        Head("column", "text"),
        Head("file", "path"),
        Head("row group", "count"),
        Head("verdict", "text"),
        Head("values missing", "count"),
        Head("example", "text"),
        Head("cause", "long"),
        Head("values", "count", True),
        Head("NaNs missing", "count", True),
    ]
    found = [one for file in verification for one in file.filters if one.verdict != "ok"]
    failed = [file for file in verification if file.error]

    def row(one: Any) -> list[Any]:
        if hasattr(one, "verdict"):
            return [
                printable(one.column),
                printable(one.path),
                one.row_group,
                one.verdict,
                one.num_missing or None,
                _text(one.example),
                _text(one.cause),
                one.num_values,
                one.num_nans_missing or None,
            ]
        return [None, printable(one.path), None, "not checked", None, None, _text(one.error), None, None]

    return _table("n", "Findings", heads, [*found, *failed], row)


def verdicts(rows: Sequence[Any]) -> Table:
    """Return a row for each row group of a pruning."""
    heads = [
        Head("file", "path"),
        Head("row group", "count"),
        Head("must be read", "text"),
        Head("excluded by", "text"),
        Head("reason", "long"),
        Head("rows", "count"),
        Head("size", "bytes"),
    ]

    def row(one: Any) -> list[Any]:
        size = one.stop - one.start
        kept = "yes" if one.is_kept else "no"
        return [printable(one.path), one.row_group, kept, one.by or None, _text(one.reason), one.num_rows, size]

    return _table("v", "Row groups", heads, rows, row)


def advice(rows: Sequence[Any]) -> Table:
    """Return a row for each column that `advise` judged."""
    heads = [
        Head("column", "text"),
        Head("advice", "text"),
        Head("why", "long"),
        Head("row groups read now", "estimate"),
        Head("with filters", "estimate"),
        Head("rate", "rate"),
        Head("adds", "bytes"),
        Head("of the data", "rate"),
        Head("type", "text", True),
        Head("row groups", "count", True),
        Head("filters now", "count", True),
        Head("distinct values in a row group", "estimate", True),
        Head("bytes read now", "estimate", True),
        Head("bytes read with filters", "estimate", True),
    ]

    def row(one: Any) -> list[Any]:
        return [
            printable(one.column),
            one.advice,
            printable(one.reason),
            one.groups_now,
            one.groups_with,
            one.fpp,
            one.filter_bytes,
            one.share,
            printable(one.type),
            one.num_row_groups,
            one.num_filters,
            one.ndv,
            one.bytes_now,
            one.bytes_with,
        ]

    return _table("a", "Columns, those to add first", heads, rows, row)


def excluded(all_files: Sequence[Any]) -> Table:
    """Return a row for each file that the table's metadata excluded."""
    heads = [Head("file", "path"), Head("size", "bytes"), Head("excluded by", "text"), Head("reason", "long")]
    return _table(
        "x",
        "Files that the table's metadata excludes",
        heads,
        [file for file in all_files if file.excluded is not None],
        lambda file: [printable(file.path), file.size, file.by or None, _text(file.excluded)],
    )
