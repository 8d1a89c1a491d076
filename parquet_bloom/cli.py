"""The command line: arguments -> one library call -> an output."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.results import SCHEMA_VERSION

if TYPE_CHECKING:
    from parquet_bloom.indexing import IndexState
    from parquet_bloom.lookups import Lookup
    from parquet_bloom.paimon_indexes import Attached
    from parquet_bloom.parallel import Progress
    from parquet_bloom.reader import FileInfo, FilterInfo, Inspection, Probe
    from parquet_bloom.results import Record
    from parquet_bloom.verdicts import Pruning
    from parquet_bloom.verification import Verification
    from parquet_bloom.writer import Added, Dropped

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Record = TypeVar("_Record", bound="Record")
_Verb = Callable[..., Any]

MATCH, NO_MATCH, ERROR, INTERRUPTED = 0, 1, 2, 130
"""Exit codes, as grep's: might match or clean; cannot match or findings; error."""

LISTED = 60
"""Filters of one file up to which `inspect` gives each a line; of more it makes a line for each column."""

BAR_AFTER = 1.0
"""Seconds after which a terminal gets a progress bar."""


class _Group(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ParquetBloomError, ValueError, OSError, ImportError) as error:
            if isinstance(error, BrokenPipeError):
                _leave_quietly()
            _say(f"error: {_sentence(error)}", err=True)
            ctx.exit(ERROR)
        except KeyboardInterrupt:
            _say("interrupted: no file was left half written", err=True)
            ctx.exit(INTERRUPTED)


class _TakesNegatives(click.Command):
    """A command whose last argument may be a negative number, which click alone takes for an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        negatives = [] if "--" in args else [arg for arg in args if re.match(r"-\.?\d", arg)]
        others = [arg for arg in args if arg not in negatives]
        return super().parse_args(ctx, [*others, "--", *negatives] if negatives else args)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(parquet_bloom.__version__, prog_name="parquet-bloom")
def main() -> None:
    """See, add, verify and use bloom filters in Parquet files, without re-encoding them.

    PATHS are files, globs, directories (all *.parquet below) and URLs such as s3://bucket/dir.

    \b
    Exit codes:
      0  might match, or all is well
      1  cannot match, or findings
      2  an error
    """
    with contextlib.suppress(ValueError):  # not in the main thread, as when a test calls
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")  # a file's name may be any bytes


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
_timezone = click.option("--timezone", metavar="ZONE", help="Of datetimes without one, such as Europe/Berlin.")
_complain = click.option("--strict", is_flag=True, help="Stop at a file that cannot be read, instead of keeping it.")
_as_of = click.option("--as-of", metavar="VERSION", help="Of a table: an earlier version, or a time.")
_force = click.option("--force", is_flag=True, help="Change files even inside a Delta, Iceberg, Hudi or Paimon table.")


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


# ---- engines -----------------------------------------------------------------------------

_LOCAL_ONLY = {
    "jobs": "--jobs counts this machine's threads; Spark has its own number of cores, such as --master 'local[8]'",
    "as_of": "--as-of takes a table's files from its log, which is done here and not on Spark",
    "table": "--table commits to a table, which is done here and not on Spark",
    "catalog": "--catalog names a table to commit to, which is done here and not on Spark",
    "strict": "--strict stops at the first file; on Spark files have no order, so leave it out",
}


def _engines(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options for where it runs, and as its `verb` the function that runs there."""

    @functools.wraps(command)
    def chosen(*, engine: str, master: str | None, **options: Any) -> Any:
        if engine == "local":
            if master is not None:
                raise click.UsageError("--master is Spark's; say --engine spark with it")
            return command(verb=getattr(parquet_bloom, command.__name__), **options)
        for name, why_not in _LOCAL_ONLY.items():
            if options.get(name):
                raise click.UsageError(why_not)

        def verb(*arguments: Any, **options: Any) -> Any:
            from parquet_bloom.spark.console import call

            options = {name: value for name, value in options.items() if name not in _LOCAL_ONLY}
            return call(command.__name__, master, *arguments, **options)

        return command(verb=verb, **options)

    where = click.option(
        "--engine",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="Do the work here, or in tasks on a Spark cluster.",
    )
    which = click.option("--master", metavar="URL", help="Spark's. [default: what spark-submit says, else local[*]]")
    return where(which(chosen))


