"""What time does: which keys it works off, when, and what it leaves (S10.2 to S10.6, S6.2)."""

from __future__ import annotations

from anabranch.region.engine.history import History, Wanted
from anabranch.region.engine.replies import MapReply, Reply
from anabranch.region.engine.settings import Settings
from anabranch.region.engine.upkeep import Upkeep
from tests.engine.test_connection import pairs_of
from tests.support.engine_cluster import Place, carry, cluster, sync, tell
from tests.support.engines import execute, single


def one_of(us: Place) -> Upkeep:
    return us.engine.steps.upkeep


def test_keys_that_cannot_go_yet_keep_no_others_waiting() -> None:
    """S10.6: one pass looks at every key.

    The first key still holds entries, the second holds nothing but its deadline.
    """
    us, eu = cluster(2)
    us.ok("XADD", "a", "*", "f", "1")
    eu.ok("XADD", "b", "*", "f", "1")
    sync(us, eu)
    for key in ("a", "b"):
        us.ok("PEXPIRE", key, "1000000")
        us.ok("DEL", key)
    eu.ok("XADD", "a", "*", "f", "2")  # survives the DEL, and is hidden with what comes
    sync(us, eu)
    sync(us, eu)
    us.at(us.now_ms + 10)
    us.commit()
    keys = us.engine.keyspace.keys
    assert b"a" in keys
    assert b"b" not in keys or not keys[b"b"].deadlines


def test_a_hidden_key_counts_once_and_needs_one_clock() -> None:
    """Changes of a hidden key must not count it again.

    Each change once put the key's deadline back among those to come. The key was counted again,
    and a row was written to carry the clock.
    """
    us, eu = cluster(2)
    eu.engine.peers.links.is_in_state(1, "up", "")
    us.ok("XADD", "a", "*", "f", "1")
    sync(us, eu)
    us.ok("PEXPIRE", "a", "100")
    eu.ok("XADD", "a", "*", "f", "2")
    eu.ok("XADD", "a", "*", "f", "3")
    us.at(us.now_ms + 200)
    assert us.engine.state.replication.expired_keys == 1
    us.commit()
    rows = us.engine.state.journal.position
    carry(eu, us)  # two adds that the deadline hides as well
    us.at(us.now_ms + 1)
    us.commit()
    assert us.engine.state.replication.expired_keys == 1
    assert us.engine.state.journal.position == rows + 1, "the block alone"


def test_a_key_that_is_made_anew_and_expires_again_counts_again() -> None:
    us = cluster(1)[0]
    for _ in range(2):
        us.ok("XADD", "a", "*", "f", "1")
        us.ok("PEXPIRE", "a", "100")
        us.at(us.now_ms + 200)
    assert us.engine.state.replication.expired_keys == 2


def test_a_deadline_that_was_moved_hides_when_it_says_so() -> None:
    us = cluster(1)[0]
    us.ok("XADD", "a", "*", "f", "1")
    us.ok("PEXPIRE", "a", "100")
    us.ok("PEXPIRE", "a", "300")
    us.at(1200)
    assert us("EXISTS", "a") == 1 and not one_of(us).hidden
    us.ok("PEXPIRE", "a", "50")
    us.at(1251)
    assert us("EXISTS", "a") == 0 and list(one_of(us).hidden) == [b"a"]
    assert us.engine.state.replication.expired_keys == 1


def test_what_is_collected_is_forgotten() -> None:
    """A key of which nothing is left once its tombstones are stable takes no memory."""
    us, eu = cluster(2)
    us.ok("XGROUP", "CREATE", "a", "g", "0", "MKSTREAM")
    us.ok("DEL", "a")
    us.ok("XADD", "b", "*", "f", "1")
    us.ok("XGROUP", "CREATE", "b", "g", "0")
    us.ok("XGROUP", "DESTROY", "b", "g")
    assert us.engine.keyspace.keys[b"b"].tombstones
    sync(us, eu)
    for place in (us, eu):
        place.at(place.now_ms + 1000)
    for place in (us, eu):
        assert list(place.engine.keyspace.keys) == [b"b"]
        assert not place.engine.keyspace.keys[b"b"].tombstones
        assert not one_of(place).collectable


def test_pairs_are_collected_when_old_and_stable() -> None:
    us, eu = cluster(2)
    us.ok("XADD", "a", "IDMP", "p", "i", "*", "f", "1")
    us.commit()
    us.at(us.now_ms + 200_000)
    assert us.engine.keyspace.keys[b"a"].pairs.count() == 1, "eu has not said that it holds it"
    eu.at(us.now_ms)
    sync(us, eu)
    us.at(us.now_ms + 1)
    assert us.engine.keyspace.keys[b"a"].pairs.count() == 0
    eu.at(us.now_ms)
    assert eu.engine.keyspace.keys[b"a"].pairs.count() == 1, "it holds it since a moment ago"
    eu.at(us.now_ms + 100_000)
    assert eu.engine.keyspace.keys[b"a"].pairs.count() == 0


def expired(us: Place, eu: Place) -> None:
    """A deadline of us's, in both regions, that passes in 100 ms."""
    us.ok("XADD", "a", "*", "f", "1")
    us.ok("PEXPIRE", "a", "100")
    sync(us, eu)


