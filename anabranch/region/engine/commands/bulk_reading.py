"""CRDT.LOGS, CRDT.SPLIT and CRDT.NODES: reading whole streams, each region log by itself.

The order of a reader is: CRDT.LOGS tells how far each log reaches; CRDT.SPLIT cuts a range for
readers that share the work; CRDT.NODES hands out the entries of a range, encoded as they lie in
memory. Each call does a few milliseconds of work, so other clients of the region do not wait long.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.log_reading import (
    about_bytes,
    first_and_last,
    packed_range,
    removed_up_to,
    split,
)
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.stream import Stream
from anabranch.region.engine.commands.arguments import INT64_MAX, NO_SUCH_KEY, SYNTAX_ERROR, integer
from anabranch.region.engine.commands.replication import named_member
from anabranch.region.engine.replies import REPLY_LATER, CommandError, MapReply, Reply, shown
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import IS_REFUSED, Command

NODES_DEFAULT_BYTES: Final = 1 << 20
NODES_MAX_BYTES: Final = 4 << 20


def _stream(state: EngineState, key: bytes) -> Stream:
    """The stream of that key. Raises `CommandError` if it does not exist."""
    stream = state.existing(key)
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    return stream


def _log(state: EngineState, argv: list[bytes]) -> RegionLog:
    """The region log that `argv` names as key and region; an empty one if it holds nothing."""
    region_id = named_member(state, argv[2]).region_id
    stream = _stream(state, argv[1])
    return stream.find_log(region_id) or RegionLog(region_id, stream.limits)


def _range(argv: list[bytes]) -> tuple[int, int]:
    """The range of counters (after, end] in `argv`. Raises `CommandError`."""
    after, end = (
        integer(text, f"ERR '{shown(text)}' is not a counter: it must be a number from 0 on")
        for text in argv[3:5]
    )
    if after < 0 or end < after:
        raise CommandError(
            f"ERR the range ({after}, {end}] is not one: after must be 0 or more, "
            "and end not below after"
        )
    return after, end


def _size(text: bytes, what: str, maximum: int) -> int:
    """A size in entries or bytes. Raises `CommandError`."""
    size = integer(text)
    if not 1 <= size <= maximum:
        raise CommandError(f"ERR {what} must be between 1 and {maximum}")
    return size


def logs(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.LOGS key: the region logs of a stream, one map for each member, once they are on disk.

    `applied` is the counter up to which this region has applied the effects of that member: a
    reader that has read up to it has missed nothing (S2.4). `began` is the counter of the first add
    to the log since the key was last removed as a whole, 0 before it (S5.4).
    """
    stream = _stream(state, argv[1])
    reply: list[Reply] = []
    for region_id in sorted(state.members.by_id):
        region_log = stream.find_log(region_id)
        if region_log is None:
            region_log = RegionLog(region_id, stream.limits)
        first, last = first_and_last(region_log)
        reply.append(
            MapReply(
                [
                    b"region",
                    state.members.by_id[region_id].name.encode(),
                    b"region_id",
                    region_id,
                    b"applied",
                    state.keyspace.vector.get(region_id, 0),
                    b"first",
                    first,
                    b"last",
                    last,
                    b"entries",
                    region_log.length,
                    b"bytes",
                    about_bytes(region_log),
                    b"trimmed",
                    region_log.trimmed,
                    b"began",
                    region_log.began,
                ]
            )
        )
    state.answer_when_on_disk(session, reply)
    return REPLY_LATER


def split_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.SPLIT key region after end BYTES b | ENTRIES n: cuts a range of a region log.

    Returns [counter at which the part ends, entries, bytes] for each part. If the last part ends
    below `end`, the caller goes on from there.
    """
    after, end = _range(argv)
    unit = argv[5].upper()
    if unit not in (b"BYTES", b"ENTRIES"):
        raise CommandError(SYNTAX_ERROR)
    size = _size(argv[6], f"the {unit.decode().lower()} of a part", INT64_MAX)
    reply: list[Reply] = []
    for part in split(_log(state, argv), after, end, size, unit == b"ENTRIES"):
        counts: list[Reply] = [part.counter, part.entries, part.size]
        reply.append(counts)
    return reply


def nodes(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.NODES key region after end [BYTES n]: the packed nodes of a range of a region log.

    Returns [counter up to which the answer reaches, counter up to which entries were trimmed, or
    removed with the key, nodes]; `crdt/log_reading.py` describes their bytes. If the first counter
    is below `end`, the caller goes on from there. If the second is above `after`, it has missed
    entries (S5.4).
    """
    after, end = _range(argv)
    bytes_max = NODES_DEFAULT_BYTES
    if len(argv) > 5:
        if len(argv) != 7 or argv[5].upper() != b"BYTES":
            raise CommandError(SYNTAX_ERROR)
        bytes_max = _size(argv[6], "BYTES", NODES_MAX_BYTES)
    region_log = _log(state, argv)
    reached, packed = packed_range(region_log, after, end, bytes_max)
    applied = state.keyspace.vector.get(region_log.region_id, 0)
    reply: list[Reply] = [reached, removed_up_to(region_log, after, applied), packed]
    return reply


COMMANDS: Final = [
    Command(
        "crdt.logs",
        2,
        "readonly",
        logs,
        "Returns the region logs of a stream: how far each is applied here, and its size.",
        keys=(1, 1, 1),
        reply="array",
        group="crdt",
        syntax="key",
        in_multi=IS_REFUSED,
    ),
    Command(
        "crdt.split",
        7,
        "readonly",
        split_,
        "Cuts a range of a region log into parts of about equal size.",
        keys=(1, 1, 1),
        reply="array",
        group="crdt",
        syntax="key region after end BYTES bytes | ENTRIES entries",
    ),
    Command(
        "crdt.nodes",
        -5,
        "readonly",
        nodes,
        "Returns the packed nodes of a range of a region log, as bytes.",
        keys=(1, 1, 1),
        reply="array",
        group="crdt",
        syntax="key region after end [BYTES bytes]",
    ),
]
