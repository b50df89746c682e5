"""Mechanical mutants of `crdt`, `region/engine` and `region/storage`: a seeded sample, judged.

Each mutant is given to the unit and property tests (`suite`); if it survives them,
to a hundred seeds of the simulator (`seeds`). Verdicts go to a file, a line each, so that an
interrupted run can go on. A mutant that survives both either does not change the program, and is
then listed in `equivalent.txt` with the reason, or shows that a test is missing.

On request the copies are compiled, each anew with every mutant. A mutant that mypyc or the C
compiler refuses is killed.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from anabranch.sim.mutants import equivalent, seeds
from anabranch.sim.mutants.compiled import NotCompiled, compile_tree
from anabranch.sim.mutants.operators import Key, Mutant, mutants_of
from anabranch.sim.mutants.suite import NEEDED, Suite
from anabranch.sim.mutants.tree import ROOT, copy_tree, copy_whole, is_compiled, mutated

MUTATED: Final = ("crdt", "region/engine", "region/storage")
SEEDS: Final = 100
SEED_LIMIT_S: Final = 60.0


def package_of(path: str) -> str:
    return next(package for package in MUTATED if path.startswith(package + "/"))


def sample(count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """`count` mutants, spread over all files in proportion to the mutants of each file.

    The place of a mutant in the order depends only on the mutant and the seed, so a change of the
    sources changes little of a sample.
    """

    def place(mutant: Mutant) -> bytes:
        return sha256(repr((seed, mutant.key())).encode()).digest()

    base = root / "anabranch"
    pools: list[tuple[str, list[Mutant]]] = []
    for path in sorted(path for folder in MUTATED for path in (base / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        pools.append((source, sorted(mutants_of(str(path.relative_to(base)), source), key=place)))
    total = sum(len(found) for _, found in pools)
    chosen: list[Mutant] = []
    taken = passed = 0
    for source, found in pools:
        passed += len(found)
        quota = round(count * passed / total) - taken
        taken += quota
        chosen += islice((mutant for mutant in found if mutant.is_another(source)), quota)
    return sorted(chosen, key=place)


@dataclass
class Judged:
    """A mutant with its verdicts; `tests` and `seeds` are "" while there is none."""

    mutant: Mutant
    tests: str = ""
    by: str = ""
    error: str = ""
    seeds: str = ""
    seed: int = -1

    def is_killed(self) -> bool:
        return "killed" in (self.tests, self.seeds)


class Results:
    """The file of verdicts. A mutant's last line counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[Key, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                verdicts = json.loads(line)
                mutant = Mutant(**verdicts.pop("mutant"))
                self._known[mutant.key()] = verdicts

    def of(self, mutant: Mutant) -> Judged:
        return Judged(mutant, **self._known.get(mutant.key(), {}))

    def keep(self, judged: Judged) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(judged)) + "\n")


@dataclass(frozen=True)
class Options:
    """The options of a run.

    `again`: survivors that are not listed as equivalent are judged again. `compiled`: the copies
    are compiled.
    """

    sample: int
    seed: int
    out: Path
    jobs: int = 2
    again: bool = False
    tests_only: bool = False
    only: str = ""
    compiled: bool = False


