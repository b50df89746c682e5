"""FLUSHALL of keys that hold nothing else: they end at once, and nobody misses it (S5.4)."""

from __future__ import annotations

from anabranch.region.engine.replies import NULL_ARRAY, ReplyLater
from tests.engine.test_random_histories import counted
from tests.support.engine_cluster import Place, carry, cluster, code
from tests.support.engines import execute


def filled(us: Place) -> None:
    """Three keys: pairs above the limit of a producer, a group with pending entries, a deadline."""
    us.ok("CONFIG", "SET", "stream-idmp-maxsize", 2)
    for n in range(5):
        us.ok("XADD", "pairs", "IDMP", "p", n, "*", "f", "v")
    us.ok("XADD", "jobs", "*", "f", "v")
    us.ok("XGROUP", "CREATE", "jobs", "g", "0")
    us.ok("XREADGROUP", "GROUP", "g", "c", "STREAMS", "jobs", ">")
    us.ok("XADD", "dated", "*", "f", "v")
    us.ok("PEXPIRE", "dated", 100_000)
    us.commit()


def test_everything_that_counts_a_key_forgets_it() -> None:
    us = cluster(2)[0]
    filled(us)
    keyspace = us.engine.keyspace
    assert keyspace.pair_limits.retired == 3
    keyspace.dirty.clear()
    us.ok("FLUSHALL")
    assert us("DBSIZE") == 0 and us("KEYS", "*") == [] and us("SCAN", 0) == [b"0", []]
    assert set(keyspace.keys) == {b"dated"}, "only a deadline outlives a FLUSHALL (S3.3)"
    keyspace.free_some()
    assert set(keyspace.dirty) == {b"pairs", b"jobs", b"dated"}, "the next checkpoint removes them"
    assert keyspace.pair_limits.retired == 0 and not keyspace.acknowledgeable
    state = us.engine.state
    assert {name: getattr(state.contents.read(us.now_ms), name) for name in counted(us.engine)} == (
        counted(us.engine)
    )
    us.at(us.now_ms + 10)
    assert us.ok("XADD", "pairs", "IDMP", "p", 0, "*", "f", "v") != 0 and us("XLEN", "pairs") == 1


def test_both_regions_have_equal_digests() -> None:
    """The region that receives the flush has all that it has seen, or an entry that it has not."""
    for has_more in (False, True):
        us, eu = cluster(2)
        filled(us)
        carry(us, eu)
        if has_more:
            eu.ok("XADD", "jobs", "*", "late", "1")
        us.ok("FLUSHALL")
        carry(us, eu)
        carry(eu, us)
        assert us.digest() == eu.digest()
        assert us("XLEN", "jobs") == eu("XLEN", "jobs") == int(has_more)
        assert us("DBSIZE") == eu("DBSIZE") == int(has_more)


def test_readers_and_watchers_notice() -> None:
    us = cluster(2)[0]
    filled(us)
    reader = us.engine.clients.connect("test", "test", us.now_ms)
    words = [b"XREADGROUP", b"GROUP", b"g", b"d", b"BLOCK", b"0", b"STREAMS", b"jobs", b">"]
    assert isinstance(execute(us.engine, reader, words, us.now_ms), ReplyLater)
    watcher = us.engine.clients.connect("test", "test", us.now_ms)
    execute(us.engine, watcher, [b"WATCH", b"pairs"], us.now_ms)
    us.ok("FLUSHALL")
    us.commit()
    (answer,) = [one for one in us.engine.clients.take_replies() if one.session is reader]
    assert code(answer.reply) == "NOGROUP"
    execute(us.engine, watcher, [b"MULTI"], us.now_ms)
    assert execute(us.engine, watcher, [b"EXEC"], us.now_ms) is NULL_ARRAY


def test_a_restart_after_a_flush_finds_nothing() -> None:
    us = cluster(2)[0]
    filled(us)
    us.ok("FLUSHALL")
    us.commit()
    us.restart(us.now_ms + 10)
    us.at(us.now_ms + 10)
    assert us("DBSIZE") == 0 and us("XLEN", "jobs") == 0
