"""The command line is the library: each line makes one call, the one that is shown beside it."""

import ast
import contextlib
import inspect
import re
import shlex
from operator import attrgetter
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import parquet_bloom
import parquet_bloom.spark
import parquet_bloom.spark.console
from parquet_bloom.cli import output
from parquet_bloom.cli.commands import main
from parquet_bloom.errors import ARGUMENT, with_arguments
from parquet_bloom.format.sbbf import MAX_BYTES

VERBS = ("inspect", "report", "advise", "probe", "add", "drop", "verify", "prune", "lookup", "find", "erase", "recover")
OTHERS = (
    *("absent", "check_ledger"),
    *("demo", "execute", "index.create", "index.refresh", "index.drop", "index.show"),
    *("hudi.add_filter", "paimon.write_index", "paimon.attach_index"),
)
PYTHON_ONLY = {"filesystem", "storage_options", "progress", "log", "as_text", "cache", "limits", "case_sensitive"}
PYTHON_ONLY |= {"batch", "ledger_secret"}  # which is in the environment, not in a command line that others see
SIGNATURES = {verb: inspect.signature(attrgetter(verb)(parquet_bloom)) for verb in (*VERBS, *OTHERS)}
ON_SPARK = ("inspect", "add", "drop", "verify", "prune", "lookup", "find", "erase")
SPARK_SIGNATURES = {verb: inspect.signature(getattr(parquet_bloom.spark, verb)) for verb in ON_SPARK}
SESSION_HAS = {"timezone", "case_sensitive", "strict", "jobs", "as_of"}
"""Keywords that the verbs on Spark lack: the session says, or it makes no sense there."""


class Called(Exception):
    """Ends a command at its library call."""


@pytest.fixture
def calls(monkeypatch):
    """Records library calls as verb and arguments, defaults filled in, however they were passed."""
    return recording(monkeypatch, parquet_bloom, SIGNATURES)


def recording(monkeypatch, module, signatures):
    recorded = []

    def recorder(verb):
        def record(*args, **kwargs):
            bound = signatures[verb].bind(*args, **kwargs)
            bound.apply_defaults()
            plain = {name: list(v) if isinstance(v, tuple) else v for name, v in bound.arguments.items()}
            plain.pop("progress", None)
            plain["storage_options"] = plain.get("storage_options") or None
            recorded.append((verb, plain))
            raise Called

        return record

    for verb in signatures:
        family, _, name = verb.rpartition(".")
        monkeypatch.setattr(attrgetter(family)(module) if family else module, name, recorder(verb), raising=False)
    return recorded


class Session:
    """A session that remembers its settings."""

    def __init__(self):
        self.conf = self
        self.seen = []

    def get(self, key, default=None):
        return default

    def set(self, key, value):
        self.seen.append((key, value))

    def unset(self, key):
        self.seen.append((key, None))


