"""Judges the facts about a key, its groups, deadlines and removals against the true history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.crdt import effects as fx
from anabranch.sim.arguments import shown
from anabranch.sim.checkers.state import NEVER, Create
from anabranch.sim.logged import Dot, Logged
from tests.study.events_judge import kind_of, start_of, text
from tests.study.facts_judge import Case, Facts, dot_of, judge_effect, knows_seen
from tests.study.truth import covers
from tests.study.views import SWEEPING, View, tell_all


def judge_key(case: Case) -> Iterator[str]:
    """The facts about the key itself."""
    asked, facts = case.asked, case.facts
    state, hidden = asked.state, asked.is_hidden()
    expected: dict[str, Any] = {
        "key": text(asked.key),
        "region": asked.name,
        "now_ms": asked.now_ms,
        "exists": state.is_present() and not hidden,
        "hidden": hidden,
        "length": len(state.stream),
        "last_id": shown(state.last_id()).decode(),
        "applied": asked.vector,
        "log": {
            "since_ms": asked.reply["log-ms"] or None,
            "is_whole": not asked.floor and not asked.left_out,
            "floor": asked.floor,
            "left_out": asked.left_out,
        },
    }
    for name, value in expected.items():
        if facts[name] != value:
            yield f"key: {name} is {facts[name]!r}; expected {value!r}"
    yield from _removals(case)
    yield from _deadlines(case)
    yield from _groups(case)


def _removals(case: Case) -> Iterator[str]:
    asked = case.asked
    expected = [
        dot for dot in asked.told if isinstance(asked.effect(dot), (fx.RemoveEntries, *SWEEPING))
    ]
    if [dot_of(one["effect"]) for one in case.facts["removals"]] != expected:
        yield f"removals: {case.facts['removals']}; the log tells {expected}"
        return
    for one in case.facts["removals"]:
        yield from judge_effect(case, one)
        effect = asked.effect(dot_of(one["effect"]))
        dots = effect.dots if isinstance(effect, fx.RemoveEntries) else []
        if [dot_of(dot) for dot in one["dots"]] != dots:
            yield f"removals: {one['effect']} removes {one['dots']}, is {dots}"


def _told_or_none(case: Case, dot: Dot, facts: Facts | None, what: str) -> Iterator[str]:
    """An effect that may be unknown: only if no log tells it."""
    if facts is not None:
        if dot_of(facts["effect"]) != dot:
            yield f"{what} {dot}: told as {facts['effect']}"
        yield from judge_effect(case, facts)
    elif case.told(dot):
        yield f"{what} {dot}: not known, though {[view.name for view in case.told(dot)]} tell it"


def _deadlines(case: Case) -> Iterator[str]:
    state = case.asked.state
    winner = state.winning_deadline()
    expected = [
        ([*dot], None if at_ms == NEVER else at_ms, winner is not None and winner[0] == dot)
        for dot, at_ms in sorted(state.deadlines.items())
    ]
    found = case.facts["deadlines"]
    if [(one["dot"], one["at_ms"], one["wins"]) for one in found] != expected:
        yield f"deadlines: {found}; expected {expected}"
        return
    for one in found:
        yield from _told_or_none(case, dot_of(one["dot"]), one["set"], "deadline")


# -- groups


def _groups(case: Case) -> Iterator[str]:
    asked = case.asked
    names = set(asked.state.groups)
    for dot in asked.told:
        effect = asked.effect(dot)
        if isinstance(effect, (fx.CreateGroup, fx.DestroyGroup)):
            names.add(effect.group)
    found = [group["name"] for group in case.facts["groups"]]
    if found != sorted(text(name) for name in names):
        yield f"groups: {found}; expected {sorted(names)}"
        return
    for group in case.facts["groups"]:
        yield from _group(case, group["name"].encode("latin-1"), group)


def _group(case: Case, name: bytes, facts: Facts) -> Iterator[str]:
    asked = case.asked
    live = asked.state.groups.get(name, {})
    where = f"group {text(name)}"
    if facts["is_live"] != bool(live):
        yield f"{where}: is_live {facts['is_live']}, is {bool(live)}"
    told = {
        dot
        for dot in asked.told
        if isinstance(effect := asked.effect(dot), fx.CreateGroup) and effect.group == name
    }
    expected = sorted({*live, *told}, key=lambda dot: (dot[1], dot[0]))
    if [dot_of(one["dot"]) for one in facts["creates"]] != expected:
        yield f"{where}: creates {facts['creates']}; expected {expected}"
        return
    for one in facts["creates"]:
        dot = dot_of(one["dot"])
        if one["is_live"] != (dot in live):
            yield f"{where}: create {dot} is_live {one['is_live']}"
            continue
        yield from _told_or_none(case, dot, one["created"], "create")
        effect = asked.effect(dot)
        assert isinstance(effect, fx.CreateGroup)
        if one["start"] != start_of(Create(dot, effect)):
            yield f"{where}: create {dot} starts at {one['start']}"
        if dot in live:
            yield from _live(case, name, dot, one)
        else:
            yield from _ended(case, name, dot, one["destroyed"])


def _destroys(effect: Logged, name: bytes) -> bool:
    if isinstance(effect, fx.DestroyGroup):
        return effect.group == name
    return isinstance(effect, (fx.Delete, fx.Flush))


def _live(case: Case, name: bytes, dot: Dot, facts: Facts) -> Iterator[str]:
    """A live create covers each destroy of its name."""
    asked = case.asked
    create = asked.effect(dot)
    assert isinstance(create, fx.CreateGroup)
    expected = [one for one in case.told_effects() if _destroys(asked.effect(one), name)]
    found = [dot_of(one["effect"]) for one in facts["survived"]]
    if sorted(found) != sorted(expected):
        yield f"group: {dot} survived {found}; the logs tell {expected}"
    for one in facts["survived"]:
        yield from judge_effect(case, one)
        if not covers(create.vector, dot_of(one["effect"])):
            yield f"group: {dot} lives, though it had not seen {one['effect']}"
    acked = _acked(asked, name, dot)
    shown_acked = {
        (region, counter)
        for region, low, high in facts["acked"]
        for counter in range(low + 1, high + 1)
    }
    if shown_acked != acked:
        yield f"group: {dot} acked {facts['acked']}; expected {sorted(acked)}"


def _acked(view: View, name: bytes, create: Dot) -> set[Dot]:
    """The places that announcements under a create have acknowledged."""
    found: set[Dot] = set()
    for _, effect in view.concerning():
        if isinstance(effect, fx.Acknowledge) and effect.group == name and create in effect.creates:
            for region, spans in effect.spans.items():
                for low, high in zip(spans.starts, spans.ends, strict=True):
                    found |= {(region, counter) for counter in range(low + 1, high + 1)}
    return found


def ends(effect: Logged, name: bytes, dot: Dot, create: fx.CreateGroup, by: Dot) -> bool:
    """Whether an effect ends a create: a destroy that it had not seen (S6.1), or an observed one.

    `by` is the effect's dot.
    """
    if isinstance(effect, fx.RemoveObserved):
        return covers(effect.vector, dot)
    return _destroys(effect, name) and not covers(create.vector, by)


def _ended(case: Case, name: bytes, dot: Dot, facts: Facts | None) -> Iterator[str]:
    asked = case.asked
    create = asked.effect(dot)
    assert isinstance(create, fx.CreateGroup)
    all_ends = [one for one, effect in asked.concerning() if ends(effect, name, dot, create, one)]
    # A create that arrives after destroys is ended by each of them, else the first one ends it.
    death = max(asked.places[dot], asked.places[all_ends[0]])
    enders = [one for one in all_ends if asked.places[one] <= death]
    told = [one for one in case.told_effects() if one in all_ends]
    where = f"create {dot} of {text(name)}"
    if facts is None:
        if told:
            yield f"{where}: its end is not known, though the logs tell {told}"
        return
    one = dot_of(facts["effect"])
    yield from judge_effect(case, facts)
    if one not in all_ends:
        yield f"{where}: ended by {one}, which does not end it"
        return
    if facts.get("is_certain", True):
        if one not in enders:
            yield f"{where}: ended by {one} for certain; it was ended by {enders}"
    elif _is_end_known(case, dot, create, told):
        yield f"{where}: ended by {one} in doubt, though the logs tell"
    effect, seen = asked.effect(one), facts["had_seen_create"]
    if seen is None:
        if isinstance(effect, (fx.Delete, fx.Flush)) or knows_seen(case, one, dot):
            yield f"{where}: whether {kind_of(effect)} {one} had seen it is not known"
    elif seen != asked.truth.has_seen(one, dot):
        yield f"{where}: {kind_of(effect)} {one} had seen it: {seen}"


def _is_end_known(case: Case, dot: Dot, create: fx.CreateGroup, told: list[Dot]) -> bool:
    """Whether the logs tell which effect ended a create that this region's log tells."""
    asked = case.asked
    here = [one for one in told if one in asked.told]
    if here and asked.places[here[0]] < asked.places[dot]:
        return True
    # The effects before the log are below its floor, and end no create that had seen them.
    had_seen_floor = all(covers(create.vector, one) for one in asked.floor.items())
    if here and not asked.left_out and had_seen_floor:
        return not asked.joined_after(dot, until=here[0])
    return len(told) == 1 and tell_all(case.views, asked.vector)
