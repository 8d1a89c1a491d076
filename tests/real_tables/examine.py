"""Makes a table of a kind, and puts every verb to it."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from real_tables.asking import SEED, Examination
from real_tables.kinds import Bench, Build
from real_tables.rows import Rows
from real_tables.sessions import JARS


def examine(engine: str, title: str, build: Build, spark: Any, work: Path) -> None:
    """Fails where a row is lost; what became of each verb goes into the folder's `results`."""
    scratch = work / "rows"
    scratch.mkdir()
    made = build(Bench(spark, work, Rows(SEED, scratch), f"t{zlib.crc32(title.encode())}"))
    examination = Examination(engine, title, Path(str(JARS)) / "results")
    try:
        examination.run(made.views, column=made.column, add=made.add, verb=made.verb)
    finally:
        examination.conclude()
