"""Local records: changes of a group's local state that are kept on disk and never sent (S13.1).

A record names the creates that were live when it arose. It is void if none of them is live.
"""

from __future__ import annotations

from typing import Final, Optional

from anabranch.sim.twin.state import Consumer, Group, Key, Pending, Place, State
from anabranch.sim.twin.vectors import Dot, covers


class Record:
    """The common part. `creates`: the creates that were live when the record arose."""

    def __init__(self, key: Key, name: bytes, now_ms: int) -> None:
        self.key: Final = key.name
        self.group: Final = name
        self.creates: Final = frozenset(key.groups[name].creates)
        self.now_ms: Final = now_ms

    def change(self, key: Key, group: Group) -> None:
        """Changes the local state of the group."""
        raise NotImplementedError


def apply_record(state: State, record: Record) -> None:
    """Applies a record, now or in a replay."""
    key = state.keys.get(record.key)
    group = key.groups.get(record.group) if key is not None else None
    if key is not None and group is not None and not record.creates.isdisjoint(group.creates):
        record.change(key, group)


class Delivered(Record):
    """Entries were handed out. `entries`: (dot, ID, counter of the entry before it in its log)."""

    def __init__(
        self,
        key: Key,
        name: bytes,
        now_ms: int,
        consumer: bytes,
        entries: list[tuple[Dot, int, int]],
        no_ack: bool,
    ) -> None:
        super().__init__(key, name, now_ms)
        self.consumer: Final = consumer
        self.entries: Final = entries
        self.no_ack: Final = no_ack

    def change(self, key: Key, group: Group) -> None:
        local = group.local
        touch(group, self.consumer, self.now_ms).active_ms = self.now_ms
        for dot, entry_id, before in self.entries:
            region, counter = dot
            local.given |= {(region, one) for one in range(before + 1, counter + 1)}
            key.ids[dot] = entry_id
            local.highest = max(local.highest, entry_id)
            local.dropped.discard(dot)
            local.entries_read = (local.entries_read or 0) + 1
            if not self.no_ack and not covers(local.unreferenced, dot):
                local.pel[dot] = Pending(dot, entry_id, self.consumer, self.now_ms, 1)


class LeftPel(Record):
    """Entries were acknowledged, or found to be deleted."""

    def __init__(self, key: Key, name: bytes, now_ms: int, dots: list[Dot]) -> None:
        super().__init__(key, name, now_ms)
        self.dots: Final = dots

    def change(self, key: Key, group: Group) -> None:
        for dot in self.dots:
            group.local.pel.pop(dot, None)


class Claimed(Record):
    """Entries are pending for a consumer, with new times and counts."""

    def __init__(
        self, key: Key, name: bytes, now_ms: int, consumer: bytes, claims: list[Pending]
    ) -> None:
        super().__init__(key, name, now_ms)
        self.consumer: Final = consumer
        self.claims: Final = claims

    def change(self, key: Key, group: Group) -> None:
        local = group.local
        touch(group, self.consumer, self.now_ms).active_ms = self.now_ms
        for one in self.claims:
            local.dropped.discard(one.dot)
            if not covers(local.unreferenced, one.dot):
                local.pel[one.dot] = Pending(
                    one.dot, one.entry_id, self.consumer, one.delivered_ms, one.deliveries
                )


class ConsumerMade(Record):
    """A consumer exists from now on."""

    def __init__(self, key: Key, name: bytes, now_ms: int, consumer: bytes) -> None:
        super().__init__(key, name, now_ms)
        self.consumer: Final = consumer

    def change(self, key: Key, group: Group) -> None:
        touch(group, self.consumer, self.now_ms)


class ConsumerDeleted(Record):
    """XGROUP DELCONSUMER: its pending entries are dropped (S8.1)."""

    def __init__(self, key: Key, name: bytes, now_ms: int, consumer: bytes) -> None:
        super().__init__(key, name, now_ms)
        self.consumer: Final = consumer

    def change(self, key: Key, group: Group) -> None:
        local = group.local
        for one in local.pending(self.consumer):
            del local.pel[one.dot]
            local.dropped.add(one.dot)
        local.consumers.pop(self.consumer, None)


class FloorSet(Record):
    """XGROUP SETID (S7.4): `forgets` maps region → the counter beyond which given ones go."""

    def __init__(
        self,
        key: Key,
        name: bytes,
        now_ms: int,
        place: Place,
        forgets: dict[int, int],
        entries_read: Optional[int],
    ) -> None:
        super().__init__(key, name, now_ms)
        self.place: Final = place
        self.forgets: Final = forgets
        self.entries_read: Final = entries_read

    def change(self, key: Key, group: Group) -> None:
        local = group.local
        local.floor = self.place
        local.raised = 0
        kept = {dot for dot in local.given if dot[1] <= self.forgets.get(dot[0], 0)}
        local.set_back |= local.given - kept
        local.given, local.highest = kept, 0
        local.entries_read = self.entries_read


class FloorRaised(Record):
    """XCLAIM LASTID."""

    def __init__(self, key: Key, name: bytes, now_ms: int, entry_id: int) -> None:
        super().__init__(key, name, now_ms)
        self.entry_id: Final = entry_id

    def change(self, key: Key, group: Group) -> None:
        group.local.raised = max(group.local.raised, self.entry_id)


def touch(group: Group, name: bytes, now_ms: int) -> Consumer:
    """The consumer, made if need be."""
    consumers = group.local.consumers
    if name not in consumers:
        consumers[name] = Consumer(now_ms)
    return consumers[name]
