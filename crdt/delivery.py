"""Local group state (S6.5): the state of a group that one region keeps and never replicates.

It consists of the floor, given spans, PELs, consumers, and the entries that DELCONSUMER dropped.
The given entries of a region log are nearly always one span, so its end serves as a cursor.
`cursors` remembers that end so that a read needs no search.
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt.pel import Pel, Pending
from anabranch.crdt.place import Place
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.spans import Spans, SpansByRegion
from anabranch.crdt.vector import Vector, raise_to


class Consumer:
    """A named reader of a group, in this region alone."""

    def __init__(self, name: bytes, now_ms: int) -> None:
        self.name = name
        # Time of the last attempt to read or claim, ms since the epoch.
        self.seen_ms = now_ms
        # Time of the last delivery or claim; -1: never.
        self.active_ms = -1
        self.pel = Pel()


class Delivery:
    """The local state of one group."""

    def __init__(self) -> None:
        # The floor that SETID set in this region; None: the group's start is the floor.
        self.floor: Optional[Place] = None
        # The ID to which XCLAIM LASTID raised the floor; 0: not raised. An entry must be above the
        # floor and this ID.
        self.raised_id = 0
        # Handed out here, or acknowledged elsewhere (S7.3).
        self.given: SpansByRegion = {}
        # Dropped by DELCONSUMER and neither delivered nor claimed since: region_id → counters.
        self.dropped: dict[int, set[int]] = {}
        self.pel = Pel()
        self.consumers: dict[bytes, Consumer] = {}
        self.entries_read = 0
        # Memo, region_id → counter: no entry up to this counter is left to deliver. Entries arrive
        # in ascending counters, so the memo holds until a floor, a start or a span moves back.
        self.cursors: dict[int, int] = {}
        # region_id → counter up to which a trim with DELREF dropped the references (S5.2).
        self.references_dropped: Vector = {}

    def consumer(self, name: bytes, now_ms: int) -> Consumer:
        """Returns the consumer of that name; creates the consumer if the name is new."""
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
        """Makes an entry pending for its consumer, and takes the entry from any other consumer.

        Replay applies a local record after the block that was open when the record arose. So a
        record can be older than a trim with DELREF in that block. References that the trim dropped
        stay dropped.
        """
        if pending.counter <= self.references_dropped.get(pending.region_id, 0):
            return
        self.unassign(pending.region_id, pending.counter, pending.entry_id)
        self.pel.add(pending)
        self.consumer(pending.consumer, now_ms).pel.add(pending)
        self.no_longer_dropped(pending.region_id, pending.counter)

    def no_longer_dropped(self, region_id: int, counter: int) -> None:
        """Notes that an entry is delivered or claimed again, so that it may be announced (S8.1)."""
        dropped = self.dropped.get(region_id)
        if dropped is not None:
            dropped.discard(counter)
            if not dropped:
                del self.dropped[region_id]

    def unassign(self, region_id: int, counter: int, entry_id: int) -> bool:
        """Takes an entry out of the PELs; returns whether the entry was pending."""
        pending = self.pel.remove(region_id, counter, entry_id)
        if pending is None:
            return False
        consumer = self.consumers.get(pending.consumer)
        if consumer is not None:
            consumer.pel.remove(region_id, counter, entry_id)
        return True

    def drop_references(self, region_id: int, counter: int) -> None:
        """Takes the entries of a region log up to `counter` out of the PELs.

        This is the effect of a trim with DELREF (S5.2).
        """
        raise_to(self.references_dropped, {region_id: counter})
        for pending in self.pel.covered_by(region_id, 0, counter):
            self.unassign(region_id, pending.counter, pending.entry_id)

    def unassign_covered(self, region_id: int, spans: Spans) -> None:
        """Takes the entries of a region log whose counter lies in `spans` out of the PELs."""
        for index in range(len(spans.starts)):
            for pending in self.pel.covered_by(region_id, spans.starts[index], spans.ends[index]):
                self.unassign(region_id, pending.counter, pending.entry_id)

    def is_dropped(self, region_id: int, counter: int) -> bool:
        dropped = self.dropped.get(region_id)
        return dropped is not None and counter in dropped

    def forget_dropped(self, logs: dict[int, RegionLog]) -> None:
        """Removes deleted entries from `dropped`.

        A deleted entry counts as neither pending nor dropped (S8.1), and its dot never recurs.
        """
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
        """Deletes a consumer and drops its pending entries.

        Returns the number of entries dropped, or -1 if the consumer does not exist.
        """
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return -1
        entries = consumer.pel.everything()
        for pending in entries:
            self.pel.remove(pending.region_id, pending.counter, pending.entry_id)
            self.dropped.setdefault(pending.region_id, set()).add(pending.counter)
        return len(entries)
