"""Editing a footer changes two fields of the chosen column chunks and not one byte of what anyone else put there."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from compact import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    SET,
    STRUCT,
    TRUE,
    UUID,
    Field,
    Items,
    Pairs,
    Reader,
    encode_struct,
)
from files import SOUND, fixture, footer_bytes, names
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.splice import splice_filters, splice_key_values
from parquet_bloom.format.thrift_io import decode

ROW_GROUPS, COLUMNS, META_DATA, OFFSET, LENGTH = 4, 1, 3, 14, 15

# ---- footers of every form ---------------------------------------------------------------


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


SCALARS = {
    TRUE: st.integers(1, 2),
    FALSE: st.integers(1, 2),
    BYTE: st.integers(0, 255),
    I16: ints(16),
    I32: ints(32),
    I64: ints(64),
    DOUBLE: st.binary(min_size=8, max_size=8),
    BINARY: st.binary(max_size=40) | st.just(b"\x00" * 200),
    UUID: st.binary(min_size=16, max_size=16),
}


ANY_IDS = st.integers(-40, 3000)


@st.composite
def containers(draw: Any, kind: int, values: dict[int, st.SearchStrategy[Any]]) -> Any:
    if kind == STRUCT:
        return draw(structs(values))
    element = draw(st.sampled_from(list(values)))
    if kind != MAP:
        return Items(element, draw(st.lists(values[element], max_size=17)))
    key = draw(st.sampled_from(list(values)))
    pairs = draw(st.lists(st.tuples(values[key], values[element]), max_size=3))
    return Pairs(key, element, pairs) if pairs else Pairs(0, 0, [])


@st.composite
def structs(draw: Any, values: dict[int, st.SearchStrategy[Any]], ids: Any = ANY_IDS) -> list[Field]:
    fields = []
    for number in draw(st.lists(ids, max_size=6, unique=True)):
        kind = draw(st.sampled_from(list(values)))
        value = None if kind in (TRUE, FALSE) else draw(values[kind])
        fields.append(Field(number, kind, value, draw(st.booleans())))
    return fields


def values_of_depth(depth: int) -> dict[int, st.SearchStrategy[Any]]:
    inner = SCALARS if depth == 0 else values_of_depth(depth - 1)
    return SCALARS | {kind: containers(kind, inner) for kind in (LIST, SET, MAP, STRUCT)}


VALUES = values_of_depth(1)


def around(required: list[Field], *, forbidden: set[int]) -> st.SearchStrategy[list[Field]]:
    """Structs with these fields among unknown ones, in any order or sorted."""
    known = {field.id for field in required} | forbidden
    others = structs(VALUES, st.integers(-3, 40).filter(lambda i: i not in known))
    mixed = others.flatmap(lambda fields: st.permutations(fields + required))
    in_order = others.map(lambda fields: sorted(fields + required, key=lambda field: field.id))
    return mixed | in_order


FILTER_FIELDS = [Field(OFFSET, I64, 4711), Field(LENGTH, I32, 47)]
NO_FILTER = around([], forbidden={OFFSET, LENGTH})
META = NO_FILTER | st.sampled_from([FILTER_FIELDS, FILTER_FIELDS[:1]]).flatmap(
    lambda fields: around(fields, forbidden={OFFSET, LENGTH})
)


@st.composite
def footers(draw: Any, meta: st.SearchStrategy[list[Field]] = META) -> tuple[list[Field], tuple[int, int]]:
    """A FileMetaData, and the position of one of its column chunks."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    groups = []
    for columns in shape:
        chunks = [draw(around([Field(META_DATA, STRUCT, draw(meta))], forbidden=set())) for _ in range(columns)]
        groups.append(draw(around([Field(COLUMNS, LIST, Items(STRUCT, chunks))], forbidden=set())))
    footer = draw(around([Field(ROW_GROUPS, LIST, Items(STRUCT, groups))], forbidden=set()))
    group = draw(st.integers(0, len(shape) - 1))
    return footer, (group, draw(st.integers(0, shape[group] - 1)))


