"""Values out of any container, each exactly as it is there: Arrow's, Polars', pandas', DuckDB's, NumPy's and Python's.

What offers its data as Arrow is read as Arrow: Python's own types have no nanoseconds. An export that changes values is
not used: pandas exports NaN as NULL, Polars Python objects as their addresses, and DuckDB 2^128-1 as -1. The types of
Arrow that are understood are listed in `_is_known`; a value of another type is an error that names it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import KeyColumnError, LiteralError
from parquet_bloom.values.literals import TimeOfDay, Timestamp, normalize_literal

if TYPE_CHECKING:
    import pyarrow as pa


def values_of(given: Any, column: str | None, *, what: str = "keys") -> pa.Array | list[Any]:
    """Return the values of a container as an Arrow array of plain values, or as a list of literals.

    Of what has columns the one named `column` is taken, or its only one: a table or a frame of any library, a dict, a
    relation. The names of columns are never taken for values. Raises `TypeError` for anything but a container, such as
    text or a path, and `LiteralError` for a type of values that is not understood. Errors call the values `what`.
    """
    if _is_of(given, "polars") and hasattr(given, "collect"):  # a LazyFrame
        given = given.select(_chosen(given.collect_schema().names(), column, what)).collect()
    if (names := _names_of(given)) is not None:
        name = _chosen(names, column, what)
        given = given[name]
        if isinstance(given, _SINGLE) or _names_of(given) is not None:
            raise TypeError(f"the {what} in {name!r} must be a list or an array, not {_type_of(given)}")
    if isinstance(given, _SINGLE) or getattr(given, "ndim", 1) != 1:
        raise _no_container(given, what)
    if not any(hasattr(given, name) for name in _OF_ARRAYS):
        if not isinstance(given, Iterable) or hasattr(given, "columns"):  # whose elements would be the columns' names
            raise _no_container(given, what)
        return list(given)
    import pyarrow as pa

    try:
        found = _elements(given, column, what)
        return plain_values(found, what) if isinstance(found, pa.Array | pa.ChunkedArray) else found
    except pa.ArrowException as error:
        raise LiteralError(f"the {what} in this {_type_of(given)} cannot be read: {error}") from error


_SINGLE = (str, bytes, bytearray, memoryview, os.PathLike, io.IOBase)
"""These can be iterated or opened, but are not containers of values."""

_OF_ARRAYS = ("__arrow_c_stream__", "__arrow_c_array__", "__array__")
"""What arrays and tables of some library have, one of these at least."""


def _is_of(given: Any, library: str) -> bool:
    return any(base.__module__.partition(".")[0] == library for base in type(given).__mro__)


def _names_of(given: Any) -> list[Any] | None:
    """Return the names of the columns if one is taken as `given[name]`, else None."""
    if isinstance(given, Mapping):
        return list(given)
    if hasattr(given, "columns") and (_is_of(given, "pandas") or _is_of(given, "polars")):
        return list(given.columns)
    names = getattr(getattr(given, "dtype", None), "names", None)  # of a structured NumPy array
    return list(names) if isinstance(names, tuple) else None


def _chosen(names: list[Any], column: str | None, what: str) -> Any:
    if column is not None and names.count(column) == 1:
        return column
    if len(names) == 1:
        return names[0]
    if column is None:
        raise TypeError(f"{what} are one column, and this table has {len(names)}: {', '.join(map(str, names))}")
    raise KeyColumnError(column, map(str, names), where=f"the table of {what}")


def _no_container(given: Any, what: str) -> TypeError:
    if (dimensions := getattr(given, "ndim", 1)) > 1:
        return TypeError(f"{what} must be one column, and this {_type_of(given)} has {dimensions} dimensions")
    advice = "give [key], or Path(…) for a file of keys" if what == "keys" else "put a single one in a list"
    return TypeError(f"{what} must be a list, an array or a table, not {_type_of(given)}: {advice}")


def _type_of(given: Any) -> str:
    kind = type(given)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


# ---- by library --------------------------------------------------------------------------


def _elements(given: Any, column: str | None, what: str) -> Any:
    """Return the values of one column as Arrow, or as a list where Arrow would change them."""
    if _is_of(given, "pandas"):
        return _of_pandas(given)
    if _is_of(given, "polars"):
        return given.to_list() if str(given.dtype) in _NOT_IN_ARROW else given.to_arrow()
    is_arrow = hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    return _of_arrow(given, column, what) if is_arrow else _of_numpy(given)


_NOT_IN_ARROW = ("Object", "Int128", "UInt128")
"""Types of Polars that have no type in Arrow."""


def _of_pandas(given: Any) -> Any:
    import pyarrow as pa

    if _is_of(given.dtype, "numpy"):
        return _of_numpy(given)  # whose NaN is a value, not a NULL
    try:
        return pa.array(given, from_pandas=False)
    except pa.ArrowException:  # of sparse arrays, and categories of several types
        return list(given)


def _of_numpy(given: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    array: Any = np.asanyarray(given)
    kind, size = array.dtype.kind, array.dtype.itemsize
    # Of others Arrow ignores a part: a step of 25 seconds, years beyond its range, what follows a zero byte in a text.
    is_exact = kind in "biu" or (kind == "f" and size <= 8)
    if kind == "M":
        is_exact = np.datetime_data(array.dtype) in (("s", 1), ("ms", 1), ("us", 1), ("ns", 1))
    if is_exact and array.dtype.isnative:
        return pa.array(array, from_pandas=False)
    return array.tolist() if kind in "SU" else list(array)


def _of_arrow(given: Any, column: str | None, what: str) -> Any:
    import pyarrow as pa

    found = from_arrow(given)
    if not isinstance(found, pa.Table):
        return found
    number = found.schema.names.index(_chosen(found.schema.names, column, what))
    field = found.schema.field(number)
    unknown = (field.metadata or {}).get(b"ARROW:extension:name")  # of a type that pyarrow does not know
    if unknown is not None:
        raise _not_understood(what, unknown.decode(errors="replace"))
    is_relation = _is_of(given, "duckdb") or _is_of(given, "_duckdb")
    if is_relation and not _EXACT_IN_DUCKDB.fullmatch(kind := str(given.types[number])):
        raise _not_understood(what, f"{kind} of DuckDB")
    return found.column(number)


def from_arrow(given: Any) -> pa.ChunkedArray | pa.Table:
    """Return data as pyarrow: as a table if it has structs, which is how Arrow's interface represents tables."""
    import pyarrow as pa

    is_stream = hasattr(given, "__arrow_c_stream__")
    whole = pa.chunked_array(given) if is_stream else pa.chunked_array([pa.array(given)])
    if not pa.types.is_struct(whole.type):
        return whole
    batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in whole.chunks]
    return pa.Table.from_batches(batches, pa.schema(list(whole.type)))


