"""Many threads ask at once, about all files and about folders of them, while some of their calls are broken off."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

from figures import Figures, Watch
from lake import Kinds, Lake, condition, name_of

import parquet_bloom
from parquet_bloom import Cache

THREADS = 8
MOST_MEMORY, MEMORY_OF_A_FILE = 600 * 1024**2, 8 * 1024
"""What all calls may take at once: caches, what was imported, and answers about all files."""
MOST_OPEN_FILES = 8 * THREADS
MOST_KEPT = 0.3
"""A tenth has no filters, and those of others are right nearly always."""


class BrokenOff(Exception):
    """What a caller's own code raises amid a call."""


class Asking:
    def __init__(self, lake: Lake, kinds: Kinds, seconds: float, seed: int, figures: Figures) -> None:
        self.lake, self.kinds, self.seed, self.figures = lake, kinds, seed, figures
        self.end = time.monotonic() + seconds
        self.is_asking = False
        self.interrupts = 0

    def work(self, number: int) -> None:
        """Asks until time is up. Thread 1 asks about all files; the main thread, 0, is interrupted now and then."""
        dice = random.Random(f"{self.seed} {number}")
        asked = 0
        while time.monotonic() < self.end or (number == 1 and asked < 2):
            place = self.lake.root if number == 1 else dice.choice(self.lake.folders)
            breaks = dice.random() < 0.1 and number != 1
            try:
                self.is_asking = number == 0
                self.ask(place, dice, breaks=breaks)
                self.is_asking = False
                asked += 1
            except BrokenOff:
                self.figures.count(broken_off=1)
            except KeyboardInterrupt:
                self.figures.count(interrupted=1)
            except Exception as error:
                self.figures.require(False, f"thread {number}: {error!r}")
            finally:
                self.is_asking = False

    def ask(self, place: Path, dice: random.Random, *, breaks: bool) -> None:
        key = self.kinds.key(dice)
        size = len(self.lake.files(place))
        last = dice.randrange(size) if breaks else size

        def progress(done: int, of: int) -> None:
            if breaks and done > last:
                raise BrokenOff

        options: dict[str, Any] = {"progress": progress}
        is_cold = dice.random() < 0.3
        if is_cold:
            options["cache"] = Cache()
        match "prune" if place == self.lake.root and dice.random() < 0.5 else dice.choice(["prune", "lookup", "probe"]):
            case "prune":
                pruned = parquet_bloom.prune(place, condition(key, dice), **options)
                self.check(place, key, set(pruned.paths), len(pruned.errors))
                self.figures.count(prune=1)
            case "lookup":
                keys = [key, self.kinds.key(dice)]
                found = parquet_bloom.lookup(place, "id", keys, **options)
                rows = [row for batch in found for row in batch.to_pylist()]
                for one in set(keys):
                    kept = {row["path"] for row in rows if row["key"] == one and row["path"]}
                    self.check(place, one, kept, len(found.errors))
                self.figures.count(lookup=1)
            case "probe":
                options.pop("cache", None)
                column, value = dice.choice([("id", key), ("name", name_of(key))])
                answers = parquet_bloom.probe(place, column, value, **options)
                kept = {row.path for row in answers.rows if row.answer == "MIGHT_MATCH"}
                self.check(place, key, kept, len(answers.errors))
                self.figures.count(probe=1)
        self.figures.count(asked=1, files=size, cold=is_cold)

    def check(self, place: Path, key: int, kept: set[str], errors: int) -> None:
        lost = self.lake.lost(place, key, kept)
        self.figures.require(not lost, f"{key} is in {lost[:3]}, {len(lost)} in all, which are not among the answers")
        self.figures.require(not errors, f"{errors} files below {place} could not be read")
        most = len(self.lake.files(place)) * MOST_KEPT
        self.figures.require(len(kept) <= most, f"{key}: {len(kept)} files are kept below {place}")

    def interrupt(self) -> None:
        """Presses Ctrl-C now and then, while the main thread asks."""
        dice = random.Random(f"{self.seed} interrupts")
        while time.monotonic() < self.end:
            time.sleep(dice.uniform(0.2, 3))
            if self.is_asking:
                os.kill(os.getpid(), signal.SIGINT)

    def on_interrupt(self, *_: object) -> None:
        if self.is_asking:
            self.is_asking = False
            raise KeyboardInterrupt


def read(lake: Lake, kinds: Kinds, seconds: float, seed: int) -> Figures:
    figures = Figures("read", lake=lake.count, threads=THREADS)
    parquet_bloom.prune(lake.folders[0], "id = 1")  # what is imported late is imported now
    parquet_bloom.lookup(lake.folders[0], "id", [1]).to_arrow()
    asking = Asking(lake, kinds, seconds, seed, figures)
    before = signal.signal(signal.SIGINT, asking.on_interrupt)
    try:
        with Watch() as watch:
            threads = [threading.Thread(target=asking.work, args=(number,)) for number in range(1, THREADS)]
            threads.append(threading.Thread(target=asking.interrupt))
            for thread in threads:
                thread.start()
            asking.work(0)
            for thread in threads:
                thread.join(timeout=600)
                figures.require(not thread.is_alive(), "a thread hangs")
    finally:
        signal.signal(signal.SIGINT, before)
    figures.known |= {"memory_mib": watch.memory >> 20, "most_open_files": watch.files}
    bound = MOST_MEMORY + MEMORY_OF_A_FILE * lake.count
    figures.require(watch.memory < bound, f"{watch.memory:,} bytes of memory, of {bound:,}")
    figures.require(watch.files_after <= watch.files_before, f"{watch.files_after} open files: {watch.files_before}")
    figures.require(watch.files <= watch.files_before + MOST_OPEN_FILES, f"{watch.files} files were open at once")
    figures.require(watch.threads_after == watch.threads_before, f"threads are left: {threading.enumerate()}")
    return figures
