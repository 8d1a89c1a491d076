"""What of a file is not understood is named: fields and values of its footer, and bytes that nothing points to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compact import BINARY, I32, I64, LIST, STRUCT, Field, Items, Place, Reader, encode_struct, places
from files import FIXTURES, SOUND, footer_bytes, names, opened, with_footer

from parquet_bloom import add, drop
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.format.understood import (
    ENUMS,
    require_explained,
    require_understood,
    require_understood_indexes,
    unknown_in,
)
from parquet_bloom.storage.drive import run

IDL = (FIXTURES.parent / "thrift" / "parquet.thrift").read_text()


def bodies(kind: str) -> dict[str, str]:
    """Returns what stands in the braces of each struct or enum of the definition."""
    return dict(re.findall(rf"^(?:{kind}) (\w+) \{{(.*?)\}}", IDL, re.MULTILINE | re.DOTALL))


def test_each_field_with_an_enum_is_held_to_it() -> None:
    enums = "|".join(bodies("enum"))
    slim = {"SlimColumnMetaData"}
    found = {
        (struct, name): enum
        for struct, body in bodies("struct|union").items()
        for enum, name in re.findall(rf"^ +\d+: \w+ (?:list<)?({enums})>? (\w+)$", body, re.MULTILINE)
        if struct not in slim
    }
    assert found == {key: enum.__name__ for key, enum in ENUMS.items()}


def test_the_definition_is_that_of_2_14() -> None:
    last = {
        "FileMetaData": 9,
        "RowGroup": 7,
        "ColumnChunk": 9,
        "ColumnMetaData": 17,
        "SchemaElement": 10,
        "Statistics": 9,
        "ColumnIndex": 8,
        "OffsetIndex": 2,
        "PageHeader": 8,
        "DataPageHeaderV2": 8,
        "ColumnOrder": 3,
    }
    for struct, id in last.items():
        assert [field[0] for field in getattr(ttypes, struct).thrift_spec[1:]] == [*range(1, id + 1)]
    assert ttypes.LogicalType.thrift_spec[19][2] == "FILE"
    assert ttypes.Encoding.ALP == 10


def unsigned(name: str) -> bool:
    return "signed" not in name


@pytest.mark.parametrize("name", names(filter(unsigned, SOUND)))
def test_files_of_every_writer_are_understood(name: str) -> None:
    source, footer = opened(FIXTURES / name)
    require_understood(footer)
    run(source, require_understood_indexes(footer))
    run(source, require_explained(footer))


# ---- the footer --------------------------------------------------------------------------


def indexed(path: Path, **options: Any) -> bytes:
    table = pa.table({"name": [f"name {i}" for i in range(100)], "x": [i / 2 for i in range(100)], "id": range(100)})
    pq.write_table(table, path, row_group_size=25, write_page_index=True, **options)
    return path.read_bytes()


def struct_at(fields: list[Field], path: Place) -> list[Field]:
    """Returns the struct at a path, to be changed."""
    if not path:
        return fields
    (found,) = [field for field in fields if field.id == path[0]]
    if found.kind == STRUCT:
        return struct_at(found.value, path[1:])
    return struct_at(found.value.values[path[1]], path[2:])


def structs_of(tree: list[Field]) -> list[Place]:
    found: list[Place] = [()]
    for path, field in places(tree):
        if field.kind == STRUCT:
            found.append(path)
        elif field.kind == LIST and field.value.kind == STRUCT and field.value.values:
            found.append((*path, 0))
    return found


def test_an_unknown_field_of_any_struct_is_named(tmp_path: Path) -> None:
    data = indexed(tmp_path / "x.parquet", sorting_columns=[pq.SortingColumn(0)])
    raw = footer_bytes(data)
    assert not [*unknown_in(ttypes.FileMetaData, raw)]
    paths = structs_of(Reader(raw).struct())
    named = set()
    for path in paths:
        for field in (Field(32767, BINARY, b"another footer"), Field(99, STRUCT, [Field(1, I64, 4)])):
            tree = Reader(raw).struct()
            struct_at(tree, path).append(field)
            (unknown,) = unknown_in(ttypes.FileMetaData, encode_struct(tree))
            assert unknown.startswith(f"the field {field.id} of ")
            named.add(unknown.split(" of ")[1].split(" (")[0])
    assert named >= {"FileMetaData", "SchemaElement", "LogicalType", "RowGroup", "ColumnChunk", "ColumnMetaData"}
    assert named >= {"Statistics", "PageEncodingStats", "SizeStatistics", "ColumnOrder", "KeyValue", "SortingColumn"}


CHUNK, AT_CHUNK = (4, 0, 1, 0, 3), "row_groups[0].columns[0].meta_data"


@pytest.mark.parametrize(
    ("path", "field", "said"),
    [
        ((), Field(32767, BINARY, b"x"), "the field 32767 of FileMetaData"),
        ((), Field(3, I32, 100), "the field 3 of FileMetaData"),  # a number of another width
        ((2, 1, 10), Field(99, STRUCT, []), "the field 99 of LogicalType (schema[1].logicalType)"),
        ((2, 1), Field(6, I32, 99), "the value 99 of ConvertedType (schema[1].converted_type)"),
        ((2, 1), Field(1, I32, 99), "the value 99 of Type (schema[1].type)"),
        ((2, 1), Field(3, I32, 9), "the value 9 of FieldRepetitionType (schema[1].repetition_type)"),
        (CHUNK, Field(2, LIST, Items(I32, [0, 3, 11])), f"the value 11 of Encoding ({AT_CHUNK}.encodings)"),
        (CHUNK, Field(2, LIST, Items(I32, [0] * 20 + [11])), f"the value 11 of Encoding ({AT_CHUNK}.encodings)"),
        (CHUNK, Field(2, LIST, Items(BINARY, [b"PLAIN"])), f"the field 2 of ColumnMetaData ({AT_CHUNK})"),
        (CHUNK, Field(4, I32, 8), f"the value 8 of CompressionCodec ({AT_CHUNK}.codec)"),
        ((*CHUNK, 13, 0), Field(1, I32, 4), f"the value 4 of PageType ({AT_CHUNK}.encoding_stats[0].page_type)"),
        ((7, 0), Field(4, STRUCT, []), "the field 4 of ColumnOrder (column_orders[0])"),
    ],
)
def test_what_is_not_understood_is_named_with_its_place(path: Place, field: Field, said: str, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    table = pa.table({"name": ["a", "b"]})
    pq.write_table(table, file)
    data = file.read_bytes()
    tree = Reader(footer_bytes(data)).struct()
    struct = struct_at(tree, path)
    struct[:] = sorted([*(f for f in struct if f.id != field.id), field])
    file.write_bytes(with_footer(data, encode_struct(tree)))
    raw = footer_bytes(file.read_bytes())
    assert next(unknown_in(ttypes.FileMetaData, raw)) == said


def test_a_field_that_is_there_twice_is_named(tmp_path: Path) -> None:
    raw = footer_bytes(indexed(tmp_path / "x.parquet"))
    tree = Reader(raw).struct()
    assert next(unknown_in(ttypes.FileMetaData, encode_struct([*tree, tree[-1]]))) == "the field 7 of FileMetaData"


def test_bytes_behind_the_footer_are_named(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    data = indexed(file)
    file.write_bytes(with_footer(data, footer_bytes(data) + b"more"))
    with pytest.raises(UnsupportedError, match="has 4 bytes behind FileMetaData, which are not understood"):
        require_understood(opened(file)[1])


def test_an_unknown_field_of_a_page_index_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    data = indexed(file)
    for field, kind in ((5, "OffsetIndex"), (7, "ColumnIndex")):
        tree = Reader(footer_bytes(data)).struct()
        chunk = struct_at(tree, (4, 2, 1, 1))
        at = {f.id: f.value for f in chunk}
        index = data[at[field - 1] :][: at[field]]
        longer = encode_struct([*Reader(index).struct(), Field(32767, BINARY, b"x")])
        start = len(data) - 8 - len(footer_bytes(data))
        chunk[:] = [f._replace(value={field - 1: start, field: len(longer)}.get(f.id, f.value)) for f in chunk]
        raw = encode_struct(tree)
        file.write_bytes(data[:start] + longer + raw + len(raw).to_bytes(4, "little") + b"PAR1")
        source, footer = opened(file)
        with pytest.raises(UnsupportedError, match=f"row group 2, column x: .* the field 32767 of {kind},"):
            run(source, require_understood_indexes(footer))


# ---- bytes -------------------------------------------------------------------------------


def explain(path: Path) -> None:
    source, footer = opened(path)
    run(source, require_explained(footer))


def with_bytes(data: bytes, inserted: bytes) -> bytes:
    """Returns a file with bytes in front of its footer, to which nothing points."""
    start = len(data) - 8 - len(footer_bytes(data))
    return data[:start] + inserted + data[start:]


def test_bytes_that_nothing_points_to_are_named(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    data = indexed(file)
    explain(file)
    file.write_bytes(with_bytes(data, b"an attachment"))
    start = len(data) - 8 - len(footer_bytes(data))
    with pytest.raises(UnsupportedError, match=f"bytes {start:,} to {start + 13:,} of the file are not understood"):
        explain(file)
    file.write_bytes(with_bytes(data, bytes(10_000)))  # padding
    explain(file)


@pytest.mark.parametrize("field", ["num_values", "codec", "total_compressed_size", "path_in_schema"])
def test_only_a_copy_of_a_chunk_s_own_metadata_is_one(tmp_path: Path, field: str) -> None:
    """Some writers leave it behind the pages."""
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": range(9)}), file)
    data = file.read_bytes()
    copy = decode(ttypes.FileMetaData, footer_bytes(data))[0].row_groups[0].columns[0].meta_data
    file.write_bytes(with_bytes(data, encode(copy)))
    explain(file)
    setattr(copy, field, ["another"] if field == "path_in_schema" else 3)
    file.write_bytes(with_bytes(data, encode(copy)))
    with pytest.raises(UnsupportedError, match="are not understood"):
        explain(file)


def test_what_add_and_drop_leave_behind_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    indexed(file)
    for _ in range(2):
        add(file, ["id", "name"])
        explain(file)
        add(file, "id", fpp=0.5, replace=True)
        explain(file)
        drop(file, "name")
        explain(file)
        add(file, "x", in_place=True)
        explain(file)
        drop(file)
        explain(file)
    data = file.read_bytes()
    file.write_bytes(with_bytes(data, b"\x00an attachment"))
    with pytest.raises(UnsupportedError, match="are not understood"):
        explain(file)


def test_bytes_between_pages_are_named(tmp_path: Path) -> None:
    """The first row group's pages are said to be one dictionary shorter."""
    file = tmp_path / "x.parquet"
    data = indexed(file)
    tree = Reader(footer_bytes(data)).struct()
    metadata = struct_at(tree, (4, 0, 1, 1, 3))
    at = {f.id: f.value for f in metadata}
    length = at[9] - at[11]
    metadata[:] = [f._replace(value=at[7] - length) if f.id == 7 else f for f in metadata if f.id != 11]
    file.write_bytes(with_footer(data, encode_struct(tree)))
    with pytest.raises(UnsupportedError, match=f"bytes {at[11]:,} to {at[9]:,} of the file are not understood"):
        explain(file)
