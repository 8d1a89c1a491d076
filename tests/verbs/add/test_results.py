"""What `add` and `drop` say is what they did."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import FIXTURES, SMALL, footer_bytes, opened, snapshot, statuses, with_footer, write

from parquet_bloom import add, drop, inspect, probe, verify
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.sbbf import SplitBlockBloomFilter, false_positive_rate
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.verbs import retrofit


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write(tmp_path / "x.parquet")
    return tmp_path / "x.parquet"


def test_filters_are_where_and_what_the_result_says(file: Path) -> None:
    (row,) = add(file, ["name", "id"]).rows
    data = file.read_bytes()
    assert [(f.row_group, f.column) for f in row.filters] == [(g, c) for g in range(4) for c in ("name", "id")]
    for added, seen in zip(sorted(row.filters, key=lambda f: f.offset), inspect(file).rows, strict=False):
        bloom = SplitBlockBloomFilter.from_bytes(data[added.offset : added.offset + added.length], length=added.length)
        assert (bloom.num_bytes, bloom.fpp) == (added.num_bytes, added.fpp)
        assert seen.problem is None
    assert {(f.row_group, f.column, f.offset, f.length) for f in row.filters} == {
        (s.row_group, s.column, s.offset, s.length) for s in inspect(file).rows
    }
    assert row.bytes_added == len(data) - row.size


def test_a_second_add_changes_nothing(file: Path) -> None:
    add(file, "id")
    before = snapshot(file.parent)
    (row,) = add(file, "id").rows
    assert row.status == "unchanged"
    assert {s.reason for s in row.skipped} == {"has a filter"}
    assert snapshot(file.parent) == before


def test_only_what_is_missing_is_built(file: Path) -> None:
    add(file, "id")
    old = {(f.row_group, f.offset) for f in inspect(file, "id").rows}
    (row,) = add(file, ["id", "name"]).rows
    assert {f.column for f in row.filters} == {"name"}
    assert {(f.row_group, f.offset) for f in inspect(file, "id").rows} == old


def test_chunks_without_a_filter_are_filled_beside_those_that_have_one(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "duckdb/partly.parquet", tmp_path / "x.parquet")
    have = {(f.row_group, f.column) for f in inspect(tmp_path).rows}
    _, footer = opened(tmp_path / "x.parquet")
    every = {(g, leaf.name) for g, leaf, _ in footer.chunks()}
    (row,) = add(tmp_path, [leaf.name for leaf in footer.leaves]).rows
    assert {(f.row_group, f.column) for f in row.filters} == every - have
    assert {(f.row_group, f.column) for f in inspect(tmp_path).rows} == every
    assert verify(tmp_path).findings == ()


def test_replace_builds_anew_and_says_why(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / SMALL, tmp_path / "x.parquet")
    (row,) = add(tmp_path, "id", replace=True).rows
    assert [f.replaced for f in row.filters] == ["requested"] * 2
    shutil.copy(FIXTURES / "damaged/bits_all_zero.parquet", tmp_path / "x.parquet")
    (row,) = add(tmp_path, "id").rows
    assert [(f.row_group, f.replaced is not None) for f in row.filters] == [(0, True)]
    assert verify(tmp_path, "id").findings == ()


def test_lengths_are_filled_in_without_building(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    shutil.copy(FIXTURES / "pyarrow/without_length.parquet", file)
    old = inspect(file, "id").rows
    assert statuses(add(file, "id")) == ["unchanged"]
    (row,) = add(file, "id", fill_lengths=True).rows
    assert (row.status, row.filters) == ("written", ())
    new = inspect(file, "id").rows
    assert [f.offset for f in new] == [f.offset for f in old]
    assert all(f.length and f.length > f.num_bytes for f in new)
    assert statuses(add(file, "id", fill_lengths=True)) == ["unchanged"]


def test_a_dry_run_writes_nothing_and_tells_the_most(file: Path) -> None:
    before = snapshot(file.parent)
    (planned,) = add(file, ["id", "name"], dry_run=True).rows
    assert statuses(drop(file, dry_run=True)) == ["unchanged"]
    assert snapshot(file.parent) == before
    (done,) = add(file, ["id", "name"]).rows
    assert (planned.status, done.status) == ("planned", "written")
    assert planned.bytes_added >= done.bytes_added
    key = [(f.row_group, f.column) for f in done.filters]
    assert [(f.row_group, f.column) for f in planned.filters] == key
    before = snapshot(file.parent)
    assert statuses(drop(file, dry_run=True)) == ["planned"]
    assert snapshot(file.parent) == before


def test_with_ndv_a_dry_run_tells_the_very_bytes(file: Path) -> None:
    (planned,) = add(file, "id", ndv=500, dry_run=True).rows
    (done,) = add(file, "id", ndv=500).rows
    assert planned.bytes_added == done.bytes_added
    assert [(f.offset, f.length) for f in planned.filters] == [(f.offset, f.length) for f in done.filters]


@pytest.mark.parametrize("fpp", [0.5, 0.1, 0.01, 0.0001])
def test_the_rate_is_kept_and_the_size_no_larger_than_it_takes(file: Path, fpp: float) -> None:
    for f in add(file, ["id", "name"], fpp=fpp).rows[0].filters:
        assert f.fpp <= fpp
        assert f.num_bytes == 64 or false_positive_rate(8 * (f.num_bytes // 2) / 250) > fpp * 0.8


def test_a_column_has_the_rate_that_it_was_given(file: Path) -> None:
    rates = {"id": 0.2, "name": 0.0001}
    filters = {f.column: f for f in add(file, rates, dry_run=True).rows[0].filters}
    assert {name: f.fpp for name, f in filters.items()} == rates
    built = add(file, rates, output=file.with_name("both.parquet")).rows[0].filters
    assert {f.column for f in built} == set(rates)
    for name, fpp in rates.items():
        alone = add(file, name, fpp=fpp, output=file.with_name(f"{name}.parquet")).rows[0].filters
        assert [(f.num_bytes, f.fpp) for f in built if f.column == name] == [(f.num_bytes, f.fpp) for f in alone]
    for wrong in (0, 1, -0.1, "0.1", None):
        with pytest.raises(ValueError, match="fpp= must be between 0 and 1, not"):
            add(file, {"id": wrong})  # type: ignore[dict-item]


def test_max_bytes_caps_and_the_worse_rate_is_told(file: Path) -> None:
    filters = add(file, "id", max_bytes=64).rows[0].filters
    assert {f.num_bytes for f in filters} == {64}
    assert min(f.fpp for f in filters) > 0.1


@pytest.mark.parametrize("jobs", [1, 3])
def test_progress_counts_bytes(file: Path, jobs: int) -> None:
    metadata = pq.read_metadata(file)
    of_chunks = sum(
        metadata.row_group(i).column(k).total_compressed_size for i in range(metadata.num_row_groups) for k in (0, 1)
    )
    seen: list[tuple[int, int]] = []
    add(file, ["id", "name"], jobs=jobs, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert len(seen) >= 8
    assert seen[-1] == (of_chunks, of_chunks)
    seen.clear()
    verify(file, jobs=jobs, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert len(seen) >= 8
    assert seen[-1] == (file.stat().st_size, file.stat().st_size)


def test_progress_moves_within_one_column_chunk(tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    pq.write_table(pa.table({"id": range(3_000_000)}), path, row_group_size=3_000_000, use_dictionary=False)
    for verb in (lambda **options: add(path, "id", **options), lambda **options: verify(path, **options)):
        seen: list[int] = []
        verb(progress=lambda done, total, seen=seen: seen.append(100 * done // total))
        assert len(seen) > 2
        assert 0 < seen[0] < 100
        assert seen[-1] == 100


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_any_number_of_jobs_writes_the_same_bytes(tmp_path: Path, jobs: int) -> None:
    for i in range(5):
        write(tmp_path / f"in/{i}.parquet", 200 * (i + 1))
    add(tmp_path / "in", ["id", "name"], output=tmp_path / "one", jobs=1)
    add(tmp_path / "in", ["id", "name"], output=tmp_path / "many", jobs=jobs)
    assert snapshot(tmp_path / "many") == snapshot(tmp_path / "one")


# ---- copies ------------------------------------------------------------------------------


def test_a_folder_s_copy_is_complete(tmp_path: Path) -> None:
    write(tmp_path / "in/a.parquet")
    write(tmp_path / "in/p=1/b.parquet")
    write(tmp_path / "in/p=1/empty.parquet", 0)
    add(tmp_path / "in/a.parquet", "id")
    assert statuses(add(tmp_path / "in", "id", output=tmp_path / "out")) == ["unchanged", "written", "unchanged"]
    old, new = snapshot(tmp_path / "in"), snapshot(tmp_path / "out")
    assert new.keys() == old.keys()
    assert {name for name in old if new[name] != old[name]} == {"p=1/b.parquet"}
    assert statuses(drop(tmp_path / "out", output=tmp_path / "bare")) == ["written", "written", "unchanged"]
    assert statuses(drop(tmp_path / "in", restore=True, output=tmp_path / "first"))[1:] == ["unchanged"] * 2
    assert snapshot(tmp_path / "bare").keys() == snapshot(tmp_path / "first").keys() == old.keys()


def test_a_copy_with_nothing_to_do_is_the_same_file(file: Path, tmp_path: Path) -> None:
    (row,) = drop(file, output=tmp_path / "y.parquet").rows
    assert (row.status, row.output) == ("unchanged", str(tmp_path / "y.parquet"))
    assert (tmp_path / "y.parquet").read_bytes() == file.read_bytes()


# ---- columns of nothing ------------------------------------------------------------------


def nulls(**options: Any) -> dict[str, Any]:
    return {"write_statistics": False, "row_group_size": 100} | options


def test_a_chunk_of_nulls_gets_no_filter_that_would_look_damaged(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    values = pa.array([None] * 100 + list(range(100)), pa.int64())
    pq.write_table(pa.table({"id": values}), file, **nulls())
    (row,) = add(file, "id").rows
    assert [f.row_group for f in row.filters] == [1]
    assert [(s.row_group, s.reason) for s in row.skipped] == [(0, "holds no values but nulls")]
    assert not inspect(file).errors


def test_a_file_of_nulls_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    table = pa.table({"id": pa.array([None] * 200, pa.int64()), "list": pa.array([[]] * 200, pa.list_(pa.int64()))})
    pq.write_table(table, file, **nulls())
    before = snapshot(tmp_path)
    for column in ("id", "list.list.element"):
        assert statuses(add(file, column)) == ["unchanged"]
    assert snapshot(tmp_path) == before


def test_counted_nulls_prune(tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": pa.array([None] * 200, pa.int64())}), file)
    assert statuses(add(file, "id")) == ["written"]
    assert [row.answer for row in probe(file, "id", 1).rows] == ["CANNOT_MATCH"]
    assert statuses(add(file, "id")) == ["unchanged"]


@pytest.mark.parametrize("name", ["pyarrow/zero_rows", "pyarrow/no_row_groups", "polars/no_rows"])
def test_a_file_without_rows_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    file = tmp_path / "x.parquet"
    shutil.copy(FIXTURES / f"{name}.parquet", file)
    before = snapshot(tmp_path)
    (leaf, *_) = opened(file)[1].leaves
    assert statuses(add(file, leaf.name)) == ["unchanged"]
    assert snapshot(tmp_path) == before


def test_summary_files_that_do_not_know_the_filters_are_named(tmp_path: Path) -> None:
    write(tmp_path / "day=1" / "f.parquet")
    pq.write_metadata(pq.read_schema(tmp_path / "day=1" / "f.parquet"), tmp_path / "_metadata")
    (row,) = add(tmp_path, "id", dry_run=True).rows
    assert f"{tmp_path}/_metadata still has the old footers" in row.notes[0]
    (row,) = add(tmp_path, "id").rows
    assert len(row.notes) == 1
    assert add(tmp_path, "id").rows[0].notes == ()


@pytest.mark.parametrize("jobs", [1, 3])
def test_drop_works_on_several_files_at_once(tmp_path: Path, jobs: int) -> None:
    for n in range(5):
        pq.write_table(pa.table({"id": range(n, n + 9)}), tmp_path / f"{n}.parquet")
    before = {path: path.read_bytes() for path in sorted(tmp_path.iterdir())}
    add(tmp_path, "id")
    (tmp_path / "2.parquet").write_bytes(b"no Parquet at all")
    told: list[tuple[int, int]] = []
    rows = drop(tmp_path, restore=True, jobs=jobs, progress=lambda *done: told.append(done)).rows
    assert [Path(row.path) for row in rows] == list(before)
    assert [row.status for row in rows] == ["written", "written", "refused", "written", "written"]
    assert told == [(n, 4) for n in range(1, 5)]
    assert all(path.read_bytes() == data for path, data in before.items() if path.name != "2.parquet")


# ---- what is checked before the new file takes the place of the old one ---------------------------------


def test_what_reads_back_differently_is_an_error() -> None:
    class Odd:
        def append(self, data: bytes) -> int:
            return 0

        def read(self, offset: int, length: int) -> bytes:
            return bytes(length)

    with pytest.raises(OSError, match="reads back differently"):
        retrofit.append_checked(Odd(), b"a filter")  # type: ignore[arg-type]


def test_a_footer_that_lost_something_is_not_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = snapshot(file.parent), retrofit.splice_filters

    def lossy(raw: bytes, edits: Any) -> bytes:
        done = real(raw, edits)
        return done.replace(b"parquet-cpp", b"parquet-xpp") if any(edits.values()) else done

    monkeypatch.setattr(retrofit, "splice_filters", lossy)
    (row,) = add(file, "id").rows
    assert (row.status, row.error) == ("refused", "the footer cannot be changed without loss")
    assert snapshot(file.parent) == before


def test_verify_counts_each_value_that_a_filter_lacks(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": [0, 5, 9, 0, 7, 9]}), path, row_group_size=3)
    add(path, "id", fpp=1e-6)
    data = path.read_bytes()
    metadata, _ = decode(ttypes.FileMetaData, footer_bytes(data))
    chunks = [group.columns[0].meta_data for group in metadata.row_groups]
    first, second = (chunk.bloom_filter_offset for chunk in chunks)
    chunks[0].bloom_filter_offset, chunks[1].bloom_filter_offset = second, first
    path.write_bytes(with_footer(data, encode(metadata)))
    found = verify(path)
    assert not found.is_sound
    assert [(row.verdict, row.num_missing, row.example) for row in found] == [
        ("false negative", 1, "5"),
        ("false negative", 1, "7"),
    ]
