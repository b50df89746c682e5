"""The node layout of a region log, and its hooks for checkpoints and digests.

Sources: S12.1, S12.2, S13.1, S13.9.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.crdt.ids import make
from anabranch.crdt.node import PackedNode
from anabranch.crdt.region_log import NodeLimits, RegionLog
from anabranch.crdt.state import NodeImage, push_node, read_node
from anabranch.crdt.stream import Stream
from tests.crdt.naive_log import NaiveLog
from tests.crdt.support import add_run
from tests.crdt.test_logs import LIMITS, Step, append, same, steps, take

FIELDS = (b"f", b"v")


class Disk:
    """The stored nodes of one log: node number → bytes."""

    def __init__(self) -> None:
        self.nodes: dict[int, bytes] = {}

    def save(self, log: RegionLog) -> None:
        """Writes the changed nodes and deletes the dropped ones, as a checkpoint does."""
        for node in log.unsaved:
            if node.is_dropped:
                continue
            assert node.is_unsaved
            node.is_unsaved = False
            if node.number == 0:
                node.number = log.next_number
                log.next_number += 1
            self.nodes[node.number] = NodeImage(log.region_id, node).encoded()
        for number in log.dropped_numbers:
            del self.nodes[number]
        log.saved()

    def load(self, limits: NodeLimits) -> RegionLog:
        """The log as a start restores it."""
        stream = Stream(b"k", limits)
        log = stream.log(1)
        nodes: list[PackedNode] = []
        for number, body in self.nodes.items():
            node = read_node(body)
            node.number = number
            node.is_unsaved = False
            nodes.append(node)
        for node in sorted(nodes, key=lambda one: one.base_counter):
            push_node(stream, 1, node)
        log.next_number = max(self.nodes, default=0) + 1
        return log


@settings(max_examples=250)
@given(st.sampled_from(LIMITS), st.lists(steps, min_size=1, max_size=4))
def test_what_checkpoints_store_is_the_log(limits: NodeLimits, histories: list[list[Step]]) -> None:
    """A start restores the log from the checkpoints, and can continue with it.

    After each history a checkpoint writes the nodes that the log reports as changed.
    """
    log, naive, disk, counter = RegionLog(1, limits), NaiveLog(1), Disk(), 0
    for history in histories:
        for step in history:
            counter = take(log, naive, step, counter)
        disk.save(log)
        assert sorted(disk.nodes) == sorted(node.number for node in log.node_map.nodes)
        loaded = disk.load(limits)
        same(loaded, naive)
        assert loaded.digest_share() == log.digest_share()
        assert not loaded.unsaved and not loaded.dropped_numbers
        if len(history) % 2:
            log = loaded


@settings(max_examples=100)
@given(st.sampled_from(LIMITS), steps)
def test_the_share_is_what_hashing_everything_gives(
    limits: NodeLimits, history: list[Step]
) -> None:
    """The cached digest share equals the sum of the hashes of all nodes (S13.9)."""
    log, naive, counter = RegionLog(1, limits), NaiveLog(1), 0
    for step in history:
        counter = take(log, naive, step, counter)
    assert log.digest_share() == sum(node.hash_entries(1) for node in log.node_map.nodes) % 2**128
    assert not log.unhashed


def test_hashing_goes_on_where_it_stopped() -> None:
    log = RegionLog(1, NodeLimits(10, 0))
    for counter in range(1, 96):
        append(log, make(counter, 0), counter, FIELDS)
    assert log.hash_some(0) == 0
    assert log.hash_some(1) == 5 and log.hash_some(11) == 20, "whole nodes, the newest first"
    assert log.hash_some(1000) == 70
    assert log.hash_some(1000) == 0 and not log.unhashed
    log.remove(1)
    assert log.hash_some(1000) == 10


def node_counts(log: RegionLog) -> list[int]:
    return [node.count for node in log.node_map.nodes]


def run_to(log: RegionLog, first: int, count: int, fields: tuple[bytes, ...] = FIELDS) -> None:
    run = add_run(b"k", [(make(first + offset, 0), fields) for offset in range(count)], first)
    log.append_run(
        run.names,
        run.data,
        run.base_counter,
        run.count,
        run.last_ms,
        run.last_seq,
        first - 1 + count,
    )


def test_a_node_is_full_at_its_limits() -> None:
    log = RegionLog(1, NodeLimits(3, 0))
    for counter in range(1, 8):
        append(log, make(counter, 0), counter, FIELDS)
    assert node_counts(log) == [3, 3, 1]
    unlimited = RegionLog(1, NodeLimits(0, 0))
    for counter in range(1, 301):
        append(unlimited, make(counter, 0), counter, FIELDS)
    assert node_counts(unlimited) == [300]


def test_a_node_is_full_at_its_bytes() -> None:
    """Each of these entries but a node's first takes 6 bytes: 2 for its value, and 4 more."""
    log = RegionLog(1, NodeLimits(0, 60))
    for counter in range(1, 30):
        append(log, make(counter, 0), counter, FIELDS)
    sizes = [len(node.data) for node in log.node_map.nodes]
    assert all(54 < size <= 60 for size in sizes[:-1]), sizes


