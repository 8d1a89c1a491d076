"""Whatever happens to a folder and its index, and in whatever order: `prune` never loses a row."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from files import index_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from verbs.prune.worlds import KINDS, ORACLES, Column, Oracle, World, conditions, write

import parquet_bloom.storage.local_files
from parquet_bloom import Cache, lookup, prune
from parquet_bloom.errors import ColumnNotFoundError, LiteralError
from parquet_bloom.filters import index_build, index_versions
from parquet_bloom.filters.index import IndexedColumn
from parquet_bloom.predicates.tree import Comparison, In, Or, Predicate
from parquet_bloom.storage import listing
from parquet_bloom.verbs import index

EXAMPLES = int(os.environ.get("PARQUET_BLOOM_EXAMPLES", "20"))

SUPPORTED = tuple(
    kind
    for kind in KINDS
    if kind.startswith(("int", "uint", "date", "timestamp")) or kind in ("float", "double", "string")
)
FOLDERS = ("", "sub", "day=1", "day=2")


@dataclass
class Held:
    """A data file, and its rows in memory."""

    world: World
    oracle: Oracle

    def matches(self, condition: Predicate) -> set[int] | None:
        return self.oracle.matches(condition)


@dataclass
class History:
    """A folder of files, what they hold, and what is done to them.

    What is drawn never depends on the state of the index, which threads change.
    """

    root: Path
    kinds: tuple[str, str]
    oracle: Callable[[World], Oracle]
    data: Any
    files: dict[str, Held] = field(default_factory=dict)
    cache: Cache = field(default_factory=Cache)
    numbers: Any = field(default_factory=itertools.count)

    def step(self) -> None:
        steps = [self.add, self.add, self.refresh, self.create]
        if self.files:
            steps += [self.replace, self.replace, self.delete, self.rename, self.filters, self.drop, self.meddle]
            steps += [self.other_type, self.swap, self.restore_times]
        self.data.draw(st.sampled_from(steps))()
        time.sleep(0.012)  # for the clock of the file system

    # -- data files --

    def _held(self, world: World) -> Held:
        return Held(world, self.oracle(world))

    def _world(self, kinds: tuple[str, ...]) -> World:
        """Returns rows of some of the columns; often of one value each, or of none."""
        columns = tuple(Column(f"c{n}", kind, "plain") for n, kind in enumerate(kinds))
        cells = st.tuples(*(st.one_of(st.sampled_from(KINDS[kind].values), st.none()) for kind in kinds))
        rows = self.data.draw(st.lists(cells, max_size=6))
        return World(columns, tuple(rows), self.data.draw(st.integers(1, 4)))

    def _put(self, name: str, world: World) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        options = {}
        if self.data.draw(st.booleans()):
            options["bloom_filter_options"] = {column.name: {"ndv": 64, "fpp": 0.01} for column in world.columns}
        temporary = self.root / ".unfinished"
        write(world, temporary, **options)
        if path.exists() and self.data.draw(st.booleans()):
            path.write_bytes(temporary.read_bytes())  # the same inode
            temporary.unlink()
        else:
            temporary.replace(path)
        self.files[name] = self._held(world)

    def _any(self) -> str:
        return self.data.draw(st.sampled_from(sorted(self.files)))

    def add(self) -> None:
        count = self.data.draw(st.integers(1, 2))
        name = f"{self.data.draw(st.sampled_from(FOLDERS))}/{next(self.numbers):03}.parquet".lstrip("/")
        self._put(name, self._world(self.kinds[:count]))

    def other_type(self) -> None:
        kind = self.data.draw(st.sampled_from(SUPPORTED))
        self._put(f"{next(self.numbers):03}.parquet", self._world((kind, self.kinds[1])))

    def replace(self) -> None:
        name = self._any()
        before = (self.root / name).stat()
        self._put(name, self._world(self.kinds))
        if self.data.draw(st.booleans()):
            os.utime(self.root / name, ns=(before.st_atime_ns, before.st_mtime_ns))

    def delete(self) -> None:
        name = self._any()
        if len(self.files) > 1:
            (self.root / name).unlink()
            del self.files[name]

    def rename(self) -> None:
        old = self._any()
        new = f"{next(self.numbers):03}.parquet"
        (self.root / old).rename(self.root / new)
        self.files[new] = self.files.pop(old)

    def swap(self) -> None:
        one, other = self._any(), self._any()
        (self.root / one).rename(self.root / ".moved")
        if one != other:
            (self.root / other).rename(self.root / one)
        (self.root / ".moved").rename(self.root / other)
        self.files[one], self.files[other] = self.files[other], self.files[one]

    def restore_times(self) -> None:
        os.utime(self.root / self._any(), ns=(0, 10**18))

    def filters(self) -> None:
        name = self._any()
        columns = [column.name for column in self.files[name].world.columns]
        if self.data.draw(st.booleans()):
            parquet_bloom.add(self.root / name, columns, fpp=0.01, jobs=1)
        else:
            parquet_bloom.drop(self.root / name)

    # -- the index --

    def _indexed(self) -> list[str]:
        return [row.column for row in index.show(self.root).rows]

    def create(self) -> None:
        if not self.files:
            return
        draw = self.data.draw
        column = IndexedColumn(
            draw(st.sampled_from(["c0", "c1", "k"])),
            draw(st.sampled_from([0.9, 0.1, 0.0001])),
            draw(st.sampled_from([1, 3, 1_000_000])),
            draw(st.sampled_from([1.0, 1.0, 0.05])),
        )
        with suppress(ColumnNotFoundError):
            index.create(self.root, [column], jobs=1)
            self._check_complete()

    def refresh(self) -> None:
        if self.files and self._indexed():
            index.refresh(self.root, jobs=1)
            self._check_complete()

    def _check_complete(self) -> None:
        for row in index.show(self.root).rows:
            assert (row.files_missing, row.files + row.files_without_filter) == (0, len(self.files))

    def drop(self) -> None:
        column = self.data.draw(st.sampled_from([None, "c0", "c1", "k"]))
        if (indexed := self._indexed()) and (column is None or column in indexed):
            index.drop(self.root, column)

    def meddle(self) -> None:
        """Replaces and moves files while a refresh is under way."""
        changes = self.data.draw(st.lists(st.sampled_from([self.replace, self.swap, self.filters]), max_size=3))
        if not self._indexed():
            return
        with ThreadPoolExecutor(1) as pool:
            refresh = pool.submit(index.refresh, self.root, jobs=1)
            for change in changes:
                change()
        error = refresh.exception()
        # For a moment, while it is being replaced, the only file is not there.
        assert error is None or "has no Parquet files" in str(error)

    # -- what must hold --

    def check(self, condition: Predicate) -> None:
        try:
            result = prune(self.root, condition, timezone="UTC", cache=self.cache)
        except (ColumnNotFoundError, LiteralError):
            return
        assert {str(Path(file.path).relative_to(self.root)) for file in result.all_files} == set(self.files)
        for file in result.all_files:
            name = str(Path(file.path).relative_to(self.root))
            held = self.files[name]
            truth = held.matches(condition)
            if truth is None or file.not_pruned is not None:
                continue
            for group in file.row_groups:
                if not group.is_kept:
                    first = group.row_group * held.world.group_rows
                    assert not truth & set(range(first, first + group.num_rows)), (name, group)

    def check_keys(self) -> None:
        found = lookup(self.root, "k", [0, 5, 99]).to_arrow().to_pylist()
        for key in (0, 5, 99):
            paths = {
                str(Path(row["path"]).relative_to(self.root)) for row in found if row["key"] == key and row["path"]
            }
            assert paths >= {name for name, held in self.files.items() if key < len(held.world.rows)}


def asked(kinds: tuple[str, ...]) -> st.SearchStrategy[Predicate]:
    """Returns conditions, most of which a filter can prune."""
    columns = tuple(Column(f"c{n}", kind, "plain") for n, kind in enumerate(kinds))
    tests = [
        st.builds(lambda v, c=column: Comparison("=", c.path, v), st.sampled_from(KINDS[column.kind].values))
        for column in columns
    ]
    numbers = st.integers(-1, 7)
    tests += [
        st.builds(lambda v: Comparison("=", ("k",), v), numbers),
        st.builds(lambda vs: In(("k",), tuple(vs)), st.lists(numbers, min_size=1, max_size=3)),
        conditions(World(columns, (), 1)),
    ]
    either = st.one_of(tests)
    return st.one_of(
        either,
        either,
        st.builds(lambda a, b: Or((a, b)), either, either),
        st.builds(lambda a, b: a & b, either, either),
    )


@pytest.mark.parametrize("oracle", ORACLES)
@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), print_blob=True)
@given(data=st.data())
def test_no_row_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oracle: Any, data: Any) -> None:
    monkeypatch.setattr(index, "MOST_SEGMENTS", data.draw(st.sampled_from([0, 1, 2, 8])))
    monkeypatch.setattr(index_build, "SEGMENT_BYTES", data.draw(st.sampled_from([1, 100, 10_000_000])))
    monkeypatch.setattr(index_versions, "GRACE_SECONDS", data.draw(st.sampled_from([0.0, 3600.0])))
    root = tmp_path / "lake"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    kinds = data.draw(st.tuples(st.sampled_from(SUPPORTED), st.sampled_from(SUPPORTED)))
    wanted = data.draw(st.lists(asked(kinds), min_size=4, max_size=6))
    history = History(root, kinds, oracle, data)
    history.add()
    for step in range(data.draw(st.integers(3, 12))):
        history.create() if step == 0 else history.step()
        for condition in wanted:
            history.check(condition)
    history.check_keys()


# ---- one after the other -----------------------------------------------------------------


def file(path: Path, values: list[Any], kind: str = "int64", **options: Any) -> None:
    rows = tuple((value,) for value in values)
    write(World((Column("c0", kind, "plain"),), rows, 2), path, compression="none", use_dictionary=False, **options)


def kept(root: Path, where: Any, cache: Cache | None = None) -> set[str]:
    return {str(Path(found.path).relative_to(root)) for found in prune(root, where, cache=cache).kept_files}


def ruled_out_by_index(root: Path, where: Any) -> int:
    return sum("(in the index)" in group.reason for group in prune(root, where).rows)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_replacement_of_the_same_size_and_time_is_another_file(tmp_path: Path, tick: Any, in_place: bool) -> None:
    path = tmp_path / "f.parquet"
    file(path, [1, 2, 3])
    index.create(tmp_path, "c0")
    cache = Cache()
    assert kept(tmp_path, "c0 = 5", cache) == set()
    before = path.stat()
    tick()
    new = path if in_place else tmp_path / ".new"
    file(new, [4, 5, 6])
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    if not in_place:
        new.replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert kept(tmp_path, "c0 = 5", cache) == {"f.parquet"}
    (row,) = index.show(tmp_path).rows
    assert (row.files, row.files_missing) == (0, 1)
    tick()
    (row,) = index.refresh(tmp_path).rows
    assert (row.files, row.files_missing) == (1, 0)
    assert (kept(tmp_path, "c0 = 5", cache), kept(tmp_path, "c0 = 2", cache)) == ({"f.parquet"}, set())


def test_a_file_that_may_still_change_is_not_indexed(tmp_path: Path, monkeypatch: Any, sleeps: Any) -> None:
    file(tmp_path / "old.parquet", [1])
    os.utime(tmp_path / "old.parquet", ns=(0, 10**18))
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        file(tmp_path / "young.parquet", [2])
        monkeypatch.setattr(listing, "MTIME_STABLE_SECONDS", 0.5)

    time.sleep(0.6)
    monkeypatch.setattr(listing, "MTIME_STABLE_SECONDS", 10_000)
    sleeps(listing, sleep)
    (row,) = index.create(tmp_path, "c0").rows
    assert (pauses, row.files, row.files_missing) == ([10_000], 1, 1)
    monkeypatch.setattr(listing, "MTIME_STABLE_SECONDS", -1)
    (row,) = index.show(tmp_path).rows
    assert (row.files, row.files_missing) == (1, 1)
    assert kept(tmp_path, "c0 = 2") == {"young.parquet"}


@pytest.mark.parametrize("when", ["survey", "build"])
def test_a_file_that_is_replaced_while_it_is_indexed_is_not_in_the_index(
    tmp_path: Path, monkeypatch: Any, when: str
) -> None:
    path = tmp_path / "f.parquet"
    file(path, [1, 2, 3])
    name = {"survey": "_read_columns", "build": "fill"}[when]
    original = getattr(index_build, name)

    def meddling(*arguments: Any) -> Any:
        file(path, [4, 5, 6])
        return original(*arguments)

    monkeypatch.setattr(index_build, name, meddling)
    (row,) = index.create(tmp_path, "c0").rows
    assert (row.files, row.files_missing) == (0, 1)
    monkeypatch.setattr(index_build, name, original)
    (row,) = index.refresh(tmp_path).rows
    assert (row.files, row.files_missing) == (1, 0)
    assert (kept(tmp_path, "c0 = 5"), kept(tmp_path, "c0 = 2")) == ({"f.parquet"}, set())


def test_a_thousand_files(tmp_path: Path, tick: Any) -> None:
    for number in range(1000):
        file(tmp_path / f"{number:04}.parquet", [number, number + 100_000], statistics=False)
    state = index.create(tmp_path, "c0", fpp=0.001)
    assert (state.built, state.rows[0].files, state.segments) == (1000, 1000, 1)
    assert kept(tmp_path, "c0 = 777") == {"0777.parquet"}
    assert kept(tmp_path, "c0 IN (3, 100005, -1)") == {"0003.parquet", "0005.parquet"}
    for number in range(1000, 1010):
        file(tmp_path / f"{number:04}.parquet", [number], statistics=False)
    assert kept(tmp_path, "c0 = 1005") == {f"{number}.parquet" for number in range(1000, 1010)}
    tick()
    state = index.refresh(tmp_path)
    assert (state.built, state.rows[0].files, state.segments) == (10, 1010, 2)
    assert ruled_out_by_index(tmp_path, "c0 = 1005") >= 1000
    file(tmp_path / "0777.parquet", [5], statistics=False)
    (tmp_path / "0005.parquet").unlink()
    tick()
    assert (kept(tmp_path, "c0 = 777"), kept(tmp_path, "c0 = 5")) == ({"0777.parquet"}, {"0777.parquet"})
    assert index.refresh(tmp_path).built == 1
    assert (kept(tmp_path, "c0 = 777"), kept(tmp_path, "c0 = 5")) == (set(), {"0777.parquet"})
    assert not index.drop(tmp_path).exists
    assert len(kept(tmp_path, "c0 = 5")) == 1009


def test_small_segments_are_put_together(tmp_path: Path, monkeypatch: Any, tick: Any) -> None:
    monkeypatch.setattr(index, "MOST_SEGMENTS", 3)
    file(tmp_path / "f00.parquet", [0])
    index.create(tmp_path, "c0")
    counts = []
    for number in range(1, 13):
        file(tmp_path / f"f{number:02}.parquet", [number])
        tick()
        counts.append(index.refresh(tmp_path).segments)
    assert counts == [2, 3, 1] * 4
    for number in range(13):
        assert kept(tmp_path, f"c0 = {number}") == {f"f{number:02}.parquet"}
    monkeypatch.setattr(index_versions, "GRACE_SECONDS", -1.0)
    index.refresh(tmp_path)
    names = [name.partition("-")[0] for name in index_files(tmp_path)]
    assert sorted(names) == ["00000017.json", "blocks", "entries", "states"]


def test_what_is_out_of_date_goes(tmp_path: Path, monkeypatch: Any, tick: Any) -> None:
    for number in range(6):
        file(tmp_path / f"f{number}.parquet", [number])
    state = index.create(tmp_path, "c0")
    least = state.num_bytes
    for turn in range(1, 7):
        for number in range(6):
            file(tmp_path / f"f{number}.parquet", [number + 10 * turn])
        tick()
        state = index.refresh(tmp_path)
        assert state.num_bytes < 3 * least
        assert kept(tmp_path, f"c0 = {10 * turn + 3}") == {"f3.parquet"}


def test_a_row_in_a_large_segment_does_not_come_back(tmp_path: Path, monkeypatch: Any, tick: Any) -> None:
    """Segments are put together around one that stays: of rows for the same file, the last counts as before."""
    for number in range(8):
        file(tmp_path / f"f{number}.parquet", [number])
    index.create(tmp_path, "c0", fpp=0.5)
    monkeypatch.setattr(index_build, "SEGMENT_BYTES", 2)  # what is there counts as large
    file(tmp_path / "f1.parquet", [10])
    tick()
    index.refresh(tmp_path)
    monkeypatch.setattr(index_build, "SEGMENT_BYTES", 1000)
    monkeypatch.setattr(index, "MOST_SEGMENTS", 0)
    file(tmp_path / "f2.parquet", [20])
    tick()
    state = index.refresh(tmp_path)
    assert (state.rows[0].files, state.rows[0].files_missing) == (8, 0)
    assert index.refresh(tmp_path).built == 0
    assert (kept(tmp_path, "c0 = 20"), kept(tmp_path, "c0 = 2")) == ({"f2.parquet"}, set())


def test_two_threads_lose_nothing(tmp_path: Path, tick: Any) -> None:
    file(tmp_path / "f.parquet", [-1])
    index.create(tmp_path, "c0")
    for turn in range(10):
        file(tmp_path / f"f{turn}.parquet", [turn])
        tick()
        threads = [threading.Thread(target=index.refresh, args=(tmp_path,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (row,) = index.show(tmp_path).rows
        assert (row.files, row.files_missing) == (turn + 2, 0)


def test_a_file_is_the_same_on_a_device_of_another_number(tmp_path: Path, monkeypatch: Any) -> None:
    file(tmp_path / "f.parquet", [1])
    index.create(tmp_path, "c0")
    original = parquet_bloom.storage.local_files.version
    monkeypatch.setattr(parquet_bloom.storage.local_files, "version", lambda s: "f00-" + original(s).partition("-")[2])
    (row,) = index.show(tmp_path).rows
    assert (row.files, row.files_missing) == (1, 0)


def test_what_comes_in_while_segments_are_put_together_counts(tmp_path: Path, monkeypatch: Any, tick: Any) -> None:
    for number in range(3):
        file(tmp_path / f"f{number}.parquet", [number])
    index.create(tmp_path, "c0")
    monkeypatch.setattr(index, "MOST_SEGMENTS", 1)
    original, meddled = index_versions._rows_of, []

    def meddling(*arguments: Any) -> Any:
        if not meddled:
            meddled.append(True)
            with monkeypatch.context() as patch:
                patch.setattr(index, "MOST_SEGMENTS", 100)
                file(tmp_path / "f1.parquet", [10])
                tick()
                index.refresh(tmp_path)
        return original(*arguments)

    monkeypatch.setattr(index_versions, "_rows_of", meddling)
    file(tmp_path / "f3.parquet", [3])
    tick()
    state = index.refresh(tmp_path)
    assert (state.segments, state.rows[0].files, state.rows[0].files_missing) == (2, 4, 0)
    assert (kept(tmp_path, "c0 = 10"), kept(tmp_path, "c0 = 1")) == ({"f1.parquet"}, set())
