"""What became of the groups of a key in one region, as facts (S6): delete-wins."""

from __future__ import annotations

from typing import Any, Optional

from anabranch.study.history.entry import Facts, effect_facts
from anabranch.study.history.events import DESTROYS, OBSERVED_REMOVES, Dot, Event, Telling, covers


def explain_groups(asked: Telling) -> list[Facts]:
    """One fact for each group that lives, or whose creates or destroys the log still has."""
    names = {str(group["name"]) for group in asked.state["groups"]}
    for event in asked.events:
        if event.kind in ("create-group", "destroy-group"):
            names.add(str(event.facts["group"]))
    return [_group(asked, name) for name in sorted(names)]


def _group(asked: Telling, name: str) -> Facts:
    live = {
        _dot(group["create"]): group for group in asked.state["groups"] if group["name"] == name
    }
    creates: list[Facts] = []
    for dot, group in live.items():
        creates.append(
            {
                "dot": list(dot),
                "is_live": True,
                "start": group["start"],
                "acked": group["acked"],
                "created": _told(asked.effect(dot)),
                "survived": [effect_facts(event) for event in _destroys(asked, name, dot)],
            }
        )
    for event in asked.events:
        if event.kind == "create-group" and event.facts["group"] == name and event.dot not in live:
            assert event.dot is not None
            creates.append(
                {
                    "dot": list(event.dot),
                    "is_live": False,
                    "start": event.facts["start"],
                    "created": effect_facts(event),
                    "destroyed": _end(asked, name, event),
                }
            )
    creates.sort(key=lambda create: (create["dot"][1], create["dot"][0]))
    return {"name": name, "is_live": bool(live), "creates": creates}


def _dot(pair: Any) -> Dot:
    return int(pair[0]), int(pair[1])


def _told(event: Optional[Event]) -> Optional[Facts]:
    return None if event is None else effect_facts(event)


def _concerns(event: Event, name: str) -> bool:
    return event.kind in DESTROYS and event.facts.get("group", name) == name


def _destroys(asked: Telling, name: str, create: Dot) -> list[Event]:
    """The destroys of a live create's name: by S6.1 its creator had applied each of them."""
    return [event for event in asked.events if _concerns(event, name) and event.dot != create]


def _end(asked: Telling, name: str, create: Event) -> Optional[Facts]:
    """The effect that ended a create: by S6.1 the first destroy that its vector does not cover.

    `had_seen_create`: whether the destroying region had applied the create; None if the logs that
    were asked do not tell. A removal by a deadline, or before a write that creates the key, ends
    only creates that it had observed (S10.3, S10.5).
    """
    assert create.dot is not None
    for event in asked.events:
        if event.dot is None:
            continue
        if _concerns(event, name) and not covers(create.had_seen, event.dot):
            return {**effect_facts(event), "had_seen_create": _had_seen(asked, event, create)}
        if event.kind in OBSERVED_REMOVES and covers(event.had_seen, create.dot):
            return {**effect_facts(event), "had_seen_create": True}
    return None


def _had_seen(asked: Telling, destroy: Event, create: Event) -> Optional[bool]:
    """Whether the region that destroyed had applied the create."""
    assert create.dot is not None and destroy.dot is not None
    if destroy.kind != "destroy-group":
        return covers(destroy.had_seen, create.dot)
    if destroy.dot[0] == create.dot[0]:
        return destroy.dot[1] > create.dot[1]
    before = asked.events.index(destroy) < asked.events.index(create)
    # A log extends causality: an effect has not seen those after it. The reverse is not known.
    if before:
        return False
    return True if destroy.dot[0] == asked.region_id else None
