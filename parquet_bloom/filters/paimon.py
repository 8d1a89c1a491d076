"""Apache Paimon's file index, version 1, and the bloom filters in it.

A data file's index is one container, in a file `<data file>.index` or in the table's manifest. Integers are
big-endian and signed; names are Java's modified UTF-8 after an unsigned 16-bit length (FileIndexFormat.java):

    magic int64, version int32, header length int32     the header ends where the payloads begin
    number of columns int32
        name, number of indexes int32
            type of index, start int32, length int32    start is relative to the container's first byte
    length of the reserved bytes int32, reserved bytes
    payloads, in any order

An index with the `start` -1 has no payload: it contains no row of the file. A `bloom-filter` is the number of hash
functions k, int32, and the bits, the lowest of each byte first (BloomFilterFileIndex.java, BloomFilter64.java). A
64-bit hash sets k bits: hash function i = 1 ... k is c = low + i * high, with the halves of the hash, in 32 bits with
wraparound; the bit is c, or ~c if c is negative, modulo the number of bits.

Strings and bytes are hashed with XXH64 and seed 0. All other values are signed 64-bit integers, hashed with Thomas
Wang's function with arithmetic shifts (FastHash.java):

    integers, DATE      the value; days since 1970-01-01
    FLOAT, DOUBLE       the bits, of a FLOAT 32 of them as a signed number; one NaN, two zeros
    TIME                milliseconds of the day, for every precision
    TIMESTAMP           milliseconds up to precision 3, else microseconds, rounded down
"""

from __future__ import annotations

import math
import operator
import re
import struct
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

from parquet_bloom import _kernel
from parquet_bloom.errors import CorruptFileError, LiteralError, UnsupportedError
from parquet_bloom.filters.protocol import Description
from parquet_bloom.format.footer import Plan
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.schema import ColumnPath, LeafColumn, LogicalType, PhysicalType
from parquet_bloom.tables import LiveFile
from parquet_bloom.values.arrays import hash_array
from parquet_bloom.values.encoding import encode_literal, hash_plain
from parquet_bloom.values.literals import PER_SECOND

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = 1493475289347502
VERSION = 1
BLOOM_FILTER = "bloom-filter"

MOST_HASHES = 127
"""Paimon reads higher numbers as negative, and then does not use the filter."""

_MOST_HASHES_EVER = 1076
"""The number for the smallest positive double as the false positive rate."""

_MOST_BITS = 2**31 - 8
_PREFIX = struct.Struct(">qii")
_LOW = (1 << 32) - 1


# ---- the container -------------------------------------------------------------------------


class Entry(NamedTuple):
    """An index in a container: the bytes `start` to `start + length`, or none if `start` is -1."""

    column: str
    kind: str
    start: int
    length: int


Container = Mapping[str, Mapping[str, bytes | None]]
"""Column, by its name in the data file -> type of index -> payload, or None if the index contains no row."""


def read_entries(size: int) -> Plan[tuple[Entry, ...]]:
    """Plan to read the header of a container of `size` bytes, and return its indexes in the order of the header.

    Raises `CorruptFileError` for anything but a container, `UnsupportedError` for another version.
    """
    return (yield from _read_head(size))[0]


def _read_head(size: int) -> Plan[tuple[tuple[Entry, ...], bytes]]:
    """Plan to read the header, and return the indexes and all bytes that were read."""
    (start,) = yield [ByteRange(0, min(size, _FIRST_READ))]
    length = _head_length(start, size)
    if length > len(start):
        (rest,) = yield [ByteRange(len(start), length)]
        start += rest
    return _entries(start[:length], length, size), start


_FIRST_READ = 4096
"""More than the header has in most tables."""


def parse_container(data: bytes) -> dict[str, dict[str, bytes | None]]:
    """Return the contents of a container, with all types of indexes.

    Raises `CorruptFileError` for anything but a container, `UnsupportedError` for another version.
    """
    indexes: dict[str, dict[str, bytes | None]] = {}
    for column, kind, start, size in _entries_of(data):
        indexes.setdefault(column, {})[kind] = data[start : start + size] if start >= 0 else None
    return indexes