@pytest.fixture
def spark_calls(monkeypatch, tmp_path):
    """Records calls on a Spark that is not there, in a folder with a file `a`, and the masters that were asked for."""
    (tmp_path / "a").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    session, masters = Session(), []

    def running(master):
        masters.append(master)
        return contextlib.nullcontext(session)

    monkeypatch.setattr(parquet_bloom.spark.console, "running", running)
    recorded = recording(monkeypatch, parquet_bloom.spark, SPARK_SIGNATURES)
    for inner, verb in (("find_candidates", "lookup"), ("find_placed", "find"), ("erase_everywhere", "erase")):
        monkeypatch.setattr(
            parquet_bloom.spark.console, inner, getattr(parquet_bloom.spark, verb)
        )  # its rows, and more
    return session, masters, recorded


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("inspect a", "inspect(['a'])"),
        ("inspect a b/*.parquet -c x -c y.z", "inspect(['a', 'b/*.parquet'], ['x', 'y.z'])"),
        ("inspect a --all --json", "inspect(['a'])"),
        ("inspect a --verbose", "inspect(['a'])"),
        ("verify a -q", "verify(['a'])"),
        ("inspect a --storage-option anon=true", "inspect(['a'], storage_options={'anon': True})"),
        (
            "inspect a --storage-option n=1 --storage-option key=1a=b",
            "inspect(['a'], storage_options={'n': 1, 'key': '1a=b'})",
        ),
        ("probe a id 42", "probe(['a'], 'id', '42', as_text=True)"),
        ("probe a b id 42", "probe(['a', 'b'], 'id', '42', as_text=True)"),
        ("probe -q --absent a id 42", "probe(['a'], 'id', '42', as_text=True)"),
        ("probe a id -42", "probe(['a'], 'id', '-42', as_text=True)"),
        ("probe a id -.5 --json", "probe(['a'], 'id', '-.5', as_text=True)"),
        ("probe --json a id -- -x", "probe(['a'], 'id', '-x', as_text=True)"),
        (
            "probe a at 2024-01-31T12:00 --timezone Europe/Berlin",
            "probe(['a'], 'at', '2024-01-31T12:00', as_text=True, timezone='Europe/Berlin')",
        ),
        ("add a -c x", "add(['a'], ['x'])"),
        ("add a b --column x --column y", "add(['a', 'b'], ['x', 'y'])"),
        ("add a -c x --fpp 0.001", "add(['a'], ['x'], fpp=0.001)"),
        ("add a -c x --ndv 1000", "add(['a'], ['x'], ndv=1000)"),
        ("add a -c x --ndv 1e6", "add(['a'], ['x'], ndv=1_000_000)"),
        ("add a -c x --ndv 2.5e3", "add(['a'], ['x'], ndv=2500)"),
        ("add a -c x --ndv 1_000", "add(['a'], ['x'], ndv=1000)"),
        ("add a -c x --max-bytes 4096", "add(['a'], ['x'], max_bytes=4096)"),
        ("add a -c x --replace --fill-lengths", "add(['a'], ['x'], replace=True, fill_lengths=True)"),
        ("add a -c x -o out", "add(['a'], ['x'], output='out')"),
        ("add a -c x -n", "add(['a'], ['x'], dry_run=True)"),
        ("add a -c x --keep-mtime --jobs 3", "add(['a'], ['x'], keep_mtime=True, jobs=3)"),
        ("add a -c x --force --strict --json", "add(['a'], ['x'], force=True, strict=True)"),
        ("add a -c x --storage-option k=v", "add(['a'], ['x'], storage_options={'k': 'v'})"),
        ("drop a", "drop(['a'])"),
        ("drop a -c x", "drop(['a'], ['x'])"),
        ("drop a --restore -o out", "drop(['a'], restore=True, output='out')"),
        ("drop a --dry-run --keep-mtime", "drop(['a'], dry_run=True, keep_mtime=True)"),
        ("drop a --force --strict", "drop(['a'], force=True, strict=True)"),
        (
            "add a -c x --readers 'duckdb>=2,spark' --accept-hazards",
            "add(['a'], ['x'], readers='duckdb>=2,spark', accept_hazards=True)",
        ),
        ("add a --table --auto --readers duckdb", "add('a', auto=True, table=True, readers='duckdb')"),
        ("advise a --readers duckdb --accept-hazards", "advise(['a'], readers='duckdb', accept_hazards=True)"),
        ("add a -c x --in-place", "add(['a'], ['x'], in_place=True)"),
        ("find a -w 'x = 1'", "find(['a'], 'x = 1')"),
        (
            "find a -w 'x = 1' -s x -s y.z -p -n 5 --strict --as-of 3 --catalog c --timezone UTC --allow-outside",
            "find(['a'], 'x = 1', columns=['x', 'y.z'], positions=True, limit=5, strict=True, as_of='3', catalog='c', "
            "timezone='UTC', allow_outside=True)",
        ),
        ("find a -c x -k - -l", "find(['a'], column='x', keys=Path('/dev/stdin'), columns=[], positions=True)"),
        ("find a -c x -k k -q", "find(['a'], column='x', keys=Path('k'), columns=[], positions=True, limit=1)"),
        ("advise a b", "advise(['a', 'b'])"),
        (
            "advise a -c x -c y.z --where x=1 -w y.z=2 --fpp 0.05 --price 5 --timezone UTC --jobs 2",
            "advise(['a'], ['x', 'y.z'], where=['x=1', 'y.z=2'], fpp=0.05, price=5, timezone='UTC', jobs=2)",
        ),
        ("advise a -c x -k keys.txt --json", "advise(['a'], ['x'], keys=Path('keys.txt'))"),
        (
            "advise n.t --queries q.sql --dialect trino --catalog prod --as-of 3",
            "advise(['n.t'], queries='q.sql', dialect='trino', catalog='prod', as_of='3')",
        ),
        ("add a --auto --fpp 0.05", "add(['a'], auto=True, fpp=0.05)"),
        ("add a --table --policy", "add('a', table=True, policy=True)"),
        ("erase a -c x -k keys.txt --yes", "erase(['a'], 'x', Path('keys.txt'))"),
        (
            "erase a b -c x.y -k - -n --keep-empty --timezone UTC",
            "erase(['a', 'b'], 'x.y', Path('/dev/stdin'), dry_run=True, keep_empty=True, timezone='UTC')",
        ),
        (
            "erase a -c x -k k -y --jobs 2 --strict --any-name",
            "erase(['a'], 'x', Path('k'), jobs=2, strict=True, any_name=True)",
        ),
        ("erase a -c x -k k -y --table", "erase('a', 'x', Path('k'), table=True)"),
        (
            "erase a -c x -k k -y --ledger l.json --ledger-keys plain",
            "erase(['a'], 'x', Path('k'), ledger='l.json', ledger_keys='plain')",
        ),
        (
            "erase a -c x -k k -y --ledger l.json --request R-1",
            "erase(['a'], 'x', Path('k'), ledger='l.json', request='R-1')",
        ),
        ("ledger check l.json", "check_ledger('l.json')"),
        ("ledger check l.json --key 007 --json", "check_ledger('l.json', '007')"),
        (
            "erase n.t -c x -k k -y --table iceberg --catalog prod",
            "erase('n.t', 'x', Path('k'), table='iceberg', catalog='prod')",
        ),
        ("recover a", "recover(['a'])"),
        ("report a -o b", "report(['a'], 'b')"),
        (
            "report a b -o c -c x -w x=1 --verify --advise --fpp 0.1 --force --timezone UTC --jobs 2",
            "report(['a', 'b'], 'c', ['x'], where='x=1', verification=True, advice=True, fpp=0.1, force=True, "
            "timezone='UTC', jobs=2)",
        ),
        (
            "recover a b -n --any-name --jobs 2 --strict",
            "recover(['a', 'b'], dry_run=True, any_name=True, jobs=2, strict=True)",
        ),
        ("verify a", "verify(['a'])"),
        ("verify a b -c x --jobs 1", "verify(['a', 'b'], ['x'], jobs=1)"),
        ("verify a --certificate b", "verify(['a'], certificate='b')"),
        ("prune a -w x=1", "prune(['a'], 'x=1')"),
        ("prune a b --where x=1 --files-only", "prune(['a', 'b'], 'x=1')"),
        ("prune a -w x=1 --explain --strict", "prune(['a'], 'x=1', strict=True)"),
        ("prune a -w x=1 -q --absent", "prune(['a'], 'x=1')"),
        ("prune a -w x=1 --exact", "prune(['a'], 'x=1', exact=True)"),
        ("prune a -w x=1 --timezone UTC --json", "prune(['a'], 'x=1', timezone='UTC')"),
        ("lookup a -c x -k keys.txt", "lookup(['a'], 'x', Path('keys.txt'))"),
        ("lookup a -c x -k -", "lookup(['a'], 'x', Path('/dev/stdin'))"),
        ("lookup a b --column x --keys k.csv --strict", "lookup(['a', 'b'], 'x', Path('k.csv'), strict=True)"),
        (
            "lookup a -c x -k k --timezone UTC --storage-option n=1",
            "lookup(['a'], 'x', Path('k'), timezone='UTC', storage_options={'n': 1})",
        ),
        ("lookup a b -c x -k - --absent", "absent(['a', 'b'], 'x', Path('/dev/stdin'))"),
        (
            "lookup n.t -c x -k k --absent --catalog prod --as-of 3 --timezone UTC --strict --allow-outside",
            "absent(['n.t'], 'x', Path('k'), catalog='prod', as_of='3', timezone='UTC', strict=True, "
            "allow_outside=True)",
        ),
        ("add a -c x --table", "add('a', ['x'], table=True)"),
        ("index hudi a b", "hudi.add_filter(['a', 'b'])"),
        (
            "index hudi a --key-column k --type SIMPLE --ndv 9 --fpp 0.1 --replace -o out -n --force --jobs 2",
            "hudi.add_filter(['a'], 'k', type='SIMPLE', ndv=9, fpp=0.1, replace=True, output='out', "
            "dry_run=True, force=True, jobs=2)",
        ),
        (
            "index paimon write a -c x -c y --ndv 9 --fpp 0.5 --type x=TINYINT -o out",
            "paimon.write_index('a', ['x', 'y'], output='out', ndv=9, fpp=0.5, types={'x': 'TINYINT'})",
        ),
        (
            "index paimon attach a -c x -c y --ndv 9 --fpp 0.5 --json",
            "paimon.attach_index('a', ['x', 'y'], ndv=9, fpp=0.5)",
        ),
        ("index paimon attach a -c x -n --jobs 2", "paimon.attach_index('a', ['x'], dry_run=True, jobs=2)"),
        ("add a -c x --table delta -n --jobs 2", "add('a', ['x'], table='delta', dry_run=True, jobs=2)"),
        (
            "add n.t -c x --table iceberg --catalog prod",
            "add('n.t', ['x'], table='iceberg', catalog='prod')",
        ),
        ("prune a -w x=1 --as-of 3", "prune(['a'], 'x=1', as_of='3')"),
        ("prune n.t -w x=1 --catalog prod", "prune(['n.t'], 'x=1', catalog='prod')"),
        ("lookup n.t -c x -k k --catalog prod", "lookup(['n.t'], 'x', Path('k'), catalog='prod')"),
        ("index create n.t -c x --catalog prod", "index.create('n.t', ['x'], catalog='prod')"),
        ("index refresh n.t --catalog prod", "index.refresh('n.t', catalog='prod')"),
        ("index drop n.t -c x --catalog prod", "index.drop('n.t', ['x'], catalog='prod')"),
        ("index show n.t --catalog prod", "index.show('n.t', catalog='prod')"),
        (
            "sql 'DROP BLOOMFILTER INDEX ON n.t' --catalog prod",
            "execute('DROP BLOOMFILTER INDEX ON n.t', catalog='prod')",
        ),
        ("lookup a -c x -k k --as-of 2026-01-31", "lookup(['a'], 'x', Path('k'), as_of='2026-01-31')"),
        ("sql 'DROP BLOOMFILTER INDEX ON a'", "execute('DROP BLOOMFILTER INDEX ON a')"),
        ("index create a -c x", "index.create('a', ['x'])"),
        ("index create a -c x --readers duckdb", "index.create('a', ['x'], readers='duckdb')"),
        ("index create a -c x --at b", "index.create('a', ['x'], at='b')"),
        ("index refresh a --at b", "index.refresh('a', at='b')"),
        ("index drop a --at b", "index.drop('a', at='b')"),
        ("index show a --at b", "index.show('a', at='b')"),
        ("sql 'DROP BLOOMFILTER INDEX ON a' --at b", "execute('DROP BLOOMFILTER INDEX ON a', at='b')"),
        ("prune a -w x=1 --index b", "prune(['a'], 'x=1', index='b')"),
        ("lookup a -c x -k k --index b", "lookup(['a'], 'x', Path('k'), index='b')"),
        ("lookup a -c x -k k --absent --index b", "absent(['a'], 'x', Path('k'), index='b')"),
        ("find a -w x=1 --index b", "find(['a'], 'x=1', index='b')"),
        ("erase a -c x -k k -y --index b", "erase(['a'], 'x', Path('k'), index='b')"),
        (
            "index create a -c x -c y --fpp 0.01 --ndv 10 --max-expected-fpp 0.5 --jobs 2",
            "index.create('a', ['x', 'y'], fpp=0.01, ndv=10, max_expected_fpp=0.5, jobs=2)",
        ),
        ("index refresh a --storage-option k=v", "index.refresh('a', storage_options={'k': 'v'})"),
        ("index drop a", "index.drop('a')"),
        ("index drop a -c x", "index.drop('a', ['x'])"),
        ("index show a --json", "index.show('a')"),
        ("demo", "demo()"),
        ("demo --keep sample", "demo('sample')"),
    ],
)
def test_a_command_is_a_call(calls, line, call):
    ran = CliRunner().invoke(main, shlex.split(line), standalone_mode=False)
    assert isinstance(ran.exception, Called), ran.output
    names = {verb.partition(".")[0] for verb in SIGNATURES}
    with pytest.raises(Called):
        eval(call, {"Path": Path, **{name: getattr(parquet_bloom, name) for name in names}})
    by_command, by_call = calls
    assert by_command == by_call


