"""Scenario files: Markdown tables of what each region is told and must answer (DESIGN, "scenario"; docs/scenarios.md).

Read in this order: `model` (a parsed scenario, as values), `expectation` (what a reply is compared with), `trouble`, `cells`, `header` and
`parser` (text to model), `shape` (replies to what a table writes of them), `cluster` (what a scenario runs on), `runner` (the model
against a cluster); then `virtual`, which runs it in the simulator's world; `wire`, `processes`, `outages` and `live`, which run it
against real regions; `running`, which does so with files; last `recording` and `writing`: a run of the simulator told as a file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence


def main(paths: Sequence[str], addresses: Sequence[str] | None = None, live: bool = False) -> int:
    """Runs files and directories, prints each outcome, and returns an exit status: 0 if all passed.

    They run in virtual time, or `live`: on regions started for the purpose, or on those at `addresses` (HOST:PORT of every region of an
    existing, empty cluster).
    """
    from anabranch.sim.scenario.cluster import ClusterError
    from anabranch.sim.scenario.running import Outcome, run, run_virtually

    ran = 0
    begun = time.monotonic()

    def report(outcome: Outcome) -> None:
        nonlocal ran
        ran += 1
        print(outcome, flush=True)

    try:
        failed = (
            run(paths, addresses, report) if live or addresses else run_virtually(paths, report)
        )
    except ClusterError as error:
        print(f"scenarios cannot run: {error}")
        return 2
    print(f"{ran} scenarios, {failed} failed, {time.monotonic() - begun:.1f} s")
    return 1 if failed else 0
