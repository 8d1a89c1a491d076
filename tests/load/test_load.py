"""A small load, of a second for each part but `add`; `.ci/load` puts a large one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="memory and open files are read from /proc")
def test_a_small_load_breaks_no_rule(tmp_path: Path) -> None:
    options = ["--files", "400", "--seconds", "1", "--kills", "2", "--folder", tmp_path]
    command = [sys.executable, "-W", "ignore", Path(__file__).with_name("load.py"), *options, "read", "write", "index"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    parts = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [part for part in parts if part["broken"]] == []
    assert ran.returncode == 0, ran.stderr[-3000:]
    read, write, index = parts
    assert read["asked"] >= read["threads"]
    assert write["written"] > 0
    assert min(write[name] for name in write if name.startswith("reads_")) > 0
    assert index["kills"] == 2
    assert list(tmp_path.iterdir()) == []
