"""Start and recovery as a state machine: when each begins, asks, and is over (S13.6, S13.7)."""

from __future__ import annotations

from anabranch.crdt.gossip import Heard, RecoveryAnswer, RecoveryQuestion, StartAnswer
from anabranch.region.engine.clock import EngineClock
from anabranch.region.engine.lifecycle import RECOVERY, SERVING, STARTING, Lifecycle
from anabranch.region.engine.replies import ErrorReply
from tests.support.engine_cluster import Place, cluster, code, tell

OTHERS = [2, 3]


class Region:
    """A lifecycle with its clock, which a test moves. `others` in calls are members 2 and 3."""

    def __init__(
        self,
        life: int = 1000,
        recovery: int = 0,
        now_ms: int = 1000,
        patience_ms: int = 100,
        has_served: bool = True,
    ) -> None:
        self.clock = EngineClock(now_ms)
        self.lifecycle = Lifecycle(1, life, recovery, self.clock, patience_ms, "", has_served)

    def at(self, now_ms: int, vector: dict[int, int]) -> None:
        """A tick, with this on the disk."""
        self.clock.read(now_ms)
        self.lifecycle.tick(OTHERS, vector)

    def answered(self, answerer: int, life: int = 7, number: int = 0) -> None:
        """A member answers the start: the present asking, unless another number is given."""
        question = self.lifecycle.start_question()
        number = number or (question.number if question is not None else 1)
        answer = StartAnswer(number, life, {}, 0, {})
        self.lifecycle.start_answered(answerer, answer, OTHERS)

    def asking(self) -> tuple[int, dict[int, int]]:
        """Number of the start's present asking, and the lives that it names."""
        question = self.lifecycle.start_question()
        assert question is not None
        return question.number, question.lives


def knowing(*answerers: int, patience_ms: int = 100) -> Region:
    """A start that has heard of a life 7 of these members."""
    region = Region(patience_ms=patience_ms)
    for answerer in answerers:
        region.lifecycle.hear_life(answerer, 7)
    return region


def recovering() -> Region:
    region = Region()
    region.clock.read(1500)
    region.lifecycle.enter_recovery()
    return region


def question(asker: int, life: int, number: int, recovery: int) -> RecoveryQuestion:
    return RecoveryQuestion(asker, life, number, recovery, {asker: life})


def answer(
    region: Region, answerer: int, vector: dict[int, int], recovery: int = 0, number: int = 0
) -> None:
    lifecycle = region.lifecycle
    number = number or lifecycle.asking
    lifecycle.hear_answer(RecoveryAnswer(1, lifecycle.life, number, answerer, vector, recovery, 0))


# -- start


def test_a_start_is_over_when_all_have_answered() -> None:
    region = knowing(2, 3)
    assert region.lifecycle.state == STARTING
    region.answered(2)
    assert region.lifecycle.state == STARTING
    region.answered(2)
    assert region.lifecycle.state == STARTING, "twice the same one"
    region.answered(3)
    assert region.lifecycle.state == SERVING
    assert region.lifecycle.start_question() is None


def test_a_start_is_over_when_patience_is() -> None:
    region = Region()
    region.at(1099, {})
    assert region.lifecycle.state == STARTING
    region.at(1100, {})
    assert region.lifecycle.state == SERVING
    alone = Region()
    alone.lifecycle.tick([], {})
    assert alone.lifecycle.state == SERVING


def test_patience_does_not_end_the_start_of_an_empty_directory() -> None:
    """S13.6: nobody can tell a new cluster from a lost volume beside a cut link."""
    region = Region(has_served=False)
    region.answered(2)
    region.at(1099, {})
    assert region.lifecycle.state == STARTING
    region.at(1100, {})
    assert region.lifecycle.state == RECOVERY and "--first-start" in region.lifecycle.recovery_cause
    answer(region, 2, {})
    region.at(100_000, {})
    assert region.lifecycle.state == RECOVERY, "3 has not answered"
    answer(region, 3, {})
    region.at(100_001, {})
    assert region.lifecycle.state == SERVING


def test_an_empty_directory_serves_when_all_have_answered() -> None:
    region = Region(has_served=False)
    for other in OTHERS:
        region.lifecycle.hear_life(other, 7)
    region.answered(2)
    region.answered(3)
    assert region.lifecycle.state == SERVING


