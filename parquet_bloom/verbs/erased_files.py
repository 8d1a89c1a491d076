"""Searches one file for erased keys, whatever it is: Parquet, Avro, JSON, text, what gzip or Zstandard packed.

    Parquet    pages, decoded, and their headers; dictionaries, statistics, page indexes, what writers noted;
               earlier footers; bytes that no footer points to
    Avro       every value and the header; in manifests of Iceberg the column's bounds and partition values
    JSON       every name and value, also within texts; in the log of Delta the column's statistics
    text       as it is, and percent-decoded

What is not understood is searched as bytes, and named: then it is not known that nothing is left.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from parquet_bloom.errors import CorruptFileError, LiteralError, UnsupportedError, describe_error
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.assembly import old_parts
from parquet_bloom.format.fields import BINARY, STRUCT, fields_of
from parquet_bloom.format.footer import ENCRYPTED_MAGIC, MAGIC, Footer, pages_extent, read_footer
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.restore import whole_prefixes
from parquet_bloom.format.schema import ColumnPath, LeafColumn, PhysicalType
from parquet_bloom.format.thrift_io import decode
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.drive import read_range, run
from parquet_bloom.storage.listing import Source
from parquet_bloom.tables.unpacking import AVRO, avro_file, page_headers
from parquet_bloom.values.arrays import plain_array
from parquet_bloom.values.encoding import plain_width
from parquet_bloom.verbs.erased_keys import Wanted, may_learn

if TYPE_CHECKING:
    import pyarrow as pa

MOST_AT_ONCE = 256 * 1024 * 1024
"""Bytes of a file other than Parquet that are unpacked or parsed."""

_GZIP, _ZSTD, _CHECKSUMS, _PUFFIN = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"crc\0", b"PFA1"


@dataclass(slots=True)
class Searched:
    """What was found in a file: by its kind, the numbers of keys.

    `unsearched` says what in it could not be searched. `mistake` is the error of a key that its column cannot be
    compared with. `cuts` are bounds that may be cut from keys: what has them, and
    the beginning that they share.
    """

    found: dict[str, set[int]] = field(default_factory=dict)
    unsearched: list[str] = field(default_factory=list)
    cuts: set[tuple[str, str]] = field(default_factory=set)
    has_column: bool = False
    leaves: tuple[str, ...] = ()
    mistake: LiteralError | None = None

    def add(self, what: str, numbers: set[int]) -> None:
        """Note keys that something has."""
        if numbers:
            self.found.setdefault(what, set()).update(numbers)


@dataclass(frozen=True, slots=True)
class ErasedColumn:
    """The column of the keys: its path in the table, and `names`, by which files may have it."""

    path: ColumnPath
    names: frozenset[ColumnPath]
    field_id: int | None
    """The table's id of it, if it has ids."""
    leaf_of: Callable[[Footer], LeafColumn | None]
    """Returns a file's leaf that is the column; raises where that is not known."""

    def ends(self, path: tuple[str, ...]) -> bool:
        """Return whether a path is one of the column below something else."""
        return any(path[-len(name) :] == name for name in self.names)


def search_file(source: Source, wanted: Wanted, column: ErasedColumn) -> Searched:
    """Return what a file still has of the keys; what keeps it from being searched is in the result."""
    searched = Searched()
    try:
        _search(source, wanted, column, searched)
    except Exception as error:  # a file may hold anything: it is named, and the others are searched
        searched.mistake = error if isinstance(error, LiteralError) else None
        searched.unsearched.append(describe_error(error))
    return searched


def _search(source: Source, wanted: Wanted, column: ErasedColumn, searched: Searched) -> None:
    head = read_range(source, ByteRange(0, min(source.size, len(MAGIC))))
    if head == MAGIC and source.size > 2 * len(MAGIC):
        _Parquet(source, wanted, column, searched).search()
    elif head == ENCRYPTED_MAGIC:
        raise UnsupportedError("it is encrypted")
    elif source.size > MOST_AT_ONCE:
        raise UnsupportedError(f"it has {source.size:,} bytes, more than are read at once")
    else:
        data = read_range(source, ByteRange(0, source.size))
        _Content(source.name, wanted, column, searched).search(data)


