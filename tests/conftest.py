"""What holds for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from stores import missing_for_s3, moto

# A machine may be slow or busy: no test fails for the time that it takes. In CI the examples are the same each time;
# elsewhere they are new ones.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("patient")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the marks
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Tells workers what belongs together: a file's tests share fixtures, and those with Spark share one JVM.

    Those with Spark come first: they take one worker as long as all the others take the other one.
    """
    for item in items:
        group = "spark" if item.get_closest_marker("spark") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """An S3: moto in a process of its own, which ends with the tests; each makes buckets of its own."""
    if reason := missing_for_s3():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with moto() as url:
        yield url