def test_a_clock_that_was_set_back_does_not_prolong_a_start() -> None:
    region = Region()
    region.at(1050, {})
    region.at(500, {})
    region.at(549, {})
    assert region.lifecycle.state == STARTING
    region.at(550, {})
    assert region.lifecycle.state == SERVING


def test_a_question_names_the_lives_that_are_known() -> None:
    region = Region()
    assert region.asking()[1] == {1: 1000}
    region.lifecycle.hear_life(2, 7)
    assert region.asking()[1] == {1: 1000, 2: 7}
    region.lifecycle.hear_life(2, 6)
    assert region.asking()[1] == {1: 1000, 2: 7}, "a life that is over"


def test_an_answer_of_an_unheard_life_does_not_count_and_all_are_asked_anew() -> None:
    """S13.6: two regions that were put back to backups must not take each other's word."""
    region = knowing(2)
    number, _ = region.asking()
    region.answered(2)
    region.answered(3, life=9)
    assert region.lifecycle.state == STARTING
    assert region.asking() == (number + 1, {1: 1000, 2: 7, 3: 9})
    region.answered(3, life=9)
    assert region.lifecycle.state == STARTING, "2 was asked anew, too"
    region.answered(2)
    assert region.lifecycle.state == SERVING


def test_an_unheard_life_asks_anew_on_whatever_way_it_comes() -> None:
    region = knowing(2, 3)
    number, _ = region.asking()
    region.answered(2)
    region.lifecycle.hear_life(3, 8)
    region.answered(3, life=8)
    assert region.lifecycle.state == STARTING
    assert region.asking()[0] == number + 1
    region.lifecycle.hear_life(3, 8)
    assert region.asking()[0] == number + 1, "it is known by now"


def test_an_answer_to_a_former_asking_does_not_count() -> None:
    region = knowing(2, 3)
    former, _ = region.asking()
    region.lifecycle.hear_life(3, 8)
    region.answered(2, number=former)
    region.answered(3, life=8, number=former)
    assert region.lifecycle.state == STARTING
    region.answered(2, number=former + 2)
    region.answered(3, life=8, number=former + 2)
    assert region.lifecycle.state == STARTING, "nobody was asked that yet"
    region.answered(2)
    region.answered(3, life=8)
    assert region.lifecycle.state == SERVING


def test_an_answer_of_a_life_that_is_over_does_not_count() -> None:
    region = knowing(2, 3)
    number, _ = region.asking()
    region.answered(2, life=6)
    region.answered(3)
    assert region.lifecycle.state == STARTING
    assert region.asking() == (number, {1: 1000, 2: 7, 3: 7})
    region.answered(2)
    assert region.lifecycle.state == SERVING


def test_a_higher_life_of_its_own_asks_anew() -> None:
    """S1.3: the answers so far were given to a life that it must not have."""
    region = knowing(2, 3)
    number, _ = region.asking()
    region.answered(2)
    assert region.lifecycle.hear_own_life(5000, True)
    assert region.asking() == (number + 1, {1: 5001, 2: 7, 3: 7})
    region.answered(3)
    assert region.lifecycle.state == STARTING
    region.answered(2)
    assert region.lifecycle.state == SERVING


def test_unheard_lives_do_not_put_the_end_of_patience_off() -> None:
    region = knowing(2, 3)
    region.at(1099, {})
    region.lifecycle.hear_life(2, 8)
    region.at(1100, {})
    assert region.lifecycle.state == SERVING


def test_a_recovery_begins_a_life() -> None:
    region = Region()
    region.lifecycle.enter_recovery()
    lifecycle = region.lifecycle
    assert (lifecycle.state, lifecycle.life, lifecycle.recovery) == (RECOVERY, 1001, 1001)
    assert lifecycle.start_question() is None
    late = Region()
    late.clock.read(5000)
    late.lifecycle.enter_recovery()
    assert (late.lifecycle.life, late.lifecycle.recovery) == (5000, 5000), "the clock is higher"
    late.clock.read(9000)
    late.lifecycle.enter_recovery()
    assert (late.lifecycle.life, late.lifecycle.asking) == (5000, 1), "it is in recovery already"


def test_a_start_that_became_a_recovery_is_not_ended_by_answers_to_the_start() -> None:
    region = knowing(2, 3)
    region.answered(2)
    region.lifecycle.enter_recovery()
    region.answered(3, number=1)
    region.at(99999, {})
    assert region.lifecycle.state == RECOVERY


