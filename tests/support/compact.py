"""Thrift's compact encoding in plain Python, with every liberty that it leaves to writers.

A struct is a list of `Field`s in the order in which they are written; a value of another kind is what `encode_value`
says. Nothing here imports parquet_bloom.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)


class Field(NamedTuple):
    id: int
    kind: int
    value: Any = None  # a bool's is its kind
    is_long: bool = False  # the id is written out although a step would do


class Items(NamedTuple):
    """The elements of a list or set, of one kind."""

    kind: int
    values: list[Any]


class Pairs(NamedTuple):
    """The keys and values of a map, each of one kind."""

    key_kind: int
    value_kind: int
    values: list[tuple[Any, Any]]


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def zigzag(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else ~number << 1 | 1)


def encode_struct(fields: list[Field]) -> bytes:
    out, previous = b"", 0
    for field in fields:
        step = field.id - previous
        is_short = 0 < step < 16 and not field.is_long
        out += bytes([step << 4 | field.kind]) if is_short else bytes([field.kind]) + zigzag(field.id)
        if field.kind not in (TRUE, FALSE):
            out += encode_value(field.kind, field.value)
        previous = field.id
    return out + b"\0"


def encode_value(kind: int, value: Any) -> bytes:
    match kind:
        case _ if kind in (TRUE, FALSE):
            return bytes([value])
        case _ if kind == BYTE:
            return bytes([value])
        case _ if kind in (I16, I32, I64):
            return zigzag(value)
        case _ if kind in (DOUBLE, UUID):
            return value
        case _ if kind == BINARY:
            return varint(len(value)) + value
        case _ if kind in (LIST, SET):
            count = len(value.values)
            head = bytes([count << 4 | value.kind]) if count < 15 else bytes([0xF0 | value.kind]) + varint(count)
            return head + b"".join(encode_value(value.kind, v) for v in value.values)
        case _ if kind == MAP:
            if not value.values:
                return b"\0"
            head = varint(len(value.values)) + bytes([value.key_kind << 4 | value.value_kind])
            return head + b"".join(
                encode_value(value.key_kind, k) + encode_value(value.value_kind, v) for k, v in value.values
            )
        case _ if kind == STRUCT:
            return encode_struct(value)
    raise AssertionError(kind)


class Reader:
    """Reads what the functions above write, but for `is_long`, which it leaves False."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        self.at += count
        assert self.at <= len(self.data)
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        number = shift = 0
        while (byte := self.take(1)[0]) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
        return number | byte << shift

    def zigzag(self) -> int:
        number = self.varint()
        return number >> 1 ^ -(number & 1)

    def struct(self) -> list[Field]:
        fields: list[Field] = []
        previous = 0
        while head := self.take(1)[0]:
            previous = previous + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 15
            fields.append(Field(previous, kind, None if kind in (TRUE, FALSE) else self.value(kind)))
        return fields

    def value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE, BYTE):
            return self.take(1)[0]
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind in (DOUBLE, UUID):
            return self.take(8 if kind == DOUBLE else 16)
        if kind == BINARY:
            return self.take(self.varint())
        if kind in (LIST, SET):
            head = self.take(1)[0]
            count = self.varint() if head >> 4 == 15 else head >> 4
            return Items(head & 15, [self.value(head & 15) for _ in range(count)])
        if kind == MAP:
            if not (count := self.varint()):
                return Pairs(0, 0, [])
            kinds = self.take(1)[0]
            pairs = [(self.value(kinds >> 4), self.value(kinds & 15)) for _ in range(count)]
            return Pairs(kinds >> 4, kinds & 15, pairs)
        return self.struct()


# ---- single fields -----------------------------------------------------------------------

Place = tuple[int, ...]
"""The way to a field: its id, and the position where it is in a list, for each struct."""


def places(fields: list[Field], above: Place = ()) -> Iterator[tuple[Place, Field]]:
    """Yields the path of every field: its id, and the position where it is in a list; of lists, the first elements."""
    for field in fields:
        yield (*above, field.id), field
        if field.kind == STRUCT:
            yield from places(field.value, (*above, field.id))
        elif field.kind == LIST and field.value.kind == STRUCT:
            for index, element in enumerate(field.value.values[: 1 if above else 2]):
                yield from places(element, (*above, field.id, index))


def changed(fields: list[Field], path: Place, value: int | None) -> list[Field]:
    """Returns the struct with the integer at `path` exchanged, or with that field left out."""
    head, *rest = path
    out = []
    for field in fields:
        if field.id != head:
            out.append(field)
        elif not rest:
            out += [] if value is None else [field._replace(value=value)]
        elif field.kind == STRUCT:
            out.append(field._replace(value=changed(field.value, tuple(rest), value)))
        else:
            elements = list(field.value.values)
            elements[rest[0]] = changed(elements[rest[0]], tuple(rest[1:]), value)
            out.append(field._replace(value=Items(STRUCT, elements)))
    return out
