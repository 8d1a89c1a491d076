"""The files of an index, read by pyarrow and the words of `bloom_index`'s docstring alone; and damaged."""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reference
from files import index_files, index_folder

from parquet_bloom import Cache, prune
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.filters import index
from parquet_bloom.verbs import index as index_

FILES = {
    "a.parquet": [0, 1, 2, 3, 5_000_000_000],
    "sub/b.parquet": list(range(100, 1500)),
    "day=1/c.parquet": [7] * 50,
    "no rows.parquet": [],
    "nulls.parquet": [None, None],
    "some nulls.parquet": [11, None, 12],
}


def table(ids: list[int | None]) -> pa.Table:
    names = [None if n is None else f"name {n}" for n in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    root = tmp_path / "lake"
    for number, (name, ids) in enumerate(FILES.items()):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        filters = {"id": {"ndv": 1000, "fpp": 0.01}} if number % 2 else None
        pq.write_table(table(ids), root / name, row_group_size=400, bloom_filter_options=filters)
    return root


def stored(root: Path) -> dict[str, Any]:
    newest = max(index_folder(root).glob("*.json"))
    assert re.fullmatch(r"_bloom-\d{8}", newest.stem)
    version: dict[str, Any] = json.loads(newest.read_text("utf-8"))["version"]
    return version


class Row(NamedTuple):
    path: str
    column: str
    bitsets: list[reference.Bitset]
    row: dict[str, Any]


def rows(root: Path) -> Iterator[Row]:
    folder = index_folder(root)
    for segment in stored(root)["segments"]:
        blocks = [pq.read_table(folder / f"_bloom-{b['name']}")["blocks"].to_pylist() for b in segment["blocks"]]
        for row in pq.read_table(folder / f"_bloom-{segment['name']}").to_pylist():
            bitsets = []
            for place in row["slots"]:
                at = 32 * place["slot"]
                bitsets.append(reference.from_bytes(b"".join(b[at : at + 32] for b in blocks[place["blocks"]])))
            yield Row(row["path"], row["column"], bitsets, row)


def plain(column: str, value: Any) -> bytes:
    return value.to_bytes(8, "little", signed=True) if column == "id" else value.encode()


def test_an_independent_reader_finds_every_value(lake: Path) -> None:
    index_.create(lake, ["id", "name"])
    found = {(row.path, row.column): row for row in rows(lake)}
    assert set(found) == {(name, column) for name in FILES for column in ("id", "name")}
    for name, ids in FILES.items():
        held = table(ids)
        for column in ("id", "name"):
            row = found[name, column]
            assert row.row["problem"] is None
            assert row.row["num_rows"] == len(ids)
            groups = [pq.read_metadata(lake / name).row_group(n) for n in range(len(row.row["row_groups"]))]
            assert [group["num_rows"] for group in row.row["row_groups"]] == [group.num_rows for group in groups]
            for value in {v for v in held[column].to_pylist() if v is not None}:
                hash_ = reference.xxh64(plain(column, value))
                assert any(reference.check(bitset, hash_) for bitset in row.bitsets), (name, value)
            if any(v is not None for v in ids):
                assert row.row["header"] == reference.header(32 * len(row.bitsets[0]))
                assert row.row["fpp"] <= 0.1


def test_blocks_lie_where_the_version_says(lake: Path) -> None:
    index_.create(lake, ["id", "name"], fpp=0.001)
    seen = 0
    for segment in stored(lake)["segments"]:
        for blocks in segment["blocks"]:
            path = index_files(lake)[blocks["name"]]
            data, file = path.read_bytes(), pq.ParquetFile(path)
            width = 32 * blocks["num_slots"] + 4
            kind = file.schema_arrow.field("blocks")
            assert (kind.type, kind.nullable, len(file.schema_arrow)) == (pa.binary(width), False, 1)
            chunks = [file.metadata.row_group(number).column(0) for number in range(file.num_row_groups)]
            assert {chunk.compression for chunk in chunks} == {"UNCOMPRESSED"}
            assert all("PLAIN" in chunk.encodings and not chunk.has_dictionary_page for chunk in chunks)
            written = file.read()["blocks"].to_pylist()
            assert (len(written), blocks["size"]) == (blocks["num_bytes"] // 32, len(data))
            for number, row in enumerate(written):
                start = blocks["starts"][number // blocks["rows"]] + number % blocks["rows"] * width
                assert data[start : start + width] == row
                assert int.from_bytes(row[-4:], "little") == zlib.crc32(row[:-4], number)
                seen += 1
    assert seen > 100


@pytest.mark.parametrize("group_bytes", [1, 100, 1000, 10_000_000])
def test_row_groups_of_any_size(monkeypatch: pytest.MonkeyPatch, group_bytes: int) -> None:
    monkeypatch.setattr(index, "GROUP_BYTES", group_bytes)
    dice = random.Random(3)
    bitsets = [dice.randbytes(32 * 50) for _ in range(7)]
    data, blocks = index.blocks_file("b", "id", bitsets)
    assert len(blocks.starts) == -(-50 // blocks.rows)
    assert index.bitsets_of(data, blocks) == bitsets


def test_pages_of_very_many_rows() -> None:
    bitset = random.Random(4).randbytes(32 * 50_001)
    data, blocks = index.blocks_file("b", "id", [bitset])
    assert index.bitsets_of(data, blocks) == [bitset]


def test_every_file_is_written_once(lake: Path, tick: Any) -> None:
    index_.create(lake, "id")
    before = {path.name: path.read_bytes() for path in index_folder(lake).iterdir()}
    pq.write_table(table([9]), lake / "new.parquet")
    tick()
    index_.refresh(lake)
    after = {path.name: path.read_bytes() for path in index_folder(lake).iterdir()}
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 4


def test_equal_columns_share_the_schema_and_spaces_do_not_matter(lake: Path) -> None:
    index_.create(lake, "id")
    (path,) = index_folder(lake).glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")), indent=2))
    assert index_.show(lake).exists


# ---- damage ------------------------------------------------------------------------------

ASKED = [0, 3, 7, 12, 700, 5_000_000_000, 99, 2000, -1, 123_456]


def check(root: Path) -> int:
    """Looks up ids without a cache; returns how many files the index pruned."""
    ruled_out = 0
    for n in ASKED:
        result = prune(root, f"id = {n}", cache=Cache(0))
        kept = {str(Path(file.path).relative_to(root)) for file in result.kept_files}
        assert kept >= {name for name, ids in FILES.items() if n in ids}
        ruled_out += sum("(in the index)" in group.reason for group in result.rows)
    return ruled_out


def test_the_index_prunes(lake: Path) -> None:
    assert check(lake) == 0
    index_.create(lake, "id")
    assert check(lake) > 40


def damages(data: bytes, dice: random.Random) -> Iterator[bytes]:
    for at in {0, len(data) - 1, *(dice.randrange(len(data)) for _ in range(12))}:
        yield data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
    yield from (b"", data[: len(data) // 2], data[:-1], data + b"\0", bytes(len(data)), b"{}", b"[" * 10_000)


def test_damage_anywhere_means_keep(lake: Path) -> None:
    index_.create(lake, "id")
    dice = random.Random(5)
    sound = check(lake)
    less = 0
    for path in sorted(index_folder(lake).iterdir()):
        data = path.read_bytes()
        for damaged in damages(data, dice):
            path.write_bytes(damaged)
            less += check(lake) < sound
            index_.show(lake)
        path.unlink()
        assert check(lake) < sound
        path.write_bytes(data)
    assert check(lake) == sound
    assert less > 20


def test_a_refresh_repairs_what_it_knows_to_be_lost(lake: Path) -> None:
    index_.create(lake, "id")
    sound = check(lake)
    for name in (lambda segment: segment["name"], lambda segment: segment["blocks"][0]["name"]):
        (segment,) = stored(lake)["segments"]
        index_files(lake)[name(segment)].unlink()
        assert check(lake) < sound
        state = index_.refresh(lake)
        assert (state.built, state.segments) == (len(FILES), 1)
        assert check(lake) == sound


def test_a_damaged_version_falls_back_on_the_one_before(lake: Path, tick: Any) -> None:
    index_.create(lake, "id")
    sound = check(lake)
    index_.create(lake, "name")
    newest = max(index_folder(lake).glob("*.json"))
    newest.write_bytes(b"{}")
    assert check(lake) == sound
    assert [row.column for row in index_.show(lake).rows] == ["id"]
    state = index_.create(lake, "name")
    assert (state.number, [row.files for row in state.rows]) == (3, [len(FILES)] * 2)


def test_where_all_versions_are_damaged_there_is_no_index(lake: Path) -> None:
    index_.create(lake, "id")
    newest = max(index_folder(lake).glob("*.json"))
    newest.write_bytes(b"{}")
    assert not index_.show(lake).exists
    with pytest.raises(FileNotFoundError, match="has no index"):
        index_.refresh(lake)
    assert index_.create(lake, "id").number == 2
    max(index_folder(lake).glob("*.json")).write_bytes(b"")
    assert not index_.drop(lake).exists
    assert not index_folder(lake).exists()


def test_a_newer_format_is_left_alone(lake: Path) -> None:
    index_.create(lake, "id")
    (path,) = index_folder(lake).glob("*.json")
    version = json.loads(path.read_text("utf-8"))["version"] | {"format": 4, "more": [1]}
    crc = zlib.crc32(json.dumps(version, sort_keys=True).encode())
    path.write_text(json.dumps({"crc": crc, "version": version}))
    assert check(lake) == 0
    for verb in (index_.refresh, index_.show, index_.drop, lambda root: index_.create(root, "name")):
        with pytest.raises(UnsupportedError, match="format 4, which needs a newer parquet-bloom"):
            verb(lake)
    assert [p.name for p in index_folder(lake).glob("*.json")] == [path.name]


def test_an_older_format_is_to_be_made_again(lake: Path) -> None:
    index_.create(lake, "id")
    (path,) = index_folder(lake).glob("*.json")
    version = json.loads(path.read_text("utf-8"))["version"] | {"format": 2}
    crc = zlib.crc32(json.dumps(version, sort_keys=True).encode())
    path.write_text(json.dumps({"crc": crc, "version": version}))
    assert check(lake) == 0
    with pytest.raises(UnsupportedError, match="remove its folder and create it again"):
        index_.refresh(lake)


def test_a_damaged_blocks_file_goes_with_the_next_compaction(lake: Path, monkeypatch: Any, tick: Any) -> None:
    index_.create(lake, "id")
    sound = check(lake)
    for blocks in index_folder(lake).glob("_bloom-blocks-*"):
        blocks.write_bytes(bytes(blocks.stat().st_size))
    assert check(lake) == len(ASKED)  # a file without rows needs no filter
    monkeypatch.setattr(index_, "MOST_SEGMENTS", 0)
    index_.refresh(lake)
    index_.refresh(lake)
    assert check(lake) == sound


def test_of_very_many_keys_nothing_is_asked(lake: Path, monkeypatch: Any) -> None:
    index_.create(lake, "id")
    where = f"id IN ({', '.join(str(n) for n in range(-50, 0))})"
    assert not prune(lake, where).kept_files
    monkeypatch.setattr(index, "MOST_BYTES", 100)
    result = prune(lake, where)
    assert not any("(in the index)" in group.reason for group in result.rows if group.num_rows)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            ("name", "../a"),
            ("name", ["a"]),
            ("states", "/etc/passwd"),
            ("size", -1),
            ("size", "1"),
            ("states_crc", None),
        ),
        *(("schemas", ["["]), ("schemas", [5]), ("blocks", 3), ("blocks.starts", [["x"]]), ("blocks.starts", [])),
        *(("blocks.num_bytes", 33), ("blocks.rows", 0), ("blocks.num_slots", 0), ("blocks.column", ["id"])),
    ],
)
def test_a_version_that_no_writer_writes_is_ignored(lake: Path, field: str, value: Any) -> None:
    index_.create(lake, "id")
    expected = prune(lake, "id = 7", cache=Cache()).paths
    (path,) = index_folder(lake).glob("*.json")
    stored = json.loads(path.read_text())["version"]
    segment = stored["segments"][0]
    if field == "schemas":
        stored["schemas"] = value
    elif field.startswith("blocks."):
        segment["blocks"][0][field.removeprefix("blocks.")] = value
    else:
        segment[field] = value
    text = json.dumps(stored, sort_keys=True)
    path.write_text(json.dumps({"crc": zlib.crc32(text.encode()), "version": stored}))
    assert set(prune(lake, "id = 7", cache=Cache()).paths) >= set(expected)
