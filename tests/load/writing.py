"""Two processes add and drop filters of the same files without end, while others read all of them."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import Figures, Log, processes
from lake import KINDS, MOST_ID, UNFILTERED, Kinds, condition, temporary_files

import parquet_bloom

WRITERS, FILES = 2, 30
CONCURRENT = re.compile(
    r"changed since it was read; nothing was written|changed while it was read|was removed meanwhile"
    r"|is being written by another parquet-bloom|became shorter|was removed or replaced; nothing was written"
)
"""What a `ConcurrentChangeError` says in a row of a result."""

STEPS: list[Callable[[str], Any]] = [
    lambda folder: parquet_bloom.add(folder, "id", jobs=2),
    lambda folder: parquet_bloom.drop(folder, jobs=2),
    lambda folder: parquet_bloom.add(folder, ["name", "id"], replace=True, jobs=2),
    lambda folder: parquet_bloom.drop(folder, "id", jobs=2),
    lambda folder: parquet_bloom.add(folder, "name", jobs=2),
    lambda folder: parquet_bloom.drop(folder, restore=True, jobs=2),
]


def write(folder: Path, kinds: Kinds, seconds: float, seed: int) -> Figures:
    figures = Figures("write", files=FILES, writers=WRITERS, readers=len(READERS))
    folder.mkdir()
    numbers = [number for number in range(KINDS) if number % 10 in UNFILTERED] * 2
    old = {folder / f"{at}.parquet": kinds.paths[number] for at, number in enumerate(numbers[:FILES])}
    for path, kind in old.items():
        path.write_bytes(kind.read_bytes())
    truth = {str(path): kinds.tables[int(kind.stem)] for path, kind in old.items()}
    context = processes()
    together = context.Barrier(WRITERS + len(READERS))
    logs = [folder.with_name(f"log{number}") for number in range(WRITERS + len(READERS))]
    works: list[Any] = [(_write, (str(folder), logs[n], together, seconds, n)) for n in range(WRITERS)]
    works += [
        (_read, (str(folder), logs[WRITERS + n], together, seconds, seed, reader, truth))
        for n, reader in enumerate(READERS)
    ]
    started = [context.Process(target=target, args=arguments) for target, arguments in works]
    for process in started:
        process.start()
    for process, log in zip(started, logs, strict=True):
        process.join(timeout=600)
        figures.require(process.exitcode == 0, f"a process ended with {process.exitcode}")
        process.kill()
        figures.take(log)
    figures.require(not (left := temporary_files(folder)), f"temporary files are left: {left[:3]}")
    for path, kind in old.items():
        figures.require(path.read_bytes().startswith(kind.read_bytes()), f"{path} does not begin with the old file")
    for add in (False, True):
        if add:
            done = parquet_bloom.add(folder, ["id", "name"])
            figures.require(not done.errors, f"add after all: {done.errors[:3]}")
        verified = parquet_bloom.verify(folder)
        figures.require(verified.is_sound, f"verify: {(*verified.findings, *verified.errors)[:3]}")
        figures.count(verified=len(verified))
    figures.require(len(verified) >= 2 * FILES, f"{len(verified)} filters")
    return figures


def _write(folder: str, log_path: Path, together: Any, seconds: float, number: int) -> None:
    log = Log(log_path)
    together.wait()
    end = time.monotonic() + seconds
    for step in itertools.cycle(STEPS[number:] + STEPS[:number]):
        if time.monotonic() > end:
            break
        try:
            rows = step(folder).rows
        except Exception as error:
            log([f"writer {number}: {error!r}"])
            raise
        refused = [row for row in rows if row.error]
        strange = [f"writer {number}: {row}" for row in refused if not CONCURRENT.search(row.error)]
        written = sum(row.status == "written" for row in rows)
        log(strange, calls=1, written=written, refused_as_concurrent=len(refused) - len(strange))


# ---- readers ---------------------------------------------------------------------------------


def _read(
    folder: str, log_path: Path, together: Any, seconds: float, seed: int, reader: str, truth: dict[str, Any]
) -> None:
    log, dice = Log(log_path), random.Random(f"{seed} {reader}")
    together.wait()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            broken = READERS[reader](folder, truth, dice)
        except Exception as error:
            broken = [f"{reader}: {error!r}"]
        log(broken, **{f"reads_{reader}": len(truth)})


def _with_pyarrow(folder: str, truth: dict[str, Any], dice: random.Random) -> list[str]:
    import pyarrow.parquet as pq

    return [f"{path}: other rows" for path, table in truth.items() if not pq.read_table(path).equals(table)]


def _with_duckdb(folder: str, truth: dict[str, Any], dice: random.Random) -> list[str]:
    import duckdb
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.concat_tables(truth.values())
    key = dice.choice(rows["id"].to_pylist() + list(range(1, MOST_ID, 97)))
    with duckdb.connect(config={"threads": 1}) as connection:
        source = f"FROM read_parquet('{folder}/*.parquet')"
        found = connection.execute(f"SELECT count(*), sum(id), min(name), max(name) {source}").fetchone()
        (count,) = connection.execute(f"SELECT count(*) {source} WHERE {condition(key, dice)}").fetchone() or (None,)
    names = pc.min_max(rows["name"]).as_py()
    true = (len(rows), pc.sum(rows["id"]).as_py(), names["min"], names["max"])
    of_key = pc.sum(pc.equal(rows["id"], key)).as_py()
    return [f"duckdb: {found}, {count}, not {true}, {of_key}"] if (found, count) != (true, of_key) else []


def _with_prune(folder: str, truth: dict[str, Any], dice: random.Random) -> list[str]:
    path, table = dice.choice(list(truth.items()))
    key = dice.choice(table["id"].to_pylist())
    true = {one for one, rows in truth.items() if key in rows["id"].to_pylist()}
    pruned = parquet_bloom.prune(folder, condition(key, dice))
    strange = [str(row) for row in pruned.errors if not CONCURRENT.search(row.not_pruned or "")]
    lost = true - set(pruned.paths)
    return strange + ([f"{key} is in {lost}"] if lost or path not in true else [])


def _with_verify(folder: str, truth: dict[str, Any], dice: random.Random) -> list[str]:
    verified = parquet_bloom.verify(folder)
    strange = [str(file) for file in verified.files if file.error and not CONCURRENT.search(file.error)]
    return strange + [str(row) for row in verified.findings if not CONCURRENT.search(row.cause or "")]


READERS = {"pyarrow": _with_pyarrow, "duckdb": _with_duckdb, "prune": _with_prune, "verify": _with_verify}