def field(fields: list[Field], number: int) -> Any:
    return next(f.value for f in fields if f.id == number)


def meta_data(footer: list[Field], key: tuple[int, int]) -> list[Field]:
    chunks = field(field(footer, ROW_GROUPS).values[key[0]], COLUMNS).values
    return field(chunks[key[1]], META_DATA)


EDITS = st.tuples(st.integers(5, 2**63 - 1), st.integers(1, 2**31 - 1))
TAILS = st.binary(max_size=30)


@given(made=footers(), edit=EDITS | st.none(), tail=TAILS)
def test_only_the_two_fields_of_the_chosen_chunk_differ(made: Any, edit: Any, tail: bytes) -> None:
    footer, key = made
    raw = encode_struct(footer)
    expected, spliced = Reader(raw).struct(), Reader(splice_filters(raw + tail, {key: edit}))
    got = spliced.struct()
    assert spliced.data[spliced.at :] == tail
    filter_fields = [f for f in meta_data(got, key) if f.id in (OFFSET, LENGTH)]
    assert filter_fields == ([Field(OFFSET, I64, edit[0]), Field(LENGTH, I32, edit[1])] if edit else [])
    for tree in (expected, got):
        fields = meta_data(tree, key)
        fields[:] = [f for f in fields if f.id not in (OFFSET, LENGTH)]
    assert got == expected


@given(made=footers(NO_FILTER), edit=EDITS, tail=TAILS)
def test_adding_then_dropping_gives_the_same_bytes(made: Any, edit: Any, tail: bytes) -> None:
    footer, key = made
    raw = encode_struct(footer) + tail
    assert splice_filters(splice_filters(raw, {key: edit}), {key: None}) == raw


@given(made=footers(), first=EDITS, last=EDITS)
def test_the_last_edit_counts(made: Any, first: Any, last: Any) -> None:
    footer, key = made
    raw = encode_struct(footer)
    assert splice_filters(splice_filters(raw, {key: first}), {key: last}) == splice_filters(raw, {key: last})


@given(made=footers(), edit=EDITS)
def test_an_offset_is_written_in_order_where_the_fields_are(made: Any, edit: Any) -> None:
    footer, key = made
    ids = [f.id for f in meta_data(footer, key)]
    got = [f.id for f in meta_data(Reader(splice_filters(encode_struct(footer), {key: edit})).struct(), key)]
    assert got[got.index(OFFSET) + 1] == LENGTH
    assert ids != sorted(ids) or got == sorted(got)


# ---- entries of writers --------------------------------------------------------------------

KEY_VALUES = 5
TEXTS = st.text(max_size=5)
ENTRIES = st.dictionaries(TEXTS, TEXTS | st.none(), max_size=20)


@st.composite
def with_entries(draw: Any) -> tuple[list[Field], list[tuple[str, str | None]]]:
    """A FileMetaData, and its entries; it may have none at all."""
    entries = draw(st.lists(st.tuples(TEXTS, TEXTS | st.none()), max_size=18))
    structs = [
        [Field(1, BINARY, key.encode()), *([] if value is None else [Field(2, BINARY, value.encode())])]
        for key, value in entries
    ]
    held = [Field(KEY_VALUES, LIST, Items(STRUCT, structs))] if entries or draw(st.booleans()) else []
    return draw(around(held, forbidden={KEY_VALUES})), entries


@given(made=with_entries(), edits=ENTRIES, tail=TAILS)
def test_only_the_entries_of_the_given_keys_differ(made: Any, edits: dict[str, str | None], tail: bytes) -> None:
    footer, entries = made
    spliced = Reader(splice_key_values(encode_struct(footer) + tail, edits))
    got = spliced.struct()
    assert spliced.data[spliced.at :] == tail
    assert [f for f in got if f.id != KEY_VALUES] == [
        f for f in Reader(encode_struct(footer)).struct() if f.id != KEY_VALUES
    ]
    (held,) = [f.value.values for f in got if f.id == KEY_VALUES] or [[]]
    expected = [(k, v) for k, v in entries if k not in edits] + [(k, v) for k, v in edits.items() if v is not None]
    texts = [{f.id: f.value.decode() for f in struct} for struct in held]
    assert [(struct[1], struct.get(2)) for struct in texts] == expected


