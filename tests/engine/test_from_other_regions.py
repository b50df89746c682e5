"""What commands say of entries, trims and acknowledgements that came from other regions."""

from __future__ import annotations

import pytest

from anabranch.region.engine.engine import Engine
from tests.support.engine_cluster import Place, carry, cluster, sync
from tests.support.replies import plain


def read(place: Place, *options: str) -> list[str]:
    """The IDs that alice of group g is given next."""
    reply = place.ok("XREADGROUP", "GROUP", "g", "alice", *options, "STREAMS", "s", ">")
    return [entry[0] for entry in plain(reply, "utf-8")[0][1]] if isinstance(reply, list) else []


def with_group(*added: str) -> tuple[Place, Place]:
    """us and eu; both hold entries that us added under these IDs, and a group that reads them."""
    us, eu = cluster(2, crdt_xadd_id_uniqueness_mode="liberal")
    for entry_id in added:
        us.ok("XADD", "s", entry_id, "f", "v")
    us.ok("XGROUP", "CREATE", "s", "g", "0")
    sync(us, eu)
    return us, eu


def test_xpending_names_the_lowest_and_the_highest_id_of_all_logs() -> None:
    """S7.5: the summary is of the stream, not of the log of one region.

    An entry of eu arrives late, below what was read. A monitor that took the IDs of single logs
    would be shown a range without the oldest and the newest pending entry.
    """
    us, eu = cluster(2, crdt_xadd_id_uniqueness_mode="liberal")
    us.ok("XADD", "s", "110-1", "f", "v")
    us.ok("XGROUP", "CREATE", "s", "g", "0")
    assert read(us) == ["110-1"]
    eu.ok("XADD", "s", "100-1", "f", "v")
    carry(eu, us)
    assert read(us) == ["100-1"]
    us.ok("XADD", "s", "120-1", "f", "v")
    assert read(us) == ["120-1"]
    assert us("XPENDING", "s", "g") == [3, b"100-1", b"120-1", [[b"alice", b"3"]]]


def test_lag_does_not_count_what_was_acknowledged_elsewhere() -> None:
    """S7.6: entries that another region acknowledged are not to be delivered, wherever they lie.

    us goes on after 120-1 by SETID, and acknowledges 130-1 and 140-1. eu has read 110-1, so it is
    to deliver 120-1 and 150-1. If `lag` took every entry above 110-1 for undelivered, a group that
    is nearly done would seem to fall behind.
    """
    us, eu = with_group("110-1", "120-1", "130-1", "140-1", "150-1")
    us.ok("XGROUP", "SETID", "s", "g", "120-1")
    assert read(us, "COUNT", "2") == ["130-1", "140-1"]
    us.ok("XACK", "s", "g", "130-1", "140-1")
    assert read(eu, "COUNT", "1") == ["110-1"]
    sync(us, eu)
    (group,) = plain(eu("XINFO", "GROUPS", "s"), "utf-8")
    assert group["lag"] == 2
    assert read(eu) == ["120-1", "150-1"]


def test_a_noack_read_of_a_known_consumer_is_announced() -> None:
    """S8.3: what a NOACK read took is acknowledged, so no other region delivers it again.

    alice has read before, so her read makes no consumer, and nothing but the read itself can lead
    to the announcement. Without it eu would deliver 120-1 a second time.
    """
    us, eu = with_group("110-1", "120-1")
    assert read(us, "COUNT", "1") == ["110-1"]
    us.ok("XACK", "s", "g", "110-1")
    sync(us, eu)
    assert read(us, "NOACK") == ["120-1"]
    sync(us, eu)
    assert read(eu) == []


def test_a_snapshot_tells_up_to_where_a_log_was_trimmed() -> None:
    """S11.3: a region that learns of a trim by a snapshot tells it to readers in bulk.

    us adds and trims before eu has anything, and eu gets a snapshot. A reader that takes the log of
    us from eu must learn, as from us, that the first two entries are missing because they were
    trimmed. Otherwise it would take what it was given for everything that was ever added.
    """
    us, eu = cluster(2)
    for _ in range(3):
        us.ok("XADD", "s", "*", "f", "v")
    us.ok("XTRIM", "s", "MAXLEN", "1")
    cut = us.engine.peers.snapshots.cut()
    us.commit()
    eu.engine.peers.snapshots.join(list(cut.chunks(1 << 16)), 1, eu.now_ms)
    eu.commit()
    missed = [plain(place("CRDT.NODES", "s", "us", "0", "3"))[:2] for place in (us, eu)]
    assert missed == [[3, 2]] * 2


def with_ten_entries() -> tuple[Place, Place]:
    """us and eu, both with ten entries of us in the stream `s`."""
    us, eu = cluster(2)
    for _ in range(10):
        us.ok("XADD", "s", "*", "f", "v")
    sync(us, eu)
    return us, eu


