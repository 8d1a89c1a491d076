"""Whatever fails, and whenever: there is the old file or the new one, whole, and nothing else."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from churn import churning
from files import only_error, snapshot, statuses, write

from parquet_bloom import _kernel, add, drop, erase
from parquet_bloom.storage.local_files import leftovers as temporary_files

# ---- every call fails once ---------------------------------------------------------------

CALLS: list[tuple[Any, str]] = [
    (os, "open"),
    (os, "pwrite"),
    (os, "pread"),
    (_kernel, "read_ranges"),
    (os, "copy_file_range"),
    (os, "fdatasync"),
    (os, "fsync"),
    (os, "ftruncate"),
    (os, "fstat"),
    (os, "fchmod"),
    (os, "fchown"),
    (os, "setxattr"),
    (os, "utime"),
    (os, "link"),
    (fcntl, "ioctl"),
    (Path, "replace"),
    (Path, "rename"),
    (Path, "unlink"),
]


class Saboteur:
    """Counts the calls that could fail, and lets one of them fail."""

    def __init__(self, monkeypatch: Any) -> None:
        self.count, self._victim, self._error = 0, -1, None
        for owner, name in CALLS:
            if hasattr(owner, name):
                monkeypatch.setattr(owner, name, self._wrapped(getattr(owner, name)))

    def _wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def sabotaged(*arguments: Any, **options: Any) -> Any:
            number, self.count = self.count, self.count + 1
            if number == self._victim and self._error is not None:
                raise self._error
            return call(*arguments, **options)

        return sabotaged

    def run(self, victim: int, error: BaseException | None, action: Callable[[], Any]) -> list[str]:
        """Returns what the action says became of the files; nothing, if it was interrupted."""
        self.count, self._victim, self._error = 0, victim, error
        try:
            return statuses(action())
        except KeyboardInterrupt:
            if not isinstance(error, KeyboardInterrupt):
                raise
            return []
        finally:
            self._victim = -1


ACTIONS: dict[str, Callable[[Path], Any]] = {
    "add": lambda file: add(file, "id", jobs=1),
    "add again": lambda file: add(file, "name", jobs=1, keep_mtime=True),
    "in place": lambda file: add(file, "name", in_place=True, jobs=1, keep_mtime=True),
    "drop": lambda file: drop(file),
    "restore": lambda file: drop(file, restore=True),
    "erase": lambda file: erase(file, "id", [7, 120], jobs=1),
    "copy": lambda file: add(file, "name", output=file.with_name("copy.parquet"), jobs=1),
}
ERRORS = {
    "full": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "broken": lambda: OSError(errno.EIO, "Input/output error"),
    "interrupted": KeyboardInterrupt,
}


def checksums(data: bytes) -> bytes:
    import struct
    import zlib

    sums = [zlib.crc32(data[i : i + 512]) for i in range(0, len(data), 512)]
    return b"crc\0" + struct.pack(f">i{len(sums)}I", 512, *sums)


@pytest.mark.parametrize("side", [False, True], ids=["alone", "with checksums"])
@pytest.mark.parametrize("which", ERRORS)
@pytest.mark.parametrize("name", ACTIONS)
def test_a_call_that_fails_leaves_the_old_or_the_new_file(
    tmp_path: Path, monkeypatch: Any, name: str, which: str, side: bool
) -> None:
    file, crc, copy = (tmp_path / n for n in ("x.parquet", ".x.parquet.crc", "copy.parquet"))
    write(file, 200)
    if name != "add":
        add(file, "id")
    old = file.read_bytes()

    def reset() -> None:
        file.write_bytes(old)
        crc.write_bytes(checksums(old)) if side else None
        copy.unlink(missing_ok=True)

    reset()
    saboteur = Saboteur(monkeypatch)
    saboteur.run(-1, None, lambda: ACTIONS[name](file))
    calls = saboteur.count
    new = (copy if name == "copy" else file).read_bytes()
    assert new != old
    assert calls > 10
    outcomes = set()
    for victim in range(calls):
        reset()
        told = saboteur.run(victim, ERRORS[which](), lambda: ACTIONS[name](file))
        there = snapshot(tmp_path)
        assert there.pop("x.parquet") in ((old,) if name == "copy" else (old, new))
        is_done = file.read_bytes() == new or copy.exists()
        assert not told or (told == ["written"]) == is_done
        outcomes.add(is_done)
        assert there.pop("copy.parquet", new) == new
        assert there.pop(".x.parquet.crc", checksums(file.read_bytes())) == checksums(file.read_bytes())
        assert there == {}
    assert False in outcomes


# ---- the process is killed ---------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: Any) -> Path:
    """A file of some megabytes that does not compress."""
    path = tmp_path_factory.mktemp("large") / "x.parquet"
    dice = random.Random(5)
    names = [f"{dice.getrandbits(256):064x}" for _ in range(40_000)]
    table = pa.table({"id": range(len(names)), "name": names})
    pq.write_table(table, path, row_group_size=10_000, compression="none")
    assert path.stat().st_size > 2_500_000
    return path


def dot_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def test_killed_at_any_moment_the_file_is_whole_and_the_next_run_cleans_up(large: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    shutil.copy(large, file)
    old, rows = file.read_bytes(), pq.read_table(large)
    dice = random.Random(7)
    for _ in range(30):
        with churning(file) as process:
            time.sleep(dice.uniform(0, 0.06))
            process.kill()
            process.join()
            assert file.read_bytes()[: len(old)] == old
            assert pq.read_table(file).equals(rows)
            leftovers = dot_files(tmp_path)
            assert leftovers == temporary_files(file)
            assert len(leftovers) <= 1
            is_named = bool(leftovers) and leftovers[0].stat().st_size > 0
            (row,) = add(file, "id", replace=True).rows
            assert row.status == "written"
            told = [f"removed {path}, which an interrupted run had left" for path in leftovers]
            assert row.notes == (tuple(told) if is_named else ())
            assert dot_files(tmp_path) == []
            drop(file, restore=True)
            assert file.read_bytes() == old


# ---- the disk is full --------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or subprocess.run([mount, "-t", "tmpfs", "-o", "size=4m", "none", folder], check=False).returncode:
        pytest.skip("mounting a small tmpfs is not permitted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_on_a_full_disk_nothing_changes(large: Path, small_disk: Path) -> None:
    file = small_disk / "x.parquet"
    shutil.copy(large, file)
    before = snapshot(small_disk)
    for result in (
        add(file, ["id", "name"]),
        add(file, "name", output=small_disk / "y.parquet"),
        add(file, "name", ndv=10_000_000, allow_large=True),
    ):
        assert "No space left on device" in only_error(result)
        assert snapshot(small_disk) == before


def test_space_for_the_copy_but_not_for_the_filters(large: Path, small_disk: Path, tmp_path: Path) -> None:
    file = small_disk / "x.parquet"
    write(file)
    before = snapshot(small_disk)
    assert "No space left on device" in only_error(add(file, "name", ndv=4_000_000, allow_large=True))
    assert snapshot(small_disk) == before
    assert statuses(add(file, "name")) == ["written"]


LIMITED = """
import resource, sys
from parquet_bloom import add
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
(row,) = add(sys.argv[1], "name").rows
print(row.status, row.error)
"""


@pytest.mark.parametrize("limit", [100, 1_000_000, "half of the filters"])
def test_a_limit_on_the_size_of_files_changes_nothing(large: Path, tmp_path: Path, limit: int | str) -> None:
    file = tmp_path / "x.parquet"
    shutil.copy(large, file)
    (planned,) = add(file, "name", dry_run=True).rows
    most = limit if isinstance(limit, int) else planned.size + planned.bytes_added // 4
    before = snapshot(tmp_path)
    command = [sys.executable, "-c", LIMITED, str(file), str(most)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "refused File too large\n"
    assert snapshot(tmp_path) == before


# ---- readers meanwhile -------------------------------------------------------------------


@pytest.mark.engines
def test_1000_reads_while_another_process_writes_see_the_same_rows(tmp_path: Path) -> None:
    import duckdb

    file = tmp_path / "x.parquet"
    write(file, 2_000)
    expected = pq.read_table(file)
    query = f"SELECT count(*), sum(id), max(name), count(*) FILTER (name = 'name 000007') FROM '{file}'"
    with duckdb.connect() as connection, churning(file):
        rows = connection.execute(query).fetchall()
        versions = set()
        for _ in range(500):
            versions.add(file.stat().st_mtime_ns)
            assert pq.read_table(file).equals(expected)
            assert connection.execute(query).fetchall() == rows
        assert rows == [(2_000, sum(range(2_000)), "name 001999", 1)]
        assert len(versions) > 20


# ---- threads -----------------------------------------------------------------------------


def test_a_run_that_fails_leaves_no_thread_behind(tmp_path: Path, monkeypatch: Any) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "x.parquet"
    write(file)
    threads = set(threading.enumerate())
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left") as raised:
        add(file, ["id", "name"], strict=True, jobs=2)
    assert set(threading.enumerate()) == threads
    assert raised.tb  # what the traceback holds lives until here
