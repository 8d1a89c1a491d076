"""The list of `.ci/mutate` fits the code: each rule that it takes away is still there, once."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".ci" / "mutations").glob("*.toml"))
KEYS = {"name", "file", "old", "new", "tests"}


def entries(file: Path) -> list[dict[str, Any]]:
    return tomllib.loads(file.read_text("utf-8"))["mutation"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_mutation_changes_one_place_of_its_room(file: Path) -> None:
    wrong = []
    for mutation in entries(file):
        assert KEYS <= mutation.keys() <= KEYS | {"tier", "equivalent"}, mutation
        path = ROOT / "parquet_bloom" / mutation["file"]
        text = path.read_text("utf-8")
        changed = text.replace(mutation["old"], mutation["new"])
        is_here = mutation["file"].split("/")[0] == file.stem and text.count(mutation["old"]) == 1
        if not is_here or _without_comments(path, changed) == _without_comments(path, text):
            wrong.append(mutation["name"])
    assert not wrong


@cache
def _without_comments(path: Path, text: str) -> str:
    return ast.dump(ast.parse(text)) if path.suffix == ".py" else text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_mutation_names_tests_that_are_there(file: Path) -> None:
    for mutation in entries(file):
        assert mutation["tests"], mutation["name"]
        assert not [test for test in mutation["tests"] if not (ROOT / test.split("::")[0]).exists()], mutation["name"]
        assert mutation.get("tier", "spark") in {"spark", "engines", "servers"}
        assert mutation.get("equivalent", "a reason")


def test_there_are_many_in_every_room() -> None:
    names = Counter(mutation["name"] for file in FILES for mutation in entries(file))
    assert [name for name, times in names.items() if times > 1] == []
    assert len(names) >= 120
    rooms = {"cli", "filters", "format", "kernel", "predicates", "spark", "storage", "tables", "values", "verbs"}
    assert {file.stem for file in FILES} == rooms
