"""Keys to look up: from a list, an Arrow array, or a file; and candidates, written to a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import ColumnNotFoundError, LiteralError

if TYPE_CHECKING:
    import pyarrow as pa


def read_keys(keys: Any, column: str) -> tuple[pa.Array, bool]:
    """Return the keys as one Arrow array, and whether they are text that the column's type is to parse.

    Of a Parquet or CSV file the column named `column` is taken, or its only one; any other file has a key a line.
    """
    import pyarrow as pa

    if isinstance(keys, str | os.PathLike):
        return _read_file(Path(keys), column)
    if isinstance(keys, pa.Table | pa.RecordBatch):
        keys = _only(keys, column, "the table of keys")
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    if not isinstance(keys, pa.Array):
        try:
            keys = pa.array(keys)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise LiteralError(f"the keys are not all of one type: {error}") from error
    return (keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys), False


def _read_file(path: Path, column: str) -> tuple[pa.Array, bool]:
    import pyarrow as pa

    if path.suffix == ".parquet":
        from pyarrow import parquet

        table = parquet.read_table(path)
        return read_keys(_only(table, column, str(path)), column)
    if path.suffix == ".csv":
        from pyarrow import csv

        # Everything is text: 007 is not 7 before the column has said so.
        names = csv.read_csv(path, read_options=csv.ReadOptions(block_size=1 << 20)).schema.names
        text = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True)
        return _only(csv.read_csv(path, convert_options=text), column, str(path)).combine_chunks(), True
    lines = path.read_text(encoding="utf-8").splitlines()
    return pa.array([line for line in lines if line], pa.string()), True


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
