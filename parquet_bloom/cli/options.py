"""Arguments and options that commands share; each is named as the library's keyword that it is."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

import parquet_bloom
from parquet_bloom.cli.output import hide_options
from parquet_bloom.cli.terminal import QUIET

How = dict[str, Any]
"""The keywords that say how files are read."""


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What gives a command an argument or an option."""


class TakesNegatives(click.Command):
    """A command whose last argument may be a negative number, which click would read as an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, with negative numbers as values."""
        negatives = [] if "--" in args else [arg for arg in args if re.match(r"-\.?\d", arg)]
        others = [arg for arg in args if arg not in negatives]
        try:
            return super().parse_args(ctx, [*others, "--", *negatives] if negatives else args)
        except click.MissingParameter as missing:  # click misses the first, whichever was left out
            pieces = " ".join(self.collect_usage_pieces(ctx)[1:])
            raise click.UsageError(f"Missing argument: give {pieces}", ctx) from missing


def count(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Return a whole number, which may be written as `1e6` or `1_000_000`."""
    if value is None:
        return None
    try:
        number = Decimal(value)
        is_count = number >= 0 and number == int(number)
    except (ArithmeticError, ValueError):  # no number, an infinite one, NaN
        is_count = False
    if not is_count:
        raise click.BadParameter(f"{value!r} is not a whole number of 0 or more, such as 1000000 or 1e6")
    return int(number)


def flag(*names: str, help: str, **settings: Any) -> Decorator:
    """Return an option without a value."""
    return click.option(*names, is_flag=True, help=help, **settings)


def path_option(*names: str, metavar: str = "FILE", **settings: Any) -> Decorator:
    """Return an option for a path, which the shell completes."""
    return click.option(*names, metavar=metavar, shell_complete=_complete_path, **settings)


def path_argument(name: str, metavar: str = "PATH", **settings: Any) -> Decorator:
    """Return an argument for a path, which the shell completes."""
    return click.argument(name, metavar=metavar, shell_complete=_complete_path, **settings)


def _complete_path(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def together(*options: Decorator) -> Decorator:
    """Return the decorator that gives a command these options, in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)

    return decorate


# ---- what is changed or shown ------------------------------------------------------------


