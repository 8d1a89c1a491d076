"""Filters that are large beside their file are told, and those larger than it refused: by what they really take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import snapshot

from parquet_bloom import add, verify
from parquet_bloom.errors import UnsupportedError

MIB = 1024 * 1024
REFUSED = r"the filters would take [\d,]+ bytes or more, and the whole file has [\d,]+; give a larger fpp="


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    """A file of 100,000 random ids, which take 8 bytes each, in two row groups."""
    path = tmp_path / "ids.parquet"
    values = np.random.default_rng(5).integers(0, 1 << 62, 100_000)
    pq.write_table(pa.table({"id": values}), path, row_group_size=50_000, use_dictionary=False)
    return path


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A file whose ids are little beside its texts."""
    path = tmp_path / "wide.parquet"
    table = pa.table({"id": range(10_000), "text": [f"{i:0400d}" for i in range(10_000)]})
    pq.write_table(table, path, use_dictionary=False, compression="none")
    return path


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A file of a few kilobytes that looks like much: two million values, of which only forty are distinct."""
    path = tmp_path / "few.parquet"
    values = np.arange(2_000_000) // 50_000
    table = pa.table({"id": values})
    encoding = {"id": "DELTA_BINARY_PACKED"}
    pq.write_table(table, path, use_dictionary=False, column_encoding=encoding, compression="zstd")
    assert path.stat().st_size < 100_000
    return path


@pytest.mark.parametrize("dry_run", [False, True])
def test_filters_larger_than_their_file_are_refused_before_the_first_byte(ids: Path, dry_run: bool) -> None:
    before = snapshot(ids.parent)
    (row,) = add(ids, "id", fpp=1e-30, dry_run=dry_run).rows
    assert row.status == "refused"
    with pytest.raises(UnsupportedError, match=REFUSED):
        add(ids, "id", fpp=1e-30, dry_run=dry_run, strict=True)
    assert snapshot(ids.parent) == before


def test_they_are_refused_where_the_size_is_fixed(ids: Path) -> None:
    (row,) = add(ids, "id", ndv=10**8).rows
    assert row.error is not None
    assert "the filters would take" in row.error
    assert add(ids, "id", ndv=10**8, max_bytes=65536).rows[0].status == "written"


def test_they_are_written_when_allowed(ids: Path) -> None:
    size = ids.stat().st_size
    (row,) = add(ids, "id", fpp=1e-9, max_bytes=MIB, allow_large=True).rows
    assert row.status == "written"
    assert row.bytes_added > size
    assert row.notes == ("the filters take 3 times the file's size; a larger fpp= makes them smaller",)
    assert verify(ids).findings == ()


def test_up_to_a_mebibyte_is_never_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.parquet"
    pq.write_table(pa.table({"id": range(1000)}), path)
    (row,) = add(path, "id", ndv=500_000, fpp=0.02).rows
    assert (row.status, row.filters[0].num_bytes) == ("written", MIB)
    (row,) = add(path, "id", ndv=500_000, fpp=1e-5, replace=True).rows
    assert row.error is not None  # two mebibytes


def test_what_folds_to_little_is_not_refused(few: Path) -> None:
    (planned,) = add(few, "id", dry_run=True).rows
    assert planned.status == "planned"
    assert planned.bytes_added > max(MIB, few.stat().st_size)
    (row,) = add(few, "id", strict=True).rows
    assert (row.status, row.notes) == ("written", ())
    assert row.bytes_added < 2000


def test_a_tenth_of_the_file_is_told(ids: Path, wide: Path) -> None:
    (planned,) = add(ids, "id", dry_run=True).rows
    assert planned.notes == ("the filters may take up to 33% of the file's size; a larger fpp= makes them smaller",)
    (row,) = add(ids, "id").rows
    assert row.notes == ("the filters take 33% of the file's size; a larger fpp= makes them smaller",)
    share = sum(f.length for f in row.filters) / row.size
    assert 0.325 < share < 0.335
    assert add(wide, "id").rows[0].notes == ()


def test_the_others_of_a_folder_go_on(ids: Path, wide: Path) -> None:
    rows = {Path(row.path).name: row for row in add(ids.parent, "id", fpp=1e-14, max_bytes=2 * MIB).rows}
    assert rows["wide.parquet"].status == "written"
    assert rows["ids.parquet"].status == "refused"


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_table_s_files_are_refused_alike(tmp_path: Path, dry_run: bool) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    values = np.random.default_rng(5).integers(0, 1 << 62, 100_000)
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": values}))
    before = snapshot(tmp_path)
    (row,) = add(str(tmp_path / "t"), "id", table=True, fpp=1e-30, dry_run=dry_run).rows
    assert row.error is not None
    assert "the filters would take" in row.error
    assert snapshot(tmp_path) == before
    (row,) = add(str(tmp_path / "t"), "id", table=True, fpp=1e-12, max_bytes=2 * MIB, allow_large=True).rows
    assert row.status == "written"
