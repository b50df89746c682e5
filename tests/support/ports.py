"""Free ports on the loopback address."""

from __future__ import annotations

import os
import random
import socket
from collections import deque

from anabranch.sim.scenario import processes


def _own_share() -> tuple[int, int]:
    """The lowest port of this test process, and the end of its range.

    The range lies below the one from which the system picks ports for outgoing connections.
    Otherwise an outgoing connection might take a port between the check and its use. Test processes
    that run side by side have a share each. Otherwise one could take the port of a region that
    another has killed and starts again, as happened once. The ports above belong to the runs of
    Rocket Rides, which pick theirs by themselves.
    """
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    each = (28_000 - 10_000) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return 10_000 + number * each, 10_000 + (number + 1) * each


_LOWEST, _HIGHEST = _own_share()
# The newest ports that were given. Whoever asked for them may not listen yet.
_given: deque[int] = deque(maxlen=500)


def share_ports() -> None:
    """Clusters of this test process take their ports from its share, too."""
    processes._LOWEST_PORT, processes._HIGHEST_PORT = _LOWEST, _HIGHEST


def is_free(port: int) -> bool:
    """Whether a process can listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """`count` TCP ports on which no process listens now, and that were not given lately."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(_LOWEST, _HIGHEST)
        if port not in _given and is_free(port):
            found.append(port)
            _given.append(port)
    return found


def free_row(count: int) -> int:
    """The first of `count` consecutive ports, as `free_ports` finds them."""
    while True:
        first = random.randrange(_LOWEST, _HIGHEST - count)
        row = range(first, first + count)
        if all(port not in _given and is_free(port) for port in row):
            _given.extend(row)
            return first
