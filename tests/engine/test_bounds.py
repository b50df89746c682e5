"""Everything is bounded (S14): what clients or time make grow, and what must therefore go again."""

from __future__ import annotations

from anabranch.region.engine.lifecycle import RECOVERY
from anabranch.region.engine.replies import QUEUED, ErrorReply, Reply, listed
from tests.support.engine_cluster import carry, cluster, code, sync


def test_adds_to_a_key_with_a_deadline_leave_nothing_behind() -> None:
    """S14: the list of deadlines does not grow with the adds to one key.

    The key has a deadline far ahead, and takes a million adds.
    """
    us = cluster(1)[0]
    us.ok("XADD", "x", "*", "f", "1")
    us.ok("EXPIRE", "x", "100000")
    for _ in range(500):
        us.ok("XADD", "x", "*", "f", "1")
    assert us.engine.state.contents.deadlines.waiting() == 1


def test_ever_other_deadlines_do_not_pile_up() -> None:
    """S14: the heap of deadlines stays small when a client moves one deadline again and again.

    Each move leaves the former deadline in the heap.
    """
    us = cluster(1)[0]
    us.ok("XADD", "x", "*", "f", "1")
    for more in range(20000):
        us.ok("PEXPIRE", "x", 1000000 + more)
    assert us.engine.state.contents.deadlines.waiting() < 5000
    us.at(1000 + 1000000 + 20001)
    assert us("EXISTS", "x") == 0
    assert us.engine.steps.upkeep.hidden or not us.engine.keyspace.get(b"x")


def test_groups_that_come_and_go_while_nobody_receives() -> None:
    """S14: candidates for announcement stay few while no round begins.

    They are noted per group until a round looks at them. Without receivers there is no round.
    """
    us = cluster(2)[0]
    us.ok("XADD", "x", "*", "f", "1")
    for number in range(100):
        us.ok("XGROUP", "CREATE", "x", f"g{number}", "0")
        us.ok("XGROUP", "DESTROY", "x", f"g{number}")
    assert not us.engine.keyspace.acknowledgeable
    us.ok("XGROUP", "CREATE", "x", "g", "0")
    us.ok("DEL", "x")
    assert not us.engine.keyspace.acknowledgeable


def test_pairs_that_a_recovering_region_merges_are_not_listed_for_ever() -> None:
    """S14, S9.2: a region in recovery keeps no list of the pairs that it merges.

    It issues no removals meanwhile, and looks through all pairs when the recovery is over.
    """
    us, eu = cluster(2)
    us.engine.state.lifecycle.enter_recovery()
    us.at(1000)
    assert us.engine.state.lifecycle.state == RECOVERY
    for number in range(50):
        eu.ok("XADD", "x", "IDMP", "p", number, "*", "f", "1")
        carry(eu, us, gossip=False)
    assert not us.engine.keyspace.changes.pairs


