"""Start and recovery (S13.6, S13.7).

A region that lost effects issues none before it has them back.
"""

from __future__ import annotations

from anabranch.crdt.gossip import Gossip, Heard, RecoveryAnswer, RecoveryQuestion
from anabranch.region.engine.lifecycle import RECOVERY, SERVING, STARTING
from tests.support.engine_cluster import ask_start, carry, cluster, code, greet, sync, tell


def test_a_recovery_that_begins_during_the_start_is_durable() -> None:
    """S13.7: the state is durable.

    us comes back from an old backup. While it is still starting, eu says that it holds more of
    us's effects. us crashes right after it has written that down, and at the next start no peer
    is reachable. us must still be in recovery, and must not issue after patience.
    """
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    backup = len(us.rows)
    us.ok("XADD", "x", "*", "f", "2")
    sync(us, eu)
    us.patience_ms = 1000
    us.restart(2000, backup)
    assert us.engine.state.lifecycle.state == STARTING
    us.engine.peers.peer_holds(2, eu.engine.disk_vector, 2001)
    assert us.engine.state.lifecycle.state == RECOVERY
    us.commit()
    us.restart(3000)
    us.at(9000)
    assert us.engine.state.lifecycle.state == RECOVERY
    assert code(us("XADD", "x", "*", "f", "3")) == "READONLY"


def test_own_effects_from_a_peer_while_starting_begin_a_recovery() -> None:
    """S13.7: own effects that a peer sends begin a recovery, even before the start is over.

    When eu answered us, eu did not have us's second effect. Then that effect came to eu from ap,
    and eu relays it. us, which lost it, is still starting. It must not apply its own effect like
    another region's and go on to issue.
    """
    us, eu, ap = cluster(3)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    backup = len(us.rows)
    carry(us, eu)
    us.ok("XADD", "x", "*", "f", "2")
    carry(us, ap)
    us.patience_ms = 1000
    us.restart(2000, backup)
    greet(us, eu)
    ask_start(us, eu)
    assert us.engine.state.lifecycle.state == STARTING
    carry(ap, eu)
    carry(eu, us)
    assert us.engine.state.lifecycle.state == RECOVERY


def test_a_snapshot_with_own_effects_while_starting_begins_a_recovery() -> None:
    """S13.7: the same by snapshot."""
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    sync(us, eu)
    us.patience_ms = 1000
    us.restart(2000, 0)
    us.engine.peers.snapshots.join(list(eu.engine.peers.snapshots.cut().chunks(1 << 20)), 2, 2001)
    assert us.engine.state.lifecycle.state == RECOVERY
    us.commit()
    assert int(us.meta["recovery"]) == us.engine.state.lifecycle.recovery > 0


def test_what_a_lost_region_once_claimed_does_not_keep_a_region_in_recovery() -> None:
    """S13.8: a region said to be lost is waited for no more.

    ap held effects of us that us lost, told eu so in heartbeats, and burned down. Every heartbeat
    of eu passes that on. After `member lost ap` us leaves recovery, and the next heartbeat must
    not put it there again.
    """
    us, eu, ap = cluster(3)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    carry(us, eu)
    backup = len(us.rows)
    us.ok("XADD", "x", "*", "f", "2")
    carry(us, ap)
    tell(ap, eu)
    us.restart(5000, backup)
    us.at(5000)
    tell(eu, us)
    assert us.engine.state.lifecycle.state == RECOVERY
    for place in (us, eu):
        place.ok("CRDT.MEMBER", "LOST", "ap")
    for now_ms in range(5300, 7000, 300):
        us.at(now_ms)
        tell(us, eu)
        tell(eu, us)
        us.at(now_ms)
    assert us.engine.state.lifecycle.state == SERVING
    tell(eu, us)
    assert us.engine.state.lifecycle.state == SERVING


