"""What became of an entry in one region, as facts, from what the regions tell (S5, S10, S11).

A fact is only what a log or a state shows. Where no log reaches, the fact says so.
"""

from __future__ import annotations

from typing import Any

from anabranch.crdt.vector import Dot, Vector, covers
from anabranch.study.history.events import REMOVALS, SWEEPS, Event, Telling
from anabranch.study.history.evidence import Evidence, Told

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


def told_facts(told: Told) -> Facts:
    """The facts of an effect, and the region whose log tells it."""
    return {**effect_facts(told.event), "told_by": told.telling.region_id}


def explain_entry(evidence: Evidence, silent: list[str]) -> Facts:
    """The facts of the entry ID that the regions were asked for.

    `silent` are the names of the regions that did not answer.
    """
    dots = sorted({dot for telling in evidence.tellings for dot in _known(telling)})
    facts: Facts = {
        "id": evidence.asked.state["id"],
        "adds": [_fate(evidence, silent, dot) for dot in dots],
    }
    if not dots:
        facts["absence"] = _absence(evidence, silent)
    return facts


def _known(telling: Telling) -> set[Dot]:
    """The dots of the entries with the ID that a region holds, or that its log names.

    Deliveries name an entry, too, also if its add is older than the log.
    """
    adds = {event.dot for event in telling.events if event.kind == "add" and event.dot}
    named = {dot for event in telling.events for dot in event.entry_dots()}
    return {*telling.entries(), *adds, *named}


def _fate(evidence: Evidence, silent: list[str], dot: Dot) -> Facts:
    """What became of the entry with this dot in the region in question."""
    asked = evidence.asked
    added = evidence.told(dot)
    facts: Facts = {
        "dot": list(dot),
        "added": None if added is None else told_facts(added),
        "applied": _applied(evidence.tellings, dot),
        "silent": silent,
    }
    if asked.entries().get(dot) is not None:
        facts["fate"] = "hidden" if asked.state["hidden"] else "present"
        facts["survived"] = _survived(evidence, dot)
    elif not covers(asked.vector, *dot):
        facts["fate"] = "not-arrived"
        facts["applied_up_to"] = asked.vector.get(dot[0], 0)
    else:
        facts.update(_removal(evidence, dot))
    return facts


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
        elif covers(telling.vector, *dot):
            found.append({"region": telling.region_id, "at_ms": None, "source": None})
    return found


# -- removed


def _removal(evidence: Evidence, dot: Dot) -> Facts:
    """Which removal took an entry whose add is applied and that is not there.

    Several removals may name one entry; the first took it. `is_certain` is False for one that
    names it while the logs do not tell which came first.
    """
    asked = evidence.asked
    removals = [told for told in evidence.applied(REMOVALS) if told.event.removes(dot)]
    if removals:
        # A removal that the log of this region lacks came before those that it has.
        elsewhere = [told for told in removals if told.telling is not asked]
        removal, is_certain = (elsewhere or removals)[0], False
        if _is_first(asked, removals[0], dot):
            removal, is_certain = removals[0], True
        elif len(removals) == 1:
            is_certain = evidence.is_complete()
        return {
            "fate": "removed",
            "removed": {**told_facts(removal), "is_certain": is_certain},
            "log_begins_ms": asked.since_ms,
        }
    snapshots = [event for event in asked.events if event.kind == "snapshot"]
    if snapshots:
        last = snapshots[-1]
        return {
            "fate": "removed-before-snapshot",
            "snapshot": {"source": last.source, "applied_ms": last.applied_ms},
        }
    if asked.left_out:
        return {"fate": "removed-left-out", "left_out": asked.left_out}
    return {"fate": "removed-before-log", "log_begins_ms": asked.since_ms}


def _is_first(asked: Telling, removal: Told, dot: Dot) -> bool:
    """Whether the log of this region has the add, then the removal, and no snapshot between."""
    added = asked.place(dot)
    place = asked.place(removal.dot)
    if added is None or place is None:
        return False
    return not asked.has_snapshot_after(added, until=place)


# -- survived


def _survived(evidence: Evidence, dot: Dot) -> list[Facts]:
    """The removals of the key that an entry survived because they are concurrent with its add.

    A removal that the adding region had applied before the add is none of them, nor a trim that
    had seen the entry and left it. If the logs do not tell, `is_certain` is False.
    """
    found: list[Facts] = []
    for told in evidence.applied(SWEEPS):
        if told.event.removes(dot):
            continue
        answers = [evidence.had_seen(dot, told.dot)]
        if told.event.kind == "trim":
            # The others had not seen what they do not remove.
            answers.append(evidence.had_seen(told.dot, dot))
        if True not in answers:
            found.append({**told_facts(told), "is_certain": None not in answers})
    return found


# -- never added


def _absence(evidence: Evidence, silent: list[str]) -> Facts:
    """Why no add with this ID is known: proof that there was none, or the reason for doubt."""
    asked = evidence.asked
    missing: Vector = {}
    for other in evidence.others:
        for region_id, counter in other.vector.items():
            if counter > max(asked.vector.get(region_id, 0), missing.get(region_id, 0)):
                missing[region_id] = counter
    return {
        "is_proven": evidence.is_complete(),
        "applied": asked.vector,
        "log_begins_ms": None if asked.is_whole else asked.since_ms,
        "log_floor": asked.floor,
        "left_out": asked.left_out,
        "not_arrived": missing,
        "silent": silent,
    }
