"""`anabranch pipeline audit`: proves that the regions hold the same, or lists the differences."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.pipeline.common import ParquetOption, StreamsOption, Work, takes_regions

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


@takes_regions(regions_before="timeout", spark_before="parquet")
def audit(
    streams: StreamsOption = "*", timeout: TimeoutOption = 60, parquet: ParquetOption = None
) -> Work:
    """Compare all regions: entries, groups, deadlines. Clients may go on writing.

    Exits with 0 if all regions hold the same, and with 1 if they differ, or a region does not
    answer or has not received what others have.
    """
    from anabranch.pipeline.jobs.audit import job

    return lambda session, regions, bar: job.run(
        session, job.AuditOptions(regions, streams, timeout, parquet), bar
    )
