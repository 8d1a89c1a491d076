"""The specification in plain Python, slow and obvious: what the tests hold the package to.

Sources: "xxHash fast digest algorithm" (XXH64), the Parquet format's BloomFilter.md, and what Hadoop and Paimon do.
Nothing here imports parquet_bloom, so that a mistake there cannot hide here. A bitset is a list of blocks, a block a
list of eight integers of 32 bits.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction

Block = list[int]
Bitset = list[Block]

# --- XXH64, seed 0 ---------------------------------------------------------------------------------------

PRIME_1 = 0x9E3779B185EBCA87
PRIME_2 = 0xC2B2AE3D27D4EB4F
PRIME_3 = 0x165667B19E3779F9
PRIME_4 = 0x85EBCA77C2B2AE63
PRIME_5 = 0x27D4EB2F165667C5


def u64(x: int) -> int:
    return x % 2**64


def rotate_left(x: int, bits: int) -> int:
    return u64(x << bits) | x >> (64 - bits)


def little_endian(data: bytes) -> int:
    return int.from_bytes(data, "little")


def xxh64_round(accumulator: int, lane: int) -> int:
    return u64(rotate_left(u64(accumulator + lane * PRIME_2), 31) * PRIME_1)


def xxh64_merge(hash: int, accumulator: int) -> int:
    return u64((hash ^ xxh64_round(0, accumulator)) * PRIME_1 + PRIME_4)


def xxh64(data: bytes) -> int:
    at = 0
    if len(data) >= 32:
        accumulators = [u64(PRIME_1 + PRIME_2), PRIME_2, 0, u64(-PRIME_1)]
        while len(data) - at >= 32:
            for i in range(4):
                lane = little_endian(data[at + 8 * i : at + 8 * i + 8])
                accumulators[i] = xxh64_round(accumulators[i], lane)
            at += 32
        hash = u64(sum(rotate_left(a, n) for a, n in zip(accumulators, (1, 7, 12, 18), strict=True)))
        for accumulator in accumulators:
            hash = xxh64_merge(hash, accumulator)
    else:
        hash = PRIME_5
    hash = u64(hash + len(data))
    while len(data) - at >= 8:
        hash ^= xxh64_round(0, little_endian(data[at : at + 8]))
        hash = u64(rotate_left(hash, 27) * PRIME_1 + PRIME_4)
        at += 8
    if len(data) - at >= 4:
        hash ^= u64(little_endian(data[at : at + 4]) * PRIME_1)
        hash = u64(rotate_left(hash, 23) * PRIME_2 + PRIME_3)
        at += 4
    while at < len(data):
        hash ^= u64(data[at] * PRIME_5)
        hash = u64(rotate_left(hash, 11) * PRIME_1)
        at += 1
    hash = u64((hash ^ hash >> 33) * PRIME_2)
    hash = u64((hash ^ hash >> 29) * PRIME_3)
    return hash ^ hash >> 32


# --- the filter ------------------------------------------------------------------------------------------

SALT = [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31]


def empty(num_blocks: int) -> Bitset:
    return [[0] * 8 for _ in range(num_blocks)]


def block_index(hash: int, num_blocks: int) -> int:
    return ((hash >> 32) * num_blocks) >> 32


def mask(hash: int) -> Block:
    lower = hash % 2**32
    return [1 << ((lower * salt) % 2**32 >> 27) for salt in SALT]


def insert(bitset: Bitset, hash: int) -> None:
    block = bitset[block_index(hash, len(bitset))]
    for i, bit in enumerate(mask(hash)):
        block[i] |= bit


def check(bitset: Bitset, hash: int) -> bool:
    block = bitset[block_index(hash, len(bitset))]
    return all(word & bit for word, bit in zip(block, mask(hash), strict=True))


def build(num_blocks: int, hashes: list[int]) -> Bitset:
    bitset = empty(num_blocks)
    for hash in hashes:
        insert(bitset, hash)
    return bitset


def merge(one: Bitset, other: Bitset) -> Bitset:
    return [
        [word | word2 for word, word2 in zip(block, block2, strict=True)]
        for block, block2 in zip(one, other, strict=True)
    ]


def fold(bitset: Bitset) -> Bitset:
    return merge(bitset[0::2], bitset[1::2])


def to_bytes(bitset: Bitset) -> bytes:
    return b"".join(word.to_bytes(4, "little") for block in bitset for word in block)


def from_bytes(data: bytes) -> Bitset:
    words = [little_endian(data[at : at + 4]) for at in range(0, len(data), 4)]
    return [words[at : at + 8] for at in range(0, len(words), 8)]


# --- rates and sizes -------------------------------------------------------------------------------------


def bits_set(bitset: Bitset) -> int:
    return sum(word.bit_count() for block in bitset for word in block)


def block_rate(block: Block) -> Fraction:
    return Fraction(math.prod(word.bit_count() for word in block), 32**8)


def rate(bitset: Bitset) -> Fraction:
    """How many of all the possible hashes the bitset takes for present, exactly."""
    return Fraction(sum(block_rate(block) for block in bitset), len(bitset))


def expected_rate(bits_per_value: float) -> float:
    """sum over i of Poisson(i; 256/b) * (1 - (31/32)^i)^8"""
    mean = 256 / bits_per_value
    total, poisson = 0.0, math.exp(-mean)
    for i in range(1, 3000):
        poisson *= mean / i
        total += poisson * (1 - (31 / 32) ** i) ** 8
    return total


def estimated_ndv(bitset: Bitset) -> float:
    fill = bits_set(bitset) / (256 * len(bitset))
    return -32 * len(bitset) * math.log(1 - fill)


# --- the header ------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    return bytes([number % 128 + 128]) + varint(number // 128)


def header(num_bytes: int) -> bytes:
    """In Thrift's compact encoding; a struct's first field is written as its type plus 16, and so on."""
    i32, struct, end = 0x15, 0x1C, 0x00
    zigzag = 2 * num_bytes
    union_with_empty_struct = bytes([struct, struct, end, end])
    return bytes([i32]) + varint(zigzag) + 3 * union_with_empty_struct + bytes([end])


# --- Hadoop's bloom filter, with its own Murmur (org.apache.hadoop.util.hash.MurmurHash) ------------------


def hadoop_murmur(data: bytes, seed: int) -> int:
    """A signed number, as Java has it."""
    multiplier = 0x5BD1E995
    hash = seed % 2**32 ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        group = little_endian(data[at : at + 4]) * multiplier % 2**32
        group = (group ^ group >> 24) * multiplier % 2**32
        hash = hash * multiplier % 2**32 ^ group
    if tail := data[whole:]:
        for i, byte in enumerate(tail):
            signed = byte - 256 if byte > 127 else byte
            hash ^= (signed << 8 * (len(tail) - 1 - i)) % 2**32
        hash = hash * multiplier % 2**32
    hash = (hash ^ hash >> 13) * multiplier % 2**32
    hash ^= hash >> 15
    return hash - 2**32 if hash >= 2**31 else hash


def hadoop_positions(key: bytes, num_bits: int, num_hashes: int) -> list[int]:
    positions, seed = [], 0
    for _ in range(num_hashes):
        seed = hadoop_murmur(key, seed)
        positions.append(abs(seed) % num_bits)
    return positions


def hadoop_bits(keys: list[bytes], num_bits: int, num_hashes: int) -> bytes:
    bits = bytearray(-(-num_bits // 8))
    for key in keys:
        for at in hadoop_positions(key, num_bits, num_hashes):
            bits[at // 8] |= 1 << at % 8
    return bytes(bits)


def hudi_rows(keys: list[bytes], num_entries: int, max_entries: int) -> tuple[list[list[bytes]], int]:
    """The keys of each row of Hudi's dynamic filter, and how many its counter says; one key after the other."""
    rows: list[list[bytes]] = [[]]
    counter, is_bounded, cursor = 0, False, 0
    for key in keys:
        if is_bounded:
            row = rows[cursor % len(rows)]
            cursor += 1
        elif counter >= num_entries:
            if len(rows) * num_entries < max_entries:
                rows.append([])
                counter, row = 0, rows[-1]
            else:
                is_bounded, row = True, rows[0]
        else:
            row = rows[-1]
        row.append(key)
        counter += 1
    return rows, counter


