"""What a Hudi table's columns are in one of its base files: which prove something there, and which have no known value.

A table has the schema that its newest write noted, and a file that of its own write. A column of a file proves
something only if it has the table's type there, or is an INT of a BIGINT: readers convert other types in ways of their
own (as a FLOAT, 16777217 is 16777216; as text, '9' is greater than '10').

A column that a file lacks is NULL in its rows only if the file's write, or a later one, noted a schema without it. In a
bootstrap table even that does not tell: rows lie in part in the files that the table was made from.

To some readers a partition column is the file's own, to others a part of its path: decoded or not, with or without
`name=`. So it excludes a file only where neither matches, and its value is known only where both are the same. For
that, the key generator (hudi_properties.py) and the type must be among those that are understood.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, ClassVar

from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import ColumnPath, LeafColumn, Repetition, format_path
from parquet_bloom.storage.partitions import NULL_NAME, may_be_typed
from parquet_bloom.tables.columns import TableColumn, of_hudi
from parquet_bloom.tables.hudi_properties import (
    BOOTSTRAP,
    DROPPED,
    HIVE_STYLE,
    is_true,
    partition_columns,
    why_no_values_in_paths,
)
from parquet_bloom.tables.live_files import LiveFile
from parquet_bloom.tables.placement import ByName, Placement
from parquet_bloom.values.encoding import encode_literal
from parquet_bloom.values.ordering import key_function
from parquet_bloom.values.statistics import StatisticsReader


@dataclass
class HudiColumns(ByName):
    """The columns of a table's newest schema, and where files have them.

    `paths` are those of all columns, down to the first list or map, and `leaves` those whose type is understood.
    `partitions` are the partition columns, each with why a path does not tell its values, or None. `later` has, for
    the instants of writes, ascending, the paths that the table got after each of them. `declared` are the columns as
    readers see them: those that are only in paths are texts, and other partition columns have no known type.
    """

    leaves: dict[ColumnPath, LeafColumn]
    paths: frozenset[ColumnPath]
    partitions: dict[str, str | None]
    later: tuple[tuple[str, frozenset[ColumnPath]], ...]
    declared: tuple[TableColumn, ...]
    is_hive_style: bool = False
    are_dropped: bool = False
    is_bootstrap: bool = False
    hidden: frozenset[str] = frozenset()

    retypes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__init__(self.hidden)

    @classmethod
    def of(
        cls,
        newest: str,
        schemas: Mapping[str, str],
        meta_columns: Sequence[str],
        settings: Mapping[str, str],
        hidden: frozenset[str] = frozenset(),
    ) -> HudiColumns:
        """Return those of the `newest` schema; `schemas` are what writes noted, by their instants, ascending.

        Raises what is wrong with a schema, such as `ValueError` or `LookupError`.
        """
        import pyarrow as pa

        from parquet_bloom.storage.rows import leaves_of

        columns = of_hudi(json.loads(newest), meta_columns)
        names = {column.name.casefold(): column.name for column in columns}
        typed = {column.name: column.type for column in columns if column.type is not None}
        leaves = {leaf.path: leaf for leaf in leaves_of(typed)}
        dropped = is_true(settings, DROPPED)
        reason = why_no_values_in_paths(settings)
        partitions = {}
        for name in partition_columns(settings):
            known = names.get(name.casefold()) or names.get(name.partition(".")[0].casefold())  # some are nested
            is_in_paths_alone = dropped and known is None
            partitions[known or name] = reason or (
                None if is_in_paths_alone else _why_of_other_type(leaves.get((known or name,)))
            )
        fields = {path: is_null for path, is_null in _paths(newest) if not (dropped and path[0] in partitions)}
        is_bootstrap = bool(settings.get(BOOTSTRAP))
        return cls(
            leaves,
            frozenset((*fields, *((name,) for name in meta_columns))),
            partitions,
            () if is_bootstrap else _later(schemas, {path for path, is_null in fields.items() if is_null}),
            (
                *(replace(column, type=None) if partitions.get(column.name) else column for column in columns),
                *(TableColumn(name, pa.string()) for name in partitions if dropped and name.casefold() not in names),
            ),
            is_true(settings, HIVE_STYLE),
            dropped,
            is_bootstrap,
            hidden,
        )

    @property
    def no_dataset(self) -> str | None:
        """Return why the files' own rows and columns are not the table's, or None."""
        return "columns may be in the files that the table was made from" if self.is_bootstrap else None

    # ---- whatever file it is -----------------------------------------------------------------

    def _placed(self, leaves: Sequence[LeafColumn], ids: Sequence[Sequence[int | None]]) -> Placement:
        names = {path[0] for path in self.paths}
        doubtful: dict[str, str] = {}
        for leaf in leaves:
            if leaf.path[0] in names and (reason := self._why_other_type(leaf)):
                doubtful.setdefault(leaf.path[0], reason)
        for path in self._lacking(leaves):
            doubtful.setdefault(path[0], f"the file does not store {format_path(path)}")
        return replace(super()._placed(leaves, ids), doubtful=frozenset(doubtful.items()))

    def _why_other_type(self, leaf: LeafColumn) -> str | None:
        own = self.leaves.get(leaf.path)
        if own is None:
            return f"the table's type of {leaf.name} is not understood"
        if _is_same_type(own, leaf):
            return None
        return f"{leaf.name} is {own.type_name} in the table and {leaf.type_name} in the file"

    def _lacking(self, leaves: Sequence[LeafColumn]) -> frozenset[ColumnPath]:
        paths = [_path_to_list(leaf) for leaf in leaves]
        return self.paths - {path[:end] for path in paths for end in range(1, len(path) + 1)}

    # ---- of one file -------------------------------------------------------------------------

    def placed(self, file: LiveFile, partition: str, instant: str) -> LiveFile:
        """Return a file with what its partition's path and its write's instant tell of its columns."""
        folders = partition.split("/")
        directories: list[tuple[str, str]] = []
        unproved = set(file.unproved)
        for number, (name, reason) in enumerate(self.partitions.items()):
            why = reason or (None if len(folders) == len(self.partitions) else f"{partition!r:.60} tells no one value")
            if why:
                unproved.add((name, f"readers may take other values of {name} from the file's path: {why}"))
            else:
                directories += [(name, text) for text in self._texts(name, folders[number])]
        constants: dict[str, str | None] = {
            name: text for name in self.partitions if (text := _only_text(name, directories)) and not may_be_typed(text)
        }
        at = bisect_left(self.later, instant, key=lambda one: one[0])
        return replace(
            file,
            unproved=frozenset(unproved),
            directories=tuple(directories),
            partition=constants if self.are_dropped else {},
            later=self.later[at][1] if at < len(self.later) else frozenset(),
        )

    def _texts(self, name: str, folder: str) -> dict[str, None]:
        """Return what readers may take for a column's value in a folder, still encoded."""
        value = folder.partition("=")[2] if "=" in folder else folder
        is_named = self.is_hive_style and folder.casefold().startswith(f"{name}=".casefold())
        return dict.fromkeys((value,) if is_named else (folder, value))

    def unread(self, file: LiveFile, footer: Footer) -> dict[str, str]:
        """Return the columns whose values a file does not tell, each with why."""
        unread = {
            path[0]: f"the file does not store {format_path(path)}, and nothing shows that the table got it later"
            for path in self._lacking(footer.leaves) - file.later
        }
        of_paths = dict(file.unproved)
        for name in self.partitions.keys() - file.partition.keys():
            if why := of_paths.get(name) or self._why_unlike_path(name, file, footer):
                unread[name] = why
        return unread

    def _why_unlike_path(self, name: str, file: LiveFile, footer: Footer) -> str | None:
        """Return why a file's own values of a partition column may not be those that its path tells."""
        leaf = next((leaf for leaf in footer.leaves if leaf.path == (name,)), None)
        text, own = _only_text(name, file.directories), self.leaves.get((name,))
        value = None if text is None or own is None else _value(text, own)
        key = None if leaf is None else key_function(leaf)
        if value is None or leaf is None or key is None or self._why_other_type(leaf):
            return f"readers may take other values of {name} from the file's path"
        keys = [key(plain) for plain in encode_literal(leaf, value).plain]
        reader = StatisticsReader(leaf)
        for number, group in enumerate(footer.row_groups):
            known = None if footer.chunk_problem(number, leaf) else reader.read(footer, number)
            is_same = known is not None and known.null_count == 0 and [known.low] == [known.high] == keys
            if group.num_rows and not is_same:
                return f"the file's own values of {name} are not known to be {text}, as its path says"
        return None


