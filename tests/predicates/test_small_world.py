"""No verdict loses a row and no mask is wrong: a sample of what `.ci/prove predicates` tries."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import prove_predicates
import pytest
from prove_predicates import Share, Tally, prove_column, prove_partitions, prove_reading, prove_rows, prove_table
from small_world import KINDS, Kind, X

from parquet_bloom.predicates import evaluation
from parquet_bloom.predicates.tree import Comparison, In, IsNull
from parquet_bloom.values import encoding

DOUBLE, _, INT64, STRING = KINDS
SEED = 0 if "CI" in os.environ else random.randrange(1_000_000)


@pytest.mark.parametrize("kind", [DOUBLE, INT64, STRING], ids=lambda kind: kind.name)
def test_no_row_of_a_sample_is_lost(kind: Kind) -> None:
    tests = random.Random(SEED).sample(prove_predicates.tests_of(kind, X), 6)
    share, tally = Share(SEED % 60, step=60), Tally()
    scene, found = prove_column(kind, tally, share, tests=tests)
    prove_partitions(kind, tally, share, scene, found)
    prove_reading(kind, tally, share, found)
    prove_rows([kind], tally, share)
    assert tally.cases > 1000
    assert tally.differences == 0, f"seed {SEED}"


def test_and_is_the_lowest_rank_and_or_the_highest() -> None:
    tally = Tally()
    prove_table(tally)
    assert tally == Tally(78, 0)


@pytest.mark.parametrize(
    ("kind", "test", "place", "mistake"),
    [
        (DOUBLE, Comparison(">", X, 2.0), (evaluation, "is_float"), lambda leaf: False),
        (INT64, IsNull(X), (evaluation.ColumnStatistics, "null_count"), property(lambda known: known[1] or 0)),
        (INT64, Comparison("<", X, 1), (evaluation.ColumnStatistics, "low"), property(lambda known: known[3])),
        (DOUBLE, Comparison("=", X, 0.0), (encoding, "both_zeros"), lambda width: ()),
        (INT64, In(X, (1, 2)), (evaluation.Literals, "within"), lambda literals, known: []),
    ],
)
def test_a_mistake_is_noticed(
    kind: Kind, test: Any, place: tuple[Any, str], mistake: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*place, mistake)
    tally = Tally()
    prove_column(kind, tally, Share(step=20), tests=[test])
    assert tally.differences
