"""A second implementation of the digest (S13.9).

Regions of different releases compare digests, so every byte that enters the hash is a contract.
"""

from __future__ import annotations

from random import Random

from xxhash import xxh3_128_intdigest

from anabranch.crdt.digest import of_stream
from anabranch.crdt.effects import Configure, SetDeadline
from anabranch.crdt.ids import make
from anabranch.crdt.stream import NEVER
from tests.crdt.support import Twin, assert_equal

K, G, H = b"key", b"g", b"h"


def number(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def entry_id(ms: int, seq: int) -> bytes:
    return number(ms) + number(seq)


def entry(dot: tuple[int, int], ms: int, seq: int, *fields: bytes) -> bytes:
    names = number(len(fields) // 2) + b"".join(text(name) for name in fields[::2])
    return (
        number(dot[0])
        + number(dot[1])
        + entry_id(ms, seq)
        + names
        + b"".join(text(value) for value in fields[1::2])
    )


def of(*items: bytes, key: bytes = K) -> bytes:
    """A key's digest: the sum of its items' hashes, hashed again together with the key's name."""
    total = sum(xxh3_128_intdigest(item) for item in items) % 2**128
    return (xxh3_128_intdigest(text(key) + total.to_bytes(16, "big"))).to_bytes(16, "big")


def test_entries_and_header() -> None:
    twin = Twin(3)
    twin.add(K, entry_id=make(5, 300), fields=(b"f", b"v" * 200, b"", b""))
    twin.add(K, entry_id=make(6, 1), fields=(b"f", b"w"))
    first = entry((3, 1), 5, 300, b"f", b"v" * 200, b"", b"")
    second = entry((3, 2), 6, 1, b"f", b"w")
    header = b"h" + number(3) + number(2) + entry_id(6, 1)
    assert twin.keyspace.digest_of(K) == twin.keyspace.digest() == of(first, second, header)
    twin.delete_entry(K, make(5, 300))
    assert twin.keyspace.digest() == of(second, header)
    twin.set_id(K, make(7, 0))
    assert twin.keyspace.digest() == of(second, b"h" + number(3) + number(4) + entry_id(7, 0))


def test_creates_with_starts_and_acked_spans() -> None:
    one, two = Twin(1), Twin(2)
    one.create(K, G, make(5, 1))
    two.pull(one)
    one.add(K, entry_id=make(6, 1))
    two.create(K, H, None)
    one.pull(two)
    one.read(K, G)
    one.acknowledge(K, G, {make(6, 1)})
    one.announce(K, G)
    stream = one.keyspace.keys[K]
    added = entry((1, 2), 6, 1, *stream.logs[1].fields_at(2) or [])
    header = b"h" + number(1) + number(2) + entry_id(6, 1)
    from_id = (
        b"c"
        + number(1)
        + number(1)
        + text(G)
        + b"\0"
        + entry_id(5, 1)
        + number(1)
        + number(0)
        + number(2)
    )
    from_vector = b"c" + number(2) + number(1) + text(H) + b"\1" + number(1) + number(1) + number(1)
    assert {name: sorted(group.creates) for name, group in stream.groups.items()} == {
        G: [(1, 1)],
        H: [(2, 1)],
    }
    assert one.keyspace.digest() == of(added, header, from_id, from_vector)


def test_deadlines_and_configurations() -> None:
    twin = Twin(1)
    twin.add(K, entry_id=make(5, 1), fields=(b"a", b"b"))
    twin.issue([SetDeadline(K, NEVER, [])])
    twin.issue([Configure(K, 7, 300, [], {})])
    items = [
        entry((1, 1), 5, 1, b"a", b"b"),
        b"h" + number(1) + number(1) + entry_id(5, 1),
        b"d" + number(1) + number(2) + number(NEVER),
    ]
    items.append(b"i" + number(1) + number(3) + number(7) + number(300))
    assert twin.keyspace.digest() == of(*items)


def test_keys_add_up_and_nothing_is_zero() -> None:
    twin = Twin(1)
    assert twin.keyspace.digest() == bytes(16) == twin.keyspace.digest_of(K)
    for key in (b"a", b"b"):
        twin.add(key, entry_id=make(5, 1), fields=(b"a", b"b"))
    parts = [int.from_bytes(twin.keyspace.digest_of(key), "big") for key in (b"a", b"b")]
    assert parts[0] != parts[1]
    assert twin.keyspace.digest() == (sum(parts) % 2**128).to_bytes(16, "big")
    for key in (b"a", b"b"):
        twin.delete(key)
    assert twin.keyspace.digest() == bytes(16)
    assert all(of_stream(stream) == 0 for stream in twin.keyspace.keys.values())


def test_many_changed_keys_are_hashed_over_several_calls() -> None:
    """Each call once began with the first key again, so 2,000 keys were never all hashed.

    A region that had loaded so many keys sent no digest and compared none.
    """
    twin = Twin(1)
    keys = [b"k%d" % number for number in range(25)]
    for key in keys:
        for ms in (5, 6, 7):
            twin.add(key, entry_id=make(ms, 1), fields=(b"a", b"b"))
    keyspace = twin.keyspace
    calls = 1
    while not keyspace.hash_some(10):
        calls += 1
        assert calls < 50
    assert 5 <= calls <= 12, "25 keys of 3 entries are about 100 units of work"
    assert keyspace.hash_some(0), "what is hashed stays hashed"
    assert keyspace.digest() == total_of(twin)
    twin.add(keys[3], entry_id=make(8, 1), fields=(b"a", b"b"))
    assert not keyspace.hash_some(0)
    assert keyspace.hash_some(10) and keyspace.digest() == total_of(twin)


def test_the_digest_is_the_sum_of_its_keys_however_the_work_is_cut() -> None:
    draw = Random(5)
    twin = Twin(1)
    for turn in range(400):
        key = b"k%d" % draw.randrange(8)
        command = draw.randrange(6)
        if command == 0:
            twin.delete(key)
        elif command == 1:
            twin.keyspace.hash_some(draw.randrange(6))
        elif command == 2:
            assert twin.keyspace.digest() == total_of(twin)
        else:
            twin.add(key, entry_id=make(turn + 1, 1), fields=(b"a", b"b"))
    assert twin.keyspace.digest() == total_of(twin)


def total_of(twin: Twin) -> bytes:
    """The sum of the digests of all keys, each computed anew."""
    keyspace = twin.keyspace
    total = sum(int.from_bytes(keyspace.digest_of(key), "big") for key in keyspace.keys)
    return (total % 2**128).to_bytes(16, "big")


def test_key_made_again_after_a_flush_is_in_the_digest() -> None:
    """A key that is created again after FLUSHALL must be hashed again (S13.9).

    The steps: XADD, FLUSHALL, a digest, XADD. After the flush nothing of the key was left, but it
    was still marked as changed since the last checkpoint. The bug: therefore the new key was not
    marked as one to hash, and the digest omitted it. Peers with equal vectors would have raised
    `crdt_divergence`.
    """
    twin, peer = Twin(1), Twin(2)
    twin.add(K)
    twin.flush()
    assert twin.keyspace.digest() == bytes(16)
    twin.add(K)
    peer.pull(twin)
    assert_equal(twin, peer)
    assert twin.keyspace.digest() != bytes(16)
