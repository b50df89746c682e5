"""`anabranch member lost`: ends the waiting for a region that is gone for good (S13.8)."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find, named, tell_all
from anabranch.cli.errors import CliError
from anabranch.cli.printing import SureJsonOption, YesOption, require_yes


def lost(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The region that is gone for good.", show_default=False
        ),
    ],
    yes: YesOption = False,
    json: SureJsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Tell every other region that NAME is gone for good.

    The regions stop waiting for it, and it must never come back with its old data.
    """
    require_yes(json, yes)
    places = find(cluster, at, password)
    try:
        gone = named(places, name)
        name = gone.name
    except CliError:
        # With --at, the other regions may be all that there are addresses of.
        if not at:
            raise
        gone = None
    told = [place for place in places if place is not gone]
    if not told:
        raise CliError(
            f"there is no other region to tell that {name} is gone for good; with --at, give the"
            " addresses of the others"
        )
    if not yes:
        typer.confirm(
            f"{name} must never come back with its old data. Is it gone for good?", abort=True
        )
    words = ("CRDT.MEMBER", "LOST", name)
    tell_all(told, password, words, f"no longer waits for {name}", "told", json)
