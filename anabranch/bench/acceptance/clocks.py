"""Regions whose machine's clock is wrong by an hour or 20 years, with libfaketime.

One of three regions starts with such a clock, before the others or after them. The others must
serve, with IDs of the right time; no key may go before its deadline; once the clock is right, all
must serve again. The package libfaketime of Debian has the library. It changes what a process reads
as the time of day, and not its steady clock.

    anabranch bench acceptance.clocks
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final, Optional

from anabranch.bench.harness import Figures, wait_for
from anabranch.cluster.regions import ProcessCluster

LEAPS: Final = ("+1h", "-1h", "+20y", "-20y")
SERVES_LIMIT_S: Final = 60.0
TTL_S: Final = 600
# How far the time in an ID may be from this machine's clock.
NEAR_MS: Final = 60_000
_WRONG: Final = "ap"


class _Cluster(ProcessCluster):
    """Three regions. `leap`: by how much the clock of ap is wrong, as libfaketime has it."""

    def __init__(self, library: Path) -> None:
        super().__init__(("us", "eu", _WRONG))
        self._library: Final = library
        self.leap: Optional[str] = None

    def program(self, name: str) -> tuple[list[str], dict[str, str]]:
        line, environment = super().program(name)
        if name == _WRONG and self.leap is not None:
            environment = {
                **environment,
                "LD_PRELOAD": str(self._library),
                "FAKETIME": self.leap,
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        return line, environment

    def state(self, name: str) -> str:
        return self[name].info()["crdt_state"]

    def add(self, name: str, key: str) -> int:
        """Adds an entry in a region; how far the time in its ID is from this machine's clock."""
        entry_id: bytes = self[name].ask("XADD", key, "*", "by", name)
        return abs(int(entry_id.partition(b"-")[0]) - time.time_ns() // 1_000_000)


def story(figures: Figures, library: Path, leap: str, is_first: bool) -> None:
    """The clock of ap is wrong when it starts, and right at its next start."""
    named = f"{leap}, ap starts {'first' if is_first else 'last'}"
    with _Cluster(library) as cluster:
        cluster.start_all()
        cluster["us"].ask("XADD", "session", "*", "f", "v")
        cluster["us"].ask("EXPIRE", "session", TTL_S)
        cluster.level()
        for name in cluster.regions if is_first else (_WRONG, "us"):
            cluster.stop(name)
        cluster.leap = leap
        for name in (_WRONG, "us", "eu") if is_first else (_WRONG, "us"):
            cluster.start(name)
        wait_for(lambda: cluster.state(_WRONG) == "apart", f"{named}: ap being apart")
        wait_for(lambda: cluster.state("us") == "serving", f"{named}: us serving")
        figures.at_most(f"{named}: an ID of us", cluster.add("us", "orders"), NEAR_MS, "ms")
        cluster["us"].ask("XADD", "later", "*", "f", "v")
        cluster["us"].ask("EXPIRE", "later", TTL_S)
        cluster.stop(_WRONG)
        cluster.leap = None
        began_s = time.monotonic()
        cluster.start(_WRONG)
        wait_for(lambda: cluster.state(_WRONG) == "serving", f"{named}: ap serving")
        served_s = time.monotonic() - began_s
        figures.at_most(f"{named}: ap serves again after", served_s, SERVES_LIMIT_S, "s")
        cluster.await_started()
        for name in cluster.regions:
            off_ms = cluster.add(name, f"of-{name}")
            figures.at_most(f"{named}: an ID of {name} later", off_ms, NEAR_MS, "ms")
            left = [cluster[name].ask("TTL", key) for key in ("session", "later")]
            figures.require(
                f"{named}: keys with a deadline in {name}", all(100 < one <= TTL_S for one in left)
            )


def run(library: Path, leaps: list[str]) -> Figures:
    """All stories; shows the figures."""
    figures = Figures("Clocks that are wrong at a start, with libfaketime")
    for leap in leaps:
        for is_first in (False, True):
            story(figures, library, leap, is_first)
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.clocks", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--library", type=Path, help="libfaketime.so.1, if it is not found")
    parser.add_argument("leaps", nargs="*", default=list(LEAPS), help="+1h, -20y, ...")
    given = parser.parse_args(arguments)
    found = [given.library] if given.library else [*Path("/usr/lib").glob("*/faketime/*time.so.1")]
    if not found or not found[0].exists():
        parser.error(f"{given.library or 'libfaketime.so.1'} is not there: install libfaketime")
    return run(found[0], given.leaps).finish()
