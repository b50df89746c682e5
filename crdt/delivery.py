"""Local group state (S6.5): what one region knows of a group and never replicates.

Floors, given spans, PELs, consumers, what DELCONSUMER dropped. Given is nearly always one span per region log, so its end serves as
a cursor; `cursors` remembers it so that a read costs no search.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.pel import Pel, Pending
from anabranch.crdt.place import Place
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.spans import Spans, SpansByRegion
from anabranch.crdt.vector import Vector, raise_to


class Consumer:
    """A named reader of a group, in this region alone (seed 5)."""

    def __init__(self, name: bytes, now_ms: int) -> None:
        self.name = name
        self.seen_ms = now_ms  # last attempt
        self.active_ms = -1  # last delivery or claim; -1: never
        self.pel = Pel()


class Delivery:
    """The local state of one group."""

    def __init__(self) -> None:
        # What SETID said here, instead of the group's start.
        self.floor: Optional[Place] = None
        # What XCLAIM LASTID raised it to; an entry must be above both. 0: nothing.
        self.raised_id = 0
        self.given: SpansByRegion = {}
        # Dropped by DELCONSUMER and neither delivered nor claimed since: region_id → counters.
        self.dropped: dict[int, set[int]] = {}
        self.pel = Pel()
        self.consumers: dict[bytes, Consumer] = {}
        self.entries_read = 0
        # Memo: in that region log nothing with a counter up to this is left to deliver. Entries arrive in ascending counters, so it
        # holds until a floor, a start or what is given moves back.
        self.cursors: dict[int, int] = {}
        # Up to which counter of a region log a trim with DELREF dropped the references (S5.2).
        self.references_dropped: Vector = {}

    def consumer(self, name: bytes, now_ms: int) -> Consumer:
        """That consumer, made if it is new."""
        consumer = self.consumers.get(name)
        if consumer is None:
            consumer = self.consumers[name] = Consumer(name, now_ms)
        return consumer

    def spans_given(self, region_id: int) -> Spans:
        spans = self.given.get(region_id)
        if spans is None:
            spans = self.given[region_id] = Spans()
        return spans

    def assign(self, pending: Pending, now_ms: int) -> None:
        """Makes an entry pending for its consumer, whoever had it before.

        Records are replayed after the block that was open when they arose. So one may be older than
        a trim with DELREF in that block, and does not bring back what the trim dropped.
        """
        if pending.counter <= self.references_dropped.get(pending.region_id, 0):
            return
        self.unassign(pending.region_id, pending.counter, pending.entry_id)
        self.pel.add(pending)
        self.consumer(pending.consumer, now_ms).pel.add(pending)
        self.no_longer_dropped(pending.region_id, pending.counter)

    def no_longer_dropped(self, region_id: int, counter: int) -> None:
        """An entry is delivered or claimed again, so that it may be announced (S8.1)."""
        dropped = self.dropped.get(region_id)
        if dropped is not None:
            dropped.discard(counter)
            if not dropped:
                del self.dropped[region_id]

    def unassign(self, region_id: int, counter: int, entry_id: int) -> bool:
        """Takes an entry out of the PELs; whether it was there."""
        pending = self.pel.remove(region_id, counter, entry_id)
        if pending is None:
            return False
        consumer = self.consumers.get(pending.consumer)
        if consumer is not None:
            consumer.pel.remove(region_id, counter, entry_id)
        return True

    def drop_references(self, region_id: int, counter: int) -> None:
        """A trim with DELREF: no entry of that region log up to `counter` is pending any more (S5.2)."""
        raise_to(self.references_dropped, {region_id: counter})
        for pending in self.pel.covered_by(region_id, 0, counter):
            self.unassign(region_id, pending.counter, pending.entry_id)

    def unassign_covered(self, region_id: int, spans: Spans) -> None:
        """Takes every entry whose counter lies in `spans` out of the PELs."""
        for index in range(len(spans.starts)):
            for pending in self.pel.covered_by(region_id, spans.starts[index], spans.ends[index]):
                self.unassign(region_id, pending.counter, pending.entry_id)

    def is_dropped(self, region_id: int, counter: int) -> bool:
        dropped = self.dropped.get(region_id)
        return dropped is not None and counter in dropped

    def forget_dropped(self, logs: dict[int, RegionLog]) -> None:
        """A deleted entry counts as neither pending nor dropped (S8.1), and a dot never comes back."""
        for region_id in list(self.dropped):
            log = logs.get(region_id)
            here = (
                set()
                if log is None
                else {counter for counter in self.dropped[region_id] if log.has_counter(counter)}
            )
            if here:
                self.dropped[region_id] = here
            else:
                del self.dropped[region_id]

    def delete_consumer(self, name: bytes) -> int:
        """Forgets a consumer; what was pending for it is dropped. How many entries that were, -1 if there is no such consumer."""
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return -1
        entries = consumer.pel.everything()
        for pending in entries:
            self.pel.remove(pending.region_id, pending.counter, pending.entry_id)
            self.dropped.setdefault(pending.region_id, set()).add(pending.counter)
        return len(entries)
