"""Reading one region log in bulk: its size, cuts that split it, and its packed nodes as they lie.

A range of a log is (after, end]: the entries with after < counter ≤ end. Each function looks at a
bounded part of the log, so that a region can answer other clients between two calls. Its result
says where it ended, and the next call goes on from there. Only a node that is larger than the bound
(with `stream-node-max-entries` and `stream-node-max-bytes` at 0) is scanned from its beginning.

The bytes of `packed_range`:

    NODES_FORMAT
    ┌──────────────┬───────────────┬──────────────┬───────────
    │ base_counter │ length, names │ length, data │ next node …
    └──────────────┴───────────────┴──────────────┴───────────

`names` and `data` are those of a packed node (`crdt/node.py`). The first and the last node may hold
entries outside the range, and every node may hold deleted ones: the reader leaves both out.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.encoding import put_bytes, put_varint
from anabranch.crdt.node import PackedNode, put_entry
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.scan import DELETED, SAME_NAMES

NODES_FORMAT: Final = 1
# Nodes that `about_bytes` looks at.
SAMPLE_NODES_MAX: Final = 1024
# Nodes that one `split` walks, and parts that it returns.
SPLIT_NODES_MAX: Final = 8192
SPLIT_PARTS_MAX: Final = 1024
# A node counts for so many bytes beside its contents, which bounds the nodes in an answer.
NODE_COST_BYTES: Final = 256


class LogPart:
    """A part of a range: it ends at `counter`, and has `entries` present and about `size` bytes."""

    def __init__(self, counter: int, entries: int, size: int) -> None:
        self.counter: Final = counter
        self.entries: Final = entries
        self.size: Final = size


def first_and_last(log: RegionLog) -> tuple[int, int]:
    """Returns the counters of the first and the last entry present; (0, 0) without entries."""
    if not log.node_map.nodes:
        return 0, 0
    cursor = LogCursor(log)
    cursor.seek_counter(0)
    return cursor.counter, log.last_counter_up_to(log.node_map.nodes[-1].last_counter)


def removed_up_to(log: RegionLog, after: int, applied: int) -> int:
    """Returns the counter up to which entries were trimmed, or removed with the key (S5.4).

    `after`: up to where the reader has read the log, 0 if nothing of it. `applied`: up to where
    this region has applied the effects of the log's region. With a key a region forgets its logs.
    So a reader that has read a part of the log before the present one began is told that all below
    the beginning was removed, even if it has read all of that. A new reader begins no lower than
    just before the present log; at the mark of a trim if the log has had no entry since.
    """
    if 0 < after <= applied:
        if not log.began:
            return after if after == log.trimmed else applied
        if after < log.began - 1:
            return max(log.trimmed, log.began - 1)
    return log.trimmed


def about_bytes(log: RegionLog) -> int:
    """Returns the bytes of the nodes.

    Above `SAMPLE_NODES_MAX` nodes the result is an estimate from as many, evenly spaced.
    """
    nodes = log.node_map.nodes
    count = len(nodes)
    looked_at = min(count, SAMPLE_NODES_MAX)
    total = 0
    for n in range(looked_at):
        node = nodes[n * count // looked_at]
        total += len(node.data) + len(node.names)
    return total * count // looked_at if looked_at else 0


def _first_node(log: RegionLog, after: int) -> int:
    """Returns the index of the first node that reaches beyond `after`."""
    index = max(log.node_map.index_by_counter(after), 0)
    nodes = log.node_map.nodes
    return index + 1 if index < len(nodes) and nodes[index].last_counter <= after else index


class _Splitter:
    """Collects the parts of one `split`."""

    def __init__(self, size: int, by_entries: bool) -> None:
        self.size: Final = size
        self.by_entries: Final = by_entries
        self.parts: list[LogPart] = []
        self.entries = 0
        self.bytes = 0

    def close(self, counter: int) -> None:
        self.parts.append(LogPart(counter, self.entries, self.bytes))
        self.entries = 0
        self.bytes = 0

    def add(self, entries: int, size: int, counter: int) -> None:
        """Adds entries that end at `counter`; closes the part if it is large enough."""
        self.entries += entries
        self.bytes += size
        if (self.entries if self.by_entries else self.bytes) >= self.size:
            self.close(counter)

    def add_node(self, node: PackedNode, after: int, end: int) -> None:
        """Adds the present entries of a node that lie in the range."""
        is_whole = node.base_counter >= after and node.last_counter <= end
        if is_whole and not (self.by_entries and self.entries + node.live() > self.size):
            self.add(node.live(), len(node.data), node.last_counter)
            return
        entries = 0
        size = 0
        scan = node.scan()
        while scan.step() and scan.counter <= end:
            if scan.counter <= after or scan.flags & DELETED:
                continue
            if self.by_entries:
                self.add(1, scan.next - scan.start, scan.counter)
            else:
                entries += 1
                size += scan.next - scan.start
        if not self.by_entries:
            self.add(entries, size, min(end, node.last_counter))


def split(
    log: RegionLog,
    after: int,
    end: int,
    size: int,
    by_entries: bool,
    nodes_max: int = SPLIT_NODES_MAX,
    parts_max: int = SPLIT_PARTS_MAX,
) -> list[LogPart]:
    """Cuts the range (after, end] into parts, ascending and without gaps.

    With `by_entries`, each part has exactly `size` entries, the last one fewer. Otherwise each part
    has about `size` bytes and ends with a node. At most `nodes_max` nodes are walked, and about
    `parts_max` parts returned: if the last part ends below `end`, the caller goes on from there.
    """
    splitter = _Splitter(size, by_entries)
    nodes = log.node_map.nodes
    start = _first_node(log, after)
    index = start
    while index < len(nodes) and log.node_map.first_counter(index) <= end:
        if index - start >= nodes_max or len(splitter.parts) >= parts_max:
            if splitter.entries or not splitter.parts:
                splitter.close(nodes[index - 1].last_counter)
            return splitter.parts
        splitter.add_node(nodes[index], after, end)
        index += 1
    parts = splitter.parts
    if splitter.entries or not parts:
        splitter.close(end)
    elif parts[-1].counter < end:
        last = parts.pop()
        parts.append(LogPart(end, last.entries, last.size))
    return parts


def packed_range(log: RegionLog, after: int, end: int, bytes_max: int) -> tuple[int, bytes]:
    """Returns (reached, bytes): the nodes with the entries of (after, reached], reached ≤ end.

    The bytes exceed `bytes_max` only if the first entry or the names of the first node do.
    """
    out = bytearray()
    out.append(NODES_FORMAT)
    nodes = log.node_map.nodes
    index = _first_node(log, after)
    reached = after
    spent = 0
    while index < len(nodes) and log.node_map.first_counter(index) <= end:
        node = nodes[index]
        if len(node.data) > bytes_max:
            if spent == 0:
                reached = _put_piece(out, node, after, end, bytes_max)
            return min(reached, end), bytes(out)
        spent += len(node.data) + len(node.names) + NODE_COST_BYTES
        if spent > bytes_max and reached > after:
            return reached, bytes(out)
        _put_node(out, node.base_counter, node.names, node.data)
        reached = node.last_counter
        index += 1
    return end, bytes(out)


def _put_node(out: bytearray, base_counter: int, names: bytes, data: bytes | bytearray) -> None:
    put_varint(out, base_counter)
    put_bytes(out, names)
    put_varint(out, len(data))
    out += data


def _put_piece(out: bytearray, node: PackedNode, after: int, end: int, bytes_max: int) -> int:
    """Appends the entries of a node above `after`, in at most `bytes_max` bytes but at least one.

    Returns the counter of the last of them.
    """
    scan = node.scan()
    while scan.step() and scan.counter <= after:
        pass
    base_counter = scan.counter - 1
    piece = bytearray()
    flags = scan.flags & (DELETED | SAME_NAMES)
    put_entry(piece, flags, scan.ms, scan.seq, 1, scan.payload())
    start = scan.next
    stop = start
    reached = scan.counter
    while reached < end and scan.step() and len(piece) + scan.next - start <= bytes_max:
        stop = scan.next
        reached = scan.counter
    piece += node.data[start:stop]
    _put_node(out, base_counter, node.names, piece)
    return reached