@given(made=with_entries(), edits=ENTRIES, tail=TAILS)
def test_setting_entries_and_taking_them_out_gives_the_same_bytes(made: Any, edits: Any, tail: bytes) -> None:
    footer, entries = made
    raw = encode_struct(footer) + tail
    new = {key: value for key, value in edits.items() if key not in dict(entries)}
    nothing = dict.fromkeys(new)
    assert splice_key_values(splice_key_values(raw, new), nothing) == splice_key_values(raw, nothing)
    if entries:
        assert splice_key_values(raw, nothing) == raw


@pytest.mark.parametrize("name", names(SOUND[::7]))
def test_entries_of_real_footers(name: str) -> None:
    raw = footer_bytes(fixture(name))
    spliced = splice_key_values(raw, {"ours": "x" * 300})
    old, _ = decode(ttypes.FileMetaData, raw)
    new, _ = decode(ttypes.FileMetaData, spliced)
    added = new.key_value_metadata.pop()
    assert (added.key, added.value) == ("ours", "x" * 300)
    assert (old.key_value_metadata or []) == new.key_value_metadata
    old.key_value_metadata = new.key_value_metadata = None
    assert old == new
    assert splice_key_values(spliced, {"ours": None}) == splice_key_values(raw, {"ours": None})


def test_entries_in_two_lists_are_refused() -> None:
    twice = encode_struct([Field(KEY_VALUES, LIST, Items(STRUCT, []), True)] * 2)
    with pytest.raises(CorruptFileError, match="without loss"):
        splice_key_values(twice, {})


def test_fields_after_the_filter_keep_their_ids_and_bytes() -> None:
    statistics = Field(16, STRUCT, [Field(1, I64, 5)])
    geospatial = Field(17, STRUCT, [Field(2, LIST, Items(I32, [1, 2]))])
    for kept in ([statistics], [geospatial], [statistics, geospatial]):
        meta = [Field(13, LIST, Items(STRUCT, [])), *kept]
        chunk = [Field(META_DATA, STRUCT, meta)]
        raw = encode_struct([Field(ROW_GROUPS, LIST, Items(STRUCT, [[Field(COLUMNS, LIST, Items(STRUCT, [chunk]))]]))])
        added = splice_filters(raw, {(0, 0): (100, 50)})
        assert [f.id for f in meta_data(Reader(added).struct(), (0, 0))] == [13, 14, 15, *(f.id for f in kept)]
        assert splice_filters(added, {(0, 0): None}) == raw


def test_a_repeated_field_is_edited_where_decoders_read_it() -> None:
    def footer(*offsets: int) -> bytes:
        groups = [
            Field(ROW_GROUPS, LIST, Items(STRUCT, [[Field(COLUMNS, LIST, Items(STRUCT, [[meta(o)]]))]]), True)
            for o in offsets
        ]
        return encode_struct(groups)

    def meta(offset: int) -> Field:
        return Field(META_DATA, STRUCT, [Field(9, I64, offset)])

    spliced = splice_filters(footer(1, 2), {(0, 0): (100, 50)})
    metadata, _ = decode(ttypes.FileMetaData, spliced)
    chunk = metadata.row_groups[0].columns[0].meta_data
    assert (chunk.data_page_offset, chunk.bloom_filter_offset, chunk.bloom_filter_length) == (2, 100, 50)


def test_a_chunk_that_is_not_there_is_corrupt() -> None:
    raw = footer_bytes(fixture("pyarrow/small.parquet"))
    for key in ((2, 0), (0, 3), (-1, 0), (0, -1)):
        with pytest.raises(CorruptFileError, match="no column chunk"):
            splice_filters(raw, {key: (100, 50)})


