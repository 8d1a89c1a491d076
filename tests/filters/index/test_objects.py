"""The index on object stores: what it costs and saves in requests and bytes, and calls that fail."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stores import KEYS, Calls, connected

from parquet_bloom import Cache, index, prune
from parquet_bloom.errors import ParquetBloomError, UnsupportedError
from parquet_bloom.filters import index_versions
from parquet_bloom.filters.index import newest
from parquet_bloom.filters.index_folder import folder_of
from parquet_bloom.storage import listing, s3
from parquet_bloom.storage.drive import RequestLog

pytestmark = pytest.mark.servers

_numbers = itertools.count()
FILES = 60


def content(*ids: int) -> bytes:
    out = io.BytesIO()
    table = pa.table({"id": pa.array(ids, pa.int64()), "other": pa.array(ids, pa.int64())})
    filters = {"id": {"ndv": 1000, "fpp": 0.01}}
    pq.write_table(table, out, write_statistics=False, bloom_filter_options=filters)
    return out.getvalue()


class Lake:
    """A folder on S3; `calls` are those of the file system that the package uses for it."""

    def __init__(self, url: str, bucket: str) -> None:
        self.root = f"s3://{bucket}/lake"
        self.options = {**KEYS, "endpoint_url": url, "client_kwargs": {"region_name": "us-east-1"}}
        self.options["default_block_size"] = 2**20 + next(_numbers)  # so that the file system is this lake's alone
        self.other = connected(url)
        self.other.call_s3("create_bucket", Bucket=bucket)
        self.calls = Calls(folder_of(self.root, storage_options=self.options).fs)

    def put(self, name: str, *ids: int) -> None:
        self.other.pipe_file(f"{self.root}/{name}", content(*ids))

    def names(self) -> list[str]:
        self.other.invalidate_cache()
        paths = self.other.find(f"{self.root}.bloom-index")
        return sorted(path.rpartition("/_bloom-")[2] for path in paths)

    def kept(self, where: str, **options: Any) -> list[str]:
        result = prune(self.root, where, storage_options=self.options, **options)
        return [file.path.rpartition("/")[2] for file in result.kept_files]


@pytest.fixture
def lake(endpoint: str) -> Lake:
    return Lake(endpoint, f"index-{next(_numbers)}")


def test_the_verbs(lake: Lake) -> None:
    for number in range(3):
        lake.put(f"{number}.parquet", number, number + 10)
    options = {"storage_options": lake.options}
    assert [row.files for row in index.create(lake.root, ["id", "other"], **options).rows] == [3, 3]
    assert lake.kept("id = 11 OR other = 2") == ["1.parquet", "2.parquet"]
    lake.put("3.parquet", 3)
    lake.put("1.parquet", 7)
    assert lake.kept("other = 3") == ["1.parquet", "3.parquet"]  # the new file is not in the index
    state = index.refresh(lake.root, **options)
    assert (state.number, state.built, state.rows[1].files) == (2, 4, 4)
    assert (lake.kept("other = 7"), lake.kept("other = 11")) == (["1.parquet"], [])
    assert [row.column for row in index.drop(lake.root, "id", **options).rows] == ["other"]
    assert index.show(lake.root, **options).number == 3
    assert not index.drop(lake.root, **options).exists
    assert lake.names() == []


def counted(lake: Lake, where: str, cache: Cache) -> tuple[list[str], RequestLog, list[str]]:
    log, before = RequestLog(), len(lake.calls.names)
    kept = lake.kept(where, cache=cache, log=log)
    return kept, log, lake.calls.names[before:]


def test_what_it_saves(lake: Lake) -> None:
    for number in range(FILES):
        lake.put(f"{number:03}.parquet", *range(1000 * number, 1000 * number + 1000))
    kept, without, calls_without = counted(lake, "id = 41500", Cache())
    assert kept == ["041.parquet"]
    index.create(lake.root, "id", fpp=0.001, storage_options=lake.options)
    cache = Cache()
    kept, first, calls = counted(lake, "id = 41500", cache)
    assert kept == ["041.parquet"]
    assert {name.rpartition("/")[2] for name, _ in first.requests if ".bloom-index" not in name} == {"041.parquet"}
    files = {name.rpartition("/_bloom-")[2].partition("-")[0] for name, _ in first.requests if ".bloom-index" in name}
    assert files == {"00000001.json", "states", "blocks"}
    assert 4 * len(first.requests) < len(without.requests)
    assert 4 * first.num_bytes < without.num_bytes
    assert 4 * len(calls) < len(calls_without)
    kept, second, calls = counted(lake, "id = -1", cache)
    assert kept == []
    assert [name.rpartition("/_bloom-")[2].partition("-")[0] for name, _ in second.requests] == [
        "00000001.json",
        "blocks",
        "blocks",
    ]
    assert calls.count("GetObject") == 3  # there are filters of two sizes
    assert len(calls) <= 8  # with those that list the folder, and the index's


def test_one_row_of_blocks_is_read_for_a_key(lake: Lake) -> None:
    lake.put("a.parquet", *range(5000))
    lake.put("b.parquet", *range(5000, 10_000))
    index.create(lake.root, "other", fpp=0.001, storage_options=lake.options)
    _, log, _ = counted(lake, "other = -1", Cache())
    sizes = [len(r) for name, r in log.requests if "/_bloom-blocks-" in name]
    assert sizes == [2 * 32 + 4]


def test_in_a_store_one_inside_is_moved_too(lake: Lake) -> None:
    lake.put("a.parquet", 1, 2)
    options = {"storage_options": lake.options}
    index.create(lake.root, "id", **options)
    for name in lake.names():
        lake.other.mv(f"{lake.root}.bloom-index/_bloom-{name}", f"{lake.root}/_bloom_index/{name}")
    assert lake.kept("id = -1", cache=Cache(0)) == []  # by the file's own filter
    assert not index.show(lake.root, **options).exists
    assert [(row.column, row.files) for row in index.refresh(lake.root, **options)] == [("id", 1)]
    assert [name.partition("-")[0] for name in lake.names()] == ["00000001.json", "blocks", "entries", "states"]
    assert not lake.other.find(f"{lake.root}/_bloom_index")


def test_a_bucket_has_nothing_beside_it(lake: Lake) -> None:
    lake.put("a.parquet", 1)
    bucket = lake.root.rpartition("/")[0]
    options = {"storage_options": lake.options}
    with pytest.raises(UnsupportedError, match="it is the top of a disk or a store; say with at="):
        index.create(bucket, "id", **options)
    with pytest.raises(UnsupportedError, match="which is in the directory that it is of"):
        index.create(bucket, "id", at=f"{bucket}/index", **options)
    lake.put("k=1/b.parquet", 1)
    with pytest.raises(UnsupportedError, match="name=value in its path are partitions"):
        index.create(f"{lake.root}/k=1", "id", **options)
    elsewhere = f"{bucket}/indexes/lake"
    assert index.create(lake.root, "id", at=elsewhere, **options).exists
    assert lake.kept("id = -1", index=elsewhere, cache=Cache(0)) == []


# ---- calls that fail ---------------------------------------------------------------------

ACTIONS = {
    "create": lambda lake: index.create(lake.root, "id", storage_options=lake.options, jobs=1),
    "refresh": lambda lake: index.refresh(lake.root, storage_options=lake.options, jobs=1),
    "drop": lambda lake: index.drop(lake.root, storage_options=lake.options),
}


class Down(OSError):
    """What a store is that does not answer."""


@pytest.mark.parametrize("name", ACTIONS)
def test_a_call_that_fails_leaves_the_old_or_the_new_index(
    lake: Lake, monkeypatch: Any, sleeps: Any, name: str
) -> None:
    sleeps(listing, lambda seconds: None)
    options = {"storage_options": lake.options}
    lake.put("a.parquet", 1)
    if name != "create":
        index.create(lake.root, "id", **options)
    lake.put("b.parquet", 2)
    before = {key: lake.other.cat_file(f"{lake.root}.bloom-index/_bloom-{key}") for key in lake.names()}
    old = [row.files for row in index.show(lake.root, **options).rows]

    def reset() -> None:
        for key in {*lake.names()} - {*before}:
            lake.other.rm_file(f"{lake.root}.bloom-index/_bloom-{key}")
        for key in {*before} - {*lake.names()}:
            lake.other.pipe_file(f"{lake.root}.bloom-index/_bloom-{key}", before[key])

    start = len(lake.calls.names)
    ACTIONS[name](lake)
    called = lake.calls.names[start:]
    new = [row.files for row in index.show(lake.root, **options).rows]
    assert old != new
    outcomes = set()
    writes = [at for at, call in enumerate(called) if call in ("PutObject", "DeleteObject")]
    for victim in (0, *writes, len(called)):
        reset()
        start = len(lake.calls.names)

        def fail(number: int, _: str, first: int = start + victim) -> None:
            if number > first:
                raise Down("down")

        lake.calls.meddle = fail
        try:
            ACTIONS[name](lake)
        except (OSError, ParquetBloomError):
            pass
        finally:
            lake.calls.meddle = lambda number, name: None
        found = [row.files for row in index.show(lake.root, **options).rows]
        assert found in (old, new)
        outcomes.add(found == new)
        assert lake.kept("id = 2", cache=Cache(0))[-1:] == ["b.parquet"]
        with monkeypatch.context() as patch:
            patch.setattr(index_versions, "GRACE_SECONDS", -1000.0)
            if found:
                assert [row.files for row in index.refresh(lake.root, **options).rows] == [2]
                version = newest(folder_of(lake.root, **options)).version  # type: ignore[union-attr]
                assert {*lake.names()} == version.files | {version.name}
    assert outcomes == {False, True}


def test_an_answer_that_is_lost_is_no_other_writer(lake: Lake) -> None:
    folder = folder_of(lake.root, storage_options=lake.options)
    folder.create("x", b"one")
    s3.create(folder.fs, f"{folder.path}/_bloom-x", b"one")
    with pytest.raises(FileExistsError):
        folder.create("x", b"two")
    assert lake.other.cat_file(f"{lake.root}.bloom-index/_bloom-x") == b"one"


# ---- other stores ------------------------------------------------------------------------


def test_a_store_without_conditions(tmp_path: Path) -> None:
    import fsspec

    root = "memory://lake-of-an-index"
    fs = fsspec.filesystem("memory")
    try:
        for number in range(3):
            fs.pipe_file(f"{root}/{number}.parquet", content(number))
        state = index.create(root, "id")
        assert state.exists
        for number in range(3):
            assert f"{number}.parquet" in [f.path.rpartition("/")[2] for f in prune(root, f"id = {number}").kept_files]
        fs.pipe_file(f"{root}/1.parquet", content(8))
        assert "1.parquet" in [f.path.rpartition("/")[2] for f in prune(root, "id = 8").kept_files]
        assert not index.drop(root).exists
        assert not fs.find(f"{root}.bloom-index")
    finally:
        fs.rm(root, recursive=True)
