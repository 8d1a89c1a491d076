"""Files for the load, and the truth about them: which of them have a key."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Collection
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom

KINDS, KEYS, MOST_ID = 200, 60, 40_000
REPEATS = 8
"""Of each row: DuckDB writes filters of columns with dictionaries alone."""
DUCKDB, UNFILTERED = (1, 3, 5, 7), (9,)
"""The last digits of the kinds that DuckDB writes, and of those that have no filters."""

FOLDER_FILES = 1000


class Kinds:
    """Some differing files, of pyarrow with our filters, of DuckDB with its own, and a few without any.

    Few keys are in more than one of them, and statistics exclude none. A name is made of the id beside it.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        dice = random.Random(f"kinds {seed}")
        folder.mkdir(parents=True)
        self.paths = [folder / f"{number}.parquet" for number in range(KINDS)]
        self.holding: dict[int, set[int]] = {}
        self.tables = []
        with duckdb.connect() as connection:
            for number, path in enumerate(self.paths):
                ids = [0, MOST_ID, *dice.sample(range(1, MOST_ID), KEYS)] * REPEATS
                for one in ids:
                    self.holding.setdefault(one, set()).add(number)
                table = pa.table({"id": pa.array(ids, pa.int64()), "name": list(map(name_of, ids))})
                self.tables.append(table)
                if number % 10 in DUCKDB:
                    connection.register("given", table)
                    connection.sql("FROM given").write_parquet(str(path), row_group_size=2048)
                else:
                    pq.write_table(table, path, row_group_size=len(ids) // 2)
        ours = [path for number, path in enumerate(self.paths) if number % 10 not in (*DUCKDB, *UNFILTERED)]
        added = parquet_bloom.add(ours, ["id", "name"])
        assert all(row.status == "written" for row in added), added.errors

    def key(self, dice: random.Random) -> int:
        """Returns an id that some files have, or sometimes one that none has."""
        while (key := dice.randrange(1, MOST_ID)) not in self.holding and dice.random() < 0.8:
            pass
        return key


def name_of(key: int) -> str:
    return f"name {key * 7919 % 1_000_003:06}"


def condition(key: int, dice: random.Random) -> str:
    return dice.choice([f"id = {key}", f"name = '{name_of(key)}'", f"id = {key} AND name = '{name_of(key)}'"])


class Lake:
    """Very many files, in folders of a thousand: hard links of some kinds, for reading."""

    def __init__(self, root: Path, count: int, kinds: Kinds) -> None:
        self.root, self.count, self._kinds = root, count, kinds
        self.folders = [root / f"{number:05}" for number in range(-(-count // FOLDER_FILES))]
        for number in range(count):
            if number % FOLDER_FILES == 0:
                self.folders[number // FOLDER_FILES].mkdir(parents=True)
            kind = kinds.paths[number % KINDS]
            try:
                os.link(kind, self.path(number))
            except OSError:  # a file has as many links as it may have, or there are none
                shutil.copy(kind, self.path(number))

    def path(self, number: int) -> Path:
        return self.folders[number // FOLDER_FILES] / f"part-{number:08}.parquet"

    def files(self, place: Path) -> range:
        """Returns the numbers of the files of a folder, or of the lake."""
        if place == self.root:
            return range(self.count)
        first = int(place.name) * FOLDER_FILES
        return range(first, min(first + FOLDER_FILES, self.count))

    def lost(self, place: Path, key: int, kept: Collection[str]) -> list[str]:
        """Returns the files that have a key and are not among those that were kept."""
        owners = self._kinds.holding.get(key, set())
        true = [str(self.path(number)) for number in self.files(place) if number % KINDS in owners]
        return sorted(set(true).difference(kept))


def temporary_files(folder: Path) -> list[str]:
    """Returns the names below a folder that no reader should see, of which none may be left."""
    return [name for _, _, names in os.walk(folder) for name in names if re.search(r"^\.|\.tmp$", name)]
