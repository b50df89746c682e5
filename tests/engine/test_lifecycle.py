"""Start and recovery as a state machine: when each begins, asks, and is over (S13.6, S13.7)."""

from __future__ import annotations

from anabranch.crdt.gossip import Answer, Heard, Question
from anabranch.region.engine.lifecycle import RECOVERY, SERVING, STARTING, Lifecycle
from tests.review.support import cluster, code, tell

OTHERS = [2, 3]


def starting(patience_ms: int = 100) -> Lifecycle:
    return Lifecycle(1, 1000, 0, 1000, patience_ms)


def recovering() -> Lifecycle:
    lifecycle = starting()
    lifecycle.enter_recovery(1500)
    return lifecycle


def answer(
    lifecycle: Lifecycle, answerer: int, vector: dict[int, int], recovery: int = 0, number: int = 0
) -> None:
    lifecycle.hear_answer(
        Answer(1, lifecycle.life, number or lifecycle.asking, answerer, vector, recovery)
    )


# -- start -----------------------------------------------------------------------------------------------------------


def test_a_start_is_over_when_all_have_spoken() -> None:
    lifecycle = starting()
    assert lifecycle.state == STARTING
    lifecycle.peer_holds(2, {1: 5}, {1: 5}, OTHERS, 1001)
    assert lifecycle.state == STARTING
    lifecycle.peer_holds(2, {1: 5}, {1: 5}, OTHERS, 1002)
    assert lifecycle.state == STARTING, "twice the same one"
    lifecycle.peer_holds(3, {2: 9}, {1: 5}, OTHERS, 1003)
    assert lifecycle.state == SERVING


def test_a_start_is_over_when_patience_is() -> None:
    lifecycle = starting()
    lifecycle.tick(OTHERS, {}, 1099)
    assert lifecycle.state == STARTING
    lifecycle.tick(OTHERS, {}, 1100)
    assert lifecycle.state == SERVING
    alone = starting()
    alone.tick([], {}, 1000)
    assert alone.state == SERVING


def test_a_peer_that_holds_more_begins_a_recovery() -> None:
    lifecycle = starting()
    lifecycle.peer_holds(2, {1: 6}, {1: 5}, OTHERS, 1001)
    assert (lifecycle.state, lifecycle.life, lifecycle.recovery) == (RECOVERY, 1001, 1001)
    late = starting()
    late.peer_holds(2, {1: 6}, {1: 5}, OTHERS, 5000)
    assert (late.life, late.recovery) == (5000, 5000), "the clock, where it is higher"
    late.enter_recovery(9000)
    assert (late.life, late.asking) == (5000, 1), "it is in recovery already"


def test_an_asking_counts_by_itself() -> None:
    """Who has answered an earlier one may have taken more of this region since: it is asked, and waited for, again (S13.7)."""
    lifecycle = recovering()
    for other in OTHERS:
        answer(lifecycle, other, {1: 5})
    assert lifecycle.waited_for(OTHERS, {1: 4}) == OTHERS, "they hold more"
    lifecycle.tick(OTHERS, {1: 4}, 1700)
    assert lifecycle.asking == 2
    answer(lifecycle, 2, {1: 6})
    lifecycle.tick(OTHERS, {1: 6}, 1750)
    assert lifecycle.state == RECOVERY and lifecycle.waited_for(OTHERS, {1: 6}) == [3]
    answer(lifecycle, 3, {1: 6})
    lifecycle.tick(OTHERS, {1: 6}, 1751)
    assert lifecycle.state == SERVING


def test_a_recovery_goes_on_after_a_restart() -> None:
    lifecycle = Lifecycle(1, 2000, 1500, 2000, 100)
    assert (lifecycle.state, lifecycle.asking) == (RECOVERY, 1)
    question = lifecycle.question()
    assert (question.asker, question.life, question.number, question.recovery) == (1, 2000, 1, 1500)
    lifecycle.tick(OTHERS, {}, 99999)
    assert lifecycle.state == RECOVERY, "patience ends a start alone"


# -- leaving a recovery ----------------------------------------------------------------------------------------------