def test_what_is_not_given_has_the_same_default(calls):
    CliRunner().invoke(main, ["add", "a", "-c", "x"])
    assert calls[0][1]["max_bytes"] == MAX_BYTES
    assert calls[0][1]["fpp"] is None


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("inspect a -c x --storage-option k=v", "inspect(s, ['a'], ['x'], storage_options={'k': 'v'})"),
        (
            "add a -c x --fpp 0.1 --ndv 9 --replace -n",
            "add(s, ['a'], ['x'], fpp=0.1, ndv=9, replace=True, dry_run=True)",
        ),
        (
            "add a -c x --max-bytes 64 --fill-lengths --force -o b --keep-mtime",
            "add(s, ['a'], ['x'], max_bytes=64, fill_lengths=True, force=True, output='b', keep_mtime=True)",
        ),
        ("drop a", "drop(s, ['a'])"),
        ("drop a --restore --dry-run", "drop(s, ['a'], restore=True, dry_run=True)"),
        ("verify a -c x", "verify(s, ['a'], ['x'])"),
        ("prune a -w x=1 --explain", "prune(s, ['a'], 'x=1')"),
        ("prune a -w x=1 --exact", "prune(s, ['a'], 'x=1', exact=True)"),
        ("lookup a -c x -k keys.txt -o out", "lookup(s, ['a'], 'x', Path('keys.txt'))"),
        ("find a -w x=1 -s x -p -n 5", "find(s, ['a'], 'x=1', columns=['x'], positions=True, limit=5)"),
        ("find a -c x -k k --count", "find(s, ['a'], column='x', keys=Path('k'), columns=[], positions=True)"),
        (
            "erase a -c x -k k -n --keep-empty --any-name",
            "erase(s, ['a'], 'x', Path('k'), dry_run=True, keep_empty=True, any_name=True)",
        ),
        ("erase a -c x -k k -y --index b", "erase(s, ['a'], 'x', Path('k'), index='b')"),
        (
            "erase n.t -c x -k k -y --table iceberg --catalog prod --ledger l.json --ledger-keys plain",
            "erase(s, 'n.t', 'x', Path('k'), table='iceberg', catalog='prod', ledger='l.json', ledger_keys='plain')",
        ),
    ],
)
@pytest.mark.parametrize("master", [[], ["--master", "local[3]"]])
def test_on_spark_a_command_is_a_call_too(spark_calls, line, call, master):
    session, masters, recorded = spark_calls
    ran = CliRunner().invoke(main, [*line.split(), "--engine", "spark", *master], standalone_mode=False)
    assert isinstance(ran.exception, Called), ran.output
    with pytest.raises(Called):
        eval(call, {"s": session, "Path": Path, **{verb: getattr(parquet_bloom.spark, verb) for verb in ON_SPARK}})
    by_command, by_call = recorded
    assert by_command == by_call
    assert masters == [master[-1] if master else None]
    assert session.seen == []


