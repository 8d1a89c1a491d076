"""How a command runs: one library call, here or on Spark, with a progress bar; then its output and its exit code."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NoReturn

import click

import parquet_bloom
from parquet_bloom.cli.exits import ERROR, MATCH, end_with
from parquet_bloom.cli.options import Decorator, as_json, together
from parquet_bloom.cli.output import hide_options, print_rows, spell_as
from parquet_bloom.cli.terminal import AWAITED, is_terminal, progress_bar


class Run:
    """The library call of a command, and its end."""

    def __init__(self, doing: str, verb: str, bars: contextlib.ExitStack) -> None:
        given = click.get_current_context().params
        self._doing, self._verb, self._bars = doing, verb, bars
        self._master: str | None = given.get("master")
        self._on_spark = given.get("engine") == "spark"
        self.format: str = _chosen_format(given)

    def __call__(self, **keywords: Any) -> Any:
        """Return the result of the command's verb; keywords that are None were not given."""
        given = {name: value for name, value in keywords.items() if value is not None}
        if not self._on_spark:
            return self.here(self._verb, **given)
        from parquet_bloom.spark.console import call

        given = {name: value for name, value in given.items() if name not in _local_only(self._verb)}
        progress = self._bars.enter_context(progress_bar(self._doing))
        return call(self._verb, self._master, hide=hide_options, progress=progress, **given)

    def here(self, verb: str, **keywords: Any) -> Any:
        """Return the result of a verb that runs on this machine."""
        progress = self._bars.enter_context(progress_bar(self._doing))
        if verb not in _WITHOUT_PROGRESS:
            keywords["progress"] = progress
        return attrgetter(verb)(parquet_bloom)(**keywords)

    def show(
        self,
        result: Any,
        print_table: Callable[[Any], object],
        records: Iterable[Any] | None = None,
        unlisted: Iterable[Any] = (),
    ) -> None:
        """Print a result in the format that was asked for.

        `records` are what JSON shows, by default the rows; CSV and Parquet have no row for the `unlisted`.
        """
        if self.format == "table":
            print_table(result)
        else:
            print_rows(result, self.format, result.rows if records is None else records, unlisted)

    def end(self, result: Any, *output: Any, code: int = MATCH, **settings: Any) -> NoReturn:
        """Print a result as `show` does, and end with `code`, or with that of an error."""
        self.show(result, *output, **settings)
        end_with(ERROR if result.errors else code)


_WITHOUT_PROGRESS = ("index.drop", "index.show", "paimon.write_index", "check_ledger", "erase_plan")

_FORMATS = together(
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json", "csv", "parquet"]),
        metavar="FORMAT",
        help="Print a table, json, csv or parquet. [default: table]",
    ),
    as_json,
)
_ENGINES = together(
    click.option(
        "--engine",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="Run here, or on a Spark cluster.",
    ),
    click.option("--master", metavar="URL", help="Spark's master. [default: that of spark-submit, else local[*]]"),
)


def runs(doing: str, verb: str, *, engines: bool = False, formats: bool = True) -> Decorator:
    """Return what gives a command its `run` of a verb, and the options for the format and for where it runs."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def running(**options: Any) -> None:
            context = click.get_current_context()
            spell_as(context.command)
            _check_engine(context, verb)
            for name in ("output_format", "as_json", "engine", "master"):
                options.pop(name, None)
            with contextlib.ExitStack() as bars:
                command(run=Run(doing, verb, bars), **options)

        shared = [_FORMATS] * formats + [_ENGINES] * engines
        return together(*shared)(running)

    return decorate


def _chosen_format(given: dict[str, Any]) -> str:
    chosen: str | None = given.get("output_format")
    if given.get("as_json") and chosen not in (None, "json"):
        raise click.UsageError("--json means --format json, so give one of them")
    if chosen == "parquet" and is_terminal(sys.stdout):
        raise click.UsageError("--format parquet writes a Parquet file, which is not for a terminal; add > FILE")
    return "json" if given.get("as_json") else chosen or "table"


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


def _local_only(verb: str) -> dict[str, str]:
    return _LOCAL_ONLY | _LOCAL_ONLY_OF.get(verb, {})


def _check_engine(context: click.Context, verb: str) -> None:
    """Refuse options that the engine does not take."""
    given = context.params
    if given.get("engine") == "spark":
        for name, why_not in _local_only(verb).items():
            if given.get(name):
                raise click.UsageError(why_not)
        context.meta[AWAITED] = True
    elif given.get("master") is not None:
        raise click.UsageError("--master needs --engine spark")
    elif given.get("storage_options") == "spark":
        raise click.UsageError("--storage-option spark takes Spark's settings; it needs --engine spark")
