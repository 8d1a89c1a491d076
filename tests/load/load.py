"""Puts a load on the verbs: `load.py [--files N] [--seconds N] [--seed N] [--kills N] [--folder FOLDER] [PART ...]`.

Prints a line of JSON for each part, and ends with 1 if a rule was broken.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import adding
import indexing
import reading
import writing
from figures import Figures
from lake import Kinds, Lake

PARTS = ["read", "write", "index", "add"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="by default all")
    parser.add_argument("--files", type=int, default=100_000, help="of the lake that is read; a tenth is written")
    parser.add_argument("--seconds", type=float, default=60, help="for which files are read, and written")
    parser.add_argument("--kills", type=int, default=50, help="of writers of an index")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where a temporary folder is made")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="parquet-bloom-load-", dir=given.folder)).resolve()
    try:
        kinds = Kinds(folder / "kinds", given.seed)
        parts: dict[str, Callable[[], Figures]] = {
            "read": lambda: reading.read(Lake(folder / "lake", given.files, kinds), kinds, given.seconds, given.seed),
            "write": lambda: writing.write(folder / "written", kinds, given.seconds, given.seed),
            "index": lambda: indexing.index(folder / "indexed", kinds, given.kills, given.seed),
            "add": lambda: adding.add(folder / "added", kinds, -(-given.files // 10)),
        }
        broken = 0
        for name in given.parts or PARTS:
            figures = parts[name]()
            broken += len(figures.broken)
            print(figures.line(), flush=True)
    finally:
        shutil.rmtree(folder)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
