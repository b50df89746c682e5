"""Cases that random histories meet rarely or never, each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from xxhash import xxh3_64_intdigest

from anabranch.crdt.apply import apply_block
from anabranch.crdt.block import NO_CHAIN, Block, BlockWriter, chain_after
from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.delivery import Delivery
from anabranch.crdt.encoding import Malformed
from anabranch.crdt.groups import Create, Group
from anabranch.crdt.ids import MAX_HALF, SEQ_STRIDE, make
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.merge import Finder, prefix_of_count
from anabranch.crdt.node import (
    COUNTER_MAX,
    FOLLOWS,
    PackedNode,
    check_entries,
    encode_names,
    encode_values,
)
from anabranch.crdt.pel import Pel
from anabranch.crdt.pel_chunk import entry_ref
from anabranch.crdt.place import at_id
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.crdt.scan import Scan
from anabranch.crdt.scan_order import ScanOrder
from anabranch.crdt.snapshot import SnapshotRecords
from anabranch.crdt.state import NodeImage, read_node
from anabranch.crdt.stream import Stream
from anabranch.crdt.undelivered import Handout
from tests.crdt.support import Twin

K = b"k"
NAMES, VALUES = encode_names([b"f"]), encode_values([b"v"])


def log_of(region_id: int, *entry_ids: int) -> RegionLog:
    log = RegionLog(region_id, NodeLimits())
    for counter, entry_id in enumerate(entry_ids, 1):
        log.append(entry_id >> 64, entry_id & MAX_HALF, counter, NAMES, VALUES)
    return log


def test_a_block_that_the_vector_covers_moves_no_vector() -> None:
    """A start replays it for the keys that the checkpoint took before it."""
    keyspace = Keyspace(1, NodeLimits())
    keyspace.vector[2], keyspace.chains[2] = 5, b"c" * 16
    writer = BlockWriter(2, 3, 10, 100)
    writer.add(K, 7, 0, NAMES, VALUES)
    writer.end_run()
    body = writer.body()
    block = Block(2, 3, 3, body, chain_after(NO_CHAIN, body))
    apply_block(keyspace, block, 0, False, {K: 0})
    assert keyspace.keys[K].logs[2].length == 1
    assert keyspace.vector == {2: 5} and keyspace.chains == {2: b"c" * 16}


def test_a_merged_idempotent_add_below_the_stable_time_is_counted() -> None:
    """S7.7: the stable time that this region told says that no such entry comes any more."""
    one, two = Twin(1), Twin(2)
    for ms in (5, 7):
        two.add(K, entry_id=make(ms, 0), pid=b"p", iid=b"%d" % ms)
    one.keyspace.late.stable_id = make(6, 0)
    one.pull(two)
    assert one.keyspace.late.below_stable == 1


def test_an_entry_whose_references_a_trim_dropped_is_not_assigned_again() -> None:
    delivery = Delivery()
    delivery.references_dropped[1] = 4
    delivery.assign(entry_ref(1, 4, make(4, 0)), b"alice", 10, 1, 10)
    assert delivery.pel.totals == {} and delivery.consumers == {}
    delivery.assign(entry_ref(1, 5, make(5, 0)), b"alice", 10, 1, 10)
    assert list(delivery.pel.totals.values()) == [1]


def test_an_entry_of_a_log_that_is_not_there_is_not_found() -> None:
    finder = Finder({1: log_of(1, make(5, 0))})
    assert finder.find(2, 1) is None
    found = finder.find(1, 1)
    assert found is not None and found.id() == make(5, 0)


def test_the_first_counter_is_that_of_a_node_with_entries() -> None:
    """A peer's snapshot may count the deleted entries of a node wrong, and a region log never does.

    All entries of such a node may be deleted. The first present entry stands in the next one.
    """
    log = RegionLog(1, NodeLimits(2, 0))
    for counter in (1, 2, 3):
        log.append(counter, 0, counter, NAMES, VALUES)
    node = log.node_map.node(0)
    for start in (scan.start for scan in _each(node)):
        node.delete_at(start)
    node.deleted = 1
    assert (log.node_map.size(), node.live()) == (2, 1)
    assert log.first_counter() == 3
    assert RegionLog(1, NodeLimits()).first_counter() == 0


def _each(node: PackedNode) -> Iterator[Scan]:
    scan = node.scan()
    while scan.step():
        yield scan


def test_before_a_cursor_without_a_place_stands_the_last_present_entry() -> None:
    """`LogCursor.seek_counter` asks so, to learn whether the wanted entry lies before its place."""
    log = log_of(1, *(make(ms, 0) for ms in (1, 2, 3)))
    cursor = LogCursor(log)
    assert not cursor.valid and cursor.before() == 3
    log.remove(3)
    assert log.last_counter() == 3 and cursor.before() == 2
    empty = RegionLog(1, NodeLimits())
    assert LogCursor(empty).before() == empty.last_counter() == 0


def test_a_prefix_of_more_entries_than_there_are_is_all_of_them() -> None:
    logs = {1: log_of(1, make(1, 0), make(4, 0)), 2: log_of(2, make(2, 0))}
    assert prefix_of_count(logs, 2) == {1: 1, 2: 1}
    assert prefix_of_count(logs, 9) == {1: 2, 2: 1}


def test_a_run_above_the_highest_counter_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 63 bits"):
        check_entries(NAMES, b"", COUNTER_MAX + 1)


def test_an_id_of_high_halves_is_read_as_it_was_written() -> None:
    """Words have a sign, and the halves of an ID have none."""
    scan = Scan(FOLLOWS + b"\2\1v", 0)
    ms, seq = MAX_HALF - 1, MAX_HALF - 2 * SEQ_STRIDE
    # The words of the compiled build.
    scan.ms_word, scan.seq_word = ms - (1 << 64), seq - (1 << 64)
    assert scan.step() and scan.id() == make(ms, seq + SEQ_STRIDE)


def test_a_node_without_entries_is_refused() -> None:
    node = PackedNode(NAMES, 1)
    with pytest.raises(Malformed, match="without entries"):
        read_node(NodeImage(1, node).encoded())


def test_pending_entries_out_of_step_with_their_ids_are_noticed_across_chunks() -> None:
    """Then places are found by ID alone, and the order by ID stays."""
    pel = Pel(4)
    for counter, ms in ((1, 10), (2, 20), (5, 30), (6, 40), (8, 50), (9, 60)):
        pel.assign(entry_ref(1, counter, make(ms, 0)), b"alice", 1, 1)
    part = pel.parts[1]
    assert len(part.chunks) == 2 and part.agrees
    between = part.chunks[0].id_at(-1) + 1
    pel.assign(entry_ref(1, 4, between), b"alice", 1, 1)
    assert not part.agrees
    listed = [chunk.id_at(n) for chunk in part.chunks for n in range(chunk.size())]
    assert listed == sorted(listed) and between in listed


def test_a_scan_goes_on_right_when_keys_come_and_go_in_the_bucket_at_hand() -> None:
    keys = [b"%d" % n for n in range(20_000)]  # several to each of 4,096 buckets
    order = ScanOrder()
    for key in keys[::2]:
        order.add(key)
    shown = list(order.from_hash(0))
    assert len(shown) == 10_000 and shown == sorted(shown)
    for key in keys[1:401:2]:
        assert key not in _near(order, key)
        order.add(key)
        assert key in _near(order, key)
        order.discard(key)
        assert key not in _near(order, key)
    assert list(order.from_hash(0)) == shown


def _near(order: ScanOrder, key: bytes) -> list[bytes]:
    """The first key from the hash of `key` on: that key, if it is there."""
    return [one for _, one in islice(order.from_hash(xxh3_64_intdigest(key) >> 12), 1)]


def test_records_that_are_dropped_leave_those_of_a_later_snapshot_alone() -> None:
    twin = Twin(1)
    twin.add(K)
    former = SnapshotRecords(twin.keyspace)
    later = SnapshotRecords(twin.keyspace)
    former.drop()
    assert twin.keyspace.unseen.unrecorded is not None, "the later one still follows the keyspace"
    later.drop()
    assert twin.keyspace.unseen.unrecorded is None


def test_a_group_read_does_not_end_between_entries_of_one_id() -> None:
    """S7.1: two regions may have given one ID."""
    stream = Stream(K, NodeLimits())
    for region_id in (1, 2):
        stream.log(region_id).append(5, 0, 1, NAMES, VALUES)
    stream.log(2).append(6, 0, 2, NAMES, VALUES)
    group = Group(b"g")
    group.creates[1, 9] = Create(at_id(0))
    handout = Handout(stream, group)
    assert [entry.entry_id for entry in handout.read(1).listed()] == [make(5, 0), make(5, 0)]
