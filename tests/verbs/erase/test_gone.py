"""What is erased is gone from the whole file, and what cannot be known to be kept right is refused by name."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from compact import BINARY, I32, LIST, STRUCT, Field, Items, Reader, encode_struct
from files import footer_bytes, only_error, opened, snapshot, statuses, with_footer, write
from hypothesis import given, settings
from hypothesis import strategies as st
from lazily import by_engine, duckdb, pl
from stored import stored_bytes, texts_only_in

from parquet_bloom import add, erase, inspect, verify
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import Footer
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.storage import local_files, reencode, rewrite
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.verbs import erase_files

# ---- refused: what other specifications point to ---------------------------------------------


def write_photos(path: Path) -> None:
    """Writes a file with a group FILE, whose values point to bytes between the pages and the footer."""
    blobs = [b"the first photo", b"the second photo"]
    photo = pa.struct([("uri", pa.string()), ("offset", pa.int64()), ("size", pa.int64())])
    rows: list[Any] = [{"uri": None, "offset": 10**6 + n, "size": 10 + n} for n in range(2)]
    for _ in range(2):  # the pages take as many bytes with the right offsets
        table = pa.table({"id": [1, 2], "photo": pa.array(rows, photo)})
        pq.write_table(table, path, compression="none", use_dictionary=False)
        data = path.read_bytes()
        at = len(data) - 8 - len(footer_bytes(data))
        rows = [{"uri": None, "offset": at, "size": 15}, {"uri": None, "offset": at + 15, "size": 16}]
    start = rows[0]["offset"]
    data = data[:start] + b"".join(blobs) + data[start:]
    found = pq.read_table(pa.BufferReader(data))["photo"].to_pylist()
    assert [data[at["offset"] :][: at["size"]] for at in found] == blobs

    def as_file(tree: list[Field]) -> list[Field]:
        (schema,) = [field for field in tree if field.id == 2]
        (group,) = [element for element in schema.value.values if Field(4, BINARY, b"photo") in element]
        group.append(Field(10, STRUCT, [Field(19, STRUCT, [])]))
        return tree

    path.write_bytes(edited(data, as_file))


def edited(data: bytes, edit: Callable[[list[Field]], list[Field]]) -> bytes:
    return with_footer(data, encode_struct(edit(Reader(footer_bytes(data)).struct())))


def refusal(file: Path, keys: list[int], **options: Any) -> str:
    """Returns why a file is refused: in a dry run as well, and without a byte changed."""
    before = snapshot(file.parent)
    error = only_error(erase(file, "id", keys, dry_run=True, **options))
    assert only_error(erase(file, "id", keys, **options)) == error
    assert snapshot(file.parent) == before
    return error


def test_a_group_file_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    write_photos(file)
    assert refusal(file, [1]).startswith("photo is a FILE: its values may point to bytes of this file")
    assert "photo is a FILE" in refusal(file, [1, 2])
    assert statuses(erase(file, "id", [3])) == ["unchanged"]


def test_bytes_that_a_note_in_the_footer_points_to_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    table = pa.table({"id": range(100)}).replace_schema_metadata({"attachment": "from 4 to 17"})
    pq.write_table(table, file, compression="none")
    data = file.read_bytes()
    start = len(data) - 8 - len(footer_bytes(data))
    file.write_bytes(data[:start] + b"an attachment" + data[start:])
    assert f"bytes {start:,} to {start + 13:,} of the file are not understood" in refusal(file, [3])


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (Field(32767, BINARY, b"another footer"), "the field 32767 of FileMetaData"),
        (Field(99, LIST, Items(I32, [4, 100])), "the field 99 of FileMetaData"),
    ],
)
def test_an_extension_of_the_footer_is_refused(field: Field, said: str, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    file.write_bytes(edited(write(file, 100), lambda tree: [*tree, field]))
    assert refusal(file, [3]) == f"the footer has {said}, which is not understood"


def test_pages_that_pyarrow_cannot_read_are_refused_before_they_are_read(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    alp = {"encodings": Items(I32, [10])}
    file.write_bytes(with_chunk(write(file, 100, use_dictionary=False), 1, 1, alp))
    assert refusal(file, [30]) == "column name is encoded with ALP, which pyarrow cannot read"
    assert statuses(erase(file, "id", [3])) == ["written"]  # the row group with such pages is copied


_IDS = {"encodings": (2, LIST), "key_values": (8, LIST), "statistics": (12, STRUCT)}


def with_chunk(data: bytes, row_group: int, column: int, new: dict[str, Any]) -> bytes:
    """Returns a file with fields of a ColumnMetaData exchanged."""

    def edit(tree: list[Field]) -> list[Field]:
        (groups,) = [field for field in tree if field.id == 4]
        (columns,) = [field for field in groups.value.values[row_group] if field.id == 1]
        (metadata,) = [field for field in columns.value.values[column] if field.id == 3]
        for name, value in new.items():
            id, kind = _IDS[name]
            metadata.value[:] = [f for f in metadata.value if f.id not in (id, 13 if name == "encodings" else None)]
            metadata.value.append(Field(id, kind, value))
        metadata.value.sort(key=lambda field: field.id)
        return tree

    return edited(data, edit)


def test_a_page_that_is_not_understood_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": [1, 2], "n": [1, 2]}), file, compression="none", use_dictionary=False)
    data = bytearray(file.read_bytes())
    (place,) = {metadata_of(file, column).data_page_offset for column in (1,)}
    assert data[place : place + 2] == b"\x15\x00"  # the type DATA_PAGE
    data[place + 1] = 2  # INDEX_PAGE
    file.write_bytes(data)
    assert "row group 0, column n: a page is an INDEX_PAGE, and would be lost" in only_error(erase(file, "id", [1]))
    data[place + 1] = 18
    file.write_bytes(data)
    assert "a page's header has the value 9 of PageType (type), which is not understood" in only_error(
        erase(file, "id", [1])
    )
    assert file.read_bytes() == data


def _more_rows(metadata: Any) -> None:
    metadata.num_rows = metadata.row_groups[0].num_rows = 101


def _named_otherwise(column: int) -> Callable[[Any], None]:
    def change(metadata: Any) -> None:
        metadata.row_groups[0].columns[column].meta_data.path_in_schema = ["other"]

    return change


def _overlapping(metadata: Any) -> None:
    first, second = (chunk.meta_data for chunk in metadata.row_groups[0].columns)
    second.data_page_offset = first.data_page_offset


def _written_by(created_by: str) -> Callable[[Any], None]:
    def change(metadata: Any) -> None:
        metadata.created_by = created_by

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_more_rows, "column id decodes to 25 rows"),
        (_named_otherwise(0), "column id"),
        (_named_otherwise(1), "column name"),
        (_overlapping, "overlap"),
        (_written_by("parquet-mr version 1.2.8"), "before 1.2.9"),
    ],
)
def test_a_file_that_does_not_fit_together_is_refused(change: Callable[[Any], None], said: str, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    data = write(file, 100, use_dictionary=False)
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    change(metadata)
    file.write_bytes(with_footer(data, encode(metadata)))
    assert said in refusal(file, [3])


def metadata_of(file: Path, column: int) -> Any:
    return pq.read_metadata(file).row_group(0).column(column)


def test_what_writers_noted_on_their_own_is_told(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    table = pa.table({"id": range(10)}).replace_schema_metadata({"geo": '{"bbox": [1, 2, 3, 4]}', "mine": "x"})
    pq.write_table(table, file)
    add(file, "id")
    (row,) = erase(file, "id", [3]).rows
    assert row.notes == (
        "these entries of the footer's key-value metadata are kept as they are, and may tell of erased rows or of "
        "places in the old file: geo, mine",
    )
    assert pq.read_metadata(file).metadata[b"mine"] == b"x"
    write(tmp_path / "y.parquet", 10)
    assert erase(tmp_path / "y.parquet", "id", [3]).rows[0].notes == ()


@pytest.mark.parametrize(("metadata", "is_told"), [({}, False), ({"ml_attr": {"vals": ["anna"]}}, True)])
def test_values_that_spark_notes_with_a_column_are_told(metadata: Any, is_told: bool, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    key = "org.apache.spark.sql.parquet.row.metadata"
    column = {"name": "id", "type": "long", "nullable": True, "metadata": metadata}
    schema = json.dumps({"type": "struct", "fields": [column]}, separators=(",", ":"))
    pq.write_table(pa.table({"id": [1, 2]}).replace_schema_metadata({key: schema}), file)
    assert [key in note for note in erase(file, "id", [1]).rows[0].notes] == [True] * is_told


def test_what_column_chunks_noted_is_told(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    entry = Items(STRUCT, [[Field(1, BINARY, b"mine"), Field(2, BINARY, b"x")]])
    data = with_chunk(write(file, 40), 2, 1, {"key_values": entry})
    for key, notes in (
        (3, ()),
        (23, ("the row groups that are written again lose what their column chunks noted: mine",)),
    ):
        file.write_bytes(data)
        assert erase(file, "id", [key]).rows[0].notes == notes


# ---- neighbours ------------------------------------------------------------------------------


def mails(count: int) -> list[str]:
    return [f"person-{number:05}@example.com" for number in range(count)]


def categorical(count: int) -> pa.Table:
    """Returns rows, each of its own person, and each with the dictionary of all persons."""
    indices = pa.array(range(count), pa.int32())
    return pa.table({"id": range(count), "mail": pa.DictionaryArray.from_arrays(indices, mails(count))})


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_persons_mail_leaves_the_dictionaries_of_other_row_groups(compression: str, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(categorical(40), file, row_group_size=10, compression=compression, write_page_index=True)
    add(file, "mail")
    gone = mails(40)[13].encode()
    assert stored_bytes(file.read_bytes()).count(gone) >= 4
    (row,) = erase(file, "id", [13]).rows
    assert (row.status, row.rows_erased, row.row_groups_copied, row.row_groups_rewritten) == ("written", 1, 0, 4)
    assert gone not in stored_bytes(file.read_bytes())
    table = pq.read_table(file)
    assert table["mail"].to_pylist() == mails(13) + mails(40)[14:]
    assert pa.types.is_dictionary(table.schema.field("mail").type)
    assert {(f.row_group, f.column) for f in inspect(file)} == {(number, "mail") for number in range(4)}
    assert verify(file).is_sound
    assert not any(unused_entries(file))
    before = file.read_bytes()
    (row,) = erase(file, "id", [3]).rows
    assert (row.row_groups_copied, row.row_groups_rewritten) == (3, 1)
    assert file.read_bytes()[4:] != before[4:]


def unused_entries(file: Path) -> list[bool]:
    source, footer = opened(file)
    chunks = ColumnChunks(source, footer)
    return [chunks.has_unused_entries(number, leaf) for number, leaf, _ in footer.chunks()]


def test_dictionaries_that_rows_use_wholly_are_copied(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    table = pa.table(
        {
            "id": range(40),
            "text": ["a", None, "b", "c"] * 10,
            "number": [1.5, float("nan"), -0.0, 0.0] * 10,
            "items": [[1, 2], [], None, [3]] * 10,
            "at": pa.array([0, 10**9] * 20, pa.timestamp("ns")),
            "fixed": pa.array([b"abc", b"xyz"] * 20, pa.binary(3)),
        }
    )
    pq.write_table(table, file, row_group_size=10, use_deprecated_int96_timestamps=True, use_dictionary=True)
    assert all(metadata_of(file, column).has_dictionary_page for column in range(6))
    assert not any(unused_entries(file))
    (row,) = erase(file, "id", [13]).rows
    assert (row.row_groups_copied, row.row_groups_rewritten) == (3, 1)


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.binary(4), pa.string()])
def test_entries_without_a_row_are_counted(kind: pa.DataType, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    values: list[Any] = [b"aaaa", b"bbbb", b"cccc"] if kind == pa.binary(4) else [0, 1, 2]
    values = list(map(str, values)) if kind == pa.string() else values
    dictionary = pa.array(values, kind)
    rows = [pa.array([0, 1, 2, None], pa.int32()), pa.array([0, 1, None, 1], pa.int32())]
    with pq.ParquetWriter(file, pa.schema([("v", pa.dictionary(pa.int32(), kind))]), store_schema=False) as writer:
        for indices in rows:
            writer.write_table(pa.table({"v": pa.DictionaryArray.from_arrays(indices, dictionary)}))
    expected = [False, True] if kind == pa.string() else [False, False]  # pyarrow decodes other dictionaries first
    assert unused_entries(file) == expected


def test_a_dictionary_whose_place_is_not_known_is_written_again(tmp_path: Path) -> None:
    """Old writers point only to the first page, which is the dictionary's."""
    file = tmp_path / "x.parquet"
    pq.write_table(categorical(40), file, row_group_size=10, compression="none")

    def edit(tree: list[Field]) -> list[Field]:
        (groups,) = [field for field in tree if field.id == 4]
        for group in groups.value.values:
            for column in next(field for field in group if field.id == 1).value.values:
                (metadata,) = [field for field in column if field.id == 3]
                at = {field.id: field.value for field in metadata.value}
                metadata.value[:] = [
                    field._replace(value=at[11]) if field.id == 9 else field
                    for field in metadata.value
                    if field.id not in (11, 13)
                ]
        return tree

    file.write_bytes(edited(file.read_bytes(), edit))
    (row,) = erase(file, "id", [13]).rows
    assert (row.status, row.row_groups_rewritten) == ("written", 4)
    assert mails(40)[13].encode() not in file.read_bytes()
    assert pq.read_table(file)["mail"].to_pylist() == mails(13) + mails(40)[14:]


