"""The bytes of state: keys and packed nodes, in checkpoints (`region/storage`) and snapshots (S11).

Snapshots carry the converged part of a key, and the part that is kept until causally stable. Only
checkpoints, on the region's own disk, carry the local part.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr
from xxhash import xxh3_64_digest

from anabranch.crdt.delivery import Consumer, Delivery
from anabranch.crdt.encoding import Malformed, Reader, put_bytes, put_id, put_varint, put_vector
from anabranch.crdt.groups import Create
from anabranch.crdt.images import PairsImage, PelImage, StateImage
from anabranch.crdt.node import PackedNode
from anabranch.crdt.pair import pair_of
from anabranch.crdt.pel_chunk import NOBODY, EntryRef
from anabranch.crdt.place import put_place, read_place
from anabranch.crdt.spans import put_spans_by_region, read_spans_by_region
from anabranch.crdt.stream import Stream

# Version 1 does not say which pairs are retired, version 2 not up to where logs were trimmed, and
# version 3 not where they began.
STATE_VERSION: Final = 4


# -- packed nodes


@mypyc_attr(acyclic=True)
class NodeImage:
    """A packed node as it was at a cut.

    The image shares the node's buffer until the node changes (`PackedNode.is_shared`).
    """

    def __init__(self, region_id: int, node: PackedNode) -> None:
        node.is_shared = True
        self.region_id = region_id
        self.number = node.number
        self.names = node.names
        self.base_counter = node.base_counter
        self.count = node.count
        self.deleted = node.deleted
        self.last_ms = node.last_ms
        self.last_seq = node.last_seq
        self.last_counter = node.last_counter
        self.data = node.data
        self.share = node.share

    def size(self) -> int:
        return len(self.data) + len(self.names) + 64

    def encoded(self) -> bytes:
        """Returns a checksum, the attributes of the node, and its buffer.

        With the attributes stored, `read_node` does not have to look at each entry.
        """
        out = bytearray()
        put_varint(out, self.base_counter)
        put_varint(out, self.count)
        put_varint(out, self.deleted)
        put_varint(out, self.last_ms)
        put_varint(out, self.last_seq)
        put_varint(out, self.last_counter)
        put_bytes(out, self.names)
        put_bytes(out, b"" if self.share is None else self.share.to_bytes(16, "big"))
        out += self.data
        return xxh3_64_digest(out) + bytes(out)


def read_node(body: bytes) -> PackedNode:
    """Reads a node that `NodeImage.encoded` wrote; raises Malformed if a bit of it changed."""
    if xxh3_64_digest(body[8:]) != body[:8]:
        raise Malformed("a packed node's checksum is wrong")
    reader = Reader(body, 8)
    base_counter = reader.varint()
    count = reader.varint()
    deleted = reader.varint()
    last_ms = reader.varint()
    last_seq = reader.varint()
    last_counter = reader.varint()
    node = PackedNode(reader.bytes_(), base_counter)
    share = reader.bytes_()
    node.take_run(body[reader.offset :], count, last_ms, last_seq, last_counter)
    node.deleted = deleted
    node.share = int.from_bytes(share, "big") if share else None
    if node.live() <= 0:
        raise Malformed("a packed node without entries")
    return node


def push_node(stream: Stream, region_id: int, node: PackedNode) -> None:
    """Puts a read node at the end of its region log."""
    scan = node.scan()
    scan.step()
    stream.log(region_id).push(node, scan.id(), scan.counter)


# -- a key


def cut_converged(image: StateImage, stream: Stream) -> None:
    """Cuts a key without its entries and its local part.

    These are header, creates, deadlines and configurations (converged), then tombstones, clears,
    `touched` and pairs (kept until stable), then up to where each region log was trimmed, and where
    it began.
    """
    out = image.out
    put_varint(out, STATE_VERSION)
    header = stream.header.heads
    put_varint(out, len(header))
    for region_id in sorted(header):
        counter, entry_id = header[region_id]
        put_varint(out, region_id)
        put_varint(out, counter)
        put_id(out, entry_id)
    if stream.rare is None:
        # No groups, deadlines, configurations, tombstones (two kinds) and clears.
        out += bytes(6)
        put_vector(out, stream.header.touched)
        out += bytes(1)  # No pairs.
    else:
        _put_rare(out, stream)
        image.add(PairsImage(stream.pairs))
    trimmed = {log.region_id: log.trimmed for log in stream.logs.values() if log.trimmed}
    put_vector(image.out, trimmed)
    put_vector(image.out, {one.region_id: one.began for one in stream.each_log() if one.began})


def _put_rare(out: bytearray, stream: Stream) -> None:
    put_varint(out, len(stream.groups))
    for name in sorted(stream.groups):
        put_bytes(out, name)
        creates = stream.groups[name].creates
        put_varint(out, len(creates))
        for dot in sorted(creates):
            put_varint(out, dot[0])
            put_varint(out, dot[1])
            put_place(out, creates[dot].start)
            put_spans_by_region(out, creates[dot].acked)
    put_varint(out, len(stream.deadlines))
    for dot in sorted(stream.deadlines):
        put_varint(out, dot[0])
        put_varint(out, dot[1])
        put_varint(out, stream.deadlines[dot])
    put_varint(out, len(stream.configurations))
    for dot in sorted(stream.configurations):
        put_varint(out, dot[0])
        put_varint(out, dot[1])
        put_varint(out, stream.configurations[dot][0])
        put_varint(out, stream.configurations[dot][1])
    _put_until_stable(out, stream)


def _put_until_stable(out: bytearray, stream: Stream) -> None:
    put_varint(out, len(stream.tombstones))
    for name in sorted(stream.tombstones):
        put_bytes(out, name)
        put_vector(out, stream.tombstones[name])
    put_vector(out, stream.tombstone_of_all)
    put_vector(out, stream.clears)
    put_vector(out, stream.header.touched)


def read_converged(reader: Reader, stream: Stream) -> int:
    """Reads what `cut_converged` wrote into an empty stream; returns their version.

    Raises Malformed if the version is unknown or the bytes are not valid.
    """
    version = reader.varint()
    if not 1 <= version <= STATE_VERSION:
        raise Malformed("state of an unknown version")
    for _ in range(reader.count()):
        region_id = reader.varint()
        counter = reader.varint()
        ms = reader.half()
        stream.header.note(region_id, counter, ms, reader.half())
    for _ in range(reader.count()):
        group = stream.group_with(reader.bytes_())
        for _ in range(reader.count()):
            region_id = reader.varint()
            dot = (region_id, reader.varint())
            group.creates[dot] = create = Create(read_place(reader))
            create.acked = read_spans_by_region(reader)
    for _ in range(reader.count()):
        region_id = reader.varint()
        dot = (region_id, reader.varint())
        stream.deadlines[dot] = reader.varint()
    for _ in range(reader.count()):
        region_id = reader.varint()
        dot = (region_id, reader.varint())
        duration_s = reader.varint()
        stream.configurations[dot] = (duration_s, reader.varint())
    _read_until_stable(reader, stream)
    if version >= 3:
        for _ in range(reader.count()):
            region_id = reader.varint()
            stream.log(region_id).trimmed = reader.varint()
    _read_begins(reader, stream, version)
    return version


def _read_begins(reader: Reader, stream: Stream, version: int) -> None:
    """Reads where each region log began. Before version 4 that was not noted: 1 accuses nobody."""
    if version >= 4:
        for _ in range(reader.count()):
            region_id = reader.varint()
            stream.log(region_id).began = reader.varint()
        return
    for region_id in {*stream.header.heads, *stream.logs}:
        stream.log(region_id).began = 1


def _read_until_stable(reader: Reader, stream: Stream) -> None:
    for _ in range(reader.count()):
        name = reader.bytes_()
        stream.tombstones[name] = reader.vector()
    if tombstone := reader.vector():
        stream.tombstone_of_all = tombstone
    if clears := reader.vector():
        stream.clears = clears
    stream.header.set_touched(reader.vector())
    for _ in range(reader.count()):
        pid = reader.bytes_()
        iid = reader.bytes_()
        region_id = reader.varint()
        dot = (region_id, reader.varint())
        entry_id = reader.id_()
        recorded_ms = reader.varint()
        vector = reader.vector()
        stream.pairs.add(pair_of(pid, iid, dot, entry_id, recorded_ms, vector, reader.varint()))


def put_local(out: bytearray, stream: Stream) -> None:
    """Writes local group state and statistics; see `cut_local`."""
    image = StateImage()
    cut_local(image, stream)
    out += image.encoded()


def cut_local(image: StateImage, stream: Stream) -> None:
    """Cuts local group state and statistics, for this region's own disk."""
    out = image.out
    put_varint(out, stream.entries_added)
    put_id(out, stream.max_deleted_id)
    put_varint(out, stream.iids_added)
    put_varint(out, stream.iids_duplicates)
    if stream.rare is None:
        out += bytes(2)  # No groups, and no producers.
        return
    put_varint(out, len(stream.groups))
    for name in sorted(stream.groups):
        put_bytes(image.out, name)
        _cut_delivery(image, stream.groups[name].delivery)
    out = image.out
    counts = [(pid, one.retired) for pid, one in stream.pairs.producers.items()]
    retired = [(pid, count) for pid, count in counts if count]
    put_varint(out, len(retired))
    for pid, count in retired:
        put_bytes(out, pid)
        put_varint(out, count)


