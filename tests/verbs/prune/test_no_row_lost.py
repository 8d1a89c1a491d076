"""A pruned row group is a proof: no row that an engine finds in memory is ever lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from verbs.prune.worlds import (
    KINDS,
    ORACLES,
    Column,
    DuckDB,
    Oracle,
    Reference,
    World,
    conditions,
    sql_text,
    worlds,
    write,
)

import parquet_bloom
from parquet_bloom.errors import LiteralError
from parquet_bloom.predicates.tree import And, Comparison, In, Or, Predicate
from parquet_bloom.verbs import exact
from parquet_bloom.verbs.prune import prune
from parquet_bloom.verbs.verdicts import Pruning, RowGroupVerdict

PROOFS = {"statistics", "filter", "partition", "type", "data"}

EXAMPLES = int(os.environ.get("PARQUET_BLOOM_EXAMPLES", "20"))
"""Of each property; a few hundred take some minutes and are worth it after a change to evaluation."""

quick = settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@pytest.fixture(autouse=True)
def page_indexes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has page indexes read for chunks of any size."""
    monkeypatch.setattr(exact, "INDEX_WORTH", 0)


def rows_of(path: Path) -> dict[int, set[int]]:
    """Returns the row numbers of each row group."""
    file = pq.ParquetFile(path)
    return {
        group: set(file.read_row_group(group, columns=["k"])["k"].to_pylist()) for group in range(file.num_row_groups)
    }


def check(pruning: Pruning, held: dict[int, set[int]], truth: set[int]) -> None:
    """None of the rows in `truth` is in a row group that was pruned."""
    assert {group.row_group for group in pruning.rows} == set(held)
    for group in pruning.rows:
        assert group.reason
        if group.is_kept:
            assert group.by == ""
        else:
            assert group.by in PROOFS
            assert not truth & held[group.row_group], f"{pruning.where}: {group}"


def check_world(oracle: Oracle, wanted: list[Predicate], path: Path, zone: str = "UTC") -> None:
    held = rows_of(path)
    for condition in wanted:
        truth = oracle.matches(condition)
        result = prune(path, condition, timezone=zone)
        read = prune(path, condition, timezone=zone, exact=True)
        check_exact(result.rows, read.rows)
        if truth is not None:
            check(result, held, truth)
            check(read, held, truth)


def check_exact(plain: Sequence[RowGroupVerdict], read: Sequence[RowGroupVerdict]) -> None:
    """Reading columns only ever prunes more, and what it did not touch stays as it was."""
    for before, after in zip(plain, read, strict=True):
        if not before.is_kept:
            assert after == before
        elif not after.is_kept:
            assert after.by == "data"


def pyarrow_filters(world: World) -> dict[str, Any]:
    return {".".join(c.path): {"ndv": 64, "fpp": 0.001} for c in world.columns if c.kind not in ("bool", "float16")}


def by_pyarrow(world: World, path: Path) -> None:
    write(world, path, bloom_filter_options=pyarrow_filters(world), write_page_index=True, data_page_size=64)


def by_us(world: World, path: Path) -> None:
    write(world, path, statistics=False)
    names = [".".join(c.path) for c in world.columns if c.kind not in ("bool", "float16")]
    if names and world.rows:
        (row,) = parquet_bloom.add(path, names, fpp=0.001).rows
        assert row.error is None


@st.composite
def cases(draw: Any, *, spelled: bool = False, **limits: Any) -> tuple[World, list[Predicate]]:
    world = draw(worlds(**limits))
    return world, draw(st.lists(conditions(world, spelled=spelled), min_size=3, max_size=8))


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("store", [write, by_pyarrow, by_us])
@quick
@given(case=cases())
def test_no_row_is_lost(
    tmp_path: Path, store: Callable[[World, Path], None], oracle: Any, case: tuple[World, list[Predicate]]
) -> None:
    path = tmp_path / "f.parquet"
    world, wanted = case
    store(world, path)
    check_world(oracle(world), wanted, path)


@pytest.mark.parametrize("oracle", ORACLES)
@quick
@given(case=cases(spelled=True))
def test_no_row_is_lost_by_sql(tmp_path: Path, oracle: Any, case: tuple[World, list[Predicate]]) -> None:
    path = tmp_path / "f.parquet"
    world, wanted = case
    by_us(world, path) if len(world.rows) % 2 else by_pyarrow(world, path)
    rows, held = oracle(world), rows_of(path)
    for condition in wanted:
        truth = rows.matches(condition)
        try:
            result = prune(path, sql_text(condition), timezone="UTC")
        except LiteralError:
            continue
        if truth is not None:
            check(result, held, truth)


@pytest.mark.engines
@quick
@given(case=cases(), spelled=cases(spelled=True))
def test_duckdb_finds_what_the_reference_says(
    case: tuple[World, list[Predicate]], spelled: tuple[World, list[Predicate]]
) -> None:
    for world, wanted in (case, spelled):
        engine, reference = DuckDB(world), Reference(world)
        for condition in wanted:
            found, said = engine.matches(condition), reference.matches(condition)
            if found is not None and said is not None:
                assert reference.matches_in_all_readings(condition) <= found <= said, condition


