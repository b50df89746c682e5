"""The facts about a whole run that every follower may need, and the findings of the oracle."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from anabranch.sim.history import Checker, Setup
from anabranch.sim.oracle.log import Add, EffectLog

# Names that CRDT.LOG accepts for regions; the history has only region_ids.
NAMES: Final = (b"us", b"eu", b"ap", b"sa", b"af", b"oc", b"me", b"in")


class Record:
    """One run. `counts`: exceptions to the rules and undecided questions, by name, for tables."""

    def __init__(self, setup: Setup) -> None:
        self.setup: Final = setup
        self.log: Final = EffectLog(setup.regions)
        # The judges that receive findings, by name.
        self.judges: dict[str, Checker] = {}
        # Number of an operation → the adds that it issued.
        self.added: dict[int, list[Add]] = {}
        self.counts: Final[defaultdict[str, int]] = defaultdict(int)
        # How many backups were restored so far, and in which regions.
        self.restores = 0
        self.restored: dict[int, None] = {}
        self.names: Final = {name: number for number, name in enumerate(NAMES, 1)}
        self.least_retired_max: Final = _least(setup, "crdt-idmp-retired-max")
        self.least_maxsize: Final = _least(setup, "stream-idmp-maxsize")

    def find(self, checker: str, at_ms: int, region: int, text: str) -> None:
        """Reports a violation to the judge named `checker`, if it takes part in the run."""
        judge = self.judges.get(checker)
        if judge is not None:
            judge.fail(at_ms, region, text)


def _least(setup: Setup, name: str) -> int:
    return min(int(settings[name]) for settings in setup.settings.values())
