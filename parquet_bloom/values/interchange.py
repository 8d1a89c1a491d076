"""Reads data of any library with Arrow's PyCapsule interface: Polars, DuckDB, pyarrow and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def speaks_arrow(given: Any) -> bool:
    """Return whether data is best read through Arrow's interface.

    What has a `dtype` (a Series, a NumPy array) is read without it, which distinguishes NaN and NULL.
    """
    has_interface = hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    return has_interface and not hasattr(given, "dtype")


def from_arrow(given: Any) -> pa.ChunkedArray | pa.Table:
    """Return data as pyarrow: as a table if it has structs, which is how Arrow's interface represents tables."""
    import pyarrow as pa

    is_stream = hasattr(given, "__arrow_c_stream__")
    whole = pa.chunked_array(given) if is_stream else pa.chunked_array([pa.array(given)])
    if not pa.types.is_struct(whole.type):
        return whole
    batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in whole.chunks]
    return pa.Table.from_batches(batches, pa.schema(list(whole.type)))
