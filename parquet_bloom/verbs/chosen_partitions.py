"""The files of a table that a condition on its partition columns chooses, for verbs that write to the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.format.schema import ColumnPath, format_path
from parquet_bloom.predicates.parsing import to_predicate
from parquet_bloom.predicates.rows import RowFilter, Typed, row_filter
from parquet_bloom.predicates.tree import normalized
from parquet_bloom.tables.columns import constant
from parquet_bloom.tables.live_files import LiveFile
from parquet_bloom.tables.snapshots import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa


class ChosenPartitions:
    """A condition on partition columns. It is true of all rows of a file, or the file is left alone."""

    def __init__(self, where: Any, snapshot: Snapshot, timezone: str | None = None) -> None:
        """Raise `UnsupportedError` for a condition on other columns, or one that cannot be evaluated exactly."""
        self._types = _partition_types(snapshot)
        self._root, self._rules = snapshot.root, snapshot.text_rules
        self._filter: RowFilter = row_filter(normalized(to_predicate(where)), self._typed, timezone=timezone)
        self._answers: dict[tuple[str | None, ...], bool] = {}

    def _typed(self, path: ColumnPath) -> Typed:
        from parquet_bloom.storage.rows import leaves_of

        name = format_path(path)
        if len(path) > 1 or path[0] not in self._types:
            known = ", ".join(self._types) or "none"
            raise UnsupportedError(
                f"{name} is not a partition column of {self._root}, and where= chooses whole files, by their partition "
                f"columns alone; the table has {known}"
            )
        kind = self._types[path[0]]
        (leaf,) = leaves_of({path[0]: kind})
        return Typed(kind, replace(leaf, text_rule=self._rules.get(path[0])))

    def holds(self, file: LiveFile) -> bool:
        """Return whether the condition is true of a file's rows; raises `UnsupportedError` where that is not known."""
        import pyarrow as pa

        names = [path[0] for path in self._filter.paths]
        for name in names:
            if name not in file.partition or name in file.unread:
                reason = file.unread.get(name, "the table does not record it for this file")
                raise UnsupportedError(f"the partition value of {name} is not known: {reason}")
        values = tuple(file.partition[name] for name in names)
        if values not in self._answers:
            scalars = [constant(name, text, self._types[name]) for name, text in zip(names, values, strict=True)]
            columns: dict[ColumnPath, Any] = {
                (name,): pa.repeat(one, 1) for name, one in zip(names, scalars, strict=True)
            }
            mask = self._filter.mask(columns or {(): pa.nulls(1)})
            self._answers[values] = mask[0].as_py()
        return self._answers[values]

    def split(self, snapshot: Snapshot) -> tuple[Snapshot, list[tuple[LiveFile, UnsupportedError]]]:
        """Return the snapshot with the chosen files alone, and those of which it is not known whether they are."""
        chosen, unknown = [], []
        for file in snapshot.files:
            try:
                if self.holds(file):
                    chosen.append(file)
            except UnsupportedError as error:
                unknown.append((file, error))
        return replace(snapshot, files=tuple(chosen)), unknown


def _partition_types(snapshot: Snapshot) -> dict[str, pa.DataType]:
    """Return the types of a table's partition columns, as far as the table declares them."""
    names = {name for file in snapshot.files for name in file.partition}
    columns = snapshot.columns() if snapshot.columns is not None else ()
    return {one.name: one.type for one in columns if one.name in names and one.type is not None}


__all__ = ["ChosenPartitions"]