@pytest.mark.parametrize("line", ["prune a -w x=1", "lookup a -c x -k k"])
def test_on_spark_the_time_zone_is_the_session_s(spark_calls, line):
    session, _, recorded = spark_calls
    CliRunner().invoke(main, [*line.split(), "--engine", "spark", "--timezone", "Asia/Tokyo"])
    assert len(recorded) == 1
    assert session.seen == [("spark.sql.session.timeZone", "Asia/Tokyo"), ("spark.sql.session.timeZone", None)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[NOT_FOUND] No such thing. SQLSTATE: 42K03\n\nJVM stacktrace:\nx.Y\n\tat a.b(C.scala:1)",
            "[NOT_FOUND] No such",
        ),
        ("An error occurred while calling None.X.\n: x.Y: Could not parse 'z'\n\tat a.b(C.scala:1)", "x.Y: Could not"),
        (
            'Failed\nx.Y: Traceback (most recent call last):\n  File "z"\nImportError: no z\n\n\tat a.b(C.scala:1)',
            "ImportError: no z\n",
        ),
        ("", "nothing\n"),
    ],
)
def test_what_spark_refuses_is_one_sentence(spark_calls, monkeypatch, text, said):
    from pyspark.errors import PySparkException

    def refuse(*_, **__):
        raise PySparkException(text)

    monkeypatch.setattr(parquet_bloom.spark, "inspect", refuse)
    ran = CliRunner().invoke(main, ["inspect", "a", "--engine", "spark"])
    assert ran.exit_code == 2
    assert ran.output.startswith(f"error: Spark says: {said}")
    assert ran.output.count("\n") == 1


