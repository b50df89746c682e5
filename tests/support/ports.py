"""Free ports on the loopback address."""

from __future__ import annotations

import random
import socket

# This range lies below the one from which the system picks ports for outgoing connections.
# Otherwise an outgoing connection might take a port between the check and its use.
_LOWEST, _HIGHEST = 10_000, 32_000


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
    """`count` different TCP ports on which no process listens now."""
    found: set[int] = set()
    while len(found) < count:
        port = random.randrange(_LOWEST, _HIGHEST)
        if port not in found and is_free(port):
            found.add(port)
    return list(found)


def free_row(count: int) -> int:
    """The first of `count` consecutive free ports."""
    while True:
        first = random.randrange(_LOWEST, _HIGHEST - count)
        if all(is_free(first + n) for n in range(count)):
            return first
