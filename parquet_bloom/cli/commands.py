"""The command line: arguments -> one library call -> an output."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

import parquet_bloom
from parquet_bloom.cli.exits import ERROR, MATCH, NO_MATCH, Commands, end_with, verdict_code
from parquet_bloom.cli.keywords import as_options
from parquet_bloom.cli.options import (
    Count,
    TakesNegatives,
    Verb,
    absent_option,
    as_of_option,
    at_option,
    catalog_option,
    changing_options,
    columns_option,
    complain_option,
    complete_path,
    dry_run_option,
    engine_options,
    force_option,
    format_options,
    hazards_option,
    index_option,
    jobs_option,
    json_option,
    keep_mtime_option,
    key_file,
    keys_file_option,
    keys_option,
    messages_option,
    one_table,
    output_option,
    outside_option,
    pace_option,
    partitions_option,
    paths_argument,
    quiet_option,
    readers_option,
    root_argument,
    storage_option,
    storage_options,
    strict_option,
    table_option,
    timezone_option,
    unencrypted_option,
)
from parquet_bloom.cli.output import (
    LISTED,
    Warnings,
    print_absent,
    print_added,
    print_advice,
    print_attached,
    print_candidates,
    print_dropped,
    print_erased,
    print_errors,
    print_found,
    print_index,
    print_inspection,
    print_ledger,
    print_path,
    print_probe,
    print_pruning,
    print_recovered,
    print_report,
    print_rows,
    print_steps,
    print_traces,
    print_verification,
    print_why_all_is_kept,
    say,
    say_lines,
)
from parquet_bloom.cli.terminal import echo, is_terminal, progress_bar
from parquet_bloom.results import SCHEMA_VERSION, count_text, size_text


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(parquet_bloom.__version__, prog_name="parquet-bloom")
def main() -> None:
    """See, add, verify and use bloom filters in Parquet files, without re-encoding them.

    PATHS are files, globs, directories (all Parquet files below) and URLs such as s3://bucket/dir.

    \b
    Start with:
      parquet-bloom demo          all of it on a small sample
      parquet-bloom inspect PATH  the filters that your files have
      parquet-bloom advise PATH   the columns that are worth one

    \b
    Exit codes:
      0  something might match, or all is well
      1  nothing can match, or `verify` found something
      2  an error
    """
    with contextlib.suppress(ValueError):  # not in the main thread, as when a test calls
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    log = logging.getLogger("parquet_bloom")
    if not log.hasHandlers():
        log.addHandler(Warnings())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape")  # a file's name may be any bytes


# ---- commands ----------------------------------------------------------------------------


@main.command()
@paths_argument
@columns_option
@click.option("--all", "each", is_flag=True, help=f"List each filter, also of files with more than {LISTED}.")
@click.option("-v", "--verbose", is_flag=True, help="Also show how full each column's filters are, as a histogram.")
@readers_option
@keys_file_option
@catalog_option
@as_of_option
@outside_option
@format_options
@storage_option
@engine_options
def inspect(
    verb: Verb,
    paths: tuple[str, ...],
    columns: tuple[str, ...],
    each: bool,
    verbose: bool,
    output_format: str,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Show filters: size, fill, false-positive rate, and who uses them.

    \b
    Example:
      parquet-bloom inspect events/ --column user_id
      parquet-bloom inspect events/ --keys-file keys.json
      parquet-bloom inspect s3://lake/events --engine spark --master yarn --json
    """
    with progress_bar("reading filters") as progress:
        inspection = verb(
            paths, columns or None, storage_options=storage_options(storage), progress=progress, **options
        )
    if output_format == "table":
        print_inspection(inspection, each, verbose=verbose)
    else:
        print_rows(inspection, output_format, inspection.files, inspection.errors)
    end_with(ERROR if inspection.errors else MATCH)


