"""Keys as the caller gives them: from a list, an array or a table of any library, or a file."""

from __future__ import annotations

import logging
import os
import uuid
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import ColumnNotFoundError, LiteralError
from parquet_bloom.format.schema import parse_path
from parquet_bloom.values.encoding import literal_text
from parquet_bloom.values.interchange import plain_values, values_of
from parquet_bloom.values.literals import DecimalLiteral, FloatLiteral, Null, normalize_literal
from parquet_bloom.values.stored_keys import Keys, is_null

if TYPE_CHECKING:
    import pyarrow as pa

LOG = logging.getLogger("parquet_bloom")


def read_keys(keys: Any, column: str) -> Keys:
    """Return the keys of a container, as `values_of` reads it, or of the file that a `Path` names.

    Of what has columns the one named `column` is taken, or its only one; so of a Parquet, CSV or TSV file. Any other
    file has a key a line. Raises `TypeError` for anything else: text is neither a path nor keys.
    """
    if isinstance(keys, Keys):
        return keys
    if isinstance(keys, os.PathLike):
        read = _read_file(Path(keys), column)
        if not len(read):
            LOG.warning("%s has no keys", keys)
        return read
    values = values_of(keys, column)
    return _of_values(values) if isinstance(values, list) else Keys(values, values)


def _of_values(values: list[Any]) -> Keys:
    """Return Python values as they are; Arrow would make dates of datetimes, and drop nanoseconds and zones."""
    import pyarrow as pa

    try:
        shown = pa.array(values)
        listed = shown.to_pylist()
        is_equal = _are_equal(values, listed)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        is_equal = False
    if not is_equal:
        shown = pa.array([None if is_null(value) else _text(value) for value in values], pa.string())
    return Keys(shown, values, is_equal)


def _are_equal(values: list[Any], shown: list[Any]) -> bool:
    """Return whether Arrow kept the values. NumPy's own == would say so of 2^60+1 and the nearest float."""
    kinds = set(map(type, values))
    are_local = datetime not in kinds or not any(getattr(value, "tzinfo", None) for value in values)
    if kinds <= _COMPARED_EXACTLY and are_local and values == shown:
        return True
    return all(_meaning(value) == _meaning(one) for value, one in zip(values, shown, strict=True))


_COMPARED_EXACTLY = {type(None), int, float, str, bytes, Decimal, date, datetime, uuid.UUID}


def _meaning(value: Any) -> object:
    literal = normalize_literal(value)
    if literal is None:
        return object()  # which equals nothing
    if isinstance(literal, Null):
        return Null
    if isinstance(literal, FloatLiteral | DecimalLiteral):
        return literal.value if literal.value == literal.value else FloatLiteral
    return (literal,) if isinstance(literal, bool) else literal  # True is not 1


def _text(value: Any) -> str:
    return literal_text(value).encode(errors="replace").decode()


def require_no_null(keys: Keys) -> None:
    """Raise `LiteralError` if one of the keys is NULL."""
    if keys.shown.null_count or any(map(is_null, () if keys.literals is keys.shown else keys.literals)):
        raise LiteralError("one of the keys is NULL, which equals no value; leave it out")


# ---- files -------------------------------------------------------------------------------


_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def _read_file(path: Path, column: str) -> Keys:
    import pyarrow as pa

    try:
        if path.suffix.lower() in (".parquet", ".parq", ".pq"):
            values = plain_values(_read_parquet(path, column))
            return Keys(values, values)
        if path.suffix.lower() in _SEPARATORS:
            return _texts(_read_csv(path, column))
        # Only line feeds end a line: text may hold what else Unicode calls a line's end.
        lines = (line.removesuffix("\r") for line in path.read_bytes().decode("utf-8-sig").split("\n"))
        return _texts(pa.array([line for line in lines if line], pa.string()))
    except (UnicodeDecodeError, pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(
                f"{path}: no such file of keys; it has one key per line, or is Parquet, CSV or TSV"
            ) from error
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system; Arrow's own, of damaged files, have no number
        raise LiteralError(f"{path} cannot be read as keys: {error}") from error


def _texts(shown: pa.Array) -> Keys:
    return Keys(shown, shown.to_pylist(), are_text=True)


def _read_parquet(path: Path, column: str) -> pa.ChunkedArray:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        number = _number_of(column, file.schema_arrow.names, path)
        leaves = [file.schema.column(leaf) for leaf in range(len(file.schema))]
        values = file.read().column(number)
    if (file.schema_arrow.names[number], "INT96") not in ((leaf.path, leaf.physical_type) for leaf in leaves):
        return values
    with parquet.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        return _of_int96(values, file.read().column(number))


def _of_int96(nanoseconds: pa.ChunkedArray, microseconds: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the instants that pyarrow has read twice: beyond 2262 the first are others, and the second are cut."""
    import pyarrow as pa
    import pyarrow.compute as pc

    as_nanoseconds = pc.multiply(microseconds.cast(pa.int64()), 1000)  # overflows in the same way
    if pc.all(pc.equal(nanoseconds.cast(pa.int64()), as_nanoseconds)).as_py() is not False:
        return microseconds
    microseconds.cast(nanoseconds.type)  # raises if one is beyond
    return nanoseconds


def _read_csv(path: Path, column: str) -> pa.Array:
    import pyarrow as pa
    from pyarrow import csv

    # Everything is text: 007 is not 7, and NA not NULL, before the column has said so.
    ending = path.suffix.lower()
    parse = csv.ParseOptions(delimiter=_SEPARATORS[ending], newlines_in_values=True)
    with csv.open_csv(path, parse_options=parse) as opened:
        types = dict.fromkeys(opened.schema.names, pa.string())
    text = csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    table = csv.read_csv(path, parse_options=parse, convert_options=text)
    names = {column.casefold(), parse_path(column)[-1].casefold()}
    if table.num_columns == 1 and (first := table.schema.names[0]).casefold() not in names:  # it may be a key
        raise LiteralError(
            f"{path} begins with {first!r}, and not with the name of the column; write {column} as its first line, or "
            f"give text with one key per line in a file that does not end in {ending}"
        )
    chunks = table.column(_number_of(column, table.schema.names, path)).chunks
    return pa.concat_arrays(chunks or [pa.array([], pa.string())])


def _number_of(column: str, names: list[str], path: Path) -> int:
    if names.count(column) == 1:
        return names.index(column)
    if len(names) == 1:
        return 0
    raise ColumnNotFoundError(column, names, where=str(path))