# ---- commands ----------------------------------------------------------------------------


@main.command()
@_paths
@_columns
@click.option("--all", "each", is_flag=True, help=f"List each filter, also of files with more than {LISTED}.")
@_json
@_storage
@_engines
def inspect(
    verb: _Verb, paths: tuple[str, ...], columns: tuple[str, ...], each: bool, as_json: bool, storage: tuple[str, ...]
) -> None:
    """Show every filter: size, fill, real rate, and who can use it.

    \b
    Example:
      parquet-bloom inspect events/ --column user_id
      parquet-bloom inspect s3://lake/events --engine spark --master yarn --json
    """
    with _progress("reading filters") as progress:
        found = verb(paths, columns or None, storage_options=_storage_options(storage), progress=progress)
    if as_json:
        _print_json(found.files)
    else:
        _print_inspection(found, each)
    sys.exit(ERROR if found.is_damaged else MATCH)


@main.command(cls=_TakesNegatives)
@_paths
@click.argument("column")
@click.argument("value")
@_timezone
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
    """Ask which row groups can hold a value, by their filters alone.

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
@click.option(
    "--table",
    type=click.Choice(["auto", "delta", "iceberg"]),
    is_flag=False,
    flag_value="auto",
    help="PATH is a table: write new files beside the old ones, and swap them in by a commit.",
)
@click.option(
    "--catalog", metavar="NAME", help="PATH is namespace.table in this catalog of pyiceberg's configuration (Iceberg)."
)
@_output
@_dry_run
@_keep_mtime
@_jobs
@_strict
@_force
@_json
@_storage
@_engines
def add(
    verb: _Verb,
    paths: tuple[str, ...],
    table: str | None,
    catalog: str | None,
    max_bytes: int | None,
    as_json: bool,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Give columns a filter in every row group that has none.

    No page is encoded again: the old bytes stay the beginning of the new file, which replaces the old one
    atomically, or is written elsewhere with -o.

    \b
    Examples:
      parquet-bloom add events/ --column user_id --dry-run
      parquet-bloom add day.parquet -c user_id -c session.id -o new.parquet
      parquet-bloom add --engine spark --master 'local[4]' events/ -c user_id
      parquet-bloom add lake/events --table -c user_id
      parquet-bloom add db.events --table iceberg --catalog prod -c user_id
    """
    if max_bytes is not None:
        options["max_bytes"] = max_bytes
    if table is not None:
        verb, paths = parquet_bloom.add_to_table, _one_table(paths, options)
        options["kind"], options["catalog"] = None if table == "auto" else table, catalog
    elif catalog is not None:
        raise click.UsageError("--catalog is for tables; add --table iceberg")
    with _progress("adding filters") as progress:
        added = verb(paths, storage_options=_storage_options(storage), progress=progress, **options)
    if as_json:
        _print_json(added.rows)
    else:
        _print_added(added)
    sys.exit(ERROR if added.has_errors else MATCH)


