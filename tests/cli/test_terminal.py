"""The program as a process: on a terminal, in a pipe, and interrupted."""

import contextlib
import fcntl
import os
import pty
import random
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import sysconfig
import termios
import unicodedata
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import parquet_bloom
from parquet_bloom.cli import commands, run, terminal

FIXTURES = Path(__file__).parents[2] / "fixtures"
PROGRAM = str(Path(sysconfig.get_path("scripts"), "parquet-bloom"))
PATIENCE = 120  # seconds after which something hangs


def mostly_slow(arguments):
    """Returns parameters of which only the first is usual: each starts programs."""
    first, *others = arguments
    return [
        first,
        *(pytest.param(*other if isinstance(other, tuple) else (other,), marks=pytest.mark.slow) for other in others),
    ]


# The program with a library call that waits for a line on standard input: time stands still until it comes.
WAITING = """
import sys
import parquet_bloom.cli.commands as cli
import parquet_bloom.cli.terminal as terminal
from parquet_bloom.verbs.inspect import Inspection

def inspect(*_, progress, **__):
    if progress:
        progress(3, 7)
    sys.stdin.readline()
    return Inspection(())

cli.parquet_bloom.inspect = inspect
terminal.BAR_AFTER = float(sys.argv.pop(1))
cli.main()
"""

# The program with a library call that yields a row for each line on standard input.
LISTING = """
import sys
import pyarrow as pa
import parquet_bloom.cli.commands as cli
import parquet_bloom.cli.terminal as terminal
from parquet_bloom.verbs.find import Found

def find(*_, progress, **__):
    def rows():
        for number in range(3):
            progress and progress(number, 3)
            sys.stdin.readline()
            yield pa.record_batch({"id": [number]})
    return Found(rows(), pa.schema({"id": pa.int64()}), condition_columns=[])

cli.parquet_bloom.find = find
terminal.BAR_AFTER = 0
cli.main()
"""

# The program with a Spark that prints while it starts.
STARTING = """
import sys, time
import parquet_bloom.cli.commands as cli
import parquet_bloom.cli.terminal as terminal
import parquet_bloom.spark.console as console
from parquet_bloom.verbs.inspect import Inspection

def call(*_, progress, **__):
    time.sleep(1)  # a bar would be there
    print("WARN: Java", file=sys.stderr)
    progress(0, 0)
    sys.stdin.readline()
    return Inspection(())

console.call = call
terminal.BAR_AFTER = 0
cli.main()
"""

# The program with a hash that takes its time, and says when it has begun.
SLOW = r"""
import os, time
import parquet_bloom.filters.build as writer
from parquet_bloom.cli.commands import main

hash_array = writer.hash_array

def slow(leaf, array):
    os.write(1, b"hashing\n")  # at once, from several threads
    time.sleep(0.05)
    return hash_array(leaf, array)

writer.hash_array = slow
main()
"""


class Terminal:
    """A program on a terminal; everything that it shows ends up in `shown`.

    `stdout` or `stderr`, if given, is what it writes to instead.
    """

    def __init__(
        self, *command: str, cwd: Path | None = None, columns: int = 80, **elsewhere: int | IO[bytes] | None
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        without_echo = termios.tcgetattr(theirs)
        without_echo[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, without_echo)
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "CI")}
        environment["TERM"] = "xterm"
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs) | elsewhere
        self._process = subprocess.Popen(command, cwd=cwd, env=environment, start_new_session=True, **streams)
        os.close(theirs)
        self.shown = ""

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], PATIENCE)
        assert ready, f"nothing more came after {self.shown!r}"
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # what Linux says when the other side is closed
            data = b""
        self.shown += data.decode(errors="replace")
        return bool(data)

    def wait_for(self, text: str) -> None:
        while text not in self.shown:
            assert self._read(), self.shown

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._ours)
        return self._process.wait(PATIENCE)

    @property
    def lines(self) -> list[str]:
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.shown)
        return [line.rstrip("\r").rpartition("\r")[2] for line in plain.split("\n")]

    @property
    def told(self) -> str:
        """What it says, with its lines as one."""
        return " ".join(" ".join(self.lines).split())

    @property
    def screen(self) -> list[str]:
        """The lines that are left in the end."""
        rows: list[list[str]] = [[]]
        row = column = 0
        for sequence, sign in re.findall(r"\x1b\[([0-9;?]*[A-Za-z])|([^\x1b])", self.shown):
            if sequence.endswith("A"):
                row -= int(sequence[:-1] or 1)
            elif sequence == "2K":
                rows[row] = []
            elif sign == "\r":
                column = 0
            elif sign == "\n":
                row += 1
                rows += [[]] * (row == len(rows))
            elif sign:
                rows[row] += " " * (column - len(rows[row]))
                rows[row][column : column + 1] = sign
                column += 1
        return "\n".join("".join(line).rstrip() for line in rows).rstrip().split("\n")


