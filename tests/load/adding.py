"""`add` of very many files, which is killed in the middle and run again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from figures import Figures, memory
from lake import FOLDER_FILES, KINDS, UNFILTERED, Kinds, temporary_files

import parquet_bloom

JOBS = 8
MOST_MEMORY, MEMORY_OF_A_FILE = 300 * 1024**2, 32 * 1024


def add(root: Path, kinds: Kinds, count: int) -> Figures:
    figures = Figures("add", files=count, threads=JOBS)
    old = [kinds.paths[number] for number in range(KINDS) if number % 10 in UNFILTERED]
    paths = [root / f"{number // FOLDER_FILES:05}" / f"part-{number:08}.parquet" for number in range(count)]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(old[number % len(old)], path)
    for is_killed in (True, False):
        command = [sys.executable, "-m", "parquet_bloom", "add", root, "-c", "id", "-c", "name", "--jobs", str(JOBS)]
        started, most = time.monotonic(), 0
        with subprocess.Popen(
            [*command, "--format", "csv"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            while process.poll() is None:
                most = max(most, _memory(process.pid))
                if is_killed and paths[count // 2].stat().st_size != old[count // 2 % len(old)].stat().st_size:
                    process.kill()
                time.sleep(0.02)
            said = process.stderr.read() if process.stderr else ""
        figures.require(process.returncode == (-9 if is_killed else 0), f"it ended with {process.returncode}: {said}")
        bound = MOST_MEMORY + MEMORY_OF_A_FILE * count
        figures.require(most < bound, f"{most:,} bytes of memory, of {bound:,}")
        changed = 0
        for number, path in enumerate(paths):
            data, before = path.read_bytes(), old[number % len(old)].read_bytes()
            changed += data != before
            figures.require(data.startswith(before) and data.endswith(b"PAR1"), f"{path} is not whole")
        if is_killed:
            figures.require(0 < changed < count, f"{changed} files had been written when it was killed")
            figures.count(kills=1, left_by_the_kill=len(temporary_files(root)))
        figures.known |= {
            f"written_{'before_the_kill' if is_killed else 'in_all'}": changed,
            f"seconds_{'until_the_kill' if is_killed else 'again'}": round(time.monotonic() - started),
            "memory_mib": max(most >> 20, figures.known.get("memory_mib", 0)),
        }
    figures.require(not (left := temporary_files(root)), f"temporary files are left: {left[:3]}")
    verified = parquet_bloom.verify(root)
    figures.require(verified.is_sound, f"verify: {(*verified.findings, *verified.errors)[:3]}")
    figures.require({(row.path, row.column) for row in verified} == _all(paths), "some files lack a filter")
    figures.count(verified=len(verified))
    return figures


def _all(paths: list[Path]) -> set[tuple[str, str]]:
    return {(str(path), column) for path in paths for column in ("id", "name")}


def _memory(pid: int) -> int:
    try:
        return memory(pid)
    except (OSError, IndexError):
        return 0
