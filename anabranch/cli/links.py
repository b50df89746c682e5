"""`anabranch link`: partitions and slow links in a running cluster.

A link has one direction; these commands change both directions unless ``--one-way`` is given.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from anabranch.cli import link_flapping, link_status
from anabranch.cli.addresses import (
    AtOption,
    ClusterOption,
    PasswordOption,
    RegionAddress,
    find,
    named,
    toxiproxy_address,
)
from anabranch.cli.errors import CliError, ProblemsTold, UsageError
from anabranch.cli.link_control import (
    LIMIT_STEP,
    Control,
    Direction,
    NoLink,
    RegionControl,
    ToxiproxyControl,
    change,
    check_exists,
    peer_facts,
)
from anabranch.cli.printing import JsonOption, print_json
from anabranch.cluster.toxiproxy import Toxiproxy, ToxiproxyError
from anabranch.region.engine.outbox import LINK_DELAY_MAX_MS, LINK_LIMIT_MAX_BYTES_S

OneArgument = Annotated[str, typer.Argument(metavar="US", help="A region.", show_default=False)]
OtherArgument = Annotated[
    str, typer.Argument(metavar="EU", help="Another region.", show_default=False)
]
OneWayOption = Annotated[bool, typer.Option("--one-way", help="Only the direction from EU to US.")]


class Links:
    """The links of a running cluster, and the place at which they are changed."""

    def __init__(
        self,
        cluster: Path | None,
        at: list[str] | None,
        password: str | None,
        *,
        some_down: bool = False,
    ) -> None:
        self.places = find(cluster, at, password, some_down=some_down)
        self.password = password
        address = toxiproxy_address(cluster, at)
        self.toxiproxy = Toxiproxy(address.host, address.port) if address is not None else None

    @property
    def control(self) -> Control:
        """Toxiproxy if the cluster file names it, otherwise the regions."""
        if self.toxiproxy is None:
            return RegionControl(self.password)
        return ToxiproxyControl(self.toxiproxy, self.password)

    def ends(self, one: str, other: str) -> tuple[RegionAddress, RegionAddress]:
        """The two regions; UsageError if they are the same."""
        here, there = named(self.places, one), named(self.places, other)
        if here is there:
            raise UsageError(f"a link has two ends; both are {here.name}")
        return here, there

    def directions(self, one: str, other: str, one_way: bool) -> list[Direction]:
        """The link on which `one` receives from `other`, and the other one unless `one_way`."""
        here, there = self.ends(one, other)
        both = [Direction(there, here), Direction(here, there)]
        return both[:1] if one_way else both

    def all_directions(self) -> list[Direction]:
        """Both directions between any two regions, whether there are such links or not."""
        return [
            Direction(sender, receiver)
            for receiver in self.places
            for sender in self.places
            if sender is not receiver
        ]


def _drawn(directions: list[Direction], line: str) -> str:
    """``us —✂— eu``, or for one direction ``eu → us``."""
    first = directions[0]
    if len(directions) == 1:
        return str(first)
    return f"{first.receiver.name} {line} {first.sender.name}"


def _tell(json: bool, said: str, facts: dict[str, Any]) -> None:
    """Prints the outcome of a command."""
    if json:
        print_json(facts)
    else:
        print(said)


def _as_json(action: str, directions: list[Direction]) -> dict[str, Any]:
    """What was done, to which links, for programs."""
    links = [{"from": one.sender.name, "to": one.receiver.name} for one in directions]
    return {"action": action, "links": links, "problems": []}


def cut(
    one: OneArgument,
    other: OtherArgument,
    one_way: OneWayOption = False,
    json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Cut the link between two regions.

    Neither receives from the other until the link is healed. Without toxiproxy, a restart of a
    region heals its links, too.
    """
    links = Links(cluster, at, password)
    directions = links.directions(one, other, one_way)
    change(links.control, directions, lambda found: replace(found, is_cut=True))
    _tell(json, f"cut: {_drawn(directions, '—✂—')}", _as_json("cut", directions))


