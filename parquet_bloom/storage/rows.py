"""Rows of a file as pyarrow reads them: some columns of a row group, and of these only the pages with rows that count.

pyarrow is given a footer of our own with one row group of the wanted columns, whose pages lie in a buffer. Types are
those of `pyarrow.parquet.read_table`, but INT96 is an instant in microseconds, so that any year fits, as in Spark.
"""

from __future__ import annotations

import base64
import copy
import io
from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.encryption import open_pages
from parquet_bloom.format.footer import MAGIC, Footer, Plan, pages_extent, parse_footer, together
from parquet_bloom.format.page_index import Page, read_places
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.schema import ColumnPath, LeafColumn, PhysicalType
from parquet_bloom.format.thrift_io import encode
from parquet_bloom.storage.columns import check_page, dictionary_extent, has_dictionary_page, named_errors, read_extents
from parquet_bloom.storage.listing import Source
from parquet_bloom.values.arrays import int96_nanoseconds, numbers_as_arrow

PAGES_WORTH = 64 * 1024
"""From this size on, the places of a chunk's pages are read first, to read only those with rows that count."""

_ARROW_SCHEMA = "ARROW:schema"


class Field(NamedTuple):
    """A top-level column: its nodes in the schema, and its leaves."""

    name: str
    elements: tuple[Any, ...]
    leaves: tuple[LeafColumn, ...]

    @property
    def is_flat(self) -> bool:
        """Whether each row has one value, which pages can be told apart by."""
        return len(self.leaves) == 1 and not self.leaves[0].is_repeated


