"""Split-block bloom filters: size, insert, check, fold, merge, and the bytes they are in a file.

A filter answers "was this hash inserted?" with *no* (certain) or *maybe*. It knows 64-bit hashes and
never the values behind them: `values` turns a value into a hash.

Layout ("Split Block Bloom Filters" in the format's BloomFilter.md). A bitset is z blocks of 32 bytes; a
block is eight 32-bit words, little-endian:

    bitset    | block 0 | block 1 | ... | block z-1 |                    32 z bytes
    block     | word 0 | word 1 | word 2 | ... | word 7 |                32 bytes
    hash      | upper 32 bits: which block | lower 32 bits: which bits |

    block     = (upper * z) >> 32                   any z, not only powers of two
    bit in i  = (lower * SALT[i] mod 2^32) >> 27    one bit in each word i, 0 to 31

An insert sets those eight bits and a check asks for all eight: one cache line, and 32 bytes of a stored
filter, per hash.

In a file ("File Format", same page) the bitset follows its header, a struct in Thrift's compact encoding:

    15 <varint of 2 * numBytes>     numBytes
    1c 1c 00 00                     algorithm: BLOCK
    1c 1c 00 00                     hash: XXHASH
    1c 1c 00 00                     compression: UNCOMPRESSED
    00                              end of the header; the bitset begins

Sizing ("Sizing an SBBF"). With b bits per distinct value a block holds a Poisson number of values with
mean 256/b, and a block with i values has a given bit of a word clear with probability (31/32)^i. So an
absent hash finds its eight bits set with probability

    fpp(b) = sum over i of Poisson(i; 256/b) * (1 - (31/32)^i)^8

which `false_positive_rate` sums. The closed form (1 - exp(-8/b))^8, in wide use, takes every block to
hold the mean, and promises 1 % where 1.46 % is what one gets.

Folding. The block of a hash among z/2 is half its block among z, rounded down, and its bits do not depend
on z. So "new block i = block 2i OR block 2i+1" gives the very bitset that the same hashes build at half
the size. A filter is therefore built large, and folded while its exact rate (`fpp`, a matter of counting
bits) stays within the target: one pass over the values, and no distinct count needed beforehand.
"""

from __future__ import annotations

import math
import mmap
import sys
import threading
from array import array
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from parquet_bloom import _kernel
from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.format.thrift_io import varint

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

BLOCK_BYTES = 32
MIN_PORTABLE_BYTES = 64
"""The smallest bitset that every engine reads; nothing smaller is written unasked."""
MAX_BYTES = 128 * 1024 * 1024
"""The largest bitset that is chosen unasked, and the largest that Arrow C++ accepts."""

_BITS_PER_BLOCK = 256
_BITS_PER_WORD = 32
_WORDS_PER_BLOCK = 8
_MAX_INT32 = 2**31 - 1
_HEADER_AFTER_NUM_BYTES = bytes.fromhex("1c1c0000 1c1c0000 1c1c0000 00")
_MAX_HEADER_BYTES = 1024
"""How far a header is looked for: sound ones have 15 to 19 bytes, padded and future ones may have more."""
_OWN_PAGES_FROM = 4 * 1024 * 1024


# --- sizing ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)  # row groups of a file are mostly alike, and a miss takes a fraction of a millisecond
def false_positive_rate(bits_per_value: float) -> float:
    """Return the exact expected false-positive rate at this many bits per distinct value.

    >>> round(false_positive_rate(10.53), 4)
    0.01
    """
    if not bits_per_value > 0:
        raise ValueError(f"bits per value must be more than 0, not {bits_per_value}")
    mean = _BITS_PER_BLOCK / bits_per_value
    if mean > 40 * _BITS_PER_WORD:
        return 1.0  # the chance of a clear bit, exp(-mean / 32), is below what a float can tell from 0
    if mean == 0:
        return 0.0
    log_mean = math.log(mean)
    reach = 12 * math.sqrt(mean)  # the terms outside are below 1e-20 of the whole
    rate = math.fsum(
        math.exp(i * log_mean - mean - math.lgamma(i + 1)) * (1 - (31 / 32) ** i) ** _WORDS_PER_BLOCK
        for i in range(max(1, math.floor(mean - reach)), math.ceil(mean + reach + 40))
    )
    return min(rate, 1.0)