def _one_table(paths: tuple[str, ...], options: dict[str, Any]) -> Any:
    """Return the one path, and leave those of `options` that a table takes."""
    for name in ("fill_lengths", "output", "keep_mtime", "force", "strict"):
        if options.pop(name):
            raise click.UsageError(f"--{name.replace('_', '-')} makes no sense with --table")
    if len(paths) != 1:
        raise click.UsageError("--table takes one PATH, the table's directory")
    return paths[0]


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
@_engines
def drop(
    verb: _Verb,
    paths: tuple[str, ...],
    columns: tuple[str, ...],
    as_json: bool,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Take filters away, or cut files back with --restore.

    Cleared filters leave their bytes in the file; --restore gives back what the file was before `add`, byte for byte.

    \b
    Examples:
      parquet-bloom drop events/ --column user_id
      parquet-bloom drop events/ --restore
      parquet-bloom drop --engine spark --master 'local[4]' events/ --restore
    """
    with _progress("dropping filters") as progress:
        dropped = verb(paths, columns or None, storage_options=_storage_options(storage), progress=progress, **options)
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
@_engines
def verify(
    verb: _Verb,
    paths: tuple[str, ...],
    columns: tuple[str, ...],
    jobs: int | None,
    as_json: bool,
    storage: tuple[str, ...],
) -> None:
    """Prove from the data that no filter lacks a value.

    Decodes the columns that have filters, and asks each filter for each value that is there.

    \b
    Example:
      parquet-bloom verify events/
      parquet-bloom verify --engine spark --master 'local[4]' events/
    """
    with _progress("verifying") as progress:
        verified = verb(paths, columns or None, jobs=jobs, storage_options=_storage_options(storage), progress=progress)
    if as_json:
        _print_json(verified.files)
    else:
        _print_verification(verified)
    sys.exit(ERROR if verified.has_errors else NO_MATCH if verified.findings else MATCH)


@main.command()
@_paths
@click.option("-w", "--where", required=True, metavar="CONDITION", help="SQL in Spark's dialect.")
@click.option("-l", "--files-only", is_flag=True, help="Print only the files that must be read, a line each.")
@click.option("--explain", is_flag=True, help="Print every row group and what decided about it.")
@_as_of
@_timezone
@_complain
@_json
@_storage
@_engines
def prune(
    verb: _Verb,
    paths: tuple[str, ...],
    where: str,
    files_only: bool,
    explain: bool,
    as_json: bool,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Show which files and row groups can hold matching rows.

    \b
    Examples:
      parquet-bloom prune events/ --where "id = 'x' AND day >= '2024-01-01'"
      parquet-bloom prune events/ -w "id IN (1, 2)" --files-only | xargs du -h
      parquet-bloom prune --engine spark s3://lake/events -w "id = 'x'"
    """
    with _progress("pruning") as progress:
        pruned = verb(paths, where, storage_options=_storage_options(storage), progress=progress, **options)
    if files_only:
        for file in pruned.files:
            click.echo(file.path)
    elif as_json:
        _print_json(pruned.all_files)
    elif explain:
        click.echo(pruned.explain())
    else:
        _print_pruning(pruned)
    for file in pruned.files:
        if file.kept_whole is not None and not explain and not as_json:
            _say(f"{file.path}: kept whole: {file.kept_whole}", color="yellow", err=True)
    sys.exit(MATCH if pruned.might_match else NO_MATCH)


@main.command()
@_paths
@click.option("-c", "--column", required=True, metavar="COLUMN", help="The leaf column that holds the keys.")
@click.option(
    "-k", "--keys", required=True, metavar="FILE", help="Keys: Parquet or CSV with that column, or text, a key a line."
)
@click.option("-o", "--output", metavar="FILE", help="Write the candidates to this new Parquet file.")
@_as_of
@_timezone
@_complain
@_json
@_storage
@_engines
def lookup(
    verb: _Verb,
    paths: tuple[str, ...],
    column: str,
    keys: str,
    output: str | None,
    as_json: bool,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Show which row groups can hold which of many keys.

    \b
    Example:
      parquet-bloom lookup events/ --column id --keys keys.txt -o found.parquet
      parquet-bloom lookup --engine spark s3://lake/events -c id -k keys.txt
    """
    with _progress("looking up") as progress:
        found = verb(paths, column, keys, storage_options=_storage_options(storage), progress=progress, **options)
        num_candidates = found.write(output) if output is not None else _print_candidates(found, as_json)
    if output is not None and not as_json:
        _say(f"{output}: {_count(num_candidates, 'candidate')}")
    sys.exit(MATCH if num_candidates else NO_MATCH)


# ---- the index ---------------------------------------------------------------------------


@main.command()
@click.argument("statement")
@_json
@_storage
def sql(statement: str, as_json: bool, storage: tuple[str, ...]) -> None:
    """Run CREATE or DROP BLOOMFILTER INDEX, with a path for the name.

    \b
    Example:
      parquet-bloom sql "CREATE BLOOMFILTER INDEX ON 'events/' FOR COLUMNS (sha OPTIONS (fpp=0.1))"
    """
    with _progress("indexing") as progress:
        state = parquet_bloom.execute(statement, storage_options=_storage_options(storage), progress=progress)
    _show_index(state, as_json)


@main.group()
def index() -> None:
    """Keep an index of filters beside the files: PATH/_bloom_index."""


_root = click.argument("root", metavar="PATH")


@index.command("create")
@_root
@click.option("-c", "--column", "columns", multiple=True, required=True, metavar="COLUMN", help="Repeatable.")
@click.option("--fpp", type=float, default=0.1, show_default=True, help="The false-positive rate of a file's filter.")
@click.option("--num-items", type=click.IntRange(1), help="The most distinct values of a file to size a filter for.")
@click.option("--max-expected-fpp", type=float, help="Leave out filters with a worse rate.")
@_jobs
@_json
@_storage
def index_create(root: str, columns: tuple[str, ...], as_json: bool, storage: tuple[str, ...], **options: Any) -> None:
    """Index columns of all Parquet files below PATH, which are only read.

    \b
    Example:
      parquet-bloom index create events/ --column user_id
    """
    given = {name: value for name, value in options.items() if value is not None}
    with _progress("indexing") as progress:
        state = parquet_bloom.index_create(
            root, columns, storage_options=_storage_options(storage), progress=progress, **given
        )
    _show_index(state, as_json)


@index.command("refresh")
@_root
@_jobs
@_json
@_storage
def index_refresh(root: str, jobs: int | None, as_json: bool, storage: tuple[str, ...]) -> None:
    """Take in files that are new or have changed.

    \b
    Example:
      parquet-bloom index refresh events/
    """
    with _progress("indexing") as progress:
        state = parquet_bloom.index_refresh(
            root, jobs=jobs, storage_options=_storage_options(storage), progress=progress
        )
    _show_index(state, as_json)


@index.command("drop")
@_root
@_columns
@_json
@_storage
def index_drop(root: str, columns: tuple[str, ...], as_json: bool, storage: tuple[str, ...]) -> None:
    """Take columns out of the index, or remove it.

    \b
    Example:
      parquet-bloom index drop events/
    """
    _show_index(parquet_bloom.index_drop(root, columns or None, storage_options=_storage_options(storage)), as_json)


@index.command("show")
@_root
@_json
@_storage
def index_show(root: str, as_json: bool, storage: tuple[str, ...]) -> None:
    """Show what the index has, and how many files it lacks.

    \b
    Example:
      parquet-bloom index show events/
    """
    _show_index(parquet_bloom.index_show(root, storage_options=_storage_options(storage)), as_json)


@index.command("hudi")
@_paths
@click.option("--key-column", default="_hoodie_record_key", show_default=True, help="The column of record keys.")
@click.option("--type", type=click.Choice(["DYNAMIC_V0", "SIMPLE"]), default="DYNAMIC_V0", show_default=True)
@click.option("--num-entries", type=click.IntRange(1), default=60_000, show_default=True, help="Keys to size it for.")
@click.option("--fpp", type=float, default=1e-9, show_default=True, help="The false-positive rate.")
@click.option("--replace", is_flag=True, help="Make a filter again where there is one.")
@_output
@_dry_run
@_force
@_jobs
@_json
@_storage
def index_hudi(
    paths: tuple[str, ...], type: str, dry_run: bool, as_json: bool, storage: tuple[str, ...], **options: Any
) -> None:
    """Give base files Hudi's filter of record keys, in their footers: 431 KB of text each by default.

    \b
    Example:
      parquet-bloom index hudi staged/ --num-entries 10000 --dry-run
    """
    with _progress("planning" if dry_run else "adding") as progress:
        added = parquet_bloom.add_hudi_filter(
            paths,
            type=type,
            dry_run=dry_run,
            storage_options=_storage_options(storage),
            progress=progress,
            **options,
        )
    if as_json:
        _print_json(added.rows)
    else:
        _print_added(added, "Hudi's filter of record keys")
    sys.exit(ERROR if added.has_errors else MATCH)


@index.command("paimon")
@click.argument("path", metavar="FILE|TABLE")
@click.option("-c", "--column", "columns", multiple=True, required=True, metavar="COLUMN", help="Repeatable.")
@click.option("--items", type=click.IntRange(1), default=1_000_000, show_default=True, help="Values to size it for.")
@click.option("--fpp", type=float, default=0.1, show_default=True, help="The false-positive rate.")
@click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", help="A column's type in Paimon's schema.")
@click.option("-o", "--output", metavar="FILE", help="Write to this new file instead of FILE.index.")
@click.option("--attach", is_flag=True, help="Give all files of TABLE an index, and commit that.")
@click.option("-n", "--dry-run", is_flag=True, help="With --attach: only tell what would be done.")
@click.option("--jobs", type=click.IntRange(1), help="With --attach: threads. [default: one for each processor]")
@_json
@_storage
def index_paimon(
    path: str,
    columns: tuple[str, ...],
    types: tuple[str, ...],
    output: str | None,
    attach: bool,
    dry_run: bool,
    jobs: int | None,
    as_json: bool,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Write Paimon's file index of one data file, byte by byte as Paimon does, or --attach one to all of a table.

    \b
    Examples:
      parquet-bloom index paimon data-0.parquet --column id --items 100000
      parquet-bloom index paimon lake/orders --column id --items 100000 --attach
    """
    if attach:
        for name, value in (("--type", types), ("--output", output), ("--storage-option", storage)):
            if value:
                raise click.UsageError(f"{name} makes no sense with --attach")
        with _progress("planning" if dry_run else "indexing") as progress:
            attached = parquet_bloom.attach_paimon_index(
                path, columns, dry_run=dry_run, jobs=jobs, progress=progress, **options
            )
        _print_attached(attached, as_json)
        sys.exit(ERROR if attached.has_errors else MATCH)
    if dry_run or jobs is not None:
        raise click.UsageError("--dry-run and --jobs are for --attach")
    named = dict(kind.split("=", 1) for kind in types if "=" in kind)
    written, num_bytes = parquet_bloom.write_paimon_index(
        path, columns, output=output, types=named or None, storage_options=_storage_options(storage), **options
    )
    if as_json:
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "path": written, "num_bytes": num_bytes}))
    else:
        _say(f"{written}: {_size(num_bytes)}")


