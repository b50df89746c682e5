"""The commands of a scenario that the judges cannot follow, for files with `judges: all`.

The twin does not carry them out: most concern the connection or the process instead of data.
"""

from __future__ import annotations

from anabranch.region.engine import registry
from anabranch.sim.scenario.mismatch import Mismatch
from anabranch.sim.scenario.model import Call, Scenario
from anabranch.sim.twin.dispatch import KNOWN


def not_judged(scenario: Scenario) -> list[Mismatch]:
    """A mismatch for each such command; none if no judges watch."""
    if not scenario.judged:
        return []
    refused = commands_refused()
    return [
        Mismatch(
            scenario.path,
            call.line,
            call.time,
            scenario.name_of(call.region),
            " ".join(word.decode("utf-8", "backslashreplace") for word in call.argv[:3]),
            "commands that the judges can follow (judges: all)",
            "one that they cannot: leave it out, or write judges: none",
        )
        for call in scenario.calls()
        if call.argv[0].upper() in refused or _sets_password(call)
    ]


def commands_refused() -> set[bytes]:
    """The names of commands that the engine knows, and the twin does not."""
    return registry.commands().keys() - KNOWN


def _sets_password(call: Call) -> bool:
    words = [word.upper() for word in call.argv]
    return words[:2] == [b"CONFIG", b"SET"] and b"REQUIREPASS" in words[2::2]
