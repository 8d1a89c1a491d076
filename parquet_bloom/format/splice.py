"""Edits a footer's bytes without decoding what it does not touch.

A footer that is read into structs and written back loses the fields that the structs do not know, and its
bytes. Here the compact encoding is walked, only the structs that change are re-emitted, field by field with their
original bytes, and everything else is copied. A field header is one byte `delta << 4 | type` after
the previous field's id, or `type` and the id as a zigzag varint; the header of the field that follows an inserted or
removed one is the only other thing that can change. (thrift-compact-protocol.md; parquet.thrift for the ids.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, takewhile
from typing import NamedTuple

from parquet_bloom import _kernel
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format.footer import MAGIC
from parquet_bloom.format.thrift_io import varint

FilterEdit = tuple[int, int] | None
"""The new (bloom_filter_offset, bloom_filter_length) of a column chunk, or None to clear both."""

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
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
    for group, (at, _) in enumerate(pairwise(_structs(footer, _one(footer, 0, _ROW_GROUPS, _LIST)))):
        columns = len(_structs(footer, _one(footer, at, _COLUMNS, _LIST))) - 1
        yield from ((group, column) for column in range(columns))


def _emitted(footer: bytes, fields: list[_Field], stop: int, part: bytes, lengths: Mapping[int, int]) -> bytes | None:
    """Return the ColumnMetaData that `part` begins with, or that begins with `part`, if a splice could have made it."""
    same = footer[fields[0].start : stop + 1] if fields else footer[stop : stop + 1]
    ways = [same, _emit(footer, fields, None) + b"\0"]
    before = [f for f in takewhile(lambda f: f.id <= _FILTER_LENGTH, fields) if f.id < _FILTER_OFFSET]
    previous = before[-1].id if before else 0
    lead = _emit(footer, before, None) + _header(previous, _FILTER_OFFSET, _I64)
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
    fields, end = _struct(footer, 0)
    held = [field for field in fields if field.id == _KEY_VALUES]
    if len(held) > 1 or any(field.type != _LIST for field in held):
        raise CorruptFileError("the footer's key-value metadata is in a form that cannot be changed without loss")
    keys = {key.encode() for key in entries}
    structs = [footer[start:stop] for field in held for start, stop in pairwise(_structs(footer, field))]
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
    start = found[-1].value
    while struct[start] > 0x7F:  # the length's bytes
        start += 1
    return struct[start + 1 : found[-1].end]


def _key_value(key: str, value: str) -> bytes:
    texts = key.encode(), value.encode()
    return b"".join(bytes([1 << 4 | _BINARY]) + varint(len(text)) + text for text in texts) + b"\0"


def _list_of(structs: list[bytes]) -> bytes:
    count = len(structs)
    head = bytes([count << 4 | _STRUCT]) if count < 15 else bytes([15 << 4 | _STRUCT]) + varint(count)
    return head + b"".join(structs)


def _header(previous: int, id: int, kind: int) -> bytes:
    delta = id - previous
    return bytes([delta << 4 | kind]) if 0 < delta < 16 else bytes([kind]) + varint(id << 1)


class _Field(NamedTuple):
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
    wanted_of: dict[int, list[int]] = {}
    for group, column in wanted:
        wanted_of.setdefault(group, []).append(column)
    for group, (at, _) in enumerate(pairwise(_structs(data, _one(data, 0, _ROW_GROUPS, _LIST)))):
        columns = wanted_of.pop(group, ())
        chunks = _structs(data, _one(data, at, _COLUMNS, _LIST)) if columns else ()
        for column in sorted(columns):
            if not 0 <= column < len(chunks) - 1:
                raise CorruptFileError(f"the footer has no column chunk {group, column}")
            start = _one(data, chunks[column], _META_DATA, _STRUCT).value
            fields, end = _struct(data, start)
            yield (group, column), start, fields, end
    if wanted_of:
        raise CorruptFileError(f"the footer has no column chunk in row group {min(wanted_of)}")


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
    out += varint(edit[0] << 1)
    out += bytes([1 << 4 | _I32]) + varint(edit[1] << 1)
    return _FILTER_LENGTH


# ---- walking ------------------------------------------------------------------------------


def _struct(data: bytes, at: int) -> tuple[list[_Field], int]:
    """Return a struct's fields, and the position of its stop byte."""
    try:
        fields, end = _kernel.struct_fields(data, at)
    except ValueError as error:
        raise CorruptFileError("the footer is not a thrift compact struct", offset=at) from error
    return list(map(_Field._make, fields)), end


def _structs(data: bytes, field: _Field) -> list[int]:
    """Return where the structs of a list start, and where the list ends."""
    try:
        return _kernel.list_structs(data, field.value)
    except ValueError as error:
        raise CorruptFileError("a list in the footer does not hold structs", offset=field.value) from error


def _one(data: bytes, at: int, wanted: int, kind: int) -> _Field:
    # The last one counts when a field is repeated: that is what the decoders keep.
    found = [f for f in _struct(data, at)[0] if f.id == wanted and f.type == kind]
    if not found:
        raise CorruptFileError(f"the footer lacks field {wanted} where it is required", offset=at)
    return found[-1]