@main.command()
@click.option("--keep", metavar="DIR", help="Make the sample in this new directory and leave it there.")
def demo(keep: str | None) -> None:
    """Show all of this on a small sample, in seconds.

    \b
    Example:
      parquet-bloom demo --keep sample
    """
    for line in parquet_bloom.demo(keep):
        click.echo(line)


# ---- outputs -----------------------------------------------------------------------------


def _print_json(rows: Any) -> None:
    for row in rows:
        click.echo(json.dumps(row.to_dict()))


def _say(text: str, indent: int = 0, *, color: str | None = None, err: bool = False) -> None:
    """Print a sentence; on a terminal its lines are broken between words."""
    lines = " " * indent + text
    if (sys.stderr if err else sys.stdout).isatty():
        width = shutil.get_terminal_size().columns
        hanging = " " * (indent + 2)
        lines = textwrap.fill(lines, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)
    click.secho(lines, fg=color, err=err)


def _refuse(path: str, error: str) -> None:
    _say(f"{path}: {error}", color="red", err=True)


def _table(*columns: str, right: tuple[str, ...] = ()) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        number = column in right  # only what is text may take several lines
        table.add_column(column, justify="right" if number else "left", no_wrap=number, overflow="fold")
    return table


def _show(table: Any) -> None:
    from rich.console import Console
    from rich.padding import Padding

    # What is not a terminal has no width: nothing is cut or wrapped there.
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _print_inspection(found: Inspection, each: bool) -> None:
    for file in found.files:
        if file.error:
            _refuse(file.path, file.error)
            continue
        writer = file.created_by.partition(" (build")[0]
        _say(
            f"{file.path}: {_size(file.size)}, {_count(file.num_rows, 'row')}, "
            f"{_count(file.num_row_groups, 'row group')}, {_count(len(file.filters), 'filter')}"
            f"{f', by {writer}' if writer else ''}"
        )
        if each or len(file.filters) <= LISTED:
            _print_filters(file)
        else:
            _print_columns(file)
        _print_uses(file)
    damaged = sum(file.is_damaged for file in found.files)
    _print_total(len(found.files), [(len(found.rows), "filter")], damaged and f"{damaged:,} damaged")


