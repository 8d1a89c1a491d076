"""The time of Paimon's filters as ratios to its own classes, warmed up. Not part of the usual tests:

PARQUET_BLOOM_ORACLES=FOLDER pytest tests/benchmarks/test_paimon.py -m benchmark -s -n0

FOLDER is what `.ci/oracles` fetches jars into. A machine that does other things at the same time may fail them.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parquet_bloom.filters import paimon
from parquet_bloom.filters.paimon import PaimonFilter, build

JARS = os.environ.get("PARQUET_BLOOM_ORACLES")
pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(not JARS or not shutil.which("java"), reason="PARQUET_BLOOM_ORACLES names no folder of jars"),
]

KEYS = 1_000_000
RUNS = 7


@pytest.fixture(scope="module", params=["paimon-0.9", "paimon-1.4"])
def theirs(request: pytest.FixtureRequest) -> dict[str, tuple[float, float]]:
    """Returns by type the nanoseconds that a release takes for a key, to build and to probe."""
    source = Path(__file__).parent.parent / "oracles" / "PaimonSpeed.java"
    command = ["java", "-cp", f"{JARS}/*:{JARS}/{request.param}/*", str(source), str(KEYS)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    print(f"\n{request.param}: nanoseconds a key, ours and theirs")
    return {kind: (float(built), float(probed)) for kind, built, probed in (line.split("\t") for line in told)}


def nanoseconds(call: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> float:
    taken = []
    for _ in range(RUNS):
        before()
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken) / KEYS * 1e9


@pytest.mark.parametrize("kind", ["BIGINT", "STRING"])
def test_build_and_probe(kind: str, theirs: dict[str, tuple[float, float]]) -> None:
    rng = random.Random(7)
    numbers = [rng.randrange(-(2**63), 2**63) for _ in range(KEYS)]
    keys: tuple[Any, ...] = tuple(numbers if kind == "BIGINT" else [f"{n % 2**128:032x}" for n in numbers])
    array = pa.array(keys)
    bloom = PaimonFilter(build(array, kind, items=KEYS), ("x",), kind)

    def forget() -> None:
        paimon._Recent.entries = ()

    built = nanoseconds(lambda: build(array, kind, items=KEYS))
    first = nanoseconds(lambda: bloom.might_contain(keys), before=forget)
    again = nanoseconds(lambda: bloom.might_contain(keys))
    for what, ours, his in (
        ("build", built, theirs[kind][0]),
        ("probe the first file", first, theirs[kind][1]),
        ("probe another", again, theirs[kind][1]),
    ):
        print(f"{kind} {what:<22}{ours:8.1f}{his:8.1f}  {his / ours:.1f} times as fast")
    assert built < theirs[kind][0]
    assert again < theirs[kind][1]
