"""A lake answers as the functions do, lists its files once, and never rests on a state that a file had before."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lakes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import parquet_bloom
from parquet_bloom import Cache, Lake
from parquet_bloom.errors import ParquetBloomError, UnsupportedError


def write(path: Path, ids: list[int]) -> None:
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)


@pytest.fixture
def folder(tmp_path: Path, mtime_stable: None) -> Path:
    for number in range(3):
        write(tmp_path / f"{number}.parquet", [10 * number, 10 * number + 1])
    return tmp_path


def kept(lake: Lake, where: str) -> list[str]:
    return [Path(path).name for path in lake.prune(where).paths]


def test_a_lake_answers_as_the_functions_do(folder: Path) -> None:
    lake = parquet_bloom.open(folder)
    lake.add("id")
    for where in ("id = 10", "id IN (0, 21)", "id > 20", "id = 5"):
        assert lake.prune(where) == parquet_bloom.prune(folder, where)
        assert lake.prune(where, exact=True) == parquet_bloom.prune(folder, where, exact=True)
        assert lake.find(where).to_arrow() == parquet_bloom.find(folder, where).to_arrow()
    keys = [10, 11, 12]
    assert lake.lookup("id", keys).to_arrow() == parquet_bloom.lookup(folder, "id", keys).to_arrow()
    assert lake.find_keys("id", keys).to_arrow() == parquet_bloom.find(folder, column="id", keys=keys).to_arrow()
    assert lake.absent("id", keys).to_arrow() == parquet_bloom.absent(folder, "id", keys).to_arrow()
    assert lake.probe("id", keys) == parquet_bloom.probe(folder, "id", keys)
    assert lake.inspect("id") == parquet_bloom.inspect(folder, "id")
    assert lake.verify() == parquet_bloom.verify(folder)
    assert lake.advise() == parquet_bloom.advise(folder)


def test_changes_are_seen_by_the_next_question(folder: Path) -> None:
    lake = parquet_bloom.open(folder)
    assert kept(lake, "id = 10") == ["1.parquet"]
    assert len(lake.add("id")) == 3
    assert lake.inspect().rows
    assert len(lake.drop()) == 3
    assert not lake.inspect().rows
    assert lake.erase("id", [10]).rows
    assert kept(lake, "id = 10") == []
    assert lake.index.create("id").exists
    assert not lake.index.drop().exists


def test_files_are_listed_once(folder: Path) -> None:
    lake = parquet_bloom.open(folder)
    assert kept(lake, "id >= 0") == ["0.parquet", "1.parquet", "2.parquet"]
    write(folder / "3.parquet", [30])
    assert kept(lake, "id >= 0") == ["0.parquet", "1.parquet", "2.parquet"]
    lake.refresh()
    assert kept(lake, "id = 30") == ["3.parquet"]


@pytest.mark.parametrize("refresh_every", [None, 3600])
@pytest.mark.parametrize("cache", [None, Cache(0)])
def test_a_file_that_changed_is_read_again(folder: Path, refresh_every: float | None, cache: Cache | None) -> None:
    lake = parquet_bloom.open(folder, refresh_every=refresh_every, cache=cache)
    lake.add("id")
    assert (kept(lake, "id = 10"), kept(lake, "id = 99")) == (["1.parquet"], [])
    before = (folder / "1.parquet").stat()
    write(folder / ".new", [98, 99])
    (folder / ".new").replace(folder / "1.parquet")
    assert (folder / "1.parquet").stat().st_ino != before.st_ino
    assert (kept(lake, "id = 10"), kept(lake, "id = 99")) == ([], ["1.parquet"])
    assert (lake.has("id", 99), lake.has("id", 10)) == (True, False)
    (folder / "1.parquet").unlink()
    assert kept(lake, "id = 99") == []


@pytest.mark.usefixtures("mtime_stable")
def test_objects_are_taken_to_be_as_listed_only_if_the_caller_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = MemoryFileSystem()
    for number in range(9):
        with fs.open(f"/asked_often/{number}.parquet", "wb") as file:
            pq.write_table(pa.table({"id": [number]}), file)
    requests: list[str] = []
    for name in ("ls", "info"):
        original = getattr(MemoryFileSystem, name)

        def counting(self: Any, path: str, *arguments: Any, original: Any = original, **options: Any) -> Any:
            requests.append(path)
            return original(self, path, *arguments, **options)

        monkeypatch.setattr(MemoryFileSystem, name, counting)
    made = {}
    for refresh_every in (3600, None):
        lake = parquet_bloom.open("memory://asked_often", refresh_every=refresh_every)
        assert len(lake.probe("id", 3)) == 9
        assert len(lake.prune("id = 3").paths) == 1
        requests.clear()
        assert len(lake.prune("id = 3").paths) == 1
        made[refresh_every] = len(requests)
    assert made[3600] < made[None]
    with fs.open("/asked_often/3.parquet", "wb") as file:
        pq.write_table(pa.table({"id": [103]}), file)
    assert lake.prune("id = 3").paths == ()
    fs.rm("/asked_often", recursive=True)


def test_has_says_what_could_not_be_read(folder: Path) -> None:
    (folder / "4.parquet").write_bytes(b"PAR1 no footer")
    lake = parquet_bloom.open(folder)
    assert lake.has("id", 11)
    with pytest.raises(ParquetBloomError, match=r"not found, but .*4\.parquet could not be read"):
        lake.has("id", 12)


def test_a_pickled_lake_has_what_to_open(folder: Path) -> None:
    with parquet_bloom.open(
        folder, timezone="UTC", strict=True, refresh_every=5, log=parquet_bloom.RequestLog()
    ) as lake:
        lake.prune("id = 1")
        pickled = pickle.dumps(lake)
    assert len(pickled) < 4096
    again = pickle.loads(pickled)
    assert kept(again, "id = 1") == ["0.parquet"]
    assert (again._open.timezone, again._open.strict, again._open.refresh_every, again._open.log) == (
        "UTC",
        True,
        5,
        None,
    )


def test_threads_share_a_lake(folder: Path) -> None:
    lake = parquet_bloom.open(folder)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: (n, kept(lake, f"id = {n}")), range(24)))
    assert [n for n, names in answers if names] == [0, 1, 10, 11, 20, 21]


def test_it_shows_what_it_is(folder: Path) -> None:
    lake = parquet_bloom.open(folder)
    assert repr(lake) == f"<Lake {folder}: not listed yet>"
    lake.prune("id = 1")
    assert repr(lake).startswith(f"<Lake {folder}: 3 files, ")


def test_an_earlier_version_is_not_changed(folder: Path) -> None:
    lake = parquet_bloom.open(folder, as_of=3)
    for change in (lambda: lake.add("id"), lake.drop, lambda: lake.erase("id", [1]), lambda: lake.index.create("id")):
        with pytest.raises(UnsupportedError, match="as_of= names an earlier version"):
            change()


def test_what_changes_no_table_takes_no_catalog(folder: Path) -> None:
    with pytest.raises(UnsupportedError, match="takes no catalog="):
        parquet_bloom.open("n.t", catalog="tests").drop()


def test_an_unknown_keyword_is_an_error(folder: Path) -> None:
    for call in (lambda: parquet_bloom.open(folder, timezon="UTC"), lambda: parquet_bloom.prune(folder, "id=1", jbs=2)):  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            call()


def test_what_shows_files_takes_a_table_by_version_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.utils.config import Config

    root = tmp_path / "orders"
    lakes.delta(root, files=2)
    for version, files in ((0, 1), (1, 2)):
        assert len(parquet_bloom.inspect(root, as_of=version).files) == files
        assert len(parquet_bloom.verify(root, as_of=version).files) == files
        assert len(parquet_bloom.probe(root, "id", 3, as_of=version)) == files
    monkeypatch.setenv("PYICEBERG_CATALOG__TESTS__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__TESTS__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which is read when it is imported
    with lakes.catalog(tmp_path) as catalog:
        table = lakes.iceberg(catalog, files=3, rows=20)
        table.delete("id < 20")
        for named, how in ((table, {}), ("n.t", {"catalog": "tests"})):
            assert len(parquet_bloom.inspect(named, **how).files) == 2
            assert len(parquet_bloom.verify(named, **how).files) == 2
            assert len(parquet_bloom.probe(named, "id", 30, **how)) == 2
            lake = parquet_bloom.open(named, **how)
            assert (lake.has("id", 30), lake.has("id", 3)) == (True, False)
