"""Walks and edits compact structs without decoding what is not touched.

A field header is one byte `delta << 4 | type` after the previous field's id, or `type` and the id as a zigzag varint.
(thrift-compact-protocol.md)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from parquet_bloom import _kernel
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format.thrift_io import varint

I16, I32, I64, BINARY, LIST, STRUCT = 4, 5, 6, 8, 9, 12


class Field(NamedTuple):
    """Where a field of a struct is in the bytes."""

    id: int
    type: int
    start: int  # of its header
    value: int  # of its value
    end: int
    is_short: bool  # the header is one byte


Change = tuple[int, bytes] | None
"""A field's new type and encoded value, or None to take it out."""


def fields_of(data: bytes, at: int) -> tuple[list[Field], int]:
    """Return a struct's fields, and the position of its stop byte."""
    try:
        fields, end = _kernel.struct_fields(data, at)
    except ValueError as error:
        raise CorruptFileError("the footer is not a thrift compact struct", offset=at) from error
    return list(map(Field._make, fields)), end


def structs_in(data: bytes, field: Field) -> list[int]:
    """Return where the structs of a list start, and where the list ends."""
    try:
        return _kernel.list_structs(data, field.value)
    except ValueError as error:
        raise CorruptFileError("a list in the footer does not hold structs", offset=field.value) from error


def number_at(data: bytes, at: int) -> int:
    """Return the i16, i32 or i64 that is encoded at `at`."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        at, shift = at + 1, shift + 7


def numbers_in(data: bytes, field: Field) -> list[int]:
    """Return the integers of a list, or the one that a field is."""
    at = field.value
    if field.type == LIST:
        at += 1
        if data[field.value] >> 4 == 15:  # the length is behind the header
            at = _behind(data, at)
    found = []
    while at < field.end:
        found.append(number_at(data, at))
        at = _behind(data, at)
    return found


def _behind(data: bytes, at: int) -> int:
    """Return where the number that is encoded at `at` ends."""
    while data[at] > 0x7F:
        at += 1
    return at + 1


def last_field(data: bytes, at: int, wanted: int, kind: int) -> Field:
    """Return a struct's field, the last one if it is repeated: that is what the decoders keep."""
    found = [f for f in fields_of(data, at)[0] if f.id == wanted and f.type == kind]
    if not found:
        raise CorruptFileError(f"the footer lacks field {wanted} where it is required", offset=at)
    return found[-1]


def header(previous: int, id: int, kind: int) -> bytes:
    """Return the header of a field that follows the field `previous`."""
    delta = id - previous
    return bytes([delta << 4 | kind]) if 0 < delta < 16 else bytes([kind]) + varint(id << 1)


def list_of(encoded: Iterable[bytes], kind: int = STRUCT) -> bytes:
    """Return a list of elements that are encoded already."""
    elements = list(encoded)
    count = len(elements)
    head = bytes([count << 4 | kind]) if count < 15 else bytes([15 << 4 | kind]) + varint(count)
    return head + b"".join(elements)


def integer(value: int) -> bytes:
    """Return the encoding of an i16, i32 or i64."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value: str) -> bytes:
    """Return the encoding of a string."""
    encoded = value.encode("utf-8", "surrogateescape")
    return varint(len(encoded)) + encoded


def changed(data: bytes, at: int, changes: Mapping[int, Change]) -> bytes:
    """Return the struct at `at`, up to its stop byte, with fields set or taken out, and all others as they are."""
    fields, _ = fields_of(data, at)
    kept = {field.id: field for field in fields if field.id not in changes}
    new = {id: change for id, change in changes.items() if change is not None}
    out = bytearray()
    previous = 0
    for id in sorted([*kept, *new]):
        if id in kept:
            field = kept[id]
            out += header(previous, id, field.type) if field.is_short else data[field.start : field.value]
            out += data[field.value : field.end]
        else:
            kind, value = new[id]
            out += header(previous, id, kind) + value
        previous = id
    return bytes(out) + b"\0"
