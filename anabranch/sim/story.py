"""A failure written as a scenario file.

The seed's plan is reduced, its commands are recorded, the recorded commands are reduced in turn,
and the file is run to see whether it fails by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.sim.history import Checker
from anabranch.sim.replay_words import relative
from anabranch.sim.run import run_plan
from anabranch.sim.scenario.model import ScenarioError
from anabranch.sim.scenario.parser import parse
from anabranch.sim.scenario.recording import Notes
from anabranch.sim.scenario.virtual import run_virtually
from anabranch.sim.scenario.writing import write_story
from anabranch.sim.script import Script, is_failure, record, run_script, shrink_script
from anabranch.sim.shrink import Budget, failure, shrink
from anabranch.sim.sweep import Task


@dataclass(frozen=True)
class Story:
    """The result of reducing a failure.

    `text`: the scenario file, empty if there is none; `remark`: a sentence for the reader.
    """

    remark: str
    text: str = ""
    commands: int = 0
    faults: int = 0
    acts_before: int = 0
    faults_before: int = 0


@dataclass(frozen=True)
class Shrinking:
    """Reduces the failure of a seed.

    Two thirds of `seconds` are for its plan, the rest for its commands. Workers receive it pickled.
    """

    task: Task
    seconds: float

    def __call__(self, seed: int) -> Story:
        plan = self.task.plan(seed)
        judges = self.task.judged_by()
        result = run_plan(plan, judges)
        if not result.violations:
            return Story("it does not fail when it is run again: not deterministic")
        wanted = failure(result.violations[0])
        small = shrink(plan, result.violations, judges, Budget(seconds_max=self.seconds * 2 / 3))
        script, again = record(small, judges)
        assert is_failure(again.violations, wanted)
        violation = next(
            (each for each in run_script(script, judges).violations if failure(each) == wanted),
            None,
        )
        if violation is None:
            return Story("it fails only while its clients react, so no scenario file can repeat it")
        script = shrink_script(script, violation, judges, Budget(seconds_max=self.seconds / 3))
        text, fails = told(script, wanted, judges, seed)
        remark = "the file fails in the same way" if fails else "the file ALONE does not fail"
        return Story(
            remark,
            text,
            script.size(),
            len(script.plan.faults()),
            len(plan.intents()),
            len(plan.faults()),
        )


def told(
    script: Script, wanted: str, judges: Sequence[type[Checker]], seed: int
) -> tuple[str, bool]:
    """The scenario file of a script, and whether the file fails in the same way when it is run.

    `wanted`: the way in which the script fails (`sim.shrink.failure`).
    """
    notes = Notes()
    found = run_script(script, [*judges, notes.judge], notes.tell).violations
    violation = next((each for each in found if failure(each) == wanted), None)
    what = relative(str(violation)) if violation is not None else wanted
    prose = f"Reduced from seed {seed}. The judges report:\n\n    {what}"
    title = f"Seed {seed}: {wanted}"
    text = write_story(script.plan, notes.told, title, prose)
    if file_fails(text, wanted, judges):
        return text, True
    prose += "\n\nThe seed fails so. This file alone, run in virtual time, passes: replay the seed."
    return write_story(script.plan, notes.told, title, prose), False


def file_fails(text: str, wanted: str, judges: Sequence[type[Checker]]) -> bool:
    """Whether a scenario file, run in virtual time, fails in the way `wanted`."""
    try:
        _, violations = run_virtually(parse(text, "story"), judges)
    except ScenarioError:
        return False
    return is_failure(violations, wanted)
