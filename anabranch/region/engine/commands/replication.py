"""The CRDT.… commands, which anabranch adds to Redis, and WAIT.

A reply that tells what this region holds speaks only of what is on its disk. CRDT.VECTOR and
CRDT.DIGEST therefore answer after the commit of the state that they report (S2.4).
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt import ids
from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.vector import Vector, includes
from anabranch.region.engine.commands.arguments import (
    SYNTAX_ERROR,
    integer,
    range_end,
    range_start,
    timeout_ms,
)
from anabranch.region.engine.figures.shared import lag_of
from anabranch.region.engine.members import Member
from anabranch.region.engine.outbox import LINK_DELAY_MAX_MS, LINK_LIMIT_MAX_BYTES_S, LinkRequest
from anabranch.region.engine.replies import (
    OK,
    REPLY_LATER,
    CommandError,
    MapReply,
    Reply,
    flat_vector,
    shown,
)
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import IS_REFUSED, Command
from anabranch.region.engine.waiting import DigestWaiter, HoldersWaiter, RoundWaiter, VectorWaiter

# Entries that CRDT.DIGEST hashes at once and at each tick, and how long it goes on so.
HASHED_PER_TICK: Final = 1000
_HASHING_MS_MAX: Final = 5000


def named_member(state: EngineState, text: bytes) -> Member:
    """The member that a client names by its name or region_id. Raises `CommandError`."""
    name = shown(text)
    member = (
        state.members.by_id.get(int(name))
        if name.isdigit() and len(name) < 5
        else state.members.named(name)
    )
    if member is None:
        names = ", ".join(
            f"{known.name} ({known.region_id})" for known in state.members.by_id.values()
        )
        raise CommandError(f"ERR no region '{name}' in this cluster; its regions are {names}")
    return member


def vector(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.VECTOR: this region's vector, once it is on disk."""
    state.answer_when_on_disk(session, flat_vector(state.keyspace.vector))
    return REPLY_LATER


