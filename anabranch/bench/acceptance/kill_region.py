"""SIGKILL of random regions under load.

With ``appendfsync always`` no acknowledged entry may be lost. Under every setting regions must not
diverge, and no entry may be there twice.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from anabranch.bench.acceptance.harness import (
    Figures,
    Writers,
    entries_of,
    require_agreement,
    start_all,
)
from anabranch.cluster.regions import ProcessCluster

SETTINGS = ("always", "everysec", "no")


def kill(
    appendfsync: str, kills: int, seed: int, load_s: tuple[float, float] = (0.3, 1.5)
) -> Figures:
    """Kills and restarts a random region `kills` times, while the load goes on.

    `load_s`: the least and the most seconds before each kill.
    """
    figures = Figures(
        f"{kills} × SIGKILL of a random region under load, appendfsync {appendfsync} (seed {seed})"
    )
    chance = random.Random(seed)
    with ProcessCluster(settings={"appendfsync": appendfsync}) as cluster:
        start_all(figures, cluster)
        down_s = []
        with Writers(cluster) as writers:
            for _ in range(kills):
                time.sleep(chance.uniform(*load_s))
                name = chance.choice(sorted(cluster.regions))
                cluster.kill(name)
                begun = time.monotonic()
                time.sleep(chance.choice((0.0, 0.2)))
                cluster.start(name)
                down_s.append(time.monotonic() - begun)
            time.sleep(load_s[0])
        figures.show(
            "written",
            writers.written,
            f"entries, {len(writers.acknowledged):,} of them acknowledged",
        )
        figures.show("longest from kill to PING", max(down_s), "s")
        figures.show("refused", Counter(writers.refused).most_common(3) or 0)
        require_agreement(figures, cluster)
        for name, region in cluster.regions.items():
            present = Counter(fields[1] for _, fields in entries_of(region, Writers.KEY))
            lost = [value for value in writers.acknowledged if value not in present]
            twice = [value for value, number in present.items() if number > 1]
            if appendfsync == "always":
                figures.require(
                    f"{name}: no acknowledged entry lost",
                    not lost,
                    f"{len(lost)} lost{f', such as {lost[0]!r}' if lost else ''}",
                )
            else:
                figures.show(f"{name}: acknowledged and lost, as this setting allows", len(lost))
            figures.require(f"{name}: nothing there twice", not twice, f"{len(twice)} twice")
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.kill_region", description=__doc__
    )
    parser.add_argument(
        "--appendfsync", choices=SETTINGS, action="append", help="only this setting"
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=10)
    given = parser.parse_args(arguments)
    return max(
        kill(setting, given.kills, given.seed).finish() for setting in given.appendfsync or SETTINGS
    )


if __name__ == "__main__":
    sys.exit(main())
