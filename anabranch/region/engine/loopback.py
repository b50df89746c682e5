"""Whether a client has connected over loopback, so from the machine of its region."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def is_loopback(address: str) -> bool:
    """Whether the host of an address HOST:PORT is of 127.0.0.0/8, or ::1. False if it is no IP."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        parsed = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped.is_loopback
    return parsed.is_loopback
