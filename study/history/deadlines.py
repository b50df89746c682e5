"""Which deadline of a key is in force in one region, and who set it, as facts (S10.2)."""

from __future__ import annotations

from anabranch.study.history.entry import Facts, effect_facts
from anabranch.study.history.events import Telling


def explain_deadlines(asked: Telling) -> list[Facts]:
    """The deadlines that are there, the winner marked. The longest wins; `at_ms` None is never."""
    facts: list[Facts] = []
    for pair, at_ms, wins in asked.state["deadlines"]:
        dot = (int(pair[0]), int(pair[1]))
        event = asked.effect(dot)
        facts.append(
            {
                "dot": list(dot),
                "at_ms": None if at_ms == "never" else int(at_ms),
                "wins": bool(wins),
                "set": None if event is None else effect_facts(event),
            }
        )
    return facts
