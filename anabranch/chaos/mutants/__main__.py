"""`python -m anabranch.chaos.mutants`: does `anabranch chaos` find planted bugs?

A bug counts as caught if a run with it fails and one of its judges reports violations. A run that
could not go on, because regions did not start or a client broke, counts for nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from anabranch.sim.mutants.planted import Planted, plant, read
from anabranch.sim.mutants.tree import ROOT, copy_tree, environment, python

FOLDER: Final = ROOT / "anabranch" / "chaos" / "mutants" / "planted"
SECONDS: Final = 40.0
SEEDS: Final = 6
# Time for starts, the bound to level and the reading of groups, beside the faults.
EXTRA_S: Final = 300.0


def bugs(only: str = "") -> list[Planted]:
    """The planted bugs by number; `only`: those whose names contain it."""
    return [bug for bug in map(read, sorted(FOLDER.glob("*.patch"))) if only in bug.name]


def violations_of(out: Path) -> dict[str, list[str]]:
    """The violations that a run wrote into its directory; empty if it wrote none."""
    for file in out.glob("*/violations.json"):
        found = json.loads(file.read_text(encoding="utf-8"))
        return {judge: lines for judge, lines in found.items() if lines}
    return {}


def runs(bug: Planted, seeds: range, seconds: float) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Runs chaos with the bug; yields each seed with its violations."""
    with tempfile.TemporaryDirectory(prefix="anabranch-chaos-") as scratch:
        tree = copy_tree(Path(scratch) / "tree")
        plant(bug, tree)
        for seed in seeds:
            out = Path(scratch) / f"out-{seed}"
            line = [python(), "-P", "-m", "anabranch.cli.main", "chaos"]
            line += ["--seed", str(seed), "--seconds", f"{seconds:g}", "--out", str(out)]
            # What a bug makes of a run may hang; the bound to level ends most of that.
            line += ["--level-bound", "40"]
            ended = subprocess.run(
                line,
                cwd=tree,
                env=environment(tree),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds + EXTRA_S,
                check=False,
            )
            found = violations_of(out)
            if ended.returncode not in (0, 1) or (ended.returncode == 1 and not found):
                print(ended.stdout.decode("utf-8", "replace")[-2000:], file=sys.stderr)
            yield seed, found


def main() -> int:
    """The command line; returns 1 if a bug is not caught."""
    parser = argparse.ArgumentParser(
        prog="python -m anabranch.chaos.mutants", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--only", default="", help="a part of the names of the bugs to run")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="most seeds for each bug")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long faults strike")
    given = parser.parse_args()
    missed = 0
    for bug in bugs(given.only):
        seeds = range(given.first, given.first + given.seeds)
        for seed, found in runs(bug, seeds, given.seconds):
            if found:
                judges = ", ".join(f"{judge} ({len(lines)})" for judge, lines in found.items())
                print(f"{bug.name}: caught with seed {seed} by {judges}")
                print(f"  {next(iter(found.values()))[0]}", flush=True)
                break
            print(f"{bug.name}: not caught with seed {seed}", flush=True)
        else:
            missed += 1
            print(f"{bug.name}: NOT CAUGHT", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
