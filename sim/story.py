"""A failure told as a scenario file: the seed's plan made small, its commands written down, those made small again, and the file tried."""

from __future__ import annotations

from dataclasses import dataclass

from sim.run import run_plan
from sim.script import is_failure, record, run_script, shrink_script
from sim.shrink import Budget, failure, shrink
from sim.sweep import Task


@dataclass(frozen=True)
class Story:
    """What became of a failure. `text`: the file, empty if there is none; `remark`: what one should know of it."""

    remark: str
    text: str = ""
    commands: int = 0
    faults: int = 0
    commands_before: int = 0
    faults_before: int = 0


@dataclass(frozen=True)
class Shrinking:
    """Makes the failure of a seed small, half of `seconds` for its plan and half for its commands. Travels to workers."""

    task: Task
    seconds: float

    def __call__(self, seed: int) -> Story:
        plan = self.task.plan(seed)
        judges = self.task.judged_by()
        result = run_plan(plan, judges)
        if not result.violations:
            return Story("does not fail when it is run again: the run is not deterministic, or a worker was out of order")
        wanted = failure(result.violations[0])
        small = shrink(plan, result.violations, judges, Budget(seconds_max=self.seconds / 2))
        script, again = record(small, judges)
        assert is_failure(again.violations, wanted)
        if not is_failure(run_script(script, judges).violations, wanted):
            return Story("fails only while its clients react; replay it")
        script = shrink_script(script, wanted, judges, Budget(seconds_max=self.seconds / 2))
        return Story("", "", script.size(), len(script.plan.faults()), len(plan.intents()), len(plan.faults()))
