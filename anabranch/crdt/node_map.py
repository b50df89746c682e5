"""The ordered map of one region log, from 128-bit entry ID to packed node (S12.1).

The map is a set of sorted parallel arrays with binary search. Nodes are added only at the end and
removed mostly at the front. A node holds about 100 entries, so removing a node from a log of
100 million entries moves at most a million pointers.

Most streams of a region with many keys are short. So a log of one node has no arrays.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.node import PackedNode


@mypyc_attr(acyclic=True)
class _Arrays:
    """The nodes of a log that has had several, and the first ID and counter of each."""

    def __init__(self) -> None:
        self.first_ids: list[int] = []
        self.first_counters: list[int] = []
        self.nodes: list[PackedNode] = []


@mypyc_attr(acyclic=True)
class NodeMap:
    """The nodes, ascending by first entry ID and by first counter: both orders agree (S1).

    The lists that properties return are for reading.
    """

    def __init__(self) -> None:
        self._arrays: Optional[_Arrays] = None
        # The only node while there are no arrays, the halves of its first ID, its first counter.
        self._only: Optional[PackedNode] = None
        self._ms = 0
        self._seq = 0
        self._counter = 0

    @property
    def nodes(self) -> list[PackedNode]:
        if self._arrays is not None:
            return self._arrays.nodes
        return [] if self._only is None else [self._only]

    @property
    def first_ids(self) -> list[int]:
        if self._arrays is not None:
            return self._arrays.first_ids
        return [] if self._only is None else [(self._ms << 64) | self._seq]

    @property
    def first_counters(self) -> list[int]:
        if self._arrays is not None:
            return self._arrays.first_counters
        return [] if self._only is None else [self._counter]

    def size(self) -> int:
        """Returns the number of nodes."""
        if self._arrays is not None:
            return len(self._arrays.nodes)
        return 0 if self._only is None else 1

    def node(self, index: int) -> PackedNode:
        if self._arrays is not None:
            return self._arrays.nodes[index]
        only = self._only
        assert only is not None and index == 0
        return only

    def first_id(self, index: int) -> int:
        """Returns the ID of the first entry, present or deleted, of the node at `index`."""
        if self._arrays is not None:
            return self._arrays.first_ids[index]
        return (self._ms << 64) | self._seq

    def first_counter(self, index: int) -> int:
        """Returns the counter of the first entry, present or deleted, of the node at `index`."""
        return self._counter if self._arrays is None else self._arrays.first_counters[index]

    def last(self) -> Optional[PackedNode]:
        if self._arrays is not None:
            return self._arrays.nodes[-1]
        return self._only

    def index_by_id(self, entry_id: int) -> int:
        """Returns the index of the last node that begins at or below `entry_id`, or -1."""
        if self._arrays is not None:
            return bisect_right(self._arrays.first_ids, entry_id) - 1
        return -1 if self._only is None or (self._ms << 64) | self._seq > entry_id else 0

    def index_by_counter(self, counter: int) -> int:
        """Returns the index of the last node that begins at or below `counter`, or -1."""
        if self._arrays is not None:
            return bisect_right(self._arrays.first_counters, counter) - 1
        return -1 if self._only is None or self._counter > counter else 0

    def push(self, node: PackedNode, first_ms: int, first_seq: int, first_counter: int) -> None:
        """Puts a node at the end."""
        arrays = self._arrays
        if arrays is None:
            if self._only is None:
                self._set_only(node, first_ms, first_seq, first_counter)
                return
            arrays = _Arrays()
            arrays.nodes.append(self._only)
            arrays.first_ids.append((self._ms << 64) | self._seq)
            arrays.first_counters.append(self._counter)
            self._arrays = arrays
            self._only = None
        arrays.nodes.append(node)
        arrays.first_ids.append((first_ms << 64) | first_seq)
        arrays.first_counters.append(first_counter)

    def _set_only(self, node: PackedNode, ms: int, seq: int, counter: int) -> None:
        self._only = node
        self._ms = ms
        self._seq = seq
        self._counter = counter

    def replace(self, index: int, node: PackedNode) -> None:
        """Replaces the node at `index` by its rewritten form."""
        scan = node.scan()
        scan.step()
        arrays = self._arrays
        if arrays is None:
            self._set_only(node, scan.ms, scan.seq, scan.counter)
            return
        arrays.nodes[index] = node
        arrays.first_ids[index] = scan.id()
        arrays.first_counters[index] = scan.counter

    def drop(self, start: int, stop: int) -> None:
        arrays = self._arrays
        if arrays is None:
            if start < stop:
                self._only = None
            return
        del arrays.nodes[start:stop]
        del arrays.first_ids[start:stop]
        del arrays.first_counters[start:stop]
        if not arrays.nodes:
            self._arrays = None
