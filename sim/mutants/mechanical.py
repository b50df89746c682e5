"""Mechanical mutants of `crdt`, `region/engine` and `region/storage`: a seeded sample, judged.

Each mutant is given to the unit and property tests of its package (`suite`); if it survives them,
to a hundred seeds of the simulator (`seeds`). Verdicts go to a file, a line each, so that an
interrupted run can go on. A mutant that survives both either does not change the program, and is
then listed in `equivalent.txt` with the reason, or shows that a test is missing.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Final

from anabranch.sim.mutants import equivalent, seeds
from anabranch.sim.mutants.operators import Key, Mutant, mutants_of
from anabranch.sim.mutants.suite import NEEDED, Suite, package_of
from anabranch.sim.mutants.tree import ROOT, copy_tree, write_source

MUTATED: Final = ("crdt", "region/engine", "region/storage")
SEEDS: Final = 100
SEED_LIMIT_S: Final = 60.0


def sample(count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """`count` mutants, spread over all files in proportion to the mutants of each file.

    The place of a mutant in the order depends only on the mutant and the seed, so a change of the
    sources changes little of a sample.
    """

    def place(mutant: Mutant) -> bytes:
        return sha256(repr((seed, mutant.key())).encode()).digest()

    pools: list[tuple[str, list[Mutant]]] = []
    for path in sorted(path for folder in MUTATED for path in (root / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        pools.append((source, sorted(mutants_of(str(path.relative_to(root)), source), key=place)))
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
    cpu_s: float = 0.0

    def record(self) -> dict[str, Any]:
        return {
            "key": self.mutant.key(),
            "operator": self.mutant.operator,
            "tests": self.tests,
            "by": self.by,
            "error": self.error,
            "seeds": self.seeds,
            "seed": self.seed,
            "cpu_s": self.cpu_s,
        }


class Results:
    """The file of verdicts. A mutant's last line counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._known: dict[Key, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                path_, where, nth, before, after = record["key"]
                self._known[(path_, where, nth, before, after)] = record

    def of(self, mutant: Mutant) -> Judged:
        known = self._known.get(mutant.key(), {})
        fields = {
            name: known[name]
            for name in ("tests", "by", "error", "seeds", "seed", "cpu_s")
            if name in known
        }
        return Judged(mutant, **fields)

    def keep(self, judged: Judged) -> None:
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(judged.record()) + "\n")


class Worker:
    """One copy of the tree, in which mutants are judged one after the other."""

    def __init__(self, tree: Path, memory: Path) -> None:
        self.tree = copy_tree(tree, NEEDED)
        self.suite = Suite(self.tree, memory)

    def by_tests(self, judged: Judged) -> None:
        verdict = self.suite.judge(judged.mutant)
        judged.tests, judged.by, judged.error, judged.cpu_s = (
            verdict.outcome,
            verdict.by,
            verdict.error,
            verdict.cpu_s,
        )

    def by_seeds(self, judged: Judged, sound: seeds.Sound) -> None:
        """Judges by the simulator. A seed counts only if the tree without the mutant passes it."""
        source = self.tree / judged.mutant.path
        original = source.read_text(encoding="utf-8")
        write_source(source, judged.mutant.apply(original))
        try:
            caught = seeds.first_caught(self.tree, range(SEEDS), sound, SEED_LIMIT_S)
        finally:
            write_source(source, original)
        judged.seeds = "survived" if caught is None else "killed"
        if caught is not None:
            judged.seed, judged.by, judged.error = caught.seed, caught.checker, caught.text[:300]


@dataclass(frozen=True)
class Options:
    """The options of a run.

    `again`: survivors that are not listed as equivalent are judged again.
    """

    sample: int
    seed: int
    out: Path
    jobs: int = 2
    again: bool = False
    tests_only: bool = False
    only: str = ""


def run(options: Options) -> Iterator[Judged]:
    """Judges the sample; yields each mutant when it has a verdict, those of the file first."""
    results = Results(options.out)
    by_hand = {entry.key for entry in equivalent.read(equivalent.FILE.read_text(encoding="utf-8"))}
    waiting: list[Judged] = []
    for mutant in sample(options.sample, options.seed):
        if options.only not in mutant.path:
            continue
        judged = results.of(mutant)
        if (
            options.again
            and judged.tests != "killed"
            and judged.seeds != "killed"
            and mutant.key() not in by_hand
        ):
            judged = Judged(mutant)
        if judged.tests and (judged.tests == "killed" or judged.seeds or options.tests_only):
            yield judged
        else:
            waiting.append(judged)
    if not waiting:
        return
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        memory = options.out.with_suffix(".coverage")
        workers = [Worker(Path(scratch) / str(number), memory) for number in range(options.jobs)]
        for worker in workers:
            worker.suite.learn()
        sound = seeds.Sound(copy_tree(Path(scratch) / "sound"), SEED_LIMIT_S)
        idle = list(workers)
        lock = Lock()

        def judge(judged: Judged) -> Judged:
            with lock:
                worker = idle.pop()
            try:
                if not judged.tests:
                    worker.by_tests(judged)
                if judged.tests != "killed" and not options.tests_only:
                    worker.by_seeds(judged, sound)
            finally:
                with lock:
                    idle.append(worker)
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
