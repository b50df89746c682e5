"""XREADGROUP (S7.3 to S7.5)."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import ids, undelivered
from anabranch.crdt.groups import Group
from anabranch.crdt.local import CLAIMED, CONSUMER, DELIVERED, Item, LocalRecord
from anabranch.crdt.pel import Pending
from anabranch.crdt.stream import Stream
from anabranch.region.engine.commands.arguments import entry_id, entry_reply, no_group
from anabranch.region.engine.commands.groups import record_for
from anabranch.region.engine.commands.reading import ReadRequest, keyed_reply, parse_read
from anabranch.region.engine.core import Core
from anabranch.region.engine.replies import NULL_ARRAY, CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.table import Command

_MEANINGLESS: Final = (
    "ERR The {0} ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, "
    "or use the > ID to get new messages. The {0} ID would just return an empty result set."
)


def _found(core: Core, request: ReadRequest) -> tuple[list[tuple[Stream, Group]], list[int]]:
    """Stream and group of every key, and the ID to read above (-1 for `>`); what is wrong with the first key that has something wrong."""
    found: list[tuple[Stream, Group]] = []
    above: list[int] = []
    for key, text in zip(request.keys, request.ids, strict=True):
        stream = core.existing(key)
        group: Optional[Group] = None if stream is None else stream.groups.get(request.group)
        if stream is None or group is None:
            raise no_group(key, request.group, " in XREADGROUP with GROUP option")
        if text in (b"$", b"+"):
            raise CommandError(_MEANINGLESS.format(text.decode()))
        found.append((stream, group))
        above.append(-1 if text == b">" else entry_id(text))
    return found, above


def xreadgroup(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """XREADGROUP: with `>` what is not given yet, with an ID what is pending for the caller."""
    request = parse_read(argv, True)
    found, above = _found(core, request)
    for stream, group in found:
        _see_consumer(core, stream, group, request.consumer)
    results: list[tuple[bytes, Reply]] = []
    for (stream, group), start in zip(found, above, strict=True):
        if start >= 0:
            results.append((stream.key, _history(core, stream, group, request, start)))
            continue
        entries = _deliver(core, stream, group, request)
        if entries:
            results.append((stream.key, entries))
    if results:
        return keyed_reply(session, results)
    if request.block_ms >= 0 and not core.is_executing:
        return core.block(session, request.keys, argv, request.block_ms)
    return NULL_ARRAY


def _see_consumer(core: Core, stream: Stream, group: Group, name: bytes) -> None:
    """The consumer is made at its first read; when it was seen is a volatile statistic."""
    consumer = group.delivery.consumers.get(name)
    if consumer is None:
        record = record_for(core, CONSUMER, stream, group)
        record.consumer = name
        core.record(record)
    else:
        consumer.seen_ms = core.clock_ms


def _deliver(core: Core, stream: Stream, group: Group, request: ReadRequest) -> list[Reply]:
    """Hands out what is not given yet (S7.3): one record for the given spans and the PEL entries (S13.1)."""
    handout = undelivered.take(stream, group, request.count)
    if not handout.entries:
        return []
    record = record_for(core, DELIVERED, stream, group)
    record.consumer = request.consumer
    record.spans = handout.spans
    record.no_ack = request.no_ack
    record.entries_read = group.delivery.entries_read + len(handout.entries)
    record.items = [
        Item(entry.region_id, entry.counter, entry.entry_id) for entry in handout.entries
    ]
    core.record(record)
    return [entry_reply(entry) for entry in handout.entries]


def fields_of(stream: Stream, pending: Pending) -> Optional[list[bytes]]:
    """The fields of a pending entry; None when it is no longer in the stream."""
    log = stream.logs.get(pending.region_id)
    return None if log is None else log.fields_at(pending.counter)


def _history(core: Core, stream: Stream, group: Group, request: ReadRequest, above: int) -> Reply:
    """What is pending for the caller above an ID: the merge of its PELs (S7.5); each counts as delivered once more."""
    consumer = group.delivery.consumers[request.consumer]
    chosen: list[Pending] = []
    if above < ids.MAX_ID:
        for pending in consumer.pel.ascending(above + 1, ids.MAX_ID):
            if (
                request.count
                and len(chosen) >= request.count
                and chosen[-1].entry_id != pending.entry_id
            ):
                break
            chosen.append(pending)
    reply: list[Reply] = []
    record: LocalRecord = record_for(core, CLAIMED, stream, group)
    record.consumer = request.consumer
    for pending in chosen:
        fields = fields_of(stream, pending)
        if fields is None:
            reply.append([ids.format_id(pending.entry_id), NULL_ARRAY])
            continue
        flat: list[Reply] = list(fields)
        reply.append([ids.format_id(pending.entry_id), flat])
        record.items.append(
            Item(
                pending.region_id,
                pending.counter,
                pending.entry_id,
                core.clock_ms,
                pending.deliveries + 1,
            )
        )
    if record.items:
        core.record(record)
    return reply


COMMANDS: Final = [
    Command(
        "xreadgroup", -7, "write blocking movablekeys", xreadgroup, "Entries for a consumer of a group: new ones (>) or its pending ones.",
        reply="map or null", since="5.0.0",
        syntax="GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id | > [id | > ...]",
    )
]  # fmt: skip
