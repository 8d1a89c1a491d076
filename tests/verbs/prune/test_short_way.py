"""The short way to the verdicts on usual files leads where the long one does, to the reasons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from files import DAMAGED, PLAIN, fixture

from parquet_bloom import Cache, ParquetBloomError, prune
from parquet_bloom.predicates.evaluation import ColumnTest, Combined

FILES = sorted({*PLAIN, *DAMAGED})
CONDITIONS = [
    *("id = 1", "id = 44", "id = -7", "id <=> 44", "id = 9223372036854775808", "id = 1.5", "name = 'name 000001'"),
    *("name = 'x'", "amount = 1.5", "i64 = 1", "s = 'x'", "bin = X'61'"),
    "id = 44 AND day = 1",
    "day = 1 AND id = 44",
    "id = 44 AND day = 2",
    "id = 44 OR day = 2",
    "day = 1 OR id = 44",
    "id = 123456789 AND day = 1 AND TRUE",
    "NOT id <> 44",
    "id IN (44)",
    "id IN (44, 45)",
    "id = 44 AND name = 'x'",
]


def outcome(path: Path, where: str) -> Any:
    try:
        return prune(path, where, cache=Cache(0)).rows
    except ParquetBloomError as error:
        return type(error), str(error)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "day=1"
    folder.mkdir()
    return folder


def test_both_ways_lead_to_the_same(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def outcomes() -> dict[tuple[str, str], Any]:
        found = {}
        for name in FILES:
            (lake / "file.parquet").write_bytes(fixture(name))
            found |= {(name, where): outcome(lake.parent, where) for where in CONDITIONS}
        return found

    answers: list[list[Any]] = []
    point = ColumnTest._evaluate_point

    def counted(*arguments: Any) -> Any:
        answers.append((yield from point(*arguments)))
        return answers[-1]

    monkeypatch.setattr(ColumnTest, "_evaluate_point", counted)
    short = outcomes()
    assert sum(map(bool, answers)) > 100
    for kind in (ColumnTest, Combined):
        monkeypatch.setattr(kind, "evaluate_usual", lambda *_: None)
    num_short = len(answers)
    assert outcomes() == short
    assert len(answers) == num_short
