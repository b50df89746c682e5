"""What strangers cost a region: clients without the password, and idle HTTP connections.

Clients that never read and never give the password send commands as fast as the region takes them,
and connect again when they are disconnected. The memory of the region must hardly grow. Then idle
HTTP connections are opened, more than the region keeps, and probes ask for /health beside them.

    anabranch bench acceptance.strangers
"""

from __future__ import annotations

import argparse
import http.client
import socket
import threading
import time

from anabranch.bench.harness import Figures, percentile, resident_bytes, start_all
from anabranch.cluster.ports import HOST
from anabranch.cluster.regions import ProcessCluster, RegionProcess

CLIENTS = 20
IDLE = 500
PROBES = 50
SECONDS = 10.0
GROWTH_LIMIT_MB = 5.0
PROBE_LIMIT_MS = 200.0
_PASSWORD = "a password that nobody gives"
_COMMANDS = b"*2\r\n$4\r\nECHO\r\n$1000\r\n" + b"x" * 1000 + b"\r\n"


class Stranger:
    """A client that sends and never reads; `connections` counts how often it connected."""

    def __init__(self, port: int, stop: threading.Event) -> None:
        self.connections = 0
        self._port = port
        self._stop = stop
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        piece = _COMMANDS * 16
        while not self._stop.is_set():
            try:
                with socket.create_connection((HOST, self._port), 5.0) as client:
                    self.connections += 1
                    client.settimeout(1.0)
                    while not self._stop.is_set():
                        client.sendall(piece)
            except OSError:
                self._stop.wait(0.05)

    def join(self) -> None:
        """Waits until it has ended."""
        self._thread.join(10.0)


def before_auth(figures: Figures, region: RegionProcess, clients: int, seconds: float) -> None:
    """The growth of the region's memory while clients never read."""
    pid, stop = region.pid(), threading.Event()
    before = resident_bytes(pid) / 1e6
    strangers = [Stranger(region.resp_port, stop) for _ in range(clients)]
    most, until_s = before, time.monotonic() + seconds
    while time.monotonic() < until_s:
        time.sleep(0.05)
        most = max(most, resident_bytes(pid) / 1e6)
    stop.set()
    for one in strangers:
        one.join()
    figures.show("connections of clients that never read", sum(o.connections for o in strangers))
    figures.show("memory before", before, "MB")
    figures.at_most("growth of the memory", most - before, GROWTH_LIMIT_MB, "MB")


def probes(figures: Figures, region: RegionProcess, idle: int) -> None:
    """The time of probes beside idle HTTP connections."""
    opened = [socket.create_connection((HOST, region.http_port), 5.0) for _ in range(idle)]
    found = []
    for _ in range(PROBES):
        began_s = time.monotonic()
        probe = http.client.HTTPConnection(HOST, region.http_port, timeout=10.0)
        probe.request("GET", "/health")
        assert probe.getresponse().status == 200
        probe.close()
        found.append(1000 * (time.monotonic() - began_s))
    for one in opened:
        one.close()
    figures.show("idle HTTP connections that were opened", idle)
    figures.show("a probe, median", percentile(found, 0.5), "ms")
    figures.at_most("a probe, slowest", max(found), PROBE_LIMIT_MS, "ms")


def run(clients: int, idle: int, seconds: float) -> Figures:
    """Runs both parts on one region, and shows the figures."""
    figures = Figures(f"{clients} clients without the password, {idle} idle HTTP connections")
    with ProcessCluster(["us"]) as cluster:
        start_all(figures, cluster)
        region = cluster["us"]
        region.ask("CONFIG", "SET", "requirepass", _PASSWORD)
        # The memory of a region that has just started still changes.
        time.sleep(2.0)
        before_auth(figures, region, clients, seconds)
        probes(figures, region, idle)
    return figures


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="anabranch bench acceptance.strangers", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--idle", type=int, default=IDLE)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given = parser.parse_args(arguments)
    return run(given.clients, given.idle, given.seconds).finish()
