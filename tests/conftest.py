"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A machine may be slow or busy: no test fails for the time that it takes. In CI the examples are the same each time;
# elsewhere they are new ones.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("patient")
