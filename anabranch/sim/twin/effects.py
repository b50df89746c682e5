"""Effects as the twin compares them.

The classes of `crdt.effects` are the wire contract, and the twin issues the same. Only adds are
simpler here: a run of adds becomes single adds with plain fields.
"""

from __future__ import annotations

from typing import Final, Optional, Union

from anabranch.crdt.effects import (
    Acknowledge,
    AddIdempotent,
    AddRun,
    Configure,
    CreateGroup,
    Delete,
    DestroyGroup,
    Effect,
    Flush,
    RemoveEntries,
    RemoveObserved,
    SetDeadline,
    SetId,
    Trim,
)
from anabranch.crdt.ids import format_id
from anabranch.crdt.node import decode_fields, names_end
from anabranch.crdt.scan import SAME_NAMES, Scan
from anabranch.sim.twin.vectors import Dot, Vector


class Pairing:
    """The idempotency part of an add (S9): producer, iid, time recorded, what the adder had."""

    def __init__(self, pid: bytes, iid: bytes, recorded_ms: int, vector: Vector) -> None:
        self.pid: Final = pid
        self.iid: Final = iid
        self.recorded_ms: Final = recorded_ms
        self.vector: Final = vector


class Add:
    """One add. `fields`: field, value, field, value, …"""

    def __init__(
        self, key: bytes, entry_id: int, fields: list[bytes], pairing: Optional[Pairing] = None
    ) -> None:
        self.key: Final = key
        self.entry_id: Final = entry_id
        self.fields: Final = fields
        self.pairing: Final = pairing


class Announce:
    """`Acknowledge` with plain counters. `ids`: the entry IDs of the ends of its spans, by dot."""

    def __init__(
        self, key: bytes, group: bytes, creates: list[Dot], counters: set[Dot], ids: dict[Dot, int]
    ) -> None:
        self.key: Final = key
        self.group: Final = group
        self.creates: Final = creates
        self.counters: Final = counters
        self.ids: Final = ids


Plain = Union[
    Add,
    Announce,
    RemoveEntries,
    Trim,
    Delete,
    Flush,
    SetId,
    CreateGroup,
    DestroyGroup,
    SetDeadline,
    RemoveObserved,
    Configure,
]


def plain(first: int, effects: list[Effect]) -> list[tuple[int, Plain]]:
    """(counter, effect) of each dot; `first` is the counter of the first one."""
    found: list[tuple[int, Plain]] = []
    counter = first
    for effect in effects:
        if isinstance(effect, AddRun):
            for add in _adds(effect):
                found.append((counter, add))
                counter += 1
            continue
        if isinstance(effect, AddIdempotent):
            pairing = Pairing(effect.pid, effect.iid, effect.recorded_ms, effect.vector)
            fields = decode_fields(effect.names, effect.values)
            found.append((counter, Add(effect.key, effect.entry_id, fields, pairing)))
        elif isinstance(effect, Acknowledge):
            found.append((counter, _announced(effect)))
        else:
            found.append((counter, effect))
        counter += 1
    return found


def _adds(run: AddRun) -> list[Add]:
    found: list[Add] = []
    scan = Scan(run.data, run.base_counter)
    while scan.step():
        names, values = run.names, scan.payload()
        if not scan.flags & SAME_NAMES:
            end = names_end(values)
            names, values = values[:end], values[end:]
        found.append(Add(run.key, scan.id(), decode_fields(names, values)))
    return found


def _announced(effect: Acknowledge) -> Announce:
    counters: set[Dot] = set()
    ids: dict[Dot, int] = {}
    for region, spans in effect.spans.items():
        for start, end, end_id in zip(spans.starts, spans.ends, spans.end_ids, strict=True):
            counters.update((region, counter) for counter in range(start + 1, end + 1))
            if end_id:
                ids[(region, end)] = end_id
    return Announce(effect.key, effect.group, effect.creates, counters, ids)


def content(effect: Plain) -> tuple[object, ...]:
    """The content of an effect as comparable and readable values."""
    if isinstance(effect, Add):
        words: tuple[object, ...] = (effect.key, format_id(effect.entry_id), *effect.fields)
        one = effect.pairing
        if one is None:
            return ("add", *words)
        return ("add", *words, one.pid, one.iid, one.recorded_ms, _vector(one.vector))
    if isinstance(effect, RemoveEntries):
        return ("remove entries", effect.key, sorted(effect.dots))
    if isinstance(effect, Trim):
        return ("trim", effect.key, _vector(effect.prefix), effect.drops_references)
    if isinstance(effect, Delete):
        return ("delete", effect.key, _vector(effect.vector))
    if isinstance(effect, Flush):
        return ("flush", _vector(effect.vector))
    if isinstance(effect, SetId):
        return ("set id", effect.key, format_id(effect.entry_id))
    if isinstance(effect, CreateGroup):
        start = b"$" if effect.starts_at_vector else format_id(effect.start_id)
        return ("create group", effect.key, effect.group, start, _vector(effect.vector))
    if isinstance(effect, DestroyGroup):
        return ("destroy group", effect.key, effect.group)
    if isinstance(effect, SetDeadline):
        return ("set deadline", effect.key, effect.at_ms, sorted(effect.replaces))
    if isinstance(effect, RemoveObserved):
        return ("remove observed", effect.key, _vector(effect.vector), effect.with_deadlines)
    if isinstance(effect, Announce):
        dots, counters = sorted(effect.creates), sorted(effect.counters)
        return ("acknowledge", effect.key, effect.group, dots, counters)
    values = (effect.duration_s, effect.maxsize, sorted(effect.replaces))
    return ("configure", effect.key, *values, _vector(effect.vector))


def _vector(vector: Vector) -> dict[int, int]:
    return {region: vector[region] for region in sorted(vector) if vector[region]}