def _no_condition(context: click.Context, _parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths, of which none may be a condition, or a piece of one that the shell has taken apart."""
    for path in paths:
        if path.upper() in _OPERATORS and not Path(path).exists():
            raise click.UsageError(f"{path!r} is not a path; put a condition in quotes, such as \"id = 'x'\"")
        takes_one = any(option.name == "where" for option in context.command.params)
        may_be_path = "://" in path or set(path) & set("*?[") or Path(path).exists()
        if takes_one and set(path.upper().split()[1:]) & _OPERATORS and not may_be_path:
            raise click.UsageError(f"{path!r} is not a path; a condition goes behind --where")
    return paths


_OPERATORS = {"=", "==", "<>", "!=", "IN", "IS", "LIKE", "AND", "OR", "NOT", "BETWEEN"}


def list_or_none(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> list[str] | None:
    """Return the values of a repeatable option, None if there are none."""
    return list(values) or None


def several(
    *names: str, help: str = "A leaf column. Repeatable.", metavar: str = "COLUMN", **settings: Any
) -> Decorator:
    """Return an option that can be repeated: None if it is not given."""
    return click.option(*names, multiple=True, metavar=metavar, callback=list_or_none, help=help, **settings)


paths = path_argument("paths", "PATH...", nargs=-1, required=True, callback=_no_condition)
root = path_argument("root")
columns = several("-c", "--column", "columns", help="A leaf column, such as user.id. Repeatable.")
jobs: Decorator = click.option("--jobs", type=click.IntRange(1), help="Number of threads. [default: one per processor]")
output = path_option("-o", "--output", metavar="PATH", help="Write new files here; the old ones stay as they are.")
dry_run: Decorator = flag("-n", "--dry-run", help="Only show what would be done.")
keep_mtime: Decorator = flag("--keep-mtime", help="Keep the files' modification times.")
strict: Decorator = flag("--strict", help="Stop at the first file that is refused.")
readers: Decorator = click.option(
    "--readers",
    metavar="ENGINES",
    help="Engines and releases that read the files, such as 'duckdb>=2,datafusion>=55'. "
    "[default: $PARQUET_BLOOM_READERS, else any recent ones]",
)
hazards: Decorator = flag("--accept-hazards", help="Leave no column out because readers would lose rows.")


def _key_file(_context: click.Context, _parameter: click.Parameter, name: str | None) -> Path | None:
    """Return the file of keys that was named; - is standard input."""
    return None if name is None else Path("/dev/stdin" if name == "-" else name)


KEY_FILE = "A Parquet, CSV or TSV file with that column, or text with one key per line; - is standard input."


def keys(help: str = KEY_FILE, **settings: Any) -> Decorator:
    """Return the option for a file of keys."""
    return path_option("-k", "--keys", callback=_key_file, help=help, **settings)


key_column: Decorator = click.option(
    "-c", "--column", required=True, metavar="COLUMN", help="The leaf column with the keys."
)


def complain(otherwise: str) -> Decorator:
    """Return the option to stop at files that cannot be read."""
    help = f"Stop at the first file that cannot be read, instead of {otherwise}."
    return click.option("--strict", is_flag=True, help=help)


def _table_kind(_context: click.Context, _parameter: click.Parameter, kind: str | None) -> str | bool | None:
    return True if kind == "auto" else kind


in_table = together(
    click.option(
        "--table",
        type=click.Choice(["auto", "delta", "iceberg"]),
        is_flag=False,
        flag_value="auto",
        callback=_table_kind,
        help="PATH is a table: write new files beside the old ones, and swap them in with a commit.",
    ),
    click.option(
        "-w",
        "--where",
        metavar="CONDITION",
        help="With --table: only files of these partitions, by a condition on partition columns alone.",
    ),
    click.option(
        "--max-commits-per-minute",
        type=float,
        metavar="NUMBER",
        help="With --table: space the commits, for a table that others write to.",
    ),
)


def _note_quiet(context: click.Context, _parameter: click.Parameter, is_quiet: bool) -> bool:
    context.meta[QUIET] = is_quiet
    return is_quiet


quiet: Decorator = flag("-q", "--quiet", callback=_note_quiet, help="Print nothing: the exit code is the answer.")
messages: Decorator = flag(
    "-q", "--quiet", expose_value=False, callback=_note_quiet, help="Print only errors and warnings."
)
absent: Decorator = flag("--absent", help="For scripts: exit with 0 if nothing can match, with 1 if something might.")
as_json: Decorator = flag("--json", "as_json", help="Print one JSON object per line.")


def files_only(help: str) -> Decorator:
    """Return the options to print names of files only."""
    return together(
        flag("-l", "--files-only", help=help),
        flag("-0", "--null", help="With --files-only: end each with a zero byte, for xargs -0."),
    )


force: Decorator = flag("--force", help="Change files even if they belong to a Delta, Iceberg, Hudi or Paimon table.")
which_files = together(
    flag("--any-name", help="Also change files of a directory without a Parquet name."),
    flag("--follow-links", help="Also change what links in a directory lead to outside of it."),
)


# ---- how files are read ------------------------------------------------------------------


def _keys_in(path: str) -> parquet_bloom.Decryption:
    """Return the keys that a file has; no error shows a part of it."""
    try:
        return parquet_bloom.Decryption.from_json(Path(path).read_text("utf-8"))
    except UnicodeDecodeError:
        raise click.UsageError(f"--keys-file {path}: it is not text") from None
    except ValueError as error:
        raise click.UsageError(f"--keys-file {path}: {error}") from None


def _storage_options(context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> Any:
    """Return the options for fsspec that were given as KEY=VALUE, or "spark" for those of Spark."""
    if pairs == ("spark",) and any(option.name == "engine" for option in context.command.params):
        return "spark"
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--storage-option takes KEY=VALUE, not {pair!r}")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    hide_options(options)
    return options or None


_HOW: dict[str, Decorator] = {
    "catalog": click.option(
        "--catalog",
        metavar="NAME",
        help="PATH is namespace.table in this catalog of pyiceberg's configuration (Iceberg).",
    ),
    "as_of": click.option("--as-of", metavar="VERSION", help="Read a table as of an earlier version or time."),
    "index": path_option("--index", metavar="FOLDER", help="The folder of an index created with --at."),
    "at": path_option(
        "--at",
        metavar="FOLDER",
        help="The folder of the index. [default: NAME.bloom-index beside the directory]",
    ),
    "allow_outside": flag("--allow-outside", help="Also read files that a table has outside of its directory."),
    "timezone": click.option(
        "--timezone", metavar="ZONE", help="Time zone to assume for timestamps without one, such as Europe/Berlin."
    ),
    "decryption": path_option(
        "--keys-file", "decryption", help="Read encrypted files with the decryption keys in this JSON file."
    ),
    "allow_unencrypted": flag(
        "--allow-unencrypted", help="Also index encrypted files, although the index is not encrypted."
    ),
    "storage_options": click.option(
        "--storage-option",
        "storage_options",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_storage_options,
        help="Passed on to fsspec. Repeatable.",
    ),
}
OF_SNAPSHOT = ("catalog", "as_of", "index", "allow_outside", "timezone", "decryption", "storage_options")
OF_INDEX = ("at", "catalog", "allow_outside", "storage_options")


def how_to_read(*names: str) -> Decorator:
    """Return what gives a command the options of these keywords, and those that were given as its `how`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def reading(**options: Any) -> Any:
            how = {name: value for name in names if (value := options.pop(name)) is not None}
            if "decryption" in how:
                how["decryption"] = _keys_in(how["decryption"])
            return command(how=how, **options)

        return together(*map(_HOW.__getitem__, names))(reading)

    return decorate