ZONED_KINDS = tuple(k for k in KINDS if k.startswith(("timestamp", "date")) and k != "timestamp ns UTC")


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", None])
@quick
@given(data=st.data())
def test_no_row_is_lost_in_a_time_zone(tmp_path: Path, zone: str | None, oracle: Any, data: Any) -> None:
    path = tmp_path / "f.parquet"
    world, wanted = data.draw(cases(kinds=ZONED_KINDS))
    by_pyarrow(world, path)
    held = rows_of(path)
    rows = oracle(world, zone or data.draw(st.sampled_from(["UTC", "Asia/Tokyo"])))
    for condition in wanted:
        truth = rows.matches(condition)
        result = prune(path, condition, timezone=zone)
        if truth is not None:
            check(result, held, truth)


@pytest.mark.parametrize("oracle", ORACLES)
def test_a_wall_clock_beside_nanoseconds_with_a_zone(tmp_path: Path, oracle: Any) -> None:
    path, wall = tmp_path / "f.parquet", datetime(2024, 1, 1)
    world = World((Column("c0", "timestamp ns UTC", "plain"),), ((wall.replace(tzinfo=UTC),),), 1)
    by_us(world, path)
    check_world(oracle(world), [Comparison("=", ("c0",), wall)], path, zone="Europe/Berlin")


@pytest.mark.parametrize("oracle", ORACLES)
@quick
@given(case=cases(shapes=("plain", "required", "struct")))
def test_filter_lists_lose_no_row(tmp_path: Path, oracle: Any, case: tuple[World, list[Predicate]]) -> None:
    path = tmp_path / "f.parquet"
    world, wanted = case
    by_us(world, path)
    flat = [node for node in wanted if isinstance(node, Comparison | In) and "<=>" not in str(node)]
    tests = [_as_filter(node) for node in flat]
    rows, held = oracle(world), rows_of(path)
    for filters, condition in (
        (tests, And(tuple(flat))),
        ([[test] for test in tests], Or(tuple(flat))),
        ([tests[:1], tests[1:]], Or((And(tuple(flat[:1])), And(tuple(flat[1:]))))),
    ):
        if len(flat) > 1 and (truth := rows.matches(condition)) is not None:
            check(prune(path, filters, timezone="UTC"), held, truth)


def _as_filter(node: Predicate) -> tuple[str, str, Any]:
    match node:
        case Comparison(op, path, value):
            return ".".join(path), {"<>": "!="}.get(op, op), value
        case In(path, values):
            return ".".join(path), "in", set(values)
    raise AssertionError(node)


# ---- files by other engines --------------------------------------------------------------


def by_duckdb(world: World, folder: Path) -> None:
    engine = DuckDB(world)
    for part, rows in enumerate(_slices(world)):
        engine.copy_to(folder / f"{part}.parquet", f"k >= {rows.start} AND k < {rows.stop}")


def by_datafusion(world: World, folder: Path) -> None:
    from datafusion import SessionContext

    session, table = SessionContext(), world.table()
    session.register_record_batches("rows", [table.to_batches()])
    options = "'format.bloom_filter_on_write' 'true', 'format.bloom_filter_ndv' '64', 'format.bloom_filter_fpp' '0.001'"
    for part, rows in enumerate(_slices(world)):
        where = f"k >= {rows.start} AND k < {rows.stop}"
        path = folder / f"{part}.parquet"
        session.sql(
            f"COPY (SELECT * FROM rows WHERE {where}) TO '{path}' STORED AS PARQUET OPTIONS ({options})"
        ).collect()


def by_clickhouse(world: World, folder: Path) -> None:
    import chdb

    source = folder / "rows.arrow"
    table = world.table()
    with pa.ipc.new_file(source, table.schema) as file:
        file.write(table)
    settings_ = "engine_file_truncate_on_insert = 1, output_format_parquet_bloom_filter_flush_threshold_bytes = 0"
    for part, rows in enumerate(_slices(world)):
        where = f"k >= {rows.start} AND k < {rows.stop}"
        chdb.query(
            f"INSERT INTO FUNCTION file('{folder}/{part}.parquet', Parquet) "
            f"SELECT * FROM file('{source}', Arrow) WHERE {where} SETTINGS {settings_}"
        )


def _slices(world: World) -> Iterator[range]:
    step = max(world.group_rows, -(-len(world.rows) // 4), 1)
    for start in range(0, len(world.rows), step):
        yield range(start, min(start + step, len(world.rows)))


WRITABLE: dict[Callable[[World, Path], None], tuple[tuple[str, ...], tuple[str, ...]]] = {
    by_duckdb: (("plain", "struct", "list"), ("float16",)),
    by_datafusion: (("plain", "required", "struct"), ("decimal(20,2) bytes",)),
    by_clickhouse: (("plain", "required"), ("float16", "binary", "decimal(20,2) bytes", "time ms", "time us")),
}
"""What shapes of columns an engine is given, and what kinds it has not."""


@pytest.mark.engines
@pytest.mark.parametrize("store", WRITABLE, ids=lambda store: store.__name__)
@settings(quick, max_examples=max(1, EXAMPLES // 2))
@given(data=st.data())
def test_no_row_of_other_writers_is_lost(
    tmp_path_factory: Any, store: Callable[[World, Path], None], data: Any
) -> None:
    shapes, absent = WRITABLE[store]
    world, wanted = data.draw(cases(kinds=tuple(kind for kind in KINDS if kind not in absent), shapes=shapes))
    folder = tmp_path_factory.mktemp("written")
    if world.rows:
        store(world, folder)
    paths = sorted(folder.glob("*.parquet"))
    assert len(paths) == len(list(_slices(world)))
    for path in paths:
        # What the engine wrote is the truth, not what it was given: some clip dates.
        check_world(DuckDB(world, table=pq.read_table(path, schema=None)), wanted, path)