def removed_for(region: Place, log: str, after: int) -> bool:
    """Whether a reader in bulk that has read a log of `s` up to `after` is told of a removal."""
    reply = plain(region("CRDT.NODES", "s", log, str(after), "99"))
    return bool(reply[1] > after)


def joined(source: Place, target: Place) -> None:
    """`target` joins a snapshot of `source`."""
    cut = source.engine.peers.snapshots.cut()
    source.commit()
    target.engine.peers.snapshots.join(list(cut.chunks(1 << 16)), 1, target.now_ms)
    target.commit()


@pytest.mark.parametrize("way", ["log", "snapshot"])
def test_a_reader_is_told_of_a_key_that_was_removed(way: str) -> None:
    """S5.4: FLUSHALL drops the key, and a new add makes it anew, without a word of the former one.

    A reader had taken three of us's ten entries, in us or in eu. Both took the new entry for the
    fourth.
    """
    us, eu = with_ten_entries()
    us.ok("FLUSHALL")
    us.ok("XADD", "s", "*", "f", "v")
    sync(us, eu) if way == "log" else joined(us, eu)
    for region in (us, eu):
        assert removed_for(region, "us", 3)
        assert not removed_for(region, "us", 0), "a new reader has missed nothing"
        assert not removed_for(region, "us", 12), "nor has one that has read the new entry"


@pytest.mark.parametrize("way", ["log", "snapshot"])
def test_a_reader_is_told_of_a_removal_beside_an_entry_that_stays(way: str) -> None:
    """S5.4: eu's entry was added concurrently with the FLUSHALL of us, and stays.

    us dropped the key, and made it anew for eu's entry. It had forgotten its own ten entries.
    """
    us, eu = cluster(2)
    for _ in range(10):
        us.ok("XADD", "s", "*", "f", "v")
    eu.ok("XADD", "s", "*", "f", "v")
    sync(us, eu)
    us.ok("FLUSHALL")
    eu.ok("XADD", "s", "*", "f", "v")
    if way == "log":
        sync(us, eu)
    else:
        joined(eu, us)
        joined(us, eu)
    for region in (us, eu):
        assert plain(region("XLEN", "s")) == 1
        assert removed_for(region, "us", 3), "the log of us is gone"
        assert not removed_for(region, "eu", 2)


def test_a_trim_makes_a_log_that_was_removed_with_the_key() -> None:
    """S5.4: a concurrent trim names entries of a log that FLUSHALL has removed, and further ones.

    The trim made the log anew, and only what it names seemed to be missing.
    """
    us, eu = with_ten_entries()
    us.ok("FLUSHALL")
    eu.ok("XADD", "s", "*", "f", "v")
    eu.ok("XTRIM", "s", "MAXLEN", "5")
    sync(us, eu)
    assert removed_for(us, "us", 8) and removed_for(eu, "us", 8)


def test_a_reader_at_the_mark_of_a_trim_is_told_of_a_removal_above_it() -> None:
    """S5.4: us removes the key, while eu trims the first three entries, which a reader has read.

    The trim made the log anew, with its mark where the reader stood. The reader was taken for a new
    one and not told of the entries between the mark and the next add.
    """
    us, eu = with_ten_entries()
    us.ok("FLUSHALL")
    us.ok("XADD", "s", "*", "f", "v")
    eu.ok("XTRIM", "s", "MAXLEN", "7")
    sync(us, eu)
    for region in (us, eu):
        assert removed_for(region, "us", 3)
        assert not removed_for(region, "us", 11), "a new reader begins before the only entry, 12"


def test_a_snapshot_with_an_unchanged_deadline_wakes_no_reader() -> None:
    """S11.3: a reader runs again only for a deadline that the join changed.

    alice blocks at a stream with a deadline, which the snapshot brings again. If her read ran
    again, she would seem to have been seen later than she was. From seeds 15000015 and 15003147.
    """
    us, eu = with_group("110-1")
    us.ok("PEXPIREAT", "s", str(us.now_ms + 1_000_000))
    sync(us, eu)
    assert read(eu) == ["110-1"]
    eu("XREADGROUP", "GROUP", "g", "alice", "BLOCK", "0", "STREAMS", "s", ">")
    eu.session = eu.engine.clients.connect("test", "test", eu.now_ms)
    us.ok("XADD", "other", "*", "f", "v")
    cut = us.engine.peers.snapshots.cut()
    us.commit()
    eu.at(eu.now_ms + 500)
    eu.engine.peers.snapshots.join(list(cut.chunks(1 << 16)), 1, eu.now_ms)
    eu.commit()
    (consumer,) = plain(eu("XINFO", "CONSUMERS", "s", "g"), "utf-8")
    assert consumer["idle"] == 500


