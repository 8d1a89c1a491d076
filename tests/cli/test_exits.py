"""Exit code 1 is a verdict: whatever else ends a command, it ends with 2 and a sentence."""

import json
import os
import resource
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from parquet_bloom.cli import commands

FIXTURES = Path(__file__).parents[2] / "fixtures"
SMALL = str(FIXTURES / "pyarrow" / "small.parquet")
PATIENCE = 120
PROGRAM = [sys.executable, "-m", "parquet_bloom"]


def ended(*arguments, environment=None, **options):
    """Returns what became of the command as a process."""
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **options,
    )


# ---- every class of exception ------------------------------------------------------------

# For each class of some modules' exceptions the command is started, in a process of its own, with a library call that
# raises one. Prints the exit code, or the signal, and what was said on standard error.
RAISING = r"""
import importlib, json, os, sys, tempfile
import parquet_bloom
from parquet_bloom.cli.commands import main

def below(kind):
    for sub in kind.__subclasses__():
        yield sub
        yield from below(sub)

def made(kind):
    words = ("utf-8", b"", 0, 1, "words") if issubclass(kind, UnicodeError) and kind is not UnicodeError else ("words",)
    try:
        return kind(*words)
    except Exception:
        return kind.__new__(kind, *words)  # half made: some cannot even be shown

modules = sys.argv[1:]
for module in modules:
    importlib.import_module(module)
tops = {module.partition(".")[0] for module in modules}
for kind in dict.fromkeys(below(BaseException)):
    if kind.__module__.partition(".")[0] not in tops or kind.__module__.startswith("parquet_bloom.cli"):
        continue
    if kind is SystemExit:
        continue  # below
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            def probe(*_, **__):
                raise made(kind)
            parquet_bloom.probe = probe
            try:
                main(["probe", "file", "id", "1"], prog_name="parquet-bloom")
            except SystemExit as ended:  # what the interpreter makes of it, without its long farewell
                os._exit(0 if ended.code is None else ended.code if isinstance(ended.code, int) else 1)
            finally:
                os._exit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        print(json.dumps([f"{kind.__module__}.{kind.__qualname__}", code, said.read().decode()]))
"""

