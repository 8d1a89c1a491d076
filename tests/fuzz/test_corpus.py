"""The inputs that found something, and each target's own examples; `.ci/fuzz` makes more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:4]
from drive import guarded, inputs_of, limit_memory
from all_targets import TARGETS
import logging, signal, drive
logging.disable()
signal.signal(signal.SIGPROF, drive.too_long)
for name in sys.argv[5:]:
    limit_memory(8 * drive.ROOM)
    inputs = inputs_of(name)
    for data in [*inputs[: int(sys.argv[4])], *(path.read_bytes() for path in sorted((drive.CORPUS / name).glob("*")))]:
        try:
            guarded(TARGETS[name].run, data)
        except BaseException as error:
            raise SystemExit(f"{name} fails for {data[:100]!r}: {error!r}")
    print(name, len(inputs))
"""


@pytest.mark.parametrize("targets", [
    "footer file splice header bitset pages hudi_filter hudi_footer paimon_container condition statement literal keys",
    "delta iceberg hudi paimon index states",
], ids=["bytes", "tables"])  # fmt: skip
@pytest.mark.parametrize("count", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_every_target_takes_its_own_inputs_and_those_that_found_something(targets: str, count: int) -> None:
    folders = [str(HERE.parent), str(HERE.parent / "support"), str(HERE)]
    command = [sys.executable, "-c", PROGRAM, *folders, str(count), *targets.split()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert [line.split()[0] for line in ran.stdout.splitlines()] == targets.split()