@main.command(cls=TakesNegatives, short_help="Show which row groups may contain a value.")
@paths_argument
@click.argument("column")
@click.argument("value")
@timezone_option
@keys_file_option
@quiet_option
@absent_option
@catalog_option
@as_of_option
@outside_option
@format_options
@storage_option
def probe(
    paths: tuple[str, ...],
    column: str,
    value: str,
    timezone: str | None,
    quiet: bool,
    absent: bool,
    output_format: str,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Show which row groups may contain a value, by their filters alone.

    VALUE is typed by the column: 42, 3.5, 2024-01-31, 2024-01-31T12:00:00Z, 0xCAFE for bytes.

    \b
    Example:
      parquet-bloom probe events/ user_id 4711
      parquet-bloom probe -q --absent events/ user_id 4711 && echo skip it
    """
    with progress_bar("probing") as progress:
        answer = parquet_bloom.probe(
            paths,
            column,
            value,
            as_text=True,
            timezone=timezone,
            storage_options=storage_options(storage),
            progress=progress,
            **options,
        )
    if quiet:
        pass
    elif output_format == "table":
        print_probe(answer)
    else:
        print_rows(answer, output_format, answer.rows)
    end_with(verdict_code(answer.might_match, absent))


@main.command()
@paths_argument
@messages_option
@click.option("-c", "--column", "columns", multiple=True, metavar="COLUMN", help="A leaf column. Repeatable.")
@click.option("--auto", is_flag=True, help="Choose columns and rates as `parquet-bloom advise` does.")
@click.option("--policy", is_flag=True, help="With --table: add the filters that the table's own properties ask for.")
@click.option(
    "--fpp", type=float, help="The highest false-positive rate to allow. [default: 0.01, with --auto what fits]"
)
@click.option("--ndv", type=Count(), help="Size filters for this many distinct values per row group, and do not fold.")
@click.option("--max-bytes", type=click.IntRange(64), help="The largest filter to write; the rate may get worse.")
@click.option("--replace", is_flag=True, help="Rebuild filters that are already there.")
@click.option("--fill-lengths", is_flag=True, help="Add a missing bloom_filter_length to filters that stay.")
@table_option
@partitions_option
@pace_option
@catalog_option
@readers_option
@hazards_option
@click.option("--allow-large", is_flag=True, help="Also write filters that are larger than their file.")
@output_option
@dry_run_option
@keep_mtime_option
@jobs_option
@strict_option
@force_option
@changing_options
@click.option(
    "--in-place",
    is_flag=True,
    help="Append to the files themselves, without a copy: readers may fail meanwhile, and after a crash a file needs "
    "`parquet-bloom recover`.",
)
@format_options
@storage_option
@engine_options
def add(
    verb: Verb,
    paths: tuple[str, ...],
    columns: tuple[str, ...],
    fpp: float | None,
    table: str | None,
    catalog: str | None,
    max_bytes: int | None,
    output_format: str,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Add filters to columns, in every row group that has none.

    No data page is rewritten: the new file starts with the old bytes. It replaces the old file atomically, or is
    written elsewhere with -o.

    \b
    Examples:
      parquet-bloom add events/ --column user_id --dry-run
      parquet-bloom add events/ --auto
      parquet-bloom add day.parquet -c user_id -c session.id -o new.parquet
      parquet-bloom add huge.parquet -c user_id --in-place
      parquet-bloom add --engine spark --master 'local[4]' events/ -c user_id
      parquet-bloom add lake/events --table -c user_id
      parquet-bloom add db.events --table iceberg --catalog prod -c user_id
      parquet-bloom add lake/events --table --policy
    """
    ways = bool(columns) + options["auto"] + options["policy"]
    if ways > 1:
        raise click.UsageError("give only one of --column, --auto and --policy")
    if ways == 0:
        of_table = ", or --policy for those of the table's properties" if table is not None else ""
        raise click.UsageError(
            f"which columns? give --column, or --auto for those that `parquet-bloom advise` finds{of_table}"
        )
    if options["policy"] and table is None:
        raise click.UsageError("--policy is what a table's properties say; add --table")
    for name, value in (("max_bytes", max_bytes), ("fpp", fpp)):
        if value is not None:
            options[name] = value
    if table is not None:
        verb, paths = parquet_bloom.add, one_table(paths, options)
        options["table"], options["catalog"] = table == "auto" or table, catalog
    elif catalog is not None:
        raise click.UsageError("--catalog is for tables; add --table iceberg")
    with progress_bar("adding filters") as progress:
        added = verb(paths, columns or None, storage_options=storage_options(storage), progress=progress, **options)
    if options["auto"] and not added.rows:
        say("no column is worth a filter that has none yet; `parquet-bloom advise` with the same PATH says why")
    elif output_format == "table":
        names = dict.fromkeys(one.column for row in added.rows for one in row.filters)
        if options["auto"] and names:
            say(f"{count_text(len(names), 'column')} worth a filter: {', '.join(names)}")
        print_added(added)
    else:
        print_rows(added, output_format, added.rows)
    end_with(ERROR if added.errors else MATCH)


@main.command()
@paths_argument
@columns_option
@click.option(
    "-w",
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="A condition as you ask it, SQL in Spark's dialect. Repeatable.",
)
@click.option(
    "--queries",
    metavar="FILE",
    shell_complete=complete_path,
    help="A file of SQL statements: their conditions are what is asked.",
)
@click.option(
    "--dialect",
    default="spark",
    show_default=True,
    metavar="NAME",
    help="The SQL of --queries, such as trino, duckdb, postgres or clickhouse.",
)
@click.option(
    "-k",
    "--keys",
    metavar="FILE",
    shell_complete=complete_path,
    callback=key_file,
    help="Keys as you look them up in the one --column: Parquet, CSV, TSV, or text with a key per line; - is standard "
    "input.",
)
@click.option("--fpp", type=float, help="The false-positive rate of the filters. [default: what fits each column]")
@click.option("--price", type=float, metavar="MONEY", help="What reading 1 TB costs, to show what lookups save.")
@readers_option
@hazards_option
@timezone_option
@catalog_option
@as_of_option
@outside_option
@jobs_option
@keys_file_option
@format_options
@storage_option
def advise(
    paths: tuple[str, ...],
    columns: tuple[str, ...],
    where: tuple[str, ...],
    output_format: str,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Show which columns are worth a filter, and why.

    Reads footers and the values of a few row groups. A lookup is one of a value of a random row, unless you say what
    you ask.

    \b
    Examples:
      parquet-bloom advise events/
      parquet-bloom advise events/ -w "user_id = 4711" -w "ip IN ('::1')"
      parquet-bloom advise lake/events --queries last_week.sql --price 5
    """
    with progress_bar("sampling columns") as progress:
        advice = parquet_bloom.advise(
            paths,
            columns or None,
            where=list(where) or None,
            storage_options=storage_options(storage),
            progress=progress,
            **options,
        )
    if output_format == "table":
        narrowed = (
            columns
            or where
            or any(options[name] for name in ("queries", "keys", "readers", "accept_hazards", "catalog", "as_of"))
        )
        print_advice(advice, with_price=options["price"] is not None, can_add=not narrowed)
    else:
        print_rows(advice, output_format, advice.rows, advice.errors)
    end_with(ERROR if advice.errors else MATCH)


@main.command()
@paths_argument
@messages_option
@columns_option
@click.option("--restore", is_flag=True, help="Cut the file back to what it was before `add`.")
@click.option("--all", is_flag=True, help="With --restore: also cut away what other programs have appended since.")
@output_option
@dry_run_option
@keep_mtime_option
@jobs_option
@strict_option
@force_option
@changing_options
@format_options
@storage_option
@engine_options
def drop(
    verb: Verb,
    paths: tuple[str, ...],
    columns: tuple[str, ...],
    output_format: str,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Remove filters, or give back the original files with --restore.

    Removed filters leave their bytes in the file; --restore gives back the file as it was before `add`, byte for byte.
    It keeps what another program has changed in the footer since, unless --all is given.

    \b
    Examples:
      parquet-bloom drop events/ --column user_id
      parquet-bloom drop events/ --restore
      parquet-bloom drop --engine spark --master 'local[4]' events/ --restore
    """
    with progress_bar("dropping filters") as progress:
        dropped = verb(paths, columns or None, storage_options=storage_options(storage), progress=progress, **options)
    if output_format == "table":
        print_dropped(dropped)
    else:
        print_rows(dropped, output_format, dropped.rows)
    end_with(ERROR if dropped.errors else MATCH)


@main.command()
@paths_argument
@messages_option
@dry_run_option
@jobs_option
@strict_option
@changing_options
@format_options
def recover(paths: tuple[str, ...], output_format: str, **options: Any) -> None:
    """Repair files whose `add --in-place` was killed.

    Cuts a local file back to what it was before, byte for byte. Only filters and a part of a footer that `add` was
    writing are cut away: a file that ends in anything else is refused, and a whole one is left alone.

    \b
    Example:
      parquet-bloom recover huge.parquet --dry-run
      parquet-bloom recover events/
    """
    with progress_bar("recovering") as progress:
        recovered = parquet_bloom.recover(paths, progress=progress, **options)
    if output_format == "table":
        print_recovered(recovered)
    else:
        print_rows(recovered, output_format, recovered.rows)
    end_with(ERROR if recovered.errors else MATCH)


def _file_name(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value == "-":
        raise click.BadParameter("give the name of a file; ./- is one")
    return value


@main.command()
@paths_argument
@messages_option
@columns_option
@click.option(
    "--certificate",
    metavar="FILE",
    shell_complete=complete_path,
    callback=_file_name,
    help="Write what was proved to this new file, with digests of files, footers, pages and filters.",
)
@readers_option
@jobs_option
@keys_file_option
@catalog_option
@as_of_option
@outside_option
@format_options
@storage_option
@engine_options
def verify(
    verb: Verb,
    paths: tuple[str, ...],
    columns: tuple[str, ...],
    certificate: str | None,
    output_format: str,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Prove from the data that no filter lacks a value.

    Decodes the columns that have filters, and probes each filter for each of the values.

    \b
    Examples:
      parquet-bloom verify events/
      parquet-bloom verify events/ --certificate events.json
      parquet-bloom verify --engine spark --master 'local[4]' events/
    """
    options |= {"certificate": certificate, "storage_options": storage_options(storage)}
    with progress_bar("verifying") as progress:
        verified = verb(paths, columns or None, progress=progress, **options)
    if output_format == "table":
        print_verification(verified, certificate)
    else:
        print_rows(verified, output_format, verified.files, verified.errors)
    end_with(ERROR if verified.errors else NO_MATCH if verified.findings else MATCH)


@main.command()
@paths_argument
@click.option("-w", "--where", required=True, metavar="CONDITION", help="SQL in Spark's dialect.")
@click.option("-l", "--files-only", is_flag=True, help="Print only the files that must be read, one per line.")
@click.option("-0", "--null", is_flag=True, help="With --files-only: end each with a zero byte, for xargs -0.")
@click.option("--explain", is_flag=True, help="Print every row group, and why it is kept or skipped.")
@click.option(
    "--exact", is_flag=True, help="Also read the columns of row groups that are left, and skip those without the value."
)
@catalog_option
@as_of_option
@index_option
@outside_option
@timezone_option
@complain_option
@keys_file_option
@quiet_option
@absent_option
@format_options
@storage_option
@engine_options
def prune(
    verb: Verb,
    paths: tuple[str, ...],
    where: str,
    files_only: bool,
    null: bool,
    explain: bool,
    quiet: bool,
    absent: bool,
    output_format: str,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Show which files and row groups may contain matching rows.

    \b
    Examples:
      parquet-bloom prune events/ --where "id = 'x' AND day >= '2024-01-01'"
      parquet-bloom prune events/ -w "id IN (1, 2)" -l -0 | xargs -0 du -h
      parquet-bloom prune events/ -w "id = 'x'" --exact
      parquet-bloom prune db.events --catalog prod -w "id = 'x'"
      parquet-bloom prune --engine spark s3://lake/events -w "id = 'x'"
    """
    if null and not files_only:
        raise click.UsageError("-0 is for --files-only")
    with progress_bar("pruning") as progress:
        pruned = verb(paths, where, storage_options=storage_options(storage), progress=progress, **options)
    if quiet:
        pass
    elif files_only:
        for file in pruned.kept_files:
            print_path(file.path, null)
    elif output_format != "table":
        print_rows(pruned, output_format, pruned.all_files)
    elif explain:
        say_lines(pruned.explain())
    else:
        print_pruning(pruned)
    if pruned.unused is not None and not explain:
        say(pruned.unused, color="yellow", err=True)
    elif output_format == "table" and not (quiet or explain or files_only):
        print_why_all_is_kept(pruned)
    for file in pruned.kept_files:
        if file.not_pruned is not None and not explain and output_format != "json":
            say(f"{file.path}: not pruned: {as_options(file.not_pruned)}", color="yellow", err=True)
    end_with(verdict_code(pruned.might_match, absent))


@main.command()
@paths_argument
@click.option("-c", "--column", required=True, metavar="COLUMN", help="The leaf column with the keys.")
@keys_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=complete_path,
    help="Write the candidates, or the absent keys, to this new Parquet file.",
)
@click.option(
    "--absent", "only_absent", is_flag=True, help="Print only the keys that are nowhere, after reading the column."
)
@catalog_option
@as_of_option
@index_option
@outside_option
@timezone_option
@complain_option
@keys_file_option
@format_options
@storage_option
@engine_options
def lookup(
    verb: Verb,
    paths: tuple[str, ...],
    column: str,
    keys: Path,
    output: str | None,
    only_absent: bool,
    output_format: str,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Show which row groups may contain which of many keys.

    With --absent: the keys that are nowhere, exactly. The exit code is then 0 if there are such keys, 1 if there are
    none, 2 if a file could not be read.

    \b
    Example:
      parquet-bloom lookup events/ --column id --keys keys.txt -o found.parquet
      parquet-bloom lookup events/ -c id -k keys.txt --absent > new.txt
      parquet-bloom lookup --engine spark s3://lake/events -c id -k keys.txt
    """
    if output is not None and output_format in ("csv", "parquet"):
        raise click.UsageError("-o writes a Parquet file; --format writes to standard output, so give one of them")
    if only_absent:
        _lookup_absent(paths, column, keys, output, output_format, storage_options=storage_options(storage), **options)
    with progress_bar("looking up") as progress:
        candidates = verb(paths, column, keys, storage_options=storage_options(storage), progress=progress, **options)
        num_candidates = print_candidates(candidates, output_format) if output is None else candidates.write(output)
    if output is not None and output_format == "table":
        say(f"{output}: {count_text(num_candidates, 'candidate')}")
    end_with(MATCH if num_candidates else NO_MATCH)


def _lookup_absent(
    paths: tuple[str, ...], column: str, keys: Path, output: str | None, output_format: str, **options: Any
) -> NoReturn:
    with progress_bar("looking up") as progress:
        absent = parquet_bloom.absent(paths, column, keys, progress=progress, **options)
    if output is None:
        print_absent(absent, output_format)
    else:
        absent.write(output)
    if output_format == "table":
        said = f"{count_text(len(absent), 'key')} absent"
        say(f"{output}: {said}" if output else said, err=output is None)
    print_errors(absent.errors)
    if len(absent.unknown):
        say(f"{count_text(len(absent.unknown), 'key')} may be in files that could not be read", err=True)
    end_with(ERROR if absent.errors else MATCH if len(absent) else NO_MATCH)


@main.command()
@paths_argument
@click.option("-w", "--where", metavar="CONDITION", help="SQL in Spark's dialect.")
@click.option("-c", "--column", metavar="COLUMN", help="With --keys: the leaf column with the keys.")
@click.option(
    "-k",
    "--keys",
    metavar="FILE",
    shell_complete=complete_path,
    callback=key_file,
    help="A Parquet, CSV or TSV file with that column, or text with one key per line; - is standard input.",
)
@click.option(
    "-s", "--select", "columns", multiple=True, metavar="COLUMN", help="Show this column. Repeatable. [default: all]"
)
@click.option("-p", "--positions", is_flag=True, help="Also show each row's file, row group and number in the file.")
@click.option("-n", "--limit", type=click.IntRange(0), metavar="N", help="Stop after so many rows.")
@click.option("-l", "--files-only", is_flag=True, help="Print only the files that have such rows, one per line.")
@click.option("-0", "--null", is_flag=True, help="With --files-only: end each with a zero byte, for xargs -0.")
@click.option("--count", is_flag=True, help="Print only how many rows there are.")
@click.option("-v", "--invert-match", is_flag=True, hidden=True, help="Refused, with the reason.")
@catalog_option
@as_of_option
@index_option
@outside_option
@timezone_option
@click.option("--strict", is_flag=True, help="Stop at the first file that cannot be read, instead of going on.")
@keys_file_option
@quiet_option
@format_options
@storage_option
@engine_options
def find(
    verb: Verb,
    paths: tuple[str, ...],
    where: str | None,
    column: str | None,
    keys: Path | None,
    columns: tuple[str, ...],
    positions: bool,
    limit: int | None,
    files_only: bool,
    null: bool,
    count: bool,
    invert_match: bool,
    quiet: bool,
    output_format: str,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Print the rows that match a condition, or have one of many keys.

    The condition is evaluated exactly, as Spark does. The exit code is grep's: 0 if there are rows, 1 if there are
    none, 2 if a file could not be read.

    \b
    Examples:
      parquet-bloom find events/ --where "id = 'x'"
      parquet-bloom find events/ -c user_id -k keys.txt -s user_id --positions
      parquet-bloom find events/ -w "id = 'x'" -l
      parquet-bloom find events/ -w "id = 'x'" --format parquet > rows.parquet
      parquet-bloom find --engine spark s3://lake/events -w "id = 'x'"
    """
    if invert_match:
        raise click.UsageError(
            "find has no -v: filters only prove that a value is absent, so every file would be read; negate the "
            "condition if you want that, as in --where \"NOT (id = 'x')\""
        )
    if (where is None) == (keys is None) or (column is None) != (keys is None):
        raise click.UsageError("give --where, or --column with --keys")
    if null and not files_only:
        raise click.UsageError("-0 is for --files-only")
    only_places = files_only or count or quiet
    if quiet:
        limit = 1
    with progress_bar("searching") as progress:
        found = verb(
            paths,
            where,
            column=column,
            keys=keys,
            columns=() if only_places else columns or None,
            positions=positions or only_places,
            limit=limit,
            storage_options=storage_options(storage),
            progress=progress,
            **options,
        )
        num_rows = _print_places(found, files_only, null) if only_places else print_found(found, output_format)
    if count:
        echo(str(num_rows))
    print_errors(found.errors)
    end_with(ERROR if found.errors else MATCH if num_rows else NO_MATCH)


def _print_places(found: parquet_bloom.Found, files_only: bool, null: bool) -> int:
    """Print the files of rows if `files_only`, each once and at once; return how many rows there are."""
    num_rows, last = 0, None
    for batch in found:
        num_rows += batch.num_rows
        for path in batch["path"].unique().to_pylist() if files_only else ():
            if path != last:
                print_path(path, null)
            last = path
    return num_rows


@main.command()
@paths_argument
@messages_option
@click.option("-c", "--column", required=True, metavar="COLUMN", help="The leaf column with the keys.")
@click.option(
    "-k",
    "--keys",
    metavar="FILE",
    shell_complete=complete_path,
    callback=key_file,
    help="A Parquet, CSV or TSV file with that column, or text with one key per line; - is standard input. Not needed "
    "for --check with --ledger.",
)
@click.option(
    "--check", is_flag=True, help="Erase nothing: search every file of one PATH for what is left of the keys."
)
@click.option("--plan", is_flag=True, help="Erase nothing: print the statements by which Spark erases from a table.")
@timezone_option
@click.option("--keep-empty", is_flag=True, help="Keep a file that has no rows left, instead of removing it.")
@table_option
@partitions_option
@pace_option
@catalog_option
@index_option
@click.option(
    "--ledger",
    metavar="FILE",
    help="Write a .json or .parquet file that tells of each key from which files its rows went. Keys are hashed with "
    "the secret in PARQUET_BLOOM_LEDGER_SECRET. The ledger of a run that failed is continued. With --check: the "
    "ledger of the erasure.",
)
@click.option(
    "--ledger-keys",
    type=click.Choice(["hmac", "plain"]),
    help="Write the keys themselves to the ledger with plain. [default: hmac]",
)
@click.option("--request", metavar="ID", help="What you call the request for deletion; the ledger names it.")
@dry_run_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@jobs_option
@strict_option
@changing_options
@format_options
@storage_option
@engine_options
def erase(
    verb: Verb,
    paths: tuple[str, ...],
    column: str,
    keys: Path | None,
    check: bool,
    plan: bool,
    table: str | None,
    catalog: str | None,
    yes: bool,
    output_format: str,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Take the rows with given keys out of files, for good.

    Row groups without these rows are copied byte for byte, the others are written again. Each new file is searched for
    the keys before it replaces the old one.

    Earlier versions of a table (--table) keep the rows until they expire. --check tells what is left of them, in any
    file and any form; the exit code is then 0 if nothing is, 1 if something is, 2 if a file could not be searched.

    \b
    Examples:
      parquet-bloom erase events/ --column user_id --keys keys.txt --dry-run
      parquet-bloom erase events/ -c user_id -k keys.txt --yes
      parquet-bloom erase lake/events --table -c user_id -k keys.txt --yes
      parquet-bloom erase lake/events --check -c user_id -k keys.txt
      parquet-bloom erase lake/events --plan -c user_id -k keys.txt
      parquet-bloom erase --engine spark s3://lake/ev -c id -k keys.txt --yes
    """
    given: Any = paths
    if check or plan:
        if check and plan:
            raise click.UsageError("--check judges what the statements of --plan did; give one of them at a time")
        look = _check_erasure if check else _plan_erasure
        given = options | {"yes": yes, "catalog": catalog, "storage_options": storage_options(storage)}
        look(paths, column, keys, output_format, given)
    if keys is None:
        raise click.UsageError("Missing option '-k' / '--keys'.")
    if options["ledger_keys"] is None:
        del options["ledger_keys"]
    if table is not None:
        given = one_table(paths, options, ("keep_empty", "any_name", "follow_links"))
        options["table"], options["catalog"] = table == "auto" or table, catalog
    elif catalog is not None:
        raise click.UsageError("--catalog is for tables; add --table iceberg")
    if not (yes or options["dry_run"]):
        if not is_terminal(sys.stdin):
            raise click.UsageError("rows that are erased cannot be brought back; add --yes, or --dry-run to see them")
        question = f"Erase the rows whose {column} is among the keys in {keys}? They cannot be brought back."
        if not click.confirm(question, err=True):
            say("nothing was erased", err=True)
            end_with(ERROR)
    with progress_bar("erasing") as progress:
        erased = verb(given, column, keys, storage_options=storage_options(storage), progress=progress, **options)
    if output_format == "table":
        print_erased(erased)
    else:
        print_rows(erased, output_format, (*erased.rows, *erased.stale_indexes), erased.stale_indexes)
    end_with(ERROR if erased.errors else MATCH)


def _refuse_changes(name: str, paths: tuple[str, ...], options: Mapping[str, Any], taken: Sequence[str] = ()) -> None:
    if len(paths) != 1:
        raise click.UsageError(f"{name} takes one PATH")
    if any(value for option, value in options.items() if option not in taken):
        raise click.UsageError(f"{name} changes nothing, so options for changes make no sense with it")


def _check_erasure(
    paths: tuple[str, ...], column: str, keys: Path | None, output_format: str, options: dict[str, Any]
) -> NoReturn:
    """Print what is left of keys, and end."""
    taken = ("ledger", "timezone", "index", "jobs", "catalog", "storage_options")
    _refuse_changes("--check", paths, options, taken)
    if (keys is None) == (options["ledger"] is None):
        raise click.UsageError("--check needs either --keys, or --ledger with the ledger of the erasure")
    with progress_bar("searching") as progress:
        traces = parquet_bloom.erased(
            paths[0], column, keys, progress=progress, **{name: options[name] for name in taken}
        )
    print_traces(traces, output_format)
    end_with(ERROR if traces.errors else NO_MATCH if traces.rows else MATCH)


def _plan_erasure(
    paths: tuple[str, ...], column: str, keys: Path | None, output_format: str, options: dict[str, Any]
) -> NoReturn:
    """Print the statements that erase rows, and end."""
    taken = ("catalog", "storage_options")
    _refuse_changes("--plan", paths, options, taken)
    if keys is None:
        raise click.UsageError("--plan needs --keys")
    steps = parquet_bloom.erase_plan(paths[0], column, keys, **{name: options[name] for name in taken})
    print_steps(steps, output_format)
    end_with(MATCH)


@main.command()
@paths_argument
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    shell_complete=complete_path,
    callback=_file_name,
    help="Write the page to this file.",
)
@columns_option
@click.option("-w", "--where", metavar="CONDITION", help="Also show which row groups a condition keeps, as prune does.")
@click.option("--verify", "verification", is_flag=True, help="Also prove from the data that no filter lacks a value.")
@click.option("--advise", "advice", is_flag=True, help="Also estimate which columns are worth a filter.")
@click.option(
    "--fpp", type=float, default=0.01, show_default=True, help="Mark filters whose false-positive rate is worse."
)
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@readers_option
@messages_option
@timezone_option
@catalog_option
@as_of_option
@outside_option
@jobs_option
@keys_file_option
@storage_option
def report(
    paths: tuple[str, ...], output: str, columns: tuple[str, ...], storage: tuple[str, ...], **options: Any
) -> None:
    """Draw what filters cost, and whether they work, as an HTML page.

    The page is a single file that opens without a network. It needs the extra [report].

    \b
    Examples:
      parquet-bloom report events/ -o events.html --advise
      parquet-bloom report events/ -o events.html --verify --where "id = 'x'"
    """
    with progress_bar("reading") as progress:
        written = parquet_bloom.report(
            paths, output, columns or None, storage_options=storage_options(storage), progress=progress, **options
        )
    print_report(written)
    findings = written.verification is not None and written.verification.findings
    end_with(ERROR if written.errors else NO_MATCH if findings else MATCH)


# ---- the index ---------------------------------------------------------------------------


@main.command()
@click.argument("statement")
@messages_option
@at_option
@click.option("--catalog", metavar="NAME", help="The statement names an Iceberg table in this catalog of pyiceberg.")
@outside_option
@keys_file_option
@unencrypted_option
@format_options
@storage_option
def sql(statement: str, output_format: str, storage: tuple[str, ...], **options: Any) -> None:
    """Run CREATE or DROP BLOOMFILTER INDEX on a path.

    \b
    Example:
      parquet-bloom sql "CREATE BLOOMFILTER INDEX ON 'events/' FOR COLUMNS (sha OPTIONS (fpp=0.1))"
    """
    with progress_bar("indexing") as progress:
        state = parquet_bloom.execute(statement, storage_options=storage_options(storage), progress=progress, **options)
    print_index(state, output_format)
    end_with(ERROR if state.errors else MATCH)


@main.group()
def ledger() -> None:
    """Read the ledgers of `erase --ledger`."""


@ledger.command("check", short_help="Prove that a ledger is as it was written, and show what it says.")
@click.argument("file", metavar="FILE", shell_complete=complete_path)
@click.option("--key", metavar="KEY", help="Was this key erased, and from which files? Spell it as for `erase`.")
@format_options
def ledger_check(file: str, key: str | None, output_format: str) -> None:
    """Prove that a ledger is as it was written, and show what it says.

    Keys that are hashed, and the seal, need the secret in PARQUET_BLOOM_LEDGER_SECRET. The exit code is 1 if the ledger
    was changed, or if it does not say that everything, or the key, was erased.

    \b
    Examples:
      parquet-bloom ledger check erased.json
      parquet-bloom ledger check erased.json --key 28ffad1b05bb
    """
    checked = parquet_bloom.check_ledger(file, key)
    print_ledger(checked, output_format)
    end_with(NO_MATCH if checked.findings else MATCH)


@main.group()
def index() -> None:
    """Keep an index of filters beside a directory: PATH.bloom-index."""


@index.command("create", short_help="Index columns; the files stay as they are.")
@root_argument
@messages_option
@click.option(
    "-c", "--column", "columns", multiple=True, required=True, metavar="COLUMN", help="A leaf column. Repeatable."
)
@click.option("--fpp", type=float, default=0.1, show_default=True, help="The false-positive rate of a file's filter.")
@click.option("--ndv", type=click.IntRange(1), help="Size a file's filter for at most this many distinct values.")
@click.option("--max-expected-fpp", type=float, help="Do not keep filters with a worse rate.")
@click.option("--readers", metavar="ENGINES", help="The engines that read the files, for `add` to go by.")
@at_option
@catalog_option
@outside_option
@keys_file_option
@unencrypted_option
@jobs_option
@format_options
@storage_option
def index_create(
    root: str, columns: tuple[str, ...], output_format: str, storage: tuple[str, ...], **options: Any
) -> None:
    """Index columns of all Parquet files below PATH, without changing them.

    \b
    Example:
      parquet-bloom index create events/ --column user_id
    """
    given = {name: value for name, value in options.items() if value is not None}
    with progress_bar("indexing") as progress:
        state = parquet_bloom.index.create(
            root, columns, storage_options=storage_options(storage), progress=progress, **given
        )
    print_index(state, output_format)
    end_with(ERROR if state.errors else MATCH)


@index.command("refresh")
@root_argument
@messages_option
@at_option
@catalog_option
@outside_option
@keys_file_option
@unencrypted_option
@jobs_option
@format_options
@storage_option
def index_refresh(root: str, output_format: str, storage: tuple[str, ...], **options: Any) -> None:
    """Index files that are new or have changed.

    \b
    Example:
      parquet-bloom index refresh events/
    """
    with progress_bar("indexing") as progress:
        state = parquet_bloom.index.refresh(
            root, storage_options=storage_options(storage), progress=progress, **options
        )
    print_index(state, output_format)
    end_with(ERROR if state.errors else MATCH)


@index.command("drop")
@root_argument
@messages_option
@columns_option
@at_option
@catalog_option
@outside_option
@format_options
@storage_option
def index_drop(
    root: str, columns: tuple[str, ...], output_format: str, storage: tuple[str, ...], **options: Any
) -> None:
    """Remove columns from the index, or the whole index.

    \b
    Example:
      parquet-bloom index drop events/
    """
    with progress_bar("dropping"):
        state = parquet_bloom.index.drop(root, columns or None, storage_options=storage_options(storage), **options)
    print_index(state, output_format)


@index.command("show")
@root_argument
@at_option
@catalog_option
@outside_option
@format_options
@storage_option
def index_show(root: str, output_format: str, storage: tuple[str, ...], **options: Any) -> None:
    """Show the indexed columns, and how many files are missing.

    \b
    Example:
      parquet-bloom index show events/
    """
    with progress_bar("reading the index"):
        state = parquet_bloom.index.show(root, storage_options=storage_options(storage), **options)
    print_index(state, output_format, gone="no index")
    if output_format == "table" and any(row.files_missing for row in state.rows):
        say("`parquet-bloom index refresh` with the same PATH indexes the missing files", 2)


@index.command("hudi", short_help="Add Hudi's filter of record keys to files.")
@paths_argument
@messages_option
@click.option("--key-column", default="_hoodie_record_key", show_default=True, help="The column of record keys.")
@click.option("--type", type=click.Choice(["DYNAMIC_V0", "SIMPLE"]), default="DYNAMIC_V0", show_default=True)
@click.option(
    "--ndv", type=click.IntRange(1), default=60_000, show_default=True, help="Size the filter for this many keys."
)
@click.option("--fpp", type=float, default=1e-9, show_default=True, help="The false-positive rate.")
@click.option("--replace", is_flag=True, help="Replace a filter that is already there.")
@output_option
@dry_run_option
@force_option
@changing_options
@jobs_option
@format_options
@storage_option
def index_hudi(
    paths: tuple[str, ...], type: str, dry_run: bool, output_format: str, storage: tuple[str, ...], **options: Any
) -> None:
    """Add Hudi's filter of record keys to the footers of base files: 431 KB of text each by default.

    \b
    Example:
      parquet-bloom index hudi staged/ --ndv 10000 --dry-run
    """
    with progress_bar("planning" if dry_run else "adding") as progress:
        added = parquet_bloom.hudi.add_filter(
            paths,
            type=type,
            dry_run=dry_run,
            storage_options=storage_options(storage),
            progress=progress,
            **options,
        )
    if output_format == "table":
        print_added(added, "Hudi's filter of record keys")
    else:
        print_rows(added, output_format, added.rows)
    end_with(ERROR if added.errors else MATCH)


@index.group("paimon")
def index_paimon() -> None:
    """Write the file indexes that Apache Paimon reads."""


def sized_for_paimon(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that size Paimon's filters."""
    for option in (
        click.option("--fpp", type=float, default=0.1, show_default=True, help="The false-positive rate."),
        click.option(
            "--ndv", type=click.IntRange(1), default=1_000_000, show_default=True, help="Distinct values to size for."
        ),
        click.option(
            "-c",
            "--column",
            "columns",
            multiple=True,
            required=True,
            metavar="COLUMN",
            help="A leaf column. Repeatable.",
        ),
    ):
        command = option(command)
    return command


@index_paimon.command("write")
@click.argument("path", metavar="FILE", shell_complete=complete_path)
@sized_for_paimon
@click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", help="A column's type in Paimon's schema.")
@click.option(
    "-o", "--output", metavar="FILE", shell_complete=complete_path, help="Write to this new file instead of FILE.index."
)
@messages_option
@json_option
@storage_option
def index_paimon_write(
    path: str,
    columns: tuple[str, ...],
    types: tuple[str, ...],
    as_json: bool,
    storage: tuple[str, ...],
    **options: Any,
) -> None:
    """Write the index of one data file, byte for byte as Paimon does.

    \b
    Example:
      parquet-bloom index paimon write data-0.parquet --column id --ndv 100000
    """
    named = dict(kind.split("=", 1) for kind in types if "=" in kind)
    with progress_bar("indexing"):
        written, num_bytes = parquet_bloom.paimon.write_index(
            path, columns, types=named or None, storage_options=storage_options(storage), **options
        )
    if as_json:
        echo(json.dumps({"schema_version": SCHEMA_VERSION, "path": written, "num_bytes": num_bytes}))
    else:
        say(f"{written}: {size_text(num_bytes)}")


@index_paimon.command("attach")
@click.argument("table", metavar="TABLE", shell_complete=complete_path)
@sized_for_paimon
@messages_option
@dry_run_option
@jobs_option
@format_options
def index_paimon_attach(
    table: str, columns: tuple[str, ...], dry_run: bool, output_format: str, **options: Any
) -> None:
    """Add an index to every file of a table that has none, in one commit.

    \b
    Example:
      parquet-bloom index paimon attach lake/orders --column id --ndv 100000
    """
    with progress_bar("planning" if dry_run else "indexing") as progress:
        attached = parquet_bloom.paimon.attach_index(table, columns, dry_run=dry_run, progress=progress, **options)
    print_attached(attached, output_format)
    end_with(ERROR if attached.errors else MATCH)


@main.command()
@click.option(
    "--keep",
    metavar="DIR",
    shell_complete=complete_path,
    help="Make the sample in this new directory, and keep it.",
)
def demo(keep: str | None) -> None:
    """Show all of this on a small sample, in seconds.

    \b
    Example:
      parquet-bloom demo --keep sample
    """
    with progress_bar("trying it"):
        for line in parquet_bloom.demo(keep):
            say_lines(line)
