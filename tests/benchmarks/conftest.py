"""Where the benchmarks keep what they measure."""

import os
from pathlib import Path

import benchmark_files
import pytest
from benchmarking import Bench

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a process that is measured need not compile all modules again


@pytest.fixture(scope="session")
def bench(request: pytest.FixtureRequest) -> Bench:
    """That of `python -m tests.benchmarks`, or one for these tests alone."""
    return request.config.pluginmanager.get_plugin("bench") or Bench()


@pytest.fixture(scope="session")
def lake(bench: Bench) -> Path:
    """400 files of four row groups of 10,000 ids each, with filters at 1 %."""
    return benchmark_files.lake(bench.scaled(400))


@pytest.fixture(scope="session")
def present(lake: Path) -> str:
    """An id of the lake."""
    return benchmark_files.a_key(lake)
