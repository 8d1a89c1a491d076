"""Small files for the tests: the fixtures by name, tables written fresh, and what a folder holds."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom.format.footer import Footer, read_footer
from parquet_bloom.storage.drive import run
from parquet_bloom.storage.listing import Source, find

FIXTURES = Path(__file__).parents[2] / "fixtures"
ENTRIES = json.loads((FIXTURES / "MANIFEST.json").read_text("utf-8"))
DAMAGED = [e["file"] for e in ENTRIES if e["file"].startswith("damaged/")]
PLAIN = [e["file"] for e in ENTRIES if e["file"].endswith(".parquet") and not e.get("encrypted")]
SOUND = [name for name in PLAIN if name not in DAMAGED]
PYARROW_CANNOT = {e["file"]: e["pyarrow_cannot"] for e in ENTRIES if "pyarrow_cannot" in e}
SMALL = "pyarrow/small.parquet"


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def index_folder(root: Path) -> Path:
    """Returns where the index of a directory is."""
    return root.with_name(f"{root.name}.bloom-index")


def index_files(root: Path) -> dict[str, Path]:
    """Returns the files of a directory's index, by the names that the index itself uses."""
    return {path.name.removeprefix("_bloom-"): path for path in index_folder(root).glob("_bloom-*")}


def unpacked(name: str, folder: Path) -> Path:
    """Unpacks a table of Hudi's or Paimon's into a folder; returns the table's own."""
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as packed:
        packed.extractall(folder)
    return folder if name.startswith("hudi") else folder / "table"


def names(files: Iterable[str]) -> list[Any]:
    return [pytest.param(name, id=name.removesuffix(".parquet")) for name in files]


def table(rows: int = 1000, first: int = 0) -> pa.Table:
    ids = range(first, first + rows)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"name {i:06}" for i in ids]})


def write(path: Path, rows: int = 1000, **options: Any) -> bytes:
    """Writes a file without filters in four row groups; returns its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(rows), path, row_group_size=max(1, -(-rows // 4)), **options)
    return path.read_bytes()


def footer_bytes(data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[len(data) - 8 - length : len(data) - 8]


def with_footer(data: bytes, footer: bytes) -> bytes:
    """Returns a file with its footer exchanged."""
    start = len(data) - 8 - len(footer_bytes(data))
    return data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def opened(path: Path | str) -> tuple[Source, Footer]:
    (source,) = find(str(path))
    return source, run(source, read_footer(source.size))


def snapshot(folder: Path) -> dict[str, bytes | str | None]:
    """Returns every path below a folder with its bytes; a link's are where it leads, a directory has none."""
    return {str(p.relative_to(folder)): _content(p) for p in sorted(folder.rglob("*"))}


def _content(path: Path) -> bytes | str | None:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    return None if path.is_dir() else path.read_bytes()


def statuses(result: Any) -> list[str]:
    return [row.status for row in result.rows]


def only_error(result: Any) -> str:
    """Returns the error of the one file that was refused."""
    (row,) = result.rows
    assert row.status == "refused"
    return row.error


def blob(num_bytes: int, first: int = 0) -> bytes:
    """Returns a file of a little more than so many bytes, with four row groups of 500 ids."""
    payload = num_bytes // 2000
    noise = np.random.default_rng(first).bytes(2000 * payload)
    table = pa.table(
        {
            "id": np.arange(first, first + 2000) * 3,
            "payload": [noise[i * payload : (i + 1) * payload] for i in range(2000)],
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=500, compression="none", use_dictionary=False)
    return buffer.getvalue()
