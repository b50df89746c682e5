"""The interface of a scenario's cluster: real regions (`live`) or simulated ones (`virtual`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from anabranch.region.resp.decoder import DecodedReply
from anabranch.sim.plan import Fault, Link
from anabranch.sim.scenario.model import Scenario


class Ticket:
    """A command that was sent, and its fate.

    `is_open` until the client has the reply, or knows that it never will: the command was `refused`
    (the region could not be reached), or is `lost` with the connection. `reply` counts once
    `has_reply` is set; in the simulator a lost command may have a reply, too.
    """

    __slots__ = ("has_reply", "is_open", "lost", "refused", "reply")

    def __init__(self) -> None:
        self.is_open = True
        self.has_reply = False
        self.reply: DecodedReply = None
        self.lost = False
        self.refused = False

    def computed(self, reply: DecodedReply) -> None:
        """The region has computed this reply; its client may not have it yet."""
        self.reply = reply
        self.has_reply = True

    def answered(self) -> None:
        """The client has the reply."""
        self.is_open = False

    def lose(self) -> None:
        """The client will never have the reply."""
        if self.is_open:
            self.is_open = False
            self.lost = True

    def refuse(self) -> None:
        """The command was never sent."""
        self.is_open = False
        self.refused = True


class ScenarioCluster(Protocol):
    """Regions by region_id, and clients by label; label 0 is each region's own client.

    A client has one connection, so MULTI, WATCH and BLOCK work. It reconnects when it sends a
    command to another region.
    """

    def prepare(self, scenario: Scenario) -> None:
        """Empties the regions and applies the scenario's mode, settings and links; time begins."""

    def post(
        self, region: int, client: int, commands: Sequence[Sequence[bytes]], at_once: bool
    ) -> list[Ticket]:
        """Sends commands together.

        Waits for a region that cannot be reached; with `at_once` the commands are refused instead.
        """

    def settle(self, ticket: Ticket) -> None:
        """Waits until the ticket is closed, within the cluster's patience."""

    def is_blocked(self, ticket: Ticket) -> bool:
        """Whether the command has no reply after a short wait."""

    def gather(self, wanted: Sequence[Ticket]) -> None:
        """Reads the replies that are there; a live cluster waits a moment for those of `wanted`."""

    def hang_up(self, region: int, client: int) -> None:
        """Closes a client's connection."""

    def strike(self, fault: Fault) -> None:
        """Begins a fault now; a state ends by itself after its duration."""

    def open_links(self, links: Iterable[Link], waits: bool) -> None:
        """Opens links; with `waits`, returns when each of them receives."""

    def close_links(self, links: Iterable[Link]) -> None:
        """Closes links; they carry nothing after this has returned."""

    def sync(self, regions: Sequence[int]) -> bool:
        """Sends `CRDT.SYNC` to all at once; whether all answered 1."""

    def vectors(self, regions: Sequence[int]) -> dict[int, dict[int, int]]:
        """region_id → version vector."""

    def links(self, regions: Sequence[int]) -> dict[int, dict[int, str]]:
        """region_id → peer → state of the link by which the region receives, as in `CRDT.PEERS`."""

    def sleep(self, duration_ms: int) -> None:
        """Lets time pass in all regions."""

    def until(self, at_ms: int) -> None:
        """Lets time pass until `at_ms` after the beginning, before the events of that moment."""

    def conclude(self, judged: bool) -> list[tuple[str, str]]:
        """Ends the run; returns (judge, violation) pairs.

        With `judged`, faults end first and all regions must converge.
        """