@pytest.mark.parametrize("verb", ON_SPARK)
def test_on_spark_a_verb_takes_what_it_takes_here(verb):
    here = {*SIGNATURES[verb].parameters} - SESSION_HAS - {"filesystem", "log", "cache", "limits", "decryption"}
    if verb in ("prune", "lookup", "find"):  # of the verbs there, `read` and `erase` use an index
        here -= {"index"}
    if verb == "verify":  # a certificate is one local file
        here -= {"certificate"}
    if verb in ("inspect", "verify"):
        here -= {"index"}
    if verb in ("inspect", "verify", "find"):  # a table's live rows are known here
        here -= {"catalog", "allow_outside"}
    if verb == "add":  # commits are the driver's, without Spark, and what is in place is this machine's
        here -= {"table", "catalog", "batch", "where", "max_commits_per_minute", "in_place"}
        here -= {"auto", "policy", "columns", "fpp"}  # columns and rates are chosen here
    assert here <= {*SPARK_SIGNATURES[verb].parameters}
    for name in here:
        assert SPARK_SIGNATURES[verb].parameters[name].default == SIGNATURES[verb].parameters[name].default


@pytest.mark.parametrize("verb", VERBS)
def test_every_keyword_has_an_option(verb):
    keywords = set(SIGNATURES[verb].parameters) - PYTHON_ONLY
    how_to_print = {
        "as_json",
        "output_format",
        "storage_options",
        "each",
        "explain",
        "files_only",
        "null",
        "quiet",
        "verbose",
        "absent",
        "only_absent",
        "count",
        "invert_match",
        "yes",
        "check",
        "plan",
    } | ({"to_file"} if verb == "lookup" else set())
    where_to_run = {"engine", "master"} if verb in ON_SPARK else set()
    options = {p.name for p in main.commands[verb].params} - how_to_print
    reading = {*parquet_bloom.Reading.__annotations__}  # which a command has as far as it makes a difference to it
    assert keywords - reading == options - where_to_run - reading
    assert where_to_run | (options & reading) <= options & (keywords | where_to_run)


