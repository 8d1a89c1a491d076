"""Whatever fails, and whenever: there is the old index or the new one, and the next refresh puts all in order."""

from __future__ import annotations

import errno
import itertools
import json
import multiprocessing
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import index_files, index_folder

from parquet_bloom import Cache, _kernel, prune
from parquet_bloom.errors import ConcurrentChangeError, CorruptFileError, UnsupportedError
from parquet_bloom.filters import index as filters_index
from parquet_bloom.filters import index_build, index_versions
from parquet_bloom.filters.index import newest
from parquet_bloom.filters.index_folder import folder_of
from parquet_bloom.storage import listing, local_files
from parquet_bloom.storage.folder import Folder
from parquet_bloom.verbs import index

WRITES = ("write", "fsync", "link", "unlink", "remove", "rmdir", "mkdir")
READS = ("open", "pread", "listdir", "read_ranges")

IDS = {"a.parquet": [1, 2], "b.parquet": [3], "c.parquet": [4, 5], "d.parquet": [6]}


def put(root: Path, *names: str) -> None:
    for name in names:
        ids = pa.array(IDS[name], pa.int64())
        pq.write_table(pa.table({"id": ids, "other": ids}), root / name, write_statistics=False)


class Saboteur:
    """Counts the calls that could fail, and lets one of them fail; or that one and all that follow."""

    def __init__(self, monkeypatch: Any, calls: tuple[str, ...]) -> None:
        self.count, self._victim, self._last = 0, -1, -1
        self._error: Callable[[], BaseException] = KeyboardInterrupt
        for name in calls:
            owner = _kernel if name == "read_ranges" else os
            monkeypatch.setattr(owner, name, self._wrapped(getattr(owner, name)))

    def _wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def sabotaged(*arguments: Any, **options: Any) -> Any:
            number, self.count = self.count, self.count + 1
            if self._victim <= number <= self._last:
                raise self._error()
            return call(*arguments, **options)

        return sabotaged

    def run(self, action: Callable[[], Any], error: Any = None, victim: int = -1, last: int = -1) -> None:
        self.count, self._victim, self._last, self._error = 0, victim, last, error
        try:
            action()
        except (OSError, KeyboardInterrupt):
            pass
        finally:
            self._victim = self._last = -1


ACTIONS: dict[str, Callable[[Path], Any]] = {
    "create": lambda root: index.create(root, "id", jobs=1),
    "create another": lambda root: index.create(root, "other", jobs=1),
    "refresh": lambda root: index.refresh(root, jobs=1),
    "compact": lambda root: index.refresh(root, jobs=1),
    "drop": lambda root: index.drop(root),
    "drop one": lambda root: index.drop(root, "id"),
}
FAILURES: dict[str, tuple[Callable[[], BaseException], int, tuple[str, ...]]] = {
    "full once": (lambda: OSError(errno.ENOSPC, "No space left on device"), 1, WRITES),
    "unreadable once": (lambda: OSError(errno.EACCES, "Permission denied"), 1, READS),
    "killed": (KeyboardInterrupt, 10**9, WRITES),
}


def right(root: str | Path, **options: Any) -> None:
    for column in ("id", "other"):
        for name, ids in [*IDS.items()][1:3]:
            result = prune(root, f"{column} = {ids[0]}", cache=Cache(0), **options)
            assert name in [file.path.rpartition("/")[2] for file in result.kept_files]


def state(root: str | Path, **options: Any) -> list[tuple[str, int]]:
    return [(row.column, row.files) for row in index.show(root, **options).rows]


