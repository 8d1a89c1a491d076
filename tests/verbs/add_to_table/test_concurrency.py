"""Many small commits while another writer appends, deletes and compacts: no row is lost, none comes twice."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lakes
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from files import statuses, table

from parquet_bloom import CorruptFileError, add
from parquet_bloom.tables import snapshot_of
from parquet_bloom.tables.delta import OpenDelta

LEAST_COMMITS = 12
"""Of the other writer, while files are swapped."""


@contextlib.contextmanager
def meanwhile(step: Callable[[int], None]) -> Iterator[list[int]]:
    """Runs the steps of another writer, one after the other, until the block ends; yields the numbers of those done."""
    done: list[int] = []
    stop, failed = threading.Event(), []

    def work() -> None:
        number = 0
        while not stop.is_set() or len(done) < LEAST_COMMITS:
            try:
                step(number)
            except Exception as error:
                failed.append(error)
                return
            done.append(number)
            number += 1
            stop.wait(0.1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()
    assert failed == []


def test_a_delta_table_with_another_writer(tmp_path: Path, monkeypatch: Any) -> None:
    files = 100
    commit, count = OpenDelta.commit, itertools.count()

    def compacted_before(opened: Any, swaps: Any) -> Any:
        # At this moment and no other: one that another thread began before our commit would commit over it.
        if next(count) == 90:
            with contextlib.suppress(DeltaError):
                DeltaTable(str(tmp_path)).optimize.compact(target_size=4000)
        return commit(opened, swaps)

    monkeypatch.setattr(OpenDelta, "commit", compacted_before)
    lakes.delta(tmp_path, files=files, rows=10)
    alive = set(range(10 * files))

    def step(number: int) -> None:
        first = 100_000 + 10 * number
        with contextlib.suppress(DeltaError):  # a commit that met one of ours, and was not made
            match number % 4:
                case 0 | 1:
                    write_deltalake(str(tmp_path), table(10, first), mode="append")
                    alive.update(range(first, first + 10))
                case 2:
                    gone = (number * 37) % (10 * files)
                    DeltaTable(str(tmp_path)).delete(f"id >= {gone} AND id < {gone + 4}")
                    alive.difference_update(range(gone, gone + 4))
                case 3:
                    DeltaTable(str(tmp_path)).create_checkpoint()

    with meanwhile(step) as done:
        added = add(tmp_path, "id", table=True, batch=1)
    assert len(done) >= LEAST_COMMITS
    assert statuses(added).count("written") > 50
    assert all("run again" in row.error for row in added.rows if row.error)
    assert lakes.delta_rows(tmp_path) == sorted(alive)
    assert DeltaTable(str(tmp_path)).count() == len(alive)
    _nothing_is_left_over(tmp_path, added)
    assert not add(tmp_path, "id", table=True).errors
    assert lakes.delta_rows(tmp_path) == sorted(alive)
    assert set(statuses(add(tmp_path, "id", table=True))) == {"unchanged"}


def test_a_compaction_that_commits_over_a_swap_is_reported(tmp_path: Path, monkeypatch: Any) -> None:
    lakes.delta(tmp_path, rows=10)
    early = DeltaTable(str(tmp_path))
    commit = OpenDelta.commit

    def compacted_after(opened: Any, swaps: Any) -> Any:
        made = commit(opened, swaps)
        early.optimize.compact()
        return made

    monkeypatch.setattr(OpenDelta, "commit", compacted_after)
    reported = r"version 4, OPTIMIZE of another writer, .* compare the rows of versions 3 and 4"
    with pytest.raises(CorruptFileError, match=reported):
        add(tmp_path, "id", table=True)
    assert len(lakes.delta_rows(tmp_path)) == 60  # of 30: the reason why it is reported
    DeltaTable(str(tmp_path)).restore(3)
    assert lakes.delta_rows(tmp_path) == list(range(30))


def test_an_iceberg_table_with_another_writer(catalog: Any, tmp_path: Path) -> None:
    from pyiceberg.exceptions import CommitFailedException, ValidationException

    files = 12
    made = lakes.iceberg(catalog, files=files, rows=10)
    alive = set(range(10 * files))
    with lakes.connected(tmp_path / "warehouse") as other:

        def step(number: int) -> None:
            first = 100_000 + 10 * number
            theirs = other.load_table("n.t")
            with contextlib.suppress(CommitFailedException, ValidationException):
                if number % 3 < 2:
                    theirs.append(table(10, first))
                    alive.update(range(first, first + 10))
                else:
                    gone = (number * 17) % (10 * files)
                    theirs.delete(f"id >= {gone} AND id < {gone + 4}")
                    alive.difference_update(range(gone, gone + 4))

        with meanwhile(step) as done:
            added = add(made, "id", table=True, batch=2)
    assert len(done) >= LEAST_COMMITS
    made.refresh()
    assert lakes.iceberg_rows(made) == sorted(alive)
    assert made.current_snapshot().summary["total-records"] == str(len(alive))
    _nothing_is_left_over(Path(made.location().removeprefix("file://")), added, made)
    assert not add(made, "id", table=True).errors
    assert lakes.iceberg_rows(made) == sorted(alive)


def _nothing_is_left_over(root: Path, added: Any, table: Any = None) -> None:
    """Every new file is one that a result names, and no file that was refused has one."""
    new = {str(path) for path in root.rglob("*-bloom-*.parquet")}
    assert new == {row.output for row in added.rows if row.status == "written"}
    assert snapshot_of(table or root) is not None
