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

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anabranch.plural import counted

if TYPE_CHECKING:
    from anabranch.sim.scenario.running import Drawing


def main(
    paths: Sequence[str],
    addresses: Sequence[str] | None = None,
    live: bool = False,
    password: str | None = None,
    drawing: Drawing | None = None,
) -> int:
    """Runs files and directories, prints each outcome, and returns an exit status: 0 if all passed.

    The status is 1 if a scenario failed, or if the cluster cannot run them.

    The scenarios run in virtual time; with `live`, on regions started for the purpose; with
    `addresses` (HOST:PORT of every region), on an existing, empty cluster, which may ask for the
    `password`. `drawing`: drawings of runs in virtual time; `DrawingError` if one cannot be made.
    """
    from anabranch.cluster.errors import ClusterError
    from anabranch.sim.scenario.running import Outcome, run, run_virtually

    ran = 0
    begun = time.monotonic()

    def report(outcome: Outcome) -> None:
        nonlocal ran
        ran += 1
        print(outcome, flush=True)

    try:
        failed = (
            run(paths, addresses, report, password)
            if live or addresses
            else run_virtually(paths, report, drawing)
        )
    except ClusterError as error:
        print(f"scenarios cannot run: {error}", file=sys.stderr)
        return 1
    print(f"{counted(ran, 'scenario')}, {failed} failed, {time.monotonic() - begun:.1f} s")
    return 1 if failed else 0
