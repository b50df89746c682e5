"""The checks of Hello and Welcome, and the limits of a link."""

from __future__ import annotations

from typing import Optional

from anabranch.sync.session.interfaces import Engine, Settings
from anabranch.sync.session.messages import VERSION, Hello, Refusal, Welcome

# Limits the settings, so that a message stays well below fields.MESSAGE_BYTES_MAX.
_BATCH_BYTES_MAX = 8 << 20
# Limit on a block received in parts, as a multiple of the largest unit: effects can be longer than
# the commands that issued them.
_STAGED_FACTOR = 16


class LinkLimits:
    """The limits of one link, read from the settings when the link opens (S14)."""

    def __init__(self, settings: Settings) -> None:
        self.batch_bytes = min(settings.integer("crdt-batch-max-bytes"), _BATCH_BYTES_MAX)
        self.window_bytes = settings.integer("crdt-window-max-bytes")
        self.block_bytes = settings.integer("crdt-unit-max-bytes") * _STAGED_FACTOR + (1 << 20)
        self.snapshot_bytes = settings.integer("crdt-snapshot-max-bytes")
        self.body_patience_ms = settings.integer("crdt-body-patience-ms")


class Identity:
    """The identity that this region sends in a Hello or Welcome."""

    def __init__(
        self,
        cluster: str,
        region_id: int,
        name: str,
        members: dict[int, str],
        lost: frozenset[int] = frozenset(),
    ) -> None:
        self.cluster = cluster
        self.region_id = region_id
        self.name = name
        self.members = members
        # The members that are lost here (S13.8); their links are refused.
        self.lost = lost

    @classmethod
    def of(cls, engine: Engine) -> Identity:
        members = {region_id: member.name for region_id, member in engine.members.items()}
        lost = frozenset(each for each, member in engine.members.items() if member.lost)
        return cls(engine.cluster, engine.region_id, engine.name, members, lost)


def refuse_hello(own: Identity, hello: Hello) -> Optional[Refusal]:
    """Returns the refusal for the sender of a Hello; None when it may receive from this region."""
    common = _refuse(own, hello)
    if common is not None:
        return common
    if hello.dialled != own.region_id:
        return Refusal(
            "region",
            f"region {hello.dialled} was dialled, this is {_named(own.region_id, own.name)}",
        )
    return None


def refuse_certified(certified: str, hello: Hello) -> Optional[Refusal]:
    """Returns the refusal for a Hello in the name of another member than the certificate has.

    `certified`: the member of the certificate; empty without TLS.
    """
    if certified in ("", hello.name):
        return None
    return Refusal("region", f"the certificate is for {certified}, and the Hello of {hello.name}")


def refuse_welcome(own: Identity, welcome: Welcome, dialled: int) -> Optional[Refusal]:
    """Returns the refusal for the sender of a Welcome; None when this region may receive from it.

    `dialled` is the region_id that this region meant to reach.
    """
    common = _refuse(own, welcome)
    if common is not None:
        return common
    if welcome.region_id != dialled:
        return Refusal(
            "region",
            f"region {dialled} was dialled, {_named(welcome.region_id, welcome.name)} answered",
        )
    return None


def _refuse(own: Identity, peer: Hello | Welcome) -> Optional[Refusal]:
    """Makes the checks that both sides share.

    The tables of members must be equal, because they change by effects only (S1.1).
    """
    if peer.version != VERSION:
        return Refusal(
            "version",
            f"the peer speaks protocol version {peer.version}, {own.name} speaks {VERSION}",
        )
    if peer.cluster != own.cluster:
        return Refusal(
            "cluster", f"the peer is of cluster '{peer.cluster}', {own.name} of '{own.cluster}'"
        )
    if peer.region_id == own.region_id:
        return Refusal("duplicate", f"both sides say that they are region {own.region_id}")
    if own.members.get(peer.region_id) != peer.name:
        return Refusal(
            "not-a-member",
            f"{_named(peer.region_id, peer.name)} is not a member; "
            f"{own.name} has {_table(own.members)}",
        )
    if peer.region_id in own.lost:
        return refusal_of_lost(peer.name, own.name)
    if peer.members != own.members:
        return Refusal(
            "members",
            f"{peer.name} has members {_table(peer.members)}, {own.name} has {_table(own.members)}",
        )
    return None


def refusal_of_lost(lost: str, own: str) -> Refusal:
    """The refusal for a region that came back after `member lost` (S13.8)."""
    return Refusal("lost", f"{lost} was said to be lost in {own}, nothing is exchanged with it")


def _named(region_id: int, name: str) -> str:
    return f"region {region_id} ({name})"


def _table(members: dict[int, str]) -> str:
    return ",".join(f"{members[region_id]}={region_id}" for region_id in sorted(members))
