"""Options of Paimon tables: those that choose another state are refused, those that are not known prove nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from files import unpacked

import parquet_bloom
from parquet_bloom import absent, lookup, paimon, prune
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.tables import paimon_options

PAGE = Path(__file__).parents[2] / "docs" / "pages" / "tables.md"
READS: dict[str, Callable[[Path], Any]] = {
    "prune": lambda root: prune(root, "id = 25"),
    "lookup": lambda root: lookup(root, "id", [25]),
    "absent": lambda root: absent(root, "id", [25]),
    "find": lambda root: parquet_bloom.find(root, "id = 25"),
    "index": lambda root: parquet_bloom.index.create(root, ["id"]),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return unpacked("paimon_1_4/branches", tmp_path)


def with_options(table: Path, **options: str) -> Path:
    """Returns the table with options among its own, in a schema of their own: the newest."""
    schema = json.loads((table / "schema" / "schema-0").read_text("utf-8"))
    schema["id"] = 1
    schema["options"] |= options
    (table / "schema" / "schema-1").write_text(json.dumps(schema), "utf-8")
    return table


# Of each, Paimon itself reads other rows than without it: see tests/oracles and tests/real_tables.
OTHER_STATES = {
    "branch": "audit",
    "scan.primary-branch": "audit",
    "scan.fallback-branch": "audit",
    "scan.snapshot-id": "1",
    "scan.tag-name": "before",
    "scan.version": "before",
    "scan.timestamp-millis": "1",
    "scan.file-creation-time-millis": "1",
    "scan.mode": "from-snapshot",
    "incremental-between": "1,2",
    "chain-table.enabled": "true",
    "query-auth.enabled": "true",
    "type": "object-table",
}
INVENTED = ("scan.of-the-next-release", "branch-of-the-day", "chain-table.twisted", "incremental-since", "query-auth.x")


@pytest.mark.parametrize(("name", "value"), [*OTHER_STATES.items(), *((name, "1") for name in INVENTED)])
def test_an_option_by_which_another_state_is_read_is_refused_by_its_name(name: str, value: str, table: Path) -> None:
    with_options(table, **{name: value})
    for ask in READS.values():
        with pytest.raises(UnsupportedError, match=f"has the option {name}={value}"):
            ask(table)
    with pytest.raises(UnsupportedError, match=name):  # readers of earlier snapshots go by the newest options
        prune(table, "id = 5", as_of=1)


def test_the_branch_to_name_instead_is_told(table: Path) -> None:
    with_options(table, branch="audit")
    with pytest.raises(UnsupportedError, match=r"name the branch that you mean, such as \S*table\$branch_audit"):
        prune(table, "id = 5")
    assert prune(f"{table}$branch_audit", "id = 25").might_match  # whose options are its own


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name, values in paimon_options.STATES.items() for value in values),
        *(("branch", "main"), ("scan.parallelism", "4"), ("parquet.page.size", "1"), ("comment", "ours")),
        *(("merge-engine", "partial-update"), ("tag.automatic-creation", "none"), ("sink.parallelism", "2")),
    ],
)
def test_an_option_that_changes_no_rows_changes_no_answer(name: str, value: str, table: Path) -> None:
    with_options(table, **{name: value})
    assert prune(table, "id = 5").might_match
    assert not prune(table, "id = 25").might_match
    assert parquet_bloom.find(table, "id >= 0").to_arrow().num_rows == 20


@pytest.mark.parametrize(
    ("name", "value"),
    [("of-the-next-release", "x"), ("rows.hidden", "1"), ("merge-engine", "new"), ("blob-field", "id")],
)
def test_with_an_option_that_is_not_known_files_are_kept_and_give_no_rows(name: str, value: str, table: Path) -> None:
    with_options(table, **{name: value})
    reason = f"the table's option {name}={value} is not known"
    for as_of in (None, 1):
        rows = prune(table, "id = 25", as_of=as_of).rows
        assert {row.answer for row in rows} == {"MIGHT_MATCH"}
        assert all(reason in row.reason for row in rows)
    assert not absent(table, "id", [25]).to_arrow().num_rows
    found = parquet_bloom.find(table, "id >= 0")
    assert found.to_arrow().num_rows == 0
    assert all(reason in error.error for error in found.errors)
    assert len(found.errors) == 2
    with pytest.raises(UnsupportedError, match=f"no index is attached to .*{name}={value}"):
        paimon.attach_index(table, ["id"])


def test_the_page_lists_what_is_understood() -> None:
    page = PAGE.read_text("utf-8")
    listed = (
        *paimon_options.FOLLOWED,
        *paimon_options.STATES,
        *paimon_options.STATE_FAMILIES,
        *paimon_options.NO_EFFECT,
    )
    assert [name for name in listed if f"`{name}`" not in page] == []


def test_no_pattern_of_harmless_options_takes_in_those_that_choose_a_state() -> None:
    families = [name.rstrip("*.") for name in paimon_options.STATE_FAMILIES]
    for name in (*paimon_options.FOLLOWED, *paimon_options.NO_EFFECT):
        if name.endswith("*"):
            assert not any(family.startswith(name.rstrip("*")) for family in families), name
