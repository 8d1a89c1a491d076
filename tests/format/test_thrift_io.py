"""Decoding any bytes returns or raises `CorruptFileError`, in memory bounded by the bytes."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest
from compact import BINARY, I32, I64, LIST, STRUCT, Field, Items, encode_struct
from files import fixture, footer_bytes
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import parse_footer
from parquet_bloom.format.thrift_io import decode, encode

SMALL = footer_bytes(fixture("pyarrow/small.parquet"))
STRUCTS = [ttypes.SlimFileMetaData, ttypes.FileMetaData, ttypes.BloomFilterHeader, ttypes.PageHeader]


def decoded_or_corrupt(data: bytes) -> None:
    for cls in STRUCTS:
        with contextlib.suppress(CorruptFileError):
            _, length = decode(cls, data)
            assert 0 < length <= len(data)
    with contextlib.suppress(CorruptFileError):
        parse_footer(10**9, data)


@given(data=st.binary(max_size=300))
def test_random_bytes_decode_or_are_corrupt(data: bytes) -> None:
    decoded_or_corrupt(data)


@given(edits=st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), max_size=5))
def test_mutated_footers_decode_or_are_corrupt(edits: list[tuple[int, int]]) -> None:
    data = bytearray(SMALL)
    for at, byte in edits:
        data[at] = byte
    decoded_or_corrupt(bytes(data))


def test_every_truncation_is_corrupt() -> None:
    for length in range(len(SMALL)):
        for cls in (ttypes.SlimFileMetaData, ttypes.FileMetaData):
            with pytest.raises(CorruptFileError):
                decode(cls, SMALL[:length])


HOSTILE = r"""
import contextlib, pathlib, random, re, resource, sys
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format.footer import parse_footer
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode

small = bytes.fromhex(sys.stdin.readline())
dice = random.Random(14)

def mutated():
    data = bytearray(small)
    for _ in range(dice.choice([1, 2, 10, 100])):
        data[dice.randrange(len(data))] = dice.randrange(256)
    at = dice.randrange(len(data))
    huge = dice.choice([b"", b"\xff\xff\xff\xff\x07", b"\xff" * 9 + b"\x01", b"\xfc\xff\xff\xff\xff\x07"])
    return bytes(data[:at] + huge + data[at:])

def inputs():
    for _ in range(int(sys.argv[1])):
        yield mutated()
        yield dice.randbytes(dice.randrange(1, 400))
    for level in (b"\x1c", b"\x19", b"\x1a", b"\x01\xbb", b"\x01\xcc"):
        for head in (b"", b"\x79", b"\x7a", b"\x7b", b"\x29", b"\x49"):
            yield head + level * int(sys.argv[2])
    # A million elements that are a byte each, in every list of structs.
    for head in (b"\x29", b"\x49", b"\x49\x1c\x19"):
        yield head + b"\xfc\xc0\x84\x3d" + bytes(1_000_001)

for data in inputs():
    for cls in (ttypes.SlimFileMetaData, ttypes.FileMetaData):
        with contextlib.suppress(CorruptFileError):
            decode(cls, data)
    with contextlib.suppress(CorruptFileError):
        parse_footer(10**9, data)
# On Linux ru_maxrss may be the parent's, from before exec.
status = pathlib.Path("/proc/self/status")
own = status.exists() and int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024
print(own or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize(("count", "depth"), [(100, 100_000), pytest.param(2_000, 1_000_000, marks=pytest.mark.slow)])
def test_hostile_bytes_take_little_memory_and_no_process_with_them(count: int, depth: int) -> None:
    command = [sys.executable, "-c", HOSTILE, str(count), str(depth)]
    ran = subprocess.run(command, input=SMALL.hex(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 200_000_000


def test_a_string_of_20_mb_is_no_attack() -> None:
    size = 20_000_000
    pairs = [[Field(1, BINARY, b"key"), Field(2, BINARY, b"v" * size)]]
    schema = [[Field(4, BINARY, b"root"), Field(5, I32, 0)]]
    raw = encode_struct(
        [
            Field(1, I32, 1),
            Field(2, LIST, Items(STRUCT, schema)),
            Field(3, I64, 0),
            Field(4, LIST, Items(STRUCT, [])),
            Field(5, LIST, Items(STRUCT, pairs)),
        ]
    )
    metadata, length = decode(ttypes.FileMetaData, raw)
    assert length == len(raw)
    assert len(metadata.key_value_metadata[0].value) == size
    assert parse_footer(len(raw) + 12, raw).num_row_groups == 0


def test_a_footer_of_10_000_column_chunks_decodes() -> None:
    columns = [
        ttypes.ColumnChunk(
            file_offset=0,
            meta_data=ttypes.ColumnMetaData(
                type=ttypes.Type.INT64,
                encodings=[ttypes.Encoding.PLAIN],
                path_in_schema=[f"c{i}"],
                codec=0,
                num_values=10,
                total_uncompressed_size=80,
                total_compressed_size=80,
                data_page_offset=4 + 80 * i,
                statistics=ttypes.Statistics(null_count=i, min_value=bytes(8), max_value=bytes(8)),
            ),
        )
        for i in range(100)
    ]
    schema = [ttypes.SchemaElement(name="root", num_children=100)]
    schema += [ttypes.SchemaElement(name=f"c{i}", type=2, repetition_type=1) for i in range(100)]
    groups = [ttypes.RowGroup(columns=columns, total_byte_size=8000, num_rows=10)] * 100
    raw = encode(ttypes.FileMetaData(version=1, schema=schema, num_rows=1000, row_groups=groups))
    footer = parse_footer(10**7, raw)
    chunks = [chunk for _, _, chunk in footer.chunks()]
    assert len(chunks) == 10_000
    assert [chunk.statistics.null_count for chunk in chunks[-100:]] == list(range(100))


def test_bytes_before_and_after_a_struct_are_left_alone() -> None:
    header = encode(ttypes.DataPageHeader(7, 0, 3, 3))
    struct, length = decode(ttypes.DataPageHeader, b"before" + header + b"after", 6)
    assert (struct.num_values, length) == (7, len(header))