class FileRows:
    """The rows of one file."""

    def __init__(
        self,
        source: Source,
        footer: Footer,
        paths: Sequence[ColumnPath] | None = None,
        *,
        instants: Mapping[str, pa.DataType] | None = None,
    ) -> None:
        """`paths` rename what is below top-level columns: the leaves' paths, each as long as in the file.

        `instants` are types in nanoseconds, by columns: one that is an INT96 is returned as such, or not at all.
        """
        self._source, self._footer = source, footer
        self._instants = dict(instants or {})
        self.paths: tuple[ColumnPath, ...] = (
            tuple(leaf.path for leaf in footer.leaves) if paths is None else tuple(paths)
        )
        self._chunks: dict[tuple[int, int], Any] = {}

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The top-level columns by name. Raises `UnsupportedError` if two have the same name."""
        found = _fields(tuple(self._footer.leaves), self._footer.schema_elements)
        found = [_as_bytes(field) if self._is_exact(field) else field for field in found]
        if self._is_renamed:
            found = [field._replace(elements=tuple(_renamed(field, self.paths))) for field in found]
        fields = {field.name: field for field in found}
        if len(fields) < len(found):
            raise UnsupportedError("two of its columns have the same name")
        return fields

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns and their types, without metadata."""
        with named_errors(self._source, "its schema"):
            return _schema(tuple(self.fields.values()), self._arrow_schema, self._instants)

    def _is_exact(self, field: Field) -> bool:
        return field.name in self._instants and _is_int96(field)

    @cached_property
    def _is_renamed(self) -> bool:
        return any(path != leaf.path for path, leaf in zip(self.paths, self._footer.leaves, strict=True))

    def share_schema(self, of_files: dict[Hashable, FileRows]) -> None:
        """Take `fields` and `schema` from one of these files if it has the same ones, else make them for the others."""
        footer = self._footer
        encoded = footer.encoded_schema
        shown = self.paths, self._arrow_schema, *self._instants.items()
        key = None if encoded is None else (encoded, id(footer.leaves), *shown)
        if key is not None and (alike := of_files.get(key)) is not None:
            self.fields, self.schema = alike.fields, alike.schema
            return
        self.schema  # noqa: B018  # raises what is wrong with it
        if key is not None:
            of_files[key] = self

    @cached_property
    def _arrow_schema(self) -> str | None:
        if self._is_renamed or any(map(self._is_exact, self.fields.values())):
            return None  # it has the old names, or the old types
        try:
            return self._footer.key_values.get(_ARROW_SCHEMA)
        except CorruptFileError:
            return None

    def num_bytes(self, row_group: int, names: Iterable[str]) -> int:
        """Return the bytes of columns' pages in a row group, as far as `read` can read them."""
        leaves = (leaf for name in names for leaf in self.fields[name].leaves)
        readable = (leaf for leaf in leaves if not self._footer.chunk_problem(row_group, leaf))
        return sum(_size(self._chunk(row_group, leaf)) for leaf in readable)

    def read(self, row_group: int, names: Sequence[str], rows: array[int] | None = None) -> Plan[dict[str, Any]]:
        """Plan to return chunked arrays of columns, of `rows` alone if they are given, by ascending number.

        Raises `CorruptFileError` for pages that do not decode to what the footer counts, and `UnsupportedError` for
        what pyarrow cannot read.
        """
        fields = [self.fields[name] for name in names]
        some = [field for field in fields if rows is not None and self._has_pages_to_spare(row_group, field, len(rows))]
        rest = [field for field in fields if field not in some]
        plans: list[Plan[dict[str, Any]]] = [self._read_some(row_group, field, rows or array("q")) for field in some]
        if rest:
            plans.append(self._read_whole(row_group, rest, rows))
        columns: dict[str, Any] = {}
        for part in (yield from together(plans)):
            columns.update(part)
        return columns

    def read_ahead(self, row_group: int, names: Iterable[str]) -> list[Plan[Any]]:
        """Return plans for what `read` will ask for first, if it is called for few rows of these columns."""
        fields = [self.fields[name] for name in names]
        return [
            read_places(self._footer, row_group, field.leaves[0])
            for field in fields
            if self._has_pages_to_spare(row_group, field, 0)
        ]

    def _has_pages_to_spare(self, row_group: int, field: Field, num_rows: int) -> bool:
        return (
            field.is_flat
            and not self._footer.is_encrypted(row_group, field.leaves[0])
            and num_rows < self._footer.row_groups[row_group].num_rows
            and _size(self._chunk(row_group, field.leaves[0])) >= PAGES_WORTH
        )

    def _read_some(self, row_group: int, field: Field, rows: array[int]) -> Plan[dict[str, Any]]:
        """Plan to return those rows of a flat column."""
        (leaf,) = field.leaves
        places = yield from read_places(self._footer, row_group, leaf)
        if places is None:
            return (yield from self._read_whole(row_group, [field], rows))
        pages, taken = _pages_with(places, rows)
        chunk = self._chunk(row_group, leaf)
        dictionary = [dictionary_extent(chunk)] if has_dictionary_page(chunk) else []
        at = self._at(row_group, field)
        parts = yield from read_extents([*dictionary, *(page.extent for page in pages)], self._footer.start, at)
        for page, data in zip(pages, parts[len(dictionary) :], strict=True):
            check_page(page, data)
        moved = _moved(chunk, len(MAGIC), sum(map(len, parts)), len(parts[0]) if dictionary else 0)
        moved.num_values = sum(page.num_rows for page in pages)
        table = self._decode(b"".join((MAGIC, *parts)), [field], [moved], moved.num_values, at)
        return {field.name: table.column(0).take(numbers_as_arrow(taken))}

    def _read_whole(self, row_group: int, fields: Sequence[Field], rows: array[int] | None) -> Plan[dict[str, Any]]:
        """Plan to return columns, of some rows or of all."""
        leaves = [leaf for field in fields for leaf in field.leaves]
        seals = [self._footer.seal_of_pages(row_group, leaf) for leaf in leaves]
        chunks = [self._chunk(row_group, leaf) for leaf in leaves]
        at = self._at(row_group, *fields)
        parts = yield from read_extents([_extent(chunk) for chunk in chunks], self._footer.start, at)
        moved, pages, start = [], [], len(MAGIC)
        for chunk, seal, part in zip(chunks, seals, parts, strict=True):
            before = chunk.data_page_offset - pages_extent(chunk)[0]
            data, before = (part, before) if seal is None else open_pages(seal, part, has_dictionary=before > 0)
            moved.append(_moved(chunk, start, len(data), before))
            pages.append(data)
            start += len(data)
        num_rows = self._footer.row_groups[row_group].num_rows
        table = self._decode(b"".join((MAGIC, *pages)), fields, moved, num_rows, at)
        if rows is not None:
            table = table.take(numbers_as_arrow(rows))
        return dict(zip(table.column_names, table.columns, strict=True))

    def _decode(self, data: bytes, fields: Sequence[Field], chunks: list[Any], num_rows: int, at: str) -> pa.Table:
        with named_errors(self._source, at):
            table = _opened(pa.BufferReader(data), fields, self._arrow_schema, chunks, num_rows).read(use_threads=False)
            if table.num_rows != num_rows:
                raise CorruptFileError(f"{at} has {table.num_rows} rows; the footer says {num_rows}")
            return _as_returned(table, fields, self._instants)

    def _chunk(self, row_group: int, leaf: LeafColumn) -> Any:
        key = row_group, leaf.index
        if key not in self._chunks:
            footer = self._footer
            if problem := footer.chunk_problem(row_group, leaf):
                raise CorruptFileError(problem)
            chunk = footer.column_chunk if footer.is_encrypted(row_group, leaf) else footer.whole_column_chunk
            self._chunks[key] = chunk(row_group, leaf.index).meta_data
        return self._chunks[key]

    def _at(self, row_group: int, *fields: Field) -> str:
        names = ", ".join(field.name for field in fields[:3]) + (", …" if len(fields) > 3 else "")
        return f"row group {row_group}, column {names}"


