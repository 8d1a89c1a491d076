"""Files put together from parts of others: what is copied keeps its bytes, what points to it is moved, no more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import SOUND, fixture, footer_bytes, names, opened, with_footer

from parquet_bloom import add, drop, inspect
from parquet_bloom.errors import CorruptFileError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.assembly import Assembly, old_parts, pages_of, read_offset_indexes, require_apart
from parquet_bloom.format.fields import fields_of, structs_in
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.page_index import read_places
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.storage.columns import answered
from parquet_bloom.storage.drive import run


def assembled(path: Path, row_groups: list[int]) -> bytes:
    """Returns a file of some row groups of another one."""
    footer, data = opened(path)[1], path.read_bytes()
    filters = {
        (f.row_group, f.column): ByteRange(f.offset, f.offset + f.length) for f in inspect(path).rows if f.length
    }
    places = {
        (number, leaf.index): old_parts(footer, number, leaf, filters.get((number, leaf.name)))
        for number in row_groups
        for leaf in footer.leaves
    }
    indexes = answered(read_offset_indexes(places), lambda start, stop: data[start:stop])
    assembly = Assembly(footer, places, indexes)
    out = bytearray(assembly.begin())
    for number in row_groups:
        out += b"".join(data[slice(*extent)] for extent in assembly.copy(number))
    for part in assembly.tail():
        out += data[slice(*part)] if isinstance(part, ByteRange) else part
    assert assembly.position == len(out)
    raw = assembly.footer({})
    return bytes(out) + raw + len(raw).to_bytes(4, "little") + b"PAR1"


def chunk_fields(footer: Footer) -> list[dict[int, bytes]]:
    """Returns the fields of each ColumnMetaData but those that say where something is."""
    raw = footer.raw
    (groups,) = [field for field in fields_of(raw, 0)[0] if field.id == 4]
    found = []
    for group in structs_in(raw, groups)[:-1]:
        (columns,) = [field for field in fields_of(raw, group)[0] if field.id == 1]
        for chunk in structs_in(raw, columns)[:-1]:
            (metadata,) = [field for field in fields_of(raw, chunk)[0] if field.id == 3]
            fields = fields_of(raw, metadata.value)[0]
            found.append({f.id: raw[f.value : f.end] for f in fields if f.id not in (9, 10, 11, 14, 15)})
    return found


WITH_ROWS = [name for name in SOUND if "empty_row_group" not in name]


@pytest.mark.parametrize("name", names(WITH_ROWS[::7]))
def test_all_row_groups_are_the_file_again(name: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    old.write_bytes(fixture(name))
    before = opened(old)[1]
    new.write_bytes(assembled(old, list(range(before.num_row_groups))))
    after = opened(new)[1]
    assert chunk_fields(after) == chunk_fields(before)
    assert after.leaves == before.leaves
    assert after.key_values == before.key_values
    for number in range(before.num_row_groups):
        for leaf in before.leaves:
            was, now = pages_of(before, number, leaf), pages_of(after, number, leaf)
            assert new.read_bytes()[slice(*now)] == old.read_bytes()[slice(*was)]
    if name.endswith("without_length.parquet"):
        return  # where the lengths are in the filters themselves
    sizes = [[(f.row_group, f.column, f.num_bytes, f.fill) for f in inspect(path).rows] for path in (old, new)]
    assert sizes[0] == sizes[1]


def test_nothing_dead_is_taken_over(tmp_path: Path) -> None:
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    table = pa.table({"id": range(100), "name": [f"n{i}" for i in range(100)]})
    pq.write_table(table, old, row_group_size=25, write_page_index=True)
    first = old.read_bytes()
    new.write_bytes(assembled(old, [0, 1, 2, 3]))
    alone = new.read_bytes()
    add(old, "id")
    drop(old)
    new.write_bytes(assembled(old, [0, 1, 2, 3]))
    assert new.read_bytes() == alone
    assert len(alone) - len(first) in range(-64, 65)


def test_row_groups_in_another_number_and_place(tmp_path: Path) -> None:
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    table = pa.table({"id": range(100), "name": [f"n{i}" for i in range(100)]})
    pq.write_table(table, old, row_group_size=25, write_page_index=True)
    add(old, ["id", "name"])
    new.write_bytes(assembled(old, [3, 1]))
    assert pq.read_table(new).equals(pa.concat_tables([table.slice(75), table.slice(25, 25)]))
    assert pq.read_metadata(new).num_rows == 50
    assert {f.row_group for f in inspect(new).rows} == {0, 1}
    source, footer = opened(new)
    for number, leaf, _ in footer.chunks():
        assert run(source, read_places(footer, number, leaf))  # None for pages that the index has elsewhere
    new.write_bytes(assembled(old, []))
    assert pq.read_table(new).num_rows == 0


def test_chunks_that_share_bytes_are_refused(tmp_path: Path) -> None:
    old = tmp_path / "old.parquet"
    pq.write_table(pa.table({"id": range(9), "other": range(9)}), old)
    footer = opened(old)[1]
    require_apart(footer, [0])
    with pytest.raises(CorruptFileError, match="overlap each other"):
        require_apart(footer, [0, 0])
    footer.chunk(0, footer.leaves[1]).dictionary_page_offset -= 1
    with pytest.raises(CorruptFileError, match="overlap each other"):
        require_apart(footer, [0])


@pytest.mark.parametrize("field", ["column_index_length", "offset_index_length", "total_compressed_size"])
def test_parts_that_reach_into_the_footer_are_refused(tmp_path: Path, field: str) -> None:
    old = tmp_path / "old.parquet"
    pq.write_table(pa.table({"id": range(9)}), old, write_page_index=True)
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(old.read_bytes()))
    chunk = metadata.row_groups[0].columns[0]
    is_index = hasattr(chunk, field)
    setattr(chunk if is_index else chunk.meta_data, field, 1000)
    old.write_bytes(with_footer(old.read_bytes(), encode(metadata)))
    footer = opened(old)[1]
    with pytest.raises(CorruptFileError, match="not between the magic and the footer"):
        old_parts(footer, 0, footer.leaves[0], None) if is_index else pages_of(footer, 0, footer.leaves[0])
