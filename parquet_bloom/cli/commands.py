"""The command line: arguments -> one library call -> an output."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

import parquet_bloom
from parquet_bloom.cli import options, output
from parquet_bloom.cli.exits import ERROR, MATCH, NO_MATCH, Commands, end_with, verdict_code
from parquet_bloom.cli.options import How, how_to_read
from parquet_bloom.cli.output import LISTED, Warnings, say, say_lines
from parquet_bloom.cli.run import Run, runs
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


# ---- what filters there are, and where they would help ------------------------------------


@main.command()
@options.paths
@options.columns
@options.flag("--all", "each", help=f"List each filter, also of files with more than {LISTED}.")
@options.flag("-v", "--verbose", help="Also show how full each column's filters are, as a histogram.")
@options.readers
@how_to_read("catalog", "as_of", "allow_outside", "decryption", "storage_options")
@runs("reading filters", "inspect", engines=True)
def inspect(run: Run, how: How, each: bool, verbose: bool, **given: Any) -> None:
    """Show filters: size, fill, false-positive rate, and who uses them.

    \b
    Example:
      parquet-bloom inspect events/ --column user_id
      parquet-bloom inspect events/ --keys-file keys.json
      parquet-bloom inspect s3://lake/events --engine spark --master yarn --json
    """
    inspection = run(**given, **how)
    table = partial(output.print_inspection, each=each, verbose=verbose)
    run.end(inspection, table, inspection.files, inspection.errors)


@main.command()
@options.paths
@options.columns
@options.several(
    "-w",
    "--where",
    metavar="CONDITION",
    help="A condition from your queries, SQL in Spark's dialect. Repeatable.",
)
@options.path_option("--queries", help="A file of SQL statements: conditions are taken from it.")
@click.option(
    "--dialect",
    default="spark",
    show_default=True,
    metavar="NAME",
    help="The SQL of --queries, such as trino, duckdb, postgres or clickhouse.",
)
@options.keys("Keys you look up, in one --column: Parquet, CSV, TSV, or text with a key per line; - is standard input.")
@click.option("--fpp", type=float, help="The false-positive rate of the filters. [default: what fits each column]")
@click.option("--price", type=float, metavar="MONEY", help="What reading 1 TB costs, to show what lookups save.")
@options.readers
@options.hazards
@options.jobs
@how_to_read("catalog", "as_of", "allow_outside", "timezone", "decryption", "storage_options")
@runs("sampling columns", "advise")
def advise(run: Run, how: How, **given: Any) -> None:
    """Show which columns are worth a filter, and why.

    Reads footers and the values of a few row groups. By default, a lookup is assumed to be for a random row's value.

    \b
    Examples:
      parquet-bloom advise events/
      parquet-bloom advise events/ -w "user_id = 4711" -w "ip IN ('::1')"
      parquet-bloom advise lake/events --queries last_week.sql --price 5
    """
    advice = run(**given, **how)
    narrowing = ("columns", "where", "queries", "keys", "readers", "accept_hazards", "catalog", "as_of")
    can_add = not any((given | how).get(name) for name in narrowing)
    table = partial(output.print_advice, with_price=given["price"] is not None, can_add=can_add)
    run.end(advice, table, unlisted=advice.errors)


def _file_name(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value == "-":
        raise click.BadParameter("give a file name")
    return value


@main.command()
@options.paths
@options.messages
@options.columns
@options.path_option(
    "--certificate",
    callback=_file_name,
    help="Write what was proved to this new file, with digests of files, footers, pages and filters.",
)
@options.readers
@options.jobs
@how_to_read("catalog", "as_of", "allow_outside", "decryption", "storage_options")
@runs("verifying", "verify", engines=True)
def verify(run: Run, how: How, **given: Any) -> None:
    """Prove from the data that no filter lacks a value.

    Decodes the columns that have filters, and probes each filter for each of the values.

    \b
    Examples:
      parquet-bloom verify events/
      parquet-bloom verify events/ --certificate events.json
      parquet-bloom verify --engine spark --master 'local[4]' events/
    """
    verified = run(**given, **how)
    code = NO_MATCH if verified.findings else MATCH
    table = partial(output.print_verification, certificate=given["certificate"])
    run.end(verified, table, verified.files, verified.errors, code=code)


@main.command()
@options.paths
@options.path_option("-o", "--output", required=True, callback=_file_name, help="Write the page to this file.")
@options.columns
@click.option("-w", "--where", metavar="CONDITION", help="Also show which row groups a condition keeps, as prune does.")
@options.flag("--verify", "verification", help="Also prove from the data that no filter lacks a value.")
@options.flag("--advise", "advice", help="Also estimate which columns are worth a filter.")
@click.option("--fpp", type=float, default=0.01, show_default=True, help="Highlight filters above this rate.")
@options.flag("--force", help="Replace FILE if it exists.")
@options.readers
@options.messages
@options.jobs
@how_to_read("catalog", "as_of", "allow_outside", "timezone", "decryption", "storage_options")
@runs("reading", "report", formats=False)
def report(run: Run, how: How, **given: Any) -> None:
    """Draw what filters cost, and whether they work, as an HTML page.

    The page is a single file that opens without a network. It needs the extra [report].

    \b
    Examples:
      parquet-bloom report events/ -o events.html --advise
      parquet-bloom report events/ -o events.html --verify --where "id = 'x'"
    """
    written = run(**given, **how)
    findings = written.verification is not None and written.verification.findings
    run.end(written, output.print_report, code=NO_MATCH if findings else MATCH)


# ---- changes -----------------------------------------------------------------------------


def _only(paths: tuple[str, ...], option: str) -> str:
    if len(paths) != 1:
        raise click.UsageError(f"{option} takes one PATH")
    return paths[0]


@main.command()
@options.paths
@options.messages
@options.several("-c", "--column", "columns")
@options.flag("--auto", help="Choose columns and rates as `parquet-bloom advise` does.")
@options.flag("--policy", help="With --table: add the filters that the table's own properties ask for.")
@click.option(
    "--fpp", type=float, help="The highest false-positive rate to allow. [default: 0.01, with --auto what fits]"
)
@click.option(
    "--ndv",
    callback=options.count,
    metavar="INTEGER",
    help="Size filters for this many distinct values per row group, and do not fold.",
)
@click.option("--max-bytes", type=click.IntRange(64), help="The largest filter to write; the rate may get worse.")
@options.flag("--replace", help="Rebuild filters that already exist.")
@options.flag("--fill-lengths", help="Add a missing bloom_filter_length to filters that stay.")
@options.in_table
@options.readers
@options.hazards
@options.flag("--allow-large", help="Also write filters that are larger than their file.")
@options.output
@options.dry_run
@options.keep_mtime
@options.jobs
@options.strict
@options.force
@options.which_files
@options.flag(
    "--in-place",
    help="Append to the files themselves, without a copy: readers may fail meanwhile, and after a crash a file needs "
    "`parquet-bloom recover`.",
)
@how_to_read("catalog", "storage_options")
@runs("adding filters", "add", engines=True)
def add(run: Run, how: How, paths: tuple[str, ...], table: str | bool | None, **given: Any) -> None:
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
    added = run(paths=paths if table is None else _only(paths, "--table"), table=table, **given, **how)
    if given["auto"] and not added.rows:
        say("no column is worth a filter that has none yet; `parquet-bloom advise` with the same PATH says why")
        end_with(MATCH)
    run.end(added, partial(output.print_added, is_auto=given["auto"]))


@main.command()
@options.paths
@options.messages
@options.columns
@options.flag("--restore", help="Cut the file back to what it was before `add`.")
@options.flag("--all", help="With --restore: also cut away what other programs have appended since.")
@options.output
@options.dry_run
@options.keep_mtime
@options.jobs
@options.strict
@options.force
@options.which_files
@how_to_read("storage_options")
@runs("dropping filters", "drop", engines=True)
def drop(run: Run, how: How, **given: Any) -> None:
    """Remove filters, or give back the original files with --restore.

    Removed filters leave their bytes in the file; --restore gives back the file as it was before `add`, byte for byte.
    It keeps what another program has changed in the footer since, unless --all is given.

    \b
    Examples:
      parquet-bloom drop events/ --column user_id
      parquet-bloom drop events/ --restore
      parquet-bloom drop --engine spark --master 'local[4]' events/ --restore
    """
    run.end(run(**given, **how), output.print_dropped)


@main.command()
@options.paths
@options.messages
@options.dry_run
@options.jobs
@options.strict
@options.which_files
@runs("recovering", "recover")
def recover(run: Run, **given: Any) -> None:
    """Repair files whose `add --in-place` was killed.

    Cuts a local file back to what it was before, byte for byte. Only filters and a part of a footer that `add` was
    writing are cut away: a file that ends in anything else is refused, and a whole one is left alone.

    \b
    Example:
      parquet-bloom recover huge.parquet --dry-run
      parquet-bloom recover events/
    """
    run.end(run(**given), output.print_recovered)


@main.command()
@options.paths
@options.messages
@options.key_column
@options.keys(f"{options.KEY_FILE} Not needed for --check with --ledger.")
@options.flag("--check", help="Erase nothing: search every file of one PATH for what is left of the keys.")
@options.flag("--plan", help="Erase nothing: print the statements by which Spark erases from a table.")
@options.flag("--keep-empty", help="Keep a file that has no rows left, instead of removing it.")
@options.in_table
@options.path_option(
    "--ledger",
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
@options.dry_run
@options.flag("-y", "--yes", help="Skip the confirmation.")
@options.jobs
@options.strict
@options.which_files
@how_to_read("catalog", "index", "timezone", "storage_options")
@runs("erasing", "erase", engines=True)
def erase(
    run: Run, how: How, paths: tuple[str, ...], column: str, keys: Path | None, check: bool, plan: bool, **given: Any
) -> None:
    """Delete rows by key, permanently.

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
    if check and plan:
        raise click.UsageError("--check judges what the statements of --plan did; give one of them at a time")
    if check or plan:
        look = _check_erasure if check else _plan_erasure
        look(run, paths, column, keys, given | how)
    if keys is None:
        raise click.UsageError("Missing option '-k' / '--keys'.")
    if not given.pop("yes") and not given["dry_run"]:
        _confirm_erasure(column, keys)
    of_table = given["table"] is not None
    erased = run(paths=_only(paths, "--table") if of_table else paths, column=column, keys=keys, **given, **how)
    run.end(erased, output.print_erased, (*erased.rows, *erased.stale_indexes), erased.stale_indexes)