def write_container(indexes: Container) -> bytes:
    """Return a container of the indexes, in their order.

    Raises `ValueError` for a name of more than 65,535 bytes or for more than 2 GiB.
    """
    head, body = [struct.pack(">i", len(indexes))], bytearray()
    names = {name: _packed(name) for column, kinds in indexes.items() for name in (column, *kinds)}
    length = _PREFIX.size + 4 + 4
    for column, kinds in indexes.items():
        length += len(names[column]) + 4 + sum(len(names[kind]) + 8 for kind in kinds)
    for column, kinds in indexes.items():
        head += [names[column], struct.pack(">i", len(kinds))]
        for kind, payload in kinds.items():
            start = -1 if payload is None else length + len(body)
            if start + len(payload or b"") >= 2**31:
                raise ValueError("an index must be smaller than 2 GiB")
            head += [names[kind], struct.pack(">ii", start, len(payload or b""))]
            body += payload or b""
    return b"".join([_PREFIX.pack(MAGIC, VERSION, length), *head, bytes(4), body])


def build_container(indexes: Container) -> bytes:
    """Return a container of the indexes, byte by byte what Paimon writes for columns that are not maps.

    The columns are given as in the table's option. The result has them in the order of the HashMaps that Paimon puts
    them into: its options, its writers, and their results (FileIndexOptions.java, DataFileIndexWriter.java).
    """
    # The hash of an option's column is Objects.hash(name, null, false).
    columns = _computed(indexes, lambda name: (31 * (31 * (31 + _java_hash(name))) + 1237) & _LOW)
    columns = _computed(_put(columns), _java_hash)
    return write_container({name: {kind: indexes[name][kind] for kind in _put(indexes[name])} for name in columns})


def _put(names: Iterable[str]) -> list[str]:
    """Return the names in the order of a HashMap into which they were `put`."""
    return _by_bucket(list(names), _java_hash, late=0)


def _computed(names: Iterable[str], hashed: Callable[[str], int]) -> list[str]:
    """Return the names in the order of a HashMap to which `computeIfAbsent` added them.

    It adds a name before the others of its bucket, and the map grows one name later.
    """
    return _by_bucket(list(names)[::-1], hashed, late=1)


def _by_bucket(names: list[str], hashed: Callable[[str], int], *, late: int) -> list[str]:
    buckets = 16
    while 4 * (len(names) - late) > 3 * buckets:
        buckets *= 2
    return sorted(names, key=lambda name: (hashed(name) ^ hashed(name) >> 16) % buckets)


