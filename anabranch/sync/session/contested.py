"""A Hello that would end living connections of its member waits for what they say. Sans-IO.

A new connection of a peer replaces the former one, and word of a later life ends the connections
with former lives (S2.2). Both are right if the peer has restarted or has lost its connection: then
nothing more is said on the former ones. But anybody may claim to be the peer. So a Hello waits as
long as a connection with another process, which it would end, may be alive. If such a connection
speaks in the second half of that time, the newcomer is refused. What the peer had sent before comes
in the first half. If all of them close, or remain silent, the newcomer is taken. Nothing is said to
it before that.

A process has a random number, which it tells to those with whom it has connections (`doubles`). So
a Hello does not wait if it has the number of the process that answers at the address of the peer,
or of all connections that it would end.
"""

from __future__ import annotations

from typing import Final

from anabranch.sync.session import messages as m
from anabranch.sync.session.interfaces import Engine, Settings
from anabranch.sync.session.links import PeerConnection

# The time that a Hello waits, in heartbeats. A peer says something in each of them.
_PATIENCE_HEARTBEATS: Final = 5


class Contender:
    """A connection whose Hello waits since the steady time `since_ms`."""

    def __init__(self, connection: PeerConnection, hello: m.Hello, since_ms: int) -> None:
        self.connection: Final = connection
        self.hello: Final = hello
        self.since_ms: Final = since_ms


class Contested:
    """The Hellos that wait. `by_number`: all connections, which their owner changes."""

    def __init__(
        self, engine: Engine, settings: Settings, by_number: dict[int, PeerConnection]
    ) -> None:
        self._engine: Final = engine
        self._settings: Final = settings
        self._by_number: Final = by_number
        self._waiting: list[Contender] = []

    def must_wait(self, connection: PeerConnection, hello: m.Hello, steady_ms: int) -> bool:
        """Whether a connection that this Hello would end may be alive. The Hello waits then."""
        since_ms = steady_ms - self._patience_ms()
        if not any(one.said_ms > since_ms for one in self._rivals(connection, hello)):
            return False
        self._waiting.append(Contender(connection, hello, steady_ms))
        return True

    def decided(self, steady_ms: int) -> list[tuple[Contender, bool]]:
        """The contenders whose time is over, each with whether it is taken."""
        if not self._waiting:
            return []
        found: list[tuple[Contender, bool]] = []
        waiting, self._waiting = self._waiting, []
        patience_ms = self._patience_ms()
        for one in waiting:
            connection = self._by_number.get(one.connection.number)
            if connection is None or connection.finishing:
                continue
            rivals = self._rivals(connection, one.hello)
            late_ms = one.since_ms + patience_ms // 2
            if any(rival.said_ms > late_ms for rival in rivals):
                found.append((one, False))
            elif not rivals or steady_ms >= one.since_ms + patience_ms:
                found.append((one, True))
            else:
                self._waiting.append(one)
        return found

    def _rivals(self, connection: PeerConnection, hello: m.Hello) -> list[PeerConnection]:
        """The connections with other processes that a Hello would end.

        These are the former one, and those with former lives.
        """
        others = [
            one
            for one in self._by_number.values()
            if one.peer == hello.region_id and one is not connection and not one.finishing
        ]
        if hello.process and any(
            one.receiver is not None and one.process == hello.process for one in others
        ):
            return []
        return [
            one
            for one in others
            if (one.sender is not None or 0 < one.life < hello.life)
            and (not hello.process or one.process != hello.process)
        ]

    def _patience_ms(self) -> int:
        return _PATIENCE_HEARTBEATS * self._settings.integer("crdt-heartbeat-interval-ms")
