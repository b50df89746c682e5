"""`anabranch clock`: the operator's word about the clocks of regions (S10.2)."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find, named, tell_all
from anabranch.cli.printing import JsonOption, SureJsonOption, YesOption, print_json, require_yes


def reset(
    yes: YesOption = False,
    json: SureJsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Take back a leap of a clock: every region goes on from what its clock reads now.

    A region never lets its time run back by itself. So IDs and deadlines go on from the latest time
    that it has read, also when that was wrong. Set all clocks right first. IDs that were given
    stay, and new ones of their streams are above them.
    """
    require_yes(json, yes)
    places = find(cluster, at, password)
    if not yes:
        typer.confirm("Are the clocks of all regions right now?", abort=True)
    words = ("CRDT.CLOCK", "RESET")
    tell_all(places, password, words, "goes on from what its clock reads", "reset", json)


def trust(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The region whose clock is right.", show_default=False),
    ],
    json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Say that the clock of a region is right, though others differ from it.

    The region then takes writes. With two regions nobody but the operator can tell which clock is
    wrong. The word counts until the clock is set or the region ends.
    """
    place = named(find(cluster, at, password), name)
    with place.client(password) as client:
        client.call("CRDT.CLOCK", "TRUST")
    if json:
        print_json({"region": place.name, "trusts_its_clock": True, "problems": []})
    else:
        print(f"{place.name}: takes its clock for right")