def test_what_delconsumer_dropped_is_forgotten_with_its_entries() -> None:
    """S14, S8.1: nothing of a deleted entry need be remembered.

    It counts neither as pending nor as dropped.
    """
    us, eu = cluster(2)
    us.ok("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
    for _ in range(50):
        us.ok("XADD", "x", "*", "f", "1")
        us.ok("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")
        us.ok("XGROUP", "DELCONSUMER", "x", "g", "c")
    us.ok("XTRIM", "x", "MAXLEN", "2")
    sync(us, eu)
    stream = us.engine.keyspace.get(b"x")
    assert stream is not None
    assert {
        region: len(counters) for region, counters in stream.groups[b"g"].delivery.dropped.items()
    } == {1: 2}


def test_a_command_that_was_let_in_is_not_refused_half_way() -> None:
    """S14: an add that takes the last room before the disk still trims, and says that it was done.

    It once told its client that nothing had been done.
    """
    us = cluster(1, crdt_uncommitted_max_bytes="200")[0]
    us.ok("XADD", "x", "*", "f", "1")
    assert isinstance(us("XADD", "x", "MAXLEN", "1", "*", "f", "y" * 300), bytes)
    assert us("XLEN", "x") == 1
    refusal = us("XADD", "x", "MAXLEN", "1", "*", "f", "2")
    assert isinstance(refusal, ErrorReply) and "wait for its disk" in refusal.message
    assert us("XLEN", "x") == 1


def test_as_many_bytes_as_the_limit_may_wait_for_the_disk() -> None:
    us = cluster(1)[0]
    us.ok("XADD", "x", "*", "f", "y" * 1_100_000)
    waiting = us.engine.state.journal.pending_bytes()
    us.ok("CONFIG", "SET", "crdt-uncommitted-max-bytes", waiting - 1)
    assert isinstance(us("XADD", "x", "*", "f", "1"), ErrorReply)
    us.ok("CONFIG", "SET", "crdt-uncommitted-max-bytes", waiting)
    us.ok("XADD", "x", "*", "f", "1")


def test_a_transaction_that_was_let_in_is_done_whole() -> None:
    """S14, S1.2: what a transaction adds itself does not have its last commands refused."""
    us = cluster(1, crdt_uncommitted_max_bytes="200")[0]
    us.ok("MULTI")
    us.ok("XADD", "x", "*", "f", "y" * 300)
    us.ok("XADD", "x", "*", "f", "2")
    us.ok("EXEC")
    assert us("XLEN", "x") == 2


def text_of(reply: Reply) -> str:
    return reply.message if isinstance(reply, ErrorReply) else f"no error: {reply!r}"


def test_a_command_of_too_many_keys_is_refused_before_it_changes_anything() -> None:
    """S14: nobody else is served while it runs. In MULTI the transaction fails."""
    us = cluster(1)[0]
    us.ok("CONFIG", "SET", "crdt-command-max-keys", 3)
    names = [f"k{number}" for number in range(4)]
    for name in names:
        us.ok("XADD", name, "*", "f", "1")
    refused = "ERR the command names more keys than crdt-command-max-keys (3)"
    for words in (
        ["DEL", *names],
        ["EXISTS", *names],
        ["WATCH", *names],
        ["XREAD", "COUNT", "1", "STREAMS", *names, *["0"] * 4],
        ["XREADGROUP", "GROUP", "STREAMS", "c", "STREAMS", *names, *[">"] * 4],
    ):
        assert text_of(us(*words)) == refused, words
        us.ok("MULTI")
        assert text_of(us(*words)) == refused, words
        assert code(us("EXEC")) == "EXECABORT"
    assert us("DBSIZE") == 4
    assert us.engine.state.statistics.command_max_keys_refused == 10
    assert us("EXISTS", *names[:3]) == us("DEL", *names[:3]) == 3
    assert isinstance(us("XREAD", "STREAMS", *names[1:], *["0"] * 3), list)


def test_many_words_are_not_many_keys() -> None:
    us = cluster(1)[0]
    us.ok("CONFIG", "SET", "crdt-command-max-keys", 1)
    us.ok("XADD", "k", "*", "f", "1", "g", "2", "h", "3")
    us.ok("XGROUP", "CREATE", "k", "g", "0")
    assert us("XACK", "k", "g", "1-1", "2-1", "3-1") == 0
    assert us("DEL", "k") == 1


def test_a_transaction_of_too_many_commands_is_refused_while_it_is_queued() -> None:
    """S1.2: nobody else is served while EXEC runs. A command of several keys counts as many."""
    us = cluster(1)[0]
    us.ok("CONFIG", "SET", "crdt-unit-max-commands", 3)
    add = ("XADD", "x", "*", "f", "1")
    us.ok("MULTI")
    for _ in range(3):
        assert us(*add) is QUEUED
    done = listed(us("EXEC"))
    assert isinstance(done, list) and len(done) == 3
    us.ok("MULTI")
    assert us(*add) is QUEUED
    assert us("EXISTS", "x", "y") is QUEUED
    refused = "ERR the transaction has more commands than crdt-unit-max-commands (3)"
    assert text_of(us("PING")) == refused
    assert code(us("EXEC")) == "EXECABORT"
    assert us("XLEN", "x") == 3
    us.ok("MULTI")
    us.ok("DISCARD")
    us.ok("MULTI")
    assert [us("PING") is QUEUED for _ in range(3)] == [True] * 3
    assert us.engine.state.statistics.unit_max_commands_refused == 1
