"""The candidates of `lookup` hold every row that has a key, and what is nowhere is nowhere."""

from __future__ import annotations

import math
import random
import tracemalloc
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reference
from files import footer_bytes, with_footer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from verbs.prune.test_no_row_lost import EXAMPLES
from verbs.prune.worlds import KINDS, ORACLES, Column, World, write

import parquet_bloom
from parquet_bloom import lookup
from parquet_bloom.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    LiteralError,
    UnsupportedError,
)
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.predicates.tree import Comparison
from parquet_bloom.storage.cache import Cache
from parquet_bloom.storage.drive import RequestLog
from parquet_bloom.verbs import checks
from parquet_bloom.verbs.reading_keys import read_keys

quick = settings(deadline=None, max_examples=2 * EXAMPLES, suppress_health_check=list(HealthCheck))


LOOKED_UP = [kind for kind in KINDS if kind != "bool"]


@st.composite
def cases(draw: Any) -> tuple[World, list[Any]]:
    column = Column(
        "c0", draw(st.sampled_from(LOOKED_UP)), draw(st.sampled_from(["plain", "required", "struct", "list"]))
    )
    kind = KINDS[column.kind]
    value = st.sampled_from(kind.values)
    optional = value if column.shape == "required" else st.one_of(value, st.none())
    cells = {
        "struct": st.one_of(st.builds(lambda v: {"v": v}, optional), st.none()),
        "list": st.one_of(st.lists(optional, max_size=3), st.none()),
    }.get(column.shape, optional)
    rows = draw(st.lists(st.tuples(cells), max_size=20))
    keys = draw(st.lists(st.sampled_from([*kind.values, *kind.literals, None]), max_size=12))
    return World((column,), tuple(rows), draw(st.integers(1, 7))), keys


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("filters", ["ours", "pyarrow", "none"])
@quick
@given(case=cases())
def test_no_row_is_lost(tmp_path: Path, filters: str, oracle: Any, case: tuple[World, list[Any]]) -> None:
    world, keys = case
    (column,), path = world.columns, tmp_path / "f.parquet"
    dotted = ".".join(column.path)
    options = {"bloom_filter_options": {dotted: {"ndv": 64, "fpp": 0.001}}} if filters == "pyarrow" else {}
    if column.kind == "float16":
        options = {}
    write(world, path, statistics=filters != "ours", **options)
    if filters == "ours" and column.kind != "float16" and world.rows:
        parquet_bloom.add(path, [dotted], fpp=0.001)
    result = lookup(path, dotted, keys, timezone="UTC").to_arrow()
    held = _groups(path)
    places: dict[str, set[tuple[str | None, int | None]]] = {}
    for row in result.to_pylist():
        assert row["reason"]
        places.setdefault(repr(row["key"]), set()).add((row["path"], row["row_group"]))
    memory = oracle(world)
    for key, shown in zip(keys, read_keys(keys, "v").shown.to_pylist(), strict=True):
        truth = memory.matches(Comparison("=", column.path, key)) or set()
        for group, rows in held.items():
            assert not truth & rows or (str(path), group) in places[repr(shown)], key
    assert len(places) == len(set(map(repr, read_keys(keys, "v").shown.to_pylist())))


def _groups(path: Path) -> dict[int, set[int]]:
    file = pq.ParquetFile(path)
    return {g: set(file.read_row_group(g, columns=["k"])["k"].to_pylist()) for g in range(file.num_row_groups)}


# ---- golden ------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        ids = range(number * 100, number * 100 + 20)
        table = pa.table(
            {
                "id": pa.array(ids),
                "name": [f"n{i:03}" for i in ids],
                "uid": pa.array([uuid.UUID(int=i).bytes for i in ids], pa.uuid()),
                "tags": [[f"t{i}", None] for i in ids],
                "at": pa.array(
                    [datetime(2024, 1, 1, 0, 0, i % 60, tzinfo=UTC) for i in ids], pa.timestamp("us", "UTC")
                ),
            }
        )
        pq.write_table(table, f"{number}.parquet", row_group_size=10, write_statistics=["id"])
        parquet_bloom.add(f"{number}.parquet", ["id", "name", "uid", "tags.list.element", "at"], fpp=0.00001)
    return Path()


