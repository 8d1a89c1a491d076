"""Hudi's own classes make the same filters, and answer the same of them.

`PARQUET_BLOOM_WITNESSES` names a folder of jars: hudi-common and hudi-io, and Hadoop's client with slf4j, which PySpark
ships. Without them, or without Java, the tests are skipped.
"""

from __future__ import annotations

import base64
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from parquet_bloom.indexes.hudi import DynamicFilter, SimpleFilter, decode_text, encode_text, parse

JARS = os.environ.get("PARQUET_BLOOM_WITNESSES")
pytestmark = pytest.mark.skipif(
    not JARS or not any(Path(JARS).glob("hudi-common-*.jar")) or not shutil.which("java"),
    reason="PARQUET_BLOOM_WITNESSES names no folder of Hudi's jars, or there is no Java",
)

CASES = 600


def key(rng: random.Random) -> str:
    return "".join(rng.choice("abc019:,-é日😀") for _ in range(rng.randint(1, 20)))


def packed(words: list[str]) -> str:
    return ",".join(base64.b64encode(word.encode()).decode() for word in words)


def test_filters_are_hudis_own_byte_for_byte() -> None:
    rng = random.Random(5)
    lines, ours, bounded = [], [], 0
    for _ in range(CASES):
        kind = rng.choice(["SIMPLE", "DYNAMIC_V0", "DYNAMIC_V0"])
        entries, fpp = rng.randint(1, 30), rng.choice([0.3, 0.01, 1e-6])
        bound = entries * rng.randint(0, 5) + rng.randint(0, 3)
        keys = [key(rng) for _ in range(rng.randint(0, 6 * entries))]
        asked = [*rng.sample(keys, min(len(keys), 20)), *(key(rng) for _ in range(20))]
        reload = rng.choice([-1, rng.randint(0, len(keys))])
        lines.append("\t".join(map(str, (kind, entries, fpp, bound, reload, packed(keys), packed(asked)))))
        made = (
            SimpleFilter.sized_for(entries, fpp) if kind == "SIMPLE" else DynamicFilter.sized_for(entries, fpp, bound)
        )
        encoded = [word.encode() for word in keys]
        if 0 <= reload < len(keys):
            made.add(encoded[:reload])
            made = parse(decode_text(encode_text(made.to_bytes())), kind)
            encoded = encoded[reload:]
        made.add(encoded)
        bounded += isinstance(made, DynamicFilter) and len(keys) > entries * len(made.rows)
        answers = "".join(map(str, made.check([word.encode() for word in asked])))
        ours.append(f"{encode_text(made.to_bytes())}\t{answers}")
    command = ["java", "-cp", f"{JARS}/*", str(Path(__file__).with_name("HudiWitness.java"))]
    ran = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ours
    assert bounded > CASES // 20
