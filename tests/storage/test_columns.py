"""What is decoded is what the pages hold, as physical values: all of them, and no more is read than that takes."""

from __future__ import annotations

import struct
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import FIXTURES, PYARROW_CANNOT, SOUND, fixture, footer_bytes, names, opened, with_footer

from parquet_bloom.errors import CorruptFileError, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.schema import LeafColumn, find_leaf, parse_path
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.storage import columns
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.drive import RequestLog, run
from parquet_bloom.storage.listing import find


def chunks_of(path: Path) -> ColumnChunks:
    return ColumnChunks(*opened(path))


def decoded(path: Path, leaf: str, row_group: int = 0) -> list[Any]:
    source, footer = opened(path)
    arrays = ColumnChunks(source, footer).values(row_group, find_leaf(footer.leaves, parse_path(leaf)))
    return [value for array in arrays for value in array.drop_null().to_pylist()]


# ---- equal to pyarrow's ------------------------------------------------------------------


def plain(leaf: LeafColumn, value: Any) -> bytes:
    """Returns the bytes on disk of a value as pyarrow shows it, of a physical or a logical type."""
    width = leaf.width
    match value:
        case bool():
            return bytes([value])
        case int():
            assert width is not None
            return (value % 2 ** (8 * width)).to_bytes(width, "little")
        case float():
            return struct.pack("<f" if width == 4 else "<d", value)
        case Decimal():
            assert leaf.logical_type is not None
            with localcontext(prec=100):
                unscaled = int(value.scaleb(leaf.logical_type.scale))
            if leaf.physical_type.name in ("INT32", "INT64"):
                return plain(leaf, unscaled)
            return unscaled.to_bytes(width or 20, "big", signed=True)
        case bytes():
            if leaf.logical_type and leaf.logical_type.name == "DECIMAL" and width is None:
                return int.from_bytes(value, "big", signed=True).to_bytes(20, "big", signed=True)
            return value
    raise AssertionError(value)


def leaf_array(array: pa.ChunkedArray) -> pa.Array | None:
    """Returns the one leaf's values as integers, floats, decimals or bytes; None for maps."""
    values = array.combine_chunks()
    while pa.types.is_nested(values.type):
        if pa.types.is_struct(values.type):
            if values.type.num_fields != 1:
                return None
            values = values.flatten()[0]
        else:
            values = values.flatten()
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    kind = values.type
    if pa.types.is_temporal(kind):
        return values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_float16(kind):
        return values.view(pa.binary(2))
    return values.view(pa.binary()) if pa.types.is_string(kind) else values


def without_arrow_schema(name: str) -> bytes:
    """Returns the file without what makes pyarrow give back other types than the file's."""
    data = fixture(name)
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    metadata.key_value_metadata = None
    return with_footer(data, encode(metadata))


@pytest.mark.parametrize("name", names(SOUND))
def test_values_are_those_of_pyarrow(name: str) -> None:
    path = FIXTURES / name
    source, footer = opened(path)
    chunks = ColumnChunks(source, footer)
    compared = 0
    with pq.ParquetFile(pa.BufferReader(without_arrow_schema(name))) as file:
        for row_group, leaf, chunk in footer.chunks():
            if leaf.physical_type.name == "INT96" or leaf.name in PYARROW_CANNOT.get(name, ()) or "`" in leaf.name:
                continue
            table = file.read_row_group(row_group, columns=[".".join(leaf.path)])
            theirs = leaf_array(table.column(0)) if table.num_columns == 1 else None
            if theirs is None:
                continue
            ours = [v for array in chunks.values(row_group, leaf) for v in array.drop_null().to_pylist()]
            expected = {plain(leaf, v) for v in theirs.drop_null().to_pylist()}
            assert {plain(leaf, v) for v in ours} == expected, leaf
            assert len(expected) <= len(ours) <= chunk.num_values
            assert len(ours) <= max(chunks.value_bound(row_group, leaf), 0) or leaf.is_repeated
            compared += 1
    assert compared >= 0.7 * len(footer.leaves) * footer.num_row_groups or "int96" in name or "names" in name


def test_int96_is_its_twelve_bytes_even_where_nanoseconds_overflow() -> None:
    path = FIXTURES / "pyarrow/int96.parquet"
    values = [value for row_group in range(3) for value in decoded(path, "ts_us_utc", row_group)]
    assert {len(value) for value in values} == {12}
    days = {int.from_bytes(value[8:], "little") for value in values}
    assert (min(days), max(days)) == (1_721_426, 5_373_484)  # Julian days: the first of the year 1, the last of 9999