class Judges:
    """Copies of the tree, in each of which one mutant at a time is judged."""

    def __init__(self, scratch: Path, options: Options) -> None:
        memory = options.out.with_suffix(".testmondata")
        self._seeds = not options.tests_only
        first = copy_tree(scratch / "sound", NEEDED)
        suite = Suite(first, memory)
        suite.learn()
        if options.compiled:
            compile_tree(first)
            suite.check()
        self._sound = seeds.Sound(first, SEED_LIMIT_S)
        self._idle: SimpleQueue[Suite] = SimpleQueue()
        for number in range(options.jobs):
            self._idle.put(Suite(copy_whole(first, scratch / str(number)), memory))

    def judge(self, judged: Judged) -> None:
        """Adds the verdicts that are missing. Tests come first, as they take less time."""
        suite = self._idle.get()
        try:
            with mutated(suite.tree / "anabranch" / judged.mutant.path, judged.mutant.apply):
                if is_compiled(suite.tree):
                    compile_tree(suite.tree)
                if not judged.tests:
                    self._by_tests(suite, judged)
                if judged.tests != "killed" and self._seeds:
                    self._by_seeds(suite.tree, judged)
        except NotCompiled as error:
            judged.tests, judged.by, judged.error = "killed", "the compiler", str(error)
        finally:
            self._idle.put(suite)

    def _by_tests(self, suite: Suite, judged: Judged) -> None:
        verdict = suite.verdict()
        judged.tests, judged.by, judged.error = verdict.outcome, verdict.by, verdict.error

    def _by_seeds(self, tree: Path, judged: Judged) -> None:
        """Judges by the simulator. A seed counts only if the tree without the mutant passes it."""
        caught = seeds.first_caught(tree, range(SEEDS), self._sound, SEED_LIMIT_S)
        judged.seeds = "survived" if caught is None else "killed"
        if caught is not None:
            judged.seed, judged.by, judged.error = caught.seed, caught.checker, caught.text[:300]


def run(options: Options, entries: list[equivalent.Equivalent]) -> Iterator[Judged]:
    """Judges the sample; yields each mutant when it has a verdict, those of the file first."""
    results = Results(options.out)
    by_hand = {entry.key for entry in entries}
    waiting: list[Judged] = []
    for mutant in sample(options.sample, options.seed):
        if options.only not in mutant.path:
            continue
        judged = results.of(mutant)
        if options.again and not judged.is_killed() and mutant.key() not in by_hand:
            judged = Judged(mutant)
        if judged.tests and (judged.is_killed() or judged.seeds or options.tests_only):
            yield judged
        else:
            waiting.append(judged)
    if not waiting:
        return
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        judges = Judges(Path(scratch), options)

        def judge(judged: Judged) -> Judged:
            judges.judge(judged)
            results.keep(judged)
            return judged

        with ThreadPoolExecutor(options.jobs) as pool:
            yield from pool.map(judge, waiting)


def report(judged: list[Judged], entries: list[equivalent.Equivalent]) -> tuple[list[str], int]:
    """The closing table, and the number of survivors that are not listed as equivalent."""
    reasons = {entry.key: entry.reason for entry in entries}
    lines: list[str] = []
    survivors: list[Judged] = []
    figures: dict[str, Counter[str]] = {}
    for one in judged:
        counter = figures.setdefault(package_of(one.mutant.path), Counter())
        if one.tests == "killed":
            counter["tests"] += 1
        elif one.seeds == "killed":
            counter["seeds"] += 1
        elif one.mutant.key() in reasons:
            counter["equivalent"] += 1
        else:
            counter["survived"] += 1
            survivors.append(one)
    for one in survivors:
        lines += [f"survived ({one.tests}): {one.mutant.diff()}", ""]
    lines.append(
        f"{'package':16}{'mutants':>8}{'tests':>8}{'seeds':>8}{'equivalent':>12}"
        f"{'survived':>10}{'killed':>9}"
    )
    everything: Counter[str] = Counter()
    for package in sorted(figures):
        lines.append(_row(package, figures[package]))
        everything += figures[package]
    lines.append(_row("all", everything))
    return lines, len(survivors)


def _row(name: str, counter: Counter[str]) -> str:
    total = counter.total()
    killed = counter["tests"] + counter["seeds"]
    share = killed / max(total - counter["equivalent"], 1)
    return (
        f"{name:16}{total:>8}{counter['tests']:>8}{counter['seeds']:>8}"
        f"{counter['equivalent']:>12}{counter['survived']:>10}{share:>9.1%}"
    )


def one_line(judged: Judged) -> str:
    """The line that is printed for a verdict."""
    verdict = (
        f"{judged.tests} by {judged.by}" if judged.tests == "killed" else f"tests: {judged.tests}"
    )
    if judged.seeds:
        verdict += f", seeds: {judged.seeds}" + (
            f" ({judged.by} at seed {judged.seed})" if judged.seeds == "killed" else ""
        )
    return f"{judged.mutant.path}:{judged.mutant.line} {judged.mutant.operator}: {verdict}"
