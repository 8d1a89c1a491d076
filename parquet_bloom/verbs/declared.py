"""The columns that a table declares, as `find` returns them and compares them whatever its files hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parquet_bloom.format.schema import ColumnPath, LeafColumn, format_path
from parquet_bloom.predicates.binding import comparable_type, is_read_as_bytes
from parquet_bloom.storage.listing import Source
from parquet_bloom.storage.partitions import Partitions
from parquet_bloom.tables.placement import Columns
from parquet_bloom.tables.snapshots import TableFiles

if TYPE_CHECKING:
    import pyarrow as pa

    from parquet_bloom.tables.columns import TableColumn


class Declared:
    """The columns of a table, and how a reader sees them in files; see `predicates.binding.View`."""

    knows_types = True

    def __init__(self, table: TableFiles, columns: Mapping[str, TableColumn], only: ColumnPath | None = None) -> None:
        from parquet_bloom.storage.rows import leaves_of

        self.columns: dict[str, TableColumn] = dict(columns)
        self._table, self._only = table, only
        rules = table.snapshot.text_rules
        typed = {name: column.type for name, column in columns.items() if column.type is not None}
        self.typed: dict[ColumnPath, LeafColumn] = {
            leaf.path: replace(leaf, text_rule=rules.get(leaf.path[0])) for leaf in leaves_of(typed)
        }

    @classmethod
    def of(cls, table: TableFiles | None) -> Declared | None:
        """Return the columns of a table that declares them."""
        if table is None or table.snapshot.columns is None:
            return None
        return cls(table, {column.name: column for column in table.snapshot.columns()})

    def at(self, path: ColumnPath) -> Declared:
        """Return the same for one column, whatever files call it."""
        return Declared(self._table, self.columns, path)

    def partitions(self, source: Source) -> Partitions | None:
        """Return those of the table."""
        return self._table.partitions(source)

    def leaves(self, columns: Columns) -> tuple[LeafColumn, ...]:
        """Return a file's leaf columns under the table's names."""
        return self._table.snapshot.leaves(columns)

    def why_other(self, leaf: LeafColumn) -> str | None:
        """Return why comparing a file's values may have another result than comparing the table's, or None."""
        path = self._only or leaf.path
        own = self.typed.get(path)
        if own is None or comparable_type(own) == comparable_type(leaf):
            return None
        if is_read_as_bytes(own) and is_read_as_bytes(leaf):
            return None
        return f"{format_path(path)} is {own.type_name} in the table and {leaf.type_name} in the file"

    def see(self, leaves: Mapping[ColumnPath, LeafColumn]) -> None:
        """Take in what a file tells of the meaning of values, by the table's paths."""
        for path, leaf in leaves.items():
            if (own := self.typed.get(path)) is None:
                continue
            if leaf.text_rule and not own.text_rule:
                own = replace(own, text_rule=leaf.text_rule)
            if own.logical_type is not None and own.logical_type.is_proleptic:
                is_proleptic = leaf.logical_type is not None and leaf.logical_type.is_proleptic
                own = replace(own, logical_type=replace(own.logical_type, is_proleptic=is_proleptic))
            self.typed[path] = own

    def undeclared(self, schema: pa.Schema) -> pa.Schema:
        """Return those of a file's columns whose type the table does not tell."""
        import pyarrow as pa

        return pa.schema([field for field in schema if self.columns[field.name].type is None])

    def types(self, of_files: Mapping[str, Any]) -> dict[str, Any]:
        """Return the type of each column, in order; those that the table does not tell are the files'."""
        import pyarrow as pa

        return {
            name: column.type if column.type is not None else of_files.get(name, pa.null())
            for name, column in self.columns.items()
        }

    def may_have_values(self, source: Source, name: str) -> bool:
        """Return whether rows of a file that does not store a column may have values of it that are not NULL."""
        return self._table.snapshot.why_not_null(self._table.files[source], name) is not None
