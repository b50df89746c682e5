"""Scenario files: Markdown tables of what each region is told and must answer (DESIGN, "scenario"; docs/scenarios.md).

Read in this order: `model` (a parsed scenario, as values), `expectation` (what a reply is compared with), `cells` and `parser` (text to
model), `shape` (replies to what a table writes of them), `cluster` (what a scenario runs on), `runner` (the model against a cluster);
then `wire`, `processes` and `live`, which run it against real regions.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(paths: Sequence[str], addresses: Sequence[str] | None = None) -> int:
    """Runs files and directories live, prints each outcome, and returns an exit status: 0 if all passed.

    `addresses` (HOST:PORT of every region) names an existing, empty cluster; without them, regions are started for the purpose.
    """
    from sim.scenario.cluster import ClusterError
    from sim.scenario.live import Outcome, run

    ran = 0

    def report(outcome: Outcome) -> None:
        nonlocal ran
        ran += 1
        print(outcome, flush=True)

    try:
        failed = run(paths, addresses, report)
    except ClusterError as error:
        print(f"scenarios cannot run: {error}")
        return 2
    print(f"{ran} scenarios, {failed} failed")
    return 1 if failed else 0
