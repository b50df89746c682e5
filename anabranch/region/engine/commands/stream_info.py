"""XINFO: streams, groups and consumers (S7.6). Fields stand in Redis's order."""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import ids, merge, undelivered
from anabranch.crdt.groups import Group
from anabranch.crdt.pel_cursor import PelCursor
from anabranch.crdt.pel_slices import Pending
from anabranch.crdt.slices import Entry
from anabranch.crdt.stream import Stream
from anabranch.region.engine.commands.arguments import (
    NO_SUCH_KEY,
    container,
    entry_reply,
    help_reply,
    integer,
    no_group_of_key,
    option_error,
)
from anabranch.region.engine.idempotency import configuration
from anabranch.region.engine.replies import CommandError, EntriesReply, MapReply, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command


def _stream(state: EngineState, key: bytes) -> Stream:
    stream = state.existing(key)
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    return stream


def _entry(entry: Optional[Entry]) -> Reply:
    return None if entry is None else entry_reply(entry)


def _head(state: EngineState, stream: Stream) -> list[Reply]:
    first = merge.first_entry(stream.logs)
    nodes = sum(len(log.node_map.nodes) for log in stream.logs.values())
    duration_s, maxsize = configuration(state, stream)
    pairs = stream.read_rare().pairs
    return [
        b"length",
        stream.length(),
        b"radix-tree-keys",
        nodes,
        b"radix-tree-nodes",
        nodes + 1,
        b"last-generated-id",
        ids.format_id(stream.header.last_id()),
        b"max-deleted-entry-id",
        ids.format_id(stream.max_deleted_id),
        b"entries-added",
        stream.entries_added,
        b"recorded-first-entry-id",
        ids.format_id(0 if first is None else first.entry_id),
        b"idmp-duration",
        duration_s,
        b"idmp-maxsize",
        maxsize,
        b"pids-tracked",
        pairs.count_answering_producers(),
        b"iids-tracked",
        pairs.count_answering(),
        b"iids-added",
        stream.iids_added,
        b"iids-duplicates",
        stream.iids_duplicates,
    ]


def stream_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XINFO STREAM key [FULL [COUNT n]]: one stream; with FULL its entries and groups as well."""
    stream = _stream(state, argv[2])
    if len(argv) == 3:
        tail: list[Reply] = [
            b"groups",
            len(stream.group_names()),
            b"first-entry",
            _entry(merge.first_entry(stream.logs)),
            b"last-entry",
            _entry(merge.last_entry(stream.logs)),
        ]
        return MapReply(_head(state, stream) + tail)
    if (
        argv[3].upper() != b"FULL"
        or len(argv) not in (4, 6)
        or (len(argv) == 6 and argv[4].upper() != b"COUNT")
    ):
        raise option_error(argv)
    count = integer(argv[5]) if len(argv) == 6 else 10
    if count < 0:
        count = 10
    entries = EntriesReply(merge.forward(stream.logs, 0, ids.MAX_ID, count or -1))
    groups: list[Reply] = [
        _full_group(stream, group, count) for _, group in sorted(stream.read_rare().groups.items())
    ]
    return MapReply([*_head(state, stream), b"entries", entries, b"groups", groups])


def _pending(pending: Pending, with_consumer: bool) -> Reply:
    reply: list[Reply] = [ids.format_id(pending.entry_id)]
    if with_consumer:
        reply.append(pending.consumer)
    return [*reply, pending.delivered_ms, pending.deliveries]


def _first_pending(entries: PelCursor, count: int, with_consumer: bool) -> Reply:
    reply: list[Reply] = []
    for pending in entries:
        if count and len(reply) >= count:
            break
        reply.append(_pending(pending, with_consumer))
    return reply


def _position(stream: Stream, group: Group) -> list[Reply]:
    return [
        b"last-delivered-id",
        ids.format_id(undelivered.last_delivered_id(stream, group)),
        b"entries-read",
        group.delivery.entries_read or None,
        b"lag",
        undelivered.lag(stream, group),
    ]


def _full_group(stream: Stream, group: Group, count: int) -> Reply:
    delivery = group.delivery
    consumers: list[Reply] = []
    for name in sorted(delivery.consumers):
        consumer = delivery.consumers[name]
        flat: list[Reply] = [
            b"name",
            name,
            b"seen-time",
            consumer.seen_ms,
            b"active-time",
            consumer.active_ms,
            b"pel-count",
            delivery.pel.length_of(name),
            b"pending",
            _first_pending(delivery.pel.ascending(0, ids.MAX_ID, name), count, False),
        ]
        consumers.append(MapReply(flat))
    return MapReply(
        [
            b"name",
            group.name,
            *_position(stream, group),
            b"pel-count",
            delivery.pel.length,
            b"pending",
            _first_pending(delivery.pel.ascending(), count, True),
            b"consumers",
            consumers,
        ]
    )


def groups(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XINFO GROUPS key: the live groups of a stream, by name."""
    stream = _stream(state, argv[2])
    reply: list[Reply] = []
    for name, group in sorted(stream.read_rare().groups.items()):
        reply.append(
            MapReply(
                [
                    b"name",
                    name,
                    b"consumers",
                    len(group.delivery.consumers),
                    b"pending",
                    group.delivery.pel.length,
                    *_position(stream, group),
                ]
            )
        )
    return reply


def consumers(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XINFO CONSUMERS key group: the group's consumers in this region, by name."""
    stream = _stream(state, argv[2])
    group = stream.find_group(argv[3])
    if group is None:
        raise no_group_of_key(argv[2], argv[3])
    reply: list[Reply] = []
    for name in sorted(group.delivery.consumers):
        consumer = group.delivery.consumers[name]
        inactive = -1 if consumer.active_ms < 0 else max(state.clock.now_ms - consumer.active_ms, 0)
        idle = max(state.clock.now_ms - consumer.seen_ms, 0)
        reply.append(
            MapReply(
                [
                    b"name",
                    name,
                    b"pending",
                    group.delivery.pel.length_of(name),
                    b"idle",
                    idle,
                    b"inactive",
                    inactive,
                ]
            )
        )
    return reply


def help_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XINFO HELP: describes the subcommands."""
    return help_reply(
        "XINFO",
        [
            "CONSUMERS <key> <groupname>",
            "    Show consumers of <groupname>.",
            "GROUPS <key>",
            "    Show the stream consumer groups.",
            "STREAM <key> [FULL [COUNT <count>]",
            "    Show information about the stream.",
        ],
    )


COMMANDS: Final = [
    Command(
        "xinfo",
        -2,
        "",
        container,
        "A container for stream introspection.",
        since="5.0.0",
        subcommands=[
            Command(
                "xinfo|stream",
                -3,
                "readonly",
                stream_,
                "Describes a stream.",
                keys=(2, 2, 1),
                reply="map",
                since="5.0.0",
                syntax="key [FULL [COUNT count]]",
            ),
            Command(
                "xinfo|groups",
                3,
                "readonly",
                groups,
                "Describes a stream's groups.",
                keys=(2, 2, 1),
                reply="array",
                since="5.0.0",
                syntax="key",
            ),
            Command(
                "xinfo|consumers",
                4,
                "readonly",
                consumers,
                "Describes a group's consumers in this region.",
                keys=(2, 2, 1),
                reply="array",
                since="5.0.0",
                syntax="key group",
            ),
            Command(
                "xinfo|help",
                2,
                "loading stale",
                help_,
                "Describes the subcommands of XINFO.",
                reply="array",
                since="5.0.0",
            ),
        ],
    )
]
