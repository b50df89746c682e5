"""The state of a region at the beginning of a tape, as bytes and as the twin has it.

The bytes are those of a snapshot and, for each key, those of the local part of a checkpoint, so the
twin takes over what the region held then. It judges all that follows.
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.encoding import Reader, put_bytes, put_varint
from anabranch.crdt.groups import Group as ProductGroup
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.place import Place as ProductPlace
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.snapshot import SnapshotCut, read_snapshot
from anabranch.crdt.spans import SpansByRegion
from anabranch.crdt.state import put_local, read_local
from anabranch.crdt.stream import Stream
from anabranch.region.engine.engine import Engine
from anabranch.sim.calls import Call, EngineFacts, Issued
from anabranch.sim.tapes.values import (
    put_facts,
    put_issued,
    put_words,
    read_facts,
    read_issued,
    read_words,
)
from anabranch.sim.twin.effects import plain
from anabranch.sim.twin.region import TwinRegion
from anabranch.sim.twin.session import Blocked
from anabranch.sim.twin.state import (
    Consumer,
    Create,
    Entry,
    Group,
    Key,
    Pair,
    Pending,
    Place,
    State,
)
from anabranch.sim.twin.vectors import Dot

_CHUNK_BYTES: Final = 1 << 20


class Base:
    """What a tape begins with.

    `facts` are those after the call before it, `opened` the effects that are in no row then.
    `blocked`: (session, words, keys, steady time until which it waits; 0: for ever) of each read
    that waits. `unjudged`: sessions with other commands that wait.
    """

    def __init__(self, keyspace: Keyspace, facts: EngineFacts, opened: list[Issued]) -> None:
        self.keyspace: Final = keyspace
        self.facts: Final = facts
        self.opened: Final = opened
        self.blocked: list[tuple[int, tuple[bytes, ...], tuple[bytes, ...], int]] = []
        self.unjudged: list[int] = []


def can_begin(engine: Engine) -> bool:
    """Whether a tape may begin now.

    Nothing is open in the log, no client is in a transaction or watches keys, and no command waits
    for the end of a start.
    """
    state = engine.state
    if state.journal.has_open() or state.waiting.for_start:
        return False
    return not any(
        session.transaction.queued is not None or session.transaction.watched
        for session in state.sessions.values()
    )


def put_base(out: bytearray, engine: Engine, call: Call) -> None:
    """Appends the state of a region just after a call: a start, or one after which `can_begin`."""
    put_facts(out, call.facts)
    last = max([row.last for row in call.rows if row.origin == call.region], default=0)
    is_open = call.facts.is_open
    put_issued(out, [one for one in call.issued if is_open and one[0] > last])
    state = engine.state
    keyspace = state.keyspace
    chunks = list(SnapshotCut(keyspace, 0).chunks(_CHUNK_BYTES))
    put_varint(out, len(chunks))
    for chunk in chunks:
        put_bytes(out, chunk)
    put_varint(out, len(keyspace.keys))
    for name, stream in keyspace.keys.items():
        put_bytes(out, name)
        local = bytearray()
        put_local(local, stream)
        put_bytes(out, bytes(local))
    reads = list(state.waiting.reads.by_session.values())
    put_varint(out, len(reads))
    for read in reads:
        put_varint(out, read.session.session_id)
        put_words(out, tuple(read.argv))
        put_words(out, tuple(read.keys))
        put_varint(out, read.deadline_ms)
    blocked = {read.session.session_id for read in reads}
    waiting = [one.session_id for one in state.sessions.values() if one.waiting]
    put_words(out, tuple(b"%d" % one for one in waiting if one not in blocked))


def read_base(reader: Reader) -> Base:
    """Reads what `put_base` wrote."""
    facts, opened = read_facts(reader), read_issued(reader)
    chunks = [reader.bytes_() for _ in range(reader.count())]
    base = Base(read_snapshot(chunks, NodeLimits()), facts, opened)
    for _ in range(reader.count()):
        stream = base.keyspace.get_or_create(reader.bytes_())
        read_local(Reader(reader.bytes_()), stream)
    for _ in range(reader.count()):
        session = reader.varint()
        words, keys = read_words(reader), read_words(reader)
        base.blocked.append((session, words, keys, reader.varint()))
    base.unjudged = [int(word) for word in read_words(reader)]
    return base


# -- the same for the twin


def begin(twin: TwinRegion, base: Base) -> None:
    """Lets the twin hold what the region held at that moment."""
    facts = base.facts

    def held() -> State:
        return _state(base.keyspace, twin.region, facts.clock_ms)

    twin.state = held()
    # The state has the opened effects, so a later start cannot replay them from it.
    twin.first_state = None if base.opened else held
    opened = [pair for counter, effect in base.opened for pair in plain(counter, [effect])]
    twin.journal.begin_at(
        facts.position, [((twin.region, counter), one) for counter, one in opened]
    )
    twin.facts = facts
    twin.was_serving = facts.state == "serving"
    # The beginning is unknown: others may have forgotten clears, and statistics may be those of a
    # client.
    twin.is_restored = True
    twin.hand_set = {(key.name, name) for key in twin.state.keys.values() for name in key.groups}
    twin.hand_set.update(twin.state.keys)
    twin.sessions.clear()
    twin.for_start = []
    twin.blocked = [
        Blocked(twin.session(session), words, list(keys), until_ms)
        for session, words, keys, until_ms in base.blocked
    ]
    for number in base.unjudged:
        twin.session(number).is_unjudged = True
    twin.note_hidden()


def _state(keyspace: Keyspace, region: int, clock_ms: int) -> State:
    held = State(region)
    held.clock_ms = clock_ms
    held.vector = dict(keyspace.vector)
    held.flushes = list(keyspace.flush_tombstone.items())
    held.flush_clears = dict(keyspace.flush_clears)
    for name, stream in keyspace.keys.items():
        held.keys[name] = _key(held, name, stream)
    return held


def _key(held: State, name: bytes, stream: Stream) -> Key:
    key = Key(name)
    for region, log in stream.logs.items():
        cursor = LogCursor(log)
        cursor.seek_counter(0)
        while cursor.valid:
            key.put(Entry((region, cursor.counter), cursor.id(), cursor.fields()))
            cursor.step()
    key.header = dict(stream.header.heads)
    key.deadlines = dict(stream.deadlines)
    key.configurations = dict(stream.configurations)
    key.clears = dict(stream.clears)
    key.added, key.max_deleted = stream.entries_added, stream.max_deleted_id
    key.tombstones = [(None, dot) for dot in stream.tombstone_of_all.items()]
    for group, vector in stream.tombstones.items():
        key.tombstones += [(group, dot) for dot in vector.items()]
    for pair in stream.pairs.everything():
        held.arrivals += 1
        one = Pair(
            pair.dot, pair.entry_id, pair.pid, pair.iid, pair.recorded_ms, pair.vector, pair.held_ms
        )
        one.arrival, one.is_retired = held.arrivals, pair.is_retired
        key.pairs[pair.dot] = one
    for group, product in stream.groups.items():
        key.groups[group] = _group(key, product)
    return key


def _group(key: Key, product: ProductGroup) -> Group:
    group = Group()
    for dot, create in product.creates.items():
        group.creates[dot] = Create(dot, _place(create.start), _counters(key, create.acked))
    delivery, local = product.delivery, group.local
    local.floor = None if delivery.floor is None else _place(delivery.floor)
    local.raised = delivery.raised_id
    local.given = _counters(key, delivery.given)
    for region, counters in delivery.dropped.items():
        local.dropped |= {(region, counter) for counter in counters}
    for one in delivery.pel.ascending():
        dot = (one.region_id, one.counter)
        local.pel[dot] = Pending(dot, one.entry_id, one.consumer, one.delivered_ms, one.deliveries)
        key.ids[dot] = one.entry_id
    for consumer in delivery.consumers.values():
        local.consumers[consumer.name] = Consumer(consumer.seen_ms)
        local.consumers[consumer.name].active_ms = consumer.active_ms
    local.entries_read = delivery.entries_read or None
    return group


def _place(place: ProductPlace) -> Place:
    return Place(place.is_id, place.entry_id, dict(place.counters))


def _counters(key: Key, spans_by_region: SpansByRegion) -> set[Dot]:
    found: set[Dot] = set()
    for region, spans in spans_by_region.items():
        for start, end, end_id in zip(spans.starts, spans.ends, spans.end_ids, strict=True):
            found.update((region, counter) for counter in range(start + 1, end + 1))
            if end_id:
                key.ids[(region, end)] = end_id
    return found
