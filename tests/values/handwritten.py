"""Parquet files written by hand: pages of exactly the bytes that a test wants, which no one engine would write."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import reference

from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.schema import PhysicalType
from parquet_bloom.format.thrift_io import encode

MAGIC = b"PAR1"
ARROW, SPARK = "parquet-cpp-arrow version 26.0.1", "parquet-mr version 1.17.0 (build 1)"
FILTER_BLOCKS = 128


def column(
    physical: PhysicalType,
    logical: ttypes.LogicalType | None = None,
    converted: int | None = None,
    length: int | None = None,
    precision: int | None = None,
    scale: int | None = None,
) -> ttypes.SchemaElement:
    """Returns the schema's element of a required column `c`."""
    return ttypes.SchemaElement(
        type=int(physical),
        type_length=length,
        repetition_type=ttypes.FieldRepetitionType.REQUIRED,
        name="c",
        converted_type=converted,
        precision=precision,
        scale=scale,
        logicalType=logical,
    )


def file_of(
    element: ttypes.SchemaElement,
    values: Sequence[bytes],
    *,
    dictionary: bool = False,
    foreign_filter: bool = False,
    bounds: tuple[bytes, bytes] | None = None,
    created_by: str | None = ARROW,
    key_values: Mapping[str, str] | None = None,
) -> bytes:
    """Returns a file of one row group, whose pages hold `values` as they are.

    With `foreign_filter` it has a filter of the hashes of exactly these bytes, as the format describes it.
    """
    pages, offset = _dictionary_pages(element, values) if dictionary else (_plain_page(element, values), None)
    used = ttypes.Encoding.RLE_DICTIONARY if dictionary else ttypes.Encoding.PLAIN
    body = MAGIC + b"".join(pages)
    chunk = ttypes.ColumnMetaData(
        type=element.type,
        encodings=sorted({ttypes.Encoding.PLAIN, used}),
        path_in_schema=["c"],
        codec=ttypes.CompressionCodec.UNCOMPRESSED,
        num_values=len(values),
        total_uncompressed_size=len(body) - len(MAGIC),
        total_compressed_size=len(body) - len(MAGIC),
        data_page_offset=len(MAGIC) + len(b"".join(pages[:-1])),
        dictionary_page_offset=offset,
        encoding_stats=[ttypes.PageEncodingStats(ttypes.PageType.DATA_PAGE, used, 1)],
    )
    if bounds is not None:
        chunk.statistics = ttypes.Statistics(null_count=0, min_value=bounds[0], max_value=bounds[1])
    if foreign_filter:
        bitset = reference.to_bytes(reference.build(FILTER_BLOCKS, [reference.xxh64(value) for value in values]))
        stored = reference.header(len(bitset)) + bitset
        chunk.bloom_filter_offset, chunk.bloom_filter_length = len(body), len(stored)
        body += stored
    group = ttypes.RowGroup(
        columns=[ttypes.ColumnChunk(file_offset=0, meta_data=chunk)],
        total_byte_size=chunk.total_uncompressed_size,
        num_rows=len(values),
    )
    footer = encode(
        ttypes.FileMetaData(
            version=1,
            schema=[ttypes.SchemaElement(name="schema", num_children=1), element],
            num_rows=len(values),
            row_groups=[group],
            created_by=created_by,
            key_value_metadata=[ttypes.KeyValue(key, value) for key, value in (key_values or {}).items()] or None,
            column_orders=[ttypes.ColumnOrder(TYPE_ORDER=ttypes.TypeDefinedOrder())],
        )
    )
    return body + footer + struct.pack("<I", len(footer)) + MAGIC


def _plain(element: ttypes.SchemaElement, values: Sequence[bytes]) -> bytes:
    if element.type == PhysicalType.BOOLEAN:
        bits = sum(value[0] << number for number, value in enumerate(values))
        return bits.to_bytes(len(values) // 8 + 1, "little")
    if element.type == PhysicalType.BYTE_ARRAY:
        return b"".join(struct.pack("<I", len(value)) + value for value in values)
    return b"".join(values)


def _plain_page(element: ttypes.SchemaElement, values: Sequence[bytes]) -> list[bytes]:
    return [_data_page(_plain(element, values), len(values), ttypes.Encoding.PLAIN)]


def _data_page(data: bytes, count: int, encoding: int) -> bytes:
    header = ttypes.DataPageHeader(count, encoding, ttypes.Encoding.RLE, ttypes.Encoding.RLE)
    return _page(ttypes.PageHeader(type=ttypes.PageType.DATA_PAGE, data_page_header=header), data)


def _page(header: ttypes.PageHeader, data: bytes) -> bytes:
    header.uncompressed_page_size = header.compressed_page_size = len(data)
    return encode(header) + data


def _dictionary_pages(element: ttypes.SchemaElement, values: Sequence[bytes]) -> tuple[list[bytes], int]:
    """Returns a dictionary page of all values, and a data page with a run of one for each; and where the first lies."""
    dictionary = ttypes.DictionaryPageHeader(len(values), ttypes.Encoding.PLAIN)
    first = ttypes.PageHeader(type=ttypes.PageType.DICTIONARY_PAGE, dictionary_page_header=dictionary)
    runs = b"".join(bytes([1 << 1, number]) for number in range(len(values)))
    indexes = _data_page(bytes([8]) + runs, len(values), ttypes.Encoding.RLE_DICTIONARY)
    return [_page(first, _plain(element, values)), indexes], len(MAGIC)
