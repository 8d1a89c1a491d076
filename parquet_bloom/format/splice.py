"""Edits a footer's bytes without decoding what it does not touch.

A footer that is read into structs and written back loses the fields that the structs do not know, and its
bytes. Here the compact encoding is walked, only the structs that change are re-emitted, field by field with their
original bytes, and everything else is copied. A field header is one byte `delta << 4 | type` after
the previous field's id, or `type` and the id as a zigzag varint; the header of the field that follows an inserted or
removed one is the only other thing that can change. (thrift-compact-protocol.md; parquet.thrift for the ids.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from parquet_bloom.errors import CorruptFileError

FilterEdit = tuple[int, int] | None
"""The new (bloom_filter_offset, bloom_filter_length) of a column chunk, or None to clear both."""

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)
_ROW_GROUPS, _COLUMNS, _META_DATA, _FILTER_OFFSET, _FILTER_LENGTH = 4, 1, 3, 14, 15
_KEY_VALUES = 5
_MAX_DEPTH = 64


def splice_filters(footer: bytes, edits: Mapping[tuple[int, int], FilterEdit]) -> bytes:
    """Return `footer` with fields 14 and 15 set or cleared in the given column chunks, all else unchanged.

    `footer` is the encoded FileMetaData with whatever follows it; `edits` maps (row group, column chunk) to
    the new fields. Raises `CorruptFileError` if a chunk is not there or the bytes are no compact struct.
    """
    pieces: list[bytes] = []
    copied = 0
    for key, start, fields, stop in _column_metadata(footer, edits.keys()):
        pieces += footer[copied:start], _emit(footer, fields, edits[key])
        copied = stop
    return b"".join([*pieces, footer[copied:]])


def splice_key_values(footer: bytes, entries: Mapping[str, str | None]) -> bytes:
    """Return `footer` with entries of `key_value_metadata` set, or taken out where they are None, all else unchanged.

    An entry that is there already is replaced, however often it is there; new ones come last, in order. Raises
    `CorruptFileError` if the bytes are no compact struct.
    """
    fields, end = _struct(footer, 0)
    held = [field for field in fields if field.id == _KEY_VALUES]
    if len(held) > 1 or any(field.type != _LIST for field in held):
        raise CorruptFileError("the footer's entries of its writers are in a form that cannot be changed without loss")
    keys = {key.encode() for key in entries}
    structs = [footer[at : _skip(footer, at, _STRUCT, 0)] for field in held for _, at in _elements(footer, field)]
    structs = [each for each in structs if _key(each) not in keys]
    structs += [_key_value(key, value) for key, value in entries.items() if value is not None]
    out = bytearray()
    previous, pending = 0, bool(structs) and not held
    for field in fields:
        if pending and field.id > _KEY_VALUES:
            out += _header(previous, _KEY_VALUES, _LIST) + _list_of(structs)
            previous, pending = _KEY_VALUES, False
        if field.id == _KEY_VALUES and not structs:
            continue
        out += _header(previous, field.id, field.type) if field.is_short else footer[field.start : field.value]
        out += _list_of(structs) if field.id == _KEY_VALUES else footer[field.value : field.end]
        previous = field.id
    if pending:
        out += _header(previous, _KEY_VALUES, _LIST) + _list_of(structs)
    return bytes(out) + footer[end:]


def _key(struct: bytes) -> bytes | None:
    """Return the key of an entry."""
    found = [field for field in _struct(struct, 0)[0] if field.id == 1 and field.type == _BINARY]
    if not found:
        return None
    length, at = _read_varint(struct, found[-1].value)
    return struct[at : at + length]


def _key_value(key: str, value: str) -> bytes:
    texts = key.encode(), value.encode()
    return b"".join(bytes([1 << 4 | _BINARY]) + _varint(len(text)) + text for text in texts) + b"\0"


def _list_of(structs: list[bytes]) -> bytes:
    count = len(structs)
    head = bytes([count << 4 | _STRUCT]) if count < 15 else bytes([15 << 4 | _STRUCT]) + _varint(count)
    return head + b"".join(structs)


def _header(previous: int, id: int, kind: int) -> bytes:
    delta = id - previous
    return bytes([delta << 4 | kind]) if 0 < delta < 16 else bytes([kind]) + _varint(id << 1)


@dataclass(frozen=True, slots=True)
class _Field:
    id: int
    type: int
    start: int  # of its header
    value: int  # of its value
    end: int
    is_short: bool  # the header is one byte


def _column_metadata(
    data: bytes, wanted: Iterable[tuple[int, int]]
) -> Iterator[tuple[tuple[int, int], int, list[_Field], int]]:
    """Yield (row group, column), start, fields and end of the last field of each wanted ColumnMetaData."""
    keys = set(wanted)
    groups = {group for group, _ in keys}
    for group, at in _elements(data, _one(data, 0, _ROW_GROUPS, _LIST)):
        if group not in groups:
            continue
        for column, chunk in _elements(data, _one(data, at, _COLUMNS, _LIST)):
            if (group, column) in keys:
                start = _one(data, chunk, _META_DATA, _STRUCT).value
                fields, end = _struct(data, start)
                keys.discard((group, column))
                yield (group, column), start, fields, end
    if keys:
        raise CorruptFileError(f"the footer has no column chunk {min(keys)}")


def _emit(data: bytes, fields: list[_Field], edit: FilterEdit) -> bytes:
    """Return a struct's fields, re-emitted with the filter's fields set or cleared; without the stop byte."""
    out = bytearray()
    previous = 0
    pending = edit
    for field in fields:
        if field.id in (_FILTER_OFFSET, _FILTER_LENGTH):
            continue
        if pending is not None and field.id > _FILTER_OFFSET:
            previous, pending = _emit_filter(out, previous, pending), None
        out += _header(previous, field.id, field.type) if field.is_short else data[field.start : field.value]
        out += data[field.value : field.end]
        previous = field.id
    if pending is not None:
        _emit_filter(out, previous, pending)
    return bytes(out)


def _emit_filter(out: bytearray, previous: int, edit: tuple[int, int]) -> int:
    out += _header(previous, _FILTER_OFFSET, _I64)
    out += _varint(edit[0] << 1)
    out += bytes([1 << 4 | _I32]) + _varint(edit[1] << 1)
    return _FILTER_LENGTH


# ---- walking ------------------------------------------------------------------------------


def _struct(data: bytes, at: int, depth: int = 0) -> tuple[list[_Field], int]:
    """Return a struct's fields, and the position of its stop byte."""
    fields: list[_Field] = []
    previous = 0
    while True:
        start, head = at, _byte(data, at)
        if head == 0:
            return fields, start
        at += 1
        delta, kind = head >> 4, head & 15
        if delta:
            previous += delta
        else:
            raw, at = _read_varint(data, at)
            previous = raw >> 1 ^ -(raw & 1)
        end = at if kind in (_TRUE, _FALSE) else _skip(data, at, kind, depth)
        fields.append(_Field(previous, kind, start, at, end, bool(delta)))
        at = end


