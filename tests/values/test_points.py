"""Where a value lies in a column's chunks: the kernel's answer is that of the statistics, or it has none."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from files import DAMAGED, PLAIN, fixture, footer_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from values.handwritten import column, file_of

from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import OUTSIDE, ChunkPlaces, Footer, parse_footer
from parquet_bloom.format.schema import LeafColumn, PhysicalType
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.values.ordering import kernel_point, key_function
from parquet_bloom.values.statistics import StatisticsReader

SIZE = 10**9
WITHIN = 2


def nearby(key: Any, dice: random.Random) -> list[Any]:
    if isinstance(key, bytes):
        return [key, key + b"\0", key[:-1], key[:-1] + b"\xff", b"", b"\xff" * 40]
    if isinstance(key, int):
        return [
            key,
            key - 1,
            key + 1,
            -key,
            0,
            2**31,
            2**63 - 1,
            2**63,
            -(2**63),
            2**64 - 1,
            2**64,
            dice.getrandbits(64),
        ]
    return [key]


def expected(footer: Footer, reader: StatisticsReader, key: Any) -> ChunkPlaces | None:
    """Returns the places by the records of the chunks and the statistics in them."""
    records = footer.chunk_records(reader.leaf)
    if records is None or not footer.has_filters_apart:
        return None
    codes, locations = bytearray(), []
    for record, known in zip(records, reader.read_usual(footer, records), strict=True):
        if known is None:
            return None
        if not known.low <= key <= known.high:
            codes.append(OUTSIDE)
            continue
        if (location := footer.usual_filter(record)) is None:
            return None
        codes.append(WITHIN)
        locations.append(location)
    lengths = {location.length for location in locations} or {0}
    length = lengths.pop() if len(lengths) == 1 else -1
    return ChunkPlaces(bytes(codes), [location.offset for location in locations], length or 0)


def keys(footer: Footer, leaf: LeafColumn, dice: random.Random) -> Iterator[Any]:
    reader = StatisticsReader(leaf)
    records = footer.chunk_records(leaf)
    for known in () if records is None else reader.read_usual(footer, records):
        for bound in (known.low, known.high) if known else ():
            yield from nearby(bound, dice)


def agree(raw: bytes, dice: random.Random) -> int:
    """Returns how many places were found, each compared with the expected one."""
    found = 0
    try:
        footer = parse_footer(SIZE, raw)
    except CorruptFileError:
        return 0
    for leaf in footer.leaves:
        reader = StatisticsReader(leaf)
        for key in keys(footer, leaf, dice):
            if (point := kernel_point(leaf, key)) is not None:
                places = reader.place(footer, point)
                assert places == expected(footer, reader, key), (leaf, key)
                found += places is not None
    return found


def test_the_places_are_those_of_the_statistics() -> None:
    found = [agree(footer_bytes(fixture(name)), random.Random(1)) for name in PLAIN if name not in DAMAGED]
    assert sum(found) > 1000
    for name in DAMAGED:
        agree(footer_bytes(fixture(name)), random.Random(1))


@settings(max_examples=300)
@given(name=st.sampled_from(["pyarrow/small.parquet", "duckdb/snappy.parquet"]), seed=st.integers(0, 2**32))
def test_the_places_in_mutated_footers_are_those_of_the_statistics(name: str, seed: int) -> None:
    dice, data = random.Random(seed), bytearray(footer_bytes(fixture(name)))
    for _ in range(dice.randint(1, 4)):
        data[dice.randrange(len(data))] = dice.choice([0, 1, 0x15, 0x18, 0x1C, 0xFF, dice.randrange(256)])
    agree(bytes(data), dice)


def all_null(chunk: Any) -> None:
    chunk.statistics.null_count = chunk.num_values


def of_fewer_values(chunk: Any) -> None:
    chunk.num_values -= 1


def with_a_filter_that_reaches_into_the_footer(chunk: Any) -> None:
    chunk.bloom_filter_length += 1


def with_a_filter_of_no_bytes(chunk: Any) -> None:
    chunk.bloom_filter_length = 0


def with_a_filter_in_the_magic(chunk: Any) -> None:
    chunk.bloom_filter_offset = 4


EDITS = [
    all_null,
    of_fewer_values,
    with_a_filter_that_reaches_into_the_footer,
    with_a_filter_of_no_bytes,
    with_a_filter_in_the_magic,
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_a_chunk_that_is_not_as_usual_has_no_places(edit: Callable[[Any], None]) -> None:
    low, high = ((number).to_bytes(8, "little") for number in (1, 9))
    data = file_of(column(PhysicalType.INT64), [low, high], foreign_filter=True, bounds=(low, high))
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    for is_edited in (False, True):
        if is_edited:
            edit(metadata.row_groups[0].columns[0].meta_data)
        raw = encode(metadata)
        end = len(data) - len(footer_bytes(data)) - 8  # where the filter ends, and the footer begins
        footer = parse_footer(end + len(raw) + 8, raw)
        (leaf,) = footer.leaves
        point = kernel_point(leaf, 5)
        assert point is not None
        places = StatisticsReader(leaf).place(footer, point)
        assert (places is None) == is_edited
        assert places == expected(footer, StatisticsReader(leaf), 5)


INTEGERS = st.integers(-(2**63), 2**64 - 1)


@given(
    low=INTEGERS,
    high=INTEGERS,
    key=st.one_of(INTEGERS, st.integers(-(2**70), 2**70)),
    bits=st.sampled_from([32, 64]),
    is_signed=st.booleans(),
)
def test_integers_are_compared_by_their_sign(low: int, high: int, key: int, bits: int, is_signed: bool) -> None:
    kind = PhysicalType.INT32 if bits == 32 else PhysicalType.INT64
    logical = None if is_signed else ttypes.LogicalType(INTEGER=ttypes.IntType(bits, False))
    low_plain, high_plain = ((bound % 2**bits).to_bytes(bits // 8, "little") for bound in (low, high))
    data = file_of(column(kind, logical), [low_plain], foreign_filter=True, bounds=(low_plain, high_plain))
    length = int.from_bytes(data[-8:-4], "little")
    footer = parse_footer(len(data), data[-8 - length : -8])
    (leaf,) = footer.leaves
    point = kernel_point(leaf, key)
    key_of = key_function(leaf)
    assert key_of is not None
    least, most = key_of(low_plain), key_of(high_plain)
    if point is None:
        assert not (-(2**63) if is_signed else 0) <= key < (2**63 if is_signed else 2**64)
    elif least > most:
        assert StatisticsReader(leaf).place(footer, point) is None
    else:
        places = StatisticsReader(leaf).place(footer, point)
        assert places is not None
        assert places.codes == bytes([WITHIN if least <= key <= most else OUTSIDE])
        assert len(places.offsets) == (least <= key <= most)
