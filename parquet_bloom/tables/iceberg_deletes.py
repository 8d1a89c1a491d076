"""Which rows of Iceberg's data files are deleted, through pyiceberg: position deletes and deletion vectors."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import chain
from typing import Any

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.tables.snapshots import LiveFile

EQUALITY = "equality deletes may apply to it, which pyiceberg does not read"


class Deletes:
    """The delete files of a snapshot, by the data file; None where equality deletes are among them."""

    def __init__(self, io: Any, why_outside: Callable[[str], str | None]) -> None:
        self._io, self._why_outside = io, why_outside
        self.files: dict[str, set[Any]] | None = {}
        self._positions: dict[str, dict[str, list[Any]]] = {}

    def of(self, file: LiveFile) -> array[int]:
        """Return the numbers of a file's deleted rows; see `Snapshot.deleted_rows`."""
        if self.files is None:
            raise UnsupportedError(EQUALITY)
        parts = [chunk for one in self.files[file.recorded] for chunk in self._read(one).get(file.recorded, ())]
        if any(part.null_count for part in parts):
            raise CorruptFileError("a position in a file of deletes is NULL")
        return array("q", sorted(set(chain.from_iterable(part.to_pylist() for part in parts))))

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
                read = _read_deletes(self._io, deletes)
            except (ParquetBloomError, OSError, MemoryError):
                raise
            except Exception as error:  # pyiceberg has no error of its own for what it cannot read
                raise UnsupportedError(f"pyiceberg cannot read the file of deletes {path}: {error!r:.300}") from error
            self._positions[path] = {name: list(positions.chunks) for name, positions in read.items()}
        return self._positions[path]
