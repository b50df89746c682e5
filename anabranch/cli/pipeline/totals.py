"""`anabranch pipeline totals`: running counts and sums by key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from anabranch.cli.errors import UsageError
from anabranch.cli.pipeline.common import StreamsOption, Work, directory, takes_regions

_KeyOption = Annotated[
    str, typer.Option("--key", metavar="FIELD", help="Field of the keys.", show_default=False)
]
_SumOption = Annotated[
    str, typer.Option("--sum", metavar="FIELD,…", help="Fields to sum.", show_default=False)
]
_ByOption = Annotated[
    str, typer.Option("--by", metavar="COLUMN,…", help="Also by stream, region, day.")
]
_CheckpointOption = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="Directory of the totals; a repeated run goes on there.",
        show_default=False,
    ),
]
_OutOption = Annotated[
    Optional[str],
    typer.Option("--out", metavar="DIR", help="Directory for the totals of all keys, as Parquet."),
]
_SecondsOption = Annotated[
    Optional[float],
    typer.Option("--seconds", min=1, metavar="N", help="Count for so long what comes."),
]
_NowOption = Annotated[
    bool, typer.Option("--available-now", help="Count what there is, and end (the default).")
]
_BatchOption = Annotated[
    int, typer.Option("--batch", min=1, metavar="N", help="Most entries of one micro-batch.")
]
_LossOption = Annotated[
    bool,
    typer.Option("--allow-loss", help="Go on if entries were trimmed before they were counted."),
]


def _names(text: str) -> list[str]:
    return [one.strip() for one in text.split(",")] if text else []


@takes_regions()
def totals(
    streams: StreamsOption,
    key: _KeyOption,
    sums: _SumOption,
    checkpoint: _CheckpointOption,
    by: _ByOption = "",
    out: _OutOption = None,
    seconds: _SecondsOption = None,
    available_now: _NowOption = False,
    allow_loss: _LossOption = False,
    batch: _BatchOption = 1_000_000,
) -> Work:
    """Count entries and sum fields by key, exactly, and go on at the next run.

    Each entry is counted once, also when a run is killed or an entry is merged late.
    """
    if seconds is not None and available_now:
        raise UsageError("give --seconds or --available-now, not both")
    folder: Path = directory("--checkpoint", checkpoint)
    out_folder = None if out is None else directory("--out", out)
    from anabranch.pipeline.jobs.totals import job

    return lambda session, regions, bar: job.run(
        session,
        job.TotalsOptions(
            regions=regions,
            streams=streams,
            key=key,
            sums=_names(sums),
            checkpoint=folder,
            by=_names(by),
            out=out_folder,
            seconds=seconds,
            batch_entries=batch,
            allows_loss=allow_loss,
        ),
        bar,
    )
