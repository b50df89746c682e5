"""Local records (S13.1): changes of local group state, stored so that a restart can replay them.

A local record has no dot and is never sent. A command makes a record, applies it, and the engine
writes it to the log. Replay applies it again. A record names the creates that were live when it
arose, and is void when none of them is live.

Each kind is a class with its own fields. All kinds have one layout of bytes, in which a field that
a kind does not have is empty or 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Optional

from librt.strings import BytesWriter

from anabranch.crdt.delivery import Delivery
from anabranch.crdt.encoding import Malformed, Reader, write_bytes, write_id, write_varint
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.pel_chunk import EntryRef, entry_ref
from anabranch.crdt.pel_slices import Pending
from anabranch.crdt.place import Place, put_place, read_place
from anabranch.crdt.spans import (
    SpansByRegion,
    read_spans_by_region,
    union_by_region,
    write_spans_by_region,
)
from anabranch.crdt.vector import Dot


def entry_of(pending: Pending) -> EntryRef:
    """Returns the reference of a pending entry."""
    return entry_ref(pending.region_id, pending.counter, pending.entry_id)


class Claim:
    """An entry that is claimed, with the delivery time (ms) and count that it gets."""

    def __init__(self, entry: EntryRef, delivered_ms: int, deliveries: int) -> None:
        self.entry: Final = entry
        self.delivered_ms: Final = delivered_ms
        self.deliveries: Final = deliveries


class RecordHead:
    """The beginning of every record: the group, its creates live at that time, the time in ms."""

    def __init__(self, key: bytes, group: bytes, creates: list[Dot], now_ms: int) -> None:
        self.key: Final = key
        self.group: Final = group
        self.creates: Final = creates
        self.now_ms: Final = now_ms


class LocalRecord:
    """One record. `may_announce`: the record may make acknowledgements announceable (S8.1)."""

    kind: ClassVar[int] = 0

    def __init__(self, head: RecordHead) -> None:
        self.head: Final = head

    def may_announce(self) -> bool:
        return True

    def entries_only(self) -> Sequence[EntryRef]:
        """The entries that the record is about; empty: it tells of more than entries."""
        return ()

    def change(self, delivery: Delivery) -> None:
        """Changes the local state of the record's group."""
        raise NotImplementedError

    def put(self, out: BytesWriter) -> None:
        """Writes the record."""
        raise NotImplementedError

    def _put(
        self,
        out: BytesWriter,
        consumer: bytes = b"",
        entries: Sequence[EntryRef] = (),
        claims: Sequence[Claim] = (),
        spans: Optional[SpansByRegion] = None,
        floor: Optional[Place] = None,
        last_id: int = 0,
        entries_read: int = 0,
        no_ack: bool = False,
    ) -> None:
        """Writes the layout that all kinds share."""
        head = self.head
        out.append(self.kind)
        write_bytes(out, head.key)
        write_bytes(out, head.group)
        write_varint(out, len(head.creates))
        for region_id, counter in head.creates:
            write_varint(out, region_id)
            write_varint(out, counter)
        write_varint(out, head.now_ms)
        write_bytes(out, consumer)
        write_varint(out, len(entries) + len(claims))
        for entry in entries:
            _write_entry(out, entry)
        for claim in claims:
            _write_entry(out, claim.entry)
            write_varint(out, claim.delivered_ms)
            write_varint(out, claim.deliveries)
        if spans:
            write_spans_by_region(out, spans)
        else:
            write_varint(out, 0)
        if floor is not None:
            place = bytearray()
            put_place(place, floor)
            out.write(place)
        write_id(out, last_id)
        write_varint(out, entries_read)
        out.append(1 if no_ack else 0)


