"""The cache: what it holds and lets go, and that no file is taken for the one that it replaced."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from files import fixture, footer_bytes, write
from stores import Filter, SimulatedStore, laid_out

from parquet_bloom import add, lookup, prune
from parquet_bloom.format.footer import parse_footer
from parquet_bloom.storage import listing
from parquet_bloom.storage.cache import SHARED, Cache
from parquet_bloom.storage.drive import RequestLog
from parquet_bloom.storage.listing import find

MIB = 1024 * 1024
WITHOUT = laid_out(Filter(MIB - 300_000, 16_384), size=MIB)
WITH = laid_out(Filter(MIB - 300_000, 16_384, keys=(7,)), size=MIB)


@pytest.fixture
def mtime_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as old the moment that they are written."""
    monkeypatch.setattr(listing, "MTIME_STABLE_SECONDS", -60.0)


@pytest.fixture
def memory() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/cached/a.parquet", WITHOUT)
    yield fs
    fs.rm("/cached", recursive=True)


# ---- the cache by itself -----------------------------------------------------------------


def test_the_least_recently_used_go_when_there_are_too_many_bytes() -> None:
    cache = Cache(100)
    for key in "abc":
        cache.put(key, key.upper(), 30)
    assert (cache.get("a"), cache.num_bytes, len(cache)) == ("A", 90, 3)
    cache.put("d", "D", 40)
    assert [cache.get(key) for key in "abcd"] == ["A", None, "C", "D"]
    assert cache.num_bytes == 100


def test_an_entry_is_replaced_and_counted_once() -> None:
    cache = Cache(100)
    cache.put("a", 1, 60)
    cache.put("a", 2, 70)
    assert (cache.get("a"), cache.num_bytes) == (2, 70)


def test_what_is_larger_than_the_cache_is_not_kept() -> None:
    cache = Cache(100)
    cache.put("a", 1, 60)
    cache.put("b", 2, 101)
    assert (cache.get("a"), cache.get("b")) == (1, None)
    cache.put("a", 3, 101)
    assert (cache.get("a"), cache.num_bytes) == (None, 0)
    cache.put("a", 1, 60)
    cache.clear()
    assert (len(cache), cache.num_bytes) == (0, 0)


def test_threads_share_it() -> None:
    cache = Cache(1000)
    failures = []

    def work(seed: int) -> None:
        for i in range(3000):
            key = (seed * 7919 + i * 31) % 97
            cache.put(key, key, 1 + key)
            if cache.get(key) not in (None, key) or not 0 <= cache.num_bytes <= 1000 + 97:
                failures.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert cache.num_bytes == sum(num_bytes for _, num_bytes in cache._entries.values()) <= 1000


def test_footers_that_were_not_used_lately_are_bytes_alone() -> None:
    raw = footer_bytes(fixture("pyarrow/small.parquet"))
    cache = Cache(2**20)
    footers = {str(number): parse_footer(10**6 + number, raw) for number in range(200)}
    for key, footer in footers.items():
        cache._put_footer(key, footer)
    assert cache._footer("199") is footers["199"]
    again = cache._footer("0")
    assert again is not footers["0"]
    assert again == footers["0"]
    assert cache._footer("0") is again
    packed = [cache.get(key) for key in footers]
    assert len({id(part) for _, start, _, stop in packed for part in (start, stop)}) == 2
    assert sum(map(len, packed[0][1:])) == len(raw)
    gc.collect()
    assert not any(map(gc.is_tracked, packed))
    assert len(cache) == 200
    assert cache.num_bytes <= 2**20


def test_footers_leave_a_cache_that_is_full() -> None:
    raw = footer_bytes(fixture("pyarrow/small.parquet"))
    cache = Cache(20 * len(raw))
    for number in range(200):
        cache._put_footer(number, parse_footer(10**6, raw))
        assert cache.num_bytes <= cache.max_bytes
    assert cache._footer(0) is None
    assert cache._footer(199) is not None
    cache.clear()
    assert (cache.num_bytes, cache._footer(199)) == (0, None)


# ---- and what it saves -------------------------------------------------------------------


def requests(verb: Any, *arguments: Any, **options: Any) -> list[int]:
    """Returns the bytes of each request of one call."""
    log = RequestLog()
    result = verb(*arguments, log=log, **options)
    assert result.to_arrow() is not None
    return [len(r) for _, r in log.requests]


def test_the_second_time_no_footer_is_read() -> None:
    store = SimulatedStore.of({f"/data/{i}.parquet": WITHOUT for i in range(5)})
    cache = Cache()
    options = {"filesystem": store, "cache": cache}
    first, second = (requests(prune, "/data", "id = 7", **options) for _ in range(2))
    assert (first.count(65536), second.count(65536)) == (5, 0)
    assert len(second) == 5  # what is asked of large filters is not kept
    assert len(cache) == 5


def test_the_second_time_no_whole_filter_is_read() -> None:
    store = SimulatedStore.of({f"/data/{i}.parquet": WITHOUT for i in range(5)})
    options = {"filesystem": store, "cache": Cache()}
    first, second = (requests(lookup, "/data", "id", list(range(1000)), **options) for _ in range(2))
    assert (len(first), second) == (10, [])


