"""The ordered map of one region log, from 128-bit entry ID to packed node (S12.1).

The map is a set of sorted parallel arrays with binary search. Nodes are added only at the end and
removed mostly at the front. A node holds about 100 entries, so removing a node from a log of
100 million entries moves at most a million pointers.
"""

from __future__ import annotations

from bisect import bisect_right

from mypy_extensions import mypyc_attr

from anabranch.crdt.node import PackedNode


@mypyc_attr(acyclic=True)
class Rax:
    """The nodes, ascending by first entry ID and by first counter: both orders agree (S1)."""

    def __init__(self) -> None:
        self.first_ids: list[int] = []
        self.first_counters: list[int] = []
        self.nodes: list[PackedNode] = []

    def index_by_id(self, entry_id: int) -> int:
        """Returns the index of the last node that begins at or below `entry_id`, or -1."""
        return bisect_right(self.first_ids, entry_id) - 1

    def index_by_counter(self, counter: int) -> int:
        """Returns the index of the last node that begins at or below `counter`, or -1."""
        return bisect_right(self.first_counters, counter) - 1

    def push(self, node: PackedNode, first_id: int, first_counter: int) -> None:
        self.nodes.append(node)
        self.first_ids.append(first_id)
        self.first_counters.append(first_counter)

    def replace(self, index: int, node: PackedNode) -> None:
        """Replaces the node at `index` by its rewritten form."""
        scan = node.scan()
        scan.step()
        self.nodes[index] = node
        self.first_ids[index] = scan.id()
        self.first_counters[index] = scan.counter

    def drop(self, start: int, stop: int) -> None:
        del self.nodes[start:stop]
        del self.first_ids[start:stop]
        del self.first_counters[start:stop]
