"""The addresses of a region: two cannot be the same, and some need TLS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anabranch.region.engine.settings import Settings
from anabranch.region.option_values import Address, ConfigError

_ANY_HOST: Final = frozenset({"0.0.0.0", "::", ""})


def _collide(one: Address, other: Address) -> bool:
    """Whether two sockets cannot listen on these addresses at the same time."""
    same_host = one.host == other.host or bool({one.host, other.host} & _ANY_HOST)
    return one.port != 0 and one.port == other.port and same_host


def check_addresses(
    where: Callable[[str], str], own: dict[str, Address], peers: dict[str, Address]
) -> None:
    """ConfigError if two addresses of the region, or of its peers, are the same.

    `where`: what named the value of an option.
    """
    options = list(own)
    for n, option in enumerate(options):
        for other in options[:n]:
            if _collide(own[option], own[other]):
                raise ConfigError(
                    f"{where(other)} and {where(option)} both use port"
                    f" {own[option].port}: give each its own"
                )
    names = list(peers)
    for n, name in enumerate(names):
        if peers[name] == own["sync"]:
            raise ConfigError(
                f"{where('peer')}: {peers[name]} is this region's own --sync, not the address of"
                f" '{name}'"
            )
        for former in names[:n]:
            if peers[name] == peers[former]:
                raise ConfigError(
                    f"{where('peer')}: '{former}' and '{name}' have the same address {peers[name]}"
                )


def check_sync(where: str, address: Address, settings: Settings) -> None:
    """ConfigError if other machines reach the port of the regions without TLS, unasked."""
    if (
        settings.text("sync-tls") == "off"
        and settings.text("sync-insecure") == "no"
        and not address.is_loopback
    ):
        raise ConfigError(
            f"{where} is {address}: whoever reaches it could read and change everything. Give the"
            " regions certificates (`anabranch cert`, sync-tls; docs/security.md), or say"
            " sync-insecure yes, if only trusted machines reach it"
        )
