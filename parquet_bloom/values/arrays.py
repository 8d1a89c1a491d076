"""Hashes of the values in Arrow arrays, as pages store them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from parquet_bloom import _kernel
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.format.schema import (
    BOOLEAN,
    BYTE_ARRAY,
    DOUBLE,
    FIXED,
    FLOAT,
    INT32,
    INT64,
    INT96,
    LeafColumn,
    PhysicalType,
)
from parquet_bloom.values.encoding import (
    EPOCH_JULIAN_DAY,
    both_zeros,
    decode_plain,
    pack_float,
    pack_int96,
    unpack_int96,
)
from parquet_bloom.values.literals import DAY, byte_array_types

if TYPE_CHECKING:
    import pyarrow as pa

# --- arrays ---------------------------------------------------------------------------------------------------


def int96_parts(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the days since 1970, and the nanoseconds of the day, of INT96 values as 64-bit integers.

    `values` are a fixed_size_binary of 12. The nanoseconds may be below zero, as those that Paimon writes before 1970.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pa.Array.from_buffers(pa.uint32(), 3 * len(values), [None, values.buffers()[1]], offset=3 * values.offset)
    triples = pa.FixedSizeListArray.from_arrays(words, 3)
    low, high, day = (pc.list_element(triples, place) for place in range(3))
    nanoseconds = pc.bit_wise_or(low.cast(pa.int64()), pc.shift_left(high.cast(pa.int64()), pa.scalar(32, pa.int64())))
    days = pc.subtract(day.view(pa.int32()).cast(pa.int64()), pa.scalar(EPOCH_JULIAN_DAY, pa.int64()))
    return pc.if_else(values.is_valid(), days, None), pc.if_else(values.is_valid(), nanoseconds, None)


def int96_nanoseconds(values: pa.Array) -> pa.Array:
    """Return the nanoseconds since 1970 of INT96 values; raises `UnsupportedError` if 64 bits do not hold one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    days, nanoseconds = int96_parts(values)
    try:
        return pc.add_checked(pc.multiply_checked(days, pa.scalar(DAY, pa.int64())), nanoseconds)
    except pa.ArrowInvalid:
        raise UnsupportedError(
            "a timestamp lies before 1677 or after 2262, which 64-bit nanoseconds cannot hold"
        ) from None


def hash_array(leaf: LeafColumn, array: pa.Array | pa.ChunkedArray) -> bytes:
    """Return the hashes of every value that is not null, as native-endian uint64, 8 bytes each.

    `array` has the values as in the pages: int32, int64, float, double, any binary or string type, or
    fixed_size_binary of `type_length` (of 12 for INT96). In a dictionary-encoded chunk, each value in use is
    hashed once. Raises `TypeError` if the array's type is not the leaf's physical type.
    """
    return b"".join(_hash_chunk(chunk) for chunk in _chunks(leaf, array))


def hash_values(values: pa.Array) -> bytes:
    """Return the hashes of an array's bytes, as `hash_array` does, whatever they mean."""
    return _hash_chunk(values)


