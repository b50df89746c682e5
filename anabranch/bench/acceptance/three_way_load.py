"""redis-benchmark adds to one stream in three regions at once, while links are cut and healed."""

from __future__ import annotations

import argparse
import itertools
import sys
import time

from anabranch.bench.acceptance.harness import (
    Chaos,
    Figures,
    entries_of,
    finished,
    parsed_id,
    redis_benchmark,
    require_agreement,
    start_all,
)
from anabranch.cluster.regions import ProcessCluster

# Programs that must be installed, and their Debian packages.
PROGRAMS = {"redis-benchmark": "redis-tools"}
KEY = "s"


def load(adds: int, clients: int, pipeline: int, seed: int) -> Figures:
    """Adds `adds` entries in each of three regions; requires equal digests and distinct IDs."""
    figures = Figures(f"{adds:,} adds in each of three regions at once, links cut and healed")
    with ProcessCluster() as cluster:
        start_all(figures, cluster)
        begun = time.monotonic()
        with Chaos(cluster, seed) as chaos:
            loads = {
                name: redis_benchmark(
                    region, adds, clients, pipeline, "XADD", KEY, "*", "f", "0123456789abcdef"
                )
                for name, region in cluster.regions.items()
            }
            for name, running in loads.items():
                figures.show(f"redis-benchmark in {name}", finished(running, 1800.0))
        took_s = time.monotonic() - begun
        figures.show(
            "together",
            took_s,
            f"s, {3 * adds / took_s:,.0f} adds a second, {chaos.cuts} cuts (seed {seed})",
        )
        require_agreement(figures, cluster)
        for name, region in cluster.regions.items():
            length = region.ask("XLEN", KEY)
            figures.require(f"XLEN in {name} is {3 * adds:,}", length == 3 * adds, length)
            ids = [parsed_id(entry_id) for entry_id, _ in entries_of(region, KEY)]
            ascending = all(one < other for one, other in itertools.pairwise(ids))
            figures.require(
                f"{name}: {3 * adds:,} different IDs, in order",
                len(ids) == 3 * adds and ascending,
                len(set(ids)),
            )
            figures.require(
                f"{name}: every seq fits a region", all(seq % 1000 in (1, 2, 3) for _, seq in ids)
            )
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.three_way_load", description=__doc__
    )
    parser.add_argument("--adds", type=int, default=100_000, help="in each region")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--pipeline", type=int, default=1)
    parser.add_argument("--seed", type=int, default=10)
    given = parser.parse_args(arguments)
    return load(given.adds, given.clients, given.pipeline, given.seed).finish()


if __name__ == "__main__":
    sys.exit(main())
