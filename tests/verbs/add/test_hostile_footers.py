"""A footer with any one field missing or out of all reason is written rightly, or refused and left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from compact import I16, I32, I64, Field, Reader, changed, encode_struct, places
from files import SMALL, fixture, footer_bytes, with_footer

from parquet_bloom import add, drop, verify
from parquet_bloom.errors import ParquetBloomError

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