_PARTITION_TYPES: dict[str, Callable[[str], Any]] = {
    "BYTE_ARRAY STRING": str,
    "INT32": int,
    "INT64": int,
    "INT32 DATE": date.fromisoformat,
}
"""The types of partition columns whose values a path tells, each with what makes a value of its text."""

_NULLS = ("", "default", "null", NULL_NAME.lower())
"""The folders that are, or once were, written for NULL."""


def _why_of_other_type(leaf: LeafColumn | None) -> str | None:
    if leaf is not None and leaf.type_name in _PARTITION_TYPES:
        return None
    return "its type is not one whose values are understood there"


def _only_text(name: str, directories: Iterable[tuple[str, str]]) -> str | None:
    """Return the value that a path tells if all readers take it for the same text, and not for NULL."""
    texts = [text for of, text in directories if of == name]
    if len(texts) != 1 or "=" in texts[0] or "%" in texts[0] or texts[0].lower() in _NULLS:
        return None
    return texts[0]


def _value(text: str, leaf: LeafColumn) -> Any:
    """Return the value that is written as this text, or None."""
    try:
        value = _PARTITION_TYPES[leaf.type_name](text)
    except (ValueError, KeyError):
        return None
    return value if str(value) == text else None


# ---- types, and what a schema has ------------------------------------------------------------


