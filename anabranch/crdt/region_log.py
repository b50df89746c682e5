"""The region log: the entries of one stream that one region added, in a node_map (S1).

Entries are appended at the end and removed anywhere. Invariant: among the entries present, IDs and
counters ascend together, so a prefix by ID is a prefix by counter and the reverse.
"""

from __future__ import annotations

from typing import Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.adds import Adds, AddsPiece
from anabranch.crdt.log_nodes import LogNodes
from anabranch.crdt.node import PackedNode, names_end
from anabranch.crdt.scan import DELETED, SAME_NAMES, Scan, words

# A run is cut by the sizes of entries that follow another. The first entry of a node has its ID in
# full, so a node may be larger than the limit by less than this.
_HEAD_BYTES: Final = 32


class NodeLimits:
    """The size at which a packed node is full (S12.1), in entries and bytes; 0 means no limit.

    All logs of a region share one object, so a change of the setting reaches all of them.
    """

    def __init__(self, max_entries: int = 100, max_bytes: int = 4096) -> None:
        self.max_entries = max_entries
        self.max_bytes = max_bytes


@mypyc_attr(acyclic=True)
class RegionLog(LogNodes):
    """One region log: adds, finds and removes entries."""

    def __init__(self, region_id: int, limits: NodeLimits) -> None:
        super().__init__(region_id)
        self.limits = limits
        # The highest counter that a trim, or a removal of the whole key, has removed: a reader that
        # comes from below it has missed entries (S5.4). No part of the digest.
        self.trimmed = 0

    # -- adding

    def _fits(self, node: PackedNode, entries: int, size: int) -> bool:
        limits = self.limits
        if limits.max_entries and node.count + entries > limits.max_entries:
            return False
        return not limits.max_bytes or len(node.data) + size <= limits.max_bytes

    def append(self, ms: int, seq: int, counter: int, names: bytes, values: bytes) -> bool:
        """Adds an entry; returns True when the entry opened a new node.

        Its ID and counter must be above those of all entries present.
        """
        node = self.node_map.last()
        self.length += 1
        if node is not None:
            # The last entry of the node may be a deleted one of a higher ID, because an ID can
            # recur after an expiry.
            ascends = ms > node.last_ms or (ms == node.last_ms and seq > node.last_seq)
            if ascends and self._fits(node, 1, len(values) + 4):
                if node.share is not None or not node.is_unsaved:
                    self.changing(node)
                node.append(ms, seq, counter, names, values)
                return False
        node = PackedNode(names, counter - 1)
        node.append(ms, seq, counter, names, values)
        self.node_map.push(node, ms, seq, counter)
        self._adopt(node)
        return True

    def append_adds(self, adds: Adds) -> tuple[AddsPiece, bool]:
        """Adds the next entries of a run, as many as one node takes.

        Returns these entries, and whether they opened a new node. Their IDs and counters are above
        those of all entries here.
        """
        limits = self.limits
        first = adds.walk
        node = self.node_map.last()
        opens = (
            node is None
            or node.names != adds.names
            or not self._fits(node, 1, int(first.next - first.start) + 4)
        )
        if node is None or opens:
            node = PackedNode(adds.names, first.counter - 1)
            self.node_map.push(node, first.ms, first.seq, first.counter)
            self._adopt(node)
            piece = adds.take(limits.max_entries, limits.max_bytes)
        else:
            self.changing(node)
            piece = adds.take(
                limits.max_entries and limits.max_entries - node.count,
                limits.max_bytes and limits.max_bytes - len(node.data),
            )
        node.append_run(
            piece.first, piece.data(), piece.count, piece.ms, piece.last_seq, piece.last_counter
        )
        self.length += piece.count
        return piece, opens

    def append_run(
        self,
        names: bytes,
        data: bytes,
        base_counter: int,
        count: int,
        last_ms: int,
        last_seq: int,
        last_counter: int,
    ) -> None:
        """Adds a run of `count` entries that is encoded as in a node (`crdt/node.py`).

        The run is appended to the last node or becomes a node by itself where the limits allow it;
        otherwise its entries are added one by one.
        """
        first = Scan(data, base_counter)
        first.step()
        node = self.node_map.last()
        if node is not None:
            ascends = first.id() > ((node.last_ms << 64) | node.last_seq)
            if ascends and node.names == names and self._fits(node, count, len(data)):
                self.changing(node)
                node.append_run(first, data, count, last_ms, last_seq, last_counter)
                self.length += count
                return
            if ascends and (node.names != names or not self._is_nearly_full(node)):
                self._append_each(names, data, base_counter)
                return
        self._take_as_node(names, data, base_counter, count, last_ms, last_seq, last_counter, first)

    def _is_nearly_full(self, node: PackedNode) -> bool:
        limits = self.limits
        return bool(
            (limits.max_entries and node.count * 4 >= limits.max_entries * 3)
            or (limits.max_bytes and len(node.data) * 4 >= limits.max_bytes * 3)
        )

    def _take_as_node(
        self,
        names: bytes,
        data: bytes,
        base_counter: int,
        count: int,
        last_ms: int,
        last_seq: int,
        last_counter: int,
        first: Scan,
    ) -> None:
        limits = self.limits
        if (limits.max_entries and count > limits.max_entries) or (
            limits.max_bytes and count > 1 and len(data) > limits.max_bytes + _HEAD_BYTES
        ):
            # The region that cut the run has other limits.
            self._append_each(names, data, base_counter)
            return
        node = PackedNode(names, base_counter)
        node.take_run(data, count, last_ms, last_seq, last_counter)
        self.node_map.push(node, first.ms, first.seq, first.counter)
        self._adopt(node)
        self.length += count

    def _append_each(self, names: bytes, data: bytes, base_counter: int) -> None:
        scan = Scan(data, base_counter)
        while scan.step():
            self.append(scan.ms, scan.seq, scan.counter, names, scan.payload())

    def append_entry(self, scan: Scan, names: bytes) -> None:
        """Adds the entry that `scan` stands on, from a node whose master fields are `names`."""
        payload = scan.payload()
        if scan.flags & SAME_NAMES:
            self.append(scan.ms, scan.seq, scan.counter, names, payload)
        else:
            split = names_end(payload)
            self.append(scan.ms, scan.seq, scan.counter, payload[:split], payload[split:])

    # -- finding

    def _scan_to_counter(self, counter: int) -> tuple[int, Optional[Scan]]:
        """Finds the present entry with that counter.

        Returns (node index, scan that stands on the entry), or (-1, None).
        """
        index = self.node_map.index_by_counter(counter)
        if index >= 0:
            scan = self.node_map.node(index).scan()
            while scan.step() and scan.counter <= counter:
                if scan.counter == counter:
                    return (index, scan) if not scan.flags & DELETED else (-1, None)
        return -1, None

    def has_counter(self, counter: int) -> bool:
        return self._scan_to_counter(counter)[0] >= 0

    def id_at(self, counter: int) -> int:
        """Returns the ID of the present entry with that counter; -1 if there is none."""
        scan = self._scan_to_counter(counter)[1]
        return -1 if scan is None else scan.id()

    def fields_at(self, counter: int) -> Optional[list[bytes]]:
        """Returns field, value, … of the present entry with that counter, or None."""
        index, scan = self._scan_to_counter(counter)
        return None if scan is None else self.node_map.node(index).fields(scan)

    def counter_of_id(self, entry_id: int) -> int:
        """Returns the counter of the present entry with that ID; 0 if there is none.

        At most one entry of a region log bears an ID.
        """
        index = self.node_map.index_by_id(entry_id)
        if index >= 0:
            ms, seq = words(entry_id)
            scan = self.node_map.node(index).scan()
            while scan.step() and scan.is_up_to(ms, seq):
                if scan.ms_word == ms and scan.seq_word == seq:
                    return 0 if scan.flags & DELETED else scan.counter
        return 0

    def last_counter_not_above(self, entry_id: int) -> int:
        """Returns the counter of the last present entry with an ID ≤ `entry_id`; 0 if none."""
        ms, seq = words(entry_id)
        index = self.node_map.index_by_id(entry_id)
        while index >= 0:
            node = self.node_map.node(index)
            if node.deleted == 0 and ((node.last_ms << 64) | node.last_seq) <= entry_id:
                return node.last_counter
            found = 0
            scan = node.scan()
            while scan.step() and scan.is_up_to(ms, seq):
                if not scan.flags & DELETED:
                    found = scan.counter
            if found:
                return found
            index -= 1
        return 0

    def last_counter_up_to(self, counter: int) -> int:
        """Returns the counter of the last present entry with a counter ≤ `counter`; 0 if none."""
        node_map = self.node_map
        index = node_map.index_by_counter(counter)
        while index >= 0:
            node = node_map.node(index)
            if node.deleted == 0 and node.last_counter <= counter:
                return node.last_counter
            found = 0
            scan = node.scan()
            while scan.step() and scan.counter <= counter:
                if not scan.flags & DELETED:
                    found = scan.counter
            if found:
                return found
            index -= 1
        return 0

    def first_counter(self) -> int:
        """Returns the counter of the first present entry; 0 if there is none."""
        for index in range(self.node_map.size()):
            node = self.node_map.node(index)
            if node.deleted == 0:
                return self.node_map.first_counter(index)
            scan = node.scan()
            while scan.step():
                if not scan.flags & DELETED:
                    return scan.counter
        return 0

    def last_counter(self) -> int:
        """Returns the counter of the last entry, present or deleted, of the last node; 0 if none.

        No entry of the log lies above it.
        """
        node = self.node_map.last()
        return 0 if node is None else node.last_counter

    def count_above(self, counter: int) -> int:
        """Returns the number of entries present with a counter above `counter`."""
        node_map = self.node_map
        index = node_map.index_by_counter(counter)
        total = 0
        for later in range(max(index + 1, 0), node_map.size()):
            total += node_map.node(later).live()
        if index >= 0:
            scan = node_map.node(index).scan()
            while scan.step():
                if scan.counter > counter and not scan.flags & DELETED:
                    total += 1
        return total

    # -- removing

    def remove(self, counter: int) -> int:
        """Removes the entry with that counter; returns its ID, or -1 if it is not present."""
        index, scan = self._scan_to_counter(counter)
        if scan is None:
            return -1
        node = self.node_map.node(index)
        self.changing(node)
        node.delete_at(scan.start)
        self.length -= 1
        self._tidy(index)
        return scan.id()

    def remove_prefix(self, counter: int) -> tuple[int, int]:
        """Removes every entry with a counter ≤ `counter`.

        Returns (number of entries removed, highest ID among them or -1).
        """
        node_map = self.node_map
        index = node_map.index_by_counter(counter)
        if index < 0:
            return 0, -1
        removed = 0
        highest = -1
        if node_map.node(index).last_counter > counter:
            partial = node_map.node(index)
            self.changing(partial)
            scan = partial.scan()
            while scan.step() and scan.counter <= counter:
                if not scan.flags & DELETED:
                    partial.delete_at(scan.start)
                    removed += 1
                    highest = scan.id()
            if partial.live() == 0:
                index += 1
        else:
            index += 1
        if index > 0 and removed == 0:
            highest = self._highest_before(index)
        for whole in range(index):
            node = node_map.node(whole)
            removed += node.live()
            self._forget(node)
        node_map.drop(0, index)
        self.length -= removed
        if node_map.index_by_counter(counter) >= 0:
            self._tidy(0)
        return removed, highest

    def _highest_before(self, index: int) -> int:
        """Returns the highest ID present in the nodes before `index`."""
        highest = -1
        scan = self.node_map.node(index - 1).scan()
        while scan.step():
            if not scan.flags & DELETED:
                highest = scan.id()
        return highest

    def _tidy(self, index: int) -> None:
        """Drops an empty node, or rewrites a node with more than half of its entries deleted.

        A rewritten node is glued to a neighbour where both fit into one node (S12.2).
        """
        node_map = self.node_map
        node = node_map.node(index)
        if node.live() == 0:
            self._forget(node)
            node_map.drop(index, index + 1)
            return
        if node.deleted * 2 <= node.count:
            return
        self._leave(node)
        node = node.rewritten()
        node_map.replace(index, node)
        self._adopt(node)
        if index > 0 and self._fits(node_map.node(index - 1), node.count, len(node.data)):
            self._glue(index - 1)
        elif index + 1 < node_map.size():
            after = node_map.node(index + 1)
            if self._fits(node, after.count, len(after.data)):
                self._glue(index)

    def _glue(self, index: int) -> None:
        """Moves the live entries of the node after `index` into the one at `index`."""
        node_map = self.node_map
        node = node_map.node(index)
        after = node_map.node(index + 1)
        first = after.scan()
        first.step()
        if first.id() <= (node.last_ms << 64 | node.last_seq):
            # A deleted entry of a higher ID stands at the end of the first node.
            return
        self.changing(node)
        scan = after.scan()
        while scan.step():
            if not scan.flags & DELETED:
                node.append_scanned(scan, after.names)
        self._forget(after)
        node_map.drop(index + 1, index + 2)
