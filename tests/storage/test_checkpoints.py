"""Checkpoints that are cut off, continued or repeated, and the starts after them (S13.1).

In most of these tests the process stops at a particular moment, and a start must lose nothing. Each
docstring tells the bug that the test once found.
"""

from __future__ import annotations

from typing import Any

from anabranch.crdt.ids import make
from anabranch.crdt.snapshot import SnapshotCut
from anabranch.region.engine.replies import OK
from tests.storage import dump
from tests.storage.histories import Cluster, one_region
from tests.storage.region import Region


def statements_of(region: Region, *wanted: str) -> None:
    """Writes steps of a checkpoint until a statement with one of the texts has been written.

    The caller then crashes the region.
    """
    seen: list[str] = []
    region.disk.set_trace_callback(seen.append)
    while not any(text in one for one in seen for text in wanted):
        region.step_checkpoint()
    region.disk.set_trace_callback(None)


def forget(region: Region, key: bytes) -> None:
    """Drops a deleted key, as when its tombstones are causally stable (S6.2)."""
    stream = region.engine.keyspace.keys[key]
    assert stream.tombstone_of_all and not stream.groups
    stream.tombstone_of_all = {}
    stream.clears = {}
    region.engine.keyspace.touch(stream)
    region.engine.keyspace.drop_if_empty(stream)


def test_a_stop_in_the_middle_of_a_checkpoint() -> None:
    """A region was stopped while a checkpoint was under way, and entries were lost.

    The nodes that a step had captured counted as saved before they were written. The checkpoint at
    the stop took them for clean and moved the position from which a start replays past them.

    Now captured nodes stay pending until they are on disk, whatever write fails in between. The
    checkpoint after a failure continues the one before.
    """
    region = one_region(crdt_slice_max_bytes=60)
    for number in range(8):
        region.say("XADD", "k1", "*", "f", b"v%d" % number)
        region.say("XADD", "k2", "*", "f", b"v%d" % number)
    region.commit_all()
    checkpointer = region.checkpointer
    engine = region.engine
    # The checkpoint begins, captures nodes, and writes one slice of several.
    region.step_checkpoint()
    assert checkpointer.pending and checkpointer.is_under_way()
    region.step()
    region.fail()
    assert not region.is_checkpointing() and checkpointer.pending
    region.checkpoint()
    assert (
        not checkpointer.pending and not checkpointer.is_under_way() and not engine.keyspace.dirty
    )
    region.crash()
    assert [region.engine.keyspace.keys[key].length() for key in (b"k1", b"k2")] == [8, 8]
    assert region.engine.state.disk.checkpoint_position == region.engine.committed_position


def test_rows_of_a_checkpoint_cut_off_do_not_come_back() -> None:
    """Rows of an unfinished checkpoint became valid later and brought back removed entries.

    A checkpoint wrote new nodes of a stream, and the process stopped before the checkpoint made
    them valid. After the start the stream was trimmed, and these nodes were gone. The next
    checkpoint of the key had a higher cut, which made the left-over rows valid. The following start
    read the removed entries.
    """
    region = one_region(crdt_slice_max_bytes=30)
    region.say("XADD", "k1", "*", "f", "v")
    region.checkpoint()
    for number in range(9):
        region.say("XADD", "k1", "*", "f", b"v%d" % number)
    region.commit_all()
    while region.disk.execute("SELECT COUNT(*) FROM node").fetchone()[0] < 4:
        region.step_checkpoint()
    region.crash()
    region.say("XTRIM", "k1", "MAXLEN", 1)
    region.say("XADD", "k1", "*", "f", "v")
    region.commit_all()
    region.checkpoint()
    region.crash()
    assert region.engine.keyspace.keys[b"k1"].length() == 2


def test_a_cut_number_is_not_used_twice() -> None:
    """Two checkpoints used one cut number, and a start read parts of two states of a key as one.

    A checkpoint made one key valid at cut 2, and the process stopped before its end. The next
    checkpoint began with cut 2 again and overwrote the valid parts of that key. A stop between
    these writes left parts of both states.
    """
    region = one_region(crdt_slice_max_bytes=20)
    for number in range(3):
        region.say("XADD", "k1", "*", "f", b"v%d" % number)
        region.say("XADD", "k2", "*", "f", b"v%d" % number)
    region.commit_all()
    region.checkpointer.capture_bytes = 1
    statements_of(region, "INTO key_state")
    region.crash()
    for number in range(3):
        region.say("XGROUP", "CREATE", "k1", b"g%d" % number, "0")
        region.say("XGROUP", "CREATE", "k2", b"g%d" % number, "0")
    region.checkpoint()
    region.crash()


