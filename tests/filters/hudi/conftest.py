"""Tables that Hudi itself wrote, unpacked, and what it read from them after each step."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[3] / "fixtures" / "hudi"


@dataclass(frozen=True)
class Lake:
    """A table, and the steps that made it: operation, instant, files, and rows of (key, file name, value)."""

    root: Path
    steps: list[dict[str, Any]]

    def files(self) -> list[Path]:
        """Returns every base file, live or not."""
        return sorted(path for path in self.root.rglob("*.parquet") if path.name[0] not in "._")


@pytest.fixture
def unpacked(tmp_path: Path) -> Any:
    def unpack(name: str) -> Lake:
        with zipfile.ZipFile(FIXTURES / f"{name}.zip") as packed:
            packed.extractall(tmp_path / name)
        return Lake(tmp_path / name, json.loads((FIXTURES / f"{name}.json").read_text("utf-8")))

    return unpack
