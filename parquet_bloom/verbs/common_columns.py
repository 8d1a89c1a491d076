"""The columns that all files of a call have together, whatever each of them calls and stores."""

from __future__ import annotations

import contextlib
import re
from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    ParquetBloomError,
    UnsupportedError,
    describe_error,
)
from parquet_bloom.format.encryption import Decryption
from parquet_bloom.format.footer import Footer, Plan
from parquet_bloom.format.schema import (
    ColumnPath,
    LeafColumn,
    LogicalType,
    PhysicalType,
    format_path,
    parse_path,
)
from parquet_bloom.predicates.evaluation import BoundPredicate
from parquet_bloom.predicates.rows import Typed
from parquet_bloom.results import FailedFile
from parquet_bloom.storage.cache import footer_of
from parquet_bloom.storage.drive import Limits, RequestLog, drive, run
from parquet_bloom.storage.listing import Source
from parquet_bloom.tables.columns import is_widened
from parquet_bloom.tables.live_files import LiveFile
from parquet_bloom.tables.snapshots import Snapshot
from parquet_bloom.tables.stored import stored_columns
from parquet_bloom.verbs.declared import Declared
from parquet_bloom.verbs.opening import Opened
from parquet_bloom.verbs.prune import Schemas
from parquet_bloom.verbs.verdicts import partition_types

if TYPE_CHECKING:
    import pyarrow as pa

    from parquet_bloom.storage.rows import FileRows
    from parquet_bloom.tables.columns import TableColumn

EXPECTED = (ParquetBloomError, OSError)
"""What is wrong with one file, which does not end a call over many."""

POSITION = ("path", "row_group", "row")
"""The columns that say where a row is: its file, the row group's number there, and the row's number in the file."""


class Group(NamedTuple):
    """A row group that may hold rows; `bound` is the condition on its file, `keys` those that it may hold."""

    row_group: int
    bound: BoundPredicate | None = None
    keys: Sequence[int] | None = None


class Kept(NamedTuple):
    """A file that may hold rows; None for all of its row groups, or if its footer is not at hand."""

    source: Source
    groups: list[Group] | None
    footer: Footer | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A file that may hold rows: `names` maps what all files call a column to what this one calls it.

    `unread` are columns whose values it does not tell, each with why, `deleted` the numbers of its deleted rows.
    """

    source: Source
    footer: Footer
    rows: FileRows
    groups: list[Group]
    names: dict[str, str]
    constants: dict[str, str | None]
    unread: dict[str, str] = field(default_factory=dict)
    deleted: array[int] = field(default_factory=lambda: array("q"))


class Footers:
    """Footers of files, from the cache or read."""

    def __init__(
        self,
        opened: Opened,
        declared: Declared | None,
        decryption: Decryption | None,
        limits: Limits,
        log: RequestLog | None,
    ) -> None:
        self._opened, self._declared = opened, declared
        self._decryption, self._limits, self._log = decryption, limits, log
        self._of_schemas: dict[Hashable, FileRows] = {}

    def of(self, kept: list[Kept], failed: dict[str, FailedFile], *, strict: bool) -> Iterator[File]:
        """Yield files that may hold rows with their footers; a file that cannot be read is a failed one."""
        kept = [one for one in kept if self._is_readable(one.source, failed, strict=strict)]
        plans = ((one.source, self._footer(one)) for one in kept)
        for one, (source, outcome) in zip(kept, drive(plans, limits=self._limits, log=self._log), strict=True):
            try:
                if isinstance(outcome, Exception):
                    raise outcome
                yield self._file(source, outcome, one.groups)
            except EXPECTED as error:
                if strict:
                    raise
                failed[source.name] = FailedFile(source.name, describe_error(error))

    def _footer(self, one: Kept) -> Plan[Footer]:
        if one.footer is not None:
            return one.footer
        return (yield from footer_of(one.source, self._opened.cache, self._decryption))

    def _is_readable(self, source: Source, failed: dict[str, FailedFile], *, strict: bool) -> bool:
        table = self._opened.table
        if table is None or (reason := table.files[source].unreadable) is None:
            return True
        if strict:
            raise UnsupportedError(reason)
        failed[source.name] = FailedFile(source.name, reason)
        return False

    def seen(self, schemas: Schemas) -> list[File]:
        """Return a file of each schema that can be read, for its columns."""
        files = []
        for source, footer in schemas.values():
            with contextlib.suppress(*EXPECTED):
                files.append(self._file(source, footer, []))
        return files

    def any_of(self, sources: Sequence[Source]) -> list[File]:
        """Return one file that can be read, for its schema; none if there is no such file."""
        for source in sources:
            try:
                footer = run(source, footer_of(source, self._opened.cache, self._decryption), log=self._log)
                return [self._file(source, footer, [])]
            except EXPECTED:
                continue
        return []

    def _file(self, source: Source, footer: Footer, groups: list[Group] | None) -> File:
        from parquet_bloom.storage.rows import FileRows

        if groups is None:
            groups = [Group(number) for number, one in enumerate(footer.row_groups) if one.num_rows]
        if (table := self._opened.table) is None:
            rows = FileRows(source, footer)
            rows.share_schema(self._of_schemas)
            names = {name: name for name in rows.fields}
            return File(source, footer, rows, groups, names, _constants(source))
        live = table.files[source]
        columns = None if self._declared is None else self._declared.columns
        stored = stored_columns(table.snapshot, live, footer, columns)
        rows = FileRows(source, footer, stored.paths, instants=_in_nanoseconds(stored.names, columns or {}))
        rows.share_schema(self._of_schemas)
        deleted = deleted_rows(table.snapshot, live, footer) if groups else array("q")
        return File(source, footer, rows, groups, stored.names, stored.constants, stored.unread, deleted)


def _in_nanoseconds(names: Mapping[str, str], columns: Mapping[str, TableColumn]) -> dict[str, pa.DataType]:
    """Return the types of columns that a table declares in nanoseconds, by their names in a file."""
    import pyarrow as pa

    exact = (pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
    return {own: columns[name].type for name, own in names.items() if name in columns and columns[name].type in exact}


def deleted_rows(snapshot: Snapshot, file: LiveFile, footer: Footer) -> array[int]:
    """Return the numbers of a file's deleted rows."""
    deleted = snapshot.deleted_rows(file)
    num_rows = sum(one.num_rows for one in footer.row_groups)
    if deleted and not 0 <= deleted[0] <= deleted[-1] < num_rows:
        raise CorruptFileError(f"the table deletes row {deleted[-1]:,}, but the file has {num_rows:,} rows")
    return deleted


