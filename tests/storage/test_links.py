"""Verbs that change files do not leave the folder that they were given, and take each file once."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.results import Table

Verb = Callable[..., Table]


def drop(paths: Any, **options: Any) -> Table:
    parquet_bloom.add(paths, "id", follow_links=True)
    return parquet_bloom.drop(paths, **options)


def erase(paths: Any, **options: Any) -> Table:
    return parquet_bloom.erase(paths, "id", [2], **options)


def erase_all(paths: Any, **options: Any) -> Table:
    return parquet_bloom.erase(paths, "id", [1, 2, 3], **options)


def add_hudi(paths: Any, **options: Any) -> Table:
    return parquet_bloom.hudi.add_filter(paths, "key", ndv=100, **options)


def add(paths: Any, **options: Any) -> Table:
    return parquet_bloom.add(paths, "id", **options)


def add_in_place(paths: Any, **options: Any) -> Table:
    return parquet_bloom.add(paths, "id", in_place=True, **options)


VERBS = [add, add_in_place, drop, erase, erase_all, add_hudi]


def write(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [1, 2, 3], "key": ["a", "b", "c"]}), path)


def changed(rows: Iterable[Any], below: Path) -> list[str]:
    return [os.path.relpath(row.path, below) for row in rows if row.status in ("written", "removed")]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    lake = tmp_path / "lake"
    write(lake / "a.parquet", tmp_path / "else" / "x.parquet", tmp_path / "else" / "y.parquet")
    (lake / "out.parquet").symlink_to("../else/x.parquet")
    (lake / "folder").symlink_to("../else")
    return lake


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("given", ["{}", "{}/*", "{}/**/*.parquet"])
def test_no_verb_leaves_a_folder_through_a_link(lake: Path, verb: Verb, given: str) -> None:
    if verb is drop:
        parquet_bloom.add(lake, "id", follow_links=True)
    others = sorted((lake.parent / "else").iterdir())
    before = [path.read_bytes() for path in others]
    rows = (parquet_bloom.drop if verb is drop else verb)(given.format(lake))
    assert [path.read_bytes() for path in others] == before
    assert changed(rows, lake) == ["a.parquet"]
    refused = [row for row in rows if row.status == "refused"]
    assert len(refused) == 2  # `x` has two names here
    assert all("symbolic link leads out of the folder" in row.error for row in refused)


def test_a_folder_whose_name_begins_as_that_of_the_given_one_is_another(lake: Path) -> None:
    write(lake.parent / "lakeside" / "x.parquet")
    (lake / "near.parquet").symlink_to("../lakeside/x.parquet")
    assert changed(add(lake), lake) == ["a.parquet"]


@pytest.mark.parametrize("verb", VERBS)
def test_with_follow_links_every_file_is_changed_once(lake: Path, verb: Verb) -> None:
    files = [os.path.realpath(path) for path in (lake / "a.parquet", lake / "out.parquet", lake / "folder/y.parquet")]
    rows = verb(lake, follow_links=True)
    assert sorted(files) == sorted(os.path.realpath(lake / path) for path in changed(rows, lake))


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_is_given_by_name_may_be_a_link(lake: Path, verb: Verb) -> None:
    (row,) = verb(lake / "out.parquet")
    assert row.status in ("written", "removed")
    (row,) = verb([lake / "folder" / "y.parquet"])
    assert row.status in ("written", "removed")


@pytest.mark.parametrize("verb", VERBS)
def test_two_names_of_a_file_in_a_folder_are_one_file(tmp_path: Path, verb: Verb) -> None:
    write(tmp_path / "lake" / "part" / "b.parquet")
    (tmp_path / "lake" / "a.parquet").symlink_to("part/b.parquet")
    (tmp_path / "lake" / "same").symlink_to("part")
    (tmp_path / "link").symlink_to("lake")
    rows = verb(tmp_path / "link")
    assert changed(rows, tmp_path / "link") == ["part/b.parquet"]
    assert len(rows) == 1


def test_of_two_names_the_one_that_may_be_changed_is(lake: Path) -> None:
    by_name = lake.parent / "else" / "x.parquet"
    for paths in ([lake, by_name], [by_name, lake]):
        parquet_bloom.drop([lake, by_name], follow_links=True)
        assert {Path(row.path).name for row in add(paths) if row.status == "written"} == {"a.parquet", "x.parquet"}


def test_recover_does_not_leave_a_folder_through_a_link(lake: Path) -> None:
    target = lake.parent / "else" / "x.parquet"
    whole = target.read_bytes()
    parquet_bloom.add(target, "id", in_place=True)
    target.write_bytes(cut := target.read_bytes()[: len(whole) + 40])
    rows = parquet_bloom.recover(lake)
    assert target.read_bytes() == cut
    assert [row.status for row in rows].count("refused") == 1
    parquet_bloom.recover(lake, follow_links=True)
    assert target.read_bytes() == whole


def test_a_link_in_a_folder_is_read(lake: Path) -> None:
    assert len({row.path for row in parquet_bloom.prune(lake, "id = 2")}) == 4