def test_the_number_of_a_key_that_is_gone_is_given_again() -> None:
    """A new key got the number of a dropped key, and the dropped key's nodes with it.

    A key was dropped. The process stopped after the key's row was deleted and before its nodes
    were. After the start, the next new key in a checkpoint got this number, and the nodes of the
    dropped key were read as its own.
    """
    region = one_region(crdt_slice_max_bytes=30)
    for number in range(6):
        region.say("XADD", "k1", "*", "f", b"v%d" % number)
    region.checkpoint()
    region.cluster.collects = True
    region.say("DEL", "k1")
    forget(region, b"k1")
    region.commit_all()
    statements_of(region, "INTO key_state")
    assert region.disk.execute("SELECT COUNT(*) FROM node").fetchone()[0] > 0
    region.crash()
    region.say("XADD", "k2", "*", "f", "v")
    region.checkpoint()
    region.crash()
    assert region.engine.keyspace.keys[b"k2"].length() == 1


def test_a_key_that_is_gone_was_replayed_without_its_tombstones() -> None:
    """A start replayed a create without the tombstone that had removed it.

    Region 1 deleted k1 and so tombstoned its group. Region 2 had created the group concurrently;
    the tombstone removed that create, too (S6.1). The tombstone became stable and k1 was dropped. A
    checkpoint deleted the key's row from the disk, and the process stopped before the end of that
    checkpoint. The start replayed the log from the former checkpoint without k1 and its tombstone:
    the group existed in region 1 and in no other region.

    Now the row of a dropped key stays, with the position at which the key was dropped, until no
    start replays from before that position.
    """
    cluster = Cluster(
        1, regions=2, values={"crdt-slice-max-bytes": 1 << 20, "crdt-log-max-bytes": 1 << 20}
    )
    us, eu = cluster.regions
    us.say("XADD", "k1", "*", "f", "v")
    us.commit_all()
    eu.pull(us)
    eu.say("XGROUP", "CREATE", "k1", "g", "0")
    eu.commit_all()
    us.say("DEL", "k1")
    us.commit_all()
    us.checkpoint()
    us.pull(eu)
    us.commit_all()
    eu.pull(us)
    eu.commit_all()
    cluster.collects = True
    forget(us, b"k1")
    statements_of(us, "key_state")
    us.crash()
    found = us.engine.keyspace.get(b"k1")
    assert found is None or not found.groups
    assert us.engine.keyspace.digest() == eu.engine.keyspace.digest()
    us.checkpoint()
    us.say("XADD", "k2", "*", "f", "v")
    us.checkpoint()
    # No start replays from before that position now, so the row is deleted.
    assert us.disk.execute("SELECT COUNT(*) FROM key_state WHERE number = 0").fetchone()[0] == 0


def test_a_join_between_the_slices() -> None:
    """Not a bug: the reason why each key has its own position in a checkpoint.

    k1 is captured, then a snapshot changes both keys and brings a third, and then k2 is captured. A
    start joins the snapshot again for every key except k2.
    """
    cluster = Cluster(
        2, regions=2, values={"crdt-slice-max-bytes": 40, "crdt-log-max-bytes": 1 << 20}
    )
    us, eu = cluster.regions
    us.checkpointer.capture_bytes = 1
    for key in ("k1", "k2"):
        for number in range(3):
            us.say("XADD", key, "*", "f", b"v%d" % number)
    us.commit_all()
    eu.pull(us)
    eu.say("XDEL", "k1", "1000-1")
    eu.say("XADD", "k2", "*", "f", "from eu")
    eu.say("XADD", "k3", "*", "f", "from eu")
    eu.commit_all()
    # This step captures one key.
    us.step_checkpoint()
    assert us.checkpointer.has_more()
    cut: SnapshotCut = eu.engine.peers.snapshots.cut()
    us.engine.peers.snapshots.join(list(cut.chunks(100)), eu.region_id, cluster.clock.wall_ms)
    us.say("FLUSHALL")
    us.say("XADD", "k1", "*", "f", "after all")
    us.commit_all()
    while us.is_checkpointing():
        us.look()
        us.step_checkpoint()
    us.crash()
    found: dict[bytes, Any] = dump.of_keyspace(us.engine.keyspace)["keys"]
    assert [entry[2] for entry in found[b"k1"]["logs"][1]] == [[b"f", b"after all"]]


