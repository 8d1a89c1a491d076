"""Hudi's and Paimon's tables on S3 say what their local copies say, and its files are given Hudi's filter there."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import FIXTURES
from stores import KEYS, Calls

import parquet_bloom
from parquet_bloom import Cache, CorruptFileError, inspect, lookup, prune
from parquet_bloom.filters import hudi
from parquet_bloom.filters.hudi import build, filter_of
from parquet_bloom.format.footer import read_footer
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import find
from parquet_bloom.storage.s3 import MIN_PART
from parquet_bloom.tables import snapshot_of

pytestmark = pytest.mark.servers

SETTINGS: dict[str, Any] = {"ndv": 100, "fpp": 1e-4, "max_entries": 150}
OF_HUDI: dict[str, Any] = {"num_entries": 100, "fpp": 1e-4, "max_entries": 150}


@pytest.fixture
def options(endpoint: str) -> dict[str, Any]:
    return {**KEYS, "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}


def copied(name: str, folder: Path, bucket: str, fs: Any) -> tuple[Path, str]:
    """Returns a table that is unpacked here, and its copy on S3."""
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as packed:
        packed.extractall(folder)
    table = folder if name.startswith("hudi/") else folder / "table"
    for path in table.rglob("*"):
        if path.is_file():
            fs.pipe_file(f"{bucket}/lake/{path.relative_to(table).as_posix()}", path.read_bytes())
    return table, f"s3://{bucket}/lake"


@pytest.mark.parametrize("name", ["hudi/v6_cow", "hudi/v8_mor", "paimon/append", "paimon/evolved"])
def test_a_table_says_what_its_local_copy_says(
    name: str, tmp_path: Path, bucket: str, fs: Any, options: dict[str, Any]
) -> None:
    here, there = copied(name, tmp_path, bucket, fs)
    column = hudi.RECORD_KEY if name.startswith("hudi/") else "id"
    local, remote = snapshot_of(here), snapshot_of(there, storage_options=options)
    files = [replace(file, path=f"{here}/{file.recorded}") for file in remote.files]
    assert [(file.path, file.size, file.not_excluded, file.has_deletes) for file in files] == [
        (file.path, file.size, file.not_excluded, file.has_deletes) for file in local.files
    ]
    parquet = [file.path for file in local.files if file.path.endswith(".parquet")]
    keys = sorted({key for path in parquet for key in pq.ParquetFile(path).read([column])[column].to_pylist()})
    asked = pa.array([*keys[::5], "nowhere" if name.startswith("hudi/") else 500_000])

    def answers(root: Any, as_of: Any, **more: Any) -> Any:
        found = lookup(root, column, asked, as_of=as_of, cache=Cache(0), **more).to_arrow().to_pylist()
        pruned = prune(root, f"{column} = {keys[0]!r}", as_of=as_of, cache=Cache(0), **more)
        return (
            {(row["key"], row["path"] and row["path"].removeprefix(f"{root}/"), row["reason"]) for row in found},
            [(file.path.removeprefix(f"{root}/"), file.is_kept, file.not_pruned) for file in pruned.all_files],
        )

    assert answers(there, None, storage_options=options) == answers(here, None)
    first = min(_versions(here))
    earlier = answers(there, first, storage_options=options)
    assert earlier == answers(here, first)
    assert earlier != answers(here, None)


def _versions(table: Path) -> list[str]:
    """Returns the versions that a table's own metadata names: instants or snapshot ids."""
    if (table / ".hoodie").exists():
        paths = (table / ".hoodie").rglob("*commit")
        return [path.name.partition(".")[0].partition("_")[0] for path in paths]
    return [path.name.partition("-")[2] for path in (table / "snapshot").glob("snapshot-*")]


def test_what_is_in_a_tables_files_is_listed(tmp_path: Path, bucket: str, fs: Any, options: dict[str, Any]) -> None:
    here, there = copied("hudi/v8_cow", tmp_path, bucket, fs)
    rows = [
        [(row.path.rpartition("/")[2], row.column, row.format, row.fpp) for row in inspect(root, **more).rows]
        for root, more in ((there, {"storage_options": options}), (here, {}))
    ]
    assert rows[0] == rows[1]
    assert {row[2] for row in rows[0]} == {"Hudi DYNAMIC_V0"}


