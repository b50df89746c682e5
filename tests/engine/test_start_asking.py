"""A start asks the other members before its first effect (S13.6), as engines see it."""

from __future__ import annotations

import pytest

from anabranch.crdt.gossip import StartAnswer, StartQuestion
from anabranch.region.engine.lifecycle import RECOVERY, SERVING, STARTING
from anabranch.region.engine.replies import ReplyLater
from tests.support.engine_cluster import (
    Place,
    answer_of,
    ask_start,
    carry,
    cluster,
    code,
    greet,
    sync,
    tell,
)

FOREVER_MS = 1 << 40


def restarted(place: Place, now_ms: int = 2000, rows: int | None = None) -> Place:
    """The region starts again, with patience without end; `rows`: from a backup of so many rows."""
    place.patience_ms = FOREVER_MS
    place.restart(now_ms, rows)
    place.at(now_ms)
    assert place.engine.state.lifecycle.state == STARTING
    return place


def state_of(place: Place) -> str:
    return place.engine.state.lifecycle.state


def asked(place: Place) -> StartQuestion:
    question = place.engine.peers.start_question()
    assert question is not None
    return question


def answered_by_ap() -> tuple[Place, Place, Place, int]:
    """us, eu and ap: us starts, greeted both, and ap answered the asking of that number."""
    us, eu, ap = cluster(3)
    restarted(us)
    greet(us, eu)
    greet(us, ap)
    ask_start(us, ap)
    return us, eu, ap, asked(us).number


# -- askings


def test_every_member_must_answer_an_asking_that_knew_its_life() -> None:
    us, eu, ap = cluster(3)
    restarted(us)
    greet(us, eu)
    ask_start(us, eu)
    number = asked(us).number
    greet(us, ap)
    assert asked(us).number == number + 1, "ap's life was not known when eu answered"
    ask_start(us, ap)
    assert state_of(us) == STARTING
    ask_start(us, eu)
    assert state_of(us) == SERVING


def test_an_unheard_life_in_an_answer_means_a_second_asking() -> None:
    """eu begins another life between the handshake and its answer: us asks both anew."""
    us, eu, ap, number = answered_by_ap()
    eu.restart(3000)
    ask_start(us, eu)
    question = asked(us)
    assert question.number == number + 1
    assert question.lives == {1: us.engine.life, 2: eu.engine.life, 3: ap.engine.life}
    ask_start(us, eu)
    assert state_of(us) == STARTING, "ap was asked while that life was not known"
    ask_start(us, ap)
    assert state_of(us) == SERVING


def test_gossip_of_an_unheard_life_means_a_second_asking() -> None:
    us, eu, ap, number = answered_by_ap()
    eu.restart(3000)
    eu.at(3000)
    tell(eu, ap)
    tell(ap, us)
    assert asked(us).number == number + 1
    assert asked(us).lives[2] == eu.engine.life


def test_a_question_tells_its_answerer_of_a_higher_life_of_that_itself() -> None:
    """S1.3: eu takes a higher number still, and answers in that life: us has not heard of it."""
    us, eu = cluster(2)
    restarted(us)
    us.engine.peers.hear_lives({2: eu.engine.life + 10}, us.now_ms)
    former = asked(us)
    answer = ask_start(us, eu)
    assert answer is not None
    assert answer.life == eu.engine.life == former.lives[2] + 1
    assert state_of(us) == STARTING
    assert asked(us).number == former.number + 1
    ask_start(us, eu)
    assert state_of(us) == SERVING


def test_an_answer_to_an_old_question_number_is_ignored() -> None:
    us, eu, ap = cluster(3)
    restarted(us)
    greet(us, eu)
    late = answer_of(eu, us, asked(us))
    assert late is not None
    greet(us, ap)
    ask_start(us, ap)
    us.engine.peers.start_answered(2, late, us.now_ms)
    assert state_of(us) == STARTING
    ask_start(us, eu)
    assert state_of(us) == SERVING


def test_an_answer_given_to_a_former_life_does_not_count() -> None:
    """us is told of a higher life of its own while eu's answer to the present one is on its way."""
    us, eu = cluster(2)
    restarted(us)
    greet(us, eu)
    late = answer_of(eu, us, asked(us))
    assert late is not None
    us.engine.peers.hear_lives({1: us.engine.life + 10}, us.now_ms)
    us.engine.peers.start_answered(2, late, us.now_ms)
    assert state_of(us) == STARTING
    ask_start(us, eu)
    assert state_of(us) == SERVING


