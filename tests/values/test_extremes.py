"""Arrow has dates and times that Python has not: they are compared and shown, and nothing breaks on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import parquet_bloom
from parquet_bloom import lookup, probe, prune
from parquet_bloom.cli.commands import main
from parquet_bloom.errors import LiteralError
from parquet_bloom.predicates.tree import col
from parquet_bloom.values.encoding import literal_text

BEYOND: dict[str, pa.Scalar] = {
    "timestamp[s]": pa.scalar(10**12, pa.timestamp("s")),
    "timestamp[s], far beyond": pa.scalar(2**52, pa.timestamp("s")),
    "timestamp[us, UTC]": pa.scalar(2**62, pa.timestamp("us", "UTC")),
    "timestamp[ms], an unknown zone": pa.scalar(5, pa.timestamp("ms", "No/Where")),
    "date32": pa.scalar(-(10**9), pa.date32()),
    "date32, beyond 9999": pa.scalar(3_000_000, pa.date32()),
    "date64": pa.scalar(2**62 // 86_400_000 * 86_400_000, pa.date64()),
}


def of_numpy(value: pa.Scalar) -> str:
    """Returns the value as NumPy prints it, whose years have no end."""
    if not pa.types.is_timestamp(value.type):
        unit = 1 if value.type == pa.date32() else 86_400_000
        return str(np.datetime64(value.value // unit, "D"))
    return str(np.datetime64(value.value, value.type.unit)) + ("Z" if value.type.tz else "")


INSIDE: dict[str, pa.Scalar] = {
    "nanoseconds": pa.scalar(1, pa.timestamp("ns")),
    "time": pa.scalar(1, pa.time64("us")),
    "date": pa.scalar(1, pa.date32()),
    "text": pa.scalar("é"),
}


@pytest.mark.parametrize("kind", BEYOND)
def test_a_value_beyond_pythons_is_shown(kind: str) -> None:
    assert literal_text(BEYOND[kind]) == of_numpy(BEYOND[kind])
    assert literal_text(BEYOND[kind], repr)


@pytest.mark.parametrize("kind", INSIDE)
def test_a_value_that_python_has_is_shown_as_it_is(kind: str) -> None:
    assert literal_text(INSIDE[kind]) == str(INSIDE[kind])


def test_a_number_of_too_many_digits_is_shown() -> None:
    assert literal_text(10**5000) == "the literal"


@pytest.mark.parametrize("kind", BEYOND)
@pytest.mark.parametrize("bound", [True, False], ids=["statistics", "none"])
def test_the_verbs_take_it(tmp_path: Path, kind: str, bound: bool) -> None:
    value = BEYOND[kind]
    path = tmp_path / "f.parquet"
    column = pa.timestamp("us", getattr(value.type, "tz", None) and "UTC")
    stored = pa.array([0], pa.int32()).cast(pa.date32()) if "date" in kind else pa.array([0], column)
    pq.write_table(pa.table({"c": stored}), path, write_statistics=bound)
    parquet_bloom.add(path, ["c"])
    (row,) = probe(path, "c", value, timezone="UTC").rows
    assert row.value == of_numpy(value)
    for where in (col("c") == value, col("c") > value, col("c").isin([value]), col("c").between(value, value)):
        found = prune(path, where, timezone="UTC")
        assert len(found.rows) == 1
        assert found.explain()
    for keys in ([value], [value, pa.scalar(0, value.type)], pa.array([value.value], value.type)):
        assert lookup(path, "c", keys, timezone="UTC").to_arrow().num_rows == len(keys)


@pytest.mark.parametrize("kind", BEYOND)
def test_a_column_that_it_cannot_be_compared_with_is_an_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"c": ["a"]}), path)
    value = BEYOND[kind]
    for verb in (
        lambda: probe(path, "c", value),
        lambda: prune(path, col("c") == value),
        lambda: lookup(path, "c", [value]),
    ):
        with pytest.raises(LiteralError, match="cannot be compared"):
            verb()


@pytest.mark.parametrize("kind", BEYOND)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_file_of_such_keys_is_looked_up(tmp_path: Path, kind: str, form: list[str]) -> None:
    value = BEYOND[kind]
    keys, path = tmp_path / "keys.parquet", tmp_path / "f.parquet"
    array: Any = pa.array([value.value], value.type)
    pq.write_table(pa.table({"c": array}), keys)
    column = pa.array([0], pa.date32()) if "date" in kind else pa.array([0], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"c": column}), path)
    result = CliRunner().invoke(main, ["lookup", str(path), "--column", "c", "--keys", str(keys), *form])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.exit_code in (0, 1), result.output
