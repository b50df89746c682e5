"""What a scenario runs on: real regions (`live`) or simulated ones (`virtual`). The runner knows no more of them than this."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from anabranch.sim.plan import Fault
from anabranch.sim.scenario.model import Link, Scenario
from anabranch.sim.scenario.shape import Reply


class ClusterError(Exception):
    """The cluster cannot do what a scenario needs: a region died, a link did not open, nothing answers."""


class Ticket:
    """A command on its way, and what has become of it.

    `reply` counts once `has_reply` is set; `is_open` until the client has it, or knows that it never will: it was `refused` (the region
    could not be reached), or `lost` with the connection. A lost command may have a reply all the same, if somebody looked on.
    """

    __slots__ = ("has_reply", "is_open", "lost", "refused", "reply")

    def __init__(self) -> None:
        self.is_open = True
        self.has_reply = False
        self.reply: Reply = None
        self.lost = False
        self.refused = False

    def computed(self, reply: Reply) -> None:
        """This is the reply; its client may not have it yet."""
        self.reply = reply
        self.has_reply = True

    def answered(self) -> None:
        """The client has it."""
        self.is_open = False

    def lose(self) -> None:
        """The client will never have it."""
        if self.is_open:
            self.is_open = False
            self.lost = True

    def refuse(self) -> None:
        """It was never sent."""
        self.is_open = False
        self.refused = True


class ScenarioCluster(Protocol):
    """Regions by region_id. A client has one connection: MULTI, WATCH and BLOCK work. It moves when it speaks to another region.

    Clients are known by their labels; 0 is the region's own, one for each.
    """

    def prepare(self, scenario: Scenario) -> None:
        """Leaves regions that hold nothing, with the scenario's mode and settings, and its links closed, or open. Time begins here."""

    def post(
        self, region: int, client: int, commands: Sequence[Sequence[bytes]], at_once: bool
    ) -> list[Ticket]:
        """Sends commands, in one go. A region that cannot be reached is waited for; what is to be sent `at_once`, it refuses."""

    def settle(self, ticket: Ticket) -> None:
        """Waits until the ticket is not open any more, within patience."""

    def is_blocked(self, ticket: Ticket) -> bool:
        """Whether the command is still without a reply after a moment."""

    def gather(self, wanted: Sequence[Ticket]) -> None:
        """Takes in what has been answered; where time is real, waits a moment for those that are wanted."""

    def hang_up(self, region: int, client: int) -> None:
        """Closes a client's connection."""

    def strike(self, fault: Fault) -> None:
        """A fault begins now; states end by themselves after their duration."""

    def open_links(self, links: Iterable[Link], waits: bool) -> None:
        """Opens them; if it `waits`, returns when each receives."""

    def close_links(self, links: Iterable[Link]) -> None:
        """Closes them; nothing more comes over them once this has returned."""

    def sync(self, regions: Sequence[int]) -> bool:
        """`CRDT.SYNC` in each at once: True when all answered 1."""

    def vectors(self, regions: Sequence[int]) -> dict[int, dict[int, int]]:
        """Per region, its version vector."""

    def links(self, regions: Sequence[int]) -> dict[int, dict[int, str]]:
        """Per region, the state of each link by which it receives, as `CRDT.PEERS` says."""

    def sleep(self, duration_ms: int) -> None:
        """Lets time pass in all regions."""

    def until(self, at_ms: int) -> None:
        """Lets time pass until so long after the beginning; nothing that happens at that time itself has happened yet."""

    def conclude(self, judged: bool) -> list[tuple[str, str]]:
        """The end: (judge, what it found). If it is `judged`, after faults have ended and all regions have come to hold the same."""
