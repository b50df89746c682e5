"""Values of options as text: addresses, names, members."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from anabranch.crdt.ids import REGION_ID_MAX

MEMBERS_MAX: Final = 16


class ConfigError(Exception):
    """A mistake in the configuration. The text names its source and the expected form."""


class Address:
    """A host and a TCP port; port 0 lets the system choose."""

    def __init__(self, host: str, port: int) -> None:
        self.host: Final = host
        self.port: Final = port

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it. A name other than localhost may be any machine."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and (self.host, self.port) == (other.host, other.port)

    def __hash__(self) -> int:
        return hash((self.host, self.port))


def parse_address(text: str, where: str) -> Address:
    """Parses ``HOST:PORT`` or ``[IPV6]:PORT``. `where` is the source named by ConfigError."""
    host, colon, port = text.strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not bare or (":" in bare and bare == host):
        raise ConfigError(f"{where} must be HOST:PORT, such as 127.0.0.1:7001, not '{text}'")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"{where}: the port must be a number from 0 to 65535, not '{port}'")
    return Address(bare, int(port))


def valid_name(name: str) -> bool:
    """Whether a name has 1 to 64 ASCII letters, digits, ``-``, ``_`` or ``.``, not only dots.

    A region's data lies in a directory of its name.
    """
    return (
        0 < len(name) <= 64
        and name.isascii()
        and all(c.isalnum() or c in "-_." for c in name)
        and name.strip(".") != ""
    )


def parse_members(text: str, where: str = "members") -> dict[str, int]:
    """Parses ``us=1,eu=2,ap=3`` into name → region_id by the rules of S1; ConfigError if wrong."""
    members: dict[str, int] = {}
    for part in (part.strip() for part in text.split(",")):
        name, equals, number = part.partition("=")
        name, number = name.strip(), number.strip()
        if not equals or not valid_name(name) or not (number.isascii() and number.isdigit()):
            raise ConfigError(f"{where} must look like us=1,eu=2,ap=3; '{part}' does not")
        add_member(members, name, int(number), where)
    return limited(members, where)


def add_member(members: dict[str, int], name: str, region_id: int, where: str) -> None:
    """Adds a member, or raises `ConfigError` for an ID or a name that cannot be."""
    if not 1 <= region_id <= REGION_ID_MAX:
        raise ConfigError(
            f"{where}: the id of '{name}' must be from 1 to {REGION_ID_MAX}, not {region_id}"
        )
    if name in members:
        raise ConfigError(f"{where}: '{name}' is named twice")
    for other, taken in members.items():
        if taken == region_id:
            raise ConfigError(
                f"{where}: '{other}' and '{name}' have the same id {region_id}; "
                "each region needs its own"
            )
    members[name] = region_id


def limited(members: dict[str, int], where: str) -> dict[str, int]:
    """These members, or `ConfigError` if they are more than a cluster has."""
    if len(members) > MEMBERS_MAX:
        raise ConfigError(
            f"{where}: {len(members)} regions, but a cluster has at most {MEMBERS_MAX}"
        )
    return members


def listed_members(members: dict[str, int]) -> str:
    """Members as messages show them: ``us=1, eu=2``."""
    return ", ".join(f"{name}={region_id}" for name, region_id in members.items())