def _hash_chunk(chunk: Any) -> bytes:
    import pyarrow as pa

    if len(chunk) == chunk.null_count:
        return b""
    buffers = chunk.buffers()
    if len(buffers) == 3:
        wide = chunk.type in (pa.large_binary(), pa.large_string())
        data = buffers[2] if buffers[2] is not None else b""
        hashes = _kernel.hash_variable(buffers[1], 8 if wide else 4, data, chunk.offset, len(chunk))
    else:
        hashes = _kernel.hash_fixed(buffers[1], chunk.type.bit_width // 8, chunk.offset, len(chunk))
    if not chunk.null_count:
        return hashes
    # The bytes under nulls are hashed too; dropping their hashes copies less than dropping the values.
    return bytes(content(numbers_as_arrow(hashes, pa.uint64()).filter(chunk.is_valid())))


def _chunks(leaf: LeafColumn, array: Any) -> Iterator[Any]:
    """Yield the array's chunks in a form that the kernel takes: no dictionaries, no views."""
    import pyarrow as pa

    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    require_stored(leaf, kind)
    views = {pa.binary_view(): pa.large_binary(), pa.string_view(): pa.large_string()}
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        values = _used(chunk) if pa.types.is_dictionary(chunk.type) else chunk
        yield values.cast(views[kind]) if kind in views else values


def require_stored(leaf: LeafColumn, kind: pa.DataType) -> None:
    """Raise `TypeError` if a leaf's pages do not hold arrays of a type."""
    if kind not in _arrow_types(leaf):
        raise TypeError(f"column {leaf.name} is {leaf.type_name}; it does not store an array of {kind}")


def _used(chunk: Any) -> Any:
    indices = chunk.indices.drop_null().unique()
    return chunk.dictionary if len(indices) == len(chunk.dictionary) else chunk.dictionary.take(indices)


def _arrow_types(leaf: LeafColumn) -> tuple[Any, ...]:
    import pyarrow as pa

    if leaf.physical_type is BYTE_ARRAY:
        return byte_array_types()
    if leaf.physical_type in (FIXED, INT96):
        return (pa.binary(leaf.width),)
    return {INT32: (pa.int32(),), INT64: (pa.int64(),), FLOAT: (pa.float32(),), DOUBLE: (pa.float64(),)}.get(
        leaf.physical_type, ()
    )


def numbers_as_arrow(numbers: Any, kind: pa.DataType | None = None) -> pa.Array:
    """Return numbers in a buffer as an Arrow array of the same memory, of int64 or another type of their width."""
    import pyarrow as pa

    kind = kind or pa.int64()
    count = memoryview(numbers).nbytes * 8 // kind.bit_width
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(numbers)])


def numbers_of(arrow: pa.Int64Array) -> array[int]:
    """Return the numbers in an Arrow array without nulls."""
    numbers = array("q")
    numbers.frombytes(content(arrow))
    return numbers


def indexes_of(values: pa.Array) -> array[int]:
    """Return indexes of keys in an Arrow array of any integer type, without nulls, as int32."""
    import pyarrow as pa

    numbers = array("i")
    numbers.frombytes(content(values.cast(pa.int32())))
    return numbers


def content(values: pa.Array) -> bytes | memoryview:
    """Return the bytes of an array of fixed width without nulls, which are not copied."""
    if not len(values):
        return b""
    width = values.type.bit_width // 8
    return memoryview(values.buffers()[1])[width * values.offset : width * (values.offset + len(values))]


def hashes_among(leaf: LeafColumn, array: pa.Array, wanted: pa.UInt64Array) -> set[int]:
    """Return those of the wanted hashes that `hash_array` and `companion_hashes` return for an array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: set[int] = set()
    for data in (hash_array(leaf, array), companion_hashes(leaf, array)):
        hashes = numbers_as_arrow(data, pa.uint64())
        found.update(hashes.filter(pc.is_in(hashes, wanted)).to_pylist())
    return found


# --- keys -----------------------------------------------------------------------------------------------------


def plain_array(leaf: LeafColumn, plain: Iterable[bytes]) -> pa.Array:
    """Return plain-encoded values as an array of the leaf's physical type."""
    import pyarrow as pa

    kind = key_type(leaf)
    values = list(plain)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array(values, kind)
    return numbers_as_arrow(b"".join(values), kind)


def key_type(leaf: LeafColumn) -> Any:
    """Return the type of a leaf's values as keys to find; booleans are as wide as their plain encoding."""
    import pyarrow as pa

    return pa.uint8() if leaf.physical_type is BOOLEAN else _arrow_types(leaf)[0]


def as_integers(values: pa.Array) -> pa.Array:
    """Return floats as the integers with the same bits, -0.0 is not 0.0 then, and booleans as 0 and 1."""
    import pyarrow as pa

    if pa.types.is_boolean(values.type):
        return values.cast(pa.uint8())
    if not pa.types.is_floating(values.type):
        return values
    return values.view(pa.int32() if values.type == pa.float32() else pa.int64())