def _confirm_erasure(column: str, keys: Path) -> None:
    if not is_terminal(sys.stdin):
        raise click.UsageError("rows that are erased cannot be brought back; add --yes, or --dry-run to see them")
    question = f"Erase the rows whose {column} is among the keys in {keys}? They cannot be brought back."
    if not click.confirm(question, err=True):
        say("nothing was erased", err=True)
        end_with(ERROR)


def _unchanging(option: str, paths: tuple[str, ...], given: dict[str, Any], *taken: str) -> dict[str, Any]:
    """Return the keywords of what changes nothing; refuse options that it does not take."""
    if any(value for name, value in given.items() if name not in taken):
        raise click.UsageError(f"{option} changes nothing, so options for changes cannot be used with it")
    return {"path": _only(paths, option)} | {name: given[name] for name in taken if name in given}


def _check_erasure(run: Run, paths: tuple[str, ...], column: str, keys: Path | None, given: dict[str, Any]) -> NoReturn:
    """Print what is left of keys, and end."""
    keywords = _unchanging("--check", paths, given, "ledger", "timezone", "index", "jobs", "catalog", "storage_options")
    if (keys is None) == (keywords["ledger"] is None):
        raise click.UsageError("--check needs either --keys, or --ledger with the ledger of the erasure")
    traces = run.here("erased", column=column, keys=keys, **keywords)
    records = (*traces.rows, *traces.unsearched)
    run.end(traces, output.print_traces, records, traces.unsearched, code=NO_MATCH if traces.rows else MATCH)


