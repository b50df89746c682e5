"""Regions as processes on this machine, started with `anabranch serve`, ended by process id."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from anabranch import build
from anabranch.answers import info_of, vector_of
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.ports import HOST, free_ports
from anabranch.cluster.processes import end, end_all, last_lines, serve_words, spawn, wait_until
from anabranch.cluster.signals import signals_wait
from anabranch.region.resp.request import Word

if TYPE_CHECKING:
    import redis

CLUSTER: Final = "local"
START_PATIENCE_S: Final = 90.0
STOP_PATIENCE_S: Final = 20.0
LOG_TAIL_LINES: Final = 40


class RegionProcess:
    """One region: its addresses, its files, and its process while that runs.

    `ports` are those for clients, for other regions and for HTTP.
    """

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

    def started(self) -> subprocess.Popen[bytes]:
        """The newest process of the region, which may have ended."""
        assert self.process is not None, f"{self.name} was never started"
        return self.process

    def pid(self) -> int:
        """The process id."""
        return self.started().pid

    def log_tail(self) -> str:
        """The last lines that the region printed."""
        return "\n".join(last_lines(self.log, LOG_TAIL_LINES))

    def connect(self, timeout_s: float = 30.0) -> RespClient:
        """A new connection."""
        return RespClient(HOST, self.resp_port, timeout_s)

    def answers(self) -> bool:
        """Whether the region answers PING."""
        try:
            with self.connect(2.0) as client:
                return client.call("PING") == b"PONG"
        except ConnectionFailed:
            return False

    def client(self, **options: Any) -> redis.Redis:
        """A redis-py client. Replies are text unless `decode_responses` is given as False."""
        # Imported here: redis-py takes long to import.
        import redis

        return redis.Redis(
            host=HOST,
            port=self.resp_port,
            **{"decode_responses": True, "socket_timeout": 30.0, **options},
        )

    def ask(self, *words: Word, timeout_s: float = 30.0) -> Any:
        """The reply to one command on a new connection; ClusterError if it is an error."""
        with self.connect(timeout_s) as client:
            return client.ask(*words)

    def info(self) -> dict[str, str]:
        """All sections of INFO as one dict."""
        return info_of(self.ask("INFO", "everything"))

    def vector(self) -> dict[int, int]:
        """region_id → highest counter on the region's disk (`CRDT.VECTOR`)."""
        return vector_of(self.ask("CRDT.VECTOR"))

    def digest(self, *key: str) -> str:
        """The digest of the region's converged state, or of one key (`CRDT.DIGEST`)."""
        digest: bytes = self.ask("CRDT.DIGEST", *key, timeout_s=300.0)
        return digest.decode()

    def links(self) -> dict[str, str]:
        """Peer name → state of the link that receives from it (`CRDT.PEERS`)."""
        return {name: link for name, _, link in peers_of(self.ask("CRDT.PEERS"))}