# ---- other files -------------------------------------------------------------------------

_LIMITS = ("minValues", "maxValues")
_OF_COLUMNS = (*_LIMITS, "partitionValues", "partitionValues_parsed")
_BOUNDS = ("lower_bounds", "upper_bounds")
_BLOBS = {"apache-datasketches-theta-v1", "deletion-vector-v1"}
"""Blobs of a Puffin file that hold hashes or positions alone."""

_SAID = {("commitInfo", "operationParameters"), ("commitInfo", "userMetadata")}
"""Where a commit has conditions and remarks."""

_OWN = re.compile(rb'\[?"?(rows erased by [^"(=]*)?"?\]?$')
"""The conditions of our own commits, or none."""

_METADATA = (".metadata.json", ".metadata.json.gz")

_VECTORS = re.compile(r"deletion_vector_[0-9a-f-]{36}\.bin")


class _Content:
    """The bytes of a file that is not Parquet, which may be packed in another."""

    def __init__(self, name: str, wanted: Wanted, column: ErasedColumn, searched: Searched) -> None:
        self._name, self._wanted, self._column, self._searched = name, wanted, column, searched
        self._cells: dict[str, list[bytes]] = {}
        self._fields: Mapping[int, Any] = {}
        self._partitions: frozenset[str] = frozenset()

    def search(self, data: bytes) -> None:
        """Search what a file has."""
        base = self._name.rpartition("/")[2]
        if data.startswith(AVRO):
            self._avro(data)
        elif data.startswith((_GZIP, _ZSTD)):
            self.search(_unpacked(data))
        elif data.startswith(_CHECKSUMS):
            if (len(data) - 8) % 4:
                raise CorruptFileError("it does not consist of checksums")
        elif data.startswith(_PUFFIN):
            self._puffin(data)
        elif data.startswith(MAGIC):
            raise UnsupportedError("it is Parquet within another file")
        elif _VECTORS.fullmatch(base) and data[:1] == b"\x01":
            pass  # numbers of rows alone
        elif base.startswith("_bloom-states-"):
            self._json(data[4 : 4 + int.from_bytes(data[:4], "little")])  # behind it are numbers and hashes
        else:
            self._text(data, base)
        for label, cells in self._cells.items():
            self._searched.add(label, self._wanted.within(cells))

    def _text(self, data: bytes, base: str) -> None:
        try:
            is_text = b"\0" not in data and data.decode("utf-8") is not None
        except UnicodeDecodeError:
            is_text = False
        if not is_text:
            self._searched.add("bytes", self._wanted.within([data], apart=False))
            raise UnsupportedError("it is not of a format that is understood")
        is_of_table = "/_delta_log/" in self._name or base.endswith(_METADATA)
        is_json = (is_of_table or base.endswith(".json")) and self._json(data)
        if not self._wanted.searches_text:
            if data.strip() and not is_json:
                raise UnsupportedError("hashed keys cannot be searched for in text; give the keys")
            return
        for label, cells in self._cells.items():
            self._searched.add(label, self._wanted.within(cells))
        known = {number for numbers in self._searched.found.values() for number in numbers}
        words = set() if is_json and is_of_table else self._wanted.as_words(data)
        self._searched.add("text", (self._wanted.within([data]) | words) - known)

    # ---- JSON

    def _json(self, data: bytes) -> bool:
        """Search JSON, or a value in each line, and return whether it is."""
        try:
            values = [json.loads(data)]
        except (ValueError, RecursionError):
            try:
                values = [json.loads(line) for line in data.splitlines() if line.strip()]
            except (ValueError, RecursionError):
                return False
        for value in values:
            self._walk(value, ())
        return True

    def _walk(self, value: Any, path: tuple[str, ...]) -> None:
        """Note every name and value below a path, and compare those of the column."""
        match value:
            case {"key": int(number), "value": bytes(bound)} if path and path[-1] in _BOUNDS and len(value) == 2:
                self._bound(number, bound, path)
            case dict():
                self._note(path, (name.encode("utf-8", "surrogateescape") for name in value))
                for name, below in value.items():
                    self._walk(below, (*path, str(name)))
            case list():
                for below in value:
                    self._walk(below, path)
            case str() | bytes():
                self._leaf(value, path)
            case None | bool():
                pass
            case _:
                self._compare(value, path)
                self._note(path, [str(value).encode()])

    def _leaf(self, value: str | bytes, path: tuple[str, ...]) -> None:
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        if isinstance(value, bytes):
            self._searched.add(_label(path), self._wanted.within([data], apart=False))
        elif value[:1] in ("{", "["):
            with contextlib.suppress(ValueError, RecursionError):
                self._walk(json.loads(value), path)
        self._note(path, [data])
        self._compare(value, path)
        if path[:2] in _SAID:
            self._searched.add(_label(path), self._wanted.as_words(data))
            if path[-1] == "predicate" and not self._wanted.searches_text and not _OWN.match(data):
                self._searched.unsearched.append("the condition of a commit may have a key in its text; give the keys")

    def _note(self, path: tuple[str, ...], cells: Iterable[bytes]) -> None:
        self._cells.setdefault(_label(path), []).extend(cells)

    def _compare(self, value: object, path: tuple[str, ...]) -> None:
        """Compare a value, and a bound that may be cut, if it is one of the column."""
        is_of_column = any(part in _OF_COLUMNS for part in path) and self._column.ends(path)
        if is_of_column or ("partition" in path and path[-1] in self._partitions):
            self._value(value, path, is_bound=any(part in _LIMITS for part in path))

    def _value(self, value: object, path: tuple[str, ...], *, is_bound: bool) -> None:
        found = self._wanted.equal(value)
        self._searched.add(_label(path), found)
        if is_bound and not found and (start := self._wanted.cut(value)):
            self._searched.cuts.add((_label(path), start))

    # ---- Avro

    def _avro(self, data: bytes) -> None:
        header, records = avro_file(data, self._name)
        self._fields, self._partitions = self._of_manifest(header)
        for name, text in header.items():
            self._leaf(text.decode("utf-8", "surrogateescape"), (name,))
        is_known = False
        for record in records:
            is_known = isinstance(record, dict) and not {"data_file", "manifest_path"}.isdisjoint(record)
            self._walk(record, ())
        if self._wanted.short and not is_known:
            self._searched.unsearched.append("what its short values mean is not known, and a key is as short")

    def _of_manifest(self, header: Mapping[str, bytes]) -> tuple[Mapping[int, Any], frozenset[str]]:
        """Return the types of the column by its field id, and the partition fields that are made of it."""
        if "schema" not in header or "partition-spec" not in header:
            return {}, frozenset()
        fields: dict[int, Any] = {}
        for path, one in _fields(json.loads(header["schema"]).get("fields", []), ()):
            if path == self._column.path if self._column.field_id is None else one["id"] == self._column.field_id:
                fields[one["id"]] = one["type"]
        spec = json.loads(header["partition-spec"])
        return fields, frozenset(one["name"] for one in spec if one.get("source-id") in fields)

    def _bound(self, number: int, bound: bytes, path: tuple[str, ...]) -> None:
        if number in self._fields:
            value = _of_bound(self._fields[number], bound)
            self._value(value, path, is_bound=True)
        self._note(path, [bound])

    def _puffin(self, data: bytes) -> None:
        size, flags = struct.unpack("<ii", data[-12:-4])
        if flags or not data.endswith(_PUFFIN):
            raise UnsupportedError("its footer is compressed")
        footer = json.loads(data[-12 - size : -12])
        self._walk(footer, ())
        if unknown := {blob["type"] for blob in footer["blobs"]} - _BLOBS:
            raise UnsupportedError(f"it has blobs of type {', '.join(sorted(unknown))}")


