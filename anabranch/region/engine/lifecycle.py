"""The lifecycle of a region: start (S13.6), serving, recovery (S13.7).

It decides when the region may issue effects. Before its first effect after any start, a region asks
every other member how many of its effects that member holds. It waits for all answers or until
`crdt-start-patience-ms` has passed. If a member holds more of its effects than the region itself,
the region enters recovery: it asks all members for their vectors, and leaves when it holds
everything in the answers to one asking, and has merged the salvage of its damaged log, if there is
one (`region.storage.salvage`). An answer of a member that has a salvage does not end the recovery:
the member may soon hold more.

A region whose directory was empty cannot tell a new cluster from a lost volume. When its patience
ends, it enters recovery, too, so only the answers of all members let it serve, or the operator's
word that this is the first start (`--first-start`).

An asking names the lives of other members that are known when it begins, and the members that this
region calls lost (S13.8). If the region hears of an unknown life or of another lost member before
the start or the recovery is over, it begins another asking.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.gossip import (
    Heard,
    PromisedAnswer,
    RecoveryAnswer,
    RecoveryQuestion,
    StartAnswer,
    StartQuestion,
)
from anabranch.crdt.vector import Vector, includes, raise_to
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.known_recoveries import KnownRecoveries
from anabranch.region.engine.lost_words import LostWords
from anabranch.region.engine.start_askings import StartAskings

STARTING: Final = "starting"
SERVING: Final = "serving"
RECOVERY: Final = "recovery"
# Two members called this region lost, or one and its operator (S13.8), who can take it back.
LOST: Final = "lost"
# The region's clock is apart from the members' clocks (S10.2). It is shown instead of STARTING and
# SERVING.
APART: Final = "apart"

# A recovery that has all answers but lacks effects in them asks again after this time.
_ASK_AGAIN_MS: Final = 200

_LACKS_OWN: Final = "a member holds more effects of this region than it has itself"
_TAKEN_BACK: Final = "its operator took back that it is lost"
_NO_DATA: Final = (
    "its directory was empty and not every member has answered (--first-start says that the"
    " cluster is new)"
)


class Lifecycle:
    """The state machine of one region's life.

    The argument `others` of its methods are the other members, lost members excluded.
    """

    def __init__(
        self,
        region_id: int,
        life: int,
        recovery: int,
        clock: EngineClock,
        patience_ms: int,
        cause: str = "",
        has_served: bool = True,
    ) -> None:
        self.region_id: Final = region_id
        self.life = life
        # The life in which the recovery began, 0 outside a recovery. It is stored on disk.
        self.recovery = recovery
        # Why the region is in recovery, for operators; empty outside a recovery.
        self.recovery_cause = cause
        self.state = RECOVERY if recovery else STARTING
        # In what way this region's clock is apart from the others', in words; empty: it is not.
        self.clock_problem = ""
        # Who calls this region lost (S13.8), stored on disk.
        self.lost_words: Final = LostWords(region_id)
        # The newest life heard of each other member (S1.3).
        self.lives: dict[int, int] = {}
        # The members that this region calls lost (S13.8).
        self.lost: list[int] = []
        self._clock: Final = clock
        self._start: Final = StartAskings(clock.steady_ms + patience_ms, has_served)
        # -- this region's recovery; each life numbers its askings from 1
        self.asking = 0
        self._asked_ms = 0
        self._asked_with_lives: dict[int, int] = {}
        self._answers: dict[int, RecoveryAnswer] = {}
        self._known_before: set[tuple[int, int]] = set()
        self.known_recoveries: Final = KnownRecoveries()
        # -- questions of others and answers to them, to pass on; the highest asking of each asker
        self.questions: dict[int, RecoveryQuestion] = {}
        self.answers: dict[int, dict[int, RecoveryAnswer]] = {}
        # -- answers of this region to recoveries, held until their vectors are on its disk
        self.promised: list[PromisedAnswer] = []
        if recovery:
            self.ask()

    @property
    def patience_is_over(self) -> bool:
        """Whether a start need not wait longer for answers that are missing."""
        return self._clock.steady_ms >= self._start.ends_ms

    @property
    def may_serve_alone(self) -> bool:
        """Whether the region goes on although no member answers."""
        return self.patience_is_over and self._start.has_served

    @property
    def has_served(self) -> bool:
        """Whether the region has served before in its directory, or has data from a backup."""
        return self._start.has_served

    def note_served(self) -> bool:
        """Notes that the region serves. Returns whether it is the first time in its directory."""
        is_first = not self._start.has_served
        self._start.has_served = True
        return is_first

    @property
    def shown(self) -> str:
        """The state, or APART if the clock keeps the region from serving."""
        return APART if self.clock_problem and self.state in (STARTING, SERVING) else self.state

    @property
    def serves(self) -> bool:
        """Whether the region may issue effects."""
        return self.state == SERVING and not self.clock_problem

    def _known_lives(self) -> dict[int, int]:
        return {**self.lives, self.region_id: self.life}

    def tick(self, others: list[int], disk_vector: Vector, has_salvage: bool = False) -> None:
        """Ends a start whose patience is over, leaves recovery, or asks again.

        A region that still `has_salvage` stays in recovery.
        """
        if self.state == STARTING:
            self._try_to_serve(others)
        elif self.state == RECOVERY:
            self._try_to_leave(others, disk_vector, has_salvage)

    # -- start

    def start_question(self) -> Optional[StartQuestion]:
        """The question to every other member; None if the start is over."""
        if self.state != STARTING:
            return None
        return StartQuestion(self._start.number, self._known_lives(), self.lost)

    def start_answered(self, peer: int, answer: StartAnswer, others: list[int]) -> None:
        """Takes a member's answer. An answer to an earlier asking does not count."""
        self.hear_life(peer, answer.life)
        if answer.number == self._start.number and answer.life == self.lives.get(peer, 0):
            self._start.answered.add(peer)
        if self.state == STARTING:
            self._try_to_serve(others)

    def _ask_anew(self) -> None:
        """Begins another asking of the start, and of the recovery if there is one."""
        self._start.ask_anew()
        if self.state == RECOVERY:
            self.ask()

    def _try_to_serve(self, others: list[int]) -> None:
        is_answered = self._start.is_answered(others)
        if self.patience_is_over and not is_answered and not self._start.has_served:
            self.enter_recovery(_NO_DATA)
        elif self.clock_problem or not self._clock.is_confirmed:
            return
        elif is_answered or self.patience_is_over:
            self.state = SERVING
            self._start.found_all = is_answered

    def ended_by_patience(self, others: list[int]) -> bool:
        """Whether the start ended without an answer of every member, and without a recovery.

        It speaks of a region that has just begun to serve.
        """
        return self.asking == 0 and not self._start.is_answered(others)

    @property
    def holds_all_own(self) -> bool:
        """Whether no other region can hold effects of this region that it lacks (S13.6)."""
        return self._start.found_all

    # -- lives

    def hear_life(self, region_id: int, life: int) -> bool:
        """Notes a life of another member, and returns whether it was unknown until now.

        An unknown life makes a start or a recovery ask again.
        A new life may have begun after the member's files were restored from a backup, without
        `--restored`. Its answers may then lack effects that its former life sent to members that
        had already answered (S13.6). The same holds in a recovery.
        """
        if life <= self.lives.get(region_id, 0):
            return False
        self.lives[region_id] = life
        self._ask_anew()
        return True

    def hear_own_life(self, life: int, is_own: bool) -> bool:
        """Takes a life number that a peer reports of this region (S1.3).

        If this process did not issue that number, it takes the next higher one. `is_own` means that
        this process may have made the statements reported of that life. If the number is its own
        but `is_own` is False, an earlier process had the same number: its files were restored and
        the clock was set back. Returns whether a higher life was taken.
        """
        if life < self.life or (life == self.life and is_own):
            return False
        self.life = life + 1
        self.asking = 0
        self._ask_anew()
        return True

    def may_have_reported(self, heard: Heard, disk_vector: Vector) -> bool:
        """Whether this process may have made the statement `heard` about itself.

        Its own statements are covered by its disk, and count only once it serves.
        """
        return includes(disk_vector, heard.vector) and (self.state == SERVING or not heard.counts)

    def may_have_asked(self, question: RecoveryQuestion) -> bool:
        """Whether this process may have asked that question.

        Once it serves, its askings are over, and every question may have been one of them.
        """
        return self.state == SERVING or (
            self.recovery == question.recovery and self.asking >= question.number
        )

    # -- lost

    def note_lost(self, lost: list[int]) -> None:
        """Takes the members that this region calls lost (S13.8). News make it ask again.

        It waits for their answers no longer. So each other member must answer anew: after its last
        answer it may have got effects of this region from a lost member. Its new answer comes when
        it takes nothing from lost members any more, and so tells of all that they ever gave to it.
        """
        if lost != self.lost:
            self.lost = lost
            self._ask_anew()

    def call_lost(self, by: list[int]) -> bool:
        """These members call this region lost (S13.8). Returns whether one had not until now.

        They take nothing from it any more, so it issues no effect from the second word on. `by` its
        own region_id is the word of its operator.
        """
        has_news = self.lost_words.add(by)
        if self.lost_words.are_enough:
            self.state = LOST
        return has_news

    def take_back_lost(self) -> None:
        """The operator says that this region is not lost. If it was, it begins a recovery.

        So it issues nothing before all members have answered: those that mean it refuse it again.
        """
        self.lost_words.by.clear()
        if self.state == LOST:
            self.state = STARTING
            self.enter_recovery(_TAKEN_BACK)

    # -- recovery

    def enter_recovery(self, cause: str = _LACKS_OWN) -> None:
        """Begins a recovery, and with it a new life (S1.3). `cause` is for operators."""
        if self.state in (RECOVERY, LOST):
            return
        self.state = RECOVERY
        self._start.found_all = False
        self.recovery_cause = cause
        self.life = max(self.life + 1, self._clock.now_ms)
        self.recovery = self.life
        self.ask()

    def ask(self) -> None:
        """Begins another asking, which needs an answer of every member again."""
        self.asking += 1
        self._asked_ms = self._clock.steady_ms
        self._asked_with_lives = self._known_lives()
        self._answers = {}
        self._known_before = self.known_recoveries.all()

    def question(self) -> RecoveryQuestion:
        """This region's question in recovery."""
        return RecoveryQuestion(
            self.region_id, self.life, self.asking, self.recovery, self._asked_with_lives, self.lost
        )

    def holds_all_answered(self, others: list[int], disk_vector: Vector) -> bool:
        """Whether the region holds everything that the other members hold (S13.7)."""
        return (
            self._have_answered(others)
            and includes(disk_vector, self._needed(others))
            and self._all_known_before(others)
        )

    def _try_to_leave(self, others: list[int], disk_vector: Vector, has_salvage: bool) -> None:
        if not self._have_answered(others) or not self._clock.is_confirmed:
            return
        holds_all = self.holds_all_answered(others, disk_vector)
        if holds_all and has_salvage:
            return  # Another asking would need all answers again before the salvage can go on.
        if not holds_all or self._answered_with_salvage(others):
            if self._clock.steady_ms >= self._asked_ms + _ASK_AGAIN_MS:
                self.ask()
        else:
            self.state = SERVING
            self._start.found_all = True
            self.recovery = 0
            self.recovery_cause = ""
            self._answers = {}

    def _have_answered(self, others: list[int]) -> bool:
        return all(other in self._answers for other in others)

    def _needed(self, others: list[int]) -> Vector:
        needed: Vector = {}
        for other in others:
            raise_to(needed, self._answers[other].vector)
        return needed

    def _all_known_before(self, others: list[int]) -> bool:
        """Whether each answer given in recovery is of a recovery known before this asking."""
        return all(
            self._answers[other].recovery == 0
            or (other, self._answers[other].recovery) in self._known_before
            for other in others
        )

    def _answered_with_salvage(self, others: list[int]) -> bool:
        """Whether an answer lacks what the salvage of its member may bring."""
        return any(self._answers[other].has_salvage for other in others)

    def waited_for(self, others: list[int], disk_vector: Vector) -> list[int]:
        """The members that recovery waits for.

        These are the members that have not answered, else those that hold more than this region or
        have a salvage, else all: another asking is needed, since a member answered in a recovery
        unknown before.
        """
        silent = [other for other in others if other not in self._answers]
        if silent:
            return silent
        return [
            other
            for other in others
            if not includes(disk_vector, self._answers[other].vector)
            or self._answers[other].has_salvage
        ] or others

    # -- questions and answers of recoveries

    def hear_question(self, question: RecoveryQuestion) -> bool:
        """Keeps the highest asking of each asker. Returns whether this region must answer it."""
        if question.asker == self.region_id:
            return False
        self.known_recoveries.add(question.asker, question.recovery)
        known = self.questions.get(question.asker)
        if known is not None and (known.life, known.number) >= (question.life, question.number):
            return False
        self.questions[question.asker] = question
        self.answers.pop(question.asker, None)
        return True

    def hear_answer(self, answer: RecoveryAnswer) -> None:
        """Takes an answer to this region's asking, or keeps an answer to pass it on."""
        if answer.recovery:
            self.known_recoveries.add(answer.answerer, answer.recovery)
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
        """Forgets the question of a region that counts again: its recovery of that life is over."""
        question = self.questions.get(asker)
        if question is not None and question.life <= life:
            del self.questions[asker]
            self.answers.pop(asker, None)
