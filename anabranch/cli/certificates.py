"""`anabranch cert`: the certificates with which regions know each other (docs/security.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.certificates.files import AUTHORITY_DAYS, DAYS, CertificateError, Folder
from anabranch.certificates.making import facts
from anabranch.cli.errors import CliError, ProblemsTold, UsageError
from anabranch.cli.printing import JsonOption, print_json
from anabranch.region.option_values import valid_name

FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory of the cluster's certificates.")
]
DaysOption = Annotated[int, typer.Option(min=1, max=36500, help="Days until it ends.")]


def create_ca(
    folder: FolderArgument,
    clients: Annotated[
        bool, typer.Option("--clients", help="The authority of clients, not that of regions.")
    ] = False,
    name: Annotated[str, typer.Option(help="The name that certificates show.")] = "",
    days: DaysOption = AUTHORITY_DAYS,
    json: JsonOption = False,
) -> None:
    """Make the authority that signs the certificates of regions, or of clients.

    Regions and clients have one each, so that no client can speak as a region. Keep the key (files
    that end with -key.pem) where only you can read it; regions need only the certificate.
    """
    shown = name or f"anabranch {'clients' if clients else 'regions'}"
    _made([lambda: Folder(folder).create_authority(clients, shown[:64], days)], json)


def create_region(
    folder: FolderArgument,
    region: Annotated[str, typer.Argument(metavar="NAME", help="The region's name.")],
    cluster: Annotated[str, typer.Option(help="The cluster's name.")] = "local",
    days: DaysOption = DAYS,
    json: JsonOption = False,
) -> None:
    """Make the certificate of one region, which the authority in DIR signs.

    The region gets the certificate as --sync-tls-cert-file, its key as --sync-tls-key-file, and
    ca.pem as --sync-tls-ca-cert-file.
    """
    if not valid_name(cluster):
        raise UsageError(f"--cluster must be the name of the cluster, not '{cluster}'")
    _made([lambda: Folder(folder).create_region(region, cluster, days)], json)


def create_client(
    folder: FolderArgument,
    user: Annotated[str, typer.Argument(metavar="USER", help="The user's name.")],
    days: DaysOption = DAYS,
    json: JsonOption = False,
) -> None:
    """Make the certificate of one client, which the authority of clients in DIR signs."""
    _made([lambda: Folder(folder).create_client(user, days)], json)


def renew(
    folder: FolderArgument,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Regions, or client-USER for a client.")
    ],
    days: DaysOption = DAYS,
    json: JsonOption = False,
) -> None:
    """Replace certificates and their keys by new ones for the same names.

    A region takes the new files with its next connection; nothing is started again.
    """
    _made([partial(Folder(folder).renew, name, days) for name in names], json)


def show(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Certificates.")],
    json: JsonOption = False,
) -> None:
    """Show for whom certificates are, who signed them, their serial numbers and their ends.

    Exits with 1 if one of them has ended.
    """
    rows = [_row(file) for file in files]
    if json:
        ended = [f"{row['file']} has ended" for row in rows if row["days_left"] < 0]
        print_json({"certificates": rows, "problems": ended})
    else:
        for row in rows:
            print(f"{row['file']}")
            for name in ("for", "signed_by", "names", "serial", "from", "until", "days_left"):
                value = row[name]
                text = ", ".join(value) if isinstance(value, list) else str(value)
                print(f"  {name.replace('_', ' '):<10} {text or '-'}")
    if any(row["days_left"] < 0 for row in rows):
        raise typer.Exit(1)


def _row(file: Path) -> dict[str, Any]:
    try:
        found = facts(file.read_bytes())
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}") from None
    except ValueError:
        raise CliError(f"{file} is no certificate in PEM form") from None
    return {
        "file": str(file),
        "for": found.subject,
        "signed_by": found.issuer,
        "names": found.dns_names,
        "serial": found.serial,
        "from": found.not_before.isoformat(),
        "until": found.not_after.isoformat(),
        "days_left": found.days_left(),
        "is_authority": found.is_authority,
    }


def _made(each: list[Callable[[], Path]], json: bool) -> None:
    """Makes certificates, and tells their files. It ends at the first that cannot be made."""
    rows: list[dict[str, str]] = []
    problem = ""
    for make in each:
        try:
            file = make()
        except CertificateError as error:
            problem = str(error)
            break
        except OSError as error:
            problem = f"cannot write {error.filename}: {error.strerror}"
            break
        ends = facts(file.read_bytes()).not_after
        rows.append({"file": str(file), "until": ends.isoformat()})
        if not json:
            print(f"{file}: until {ends:%Y-%m-%d}", flush=True)
    if json:
        print_json({"certificates": rows, "problems": [problem] if problem else []})
    if problem:
        raise ProblemsTold(problem)
