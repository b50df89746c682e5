"""Prints the trace hashes of seeds, one a line: `python -m anabranch.sim.hashes FIRST:END`.

Two processes that print the same hash for a seed have run it identically.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterable, Iterator

from anabranch.sim.seeds import SeedsError, in_range
from anabranch.sim.sweep import Task


def hashes(seeds: Iterable[int], task: Task) -> Iterator[tuple[int, str]]:
    """Yields (seed, trace hash) of each seed, run in this process. `task`: the kind of the runs."""
    for seed in seeds:
        yield seed, task(seed).trace_hash
        gc.collect()


def print_hashes(seeds: str, task: Task) -> None:
    """Prints a ``seed hash`` line for each of the seeds FIRST:END; SeedsError without an end."""
    first, end = in_range(seeds)
    if end is None:
        raise SeedsError(f"trace hashes need seeds with an end, FIRST:END, not '{seeds}'")
    for seed, trace_hash in hashes(range(first, end), task):
        print(seed, trace_hash, flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m anabranch.sim.hashes", description="Trace hashes of seeds."
    )
    parser.add_argument("seeds", metavar="FIRST:END")
    parser.add_argument("--regions", type=int, default=3)
    parser.add_argument("--ops", type=int, default=300)
    asked = parser.parse_args()
    try:
        print_hashes(asked.seeds, Task(asked.regions, asked.ops))
    except SeedsError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
