"""Regions as processes on this machine, started with `anabranch serve`, ended by process id."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from anabranch import build
from anabranch.sim.scenario.cluster import ClusterError
from anabranch.sim.scenario.signals import signals_wait
from anabranch.sim.scenario.wire import Wire, WireError

HOST = "127.0.0.1"
START_PATIENCE_S = 60.0
STOP_PATIENCE_S = 20.0
LOG_TAIL_LINES = 30
# Below the range from which the system takes ports of outgoing connections.
_LOWEST_PORT, _HIGHEST_PORT = 10_000, 32_000


def free_ports(count: int) -> list[int]:
    """Different TCP ports on which no process listens.

    They lie below the range of outgoing connections, so that a killed region finds its port free.
    """
    found: dict[int, None] = {}
    while len(found) < count:
        port = random.randrange(_LOWEST_PORT, _HIGHEST_PORT)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((HOST, port))
            found[port] = None
    return list(found)


def end(process: subprocess.Popen[bytes], patience_s: float) -> bool:
    """Sends SIGTERM, and SIGKILL if the process lives on; returns whether SIGTERM was enough."""
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(patience_s)
        return False
    return True


class RegionProcess:
    """One region: its addresses, its files, and its process while that runs."""

    def __init__(self, name: str, region_id: int, ports: Sequence[int], directory: Path) -> None:
        self.name = name
        self.region_id = region_id
        self.resp_port, self.sync_port, self.http_port = ports
        self.data = directory / name
        self.log = directory / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        return f"{HOST}:{self.resp_port}"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def wire(self, timeout_s: float = 30.0) -> Wire:
        """A new connection."""
        return Wire(HOST, self.resp_port, timeout_s)

    def log_tail(self) -> str:
        """The last lines that the region printed."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-LOG_TAIL_LINES:])


