"""Metadata of tables is whole and is not unpacked beyond a limit: no crash, no hang, and no live file overlooked."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import unpacked

from parquet_bloom import CorruptFileError, Limits, UnsupportedError, lookup, prune
from parquet_bloom.format.thrift_io import varint
from parquet_bloom.tables import snapshot_of
from parquet_bloom.tables.unpacking import Room, most_metadata_bytes

LIMIT = 2**20
SMALL = Limits(metadata_bytes=500)


@pytest.fixture
def room() -> Iterator[Room]:
    token = most_metadata_bytes.set(LIMIT)
    yield Room()
    most_metadata_bytes.reset(token)


def number(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else ~(value << 1))


def container(schema: Any, count: int, block: bytes, codec: str = "null") -> bytes:
    notes = {"avro.schema": json.dumps(schema), "avro.codec": codec}
    entries = b"".join(number(len(text)) + text.encode() for pair in notes.items() for text in pair)
    return b"Obj\1\4" + entries + b"\0" + bytes(16) + number(count) + number(len(block)) + block + bytes(16)


def record(*kinds: Any) -> dict[str, Any]:
    return {"type": "record", "name": "row", "fields": [{"name": f"f{i}", "type": k} for i, k in enumerate(kinds)]}


# ---- Avro --------------------------------------------------------------------------------


def deflated(data: bytes) -> bytes:
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packed.compress(data) + packed.flush()


def zstandard(data: bytes) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, "bytes", [data], codec="zstandard", sync_interval=2**40)
    return out.getvalue()[out.getvalue().index(b"\x28\xb5\x2f\xfd") : -16]


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": deflated,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": zstandard,
    "snappy": lambda data: varint(len(data)) + bytes(8),
    "lz4": lambda data: len(data).to_bytes(4, "little"),
}


@pytest.mark.parametrize("codec", PACKED)
def test_a_block_is_not_unpacked_beyond_the_limit(room: Room, codec: str) -> None:
    block = PACKED[codec](bytes(40 * LIMIT))
    data = container(record("bytes"), 1, block, codec)
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedError, match=r"more than 1,048,576 bytes \(at m\).*metadata_bytes"):
            room.avro(data, "m")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < len(data) * 2 + 16 * LIMIT


@pytest.mark.parametrize("codec", PACKED)
def test_blocks_together_are_not_unpacked_beyond_the_limit(room: Room, codec: str) -> None:
    data = container(record("bytes"), 1, PACKED[codec](bytes(LIMIT * 3 // 5)), codec)
    room.avro(data, "m")
    with pytest.raises(UnsupportedError, match="at n"):
        room.avro(data, "n")


SELF = record("long", ["null", "row"])
ODD = {
    "a recursive type": (SELF, 1, b"\0" + b"\2" * 10**6),
    "its array within itself": (record({"type": "array", "items": "x.row"}), 1, b"\2" * 10**6),
    "records that take no bytes": ({"type": "record", "name": "row", "fields": []}, 2**40, b""),
    "null records": (record("null"), 2**40, b""),
    "an array of null": (record({"type": "array", "items": "null"}), 1, number(2**40)),
    "an array of records of null": (record({"type": "array", "items": record("null")}), 1, number(2**40)),
    "an array of nothing by name": (
        record({"type": "fixed", "name": "n", "size": 0}, {"type": "array", "items": "n"}),
        1,
        number(2**40),
    ),
    "many fields of null": (record("long", *["null"] * 10_000), 2**20, b"\0" * 2**19),
    "many levels": (record(json.loads('{"type":"array","items":' * 90 + '"long"' + "}" * 90)), 1, b"\0"),
}


@pytest.mark.parametrize("schema", ODD)
def test_a_schema_that_makes_much_of_few_bytes_is_refused(room: Room, schema: str) -> None:
    """fastavro's stack overruns for the first, and it fills the memory for the others."""
    with pytest.raises(UnsupportedError, match="Avro schema"):
        room.avro(container(*ODD[schema]), "m")


@pytest.mark.parametrize("block", [(2, b"\0"), (-1, b"\0"), (2**60, b"\0" * 9)])
def test_there_are_no_more_records_than_bytes(room: Room, block: tuple[int, bytes]) -> None:
    with pytest.raises(CorruptFileError, match="records"):
        room.avro(container(record("long"), *block), "m")


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "zstandard"])
def test_a_file_that_is_cut_off_is_no_file(room: Room, codec: str) -> None:
    out = io.BytesIO()
    fastavro.writer(out, record("long"), [{"f0": i} for i in range(50)], codec=codec, sync_interval=20)
    data = out.getvalue()
    room.avro(data, "m")
    ends = {len(data) - 16 - 30, len(data) - 1, len(data) - 15, 3, 40}
    for end in ends:
        with pytest.raises(CorruptFileError, match="m: it is not a whole Avro file"):
            room.avro(data[:end], "m")