def plain_value(array: pa.Array, index: int) -> bytes:
    """Return the plain encoding of one value of such an array; it must not be null."""
    value = array[index]
    if len(array.buffers()) == 3:
        return bytes(value.as_buffer())
    width = array.type.bit_width // 8
    at = (array.offset + index) * width
    return bytes(array.buffers()[1][at : at + width])


def is_nan(leaf: LeafColumn, plain: bytes) -> bool:
    """Return whether a plain-encoded value is NaN, which is never looked up in a filter."""
    value = decode_plain(leaf, plain)
    return isinstance(value, float) and math.isnan(value)


def companion_hashes(leaf: LeafColumn, array: pa.Array | pa.ChunkedArray) -> bytes:
    """Return the hashes to insert in addition to those of `hash_array`, so that no engine loses rows; often none.

    Engines only hash the literal's own zero, the canonical NaN and the canonical INT96. So this adds both zeros if
    there is any zero, the canonical NaN if there is any NaN, and each INT96 in its canonical form, both with
    nanoseconds and truncated to microseconds, as Spark and DuckDB read it. `most_hashes` is the limit on their number.
    Raises `TypeError` as `hash_array` does.
    """
    companions = _COMPANIONS.get(leaf.physical_type)
    if leaf.logical_type is not None and leaf.logical_type.name == "FLOAT16":
        companions = _half_float_companions
    if companions is None:
        return b""
    plain = dict.fromkeys(value for chunk in _chunks(leaf, array) for value in companions(chunk))
    width = leaf.width or 1
    return _kernel.hash_fixed(b"".join(plain), width, 0, len(plain))


def _float_companions(chunk: Any) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    width = chunk.type.bit_width // 8
    if pc.any(pc.equal(chunk, pa.scalar(0.0, chunk.type))).as_py():
        yield from both_zeros(width)
    if pc.any(pc.is_nan(chunk)).as_py():
        yield pack_float("<f" if width == 4 else "<d", math.nan)


def _half_float_companions(chunk: Any) -> Iterable[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    zeros = both_zeros(2)
    return zeros if pc.any(pc.is_in(chunk, pa.array(zeros, chunk.type))).as_py() else ()


def _int96_companions(chunk: Any) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    chunk = chunk.drop_null()
    if not len(chunk):
        return
    words = pa.Array.from_buffers(pa.uint32(), 3 * len(chunk), [None, chunk.buffers()[1]], offset=3 * chunk.offset)
    triples = pa.FixedSizeListArray.from_arrays(words, 3)
    low, high = (pc.list_element(triples, i).cast(pa.uint64()) for i in (0, 1))
    nanoseconds = pc.bit_wise_or(low, pc.shift_left(high, pa.scalar(32, pa.uint64())))
    whole = pc.multiply(pc.divide(nanoseconds, pa.scalar(1000, pa.uint64())), pa.scalar(1000, pa.uint64()))
    odd = pc.or_(pc.greater_equal(nanoseconds, pa.scalar(DAY, pa.uint64())), pc.not_equal(nanoseconds, whole))
    for plain in chunk.filter(odd).unique().to_pylist():
        instant = unpack_int96(plain)
        of_day = int.from_bytes(plain[:8], "little", signed=True)
        # Spark and DuckDB truncate the nanoseconds of the day towards zero, and some writers store negative ones.
        beyond = of_day % 1000 if of_day >= 0 else -(-of_day % 1000)
        for reading in (instant, instant // 1000 * 1000, instant - beyond):
            yield from pack_int96(reading)


_COMPANIONS: Mapping[PhysicalType, Callable[[Any], Iterable[bytes]]] = {
    FLOAT: _float_companions,
    DOUBLE: _float_companions,
    INT96: _int96_companions,
}
