"""Planted bugs against the simulator: how many seeds each one takes, and which judge reports it.

The seeds are plain ones, or seeds with forgotten restores if the bug's header says so. A bug that
no seed catches counts as caught if it has a reduced scenario and a judge reports it there. A bug
whose header names tests is given to them instead. On request a bug that nothing catches is given to
all tests, or the bugs are tried in compiled copies.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Lock
from typing import Final, Optional

from anabranch.sim.mutants.compiled import NotCompiled, compile_tree
from anabranch.sim.mutants.planted import Planted, everything, plant, pull_out
from anabranch.sim.mutants.seeds import (
    FLAVOURS,
    PLAIN,
    RESTORES,
    Caught,
    Sound,
    first_caught,
    regions_of,
)
from anabranch.sim.mutants.suite import NEEDED, Suite
from anabranch.sim.mutants.tree import ROOT, copy_tree, copy_whole, environment, is_compiled, python

SEEDS: Final = 2000
SEED_LIMIT_S: Final = 60.0
# Runs a scenario file, and prints the first violation. The exit status is 7 if there is one.
STORY_PROGRAM: Final = """
import sys
from pathlib import Path
from anabranch.sim.scenario.parser import load
from anabranch.sim.scenario.virtual import run_virtually
_, violations = run_virtually(load(Path(sys.argv[1])))
print(*violations[:1])
sys.exit(7 if violations else 0)
"""
STORY_FAILED: Final = 7
# The seed of a bug that only its scenario shows, or only a test.
NO_SEED: Final = -1
BY_STORY: Final = "story"
BY_TEST: Final = "test"
BY_COMPILER: Final = "compiler"


@dataclass(frozen=True)
class Outcome:
    """The result for one bug. `caught` is None if nothing caught it."""

    bug: Planted
    caught: Optional[Caught]


class Runner:
    """`jobs` copies of the tree, and one without a bug, which a seed must pass to count.

    `memory`: the file of `Suite`; None: no tests are run. `compiles`: the copies are compiled,
    each anew with every bug.
    """

    def __init__(
        self, scratch: Path, jobs: int, memory: Optional[Path] = None, compiles: bool = False
    ) -> None:
        sound = copy_tree(scratch / "sound", NEEDED)
        self._memory = memory
        if memory is not None:
            Suite(sound, memory).learn()
        if compiles:
            compile_tree(sound)
        self._trees = [copy_whole(sound, scratch / str(number)) for number in range(jobs)]
        self.sound = {name: Sound(sound, SEED_LIMIT_S, name) for name in FLAVOURS}
        self._lock = Lock()

    def run(self, bug: Planted, seeds: range) -> Outcome:
        with self._lock:
            tree = self._trees.pop()
        try:
            plant(bug, tree)
            try:
                if is_compiled(tree):
                    compile_tree(tree)
                if bug.test:
                    return Outcome(bug, caught_by_test(Suite(tree, tree / "memory"), bug.test))
                sound = self.sound[bug.flavour]
                numbers = range(seeds.start + bug.first_seed, seeds.stop + bug.first_seed)
                caught = first_caught(tree, numbers, sound, SEED_LIMIT_S)
                caught = caught or caught_by_story(bug, tree)
                if caught is None and self._memory is not None:
                    caught = caught_by_test(Suite(tree, self._memory))
                return Outcome(bug, caught)
            except NotCompiled as error:
                return Outcome(bug, Caught(NO_SEED, BY_COMPILER, str(error)))
            finally:
                pull_out(bug, tree)
        finally:
            with self._lock:
                self._trees.append(tree)


def caught_by_story(bug: Planted, tree: Path) -> Optional[Caught]:
    """The violation in the bug's reduced scenario, run in a tree with the bug; None without one.

    Raises RuntimeError if the scenario cannot be run in that tree.
    """
    if not bug.reduced.exists():
        return None
    ended = subprocess.run(
        [python(), "-c", STORY_PROGRAM, str(bug.reduced)],
        cwd=tree,
        env=environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    text = ended.stdout.decode("utf-8", "replace").strip()
    if ended.returncode not in (0, STORY_FAILED):
        raise RuntimeError(f"{bug.reduced.name} cannot be run with {bug.name}:\n{text}")
    return Caught(NO_SEED, BY_STORY, text) if ended.returncode == STORY_FAILED else None


def caught_by_test(suite: Suite, file: str = "") -> Optional[Caught]:
    """The test that fails in the suite's tree, which has a bug; None if none does.

    `file`: only its tests run.
    """
    verdict = suite.verdict(file)
    if verdict.outcome != "killed":
        return None
    return Caught(NO_SEED, BY_TEST, f"{verdict.by}: {verdict.error}")


def run(
    only: str,
    first: int,
    seeds: int,
    jobs: int,
    memory: Optional[Path] = None,
    compiles: bool = False,
) -> Iterator[Outcome]:
    """Runs each bug with seeds from `first` upward, until one catches it; yields the outcomes.

    `memory` and `compiles` are as in `Runner`.
    """
    bugs = everything(only)
    with tempfile.TemporaryDirectory(prefix="planted-") as scratch:
        runner = Runner(Path(scratch), jobs, memory, compiles)
        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(lambda bug: runner.run(bug, range(first, first + seeds)), bugs)
        for flavour, sound in runner.sound.items():
            if sound.failing():
                print(
                    f"{flavour} seeds that fail without any bug, and do not count: "
                    f"{sound.failing()}",
                    flush=True,
                )


def one_line(outcome: Outcome) -> str:
    caught = outcome.caught
    if caught is None:
        verdict = "NOT CAUGHT"
    elif caught.checker == BY_TEST:
        verdict = f"no seed, {caught.text.partition(': ')[0]}"
    elif caught.checker == BY_COMPILER:
        verdict = f"it does not compile: {caught.text}"
    elif caught.seed == NO_SEED:
        verdict = f"no seed, {outcome.bug.reduced.relative_to(ROOT)}"
    else:
        verdict = f"seed {caught.seed:4}  {caught.checker}"
    flavour = outcome.bug.flavour
    if caught is not None and caught.seed != NO_SEED and flavour != PLAIN:
        regions = regions_of(caught.seed, flavour)
        verdict += f" (--{flavour}{f' --regions {regions}' if flavour == RESTORES else ''})"
    return f"{outcome.bug.name:48} {outcome.bug.rule:6} {verdict}"


def table(outcomes: list[Outcome], first: int) -> tuple[list[str], int]:
    """The closing table, and the number of bugs that nothing caught."""
    lines = [f"{'bug':48} {'rule':6} {'seeds':>5}  caught by"]
    needed: list[int] = []
    for outcome in outcomes:
        caught = outcome.caught
        if caught is None:
            lines.append(f"{outcome.bug.name:48} {outcome.bug.rule:6} {'-':>5}  no judge")
            continue
        seeds = caught.checker
        if caught.seed != NO_SEED:
            needed.append(caught.seed - outcome.bug.first_seed - first + 1)
            seeds = str(needed[-1])
        lines.append(f"{outcome.bug.name:48} {outcome.bug.rule:6} {seeds:>5}  {caught.text[:120]}")
    missed = sum(1 for outcome in outcomes if outcome.caught is None)
    middle = f", median {median(needed):g} seeds, most {max(needed)}" if needed else ""
    lines.append(f"{len(outcomes) - missed} of {len(outcomes)} caught{middle}")
    return lines, missed
