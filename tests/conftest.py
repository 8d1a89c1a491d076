"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A machine may be slow or busy: no test fails for the time that it takes.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
