"""MULTI while a region may not issue, and what readers that wait learn (S6.5, S10.7, S13.8)."""

from __future__ import annotations

from anabranch.region.engine.lifecycle import RECOVERY, SERVING, STARTING
from anabranch.region.engine.replies import NULL_ARRAY, QUEUED, ReplyLater
from tests.support.engine_cluster import Place, carry, cluster, code
from tests.support.engines import execute


def test_a_transaction_refused_in_recovery_is_over() -> None:
    """S13.8: after READONLY to EXEC the client is out of MULTI, as after any EXEC.

    Otherwise its next commands would be queued unseen.
    """
    us = cluster(2)[0]
    us.engine.state.lifecycle.enter_recovery()
    us.at(1000)
    assert us.engine.state.lifecycle.state == RECOVERY
    us.ok("MULTI")
    us.ok("XADD", "x", "*", "f", "1")
    assert code(us("EXEC")) == "READONLY"
    assert us("PING") is not QUEUED
    assert us("XLEN", "x") == 0


def test_a_transaction_waits_for_the_end_of_the_start() -> None:
    """S13.6: a transaction that would issue an effect waits as a whole, and then runs once."""
    us = Place(1, 2, 1000, patience_ms=500)
    us.at(1000)
    assert us.engine.state.lifecycle.state == STARTING
    us.ok("MULTI")
    us.ok("XADD", "x", "*", "f", "1")
    us.ok("XLEN", "x")
    assert isinstance(us("EXEC"), ReplyLater)
    us.at(1600)
    assert us.engine.state.lifecycle.state == SERVING
    (answer,) = us.engine.clients.take_replies()
    assert isinstance(answer.reply, list)
    assert answer.reply[1] == 1
    assert us("XLEN", "x") == 1


def test_a_snapshot_that_takes_one_entry_and_brings_another_wakes_readers() -> None:
    """S11.2: commands see the state after the join.

    The length of the log is as before, but there is something to read.
    """
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    carry(us, eu)
    last = eu.ids("x")[-1]
    assert isinstance(
        execute(
            eu.engine, eu.session, [b"XREAD", b"BLOCK", b"0", b"STREAMS", b"x", last.encode()], 1000
        ),
        ReplyLater,
    )
    us.ok("XDEL", "x", last)
    us.ok("XADD", "x", "*", "f", "2")
    us.commit()
    eu.engine.peers.snapshots.join(list(us.engine.peers.snapshots.cut().chunks(1 << 20)), 1, 1000)
    assert len(eu.engine.clients.take_replies()) == 1


def test_a_round_between_watch_and_exec_is_no_change() -> None:
    """S10.7: merges and writes break a WATCH.

    A round that announces earlier acknowledgements is neither.
    """
    us = cluster(2)[0]
    us.ok("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
    one = us.ok("XADD", "x", "*", "f", "1")
    us.ok("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")
    us.ok("XACK", "x", "g", one)
    us.ok("WATCH", "x")
    us.round()
    assert us.engine.state.replication.acknowledgements == 1
    us.ok("MULTI")
    us.ok("XLEN", "x")
    assert us("EXEC") == [1]


def test_a_merge_between_watch_and_exec_is_a_change() -> None:
    """S10.7: WATCH is honoured, merges included."""
    us, eu = cluster(2)
    us.ok("XADD", "x", "*", "f", "1")
    us.ok("WATCH", "x")
    eu.ok("XADD", "x", "*", "f", "2")
    carry(eu, us)
    us.ok("MULTI")
    us.ok("XLEN", "x")
    assert us("EXEC") is NULL_ARRAY
