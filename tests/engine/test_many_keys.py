"""What runs over all keys does so in slices, so that other clients get their turn."""

from __future__ import annotations

import pytest

from anabranch.region.engine.commands.keys import SCAN_MAX
from anabranch.region.engine.engine import Engine
from anabranch.region.engine.replies import REPLY_LATER, ErrorReply, Reply
from anabranch.region.engine.session import Session
from tests.support.engines import execute, single

KEYS = 5_000


def filled() -> tuple[Engine, Session]:
    engine = single(1, 1000)
    session = engine.clients.connect("127.0.0.1:5", "127.0.0.1:7", 1000)
    for number in range(KEYS):
        add(engine, session, number)
    commit(engine, 1000)
    return engine, session


def add(engine: Engine, session: Session, number: int) -> None:
    execute(engine, session, [b"XADD", b"key:%d" % number, b"*", b"f", b"v"], 1000)


def commit(engine: Engine, now_ms: int) -> None:
    if engine.disk.take_commit(now_ms) is not None:
        engine.disk.committed(now_ms)


def answer(engine: Engine, now_ms: int) -> bytes:
    """The digest that a client gets at this time, empty if it has to wait."""
    commit(engine, now_ms)
    replies = engine.clients.take_replies()
    if not replies:
        return b""
    assert isinstance(replies[0].reply, bytes)
    return replies[0].reply


def test_a_digest_of_many_keys_is_made_in_slices() -> None:
    """Keys that change meanwhile are hashed again: the digest is that of its last moment."""
    engine, asking = filled()
    writing = engine.clients.connect("127.0.0.1:6", "127.0.0.1:7", 1000)
    assert execute(engine, asking, [b"CRDT.DIGEST"], 1000) is REPLY_LATER
    ticks = 0
    told = b""
    while not told:
        assert asking.waiting
        for number in range(ticks, KEYS, KEYS // 50):
            add(engine, writing, number)
        ticks += 1
        engine.tick(1000 + 5 * ticks)
        told = answer(engine, 1000 + 5 * ticks)
    assert ticks > 3
    assert told == engine.keyspace.digest().hex().encode()
    # All is hashed now, but for what changed since.
    add(engine, writing, 7)
    execute(engine, asking, [b"CRDT.DIGEST"], 2000)
    assert answer(engine, 2000) == engine.keyspace.digest().hex().encode() != told


def test_a_digest_comes_at_last_however_much_is_written() -> None:
    engine, asking = filled()
    writing = engine.clients.connect("127.0.0.1:6", "127.0.0.1:7", 1000)
    execute(engine, asking, [b"CRDT.DIGEST"], 1000)
    for tick in range(1, 5):
        for number in range(KEYS):
            add(engine, writing, number)
        engine.tick(1000 + tick)
        assert not answer(engine, 1000 + tick)
    engine.tick(9000)
    assert answer(engine, 9000) == engine.keyspace.digest().hex().encode()


def test_a_flush_of_many_keys_is_noted_in_slices() -> None:
    """It is told at once by all that a client sees; checkpoint and memory follow."""
    engine, session = filled()
    keyspace = engine.keyspace
    assert execute(engine, session, [b"DBSIZE"], 1000) == KEYS
    keyspace.dirty.clear()
    execute(engine, session, [b"FLUSHALL"], 1000)
    assert keyspace.digest() == bytes(16) and not keyspace.keys and not keyspace.dirty
    assert keyspace.is_freeing()
    add(engine, session, 3)
    assert keyspace.digest() != bytes(16)
    engine.tick(1005)
    assert 0 < len(keyspace.dirty) < KEYS
    assert execute(engine, session, [b"DBSIZE"], 1010) == 1
    keyspace.free_some()
    assert len(keyspace.dirty) == KEYS and not keyspace.is_freeing()


@pytest.mark.parametrize("count", [1, 10, 1000])
def test_cursors_of_scan_are_numbers_that_every_client_keeps(count: int) -> None:
    """They had 64 bits. JavaScript's numbers are exact up to 2**53, and PHP's have 63 bits.

    node-redis 4 returned 1,230 of 1,287 keys, and phpredis and the exporter of Prometheus asked
    again for ever.
    """
    engine, session = filled()
    found: list[Reply] = []
    cursor = b"0"
    while True:
        reply = execute(engine, session, [b"SCAN", cursor, b"COUNT", b"%d" % count], 1000)
        assert isinstance(reply, list) and isinstance(reply[0], bytes)
        assert isinstance(reply[1], list)
        found += reply[1]
        if reply[0] == b"0":
            break
        cursor = bytes(reply[0])
        assert int(cursor) < 2**53
    assert len(found) == KEYS and len(set(found)) == KEYS


def test_one_scan_looks_at_some_keys_however_many_it_is_to_count() -> None:
    """COUNT is a wish. The cursor says that there are more."""
    engine, session = filled()
    for number in range(KEYS, SCAN_MAX + 1000):
        add(engine, session, number)
    reply = execute(engine, session, [b"SCAN", b"0", b"COUNT", b"1000000"], 1000)
    assert isinstance(reply, list) and isinstance(reply[1], list) and reply[0] != b"0"
    assert len(reply[1]) == SCAN_MAX
    assert isinstance(reply[0], bytes)
    rest = execute(engine, session, [b"SCAN", reply[0], b"COUNT", b"1000000"], 1000)
    assert isinstance(rest, list) and isinstance(rest[1], list) and rest[0] == b"0"
    assert len({*reply[1], *rest[1]}) == len(reply[1]) + len(rest[1]) == SCAN_MAX + 1000


READS = [
    "XLEN k", "XRANGE k - +", "XREVRANGE k + -", "XREAD STREAMS k 0", "XINFO STREAM k",
    "XINFO STREAM k FULL", "XINFO GROUPS k", "XGROUP DESTROY k g", "XPENDING k g",
    "XACK k g 1-1", "XREADGROUP GROUP g c STREAMS k >", "XDEL k 1-1", "XTRIM k MAXLEN 10",
    "EXISTS k", "TYPE k", "TTL k", "PERSIST k", "EXPIRETIME k", "SCAN 0", "KEYS *", "RANDOMKEY",
    "DBSIZE", "INFO", "CRDT.EXPLAIN k", "CRDT.GROUPS k", "CRDT.LOG k 1 - + COUNT 5",
    "XIDMP CFGGET k", "RENAME k k", "WATCH k",
]  # fmt: skip


@pytest.mark.parametrize("command", READS)
def test_a_look_at_a_plain_key_gives_it_no_rare_parts(command: str) -> None:
    """Their place takes nearly as much memory as all else of a small key, and would stay."""
    engine = single(1, 1000)
    session = engine.clients.connect("127.0.0.1:5", "127.0.0.1:7", 1000)
    for _ in range(3):
        execute(engine, session, b"XADD k * f v".split(), 1000)
    commit(engine, 1000)
    reply = execute(engine, session, command.encode().split(), 1000)
    assert not (isinstance(reply, ErrorReply) and "unknown" in reply.message), reply.message
    engine.tick(2000)
    commit(engine, 2000)
    assert engine.keyspace.keys[b"k"].rare is None