@pytest.mark.parametrize("name", ["pyarrow/decimal_bytes.parquet"])
def test_decimals_keep_the_width_that_they_were_written_in(name: str) -> None:
    _, footer = opened(FIXTURES / name)
    widths = {
        leaf.name: {len(value) for value in decoded(FIXTURES / name, leaf.name)}
        for leaf in footer.leaves
        if leaf.logical_type and leaf.logical_type.name == "DECIMAL"
    }
    assert {16} in widths.values()
    assert any(len(found) > 2 for found in widths.values())


@pytest.mark.parametrize("where", ["local", "memory"])
def test_small_batches_give_the_same_values(tmp_path: Path, monkeypatch: Any, where: str) -> None:
    import fsspec

    path = tmp_path / "x.parquet"
    rows = [[i, i + 1] if i % 3 else None for i in range(5000)]
    pq.write_table(pa.table({"id": range(5000), "list": rows}), path, use_dictionary=False)
    name = str(path)
    if where == "memory":
        fsspec.filesystem("memory").pipe_file("/columns/x.parquet", path.read_bytes())
        name = "memory://columns/x.parquet"
    monkeypatch.setattr(columns, "BATCH_BYTES", 100)
    source, footer = opened(name)
    chunks = ColumnChunks(source, footer)
    ids, lists = (list(chunks.values(0, leaf)) for leaf in footer.leaves)
    assert len(ids) > 10
    assert [v for array in ids for v in array.to_pylist()] == list(range(5000))
    assert [v for array in lists for v in array.drop_null().to_pylist()] == [v for row in rows if row for v in row]
    if where == "memory":
        fsspec.filesystem("memory").rm("/columns", recursive=True)


# ---- only what is needed is read ---------------------------------------------------------


@pytest.fixture
def requests(monkeypatch: Any) -> RequestLog:
    """The requests for dictionary pages; decoding whole chunks fails."""
    log = RequestLog()
    monkeypatch.setattr(columns, "run", lambda source, plan: run(source, plan, log=log))
    monkeypatch.setattr(ColumnChunks, "_decode", lambda *_: pytest.fail("the data pages were read"))
    return log


def test_of_an_all_dictionary_chunk_only_the_dictionary_page_is_read(tmp_path: Path, requests: RequestLog) -> None:
    path = tmp_path / "x.parquet"
    keys = [f"key {i % 50}" if i % 7 else None for i in range(200_000)]
    pq.write_table(pa.table({"key": keys}), path, row_group_size=100_000)
    assert sorted(decoded(path, "key", 1)) == sorted({key.encode() for key in keys if key})
    chunk = pq.read_metadata(path).row_group(1).column(0)
    (read,) = [r for _, r in requests.requests]
    assert (read.start, read.stop) == (chunk.dictionary_page_offset, chunk.data_page_offset)
    assert len(read) < chunk.total_compressed_size / 10


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_dictionaries_of_every_codec_and_type(tmp_path: Path, requests: RequestLog, codec: str, version: str) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table(
        {
            "i": pa.array([1, 2, None] * 100, pa.int32()),
            "l": pa.array([1, 2, None] * 100, pa.int64()),
            "f": pa.array([0.5, -0.0, None] * 100, pa.float32()),
            "d": pa.array([0.5, -0.0, None] * 100, pa.float64()),
            "s": ["a", "", None] * 100,
            "x": pa.array([b"12345", b"abcde", None] * 100, pa.binary(5)),
        }
    )
    pq.write_table(table, path, compression=codec, data_page_version=version)
    for name in table.column_names:
        values = table.column(name).unique().drop_null().to_pylist()
        assert decoded(path, name) == [v.encode() if name == "s" else v for v in values]
    assert len(requests.requests) == 6


@pytest.mark.parametrize("name", ["pyarrow/fallback.parquet", "datafusion/fallback.parquet"])
def test_a_chunk_with_plain_pages_beside_the_dictionary_is_read_whole(name: str) -> None:
    source, footer = opened(FIXTURES / name)
    metadata, _ = decode(ttypes.FileMetaData, footer.raw)
    mixed = 0
    for row_group, leaf, chunk in footer.chunks():
        stats = metadata.row_groups[row_group].columns[leaf.index].meta_data.encoding_stats
        encodings = {s.encoding for s in stats or () if s.page_type != ttypes.PageType.DICTIONARY_PAGE}
        if len(encodings) > 1:
            arrays = ColumnChunks(source, footer).values(row_group, leaf)
            assert sum(len(array) for array in arrays) == chunk.num_values
            mixed += 1
    assert mixed > 0


