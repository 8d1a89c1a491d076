"""Keys over files that hold the column as different types: an engine reads all of them as one, and numbers may meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import parquet_bloom
from parquet_bloom import lookup, prune
from parquet_bloom.errors import LiteralError
from parquet_bloom.predicates.tree import col
from parquet_bloom.storage.cache import Cache

HUGE = 2**24
ARRAYS = {
    "int8": pa.int8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint32": pa.uint32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal": pa.decimal128(22, 2),
}
FITS = {**dict.fromkeys(ARRAYS, lambda _: True), "int8": lambda number: number < 128}
NUMBERS = st.sampled_from([0, 1, 100, HUGE, HUGE + 1, HUGE + 2, 2**31 - 1])


def lake(folder: Path, *arrays: pa.Array) -> list[str]:
    """Writes a file with a column `c` of each array, with filters."""
    paths = []
    for number, array in enumerate(arrays):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({"c": array}), path)
        parquet_bloom.add(path, ["c"])
        paths.append(str(path))
    return paths


def of_duckdb(paths: list[str], key: float) -> set[str]:
    """Returns the files that have rows which DuckDB returns for a key."""
    import duckdb

    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT DISTINCT filename FROM read_parquet({paths}, union_by_name=true, filename=true) WHERE c = $1",
            [key],
        ).fetchall()
    return {name for (name,) in rows}


def candidates(paths: list[str], keys: Any) -> dict[Any, set[str | None]]:
    found: dict[Any, set[str | None]] = {}
    for row in lookup(paths, "c", keys, cache=Cache(0)).to_arrow().to_pylist():
        found.setdefault(row["key"], set()).add(row["path"])
    return found


@pytest.mark.engines
def test_a_key_that_meets_a_number_in_the_type_that_the_files_are_read_as(tmp_path: Path) -> None:
    paths = lake(tmp_path, pa.array([HUGE + 1], pa.int32()), pa.array([0.5], pa.float32()))
    for keys in ([float(HUGE)], [HUGE], pa.array([float(HUGE)]), np.array([HUGE], np.float32)):
        (key,) = candidates(paths, keys)
        assert of_duckdb(paths, float(HUGE)) == {paths[0]}
        assert candidates(paths, keys)[key] >= {paths[0]}
        assert {file.path for file in prune(paths, col("c") == keys[0]).kept_files} >= {paths[0]}
    assert "files store c with conflicting types" in lookup(paths, "c", [1.0]).to_arrow()["reason"].to_pylist()


@pytest.mark.engines
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_row_that_an_engine_returns_is_lost(tmp_path: Path, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(ARRAYS)), min_size=1, max_size=3))
    some = [data.draw(st.lists(NUMBERS.filter(FITS[kind]), min_size=1, max_size=2)) for kind in kinds]
    arrays = [pa.array(numbers).cast(ARRAYS[kind], safe=False) for kind, numbers in zip(kinds, some, strict=True)]
    paths = lake(tmp_path, *arrays)
    key = data.draw(st.sampled_from([float, int]))(data.draw(NUMBERS))
    held = candidates(paths, [key])[key]
    assert of_duckdb(paths, key) <= held
    pruned = {file.path for file in prune(paths, col("c") == key, cache=Cache(0)).kept_files}
    assert of_duckdb(paths, key) <= pruned
    if len(set(kinds)) > 1 and held != {None}:
        assert held - {None} >= pruned  # what is not to be excluded is the same in both


def test_files_of_one_kind_are_still_excluded(tmp_path: Path) -> None:
    paths = lake(tmp_path, pa.array([1, 9], pa.int32()), pa.array([2, 9]), pa.array([3, 9], pa.int32()))
    assert candidates(paths, [2]) == {2: {paths[1]}}
    assert candidates(paths, [2.0, 5.0]) == {2.0: {paths[1]}, 5.0: {None}}


@pytest.mark.usefixtures("mtime_stable")
def test_the_type_that_an_index_knows_counts_too(tmp_path: Path) -> None:
    paths = lake(tmp_path, pa.array([HUGE + 1], pa.int32()), pa.array([0.5], pa.float32()))
    parquet_bloom.index.create(tmp_path, ["c"])
    assert set(paths) <= {*lookup(tmp_path, "c", [float(HUGE)]).to_arrow()["path"].to_pylist()}


def test_a_file_that_cannot_be_compared_with_the_keys_has_another_type_all_the_same(tmp_path: Path) -> None:
    paths = lake(tmp_path, pa.array([1]), pa.array(["a"]), pa.array([5]))
    assert candidates(paths, [5])[5] >= {*paths}
    with pytest.raises(LiteralError):
        lookup(paths[1], "c", [5])
