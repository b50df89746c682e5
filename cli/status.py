"""`anabranch status`: regions, links, vectors, lag, digests."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from anabranch.cli.addresses import (
    AtOption,
    ClusterOption,
    PasswordOption,
    RegionAddress,
    clients,
    find,
)
from anabranch.cli.client import PeerFacts, RegionClient, listed_members
from anabranch.cli.errors import CliError


class RegionFacts:
    """The state of one region as it reports it; `error` instead if the region does not answer."""

    def __init__(self, place: RegionAddress) -> None:
        self.place = place
        self.error = ""
        self.vector: dict[int, int] = {}
        self.digest = ""
        self.peers: list[PeerFacts] = []
        self.info: dict[str, str] = {}

    @property
    def state(self) -> str:
        """starting, serving, recovery or failed; unreachable if the region does not answer."""
        return "unreachable" if self.error else self.info.get("crdt_state", "serving")

    @property
    def divergence(self) -> bool:
        """Whether this region has met an equal vector with another digest (S13.9)."""
        return self.info.get("crdt_divergence", "0") not in ("0", "no", "")


def ask(place: RegionAddress, client: RegionClient) -> RegionFacts:
    """Asks a region for everything that the tables show of it."""
    facts = RegionFacts(place)
    try:
        facts.info = client.info("everything")
        facts.vector = client.vector()
        facts.digest = client.digest()
        facts.peers = client.peers()
    except CliError as error:
        facts.error = str(error)
    return facts


def is_called_lost(region: RegionFacts, regions: list[RegionFacts]) -> bool:
    """Whether every region that answers, and at least one, calls this one lost (S13.8)."""
    lost = [
        {peer.region_id for peer in other.peers if peer.lost}
        for other in regions
        if other is not region and not other.error
    ]
    return bool(lost) and all(region.place.region_id in called for called in lost)


def problems(regions: list[RegionFacts]) -> list[str]:
    """The problems, a line each; empty if there are none.

    A lost region is none, nor a link from it, nor a link that a region does not have.
    """
    found = [
        region.error for region in regions if region.error and not is_called_lost(region, regions)
    ]
    for region in regions:
        name = region.place.name
        if region.divergence:
            found.append(
                f"{name} reports divergence: equal vectors, unequal digests;"
                " `anabranch diff` shows where"
            )
        if region.state not in ("serving", "starting", "unreachable"):
            waiting = region.info.get("crdt_recovery_waiting_for", "")
            found.append(
                f"{name} is in state {region.state}"
                + (f", waiting for {waiting}" if waiting else "")
            )
        found += [
            f"{name} receives nothing from {peer.name}:"
            f" link {peer.link}{': ' + peer.detail if peer.detail else ''}"
            for peer in region.peers
            if peer.link not in ("up", "none") and not peer.lost
        ]
    answering = [region for region in regions if not region.error]
    for one in answering:
        for other in answering:
            if (
                one.place.region_id < other.place.region_id
                and one.vector == other.vector
                and one.digest != other.digest
            ):
                found.append(
                    f"{one.place.name} and {other.place.name} have equal vectors"
                    " and unequal digests"
                )
    return found


def behind(region: RegionFacts, regions: list[RegionFacts]) -> int:
    """The number of effects that another of these regions has on disk and this one has not."""
    newest: dict[int, int] = {}
    for other in regions:
        for origin, counter in other.vector.items():
            newest[origin] = max(newest.get(origin, 0), counter)
    return sum(counter - region.vector.get(origin, 0) for origin, counter in newest.items())


def _vector(vector: dict[int, int], names: dict[int, str]) -> str:
    return (
        "  ".join(
            f"{names.get(origin, origin)}:{counter}" for origin, counter in sorted(vector.items())
        )
        or "empty"
    )


def _regions_table(regions: list[RegionFacts], names: dict[int, str]) -> Table:
    table = Table(title=None, box=None, pad_edge=False, header_style="bold")
    for column in ("region", "id", "redis", "state", "build", "vector", "behind", "digest"):
        table.add_column(
            column, justify="right" if column in ("id", "behind") else "left", overflow="fold"
        )
    for region in regions:
        shown = [
            region.info.get("anabranch_build", ""),
            _vector(region.vector, names),
            str(behind(region, regions)),
            region.digest[:12],
        ]
        table.add_row(
            region.place.name,
            str(region.place.region_id),
            region.place.resp,
            region.state,
            *(["", "", "", ""] if region.error else shown),
        )
    return table


def _links_table(regions: list[RegionFacts], names: dict[int, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("region", "receives from", "link", "not yet there", "on its disk"):
        table.add_column(column, overflow="fold")
    for region in regions:
        for peer in region.peers:
            acknowledged = _vector(peer.acknowledged, names)
            link = (
                "lost"
                if peer.lost
                else f"{peer.link}, {peer.delay_ms} ms late"
                if peer.delay_ms
                else peer.link
            )
            table.add_row(region.place.name, peer.name, link, str(peer.lag), acknowledged)
    return table


def as_json(regions: list[RegionFacts]) -> list[dict[str, Any]]:
    """The facts as JSON for programs."""
    return [
        {
            "name": region.place.name,
            "region_id": region.place.region_id,
            "resp": region.place.resp,
            "state": region.state,
            "error": region.error or None,
            "vector": {str(k): v for k, v in region.vector.items()},
            "digest": region.digest or None,
            "links": [
                {"from": peer.name, "state": peer.link, "detail": peer.detail, "lag": peer.lag}
                for peer in region.peers
            ],
            "divergence": region.divergence,
        }
        for region in regions
    ]


def status(
    json: bool = typer.Option(False, "--json", help="Print JSON, for programs."),
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Show regions, links, vectors, lag and digests. Exits with 1 and lists problems, if any."""
    places = find(cluster, at, password)
    with clients(places, password) as connections:
        regions = [ask(place, client) for place, client in zip(places, connections, strict=True)]
    console = Console(soft_wrap=True) if not Console().is_terminal else Console()
    if json:
        console.print_json(data=as_json(regions))
    else:
        names = {place.region_id: place.name for place in places}
        for region in regions:
            names.update(listed_members(region.info))
        console.print(_regions_table(regions, names))
        console.print()
        console.print(_links_table(regions, names))
    wrong = problems(regions)
    if wrong:
        raise CliError(
            "\n  ".join([f"{len(wrong)} problem{'s' if len(wrong) > 1 else ''}:", *wrong])
        )
    if not json:
        equal = len({region.digest for region in regions}) == 1 and len(regions) > 1
        print("\nall regions hold the same" if equal else "")
