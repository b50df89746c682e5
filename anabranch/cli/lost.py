"""Which regions were said to be lost (S13.8): what only they hold is not in the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.cli.client import RegionClient


def is_lost(facts: dict[str, str]) -> bool:
    """Whether a region is lost, by its section `crdt` of INFO: a link has told it.

    The state of a region whose disk fails is another one.
    """
    return facts["crdt_called_lost_by"] != ""


def lost_regions(clients: Iterable[RegionClient]) -> set[int]:
    """The region_ids of the lost regions, as far as these regions tell.

    A lost region says so itself once a link has told it. What it calls lost counts for nothing.
    """
    lost: set[int] = set()
    for client in clients:
        facts = client.info("crdt")
        if is_lost(facts):
            lost.add(int(facts["crdt_region_id"]))
        else:
            lost |= {peer.region_id for peer in client.peers() if peer.lost}
    return lost