def test_it_is_left_when_all_have_answered_and_all_is_there() -> None:
    lifecycle = recovering()
    answer(lifecycle, 2, {1: 7, 2: 3})
    lifecycle.tick(OTHERS, {1: 9, 2: 9}, 1600)
    assert lifecycle.state == RECOVERY and lifecycle.waited_for(OTHERS, {1: 9, 2: 9}) == [3]
    answer(lifecycle, 3, {1: 8})
    lifecycle.tick(OTHERS, {1: 7, 2: 9}, 1600)
    assert lifecycle.state == RECOVERY and lifecycle.waited_for(OTHERS, {1: 7, 2: 9}) == [3], (
        "3 holds more of it"
    )
    lifecycle.tick(OTHERS, {1: 8, 2: 3}, 1601)
    assert (lifecycle.state, lifecycle.recovery) == (SERVING, 0)


def test_it_asks_again_while_it_lacks_something() -> None:
    """S13.7: and answers to an earlier asking count no more."""
    lifecycle = recovering()
    answer(lifecycle, 2, {1: 7})
    answer(lifecycle, 3, {})
    lifecycle.tick(OTHERS, {1: 6}, 1699)
    assert lifecycle.asking == 1
    lifecycle.tick(OTHERS, {1: 6}, 1700)
    assert lifecycle.asking == 2
    lifecycle.tick(OTHERS, {1: 9}, 1701)
    assert lifecycle.state == RECOVERY and lifecycle.waited_for(OTHERS, {1: 9}) == OTHERS
    answer(lifecycle, 2, {1: 7}, number=1)
    answer(lifecycle, 3, {}, number=1)
    lifecycle.tick(OTHERS, {1: 9}, 1702)
    assert lifecycle.state == RECOVERY
    answer(lifecycle, 2, {1: 7})
    answer(lifecycle, 3, {})
    lifecycle.tick(OTHERS, {1: 9}, 1703)
    assert lifecycle.state == SERVING


def test_answers_of_another_life_count_not() -> None:
    lifecycle = recovering()
    for answerer in OTHERS:
        lifecycle.hear_answer(Answer(1, lifecycle.life - 1, lifecycle.asking, answerer, {}, 0))
    lifecycle.tick(OTHERS, {}, 1600)
    assert lifecycle.state == RECOVERY
    assert not lifecycle.heard_own_life(lifecycle.life, True, 1600)
    asked = lifecycle.asking
    answer(lifecycle, 2, {})
    assert lifecycle.heard_own_life(5000, True, 1600)
    assert (lifecycle.life, lifecycle.asking) == (5001, 1) and asked == 1
    assert lifecycle.waited_for(OTHERS, {}) == OTHERS, "it asks anew"


def test_its_own_number_with_what_it_never_said() -> None:
    """Seed 924. A region's clock was set back, then its process ended, twice; the second time an old backup was put in place. So both
    starts found the same clock on the disk, and began the same life. The others had heard that life count: its recovery seemed over to
    them, no question of it was answered, and it refused all writes for ever.
    """
    lifecycle = recovering()
    life = lifecycle.life
    disk = {1: 5, 2: 3}
    never_said = [
        Heard(1, life, True, {1: 5}, 1000),
        Heard(1, life, False, {1: 6}, 1000),
        Heard(1, life, False, {1: 5, 3: 1}, 1000),
    ]
    assert not any(lifecycle.may_have_said(heard, disk) for heard in never_said)
    assert lifecycle.may_have_said(Heard(1, life, False, {1: 5, 2: 2}, 1000), disk)
    never_asked = [Question(1, life, 2, life), Question(1, life, 1, life - 1)]
    assert not any(lifecycle.may_have_asked(question) for question in never_asked)
    assert lifecycle.may_have_asked(Question(1, life, 1, life))
    assert not lifecycle.heard_own_life(life - 1, False, 1600)
    assert lifecycle.heard_own_life(life, False, 1600)
    assert (lifecycle.life, lifecycle.asking, lifecycle.recovery) == (life + 1, 1, life)
    serving = starting(0)
    serving.tick(OTHERS, disk, 1000)
    assert serving.may_have_said(
        Heard(1, serving.life, True, {1: 5}, 1000), disk
    ) and serving.may_have_asked(Question(1, 1000, 1, 1000))
    assert not serving.may_have_said(Heard(1, serving.life, True, {1: 6}, 1000), disk)


