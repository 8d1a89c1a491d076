"""What a terminal shows: lines and tables of its width, colors, a progress bar. Elsewhere nothing is cut or wrapped."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from parquet_bloom.results import printable

if TYPE_CHECKING:
    from parquet_bloom.verbs.parallel import Progress

BAR_AFTER = 1.0
"""Seconds after which a terminal gets a progress bar."""

_LEAST_WIDTH = 20
_USUAL_WIDTH = 80


def is_terminal(stream: Any) -> bool:
    """Return whether a person reads what is written to this stream."""
    return stream is not None and bool(stream.isatty())  # of a closed one Python makes None


def width_of(stream: Any) -> int | None:
    """Return the columns of the terminal that this stream is, None if it is none."""
    if not is_terminal(stream):
        return None
    given = os.environ.get("COLUMNS", "")
    try:
        columns = int(given) if given.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # none of the system's
        columns = 0
    return max(columns or _USUAL_WIDTH, _LEAST_WIDTH)


def styled(text: str, stream: Any, *, color: str | None = None, bold: bool = False) -> str:
    """Return a text with its style, as far as this stream shows any."""
    if not text or not is_terminal(stream) or _is_plain():
        return text
    color = None if os.environ.get("NO_COLOR") else color
    return click.style(text, fg=color, bold=bold or None) if color or bold else text


def _is_plain() -> bool:
    """Return whether the terminal is one that only prints text."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes: a Chinese sign takes two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


# ---- lines -------------------------------------------------------------------------------


def wrapped(text: str, width: int, *, indent: int = 0, hanging: int = 2, fold: bool = False) -> list[str]:
    """Return lines of at most `width`, broken between words, and never between a number and its unit.

    A word that is longer, such as a path, stays whole, so that it can be copied, unless `fold` is given.
    """
    lines, line = [], " " * indent
    is_empty = True
    for word in _UNIT.sub("\N{NO-BREAK SPACE}", text).split(" "):
        shown = _UNIT_AGAIN.sub(" ", word)
        if not is_empty and cells(line) + 1 + cells(shown) > width:
            lines.append(line.rstrip())
            line, is_empty = " " * (indent + hanging), True
            if not shown:
                continue
        line += shown if is_empty else f" {shown}"
        is_empty = False
        while fold and cells(line[: 4 * width]) > width:  # the rest may be long
            start = len(line) - len(line.lstrip())
            end = _fold_at(line, width, start)
            lines.append(line[:end])
            line = " " * (indent + hanging) + line[end:]
    return [*lines, line.rstrip()]


_UNIT = re.compile(r"(?<=\d) (?=(?:[KMGT]i)?B\b)")
_UNIT_AGAIN = re.compile(r"(?<=\d)\N{NO-BREAK SPACE}(?=(?:[KMGT]i)?B\b)")
_SEPARATORS = "/\\._-=,:; "


