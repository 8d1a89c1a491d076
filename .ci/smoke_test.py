"""The main job with an installed package, in an empty directory: exits with 1 if anything is not as it should be."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom


def cli(*arguments: str) -> int:
    return subprocess.run(["parquet-bloom", *arguments], check=False, capture_output=True).returncode


def main() -> None:
    assert Path(parquet_bloom.__file__).is_relative_to(sys.prefix), parquet_bloom.__file__
    values = list(range(0, 20_000, 2))
    pq.write_table(pa.table({"id": values, "name": [f"n{v}" for v in values]}), "a.parquet", row_group_size=1000)
    original = Path("a.parquet").read_bytes()

    assert cli("add", "a.parquet", "-c", "id", "-c", "name") == 0
    assert Path("a.parquet").read_bytes().startswith(original)
    assert pq.read_table("a.parquet")["id"].to_pylist() == values
    assert cli("inspect", ".") == 0
    assert cli("verify", "a.parquet") == 0
    assert cli("probe", "a.parquet", "id", "4242") == 0
    assert cli("probe", "a.parquet", "name", "nobody") == 1
    assert cli("probe", "a.parquet", "nowhere", "1") == 2
    rows = parquet_bloom.probe("a.parquet", "id", values).rows
    found = [row for row in rows if row.answer == parquet_bloom.MIGHT_MATCH]
    assert len(values) <= len(found) < 2 * len(values)
    assert cli("drop", "a.parquet", "--restore") == 0
    assert Path("a.parquet").read_bytes() == original


if __name__ == "__main__":
    main()