def test_a_lost_member_means_another_asking() -> None:
    """S13.8: as in a start, the other members answer anew, each once it has been told, too."""
    us, eu, ap = cluster(3)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    backup = len(us.rows)
    us.ok("XADD", "x", "*", "f", "2")
    carry(us, ap, gossip=False)
    us.restart(5000, backup)
    us.engine.state.lifecycle.enter_recovery()
    us.commit()
    for _ in range(2):
        tell(us, eu)
        tell(eu, us)
    assert us.engine.state.lifecycle.waited_for([2], us.engine.disk_vector) == [2]
    us.ok("CRDT.MEMBER", "LOST", "ap")
    for _ in range(2):
        tell(us, eu)
        tell(eu, us)
    us.at(5001)
    assert us.engine.state.lifecycle.state == RECOVERY, "eu still takes effects from ap"
    carry(ap, eu, gossip=False)
    eu.ok("CRDT.MEMBER", "LOST", "ap")
    tell(eu, us)
    us.at(5002)
    assert us.engine.state.lifecycle.state == RECOVERY, "eu holds an effect that us has lost"
    carry(eu, us)
    us.at(5003)
    assert us.engine.state.lifecycle.state == SERVING
    assert us("XLEN", "x") == 2


def test_an_acknowledgement_of_own_effects_that_are_lost_begins_a_recovery() -> None:
    """S13.7: us was put back unsaid, and its start ended by patience. It says what eu holds."""
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    sync(us, eu)
    us.restart(2000, 0)
    us.at(2000)
    assert us.engine.state.lifecycle.state == SERVING
    us.engine.peers.acknowledged(2, dict(eu.engine.disk_vector), 2001)
    assert us.engine.state.lifecycle.state == RECOVERY
    us.commit()
    assert int(us.meta["recovery"]) == us.engine.state.lifecycle.recovery > 0


def test_a_claim_of_a_lower_life_counts_for_nothing() -> None:
    """S6.2: a higher life throws away what was heard of a lower one.

    A late heartbeat of the former life begins no recovery.
    """
    us, eu = cluster(2)
    sync(us, eu)
    old = Heard(2, eu.engine.life - 1, True, {1: 50}, 900)
    us.engine.peers.hear(Gossip([old], [], []), us.now_ms)
    assert us.engine.state.lifecycle.state == SERVING


def test_a_question_dies_with_its_recovery() -> None:
    """S13.7: a question ends with the recovery that asked it.

    us asked, was answered and serves again. eu and ap must not hand the old question to and fro,
    forget it and learn it with every heartbeat, and answer it each time.
    """
    us, eu, ap = cluster(3)
    us.ok("XADD", "x", "*", "f", "1")
    sync(us, eu, ap)
    us.restart(5000, 0)
    for now_ms in range(5000, 7000, 300):
        us.at(now_ms)
        for source, target in [(us, eu), (ap, eu), (eu, ap), (eu, us)]:
            carry(source, target)
    assert us.engine.state.lifecycle.state == SERVING
    for source, target in [(us, eu), (ap, eu), (eu, ap)] * 2:
        tell(source, target)
    assert not eu.engine.state.lifecycle.questions
    assert not ap.engine.state.lifecycle.questions


def test_an_answer_that_was_taken_in_recovery_says_so() -> None:
    """S13.7: every answer given in recovery must belong to a recovery heard of before that asking.

    eu hears us's question while it is in recovery itself, and takes the vector of its answer
    then. It leaves before that is on disk. The vector is one of a recovery, so the answer must be
    marked as such.
    """
    eu = cluster(2)[1]
    eu.engine.state.lifecycle.enter_recovery()
    began = eu.engine.state.lifecycle.recovery
    eu.engine.tick(2000)
    eu.ok("CRDT.VECTOR")
    eu.engine.state.journal.push_clock()
    eu.engine.peers.hear(Gossip([], [RecoveryQuestion(1, 7, 1, 7, {})], []), 2000)
    question_answered = RecoveryAnswer(
        2, eu.engine.life, eu.engine.state.lifecycle.asking, 1, {}, 0, 0
    )
    eu.engine.peers.hear(Gossip([], [], [question_answered]), 2000)
    eu.engine.tick(2001)
    assert eu.engine.state.lifecycle.state == SERVING
    eu.commit()
    assert eu.engine.state.lifecycle.answers[1][2].recovery == began