def _fold_at(line: str, width: int, start: int) -> int:
    """Return where to break a line that is one word: best behind a separator, if one is near the end."""
    end = start + 1
    while end < len(line) and cells(line[: end + 1]) <= width:
        end += 1
    for position in range(end, start + 1 + 2 * (end - start) // 3, -1):
        if line[position - 1] in _SEPARATORS:
            return position
    return end


# ---- tables ------------------------------------------------------------------------------

_INDENT = 2
_GAP = 2
_LEAST_TEXT = 24


@dataclass(frozen=True)
class _Column:
    heading: str
    is_number: bool
    is_unbroken: bool
    is_text: bool
    color: str | None


class Table:
    """Rows under headings, as wide as they are, or as a terminal lets them be.

    Numbers and what else is `unbroken` stay on one line. `texts` take several. Where any other cell, which is a name,
    is too long for its column, the rest of its row follows below. If that does not suffice, columns are left out in
    the order of `least`, and at last each row becomes lines with a heading and a cell each.
    """

    def __init__(
        self,
        *headings: str,
        numbers: Collection[str] = (),
        unbroken: Collection[str] = (),
        texts: Collection[str] = (),
        least: Sequence[str] = (),
        red: Collection[str] = (),
    ) -> None:
        self._columns = [
            _Column(
                printable(heading),
                is_number=heading in numbers,
                is_unbroken=heading in numbers or heading in unbroken,
                is_text=heading in texts,
                color="red" if heading in red else None,
            )
            for heading in headings
        ]
        self._least = [headings.index(heading) for heading in least]
        self._rows: list[list[str]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *row: str) -> None:
        """Add a row."""
        self._rows.append([printable(cell) for cell in row])

    def lines(self, stream: Any) -> tuple[list[str], list[str]]:
        """Return the lines for a stream, and the headings of the columns that are left out."""
        width = width_of(stream)
        natural = [
            max(cells(column.heading), *(cells(row[place]) for row in self._rows), 0)
            for place, column in enumerate(self._columns)
        ]
        shown = list(range(len(natural)))
        if width is None or _INDENT + _with_gaps(natural) <= width:
            return self._aligned(dict(enumerate(natural)), 0, stream), []
        left_out: list[int] = []
        while (widths := self._narrowed(natural, shown, width - _INDENT)) is None:
            if len(left_out) == len(self._least):
                return self._stacked(width, stream), []
            left_out.append(self._least[len(left_out)])
            shown.remove(left_out[-1])
        return self._aligned(widths, width, stream), [self._columns[place].heading for place in sorted(left_out)]

    def _narrowed(self, natural: Sequence[int], shown: Sequence[int], room: int) -> dict[int, int] | None:
        """Return widths with which these columns fit into the room, None if there are none."""
        widths = {place: natural[place] for place in shown}
        flexible = [place for place in shown if not self._columns[place].is_unbroken]
        for place in flexible:
            column = self._columns[place]
            widths[place] = min(natural[place], max(cells(column.heading), _LEAST_TEXT if column.is_text else 0))
        spare = room - _with_gaps(widths.values())
        if spare < 0:
            return None
        for place in sorted(flexible, key=lambda place: self._columns[place].is_text):
            most = widths[place] + spare
            if self._columns[place].is_text:
                widths[place] = min(natural[place], most)
            else:  # as wide as the longest name that fits
                fitting = [size for row in self._rows if (size := cells(row[place])) <= most]
                widths[place] = max(widths[place], *fitting, 0)
            spare = most - widths[place]
        return widths

    def _aligned(self, widths: Mapping[int, int], width: int, stream: Any) -> list[str]:
        lines: list[str] = []
        for row in ([column.heading for column in self._columns], *self._rows):
            is_head = not lines
            beside: list[_Cell] = []
            start = _INDENT
            for place, room in widths.items():
                column, text = self._columns[place], row[place]
                size = cells(text)
                parts = [text]
                if size > room:
                    parts = wrapped(text, room if column.is_text else width - start, hanging=0, fold=True)
                before = room - size if column.is_number else 0
                beside.append(_Cell(start + before, parts, None if is_head else column.color, bold=is_head))
                if size > room and not column.is_text:
                    lines += _side_by_side(beside, stream)
                    beside = []
                start += room + _GAP
            lines += _side_by_side(beside, stream)
        return lines

    def _stacked(self, width: int, stream: Any) -> list[str]:
        """Return a line or more for each cell, and an empty one between rows."""
        half = (width - _INDENT) // 2
        start = _INDENT + _GAP + max((n for column in self._columns if (n := cells(column.heading)) <= half), default=0)
        lines: list[str] = []
        for row in self._rows:
            if lines:
                lines.append("")
            for column, text in zip(self._columns, row, strict=True):
                head = _Cell(_INDENT, wrapped(column.heading, width - _INDENT, hanging=0, fold=True), bold=True)
                cell = _Cell(start, wrapped(text, width - start, hanging=0, fold=True), column.color)
                if cells(column.heading) <= half:
                    lines += _side_by_side([head, cell], stream)
                else:
                    lines += [*_side_by_side([head], stream), *_side_by_side([cell], stream)]
        return lines


@dataclass(frozen=True)
class _Cell:
    start: int
    parts: list[str]
    color: str | None = None
    bold: bool = False


def _side_by_side(row: Sequence[_Cell], stream: Any) -> list[str]:
    lines = []
    for number in range(max((len(cell.parts) for cell in row), default=0)):
        line, end = "", 0
        for cell in row:
            part = cell.parts[number] if number < len(cell.parts) else ""
            if part := part.rstrip() if cell is row[-1] else part:
                bold = cell.bold or cell.color is not None
                line += " " * (cell.start - end) + styled(part, stream, color=cell.color, bold=bold)
                end = cell.start + cells(part)
        lines.append(line)
    return lines


def _with_gaps(widths: Collection[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


# ---- the progress bar --------------------------------------------------------------------


class _Bar:
    """A bar on standard error whenever nothing was printed for a while."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._done, self._total = 0, 0
        self._may_show = not _in_context(AWAITED)
        self._shown: Any = None
        self._lock = threading.Lock()
        self._finished = threading.Event()
        self._since = time.monotonic()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def update(self, done: int, total: int) -> None:
        self._done, self._total, self._may_show = done, total, True

    def start(self) -> None:
        self._watcher.start()

    def end(self) -> None:
        self._finished.set()
        self._watcher.join()

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the bar while something is printed."""
        with self._lock:
            self._hide()
            try:
                yield
            finally:
                self._since = time.monotonic()

    def _watch(self) -> None:
        try:
            while not self._finished.wait(min(0.1, BAR_AFTER)):
                with self._lock:
                    if self._shown is not None:
                        bar, task = self._shown
                        bar.update(task, completed=self._done, total=self._total or None)
                    elif self._may_show and time.monotonic() - self._since >= BAR_AFTER:
                        self._show()
        finally:
            with self._lock:
                self._hide()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as RichProgress

        # What is printed meanwhile goes where it belongs: rich would send standard output to standard error, too.
        bar = RichProgress(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
        task = bar.add_task(self._what, total=self._total or None, completed=self._done)
        bar.start()
        self._shown = bar, task

    def _hide(self) -> None:
        if self._shown is not None:
            bar, _ = self._shown
            self._shown = None
            bar.stop()


_bar: _Bar | None = None


@contextlib.contextmanager
def progress_bar(what: str) -> Iterator[Progress | None]:
    """Show a bar on a terminal while the work takes long."""
    global _bar
    if is_quiet() or not is_terminal(sys.stderr) or _is_plain():
        yield None
        return
    _bar = _Bar(what)
    _bar.start()
    try:
        yield _bar.update
    finally:
        _bar.end()
        _bar = None


def printing(stream: Any) -> contextlib.AbstractContextManager[None]:
    """Hide the progress bar while something is printed, if that is seen beside it."""
    return _bar.hidden() if _bar is not None and is_terminal(stream) else contextlib.nullcontext()


def echo(text: str | bytes, *, err: bool = False, nl: bool = True) -> None:
    """Print a text as it is."""
    with printing(sys.stderr if err else sys.stdout):
        click.echo(text, err=err, nl=nl)


QUIET = "parquet_bloom.quiet"


def is_quiet() -> bool:
    """Return whether the command was given `--quiet`."""
    return _in_context(QUIET)


AWAITED = "parquet_bloom.awaited"
"""Set where there is no bar before the work reports: until then another program, such as Java, may print."""


def _in_context(key: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(key))