def _extent(chunk: Any) -> ByteRange:
    return ByteRange(*pages_extent(chunk))


def _size(chunk: Any) -> int:
    """Return the bytes of a chunk's pages; none if it ends before it begins, which `read` refuses."""
    start, stop = pages_extent(chunk)
    return max(0, stop - start)


def _pages_with(places: Sequence[Page], rows: array[int]) -> tuple[list[Page], array[int]]:
    """Return the pages with these rows, and where the rows are among those of the pages."""
    pages, taken = [], array("q")
    first = before = at = 0
    for page in places:
        stop = bisect_left(rows, first + page.num_rows, at)
        if stop > at:
            pages.append(page)
            taken.extend(row - first + before for row in rows[at:stop])
            before += page.num_rows
        first, at = first + page.num_rows, stop
    return pages, taken


def _moved(chunk: Any, start: int, size: int, before: int) -> Any:
    """Return a chunk's metadata for `size` bytes of pages at `start`, the first `before` of them the dictionary's."""
    return ttypes.ColumnMetaData(
        type=chunk.type,
        encodings=chunk.encodings,
        path_in_schema=chunk.path_in_schema,
        codec=chunk.codec,
        num_values=chunk.num_values,
        total_uncompressed_size=chunk.total_uncompressed_size,
        total_compressed_size=size,
        data_page_offset=start + before,
        dictionary_page_offset=start if before else None,
    )


def _fields(leaves: tuple[LeafColumn, ...], elements: Sequence[Any]) -> list[Field]:
    """Return the top-level columns of a schema."""
    fields = []
    at, first = 1, 0
    while at < len(elements):
        stop, open_nodes, num_leaves = at, 1, 0
        while open_nodes:
            children = 0 if elements[stop].type is not None else elements[stop].num_children or 0
            num_leaves += elements[stop].type is not None
            open_nodes += children - 1
            stop += 1
        own = leaves[first : first + num_leaves]
        fields.append(Field(elements[at].name, tuple(elements[at:stop]), own))
        at, first = stop, first + num_leaves
    return fields


def _renamed(field: Field, paths: Sequence[ColumnPath]) -> Iterator[Any]:
    """Yield the nodes of a column; those below the top have the names in the paths of the leaves below them."""
    leaves = iter(field.leaves)
    leaf = next(leaves, None)
    left: list[int] = []  # children that the open groups still have
    for element in field.elements:
        while left and not left[-1]:
            left.pop()
        depth = len(left)
        if left:
            left[-1] -= 1
        renamed = element
        if depth and leaf is not None:
            renamed = copy.copy(element)
            renamed.name = paths[leaf.index][depth]
        yield renamed
        if element.type is None:
            left.append(element.num_children or 0)
        else:
            leaf = next(leaves, None)


