"""Some system calls fail, come short, or are a process's last: files are old or new, and nothing lies.

`.ci/fuzz` tries every call of every verb; here it is a sample.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the layer preloads a library, and wraps Linux's calls")
def test_a_call_that_fails_breaks_no_rule(tmp_path: Path) -> None:
    if (compiler := shutil.which("gcc") or shutil.which("cc")) is None:
        if os.environ.get("CI"):
            pytest.fail("there is no C compiler")
        pytest.skip("there is no C compiler")
    library = tmp_path / "faults.so"
    source = HERE / "faults.c"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, capture_output=True
    )
    every = os.environ.get("PARQUET_BLOOM_FAULTS_EVERY", "2000")
    command = [sys.executable, "-W", "ignore", HERE / "verbs.py", tmp_path, "--every", every]
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=36000, check=False)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line for line in lines if "wrong" in line] == []
    assert ran.returncode == 0, ran.stderr[-3000:]
    totals = {line["verb"]: line for line in lines}
    assert all(line["calls"] > 0 for line in totals.values()), totals
    assert sum(totals["add"]["tried"].values()) > 0
    if every == "1":
        print(ran.stdout)
