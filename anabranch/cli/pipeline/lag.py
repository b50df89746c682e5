"""`anabranch pipeline lag`: how late entries arrive, and which of them XREAD cursors skip."""

from __future__ import annotations

from typing import Annotated, Final, Optional

import typer

from anabranch.cli.errors import UsageError
from anabranch.cli.pipeline.common import StreamsOption, Work, directory, takes_regions

_SECONDS: Final = 60
_INTERVAL_MS: Final = 200
SecondsOption = Annotated[
    int,
    typer.Option(
        "--seconds", metavar="S", min=1, max=86_400, help="How long to watch, in seconds."
    ),
]
IntervalOption = Annotated[
    int,
    typer.Option(
        "--interval",
        metavar="MS",
        min=10,
        max=60_000,
        help="Time between two looks at a region, in milliseconds.",
    ),
]
HoursOption = Annotated[
    Optional[float],
    typer.Option(
        "--hours",
        metavar="H",
        min=0.001,
        max=87_600.0,
        help="Read the logs of the last H hours instead of watching.",
    ),
]
OutOption = Annotated[
    Optional[str],
    typer.Option("--out", metavar="DIR", help="Directory for the tables, and for plots."),
]


@takes_regions(regions_before="seconds")
def lag(
    streams: StreamsOption = "*",
    seconds: SecondsOption = _SECONDS,
    interval: IntervalOption = _INTERVAL_MS,
    hours: HoursOption = None,
    out: OutOption = None,
) -> Work:
    """Tell how late entries arrive in each region, and which of them XREAD cursors skip.

    It watches the regions for a while, or reads the logs of the last hours on their disks.

    Exits with 0, or with 1 if a region does not answer.
    """
    if hours is not None and (seconds, interval) != (_SECONDS, _INTERVAL_MS):
        raise UsageError(
            "--hours reads logs, and --seconds and --interval are of a watch: give one"
        )
    folder = None if out is None else str(directory("--out", out))
    from anabranch.pipeline.jobs.lag import job

    return lambda session, regions, bar: job.run(
        session, job.LagOptions(regions, streams, seconds, interval, hours or 0.0, folder), bar
    )
