"""Folders of many layouts: which files Spark reads of them, and what it makes of their folders' names."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines import needs_java
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from spark.test_reading import num_files, our_records, same, settings, write

from parquet_bloom.spark import read, reading, semi_join

pytestmark = [needs_java, pytest.mark.spark]

FOLDERS = ["", "", "p=1", "p=2", "p=x", "p=1/q=a", "p=2/q=b", "q=a/p=1", "r=1", "sub", "sub/p=1", "_h", ".h/p=3"]
NAMES = ["a.parquet", "b.parquet", "c", "_d.parquet", ".e.parquet"]
FORMS: list[tuple[tuple[str, ...], dict[str, str]]] = [
    (("",), {}),
    (("",), {}),
    (("",), {"recursiveFileLookup": "true"}),
    (("",), {"basePath": ""}),
    (("",), {"pathGlobFilter": "[ab]*"}),
    (("*",), {}),
    (("p=*",), {}),
    (("p=*",), {"basePath": ""}),
    (("p=1", "p=2"), {}),
    (("p=1", "p=2"), {"basePath": ""}),
    (("p=1", ""), {}),
    (("", ""), {}),
    (("", "a.parquet"), {}),
    (("b.parquet", "a.parquet", "b.parquet"), {}),
    (("{,a.parquet,p=1}",), {}),
    (("*/*",), {}),
    (("sub",), {}),
    (("sub", "p=1"), {}),
    (("p=1",), {}),
    (("p=1",), {"basePath": ""}),
]


@pytest.fixture
def session() -> Iterator[Any]:
    with settings(spark__sql__parquet__filterPushdown="false") as found:
        yield found


def laid_out(root: Path, rng: random.Random) -> None:
    """Writes up to six files of two rows each, a few of which store a column that a folder may be, too."""
    for number in range(rng.randint(1, 6)):
        folder = root / rng.choice(FOLDERS)
        folder.mkdir(parents=True, exist_ok=True)
        columns = {"k": [2 * number, 2 * number + 1]}
        if rng.random() < 0.2:
            columns["p"] = [7, 8]
        name = rng.choice(NAMES[:2] if rng.random() < 0.8 else NAMES)
        pq.write_table(pa.table(columns), folder / name, bloom_filter_options={"k": True})
    if rng.random() < 0.1:
        (root / "p=1").mkdir(exist_ok=True)
        (root / "p=1" / "empty.parquet").touch()


@pytest.mark.parametrize("hidden", [(), ("_partition_folders",), ("_partition_names", "_partition_folders")], ids=len)
def test_files_beside_partition_folders_are_not_read(
    tmp_path: Path, session: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, hidden: tuple[str, ...]
) -> None:
    """Spark tells which folders it reads, or, with Connect, less or nothing."""
    for number, folder in enumerate(["", "p=1", "p=2"]):
        write(tmp_path / folder / "a.parquet", k=[2 * number, 2 * number + 1])
    for name in hidden:
        monkeypatch.setattr(reading, name, {"_partition_names": lambda _: None}.get(name, lambda _: set()))
    caplog.set_level("WARNING", logger="parquet_bloom")
    for where in ("k = 0", "k = 2", "k in (1, 4)", "p = 1", "p is null", "true"):
        same(session, tmp_path, where)
    assert num_files(same(session, tmp_path, "k = 2")) == (3 if hidden else 1)
    assert any("reading all files" in said for said in our_records(caplog)) == bool(hidden)
    assert [row.k for row in semi_join(session, tmp_path, "k", [2, 0]).collect()] == [2]


@pytest.mark.parametrize("seed", range(int(os.environ.get("SEEDS", "12"))))
def test_any_layout_gives_the_rows_that_spark_reads(tmp_path: Path, session: Any, seed: int) -> None:
    rng = random.Random(seed)
    root = tmp_path / "t"
    root.mkdir()
    laid_out(root, rng)
    for paths, options in rng.sample(FORMS, 3):
        listed = [str(root / path) for path in paths]
        options = {name: str(root) if name == "basePath" else value for name, value in options.items()}
        whole = session.read.options(**options)
        try:
            truth = sorted(map(tuple, whole.parquet(*listed).select(_file(), "*").collect()), key=repr)
        except (PySparkException, Py4JJavaError):
            with pytest.raises((PySparkException, Py4JJavaError, FileNotFoundError)):
                read(session, listed, "true", options=options).collect()
            continue
        ours = read(session, listed, "true", options=options)
        assert sorted(map(tuple, ours.select(_file(), "*").collect()), key=repr) == truth
        same(session, listed, f"k in ({rng.randrange(14)}, 3)", **options)
        if "p" in ours.columns:
            same(session, listed, rng.choice(["p is null", "p = '1'", "p <> '1' and k < 9"]), **options)


def _file() -> Any:
    from pyspark.sql import functions

    return functions.col("_metadata.file_path")


def test_a_file_that_is_named_twice_is_read_twice(tmp_path: Path, session: Any) -> None:
    for number in range(3):
        write(tmp_path / f"{number}.parquet", k=[2 * number, 2 * number + 1])
    one = tmp_path / "1.parquet"
    for paths in ([tmp_path, tmp_path], [one, tmp_path], [one, tmp_path / "0.parquet", one], [f"{tmp_path}/*", one]):
        assert len(same(session, paths, "k in (2, 3)").collect()) == 4
    assert num_files(same(session, [f"{tmp_path}/[01]*", f"{tmp_path}/2*"], "k = 2")) == 1
