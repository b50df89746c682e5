"""`anabranch pipeline sweep`: the seeds of the simulator on Spark."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from anabranch.cli import simulate
from anabranch.cli.errors import UsageError
from anabranch.cli.files import checked_json
from anabranch.cli.interrupting import end_as_after_ctrl_c
from anabranch.cli.pipeline.common import (
    ConfOption,
    JsonOption,
    MasterOption,
    ParquetOption,
    perform,
)
from anabranch.pipeline.jobs.session import LOCAL

_Partitions = Annotated[
    Optional[int],
    typer.Option("--partitions", min=1, metavar="N", help="Tasks; default: one for 20 seeds."),
]


def sweep(
    seeds: simulate.SeedsOption = simulate.SEEDS_USUAL,
    regions: simulate.RegionsOption = 3,
    ops: simulate.OpsOption = 300,
    faults: simulate.FaultsOption = None,
    restores: simulate.RestoresOption = False,
    limit: simulate.LimitOption = 120.0,
    partitions: _Partitions = None,
    master: MasterOption = LOCAL,
    conf: ConfOption = None,
    json_file: JsonOption = None,
    parquet: ParquetOption = None,
) -> None:
    """Run the simulator's seeds on the executors of Spark.

    Same seeds, same verdicts and same sums as `anabranch simulate`. It needs no regions. Exits with
    1 when an invariant was violated.
    """
    simulate.need_simulator()
    checked_json(json_file)
    end_as_after_ctrl_c()
    from anabranch.pipeline.jobs.sweep import job
    from anabranch.sim.seeds import SeedsError, in_range
    from anabranch.sim.sweep import Task

    try:
        first, end = in_range(seeds)
    except SeedsError as error:
        raise UsageError(str(error)) from error
    if end is None:
        raise UsageError(f"--seeds: give an end, FIRST:END, not '{seeds}'")
    task = Task(regions, ops, None if faults is None else simulate.kinds(faults), restores)
    options = job.SweepOptions(first, end, task, limit, partitions, parquet)
    perform("sweep", master, conf, json_file, lambda session, bar: job.run(session, options, bar))
