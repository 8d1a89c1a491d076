"""Adds and drops the filters of one file for ever, in a process of its own."""

from __future__ import annotations

import itertools
import multiprocessing
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from parquet_bloom import add, drop

COLUMNS = ["id", "name"]
STEPS = [
    lambda path: add(path, "id", jobs=1),
    lambda path: add(path, COLUMNS, jobs=1),
    lambda path: drop(path, "id"),
    lambda path: add(path, COLUMNS, replace=True, jobs=1),
    lambda path: drop(path, restore=True),
]


def _run(path: str, started: Connection) -> None:
    add([], "id")  # what is imported late is imported now
    for number, step in enumerate(itertools.cycle(STEPS)):
        if number == 1:
            started.send(None)
        (row,) = step(path).rows
        assert row.status == "written", row


@contextmanager
def churning(path: Path) -> Any:
    """Yields the process once it has written for the first time; leaving the block kills it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["churn", "parquet_bloom.verbs.add", "fsspec.implementations.local"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(str(path), theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield process
        assert process.is_alive() or process.exitcode == -9, process.exitcode
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()