def digest(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.DIGEST [key]: the digest of the region or of one key, once it is on disk (S13.9).

    Where much is to be hashed, other clients get their turn meanwhile. The digest is that of the
    moment at which nothing is left to hash.
    """
    if len(argv) > 1:
        value = state.keyspace.digest_of(argv[1])
    elif state.keyspace.hash_some(HASHED_PER_TICK):
        value = state.keyspace.digest()
    else:
        deadline_ms = state.clock.deadline_ms(_HASHING_MS_MAX)
        state.waiting.add(DigestWaiter(session, deadline_ms))
        return REPLY_LATER
    state.answer_when_on_disk(session, value.hex().encode())
    return REPLY_LATER


def stable(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.STABLE: the stable time in ms, or null if there is none (S7.7).

    T says that this region holds every entry below it, so the reply leaves once all that is applied
    here is on disk (S2.4).
    """
    state.stability.time.note_asked(state.clock.steady_ms)
    stable_ms, why_none = state.stable_time()
    if why_none:
        return None
    if state.journal.next_position() <= state.disk.position:
        return stable_ms
    state.answer_when_on_disk(session, stable_ms)
    return REPLY_LATER


def peers(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.PEERS: one map per peer, with its link and the effects that it is known to have."""
    reply: list[Reply] = []
    for peer in sorted(state.peers.by_id):
        link = state.peers.by_id[peer]
        heard = state.stability.newest(peer)
        known = link.acknowledged if link.receives_from_here or heard is None else heard.vector
        member = state.members.by_id[peer]
        reply.append(
            MapReply(
                [
                    b"name",
                    member.name.encode(),
                    b"region_id",
                    peer,
                    b"link",
                    b"down" if link.is_down else link.state.encode(),
                    b"detail",
                    link.detail.encode(),
                    b"tls",
                    int(link.is_encrypted),
                    b"delay_ms",
                    link.delay_ms,
                    b"limit_bytes_s",
                    link.limit_bytes_s,
                    b"receives_from_here",
                    int(link.receives_from_here),
                    b"lost",
                    int(member.lost),
                    b"acknowledged",
                    flat_vector(known),
                    b"lag",
                    lag_of(state, peer),
                ]
            )
        )
    return reply


def link_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.LINK peer UP | DOWN | DELAY ms | LIMIT n: resumes, stops or slows receiving.

    After the reply to DOWN, this region applies nothing more from that peer.
    """
    peer = named_member(state, argv[1]).region_id
    if peer == state.members.region_id:
        raise CommandError(f"ERR region {state.members.name} has no link to itself")
    link = state.peers.by_id[peer]
    action = shown(argv[2]).upper()
    if action in ("UP", "DOWN") and len(argv) == 3:
        link.is_down = action == "DOWN"
        if action == "UP" and link.state == "down":
            # The hub takes the request at its next event; CRDT.PEERS says at once what holds.
            link.state = "connecting"
    elif action == "DELAY" and len(argv) == 4:
        delay_ms = integer(argv[3])
        if not 0 <= delay_ms <= LINK_DELAY_MAX_MS:
            raise CommandError(f"ERR the delay must be between 0 and {LINK_DELAY_MAX_MS} ms")
        link.delay_ms = delay_ms
    elif action == "LIMIT" and len(argv) == 4:
        limit = integer(argv[3])
        if not 0 <= limit <= LINK_LIMIT_MAX_BYTES_S:
            raise CommandError(
                f"ERR the limit must be between 0 and {LINK_LIMIT_MAX_BYTES_S} bytes per second"
            )
        link.limit_bytes_s = limit
    else:
        raise CommandError(SYNTAX_ERROR)
    state.outbox.link_requests.append(LinkRequest(peer, action, link.delay_ms, link.limit_bytes_s))
    return OK


def sync(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.SYNC timeout-ms: begins a sync round and waits for it.

    The reply is 1 when all receivers have acknowledged this region's vector and no announceable
    acknowledgement waits, 0 on time-out. While no peer receives from here, no round begins, so the
    command waits for its time-out.
    """
    timeout = timeout_ms(argv[1])
    state.schedule.sync_requested = True
    state.waiting.add(RoundWaiter(session, state.clock.deadline_ms(timeout)))
    return REPLY_LATER


def wait_for_vector(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.WAIT timeout-ms region counter …: waits until this region holds the given effects.

    The reply is 1 when this region's vector on disk covers the given counters, 0 on time-out.
    """
    timeout = timeout_ms(argv[1])
    if len(argv) % 2:
        raise CommandError("ERR a region_id and a counter are needed for each region")
    wanted: Vector = {}
    for index in range(2, len(argv), 2):
        wanted[named_member(state, argv[index]).region_id] = integer(argv[index + 1])
    if includes(state.disk.vector, wanted):
        return 1
    state.schedule.commit_wanted = True
    state.waiting.add(VectorWaiter(session, state.clock.deadline_ms(timeout), wanted))
    return REPLY_LATER


def wait(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """WAIT n timeout-ms: waits until n peers have this connection's writes on their disks.

    The reply is the number of peers that have these writes, n or more, or fewer on time-out.
    """
    count = integer(argv[1])
    timeout = timeout_ms(argv[2])
    have = members_holding(state, session.write_counter)
    if have >= count or state.waiting.is_executing:
        return have
    state.schedule.sync_requested = True
    waiter = HoldersWaiter(session, state.clock.deadline_ms(timeout), count, session.write_counter)
    state.waiting.add(waiter)
    return REPLY_LATER


def members_holding(state: EngineState, counter: int) -> int:
    """The number of other members known to have this region's effects up to `counter` on disk."""
    return sum(state.counter_held_by(peer) >= counter for peer in state.members.others())


def log(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """CRDT.LOG key region [start [end] | COUNTERS after end] [COUNT n] [NOFIELDS]: one region log.

    Returns one map per entry, with `id`, `counter` and `fields`; without `fields` with NOFIELDS.
    COUNTERS takes the entries with counters above `after` and up to `end`.
    """
    member = named_member(state, argv[2])
    words = argv[3:]
    has_fields = True
    if words and words[-1].upper() == b"NOFIELDS":
        has_fields = False
        words = words[:-1]
    count = -1
    if len(words) >= 2 and words[-2].upper() == b"COUNT":
        count = max(integer(words[-1]), 0)
        words = words[:-2]
    has_counters = len(words) == 3 and words[0].upper() == b"COUNTERS"
    if len(words) > 2 and not has_counters:
        raise CommandError(SYNTAX_ERROR)
    start, end, after, last = 0, ids.MAX_ID, 0, ids.MAX_HALF
    if has_counters:
        after, last = integer(words[1]), integer(words[2])
    else:
        start = range_start(words[0]) if words else 0
        end = range_end(words[1]) if len(words) > 1 else ids.MAX_ID
    stream = state.existing(argv[1])
    region_log = None if stream is None else stream.find_log(member.region_id)
    reply: list[Reply] = []
    if region_log is None:
        return reply
    cursor = LogCursor(region_log)
    if has_counters:
        cursor.seek_counter(max(after, 0))
    else:
        cursor.seek_id(start)
    while cursor.valid and cursor.id() <= end and cursor.counter <= last and len(reply) != count:
        facts: list[Reply] = [b"id", ids.format_id(cursor.id()), b"counter", cursor.counter]
        if has_fields:
            fields: list[Reply] = list(cursor.fields())
            facts += [b"fields", fields]
        reply.append(MapReply(facts))
        cursor.step()
    return reply


COMMANDS: Final = [
    Command(
        "crdt.vector",
        1,
        "readonly",
        vector,
        "Returns the vector that this region has on its disk: region_id, counter, …",
        reply="array",
        group="crdt",
        in_multi=IS_REFUSED,
    ),
    Command(
        "crdt.digest",
        -1,
        "readonly",
        digest,
        "Returns the digest of the converged state, of the region or of one key: 32 hex digits.",
        reply="bulk string",
        group="crdt",
        syntax="[key]",
        in_multi=IS_REFUSED,
    ),
    Command(
        "crdt.stable",
        1,
        "readonly",
        stable,
        "Returns the stable time in ms: this region holds every entry below it that will ever be "
        "in a stream. Null if there is none; INFO tells why.",
        reply="integer or null",
        group="crdt",
        in_multi=IS_REFUSED,
    ),
    Command(
        "crdt.peers",
        1,
        "readonly",
        peers,
        "Returns the other regions and the links to them.",
        reply="array",
        group="crdt",
        shows_data=False,
    ),
    Command(
        "crdt.link",
        -3,
        "admin",
        link_,
        "Resumes, stops, delays or limits receiving from a peer.",
        reply="simple string",
        group="crdt",
        syntax="peer UP | DOWN | DELAY ms | LIMIT bytes-per-second",
        shows_data=False,
    ),
    Command(
        "crdt.sync",
        2,
        "admin blocking",
        sync,
        "Begins a sync round and waits for every receiver.",
        reply="integer",
        group="crdt",
        syntax="timeout-ms",
        in_multi=IS_REFUSED,
    ),
    Command(
        "crdt.wait",
        -4,
        "readonly blocking",
        wait_for_vector,
        "Waits until this region holds given effects.",
        reply="integer",
        group="crdt",
        syntax="timeout-ms region counter [region counter ...]",
        in_multi=IS_REFUSED,
    ),
    Command(
        "crdt.log",
        -3,
        "readonly",
        log,
        "Returns the entries of one region log of a stream, with their counters.",
        keys=(1, 1, 1),
        reply="array",
        group="crdt",
        syntax="key region [start [end] | COUNTERS after end] [COUNT n] [NOFIELDS]",
    ),
    Command(
        "wait",
        3,
        "blocking",
        wait,
        "Waits until peers have this connection's writes on their disks.",
        reply="integer",
        group="generic",
        since="3.0.0",
        syntax="numreplicas timeout",
    ),
]
