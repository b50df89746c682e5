"""Fixtures that all tests share, and the header that says which build is tested."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# `tests.…` helpers are importable, and the source tree stays behind what is installed.
ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from anabranch import build  # noqa: E402

build.include_source_tree(ROOT)

pytest_plugins = ["tests.support.fixtures"]


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The build under test; `make test` must never fall back to the source tree unnoticed."""
    return [f"anabranch build: {build.describe()}"]


def pytest_configure(config: pytest.Config) -> None:
    """Stops a run that was to test what is installed, and would test the source tree."""
    if os.environ.get("ANABRANCH_TEST_INSTALLED") and build.root().resolve() == ROOT:
        raise pytest.UsageError(
            "the source tree would be tested, not what is installed: run `make test`"
        )
