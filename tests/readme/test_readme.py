"""What the README shows is what happens: its blocks run, top to bottom, in one directory."""

import doctest
import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

import parquet_bloom
from parquet_bloom.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
VERBS = ("inspect", "probe", "add", "prune", "lookup", "verify", "drop", "demo")
OTHERS = {"index": "index_create", "sql": "execute"}  # commands that are called otherwise in Python


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    return re.search(rf"^### {title}\n(.*?)(?=^##)", README, re.MULTILINE | re.DOTALL)[1]


def shell(command: str, directory: Path) -> str:
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.stdout


def examples(block: str) -> list[tuple[str, str]]:
    """Returns the commands of a console block, each with the output that it shows."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    assert parts[0] == "", "a console block starts with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def same(shown: str, real: str) -> bool:
    return doctest.OutputChecker().check_output(shown, real, doctest.ELLIPSIS)


def test_examples_do_what_they_show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell("parquet-bloom demo --keep sample", tmp_path)
    names = {}
    ran = 0
    for language, block in re.findall(r"^```(console|pycon)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        if language == "console":
            for command, shown in examples(block):
                real = shell(command, tmp_path)
                assert same(shown, real), f"$ {command}\n{real}"
                ran += 1
        else:
            test = doctest.DocTestParser().get_doctest(block, names, "README.md", "README.md", 0)
            said = []
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
            runner.run(test, out=said.append, clear_globs=False)
            names = test.globs
            assert not runner.failures, "".join(said)
            ran += runner.tries
    assert ran > 15


@pytest.mark.parametrize("verb", [*VERBS, *OTHERS])
def test_a_section_shows_the_command_and_its_python_twin(verb):
    text, twin = section(verb), OTHERS.get(verb, verb)
    assert f"$ parquet-bloom {verb}" in text
    assert f"In Python: `{twin}`" in text
    assert f"parquet_bloom.{twin}(" in text
    assert f"](#{verb}) | `parquet_bloom.{twin}(" in README


def test_every_command_and_option_that_is_named_exists():
    assert set(main.commands) == {*VERBS, *OTHERS}
    assert set(VERBS) <= set(parquet_bloom.__all__)
    named = set(re.findall(r"--[a-z][a-z-]+", README))
    commands = [*main.commands.values(), *main.commands["index"].commands.values()]
    exist = {option for command in commands for p in command.params for option in p.opts}
    assert named <= exist | {"--help", "--version"}


def test_the_two_commands_are_the_first_that_is_shown():
    first, *others = blocks("sh")
    commands = first.splitlines()
    assert len(commands) == 2
    assert commands[0].endswith("parquet-bloom demo")
    assert commands[1].endswith("pytest")
    assert README.index(first) < README.index("\n## ")
    assert others == []


def test_links_to_files_and_sections_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
    headings = {h.lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", README, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= headings


ROWS = {  # of the README's table of engines, each by a kind of column that `engines` knows
    "8 and 16-bit integers": ["INT8", "INT16"],
    "32 and 64-bit integers": ["INT32", "INT64"],
    "unsigned, 8 and 16-bit": ["UINT8", "UINT16"],
    "unsigned, 32 and 64-bit": ["UINT32", "UINT64"],
    "float, double": ["FLOAT", "DOUBLE"],
    "string, binary": ["STRING", "BYTE_ARRAY"],
    "JSON, enum": ["JSON", "ENUM"],
    "fixed-length binary": ["FIXED_LEN_BYTE_ARRAY"],
    "UUID": ["UUID"],
    "decimal, in 4 or 8-byte integers": ["DECIMAL INT32", "DECIMAL INT64"],
    "decimal, in fixed-length bytes": ["DECIMAL FIXED_LEN_BYTE_ARRAY"],
    "decimal of more than 38 digits": ["DECIMAL over 38 digits"],
    "date": ["DATE"],
    "time, local, milliseconds or nanoseconds": ["TIME MILLIS", "TIME NANOS"],
    "time, local, microseconds": ["TIME MICROS"],
    "timestamp, local": ["TIMESTAMP local"],
    "timestamp, UTC, milliseconds or microseconds": ["TIMESTAMP UTC"],
    "timestamp, UTC, nanoseconds": ["TIMESTAMP UTC NANOS"],
    "INT96, boolean, interval, UTC time": ["INT96", "BOOLEAN", "INTERVAL", "TIME UTC"],
}


def test_the_table_of_engines_is_the_one_that_inspect_uses():
    from parquet_bloom import engines

    rows = {name: cells for name, *cells in map(table_cells, README.splitlines()) if name in ROWS}
    assert rows.keys() == ROWS.keys()
    for name, cells in rows.items():
        for kind in ROWS[name]:
            columns = (engines.DUCKDB, engines.DATAFUSION, engines.CLICKHOUSE, engines.SPARK)
            assert cells == ["yes" if engine in engines._USERS[kind] else "no" for engine in columns], kind


def table_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]
