"""Files of every writer: what is left is the old file without the rows, column for column."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from files import FIXTURES, PYARROW_CANNOT, SOUND, fixture, names, opened
from stored import stored_bytes, texts_only_in

from parquet_bloom import erase, lookup, verify
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.assembly import pages_of
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.format.thrift_io import decode
from parquet_bloom.storage.columns import ColumnChunks

KEY_TYPES = (None, "STRING", "INTEGER")
UNREADABLE = {"duckdb/plain_types.parquet": "int32 does not decode"}  # pyarrow cannot read a column of these


def key_leaf(footer: Footer) -> LeafColumn | None:
    """Returns a column whose values are the same in Python and in pages."""
    for leaf in footer.leaves:
        logical = leaf.logical_type.name if leaf.logical_type else None
        if not leaf.is_repeated and leaf.physical_type in (1, 2, 6) and logical in KEY_TYPES:
            return leaf
    return None


def column(table: pa.Table, leaf: LeafColumn) -> list[Any]:
    values = table.column(leaf.path[0])
    for name in leaf.path[1:]:
        values = pc.struct_field(values, [name])
    return values.to_pylist()


def read(path: Path, name: str) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return file.read([c for c in file.schema_arrow.names if c not in PYARROW_CANNOT.get(name, ())])


def comparable(array: pa.ChunkedArray) -> Any:
    """Returns what is equal for equal values: NaN is, and 0.0 is not -0.0."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    kind = array.type
    bits = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    if kind in bits:
        return array.view(bits[kind])
    if pa.types.is_dictionary(kind):
        return comparable(array.dictionary_decode())
    return array


def taken(array: pa.ChunkedArray, rows: list[int]) -> pa.ChunkedArray:
    if array.type in (pa.string_view(), pa.binary_view()):  # which Arrow cannot take
        array = array.cast(pa.binary() if array.type == pa.binary_view() else pa.string())
    return array.take(pa.array(rows, pa.int64()))


def taken_of(table: pa.Table, rows: Iterable[int]) -> pa.Table:
    columns = [taken(column, sorted(rows)) for column in table.columns]
    return pa.table(dict(zip(table.schema.names, columns, strict=True)))


def pages(path: Path) -> list[list[bytes]]:
    """Returns the pages of each column chunk of each row group that has rows."""
    data, footer = path.read_bytes(), opened(path)[1]
    numbers = [number for number, group in enumerate(footer.row_groups) if group.num_rows]
    return [[data[slice(*pages_of(footer, number, leaf))] for leaf in footer.leaves] for number in numbers]


def candidates(name: str) -> tuple[LeafColumn, list[Any]] | None:
    """Returns the key column of a fixture, and some of its values."""
    path = FIXTURES / name
    leaf = key_leaf(opened(path)[1])
    if leaf is None or leaf.path[0] in PYARROW_CANNOT.get(name, ()):
        return None
    values = [value for value in column(read(path, name).select([leaf.path[0]]), leaf) if value is not None]
    return (leaf, [*dict.fromkeys(values[::17])][:5]) if len(set(values)) > 5 else None


ERASABLE = [name for name in SOUND if name not in UNREADABLE and candidates(name)]


@pytest.mark.parametrize("name", names(ERASABLE))
def test_what_is_left_is_the_old_file_without_the_rows(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(fixture(name))
    found = candidates(name)
    assert found is not None
    leaf, keys = found
    before = read(path, name)
    values = column(before, leaf)
    rows = [row for row, value in enumerate(values) if value not in keys]
    old_pages = pages(path)

    (done,) = erase(path, leaf.name, keys).rows

    assert (done.status, done.rows_erased) == ("written", len(values) - len(rows))
    assert done.bytes_written == path.stat().st_size
    after = read(path, name)
    assert after.schema.equals(before.schema)
    for column_name in before.schema.names:
        expected = comparable(taken(before.column(column_name), rows))
        found_values = comparable(after.column(column_name))
        found_values = found_values.cast(expected.type) if found_values.type != expected.type else found_values
        assert found_values.equals(expected), column_name
    gone = texts_only_in(taken_of(before, {*range(len(values))} - {*rows}), taken_of(before, rows))
    found_bytes = stored_bytes(path.read_bytes())
    assert [text for text in gone if text in found_bytes] == []
    check_indexes(path)
    assert sum(group in old_pages for group in pages(path)) == done.row_groups_copied
    assert verify(path).findings == ()
    left = [*{*values} - {*keys, None}]
    assert None not in lookup(path, leaf.name, left).to_arrow().column("path").to_pylist()
    assert erase(path, leaf.name, keys).rows[0].status == "unchanged"


def check_indexes(path: Path) -> None:
    """Reads each page by its place in the offset index, and counts its rows."""
    source, footer = opened(path)
    data = path.read_bytes()
    for row_group, leaf, _ in footer.chunks():
        chunk = footer.whole_column_chunk(row_group, leaf.index)
        if not chunk.offset_index_offset:
            continue
        index, _ = decode(ttypes.OffsetIndex, data[chunk.offset_index_offset :][: chunk.offset_index_length])
        for place in index.page_locations:
            header, length = decode(ttypes.PageHeader, data[place.offset :][: place.compressed_page_size])
            assert length + header.compressed_page_size == place.compressed_page_size
            assert header.data_page_header or header.data_page_header_v2
        if leaf.is_repeated or leaf.physical_type == 0 or chunk.column_index_offset is None:
            continue
        assert len(index.page_locations) > 0
        values = ColumnChunks(source, footer).values(row_group, leaf, each=True)
        assert sum(map(len, values)) == footer.row_groups[row_group].num_rows


def test_files_that_cannot_be_read_are_refused_and_stay(tmp_path: Path) -> None:
    for name, error in UNREADABLE.items():
        path = tmp_path / "x.parquet"
        path.write_bytes(fixture(name))
        found = candidates(name)
        assert found is not None
        (row,) = erase(path, found[0].name, found[1]).errors
        assert error in str(row.error)
        assert path.read_bytes() == fixture(name)
        assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]
