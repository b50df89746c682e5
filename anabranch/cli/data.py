"""`anabranch check`, `backup` and `restore`: the data directory of a region."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Optional

import typer

from anabranch.cli.addresses import DEFAULT_DATA, FILE_NAME, ClusterOption, named, read_file
from anabranch.cli.errors import CliError, UsageError
from anabranch.cli.printing import JsonOption, print_json
from anabranch.cli.serve import LOCK_NAME, locked
from anabranch.cli.terminal import Progress
from anabranch.file_modes import private_files
from anabranch.region.engine.errors import StorageError
from anabranch.region.live import inspection
from anabranch.region.live.damaged_log import Salvaged
from anabranch.region.live.inspection import Inspection
from anabranch.region.live.stored_identity import read_identity

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The data directory of a region.", show_default=False)
]
_DataOption = Annotated[
    Optional[Path],
    typer.Option(
        "--data",
        metavar="DIR",
        help="The region's data directory. [default: beside the cluster file]",
    ),
]


def check(directory: DirectoryArgument, json: JsonOption = False) -> None:
    """Read a stopped region's data directory whole, and compare it with its checksums.

    No data is changed. Exits with 1 if anything is damaged or the log has a gap, and says what.
    """
    with locked(of_a_region(directory)):
        found = run_inspect(directory)
    if json:
        print_json(as_json(found))
        if found.findings or found.gaps:
            raise typer.Exit(1)
        return
    if found.findings:
        raise CliError(
            "\n  ".join([f"{directory} is damaged:", *found.findings])
            + f"\n`anabranch repair {directory}` rebuilds the region from the other regions"
        )
    if found.gaps:
        raise CliError(
            "\n  ".join([f"the log in {directory} has gaps:", *found.gaps])
            + "\nNothing else is wrong. The region can be served: other regions that lack these"
            " effects get a snapshot. Please report it with the region's logs."
        )
    print(f"{directory} is sound: {described(found)}")
    if found.repaired is not None:
        print(waiting(found.repaired))


def as_json(found: Inspection) -> dict[str, object]:
    """What a look at a data directory found, for programs. `waits_for_start`: it was repaired."""
    return {
        "region": found.name,
        "cluster": found.cluster,
        "members": found.members,
        "keys": found.keys,
        "entries": found.entries,
        "waits_for_start": found.repaired is not None,
        "problems": [*found.findings, *found.gaps],
    }


def backup(
    region: Annotated[str, typer.Argument(metavar="REGION", help="A region.", show_default=False)],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The backup to make.", show_default=False)
    ],
    data: _DataOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Copy a region's database to FILE while the region runs, and check the copy.

    The command runs on the machine that holds the data directory.
    """
    directory = data or _directory_of(region, cluster)
    if data is not None:
        require_region(data, region)
    progress = Progress(f"copying {region}") if sys.stderr.isatty() else None
    try:
        tell = None if progress is None else progress.tell
        with private_files():
            found = asyncio.run(inspection.back_up(existing(directory), file, tell))
    except inspection.TargetExists as error:
        raise UsageError(str(error)) from None
    except StorageError as error:
        raise CliError(str(error)) from None
    finally:
        if progress is not None:
            progress.end()
    size = file.stat().st_size
    if json:
        made = {"file": str(file), "bytes": size, **as_json(found)}
        print_json(made)
    else:
        print(f"{file}: {size:,} bytes, {described(found)}")


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A backup of a region.", show_default=False)
    ],
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="DIR", help="The directory to put it into.", show_default=False
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Put a backup into a data directory that has no database.

    The region then starts in recovery: it takes no writes until it has back from the other regions
    what they hold. Backups that are newer than FILE must not be used afterwards.
    """
    if not file.is_file():
        raise UsageError(f"there is no file {file}")
    with _unmade_if_it_fails(data), locked(data):
        try:
            found = asyncio.run(inspection.restore(file, data))
        except StorageError as error:
            raise CliError(str(error)) from None
    if json:
        print_json({"directory": str(data), **as_json(found)})
        return
    print(
        f"{data} holds {described(found)}\n"
        f"Start {found.name} as usual: it recovers from the other regions before it takes writes."
        " Do not use backups that are newer than this one any more."
    )


@contextmanager
def _unmade_if_it_fails(directory: Path) -> Iterator[None]:
    """Removes the directories that a command made up to this one, and its lock, if it fails."""
    made = [one for one in (directory, *directory.parents) if not one.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):
            if made:
                (directory / LOCK_NAME).unlink(missing_ok=True)
            for one in made:
                one.rmdir()
        raise


def waiting(kept: Salvaged) -> str:
    """What is true of a directory that was repaired and has not been started since."""
    return (
        "It was repaired and waits for its start:"
        f" {count(kept.carried, 'block')} of its former effect log"
        f" {'is' if kept.carried == 1 else 'are'} kept, with effects of its own up to"
        f" {kept.last:,}. Start the region as usual: it recovers from the other regions before it"
        " takes writes."
    )


def run_inspect(directory: Path) -> Inspection:
    try:
        return asyncio.run(inspection.inspect(directory))
    except StorageError as error:
        raise CliError(str(error)) from None


def described(found: Inspection) -> str:
    return (
        f"region {found.name} of cluster {found.cluster}, {count(found.keys, 'key')},"
        f" {count(found.entries, 'entry', 'entries')}, log up to row {found.position}"
    )


def count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def existing(directory: Path) -> Path:
    if not directory.is_dir():
        raise UsageError(f"there is no directory {directory}")
    return directory


def of_a_region(directory: Path) -> Path:
    """CliError for a directory without a database, in which no lock is left then."""
    try:
        inspection.database_file(existing(directory))
    except StorageError as error:
        raise CliError(str(error)) from None
    return directory


def require_region(directory: Path, region: str) -> None:
    """Raises UsageError if the directory holds the data of another region than that named."""
    try:
        found = read_identity(existing(directory))
    except StorageError as error:
        raise CliError(str(error)) from None
    if found is not None and region.lower() not in (found.name.lower(), str(found.region_id)):
        raise UsageError(f"{directory} holds the data of {found.name}, not of {region}")


def _directory_of(region: str, cluster: Path | None) -> Path:
    """The directory that `anabranch up` gave the region, beside its cluster file."""
    file = cluster or DEFAULT_DATA / FILE_NAME
    if file.is_dir():
        file = file / FILE_NAME
    directory = file.parent / named(read_file(file), region).name
    if not directory.is_dir():
        raise CliError(f"the data of {region} is not beside {file}; --data names its directory")
    return directory
