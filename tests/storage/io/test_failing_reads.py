"""Stores that fail, lose files, send too little, or replace files while they are read: nothing is pruned wrongly."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem
from stores import Filter, SimulatedStore, laid_out

from parquet_bloom import MIGHT_MATCH, drop, lookup, probe, prune, verify
from parquet_bloom.errors import ConcurrentChangeError, CorruptFileError, UnsupportedError
from parquet_bloom.format.footer import Plan, read_footer
from parquet_bloom.format.ranges import ByteRange
from parquet_bloom.storage import drive as driver
from parquet_bloom.storage.cache import Cache
from parquet_bloom.storage.columns import ColumnChunks
from parquet_bloom.storage.drive import Limits, drive, run
from parquet_bloom.storage.listing import Source, find

MIB = 1024 * 1024
WITHOUT = laid_out(Filter(MIB - 300_000, 4096), size=MIB)
"""A file whose filter lacks every key; the footer and the filter take a round each."""

WITH = laid_out(Filter(MIB - 300_000, 4096, keys=(7,)), size=MIB)
"""One of the same layout that has the key."""


class Flaky(SimulatedStore):
    """Fails each range of some names with an error, so many times."""

    fails: dict[str, int]
    error: Exception

    def _read(self, path: str, start: int, end: int) -> bytes | Exception:
        if self.fails.get(path, 0) > 0:
            self.fails[path] -= 1
            return self.error
        return super()._read(path, start, end)


def flaky(error: Exception, times: int) -> Flaky:
    store = Flaky.of({"/data/bad.parquet": WITHOUT, "/data/good.parquet": WITHOUT})
    assert isinstance(store, Flaky)
    store.fails, store.error = {"/data/bad.parquet": times}, error
    return store


@pytest.fixture
def pauses(sleeps: Callable[..., None]) -> list[float]:
    """Lets no time pass, and says how much would have."""
    found: list[float] = []
    sleeps(driver, found.append)
    return found


class ServerDisconnectedError(Exception):
    """Named like the error of an HTTP library."""


def http(status: int) -> Exception:
    error = RuntimeError(f"HTTP {status}")
    error.status = status  # type: ignore[attr-defined]
    return error


PASSING = [
    OSError(errno.EIO, "input/output error"),
    ConnectionResetError("reset by peer"),
    TimeoutError("timed out"),
    ServerDisconnectedError("server disconnected"),
    http(503),
    http(429),
]
LASTING = [
    FileNotFoundError(errno.ENOENT, "no such object"),
    PermissionError(errno.EACCES, "denied"),
    OSError(errno.EINVAL, "invalid"),
    ValueError("odd"),
    http(403),
]


def kept(result: Any) -> list[str]:
    return [file.path.rpartition("/")[2] for file in result.kept_files]


# ---- retries -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_is_tried_again_with_growing_pauses(error: Exception, pauses: list[float]) -> None:
    store = flaky(error, 3)
    assert kept(prune("/data", "id = 7", filesystem=store)) == []
    assert pauses == [0.2, 0.4, 0.8]


def test_what_does_not_pass_is_given_up_and_the_file_kept(pauses: list[float]) -> None:
    store = flaky(PASSING[0], 99)
    result = prune("/data", "id = 7", filesystem=store, limits=Limits(retries=5, backoff=1))
    assert (kept(result), pauses) == (["bad.parquet"], [1, 2, 4, 8, 16])
    assert result.kept_files[0].not_pruned == "input/output error"


@pytest.mark.parametrize("error", LASTING, ids=repr)
def test_what_lasts_is_not_tried_again(error: Exception, pauses: list[float]) -> None:
    store = flaky(error, 1)
    assert kept(prune("/data", "id = 7", filesystem=store)) == ["bad.parquet"]
    assert pauses == []


def test_a_store_that_fails_as_a_whole_keeps_every_file(pauses: list[float]) -> None:
    store = flaky(PASSING[0], 0)

    def fail(number: int) -> None:
        raise ConnectionError("no route")

    store.meddle = fail
    result = prune("/data", "id = 7", filesystem=store)
    assert {file.not_pruned for file in result.kept_files} == {"no route"}
    assert (len(result.kept_files), len(pauses)) == (2, 3)


def test_no_limit_is_nothing() -> None:
    for limits in ({"files": 0}, {"in_flight": 0}, {"round_bytes": 0}, {"retries": -1}):
        with pytest.raises(ValueError, match="must be at least 1"):
            Limits(**limits)


# ---- files that are gone, or shorter -----------------------------------------------------


def vanished(number: int, store: SimulatedStore) -> None:
    if number == 1:
        store.remove("/data/bad.parquet")


def shorter(number: int, store: SimulatedStore) -> None:
    store.objects["/data/bad.parquet"] = WITHOUT[:-100]


def emptied(number: int, store: SimulatedStore) -> None:
    store.objects["/data/bad.parquet"] = b""


def shorter_filter(number: int, store: SimulatedStore) -> None:
    if number == 2:
        store.objects["/data/bad.parquet"] = WITHOUT[: MIB - 299_990]


@pytest.mark.parametrize("what", [vanished, shorter, emptied, shorter_filter])
def test_a_file_that_cannot_be_read_whole_is_kept(what: Callable[[int, SimulatedStore], None]) -> None:
    def store() -> SimulatedStore:
        made = flaky(PASSING[0], 0)
        made.meddle = lambda number: what(number, made)
        return made

    assert kept(prune("/data", "id = 7", filesystem=store())) == ["bad.parquet"]
    found = lookup("/data", "id", [7, 8], filesystem=store()).to_arrow()
    assert {(row["key"], row["path"]) for row in found.to_pylist()} == {
        (7, "/data/bad.parquet"),
        (8, "/data/bad.parquet"),
    }


def strictly(verb: Any, store: Any) -> None:
    result = verb("/data", *(("id = 7",) if verb is prune else ("id", [7])), filesystem=store, strict=True)
    assert result.to_arrow() is not None


@pytest.mark.parametrize("what", [vanished, shorter])
def test_strict_raises_instead(what: Callable[[int, SimulatedStore], None]) -> None:
    expected = FileNotFoundError if what is vanished else CorruptFileError
    for verb in (prune, lookup):
        store = flaky(PASSING[0], 0)
        store.meddle = lambda number, store=store: what(number, store)  # type: ignore[misc]
        with pytest.raises(expected):
            strictly(verb, store)


def test_a_local_file_that_vanished_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(WITHOUT)
    meddled(monkeypatch, lambda: (tmp_path / "a.parquet").unlink(), before_round=1)
    (file,) = prune(tmp_path, "id = 7").kept_files
    assert "No such file" in (file.not_pruned or "")


def test_a_store_that_sends_more_than_was_asked_for_is_not_understood() -> None:
    class Generous(SimulatedStore):
        def _read(self, path: str, start: int, end: int) -> bytes | Exception:
            return self.objects[path]

    (file,) = prune("/data", "id = 7", filesystem=Generous.of({"/data/a.parquet": WITHOUT})).kept_files
    assert "ignores byte ranges" in (file.not_pruned or "")


# ---- files that are replaced while they are read -----------------------------------------


def meddled(monkeypatch: pytest.MonkeyPatch, meddle: Callable[[], None], *, before_round: int) -> None:
    """Has something happen once before the given round of reads of a local file."""
    are_apart, rounds = driver.are_apart, iter(range(1, 100))

    def about_to_read(ranges: Any, gap: int) -> bool:
        if next(rounds) == before_round:
            meddle()
        return are_apart(ranges, gap)

    monkeypatch.setattr(driver, "are_apart", about_to_read)


@pytest.mark.parametrize("before_round", [1, 2])
@pytest.mark.parametrize("how", ["renamed over", "written in place"])
@pytest.mark.parametrize("verb", ["prune", "lookup"])
def test_a_local_file_that_is_replaced_is_kept_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, verb: str, before_round: int
) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(WITHOUT)
    (tmp_path / "new").write_bytes(WITH)
    os.utime(path, (1, 1))

    def replace() -> None:
        if how == "renamed over":
            (tmp_path / "new").replace(path)
        else:
            path.write_bytes(WITH)

    meddled(monkeypatch, replace, before_round=before_round)
    if verb == "prune":
        (file,) = prune(path, "id = 7").kept_files
        reason = file.not_pruned
    else:
        (row,) = lookup(path, "id", [7]).to_arrow().to_pylist()
        assert (row["path"], row["row_group"]) == (str(path), None)
        reason = row["reason"]
    assert "changed while it was read" in (reason or "")


def test_a_local_file_that_becomes_shorter_is_called_changed_and_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"

    def reason(verb: Callable[[], str | None]) -> str | None:
        path.write_bytes(WITHOUT)
        (tmp_path / "new").write_bytes(WITHOUT[:-100])
        with monkeypatch.context() as patch:
            meddled(patch, lambda: (tmp_path / "new").replace(path) and None, before_round=1)
            return verb()

    changed = f"{path} changed while it was read"
    assert reason(lambda: prune(path, "id = 7").kept_files[0].not_pruned) == changed
    assert reason(lambda: drop(path, restore=True).rows[0].error) == changed
    assert reason(lambda: verify(path).files[0].error) == changed
    with pytest.raises(ConcurrentChangeError):
        reason(lambda: str(prune(path, "id = 7", strict=True)))


def replaced_store(before_round: int) -> SimulatedStore:
    names = [f"/data/{i}.parquet" for i in range(20)]
    store = SimulatedStore.of(dict.fromkeys(names, WITHOUT))

    def meddle(number: int) -> None:
        if number == before_round:
            store.replace(names[3], WITH)

    store.meddle = meddle
    return store


@pytest.mark.parametrize("before_round", [1, 2])
def test_an_object_that_is_replaced_is_kept_whole(before_round: int) -> None:
    (file,) = prune("/data", "id = 7", filesystem=replaced_store(before_round)).kept_files
    assert file.path == "/data/3.parquet"
    assert "changed while it was read" in (file.not_pruned or "")
    probed = probe("/data", "id", 8, filesystem=replaced_store(before_round)).rows
    assert [row.path for row in probed if row.answer == MIGHT_MATCH] == ["/data/3.parquet"]
    rows = lookup("/data", "id", [7, 8], filesystem=replaced_store(before_round)).to_arrow().to_pylist()
    assert [(row["key"], row["path"]) for row in rows if row["row_group"] is None and row["path"]] == [
        (key, "/data/3.parquet") for key in (7, 8)
    ]


@pytest.mark.parametrize("verb", [prune, lookup])
def test_strict_raises_for_an_object_that_is_replaced(verb: Any) -> None:
    with pytest.raises(ConcurrentChangeError, match="changed while it was read"):
        strictly(verb, replaced_store(2))


@pytest.fixture
def memory() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/failures/a.parquet", WITHOUT)
    yield fs
    fs.rm("/failures", recursive=True)


def test_an_object_in_memory_that_is_replaced_is_kept_whole(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = type(memory).cat_ranges
    rounds = iter(range(1, 100))

    def cat_ranges(fs: Any, *arguments: Any, **options: Any) -> Any:
        if next(rounds) == 2:
            memory.pipe_file("/failures/a.parquet", WITH)
        return read(fs, *arguments, **options)

    monkeypatch.setattr(type(memory), "cat_ranges", cat_ranges)
    (file,) = prune("memory://failures", "id = 7").kept_files
    assert "changed while it was read" in (file.not_pruned or "")


def test_a_folder_that_cannot_be_listed_again_keeps_what_it_held() -> None:
    store = replaced_store(99)
    sources = find("/data", filesystem=store)
    assert driver.changes(sources) == {}
    store.objects.clear()
    assert set(driver.changes(sources)) == set(sources)


# ---- limits ------------------------------------------------------------------------------


class Concurrent(AsyncFileSystem):
    """Counts how many reads are under way at once."""

    protocol = "concurrent"
    cachable = False
    most = now = 0

    async def _info(self, path: str, **options: Any) -> dict[str, Any]:
        return {"name": path, "type": "file", "size": len(WITHOUT), "ETag": "1"}

    async def _ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        raise NotImplementedError

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        import asyncio

        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(3):
            await asyncio.sleep(0)
        self.now -= 1
        return WITHOUT[start:end]


def test_so_many_requests_are_under_way_at_once() -> None:
    paths = [f"/{i}.parquet" for i in range(50)]
    store = Concurrent()
    assert kept(prune(paths, "id = 7", filesystem=store, cache=Cache(0), limits=Limits(in_flight=5))) == []
    assert store.most == 5
    prune(paths, "id = 7", filesystem=store, cache=Cache(0))
    assert store.most == 50


def test_so_many_files_are_open_and_so_many_bytes_asked_for_at_once() -> None:
    class Measured(SimulatedStore):
        asked: list[int]

        def cat_ranges(self, paths: Any, starts: Any, ends: Any, on_error: str = "return", **options: Any) -> Any:
            self.asked.append(sum(ends) - sum(starts))
            return super().cat_ranges(paths, starts, ends, on_error)

    store = Measured.of({f"/data/{i:03}.parquet": WITHOUT for i in range(100)})
    assert isinstance(store, Measured)
    store.asked = []
    sources = find("/data", filesystem=store)
    now = most = 0

    def counted(plan: Plan[Any]) -> Plan[Any]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        result = yield from plan
        now -= 1
        return result

    jobs = ((source, counted(read_footer(source.size))) for source in sources)
    limits = Limits(files=30, round_bytes=10 * 65536)
    assert [source for source, _ in drive(jobs, limits=limits)] == sources
    assert (most, max(store.asked)) == (30, 10 * 65536)


def test_results_that_wait_for_a_slow_file_are_bounded() -> None:
    store = SimulatedStore.of({f"/data/{i:03}.parquet": WITHOUT for i in range(100)})
    started = 0

    def plan(source: Source, rounds: int) -> Plan[int]:
        nonlocal started
        started += 1
        for _ in range(rounds):
            yield [ByteRange(0, 4)]
        return started

    jobs = ((s, plan(s, 1 if i else 60)) for i, s in enumerate(find("/data", filesystem=store)))
    (_, first), *_ = drive(jobs, limits=Limits(files=5))
    assert isinstance(first, int)
    assert first <= 20


def test_progress_counts_files(tmp_path: Path) -> None:
    store = SimulatedStore.of({f"/data/{i}.parquet": WITHOUT for i in range(9)})
    for file in "abc":
        (tmp_path / f"{file}.parquet").write_bytes(WITHOUT)
    for paths, options, total in (("/data", {"filesystem": store}, 9), (tmp_path, {}, 3)):
        done, totals = [], set()

        def count(number: int, of: int, done: list[int] = done, totals: set[int] = totals) -> None:
            done.append(number)
            totals.add(of)

        prune(paths, "id = 7", progress=count, **options)  # type: ignore[arg-type]
        list(lookup(paths, "id", [7], progress=count, **options))  # type: ignore[arg-type]
        assert (done, totals) == ([*range(1, total + 1)] * 2, {total})


# ---- one column chunk of a remote file ---------------------------------------------------


def test_a_column_chunk_is_fetched_in_pieces_and_nothing_beyond_it(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 2_500_000  # 20 MB: three pieces
    table = pa.table({"a": pa.nulls(rows, pa.int8()), "id": range(rows), "z": pa.nulls(rows, pa.int8())})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=rows, compression="none", use_dictionary=False)
    store = SimulatedStore.of({"/x.parquet": (tmp_path / "x.parquet").read_bytes()})
    asked: list[tuple[int, int]] = []
    read = store._read
    store._read = lambda path, start, end: asked.append((start, end)) or read(path, start, end)  # type: ignore[method-assign,func-returns-value,assignment]

    (source,) = find("/x.parquet", filesystem=store)
    footer = run(source, read_footer(source.size))
    asked.clear()
    arrays = list(ColumnChunks(source, footer).values(0, footer.leaves[1]))
    assert pa.chunked_array(arrays).equals(table["id"])
    chunk = footer.chunk(0, footer.leaves[1])
    start, stop = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
    assert sum(end - begin for begin, end in asked) == stop - start
    assert (min(asked)[0], max(asked)[1], len(asked)) == (start, stop, 3)


def test_a_column_chunk_that_cannot_be_fetched_is_no_damage(pauses: list[float]) -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": range(1000)}), buffer, use_dictionary=False)
    store = Flaky.of({"/x.parquet": buffer.getvalue()})
    assert isinstance(store, Flaky)
    store.fails, store.error = {}, ServerDisconnectedError("server disconnected")
    (source,) = find("/x.parquet", filesystem=store)
    footer = run(source, read_footer(source.size))
    store.fails = {"/x.parquet": 99}
    with pytest.raises(OSError, match="server disconnected") as caught:
        list(ColumnChunks(source, footer).values(0, footer.leaves[0]))
    assert not isinstance(caught.value, CorruptFileError | UnsupportedError)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(WITHOUT)
    (source,) = find(path)
    path.unlink()
    os.mkfifo(path)
    (_, outcome) = next(drive([(source, read_footer(source.size))]))
    assert isinstance(outcome, OSError)