def _is_same_type(own: LeafColumn, leaf: LeafColumn) -> bool:
    """Return whether a file's column has the table's own type, or is an INT of a BIGINT."""
    if _plain_type(own) == _plain_type(leaf):
        return True
    return (_plain_type(own), _plain_type(leaf)) == ("INT64", "INT32")


def _plain_type(leaf: LeafColumn) -> str:
    """Return a type's name without what does not affect values: how wide an integer is said to be, or a decimal is."""
    logical = leaf.logical_type
    if logical is not None and logical.name == "DECIMAL":
        return str(logical)
    if logical is not None and logical.name == "INTEGER" and logical.is_signed:
        return leaf.physical_type.name
    return leaf.type_name


def _path_to_list(leaf: LeafColumn) -> ColumnPath:
    """Return a leaf's path down to the first list or map."""
    end = leaf.nodes.index(Repetition.REPEATED) if leaf.is_repeated else len(leaf.path)
    return leaf.path[: max(end, 1)]


def _paths(schema: str) -> Iterator[tuple[ColumnPath, bool]]:
    """Yield the paths of an Avro schema, down to the first list or map, each with whether it is NULL by default."""
    waiting: list[tuple[ColumnPath, Any, bool]] = [((), json.loads(schema), True)]
    while waiting:
        above, kind, is_null = waiting.pop()
        if isinstance(kind, list):
            others = [one for one in kind if one != "null"]
            kind = others[0] if len(others) == 1 else None
        while isinstance(kind, dict) and isinstance(kind.get("type"), dict):
            kind = kind["type"]
        if isinstance(kind, dict) and kind.get("type") == "record":
            fields = kind["fields"]
            waiting += [((*above, f["name"]), f["type"], is_null and f.get("default") is None) for f in fields]
        else:
            yield above, is_null


def _later(schemas: Mapping[str, str], nullable: Iterable[ColumnPath]) -> tuple[tuple[str, frozenset[ColumnPath]], ...]:
    """Return the paths that each write or one after it did not note, by instant."""
    known = {text: frozenset(path for path, _ in _paths(text)) for text in set(schemas.values())}
    later: frozenset[ColumnPath] = frozenset()
    found = []
    for instant, text in sorted(schemas.items(), reverse=True):
        later |= frozenset(nullable) - known[text]
        found.append((instant, later))
    return tuple(reversed(found))
