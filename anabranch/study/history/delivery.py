"""Why an entry is delivered, delivered again, or not delivered, as facts (S6, S7, S8).

Deliveries are local to a region. So the same entry may be delivered in several regions, until an
announced acknowledgement reaches the others.
"""

from __future__ import annotations

from typing import Any

from anabranch.crdt.vector import Dot
from anabranch.study.history.entry import Facts
from anabranch.study.history.events import Event, Telling

# Kinds of local records that concern an entry of a group.
_TOUCHES = ("delivered", "claimed", "left-pel")
# Kinds that change what a whole group delivers.
_RESETS = ("floor-set", "floor-raised", "consumer-deleted", "create-group")


def explain_deliveries(asked: Telling, others: list[Telling], dot: Dot) -> list[Facts]:
    """One fact for each group of the key, for an entry that is present in the region."""
    entry = asked.entries().get(dot)
    if entry is None:
        return []
    return [_delivery(asked, others, dot, group) for group in entry["groups"]]


def _delivery(asked: Telling, others: list[Telling], dot: Dot, group: dict[str, Any]) -> Facts:
    name = str(group["name"])
    return {
        "group": name,
        "status": _status(group),
        "consumer": group["pending-for"],
        "here": _steps(asked, name, dot, is_present=True),
        "acknowledged": _announcements(asked, name, dot),
        "elsewhere": [
            {"region": other.region_id, "steps": steps}
            for other in others
            if (steps := _steps(other, name, dot, dot in other.entries()))
        ],
    }


def _status(group: dict[str, Any]) -> str:
    if group["pending-for"] is not None:
        return "pending"
    if group["acked"]:
        # What is acknowledged counts as given until SETID goes back below it (S7.3).
        is_again = group["above-floor"] and not group["given"]
        return "rewound" if is_again else "acknowledged"
    if group["given"]:
        return "dropped" if group["dropped"] else "given"
    return "deliverable" if group["above-floor"] else "below-floor"


def _steps(telling: Telling, name: str, dot: Dot, is_present: bool) -> list[Facts]:
    """The local records of a group that concern the entry, in order, with their times.

    An entry that is present in the region was never removed there. So it can only have left the
    pending entries by an acknowledgement.
    """
    steps: list[Facts] = []
    for event in telling.events:
        if event.facts.get("group") != name:
            continue
        is_of_entry = event.kind in _TOUCHES and dot in event.entry_dots()
        if is_of_entry or (steps and event.kind in _RESETS):
            steps.append(_step(event, dot, is_present))
    return steps


def _step(event: Event, dot: Dot, is_present: bool) -> Facts:
    facts: Facts = {"kind": event.kind, "at_ms": event.time_ms}
    for name in ("consumer", "floor"):
        if name in event.facts:
            facts[name] = event.facts[name]
    if event.kind == "claimed":
        facts["deliveries"] = event.facts["deliveries"][event.entry_dots().index(dot)]
    if event.kind == "delivered":
        facts["no_ack"] = bool(event.facts["no-ack"])
    if event.kind == "left-pel":
        facts["is_acknowledged"] = True if is_present else None
    if event.kind == "create-group":
        facts["effect"] = event.facts["dot"]
    return facts


def _announcements(asked: Telling, name: str, dot: Dot) -> list[Facts]:
    """The announced acknowledgements that cover the entry: who announced, and when it arrived."""
    return [
        {"effect": event.facts["dot"], "applied_ms": event.applied_ms, "source": event.source}
        for event in asked.events
        if event.kind == "acknowledge"
        and event.facts["group"] == name
        and any(
            int(region) == dot[0] and int(low) < dot[1] <= int(high)
            for region, low, high in event.facts["spans"]
        )
    ]
