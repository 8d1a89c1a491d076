"""Decodes pages as they are stored: a column chunk -> its values, as physical Arrow arrays. (rows.py: as pyarrow does.)

A filter holds what the pages hold, not what Arrow makes of it: pyarrow wraps the years that a nanosecond cannot hold,
shortens decimals in byte arrays, and narrows small integers. So pyarrow is given a footer of our own with one column
chunk, the nodes above it, and no logical types; INT96 is read as twelve bytes.
"""

from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquet_bloom.errors import ConcurrentChangeError, CorruptFileError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.encryption import open_pages
from parquet_bloom.format.footer import MAGIC, Footer, Plan, pages_extent
from parquet_bloom.format.page_index import Page
from parquet_bloom.format.ranges import COALESCE_LIMIT, ByteRange
from parquet_bloom.format.schema import LeafColumn, PhysicalType, Repetition
from parquet_bloom.format.thrift_io import decode, encode, varint
from parquet_bloom.storage.drive import open_chunk, run
from parquet_bloom.storage.listing import Source

_Result = TypeVar("_Result")

BATCH_BYTES = 8 * 1024 * 1024
"""The target size of a decoded batch."""

BUFFER_BYTES = 1024 * 1024
"""Compressed bytes that are read ahead of the decoder."""

_DATA_PAGES = (ttypes.PageType.DATA_PAGE, ttypes.PageType.DATA_PAGE_V2)
_DICTIONARY_ENCODINGS = (ttypes.Encoding.PLAIN_DICTIONARY, ttypes.Encoding.RLE_DICTIONARY)


class _Group(NamedTuple):
    """A column chunk to decode, by its metadata, and the rows of its row group."""

    chunk: Any
    num_rows: int


