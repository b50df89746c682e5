"""Outages of live regions: which regions stand still while one starts."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.sim.plan import Fault, Link
from anabranch.sim.scenario.admins import Admins, Endpoint
from anabranch.sim.scenario.live import LiveCluster

NAMES = {1: "us", 2: "eu", 3: "ap"}


class Region:
    """A region process that only notes what happens to it."""

    running = True

    def __init__(self, region_id: int) -> None:
        self.region_id = region_id
        self.name = NAMES[region_id]


class Processes:
    """Fakes a `ProcessCluster`. `done`: what was done, in order."""

    def __init__(self) -> None:
        self.regions = {NAMES[one]: Region(one) for one in NAMES}
        self.done: list[str] = []

    def __getitem__(self, name: str) -> Region:
        return self.regions[name]

    def kill(self, name: str) -> None:
        self.done.append(f"kill {name}")

    def start(self, name: str) -> None:
        self.done.append(f"start {name}")

    def pause(self, name: str) -> None:
        self.done.append(f"pause {name}")

    def resume(self, name: str) -> None:
        self.done.append(f"resume {name}")


class Told(Admins):
    """Regions that answer every command with OK. `done` lists the commands."""

    def __init__(self, endpoints: dict[int, Endpoint], done: list[str]) -> None:
        super().__init__(endpoints, lambda region: None)
        self.done = done

    def ok(self, region: int, *argv: str) -> None:
        self.done.append(f"{NAMES[region]}: {' '.join(argv)}")


class Cluster(LiveCluster):
    """A live cluster of such regions."""

    def __init__(self, processes: Any) -> None:
        endpoints = {one: Endpoint(name, "127.0.0.1", 1) for one, name in NAMES.items()}
        super().__init__(endpoints, processes)
        self._admins = Told(endpoints, processes.done)


@pytest.mark.parametrize(
    ("closed", "around"),
    [
        ([], []),
        # eu and ap still receive from each other, and us from both.
        ([(2, 1), (3, 1)], []),
        ([(1, 2)], ["eu"]),
        ([(1, 2), (2, 1), (1, 3)], ["eu", "ap"]),
    ],
)
def test_a_region_receives_nothing_over_closed_links(closed: list[Link], around: list[str]) -> None:
    """A start opens all links of the region. Their senders stand still until they are closed."""
    processes = Processes()
    cluster = Cluster(processes)
    cluster.close_links(closed)
    processes.done.clear()
    cluster.strike(Fault(0, "kill", (1,), 0, 0))
    cluster.sleep(1)
    assert processes.done == [
        "kill us",
        *(f"pause {name}" for name in around),
        "start us",
        *(f"us: CRDT.LINK {name} DOWN" for name in around),
        *(f"resume {name}" for name in reversed(around)),
    ]