_EXACT_IN_DUCKDB = re.compile(
    r"BOOLEAN|U?(TINYINT|SMALLINT|INTEGER|BIGINT)|HUGEINT|FLOAT|DOUBLE|DECIMAL\(.*\)|DATE|TIME(_NS)?|VARCHAR|BLOB|UUID"
    r'|JSON|ENUM\(.*\)|TIMESTAMP(_S|_MS|_NS|TZ_NS| WITH TIME ZONE)?|"NULL"',
    re.DOTALL,
)
"""Types that DuckDB exports as they are; of others it makes other values: -1 of 2^128-1, a time without its zone."""


# ---- types of Arrow ----------------------------------------------------------------------


def plain_values(values: pa.Array | pa.ChunkedArray, what: str = "keys") -> pa.Array:
    """Return an array's values as one array of their `plain_type`.

    Raises `LiteralError` for a type that is not one of these: booleans, integers, floats, decimals, dates, times of
    day, timestamps, text, bytes, UUIDs, JSON, NULL; and dictionaries and runs of these.
    """
    import pyarrow as pa

    if not _is_known(values.type):
        raise _not_understood(what, str(values.type))
    if isinstance(values, pa.Array):
        return plain_array(values)
    # Without empty ones: what is left of an empty slice that came through Arrow's interface cannot be joined.
    chunks = [plain_array(one) for one in values.chunks if len(one)]
    return pa.concat_arrays(chunks) if chunks else pa.array([], plain_type(values.type))


def _not_understood(what: str, kind: str) -> LiteralError:
    return LiteralError(f"{what} of the type {kind} cannot be compared with a column; cast them to the column's type")


def _is_known(kind: pa.DataType) -> bool:
    import pyarrow.types as of

    if of.is_dictionary(kind) or of.is_run_end_encoded(kind):
        return _is_known(kind.value_type)
    if (name := getattr(kind, "extension_name", None)) is not None:
        return name in ("arrow.uuid", "arrow.json")
    tests = (
        *(of.is_null, of.is_boolean, of.is_integer, of.is_floating, of.is_decimal),
        *(of.is_date, of.is_time, of.is_timestamp),
        *(of.is_string, of.is_large_string, of.is_string_view),
        *(of.is_binary, of.is_large_binary, of.is_binary_view, of.is_fixed_size_binary),
    )
    return any(test(kind) for test in tests)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values that Arrow can compute with: no dictionary, runs, view, or narrow decimal.

    Of extensions it is the storage, but a UUID is not the same as its bytes.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return kind if kind.extension_name == "arrow.uuid" else plain_type(kind.storage_type)
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(kind, kind)


def plain_array(array: Any) -> Any:
    """Return an array, or a chunked one, with its `plain_type`."""
    import pyarrow as pa

    kind = plain_type(array.type)
    if array.type == kind:
        return array
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([plain_array(one) for one in array.chunks], kind)
    if isinstance(array, pa.ExtensionArray):
        return plain_array(array.storage)
    if pa.types.is_dictionary(array.type):
        return plain_array(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(array.type):
        return plain_array(array.values).take(_numbers_of_runs(array))
    return array.cast(kind)


def _numbers_of_runs(array: Any) -> pa.Array:
    """Return of each value the number of the run that it is in."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.array(range(len(array.run_ends)), pa.int64())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(array.run_ends, numbers)).slice(array.offset, len(array))


def python_value(scalar: Any) -> Any:
    """Return an Arrow scalar as a Python value that means the same, else as it is: its type may matter."""
    if not scalar.is_valid:
        return None
    literal = normalize_literal(scalar)
    with contextlib.suppress(ArithmeticError, ValueError):
        if normalize_literal(value := scalar.as_py()) == literal:
            return value
    return literal if isinstance(literal, Timestamp | TimeOfDay) else scalar


def python_values(values: pa.Array) -> tuple[Any, ...]:
    """Return an array's values as Python's, those that Python cannot hold as the array has them."""
    import pyarrow as pa

    if values.type != pa.time64("ns"):  # whose nanoseconds would be dropped
        with contextlib.suppress(ArithmeticError, ValueError):
            return tuple(values.to_pylist())
    return tuple(map(python_value, values))
