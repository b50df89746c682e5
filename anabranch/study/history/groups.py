"""What became of the groups of a key in one region, as facts (S6): delete-wins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from anabranch.crdt.vector import Dot, covers
from anabranch.escapes import shown
from anabranch.study.history.evidence import EndingEffect, Evidence, ToldEffect
from anabranch.study.replies.events import DESTROYS, OBSERVED_REMOVES
from anabranch.study.replies.parts import ToldPlace
from anabranch.study.replies.spans import Span


@dataclass(frozen=True)
class LivingCreate:
    """A create that lives. Its creator had applied the destroys that it `survived`."""

    dot: Dot
    is_live: bool
    start: ToldPlace
    acked: list[Span]
    created: Optional[ToldEffect]
    survived: list[ToldEffect]


@dataclass(frozen=True)
class EndedCreate:
    """A create that is gone; `destroyed` is None if no log tells the effect that ended it."""

    dot: Dot
    is_live: bool
    start: ToldPlace
    created: ToldEffect
    destroyed: Optional[EndingEffect]


@dataclass(frozen=True)
class GroupExplanation:
    """The creates of a group, alive or not."""

    name: bytes
    is_live: bool
    creates: list[Union[LivingCreate, EndedCreate]]


def explain_groups(evidence: Evidence) -> list[GroupExplanation]:
    """The facts of each group that lives, or whose creates or destroys the log still has."""
    names = {create.group for create in evidence.asked.state.groups}
    for event in evidence.asked.events:
        if event.kind in ("create-group", "destroy-group") and event.group is not None:
            names.add(event.group)
    return [_group(evidence, name) for name in sorted(names, key=shown)]


def _group(evidence: Evidence, name: bytes) -> GroupExplanation:
    asked = evidence.asked
    creates: dict[Dot, Union[LivingCreate, EndedCreate]] = {}
    for one in asked.state.groups:
        if one.group == name:
            # By S6.1 the creator of each live create had applied all destroys of the name.
            destroys = evidence.applied(DESTROYS)
            creates[one.dot] = LivingCreate(
                one.dot,
                True,
                one.start,
                one.acked,
                evidence.told(one.dot),
                [told for told in destroys if told.event.destroys(name)],
            )
    is_live = bool(creates)
    for event in asked.events:
        if event.kind == "create-group" and event.group == name and event.dot not in creates:
            create = ToldEffect(event, asked.region_id)
            end = _end(evidence, create)
            creates[event.dot] = EndedCreate(event.dot, False, event.start, create, end)
    ordered = sorted(creates.values(), key=lambda create: (create.dot[1], create.dot[0]))
    return GroupExplanation(name, is_live, ordered)


def _end(evidence: Evidence, create: ToldEffect) -> Optional[EndingEffect]:
    """The effect that ended a create; None if no log tells one."""
    ends = [
        told
        for told in evidence.applied(DESTROYS | OBSERVED_REMOVES)
        if told.event.ends(create.event)
    ]
    if not ends:
        return None
    # An effect that the log of this region lacks came before those that it has.
    elsewhere = [told for told in ends if told.told_by != evidence.asked.region_id]
    end, is_certain = (elsewhere or ends)[0], False
    if _is_first(evidence, create, ends[0]):
        end, is_certain = ends[0], True
    elif len(ends) == 1:
        is_certain = evidence.is_complete()
    had_seen = (
        evidence.had_seen(end.dot, create.dot)
        if end.event.kind == "destroy-group"
        else covers(end.event.covered, *create.dot)
    )
    return EndingEffect(end.event, end.told_by, is_certain, had_seen)


def _is_first(evidence: Evidence, create: ToldEffect, end: ToldEffect) -> bool:
    """Whether the log of this region tells that no other effect ended the create before."""
    asked = evidence.asked
    created, ended = asked.place(create.dot), asked.place(end.dot)
    if created is None or ended is None:
        return False
    if ended < created:
        return True  # The create was dead when it arrived.
    if asked.has_snapshot_after(created, until=ended):
        return False
    return evidence.is_older_than_log(create.event.covered)
