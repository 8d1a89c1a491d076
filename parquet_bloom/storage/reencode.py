"""Writes a row group again without some of its rows, so that nothing else about its values changes.

Values are read and written as the pages hold them: without logical types, INT96 as twelve bytes, and each group with
the levels that it has. So a type that Arrow lacks, or would change, comes back as it was. Each top-level column is a
file of its own in memory, whose pages and page indexes are then taken out; the settings are those that the old pages
tell of.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.assembly import NewChunk, moved_index, pages_of
from parquet_bloom.format.fields import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Change,
    changed,
    integer,
    last_field,
    list_of,
    structs_in,
    text,
)
from parquet_bloom.format.footer import MAGIC, Footer, pages_extent
from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.format.understood import unknown_in
from parquet_bloom.storage.columns import BATCH_BYTES, bits_type, named_errors, read_extents
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import Source
from parquet_bloom.values.bounds import bounds_of, is_in_physical_order

MOST_ROWS = 64 * 1024 * 1024
"""pyarrow makes no row group with more rows than these."""

_CODECS = {
    ttypes.CompressionCodec.UNCOMPRESSED: "NONE",
    ttypes.CompressionCodec.SNAPPY: "SNAPPY",
    ttypes.CompressionCodec.GZIP: "GZIP",
    ttypes.CompressionCodec.BROTLI: "BROTLI",
    ttypes.CompressionCodec.LZ4: "LZ4",  # which is written as LZ4_RAW, the same without Hadoop's frames
    ttypes.CompressionCodec.ZSTD: "ZSTD",
    ttypes.CompressionCodec.LZ4_RAW: "LZ4",
}
_ENCODINGS = {
    ttypes.Encoding.DELTA_BINARY_PACKED: "DELTA_BINARY_PACKED",
    ttypes.Encoding.DELTA_LENGTH_BYTE_ARRAY: "DELTA_LENGTH_BYTE_ARRAY",
    ttypes.Encoding.DELTA_BYTE_ARRAY: "DELTA_BYTE_ARRAY",
    ttypes.Encoding.BYTE_STREAM_SPLIT: "BYTE_STREAM_SPLIT",
}
_DICTIONARY = (ttypes.Encoding.PLAIN_DICTIONARY, ttypes.Encoding.RLE_DICTIONARY)
_READABLE = {ttypes.Encoding.PLAIN, ttypes.Encoding.RLE, ttypes.Encoding.BIT_PACKED, *_DICTIONARY, *_ENCODINGS}
_DATA_PAGES = (ttypes.PageType.DATA_PAGE, ttypes.PageType.DATA_PAGE_V2)
_PAGE_BYTES, _DICTIONARY_BYTES = 1024 * 1024, 1024 * 1024
_LEAST_PAGE_BYTES, _MOST_BYTES = 1024, 1024 * 1024 * 1024

_TYPE, _PATH, _KEY_VALUES, _STATISTICS = 1, 3, 8, 12  # ColumnMetaData
_DATA_PAGE, _DICTIONARY_PAGE = 9, 11


def why_not_written(footer: Footer, row_group: int) -> str | None:
    """Return why a row group cannot be written again, or None."""
    for leaf in footer.leaves:
        chunk = footer.chunk(row_group, leaf)
        codec = _CODECS.get(chunk.codec)
        if codec is None or (codec != "NONE" and not pa.Codec.is_available(codec.lower())):
            name = ttypes.CompressionCodec._VALUES_TO_NAMES.get(chunk.codec, chunk.codec)
            return f"column {leaf.name} is compressed with {name}, which pyarrow cannot write"
        for encoding in footer.whole_column_chunk(row_group, leaf.index).meta_data.encodings or ():
            if encoding not in _READABLE:
                name = ttypes.Encoding._VALUES_TO_NAMES.get(encoding, encoding)
                return f"column {leaf.name} is encoded with {name}, which pyarrow cannot read"
    if footer.row_groups[row_group].num_rows > MOST_ROWS:
        return f"row group {row_group} has more than {MOST_ROWS:,} rows"
    return None


def without_rows(source: Source, footer: Footer, row_group: int, keep: pa.BooleanArray) -> Iterator[NewChunk]:
    """Yield the column chunks of a row group, in order, with only the rows that `keep` has as true.

    Raises `CorruptFileError` if the pages do not decode to what the footer counts.
    """
    for column in _columns(footer):
        leaves = [footer.leaves[index] for index in column.leaves]
        at = f"row group {row_group}, column {leaves[0].name}" if leaves else "a group without columns"
        with named_errors(source, at):
            yield from _rewritten(source, footer, row_group, column, leaves, keep)


@dataclass(frozen=True, slots=True)
class _Column:
    """A top-level column: its part of the schema, and its leaves by index."""

    elements: Sequence[Any]
    leaves: Sequence[int]


def _columns(footer: Footer) -> Iterator[_Column]:
    elements = footer.metadata.schema
    at, leaf = 1, 0
    while at < len(elements):
        start, open_nodes, leaves = at, 1, []
        while open_nodes:
            element = elements[at]
            open_nodes += (element.num_children or 0) - 1
            if element.type is not None:
                leaves.append(leaf)
                leaf += 1
            at += 1
        yield _Column(elements[start:at], leaves)


def _rewritten(
    source: Source, footer: Footer, row_group: int, column: _Column, leaves: list[LeafColumn], keep: pa.BooleanArray
) -> Iterator[NewChunk]:
    if not leaves:  # a group without children has no pages
        return
    old = [footer.whole_column_chunk(row_group, leaf.index) for leaf in leaves]
    extents = [pages_of(footer, row_group, leaf) for leaf in leaves]
    parts = run(source, read_extents(extents, footer.start, f"row group {row_group}, column {leaves[0].name}"))
    headers = [
        _first_header(part, f"row group {row_group}, column {leaf.name}")
        for leaf, part in zip(leaves, parts, strict=True)
    ]
    table = _kept_rows(column, old, parts, keep, source.name)
    parts.clear()
    data = _written(table, [chunk.meta_data for chunk in old], headers, old)
    written = list(_chunks_in(data))
    arrays = [*_leaf_arrays(table.column(0))]
    for leaf, chunk, new, array in zip(leaves, old, written, arrays, strict=True):
        yield _adapted(footer, leaf, chunk, new, array)


# ---- reading -----------------------------------------------------------------------------


def _kept_rows(column: _Column, old: list[Any], parts: list[bytes], keep: pa.BooleanArray, name: str) -> pa.Table:
    """Return the rows to keep of a top-level column, decoded as the pages hold them."""
    num_rows = len(keep)
    chunks = []
    at = len(MAGIC)
    for chunk, part in zip(old, parts, strict=True):
        metadata = chunk.meta_data
        moved = at - pages_extent(metadata)[0]
        has_dictionary = 0 < (metadata.dictionary_page_offset or 0) < metadata.data_page_offset
        chunks.append(
            ttypes.ColumnMetaData(
                type=_physical(metadata.type),
                encodings=metadata.encodings,
                path_in_schema=[],
                codec=metadata.codec,
                num_values=metadata.num_values,
                total_uncompressed_size=metadata.total_uncompressed_size,
                total_compressed_size=len(part),
                data_page_offset=metadata.data_page_offset + moved,
                dictionary_page_offset=metadata.dictionary_page_offset + moved if has_dictionary else None,
            )
        )
        at += len(part)
    schema, paths = _physical_schema(column.elements)
    for chunk, path in zip(chunks, paths, strict=True):
        chunk.path_in_schema = path
    total = sum(chunk.total_uncompressed_size or 0 for chunk in chunks)
    group = ttypes.RowGroup(
        columns=[ttypes.ColumnChunk(file_offset=0, meta_data=chunk) for chunk in chunks],
        total_byte_size=total,
        num_rows=num_rows,
    )
    raw = encode(ttypes.FileMetaData(version=1, schema=schema, num_rows=num_rows, row_groups=[group]))
    metadata = pq.read_metadata(io.BytesIO(MAGIC + raw + len(raw).to_bytes(4, "little") + MAGIC))
    file = pq.ParquetFile(
        pa.BufferReader(b"".join([MAGIC, *parts])), metadata=metadata, page_checksum_verification=True
    )
    batches = []
    rows = 0
    with file:
        each = int(min(max(BATCH_BYTES / max(1.0, total / max(1, num_rows)), 256), 128 * 1024))
        for batch in file.iter_batches(each, use_threads=False):
            batches.append(batch.filter(keep.slice(rows, batch.num_rows)))
            rows += batch.num_rows
        arrow = file.schema_arrow
    if rows != num_rows:
        raise CorruptFileError(f"its pages decode to {rows} rows; the footer says {num_rows}", path=name)
    return pa.Table.from_batches(batches, arrow)


def _physical(kind: int) -> int:
    return int(PhysicalType.FIXED_LEN_BYTE_ARRAY if kind == PhysicalType.INT96 else kind)


def _physical_schema(elements: Sequence[Any]) -> tuple[list[Any], list[list[str]]]:
    """Return a schema of one column without logical types, under names of our own, and the paths of its leaves."""
    schema = [ttypes.SchemaElement(name="root", num_children=1)]
    paths: list[list[str]] = []
    open_groups: list[tuple[str, int]] = []  # the way to here, and how many children of each are still to come
    for number, element in enumerate(elements):
        name = f"n{number}"
        while open_groups and open_groups[-1][1] == 0:
            open_groups.pop()
        if open_groups:
            group, remaining = open_groups.pop()
            open_groups.append((group, remaining - 1))
        if element.type is None:
            schema.append(
                ttypes.SchemaElement(
                    name=name, repetition_type=element.repetition_type, num_children=element.num_children
                )
            )
            open_groups.append((name, element.num_children or 0))
            continue
        length = 12 if element.type == PhysicalType.INT96 else element.type_length
        schema.append(
            ttypes.SchemaElement(
                name=name,
                type=_physical(element.type),
                type_length=length if _physical(element.type) == PhysicalType.FIXED_LEN_BYTE_ARRAY else None,
                repetition_type=element.repetition_type,
            )
        )
        paths.append([*(group for group, _ in open_groups), name])
    return schema, paths


def _leaf_arrays(array: Any) -> Iterator[Any]:
    """Yield the values of each leaf below an array, without the groups and lists around them."""
    if isinstance(array, pa.ChunkedArray):
        below = [[*_leaf_arrays(chunk)] for chunk in array.chunks]
        if below:
            yield from map(pa.chunked_array, zip(*below, strict=True))
        else:
            yield from (pa.chunked_array([], kind) for kind in _leaf_types(array.type))
    elif pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _leaf_arrays(child)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _leaf_arrays(array.flatten())
    else:
        yield array


def _leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaf_types(field.type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaf_types(kind.value_type)
    else:
        yield kind


# ---- writing -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Settings:
    """How a column chunk was written, as far as its metadata and its first page tell."""

    codec: str
    has_dictionary: bool
    is_all_dictionary: bool
    uses_old_names: bool  # of dictionary encodings
    encoding: str | None
    is_v2: bool
    has_checksum: bool
    page_bytes: int
    dictionary_bytes: int


def _settings(chunk: Any, header: Any) -> _Settings:
    used = {s.encoding for s in chunk.encoding_stats or () if s.page_type in _DATA_PAGES and s.count}
    pages = sum(s.count for s in chunk.encoding_stats or () if s.page_type in _DATA_PAGES and s.count)
    has_dictionary = 0 < (chunk.dictionary_page_offset or 0) < (chunk.data_page_offset or 0)
    listed = chunk.encodings or ()
    others = [e for e in (used or set(listed)) if e in _ENCODINGS]
    is_all_dictionary = bool(used) and used <= set(_DICTIONARY) and has_dictionary
    size = min(max(0, chunk.total_uncompressed_size or 0), _MOST_BYTES)
    return _Settings(
        codec=_CODECS[chunk.codec],
        has_dictionary=has_dictionary,
        is_all_dictionary=is_all_dictionary,
        uses_old_names=ttypes.Encoding.PLAIN_DICTIONARY in listed,
        encoding=_ENCODINGS[others[0]] if others and not has_dictionary else None,
        is_v2=header.type == ttypes.PageType.DATA_PAGE_V2,
        has_checksum=header.crc is not None,
        page_bytes=max(_LEAST_PAGE_BYTES, size // pages) if pages > 1 else _PAGE_BYTES,
        dictionary_bytes=max(_DICTIONARY_BYTES, size) if is_all_dictionary else _DICTIONARY_BYTES,
    )


_HEADER_BYTES = 64 * 1024


def _first_header(part: bytes, where: str) -> Any:
    """Return the header of a chunk's first data page; of a chunk without one an empty one.

    Raises `UnsupportedError` for a page that is not understood: it would be lost.
    """
    first = None
    at = 0
    while at < len(part):
        try:
            unknown = next(unknown_in(ttypes.PageHeader, part, at), None)
            header, length = _header_at(part, at)
        except CorruptFileError as error:
            raise CorruptFileError(f"{where}: no page begins at byte {at:,} of its pages") from error
        if unknown is not None:
            raise UnsupportedError(f"{where}: a page's header has {unknown}, which is not understood")
        if header.type == ttypes.PageType.INDEX_PAGE:
            raise UnsupportedError(f"{where}: a page is an INDEX_PAGE, and would be lost")
        if first is None and header.type in _DATA_PAGES:
            first = header
        at += length + max(0, header.compressed_page_size or 0)
    if at > len(part):
        raise CorruptFileError(f"{where}: its last page is longer than its pages")
    return first or ttypes.PageHeader()


def _header_at(part: bytes, at: int) -> tuple[Any, int]:
    """Return the header of the page at `at`, and how many bytes it takes."""
    try:
        return decode(ttypes.PageHeader, part[at : at + _HEADER_BYTES])
    except CorruptFileError:  # with bounds that are longer
        return decode(ttypes.PageHeader, part[at:])


def _written(table: pa.Table, old: list[Any], headers: list[Any], chunks: list[Any]) -> bytes:
    """Return a Parquet file of one row group with a table of one column, which was read back and compared."""
    paths = [*_written_paths(table.schema.field(0))]
    settings = [*map(_settings, old, headers)]
    # pyarrow lacks some encodings for some types, and cannot read some of its own pages of version 2.
    plain = [dataclasses.replace(one, encoding=None) for one in settings]
    attempts = [settings, plain, [dataclasses.replace(one, is_v2=False) for one in plain]]
    failed: Exception | None = None
    for number, attempt in enumerate(attempts):
        if attempt in attempts[:number]:
            continue
        try:
            data = _encoded(table, paths, attempt, chunks)
            if _is_same(table, data):
                return data
        except (pa.ArrowException, OSError) as error:
            failed = error
    raise failed or UnsupportedError("what pyarrow wrote reads back differently")


def _is_same(table: pa.Table, data: bytes) -> bool:
    """Return whether a file has the rows of a table."""
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        found = pa.Table.from_batches(file.iter_batches(_BATCH_ROWS, use_threads=False), table.schema)
    kind = bits_type(table.column(0).type)
    one, other = (pa.chunked_array([part.view(kind) for part in t.column(0).chunks], kind) for t in (found, table))
    return bool(one.equals(other))


_BATCH_ROWS = 64 * 1024


def _encoded(table: pa.Table, paths: list[str], settings: list[_Settings], chunks: list[Any]) -> bytes:
    encodings = {path: s.encoding for path, s in zip(paths, settings, strict=True) if s.encoding}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        version="1.0" if any(s.uses_old_names for s in settings) else "2.6",
        use_dictionary=[path for path, s in zip(paths, settings, strict=True) if s.has_dictionary],
        compression={path: s.codec for path, s in zip(paths, settings, strict=True)},
        column_encoding=encodings or None,
        data_page_version="2.0" if any(s.is_v2 for s in settings) else "1.0",
        data_page_size=min(s.page_bytes for s in settings),
        dictionary_pagesize_limit=max(s.dictionary_bytes for s in settings),
        write_page_checksum=any(s.has_checksum for s in settings),
        write_page_index=any(chunk.offset_index_offset for chunk in chunks),
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _written_paths(field: pa.Field) -> Iterator[str]:
    """Yield the paths that pyarrow gives the leaves of a field."""
    if pa.types.is_struct(field.type):
        for child in field.type:
            yield from (f"{field.name}.{path}" for path in _written_paths(child))
    elif pa.types.is_list(field.type) or pa.types.is_large_list(field.type):
        element = field.type.value_field.with_name("element")
        yield from (f"{field.name}.list.{path}" for path in _written_paths(element))
    else:
        yield field.name


# ---- taking chunks out of what was written -------------------------------------------------


def _chunks_in(data: bytes) -> Iterator[NewChunk]:
    """Yield the column chunks of a file that pyarrow has just written."""
    raw = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    (group, _) = structs_in(raw, last_field(raw, 0, 4, LIST))
    for start, stop in pairwise(structs_in(raw, last_field(raw, group, 1, LIST))):
        chunk, _ = decode(ttypes.ColumnChunk, raw[start:stop])
        field = last_field(raw, start, 3, STRUCT)
        first, last = pages_extent(chunk.meta_data)
        changes: dict[int, Change] = {_DATA_PAGE: (I64, integer(chunk.meta_data.data_page_offset - first))}
        has_dictionary = chunk.meta_data.dictionary_page_offset is not None
        changes[_DICTIONARY_PAGE] = (I64, integer(0)) if has_dictionary else None
        yield NewChunk(
            changed(raw[field.value : field.end], 0, changes),
            data[first:last],
            _part(data, chunk.column_index_offset, chunk.column_index_length),
            _moved_back(_part(data, chunk.offset_index_offset, chunk.offset_index_length), first),
        )


def _part(data: bytes, offset: int | None, length: int | None) -> bytes | None:
    return data[offset : offset + length] if offset and length else None


def _moved_back(index: bytes | None, first: int) -> bytes | None:
    """Return an offset index that counts from the first byte of the pages."""
    if index is None:
        return None
    return moved_index(index, -first)


def _adapted(footer: Footer, leaf: LeafColumn, old: Any, new: NewChunk, values: pa.ChunkedArray) -> NewChunk:
    """Return a chunk under the type and the path of the old one, with statistics in the order of its type."""
    is_sound = is_in_physical_order(leaf) and _is_ordered_by_type(footer, leaf)
    written, _ = decode(ttypes.ColumnMetaData, new.metadata)
    statistics = _statistics(footer, leaf, old.meta_data.statistics, written.statistics, values)
    changes: dict[int, Change] = {
        _TYPE: (I32, integer(int(leaf.physical_type))),
        _PATH: (LIST, list_of(map(text, footer.leaves[leaf.index].path), BINARY)),
        _KEY_VALUES: None,
        _STATISTICS: None if statistics is None else (STRUCT, encode(statistics)),
    }
    return dataclasses.replace(
        new,
        metadata=changed(new.metadata, 0, changes),
        column_index=new.column_index if is_sound and old.column_index_offset else None,
        offset_index=new.offset_index if old.offset_index_offset else None,
    )


def _is_ordered_by_type(footer: Footer, leaf: LeafColumn) -> bool:
    """Return whether the file's statistics of a leaf are in the order that pyarrow writes."""
    ordered = footer.ordered_by_type
    return ordered is None or (leaf.index < len(ordered) and ordered[leaf.index])


def _statistics(footer: Footer, leaf: LeafColumn, old: Any, written: Any, values: pa.ChunkedArray) -> Any:
    """Return the Statistics of a chunk: the null count, and those bounds that the old one had, if they are known."""
    new = ttypes.Statistics(null_count=None if written is None else written.null_count)
    if old is not None and _is_ordered_by_type(footer, leaf):
        if is_in_physical_order(leaf):
            bounds = None if written is None else (written.min_value, written.max_value)
        else:
            bounds = bounds_of(leaf, values)
        if bounds is not None and None not in bounds:
            if old.min_value is not None or old.max_value is not None:
                new.min_value, new.max_value = bounds
            # The deprecated pair is in the order of signed bytes, which pyarrow leaves out where it is another one.
            if (old.min is not None or old.max is not None) and written is not None and is_in_physical_order(leaf):
                new.min, new.max = written.min, written.max
    return new if new.null_count is not None or new.min_value is not None else None
