"""What commands print: sentences, tables, JSON, a progress bar."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import click

import parquet_bloom
from parquet_bloom.cli.terminal import (
    Column,
    Table,
    echo,
    is_quiet,
    is_terminal,
    number,
    printing,
    styled,
    width_of,
    wrapped,
)
from parquet_bloom.errors import ParquetBloomError, with_arguments
from parquet_bloom.results import SCHEMA_VERSION, count_text, names_text, percent_text, printable, size_text

if TYPE_CHECKING:
    import pyarrow as pa

    from parquet_bloom.results import Record
    from parquet_bloom.results import Table as Result

LISTED = 60
"""Up to so many filters of a file `inspect` prints a line each, else a line for each column."""


# ---- outputs -----------------------------------------------------------------------------


def print_rows(
    result: Result,
    output_format: str,
    records: Iterable[Record],
    without_rows: Iterable[parquet_bloom.FailedFile | parquet_bloom.FileInfo | parquet_bloom.VerifiedFile] = (),
) -> None:
    """Print a result's rows as CSV or Parquet, or as JSON its records, an object per line.

    In CSV and Parquet the errors of files that have no row go to standard error.
    """
    if output_format == "json":
        for record in records:
            echo(json.dumps(_shown(record.to_dict())))
    else:
        table = result.to_arrow()
        if _HIDDEN:
            table = table.from_pylist(_shown(table.to_pylist()), schema=table.schema)
        _write_arrow(table.to_batches(), table.schema, output_format)
        for file in without_rows:
            if file.error:
                _refuse(file.path, file.error)


def _write_arrow(batches: Iterable[pa.RecordBatch], schema: pa.Schema, output_format: str) -> None:
    """Write record batches to standard output as CSV or Parquet."""
    if sys.stdout is None:
        raise OSError(f"standard output is closed, and --format {output_format} writes to it")
    stream = sys.stdout.buffer
    if output_format == "parquet":
        from pyarrow import parquet

        with parquet.ParquetWriter(stream, schema) as file:
            for batch in batches:
                file.write_batch(batch)
    else:
        import pyarrow as pa
        from pyarrow import csv

        fields = [field if _fits_csv(field.type) else field.with_type(pa.string()) for field in schema]
        with csv.CSVWriter(stream, pa.schema(fields)) as lines:
            for batch in batches:
                columns = [column if _fits_csv(column.type) else _as_text(column) for column in batch.columns]
                with printing(sys.stdout):
                    lines.write_batch(pa.record_batch(columns, schema=pa.schema(fields)))
                    stream.flush()


def _fits_csv(kind: pa.DataType) -> bool:
    """Return whether pyarrow's CSV shows values of this type as the other formats do."""
    import pyarrow.types as kinds

    return any(is_kind(kind) for is_kind in (kinds.is_string, kinds.is_integer, kinds.is_floating, kinds.is_boolean))


def _as_text(column: pa.Array) -> pa.Array:
    """Return values as text, lists as JSON."""
    import pyarrow as pa

    from parquet_bloom.values.encoding import literal_text
    from parquet_bloom.values.interchange import python_values

    def text(value: Any) -> str | None:
        if isinstance(value, list | dict):
            return json.dumps(value, default=_json_value)
        return None if value is None else literal_text(value)

    return pa.array(map(text, python_values(column)), pa.string())


def say(text: str, indent: int = 0, *, color: str | None = None, err: bool = False) -> None:
    """Print a sentence; on a terminal its lines are broken between words.

    With --quiet only warnings, which have a `color`, and errors are printed.
    """
    if is_quiet() and not (color or err):
        return
    text = printable(without_options(with_arguments(text, _SPELLED)))
    stream = sys.stderr if err else sys.stdout
    width = width_of(stream)
    lines = [" " * indent + text] if width is None else wrapped(text, width, indent=indent)
    echo("\n".join(styled(line, stream, color=color) for line in lines), err=err)


def say_lines(text: str, *, err: bool = False) -> None:
    """Print sentences that are lines, some of them indented."""
    for line in text.split("\n"):
        unindented = line.lstrip(" ")
        say(unindented, len(line) - len(unindented), err=err)


def spell_as(command: click.Command) -> None:
    """Print the names of arguments as the options of this command, and of those below it."""
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        spell_as(below)
    options = (param for param in command.params if isinstance(param, click.Option))
    _SPELLED.update((str(option.name), max(option.opts, key=len)) for option in options)


_SPELLED: dict[str, str] = {}


class Warnings(logging.Handler):
    """Prints the warnings that the library logs, each once: with Spark, files are listed twice."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        try:
            text = record.getMessage()
            if text not in self._printed:
                self._printed.add(text)
                say(text, color="yellow", err=True)
        except Exception:
            self.handleError(record)


def hide_options(options: Mapping[str, Any]) -> None:
    """Never print the values of those storage options that are secrets."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            hide_options(value)
        elif isinstance(value, str) and len(value) >= _SECRET_LENGTH and _SECRET.search(name):
            _HIDDEN.add(value)


