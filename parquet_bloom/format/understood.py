"""Says what of a file is not understood, for verbs that leave bytes out or move them: by name, or by its place.

Two closed rules. A footer is understood if `thrift/parquet.thrift` has each of its fields and values: an unknown one
may point to bytes, or repeat what is meant to be gone. And each byte of the file must be explained by a footer: by the
newest one, or by an earlier one that `add` or `drop` left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from thrift.Thrift import TType

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.assembly import old_parts, pages_of
from parquet_bloom.format.fields import BINARY, I16, I32, I64, LIST, STRUCT, Field, fields_of, numbers_in, structs_in
from parquet_bloom.format.footer import MAGIC, Footer, Plan
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.recovery import filter_lengths
from parquet_bloom.format.restore import whole_prefixes
from parquet_bloom.format.schema import LeafColumn, format_path
from parquet_bloom.format.thrift_io import decode

# ---- the definition ----------------------------------------------------------------------

_BOOLS, _BYTE, _DOUBLE = (1, 2), 3, 7
_ENCODED_AS = {
    TType.BOOL: _BOOLS,
    TType.BYTE: (_BYTE,),
    TType.I16: (I16,),
    TType.I32: (I32,),
    TType.I64: (I64,),
    TType.DOUBLE: (_DOUBLE,),
    TType.STRING: (BINARY,),
    TType.LIST: (LIST,),
    TType.STRUCT: (STRUCT,),
}
ENUMS: dict[tuple[str, str], type] = {
    ("SchemaElement", "type"): ttypes.Type,
    ("SchemaElement", "repetition_type"): ttypes.FieldRepetitionType,
    ("SchemaElement", "converted_type"): ttypes.ConvertedType,
    ("GeographyType", "algorithm"): ttypes.EdgeInterpolationAlgorithm,
    ("ColumnMetaData", "type"): ttypes.Type,
    ("ColumnMetaData", "encodings"): ttypes.Encoding,
    ("ColumnMetaData", "codec"): ttypes.CompressionCodec,
    ("PageEncodingStats", "page_type"): ttypes.PageType,
    ("PageEncodingStats", "encoding"): ttypes.Encoding,
    ("PageHeader", "type"): ttypes.PageType,
    ("DataPageHeader", "encoding"): ttypes.Encoding,
    ("DataPageHeader", "definition_level_encoding"): ttypes.Encoding,
    ("DataPageHeader", "repetition_level_encoding"): ttypes.Encoding,
    ("DataPageHeaderV2", "encoding"): ttypes.Encoding,
    ("DictionaryPageHeader", "encoding"): ttypes.Encoding,
    ("ColumnIndex", "boundary_order"): ttypes.BoundaryOrder,
}
"""The fields with numbers that are names: the generated structs do not say which these are."""


class _Known(NamedTuple):
    """A field of a struct: how it is encoded, the struct that it holds or lists, and the values that it may have."""

    name: str
    kinds: tuple[int, ...]
    of: tuple[int, ...]  # how the elements of a list are encoded
    struct: Any
    values: type | None


def _fields(struct: Any) -> dict[int, _Known]:
    found = {}
    for id, kind, name, of, _ in filter(None, struct.thrift_spec):
        elements, inner = (_ENCODED_AS[of[0]], of[1]) if kind == TType.LIST else ((), of)
        below = inner[0] if isinstance(inner, list) else None
        found[id] = _Known(name, _ENCODED_AS[kind], elements, below, ENUMS.get((struct.__name__, name)))
    return found


_FIELDS: dict[type, dict[int, _Known]] = {}


def unknown_in(struct: Any, data: bytes, at: int = 0, path: str = "") -> Iterator[str]:
    """Yield what of an encoded struct the definition does not have, such as `the field 99 of RowGroup`, and where."""
    known = _FIELDS.get(struct) or _FIELDS.setdefault(struct, _fields(struct))
    seen = set()
    for field in fields_of(data, at)[0]:
        one = known.get(field.id)
        if one is None or field.id in seen or not _is_encoded_as(one, data, field):
            yield f"the field {field.id} of {struct.__name__}{path and f' ({path})'}"
            continue
        seen.add(field.id)
        here = f"{path}.{one.name}" if path else one.name
        if one.values is not None:
            for number in numbers_in(data, field):
                if number not in one.values._VALUES_TO_NAMES:  # type: ignore[attr-defined]
                    yield f"the value {number} of {one.values.__name__} ({here})"
        elif one.struct is not None and field.type == LIST:
            for number, (start, _) in enumerate(pairwise(structs_in(data, field))):
                yield from unknown_in(one.struct, data, start, f"{here}[{number}]")
        elif one.struct is not None:
            yield from unknown_in(one.struct, data, field.value, here)


def _is_encoded_as(known: _Known, data: bytes, field: Field) -> bool:
    if field.type == LIST and known.of:
        is_empty = data[field.value] >> 4 == 0
        return is_empty or data[field.value] & 15 in known.of
    return field.type in known.kinds


def require_understood(footer: Footer) -> None:
    """Raise `UnsupportedError` unless all of a footer is understood, and points to all that belongs to the file."""
    if unknown := next(unknown_in(ttypes.FileMetaData, footer.raw), None):
        raise UnsupportedError(f"the footer has {unknown}, which is not understood")
    if behind := len(footer.raw) - fields_of(footer.raw, 0)[1] - 1:
        raise UnsupportedError(f"the footer has {behind:,} bytes behind FileMetaData, which are not understood")
    for element in footer.schema_elements:
        if element.logicalType is not None and element.logicalType.FILE is not None:
            raise UnsupportedError(
                f"{format_path([element.name])} is a FILE: its values may point to bytes of this file, "
                "which would be lost"
            )


# ---- bytes -------------------------------------------------------------------------------


def require_understood_indexes(footer: Footer) -> Plan[None]:
    """Plan to raise `UnsupportedError` unless all of the page indexes is understood."""
    indexes = []
    for row_group, leaf, _ in footer.chunks():
        parts = old_parts(footer, row_group, leaf, None)
        for struct, place in (ttypes.ColumnIndex, parts.column_index), (ttypes.OffsetIndex, parts.offset_index):
            if place is not None:
                indexes.append((struct, place, f"row group {row_group}, column {leaf.name}"))
    encoded = yield [place for _, place, _ in indexes]
    for (struct, _, at), data in zip(indexes, encoded, strict=True):
        if unknown := next(unknown_in(struct, data), None):
            raise UnsupportedError(f"{at}: its page index has {unknown}, which is not understood")


def require_explained(footer: Footer) -> Plan[None]:
    """Plan to raise `UnsupportedError` for bytes that no footer points to, unless they are padding: zeros."""
    explained = [ByteRange(0, len(MAGIC)), *(yield from _explained_by(footer))]
    if not [*_gaps(explained, footer.file_size)]:
        return
    for earlier in (yield from whole_prefixes(footer))[:-1]:  # which have the same pages and page indexes
        explained += yield from _own_bytes(earlier)
    explained += yield from _copies_of_metadata(footer, [*_gaps(explained, footer.file_size)])
    for gap in _gaps(explained, footer.file_size):
        for at in range(gap.start, gap.stop, _STEP):
            (data,) = yield [ByteRange(at, min(at + _STEP, gap.stop))]
            if data.strip(b"\0"):
                raise UnsupportedError(
                    f"bytes {gap.start:,} to {gap.stop:,} of the file are not understood: no footer points to them, "
                    "and they would be lost"
                )


_STEP = 4 * 1024 * 1024


def _gaps(explained: Iterable[ByteRange], size: int) -> Iterator[ByteRange]:
    at = 0
    for start, stop in [*sorted(explained), (size, size)]:
        if at < start:
            yield ByteRange(at, start)
        at = max(at, stop)


def _explained_by(footer: Footer) -> Plan[list[ByteRange]]:
    """Plan to return where a footer, and what it points to, are."""
    found = yield from _own_bytes(footer)
    for row_group, leaf, chunk in footer.chunks():
        found.append(_pages_of(footer, row_group, leaf, chunk))
        found += filter(None, old_parts(footer, row_group, leaf, None))
    return found


def _own_bytes(footer: Footer) -> Plan[list[ByteRange]]:
    """Plan to return where a footer and its filters are."""
    lengths = yield from filter_lengths(footer)
    return [
        ByteRange(footer.start, footer.file_size),
        *(ByteRange(start, start + length) for start, length in lengths.items()),
    ]


def _pages_of(footer: Footer, row_group: int, leaf: LeafColumn, chunk: Any) -> ByteRange:
    if chunk.num_values:
        return pages_of(footer, row_group, leaf)
    # pyarrow writes a dictionary for no values, and then has no offset of data pages.
    start = chunk.dictionary_page_offset or chunk.data_page_offset or 0
    stop = start + (chunk.total_compressed_size or 0)
    return ByteRange(start, stop) if len(MAGIC) <= start < stop <= footer.start else ByteRange(0, 0)


_COPY_BYTES = 64 * 1024


def _copies_of_metadata(footer: Footer, gaps: list[ByteRange]) -> Plan[list[ByteRange]]:
    """Plan to return where copies of column chunks' metadata are: some writers leave one behind the pages.

    Neither is their `file_offset` always where it is, nor are the offsets in it those in the footer.
    """
    stops = {_pages_of(footer, row_group, leaf, chunk).stop: chunk for row_group, leaf, chunk in footer.chunks()}
    places = {gap.start: stops[gap.start] for gap in gaps if gap.start in stops}
    parts = yield [ByteRange(at, min(at + _COPY_BYTES, stop)) for at, stop in gaps if at in places]
    found = []
    for (at, chunk), part in zip(places.items(), parts, strict=True):
        for struct in (ttypes.ColumnMetaData, ttypes.ColumnChunk):
            if length := _length_of_copy(struct, part, chunk):
                found.append(ByteRange(at, at + length))
    return found


def _length_of_copy(struct: Any, data: bytes, chunk: Any) -> int:
    """Return how many bytes a copy of a chunk's metadata takes, with which `data` begins; 0 if it does not."""
    try:
        copy, length = decode(struct, data)
        metadata = copy if struct is ttypes.ColumnMetaData else copy.meta_data
        if next(unknown_in(struct, data), None) or metadata is None:
            return 0
    except CorruptFileError:
        return 0
    same = ("type", "path_in_schema", "codec", "num_values", "total_compressed_size")
    return length if all(getattr(metadata, name) == getattr(chunk, name) for name in same) else 0
