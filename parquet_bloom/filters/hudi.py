"""Hudi's filters of record keys: in the footer of a base file, as Base64 text in the key-value metadata.

They are Hadoop's bloom filters. All integers are big-endian (Java's DataOutput):

    SIMPLE        | -1, int32 | k, int32 | hash, int8: 0 Jenkins, 1 Murmur | m bits, int32 | ceil(m / 8) bytes |
    older         | k, int32, always positive | m, int32 | ceil(m / 8) bytes |          Jenkins; read only
    DYNAMIC_V0    | the first 13 bytes above | keys per row, int32 | keys since the last row was opened, int32 |
                  | rows, int32 | each row as a complete SIMPLE filter |

Bit p is bit p % 8, counted from the lowest, of byte p / 8. A key, the UTF-8 of the record key, sets k bits: each hash
is the seed of the next, beginning with 0, and |hash| mod m is the bit (Java's remainder of the absolute value). A key
may be in a dynamic filter if it may be in any row.

When a row is full, a dynamic filter opens a new row for the next key, until its rows have room for `max_entries`. Then
it adds keys to the rows in turn, and the first of these keys also to row 0. The limit is not stored: a filter that was
read from a file gets no more rows.

Sources: org.apache.hadoop.util.bloom and org.apache.hudi.common.bloom.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from parquet_bloom import _kernel
from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.filters.protocol import Description
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import ColumnPath

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_KEY = "_hoodie_record_key"
FILTER, OLD_FILTER = "org.apache.hudi.bloomfilter", "com.uber.hoodie.bloomfilter"
TYPE_CODE = "hoodie_bloom_filter_type_code"
MIN_KEY, MAX_KEY = "hoodie_min_record_key", "hoodie_max_record_key"
ENTRIES = (FILTER, OLD_FILTER, TYPE_CODE, MIN_KEY, MAX_KEY)

NUM_ENTRIES, FPP, MAX_ENTRIES = 60_000, 1e-9, 100_000
"""Hudi's defaults: `hoodie.index.bloom.num_entries`, `.fpp`, `hoodie.bloom.index.filter.dynamic.max.entries`."""

JENKINS, MURMUR = 0, 1

_MAX_INT32 = 2**31 - 1
_MOST_HASHES = 2048
"""More than the sizing rule gives for the lowest possible rate (1,075). With more, a probe could take hours."""
_ARROW_SCHEMA = "ARROW:schema"
_REPLACED = "?\ufffd"
"""What Java and Python put into text for bytes that are not UTF-8: the original key was another one."""


# ---- sizing and text -----------------------------------------------------------------------


def sizing(num_entries: int, fpp: float) -> tuple[int, int]:
    """Return m and k, the number of bits of a row and of a key, as Hudi computes them.

    Raises `ValueError` if Hudi fails.

    >>> sizing(60_000, 1e-9)
    (2587966, 30)
    """
    if not 0 < num_entries <= _MAX_INT32 or not 0 < fpp < 1:
        raise ValueError(f"a filter needs at least one key and an fpp between 0 and 1, not {num_entries} and {fpp}")
    log2 = math.log(2)
    num_bits = min(math.ceil(num_entries * (-math.log(fpp) / (log2 * log2))), _MAX_INT32)
    return num_bits, min(math.ceil(log2 * num_bits / num_entries), _MAX_INT32)


def decode_text(text: str) -> bytes:
    """Return the bytes that Java's basic Base64 decoder returns for a text; raises `CorruptFileError` if it fails.

    Padding may be missing completely, but not partly.
    """
    body = text.rstrip("=")
    missing = -len(body) % 4
    if missing == 3 or len(text) - len(body) not in (0, missing) or not re.fullmatch("[A-Za-z0-9+/]*", body, re.A):
        raise CorruptFileError("the filter is not valid Base64")
    try:
        return base64.b64decode(body + "=" * missing)
    except binascii.Error as error:
        raise CorruptFileError(f"the filter is not valid Base64: {error}") from error