@pytest.mark.parametrize(
    ("there", "comes", "counts"),
    [(74, 30, [100, 4]), (75, 30, [75, 30]), (75, 25, [100]), (99, 1, [100]), (99, 2, [99, 2])],
)
def test_a_run_opens_a_node_where_the_last_is_nearly_full(
    there: int, comes: int, counts: list[int]
) -> None:
    """A run that does not fit becomes a node of its own if the last node is three quarters full.

    Otherwise its entries are appended one by one.
    """
    log = RegionLog(1, NodeLimits(100, 0))
    run_to(log, 1, there)
    assert node_counts(log) == [there]
    run_to(log, there + 1, comes)
    assert node_counts(log) == counts
    assert log.length == there + comes


@pytest.mark.parametrize(("there", "is_taken_whole"), [(299, False), (300, True)])
def test_the_same_by_bytes(there: int, is_taken_whole: bool) -> None:
    log = RegionLog(1, NodeLimits(0, 400))
    append(log, make(1, 0), 1, (b"f", b""))
    size = len(log.node_map.nodes[0].data)
    log = RegionLog(1, NodeLimits(0, 400))
    # The value's length and the entry's length take one more byte each: two in all.
    append(log, make(1, 0), 1, (b"f", b"x" * (there - size - 2)))
    assert len(log.node_map.nodes[0].data) == there
    run_to(log, 2, 30)
    assert (log.node_map.nodes[0].count == 1) == is_taken_whole


def test_a_run_of_a_region_with_other_limits_is_cut() -> None:
    log = RegionLog(1, NodeLimits(10, 0))
    run_to(log, 1, 10)
    run_to(log, 11, 25)
    assert node_counts(log) == [10, 10, 10, 5]
    by_bytes = RegionLog(1, NodeLimits(0, 50))
    run_to(by_bytes, 1, 30)
    assert len(by_bytes.node_map.nodes) > 1 and by_bytes.length == 30
    large = RegionLog(1, NodeLimits(0, 50))
    run_to(large, 1, 1, (b"f", b"v" * 100))
    assert node_counts(large) == [1], "an entry above the limit is stored in a node of its own"


def test_a_run_of_other_names_joins_the_node_while_there_is_room() -> None:
    log = RegionLog(1, NodeLimits(10, 0))
    run_to(log, 1, 3)
    run_to(log, 4, 3, (b"g", b"w"))
    assert node_counts(log) == [6]
    assert log.fields_at(3) == [b"f", b"v"] and log.fields_at(4) == [b"g", b"w"]


def test_a_node_is_rewritten_when_more_than_half_is_deleted() -> None:
    log = RegionLog(1, NodeLimits(4, 0))
    for counter in range(1, 5):
        append(log, make(counter, 0), counter, FIELDS)
    log.remove(2)
    log.remove(3)
    assert (log.node_map.nodes[0].count, log.node_map.nodes[0].deleted) == (4, 2), (
        "a node of which exactly half is deleted was rewritten"
    )
    log.remove(1)
    assert (log.node_map.nodes[0].count, log.node_map.nodes[0].deleted) == (1, 0)
    assert (log.node_map.first_ids, log.node_map.first_counters) == ([make(4, 0)], [4])
    log.remove(4)
    assert not log.node_map.nodes


def glued(limit: int, *removed: int) -> list[int]:
    """Entry counts of two nodes of four, after the limit became `limit`, and after removals."""
    limits = NodeLimits(4, 0)
    log = RegionLog(1, limits)
    for counter in range(1, 9):
        append(log, make(counter, 0), counter, FIELDS)
    limits.max_entries = limit
    for counter in removed:
        log.remove(counter)
    return node_counts(log)


def test_a_rewritten_node_is_glued_to_a_neighbour_where_both_fit() -> None:
    assert glued(5, 1, 2, 3) == [5], "glued to the node after it"
    assert glued(4, 1, 2, 3) == [1, 4], "not glued where the two exceed the limit"
    assert glued(5, 5, 6, 7) == [5], "glued to the node before it"
    assert glued(4, 5, 6, 7) == [4, 1]
    assert glued(4, 1, 2, 3, 5, 6, 7) == [2]


def test_a_prefix_is_a_prefix() -> None:
    """`remove_prefix` returns the number and the highest ID of the removed entries."""
    for upto in range(10):
        log = RegionLog(1, NodeLimits(4, 0))
        for counter in range(1, 9):
            append(log, make(counter, 0), counter, FIELDS)
        assert log.remove_prefix(upto) == (min(upto, 8), make(min(upto, 8), 0) if upto else -1)
        assert log.length == 8 - min(upto, 8)
