"""Data of any library that speaks Arrow's PyCapsule interface: Polars, DuckDB, pyarrow and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def speaks_arrow(given: Any) -> bool:
    """Return whether data is best read through Arrow's interface.

    What has a `dtype` (a Series, an array of NumPy's) has a way of its own, which keeps NaN and NULL apart.
    """
    has_interface = hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    return has_interface and not hasattr(given, "dtype")


def from_arrow(given: Any) -> pa.ChunkedArray | pa.Table:
    """Return data as pyarrow has it: as a table if it came as structs, which is Arrow's form of one."""
    import pyarrow as pa

    is_stream = hasattr(given, "__arrow_c_stream__")
    whole = pa.chunked_array(given) if is_stream else pa.chunked_array([pa.array(given)])
    if not pa.types.is_struct(whole.type):
        return whole
    batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in whole.chunks]
    return pa.Table.from_batches(batches, pa.schema(list(whole.type)))