@pytest.mark.parametrize("verb", [*VERBS, "demo"])
def test_help_has_examples_that_parse(verb):
    ran = CliRunner().invoke(main, [verb, "--help"], terminal_width=80)
    assert ran.exit_code == 0
    lines = ran.output.splitlines()
    assert max(map(len, lines)) <= 80
    ours = [line for line in lines if line.strip().startswith("parquet-bloom ")]
    shown = [shlex.split(re.split(" (?:[|]|&&) ", line)[0]) for line in ours]
    assert shown
    for program, named, *arguments in shown:
        assert (program, named) == ("parquet-bloom", verb)
        main.commands[verb].make_context(verb, arguments, resilient_parsing=False)


def test_the_list_of_commands_is_whole():
    ran = CliRunner().invoke(main, ["--help"], terminal_width=80)
    assert ran.exit_code == 0
    assert set(main.commands) == {*VERBS, "demo", "sql", "index", "ledger"}
    assert "..." not in ran.output.partition("Commands:")[2]
    assert max(map(len, ran.output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "Commands:"),
        ("inspect", "PATH"),
        ("probe a id", "Missing argument: give PATH... COLUMN VALUE"),
        ("prune a -w id = 5", "put a condition in quotes"),
        ("find a -w id in (5)", "put a condition in quotes"),
        ("advise a in", "put a condition in quotes"),
        ("prune a 'id = 5'", "'id = 5' is not a path; a condition goes behind --where"),
        ("add a -c x --fpp lots", "'lots' is not a valid float"),
        ("add a -c x --max-bytes 1", "64"),
        ("add a -c x --jobs 0", "--jobs"),
        ("inspect a --storage-option novalue", "--storage-option takes KEY=VALUE"),
        ("inspect a --jsn", "--json"),
        ("probe a id 1 --jsn", "--json"),
        ("erase a -c x -k k", "add --yes, or --dry-run"),
        ("add a b -c x --table", "--table takes one PATH"),
        ("add a --auto --engine spark", "--auto samples files here and not on Spark"),
        ("explode a", "explode"),
        ("inspect a --engine flink", "'flink' is not one of"),
        ("inspect a --master yarn", "--master needs --engine spark"),
        ("add a -c x --engine spark --jobs 2", "--jobs counts this machine's threads"),
        ("verify a --engine spark --jobs 2", "--jobs counts this machine's threads"),
        ("verify a --engine spark --certificate b", "--certificate is written here and not on Spark"),
        ("add a -c x --engine spark --strict", "leave it out"),
        ("prune a -w x=1 --engine spark --strict", "leave it out"),
        ("find a -w x=1 --engine spark --catalog c", "--catalog names a table"),
        ("find a -w x=1 --engine spark --allow-outside", "--allow-outside is for a table"),
        ("erase a -c x -k k -y --engine spark --jobs 2", "--jobs counts this machine's threads"),
        ("add a -c x --engine spark --table", "--table commits to a table, which is done here"),
        ("probe a x 1 --engine spark", "No such option"),
        ("index paimon attach a -c x -o b", "No such option '-o'"),
        ("index paimon attach a -c x --type x=INT", "No such option '--type'"),
        ("index paimon write a -c x --jobs 2", "No such option '--jobs'"),
        ("index paimon a -c x", "No such command 'a'"),
    ],
)
def test_a_wrong_line_is_told_and_calls_nothing(calls, line, said):
    ran = CliRunner().invoke(main, shlex.split(line))
    assert ran.exit_code == 2
    assert isinstance(ran.exception, SystemExit)
    assert said in ran.output
    assert calls == []