def test_an_answer_tells_of_a_higher_life_than_the_asker_knew() -> None:
    """eu comes back with its clock behind: its new life has a lower number than the former one.

    ap knows that one, and has an effect of us unread on its connection. us knew the lower one only
    and took ap's answer, served, and then ap applied the effect: a fork. Now the answer names the
    higher life, us asks again with it, and so eu begins a life above it. ap drops that connection
    as soon as it hears of this life (S13.6).
    """
    us, eu, ap = cluster(3)
    us.ok("XADD", "x", "*", "f", "1")
    sync(us, eu, ap)
    backup_us, backup_eu, life_eu = len(us.rows), len(eu.rows), eu.meta["life"]
    eu.restart(50_000)
    eu.at(50_000)
    eu.commit()
    greet(eu, ap)
    assert ap.engine.peers.newest_life(2) == 50_000
    us.ok("XADD", "x", "*", "f", "2")
    us.commit()
    # Both are put back to their backups, and nobody says so.
    eu.meta["life"] = life_eu
    eu.restart(20_000, backup_eu)
    eu.at(20_000)
    assert eu.engine.life == 20_000
    us.patience_ms = 1 << 40
    us.restart(60_000, backup_us)
    us.at(60_000)
    greet(us, eu)
    greet(us, ap)
    rounds = 0
    while us.engine.state.lifecycle.state == STARTING:
        rounds += 1
        assert rounds < 10
        for other in (eu, ap):
            ask_start(us, other)
    assert ap.engine.peers.newest_life(2) == eu.engine.life > 50_000


def test_an_old_answer_still_tells_of_a_loss() -> None:
    """S13.7: it does not end the start, but a member that holds more holds more."""
    us, eu, ap = cluster(3)
    us.ok("XADD", "x", "*", "f", "1")
    sync(us, eu)
    restarted(us, rows=0)
    greet(us, ap)
    late = answer_of(eu, us, StartQuestion(0, {}))
    assert late is not None
    us.engine.peers.start_answered(2, late, us.now_ms)
    assert state_of(us) == RECOVERY


def test_a_member_answers_with_all_that_it_has_applied_once_that_is_on_its_disk() -> None:
    """eu has merged an effect of us, and not committed it, when us asks, which has lost it."""
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    eu.engine.peers.merge(us.lacking({}), 1, eu.now_ms)
    restarted(us, rows=0)
    assert eu.engine.disk_vector == {}
    answer = ask_start(us, eu)
    assert answer is not None
    assert answer.vector == {1: 1} == eu.engine.disk_vector
    assert state_of(us) == RECOVERY


def test_a_lost_member_means_another_asking() -> None:
    """S13.8: ap is lost, and had effects of us that us has lost. eu got them after its answer.

    us once counted the former answer of eu, served, and issued other effects under those counters
    (seed 277654190915 with `--restores`).
    """
    us, eu, ap = cluster(3)
    us.ok("XADD", "x", "*", "f", "1")
    carry(us, ap)
    restarted(us, rows=0)
    greet(us, eu)
    answer = ask_start(us, eu)
    assert answer is not None and answer.vector == {}
    carry(ap, eu, gossip=False)
    number = asked(us).number
    us.ok("CRDT.MEMBER", "LOST", "ap")
    us.at(2001)
    assert state_of(us) == STARTING
    assert (asked(us).number, asked(us).lost) == (number + 1, [3])
    eu.ok("CRDT.MEMBER", "LOST", "ap")
    ask_start(us, eu)
    assert state_of(us) == RECOVERY


def test_the_only_member_left_waits_for_nobody() -> None:
    us, _ = cluster(2)
    restarted(us)
    us.ok("CRDT.MEMBER", "LOST", "eu")
    us.at(2001)
    assert state_of(us) == SERVING
    us.ok("CRDT.MEMBER", "LOST", "eu")
    assert us.engine.state.lifecycle.lost == [2]


def test_lost_members_are_named_after_a_restart_too() -> None:
    us, eu, _ = cluster(3)
    us.ok("CRDT.MEMBER", "LOST", "ap")
    restarted(us)
    assert asked(us).lost == [3]
    greet(us, eu)
    eu.ok("CRDT.MEMBER", "LOST", "ap")
    ask_start(us, eu)
    assert state_of(us) == SERVING