def test_a_snapshot_changes_the_keys_that_differ() -> None:
    """S11.3: keys that are equal on both sides need no new checkpoint.

    Each join made all keys dirty, so the next checkpoint wrote all of them again.
    """
    us, eu = cluster(2)
    keys = ["same", "added", "set", "removed", "trimmed", "group"]
    for key in keys:
        us.ok("XADD", key, "*", "f", "v")
        us.ok("XADD", key, "*", "f", "v")
    sync(us, eu)
    us.ok("XADD", "added", "*", "f", "v")
    us.ok("XSETID", "set", "9999999999999-0")
    us.ok("XDEL", "removed", us.ids("removed")[0])
    us.ok("XTRIM", "trimmed", "MAXLEN", "1")
    us.ok("XGROUP", "CREATE", "group", "g", "0")
    cut = us.engine.peers.snapshots.cut()
    us.commit()
    eu.engine.keyspace.dirty.clear()
    eu.engine.peers.snapshots.join(list(cut.chunks(1 << 16)), 1, eu.now_ms)
    eu.commit()
    assert sorted(eu.engine.keyspace.dirty) == sorted(key.encode() for key in keys[1:])
    assert eu.digest() == us.digest()
    assert [eu.ids(key) for key in keys] == [us.ids(key) for key in keys]


def test_a_snapshot_brings_the_removals_of_a_flush() -> None:
    """S11.3: FLUSHALL touches no key by itself, so both have seen the same effects on this one.

    us removed the first entry by FLUSHALL, and the second one survived, because the FLUSHALL had
    not seen it. If touched counters made keys equal, the first entry would stay in eu for ever.
    """
    us, eu = cluster(2)
    us.ok("XADD", "k", "*", "f", "v")
    sync(us, eu)
    eu.ok("XADD", "k", "*", "f", "v")
    us.ok("FLUSHALL")
    carry(eu, us)
    cut = us.engine.peers.snapshots.cut()
    us.commit()
    eu.engine.peers.snapshots.join(list(cut.chunks(1 << 16)), 1, eu.now_ms)
    eu.commit()
    assert len(us.ids("k")) == 1 and eu.ids("k") == us.ids("k")
    assert eu.digest() == us.digest()


def test_a_snapshot_does_not_bring_back_a_pair_that_was_collected_here() -> None:
    """S9.1, S11.3: its time was over here, and the other region has not collected it yet.

    It would be held anew, and answer retries for the whole duration once more.
    """
    us, eu = cluster(2, stream_idmp_duration="1")
    us.ok("XADD", "s", "IDMP", "p", "1", "*", "f", "v")
    for _ in range(2):
        sync(us, eu)
    eu.at(eu.now_ms + 2000)
    assert not eu.engine.keyspace.keys[b"s"].pairs
    us.ok("XADD", "s", "*", "f", "v")
    cut = us.engine.peers.snapshots.cut()
    us.commit()
    eu.engine.peers.snapshots.join(list(cut.chunks(1 << 16)), 1, eu.now_ms)
    eu.commit()
    assert len(eu.ids("s")) == 2
    eu.ok("XADD", "s", "IDMP", "p", "1", "*", "f", "v")
    assert len(eu.ids("s")) == 3


def test_a_start_announces_what_was_acknowledged_before_it() -> None:
    """S8.1: nobody received when the entry was acknowledged, and the log has no record of it.

    The start reads the group from the checkpoint. Without the announcement eu would deliver the
    entry once more, and CRDT.SYNC would say that eu has everything.
    """
    us, _ = with_group("1-1")
    assert read(us) == ["1-1"]
    us.ok("XACK", "s", "g", "1-1")
    us.commit()
    issued = us.engine.vector[1]
    # As the checkpoint has it.
    us.engine.keyspace.acknowledgeable.clear()
    us.engine = Engine(us.engine.state)
    us.engine.peers.links.receiver_opened(2)
    us.at(us.now_ms + 1000)
    us.commit()
    assert us.engine.vector[1] == issued + 1


def test_a_reader_is_told_of_what_its_region_never_had() -> None:
    """S5.4: us removed entries with the key that eu had not received, and eu learns by a snapshot.

    A reader in eu had read all that eu had. It went on behind the removal, and three entries were
    missing without a word. From simulator seed 651557531358, with restores.
    """
    us, eu = cluster(2)
    for _ in range(5):
        us.ok("XADD", "s", "*", "f", "v")
    sync(us, eu)
    for _ in range(3):
        us.ok("XADD", "s", "*", "f", "v")
    us.ok("FLUSHALL")
    eu.ok("XADD", "s", "*", "f", "v")
    joined(eu, us)
    joined(us, eu)
    assert removed_for(eu, "us", 5)
    assert not removed_for(eu, "us", 9), "it has read beyond the removal"
