"""Compressed metadata of tables, checked before a library unpacks it.

fastavro and pyiceberg unpack a block of Avro whole, however large it becomes, and follow a schema wherever it leads: a
type within itself overruns their stack, and items that take no bytes cost the writer nothing. Both take a file that
ends within a block for one that ends before it. So a file's blocks are counted and its schema is read first, in little
memory. (Avro specification: Object Container Files.)
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import importlib
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import pages_extent, parse_footer
from parquet_bloom.format.thrift_io import decode
from parquet_bloom.storage.drive import metadata_bytes

most_metadata_bytes: ContextVar[int | None] = ContextVar("most_metadata_bytes", default=None)
"""The limit while a table is opened, where the call has one."""

AVRO = b"Obj\x01"
_STEP, _XZ_MEMORY, _PAGE_HEADER = 2**20, 2**30, 2**12
_MOST_LEVELS, _MOST_EMPTY, _MOST_ROWS = 64, 16, 2**16


class Room:
    """How much of a snapshot's metadata may still be unpacked.

    Its methods raise `UnsupportedError` for what does not fit, and `CorruptFileError` for what is damaged.
    """

    def __init__(self) -> None:
        self.most: int = most_metadata_bytes.get() or metadata_bytes()
        self.left: int = self.most

    def take(self, size: int, name: str) -> None:
        """Take room for so many bytes."""
        self.left -= size
        if self.left < 0:
            raise UnsupportedError(
                f"the table's metadata unpacks to more than {self.most:,} bytes (at {name}); raise that with "
                "limits=Limits(metadata_bytes=...) where a call takes limits, or with PARQUET_BLOOM_METADATA_BYTES"
            )

    def avro(self, data: bytes, name: str) -> None:
        """Take room for an Avro file whose schema and blocks are whole."""
        try:
            self._avro(_Reader(data), name)
        except (ParquetBloomError, MemoryError):
            raise
        except Exception as error:  # those who unpack have no error in common
            raise CorruptFileError(f"it is not a whole Avro file: {error}", path=name) from error

    def _avro(self, reader: _Reader, name: str) -> None:
        header = reader.header()
        schema, codec = json.loads(header["avro.schema"]), header.get("avro.codec", b"null").decode()
        if not _Schema(name).takes_bytes(schema):
            raise UnsupportedError(f"{name} has an Avro schema whose records take no bytes, which is not supported")
        sync = reader.take(16)
        while not reader.is_done:
            count, block = reader.long(), reader.take(reader.long())
            if reader.take(16) != sync:
                raise ValueError("a block does not end in the file's marker")
            size = 0
            for step in _unpacked(codec, block):
                self.take(step, name)
                size += step
            if not 0 <= count <= size:
                raise ValueError(f"a block of {size:,} bytes has {count:,} records")

    def gzip(self, data: bytes, name: str) -> None:
        """Take room for what gzip packed."""
        try:
            with gzip.open(io.BytesIO(data)) as packed:
                while part := packed.read(_STEP):
                    self.take(len(part), name)
        except (OSError, EOFError, zlib.error) as error:
            raise CorruptFileError(f"it does not unpack: {error}", path=name) from error

    def parquet(self, data: Any, name: str) -> int:
        """Return how many rows of a Parquet file may be read at once, if its pages fit; no room is taken.

        What Arrow and deltalake unpack is what the pages' own headers say, whatever the footer does.
        """
        footer = parse_footer(len(data), bytes(data[-8 - int.from_bytes(data[-8:-4], "little") : -8]))
        size, largest = 0, 1
        for _, _, chunk in footer.chunks():
            if chunk is None:
                raise UnsupportedError(f"{name} is encrypted")
            for _, page in page_headers(data, *pages_extent(chunk)):
                header = page.data_page_header or page.data_page_header_v2
                if header is None:  # a dictionary: each value may be as long as all of it
                    largest = max(largest, page.uncompressed_page_size)
                size += page.uncompressed_page_size + max(0, (header and header.num_values) or 0)
                if size > self.left:
                    self.take(size, name)
        return max(1, min(_MOST_ROWS, self.left // largest))


def avro_file(data: bytes, name: str, room: Room | None = None) -> tuple[dict[str, bytes], Iterator[Any]]:
    """Return what an Avro file's header has, and its records, which are decoded as they are taken.

    Raises what `Room.avro` does, and `UnsupportedError` where fastavro, or what it needs for the codec, is missing.
    """
    try:
        import fastavro
    except ImportError:
        raise UnsupportedError(
            "reading Avro files needs fastavro: pip install 'parquet-bloom[iceberg]' or 'parquet-bloom[paimon]'"
        ) from None
    (room or Room()).avro(data, name)
    return _Reader(data).header(), _records(fastavro, data, name)


def _records(fastavro: Any, data: bytes, name: str) -> Iterator[Any]:
    try:
        yield from fastavro.reader(io.BytesIO(data))
    except Exception as error:  # fastavro has no error of its own for what it cannot read
        if isinstance(error, ValueError) and "you need to install" in str(error):
            raise UnsupportedError(f"{error}: pip install 'parquet-bloom[paimon]'") from error
        raise CorruptFileError(f"it does not decode: {error!r}", path=name) from error


class _Reader:
    """Avro's bytes, from the start on."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 0

    @property
    def is_done(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise EOFError("it is cut off")
        self._at += size
        return bytes(self._data[self._at - size : self._at])

    def unsigned(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            (byte,) = self.take(1)
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ValueError("a number has more than ten bytes")

    def long(self) -> int:
        number = self.unsigned()
        return number >> 1 ^ -(number & 1)

    def header(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        if self.take(4) != AVRO:
            raise ValueError("it does not start like an Avro file")
        while count := self.long():
            if count < 0:
                self.long()  # the size of the entries
            for _ in range(abs(count)):
                key = self.take(self.long()).decode()
                found[key] = self.take(self.long())
        return found


class _Schema:
    """Follows an Avro schema; raises `UnsupportedError` where a few bytes of data could lead anywhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[str, bool] = {}
        self._open: list[str] = []

    def takes_bytes(self, kind: Any, depth: int = 0) -> bool:
        """Return whether every value takes at least a byte."""
        if depth > _MOST_LEVELS:
            raise self._odd("more levels than are supported")
        if isinstance(kind, list):
            for each in kind:
                self.takes_bytes(each, depth + 1)
            return True  # it starts with the number of the type
        if isinstance(kind, str):
            if (short := _short(kind)) in self._open:
                raise self._odd(f"a recursive type ({kind})")
            return self._known.get(short, kind != "null")
        match kind["type"]:
            case "record" | "error":
                return self._record(kind, depth)
            case "array":
                if not self.takes_bytes(kind["items"], depth + 1):
                    raise self._odd("items that take no bytes")
            case "map":
                self.takes_bytes(kind["values"], depth + 1)
            case "fixed":
                return self._names(kind, kind["size"] > 0)
            case "enum":
                return self._names(kind, True)
            case inner:
                return self.takes_bytes(inner, depth + 1)
        return True

    def _record(self, kind: dict[str, Any], depth: int) -> bool:
        self._open.append(_short(kind["name"]))
        taking = [self.takes_bytes(field["type"], depth + 1) for field in kind["fields"]]
        self._open.pop()
        if taking.count(False) > _MOST_EMPTY:
            raise self._odd(f"more than {_MOST_EMPTY} fields that take no bytes")
        if not any(taking) and taking:
            raise self._odd("a record of fields that take no bytes")
        return self._names(kind, any(taking))

    def _names(self, kind: dict[str, Any], takes: bool) -> bool:
        short = _short(kind["name"])
        self._known[short] = takes and self._known.get(short, True)
        return takes

    def _odd(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self._name} has an Avro schema with {what}, which is not supported")


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _unpacked(codec: str, block: bytes) -> Iterator[int]:
    """Yield the sizes of the parts that a block unpacks to; nothing for a codec that no library here knows."""
    if codec == "null":
        yield len(block)
    elif codec == "deflate":
        yield from _inflated(block)
    elif codec == "snappy":
        yield _Reader(block).unsigned()
    elif codec == "lz4":
        yield int.from_bytes(block[:4], "little")
    elif codec in ("bzip2", "xz"):
        yield from _frames(bz2.BZ2Decompressor if codec == "bzip2" else _xz, block)
    elif codec == "zstandard":
        yield from _zstandard(block)


def _inflated(block: bytes) -> Iterator[int]:
    packed = zlib.decompressobj(-zlib.MAX_WBITS)
    while not packed.eof:
        part = packed.decompress(block, _STEP)
        block = packed.unconsumed_tail
        if not part and not block and not packed.eof:
            raise EOFError("a block is cut off")
        yield len(part)


def _xz() -> Any:
    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


def _zstandard(block: bytes) -> Iterator[int]:
    for name in ("compression.zstd", "backports.zstd"):
        with contextlib.suppress(ImportError):
            yield from _frames(importlib.import_module(name).ZstdDecompressor, block)
            return
    with contextlib.suppress(ImportError):  # then the table's library will say what is missing
        zstandard = importlib.import_module("zstandard")
        with zstandard.ZstdDecompressor().stream_reader(block, read_across_frames=True) as packed:
            while part := packed.read(_STEP):
                yield len(part)


def _frames(start: Callable[[], Any], block: bytes) -> Iterator[int]:
    while block:
        packed = start()
        while not packed.eof:
            part = packed.decompress(block, _STEP)
            block = b""
            if not part and not packed.eof and packed.needs_input:
                raise EOFError("a block is cut off")
            yield len(part)
        block = packed.unused_data


def page_headers(data: Any, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Any]]:
    """Yield where the pages of a column chunk begin, and their headers; the chunk ends where the last page does."""
    stop = len(data) if stop is None else stop
    if not 0 <= start <= stop <= len(data):
        raise CorruptFileError("a column chunk lies outside of the file", offset=start)
    while start < stop:
        try:
            header, size = decode(ttypes.PageHeader, bytes(data[start : min(stop, start + _PAGE_HEADER)]))
        except CorruptFileError:
            header, size = decode(ttypes.PageHeader, bytes(data[start:stop]))
        sizes = header.compressed_page_size, header.uncompressed_page_size
        if None in sizes or min(sizes) < 0:
            raise CorruptFileError("a page's header does not say how many bytes it has", offset=start)
        yield start, header
        start += size + header.compressed_page_size
