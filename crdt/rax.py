"""The ordered map of one region log: from 128-bit entry ID to packed node (S12.1).

Nodes only come at the end and go mostly at the front, so sorted parallel arrays with binary search serve; a node holds a hundred
entries, so even a log of a hundred million moves no more than a million pointers, and that only when a node goes.
"""

from __future__ import annotations

from bisect import bisect_right

from anabranch.crdt.node import PackedNode


class Rax:
    """Nodes ascending by first entry ID and, what is the same order, by first counter (S1, "Region log")."""

    def __init__(self) -> None:
        self.first_ids: list[int] = []
        self.first_counters: list[int] = []
        self.nodes: list[PackedNode] = []

    def index_by_id(self, entry_id: int) -> int:
        """Index of the last node that begins at or below `entry_id`; -1 if all begin above."""
        return bisect_right(self.first_ids, entry_id) - 1

    def index_by_counter(self, counter: int) -> int:
        """Index of the last node that begins at or below `counter`; -1 if all begin above."""
        return bisect_right(self.first_counters, counter) - 1

    def push(self, node: PackedNode, first_id: int, first_counter: int) -> None:
        self.nodes.append(node)
        self.first_ids.append(first_id)
        self.first_counters.append(first_counter)

    def replace(self, index: int, node: PackedNode) -> None:
        """Puts a rewritten node where its former self was."""
        scan = node.scan()
        scan.step()
        self.nodes[index] = node
        self.first_ids[index] = scan.id()
        self.first_counters[index] = scan.counter

    def drop(self, start: int, stop: int) -> None:
        del self.nodes[start:stop]
        del self.first_ids[start:stop]
        del self.first_counters[start:stop]
