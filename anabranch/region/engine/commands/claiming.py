"""XCLAIM and XAUTOCLAIM: pending entries that change their consumer (S7.5)."""

from __future__ import annotations

from typing import Final

from anabranch.crdt import ids, merge
from anabranch.crdt.groups import Group
from anabranch.crdt.local import Claim, Claimed, ConsumerMade, FloorRaised, Removed, entry_of
from anabranch.crdt.pel_chunk import EntryRef
from anabranch.crdt.pel_slices import Pending
from anabranch.crdt.stream import Stream
from anabranch.region.engine.commands.arguments import (
    INT64_MAX,
    SYNTAX_ERROR,
    entry_id,
    id_and_fields,
    integer,
    no_group,
    range_start,
)
from anabranch.region.engine.commands.groups import head_of
from anabranch.region.engine.commands.pending import stream_and_group
from anabranch.region.engine.replies import CommandError, Reply, shown
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command

# The `delivered_ms` of an entry that XCLAIM FORCE makes pending; it meets any min-idle-time.
NEVER_DELIVERED: Final = -1
# The most entries that one XAUTOCLAIM claims. Its reply says where to go on.
AUTOCLAIM_MAX: Final = 5_000


class ClaimRequest:
    """The options of an XCLAIM; -1: not given."""

    def __init__(self) -> None:
        self.delivered_ms = -1
        self.retry_count = -1
        self.force = False
        self.just_id = False
        self.last_id = -1


def _parse_claim(state: EngineState, argv: list[bytes]) -> tuple[list[int], ClaimRequest]:
    """Parses IDs up to the first argument that is no ID, then options."""
    wanted: list[int] = []
    index = 5
    while index < len(argv):
        try:
            wanted.append(ids.parse(argv[index], 0))
        except ids.IdError:
            break
        index += 1
    request = ClaimRequest()
    while index < len(argv):
        option = argv[index].upper()
        has_more = index + 1 < len(argv)
        if option == b"FORCE":
            request.force = True
        elif option == b"JUSTID":
            request.just_id = True
        elif option == b"IDLE" and has_more:
            index += 1
            request.delivered_ms = state.clock.now_ms - integer(
                argv[index], "ERR Invalid IDLE option argument for XCLAIM"
            )
        elif option == b"TIME" and has_more:
            index += 1
            request.delivered_ms = integer(
                argv[index], "ERR Invalid TIME option argument for XCLAIM"
            )
        elif option == b"RETRYCOUNT" and has_more:
            index += 1
            request.retry_count = integer(
                argv[index], "ERR Invalid RETRYCOUNT option argument for XCLAIM"
            )
        elif option == b"LASTID" and has_more:
            index += 1
            request.last_id = entry_id(argv[index])
        else:
            raise CommandError(f"ERR Unrecognized XCLAIM option '{shown(argv[index])}'")
        index += 1
    return wanted, request