def test_commands_that_issue_wait_for_the_second_asking_too() -> None:
    us, eu = cluster(2)
    restarted(us)
    assert isinstance(us("XADD", "x", "*", "f", "1"), ReplyLater)
    ask_start(us, eu)
    assert us.engine.clients.take_replies() == [], "eu's life was not known"
    ask_start(us, eu)
    assert state_of(us) == SERVING
    us.commit()
    assert len(us.engine.clients.take_replies()) == 1
    assert us("XLEN", "x") == 1


def test_a_start_counts_for_stability_with_nobody() -> None:
    """S13.6: neither what it has collects anything elsewhere, nor does it collect itself."""
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    sync(us, eu)
    restarted(us)
    attestation = us.engine.peers.attest(False, us.now_ms)
    assert not attestation.counts
    tell(us, eu)
    assert eu.engine.state.stable_vector() == {}
    assert us.engine.state.stable_vector() == {}


# -- what members collected


def destroyed_and_collected() -> tuple[Place, Place, int]:
    """eu destroyed a group that us had made, us has that, eu has collected the tombstone.

    Returns us, eu, and how many rows us had before the destroy came: all its own effects.
    """
    us, eu = cluster(2)
    us.ok("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
    sync(us, eu)
    us.commit()
    backup = len(us.rows)
    eu.ok("XGROUP", "DESTROY", "x", "g")
    sync(us, eu)
    eu.at(eu.now_ms + 100)
    stream = eu.engine.keyspace.get(b"x")
    assert stream is None or not stream.tombstones
    return us, eu, backup


def test_what_was_collected_is_carried_in_the_answer() -> None:
    us, eu, _ = destroyed_and_collected()
    assert eu.engine.collected == {1: 1, 2: 1}
    restarted(us)
    greet(us, eu)
    answer = ask_start(us, eu)
    assert answer is not None
    assert answer.collected == {1: 1, 2: 1}
    assert state_of(us) == SERVING, "us holds all of it"


def test_a_start_that_lacks_what_a_member_collected_enters_recovery() -> None:
    """us holds all its own effects, so nobody holds more of those; yet its files were put back.

    It would issue effects that have not seen the destroy, whose tombstone is gone everywhere.
    """
    us, eu, backup = destroyed_and_collected()
    restarted(us, 5000, backup)
    assert us.engine.vector == {1: 1}
    greet(us, eu)
    assert state_of(us) == STARTING
    ask_start(us, eu)
    assert state_of(us) == RECOVERY
    assert code(us("XGROUP", "CREATE", "x", "h", "0", "MKSTREAM")) == "READONLY"
    us.commit()
    assert int(us.meta["recovery"]) == us.engine.state.lifecycle.recovery > 0
    for now_ms in range(5300, 7000, 300):
        us.at(now_ms)
        carry(eu, us)
        tell(us, eu)
        tell(eu, us)
    us.at(7000)
    assert state_of(us) == SERVING
    assert us.engine.vector == {1: 1, 2: 1}
    assert us("EXISTS", "x") == 0


def test_collecting_is_known_after_a_snapshot_too() -> None:
    """ap learns by snapshot alone what eu collected for, and says so when us starts."""
    us, eu, ap = cluster(3)
    us.ok("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
    sync(us, eu, ap)
    us.commit()
    backup = len(us.rows)
    eu.ok("XGROUP", "DESTROY", "x", "g")
    sync(us, eu, ap)
    eu.at(eu.now_ms + 100)
    assert eu.engine.collected == {1: 1, 2: 1}
    ap.restart(4000, 0)
    cut = eu.engine.peers.snapshots.cut()
    eu.commit()
    ap.engine.peers.snapshots.join(list(cut.chunks(100)), 2, 4000)
    ap.commit()
    assert ap.engine.collected == {1: 1, 2: 1}
    restarted(us, 5000, backup)
    ask_start(us, ap)
    assert state_of(us) == RECOVERY


@pytest.mark.parametrize(
    ("collected", "state"),
    [({}, STARTING), ({1: 1}, STARTING), ({1: 2}, RECOVERY), ({1: 1, 2: 1}, RECOVERY)],
)
def test_the_vector_decides(collected: dict[int, int], state: str) -> None:
    us, eu, ap = cluster(3)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    restarted(us)
    answer = StartAnswer(asked(us).number, eu.engine.life, {}, 0, collected)
    us.engine.peers.start_answered(2, answer, us.now_ms)
    assert state_of(us) == state
    assert ap.engine.collected == {}
