"""The facts about a whole run that every follower may need, and the findings of the oracle."""

from __future__ import annotations

from typing import Final

from anabranch.sim.history import Checker, Setup
from anabranch.sim.oracle.log import Add, EffectLog
from anabranch.sim.plan import REGION_NAMES


class Record:
    """One run."""

    def __init__(self, setup: Setup) -> None:
        self.setup: Final = setup
        self.log: Final = EffectLog(setup.regions)
        # The judges that receive findings, by name.
        self.judges: dict[str, Checker] = {}
        # Number of an operation → the adds that it issued.
        self.added: dict[int, list[Add]] = {}
        # How many backups were restored so far, and in which regions.
        self.restores = 0
        self.restored: dict[int, None] = {}
        # Name → region_id: CRDT.LOG accepts names, and the history has only region_ids.
        self.names: Final = {name.encode(): number for number, name in enumerate(REGION_NAMES, 1)}
        self.least_retired_max: Final = _least(setup, "crdt-idmp-retired-max")
        self.least_maxsize: Final = _least(setup, "stream-idmp-maxsize")

    def find(self, checker: str, at_ms: int, region: int, text: str) -> None:
        """Reports a violation to the judge named `checker`, if it takes part in the run."""
        judge = self.judges.get(checker)
        if judge is not None:
            judge.fail(at_ms, region, text)


def _least(setup: Setup, name: str) -> int:
    return min(int(settings[name]) for settings in setup.settings.values())
