"""The questions and answers of a start (S13.6), on open connections in both directions. Sans-IO.

A region that starts asks on every connection as soon as the connection is open, and again on each
when a new asking begins. An answer waits until every effect that was applied here when it was made
is on disk. It is made when the question comes, or once every member that the asker calls lost is
called lost here, too (S13.8), and no salvage is left to be merged (S13.7). It names the lives that
this region knows: what one of them has sent may still wait here, unread. An asker that did not know
that life asks again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from anabranch.crdt.gossip import StartAnswer, StartQuestion
from anabranch.sync.session.interfaces import Engine
from anabranch.sync.session.links import PeerConnection


class StartAsking:
    """Both sides of the asking: the start of this region, and the starts of its peers."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        # Answers, each with its connection and the position that must be on disk before it is sent.
        self._promised: list[tuple[int, PeerConnection, StartAnswer]] = []
        # Questions that cannot be answered yet.
        self._unanswered: list[tuple[PeerConnection, StartQuestion]] = []

    def ask(self, connections: Iterable[PeerConnection]) -> None:
        """Sends the present question on the open connections on which it was not sent yet."""
        question = self._engine.peers.start_question()
        if question is None:
            return
        for connection in connections:
            if connection.is_open and connection.asked < question.number:
                connection.asked = question.number
                connection.queue(question)

    def asked(self, connection: PeerConnection, question: StartQuestion, now_ms: int) -> None:
        """Prepares the answer to a peer's question, which replaces its former question.

        The hub has dropped all data of the former lives that follow from the question's lives.
        """
        self.forget(connection)
        self._unanswered.append((connection, question))
        self.answer(now_ms)

    def answer(self, now_ms: int) -> None:
        """Prepares the answers to all questions that can be answered by now."""
        if not self._unanswered:
            return
        unanswered, self._unanswered = self._unanswered, []
        for connection, question in unanswered:
            if self._engine.peers.may_answer(question.lost):
                self._promise(connection, question, now_ms)
            else:
                self._unanswered.append((connection, question))

    def _promise(self, connection: PeerConnection, question: StartQuestion, now_ms: int) -> None:
        engine = self._engine
        attestation = engine.peers.attest(False, now_ms)
        lives = {one: life for one in engine.members if (life := engine.peers.newest_life(one))}
        answer = StartAnswer(
            question.number,
            attestation.life,
            attestation.vector,
            attestation.told_ms,
            dict(engine.collected),
            lives,
            attestation.read_ms,
        )
        self._promised.append((attestation.position, connection, answer))

    def committed(self, position: int) -> None:
        """Sends the answers whose position is on disk by now."""
        promised, self._promised = self._promised, []
        for waiting in promised:
            needed, connection, answer = waiting
            if needed <= position and connection.is_open:
                connection.queue(answer)
            else:
                self._promised.append(waiting)

    def forget(self, connection: PeerConnection) -> None:
        """Drops the question and the answer of a connection that closed or that asks anew."""
        self._promised = [waiting for waiting in self._promised if waiting[1] is not connection]
        self._unanswered = [waiting for waiting in self._unanswered if waiting[0] is not connection]
