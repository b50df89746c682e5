"""Fixtures that all tests share, and the header that says which build is tested."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# `tests.…` helpers are importable, and the source tree stays behind what is installed.
ROOT = str(Path(__file__).resolve().parent.parent)
if ROOT not in sys.path:
    sys.path.append(ROOT)

import anabranch_build  # noqa: E402

pytest_plugins = ["tests.support.fixtures"]


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The build under test; `make test` must never fall back to the source tree unnoticed."""
    return [f"anabranch build: {anabranch_build.describe()}"]


def pytest_configure(config: pytest.Config) -> None:
    """Stops a run that was to test what is installed, and would test the source tree."""
    where = str(Path(anabranch_build.__file__).resolve().parent)
    if os.environ.get("ANABRANCH_TEST_INSTALLED") and where == ROOT:
        raise pytest.UsageError("the source tree would be tested, not what is installed: run `make test`")
