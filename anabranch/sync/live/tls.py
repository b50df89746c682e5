"""TLS between regions (T1 to T3 in docs/security.md): contexts, and who the other side is.

Both sides show a certificate of the regions' authority before anything else is said. The files are
looked at again for each connection. While a new pair does not load, the former one stays in use.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Optional, Protocol

from anabranch.certificates.names import NotAnIdentity, region_in

if TYPE_CHECKING:
    from anabranch.certificates.making import Facts

OFF: Final = "off"
OPTIONAL: Final = "optional"
REQUIRED: Final = "required"
HANDSHAKE_TIMEOUT_S: Final = 5.0
# The first byte of a handshake of TLS. Without TLS, a connection of grpc begins with "PRI".
FIRST_BYTE: Final = b"\x16"

_MODE: Final = "sync-tls"
_CERTIFICATE: Final = "sync-tls-cert-file"
_KEY: Final = "sync-tls-key-file"
_AUTHORITIES: Final = "sync-tls-ca-cert-file"
_DENIED: Final = "sync-tls-denied-serials"

_log: Final = logging.getLogger("anabranch.sync")

# What tells one version of the files from another.
_Versions = tuple[tuple[str, int, int, int], ...]


class Settings(Protocol):
    """The region's settings, by name."""

    def text(self, name: str) -> str: ...


class NoTls(Exception):
    """TLS cannot be used, or the other side may not speak; the text says why."""


class RegionTls:
    """TLS as the settings of one region have it. `members`: the names of all members."""

    def __init__(self, settings: Settings, cluster: str, members: Iterable[str]) -> None:
        self._settings: Final = settings
        self._cluster: Final = cluster
        self._members: Final = list(members)
        self._versions: Optional[_Versions] = None
        self._accepting: Optional[ssl.SSLContext] = None
        self._dialling: Optional[ssl.SSLContext] = None
        # What the certificate in use says.
        self._own: Optional[Facts] = None
        # Why the present files do not load, as it was told.
        self._problem = ""

    @property
    def mode(self) -> str:
        """off, optional or required."""
        return self._settings.text(_MODE)

    def check(self, own: str) -> None:
        """NoTls if TLS is on, and the files do not load or are not those of the region `own`."""
        if self.mode == OFF:
            return
        self._look()
        assert self._own is not None
        file = self._settings.text(_CERTIFICATE)
        try:
            found = region_in(self._own.dns_names, self._cluster, self._members)
        except NotAnIdentity as error:
            raise NoTls(f"{file}: {error}") from None
        if found != own:
            raise NoTls(f"{file} is the certificate of {found}, and this region is {own}")

    def accepting(self) -> ssl.SSLContext:
        """The context for a connection that a peer has opened. NoTls: no files were loaded yet."""
        self._look()
        assert self._accepting is not None
        return self._accepting

    def dialling(self) -> ssl.SSLContext:
        """The context for a connection to a peer. NoTls: no files were loaded yet."""
        self._look()
        assert self._dialling is not None
        return self._dialling

    def days_left(self) -> Optional[int]:
        """Days until the certificate in use ends, below 0 after it; None without TLS."""
        if self.mode == OFF:
            return None
        with contextlib.suppress(NoTls):
            self._look()
        return None if self._own is None else self._own.days_left()

    def region_of(self, certificate: dict[str, Any]) -> str:
        """The member that a verified certificate, as `ssl` shows it, is for.

        Raises:
            NoTls: It is for no member, or its serial number is denied.
        """
        serial = int(certificate.get("serialNumber", "0"), 16)
        denied = self._settings.text(_DENIED)
        try:
            is_denied = serial in _serials(denied)
        except ValueError:
            raise NoTls(f"{_DENIED} must be numbers in hex, not '{denied}'") from None
        if is_denied:
            raise NoTls(f"the certificate with the serial number {serial:X} is denied here")
        names = [text for kind, text in certificate.get("subjectAltName", ()) if kind == "DNS"]
        try:
            return region_in(names, self._cluster, self._members)
        except NotAnIdentity as error:
            raise NoTls(str(error)) from None

    def _look(self) -> None:
        """Loads the files if they have changed. NoTls if none are in use and these do not load."""
        files = [self._settings.text(name) for name in (_CERTIFICATE, _KEY, _AUTHORITIES)]
        try:
            versions = tuple(_version(file) for file in files)
            if versions == self._versions:
                return
            own = _facts_of(files[0])
            accepting = _context(ssl.PROTOCOL_TLS_SERVER, files)
            dialling = _context(ssl.PROTOCOL_TLS_CLIENT, files)
        except (OSError, ValueError) as error:
            text = f"cannot load {', '.join(files)}: {error}"
            if self._accepting is None:
                raise NoTls(text) from None
            if text != self._problem:
                self._problem = text
                _log.warning("%s; the former files stay in use", text, extra={"event": "tls_files"})
            return
        if self._versions is not None:
            _log.info("new TLS files are in use", extra={"event": "tls_files"})
        self._versions, self._own, self._problem = versions, own, ""
        self._accepting, self._dialling = accepting, dialling


class _Off:
    """Settings without TLS."""

    def text(self, name: str) -> str:
        return OFF if name == _MODE else ""


NO_TLS: Final = RegionTls(_Off(), "", ())
"""For connections that never have TLS."""


def why(error: OSError) -> str:
    """What ended a handshake, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not taken: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error) or type(error).__name__


def _context(protocol: int, files: list[str]) -> ssl.SSLContext:
    """A context of TLS 1.3 in which both sides show a certificate.

    OSError or ValueError if a file cannot be read, or key and certificate do not fit.
    """
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # `region_of` compares the name: it is one of the cluster, not of a host.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        # A session that is taken up again would not show its certificate again.
        context.num_tickets = 0
    context.load_verify_locations(cafile=files[2])
    context.load_cert_chain(files[0], files[1], _no_password)
    return context


def _no_password() -> str:
    raise ValueError("the key has a password: give one without, in a file with mode 0600")


def _version(file: str) -> tuple[str, int, int, int]:
    if not file:
        raise ValueError(f"give {_CERTIFICATE}, {_KEY} and {_AUTHORITIES}")
    facts = os.stat(file)
    return file, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _facts_of(file: str) -> Facts:
    """What the certificate in a PEM file says. OSError or ValueError if it cannot be read."""
    # The import takes some 50 ms, which regions without TLS do not need.
    from anabranch.certificates.making import facts

    return facts(Path(file).read_bytes())


def _serials(text: str) -> set[int]:
    """The serial numbers of a setting: hex, separated by commas or spaces."""
    return {int(word.replace(":", ""), 16) for word in text.replace(",", " ").split()}
