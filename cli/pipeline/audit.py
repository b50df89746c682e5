"""`anabranch pipeline audit`: proves that the regions hold the same, or lists the differences."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption
from anabranch.cli.pipeline.common import (
    ConfOption,
    JsonOption,
    MasterOption,
    ParquetOption,
    PasswordFileOption,
    StreamsOption,
    checked_json,
    perform,
    regions_of,
)
from anabranch.pipeline.jobs.session import LOCAL

TimeoutOption = Annotated[
    int,
    typer.Option(
        "--timeout",
        metavar="S",
        min=1,
        max=86_400,
        help="How long to wait for a region to apply what others have, in seconds.",
    ),
]


def audit(
    streams: StreamsOption = "*",
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
    password_file: PasswordFileOption = None,
    timeout: TimeoutOption = 60,
    master: MasterOption = LOCAL,
    conf: ConfOption = None,
    json_file: JsonOption = None,
    parquet: ParquetOption = None,
) -> None:
    """Compare all regions: entries, groups, deadlines. Clients may go on writing.

    Exits with 0 if all regions hold the same, and with 1 if they differ, or a region does not
    answer or has not received what others have.
    """
    from anabranch.pipeline.jobs.audit import job

    checked_json(json_file)
    with regions_of(cluster, at, password, password_file, master) as regions:
        options = job.AuditOptions(regions, streams, timeout, parquet)
        perform("audit", master, conf, json_file, lambda spark, bar: job.run(spark, options, bar))
