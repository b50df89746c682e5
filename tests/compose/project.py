"""One compose project, its regions and its proxies."""

from __future__ import annotations

import json
import os
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import redis

from anabranch import build
from anabranch.cli.addresses import FILE_NAME, RegionAddress, write_file
from anabranch.cluster.ports import free_ports
from anabranch.region.option_values import Address
from tests.compose.commands import run
from tests.compose.engine import Engine
from tests.deploy.files import COMPOSE
from tests.support.processes import eventually

REGIONS: Final = ("us", "eu", "ap")
PATIENCE_S: Final = 120.0

_PORTS: Final = (
    *(f"ANABRANCH_PORT_{name.upper()}" for name in REGIONS),
    *(f"ANABRANCH_HTTP_PORT_{name.upper()}" for name in REGIONS),
    "ANABRANCH_TOXIPROXY_PORT",
    "ANABRANCH_CONSOLE_PORT",
)
# Small limits, so that a peer that was away needs a snapshot after few writes.
_SETTINGS: Final = Path(__file__).with_name("settings.yaml")


def _defaults(third_party: bool = False) -> dict[str, str]:
    """Empties the variables of the caller's environment that compose.yaml reads.

    Those of third-party images stay as they are, unless `third_party` is set.
    """
    kept = () if third_party else ("PROMETHEUS_IMAGE", "GRAFANA_IMAGE", "SPARK_IMAGE")
    return {
        name: "" for name in os.environ if name.startswith("ANABRANCH_") and not name.endswith(kept)
    }


