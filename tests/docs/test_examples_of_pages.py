"""What the README and the pages show is what happens: the blocks of each run, top to bottom, in one directory."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from click.testing import CliRunner
from documents import DOCUMENTS, README, blocks, text

import parquet_bloom
from parquet_bloom.cli.commands import main

ENGINES = re.compile(r"^(>>> import .*\b(duckdb|polars)\b|\$ parquet-bloom demo)", re.MULTILINE)
RUN = [path for path in DOCUMENTS if blocks(text(path), "console", "pycon")]


def shell(command: str, directory: Path) -> str:
    """Returns what a command prints; a process of the program itself is not started for each."""
    words = shlex.split(command)
    if words[0] == "parquet-bloom" and not re.search(r"[|<>;&$*]", command) and words[1] != "demo":
        return CliRunner().invoke(main, words[1:]).output
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


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "sample"
    list(parquet_bloom.demo(folder))
    return folder


def parameters():
    for path in RUN:
        asks = any(ENGINES.search(block) for _, block in blocks(text(path), "console", "pycon"))
        yield pytest.param(path, id=path.stem, marks=pytest.mark.engines if asks else [])


@pytest.mark.parametrize("path", [*parameters()])
def test_examples_do_what_they_show(path, sample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if path != README:  # which makes its own
        shutil.copytree(sample, tmp_path / "sample")
    names = {}
    for language, block in blocks(text(path), "console", "pycon"):
        if language == "console":
            for command, shown in examples(block):
                real = shell(command, tmp_path)
                assert same(shown, real), f"$ {command}\n{real}"
        else:
            test = doctest.DocTestParser().get_doctest(block, names, path.name, str(path), 0)
            said = []
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
            runner.run(test, out=said.append, clear_globs=False)
            names = test.globs
            assert not runner.failures, "".join(said)
            assert runner.tries


def test_the_readme_and_every_verb_have_examples():
    assert {"README", "add", "drop", "indexing", "inspect", "lookup", "probe", "prune", "sql", "verify"} <= {
        path.stem for path in RUN
    }


def test_the_two_commands_are_the_first_that_is_shown():
    readme = text(README)
    [(_, first)] = blocks(readme, "sh")
    commands = first.splitlines()
    assert len(commands) == 2
    assert commands[0].endswith("parquet-bloom demo")
    assert commands[1].endswith("pytest")
    assert readme.index(first) < readme.index("\n## ")


def test_the_readme_is_a_front_page():
    assert len(text(README).splitlines()) <= 200