def _plan_erasure(run: Run, paths: tuple[str, ...], column: str, keys: Path | None, given: dict[str, Any]) -> NoReturn:
    """Print the statements that erase rows, and end."""
    keywords = _unchanging("--plan", paths, given, "catalog", "storage_options")
    if keys is None:
        raise click.UsageError("--plan needs --keys")
    run.end(run.here("erase_plan", column=column, keys=keys, **keywords), output.print_steps)


@main.group()
def ledger() -> None:
    """Read the ledgers of `erase --ledger`."""


@ledger.command("check", short_help="Prove that a ledger is as it was written, and show what it says.")
@options.path_argument("path", "FILE")
@click.option("--key", metavar="KEY", help="Was this key erased, and from which files? Spell it as for `erase`.")
@runs("reading", "check_ledger")
def ledger_check(run: Run, **given: Any) -> None:
    """Prove that a ledger is as it was written, and show what it says.

    Keys that are hashed, and the seal, need the secret in PARQUET_BLOOM_LEDGER_SECRET. The exit code is 1 if the ledger
    was changed, or if it does not say that everything, or the key, was erased.

    \b
    Examples:
      parquet-bloom ledger check erased.json
      parquet-bloom ledger check erased.json --key 28ffad1b05bb
    """
    checked = run(**given)
    run.show(checked, output.print_ledger)
    for note in checked.notes:
        say(note, color="yellow", err=True)
    output.print_errors((checked.path, finding) for finding in checked.findings)
    end_with(NO_MATCH if checked.findings else MATCH)


