"""Deletion vectors of Paimon tables: each is whole and where the table says, or the file is an error."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyroaring
import pytest
from files import unpacked
from hypothesis import given, settings
from hypothesis import strategies as st

import parquet_bloom
from parquet_bloom.errors import CorruptFileError, ParquetBloomError, UnsupportedError
from parquet_bloom.storage.listing import find
from parquet_bloom.tables import LiveFile, paimon_deletes
from parquet_bloom.tables.paimon_deletes import Vectors
from parquet_bloom.tables.unpacking import Room

MAGIC = struct.pack(">I", 1581511376)
MAGIC_64 = struct.pack("<I", 1681511377)
ROWS = [3, 4, 5, 900, 70_000]
Change = Callable[[dict[str, Any]], Any]


def vector(rows: list[int]) -> bytes:
    return MAGIC + pyroaring.BitMap(rows).serialize()


def long_vector(rows: list[int]) -> bytes:
    return MAGIC_64 + pyroaring.BitMap64(rows).serialize()


def index_file(packed: bytes) -> bytes:
    return b"\1" + struct.pack(">I", len(packed)) + packed + struct.pack(">I", zlib.crc32(packed))


def rows_of(
    folder: Path,
    data: bytes,
    change: Change = lambda record: None,
    *,
    records: int = 1,
    num_rows: int = 100_000,
    is_off: bool = False,
) -> list[int]:
    """Returns the deleted rows of the file `data.parquet`, by records of an index manifest that may be changed."""
    (folder / "index-1").write_bytes(data)
    (length,) = struct.unpack(">I", data[1:5].ljust(4, b"\0"))
    length += 8 if data[5:9] == MAGIC_64 else 0
    record = {
        "_KIND": 0,
        "_INDEX_TYPE": "DELETION_VECTORS",
        "_FILE_NAME": "index-1",
        "_PARTITION": b"",
        "_BUCKET": 0,
        "_DELETIONS_VECTORS_RANGES": [{"f0": "data.parquet", "f1": 1, "f2": length, "_CARDINALITY": None}],
    }
    change(record)
    vectors = Vectors([record] * records, lambda name, *_: find([str(folder / name)])[0], Room(), is_off=is_off)
    assert vectors.may_have("data.parquet")
    return list(vectors.of(LiveFile("data.parquet", "data.parquet", 1, num_rows), "data.parquet"))


def of_range(**values: Any) -> Change:
    return lambda record: record["_DELETIONS_VECTORS_RANGES"][0].update(values)


@pytest.mark.parametrize("make", [vector, long_vector])
def test_rows_of_both_kinds_of_vectors(tmp_path: Path, make: Callable[[list[int]], bytes]) -> None:
    assert rows_of(tmp_path, index_file(make(ROWS))) == ROWS
    assert rows_of(tmp_path, index_file(make(ROWS)), of_range(_CARDINALITY=5)) == ROWS
    assert rows_of(tmp_path, index_file(make([]))) == []


def test_rows_beyond_32_bits(tmp_path: Path) -> None:
    rows = [1, 2**32 - 1, 2**32, 2**33 + 5]
    assert rows_of(tmp_path, index_file(long_vector(rows)), num_rows=2**34) == rows


@pytest.mark.parametrize("make", [vector, long_vector])
def test_each_damaged_byte_is_an_error(tmp_path: Path, make: Callable[[list[int]], bytes]) -> None:
    whole = index_file(make(ROWS))
    (length,) = struct.unpack(">I", whole[1:5])
    recorded = of_range(f2=length + (8 if make is long_vector else 0))
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        with pytest.raises(CorruptFileError, match="index-1"):
            rows_of(tmp_path, bytes(damaged), recorded)
        with pytest.raises(CorruptFileError, match="index-1"):
            rows_of(tmp_path, whole[:at], recorded)


@pytest.mark.parametrize("make", [vector, long_vector])
def test_bytes_behind_a_bitmap_are_an_error(tmp_path: Path, make: Callable[[list[int]], bytes]) -> None:
    with pytest.raises(CorruptFileError, match="does not end with its bitmap"):
        rows_of(tmp_path, index_file(make(ROWS) + b"rest"))


@pytest.mark.parametrize("is_long", [False, True])
@settings(max_examples=60, deadline=None)
@given(at=st.integers(4, 220), byte=st.integers(0, 255))
def test_damage_that_the_checksum_fits_is_an_error_or_other_rows_that_ascend(is_long: bool, at: int, byte: int) -> None:
    many = [5, *range(100, 9000, 2), *range(200_000, 200_500), 2**20]
    made = bytearray(long_vector(many) if is_long else vector(many))
    made[at] = byte
    allowed: list[int] = []
    with suppress(ValueError):
        rows = list(paimon_deletes._numbers(bytes(made[4:]), is_long, allowed.append))
        assert rows == sorted(set(rows))
        assert allowed == [len(rows)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (of_range(f1=0), "it is at 0"),
        (of_range(f1=-5), "it is at -5"),
        (of_range(f1=2**40), "cut off"),
        (of_range(f1=2), "the table records"),
        (of_range(f2=7), "the table records 7"),
        (of_range(_CARDINALITY=4), "has 5 rows; the table says 4"),
        (lambda record: record.update(_KIND=1), "does not tell"),
        (lambda record: record.update(_DELETIONS_VECTORS_RANGES=None), "does not tell"),
        (lambda record: record.pop("_DELETIONS_VECTORS_RANGES"), "does not tell"),
    ],
)
def test_a_vector_that_is_not_as_recorded_is_an_error(tmp_path: Path, change: Change, reason: str) -> None:
    with pytest.raises(ParquetBloomError, match=reason):
        rows_of(tmp_path, index_file(vector(ROWS)), change)


def test_two_vectors_of_a_file_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="it has 2 deletion vectors"):
        rows_of(tmp_path, index_file(vector(ROWS)), records=2)


def test_vectors_that_readers_do_not_apply_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="options"):
        rows_of(tmp_path, index_file(vector(ROWS)), is_off=True)


@pytest.mark.parametrize("make", [vector, long_vector])
def test_more_rows_than_the_file_has_are_not_made(tmp_path: Path, make: Callable[[list[int]], bytes]) -> None:
    with pytest.raises(CorruptFileError, match="it has 5 rows, and the file 4"):
        rows_of(tmp_path, index_file(make(ROWS)), num_rows=4)


def test_rows_count_as_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = pyroaring.BitMap(range(2**27))
    many.run_optimize()
    monkeypatch.setenv("PARQUET_BLOOM_METADATA_BYTES", "10000000")
    with pytest.raises(UnsupportedError, match="unpacks to more than 10,000,000 bytes"):
        rows_of(tmp_path, index_file(MAGIC + many.serialize()), num_rows=2**27)


def test_an_index_file_that_is_gone_or_outside_is_an_error_of_its_files(tmp_path: Path) -> None:
    root = unpacked("paimon_spark/append_vectors", tmp_path)
    (tmp_path / "elsewhere").mkdir()
    for index in (root / "index").iterdir():
        shutil.move(index, tmp_path / "elsewhere")
        index.symlink_to(tmp_path / "elsewhere" / index.name)
    found = parquet_bloom.find(root, "id >= 0", columns=["id"])
    assert found.to_arrow().num_rows == 31
    assert {"outside" in error.error for error in found.errors} == {True}
    for index in (root / "index").iterdir():
        index.unlink()
    found = parquet_bloom.find(root, "id >= 0", columns=["id"])
    assert found.to_arrow().num_rows == 31
    assert len(found.errors) == 2


def test_vectors_beside_the_data_files_and_nanoseconds_are_read_as_paimon_reads_them(tmp_path: Path) -> None:
    root = unpacked("paimon_1_4/beside", tmp_path)
    assert not (root / "index").exists()
    found = parquet_bloom.find(root, "id >= 0")
    rows = found.to_arrow()
    assert found.errors == ()
    assert rows.schema.field("fine").type == pa.timestamp("ns")
    assert rows.schema.field("zoned").type == pa.timestamp("ns", "UTC")
    shown = zip(*(rows[name].cast(pa.int64()).to_pylist() for name in ("fine", "zoned")), strict=True)
    ours = [
        [str(row["id"]), row["p"], *map(text, moments)]
        for row, moments in zip(rows.select(["id", "p"]).to_pylist(), shown, strict=True)
    ]
    assert sorted(ours) == sorted(json.loads((tmp_path / "rows.json").read_text("utf-8")))


def text(nanoseconds: int | None) -> str:
    """Returns a moment as Paimon shows it."""
    if nanoseconds is None:
        return "null"
    moment = datetime(1970, 1, 1) + timedelta(microseconds=nanoseconds // 1000)
    return f"{moment.isoformat(timespec='microseconds')}{nanoseconds % 1000:03}"


def test_an_instant_that_nanoseconds_cannot_hold_is_an_error_of_its_file(tmp_path: Path) -> None:
    found = parquet_bloom.find(unpacked("paimon_1_4/extremes", tmp_path), "c2 IS NULL")  # the ends of every type
    assert found.to_arrow().num_rows == 0
    assert "before 1677 or after 2262" in found.errors[0].error
