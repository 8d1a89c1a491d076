"""A column that cannot have a filter is named with the reason, and the others are done."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from files import snapshot

from parquet_bloom import add, inspect, lookup, probe, prune, verify
from parquet_bloom.cli import commands
from parquet_bloom.errors import PredicateError, UnsupportedError
from parquet_bloom.format.schema import format_path, parse_path

WHY = "BOOLEAN cannot have a filter: a filter on two values is useless, and engines ignore BOOLEAN filters"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    table = pa.table({"id": range(100), "flag": [True, False] * 50, "": range(500, 600), "name": ["x"] * 100})
    pq.write_table(table, path, row_group_size=50)
    return path


def test_the_others_are_done(file: Path) -> None:
    result = add(file, ["flag", "id", "name"])
    (row,) = result.rows
    assert (row.status, row.error) == ("written", None)
    assert [(skipped.column, skipped.reason) for skipped in row.skipped_columns] == [("flag", WHY)]
    assert result.errors
    assert {f.column for f in inspect(file).rows} == {"id", "name"}
    (again,) = add(file, ["id", "flag"]).rows
    assert (again.status, len(again.skipped_columns)) == ("unchanged", 1)


def test_strict_stops_before_the_first_byte(file: Path) -> None:
    before = snapshot(file.parent)
    with pytest.raises(UnsupportedError, match="column flag: BOOLEAN cannot have a filter"):
        add(file, ["id", "flag"], strict=True)
    assert snapshot(file.parent) == before


def test_where_no_column_is_left_the_file_is_refused(file: Path) -> None:
    before = snapshot(file.parent)
    (row,) = add(file, "flag").rows
    assert (row.status, row.error, row.skipped_columns) == ("refused", f"column flag: {WHY}", ())
    assert snapshot(file.parent) == before


def test_the_command_names_it_and_exits_with_2(file: Path) -> None:
    for extra, said in ((["-n"], "would add 2 filters"), ([], "added 2 filters")):
        ran = CliRunner().invoke(commands.main, ["add", str(file), "-c", "flag", "-c", "id", *extra])
        assert (ran.exit_code, ran.stderr) == (2, f"{file}: column flag skipped: {WHY}\n")
        assert said in ran.stdout
    ran = CliRunner().invoke(commands.main, ["add", str(file), "-c", "flag", "-c", "id", "--json"])
    assert ran.exit_code == 2
    assert json.loads(ran.stdout)["skipped_columns"] == [{"column": "flag", "reason": WHY}]


# ---- a column without a name -------------------------------------------------------------


def test_a_column_without_a_name_is_asked_for_in_backticks(file: Path) -> None:
    (row,) = add(file, ["``", "id"], fpp=1e-9).rows
    assert {f.column for f in row.filters} == {"``", "id"}
    assert verify(file, "``").findings == ()
    assert [row.answer for row in probe(file, "``", [500, 99]).rows] == ["MIGHT_MATCH", *["CANNOT_MATCH"] * 3]
    assert [group.row_group for group in prune(file, "`` = 555").kept_row_groups] == [1]
    assert not prune(file, "`` = 9").might_match
    rows = lookup(file, "``", [555, 9]).to_arrow().to_pylist()
    assert [(row["key"], row["row_group"]) for row in rows] == [(555, 1), (9, None)]


@pytest.mark.parametrize("path", [("",), ("", ""), ("a", ""), ("", "a"), ("`",), ("``", "")])
def test_an_empty_part_is_written_and_read_back(path: tuple[str, ...]) -> None:
    assert parse_path(format_path(path)) == path


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "``a", "``.", "a..b"])
def test_an_empty_part_without_backticks_is_an_error(text: str) -> None:
    with pytest.raises(PredicateError):
        parse_path(text)
