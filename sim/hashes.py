"""Prints the trace hashes of seeds, one a line: `python -m anabranch.sim.hashes FIRST:END`.

Two processes that print the same hash for a seed have run it identically.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterable, Iterator

from anabranch.sim.seeds import in_range
from anabranch.sim.sweep import Task


def hashes(seeds: Iterable[int], task: Task) -> Iterator[tuple[int, str]]:
    """Yields (seed, trace hash) of each seed, run in this process. `task`: the kind of the runs."""
    for seed in seeds:
        yield seed, task(seed).trace_hash
        gc.collect()


def main() -> None:
    """Prints ``seed hash`` lines."""
    parser = argparse.ArgumentParser(
        prog="python -m anabranch.sim.hashes", description="Trace hashes of seeds."
    )
    parser.add_argument("seeds", metavar="FIRST:END")
    parser.add_argument("--regions", type=int, default=3)
    parser.add_argument("--ops", type=int, default=300)
    asked = parser.parse_args()
    first, end = in_range(asked.seeds)
    seeds = range(first, end if end is not None else first + 1)
    for seed, trace_hash in hashes(seeds, Task(asked.regions, asked.ops)):
        print(seed, trace_hash, flush=True)


if __name__ == "__main__":
    main()
