from _typeshed import ReadableBuffer, WriteableBuffer

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
