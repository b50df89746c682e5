"""CRDT.GROUPS: what this region knows of a key's groups, replicated and local, in counters.

XINFO and XPENDING show groups as a client sees them. This command shows the places in each region
log on which the rules rest: starts, floors, given and acked spans, and PELs (S6 to S8). It reads
only memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from anabranch.crdt import ids, undelivered
from anabranch.crdt.groups import Group
from anabranch.crdt.spans import Spans, SpansByRegion
from anabranch.crdt.stream import Stream
from anabranch.region.engine.commands.arguments import SYNTAX_ERROR, integer, range_end, range_start
from anabranch.region.engine.explain import tombstones
from anabranch.region.engine.replies import CommandError, MapReply, Reply, flat_spans, place_reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command

# Pending entries of a group that a reply holds without COUNT, and at most.
_PENDING: Final = 1000
_PENDING_MAX: Final = 100_000


def groups(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.GROUPS key [start end] [COUNT n]: the groups of a key and its group tombstones.

    `start` and `end` bound the IDs of the pending entries in the reply, which holds at most n of
    each group, the oldest ones.
    """
    words = argv[2:]
    count = _PENDING
    if len(words) >= 2 and words[-2].upper() == b"COUNT":
        count = integer(words[-1])
        if not 0 <= count <= _PENDING_MAX:
            raise CommandError(f"ERR COUNT must be between 0 and {_PENDING_MAX}")
        words = words[:-2]
    if len(words) not in (0, 2):
        raise CommandError(SYNTAX_ERROR)
    start = range_start(words[0]) if words else 0
    end = range_end(words[1]) if words else ids.MAX_ID
    stream = state.existing(argv[1])
    found: list[Reply] = []
    if stream is not None:
        for _, group in sorted(stream.read_rare().groups.items()):
            found.append(_group(stream, group, start, end, count))
    return MapReply(
        [
            b"key",
            argv[1],
            b"groups",
            found,
            b"group-tombstones",
            tombstones(
                state, state.keyspace.get(argv[1]) or Stream(argv[1], state.keyspace.limits)
            ),
        ]
    )


def _group(stream: Stream, group: Group, start: int, end: int, count: int) -> Reply:
    delivery = group.delivery
    creates: list[Reply] = [
        [[*dot], place_reply(group.creates[dot].start)] for dot in sorted(group.creates)
    ]
    acked: SpansByRegion = {
        region_id: group.acked(region_id) for region_id in group.acked_regions()
    }
    floors: list[Reply] = []
    for region_id in sorted(stream.logs):
        floors += [region_id, group.floor_counter(stream.logs[region_id])]
    dropped: list[Reply] = [
        [region_id, counter]
        for region_id in sorted(delivery.dropped)
        for counter in sorted(delivery.dropped[region_id])[:count]
    ]
    pending: list[Reply] = []
    for one in delivery.pel.ascending(start, end):
        if len(pending) >= count:
            break
        entry: list[Reply] = [one.region_id, one.counter, ids.format_id(one.entry_id)]
        pending.append([*entry, one.consumer, one.delivered_ms, one.deliveries])
    pending_spans = {
        region_id: _ranges(part.counters()) for region_id, part in delivery.pel.parts.items()
    }
    dropped_spans = {region_id: _ranges(some) for region_id, some in delivery.dropped.items()}
    consumers: list[Reply] = [
        [name, delivery.pel.length_of(name)] for name in sorted(delivery.consumers)
    ]
    facts: list[Reply] = [b"name", group.name, b"creates", creates]
    facts += [b"floor", None if delivery.floor is None else place_reply(delivery.floor)]
    facts += [b"raised-to", ids.format_id(delivery.raised_id) if delivery.raised_id else None]
    facts += [b"floor-counters", floors, b"given", flat_spans(delivery.given)]
    facts += [b"acked", flat_spans(acked), b"dropped", dropped]
    facts += [b"dropped-spans", flat_spans(dropped_spans), b"consumers", consumers]
    facts += [b"pending-count", delivery.pel.length, b"pending", pending]
    facts += [b"pending-spans", flat_spans(pending_spans)]
    facts += [b"last-delivered-id", ids.format_id(undelivered.last_delivered_id(stream, group))]
    facts += [b"lag", undelivered.lag(stream, group)]
    return MapReply(facts)


def _ranges(counters: Iterable[int]) -> Spans:
    """Counters as spans that hold these and no others."""
    spans = Spans()
    for counter in sorted(counters):
        spans.add(counter - 1, counter, 0)
    return spans


COMMANDS: Final = [
    Command(
        "crdt.groups",
        -2,
        "readonly",
        groups,
        "Returns the groups of a stream as this region has them, in counters of region logs.",
        keys=(1, 1, 1),
        reply="map",
        group="crdt",
        syntax="key [start end] [COUNT n]",
    )
]
