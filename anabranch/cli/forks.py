"""Forks, as regions report them (S13.5): counters of two histories do not compare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from anabranch.cli.client import RegionClient

PAGE = "docs/operations-repair.md#a-fork"


class Fork(NamedTuple):
    """`region` says that its link with `peer` is forked. `detail`: its words, with the effect."""

    region: str
    peer: str
    detail: str

    def as_json(self) -> dict[str, Any]:
        """The fork for programs."""
        return self._asdict()


def forks_of(client: RegionClient, region: str) -> list[Fork]:
    """The forks that a region reports."""
    return [
        Fork(region, peer.name, peer.detail) for peer in client.peers() if peer.link == "forked"
    ]


def told(forks: Iterable[Fork], consequence: str) -> list[str]:
    """A sentence for each two regions that are forked, with the consequence for a command."""
    pairs = dict.fromkeys(tuple(sorted((fork.region, fork.peer))) for fork in forks)
    return [
        f"{one} and {other} are forked: they have different effects under the same counters. So"
        f" their counters do not compare, and {consequence}. {PAGE} says what to do."
        for one, other in pairs
    ]
