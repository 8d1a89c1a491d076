from collections.abc import Sequence

from _typeshed import ReadableBuffer, WriteableBuffer

CACHED_BYTES: int

def hash_fixed(data: ReadableBuffer, width: int, start: int, count: int, /) -> bytes: ...
def hash_variable(
    offsets: ReadableBuffer, offset_width: int, data: ReadableBuffer, start: int, count: int, /
) -> bytes: ...
def insert(bitset: WriteableBuffer, hashes: ReadableBuffer, /) -> None: ...
def check(bitset: ReadableBuffer, hashes: ReadableBuffer, /) -> bytes: ...
def fold(bitset: ReadableBuffer, /) -> bytes: ...
def merge(bitset: ReadableBuffer, other: ReadableBuffer, /) -> bytes: ...
def census(bitset: ReadableBuffer, /) -> tuple[int, float, float]: ...
def hadoop_insert(
    bits: WriteableBuffer,
    num_bits: int,
    num_hashes: int,
    offsets: ReadableBuffer,
    offset_width: int,
    data: ReadableBuffer,
    start: int,
    count: int,
    /,
) -> None: ...
def hadoop_check(
    bits: ReadableBuffer,
    num_bits: int,
    num_hashes: int,
    offsets: ReadableBuffer,
    offset_width: int,
    data: ReadableBuffer,
    start: int,
    count: int,
    /,
) -> bytes: ...
def hash_wang64(values: ReadableBuffer, /) -> bytes: ...
def paimon_insert(bits: WriteableBuffer, num_hashes: int, hashes: ReadableBuffer, /) -> None: ...
def paimon_check(bits: ReadableBuffer, num_hashes: int, hashes: ReadableBuffer, /) -> bytes: ...
def find(
    filters: tuple[ReadableBuffer, ...],
    runs: ReadableBuffer,
    hashes: ReadableBuffer,
    owners: ReadableBuffer,
    sorted_hashes: ReadableBuffer,
    ranks: ReadableBuffer,
    /,
) -> tuple[bytes, bytes]: ...
def run_between(
    offsets: ReadableBuffer,
    offset_width: int,
    data: ReadableBuffer,
    start: int,
    count: int,
    low: ReadableBuffer,
    high: ReadableBuffer,
    /,
) -> tuple[int, int]: ...
def mark(flags: WriteableBuffer, indexes: ReadableBuffer, /) -> None: ...
def order(offsets: ReadableBuffer, offset_width: int, data: ReadableBuffer, start: int, count: int, /) -> bytes: ...
def prefixes(sorted_hashes: ReadableBuffer, /) -> bytes: ...
def meet(
    hashes: ReadableBuffer, sorted_hashes: ReadableBuffer, prefixes: ReadableBuffer, flags: ReadableBuffer, /
) -> tuple[bytes, bytes]: ...
def struct_fields(data: ReadableBuffer, at: int, /) -> tuple[list[tuple[int, int, int, int, int, bool]], int]: ...
def list_structs(data: ReadableBuffer, at: int, /) -> list[int]: ...
def walk_footer(
    data: ReadableBuffer, /
) -> tuple[int, int, bool, bool, bytes, bytes, bytes, tuple[int, ...]] | None: ...
def read_chunks(
    data: ReadableBuffer, chunks: ReadableBuffer, column: int, columns: int, type: int, path: ReadableBuffer, /
) -> bytes: ...
def place_in_chunks(
    data: ReadableBuffer,
    chunks: ReadableBuffer,
    groups: ReadableBuffer,
    end: int,
    column: int,
    columns: int,
    type: int,
    path: ReadableBuffer,
    order: int,
    width: int,
    value: ReadableBuffer,
    /,
) -> tuple[bytes, list[int], int] | None: ...
def read_ranges(fd: int, ranges: Sequence[tuple[int, int]], /) -> list[bytes]: ...