class ProcessCluster:
    """Regions that all dial each other.

    Their files go into `directory`, or without one into a temporary one that `stop` removes.
    """

    def __init__(
        self,
        names: Sequence[str] = ("us", "eu", "ap"),
        flags: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.is_temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="anabranch-"))
        self.flags = dict(flags or {})
        ports = free_ports(3 * len(names))
        self.regions = {
            name: RegionProcess(name, n + 1, ports[3 * n : 3 * n + 3], self.directory)
            for n, name in enumerate(names)
        }

    def __enter__(self) -> ProcessCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __getitem__(self, name: str) -> RegionProcess:
        return self.regions[name]

    def program(self, name: str) -> tuple[list[str], dict[str, str]]:
        """The beginning of the command line of a region, and its environment."""
        return build.command(), build.environment()

    def command(self, name: str, extra: Sequence[str] = ()) -> list[str]:
        """The command line of one region; by default it runs the build of this process."""
        region = self.regions[name]
        line = [*self.program(name)[0], "serve", "--cluster", "scenario"]
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
            f"{HOST}:{region.sync_port}",
            "--http",
            f"{HOST}:{region.http_port}",
        ]
        for peer in self.regions.values():
            if peer is not region:
                line += ["--peer", f"{peer.name}@{HOST}:{self.dialled_port(name, peer.name)}"]
        line += ["--data", str(region.data)]
        for flag, value in self.flags.items():
            line += [f"--{flag}", value]
        return [*line, *extra]

    def dialled_port(self, receiver: str, sender: str) -> int:
        """The port that a region dials to receive from another one."""
        return self.regions[sender].sync_port

    def start(self, name: str, extra: Sequence[str] = (), wait: bool = True) -> RegionProcess:
        """Starts a region; by default returns once the region answers PING."""
        region = self.regions[name]
        assert not region.running, f"{name} runs already"
        with region.log.open("ab") as log, signals_wait():
            region.process = subprocess.Popen(
                self.command(name, extra),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(self.program(name)[1], PYTHONUNBUFFERED="1"),
            )
        if wait:
            self.await_answer(name)
        return region

    def start_all(self) -> None:
        """Starts all regions, and waits until every start is over (S13.6).

        That is so once each region has issued an effect that all others have.
        """
        for name in self.regions:
            self.start(name, wait=False)
        for name in self.regions:
            self.await_answer(name)
        for region in self.regions.values():
            with region.wire() as wire:
                wire.call("XADD", "started", "*", "by", region.name)
                wire.call("DEL", "started")
        if len(self.regions) > 1:
            self.level()

    def await_answer(self, name: str) -> None:
        """Waits until a region answers PING.

        ClusterError, with the end of the region's log, if the region ends or takes too long.
        """
        region = self.regions[name]
        deadline = time.monotonic() + START_PATIENCE_S
        while time.monotonic() < deadline:
            if not region.running:
                raise ClusterError(f"region {name} ended while starting:\n{region.log_tail()}")
            try:
                with region.wire(2.0) as wire:
                    if wire.call("PING") == b"PONG":
                        return
            except WireError:
                pass
            time.sleep(0.02)
        raise ClusterError(
            f"region {name} does not answer PING after {START_PATIENCE_S} s:\n{region.log_tail()}"
        )

    def level(self, patience_s: float = 60.0) -> dict[int, int]:
        """Waits until all running regions have equal vectors; returns the vector.

        ClusterError if that takes longer than `patience_s`.
        """
        running = [region for region in self.regions.values() if region.running]
        deadline = time.monotonic() + patience_s
        vectors: list[dict[int, int]] = []
        while time.monotonic() < deadline:
            answers = []
            vectors = []
            for region in running:
                with region.wire(patience_s + 30.0) as wire:
                    answers.append(wire.call("CRDT.SYNC", 2000))
            for region in running:
                with region.wire() as wire:
                    vectors.append(vector_of(wire))
            if all(answer == 1 for answer in answers) and all(
                vector == vectors[0] for vector in vectors
            ):
                return vectors[0]
            time.sleep(0.02)
        raise ClusterError(f"regions did not level within {patience_s} s: {vectors}")

    def kill(self, name: str) -> None:
        """Sends SIGKILL to the process, which this object has started."""
        process = self.regions[name].process
        assert process is not None, f"{name} was never started"
        process.kill()
        process.wait(STOP_PATIENCE_S)

    def pause(self, name: str) -> None:
        """Sends SIGSTOP: the process stands still until `resume`."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Sends SIGCONT."""
        self._signal(name, signal.SIGCONT)

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = self.regions[name].process
        assert process is not None, f"{name} was never started"
        process.send_signal(number)

    def terminate(self, name: str) -> None:
        """Sends SIGTERM; ClusterError, after a SIGKILL, if the region does not end in time."""
        process = self.regions[name].process
        if process is None or process.poll() is not None:
            return
        if not end(process, STOP_PATIENCE_S):
            raise ClusterError(
                f"region {name} did not end within {STOP_PATIENCE_S} s of SIGTERM:"
                f"\n{self[name].log_tail()}"
            )

    def stop(self) -> None:
        """Ends every region, and removes a temporary directory."""
        for region in self.regions.values():
            if region.process is not None and region.process.poll() is None:
                # A paused process would not receive SIGTERM.
                region.process.send_signal(signal.SIGCONT)
                region.process.terminate()
        for region in self.regions.values():
            if region.process is not None:
                try:
                    region.process.wait(STOP_PATIENCE_S)
                except subprocess.TimeoutExpired:
                    region.process.kill()
                    region.process.wait(STOP_PATIENCE_S)
        if self.is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)


def vector_of(wire: Wire) -> dict[int, int]:
    """region_id → highest counter on the region's disk (`CRDT.VECTOR`)."""
    reply = wire.call("CRDT.VECTOR")
    if not isinstance(reply, list):
        raise ClusterError(f"{wire.address}: CRDT.VECTOR answered {reply!r}")
    numbers = [one for one in reply if isinstance(one, int)]
    if len(numbers) != len(reply):
        numbers = [int(one) for one in reply if isinstance(one, (int, bytes))]
    return dict(zip(numbers[0::2], numbers[1::2], strict=True))