def _print_filters(file: FileInfo) -> None:
    numbers = ("group", "bytes", "values", "ndv", "fill", "fpp", "worst", "folds to")
    table = _table("group", "column", *numbers[1:], right=numbers)
    for f in file.filters:
        if f.num_bytes is not None:
            is_ours = f.format == "Parquet"
            is_full = f.ndv is None or f.ndv == float("inf")
            table.add_row(
                str(f.row_group) if is_ours else "file",
                f.column if is_ours else f"{f.column} ({f.format})",
                f"{f.num_bytes:,}",
                f"{f.num_values:,}",
                ("full" if is_ours else "") if is_full else f"~{f.ndv:,.0f}",
                _percent(f.fill) if f.fill is not None else "",
                _percent(f.fpp) if f.fpp is not None else "",
                _percent(f.worst_block_fpp) if f.worst_block_fpp is not None else "",
                f"{f.folds_to:,}" if f.folds_to is not None else "",
            )
    if table.row_count:
        _show(table)


def _print_columns(file: FileInfo) -> None:
    columns: dict[str, list[FilterInfo]] = {}
    for f in file.filters:
        if f.num_bytes is not None:
            columns.setdefault(f.column if f.format == "Parquet" else f"{f.column} ({f.format})", []).append(f)
    numbers = ("filters", "bytes", "values", "fill", "mean fpp", "worst", "fold to")
    table = _table("column", *numbers, right=numbers)
    for column, filters in columns.items():
        table.add_row(
            column,
            f"{len(filters):,}",
            f"{sum(f.num_bytes or 0 for f in filters):,}",
            f"{sum(f.num_values or 0 for f in filters):,}",
            _percent(sum(f.fill or 0 for f in filters) / len(filters)),
            _percent(sum(f.fpp or 0 for f in filters) / len(filters)),
            _percent(max(f.worst_block_fpp or 0 for f in filters)),
            f"{sum(f.folds_to or 0 for f in filters):,}",
        )
    _show(table)
    _say("Sums and means over the row groups; --all lists each filter.", 2)


