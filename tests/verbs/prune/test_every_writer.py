"""Files that six engines wrote: what is asked about their own values is found in what is kept."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from files import FIXTURES, PYARROW_CANNOT, SOUND, names, opened
from verbs.prune.test_no_row_lost import check_exact
from verbs.prune.worlds import duckdb_literal

from parquet_bloom.errors import LiteralError
from parquet_bloom.predicates.tree import Comparison, In, IsNull, Predicate
from parquet_bloom.verbs import exact
from parquet_bloom.verbs.prune import prune

pytestmark = pytest.mark.engines

ASKABLE = (bool, int, float, Decimal, str, bytes, date, datetime, time)
VALUES = 3
"""How many values of each column are probed."""


WAS_FOUND = "was read, and the value is in it"


@pytest.mark.parametrize("name", names(SOUND))
def test_values_are_found_in_what_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "INDEX_WORTH", 0)  # page indexes are used where there are any
    path = FIXTURES / name
    file = pq.ParquetFile(path)
    for leaf in opened(path)[1].leaves:
        if leaf.is_repeated or leaf.name in PYARROW_CANNOT.get(name, ()):
            continue
        rows = in_memory(file, leaf.path)
        if rows is None:
            continue
        with rows as connection:
            for node, sql in asked_of(connection, leaf.path):
                try:
                    found = {g for (g,) in connection.execute(f"SELECT DISTINCT g FROM t WHERE {sql}").fetchall()}
                    verdicts = prune(path, node, timezone="UTC").rows
                    read = prune(path, node, timezone="UTC", exact=True).rows
                except (duckdb.Error, LiteralError):
                    continue
                lost = [group for group in (*verdicts, *read) if group.row_group in found and not group.is_kept]
                assert not lost, f"{node}: {lost}"
                check_exact(verdicts, read)
                assert not [g for g in read if g.reason.endswith(WAS_FOUND) and g.row_group not in found], node


def in_memory(file: Any, path: tuple[str, ...]) -> duckdb.DuckDBPyConnection | None:
    """Returns a table `t` of a column's values and their row groups, None where Arrow or DuckDB has no such type."""
    connection = duckdb.connect()
    try:
        connection.execute("SET TimeZone = 'UTC'")
        tables = []
        for group in range(file.num_row_groups):
            column = file.read_row_group(group, columns=[path[0]]).column(0).combine_chunks()
            for part in path[1:]:
                column = pc.struct_field(column, part)
            tables.append(pa.table({"g": pa.array([group] * len(column), pa.int64()), "c": column}))
        connection.register("arrow_rows", pa.concat_tables(tables))
        connection.execute("CREATE TABLE t AS SELECT * FROM arrow_rows")
    except (duckdb.Error, pa.ArrowException, OSError):
        return None
    return connection


def asked_of(connection: duckdb.DuckDBPyConnection, path: tuple[str, ...]) -> list[tuple[Predicate, str]]:
    try:
        stored = [
            v for (v,) in connection.execute("SELECT DISTINCT c FROM t WHERE c IS NOT NULL ORDER BY c").fetchall()
        ]
    except duckdb.Error:  # of a type that DuckDB does not give to Python
        return []
    values = [v for v in stored[:: max(1, len(stored) // VALUES)] if isinstance(v, ASKABLE)]
    asked: list[tuple[Predicate, str]] = [(IsNull(path), "c IS NULL"), (IsNull(path, True), "c IS NOT NULL")]
    for value in values:
        text = duckdb_literal(value)
        asked += [(Comparison(op, path, value), f"c {op} {text}") for op in ("=", "<", "<=", ">", ">=", "<>")]
        asked.append((Comparison("<", path, value, True), f"NOT (c < {text})"))
    if values:
        asked.append((In(path, tuple(values)), f"c IN ({', '.join(map(duckdb_literal, values))})"))
    return asked
