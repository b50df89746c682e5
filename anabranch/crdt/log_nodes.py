"""The packed nodes of a region log, and which of them changed (S12.1, S13.1, S13.9).

A checkpoint writes the nodes that changed since the last one. A digest hashes those that changed
since the last digest.
"""

from __future__ import annotations

from typing import Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.ids import MAX_HALF
from anabranch.crdt.node import DIGEST_MASK, PackedNode
from anabranch.crdt.node_map import NodeMap


@mypyc_attr(acyclic=True)
class LogNodes:
    """The nodes of one region log in a node_map. `length` counts the entries present."""

    def __init__(self, region_id: int) -> None:
        self.region_id = region_id
        self.node_map = NodeMap()
        self.length = 0
        # The counter of the first add since this region has held the log without a break; 0 before
        # it. With the key a region forgets its logs. So a reader that has read a part of a log
        # below `began` has read it before the key was removed (S5.4). No part of the digest.
        self.began = 0
        # Checkpoint bookkeeping: the nodes changed since the last checkpoint, the numbers of
        # stored nodes that are no longer here, and the next number to give.
        # A log that has had only one node has none of these lists: the node itself tells.
        self._unsaved: Optional[list[PackedNode]] = None
        self._dropped_numbers: Optional[list[int]] = None
        self.next_number = 1
        # Digest bookkeeping: the sum of the shares of the nodes not in `unhashed` (S13.9).
        self.share_total = 0
        self._unhashed: Optional[list[PackedNode]] = None

    # -- since the last checkpoint

    @property
    def unsaved(self) -> list[PackedNode]:
        if self._unsaved is not None:
            return self._unsaved
        return [node for node in self.node_map.nodes if node.is_unsaved]

    @property
    def dropped_numbers(self) -> list[int]:
        return self._dropped_numbers or []

    def saved(self) -> None:
        """Empties `unsaved`, none of which is unsaved any more, and `dropped_numbers`."""
        self._unsaved = None if self.node_map.size() <= 1 else []
        self._dropped_numbers = None

    def _note_unsaved(self, node: PackedNode) -> None:
        """Notes a node, which is in the node_map, as unsaved."""
        node.is_unsaved = True
        if self._unsaved is None:
            if self.node_map.size() == 1:
                return
            self._unsaved = [
                one for one in self.node_map.nodes if one.is_unsaved and one is not node
            ]
        self._unsaved.append(node)

    # -- since the last digest

    @property
    def unhashed(self) -> list[PackedNode]:
        if self._unhashed is not None:
            return self._unhashed
        return [node for node in self.node_map.nodes if node.share is None]

    def _note_unhashed(self, node: PackedNode) -> None:
        """Notes a node, which is in the node_map, as not hashed."""
        if self._unhashed is None:
            if self.node_map.size() == 1:
                return
            self._unhashed = [
                one for one in self.node_map.nodes if one.share is None and one is not node
            ]
        self._unhashed.append(node)

    def _add_share(self, share: int) -> None:
        # Mostly there is one node, and the sum is the same object.
        self.share_total = share if self.share_total == 0 else self.share_total + share

    def hash_some(self, entries_max: int) -> int:
        """Hashes changed nodes until about `entries_max` entries are done; returns how many."""
        if self._unhashed is None:
            self._unhashed = self.unhashed
        done = 0
        while self._unhashed and done < entries_max:
            node = self._unhashed.pop()
            if not node.is_dropped and node.share is None:
                node.share = node.hash_entries(self.region_id)
                self._add_share(node.share)
                done += node.count
        if not self._unhashed and self.node_map.size() <= 1:
            self._unhashed = None
        return done

    def digest_share(self) -> int:
        """Returns the sum of the entries' hashes; only changed nodes are hashed again (S13.9)."""
        self.hash_some(1 << 62)
        return self.share_total & DIGEST_MASK

    # -- nodes that come, change and go

    def changing(self, node: PackedNode) -> None:
        """Notes that a node of this log is about to change. Callers call this before the change."""
        if node.share is not None:
            self.share_total -= node.share
            node.share = None
            self._note_unhashed(node)
        if not node.is_unsaved:
            self._note_unsaved(node)

    def _adopt(self, node: PackedNode) -> None:
        """Notes a node that is new in this log, and in the node_map."""
        if not self.began:
            self.began = node.base_counter + 1
        self._note_unhashed(node)
        self._note_unsaved(node)

    def _leave(self, node: PackedNode) -> None:
        """Notes a node that another node replaces in this log."""
        node.is_dropped = True
        if node.share is not None:
            self.share_total -= node.share
            node.share = None

    def _forget(self, node: PackedNode) -> None:
        """Notes a node that is removed and not replaced."""
        self._leave(node)
        if node.number:
            if self._dropped_numbers is None:
                self._dropped_numbers = []
            self._dropped_numbers.append(node.number)

    def push(self, node: PackedNode, first_id: int, first_counter: int) -> None:
        """Puts a whole node at the end, as the load of a checkpoint or a snapshot does."""
        self.node_map.push(node, first_id >> 64, first_id & MAX_HALF, first_counter)
        self.length += node.live()
        if node.share is None:
            self._note_unhashed(node)
        else:
            self._add_share(node.share)
        if node.is_unsaved:
            self._note_unsaved(node)
