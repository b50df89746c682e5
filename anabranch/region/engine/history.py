"""The history of one key: the rows of the effect log as events, for CRDT.HISTORY and CRDT.EXPLAIN.

The driver reads the rows from the disk (`region/driver/histories.py`), and a `History` makes events
of those that change its key. An event says where and when this region applied it: its position and
clock, and the peer that sent it.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Union

from anabranch.crdt import effects as fx
from anabranch.crdt import ids
from anabranch.crdt.block import Unit, read_units
from anabranch.crdt.local import (
    Claimed,
    ConsumerDeleted,
    ConsumerMade,
    Delivered,
    FloorRaised,
    FloorSet,
    LocalRecord,
    Removed,
    read_records,
)
from anabranch.crdt.node import decode_fields, names_end
from anabranch.crdt.pel_chunk import EntryRef
from anabranch.crdt.scan import SAME_NAMES, Scan, words
from anabranch.crdt.stream import NEVER
from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.region.engine.replies import MapReply, Reply, flat_spans, flat_vector, place_reply
from anabranch.region.engine.rows import BlockRow, LogRow, RecordsRow, SnapshotRow

# Most events that one reply holds.
EVENTS_MAX: Final = 10_000


class Wanted:
    """Which events of a key are wanted.

    `entry_id`: of the entries, only those with this ID; -1: all. `has_entries`: whether adds and
    deliveries are wanted at all. `since_ms` and `until_ms` bound the clock of the rows, inclusive.
    """

    def __init__(
        self,
        key: bytes,
        entry_id: int = -1,
        has_entries: bool = True,
        since_ms: int = 0,
        until_ms: int = ids.MAX_HALF,
    ) -> None:
        self.key: Final = key
        self.entry_id: Final = entry_id
        self.has_entries: Final = has_entries
        self.since_ms: Final = since_ms
        self.until_ms: Final = until_ms


class _Told:
    """One event."""

    count = 1

    def __init__(self, event: Reply) -> None:
        self._event: Final = event

    def events(self) -> list[Reply]:
        return [self._event]


class _ToldRun:
    """The adds of a run, each an event. They become values only if they are in the reply."""

    def __init__(
        self, row: BlockRow, command: bytes, run: fx.AddRun, other_key: list[Reply]
    ) -> None:
        self.count: Final = run.count
        self._row: Final = row
        self._command: Final = command
        self._run: Final = run
        self._other_key: Final = other_key

    def events(self) -> list[Reply]:
        row, run = self._row, self._run
        found: list[Reply] = []
        scan = Scan(run.data, run.base_counter)
        while scan.step():
            facts = [*_added(row, run, scan), *self._other_key]
            found.append(MapReply(_head(row, row.source, self._command, b"add") + facts))
        return found


class History:
    """The events of one key, as far as rows were taken.

    `keeps` is the number of events kept. With `is_newest` these are the last ones, and `left_out`
    counts the others; else they are the first ones, those of the last row in full, and the row
    after which the rest follows is `next_position`, 0 if nothing is left out.
    """

    def __init__(self, wanted: Wanted, keeps: int, is_newest: bool) -> None:
        self.wanted: Final = wanted
        self.next_position = 0
        self._told: Final[deque[Union[_Told, _ToldRun]]] = deque()
        # Events in `_told`, and before them.
        self._held = 0
        self._dropped = 0
        self._floor: Vector = {}
        self._keeps: Final = keeps
        self._is_newest: Final = is_newest
        # Dots of the entries with the wanted ID that the rows add.
        self._dots: Final[set[Dot]] = set()

    @property
    def left_out(self) -> int:
        """How many events came before those of `events`."""
        return self._dropped + max(self._held - self._keeps, 0) if self._is_newest else 0

    def events(self) -> list[Reply]:
        """The events that are kept, oldest first."""
        found: list[Reply] = []
        for told in self._told:
            found += told.events()
        return found[-self._keeps :] if self._is_newest else found

    def reaches(self, floor: Vector) -> None:
        """Takes the vector that the log reaches back to: it holds every effect after it."""
        self._floor = dict(floor)

    def take(self, rows: list[LogRow]) -> bool:
        """Takes the next rows; returns whether more are wanted.

        Raises:
            Malformed: A row is not one that this version writes.
        """
        for row in rows:
            if row.clock_ms < self.wanted.since_ms:
                continue
            if row.clock_ms > self.wanted.until_ms:
                return False
            if isinstance(row, BlockRow):
                self._take_block(row)
            elif isinstance(row, RecordsRow):
                self._take_records(row)
            elif isinstance(row, SnapshotRow):
                self._tell(row, row.source, b"", b"snapshot", [b"vector", flat_vector(row.vector)])
            if not self._is_newest and self._held >= self._keeps:
                self.next_position = row.position
                return False
        return True

    def _tell(
        self, row: LogRow, source: int, command: bytes, kind: bytes, facts: list[Reply]
    ) -> None:
        self._keep(_Told(MapReply(_head(row, source, command, kind) + facts)))

    def _keep(self, told: Union[_Told, _ToldRun]) -> None:
        """Adds events, and drops the oldest ones that the reply will not have."""
        self._told.append(told)
        self._held += told.count
        while self._is_newest and self._held - self._told[0].count >= self._keeps:
            dropped = self._told.popleft().count
            self._held -= dropped
            self._dropped += dropped

    # -- blocks

    def _take_block(self, row: BlockRow) -> None:
        key = self.wanted.key
        for unit in read_units(row.block):
            counter = unit.first
            for effect in unit.effects:
                if fx.key_of(effect) in (key, None):
                    self._take_effect(row, unit, effect, counter)
                counter += fx.dots_of(effect)

    def _take_effect(self, row: BlockRow, unit: Unit, effect: fx.Effect, counter: int) -> None:
        command = unit.command or fx.usual_command(effect)
        origin = row.block.origin
        if isinstance(effect, fx.AddRun):
            if self.wanted.has_entries:
                self._take_run(row, unit, effect)
            return
        if isinstance(effect, fx.AddIdempotent):
            if not self._wants_add(effect.entry_id, (origin, counter)):
                return
        elif isinstance(effect, fx.RemoveEntries) and not self._wants_removal(effect):
            return
        facts: list[Reply] = [b"dot", [origin, counter], *other_key_of(unit, self.wanted.key)]
        kind = describe(effect, facts)
        self._tell(row, row.source, command, kind, facts)

    def _take_run(self, row: BlockRow, unit: Unit, run: fx.AddRun) -> None:
        last_id = run.last_ms << 64 | run.last_seq
        if self.wanted.entry_id > last_id:
            return
        command = unit.command or fx.usual_command(run)
        other_key = other_key_of(unit, run.key)
        if self.wanted.entry_id < 0:
            self._keep(_ToldRun(row, command, run, other_key))
            return
        ms, seq = words(self.wanted.entry_id)
        scan = Scan(run.data, run.base_counter)
        while scan.step():
            if scan.is_from(ms, seq):
                break
        if self._wants_add(scan.id(), (row.block.origin, scan.counter)):
            facts = [*_added(row, run, scan), *other_key]
            self._tell(row, row.source, command, b"add", facts)

    def _wants_add(self, entry_id: int, dot: Dot) -> bool:
        if not self.wanted.has_entries:
            return False
        if self.wanted.entry_id < 0:
            return True
        if self.wanted.entry_id != entry_id:
            return False
        self._dots.add(dot)
        return True

    def _wants_removal(self, effect: fx.RemoveEntries) -> bool:
        """Whether the removal may concern the wanted entry: its add may be older than the log."""
        return self.wanted.entry_id < 0 or any(
            dot in self._dots or covers(self._floor, *dot) for dot in effect.dots
        )

    # -- local records

    def _take_records(self, row: RecordsRow) -> None:
        for record in read_records(row.records):
            if record.head.key == self.wanted.key:
                self._take_record(row, record)

    def _take_record(self, row: RecordsRow, record: LocalRecord) -> None:
        wanted = self.wanted
        facts: list[Reply] = [b"group", record.head.group, b"at-ms", record.head.now_ms]
        entries: list[EntryRef] = []
        if isinstance(record, (Delivered, Removed)):
            entries = record.entries
        elif isinstance(record, Claimed):
            entries = [claim.entry for claim in record.claims]
        if isinstance(record, (Delivered, Removed, Claimed)):
            if wanted.entry_id >= 0:
                entries = [entry for entry in entries if entry.entry_id == wanted.entry_id]
            if not wanted.has_entries or not entries:
                return
            facts += [b"entries", [_entry(entry) for entry in entries]]
        kind = _describe_record(record, facts)
        self._tell(row, 0, b"", kind, facts)


# -- the facts of one effect or record


def _head(row: LogRow, source: int, command: bytes, kind: bytes) -> list[Reply]:
    """The facts with which every event begins."""
    head: list[Reply] = [b"position", row.position, b"clock-ms", row.clock_ms]
    return [*head, b"source", source, b"command", command, b"kind", kind]


def _added(row: BlockRow, run: fx.AddRun, scan: Scan) -> list[Reply]:
    """Dot, ID and fields of the add on which `scan` stands."""
    facts: list[Reply] = [b"dot", [row.block.origin, scan.counter]]
    return [*facts, b"id", ids.format_id(scan.id()), b"fields", fields_in_run(run, scan)]


def fields_in_run(run: fx.AddRun, scan: Scan) -> list[Reply]:
    """Fields and values of the entry of `run` on which `scan` stands."""
    payload = scan.payload()
    names = run.names
    if not scan.flags & SAME_NAMES:
        end = names_end(payload)
        names, payload = payload[:end], payload[end:]
    return [*decode_fields(names, payload)]


def _entry(entry: EntryRef) -> Reply:
    return [entry.region_id, entry.counter, ids.format_id(entry.entry_id)]


def other_key_of(unit: Unit, key: bytes) -> list[Reply]:
    """The other key of a RENAME, as a fact; no fact for a command with one key."""
    if unit.command in (b"rename", b"renamenx"):
        for effect in unit.effects:
            other = fx.key_of(effect)
            if other is not None and other != key:
                return [b"other-key", other]
    return []


def _dots(dots: list[Dot]) -> Reply:
    return [[*dot] for dot in dots]


def describe(effect: fx.Effect, facts: list[Reply], has_fields: bool = True) -> bytes:
    """Appends the facts of an effect, of an add with or without its fields; returns its kind."""
    if isinstance(effect, fx.AddIdempotent):
        facts += [b"id", ids.format_id(effect.entry_id)]
        if has_fields:
            fields: list[Reply] = [*decode_fields(effect.names, effect.values)]
            facts += [b"fields", fields]
        facts += [b"pid", effect.pid, b"iid", effect.iid, b"recorded-ms", effect.recorded_ms]
        return b"add"
    if isinstance(effect, fx.RemoveEntries):
        facts += [b"dots", _dots(effect.dots)]
        return b"remove-entries"
    if isinstance(effect, fx.Trim):
        facts += [b"had-seen", flat_vector(effect.prefix)]
        facts += [b"drops-references", int(effect.drops_references)]
        return b"trim"
    if isinstance(effect, (fx.Delete, fx.Flush)):
        facts += [b"had-seen", flat_vector(effect.vector)]
        return b"delete" if isinstance(effect, fx.Delete) else b"flush"
    if isinstance(effect, fx.RemoveObserved):
        facts += [b"had-seen", flat_vector(effect.vector)]
        return b"remove-observed" if effect.with_deadlines else b"expire"
    if isinstance(effect, fx.SetId):
        facts += [b"id", ids.format_id(effect.entry_id)]
        return b"set-id"
    return _describe_rare(effect, facts)


def _describe_rare(effect: fx.Effect, facts: list[Reply]) -> bytes:
    if isinstance(effect, fx.CreateGroup):
        facts += [b"group", effect.group, b"start", place_reply(effect.start())]
        facts += [b"had-seen", flat_vector(effect.vector)]
        return b"create-group"
    if isinstance(effect, fx.DestroyGroup):
        facts += [b"group", effect.group]
        return b"destroy-group"
    if isinstance(effect, fx.Acknowledge):
        facts += [b"group", effect.group, b"creates", _dots(effect.creates)]
        facts += [b"spans", flat_spans(effect.spans)]
        return b"acknowledge"
    if isinstance(effect, fx.SetDeadline):
        at_ms: Reply = b"never" if effect.at_ms == NEVER else effect.at_ms
        facts += [b"at-ms", at_ms, b"replaces", _dots(effect.replaces)]
        return b"set-deadline"
    assert isinstance(effect, fx.Configure)
    facts += [b"duration-s", effect.duration_s, b"maxsize", effect.maxsize]
    facts += [b"replaces", _dots(effect.replaces), b"had-seen", flat_vector(effect.vector)]
    return b"configure"


def _describe_record(record: LocalRecord, facts: list[Reply]) -> bytes:
    """Appends the facts of a local record; returns its kind."""
    if isinstance(record, Delivered):
        facts += [b"consumer", record.consumer, b"no-ack", int(record.no_ack)]
        return b"delivered"
    if isinstance(record, Claimed):
        times: list[Reply] = [claim.deliveries for claim in record.claims]
        facts += [b"consumer", record.consumer, b"deliveries", times]
        return b"claimed"
    if isinstance(record, Removed):
        return b"left-pel"
    if isinstance(record, ConsumerMade):
        facts += [b"consumer", record.consumer]
        return b"consumer-made"
    if isinstance(record, ConsumerDeleted):
        facts += [b"consumer", record.consumer]
        return b"consumer-deleted"
    if isinstance(record, FloorSet):
        facts += [b"floor", place_reply(record.floor)]
        return b"floor-set"
    assert isinstance(record, FloorRaised)
    facts += [b"floor", ids.format_id(record.last_id)]
    return b"floor-raised"
