"""What a file claims of itself costs no more than its bytes, and one bad file does not end a call over many."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from files import table

import parquet_bloom
from parquet_bloom import Cache, Limits, UnsupportedError

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