# ---- questions ---------------------------------------------------------------------------


@main.command(cls=options.TakesNegatives, short_help="Show which row groups may contain a value.")
@options.paths
@click.argument("column")
@click.argument("values", metavar="VALUE")
@options.quiet
@options.absent
@how_to_read("catalog", "as_of", "allow_outside", "timezone", "decryption", "storage_options")
@runs("probing", "probe")
def probe(run: Run, how: How, quiet: bool, absent: bool, **given: Any) -> None:
    """Show which row groups may contain a value, by their filters alone.

    VALUE is typed by the column: 42, 3.5, 2024-01-31, 2024-01-31T12:00:00Z, 0xCAFE for bytes.

    \b
    Example:
      parquet-bloom probe events/ user_id 4711
      parquet-bloom probe -q --absent events/ user_id 4711 && echo skip it
    """
    answer = run(as_text=True, **given, **how)
    if not quiet:
        run.show(answer, output.print_probe)
    end_with(verdict_code(answer.might_match, absent))


def _check_null(files_only: bool, null: bool) -> None:
    if null and not files_only:
        raise click.UsageError("-0 needs --files-only")


@main.command()
@options.paths
@click.option("-w", "--where", required=True, metavar="CONDITION", help="SQL in Spark's dialect.")
@options.files_only("Print only the files that might match, one per line.")
@options.flag("--explain", help="Print every row group, and why it is kept or skipped.")
@options.flag("--exact", help="Also read the columns of row groups that might match, and skip those without the value.")
@options.complain("keeping it")
@options.quiet
@options.absent
@how_to_read(*options.OF_SNAPSHOT)
@runs("pruning", "prune", engines=True)
def prune(
    run: Run, how: How, files_only: bool, null: bool, explain: bool, quiet: bool, absent: bool, **given: Any
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
    _check_null(files_only, null)
    pruned = run(**given, **how)
    if files_only and not quiet:
        for file in pruned.kept_files:
            output.print_path(file.path, null)
    elif not quiet:
        run.show(
            pruned, lambda _: say_lines(pruned.explain()) if explain else output.print_pruning(pruned), pruned.all_files
        )
    if not explain:
        is_table = run.format == "table" and not (quiet or files_only)
        output.print_notes_on_pruning(pruned, why_kept=is_table, not_pruned=run.format != "json")
    end_with(verdict_code(pruned.might_match, absent))


@main.command()
@options.paths
@options.key_column
@options.keys(required=True)
@options.path_option(
    "-o", "--output", "to_file", help="Write the candidates, or the absent keys, to this new Parquet file."
)
@options.flag("--absent", "only_absent", help="Print only the keys that are nowhere, after reading the column.")
@options.complain("keeping it")
@how_to_read(*options.OF_SNAPSHOT)
@runs("looking up", "lookup", engines=True)
def lookup(run: Run, how: How, to_file: str | None, only_absent: bool, **given: Any) -> None:
    """Show which row groups may contain which of many keys.

    With --absent: the keys that are nowhere, exactly. The exit code is then 0 if there are such keys, 1 if there are
    none, 2 if a file could not be read.

    \b
    Example:
      parquet-bloom lookup events/ --column id --keys keys.txt -o found.parquet
      parquet-bloom lookup events/ -c id -k keys.txt --absent > new.txt
      parquet-bloom lookup --engine spark s3://lake/events -c id -k keys.txt
    """
    if to_file is not None and run.format in ("csv", "parquet"):
        raise click.UsageError("-o writes a Parquet file; --format writes to standard output, so give one of them")
    if only_absent:
        _lookup_absent(run, to_file, given | how)
    candidates = run(**given, **how)
    num_candidates = output.print_candidates(candidates, run.format) if to_file is None else candidates.write(to_file)
    if to_file is not None and run.format == "table":
        say(f"{to_file}: {count_text(num_candidates, 'candidate')}")
    end_with(MATCH if num_candidates else NO_MATCH)


def _lookup_absent(run: Run, to_file: str | None, keywords: dict[str, Any]) -> NoReturn:
    absent = run.here("absent", **keywords)
    if to_file is None:
        output.print_absent(absent, run.format)
    else:
        absent.write(to_file)
    if run.format == "table":
        said = f"{count_text(len(absent), 'key')} absent"
        say(f"{to_file}: {said}" if to_file else said, err=to_file is None)
    output.print_errors((file.path, file.error) for file in absent.errors)
    if len(absent.unknown):
        say(f"{count_text(len(absent.unknown), 'key')} may be in files that could not be read", err=True)
    end_with(ERROR if absent.errors else MATCH if len(absent) else NO_MATCH)


@main.command()
@options.paths
@click.option("-w", "--where", metavar="CONDITION", help="SQL in Spark's dialect.")
@click.option("-c", "--column", metavar="COLUMN", help="With --keys: the leaf column with the keys.")
@options.keys()
@options.several("-s", "--select", "columns", help="Show this column. Repeatable. [default: all]")
@options.flag("-p", "--positions", help="Also show each row's file, row group and number in the file.")
@click.option("-n", "--limit", type=click.IntRange(0), metavar="N", help="Stop after so many rows.")
@options.files_only("Print only the files that have such rows, one per line.")
@options.flag("--count", help="Print only how many rows there are.")
@options.flag("-v", "--invert-match", hidden=True, help="Refused, with the reason.")
@options.complain("going on")
@options.quiet
@how_to_read(*options.OF_SNAPSHOT)
@runs("searching", "find", engines=True)
def find(
    run: Run, how: How, files_only: bool, null: bool, count: bool, invert_match: bool, quiet: bool, **given: Any
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
    has_keys = given["keys"] is not None
    if (given["where"] is None) != has_keys or (given["column"] is not None) != has_keys:
        raise click.UsageError("give --where, or --column with --keys")
    _check_null(files_only, null)
    only_places = files_only or count or quiet
    if only_places:
        given |= {"columns": (), "positions": True}
    if quiet:
        given["limit"] = 1
    found = run(**given, **how)
    num_rows = output.print_places(found, files_only, null) if only_places else output.print_found(found, run.format)
    if count:
        echo(str(num_rows))
    output.print_errors((file.path, file.error) for file in found.errors)
    end_with(ERROR if found.errors else MATCH if num_rows else NO_MATCH)


# ---- the index ---------------------------------------------------------------------------


def _end_with_index(run: Run, state: Any, *, is_unchanged: bool = False) -> NoReturn:
    output.print_errors((f"not indexed: {file.path}", file.error) for file in state.errors)
    run.end(state, partial(output.print_index, is_unchanged=is_unchanged), [state])


@main.command()
@click.argument("statement")
@options.messages
@click.option("--catalog", metavar="NAME", help="The statement names an Iceberg table in this catalog of pyiceberg.")
@how_to_read("at", "allow_outside", "decryption", "allow_unencrypted", "storage_options")
@runs("indexing", "execute")
def sql(run: Run, how: How, **given: Any) -> None:
    """Run CREATE or DROP BLOOMFILTER INDEX on a path.

    \b
    Example:
      parquet-bloom sql "CREATE BLOOMFILTER INDEX ON 'events/' FOR COLUMNS (sha OPTIONS (fpp=0.1))"
    """
    _end_with_index(run, run(**given, **how))


@main.group()
def index() -> None:
    """Keep an index of filters beside a directory: PATH.bloom-index."""


@index.command("create", short_help="Index columns; the files stay as they are.")
@options.root
@options.messages
@options.several("-c", "--column", "columns", required=True)
@click.option("--fpp", type=float, default=0.1, show_default=True, help="The false-positive rate of a file's filter.")
@click.option("--ndv", type=click.IntRange(1), help="Size a file's filter for at most this many distinct values.")
@click.option("--max-expected-fpp", type=float, help="Do not keep filters with a worse rate.")
@click.option("--readers", metavar="ENGINES", help="The engines that read the files, for `add` to go by.")
@options.jobs
@how_to_read("decryption", "allow_unencrypted", *options.OF_INDEX)
@runs("indexing", "index.create")
def index_create(run: Run, how: How, **given: Any) -> None:
    """Index columns of all Parquet files below PATH, without changing them.

    \b
    Example:
      parquet-bloom index create events/ --column user_id
    """
    _end_with_index(run, run(**given, **how))


@index.command("refresh")
@options.root
@options.messages
@options.jobs
@how_to_read("decryption", "allow_unencrypted", *options.OF_INDEX)
@runs("indexing", "index.refresh")
def index_refresh(run: Run, how: How, **given: Any) -> None:
    """Index files that are new or have changed.

    \b
    Example:
      parquet-bloom index refresh events/
    """
    _end_with_index(run, run(**given, **how))


@index.command("drop")
@options.root
@options.messages
@options.columns
@how_to_read(*options.OF_INDEX)
@runs("dropping", "index.drop")
def index_drop(run: Run, how: How, **given: Any) -> None:
    """Remove columns from the index, or the whole index.

    \b
    Example:
      parquet-bloom index drop events/
    """
    _end_with_index(run, run(**given, **how))


@index.command("show")
@options.root
@how_to_read(*options.OF_INDEX)
@runs("reading the index", "index.show")
def index_show(run: Run, how: How, **given: Any) -> None:
    """Show the indexed columns, and how many files are missing.

    \b
    Example:
      parquet-bloom index show events/
    """
    _end_with_index(run, run(**given, **how), is_unchanged=True)


@index.command("hudi", short_help="Add Hudi's filter of record keys to files.")
@options.paths
@options.messages
@click.option("--key-column", default="_hoodie_record_key", show_default=True, help="The column of record keys.")
@click.option("--type", type=click.Choice(["DYNAMIC_V0", "SIMPLE"]), default="DYNAMIC_V0", show_default=True)
@click.option(
    "--ndv", type=click.IntRange(1), default=60_000, show_default=True, help="Size the filter for this many keys."
)
@click.option("--fpp", type=float, default=1e-9, show_default=True, help="The false-positive rate.")
@options.flag("--replace", help="Replace a filter that already exists.")
@options.output
@options.dry_run
@options.force
@options.which_files
@options.jobs
@how_to_read("storage_options")
@runs("adding", "hudi.add_filter")
def index_hudi(run: Run, how: How, **given: Any) -> None:
    """Add Hudi's filter of record keys to the footers of base files: 431 KB of text each by default.

    \b
    Example:
      parquet-bloom index hudi staged/ --ndv 10000 --dry-run
    """
    run.end(run(**given, **how), partial(output.print_added, what="Hudi's filter of record keys"))


@index.group("paimon")
def index_paimon() -> None:
    """Write the file indexes that Apache Paimon reads."""


_SIZES = options.together(
    options.several("-c", "--column", "columns", required=True),
    click.option(
        "--ndv", type=click.IntRange(1), default=1_000_000, show_default=True, help="Distinct values to size for."
    ),
    click.option("--fpp", type=float, default=0.1, show_default=True, help="The false-positive rate."),
)


def _types(_context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str] | None:
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair) or None


@index_paimon.command("write")
@options.path_argument("path", "FILE")
@_SIZES
@click.option(
    "--type", "types", multiple=True, metavar="COLUMN=TYPE", callback=_types, help="A column's type in Paimon's schema."
)
@options.path_option("-o", "--output", help="Write to this new file instead of FILE.index.")
@options.messages
@options.as_json
@how_to_read("storage_options")
@runs("indexing", "paimon.write_index", formats=False)
def index_paimon_write(run: Run, how: How, **given: Any) -> None:
    """Write the index of one data file, byte for byte as Paimon does.

    \b
    Example:
      parquet-bloom index paimon write data-0.parquet --column id --ndv 100000
    """
    written, num_bytes = run(**given, **how)
    if run.format == "json":
        echo(json.dumps({"schema_version": SCHEMA_VERSION, "path": written, "num_bytes": num_bytes}))
    else:
        say(f"{written}: {size_text(num_bytes)}")


@index_paimon.command("attach")
@options.path_argument("table", "TABLE")
@_SIZES
@options.messages
@options.dry_run
@options.jobs
@runs("indexing", "paimon.attach_index")
def index_paimon_attach(run: Run, **given: Any) -> None:
    """Add an index to every file of a table that has none, in one commit.

    \b
    Example:
      parquet-bloom index paimon attach lake/orders --column id --ndv 100000
    """
    attached = run(**given)
    run.show(attached, output.print_attached)
    for note in attached.notes:
        say(note, color="yellow", err=run.format != "table")
    end_with(ERROR if attached.errors else MATCH)


@main.command()
@options.path_option("--keep", metavar="DIR", help="Make the sample in this new directory, and keep it.")
def demo(keep: str | None) -> None:
    """Show all of this on a small sample, in seconds.

    \b
    Example:
      parquet-bloom demo --keep sample
    """
    with progress_bar("trying it"):
        for line in parquet_bloom.demo(keep):
            say_lines(line)
