"""pyarrow, which treats NULL and NaN in its own way, finds no rows in what its filters prune here."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from verbs.prune.test_no_row_lost import by_us, check, rows_of
from verbs.prune.worlds import KINDS, Column, World

from parquet_bloom.errors import LiteralError
from parquet_bloom.verbs.prune import prune

OPS = ("=", "!=", "<", "<=", ">", ">=", "in", "not in")


@pytest.mark.parametrize("kind", KINDS)
def test_pyarrow_finds_nothing_in_what_is_pruned(tmp_path: Path, kind: str) -> None:
    rng, path, values = random.Random(kind), tmp_path / "f.parquet", KINDS[kind].values
    world = World((Column("c0", kind, "plain"),), tuple((cell,) for cell in (*values, None, None)), 1)
    by_us(world, path)
    table, held = world.table(), rows_of(path)
    for _ in range(60):
        filters = [("c0", op := rng.choice(OPS), _value(kind, op, rng))]
        try:
            truth = set(table.filter(pq.filters_to_expression(filters))["k"].to_pylist())
            pruning = prune(path, filters, timezone="UTC")
        except (pa.ArrowException, LiteralError, ArithmeticError, ValueError, TypeError):
            continue
        check(pruning, held, truth)


def _value(kind: str, op: str, rng: random.Random) -> Any:
    literals = [*KINDS[kind].values, *KINDS[kind].literals, None]
    first = rng.choice(literals)
    if "in" not in op:
        return first
    # Arrow gives a mixed list one type, and cuts datetimes to dates for it.
    alike = [literal for literal in literals if literal is None or type(literal) is type(first)]
    return rng.sample(alike, rng.randrange(1, min(4, len(alike) + 1)))
