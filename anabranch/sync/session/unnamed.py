"""The connections that have not said who they are: few, and none for long. Sans-IO.

Anybody can connect to the port of the other regions. A connection counts here from its beginning
until its Hello is taken, and again once its link is over. There are at most `UNNAMED_MAX` of them.
One more closes another: the oldest one of the address that has the most, so that an address with
many connections keeps out none but itself. A peer sends its Hello at once, and a connection that
has not after `HELLO_PATIENCE_MS` is closed, too.
"""

from __future__ import annotations

from typing import Final, Optional

UNNAMED_MAX: Final = 64
HELLO_PATIENCE_MS: Final = 10_000
# The reasons in the log.
TOO_MANY: Final = f"there are more than {UNNAMED_MAX} connections without a Hello"
TOO_LATE: Final = f"no Hello came within {HELLO_PATIENCE_MS // 1000} s"


class _Connection:
    """`host`: the address without its port. `since_ms`: when it began to count (steady)."""

    def __init__(self, host: str, since_ms: int) -> None:
        self.host: Final = host
        self.since_ms: Final = since_ms


class Unnamed:
    """The connections without a Hello, by number, oldest first."""

    def __init__(self) -> None:
        self._connections: Final[dict[int, _Connection]] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, number: int) -> bool:
        return number in self._connections

    def add(self, number: int, address: str, steady_ms: int) -> Optional[int]:
        """Counts a connection. Returns the number of one that must close for it; None: none must.

        `address` is HOST:PORT, or empty.
        """
        one_too_many = self._fullest() if len(self._connections) >= UNNAMED_MAX else None
        if one_too_many is not None:
            del self._connections[one_too_many]
        self._connections[number] = _Connection(host_of(address), steady_ms)
        return one_too_many

    def remove(self, number: int) -> None:
        """The connection has said who it is, or is closed."""
        self._connections.pop(number, None)

    def late(self, steady_ms: int) -> list[int]:
        """The connections that have said nothing for too long."""
        begun_ms = steady_ms - HELLO_PATIENCE_MS
        return [number for number, one in self._connections.items() if one.since_ms <= begun_ms]

    def _fullest(self) -> int:
        """The number of the oldest connection of the address that has the most."""
        counts: dict[str, int] = {}
        oldest: dict[str, int] = {}
        for number, one in self._connections.items():
            counts[one.host] = counts.get(one.host, 0) + 1
            oldest.setdefault(one.host, number)
        # Of equal ones the address comes first whose oldest connection is the oldest.
        return oldest[max(counts, key=lambda host: counts[host])]


def host_of(address: str) -> str:
    """The host of HOST:PORT, or of [HOST]:PORT."""
    return address.rpartition(":")[0] or address
