"""`anabranch pipeline archive` and `restore`: streams to Parquet files, and back."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption
from anabranch.cli.errors import UsageError
from anabranch.cli.pipeline.common import (
    ConfOption,
    JsonOption,
    MasterOption,
    PasswordFileOption,
    StreamsOption,
    checked_json,
    directory,
    perform,
    regions_of,
)
from anabranch.pipeline.jobs.session import LOCAL

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


def archive(
    folder: _FolderArgument,
    streams: StreamsOption = "*",
    verify: _VerifyOption = False,
    no_proof: _NoProofOption = False,
    allow_loss: _LossOption = False,
    batch: _BatchOption = 5_000_000,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
    password_file: PasswordFileOption = None,
    master: MasterOption = LOCAL,
    conf: ConfOption = None,
    json_file: JsonOption = None,
) -> None:
    """Add the new entries of streams to an archive of Parquet files.

    A repeated run adds only what is new, also entries that were merged late. Then the archive is
    compared with the streams, entry by entry. Exits with 1 if they do not agree.
    """
    checked_json(json_file)
    if verify and no_proof:
        raise UsageError("give --verify or --no-proof, not both")
    path = directory("DIR", folder)
    from anabranch.pipeline.jobs.archive import job

    with regions_of(cluster, at, password, password_file, master) as regions:
        options = job.ArchiveOptions(
            path, regions, streams, batch, allow_loss, not verify, not no_proof
        )
        perform(
            "archive", master, conf, json_file, lambda session, bar: job.run(session, options, bar)
        )


def restore(
    folder: _FolderArgument,
    streams: StreamsOption = "*",
    to_prefix: _ToPrefixOption = "",
    into_existing: _IntoExistingOption = False,
    window: _WindowOption = 3600,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
    password_file: PasswordFileOption = None,
    master: MasterOption = LOCAL,
    conf: ConfOption = None,
    json_file: JsonOption = None,
) -> None:
    """Add the entries of an archive to streams, each once.

    Entries get new IDs, in the order of their old ones, and a field with their old ID, region and
    counter. A repeated run adds only what is not there. Then the streams are compared with the
    archive. Exits with 1 if they do not agree.
    """
    checked_json(json_file)
    path = directory("DIR", folder)
    from anabranch.pipeline.jobs.archive import restore as job

    with regions_of(cluster, at, password, password_file, master) as regions:
        options = job.RestoreOptions(path, regions, streams, to_prefix, into_existing, window)
        perform(
            "restore", master, conf, json_file, lambda session, bar: job.run(session, options, bar)
        )