class Delivered(LocalRecord):
    """XREADGROUP `>`: spans become given, and unless NOACK their entries pend for the consumer.

    `entries_read` is the new value of that statistic.
    """

    kind = 1

    def __init__(
        self,
        head: RecordHead,
        consumer: bytes,
        entries: list[EntryRef],
        spans: SpansByRegion,
        entries_read: int,
        no_ack: bool,
    ) -> None:
        super().__init__(head)
        self.consumer: Final = consumer
        self.entries: Final = entries
        self.spans: Final = spans
        self.entries_read: Final = entries_read
        self.no_ack: Final = no_ack

    def entries_only(self) -> Sequence[EntryRef]:
        return self.entries

    def may_announce(self) -> bool:
        """Delivered entries are pending, unless the read was NOACK."""
        return self.no_ack

    def change(self, delivery: Delivery) -> None:
        now_ms = self.head.now_ms
        union_by_region(delivery.given, self.spans)
        delivery.entries_read = self.entries_read
        consumer = delivery.consumer(self.consumer, now_ms)
        consumer.seen_ms = consumer.active_ms = now_ms
        if not self.no_ack:
            delivery.assign_all(self.entries, self.consumer, now_ms)
            return
        for entry in self.entries:
            delivery.no_longer_dropped(entry.region_id, entry.counter)

    def put(self, out: BytesWriter) -> None:
        self._put(
            out,
            consumer=self.consumer,
            entries=self.entries,
            spans=self.spans,
            entries_read=self.entries_read,
            no_ack=self.no_ack,
        )


class Removed(LocalRecord):
    """XACK, or pending entries that were deleted: the entries leave the PELs."""

    kind = 2

    def __init__(self, head: RecordHead, entries: list[EntryRef]) -> None:
        super().__init__(head)
        self.entries: Final = entries

    def entries_only(self) -> Sequence[EntryRef]:
        return self.entries

    def change(self, delivery: Delivery) -> None:
        delivery.pel.remove_all(self.entries)

    def put(self, out: BytesWriter) -> None:
        self._put(out, entries=self.entries)


class Claimed(LocalRecord):
    """XCLAIM, XAUTOCLAIM, and XREADGROUP with an ID: entries become pending for the consumer."""

    kind = 3

    def __init__(self, head: RecordHead, consumer: bytes, claims: list[Claim]) -> None:
        super().__init__(head)
        self.consumer: Final = consumer
        self.claims: Final = claims

    def entries_only(self) -> Sequence[EntryRef]:
        return [claim.entry for claim in self.claims]

    def change(self, delivery: Delivery) -> None:
        now_ms = self.head.now_ms
        consumer = delivery.consumer(self.consumer, now_ms)
        consumer.seen_ms = consumer.active_ms = now_ms
        for claim in self.claims:
            delivery.assign(
                claim.entry, self.consumer, claim.delivered_ms, claim.deliveries, now_ms
            )

    def put(self, out: BytesWriter) -> None:
        self._put(out, consumer=self.consumer, claims=self.claims)


class ConsumerMade(LocalRecord):
    """A consumer was created, by XGROUP CREATECONSUMER or by its first read."""

    kind = 4

    def __init__(self, head: RecordHead, consumer: bytes) -> None:
        super().__init__(head)
        self.consumer: Final = consumer

    def change(self, delivery: Delivery) -> None:
        delivery.consumer(self.consumer, self.head.now_ms)

    def put(self, out: BytesWriter) -> None:
        self._put(out, consumer=self.consumer)


class ConsumerDeleted(LocalRecord):
    """XGROUP DELCONSUMER."""

    kind = 5

    def __init__(self, head: RecordHead, consumer: bytes) -> None:
        super().__init__(head)
        self.consumer: Final = consumer

    def change(self, delivery: Delivery) -> None:
        delivery.delete_consumer(self.consumer)

    def put(self, out: BytesWriter) -> None:
        self._put(out, consumer=self.consumer)