@pytest.mark.parametrize(
    ("name", "which"),
    [*itertools.product(ACTIONS, ("full once", "killed")), ("compact", "unreadable once"), ("drop", "unreadable once")],
)
def test_a_call_that_fails_leaves_the_old_or_the_new_index(
    tmp_path: Path, monkeypatch: Any, tick: Any, name: str, which: str
) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    put(root, "a.parquet", "b.parquet")
    if name != "create":
        index.create(root, "id")
    put(root, "c.parquet")
    if name == "compact":
        monkeypatch.setattr(index, "MOST_SEGMENTS", 1)
    put(root, "d.parquet")
    tick()
    before = {path.name: path.read_bytes() for path in index_folder(root).glob("*")}
    old = state(root)

    def reset() -> None:
        index_folder(root).mkdir(exist_ok=True)
        for path in index_folder(root).glob("*"):
            if path.name not in before:
                path.unlink()
        for file, data in before.items():
            if not (index_folder(root) / file).exists():
                (index_folder(root) / file).write_bytes(data)

    monkeypatch.setattr(os, "fsync", lambda fd: None)  # which takes its time
    error, times, names = FAILURES[which]
    saboteur = Saboteur(monkeypatch, names)
    saboteur.run(lambda: ACTIONS[name](root))
    calls, new = saboteur.count, state(root)
    assert calls > 5
    assert new != old
    outcomes = set()
    for victim in range(calls):
        reset()
        saboteur.run(lambda: ACTIONS[name](root), error, victim, victim + times - 1)
        found = state(root)
        if which == "killed" or not found:
            assert found in (old, new)
        else:  # a data file may be missing if it could not be read at that moment
            assert [column for column, _ in found] in ([column for column, _ in of] for of in (old, new))
        outcomes.add(found == new)
        right(root)
        with monkeypatch.context() as patch:
            patch.setattr(index_versions, "GRACE_SECONDS", -1.0)
            if found:
                index.refresh(root)
                columns = [column for column, _ in found]
                assert state(root) == [(column, 4) for column in columns]
                version = newest(folder_of(str(root))).version  # type: ignore[union-attr]
                assert {*index_files(root)} == version.files | {version.name}
            elif index_folder(root).exists() and any(index_folder(root).glob("*.json")):
                index.drop(root)
                assert not index_folder(root).exists()
    assert outcomes == {False, True}


