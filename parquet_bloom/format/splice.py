"""Edits a footer's bytes without decoding what it does not touch.

A footer that is read into structs and written back loses the fields that the structs do not know, and its
bytes. Here the compact encoding is walked, only the structs that change are re-emitted, field by field with their
original bytes, and everything else is copied. The header of the field that follows an inserted or removed one is the
only other thing that can change. (fields.py; parquet.thrift for the ids.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, takewhile

from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format.fields import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Field,
    fields_of,
    header,
    last_field,
    list_of,
    structs_in,
)
from parquet_bloom.format.footer import MAGIC
from parquet_bloom.format.thrift_io import varint

FilterEdit = tuple[int, int] | None
"""The new (bloom_filter_offset, bloom_filter_length) of a column chunk, or None to clear both."""

_ROW_GROUPS, _COLUMNS, _META_DATA, _FILTER_OFFSET, _FILTER_LENGTH = 4, 1, 3, 14, 15
_KEY_VALUES = 5


def splice_filters(footer: bytes, edits: Mapping[tuple[int, int], FilterEdit]) -> bytes:
    """Return `footer` with fields 14 and 15 set or cleared in the given column chunks, all else unchanged.

    `footer` is the encoded FileMetaData with whatever follows it; `edits` maps (row group, column chunk) to
    the new fields. Raises `CorruptFileError` if a chunk is not there or the bytes are not a compact struct.
    """
    pieces: list[bytes] = []
    copied = 0
    for key, start, fields, stop in _column_metadata(footer, edits.keys()):
        pieces += footer[copied:start], _emit(footer, fields, edits[key])
        copied = stop
    return b"".join([*pieces, footer[copied:]])


def is_cut_off_splice(footer: bytes, part: bytes, lengths: Mapping[int, int]) -> bool:
    """Return whether some splice of filters into `footer`, its length and the magic begin with `part`, and go on.

    `lengths` has the filters that the splice may name: offset -> length.
    """
    done = copied = 0
    for _, start, fields, stop in _column_metadata(footer, _all_chunks(footer)):
        rest = part[done:]
        piece = footer[copied:start]
        if len(rest) <= len(piece):
            return piece.startswith(rest)
        if not rest.startswith(piece):
            return False
        done += len(piece)
        emitted = _emitted(footer, fields, stop, part[done:], lengths)
        if emitted is None:
            return False
        done += len(emitted)
        copied = stop + 1
        if done >= len(part):
            return True
    piece = footer[copied:]
    end = piece + (done + len(piece)).to_bytes(4, "little") + MAGIC
    return len(part) - done < len(end) and end.startswith(part[done:])


def _all_chunks(footer: bytes) -> Iterator[tuple[int, int]]:
    for group, (at, _) in enumerate(pairwise(structs_in(footer, last_field(footer, 0, _ROW_GROUPS, LIST)))):
        columns = len(structs_in(footer, last_field(footer, at, _COLUMNS, LIST))) - 1
        yield from ((group, column) for column in range(columns))


def _emitted(footer: bytes, fields: list[Field], stop: int, part: bytes, lengths: Mapping[int, int]) -> bytes | None:
    """Return the ColumnMetaData that `part` begins with, or that begins with `part`, if a splice could have made it."""
    same = footer[fields[0].start : stop + 1] if fields else footer[stop : stop + 1]
    ways = [same, _emit(footer, fields, None) + b"\0"]
    before = [f for f in takewhile(lambda f: f.id <= _FILTER_LENGTH, fields) if f.id < _FILTER_OFFSET]
    previous = before[-1].id if before else 0
    lead = _emit(footer, before, None) + header(previous, _FILTER_OFFSET, I64)
    if part.startswith(lead):
        offset = _zigzag(part, len(lead))
        offsets = lengths if offset is None else {offset} & lengths.keys()
        ways += (_emit(footer, fields, (each, lengths[each])) + b"\0" for each in offsets)
    else:
        ways.append(lead)
    return next((way for way in ways if part.startswith(way) or way.startswith(part)), None)


def _zigzag(data: bytes, at: int) -> int | None:
    """Return the number, not negative, whose zigzag varint starts at `at`; None where the bytes end before it does."""
    value = 0
    for shift, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value >> 1
    return None


def splice_key_values(footer: bytes, entries: Mapping[str, str | None]) -> bytes:
    """Return `footer` with entries of `key_value_metadata` set, or taken out where they are None, all else unchanged.

    An entry that is there already is replaced, however often it is there; new ones come last, in order. Raises
    `CorruptFileError` if the bytes are not a compact struct.
    """
    fields, end = fields_of(footer, 0)
    held = [field for field in fields if field.id == _KEY_VALUES]
    if len(held) > 1 or any(field.type != LIST for field in held):
        raise CorruptFileError("the footer's key-value metadata is in a form that cannot be changed without loss")
    keys = {key.encode() for key in entries}
    structs = [each for key, each in key_values_in(footer) if key not in keys]
    structs += [_key_value(key, value) for key, value in entries.items() if value is not None]
    out = bytearray()
    previous, pending = 0, bool(structs) and not held
    for field in fields:
        if pending and field.id > _KEY_VALUES:
            out += header(previous, _KEY_VALUES, LIST) + list_of(structs)
            previous, pending = _KEY_VALUES, False
        if field.id == _KEY_VALUES and not structs:
            continue
        out += header(previous, field.id, field.type) if field.is_short else footer[field.start : field.value]
        out += list_of(structs) if field.id == _KEY_VALUES else footer[field.value : field.end]
        previous = field.id
    if pending:
        out += header(previous, _KEY_VALUES, LIST) + list_of(structs)
    return bytes(out) + footer[end:]


def key_values_in(footer: bytes) -> list[tuple[bytes | None, bytes]]:
    """Return the key of each entry of `key_value_metadata`, with the encoded entry."""
    held = [field for field in fields_of(footer, 0)[0] if field.id == _KEY_VALUES]
    structs = [footer[start:stop] for field in held for start, stop in pairwise(structs_in(footer, field))]
    return [(_key(struct), struct) for struct in structs]


def _key(struct: bytes) -> bytes | None:
    """Return the key of an entry."""
    found = [field for field in fields_of(struct, 0)[0] if field.id == 1 and field.type == BINARY]
    if not found:
        return None
    start = found[-1].value
    while struct[start] > 0x7F:  # the length's bytes
        start += 1
    return struct[start + 1 : found[-1].end]


def _key_value(key: str, value: str) -> bytes:
    texts = key.encode(), value.encode()
    return b"".join(bytes([1 << 4 | BINARY]) + varint(len(text)) + text for text in texts) + b"\0"


def _column_metadata(
    data: bytes, wanted: Iterable[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], int, list[Field], int]]:
    """Yield (row group, column), start, fields and end of the last field of each wanted ColumnMetaData."""
    wanted_of: dict[int, list[int]] = {}
    for group, column in wanted:
        wanted_of.setdefault(group, []).append(column)
    for group, (at, _) in enumerate(pairwise(structs_in(data, last_field(data, 0, _ROW_GROUPS, LIST)))):
        columns = wanted_of.pop(group, ())
        chunks = structs_in(data, last_field(data, at, _COLUMNS, LIST)) if columns else ()
        for column in sorted(columns):
            if not 0 <= column < len(chunks) - 1:
                raise CorruptFileError(f"the footer has no column chunk {group, column}")
            start = last_field(data, chunks[column], _META_DATA, STRUCT).value
            fields, end = fields_of(data, start)
            yield (group, column), start, fields, end
    if wanted_of:
        raise CorruptFileError(f"the footer has no column chunk in row group {min(wanted_of)}")


def _emit(data: bytes, fields: list[Field], edit: FilterEdit) -> bytes:
    """Return a struct's fields, re-emitted with the filter's fields set or cleared; without the stop byte."""
    out = bytearray()
    previous = 0
    pending = edit
    for field in fields:
        if field.id in (_FILTER_OFFSET, _FILTER_LENGTH):
            continue
        if pending is not None and field.id > _FILTER_OFFSET:
            previous, pending = _emit_filter(out, previous, pending), None
        out += header(previous, field.id, field.type) if field.is_short else data[field.start : field.value]
        out += data[field.value : field.end]
        previous = field.id
    if pending is not None:
        _emit_filter(out, previous, pending)
    return bytes(out)


def _emit_filter(out: bytearray, previous: int, edit: tuple[int, int]) -> int:
    out += header(previous, _FILTER_OFFSET, I64)
    out += varint(edit[0] << 1)
    out += bytes([1 << 4 | I32]) + varint(edit[1] << 1)
    return _FILTER_LENGTH