def _label(path: tuple[str, ...]) -> str:
    return ".".join(path[:_LEVELS]) or "text"


_LEVELS = 3


def _unpacked(data: bytes) -> bytes:
    import pyarrow as pa

    name = "gzip" if data.startswith(_GZIP) else "zstd"
    try:
        if name == "gzip":
            with gzip.open(pa.BufferReader(data)) as packed:
                plain = packed.read(MOST_AT_ONCE + 1)
        else:
            with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
                plain = stream.read(MOST_AT_ONCE + 1)
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        raise CorruptFileError(f"it does not unpack: {error}") from error
    if len(plain) > MOST_AT_ONCE:
        raise UnsupportedError("it unpacks to more than is read at once")
    return plain


def _fields(fields: Iterable[Any], path: ColumnPath) -> Iterator[tuple[ColumnPath, Any]]:
    """Yield the fields of an Iceberg schema, also those in structs."""
    for one in fields:
        at = (*path, one["name"])
        if isinstance(one["type"], dict):
            yield from _fields(one["type"].get("fields", ()), at)
        else:
            yield at, one


_EPOCH = datetime(1970, 1, 1)  # of times without a zone, too


def _of_bound(kind: str, bound: bytes) -> object:
    """Return the value of a bound as Iceberg stores it; the bytes of a type that is not known."""
    number = int.from_bytes(bound, "little", signed=True)
    match kind.partition("(")[0]:
        case "int" | "long":
            return number
        case "string":
            return bound.decode("utf-8", "surrogateescape")
        case "date":
            return date(1970, 1, 1) + timedelta(days=number)
        case "timestamp":
            return _EPOCH + timedelta(microseconds=number)
        case "timestamptz":
            return (_EPOCH + timedelta(microseconds=number)).replace(tzinfo=UTC)
        case "float" | "double":
            (value,) = struct.unpack("<f" if len(bound) == 4 else "<d", bound)
            return value
        case "decimal":
            scale = int(kind.partition(",")[2].rstrip(") "))
            return Decimal(int.from_bytes(bound, "big", signed=True)).scaleb(-scale)
    return bound