# --- Paimon: Thomas Wang's hash with signed shifts, and the bits of a hash -------------------------------


def shifted(x: int, bits: int) -> int:
    """Returns 64 bits shifted to the right, the sign's bit repeated."""
    return int(f"{x:064b}"[0] * bits + f"{x:064b}"[: 64 - bits], 2)


def wang64(value: int) -> int:
    x = value % 2**64
    x = (2**64 - 1 - x + (x << 21)) % 2**64
    x = x ^ shifted(x, 24)
    x = (x + (x << 3) + (x << 8)) % 2**64
    x = x ^ shifted(x, 14)
    x = (x + (x << 2) + (x << 4)) % 2**64
    x = x ^ shifted(x, 28)
    return (x + (x << 31)) % 2**64


def paimon_places(hashed: int, num_hashes: int, num_bits: int) -> set[int]:
    low, high = struct.unpack("<ii", struct.pack("<Q", hashed))
    places = set()
    for number in range(1, num_hashes + 1):
        (c,) = struct.unpack("<i", struct.pack("<q", low + number * high)[:4])
        places.add((c if c >= 0 else -c - 1) % num_bits)
    return places


def paimon_filter(hashes: list[int], num_hashes: int, num_bits: int) -> bytes:
    places = {place for hashed in hashes for place in paimon_places(hashed, num_hashes, num_bits)}
    bits = [sum(1 << bit for bit in range(8) if 8 * byte + bit in places) for byte in range(num_bits // 8)]
    return struct.pack(">i", num_hashes) + bytes(bits)
