"""Results that are made as they are taken: a stream of Arrow record batches, to be read once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from parquet_bloom.errors import UnsupportedError
from parquet_bloom.results import FailedFile

if TYPE_CHECKING:
    import pyarrow as pa

_Item = TypeVar("_Item")


class Stream:
    """Arrow record batches, made as they are taken. To read them again is an error, for they are not kept.

    `ROWS` is what its rows are called, `VERB` the call that returns it.
    """

    ROWS: ClassVar[str] = "rows"
    VERB: ClassVar[str] = ""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, errors: Collection[FailedFile]) -> None:
        self._batches, self._errors = batches, errors
        self.schema = schema
        self._is_read = self._is_complete = False

    def __repr__(self) -> str:
        state = "read already" if self._is_read else "not read yet"
        return f"<{type(self).__name__}: a stream of {', '.join(self.schema.names)}, {state}>"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._require_unread()
        return self._read(self._batches)

    def __bool__(self) -> bool:
        """Raise `TypeError`: whether there are rows is in them, and they can be read once only."""
        raise TypeError(f"{type(self).__name__} has no truth value; use .to_arrow() for its rows")

    def _read(self, items: Iterable[_Item]) -> Iterator[_Item]:
        self._require_unread()
        self._is_read = True
        yield from items
        self._is_complete = True

    def _require_unread(self) -> None:
        if self._is_read:
            raise UnsupportedError(
                f"the {self.ROWS} were read already and are not kept; keep what to_arrow() returns, or call "
                f"{self.VERB} again"
            )

    @property
    def errors(self) -> tuple[FailedFile, ...]:
        """The files that could not be read; known once all rows have been read."""
        if not self._is_complete:
            raise UnsupportedError(f"which files could not be read is known once all {self.ROWS} have been read")
        return tuple(self._errors)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream that Arrow's other libraries take."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_arrow(self) -> pa.Table:
        """Return all rows as one table."""
        return self.to_reader().read_all()

    def to_dataset(self) -> Any:
        """Return all rows as a pyarrow dataset in memory."""
        import pyarrow.dataset as ds

        return ds.dataset(self.to_arrow())