def test_checkpoints_leave_no_rows_of_earlier_ones() -> None:
    """A checkpoint deletes the rows that it replaces (S13.1).

    The size of the disk does not grow with the number of checkpoints.
    """
    region = one_region()
    sizes: list[dict[str, int]] = []
    for number in range(4):
        region.say("XADD", "k", "5-1" if number == 0 else "*", "f", "v")
        region.say("XGROUP", "CREATE", "k", f"g{number}", "0")
        region.commit_all()
        region.checkpoint()
        sizes.append(
            {
                table: region.disk.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
                for table in ("part", "node", "key_state")
            }
        )
    assert sizes[2] == sizes[3], sizes
    assert sizes[3] == {"part": 1, "node": 2, "key_state": 1}


def test_statistics_that_a_client_sets_survive_a_stop() -> None:
    """XSETID ENTRIESADDED and the count of retried adds did not make their key dirty.

    So a checkpoint passed over the key, and an orderly stop lost the numbers.
    """
    region = one_region()
    # These statistics are in no commit, so the state at a commit does not foretell them.
    region.cluster.looks = 0.0
    first = region.say("XADD", "k1", "IDMP", "p", "i", "*", "f", "v")
    region.checkpoint()
    assert region.say("XSETID", "k1", first, "ENTRIESADDED", 100, "MAXDELETEDID", "4-0") == OK
    region.checkpoint()
    region.say("XADD", "k1", "IDMP", "p", "i", "*", "f", "v")
    region.checkpoint()
    region.begin()
    stream = region.engine.keyspace.keys[b"k1"]
    assert (stream.entries_added, stream.max_deleted_id) == (100, make(4, 0))
    assert stream.iids_duplicates == 1


def test_a_key_that_was_deleted_is_gone_after_a_start() -> None:
    """A checkpoint drops a key whose tombstone was collected since the last one (S6.2, S13.1).

    Nothing in memory tells of such a key but that it changed. If the checkpoint passed over it, its
    rows of the checkpoint before would stay, and the next start would bring the key back with its
    entries, in this region alone.
    """
    cluster = Cluster(1, regions=1, looks=0.0, collects=True)
    (region,) = cluster.regions
    region.say("XADD", "k1", "*", "f", "v")
    region.checkpoint()
    region.say("DEL", "k1")
    region.commit_all()
    for _ in range(100):
        cluster.clock.passes(10)
        region.driver.tick()
        region.commit_all()
    assert b"k1" not in region.engine.keyspace.keys, "its tombstone is collected"
    region.checkpoint()
    region.begin()
    assert region.say("EXISTS", "k1") == 0


def test_a_slice_waits_for_the_commit_of_what_it_holds() -> None:
    """A slice of a checkpoint must not be on the disk before the rows that it reflects (S13.1).

    After a commit it is the checkpoint's turn. It captures a key with an effect that is not yet on
    the disk. If that slice were written at once, a start after a crash would find the entry without
    its effect in the vector, and would give the counter of that effect to another one.
    """
    region = one_region()
    region.say("XADD", "k1", "*", "f", "v")
    region.commit_all()
    region.say("XADD", "k1", "*", "f", "w")
    region.begin_checkpoint()
    region.step()
    region.write()
    region.crash()
    stream = region.engine.keyspace.keys[b"k1"]
    assert stream.length() == region.engine.vector[1] == 2


def test_a_start_deletes_what_a_checkpoint_had_yet_to_delete() -> None:
    """A process that died at this moment left the former rows for ever. From seed 96.

    The row of a key makes its new rows valid. The deletion of the former ones may come in the next
    transaction.
    """
    region = one_region(crdt_slice_max_bytes=1)
    of_parts = "SELECT COUNT(DISTINCT part.cut) FROM part"
    of_nodes = "SELECT COUNT(*) FROM node"

    def found(sql: str) -> int:
        return int(region.disk.execute(sql).fetchone()[0])

    region.say("XADD", "k1", "*", "f", "v")
    region.checkpoint()
    region.say("XADD", "k1", "*", "f", "v")
    region.commit_all()
    cut = found("SELECT cut FROM key_state")
    while found("SELECT cut FROM key_state") == cut:
        region.step_checkpoint()
    assert (found(of_parts), found(of_nodes)) == (2, 2)
    region.crash()
    assert (found(of_parts), found(of_nodes)) == (1, 1)
    assert region.engine.keyspace.keys[b"k1"].length() == 2
