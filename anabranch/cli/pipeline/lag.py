"""`anabranch pipeline lag`: how late entries arrive, and which of them XREAD cursors skip."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from anabranch.cli.pipeline.common import StreamsOption, Work, directory, takes_regions

HoursOption = Annotated[
    float,
    typer.Option("--hours", metavar="H", min=0.001, max=87_600.0, help="How many hours back."),
]
OutOption = Annotated[
    Optional[str],
    typer.Option("--out", metavar="DIR", help="Directory for the tables, and for plots."),
]


@takes_regions(regions_before="hours")
def lag(streams: StreamsOption = "*", hours: HoursOption = 1.0, out: OutOption = None) -> Work:
    """Tell how late entries arrived in each region, and which of them XREAD cursors skip.

    It reads the logs of the last hours on the disks of the regions.

    Exits with 0, or with 1 if a region does not answer.
    """
    folder = None if out is None else str(directory("--out", out))
    from anabranch.pipeline.jobs.lag import job

    return lambda session, regions, bar: job.run(
        session, job.LagOptions(regions, streams, hours, folder), bar
    )
