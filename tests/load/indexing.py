"""Two processes write one index without end and are killed, while data files come and go and `prune` asks."""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
import time
from pathlib import Path
from typing import Any
from unittest import mock

from figures import Figures, Log, processes
from lake import KINDS, Kinds, condition, temporary_files

import parquet_bloom
from parquet_bloom import ConcurrentChangeError, IndexNotFoundError
from parquet_bloom.filters import index_versions
from parquet_bloom.filters.index import newest
from parquet_bloom.filters.index_folder import folder_of
from parquet_bloom.storage import listing

WRITERS, FILES, ASKS = 2, 200, 4


class Changing:
    """A folder whose files come, go and get other rows; `kinds` are those that they are now."""

    def __init__(self, root: Path, kinds: Kinds, dice: random.Random) -> None:
        self.root, self._kinds, self._dice = root, kinds, dice
        self.kinds: dict[str, int] = {}
        self._names = itertools.count()
        root.mkdir()
        for _ in range(FILES):
            self.put(f"{next(self._names)}.parquet")

    def put(self, name: str) -> None:
        kind = self._dice.randrange(KINDS)
        new = self.root.with_name("new.parquet")
        shutil.copy(self._kinds.paths[kind], new)
        new.replace(self.root / name)
        self.kinds[str(self.root / name)] = kind

    def change(self) -> None:
        for _ in range(3):
            self.put(f"{next(self._names)}.parquet")
            gone, other = self._dice.sample(sorted(self.kinds), 2)
            Path(gone).unlink()
            del self.kinds[gone]
            self.put(Path(other).name)

    def holding(self, key: int) -> set[str]:
        owners = self._kinds.holding.get(key, set())
        return {path for path, kind in self.kinds.items() if kind in owners}


def index(root: Path, kinds: Kinds, kills: int, seed: int) -> Figures:
    figures = Figures("index", files=FILES, writers=WRITERS)
    dice = random.Random(f"{seed} index")
    with mock.patch.object(listing, "MTIME_STABLE_SECONDS", -1):
        changing = Changing(root, kinds, dice)
        parquet_bloom.index.create(root, ["id", "name"])
        context = processes()
        log = root.with_name("index.log")
        begun = itertools.count()

        def begin() -> Any:
            process = context.Process(
                target=_write, args=(str(root), log, f"{seed} {next(begun)}", ready := context.Event()), daemon=True
            )
            process.start()
            ready.wait()
            return process

        writers = [begin() for _ in range(WRITERS)]
        try:
            for _ in range(kills):
                changing.change()
                for _ in range(ASKS):
                    _ask(changing, kinds, dice, figures)
                time.sleep(dice.uniform(0, 1))
                victim = dice.randrange(WRITERS)
                figures.require(writers[victim].is_alive(), f"a writer ended with {writers[victim].exitcode}")
                writers[victim].kill()
                writers[victim].join()
                figures.count(kills=1)
                _ask(changing, kinds, dice, figures)
                writers[victim] = begin()
        finally:
            for writer in writers:
                writer.kill()
                writer.join()
        figures.take(log)
        for _ in range(20):
            _ask(changing, kinds, dice, figures)
        _finish(changing, kinds, dice, figures)
    return figures


def _write(root: str, log_path: Path, seed: str, ready: Any) -> None:
    log, dice = Log(log_path), random.Random(seed)
    listing.MTIME_STABLE_SECONDS = -1  # files are replaced here, never written to
    ready.set()
    while True:
        step = dice.choice(["create", "create", "create", "refresh", "refresh", "refresh", "refresh", "drop"])
        columns = dice.choice(["id", "name", ["id", "name"]])
        try:
            if step == "create":
                state = parquet_bloom.index.create(root, columns, fpp=dice.choice([0.1, 0.01]), jobs=2)
            elif step == "refresh":
                state = parquet_bloom.index.refresh(root, jobs=2)
            else:
                state = parquet_bloom.index.drop(root)
        except ConcurrentChangeError:
            log(refused_as_concurrent=1)
        except IndexNotFoundError:  # the other writer has dropped it
            log(not_found=1)
        except Exception as error:
            log([f"index {step}: {error!r}"])
        else:
            log(writes=1, rows_built=state.built, **{f"index_{step}": 1})


def _ask(changing: Changing, kinds: Kinds, dice: random.Random, figures: Figures) -> None:
    key = kinds.key(dice)
    true = changing.holding(key)
    pruned = parquet_bloom.prune(changing.root, condition(key, dice))
    figures.require(not (lost := true - set(pruned.paths)), f"prune: {key} is in {lost}")
    figures.require(not pruned.errors, f"prune: {pruned.errors[:3]}")
    found = parquet_bloom.lookup(changing.root, "id", [key])
    kept = {row["path"] for batch in found for row in batch.to_pylist()}
    figures.require(not (lost := true - kept), f"lookup: {key} is in {lost}")
    figures.count(reads=2)


def _finish(changing: Changing, kinds: Kinds, dice: random.Random, figures: Figures) -> None:
    """Requires that the index can be brought up to date, and that nothing else is left in its folder."""
    state = parquet_bloom.index.create(changing.root, ["id", "name"])
    figures.require(not state.errors, f"create after all: {state.errors[:3]}")
    figures.require(not any(row.files_missing for row in state), f"files are missing: {state.rows}")
    for _ in range(20):
        _ask(changing, kinds, dice, figures)
    with mock.patch.object(index_versions, "GRACE_SECONDS", -1):
        parquet_bloom.index.refresh(changing.root)
    folder = folder_of(str(changing.root))
    latest = newest(folder)
    assert latest is not None
    left = set(folder.names()) - {latest.version.name, *latest.version.files}
    figures.require(not left, f"left in the index: {sorted(left)[:5]}")
    with contextlib.suppress(FileNotFoundError):
        figures.require(not (left := set(temporary_files(changing.root))), f"temporary files: {sorted(left)[:5]}")
    for _ in range(20):
        _ask(changing, kinds, dice, figures)