def test_a_block_that_does_not_end_in_the_file_s_marker_is_damage(room: Room) -> None:
    data = bytearray(container(record("long"), 1, b"\2"))
    room.avro(bytes(data), "m")
    data[-1] ^= 1
    with pytest.raises(CorruptFileError, match="does not end in the file's marker"):
        room.avro(bytes(data), "m")


def test_an_unpartitioned_table_of_iceberg_has_an_empty_record(room: Room) -> None:
    empty = {"type": "record", "name": "r102", "fields": []}
    room.avro(container(record("long", empty), 1, b"\2"), "m")


# ---- Parquet and gzip --------------------------------------------------------------------


def test_pages_are_not_unpacked_beyond_the_limit(room: Room) -> None:
    out = pa.BufferOutputStream()
    options: dict[str, Any] = {"use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table({"a": [b"\0" * 20 * LIMIT, b"x"]}), out, compression="zstd", **options)
    with pytest.raises(UnsupportedError, match="metadata_bytes"):
        room.parquet(out.getvalue(), "c")


def test_of_long_words_few_rows_are_read_at_once(room: Room) -> None:
    for word, most in ((b"x", 2**16), (b"\0" * (LIMIT // 8), 8)):
        out = pa.BufferOutputStream()
        pq.write_table(pa.table({"a": [word] * 5000}), out, compression="zstd")
        assert most // 2 < room.parquet(out.getvalue(), "c") <= most


def test_gzip_is_not_unpacked_beyond_the_limit(room: Room) -> None:
    with pytest.raises(UnsupportedError, match="metadata_bytes"):
        room.gzip(gzip.compress(bytes(3 * LIMIT)), "g")
    with pytest.raises(CorruptFileError, match="does not unpack"):
        Room().gzip(gzip.compress(b"abc")[:-1], "g")


# ---- tables ------------------------------------------------------------------------------


def delta(home: Path) -> Path:
    lakes.delta(home / "t").create_checkpoint()
    return home / "t"


def iceberg(home: Path) -> Path:
    return lakes.hadoop_table(home, lambda found: lakes.iceberg(found, "t"))


TABLES: dict[str, Callable[[Path], Path]] = {
    "delta": delta,
    "iceberg": iceberg,
    "hudi": lambda home: unpacked("hudi/v8_cow", home),
    "paimon": lambda home: unpacked("paimon/append", home),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_beyond_the_limit_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = TABLES[kind](tmp_path)
    prune(root, "id IS NULL")
    for refused in (lambda: prune(root, "id IS NULL", limits=SMALL), lambda: lookup(root, "id", ["1"], limits=SMALL)):
        with pytest.raises(UnsupportedError, match=r"more than 500 bytes .*metadata_bytes"):
            refused()
    snapshot_of(root)
    monkeypatch.setenv("PARQUET_BLOOM_METADATA_BYTES", "400")
    with pytest.raises(UnsupportedError, match=r"more than 400 bytes .*PARQUET_BLOOM_METADATA_BYTES"):
        snapshot_of(root)


def test_deltalake_is_not_started_on_a_checkpoint_beyond_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = delta(tmp_path)
    monkeypatch.setattr("parquet_bloom.tables.delta._loaded", lambda *_: pytest.fail("it was started"))
    with pytest.raises(UnsupportedError, match="metadata_bytes"):
        prune(root, "id = 1", limits=SMALL)


@pytest.mark.parametrize("name", ["list.avro", "m0.avro"])
def test_no_live_file_of_iceberg_is_overlooked_in_a_file_that_is_cut_off(name: str, tmp_path: Path) -> None:
    """pyiceberg takes the end of the bytes for the end of the file."""
    root = iceberg(tmp_path)
    path = root / "metadata" / name
    whole = path.read_bytes()
    start = whole.index(b"}", whole.index(b"avro.schema"))
    for end in (len(whole) - 1, len(whole) - 17, (start + len(whole)) // 2, 10, 0):
        path.write_bytes(whole[:end])
        with pytest.raises(CorruptFileError):
            prune(root, "id = 3")


def test_packed_metadata_of_iceberg_is_read(tmp_path: Path) -> None:
    root = iceberg(tmp_path)
    path = root / "metadata" / "v1.metadata.json"
    (root / "metadata" / "v1.gz.metadata.json").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert len(prune(root, "id = 3").paths) == 1
    with pytest.raises(UnsupportedError, match="metadata_bytes"):
        prune(root, "id = 3", limits=SMALL)