def _print_uses(file: FileInfo) -> None:
    uses: dict[tuple[str, ...], list[str]] = {}
    hazards: dict[str, list[str]] = {}
    problems: dict[tuple[str, str], list[int]] = {}
    for f in file.filters:
        if f.num_bytes is not None and f.format == "Parquet":
            uses.setdefault(f.used_by, []).append(f"{f.column} ({f.type})")
        for hazard in f.hazards:
            hazards.setdefault(hazard, []).append(f.column)
        if f.problem:
            problems.setdefault((f.column, f"not usable: {f.problem}"), []).append(f.row_group)
        if f.untrusted:
            problems.setdefault((f.column, f"never asked: {f.untrusted}"), []).append(f.row_group)
    for engines, columns in uses.items():
        _say(f"used by {', '.join(engines) or 'no engine known here'}: {', '.join(dict.fromkeys(columns))}", 2)
    for hazard, columns in hazards.items():
        _say(f"careful: {hazard}: {', '.join(dict.fromkeys(columns))}", 2, color="yellow")
    for (column, problem), groups in problems.items():
        _say(f"{'whole file' if groups == [-1] else _groups(groups)}, {column}: {problem}", 2, color="yellow")


def _print_probe(answer: Probe) -> None:
    from parquet_bloom.reader import CANNOT_MATCH, MIGHT_MATCH

    files: dict[str, dict[tuple[str, str], list[int]]] = {}
    for row in answer.rows:
        files.setdefault(row.path, {}).setdefault((row.answer, row.reason), []).append(row.row_group)
    for path, answers in files.items():
        kept = sum(len(groups) for (said, _), groups in answers.items() if said == MIGHT_MATCH)
        if any(groups == [-1] for groups in answers.values()):
            _say(f"{path}: might match")
        else:
            _say(f"{path}: {kept:,} of {_count(sum(map(len, answers.values())), 'row group')} might match")
        for (said, reason), groups in answers.items():
            _say(f"{said}, {_groups(groups)}: {reason}", 2, color="green" if said == CANNOT_MATCH else None)
    kept = sum(any(said == MIGHT_MATCH for said, _ in answers) for answers in files.values())
    _print_total(len(files), [], f"{kept:,} might match")


