"""What the rows of a table are in one of its files: where each column is, and which it does not tell rightly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import ColumnPath
from parquet_bloom.tables.live_files import LiveFile
from parquet_bloom.tables.placement import Unknown
from parquet_bloom.tables.snapshots import Snapshot

if TYPE_CHECKING:
    from parquet_bloom.tables.columns import TableColumn


@dataclass(frozen=True, slots=True)
class Stored:
    """The columns of a file of a table.

    `names` are the file's own names of the top-level columns that it stores, by the table's. `paths` are the leaves'
    paths, under the file's name at the top and the table's below it. `constants` are partition values as text.
    `unread` are top-level columns whose values it does not tell, each with why.
    """

    names: dict[str, str]
    paths: tuple[ColumnPath, ...]
    constants: dict[str, str | None]
    unread: dict[str, str]


def stored_columns(
    snapshot: Snapshot, file: LiveFile, footer: Footer, declared: Mapping[str, TableColumn] | None
) -> Stored:
    """Return where the columns of a table, as it has `declared` them, are in a file.

    `LiveFile.unreadable` is for the caller to look at.
    """
    placement = snapshot.naming.place(footer)
    aligned = placement.aligned if file.own_names is None else _by_own_names(file.own_names, footer)
    names = {path[0]: leaf.path[0] for path, leaf in zip(aligned, footer.leaves, strict=True) if path[0]}
    unread = dict(placement.unknown) | file.unread
    unread |= snapshot.naming.unread(file, footer)
    for name, own in (file.own_names or {}).items():
        if own is not None and name not in names:
            unread.setdefault(name, "the file does not have it, although its schema does")
    if declared is not None:
        names = {name: own for name, own in names.items() if name in declared}
    # Iceberg's files have their partition columns, so its constants are for files of other origin.
    constants = {name: text for name, text in file.partition.items() if snapshot.kind != "Iceberg" or name not in names}
    names = {name: own for name, own in names.items() if name not in constants}
    for name, column in (declared or {}).items():
        if name in names and column.needed_ids - placement.ids:
            unread.setdefault(name, "what is below it has a default that the file does not have")
        if name in names or name in constants:
            continue
        if column.why_needed:
            unread.setdefault(name, f"it lacks the column, and {column.why_needed}")
        place = placement.of((name,))
        if isinstance(place, Unknown) and file.own_names is None:
            unread.setdefault(name, place.reason)
    paths = tuple((leaf.path[0], *path[1:]) for path, leaf in zip(aligned, footer.leaves, strict=True))
    return Stored(names, paths, constants, unread)


def _by_own_names(own_names: Mapping[str, str | None], footer: Footer) -> tuple[ColumnPath, ...]:
    by_own = {own: name for name, own in own_names.items() if own is not None}
    return tuple((by_own.get(leaf.path[0], ""), *leaf.path[1:]) for leaf in footer.leaves)


__all__ = ["Stored", "stored_columns"]
