"""A failure becomes a small scenario file that fails in the same way."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from anabranch.sim import simulate
from anabranch.sim.history import Checker, Operation
from anabranch.sim.scenario.parser import parse
from anabranch.sim.scenario.virtual import run_virtually
from anabranch.sim.story import Shrinking, file_fails
from anabranch.sim.sweep import Task

# A judge that rejects a legal step: a DEL in the second process of a region removes a stream.
PLANTED = '''
"""A judge for workers to import."""

from anabranch.sim.history import Checker


class NoDeleteAfterKill(Checker):
    name = "no_delete_after_kill"

    def executed(self, operation):
        if operation.argv[0] == b"DEL" and operation.reply == 1 and operation.start > 1:
            self.fail(operation.at_ms, operation.region, "a DEL after a kill")
'''


class NoDeleteAfterKill(Checker):
    """The same judge for this process."""

    name = "no_delete_after_kill"

    def executed(self, operation: Operation) -> None:
        """Judges DEL."""
        if operation.argv[0] == b"DEL" and operation.reply == 1 and operation.start > 1:
            self.fail(operation.at_ms, operation.region, "a DEL after a kill")


TASK = Task(3, 100, ("kill",), judges=(NoDeleteAfterKill,))


def failing_seed() -> int:
    """The first seed that the planted judge rejects."""
    for seed in range(500):
        plan = TASK.plan(seed)
        if (
            plan.faults()
            and any(client.kind == "deleter" for client in plan.clients)
            and TASK(seed).violations
        ):
            return seed
    raise AssertionError("no seed deletes after a kill")


def test_a_seed_becomes_a_file_that_fails() -> None:
    seed = failing_seed()
    story = Shrinking(TASK, 60.0)(seed)
    assert story.remark == "the file fails in the same way"
    assert (story.commands, story.faults) == (2, 1)
    assert story.acts_before == len(TASK.plan(seed).intents())
    assert f"# Seed {seed}: no_delete_after_kill" in story.text
    assert "a DEL after a kill" in story.text
    scenario = parse(story.text)
    assert [fault.kind for fault in scenario.faults()] == ["kill"]
    assert [call.argv[0] for call in scenario.calls()][-1] == b"DEL"
    assert run_virtually(scenario, ())[0] == []  # without the planted judge the file passes
    assert file_fails(story.text, "no_delete_after_kill", [NoDeleteAfterKill])
    assert not file_fails(
        story.text.replace("Kill", "Pause"), "no_delete_after_kill", [NoDeleteAfterKill]
    )
    assert not file_fails("no table", "no_delete_after_kill", [NoDeleteAfterKill])


def test_a_seed_that_does_not_fail_has_no_story() -> None:
    story = Shrinking(Task(2, 10, (), judges=(NoDeleteAfterKill,)), 10.0)(1)
    assert story.text == ""
    assert story.remark == "it does not fail when it is run again: not deterministic"


def test_a_sweep_writes_the_story_of_each_kind_of_failure_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted_story.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    task = Task(3, 100, ("kill",), judges=(__import__("planted_story").NoDeleteAfterKill,))
    console = Console(file=io.StringIO(), width=160)
    first = failing_seed()
    failed = [result for result in map(task, range(first, first + 12)) if result.violations]
    simulate.write_stories(
        failed, simulate.Asked(task, jobs=2, stories=tmp_path / "stories"), console
    )
    assert [path.name for path in (tmp_path / "stories").iterdir()] == [
        f"no-delete-after-kill-{first}.md"
    ]
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert " to 2 commands and " in text
    assert "anabranch scenario run " in text