def test_an_asking_counts_by_itself() -> None:
    """S13.7: a member that answered an earlier one may have taken more of this region since.

    It is asked, and waited for, again.
    """
    region = recovering()
    lifecycle = region.lifecycle
    for other in OTHERS:
        answer(region, other, {1: 5})
    assert lifecycle.waited_for(OTHERS, {1: 4}) == OTHERS, "they hold more"
    region.at(1700, {1: 4})
    assert lifecycle.asking == 2
    answer(region, 2, {1: 6})
    region.at(1750, {1: 6})
    assert lifecycle.state == RECOVERY and lifecycle.waited_for(OTHERS, {1: 6}) == [3]
    answer(region, 3, {1: 6})
    region.at(1751, {1: 6})
    assert lifecycle.state == SERVING


def test_a_recovery_goes_on_after_a_restart() -> None:
    region = Region(life=2000, recovery=1500, now_ms=2000)
    lifecycle = region.lifecycle
    assert (lifecycle.state, lifecycle.asking) == (RECOVERY, 1)
    asked = lifecycle.question()
    assert (asked.asker, asked.life, asked.number, asked.recovery) == (1, 2000, 1, 1500)
    assert asked.lives == {1: 2000}
    region.at(99999, {})
    assert lifecycle.state == RECOVERY, "patience ends a start alone"


def test_a_question_names_the_lives_known_when_its_asking_began() -> None:
    """S13.7: every copy of one asking is the same, on whatever way it is passed on."""
    region = recovering()
    life = region.lifecycle.life
    first = region.lifecycle.question()
    region.lifecycle.hear_life(2, 7)
    second = region.lifecycle.question()
    assert (first.number, first.lives) == (1, {1: life})
    assert (second.number, second.lives) == (2, {1: life, 2: 7})


# -- leaving a recovery


def test_it_is_left_when_all_have_answered_and_all_is_there() -> None:
    region = recovering()
    lifecycle = region.lifecycle
    answer(region, 2, {1: 7, 2: 3})
    region.at(1600, {1: 9, 2: 9})
    assert lifecycle.state == RECOVERY and lifecycle.waited_for(OTHERS, {1: 9, 2: 9}) == [3]
    answer(region, 3, {1: 8})
    region.at(1600, {1: 7, 2: 9})
    assert lifecycle.state == RECOVERY and lifecycle.waited_for(OTHERS, {1: 7, 2: 9}) == [3], (
        "3 holds more of it"
    )
    region.at(1601, {1: 8, 2: 3})
    assert (lifecycle.state, lifecycle.recovery) == (SERVING, 0)


def test_it_asks_again_while_it_lacks_something() -> None:
    """S13.7: and answers to an earlier asking count no more."""
    region = recovering()
    lifecycle = region.lifecycle
    answer(region, 2, {1: 7})
    answer(region, 3, {})
    region.at(1699, {1: 6})
    assert lifecycle.asking == 1
    region.at(1700, {1: 6})
    assert lifecycle.asking == 2
    region.at(1701, {1: 9})
    assert lifecycle.state == RECOVERY and lifecycle.waited_for(OTHERS, {1: 9}) == OTHERS
    answer(region, 2, {1: 7}, number=1)
    answer(region, 3, {}, number=1)
    region.at(1702, {1: 9})
    assert lifecycle.state == RECOVERY
    answer(region, 2, {1: 7})
    answer(region, 3, {})
    region.at(1703, {1: 9})
    assert lifecycle.state == SERVING


def test_answers_of_another_life_count_not() -> None:
    region = recovering()
    lifecycle = region.lifecycle
    for answerer in OTHERS:
        lifecycle.hear_answer(
            RecoveryAnswer(1, lifecycle.life - 1, lifecycle.asking, answerer, {}, 0, 0)
        )
    region.at(1600, {})
    assert lifecycle.state == RECOVERY
    assert not lifecycle.hear_own_life(lifecycle.life, True)
    asked = lifecycle.asking
    answer(region, 2, {})
    assert lifecycle.hear_own_life(5000, True)
    assert (lifecycle.life, lifecycle.asking) == (5001, 1) and asked == 1
    assert lifecycle.waited_for(OTHERS, {}) == OTHERS, "it asks anew"


