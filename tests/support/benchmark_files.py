"""The files that the benchmarks work on: made once, kept between runs.

About 1 GB, and 3 GB more for Spark's lake of 4,000 files, in the system's folder for temporary files or in
`PARQUET_BLOOM_BENCHMARK_DIR`.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUPS = 8


def random_ids(dice: np.random.Generator, count: int) -> pa.Array:
    """Returns `count` random strings of 32 hexadecimal digits."""
    digits = pa.py_buffer(dice.bytes(16 * count).hex().encode())
    offsets = pa.py_buffer(np.arange(0, 32 * count + 1, 32, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), count, [None, offsets, digits])


def row_group(dice: np.random.Generator, count: int) -> pa.Table:
    columns = {"id": random_ids(dice, count), "number": pa.array(dice.integers(0, 2**40, count))}
    columns |= {f"x{i}": pa.array(dice.random(count)) for i in range(10)}
    return pa.table(columns)


def events(rows: int) -> Path:
    """Returns the main sample: ids, 40-bit integers and ten doubles in eight row groups, zstd."""
    path = folder() / f"events-{rows}-{ROW_GROUPS}.parquet"
    if not path.exists():
        dice = np.random.default_rng(7)
        with _made(path) as unfinished:
            schema = row_group(dice, 1).schema
            with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
                for _ in range(ROW_GROUPS):
                    writer.write_table(row_group(dice, rows // ROW_GROUPS), rows // ROW_GROUPS)
    return path


def one_row_group(rows: int) -> Path:
    """Returns a file with one row group of ids."""
    path = folder() / f"ids-{rows}.parquet"
    if not path.exists():
        ids = pa.table({"id": random_ids(np.random.default_rng(8), rows)})
        with _made(path) as unfinished:
            pq.write_table(ids, unfinished, row_group_size=rows, compression="zstd")
    return path


def lake(files: int) -> Path:
    """Returns a folder of files with four row groups of 10,000 ids each, and pyarrow's filters at 1 %."""
    made = folder() / f"lake-{files}"
    if not made.exists():
        dice = np.random.default_rng(9)
        unfinished = made.with_suffix(".unfinished")
        unfinished.mkdir(exist_ok=True)
        for number in range(files):
            ids = pa.table({"id": random_ids(dice, 40_000)})
            filters = {"id": {"ndv": 10_000, "fpp": 0.01}}
            pq.write_table(
                ids,
                unfinished / f"{number:04}.parquet",
                row_group_size=10_000,
                compression="zstd",
                use_dictionary=False,
                bloom_filter_options=filters,
            )
        unfinished.rename(made)
    return made


def a_key(lake: Path) -> str:
    """Returns an id from the middle of a lake."""
    files = sorted(lake.glob("*.parquet"))
    group = pq.ParquetFile(files[len(files) // 2]).read_row_group(1, columns=["id"])
    return str(group["id"][5000].as_py())


def folder() -> Path:
    named = os.environ.get("PARQUET_BLOOM_BENCHMARK_DIR")
    folder = Path(named) if named else Path(tempfile.gettempdir(), "parquet-bloom-benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class _made:
    """Gives a temporary name and renames it to `path` when all went well."""

    def __init__(self, path: Path) -> None:
        self._path, self._unfinished = path, path.with_suffix(".unfinished")

    def __enter__(self) -> Path:
        return self._unfinished

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._unfinished.rename(self._path)
