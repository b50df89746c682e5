"""XINFO, CRDT.LOG and CRDT.NODES: what a region tells of a stream.

Free: figures of the radix tree and of tracked pairs; figures and times that a crash may lose
(S3.4), where a client set them or a process has ended since; the nodes of CRDT.NODES, and whether
a trim is still known that the key has outlived.
"""

from __future__ import annotations

from anabranch.crdt.ids import format_id
from anabranch.region.engine.replies import Reply
from anabranch.sim.twin.arguments import MAX_ID, NO_KEY, high_bound, integer, low_bound, refuse
from anabranch.sim.twin.claiming import last_delivered
from anabranch.sim.twin.core import TwinCore
from anabranch.sim.twin.replies import ANY, Expected, entry_reply
from anabranch.sim.twin.session import Session
from anabranch.sim.twin.state import Group, Key


def xinfo(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """XINFO STREAM, GROUPS and CONSUMERS."""
    sub = argv[1].upper()
    key = twin.state.visible(argv[2])
    if key is None:
        refuse(NO_KEY)
    if sub == b"STREAM":
        return _full(twin, key, argv) if len(argv) > 3 else _stream(twin, key)
    if sub == b"GROUPS":
        return [_group_row(twin, key, name) for name in sorted(key.groups)]
    if argv[3] not in key.groups:
        refuse(
            f"NOGROUP No such consumer group '{argv[3].decode()}' for key name '{argv[2].decode()}'"
        )
    local = key.groups[argv[3]].local
    now_ms = twin.state.clock_ms
    rows: list[Reply] = []
    for name in sorted(local.consumers):
        one = local.consumers[name]
        idle: Reply = now_ms - one.seen_ms if one.is_known else ANY
        inactive = now_ms - one.active_ms if one.active_ms >= 0 else -1
        pending = len(local.pending(name))
        unused: Reply = inactive if one.is_known else ANY
        rows.append([*(b"name", name, b"pending", pending), *(b"idle", idle, b"inactive", unused)])
    return rows


def _head(twin: TwinCore, key: Key) -> list[Reply]:
    is_free = key.name in twin.hand_set
    first = format_id(key.order.keys()[0][0]) if key.order else b"0-0"
    duration_ms, maxsize = twin.state.idempotency(key)
    return [
        *(b"length", len(key.entries)),
        *(b"radix-tree-keys", ANY, b"radix-tree-nodes", ANY),
        *(b"last-generated-id", format_id(key.last_id())),
        *(b"max-deleted-entry-id", ANY if is_free else format_id(key.max_deleted)),
        *(b"entries-added", ANY if is_free else key.added),
        *(b"recorded-first-entry-id", first),
        *(b"idmp-duration", duration_ms // 1000, b"idmp-maxsize", maxsize),
        *(b"pids-tracked", ANY, b"iids-tracked", ANY, b"iids-added", ANY),
        *(b"iids-duplicates", ANY),
    ]


def _stream(twin: TwinCore, key: Key) -> Reply:
    entries = key.between(0, MAX_ID)
    return [
        *_head(twin, key),
        *(b"groups", len(key.groups)),
        *(b"first-entry", entry_reply(entries[0]) if entries else None),
        *(b"last-entry", entry_reply(entries[-1]) if entries else None),
    ]


def _lag(key: Key, group: Group) -> int:
    """How many entries `>` would still deliver (S7.6)."""
    return sum(group.is_undelivered(entry.dot, entry.entry_id) for entry in key.entries.values())


def _entries_read(twin: TwinCore, key: Key, name: bytes) -> Reply:
    is_free = (key.name, name) in twin.hand_set
    return ANY if is_free else key.groups[name].local.entries_read


def _group_row(twin: TwinCore, key: Key, name: bytes) -> Reply:
    group = key.groups[name]
    last_id, lag = last_delivered(key, name), _lag(key, group)
    if last_id and lag:
        twin.state.count("S7.6")
    return [
        *(b"name", name, b"consumers", len(group.local.consumers)),
        *(b"pending", len(group.local.pel)),
        *(b"last-delivered-id", format_id(last_id)),
        *(b"entries-read", _entries_read(twin, key, name), b"lag", lag),
    ]


def _full(twin: TwinCore, key: Key, argv: tuple[bytes, ...]) -> Reply:
    count = integer(argv[5]) if len(argv) > 5 else 10
    count = count if count > 0 else 1 << 60
    entries = key.between(0, MAX_ID)
    end = min(count, len(entries))
    while 0 < end < len(entries) and entries[end].entry_id == entries[end - 1].entry_id:
        end += 1
    groups: list[Reply] = []
    for name in sorted(key.groups):
        groups.append(_full_group(twin, key, name, count))
    rows: list[Reply] = [entry_reply(entry) for entry in entries[:end]]
    return [*_head(twin, key), b"entries", rows, b"groups", groups]


def _full_group(twin: TwinCore, key: Key, name: bytes, count: int) -> Reply:
    group = key.groups[name]
    local = group.local
    pel: list[Reply] = [
        [format_id(one.entry_id), one.consumer, one.delivered_ms, one.deliveries]
        for one in local.pending()[:count]
    ]
    consumers: list[Reply] = []
    for consumer in sorted(local.consumers):
        one = local.consumers[consumer]
        own = local.pending(consumer)
        rows: list[Reply] = [
            [format_id(row.entry_id), row.delivered_ms, row.deliveries] for row in own[:count]
        ]
        times = (one.seen_ms, one.active_ms) if one.is_known else (ANY, ANY)
        consumers.append(
            [
                *(b"name", consumer, b"seen-time", times[0], b"active-time", times[1]),
                *(b"pel-count", len(own), b"pending", rows),
            ]
        )
    return [
        *(b"name", name, b"last-delivered-id", format_id(last_delivered(key, name))),
        *(b"entries-read", _entries_read(twin, key, name), b"lag", _lag(key, group)),
        *(b"pel-count", len(local.pel), b"pending", pel),
        *(b"consumers", consumers),
    ]


def crdt_log(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """CRDT.LOG: entries of one region log, with their counters."""
    low, high = low_bound(argv[3]), high_bound(argv[4])
    count = integer(argv[6])
    key = twin.state.visible(argv[1])
    rows: list[Reply] = []
    for entry in key.between(low, high) if key is not None else []:
        if entry.dot[0] == int(argv[2]) and len(rows) < count:
            fields: list[Reply] = list(entry.fields)
            rows.append(
                [b"id", format_id(entry.entry_id), b"counter", entry.dot[1], b"fields", fields]
            )
    return rows


def crdt_nodes(twin: TwinCore, session: Session, argv: tuple[bytes, ...]) -> object:
    """CRDT.NODES: nodes of a region log, and up to which counter entries of it were trimmed.

    A reader that comes from above 0 is also told of what was removed with the key (S5.4).
    """
    key = twin.state.visible(argv[1])
    if key is None:
        refuse(NO_KEY)
    region = int(argv[2])
    least, removed = key.trimmed.get(region, 0), key.ever_trimmed.get(region, 0)
    most, after = max(removed, key.removed_most.get(region, 0)), int(argv[3])
    # A reader at the mark of a trim may have begun there, if the log has had no entry since.
    if after and (after != least or key.logs.get(region)):
        # The counter at which it is told of a removed log is free.
        least = max(least, after + 1) if removed > after else least
        most = max(most, twin.state.vector.get(region, 0))
    return Expected(
        f"trimmed from {least} to {most}",
        lambda reply: (
            isinstance(reply, list) and isinstance(reply[1], int) and least <= reply[1] <= most
        ),
    )