# ---- footers that engines wrote ----------------------------------------------------------


@pytest.mark.parametrize(
    "name", names([*SOUND, "damaged/odd_unknown_fields.parquet", "damaged/odd_trailing_bytes.parquet"])
)
def test_footers_of_engines_keep_everything_else(name: str) -> None:
    raw = footer_bytes(fixture(name))
    metadata, length = decode(ttypes.FileMetaData, raw)
    chunks = {
        (i, j): chunk.meta_data for i, group in enumerate(metadata.row_groups) for j, chunk in enumerate(group.columns)
    }
    edits = {key: (10**6 + 100 * n, 100) for n, key in enumerate(chunks)}
    added = splice_filters(raw, edits)
    for key, (offset, size) in edits.items():
        chunks[key].bloom_filter_offset, chunks[key].bloom_filter_length = offset, size
    got, new_length = decode(ttypes.FileMetaData, added)
    assert got == metadata
    assert added[new_length:] == raw[length:]
    cleared = splice_filters(added, dict.fromkeys(edits))
    assert cleared == splice_filters(raw, dict.fromkeys(edits))
    had_filters = any(c.bloom_filter_offset is not None for c in _chunks(raw))
    assert (cleared == raw) is not had_filters


def _chunks(raw: bytes) -> list[Any]:
    groups = decode(ttypes.FileMetaData, raw)[0].row_groups
    return [chunk.meta_data for group in groups for chunk in group.columns]


@pytest.mark.parametrize("name", names(SOUND))
def test_no_edits_change_nothing(name: str) -> None:
    raw = footer_bytes(fixture(name))
    assert splice_filters(raw, {}) == raw


# ---- bytes that are no footer ------------------------------------------------------------

SMALL = footer_bytes(fixture("pyarrow/small.parquet"))


def spliced_or_corrupt(data: bytes) -> None:
    for edits in ({(0, 0): (100, 50)}, {(1, 2): None}, {(0, 0): None, (1, 1): (100, 50)}):
        with contextlib.suppress(CorruptFileError):
            assert isinstance(splice_filters(data, edits), bytes)


@given(data=st.binary(max_size=300))
def test_random_bytes_are_spliced_or_corrupt(data: bytes) -> None:
    spliced_or_corrupt(data)


@given(edits=st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), max_size=5))
def test_mutated_footers_are_spliced_or_corrupt(edits: list[tuple[int, int]]) -> None:
    data = bytearray(SMALL)
    for at, byte in edits:
        data[at] = byte
    spliced_or_corrupt(bytes(data))


def test_every_truncation_is_corrupt() -> None:
    for length in range(len(SMALL)):
        with pytest.raises(CorruptFileError):
            splice_filters(SMALL[:length], {(0, 0): (100, 50)})


NESTED = {"structs": b"\x1c", "lists": b"\x19", "maps": b"\x01\xbb", "sets": b"\x1a"}


@pytest.mark.parametrize("kind", NESTED)
def test_a_million_levels_are_corrupt_not_a_crash(kind: str) -> None:
    head = {"structs": b"", "lists": b"\x79", "maps": b"\x7b", "sets": b"\x7a"}[kind]
    with pytest.raises(CorruptFileError):
        splice_filters(head + NESTED[kind] * 1_000_000, {(0, 0): (100, 50)})


CLAIMS = [b"\x79\xfc", b"\x79\xf3", b"\x7b", b"\x49\xfc", b"\x78"]


@pytest.mark.parametrize("head", CLAIMS, ids=bytes.hex)
def test_a_size_beyond_the_bytes_is_corrupt(head: bytes) -> None:
    for size in (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\xff" * 12):
        with pytest.raises(CorruptFileError):
            splice_filters(head + size + b"\x33" + b"\0" * 10, {(0, 0): (100, 50)})
