"""Scenario files: Markdown tables of commands for each region and the replies that they expect.

The format is described in docs/scenarios.md.

Reading order:

- `expectation`: the expected replies, and whether a reply is as expected.
- `model`: a parsed scenario as values.
- `fault_cells`: faults as a cell writes them.
- `cells`: the text of one cell as tokens.
- `header`: the header of a file.
- `parser`: Markdown text to a scenario.
- `shape`: replies in the form in which tables write them.
- `cluster`: the interface of the clusters on which scenarios run.
- `mismatch`: one difference between a table and a run.
- `runner`: runs a scenario on a cluster and compares the replies.
- `table_client`: a client of the simulated world that sends the commands of the table.
- `virtual`: a cluster in the simulator's world, in virtual time.
- `drawing`: a run in virtual time as a timeline, for a drawing.
- `judged`: the commands that the judges of the simulator cannot follow.
- `outages`: kills, restarts and pauses of processes of regions.
- `admins`: the runner's own connections to real regions.
- `leftovers`: the settings and deadlines that a scenario may leave on a live cluster.
- `live`: a cluster of real regions, over TCP.
- `running`: runs files and directories, in virtual time or on live regions.
- `recording`: records what the clients of a simulated run sent.
- `writing`: writes a simulated run as a scenario file.
- `transcript`: writes a recorded session as a scenario file.
- `effect_commands`: the commands that repeat effects and local records of a region.
- `session`: a session on a live cluster, recorded from the effect logs of its regions.
- `prompt`: the lines that a user types into a recorder.
- `__main__`: runs scenario files without the command line of anabranch.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anabranch.plural import counted

if TYPE_CHECKING:
    from anabranch.sim.scenario.running import Drawing, Outcome


def main(
    paths: Sequence[str],
    addresses: Sequence[str] | None = None,
    live: bool = False,
    password: str | None = None,
    drawing: Drawing | None = None,
    as_json: bool = False,
) -> int:
    """Runs files and directories, prints each outcome, and returns an exit status: 0 if all passed.

    The status is 1 if a scenario failed, or if the cluster cannot run them.

    The scenarios run in virtual time; with `live`, on regions started for the purpose; with
    `addresses` (HOST:PORT of every region), on an existing, empty cluster, which may ask for the
    `password`. `drawing`: drawings of runs in virtual time; `DrawingError` if one cannot be made.
    `as_json`: all outcomes are printed at the end, as one JSON document.
    """
    from anabranch.cluster.errors import ClusterError
    from anabranch.sim.scenario.running import run, run_virtually

    outcomes: list[Outcome] = []
    begun = time.monotonic()

    def report(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if not as_json:
            print(outcome, flush=True)

    try:
        failed = (
            run(paths, addresses, report, password)
            if live or addresses
            else run_virtually(paths, report, drawing)
        )
    except ClusterError as error:
        problem = f"scenarios cannot run: {error}"
        if as_json:
            print(json.dumps(_as_json(outcomes, [problem]), indent=2))
        print(problem, file=sys.stderr)
        return 1
    ran, duration_s = len(outcomes), time.monotonic() - begun
    if as_json:
        print(json.dumps(_as_json(outcomes, []), indent=2))
    else:
        print(f"{counted(ran, 'scenario')}, {failed} failed, {duration_s:.1f} s")
    return 1 if failed else 0


def _as_json(outcomes: list[Outcome], problems: list[str]) -> dict[str, Any]:
    """The outcomes for programs. `problems` come before the files that failed."""
    return {
        "scenarios": [
            {
                "file": one.path,
                "title": one.title,
                "passed": one.passed,
                "duration_ms": one.duration_ms,
                "mismatches": [str(mismatch) for mismatch in one.mismatches],
            }
            for one in outcomes
        ],
        "problems": [*problems, *(f"{one.path} failed" for one in outcomes if not one.passed)],
    }
