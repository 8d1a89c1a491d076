"""Asks the reference classes of Paimon and Hudi: a program of `tests/oracles` gets lines, and gives one for each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

JARS = os.environ.get("PARQUET_BLOOM_ORACLES")
RELEASES = ("paimon-0.9", "paimon-1.4")


def asked(program: str, lines: Iterable[str], release: str | None = None) -> list[str]:
    """Returns the program's answers, with the jars of a release or those that all have."""
    path = f"{JARS}/*" if release is None else f"{JARS}/*:{JARS}/{release}/*"
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g"]  # for programs as short as these
    command = ["java", *quick, "-cp", path, str(Path(__file__).parent.parent / "oracles" / program)]
    text = "".join(f"{line}\n" for line in lines)
    ran = subprocess.run(command, input=text, capture_output=True, check=False, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()
