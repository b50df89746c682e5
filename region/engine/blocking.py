"""Clients that wait: readers for entries (XREAD, XREADGROUP), others for what peers hold or what is applied here."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.vector import Vector
from anabranch.region.engine.session import Session


class Blocked:
    """A read that found nothing. `argv` is the command with `$` and `+` resolved, so that it can be run again."""

    def __init__(
        self, session: Session, keys: list[bytes], argv: list[bytes], deadline_ms: int
    ) -> None:
        self.session = session
        self.keys = keys
        self.argv = argv
        self.deadline_ms = deadline_ms  # 0: none


class Blocking:
    """Who waits for which keys, first come first served."""

    def __init__(self) -> None:
        self.by_key: dict[bytes, dict[int, Blocked]] = {}
        self.by_session: dict[int, Blocked] = {}

    def add(self, blocked: Blocked) -> None:
        self.by_session[blocked.session.session_id] = blocked
        for key in blocked.keys:
            self.by_key.setdefault(key, {})[blocked.session.session_id] = blocked

    def remove(self, session_id: int) -> Optional[Blocked]:
        blocked = self.by_session.pop(session_id, None)
        if blocked is not None:
            for key in blocked.keys:
                waiting = self.by_key.get(key)
                if waiting is not None:
                    waiting.pop(session_id, None)
                    if not waiting:
                        del self.by_key[key]
        return blocked

    def waiting_for(self, key: bytes) -> list[Blocked]:
        waiting = self.by_key.get(key)
        return [] if waiting is None else list(waiting.values())

    def timed_out(self, now_ms: int) -> list[Blocked]:
        return [
            blocked
            for blocked in self.by_session.values()
            if blocked.deadline_ms and now_ms >= blocked.deadline_ms
        ]


FOR_RECEIVERS: Final = 1  # WAIT: `count` receivers hold this region's effects up to `counter`
FOR_ROUND: Final = (
    2  # CRDT.SYNC: every receiver has acknowledged this region's vector, nothing announceable waits
)
FOR_VECTOR: Final = 3  # CRDT.WAIT: this region has applied `vector`


class Waiter:
    """A command that waits for peers or for effects; the engine judges it after every step that may matter."""

    def __init__(self, kind: int, session: Session, deadline_ms: int) -> None:
        self.kind = kind
        self.session = session
        self.deadline_ms = deadline_ms  # 0: none
        self.count = 0
        self.counter = 0
        self.vector: Vector = {}
        # FOR_ROUND: position at which the round that it waits for committed; 0 before that round has begun
        self.position = 0
