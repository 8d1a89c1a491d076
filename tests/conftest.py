"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace

import pytest
import tiers
from hypothesis import HealthCheck, settings
from stores import missing_for_s3, moto

from parquet_bloom.storage import listing

# A machine may be slow or busy: no test fails for the time that it takes. In CI the examples are the same each time;
# elsewhere they are new ones, so few do, and `--all` tries more.
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ)
settings.register_profile("few", COMMON, max_examples=50 if "CI" in os.environ else 25)
settings.register_profile("many", COMMON, max_examples=50 if "CI" in os.environ else 100)
settings.load_profile("few")

# The readers of the tests' files are the engines that are installed: what others lose is for the tests of hazards.
os.environ["PARQUET_BLOOM_READERS"] = "duckdb>=2,datafusion>=55,clickhouse>=26.9.2,deltalake>=1.6.3,polars,spark"

# Spark's programs here are short: they take a third less time if Java does not compile them at length, and start in a
# sixth less if it does not verify Spark's classes.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects tests without looking for garbage: what is made of them stays."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    if config.option.all:
        config.option.markexpr = f"not ({' or '.join(tiers.BY_HAND)})"
        settings.load_profile("many")
    config.pluginmanager.register(tiers.Tiers(config))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has the last of several processes begin with Spark's tests: a JVM takes long to start, and longer to get quick.

    `worksteal` gives each process its share of the tests in their order, and takes from the end of a share.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        others = [item for item in items if not item.get_closest_marker("spark")]
        begin = min(len(items) * (processes - 1) // processes, len(others))
        sparks = [item for item in items if item.get_closest_marker("spark")]
        items[:] = others[:begin] + sparks + others[begin:]


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """An S3: moto in a process of its own, which ends with the tests; each makes buckets of its own."""
    if reason := missing_for_s3():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with moto() as url:
        yield url


@pytest.fixture
def mtime_stable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes new files for old ones, which `index.create` else waits two seconds for."""
    monkeypatch.setattr(listing, "MTIME_STABLE_SECONDS", -1)


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType, Callable[[float], object]], None]:
    """Has one module sleep otherwise: threads of others in this process, such as Py4J's, go on to sleep for real."""

    def replace(module: ModuleType, sleep: Callable[[float], object]) -> None:
        monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), "sleep": sleep}))

    return replace
