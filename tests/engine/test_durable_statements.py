"""What is said to others, and to operators, speaks of the disk (S2.4, S10.2, S13.4)."""

from __future__ import annotations

from anabranch.region.engine.replies import ErrorReply
from anabranch.sim.twin.replies import shown
from tests.support.engine_cluster import Place, cluster
from tests.support.engines import execute


def _clock_on_disk(place: Place) -> int:
    clocks = [row.clock_ms for row in place.rows]
    return max([*clocks, int(place.meta.get("clock", b"0"))])


def test_a_heartbeat_carries_no_clock_that_is_not_on_disk() -> None:
    """S10.2: a heartbeat carries the clock of the commit that its vector speaks of.

    us has nothing to write, its time goes on, and it says a heartbeat. Suppose that heartbeat
    named the present time. After a crash and a clock that runs back, us would see keys again that
    other regions had removed as past their deadline, because they trusted its clock.
    """
    us = cluster(2)[0]
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    us.now_ms = 60000
    attestation = us.engine.peers.attest(False, us.now_ms)
    assert attestation.position <= us.engine.committed_position
    assert attestation.clock_ms <= _clock_on_disk(us)


def test_a_commit_speaks_of_the_clock_of_its_rows() -> None:
    """S10.2: the clock is kept with each commit.

    A start finds the clock of the last row, so the region says no later one. A commit without rows
    stores the clock by itself.
    """
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    us.commit()
    eu.engine.peers.merge(us.lacking({}), 1, 1500)
    eu.now_ms = 2400
    eu.commit()
    assert eu.engine.state.disk.clock_ms <= _clock_on_disk(eu)
    eu.engine.state.note_life()
    eu.now_ms = 9000
    eu.commit()
    assert eu.engine.state.disk.clock_ms <= _clock_on_disk(eu)


def test_a_heartbeat_during_a_commit_speaks_of_that_commit() -> None:
    """S10.2: the same while a commit is under way: it is what the vector will be spoken of with."""
    us = cluster(2)[0]
    us.ok("XADD", "x", "*", "f", "1")
    commit = us.engine.disk.take_commit(1000)
    assert commit is not None
    attestation = us.engine.peers.attest(False, 5000)
    assert attestation.position == commit.position
    assert attestation.clock_ms <= commit.clock_ms


def test_a_clock_past_a_deadline_is_committed_and_said() -> None:
    """S10.3: an idle region writes down a clock that is past a deadline.

    The removal waits until every member is known to have such a clock.
    """
    us = cluster(2)[0]
    us.ok("XADD", "x", "*", "f", "1")
    us.ok("PEXPIRE", "x", "100")
    us.commit()
    us.at(1200)
    us.commit()
    assert us.engine.peers.attest(False, 1200).clock_ms == 1200 == _clock_on_disk(us)


def test_member_lost_is_answered_when_it_is_on_disk() -> None:
    """S13.8, S2.4: an OK to `member lost` outlives a crash.

    Otherwise the operator would find the region waiting again.
    """
    us = cluster(3)[0]
    execute(us.engine, us.session, [b"CRDT.MEMBER", b"LOST", b"ap"], 2000)
    assert not us.engine.clients.take_replies()
    us.commit()
    assert us.meta["lost"] == b"3"
    assert us.engine.clients.take_replies()


def test_a_read_that_is_refused_while_commits_fail_changes_nothing() -> None:
    """S13.4: the refusal reflects nothing, so the consumer was not seen.

    XREADGROUP noted the time of the consumer before it was refused, unlike XAUTOCLAIM. From
    simulator seed 33305646052.
    """
    us = cluster(1)[0]
    us.ok("XADD", "x", "*", "f", "1")
    us.ok("XGROUP", "CREATE", "x", "g", "0")
    us.ok("XGROUP", "CREATECONSUMER", "x", "g", "c")
    before = us.ok("XINFO", "STREAM", "x", "FULL")
    assert us.engine.disk.take_commit(us.now_ms) is not None
    us.engine.disk.commit_failed("disk full")
    us.now_ms += 1000
    for words in (("XREADGROUP", "GROUP", "g", "c"), ("XREADGROUP", "GROUP", "g", "new")):
        reply = us(*words, "STREAMS", "x", ">")
        assert isinstance(reply, ErrorReply) and reply.message.startswith("MISCONF")
    refused = us("XAUTOCLAIM", "x", "g", "new", "0", "0")
    assert isinstance(refused, ErrorReply) and refused.message.startswith("MISCONF")
    assert shown(us.ok("XINFO", "STREAM", "x", "FULL")) == shown(before)
