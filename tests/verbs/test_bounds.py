"""What a file claims of itself costs no more than its bytes, and one bad file does not end a call over many."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import DAMAGED, fixture, table

import parquet_bloom
from parquet_bloom import Cache, Limits, UnsupportedError
from parquet_bloom.format._parquet_thrift import ttypes
from parquet_bloom.format.footer import read_footer
from parquet_bloom.format.restore import whole_prefixes
from parquet_bloom.format.sbbf import SplitBlockBloomFilter
from parquet_bloom.format.thrift_io import decode, encode
from parquet_bloom.storage.drive import RequestLog, run
from parquet_bloom.storage.listing import find

# ---- footers -----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good file, and one whose footer claims to take 513 MiB (which are holes)."""
    pq.write_table(table(20, 0), tmp_path / "a.parquet")
    with (tmp_path / "b.parquet").open("wb") as out:
        out.write(b"PAR1")
        out.truncate(600 * 2**20)
        out.seek(0, os.SEEK_END)
        out.write((513 * 2**20).to_bytes(4, "little") + b"PAR1")
    return tmp_path


def test_a_footer_beyond_the_limit_is_not_read(folder: Path) -> None:
    pruned = parquet_bloom.prune(folder, "id = 99", cache=Cache(0))
    assert [file.not_pruned is None for file in pruned.all_files] == [True, False]
    assert "footer_bytes" in str(pruned.all_files[1].not_pruned)
    found = parquet_bloom.lookup(folder, "id", [99], cache=Cache(0))
    assert [row["row_group"] for row in found.to_arrow().to_pylist()] == [None]
    for results in (
        parquet_bloom.inspect(folder),
        parquet_bloom.add(folder, "id"),
        parquet_bloom.verify(folder),
        parquet_bloom.drop(folder),
    ):
        (error,) = [row.error for row in results.errors]
        assert "footer_bytes" in str(error)
        assert "corrupt" not in str(error)
    with pytest.raises(UnsupportedError, match="PARQUET_BLOOM_FOOTER_BYTES"):
        parquet_bloom.prune(folder, "id = 99", strict=True)


def test_the_limit_of_footers_is_the_caller_s(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "b.parquet").unlink()
    for limit, is_read in ((100, False), (100_000, True)):
        pruned = parquet_bloom.prune(folder, "id = 99", cache=Cache(0), limits=Limits(footer_bytes=limit))
        assert [file.not_pruned is None for file in pruned.all_files] == [is_read]
    with pytest.raises(ValueError, match="footer_bytes"):
        Limits(footer_bytes=0)
    monkeypatch.setenv("PARQUET_BLOOM_FOOTER_BYTES", "100")
    assert Limits().footer_bytes == 100


# ---- counts ------------------------------------------------------------------------------


def claiming(path: Path, num_values: int, *, dictionary: bool) -> None:
    """Writes a file of 100 rows whose footer counts other ones."""
    pq.write_table(table(100, 0), path, use_dictionary=dictionary)
    data = path.read_bytes()
    footer = decode(ttypes.FileMetaData, data[-8 - int.from_bytes(data[-8:-4], "little") : -8])[0]
    footer.num_rows = footer.row_groups[0].num_rows = num_values
    for column in footer.row_groups[0].columns:
        column.meta_data.num_values = num_values
        column.meta_data.statistics = None
    raw = encode(footer)
    pages = data[: -8 - int.from_bytes(data[-8:-4], "little")]
    path.write_bytes(pages + raw + len(raw).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_count_of_the_footer_costs_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dictionary: bool
) -> None:
    made: list[int] = []
    sized_for = SplitBlockBloomFilter.sized_for

    def noted(*args: Any, **options: Any) -> SplitBlockBloomFilter:
        bloom = sized_for(*args, **options)
        made.append(bloom.num_bytes)
        return bloom

    monkeypatch.setattr(SplitBlockBloomFilter, "sized_for", noted)
    claiming(tmp_path / "x.parquet", 2**40, dictionary=dictionary)
    for column in ("id", "name"):
        added = parquet_bloom.add(tmp_path / "x.parquet", column, allow_large=True)
        assert all(row.error is None or "the footer says" in row.error for row in added.rows)
    assert sum(made) < 10_000