def _print_pruning(pruned: Pruning) -> None:
    totals = pruned.totals
    kept = [file for file in pruned.files if file.row_groups]
    if kept:
        table = _table("file", "read", "of", "rows", "bytes", "row groups", right=("read", "of", "rows", "bytes"))
        for file in kept:
            groups = [group for group in file.row_groups if group.is_kept]
            table.add_row(
                file.path,
                str(len(groups)),
                str(len(file.row_groups)),
                f"{sum(group.num_rows for group in groups):,}",
                _size(sum(group.stop - group.start for group in groups)),
                _groups(group.row_group for group in groups),
            )
        _show(table)
    _say(
        f"{totals.files_kept:,} of {_count(totals.files, 'file')} and {totals.row_groups_kept:,} of "
        f"{_count(totals.row_groups, 'row group')} must be read: {_size(totals.bytes_kept)} of {_size(totals.bytes)}; "
        f"{totals.row_groups_by_statistics:,} ruled out by statistics, {totals.row_groups_by_filters:,} by filters"
        + (f"; {_count(totals.files_left_out, 'file')} left out by the table" if totals.files_left_out else "")
    )


def _print_candidates(found: Lookup, as_json: bool) -> int:
    num_candidates = 0
    for batch in found:
        num_candidates += batch.num_rows - batch.column("path").null_count
        for row in batch.to_pylist():
            if as_json:
                click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **row}, ensure_ascii=False, default=str))
            elif row["path"] is None:
                click.echo(f"{row['key']}\tnowhere")
            else:
                group = "whole file" if row["row_group"] is None else f"row group {row['row_group']}"
                click.echo(f"{row['key']}\t{row['path']}\t{group}")
    return num_candidates


def _print_added(added: Added, told: str | None = None) -> None:
    """Print what came of each file: how many filters, or what is `told` for them."""
    for row in added.rows:
        name = row.path if row.output == row.path else f"{row.path} -> {row.output}"
        filters, size = told or _count(len(row.filters), "filter"), _size(row.bytes_added)
        if row.error:
            _refuse(name, f"refused: {row.error}")
        elif row.status == "unchanged":
            _say(f"{name}: nothing to do{_skipped(row)}")
        elif row.status == "planned":
            _say(f"{name}: would add {filters}, at most {size}{_skipped(row)}")
        else:
            worst = max((f.fpp for f in row.filters), default=0.0)
            rate = f", false positives at most {_percent(worst)}" if row.filters else ""
            _say(f"{name}: added {filters}, {size}{rate}{_skipped(row)}")
        for note in row.notes:
            _say(note, 2, color="yellow")
    num_filters = sum(len(row.filters) for row in added.rows)
    _print_total(len(added.rows), [] if told else [(num_filters, "filter")], _refused(added))


def _print_attached(attached: Attached, as_json: bool) -> None:
    if as_json:
        _print_json(attached.rows)
    else:
        _print_added(attached, "an index")
        if attached.version is not None:
            _say(f"committed snapshot {attached.version}")
    for note in attached.notes:
        _say(note, color="yellow", err=as_json)


