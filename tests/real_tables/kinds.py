"""The kinds of tables, each a function that has its engine write one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from real_tables.asking import View
from real_tables.rows import Rows


@dataclasses.dataclass
class Made:
    """A table that an engine wrote: its states, newest first, a column to give filters, and how `add` is told of it."""

    views: list[View]
    column: str = "k"
    add: Callable[[], Any] | None = None
    verb: str = "add --table"
    """What the report calls `add`."""


@dataclasses.dataclass
class Bench:
    """What a kind is made with."""

    spark: Any
    work: Path
    rows: Rows
    name: str

    @property
    def path(self) -> str:
        return str(self.work / self.name)

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement.format(t=self.name, path=self.path))


Build = Callable[[Bench], Made]


def kinds() -> tuple[dict[str, Build], Callable[[str], Callable[[Build], Build]]]:
    """Return an empty table of kinds, and a decorator that enters one by what it is called in the report."""
    table: dict[str, Build] = {}

    def kind(title: str) -> Callable[[Build], Build]:
        def enter(build: Build) -> Build:
            table[title] = build
            return build

        return enter

    return table, kind
