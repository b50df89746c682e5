"""What became of an entry in one region, as facts, from what the regions tell (S5, S10, S11).

A fact is only what a log or a state shows. Where no log reaches, the fact says so.
"""

from __future__ import annotations

from typing import Any, Optional

from anabranch.study.history.events import REMOVALS, Dot, Event, Telling, covers

Facts = dict[str, Any]


def effect_facts(event: Event) -> Facts:
    """Who issued an effect, with which command, when it was applied, and what it had seen."""
    facts: Facts = {
        "command": event.command,
        "kind": event.kind,
        "effect": None if event.dot is None else list(event.dot),
        "applied_ms": event.applied_ms,
        "source": event.source,
    }
    if "had-seen" in event.facts:
        facts["had_seen"] = event.had_seen
    for name in ("other-key", "group", "id", "pid", "iid"):
        if name in event.facts:
            facts[name.replace("-", "_")] = event.facts[name]
    return facts


def explain_entry(asked: Telling, others: list[Telling], silent: list[str]) -> Facts:
    """The facts of the entry ID that the regions were asked for.

    `asked` is the region in question, `others` are the other regions that answered, `silent` the
    names of those that did not.
    """
    dots = sorted({*asked.entries(), *_added(asked), *_elsewhere(others)})
    facts: Facts = {
        "id": asked.state["id"],
        "adds": [_fate(asked, others, silent, dot) for dot in dots],
    }
    if not dots:
        facts["absence"] = _absence(asked, others, silent)
    return facts


def _added(telling: Telling) -> list[Dot]:
    return [event.dot for event in telling.events if event.kind == "add" and event.dot]


def _elsewhere(others: list[Telling]) -> list[Dot]:
    return [dot for other in others for dot in (*other.entries(), *_added(other))]


def _fate(asked: Telling, others: list[Telling], silent: list[str], dot: Dot) -> Facts:
    """What became of the entry with this dot in the region `asked`."""
    present = asked.entries().get(dot)
    facts: Facts = {
        "dot": list(dot),
        "added": _origin(asked, others, dot),
        "applied": _applied([asked, *others], dot),
        "silent": silent,
    }
    if present is not None:
        facts["fate"] = "hidden" if asked.state["hidden"] else "present"
        facts["survived"] = _survived(asked, others, dot)
    elif not covers(asked.vector, dot):
        facts["fate"] = "not-arrived"
        facts["applied_up_to"] = asked.vector.get(dot[0], 0)
    else:
        facts.update(_removal(asked, others, dot))
    return facts


def _origin(asked: Telling, others: list[Telling], dot: Dot) -> Optional[Facts]:
    """The add, as the log of its own region tells it, else any log; None if no log has it."""
    tellings = sorted([asked, *others], key=lambda telling: telling.region_id != dot[0])
    for telling in tellings:
        event = telling.add_of(dot)
        if event is not None:
            return {**effect_facts(event), "told_by": telling.region_id}
    return None


def _applied(tellings: list[Telling], dot: Dot) -> list[Facts]:
    """Which regions have applied the add, since when, and from whom they had it.

    `at_ms` is None for a region that holds it but whose log does not show when: it came with a
    snapshot, or before the log begins.
    """
    found: list[Facts] = []
    for telling in tellings:
        event = telling.add_of(dot)
        if event is not None:
            found.append(
                {"region": telling.region_id, "at_ms": event.applied_ms, "source": event.source}
            )
        elif covers(telling.vector, dot):
            found.append({"region": telling.region_id, "at_ms": None, "source": None})
    return found


# -- removed


def _removal(asked: Telling, others: list[Telling], dot: Dot) -> Facts:
    """Which removal took an entry whose add is applied and that is not there."""
    removal = _first_removal(asked, dot)
    if removal is not None:
        return {"fate": "removed", "removed": {**effect_facts(removal), "told_by": asked.region_id}}
    for other in others:
        removal = _first_removal(other, dot)
        if removal is not None and removal.dot is not None and covers(asked.vector, removal.dot):
            return {
                "fate": "removed",
                "removed": {**effect_facts(removal), "told_by": other.region_id},
                "log_begins_ms": asked.since_ms,
            }
    snapshots = [event for event in asked.events if event.kind == "snapshot"]
    if snapshots:
        last = snapshots[-1]
        return {
            "fate": "removed-before-snapshot",
            "snapshot": {"source": last.source, "applied_ms": last.applied_ms},
        }
    return {"fate": "removed-before-log", "log_begins_ms": asked.since_ms}


def _first_removal(telling: Telling, dot: Dot) -> Optional[Event]:
    add = telling.add_of(dot)
    for event in telling.events:
        if event.removes(dot) and (add is None or event.position >= add.position):
            return event
    return None


# -- survived


def _survived(asked: Telling, others: list[Telling], dot: Dot) -> list[Facts]:
    """The removals of the key that an entry survived because they had not seen its add.

    A removal that the adding region had applied before the add is none of them. If that region's
    log does not tell, `is_certain` is False.
    """
    found: list[Facts] = []
    adder = next((one for one in [asked, *others] if one.region_id == dot[0]), None)
    for event in asked.events:
        if event.kind not in REMOVALS or event.kind == "remove-entries" or event.removes(dot):
            continue
        assert event.dot is not None
        # A log extends causality: a removal after the add in any log is one that the add had not
        # seen. One before it in this log may be, and only the adder's log tells.
        order = _order(asked, event.dot, dot)
        if order != "after" and adder is not asked:
            order = "unknown" if adder is None else _order(adder, event.dot, dot)
        if order != "before":
            found.append({**effect_facts(event), "is_certain": order == "after"})
    return found


def _order(telling: Telling, removal: Dot, add: Dot) -> str:
    """Whether a log has a removal "before" or "after" an add; "unknown" if it does not tell."""
    if removal[0] == add[0]:
        return "before" if removal[1] < add[1] else "after"
    event, added = telling.effect(removal), telling.add_of(add)
    if added is None:
        return "unknown"
    if event is None:
        return "unknown" if covers(telling.floor, removal) else "after"
    if event.position != added.position:
        return "before" if event.position < added.position else "after"
    return "before" if telling.events.index(event) < telling.events.index(added) else "after"


# -- never added


def _absence(asked: Telling, others: list[Telling], silent: list[str]) -> Facts:
    """Why no add with this ID is known: proof that there was none, or the reason for doubt."""
    missing = {
        region_id: counter
        for other in others
        for region_id, counter in other.vector.items()
        if counter > asked.vector.get(region_id, 0)
    }
    return {
        "is_proven": asked.is_whole,
        "applied": asked.vector,
        "log_begins_ms": None if asked.is_whole else asked.since_ms,
        "log_floor": asked.floor,
        "left_out": asked.left_out,
        "not_arrived": missing,
        "silent": silent,
    }
