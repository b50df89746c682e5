"""Questions of clients to the log on disk: CRDT.HISTORY, CRDT.EXPLAIN and CRDT.EFFECTS.

A command asks, the driver reads the rows (`region/driver/histories.py`), and the reply follows.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.vector import Vector
from anabranch.region.engine.effects_after import EffectsAfter
from anabranch.region.engine.history import History
from anabranch.region.engine.outbox import Outbox
from anabranch.region.engine.replies import (
    REPLY_LATER,
    CommandError,
    ErrorReply,
    MapReply,
    Reply,
    flat_vector,
)
from anabranch.region.engine.session import Session

# Questions that may wait at once.
WAITING_MAX: Final = 64


class Question:
    """One question. Its answer tells of the rows up to `last_position`.

    `facts` are the first fields of the reply.
    """

    def __init__(self, session: Session, last_position: int, facts: list[Reply]) -> None:
        self.session: Final = session
        self.last_position: Final = last_position
        self.facts: Final = facts


class HistoryQuestion(Question):
    """The rows from `first_position` to `last_position` are taken into `history`."""

    def __init__(
        self,
        session: Session,
        history: History,
        first_position: int,
        last_position: int,
        facts: list[Reply],
    ) -> None:
        super().__init__(session, last_position, facts)
        self.history: Final = history
        self.first_position: Final = first_position


class EffectsQuestion(Question):
    """The blocks of one region are taken into `effects`."""

    def __init__(
        self, session: Session, effects: EffectsAfter, last_position: int, facts: list[Reply]
    ) -> None:
        super().__init__(session, last_position, facts)
        self.effects: Final = effects


class Questions:
    """The questions that are not answered yet."""

    def __init__(self, outbox: Outbox, sessions: dict[int, Session]) -> None:
        self._outbox: Final = outbox
        self._sessions: Final = sessions
        self._new: list[Question] = []
        self._waiting = 0

    def ask(self, question: Question) -> Reply:
        """Asks; the reply follows. Raises `CommandError` if too many questions wait."""
        if self._waiting >= WAITING_MAX:
            raise CommandError(
                f"ERR {WAITING_MAX} histories are being read already; ask again when one is done"
            )
        self._waiting += 1
        self._new.append(question)
        question.session.waiting = True
        return REPLY_LATER

    def take(self) -> list[Question]:
        """The questions that were asked since the last call. Each needs an answer, or `fail`."""
        questions, self._new = self._new, []
        return questions

    def is_wanted(self, question: Question) -> bool:
        """Whether the client that asked is still connected."""
        return question.session.session_id in self._sessions

    def answer(self, question: HistoryQuestion, oldest: int, oldest_ms: int, floor: Vector) -> None:
        """Sends the reply.

        The log reaches back to the row `oldest`, whose clock is `oldest_ms` (both 0: the log is
        empty), and holds every effect after the vector `floor`.
        """
        history = question.history
        facts = question.facts
        facts += [b"log-position", oldest, b"log-ms", oldest_ms, b"log-floor", flat_vector(floor)]
        facts += [b"events", history.events(), b"left-out", history.left_out]
        facts += [b"next", history.next_position or None]
        self._send(question, MapReply(facts))

    def answer_effects(self, question: EffectsQuestion, floor: Vector) -> None:
        """Sends the reply. The log holds every effect after the vector `floor`."""
        effects = question.effects
        events: list[Reply] = list(effects.events)
        facts = question.facts
        facts += [b"log-floor", flat_vector(floor), b"events", events]
        facts += [b"next", effects.up_to if effects.is_full else None]
        self._send(question, MapReply(facts))

    def fail(self, question: Question, error: str) -> None:
        """Tells the client that the log could not be read."""
        self._send(question, ErrorReply(f"ERR the log could not be read: {error}"))

    def _send(self, question: Question, reply: Reply) -> None:
        self._waiting -= 1
        if self.is_wanted(question):
            self._outbox.answer(question.session, reply)
