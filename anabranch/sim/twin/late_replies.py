"""Replies to commands that waited: those that the twin expects of a call, and the region's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from anabranch.region.engine.replies import REPLY_LATER, Reply
from anabranch.sim.calls import Call
from anabranch.sim.twin.replies import Mismatch, check
from anabranch.sim.twin.session import Session


class LateReplies:
    """The late replies of one region. `sessions`: those of the region, by number."""

    def __init__(self, sessions: Mapping[int, Session]) -> None:
        self._sessions: Final = sessions
        self._call: Call
        self._expected: list[tuple[int, object]] = []

    def begin_call(self, call: Call) -> None:
        """Late replies are those of this call from now on."""
        self._call = call
        self._expected = []

    def expect(self, session: Session, reply: object) -> None:
        """The next late reply must be this one."""
        self._expected.append((session.number, reply))

    def next_of(self, session: Session) -> Reply:
        """The region's next late reply to the session, for the choices that the region has."""
        told = [number for number, _ in self._expected].count(session.number)
        replies = [reply for number, reply in self._call.late if number == session.number]
        return replies[told] if told < len(replies) else REPLY_LATER

    def is_next(self, session: Session) -> bool:
        """Whether the region's next late reply is to the session.

        In a call that runs several commands a reader can wake more than once, and be refused later.
        """
        judged = [
            number
            for number, _ in self._call.late
            if number in self._sessions and not self._sessions[number].is_unjudged
        ]
        return judged[len(self._expected) : len(self._expected) + 1] == [session.number]

    def of_waiting(
        self, waiting: Sequence[tuple[Session, tuple[bytes, ...]]]
    ) -> list[tuple[tuple[bytes, ...], Reply]]:
        """The commands that wait, those of transactions one by one, with the region's replies."""
        replies = dict(self._call.late)
        found: list[tuple[tuple[bytes, ...], Reply]] = []
        for session, argv in waiting:
            reply = replies.get(session.number)
            if session.queued is not None and isinstance(reply, list):
                found += zip(session.queued, reply, strict=False)
            else:
                found.append((argv, reply))
        return found

    def compare(self) -> Iterator[tuple[bytes, int, Reply]]:
        """Compares the replies in their order. Raises `Mismatch` at the first that differs.

        Yields (key, position, reply) of answers to CRDT.HISTORY, which are judged by themselves.
        """
        actual: list[tuple[int, Reply]] = []
        for number, reply in self._call.late:
            session = self._sessions.get(number)
            if session is not None and session.is_unjudged:
                session.is_unjudged = False
                key, session.history_of = session.history_of, b""
                if key:
                    yield key, session.history_to, reply
            elif session is not None:
                actual.append((number, reply))
        for (number, expected), (answered, reply) in zip(self._expected, actual, strict=False):
            if number != answered:
                raise Mismatch(
                    f"answered connection {answered} that waited; expected {number} next"
                )
            try:
                check(expected, reply)
            except Mismatch as error:
                raise Mismatch(f"late, to connection {number}, {error}") from error
        if len(actual) > len(self._expected):
            number, reply = actual[len(self._expected)]
            check(REPLY_LATER, reply)
        if len(actual) < len(self._expected):
            number, expected = self._expected[len(actual)]
            raise Mismatch(f"does not answer connection {number} that waits; expected {expected}")
