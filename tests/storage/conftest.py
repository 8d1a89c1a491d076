"""What the tests of several stores share."""

from __future__ import annotations

import pytest
from files import blob


@pytest.fixture(scope="session")
def blobs() -> dict[str, bytes]:
    """Two files: one below 5 MiB, the least that is copied within a store, and one above it."""
    return {"small": blob(200_000), "large": blob(6 * 1024 * 1024)}
