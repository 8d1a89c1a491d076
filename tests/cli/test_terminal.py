"""The program as a process: on a terminal, in a pipe, and interrupted."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import sysconfig
import termios
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
PROGRAM = str(Path(sysconfig.get_path("scripts"), "parquet-bloom"))
PATIENCE = 120  # seconds after which something hangs

# The program with a library call that waits for a line on standard input: time stands still until it comes.
WAITING = """
import sys
import parquet_bloom.cli.commands as cli
import parquet_bloom.cli.output as output
from parquet_bloom.verbs.inspect import Inspection

def inspect(paths, columns, *, progress, **_):
    if progress:
        progress(3, 7)
    sys.stdin.readline()
    return Inspection(())

cli.parquet_bloom.inspect = inspect
output.BAR_AFTER = float(sys.argv.pop(1))
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
    """A program on a terminal of 80 columns; everything that it shows ends up in `shown`."""

    def __init__(self, *command: str, cwd: Path | None = None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "CI")}
        environment["TERM"] = "xterm"
        self._process = subprocess.Popen(
            command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
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


def piped(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False)


# ---- width -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "spark", "duckdb", "clickhouse", "pyarrow"],
        ["inspect", "clickhouse/all_types.parquet", "--all"],
        ["inspect", "damaged"],
        ["probe", "pyarrow", "duckdb", "damaged", "id", "5"],
        ["verify", "spark", "damaged"],
        ["add", "pyarrow", "damaged", "-c", "id", "--replace", "--dry-run"],
        ["drop", "duckdb", "damaged", "--dry-run"],
        ["add", "pyarrow", "-c", "idd"],
    ],
    ids=" ".join,
)
def test_a_terminal_shows_lines_of_its_width(arguments):
    terminal = Terminal(PROGRAM, *arguments, cwd=FIXTURES)
    terminal.end()
    assert max(map(len, terminal.lines)) <= 80
    assert "…" not in "".join(line for line in terminal.lines if "WHERE" not in line)
    assert "Traceback" not in terminal.shown


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


def test_no_color_means_none():
    missing = [PROGRAM, "inspect", "damaged"]
    for command, colored in ((missing, True), (["env", "NO_COLOR=1", *missing], False)):
        terminal = Terminal(*command, cwd=FIXTURES)
        assert terminal.end() == 2
        assert bool(re.search(r"\x1b\[3\dm", terminal.shown)) == colored


def test_keys_come_from_standard_input(tmp_path):
    pq.write_table(pa.table({"id": [1, 5, 7]}), tmp_path / "a.parquet")
    assert piped("add", "a.parquet", "-c", "id", cwd=tmp_path).returncode == 0
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


def test_a_terminal_gets_no_bar_when_it_does_not():
    terminal = Terminal(sys.executable, "-c", WAITING, "1000000", "inspect", "anything")
    terminal.type("\n")
    assert terminal.end() == 0
    assert "reading filters" not in terminal.shown


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


# ---- pipes and signals -------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["inspect . --json", "inspect .", "verify . --json", "probe . id 5"])
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("output", [[], ["-o", "new"]], ids=["in place", "elsewhere"])
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


def test_ctrl_c_on_a_terminal_ends_the_bar_too(long_work):
    terminal = Terminal(sys.executable, "-c", SLOW, "add", "a.parquet", "-c", "id", cwd=long_work)
    terminal.wait_for("adding filters")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "no file was left half written" in terminal.shown
    assert sorted(path.name for path in long_work.iterdir()) == ["a.parquet", "b.parquet"]


# ---- what a terminal does not get, and what a shell completes ----------------------------


def test_a_terminal_gets_no_parquet():
    terminal = Terminal(PROGRAM, "inspect", str(FIXTURES / "pyarrow" / "small.parquet"), "--format", "parquet")
    assert terminal.end() == 2
    assert "not for a terminal; add > FILE" in terminal.shown
    assert "PAR1" not in terminal.shown


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("pru", "prune"),
        ("inspect --for", "--format"),
        ("inspect --format ''", "table json csv parquet"),
        ("index paimon a", "attach"),
        ("inspect sma", "files"),
        ("lookup sma -k sma", "files"),
        ("index create sma", "files"),
        ("add sma -o sma", "files"),
    ],
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