def found(paths: Any, column: str, keys: Any, **options: Any) -> list[tuple[Any, str | None, int | None]]:
    rows = lookup(paths, column, keys, **options).to_arrow().to_pylist()
    return [(row["key"], row["path"] and Path(row["path"]).name, row["row_group"]) for row in rows]


def test_keys_of_many_kinds(lake: Path) -> None:
    assert found(lake, "name", ["n115", "x", "n005", "n005", None]) == [
        *(("n005", "0.parquet", 0), ("n005", "0.parquet", 0), ("n115", "1.parquet", 1)),
        *(("x", None, None), (None, None, None)),
    ]
    assert found(lake, "id", [115, 999]) == [(115, "1.parquet", 1), (999, None, None)]
    assert found(lake, "id", [115.0, Decimal("5.0")]) == [("5.0", "0.parquet", 0), ("115.0", "1.parquet", 1)]
    assert found(lake, "id", np.array([115], np.uint8)) == [(115, "1.parquet", 1)]
    assert found(lake, "uid", [uuid.UUID(int=115)]) == [(uuid.UUID(int=115), "1.parquet", 1)]
    assert found(lake, "uid", [uuid.UUID(int=115).bytes]) == [(uuid.UUID(int=115).bytes, "1.parquet", 1)]
    assert found(lake, "tags.list.element", ["t115", "t999"]) == [("t115", "1.parquet", 1), ("t999", None, None)]
    at = datetime(2024, 1, 1, 0, 0, 12, tzinfo=UTC)
    assert found(lake, "at", [at]) == [(at, "0.parquet", 1)]


def test_no_key_at_all(lake: Path) -> None:
    assert found(lake, "name", []) == []
    assert found(lake, "id", [None]) == [(None, None, None)]


def test_keys_without_a_proof_are_everywhere(lake: Path) -> None:
    everywhere = [(f"{n}.parquet", g) for n in range(3) for g in range(2)]
    naive = datetime(2024, 1, 1, 0, 0, 12)
    assert [place[1:] for place in found(lake, "at", [naive])] == everywhere
    assert found(lake, "at", [naive], timezone="UTC") == [(naive, "0.parquet", 1)]
    assert [place[1:] for place in found(lake, "id", [math.nan])] == everywhere


@pytest.mark.parametrize("form", ["parquet", "csv", "txt"])
def test_keys_from_a_file(lake: Path, form: str) -> None:
    path = lake / f"keys.{form}"
    if form == "parquet":
        path = lake / "keys" / "keys.parquet"
        path.parent.mkdir()
        pq.write_table(pa.table({"x": [0, 0], "id": [115, 999]}), path)
    else:
        path.write_text("id\n0115\n999\n\n" if form == "csv" else "0115\n999\n", "utf-8")
    rows = found([f"{n}.parquet" for n in range(3)], "id", path)
    keys = [115, 999] if form == "parquet" else ["0115", "999"]
    assert rows[:2] == [(keys[0], "1.parquet", 1), (keys[1], None, None)]
    assert rows[2:] in ([], [("", None, None)])


def test_errors_come_before_the_stream(lake: Path) -> None:
    with pytest.raises(ColumnNotFoundError, match="did you mean"):
        lookup(lake, "nam", ["x"])
    with pytest.raises(LiteralError, match="column id"):
        lookup(lake, "id", ["x"])
    with pytest.raises(LiteralError):
        lookup(lake, "id", [1, "a"])
    with pytest.raises(FileNotFoundError):
        lookup(lake / "missing", "id", [1])
    with pytest.raises(FileNotFoundError):
        lookup(lake, "id", Path("keys.txt"))


def test_files_that_lack_the_column_or_hold_another_type_keep_every_key(lake: Path) -> None:
    pq.write_table(pa.table({"other": [1]}), "3.parquet")
    lacking = [(5, "0.parquet", 0), (999, "3.parquet", None), (5, "3.parquet", None)]
    for strict in (False, True):
        assert found(lake, "id", [999, 5], strict=strict) == lacking
    pq.write_table(pa.table({"id": ["a"]}), "4.parquet")
    every = {(key, f"{number}.parquet", None) for key in (999, 5) for number in range(5)}
    for strict in (False, True):  # of another type in one of them, the column excludes nothing in any
        assert {*found(lake, "id", [999, 5], strict=strict)} == {*lacking, *every}