class FloorSet(LocalRecord):
    """XGROUP SETID: the floor, and the last entry not above it in each region log (S7.4).

    The given spans beyond that entry are forgotten.
    """

    kind = 6

    def __init__(
        self, head: RecordHead, floor: Place, last_below: list[EntryRef], entries_read: int
    ) -> None:
        super().__init__(head)
        self.floor: Final = floor
        self.last_below: Final = last_below
        self.entries_read: Final = entries_read

    def change(self, delivery: Delivery) -> None:
        delivery.floor = self.floor
        delivery.raised_id = 0
        delivery.entries_read = self.entries_read
        delivery.memos.clear()
        last_below = {entry.region_id: entry for entry in self.last_below}
        for region_id, spans in delivery.given.items():
            entry = last_below.get(region_id)
            spans.truncate(
                0 if entry is None else entry.counter, 0 if entry is None else entry.entry_id
            )

    def put(self, out: BytesWriter) -> None:
        self._put(out, entries=self.last_below, floor=self.floor, entries_read=self.entries_read)


class FloorRaised(LocalRecord):
    """XCLAIM LASTID: raises the floor to an ID (S7.4)."""

    kind = 7

    def __init__(self, head: RecordHead, last_id: int) -> None:
        super().__init__(head)
        self.last_id: Final = last_id

    def change(self, delivery: Delivery) -> None:
        delivery.raised_id = max(delivery.raised_id, self.last_id)
        # The memos would begin below the raised floor.
        delivery.memos.clear()

    def put(self, out: BytesWriter) -> None:
        self._put(out, last_id=self.last_id)


def _write_entry(out: BytesWriter, entry: EntryRef) -> None:
    write_varint(out, entry.region_id)
    write_varint(out, entry.counter)
    write_varint(out, entry.ms)
    write_varint(out, entry.seq)


# -- applying and reading


def apply_local(keyspace: Keyspace, record: LocalRecord) -> None:
    """Applies a record, unless it is void."""
    head = record.head
    stream = keyspace.get(head.key)
    group = None if stream is None else stream.find_group(head.group)
    if stream is None or group is None:
        return
    if not group.has_any(head.creates):
        return
    record.change(group.delivery)
    keyspace.touch_local(stream)
    if record.may_announce():
        keyspace.acknowledgeable[(head.key, head.group)] = None


def read_record(reader: Reader) -> LocalRecord:
    """Reads one record; raises Malformed when its kind is unknown."""
    kind = reader.varint()
    key = reader.bytes_()
    group = reader.bytes_()
    creates = reader.dots()
    head = RecordHead(key, group, creates, reader.half())
    consumer = reader.bytes_()
    entries: list[EntryRef] = []
    claims: list[Claim] = []
    for _ in range(reader.count()):
        region_id = reader.varint()
        counter = reader.half()
        ms = reader.half()
        entry = EntryRef(region_id, counter, ms, reader.half())
        if kind == Claimed.kind:
            delivered_ms = reader.half()
            claims.append(Claim(entry, delivered_ms, reader.half()))
        else:
            entries.append(entry)
    spans = read_spans_by_region(reader)
    floor = read_place(reader) if kind == FloorSet.kind else None
    last_id = reader.id_()
    entries_read = reader.varint()
    no_ack = reader.varint() != 0
    if kind == Delivered.kind:
        return Delivered(head, consumer, entries, spans, entries_read, no_ack)
    if kind == Removed.kind:
        return Removed(head, entries)
    if kind == Claimed.kind:
        return Claimed(head, consumer, claims)
    if kind == ConsumerMade.kind:
        return ConsumerMade(head, consumer)
    if kind == ConsumerDeleted.kind:
        return ConsumerDeleted(head, consumer)
    if floor is not None:
        return FloorSet(head, floor, entries, entries_read)
    if kind == FloorRaised.kind:
        return FloorRaised(head, last_id)
    raise Malformed(f"a local record of unknown kind {kind}")


def read_records(body: bytes) -> list[LocalRecord]:
    """Returns the records of one row of the log; raises Malformed when a record is not valid."""
    reader = Reader(body)
    records: list[LocalRecord] = []
    while not reader.at_end():
        records.append(read_record(reader))
    return records
