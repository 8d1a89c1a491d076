"""Many keys in an index: files without them are not opened, and others are searched for those that they may hold."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import Cache, RequestLog
from parquet_bloom.filters import index as stored
from parquet_bloom.verbs import index

FILES, ROWS = 20, 50


def key(number: int, row: int) -> str:
    return f"{(number * ROWS + row) * 7919 % 10**6:06}"


@pytest.fixture(scope="module", params=[0.0001, 0.1])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """Files without filters, of which the index has some."""
    folder = tmp_path_factory.mktemp("indexed")
    for number in range(FILES):
        path = folder / f"{number:02}.parquet"
        pq.write_table(pa.table({"id": [key(number, row) for row in range(ROWS)]}), path)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    index.create(folder, "id", fpp=request.param)
    return folder, request.param


@pytest.mark.parametrize("num_keys", [3, 200, 1000])
def test_candidates_are_all_that_is_there_and_few_more(lake: tuple[Path, float], num_keys: int) -> None:
    folder, fpp = lake
    present = {key(number, row): number for number in (3, 11) for row in range(ROWS)}
    keys = [*list(present)[:: max(1, 200 // num_keys)], *(f"no {n}" for n in range(num_keys - 2))]
    log = RequestLog()
    found = parquet_bloom.lookup(folder, "id", keys, cache=Cache(0), log=log).to_arrow().to_pylist()
    candidates = {(row["key"], Path(row["path"]).name) for row in found if row["path"]}
    assert candidates >= {(one, f"{present[one]:02}.parquet") for one in keys if one in present}
    opened = {Path(name).name for name, _ in log.requests} & {f"{n:02}.parquet" for n in range(FILES)}
    if fpp < 0.01:
        assert opened == {"03.parquet", "11.parquet"}
        assert len(candidates) < len(set(keys) & present.keys()) + 5
    elif num_keys > 64:  # by chance, each file has some, so that the index is not read
        assert len(opened) == FILES
    assert list(parquet_bloom.absent(folder, "id", keys)) == [one for one in keys if one not in present]


@pytest.mark.parametrize("most_bytes", [1, 2000])
def test_blocks_are_read_in_parts_if_they_are_many(
    lake: tuple[Path, float], most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = lake
    keys = [key(7, 3), None, *(f"no {n}" for n in range(100))]
    whole = parquet_bloom.lookup(folder, "id", keys, cache=Cache(0)).to_arrow().to_pylist()
    monkeypatch.setattr(stored, "MOST_BYTES", most_bytes)
    found = parquet_bloom.lookup(folder, "id", keys, cache=Cache(0)).to_arrow().to_pylist()
    assert {row["path"] for row in found if row["key"] == key(7, 3)} >= {str(folder / "07.parquet")}
    assert found == whole or most_bytes == 1  # which is less than a row of blocks
    assert parquet_bloom.lookup(folder, "id", [None], cache=Cache(0)).to_arrow()["path"].to_pylist() == [None]
