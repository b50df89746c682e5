"""Local group state (S6.5): the state of a group that one region keeps and never replicates.

It consists of the floor, given spans, PELs, consumers, and the entries that DELCONSUMER dropped.
The given entries of a region log are nearly always one span, so its end serves as a cursor.
`memos` remember where that end lies in the log, so that a read needs no search.
"""

from __future__ import annotations

from typing import Final, Optional

from mypy_extensions import mypyc_attr

from anabranch.crdt.cursor import LogCursor
from anabranch.crdt.pel import Pel
from anabranch.crdt.pel_chunk import EntryRef
from anabranch.crdt.place import Place
from anabranch.crdt.region_log import RegionLog
from anabranch.crdt.spans import Spans, SpansByRegion
from anabranch.crdt.vector import Vector, raise_to


@mypyc_attr(acyclic=True)
class Consumer:
    """A named reader of a group, in this region alone."""

    def __init__(self, name: bytes, now_ms: int) -> None:
        self.name = name
        # Time of the last attempt to read or claim, ms since the epoch.
        self.seen_ms = now_ms
        # Time of the last delivery or claim; -1: never.
        self.active_ms = -1


@mypyc_attr(acyclic=True)
class ReadMemo:
    """The place in one region log up to which no entry is left to deliver.

    `reached` is its counter. `cursor` is a hint: it stands where a read stopped, so that the next
    one can go on there if the log allows it (`LogCursor.resume`).
    """

    def __init__(self, reached: int, cursor: LogCursor) -> None:
        self.reached: Final = reached
        self.cursor: Final = cursor


@mypyc_attr(acyclic=True)
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
        # Memo, region_id → the place where reading of that log stopped. Entries arrive in ascending
        # counters, so the memo holds until a floor, a start or a span moves back.
        self.memos: dict[int, ReadMemo] = {}
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

    def assign(
        self, entry: EntryRef, consumer: bytes, delivered_ms: int, deliveries: int, now_ms: int
    ) -> None:
        """Makes an entry pending for its consumer, and takes the entry from any other consumer.

        Replay applies a local record after the block that was open when the record arose. So a
        record can be older than a trim with DELREF in that block. References that the trim dropped
        stay dropped.
        """
        if entry.counter <= self.references_dropped.get(entry.region_id, 0):
            return
        self.consumer(consumer, now_ms)
        self.pel.assign(entry, consumer, delivered_ms, deliveries)
        self.no_longer_dropped(entry.region_id, entry.counter)

    def assign_all(self, entries: list[EntryRef], consumer: bytes, now_ms: int) -> None:
        """Makes entries pending for a consumer, delivered now and once, as `assign` does."""
        if self.references_dropped:
            dropped = self.references_dropped
            entries = [one for one in entries if one.counter > dropped.get(one.region_id, 0)]
        if not entries:
            return
        self.consumer(consumer, now_ms)
        self.pel.assign_all(entries, consumer, now_ms)
        if self.dropped:
            for entry in entries:
                self.no_longer_dropped(entry.region_id, entry.counter)

    def no_longer_dropped(self, region_id: int, counter: int) -> None:
        """Notes that an entry is delivered or claimed again, so that it may be announced (S8.1)."""
        dropped = self.dropped.get(region_id)
        if dropped is not None:
            dropped.discard(counter)
            if not dropped:
                del self.dropped[region_id]

    def drop_references(self, region_id: int, counter: int) -> None:
        """Takes the entries of a region log up to `counter` out of the PEL.

        This is the effect of a trim with DELREF (S5.2).
        """
        raise_to(self.references_dropped, {region_id: counter})
        self.pel.remove_counters(region_id, 0, counter)

    def unassign_covered(self, region_id: int, spans: Spans) -> None:
        """Takes the entries of a region log whose counter lies in `spans` out of the PEL."""
        for index in range(len(spans.starts)):
            self.pel.remove_counters(region_id, spans.starts[index], spans.ends[index])

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
        if self.consumers.pop(name, None) is None:
            return -1
        entries = self.pel.remove_consumer(name)
        for region_id, counter in entries:
            self.dropped.setdefault(region_id, set()).add(counter)
        return len(entries)
