"""`anabranch pipeline lag`: how late entries arrive, and which of them XREAD cursors skip."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption
from anabranch.cli.pipeline.common import (
    ConfOption,
    JsonOption,
    MasterOption,
    PasswordFileOption,
    StreamsOption,
    checked_json,
    perform,
    regions_of,
)
from anabranch.pipeline.jobs.session import LOCAL

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


def lag(
    streams: StreamsOption = "*",
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
    password_file: PasswordFileOption = None,
    seconds: SecondsOption = 60,
    interval: IntervalOption = 200,
    out: OutOption = None,
    master: MasterOption = LOCAL,
    conf: ConfOption = None,
    json_file: JsonOption = None,
) -> None:
    """Watch how late entries arrive in each region, and which of them XREAD cursors skip.

    Exits with 0, or with 1 if a region does not answer.
    """
    from anabranch.pipeline.jobs.lag import job

    checked_json(json_file)
    with regions_of(cluster, at, password, password_file, master) as regions:
        options = job.LagOptions(regions, streams, seconds, interval, out)
        perform("lag", master, conf, json_file, lambda spark, bar: job.run(spark, options, bar))
