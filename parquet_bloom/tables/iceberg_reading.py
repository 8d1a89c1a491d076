"""What pyiceberg reads of a table's metadata, checked before pyiceberg unpacks it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.tables.detect import ICEBERG_METADATA
from parquet_bloom.tables.unpacking import Room


class CheckedIO:
    """The part of a FileIO of pyiceberg's that reads metadata: each file is whole, and fits the room that there is."""

    def __init__(self, own: Any) -> None:
        self._own, self._room = own, Room()

    def new_input(self, location: str) -> Any:
        """Return a file that is checked when it is opened."""
        return _CheckedInput(self._own.new_input(location), self._room)


class _CheckedInput:
    def __init__(self, own: Any, room: Room) -> None:
        self._own, self._room, self.location = own, room, own.location

    def open(self, seekable: bool = True) -> io.BytesIO:
        with self._own.open(seekable=False) as file:
            data = file.read()
        if self.location.endswith(f".gz{ICEBERG_METADATA}"):
            self._room.gzip(data, self.location)
        elif not self.location.endswith(ICEBERG_METADATA):
            self._room.avro(data, self.location)
        return io.BytesIO(data)


@contextlib.contextmanager
def understood(root: str) -> Iterator[None]:
    """Turn what pyiceberg and its parsers raise for odd metadata into errors of ours."""
    try:
        yield
    except (ParquetBloomError, OSError, MemoryError):
        raise
    except NotImplementedError as error:
        raise UnsupportedError(f"pyiceberg cannot read {root}: {error}") from error
    except Exception as error:  # pyiceberg has no error of its own for what it cannot read
        raise CorruptFileError(f"its metadata cannot be understood: {error!r:.500}", path=root) from error