# ---- Parquet -----------------------------------------------------------------------------


class _Parquet:
    """A Parquet file, with all its footers."""

    def __init__(self, source: Source, wanted: Wanted, column: ErasedColumn, searched: Searched) -> None:
        self._source, self._wanted, self._column, self._searched = source, wanted, column, searched
        self._known: list[ByteRange] = [ByteRange(0, len(MAGIC))]
        """The bytes that footers point to."""
        self._own: set[int] = set()
        """The leaves that are the column, or are about it, by their indexes."""

    def search(self) -> None:
        """Search all that a file has."""
        footer = run(self._source, read_footer(self._source.size, guess=self._source.footer_guess, keeps_tail=False))
        try:
            own = self._column.leaf_of(footer)
        except UnsupportedError as error:  # what has its name may be it
            self._searched.unsearched.append(describe_error(error))
            own = next((leaf for leaf in footer.leaves if leaf.path == self._column.path), None)
        self._searched.leaves = tuple(leaf.name for leaf in footer.leaves)
        if own is not None:
            self._searched.has_column = True
            self._wanted.learn(own)
        self._own = {leaf.index for leaf in footer.leaves if leaf == own or self._is_of_column(leaf)}
        chunks = ColumnChunks(self._source, footer)
        for row_group in range(footer.num_row_groups):
            for leaf in footer.leaves:
                if footer.is_encrypted(row_group, leaf):
                    self._searched.unsearched.append(f"column {leaf.name} is encrypted")
                    continue
                if problem := footer.chunk_problem(row_group, leaf):
                    raise CorruptFileError(f"row group {row_group}, column {leaf.name}: {problem}")
                self._values(chunks, row_group, leaf)
                self._headers(footer, row_group, leaf)
        for state in run(self._source, whole_prefixes(footer)):
            self._footer(state)
        self._gaps(footer)

    def _is_of_column(self, leaf: LeafColumn) -> bool:
        """Return whether a leaf is about the column: in a checkpoint, or a delete file."""
        is_about = leaf.path[0] == "row" or any(part in _OF_COLUMNS for part in leaf.path)
        return is_about and self._column.ends(leaf.path) and may_learn(self._wanted, leaf)

    def _values(self, chunks: ColumnChunks, row_group: int, leaf: LeafColumn) -> None:
        dictionary = chunks.dictionary(row_group, leaf)
        entries = set() if dictionary is None else self._in(leaf, dictionary)
        used: set[int] = set()
        if dictionary is None or entries or not chunks.has_dictionary_alone(row_group, leaf):
            for values in chunks.values(row_group, leaf, each=True):
                used |= self._in(leaf, values.drop_null())
        self._searched.add(f"values of {leaf.name}", used)
        self._searched.add(f"entries of the dictionary of {leaf.name} that no row uses", entries - used)

    def _in(self, leaf: LeafColumn, values: pa.Array) -> set[int]:
        """Return the keys among the values of a leaf, or within them."""
        found: set[int] = set()
        if is_own := leaf.index in self._own:
            found |= self._wanted.in_array(leaf, values)
            if any(part in _LIMITS for part in leaf.path):
                self._note_cuts(f"values of {leaf.name}", values.unique().to_pylist())
        elif self._wanted.searches_text and _may_be(leaf) and may_learn(self._wanted, leaf):
            found |= self._wanted.in_array(leaf, values) - self._wanted.short
        if leaf.physical_type in (PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY) and not is_own:
            cells = values.unique().to_pylist()
            found |= self._wanted.within(cells)
            for cell in cells if leaf.path[-1] == "stats" else ():
                self._nested(leaf, cell)
        return found

    def _nested(self, leaf: LeafColumn, cell: bytes) -> None:
        """Search the statistics that a checkpoint of Delta has as JSON."""
        inner = _Content(self._source.name, self._wanted, self._column, self._searched)
        inner._walk({leaf.name: cell.decode("utf-8", "surrogateescape")}, ())

    def _headers(self, footer: Footer, row_group: int, leaf: LeafColumn) -> None:
        """Search the statistics in the headers of pages; all bytes of a chunk must be pages."""
        start, stop = _extent(footer.chunk(row_group, leaf))
        if start == stop:
            return
        num_values = 0
        data = read_range(self._source, ByteRange(start, stop))
        for at, header in page_headers(data):
            counted = header.data_page_header or header.data_page_header_v2
            if counted is not None:
                num_values += counted.num_values or 0
                self._bounds(leaf, _bounds_of_page(data, at), "header of a page")
        if num_values != footer.chunk(row_group, leaf).num_values:
            self._searched.unsearched.append(f"column {leaf.name} has pages that its footer does not count")

    def _bounds(self, leaf: LeafColumn, bounds: Iterable[bytes | None], where: str) -> None:
        cells = {bound for bound in bounds if bound}
        if not cells:
            return
        what = f"bounds of {leaf.name}, in the {where}"
        if leaf.index not in self._own:
            self._searched.add(what, self._wanted.within(cells))
            return
        width = plain_width(leaf)
        values = plain_array(leaf, [cell for cell in cells if width is None or len(cell) == width])
        found = self._wanted.in_array(leaf, values)
        self._searched.add(what, found)
        if width is None and not found:
            self._note_cuts(what, cells)

    def _note_cuts(self, what: str, bounds: Iterable[object]) -> None:
        starts = {start for bound in bounds if (start := self._wanted.cut(bound)) and not self._wanted.equal(bound)}
        self._searched.cuts |= {(what, start) for start in starts}

    def _footer(self, footer: Footer) -> None:
        """Search a footer, and note what it points to."""
        where = "footer" if footer.file_size == self._source.size else "earlier footer"
        self._known.append(ByteRange(footer.start, footer.file_size))
        for row_group in range(footer.num_row_groups):
            for leaf in footer.leaves:
                if footer.is_encrypted(row_group, leaf):
                    continue
                chunk = footer.whole_column_chunk(row_group, leaf.index)
                self._known.append(_extent(chunk.meta_data))
                if (known := chunk.meta_data.statistics) is not None:
                    self._bounds(leaf, (known.min, known.max, known.min_value, known.max_value), where)
                parts = old_parts(footer, row_group, leaf, None)
                for place in (parts.column_index, parts.offset_index):
                    self._known += [place] if place is not None else []
                if parts.column_index is not None:
                    index, _ = decode(ttypes.ColumnIndex, read_range(self._source, parts.column_index))
                    self._bounds(leaf, [*(index.min_values or ()), *(index.max_values or ())], "page index")
        for row_group, leaf in footer.chunks_with_filters(footer.leaves):
            if (location := footer.filter_location(row_group, leaf)) is not None:
                start = location.offset
                head = read_range(self._source, ByteRange(start, min(start + _FILTER_HEADER, footer.start)))
                filter_header, length = decode(ttypes.BloomFilterHeader, head)
                self._known.append(ByteRange(start, start + length + (filter_header.numBytes or 0)))
        notes = [text.encode("utf-8", "surrogateescape") for pair in footer.key_values.items() for text in pair if text]
        self._searched.add(f"notes in the {where}", self._wanted.within(notes))
        if self._wanted.searches_text:
            known = {number for numbers in self._searched.found.values() for number in numbers}
            self._searched.add(where, self._wanted.within([footer.raw]) - known)

    def _gaps(self, footer: Footer) -> None:
        """Search the bytes that no footer points to; but for zeros and copies of metadata they may be anything."""
        position, unknown = 0, 0
        for known in [*sorted(self._known), ByteRange(footer.file_size, footer.file_size)]:
            if known.start > position:
                data = read_range(self._source, ByteRange(position, known.start))
                copies = [*_copies(footer, data)]
                for leaf, bounds in copies:
                    self._bounds(leaf, bounds, "metadata behind its pages")
                self._searched.add("bytes that no footer points to", self._wanted.within([data], apart=bool(copies)))
                unknown += len(data) if data.strip(b"\0") and not copies else 0
            position = max(position, known.stop)
        if unknown:
            self._searched.unsearched.append(f"no footer points to {unknown:,} of its bytes, which may be packed pages")


