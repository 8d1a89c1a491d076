"""`spark.prune`, `spark.lookup` and the index on Spark take Iceberg tables of a catalog, and Delta's directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyiceberg.catalog
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake
from engines import needs_java, spark
from files import table
from pyiceberg.utils.config import Config

import parquet_bloom
from parquet_bloom import UnsupportedError, index
from parquet_bloom import spark as bloom
from parquet_bloom.cli.commands import main
from parquet_bloom.results import from_row
from parquet_bloom.verbs.verdicts import FileVerdict

pytestmark = [needs_java, pytest.mark.spark]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with lakes.catalog(tmp_path / "warehouse") as found:
        yield found


def kept(frame: Any) -> list[str]:
    verdicts = [from_row(FileVerdict, row.asDict(recursive=True)) for row in frame.collect()]
    return sorted(file.path for file in verdicts if file.is_kept)


def kept_here(given: Any, where: Any) -> list[str]:
    return sorted(file.path for file in parquet_bloom.prune(given, where, timezone="UTC").kept_files)


def test_tables_of_a_catalog(catalog: Any) -> None:
    lakes.iceberg(catalog, files=4)
    catalog.drop_table("n.t")
    made = lakes.iceberg(catalog, files=1)
    with made.update_schema() as update:
        update.rename_column("id", "old")
    with made.update_schema() as update:
        update.rename_column("name", "id")
    made.append(table(20, 500).rename_columns(["old", "id"]))
    metadata = lakes.metadata_of(made)
    for where in ("old = 505", "id = 'name 000505'", "id = 'name 000003' OR old = 1000"):
        assert len(kept_here(made, where)) == 1
        for given in (made, metadata, [str(metadata)]):
            assert kept(bloom.prune(spark(), given, where)) == kept_here(made, where), where
    for given in (made, metadata):
        found = bloom.lookup(spark(), given, "old", [5, 505, 45]).collect()
        places = {row.key: row.path for row in found}
        assert places == {
            row["key"]: row["path"] for row in parquet_bloom.lookup(made, "old", [5, 505, 45]).to_arrow().to_pylist()
        }
        assert places[45] is None
    root = made.location().removeprefix("file://")
    for verb in (bloom.prune, lambda *given: bloom.lookup(*given, [5]), bloom.index.create):
        with pytest.raises(UnsupportedError, match="only its catalog knows"):
            verb(spark(), root, "old = 505")
    assert bloom.index.create(spark(), made, "id", fpp=0.001).root == root
    assert (index.show(made).rows[0].files, bloom.index.refresh(spark(), made).built) == (2, 0)


def test_the_command_line_names_a_table_of_a_catalog(
    catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lakes.iceberg(catalog, files=2)
    (tmp_path / ".pyiceberg.yaml").write_text(
        f"catalog:\n  tests:\n    type: sql\n    uri: {catalog.properties['uri']}\n"
    )
    (tmp_path / "keys.txt").write_text("25\n")
    asked = (("prune", "-w", "id = 25", "--files-only"), ("lookup", "-c", "id", "-k", "keys.txt"))
    table = ("n.t", "--catalog", "tests", "--engine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # which is read when it is imported
    spark()
    for line in asked:
        local, on_spark = (CliRunner().invoke(main, [*line, *table, engine]) for engine in ("local", "spark"))
        assert (local.exit_code, on_spark.exit_code) == (0, 0), (local.output, on_spark.output)
        assert local.stdout == on_spark.stdout
        assert made.location().removeprefix("file://") in local.stdout


def test_columns_as_the_table_calls_them(catalog: Any) -> None:
    from pyspark.sql import functions as F

    made = lakes.iceberg(catalog, files=1)
    with made.update_schema() as update:
        update.rename_column("name", "title")
    with made.update_schema() as update:
        update.add_column("name", made.schema().find_type("id"))
    made.append(pa.table({"id": [100, 101], "title": ["x", "y"], "name": pa.array([5, 6], pa.int64())}))
    for where, text in ((F.col("id") == 100, "id = 100"), (F.col("title") == "x", "title = 'x'")):
        assert kept(bloom.prune(spark(), made, where)) == kept_here(made, text)
    assert set(kept_here(made, "name = 5")) <= set(kept(bloom.prune(spark(), made, F.col("name") == 5)))


def test_the_directory_of_a_delta_table(tmp_path: Path) -> None:
    root = tmp_path / "t"
    options = {"configuration": {"delta.columnMapping.mode": "name"}}
    write_deltalake(str(root), pa.table({"id": [1, 2], "p": ["x", "y"]}), partition_by=["p"], **options)
    write_deltalake(str(root), pa.table({"id": [3], "p": ["z"]}), mode="append")
    for where in ("id = 3", "p = 'y'", "id IS NULL", "p <=> 'x' OR id > 2"):
        assert kept(bloom.prune(spark(), root, where)) == kept_here(root, where), where
    write_deltalake(str(root), pa.table({"id": [4], "p": ["w"]}), mode="overwrite")
    assert kept(bloom.prune(spark(), root, "id > 0")) == kept_here(root, "id > 0")
    assert [row.path for row in bloom.lookup(spark(), root, "id", [3]).collect()] == [None]
