"""Filesystems other than the local one: add and drop put whole objects, and reads that fail are that file's error."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest
from files import fixture, only_error, statuses, write

from parquet_bloom import CANNOT_MATCH, MIGHT_MATCH, add, drop, inspect, probe, verify
from parquet_bloom.errors import ConcurrentChangeError, UnsupportedError
from parquet_bloom.format.footer import read_footer
from parquet_bloom.storage import drive as driving
from parquet_bloom.storage.drive import Limits, drive
from parquet_bloom.storage.listing import find
from parquet_bloom.storage.rewrite import compose, rewrite

ROOT = "memory://objects"


@pytest.fixture
def memory() -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/objects/none", b"")
    yield fs
    fs.rm("/objects", recursive=True)


@pytest.fixture
def old(memory: Any, tmp_path: Path) -> bytes:
    data = write(tmp_path / "x.parquet")
    memory.pipe_file("/objects/x.parquet", data)
    return data


def test_add_and_drop_in_place(memory: Any, old: bytes) -> None:
    assert statuses(add(f"{ROOT}/x.parquet", "id")) == ["written"]
    new = memory.cat_file("/objects/x.parquet")
    assert new[: len(old)] == old
    assert {row.verdict for row in verify(f"{ROOT}/x.parquet").rows} == {"ok"}
    assert {row.answer for row in probe(f"{ROOT}/x.parquet", "id", -1).rows} == {CANNOT_MATCH}
    with memory.open("/objects/x.parquet") as file:
        assert pq.read_table(file) == pq.read_table(fsspec.open(f"{ROOT}/x.parquet").open())
    assert statuses(drop(f"{ROOT}/x.parquet")) == ["written"]
    assert memory.cat_file("/objects/x.parquet")[: len(new)] == new
    assert inspect(f"{ROOT}/x.parquet").rows == ()
    assert statuses(drop(f"{ROOT}/x.parquet", restore=True)) == ["written"]
    assert memory.cat_file("/objects/x.parquet") == old


def test_a_copy_leaves_the_object(memory: Any, old: bytes) -> None:
    assert statuses(add(f"{ROOT}/x.parquet", "id", output=f"{ROOT}/y.parquet")) == ["written"]
    assert memory.cat_file("/objects/x.parquet") == old
    new = memory.cat_file("/objects/y.parquet")
    assert new[: len(old)] == old
    assert statuses(drop(f"{ROOT}/y.parquet", restore=True, output=f"{ROOT}/z.parquet")) == ["written"]
    assert memory.cat_file("/objects/z.parquet") == old
    assert "exists" in only_error(add(f"{ROOT}/x.parquet", "id", output=f"{ROOT}/y.parquet"))
    assert memory.cat_file("/objects/y.parquet") == new


def test_a_directory_is_copied_with_its_relative_paths(memory: Any, old: bytes) -> None:
    memory.pipe_file("/objects/d/part=1/a.parquet", old)
    memory.pipe_file("/objects/d/b.parquet", old)
    assert statuses(add(f"{ROOT}/d", "id", output=f"{ROOT}/out")) == ["written"] * 2
    assert memory.find("/objects/out") == ["/objects/out/b.parquet", "/objects/out/part=1/a.parquet"]


@pytest.mark.parametrize("is_longer", [False, True])
def test_an_object_that_changed_after_it_was_read_is_left(memory: Any, old: bytes, is_longer: bool) -> None:
    theirs = old + b"another" if is_longer else b"another"
    (source,) = find(f"{ROOT}/x.parquet")
    with rewrite(source, source.size) as out:
        out.copy()
        out.append(b"more")
        memory.pipe_file("/objects/x.parquet", theirs)
        with pytest.raises(ConcurrentChangeError):
            out.commit()
    with pytest.raises(ConcurrentChangeError):
        rewrite(source, source.size)
    assert memory.cat_file("/objects/x.parquet") == theirs


def test_an_object_that_became_shorter_is_not_taken_apart(memory: Any, old: bytes) -> None:
    (source,) = find(f"{ROOT}/x.parquet")
    with compose(source) as out:
        memory.pipe_file("/objects/x.parquet", old[:100])
        with pytest.raises(ConcurrentChangeError, match="became shorter"):
            out.append_from(90, 110)


def test_an_object_that_changed_is_not_removed(memory: Any, old: bytes) -> None:
    (source,) = find(f"{ROOT}/x.parquet")
    with compose(source) as out:
        memory.pipe_file("/objects/x.parquet", b"another")
        with pytest.raises(ConcurrentChangeError):
            out.remove()
    assert memory.cat_file("/objects/x.parquet") == b"another"


def test_a_store_that_keeps_less_than_it_was_sent_is_an_error(memory: Any, old: bytes) -> None:
    class Forgetful(Unreliable):
        def pipe_file(self, path: str, data: bytes) -> None:
            self._inner.pipe_file(path, data[:-1])

    (source,) = find("/objects/x.parquet", filesystem=Forgetful(memory, OSError()))
    with rewrite(source, source.size) as out:
        out.append(b"more")
        with pytest.raises(ConcurrentChangeError, match="does not have the size that was written"):
            out.commit()


def test_without_a_commit_nothing_changes(memory: Any, old: bytes) -> None:
    (source,) = find(f"{ROOT}/x.parquet")
    with rewrite(source, source.size) as out:
        out.append(b"more")
    assert memory.cat_file("/objects/x.parquet") == old


def test_what_was_appended_can_be_read_back(memory: Any, old: bytes) -> None:
    (source,) = find(f"{ROOT}/x.parquet")
    with rewrite(source, 100) as out:
        assert [out.append(b"abc"), out.append(b"defg"), out.position] == [100, 103, 107]
        assert [out.read(100, 3), out.read(103, 4)] == [b"abc", b"defg"]


class Unreliable:
    """A store whose reads fail with errors of its own."""

    def __init__(self, inner: Any, error: Exception) -> None:
        self._inner, self._error = inner, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def cat_ranges(self, paths: list[str], starts: list[int], ends: list[int], on_error: str) -> list[Any]:
        whole = self._inner.cat_ranges(paths, starts, ends, on_error=on_error)
        return [self._error if "bad" in path else part for path, part in zip(paths, whole, strict=True)]


@pytest.mark.parametrize("error", [OSError("gone"), ValueError("odd"), zipfile.BadZipFile("checksum")], ids=repr)
def test_a_read_that_fails_is_the_error_of_its_file_alone(
    memory: Any, old: bytes, error: Exception, sleeps: Callable[..., None]
) -> None:
    sleeps(driving, lambda seconds: None)
    memory.pipe_file("/objects/d/bad.parquet", old)
    memory.pipe_file("/objects/d/good.parquet", old)
    add(f"{ROOT}/d/good.parquet", "id")
    store = Unreliable(memory, error)
    bad, good = inspect("/objects/d", filesystem=store).files
    assert str(error) in bad.error
    assert len(good.filters) == 4
    answers = [(row.path[-8:], row.answer) for row in probe("/objects/d", "id", -1, filesystem=store).rows]
    assert answers == [(".parquet", MIGHT_MATCH)] + [(".parquet", CANNOT_MATCH)] * 4


def test_an_archive_is_read_and_not_written(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("d/x.parquet", fixture("pyarrow/small.parquet"))
    path = f"zip://d/x.parquet::{tmp_path}/a.zip"
    before = (tmp_path / "a.zip").read_bytes()
    assert {row.verdict for row in verify(path).rows} == {"ok"}
    assert "inside an archive" in only_error(drop(path))
    assert (tmp_path / "a.zip").read_bytes() == before


def test_an_output_on_another_file_system_is_refused(memory: Any, old: bytes, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedError, match="not on the same file system"):
        add("x.parquet", "id", output=f"{ROOT}/y.parquet")
    with pytest.raises(UnsupportedError, match="not on the same file system"):
        add(f"{ROOT}/x.parquet", "id", output=f"file://{tmp_path}/y.parquet")
    assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]
    assert statuses(add("x.parquet", "id", output=f"file://{tmp_path}/y.parquet")) == ["written"]
    assert (tmp_path / "y.parquet").exists()


# ---- driving many plans ------------------------------------------------------------------


def test_results_come_in_order_and_few_plans_are_open(memory: Any, old: bytes) -> None:
    for i in range(50):
        memory.pipe_file(f"/objects/many/{i:02}.parquet", old if i % 7 else b"no parquet at all")
    sources = find(f"{ROOT}/many")
    open_now: list[int] = []
    most = 0

    def counted(plan: Any) -> Any:
        nonlocal most
        open_now.append(1)
        most = max(most, len(open_now))
        try:
            return (yield from plan)
        finally:
            open_now.pop()

    jobs = ((source, counted(read_footer(source.size))) for source in sources)
    results = list(drive(jobs, limits=Limits(files=4)))
    assert [source for source, _ in results] == sources
    assert [isinstance(outcome, Exception) for _, outcome in results] == [i % 7 == 0 for i in range(50)]
    assert (most, open_now) == (4, [])


def test_plans_left_early_are_closed(memory: Any, old: bytes) -> None:
    closed = []

    def quick() -> Any:
        yield []
        return 1

    def endless() -> Any:
        try:
            while True:
                yield []
        finally:
            closed.append(True)

    (source,) = find(f"{ROOT}/x.parquet")
    results = drive([(source, quick()), (source, endless())])
    assert next(results)[1] == 1
    results.close()  # type: ignore[attr-defined]
    assert closed == [True]