def test_its_own_number_with_what_it_never_said() -> None:
    """Seed 924: a recovery that was never over.

    A region's clock was set back, then its process ended, twice; the second time an old backup was
    put in place. So both starts found the same clock on the disk, and began the same life. The
    others had heard that life count: its recovery seemed over to them, no question of it was
    answered, and it refused all writes for ever.
    """
    region = recovering()
    lifecycle = region.lifecycle
    life = lifecycle.life
    disk = {1: 5, 2: 3}
    never_said = [
        Heard(1, life, True, {1: 5}, 1000),
        Heard(1, life, False, {1: 6}, 1000),
        Heard(1, life, False, {1: 5, 3: 1}, 1000),
    ]
    assert not any(lifecycle.may_have_reported(heard, disk) for heard in never_said)
    assert lifecycle.may_have_reported(Heard(1, life, False, {1: 5, 2: 2}, 1000), disk)
    never_asked = [question(1, life, 2, life), question(1, life, 1, life - 1)]
    assert not any(lifecycle.may_have_asked(question) for question in never_asked)
    assert lifecycle.may_have_asked(question(1, life, 1, life))
    assert not lifecycle.hear_own_life(life - 1, False)
    assert lifecycle.hear_own_life(life, False)
    assert (lifecycle.life, lifecycle.asking, lifecycle.recovery) == (life + 1, 1, life)
    starting = Region(patience_ms=0)
    starting.at(1000, disk)
    serving = starting.lifecycle
    assert serving.may_have_reported(Heard(1, serving.life, True, {1: 5}, 1000), disk)
    assert serving.may_have_asked(question(1, 1000, 1, 1000))
    assert not serving.may_have_reported(Heard(1, serving.life, True, {1: 6}, 1000), disk)


def test_an_answer_given_in_recovery_must_be_of_one_known_before_the_asking() -> None:
    """S13.7: else two restored regions take each other's word for what both have lost."""
    region = recovering()
    lifecycle = region.lifecycle
    answer(region, 2, {}, recovery=77)
    answer(region, 3, {})
    region.at(1600, {})
    assert lifecycle.state == RECOVERY
    assert lifecycle.waited_for(OTHERS, {}) == OTHERS
    region.at(1700, {})
    assert lifecycle.asking == 2, "that one is heard of now"
    answer(region, 2, {}, recovery=78)
    answer(region, 3, {})
    region.at(1701, {})
    assert lifecycle.state == RECOVERY, "a later recovery of the same region"
    region.at(1900, {})
    answer(region, 2, {}, recovery=78)
    answer(region, 3, {})
    region.at(1901, {})
    assert lifecycle.state == SERVING


def test_a_question_tells_of_a_recovery_too() -> None:
    region = recovering()
    lifecycle = region.lifecycle
    lifecycle.hear_question(question(2, 70, 1, 70))
    lifecycle.ask()
    answer(region, 2, {}, recovery=70)
    answer(region, 3, {})
    region.at(1601, {})
    assert lifecycle.state == SERVING


# -- others' askings


def test_of_one_asker_only_the_highest_asking_is_kept() -> None:
    lifecycle = Region().lifecycle
    assert not lifecycle.hear_question(question(1, 9, 9, 9)), "its own"
    assert lifecycle.hear_question(question(2, 70, 2, 70))
    lifecycle.hear_answer(RecoveryAnswer(2, 70, 2, 3, {1: 1}, 0, 0))
    assert not lifecycle.hear_question(question(2, 70, 2, 70)) and not lifecycle.hear_question(
        question(2, 70, 1, 70)
    )
    assert not lifecycle.hear_question(question(2, 60, 9, 60))
    assert list(lifecycle.answers[2]) == [3]
    assert lifecycle.hear_question(question(2, 70, 3, 70)) and 2 not in lifecycle.answers
    lifecycle.hear_answer(RecoveryAnswer(2, 70, 2, 3, {1: 1}, 0, 0))
    assert 2 not in lifecycle.answers, "of an asking that is over"
    assert lifecycle.hear_question(question(2, 71, 1, 71))
    assert lifecycle.questions[2].life == 71
    lifecycle.forget_asker(2, 70)
    assert 2 in lifecycle.questions
    lifecycle.hear_answer(RecoveryAnswer(2, 71, 1, 3, {}, 0, 0))
    lifecycle.forget_asker(2, 71)
    assert not lifecycle.questions and not lifecycle.answers


# -- in an engine


def refusal(place: Place, *words: object) -> str:
    """The error with which a region refuses a command."""
    reply = place(*words)
    assert isinstance(reply, ErrorReply)
    return reply.message