def test_what_cannot_be_read_for_a_while_is_not_remembered(tmp_path: Path, monkeypatch: Any) -> None:
    put(tmp_path, *IDS)
    index.create(tmp_path, "id")
    cache = Cache()
    original, failing = _kernel.read_ranges, True

    def read_ranges(fd: int, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if failing and "states-" in str(Path(f"/proc/self/fd/{fd}").readlink()):
            raise OSError(errno.EACCES, "not now")
        return original(fd, ranges)

    monkeypatch.setattr(_kernel, "read_ranges", read_ranges)
    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux tells which file a descriptor is of")
    assert not any("(in the index)" in group.reason for group in prune(tmp_path, "id = 0", cache=cache).rows)
    failing = False
    assert all("(in the index)" in group.reason for group in prune(tmp_path, "id = 0", cache=cache).rows)


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: Any) -> None:
    def link(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    put(tmp_path, *IDS)
    index.create(tmp_path, "id")
    index.create(tmp_path, "other")
    assert state(tmp_path) == [("id", 4), ("other", 4)]
    folder = folder_of(str(tmp_path))
    with pytest.raises(FileExistsError):
        folder.create("00000001.json", b"another")
    assert not [name for name in folder.names() if name.startswith(".")]


# ---- several writers ---------------------------------------------------------------------


def _refresh(root: str, times: int, turns: Any) -> None:

    listing.MTIME_STABLE_SECONDS = -1
    for _ in range(times):
        turns.wait(60)
        index.refresh(root, jobs=1)
        turns.wait(60)


def test_two_processes_lose_nothing(tmp_path: Path, tick: Any) -> None:
    ids = pa.array([1], pa.int64())
    pq.write_table(pa.table({"id": ids}), tmp_path / "first.parquet")
    index.create(tmp_path, "id")
    context = multiprocessing.get_context("spawn")
    turns = context.Barrier(3)
    processes = [context.Process(target=_refresh, args=(str(tmp_path), 20, turns), daemon=True) for _ in range(2)]
    for process in processes:
        process.start()
    try:
        for turn in range(20):
            pq.write_table(pa.table({"id": ids}), tmp_path / f"{turn}.parquet")
            tick()
            turns.wait(60)
            turns.wait(60)
            assert state(tmp_path) == [("id", turn + 2)]
    finally:
        for process in processes:
            process.join(60) if turns.broken is False else process.kill()
    assert [process.exitcode for process in processes] == [0, 0]


def test_a_writer_that_slept_takes_no_old_number(tmp_path: Path, monkeypatch: Any) -> None:
    put(tmp_path, *IDS)
    index.create(tmp_path, "id")
    original, asleep = index.newest, [True]

    def slow(folder: Any) -> Any:
        found = original(folder)
        if asleep and asleep.pop():
            with monkeypatch.context() as patch:
                patch.setattr(index_versions, "GRACE_SECONDS", -1.0)
                for column in ("other", "id"):
                    index.create(tmp_path, column, fpp=0.01)  # and what was before is swept away
        return found

    monkeypatch.setattr(index_versions, "newest", slow)
    index.drop(tmp_path, "id")
    assert state(tmp_path) == [("other", 4)]


def test_a_writer_whose_version_was_followed_at_once_has_succeeded(tmp_path: Path, monkeypatch: Any) -> None:
    put(tmp_path, *IDS)
    index.create(tmp_path, ["id", "other"])
    original, done = index_versions._is_follower, []

    def followed(*arguments: Any) -> bool:
        if not done:
            done.append(True)
            index.create(tmp_path, "other", fpp=0.01)
        return original(*arguments)

    monkeypatch.setattr(index_versions, "_is_follower", followed)
    index.drop(tmp_path, "id")  # it does not find that the column is gone
    assert state(tmp_path) == [("other", 4)]


def test_a_refresh_does_not_bring_back_what_was_dropped(tmp_path: Path, monkeypatch: Any) -> None:
    put(tmp_path, "a.parquet")
    index.create(tmp_path, "id")
    put(tmp_path, "b.parquet")
    original = index_build.build

    def dropping(*arguments: Any) -> Any:
        index.drop(tmp_path)
        return original(*arguments)

    monkeypatch.setattr(index, "build", dropping)
    with pytest.raises(FileNotFoundError, match="has no index"):
        index.refresh(tmp_path)
    assert not index.show(tmp_path).exists


def test_what_a_drop_removed_before_it_was_named_is_not_reported_as_built(tmp_path: Path, monkeypatch: Any) -> None:
    put(tmp_path, *IDS)
    index.create(tmp_path, "other")
    original = index.committed

    def dropped(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(index, "committed", original)
        index.drop(tmp_path)
        return original(*arguments, **options)

    monkeypatch.setattr(index, "committed", dropped)
    with pytest.raises(ConcurrentChangeError, match="another writer has dropped the index"):
        index.create(tmp_path, "id")
    right(tmp_path)
    index.create(tmp_path, "id")
    assert state(tmp_path) == [("id", 4)]
    right(tmp_path)


def test_a_version_that_is_removed_after_it_was_listed_is_no_error(tmp_path: Path, monkeypatch: Any) -> None:
    put(tmp_path, *IDS)
    index.create(tmp_path, "other")
    original = filters_index.read_whole

    def dropped(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(filters_index, "read_whole", original)
        index.drop(tmp_path)
        return original(*arguments, **options)

    monkeypatch.setattr(filters_index, "read_whole", dropped)
    index.create(tmp_path, "id")
    assert state(tmp_path) == [("id", 4)]


def test_a_folder_that_is_removed_before_it_is_written_to_is_made_again(tmp_path: Path, monkeypatch: Any) -> None:
    put(tmp_path, *IDS)
    original = local_files.make_folder

    def removed(path: Path, **options: Any) -> None:
        monkeypatch.setattr(local_files, "make_folder", original)
        original(path, **options)
        path.rmdir()

    monkeypatch.setattr(local_files, "make_folder", removed)
    index.create(tmp_path, "id")
    assert state(tmp_path) == [("id", 4)]


def test_with_others_at_it_all_the_time_a_writer_gives_up(tmp_path: Path, monkeypatch: Any, sleeps: Any) -> None:
    put(tmp_path, "a.parquet")
    monkeypatch.setattr(index_versions, "_is_follower", lambda *_: False)
    sleeps(index_versions, lambda seconds: None)
    with pytest.raises(ConcurrentChangeError, match="nothing was changed"):
        index.create(tmp_path, "id")
    assert not index.show(tmp_path).exists


def test_a_writer_that_slept_does_not_bring_back_what_was_dropped(tmp_path: Path, monkeypatch: Any) -> None:
    put(tmp_path, *IDS)
    index.create(tmp_path, ["id", "other"])
    original, asleep = index_versions.newest, [True]

    def slow(folder: Any) -> Any:
        found = original(folder)
        if asleep and asleep.pop(0):
            asleep.clear()
            index.drop(tmp_path)
        return found

    monkeypatch.setattr(index_versions, "newest", slow)
    with pytest.raises(FileNotFoundError, match="has no index"):
        index.drop(tmp_path, "id")
    assert not index.show(tmp_path).exists
    assert not list(index_folder(tmp_path).glob("*.json"))


def test_what_marks_a_drop_goes_last(tmp_path: Path, monkeypatch: Any) -> None:
    """As long as it is there, no writer that slept takes its number."""
    put(tmp_path, *IDS)
    index.create(tmp_path, ["id", "other"])
    index.create(tmp_path, "id", fpp=0.5)
    removed: list[str] = []
    original = Folder.remove

    def remove(folder: Any, names: Any) -> None:
        removed.extend(names := list(names))
        original(folder, names)

    monkeypatch.setattr(Folder, "remove", remove)
    index.drop(tmp_path)
    assert len(removed) > 5
    assert removed[-1] == "00000003.json"


def test_a_row_that_could_not_be_read_excludes_no_file() -> None:
    blocks = SimpleNamespace(num_slots=3, selected_by=lambda hash_: hash_)
    reader: Any = SimpleNamespace(_blocks=[blocks])
    absent = bytes(3 * 32)
    assert filters_index.BloomIndex._any(reader, 0, [1, 2], {(0, 1): absent, (0, 2): absent}) == bytes(3)
    assert filters_index.BloomIndex._any(reader, 0, [1, 2], {(0, 1): absent, (0, 2): None}) == b"\1" * 3


# ---- bytes that were changed -------------------------------------------------------------


def test_a_row_of_blocks_with_another_bit_or_of_another_block_is_damaged() -> None:
    blocks = filters_index.Blocks("b", 1000, "id", num_bytes=64, num_slots=2, rows=2, starts=(0,))
    row = filters_index._row(1, [bytes(range(64)), bytes(64)])
    assert blocks.checked(1, row) == row[:-4]
    assert blocks.checked(0, row) is None
    for at in range(len(row)):
        assert blocks.checked(1, row[:at] + bytes([row[at] ^ 1]) + row[at + 1 :]) is None
        assert blocks.checked(1, row[:at]) is None


def test_states_and_versions_with_another_byte_are_damaged() -> None:
    data = filters_index.Version().to_json()
    assert filters_index.Version.of_json(data) == filters_index.Version()
    changed = data.replace(b'"number": 0', b'"number": 1')
    assert changed != data
    with pytest.raises(CorruptFileError, match="its checksum does not match"):
        filters_index.Version.of_json(changed)
    states = b"states"
    segment = filters_index.Segment("s", 1, 1, 1, "s.states", len(states), zlib.crc32(states) ^ 1, (), ())
    with pytest.raises(CorruptFileError, match=r"s\.states is damaged"):
        filters_index._states(segment, {0: states})


@pytest.mark.parametrize("number", [filters_index.FORMAT - 1, filters_index.FORMAT + 1])
def test_a_version_of_another_format_is_not_read(number: int) -> None:
    body = json.loads(filters_index.Version().to_json())["version"] | {"format": number}
    crc = zlib.crc32(json.dumps(body, sort_keys=True).encode())
    with pytest.raises(UnsupportedError, match=f"the index has format {number}"):
        filters_index.Version.of_json(json.dumps({"crc": crc, "version": body}).encode())


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", ""])
def test_names_in_a_version_lead_nowhere_else(name: str) -> None:
    segment = filters_index.Segment(name, 1, 1, 1, "s", 1, 1, (), ())
    with pytest.raises(CorruptFileError, match="cannot be read"):
        filters_index.Version.of_json(filters_index.Version(segments=(segment,)).to_json())