def optimal_num_bytes(ndv: int, fpp: float, *, max_bytes: int = MAX_BYTES) -> int:
    """Return the smallest bitset, a power of two of at least 64 bytes, that keeps `ndv` values within `fpp`.

    When even the largest one within `max_bytes` does not, that one is returned.

    >>> optimal_num_bytes(100_000, 0.01)
    262144
    """
    if ndv < 0:
        raise ValueError(f"the number of distinct values must not be negative, it is {ndv}")
    _require_fpp(fpp)
    if max_bytes < MIN_PORTABLE_BYTES:
        raise ValueError(f"max_bytes must be at least {MIN_PORTABLE_BYTES}, not {max_bytes}")
    num_bytes = MIN_PORTABLE_BYTES
    while 2 * num_bytes <= max_bytes and ndv and false_positive_rate(8 * num_bytes / ndv) > fpp:
        num_bytes *= 2
    return num_bytes


# --- one hash in one block, for probing a stored filter 32 bytes at a time ------------------------------


def block_index(hash: int, num_blocks: int) -> int:
    """Return which of `num_blocks` blocks holds the bits of `hash`."""
    return (hash >> 32) * num_blocks >> 32


def block_contains(block: bytes | memoryview, hash: int) -> bool:
    """Return whether all eight bits of `hash` are set in these 32 bytes."""
    if len(block) != BLOCK_BYTES:
        raise ValueError(f"a block has {BLOCK_BYTES} bytes, not {len(block)}")
    return _kernel.check(block, hash.to_bytes(8, sys.byteorder)) == b"\1"  # a block is a filter of one block


def blocks_contain(blocks: bytes, hash: int) -> bytes:
    """Return for each of many blocks, one after the other, 1 if all eight bits of `hash` are set in it, else 0."""
    count = len(blocks) // BLOCK_BYTES
    # The same hash is asked of one file after the other, which have few blocks each; a row of an index has many.
    selecting = _selecting if count <= _FEW_BLOCKS else _selecting.__wrapped__
    return _kernel.check(blocks, selecting(hash, count))


_FEW_BLOCKS = 64


@lru_cache(maxsize=64)
def _selecting(hash: int, count: int) -> array[int]:
    """Return `count` hashes that have the bits of `hash` in their block, of which each selects another block."""
    words = _selectors(count)[:]
    words[sys.byteorder != "little" :: 2] = array("I", [hash & 0xFFFFFFFF]) * count
    return words