def _constants(source: Source) -> dict[str, str | None]:
    """Return the partition values of a file in its directories."""
    return {} if not source.partitions.directories else replace(source.partitions, perhaps=()).constants


class CommonColumns:
    """The columns that all files together have: of each a common type, and a leaf that says what literals mean."""

    def __init__(
        self,
        fields: dict[str, pa.DataType],
        leaves: Mapping[ColumnPath, LeafColumn],
        partitions: Mapping[str, pa.DataType],
        unsure: frozenset[str],
        declared: Declared | None = None,
        *,
        case_sensitive: bool,
    ) -> None:
        self.fields = fields
        self.partitions = partitions
        self._leaves, self._unsure = leaves, unsure
        self._declared = declared
        self._case_sensitive = case_sensitive

    @classmethod
    def of(
        cls, files: Sequence[File], opened: Opened, declared: Declared | None, *, case_sensitive: bool
    ) -> CommonColumns:
        """Return the columns that a table declares, or those of files that are read and the partitions of all."""
        import pyarrow as pa

        texts = [] if opened.table is not None else list(map(_constants, opened.sources))
        partitions = partition_types(texts)
        schemas: dict[tuple[Any, ...], pa.Schema] = {}
        leaves: dict[ColumnPath, LeafColumn] = {}
        for file in files:
            key = id(file.footer.leaves), tuple(file.names.items())
            if key in schemas:
                continue
            own = file.rows.schema
            schemas[key] = pa.schema([own.field(name).with_name(shown) for shown, name in file.names.items()])
            shown_as = {name: shown for shown, name in file.names.items()}
            of_file = {
                (shown, *file.rows.paths[leaf.index][1:]): leaf
                for leaf in file.footer.leaves
                if (shown := shown_as.get(leaf.path[0])) is not None
            }
            leaves |= {path: leaf for path, leaf in of_file.items() if path not in leaves or not _is_vague(leaf)}
            if declared is not None:
                declared.see(of_file)
        own_types = [one if declared is None else declared.undeclared(one) for one in schemas.values()]
        try:
            schema = pa.unify_schemas(own_types, promote_options="permissive") if own_types else pa.schema([])
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise UnsupportedError(
                f"the files' columns differ too much to be one table; give files of one schema: {error}"
            ) from error
        fields = {field.name: field.type for field in schema}
        if declared is not None:
            fields = declared.types(fields)
            return cls(fields, leaves | declared.typed, {}, frozenset(), declared, case_sensitive=case_sensitive)
        fields.update(partitions)
        unsure = frozenset(name for name, kind in partitions.items() if kind == pa.string() and _is_typed(texts, name))
        return cls(fields, leaves, partitions, unsure, case_sensitive=case_sensitive)

    def resolved(self, path: ColumnPath) -> ColumnPath:
        """Return a path of a condition as the files have it. Raises `ColumnNotFoundError`."""
        names = [name for name in self.fields if self._is_same(name, path[0])]
        if len(names) > 1:
            raise UnsupportedError(f"{format_path(path)} matches {len(names)} columns")
        if not names:
            raise ColumnNotFoundError(format_path(path), list(self.fields), where="the set of files")
        found = [names[0]]
        kind = self.fields[names[0]]
        for part in path[1:]:
            kind, name = self._below(kind, part, path)
            found.append(name)
        return tuple(found)

    def _below(self, kind: Any, part: str, path: ColumnPath) -> tuple[Any, str]:
        import pyarrow as pa

        if not pa.types.is_struct(kind):
            raise UnsupportedError(f"{format_path(path)} is in a list or a map, so a row has many values of it")
        names = [field.name for field in kind if self._is_same(field.name, part)]
        if len(names) != 1:
            raise ColumnNotFoundError(format_path(path), [field.name for field in kind], where="the set of files")
        return kind.field(names[0]).type, names[0]

    def _is_same(self, name: str, wanted: str) -> bool:
        return name == wanted if self._case_sensitive else name.casefold() == wanted.casefold()

    def typed(self, path: ColumnPath) -> Typed:
        """Return the type of a column of the condition."""
        name, *below = found = self.resolved(path)
        if name in self.partitions and not below:
            if name in self._unsure:
                raise UnsupportedError(f"engines may read the partitions of {name} as numbers or as text")
            return Typed(self.partitions[name], _leaf_of(name, self.partitions[name]))
        return Typed(self.type_of(found), self._leaves.get(found))

    def type_of(self, path: ColumnPath) -> Any:
        """Return the type of a column, by its resolved path."""
        kind = self.fields[path[0]]
        for part in path[1:]:
            kind = kind.field(part).type
        return kind

    def initial(self, name: str) -> pa.Scalar:
        """Return the value of a column in a file that lacks it."""
        import pyarrow as pa

        initial = self._declared.columns[name].initial if self._declared is not None else None
        return pa.scalar(None, self.fields[name]) if initial is None else initial

    def converted(self, name: str, column: Any) -> Any:
        """Return a column of a file as all files have it. Raises `UnsupportedError` where values would change."""
        import pyarrow as pa

        kind = self.fields[name]
        if column.type == kind:
            return column
        declared = None if self._declared is None else self._declared.columns[name]
        if declared is not None and not is_widened(column.type, kind, floats=not declared.floats_by_digits):
            raise UnsupportedError(f"column {name} is {column.type} in it, and {kind} in the table")
        try:
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UnsupportedError(f"column {name} cannot be converted to {kind}: {error}") from error

    def at(self, columns: Mapping[str, Any], path: ColumnPath) -> Any:
        """Return the column at a path of the condition, of top-level columns."""
        import pyarrow.compute as pc

        name, *below = self.resolved(path)
        column = columns[name]
        return pc.struct_field(column, below) if below else column

    def choose(self, columns: Iterable[str] | None, *, positions: bool) -> list[ColumnPath]:
        """Return the columns to return. Raises `ColumnNotFoundError` for others than these."""
        chosen: list[ColumnPath] = [(name,) for name in self.fields]
        if columns is not None:
            given = [columns] if isinstance(columns, str) else list(columns)
            chosen = [self.resolved(parse_path(name)) for name in given]
        names = [shown_name(path) for path in chosen]
        if positions and (taken := [name for name in POSITION if name in names]):
            raise UnsupportedError(f"the files have a column {taken[0]}, too; choose others by columns=")
        return chosen


