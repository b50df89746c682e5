"""The facts of `anabranch explain`: the state of a key in a region, and the reasons for it."""

from __future__ import annotations

from anabranch.study.history.deadlines import explain_deadlines
from anabranch.study.history.delivery import explain_deliveries
from anabranch.study.history.entry import Facts, effect_facts, explain_entry
from anabranch.study.history.events import REMOVALS, Telling
from anabranch.study.history.evidence import Evidence
from anabranch.study.history.groups import explain_groups


def explain(
    asked: Telling, others: list[Telling], silent: list[str], names: dict[int, str]
) -> Facts:
    """All facts, as values that JSON can hold.

    Args:
        asked: The reply of CRDT.EXPLAIN of the region in question.
        others: Those of the other regions that answered, to the same question.
        silent: The names of the regions that did not answer.
        names: region_id → name of every region.
    """
    state = asked.state
    evidence = Evidence(asked, others)
    facts: Facts = {
        "key": asked.key,
        "region": asked.region,
        "regions": {str(region_id): name for region_id, name in sorted(names.items())},
        "now_ms": asked.now_ms,
        "exists": bool(state["exists"]),
        "hidden": bool(state["hidden"]),
        "length": int(state["length"]),
        "last_id": state["last-id"],
        "applied": asked.vector,
        "silent": silent,
        "log": {
            "since_ms": asked.since_ms or None,
            "is_whole": asked.is_whole,
            "floor": asked.floor,
            "left_out": asked.left_out,
        },
    }
    if "id" in state:
        entry = explain_entry(evidence, silent)
        for add in entry["adds"]:
            dot = (int(add["dot"][0]), int(add["dot"][1]))
            add["deliveries"] = explain_deliveries(asked, others, dot)
        facts["entry"] = entry
    facts["groups"] = explain_groups(evidence)
    facts["deadlines"] = explain_deadlines(evidence)
    facts["removals"] = _removals(asked)
    return facts


def _removals(asked: Telling) -> list[Facts]:
    """The removals of entries that the log still has, oldest first."""
    return [
        {**effect_facts(event), "dots": [list(dot) for dot in event.dots]}
        for event in asked.events
        if event.kind in REMOVALS
    ]
