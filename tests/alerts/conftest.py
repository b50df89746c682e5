"""The fixtures of the tests that need Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.alerts.prometheus import program
from tests.alerts.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Regions and a Prometheus, which the test starts itself."""
    program("prometheus")
    one = World(tmp_path)
    try:
        yield one
    finally:
        one.close()
