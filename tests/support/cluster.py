"""A live cluster: one `anabranch serve` process for each region.

The processes listen on free loopback ports and keep their data in a directory of the test.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import redis

from anabranch import build
from tests.support.ports import free_ports
from tests.support.processes import eventually, stop

START_PATIENCE_S = 90.0


class LiveRegion:
    """One region process.

    `ports` are those for clients (RESP), for peers (sync) and for HTTP. `settings` are extra flags
    by name, such as ``{"appendfsync": "always"}``.
    """

    def __init__(
        self,
        name: str,
        region_id: int,
        ports: tuple[int, int, int],
        data: Path,
        settings: dict[str, str],
    ) -> None:
        self.name = name
        self.region_id = region_id
        self.resp_port, self.sync_port, self.http_port = ports
        self.data = data
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        self.log = data.with_suffix(".log")

    @property
    def address(self) -> str:
        """The address for clients, as HOST:PORT."""
        return f"127.0.0.1:{self.resp_port}"

    def client(self, **options: Any) -> redis.Redis:
        """A redis-py client; replies are text unless `decode_responses` is given as False."""
        options.setdefault("decode_responses", True)
        options.setdefault("socket_timeout", 30.0)
        return redis.Redis(host="127.0.0.1", port=self.resp_port, **options)

    def pid(self) -> int:
        """Process id of the running region."""
        assert self.process is not None, f"{self.name} is not running"
        return self.process.pid

    def log_tail(self, lines: int = 40) -> str:
        """The last `lines` lines of the region's output; empty if there is none."""
        return (
            "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
            if self.log.exists()
            else ""
        )