class ColumnChunks:
    """The column chunks of one file, ready to be decoded."""

    def __init__(self, source: Source, footer: Footer) -> None:
        self._source, self._footer = source, footer
        self._decoded: dict[tuple[int, int], Any] = {}

    def value_bound(self, row_group: int, leaf: LeafColumn) -> int:
        """Return an upper limit of the chunk's distinct values: its non-null values as the footer counts them.

        Raises `CorruptFileError` where nothing that the footer says of the chunk can be relied on.
        """
        if problem := self._footer.chunk_problem(row_group, leaf):
            raise CorruptFileError(problem, path=self._source.name)
        chunk = self._chunk(row_group, leaf)
        nulls = chunk.statistics.null_count if chunk.statistics else None
        return max(0, int(chunk.num_values) - (nulls or 0))

    def is_doubtful(self, row_group: int, leaf: LeafColumn) -> bool:
        """Return whether the chunk has fewer bytes than values so diverse that they need a large filter would take."""
        stored = min(max(0, self._chunk(row_group, leaf).total_compressed_size or 0), self._source.size)
        return self.value_bound(row_group, leaf) > stored * _VALUES_PER_BYTE

    def values(self, row_group: int, leaf: LeafColumn, *, each: bool = False) -> Iterator[pa.Array]:
        """Yield physical Arrow arrays that together hold every value of the chunk, nulls left out or in.

        A chunk whose data pages are all dictionary-encoded yields its dictionary alone: the same distinct
        values. With `each`, all values come in their order, nulls in, as often as they are there. Raises
        `CorruptFileError` if pages do not decode to what the footer counts, and `UnsupportedError` for a
        codec that pyarrow lacks.
        """
        chunk = self._chunk(row_group, leaf)
        if problem := self._footer.chunk_problem(row_group, leaf):
            raise CorruptFileError(problem, path=self._source.name)
        with named_errors(self._source, self._at(row_group, leaf)):
            if chunk.num_values == 0:
                return
            if self._footer.seal_of_pages(row_group, leaf) is not None:
                yield from run(self._source, self.read(row_group, leaf, each=each))
            elif _is_all_dictionary(chunk) and not each:
                yield self._carry_out(_read_dictionary(chunk, leaf, self._footer.start))
            else:
                local = self._source.local
                handle = pa.OSFile(str(local)) if local else open_chunk(self._source, *pages_extent(chunk))
                counts = yield from self._decode(handle, leaf, [self._group(row_group, chunk)])
                self._check_counts([row_group], leaf, *counts)

    def dictionary(self, row_group: int, leaf: LeafColumn) -> pa.Array | None:
        """Return the dictionary of a chunk, which may have values that no row has; None without one."""
        chunk = self._chunk(row_group, leaf)
        if not has_dictionary_page(chunk):
            return None
        with named_errors(self._source, self._at(row_group, leaf)):
            return self._carry_out(_read_dictionary(chunk, leaf, self._footer.start))

    def has_unused_entries(self, row_group: int, leaf: LeafColumn) -> bool:
        """Return whether the chunk's dictionary has a value that no row has, or may have: its place is not known."""
        dictionary = self.dictionary(row_group, leaf)
        if dictionary is None:
            return bool({*_DICTIONARY_ENCODINGS} & {*(self._chunk(row_group, leaf).encodings or ())})
        kind = bits_type(dictionary.type)
        unused = dictionary.view(kind)
        for values in self.values(row_group, leaf, each=True):
            unused = unused.filter(pc.invert(pc.is_in(unused, value_set=values.view(kind))))
            if not len(unused):
                return False
        return len(unused) > 0

    def _carry_out(self, plan: Plan[_Result]) -> _Result:
        return run(self._source, plan)

    # ---- the same, as plans

    def num_bytes(self, row_group: int, leaf: LeafColumn) -> int:
        """Return how many bytes `read` asks for: of the dictionary if it has every value, else of all pages."""
        chunk = self._chunk(row_group, leaf)
        start, stop = dictionary_extent(chunk) if _is_all_dictionary(chunk) else pages_extent(chunk)
        return max(0, stop - start)

    def has_dictionary_alone(self, row_group: int, leaf: LeafColumn) -> bool:
        """Return whether the dictionary has every value of the chunk."""
        return _is_all_dictionary(self._chunk(row_group, leaf))

    def read(
        self, row_group: int, leaf: LeafColumn, pages: Sequence[Page] | None = None, *, each: bool = False
    ) -> Plan[Iterator[pa.Array]]:
        """Plan to return what `values` yields, or the values of some of the data pages of a chunk that has pages.

        The arrays are decoded as they are taken, which raises the same errors. Encrypted pages are read all at once.
        """
        chunk = self._chunk(row_group, leaf)
        if problem := self._footer.chunk_problem(row_group, leaf):
            raise CorruptFileError(problem)
        seal = self._footer.seal_of_pages(row_group, leaf)
        if pages is not None:
            dictionary = [dictionary_extent(chunk)] if has_dictionary_page(chunk) else []
            parts = yield from self._parts(row_group, leaf, [*dictionary, *(page.extent for page in pages)])
            return self._values_of_some(row_group, leaf, chunk, parts, pages)
        if _is_all_dictionary(chunk) and not each:
            (data,) = yield from self._parts(row_group, leaf, [dictionary_extent(chunk)])
            if seal is not None:
                data, _ = open_pages(seal, data, has_dictionary=True)
            return self._values_of_dictionary(row_group, leaf, chunk, data)
        start, stop = pages_extent(chunk)
        (data,) = yield from self._parts(row_group, leaf, [ByteRange(start, stop)])
        before = chunk.data_page_offset - start
        if seal is not None:
            data, before = open_pages(seal, data, has_dictionary=before > 0)
        return self._values_of_pages(row_group, leaf, chunk, data, before)

    def _parts(self, row_group: int, leaf: LeafColumn, wanted: list[ByteRange]) -> Plan[list[bytes]]:
        return (yield from read_extents(wanted, self._footer.start, self._at(row_group, leaf)))

    def _values_of_dictionary(self, row_group: int, leaf: LeafColumn, chunk: Any, data: bytes) -> Iterator[pa.Array]:
        with named_errors(self._source, self._at(row_group, leaf)):
            yield _dictionary(chunk, leaf, data)

    def read_together(self, row_groups: Sequence[int], leaf: LeafColumn) -> Plan[Iterator[pa.Array]]:
        """Plan to return all values of a column in several row groups, which takes less time than one by one.

        Nothing there is encrypted. The arrays are decoded as they are taken; an error may be that of any row group.
        """
        for row_group in row_groups:
            if problem := self._footer.chunk_problem(row_group, leaf):
                raise CorruptFileError(problem)
        extents = [ByteRange(*pages_extent(self._chunk(row_group, leaf))) for row_group in row_groups]
        parts = yield from read_extents(extents, self._footer.start, self._at(row_groups[0], leaf))
        return self._values_of_groups(row_groups, leaf, parts)

    def _values_of_groups(
        self, row_groups: Sequence[int], leaf: LeafColumn, parts: Sequence[bytes]
    ) -> Iterator[pa.Array]:
        moved, start = [], len(MAGIC)
        for row_group, part in zip(row_groups, parts, strict=True):
            chunk = self._chunk(row_group, leaf)
            before = chunk.data_page_offset - pages_extent(chunk)[0]
            moved.append(self._group(row_group, _moved(chunk, before, len(part), chunk.num_values, start)))
            start += len(part)
        with named_errors(self._source, self._at(row_groups[0], leaf)):
            counts = yield from self._decode(pa.BufferReader(b"".join((MAGIC, *parts))), leaf, moved)
        self._check_counts(row_groups, leaf, *counts)

    def _group(self, row_group: int, chunk: Any) -> _Group:
        return _Group(chunk, self._footer.row_groups[row_group].num_rows)

    def _values_of_pages(
        self, row_group: int, leaf: LeafColumn, chunk: Any, data: bytes, before: int
    ) -> Iterator[pa.Array]:
        moved = self._group(row_group, _moved(chunk, before, len(data), chunk.num_values))
        with named_errors(self._source, self._at(row_group, leaf)):
            counts = yield from self._decode(pa.BufferReader(MAGIC + data), leaf, [moved])
        self._check_counts([row_group], leaf, *counts)

    def _values_of_some(
        self, row_group: int, leaf: LeafColumn, chunk: Any, parts: list[bytes], pages: Sequence[Page]
    ) -> Iterator[pa.Array]:
        num_rows = sum(page.num_rows for page in pages)
        of_pages = parts[len(parts) - len(pages) :]
        for page, data in zip(pages, of_pages, strict=True):
            check_page(page, data)
        before = len(parts[0]) if len(parts) > len(pages) else 0
        data = b"".join((MAGIC, *parts))
        moved = _moved(chunk, before, len(data) - len(MAGIC), num_rows)
        with named_errors(self._source, self._at(row_group, leaf)):
            rows, entries, _ = yield from self._decode(pa.BufferReader(data), leaf, [_Group(moved, num_rows)])
        if not rows == entries == num_rows:
            raise CorruptFileError(f"{self._at(row_group, leaf)}: pages of {num_rows} rows have {entries} values")

    def _decode(
        self, handle: Any, leaf: LeafColumn, groups: Sequence[_Group]
    ) -> Generator[pa.Array, None, tuple[int, int, int]]:
        """Yield the values of chunks' pages; return how many rows, values and nulls there were."""
        metadata = _metadata(leaf, [*leaf.nodes], groups)
        entries = rows = nulls = 0
        with (
            handle,
            pq.ParquetFile(
                handle,
                metadata=metadata,
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            ) as file,
        ):
            for batch in file.iter_batches(_batch_rows(groups), use_threads=False):
                rows += batch.num_rows
                array = _leaf_values(batch.column(0))
                entries += len(array)
                nulls += array.null_count
                yield array
        if any((group.chunk.total_uncompressed_size or 0) > BATCH_BYTES for group in groups):
            pa.default_memory_pool().release_unused()  # each thread that decodes would keep as much
        return rows, entries, nulls

    def _check_counts(self, row_groups: Sequence[int], leaf: LeafColumn, rows: int, entries: int, nulls: int) -> None:
        chunks = [self._chunk(row_group, leaf) for row_group in row_groups]
        expected = sum(self._footer.row_groups[row_group].num_rows for row_group in row_groups)
        num_values = sum(chunk.num_values for chunk in chunks)
        counted: list[Any] = [chunk.statistics.null_count if chunk.statistics else None for chunk in chunks]
        # Below a repeated node num_values also counts empty lists, which decoding does not show.
        flat = not leaf.is_repeated
        if rows != expected or entries > num_values or (flat and entries != num_values):
            raise CorruptFileError(
                f"{self._at(row_groups[0], leaf)} decodes to {rows} rows and {entries} values; "
                f"the footer says {expected} and {num_values}",
                path=self._source.name,
            )
        if flat and None not in counted and sum(counted) != nulls:
            raise CorruptFileError(
                f"{self._at(row_groups[0], leaf)} decodes to {nulls} nulls; its statistics say {sum(counted)}",
                path=self._source.name,
            )

    def _chunk(self, row_group: int, leaf: LeafColumn) -> Any:
        key = row_group, leaf.index
        if key not in self._decoded:
            is_encrypted = self._footer.is_encrypted(row_group, leaf)
            chunk = self._footer.column_chunk if is_encrypted else self._footer.whole_column_chunk
            self._decoded[key] = chunk(row_group, leaf.index).meta_data
        return self._decoded[key]

    def _at(self, row_group: int, leaf: LeafColumn) -> str:
        return f"row group {row_group}, column {leaf.name}"


