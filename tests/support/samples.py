"""The files of `fixtures/`, what their manifest says of them, and their copies with our filters."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from kinds import footer_of

import parquet_bloom
from parquet_bloom.format.schema import LeafColumn
from parquet_bloom.values.encoding import why_unbuildable

FIXTURES = Path(__file__).parents[2] / "fixtures"
ENTRIES: list[dict[str, Any]] = json.loads((FIXTURES / "MANIFEST.json").read_text("utf-8"))
DAMAGED = [e for e in ENTRIES if e["file"].startswith("damaged/")]
SOUND = [e for e in ENTRIES if e not in DAMAGED and not e.get("encrypted") and e["file"].endswith(".parquet")]
FILES = [e["file"] for e in SOUND]

RICH = [
    *(f"{engine}/plain_types.parquet" for engine in ("pyarrow", "duckdb", "datafusion", "clickhouse", "spark")),
    *(f"pyarrow/{name}.parquet" for name in ("spark_types", "int96", "decimal_bytes", "decimal_integers", "names")),
    *(f"spark/{name}.parquet" for name in ("legacy", "int96", "millis", "nested")),
    "polars/all_types.parquet",
]
"""Files of many types, whose columns are worth asking for many values."""

EDGES = (
    *("0", "1", "-1", "42", "127", "-128", "-129", "255", "256", "32767", "-32768", "65535", "2147483647"),
    *("-2147483648", "4294967295", "9223372036854775807", "-9223372036854775808", "18446744073709551615"),
    *("0.0", "-0.0", "0.5", "-0.01", "1.28", "-1.29", "inf", "-inf", "nan", "1e-45", "5e-324"),
    *("", " ", "a", "A", "b", "été", "ß", "日本語", "🦜", "'", '"quoted"', "NaN", "name-3", "true"),
    *("1970-01-01", "1969-12-31", "2000-02-29", "0001-01-01", "9999-12-31", "00:00:00", "23:59:59.999999"),
    *("1970-01-01 00:00:00", "1969-12-31 23:59:59.999", "9999-12-31 23:59:59.999999", "2023-11-14 22:13:20.123456"),
    *("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
)
"""Texts that every column is asked for if its type takes them; some are there and some are not."""


def named(entries: Iterable[dict[str, Any]]) -> list[Any]:
    return [pytest.param(e, id=e["file"]) for e in entries]


def supported(path: Path | str) -> list[LeafColumn]:
    """Returns the leaves of a file that `add` gives filters."""
    return [leaf for leaf in footer_of(path).leaves if not why_unbuildable(leaf)]


def plain_leaves(path: Path | str) -> list[LeafColumn]:
    """Returns those of them that a row holds once at most: columns and struct leaves."""
    return [leaf for leaf in supported(path) if not leaf.is_repeated]


def retrofit(path: Path, output: Path) -> Path:
    """Writes a copy in which every column that `add` supports has our filter wherever there are values."""
    entry = next((e for e in SOUND if FIXTURES / e["file"] == path), {})
    columns = [leaf.name for leaf in supported(path) if leaf.name not in entry.get("pyarrow_cannot", ())]
    if not columns:
        return path
    (row,) = parquet_bloom.add(path, columns, output=output, replace=True, accept_hazards=True).rows
    assert row.error is None
    return output if row.status == "written" else path


def bare(path: Path, output: Path) -> Path:
    """Writes a copy whose footer names no filters: some engines' own filters lose rows, ours are not to."""
    (row,) = parquet_bloom.drop(path, output=output).rows
    assert row.error is None
    return output if row.status == "written" else path


def sample(values: Iterable[Any], most: int) -> list[Any]:
    """Returns the least, the greatest, and others between, the same in every run."""
    values = sorted(set(values))
    if len(values) <= most:
        return values
    return [values[0], values[-1], *random.Random(most).sample(values[1:-1], max(0, most - 2))][:most]
