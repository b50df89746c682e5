"""A region in two forms, `crdt` and the simulator's twin: both take the same steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

from anabranch.crdt import acknowledge, local
from anabranch.crdt import effects as fx
from anabranch.crdt import undelivered as handout
from anabranch.crdt.apply import add, apply
from anabranch.crdt.collecting import collect, collect_flush
from anabranch.crdt.join import join
from anabranch.crdt.keyspace import Keyspace
from anabranch.crdt.local import Claim, LocalRecord, RecordHead, apply_local
from anabranch.crdt.merge import forward
from anabranch.crdt.node import encode_names, encode_values, put_entry
from anabranch.crdt.pel_chunk import EntryRef, entry_ref
from anabranch.crdt.place import at_counters, at_id
from anabranch.crdt.region_log import NodeLimits
from anabranch.crdt.scan import SAME_NAMES
from anabranch.crdt.snapshot import SnapshotCut, read_snapshot
from anabranch.crdt.spans import Spans, SpansByRegion
from anabranch.crdt.stream import Stream
from anabranch.crdt.vector import Vector, includes, raise_to
from anabranch.sim.twin import records
from anabranch.sim.twin.announce import runs
from anabranch.sim.twin.effects import Add, Announce, Plain
from anabranch.sim.twin.reading import cut_at, handed, undelivered
from anabranch.sim.twin.records import apply_record
from anabranch.sim.twin.state import Entry, Pending, Place
from anabranch.sim.twin.vectors import covers
from tests.crdt.model import Commands, Contents, Held, Locals, Model, Start, start_of
from tests.crdt.naive_log import Dot, counters_of, spans_of

MAX_ID = (1 << 128) - 1


# -- from the twin to crdt


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


def effect_of(effect: Plain, dot: Dot) -> fx.Effect:
    """The effect of `crdt` that corresponds to one of the twin with this dot."""
    if isinstance(effect, Add):
        one = effect.pairing
        if one is None:
            return add_run(effect.key, [(effect.entry_id, tuple(effect.fields))], dot[1])
        names, values = encode_names(effect.fields[::2]), encode_values(effect.fields[1::2])
        pair = (one.pid, one.iid, one.recorded_ms, dict(one.vector))
        return fx.AddIdempotent(effect.key, effect.entry_id, names, values, *pair)
    if isinstance(effect, Announce):
        spans = {region_id: Spans() for region_id in sorted({dot[0] for dot in effect.counters})}
        for region_id, each in spans.items():
            counters = {counter for region, counter in effect.counters if region == region_id}
            for start, end in spans_of(counters):
                each.add(start, end, 0)
        return fx.Acknowledge(effect.key, effect.group, list(effect.creates), spans)
    return copied(effect)


def copied(effect: fx.Effect) -> fx.Effect:
    """A copy, so that no region can change what another one received."""
    if isinstance(effect, fx.RemoveEntries):
        return fx.RemoveEntries(effect.key, list(effect.dots))
    if isinstance(effect, fx.Trim):
        return fx.Trim(effect.key, dict(effect.prefix), effect.drops_references)
    if isinstance(effect, fx.Delete):
        return fx.Delete(effect.key, dict(effect.vector))
    if isinstance(effect, fx.Flush):
        return fx.Flush(dict(effect.vector))
    if isinstance(effect, fx.CreateGroup):
        start = (effect.start_id, effect.starts_at_vector)
        return fx.CreateGroup(effect.key, effect.group, *start, dict(effect.vector))
    if isinstance(effect, fx.SetDeadline):
        return fx.SetDeadline(effect.key, effect.at_ms, list(effect.replaces))
    if isinstance(effect, fx.RemoveObserved):
        return fx.RemoveObserved(effect.key, dict(effect.vector), effect.with_deadlines)
    if isinstance(effect, fx.Configure):
        values = (effect.duration_s, effect.maxsize)
        return fx.Configure(effect.key, *values, list(effect.replaces), dict(effect.vector))
    assert isinstance(effect, (fx.SetId, fx.DestroyGroup)), "it has nothing that changes"
    return effect


def receive(
    keyspace: Keyspace, effect: Plain, dot: Dot, now_ms: int = 0, is_own: bool = False
) -> None:
    """Applies one effect and moves the vector, as a merge does."""
    apply(keyspace, effect_of(effect, dot), dot[0], dot[1], now_ms, is_own)
    keyspace.vector[dot[0]] = dot[1]


# -- from crdt to the values that the model compares


def dots_in(spans: SpansByRegion) -> set[Dot]:
    return {
        (region_id, counter)
        for region_id, each in spans.items()
        for counter in counters_of(zip(each.starts, each.ends, strict=True))
    }


def converged(keyspace: Keyspace) -> dict[bytes, Contents]:
    """The counterpart of `Model.converged` for a keyspace."""
    result: dict[bytes, Contents] = {}
    for key, stream in keyspace.keys.items():
        entries = {
            (entry.region_id, entry.counter): (entry.entry_id, tuple(entry.fields))
            for entry in forward(stream.logs, 0, MAX_ID, -1).listed()
        }
        assert len(entries) == stream.length()
        header = {
            (region_id, counter): entry_id
            for region_id, (counter, entry_id) in stream.header.heads.items()
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


def kept(keyspace: Keyspace) -> dict[object, object]:
    """The counterpart of `Model.kept` for a keyspace."""
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


def locals_of(keyspace: Keyspace) -> Locals:
    """The counterpart of `Model.locals` for a keyspace."""
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
            result[key, name] = Held(
                floor, state.raised_id, dots_in(state.given), dropped, pel, set(state.consumers)
            )
    return result


# -- the region in both forms


class Sent(NamedTuple):
    """An effect in transit between regions."""

    effect: Plain
    dot: Dot


def snapshot_bytes(keyspace: Keyspace, bytes_max: int = 1 << 16) -> list[bytes]:
    """A snapshot of the keyspace, in chunks of about `bytes_max` bytes."""
    return list(SnapshotCut(keyspace, 0).chunks(bytes_max))


class Twin(Commands[Sent]):
    """One region in both forms: `keyspace`, and `model`, which is nothing but the twin."""

    def __init__(self, region_id: int, limits: Optional[NodeLimits] = None) -> None:
        self.region_id = region_id
        self.limits = limits or NodeLimits()
        self.keyspace = Keyspace(region_id, self.limits)
        self.model = Model(region_id)
        self.log: list[Sent] = []
        # (number of effects applied before the record, the record).
        self.records: list[tuple[int, LocalRecord]] = []

    @property
    def clock_ms(self) -> int:
        """The clock of the region."""
        return self.model.state.clock_ms

    @clock_ms.setter
    def clock_ms(self, clock_ms: int) -> None:
        self.model.state.clock_ms = clock_ms

    def run(self, *argv: bytes) -> list[Sent]:
        """Runs a command in this region. Returns its effects, to be sent."""
        return self._follow(self.model.run(*argv))

    def issue(self, effects: Sequence[Plain]) -> list[Sent]:
        """Issues effects in this region. Returns them, to be sent."""
        return self._follow(self.model.issue(effects))

    def expire_now(self, key: bytes) -> list[Sent]:
        """The removal after a passed deadline (S10.3, S10.6)."""
        return self.issue(self.model.expiry(key))

    def announce(self, key: bytes, group: bytes) -> list[Sent]:
        """The announcement of a sync round (S8.1)."""
        return self.issue(self.model.announcement(key, group))

    def _follow(self, effects: list[Plain]) -> list[Sent]:
        """Applies to the keyspace what the model has issued."""
        sent = []
        for effect in effects:
            counter = self.keyspace.vector.get(self.region_id, 0) + 1
            each = Sent(effect, (self.region_id, counter))
            if isinstance(effect, Add) and effect.pairing is None:
                self._add(effect, each.dot)
            else:
                receive(self.keyspace, effect, each.dot, self.clock_ms, True)
            self.log.append(each)
            sent.append(each)
        return sent

    def _add(self, effect: Add, dot: Dot) -> None:
        """Adds to the keyspace by the function that an engine uses for its own plain adds."""
        add(
            self.keyspace,
            self.keyspace.get_or_create(effect.key),
            effect.entry_id >> 64,
            effect.entry_id & ((1 << 64) - 1),
            dot[1],
            encode_names(effect.fields[::2]),
            encode_values(effect.fields[1::2]),
        )
        self.keyspace.vector[dot[0]] = dot[1]

    def receive(self, sent: Sent) -> None:
        """Applies an effect that a peer sent, unless it is already applied.

        After a restore, peers also send back effects of this region.
        """
        if not covers(self.model.vector, sent.dot):
            self.model.apply(sent.effect, sent.dot)
            receive(self.keyspace, sent.effect, sent.dot, self.clock_ms, False)
            self.log.append(sent)

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
        self.model.join(other.model)
        have = {sent.dot for sent in self.log}
        self.log += [sent for sent in other.log if sent.dot not in have]

    def collect(self, stable: Vector) -> None:
        """Collects in both forms as if `stable` were stable."""
        for stream in list(self.keyspace.keys.values()):
            collect(self.keyspace, stream, stable)
            self.keyspace.drop_if_empty(stream)
        collect_flush(self.keyspace, stable)
        self.model.collect(stable)

    def check(self) -> None:
        """Asserts that both forms hold the same state."""
        assert self.keyspace.vector == self.model.vector
        assert converged(self.keyspace) == self.model.converged()
        assert kept(self.keyspace) == self.model.kept()
        assert locals_of(self.keyspace) == self.model.locals()
        assert self.keyspace.keys.keys() == self.model.keys.keys()
        for name, key in self.model.keys.items():
            # A region may have forgotten with the key what was trimmed in a former life of it.
            told = trimmed_of(self.keyspace.keys[name])
            most = dict(key.removed_most)
            raise_to(most, key.ever_trimmed)
            assert includes(told, key.trimmed) and includes(most, told)
        for name, key in self.model.keys.items():
            for group in key.groups:
                self._check_group(name, group)

    def _check_group(self, name: bytes, group_name: bytes) -> None:
        """Compares the entries that `>` would deliver, and the next announcement.

        The announcements may differ in counters that belong to no present entry.
        """
        key, stream = self.model.keys[name], self.keyspace.keys[name]
        expected, group = key.groups[group_name], stream.groups[group_name]
        waiting = undelivered(key, expected)
        taken = handout.Handout(stream, group).read(0).listed()
        assert [(e.entry_id, (e.region_id, e.counter), e.fields) for e in taken] == [
            (e.entry_id, e.dot, e.fields) for e in waiting
        ]
        assert handout.lag(stream, group) == len(waiting)
        assert handout.exists(stream, group) == bool(waiting)
        acked = expected.acked()
        due = runs(key, expected, acked)
        announced = dots_in(acknowledge.announceable(stream, group))
        assert (announced | acked) & key.entries.keys() == (due | acked) & key.entries.keys()
        assert bool(announced) == bool(due)
        if announced or due:
            assert (name, group_name) in self.keyspace.acknowledgeable

    # -- local steps, each as a local record in both forms

    def _record(self, make: Callable[[RecordHead], LocalRecord], record: records.Record) -> None:
        head = RecordHead(record.key, record.group, sorted(record.creates), self.clock_ms)
        apply_record(self.model.state, record)
        made = make(head)
        apply_local(self.keyspace, made)
        self.records.append((len(self.log), made))

    def has_group(self, key: bytes, group: bytes) -> bool:
        return key in self.model.keys and group in self.model.keys[key].groups

    def read(
        self,
        name: bytes,
        group: bytes,
        consumer: bytes = b"c",
        count: int = -1,
        no_ack: bool = False,
    ) -> list[Entry]:
        """XREADGROUP with `>`. A negative `count` means all."""
        key, stream = self.model.keys[name], self.keyspace.keys[name]
        entries = undelivered(key, key.groups[group])
        entries = cut_at(self.model.state, entries, count if count >= 0 else len(entries))
        taking = handout.Handout(stream, stream.groups[group])
        read = taking.read(max(count, 0)).listed()
        assert [(each.region_id, each.counter) for each in read] == [one.dot for one in entries]
        if entries:
            refs = [ref_of(one.dot, one.entry_id) for one in entries]
            now_ms, given = self.clock_ms, handed(key, entries)
            self._record(
                lambda head: local.Delivered(head, consumer, refs, taking.end(), 0, no_ack),
                records.Delivered(key, group, now_ms, consumer, given, no_ack),
            )
        return entries

    def acknowledge(self, name: bytes, group: bytes, entry_ids: set[int]) -> int:
        """XACK. Returns the number of entries acknowledged."""
        key = self.model.keys[name]
        pel = sorted(key.groups[group].local.pel.items())
        left = {dot: one.entry_id for dot, one in pel if one.entry_id in entry_ids}
        if left:
            refs = [ref_of(dot, entry_id) for dot, entry_id in left.items()]
            self._record(
                lambda head: local.Removed(head, refs),
                records.LeftPel(key, group, self.clock_ms, list(left)),
            )
        return len(left)

    def claim(self, name: bytes, group: bytes, consumer: bytes, entry_id: int) -> None:
        """XCLAIM FORCE of all entries with the ID."""
        key, now_ms = self.model.keys[name], self.clock_ms
        pel = key.groups[group].local.pel
        claims: list[Pending] = []
        for entry in key.with_id(entry_id):
            deliveries = pel[entry.dot].deliveries + 1 if entry.dot in pel else 1
            claims.append(Pending(entry.dot, entry_id, consumer, now_ms, deliveries))
        claimed = [Claim(ref_of(one.dot, entry_id), now_ms, one.deliveries) for one in claims]
        self._record(
            lambda head: local.Claimed(head, consumer, claimed),
            records.Claimed(key, group, now_ms, consumer, claims),
        )

    def delete_consumer(self, name: bytes, group: bytes, consumer: bytes) -> None:
        """XGROUP DELCONSUMER."""
        self._record(
            lambda head: local.ConsumerDeleted(head, consumer),
            records.ConsumerDeleted(self.model.keys[name], group, self.clock_ms, consumer),
        )

    def set_floor(self, name: bytes, group: bytes, floor: Start) -> None:
        """XGROUP SETID."""
        key = self.model.keys[name]
        if isinstance(floor, int):
            place, start = Place(True, floor, {}), at_id(floor)
        else:
            place, start = Place(False, 0, dict(floor)), at_counters(dict(floor))
        ends = {region_id: key.last_not_above(region_id, place) for region_id in key.logs}
        below = [
            ref_of((region_id, counter), key.entries[region_id, counter].entry_id)
            for region_id, counter in ends.items()
            if counter
        ]
        self._record(
            lambda head: local.FloorSet(head, start, below, 0),
            records.FloorSet(key, group, self.clock_ms, place, ends, None),
        )

    def raise_floor(self, name: bytes, group: bytes, last_id: int) -> None:
        """XCLAIM LASTID."""
        self._record(
            lambda head: local.FloorRaised(head, last_id),
            records.FloorRaised(self.model.keys[name], group, self.clock_ms, last_id),
        )


def ref_of(dot: Dot, entry_id: int) -> EntryRef:
    return entry_ref(dot[0], dot[1], entry_id)


def equal(one: Twin, other: Twin) -> bool:
    """Whether the converged states are equal; digest and model must agree on that."""
    is_equal = one.model.converged() == other.model.converged()
    assert (one.keyspace.digest() == other.keyspace.digest()) == is_equal, (
        "digest and model disagree on equality"
    )
    return is_equal


def trimmed_of(stream: Stream) -> Vector:
    """region_id → the counter up to which that log was trimmed, where it was."""
    return {region_id: log.trimmed for region_id, log in stream.logs.items() if log.trimmed}


def assert_equal(one: Twin, other: Twin) -> None:
    assert one.model.converged() == other.model.converged()
    assert one.keyspace.digest() == other.keyspace.digest()