def xclaim(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XCLAIM key group consumer min-idle-time id… [options]: moves pending entries to the consumer.

    LASTID only raises the floor, and FORCE does not make an entry given (S7.4).
    """
    stream, group = stream_and_group(state, argv[1], argv[2])
    if stream is None or group is None:
        raise no_group(argv[1], argv[2])
    min_idle_ms = max(integer(argv[4], "ERR Invalid min-idle-time argument for XCLAIM"), 0)
    wanted, request = _parse_claim(state, argv)
    if request.delivered_ms < 0 or request.delivered_ms > state.clock.now_ms:
        request.delivered_ms = state.clock.now_ms
    if request.last_id > 0:
        raise_floor(state, stream, group, request.last_id)
    claiming = Claiming(stream, request.just_id)
    replies: dict[int, list[Reply]] = {}
    # In the order of the IDs each is found after the one before; the reply has the order given.
    for one in sorted(set(wanted)):
        before = len(claiming.reply)
        for pending in _claimable(stream, group, one, request.force):
            is_idle = (
                pending.delivered_ms == NEVER_DELIVERED
                or state.clock.now_ms - pending.delivered_ms >= min_idle_ms
            )
            deliveries = pending.deliveries + (0 if request.just_id else 1)
            if request.retry_count >= 0:
                deliveries = request.retry_count
            claiming.take(pending, is_idle, request.delivered_ms, deliveries)
        replies[one] = claiming.reply[before:]
    claiming.record(state, group, argv[3])
    return [reply for one in dict.fromkeys(wanted) for reply in replies[one]]


def raise_floor(state: EngineState, stream: Stream, group: Group, last_id: int) -> None:
    """XCLAIM LASTID: raises the group's floor to at least `last_id` (S7.4)."""
    if last_id > max(group.delivery.raised_id, 0):
        state.writer.record(FloorRaised(head_of(state, stream, group), last_id))


def _claimable(stream: Stream, group: Group, one: int, force: bool) -> list[Pending]:
    """The pending entries with the ID `one`.

    With `force`, entries with that ID that are in the stream and not pending are included, as if
    delivered once, to no consumer. All are in the order of the stream, by region_id.
    """
    pel = group.delivery.pel
    found = [pel.pending_of(entry) for entry in pel.with_id(one)]
    if force:
        known = {(pending.region_id, pending.counter) for pending in found}
        for dot in merge.with_id(stream.logs, one):
            if dot not in known:
                found.append(Pending(one, dot[0], dot[1], b"", NEVER_DELIVERED, 1))
        found.sort(key=lambda pending: (pending.region_id, pending.counter))
    return found


class Claiming:
    """The entries that one command claims, and those that it finds gone from the stream."""

    def __init__(self, stream: Stream, just_id: bool) -> None:
        self._stream: Final = stream
        self._just_id: Final = just_id
        self._finder: Final = merge.Finder(stream.logs)
        self.claims: list[Claim] = []
        self.gone: list[EntryRef] = []
        # The claimed entries, or their IDs with JUSTID.
        self.reply: list[Reply] = []

    def take(self, pending: Pending, is_idle: bool, delivered_ms: int, deliveries: int) -> None:
        """Claims an entry if it is in the stream and idle for long enough."""
        entry = entry_of(pending)
        cursor = self._finder.find(entry.region_id, entry.counter)
        if cursor is None:
            self.gone.append(entry)
        elif is_idle:
            self.claims.append(Claim(entry, delivered_ms, deliveries))
            self.reply.append(
                ids.format_id(entry.entry_id)
                if self._just_id
                else id_and_fields(entry.entry_id, cursor.fields())
            )

    def record(self, state: EngineState, group: Group, consumer: bytes) -> None:
        """Records the claimed entries, and takes those that are gone out of the PEL."""
        head = head_of(state, self._stream, group)
        if self.gone:
            state.writer.record(Removed(head, self.gone))
        if self.claims:
            state.writer.record(Claimed(head, consumer, self.claims))
        elif consumer not in group.delivery.consumers:
            state.writer.record(ConsumerMade(head, consumer))
        else:
            group.delivery.consumers[consumer].seen_ms = state.clock.now_ms


def xautoclaim(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XAUTOCLAIM key group consumer min-idle-time start [COUNT n] [JUSTID].

    Returns the ID to start from next (0-0 at the end), the claimed entries, and the IDs of pending
    entries that are no longer in the stream.
    """
    min_idle_ms = max(integer(argv[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM"), 0)
    start = range_start(argv[5])
    count = 100
    just_id = False
    index = 6
    while index < len(argv):
        option = argv[index].upper()
        if option == b"COUNT" and index + 1 < len(argv):
            count = integer(argv[index + 1], "ERR COUNT must be > 0")
            if not 1 <= count <= INT64_MAX // 16:
                raise CommandError("ERR COUNT must be > 0")
            count = min(count, AUTOCLAIM_MAX)
            index += 2
        elif option == b"JUSTID":
            just_id = True
            index += 1
        else:
            raise CommandError(SYNTAX_ERROR)
    stream, group = stream_and_group(state, argv[1], argv[2])
    if stream is None or group is None:
        raise no_group(argv[1], argv[2])
    claiming = Claiming(stream, just_id)
    now_ms = state.clock.now_ms
    attempts = count * 10
    next_id = 0
    last_id = -1
    entries = group.delivery.pel.ascending(start)
    while entries.valid:
        pending = entries.pending()
        entries.step()
        done = len(claiming.claims) + len(claiming.gone)
        if (attempts <= 0 or done >= count) and pending.entry_id != last_id:
            next_id = pending.entry_id
            break
        attempts -= 1
        last_id = pending.entry_id
        is_idle = now_ms - pending.delivered_ms >= min_idle_ms
        claiming.take(pending, is_idle, now_ms, pending.deliveries + (0 if just_id else 1))
    claiming.record(state, group, argv[3])
    deleted: list[Reply] = [ids.format_id(entry.entry_id) for entry in claiming.gone]
    return [ids.format_id(next_id), claiming.reply, deleted]


COMMANDS: Final = [
    Command(
        "xclaim",
        -6,
        "write fast",
        xclaim,
        "Moves pending entries to a consumer.",
        key_flags="RW update",
        changes_local_state=True,
        keys=(1, 1, 1),
        reply="array",
        since="5.0.0",
        syntax="key group consumer min-idle-time id [id ...] [IDLE ms] "
        "[TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]",
    ),
    Command(
        "xautoclaim",
        -6,
        "write fast",
        xautoclaim,
        "Moves entries that are pending for a minimum time to a consumer.",
        key_flags="RW delete",
        changes_local_state=True,
        keys=(1, 1, 1),
        reply="array",
        since="6.2.0",
        syntax="key group consumer min-idle-time start [COUNT count] [JUSTID]",
    ),
]