def test_a_dictionary_that_cannot_be_read_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from parquet_bloom import UnsupportedError

    file = tmp_path / "x.parquet"
    pq.write_table(categorical(40), file, row_group_size=10)
    real = ColumnChunks.has_unused_entries

    def has_unused_entries(self: Any, row_group: int, leaf: Any) -> bool:
        if leaf.name == "mail" and row_group != 1:
            raise UnsupportedError("a codec from tomorrow")
        return real(self, row_group, leaf)

    monkeypatch.setattr(ColumnChunks, "has_unused_entries", has_unused_entries)
    (row,) = erase(file, "id", [13], dry_run=True).rows
    assert [note.partition(":")[0] for note in row.notes] == [
        f"row group {number}, column mail" for number in (0, 2, 3)
    ]
    assert all("may have values of erased rows" in note and "a codec from tomorrow" in note for note in row.notes)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "pyarrow": lambda table, path: pq.write_table(table, path, row_group_size=16, compression="none"),
    "pyarrow 2.0": lambda table, path: pq.write_table(
        table, path, row_group_size=16, compression="snappy", data_page_version="2.0", write_page_index=True
    ),
    "polars": lambda table, path: pl.from_arrow(table).write_parquet(path, row_group_size=16, compression="zstd"),  # type: ignore[union-attr]
    "duckdb": lambda rows, path: (
        duckdb.from_arrow(rows)
        .query("r", f"COPY r TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048, DICTIONARY_SIZE_LIMIT 1000000)")
        .fetchall()
        and None
    ),
}


