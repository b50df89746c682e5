"""`anabranch pipeline lag`: how late entries arrive, and which of them XREAD cursors skip."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from anabranch.cli.pipeline.common import StreamsOption, Work, takes_regions

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
OutOption = Annotated[
    Optional[str],
    typer.Option("--out", metavar="DIR", help="Directory for the tables, and for plots."),
]


@takes_regions(regions_before="seconds")
def lag(
    streams: StreamsOption = "*",
    seconds: SecondsOption = 60,
    interval: IntervalOption = 200,
    out: OutOption = None,
) -> Work:
    """Watch how late entries arrive in each region, and which of them XREAD cursors skip.

    Exits with 0, or with 1 if a region does not answer.
    """
    from anabranch.pipeline.jobs.lag import job

    return lambda session, regions, bar: job.run(
        session, job.LagOptions(regions, streams, seconds, interval, out), bar
    )