def leaves_of(types: Mapping[str, pa.DataType]) -> tuple[LeafColumn, ...]:
    """Return the leaves of a file that pyarrow writes of columns of these types."""
    out = io.BytesIO()
    pq.write_table(pa.schema(list(types.items())).empty_table(), out)
    data = out.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    return parse_footer(len(data), data[-8 - length : -8]).leaves


def _schema(fields: Sequence[Field], arrow_schema: str | None, instants: Mapping[str, pa.DataType]) -> pa.Schema:
    with_values = [field for field in fields if field.leaves]
    empty = _opened(pa.BufferReader(MAGIC), with_values, arrow_schema, [], 0).schema_arrow.empty_table()
    return _as_returned(empty, with_values, instants).schema.remove_metadata()


def _is_int96(field: Field) -> bool:
    return field.is_flat and field.leaves[0].physical_type is PhysicalType.INT96


def _as_bytes(field: Field) -> Field:
    """Return a column of INT96 as one of 12 bytes."""
    element = copy.copy(field.elements[0])
    element.type, element.type_length = ttypes.Type.FIXED_LEN_BYTE_ARRAY, 12
    return field._replace(elements=(element,))


def _as_returned(table: pa.Table, fields: Sequence[Field], instants: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a table whose INT96 columns are instants, and without views, from which pyarrow takes no rows."""
    for number, field in enumerate(fields):
        kind, column = table.schema.field(number).type, table.column(number)
        is_old = _is_int96(field) and pa.types.is_timestamp(kind)
        wanted = pa.timestamp("us", "UTC") if is_old else _VIEWS.get(kind, kind)
        if _is_int96(field) and field.name in instants:
            wanted = instants[field.name]
            column = pa.chunked_array(map(int96_nanoseconds, column.chunks), pa.int64())
        if wanted != kind:
            table = table.set_column(number, table.schema.field(number).with_type(wanted), column.cast(wanted))
    return table


_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def _opened(
    handle: Any, fields: Sequence[Field], arrow_schema: str | None, chunks: list[Any], num_rows: int
) -> pq.ParquetFile:
    """Open a file of one row group with these column chunks, or of none."""
    groups = []
    if chunks:
        types = [element.type for field in fields for element in field.elements if element.type is not None]
        for chunk, kind in zip(chunks, types, strict=True):
            chunk.type = kind  # an INT96 may be read as bytes
        columns = [ttypes.ColumnChunk(file_offset=0, meta_data=chunk) for chunk in chunks]
        size = sum(chunk.total_uncompressed_size or 0 for chunk in chunks)
        groups = [ttypes.RowGroup(columns=columns, total_byte_size=size, num_rows=num_rows)]
    notes = _chosen(arrow_schema, tuple(field.name for field in fields)) if arrow_schema else None
    raw = encode(
        ttypes.FileMetaData(
            version=1,
            schema=[
                ttypes.SchemaElement(name="schema", num_children=len(fields)),
                *(element for field in fields for element in field.elements),
            ],
            num_rows=num_rows,
            row_groups=groups,
            key_value_metadata=[ttypes.KeyValue(_ARROW_SCHEMA, notes)] if notes else None,
        )
    )
    metadata = pq.read_metadata(io.BytesIO(MAGIC + raw + len(raw).to_bytes(4, "little") + MAGIC))
    return pq.ParquetFile(
        handle,
        metadata=metadata,
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",
        page_checksum_verification=True,
    )


@lru_cache(maxsize=256)
def _chosen(arrow_schema: str, names: tuple[str, ...]) -> str | None:
    """Return what a writer noted of its Arrow schema for some columns; None where it does not fit the file's."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(arrow_schema)))
        own = pa.schema([schema.field(name) for name in names])
    except (pa.ArrowException, KeyError, ValueError):
        return None
    return base64.b64encode(own.serialize()).decode("ascii")
