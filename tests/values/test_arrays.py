"""Every value of an array is hashed as its plain bytes, in whatever shape Arrow holds it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from values.stored import leaf, leaf_of, plain_values, write

from parquet_bloom.format import sbbf
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.values.arrays import companion_hashes, hash_array, is_nan, plain_value
from parquet_bloom.values.encoding import encode_literal

INT96 = leaf("INT96")
DAY = 86_400 * 10**9
KINDS: dict[str, tuple[LeafColumn, pa.DataType, st.SearchStrategy[Any], Callable[[Any], bytes]]] = {
    "int32": (leaf("INT32"), pa.int32(), st.integers(-(2**31), 2**31 - 1), struct.Struct("<i").pack),
    "int64": (leaf("INT64"), pa.int64(), st.integers(-(2**63), 2**63 - 1), struct.Struct("<q").pack),
    "float": (leaf("FLOAT"), pa.float32(), st.floats(width=32, allow_nan=False), struct.Struct("<f").pack),
    "double": (leaf("DOUBLE"), pa.float64(), st.floats(allow_nan=False), struct.Struct("<d").pack),
    "int96": (INT96, pa.binary(12), st.binary(min_size=12, max_size=12), bytes),
    "fixed": (leaf("FIXED_LEN_BYTE_ARRAY", None, 5), pa.binary(5), st.binary(min_size=5, max_size=5), bytes),
    "binary": (leaf("BYTE_ARRAY"), pa.binary(), st.binary(max_size=40), bytes),
    "large_binary": (leaf("BYTE_ARRAY"), pa.large_binary(), st.binary(max_size=40), bytes),
    "binary_view": (leaf("BYTE_ARRAY"), pa.binary_view(), st.binary(max_size=40), bytes),
    "string": (leaf("BYTE_ARRAY", "STRING"), pa.string(), st.text(max_size=20), str.encode),
    "large_string": (leaf("BYTE_ARRAY", "STRING"), pa.large_string(), st.text(max_size=20), str.encode),
    "string_view": (leaf("BYTE_ARRAY", "STRING"), pa.string_view(), st.text(max_size=20), str.encode),
}


def hashes(array: bytes) -> list[int]:
    return list(memoryview(array).cast("Q"))


def expected(values: list[Any], pack: Callable[[Any], bytes]) -> list[int]:
    return [reference.xxh64(pack(value)) for value in values if value is not None]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_each_value_that_is_not_null_is_hashed_once_in_order(kind: str, data: st.DataObject) -> None:
    column, arrow, values, pack = KINDS[kind]
    rows = data.draw(st.lists(st.none() | values, max_size=12))
    array = pa.array(rows, arrow)
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    assert hashes(hash_array(column, array)) == expected(rows, pack)
    assert hashes(hash_array(column, array[start:stop])) == expected(rows[start:stop], pack)
    chunked = pa.chunked_array([array[start:], array[:start], array[:0]], arrow)
    assert hashes(hash_array(column, chunked)) == expected(rows[start:] + rows[:start], pack)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.endswith("view")])
@given(data=st.data())
def test_of_a_dictionary_the_values_in_use_are_hashed(kind: str, data: st.DataObject) -> None:
    column, arrow, values, pack = KINDS[kind]
    dictionary = data.draw(st.lists(values, min_size=1, max_size=6))
    indices = data.draw(st.lists(st.none() | st.integers(0, len(dictionary) - 1), max_size=12))
    array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(dictionary, arrow))
    start = data.draw(st.integers(0, len(indices)))
    used = {reference.xxh64(pack(dictionary[i])) for i in indices[start:] if i is not None}
    assert set(hashes(hash_array(column, array[start:]))) == used
    assert set(hashes(hash_array(column, pa.chunked_array([array[start:]])))) == used


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_hashed_where_nothing_is(kind: str) -> None:
    column, arrow, _, _ = KINDS[kind]
    for array in (pa.array([], arrow), pa.nulls(3, arrow), pa.chunked_array([], arrow)):
        assert hash_array(column, array) == b""
        assert companion_hashes(column, array) == b""
    assert (
        hash_array(column, pa.nulls(3, arrow).dictionary_encode() if "view" not in kind else pa.nulls(3, arrow)) == b""
    )


def test_what_lies_under_a_null_is_not_hashed() -> None:
    validity = pa.py_buffer(b"\x05")
    array = pa.Array.from_buffers(pa.int64(), 3, [validity, pa.py_buffer(struct.pack("<3q", 1, 2, 3))])
    assert hashes(hash_array(leaf("INT64"), array)) == expected([1, 3], struct.Struct("<q").pack)
    offsets = pa.py_buffer(struct.pack("<4i", 0, 1, 2, 3))
    strings = pa.Array.from_buffers(pa.string(), 3, [validity, offsets, pa.py_buffer(b"abc")])
    assert hashes(hash_array(leaf("BYTE_ARRAY"), strings)) == expected([b"a", b"c"], bytes)


@pytest.mark.parametrize(
    ("column", "array"),
    [
        (leaf("INT32"), pa.array([1])),
        (leaf("INT32"), pa.array([1], pa.uint32())),
        (leaf("INT32", "DATE"), pa.array([1], pa.date32())),
        (leaf("INT64"), pa.array([1], pa.int32())),
        (leaf("INT64"), pa.array([1], pa.timestamp("us"))),
        (leaf("FLOAT"), pa.array([1.0])),
        (leaf("BYTE_ARRAY"), pa.array([b"abc"], pa.binary(3))),
        (leaf("FIXED_LEN_BYTE_ARRAY", None, 4), pa.array([b"abc"], pa.binary(3))),
        (leaf("FIXED_LEN_BYTE_ARRAY", None, 4), pa.array([b"abcd"])),
        (leaf("FIXED_LEN_BYTE_ARRAY", "UUID", 16), pa.array([bytes(16)], pa.uuid())),
        (INT96, pa.array([1], pa.timestamp("ns"))),
        (leaf("BOOLEAN"), pa.array([True])),
        (leaf("INT64"), pa.array([1], pa.int32()).dictionary_encode()),
        (leaf("INT64"), pa.chunked_array([], pa.int32())),
    ],
    ids=str,
)
def test_an_array_that_is_not_what_the_column_stores_is_refused(column: LeafColumn, array: Any) -> None:
    with pytest.raises(TypeError, match=r"user\.id"):
        hash_array(column, array)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.endswith("view")])
@given(data=st.data())
def test_plain_value_is_what_was_hashed(kind: str, data: st.DataObject) -> None:
    _, arrow, values, pack = KINDS[kind]
    rows = data.draw(st.lists(values, min_size=2, max_size=5))
    array = pa.array(rows, arrow)[1:]
    assert [plain_value(array, i) for i in range(len(array))] == [pack(row) for row in rows[1:]]


# --- companions -----------------------------------------------------------------------------------------------

FLOATS = {
    "float": (leaf("FLOAT"), pa.float32(), "<f", "0000c07f"),
    "double": (leaf("DOUBLE"), pa.float64(), "<d", "000000000000f87f"),
}


def floats(kind: str, bits: list[str | None]) -> pa.Array:
    """Returns an array of exactly these bit patterns, which no conversion may touch."""
    arrow = FLOATS[kind][1]
    width = arrow.bit_width // 8
    data = b"".join(bytes.fromhex(b) if b else bytes(width) for b in bits)
    valid = sum(1 << i for i, b in enumerate(bits) if b)
    return pa.Array.from_buffers(arrow, len(bits), [pa.py_buffer(valid.to_bytes(8, "little")), pa.py_buffer(data)])


@pytest.mark.parametrize("kind", FLOATS)
def test_either_zero_brings_both(kind: str) -> None:
    column, arrow, form, _ = FLOATS[kind]
    both = {reference.xxh64(struct.pack(form, zero)) for zero in (0.0, -0.0)}
    for zero in (0.0, -0.0):
        array = pa.array([1.0, None, zero], arrow)
        assert set(hashes(companion_hashes(column, array))) == both
        assert set(hashes(companion_hashes(column, array.dictionary_encode()))) == both
        assert set(hashes(companion_hashes(column, pa.chunked_array([array[:1], array[1:]])))) == both
        assert both == set(encode_literal(column, 0).hashes())


@pytest.mark.parametrize("kind", FLOATS)
def test_any_nan_brings_the_canonical_one(kind: str) -> None:
    column, arrow, _, canonical = FLOATS[kind]
    width = arrow.bit_width // 8
    for last in ("7f", "ff"):
        array = floats(kind, ["01" + "00" * (width - 3) + "f0" + last, None])
        assert math.isnan(array[0].as_py())
        assert hashes(companion_hashes(column, array)) == [reference.xxh64(bytes.fromhex(canonical))]
        assert is_nan(column, plain_value(array, 0))
        among_others = pa.concat_arrays([pa.array([1.5], arrow), array])
        assert companion_hashes(column, among_others) == companion_hashes(column, array)
    assert not is_nan(column, bytes(width))


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_values_bring_nothing(kind: str) -> None:
    column, arrow, _, _ = KINDS[kind]
    ordinary = {"int96": bytes(12), "fixed": bytes(5), "float": 1.5, "double": -1.5, "int32": 0, "int64": 0}
    text = "" if "string" in kind else b""
    array = pa.array([ordinary.get(kind, text), None], arrow)
    assert companion_hashes(column, array) == b""
    assert companion_hashes(column, array[1:]) == b""


def test_half_float_zeros_bring_both() -> None:
    column = leaf("FIXED_LEN_BYTE_ARRAY", "FLOAT16", 2)
    both = set(encode_literal(column, 0.0).hashes())
    assert len(both) == 2
    assert set(hashes(companion_hashes(column, pa.array([b"\0\x80"], pa.binary(2))))) == both
    assert companion_hashes(column, pa.array([b"\0\x3c"], pa.binary(2))) == b""


def int96(nanoseconds: int, day: int) -> bytes:
    return struct.pack("<qi", nanoseconds, day)


@pytest.mark.parametrize(
    ("stored", "companions"),
    [
        (int96(0, 2_440_588), []),
        (int96(DAY - 1000, 2_440_588), []),
        (int96(DAY, 2_440_588), [int96(0, 2_440_589)]),
        (int96(-1000, 2_440_588), [int96(DAY - 1000, 2_440_587)]),
        (int96(1999, 2_440_588), [int96(1999, 2_440_588), int96(1000, 2_440_588)]),
        (int96(-1, 2_440_588), [int96(DAY - 1, 2_440_587), int96(DAY - 1000, 2_440_587), int96(0, 2_440_588)]),
        (int96(3 * DAY + 5000, -7), [int96(5000, -4)]),
        (int96(DAY, 2**31 - 1), []),
        (
            int96(-(2**63), 0),
            [
                int96(*(lambda d, n: (n, d))(*divmod(-(2**63), DAY))),
                int96((-(2**63) % DAY) // 1000 * 1000, -(2**63) // DAY),
                int96(*divmod(-(2**63) + 808, DAY)[::-1]),
            ],
        ),
    ],
)
def test_int96_brings_its_canonical_forms(stored: bytes, companions: list[bytes]) -> None:
    array = pa.array([b"x" * 12, None, stored, None], pa.binary(12))[1:]
    found = set(hashes(companion_hashes(INT96, array)))
    assert found == {reference.xxh64(plain) for plain in companions}


# --- the same bytes and hashes as pyarrow's own writer --------------------------------------------------------

WRITTEN = {
    **{str(kind): pa.array([0, 1, 100, 127], kind) for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint32())},
    "int64": pa.array([0, -1, 2**62]),
    "uint64": pa.array([0, 2**64 - 1], pa.uint64()),
    "float": pa.array([1.5, 0.1], pa.float32()),
    "double": pa.array([1.5, 0.1]),
    "string": pa.array(["", "a", "Zoë"]),
    "binary": pa.array([b"", b"\xff"]),
    "fixed": pa.array([b"abcd", b"\0\0\0\0"], pa.binary(4)),
    "uuid": pa.array([bytes(range(16))], pa.uuid()),
    "date": pa.array([19_756, -1], pa.int32()).cast(pa.date32()),
    "time": pa.array([1, 2], pa.time64("us")),
    "timestamp ns": pa.array([1, NS := 1_704_067_200_123_456_789], pa.timestamp("ns")),
    "timestamp UTC": pa.array([1, 2_000_000_000_000], pa.timestamp("ms", "UTC")),
    "decimal": pa.array([1, -1], pa.decimal128(20, 2)),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_pyarrows_filter_holds_the_hash_of_each_literal(kind: str) -> None:
    array = WRITTEN[kind]
    file = write(array, bloom_filter_options={"c": {"ndv": 1000, "fpp": 0.001}})
    bitset = reference.from_bytes(stored_bitset(file))
    column = leaf_of(file)
    for scalar, plain in zip(array, plain_values(file), strict=True):
        encodings = encode_literal(column, scalar)
        assert encodings.reason is None
        assert plain in encodings.plain
        assert reference.check(bitset, encodings.hashes()[encodings.plain.index(plain)])
    assert not all(reference.check(bitset, reference.xxh64(bytes([i] * 9))) for i in range(20))


def stored_bitset(file: bytes) -> bytes:
    import io

    import pyarrow.parquet as pq

    chunk = pq.ParquetFile(io.BytesIO(file)).metadata.row_group(0).column(0)
    stored = file[chunk.bloom_filter_offset :][: chunk.bloom_filter_length]
    return stored[sbbf.read_header(stored).length :]
