"""Planted bugs against the simulator: how many seeds each one takes, and which judge reports it.

The seeds are plain ones, or seeds with forgotten restores if the bug's header says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Lock
from typing import Final, Optional

from anabranch.sim.mutants.planted import Planted, everything, plant, pull_out
from anabranch.sim.mutants.seeds import PLAIN, RESTORES, Caught, Sound, first_caught, regions_of
from anabranch.sim.mutants.tree import copy_tree

SEEDS: Final = 2000
SEED_LIMIT_S: Final = 60.0


@dataclass(frozen=True)
class Outcome:
    """The result for one bug. `caught` is None if no seed caught it."""

    bug: Planted
    caught: Optional[Caught]


class Runner:
    """`jobs` copies of the tree, and one without a bug, which a seed must pass to count."""

    def __init__(self, scratch: Path, jobs: int) -> None:
        self._trees = [copy_tree(scratch / str(number)) for number in range(jobs)]
        tree = copy_tree(scratch / "sound")
        self.sound = {name: Sound(tree, SEED_LIMIT_S, name) for name in (PLAIN, RESTORES)}
        self._lock = Lock()

    def run(self, bug: Planted, seeds: range) -> Outcome:
        with self._lock:
            tree = self._trees.pop()
        try:
            plant(bug, tree)
            try:
                sound = self.sound[_flavour(bug)]
                return Outcome(bug, first_caught(tree, seeds, sound, SEED_LIMIT_S))
            finally:
                pull_out(bug, tree)
        finally:
            with self._lock:
                self._trees.append(tree)


def _flavour(bug: Planted) -> str:
    return RESTORES if bug.restores else PLAIN


def run(only: str, first: int, seeds: int, jobs: int) -> Iterator[Outcome]:
    """Runs each bug with seeds from `first` upward, until one catches it; yields the outcomes."""
    bugs = everything(only)
    with tempfile.TemporaryDirectory(prefix="planted-") as scratch:
        runner = Runner(Path(scratch), jobs)
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
    verdict = "NOT CAUGHT" if caught is None else f"seed {caught.seed:4}  {caught.checker}"
    if caught is not None and outcome.bug.restores:
        verdict += f" (--restores --regions {regions_of(caught.seed, RESTORES)})"
    return f"{outcome.bug.name:48} {outcome.bug.rule:6} {verdict}"


def table(outcomes: list[Outcome], first: int) -> tuple[list[str], int]:
    """The closing table, and the number of bugs that no seed caught."""
    lines = [f"{'bug':48} {'rule':6} {'seeds':>5}  caught by"]
    needed: list[int] = []
    for outcome in outcomes:
        caught = outcome.caught
        if caught is None:
            lines.append(f"{outcome.bug.name:48} {outcome.bug.rule:6} {'-':>5}  no judge")
            continue
        needed.append(caught.seed - first + 1)
        lines.append(
            f"{outcome.bug.name:48} {outcome.bug.rule:6} {needed[-1]:>5}  {caught.text[:120]}"
        )
    missed = len(outcomes) - len(needed)
    middle = f", median {median(needed):g} seeds, most {max(needed)}" if needed else ""
    lines.append(f"{len(needed)} of {len(outcomes)} caught{middle}")
    return lines, missed
