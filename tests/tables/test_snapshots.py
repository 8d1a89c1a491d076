"""Swaps, and what a table's files are after them."""

from __future__ import annotations

import pickle
from array import array
from dataclasses import replace
from typing import Any

import pytest

from parquet_bloom import ConcurrentChangeError, CorruptFileError, UnsupportedError
from parquet_bloom.tables.live_files import LiveFile, Problem
from parquet_bloom.tables.placement import ByIds
from parquet_bloom.tables.snapshots import Erasure, Snapshot, TableFiles, check_erasures, check_outcome, untouched


def live(name: str, num_rows: int | None = 10, **known: object) -> LiveFile:
    return replace(LiveFile(f"/t/{name}", name, 100, num_rows), **known)  # type: ignore[arg-type]


def snapshot(*files: LiveFile) -> Snapshot:
    return Snapshot("Delta", "/t", 1, files)


BEFORE = snapshot(live("a"), live("b", 20), live("c", None))
SWAPPED = {"a": ("new", 10), "b": None}


def test_an_outcome_is_what_was_written() -> None:
    check_outcome(BEFORE, snapshot(live("c", None), live("new")), SWAPPED)
    check_outcome(BEFORE, BEFORE, {})


@pytest.mark.parametrize(
    "after",
    [
        [live("c", None), live("new", 11)],
        [live("c", None), live("new", None)],
        [live("c", None)],
        [live("c", None), live("a")],
        [live("c", None), live("new"), live("a")],
        [live("c", None), live("new"), live("new")],
        [live("c", None), live("new"), live("b", 20)],
        [live("new")],
    ],
    ids=["rows", "no rows", "lost", "not swapped", "both", "twice", "not gone", "another lost"],
)
def test_any_other_outcome_is_an_error(after: list[LiveFile]) -> None:
    with pytest.raises(CorruptFileError, match="the commit came out wrong"):
        check_outcome(BEFORE, snapshot(*after), SWAPPED)


# ---- rows that are erased ----------------------------------------------------------------


class Table:
    """A table whose only file is `old`, of which the row 3 is deleted."""

    def __init__(self, old: LiveFile, why_not: str | None) -> None:
        self.snapshot = replace(snapshot(old), deletes=lambda file: array("q", [3]))
        self._why_not = why_not

    def require_erasable(self) -> None:
        """Return: it is."""

    def why_not_erased(self, file: LiveFile) -> str | None:
        return self._why_not


def check(old: LiveFile, *erasures: Erasure, why_not: str | None = None) -> None:
    table: Any = Table(old, why_not)
    check_erasures(table, erasures)


DELETED = live("a", has_deletes=True)
ERASURE = Erasure(DELETED, None, 9, array("q", [3]))


def test_erasures_leave_other_rows_as_they_are() -> None:
    check(DELETED, ERASURE)
    check(live("a"), Erasure(live("a"), None, 10))
    check(live("a", None), Erasure(live("a", None), None, 11))


@pytest.mark.parametrize(
    ("erasures", "error"),
    [
        ([replace(ERASURE, rows_erased=8)], UnsupportedError),
        ([replace(ERASURE, rows_erased=10)], UnsupportedError),
        ([replace(ERASURE, rows_erased=10, deleted=array("q"))], ConcurrentChangeError),
        ([replace(ERASURE, deleted=array("q", [4]))], ConcurrentChangeError),
        ([replace(ERASURE, old=replace(DELETED, size=99))], ConcurrentChangeError),
        ([replace(ERASURE, old=replace(DELETED, recorded="b"))], ConcurrentChangeError),
        ([ERASURE, ERASURE], ConcurrentChangeError),
    ],
    ids=["fewer", "more", "not deleted", "other deleted", "another size", "gone", "twice"],
)
def test_erasures_of_other_rows_are_refused(erasures: list[Erasure], error: type[Exception]) -> None:
    with pytest.raises(error):
        check(DELETED, *erasures)


def test_files_that_cannot_be_erased_from_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="it is odd"):
        check(DELETED, ERASURE, why_not="it is odd")


# ---- what its files are to others --------------------------------------------------------


def test_deleted_rows_are_not_known_after_pickling() -> None:
    file = live("a", has_deletes=True)
    made = replace(snapshot(file), deletes=lambda file: array("q", [3]))
    assert list(made.deleted_rows(file)) == [3]
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    with pytest.raises(UnsupportedError, match="it is not known which"):
        again.deleted_rows(file)
    assert list(again.deleted_rows(live("b"))) == []


@pytest.mark.parametrize(
    ("kind", "excludes", "is_read", "is_opened"),
    [
        ("outside", False, False, False),
        ("lost", False, False, False),
        ("rows", False, False, True),
        ("columns", False, True, True),
        ("some rows", True, False, True),
    ],
)
def test_a_problem_keeps_a_file_from_some_uses(kind: Any, excludes: bool, is_read: bool, is_opened: bool) -> None:
    file = live("a", problem=Problem(kind, "it is odd"))
    assert (file.not_excluded, file.unreadable) == (None if excludes else "it is odd", None if is_read else "it is odd")
    assert (file.is_unread, file.is_outside) == (not is_opened, kind == "outside")
    assert (live("a").not_excluded, live("a").unreadable, live("a").is_unread) == (None, None, False)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, None),
        ({"has_deletes": True}, "some of their rows are deleted"),
        ({"problem": Problem("rows", "it is odd")}, "it is odd"),
        ({"partition": {"p": "x"}}, "partition columns"),
        ({"unproved": frozenset({("id", "it is odd")})}, "other names or values"),
    ],
    ids=["plain", "deletes", "not excluded", "partition", "unproved"],
)
def test_files_are_a_dataset_only_if_their_rows_are_the_table_s(known: dict[str, object], reason: str | None) -> None:
    made = snapshot(live("a"), live("b", **known))
    sources = [untouched(file) for file in made.files]
    said = TableFiles(made, sources).no_dataset
    assert said is None if reason is None else reason in str(said)
    renaming = replace(made, naming=ByIds({}, "nothing is mapped", "decide"))
    assert TableFiles(renaming, sources).no_dataset == (said or "columns may have other names or values in them")
