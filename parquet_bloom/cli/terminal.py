"""What a terminal shows: lines and tables of its width, colors, a progress bar. Elsewhere nothing is cut or wrapped."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

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
    """Return the width of the terminal that this stream is, None if it is not one."""
    if not is_terminal(stream):
        return None
    given = os.environ.get("COLUMNS", "")
    try:
        columns = int(given) if given.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # no file of the operating system
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


def wrapped(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Return lines of at most `width`, broken between words, and never between a number and its unit.

    A word that is longer, such as a path, stays whole, so that it can be copied.
    """
    text = _UNIT.sub("\N{NO-BREAK SPACE}", text)
    wide = "".join(sign + _FILLER * (cells(sign) - 1) for sign in text)  # textwrap takes all signs for one column wide
    lines = textwrap.wrap(
        wide,
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [_UNIT_AGAIN.sub(" ", line.replace(_FILLER, "")) for line in lines] or [""]


_FILLER = "\ue000"  # for private use: it is in no text
_UNIT = re.compile(r"(?<=\d) (?=(?:[KMGT]i)?B\b)")
_UNIT_AGAIN = re.compile(r"(?<=\d)\N{NO-BREAK SPACE}(?=(?:[KMGT]i)?B\b)")


# ---- tables ------------------------------------------------------------------------------

_INDENT = 2
_GAP = 2
_LEAST_WIDTH_OF_TEXT = 24


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and how a cell is made of a row's record.

    Numbers and what else is `unbroken` stay on one line; other cells, of a `text` first, take several. Columns that are
    `least` are left out where a terminal is too narrow, 1 before 2.
    """

    heading: str
    cell: Callable[[Any], str]
    kind: Literal["name", "number", "unbroken", "text"] = "name"
    least: int = 0
    style: str = ""


def number(heading: str, cell: Callable[[Any], str], least: int = 0) -> Column:
    """Return a column of numbers."""
    return Column(heading, cell, "number", least)


class Table:
    """Records under headings, as wide as they are, or as a terminal lets them be.

    If not even leaving out columns suffices, each cell gets a line with its heading.
    """

    def __init__(self, columns: Sequence[Column], records: Iterable[Any]) -> None:
        self._columns = [replace(column, heading=printable(column.heading)) for column in columns]
        self._least = sorted((place for place, one in enumerate(columns) if one.least), key=lambda i: columns[i].least)
        self._rows = [[printable(column.cell(record)) for column in columns] for record in records]

    def lines(self, stream: Any) -> tuple[list[str], list[str]]:
        """Return the lines for a stream, and the headings of the columns that are left out."""
        whole = {
            place: max(map(cells, [column.heading, *(row[place] for row in self._rows)]))
            for place, column in enumerate(self._columns)
        }
        width = width_of(stream)
        if width is None:
            return self._drawn(whole, stream), []
        left_out: list[int] = []
        while (widths := self._narrowed(whole, width - _INDENT)) is None:
            if len(left_out) == len(self._least):
                return self._stacked(width - _INDENT, stream), []
            left_out.append(self._least[len(left_out)])
            del whole[left_out[-1]]
        return self._drawn(widths, stream), [self._columns[place].heading for place in sorted(left_out)]

    def _narrowed(self, whole: Mapping[int, int], room: int) -> dict[int, int] | None:
        """Return widths with which these columns fit into the room, None if they do not."""
        flexible = [place for place in whole if self._columns[place].kind in ("name", "text")]
        widths = dict(whole)
        for place in flexible:
            least = max(cells(self._columns[place].heading), _LEAST_WIDTH_OF_TEXT)
            widths[place] = min(whole[place], least)
        spare = room - _with_gaps(widths.values())
        if spare < 0:
            return None
        for place in sorted(flexible, key=lambda place: self._columns[place].kind == "text"):
            more = min(spare, whole[place] - widths[place])
            widths[place] += more
            spare -= more
        return widths

    def _drawn(self, widths: Mapping[int, int], stream: Any) -> list[str]:
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for place, width in widths.items():
            column = self._columns[place]
            justify: Any = "right" if column.kind == "number" else "left"
            grid.add_column(Text(column.heading), justify=justify, width=width, overflow="fold")
        for row in self._rows:
            grid.add_row(*(Text(row[place], self._columns[place].style) for place in widths))
        return _lines_of(grid, _with_gaps(widths.values()), stream)

    def _stacked(self, room: int, stream: Any) -> list[str]:
        """Return a line or more for each cell, and an empty one between rows."""
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid.grid(padding=(0, _GAP, 0, 0))
        headings = max(cells(column.heading) for column in self._columns)
        grid.add_column(width=min(headings, room // 2 - _GAP), overflow="fold")
        grid.add_column(overflow="fold")
        for number, row in enumerate(self._rows):
            if number:
                grid.add_row()
            for column, cell in zip(self._columns, row, strict=True):
                grid.add_row(Text(column.heading, "bold"), Text(cell, column.style))
        return _lines_of(grid, room, stream)


def _with_gaps(widths: Collection[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _lines_of(grid: Any, width: int, stream: Any) -> list[str]:
    from rich.console import Console

    is_styled = is_terminal(stream) and not _is_plain()
    console = Console(
        width=width,
        color_system="standard" if is_styled else None,
        force_terminal=is_styled,
        no_color=bool(os.environ.get("NO_COLOR")),
        highlight=False,
        legacy_windows=False,
    )
    with console.capture() as printed:
        console.print(grid)
    return [" " * _INDENT + line.rstrip() if line.strip() else "" for line in printed.get().splitlines()]


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
"""Set where the bar waits for the first progress, since another program, such as Java, prints until then."""


def _in_context(key: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(key))