def test_a_version():
    ran = CliRunner().invoke(main, ["--version"])
    assert ran.output == f"parquet-bloom, version {parquet_bloom.__version__}\n"


def test_every_option_is_explained():
    for name, command in main.commands.items():
        for option in command.params:
            assert not isinstance(option, click.Option) or option.help, (name, option.name)


OPTIONS = {
    str(param.name): max(param.opts, key=len)
    for group in (main, main.commands["index"])
    for command in group.commands.values()
    for param in command.params
    if isinstance(param, click.Option)
}
PUBLIC = {name for signature in (*SIGNATURES.values(), *SPARK_SIGNATURES.values()) for name in signature.parameters}
PUBLIC |= {"footer_bytes", "metadata_bytes"}  # of Limits
NO_OPTION = {"filesystem", "batch", "ledger_secret", "footer_bytes", "metadata_bytes"}  # only Python has these


def texts_of(module):
    """Returns what a module may say: its texts but for the docstrings, the values in them as `{}`."""
    tree = ast.parse(module.read_text("utf-8"))
    passed = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    whole = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in whole for part in node.values}
    yield from (
        "".join(getattr(part, "value", "{}") if isinstance(part, ast.Constant) else "{}" for part in node.values)
        for node in whole
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed | parts:
            yield node.value


def test_every_argument_that_a_message_names_exists_in_python_and_on_the_command_line():
    package = Path(parquet_bloom.__file__).parent
    modules = [module for module in package.rglob("*.py") if "cli" not in module.relative_to(package).parts]
    named = {
        found[1] for module in modules for text in texts_of(module) for found in ARGUMENT.finditer(text) if " " in text
    }
    assert len(named) > 30
    assert named <= PUBLIC
    assert named - NO_OPTION <= set(OPTIONS)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("add a", "which columns? give --column, or --auto for those that `advise` finds\n"),
        ("add a --table", ", or --policy for those of the table's properties\n"),
        ("add a -c x --auto", "give only one of --column, --auto and --policy\n"),
        ("add a --policy", "--policy needs --table\n"),
        ("add a -c x --catalog c", "--catalog names an Iceberg catalog; it needs --table\n"),
        ("add a -c x --table --keep-mtime", "--keep-mtime cannot be used with --table\n"),
        ("add a -c x --table -o b", "--output cannot be used with --table\n"),
        ("add a -c x --table --force", "--force cannot be used with --table\n"),
        (f"erase a -c x -k {__file__} -y --table --keep-empty", "--keep-empty cannot be used with --table\n"),
        ("add a -c x --max-commits-per-minute 1", "--max-commits-per-minute needs --table\n"),
        ("advise a --fpp 2", "--fpp must be between 0 and 1, not 2.0\n"),
        ("drop a --restore -c x", "--restore cuts the whole file back, so it takes all columns; leave out --column\n"),
    ],
)
def test_an_error_of_the_library_names_options(line, said):
    ran = CliRunner().invoke(main, shlex.split(line))
    assert ran.exit_code == 2
    assert ran.output.startswith("error: ")
    assert ran.output.endswith(said)


def test_an_argument_is_named_as_the_option_of_the_command(capsys):
    for verb, option in (("find", "--select"), ("add", "--column")):
        output.spell_as(main)
        output.spell_as(main.commands[verb])
        output.say("choose others by columns=, not by filesystem=")
        assert capsys.readouterr().out == f"choose others by {option}, not by filesystem=\n"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("write copies with output=, or with force=True", "write copies with --output, or with --force"),
        ("a larger fpp= makes them smaller", "a larger --fpp makes them smaller"),
        ("all=True restores it (catalog=)", "--all restores it (--catalog)"),
        (
            "add with readers='duckdb>=2', or storage_options='spark'",
            "add with --readers 'duckdb>=2', or --storage-option 'spark'",
        ),
        (
            "/lake/table=x/all=True/a.parquet: table=x, output=/tmp",
            "/lake/table=x/all=True/a.parquet: table=x, output=/tmp",
        ),
        ("the option fpp=0.1, or anyoutput=", "the option fpp=0.1, or anyoutput="),
    ],
)
def test_arguments_become_options(said, shown):
    assert with_arguments(said, OPTIONS) == shown
