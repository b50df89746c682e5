"""A sweep for people: progress, the closing table, and a story for each new kind of failure.

`cli.simulate` and `sim.ci` call this module.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Optional

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from anabranch.plural import counted
from anabranch.sim import seeds as seeds_module
from anabranch.sim.replay_words import relative
from anabranch.sim.run import Result
from anabranch.sim.shrink import failure
from anabranch.sim.story import Shrinking, Story
from anabranch.sim.sweep import LIMIT_S, Died, Task, in_processes, sweep
from anabranch.sim.tally import Tally, known_names, show

STORIES_MAX: Final = 3
"""Stories of one sweep: this many kinds of failure are reduced, each by its first seed."""
SHOWN_MAX: Final = 5
"""Violations of one seed that are shown."""
_PLAIN_EVERY_S: Final = 10.0


@dataclass(frozen=True)
class Asked:
    """The options of a sweep.

    `limit_s`: seconds after which a seed counts as hanging. `minutes`: when the sweep ends; None:
    when the seeds end. `shrink_s`: seconds for reducing one failure; 0: no failure is reduced.
    `stories`: the directory of the stories.
    """

    task: Task = field(default_factory=Task)
    jobs: int = 1
    limit_s: float = LIMIT_S
    minutes: Optional[float] = None
    shrink_s: float = 120.0
    stories: Path = Path("simulated")


def run(seeds: Iterable[int], total: Optional[int], asked: Asked, console: Console) -> Tally:
    """Runs the seeds, prints each failure at once, prints the table, then writes stories.

    `total`: the number of seeds, if it is known.
    """
    tally = sweep_shown(seeds, total, asked, console)
    show(tally, console, known_names())
    if tally.failed and asked.shrink_s > 0:
        write_stories(tally.failed, asked, console)
    if tally.failed:
        listed = " ".join(
            str(each.seed) for each in sorted(tally.failed, key=lambda one: one.seed)[:20]
        )
        console.print(
            Text(
                f"{len(tally.failed)} of {counted(tally.seeds, 'seed')} FAILED: {listed}",
                style="bold red",
            )
        )
    else:
        console.print(f"{counted(tally.seeds, 'seed')}, no violation", highlight=False)
    return tally


def run_failed(asked: Asked, console: Console, path: Path = seeds_module.FILE) -> list[str]:
    """Runs every seed that failed once, with its own regions and operations.

    Returns the lines that tell of those that fail, none if all pass.
    """
    failed: list[str] = []
    by_scale: dict[tuple[int, int, bool], list[int]] = {}
    for one in seeds_module.failed(path):
        by_scale.setdefault((one.regions, one.ops, one.restores), []).append(one.seed)
    for (regions, ops, restores), seeds in by_scale.items():
        kind = " with forgotten restores" if restores else ""
        console.print(
            f"{counted(len(seeds), 'seed')} that failed once, of {regions} regions and"
            f" {counted(ops, 'operation')}{kind}",
            highlight=False,
        )
        task = replace(asked.task, regions=regions, ops=ops, restores=restores)
        tally = sweep_shown(seeds, len(seeds), replace(asked, task=task), console)
        failed += told_all(tally, task)
    return failed


def sweep_shown(
    seeds: Iterable[int], total: Optional[int], asked: Asked, console: Console
) -> Tally:
    """Runs the seeds, shows the progress, and prints each failure as it comes; returns the sums."""
    tally = Tally()
    progress = _Progress(tally, total, console)
    until_s = time.monotonic() + 60 * asked.minutes if asked.minutes is not None else None
    with progress:
        for result in sweep(seeds, asked.task, asked.jobs, asked.limit_s, until_s):
            tally.add(result)
            if result.violations:
                _tell(result, asked.task, console)
            progress.moved()
    return tally


def options_of(task: Task) -> str:
    """The command-line options of a task that differ from the defaults, such as " --regions 5"."""
    usual = Task()
    words = [
        f" --regions {task.regions}" if task.regions != usual.regions else "",
        f" --ops {task.ops}" if task.ops != usual.ops else "",
    ]
    if task.faults is not None:
        words.append(f' --faults "{",".join(task.faults) or "none"}"')
    if task.restores:
        words.append(" --restores")
    if task.errors:
        words.append(" --errors")
    if task.outside:
        words.append(" --outside")
    return "".join(words)


def told(result: Result, task: Task) -> list[str]:
    """The lines that tell of a failed seed: its violations, and the command that replays it."""
    lines = [f"seed {result.seed} FAILED"]
    lines += [f"  {relative(str(violation))}" for violation in result.violations[:SHOWN_MAX]]
    if len(result.violations) > SHOWN_MAX:
        lines.append(f"  … and {len(result.violations) - SHOWN_MAX} more")
    lines.append(f"  anabranch simulate --replay {result.seed}{options_of(task)}")
    return lines


def told_all(tally: Tally, task: Task) -> list[str]:
    """The lines that tell of the failed seeds of a sweep."""
    return [line for result in tally.failed for line in told(result, task)]


def _tell(result: Result, task: Task, console: Console) -> None:
    heading, *lines = told(result, task)
    console.print(Text(heading, style="bold red"))
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def write_stories(failed: list[Result], asked: Asked, console: Console) -> None:
    """Reduces the first seed of each kind of failure, and writes each result as a scenario file."""
    first: dict[str, int] = {}
    for result in sorted(failed, key=lambda one: one.seed):
        kind = failure(result.violations[0])
        if kind not in ("crash", "hang"):  # it would also crash or hang the process that reduces it
            first.setdefault(kind, result.seed)
    for kind in list(first)[STORIES_MAX:]:
        del first[kind]
    kinds = {seed: kind for kind, seed in first.items()}
    if kinds:
        console.print(f"reducing {counted(len(kinds), 'failure')} …", highlight=False)
    for seed, story in in_processes(
        kinds, Shrinking(asked.task, asked.shrink_s), asked.jobs, 3 * asked.shrink_s + asked.limit_s
    ):
        if isinstance(story, Died):
            console.print(
                Text(f"seed {seed} ({kinds[seed]}) could not be reduced: {story.text}"),
                soft_wrap=True,
            )
        else:
            _write_story(seed, kinds[seed], story, asked.stories, console)


def _write_story(seed: int, kind: str, story: Story, directory: Path, console: Console) -> None:
    name = kind.partition(":")[0].replace("_", "-")
    if not story.text:
        console.print(Text(f"seed {seed} ({kind}): {story.remark}"), soft_wrap=True)
        return
    path = directory / f"{name}-{seed}.md"
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(story.text, encoding="utf-8")
    size = (
        f"reduced from {counted(story.acts_before, 'act')}"
        f" and {counted(story.faults_before, 'fault')}"
        f" to {counted(story.commands, 'command')} and {counted(story.faults, 'fault')}"
    )
    console.print(Text(f"seed {seed} ({kind}): {size}; {story.remark}"), soft_wrap=True)
    console.print(Text(f"  anabranch scenario run {path}"), soft_wrap=True)


class _Progress:
    """The progress of a sweep: a bar in a terminal, otherwise a line every ten seconds."""

    def __init__(self, tally: Tally, total: Optional[int], console: Console) -> None:
        self._tally = tally
        self._total = total
        self._console = console
        self._began_s = self._said_s = time.monotonic()
        self._bar: Optional[Progress] = None
        self._row = TaskID(0)

    def __enter__(self) -> _Progress:
        if self._console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[speed]}"),
            )
            self._bar = Progress(*columns, console=self._console)
            self._row = self._bar.add_task("seeds", total=self._total, speed="")
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        else:
            self._say()
            return
        self._console.print(self._speed(), highlight=False)

    def moved(self) -> None:
        """Call it when one more seed is done."""
        if self._bar is not None:
            self._bar.update(self._row, completed=self._tally.seeds, speed=self._speed())
        elif time.monotonic() - self._said_s >= _PLAIN_EVERY_S:
            self._said_s = time.monotonic()
            self._say()

    def _say(self) -> None:
        of_all = f" of {self._total}" if self._total is not None else ""
        failed = f", {len(self._tally.failed)} FAILED" if self._tally.failed else ""
        self._console.print(
            f"{self._tally.seeds}{of_all} seeds{failed}; {self._speed()}",
            highlight=False,
            soft_wrap=True,
        )

    def _speed(self) -> str:
        """Seeds per second, and simulated hours per hour of wall time."""
        passed_s = max(time.monotonic() - self._began_s, 0.001)
        hours = self._tally.virtual_ms / 1000 / passed_s
        return f"{self._tally.seeds / passed_s:.1f} seeds/s, {hours:.0f} simulated hours per hour"