def test_a_chunk_that_does_not_count_its_pages_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"key": ["a", "b"] * 500}), path)
    path.write_bytes(changed(path, lambda chunk: setattr(chunk, "encoding_stats", None)))
    assert len(decoded(path, "key")) == 1000


def test_a_chunk_without_values_is_not_read_at_all(requests: RequestLog) -> None:
    source, footer = opened(FIXTURES / "pyarrow/zero_rows.parquet")
    assert list(ColumnChunks(source, footer).values(0, footer.leaves[0])) == []
    assert requests.requests == []


# ---- damage ------------------------------------------------------------------------------


def changed(path: Path, edit: Any, row_group: bool = False) -> bytes:
    """Returns a file with the metadata of its first column chunk, or row group, changed."""
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    group = metadata.row_groups[0]
    edit(group if row_group else group.columns[0].meta_data)
    return with_footer(data, encode(metadata))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    table = pa.table({"id": pa.array([None, *range(999)], pa.int64())})
    pq.write_table(table, path, use_dictionary=False, compression="none")
    return path


def refused(file: Path, match: str | None = None, leaf: str = "id") -> None:
    with pytest.raises(CorruptFileError, match=match):
        decoded(file, leaf)


@pytest.mark.parametrize("count", [0, 1, 500, 999, 1001, 2**40])
def test_other_value_counts_than_the_footer_s_are_corrupt(file: Path, count: int) -> None:
    file.write_bytes(changed(file, lambda chunk: setattr(chunk, "num_values", count)))
    if count == 0:
        assert decoded(file, "id") == []  # rows of none: the reader is told so by the row counts
    else:
        refused(file, "decode")


@pytest.mark.parametrize("rows", [1, 999, 1001])
def test_other_row_counts_than_the_footer_s_are_corrupt(file: Path, rows: int) -> None:
    file.write_bytes(changed(file, lambda group: setattr(group, "num_rows", rows), row_group=True))
    refused(file, "decode")


@pytest.mark.parametrize("nulls", [0, 2, 1000])
def test_other_null_counts_than_the_statistics_are_corrupt(file: Path, nulls: int) -> None:
    file.write_bytes(changed(file, lambda chunk: setattr(chunk.statistics, "null_count", nulls)))
    refused(file, f"decodes to 1 nulls; its statistics say {nulls}")


def test_pages_cut_off_are_corrupt(file: Path) -> None:
    data = file.read_bytes()
    footer = footer_bytes(data)
    file.write_bytes(data[:3000] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    refused(file)


@pytest.mark.parametrize("codec", [1, 2, 6, 7])
def test_another_codec_than_the_footer_s_is_corrupt(file: Path, codec: int) -> None:
    file.write_bytes(changed(file, lambda chunk: setattr(chunk, "codec", codec)))
    refused(file, "does not decode")


def test_a_codec_that_nobody_has_is_an_error(file: Path) -> None:
    file.write_bytes(changed(file, lambda chunk: setattr(chunk, "codec", 3)))  # LZO
    with pytest.raises((UnsupportedError, CorruptFileError), match=r"row group 0, column id"):
        decoded(file, "id")


@pytest.mark.parametrize("offset", [1, 4, 5, 2**40])
def test_a_dictionary_that_is_elsewhere_is_corrupt(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"key": ["a", "b"] * 500}), path)

    def moved(chunk: Any) -> None:
        chunk.data_page_offset += offset
        chunk.dictionary_page_offset += offset

    path.write_bytes(changed(path, moved))
    refused(path, leaf="key")


def test_a_dictionary_page_with_another_count_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"key": [1, 2, 3] * 500}), path, compression="none")
    data = bytearray(path.read_bytes())
    header, length = decode(ttypes.PageHeader, bytes(data[4:100]))
    for count in (2, 4, 2**31 - 1, -1):
        header.dictionary_page_header.num_values = count
        page = encode(header)
        if len(page) == length:
            data[4 : 4 + length] = page
            path.write_bytes(data)
            refused(path, leaf="key")


def test_errors_of_the_system_stay_what_they_are(file: Path) -> None:
    source, footer = opened(file)
    chunks = ColumnChunks(source, footer)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        list(chunks.values(0, footer.leaves[0]))
    with pytest.raises(FileNotFoundError):
        find(str(file))
