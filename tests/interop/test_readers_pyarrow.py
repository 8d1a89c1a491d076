"""pyarrow, which uses no filters, reads all rows of what we retrofitted."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples import FIXTURES, SOUND, named


def as_bytes(table):
    """Returns a table's values so that a NaN equals itself."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("entry", named(SOUND))
def test_pyarrow_reads_all_rows(retrofitted, entry):
    def read(path):
        with pq.ParquetFile(path) as file:
            columns = [c for c in file.schema_arrow.names if c not in entry.get("pyarrow_cannot", ())]
            return file.read(columns if "pyarrow_cannot" in entry else None)

    before, after = read(FIXTURES / entry["file"]), read(retrofitted(entry["file"]))
    assert after.num_rows == entry["rows"]
    assert as_bytes(after) == as_bytes(before)
