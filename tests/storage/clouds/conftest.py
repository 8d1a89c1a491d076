"""The doubles, and the real libraries' file systems on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from clouds import Azure, Google, azure_fs, google_fs, serving


@pytest.fixture
def google() -> Google:
    return Google()


@pytest.fixture
def gs(google: Google) -> Iterator[Any]:
    with serving(google) as url:
        yield google_fs(url)


@pytest.fixture
def azure() -> Azure:
    return Azure()


@pytest.fixture
def abfs(azure: Azure) -> Iterator[Any]:
    with serving(azure) as url:
        yield azure_fs(url)
