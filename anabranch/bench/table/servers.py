"""A redis-server and a region, each alone on this machine, with the same durability."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Optional, Self

from anabranch.answers import info_of
from anabranch.bench.harness import cpu_times, wait_for
from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.ports import HOST, free_ports
from anabranch.cluster.processes import end, spawn, wait_until
from anabranch.cluster.regions import ProcessCluster
from anabranch.cluster.signals import signals_wait
from anabranch.region.resp.request import Word

PATIENCE_S: Final = 300.0
US: Final = "us"


def names_of(regions: int) -> list[str]:
    """Names of so many regions; the first one is measured."""
    return [US, *(f"r{number}" for number in range(1, regions))]


def cpu_s(process_id: int) -> float:
    """CPU that a process and its ended children have used; that of the children by 10 ms."""
    # The clock of another process, numbered as clock_getcpuclockid(3) does. A short run of a fast
    # command uses less than the 10 ms of /proc.
    own_s = time.clock_gettime(~process_id << 3 | 2)
    return own_s + sum(cpu_times(Path(f"/proc/{process_id}"))[2:])


def answered(port: int, *argv: Word) -> object:
    """The reply to one command on a new connection; None if no server listens there."""
    try:
        with RespClient(HOST, port, PATIENCE_S) as client:
            return client.call(*argv)
    except ConnectionFailed:
        return None


class Server:
    """A server that runs while it is entered."""

    name: str
    port: int

    @property
    def process_id(self) -> int:
        """Of the running server."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts it, and returns before it answers."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ends it and keeps its files."""
        raise NotImplementedError

    def remove(self) -> None:
        """Ends it and removes its files."""
        raise NotImplementedError

    def info(self) -> dict[str, str]:
        """INFO as one dict."""
        reply = answered(self.port, "INFO", "everything")
        return info_of(reply) if isinstance(reply, bytes) else {}

    def is_quiet(self) -> bool:
        """Whether no work of its own goes on in the background."""
        raise NotImplementedError

    def await_quiet(self) -> None:
        """Waits until no work goes on in the background."""
        wait_for(self.is_quiet, f"the end of {self.name}'s work", PATIENCE_S)

    def await_answer(self, right: Callable[[object], bool], *argv: Word) -> None:
        """Waits until `right` holds for the reply to a command."""
        if not wait_until(lambda: right(answered(self.port, *argv)), PATIENCE_S, 0.002):
            raise ClusterError(f"{self.name} does not answer {argv} as expected")

    def call(self, *argv: Word) -> Any:
        """The reply to one command; ClusterError if it is an error."""
        with RespClient(HOST, self.port, PATIENCE_S) as client:
            return client.ask(*argv)

    def cpu_s(self) -> float:
        """CPU that it has used."""
        return cpu_s(self.process_id)

    def __enter__(self) -> Self:
        self.start()
        self.await_answer(lambda reply: reply == b"PONG", "PING")
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.remove()


class RedisServer(Server):
    """A redis-server with an append-only file, and no snapshots of its own accord."""

    name = "redis-server"

    def __init__(self, appendfsync: str = "everysec") -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise ClusterError("redis-server is not installed: install the package of that name")
        self.port = free_ports(1)[0]
        self._directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self._line = [program, "--bind", HOST, "--port", str(self.port), "--save", ""]
        self._line += ["--dir", str(self._directory)]
        self._line += ["--appendonly", "yes", "--appendfsync", appendfsync]
        self._process: Optional[subprocess.Popen[bytes]] = None

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with signals_wait():
            self._process = spawn(self._line, Path(os.devnull))

    def stop(self) -> None:
        if self._process is not None:
            end(self._process, 60.0)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def is_quiet(self) -> bool:
        return self.info().get("aof_rewrite_in_progress", "0") == "0"


class RegionServer(Server):
    """A region, alone in its cluster."""

    name = "anabranch"

    def __init__(
        self, appendfsync: str = "everysec", cluster: Optional[ProcessCluster] = None
    ) -> None:
        self._cluster = cluster or ProcessCluster([US], settings={"appendfsync": appendfsync})
        self.port = self._cluster[US].resp_port

    @property
    def process_id(self) -> int:
        return self._cluster[US].pid()

    def start(self) -> None:
        self._cluster.start(US, wait=False)

    def stop(self) -> None:
        self._cluster.stop(US)

    def remove(self) -> None:
        self._cluster.close()

    def is_quiet(self) -> bool:
        return self.info().get("rdb_changes_since_last_save", "0") == "0"

    def http(self) -> str:
        """The address of /metrics."""
        return f"http://{HOST}:{self._cluster[US].http_port}/metrics"


class InterpretedCluster(ProcessCluster):
    """Regions that run the interpreted modules, whatever runs this program."""

    def program(self, name: str) -> tuple[list[str], dict[str, str]]:
        line, environment = super().program(name)
        return line, {**environment, "ANABRANCH_PURE": "1"}