@pytest.mark.parametrize("writer", by_engine(WRITERS))
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_no_value_of_an_erased_row_is_left(writer: str, data: st.DataObject) -> None:
    count = 3000 if writer == "duckdb" else 64
    people = st.lists(st.integers(0, 12), min_size=count, max_size=count)
    number = data.draw(st.integers(1, 2**16))

    def named(prefix: str, numbers: list[int]) -> list[str]:
        return [f"{prefix}-{(n + 1) * number:08x}" for n in numbers]

    ids = [i * 7 % 13 for i in range(count)] if writer == "duckdb" else data.draw(people)
    mail, city = (ids, [n // 3 for n in ids]) if writer == "duckdb" else (data.draw(people), data.draw(people))
    texts = pa.array(named("mail", mail))
    table = pa.table(
        {
            "id": ids,
            "mail": texts.dictionary_encode(),
            "city": pa.array(named("city", city)).dictionary_encode(),
            "note": named("note", [n * 20 + m for n, m in zip(ids, mail, strict=True)]),
            "tags": pa.array([[text] for text in named("tag", city)]),
            "own": pa.array([{"who": text} for text in named("own", ids)]),
        }
    )
    keys = data.draw(st.lists(st.sampled_from(sorted({*ids})), min_size=1, max_size=3))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.parquet"
        WRITERS[writer](table, file)
        if data.draw(st.booleans()):
            add(file, ["id", "mail", "note"])
        is_gone = pc.is_in(table["id"], pa.array(keys))
        stays = table.filter(pc.invert(is_gone))
        gone = texts_only_in(table.filter(is_gone), stays)
        assert all(value in stored_bytes(file.read_bytes()) for value in gone)
        erased = erase(file, "id", keys)
        assert erased.errors == ()
        if stays.num_rows:
            found = stored_bytes(file.read_bytes())
            assert [value for value in gone if value in found] == []
            assert pq.read_table(file)["note"].to_pylist() == stays["note"].to_pylist()
            assert not any(unused_entries(file))
        else:
            assert not file.exists()


# ---- each step of the proof, without the one before ---------------------------------------------


def sabotaged(file: Path) -> str:
    """Returns why nothing was written."""
    before = snapshot(file.parent)
    error = only_error(erase(file, "id", [13]))
    assert snapshot(file.parent) == before
    return error


def test_a_row_with_a_key_that_stays_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another row leaves in its place, so that the number of rows is right."""
    write(tmp_path / "x.parquet", 40, use_dictionary=False)
    real = reencode.without_rows

    def without_rows(source: Any, footer: Footer, row_group: int, keep: pa.BooleanArray) -> Any:
        flags = keep.to_pylist()
        return real(source, footer, row_group, pa.array([*flags[1:], flags[0]]))

    monkeypatch.setattr(reencode, "without_rows", without_rows)
    assert "a key is still in the new file; nothing was written" in sabotaged(tmp_path / "x.parquet")


def test_a_key_that_stays_in_bounds_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": [1, 2, 13]}), file, use_dictionary=False)
    monkeypatch.setattr(reencode, "_statistics", lambda footer, leaf, old, written, values: old)
    assert "a key is still in the new file; nothing was written" in sabotaged(file)


def test_a_file_of_another_length_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "x.parquet", 40)
    real = erase_files.Assembly.tail

    def tail(assembly: Any) -> Any:
        yield from real(assembly)
        assembly.position += 1

    monkeypatch.setattr(erase_files.Assembly, "tail", tail)
    assert "not as long as was planned" in sabotaged(tmp_path / "x.parquet")


def test_a_row_too_many_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "x.parquet", 40)
    monkeypatch.setattr(erase_files, "_num_rows", lambda plan, row_group: 0)
    real = erase_files.ErasePlan.rows_erased.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(erase_files.ErasePlan, "rows_erased", property(lambda plan: real(plan) + 1))
    assert "the wrong number of rows" in sabotaged(tmp_path / "x.parquet")


def test_a_dictionary_with_more_than_the_rows_have_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow is given a column with the dictionary of the old rows."""
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": range(20), "mail": mails(20)}), file, row_group_size=20)
    real = reencode._encoded

    def encoded(table: pa.Table, *rest: Any) -> bytes:
        if table.column(0).type != pa.binary():
            return real(table, *rest)
        values = table.column(0).combine_chunks()
        longer = pa.concat_arrays([values, pa.array([b"person-00013@example.com"])]).dictionary_encode()
        return real(pa.table({table.schema.names[0]: longer[: len(values)]}), *rest)

    monkeypatch.setattr(reencode, "_encoded", encoded)
    assert "a dictionary in the new file has values of no row; nothing was written" in sabotaged(file)


@pytest.mark.parametrize("name", ["statistics", "deprecated statistics", "page index"])
def test_bounds_of_a_row_group_without_the_key_do_not_keep_it(name: str, tmp_path: Path) -> None:
    """Bounds need not be values of rows: those of the second row group name one that only the first has."""
    file = tmp_path / "x.parquet"
    table = pa.table({"id": ["anna@example.com", "b", "c", "d"]})
    pq.write_table(
        table, file, row_group_size=2, use_dictionary=False, compression="none", write_page_index=name == "page index"
    )
    data = file.read_bytes()
    if name == "statistics":
        bounds = [Field(5, BINARY, b"d"), Field(6, BINARY, b"anna@example.com")]
        data = with_chunk(data, 1, 0, {"statistics": bounds})
    elif name == "deprecated statistics":
        bounds = [Field(1, BINARY, b"d"), Field(2, BINARY, b"anna@example.com")]
        data = with_chunk(data, 1, 0, {"statistics": bounds})
    else:

        def lower(tree: list[Field]) -> None:
            lows = next(field for field in tree if field.id == 2)
            lows.value.values[0] = b"anna@example.com"

        data = with_index(file, lower)
    file.write_bytes(data)
    (row,) = erase(file, "id", ["anna@example.com"]).rows
    assert (row.status, row.rows_erased, row.row_groups_rewritten, row.row_groups_copied) == ("written", 1, 2, 0)
    assert b"anna" not in file.read_bytes()
    assert pq.read_table(file)["id"].to_pylist() == ["b", "c", "d"]


def with_index(file: Path, edit: Callable[[list[Field]], None]) -> bytes:
    """Returns the file with another column index of the first column of its second row group."""
    data = file.read_bytes()
    index = opened(file)[1].whole_column_chunk(1, 0)
    at, length = index.column_index_offset, index.column_index_length
    tree = Reader(data[at : at + length]).struct()
    edit(tree)
    longer = encode_struct(tree)
    start = len(data) - 8 - len(footer_bytes(data))
    footer = Reader(footer_bytes(data)).struct()
    (groups,) = [field for field in footer if field.id == 4]
    (columns,) = [field for field in groups.value.values[1] if field.id == 1]
    chunk = columns.value.values[0]
    chunk[:] = [f._replace(value={6: at, 7: len(longer)}.get(f.id, f.value)) for f in chunk]
    # The new index takes the old one's place, and what is behind it is moved.
    raw = encode_struct(_later(footer, at, len(longer) - length))
    return data[:at] + longer + data[at + length : start] + raw + len(raw).to_bytes(4, "little") + b"PAR1"


def test_a_page_index_that_is_not_understood_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    table = pa.table({"id": [1, 2, 3, 4]})
    pq.write_table(table, file, row_group_size=2, use_dictionary=False, write_page_index=True)
    file.write_bytes(with_index(file, lambda tree: tree.append(Field(99, BINARY, b"more"))))
    assert "the field 99 of ColumnIndex" in refusal(file, [1])


def test_a_row_group_whose_statistics_are_wrong_is_searched_beside_others(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": ["anna", "b", "anna", "d"]}), file, row_group_size=2, use_dictionary=False)
    bounds = [Field(5, BINARY, b"d"), Field(6, BINARY, b"c")]
    file.write_bytes(with_chunk(file.read_bytes(), 1, 0, {"statistics": bounds}))
    assert erase(file, "id", ["anna"]).rows_erased == 2
    assert pq.read_table(file)["id"].to_pylist() == ["b", "d"]


def _later(tree: list[Field], behind: int, by: int) -> list[Field]:
    """Returns a footer in which the page indexes behind an offset are moved."""
    (groups,) = [field for field in tree if field.id == 4]
    for group in groups.value.values:
        for chunk in next(field for field in group if field.id == 1).value.values:
            chunk[:] = [f._replace(value=f.value + by) if f.id in (4, 6) and f.value > behind else f for f in chunk]
    return tree


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.set_column(0, table.schema.field(0), pa.chunked_array([pc.add(table.column(0), 1)])),
        lambda table: table.slice(1),
        lambda table: pa.table({table.schema.names[0]: pc.add(table.column(0), 0.0)}),  # -0.0 becomes 0.0
    ],
    ids=["values", "rows", "signs"],
)
def test_what_pyarrow_wrote_is_compared(
    change: Callable[[pa.Table], pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.parquet"
    zeros = pa.array([0.0, 1.0, -0.0] * 10)
    pq.write_table(pa.table({"id": range(30), "zero": zeros}), file, row_group_size=30)
    real = reencode._encoded

    def encoded(table: pa.Table, *rest: Any) -> bytes:
        is_zero = table.column(0).type == pa.float64()
        return real(change(table) if is_zero else table, *rest)

    monkeypatch.setattr(reencode, "_encoded", encoded)
    assert "what pyarrow wrote reads back differently" in sabotaged(file)


def test_nested_values_that_pyarrow_wrote_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same leaves with a NaN among them, in other lists."""
    file = tmp_path / "x.parquet"
    lists: list[Any] = [[float("nan"), 1.0], [2.0]] * 10
    pq.write_table(pa.table({"id": range(20), "l": lists}), file, row_group_size=20)
    real = reencode._encoded

    def encoded(table: pa.Table, *rest: Any) -> bytes:
        if not pa.types.is_struct(table.column(0).type):
            return real(table, *rest)
        (lists,) = table.column(0).combine_chunks().flatten()
        offsets = pa.array([0, 1, *lists.offsets.to_pylist()[2:]], pa.int32())
        other = pa.ListArray.from_arrays(offsets, lists.values, type=lists.type)
        group = pa.StructArray.from_arrays([other], fields=[*table.schema.field(0).type])
        return real(pa.table([group], schema=table.schema), *rest)

    monkeypatch.setattr(reencode, "_encoded", encoded)
    assert "what pyarrow wrote reads back differently" in sabotaged(file)


# ---- another writer --------------------------------------------------------------------------


def test_a_file_that_another_writer_replaces_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.parquet"
    write(file, 20)
    real = local_files.Rewrite.remove

    def remove(self: Any) -> None:
        write(tmp_path / "new", 50)
        (tmp_path / "new").replace(file)
        real(self)

    monkeypatch.setattr(local_files.Rewrite, "remove", remove)
    assert "changed since it was read" in only_error(erase(file, "id", range(20)))
    assert pq.read_table(file).num_rows == 50
    assert [*snapshot(tmp_path)] == ["x.parquet"]


def test_a_file_that_another_writer_removed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.parquet"
    write(file, 20)
    real = local_files.Rewrite.remove

    def remove(self: Any) -> None:
        file.unlink()
        real(self)

    monkeypatch.setattr(local_files.Rewrite, "remove", remove)
    assert "was removed meanwhile" in only_error(erase(file, "id", range(20)))


def test_an_object_that_another_writer_replaces_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/gone/x.parquet", write(tmp_path / "x.parquet", 20))
    real = rewrite._Spooled.remove

    def remove(self: Any) -> None:
        fs.pipe_file("/gone/x.parquet", write(tmp_path / "x.parquet", 50))
        real(self)

    monkeypatch.setattr(rewrite._Spooled, "remove", remove)
    assert "changed since it was read" in only_error(erase("memory://gone/x.parquet", "id", range(20)))
    assert pq.read_table(pa.BufferReader(fs.cat_file("/gone/x.parquet"))).num_rows == 50
