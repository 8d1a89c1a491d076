"""What the rows of a table are in one of its files: where each column is, and which it does not tell rightly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import ColumnPath, LeafColumn, Repetition, parse_path
from parquet_bloom.tables.snapshots import LiveFile, Snapshot

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

    Raises `UnsupportedError` where that is not known of any. `LiveFile.unreadable` is for the caller to look at.
    """
    shown, of_table = _paths(snapshot, file, footer)
    unread = dict(file.unread)
    complete, doubtful = _with_every_part(shown, footer.leaves, of_table)
    names = {path[0]: leaf.path[0] for path, leaf in zip(complete, footer.leaves, strict=True) if path[0]}
    for name in doubtful:
        unread.setdefault(name, "what is below it had other names or ids when the file was written")
    for name, own in (file.own_names or {}).items():
        if own is not None and name not in names:
            unread.setdefault(name, "the file does not have it, although its schema does")
    if declared is not None:
        names = {name: own for name, own in names.items() if name in declared}
    if snapshot.field_ids:
        unread |= _unread_by_id(footer, names, declared or {}, unread)
    # Iceberg's files have their partition columns, so its constants are for files of other origin.
    is_stored = names.keys() if snapshot.field_ids else frozenset()
    constants = {name: text for name, text in file.partition.items() if name not in is_stored}
    names = {name: own for name, own in names.items() if name not in constants}
    for name, column in (declared or {}).items():
        if column.why_needed and name not in names and name not in constants:
            unread.setdefault(name, f"it lacks the column, and {column.why_needed}")
    paths = tuple((leaf.path[0], *path[1:]) for path, leaf in zip(complete, footer.leaves, strict=True))
    return Stored(names, paths, constants, unread)


def _paths(
    snapshot: Snapshot, file: LiveFile, footer: Footer
) -> tuple[list[ColumnPath | None], set[ColumnPath] | None]:
    """Return the table's path of each leaf, None where it has none; and of all leaves that the table has, if known."""
    if file.own_names is not None:
        by_own = {own: name for name, own in file.own_names.items() if own is not None}
        named = [(by_own.get(leaf.path[0]), leaf.path[1:]) for leaf in footer.leaves]
        return [None if name is None else (name, *below) for name, below in named], None
    if snapshot.physical_names:
        by_path = {parse_path(physical): parse_path(name) for name, physical in snapshot.physical_names.items()}
        of_table = set(by_path.values())
        groups = {path[:end] for path in of_table for end in range(1, len(path))}
        return [by_path.get(_normal(leaf)) for leaf in footer.leaves], of_table - groups
    if snapshot.field_ids:
        if not any(each is not None for each in footer.field_ids) and snapshot.mapped_names is None:
            raise UnsupportedError("it has no field ids, and the table does not map names to them")
        leaves = zip(snapshot.leaves(footer), footer.leaves, strict=True)
        found = [shown.path if shown.path[0] else None for shown, _ in leaves]
        return found, set(map(parse_path, snapshot.field_ids))
    return [leaf.path if leaf.path[0] else None for leaf in snapshot.leaves(footer)], None


def _normal(leaf: LeafColumn) -> ColumnPath:
    """Return a leaf's path with the names of a list's nodes that Delta's schemas mean: some writers have others."""
    path = list(leaf.path)
    for depth, repetition in enumerate(leaf.nodes[:-1]):
        if repetition is Repetition.REPEATED and path[depth] == "list":
            path[depth + 1] = "element"
    return tuple(path)


def _with_every_part(
    shown: Sequence[ColumnPath | None], leaves: Sequence[LeafColumn], of_table: set[ColumnPath] | None
) -> tuple[list[ColumnPath], set[str]]:
    """Return the paths with a name for each node, one that the table has not where it has none.

    And the table's top-level columns of which it is not known where all parts are: the file has a whole group that the
    table has not, which may be one that it has, and lacks something. Or it nests lists in a way of its own.
    """
    known: dict[ColumnPath, ColumnPath] = {}
    doubtful: set[str] = set()
    for path, leaf in zip(shown, leaves, strict=True):
        if path is not None and len(path) == len(leaf.path):
            known |= {leaf.path[:end]: path[:end] for end in range(1, len(path) + 1)}
        elif path is not None:
            known.setdefault(leaf.path[:1], path[:1])
            doubtful.add(path[0])
    present = {path for path in shown if path}
    lacking = {path[0] for path in (of_table or set()) - present}
    complete = []
    for leaf in leaves:
        own = leaf.path
        end = max((end for end in range(1, len(own) + 1) if own[:end] in known), default=0)
        above = known[own[:end]] if end else ("",)
        if end and len(own) - end > 1 and above[0] in lacking:
            doubtful.add(above[0])
        complete.append((*above, *(f"\0{part}" for part in own[max(end, 1) :])))
    return complete, doubtful


def _unread_by_id(
    footer: Footer, names: Mapping[str, str], declared: Mapping[str, TableColumn], known: Mapping[str, str]
) -> dict[str, str]:
    """Return the columns of Iceberg that a file does not tell by its field ids, each with why, besides those known."""
    ids = footer.field_ids
    unread = {}
    shown_as = {own: name for name, own in names.items()}
    for leaf, field_id in zip(footer.leaves, ids, strict=True):
        name = shown_as.get(leaf.path[0])
        if name is not None and field_id is None and len(leaf.path) > 1:
            unread[name] = "what is below it has no field ids"
    groups = {element.field_id for element in footer.schema_elements if element.type is None}
    for name, column in declared.items():
        if name in names and column.needed_ids - set(ids):
            unread[name] = "what is below it has a default that the file does not have"
        if name not in names and column.field_id is not None and column.field_id in groups:
            unread[name] = "nothing that the table has below it is in the file"
    return {name: reason for name, reason in unread.items() if name not in known}