def test_values_that_take_few_bytes_get_the_same_filter(tmp_path: Path) -> None:
    """Counting them first changes nothing: deltas of one take next to no bytes."""
    path = tmp_path / "x.parquet"
    rows = pa.table({"id": pa.array(range(2_000_000), pa.int64())})
    encodings = {"id": "DELTA_BINARY_PACKED"}
    pq.write_table(rows, path, use_dictionary=False, column_encoding=encodings, compression="zstd")
    pq.write_table(rows, tmp_path / "plain.parquet", use_dictionary=False, compression="none")
    for each in (path, tmp_path / "plain.parquet"):
        parquet_bloom.add(each, "id", allow_large=True)
    found = [parquet_bloom.inspect(each).rows for each in (path, tmp_path / "plain.parquet")]
    assert [(row.num_bytes, row.fpp) for row in found[0]] == [(row.num_bytes, row.fpp) for row in found[1]]
    assert path.stat().st_size - 2 * found[0][0].num_bytes < 100_000  # type: ignore[operator]


# ---- restoring ---------------------------------------------------------------------------


def test_what_only_looks_like_footers_is_not_read_without_end(tmp_path: Path) -> None:
    """Each of 20,000 places claims a footer of all the bytes before it: 16 GB in all."""
    path = tmp_path / "x.parquet"
    pq.write_table(table(20, 0), path)
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    pages = len(data) - 8 - len(footer)
    claims, at = bytearray(bytes(800_000)), pages + 800_000
    for number in range(20_000):
        claims += (at - pages + 8 * number).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(data[:pages] + claims + footer + data[-8:])
    log = RequestLog()
    (source,) = find([str(path)])
    with pytest.raises(UnsupportedError, match="look like an earlier footer"):
        run(source, whole_prefixes(run(source, read_footer(source.size))), log=log)
    assert log.num_bytes < 100_000_000
    (row,) = parquet_bloom.drop(path, restore=True).rows
    assert "look like an earlier footer" in str(row.error)
    assert path.stat().st_size == len(data) + len(claims)


# ---- one bad file ------------------------------------------------------------------------


@pytest.mark.usefixtures("mtime_stable")
def test_bad_files_end_no_call_over_many(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(table(20, 20 * number), tmp_path / f"good{number}.parquet")
    for name in DAMAGED:
        (tmp_path / f"h{Path(name).name}").write_bytes(fixture(name))

    def good(results: Any) -> set[str]:
        rows = results.all_files if isinstance(results, parquet_bloom.Pruning) else results.rows
        return {Path(row.path).name for row in rows if "/good" in row.path and not getattr(row, "error", None)}

    every = {f"good{number}.parquet" for number in range(3)}
    assert good(parquet_bloom.prune(tmp_path, "id = 5", cache=Cache(0))) == every
    found = parquet_bloom.lookup(tmp_path, "id", [5, 999], cache=Cache(0)).to_arrow().to_pylist()
    assert str(tmp_path / "good0.parquet") in {row["path"] for row in found}
    assert parquet_bloom.index.create(tmp_path, "id", ndv=100).rows[0].files >= 3
    assert good(parquet_bloom.add(tmp_path, "id")) == every
    assert good(parquet_bloom.probe(tmp_path, "id", 5)) == every
    assert good(parquet_bloom.inspect(tmp_path)) == every
    assert good(parquet_bloom.verify(tmp_path)) == every
    assert good(parquet_bloom.drop(tmp_path, "id")) == every
    assert good(parquet_bloom.drop(tmp_path, restore=True)) == every
    assert good(parquet_bloom.hudi.add_filter(tmp_path, key_column="name", ndv=100)) == every
