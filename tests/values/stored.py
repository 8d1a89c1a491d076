"""Leaf columns for tests, and the plain-encoded bytes that another program's pages really hold."""

from __future__ import annotations

import io
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parquet_bloom.format.footer import parse_footer
from parquet_bloom.format.schema import LeafColumn, LogicalType, PhysicalType


def leaf(physical: str, logical: str | None = None, length: int | None = None, **fields: Any) -> LeafColumn:
    logical_type = LogicalType(logical, **fields) if logical else None
    return LeafColumn(("user", "id"), 0, PhysicalType[physical], length, logical_type, ())


def write(array: pa.Array, **options: Any) -> bytes:
    """Returns a file of one required column `c` in plain pages, as pyarrow writes it."""
    out = io.BytesIO()
    schema = pa.schema([pa.field("c", array.type, nullable=False)])
    table = pa.Table.from_arrays([array], schema=schema)
    pq.write_table(table, out, use_dictionary=False, compression="none", write_statistics=False, **options)
    return out.getvalue()


def leaf_of(file: bytes) -> LeafColumn:
    length = int.from_bytes(file[-8:-4], "little")
    (found,) = parse_footer(len(file), file[-8 - length : -8]).leaves
    return found


def plain_values(file: bytes) -> list[bytes]:
    """Returns each value's plain encoding, cut from the bytes of the file's one page."""
    row_group = pq.ParquetFile(io.BytesIO(file)).metadata.row_group(0)
    chunk = row_group.column(0)
    start = chunk.data_page_offset
    page = file[start : start + chunk.total_compressed_size]
    width = leaf_of(file).width
    if width is not None:  # the page is its header, then the values
        values = page[len(page) - width * row_group.num_rows :]
        return [values[at : at + width] for at in range(0, len(values), width)]
    # With lengths in between, only one start makes the values end where the page ends.
    (found,) = [v for at in range(8, len(page)) if (v := _with_lengths(page, at, row_group.num_rows)) is not None]
    return found


def _with_lengths(page: bytes, at: int, count: int) -> list[bytes] | None:
    values = []
    for _ in range(count):
        if at + 4 > len(page):
            return None
        (length,) = struct.unpack_from("<I", page, at)
        values.append(page[at + 4 : at + 4 + length])
        at += 4 + length
    return values if at == len(page) else None
