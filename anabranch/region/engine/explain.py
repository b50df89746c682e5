"""The state of a key in the reply of `CRDT.EXPLAIN`: why entries and groups are present or not.

The history of the key, from the log on disk, follows it in the reply (`history`).
"""

from __future__ import annotations

from anabranch.crdt import ids, merge
from anabranch.crdt.stream import NEVER, Stream
from anabranch.region.engine.replies import MapReply, Reply, flat_spans, flat_vector, place_reply
from anabranch.region.engine.state import EngineState


def _dot(region_id: int, counter: int) -> list[Reply]:
    return [region_id, counter]


def explain(state: EngineState, key: bytes, wanted: int) -> list[Reply]:
    """The state of a key as flat facts; `wanted` is an entry ID or -1."""
    stream = state.keyspace.get(key) or Stream(key, state.keyspace.limits)
    winner = stream.winning_deadline()
    rare = stream.read_rare()
    facts: list[Reply] = [
        b"key",
        key,
        b"exists",
        int(stream.exists_at(state.clock.now_ms)),
        b"hidden",
        int(stream.is_hidden(state.clock.now_ms)),
        b"length",
        stream.length(),
        b"last-id",
        ids.format_id(stream.header.last_id()),
        b"region",
        state.members.name.encode(),
        b"region_id",
        state.members.region_id,
        b"now-ms",
        state.clock.now_ms,
        b"vector",
        flat_vector(state.keyspace.vector),
        b"header",
        [
            [region_id, counter, ids.format_id(entry_id)]
            for region_id, (counter, entry_id) in sorted(stream.header.heads.items())
        ],
        b"logs",
        [[region_id, log.length] for region_id, log in sorted(stream.logs.items())],
        b"deadlines",
        [
            [
                _dot(*dot),
                b"never" if at_ms == NEVER else at_ms,
                int(winner is not None and winner[0] == dot),
            ]
            for dot, at_ms in sorted(rare.deadlines.items())
        ],
        b"configurations",
        [
            [_dot(*dot), duration_s, maxsize]
            for dot, (duration_s, maxsize) in sorted(rare.configurations.items())
        ],
        b"groups",
        _groups(stream),
        b"group-tombstones",
        tombstones(state, stream),
    ]
    if wanted >= 0:
        facts += [b"id", ids.format_id(wanted), b"entries", _entries(stream, wanted)]
    return facts


def _groups(stream: Stream) -> list[Reply]:
    reply: list[Reply] = []
    for name, group in sorted(stream.read_rare().groups.items()):
        for dot, create in sorted(group.creates.items()):
            start, acked = place_reply(create.start), flat_spans(create.acked)
            reply.append(
                MapReply([b"name", name, b"create", _dot(*dot), b"start", start, b"acked", acked])
            )
    return reply


def tombstones(state: EngineState, stream: Stream) -> list[Reply]:
    """The group tombstones of a key: [group, vector], `*` for those of all its groups (S6.1)."""
    rare = stream.read_rare()
    reply: list[Reply] = [
        [name, flat_vector(tombstone)] for name, tombstone in sorted(rare.tombstones.items())
    ]
    if rare.tombstone_of_all:
        reply.append([b"*", flat_vector(rare.tombstone_of_all)])
    if state.keyspace.flush_tombstone:
        reply.append([b"* (FLUSHALL)", flat_vector(state.keyspace.flush_tombstone)])
    return reply


def _entries(stream: Stream, wanted: int) -> list[Reply]:
    """The present entries with the ID `wanted`: their dots, and their state in each group."""
    reply: list[Reply] = []
    for region_id, counter in merge.with_id(stream.logs, wanted):
        groups: list[Reply] = []
        for name, group in sorted(stream.read_rare().groups.items()):
            given = group.delivery.given.get(region_id)
            pending = group.delivery.pel.get(region_id, counter, wanted)
            groups.append(
                MapReply(
                    [
                        b"name",
                        name,
                        b"above-floor",
                        int(group.is_above_floor(region_id, counter, wanted)),
                        b"given",
                        int(given is not None and given.contains(counter)),
                        b"pending-for",
                        None if pending is None else pending.consumer,
                        b"dropped",
                        int(group.delivery.is_dropped(region_id, counter)),
                        b"acked",
                        int(group.acked(region_id).contains(counter)),
                    ]
                )
            )
        reply.append(MapReply([b"region_id", region_id, b"counter", counter, b"groups", groups]))
    return reply