def test_what_is_said_of_a_recovery() -> None:
    us, eu, ap = cluster(3)
    us.at(2000)
    us.engine.state.lifecycle.enter_recovery()
    us.at(2000)
    assert (
        refusal(us, "XADD", "s", "*", "a", "1")
        == "READONLY region us is in recovery, waiting for eu, ap"
    )
    tell(us, eu)
    tell(eu, us)  # It names a life of eu that us did not know, so us asks anew.
    tell(us, eu)
    tell(eu, us)
    assert (
        refusal(us, "XADD", "s", "*", "a", "1")
        == "READONLY region us is in recovery, waiting for ap"
    )
    us.ok("CRDT.MEMBER", "LOST", "ap")
    eu.ok("CRDT.MEMBER", "LOST", "ap")
    us.at(2001)
    assert (
        refusal(us, "XADD", "s", "*", "a", "1")
        == "READONLY region us is in recovery, waiting for eu"
    ), "ap may have given more to eu since it answered"
    tell(us, eu)
    tell(eu, us)
    us.at(2002)
    assert us.engine.state.lifecycle.state == SERVING
    assert code(us("XADD", "s", "*", "a", "1")) != "READONLY"
    assert ap.engine.state.lifecycle.state == SERVING


def test_a_recovery_in_a_life_that_others_heard_count() -> None:
    """Seed 924, in engines: see `test_its_own_number_with_what_it_never_said`."""
    us, eu, ap = cluster(3)
    life = us.engine.state.lifecycle.life
    tell(us, eu)
    tell(us, ap)
    assert eu.engine.state.stability.newest(1).counts  # type: ignore[union-attr]
    lifecycle = us.engine.state.lifecycle
    # As a restored region that finds the same clock on its disk.
    lifecycle.state, lifecycle.recovery = RECOVERY, life
    lifecycle.ask()
    for _ in range(2):
        for one, other in ((us, eu), (us, ap), (eu, us), (ap, us)):
            tell(one, other)
    us.at(2000)
    assert lifecycle.life == life + 1 and lifecycle.state == SERVING


def test_an_unheard_life_asks_anew_in_recovery_too() -> None:
    """S13.7, S13.6: an answer of a life that was not heard of before the asking does not count.

    The member may have been put back to a backup since it began that life. Another member, which
    has answered, may have had effects from its former life after its answer.
    """
    region = recovering()
    for other in OTHERS:
        region.lifecycle.hear_life(other, 7)
    asking = region.lifecycle.asking
    answer(region, 2, {})
    region.lifecycle.hear_life(3, 9)
    assert region.lifecycle.asking == asking + 1
    assert region.lifecycle.question().lives == {1: region.lifecycle.life, 2: 7, 3: 9}
    answer(region, 3, {})
    region.at(1600, {})
    assert region.lifecycle.state == RECOVERY, "2 was asked anew, too"
    answer(region, 2, {})
    region.at(1700, {})
    assert region.lifecycle.state == SERVING


def test_a_region_that_all_refuse_as_no_member_serves_no_data() -> None:
    """It answered reads, as if the cluster had no data. A region with data goes on serving it."""
    newcomer = Place(1, 3, 1000, 0, None)
    newcomer.engine.state.lifecycle._start.has_served = False
    links = newcomer.engine.peers.links
    refusal = "not-a-member: region 1 (us) is not a member; eu has eu=2,ap=3"
    assert newcomer("XLEN", "s") == 0
    links.is_in_state(2, "refused", refusal)
    links.is_in_state(3, "connecting", "")
    assert newcomer("XLEN", "s") == 0, "ap may know it"
    links.is_in_state(3, "refused", "members: us has members us=1,eu=2,ap=3, ap has ap=3")
    for command in (["XLEN", "s"], ["KEYS", "*"], ["XADD", "s", "*", "a", "1"], ["DBSIZE"]):
        assert code(newcomer(*command)) == "NOTMEMBER", command
    for command in (["PING"], ["INFO"], ["CRDT.PEERS"], ["CONFIG", "GET", "maxclients"]):
        assert not isinstance(newcomer(*command), ErrorReply), command
    newcomer("MULTI")
    assert code(newcomer("XLEN", "s")) == "NOTMEMBER"
    assert code(newcomer("EXEC")) == "EXECABORT"
    links.is_in_state(2, "up", "")
    assert newcomer("XLEN", "s") == 0
    for peer in (2, 3):
        links.is_in_state(peer, "refused", refusal)
    newcomer.engine.state.lifecycle._start.has_served = True
    assert newcomer("XLEN", "s") == 0