def test_the_winner_removes_once_all_clocks_are_past() -> None:
    """S10.3."""
    us, eu = cluster(2, crdt_expiry_grace_ms="60000")
    expired(us, eu)
    us.at(2000)
    us.commit()
    assert us.engine.keyspace.keys[b"a"].length() == 1, "eu's clock is not known to be past it"
    eu.at(2000)
    eu.commit()
    assert eu.engine.keyspace.keys[b"a"].length() == 1, "us's deadline, not eu's"
    tell(eu, us)
    us.at(2010)
    assert us.engine.keyspace.keys[b"a"].length() == 0
    assert us.engine.state.replication.expired_early == 0


def test_after_the_grace_anybody_removes() -> None:
    us, eu = cluster(2, crdt_expiry_grace_ms="5000")
    expired(us, eu)
    deadline_ms = eu.engine.keyspace.keys[b"a"].winning_deadline()
    assert deadline_ms is not None
    eu.at(deadline_ms[1] + 5000)
    assert eu.engine.keyspace.keys[b"a"].length() == 1
    eu.at(deadline_ms[1] + 5001)
    assert eu.engine.keyspace.keys[b"a"].length() == 0
    assert eu.engine.state.replication.expired_early == 1, "us was not known to be past it"


def test_time_alone_works_off_all_that_an_expired_key_leaves() -> None:
    """S10.3, S10.6, S6.2: later ticks follow up what one tick changed.

    No command comes, and nothing is merged.
    """
    engine = single(1, 1000, Settings())
    session = engine.clients.connect("127.0.0.1:5", "127.0.0.1:7", 1000)
    for words in (
        [b"XADD", b"s", b"*", b"f", b"v"],
        [b"XGROUP", b"CREATE", b"s", b"g", b"0"],
        [b"PEXPIRE", b"s", b"5"],
    ):
        execute(engine, session, words, 1000)
    for now_ms in range(1001, 70_000, 500):
        engine.tick(now_ms)
        commit = engine.disk.take_commit(now_ms)
        if commit is not None:
            engine.disk.committed(now_ms)
    assert engine.keyspace.keys == {}


def test_what_waits_for_the_disk_is_counted() -> None:
    """S14: a row costs its bytes and a fixed amount, so that empty rows count, too."""
    journal = single(1, 1000, Settings()).state.journal
    before = journal.pending_bytes()
    for _ in range(3):
        journal.push_clock()
    assert journal.pending_bytes() >= before + 3 * 16


def test_the_removal_of_leftovers_is_not_called_an_expiry() -> None:
    """S10.5: an XADD to a deleted key with a deadline first removes that deadline."""
    (us,) = cluster(1)
    us.ok("XADD", "s", "*", "f", "1")
    us.ok("PEXPIRE", "s", "60000")
    us.ok("DEL", "s")
    us.ok("XADD", "s", "*", "f", "2")
    us.engine.disk.cut_block()
    history = History(Wanted(b"s"), 100, is_newest=False)
    history.take(us.engine.state.journal.rows)
    kinds: list[Reply] = []
    for event in history.events():
        assert isinstance(event, MapReply)
        kinds.append(pairs_of(event)[b"kind"])
    assert kinds[2:4] == [b"delete", b"remove-observed"]


# Ten pairs of a producer answer, and a region keeps 50 others; collections are far apart.
LIMITS = {
    "stream_idmp_maxsize": "10",
    "crdt_idmp_retired_max": "50",
    "crdt_collect_interval_ms": "60000",
}


def add_pairs(place: Place, first: int, count: int) -> None:
    """Idempotent adds of one producer."""
    for number in range(first, first + count):
        place.ok("XADD", "s", "IDMP", "p", str(number), "*", "f", "v")


def test_a_fast_producer_does_not_fill_the_limit_of_retired_pairs() -> None:
    """S9.3: retired pairs are dropped as soon as they are stable, also between two collections.

    At 240,000 adds a second more pairs were retired between two collections than the limit allows.
    So pairs were forgotten early, with an alarm, in a region that had nothing to wait for.
    """
    (us,) = cluster(1, 1000, **LIMITS)
    for round_ in range(40):
        add_pairs(us, 20 * round_, 20)
        us.commit()
        us.at(us.now_ms + 1)
    limits = us.engine.keyspace.pair_limits
    assert limits.forgotten_early == 0
    assert limits.retired <= 20
    assert us.engine.keyspace.keys[b"s"].pairs.count() <= 30


def test_a_retired_pair_waits_for_every_region() -> None:
    """S9.3: a pair that another region may not have yet recognises conflicts."""
    us, eu = cluster(2, 1000, **LIMITS)
    limits = us.engine.keyspace.pair_limits
    for round_ in range(3):
        add_pairs(us, 20 * round_, 20)
        us.commit()
        us.at(us.now_ms + 1)
    assert limits.retired == 50
    sync(us, eu)
    sync(us, eu)
    us.at(us.now_ms + 1)
    add_pairs(us, 1000, 1)
    assert limits.retired <= 1
