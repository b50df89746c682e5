"""The folder of a cluster's certificates: authorities, regions and clients.

    ca.pem, ca-key.pem                      the authority of the regions
    clients-ca.pem, clients-ca-key.pem      the authority of the clients
    REGION.pem, REGION-key.pem              a region
    client-USER.pem, client-USER-key.pem    a client

The folder has the mode 0700 and every file 0600. Each file is replaced as a whole.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from cryptography.x509 import ExtensionNotFound

from anabranch.certificates.making import Pair, new_authority, new_client, new_region, renewed
from anabranch.file_modes import private_files
from anabranch.whole_file import write_whole

REGIONS: Final = "ca"
CLIENTS: Final = "clients-ca"
AUTHORITY_DAYS: Final = 3650
DAYS: Final = 90
_CLIENT_PREFIX: Final = "client-"
# What may stand in a file's name, and in the common name of a certificate.
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class CertificateError(Exception):
    """A certificate cannot be made; the text says why, and what to do."""


class Folder:
    """The certificates in `path`."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path

    def certificate(self, stem: str) -> Path:
        """The file of a certificate: of "ca", of a region's name, and so on."""
        return self.path / f"{stem}.pem"

    def key(self, stem: str) -> Path:
        """The file of its key."""
        return self.path / f"{stem}-key.pem"

    def has(self, stem: str) -> bool:
        """Whether there is such a certificate."""
        return self.certificate(stem).exists()

    def create_authority(self, clients: bool, name: str, days: int) -> Path:
        """A new authority, of regions or of clients; the file of its certificate."""
        stem = CLIENTS if clients else REGIONS
        self._refuse_existing(stem)
        return self._write(stem, new_authority(name, days))

    def create_region(self, region: str, cluster: str, days: int) -> Path:
        """A new certificate of a region; its file."""
        self._refuse_name(region, "a region")
        if region in (REGIONS, CLIENTS) or region.startswith(_CLIENT_PREFIX):
            raise CertificateError(f"'{region}' would be another file's name in {self.path}")
        self._refuse_existing(region)
        return self._write(region, new_region(self._authority(REGIONS), region, cluster, days))

    def create_client(self, user: str, days: int) -> Path:
        """A new certificate of a client; its file."""
        self._refuse_name(user, "a user")
        stem = f"{_CLIENT_PREFIX}{user}"
        self._refuse_existing(stem)
        return self._write(stem, new_client(self._authority(CLIENTS), user, days))

    def renew(self, stem: str, days: int) -> Path:
        """Replaces a certificate and its key by new ones for the same names; its file."""
        file = self.certificate(stem)
        if not file.exists():
            raise CertificateError(f"there is no {file}: `anabranch cert create-region` makes one")
        authority = CLIENTS if stem.startswith(_CLIENT_PREFIX) else REGIONS
        try:
            pair = renewed(self._authority(authority), file.read_bytes(), days)
        except (ValueError, TypeError, LookupError, ExtensionNotFound) as error:
            raise CertificateError(f"{file} cannot be renewed: {error}") from error
        return self._write(stem, pair)

    def _authority(self, stem: str) -> Pair:
        try:
            return Pair(self.certificate(stem).read_bytes(), self.key(stem).read_bytes())
        except FileNotFoundError as error:
            flag = " --clients" if stem == CLIENTS else ""
            raise CertificateError(
                f"there is no {error.filename}: `anabranch cert create-ca {self.path}{flag}` makes"
                " the authority that signs this"
            ) from None

    def _refuse_existing(self, stem: str) -> None:
        for file in (self.certificate(stem), self.key(stem)):
            if file.exists():
                raise CertificateError(f"{file} is there already; `anabranch cert renew` renews it")

    def _refuse_name(self, name: str, of: str) -> None:
        if not _NAME.fullmatch(name):
            raise CertificateError(
                f"{of} in a certificate has 1 to 64 letters, digits, '-', '_' or '.', not '{name}'"
            )

    def _write(self, stem: str, pair: Pair) -> Path:
        with private_files():
            self.path.mkdir(parents=True, exist_ok=True)
            # A region that reads the files in between takes neither, and goes on with the former.
            write_whole(self.key(stem), pair.key)
            write_whole(self.certificate(stem), pair.certificate)
        return self.certificate(stem)
