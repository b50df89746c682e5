"""`anabranch link`: partitions and slow links in a running cluster.

A link has one direction; these commands change both directions unless ``--one-way`` is given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from anabranch.cli.addresses import AtOption, ClusterOption, PasswordOption, find, named
from anabranch.cli.client import RegionClient
from anabranch.cli.errors import UsageError
from anabranch.region.engine.outbox import LINK_DELAY_MAX_MS

OneArgument = Annotated[str, typer.Argument(metavar="US", help="A region.", show_default=False)]
OtherArgument = Annotated[
    str, typer.Argument(metavar="EU", help="Another region.", show_default=False)
]
OneWayOption = Annotated[bool, typer.Option("--one-way", help="Only the direction from EU to US.")]


def _both(
    one: str,
    other: str,
    action: str,
    delay_ms: list[int],
    one_way: bool,
    cluster: Path | None,
    at: list[str] | None,
    password: str | None,
) -> list[str]:
    places = find(cluster, at, password)
    here, there = named(places, one), named(places, other)
    if here is there:
        raise UsageError(f"a link has two ends; both are {here.name}")
    for receiver, sender in [(here, there)] if one_way else [(here, there), (there, here)]:
        with RegionClient(receiver.resp, receiver.name, password) as client:
            client.link(sender.name, action, *delay_ms)
    return [here.name, there.name]


def cut(
    one: OneArgument,
    other: OtherArgument,
    one_way: OneWayOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Cut the link between two regions.

    Neither receives from the other until the link is healed or the region restarts.
    """
    here, there = _both(one, other, "DOWN", [], one_way, cluster, at, password)
    print(f"cut: {here} {'receives nothing from' if one_way else '—✂—'} {there}")


def heal(
    one: Annotated[
        Optional[str],
        typer.Argument(
            metavar="[US", help="A region; without regions, every link.", show_default=False
        ),
    ] = None,
    other: Annotated[
        Optional[str], typer.Argument(metavar="EU]", help="Another region.", show_default=False)
    ] = None,
    one_way: OneWayOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Heal the link between two regions, or all links: dial at once, and send missed effects."""
    if one is not None and other is not None:
        here, there = _both(one, other, "UP", [], one_way, cluster, at, password)
        print(f"healed: {here} ——— {there}")
    elif one is None:
        places = find(cluster, at, password)
        for receiver in places:
            with RegionClient(receiver.resp, receiver.name, password) as client:
                for sender in places:
                    if sender is not receiver:
                        client.link(sender.name, "UP")
        print(f"healed: every link among {', '.join(place.name for place in places)}")
    else:
        raise UsageError("name two regions, or none for all links")


def delay(
    one: OneArgument,
    other: OtherArgument,
    delay_ms: Annotated[
        int,
        typer.Argument(
            metavar="MS",
            min=0,
            max=LINK_DELAY_MAX_MS,
            help="Delay in milliseconds; 0 ends it.",
            show_default=False,
        ),
    ],
    one_way: OneWayOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Delay the messages between two regions by MS milliseconds."""
    here, there = _both(one, other, "DELAY", [delay_ms], one_way, cluster, at, password)
    print(
        f"no delay: {here} ——— {there}"
        if delay_ms == 0
        else f"delayed by {delay_ms} ms: {here} ~~~ {there}"
    )
