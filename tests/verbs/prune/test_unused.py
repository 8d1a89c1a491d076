"""A condition of which nothing can be used says so; one that may rule something out does not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom.predicates.parsing import why_unused
from parquet_bloom.predicates.tree import col
from parquet_bloom.verbs.prune import prune


@pytest.mark.parametrize(
    "where",
    ["name LIKE 'a%'", '"id" = 5', "id = 5 OR name LIKE 'a%'", "id = other", "upper(name) = 'A' AND id + 1 = 5"],
)
def test_it_says_so_and_nothing_is_pruned(tmp_path: Path, where: str) -> None:
    pq.write_table(pa.table({"id": [1], "other": [2], "name": ["b"]}), tmp_path / "f.parquet")
    pruned = prune(tmp_path, where)
    assert pruned.might_match
    assert pruned.unused is not None
    assert pruned.unused.startswith("nothing in the condition can be used to prune: ")
    assert ("double quotes make text" in pruned.unused) is ('"' in where)


@pytest.mark.parametrize("where", ["name = 28ffad", "id + 1 = 5 AND name = abc", "id = other"])
def test_text_without_quotes_is_pointed_out(where: str) -> None:
    column, name = where.split(" ")[-3::2]
    assert why_unused(where).endswith(f"; text needs single quotes: {column} = '{name}'")


@pytest.mark.parametrize("where", ["name LIKE 'a%' AND id = 5", "id = 5", "id IS NULL", "true", "false", "NOT id = 5"])
def test_it_is_empty_for_conditions_that_may_prune(where: str) -> None:
    assert why_unused(where) is None


def test_a_column_with_a_name_of_sql_needs_backticks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pq.write_table(pa.table({"if": [1, 2]}), tmp_path / "f.parquet")
    assert prune(tmp_path, "if = 5").might_match
    assert why_unused("if = 5").endswith("; if is a word of SQL: write the column `if` in backticks")
    assert not prune(tmp_path, "`if` = 5").might_match
    assert caplog.text == ""  # sqlglot warns of what it does not know


def test_conditions_in_other_forms() -> None:
    assert why_unused(col("id") == 5) is None
    assert why_unused([("id", "=", 5)]) is None
