"""Files that six engines wrote: what is asked about their own values is found in what is kept."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pruning.worlds import duckdb_literal

from files import FIXTURES, PYARROW_CANNOT, SOUND, names, opened
from parquet_bloom.errors import LiteralError
from parquet_bloom.predicate import Comparison, In
from parquet_bloom.pruning import prune

OPS = ("=", "<", "<=", ">", ">=", "<>")
ASKABLE = (bool, int, float, Decimal, str, bytes, date, datetime, time)


@pytest.mark.parametrize("name", names(SOUND))
def test_values_are_found_in_what_is_kept(name: str) -> None:
    path = FIXTURES / name
    file = pq.ParquetFile(path)
    groups = range(file.num_row_groups)
    leaves = [leaf for leaf in opened(path)[1].leaves if not leaf.is_repeated and leaf.name not in PYARROW_CANNOT.get(name, ())]
    asked = 0
    for leaf in leaves:
        try:
            columns = [_column(file, group, leaf.path) for group in groups]
        except (pa.ArrowException, OSError, KeyError):
            continue
        values = _sample([value for column in columns for value in column.to_pylist()])
        for value in values:
            truths = _truths(columns, value)
            if truths is None:
                continue
            for node, truth in truths.items():
                try:
                    verdicts = prune(path, node, timezone="UTC").rows
                except LiteralError:
                    continue
                lost = {group.row_group for group in verdicts if not group.is_kept} & truth
                assert not lost, f"{node}: {[v for v in verdicts if v.row_group in lost]}"
                asked += 1
    assert asked or not leaves or not sum(file.metadata.row_group(group).num_rows for group in groups)


def _column(file: Any, group: int, path: tuple[str, ...]) -> pa.ChunkedArray:
    found = file.read_row_group(group, columns=[path[0]]).column(0)
    for part in path[1:]:
        found = pa.chunked_array([pa.compute.struct_field(chunk, part) for chunk in found.chunks], found.type.field(part).type)
    return found


def _sample(values: list[Any]) -> list[Any]:
    distinct = list({repr(value): value for value in values if type(value) in ASKABLE}.values())
    return distinct[:: max(1, len(distinct) // 4)]


def _truths(columns: list[pa.ChunkedArray], value: Any) -> dict[Any, set[int]] | None:
    """Returns in which row groups DuckDB, from memory, finds rows for each test with this value."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return {node: _groups(columns, sql) for node, sql in _tests(value)} if _is_known(columns) else None


def _is_known(columns: list[pa.ChunkedArray]) -> bool:
    try:
        with duckdb.connect() as connection:
            connection.register("t", pa.table({"c": columns[0]}))
            connection.execute("SELECT c FROM t").fetchone()
    except (duckdb.Error, pa.ArrowException):
        return False
    return True


def _groups(columns: list[pa.ChunkedArray], sql: str) -> set[int]:
    found = set()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for group, column in enumerate(columns):
            connection.register("t", pa.table({"c": column}))
            try:
                ((count,),) = connection.execute(f"SELECT count(*) FROM t WHERE {sql}").fetchall()
            except duckdb.Error:
                return set()
            if count:
                found.add(group)
    return found


def _tests(value: Any) -> list[tuple[Any, str]]:
    raise NotImplementedError