def _one(data: bytes, at: int, wanted: int, kind: int) -> _Field:
    # The last one counts when a field is repeated: that is what the decoders keep.
    found = [f for f in _struct(data, at)[0] if f.id == wanted and f.type == kind]
    if not found:
        raise CorruptFileError(f"the footer lacks field {wanted} where it is required", offset=at)
    return found[-1]


def _elements(data: bytes, field: _Field) -> Iterator[tuple[int, int]]:
    """Yield index and position of each struct in a list."""
    count, kind, at = _list_head(data, field.value)
    if kind != _STRUCT and count:
        raise CorruptFileError("a list in the footer does not hold structs", offset=field.value)
    for index in range(count):
        yield index, at
        at = _skip(data, at, _STRUCT, 0)


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    head = _byte(data, at)
    at += 1
    count = head >> 4
    if count == 15:
        count, at = _read_varint(data, at)
    return count, head & 15, at


def _skip_binary(data: bytes, at: int, depth: int) -> int:
    length, at = _read_varint(data, at)
    return at + length


def _skip_varint(data: bytes, at: int, depth: int) -> int:
    return _read_varint(data, at)[1]


def _skip_list(data: bytes, at: int, depth: int) -> int:
    count, kind, at = _list_head(data, at)
    if count > len(data):
        raise CorruptFileError("a list in the footer is longer than the footer", offset=at)
    for _ in range(count):
        at = _skip(data, at, kind, depth, in_container=True)
    return at


def _skip_map(data: bytes, at: int, depth: int) -> int:
    count, at = _read_varint(data, at)
    if count > len(data):
        raise CorruptFileError("a map in the footer is longer than the footer", offset=at)
    if count == 0:
        return at
    kinds = _byte(data, at)
    at += 1
    for _ in range(count):
        at = _skip(data, at, kinds >> 4, depth, in_container=True)
        at = _skip(data, at, kinds & 15, depth, in_container=True)
    return at


def _skip_struct(data: bytes, at: int, depth: int) -> int:
    while head := _byte(data, at):
        at += 1
        if not head >> 4:
            at = _read_varint(data, at)[1]
        kind = head & 15
        if kind not in (_TRUE, _FALSE):
            at = _skip(data, at, kind, depth)
    return at + 1


_SKIP: dict[int, Callable[[bytes, int, int], int]] = {
    _BYTE: lambda data, at, depth: at + 1,
    _I16: _skip_varint,
    _I32: _skip_varint,
    _I64: _skip_varint,
    _DOUBLE: lambda data, at, depth: at + 8,
    _BINARY: _skip_binary,
    _LIST: _skip_list,
    _SET: _skip_list,
    _MAP: _skip_map,
    _STRUCT: _skip_struct,
    _UUID: lambda data, at, depth: at + 16,
}


def _skip(data: bytes, at: int, kind: int, depth: int, *, in_container: bool = False) -> int:
    """Return the position after a value; a boolean takes a byte in a container and none in a struct."""
    if in_container and kind in (_TRUE, _FALSE):
        return at + 1
    if kind not in _SKIP or depth > _MAX_DEPTH or at > len(data):
        raise CorruptFileError("the footer is no thrift compact struct", offset=at)
    return _SKIP[kind](data, at, depth + 1)


def _byte(data: bytes, at: int) -> int:
    if at >= len(data):
        raise CorruptFileError("the footer is cut off", offset=at)
    return data[at]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = _byte(data, at)
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
        if shift > 63:
            raise CorruptFileError("a number in the footer is too long", offset=at)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