def test_a_question_tells_of_a_higher_life_of_oneself() -> None:
    """S1.3: a region that hears a higher number of its own life takes one higher still.

    An old question may be all that tells of it.
    """
    us, _ = cluster(2)
    us.engine.peers.hear(
        Gossip([], [RecoveryQuestion(1, us.engine.life + 100, 3, 5, {})], []), 1000
    )
    assert us.engine.life > 1100


def test_a_member_answers_with_all_that_it_has_applied_once_that_is_on_its_disk() -> None:
    """S13.7: a member commits everything that it has applied before it answers.

    eu has merged an effect of us, and not committed it, when us asks, which has lost it. If eu
    answered from its disk, us would leave and give the counter to another effect, while eu
    commits this one. No simulated run has come upon it in thousands of seeds.
    """
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    eu.engine.peers.merge(us.lacking({}), us.region_id, eu.now_ms)
    eu.engine.peers.hear(
        Gossip([], [RecoveryQuestion(us.region_id, 2000, 1, 2000, {})], []), eu.now_ms
    )
    assert us.region_id not in eu.engine.state.lifecycle.answers
    eu.commit()
    assert eu.engine.state.lifecycle.answers[us.region_id][eu.region_id].vector == {us.region_id: 1}


def test_a_life_heard_in_a_handshake_is_passed_on() -> None:
    """S1.3: a region hears of every life that a peer knows of it, and takes a higher one.

    eu is put back to a backup, and its clock is set back. us knows a later life of eu from a
    handshake only: eu died before it said anything in that life. us once passed on what eu says in
    its present life, and not the life that it knew. ap, which knew that life too, dropped every
    link with eu at the handshake, so eu never heard of it (seed 106541).
    """
    us, eu = cluster(2)
    us.engine.peers.hear_lives({2: eu.engine.life + 1000}, us.now_ms)
    tell(eu, us)
    tell(us, eu)
    assert eu.engine.life == us.engine.peers.newest_life(2) + 1


def test_a_statement_of_a_former_life_does_not_count() -> None:
    """S6.2: a higher life replaces all statements of a lower one, also if it is known by name only.

    us starts anew and knows no statement of eu. In a handshake eu names its life, which began with
    a restore. Then ap passes on a statement of eu's former life, which claims effects that the
    restore took.
    """
    us, _, _ = cluster(3)
    us.engine.peers.hear_lives({2: 1000}, us.now_ms)
    former = Heard(2, 999, True, {2: 5}, 999)
    us.engine.peers.hear(Gossip([former], [], []), us.now_ms)
    newest = us.engine.state.stability.newest(2)
    assert newest is not None and newest.life == 1000 and newest.vector == {}


def test_the_word_that_a_region_is_lost_goes_to_its_disk_at_once() -> None:
    """S13.8: it takes no more writes after a restart, even if no peer says so a second time."""
    us, _ = cluster(2)
    us.engine.peers.called_lost(2)
    us.commit()
    assert us.meta["called_lost"] == b"2"


def test_false_gossip_of_recoveries_takes_bounded_memory() -> None:
    """Each recovery that gossip named was kept for ever, and so were answers of no member.

    Too many of them push true ones out. That costs an asking, and the recovery still ends.
    """
    us, eu, ap = cluster(3)
    us.ok("XADD", "x", "*", "f", "1")
    sync(us, eu, ap)
    us.restart(5000, 0)
    lifecycle = us.engine.state.lifecycle
    numbers = iter(range(1, 100_000))
    for now_ms in range(5000, 9000, 300):
        us.at(now_ms)
        for source, target in [(us, eu), (ap, eu), (eu, ap), (eu, us)]:
            carry(source, target)
        lies = [RecoveryAnswer(3, 7, 1, 2, {}, next(numbers), 0) for _ in range(100)]
        of_nobody = [RecoveryAnswer(1, 7, 1, one, {}, 7, 0) for one in range(4, 100)]
        us.engine.peers.hear(Gossip([], [], [*lies, *of_nobody]), now_ms)
    known = lifecycle.known_recoveries.all()
    assert {region_id for region_id, _ in known} <= {1, 2, 3} and len(known) <= 24
    assert lifecycle.state == SERVING
