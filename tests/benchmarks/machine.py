"""What a run's figures depend on: the machine, its load, and the versions of all programs."""

from __future__ import annotations

import datetime
import os
import platform
import re
import shutil
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PROGRAMS = (
    "parquet-bloom",
    "pyarrow",
    "duckdb",
    "polars",
    "datafusion",
    "chdb",
    "pyspark",
    "deltalake",
    "pyiceberg",
    "numpy",
)

PACKAGE = "parquet_bloom"

BUSY = 0.5
"""The load of an idle machine stays below that."""


def machine(folder: Path) -> dict[str, Any]:
    """Returns the machine, with the disk that `folder` is on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory": f"{memory / 2**30:.0f} GiB",
        "disk": f"{_file_system(folder)}, {_written(folder) / 1e6:,.0f} MB/s written and synced",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
    }


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PROGRAMS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if java := shutil.which("java"):
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
        found["java"] = re.findall(r'version "([^"]+)"', said)[0]
    return found


def commit(root: Path) -> str | None:
    """Returns the last commit that changed the package, with a plus sign if its files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "-uno", "--", PACKAGE)
        return git("log", "-1", "--format=%h", "--", PACKAGE) + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def load() -> float:
    """Returns how many processes ran or waited on average in the last minute."""
    return round(os.getloadavg()[0], 1)


def _cpu() -> str:
    try:
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor()


def _file_system(folder: Path) -> str:
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    found = [(len(point), kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    return max(found)[1]


def _written(folder: Path, size: int = 256_000_000) -> float:
    """Returns the bytes of a large file that are written in a second."""
    path, block = folder / f"written-{os.getpid()}", os.urandom(1_000_000)
    start = time.perf_counter()
    try:
        with path.open("wb") as file:
            for _ in range(size // len(block)):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        return size / (time.perf_counter() - start)
    finally:
        path.unlink(missing_ok=True)
