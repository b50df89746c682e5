"""`anabranch cluster show`: a cluster file made from running regions."""

from __future__ import annotations

from anabranch.answers import members_of
from anabranch.cli.addresses import (
    AtOption,
    ClusterOption,
    PasswordOption,
    RegionAddress,
    file_text,
    find,
)
from anabranch.cli.errors import CliError, Unreachable
from anabranch.cli.printing import JsonOption, print_json


def show(
    json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Print a cluster file for the regions at the given addresses.

    `anabranch cluster show --at HOST:PORT … > cluster.toml` makes the file that the other commands
    take with --cluster, from regions that `anabranch up` did not start. Give the client address of
    every region. A region that does not answer is in the file if the others leave one name for it.
    """
    places = find(cluster, at, password, some_down=True)
    names: set[str] = set()
    members: dict[int, str] = {}
    for place in places:
        if place.region_id:
            facts = _facts(place, password)
            members |= members_of(facts)
            names |= {facts["crdt_cluster"]} if "crdt_cluster" in facts else set()
    if len(names) > 1:
        raise CliError(f"these are regions of several clusters: {', '.join(sorted(names))}")
    nameless = [place.resp for place in places if not place.region_id]
    if nameless:
        raise CliError(
            f"{', '.join(nameless)} do not answer, and which regions they are is not known"
        )
    known = {place.region_id for place in places}
    missing = [name for region_id, name in sorted(members.items()) if region_id not in known]
    if missing:
        raise CliError(
            f"{', '.join(missing)}: the cluster has such a member, and no address of it was given;"
            " give --at HOST:PORT for each region"
        )
    places.sort(key=lambda place: place.region_id)
    name = names.pop()
    if json:
        rows = [
            {"name": one.name, "id": one.region_id, "resp": one.resp, "sync": one.sync or None}
            for one in places
        ]
        print_json({"cluster": name, "regions": rows, "problems": []})
    else:
        print(file_text(name, places, "anabranch cluster show"), end="")


def _facts(place: RegionAddress, password: str | None) -> dict[str, str]:
    """The section `crdt` of INFO; empty if the region does not answer."""
    try:
        with place.client(password) as client:
            return client.facts()
    except Unreachable:
        return {}