class WrittenChunks(ColumnChunks):
    """The column chunks of a file that is being written: `read_at` returns bytes of it, from a start to a stop."""

    def __init__(self, source: Source, footer: Footer, read_at: Callable[[int, int], bytes]) -> None:
        """`source` is the file that it is to replace, after which errors are named."""
        super().__init__(source, footer)
        self._read_at = read_at

    def values(self, row_group: int, leaf: LeafColumn, *, each: bool = False) -> Iterator[pa.Array]:
        """Yield what `ColumnChunks.values` does."""
        if self._chunk(row_group, leaf).num_values:
            yield from self._carry_out(self.read(row_group, leaf, each=each))

    def _carry_out(self, plan: Plan[_Result]) -> _Result:
        return answered(plan, self._read_at)


def answered(plan: Plan[_Result], read_at: Callable[[int, int], bytes]) -> _Result:
    """Return the result of a plan whose bytes a function returns."""
    parts: list[bytes] | None = None
    while True:
        try:
            wanted = plan.send(parts)  # type: ignore[arg-type]
        except StopIteration as stop:
            result: _Result = stop.value
            return result
        parts = [read_at(r.start, r.stop) for r in wanted]


_VALUES_PER_BYTE = 8


def read_extents(wanted: list[ByteRange], end: int, at: str) -> Plan[list[bytes]]:
    """Plan to return the bytes of pages. Raises `CorruptFileError` unless they lie between the magic and `end`."""
    if any(not len(MAGIC) <= start < stop <= end for start, stop in wanted):
        raise CorruptFileError(f"{at}: its pages are not between the magic and the footer")
    # In pieces, so that a store can send several at once.
    pieces = [
        ByteRange(first, min(first + COALESCE_LIMIT, stop))
        for start, stop in wanted
        for first in range(start, stop, COALESCE_LIMIT)
    ]
    arrived = iter((yield pieces))
    parts = [b"".join(islice(arrived, -(-len(extent) // COALESCE_LIMIT))) for extent in wanted]
    if any(len(part) < len(extent) for part, extent in zip(parts, wanted, strict=True)):
        raise CorruptFileError(f"the file ends inside {at}")
    return parts


@contextlib.contextmanager
def named_errors(source: Source, at: str) -> Iterator[None]:
    """Turn what pyarrow raises of pages that it cannot read into our errors, which say where they are."""
    try:
        yield
    except (pa.ArrowNotImplementedError, NotImplementedError) as error:
        if isinstance(error, UnsupportedError):
            raise
        raise UnsupportedError(f"{at}: {error}") from error
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, ConcurrentChangeError) or (isinstance(error, OSError) and error.errno):
            raise
        raise CorruptFileError(f"{at} does not decode: {error}", path=source.name) from error


def _is_all_dictionary(chunk: Any) -> bool:
    pages = [s for s in chunk.encoding_stats or () if s.page_type in _DATA_PAGES and s.count]
    return bool(pages) and all(s.encoding in _DICTIONARY_ENCODINGS for s in pages) and has_dictionary_page(chunk)


def has_dictionary_page(chunk: Any) -> bool:
    """Return whether a chunk has a dictionary page."""
    return 0 < (chunk.dictionary_page_offset or 0) < (chunk.data_page_offset or 0)


def _read_dictionary(chunk: Any, leaf: LeafColumn, end: int) -> Plan[pa.Array]:
    """Plan to read a chunk's dictionary page and return its values."""
    start, stop = chunk.dictionary_page_offset, min(chunk.data_page_offset, end)
    if start >= stop:
        raise CorruptFileError("the dictionary page starts after the data pages", offset=start)
    (data,) = yield [ByteRange(start, stop)]
    return _dictionary(chunk, leaf, data)


def dictionary_extent(chunk: Any) -> ByteRange:
    """Return the bytes of a chunk's dictionary page."""
    return ByteRange(chunk.dictionary_page_offset, chunk.data_page_offset)


def _dictionary(chunk: Any, leaf: LeafColumn, data: bytes) -> pa.Array:
    """Return the values of a dictionary page, which `data` starts with."""
    start = chunk.dictionary_page_offset
    header, length = decode(ttypes.PageHeader, data)
    dictionary = header.dictionary_page_header
    page = data[length : length + (header.compressed_page_size or 0)]
    if (
        header.type != ttypes.PageType.DICTIONARY_PAGE
        or dictionary is None
        or dictionary.num_values is None
        or header.uncompressed_page_size is None
        or len(page) != header.compressed_page_size
    ):
        raise CorruptFileError("the dictionary page is not where the footer says", offset=start)
    if header.crc is not None and zlib.crc32(page) != header.crc & 0xFFFFFFFF:
        raise CorruptFileError("the dictionary page does not match its checksum", offset=start)
    values = _decode_plain_page(page, dictionary.num_values, header.uncompressed_page_size, chunk, leaf)
    if len(values) != dictionary.num_values or _plain_size(values, leaf) != header.uncompressed_page_size:
        raise CorruptFileError("the dictionary page does not contain the values that its header counts", offset=start)
    return values


def check_page(page: Page, data: bytes) -> None:
    """Raise `CorruptFileError` if a data page has another size or number of values than the page index says."""
    header, length = decode(ttypes.PageHeader, data)
    counted = header.data_page_header or header.data_page_header_v2
    if (
        header.type not in _DATA_PAGES
        or counted is None
        or counted.num_values != page.num_rows
        or length + (header.compressed_page_size or 0) != len(data)
    ):
        raise CorruptFileError("a data page is not what the page index says", offset=page.extent.start)


def _moved(chunk: Any, before: int, size: int, num_values: int, start: int = len(MAGIC)) -> Any:
    """Return a chunk's metadata for `size` bytes of pages at `start`, the first `before` of them the dictionary's."""
    return ttypes.ColumnMetaData(
        type=chunk.type,
        encodings=chunk.encodings,
        codec=chunk.codec,
        num_values=num_values,
        total_uncompressed_size=chunk.total_uncompressed_size,
        total_compressed_size=size,
        data_page_offset=start + before,
        dictionary_page_offset=start if before else None,
    )


def _plain_size(values: pa.Array, leaf: LeafColumn) -> int:
    """Return the bytes that values take when they are plain-encoded, each BYTE_ARRAY after its length."""
    if leaf.width is not None:
        return len(values) * leaf.width
    lengths: int = pc.sum(pc.binary_length(values)).as_py() or 0
    return lengths + 4 * len(values)


def _decode_plain_page(page: bytes, count: int, size: int, chunk: Any, leaf: LeafColumn) -> pa.Array:
    """Return the values of a compressed, plain-encoded page: as a file of that one page if they are not simple."""
    kind = _ARROW_TYPES.get(leaf.physical_type)
    if kind is not None and (plain := _decompressed(page, size, chunk.codec)) is not None:
        return pa.Array.from_buffers(kind, len(plain) * 8 // kind.bit_width, [None, pa.py_buffer(plain)])
    rle = ttypes.Encoding.RLE
    header = encode(
        ttypes.PageHeader(
            type=ttypes.PageType.DATA_PAGE,
            uncompressed_page_size=size,
            compressed_page_size=len(page),
            data_page_header=ttypes.DataPageHeader(count, ttypes.Encoding.PLAIN, rle, rle),
        )
    )
    column = ttypes.ColumnMetaData(
        type=chunk.type,
        encodings=[ttypes.Encoding.PLAIN],
        codec=chunk.codec,
        num_values=count,
        total_uncompressed_size=len(header) + size,
        total_compressed_size=len(header) + len(page),
        data_page_offset=len(MAGIC),
    )
    metadata = _metadata(leaf, [Repetition.REQUIRED], [_Group(column, count)])
    with pq.ParquetFile(pa.BufferReader(MAGIC + header + page), metadata=metadata) as file:
        return file.read(use_threads=False).column(0).combine_chunks()


_ARROW_TYPES = {
    PhysicalType.INT32: pa.int32(),
    PhysicalType.INT64: pa.int64(),
    PhysicalType.FLOAT: pa.float32(),
    PhysicalType.DOUBLE: pa.float64(),
}


def _decompressed(page: bytes, size: int, codec: int) -> bytes | None:
    """Return the plain bytes of a page, at most one more than `size`; None for codecs of which they are not sure."""
    match codec:
        case ttypes.CompressionCodec.UNCOMPRESSED:
            return page
        case ttypes.CompressionCodec.SNAPPY if page.startswith(varint(size)):  # whose output has just this length
            data: bytes = pa.decompress(page, size, "snappy", asbytes=True)
            return data
        case ttypes.CompressionCodec.ZSTD if size >= 0:
            with pa.CompressedInputStream(pa.BufferReader(page), "zstd") as stream:
                read: bytes = stream.read(size + 1)
                return read
    return None


def _metadata(leaf: LeafColumn, nodes: list[Repetition], groups: Sequence[_Group]) -> pq.FileMetaData:
    """Return a footer of row groups with one physical column, below as many groups as `nodes` has."""
    as_bytes = leaf.physical_type is PhysicalType.INT96
    type_ = PhysicalType.FIXED_LEN_BYTE_ARRAY if as_bytes else leaf.physical_type
    names = [f"n{depth}" for depth in range(len(nodes))]
    schema = [ttypes.SchemaElement(name="root", num_children=1)]
    for name, node in zip(names[:-1], nodes[:-1], strict=True):
        schema.append(ttypes.SchemaElement(name=name, repetition_type=int(node), num_children=1))
    length = 12 if as_bytes else leaf.type_length
    schema.append(
        ttypes.SchemaElement(type=int(type_), type_length=length, repetition_type=int(nodes[-1]), name=names[-1])
    )
    row_groups = [
        ttypes.RowGroup(
            columns=[
                ttypes.ColumnChunk(
                    file_offset=0,
                    meta_data=ttypes.ColumnMetaData(
                        type=int(type_),
                        encodings=chunk.encodings,
                        path_in_schema=names,
                        codec=chunk.codec,
                        num_values=chunk.num_values,
                        total_uncompressed_size=chunk.total_uncompressed_size,
                        total_compressed_size=chunk.total_compressed_size,
                        data_page_offset=chunk.data_page_offset,
                        dictionary_page_offset=chunk.dictionary_page_offset,
                    ),
                )
            ],
            total_byte_size=chunk.total_uncompressed_size,
            num_rows=num_rows,
        )
        for chunk, num_rows in groups
    ]
    # The version is 1 and created_by is unset, so that no writer's quirks are corrected behind our back.
    num_rows = sum(group.num_rows for group in groups)
    raw = encode(ttypes.FileMetaData(version=1, schema=schema, num_rows=num_rows, row_groups=row_groups))
    return pq.read_metadata(io.BytesIO(MAGIC + raw + len(raw).to_bytes(4, "little") + MAGIC))


def _batch_rows(groups: Sequence[_Group]) -> int:
    num_rows = sum(group.num_rows for group in groups)
    row_bytes = max(1.0, sum(group.chunk.total_uncompressed_size or 0 for group in groups) / max(1, num_rows))
    return int(min(max(BATCH_BYTES / row_bytes, 256), 128 * 1024))


def bits_type(kind: pa.DataType) -> pa.DataType:
    """Return the type as which values are viewed to compare their bits: 0.0 is not -0.0 then, and a NaN is itself."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(bits_type(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = kind.value_field.with_type(bits_type(kind.value_type))
        return pa.list_(element) if pa.types.is_list(kind) else pa.large_list(element)
    return {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(kind, kind)


def _leaf_values(array: pa.Array) -> pa.Array:
    """Return the leaf's values without the groups and lists around it."""
    while True:
        if pa.types.is_struct(array.type):
            array = array.flatten()[0]
        elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
            array = array.flatten()
        else:
            return array