FAMILIES = {  # a module that has imported the family's classes, and how many of them there are at least
    "builtins": 60,
    "parquet_bloom.errors": 9,
    "pyarrow": 8,
    "click": 8,
    "botocore.exceptions": 60,
    "aiohttp": 20,
    "pyiceberg.exceptions": 10,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_class_of_exception_is_2_and_a_sentence(family):
    if find_spec(family.partition(".")[0]) is None:
        pytest.skip(f"{family} is not installed")
    ran = subprocess.run(
        [sys.executable, "-c", RAISING, family], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ran.returncode == 0, ran.stderr
    seen = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(seen) >= FAMILIES[family]
    expected = {"builtins.KeyboardInterrupt": 130, "click.exceptions.Abort": 130, "click.exceptions.Exit": 2}
    assert {name: code for name, code, _ in seen if code != expected.get(name, 2)} == {}
    for name, _, said in seen:
        if not name.startswith(("click.", "builtins.KeyboardInterrupt")):
            assert said.startswith("error: "), name
            assert said.count("\n") == 1, name


COMMANDS = [
    ("inspect", ["inspect", "a"]),
    ("advise", ["advise", "a"]),
    ("probe", ["probe", "a", "id", "1"]),
    ("probe", ["probe", "-q", "--absent", "a", "id", "1"]),
    ("add", ["add", "a", "-c", "id"]),
    ("add", ["add", "a", "-c", "id", "--table"]),
    ("drop", ["drop", "a"]),
    ("erase", ["erase", "a", "-c", "id", "-k", "keys", "--yes"]),
    ("recover", ["recover", "a"]),
    ("report", ["report", "a", "-o", "b.html"]),
    ("verify", ["verify", "a"]),
    ("prune", ["prune", "a", "-w", "id = 1"]),
    ("prune", ["prune", "-q", "--absent", "a", "-w", "id = 1"]),
    ("lookup", ["lookup", "a", "-c", "id", "-k", "keys"]),
    ("absent", ["lookup", "a", "-c", "id", "-k", "keys", "--absent"]),
    ("find", ["find", "a", "-w", "id = 1"]),
    ("execute", ["sql", "DROP BLOOMFILTER INDEX ON a"]),
    ("check_ledger", ["ledger", "check", "l.json"]),
    ("index.create", ["index", "create", "a", "-c", "id"]),
    ("index.refresh", ["index", "refresh", "a"]),
    ("index.drop", ["index", "drop", "a"]),
    ("index.show", ["index", "show", "a"]),
    ("hudi.add_filter", ["index", "hudi", "a"]),
    ("paimon.write_index", ["index", "paimon", "write", "a", "-c", "id"]),
    ("paimon.attach_index", ["index", "paimon", "attach", "a", "-c", "id"]),
    ("demo", ["demo"]),
]


@pytest.mark.parametrize(
    "error",
    [
        TypeError("odd"),
        MemoryError(),
        SystemExit(1),
        SystemExit("gave up"),
        type("Panic", (BaseException,), {})("rust"),
    ],
    ids=repr,
)
@pytest.mark.parametrize(("verb", "arguments"), COMMANDS, ids=lambda value: value if isinstance(value, str) else "")
def test_it_is_2_in_every_command(monkeypatch, verb, arguments, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(f"parquet_bloom.{verb}", fail)
    ran = CliRunner().invoke(commands.main, arguments)
    assert ran.exit_code == 2
    assert ran.stderr.startswith("error: ")


def test_every_command_is_tried_above():
    tried = {tuple(word for word in arguments if word in commands.main.commands) for _, arguments in COMMANDS}
    assert {names[0] for names in tried} == set(commands.main.commands)
    index = {arguments[1] for _, arguments in COMMANDS if arguments[0] == "index"}
    assert index == set(commands.main.commands["index"].commands)


# ---- the real thing ----------------------------------------------------------------------


def test_a_misspelt_storage_option_is_2():
    ran = ended("probe", "http://127.0.0.1:9/x.parquet", "id", "1", "--storage-option", "anom=true")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "error: http://127.0.0.1:9/x.parquet: the store has no option 'anom'; correct the storage options\n"
    )


def test_a_host_that_does_not_answer_is_2():
    ran = ended("probe", "http://127.0.0.1:9/x.parquet", "id", "1")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: http://127.0.0.1:9/x.parquet: ClientConnectorError: Cannot connect to host")


def test_too_little_memory_is_2(tmp_path):
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({"text": ["x" * 1000 + str(i) for i in range(100_000)]}), path, use_dictionary=False)
    code = "import resource, sys, pyarrow.parquet, parquet_bloom.verbs.add_files\n"
    code += "from parquet_bloom.cli.commands import main\n"
    code += "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
    code += "resource.setrlimit(resource.RLIMIT_AS, (used + 8_000_000, used + 8_000_000))\nmain()"
    if not Path("/proc/self/statm").exists():
        pytest.skip("how much memory is in use is asked of Linux")
    ran = subprocess.run(
        [sys.executable, "-c", code, "add", str(path), "-c", "text", "--jobs", "1"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 2, ran
    assert "Traceback" not in ran.stderr
    assert resource.getrlimit(resource.RLIMIT_AS)[0] != 0


def test_what_is_nested_too_deeply_is_2():
    ran = ended("probe", SMALL, "id", "1", "--storage-option", "x=" + "[" * 100_000)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: the input is nested too deeply to be read\n"


def test_a_program_that_cannot_be_loaded_is_2(tmp_path):
    (tmp_path / "click.py").write_text("raise ImportError('no such symbol')")
    ran = ended("probe", SMALL, "id", "1", environment={"PYTHONPATH": str(tmp_path)})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: parquet-bloom is not installed whole: ImportError: no such symbol\n"


def test_an_interrupt_while_it_is_loaded_is_130(tmp_path):
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
    ran = ended("probe", SMALL, "id", "1", environment={"PYTHONPATH": str(tmp_path)})
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("line", ["probe {} id 42", "inspect {}", "inspect {} --json", "--help"])
def test_an_output_that_takes_nothing_is_2(line, unbuffered):
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [*PROGRAM, *line.format(SMALL).split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (ran.returncode, ran.stderr) == (2, "error: No space left on device\n")


@pytest.mark.parametrize("output_format", ["csv", "parquet"])
def test_an_output_that_is_closed_is_2(output_format):
    line = f"probe {SMALL} id 42 --format {output_format}"
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, *line.split()],
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    said = f"error: standard output is closed, and --format {output_format} writes to it\n"
    assert (ran.returncode, ran.stderr) == (2, said)


@pytest.mark.parametrize("line", ["probe {} id 42", "verify {}", "inspect {} --json", "--help"])
def test_a_reader_that_has_left_ends_it_as_it_ends_grep(line):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = subprocess.run(
            [*PROGRAM, *line.format(SMALL).split()],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("closed", ["1", "2"])
@pytest.mark.parametrize(("value", "code"), [("5000000011", 0), ("42", 1), ("soon", 2)])
def test_a_closed_output_changes_no_exit_code(closed, value, code):
    command = f"{sys.executable} -m parquet_bloom probe {SMALL} id {value} {closed}>&-"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == (code if value == "soon" else ended("probe", SMALL, "id", value).returncode)


def test_a_closed_output_is_no_error_of_ours():
    command = f"{sys.executable} -m parquet_bloom inspect {SMALL} --verbose >&-"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


# ---- where it comes from -----------------------------------------------------------------


def test_a_traceback_is_shown_on_demand():
    plain = ended("probe", SMALL, "nam", "1")
    ran = ended("probe", SMALL, "nam", "1", environment={"PARQUET_BLOOM_DEBUG": "1"})
    assert (plain.returncode, ran.returncode) == (2, 2)
    assert "Traceback" not in plain.stderr
    assert ran.stderr.startswith("Traceback (most recent call last):")
    assert ran.stderr.endswith(plain.stderr)


# ---- for scripts -------------------------------------------------------------------------


@pytest.fixture
def ids(tmp_path):
    path = tmp_path / "ids.parquet"
    pq.write_table(pa.table({"id": range(100)}), path, row_group_size=50)
    return path


@pytest.mark.parametrize(
    ("present", "absent", "wrong"),
    [
        (["probe", "{}", "id", "7"], ["probe", "{}", "id", "1000"], ["probe", "{}", "idd", "7"]),
        (["prune", "{}", "-w", "id = 7"], ["prune", "{}", "-w", "id = 1000"], ["prune", "{}", "-w", "idd = 7"]),
        (["prune", "{}", "-w", "id = 7", "-l"], ["prune", "{}", "-w", "id > 99"], ["prune", "{}x", "-w", "id = 7"]),
    ],
)
def test_quiet_leaves_the_exit_code_and_absent_turns_the_verdicts_around(ids, present, absent, wrong):
    from parquet_bloom import add

    add(ids, "id", fpp=1e-6)
    for arguments, code, turned in ((present, 0, 1), (absent, 1, 0), (wrong, 2, 2)):
        line = [argument.format(ids) for argument in arguments]
        for extra, expected in (([], code), (["-q"], code), (["-q", "--absent"], turned), (["--absent"], turned)):
            ran = CliRunner().invoke(commands.main, [*line, *extra])
            assert ran.exit_code == expected, (line, extra)
            assert not (ran.stdout and "-q" in extra)
            assert bool(ran.stderr) == (code == 2)


def test_quiet_wins_over_other_ways_to_print(ids):
    for extra in (["--json"], ["--explain"], ["--files-only"]):
        ran = CliRunner().invoke(commands.main, ["prune", str(ids), "-w", "id = 7", "--quiet", *extra])
        assert (ran.exit_code, ran.output) == (0, "")
