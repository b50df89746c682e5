"""The commands of a region, each as the unit of effects that SEMANTICS requires of it.

Each command reads the state that the region observes, and returns the operations to apply one
after the other. The list is empty where a command changes nothing (S1, "Effect").
"""

from __future__ import annotations

from typing import Optional

from anabranch.crdt import ids
from tests.oracles import naive_log
from tests.oracles.naive_log import Dot, Fields
from tests.oracles.naive_stream import (
    Acknowledge,
    Add,
    Create,
    Deadline,
    Delete,
    Destroy,
    Flush,
    NaiveKey,
    NaiveRegion,
    Op,
    Remove,
    RemoveObserved,
    SetId,
    Start,
    Trim,
    Vector,
    is_above,
)

NEVER = (1 << 64) - 1


def naive_generate(region_id: int, last_id: int, now_ms: int) -> int:
    """S4.1 by search: the smallest congruent seq in that ms, or else the first in the next ms."""
    ms = max(now_ms, last_id >> 64)
    seq = region_id
    if ms == last_id >> 64:
        last_seq = last_id & ids.MAX_HALF
        seq += max(0, (last_seq - region_id) // 1000) * 1000
        while seq <= last_seq:
            seq += 1000
        if seq > ids.MAX_HALF:
            ms, seq = ms + 1, region_id
    if ms > ids.MAX_HALF:
        raise ids.IdError(ids.ERR_EXHAUSTED)
    return ms << 64 | seq


class NaiveEngine:
    """Commands of one region at one time, over its naive state.

    `clock_ms` is the region's clock. The counter of the next effect follows from the vector.
    """

    def __init__(self, region: NaiveRegion, clock_ms: int) -> None:
        self.region = region
        self.clock_ms = clock_ms

    def stream(self, key: bytes) -> NaiveKey:
        """The state of a key, empty if the region does not know it."""
        return self.region.keys.get(key) or NaiveKey()

    def is_hidden(self, key: bytes) -> bool:
        """Whether a passed deadline hides the key (S10.2)."""
        winner = self.stream(key).winning_deadline()
        return winner is not None and winner[1] != NEVER and self.clock_ms > winner[1]

    def exists(self, key: bytes) -> bool:
        """Whether the key exists for clients (S3.1)."""
        return self.stream(key).is_present() and not self.is_hidden(key)

    def vector_after(self, before: list[Op]) -> Vector:
        """The region's vector after `before`, the earlier effects of the same unit (S1)."""
        vector = dict(self.region.vector)
        if before:
            vector[self.region.region_id] = vector.get(self.region.region_id, 0) + len(before)
        return vector

    def creating(self, key: bytes) -> list[Op]:
        """The effects with which a write that creates a key begins (S10.5).

        They remove the remains of the absent or hidden key.
        """
        stream = self.stream(key)
        if self.exists(key):
            return []
        left = (
            stream.entries,
            stream.header,
            stream.creates,
            stream.deadlines,
            stream.configurations,
            stream.pairs,
        )
        if not any(left):
            return []
        unit: list[Op] = [RemoveObserved(key, self.vector_after([]), True)]
        if stream.deadlines:
            unit.append(Deadline(key, NEVER, ()))
        return unit

    # -- commands

    def add(
        self,
        key: bytes,
        fields: Fields = (b"f", b"v"),
        entry_id: int = 0,
        pid: bytes = b"",
        iid: bytes = b"",
    ) -> list[Op]:
        """XADD with `entry_id`, or with `*` if that is 0; with a pair if `pid` is not empty."""
        unit = self.creating(key)
        last_id = 0 if unit else self.stream(key).last_id()
        given = entry_id or naive_generate(self.region.region_id, last_id, self.clock_ms)
        if given <= last_id:
            return []
        vector = self.vector_after(unit) if pid else {}
        unit.append(Add(key, given, fields, pid, iid, self.clock_ms if pid else 0, vector))
        return unit

    def delete_entry(self, key: bytes, entry_id: int) -> list[Op]:
        """XDEL of one ID."""
        if not self.exists(key):
            return []
        dots = tuple(
            sorted(dot for dot, (each, _) in self.stream(key).entries.items() if each == entry_id)
        )
        return [Remove(key, dots)] if dots else []

    def trim(self, key: bytes, length_max: int, drops_references: bool = False) -> list[Op]:
        """XTRIM MAXLEN; with DELREF if `drops_references`."""
        if not self.exists(key):
            return []
        prefix = naive_log.trim_to_length(self.stream(key).listed(), length_max)
        return [Trim(key, prefix, drops_references)] if prefix else []

    def delete(self, key: bytes) -> list[Op]:
        """DEL."""
        return [Delete(key, self.vector_after([]))] if self.exists(key) else []

    def flush(self) -> list[Op]:
        """FLUSHALL."""
        return [Flush(self.vector_after([]))]

    def set_id(self, key: bytes, entry_id: int) -> list[Op]:
        """XSETID."""
        return (
            [SetId(key, entry_id)]
            if self.exists(key) and entry_id >= self.stream(key).last_id()
            else []
        )

    def create(self, key: bytes, group: bytes, start_id: Optional[int]) -> list[Op]:
        """XGROUP CREATE … MKSTREAM."""
        if self.exists(key) and group in self.stream(key).creates:
            return []
        unit = self.creating(key)
        return [*unit, Create(key, group, start_id, self.vector_after(unit))]

    def destroy(self, key: bytes, group: bytes) -> list[Op]:
        """XGROUP DESTROY."""
        return (
            [Destroy(key, group)] if self.exists(key) and group in self.stream(key).creates else []
        )

    def expire_at(self, key: bytes, at_ms: int) -> list[Op]:
        """EXPIREAT with a time in the future (Unix time in ms), or PERSIST if `at_ms` is NEVER."""
        if not self.exists(key):
            return []
        winner = self.stream(key).winning_deadline()
        if at_ms == (winner[1] if winner else NEVER):
            return []
        return [Deadline(key, at_ms, tuple(sorted(self.stream(key).deadlines)))]

    def expire_now(self, key: bytes) -> list[Op]:
        """The removal after a passed deadline (S10.3).

        If the key holds nothing but deadlines, it removes these (S10.6).
        """
        stream = self.stream(key)
        if not self.is_hidden(key):
            return []
        contents = (
            stream.entries,
            stream.header,
            stream.creates,
            stream.configurations,
            stream.pairs,
        )
        return [RemoveObserved(key, self.vector_after([]), not any(contents))]

    def announce(self, key: bytes, group: bytes) -> list[Op]:
        """The acknowledgements of a sync round (S8.1)."""
        stream = self.stream(key)
        if group not in stream.creates:
            return []
        runs = announceable(stream, group)
        return [Acknowledge(key, group, tuple(sorted(stream.creates[group])), runs)] if runs else []

    def rename(self, source: bytes, target: bytes) -> list[Op]:
        """S10.1, without IDMP."""
        if source == target or not self.exists(source):
            return []
        stream, there = self.stream(source), self.stream(target)
        unit: list[Op] = [Delete(source, self.vector_after([]))]
        if self.exists(target):
            unit.append(Delete(target, self.vector_after(unit)))
        if (
            there.entries
            or there.header
            or there.creates
            or there.deadlines
            or there.configurations
            or there.pairs
        ):
            unit.append(RemoveObserved(target, self.vector_after(unit), True))
        if there.deadlines:
            unit.append(Deadline(target, NEVER, ()))
        copied = 0
        for entry in naive_log.logical(stream.listed()):
            if entry.entry_id > copied:
                unit.append(Add(target, entry.entry_id, entry.fields))
                copied = entry.entry_id
        unit.append(SetId(target, stream.last_id()))
        winner = stream.winning_deadline()
        if winner is not None:
            unit.append(Deadline(target, winner[1], ()))
        return unit


def counter_below(stream: NaiveKey, region_id: int, start: Start) -> int:
    """The counter of the log's last entry that is not above `start`, 0 if there is none (S8.1)."""
    below = [
        dot[1]
        for dot, (entry_id, _) in stream.entries.items()
        if dot[0] == region_id and not is_above(start, dot, entry_id)
    ]
    return max(below, default=0)


def announceable(stream: NaiveKey, group: bytes) -> dict[int, frozenset[int]]:
    """The runs of S8.1, as counters by region: the content of one announcement.

    Empty if there is nothing to announce.
    """
    local = stream.local(group)
    acked = stream.acked(group)
    starts = [create.start for create in stream.creates[group].values()]
    result: dict[int, frozenset[int]] = {}
    for region_id in sorted({dot[0] for dot in stream.entries}):
        log = sorted(dot for dot in stream.entries if dot[0] == region_id)
        begins = {min(counter_below(stream, region_id, start) for start in starts)}
        floor = (
            min(begins) if local.floor is None else counter_below(stream, region_id, local.floor)
        )
        begins.add(max(floor, counter_below(stream, region_id, local.raised_id)))
        begins |= {
            dot[1] for dot in acked if dot[0] == region_id and (region_id, dot[1] + 1) not in acked
        }
        begins |= {dot[1] for dot in local.dropped if dot[0] == region_id and dot in stream.entries}
        counters: set[int] = set()
        for begin in begins:
            run: list[Dot] = []
            for dot in log:
                if dot[1] <= begin:
                    continue
                if dot not in local.given or dot in local.pel or dot in local.dropped:
                    break
                run.append(dot)
            if any(dot not in acked for dot in run):
                counters |= set(range(begin + 1, run[-1][1] + 1))
        if counters:
            result[region_id] = frozenset(counters)
    return result


def deliverable(stream: NaiveKey, group: bytes) -> list[naive_log.NaiveEntry]:
    """The entries that `XREADGROUP … >` would deliver in this region, in order (S7.3)."""
    given = stream.local(group).given
    return [
        entry
        for entry in naive_log.logical(stream.listed())
        if (entry.region_id, entry.counter) not in given
        and stream.is_above_floor(group, (entry.region_id, entry.counter), entry.entry_id)
    ]


def deliver(
    stream: NaiveKey,
    group: bytes,
    entry: naive_log.NaiveEntry,
    consumer: bytes,
    now_ms: int,
    no_ack: bool,
) -> None:
    """Delivers one entry (S7.3, S8.3).

    The span from the preceding entry of that log up to this one becomes given. The entry becomes
    pending, unless `no_ack`.
    """
    local = stream.local(group)
    before = max(
        (dot[1] for dot in stream.entries if dot[0] == entry.region_id and dot[1] < entry.counter),
        default=0,
    )
    local.given |= {(entry.region_id, counter) for counter in range(before + 1, entry.counter + 1)}
    dot = (entry.region_id, entry.counter)
    local.dropped.discard(dot)
    if not no_ack:
        local.pel[dot] = (entry.entry_id, consumer, now_ms, 1)
