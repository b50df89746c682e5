"""Every kind of fault strikes, and ends: a fault that does nothing would prove nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from anabranch.chaos.breaking import Breaker, Struck
from anabranch.chaos.clients import Workplace, connect
from anabranch.chaos.history import History
from anabranch.chaos.plan import KINDS, OF_LINKS, Fault, Plan, draw
from anabranch.chaos.regions import ChaosRegions
from tests.support.processes import eventually

pytestmark = [pytest.mark.live, pytest.mark.toxiproxy]

VALUES = {
    "latency": {"latency": 30, "jitter": 5},
    "bandwidth": {"rate": 100},
    "slicer": {"average_size": 200, "size_variation": 100, "delay": 1},
    "slow close": {"delay": 100},
    "reset": {"timeout": 0},
    "timeout": {"timeout": 100},
    "limited data": {"bytes": 2000},
    "clock": {"offset_ms": 50_000},
    "full disk": {"kill": 0},
}


class Place:
    """Two regions, us and eu, and what performs faults on them."""

    def __init__(self, directory: Path) -> None:
        drawn = draw(1, 30, 2, [])
        settings = {"appendfsync": "always", "crdt-reconnect-max-ms": "200"}
        plan = Plan(1, 30, drawn.names, settings, drawn.offsets_ms, ())
        self.regions = ChaosRegions(plan, directory)
        self.regions.start_toxiproxy()
        self.regions.begin_all()
        self.history = History()
        ports = {name: region.resp_port for name, region in self.regions.regions.items()}
        self.breaker = Breaker(plan, self.regions, Workplace(ports, self.history, 1))

    def strike(self, kind: str, *regions: str, **values: int) -> Struck:
        """Begins a fault; the test fails if it could not begin."""
        one = Struck(Fault(kind, 0.0, 1.0, regions, values or VALUES.get(kind, {})), 0.0)
        self.breaker.begin_fault(one)
        assert not one.note, one.note
        return one

    def end(self, one: Struck) -> None:
        self.breaker.end_fault(one)
        assert not one.note, one.note
        for name in self.regions.regions:
            self.regions.await_answer(name)
        self.add("us")
        self.regions.level()

    def failed_commits(self, name: str) -> int:
        """How often a region has logged that its commits began to fail."""
        return self.regions[name].log.read_text().count("no more writes until it succeeds")

    def add(self, name: str) -> None:
        client = connect(self.regions[name].resp_port)
        client.execute_command("XADD", "s", "*", "f", "x" * 1000)
        client.close()

    def info(self, name: str, field: str) -> str:
        client = connect(self.regions[name].resp_port)
        text = client.execute_command("INFO", "everything")
        client.close()
        return str(text[field])

    def pid(self, name: str) -> int:
        return self.regions[name].pid()

    def is_dialled(self, receiver: str) -> bool:
        """Whether the link on which a region receives is up."""
        return self.info(receiver, "crdt_links_up") == "1"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("faults"))
    try:
        yield made
    finally:
        made.regions.close()


@pytest.mark.parametrize("kind", [kind for kind in OF_LINKS if kind in VALUES])
def test_a_toxic_strikes_one_direction_and_goes(place: Place, kind: str) -> None:
    api = place.regions.toxiproxy.api
    one = place.strike(kind, "us", "eu")
    (toxic,) = api.proxy("us-to-eu").toxics
    assert (toxic.stream, dict(toxic.attributes)) == ("downstream", VALUES[kind])
    assert not api.proxy("eu-to-us").toxics
    place.end(one)
    assert not api.proxy("us-to-eu").toxics and api.proxy("us-to-eu").enabled


@pytest.mark.parametrize("kind, is_up", [("cut", False), ("one-way cut", True)])
def test_a_cut(place: Place, kind: str, is_up: bool) -> None:
    eventually(lambda: place.is_dialled("us") and place.is_dialled("eu"), 30, "links being up")
    one = place.strike(kind, "us", "eu")
    eventually(lambda: not place.is_dialled("eu"), 30, "eu being cut off")
    eventually(lambda: place.is_dialled("us") == is_up, 30, "the other direction")
    place.end(one)


def test_kills(place: Place) -> None:
    for kind, names in (("kill", ["us"]), ("kill two", ["us", "eu"])):
        one = place.strike(kind, *names)
        assert not any(place.regions[name].running for name in names)
        place.end(one)
    assert [loss.region for loss in place.history.losses] == ["us", "us", "eu"]
    assert place.regions.deaths == {"us": [], "eu": []}


def test_a_pause(place: Place) -> None:
    one = place.strike("pause", "eu")
    client = connect(place.regions["eu"].resp_port, 0.3)
    with pytest.raises(redis.exceptions.TimeoutError):
        client.ping()
    place.end(one)


def test_a_restart_and_another_clock(place: Place) -> None:
    for kind in ("restart", "clock"):
        before = place.pid("eu")
        place.end(place.strike(kind, "eu"))
        assert place.pid("eu") != before
    times = []
    for name in ("us", "eu"):
        client = connect(place.regions[name].resp_port)
        times.append(client.execute_command("TIME")[0])
        client.close()
    assert times[1] - times[0] > 25


@pytest.mark.parametrize("kill", [0, 1])
def test_a_full_disk(place: Place, kill: int) -> None:
    """Commits fail, and a region that is killed meanwhile has lost nothing that it acknowledged."""

    failed = place.failed_commits("eu")

    def fails() -> bool:
        with contextlib.suppress(redis.exceptions.RedisError):
            place.add("eu")
        return place.failed_commits("eu") > failed

    one = place.strike("full disk", "eu", kill=kill)
    eventually(fails, 60, "commits of eu failing", pause_s=0)
    place.end(one)
    place.add("eu")
    assert place.regions.deaths == {"us": [], "eu": []}


def test_all_kinds_are_tested_here() -> None:
    tested = {*OF_LINKS, "kill", "kill two", "pause", "restart", "clock", "full disk"}
    assert tested == set(KINDS)


def test_a_region_that_ends_by_itself_is_noted_and_started_again(place: Place) -> None:
    place.regions.kill("us")
    assert place.regions.note_deaths() == ["us"]
    assert place.regions.deaths["us"] == ["ended by itself with code -9"]
    place.regions.deaths["us"].clear()
    place.regions.await_answer("us")


def test_a_server_that_died_is_started_again_with_its_proxies(place: Place) -> None:
    place.regions.toxiproxy.stop()
    assert place.regions.repair_toxiproxy() and not place.regions.repair_toxiproxy()
    assert len(place.regions.toxiproxy.api.proxies()) == 2
    place.regions.heal_links()
    place.regions.level()


def test_a_disk_becomes_full_only_once_the_region_serves(place: Place) -> None:
    """A region that was killed was still starting when its disk became full, and could not start.

    It ended with an error, as it should, and the run counted that as a violation.
    """
    killed = place.strike("kill", "eu")
    place.breaker.end_fault(killed)
    one = place.strike("full disk", "eu", kill=0)
    client = connect(place.regions["eu"].resp_port)
    assert client.ping()
    client.close()
    place.end(one)
    assert place.regions.deaths == {"us": [], "eu": []}
