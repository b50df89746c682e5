"""Two processes that run as one region: finds them out, and lets one of them in. Sans-IO.

Each process draws a random number when it begins, and tells it in every Hello and Welcome. A
process that comes while another one of its region is connected and alive (`contested`) is a second
one, or a stranger. A process that is replaced never comes back. So both run, too, if the numbers of
one region are taken in the order A, B, A. Both would issue effects with the same dots, and each
would make the other take a later life, for ever (S1.3).

The process that is connected stays so. The other one is refused meanwhile, so that the links are
quiet, and both are told.
"""

from __future__ import annotations

import logging
from typing import Final, Optional, Union

from anabranch.sync.session import messages as m
from anabranch.sync.session.connections import Connections
from anabranch.sync.session.links import PeerConnection

# The operator no longer sees two processes once the refused one has been quiet for so long.
QUIET_MS: Final = 30_000
# Most characters of the place that a process tells.
PLACE_MAX: Final = 200


class _Processes:
    """The two processes of one region that this region has seen last; 0: none."""

    def __init__(self) -> None:
        self.newest = 0
        self.newest_place = ""
        self.former = 0
        # Another one was refused at this steady time, for the last time; -1: never.
        self.refused_ms = -1


class Doubles:
    """The processes that run as the peers of one region."""

    def __init__(self, connections: Connections) -> None:
        self._connections: Final = connections
        self._seen: Final[dict[int, _Processes]] = {}

    def refusal(
        self, connection: PeerConnection, greeting: Union[m.Hello, m.Welcome], now_ms: int
    ) -> Optional[m.Refusal]:
        """Notes the process of a greeting; the refusal if another one runs as its region."""
        seen = self._seen.setdefault(greeting.region_id, _Processes())
        is_former = greeting.process != 0 and greeting.process == seen.former
        if is_former and self._is_connected(seen.newest):
            return self._refuse(greeting, seen, self._connections.steady.at(now_ms))
        self.taken(connection, greeting)
        return None

    def newcomer(self, hello: m.Hello, now_ms: int) -> m.Refusal:
        """The refusal for a process that came while another one is connected and alive."""
        seen = self._seen.setdefault(hello.region_id, _Processes())
        if not hello.process or not seen.newest:
            text = f"another connection of {hello.name} is alive here, and goes on"
            return m.Refusal("superseded", text)
        return self._refuse(hello, seen, self._connections.steady.at(now_ms))

    def taken(self, connection: PeerConnection, greeting: Union[m.Hello, m.Welcome]) -> None:
        """Notes the process of a peer that is taken. One of an earlier version tells no number."""
        process, place = greeting.process, greeting.place[:PLACE_MAX]
        if not process:
            return
        seen = self._seen.setdefault(greeting.region_id, _Processes())
        if process != seen.newest:
            seen.former = seen.newest
            seen.newest, seen.newest_place = process, place
            self._forget(greeting.region_id, seen)
        connection.process = process

    def _is_connected(self, process: int) -> bool:
        return any(
            connection.process == process and not connection.finishing
            for connection in self._connections.by_number.values()
        )

    def _refuse(
        self, greeting: Union[m.Hello, m.Welcome], seen: _Processes, steady_ms: int
    ) -> m.Refusal:
        peer, connections = greeting.region_id, self._connections
        refused = greeting.place[:PLACE_MAX]
        places = f"the one at {seen.newest_place}, and the one at {refused}"
        text = f"two processes run as region {greeting.name}: {places}; stop one of them"
        text += " (docs/operations-repair.md)"
        if seen.refused_ms < 0:
            connections.tell(
                logging.ERROR,
                "two_processes",
                text,
                peer=greeting.name,
                refused=refused,
                connected=seen.newest_place,
            )
            # The other process hears it from the refusal.
            other = connections.sending.get(peer)
            if other is not None and other.process == seen.newest and other.sender is not None:
                other.sender.say_double(connections.engine.disk_vector, text)
        seen.refused_ms = steady_ms
        connections.engine.peers.links.runs_twice(peer, text)
        return m.Refusal("duplicate", text)

    def told(self, peer: int, text: str) -> None:
        """A peer says that another process runs as this region."""
        name = self._connections.name_of(peer)
        self._connections.tell(logging.ERROR, "two_processes", f"{name} says: {text}", peer=name)

    def tick(self, steady_ms: int) -> None:
        """Forgets that two processes ran, once the refused one is quiet."""
        for peer, seen in self._seen.items():
            if seen.refused_ms >= 0 and steady_ms - seen.refused_ms > QUIET_MS:
                self._forget(peer, seen)

    def _forget(self, peer: int, seen: _Processes) -> None:
        if seen.refused_ms >= 0:
            seen.refused_ms = -1
            self._connections.engine.peers.links.runs_twice(peer, "")
