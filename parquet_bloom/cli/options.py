"""Arguments and options that commands share."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
from click.shell_completion import CompletionItem

import parquet_bloom
from parquet_bloom.cli.output import hide_options
from parquet_bloom.cli.terminal import AWAITED, QUIET, is_terminal

_Command = TypeVar("_Command", bound=Callable[..., Any])
Verb = Callable[..., Any]


class Decorator(Protocol):
    """What gives a command an argument or an option."""

    def __call__(self, command: _Command, /) -> _Command:
        """Return the command, with it."""


if TYPE_CHECKING:
    _WholeNumber = click.ParamType[int, Any]
else:
    _WholeNumber = click.ParamType  # which is not generic in every version that is supported


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


class Count(_WholeNumber):
    """A whole number, which may be written as `1e6` or `1_000_000`."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            number = Decimal(value)
            is_count = number >= 0 and number == int(number)
        except (ArithmeticError, ValueError):  # no number, an infinite one, NaN
            is_count = False
        if not is_count:
            self.fail(f"{value!r} is not a whole number of 0 or more, such as 1000000 or 1e6", param, ctx)
        return int(number)


# ---- arguments that commands share -------------------------------------------------------


def complete_path(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the names of files."""
    return [CompletionItem(incomplete, type="file")]


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

paths_argument: Decorator = click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="PATH...",
    shell_complete=complete_path,
    callback=_no_condition,
)
root_argument: Decorator = click.argument("root", metavar="PATH", shell_complete=complete_path)
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
columns_option: Decorator = click.option(
    "-c", "--column", "columns", multiple=True, metavar="COLUMN", help="A leaf column, such as user.id. Repeatable."
)
jobs_option: Decorator = click.option(
    "--jobs", type=click.IntRange(1), help="Number of threads. [default: one per processor]"
)
output_option: Decorator = click.option(
    "-o",
    "--output",
    metavar="PATH",
    shell_complete=complete_path,
    help="Write new files here; the old ones stay as they are.",
)
dry_run_option: Decorator = click.option("-n", "--dry-run", is_flag=True, help="Only show what would be done.")
keep_mtime_option: Decorator = click.option("--keep-mtime", is_flag=True, help="Keep the files' modification times.")
strict_option: Decorator = click.option("--strict", is_flag=True, help="Stop at the first file that is refused.")


readers_option: Decorator = click.option(
    "--readers",
    metavar="ENGINES",
    help="Engines and releases that read the files, such as 'duckdb>=2,datafusion>=55'. "
    "[default: $PARQUET_BLOOM_READERS, else any recent ones]",
)
hazards_option: Decorator = click.option(
    "--accept-hazards", is_flag=True, help="Leave no column out because readers would lose rows."
)


def key_file(_context: click.Context, _parameter: click.Parameter, name: str | None) -> Path | None:
    """Return the file of keys that was named; - is standard input."""
    return None if name is None else Path("/dev/stdin" if name == "-" else name)


keys_option: Decorator = click.option(
    "-k",
    "--keys",
    required=True,
    metavar="FILE",
    shell_complete=complete_path,
    callback=key_file,
    help="A Parquet, CSV or TSV file with that column, or text with one key per line; - is standard input.",
)
timezone_option: Decorator = click.option(
    "--timezone", metavar="ZONE", help="Time zone to assume for timestamps without one, such as Europe/Berlin."
)
complain_option: Decorator = click.option(
    "--strict", is_flag=True, help="Stop at the first file that cannot be read, instead of keeping it."
)
as_of_option: Decorator = click.option(
    "--as-of", metavar="VERSION", help="Read a table as of an earlier version or time."
)
catalog_option: Decorator = click.option(
    "--catalog", metavar="NAME", help="PATH is namespace.table in this catalog of pyiceberg's configuration (Iceberg)."
)
table_option: Decorator = click.option(
    "--table",
    type=click.Choice(["auto", "delta", "iceberg"]),
    is_flag=False,
    flag_value="auto",
    help="PATH is a table: write new files beside the old ones, and swap them in with a commit.",
)
partitions_option: Decorator = click.option(
    "-w",
    "--where",
    metavar="CONDITION",
    help="With --table: only files of these partitions, by a condition on partition columns alone.",
)
pace_option: Decorator = click.option(
    "--max-commits-per-minute",
    type=float,
    metavar="NUMBER",
    help="With --table: space the commits, for a table that others write to.",
)
outside_option: Decorator = click.option(
    "--allow-outside", is_flag=True, help="Also read files that a table has outside of its directory."
)
index_option: Decorator = click.option(
    "--index", metavar="FOLDER", shell_complete=complete_path, help="The folder of an index created with --at."
)
at_option: Decorator = click.option(
    "--at",
    metavar="FOLDER",
    shell_complete=complete_path,
    help="The folder of the index. [default: NAME.bloom-index beside the directory]",
)
unencrypted_option: Decorator = click.option(
    "--allow-unencrypted",
    is_flag=True,
    help="Also index encrypted files, although the index is not encrypted.",
)


def _note_quiet(context: click.Context, _parameter: click.Parameter, is_quiet: bool) -> bool:
    context.meta[QUIET] = is_quiet
    return is_quiet


quiet_option: Decorator = click.option(
    "-q", "--quiet", is_flag=True, callback=_note_quiet, help="Print nothing: the exit code is the answer."
)
messages_option: Decorator = click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=_note_quiet, help="Print only errors and warnings."
)
absent_option: Decorator = click.option(
    "--absent",
    is_flag=True,
    help="For scripts: exit with 0 if nothing can match, with 1 if something might.",
)
force_option: Decorator = click.option(
    "--force", is_flag=True, help="Change files even if they belong to a Delta, Iceberg, Hudi or Paimon table."
)


def changing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that changes files the options that say which of those in a directory it may change."""
    links = click.option(
        "--follow-links", is_flag=True, help="Also change what links in a directory lead to outside of it."
    )
    any_name = click.option("--any-name", is_flag=True, help="Also change files of a directory without a Parquet name.")
    return any_name(links(command))


def format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--format`, and `--json` as one of its values, both as `output_format`."""

    @functools.wraps(command)
    def formatted(*, output_format: str | None, as_json: bool, **options: Any) -> Any:
        if as_json and output_format not in (None, "json"):
            raise click.UsageError("--json means --format json, so give one of them")
        if output_format == "parquet" and is_terminal(sys.stdout):
            raise click.UsageError("--format parquet writes a Parquet file, which is not for a terminal; add > FILE")
        return command(output_format="json" if as_json else output_format or "table", **options)

    which = click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json", "csv", "parquet"]),
        metavar="FORMAT",
        help="Print a table, json, csv or parquet. [default: table]",
    )
    return which(json_option(formatted))


def storage_option(command: _Command) -> _Command:
    """Give a command `--storage-option`."""
    option = click.option(
        "--storage-option", "storage", multiple=True, metavar="KEY=VALUE", help="Passed on to fsspec. Repeatable."
    )
    return option(command)


def keys_file_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--keys-file`, as `decryption`."""

    @functools.wraps(command)
    def with_keys(*, decryption: str | None, **options: Any) -> Any:
        return command(decryption=None if decryption is None else _keys_in(decryption), **options)

    option = click.option(
        "--keys-file",
        "decryption",
        metavar="FILE",
        shell_complete=complete_path,
        help="Read encrypted files with the keys in this JSON file.",
    )
    return option(with_keys)


def _keys_in(path: str) -> parquet_bloom.Decryption:
    """Return the keys that a file has; no error shows a part of it."""
    try:
        return parquet_bloom.Decryption.from_json(Path(path).read_text("utf-8"))
    except UnicodeDecodeError:
        raise click.UsageError(f"--keys-file {path}: it is not text") from None
    except ValueError as error:
        raise click.UsageError(f"--keys-file {path}: {error}") from None


def storage_options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Return the options for fsspec that were given as KEY=VALUE."""
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
    return options


_OF_SPARK = ("spark",)


# ---- engines -----------------------------------------------------------------------------

_LOCAL_ONLY = {
    "jobs": "--jobs counts this machine's threads; Spark has its own number of cores, such as --master 'local[8]'",
    "decryption": "--keys-file gives keys to this process, and Spark's executors are others; leave out --engine spark",
    "as_of": "--as-of reads a table's log, which is done here and not on Spark",
    "auto": "--auto samples files here and not on Spark; name the columns that `parquet-bloom advise` finds",
    "policy": "--policy commits to a table, which is done here and not on Spark",
    "in_place": "--in-place changes local files, which is done here and not on Spark",
    "only_absent": "--absent reads the column here, and not on Spark, so leave out --engine spark",
    "strict": "--strict stops at the first file, but on Spark files have no order, so leave it out",
}

_INDEX_HERE = {"index": "--index is read here and not on Spark, so leave out --engine spark"}
_TABLE_HERE = dict.fromkeys(
    ("catalog", "allow_outside"), "--catalog and --allow-outside are about a table, which is opened here, not on Spark"
)
_LOCAL_ONLY_OF = {
    "add": dict.fromkeys(
        ("table", "where", "max_commits_per_minute"), "--table commits to a table, which is done here and not on Spark"
    ),
    "erase": dict.fromkeys(("check", "plan"), "--check and --plan work here and not on Spark, so leave out --engine"),
    "inspect": _TABLE_HERE,
    "verify": _TABLE_HERE
    | {"certificate": "--certificate is written here and not on Spark, so leave out --engine spark"},
    "prune": _INDEX_HERE,
    "lookup": _INDEX_HERE,
    "find": _INDEX_HERE
    | {
        "catalog": "--catalog names a table, whose live rows are found here and not on Spark",
        "allow_outside": "--allow-outside is for a table, whose live rows are found here and not on Spark",
    },
}


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options for where it runs, and as its `verb` the function that runs there."""

    @functools.wraps(command)
    def chosen(*, engine: str, master: str | None, **options: Any) -> Any:
        if engine == "local":
            if master is not None:
                raise click.UsageError("--master is for Spark; say --engine spark with it")
            if options.get("storage") == _OF_SPARK:
                raise click.UsageError("--storage-option spark takes Spark's settings; say --engine spark with it")
            return command(verb=getattr(parquet_bloom, command.__name__), **options)
        local_only = _LOCAL_ONLY | _LOCAL_ONLY_OF.get(command.__name__, {})
        for name, why_not in local_only.items():
            if options.get(name):
                raise click.UsageError(why_not)

        click.get_current_context().meta[AWAITED] = True

        def verb(*arguments: Any, **options: Any) -> Any:
            from parquet_bloom.spark.console import call

            options = {name: value for name, value in options.items() if name not in local_only}
            if takes_those_of_spark:
                options["storage_options"] = "spark"
            return call(command.__name__, master, *arguments, hide=hide_options, **options)

        if takes_those_of_spark := options.get("storage") == _OF_SPARK:
            options["storage"] = ()
        return command(verb=verb, **options)

    where = click.option(
        "--engine",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="Run here, or on a Spark cluster.",
    )
    which = click.option(
        "--master", metavar="URL", help="Spark's master. [default: that of spark-submit, else local[*]]"
    )
    return where(which(chosen))


def one_table(
    paths: tuple[str, ...],
    options: dict[str, Any],
    refused: Sequence[str] = (
        *("fill_lengths", "output", "keep_mtime", "force", "strict", "any_name", "follow_links", "in_place"),
    ),
) -> Any:
    """Return the one path, and leave those of `options` that a table takes."""
    for name in refused:
        if options.pop(name):
            raise click.UsageError(f"--{name.replace('_', '-')} makes no sense with --table")
    if len(paths) != 1:
        raise click.UsageError("--table takes one PATH, the table's directory")
    return paths[0]
