"""Decodes thrift compact structs from bytes with the accelerated protocol. Never does I/O."""

from __future__ import annotations

from typing import Any, TypeVar

from thrift.protocol.TCompactProtocol import TCompactProtocolAccelerated
from thrift.transport.TTransport import TMemoryBuffer

from parquet_bloom.errors import CorruptFileError

_Struct = TypeVar("_Struct")


_NAMES = {
    "BloomFilterHeader": "the bloom filter's header",
    "FileCryptoMetaData": "the encrypted footer",
    "FileMetaData": "the footer",
    "FooterKeyValues": "the footer",
    "PageHeader": "the page's header",
    "SlimColumnChunk": "a column chunk in the footer",
    "SlimColumnMetaData": "a column chunk's metadata",
    "SlimFileMetaData": "the footer",
}


def decode(cls: type[_Struct], data: bytes, offset: int = 0) -> tuple[_Struct, int]:
    """Return the struct that starts at `offset` of `data`, and the number of bytes it takes.

    Strings and containers are bounded by `len(data)`, depth by the runtime's own limit, so hostile bytes
    cost no more than their size. Raises `CorruptFileError` for anything that does not decode.
    """
    if offset:
        data = data[offset:]
    buffer = TMemoryBuffer(data)
    protocol = TCompactProtocolAccelerated(
        buffer, fallback=False, string_length_limit=len(data), container_length_limit=len(data)
    )
    struct: Any = cls()
    try:
        struct.read(protocol)
    except Exception as error:  # the runtime raises EOFError, TypeError, OverflowError, its own, ...
        raise CorruptFileError(
            f"{_NAMES.get(cls.__name__, cls.__name__)} does not decode: {str(error) or 'it ends too early'}",
            offset=offset,
        ) from error
    return struct, buffer._buffer.tell()


def encode(struct: Any) -> bytes:
    """Return a struct's compact encoding. For structs of our own making; never for a file's footer."""
    buffer = TMemoryBuffer()
    struct.write(TCompactProtocolAccelerated(buffer, fallback=False))
    value: bytes = buffer.getvalue()
    return value


def varint(value: int) -> bytes:
    """Return the compact encoding of a number that is not negative: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