def piped(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False)


# ---- width -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    mostly_slow(
        [
            ["inspect", "damaged"],
            ["inspect", "spark", "duckdb", "clickhouse", "pyarrow"],
            ["inspect", "clickhouse/all_types.parquet", "--all"],
            ["probe", "pyarrow", "duckdb", "damaged", "id", "5"],
            ["verify", "spark", "damaged"],
            ["add", "pyarrow", "damaged", "-c", "id", "--replace", "--dry-run"],
            ["drop", "duckdb", "damaged", "--dry-run"],
            ["add", "pyarrow", "-c", "idd"],
        ]
    ),
    ids=" ".join,
)
def test_a_terminal_shows_lines_of_its_width(arguments):
    terminal = Terminal(PROGRAM, *arguments, cwd=FIXTURES)
    terminal.end()
    assert max(map(len, terminal.lines)) <= 80
    assert "…" not in "".join(line for line in terminal.lines if "WHERE" not in line)
    assert "Traceback" not in terminal.shown


LONG = "one_folder_of_a_lake_with_a_long_name/day=2024-01-31/part-00000-8c1f3c5e-7f6b-4b1c-9d43-0c6f8d9d3b77.parquet"
NAMES = ["id", "x" * 70, "列名が日本語でとても長い名前です", "party 🎉", "red\x1b[31m\nline\ttab\u202e"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A lake whose columns have names and values that are hard to show."""
    root = tmp_path_factory.mktemp("hostile")
    dice = random.Random(1)
    columns = {name: [dice.getrandbits(62) for _ in range(300)] for name in NAMES}
    attributes = [[{"attributes": [("a key", dice.getrandbits(40))]}] for _ in range(300)]
    kind = pa.list_(pa.struct({"attributes": pa.map_(pa.string(), pa.int64())}))
    table = pa.table({**columns, "list_of_things": pa.array(attributes, kind)})
    for path in (root / "a.parquet", root / LONG):
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, row_group_size=100)
    parquet_bloom.add(root / "a.parquet", list(leaf_names(root / "a.parquet")), ndv=20)
    parquet_bloom.add(root / LONG, "id", ndv=5_000_000, allow_large=True)
    parquet_bloom.index.create(str(root), NAMES)
    (root / "keys.txt").write_text("\n".join(map(str, columns["id"][:3])))
    return root


def leaf_names(path):
    return (column.path for column in pq.ParquetFile(path).schema)


def cells(line):
    return sum((unicodedata.east_asian_width(one) in "WF") + 1 for one in line if not unicodedata.combining(one))


def is_one_name(line):
    """Returns whether a line is a path or a column alone: in a sentence it stays whole, to be copied."""
    return re.fullmatch(rf" *((\./)?{re.escape(LONG)}|x{{70}})[:,]?", line)


def numbers_in(text):
    return {word for word in text.split() if re.fullmatch(r"~?\d[\d,]*(\.\d+)?%?", word)}


@pytest.mark.parametrize(
    "arguments",
    [
        "inspect .",
        "inspect . --verbose --all",
        "probe . id 5",
        "verify .",
        "add . -c id --replace --dry-run",
        "add . --auto --dry-run",
        "drop . --dry-run",
        "advise . --price 5",
        "prune . -w 'id > 0'",
        "prune . -w 'id > 0 OR list_of_things IS NULL' --explain",
        "find . -w 'id > 0' -n 5",
        "find . -w 'id > 0' -n 5 -s id --positions",
        "find . -c id -k keys.txt",
        "erase . -c id -k keys.txt --dry-run",
        "index show .",
        "prune . -w 'id = '",
        "inspect . --no-such-option",
        pytest.param("demo", marks=pytest.mark.slow),
    ],
)
def test_whatever_is_printed_fits_and_no_number_is_broken(hostile, arguments, monkeypatch):
    monkeypatch.chdir(hostile)
    plain = CliRunner().invoke(commands.main, shlex.split(arguments))
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: True)
    monkeypatch.setattr(run, "progress_bar", lambda what: contextlib.nullcontext())
    for columns in (60, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        shown = CliRunner().invoke(commands.main, shlex.split(arguments))
        assert shown.exit_code == plain.exit_code
        assert_fits(re.sub(r"\x1b\[[0-9;]*m", "", shown.output).split("\n"), columns, plain.output)


def assert_fits(lines, columns, plain):
    assert [line for line in lines if cells(line) > columns and not is_one_name(line)] == []
    assert [line for line in lines if re.match(r" *[KMGT]?i?B\b", line)] == []
    whole, shown = numbers_in(plain), numbers_in("\n".join(lines))
    assert shown <= whole
    assert shown == whole or "The terminal is too narrow for" in " ".join(" ".join(lines).split())


@pytest.mark.slow
def test_a_real_terminal_is_like_that(hostile):
    plain = piped("inspect", ".", "--verbose", cwd=hostile)
    real = Terminal(PROGRAM, "inspect", ".", "--verbose", cwd=hostile, columns=60)
    assert real.end() == plain.returncode == 0
    assert_fits(real.screen, 60, plain.stdout + plain.stderr)


@pytest.mark.slow
def test_a_pipe_gets_whole_lines_without_colors(tmp_path):
    path = tmp_path / ("a_rather_long_name_of_a_directory_" * 3) / "file.parquet"
    path.parent.mkdir()
    column = "a_rather_long_name_of_a_column_" * 5
    pq.write_table(pa.table({column: range(100)}), path)
    assert piped("add", str(path), "-c", column).returncode == 0
    said = piped("inspect", str(path)).stdout
    assert "\x1b" not in said
    assert said.startswith(f"{path}: ")
    assert len(said.splitlines()) == 4
    assert said.count(column) == 2


@pytest.mark.slow
def test_no_color_means_none():
    command = [PROGRAM, "find", "pyarrow/small.parquet", "damaged/cut_five.parquet", "--where", "id IS NOT NULL"]
    for given, colored, styled in (([], True, True), (["NO_COLOR=1"], False, True), (["TERM=dumb"], False, False)):
        terminal = Terminal("env", *given, *command, cwd=FIXTURES)
        assert terminal.end() == 2
        assert bool(re.search(r"\x1b\[[0-9;]*3\dm", terminal.shown)) == colored
        assert ("\x1b" in terminal.shown) == styled


@pytest.mark.parametrize("piped", mostly_slow(["stdout", "stderr"]))
def test_each_stream_has_colors_only_if_it_is_a_terminal(piped, tmp_path):
    command = [PROGRAM, "find", "pyarrow/small.parquet", "damaged/cut_five.parquet", "--where", "id IS NOT NULL"]
    with (tmp_path / "there").open("wb") as file:
        terminal = Terminal(*command, cwd=FIXTURES, columns=40, **{piped: file})
        assert terminal.end() == 2
    there = (tmp_path / "there").read_text()
    assert "\x1b" not in there
    assert max(map(len, there.splitlines())) > 40 or piped == "stdout"
    assert re.search(r"\x1b\[[0-9;]*3\dm", terminal.shown)


def test_keys_come_from_standard_input(tmp_path):
    pq.write_table(pa.table({"id": [1, 5, 7]}), tmp_path / "a.parquet")
    parquet_bloom.add(tmp_path / "a.parquet", "id")
    command = [PROGRAM, "lookup", "a.parquet", "-c", "id", "-k", "-"]
    for keys, code, said in (("5\n6\n", 0, "5\ta.parquet\trow group 0\n6\tabsent\n"), ("6\n", 1, "6\tabsent\n")):
        ran = subprocess.run(
            command, cwd=tmp_path, input=keys, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert (ran.stdout, ran.stderr, ran.returncode) == (said, "", code)


# ---- progress ----------------------------------------------------------------------------


def test_a_terminal_gets_a_bar_when_the_work_takes_a_while():
    terminal = Terminal(sys.executable, "-c", WAITING, "0", "inspect", "anything")
    terminal.wait_for("reading filters")
    terminal.wait_for("43%")
    terminal.type("\n")
    assert terminal.end() == 0


@pytest.mark.slow
def test_a_terminal_gets_no_bar_when_it_does_not():
    terminal = Terminal(sys.executable, "-c", WAITING, "1000000", "inspect", "anything")
    terminal.type("\n")
    assert terminal.end() == 0
    assert "reading filters" not in terminal.shown


@pytest.mark.slow
def test_a_pipe_gets_no_bar():
    ran = subprocess.run(
        [sys.executable, "-c", WAITING, "0", "inspect", "anything"],
        input="\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.slow
def test_a_bar_waits_until_spark_has_started():
    terminal = Terminal(sys.executable, "-c", STARTING, "inspect", "anything", "--engine", "spark")
    terminal.wait_for("reading filters")
    assert terminal.shown.startswith("WARN: Java\r\n")
    terminal.type("\n")
    assert terminal.end() == 0
    assert terminal.screen == ["WARN: Java"]


@pytest.mark.slow
def test_a_warning_is_printed_once_and_fits(tmp_path):
    (tmp_path / ("a" * 50)).write_text("text")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "b.parquet")
    twice = (
        "import parquet_bloom.cli.commands as cli\n"
        "inspect = cli.parquet_bloom.inspect\n"
        "cli.parquet_bloom.inspect = lambda *a, **o: (inspect(*a, **o), inspect(*a, **o))[1]\n"
        "cli.main()"
    )
    terminal = Terminal(sys.executable, "-c", twice, "inspect", ".", cwd=tmp_path, columns=60)
    assert terminal.end() == 0
    assert terminal.told.count("is not Parquet") == 1
    assert max(map(len, terminal.lines)) <= 60


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"], ["--format", "csv"]], ids=str)
def test_a_bar_keeps_out_of_what_is_printed(options, tmp_path):
    plain = subprocess.run(
        [sys.executable, "-c", LISTING, "find", "x", "--where", "id = 1", *options],
        input="\n\n\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (plain.returncode, len(plain.stdout.splitlines())) == (0, 3 if options == ["--json"] else 4)

    def run(**elsewhere):
        terminal = Terminal(sys.executable, "-c", LISTING, "find", "x", "--where", "id = 1", *options, **elsewhere)
        for share in ("0%", "33%", "67%"):
            terminal.wait_for(share)
            terminal.type("\n")
        assert terminal.end() == 0
        return terminal

    with (tmp_path / "rows").open("wb") as file:
        terminal = run(stdout=file)
    assert (tmp_path / "rows").read_text() == plain.stdout
    assert terminal.screen == (plain.stderr.splitlines() or [""])
    assert run().screen == [*plain.stdout.splitlines(), *plain.stderr.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("given", ["NO_COLOR=1", "TERM=dumb"])
def test_a_bar_has_no_color_where_none_is_wanted(given):
    terminal = Terminal("env", given, sys.executable, "-c", WAITING, "0", "inspect", "anything")
    if given == "NO_COLOR=1":
        terminal.wait_for("43%")
    terminal.type("\n")
    assert terminal.end() == 0
    assert not re.search(r"\x1b\[[0-9;]*3\dm", terminal.shown)
    assert given != "TERM=dumb" or terminal.shown == ""


# ---- pipes and signals -------------------------------------------------------------------


@pytest.mark.parametrize("arguments", mostly_slow(["inspect . --json", "inspect .", "verify . --json", "probe . id 5"]))
def test_a_reader_that_leaves_is_no_error(arguments):
    ran = subprocess.run(
        ["bash", "-c", f"'{PROGRAM}' {arguments} | head -n 1"],
        cwd=FIXTURES,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert len(ran.stdout.splitlines()) == 1
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr


@pytest.fixture
def long_work(tmp_path):
    """A folder with two files of 1,000 row groups each: at the pace of `SLOW`, minutes."""
    for name in ("a", "b"):
        pq.write_table(pa.table({"id": range(2000)}), tmp_path / f"{name}.parquet", row_group_size=2)
    return tmp_path


@pytest.mark.parametrize(
    ("number", "output"),
    mostly_slow([(number, output) for number in (signal.SIGINT, signal.SIGTERM) for output in ([], ["-o", "new"])]),
)
def test_an_interrupted_add_leaves_nothing_behind(long_work, number, output):
    before = {path.name: path.read_bytes() for path in long_work.iterdir()}
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, "add", ".", "-c", "id", *output],
        cwd=long_work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        begun = process.stdout.readline()
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)
    assert begun == "hashing\n"
    assert process.returncode == 130
    assert said == "interrupted: no file was left half written\n"
    assert {path.name: path.read_bytes() for path in long_work.iterdir() if path.is_file()} == before
    assert [path for path in long_work.rglob("*") if path.is_file() and path.parent != long_work] == []


@pytest.mark.slow
def test_ctrl_c_on_a_terminal_ends_the_bar_too(long_work):
    terminal = Terminal(
        sys.executable, "-c", SLOW, "add", "a.parquet", "-c", "id", cwd=long_work, stdout=subprocess.DEVNULL
    )
    terminal.wait_for("adding filters")
    terminal.interrupt()
    assert terminal.end() == 130
    assert terminal.screen == ["interrupted: no file was left half written"]
    assert sorted(path.name for path in long_work.iterdir()) == ["a.parquet", "b.parquet"]


# ---- what a terminal does not get, and what a shell completes ----------------------------


def test_a_terminal_gets_no_parquet():
    terminal = Terminal(PROGRAM, "inspect", str(FIXTURES / "pyarrow" / "small.parquet"), "--format", "parquet")
    assert terminal.end() == 2
    assert "not for a terminal; add > FILE" in terminal.told
    assert "PAR1" not in terminal.shown


@pytest.mark.parametrize(
    ("words", "completed"),
    mostly_slow(
        [
            ("pru", "prune"),
            ("inspect --for", "--format"),
            ("inspect --format ''", "table json csv parquet"),
            ("index paimon a", "attach"),
            ("inspect sma", "files"),
            ("lookup sma -k sma", "files"),
            ("index create sma", "files"),
            ("add sma -o sma", "files"),
        ]
    ),
)
def test_bash_completes(words, completed):
    script = f"""
    compopt() {{ COMPREPLY=(files); }}
    eval "$(_PARQUET_BLOOM_COMPLETE=bash_source parquet-bloom)"
    COMP_WORDS=(parquet-bloom {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
    _parquet_bloom_completion parquet-bloom
    echo "${{COMPREPLY[@]}}"
    """
    path = f"{Path(PROGRAM).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert (ran.stdout.strip(), ran.stderr) == (completed, "")
