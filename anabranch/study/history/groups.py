"""What became of the groups of a key in one region, as facts (S6): delete-wins."""

from __future__ import annotations

from typing import Any, Optional

from anabranch.crdt.vector import Dot, covers
from anabranch.study.history.entry import Facts, told_facts
from anabranch.study.history.events import DESTROYS, OBSERVED_REMOVES
from anabranch.study.history.evidence import Evidence, Told


def explain_groups(evidence: Evidence) -> list[Facts]:
    """One fact for each group that lives, or whose creates or destroys the log still has."""
    asked = evidence.asked
    names = {str(group["name"]) for group in asked.state["groups"]}
    for event in asked.events:
        if event.kind in ("create-group", "destroy-group"):
            names.add(str(event.facts["group"]))
    return [_group(evidence, name) for name in sorted(names)]


def _group(evidence: Evidence, name: str) -> Facts:
    asked = evidence.asked
    live = {
        _dot(group["create"]): group for group in asked.state["groups"] if group["name"] == name
    }
    creates: list[Facts] = []
    for dot, group in live.items():
        created = evidence.told(dot)
        creates.append(
            {
                "dot": list(dot),
                "is_live": True,
                "start": group["start"],
                "acked": group["acked"],
                "created": None if created is None else told_facts(created),
                "survived": [told_facts(told) for told in _destroys(evidence, name)],
            }
        )
    for event in asked.events:
        if event.kind == "create-group" and event.facts["group"] == name and event.dot not in live:
            create = Told(event, asked)
            creates.append(
                {
                    "dot": list(create.dot),
                    "is_live": False,
                    "start": event.facts["start"],
                    "created": told_facts(create),
                    "destroyed": _end(evidence, name, create),
                }
            )
    creates.sort(key=lambda create: (create["dot"][1], create["dot"][0]))
    return {"name": name, "is_live": bool(live), "creates": creates}


def _dot(pair: Any) -> Dot:
    return int(pair[0]), int(pair[1])


def _destroys(evidence: Evidence, name: str) -> list[Told]:
    """The destroys of a name. By S6.1 the creator of each live create had applied all of them."""
    return [told for told in evidence.applied(DESTROYS) if told.event.destroys(name)]


def _end(evidence: Evidence, name: str, create: Told) -> Optional[Facts]:
    """The effect that ended a create; None if no log tells one.

    `had_seen_create`: whether the region that destroyed had applied the create; None if the logs do
    not tell. `is_certain`: False if another effect may have ended it before.
    """
    ends = [
        told
        for told in evidence.applied(DESTROYS | OBSERVED_REMOVES)
        if told.event.ends(create.event)
    ]
    if not ends:
        return None
    # An effect that the log of this region lacks came before those that it has.
    elsewhere = [told for told in ends if told.telling is not evidence.asked]
    end, is_certain = (elsewhere or ends)[0], False
    if _is_first(evidence, create, ends[0]):
        end, is_certain = ends[0], True
    elif len(ends) == 1:
        is_certain = evidence.is_complete()
    return {
        **told_facts(end),
        "is_certain": is_certain,
        "had_seen_create": _had_seen(evidence, end, create),
    }


def _is_first(evidence: Evidence, create: Told, end: Told) -> bool:
    """Whether the log of this region tells that no other effect ended the create before."""
    asked = evidence.asked
    created, ended = asked.place(create.dot), asked.place(end.dot)
    if created is None or ended is None:
        return False
    if ended < created:
        return True  # The create was dead when it arrived.
    if asked.has_snapshot_after(created, until=ended):
        return False
    return evidence.is_older_than_log(create.event.had_seen)


def _had_seen(evidence: Evidence, end: Told, create: Told) -> Optional[bool]:
    """Whether the region that ended the create had applied it."""
    if end.event.kind != "destroy-group":
        return covers(end.event.had_seen, *create.dot)
    return evidence.had_seen(end.dot, create.dot)
