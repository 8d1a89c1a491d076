"""Systems without the calls of Linux: the same verbs with the same results, in a process that lacks them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MISSING = """
import os, select, signal, sys
import pyarrow.parquet, pyarrow.dataset, fsspec.implementations.local, subprocess, tempfile, concurrent.futures
sys.modules["fcntl"] = None
for name in ("pread", "pwrite", "geteuid", "fchmod", "fchown", "fdatasync", "copy_file_range", "posix_fadvise",
             "listxattr", "sched_getaffinity", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY"):
    if hasattr(os, name):
        delattr(os, name)
del select.poll, signal.SIGPIPE, signal.pthread_sigmask

def refuse_open(call):
    def checked(*paths, **options):
        for path in paths:
            if os.path.exists(path):
                named = os.stat(path)
                for fd in os.listdir("/proc/self/fd"):
                    try:
                        opened = os.fstat(int(fd))
                    except OSError:
                        continue
                    if os.path.samestat(named, opened):
                        raise PermissionError(13, "it is open in this process", os.fspath(path))
        return call(*paths, **options)
    return checked

for name in ("replace", "rename", "unlink", "remove"):
    setattr(os, name, refuse_open(getattr(os, name)))

from parquet_bloom.storage import system
assert system.fcntl is None
assert not system.CAN_OPEN_FOLDERS
system.CAN_RENAME_OPEN_FILES = False
"""


def run(script: str, folder: Path) -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to know which files are open")
    done = subprocess.run([sys.executable, "-c", MISSING + script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "day=1").mkdir()
    table = pa.table({"id": list(range(0, 4000, 2)), "name": [f"n{i}" for i in range(2000)]})
    pq.write_table(table, tmp_path / "day=1" / "a.parquet", row_group_size=500)
    return tmp_path


def test_files_are_read_changed_and_restored(folder: Path) -> None:
    run(
        """
import parquet_bloom, pathlib
file = pathlib.Path("day=1/a.parquet")
old = file.read_bytes()
(failed,) = parquet_bloom.add(".", "id", in_place=True).errors
assert "without locks" in failed.error, failed
assert file.read_bytes() == old
added = parquet_bloom.add(".", ["id", "name"])
assert not added.errors and len(added.rows[0].filters) == 8, added
assert file.read_bytes().startswith(old)
assert parquet_bloom.verify(".").is_sound
assert parquet_bloom.prune(".", "id = 3").totals.row_groups_kept == 0
assert parquet_bloom.prune(".", "id = 4 and day = 1").row_groups_by_path == {"./day=1/a.parquet": [0]}
assert parquet_bloom.find(".", "id = 1004").to_arrow()["name"].to_pylist() == ["n502"]
assert not parquet_bloom.add(str(file), "id", output="new.parquet", replace=True).errors
assert pathlib.Path("new.parquet").exists()
pathlib.Path("new.parquet").unlink()
erased = parquet_bloom.erase(".", "id", [1004])
assert not erased.errors
assert parquet_bloom.find(".", "id = 1004").to_arrow().num_rows == 0
file.write_bytes(old)
parquet_bloom.add(".", "id")
dropped = parquet_bloom.drop(".", restore=True)
assert not dropped.errors, dropped.errors
assert file.read_bytes() == old
assert sorted(os.listdir("day=1")) == ["a.parquet"], os.listdir("day=1")
from parquet_bloom.cli import commands
try:
    commands.main(["prune", ".", "-w", "id = -3", "-q"])
except SystemExit as end:
    assert end.code == 1, end.code
""",
        folder,
    )


def test_an_index_is_made_and_asked(folder: Path) -> None:
    run(
        """
import parquet_bloom
assert not parquet_bloom.index.create(".", "id").errors
assert parquet_bloom.prune(".", "id = 3").totals.row_groups_kept == 0
assert not parquet_bloom.index.refresh(".").errors
parquet_bloom.index.drop(".")
assert os.listdir(".") == ["day=1"], os.listdir(".")
""",
        folder,
    )
