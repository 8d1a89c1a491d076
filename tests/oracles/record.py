"""Records what the reference classes make of `extremes`, for the tests that run without Java.

    PARQUET_BLOOM_ORACLES=jars PYTHONPATH=tests python tests/oracles/record.py

The folder of jars is the one that `.ci/oracles` fetches. Paimon's releases must agree. Goes into the entries that say
`recorded` of `tests/filters/paimon_vectors.json` and `tests/filters/hudi/vectors.json`.
"""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import extremes
from reference_classes import RELEASES, asked

TESTS = Path(__file__).resolve().parents[1]


def paimon() -> None:
    """Records the hash of every value."""
    path = TESTS / "filters" / "paimon_vectors.json"
    kept = [each for each in json.loads(path.read_text("utf-8")) if "recorded" not in each]
    drawn = [(kind, value) for kind, values in extremes.PAIMON.items() for value in values]
    lines = [f"hash\t{kind}\t{extremes.spelled(value)}" for kind, value in drawn]
    first, *others = (asked("PaimonReference.java", lines, release) for release in RELEASES)
    assert len(first) == len(drawn)
    assert all(other == first for other in others)
    by = ", ".join(RELEASES)
    made = [
        {"kind": "hash", "type": kind, "value": value, "hash_hex": f"{int(hashed):016x}", "recorded": by}
        for (kind, value), hashed in zip(drawn, first, strict=True)
    ]
    _write(path, "[", kept + made, "]")


def hudi() -> None:
    """Records filters of every size, what they answer, and the least and greatest key."""
    path = TESTS / "filters" / "hudi" / "vectors.json"
    found = json.loads(path.read_text("utf-8"))
    kept = [each for each in found["filters"] if "recorded" not in each]
    keys, others = extremes.HUDI_KEYS[::2], extremes.HUDI_KEYS[1::2]
    lines = [extremes.hudi_question(*size, keys, keys + others) for size in extremes.HUDI_SIZES]
    made = []
    for (kind, entries, fpp, bound), answer in zip(
        extremes.HUDI_SIZES, asked("HudiReference.java", lines), strict=True
    ):
        text, bits, _, low, high = answer.split("\t")
        _, hashes, hash_type, num_bits = struct.unpack_from(">iibi", base64.b64decode(text))
        least, greatest = (base64.b64decode(key).decode() for key in (low, high))
        probes = [[key, bit == "1"] for key, bit in zip(keys + others, bits, strict=True)]
        made.append(
            {"name": f"extreme_{kind}_{entries}_{fpp}", "type_code": kind, "m": num_bits, "k": hashes}
            | {"hash_type": hash_type, "num_entries": entries, "fpp": fpp, "max_entries": bound, "keys": keys}
            | {"base64": text, "probes": probes, "min_key": least, "max_key": greatest, "recorded": "hudi-common 1.0.2"}
        )
    found["filters"] = kept + made
    parts = []
    for name, entries in found.items():
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        parts.append(f'"{name}": [\n{lines}\n]')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def _write(path: Path, start: str, entries: list[dict[str, Any]], end: str) -> None:
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    path.write_text(f"{start}\n{lines}\n{end}\n", "utf-8")


if __name__ == "__main__":
    paimon()
    hudi()
