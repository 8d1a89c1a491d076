"""Hudi's own classes make the same filters, and answer the same of them.

`PARQUET_BLOOM_ORACLES` names a folder of jars: hudi-common and hudi-io, and Hadoop's client with slf4j, which PySpark
ships. Without them, or without Java, the tests are skipped.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
from pathlib import Path

import extremes
import pytest
from reference_classes import JARS, asked

from parquet_bloom.filters.hudi import (
    MAX_KEY,
    MIN_KEY,
    DynamicFilter,
    SimpleFilter,
    build,
    decode_text,
    encode_text,
    parse,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not JARS or not any(Path(JARS).glob("hudi-common-*.jar")) or not shutil.which("java"),
        reason="PARQUET_BLOOM_ORACLES names no folder of Hudi's jars, or there is no Java",
    ),
]

CASES = 600


def key(rng: random.Random) -> str:
    return "".join(rng.choice("abc019:,-é日😀\ue000\uffff") for _ in range(rng.randint(1, 20)))


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
        questions = [*rng.sample(keys, min(len(keys), 20)), *(key(rng) for _ in range(20))]
        reload = rng.choice([-1, rng.randint(0, len(keys))])
        lines.append("\t".join(map(str, (kind, entries, fpp, bound, reload, packed(keys), packed(questions)))))
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
        answers = "".join(map(str, made.check([word.encode() for word in questions])))
        ours.append(f"{encode_text(made.to_bytes())}\t{answers}")
    answered = asked("HudiReference.java", lines)
    assert ["\t".join(answer.split("\t")[:2]) for answer in answered] == ours
    assert bounded > CASES // 20


def test_filters_of_keys_at_the_ends_are_those_recorded() -> None:
    path = Path(__file__).parents[1] / "filters" / "hudi" / "vectors.json"
    recorded = [vector for vector in json.loads(path.read_text("utf-8"))["filters"] if "recorded" in vector]
    lines = [
        extremes.hudi_question(*size, vector["keys"], [key for key, _ in vector["probes"]])
        for size, vector in zip(extremes.HUDI_SIZES, recorded, strict=True)
    ]
    for vector, answer in zip(recorded, asked("HudiReference.java", lines), strict=True):
        text, bits, _, low, high = answer.split("\t")
        assert (text, [bit == "1" for bit in bits]) == (vector["base64"], [found for _, found in vector["probes"]])
        keys = [base64.b64decode(key).decode() for key in (low, high)]
        assert keys == [vector["min_key"], vector["max_key"]]


def test_the_least_and_greatest_of_random_keys_are_hudis_own() -> None:
    rng = random.Random(6)
    drawn = [[key(rng) for _ in range(rng.randint(1, 12))] for _ in range(300)]
    answers = asked("HudiReference.java", [extremes.hudi_question("SIMPLE", 20, 0.1, 0, keys, []) for keys in drawn])
    for keys, answer in zip(drawn, answers, strict=True):
        entries = build(keys, type="SIMPLE", num_entries=20, fpp=0.1)
        low, high = (base64.b64decode(found).decode() for found in answer.split("\t")[3:])
        assert (entries[MIN_KEY], entries[MAX_KEY]) == (low, high)
