"""The condition of links, read and changed inside the regions, or at a toxiproxy server.

A link has one direction: the receiver dials the sender. Inside a region, CRDT.LINK changes the
links on which that region receives. At a toxiproxy server, the proxy ``SENDER-to-RECEIVER`` carries
the link, and its downstream carries the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from anabranch.cli.addresses import RegionAddress
from anabranch.cli.client import PeerFacts
from anabranch.cli.errors import CliError
from anabranch.cluster.toxiproxy import DOWNSTREAM, Proxy, Toxic, Toxiproxy, ToxiproxyError

# The toxics that `anabranch link` adds and changes.
DELAY_TOXIC: Final = "anabranch-delay"
LIMIT_TOXIC: Final = "anabranch-limit"
# toxiproxy limits in thousands of bytes per second.
LIMIT_STEP: Final = 1000


@dataclass(frozen=True)
class Direction:
    """One link: the way of data from one region to another."""

    sender: RegionAddress
    receiver: RegionAddress

    def __str__(self) -> str:
        return f"{self.sender.name} → {self.receiver.name}"

    @property
    def proxy(self) -> str:
        """The name of its proxy."""
        return f"{self.sender.name}-to-{self.receiver.name}"


@dataclass(frozen=True)
class Condition:
    """What was done to a link. `others`: toxics that `anabranch link` did not add."""

    is_cut: bool = False
    delay_ms: int = 0
    jitter_ms: int = 0
    limit_bytes_s: int = 0
    others: tuple[str, ...] = ()


class NoLink(CliError):
    """The receiver does not dial the sender."""


class Control(Protocol):
    """One place at which links are changed. Every method may raise CliError."""

    def read(self, direction: Direction) -> Condition:
        """The condition of a link; NoLink if it does not exist."""

    def write(self, direction: Direction, wanted: Condition) -> None:
        """Brings a link into a condition; `others` stay as they are."""

    def heal(self, direction: Direction) -> None:
        """Ends everything that was done to a link."""


def peer_facts(direction: Direction, password: str | None) -> PeerFacts:
    """What the receiver reports of the link. CliError if the receiver does not answer."""
    receiver = direction.receiver
    with receiver.client(password) as client:
        for peer in client.peers():
            if peer.name == direction.sender.name:
                return peer
    raise CliError(f"{receiver.name} is not in one cluster with {direction.sender.name}")


def check_exists(direction: Direction, peer: PeerFacts) -> None:
    """NoLink if the receiver does not dial the sender."""
    if peer.link == "none":
        raise NoLink(
            f"there is no link {direction}: {direction.receiver.name} does not dial"
            f" {direction.sender.name}; the other direction alone is changed with --one-way"
        )


class RegionControl:
    """Changes links with CRDT.LINK in the region that receives. A restart forgets the changes."""

    def __init__(self, password: str | None) -> None:
        self._password = password

    def read(self, direction: Direction) -> Condition:
        peer = peer_facts(direction, self._password)
        check_exists(direction, peer)
        return Condition(peer.link == "down", peer.delay_ms, 0, peer.limit_bytes_s)

    def write(self, direction: Direction, wanted: Condition) -> None:
        found = self.read(direction)
        receiver, peer = direction.receiver, direction.sender.name
        with receiver.client(self._password) as client:
            if wanted.delay_ms != found.delay_ms:
                client.link(peer, "DELAY", wanted.delay_ms)
            if wanted.limit_bytes_s != found.limit_bytes_s:
                client.link(peer, "LIMIT", wanted.limit_bytes_s)
            if wanted.is_cut != found.is_cut:
                client.link(peer, "DOWN" if wanted.is_cut else "UP")

    def heal(self, direction: Direction) -> None:
        self.write(direction, Condition())
        receiver = direction.receiver
        with receiver.client(self._password) as client:
            # UP also dials at once, and opens a link that has found a fork (S13.5).
            client.link(direction.sender.name, "UP")


class ToxiproxyControl:
    """Changes links at a toxiproxy server, outside the regions."""

    def __init__(self, server: Toxiproxy, password: str | None) -> None:
        self._server = server
        self._password = password

    def read(self, direction: Direction) -> Condition:
        try:
            check_exists(direction, peer_facts(direction, self._password))
        except NoLink:
            raise
        except CliError:
            # The region does not answer. Its proxy shows that the link exists.
            pass
        return condition_of(self._proxy(direction))

    def _proxy(self, direction: Direction) -> Proxy:
        try:
            return self._server.proxy(direction.proxy)
        except ToxiproxyError as error:
            raise CliError(f"the link {direction}: {error}") from None

    def write(self, direction: Direction, wanted: Condition) -> None:
        proxy = self._proxy(direction)
        name, found = proxy.name, condition_of(proxy)
        try:
            if wanted.is_cut and not found.is_cut:
                self._server.enable(name, False)
            if (wanted.delay_ms, wanted.jitter_ms) != (found.delay_ms, found.jitter_ms):
                self._replace(proxy, _delay_toxic(wanted), bool(wanted.delay_ms))
            if wanted.limit_bytes_s != found.limit_bytes_s:
                self._replace(proxy, _limit_toxic(wanted), bool(wanted.limit_bytes_s))
            if found.is_cut and not wanted.is_cut:
                self._server.enable(name, True)
        except ToxiproxyError as error:
            raise CliError(f"the link {direction}: {error}") from None

    def _replace(self, proxy: Proxy, toxic: Toxic, is_wanted: bool) -> None:
        if proxy.toxic(toxic.name) is not None:
            self._server.remove(proxy.name, toxic.name)
        if is_wanted:
            self._server.add(proxy.name, toxic)

    def heal(self, direction: Direction) -> None:
        try:
            self._server.clean(direction.proxy)
        except ToxiproxyError as error:
            raise CliError(f"the link {direction}: {error}") from None


def condition_of(proxy: Proxy) -> Condition:
    """What the state of a proxy means for its link."""
    delay, limit = proxy.toxic(DELAY_TOXIC), proxy.toxic(LIMIT_TOXIC)
    return Condition(
        not proxy.enabled,
        delay.attributes.get("latency", 0) if delay is not None else 0,
        delay.attributes.get("jitter", 0) if delay is not None else 0,
        limit.attributes.get("rate", 0) * LIMIT_STEP if limit is not None else 0,
        tuple(
            f"{toxic.type} {toxic.stream}"
            for toxic in proxy.toxics
            if toxic.name not in (DELAY_TOXIC, LIMIT_TOXIC)
        ),
    )


def _delay_toxic(wanted: Condition) -> Toxic:
    attributes = {"latency": wanted.delay_ms, "jitter": wanted.jitter_ms}
    return Toxic(DELAY_TOXIC, "latency", DOWNSTREAM, attributes)


def _limit_toxic(wanted: Condition) -> Toxic:
    # At least one step: toxiproxy passes nothing at a rate of 0.
    rate = max(1, -(-wanted.limit_bytes_s // LIMIT_STEP))
    return Toxic(LIMIT_TOXIC, "bandwidth", DOWNSTREAM, {"rate": rate})


def change(
    control: Control, directions: Iterable[Direction], wanted: Callable[[Condition], Condition]
) -> None:
    """Changes all of these links, or none.

    A failure undoes the changes made so far. The CliError names every link for which even that
    failed.
    """
    before = [(direction, control.read(direction)) for direction in directions]
    begun: list[tuple[Direction, Condition]] = []
    for direction, found in before:
        begun.append((direction, found))
        try:
            control.write(direction, _kept(wanted(found), found))
        except CliError as error:
            stands = [text for text in (_undone(control, *one) for one in begun) if text]
            what = f"this stands: {'; '.join(stands)}" if stands else "nothing has been changed"
            raise CliError(f"{error}; {what}") from None


def _kept(wanted: Condition, found: Condition) -> Condition:
    return replace(wanted, others=found.others)


def _undone(control: Control, direction: Direction, found: Condition) -> str:
    """Brings a link back into its former condition; text about what stands if that fails."""
    try:
        if control.read(direction) != found:
            control.write(direction, found)
        return ""
    except CliError as error:
        return f"{direction} may be changed, and could not be changed back ({error})"