def _java_hash(name: str) -> int:
    """Return the same as Java's `String.hashCode`, unsigned."""
    code = 0
    for unit in memoryview(name.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & _LOW
    return code


def _head_length(start: bytes, size: int) -> int:
    if len(start) < _PREFIX.size:
        raise CorruptFileError(f"a file index has at least {_PREFIX.size} bytes, this one has {len(start)}")
    magic, version, length = _PREFIX.unpack_from(start)
    if magic != MAGIC:
        raise CorruptFileError("it does not start like Paimon's file indexes", offset=0)
    if version != VERSION:
        raise UnsupportedError(f"Paimon's file index has version {version}; only {VERSION} is supported")
    if not _PREFIX.size + 4 <= length <= size:
        raise CorruptFileError(f"the header of {length:,} bytes does not fit into {size:,} bytes", offset=12)
    return int(length)


def _entries_of(data: bytes) -> tuple[Entry, ...]:
    length = _head_length(data, len(data))
    return _entries(data[:length], length, len(data))


def _entries(head: bytes, length: int, size: int) -> tuple[Entry, ...]:
    """Return the indexes in a header; the bytes after them are reserved."""
    if len(head) != length:
        raise CorruptFileError(f"the header ends after {len(head):,} of {length:,} bytes", offset=len(head))
    entries = []
    reader = _Head(head, _PREFIX.size)
    for _ in range(reader.count()):
        column = reader.text()
        for _ in range(reader.count()):
            entry = Entry(column, reader.text(), reader.integer(), reader.integer())
            is_empty = entry.start == -1 and entry.length == 0
            if not is_empty and not (length <= entry.start <= entry.start + entry.length <= size):
                raise CorruptFileError(f"{column}: the {entry.kind} is outside the container", offset=reader.at)
            entries.append(entry)
    return tuple(entries)


class _Head:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def integer(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def count(self) -> int:
        count = self.integer()
        if count < 0:
            raise CorruptFileError(f"the count {count} is negative", offset=self.at - 4)
        return count

    def text(self) -> str:
        at, raw = self.at, self._take(int.from_bytes(self._take(2), "big"))
        try:
            units = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
            return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        except UnicodeDecodeError as error:
            raise CorruptFileError("a name is not in Java's modified UTF-8", offset=at) from error

    def _take(self, length: int) -> bytes:
        self.at += length
        if self.at > len(self.data):
            raise CorruptFileError("the header ends too early", offset=len(self.data))
        return self.data[self.at - length : self.at]


def _packed(name: str) -> bytes:
    """Return a name in modified UTF-8: NUL as two bytes, each half of a surrogate pair separately."""
    units = _BEYOND_BMP.sub(lambda match: _halves(match[0]), name)
    raw = units.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(raw) > 0xFFFF:
        raise ValueError(f"a name of {len(raw):,} bytes; at most 65,535 are allowed")
    return len(raw).to_bytes(2, "big") + raw


_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")


def _halves(char: str) -> str:
    return "".join(map(chr, struct.unpack("<HH", char.encode("utf-16-le"))))


# ---- types -----------------------------------------------------------------------------------


class _Type(NamedTuple):
    name: str
    size: int  # length or precision
    leaf: LeafColumn


_TYPE = re.compile(r"([A-Z_]+)(?: ?\( ?(\d+) ?\))?( WITH LOCAL TIME ZONE)?(?: NOT NULL)?")
_STORED: Mapping[str, tuple[PhysicalType, LogicalType | None]] = {
    **dict.fromkeys(("CHAR", "VARCHAR", "STRING"), (PhysicalType.BYTE_ARRAY, LogicalType("STRING"))),
    **dict.fromkeys(("BINARY", "VARBINARY", "BYTES"), (PhysicalType.BYTE_ARRAY, None)),
    "TINYINT": (PhysicalType.INT32, LogicalType("INTEGER", bit_width=8)),
    "SMALLINT": (PhysicalType.INT32, LogicalType("INTEGER", bit_width=16)),
    "INT": (PhysicalType.INT32, None),
    "BIGINT": (PhysicalType.INT64, None),
    "FLOAT": (PhysicalType.FLOAT, None),
    "DOUBLE": (PhysicalType.DOUBLE, None),
    "DATE": (PhysicalType.INT32, LogicalType("DATE")),
    "TIME": (PhysicalType.INT32, LogicalType("TIME", unit="MILLIS")),
}
"""The type that the hashed values would have in a Parquet file."""

_MOST_MICROS = 6
"""The precision of a timestamp in microseconds."""

_BYTES = ("CHAR", "VARCHAR", "STRING", "BINARY", "VARBINARY", "BYTES")
_PADDING = {"CHAR": b" ", "BINARY": b"\0"}
_MOST_PADDED = 64
"""The most lengths of padding to try."""


@lru_cache(maxsize=1024)
def _type(kind: str) -> _Type:
    match = _TYPE.fullmatch(kind.strip().upper())
    name = match[1] if match else ""
    if match and match[3]:
        name = "TIMESTAMP_LTZ" if name == "TIMESTAMP" else ""
    size = int(match[2]) if match and match[2] else 6 if name.startswith("TIMESTAMP") else 1
    if name in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        is_utc = name == "TIMESTAMP_LTZ"
        logical = LogicalType("TIMESTAMP", unit="MILLIS" if size <= 3 else "MICROS", is_adjusted_to_utc=is_utc)
        return _Type(name, size, LeafColumn(("value",), 0, PhysicalType.INT64, None, logical, ()))
    if name not in _STORED:
        raise UnsupportedError(f"Paimon has no bloom filters for {kind}")
    return _Type(name, size, LeafColumn(("value",), 0, _STORED[name][0], None, _STORED[name][1], ()))


def is_hashed(kind: object) -> bool:
    """Return whether Paimon has bloom filters for a type in its schemas, such as `VARCHAR(20) NOT NULL`."""
    try:
        return isinstance(kind, str) and bool(_type(kind))
    except UnsupportedError:
        return False


# ---- hashes ----------------------------------------------------------------------------------


def wang64(value: int) -> int:
    """Return Thomas Wang's hash of a signed 64-bit integer, unsigned, with arithmetic right shifts.

    >>> wang64(1)
    6614235796240398542
    """
    value = _wrapped(~value + (value << 21))
    value ^= value >> 24
    value = _wrapped(value * 265)
    value ^= value >> 14
    value = _wrapped(value * 21)
    value ^= value >> 28
    return (value + (value << 31)) & (1 << 64) - 1


def _wrapped(value: int) -> int:
    return ((value + (1 << 63)) & (1 << 64) - 1) - (1 << 63)


def literal_hashes(kind: str, value: object) -> tuple[int, ...]:
    """Return the hashes of all stored values of a Paimon type that may equal a literal; none if they are unknown.

    A literal that the type cannot hold also has none. Raises `UnsupportedError` for a type without bloom filters.
    """
    name, size, leaf = _type(kind)
    try:
        encodings = encode_literal(leaf, value)
    except LiteralError:
        return ()
    plain: Iterable[bytes] = () if encodings.reason else encodings.plain
    if name in _PADDING:
        plain = [padded for each in plain for padded in _paddings(each, size, _PADDING[name])]
    if name in _BYTES:
        return tuple(map(hash_plain, plain))
    numbers = [int.from_bytes(each, "little", signed=True) for each in plain]
    if name in ("TIMESTAMP", "TIMESTAMP_LTZ") and size > _MOST_MICROS:
        # There may be nanoseconds: readers of the INT96 itself, such as Spark, round it towards 1970.
        numbers += [number - 1 for number in numbers if number <= 0]
    return tuple(map(wang64, numbers))


def _paddings(value: bytes, size: int, char: bytes) -> Iterator[bytes]:
    """Yield a value with all lengths of padding that it may have; nothing if there are too many."""
    shortest = value.rstrip(char)
    lengths = range(len(shortest), max(len(value), size) + 1)
    if len(lengths) <= _MOST_PADDED:
        yield from (shortest.ljust(length, char) for length in lengths)


class _Probes(NamedTuple):
    """The hashes of literals, 8 bytes each; `counts` has their number for each literal, None if each has one."""

    hashes: bytes
    counts: Sequence[int] | None


def _probes(kind: str, values: Sequence[Any]) -> _Probes:
    """Return the `literal_hashes` of literals, which are cached: the files of a table need the same ones."""
    for known, literals, probes in _Recent.entries:
        if known == kind and (literals is values or _are_same(literals, values)):
            return probes
    types = set(map(type, values))
    probes = _same_probes(kind, values, types) or _any_probes(kind, values)
    if types <= _IMMUTABLE and len(values) <= _MOST_REMEMBERED:
        _Recent.remember(kind, values if type(values) is tuple else tuple(values), probes)
    return probes


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _any_probes(kind: str, values: Sequence[Any]) -> _Probes:
    hashes = [literal_hashes(kind, value) for value in values]
    return _Probes(array("Q", [each for some in hashes for each in some]).tobytes(), list(map(len, hashes)))


def _same_probes(kind: str, values: Sequence[Any], types: set[type]) -> _Probes | None:
    """Return the hashes of integers or texts that all fit the type, or None."""
    name, _, _ = _type(kind)
    if types == {int} and name in _RANGES and -_RANGES[name] <= min(values) and max(values) < _RANGES[name]:
        return _Probes(_kernel.hash_wang64(array("q", values)), None)
    if types == {str} and name in ("STRING", "VARCHAR"):
        try:
            texts = [value.encode() for value in values]
        except UnicodeEncodeError:
            return None
        offsets = array("q", accumulate(map(len, texts), initial=0))
        return _Probes(_kernel.hash_variable(offsets, 8, b"".join(texts), 0, len(texts)), None)
    return None


_RANGES = {"TINYINT": 1 << 7, "SMALLINT": 1 << 15, "INT": 1 << 31, "BIGINT": 1 << 63}


class _Recent:
    """The last lists of literals, newest first, with their hashes.

    A tuple is recognized by its identity. A list may change, so it is recognized by the identity of its elements: equal
    literals, such as 1, True and 1.0, or 0.0 and -0.0, may have different hashes.
    """

    entries: tuple[tuple[str, tuple[Any, ...], _Probes], ...] = ()

    @classmethod
    def remember(cls, kind: str, literals: tuple[Any, ...], probes: _Probes) -> None:
        kept, room = [(kind, literals, probes)], _MOST_REMEMBERED - len(literals)
        for entry in cls.entries[: _LISTS_REMEMBERED - 1]:
            room -= len(entry[1])
            if room >= 0:
                kept.append(entry)
        cls.entries = tuple(kept)  # replaced in one step, for other threads


_LISTS_REMEMBERED = 8
_MOST_REMEMBERED = 1 << 20
"""The most literals in all these lists."""

_IMMUTABLE = {NoneType, bool, int, float, Decimal, str, bytes, date, datetime, time}


def array_hashes(values: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array:
    """Return the hashes of all values that are not null, as an array of int64.

    Text, bytes, integers, floats, dates, times and timestamps may have any width or unit that Arrow has; timestamps are
    not converted between UTC and local time. Raises `TypeError` for another array, `UnsupportedError` for a type
    without bloom filters.
    """
    import pyarrow as pa

    name, size, leaf = _type(kind)
    chunk = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    if name in _BYTES:
        if pa.types.is_fixed_size_binary(chunk.type):
            chunk = chunk.cast(pa.binary())
        hashes = hash_array(leaf, chunk)
    else:
        hashes = _kernel.hash_wang64(_packed_of(_integers(chunk.drop_null(), name, size)))
    return pa.Array.from_buffers(pa.int64(), len(hashes) // 8, [None, pa.py_buffer(hashes)])


def _packed_of(values: Any) -> memoryview:
    """Return the bytes of an array of int64 without nulls."""
    data = values.buffers()[1]
    return memoryview(data if data is not None else b"")[8 * values.offset : 8 * (values.offset + len(values))]


def _integers(chunk: Any, name: str, size: int) -> Any:
    """Return the integers that Paimon hashes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = chunk.type
    if name == "FLOAT" and pa.types.is_float32(kind):
        canonical = pc.if_else(pc.is_nan(chunk), pa.scalar(math.nan, kind), chunk)
        return canonical.view(pa.int32()).cast(pa.int64())
    if name == "DOUBLE" and pa.types.is_float64(kind):
        return pc.if_else(pc.is_nan(chunk), pa.scalar(math.nan, kind), chunk).view(pa.int64())
    if name in ("TINYINT", "SMALLINT", "INT", "BIGINT") and pa.types.is_signed_integer(kind):
        return chunk.cast(pa.int64())
    if name == "DATE" and kind == pa.date32():
        return chunk.cast(pa.int32()).cast(pa.int64())
    is_time = name == "TIME" and pa.types.is_time(kind)
    if not is_time and not (name.startswith("TIMESTAMP") and pa.types.is_timestamp(kind)):
        raise TypeError(f"Paimon does not store {name} as an array of {kind}")
    ticks = chunk.cast(pa.int32()).cast(pa.int64()) if pa.types.is_time32(kind) else chunk.cast(pa.int64())
    wanted, given = PER_SECOND["ms" if is_time or size <= 3 else "us"], PER_SECOND[kind.unit]
    if given <= wanted:
        return pc.multiply_checked(ticks, _int64(wanted // given))
    return floored(ticks, given // wanted)


def floored(values: Any, step: int) -> Any:
    """Return an array of int64 divided by a step greater than 1 and rounded down: `pc.divide` rounds towards zero.

    >>> import pyarrow
    >>> floored(pyarrow.array([-1, 1, -1000, -1001]), 1000).to_pylist()
    [-1, 0, -1, -2]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    cut = pc.divide(values, _int64(step))
    return pc.subtract(cut, pc.greater(pc.multiply(cut, _int64(step)), values).cast(pa.int64()))


def _int64(value: int) -> Any:
    import pyarrow as pa

    return pa.scalar(value, pa.int64())


# ---- filters ---------------------------------------------------------------------------------


class Size(NamedTuple):
    """The hash functions and bits of a filter."""

    num_hashes: int
    num_bits: int


def size_for(items: int, fpp: float) -> Size:
    """Return the size that Paimon gives a filter for this many distinct values and this false positive rate.

    It adds 1 to 8 bits to fill a byte. Raises `ValueError` if Paimon cannot use such a filter.

    >>> size_for(1_000_000, 0.1)
    Size(num_hashes=3, num_bits=4792536)
    """
    if items < 1 or not 0 < fpp <= 1:
        raise ValueError(f"a filter needs at least one item and 0 < fpp <= 1, not {items} and {fpp}")
    exact = -items * math.log(fpp) / (math.log(2) * math.log(2))
    num_bits = int(min(exact, 2**31 - 1))
    num_bits += 8 - num_bits % 8
    num_hashes = max(1, math.floor(num_bits / items * math.log(2) + 0.5))
    if num_bits > _MOST_BITS:
        raise ValueError(f"{items:,} items with an fpp of {fpp} need more than {_MOST_BITS:,} bits")
    if num_hashes > MOST_HASHES:
        raise ValueError(f"an fpp of {fpp} needs {num_hashes} hash functions; Paimon uses at most {MOST_HASHES}")
    return Size(num_hashes, num_bits)


class Builder:
    """Builds a filter for a column of type `kind`. Raises the errors of `size_for`, and `UnsupportedError`."""

    def __init__(self, kind: str, *, items: int = 1_000_000, fpp: float = 0.1) -> None:
        _type(kind)
        self._kind, self._size = kind, size_for(items, fpp)
        self._bits = bytearray(self._size.num_bits // 8)

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Insert all values that are not null. Raises the errors of `array_hashes`."""
        hashes = _packed_of(array_hashes(values, self._kind))
        _kernel.paimon_insert(self._bits, self._size.num_hashes, hashes)
        if 0 in _kernel.paimon_check(self._bits, self._size.num_hashes, hashes):
            raise CorruptFileError(
                "a value that was just added is not in the filter: this machine's memory or build is broken"
            )

    def payload(self) -> bytes:
        """Return the filter, byte by byte what Paimon writes for the same values and options."""
        return self._size.num_hashes.to_bytes(4, "big") + self._bits


def build(values: pa.Array | pa.ChunkedArray, kind: str, *, items: int = 1_000_000, fpp: float = 0.1) -> bytes:
    """Return a `bloom-filter` of an array, byte by byte what Paimon writes for a column of type `kind`.

    `items` and `fpp` are the table's options of these names, and decide the size alone. Raises the errors of
    `array_hashes` and `size_for`.
    """
    builder = Builder(kind, items=items, fpp=fpp)
    builder.add(values)
    return builder.payload()


class PaimonFilter:
    """A `bloom-filter` of a data file's column; a `FileFilter`.

    `kind` is the column's type in the schema that the file was written with. Raises `UnsupportedError` for a type
    without bloom filters, `CorruptFileError` for bytes that are not a filter.
    """

    format = "Paimon bloom-filter"

    def __init__(self, payload: bytes, column: ColumnPath, kind: str) -> None:
        _type(kind)
        self.column = column
        self.kind = kind
        self._num_hashes, self._bits = int.from_bytes(payload[:4], "big", signed=True), payload[4:]
        if not self._bits or len(self._bits) > _MOST_BITS // 8:
            raise CorruptFileError(f"a bloom filter cannot have {len(payload):,} bytes")
        if not 1 <= self._num_hashes <= _MOST_HASHES_EVER:
            raise CorruptFileError(f"a bloom filter cannot have {self._num_hashes:,} hash functions")

    def describe(self) -> Description:
        """Return the filter's size and state."""
        num_bits = 8 * len(self._bits)
        fill = int.from_bytes(self._bits, "little").bit_count() / num_bits
        ndv = -num_bits / self._num_hashes * math.log1p(-fill) if fill < 1 else None
        return Description(len(self._bits), self._num_hashes, fill, fill**self._num_hashes, ndv)

    def might_contain(self, values: Sequence[Any]) -> bytes:
        """Return for each literal 0 if it is proved not to be in the file, else 1, also if it is not understood."""
        probes = _probes(self.kind, values)
        answers = self._check(probes.hashes)
        if probes.counts is None:
            return answers
        ends = accumulate(probes.counts)
        return bytes(not n or 1 in answers[end - n : end] for n, end in zip(probes.counts, ends, strict=True))

    def might_contain_stored(self, values: pa.Array) -> bytes:
        """Return the same for values of the file, without nulls, in the types that `array_hashes` takes."""
        return self._check(_packed_of(array_hashes(values, self.kind)))

    def contains_hash(self, hashed: int) -> bool:
        """Return whether all bits of an unsigned 64-bit hash are set."""
        return self._check(hashed.to_bytes(8, sys.byteorder)) == b"\1"

    def _check(self, hashes: bytes | memoryview) -> bytes:
        return _kernel.paimon_check(self._bits, self._num_hashes, hashes)


def filters_of_table(
    file: LiveFile, size: int = 0, *, columns: Collection[str] | None = None
) -> Plan[tuple[PaimonFilter, ...]]:
    """Plan to read the filters of a Paimon table's data file, for all columns or for these, by their names in the file.

    The plan reads `file.file_index.path`, of `size` bytes: the header, and then only the filters. It reads nothing if
    the index is in the manifest, and if there are no filters: the file has no index, no column has a type with filters,
    or `file.not_excluded` tells that they would prove nothing. Raises the errors of `read_entries` and `PaimonFilter`.
    """
    index = file.file_index
    if index is None or file.not_excluded is not None:
        return ()
    if (known := index.data) is not None:
        entries, size = _entries_of(known), len(known)
    else:
        entries, known = yield from _read_head(size)
    wanted = {
        entry.column: ByteRange(entry.start, entry.start + entry.length)
        for entry in entries
        if entry.kind == BLOOM_FILTER and entry.start >= 0 and (columns is None or entry.column in columns)
    }
    # A name such as `tags[key]` may be a key of a map.
    kinds = {name: kind for name, kind in index.columns.items() if is_hashed(kind) and not name.endswith("]")}
    wanted = {name: place for name, place in wanted.items() if name in kinds}
    if not wanted:
        return ()
    if sum(map(len, wanted.values())) > size:
        raise CorruptFileError("the filters overlap")
    more = [place for place in wanted.values() if place.stop > len(known)]
    read = dict(zip(more, (yield more) if more else (), strict=True))
    return tuple(
        PaimonFilter(read[place] if place in read else known[place.start : place.stop], (name,), kinds[name])
        for name, place in wanted.items()
    )
