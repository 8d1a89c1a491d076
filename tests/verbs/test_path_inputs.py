"""Paths, and `probe`'s values, in whatever form people have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lazily import by_engine, duckdb, pd, pl

import parquet_bloom

FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "array": pa.array,
    "chunked": lambda given: pa.chunked_array([given[:1], given[1:]]),
    "dictionary": lambda given: pa.array(given).dictionary_encode(),
    "table": lambda given: pa.table({"any": given}),
    "batch": lambda given: pa.record_batch({"any": given}),
    "reader": lambda given: pa.table({"any": given}).to_reader(),
    "DuckDB": lambda given: duckdb.from_arrow(pa.table({"any": given})),
    "Polars series": lambda given: pl.Series(given),
    "Polars frame": lambda given: pl.DataFrame({"any": given}),
    "Series": lambda given: pd.Series(given),
    "DataFrame": lambda given: pd.DataFrame({"any": given}),
    "NumPy": np.array,
}


@pytest.fixture(params=by_engine(FORMS))
def form(request: pytest.FixtureRequest) -> Callable[[list[Any]], Any]:
    return FORMS[request.param]


@pytest.fixture
def files(tmp_path: Path, mtime_stable: None) -> list[str]:
    paths = [str(tmp_path / f"{n}.parquet") for n in range(3)]
    for n, path in enumerate(paths):
        pq.write_table(pa.table({"id": [n + 3 * i for i in range(10)]}), path)
    return paths


def test_every_verb_takes_paths(files: list[str], tmp_path: Path, form: Callable[[list[Any]], Any]) -> None:
    assert [row.path for row in parquet_bloom.add(form(files), "id", fpp=1e-9)] == files
    assert [file.path for file in parquet_bloom.inspect(form(files)).files] == files
    assert [file.path for file in parquet_bloom.verify(form(files)).files] == files
    assert [row.path for row in parquet_bloom.probe(form(files), "id", 4)] == files
    assert parquet_bloom.prune(form(files), "id = 4").paths == (files[1],)
    assert parquet_bloom.lookup(form(files), "id", [4]).to_arrow()["path"].to_pylist() == [files[1]]
    assert [row.path for row in parquet_bloom.drop(form(files), dry_run=True)] == files
    assert [row.status for row in parquet_bloom.hudi.add_filter(form(files), "id")] == ["refused"] * 3


def test_a_single_path_is_written_to_the_output_itself(
    files: list[str], tmp_path: Path, form: Callable[[list[Any]], Any]
) -> None:
    (row,) = parquet_bloom.add(form(files[:1]), "id", output=tmp_path / "new.parquet")
    assert row.output == str(tmp_path / "new.parquet")


def test_an_index_beside_the_files_is_found(files: list[str], tmp_path: Path, form: Callable[[list[Any]], Any]) -> None:
    parquet_bloom.index.create(tmp_path, "id", fpp=1e-9)
    log = parquet_bloom.RequestLog()
    pruned = parquet_bloom.prune(form([str(tmp_path)]), "id = 4", log=log, cache=parquet_bloom.Cache(0))
    assert pruned.paths == (files[1],)
    assert {name for name, _ in log.requests} & set(files) == {files[1]}


def test_a_table_of_paths_has_one_column(files: list[str]) -> None:
    with pytest.raises(TypeError, match="paths are one column, and this table has 2: path, size"):
        parquet_bloom.inspect(pa.table({"path": files, "size": [1, 2, 3]}))
    with pytest.raises(TypeError, match="paths are one column"):
        parquet_bloom.inspect(parquet_bloom.prune(files, "id = 4"))  # which also lists files that need not be read
    with pytest.raises(TypeError):
        parquet_bloom.inspect(pa.array([files[0], None]))


def test_probe_takes_many_values(files: list[str], form: Callable[[list[Any]], Any]) -> None:
    parquet_bloom.add(files, "id", fpp=1e-9)
    answers = parquet_bloom.probe(files[1], "id", form([4, 5, 1000]))
    assert [(row.value, row.answer) for row in answers] == [
        ("4", "MIGHT_MATCH"),
        ("5", "CANNOT_MATCH"),
        ("1000", "CANNOT_MATCH"),
    ]
    assert parquet_bloom.probe(files[1], "id", form(["4", "5"]), as_text=True).rows == answers.rows[:2]


def test_probe_takes_a_single_value_of_numpy_and_arrow(files: list[str]) -> None:
    parquet_bloom.add(files, "id", fpp=1e-9)
    for value in (np.int64(4), np.array(4), pa.scalar(4)):
        assert [row.answer for row in parquet_bloom.probe(files, "id", value)].count("MIGHT_MATCH") == 1
