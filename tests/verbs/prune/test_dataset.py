"""`to_dataset()`: every library that scans Arrow datasets reads exactly the row groups that were kept."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from files import FIXTURES

import parquet_bloom
from parquet_bloom.errors import UnsupportedError
from parquet_bloom.predicates.tree import col
from parquet_bloom.verbs.prune import prune
from parquet_bloom.verbs.verdicts import Pruning


def write(path: Path, ids: range, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": pa.array(ids), "name": [f"n{i}" for i in ids], **columns})
    pq.write_table(table, path, row_group_size=5)
    return path


def scanned(pruning: Pruning) -> dict[str, list[int]]:
    """Returns the ids that each library reads."""
    import duckdb
    import polars as pl

    rows = pruning.to_dataset()
    return {
        "pyarrow": rows.to_table()["id"].to_pylist(),
        "pyarrow batches": [i for batch in rows.to_batches() for i in batch["id"].to_pylist()],
        "pandas": rows.to_table().to_pandas()["id"].tolist(),
        "polars": pl.scan_pyarrow_dataset(rows).collect()["id"].to_list(),
        "duckdb": [i for (i,) in duckdb.sql("SELECT id FROM rows ORDER BY id").fetchall()],
    }


@pytest.mark.engines
def test_the_rows_of_the_kept_row_groups(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", range(20))
    write(tmp_path / "b.parquet", range(20, 40))
    parquet_bloom.add(tmp_path, ["name"], fpp=0.0001)
    assert set(map(tuple, scanned(prune(tmp_path, "id BETWEEN 8 AND 12")).values())) == {tuple(range(5, 15))}
    assert set(map(tuple, scanned(prune(tmp_path, "name = 'n27'")).values())) == {tuple(range(25, 30))}
    both = prune(tmp_path, (col("id") < 3) | (col("id") == 33))
    assert set(map(tuple, scanned(both).values())) == {(*range(5), *range(30, 35))}


@pytest.mark.engines
def test_the_condition_is_the_scanners(tmp_path: Path) -> None:
    import duckdb
    import polars as pl

    write(tmp_path / "a.parquet", range(20))
    rows = prune(tmp_path, "id = 8").to_dataset()
    assert rows.to_table(filter=ds.field("id") == 8)["id"].to_pylist() == [8]
    assert rows.to_table(columns=["name"], filter=ds.field("id") > 8)["name"].to_pylist() == ["n9"]
    assert duckdb.sql("SELECT name FROM rows WHERE id = 8").fetchall() == [("n8",)]
    assert pl.scan_pyarrow_dataset(rows).filter(pl.col("id") == 8).collect().height == 1
    assert rows.count_rows(filter=ds.field("id") >= 0) == 5


@pytest.mark.engines
def test_nothing_kept_is_empty_with_the_schema(tmp_path: Path) -> None:
    import duckdb
    import polars as pl

    write(tmp_path / "day=2024-01-01" / "a.parquet", range(20))
    pruning = prune(tmp_path, "id = 100")
    assert not pruning.might_match
    rows = pruning.to_dataset()
    assert rows.schema.names == ["id", "name", "day"]
    assert rows.to_table().num_rows == 0
    assert rows.to_table().schema == rows.schema
    assert duckdb.sql("SELECT count(*), count(day) FROM rows").fetchall() == [(0, 0)]
    assert pl.scan_pyarrow_dataset(rows).collect().schema == {"id": pl.Int64, "name": pl.String, "day": pl.Date}


@pytest.mark.engines
def test_partition_columns(tmp_path: Path) -> None:
    import duckdb
    import polars as pl

    for day, part, city, number in (
        ("2024-01-01", "1", "a%2Fb", 0),
        ("2024-01-02", "02", "é", 10),
        ("__HIVE_DEFAULT_PARTITION__", "-3", "7", 20),
    ):
        write(tmp_path / f"day={day}" / f"part={part}" / f"city={city}" / "f.parquet", range(number, number + 5))
    rows = prune(tmp_path, "id <> 12").to_dataset()
    assert [(f.name, f.type) for f in rows.schema][2:] == [
        ("day", pa.date32()),
        ("part", pa.int64()),
        ("city", pa.string()),
    ]
    found = rows.to_table(columns=["day", "part", "city", "id"]).to_pylist()
    assert {(row["day"], row["part"], row["city"], row["id"] // 10) for row in found} == {
        (date(2024, 1, 1), 1, "a/b", 0),
        (date(2024, 1, 2), 2, "é", 1),
        (None, -3, "7", 2),
    }
    assert rows.to_table(filter=ds.field("part") == 2)["id"].to_pylist() == list(range(10, 15))
    assert rows.to_table(filter=ds.field("day").is_null())["id"].to_pylist() == list(range(20, 25))
    assert duckdb.sql("SELECT sum(part), count(day), max(city) FROM rows").fetchall() == [(0, 10, "é")]
    assert pl.scan_pyarrow_dataset(rows).select("part").collect()["part"].sum() == 0
    one = prune(tmp_path, "day = '2024-01-02'").to_dataset()
    assert set(one.to_table()["part"].to_pylist()) == {2}


def test_a_partition_that_the_file_holds_too(tmp_path: Path) -> None:
    write(tmp_path / "name=x" / "a.parquet", range(5))
    rows = prune(tmp_path, "id = 1").to_dataset()
    assert rows.to_table()["name"].to_pylist() == ["n0", "n1", "n2", "n3", "n4"]


def test_evolved_schemas(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([2], pa.int64()), "extra": ["x"]}), tmp_path / "b.parquet")
    rows = prune(tmp_path, "id < 5").to_dataset()
    assert rows.schema == pa.schema([("id", pa.int64()), ("extra", pa.string())])
    assert rows.to_table().to_pylist() == [{"id": 1, "extra": None}, {"id": 2, "extra": "x"}]
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "c.parquet")
    with pytest.raises(UnsupportedError, match="differ too much"):
        prune(tmp_path, "id < 5").to_dataset()


def test_files_that_pyarrow_cannot_read(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", range(5))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no footer PAR1")
    pruning = prune(tmp_path, "id = 3")
    assert [file.not_pruned is None for file in pruning.all_files] == [True, False]
    with pytest.raises(UnsupportedError, match=r"b\.parquet cannot be part of a dataset"):
        pruning.to_dataset()


def test_a_file_that_vanishes_in_between(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", range(5))
    pruning = prune(tmp_path, "id = 3")
    path.unlink()
    with pytest.raises(UnsupportedError, match=r"a\.parquet"):
        pruning.to_dataset()


def test_a_file_that_was_not_pruned_and_that_pyarrow_reads(tmp_path: Path) -> None:
    """What is not understood here may be read there: a column chunk of another type than the schema's."""
    path = write(tmp_path / "a.parquet", range(20))
    pruning = prune(path, "id = 8")
    whole = Pruning(pruning.where, (type(pruning.kept_files[0])(str(path), 0, (), "not judged"),), pruning._sources)
    assert whole.to_dataset().to_table()["id"].to_pylist() == list(range(20))


def test_another_filesystem(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/lake/day=1/a.parquet", write(tmp_path / "a.parquet", range(20)).read_bytes())
    try:
        rows = prune("memory://lake", "id = 8").to_dataset()
        assert rows.to_table().column("id").to_pylist() == list(range(5, 10))
        assert rows.to_table().column("day").to_pylist() == [1] * 5
    finally:
        memory.rm("/lake", recursive=True)


def test_every_type_of_the_fixtures() -> None:
    for name in ("pyarrow/plain_types.parquet", "spark/plain_types.parquet", "datafusion/plain_types.parquet"):
        path = FIXTURES / name
        assert prune(path, "true").to_dataset().to_table().num_rows == pq.read_metadata(path).num_rows