@lru_cache(maxsize=64)
def _selectors(count: int) -> array[int]:
    """Return hashes of which each selects another of `count` blocks, as pairs of words."""
    words = array("I", bytes(8 * count))
    words[sys.byteorder == "little" :: 2] = array("I", [-(-(index << 32) // count) for index in range(count)])
    return words


# --- the header -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BloomFilterHeader:
    """What a stored filter says about itself: `num_bytes` of bitset follow `length` bytes of header."""

    num_bytes: int
    length: int


def write_header(num_bytes: int) -> bytes:
    """Return the encoded header of a bitset of `num_bytes`.

    >>> write_header(1024).hex(" ")
    '15 80 10 1c 1c 00 00 1c 1c 00 00 1c 1c 00 00 00'
    """
    _require_num_bytes(num_bytes)
    return b"\x15" + varint(2 * num_bytes) + _HEADER_AFTER_NUM_BYTES


@lru_cache(maxsize=4096)
def usual_layout(length: int | None) -> tuple[int, bytes] | None:
    """Return the one bitset size whose header makes up the rest of `length`, and that header, if there is one."""
    for of_header in range(15, 20) if length is not None else ():
        num_bytes = (length or 0) - of_header
        if not 0 < num_bytes <= _MAX_INT32 or num_bytes % BLOCK_BYTES:
            continue
        if len(header := write_header(num_bytes)) == of_header:
            return num_bytes, header
    return None


def read_header(data: ReadableBuffer, *, length: int | None = None) -> BloomFilterHeader:
    """Return the header that `data` begins with; what follows the header does not matter.

    `length` is the footer's `bloom_filter_length`, header and bitset together, where the footer has it.
    Raises `CorruptFileError` for anything but a sound header ("cut off" when there may be more of it than
    `data` has), and `UnsupportedError` for a sound one with another algorithm, hash or compression.
    """
    start = bytes(memoryview(data).cast("B")[:_MAX_HEADER_BYTES])
    if (usual := usual_layout(length)) is not None and start.startswith(usual[1]):
        return BloomFilterHeader(usual[0], len(usual[1]))
    from parquet_bloom.format import thrift_io
    from parquet_bloom.format._parquet_thrift.ttypes import BloomFilterHeader as HeaderStruct

    try:
        struct, header_length = thrift_io.decode(HeaderStruct, start)
    except CorruptFileError as error:
        if isinstance(error.__cause__, EOFError):
            raise CorruptFileError(f"the bloom filter header is cut off after {len(start)} bytes") from error
        raise CorruptFileError("there is no bloom filter header here") from error
    num_bytes = struct.numBytes
    if num_bytes is None:
        raise CorruptFileError("the bloom filter header has no numBytes")
    for field, known in (("algorithm", "BLOCK"), ("hash", "XXHASH"), ("compression", "UNCOMPRESSED")):
        union = getattr(struct, field)
        if union is None:
            raise CorruptFileError(f"the bloom filter header has no {field}")
        if getattr(union, known) is None:
            raise UnsupportedError(f"the bloom filter's {field} is not {known}, the only one that the format has")
    if not 0 < num_bytes <= _MAX_INT32 or num_bytes % BLOCK_BYTES:
        raise CorruptFileError(
            f"the bloom filter says numBytes {num_bytes}, which is not a positive multiple of {BLOCK_BYTES}: "
            "engines disagree about what such a filter holds"
        )
    if length is not None and length != header_length + num_bytes:
        raise CorruptFileError(
            f"the footer says {length} bytes of bloom filter, its header says {header_length} + {num_bytes}"
        )
    return BloomFilterHeader(num_bytes, header_length)


# --- the filter -----------------------------------------------------------------------------------------


class SplitBlockBloomFilter:
    """A split-block bloom filter of 64-bit hashes.

    Hashes travel as buffers of native-endian uint64 (what `_kernel.hash_fixed` and `hash_variable` return) or
    one by one as integers. Inserts from several threads wait for each other; a check meanwhile sees some.

    >>> bloom = SplitBlockBloomFilter(64)
    >>> bloom.insert_hash(0x26C7827D889F6DA3)
    >>> bloom.check_hash(0x26C7827D889F6DA3), bloom.check_hash(0x26C7827D889F6DA4)
    (True, False)
    """

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # it changes with every insert

    def __init__(self, num_bytes: int) -> None:
        """Make an empty filter of `num_bytes`, a positive multiple of 32."""
        _require_num_bytes(num_bytes)
        self._bitset = _zeros(num_bytes)
        self._inserting = threading.Lock()

    @classmethod
    def sized_for(cls, ndv: int, fpp: float, *, max_bytes: int = MAX_BYTES) -> SplitBlockBloomFilter:
        """Return an empty filter of `optimal_num_bytes(ndv, fpp)`."""
        return cls(optimal_num_bytes(ndv, fpp, max_bytes=max_bytes))

    @classmethod
    def from_bitset(cls, bitset: ReadableBuffer) -> SplitBlockBloomFilter:
        """Return the filter with these bits; `bytes` are kept as they are until the first insert."""
        view = memoryview(bitset if isinstance(bitset, bytes) else bytes(bitset))
        _require_num_bytes(view.nbytes)
        bloom = cls.__new__(cls)
        bloom._bitset = view
        bloom._inserting = threading.Lock()
        return bloom

    @classmethod
    def from_bytes(cls, data: ReadableBuffer, *, length: int | None = None) -> SplitBlockBloomFilter:
        """Return the filter, header and bitset, that `data` begins with; see `read_header` for the rest."""
        header = read_header(data, length=length)
        bitset = bytes(memoryview(data).cast("B")[header.length : header.length + header.num_bytes])
        if len(bitset) < header.num_bytes:
            raise CorruptFileError(f"the bloom filter is cut off: {len(bitset)} of {header.num_bytes} bytes of bitset")
        return cls.from_bitset(bitset)

    def to_bytes(self) -> bytes:
        """Return header and bitset, as they stand in a file."""
        return b"".join((write_header(self.num_bytes), self._bitset))

    @property
    def bitset(self) -> memoryview:
        """The bits as they are now, read-only."""
        return self._bitset if self._bitset.readonly else self._bitset.toreadonly()

    @property
    def num_bytes(self) -> int:
        """The size of the bitset."""
        return self._bitset.nbytes

    @property
    def num_blocks(self) -> int:
        """The size of the bitset in blocks of 32 bytes."""
        return self.num_bytes // BLOCK_BYTES

    def insert(self, hashes: ReadableBuffer) -> None:
        """Insert every hash."""
        with self._inserting:
            if self._bitset.readonly:
                stored, self._bitset = self._bitset, _zeros(self.num_bytes)
                self._bitset[:] = stored
            _kernel.insert(self._bitset, hashes)

    def check(self, hashes: ReadableBuffer) -> bytes:
        """Return one byte for each hash: 1 when it may have been inserted, 0 when it was not."""
        return _kernel.check(self._bitset, hashes)

    def insert_hash(self, hash: int) -> None:
        """Insert one hash."""
        self.insert(_as_buffer(hash))

    def check_hash(self, hash: int) -> bool:
        """Return whether this hash may have been inserted."""
        return self.check(_as_buffer(hash)) == b"\1"

    def fold(self) -> SplitBlockBloomFilter:
        """Return the filter of half the size with the same hashes.

        An odd number of blocks is a `ValueError`.
        """
        return self.from_bitset(_kernel.fold(self._bitset))

    def folded_to(self, fpp: float) -> SplitBlockBloomFilter:
        """Return the smallest filter, by halving down to 64 bytes, whose exact rate is still within `fpp`.

        When no halving is within it, that is this filter itself.
        """
        _require_fpp(fpp)
        smallest = self
        while smallest.num_blocks % 2 == 0 and smallest.num_bytes >= 2 * MIN_PORTABLE_BYTES:
            candidate = smallest.fold()
            if candidate.fpp > fpp:
                break
            smallest = candidate
        return smallest

    def merge(self, other: SplitBlockBloomFilter) -> SplitBlockBloomFilter:
        """Return a filter that holds the hashes of both, at the size of the smaller one.

        The larger one is folded first; sizes whose ratio is not a power of two are a `ValueError`.
        """
        small, large = sorted((self, other), key=lambda bloom: bloom.num_bytes)
        ratio, rest = divmod(large.num_bytes, small.num_bytes)
        if rest or ratio & (ratio - 1):
            raise ValueError(f"filters of {small.num_bytes} and {large.num_bytes} bytes cannot be merged")
        while large.num_bytes > small.num_bytes:
            large = large.fold()
        return self.from_bitset(_kernel.merge(small._bitset, large._bitset))

    @property
    def fpp(self) -> float:
        """The exact share of absent hashes that this bitset takes for present."""
        return _kernel.census(self._bitset)[1]

    @property
    def worst_block_fpp(self) -> float:
        """The same share among the hashes that fall into the fullest block."""
        return _kernel.census(self._bitset)[2]

    @property
    def fill(self) -> float:
        """The share of bits that are set."""
        return _kernel.census(self._bitset)[0] / (8 * self.num_bytes)

    @property
    def is_empty(self) -> bool:
        """Whether no hash was ever inserted."""
        return not any(self._bitset[:64]) and _kernel.census(self._bitset)[0] == 0  # the first bytes mostly tell

    @property
    def estimated_ndv(self) -> float:
        """An estimate of how many distinct hashes were inserted; infinite when every bit is set.

        n hashes leave a bit clear with probability exp(-n / 32z): a word gets one bit of 32 from each hash
        of its block, and a block one hash of z. Solved for n, that is -32 z ln(1 - fill), the estimate of
        Swamidass and Baldi (2007) for 256 z bits and eight bits a hash.
        """
        fill = self.fill
        return -_BITS_PER_WORD * self.num_blocks * math.log1p(-fill) if fill < 1 else math.inf

    def __eq__(self, other: object) -> bool:
        return self._bitset == other._bitset if isinstance(other, SplitBlockBloomFilter) else NotImplemented

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).from_bitset, (bytes(self._bitset),)

    def __repr__(self) -> str:
        return f"<SplitBlockBloomFilter of {self.num_bytes:,} bytes, {self.fill:.1%} full>"


def _require_num_bytes(num_bytes: int) -> None:
    if not 0 < num_bytes <= _MAX_INT32 or num_bytes % BLOCK_BYTES:
        raise ValueError(f"a bitset has a positive multiple of {BLOCK_BYTES} bytes below 2 GiB, not {num_bytes}")


def _require_fpp(fpp: float) -> None:
    if not 0 < fpp < 1:
        raise ValueError(f"the false-positive rate must lie between 0 and 1, both excluded, not {fpp}")


def _as_buffer(hash: int) -> bytes:
    return hash.to_bytes(8, sys.byteorder)


def _zeros(num_bytes: int) -> memoryview:
    """Return writable zeros: many of them on pages of their own, aligned to cache lines and perhaps huge.

    Random inserts into 128 MiB take a quarter less time that way.
    """
    if num_bytes < _OWN_PAGES_FROM:
        return memoryview(bytearray(num_bytes))
    pages = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # advice that a kernel without huge pages refuses
            pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages)
