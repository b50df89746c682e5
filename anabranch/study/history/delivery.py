"""Why an entry is delivered, delivered again, or not delivered, as facts (S6, S7, S8).

Deliveries are local to a region. So the same entry may be delivered in several regions, until an
announced acknowledgement reaches the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Optional, Union

from anabranch.crdt.vector import Dot
from anabranch.study.history.evidence import Evidence
from anabranch.study.replies.events import KeyEvent
from anabranch.study.replies.histories import EntryInGroup, ExplainedHistory
from anabranch.study.replies.parts import ToldPlace

# Kinds of events that change what a whole group delivers.
_RESETS: Final = ("floor-set", "floor-raised", "consumer-deleted", "create-group")


@dataclass(frozen=True)
class DeliveryStep:
    """An event of a group that concerns an entry; the `kind` says which optional facts it has."""

    kind: str
    at_ms: int
    consumer: Optional[bytes] = None
    floor: Optional[ToldPlace] = None
    deliveries: Optional[int] = None
    no_ack: Optional[bool] = None
    effect: Optional[Dot] = None


@dataclass(frozen=True)
class LeavingStep:
    """An entry left the pending ones; `is_acknowledged` None: or it had been removed."""

    kind: str
    at_ms: int
    is_acknowledged: Optional[bool]


AnyStep = Union[DeliveryStep, LeavingStep]


@dataclass(frozen=True)
class Announcement:
    """An announced acknowledgement: who announced it, and when it arrived."""

    effect: Dot
    applied_ms: int
    source: int


@dataclass(frozen=True)
class DeliveryElsewhere:
    """What another region did with the entry."""

    region: int
    steps: list[AnyStep]


@dataclass(frozen=True)
class DeliveryExplanation:
    """The deliveries of an entry in one group."""

    group: bytes
    status: str
    consumer: Optional[bytes]
    here: list[AnyStep]
    acknowledged: list[Announcement]
    elsewhere: list[DeliveryElsewhere]


def explain_deliveries(evidence: Evidence, dot: Dot) -> list[DeliveryExplanation]:
    """The facts of each group of the key, for an entry that is present in the region."""
    return [
        DeliveryExplanation(
            one.group,
            _status(one),
            one.pending_for,
            _steps(evidence.asked, one.group, dot),
            _announcements(evidence.asked, one.group, dot),
            [
                DeliveryElsewhere(other.region_id, steps)
                for other in evidence.others
                if (steps := _steps(other, one.group, dot))
            ],
        )
        for one in evidence.asked.state.entries.get(dot, [])
    ]


def _status(one: EntryInGroup) -> str:
    if one.pending_for is not None:
        return "pending"
    if one.is_acked:
        # What is acknowledged counts as given until SETID goes back below it (S7.3).
        return "rewound" if one.is_above_floor and not one.is_given else "acknowledged"
    if one.is_given:
        return "dropped" if one.is_dropped else "given"
    return "deliverable" if one.is_above_floor else "below-floor"


def _steps(history: ExplainedHistory, group: bytes, dot: Dot) -> list[AnyStep]:
    """The events of a group that concern the entry, in order, with their times."""
    steps: list[AnyStep] = []
    for event in history.events:
        if event.group == group and (dot in event.entries or (steps and event.kind in _RESETS)):
            steps.append(_step(event, dot, dot in history.state.entries))
    return steps


def _step(event: KeyEvent, dot: Dot, is_present: bool) -> AnyStep:
    """An event that concerns the entry.

    An entry that is present in the region was never removed there. So it can only have left the
    pending entries by an acknowledgement.
    """
    if event.kind == "left-pel":
        return LeavingStep(event.kind, event.time_ms, True if is_present else None)
    deliveries = dict(zip(event.entries, event.deliveries, strict=False))
    return DeliveryStep(
        event.kind,
        event.time_ms,
        event.consumer,
        event.floor,
        deliveries.get(dot),
        event.no_ack if event.kind == "delivered" else None,
        event.dot if event.is_effect else None,
    )


def _announcements(asked: ExplainedHistory, group: bytes, dot: Dot) -> list[Announcement]:
    """The announced acknowledgements that cover the entry."""
    return [
        Announcement(event.dot, event.clock_ms, event.source)
        for event in asked.events
        if event.kind == "acknowledge"
        and event.group == group
        and any(region == dot[0] and low < dot[1] <= high for region, low, high in event.spans)
    ]