def read_local(reader: Reader, stream: Stream, version: int = STATE_VERSION) -> None:
    """Reads the bytes of `put_local`; `version` is that of the converged part before them."""
    stream.entries_added = reader.varint()
    stream.max_deleted_id = reader.id_()
    stream.iids_added = reader.varint()
    stream.iids_duplicates = reader.varint()
    for _ in range(reader.count()):
        name = reader.bytes_()
        delivery = _read_delivery(reader)
        group = stream.find_group(name)
        if group is not None:
            group.delivery = delivery
    if version >= 2:
        for _ in range(reader.count()):
            pid = reader.bytes_()
            stream.pairs.retire_first(pid, reader.varint())


def _cut_delivery(image: StateImage, delivery: Delivery) -> None:
    out = image.out
    out.append(0 if delivery.floor is None else 1)
    if delivery.floor is not None:
        put_place(out, delivery.floor)
    put_id(out, delivery.raised_id)
    put_spans_by_region(out, delivery.given)
    put_varint(out, len(delivery.dropped))
    for region_id in sorted(delivery.dropped):
        put_varint(out, region_id)
        put_varint(out, len(delivery.dropped[region_id]))
        for counter in sorted(delivery.dropped[region_id]):
            put_varint(out, counter)
    put_varint(out, delivery.entries_read)
    put_varint(out, len(delivery.consumers))
    pel = PelImage(delivery.pel)
    for name in sorted(delivery.consumers):
        consumer = delivery.consumers[name]
        head = bytearray()
        put_bytes(head, name)
        put_varint(head, consumer.seen_ms)
        put_varint(head, consumer.active_ms + 1)
        put_varint(head, delivery.pel.length_of(name))
        pel.add(bytes(head), delivery.pel.numbers.get(name, NOBODY))
    image.add(pel)


def _read_delivery(reader: Reader) -> Delivery:
    delivery = Delivery()
    if reader.varint():
        delivery.floor = read_place(reader)
    delivery.raised_id = reader.id_()
    delivery.given = read_spans_by_region(reader)
    for _ in range(reader.count()):
        region_id = reader.varint()
        delivery.dropped[region_id] = {reader.varint() for _ in range(reader.count())}
    delivery.entries_read = reader.varint()
    for _ in range(reader.count()):
        name = reader.bytes_()
        consumer = Consumer(name, reader.varint())
        consumer.active_ms = reader.varint() - 1
        delivery.consumers[name] = consumer
        for _ in range(reader.count()):
            region_id = reader.varint()
            counter = reader.half()
            ms = reader.half()
            entry = EntryRef(region_id, counter, ms, reader.half())
            delivered_ms = reader.half()
            delivery.pel.assign(entry, name, delivered_ms, reader.half())
    return delivery