class LiveCluster:
    """Regions that dial each other. The fixture calls `close`, which stops them."""

    def __init__(
        self,
        directory: Path,
        names: list[str],
        settings: dict[str, str] | None = None,
        cluster: str = "test",
    ) -> None:
        ports = free_ports(3 * len(names))
        self.cluster = cluster
        self.directory = directory
        # (receiver, sender) → the port that the receiver dials instead of the sender's; 0: it does
        # not dial the sender.
        self.detours: dict[tuple[str, str], int] = {}
        self.regions = {
            name: LiveRegion(
                name,
                n + 1,
                (ports[3 * n], ports[3 * n + 1], ports[3 * n + 2]),
                directory / name,
                dict(settings or {}),
            )
            for n, name in enumerate(names)
        }

    def __getitem__(self, name: str) -> LiveRegion:
        return self.regions[name]

    def client(self, name: str, **options: Any) -> redis.Redis:
        """A redis-py client of a region."""
        return self.regions[name].client(**options)

    def command(self, name: str, *extra: str) -> list[str]:
        """The command line that serves one region."""
        region = self.regions[name]
        line = [*build.command(), "serve", "--cluster", self.cluster]
        line += [
            "--members",
            ",".join(f"{each.name}={each.region_id}" for each in self.regions.values()),
            "--name",
            name,
        ]
        line += [
            "--resp",
            region.address,
            "--sync",
            f"127.0.0.1:{region.sync_port}",
            "--http",
            f"127.0.0.1:{region.http_port}",
        ]
        for peer in self.regions.values():
            port = self.detours.get((name, peer.name), peer.sync_port)
            if peer.name != name and port:
                line += ["--peer", f"{peer.name}@127.0.0.1:{port}"]
        line += ["--data", str(region.data)]
        for setting, value in region.settings.items():
            line += [f"--{setting}", value]
        return [*line, *extra]

    def start(self, name: str, *extra: str, wait: bool = True) -> LiveRegion:
        """Starts one region, and by default waits until it answers PING."""
        region = self.regions[name]
        assert region.process is None or region.process.poll() is not None, f"{name} runs already"
        region.data.parent.mkdir(parents=True, exist_ok=True)
        with region.log.open("ab") as log:
            region.process = subprocess.Popen(
                self.command(name, *extra),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=child_env(),
            )
        if wait:
            self.await_answer(name)
        return region

    def start_all(self) -> None:
        """Starts every region, and waits until all answer PING and all links are up."""
        for name in self.regions:
            self.start(name, wait=False)
        for name in self.regions:
            self.await_answer(name)
        self.await_links()

    def await_answer(self, name: str) -> None:
        """Waits until a region answers PING."""
        region = self.regions[name]

        def answers() -> bool:
            assert region.process is not None and region.process.poll() is None, (
                f"{name} ended:\n{region.log_tail()}"
            )
            with region.client(socket_timeout=2.0) as client:
                return bool(client.ping())

        eventually(answers, START_PATIENCE_S, f"{name} answering PING (its log: {region.log})")

    def await_links(self) -> None:
        """Waits until each running region receives from each other running one."""
        running = [
            region
            for region in self.regions.values()
            if region.process is not None and region.process.poll() is None
        ]

        def up() -> bool:
            return all(
                self.links(region.name).get(peer.name) == "up"
                for region in running
                for peer in running
                if peer is not region and self.detours.get((region.name, peer.name)) != 0
            )

        eventually(up, START_PATIENCE_S, "all links being up")

    def links(self, name: str) -> dict[str, str]:
        """Peer name → state of the link that receives from it."""
        from anabranch.cli.client import RegionClient

        with RegionClient(self.regions[name].address) as client:
            return {peer.name: peer.link for peer in client.peers()}

    def sync(self, timeout_ms: int = 20_000) -> None:
        """Runs a sync round in each running region, and waits until their vectors are equal."""
        running = [
            name
            for name, region in self.regions.items()
            if region.process is not None and region.process.poll() is None
        ]
        for name in running:
            with self.client(name) as client:
                assert client.execute_command("CRDT.SYNC", timeout_ms) == 1, (
                    f"CRDT.SYNC timed out in {name}"
                )

        def equal() -> bool:
            return len({str(self.vector(name)) for name in running}) == 1

        eventually(equal, timeout_ms / 1000, "vectors being equal")

    def vector(self, name: str) -> dict[int, int]:
        """The vector that a region has on its disk, as region_id → counter."""
        with self.client(name) as client:
            flat: Any = client.execute_command("CRDT.VECTOR")
            return {int(flat[n]): int(flat[n + 1]) for n in range(0, len(flat), 2)}

    def digest(self, name: str, *key: str) -> str:
        """Digest of a region's converged state, or of one key."""
        with self.client(name) as client:
            return str(client.execute_command("CRDT.DIGEST", *key))

    def link(self, name: str, peer: str, action: str, *arguments: object) -> None:
        """Sends CRDT.LINK to region `name`; it controls the link that receives from `peer`."""
        with self.client(name) as client:
            client.execute_command("CRDT.LINK", peer, action, *arguments)

    def cut(self, one: str, other: str) -> None:
        """Cuts the links between two regions, in both directions."""
        self.link(one, other, "DOWN")
        self.link(other, one, "DOWN")

    def heal(self, one: str, other: str) -> None:
        """Heals the links between two regions, in both directions."""
        self.link(one, other, "UP")
        self.link(other, one, "UP")

    def kill(self, name: str) -> None:
        """Kills a region with SIGKILL, to simulate a crash."""
        process = self.regions[name].process
        assert process is not None
        process.send_signal(signal.SIGKILL)
        process.wait(10)

    def stop(self, name: str) -> None:
        """Stops a region with SIGTERM, and waits until it has shut down."""
        process = self.regions[name].process
        if process is not None:
            stop(process, 20.0)

    def close(self) -> None:
        """Stops every region that this cluster started, all in parallel."""
        for region in self.regions.values():
            if region.process is not None and region.process.poll() is None:
                region.process.terminate()
        for name in self.regions:
            self.stop(name)


def child_env() -> dict[str, str]:
    """The environment of region processes.

    ANABRANCH_ variables are removed, so that no setting of the caller reaches the region, except
    ANABRANCH_PURE. An installed anabranch takes precedence over the source tree.
    """
    env = build.environment()
    return {
        name: value
        for name, value in env.items()
        if not name.startswith("ANABRANCH_") or name == "ANABRANCH_PURE"
    }