def _show_index(state: IndexState, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(state.to_dict()))
    elif not state.exists:
        _say(f"{state.root}: no index")
    else:
        _say(f"{state.root}: {_count(len(state.rows), 'column')}, {_size(state.num_bytes)}")
        numbers = ("files", "missing", "bytes", "fpp")
        table = _table("column", *numbers, right=numbers)
        for row in state.rows:
            table.add_row(
                row.column, f"{row.files:,}", f"{row.files_missing:,}", f"{row.num_bytes:,}", _percent(row.fpp)
            )
        _show(table)
        for row in state.rows:
            for problem in row.problems:
                _say(f"{row.column}: without a filter: {problem}", 2, color="yellow")


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
            _refuse(name, f"refused: {row.error}")
        elif row.status == "unchanged":
            _say(f"{name}: nothing to do")
        elif row.bytes_freed:
            _say(f"{name}: {would}restored, {_size(row.bytes_freed)} freed")
        else:
            left = f"; {_size(row.bytes_left)} stay in the file, --restore would free them" if row.bytes_left else ""
            _say(f"{name}: {_count(row.cleared, 'filter')} {would}cleared{left}")
        for note in row.notes:
            _say(note, 2, color="yellow")
    _print_total(len(dropped.rows), [(sum(row.cleared for row in dropped.rows), "filter")], _refused(dropped))


def _refused(result: Added | Dropped) -> str:
    refused = sum(bool(row.error) for row in result.rows)
    return f"{refused:,} refused" if refused else ""


def _print_verification(verified: Verification) -> None:
    from parquet_bloom.verification import OK

    for file in verified.files:
        if file.error:
            _refuse(file.path, file.error)
            continue
        good = [row for row in file.filters if row.verdict == OK]
        if not file.filters:
            _say(f"{file.path}: no filters")
        else:
            values = sum(row.num_values for row in good)
            _say(f"{file.path}: {_count(len(good), 'filter')} ok ({_count(values, 'value')} asked for and found)")
        bad: dict[tuple[str, str, str | None], list[Any]] = {}
        for row in file.filters:
            if row.verdict != OK:
                bad.setdefault((row.column, row.verdict, row.cause), []).append(row)
        for (column, verdict, cause), rows in bad.items():
            what = f"{_groups(row.row_group for row in rows)}, {column} ({rows[0].type}): {verdict}"
            if missing := sum(row.num_missing for row in rows):
                asked = _count(sum(row.num_values for row in rows), "value")
                what += f": {missing:,} of {asked} missing, such as {rows[0].example}"
            _say(f"{what}{f': {cause}' if cause else ''}", 2, color="red")
    wrong = len(verified.findings)
    _print_total(len(verified.files), [(len(verified.rows), "filter")], f"{wrong:,} not ok" if wrong else "all ok")


def _print_total(num_files: int, counts: Iterable[tuple[int, str]], remark: str | int) -> None:
    """Print a last line where the others are many enough to scroll away."""
    if num_files > 1:
        parts = [_count(n, noun) for n, noun in ((num_files, "file"), *counts)]
        _say(", ".join([*parts, str(remark)] if remark else parts))


def _groups(numbers: Iterable[int]) -> str:
    """Return row groups as people write them: `row groups 0-3, 7`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    if runs == [[-1, -1]]:
        return "all row groups"
    said = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"row group{'' if len(runs) == 1 and runs[0][0] == runs[0][1] else 's'} {said}"


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
    """Show a bar on a terminal once the work has taken a while."""
    if not sys.stderr.isatty():
        yield None
        return
    state = [0, 0]
    finished = threading.Event()

    def update(done: int, total: int) -> None:
        state[:] = done, total

    def show() -> None:
        if finished.wait(BAR_AFTER):
            return
        from rich.console import Console
        from rich.progress import Progress as Bar

        with Bar(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=None)
            while not finished.wait(0.1):
                bar.update(task, completed=state[0], total=state[1] or None)

    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    try:
        yield update
    finally:
        finished.set()
        watcher.join()


def _leave_quietly() -> None:
    """End as a program whose reader went away: without a traceback from the interpreter's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(MATCH)
