"""The certificates of a cluster that `anabranch up --tls` starts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from anabranch.certificates.files import AUTHORITY_DAYS, DAYS, REGIONS, CertificateError, Folder
from anabranch.certificates.making import facts
from anabranch.cli.errors import CliError

# In the directory of the cluster's data. A region of this name has its own data there.
DIRECTORY: Final = "certificates"
_RENEWED_AT_DAYS: Final = 30


def tls_words(directory: Path, cluster: str, names: list[str]) -> dict[str, list[str]]:
    """The flags of each region. Makes what is missing, and renews what ends within 30 days.

    CliError if a certificate cannot be made.
    """
    if DIRECTORY in names:
        raise CliError(f"with --tls no region may be called '{DIRECTORY}': they lie there")
    folder = Folder(directory / DIRECTORY)
    try:
        if not folder.has(REGIONS):
            folder.create_authority(False, "anabranch regions", AUTHORITY_DAYS)
        for name in names:
            if not folder.has(name):
                folder.create_region(name, cluster, DAYS)
            elif _ends_soon(folder.certificate(name)):
                folder.renew(name, DAYS)
    except CertificateError as error:
        raise CliError(str(error)) from None
    except OSError as error:
        raise CliError(f"cannot write {error.filename}: {error.strerror}") from None
    return {
        name: [
            *("--sync-tls", "required"),
            *("--sync-tls-cert-file", str(folder.certificate(name))),
            *("--sync-tls-key-file", str(folder.key(name))),
            *("--sync-tls-ca-cert-file", str(folder.certificate(REGIONS))),
        ]
        for name in names
    }


def _ends_soon(file: Path) -> bool:
    return facts(file.read_bytes()).days_left() < _RENEWED_AT_DAYS
