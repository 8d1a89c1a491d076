"""Every kind of Delta and Iceberg table: rows go by `erase`, or by the statements of `erase_plan`, and nothing is left.

A search of its own looks for the numbers of the rows, and for their other values that no other row has, in all bytes
below the table's directory, packed or not.
"""

from __future__ import annotations

import gzip
import io
import os
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from real_tables.kinds import Bench, Build
from real_tables.rows import RID, Rows

from parquet_bloom import UnsupportedError, erase, erase_plan, erased

FIRST = 0x5A3C_7E9B_1D42
"""The first number of a row: other numbers do not have such bytes by chance."""


# ---- the search to compare with ----------------------------------------------------------


def decoded(path: Path) -> Iterator[bytes]:
    """Yields what a file has, by other readers: its bytes, and what they unpack to."""
    data = path.read_bytes()
    yield data
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)
    elif data[:4] == b"PAR1":
        table = pq.read_table(io.BytesIO(data))
        for name in table.column_names:
            yield from (one.tobytes() if hasattr(one, "tobytes") else bytes(one) for one in buffers(table[name]))
    elif data[:4] == b"Obj\x01":
        for record in fastavro.reader(io.BytesIO(data)):
            yield from values(record)


def buffers(column: Any) -> Iterator[Any]:
    for chunk in column.chunks:
        yield from (memoryview(one) for one in chunk.buffers() if one is not None)


def values(record: Any) -> Iterator[bytes]:
    match record:
        case dict():
            for value in record.values():
                yield from values(value)
        case list():
            for value in record:
                yield from values(value)
        case bytes():
            yield record
        case _:
            yield str(record).encode()


def places(root: Path, numbers: list[int]) -> set[str]:
    """Returns the files that have one of some large numbers, as text or in eight bytes."""
    forms = [form for one in numbers for form in (str(one).encode(), one.to_bytes(8, "little", signed=True))]
    return {
        str(path)
        for path in sorted(root.rglob("*"))
        if path.is_file() and any(form in data for data in decoded(path) for form in forms)
    }


# ---- erasing -----------------------------------------------------------------------------


def make(title: str, build: Build, spark: Any, work: Path) -> tuple[Any, Bench, str, list[Any]]:
    """Returns a table, the column with its rows' own numbers, and its rows."""
    scratch = work / "rows"
    scratch.mkdir()
    bench = Bench(spark, work, Rows(1, scratch, FIRST), f"l{zlib.crc32(title.encode())}")
    view = build(bench).views[0]
    rows = [row.asDict() for row in view.read().collect()]
    names = [name for name, value in rows[0].items() if isinstance(value, int) and value >= RID]
    if not names:
        pytest.skip("its rows have no numbers of their own")
    rows.sort(key=lambda row: row[names[0]])
    return view.table, bench, names[0], rows


def large(rows: list[Any], gone: list[Any]) -> list[int]:
    """Returns large numbers and instants of rows that are to go, which no other row has."""
    counted = Counter(number for row in rows for number in numbers_of(row))
    return [number for row in gone for number in numbers_of(row) if counted[number] == 1]


def numbers_of(row: dict[str, Any]) -> Iterator[int]:
    for name, value in row.items():
        if isinstance(value, int) and abs(value) >= RID and not name.startswith("_"):
            yield value
        elif hasattr(value, "timestamp"):
            micros = round(value.timestamp()) * 10**6 + value.microsecond
            if abs(micros) > 10**12:
                yield pa.scalar(value, pa.timestamp("us")).value


def go(known: Any, column: str, keys: list[int]) -> str:
    """Erases rows, and returns why that was refused."""
    try:
        result = erase(known, column, keys, table=True)
    except UnsupportedError as error:
        return str(error)
    return " ".join(str(row.error) for row in result.errors)


def said(left: Any) -> list[str]:
    found = [f"{row.place}: {row.found}" for row in left]
    return [*found, *(f"{error.path}: {error.error}" for error in left.errors)]


def require_alike(found: Any, ours: set[str]) -> None:
    """Fails unless both searches found the same files."""
    theirs = {row.path for row in found}
    assert theirs == ours, (sorted(theirs - ours), sorted(ours - theirs), said(found))


def erase_from_delta(title: str, build: Build, spark: Any, work: Path) -> None:
    """Fails where something is left of rows that were erased."""
    known, _, column, rows = make(title, build, spark, work)
    gone = [rows[len(rows) // 3], rows[len(rows) // 2], rows[-1]]
    keys = [row[column] for row in gone]
    others = large(rows, gone)
    require_alike(erased(known, column, keys), places(Path(known), keys))
    refused = go(known, column, keys)
    for step in erase_plan(known, column, keys):
        if step.statement.startswith("VACUUM"):
            spark.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
            spark.sql(f"{step.statement} RETAIN 0 HOURS")
        elif not step.statement.startswith("ALTER"):
            spark.sql(step.statement)
    left = erased(known, column, keys)
    assert {row.place for row in left} <= {"log", "checkpoint"}, said(left)
    require_alike(left, places(Path(known), keys))
    later(spark, str(known))
    left = erased(known, column, keys)
    if any("outside of its directory" in error.error for error in left.errors):
        return  # what a clone shares with its source is another table's
    if "inCommitTimestamp" in "".join(path.read_text() for path in Path(known, "_delta_log").glob("*.json")):
        assert {row.place for row in left} <= {"log", "checkpoint"}, said(left)  # whose time no test can change
        return
    assert left.is_nowhere, (refused, said(left))
    assert not places(Path(known), others)


def later(spark: Any, root: str) -> None:
    """Has the log's time pass: its files look old, and a checkpoint is written."""
    name = f"delta.`{root}`"
    quick = {"logRetentionDuration": "interval 1 days", "deletedFileRetentionDuration": "interval 0 days"}
    for properties in (quick | {"checkpointInterval": "1"}, {"checkpointInterval": "2"}):
        listed = ", ".join(f"'delta.{name}' = '{value}'" for name, value in properties.items())
        make_old(Path(root, "_delta_log"))
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({listed})")


def make_old(folder: Path) -> None:
    """Has all files look five days old."""
    old = time.time() - 5 * 86400
    for path in folder.rglob("*"):
        os.utime(path, (old, old))


def erase_from_iceberg(title: str, build: Build, spark: Any, work: Path) -> None:
    """Fails where something is left of rows that were erased."""
    known, bench, column, rows = make(title, build, spark, work)
    gone = [rows[len(rows) // 3], rows[len(rows) // 2], rows[-1]]
    keys = [row[column] for row in gone]
    others = large(rows, gone)
    root = Path(known if isinstance(known, str) else "/" + known.location().removeprefix("file:").lstrip("/"))
    require_alike(erased(known, column, keys), places(root, keys))
    refused = go(known, column, keys)
    catalog = "dir" if isinstance(known, str) else known.catalog.name
    try:
        steps = erase_plan(known, column, keys)
    except UnsupportedError:  # it is not known which version is current, or there are files of ORC
        assert not erased(known, column, keys).is_nowhere
        return
    if any("gc.enabled" in step.why for step in steps):
        return  # its files are another table's
    for step in steps:
        if "remove_orphan_files" in step.statement:
            make_old(root)
        spark.sql(step.statement.replace("<catalog>", catalog).replace("<namespace>.<table>", f"n.{bench.name}"))
    left = erased(known, column, keys)
    assert left.is_nowhere, (refused, said(left))
    assert not places(root, others)