def test_the_same_answers_come_from_it() -> None:
    objects = {f"/data/{i}.parquet": WITH if i % 3 == 0 else WITHOUT for i in range(9)}
    options = {"filesystem": SimulatedStore.of(objects), "cache": Cache()}
    for where in ("id = 7", "id = 8", "id = 7", "id IN (7, 8)"):
        verdicts = prune("/data", where, **options).all_files
        assert verdicts == prune("/data", where, filesystem=options["filesystem"], cache=Cache(0)).all_files
    tables = [lookup("/data", "id", [7, 8], **options).to_arrow() for _ in range(2)]
    assert tables[0] == tables[1]


@pytest.mark.usefixtures("mtime_stable")
def test_each_row_group_and_column_has_a_filter_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", rows=100)
    add(tmp_path / "a.parquet", ["id", "name"])
    cache = Cache()
    for _ in range(2):
        for column, keys in (("id", list(range(100))), ("name", [f"name {i:06}" for i in range(100)])):
            found = lookup(tmp_path, column, keys, cache=cache).to_arrow()
            assert found["row_group"].to_pylist() == [i // 25 for i in range(100)]
    assert len(cache) == 1 + 8


@pytest.mark.usefixtures("mtime_stable")
def test_calls_share_one_unless_they_are_given_one(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(WITHOUT)
    SHARED.clear()
    prune(tmp_path, "id = 7")
    assert len(SHARED) == 1
    prune(tmp_path, "id = 7", cache=Cache())
    lookup(tmp_path, "id", [7], cache=Cache(0)).to_arrow()
    assert len(SHARED) == 1
    assert 8192 not in requests(prune, tmp_path, "id = 7")
    SHARED.clear()


# ---- files that were replaced ------------------------------------------------------------


@pytest.mark.usefixtures("mtime_stable")
@pytest.mark.parametrize("how", ["renamed over", "written in place"])
def test_a_replaced_local_file_is_read_again(tmp_path: Path, how: str) -> None:
    path, new = tmp_path / "a.parquet", tmp_path / "new"
    path.write_bytes(WITHOUT)
    os.utime(path, (1, 1))
    cache = Cache()
    for _ in range(2):
        assert not prune(path, "id = 7", cache=cache).kept_files
        assert lookup(path, "id", [7], cache=cache).to_arrow()["path"].null_count == 1
    if how == "renamed over":
        new.write_bytes(WITH)
        os.utime(new, (1, 1))
        new.replace(path)
    else:
        path.write_bytes(WITH)
    assert prune(path, "id = 7", cache=cache).kept_files
    assert lookup(path, "id", [7], cache=cache).to_arrow()["path"].null_count == 0


@pytest.mark.usefixtures("mtime_stable")
def test_a_replaced_object_is_read_again(memory: Any) -> None:
    cache = Cache()
    assert not prune("memory://cached", "id = 7", cache=cache).kept_files
    memory.pipe_file("/cached/a.parquet", WITH)
    assert prune("memory://cached", "id = 7", cache=cache).kept_files
    assert len(cache) == 2


def test_a_tag_tells_versions_apart() -> None:
    store, cache = SimulatedStore.of({"/data/a.parquet": WITHOUT}), Cache()
    assert not prune("/data", "id = 7", filesystem=store, cache=cache).kept_files
    store.replace("/data/a.parquet", WITH)
    assert prune("/data", "id = 7", filesystem=store, cache=cache).kept_files


def test_what_was_changed_just_now_is_not_kept(tmp_path: Path, memory: Any) -> None:
    # Its next change may fall into the same tick of the clock, and then nothing tells the two apart.
    (tmp_path / "a.parquet").write_bytes(WITHOUT)
    cache = Cache()
    prune(tmp_path, "id = 7", cache=cache)
    lookup(tmp_path, "id", [7], cache=cache).to_arrow()
    prune("memory://cached", "id = 7", cache=cache)
    assert len(cache) == 0


def test_a_store_that_tells_only_sizes_is_not_kept() -> None:
    class Sizes(SimulatedStore):
        def _entry(self, name: str) -> dict[str, Any]:
            return {"name": name, "type": "file", "size": len(self.objects[name])}

    store, cache = Sizes.of({"/data/a.parquet": WITHOUT}), Cache()
    (source,) = find("/data", filesystem=store)
    assert source.identity is None
    assert not prune("/data", "id = 7", filesystem=store, cache=cache).kept_files
    store.replace("/data/a.parquet", WITH)
    assert prune("/data", "id = 7", filesystem=store, cache=cache).kept_files
    assert len(cache) == 0


def test_two_stores_with_the_same_names_are_told_apart() -> None:
    cache = Cache()
    stores = [SimulatedStore.of({"/data/a.parquet": data}) for data in (WITHOUT, WITH)]
    assert [bool(prune("/data", "id = 7", filesystem=s, cache=cache).kept_files) for s in stores] == [False, True]
    (one,), (other,) = (find("/data", filesystem=SimulatedStore.of({"/data/a.parquet": WITH})) for _ in range(2))
    assert one.version == other.version
    assert one.identity != other.identity