def test_an_answer_given_in_recovery_must_be_of_one_known_before_the_asking() -> None:
    """S13.7: else two restored regions take each other's word for what both have lost."""
    lifecycle = recovering()
    answer(lifecycle, 2, {}, recovery=77)
    answer(lifecycle, 3, {})
    lifecycle.tick(OTHERS, {}, 1600)
    assert lifecycle.state == RECOVERY
    assert lifecycle.waited_for(OTHERS, {}) == OTHERS
    lifecycle.tick(OTHERS, {}, 1700)
    assert lifecycle.asking == 2, "that one is heard of now"
    answer(lifecycle, 2, {}, recovery=78)
    answer(lifecycle, 3, {})
    lifecycle.tick(OTHERS, {}, 1701)
    assert lifecycle.state == RECOVERY, "a later recovery of the same region"
    lifecycle.tick(OTHERS, {}, 1900)
    answer(lifecycle, 2, {}, recovery=78)
    answer(lifecycle, 3, {})
    lifecycle.tick(OTHERS, {}, 1901)
    assert lifecycle.state == SERVING


def test_a_question_tells_of_a_recovery_too() -> None:
    lifecycle = recovering()
    lifecycle.hear_question(Question(2, 70, 1, 70))
    lifecycle.ask(1600)
    answer(lifecycle, 2, {}, recovery=70)
    answer(lifecycle, 3, {})
    lifecycle.tick(OTHERS, {}, 1601)
    assert lifecycle.state == SERVING


# -- others' askings -------------------------------------------------------------------------------------------------


def test_of_one_asker_only_the_highest_asking_is_kept() -> None:
    lifecycle = starting()
    assert not lifecycle.hear_question(Question(1, 9, 9, 9)), "its own"
    assert lifecycle.hear_question(Question(2, 70, 2, 70))
    lifecycle.hear_answer(Answer(2, 70, 2, 3, {1: 1}, 0))
    assert not lifecycle.hear_question(Question(2, 70, 2, 70)) and not lifecycle.hear_question(
        Question(2, 70, 1, 70)
    )
    assert not lifecycle.hear_question(Question(2, 60, 9, 60))
    assert list(lifecycle.answers[2]) == [3]
    assert lifecycle.hear_question(Question(2, 70, 3, 70)) and 2 not in lifecycle.answers
    lifecycle.hear_answer(Answer(2, 70, 2, 3, {1: 1}, 0))
    assert 2 not in lifecycle.answers, "of an asking that is over"
    assert lifecycle.hear_question(Question(2, 71, 1, 71))
    assert lifecycle.questions[2].life == 71
    lifecycle.forget_asker(2, 70)
    assert 2 in lifecycle.questions
    lifecycle.hear_answer(Answer(2, 71, 1, 3, {}, 0))
    lifecycle.forget_asker(2, 71)
    assert not lifecycle.questions and not lifecycle.answers


# -- in an engine ----------------------------------------------------------------------------------------------------


def test_what_is_said_of_a_recovery() -> None:
    us, eu, ap = cluster(3)
    us.engine.state.lifecycle.enter_recovery(2000)
    us.at(2000)
    assert (
        us("XADD", "s", "*", "a", "1").message
        == "READONLY region us is in recovery, waiting for eu, ap"
    )  # type: ignore[union-attr]
    tell(us, eu)
    tell(eu, us)
    assert (
        us("XADD", "s", "*", "a", "1").message
        == "READONLY region us is in recovery, waiting for ap"
    )  # type: ignore[union-attr]
    us.ok("CRDT.MEMBER", "LOST", "ap")
    us.at(2001)
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
    lifecycle.state, lifecycle.recovery = (
        RECOVERY,
        life,
    )  # as a restored region that finds the same clock on its disk
    lifecycle.ask(1000)
    for _ in range(2):
        for one, other in ((us, eu), (us, ap), (eu, us), (ap, us)):
            tell(one, other)
    us.at(2000)
    assert lifecycle.life == life + 1 and lifecycle.state == SERVING