def test_a_base_file_that_is_gone_is_an_error(tmp_path: Path, bucket: str, fs: Any, options: dict[str, Any]) -> None:
    _, there = copied("hudi/v6_cow", tmp_path, bucket, fs)
    fs.rm_file(snapshot_of(there, storage_options=options).files[0].path)
    with pytest.raises(CorruptFileError, match="does not exist"):
        prune(there, "v = 1", storage_options=options)


@pytest.mark.parametrize("size", [1000, MIN_PART])
def test_hudis_filter_is_appended_within_the_store(size: int, bucket: str, fs: Any, calls: Calls, other: Any) -> None:
    keys = [f"key-{number % 97}" for number in range(300)]
    blobs = [bytes([number % 251]) * (size // 300) for number in range(300)]
    sink = pa.BufferOutputStream()
    table = pa.table({hudi.RECORD_KEY: keys, "x": range(300), "blob": blobs})
    pq.write_table(table, sink, row_group_size=70, compression="none", use_dictionary=False)
    old, url = sink.getvalue().to_pybytes(), f"s3://{bucket}/x.parquet"
    other.put_object(Bucket=bucket, Key="x.parquet", Body=old, Metadata={"owner": "someone"})

    def stored() -> tuple[bytes, dict[str, str]]:
        found = other.get_object(Bucket=bucket, Key="x.parquet")
        return found["Body"].read(), found["Metadata"]

    (planned,) = parquet_bloom.hudi.add_filter(url, dry_run=True, filesystem=fs, **SETTINGS).rows
    assert stored()[0] == old
    (row,) = parquet_bloom.hudi.add_filter(url, filesystem=fs, **SETTINGS).rows
    assert (row.status, row.error, row.bytes_added) == ("written", None, planned.bytes_added)
    one, metadata = stored()
    assert (one[: len(old)], len(one) - len(old)) == (old, row.bytes_added)
    assert metadata == {"owner": "someone"}
    assert ("UploadPartCopy" in calls.names) == (len(old) >= MIN_PART)
    (row,) = parquet_bloom.hudi.add_filter(url, filesystem=fs, **SETTINGS).rows
    assert (row.status, stored()[0]) == ("unchanged", one)
    (row,) = parquet_bloom.hudi.add_filter(url, type="SIMPLE", replace=True, filesystem=fs, **SETTINGS).rows
    two, _ = stored()
    assert two[: len(one)] == one
    (source,) = find(url, filesystem=fs)
    footer = run(source, read_footer(source.size))
    expected = build(keys, type="SIMPLE", **OF_HUDI)
    assert {name: value for name, value in footer.key_values.items() if name != "ARROW:schema"} == expected
    assert row.bytes_added == len(two) - len(one)
    found = filter_of(footer)
    assert found is not None
    assert found.might_contain([*keys, "key-98"]) == b"\1" * 300 + b"\0"
    assert pq.read_table(pa.BufferReader(two)).equals(pq.read_table(pa.BufferReader(old)))
    (row,) = parquet_bloom.hudi.add_filter(url, output=f"s3://{bucket}/out/y.parquet", filesystem=fs, **SETTINGS).rows
    assert row.status == "unchanged"  # and copied as it is
    assert stored()[0] == two
    assert other.get_object(Bucket=bucket, Key="out/y.parquet")["Body"].read() == two


def test_inside_a_table_it_is_refused(tmp_path: Path, bucket: str, fs: Any) -> None:
    here, there = copied("hudi/v6_cow", tmp_path, bucket, fs)
    path = next(here.rglob("p0/*.parquet"))
    url = f"{there}/p0/{path.name}"
    (row,) = parquet_bloom.hudi.add_filter(url, replace=True, filesystem=fs, **SETTINGS).rows
    assert (row.status, "is a Hudi table, which records" in (row.error or "")) == ("refused", True)
    assert fs.cat_file(url) == path.read_bytes()