def _extent(chunk: Any) -> ByteRange:
    """Return where the pages of a chunk are; one without values may say where its dictionary is alone."""
    if chunk.num_values or chunk.data_page_offset:
        return ByteRange(*pages_extent(chunk))
    start = chunk.dictionary_page_offset or 0
    return ByteRange(start, start + (chunk.total_compressed_size or 0))


def _copies(footer: Footer, data: bytes) -> Iterator[tuple[LeafColumn, tuple[bytes | None, ...]]]:
    """Yield the leaves and bounds of the copies of column metadata that bytes consist of; none if these are not all.

    Some writers put one behind the pages of each column chunk, as `file_offset` once asked for.
    """
    found, position = [], 0
    while position < len(data):
        for kind in (ttypes.ColumnMetaData, ttypes.ColumnChunk):
            with contextlib.suppress(CorruptFileError):
                read: Any
                read, size = decode(kind, data[position:])
                chunk = read if kind is ttypes.ColumnMetaData else read.meta_data
                path = tuple(getattr(chunk, "path_in_schema", None) or ())
                leaf = next((one for one in footer.leaves if one.path == path), None)
                if leaf is not None:
                    break
        else:
            return
        known, position = chunk.statistics, position + size
        found.append((leaf, () if known is None else (known.min, known.max, known.min_value, known.max_value)))
    yield from found