def encode_text(data: bytes) -> str:
    """Return a filter's bytes as text, as in a footer."""
    return base64.b64encode(data).decode("ascii")


def utf16_order(text: str) -> bytes:
    """Return a key that sorts texts like Java's `String.compareTo`."""
    return text.encode("utf-16-be", "surrogatepass")


# ---- Hadoop's filters ----------------------------------------------------------------------


def _packed(keys: Sequence[bytes]) -> tuple[array[int], bytes]:
    return array("q", accumulate(map(len, keys), initial=0)), b"".join(keys)


class SimpleFilter:
    """A Hadoop bloom filter of `num_bits` bits; a key sets `num_hashes` of them. It takes any number of keys.

    Keys are bytes. An empty key is a `ValueError` in `add`, and present in `check`; Hadoop rejects both.
    """

    type_code = "SIMPLE"

    def __init__(self, num_bits: int, num_hashes: int, *, hash_type: int = MURMUR, bits: bytes | None = None) -> None:
        """Make an empty filter, or one with these ceil(num_bits / 8) bytes."""
        size = (num_bits + 7) // 8
        if not 0 < num_bits <= _MAX_INT32 or not 0 < num_hashes <= _MAX_INT32 or hash_type not in (JENKINS, MURMUR):
            raise ValueError(f"a filter cannot have {num_bits} bits and {num_hashes} hashes of type {hash_type}")
        if bits is not None and len(bits) != size:
            raise ValueError(f"{num_bits} bits take {size} bytes, not {len(bits)}")
        self.num_bits = num_bits
        self.num_hashes = num_hashes
        self.hash_type = hash_type
        self._bits = bytearray(size) if bits is None else bytearray(bits)
        if num_bits % 8:
            self._bits[-1] &= (1 << num_bits % 8) - 1  # padding is ignored, and written as 0

    @classmethod
    def sized_for(cls, num_entries: int, fpp: float) -> SimpleFilter:
        """Return the empty filter that Hudi makes for this many keys."""
        return cls(*sizing(num_entries, fpp))

    @classmethod
    def from_bytes(cls, data: bytes) -> SimpleFilter:
        """Return the filter that `data` begins with; raises `CorruptFileError`."""
        return _read_simple(data, 0)[0]

    def to_bytes(self) -> bytes:
        """Return the filter as Hadoop writes it."""
        return _header(self) + self._bits

    @property
    def rows(self) -> Sequence[SimpleFilter]:
        """The filter itself, its only row."""
        return (self,)

    @property
    def bits(self) -> bytes:
        """The bits as they are stored."""
        return bytes(self._bits)

    @property
    def num_set(self) -> int:
        """How many bits are set."""
        return int.from_bytes(self._bits, "little").bit_count()

    def add(self, keys: Sequence[bytes]) -> None:
        """Add every key."""
        if not all(keys):
            raise ValueError("an empty key cannot be added")
        if self.hash_type == JENKINS:
            for key in keys:
                for at in _jenkins_positions(key, self.num_bits, self.num_hashes):
                    self._bits[at // 8] |= 1 << at % 8
            return
        offsets, data = _packed(keys)
        _kernel.hadoop_insert(self._bits, self.num_bits, self.num_hashes, offsets, 8, data, 0, len(keys))

    def check(self, keys: Sequence[bytes]) -> bytes:
        """Return one byte for each key: 1 if it may have been added, 0 if it was not."""
        return self.check_packed(keys, *_packed(keys))

    def check_packed(self, keys: Sequence[bytes], offsets: array[int], data: bytes) -> bytes:
        """Return the same as `check`; `offsets` and `data` are the same keys in the form that the kernel takes."""
        if self.hash_type == JENKINS:
            return bytes(
                all(self._bits[at // 8] >> at % 8 & 1 for at in _jenkins_positions(key, self.num_bits, self.num_hashes))
                if key
                else 1
                for key in keys
            )
        answers = _kernel.hadoop_check(self._bits, self.num_bits, self.num_hashes, offsets, 8, data, 0, len(keys))
        return answers if all(keys) else bytes(there or not key for there, key in zip(answers, keys, strict=True))


class DynamicFilter:
    """Rows of filters, each for `row_entries` keys, with a limit of keys after which it gets no more rows.

    `num_since_row` counts the keys since the last row was opened; it is not a count in a file that was merged from
    others. Keys are those of `SimpleFilter`.
    """

    type_code = "DYNAMIC_V0"

    def __init__(self, num_bits: int, num_hashes: int, row_entries: int, max_entries: int) -> None:
        """Make a filter with one empty row."""
        if not 0 < row_entries <= _MAX_INT32:
            raise ValueError(f"a row needs at least one key, not {row_entries}")
        self._rows = [SimpleFilter(num_bits, num_hashes)]
        self.num_bits = num_bits
        self.num_hashes = num_hashes
        self.hash_type: int = MURMUR
        self.row_entries = row_entries
        self.num_since_row: int = 0
        self._max_entries, self._is_bounded, self._cursor = max_entries, False, 0

    @classmethod
    def sized_for(cls, num_entries: int, fpp: float, max_entries: int) -> DynamicFilter:
        """Return the empty filter that Hudi makes for this many keys."""
        return cls(*sizing(num_entries, fpp), num_entries, max_entries)

    @classmethod
    def from_bytes(cls, data: bytes) -> DynamicFilter:
        """Return the filter that `data` begins with, which gets no more rows; raises `CorruptFileError`."""
        num_bits, num_hashes, hash_type, at = _read_header(data, 0)
        row_entries, num_since_row, num_rows = _unpack(">3i", data, at)
        at += 12
        # The smallest row is an old header and one byte.
        if not 0 < num_rows <= (len(data) - at) // 9:
            raise CorruptFileError(f"the filter claims {num_rows} rows in {len(data) - at} bytes", offset=at)
        rows = []
        for _ in range(num_rows):
            row, at = _read_simple(data, at)
            rows.append(row)
        read = cls.__new__(cls)
        read.num_bits, read.num_hashes, read.hash_type = num_bits, num_hashes, hash_type
        read.row_entries, read.num_since_row, read._rows = row_entries, num_since_row, rows
        read._max_entries, read._is_bounded, read._cursor = 0, False, 0
        return read

    def to_bytes(self) -> bytes:
        """Return the filter as Hudi writes it."""
        counts = struct.pack(">3i", self.row_entries, self.num_since_row, len(self._rows))
        return b"".join([_header(self), counts, *(row.to_bytes() for row in self._rows)])

    @property
    def rows(self) -> Sequence[SimpleFilter]:
        """The rows, the oldest first."""
        return tuple(self._rows)

    def add(self, keys: Sequence[bytes]) -> None:
        """Add every key, in this order: with two or more rows the bits depend on it."""
        if self.row_entries <= 0 or self.hash_type != MURMUR:
            raise ValueError("filters of this kind are read-only")
        at = 0
        while at < len(keys) and not self._is_bounded:
            if self.num_since_row < self.row_entries:
                stop = at + self.row_entries - self.num_since_row
                self._add_to(self._rows[-1], keys[at:stop])
                at = stop
            elif _int32(len(self._rows) * self.row_entries) < self._max_entries:
                self._rows.append(SimpleFilter(self.num_bits, self.num_hashes))
                self.num_since_row = 0
            else:
                self._is_bounded = True
                self._add_to(self._rows[0], keys[at : at + 1])
                at += 1
        left = keys[at:]
        for turn in range(min(len(self._rows), len(left))):
            row = self._rows[(self._cursor + turn) % len(self._rows)]
            self._add_to(row, left[turn :: len(self._rows)])
        self._cursor += len(left)

    def _add_to(self, row: SimpleFilter, keys: Sequence[bytes]) -> None:
        row.add(keys)
        self.num_since_row += len(keys)

    def check(self, keys: Sequence[bytes]) -> bytes:
        """Return one byte for each key: 1 if it may have been added, 0 if it was not."""
        packed = _packed(keys)
        answers = bytes(len(keys))
        for row in self._rows:
            answers = _either(answers, row.check_packed(keys, *packed))
        return answers


HadoopFilter = SimpleFilter | DynamicFilter
_TYPES: dict[str, type[SimpleFilter] | type[DynamicFilter]] = {
    kind.type_code: kind for kind in (SimpleFilter, DynamicFilter)
}


def parse(data: bytes, type_code: str | None = None) -> HadoopFilter:
    """Return the filter that `data` begins with; without a type code it is SIMPLE.

    Raises `CorruptFileError`, and `UnsupportedError` for an unknown type.
    """
    kind = _TYPES.get("SIMPLE" if type_code is None else type_code.upper())
    if kind is None:
        raise UnsupportedError(f"the filter type {type_code!r} is unknown; SIMPLE and DYNAMIC_V0 are supported")
    return kind.from_bytes(data)


def _header(of: HadoopFilter) -> bytes:
    return struct.pack(">iibi", -1, of.num_hashes, of.hash_type, of.num_bits)


def _read_header(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Return m, k, the type of the hash, and the length of the header."""
    (first,) = _unpack(">i", data, at)
    if first > 0:
        (num_bits,) = _unpack(">i", data, at + 4)
        num_hashes, hash_type, end = first, JENKINS, at + 8
    elif first == -1:
        num_hashes, hash_type, num_bits = _unpack(">ibi", data, at + 4)
        end = at + 13
    else:
        raise CorruptFileError(f"the filter has the unknown version {first}", offset=at)
    if hash_type not in (JENKINS, MURMUR) or num_bits <= 0 or num_hashes <= 0:
        raise CorruptFileError(
            f"the filter claims {num_bits} bits and {num_hashes} hashes of type {hash_type}, which is impossible",
            offset=at,
        )
    if num_hashes > _MOST_HASHES:
        raise UnsupportedError(f"the filter has {num_hashes:,} hashes per key, more than any writer uses")
    return num_bits, num_hashes, hash_type, end


def _read_simple(data: bytes, at: int) -> tuple[SimpleFilter, int]:
    num_bits, num_hashes, hash_type, start = _read_header(data, at)
    end = start + (num_bits + 7) // 8
    if end > len(data):
        raise CorruptFileError(f"the filter is cut off: {len(data) - start} of {end - start} bytes", offset=start)
    return SimpleFilter(num_bits, num_hashes, hash_type=hash_type, bits=data[start:end]), end


def _unpack(form: str, data: bytes, at: int) -> tuple[int, ...]:
    if at + struct.calcsize(form) > len(data):
        raise CorruptFileError("the filter is cut off", offset=len(data))
    return struct.unpack_from(form, data, at)


def _int32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _either(one: bytes, other: bytes) -> bytes:
    size = len(one)
    return (int.from_bytes(one, "little") | int.from_bytes(other, "little")).to_bytes(size, "little")


# ---- Jenkins' hash, of filters that are no longer written -------------------------------------


def _jenkins_positions(key: bytes, num_bits: int, num_hashes: int) -> Iterable[int]:
    seed = 0
    for _ in range(num_hashes):
        seed = jenkins(key, seed)
        yield abs(_int32(seed)) % num_bits


_MIX = ((0, 2, 4, 1), (1, 0, 6, 2), (2, 1, 8, 0), (0, 2, 16, 1), (1, 0, 19, 2), (2, 1, 4, 0))
"""x -= y; x ^= y rotated; y += z, in lookup3's order of a, b, c."""
_FINAL = ((2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24))
"""x ^= y; x -= y rotated."""


def jenkins(data: bytes, seed: int) -> int:
    """Return Bob Jenkins' lookup3 hash (`hashlittle`), unsigned; the seed may have either sign."""
    state = [(0xDEADBEEF + len(data) + seed) % 2**32] * 3
    if not data:
        return state[2]
    last = (len(data) - 1) // 12 * 12
    for at in range(0, last, 12):
        state = [(x + y) % 2**32 for x, y in zip(state, struct.unpack_from("<3I", data, at), strict=True)]
        for x, y, bits, z in _MIX:
            state[x] = (state[x] - state[y]) % 2**32 ^ _rotated(state[y], bits)
            state[y] = (state[y] + state[z]) % 2**32
    words = struct.unpack("<3I", data[last:].ljust(12, b"\0"))
    state = [(x + y) % 2**32 for x, y in zip(state, words, strict=True)]
    for x, y, bits in _FINAL:
        state[x] = ((state[x] ^ state[y]) - _rotated(state[y], bits)) % 2**32
    return state[2]


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) % 2**32


# ---- the filter of a file ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HudiFilter:
    """The filter of a base file's record keys, and their range; a `FileFilter`."""

    filter: HadoopFilter = field(repr=False)
    min_key: str | None = None
    max_key: str | None = None

    @property
    def format(self) -> str:
        """`Hudi` and the type of the filter."""
        return f"Hudi {self.filter.type_code}"

    @property
    def column(self) -> ColumnPath:
        """The path of the record key column."""
        return (RECORD_KEY,)

    def describe(self) -> Description:
        """Return the filter's size and state; `fpp` is that of all rows together."""
        rows = self.filter.rows
        fills = [row.num_set / row.num_bits for row in rows]
        absent = math.prod(1 - fill**row.num_hashes for fill, row in zip(fills, rows, strict=True))
        ndv = None
        if max(fills) < 1:
            estimates = (-row.num_bits / row.num_hashes * math.log(1 - f) for f, row in zip(fills, rows, strict=True))
            ndv = math.fsum(estimates)
        num_bits = sum(row.num_bits for row in rows)
        num_bytes = sum(len(row.bits) for row in rows)
        num_set = sum(row.num_set for row in rows)
        return Description(num_bytes, max(row.num_hashes for row in rows), num_set / num_bits, 1 - absent, ndv)

    def might_contain(self, values: Sequence[Any]) -> bytes:
        """Return for each value 0 if it is proved not to be the record key of any row, else 1.

        Text is understood, and bytes that are text. The empty text may always be there, and so may text that is not
        UTF-8, which Java would have written differently.
        """
        keys = [_as_key(value) for value in values]
        answers = self.filter.check([key or b"" for key in keys])
        if (is_out := self._out_of_range()) is None:
            return answers
        pairs = zip(answers, keys, strict=True)
        return bytes(maybe and not (key and is_out(key)) for maybe, key in pairs)

    def might_contain_stored(self, values: pa.Array) -> bytes:
        """Return the same for values of the file, without nulls."""
        return self.might_contain(values.to_pylist())

    def _out_of_range(self) -> Callable[[bytes], bool] | None:
        """Return a test whether a key is out of range both in Java's order and as bytes; None if there is no range.

        Java compares keys in its own order, but some writers store the range in the order of bytes.
        """
        if self.min_key is None or self.max_key is None:
            return None
        bounds = self.min_key + self.max_key
        if any(mark in bounds for mark in _REPLACED):
            return None
        low, high = self.min_key.encode(), self.max_key.encode()
        low16, high16 = utf16_order(self.min_key), utf16_order(self.max_key)
        is_same = max(bounds, default="") <= "\uffff"  # both orders are the same for ASCII keys

        def is_out(key: bytes) -> bool:
            if low <= key <= high:
                return False
            return (is_same and key.isascii()) or not low16 <= utf16_order(key.decode()) <= high16

        return is_out


def _as_key(value: Any) -> bytes | None:
    """Return the key of a literal; None or empty if it is not understood."""
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).decode().encode()
    except UnicodeError:
        pass
    return None


def filter_of(footer: Footer) -> HudiFilter | None:
    """Return the record key filter in a footer; None if it has none, or the file has no such column.

    Raises `CorruptFileError` if it is damaged, or cannot belong to the file's rows, and `UnsupportedError` if it has a
    type or a size that Hudi does not write.
    """
    leaves = [leaf for leaf in footer.leaves if leaf.path == (RECORD_KEY,)]
    if not leaves:
        return None
    entries = footer.key_values
    name = FILTER if FILTER in entries else OLD_FILTER
    if name not in entries:
        return None
    if any(leaf.logical_type is None or leaf.logical_type.name != "STRING" for leaf in leaves):
        raise UnsupportedError(f"column {RECORD_KEY} is not text")
    if _is_carried_over(entries.get(_ARROW_SCHEMA)):
        raise CorruptFileError("Arrow copied the filter from the file that it read, but wrote other rows")
    text = entries[name]
    if text is None:
        raise CorruptFileError("the filter's entry is empty")
    type_code = entries[TYPE_CODE] or "" if TYPE_CODE in entries else None
    try:
        stored = parse(decode_text(text), type_code)
    except ParquetBloomError as error:
        raise type(error)(f"the record key filter: {error}") from error
    if footer.num_rows and not any(row.num_set for row in stored.rows):
        raise CorruptFileError(f"the record key filter is empty, but the file has {footer.num_rows} rows")
    return HudiFilter(stored, entries.get(MIN_KEY), entries.get(MAX_KEY))


def _is_carried_over(schema: str | None) -> bool:
    """Return whether the metadata of an Arrow schema has the filter: then it is older than the file's rows."""
    if schema is None:
        return False
    try:
        data = base64.b64decode(schema)
    except (binascii.Error, ValueError):
        return True
    return FILTER.encode() in data or OLD_FILTER.encode() in data


# ---- building ------------------------------------------------------------------------------


class Builder:
    """Builds the filter of record keys that Hudi builds with the same settings.

    Raises `ValueError` for settings that Hudi rejects, `UnsupportedError` for an unknown type.
    """

    def __init__(
        self,
        *,
        type: str = "DYNAMIC_V0",
        num_entries: int = NUM_ENTRIES,
        fpp: float = FPP,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        if type.upper() not in _TYPES:
            raise UnsupportedError(f"the filter type {type!r} is unknown; SIMPLE and DYNAMIC_V0 are supported")
        self._bloom: HadoopFilter
        if type.upper() == SimpleFilter.type_code:
            self._bloom = SimpleFilter.sized_for(num_entries, fpp)
        else:
            self._bloom = DynamicFilter.sized_for(num_entries, fpp, max_entries)
        self._bounds: tuple[str, ...] = ()

    def add(self, values: Iterable[str]) -> None:
        """Insert the keys of some rows, in the order of the file, each as often as it occurs.

        Raises `ValueError` for an empty key.
        """
        texts = list(values)
        encoded = [_encoded(text) for text in texts]
        self._bloom.add(encoded)
        if 0 in self._bloom.check(encoded):
            raise CorruptFileError(
                "a key that was just added is not in the filter: this machine's memory or build is broken"
            )
        if texts:
            order = None if all(map(str.isascii, texts)) else utf16_order
            bounds = (*self._bounds, min(texts, key=order), max(texts, key=order))
            self._bounds = min(bounds, key=utf16_order), max(bounds, key=utf16_order)

    def entries(self) -> dict[str, str]:
        """Return the footer entries with the filter and the range of the keys."""
        entries = {FILTER: encode_text(self._bloom.to_bytes())}
        if self._bloom.type_code != SimpleFilter.type_code:
            entries[TYPE_CODE] = self._bloom.type_code
        if self._bounds:
            entries[MIN_KEY], entries[MAX_KEY] = (_encoded(key).decode() for key in self._bounds)
        return entries


def build(keys: Iterable[str], **settings: Any) -> dict[str, str]:
    """Return the footer entries for these record keys, with the settings of `Builder`; raises the same errors."""
    builder = Builder(**settings)
    builder.add(keys)
    return builder.entries()


def _encoded(text: str) -> bytes:
    """Return a key as UTF-8; half of a surrogate pair becomes a question mark, as in Java."""
    return text.encode("utf-8", "replace")
