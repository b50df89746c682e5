"""Which deadline of a key is in force in one region, and who set it, as facts (S10.2)."""

from __future__ import annotations

from anabranch.study.history.entry import Facts, told_facts
from anabranch.study.history.evidence import Evidence


def explain_deadlines(evidence: Evidence) -> list[Facts]:
    """The deadlines that are there, the winner marked. The longest wins; `at_ms` None is never."""
    facts: list[Facts] = []
    for pair, at_ms, wins in evidence.asked.state["deadlines"]:
        dot = (int(pair[0]), int(pair[1]))
        told = evidence.told(dot)
        facts.append(
            {
                "dot": list(dot),
                "at_ms": None if at_ms == "never" else int(at_ms),
                "wins": bool(wins),
                "set": None if told is None else told_facts(told),
            }
        )
    return facts
