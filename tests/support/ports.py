"""The ports of this test process."""

from __future__ import annotations

import os

from anabranch.cluster import ports


def share_ports() -> None:
    """Takes ports from a share of this test process only.

    Otherwise one of two test processes that run side by side could take the port of a region that
    the other has killed and starts again, as happened once. The ports above all shares belong to
    the runs of Rocket Rides, which pick theirs by themselves.
    """
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    each = (28_000 - 10_000) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ports.take_from(range(10_000 + number * each, 10_000 + (number + 1) * each))
