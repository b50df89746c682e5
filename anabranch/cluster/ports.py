"""Ports on which no process listens."""

from __future__ import annotations

import random
import socket
from collections import deque
from typing import Final

HOST: Final = "127.0.0.1"
# Below the range from which the system takes ports of outgoing connections. Otherwise such a
# connection might take a port before the process that is to have it listens, or while a region that
# was killed is down.
_ports = range(10_000, 32_000)
# The newest ports that were given. The processes that asked for them may not listen yet.
_given: Final[deque[int]] = deque(maxlen=500)


def take_from(ports: range) -> None:
    """Lets this process find ports in this range only, because others have a range of their own."""
    global _ports
    _ports = ports


def free_ports(count: int) -> list[int]:
    """Different TCP ports on which no process listens now, and that were not given lately."""
    return [free_row(1) for _ in range(count)]


def free_row(count: int) -> int:
    """The first of `count` consecutive ports, as `free_ports` finds them."""
    while True:
        first = random.randrange(_ports.start, _ports.stop - count + 1)
        row = range(first, first + count)
        if all(port not in _given and _is_free(port) for port in row):
            _given.extend(row)
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
