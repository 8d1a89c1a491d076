"""The command line: arguments -> one library call -> an output."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError

if TYPE_CHECKING:
    from parquet_bloom.parallel import Progress
    from parquet_bloom.reader import Inspection, Probe
    from parquet_bloom.verification import Verification
    from parquet_bloom.writer import Added, Dropped

_Command = TypeVar("_Command", bound=Callable[..., Any])

MATCH, NO_MATCH, ERROR, INTERRUPTED = 0, 1, 2, 130
"""Exit codes, as grep's: might match or clean; cannot match or findings; error."""


class _Group(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ParquetBloomError, ValueError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                _leave_quietly()
            click.echo(f"error: {_sentence(error)}", err=True)
            ctx.exit(ERROR)
        except KeyboardInterrupt:
            click.echo("interrupted; nothing was left behind", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(parquet_bloom.__version__, prog_name="parquet-bloom")
def main() -> None:
    """See, add, verify and use bloom filters in Parquet files, without re-encoding them.

    PATHS are files, globs, directories (all *.parquet below) and URLs such as s3://bucket/dir.

    \b
    Exit codes: 0 might match, or all is well; 1 cannot match, or findings; 2 an error.
    """
    with contextlib.suppress(ValueError):  # not in the main thread, as when a test calls
        signal.signal(signal.SIGTERM, signal.default_int_handler)


# ---- arguments that commands share -------------------------------------------------------

_paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line instead of tables.")
_columns = click.option(
    "-c", "--column", "columns", multiple=True, metavar="COLUMN", help="A leaf column, such as user.id. Repeatable."
)
_jobs = click.option("--jobs", type=click.IntRange(1), help="Threads. [default: one for each processor]")
_output = click.option("-o", "--output", metavar="PATH", help="Write new files here; the old ones stay as they are.")
_dry_run = click.option("-n", "--dry-run", is_flag=True, help="Only tell what would be done.")
_keep_mtime = click.option("--keep-mtime", is_flag=True, help="Keep the files' modification times.")
_strict = click.option("--strict", is_flag=True, help="Stop at the first file that is refused.")
_force = click.option(
    "--force", is_flag=True, help="Change files even inside a Delta, Iceberg, Hudi or Paimon table."
)


def _storage(command: _Command) -> _Command:
    option = click.option(
        "--storage-option", "storage", multiple=True, metavar="KEY=VALUE", help="Passed on to fsspec. Repeatable."
    )
    return option(command)


def _storage_options(pairs: tuple[str, ...]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--storage-option takes KEY=VALUE, not {pair!r}")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


# ---- commands ----------------------------------------------------------------------------


@main.command()
@_paths
@_columns
@_json
@_storage
def inspect(paths: tuple[str, ...], columns: tuple[str, ...], as_json: bool, storage: tuple[str, ...]) -> None:
    """Show every filter: size, fill, real false-positive rate, and who can use it.

    \b
    Example:
      parquet-bloom inspect events/ --column user_id
    """
    with _progress("reading filters") as progress:
        found = parquet_bloom.inspect(
            paths, columns or None, storage_options=_storage_options(storage), progress=progress
        )
    if as_json:
        _print_json(found.files)
    else:
        _print_inspection(found)
    sys.exit(ERROR if found.is_damaged else MATCH)


@main.command()
@_paths
@click.argument("column")
@click.argument("value")
@click.option("--timezone", metavar="ZONE", help="Of datetimes without one, such as Europe/Berlin.")
@_json
@_storage
def probe(
    paths: tuple[str, ...],
    column: str,
    value: str,
    timezone: str | None,
    as_json: bool,
    storage: tuple[str, ...],
) -> None:
    """Ask which row groups can hold VALUE in COLUMN, by their filters alone.

    VALUE is typed by the column: 42, 3.5, 2024-01-31, 2024-01-31T12:00:00Z, 0xCAFE for bytes.

    \b
    Example:
      parquet-bloom probe events/ user_id 4711
    """
    with _progress("probing") as progress:
        answer = parquet_bloom.probe(
            paths,
            column,
            value,
            as_text=True,
            timezone=timezone,
            storage_options=_storage_options(storage),
            progress=progress,
        )
    if as_json:
        _print_json(answer.rows)
    else:
        _print_probe(answer)
    sys.exit(MATCH if answer.might_match else NO_MATCH)


@main.command()
@_paths
@click.option(
    "-c", "--column", "columns", multiple=True, required=True, metavar="COLUMN", help="A leaf column. Repeatable."
)
@click.option("--fpp", type=float, default=0.01, show_default=True, help="The false-positive rate to stay within.")
@click.option("--ndv", type=click.IntRange(0), help="Size for so many distinct values a row group, and do not fold.")
@click.option("--max-bytes", type=click.IntRange(64), help="The largest filter to write; the rate may get worse.")
@click.option("--replace", is_flag=True, help="Build filters anew where there are sound ones.")
@click.option("--fill-lengths", is_flag=True, help="Give kept filters the bloom_filter_length that they lack.")
@_output
@_dry_run
@_keep_mtime
@_jobs
@_strict
@_force
@_json
@_storage
def add(
    paths: tuple[str, ...], max_bytes: int | None, as_json: bool, storage: tuple[str, ...], **options: Any
) -> None:
    """Give COLUMNs a filter in every row group that has none. No page is re-encoded.

    The files are replaced atomically; with -o, new ones are written instead. The old bytes stay the beginning of the
    new file.

    \b
    Examples:
      parquet-bloom add events/ --column user_id --dry-run
      parquet-bloom add day.parquet -c user_id -c session.id --fpp 0.001 -o day-with-filters.parquet
    """
    if max_bytes is not None:
        options["max_bytes"] = max_bytes
    with _progress("adding filters") as progress:
        added = parquet_bloom.add(paths, storage_options=_storage_options(storage), progress=progress, **options)
    if as_json:
        _print_json(added.rows)
    else:
        _print_added(added)
    sys.exit(ERROR if added.has_errors else MATCH)


@main.command()
@_paths
@_columns
@click.option("--restore", is_flag=True, help="Cut the file back to what it was before filters were added.")
@_output
@_dry_run
@_keep_mtime
@_strict
@_force
@_json
@_storage
def drop(
    paths: tuple[str, ...], columns: tuple[str, ...], as_json: bool, storage: tuple[str, ...], **options: Any
) -> None:
    """Take filters away: clear the footer's fields, or cut the file back with --restore.

    \b
    Examples:
      parquet-bloom drop events/ --column user_id
      parquet-bloom drop events/ --restore
    """
    with _progress("dropping filters") as progress:
        dropped = parquet_bloom.drop(
            paths, columns or None, storage_options=_storage_options(storage), progress=progress, **options
        )
    if as_json:
        _print_json(dropped.rows)
    else:
        _print_dropped(dropped)
    sys.exit(ERROR if dropped.has_errors else MATCH)


@main.command()
@_paths
@_columns
@_jobs
@_json
@_storage
def verify(
    paths: tuple[str, ...], columns: tuple[str, ...], jobs: int | None, as_json: bool, storage: tuple[str, ...]
) -> None:
    """Prove from the data that no filter lacks a value that is there.

    \b
    Example:
      parquet-bloom verify events/
    """
    with _progress("verifying") as progress:
        verified = parquet_bloom.verify(
            paths, columns or None, jobs=jobs, storage_options=_storage_options(storage), progress=progress
        )
    if as_json:
        _print_json(verified.files)
    else:
        _print_verification(verified)
    sys.exit(ERROR if verified.has_errors else NO_MATCH if verified.findings else MATCH)


@main.command()
@click.option("--keep", metavar="DIR", help="Make the sample in this new directory and leave it there.")
def demo(keep: str | None) -> None:
    """Make a small file, add filters to it, probe them, and show what they save.

    \b
    Example:
      parquet-bloom demo --keep sample
    """
    for line in parquet_bloom.demo(keep):
        click.echo(line)


# ---- outputs -----------------------------------------------------------------------------


def _print_json(rows: Any) -> None:
    for row in rows:
        click.echo(json.dumps(row.to_dict(), ensure_ascii=False))


def _table(*columns: str, right: tuple[str, ...] = ()) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _show(table: Any) -> None:
    from rich.console import Console
    from rich.padding import Padding

    # What is not a terminal has no width: nothing is cut or wrapped there.
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _print_inspection(found: Inspection) -> None:
    for file in found.files:
        if file.error:
            click.echo(f"{file.path}: {click.style(file.error, fg='red')}")
            continue
        click.echo(
            f"{click.style(file.path, bold=True)}: {_size(file.size)}, {_count(file.num_rows, 'row')}, "
            f"{_count(file.num_row_groups, 'row group')}, {_count(len(file.filters), 'filter')}"
            f"{f', by {file.created_by}' if file.created_by else ''}"
        )
        sound = [f for f in file.filters if f.num_bytes is not None]
        if sound:
            numbers = ("group", "bytes", "values", "ndv", "fill", "fpp", "worst", "folds to")
            table = _table("group", "column", *numbers[1:], right=numbers)
            for f in sound:
                table.add_row(
                    str(f.row_group),
                    f.column,
                    f"{f.num_bytes:,}",
                    f"{f.num_values:,}",
                    "full" if f.ndv is None or f.ndv == float("inf") else f"~{f.ndv:,.0f}",
                    _percent(f.fill),
                    _percent(f.fpp),
                    _percent(f.worst_block_fpp),
                    f"{f.folds_to:,}",
                )
            _show(table)
        _print_uses(sound)
        for f in file.filters:
            if f.problem:
                click.secho(f"  row group {f.row_group}, {f.column}: not usable: {f.problem}", fg="yellow")


def _print_uses(filters: list[Any]) -> None:
    said = set()
    for f in filters:
        line = f"  {f.column} ({f.type}): used by {', '.join(f.used_by) or 'no engine known here'}"
        for text in (line, *(f"  {f.column}: {hazard}" for hazard in f.hazards)):
            if text not in said:
                said.add(text)
                click.echo(text)


def _print_probe(answer: Probe) -> None:
    from parquet_bloom.reader import CANNOT_MATCH

    table = _table("file", "group", "answer", "why", right=("group",))
    for row in answer.rows:
        group = "all" if row.row_group < 0 else str(row.row_group)
        style = "green" if row.answer == CANNOT_MATCH else ""
        table.add_row(row.path, group, row.answer, row.reason, style=style)
    _show(table)
    kept = sum(row.answer != CANNOT_MATCH for row in answer.rows)
    click.echo(f"{kept} of {_count(len(answer.rows), 'row group')} might match")


def _print_added(added: Added) -> None:
    for row in added.rows:
        name = row.path if row.output == row.path else f"{row.path} -> {row.output}"
        match row.status:
            case "refused":
                click.echo(f"{name}: {click.style(f'refused: {row.error}', fg='red')}")
            case "unchanged":
                click.echo(f"{name}: nothing to do{_skipped(row)}")
            case _:
                verb, most = ("would add", "at most ") if row.status == "planned" else ("added", "")
                worst = max((f.fpp for f in row.filters), default=0.0)
                rate = (
                    ""
                    if row.status == "planned" or not row.filters
                    else f", false positives at most {_percent(worst)}"
                )
                click.echo(
                    f"{name}: {verb} {_count(len(row.filters), 'filter')}, {most}{_size(row.bytes_added)}{rate}{_skipped(row)}"
                )
        for note in row.notes:
            click.secho(f"  {note}", fg="yellow")


def _skipped(row: Any) -> str:
    reasons: dict[str, int] = {}
    for chunk in row.skipped:
        reasons[chunk.reason] = reasons.get(chunk.reason, 0) + 1
    said = "; ".join(f"{_count(n, 'column chunk')}: {reason}" for reason, n in reasons.items())
    return f" ({said})" if said else ""


def _print_dropped(dropped: Dropped) -> None:
    for row in dropped.rows:
        name = row.path if row.output == row.path else f"{row.path} -> {row.output}"
        would = "would be " if row.status == "planned" else ""
        if row.error:
            click.echo(f"{name}: {click.style(f'refused: {row.error}', fg='red')}")
        elif row.status == "unchanged":
            click.echo(f"{name}: nothing to do")
        elif row.bytes_freed:
            click.echo(f"{name}: {would}restored, {_size(row.bytes_freed)} freed")
        else:
            left = f"; {_size(row.bytes_left)} stay in the file, --restore would free them" if row.bytes_left else ""
            click.echo(f"{name}: {_count(row.cleared, 'filter')} {would}cleared{left}")
        for note in row.notes:
            click.secho(f"  {note}", fg="yellow")


def _print_verification(verified: Verification) -> None:
    from parquet_bloom.verification import OK

    for file in verified.files:
        if file.error:
            click.echo(f"{file.path}: {click.style(file.error, fg='red')}")
            continue
        good = [row for row in file.filters if row.verdict == OK]
        values = sum(row.num_values for row in good)
        click.echo(f"{file.path}: {_count(len(good), 'filter')} ok ({_count(values, 'value')} asked for and found)")
        for row in file.filters:
            if row.num_nans_missing:
                lacks = _count(row.num_nans_missing, "NaN")
                click.echo(
                    f"  row group {row.row_group}, {row.column}: its filter lacks {lacks}; NaN never prunes here"
                )
            if row.verdict == OK:
                continue
            what = f"  row group {row.row_group}, {row.column} ({row.type}): {row.verdict}"
            if row.num_missing:
                what += f": {row.num_missing:,} of {_count(row.num_values, 'value')} missing, such as {row.example}"
            click.secho(f"{what}{f': {row.cause}' if row.cause else ''}", fg="red")


def _size(n: int) -> str:
    value, units = float(n), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{n:,} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _percent(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.2f}%" if rate >= 0.0001 or rate == 0 else f"{100 * rate:.1e}%"


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Progress | None]:
    """Show a bar on a terminal once the work has taken a second."""
    if not sys.stderr.isatty():
        yield None
        return
    import time

    from rich.console import Console
    from rich.progress import Progress as Bar

    started = time.monotonic()
    bar = Bar(console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None)

    def progress(done: int, total: int) -> None:
        if not bar.live.is_started and time.monotonic() - started > 1:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield progress
    finally:
        bar.stop()


def _leave_quietly() -> None:
    """End as a program whose reader went away: without a traceback from the interpreter's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(MATCH)
