"""Keys to look up: from a list, an Arrow array, or a file; and candidates, written to a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import ColumnNotFoundError, LiteralError
from parquet_bloom.values import normalize_literal

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys as literals, and `shown` as one Arrow array, which holds the same values if `is_exact`, or their text.

    `are_text` says that the literals are text which the column's type is to parse.
    """

    shown: pa.Array
    literals: Sequence[object]
    is_exact: bool = True
    are_text: bool = False

    def __len__(self) -> int:
        return len(self.shown)


def read_keys(keys: Any, column: str) -> Keys:
    """Return the keys of a list, an Arrow or NumPy array, a pandas Series, or a file.

    Of a table, a Parquet or a CSV file the column named `column` is taken, or its only one; any other file has a key a
    line.
    """
    import pyarrow as pa

    if isinstance(keys, str | os.PathLike):
        return _read_file(Path(keys), column)
    if isinstance(keys, pa.Table | pa.RecordBatch):
        keys = _only(keys, column, "the table of keys")
    elif not isinstance(keys, pa.Array | pa.ChunkedArray):
        if str(getattr(keys, "dtype", "object")) == "object":
            return _of_values(list(keys))
        keys = pa.array(keys, from_pandas=False)  # NaN is a key, not a NULL
    return _of_arrow(keys)


def _of_arrow(array: pa.Array | pa.ChunkedArray) -> Keys:
    import pyarrow as pa

    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    return Keys(whole, whole)


def _of_values(values: list[Any]) -> Keys:
    """Return Python values as they are; Arrow would make dates of datetimes, and drop nanoseconds and zones."""
    import pyarrow as pa

    try:
        shown = pa.array(values)
        is_equal = all(map(_is_shown_by, values, shown.to_pylist()))
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        is_equal = False
    if not is_equal:
        shown = pa.array([None if is_null(value) else _text(value) for value in values], pa.string())
    return Keys(shown, values, is_equal)


def _is_shown_by(value: Any, shown: Any) -> bool:
    if shown is None:
        return is_null(value)
    if hasattr(value, "as_py"):
        value = value.as_py()
    return bool(value == shown or (value != value and shown != shown))


def _text(value: Any) -> str:
    return str(value).encode(errors="replace").decode()


def is_null(literal: object) -> bool:
    """Return whether a literal is NULL, which equals nothing, whatever wrote it."""
    return isinstance(normalize_literal(literal), type(normalize_literal(None)))


# ---- files -------------------------------------------------------------------------------


def _read_file(path: Path, column: str) -> Keys:
    if path.suffix.lower() == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            return _of_arrow(_only(file.read(), column, str(path)))
    import pyarrow as pa

    try:
        if path.suffix.lower() == ".csv":
            return _texts(_read_csv(path, column))
        # Only line feeds end a line: text may hold what else Unicode calls a line's end.
        lines = (line.removesuffix("\r") for line in path.read_bytes().decode("utf-8-sig").split("\n"))
        return _texts(pa.array([line for line in lines if line], pa.string()))
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        raise LiteralError(f"{path} is no file of keys: {error}") from error


def _texts(shown: pa.Array) -> Keys:
    return Keys(shown, shown.to_pylist(), are_text=True)


def _read_csv(path: Path, column: str) -> pa.Array:
    import pyarrow as pa
    from pyarrow import csv

    # Everything is text: 007 is not 7, and NA not NULL, before the column has said so.
    parse = csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(path, parse_options=parse) as opened:
        types = dict.fromkeys(opened.schema.names, pa.string())
    text = csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    table = csv.read_csv(path, parse_options=parse, convert_options=text)
    return pa.concat_arrays(_only(table, column, str(path)).chunks or [pa.array([], pa.string())])


def _only(table: Any, column: str, where: str) -> Any:
    if column in table.schema.names:
        return table.column(column)
    if table.num_columns == 1:
        return table.column(0)
    raise ColumnNotFoundError(column, table.schema.names, where=where)


def write_candidates(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str) -> int:
    """Write candidates to a new Parquet file, batch by batch; return how many there are. Nothing is left on failure."""
    from pyarrow import parquet

    target = Path(path)
    rows = 0
    with target.open("xb") as file:
        try:
            with parquet.ParquetWriter(file, schema) as writer:
                for batch in batches:
                    rows += batch.num_rows - batch.column("path").null_count
                    writer.write_batch(batch)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
    return rows
