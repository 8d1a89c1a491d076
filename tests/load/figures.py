"""What a part of the load counted, from several threads and processes, and the rules that it found broken."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Self


class Figures:
    """Counts under names; `broken` has a sentence for each rule that did not hold."""

    def __init__(self, part: str, **known: Any) -> None:
        self.part, self.known = part, known
        self.counts = Counter[str]()
        self.broken: list[str] = []
        self._lock = threading.Lock()
        self._start = time.monotonic()

    def count(self, **counts: int) -> None:
        with self._lock:
            self.counts.update(counts)

    def require(self, holds: object, sentence: str) -> None:
        if not holds:
            with self._lock:
                self.broken.append(sentence)

    def take(self, log: Path) -> None:
        """Adds what a process has written with `Log`; a line that a kill has cut off does not count."""
        for line in log.read_text("utf-8").splitlines(keepends=True) if log.exists() else ():
            if line.endswith("\n"):
                said = json.loads(line)
                self.count(**said.get("counts", {}))
                self.broken += said.get("broken", ())

    def line(self) -> str:
        seconds = round(time.monotonic() - self._start)
        said = {"part": self.part, **self.known, **self.counts, "seconds": seconds, "broken": len(self.broken)}
        return json.dumps(said if not self.broken else {**said, "wrong": self.broken[:20]})


def processes() -> Any:
    """Returns what starts processes, each of which has imported what takes long."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["duckdb", "pyarrow.compute", "pyarrow.parquet", "writing", "indexing"])
    return context


class Log:
    """A file to which a process that may be killed appends what it did."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, broken: list[str] | None = None, **counts: int) -> None:
        os.write(self._fd, (json.dumps({"counts": counts, "broken": broken or []}) + "\n").encode())


class Watch:
    """Notes the most memory and the most open files of this process while a block runs."""

    def __enter__(self) -> Self:
        self.memory = self.files = 0
        self.files_before, self.threads_before = _open_files(), _threads()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._stop.wait(0.1):
            self.memory, self.files = max(self.memory, memory()), max(self.files, _open_files())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.files_after, self.threads_after = _open_files(), _threads()


def memory(pid: int | str = "self") -> int:
    """Returns the bytes of memory that a process has in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _threads() -> int:
    return threading.active_count()
