"""What the kernel walks of a footer is what the generated structs read of it, or it leaves the footer to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from compact import (
    BINARY,
    BYTE,
    DOUBLE,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    TRUE,
    Field,
    Items,
    Pairs,
    Reader,
    encode_struct,
)
from files import DAMAGED, PLAIN, fixture, footer_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from parquet_bloom import _kernel
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format import footer as module
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import Footer, parse_footer
from parquet_bloom.format.thrift_io import encode

SIZE = 10**9
READABLE = {name: footer_bytes(fixture(name)) for name in PLAIN if name not in DAMAGED}


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except CorruptFileError as error:
        return str(error)


def agrees(raw: bytes) -> bool:
    """Returns whether the kernel walked a footer, and then holds it to the structs, field by field."""
    if _kernel.walk_footer(raw) is None:
        return False
    by_structs = outcome(lambda: module._parse_structs(SIZE, raw))
    walked = outcome(lambda: parse_footer(SIZE, raw))
    if not isinstance(walked, Footer):
        assert isinstance(by_structs, str), walked  # of two damaged parts, each names the one that it reads first
        return True
    assert walked.chunk_starts is not None or walked == by_structs
    for name in ("leaves", "num_rows", "row_groups", "created_by", "ordered_by_type", "node_ids", "is_signed"):
        assert getattr(walked, name) == getattr(by_structs, name), name
    assert outcome(lambda: walked.key_values) == outcome(lambda: by_structs.key_values)
    with_filters = list(by_structs.chunks_with_filters(by_structs.leaves))
    assert list(walked.chunks_with_filters(walked.leaves)) == with_filters
    chunks = [column for group in by_structs.metadata.row_groups for column in group.columns]
    assert walked.is_whole <= all(column.meta_data is not None and not column.file_path for column in chunks)
    assert walked.has_filters_apart <= (not by_structs._overlapping)
    for leaf in walked.leaves if walked.chunk_starts is not None else ():
        for group, record in enumerate(walked.chunk_records(leaf) or ()):
            column = by_structs.column_chunk(group, leaf.index)
            assert walked.column_chunk(group, leaf.index) == column
            whole = outcome(lambda group=group, leaf=leaf: by_structs.whole_column_chunk(group, leaf.index))
            # An error may be about another part of the footer, which the walk does not decode.
            assert isinstance(whole, str) or walked.whole_column_chunk(group, leaf.index) == whole
            assert bool(record.flags & module.IS_IN_ORDER) <= (by_structs.chunk_problem(group, leaf) is None)
            if column.meta_data is not None:
                compare(raw, record, column.meta_data)
            location = outcome(lambda group=group, leaf=leaf: by_structs.filter_location(group, leaf))
            assert outcome(lambda group=group, leaf=leaf: walked.filter_location(group, leaf)) == location
            if record.flags & module.IS_IN_ORDER:
                place = record.filter_place
                assert outcome(lambda g=group, x=leaf, p=place: walked.filter_at(g, x, *p)) == location
    return True


def compare(raw: bytes, record: module.ChunkRecord, chunk: Any) -> None:
    statistics = chunk.statistics
    assert bool(record.flags & module.HAS_STATISTICS) == (statistics is not None)
    for flag, number, expected in (
        (0, record.num_values, chunk.num_values),
        (0, record.compressed_size, chunk.total_compressed_size),
        (0, record.data_offset, chunk.data_page_offset),
        (0, record.codec, chunk.codec),
        (module.HAS_DICTIONARY, record.dictionary_offset, chunk.dictionary_page_offset),
        (module.HAS_FILTER, record.filter_offset, chunk.bloom_filter_offset),
        (module.HAS_FILTER_LENGTH, record.filter_length, chunk.bloom_filter_length),
        (module.HAS_NULL_COUNT, record.null_count, statistics and statistics.null_count),
    ):
        assert (number if not flag or record.flags & flag else None) == expected
    low, high = raw[record.low_start : record.low_stop], raw[record.high_start : record.high_stop]
    exactness = {module.KNOWS_LOW_EXACT: module.LOW_IS_EXACT, module.KNOWS_HIGH_EXACT: module.HIGH_IS_EXACT}
    is_exact = [bool(record.flags & exact) if record.flags & known else None for known, exact in exactness.items()]
    if statistics is not None:
        assert (low if record.flags & module.HAS_LOW else None) == statistics.min_value
        assert (high if record.flags & module.HAS_HIGH else None) == statistics.max_value
        assert is_exact == [statistics.is_min_value_exact, statistics.is_max_value_exact]


def test_every_sound_footer_is_walked() -> None:
    for name, raw in READABLE.items():
        assert agrees(raw), name


def test_damaged_footers_agree() -> None:
    for name in DAMAGED:
        agrees(footer_bytes(fixture(name)))


@settings(max_examples=4 * settings().max_examples)
@given(
    name=st.sampled_from(sorted(name for name, raw in READABLE.items() if len(raw) < 4000)),
    seed=st.integers(0, 2**32),
    count=st.integers(1, 4),
)
def test_mutated_footers_agree(name: str, seed: int, count: int) -> None:
    dice, data = random.Random(seed), bytearray(READABLE[name])
    for _ in range(count):
        data[dice.randrange(len(data))] = dice.choice([0, 1, 0x15, 0x18, 0x1C, 0xFF, dice.randrange(256)])
    agrees(bytes(data))


UNKNOWN = st.recursive(
    st.sampled_from([(TRUE, None), (BYTE, 7), (I32, -5), (I64, 2**62), (DOUBLE, bytes(8)), (BINARY, b"later")]),
    lambda inner: st.one_of(
        st.just((LIST, Items(I32, [1, 2]))),
        st.just((SET, Items(TRUE, [1, 2]))),
        st.just((MAP, Pairs(BINARY, I32, [(b"k", 1)]))),
        inner.map(lambda value: (STRUCT, [Field(1, *value), Field(30, I32, 9)])),
        inner.map(lambda value: (LIST, Items(STRUCT, [[Field(2, *value)]] * 20))),
    ),
    max_leaves=3,
)


@settings(max_examples=settings().max_examples)
@given(name=st.sampled_from(sorted(READABLE)), seed=st.integers(0, 2**32), unknown=UNKNOWN, is_long=st.booleans())
def test_footers_with_fields_of_the_future_are_walked(
    name: str, seed: int, unknown: tuple[int, Any], is_long: bool
) -> None:
    fields, dice = Reader(READABLE[name]).struct(), random.Random(seed)

    def extended(fields: list[Field], depth: int) -> list[Field]:
        fields = [field._replace(value=value_of(field.kind, field.value, depth)) for field in fields]
        if dice.random() < 0.3:
            last = fields[-1].id if fields else 0
            fields.append(Field(last + dice.choice([100, 20000]), *unknown, is_long))
        return fields

    def value_of(kind: int, value: Any, depth: int) -> Any:
        if kind == STRUCT:
            return extended(value, depth + 1)
        if kind == LIST and value.kind == STRUCT:
            return Items(STRUCT, [extended(item, depth + 1) for item in value.values])
        return value

    assert agrees(encode_struct(extended(fields, 0)))


def test_fields_twice_and_out_of_order_are_left_to_the_structs() -> None:
    fields = Reader(READABLE["pyarrow/small.parquet"]).struct()
    rows = next(field for field in fields if field.id == 3)
    for other in (
        [*fields, rows._replace(value=rows.value + 1)],
        [each for field in fields for each in ([field, field._replace(value=0)] if field.id == 3 else [field])],
        [rows, *(field for field in fields if field.id != 3)],
        [field._replace(kind=I32) if field.id == 3 else field for field in fields],
    ):
        raw = encode_struct(other)
        assert not agrees(raw)
        by_structs = outcome(lambda raw=raw: module._parse_structs(SIZE, raw))
        assert outcome(lambda raw=raw: parse_footer(SIZE, raw)) == by_structs


@pytest.mark.parametrize(
    ("field", "is_walked"),
    [
        *(("04c8018e8001", True), ("04c8018e808000", False), ("05c8018e80808000", True), ("05c8018e8080808000", False)),
        *(
            ("08c801820041 41", True),
            ("08c80182808080800041 41", False),
            ("04c881008e00", True),
            ("04c88180008e00", False),
        ),
    ],
)
def test_numbers_in_more_bytes_than_thrift_takes_are_left_to_the_structs(field: str, is_walked: bool) -> None:
    raw = READABLE["pyarrow/small.parquet"]
    assert raw.endswith(b"\0")
    extended = raw[:-1] + bytes.fromhex(field) + b"\0"
    assert agrees(extended) == is_walked
    assert isinstance(outcome(lambda: parse_footer(SIZE, extended)), Footer) == is_walked


@pytest.mark.parametrize(
    ("number", "is_walked"), [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False)]
)
def test_a_length_of_more_than_32_bits_is_left_to_the_structs(number: int, is_walked: bool) -> None:
    fields = Reader(READABLE["pyarrow/small.parquet"]).struct()
    chunk = fields
    for id, is_list in ((4, True), (1, True), (3, False)):  # row groups, columns, meta_data
        value = next(field for field in chunk if field.id == id).value
        chunk = value.values[0] if is_list else value
    chunk[:] = [field._replace(value=number) if field.id == 15 else field for field in chunk]
    assert agrees(encode_struct(fields)) == is_walked


def test_footers_that_are_signed_and_columns_that_are_encrypted_are_left_to_the_structs() -> None:
    fields = Reader(footer_bytes(fixture("pyarrow/signed_footer.parquet"))).struct()
    unsigned = [field for field in fields if field.id < 8]
    assert not agrees(encode_struct(unsigned))
    for group in next(field for field in fields if field.id == 4).value.values:
        for chunk in next(field for field in group if field.id == 1).value.values:
            chunk[:] = [field for field in chunk if field.id < 8]
    assert agrees(encode_struct(unsigned))
    assert not agrees(encode_struct(fields))


def test_what_is_remembered_of_footers_is_bounded() -> None:
    read: list[bytes] = []
    remembered = module._remembered(lambda encoded: read.append(encoded))
    wide = [bytes([number]) * (module._MOST_REMEMBERED // 4) for number in range(4)]
    for encoded in (wide[0], wide[0], wide[1], wide[0]):
        remembered(encoded)
    assert read == wide[:2]
    for encoded in (wide[2], wide[3], bytes(2 * module._MOST_REMEMBERED), wide[0], wide[0]):
        remembered(encoded)
    assert read.count(wide[0]) == 2


@given(path=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), max_size=20))
def test_a_path_is_encoded_as_the_structs_encode_it(path: list[str]) -> None:
    expected = encode(ttypes.SlimColumnMetaData(path_in_schema=path))[1:-1]
    assert module._encoded_path(tuple(path)) == expected


def test_a_footer_that_is_not_walked_says_so() -> None:
    raw = READABLE["pyarrow/small.parquet"]
    assert parse_footer(SIZE, raw).chunk_starts is not None
    assert module._parse_structs(SIZE, raw).chunk_starts is None


@given(data=st.binary(max_size=200), at=st.integers(-5, 250))
def test_the_walks_stay_within_any_bytes(data: bytes, at: int) -> None:
    agrees(data)
    for call in (_kernel.struct_fields, _kernel.list_structs):
        try:
            found = call(data, at)
        except ValueError:
            continue
        places = [*found] if call is _kernel.list_structs else [field[4] for field in found[0]]
        assert all(at <= place <= len(data) for place in places)


@given(chunks=st.binary(max_size=40), column=st.integers(-1, 4), columns=st.integers(-1, 4))
def test_chunks_of_another_footer_are_refused(chunks: bytes, column: int, columns: int) -> None:
    raw = READABLE["pyarrow/small.parquet"]
    try:
        found = _kernel.read_chunks(raw, chunks, column, columns, 2, b"")
    except ValueError:
        return
    assert len(found) == len(chunks) // (4 * columns) * 13 * 8


@given(
    chunks=st.binary(max_size=40),
    groups=st.binary(max_size=50),
    column=st.integers(-1, 4),
    columns=st.integers(-1, 4),
    order=st.integers(-1, 3),
    width=st.integers(-1, 9),
    value=st.binary(max_size=9),
)
def test_places_in_chunks_of_another_footer_are_refused(
    chunks: bytes, groups: bytes, column: int, columns: int, order: int, width: int, value: bytes
) -> None:
    raw = READABLE["pyarrow/small.parquet"]
    try:
        found = _kernel.place_in_chunks(raw, chunks, groups, SIZE, column, columns, 2, b"", order, width, value)
    except ValueError:
        return
    assert found in (None, (b"", [], 0))
