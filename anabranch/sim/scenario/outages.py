"""Outages of processes: kill, restart and pause, and their ends, which come by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Final, Optional

from anabranch.cluster.errors import ClusterError
from anabranch.cluster.regions import ProcessCluster
from anabranch.sim.plan import Fault
from anabranch.sim.scenario.model import Scenario

LIVE: Final = frozenset({"kill", "clean restart", "pause"})
"""Kinds of faults that can strike real processes."""


def only_simulated(scenario: Scenario) -> list[str]:
    """The parts of a scenario that only the simulator can carry out."""
    found = [fault.kind for fault in scenario.faults() if fault.kind not in LIVE]
    found += [
        f"clock of {scenario.name_of(region)}"
        for region, offset_ms in scenario.surroundings.clocks
        if offset_ms
    ]
    found += ["loss of answers"] if scenario.surroundings.loss else []
    return list(dict.fromkeys(found))


class Outages:
    """Outages of regions that this runner started.

    `stops` is called when a process has ended, `starts` when a region answers again. A starting
    region opens its links: it receives nothing from the regions that `closed_from` names before
    `starts` has returned.
    """

    def __init__(
        self,
        processes: Optional[ProcessCluster],
        stops: Callable[[int], None],
        starts: Callable[[int], None],
        closed_from: Callable[[int], Collection[int]],
    ) -> None:
        self._processes = processes
        self._stops = stops
        self._starts = starts
        self._closed_from = closed_from
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._out: dict[int, str] = {}  # region_id → "down" or "paused"

    def is_reachable(self, region: int) -> bool:
        """Whether the region runs."""
        return region not in self._out

    def strike(self, fault: Fault) -> None:
        """Begins a fault; if the region is down or paused already, nothing happens."""
        region = fault.regions[0]
        if not self.is_reachable(region):
            return
        name = self._name(region)
        assert self._processes is not None
        if fault.kind == "pause":
            self._processes.pause(name)
            self._out[region] = "paused"
            self._later(fault, lambda: self._resume(region))
        else:
            if fault.kind == "kill":
                self._processes.kill(name)
            else:
                self._processes.stop(name)
            self._out[region] = "down"
            self._stops(region)
            self._later(fault, lambda: self._start(region))

    def pump(self) -> None:
        """Ends the outages that are over."""
        while self._due and self._due[0][0] <= time.monotonic():
            self._due.pop(0)[1]()

    def finish(self) -> None:
        """Ends all outages now."""
        while self._due:
            self._due.pop(0)[1]()

    def pause_s(self, most_s: float) -> float:
        """Seconds until the next outage ends, at most `most_s`."""
        return min([most_s, *(max(0.0, at_s - time.monotonic()) for at_s, _ in self._due[:1])])

    def await_reachable(self, region: int) -> None:
        """Waits until the region runs; ClusterError if nothing will start it."""
        while not self.is_reachable(region):
            if not self._due:
                raise ClusterError(
                    f"region {self._name(region)} does not run, and nothing will start it"
                )
            time.sleep(self.pause_s(60.0))
            self.pump()

    def _name(self, region: int) -> str:
        if self._processes is None:
            raise ClusterError(
                "only regions that the runner starts itself can be killed, restarted and paused"
            )
        return next(
            each.name for each in self._processes.regions.values() if each.region_id == region
        )

    def _later(self, fault: Fault, end: Callable[[], None]) -> None:
        self._due.append((time.monotonic() + fault.duration_ms / 1000, end))
        self._due.sort(key=lambda due: due[0])

    def _resume(self, region: int) -> None:
        assert self._processes is not None
        self._processes.resume(self._name(region))
        self._out.pop(region, None)

    def _start(self, region: int) -> None:
        assert self._processes is not None
        with ExitStack() as resumed:
            for sender in self._closed_from(region):
                each = self._processes[self._name(sender)]
                if each.running and self.is_reachable(sender):
                    self._processes.pause(each.name)
                    resumed.callback(self._processes.resume, each.name)
            self._processes.start(self._name(region))
            self._out.pop(region, None)
            self._starts(region)
