"""A region in two forms, `crdt` and the naive model: both take the same steps and are compared."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Optional

from anabranch.crdt import acknowledge, undelivered
from anabranch.crdt import effects as fx
from anabranch.crdt.apply import add, apply, collect, collect_flush
from anabranch.crdt.join import join
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import (
    Claim,
    Claimed,
    ConsumerDeleted,
    Delivered,
    FloorRaised,
    FloorSet,
    LocalRecord,
    RecordHead,
    Removed,
    apply_local,
)
from anabranch.crdt.merge import forward
from anabranch.crdt.node import encode_names, encode_values, put_entry
from anabranch.crdt.pel_chunk import EntryRef, entry_ref
from anabranch.crdt.place import Place, at_counters, at_id
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.scan import SAME_NAMES
from anabranch.crdt.snapshot import SnapshotCut, read_snapshot
from anabranch.crdt.spans import Spans, SpansByRegion
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector
from tests.oracles import naive_engine, naive_stream
from tests.oracles.naive_log import Dot, NaiveEntry, counters_of, page, spans_of
from tests.oracles.naive_stream import NaiveLocal, NaiveRegion, Op, Start

MAX_ID = (1 << 128) - 1


# -- from naive to crdt


def add_run(key: bytes, adds: list[tuple[int, tuple[bytes, ...]]], first: int) -> fx.AddRun:
    """Adds of (entry ID, fields) as one run, from counter `first` on.

    All must have the field names of the first.
    """
    names = encode_names(list(adds[0][1][::2]))
    data = bytearray()
    ms = seq = 0
    for entry_id, fields in adds:
        next_ms, next_seq = entry_id >> 64, entry_id & ((1 << 64) - 1)
        put_entry(
            data,
            SAME_NAMES,
            next_ms - ms,
            next_seq - seq if next_ms == ms else next_seq,
            1,
            encode_values(list(fields[1::2])),
        )
        ms, seq = next_ms, next_seq
    return fx.AddRun(key, names, bytes(data), first - 1)


def spans_from(counters: frozenset[int]) -> Spans:
    spans = Spans()
    for start, end in spans_of(set(counters)):
        spans.add(start, end, 0)
    return spans


def effect_of(op: Op, dot: Dot) -> fx.Effect:
    """The effect of `crdt` that corresponds to a naive operation with this dot."""
    if isinstance(op, naive_stream.Add):
        if op.pid:
            names, values = encode_names(list(op.fields[::2])), encode_values(list(op.fields[1::2]))
            return fx.AddIdempotent(
                op.key, op.entry_id, names, values, op.pid, op.iid, op.recorded_ms, dict(op.vector)
            )
        return add_run(op.key, [(op.entry_id, op.fields)], dot[1])
    if isinstance(op, naive_stream.Remove):
        return fx.RemoveEntries(op.key, list(op.dots))
    if isinstance(op, naive_stream.Trim):
        return fx.Trim(op.key, dict(op.prefix), op.drops_references)
    if isinstance(op, naive_stream.Delete):
        return fx.Delete(op.key, dict(op.vector))
    if isinstance(op, naive_stream.Flush):
        return fx.Flush(dict(op.vector))
    if isinstance(op, naive_stream.SetId):
        return fx.SetId(op.key, op.entry_id)
    if isinstance(op, naive_stream.Create):
        return fx.CreateGroup(
            op.key, op.group, op.start_id or 0, op.start_id is None, dict(op.vector)
        )
    if isinstance(op, naive_stream.Destroy):
        return fx.DestroyGroup(op.key, op.group)
    if isinstance(op, naive_stream.Acknowledge):
        spans = {region_id: spans_from(counters) for region_id, counters in op.counters.items()}
        return fx.Acknowledge(op.key, op.group, list(op.creates), spans)
    if isinstance(op, naive_stream.Deadline):
        return fx.SetDeadline(op.key, op.at_ms, list(op.replaces))
    if isinstance(op, naive_stream.RemoveObserved):
        return fx.RemoveObserved(op.key, dict(op.vector), op.with_deadlines)
    return fx.Configure(op.key, op.duration_s, op.maxsize, list(op.replaces), dict(op.vector))


def receive(keyspace: Keyspace, op: Op, dot: Dot, now_ms: int = 0, is_own: bool = False) -> None:
    """Applies one effect and moves the vector, as a merge does."""
    apply(keyspace, effect_of(op, dot), dot[0], dot[1], now_ms, is_own)
    keyspace.vector[dot[0]] = dot[1]


# -- from crdt to the values that the naive model compares


def start_of(place: Place) -> Start:
    return place.entry_id if place.is_id else tuple(sorted(place.counters.items()))


def dots_in(spans: SpansByRegion) -> set[Dot]:
    return {
        (region_id, counter)
        for region_id, each in spans.items()
        for counter in counters_of(zip(each.starts, each.ends, strict=True))
    }


def converged(keyspace: Keyspace) -> dict[bytes, object]:
    """The counterpart of `NaiveRegion.converged` for a keyspace."""
    result: dict[bytes, object] = {}
    for key, stream in keyspace.keys.items():
        entries = {
            (entry.region_id, entry.counter): (entry.entry_id, tuple(entry.fields))
            for entry in forward(stream.logs, 0, MAX_ID, -1).listed()
        }
        assert len(entries) == stream.length()
        header = {
            (region_id, counter): entry_id
            for region_id, (counter, entry_id) in stream.header.items()
        }
        creates = {
            (name, dot): (start_of(create.start), frozenset(dots_in(create.acked)))
            for name, group in stream.groups.items()
            for dot, create in group.creates.items()
        }
        contents = (entries, header, creates, dict(stream.deadlines), dict(stream.configurations))
        if any(contents):
            result[key] = contents
    return result


def summed(dots: set[Dot]) -> Vector:
    """The highest counter of each region."""
    result: Vector = {}
    for region_id, counter in dots:
        result[region_id] = max(counter, result.get(region_id, 0))
    return result


def joined(vectors: list[Vector]) -> Vector:
    """The least vector that covers all of these."""
    return summed({dot for vector in vectors for dot in vector.items()})


def kept_naive(region: NaiveRegion) -> dict[object, object]:
    """Tombstones, clears and pairs, in the form in which a keyspace holds them.

    A keyspace keeps only the newest tombstone of each region.
    """
    result: dict[object, object] = {
        "flush": (
            summed(region.flush_tombstones),
            joined([vector for _, vector in region.flush_clears]),
        )
    }
    for key, stream in region.keys.items():
        tombstones = {
            name: summed({dot for each, dot in stream.tombstones if each == name})
            for name in {each for each, _ in stream.tombstones}
        }
        pairs = {
            dot: (pair.pid, pair.iid, pair.entry_id, pair.recorded_ms, pair.held_ms)
            for dot, pair in stream.pairs.items()
        }
        contents = (tombstones, joined(stream.clears), pairs)
        if any(contents):
            result[key] = contents
    return result


def kept(keyspace: Keyspace) -> dict[object, object]:
    """The counterpart of `kept_naive` for a keyspace."""
    result: dict[object, object] = {
        "flush": (dict(keyspace.flush_tombstone), dict(keyspace.flush_clears))
    }
    for key, stream in keyspace.keys.items():
        tombstones: dict[Optional[bytes], Vector] = {
            name: dict(vector) for name, vector in stream.tombstones.items()
        }
        if stream.tombstone_of_all:
            tombstones[None] = dict(stream.tombstone_of_all)
        pairs = {
            pair.dot: (pair.pid, pair.iid, pair.entry_id, pair.recorded_ms, pair.held_ms)
            for pair in stream.pairs.everything()
        }
        contents = (tombstones, dict(stream.clears), pairs)
        if any(contents):
            result[key] = contents
    return result


Locals = dict[tuple[bytes, bytes], tuple[object, ...]]


def locals_naive(region: NaiveRegion) -> Locals:
    """The local state of all live groups of the naive model, by (key, group)."""
    result: Locals = {}
    for key, stream in region.keys.items():
        for name in stream.creates:
            state = stream.locals.get(name) or NaiveLocal()
            # A deleted entry counts as neither pending nor dropped (S8.1).
            dropped = {dot for dot in state.dropped if dot in stream.entries}
            result[key, name] = (
                state.floor,
                state.raised_id,
                state.given,
                dropped,
                state.pel,
                state.consumers,
            )
    return result


def locals_of(keyspace: Keyspace) -> Locals:
    """The counterpart of `locals_naive` for a keyspace."""
    result: Locals = {}
    for key, stream in keyspace.keys.items():
        for name, group in stream.groups.items():
            state = group.delivery
            pel = {
                (each.region_id, each.counter): (
                    each.entry_id,
                    each.consumer,
                    each.delivered_ms,
                    each.deliveries,
                )
                for each in state.pel.ascending()
            }
            by_consumer = {
                (each.region_id, each.counter): consumer
                for consumer in state.consumers
                for each in state.pel.ascending(consumer=consumer)
            }
            assert by_consumer == {dot: pending[1] for dot, pending in pel.items()}, (
                "the PELs of group and consumers differ"
            )
            assert state.pel.length == len(pel)
            for consumer in state.consumers:
                held = sum(each == consumer for each in by_consumer.values())
                assert state.pel.length_of(consumer) == held
            floor = None if state.floor is None else start_of(state.floor)
            dropped = {
                (region_id, counter)
                for region_id, counters in state.dropped.items()
                for counter in counters
                if region_id in stream.logs and stream.logs[region_id].has_counter(counter)
            }
            result[key, name] = (
                floor,
                state.raised_id,
                dots_in(state.given),
                dropped,
                pel,
                set(state.consumers),
            )
    return result


# -- the region in both forms


@dataclass(frozen=True)
class Sent:
    """An effect in transit between regions."""

    op: Op
    dot: Dot


def snapshot_bytes(keyspace: Keyspace, bytes_max: int = 1 << 16) -> list[bytes]:
    """A snapshot of the keyspace, in chunks of about `bytes_max` bytes."""
    return list(SnapshotCut(keyspace, 0).chunks(bytes_max))


class Twin:
    """One region in both forms, `keyspace` and `naive`."""

    def __init__(self, region_id: int, limits: Optional[NodeLimits] = None) -> None:
        self.region_id = region_id
        self.limits = limits or NodeLimits()
        self.keyspace = Keyspace(region_id, self.limits)
        self.naive = NaiveRegion(region_id)
        self.log: list[Sent] = []
        self.clock_ms = 1000
        # (number of effects applied before the record, the record).
        self.records: list[tuple[int, LocalRecord]] = []

    def engine(self) -> naive_engine.NaiveEngine:
        """The commands of this region, at its current clock."""
        return naive_engine.NaiveEngine(self.naive, self.clock_ms)

    def issue(self, unit: list[Op]) -> list[Sent]:
        """Issues a unit in this region. Returns its effects, to be sent."""
        sent = []
        for op in unit:
            each = Sent(op, (self.region_id, self.naive.vector.get(self.region_id, 0) + 1))
            self._apply(each, True)
            sent.append(each)
        return sent

    def receive(self, sent: Sent) -> None:
        """Applies an effect that a peer sent, unless it is already applied.

        After a restore, peers also send back effects of this region.
        """
        if self.naive.vector.get(sent.dot[0], 0) < sent.dot[1]:
            self._apply(sent, False)

    def _apply(self, sent: Sent, is_own: bool) -> None:
        self.naive.apply(sent.op, sent.dot, self.clock_ms, is_own)
        if is_own and isinstance(sent.op, naive_stream.Add) and not sent.op.pid:
            self._add(sent.op, sent.dot)
        else:
            receive(self.keyspace, sent.op, sent.dot, self.clock_ms, is_own)
        self.log.append(sent)

    def _add(self, op: naive_stream.Add, dot: Dot) -> None:
        """Adds to the keyspace by the function that an engine uses for its own plain adds."""
        names, values = encode_names(list(op.fields[::2])), encode_values(list(op.fields[1::2]))
        add(
            self.keyspace,
            self.keyspace.get_or_create(op.key),
            op.entry_id >> 64,
            op.entry_id & ((1 << 64) - 1),
            dot[1],
            names,
            values,
        )
        self.keyspace.vector[dot[0]] = dot[1]

    def pull(self, other: Twin) -> None:
        """Receives the log of `other`, in its order: Bayou anti-entropy (S2.1)."""
        for sent in other.log:
            self.receive(sent)

    def join(self, other: Twin, bytes_max: int = 64) -> None:
        """Joins a snapshot of `other`, sent in chunks of about `bytes_max` bytes."""
        join(
            self.keyspace,
            read_snapshot(snapshot_bytes(other.keyspace, bytes_max), self.limits),
            self.clock_ms,
        )
        self.naive.join(other.naive, self.clock_ms)
        have = {sent.dot for sent in self.log}
        self.log += [sent for sent in other.log if sent.dot not in have]

    def collect(self, stable: Vector) -> None:
        """Collects in both forms as if `stable` were stable."""
        for stream in list(self.keyspace.keys.values()):
            collect(self.keyspace, stream, stable)
            self.keyspace.drop_if_empty(stream)
        collect_flush(self.keyspace, stable)
        self.naive.collect(stable)

    def check(self) -> None:
        """Asserts that both forms hold the same state."""
        assert self.keyspace.vector == self.naive.vector
        assert converged(self.keyspace) == self.naive.converged()
        assert kept(self.keyspace) == kept_naive(self.naive)
        assert locals_of(self.keyspace) == locals_naive(self.naive)
        assert {key: trimmed_of(stream) for key, stream in self.keyspace.keys.items()} == {
            key: stream.trimmed for key, stream in self.naive.keys.items()
        }
        for key, stream in self.naive.keys.items():
            for name in stream.creates:
                self._check_group(key, name)

    def _check_group(self, key: bytes, name: bytes) -> None:
        """Compares the entries that `>` would deliver, and the next announcement.

        The announcements may differ in counters that belong to no present entry.
        """
        naive = self.naive.keys[key]
        stream = self.keyspace.keys[key]
        group = stream.groups[name]
        waiting = naive_engine.deliverable(naive, name)
        taken = undelivered.Handout(stream, group).read(0).listed()
        assert [(e.entry_id, e.region_id, e.counter, tuple(e.fields)) for e in taken] == [
            astuple(e) for e in waiting
        ]
        assert undelivered.lag(stream, group) == len(waiting)
        assert undelivered.exists(stream, group) == bool(waiting)
        acked = naive.acked(name)
        runs = {
            (region_id, counter)
            for region_id, counters in naive_engine.announceable(naive, name).items()
            for counter in counters
        }
        announced = dots_in(acknowledge.announceable(stream, group))
        assert (announced | acked) & set(naive.entries) == (runs | acked) & set(naive.entries)
        assert bool(announced) == bool(runs)
        if announced or runs:
            assert (key, name) in self.keyspace.acknowledgeable

    # -- local steps, each as a local record

    def _head(self, key: bytes, group: bytes) -> RecordHead:
        return RecordHead(key, group, sorted(self.naive.keys[key].creates[group]), self.clock_ms)

    def _run(self, record: LocalRecord) -> None:
        apply_local(self.keyspace, record)
        self.records.append((len(self.log), record))

    def has_group(self, key: bytes, group: bytes) -> bool:
        return key in self.naive.keys and group in self.naive.keys[key].creates

    def read(
        self,
        key: bytes,
        group: bytes,
        consumer: bytes = b"c",
        count: int = -1,
        no_ack: bool = False,
    ) -> list[NaiveEntry]:
        """XREADGROUP with `>`. A negative `count` means all."""
        stream = self.naive.keys[key]
        entries = page(naive_engine.deliverable(stream, group), count)
        handout = undelivered.Handout(
            self.keyspace.keys[key], self.keyspace.keys[key].groups[group]
        )
        read = handout.read(max(count, 0)).listed()
        assert [(each.region_id, each.counter) for each in read] == [
            (each.region_id, each.counter) for each in entries
        ]
        if not entries:
            return []
        head = self._head(key, group)
        for entry in entries:
            naive_engine.deliver(stream, group, entry, consumer, self.clock_ms, no_ack)
        stream.local(group).consumers.add(consumer)
        taken = [entry_ref(entry.region_id, entry.counter, entry.entry_id) for entry in entries]
        self._run(Delivered(head, consumer, taken, handout.end(), 0, no_ack))
        return entries

    def acknowledge(self, key: bytes, group: bytes, entry_ids: set[int]) -> int:
        """XACK. Returns the number of entries acknowledged."""
        state = self.naive.keys[key].local(group)
        removed: list[EntryRef] = []
        for dot, pending in sorted(state.pel.items()):
            if pending[0] in entry_ids:
                removed.append(entry_ref(dot[0], dot[1], pending[0]))
                del state.pel[dot]
        if removed:
            self._run(Removed(self._head(key, group), removed))
        return len(removed)

    def claim(self, key: bytes, group: bytes, consumer: bytes, entry_id: int) -> None:
        """XCLAIM FORCE of all entries with the ID."""
        stream = self.naive.keys[key]
        state = stream.local(group)
        claims: list[Claim] = []
        for dot, (each, _) in sorted(stream.entries.items()):
            if each == entry_id:
                deliveries = state.pel[dot][3] + 1 if dot in state.pel else 1
                entry = entry_ref(dot[0], dot[1], each)
                claims.append(Claim(entry, self.clock_ms, deliveries))
                state.pel[dot] = (each, consumer, self.clock_ms, deliveries)
                state.dropped.discard(dot)
        state.consumers.add(consumer)
        self._run(Claimed(self._head(key, group), consumer, claims))

    def delete_consumer(self, key: bytes, group: bytes, consumer: bytes) -> None:
        """XGROUP DELCONSUMER."""
        state = self.naive.keys[key].local(group)
        for dot in [dot for dot, pending in state.pel.items() if pending[1] == consumer]:
            del state.pel[dot]
            state.dropped.add(dot)
        state.consumers.discard(consumer)
        self._run(ConsumerDeleted(self._head(key, group), consumer))

    def set_floor(self, key: bytes, group: bytes, floor: Start) -> None:
        """XGROUP SETID."""
        stream = self.naive.keys[key]
        state = stream.local(group)
        last_below: list[EntryRef] = []
        state.floor = floor
        state.raised_id = 0
        for region_id in {dot[0] for dot in stream.entries}:
            counter = naive_engine.counter_below(stream, region_id, floor)
            if counter:
                entry_id = stream.entries[region_id, counter][0]
                last_below.append(entry_ref(region_id, counter, entry_id))
        ends = {entry.region_id: entry.counter for entry in last_below}
        state.given = {dot for dot in state.given if dot[1] <= ends.get(dot[0], 0)}
        start = at_id(floor) if isinstance(floor, int) else at_counters(dict(floor))
        self._run(FloorSet(self._head(key, group), start, last_below, 0))

    def raise_floor(self, key: bytes, group: bytes, last_id: int) -> None:
        """XCLAIM LASTID."""
        state = self.naive.keys[key].local(group)
        state.raised_id = max(state.raised_id, last_id)
        self._run(FloorRaised(self._head(key, group), last_id))


def equal(one: Twin, other: Twin) -> bool:
    """Whether the converged states are equal; digest and naive state must agree on that."""
    naive = one.naive.converged() == other.naive.converged()
    assert (one.keyspace.digest() == other.keyspace.digest()) == naive, (
        "digest and naive state disagree on equality"
    )
    return naive


def trimmed_of(stream: Stream) -> Vector:
    """region_id → the counter up to which that log was trimmed, where it was."""
    return {region_id: log.trimmed for region_id, log in stream.logs.items() if log.trimmed}


def assert_equal(one: Twin, other: Twin) -> None:
    assert one.naive.converged() == other.naive.converged()
    assert one.keyspace.digest() == other.keyspace.digest()
