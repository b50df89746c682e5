"""When a commit is wanted, what it carries, and who waits for it (S2.4, S13.2)."""

from __future__ import annotations

import pytest

from anabranch.region.engine.engine import Engine
from anabranch.region.engine.replies import REPLY_LATER, ErrorReply
from anabranch.region.engine.session import Session
from anabranch.region.engine.settings import Settings
from tests.support.engine_cluster import carry, cluster
from tests.support.engines import execute, single


def region(**settings: str) -> tuple[Engine, Session]:
    """A region that has stored who it is, and a client."""
    values = {name.replace("_", "-"): value for name, value in settings.items()}
    engine = single(1, 1000, Settings({"appendfsync": "no", **values}))
    session = engine.clients.connect("127.0.0.1:5", "127.0.0.1:7", 1000)
    add(engine, session)
    commit(engine, 1000)
    return engine, session


def add(engine: Engine, session: Session, now_ms: int = 1000) -> None:
    execute(engine, session, [b"XADD", b"s", b"*", b"f", b"v"], now_ms)


def commit(engine: Engine, now_ms: int) -> None:
    taken = engine.disk.take_commit(now_ms)
    assert taken is not None
    engine.disk.committed(now_ms)


def test_without_anybody_waiting_a_full_block_is_what_wants_one() -> None:
    engine, session = region(crdt_block_max_bytes="100")
    add(engine, session)
    assert not engine.disk.wants_commit(1000)
    for _ in range(20):
        add(engine, session)
    assert engine.disk.wants_commit(1000)


def test_under_everysec_the_oldest_change_waits_for_a_second() -> None:
    """Of the changes that are in no commit yet: after each commit the second begins anew."""
    engine, session = region(appendfsync="everysec")
    for first_ms in (2000, 5000):
        add(engine, session, first_ms)
        add(engine, session, first_ms + 600)
        assert not engine.disk.wants_commit(first_ms + 999)
        assert engine.disk.wants_commit(first_ms + 1000)
        commit(engine, first_ms + 1000)


def test_what_is_said_of_the_disk_wants_one() -> None:
    """S2.4: an answer about the disk wants a commit.

    A peer's question and a client's question wait for that commit, and nothing else would begin
    it.
    """
    for ask in (
        lambda engine, _: engine.peers.attest(False, 1001),
        lambda engine, session: execute(engine, session, [b"CRDT.VECTOR"], 1001),
    ):
        engine, session = region()
        add(engine, session)
        assert not engine.disk.wants_commit(1001)
        ask(engine, session)
        assert engine.disk.wants_commit(1001)


def test_who_hung_up_is_not_answered() -> None:
    engine, session = region()
    other = engine.clients.connect("127.0.0.1:6", "127.0.0.1:7", 1000)
    add(engine, session)
    assert execute(engine, session, [b"CRDT.VECTOR"], 1001) is REPLY_LATER
    assert execute(engine, other, [b"CRDT.VECTOR"], 1001) is REPLY_LATER
    engine.clients.disconnect(session)
    commit(engine, 1002)
    assert [answer.session for answer in engine.clients.take_replies()] == [other]


def test_wait_answers_at_once_if_enough_peers_have_the_writes() -> None:
    us, eu, _ = cluster(3)
    assert execute(us.engine, us.session, [b"WAIT", b"2", b"1000"], us.now_ms) == 2
    us.ok("XADD", "s", "*", "f", "v")
    assert execute(us.engine, us.session, [b"WAIT", b"1", b"1000"], us.now_ms) is REPLY_LATER
    carry(us, eu)
    us.engine.peers.acknowledged(2, dict(eu.engine.disk_vector), us.now_ms)
    assert execute(us.engine, us.session, [b"WAIT", b"1", b"1000"], us.now_ms) == 1


