"""The groups of a key in one region: the reply of CRDT.GROUPS."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from anabranch.answers import vector_of
from anabranch.crdt.spans import SpansByRegion
from anabranch.crdt.vector import Dot, Vector
from anabranch.study.replies import parts, spans


class PendingEntry(NamedTuple):
    """An entry in the PEL of a group."""

    entry_id: str
    consumer: bytes
    deliveries: int


class GroupState:
    """One group: its live creates with their starts, its floors, and sets of counters.

    `first_pending` are the oldest pending entries, as many as were asked for, and `first_dropped`
    the first dropped ones; `pending` and `dropped` hold all. `consumers` are (name, pending
    entries). `raised_to` is an entry ID, 0 if there is none.
    """

    def __init__(self, reply: Any) -> None:
        facts = parts.fields_of(reply)
        floor, raised = facts["floor"], facts["raised-to"]
        self.name: Final = parts.raw(facts["name"])
        self.creates: Final[dict[Dot, parts.ToldPlace]] = {
            parts.dot_of(dot): parts.told_place(start) for dot, start in facts["creates"]
        }
        self.floor: Final = None if floor is None else parts.told_place(floor)
        self.raised_to: Final = 0 if raised is None else parts.id_of(raised)
        self.floor_counters: Final = vector_of(facts["floor-counters"])
        self.given_spans: Final = spans.triples_of(facts["given"])
        self.acked_spans: Final = spans.triples_of(facts["acked"])
        self.given: Final = spans.spans_of(self.given_spans)
        self.acked: Final = spans.spans_of(self.acked_spans)
        self.first_dropped: Final = frozenset(parts.dots_of(facts["dropped"]))
        self.dropped: Final = spans.spans_of(facts["dropped-spans"])
        consumers = ((parts.raw(name), int(count)) for name, count in facts["consumers"])
        self.consumers: Final = list(consumers)
        self.pending_count: Final = int(facts["pending-count"])
        self.first_pending: Final = {
            parts.dot_of(one): PendingEntry(parts.word(one[2]), parts.raw(one[3]), int(one[5]))
            for one in facts["pending"]
        }
        self.pending: Final = spans.spans_of(facts["pending-spans"])
        self.last_delivered_id: Final = parts.word(facts["last-delivered-id"])
        self.lag: Final = int(facts["lag"])

    def handed_out(self) -> SpansByRegion:
        """Counters that are given, or pending without that, after XCLAIM with FORCE (S7.4)."""
        return spans.union(self.given, self.pending)

    def unannounced(self) -> SpansByRegion:
        """Counters that are given, and neither pending, dropped nor announced: acknowledged here.

        They may hold entries that were removed before they were delivered.
        """
        return spans.minus(self.given, spans.union(self.acked, self.pending, self.dropped))


class KeyGroups:
    """The groups of a key by name, and (name, vector) of its group tombstones."""

    def __init__(self, reply: Any) -> None:
        facts = parts.fields_of(reply)
        self.groups: Final = {one.name: one for one in map(GroupState, facts["groups"])}
        self.tombstones: Final[list[tuple[bytes, Vector]]] = [
            (parts.raw(name), vector_of(seen)) for name, seen in facts["group-tombstones"]
        ]
