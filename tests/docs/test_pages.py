"""Every command, option, function, link and table of the documentation is there, and its help is the program's."""

import ast
import importlib
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterator

import click
import pytest
from documents import DOCUMENTS, PAGES, README, ROOT, blocks, text, without_blocks
from files import DAMAGED, SOUND

import parquet_bloom
from parquet_bloom.cli.commands import main
from parquet_bloom.filters import engines


def commands_below(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    """Yields each command that does something, with its words: `index paimon write`."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_below(command, *words, name)
        else:
            yield " ".join((*words, name)), command


COMMANDS = dict(commands_below(main))
PAGE_OF = {verb: "indexing" if verb == "index" else verb for verb in main.commands}
OF_OTHERS = {"--archives", "--conf", "--deploy-mode", "--kills", "--packages", "--prefix", "--py-files", "--values"}
"""Options of spark-submit, venv-pack, .ci/load and check_certificate.py."""

documents = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def scripts():
    sys.path.insert(0, str(ROOT / "docs"))
    yield importlib.import_module
    sys.path.remove(str(ROOT / "docs"))


# ---- names that exist --------------------------------------------------------------------


@pytest.mark.parametrize("verb", main.commands)
def test_a_verb_has_a_page_with_the_command_and_its_python_twin(verb):
    page, readme = text(PAGES / f"{PAGE_OF[verb]}.md"), text(README)
    [twin] = re.findall(rf"\]\(docs/pages/{PAGE_OF[verb]}\.md\) \| `parquet_bloom\.([\w.]+)\(", readme)
    assert page.startswith(f"# {verb}\n")
    for example in (f"$ parquet-bloom {verb}", f"parquet_bloom.{twin}("):
        assert any(example in block for _, block in blocks(page, "console", "pycon")), example
    assert re.search(rf"\| `parquet-bloom {verb}.*\| `parquet_bloom\.{re.escape(twin)}\(", page)
    assert f"(api.md#parquet_bloom.{twin})" in page
    assert f"::: parquet_bloom.{twin}\n" in text(PAGES / "api.md")


@documents
def test_every_option_that_is_named_exists(path):
    exist = {option for command in COMMANDS.values() for p in command.params for option in p.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text(path)))
    assert named <= exist | {"--help", "--version"} | OF_OTHERS


@documents
def test_every_command_that_is_named_exists(path):
    for line in re.findall(r"parquet-bloom ([a-z]+[a-z ]*)", text(path)):
        command = main
        for word in line.split():
            if not isinstance(command, click.Group):
                break
            assert word in command.commands, line
            command = command.commands[word]


@documents
def test_every_call_in_python_fits_the_function(path):
    """Also of examples that are not run, because they need a table."""
    for _, block in blocks(text(path), "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("parquet_bloom."):
                function = named(ast.unparse(node.func))
                inspect.signature(function).bind(*node.args, **{k.arg: k.value for k in node.keywords})


@documents
def test_every_function_that_is_named_exists(path):
    for name in re.findall(r"(?<![\w./-])parquet_bloom\.[a-z][\w.]*(?=[(`\]])", text(path)):
        named(name)
    for name in re.findall(r"^::: (\S+)$", text(path), re.MULTILINE):
        named(name)


def named(name: str) -> object:
    """Returns what a dotted name means."""
    found = parquet_bloom
    module = "parquet_bloom"
    for part in name.split(".")[1:]:
        module = f"{module}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(module)
    return found


# ---- links -------------------------------------------------------------------------------


@documents
def test_links_lead_somewhere(path):
    for target, _, anchor in re.findall(r"\]\(([^)#:]*)(#([^)]+))?\)", without_blocks(text(path))):
        file = path.parent / target if target else path
        assert file.exists(), target
        if anchor.startswith("parquet_bloom."):  # made from the docstrings
            assert f"::: {anchor}\n" in text(file), anchor
        elif anchor:
            assert anchor in headings(text(file)), f"{target}#{anchor}"


@pytest.mark.parametrize(
    "path", [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda path: path.stem
)
def test_every_file_of_the_project_that_is_named_exists(path):
    folders = {p.name for p in (*ROOT.iterdir(), *(ROOT / "parquet_bloom").iterdir()) if p.is_dir()}
    for name in re.findall(r"`(?:python |bash )?([\w.-]+/[\w./-]+)", text(path)):
        if name.partition("/")[0] in folders:
            assert (ROOT / name).exists() or (ROOT / "parquet_bloom" / name).exists(), name


def headings(document: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", without_blocks(document), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_the_guarantees_say_how_many_files_are_tried():
    page = text(PAGES / "guarantees.md")
    assert f"| {len(DAMAGED)} files |" in page
    assert f"| {len(SOUND) + 2} footers," in page


def test_every_page_is_in_the_menu():
    menu = re.findall(r"(\w+\.md)$", text(ROOT / "docs" / "mkdocs.yml"), re.MULTILINE)
    assert sorted(menu) == sorted(path.name for path in PAGES.glob("*.md"))


# ---- what is generated -------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS[1:], ids=lambda path: path.stem)
def test_help_is_what_the_program_prints(path, scripts):
    written = scripts("write_help").with_help(text(path))
    assert written == text(path), "run python docs/write_help.py"


def test_the_table_of_releases_that_lose_rows_is_that_of_the_code(scripts):
    page = text(PAGES / "engines.md")
    assert scripts("write_hazards").with_table(page) == page, "run python docs/write_hazards.py"
    for hazard in engines.HAZARDS:
        assert f"| {hazard.engine} | " in page
        assert f"| {hazard.loses} | " in page
    assert f"As of {engines.MEASURED.day} {engines.MEASURED:%B %Y}." in page


def test_the_tables_and_curves_of_speed_show_the_figures_that_were_measured(scripts):
    speed = scripts("write_speed")
    told, page = json.loads(text(speed.FIGURES)), text(speed.PAGE)
    assert speed.with_tables(page, told) == page, "run python docs/write_speed.py"
    for group in speed.CURVES:
        assert speed.mark(group, told) in text(PAGES / f"speed_{group}.svg"), "run python docs/write_speed.py"
    marks = set(re.findall(r"<!-- speed: (\w+) -->", page))
    assert {row["group"] for row in told["rows"]} <= marks
    assert {figure["group"] for figure in told["figures"]} <= {mark.removesuffix("_figures") for mark in marks}


def test_the_page_of_the_story_is_its_notebook(scripts):
    story = scripts("write_story")
    assert story.page(json.loads(text(story.NOTEBOOK))) == text(story.PAGE), "run python docs/write_story.py"


def test_every_command_has_its_help_in_a_page():
    shown = {words for path in PAGES.glob("*.md") for words in re.findall(r"<!-- help: ([a-z ]+) -->", text(path))}
    assert set(COMMANDS) <= {words.strip() for words in shown}


def test_the_picture_shows_what_the_commands_print(scripts, tmp_path):
    record = scripts("record")
    drawn = re.sub(r"&#160;|\s+", " ", text(record.PICTURE))
    for command in record.COMMANDS:
        assert command.partition(" -w ")[0].replace("|", "").split()[-1] in drawn
    record.write_sample(tmp_path / "events")
    for command in record.COMMANDS:
        for line in record.run(command, tmp_path).splitlines():
            words = re.sub(r"[\d.,%~]+", "", line).split()  # sizes depend on the version of pyarrow
            assert all(word in drawn for word in words if word.isalpha()), line


def test_tools_for_the_documentation_are_an_extra():
    extras = tomllib.loads(text(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]
    assert {re.match(r"[\w-]+", need)[0] for need in extras["docs"]} == {"mkdocs-material", "mkdocstrings", "ruff"}