def test_a_commit_carries_the_clock_of_its_last_row() -> None:
    """A region that starts from it goes on from there (S10.2)."""
    journal = single(1, 1000, Settings()).state.journal
    journal.take_commit()
    for clock_ms in (2000, 3000):
        journal.clock.read(clock_ms)
        journal.push_clock()
    assert journal.clock_of_next_commit() == 3000
    taken = journal.take_commit()
    assert taken is not None and taken.clock_ms == 3000
    assert journal.clock_of_next_commit() is None


def test_a_round_is_over_when_all_who_receive_have_acknowledged_it() -> None:
    """S2.5: CRDT.SYNC answers 1 when every receiver has acknowledged the round.

    It waits while one of them has not, and while there is no receiver at all.
    """
    us = cluster(3)[0]
    us.ok("XADD", "s", "*", "f", "1")
    us.commit()
    assert us("CRDT.SYNC", "5000") is REPLY_LATER
    us.at(us.now_ms + 1)
    us.commit()
    assert us.engine.clients.take_replies() == []
    for peer in (2, 3):
        us.engine.peers.links.receiver_opened(peer)
    us.engine.peers.acknowledged(2, {}, us.now_ms)
    us.commit()
    us.engine.peers.acknowledged(2, us.engine.vector, us.now_ms)
    us.at(us.now_ms + 10)
    us.commit()
    assert us.engine.clients.take_replies() == [], "ap has not"
    us.engine.peers.acknowledged(3, us.engine.vector, us.now_ms)
    us.at(us.now_ms + 10)
    assert [answer.reply for answer in us.engine.clients.take_replies()] == [1]


def test_a_snapshot_holds_whole_blocks() -> None:
    """S11.2: a cut closes the open block, so effects and chain of a snapshot belong together.

    With the effects of the open block and the chain before it, eu would take the next block of us
    for one of another history, and close the link as forked.
    """
    us, eu = cluster(2, appendfsync="no")
    us.ok("XADD", "s", "*", "f", "1")
    cut = us.engine.peers.snapshots.cut()
    us.commit()
    eu.engine.peers.snapshots.join(list(cut.chunks(1 << 16)), 1, eu.now_ms)
    us.ok("XADD", "s", "*", "f", "2")
    carry(us, eu)
    assert eu.ids("s") == us.ids("s") and len(us.ids("s")) == 2


@pytest.mark.parametrize(("how", "reply"), [("", 0), ("TIMEOUT", 0), ("ERROR", "UNBLOCKED")])
def test_a_writer_who_waits_for_others_can_be_unblocked(how: str, reply: object) -> None:
    us = cluster(2)[0]
    us.ok("XADD", "s", "*", "f", "1")
    other = us.engine.clients.connect("127.0.0.1:9", "127.0.0.1:7", us.now_ms)
    assert us("WAIT", "1", "0") is REPLY_LATER
    number = next(
        session.session_id for session in us.engine.state.sessions.values() if session.waiting
    )
    words = [b"CLIENT", b"UNBLOCK", b"%d" % number, *([how.encode()] if how else [])]
    assert execute(us.engine, other, words, us.now_ms) == 1
    us.at(us.now_ms + 1)
    answers = [answer.reply for answer in us.engine.clients.take_replies()]
    assert len(answers) == 1
    first = answers[0]
    assert first.message.startswith(str(reply)) if isinstance(first, ErrorReply) else first == reply


def test_replies_made_under_always_wait_whatever_comes_after_them() -> None:
    """S13.2: one pipeline set `always`, added, and set `no` before its replies left.

    The reply of the add left at once, and a kill took the entry back. A simulated client did so
    (seed 7000912).
    """
    engine, session = region()
    execute(engine, session, [b"CONFIG", b"SET", b"appendfsync", b"always"], 1000)
    add(engine, session)
    execute(engine, session, [b"CONFIG", b"SET", b"appendfsync", b"no"], 1000)
    position = engine.clients.reply_position()
    assert position > engine.committed_position
    assert engine.disk.wants_commit(1000)
    commit(engine, 1000)
    assert engine.committed_position >= position
    add(engine, session)
    assert engine.clients.reply_position() == 0
