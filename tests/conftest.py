"""Set-up of every test run: import paths, shared fixtures, and a header that names the build."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The root goes to the end of the path: `tests.…` helpers become importable, and an installed
# anabranch still takes precedence over the source tree.
ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

# gRPC reads this when it is imported. Otherwise it starts threads of its own in a child after a
# fork, which abort the child if they run before it becomes another program
# (tests/cli/test_children.py).
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from anabranch import build  # noqa: E402

build.include_source_tree(ROOT)

from tests.support.ports import share_ports  # noqa: E402

share_ports()

pytest_plugins = ["tests.support.fixtures"]

# Property tests draw the same examples in every run, keep none for the next, and have no time
# limit: neither a former run nor a loaded machine changes a result.
settings.register_profile(
    "tests",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
# For `--hypothesis-profile=random --hypothesis-seed=7`.
settings.register_profile("random", settings.get_profile("tests"), derandomize=False)
settings.load_profile("tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that use a toxiproxy server, so that `-m` can select them."""
    for item in items:
        if isinstance(item, pytest.Function) and "toxiproxy" in item.fixturenames:
            item.add_marker("toxiproxy")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Names the build under test, so that a fallback to the source tree is visible."""
    return [f"anabranch build: {build.describe()}"]


def pytest_configure(config: pytest.Config) -> None:
    """Stops the run if it must test the installed package but would test the source tree."""
    if os.environ.get("ANABRANCH_TEST_INSTALLED") and build.root().resolve() == ROOT:
        raise pytest.UsageError(
            "this run would test the source tree, not the installed package: run `make test`"
        )
