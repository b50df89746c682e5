"""When a region may issue effects: start (S13.6), serving, recovery (S13.7).

Before its first effect after any start a region waits until every other member has said how many of its effects it holds, or patience ends.
A member that holds more puts it into recovery: it asks all members what they hold, and leaves when it holds all that the answers to one
asking hold.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.gossip import Answer, Heard, PromisedAnswer, Question
from anabranch.crdt.vector import Vector, includes, raise_to

STARTING: Final = "starting"
SERVING: Final = "serving"
RECOVERY: Final = "recovery"


class Lifecycle:
    """The state machine of one region's life. `others` is given with each call: the members but this one and the lost."""

    def __init__(
        self, region_id: int, life: int, recovery: int, now_ms: int, patience_ms: int
    ) -> None:
        self.region_id = region_id
        self.life = life
        # The life in which the recovery began, 0 outside one (durable).
        self.recovery = recovery
        self.state = RECOVERY if recovery else STARTING
        self.start_ends_ms = now_ms + patience_ms
        self._answered_start: set[int] = set()
        # -- this region's asking
        self.asking = 0
        self._asked_ms = 0
        self._answers: dict[int, Answer] = {}
        self._known_before: set[tuple[int, int]] = set()
        # -- what is known of recoveries, others' included: (region, life in which it began)
        self.known_recoveries: set[tuple[int, int]] = set()
        # -- others' askings, and answers to them, to be passed on: of one asker only the highest
        self.questions: dict[int, Question] = {}
        self.answers: dict[int, dict[int, Answer]] = {}
        # -- answers to recoveries that wait for this region's disk
        self.promised: list[PromisedAnswer] = []
        if recovery:
            self.ask(now_ms)

    # -- start -------------------------------------------------------------------------------------------------------

    def peer_holds(
        self, peer: int, held: Vector, own: Vector, others: list[int], now_ms: int
    ) -> None:
        """What a peer said in a handshake since this start (S13.6)."""
        if held.get(self.region_id, 0) > own.get(self.region_id, 0):
            self.enter_recovery(now_ms)
        self._answered_start.add(peer)
        self.tick(others, own, now_ms)

    def tick(self, others: list[int], disk_vector: Vector, now_ms: int) -> None:
        """Ends the start when all have answered or patience is over; leaves recovery, or asks again."""
        if self.state == STARTING:
            if self._answered_start.issuperset(others) or now_ms >= self.start_ends_ms:
                self.state = SERVING
        elif self.state == RECOVERY:
            self._try_to_leave(others, disk_vector, now_ms)

    # -- recovery ----------------------------------------------------------------------------------------------------

    def enter_recovery(self, now_ms: int) -> None:
        """A recovery begins a life of its own (S1.3)."""
        if self.state == RECOVERY:
            return
        self.state = RECOVERY
        self.life = max(self.life + 1, now_ms)
        self.recovery = self.life
        self.ask(now_ms)

    def heard_own_life(self, life: int, is_own: bool, now_ms: int) -> bool:
        """Somebody knows a life of this region: a higher one is outdone, and in recovery asked anew (S1.3). Whether it was.

        `is_own`: what is said of that life this process may have said. Its own number with anything else is a former process's, and outdone
        likewise: when files were put back, and the clock was, too, two processes begin with the same.
        """
        if life < self.life or (life == self.life and is_own):
            return False
        self.life = life + 1
        self.asking = 0
        if self.state == RECOVERY:
            self.ask(now_ms)
        return True

    def ask(self, now_ms: int) -> None:
        """Begins another asking, which counts by itself."""
        self.asking += 1
        self._asked_ms = now_ms
        self._answers = {}
        self._known_before = set(self.known_recoveries)

    def may_have_said(self, heard: Heard, disk_vector: Vector) -> bool:
        """Whether a claim of this region's life may be this process's own: on its disk, and counting only once it serves."""
        return includes(disk_vector, heard.vector) and (self.state == SERVING or not heard.counts)

    def may_have_asked(self, question: Question) -> bool:
        """Likewise of a question; once this process serves, its askings are over."""
        return self.state == SERVING or (
            self.recovery == question.recovery and self.asking >= question.number
        )

    def question(self) -> Question:
        return Question(self.region_id, self.life, self.asking, self.recovery)

    def _try_to_leave(self, others: list[int], disk_vector: Vector, now_ms: int) -> None:
        if not all(other in self._answers for other in others):
            return
        if includes(disk_vector, self._needed(others)) and self._all_known_before(others):
            self.state = SERVING
            self.recovery = 0
            self._answers = {}
        elif now_ms >= self._asked_ms + 200:
            self.ask(now_ms)

    def _needed(self, others: list[int]) -> Vector:
        needed: Vector = {}
        for other in others:
            raise_to(needed, self._answers[other].vector)
        return needed

    def _all_known_before(self, others: list[int]) -> bool:
        """Whether every answer given in recovery belongs to a recovery heard of before this asking."""
        return all(
            self._answers[other].recovery == 0
            or (other, self._answers[other].recovery) in self._known_before
            for other in others
        )

    def waited_for(self, others: list[int], disk_vector: Vector) -> list[int]:
        """The members that recovery waits for: those that have not answered, else those that hold more."""
        silent = [other for other in others if other not in self._answers]
        if silent:
            return silent
        return [
            other for other in others if not includes(disk_vector, self._answers[other].vector)
        ] or others

    # -- gossip ------------------------------------------------------------------------------------------------------

    def hear_question(self, question: Question) -> bool:
        """Keeps the highest asking of each asker; True when it is one that this region must answer."""
        if question.asker == self.region_id:
            return False
        self.known_recoveries.add((question.asker, question.recovery))
        known = self.questions.get(question.asker)
        if known is not None and (known.life, known.number) >= (question.life, question.number):
            return False
        self.questions[question.asker] = question
        self.answers.pop(question.asker, None)
        return True

    def hear_answer(self, answer: Answer) -> None:
        if answer.recovery:
            self.known_recoveries.add((answer.answerer, answer.recovery))
        if answer.asker == self.region_id:
            if self.state == RECOVERY and (answer.life, answer.number) == (self.life, self.asking):
                self._answers[answer.answerer] = answer
            return
        question = self.questions.get(answer.asker)
        if question is not None and (question.life, question.number) == (
            answer.life,
            answer.number,
        ):
            self.answers.setdefault(answer.asker, {})[answer.answerer] = answer

    def forget_asker(self, asker: int, life: int) -> None:
        """An asker is heard to count again: its recovery of that life is over."""
        question = self.questions.get(asker)
        if question is not None and question.life <= life:
            del self.questions[asker]
            self.answers.pop(asker, None)
