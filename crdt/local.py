"""Local records (S13.1): what changes local group state, without a dot and never sent, so that a restart finds it again.

A command makes a record, applies it, and the record goes to the log: what replay does is what the command did. A record names the
creates that were live when it arose, and is void when none of them is live.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt.encoding import Reader, put_bytes, put_dots, put_id, put_varint
from anabranch.crdt.groups import Group
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.pel import Pending
from anabranch.crdt.position import Position, put_position, read_position
from anabranch.crdt.spans import (
    SpansByRegion,
    put_spans_by_region,
    read_spans_by_region,
    union_by_region,
)
from anabranch.crdt.vector import Dot

DELIVERED: Final = 1  # XREADGROUP >: given spans, and unless NOACK its entries pending
REMOVED: Final = 2  # XACK, or a pending entry that is no more: out of the PELs
CLAIMED: Final = 3  # XCLAIM, XAUTOCLAIM, XREADGROUP with an ID: owner, time and deliveries as given
CONSUMER: Final = 4  # a consumer was made
CONSUMER_DELETED: Final = 5  # XGROUP DELCONSUMER
FLOOR_SET: Final = 6  # XGROUP SETID
FLOOR_RAISED: Final = 7  # XCLAIM LASTID
ENTRIES_READ: Final = 8  # statistics alone


class Item:
    """One entry that a record speaks of; `delivered_ms` and `deliveries` matter to CLAIMED alone."""

    def __init__(
        self,
        region_id: int,
        counter: int,
        entry_id: int,
        delivered_ms: int = 0,
        deliveries: int = 0,
    ) -> None:
        self.region_id = region_id
        self.counter = counter
        self.entry_id = entry_id
        self.delivered_ms = delivered_ms
        self.deliveries = deliveries


class LocalRecord:
    """One record; `kind` says which of the fields mean something."""

    def __init__(
        self, kind: int, key: bytes, group: bytes, creates: list[Dot], now_ms: int
    ) -> None:
        self.kind = kind
        self.key = key
        self.group = group
        self.creates = creates
        self.now_ms = now_ms
        self.consumer = b""
        self.items: list[Item] = []
        self.spans: SpansByRegion = {}
        # FLOOR_SET: the floor, and per region log the last entry not above it (counter, ID): what is given beyond is forgotten (S7.4)
        self.floor: Optional[Position] = None
        self.last_id = 0  # FLOOR_RAISED
        self.entries_read = 0  # what the statistic becomes
        self.no_ack = False


def apply_local(keyspace: Keyspace, record: LocalRecord) -> None:
    """Applies a record, unless it is void."""
    stream = keyspace.get(record.key)
    group = None if stream is None else stream.groups.get(record.group)
    if stream is None or group is None or not any(dot in group.creates for dot in record.creates):
        return
    _apply(group, record)
    keyspace.touch_local(stream)
    if record.kind != DELIVERED or record.no_ack:
        keyspace.acknowledgeable[(record.key, record.group)] = None


def _apply(group: Group, record: LocalRecord) -> None:
    delivery = group.delivery
    now_ms = record.now_ms
    if record.kind == DELIVERED:
        union_by_region(delivery.given, record.spans)
        delivery.entries_read = record.entries_read
        consumer = delivery.consumer(record.consumer, now_ms)
        consumer.seen_ms = consumer.active_ms = now_ms
        for item in record.items:
            if record.no_ack:
                delivery.no_longer_dropped(item.region_id, item.counter)
            else:
                delivery.assign(
                    Pending(
                        item.entry_id, item.region_id, item.counter, record.consumer, now_ms, 1
                    ),
                    now_ms,
                )
    elif record.kind == REMOVED:
        for item in record.items:
            delivery.unassign(item.region_id, item.counter, item.entry_id)
    elif record.kind == CLAIMED:
        consumer = delivery.consumer(record.consumer, now_ms)
        consumer.seen_ms = consumer.active_ms = now_ms
        for item in record.items:
            pending = Pending(
                item.entry_id,
                item.region_id,
                item.counter,
                record.consumer,
                item.delivered_ms,
                item.deliveries,
            )
            delivery.assign(pending, now_ms)
    elif record.kind == CONSUMER:
        delivery.consumer(record.consumer, now_ms)
    elif record.kind == CONSUMER_DELETED:
        delivery.delete_consumer(record.consumer)
    elif record.kind == FLOOR_SET:
        assert record.floor is not None
        delivery.floor = record.floor
        delivery.raised_id = 0
        delivery.entries_read = record.entries_read
        delivery.cursors.clear()
        beyond = {item.region_id: item for item in record.items}
        for region_id, spans in delivery.given.items():
            item_ = beyond.get(region_id)
            spans.truncate(
                0 if item_ is None else item_.counter, 0 if item_ is None else item_.entry_id
            )
    elif record.kind == FLOOR_RAISED:
        delivery.raised_id = max(delivery.raised_id, record.last_id)
        delivery.cursors.clear()  # they would begin below the raised floor
    else:
        delivery.entries_read = record.entries_read


def put_record(out: bytearray, record: LocalRecord) -> None:
    out.append(record.kind)
    put_bytes(out, record.key)
    put_bytes(out, record.group)
    put_dots(out, record.creates)
    put_varint(out, record.now_ms)
    put_bytes(out, record.consumer)
    put_varint(out, len(record.items))
    for item in record.items:
        put_varint(out, item.region_id)
        put_varint(out, item.counter)
        put_id(out, item.entry_id)
        if record.kind == CLAIMED:
            put_varint(out, item.delivered_ms)
            put_varint(out, item.deliveries)
    put_spans_by_region(out, record.spans)
    if record.kind == FLOOR_SET:
        assert record.floor is not None
        put_position(out, record.floor)
    put_id(out, record.last_id)
    put_varint(out, record.entries_read)
    out.append(1 if record.no_ack else 0)


def read_record(reader: Reader) -> LocalRecord:
    kind = reader.varint()
    key = reader.bytes_()
    group = reader.bytes_()
    creates = reader.dots()
    record = LocalRecord(kind, key, group, creates, reader.varint())
    record.consumer = reader.bytes_()
    for _ in range(reader.count()):
        region_id = reader.varint()
        counter = reader.varint()
        entry_id = reader.id_()
        if kind == CLAIMED:
            delivered_ms = reader.varint()
            record.items.append(Item(region_id, counter, entry_id, delivered_ms, reader.varint()))
        else:
            record.items.append(Item(region_id, counter, entry_id))
    record.spans = read_spans_by_region(reader)
    if kind == FLOOR_SET:
        record.floor = read_position(reader)
    record.last_id = reader.id_()
    record.entries_read = reader.varint()
    record.no_ack = reader.varint() != 0
    return record


def read_records(body: bytes) -> list[LocalRecord]:
    """The records of one row."""
    reader = Reader(body)
    records: list[LocalRecord] = []
    while not reader.at_end():
        records.append(read_record(reader))
    return records
