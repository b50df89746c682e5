"""What a scenario runs on: real regions (`sim.scenario.live`) or simulated ones. The runner knows no more of them than this."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from sim.scenario.model import Scenario
from sim.scenario.shape import Reply

Link = tuple[int, int]
"""(receiver, sender), region_ids: a link has one direction."""


class ClusterError(Exception):
    """The cluster cannot do what a scenario needs: a region died, a link did not open, nothing answers."""


class ScenarioCluster(Protocol):
    """Regions by region_id. One client connection a region carries the scenario's commands: MULTI, WATCH and BLOCK work."""

    def prepare(self, scenario: Scenario) -> None:
        """Leaves regions that hold nothing, with the scenario's mode and settings and all links closed."""

    def execute(self, region: int, argv: Sequence[bytes]) -> Reply:
        """The reply of a command."""

    def begin(self, region: int, argv: Sequence[bytes]) -> None:
        """Sends a command whose reply `finish` gives."""

    def waits(self, region: int) -> bool:
        """Whether the command begun is still without a reply."""

    def finish(self, region: int) -> Reply:
        """The reply of the command begun."""

    def open_links(self, links: Iterable[Link]) -> None:
        """Opens them; returns when each receives."""

    def close_links(self, links: Iterable[Link]) -> None:
        """Closes them; nothing more comes over them once this has returned."""

    def sync(self, regions: Sequence[int]) -> bool:
        """`CRDT.SYNC` in each at once: True when all answered 1."""

    def vectors(self, regions: Sequence[int]) -> dict[int, dict[int, int]]:
        """Per region, its version vector."""

    def sleep(self, duration_ms: int) -> None:
        """Lets time pass in all regions."""
