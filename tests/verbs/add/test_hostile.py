"""A footer with any one field missing or out of all reason is written rightly, or refused and left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compact import I16, I32, I64, LIST, STRUCT, Field, Items, Reader, encode_struct
from files import SMALL, fixture, footer_bytes, with_footer

from parquet_bloom import add, drop, verify
from parquet_bloom.errors import ParquetBloomError

Path_ = tuple[int, ...]


def places(fields: list[Field], above: Path_ = ()) -> Iterator[tuple[Path_, Field]]:
    """Yields the path of every field: its id, and the position where it is in a list; of lists, the first elements."""
    for field in fields:
        yield (*above, field.id), field
        if field.kind == STRUCT:
            yield from places(field.value, (*above, field.id))
        elif field.kind == LIST and field.value.kind == STRUCT:
            for index, element in enumerate(field.value.values[: 1 if above else 2]):
                yield from places(element, (*above, field.id, index))


def changed(fields: list[Field], path: Path_, value: int | None) -> list[Field]:
    """Returns the struct with the integer at `path` exchanged, or with that field left out."""
    head, *rest = path
    out = []
    for field in fields:
        if field.id != head:
            out.append(field)
        elif not rest:
            out += [] if value is None else [field._replace(value=value)]
        elif field.kind == STRUCT:
            out.append(field._replace(value=changed(field.value, tuple(rest), value)))
        else:
            elements = list(field.value.values)
            elements[rest[0]] = changed(elements[rest[0]], tuple(rest[1:]), value)
            out.append(field._replace(value=Items(STRUCT, elements)))
    return out


OLD = fixture(SMALL)
TREE = Reader(footer_bytes(OLD)).struct()
ALL = list(places(TREE))
INTEGERS = [path for path, field in ALL if field.kind in (I16, I32, I64)]
VALUES = [-1, 0, 2**31 - 1, 2**63 - 1]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None, raising=False)


def check(file: Path, footer: list[Field]) -> None:
    data = with_footer(OLD, encode_struct(footer))
    for verb in (
        lambda: add(file, ["id", "name", "amount"], replace=True, jobs=1),
        lambda: add(file, ["id", "name"], replace=True, dry_run=True),
        lambda: drop(file),
        lambda: drop(file, restore=True),
        lambda: verify(file, jobs=1),
    ):
        file.write_bytes(data)
        try:
            (row,) = getattr(result := verb(), "files", None) or result.rows
        except ParquetBloomError:
            row = None
        new = file.read_bytes()
        assert new[: len(data)] == data
        if row is None or row.error:
            assert new == data


def test_the_tree_is_the_footer() -> None:
    assert encode_struct(TREE) == footer_bytes(OLD)
    assert len(ALL) > 50


def test_any_field_can_be_missing(tmp_path: Path) -> None:
    for path, _ in ALL:
        check(tmp_path / "x.parquet", changed(TREE, path, None))


@pytest.mark.parametrize("value", VALUES)
def test_any_integer_can_be_anything(tmp_path: Path, value: int) -> None:
    for path in INTEGERS:
        check(tmp_path / "x.parquet", changed(TREE, path, value))
