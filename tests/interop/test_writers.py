"""Every filter that another engine wrote, against ours: built of the same values at the same size, bit for bit."""

from __future__ import annotations

import struct
from collections import Counter

import pytest
from kinds import footer_of
from samples import FIXTURES, SOUND, named

import parquet_bloom
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.schema import PhysicalType
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.listing import find
from parquet_bloom.values.arrays import hash_array, is_nan, plain_value
from parquet_bloom.values.encoding import hash_plain

FILTERED = [entry for entry in SOUND if entry["filters"]]


def spelled(name):
    """Returns a column's name as the manifest has it, which puts only names with dots in backticks."""
    return name if "." in name else name.removeprefix("`").removesuffix("`").replace("``", "`")


def filters_of(file):
    """Yields the leaf, row group, bitset and values of every filter, the bitset cut from the file by hand."""
    path = FIXTURES / file
    (source,), footer, data = find(path), footer_of(path), path.read_bytes()
    chunks = ColumnChunks(source, footer)
    for row_group, leaf, chunk in footer.chunks():
        if not chunk.bloom_filter_offset:
            continue
        # 15, numBytes as a varint of its double, and 13 bytes that never change.
        start = data.index(bytes.fromhex("1c1c00001c1c00001c1c000000"), chunk.bloom_filter_offset) + 13
        varint = data[chunk.bloom_filter_offset + 1 : start - 13]
        num_bytes = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(varint)) // 2
        values = {
            plain_value(array, i)
            for array in chunks.values(row_group, leaf)
            for i in range(len(array))
            if array[i].is_valid and leaf.physical_type is not PhysicalType.BOOLEAN
        }
        if leaf.physical_type is PhysicalType.BOOLEAN:
            values = {bytes([v.as_py()]) for a in chunks.values(row_group, leaf) for v in a if v.is_valid}
        yield leaf, row_group, data[start : start + num_bytes], values


# ---- where an engine's filter holds something else than the values -----------------------------------


def nothing(leaf, values, theirs):
    """parquet-java fills no BOOLEAN filter: it is empty, and `verify` names it."""
    return set()


def payloads(leaf, values, theirs):
    """parquet-java hashes a NaN with the payload it was given, and then writes the canonical NaN to the page."""
    form, size = ("<I", 4) if leaf.physical_type is PhysicalType.FLOAT else ("<Q", 8)
    one = 0x7FC00000 if size == 4 else 0x7FF8 << 48
    given = [one, one | 1 << 8 * size - 1, one | 1, (1 << 8 * size - 1) - 1]
    nans = {struct.pack(form, bits) for bits in given}
    return {v for v in values if not is_nan(leaf, v)} | {v for v in nans if theirs.check_hash(hash_plain(v))}


def normalized(leaf, values, theirs):
    """DuckDB adds each INTERVAL again with its days carried over to months of 30, as it compares them."""
    both = set(values)
    for value in values:
        months, days, milliseconds = struct.unpack("<iii", value)
        both.add(struct.pack("<iii", months + days // 30, days % 30, milliseconds))
    return both


EXCEPTIONS = {
    ("spark", "BOOLEAN"): nothing,
    ("spark", "FLOAT"): payloads,
    ("spark", "DOUBLE"): payloads,
    ("duckdb", "FIXED_LEN_BYTE_ARRAY(12) INTERVAL"): normalized,
}


@pytest.mark.parametrize("entry", named(SOUND))
def test_filters(entry):
    if entry["filters"]:
        our_filter_of_the_same_size_has_the_same_bits(entry)
        arrays_are_hashed_as_their_single_values_are(entry)
    verify_finds_nothing_but_the_empty_filters_of_booleans(entry)


def our_filter_of_the_same_size_has_the_same_bits(entry):
    compared = Counter()
    for leaf, row_group, bitset, values in filters_of(entry["file"]):
        whole = len(bitset) // 32 * 32  # parquet-java may leave up to 31 bytes that belong to no block
        theirs = SplitBlockBloomFilter.from_bitset(bitset[:whole])
        ours = SplitBlockBloomFilter(whole)
        exception = EXCEPTIONS.get((entry["engine"], leaf.type_name))
        for value in exception(leaf, values, theirs) if exception else values:
            ours.insert_hash(hash_plain(value))
        assert bytes(ours.bitset) == bitset[:whole], (row_group, leaf.name)
        assert not any(bitset[whole:])
        compared[spelled(leaf.name)] += 1
    assert compared == entry["filters"]


def arrays_are_hashed_as_their_single_values_are(entry):
    path = FIXTURES / entry["file"]
    (source,), footer = find(path), footer_of(path)
    chunks = ColumnChunks(source, footer)
    for row_group, leaf, _ in footer.chunks():
        if leaf.physical_type is PhysicalType.BOOLEAN or spelled(leaf.name) not in entry["filters"]:
            continue
        for array in chunks.values(row_group, leaf):
            present = array.drop_null()
            hashes = [hash_plain(plain_value(present, i)) for i in range(len(present))]
            assert struct.unpack(f"={len(hashes)}Q", hash_array(leaf, array)) == tuple(hashes)


def verify_finds_nothing_but_the_empty_filters_of_booleans(entry):
    (file,) = parquet_bloom.verify(FIXTURES / entry["file"]).files
    assert file.error is None
    assert Counter(spelled(row.column) for row in file.filters) == entry["filters"]
    wrong = {row.column for row in file.filters if row.verdict == "false negative"}
    unusable = {row.column for row in file.filters if row.verdict == "unusable"}
    without_nan = {row.column for row in file.filters if row.num_nans_missing}
    lacks = entry.get("lacks", {})
    assert wrong == {column for column, what in lacks.items() if what == "every value"}
    assert without_nan == {column for column, what in lacks.items() if what == "NaN"}
    assert unusable == ({"id"} if entry["file"] == "spark/odd_3000.parquet" else set())
    booleans = {leaf.name for leaf in footer_of(FIXTURES / entry["file"]).leaves if leaf.type_name == "BOOLEAN"}
    assert wrong <= (booleans if entry["engine"] == "spark" else set())


def test_verify_tells_why_booleans_are_named():
    rows = parquet_bloom.verify(FIXTURES / "spark/all_types.parquet", "bool").rows
    assert {(row.verdict, row.cause) for row in rows} == {
        ("false negative", "never trusted: parquet-java writes empty BOOLEAN filters")
    }


def test_filters_were_compared_of_every_engine_and_almost_every_type():
    types = {entry["engine"]: set() for entry in FILTERED}
    for entry in FILTERED:
        types[entry["engine"]] |= {
            leaf.type_name for leaf in footer_of(FIXTURES / entry["file"]).leaves if leaf.name in entry["filters"]
        }
    assert set(types) == {"pyarrow", "duckdb", "datafusion", "clickhouse", "spark"}
    assert all(len(kinds) >= 15 for kinds in types.values())
