"""Runs seeds with the judges that follow calls: `python -m anabranch.sim.twin 0:300`."""

from __future__ import annotations

import argparse
import sys

from anabranch.sim.checkers.refusals import Refusals
from anabranch.sim.draw import draw_plan
from anabranch.sim.run import run_plan
from anabranch.sim.twin.judge import Twin


def main(arguments: list[str] | None = None) -> int:
    """Prints each seed in which the twin differs; the exit status is 1 if there is one."""
    parser = argparse.ArgumentParser(
        prog="python -m anabranch.sim.twin", description="Runs seeds with the twin as judge."
    )
    parser.add_argument("seeds", help="FIRST:END")
    parser.add_argument("--regions", type=int, default=3)
    parser.add_argument("--ops", type=int, default=300)
    given = parser.parse_args(arguments)
    first, _, end = given.seeds.partition(":")
    if not (first.isdigit() and end.isdigit() and int(first) < int(end)):
        parser.error(f"seeds must be FIRST:END, such as 0:300, not '{given.seeds}'")
    failed = 0
    for seed in range(int(first), int(end)):
        violations = run_plan(
            draw_plan(seed, given.regions, given.ops), [Twin, Refusals]
        ).violations
        if violations:
            failed += 1
            print(f"seed {seed}: {violations[0]}", flush=True)
    print(f"{int(end) - int(first)} seeds, {failed} in which the twin differs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