def test_unreadable_files_keep_every_key(lake: Path) -> None:
    Path("3.parquet").write_bytes(b"nothing that Parquet is")
    assert found(lake, "id", [5, 999]) == [(5, "0.parquet", 0), (5, "3.parquet", None), (999, "3.parquet", None)]
    with pytest.raises(CorruptFileError):
        lookup(lake, "id", [5], strict=True).to_arrow()
    assert found("3.parquet", "whatever", [5]) == [(5, "3.parquet", None)]


def test_a_file_that_vanishes_keeps_every_key(lake: Path) -> None:
    from parquet_bloom.storage.listing import find

    def vanishing(*_: Any, **__: Any) -> Any:
        sources = find(".")
        Path("1.parquet").unlink()
        return sources, None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parquet_bloom.verbs.opening.live_sources", vanishing)
        rows = found(".", "id", [5], cache=Cache(0))
    assert rows == [(5, "0.parquet", 0), (5, "1.parquet", None)]


def test_damaged_filters_keep_what_statistics_leave(lake: Path) -> None:
    data = bytearray(Path("0.parquet").read_bytes())
    metadata = pq.read_metadata("0.parquet")
    at = metadata.row_group(0).column(0).bloom_filter_offset
    data[at : at + 8] = bytes(8)
    Path("0.parquet").write_bytes(data)
    rows = lookup("0.parquet", "id", [5, 7, 12, 99], cache=Cache(0)).to_arrow().to_pylist()
    assert [(row["key"], row["row_group"]) for row in rows] == [(5, 0), (7, 0), (12, 1), (99, None)]


def test_a_chunk_of_another_column_keeps_every_key(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"n": [1, 2]}), path)
    assert found(path, "n", [1.5, 9]) == [(1.5, None, None), (9, None, None)]
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    metadata.row_groups[0].columns[0].meta_data.path_in_schema = ["other"]
    path.write_bytes(with_footer(data, encode(metadata)))
    assert found(path, "n", [1.5, 9]) == [(1.5, "f.parquet", 0), (9, "f.parquet", 0)]


def test_a_filter_that_somebody_emptied_keeps_every_key(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"n": [0, 5, 9]}), path)
    ((added,),) = (row.filters for row in parquet_bloom.add(path, ["n"], fpp=1e-6))
    assert found(path, "n", [5, 6]) == [(5, "f.parquet", 0), (6, None, None)]
    data, stop = bytearray(path.read_bytes()), added.offset + added.length
    data[stop - added.num_bytes : stop] = bytes(added.num_bytes)
    path.write_bytes(data)
    assert found(path, "n", [5, 6]) == [(5, "f.parquet", 0), (6, "f.parquet", 0)]


class WithoutNaN:
    """A filter of another format, of the column f, that has everything but NaN."""

    column, format = ("f",), "other"

    def might_contain(self, values: list[Any]) -> list[bool]:
        return [value == value for value in values]


def test_a_key_that_no_filter_is_asked_for_is_kept_beside_those_of_other_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parquet_bloom.verbs.lookup.filters_in_footer", lambda footer: (WithoutNaN(),))
    pq.write_table(pa.table({"f": [math.nan, 1.0]}), tmp_path / "f.parquet")
    rows = found(tmp_path / "f.parquet", "f", [math.nan, 1.0])
    assert sorted((str(key), group) for key, _, group in rows) == [("1.0", 0), ("nan", 0)]


def test_a_key_that_equals_several_values_is_asked_for_by_each(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"f": pa.array([0.1, 0.5], pa.float32())}), path)
    for keys in ([0.1], [0.1, 7.0]):
        assert found(path, "f", keys)[0] == (0.1, "f.parquet", 0)


def test_it_is_a_stream(lake: Path) -> None:
    result = lookup(lake, "name", ["n005"])
    assert result.to_reader().read_all().schema == result.schema
    with pytest.raises(UnsupportedError, match="were read already"):  # the reader took the stream
        list(result)
    batches = list(lookup(lake, "name", ["n005"]))
    assert all(batch.schema == result.schema for batch in batches)
    assert sum(batch.num_rows for batch in batches) == 1


