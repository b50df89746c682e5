"""The name of a region in its certificate: one DNS name, such as us.shop.anabranch."""

from __future__ import annotations

from collections.abc import Iterable

_SUFFIX = "anabranch"


class NotAnIdentity(Exception):
    """A certificate does not name one member of the cluster; the text says what it names."""


def dns_name(region: str, cluster: str) -> str:
    """The name in the certificate of a region."""
    return f"{region}.{cluster}.{_SUFFIX}"


def region_in(dns_names: Iterable[str], cluster: str, members: Iterable[str]) -> str:
    """The member that a certificate with these DNS names is for.

    Raises:
        NotAnIdentity: It has no such name, more than one, or that of another cluster or region.
    """
    found = list(dns_names)
    if len(found) != 1:
        shown = ", ".join(found) or "none"
        raise NotAnIdentity(f"the certificate must have one DNS name, and has {shown}")
    for name in members:
        if found[0] == dns_name(name, cluster):
            return name
    raise NotAnIdentity(
        f"the certificate is for {found[0]}, which is no member of cluster '{cluster}'"
    )
