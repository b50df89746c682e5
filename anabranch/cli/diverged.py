"""What a region that is to be rebuilt from a peer holds differently (S13.9).

Only at equal vectors the data of two regions must be equal. So a difference counts only there: it
is divergence. Elsewhere it may be effects under way.
"""

from __future__ import annotations

import time
from typing import Final

from anabranch.cli.client import RegionClient
from anabranch.cli.diff import Difference, Side, forks_between
from anabranch.cli.errors import CliError
from anabranch.cli.forks import PAGE
from anabranch.cli.lost import is_lost

# How long the vectors of the two may take until they are equal.
_LEVEL_S: Final = 10.0
_POLL_S: Final = 0.1
# How often two regions that change are compared.
_LOOKS: Final = 3


def compared(wrong: RegionClient, right: RegionClient) -> Difference:
    """The difference between two regions with equal vectors.

    Raises:
        CliError: One of them cannot be compared, or the vectors do not become equal; with a reason.
    """
    for client in (wrong, right):
        _require_serving(client)
    _require_link(wrong, right)
    for _ in range(_LOOKS):
        sides = _level(wrong, right)
        found = Difference(*sides)
        found.find(None)
        changes = [side.looks_again() for side in sides]
        if not any(changes):
            return found
    raise CliError(
        f"{wrong.name} and {right.name} change while they are compared: stop their clients first"
    )


def _require_serving(client: RegionClient) -> None:
    facts = client.info("crdt")
    if is_lost(facts):
        raise CliError(
            f"{client.name} was said to be lost: nothing is taken from it or given to it"
        )
    state = facts["crdt_state"]
    if state != "serving":
        raise CliError(
            f"the state of {client.name} is {state}: only regions that serve can be compared; wait"
            " until `anabranch status` shows that it serves"
        )


def _require_link(wrong: RegionClient, right: RegionClient) -> None:
    """Raises CliError unless the region receives from the peer, and their counters compare."""
    if forks_between(Side(wrong), Side(right)):
        raise CliError(
            f"{wrong.name} and {right.name} are forked: their counters do not compare, so nothing"
            f" is rebuilt here; {PAGE} says what to do"
        )
    peer = next((one for one in wrong.peers() if one.name == right.name), None)
    if peer is None or peer.link != "up" or peer.lost:
        state = "none" if peer is None else "lost" if peer.lost else peer.link
        raise CliError(
            f"{wrong.name} receives nothing from {right.name} (link {state}): it can be rebuilt"
            " only from a region with which its link is up"
        )


def _level(wrong: RegionClient, right: RegionClient) -> tuple[Side, Side]:
    """Both sides, once their vectors are equal; CliError if that takes too long."""
    deadline = time.monotonic() + _LEVEL_S
    while True:
        sides = Side(wrong), Side(right)
        if sides[0].vector == sides[1].vector:
            return sides
        if time.monotonic() > deadline:
            break
        for client in (wrong, right):
            client.call("CRDT.SYNC", int(_POLL_S * 1000))
        time.sleep(_POLL_S)
    found = Difference(*sides)
    found.find_lacks(wrong.members())
    told = (
        f"{wrong.name} and {right.name} have not applied the same effects, so what they hold"
        " differently may be on its way; stop their clients, and wait until `anabranch status`"
        " shows that neither lacks anything:"
    )
    raise CliError("\n  ".join([told, *found.lines()]))
