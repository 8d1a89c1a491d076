"""Which rows of Iceberg's data files are deleted, through pyiceberg: position deletes and deletion vectors.

pyiceberg does not read equality deletes. They apply to the data files that are older than they are, of their partition
or, without one, of the whole table; of these files it is not known which rows are deleted.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cached_property
from itertools import chain
from typing import Any

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.tables.iceberg_reading import CheckedIO
from parquet_bloom.tables.live_files import LiveFile

EQUALITY = "equality deletes apply to it, which pyiceberg does not read"


class Deletes:
    """The delete files of a snapshot `at` by the data file; `files` are None where equality deletes are among them."""

    def __init__(self, table: Any, at: Any, why_outside: Callable[[str], str | None]) -> None:
        self._table, self._at, self._why_outside = table, at, why_outside
        self.files: dict[str, set[Any]] | None = {}
        self._positions: dict[str, dict[str, list[Any]]] = {}

    def of(self, file: LiveFile) -> array[int]:
        """Return the numbers of a file's deleted rows; see `Snapshot.deleted_rows`."""
        if self.are_by_value(file):
            raise UnsupportedError(EQUALITY)
        files = self._besides_equality[0] if self.files is None else self.files
        found = (self._read(one).get(file.recorded, ()) for one in files.get(file.recorded, ()))
        parts = list(chain.from_iterable(found))
        if any(part.null_count for part in parts):
            raise CorruptFileError("a position in a file of deletes is NULL")
        return array("q", sorted(set(chain.from_iterable(part.to_pylist() for part in parts))))

    def are_by_value(self, file: LiveFile) -> bool:
        """Return whether equality deletes apply to a file."""
        return self.files is None and file.recorded in self._besides_equality[1]

    @cached_property
    def _besides_equality(self) -> tuple[dict[str, set[Any]], set[str]]:
        """Return the files of position deletes by the data file, and the data files that equality deletes apply to."""
        from pyiceberg.manifest import DataFileContent
        from pyiceberg.table import ManifestGroupPlanner
        from pyiceberg.transforms import VoidTransform

        io: Any = CheckedIO(self._table.io)
        manifests = self._at.manifests(io)
        entries = [entry for one in manifests for entry in one.fetch_manifest_entry(io, discard_deleted=True)]
        equality = [entry for entry in entries if entry.data_file.content == DataFileContent.EQUALITY_DELETES]
        is_global = {
            number
            for number, spec in self._table.specs().items()
            if all(isinstance(field.transform, VoidTransform) for field in spec.fields)  # a dropped one stays as void
        }
        affected = {
            entry.data_file.file_path
            for entry in entries
            if entry.data_file.content == DataFileContent.DATA
            and any(_applies(each, entry, is_global=each.data_file.spec_id in is_global) for each in equality)
        }
        planner = ManifestGroupPlanner(self._table.metadata, io)
        tasks = planner.plan_files(manifests, lambda entry: entry.data_file.content != DataFileContent.EQUALITY_DELETES)
        return {task.file.file_path: set(task.delete_files) for task in tasks if task.delete_files}, affected

    def _read(self, deletes: Any) -> dict[str, list[Any]]:
        """Return the positions in a file of deletes, by the data files' paths."""
        from pyiceberg.io.pyarrow import _read_deletes

        path = deletes.file_path
        if path not in self._positions:
            if outside := self._why_outside(path):
                raise UnsupportedError(f"the file of deletes {path} is not read: {outside}")
            if not deletes.record_count:
                return {}
            try:
                read = _read_deletes(self._table.io, deletes)
            except (ParquetBloomError, OSError, MemoryError):
                raise
            except Exception as error:  # pyiceberg has no error of its own for what it cannot read
                raise UnsupportedError(f"pyiceberg cannot read the file of deletes {path}: {error!r:.300}") from error
            self._positions[path] = {name: list(positions.chunks) for name, positions in read.items()}
        return self._positions[path]


def _applies(deletes: Any, entry: Any, *, is_global: bool) -> bool:
    """Return whether equality deletes apply to a data file, by their entries in manifests."""
    older = (entry.sequence_number or 0) < (deletes.sequence_number or 0)
    one, other = deletes.data_file, entry.data_file
    return older and (is_global or (one.spec_id == other.spec_id and one.partition == other.partition))
