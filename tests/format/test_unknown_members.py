"""A footer with a member that the format may get one day: what depends on it proves nothing, and nothing of it is lost.

The table of the page on formats says the same; it is held to `MEMBERS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compact import BINARY, FALSE, I32, STRUCT, Field, Items, Reader, encode_struct
from documents import PAGES
from files import SMALL, fixture, footer_bytes, with_footer

import parquet_bloom
from parquet_bloom.errors import LiteralError, ParquetBloomError

Edit = Callable[[list[Field]], list[Field]]
NEW = Field(99, STRUCT, [Field(1, I32, 7), Field(2, BINARY, b"from tomorrow")])


def within(*path: int, edit: Edit) -> Edit:
    """Returns an edit of the structs at a path of field ids, of every one in a list."""

    def edited(fields: list[Field]) -> list[Field]:
        out = []
        for field in fields:
            if field.id == path[0]:
                inner = within(*path[1:], edit=edit) if path[1:] else edit
                if field.kind == STRUCT:
                    field = field._replace(value=inner(field.value))
                else:
                    field = field._replace(value=Items(STRUCT, [inner(each) for each in field.value.values]))
            out.append(field)
        return out

    return edited


def of_leaves(*put: Field, without: tuple[int, ...] = ()) -> Edit:
    """Returns an edit that puts fields into the schema's leaves, without others."""

    def edited(element: list[Field]) -> list[Field]:
        if not any(field.id == 1 for field in element):
            return element
        ids = {field.id for field in put} | set(without)
        return sorted([*(field for field in element if field.id not in ids), *put], key=lambda field: field.id)

    return within(2, edit=edited)


def with_new(fields: list[Field]) -> list[Field]:
    return [*fields, NEW]


def renumbered(fields: list[Field]) -> list[Field]:
    return [fields[0]._replace(id=99)]


TIMESTAMP = Field(8, STRUCT, [Field(1, FALSE), Field(2, STRUCT, [Field(99, STRUCT, [])])])
MEMBERS: dict[str, tuple[Edit, str]] = {
    "logical type": (of_leaves(Field(10, STRUCT, [Field(99, STRUCT, [])])), "all"),
    "converted type": (of_leaves(Field(6, I32, 99), without=(10,)), "all"),
    "unit of a time or timestamp": (of_leaves(Field(10, STRUCT, [TIMESTAMP]), without=(6,)), "all"),
    "physical type": (of_leaves(Field(1, I32, 99)), "all"),
    "column order": (within(7, edit=renumbered), "statistics"),
    "field of any struct": (
        lambda tree: with_new(
            within(2, edit=with_new)(
                within(4, edit=with_new)(
                    within(4, 1, edit=with_new)(
                        within(4, 1, 3, edit=with_new)(within(4, 1, 3, 12, edit=with_new)(tree))
                    )
                )
            )
        ),
        "nothing",
    ),
}
ID = 584858136236  # of the first row
ABSENT = ID + 1  # between the least and the greatest of each row group
HEADER = {"algorithm of a filter": 2, "hash of a filter": 3, "compression of a filter": 4}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    path.write_bytes(fixture(SMALL))
    parquet_bloom.add(path, ["id", "name"], replace=True)
    return path


def edit_footer(path: Path, edit: Edit) -> bytes:
    data = path.read_bytes()
    tree = Reader(footer_bytes(data)).struct()
    path.write_bytes(with_footer(data, encode_struct(edit(tree))))
    assert path.read_bytes() != data
    return path.read_bytes()


def verdicts(path: Path, where: str) -> set[str]:
    return {row.answer for row in parquet_bloom.prune(path, where).rows}


KEPT, EXCLUDED = {"MIGHT_MATCH"}, {"CANNOT_MATCH"}


@pytest.mark.parametrize("member", MEMBERS)
def test_of_what_is_not_understood_nothing_is_proved(file: Path, member: str) -> None:
    by_filters, by_statistics = f"id = {ABSENT}", "id > 1000000000000000"
    assert verdicts(file, by_filters) == verdicts(file, by_statistics) == EXCLUDED
    edit, lost = MEMBERS[member]
    edit_footer(file, edit)
    assert verdicts(file, by_statistics) == (EXCLUDED if lost == "nothing" else KEPT)
    assert verdicts(file, by_filters) == (KEPT if lost == "all" else EXCLUDED)


@pytest.mark.parametrize("member", [member for member, (_, lost) in MEMBERS.items() if lost == "all"])
def test_of_what_is_not_understood_no_key_is_absent_or_erased(file: Path, member: str) -> None:
    before = edit_footer(file, MEMBERS[member][0])
    assert len(parquet_bloom.lookup(file, "id", [-5]).to_arrow()) > 0
    for verb in (parquet_bloom.absent, parquet_bloom.erase):
        try:
            result = verb(file, "id", [-5])
        except (ParquetBloomError, LiteralError):
            continue
        assert result.errors
    assert any(row.error or row.skipped_columns for row in added(file))
    assert file.read_bytes() == before


@pytest.mark.parametrize("member", MEMBERS)
def test_what_is_not_understood_is_not_erased(file: Path, member: str) -> None:
    before = edit_footer(file, MEMBERS[member][0])
    for column, key in (("id", ID), ("name", "name-28")):
        try:
            result = parquet_bloom.erase(file, column, [key], dry_run=True)
        except (ParquetBloomError, LiteralError):
            continue
        assert result.errors
        if member in ("column order", "field of any struct"):
            assert "which is not understood" in str(result.errors[0].error)
    assert file.read_bytes() == before


def added(path: Path) -> list[Any]:
    try:
        return list(parquet_bloom.add(path, "id", replace=True))
    except ParquetBloomError as error:
        raise AssertionError(error) from error


@pytest.mark.parametrize("member", HEADER)
def test_a_filter_of_another_kind_is_not_used(file: Path, member: str) -> None:
    data = bytearray(file.read_bytes())
    for row in parquet_bloom.inspect(file):
        fields = Reader(bytes(data[row.offset :])).struct()
        other = [
            field._replace(value=renumbered(field.value)) if field.id == HEADER[member] else field for field in fields
        ]
        data[row.offset : row.offset + len(encode_struct(other))] = encode_struct(other)
    where = f"id = {ABSENT}"
    assert verdicts(file, where) == EXCLUDED
    file.write_bytes(data)
    assert verdicts(file, where) == KEPT
    assert all(row.problem for row in parquet_bloom.inspect(file))
    (row,) = parquet_bloom.erase(file, "id", [ID], dry_run=True).rows
    assert row.rows_erased == 1
    assert {note.partition(":")[0] for note in row.notes} == {
        f"the filters of column {name} are not kept" for name in ("id", "name", "amount")
    }


@pytest.mark.parametrize("verb", ["add", "drop"])
def test_fields_from_tomorrow_survive(file: Path, verb: str) -> None:
    data = edit_footer(file, MEMBERS["field of any struct"][0])
    count = footer_bytes(data).count(b"from tomorrow")
    assert count > 10
    rows = parquet_bloom.add(file, "id", replace=True) if verb == "add" else parquet_bloom.drop(file)
    assert [row.status for row in rows] == ["written"]
    new = file.read_bytes()
    assert new[: len(data)] == data
    assert footer_bytes(new).count(b"from tomorrow") == count


def test_the_page_has_all_of_them() -> None:
    page = (PAGES / "formats.md").read_text()
    table = page.split("## What is new in a footer")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| ([a-z ]+?) \|", table, re.MULTILINE)) - {"unknown"} == {*MEMBERS, *HEADER}