def test_progress_and_requests(lake: Path) -> None:
    seen: list[tuple[int, int]] = []
    log = RequestLog()
    result = lookup(lake, "id", [5, 115], progress=lambda d, t: seen.append((d, t)), log=log, cache=Cache(0))
    result.to_arrow()
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert len(log.requests) == 5  # three ends of files, and the filters of two row groups


def test_many_keys_are_found_as_the_specification_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MOST_CHECKS", 4000)
    monkeypatch.setattr(checks, "_WORTH_A_THREAD", 3000)
    monkeypatch.setattr("parquet_bloom.verbs.lookup.num_threads", lambda jobs: 3)
    dice = random.Random(8)
    stored = [f"{dice.getrandbits(64):x}" for _ in range(6000)]
    for number in range(6):
        names = pa.table({"name": stored[1000 * number : 1000 * (number + 1)]})
        pq.write_table(names, tmp_path / f"{number}.parquet", row_group_size=300)
    parquet_bloom.add(tmp_path, ["name"], fpp=0.05)
    keys = dice.sample(stored, 1000) + [f"{dice.getrandbits(64):x}" for _ in range(1000)]
    expected = []
    for path in sorted(tmp_path.iterdir()):
        metadata = pq.read_metadata(path)
        for group in range(metadata.num_row_groups):
            chunk = metadata.row_group(group).column(0)
            stop = chunk.bloom_filter_offset + chunk.bloom_filter_length
            bloom = SplitBlockBloomFilter.from_bytes(path.read_bytes()[chunk.bloom_filter_offset : stop])
            bitset = reference.from_bytes(bytes(bloom.bitset))
            between = [key for key in keys if chunk.statistics.min <= key <= chunk.statistics.max]
            passing = [key for key in sorted(between) if reference.check(bitset, reference.xxh64(key.encode()))]
            expected += [(key, path.name, group) for key in passing]
    assert len(expected) > 1100  # some by chance
    rows = found(tmp_path, "name", keys)
    everywhere = {key for key, _, _ in expected}
    assert rows == [*expected, *((key, None, None) for key in keys if key not in everywhere)]
    kept = lookup(tmp_path, "name", keys).to_dataset().to_table()["name"].to_pylist()
    assert set(kept) >= set(keys) & set(stored)


def test_a_dataset_takes_no_checks_that_exclude_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("parquet_bloom.verbs.lookup.BATCH_HITS", 1)  # so much is found before a dataset is asked for
    monkeypatch.setattr(checks, "MOST_CHECKS", 1)
    for number in range(3):
        ids = pa.table({"id": range(30_000 * number, 30_000 * (number + 1), 3)})
        pq.write_table(ids, tmp_path / f"{number}.parquet", row_group_size=1000)
    parquet_bloom.add(tmp_path, ["id"], fpp=0.05)
    checked: list[int] = []
    add = checks.Checks.add
    monkeypatch.setattr(checks.Checks, "add", lambda self, *args: checked.append(args[2] - args[1]) or add(self, *args))
    with caplog.at_level("WARNING", "parquet_bloom"):
        many = lookup(tmp_path, "id", pa.array(range(1, 90_000, 3)), cache=Cache(0)).to_dataset()
    assert caplog.text.count("pass the filter of a row group by chance") == 1
    assert many.count_rows() == 30_000
    assert len(checked) == 10  # those of the first file
    checked.clear()
    lookup(tmp_path, "id", [4, 3001]).to_dataset()
    assert checked == [1, 1]


def test_very_many_keys_over_many_files_take_no_more_memory(tmp_path: Path) -> None:
    keys = pa.array([f"key {n:06}" for n in range(100_000)])
    for number in range(40):
        pq.write_table(pa.table({"name": [f"key {number:06}", f"zzz {number}"]}), tmp_path / f"{number}.parquet")
    parquet_bloom.add([tmp_path / f"{n}.parquet" for n in range(20)], ["name"])  # the rest has no filters

    def peak(files: int) -> int:
        tracemalloc.start()
        rows = 0
        paths = [tmp_path / f"{n}.parquet" for n in [*range(files // 2), *range(20, 20 + files // 2)]]
        for batch in lookup(paths, "name", keys, cache=Cache(0)):
            rows += batch.num_rows
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert rows >= 100_000
        return most

    assert peak(40) < 1.5 * peak(10)
