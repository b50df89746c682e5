"""CRDT.HISTORY: the effects on a key that the region's log holds, against the rows of the twin.

The reply comes later, because it is read from the disk. Free: how far the log reaches back. Every
effect after the vector `log-floor` must be told, in its row. Local records are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from anabranch.region.engine.replies import ErrorReply, Reply, ReplyLater
from anabranch.sim.replies import map_of
from anabranch.sim.twin.apply import key_of
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.replies import Expected, Mismatch
from anabranch.sim.twin.session import Session
from anabranch.sim.twin.vectors import Dot, Vector, covers

_UNREADABLE: Final = "ERR the log could not be read"


def crdt_history(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """CRDT.HISTORY key [NEWEST n | COUNT n]; the reply is judged once it comes."""
    if isinstance(twin.reply, ReplyLater):
        session.is_unjudged = True
        if len(argv) == 2 or argv[2].upper() in (b"NEWEST", b"COUNT"):
            session.history_of = argv[1]
            session.history_to = twin.call.facts.position
    return Expected("anything", lambda _: True)


def check_history(twin: TwinCore, key: bytes, up_to: int, reply: Reply) -> None:
    """Raises `Mismatch` if a reply is not the history of the key up to that row."""
    if isinstance(reply, ErrorReply) and reply.message.startswith(_UNREADABLE):
        return
    facts = map_of(reply)
    events = facts.get(b"events")
    if not isinstance(events, list):
        raise Mismatch(f"CRDT.HISTORY {key!r} replied no events")
    told = _told(events)
    floor, left_out = _vector(facts[b"log-floor"]), facts[b"left-out"]
    after = _number(map_of(events[0])[b"position"]) if left_out and events else 0
    last = up_to if facts[b"next"] is None else _number(facts[b"next"])
    for position, dot in _rows(twin, key, up_to):
        at = told.pop(dot, 0)
        if at and at != position:
            raise Mismatch(f"CRDT.HISTORY {key!r} told {dot} in row {at}; it is in {position}")
        if not at and after < position <= last and not covers(floor, dot):
            raise Mismatch(f"CRDT.HISTORY {key!r} did not tell {dot} in row {position}")
    strange = [dot for dot, position in told.items() if position > twin.journal.first]
    if strange:
        raise Mismatch(f"CRDT.HISTORY {key!r} told {strange}, which are no effects on the key")


def _rows(twin: TwinCore, key: bytes, up_to: int) -> Iterator[tuple[int, Dot]]:
    """Position and dot of the effects on a key, in the order of the log."""
    for row in twin.journal.rows:
        if row.position <= up_to and isinstance(row.content, list):
            for one in row.content:
                if isinstance(one, tuple) and key_of(one[1]) in (key, None):
                    yield row.position, one[0]


def _told(events: list[Reply]) -> dict[Dot, int]:
    """The positions of the effects that a reply tells, by their dots."""
    found: dict[Dot, int] = {}
    for event in events:
        facts = map_of(event)
        dot = facts.get(b"dot")
        if isinstance(dot, list):
            found[_number(dot[0]), _number(dot[1])] = _number(facts[b"position"])
    return found


def _vector(reply: Reply) -> Vector:
    flat = reply if isinstance(reply, list) else []
    return {_number(flat[at]): _number(flat[at + 1]) for at in range(0, len(flat) - 1, 2)}


def _number(reply: Reply) -> int:
    assert isinstance(reply, int)
    return reply