def heal(
    one: Annotated[
        Optional[str],
        typer.Argument(
            metavar="US", help="A region; without regions, every link.", show_default=False
        ),
    ] = None,
    other: Annotated[
        Optional[str], typer.Argument(metavar="EU", help="Another region.", show_default=False)
    ] = None,
    one_way: OneWayOption = False,
    json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """End everything that was done to the link between two regions, or to all links.

    That is cuts, delays, limits, and all other toxics. The regions dial at once, and send missed
    effects.
    """
    if one is None and one_way:
        raise UsageError("--one-way needs two regions")
    links = Links(cluster, at, password)
    if one is not None and other is not None:
        directions = links.directions(one, other, one_way)
        said = f"healed: {_drawn(directions, '———')}"
    elif one is None:
        directions = links.all_directions()
        if not directions:
            raise UsageError("one region has no links: name all regions, with --at for each")
        said = f"healed: every link among {', '.join(place.name for place in links.places)}"
    else:
        raise UsageError("name two regions, or none for all links")
    failed = healed(links, directions, are_named=one is not None)
    if failed:
        done = [one for one in directions if one not in {direction for direction, _ in failed}]
        texts = [text for _, text in failed]
        if json:
            print_json(_as_json("heal", done) | {"problems": texts})
        told = f"{len(done)} of {len(directions)} links healed:"
        raise ProblemsTold("\n  ".join([told, *texts]))
    _tell(json, said, _as_json("heal", directions))


def healed(
    links: Links, directions: list[Direction], are_named: bool
) -> list[tuple[Direction, str]]:
    """Heals at toxiproxy and inside the regions; returns the failures.

    Each is healed even if the other does not answer. A link that does not exist is a failure only
    if the user named it.
    """
    failed: list[tuple[Direction, str]] = []
    for direction in directions:
        for heal in (_heal_proxy, _heal_region):
            try:
                heal(links, direction)
            except NoLink as error:
                if are_named:
                    failed.append((direction, str(error)))
            except CliError as error:
                failed.append((direction, f"{direction} may not be healed: {error}"))
    return failed


def _heal_proxy(links: Links, direction: Direction) -> None:
    """Heals at toxiproxy, if it stands in this link."""
    server = links.toxiproxy
    if server is None:
        return
    try:
        is_there = direction.proxy in server.proxies()
    except ToxiproxyError as error:
        raise CliError(str(error)) from None
    if is_there:
        ToxiproxyControl(server, links.password).heal(direction)


def _heal_region(links: Links, direction: Direction) -> None:
    """Heals inside the region that receives."""
    check_exists(direction, peer_facts(direction, links.password))
    RegionControl(links.password).heal(direction)


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
    jitter_ms: Annotated[
        int,
        typer.Option(
            "--jitter",
            metavar="MS",
            min=0,
            max=LINK_DELAY_MAX_MS,
            help="Vary the delay by up to MS milliseconds, up and down; with toxiproxy only.",
        ),
    ] = 0,
    one_way: OneWayOption = False,
    json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Delay the messages between two regions by MS milliseconds."""
    links = Links(cluster, at, password)
    if jitter_ms and links.toxiproxy is None:
        raise UsageError("--jitter needs toxiproxy between the regions, which this cluster has not")
    if jitter_ms > delay_ms:
        raise UsageError(f"--jitter {jitter_ms} is more than the delay of {delay_ms} ms")
    directions = links.directions(one, other, one_way)
    change(
        links.control,
        directions,
        lambda found: replace(found, delay_ms=delay_ms, jitter_ms=jitter_ms),
    )
    spread = f" ± {jitter_ms}" if jitter_ms else ""
    _tell(
        json,
        f"no delay: {_drawn(directions, '———')}"
        if delay_ms == 0
        else f"delayed by {delay_ms}{spread} ms: {_drawn(directions, '~~~')}",
        _as_json("delay", directions) | {"delay_ms": delay_ms, "jitter_ms": jitter_ms},
    )


def limit(
    one: OneArgument,
    other: OtherArgument,
    bytes_s: Annotated[
        int,
        typer.Argument(
            metavar="BYTES",
            min=0,
            max=LINK_LIMIT_MAX_BYTES_S,
            help="Bytes per second; 0 ends the limit. Toxiproxy rounds up to thousands.",
            show_default=False,
        ),
    ],
    one_way: OneWayOption = False,
    json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Let no more than BYTES per second through in each direction between two regions."""
    links = Links(cluster, at, password)
    if links.toxiproxy is not None:
        bytes_s = -(-bytes_s // LIMIT_STEP) * LIMIT_STEP
    directions = links.directions(one, other, one_way)
    change(links.control, directions, lambda found: replace(found, limit_bytes_s=bytes_s))
    _tell(
        json,
        f"no limit: {_drawn(directions, '———')}"
        if bytes_s == 0
        else f"limited to {bytes_s} bytes/s: {_drawn(directions, '~~~')}",
        _as_json("limit", directions) | {"limit_bytes_s": bytes_s},
    )


def flap(
    one: OneArgument,
    other: OtherArgument,
    up_ms: Annotated[
        int, typer.Option("--up-ms", metavar="MS", min=1, help="How long the link is whole.")
    ] = 1000,
    down_ms: Annotated[
        int, typer.Option("--down-ms", metavar="MS", min=1, help="How long the link is cut.")
    ] = 1000,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.001, help="How long to go on.")
    ] = 30.0,
    one_way: OneWayOption = False,
    json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Cut and mend the link between two regions again and again.

    At the end and on Ctrl-C the link is mended. The command stops by itself if somebody else
    changes the link meanwhile.
    """
    links = Links(cluster, at, password)
    directions = links.directions(one, other, one_way)
    flapping = link_flapping.Flapping(links.control, directions)
    if not json:
        _tell_flapping(directions, up_ms, down_ms, seconds)
    cuts = flapping.run(up_ms, down_ms, seconds)
    said = f"mended after {cuts} {'cut' if cuts == 1 else 'cuts'}: {_drawn(directions, '———')}"
    _tell(json, said, _as_json("flap", directions) | {"cuts": cuts})


def _tell_flapping(directions: list[Direction], up_ms: int, down_ms: int, seconds: float) -> None:
    print(
        f"flapping for {seconds:g} s, {down_ms} ms cut and {up_ms} ms whole:"
        f" {_drawn(directions, '—✂—')}",
        flush=True,
    )


def status(
    json: JsonOption = False,
    cluster: ClusterOption = None,
    at: AtOption = None,
    password: PasswordOption = None,
) -> None:
    """Show every link: its state, who cut it, its delay and its limit.

    Exits with 1 if the state of a link cannot be told.
    """
    links = Links(cluster, at, password)
    rows = link_status.collect(links.all_directions(), links.toxiproxy, links.password)
    link_status.show(rows, json)
