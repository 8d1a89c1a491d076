"""The time of Paimon's filters as ratios to its own classes, warmed up. Not part of the usual tests:

PARQUET_BLOOM_ORACLES=FOLDER pytest tests/benchmarks/test_paimon_filters.py -m benchmark -s -n0

FOLDER is what `.ci/oracles` fetches jars into. A machine that does other things at the same time may fail them.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarking import Bench, Taken

from parquet_bloom.filters import paimon
from parquet_bloom.filters.paimon import PaimonFilter, build

JARS = os.environ.get("PARQUET_BLOOM_ORACLES")
pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(not JARS or not shutil.which("java"), reason="PARQUET_BLOOM_ORACLES names no folder of jars"),
]

KEYS = 1_000_000


@pytest.fixture(scope="module", params=["paimon-0.9", "paimon-1.4"])
def theirs(request: pytest.FixtureRequest) -> tuple[str, dict[str, tuple[Taken, Taken]]]:
    """Returns a release, and by type what it takes for a key, to build and to probe."""
    source = Path(__file__).parent.parent / "oracles" / "PaimonSpeed.java"
    command = ["java", "-cp", f"{JARS}/*:{JARS}/{request.param}/*", str(source), str(KEYS)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    taken = {}
    for line in told:
        kind, *nanoseconds = line.split("\t")
        built, probed = (Taken((float(each) * 1e-9,)) for each in nanoseconds)
        taken[kind] = built, probed
    return request.param.replace("paimon-", "Paimon "), taken


def best(taken: Taken) -> Taken:
    """Returns the best turn for a key, as Java's program tells it."""
    return Taken((min(taken.seconds) / KEYS,))


@pytest.mark.parametrize("kind", ["BIGINT", "STRING"])
def test_build_and_probe(bench: Bench, kind: str, theirs: tuple[str, dict[str, tuple[Taken, Taken]]]) -> None:
    rng = random.Random(7)
    numbers = [rng.randrange(-(2**63), 2**63) for _ in range(KEYS)]
    keys: tuple[Any, ...] = tuple(numbers if kind == "BIGINT" else [f"{n % 2**128:032x}" for n in numbers])
    array = pa.array(keys)
    bloom = PaimonFilter(build(array, kind, items=KEYS), ("x",), kind)

    def forget() -> None:
        paimon._Recent.entries = ()

    def measured(call: Any, before: Any = lambda: None) -> Taken:
        return best(bench.measure({"": call}, turns=7, before=before)[""])

    release, (their_building, their_probing) = theirs[0], theirs[1][kind]
    for what, ours, others in (
        ("build", measured(lambda: build(array, kind, items=KEYS)), their_building),
        ("probe the first file", measured(lambda: bloom.might_contain(keys), forget), their_probing),
        ("probe another file", measured(lambda: bloom.might_contain(keys)), their_probing),
    ):
        bench.row("paimon", f"Paimon's filter of {kind}, one key", what, ours, release, others)
        if "first" not in what:
            bench.expect(ours.ratio(others), at_most=1.1)