def _is_vague(leaf: LeafColumn) -> bool:
    """Return whether a leaf says less of what literals mean than one of another file may."""
    logical = leaf.logical_type
    return logical is not None and (logical.is_proleptic or logical.name == "UNKNOWN")


def _is_typed(texts: Iterable[Mapping[str, str | None]], name: str) -> bool:
    """Return whether Spark would read all texts of a partition, which are not integers or dates, as another type."""
    values = [text for of_file in texts if (text := of_file.get(name)) is not None]
    return all(_NUMBER_OR_TIME.fullmatch(text.strip()) for text in values)


_NUMBER_OR_TIME = re.compile(r"[+-]?(?:\d.*|\.\d.*|nan|inf|infinity)", re.IGNORECASE)


def _leaf_of(name: str, kind: pa.DataType) -> LeafColumn:
    """Return a leaf whose literals mean the same as those of a partition."""
    import pyarrow as pa

    physical, logical = {
        pa.int64(): (PhysicalType.INT64, None),
        pa.date32(): (PhysicalType.INT32, LogicalType("DATE", is_proleptic=True)),
    }.get(kind, (PhysicalType.BYTE_ARRAY, LogicalType("STRING")))
    return LeafColumn((name,), 0, physical, None, logical, ())


def shown_name(path: ColumnPath) -> str:
    """Return what a column is called in the result."""
    return format_path(path) if len(path) > 1 else path[0]