class Project:
    """The cluster of deploy/compose.yaml, under a name and on ports of its own.

    `images` has ANABRANCH_IMAGE and ANABRANCH_TOXIPROXY_IMAGE.
    """

    def __init__(self, engine: Engine, name: str, images: Mapping[str, str]) -> None:
        self.engine: Final = engine
        self.name: Final = name
        ports = map(str, free_ports(len(_PORTS)))
        self.environment: Final = {
            **_defaults(),
            **engine.environment,
            "COMPOSE_PROJECT_NAME": name,
            **images,
            **dict(zip(_PORTS, ports, strict=True)),
        }

    # -- compose

    def compose(
        self,
        *arguments: str,
        patience_s: float = PATIENCE_S,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Runs compose with the project's files, and returns its output."""
        return run(
            [*self._line(self.engine.compose), *arguments],
            patience_s=patience_s,
            environment={**self.environment, **(environment or {})},
        )

    def _line(self, compose: Sequence[str]) -> list[str]:
        return [*compose, "-f", str(COMPOSE), "-f", str(_SETTINGS)]

    def configuration(self, compose: Sequence[str], *profiles: str) -> str:
        """The files as one version of compose reads them."""
        asked = [word for profile in profiles for word in ("--profile", profile)]
        line = [*compose, "-f", str(COMPOSE), *asked, "config"]
        return run(line, environment={**_defaults(third_party=True), **self.engine.environment})

    def up(self, *services: str, environment: Mapping[str, str] | None = None) -> None:
        """Creates and starts services, all without a name, from images that are there."""
        alone = ["--no-deps"] if services else []
        self.compose("up", "-d", "--no-build", *alone, *services, environment=environment)

    def down(self) -> None:
        """Removes the containers, networks and volumes of the project."""
        # Without its profile, a service's volume would stay.
        everything = {"COMPOSE_PROFILES": "metrics,spark"}
        self.compose("down", "-v", "--timeout", "30", patience_s=300, environment=everything)

    def container(self, service: str) -> str:
        """The id of a service's container, running or not; empty if there is none."""
        return self.engine.run(
            *("ps", "-aq", "--filter", f"label=com.docker.compose.project={self.name}"),
            *("--filter", f"label=com.docker.compose.service={service}"),
        )

    def services(self) -> set[str]:
        """The services that have a container, running or not."""
        listed = self.engine.run(
            *("ps", "-a", "--filter", f"label=com.docker.compose.project={self.name}"),
            *("--format", '{{.Label "com.docker.compose.service"}}'),
        )
        return set(listed.split())

    def facts(self, service: str) -> dict[str, Any]:
        """What the engine knows of a service's container."""
        (found,) = json.loads(self.engine.run("inspect", self.container(service)))
        facts: dict[str, Any] = found
        return facts

    def inside(self, service: str, *program: str, patience_s: float = 30.0) -> str:
        """Runs a program in a service's container, and returns its output."""
        return self.engine.run("exec", self.container(service), *program, patience_s=patience_s)

    def fails_inside(self, service: str, *program: str) -> bool:
        """Whether a program ends with an error in a service's container."""
        return not self.engine.succeeds("exec", self.container(service), *program)

    def await_healthy(self, *services: str) -> float:
        """Waits until services, all regions without a name, are healthy; returns the seconds."""
        began = time.monotonic()
        for name in services or REGIONS:

            def healthy(name: str = name) -> bool:
                return str(self.facts(name)["State"]["Health"]["Status"]) == "healthy"

            try:
                eventually(healthy, PATIENCE_S, f"{name} being healthy", 0.25)
            except AssertionError as error:
                logs = self.engine.run("logs", "--tail", "40", self.container(name))
                raise AssertionError(f"{error}\n{logs}") from None
        return time.monotonic() - began

    # -- regions

    def client(self, region: str) -> redis.Redis:
        """A client of a region, through its published port."""
        port = int(self.environment[f"ANABRANCH_PORT_{region.upper()}"])
        return redis.Redis(
            host="127.0.0.1", port=port, decode_responses=True, socket_timeout=PATIENCE_S
        )

    def command(self, region: str, *words: object) -> Any:
        """The reply of a region to one command."""
        with self.client(region) as client:
            return client.execute_command(*words)

    def info(self, region: str, section: str) -> dict[str, Any]:
        """One section of a region's INFO."""
        with self.client(region) as client:
            facts: dict[str, Any] = client.info(section)
            return facts

    def links(self, region: str) -> dict[str, bool]:
        """By peer, whether the region receives from it. From /metrics."""
        lines = self.page(region, "/metrics").splitlines()
        begin = 'anabranch_link_up{peer="'
        rows = [line.removeprefix(begin).split('"} ') for line in lines if line.startswith(begin)]
        return {peer: float(value) == 1 for peer, value in rows}

    def page(self, region: str, path: str) -> str:
        """A page of a region's HTTP port."""
        port = self.environment[f"ANABRANCH_HTTP_PORT_{region.upper()}"]
        return self._fetch(f"http://127.0.0.1:{port}{path}")

    def await_links(self) -> None:
        """Waits until each region receives from each other one."""

        def up() -> bool:
            return all(list(self.links(name).values()) == [True, True] for name in REGIONS)

        eventually(up, PATIENCE_S, "each region receiving from the others", 0.1)

    def await_equal(self) -> str:
        """Waits until all regions have one vector and one digest; returns the digest."""

        def equal() -> bool:
            states = {
                (str(self.command(name, "CRDT.VECTOR")), str(self.command(name, "CRDT.DIGEST")))
                for name in REGIONS
            }
            return len(states) == 1

        eventually(equal, PATIENCE_S, "vectors and digests being equal", 0.1)
        for name in REGIONS:
            facts = self.info(name, "crdt")
            assert (facts["crdt_divergence"], facts["crdt_forks"]) == (0, 0), name
        return str(self.command("us", "CRDT.DIGEST"))

    # -- proxies

    def proxies(self) -> dict[str, bool]:
        """The proxies of toxiproxy, and whether each lets data pass."""
        table = json.loads(self._toxiproxy("/proxies"))
        return {name: bool(proxy["enabled"]) for name, proxy in table.items()}

    def cut(self, one: str, other: str) -> None:
        """Cuts both directions between two regions, and waits until both have noticed."""
        self._switch(one, other, passes=False)

    def heal(self, one: str, other: str) -> None:
        """Lets data pass between two regions again, and waits until both receive."""
        self._switch(one, other, passes=True)

    def _switch(self, one: str, other: str, *, passes: bool) -> None:
        self.switch_proxy(one, other, passes=passes)
        self.switch_proxy(other, one, passes=passes)

        def noticed() -> bool:
            return self.links(one)[other] is passes and self.links(other)[one] is passes

        state = "up" if passes else "cut"
        eventually(noticed, PATIENCE_S, f"{one} and {other} noticing that they are {state}", 0.1)

    def switch_proxy(self, sender: str, receiver: str, *, passes: bool) -> None:
        """Lets data pass from one region to another, or cuts this direction."""
        # The receiver is named first, as in the help of `anabranch link`.
        self._link("heal" if passes else "cut", receiver, sender, "--one-way")

    def _link(self, *words: str) -> None:
        """Runs `anabranch link` on this machine, with the ports of the project."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, FILE_NAME)
            places = [
                RegionAddress(
                    name, number, f"127.0.0.1:{self.environment[f'ANABRANCH_PORT_{name.upper()}']}"
                )
                for number, name in enumerate(REGIONS, 1)
            ]
            api = Address("127.0.0.1", int(self.environment["ANABRANCH_TOXIPROXY_PORT"]))
            write_file(path, "compose", places, toxiproxy=api)
            line = [*build.command(), "link", *words, "--cluster", str(path)]
            run(line, environment=build.environment())

    def _toxiproxy(self, path: str) -> str:
        port = self.environment["ANABRANCH_TOXIPROXY_PORT"]
        return self._fetch(f"http://127.0.0.1:{port}{path}")

    @staticmethod
    def _fetch(url: str) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=30) as answer:
            return str(answer.read().decode())


def exit_codes(project: Project) -> dict[str, int]:
    """The exit code of each region's container, which has stopped."""
    return {name: int(project.facts(name)["State"]["ExitCode"]) for name in REGIONS}


def image_bytes(engine: Engine, name: str) -> int:
    """The size of an image, with its base."""
    return int(engine.run("image", "inspect", "--format", "{{.Size}}", name))