_FILTER_HEADER = 64


def _bounds_of_page(data: bytes, at: int) -> Iterator[bytes]:
    """Yield the bounds in the header of a data page, which no reader uses, but many writers write."""
    for page in _structs(data, at, {_DATA_PAGE: _STATISTICS, _DATA_PAGE_V2: _STATISTICS_V2}):
        for one in fields_of(data, page)[0]:
            if one.type == BINARY:
                yield data[one.value : one.end][-_length(data, one.value) :]


_DATA_PAGE, _STATISTICS, _DATA_PAGE_V2, _STATISTICS_V2 = 5, 5, 8, 8  # numbers of fields


def _structs(data: bytes, at: int, ways: Mapping[int, int]) -> Iterator[int]:
    for header in fields_of(data, at)[0]:
        for one in fields_of(data, header.value)[0] if header.id in ways and header.type == STRUCT else ():
            if one.id == ways[header.id] and one.type == STRUCT:
                yield one.value


def _length(data: bytes, at: int) -> int:
    """Return the varint at a position."""
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        if data[at] < 128:
            return number
        at, shift = at + 1, shift + 7


def _may_be(leaf: LeafColumn) -> bool:
    """Return whether a value of another column that equals a key is worth a word: not flags, counts and dates."""
    logical = leaf.logical_type.name if leaf.logical_type is not None else None
    return leaf.physical_type in (PhysicalType.INT64, PhysicalType.FIXED_LEN_BYTE_ARRAY) and logical in (
        *(None, "INTEGER", "DECIMAL", "UUID"),
    )


__all__ = ["ErasedColumn", "Searched", "search_file"]