class ProcessCluster:
    """Regions that all dial each other; all are ended when the `with` ends.

    `settings`: flags of every region by name. Files go into `directory`, or without one into a
    temporary one, which `close` removes. `cluster`: the name that the regions give their cluster.
    """

    def __init__(
        self,
        names: Sequence[str] = ("us", "eu", "ap"),
        settings: Mapping[str, str] | None = None,
        directory: Path | None = None,
        cluster: str = CLUSTER,
    ) -> None:
        self.is_temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="anabranch-"))
        self.settings = dict(settings or {})
        self.cluster = cluster
        # (receiver, sender) → the port that the receiver dials instead of the sender's; 0: it does
        # not dial the sender.
        self.detours: dict[tuple[str, str], int] = {}
        ports = free_ports(3 * len(names))
        self.regions = {
            name: RegionProcess(name, n + 1, ports[3 * n : 3 * n + 3], self.directory)
            for n, name in enumerate(names)
        }
        # The regions of a new cluster that were not started yet: it is their first start.
        is_new = not any(region.data.exists() for region in self.regions.values())
        self._unstarted = set(names) if is_new else set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, name: str) -> RegionProcess:
        return self.regions[name]

    def running(self) -> list[RegionProcess]:
        """The regions whose processes live."""
        return [region for region in self.regions.values() if region.running]

    # -- processes

    def program(self, name: str) -> tuple[list[str], dict[str, str]]:
        """The beginning of the command line of a region, and its environment.

        By default it is the build of this process.
        """
        return build.command(), build.environment()

    def command(self, name: str, *extra: str) -> list[str]:
        """The command line of one region."""
        region = self.regions[name]
        dialled = {
            peer: self.detours.get((name, peer), other.sync_port)
            for peer, other in self.regions.items()
            if peer != name
        }
        line = self.program(name)[0] + serve_words(
            self.cluster,
            ((each.name, each.region_id) for each in self.regions.values()),
            name,
            (region.address, f"{HOST}:{region.sync_port}", f"{HOST}:{region.http_port}"),
            ((peer, f"{HOST}:{port}") for peer, port in dialled.items() if port),
            region.data,
            name in self._unstarted,
        )
        for setting, value in self.settings.items():
            line += [f"--{setting}", value]
        return [*line, *extra]

    def start(self, name: str, *extra: str, wait: bool = True) -> RegionProcess:
        """Starts a region with `extra` flags; by default returns once it answers PING."""
        region = self.regions[name]
        assert not region.running, f"{name} runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        environment = {**self.program(name)[1], "PYTHONUNBUFFERED": "1"}
        with signals_wait():
            region.process = spawn(self.command(name, *extra), region.log, environment)
        self._unstarted.discard(name)
        if wait:
            self.await_answer(name)
        return region

    def start_all(self) -> None:
        """Starts all regions, and waits until all answer, and then as `await_started` does."""
        for name in self.regions:
            self.start(name, wait=False)
        for name in self.regions:
            self.await_answer(name)
        self.await_started()

    def await_started(self) -> None:
        """Waits until every start is over (S13.6).

        That is so once each region has issued an effect that all others have.
        """
        for region in self.regions.values():
            with region.connect() as client:
                client.call("XADD", "started", "*", "by", region.name)
                client.call("DEL", "started")
        if len(self.regions) > 1:
            self.level()

    def await_answer(self, name: str) -> None:
        """Waits until a region answers PING.

        ClusterError, with the end of the region's log, if the region ends or takes too long.
        """
        region = self.regions[name]

        def answers() -> bool:
            if not region.running:
                raise ClusterError(f"region {name} ended while starting:\n{region.log_tail()}")
            return region.answers()

        if not wait_until(answers, START_PATIENCE_S):
            raise ClusterError(
                f"region {name} does not answer PING after {START_PATIENCE_S} s:"
                f"\n{region.log_tail()}"
            )

    def kill(self, name: str) -> None:
        """Sends SIGKILL to a region, and waits for its end."""
        process = self.regions[name].started()
        process.kill()
        process.wait(STOP_PATIENCE_S)

    def pause(self, name: str) -> None:
        """Sends SIGSTOP: the process stands still until `resume`."""
        self.regions[name].started().send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Sends SIGCONT."""
        self.regions[name].started().send_signal(signal.SIGCONT)

    def stop(self, name: str) -> None:
        """Sends SIGTERM; ClusterError, after a SIGKILL, if the region does not end in time."""
        region = self.regions[name]
        if region.running and not end(region.started(), STOP_PATIENCE_S):
            raise ClusterError(
                f"region {name} did not end within {STOP_PATIENCE_S} s of SIGTERM:"
                f"\n{region.log_tail()}"
            )

    def close(self) -> None:
        """Ends every region, and removes a temporary directory."""
        running = [region.started() for region in self.running()]
        for process in running:
            # A paused process would not receive SIGTERM.
            process.send_signal(signal.SIGCONT)
        end_all(running, STOP_PATIENCE_S)
        if self.is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    # -- links

    def level(self, patience_s: float = 60.0) -> dict[int, int]:
        """Waits until all running regions have equal vectors; returns the vector.

        ClusterError if that takes longer than `patience_s`.
        """
        vectors: list[dict[int, int]] = []

        def are_equal() -> bool:
            answers = []
            for region in self.running():
                with region.connect(patience_s + 30.0) as client:
                    answers.append(client.call("CRDT.SYNC", 2000))
            vectors[:] = [region.vector() for region in self.running()]
            return answers == [1] * len(vectors) and all(one == vectors[0] for one in vectors)

        if not wait_until(are_equal, patience_s):
            raise ClusterError(f"regions did not level within {patience_s} s: {vectors}")
        return vectors[0]

    def link(self, receiver: str, sender: str, action: str, *arguments: Word) -> None:
        """Sends `CRDT.LINK` to the receiver of a link; ClusterError if it refuses `action`."""
        self.regions[receiver].ask("CRDT.LINK", sender, action, *arguments)

    def cut(self, one: str, other: str) -> None:
        """Cuts the links between two regions, in both directions."""
        self.link(one, other, "DOWN")
        self.link(other, one, "DOWN")

    def heal(self, one: str, other: str) -> None:
        """Opens the links between two regions, in both directions."""
        self.link(one, other, "UP")
        self.link(other, one, "UP")


def peers_of(reply: Any) -> list[tuple[str, int, str]]:
    """A reply to `CRDT.PEERS` in RESP2 as (name, region_id, link state) triples.

    ClusterError if there are none.
    """
    if not isinstance(reply, list) or not reply:
        raise ClusterError(f"CRDT.PEERS answered {reply!r}")
    rows = [dict(zip(row[::2], row[1::2], strict=True)) for row in reply]
    return [(row[b"name"].decode(), int(row[b"region_id"]), row[b"link"].decode()) for row in rows]
