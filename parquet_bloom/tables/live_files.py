"""The data files of a table, and why some cannot be used as others are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from parquet_bloom.errors import UnsupportedError, without_secrets
from parquet_bloom.format.schema import ColumnPath

Unproved = frozenset[tuple[str, str]]
"""Top-level columns of which nothing that is known of a file proves anything, each with why."""


@dataclass(frozen=True, slots=True)
class FileIndex:
    """Paimon's index of a data file: a container at `path`, or `data` itself, which the table's manifest held.

    `columns` are those that the file was written with and whose type is not nested, by their names in the file, and
    those types as Paimon's schemas write them. `problem` is why the container must not be read.
    """

    columns: dict[str, str]
    path: str | None = None
    data: bytes | None = field(default=None, repr=False)
    problem: str | None = None


ProblemKind = Literal["outside", "lost", "rows", "columns", "some rows"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file of a table cannot be used as others can, and what for.

    A file `outside` of the table's directory is never opened, nor is one that is `lost`: it is not there, or cut off.
    If its `rows` are not those that readers of the table see, it excludes none and they are not read from it. If its
    `columns` are not the table's as they are now, it excludes none either, but its rows can be read. If `some rows` are
    not the table's, what the file does not have is not in the table, but its rows are not read.
    """

    kind: ProblemKind
    reason: str
    error: type[Exception] = UnsupportedError

    @classmethod
    def of(cls, kind: ProblemKind, reason: str | None) -> Problem | None:
        """Return the problem that there is for this reason, if there is one."""
        return None if reason is None else cls(kind, reason)


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of a snapshot.

    `path` is what fsspec calls it, an absolute local path or a URL; `recorded` is how the table spells it, and tells
    it from every other file of the table. `num_rows` are the file's, those that a delete took included. `partition`
    holds the partition values that are columns' own values, as text, None for NULL. `unproved` are the top-level
    columns, under all names that they have had, of which nothing that is known of this file proves that a value is not
    there, each with why; of a file with a `problem` that may hold for all of them. `file_index` is what a Paimon table
    has of it. `directories` are folders, and columns that some readers take from them, while others take what the file
    has: (name, text). `later` are columns that the table got after the file was written: those that it lacks are NULL.

    For those who want the rows themselves, `unread` are the table's columns whose values the file does not tell, each
    with why. `own_names` are what the file calls the table's columns, None for one that it lacks, where the table tells
    that of each file.
    """

    path: str
    recorded: str
    size: int
    num_rows: int | None
    partition: dict[str, str | None] = field(default_factory=dict)
    has_deletes: bool = False
    problem: Problem | None = None
    unproved: Unproved = frozenset()
    directories: tuple[tuple[str, str], ...] = ()
    later: frozenset[ColumnPath] = frozenset()
    file_index: FileIndex | None = None
    unread: dict[str, str] = field(default_factory=dict)
    own_names: dict[str, str | None] | None = None

    @property
    def is_outside(self) -> bool:
        """Whether the file lies outside of the table's directory."""
        return self.problem is not None and self.problem.kind == "outside"

    @property
    def is_unread(self) -> bool:
        """Whether the file is not read at all."""
        return self.problem is not None and self.problem.kind in ("outside", "lost")

    @property
    def not_excluded(self) -> str | None:
        """Why nothing that is known of this file proves that rows of the table are not there, or None."""
        return self.problem.reason if self.problem is not None and self.problem.kind != "some rows" else None

    @property
    def unreadable(self) -> str | None:
        """Why its rows are not the table's even after deletes, or None."""
        return self.problem.reason if self.problem is not None and self.problem.kind != "columns" else None

    def error(self, *, is_named: bool = True) -> Exception:
        """Return the error of a file that is not read, for a call that must read every one."""
        error = UnsupportedError if self.problem is None else self.problem.error
        return error(without_secrets(f"{self.path}: {self.not_excluded}" if is_named else str(self.not_excluded)))
