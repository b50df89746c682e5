"""`anabranch pipeline archive` and `restore`: streams to Parquet files, and back."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.errors import UsageError
from anabranch.cli.pipeline.common import StreamsOption, Work, directory, takes_regions

_FolderArgument = Annotated[
    str, typer.Argument(metavar="DIR", help="Directory of the archive.", show_default=False)
]
_BatchOption = Annotated[
    int, typer.Option("--batch", min=1, metavar="N", help="Most entries that are stored at once.")
]
_LossOption = Annotated[
    bool,
    typer.Option(
        "--allow-loss",
        help="Go on if entries were trimmed, or a stream deleted, before they were archived.",
    ),
]
_VerifyOption = Annotated[
    bool, typer.Option("--verify", help="Add nothing; compare the archive with the streams.")
]
_NoProofOption = Annotated[
    bool, typer.Option("--no-proof", help="Do not compare the archive with the streams.")
]

_ToPrefixOption = Annotated[
    str,
    typer.Option(
        "--to-prefix", metavar="TEXT", help="What the names of the target streams begin with."
    ),
]
_IntoExistingOption = Annotated[
    bool, typer.Option("--into-existing", help="Add also to streams that hold other entries.")
]
_WindowOption = Annotated[
    int,
    typer.Option(
        "--window",
        min=1,
        max=86_400,
        metavar="SECONDS",
        help="How long the target streams recognise a row; adding may take so long.",
    ),
]
_DamageOption = Annotated[
    bool, typer.Option("--allow-loss", help="Restore what is left of an archive that is damaged.")
]


@takes_regions()
def archive(
    folder: _FolderArgument,
    streams: StreamsOption = "*",
    verify: _VerifyOption = False,
    no_proof: _NoProofOption = False,
    allow_loss: _LossOption = False,
    batch: _BatchOption = 5_000_000,
) -> Work:
    """Add the new entries of streams to an archive of Parquet files.

    A repeated run adds only what is new, also entries that were merged late. Then the archive is
    compared with the streams, entry by entry. Exits with 1 if they do not agree.
    """
    if verify and no_proof:
        raise UsageError("give --verify or --no-proof, not both")
    path = directory("DIR", folder)
    from anabranch.pipeline.jobs.archive import job

    return lambda session, regions, bar: job.run(
        session,
        job.ArchiveOptions(path, regions, streams, batch, allow_loss, not verify, not no_proof),
        bar,
    )


@takes_regions()
def restore(
    folder: _FolderArgument,
    streams: StreamsOption = "*",
    to_prefix: _ToPrefixOption = "",
    into_existing: _IntoExistingOption = False,
    window: _WindowOption = 3600,
    allow_loss: _DamageOption = False,
) -> Work:
    """Add the entries of an archive to streams, each once.

    Entries get new IDs, in the order of their old ones, and a field with their old ID, region and
    counter. A repeated run adds only what is not there. Then the streams are compared with the
    archive. Exits with 1 if they do not agree.
    """
    path = directory("DIR", folder)
    from anabranch.pipeline.jobs.archive import restore as job

    return lambda session, regions, bar: job.run(
        session,
        job.RestoreOptions(path, regions, streams, to_prefix, into_existing, window, allow_loss),
        bar,
    )
