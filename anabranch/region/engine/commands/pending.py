"""XACK and XPENDING, and batches of XACK: pending entries (S7.5).

Two entries can have the same ID. A command that takes an ID acts on every entry with that ID.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.crdt import ids
from anabranch.crdt.groups import Group
from anabranch.crdt.local import Removed
from anabranch.crdt.pel import Pel
from anabranch.crdt.pel_chunk import EntryRef
from anabranch.crdt.pel_cursor import PelCursor
from anabranch.crdt.pel_finder import PelFinder
from anabranch.crdt.stream import Stream
from anabranch.region.engine.batch import Packed, Places, Shape
from anabranch.region.engine.commands.arguments import (
    SYNTAX_ERROR,
    entry_id,
    id_halves,
    integer,
    no_group,
    range_end,
    range_start,
)
from anabranch.region.engine.commands.groups import head_of
from anabranch.region.engine.replies import NULL_ARRAY, CommandError, PendingReply, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import BATCH_MAX, Command, Kind

_LAST_ID: Final = Places(3)


def stream_and_group(
    state: EngineState, key: bytes, name: bytes
) -> tuple[Optional[Stream], Optional[Group]]:
    """The stream of a key and the group of that name on it, as far as they exist."""
    stream = state.existing(key)
    return stream, None if stream is None else stream.find_group(name)


def xack(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XACK key group id…: removes entries from the PELs; returns how many.

    The next sync round announces the contiguous runs that result (S8.1).
    """
    stream, group = stream_and_group(state, argv[1], argv[2])
    if stream is None or group is None:
        return 0
    entries = _with_ids(group.delivery.pel, argv)
    if entries:
        state.writer.record(Removed(head_of(state, stream, group), entries))
    return len(entries)


def _with_ids(pel: Pel, argv: list[bytes]) -> list[EntryRef]:
    """The pending entries that bear the IDs of an XACK, each once, in the order of their IDs."""
    finder = PelFinder(pel)
    for index in range(3, len(argv)):
        ms, seq = id_halves(argv[index])
        if not finder.is_above(ms, seq):
            break
        finder.find(ms, seq)
    else:
        return finder.found
    # Sorted, they are found and removed one after the other, and not each with a search.
    finder = PelFinder(pel)
    last = -1
    for one in sorted([entry_id(text) for text in argv[3:]]):
        if one != last:
            finder.find(one >> 64, one & ids.MAX_HALF)
        last = one
    return finder.found


def _last_id(argv: list[bytes]) -> Optional[Places]:
    """The place of the ID in an XACK of one ID."""
    return _LAST_ID if len(argv) == 4 else None


def xacks(
    state: EngineState, session: Session, argv: list[bytes], packed: Packed
) -> tuple[list[Reply], int]:
    """XACKs of one ID each, up to the first whose ID is not above those before it."""
    stream, group = stream_and_group(state, argv[1], argv[2])
    if stream is None or group is None:
        return [xack(state, session, argv)], 1
    finder = PelFinder(group.delivery.pel)
    counts: list[Reply] = []
    known = 0
    for text in (argv[3], *packed.words):
        try:
            ms, seq = ids.halves(text)
        except ids.IdError as error:
            if not counts:
                raise CommandError(str(error)) from None
            break
        if not finder.is_above(ms, seq):
            break
        finder.find(ms, seq)
        if counts and finder.found and not known:
            # Those before it change nothing, so they are answered even if a change is refused.
            return counts, len(counts)
        counts.append(len(finder.found) - known)
        known = len(finder.found)
    if finder.found:
        state.writer.record(Removed(head_of(state, stream, group), finder.found))
    return counts, len(counts)


def xpending(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XPENDING key group [[IDLE ms] start end count [consumer]]: a summary, or single entries."""
    index = 3
    idle_ms = 0
    # As in Redis, an argument that is left over is ignored.
    if len(argv) != 3 and not 6 <= len(argv) <= 9:
        raise CommandError(SYNTAX_ERROR)
    if len(argv) > 3 and argv[3].upper() == b"IDLE":
        idle_ms = integer(argv[4])
        index = 5
        if len(argv) < 8:
            raise CommandError(SYNTAX_ERROR)
    start = end = count = 0
    if len(argv) > 3:
        count = max(integer(argv[index + 2]), 0)
        start = range_start(argv[index])
        end = range_end(argv[index + 1])
    group = stream_and_group(state, argv[1], argv[2])[1]
    if group is None:
        raise no_group(argv[1], argv[2])
    if len(argv) == 3:
        return _summary(group)
    if not count:
        return []
    consumer = argv[index + 3] if len(argv) > index + 3 else None
    return _details(state, group.delivery.pel.ascending(start, end, consumer), count, idle_ms)


def _summary(group: Group) -> Reply:
    pel = group.delivery.pel
    bounds = pel.bounds()
    if bounds is None:
        return [0, None, None, NULL_ARRAY]
    consumers: list[Reply] = []
    for name in sorted(group.delivery.consumers):
        length = pel.length_of(name)
        if length:
            consumers.append([name, b"%d" % length])
    return [pel.length, ids.format_id(bounds[0]), ids.format_id(bounds[1]), consumers]


def _details(state: EngineState, entries: PelCursor, count: int, idle_ms: int) -> Reply:
    """[ID, consumer, idle ms, deliveries] of the first `count` entries idle at least `idle_ms`.

    Entries beyond `count` that have the last entry's ID are included (S7.1).
    """
    reply = PendingReply(state.clock.now_ms)
    latest_ms = reply.now_ms - idle_ms
    while entries.valid:
        room = count - reply.count
        if room <= 0 and not reply.ends_with(entries.id()):
            break
        found = entries.take(max(room, 1))
        if idle_ms <= 0:
            reply.add(found)
        elif latest_ms >= 0:
            for some in found.delivered_up_to(latest_ms):
                reply.add(some)
    return reply


# -- claiming


COMMANDS: Final = [
    Command(
        "xack",
        -4,
        "write fast",
        xack,
        "Acknowledges pending entries of a group.",
        key_flags="RW update",
        changes_local_state=True,
        keys=(1, 1, 1),
        reply="integer",
        since="5.0.0",
        syntax="key group id [id ...]",
        many=[Kind(Shape("acknowledgements", _last_id, BATCH_MAX), xacks)],
    ),
    Command(
        "xpending",
        -3,
        "readonly",
        xpending,
        "Returns the pending entries of a group in this region.",
        keys=(1, 1, 1),
        reply="array",
        since="5.0.0",
        syntax="key group [[IDLE min-idle-time] start end count [consumer]]",
    ),
]