def without_options(text: str) -> str:
    """Return a text without the secrets among the storage options."""
    for secret in _HIDDEN:
        text = text.replace(secret, "***")
    return text


def _shown(value: Any) -> Any:
    """Return plain data whose texts are without them; what JSON escapes would not be found in its text."""
    if isinstance(value, str):
        return without_options(value)
    if isinstance(value, dict):
        return {name: _shown(part) for name, part in value.items()}
    return list(map(_shown, value)) if isinstance(value, list | tuple) else value


_SECRET = re.compile("pass|secret|token|key|sas|credential|connection|auth", re.IGNORECASE)
_SECRET_LENGTH = 6  # what is shorter may be any word of a sentence
_HIDDEN: set[str] = set()


def _refuse(path: str, error: str) -> None:
    say(f"{path}: {error}", color="red", err=True)


_K = TypeVar("_K")
_V = TypeVar("_V")


def _grouped(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, list[_V]]:
    """Return the values of each key, in the order of their first ones."""
    groups: dict[_K, list[_V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _print_refused(files: Iterable[Any], shared: Container[str] = ()) -> None:
    """Print the files that were refused; of many with the same reason, the first one and how many there are."""
    for reason, alike in _grouped((file.error, file) for file in files if file.error).items():
        names = [_name(file) for file in alike]
        for name in names if len(names) <= _MOST_NAMED else [_of_files(names)]:
            _refuse(name, f"refused: {reason}")
        for file in alike:
            _print_notes(file, shared)


_MOST_NAMED = 3


def _of_files(names: Sequence[str]) -> str:
    others = f" and {count_text(len(names) - 1, 'more file')}, which --json names" if len(names) > 1 else ""
    return f"{names[0]}{others}"


def _name(file: Any) -> str:
    """Return what a changed file is called: with the new one, if that is another."""
    output = getattr(file, "output", None) or file.path
    return str(file.path) if output == file.path else f"{file.path} -> {output}"


def _print_notes(file: Any, shared: Container[str] = ()) -> None:
    """Print the notes on a file, but not those that it shares with others."""
    for note in file.notes:
        if note not in shared:
            say(note, 2, color="yellow")


def _print_outcomes(
    files: Iterable[Any],
    outcome: Callable[[Any], str],
    shared: Container[str] = (),
    name: Callable[[Any], str] = _name,
) -> None:
    """Print what became of each changed file, unless that is nothing, and then the refused ones."""
    for file in files:
        if not file.error:
            if said := outcome(file):
                say(f"{name(file)}: {said}")
            _print_notes(file, shared)
    _print_refused(files, shared)


def _would(file: Any) -> str:
    return "would be " if file.status == "planned" else ""


def _show(columns: Sequence[Column], records: Iterable[Any]) -> None:
    """Print a table, if it has any rows."""
    if is_quiet() or not (records := list(records)):
        return
    lines, left_out = Table(columns, records).lines(sys.stdout)
    for line in lines:
        echo(line)
    if left_out:
        say(f"The terminal is too narrow for {', '.join(left_out)}; --json shows all.", 2)


def print_inspection(inspection: parquet_bloom.Inspection, each: bool, *, verbose: bool = False) -> None:
    """Print what `inspect` returned."""
    for file in inspection.files:
        if file.error:
            _refuse(file.path, file.error)
            continue
        writer = file.created_by.partition(" (build")[0]
        num_filters = sum(f.num_bytes is not None or f.problem is not None for f in file.filters)  # that are known of
        say(
            f"{file.path}: {size_text(file.size)}, {count_text(file.num_rows, 'row')}, "
            f"{count_text(file.num_row_groups, 'row group')}, {count_text(num_filters, 'filter')}"
            f"{f', by {writer}' if writer else ''}"
        )
        readable = [f for f in file.filters if f.num_bytes is not None]
        if each or len(file.filters) <= LISTED:
            _show(_FILTER, readable)
        else:
            _show(_FILTERS_OF_COLUMN, _grouped((_column(f), f) for f in readable).items())
            say("Sums and means over the row groups; --all lists each filter.", 2)
        if verbose:
            fills = _grouped((f.column, f.fill) for f in file.filters if f.fill is not None)
            _show(_FILLS, ((column, sorted(values)) for column, values in fills.items()))
        _print_uses(file)
    damaged = sum(file.is_damaged for file in inspection.files)
    _print_total(len(inspection.files), [(len(inspection.rows), "filter")], damaged and f"{damaged:,} damaged")


def _is_ours(f: parquet_bloom.FilterInfo) -> bool:
    return f.format == "Parquet"


def _column(f: parquet_bloom.FilterInfo) -> str:
    return f.column if _is_ours(f) else f"{f.column} ({f.format})"


def _ndv(f: parquet_bloom.FilterInfo) -> str:
    if f.ndv is None or f.ndv == float("inf"):
        return "full" if _is_ours(f) else ""
    return f"~{f.ndv:,.0f}"


_FILTER = (
    number("group", lambda f: str(f.row_group) if _is_ours(f) else "file"),
    Column("column", _column),
    number("bytes", lambda f: f"{f.num_bytes:,}"),
    number("values", lambda f: f"{f.num_values:,}", least=3),
    number("ndv", _ndv),
    number("fill", lambda f: percent_text(f.fill)),
    number("fpp", lambda f: percent_text(f.fpp)),
    number("worst", lambda f: percent_text(f.worst_block_fpp), least=2),
    number("folds to", lambda f: "" if f.folds_to is None else f"{f.folds_to:,}", least=1),
)


def _sum(field: str) -> Callable[[tuple[str, list[parquet_bloom.FilterInfo]]], str]:
    return lambda row: f"{sum(getattr(f, field) or 0 for f in row[1]):,}"


def _mean(field: str) -> Callable[[tuple[str, list[parquet_bloom.FilterInfo]]], str]:
    return lambda row: percent_text(sum(getattr(f, field) or 0 for f in row[1]) / len(row[1]))


_FILTERS_OF_COLUMN = (
    Column("column", lambda row: row[0]),
    number("filters", lambda row: f"{len(row[1]):,}"),
    number("bytes", _sum("num_bytes")),
    number("values", _sum("num_values"), least=3),
    number("fill", _mean("fill")),
    number("mean fpp", _mean("fpp")),
    number("worst", lambda row: percent_text(max(f.worst_block_fpp or 0 for f in row[1])), least=2),
    number("fold to", _sum("folds_to"), least=1),
)
_FILLS = (
    Column("column", lambda row: row[0]),
    Column("fill, 0 to 100 %", lambda row: f"|{bars(row[1])}|", "unbroken"),
    number("filters", lambda row: f"{len(row[1]):,}", least=1),
    number("least", lambda row: percent_text(row[1][0]), least=3),
    number("median", lambda row: percent_text(row[1][len(row[1]) // 2]), least=2),
    number("most", lambda row: percent_text(row[1][-1]), least=4),
)


def bars(shares: Sequence[float]) -> str:
    """Return a histogram in a line: a sign for each twentieth of 0 to 1, as high as shares in it are frequent."""
    counts = [0] * 20
    for share in shares:
        counts[min(int(share * 20), 19)] += 1
    signs = "▁▂▃▄▅▆▇█" if "utf" in (getattr(sys.stdout, "encoding", None) or "").lower() else ".:-=+*#@"
    return "".join(signs[-(-count * len(signs) // max(counts)) - 1] if count else " " for count in counts)


def _print_uses(file: parquet_bloom.FileInfo) -> None:
    used = _grouped(
        (f.used_by, f"{f.column} ({f.type})") for f in file.filters if f.num_bytes is not None and _is_ours(f)
    )
    for engines, columns in used.items():
        say(f"used by {', '.join(engines) or 'no engine known here'}: {', '.join(dict.fromkeys(columns))}", 2)
    _print_hazards(file.filters, 2)
    problems = [(f, f"not usable: {f.problem}") for f in file.filters if f.problem]
    problems += [(f, f"not used: {f.untrusted}") for f in file.filters if f.untrusted]
    for (column, problem), groups in _grouped(((f.column, why), f.row_group) for f, why in problems).items():
        say(f"{'whole file' if groups == [None] else _groups(groups)}, {column}: {problem}", 2, color="yellow")


def _print_hazards(filters: Iterable[parquet_bloom.FilterInfo | parquet_bloom.VerifiedFilter], indent: int = 0) -> None:
    for hazard, columns in _grouped((hazard, one.column) for one in filters for hazard in one.hazards).items():
        say(f"careful: {hazard}: {names_text(list(dict.fromkeys(columns)))}", indent, color="yellow")


def print_report(written: parquet_bloom.Report) -> None:
    """Print where the page of `report` is, and what is wrong."""
    say(f"{written.path}: {size_text(written.num_bytes)}, {count_text(len(written), 'filter')}")
    if written.verification is not None and (findings := written.verification.findings):
        say(f"{count_text(len(findings), 'filter')} not ok", 2, color="red")
    if written.errors:
        say(f"{count_text(len(written.errors), 'file')} damaged, or not checked or pruned", 2, color="yellow")


def print_probe(answer: parquet_bloom.Probe) -> None:
    """Print what `probe` answered."""
    from parquet_bloom.verbs.verdicts import CANNOT_MATCH, MIGHT_MATCH

    files = _grouped((row.path, row) for row in answer.rows)
    for path, rows in files.items():
        kept = sum(row.answer == MIGHT_MATCH for row in rows)
        answers = _grouped(((row.answer, row.reason), row.row_group) for row in rows)
        if [None] in answers.values():
            say(f"{path}: might match")
        else:
            say(f"{path}: {kept:,} of {count_text(len(rows), 'row group')} might match")
        for (said, reason), groups in answers.items():
            say(f"{said}, {_groups(groups)}: {reason}", 2, color="green" if said == CANNOT_MATCH else None)
    kept = sum(any(row.answer == MIGHT_MATCH for row in rows) for rows in files.values())
    _print_total(len(files), [], f"{kept:,} might match")


_KEPT_FILE = (
    Column("file", lambda row: row[0].path),
    number("read", lambda row: str(len(row[1]))),
    number("of", lambda row: str(len(row[0].row_groups))),
    number("rows", lambda row: f"{sum(group.num_rows or 0 for group in row[1]):,}", least=1),
    number("bytes", lambda row: size_text(sum(group.stop - group.start for group in row[1]))),
    Column("row groups", lambda row: _groups(group.row_group for group in row[1]), "text"),
)


def print_pruning(pruned: parquet_bloom.Pruning) -> None:
    """Print what `prune` keeps."""
    totals = pruned.totals
    kept = [file for file in pruned.kept_files if file.row_groups]
    _show(_KEPT_FILE, ((file, [group for group in file.row_groups if group.is_kept]) for file in kept))
    whole = size_text(totals.bytes_not_pruned)
    size = f"{size_text(totals.bytes_kept)} of {size_text(totals.bytes)}"
    say(
        f"{totals.files_kept:,} of {count_text(totals.files, 'file')} and {totals.row_groups_kept:,} of "
        f"{count_text(totals.row_groups, 'row group')} must be read: {size}"
        + (f", and {count_text(totals.files_not_pruned, 'whole file')} of {whole}" if totals.files_not_pruned else "")
        + f"; {totals.row_groups_by_statistics:,} excluded by statistics, {totals.row_groups_by_filters:,} by filters"
        + (f", {totals.row_groups_by_data:,} by reading columns" if totals.row_groups_by_data else "")
        + (f"; {count_text(totals.files_excluded, 'file')} excluded by table metadata" if totals.files_excluded else "")
    )


def print_notes_on_pruning(pruned: parquet_bloom.Pruning, *, why_kept: bool, not_pruned: bool) -> None:
    """Print what a condition could not be used for, or why everything is kept; then which files were not pruned."""
    if pruned.unused is not None:
        say(pruned.unused, color="yellow", err=True)
    elif why_kept:
        _print_why_all_is_kept(pruned)
    if not_pruned:
        for file in pruned.errors:
            say(f"{file.path}: not pruned: {file.not_pruned}", color="yellow", err=True)


def _print_why_all_is_kept(pruned: parquet_bloom.Pruning) -> None:
    """Print why no row group of several is skipped: often a filter is missing, or a time zone."""
    totals = pruned.totals
    if not (1 < totals.row_groups == totals.row_groups_kept) or totals.files_excluded:
        return
    reasons = Counter(row.reason for row in pruned.kept_row_groups)
    ((reason, _),) = reasons.most_common(1)
    often, more = ("", "") if len(reasons) == 1 else (", most often because", "; --explain tells why of each")
    say(f"nothing is skipped{often}: {reason}{more}", color="yellow", err=True)


_BESIDE = "The table's files cannot have filters added; `parquet-bloom index create` writes them to an index beside it."
_HOW_TO_ADD = {
    None: "`parquet-bloom add --auto` with the same PATH adds these.",
    "Delta": "`parquet-bloom add --table --auto` with the same PATH adds these.",
    "Iceberg": "`parquet-bloom add --table --auto` with the same PATH adds these.",
    "Hudi": _BESIDE,
    "Paimon": _BESIDE,
}


_WORTH = (
    Column("column", lambda row: row.column),
    number("fpp", lambda row: percent_text(row.fpp or 0), least=2),
    number("adds", lambda row: size_text(row.filter_bytes or 0)),
    number("of data", lambda row: percent_text(row.share or 0), least=1),
    number("row groups", lambda row: f"{row.groups_now:,.0f}"),
    number("to", lambda row: f"{row.groups_with:,.1f}"),
    number("bytes", lambda row: size_text(round(row.bytes_now or 0))),
    number("to ", lambda row: size_text(round(row.bytes_with or 0))),
)
_SAVED = number("saved", lambda row: f"{row.saved:,.2f}")
_WHY = (
    Column("column", lambda row: row.column),
    Column("why", lambda row: with_arguments(row.reason, _SPELLED), "text"),
)


def print_advice(advice: parquet_bloom.Advice, *, with_price: bool, can_add: bool) -> None:
    """Print what `advise` returned: the columns to add, with figures, then the others, with reasons.

    `can_add`: with what was given, `add --auto` chooses the same columns.
    """
    print_errors((file.path, file.error) for file in advice.errors)
    by_verdict = _grouped((row.advice, row) for row in advice)
    is_sampled = advice.num_files_read < advice.num_files
    say(
        f"{count_text(advice.num_files, 'file')}, {count_text(advice.num_row_groups, 'row group')}, "
        f"{size_text(advice.num_bytes)}"
        + (f"; {advice.num_files_read:,} of the files were looked at" if is_sampled else "")
    )
    if rows := by_verdict.get("add"):
        say("worth adding; a lookup reads fewer row groups and bytes:")
        _show((*_WORTH, _SAVED) if with_price else _WORTH, rows)
        if with_price:
            say("Saved is the price of what 1,000 lookups no longer read.", 2)
        if can_add:
            say(_HOW_TO_ADD.get(advice.table_kind, _HOW_TO_ADD[None]), 2)
    for verdict in ("left out", "has filters", "not worth it", "not possible"):
        if rows := by_verdict.get(verdict):
            say(f"{verdict}:")
            _show(_WHY, rows)


class _Counted:
    """Batches on their way, and the `total` of those that have passed."""

    def __init__(self, batches: Iterable[pa.RecordBatch], count: Callable[[pa.RecordBatch], int]) -> None:
        self._batches, self._count = batches, count
        self.total = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.total += self._count(batch)
            yield batch


def _echo_json(line: Mapping[str, Any], shown: Callable[[Any], str]) -> None:
    echo(json.dumps(line, ensure_ascii=False, default=shown))


def print_candidates(candidates: parquet_bloom.Lookup, output_format: str) -> int:
    """Print the candidates of `lookup` as they come; return how many there were."""
    from parquet_bloom.values.encoding import literal_text

    counted = _Counted(candidates, lambda batch: batch.num_rows - batch.column("path").null_count)
    if output_format in ("csv", "parquet"):
        _write_arrow(counted, candidates.schema, output_format)
        return counted.total
    for row in chain.from_iterable(map(_python_rows, counted)):
        if output_format == "json":
            _echo_json({"schema_version": SCHEMA_VERSION, **row}, literal_text)
        elif row["path"] is None:
            echo(f"{printable(literal_text(row['key']))}\tabsent")
        else:
            group = "whole file" if row["row_group"] is None else f"row group {row['row_group']}"
            echo(f"{printable(literal_text(row['key']))}\t{printable(row['path'])}\t{group}")
    return counted.total


def print_absent(absent: parquet_bloom.Absent, output_format: str) -> None:
    """Print the absent keys, one per line."""
    from parquet_bloom.values.encoding import literal_text

    if output_format in ("csv", "parquet"):
        table = absent.to_arrow()
        _write_arrow(table.to_batches(), table.schema, output_format)
        return
    for key in absent:
        if output_format == "json":
            _echo_json({"schema_version": SCHEMA_VERSION, "key": key}, literal_text)
        else:
            echo("" if key is None else printable(literal_text(key)))


TABLE_ROWS = 1000
"""A table of rows is printed in parts of about so many."""


def print_found(found: parquet_bloom.Found, output_format: str) -> int:
    """Print rows as they come; return how many there were."""
    counted = _Counted(found, lambda batch: batch.num_rows)
    if output_format in ("csv", "parquet"):
        _write_arrow(counted, found.schema, output_format)
    elif output_format == "json":
        for row in chain.from_iterable(map(_python_rows, counted)):
            _echo_json(row, _json_value)
    else:
        waiting: list[pa.RecordBatch] = []
        for batch in counted:
            waiting.append(batch)
            if sum(part.num_rows for part in waiting) >= TABLE_ROWS:
                _print_rows_of(waiting, found)
                waiting = []
        _print_rows_of(waiting, found)
        say(count_text(counted.total, "row"), err=True)
    return counted.total


def _python_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    from parquet_bloom.values.interchange import python_values

    for values in zip(*map(python_values, batch.columns), strict=True):
        yield dict(zip(batch.schema.names, values, strict=True))


def _json_value(value: Any) -> str:
    from parquet_bloom.values.encoding import literal_text

    return value.hex() if isinstance(value, bytes) else literal_text(value)


def _print_rows_of(batches: list[pa.RecordBatch], found: parquet_bloom.Found) -> None:
    """Print rows as a table, in which the columns of the condition stand out."""
    import pyarrow.types as kinds

    def column(field: pa.Field) -> Column:
        is_number = kinds.is_integer(field.type) or kinds.is_floating(field.type)
        style = "bold red" if field.name in found.condition_columns else ""
        kind: Any = "number" if is_number else "unbroken"
        return Column(field.name, lambda row: _cell(row[field.name]), kind, style=style)

    _show([column(field) for field in found.schema], chain.from_iterable(map(_python_rows, batches)))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=_json_value)
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(_json_value(value))


def print_path(path: str, null: bool) -> None:
    """Print a file's name on a line of its own, or before a zero byte, which other programs read as it is."""
    shown = path if null or not is_terminal(sys.stdout) else printable(path)
    echo(os.fsencode(shown) + (b"\0" if null else b"\n"), nl=False)  # as bytes: click edits text


def print_places(found: parquet_bloom.Found, files_only: bool, null: bool) -> int:
    """Print the files of rows if `files_only`, each once and at once; return how many rows there are."""
    num_rows, last = 0, None
    for batch in found:
        num_rows += batch.num_rows
        for path in batch["path"].unique().to_pylist() if files_only else ():
            if path != last:
                print_path(path, null)
            last = path
    return num_rows


def print_errors(errors: Iterable[tuple[str, str]]) -> None:
    """Print files, and what is wrong with them."""
    for path, error in errors:
        _refuse(path, error)


def print_added(added: parquet_bloom.Added, what: str | None = None, *, is_auto: bool = False) -> None:
    """Print the outcome of each file: how many filters, or `what` instead of that."""
    if is_auto and (columns := dict.fromkeys(one.column for row in added.rows for one in row.filters)):
        say(f"{count_text(len(columns), 'column')} worth a filter: {', '.join(columns)}")
    skipped = _grouped((column, _name(row)) for row in added.rows for column in row.skipped_columns)
    noted = _grouped((note, _name(row)) for row in added.rows for note in row.notes)
    shared = {note: names for note, names in noted.items() if len(names) > 1}
    for column, names in skipped.items():
        _refuse(_of_files(names), f"column {column.column} skipped: {column.reason}")
    _print_outcomes(added.rows, lambda row: f"{_added(row, what)}{_skipped(row)}", shared)
    for note, names in shared.items():
        say(f"{_of_files(names)}: {note}", color="yellow")
    num_filters = sum(len(row.filters) for row in added.rows)
    _print_total(len(added.rows), [] if what else [(num_filters, "filter")], _refused(added))


def _added(row: parquet_bloom.FileAdded, what: str | None) -> str:
    filters, size = what or count_text(len(row.filters), "filter"), size_text(row.bytes_added)
    if row.status == "unchanged":
        return _nothing_to_do(row)
    if row.status == "planned":
        return f"would add {filters}, at most {size}"
    worst = max((f.fpp for f in row.filters), default=0.0)
    rate = f", false positives at most {percent_text(worst)}" if row.filters else ""
    return f"added {filters}, {size}{rate}"


def _nothing_to_do(row: parquet_bloom.FileAdded | parquet_bloom.FileDropped) -> str:
    return "nothing to do" if row.output == row.path else "nothing to do but a copy"


def print_attached(attached: parquet_bloom.Attached) -> None:
    """Print the outcome of attaching Paimon's indexes."""
    print_added(attached, "an index")
    if attached.version is not None:
        say(f"committed snapshot {attached.version}")


_INDEXED = (
    Column("column", lambda row: row.column),
    number("files", lambda row: f"{row.files:,}"),
    number("missing", lambda row: f"{row.files_missing:,}"),
    number("bytes", lambda row: f"{row.num_bytes:,}"),
    number("fpp", lambda row: percent_text(row.fpp)),
)


def print_index(state: parquet_bloom.IndexState, *, is_unchanged: bool = False) -> None:
    """Print the state of an index, that was changed or only looked at."""
    if not state.exists:
        say(f"{state.root}: {'no index' if is_unchanged else 'index dropped'}")
        return
    say(f"{state.root}: {count_text(len(state.rows), 'column')}, {size_text(state.num_bytes)}")
    _show(_INDEXED, state.rows)
    if state.readers is not None:
        say(f"readers: {state.readers}", 2)
    for row in state.rows:
        for problem in row.problems:
            say(f"{row.column}: without a filter: {problem}", 2, color="yellow")
    if is_unchanged and any(row.files_missing for row in state.rows):
        say("`parquet-bloom index refresh` with the same PATH indexes the missing files", 2)


_SKIPPED = {
    "has a filter": " already had one",
    "holds no values": " without values",
    "holds no values but nulls": " of nulls only",
}


def _skipped(row: Any) -> str:
    said = "; ".join(
        f"{count_text(n, 'column chunk')}{_SKIPPED.get(reason, f': {reason}')}"
        for reason, n in Counter(chunk.reason for chunk in row.skipped).items()
    )
    return f" ({said})" if said else ""


def print_dropped(dropped: parquet_bloom.Dropped) -> None:
    """Print the outcome of `drop`."""
    _print_outcomes(dropped.rows, _dropped)
    _print_total(len(dropped.rows), [(sum(row.cleared for row in dropped.rows), "filter")], _refused(dropped))


def _dropped(row: parquet_bloom.FileDropped) -> str:
    older = count_text(row.filters_back, "older filter")
    if row.status == "unchanged":
        return _nothing_to_do(row)
    if row.bytes_freed:
        back = f"; {older} back" if row.filters_back else ""
        return f"{_would(row)}restored, {size_text(row.bytes_freed)} freed{back}"
    back = f" and bring {older} back" if row.filters_back else ""
    freed = f"--restore would free {size_text(row.bytes_restorable)}{back}"
    left = f"; {size_text(row.bytes_left)} stay in the file, {freed}" if row.cleared else ""
    return f"{count_text(row.cleared, 'filter')} {_would(row)}cleared{left}"


def _erased(row: parquet_bloom.FileErased, whence: str) -> str:
    rows = count_text(row.rows_erased, "row")
    if row.rows_deleted_before:
        rows += f" (the table had already deleted {row.rows_deleted_before:,})"
    if row.status in ("written", "planned") and row.bytes_written:
        groups = f"{count_text(row.row_groups_copied, 'row group')} copied, {row.row_groups_rewritten:,} rewritten"
        about = "about " if _would(row) else ""
        return f"{rows} {_would(row)}erased; {groups}, {about}{size_text(row.bytes_written)} written"
    gone = f"{rows} {_would(row)}erased, which are all; the file {_would(row) or 'was '}removed{whence}"
    return "" if row.status == "unchanged" else gone


def print_erased(erased: parquet_bloom.Erased) -> None:
    """Print the outcome of `erase`: files with the keys, and the total."""
    whence = " from the table" if erased.version_before is not None else ""
    _print_outcomes(erased.rows, lambda row: _erased(row, whence), name=attrgetter("path"))
    if not (erased.rows_erased or erased.errors):
        say("no row has one of the keys")
    print_errors((index.path, index.error) for index in erased.stale_indexes)
    for path in erased.unreferenced:
        say(f"{path}: no version of the table has this file, which a run that was killed has left", color="yellow")
    for note in erased.notes:
        say(note, color="yellow")
    if erased.ledger:
        say(f"ledger written: {erased.ledger}")
    _print_total(len(erased.rows), [(erased.rows_erased, "row")], _refused(erased))


def print_traces(traces: parquet_bloom.Traces) -> None:
    """Print what `erased` found, the notes, and in the last line the answer."""
    for (path, place, remedy), rows in groupby(traces.rows, lambda row: (row.path, row.place, row.remove_with)):
        say(f"{path}: {place}: {'; '.join(f'{row.found} ({row.num_keys:,})' for row in rows)}", color="red")
        say(f"removed by: {remedy}", 2)
    for file in traces.unsearched:
        _refuse(file.path, f"not searched: {file.error}")
    for note in traces.notes:
        say(note, color="yellow")
    searched = f"{count_text(traces.num_keys, 'key')}, {count_text(traces.num_files, 'file')} searched"
    if traces.is_nowhere:
        say(f"nowhere: {searched}")
    elif traces.rows:
        say(f"found in {count_text(len({row.path for row in traces.rows}), 'file')}: {searched}")
    else:
        say(f"not found, but not everything could be searched: {searched}", color="yellow")


def print_steps(steps: parquet_bloom.Steps) -> None:
    """Print statements, each behind a comment that says what it is for."""
    for row in steps.rows:
        echo(printable(f"-- {row.why}"))
        echo(printable(f"{row.statement};"))


def print_ledger(checked: parquet_bloom.LedgerCheck) -> None:
    """Print what a ledger says."""
    from parquet_bloom.verbs.erase_ledger import FAILED

    if checked.header is not None:
        _print_header(checked, checked.header)
    if checked.key_status is not None:
        say(f"the key: {checked.key_status}", 2)
    for row in checked.rows:
        if row.file and (checked.key_status is not None or row.status in (*FAILED, "begun")):
            rows = f", {count_text(row.rows_erased, 'row')}" if row.rows_erased else ""
            say(f"{row.file}: {row.status}{rows}{f': {row.reason}' if row.reason else ''}", 4)


def _print_header(checked: parquet_bloom.LedgerCheck, header: parquet_bloom.LedgerHeader) -> None:
    from parquet_bloom.verbs.erase_ledger import still_held

    of = f"the {header.kind} table " if header.version_before is not None else ""
    say(f"{checked.path}: {header.outcome}; as it was written ({checked.digest})")
    say(f"{header.column} in {of}{', '.join(header.paths)}{f' where {header.where}' if header.where else ''}", 2)
    if header.request:
        say(f"request {header.request}", 2)
    runs = f", in {count_text(header.runs, 'run')}" if header.runs > 1 else ""
    say(f"{header.written_by}, {header.began} to {header.ended or '?'}{runs}", 2)
    said = [count_text(header.num_keys, "key"), f"{header.keys_nowhere:,} in no file"]
    said += [f"{header.keys_not_known:,} not known"] if header.keys_not_known else []
    say(f"{', '.join(said)}; keys: {header.algorithm}", 2)
    say(
        f"{count_text(len(header.files_searched), 'file')} searched at the end, without a key; proof: {header.proof}", 2
    )
    if header.version_before is not None:
        say(f"version {header.version_before} before, {header.version_after or '?'} after", 2)
    if header.held_by:
        say(still_held(header.held_by, header.expire_with), 2, color="yellow")


def print_recovered(recovered: parquet_bloom.Recovered) -> None:
    """Print the outcome of `recover`."""
    _print_outcomes(recovered.rows, _recovered)
    cut = sum(bool(row.bytes_cut) for row in recovered.rows)
    _print_total(len(recovered.rows), [], ", ".join(filter(None, (f"{cut:,} cut back", _refused(recovered)))))


def _recovered(row: parquet_bloom.FileRecovered) -> str:
    if row.bytes_cut:
        return f"{_would(row)}cut back to what it was before `add`, by {count_text(row.bytes_cut, 'byte')}"
    return "nothing to do" if row.notes else "whole, nothing to do"


def _refused(result: Result) -> str:
    refused = sum(bool(row.error) for row in result)
    return f"{refused:,} refused" if refused else ""


def print_verification(verified: parquet_bloom.Verification, certificate: str | None = None) -> None:
    """Print the verdicts of `verify`, and where its certificate is."""
    from parquet_bloom.verbs.verify import OK

    for file in verified.files:
        if file.error:
            _refuse(file.path, file.error)
            continue
        good = [row for row in file.filters if row.verdict == OK]
        if not file.filters:
            say(f"{file.path}: no filters")
        else:
            values = sum(row.num_values for row in good)
            say(f"{file.path}: {count_text(len(good), 'filter')} ok ({count_text(values, 'value')}, none missing)")
        bad = _grouped(((row.column, row.verdict, row.cause), row) for row in file.filters if row.verdict != OK)
        for (column, verdict, cause), rows in bad.items():
            what = f"{_groups(row.row_group for row in rows)}, {column} ({rows[0].type}): {verdict}"
            if missing := sum(row.num_missing for row in rows):
                of_all = count_text(sum(row.num_values for row in rows), "value")
                what += f": {missing:,} of {of_all} missing, such as {rows[0].example}"
            say(f"{what}{f': {cause}' if cause else ''}", 2, color="red")
    _print_hazards(verified.rows)
    wrong, unchecked = len(verified.findings), sum(file.error is not None for file in verified.files)
    remarks = [f"{wrong:,} not ok"] if wrong else []
    remarks += [f"{count_text(unchecked, 'file')} not checked"] if unchecked else []
    _print_total(len(verified.files), [(len(verified.rows), "filter")], ", ".join(remarks) or "all ok")
    if certificate is not None:
        say(f"certificate: {certificate}")


def _print_total(num_files: int, counts: Iterable[tuple[int, str]], remark: str | int) -> None:
    """Print a last line with totals, if there are several files."""
    if num_files > 1:
        parts = [count_text(n, noun) for n, noun in ((num_files, "file"), *counts)]
        say(", ".join([*parts, str(remark)] if remark else parts))


def _groups(numbers: Iterable[int | None]) -> str:
    """Return row groups as people write them: `row groups 0-3, 7`."""
    runs: list[list[int]] = []
    for one in sorted({one for one in numbers if one is not None}):
        if runs and one == runs[-1][1] + 1:
            runs[-1][1] = one
        else:
            runs.append([one, one])
    if not runs:
        return "all row groups"
    said = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"row group{'' if len(runs) == 1 and runs[0][0] == runs[0][1] else 's'} {said}"


def sentence(error: BaseException) -> str:
    """Return an error in one line: those that we raise say what is wrong, others get their name, too."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory{_tail(error)}; give the program more, or process less at once"
    if isinstance(error, RecursionError):
        return "the input is nested too deeply to be read"
    if isinstance(error, UnicodeEncodeError):
        return "the name of a file or folder is not UTF-8, and Arrow has no other text; rename it"
    try:
        if isinstance(error, OSError) and error.strerror:
            return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        said = str(error)
    except Exception:  # some errors of other libraries cannot be shown
        said = ""
    if isinstance(error, ParquetBloomError | ValueError | OSError | ImportError) and said:
        return " ".join([*said.splitlines(), *getattr(error, "__notes__", ())])
    line = next((line.strip() for line in said.splitlines() if line.strip()), "")
    name = type(error).__name__
    return f"{name}{f': {line}' if line else ''} (PARQUET_BLOOM_DEBUG=1 shows where it comes from)"


def _tail(error: BaseException) -> str:
    said = str(error)
    return f": {said}" if said else ""
