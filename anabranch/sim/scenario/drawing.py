"""A scenario run in virtual time, as a timeline for a drawing (`study.diagram`)."""

from __future__ import annotations

from typing import Optional

from anabranch.sim.history import Violation
from anabranch.sim.scenario.mismatch import Mismatch
from anabranch.sim.scenario.model import CLIENT_MAX, Cut, Heal, Scenario, Step, Sync, Until
from anabranch.sim.scenario.virtual import run_virtually
from anabranch.sim.timeline.recorder import Recorder
from anabranch.study.diagram.model import CUT, HEAL, Timeline


def label_of(client: int) -> Optional[int]:
    """The label of a client of the table, 0 for a region's own; None for the runner's clients."""
    if client <= CLIENT_MAX:
        return client
    return 0 if client <= CLIENT_MAX + 100 else None


class _Steps:
    """Tells the recorder of rows, Sync rows, cuts and heals."""

    def __init__(self, scenario: Scenario, recorder: Recorder) -> None:
        self._scenario = scenario
        self._recorder = recorder
        self._timed = ""  # the time of the row with a time in ms that runs

    def begins(self, step: Step) -> None:
        """See `StepWatcher`."""
        recorder = self._recorder
        # Commands of rows with a time in ms run during later steps, so these rows have no name.
        if isinstance(step, Until):
            self._timed = step.time
        recorder.row = "" if step.time == self._timed else step.time
        if isinstance(step, Sync):
            recorder.sync_begins(step.regions)
        elif isinstance(step, (Cut, Heal)):
            *most, last = [self._scenario.name_of(region) for region in step.regions]
            names = f"{', '.join(most)} and {last}"
            word = "cut" if isinstance(step, Cut) else "healed"
            kind = CUT if isinstance(step, Cut) else HEAL
            recorder.mark(kind, step.regions, f"{word} between {names}")

    def ends(self, step: Step) -> None:
        """See `StepWatcher`."""
        if isinstance(step, Sync):
            self._recorder.sync_ends()


def run_recorded(scenario: Scenario) -> tuple[Optional[Timeline], list[Mismatch], list[Violation]]:
    """Runs a scenario in virtual time.

    Returns its timeline, also if it failed, and None if its world could not be made; then
    mismatches and violations as `virtual.run_virtually` does.
    """
    recorder = Recorder(label_of, scenario.name_of)
    mismatches, violations = run_virtually(
        scenario, recorder=recorder, watcher=_Steps(scenario, recorder)
    )
    recorder.sync_ends()
    timeline = recorder.timeline(scenario.title) if recorder.has_watched else None
    return timeline, mismatches, violations
